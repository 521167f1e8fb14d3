//! IPv4 header. Adit forwards options without reading them. Spec: RFC 791; RFC 1624 (TTL).

use core::net::Ipv4Addr;

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::view::{fixed_header, split};
use crate::{Malformed, checksum};

/// Flag: the packet must not be fragmented.
const DONT_FRAGMENT: u16 = 0x4000;
/// Flag: more fragments follow.
const MORE_FRAGMENTS: u16 = 0x2000;
/// The bits of the fragment offset.
const OFFSET: u16 = 0x1fff;

/// The fixed part of an IPv4 header.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1        Version |  IHL
/// 2        Type of service (DSCP, ECN)
/// 3-4      Total length
/// 5-6      Identification
/// 7-8      0 DF MF | Fragment offset (13 bits, in 8 octets)
/// 9        Time to live
/// 10       Protocol
/// 11-12    Header checksum
/// 13-16    Source address
/// 17-20    Destination address
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Header {
    pub(crate) version_ihl: u8,
    pub(crate) tos: u8,
    pub(crate) total_len: U16,
    pub(crate) identification: U16,
    pub(crate) flags_offset: U16,
    pub(crate) ttl: u8,
    pub(crate) protocol: u8,
    pub(crate) checksum: U16,
    pub(crate) src: [u8; 4],
    pub(crate) dst: [u8; 4],
}

fixed_header!(Ipv4Header, 20);

/// The fields of a new IPv4 header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Length of header and payload. Unit: octets. Range: 20..=65,535.
    pub total_len: u16,
    /// Identification; only fragments need one.
    pub identification: u16,
    /// True if the packet must not be fragmented.
    pub dont_fragment: bool,
    /// Time to live. Unit: hops.
    pub ttl: u8,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl Ipv4Header {
    /// Creates a header of 20 octets with its checksum.
    #[inline]
    #[must_use]
    pub fn new(fields: &Ipv4Fields) -> Self {
        let mut header = Self {
            version_ihl: 0x45,
            tos: fields.tos,
            total_len: U16::new(fields.total_len),
            identification: U16::new(fields.identification),
            flags_offset: U16::new(if fields.dont_fragment { DONT_FRAGMENT } else { 0 }),
            ttl: fields.ttl,
            protocol: fields.protocol,
            checksum: U16::ZERO,
            src: fields.src.octets(),
            dst: fields.dst.octets(),
        };
        header.checksum.set(checksum::ipv4_header(&zerocopy::transmute!(header)));
        header
    }

    /// Returns the fixed part at the front of `bytes`, and the payload: the octets after the
    /// options, up to the total length, without Ethernet padding. Does not verify the checksum.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 20 octets; `BadVersion`; `BadLength` if the header
    /// length is below 20, or the total length is below the header length or above `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        let (header, _) = split::<Self>(bytes)?;
        if header.version_ihl >> 4 != 4 {
            return Err(Malformed::BadVersion(header.version_ihl >> 4));
        }
        let header_len = header.header_len();
        if header_len < Self::LEN {
            return Err(Malformed::bad_length(header_len, Self::LEN));
        }
        let total_len = usize::from(header.total_len.get());
        match bytes.get(header_len..total_len) {
            Some(payload) => Ok((header, payload)),
            None if total_len < header_len => Err(Malformed::bad_length(total_len, header_len)),
            None => Err(Malformed::bad_length(total_len, bytes.len())),
        }
    }

    /// Verifies the checksum of the header, options included, at the front of `bytes`.
    ///
    /// # Errors
    /// Those of [`Ipv4Header::parse`], and `BadChecksum`.
    #[inline]
    pub fn verify_checksum(bytes: &[u8]) -> Result<(), Malformed> {
        let (header, _) = Self::parse(bytes)?;
        header.verify_within(bytes)
    }

    /// Does `verify_checksum` for a header that `parse` returned for `bytes`.
    #[inline]
    pub(crate) fn verify_within(&self, bytes: &[u8]) -> Result<(), Malformed> {
        let residue = if self.version_ihl == 0x45 {
            checksum::ipv4_header(zerocopy::transmute_ref!(self))
        } else {
            let have = bytes.len();
            let header = bytes
                .get(..self.header_len())
                .ok_or_else(|| Malformed::truncated(self.header_len(), have))?;
            checksum::checksum(header)
        };
        if residue == 0 { Ok(()) } else { Err(Malformed::BadChecksum) }
    }

    /// Length of the header with options. Unit: octets, a multiple of 4; 20..=60 after `parse`.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl & 0x0f) * 4
    }

    /// Type of service: DSCP and ECN.
    #[inline]
    #[must_use]
    pub fn tos(&self) -> u8 {
        self.tos
    }

    /// Length of header and payload. Unit: octets.
    #[inline]
    #[must_use]
    pub fn total_len(&self) -> u16 {
        self.total_len.get()
    }

    /// Identification of the fragments of one packet.
    #[inline]
    #[must_use]
    pub fn identification(&self) -> u16 {
        self.identification.get()
    }

    /// True if the packet must not be fragmented.
    #[inline]
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.flags_offset.get() & DONT_FRAGMENT != 0
    }

    /// True if more fragments follow this one.
    #[inline]
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.flags_offset.get() & MORE_FRAGMENTS != 0
    }

    /// Offset of this fragment in its datagram. Unit: 8 octets.
    #[inline]
    #[must_use]
    pub fn fragment_offset(&self) -> u16 {
        self.flags_offset.get() & OFFSET
    }

    /// Time to live. Unit: hops.
    #[inline]
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.ttl
    }

    /// Protocol number of the payload.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Header checksum as transmitted.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.src)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.dst)
    }
}

