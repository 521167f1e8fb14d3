//! Segmenting and joining are inverse.

use adit_pktio::mem::MemBuf;
use adit_pktio::{Burst, PacketBuf};
use proptest::prelude::*;

use crate::join::{JoinOffer, JoinPlan};
use crate::segment::{Segmentation, pseudo_header, put, word};
use crate::vnet::{GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, VnetHeader};

const OFFER: JoinOffer = JoinOffer { tcp: true, udp: true };

/// A large packet as the kernel passes it.
#[derive(Debug, Clone)]
struct Large {
    header: VnetHeader,
    packet: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct LargeShape {
    is_v6: bool,
    is_udp: bool,
    options: usize,
    size: usize,
    payload: usize,
    port: u16,
    is_pushed: bool,
    seed: u8,
}

fn shape() -> impl Strategy<Value = LargeShape> {
    let sizes = (1_usize..1448, 1_usize..40, 0_usize..1448);
    let bits = (any::<bool>(), any::<bool>(), any::<bool>());
    (bits, 0_usize..=10, sizes, any::<u16>(), any::<u8>()).prop_map(
        |((is_v6, is_udp, is_pushed), options, (size, count, rest), port, seed)| {
            let payload = (size * count + rest % size).max(1);
            LargeShape { is_v6, is_udp, options, size, payload, port, is_pushed, seed }
        },
    )
}

impl Large {
    fn new(shape: LargeShape) -> Self {
        let LargeShape { is_v6, is_udp, options, size, payload, port, is_pushed, seed } = shape;
        let ip = if is_v6 { 40 } else { 20 };
        let upper_header = if is_udp { 8 } else { 20 + 4 * options };
        let len = ip + upper_header + payload;
        let mut packet = vec![0; len];
        if is_v6 {
            packet[..8].copy_from_slice(&[
                0x60,
                0x12,
                0x34,
                0x56,
                0,
                0,
                if is_udp { 17 } else { 6 },
                63,
            ]);
            packet[8..40].fill(0x20 ^ seed);
            put(&mut packet, 4, word(len - 40));
        } else {
            packet[..10].copy_from_slice(&[
                0x45,
                0x28,
                0,
                0,
                0xff,
                0xf0,
                0,
                0,
                63,
                if is_udp { 17 } else { 6 },
            ]);
            packet[12..20].copy_from_slice(&[10, 45, 0, seed, 10, 0, 6, 1]);
            put(&mut packet, 2, word(len));
            let sum = adit_wire::checksum::checksum(&packet[..20]);
            put(&mut packet, 10, sum);
        }
        put(&mut packet, ip, port);
        put(&mut packet, ip + 2, 5201);
        if is_udp {
            put(&mut packet, ip + 4, word(8 + payload));
        } else {
            packet[ip + 4..ip + 12].copy_from_slice(&[0xff, 0xff, 0xf0, seed, 1, 2, 3, 4]);
            packet[ip + 12] = u8::try_from(upper_header / 4).unwrap() << 4;
            packet[ip + 13] = if is_pushed { 0x18 } else { 0x10 };
            packet[ip + 14..ip + 16].copy_from_slice(&[0x01, 0xf6]);
            packet[ip + 20..ip + upper_header].fill(1);
        }
        for (at, octet) in packet[ip + upper_header..].iter_mut().enumerate() {
            *octet = u8::try_from((at * 7 + usize::from(seed)) % 251).unwrap();
        }
        let protocol = if is_udp { 17 } else { 6 };
        let csum_offset = if is_udp { 6 } else { 16 };
        let pseudo = pseudo_header(&packet, protocol, len - ip).fold();
        put(&mut packet, ip + csum_offset, pseudo);
        let gso_type = match (is_udp, is_v6) {
            (true, _) => GSO_UDP_L4,
            (false, false) => GSO_TCPV4,
            (false, true) => GSO_TCPV6,
        };
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            gso_type,
            hdr_len: word(ip + upper_header),
            gso_size: word(size),
            csum_start: word(ip),
            csum_offset: word(csum_offset),
        };
        Self { header, packet }
    }

    fn segments(&self) -> Vec<Vec<u8>> {
        let mut packet = self.packet.clone();
        let cut = Segmentation::new(&self.header, &mut packet).unwrap();
        let write = |index| {
            let mut out = vec![0xa5; cut.len_of(index)];
            cut.write(&packet, index, &mut out);
            out
        };
        (0..cut.count()).map(write).collect()
    }
}

fn is_intact(packet: &[u8]) -> bool {
    let (ip, protocol) = if packet[0] >> 4 == 4 { (20, packet[9]) } else { (40, packet[6]) };
    let header = ip == 40 || adit_wire::checksum::checksum(&packet[..20]) == 0;
    let upper = &packet[ip..];
    header && pseudo_header(packet, protocol, upper.len()).bytes(upper).checksum() == 0
}

