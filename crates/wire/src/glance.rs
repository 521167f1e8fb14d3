//! A glance at a frame: finds the session or link that it may belong to, which is enough to choose
//! the worker that parses the frame.
//!
//! A glance reads few octets at computed offsets and verifies nothing; the worker does that. It
//! separates users' packets from signaling, so that user traffic does not delay signaling.
//!
//! Spec: TS 29.281 §5.1, §5.2; RFC 791 §3.1; RFC 8200 §3.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::Teid;
use zerocopy::FromBytes;

use crate::ethernet::EthernetHeader;
use crate::gtpu::{FLAG_E, FLAG_PN, FLAG_S, GtpuHeader, GtpuMessageType, GtpuOptional, UDP_PORT};
use crate::ipv4::Ipv4Header;
use crate::ipv6::{Ipv6Header, is_extension};
use crate::udp::UdpHeader;
use crate::vlan::VlanTag;
use crate::{EtherType, protocol};

/// Most extension headers of a G-PDU that [`Glance::inner_source`] skips.
const EXTENSIONS_MAX: usize = 4;

/// The session or link that a frame may belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance {
    /// A G-PDU or an End Marker in a tunnel of ours.
    Tunneled {
        /// The tunnel.
        teid: Teid,
        /// Where the GTP-U header begins in the frame. Unit: octets.
        gtpu_at: usize,
    },
    /// A plain packet to this IPv4 address.
    PlainV4(Ipv4Addr),
    /// A plain packet to this IPv6 address.
    PlainV6(Ipv6Addr),
    /// A fragment of a packet to a tunnel endpoint. All fragments of a datagram have the same
    /// value.
    TunnelFragment(u32),
    /// Not a user's packet: for the UPF itself, or of an unknown kind.
    Signaling,
}

/// The part of a UE's address that all packets of a session have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UeAddress {
    /// An IPv4 address.
    V4([u8; 4]),
    /// The upper half of an IPv6 address.
    V6([u8; 8]),
}