/// Decrements the TTL of the packet at the front of `packet` and updates the checksum. Returns the
/// new TTL.
///
/// Returns `None` and changes nothing if the TTL is 0 or 1 (the packet must not be forwarded), or
/// if there are fewer than 20 octets. Keeps a wrong checksum wrong. Spec: RFC 1812 §5.3.1; RFC
/// 1624.
#[inline]
#[must_use]
pub fn decrement_ttl(packet: &mut [u8]) -> Option<u8> {
    // The change of the word with TTL and protocol: minus 0x0100 in one's complement.
    const OLDER: u16 = !0x0100;
    let (header, _) = Ipv4Header::mut_from_prefix(packet).ok()?;
    if header.ttl <= 1 {
        return None;
    }
    header.ttl -= 1;
    header.checksum.set(checksum::update_by(header.checksum.get(), OLDER));
    Some(header.ttl)
}

/// Replaces the type of service of the packet at the front of `packet` and updates the checksum.
/// Returns false and changes nothing if there are fewer than 20 octets.
#[inline]
pub fn set_tos(packet: &mut [u8], tos: u8) -> bool {
    let Ok((header, _)) = Ipv4Header::mut_from_prefix(packet) else { return false };
    let old = u16::from_be_bytes([header.version_ihl, header.tos]);
    header.tos = tos;
    let new = u16::from_be_bytes([header.version_ihl, tos]);
    header.checksum.set(checksum::update(header.checksum.get(), old, new));
    true
}

