//! Internet checksums, each computed from the beginning. Spec: RFC 1071.

use core::net::IpAddr;

/// The addresses of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct OracleAddrs {
    pub src: IpAddr,
    pub dst: IpAddr,
}

impl OracleAddrs {
    /// Both addresses, the source first.
    pub(super) fn octets(self) -> Vec<u8> {
        let octets = |addr| match addr {
            IpAddr::V4(addr) => addr.octets().to_vec(),
            IpAddr::V6(addr) => addr.octets().to_vec(),
        };
        [octets(self.src), octets(self.dst)].concat()
    }
}

/// The Internet checksum over `bytes`, octet pair by octet pair.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u64 = 0;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// The checksum over pseudo header and UDP datagram: zero if the datagram has the right one.
pub(super) fn udp_sum(addrs: OracleAddrs, datagram: &[u8]) -> u16 {
    upper_layer_sum(addrs, 17, datagram)
}

/// The checksum over pseudo header and ICMPv6 message: zero if the message has the right one.
pub(super) fn icmpv6_sum(addrs: OracleAddrs, message: &[u8]) -> u16 {
    upper_layer_sum(addrs, 58, message)
}

/// Spec: RFC 768; RFC 8200 §8.1. The sum is the same for the pseudo header of IPv4, which is
/// shorter.
fn upper_layer_sum(addrs: OracleAddrs, protocol: u8, upper: &[u8]) -> u16 {
    let mut pseudo = addrs.octets();
    pseudo.extend_from_slice(&(upper.len() as u32).to_be_bytes());
    pseudo.extend_from_slice(&[0, 0, 0, protocol]);
    pseudo.extend_from_slice(upper);
    checksum(&pseudo)
}
