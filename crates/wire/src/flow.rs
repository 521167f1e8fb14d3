//! The hash of a flow, which selects one of several next hops.

use zerocopy::FromBytes;

use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::protocol;

/// Returns a hash of the five-tuple of an IP packet: addresses, protocol and ports. All fragments
/// of a datagram have the same hash, without ports. Zero for octets that are no IP packet.
///
/// The hash is the same in every process: the flows of a node that takes over stay with their next
/// hops.
#[inline]
#[must_use]
pub fn flow_hash(packet: &[u8]) -> u32 {
    match packet.first().map(|first| first >> 4) {
        Some(4) => hash_v4(packet),
        Some(6) => hash_v6(packet),
        _ => None,
    }
    .unwrap_or(0)
}

#[inline]
fn hash_v4(packet: &[u8]) -> Option<u32> {
    let (ip, _) = Ipv4Header::ref_from_prefix(packet).ok()?;
    let ports = match ip.more_fragments() || ip.fragment_offset() != 0 {
        true => 0,
        false => ports(packet, ip.header_len(), ip.protocol()),
    };
    let addrs = u64::from(ip.src().to_bits()) << 32 | u64::from(ip.dst().to_bits());
    Some(mix(addrs, u64::from(ip.protocol()) << 32 | u64::from(ports)))
}

/// Hashes an IPv6 packet. Ports behind extension headers do not count: fragments have one.
#[inline]
fn hash_v6(packet: &[u8]) -> Option<u32> {
    let (ip, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
    let half = |addr: &[u8; 16], at: usize| {
        addr[at..].first_chunk().map_or(0, |half| u64::from_be_bytes(*half))
    };
    let upper = half(&ip.src, 0) ^ half(&ip.dst, 0).rotate_left(32);
    let lower = half(&ip.src, 8) ^ half(&ip.dst, 8).rotate_left(32);
    let ports = ports(packet, Ipv6Header::LEN, ip.next_header());
    let addrs = u64::from(mix(upper, lower)) << 32 | lower & 0xffff_ffff;
    Some(mix(addrs, u64::from(ip.next_header()) << 32 | u64::from(ports)))
}

#[inline]
fn ports(packet: &[u8], at: usize, protocol: u8) -> u32 {
    let ports = packet.get(at..).and_then(|upper| upper.first_chunk());
    match ports {
        Some(ports) if protocol::has_ports(protocol) => u32::from_be_bytes(*ports),
        _ => 0,
    }
}

/// Spreads two words over 32 bits, by a folded multiply. The upper bits are the best ones.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "halves of a product")]
const fn mix(a: u64, b: u64) -> u32 {
    let factor = a ^ 0x9e37_79b9_7f4a_7c15;
    let product = factor as u128 * (b ^ 0xbf58_476d_1ce4_e5b9) as u128;
    let folded = (product >> 64) as u64 ^ product as u64;
    let spread = folded.wrapping_mul(0x94d0_49bb_1331_11eb);
    (spread >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an IPv4 or IPv6 packet of UDP between two hosts.
    fn udp(is_v6: bool, hosts: [u8; 2], ports: [u16; 2]) -> Vec<u8> {
        let mut packet = if is_v6 { vec![0; 48] } else { vec![0; 28] };
        let (version, protocol_at, len) = if is_v6 { (0x60, 6, 40) } else { (0x45, 9, 20) };
        (packet[0], packet[protocol_at]) = (version, protocol::UDP);
        let ends = if is_v6 { [23, 39] } else { [15, 19] };
        ends.into_iter().zip(hosts).for_each(|(at, host)| packet[at] = host);
        for (at, port) in [0, 2].into_iter().zip(ports) {
            packet[len + at..][..2].copy_from_slice(&port.to_be_bytes());
        }
        packet
    }

    #[test]
    fn flows_spread_evenly_by_each_field() {
        for is_v6 in [false, true] {
            let hosts = (0..=255).flat_map(|a| [[a, 7], [7, a]]);
            let by_host = hosts.map(|hosts| udp(is_v6, hosts, [1, 2]));
            let ports = (0..2000).flat_map(|port| [[port, 53], [443, port]]);
            let by_port = ports.map(|ports| udp(is_v6, [1, 2], ports));
            for flows in [by_host.collect::<Vec<_>>(), by_port.collect()] {
                let mut counts = [0_usize; 4];
                for packet in &flows {
                    counts[usize::try_from(flow_hash(packet) >> 30).unwrap()] += 1;
                }
                let mean = flows.len() / 4;
                let is_even = |count: &usize| count.abs_diff(mean) < mean / 4;
                assert!(counts.iter().all(is_even), "{is_v6}: {counts:?}");
            }
        }
    }

    #[test]
    fn fragments_of_a_datagram_have_one_hash_and_other_protocols_no_ports() {
        let whole = udp(false, [1, 2], [1000, 2000]);
        let fragment = |flags_offset: u16, port: u16| {
            let mut packet = udp(false, [1, 2], [port, 9]);
            packet[6..8].copy_from_slice(&flags_offset.to_be_bytes());
            flow_hash(&packet)
        };
        assert_eq!(fragment(0x2000, 1000), fragment(185, 4242));
        assert_ne!(fragment(0x2000, 1000), flow_hash(&whole));
        assert_eq!(fragment(0x4000, 1000), fragment(0, 1000), "DF is no fragment");
        let mut icmp = [whole.clone(), udp(false, [1, 2], [5, 6])];
        icmp.iter_mut().for_each(|packet| packet[9] = protocol::ICMP);
        assert_eq!(flow_hash(&icmp[0]), flow_hash(&icmp[1]));
        let mut v6 = [udp(true, [1, 2], [5, 6]), udp(true, [1, 2], [7, 8])];
        v6.iter_mut().for_each(|packet| packet[6] = 44);
        assert_eq!(flow_hash(&v6[0]), flow_hash(&v6[1]));
        assert_eq!((flow_hash(&[]), flow_hash(&whole[..19]), flow_hash(&[0x45])), (0, 0, 0));
    }
}
