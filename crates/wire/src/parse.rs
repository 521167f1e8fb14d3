//! Parses one packet, layer by layer: frame, IP header, GTP-U, five-tuple.
//!
//! Each step takes octets and returns plain `Copy` values with offsets into its slice; stages keep
//! columns of these. The code is optimized for Ethernet, IPv4 of 20 octets, UDP, GTP-U with one PDU
//! Session Container, and IPv4. Spec: RFC 791; RFC 8200; TS 29.281 §5; TS 38.415 §5.5.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, Teid, VlanId};

use crate::ethernet::EthernetHeader;
use crate::fragment_kind::FragmentKind;
use crate::gtpu::{FLAG_E, FLAG_S, GtpuHeader, GtpuMessageType, GtpuOptional};
use crate::gtpu_ext::{ExtensionType, GtpuExtensions};
use crate::ipv4::Ipv4Header;
use crate::ipv6::{Ipv6Header, is_extension, walk_extensions};
use crate::vlan::VlanTag;
use crate::{EtherType, Malformed, PduSessionContainer, protocol};

/// The link layer of a frame: Ethernet and at most one VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// VLAN of the tag; `UNTAGGED` if there is no tag, or a priority tag.
    pub vlan: VlanId,
    /// Where the payload begins: 14 or 18. Unit: octets.
    pub l3_offset: u8,
    /// Type of the payload. The value `VLAN` means that a second tag follows.
    pub ether_type: EtherType,
}

/// Reads the MAC header and at most one tag.
///
/// # Errors
/// `Truncated` if the frame is too short.
#[inline]
pub fn parse_frame(bytes: &[u8]) -> Result<Frame, Malformed> {
    let (header, rest) = EthernetHeader::parse(bytes)?;
    let mut frame = Frame {
        dst: header.dst(),
        src: header.src(),
        vlan: VlanId::UNTAGGED,
        l3_offset: 14,
        ether_type: header.ether_type(),
    };
    if frame.ether_type == EtherType::VLAN {
        let (tag, _) = VlanTag::parse(rest)?;
        frame.vlan = tag.vlan();
        frame.l3_offset = 18;
        frame.ether_type = tag.ether_type();
    }
    Ok(frame)
}

/// Source and destination of an IP packet, both of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpAddrs {
    /// IPv4.
    V4 {
        /// Source address.
        src: Ipv4Addr,
        /// Destination address.
        dst: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Source address.
        src: Ipv6Addr,
        /// Destination address.
        dst: Ipv6Addr,
    },
}

impl IpAddrs {
    /// True for IPv4.
    #[inline]
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        matches!(self, Self::V4 { .. })
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub const fn src(&self) -> IpAddr {
        match *self {
            Self::V4 { src, .. } => IpAddr::V4(src),
            Self::V6 { src, .. } => IpAddr::V6(src),
        }
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub const fn dst(&self) -> IpAddr {
        match *self {
            Self::V4 { dst, .. } => IpAddr::V4(dst),
            Self::V6 { dst, .. } => IpAddr::V6(dst),
        }
    }
}

/// An IP header of either family. Offsets count from its first octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpPacket {
    /// Source and destination.
    pub addrs: IpAddrs,
    /// Length of the packet by its header; octets after it are padding. Unit: octets.
    pub total_len: u16,
    /// Where the upper layer begins, after options and extension headers. Unit: octets.
    pub payload_offset: u16,
    /// Upper-layer protocol number.
    pub protocol: u8,
    /// Time to live or hop limit. Unit: hops.
    pub ttl: u8,
    /// Type of service or traffic class: DSCP and ECN.
    pub tos: u8,
    /// Whether the packet is a whole datagram or a fragment.
    pub fragment: FragmentKind,
    /// True if routers must not fragment the packet. Always true for IPv6.
    pub dont_fragment: bool,
    /// Flow label, zero for IPv4.
    pub flow_label: u32,
}

impl IpPacket {
    /// True for IPv4.
    #[inline]
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        self.addrs.is_ipv4()
    }

    /// True if this is a part of a packet that was fragmented.
    #[inline]
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        !matches!(self.fragment, FragmentKind::None)
    }

    /// True if this is the first part of a fragmented packet, with the upper-layer header.
    #[inline]
    #[must_use]
    pub const fn is_first_fragment(&self) -> bool {
        matches!(self.fragment, FragmentKind::First)
    }

    /// True if the packet has the upper-layer header.
    #[inline]
    #[must_use]
    pub const fn has_upper_layer(&self) -> bool {
        !matches!(self.fragment, FragmentKind::Later)
    }

    /// True if the upper layer of the whole packet is, or may be, `protocol`: a later fragment of
    /// IPv6 names the first header after the fragment header, which may be an extension header.
    #[must_use]
    pub const fn may_carry(&self, protocol: u8) -> bool {
        self.protocol == protocol
            || !self.is_ipv4() && !self.has_upper_layer() && is_extension(self.protocol)
    }

    /// Length of the upper layer. Unit: octets.
    #[inline]
    #[must_use]
    pub const fn payload_len(&self) -> u16 {
        self.total_len.saturating_sub(self.payload_offset)
    }

    /// Returns the upper layer of `packet`, the slice from which this header was parsed, without
    /// padding. Empty if the slice is too short.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet
            .get(usize::from(self.payload_offset)..usize::from(self.total_len))
            .unwrap_or_default()
    }
}

