//! The maximum segment size (MSS) that a TCP SYN announces. Spec: RFC 9293 §3.1, §3.2, §3.7.1;
//! RFC 6691.

use zerocopy::FromBytes;

use crate::checksum::update;
use crate::parse::IpPacket;
use crate::protocol;
use crate::tcp::TcpHeader;

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const MSS_LEN: u8 = 4;

/// Returns the length of TCP and IP headers without options and extension headers: an MSS is the
/// MTU less this. Unit: octets.
#[must_use]
pub const fn mss_headers_len(is_ipv4: bool) -> u16 {
    if is_ipv4 { 40 } else { 60 }
}

/// True for a SYN or SYN-ACK of TCP, or the first fragment of one. `packet` begins with the header
/// that `ip` was parsed from.
#[inline]
#[must_use]
pub fn is_syn(packet: &[u8], ip: &IpPacket) -> bool {
    const FLAGS: usize = 13;
    ip.protocol == protocol::TCP
        && ip.has_upper_layer()
        && ip.payload(packet).get(FLAGS).is_some_and(|flags| flags & TcpHeader::SYN != 0)
}

/// Lowers the MSS to `most` in every MSS option of a SYN or SYN-ACK, and updates the TCP checksum.
/// `packet` begins with the header that `ip` was parsed from. Returns whether an option changed.
///
/// Does not change later fragments, other packets, options that the end of the packet cuts off, and
/// the octets after a malformed option.
pub fn clamp_mss(packet: &mut [u8], ip: &IpPacket, most: u16) -> bool {
    if !is_syn(packet, ip) {
        return false;
    }
    let segment = packet.get_mut(usize::from(ip.payload_offset)..usize::from(ip.total_len));
    segment.and_then(|segment| clamp_segment(segment, most)).is_some()
}