/// Lets routers fragment a packet that begins with an IPv4 header without options and has DF and no
/// identification: clears DF, and derives an identification from the octets after the header. So
/// packets with different contents most likely have different identifications, as RFC 6864 §4.3
/// requires of fragmented packets. Changes nothing in a packet that is too short.
pub fn allow_fragmentation(packet: &mut [u8]) {
    /// How many octets the identification is derived from: outer UDP and GTP-U headers, and the
    /// headers of the inner packet.
    const HASHED_LEN_MAX: usize = 8 + 16 + 60;
    let Ok((header, rest)) = Ipv4Header::mut_from_prefix(packet) else { return };
    let rest = rest.get(..HASHED_LEN_MAX).unwrap_or(rest);
    // Not a one's-complement sum: packets with correct checksums have equal sums.
    let mix = |hash: u32, word: &[u8; 4]| {
        (hash.rotate_left(5) ^ u32::from_ne_bytes(*word)).wrapping_mul(0x9e37_79b1)
    };
    let [.., high, low] = (rest.as_chunks().0.iter().fold(0, mix) >> 16).to_be_bytes();
    // Zero would mean that there is no identification.
    let identification = u16::from_be_bytes([high, low]).max(1);
    let flags = header.flags_offset.get();
    let sum = checksum::update(header.checksum.get(), flags, flags & !DONT_FRAGMENT);
    let sum = checksum::update(sum, header.identification.get(), identification);
    header.flags_offset.set(flags & !DONT_FRAGMENT);
    header.identification.set(identification);
    header.checksum.set(sum);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const WIRE: [u8; 20] = [
        0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
        0xc7,
    ];

    fn fields() -> Ipv4Fields {
        Ipv4Fields {
            tos: 0,
            total_len: 0x73,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: 17,
            src: Ipv4Addr::new(192, 168, 0, 1),
            dst: Ipv4Addr::new(192, 168, 0, 199),
        }
    }

    #[test]
    fn packet_that_routers_may_fragment_has_an_identification_of_its_contents() {
        let allowed = |at: usize, octet: u8| {
            let mut packet = [0; 20 + 100];
            packet[..20].copy_from_slice(&WIRE);
            packet[20 + at] = octet;
            allow_fragmentation(&mut packet);
            let (header, _) = Ipv4Header::ref_from_prefix(&packet).unwrap();
            assert!(Ipv4Header::verify_checksum(&packet).is_ok() && !header.dont_fragment());
            assert_eq!(header.flags_offset.get(), 0);
            header.identification.get()
        };
        // The identification depends on the last octet that is read, and not on the next one.
        let at =
            |at: usize| (0..=255).map(|octet| allowed(at, octet)).collect::<BTreeSet<_>>().len();
        for place in [0, 7, 8, 40, 83] {
            assert!(at(place) > 250, "{} of 256 octets at {place}", at(place));
        }
        assert_eq!(at(84), 1);
        assert_ne!(allowed(84, 0), 0, "zero says that there is none");
        let mut short = WIRE;
        allow_fragmentation(&mut short[..19]);
        assert_eq!(short, WIRE);
    }

    #[test]
    fn ipv4_header_known_octets_parse_and_emit() {
        let mut out = [0xa5; 20];
        Ipv4Header::new(&fields()).emit(&mut out).unwrap();
        assert_eq!(out, WIRE);
        let mut packet = [0u8; 0x80];
        packet[..20].copy_from_slice(&WIRE);
        let (header, payload) = Ipv4Header::parse(&packet).unwrap();
        assert_eq!(payload.len(), 0x73 - 20, "padding behind the total length is left out");
        assert_eq!((header.ttl(), header.protocol(), header.dont_fragment()), (64, 17, true));
        assert_eq!((header.src(), header.dst()), (fields().src, fields().dst));
        assert_eq!(Ipv4Header::verify_checksum(&packet), Ok(()));
    }

    #[test]
    fn ipv4_header_of_wrong_version_or_lengths_is_refused() {
        let packet = |octet: usize, value: u8| {
            let mut packet = [0u8; 0x73];
            packet[..20].copy_from_slice(&WIRE);
            packet[octet] = value;
            packet
        };
        let parse = |bytes: &[u8]| Ipv4Header::parse(bytes).map(|_| ());
        assert_eq!(parse(&packet(0, 0x65)), Err(Malformed::BadVersion(6)));
        assert_eq!(parse(&packet(0, 0x44)), Err(Malformed::bad_length(16, 20)));
        assert_eq!(parse(&packet(3, 0x74)), Err(Malformed::bad_length(0x74, 0x73)));
        assert_eq!(parse(&packet(3, 19)), Err(Malformed::bad_length(19, 20)));
        for len in 0..0x73 {
            assert!(parse(&packet(3, 0x73)[..len]).is_err(), "prefix of {len}");
        }
    }

    #[test]
    fn ipv4_header_with_options_is_verified_over_all_octets() {
        let mut packet = [1u8; 24];
        packet[..20].copy_from_slice(&WIRE);
        (packet[0], packet[3]) = (0x46, 24);
        packet[10..12].fill(0);
        let sum = checksum::checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(Ipv4Header::verify_checksum(&packet), Ok(()));
        packet[23] ^= 1;
        assert_eq!(Ipv4Header::verify_checksum(&packet), Err(Malformed::BadChecksum));
    }

    #[test]
    fn ttl_decrement_equals_full_recomputation_for_every_ttl_and_checksum() {
        for ttl in 0..=255u8 {
            for identification in 0..=u16::MAX {
                let mut fields = Ipv4Fields { ttl, identification, ..fields() };
                let mut packet = [0; 20];
                Ipv4Header::new(&fields).emit(&mut packet).unwrap();
                let before = packet;
                let Some(left) = decrement_ttl(&mut packet) else {
                    assert!(ttl <= 1 && packet == before);
                    continue;
                };
                fields.ttl = left;
                let (header, _) = split::<Ipv4Header>(&packet).unwrap();
                assert_eq!(*header, Ipv4Header::new(&fields), "ttl {ttl} id {identification}");
            }
        }
    }

    #[test]
    fn ttl_decrement_of_checksum_ffff_gives_the_canonical_one() {
        // A header whose words sum to zero modulo 0xffff verifies with 0x0000 and with 0xffff.
        let mut fields = fields();
        let residue = Ipv4Header::new(&fields).checksum();
        fields.identification = residue;
        let mut packet = [0; 20];
        Ipv4Header::new(&fields).emit(&mut packet).unwrap();
        assert_eq!(packet[10..12], [0, 0]);
        packet[10..12].fill(0xff);
        assert_eq!(checksum::ipv4_header(&packet), 0);
        assert_eq!(decrement_ttl(&mut packet), Some(63));
        assert_eq!(packet[10..12], [1, 0]);
        assert_eq!(checksum::ipv4_header(&packet), 0);
    }

    #[test]
    fn tos_change_keeps_checksum_right() {
        for tos in 0..=255 {
            let mut packet = WIRE;
            assert!(set_tos(&mut packet, tos));
            assert_eq!(checksum::ipv4_header(&packet), 0);
            assert_eq!(packet[1], tos);
        }
        assert!(!set_tos(&mut [0; 19], 1));
    }
}
