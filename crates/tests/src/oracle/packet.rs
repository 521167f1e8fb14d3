//! Reads packets by fixed offsets.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::DropReason;

use super::checksum::checksum;

/// The fields of an IP header. Offsets count from its first octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleIp {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Length of the packet by its header.
    pub len: usize,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Where the upper layer begins.
    pub upper: usize,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Flow label, zero for IPv4.
    pub flow_label: u32,
    /// Part of a fragmented packet.
    pub is_fragment: bool,
    /// A fragment without the upper-layer header.
    pub is_later_fragment: bool,
    /// Further fragments follow.
    pub is_more: bool,
    /// Where the data of a fragment begins.
    pub fragment_data: usize,
    /// Identification, which all fragments of a packet share.
    pub identification: u32,
    /// The sender forbids fragmentation.
    pub dont_fragment: bool,
}

/// Why octets are no IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OracleIpError {
    Malformed,
    Checksum,
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads an IP header of either family at the front of `bytes`.
pub(super) fn ip(bytes: &[u8]) -> Result<OracleIp, OracleIpError> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => ipv4(bytes),
        Some(6) => ipv6(bytes),
        _ => Err(OracleIpError::Malformed),
    }
}

fn ipv4(bytes: &[u8]) -> Result<OracleIp, OracleIpError> {
    if bytes.len() < 20 {
        return Err(OracleIpError::Malformed);
    }
    let header = usize::from(bytes[0] & 15) * 4;
    let len = usize::from(u16_at(bytes, 2));
    if header < 20 || len < header || len > bytes.len() {
        return Err(OracleIpError::Malformed);
    }
    if checksum(&bytes[..header]) != 0 {
        return Err(OracleIpError::Checksum);
    }
    let addr = |at: usize| IpAddr::V4(Ipv4Addr::from_bits(u32_at(bytes, at)));
    let flags = u16_at(bytes, 6);
    Ok(OracleIp {
        src: addr(12),
        dst: addr(16),
        len,
        protocol: bytes[9],
        upper: header,
        ttl: bytes[8],
        tos: bytes[1],
        flow_label: 0,
        is_fragment: flags & 0x3fff != 0,
        is_later_fragment: flags & 0x1fff != 0,
        is_more: flags & 0x2000 != 0,
        fragment_data: header,
        identification: u16_at(bytes, 4).into(),
        dont_fragment: flags & 0x4000 != 0,
    })
}

/// Extension headers that the walk skips, at most eight: hop-by-hop, routing, fragment,
/// destination, mobility, HIP, shim6. Spec: RFC 8200 §4; IANA IPv6 extension header types.
pub(super) const IPV6_EXTENSIONS: [u8; 7] = [0, 43, 44, 60, 135, 139, 140];

fn ipv6(bytes: &[u8]) -> Result<OracleIp, OracleIpError> {
    if bytes.len() < 40 {
        return Err(OracleIpError::Malformed);
    }
    let len = 40 + usize::from(u16_at(bytes, 4));
    // The product's lengths have 16 bits; no frame of a test is longer.
    if len > bytes.len() {
        return Err(OracleIpError::Malformed);
    }
    let addr =
        |at: usize| IpAddr::V6(Ipv6Addr::from_octets(bytes[at..at + 16].try_into().unwrap()));
    let first = u32_at(bytes, 0);
    let mut ip = OracleIp {
        src: addr(8),
        dst: addr(24),
        len,
        protocol: bytes[6],
        upper: 40,
        ttl: bytes[7],
        tos: (first >> 20) as u8,
        flow_label: first & 0xf_ffff,
        is_fragment: false,
        is_later_fragment: false,
        is_more: false,
        fragment_data: 40,
        identification: 0,
        dont_fragment: true,
    };
    for _ in 0..8 {
        if !IPV6_EXTENSIONS.contains(&ip.protocol) || ip.is_later_fragment {
            break;
        }
        let rest = &bytes[ip.upper..len];
        if rest.len() < 8 {
            return Err(OracleIpError::Malformed);
        }
        let is_fragment_header = ip.protocol == 44;
        let size = if is_fragment_header { 8 } else { 8 + 8 * usize::from(rest[1]) };
        if size > rest.len() {
            return Err(OracleIpError::Malformed);
        }
        if is_fragment_header {
            ip.is_later_fragment = u16_at(rest, 2) >> 3 != 0;
            ip.is_more = rest[3] & 1 != 0;
            ip.is_fragment = ip.is_later_fragment || ip.is_more;
            ip.fragment_data = ip.upper + 8;
            ip.identification = u32_at(rest, 4);
        }
        ip.protocol = rest[0];
        ip.upper += size;
    }
    if IPV6_EXTENSIONS.contains(&ip.protocol) && !ip.is_later_fragment {
        return Err(OracleIpError::Malformed);
    }
    Ok(ip)
}

