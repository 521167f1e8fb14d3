//! UDP header. Spec: RFC 768; RFC 8200 §8.1; RFC 6935 (zero checksums over IPv6).

use core::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::view::{fixed_header, split};
use crate::{Malformed, checksum, protocol};

/// UDP header.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1-2      Source port
/// 3-4      Destination port
/// 5-6      Length, header included
/// 7-8      Checksum; zero: none
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct UdpHeader {
    pub(crate) src_port: U16,
    pub(crate) dst_port: U16,
    pub(crate) len: U16,
    pub(crate) checksum: U16,
}

fixed_header!(UdpHeader, 8);

impl UdpHeader {
    /// Creates a header with these ports, length (header included, octets) and checksum.
    #[inline]
    #[must_use]
    pub fn new(src_port: u16, dst_port: u16, len: u16, checksum: u16) -> Self {
        Self {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            len: U16::new(len),
            checksum: U16::new(checksum),
        }
    }

    /// Returns the header at the front of `bytes`, and its payload up to the length field.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 8 octets; `BadLength` if the length is below 8 or above
    /// `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        let (header, _) = split::<Self>(bytes)?;
        let len = usize::from(header.len.get());
        match bytes.get(Self::LEN..len) {
            Some(payload) => Ok((header, payload)),
            None => Err(Malformed::bad_length(len, bytes.len())),
        }
    }

    /// Source port.
    #[inline]
    #[must_use]
    pub fn src_port(&self) -> u16 {
        self.src_port.get()
    }

    /// Destination port.
    #[inline]
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        self.dst_port.get()
    }

    /// Length of header and payload. Unit: octets.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a header field, not a container")]
    pub fn len(&self) -> u16 {
        self.len.get()
    }

    /// Checksum as transmitted; zero means that the sender computed none.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }
}

/// Computes the checksum of `datagram` over IPv4. Its checksum field must be zero, its length below
/// 65,536.
#[must_use]
pub fn checksum_ipv4(src: Ipv4Addr, dst: Ipv4Addr, datagram: &[u8]) -> u16 {
    let len = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    checksum::pseudo_ipv4(src, dst, protocol::UDP, len).bytes(datagram).udp_checksum()
}

/// Computes the checksum of `datagram` over IPv6. Its checksum field must be zero.
#[must_use]
pub fn checksum_ipv6(src: Ipv6Addr, dst: Ipv6Addr, datagram: &[u8]) -> u16 {
    let len = u32::try_from(datagram.len()).unwrap_or(u32::MAX);
    checksum::pseudo_ipv6(src, dst, protocol::UDP, len).bytes(datagram).udp_checksum()
}

/// Verifies the checksum of `datagram`, exactly as long as its length field states, over IPv4. A
/// checksum of zero, which means none, passes.
///
/// # Errors
/// Those of [`UdpHeader::parse`], and `BadChecksum`.
pub fn verify_ipv4(src: Ipv4Addr, dst: Ipv4Addr, datagram: &[u8]) -> Result<(), Malformed> {
    let (header, payload) = UdpHeader::parse(datagram)?;
    if header.checksum.get() == 0 {
        return Ok(());
    }
    let pseudo = checksum::pseudo_ipv4(src, dst, protocol::UDP, header.len.get());
    match pseudo.bytes(header.as_bytes()).bytes(payload).checksum() {
        0 => Ok(()),
        _ => Err(Malformed::BadChecksum),
    }
}

/// Does [`verify_ipv4`] over IPv6. A checksum of zero, which only tunnels may send, passes.
///
/// # Errors
/// Those of [`UdpHeader::parse`], and `BadChecksum`.
pub fn verify_ipv6(src: Ipv6Addr, dst: Ipv6Addr, datagram: &[u8]) -> Result<(), Malformed> {
    let (header, payload) = UdpHeader::parse(datagram)?;
    if header.checksum.get() == 0 {
        return Ok(());
    }
    let pseudo = checksum::pseudo_ipv6(src, dst, protocol::UDP, u32::from(header.len.get()));
    match pseudo.bytes(header.as_bytes()).bytes(payload).checksum() {
        0 => Ok(()),
        _ => Err(Malformed::BadChecksum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_header_known_octets_parse_and_emit() {
        let wire = [0x08, 0x68, 0x08, 0x68, 0, 10, 0xab, 0xcd, 1, 2, 3];
        let mut out = [0xa5; 8];
        UdpHeader::new(2152, 2152, 10, 0xabcd).emit(&mut out).unwrap();
        assert_eq!(out, wire[..8]);
        let (header, payload) = UdpHeader::parse(&wire).unwrap();
        assert_eq!((header.src_port(), header.dst_port(), header.len()), (2152, 2152, 10));
        assert_eq!((header.checksum(), payload), (0xabcd, &[1, 2][..]));
        for len in 0..10 {
            assert!(UdpHeader::parse(&wire[..len]).is_err());
        }
        assert!(UdpHeader::parse(&[0, 1, 0, 2, 0, 7, 0, 0]).is_err(), "length below the header");
    }

    #[test]
    fn udp_checksum_over_ipv4_by_hand_is_found_and_verified() {
        // 0a00 0001 0a00 0002 0011 000a | 0001 0002 000a 0000 4869 sum to 5c94, by hand.
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut datagram = [0, 1, 0, 2, 0, 10, 0, 0, 0x48, 0x69];
        let sum = checksum_ipv4(src, dst, &datagram);
        assert_eq!(sum, !0x5c94);
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(verify_ipv4(src, dst, &datagram), Ok(()));
        datagram[9] ^= 1;
        assert_eq!(verify_ipv4(src, dst, &datagram), Err(Malformed::BadChecksum));
    }

    #[test]
    fn udp_checksum_over_ipv6_round_trips_and_never_is_zero() {
        let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        for word in 0..=u16::MAX {
            let [high, low] = word.to_be_bytes();
            let mut datagram = [0, 1, 0, 2, 0, 10, 0, 0, high, low];
            let sum = checksum_ipv6(src, dst, &datagram);
            assert_ne!(sum, 0);
            datagram[6..8].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(verify_ipv6(src, dst, &datagram), Ok(()));
        }
    }
}
