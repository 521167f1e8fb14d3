//! Recognizes usual frames, and finds the session key of other frames from few octets.

use core::mem::offset_of;
use core::net::Ipv4Addr;

use adit_types::{Qfi, Teid};
use zerocopy::{FromBytes, IntoBytes};

use super::layout::{
    ETHERNET_LEN, EXTENDED_LEN, FRAGMENT, FrameGPdu, FrameIpv4, G_PDU_LEN, IP_HEADERS_LEN, IPV4,
    IPV4_LEN, IPV6, IPV6_LEN, NUMBER_FLAGS, NUMBERED_LEN, VERSION_IHL, at,
};
use super::pattern::{GPduPattern, IP_WORDS, IpPattern, OctetPattern};
use crate::gtpu::{FLAG_E, GtpuHeader};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::protocol;
use crate::udp::UdpHeader;

/// The fields of a usual IP packet. Its hop limit is high enough to forward it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualIp {
    /// True for IPv6, false for IPv4.
    pub is_v6: bool,
    /// Source: an IPv4 address, or the upper half of an IPv6 address.
    pub src: u64,
    /// Destination, in the same form as the source.
    pub dst: u64,
    /// Length of the packet, which the frame contains entirely. Unit: octets.
    pub total_len: u16,
}

/// The fields of a usual G-PDU in an Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualGPdu {
    /// The TEID of our tunnel endpoint.
    pub teid: Teid,
    /// QoS flow, if there is a container.
    pub qfi: Option<Qfi>,
    /// Where the inner packet begins in the frame. Unit: octets.
    pub inner_offset: u8,
    /// The inner packet.
    pub inner: UsualIp,
}

/// The session key of a frame that is not usual, read from few octets without parsing the frame. It
/// serves to keep packets of one session in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderingKey {
    /// The frame has no packet of a session.
    Nothing,
    /// If the frame has a G-PDU, its TEID is this.
    Tunneled(Teid),
    /// If the frame has a plain user packet, its destination is this address.
    PlainV4(Ipv4Addr),
    /// If the frame has a plain user packet, its destination has this upper half.
    PlainV6(u64),
    /// Only [`crate::parse`] can find the key.
    Unknown,
}

/// Returns the key of a frame that is not usual. `frame` begins where it would without its tag, so
/// offsets are those of an untagged frame. G-PDUs are sent to our address `tunnels`, if any.
///
/// Cost: reads few octets, at fixed offsets and after the IPv4 options.
#[must_use]
#[cold]
pub fn ordering_key(frame: &[u8], tunnels: Option<Ipv4Addr>) -> OrderingKey {
    let Ok((headers, _)) = FrameIpv4::ref_from_prefix(frame) else { return OrderingKey::Nothing };
    let dst = headers.ip.dst();
    match headers.link.ether_type.get() {
        IPV4 if tunnels != Some(dst) => OrderingKey::PlainV4(dst),
        // A fragment of a G-PDU has no TEID to look up before reassembly.
        IPV4 if headers.ip.flags_offset.get() & FRAGMENT != 0 => OrderingKey::Nothing,
        IPV4 => {
            let gtpu_at = ETHERNET_LEN + headers.ip.header_len() + size_of::<UdpHeader>();
            match frame.get(gtpu_at..).map(GtpuHeader::ref_from_prefix) {
                Some(Ok((gtpu, _))) => OrderingKey::Tunneled(gtpu.teid()),
                _ => OrderingKey::Nothing,
            }
        }
        IPV6 if tunnels.is_none() => {
            match frame.get(ETHERNET_LEN + offset_of!(Ipv6Header, dst)..).map(<[u8]>::first_chunk) {
                Some(Some(upper)) => OrderingKey::PlainV6(u64::from_be_bytes(*upper)),
                _ => OrderingKey::Nothing,
            }
        }
        IPV6 => OrderingKey::Unknown,
        // No packet of a session has a second VLAN tag.
        _ => OrderingKey::Nothing,
    }
}

/// Guesses whether a frame carries IPv6: in a G-PDU if `tunnels`, else directly. `frame` begins as
/// for [`ordering_key`].
///
/// PERF (wire/usual): does not branch on the packet.
#[inline(always)]
#[must_use]
pub fn guess_is_v6(frame: &[u8], tunnels: bool) -> bool {
    let Some(headers) = frame.first_chunk::<{ EXTENDED_LEN + 1 }>() else { return false };
    let is_extended = headers[at::FLAGS] & FLAG_E != 0;
    let inner = headers[if is_extended { EXTENDED_LEN } else { G_PDU_LEN }];
    let is_inner_v6 = tunnels & (inner >> 4 == 6);
    is_inner_v6
        | (u16::from_be_bytes([headers[at::ETHER_TYPE], headers[at::ETHER_TYPE + 1]]) == IPV6)
}