/// Returns the packets that the device would get: the header and octets of each group.
fn join(packets: &[Vec<u8>]) -> Vec<Large> {
    let mut burst: Burst<MemBuf> =
        packets.iter().map(|octets| MemBuf::from_packet(octets)).collect();
    let plan = JoinPlan::new(&burst, 0, OFFER);
    let mut joined = Vec::new();
    for group in &plan.groups {
        let last_flags = plan.last_flags(group, &burst, 0);
        let headers = plan.headers(group);
        let header = plan.finish(group, burst[group.first].data_mut(), last_flags);
        let mut packet = Vec::new();
        for at in plan.members(group) {
            let from = if at == group.first { 0 } else { headers };
            packet.extend_from_slice(&burst[at].data()[from..]);
        }
        joined.push(Large { header, packet });
    }
    joined
}

proptest! {
    #[test]
    fn cut_packets_are_intact_and_join_to_the_same_octets(shape in shape()) {
        let large = Large::new(shape);
        let segments = large.segments();
        prop_assert_eq!(segments.len(), shape.payload.div_ceil(shape.size));
        for segment in &segments {
            prop_assert!(is_intact(segment));
        }
        let joined = join(&segments);
        prop_assert_eq!(joined.len(), 1);
        if segments.len() > 1 {
            prop_assert_eq!(joined[0].header, large.header);
            prop_assert_eq!(&joined[0].packet, &large.packet);
        } else {
            prop_assert_eq!(joined[0].header, VnetHeader::default());
            prop_assert_eq!(&joined[0].packet, &segments[0]);
        }
    }

    #[test]
    fn flows_that_take_turns_keep_their_order_and_octets(
        shapes in prop::collection::vec(shape(), 1..5),
        turns in prop::collection::vec(0_usize..5, 0..64),
        broken in prop::option::of(0_usize..64),
    ) {
        let mut flows: Vec<_> = (0..).zip(&shapes).map(|(port, shape)| {
            Large::new(LargeShape { port, ..*shape }).segments().into_iter()
        }).collect();
        let mut packets: Vec<Vec<u8>> = turns.iter().filter_map(|turn| {
            let at = turn % flows.len();
            flows[at].next()
        }).collect();
        if let Some(packet) = broken.and_then(|at| packets.get_mut(at)) {
            let last = packet.len() - 1;
            packet[last] ^= 0x40;
        }
        let joined = join(&packets);
        let flow = |packet: &[u8]| {
            let ip = if packet[0] >> 4 == 4 { 20 } else { 40 };
            [packet[ip], packet[ip + 1]]
        };
        let parts: Vec<Vec<u8>> = joined.iter().flat_map(|large| {
            if large.header.gso_type == 0 { vec![large.packet.clone()] } else { large.segments() }
        }).collect();
        prop_assert_eq!(parts.len(), packets.len());
        for at in 0..flows.len() {
            let port = u16::try_from(at).unwrap().to_be_bytes();
            let of = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
                all.iter().filter(|packet| flow(packet) == port).cloned().collect()
            };
            prop_assert_eq!(of(&parts), of(&packets));
        }
    }

    #[test]
    fn random_octets_are_cut_or_refused(
        header in (any::<u8>(), any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>()),
        mut packet in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let (flags, gso_type, gso_size, csum_start, csum_offset) = header;
        let header = VnetHeader {
            flags,
            gso_type: gso_type % 8,
            hdr_len: 0,
            gso_size: gso_size % 64,
            csum_start: csum_start % 64,
            csum_offset: csum_offset % 32,
        };
        if let Some(cut) = Segmentation::new(&header, &mut packet) {
            for index in 0..cut.count() {
                let mut out = vec![0; cut.len_of(index)];
                cut.write(&packet, index, &mut out);
            }
        }
    }

    #[test]
    fn random_packets_survive_joining(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..20),
        versions in prop::collection::vec(prop::sample::select(vec![0x45_u8, 0x46, 0x60, 0]), 20),
    ) {
        let mut packets = packets;
        for (packet, version) in packets.iter_mut().zip(versions) {
            if let Some(first) = packet.first_mut() {
                *first = version;
            }
        }
        let joined: Vec<_> = join(&packets).into_iter().map(|large| large.packet).collect();
        prop_assert_eq!(joined, packets);
    }
}

#[test]
fn packets_that_differ_in_more_than_their_position_stay_apart() {
    let shape = LargeShape {
        is_v6: false,
        is_udp: false,
        options: 3,
        size: 100,
        payload: 300,
        port: 1,
        is_pushed: true,
        seed: 1,
    };
    let segments = Large::new(shape).segments();
    assert_eq!(join(&segments).len(), 1);
    // Changes one octet of the second packet at a time, and corrects the checksums.
    for at in [1, 5, 8, 20 + 7, 20 + 11, 20 + 13, 20 + 15, 20 + 19, 20 + 25] {
        let mut changed = segments.clone();
        changed[1][at] ^= 0x04;
        put(&mut changed[1], 10, 0);
        let sum = adit_wire::checksum::checksum(&changed[1][..20]);
        put(&mut changed[1], 10, sum);
        put(&mut changed[1], 36, 0);
        let len = changed[1].len();
        let sum = pseudo_header(&changed[1], 6, len - 20).bytes(&changed[1][20..]).checksum();
        put(&mut changed[1], 36, sum);
        assert!(is_intact(&changed[1]));
        assert_eq!(join(&changed).len(), 3, "octet {at}");
    }
}