/// A GTP-U message. Offsets count from its first octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OracleGtpu {
    pub message_type: u8,
    pub teid: u32,
    pub container: Option<OracleContainer>,
    pub payload: usize,
    pub end: usize,
}

/// A PDU Session Container of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OracleContainer {
    pub is_downlink: bool,
    pub qfi: u8,
    pub rqi: bool,
    pub ppi: Option<u8>,
}

/// Reads GTP-U with its chain of extension headers. Spec: TS 29.281 §5.
pub(super) fn gtpu(bytes: &[u8]) -> Result<OracleGtpu, DropReason> {
    if bytes.len() < 8 || bytes[0] >> 4 != 3 {
        return Err(DropReason::GtpuMalformed);
    }
    let end = 8 + usize::from(u16_at(bytes, 2));
    if end > bytes.len() {
        return Err(DropReason::GtpuMalformed);
    }
    let mut message = OracleGtpu {
        message_type: bytes[1],
        teid: u32_at(bytes, 4),
        container: None,
        payload: 8,
        end,
    };
    if bytes[0] & 7 == 0 {
        return Ok(message);
    }
    if end < 12 {
        return Err(DropReason::GtpuMalformed);
    }
    message.payload = 12;
    if bytes[0] & 4 != 0 {
        extensions(&bytes[..end], &mut message)?;
    }
    Ok(message)
}

fn extensions(bytes: &[u8], message: &mut OracleGtpu) -> Result<(), DropReason> {
    const KNOWN: [u8; 9] = [0x03, 0x20, 0x40, 0x81, 0x82, 0x83, 0x84, 0x85, 0xc0];
    let mut kind = bytes[11];
    let mut is_unknown = false;
    let mut walked = 0;
    while kind != 0 {
        let size = bytes.get(message.payload).map_or(0, |units| usize::from(*units) * 4);
        let rest = bytes.len() - message.payload;
        if walked == 8 || size == 0 || size > rest {
            return Err(DropReason::GtpuExtensionMalformed);
        }
        walked += 1;
        let content = &bytes[message.payload + 1..message.payload + size - 1];
        if kind == 0x85 && message.container.is_none() {
            message.container = Some(container(content)?);
        }
        is_unknown |= kind & 0x80 != 0 && !KNOWN.contains(&kind);
        kind = bytes[message.payload + size - 1];
        message.payload += size;
    }
    if is_unknown { Err(DropReason::GtpuExtensionUnknown) } else { Ok(()) }
}

/// A PDU Session Container. Spec: TS 38.415 §5.5.2.
fn container(content: &[u8]) -> Result<OracleContainer, DropReason> {
    let is_downlink = content[0] >> 4 == 0;
    let has_ppi = is_downlink && content[1] & 0x80 != 0;
    if content[0] >> 4 > 1 || has_ppi && content.len() < 3 {
        return Err(DropReason::GtpuExtensionMalformed);
    }
    Ok(OracleContainer {
        is_downlink,
        qfi: content[1] & 0x3f,
        rqi: is_downlink && content[1] & 0x40 != 0,
        ppi: has_ppi.then(|| content[2] >> 5),
    })
}

/// False for addresses that no router forwards. Spec: RFC 1812 §5.3.7; RFC 4291 §2.5.
pub(super) fn is_forwardable(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => {
            !(addr.octets()[0] == 0
                || addr.is_loopback()
                || addr.is_link_local()
                || addr.is_multicast()
                || addr.is_broadcast())
        }
        IpAddr::V6(addr) => {
            !(addr.is_unspecified()
                || addr.is_loopback()
                || addr.is_multicast()
                || addr.is_unicast_link_local())
        }
    }
}
