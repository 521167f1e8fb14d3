//! The Internet checksum: sums, incremental update, pseudo headers.
//!
//! Sums are one's-complement sums of big-endian 16-bit words. Words of 32 bits can be added whole,
//! because 2^16 is congruent to 1 modulo 0xffff. Spec: RFC 1071; RFC 1624; RFC 768; RFC 8200 §8.1.

use core::net::{Ipv4Addr, Ipv6Addr};

/// A one's-complement sum, which method calls extend.
///
/// The 64-bit accumulator cannot overflow: a word adds less than 2^32, and no packet has 2^32
/// words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds octets. An odd last octet counts as the high half of a word, so only the last slice of
    /// a sum may have an odd length.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, tail) = bytes.as_chunks::<4>();
        let mut sum = self.0;
        for word in words {
            sum = sum.wrapping_add(u64::from(u32::from_be_bytes(*word)));
        }
        let mut last = [0u8; 4];
        for (slot, octet) in last.iter_mut().zip(tail) {
            *slot = *octet;
        }
        Self(sum.wrapping_add(u64::from(u32::from_be_bytes(last))))
    }

    /// Adds a word of 16 bits.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0.wrapping_add(word as u64))
    }

    /// Adds a word of 32 bits.
    #[inline]
    #[must_use]
    pub const fn long(self, long: u32) -> Self {
        Self(self.0.wrapping_add(long as u64))
    }

    /// Folds the sum to 16 bits. The result is zero only if every word was zero.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "each step folds below the next width")]
    pub const fn fold(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        sum as u16
    }

    /// Returns the checksum: the complement of the folded sum. Over octets that include their
    /// correct checksum it is zero.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Returns the checksum as UDP transmits it: 0xffff instead of zero. Spec: RFC 768.
    #[inline]
    #[must_use]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

/// Returns the Internet checksum of octets.
#[inline]
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// Returns the checksum of an IPv4 header without options; zero if the header includes its correct
/// checksum.
///
/// PERF (adit-bench datapath): five loads and adds without a loop, for the usual header length.
#[inline]
#[must_use]
pub fn ipv4_header(header: &[u8; 20]) -> u16 {
    let (words, _) = header.as_chunks::<4>();
    let mut sum = Sum::new();
    for word in words {
        sum = sum.long(u32::from_be_bytes(*word));
    }
    sum.checksum()
}

/// Returns the checksum after one 16-bit word changed from `old` to `new`.
///
/// Spec: RFC 1624 §3, equation 3, which never yields 0xffff for a header.
#[inline]
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::new().word(!checksum).word(!old).word(new).checksum()
}

/// Returns the checksum after a word changed by `change`: the new word minus the old one in one's
/// complement. See [`update`].
#[inline]
#[must_use]
pub const fn update_by(checksum: u16, change: u16) -> u16 {
    let (sum, carry) = (!checksum).overflowing_add(change);
    !(sum + carry as u16)
}

/// Sums the pseudo header of TCP and UDP over IPv4. Unit of `len`: octets of the segment.
#[inline]
#[must_use]
pub fn pseudo_ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> Sum {
    Sum::new().long(src.to_bits()).long(dst.to_bits()).word(u16::from(protocol)).word(len)
}

/// Sums the pseudo header of upper layers over IPv6. Unit of `len`: octets of the upper layer.
#[inline]
#[must_use]
pub fn pseudo_ipv6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, len: u32) -> Sum {
    let sum = Sum::new().bytes(&src.octets()).bytes(&dst.octets());
    sum.long(len).word(u16::from(next_header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_of_rfc1071_example_is_its_answer() {
        // RFC 1071 §3: 0001 f203 f4f5 f6f7 sum to ddf0 after the carries (2ddf0 -> ddf2).
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).fold(), 0xddf2);
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn ipv4_header_known_example_gives_b861() {
        let header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        assert_eq!(ipv4_header(&header), 0xb861);
        assert_eq!(checksum(&header), 0xb861);
    }

    #[test]
    fn sum_odd_last_octet_is_high_half() {
        assert_eq!(Sum::new().bytes(&[0x12]).fold(), 0x1200);
        assert_eq!(Sum::new().bytes(&[0, 0, 0, 0, 1, 2, 3]).fold(), 0x0402);
    }

    #[test]
    fn update_rfc1624_example_avoids_negative_zero() {
        // RFC 1624 §4: HC = dd2f, m = 5555, m' = 3285 must give 0000, not ffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn fold_of_large_accumulator_keeps_all_carries() {
        let sum = Sum(u64::from(u32::MAX) * 40_000);
        assert_eq!(sum.fold(), 0xffff);
        assert_eq!(Sum(0x0001_0001_0001_ffff).fold(), 0x0003);
    }
}