impl UeAddress {
    /// Returns the part of `addr` that all addresses of a UE have in common.
    #[must_use]
    pub fn of(addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(addr) => Self::V4(addr.octets()),
            IpAddr::V6(addr) => {
                let [a, b, c, d, e, f, g, h, ..] = addr.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

impl Glance {
    /// Classifies a frame. `tag_len`: length of its VLAN tag, 0 or [`VlanTag::LEN`].
    /// `is_tunnel_end` returns whether an address is ours and GTP-U to it arrives on this link.
    ///
    /// Errors: none; a frame that is too short is [`Glance::Signaling`].
    #[inline]
    #[must_use]
    pub fn at(frame: &[u8], tag_len: usize, is_tunnel_end: impl Fn(IpAddr) -> bool) -> Self {
        debug_assert!(tag_len == 0 || tag_len == VlanTag::LEN, "a frame has one tag at most");
        let ip_at = EthernetHeader::LEN + tag_len;
        let Some((link, packet)) = frame.split_at_checked(ip_at) else { return Self::Signaling };
        let looked = match link.last_chunk().map(|octets| EtherType(u16::from_be_bytes(*octets))) {
            Some(EtherType::IPV4) => v4(packet, is_tunnel_end),
            Some(EtherType::IPV6) => v6(packet, is_tunnel_end),
            _ => None,
        };
        match looked {
            Some(Self::Tunneled { teid, gtpu_at }) => {
                Self::Tunneled { teid, gtpu_at: gtpu_at + ip_at }
            }
            other => other.unwrap_or(Self::Signaling),
        }
    }

    /// Returns the source of the packet in the tunnel, which is the UE's address. `gtpu` is the
    /// frame from the GTP-U header on. `None` for an End Marker and unexpected headers.
    #[inline]
    #[must_use]
    pub fn inner_source(gtpu: &[u8]) -> Option<UeAddress> {
        Self::inner_addresses(gtpu).map(|(source, _)| UeAddress::of(source))
    }

    /// Returns source and destination of the packet in the tunnel, or `None` in the same cases.
    #[inline]
    #[must_use]
    pub fn inner_addresses(gtpu: &[u8]) -> Option<(IpAddr, IpAddr)> {
        let inner = inner_packet(gtpu)?;
        match inner.first()? >> 4 {
            4 => {
                let (ip, _) = Ipv4Header::ref_from_prefix(inner).ok()?;
                Some((ip.src().into(), ip.dst().into()))
            }
            6 => {
                let (ip, _) = Ipv6Header::ref_from_prefix(inner).ok()?;
                Some((ip.src().into(), ip.dst().into()))
            }
            _ => None,
        }
    }
}

/// Returns the packet in the tunnel. `gtpu` is the frame from the GTP-U header on.
#[inline]
fn inner_packet(gtpu: &[u8]) -> Option<&[u8]> {
    let (header, rest) = GtpuHeader::ref_from_prefix(gtpu).ok()?;
    if header.message_type() != GtpuMessageType::G_PDU {
        return None;
    }
    match header.flags() & (FLAG_E | FLAG_S | FLAG_PN) {
        0 => Some(rest),
        flags => behind_extensions(rest, flags & FLAG_E != 0),
    }
}

/// Returns the octets after the optional part of a GTP-U header and the extension headers.
#[inline]
fn behind_extensions(rest: &[u8], has_extensions: bool) -> Option<&[u8]> {
    let (optional, mut rest) = GtpuOptional::ref_from_prefix(rest).ok()?;
    let mut next = if has_extensions { optional.next_extension } else { 0 };
    for _ in 0..EXTENSIONS_MAX {
        if next == 0 {
            return Some(rest);
        }
        // The length includes itself and the type of the next header; its unit is four octets.
        let len = 4 * usize::from(*rest.first()?);
        next = *rest.get(len.checked_sub(1)?)?;
        rest = rest.get(len..)?;
    }
    None
}

#[inline]
fn v4(packet: &[u8], is_tunnel_end: impl Fn(IpAddr) -> bool) -> Option<Glance> {
    let (ip, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
    let dst = ip.dst();
    if !is_tunnel_end(dst.into()) {
        let is_for_one = !dst.is_multicast() && !dst.is_broadcast();
        return is_for_one.then_some(Glance::PlainV4(dst));
    }
    if ip.more_fragments() || ip.fragment_offset() != 0 {
        return Some(Glance::TunnelFragment(ip.src().to_bits() ^ u32::from(ip.identification())));
    }
    (ip.protocol() == protocol::UDP).then(|| tunneled(packet, ip.header_len()))?
}

#[inline]
fn v6(packet: &[u8], is_tunnel_end: impl Fn(IpAddr) -> bool) -> Option<Glance> {
    let (ip, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let dst = ip.dst();
    if !is_tunnel_end(dst.into()) {
        let is_for_one = !dst.is_multicast() && !dst.is_unicast_link_local();
        return is_for_one.then_some(Glance::PlainV6(dst));
    }
    match ip.next_header() {
        protocol::UDP => tunneled(packet, size_of::<Ipv6Header>()),
        // Fragments, and GTP-U packets with other extension headers, which are rare.
        header if is_extension(header) => Some(Glance::TunnelFragment(fold_source(ip.src()))),
        _ => None,
    }
}

/// Hashes a source address. Fragments of a source thus go to one worker; their identification
/// cannot be used, because any number of headers may precede it.
fn fold_source(addr: Ipv6Addr) -> u32 {
    let octets = addr.octets();
    let (words, _) = octets.as_chunks::<4>();
    words.iter().fold(0, |hash, word| hash ^ u32::from_be_bytes(*word))
}

/// Returns the tunnel of the UDP datagram at `udp_at`; `None` if it has no packet of a user.
#[inline]
fn tunneled(packet: &[u8], udp_at: usize) -> Option<Glance> {
    let (udp, rest) = UdpHeader::ref_from_prefix(packet.get(udp_at..)?).ok()?;
    let (gtpu, _) = GtpuHeader::ref_from_prefix(rest).ok()?;
    let is_of_user = udp.dst_port() == UDP_PORT
        && matches!(gtpu.message_type(), GtpuMessageType::G_PDU | GtpuMessageType::END_MARKER);
    let gtpu_at = udp_at + size_of::<UdpHeader>();
    is_of_user.then(|| Glance::Tunneled { teid: gtpu.teid(), gtpu_at })
}
