//! Tunnel packets in fragments, against the oracle: fragments have the outcome of the whole packet,
//! whatever workers they arrive at and in whatever order.

use adit_datapath::{EventQueues, STAGES};
use adit_pktio::ScheduleType;
use adit_rules::PuntReason;
use adit_session::FTeidSpec;
use adit_testkit::packet::PacketBuilder;
use adit_tests::oracle::{OracleLane, OracleOutcome, checksum};
use adit_tests::world::InjectedFrame;
use adit_tests::{scenario, traffic};
use adit_types::{MacAddr, Roles};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const SCENARIOS: u64 = 16;
const PACKETS: usize = 300;

/// The fragments, cut at `cuts`, of an IPv4 or IPv6 packet without options that begins at `l3` of
/// `frame`.
fn parts(frame: &[u8], l3: usize, identification: u16, cuts: &[usize]) -> Option<Vec<Vec<u8>>> {
    let (link, packet) = frame.split_at(l3);
    let is_ipv4 = packet[0] == 0x45;
    let (header_len, len) = match is_ipv4 {
        true => (20, usize::from(u16::from_be_bytes([packet[2], packet[3]]))),
        false if packet[6] == 17 => {
            (40, 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])))
        }
        false => return None,
    };
    let (header, data) = packet[..len].split_at(header_len);
    let mut start = 0;
    let mut found = Vec::new();
    for end in cuts.iter().copied().filter(|cut| *cut < data.len()).chain([data.len()]) {
        let (part, is_more) = (&data[start..end], end < data.len());
        let place = u16::try_from(start).unwrap();
        let mut header = header.to_vec();
        if is_ipv4 {
            let total = u16::try_from(20 + part.len()).unwrap();
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[4..6].copy_from_slice(&identification.to_be_bytes());
            header[6..8].copy_from_slice(&((u16::from(is_more) << 13) | (place / 8)).to_be_bytes());
            header[10..12].fill(0);
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let total = u16::try_from(8 + part.len()).unwrap();
            header[4..6].copy_from_slice(&total.to_be_bytes());
            header[6] = 44;
            header.extend_from_slice(&[17, 0]);
            header.extend_from_slice(&(place | u16::from(is_more)).to_be_bytes());
            header.extend_from_slice(&[0, 0]);
            header.extend_from_slice(&identification.to_be_bytes());
        }
        found.push([link, &header, part].concat());
        start = end;
    }
    Some(found)
}

