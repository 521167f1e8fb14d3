//! Usual G-PDUs over IPv6, whose outer header has no extension headers.
//!
//! The octets after the IP header have the layout of G-PDUs over IPv4, [`IPV6_SHIFT`] octets later.

use core::mem::offset_of;
use core::net::Ipv6Addr;

use adit_types::{MacAddr, Qfi, VlanId};
use zerocopy::FromBytes;

use super::layout::{
    ETHERNET_LEN, EXTENDED_LEN, FrameGPdu, G_PDU_LEN, G_PDU_TYPE, IPV4_LEN, IPV6, IPV6_LEN,
    NUMBER_FLAGS, NUMBERED_LEN, UDP, at,
};
use super::pattern::{ECN_MARK_BIT, GPduPattern, OctetPattern, exact, pattern};
use super::recognize::{OrderingKey, UsualGPdu, usual_inner};
use crate::gtpu::{FLAG_E, UDP_PORT, VERSION_1};
use crate::ipv6::Ipv6Header;
use crate::protocol;
use crate::vlan::VlanTag;

/// How much longer an IPv6 header is than an IPv4 header without options. Unit: octets.
pub(super) const IPV6_SHIFT: usize = (IPV6_LEN - IPV4_LEN) as usize;

/// Length of UDP and GTP-U headers, which GTP-U's length field does not include. Unit: octets.
const UDP_GTPU_LEN: u16 = 16;

/// Least offset of the inner packet of a G-PDU over IPv6 in a frame. Over IPv4 the inner packet
/// always begins earlier, even after a tag. Unit: octets.
#[allow(clippy::cast_possible_truncation, reason = "below 100")]
pub const INNER_OFFSET_OVER_IPV6_MIN: u8 = (G_PDU_LEN + IPV6_SHIFT) as u8;

const _: () = assert!(G_PDU_LEN + IPV6_SHIFT > EXTENDED_LEN + VlanTag::LEN);

/// Next-header value of the IPv6 fragment header.
const FRAGMENT_HEADER: u8 = 44;

const NEXT_HEADER: usize = ETHERNET_LEN + offset_of!(Ipv6Header, next_header);
pub(super) const SRC: usize = ETHERNET_LEN + offset_of!(Ipv6Header, src);
pub(super) const DST: usize = ETHERNET_LEN + offset_of!(Ipv6Header, dst);
pub(super) const UPPER: usize = ETHERNET_LEN + Ipv6Header::LEN;

/// Words of a pattern, which covers a container after a tag. The shortest G-PDU is longer.
const PATTERN_WORDS: usize = 11;

const _: () = assert!(EXTENDED_LEN + IPV6_SHIFT + VlanTag::LEN <= PATTERN_WORDS * 8);
const _: () = assert!(G_PDU_LEN + IPV6_SHIFT + 20 >= PATTERN_WORDS * 8);

/// The constant fields of usual G-PDUs over IPv6 on a link.
#[derive(Debug, Clone, Copy)]
pub struct GPduV6Pattern {
    /// The pattern without an extension header of GTP-U.
    plain: OctetPattern<PATTERN_WORDS>,
    /// The pattern with a PDU Session Container.
    extended: OctetPattern<PATTERN_WORDS>,
}

impl GPduV6Pattern {
    /// Returns the pattern of frames to `mac` in `vlan` that carry G-PDUs to `addr`.
    #[must_use]
    pub fn new(mac: MacAddr, vlan: VlanId, addr: Ipv6Addr) -> Self {
        let outer = |flags: u8| {
            vec![
                exact(at::ETHER_TYPE, &IPV6.to_be_bytes()),
                (at::IP, vec![0x60, 0], vec![0xf0, ECN_MARK_BIT << 4]),
                exact(NEXT_HEADER, &[UDP]),
                exact(DST, &addr.octets()),
                exact(at::DST_PORT + IPV6_SHIFT, &UDP_PORT.to_be_bytes()),
                (
                    at::FLAGS + IPV6_SHIFT,
                    vec![VERSION_1 | flags, G_PDU_TYPE],
                    vec![!NUMBER_FLAGS, 0xff],
                ),
            ]
        };
        let extended = [outer(FLAG_E), GPduPattern::container(IPV6_SHIFT)].concat();
        Self { plain: pattern(mac, vlan, &outer(0)), extended: pattern(mac, vlan, &extended) }
    }
}

/// Recognizes a frame that carries a G-PDU over IPv6. Verifies its UDP checksum, unless the
/// checksum is zero, as tunnels may send it.
///
/// Spec: RFC 6935 §5; RFC 8200 §8.1.
#[inline(always)]
#[must_use]
pub fn usual_g_pdu_over_v6<const TAG_LEN: usize>(
    frame: &[u8],
    pattern: &GPduV6Pattern,
) -> Option<UsualGPdu> {
    let untagged = frame.get(TAG_LEN..)?;
    if pattern.extended.fits::<PATTERN_WORDS>(frame) {
        return g_pdu_with::<EXTENDED_LEN, TAG_LEN>(untagged);
    }
    if !pattern.plain.fits::<PATTERN_WORDS>(frame) {
        return None;
    }
    match untagged.get(at::FLAGS + IPV6_SHIFT)? & NUMBER_FLAGS {
        0 => g_pdu_with::<G_PDU_LEN, TAG_LEN>(untagged),
        _ => g_pdu_with::<NUMBERED_LEN, TAG_LEN>(untagged),
    }
}