/// Reads the IP header, of either family, at the front of `bytes`.
///
/// Verifies the IPv4 header checksum if `verify_checksum`; a port may have verified it before.
///
/// # Errors
/// Those of [`Ipv4Header::parse`], [`Ipv6Header::parse`] and [`walk_extensions`]; `BadChecksum`.
#[inline]
pub fn parse_ip(bytes: &[u8], verify_checksum: bool) -> Result<IpPacket, Malformed> {
    match bytes.first() {
        Some(first) if first >> 4 == 4 => parse_ipv4(bytes, verify_checksum),
        Some(first) if first >> 4 == 6 => parse_ipv6(bytes),
        Some(first) => Err(Malformed::BadVersion(first >> 4)),
        None => Err(Malformed::truncated(Ipv4Header::LEN, 0)),
    }
}

#[inline]
fn parse_ipv4(bytes: &[u8], verify_checksum: bool) -> Result<IpPacket, Malformed> {
    let (header, _) = Ipv4Header::parse(bytes)?;
    if verify_checksum {
        header.verify_within(bytes)?;
    }
    let fragment = match (header.fragment_offset(), header.more_fragments()) {
        (0, false) => FragmentKind::None,
        (0, true) => FragmentKind::First,
        _ => FragmentKind::Later,
    };
    Ok(IpPacket {
        addrs: IpAddrs::V4 { src: header.src(), dst: header.dst() },
        total_len: header.total_len(),
        payload_offset: low_u16(header.header_len()),
        protocol: header.protocol(),
        ttl: header.ttl(),
        tos: header.tos(),
        fragment,
        dont_fragment: header.dont_fragment(),
        flow_label: 0,
    })
}

#[inline]
fn parse_ipv6(bytes: &[u8]) -> Result<IpPacket, Malformed> {
    let (header, payload) = Ipv6Header::parse(bytes)?;
    let total_len = u16::try_from(Ipv6Header::LEN + payload.len())
        .map_err(|_| Malformed::bad_length(payload.len(), usize::from(u16::MAX)))?;
    let upper = walk_extensions(header.next_header(), payload)?;
    Ok(IpPacket {
        addrs: IpAddrs::V6 { src: header.src(), dst: header.dst() },
        total_len,
        payload_offset: low_u16(Ipv6Header::LEN + upper.offset),
        protocol: upper.protocol,
        ttl: header.hop_limit(),
        tos: header.traffic_class(),
        fragment: upper.fragment,
        dont_fragment: true,
        flow_label: header.flow_label(),
    })
}

/// A GTP-U message. Offsets count from the first octet of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GtpuPacket {
    /// Type of the message.
    pub message_type: GtpuMessageType,
    /// Tunnel endpoint of the receiver.
    pub teid: Teid,
    /// Sequence number, if flag S is set.
    pub sequence: Option<u16>,
    /// Where the payload (inner packet or information elements) begins. Unit: octets.
    pub payload_offset: u16,
    /// Length of the payload by the length field; the slice may be longer. Unit: octets.
    pub payload_len: u16,
    /// PDU Session Container; the first one if there are several.
    pub psc: Option<PduSessionContainer>,
    /// UDP port of the UDP Port extension header, in an Error Indication.
    pub udp_port: Option<u16>,
    /// Type of the first extension header that an endpoint must understand but Adit does not.
    pub unknown_comprehension: Option<u8>,
}

impl GtpuPacket {
    /// Returns the payload in `message`, the slice from which this was parsed. Empty if the slice
    /// is too short.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.payload_offset);
        message.get(start..start + usize::from(self.payload_len)).unwrap_or_default()
    }
}

