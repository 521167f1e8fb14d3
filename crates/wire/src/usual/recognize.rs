//! Recognition of usual frames, and the fields of the others that a glance finds.

use core::mem::offset_of;
use core::net::Ipv4Addr;

use adit_types::{Qfi, Teid};
use zerocopy::{FromBytes, IntoBytes};

use super::layout::{
    ETHERNET_LEN, EXTENDED_LEN, FRAGMENT, FrameGPdu, FrameIpv4, G_PDU_LEN, IP_HEADERS_LEN, IPV4,
    IPV4_LEN, IPV6, IPV6_LEN, NUMBERED_LEN, NUMBERS, VERSION_IHL, at,
};
use super::pattern::{GPduPattern, IP_WORDS, IpPattern, OctetPattern};
use crate::gtpu::{FLAG_E, GtpuHeader};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::protocol;
use crate::udp::UdpHeader;

/// An IP packet whose hop limit lets it be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualIp {
    /// The family.
    pub is_v6: bool,
    /// Source: an IPv4 address, or the upper half of an IPv6 address.
    pub src: u64,
    /// Destination, likewise.
    pub dst: u64,
    /// Length of the packet, within the frame. Unit: octets.
    pub total_len: u16,
}

/// A G-PDU in an Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualGPdu {
    /// Our TEID.
    pub teid: Teid,
    /// QoS flow, if there is a container.
    pub qfi: Option<Qfi>,
    /// Where the inner packet begins in the frame. Unit: octets.
    pub inner_offset: u8,
    /// The inner packet.
    pub inner: UsualIp,
}

/// The session key of a frame that is not usual, as far as a glance shows it: keeps packets of one
/// session in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderingKey {
    /// No packet of a session.
    Nothing,
    /// If it is a G-PDU, it has this TEID.
    Tunneled(Teid),
    /// If it is a plain user packet, it goes to this address.
    PlainV4(Ipv4Addr),
    /// If it is a plain user packet, it goes to an address with this upper half.
    PlainV6(u64),
    /// Only the walk of [`crate::parse`] can find the key.
    Unknown,
}

/// The key of a frame that is not usual, without its tag: `frame` begins where the untagged one
/// would. G-PDUs go to `tunnels`; without it there are none.
///
/// Cost: reads few octets, at fixed offsets and behind the options of IPv4.
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
        // No packet of a session has a second tag.
        _ => OrderingKey::Nothing,
    }
}

/// Guesses whether a frame carries IPv6, in a G-PDU or, without `tunnels`, plainly. `frame` is as
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

/// Reads a frame that carries IP. Without `verify` the port has verified an IPv4 checksum.
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

/// Reads a frame that carries a G-PDU. Without `verify` the port has verified the outer header
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
    match untagged.get(at::FLAGS)? & NUMBERS {
        0 => g_pdu_with::<G_PDU_LEN, TAG_LEN>(untagged, verify),
        _ => g_pdu_with::<NUMBERED_LEN, TAG_LEN>(untagged, verify),
    }
}

/// Reads the rest of a frame that fits a pattern, from where it would begin without its tag. The
/// inner packet begins `OFFSET` octets behind that.
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

/// The packet in a G-PDU.
#[inline(always)]
pub(super) fn usual_inner(inner: &[u8]) -> Option<UsualIp> {
    match *inner.first()? {
        VERSION_IHL => usual_ipv4(inner, true),
        first if first >> 4 == 6 => usual_ipv6(inner),
        _ => None,
    }
}

/// An IPv4 packet whose first octet fits. Accepts fragments.
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

/// An IPv6 packet whose version fits and whose next header is the upper layer.
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
