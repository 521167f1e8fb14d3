//! Segments a large packet of the kernel.
//!
//! Each segment has the headers of the large packet with its own lengths, IPv4 identification, TCP
//! sequence number, TCP flags and checksums: the same octets as the kernel's own segmentation
//! writes. Spec: RFC 9293 §3.7.1; RFC 3168 §6.1.2 (CWR); virtio 1.2 §5.1.6.

use adit_wire::checksum::{self, Sum};
use adit_wire::protocol;

use crate::vnet::{GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, VnetHeader};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Offsets in the TCP or UDP header.
const TCP_SEQUENCE: usize = 4;
const TCP_DATA_OFFSET: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const UDP_LENGTH: usize = 4;
const UDP_CHECKSUM: usize = 6;
const UDP_HEADER: usize = 8;

/// The protocol above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpperProtocol {
    Tcp,
    Udp,
}

/// How a packet is segmented. Offsets count from the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segmentation {
    /// The packet is not segmented.
    Whole {
        /// Length of the packet. Unit: octets.
        len: usize,
    },
    /// The packet is cut into several.
    Segments(SegmentPlan),
}

/// The layout of a large packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentPlan {
    upper: UpperProtocol,
    is_v6: bool,
    upper_at: usize,
    headers: usize,
    size: usize,
    len: usize,
}

impl Segmentation {
    /// Decides how `packet` is segmented, and completes its checksum if it is not. `None` if
    /// `header` contradicts the packet.
    pub(crate) fn new(header: &VnetHeader, packet: &mut [u8]) -> Option<Self> {
        let (start, offset) = (usize::from(header.csum_start), usize::from(header.csum_offset));
        let is_partial = header.flags & NEEDS_CSUM != 0;
        let kind = header.gso_type & !GSO_ECN;
        if kind == GSO_NONE {
            if is_partial {
                complete_checksum(packet, start, offset)?;
            }
            return Some(Self::Whole { len: packet.len() });
        }
        let version = packet.first()? >> 4;
        let upper = match (kind, version) {
            (GSO_TCPV4, 4) | (GSO_TCPV6, 6) => UpperProtocol::Tcp,
            (GSO_UDP_L4, 4 | 6) => UpperProtocol::Udp,
            _ => return None,
        };
        let upper_len = match upper {
            UpperProtocol::Tcp => usize::from(packet.get(start + TCP_DATA_OFFSET)? >> 4) * 4,
            UpperProtocol::Udp => UDP_HEADER,
        };
        let least = if upper == UpperProtocol::Tcp { 20 } else { UDP_HEADER };
        let ip_len = if version == 4 { usize::from(packet.first()? & 0x0f) * 4 } else { 40 };
        let headers = start + upper_len;
        let plan = SegmentPlan {
            upper,
            is_v6: version == 6,
            upper_at: start,
            headers,
            size: header.gso_size.into(),
            len: packet.len(),
        };
        let fits = ip_len >= 20 && start >= ip_len && upper_len >= least && headers < packet.len();
        (fits && plan.size > 0).then_some(Self::Segments(plan))
    }

    /// Returns the number of segments.
    pub(crate) const fn count(&self) -> usize {
        match self {
            Self::Whole { .. } => 1,
            Self::Segments(plan) => (plan.len - plan.headers).div_ceil(plan.size),
        }
    }

    /// Returns the length of segment `index`. Unit: octets.
    pub(crate) fn len_of(&self, index: usize) -> usize {
        match self {
            Self::Whole { len } => *len,
            Self::Segments(plan) => {
                let (from, to) = plan.payload(index);
                plan.headers + to - from
            }
        }
    }

    /// Writes segment `index` of `packet` into `out`, which has exactly its length.
    pub(crate) fn write(&self, packet: &[u8], index: usize, out: &mut [u8]) {
        match self {
            Self::Whole { .. } => out.copy_from_slice(packet),
            Self::Segments(plan) => plan.write(packet, index, out),
        }
    }
}

impl SegmentPlan {
    fn payload(&self, index: usize) -> (usize, usize) {
        let from = self.headers + index * self.size;
        (from, (from + self.size).min(self.len))
    }