/// Reads the GTP-U header, its optional part and its extension headers at the front of `bytes`.
///
/// # Errors
/// Those of [`GtpuHeader::parse`]; `Truncated` if the optional part that the flags announce is
/// absent; `BadExtension` and `TooManyExtensions` for the chain. Spec: TS 29.281 §5.1, §5.2.
#[inline]
pub fn parse_gtpu(bytes: &[u8]) -> Result<GtpuPacket, Malformed> {
    let (header, body) = GtpuHeader::parse(bytes)?;
    let mut packet = GtpuPacket {
        message_type: header.message_type(),
        teid: header.teid(),
        sequence: None,
        payload_offset: low_u16(GtpuHeader::LEN),
        payload_len: header.len(),
        psc: None,
        udp_port: None,
        unknown_comprehension: None,
    };
    if header.flags() == 0 {
        return Ok(packet);
    }
    let (optional, rest) = GtpuOptional::parse(body)?;
    if header.flags() & FLAG_S != 0 {
        packet.sequence = Some(optional.sequence());
    }
    let mut payload = rest;
    if header.flags() & FLAG_E != 0 {
        payload = match (optional.next_extension(), rest) {
            // PERF (adit-bench kinds): the usual chain of G-PDUs in 5G is one PDU Session Container
            // of one unit.
            (ExtensionType::PDU_SESSION_CONTAINER, &[1, a, b, 0, ref payload @ ..]) => {
                packet.psc = Some(PduSessionContainer::parse(&[a, b])?);
                payload
            }
            (first, _) => walk_chain(first, rest, &mut packet)?,
        };
    }
    let skipped = body.len() - payload.len();
    packet.payload_offset = packet.payload_offset.saturating_add(low_u16(skipped));
    packet.payload_len = low_u16(payload.len());
    Ok(packet)
}

#[cold]
fn walk_chain<'a>(
    first: ExtensionType,
    bytes: &'a [u8],
    packet: &mut GtpuPacket,
) -> Result<&'a [u8], Malformed> {
    let mut walk = GtpuExtensions::new(first, bytes);
    for extension in walk.by_ref() {
        let extension = extension?;
        match (extension.kind, extension.content) {
            (ExtensionType::PDU_SESSION_CONTAINER, content) if packet.psc.is_none() => {
                packet.psc = Some(PduSessionContainer::parse(content)?);
            }
            (ExtensionType::UDP_PORT, &[high, low, ..]) => {
                packet.udp_port = Some(u16::from_be_bytes([high, low]));
            }
            (kind, _) if !kind.is_known() && kind.is_required_by_endpoint() => {
                let first = packet.unknown_comprehension.unwrap_or(kind.0);
                packet.unknown_comprehension = Some(first);
            }
            _ => {}
        }
    }
    Ok(walk.rest())
}

/// The fields of a packet that SDF filters select by. Spec: TS 29.244 §8.2.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// Source and destination.
    pub addrs: IpAddrs,
    /// Upper-layer protocol number.
    pub protocol: u8,
    /// Type of service or traffic class: DSCP and ECN.
    pub tos: u8,
    /// Source port; zero for protocols without ports, in later fragments and truncated packets.
    pub src_port: u16,
    /// Destination port; zero in the same cases as the source port.
    pub dst_port: u16,
    /// Security parameter index of ESP or AH; otherwise zero, which no security association has.
    pub spi: u32,
    /// Flow label, zero for IPv4.
    pub flow_label: u32,
}

/// Returns the selectors of `packet`, whose parsed header is `ip`. If the upper layer is missing,
/// ports and SPI are zero, which matches only filters without ports and SPI.
#[inline]
#[must_use]
pub fn five_tuple(packet: &[u8], ip: &IpPacket) -> FiveTuple {
    let mut tuple = FiveTuple {
        addrs: ip.addrs,
        protocol: ip.protocol,
        tos: ip.tos,
        src_port: 0,
        dst_port: 0,
        spi: 0,
        flow_label: ip.flow_label,
    };
    if !ip.has_upper_layer() {
        return tuple;
    }
    let upper = ip.payload(packet);
    if protocol::has_ports(ip.protocol) {
        if let &[a, b, c, d, ..] = upper {
            tuple.src_port = u16::from_be_bytes([a, b]);
            tuple.dst_port = u16::from_be_bytes([c, d]);
        }
    } else {
        tuple.spi = spi(ip.protocol, upper);
    }
    tuple
}

/// Returns the SPI. ESP begins with it; in AH it follows next header, length and two reserved
/// octets. Spec: RFC 4303 §2; RFC 4302 §2.
#[inline]
fn spi(protocol: u8, upper: &[u8]) -> u32 {
    match (protocol, upper) {
        (protocol::ESP, &[a, b, c, d, ..]) | (protocol::AH, &[_, _, _, _, a, b, c, d, ..]) => {
            u32::from_be_bytes([a, b, c, d])
        }
        _ => 0,
    }
}

/// Converts an offset in a packet, whose length field has 16 bits.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "callers pass parts of at most 65,535 octets")]
fn low_u16(len: usize) -> u16 {
    debug_assert!(len <= usize::from(u16::MAX));
    len as u16
}
