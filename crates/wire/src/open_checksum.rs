//! Open checksums: the sender's kernel left them for a card to finish, but the link has no card.
//!
//! On virtual links (veth, TAP, virtio) a kernel passes on TCP segments and UDP datagrams whose
//! checksum field has only the sum of the pseudo header: a card would add the rest. A frame shows
//! that by its octets, because the field equals this sum. A finished checksum has the same value in
//! one of 65,536 cases; then finishing it results in the same value.

use crate::checksum::{Sum, pseudo_ipv4, pseudo_ipv6};
use crate::ethernet::EthernetHeader;
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::usual::tag_len;
use crate::{EtherType, protocol};
use zerocopy::FromBytes;

/// A TCP segment or UDP datagram whose checksum field has the sum of its pseudo header.
struct OpenSegment {
    at: usize,
    len: usize,
    /// Where the segment's checksum is, counted from `at`.
    field: usize,
}

/// Finishes the checksum of the outermost TCP segment or UDP datagram of a frame if its sender left
/// it open. Returns whether it did. Does not change fragments and frames that are cut off.
#[inline]
pub fn finish_open_checksum(frame: &mut [u8]) -> bool {
    match open_segment(frame) {
        Some(open) => finish(frame, &open).is_some(),
        None => false,
    }
}

#[cold]
fn finish(frame: &mut [u8], open: &OpenSegment) -> Option<()> {
    let segment = frame.get_mut(open.at..open.at + open.len)?;
    // The field is included in the sum, and so adds the pseudo header.
    let sum = Sum::new().bytes(segment);
    let sum = if open.field == UDP_FIELD { sum.udp_checksum() } else { sum.checksum() };
    segment.get_mut(open.field..open.field + 2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Offset of the checksum in a UDP header.
const UDP_FIELD: usize = 6;
/// Offset of the checksum in a TCP header.
const TCP_FIELD: usize = 16;

#[inline]
fn open_segment(frame: &[u8]) -> Option<OpenSegment> {
    let ip_at = EthernetHeader::LEN + tag_len(frame);
    let ether_type = frame.get(ip_at - 2..ip_at)?;
    let packet = frame.get(ip_at..)?;
    let (protocol, header_len, len, pseudo) = match u16::from_be_bytes(ether_type.try_into().ok()?)
    {
        kind if kind == EtherType::IPV4.0 => {
            let (ip, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
            let header_len = usize::from(packet.first()? & 0x0f) * 4;
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]);
            let len = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            let len = len.checked_sub(header_len).filter(|_| fragment & 0x3fff == 0)?;
            let protocol = *packet.get(9)?;
            let pseudo = pseudo_ipv4(ip.src(), ip.dst(), protocol, u16::try_from(len).ok()?);
            (protocol, header_len, len, pseudo)
        }
        kind if kind == EtherType::IPV6.0 => {
            let (ip, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
            let len = u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]);
            let protocol = *packet.get(6)?;
            let pseudo = pseudo_ipv6(ip.src(), ip.dst(), protocol, len.into());
            (protocol, 40, len.into(), pseudo)
        }
        _ => return None,
    };
    let field = match protocol {
        protocol::UDP => UDP_FIELD,
        protocol::TCP => TCP_FIELD,
        _ => return None,
    };
    let at = ip_at + header_len;
    let octets = frame.get(at + field..at + field + 2)?;
    (octets == pseudo.fold().to_be_bytes()).then_some(OpenSegment { at, len, field })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::checksum;

    const V4: [u8; 20] = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 0, 0, 0, 10, 0, 6, 1, 10, 45, 0, 2];

    fn v6() -> Vec<u8> {
        let mut header = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
        header.extend((0..32).map(|n| n * 7));
        header
    }

    /// Returns a frame with a finished checksum, and the offset of this checksum.
    fn frame(is_v6: bool, protocol: u8, tag: &[u8], payload: &[u8]) -> (Vec<u8>, usize) {
        let (header_len, field) = if protocol == protocol::UDP { (8, 6) } else { (20, 16) };
        let len = u16::try_from(header_len + payload.len()).unwrap();
        let mut ip = if is_v6 { v6() } else { V4.to_vec() };
        let mut segment = vec![0; header_len];
        segment[..4].copy_from_slice(&[0x12, 0x34, 0x1e, 0x61]);
        segment.extend(payload);
        let addrs = match is_v6 {
            true => {
                ip[4..6].copy_from_slice(&len.to_be_bytes());
                ip[6] = protocol;
                ip[8..40].to_vec()
            }
            false => {
                ip[2..4].copy_from_slice(&(len + 20).to_be_bytes());
                ip[9] = protocol;
                ip[12..20].to_vec()
            }
        };
        let pseudo = [&addrs[..], &[0, protocol], &len.to_be_bytes(), &segment].concat();
        segment[field..field + 2].copy_from_slice(&checksum(&pseudo).to_be_bytes());
        let kind = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
        let at = 12 + tag.len() + 2 + ip.len() + field;
        ([&[2; 12][..], tag, &kind, &ip, &segment].concat(), at)
    }

    fn open(frame: &[u8], at: usize, is_v6: bool, protocol: u8, len: u16) -> Vec<u8> {
        let mut open = frame.to_vec();
        let l4 = at - if protocol == protocol::UDP { 6 } else { 16 };
        let addrs = if is_v6 { &frame[l4 - 32..l4] } else { &frame[l4 - 8..l4] };
        let sum = Sum::new().bytes(addrs).word(protocol.into()).word(len).fold();
        open[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        open
    }

    #[test]
    fn open_checksum_becomes_what_the_card_would_have_written() {
        for (is_v6, protocol) in [(false, 6), (false, 17), (true, 6), (true, 17)] {
            for payload in [&b"hello world"[..], b"", &[0xff; 1400]] {
                for tag in [&[][..], &[0x81, 0, 0, 7]] {
                    let (right, at) = frame(is_v6, protocol, tag, payload);
                    let len = u16::try_from(payload.len()).unwrap();
                    let len = len + if protocol == 17 { 8 } else { 20 };
                    let mut open = open(&right, at, is_v6, protocol, len);
                    assert!(finish_open_checksum(&mut open));
                    assert_eq!(open, right, "{protocol}");
                    assert!(!finish_open_checksum(&mut open), "it is finished");
                }
            }
        }
    }

    #[test]
    fn fragments_and_frames_that_are_cut_or_damaged_stay_as_they_are() {
        let (right, at) = frame(false, 17, &[], b"hello world");
        let open = open(&right, at, false, 17, 19);
        for len in 0..open.len() {
            let mut cut = open[..len].to_vec();
            assert!(!finish_open_checksum(&mut cut), "{len}");
            assert_eq!(cut, open[..len]);
        }
        let mut fragment = open.clone();
        fragment[20] = 0x20;
        assert!(!finish_open_checksum(&mut fragment));
        let mut damaged = right;
        damaged[at] ^= 1;
        assert!(!finish_open_checksum(&mut damaged), "a wrong checksum is no open one");
    }
}