#[test]
fn tunnel_packets_in_fragments_leave_as_the_whole_would_from_any_workers() {
    let (mut joined, mut several, mut handed_off) = (0, 0, 0);
    for seed in 1..=SCENARIOS {
        let mut rng = StdRng::seed_from_u64(seed);
        let layout = scenario::layout(&mut rng, seed);
        let mut world = scenario::world(&layout);
        for _ in 0..10 {
            let _ = world.establish(&scenario::establishment(&mut rng));
        }
        for number in 0..u16::try_from(PACKETS).unwrap() {
            let (port, mut frame) = match rng.random_ratio(1, 2) {
                true => traffic::usual(&mut rng, &world.oracle),
                false => traffic::packet(&mut rng, &world.oracle),
            };
            let l3 = if frame.get(12..14) == Some(&[0x81, 0]) { 18 } else { 14 };
            // Only reassembly checks the UDP checksum over IPv4.
            if frame.get(l3) == Some(&0x45) && frame.len() >= l3 + 28 {
                frame[l3 + 26..l3 + 28].fill(0);
            }
            let verdict = world.oracle.judge(port, &frame);
            let OracleOutcome::Forward { port: out, frames, lane: OracleLane::Tunneled } =
                verdict.outcome
            else {
                continue;
            };
            // Rates and usage depend on earlier packets.
            let depends = !verdict.due.is_empty()
                || !verdict.windows.is_empty()
                || !verdict.measured.is_empty();
            if depends || !verdict.copies.is_empty() {
                continue;
            }
            let first = rng.random_range(1..5) * 8;
            let cuts = [first, first + 8 * rng.random_range(1..3)];
            let Some(mut parts) = parts(&frame, l3, number, &cuts[..rng.random_range(1..3)]) else {
                continue;
            };
            parts.shuffle(&mut rng);
            let receiving = world.receiving();
            let mut sent = Vec::new();
            let before = world.publisher.snapshot();
            for part in parts.iter() {
                let worker = rng.random_range(receiving.clone());
                assert!(sent.is_empty(), "seed {seed}: it left before its last part came");
                let arrival = InjectedFrame { worker, port, frame: part.clone() };
                sent = world.transmit_from(&[arrival]);
            }
            // From the worker with the last part to the one that reassembles, then to the owner.
            if sent.is_empty() {
                sent = world.transmit_from(&[]);
            }
            let expected: Vec<(u16, Vec<u8>)> =
                frames.into_iter().map(|frame| (out, frame)).collect();
            let after = world.publisher.snapshot();
            let drops: Vec<_> =
                after.drops().zip(before.drops).filter(|((_, a), b)| a > b).collect();
            assert_eq!(sent, expected, "seed {seed} packet {number}: {frame:x?} {drops:?}");
            assert!(after.identity_holds(), "seed {seed}");
            assert_eq!(after.reassembly_pkts, 0, "seed {seed}");
            let reassembled = PuntReason::Reassembled.index();
            let punted = after.punts[reassembled] - before.punts[reassembled];
            assert_eq!(punted, parts.len() as u64 - 1);
            joined += 1;
            several += usize::from(receiving.len() > 1);
            handed_off += after.handed_off_pkts - before.handed_off_pkts;
        }
        world.drain();
    }
    assert!(joined > 50 && several > 20 && handed_off > 20, "{joined} {several} {handed_off}");
}

/// With stages apart a user's fragment is classified twice, the second time where its first
/// fragment was.
#[test]
fn marked_fragment_from_a_tunnel_over_ipv6_passes_all_stages_of_an_event_scheduler() {
    let mut layout = scenario::plain_layout(0);
    layout.roles = Roles::event_driven(1, 2);
    let queues = EventQueues::new(&[ScheduleType::Atomic; STAGES], [0; STAGES]).unwrap();
    layout.queues = queues.with_tx(layout.roles.rx_tx());
    let mut world = scenario::world(&layout);
    world.establish(&scenario::plain_session(1, "10.0.3.1")).unwrap();
    world.exchange(&[]).unwrap();
    let pdrs = &world.oracle.sessions[0].1.pdrs;
    let Some(FTeidSpec::Given { teid, .. }) = pdrs.iter().find_map(|pdr| pdr.pdi.f_teid) else {
        panic!("no tunnel")
    };
    let n3 = layout.interfaces[0];
    for (inner, outer) in [(2, 0), (2, 3), (1, 3), (0, 3)] {
        let link = PacketBuilder::ethernet(MacAddr(n3.mac), MacAddr([2, 0xaa, 0, 0, 0, 1]));
        let tunnel = link.ipv6("2001:db8:3::1", n3.v6.0).tos(outer).udp(2152, 2152);
        // A mark in IPv4 would leave the sum of the packet as it is.
        let packet = tunnel.gtpu(teid.0).psc_ul(9).ipv6("2001:db8:45:1::5", "2001:db8:8::8");
        let first = packet.tos(inner).extension(44, &[0, 1, 0, 0, 0, 7]).udp(4000, 53);
        let frame = first.payload(&[7; 24]).build();
        let verdict = world.oracle.judge(0, &frame);
        assert_eq!(matches!(verdict.outcome, OracleOutcome::Forward { .. }), inner != 0);
        let arrival = InjectedFrame { worker: world.receiving().start, port: 0, frame };
        world.exchange(&[arrival]).unwrap();
    }
}
