//! Reads the packet that an ICMP error quotes, which may be cut off. Spec: RFC 792; RFC 1812
//! §4.3.2.3; RFC 4443 §3.2.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::Teid;

use crate::gtpu::{GtpuMessageType, UDP_PORT};
use crate::protocol;

/// A quoted G-PDU without IP options and extension headers, as Adit sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotedGpdu {
    /// Address of our end of the tunnel.
    pub src: IpAddr,
    /// Address of the peer.
    pub dst: IpAddr,
    /// Length of the whole packet. Unit: octets.
    pub total_len: usize,
    /// The tunnel.
    pub teid: Teid,
}

impl QuotedGpdu {
    /// Octets of a quote that are needed after the IP header: UDP, and GTP-U up to the TEID.
    const NEEDED: usize = 8 + 8;

    /// Reads a quote; `None` if it is of another packet, or ends before the TEID. Verifies no
    /// checksum: routers on the path have changed the IPv4 checksum, and the UDP checksum covers
    /// octets that are not quoted.
    #[must_use]
    pub fn read(quote: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes(*quote.get(at..)?.first_chunk()?));
        let octets = |at: usize| quote.get(at..);
        let (header, total_len, next, src, dst): (_, _, _, IpAddr, IpAddr) = match quote.first()? {
            0x45 => {
                let [src, dst] = [12, 16].map(|at| octets(at)?.first_chunk::<4>());
                let is_fragment = word(6)? & 0x3fff != 0;
                let (src, dst) = (Ipv4Addr::from(*src?).into(), Ipv4Addr::from(*dst?).into());
                (20, word(2)?.into(), (!is_fragment).then_some(*quote.get(9)?)?, src, dst)
            }
            first if first >> 4 == 6 => {
                let [src, dst] = [8, 24].map(|at| octets(at)?.first_chunk::<16>());
                let (src, dst) = (Ipv6Addr::from(*src?).into(), Ipv6Addr::from(*dst?).into());
                (40, 40 + usize::from(word(4)?), *quote.get(6)?, src, dst)
            }
            _ => return None,
        };
        let upper = octets(header)?.first_chunk::<{ Self::NEEDED }>()?;
        let ports = [&upper[..2], &upper[2..4]] == [UDP_PORT.to_be_bytes(); 2];
        let is_gpdu = upper[8] >> 4 == 3 && upper[9] == GtpuMessageType::G_PDU.0;
        let teid = Teid(u32::from_be_bytes(*upper[12..].first_chunk()?));
        (next == protocol::UDP && ports && is_gpdu).then_some(Self { src, dst, total_len, teid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEID: Teid = Teid(0x0102_0304);

    fn gpdu() -> Vec<u8> {
        let [a, b] = UDP_PORT.to_be_bytes();
        vec![a, b, a, b, 5, 0xb4, 0, 0, 0x34, 255, 5, 0xa4, 1, 2, 3, 4]
    }

    fn over_v4() -> Vec<u8> {
        let header = [0x45, 0, 5, 0xc8, 0, 0, 0x40, 0, 63, 17, 9, 9];
        [&header[..], &[10, 0, 3, 2], &[10, 0, 3, 1], &gpdu()].concat()
    }

    fn over_v6() -> Vec<u8> {
        let [src, dst] =
            ["2001:db8::2", "2001:db8::1"].map(|addr| addr.parse::<Ipv6Addr>().unwrap());
        [&[0x60, 0, 0, 0, 5, 0xb4, 17, 63][..], &src.octets(), &dst.octets(), &gpdu()].concat()
    }

    #[test]
    fn quote_up_to_the_teid_is_read() {
        let v4 = QuotedGpdu::read(&over_v4()).unwrap();
        assert_eq!((v4.total_len, v4.teid), (0x5c8, TEID));
        assert_eq!(
            (v4.src.to_string(), v4.dst.to_string()),
            ("10.0.3.2".into(), "10.0.3.1".into())
        );
        let v6 = QuotedGpdu::read(&over_v6()).unwrap();
        assert_eq!(
            (v6.total_len, v6.teid, v6.dst.to_string()),
            (40 + 0x5b4, TEID, "2001:db8::1".into())
        );
    }

    #[test]
    fn quote_of_another_packet_or_a_shorter_one_is_none() {
        for whole in [over_v4(), over_v6()] {
            (0..whole.len()).for_each(|len| assert_eq!(QuotedGpdu::read(&whole[..len]), None));
        }
        // Version and options, fragments, protocol, ports, GTP version, and message type.
        for (at, octet) in
            [(0, 0x46), (0, 0x55), (6, 0x20), (7, 1), (9, 6), (20, 0), (23, 0), (28, 0x54), (29, 1)]
        {
            let mut other = over_v4();
            other[at] = octet;
            assert_eq!(QuotedGpdu::read(&other), None, "{at}");
        }
        let mut other = over_v6();
        other[6] = 44;
        assert_eq!(QuotedGpdu::read(&other), None, "an extension header, which adit does not send");
    }
}