/// Does [`clamp_mss`] in a segment. `None` if nothing changed.
fn clamp_segment(segment: &mut [u8], most: u16) -> Option<()> {
    let (header, behind) = TcpHeader::mut_from_prefix(segment).ok()?;
    let options_len = header.header_len().checked_sub(TcpHeader::LEN)?.min(behind.len());
    let mut rest = behind.get_mut(..options_len)?;
    let mut checksum = header.checksum.get();
    let mut is_changed = false;
    loop {
        // The options begin at an even offset of the segment.
        let is_odd = (options_len - rest.len()) % 2 != 0;
        rest = match rest {
            [] | [END_OF_OPTIONS, ..] => break,
            [NO_OPERATION, rest @ ..] => rest,
            [MSS, MSS_LEN, high, low, rest @ ..] => {
                let announced = u16::from_be_bytes([*high, *low]);
                if announced > most {
                    [*high, *low] = most.to_be_bytes();
                    // At an odd offset, the octets of the value are in two words, exchanged.
                    let word = |value: u16| if is_odd { value.swap_bytes() } else { value };
                    checksum = update(checksum, word(announced), word(most));
                    is_changed = true;
                }
                rest
            }
            [_, len, ..] if *len >= 2 => {
                let len = usize::from(*len);
                match rest.get_mut(len..) {
                    Some(rest) => rest,
                    None => break,
                }
            }
            _ => break,
        };
    }
    header.checksum.set(checksum);
    is_changed.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{Sum, pseudo_ipv4, pseudo_ipv6};
    use crate::parse::{IpAddrs, parse_ip};

    const SYN_ACK: u8 = TcpHeader::SYN | TcpHeader::ACK;

    /// Returns a packet with a correct TCP checksum. `words`: the data offset; `front`: extension
    /// headers of IPv6; `behind`: the octets after the fixed TCP header.
    fn packet(is_v6: bool, front: &[u8], flags: u8, words: u8, behind: &[u8]) -> Vec<u8> {
        let mut segment = vec![0x12, 0x34, 1, 0xbb, 9, 8, 7, 6, 0, 0, 0, 0, words << 4, flags];
        segment.extend([0x40, 0, 0, 0, 0, 0]);
        segment.extend(behind);
        let len = u16::try_from(front.len() + segment.len()).unwrap();
        let mut packet = match is_v6 {
            true => {
                let next =
                    if front.is_empty() { protocol::TCP } else { protocol::IPV6_DST_OPTIONS };
                let mut header = vec![0x60, 0, 0, 0, 0, 0, next, 64];
                header[4..6].copy_from_slice(&len.to_be_bytes());
                header.extend((0..32).map(|n| n * 7 + 1));
                header
            }
            false => {
                let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol::TCP, 0, 0];
                header[2..4].copy_from_slice(&(len + 20).to_be_bytes());
                header.extend([10, 45, 0, 9, 8, 8, 8, 8]);
                header
            }
        };
        packet.extend(front);
        packet.extend(segment);
        let ip = parse_ip(&packet, false).unwrap();
        let sum = right_checksum(&packet, &ip);
        let at = usize::from(ip.payload_offset) + 16;
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// Returns the checksum that the segment of the packet should have.
    fn right_checksum(packet: &[u8], ip: &IpPacket) -> u16 {
        let mut segment = ip.payload(packet).to_vec();
        segment[16..18].fill(0);
        let pseudo = match ip.addrs {
            IpAddrs::V4 { src, dst } => pseudo_ipv4(src, dst, protocol::TCP, ip.payload_len()),
            IpAddrs::V6 { src, dst } => {
                pseudo_ipv6(src, dst, protocol::TCP, ip.payload_len().into())
            }
        };
        pseudo.bytes(&segment).checksum()
    }

    /// Clamps to 1,360. Checks the checksum, and that only the octets of `behind` changed. Returns
    /// these octets, and whether they changed.
    fn clamped(is_v6: bool, front: &[u8], words: u8, behind: &[u8]) -> (Vec<u8>, bool) {
        let before = packet(is_v6, front, SYN_ACK, words, behind);
        // The octets that follow do not belong to the packet.
        let mut after = [&before[..], &[2, 4, 0xff, 0xff]].concat();
        let ip = parse_ip(&after, false).unwrap();
        let is_changed = clamp_mss(&mut after, &ip, 1360);
        let at = usize::from(ip.payload_offset);
        let field = after[at + 16..at + 18].to_vec();
        assert_eq!(field, right_checksum(&after, &ip).to_be_bytes(), "{behind:?}");
        assert_eq!(after[before.len()..], [2, 4, 0xff, 0xff]);
        assert_eq!(after[..at + 16], before[..at + 16]);
        (after[at + 20..before.len()].to_vec(), is_changed)
    }

    #[test]
    fn an_mss_is_lowered_wherever_it_stands_and_never_raised() {
        let [fits, low, high] = [[2, 4, 0x05, 0x50], [2, 4, 0x02, 0x18], [2, 4, 0x05, 0xb4]];
        for (is_v6, front) in [(false, &[][..]), (true, &[]), (true, &[6, 0, 1, 4, 0, 0, 0, 0])] {
            let check = |words: u8, before: &[u8], after: &[u8]| {
                let is_changed = before != after;
                let told = clamped(is_v6, front, words, before);
                assert_eq!(told, (after.to_vec(), is_changed), "{is_v6} {before:?}");
            };
            check(6, &high, &fits);
            check(6, &fits, &fits);
            check(6, &low, &low);
            check(6, &[&high[..], b"data"].concat(), &[&fits[..], b"data"].concat());
            // As second option, at odd offsets, after other options, and twice.
            check(7, &[&high[..], &high].concat(), &[&fits[..], &fits].concat());
            check(
                7,
                &[&[1], &high[..], &[1, 1, 0]].concat(),
                &[&[1], &fits[..], &[1, 1, 0]].concat(),
            );
            let others = [&[3, 3, 7, 4, 2, 1, 8, 10, 9, 9, 9, 9, 9, 9, 9, 9, 1][..]].concat();
            let with = |mss: [u8; 4]| [&others[..], &mss, &mss, &[0, 0, 0]].concat();
            check(12, &with(high), &with(fits));
            let odd = |mss: [u8; 4]| [&[3, 3, 7][..], &mss, &[1]].concat();
            check(7, &odd(high), &odd(fits));
        }
    }

    #[test]
    fn malformed_options_and_what_follows_them_stay() {
        let high = [2, 4, 0x05, 0xb4];
        for (words, behind) in [
            // Options with lengths 0 and 1, and with a length beyond the header.
            (7, [&[3, 0][..], &high, &[1, 1]].concat()),
            (7, [&[3, 1][..], &high, &[1, 1]].concat()),
            (7, [&[3, 7][..], &high, &[1, 1]].concat()),
            (7, [&[3, 200][..], &high, &[1, 1]].concat()),
            (6, vec![1, 2, 4, 0x05]),
            (6, vec![1, 1, 2, 4]),
            (6, vec![1, 1, 1, 2]),
            // An MSS option of another length, one after the end of options, one after the header,
            // and none.
            (7, vec![2, 3, 0x05, 2, 5, 0x05, 0xb4, 0]),
            (7, [&[0][..], &high, &[1, 1, 1]].concat()),
            (5, high.to_vec()),
            (4, high.to_vec()),
            (0, high.to_vec()),
            (5, vec![]),
            // The header is longer than the packet.
            (15, vec![2, 4, 0x05]),
            (15, vec![2]),
        ] {
            let (after, is_changed) = clamped(false, &[], words, &behind);
            assert_eq!((after, is_changed), (behind, false));
        }
        // A first fragment may end within the header.
        assert!(clamped(false, &[], 15, &[2, 4, 0x05, 0xb4]).1);
    }

    #[test]
    fn only_syns_in_whole_packets_and_first_fragments_change() {
        let high = [2, 4, 0x05, 0xb4];
        for flags in 0..=u8::MAX {
            let mut syn = packet(false, &[], flags, 6, &high);
            let ip = parse_ip(&syn, false).unwrap();
            assert_eq!(clamp_mss(&mut syn, &ip, 1360), flags & 2 != 0, "{flags:#x}");
        }
        let syn = packet(false, &[], SYN_ACK, 6, &high);
        for (flags_offset, is_changed) in [(0x2000_u16, true), (0x2001, false), (1, false)] {
            let mut part = syn.clone();
            part[6..8].copy_from_slice(&flags_offset.to_be_bytes());
            let ip = parse_ip(&part, false).unwrap();
            assert_eq!(clamp_mss(&mut part, &ip, 1360), is_changed, "{flags_offset:#x}");
        }
        let mut udp = syn.clone();
        udp[9] = protocol::UDP;
        let ip = parse_ip(&udp, false).unwrap();
        assert!(!clamp_mss(&mut udp, &ip, 1360));
        // A SYN that is cut anywhere: nothing beyond its end is read.
        for len in 20..syn.len() {
            let mut cut = syn[..len].to_vec();
            cut[2..4].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
            let ip = parse_ip(&cut, false).unwrap();
            let before = cut.clone();
            assert!(!clamp_mss(&mut cut, &ip, 1360), "{len}");
            assert_eq!(cut, before);
        }
    }

    #[test]
    fn checksums_stay_right_for_any_values() {
        for (announced, most) in
            [(0xffff, 0), (0xffff, 1), (0xff00, 0x00ff), (1461, 1460), (0x8000, 0x7fff)]
        {
            for front in [&[][..], &[1], &[1, 1], &[1, 1, 1]] {
                let [high, low] = u16::to_be_bytes(announced);
                let mut options = [front, &[2, 4, high, low]].concat();
                options.resize(8, 0);
                let mut syn = packet(false, &[], TcpHeader::SYN, 7, &options);
                let ip = parse_ip(&syn, false).unwrap();
                assert!(clamp_mss(&mut syn, &ip, most));
                let sum = pseudo_ipv4([10, 45, 0, 9].into(), [8, 8, 8, 8].into(), 6, 28);
                let sum: Sum = sum.bytes(ip.payload(&syn));
                assert_eq!(sum.checksum(), 0, "{announced} {most} {front:?}");
            }
        }
    }
}