/// Parses the rest of a frame that fits a pattern. `frame` begins where it would without its tag,
/// so offsets are those of an untagged frame. Over IPv4, the inner packet would begin at `OFFSET`.
#[inline(always)]
fn g_pdu_with<const OFFSET: usize, const TAG_LEN: usize>(frame: &[u8]) -> Option<UsualGPdu> {
    let (ip, _) = Ipv6Header::ref_from_prefix(frame.get(ETHERNET_LEN..)?).ok()?;
    let shifted = frame.get(IPV6_SHIFT..)?;
    // `outer` overlays the IPv6 header: only its UDP and GTP-U headers are valid.
    let (outer, _) = FrameGPdu::ref_from_prefix(shifted).ok()?;
    let payload_len = ip.payload_len();
    let end = usize::from(payload_len) + UPPER;
    let is_whole = end <= frame.len()
        && outer.udp.len() == payload_len
        && outer.gtpu.len().wrapping_add(UDP_GTPU_LEN) == payload_len;
    if !is_whole
        || outer.udp.checksum() != 0 && !is_checksum_valid(frame.get(SRC..end)?, payload_len)
    {
        return None;
    }
    let inner = usual_inner(shifted.get(OFFSET..)?)?;
    let fits = usize::from(inner.total_len) + OFFSET + IPV6_SHIFT <= end;
    let qfi = match OFFSET {
        EXTENDED_LEN => Qfi::new(*shifted.get(at::QFI)? & Qfi::MAX),
        _ => None,
    };
    #[allow(clippy::cast_possible_truncation, reason = "70 to 86")]
    let inner_offset = (OFFSET + IPV6_SHIFT + TAG_LEN) as u8;
    fits.then_some(UsualGPdu { teid: outer.gtpu.teid(), qfi, inner_offset, inner })
}

/// True if the checksum of a UDP datagram of `len` octets is correct. `octets`: the addresses of
/// its IPv6 header, and the datagram.
#[inline(always)]
fn is_checksum_valid(octets: &[u8], len: u16) -> bool {
    let sum = native_sum(octets) + u64::from(len.to_be()) + u64::from(u16::from(UDP).to_be());
    // The sum is not zero, because the protocol number is not.
    sum.is_multiple_of(0xffff)
}

/// Returns a sum of octets that is congruent, modulo 2^16 - 1, to the sum of their 16-bit words in
/// native order. For at most 2^18 octets, so that it cannot overflow.
///
/// PERF (wire/usual): modulo 2^16 - 1 the words can be added as 32-bit words, and these as vectors.
/// The last 31 octets are added without a loop.
#[inline(always)]
pub(super) fn native_sum(octets: &[u8]) -> u64 {
    let (chunks, mut rest) = octets.as_chunks::<32>();
    let mut lanes = [0_u64; 8];
    for chunk in chunks {
        let (words, _) = chunk.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut sum: u64 = lanes.iter().sum();
    if let Some((chunk, behind)) = rest.split_first_chunk::<16>() {
        let ([first, second], _) = chunk.as_chunks::<8>() else { unreachable!("two words") };
        sum += sum_of_halves(first) + sum_of_halves(second);
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        sum += sum_of_halves(word);
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        sum += u64::from(u32::from_ne_bytes(*word));
        rest = behind;
    }
    // An odd last octet is the first one of a word.
    sum + match *rest {
        [a] => u64::from(u16::from_ne_bytes([a, 0])),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c] => u64::from(u16::from_ne_bytes([a, b])) + u64::from(u16::from_ne_bytes([c, 0])),
        _ => 0,
    }
}

#[inline(always)]
const fn sum_of_halves(word: &[u8; 8]) -> u64 {
    let word = u64::from_ne_bytes(*word);
    (word >> 32) + (word & u32::MAX as u64)
}

/// Returns the key of a frame that is not usual and that carries IPv6 to `tunnels`, our address, or
/// to a multicast group; else `None`. `frame` begins as for [`super::ordering_key`].
#[must_use]
#[cold]
pub fn ordering_key_over_v6(frame: &[u8], tunnels: Ipv6Addr) -> Option<OrderingKey> {
    let ether_type = frame.get(at::ETHER_TYPE..at::IP)?;
    let (ip, _) = Ipv6Header::ref_from_prefix(frame.get(at::IP..)?).ok()?;
    let dst = ip.dst();
    if ether_type != IPV6.to_be_bytes() || dst != tunnels && !dst.is_multicast() {
        return None;
    }
    Some(match ip.next_header() {
        _ if dst != tunnels => OrderingKey::Nothing,
        UDP => match frame.get(IPV6_SHIFT..).map(FrameGPdu::ref_from_prefix) {
            Some(Ok((outer, _))) => OrderingKey::Tunneled(outer.gtpu.teid()),
            _ => OrderingKey::Nothing,
        },
        // A fragment of a G-PDU has no TEID to look up before reassembly.
        protocol::ICMPV6 | FRAGMENT_HEADER => OrderingKey::Nothing,
        _ => OrderingKey::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;

    #[test]
    fn sum_in_native_order_is_zero_with_the_sum_of_words() {
        let octets: Vec<u8> = (0..=u8::MAX).map(|n| n.wrapping_mul(37).wrapping_add(11)).collect();
        for len in 0..octets.len() {
            let part = &octets[..len];
            let folded = Sum::new().bytes(part).fold();
            let native = u16::try_from(native_sum(part) % 0xffff).unwrap();
            assert_eq!(u32::from(native.to_be()) % 0xffff, u32::from(folded) % 0xffff, "{len}");
        }
    }
}