    fn write(&self, packet: &[u8], index: usize, out: &mut [u8]) {
        let (from, to) = self.payload(index);
        let (headers, payload) = out.split_at_mut(self.headers);
        headers.copy_from_slice(&packet[..self.headers]);
        payload.copy_from_slice(&packet[from..to]);
        let len = self.headers + to - from;
        if self.is_v6 {
            put(out, 4, word(len - 40));
        } else {
            put(out, 2, word(len));
            let first = u16::from_be_bytes([out[4], out[5]]);
            put(out, 4, first.wrapping_add(word(index)));
            put(out, 10, 0);
            let header_len = usize::from(out[0] & 0x0f) * 4;
            let sum = checksum::checksum(&out[..header_len]);
            put(out, 10, sum);
        }
        let upper = &mut out[self.upper_at..];
        match self.upper {
            UpperProtocol::Tcp => {
                let bytes = [upper[4], upper[5], upper[6], upper[7]];
                let offset = u32::try_from(index * self.size).unwrap_or(0);
                let sequence = u32::from_be_bytes(bytes).wrapping_add(offset);
                upper[TCP_SEQUENCE..][..4].copy_from_slice(&sequence.to_be_bytes());
                if to < self.len {
                    upper[TCP_FLAGS] &= !(FIN | PSH);
                }
                if index > 0 {
                    upper[TCP_FLAGS] &= !CWR;
                }
                put(upper, TCP_CHECKSUM, 0);
            }
            UpperProtocol::Udp => {
                let len = word(upper.len());
                put(upper, UDP_LENGTH, len);
                put(upper, UDP_CHECKSUM, 0);
            }
        }
        let protocol = match self.upper {
            UpperProtocol::Tcp => protocol::TCP,
            UpperProtocol::Udp => protocol::UDP,
        };
        let sum = pseudo_header(out, protocol, out.len() - self.upper_at);
        let sum = sum.bytes(&out[self.upper_at..]);
        let upper = &mut out[self.upper_at..];
        match self.upper {
            UpperProtocol::Tcp => put(upper, TCP_CHECKSUM, sum.checksum()),
            UpperProtocol::Udp => put(upper, UDP_CHECKSUM, sum.udp_checksum()),
        }
    }
}

/// Returns the sum of the pseudo header of an IP packet with `len` octets above IP.
pub(crate) fn pseudo_header(packet: &[u8], protocol: u8, len: usize) -> Sum {
    let addrs = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    Sum::new().bytes(addrs).word(protocol.into()).word(word(len))
}

/// Completes a checksum: it covers the octets from `start` on, and its field, at `offset` from
/// there, holds the sum of the pseudo header. `None` if the field lies beyond the packet.
fn complete_checksum(packet: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let sum = Sum::new().bytes(packet.get(start..)?);
    let is_udp = offset == UDP_CHECKSUM && is_udp(packet);
    let field = packet.get_mut(start + offset..start + offset + 2)?;
    let sum = if is_udp { sum.udp_checksum() } else { sum.checksum() };
    field.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

fn is_udp(packet: &[u8]) -> bool {
    let at = if packet.first().is_some_and(|octet| octet >> 4 == 4) { 9 } else { 6 };
    packet.get(at) == Some(&protocol::UDP)
}

/// Writes a 16-bit word.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Converts the length of a packet to 16 bits; saturates.
pub(crate) fn word(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_that_does_not_fit_its_packet_is_refused() {
        let header = |gso_type, csum_start, gso_size| VnetHeader {
            flags: NEEDS_CSUM,
            gso_type,
            csum_start,
            csum_offset: 16,
            gso_size,
            ..VnetHeader::default()
        };
        let mut packet = vec![0; 100];
        packet[0] = 0x45;
        packet[32] = 0x50;
        assert!(Segmentation::new(&header(GSO_TCPV4, 20, 10), &mut packet).is_some());
        for wrong in [
            header(GSO_TCPV6, 20, 10),
            header(GSO_TCPV4, 20, 0),
            header(GSO_TCPV4, 90, 10),
            header(GSO_TCPV4, 10, 10),
            header(3, 20, 10),
            header(GSO_NONE, 99, 0),
        ] {
            assert_eq!(Segmentation::new(&wrong, &mut packet), None, "{wrong:?}");
        }
        assert_eq!(Segmentation::new(&header(GSO_TCPV4, 20, 10), &mut []), None);
    }

    #[test]
    fn partial_checksum_is_completed() {
        let mut packet = vec![0x45, 0, 0, 33, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 1, 0, 2, 0, 13, 0, 0, b'h', b'e', b'l', b'l', b'o']);
        let pseudo = pseudo_header(&packet, 17, 13).fold();
        put(&mut packet, 26, pseudo);
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            csum_start: 20,
            csum_offset: 6,
            ..VnetHeader::default()
        };
        assert_eq!(Segmentation::new(&header, &mut packet), Some(Segmentation::Whole { len: 33 }));
        assert_eq!(pseudo_header(&packet, 17, 13).bytes(&packet[20..]).checksum(), 0);
    }
}