/// Recognizes a frame that carries IP. `verify`: the port has not verified the IPv4 checksum.
#[inline(always)]
#[must_use]
pub fn usual_ip<const TAG_LEN: usize>(
    frame: &[u8],
    pattern: &IpPattern,
    verify: bool,
) -> Option<UsualIp> {
    let packet = frame.get(TAG_LEN + ETHERNET_LEN..)?;
    let fits = |pattern: &OctetPattern<IP_WORDS>| match TAG_LEN {
        0 => pattern.fits::<{ IP_WORDS - 1 }>(frame),
        _ => pattern.fits::<IP_WORDS>(frame),
    };
    if fits(&pattern.v4) {
        usual_ipv4(packet, verify)
    } else if fits(&pattern.v6) {
        usual_ipv6(packet)
    } else {
        None
    }
}

/// Recognizes a frame that carries a G-PDU. `verify`: the port has not verified the outer header
/// checksum.
#[inline(always)]
#[must_use]
pub fn usual_g_pdu<const TAG_LEN: usize>(
    frame: &[u8],
    pattern: &GPduPattern,
    verify: bool,
) -> Option<UsualGPdu> {
    let untagged = frame.get(TAG_LEN..)?;
    if pattern.extended.fits::<8>(frame) {
        return g_pdu_with::<EXTENDED_LEN, TAG_LEN>(untagged, verify);
    }
    if !pattern.plain.fits::<8>(frame) {
        return None;
    }
    match untagged.get(at::FLAGS)? & NUMBER_FLAGS {
        0 => g_pdu_with::<G_PDU_LEN, TAG_LEN>(untagged, verify),
        _ => g_pdu_with::<NUMBERED_LEN, TAG_LEN>(untagged, verify),
    }
}

/// Parses the rest of a frame that fits a pattern. `frame` begins where it would without its tag,
/// so offsets are those of an untagged frame. The inner packet is at `OFFSET`.
#[inline(always)]
fn g_pdu_with<const OFFSET: usize, const TAG_LEN: usize>(
    frame: &[u8],
    verify: bool,
) -> Option<UsualGPdu> {
    let (outer, _) = FrameGPdu::ref_from_prefix(frame).ok()?;
    let total_len = outer.ip.total_len();
    let is_whole = usize::from(total_len) + ETHERNET_LEN <= frame.len()
        && outer.udp.len().wrapping_add(IPV4_LEN) == total_len
        && outer.gtpu.len().wrapping_add(IP_HEADERS_LEN) == total_len;
    if !is_whole || verify && !is_checksum_valid(outer.ip.as_bytes().first_chunk()?) {
        return None;
    }
    let inner = frame.get(OFFSET..)?;
    let inner = usual_inner(inner)?;
    let fits = usize::from(inner.total_len) + OFFSET <= usize::from(total_len) + ETHERNET_LEN;
    let qfi = match OFFSET {
        EXTENDED_LEN => Qfi::new(*frame.get(at::QFI)? & Qfi::MAX),
        _ => None,
    };
    #[allow(clippy::cast_possible_truncation, reason = "50 to 62")]
    let inner_offset = (OFFSET + TAG_LEN) as u8;
    fits.then_some(UsualGPdu { teid: outer.gtpu.teid(), qfi, inner_offset, inner })
}

/// Returns the fields of the packet in a G-PDU.
#[inline(always)]
pub(super) fn usual_inner(inner: &[u8]) -> Option<UsualIp> {
    match *inner.first()? {
        VERSION_IHL => usual_ipv4(inner, true),
        first if first >> 4 == 6 => usual_ipv6(inner),
        _ => None,
    }
}

/// Returns the fields of an IPv4 packet whose first octet fits the pattern. Accepts fragments.
#[inline(always)]
fn usual_ipv4(packet: &[u8], verify: bool) -> Option<UsualIp> {
    let (ip, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
    let total_len = ip.total_len();
    let fits = usize::from(total_len) >= Ipv4Header::LEN
        && usize::from(total_len) <= packet.len()
        && ip.ttl > 1;
    if !fits || verify && !is_checksum_valid(ip.as_bytes().first_chunk()?) {
        return None;
    }
    let (src, dst) = (u64::from(ip.src().to_bits()), u64::from(ip.dst().to_bits()));
    Some(UsualIp { is_v6: false, src, dst, total_len })
}

/// Returns the fields of an IPv6 packet whose version fits, if its next header is the upper layer.
#[inline(always)]
fn usual_ipv6(packet: &[u8]) -> Option<UsualIp> {
    let (ip, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let total_len = ip.payload_len().checked_add(IPV6_LEN)?;
    let is_upper = matches!(ip.next_header(), protocol::TCP | protocol::UDP | protocol::ICMPV6);
    if !is_upper || ip.hop_limit() <= 1 || usize::from(total_len) > packet.len() {
        return None;
    }
    let upper_half = |addr: &[u8; 16]| addr.first_chunk().map(|half| u64::from_be_bytes(*half));
    Some(UsualIp { is_v6: true, src: upper_half(&ip.src)?, dst: upper_half(&ip.dst)?, total_len })
}

/// True if the words of an IPv4 header add up to all ones.
///
/// PERF (wire/usual): modulo 2^16 - 1 the order of octets does not matter, so words are added in
/// native order.
#[inline]
fn is_checksum_valid(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    sum.is_multiple_of(0xffff)
}
