//! Taps: which reports packets cause, and that nothing else changes.

use std::process::Command;

use adit_rules::{
    ApplyAction, DropReason, Excess, Gate, PacketFilter, PdrMismatch, QerMeter, RateLimit,
    SessionRules, SourceInterface, TapDropFilter, TapFilter, TapId, TapItem, TapKey, TapOrigin,
    TapOutcome, TapPacket, TapRequest, TapStage, TapWait, WorkerCommand,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{BitRate, Nanos, PdrId, Precedence, Qfi, Seid, Teid};
use adit_wire::arp::ArpPacket;

use crate::fixture::*;

pub(crate) const ALL: TapFilter = TapFilter { key: TapKey::Any, drop: None, one_of: 1 };

#[test]
fn all_tests_pass_with_a_tap_of_all_drops() {
    if taps_drops() {
        return;
    }
    let output =
        Command::new(std::env::current_exe().unwrap()).env(TAPS_DROPS, "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test result: ok"), "{said}");
}

/// A UPF with a tap, in addition to the one that [`taps_drops`] starts.
pub(crate) fn tapped(mut scene: PipelineFixture, filter: TapFilter) -> PipelineFixture {
    scene.commands.push(tap(filter)).unwrap();
    scene.worker.step(scene.now, &mut scene.io);
    scene.take_records();
    scene
}

/// Runs a step without the checks of [`taps_drops`], and returns its records.
fn records(scene: &mut PipelineFixture) -> Vec<Vec<TapItem>> {
    scene.worker.step(scene.now, &mut scene.io);
    assert!(scene.counts().identity_holds());
    scene.take_records()
}

/// The record of the one packet that arrives on a port.
fn record(scene: &mut PipelineFixture, port: adit_types::PortId, frame: &[u8]) -> Vec<TapItem> {
    scene.io.inject(port, frame);
    let mut records = records(scene);
    assert_eq!(records.len(), 1, "{records:?}");
    records.remove(0)
}

fn packet_of(record: &[TapItem]) -> TapPacket {
    let Some(TapItem::Packet(packet)) = record.first() else { panic!("{record:?}") };
    *packet
}

fn outcome_of(record: &[TapItem]) -> TapOutcome {
    let Some(TapItem::End(outcome)) = record.last() else { panic!("{record:?}") };
    *outcome
}

/// The octets that follow an item.
fn octets_behind(record: &[TapItem], at: usize) -> Vec<u8> {
    let octets = record[at + 1..].iter().map_while(|item| match item {
        TapItem::Octets { len, octets } => Some(octets[..usize::from(*len)].to_vec()),
        _ => None,
    });
    octets.flatten().collect()
}

#[test]
fn forwarded_packet_is_reported_with_rules_stages_and_both_frames() {
    let mut scene = tapped(PipelineFixture::usual(rules()), ALL);
    let frame = uplink().build();
    let record = record(&mut scene, N3, &frame);
    let packet = packet_of(&record);
    assert_eq!(
        (packet.origin, packet.port, packet.interface),
        (TapOrigin::Port, Some(N3), Some(IF_N3))
    );
    assert_eq!(octets_behind(&record, 0), frame);
    let has = |item: &TapItem| assert!(record.contains(item), "{item:?}: {record:?}");
    has(&TapItem::Tried { pdr: PdrId(1), precedence: Precedence(100), mismatch: None });
    has(&TapItem::Matched { pdr: PdrId(1), direction: adit_types::Direction::Uplink });
    let session = record.iter().find_map(|item| match item {
        TapItem::Session(session) => Some(session),
        _ => None,
    });
    assert_eq!(session.map(|of| (of.seid, of.teid, of.pdrs)), Some((Seid(1), Some(Teid(TEID)), 1)));
    let is_far = |item: &&TapItem| matches!(item, TapItem::Far { action: ApplyAction::FORW, .. });
    assert_eq!(record.iter().filter(is_far).count(), 1);
    has(&TapItem::Egress {
        interface: IF_N6,
        station: ip("10.6.0.254"),
        mac: Some(GATEWAY_MAC),
        is_switched: false,
        dscp: None,
    });
    use TapStage::{Account, Apply, Classify, Enforce, Lookup, Parse, Transmit};
    let stages = record.iter().filter_map(|item| match item {
        TapItem::Stage(stage, _) => Some(*stage),
        _ => None,
    });
    let expected = [Parse, Lookup, Classify, Enforce, Account, Apply, Transmit];
    assert_eq!(stages.collect::<Vec<_>>(), expected);
    let sent = record.iter().position(|item| matches!(item, TapItem::Sent { .. })).unwrap();
    assert!(matches!(record[sent], TapItem::Sent { port: N6, interface: IF_N6, .. }));
    assert_eq!(scene.sent(N6), [octets_behind(&record, sent)]);
    assert_eq!(outcome_of(&record), TapOutcome::Transmitted);
}

#[test]
fn pdrs_that_do_not_match_say_why() {
    let mut two = rules();
    let mut first = two.uplink[0].clone();
    first.id = PdrId(9);
    first.precedence = Precedence(5);
    first.qfis = vec![Qfi::new(1).unwrap()];
    two.uplink.insert(0, first.clone());
    first.id = PdrId(8);
    first.source = SourceInterface::CpFunction;
    two.uplink.insert(0, first);
    let of_source = PdrMismatch::Source(SourceInterface::CpFunction);
    assert_tried(two.clone(), &[(8, Some(of_source)), (9, Some(PdrMismatch::Qfi)), (1, None)]);
    // A matcher does not offer PDRs whose filters cannot match; they are shown all the same.
    let mut filtered = two.uplink[2].clone();
    filtered.id = PdrId(7);
    filtered.sdf = vec![PacketFilter { tos: Some((0xb8, 0xfc)), ..PacketFilter::ANY }].into();
    two.uplink[2].sdf = filtered.sdf.clone();
    two.uplink.insert(1, filtered);
    let sdf = Some(PdrMismatch::Sdf);
    let expected = [(8, Some(of_source)), (7, sdf), (9, Some(PdrMismatch::Qfi)), (1, sdf)];
    assert_tried(two, &expected);
}

/// A packet of the UE is compared with these PDRs, in this order.
#[track_caller]
fn assert_tried(rules: SessionRules, expected: &[(u16, Option<PdrMismatch>)]) {
    let mut scene = tapped(PipelineFixture::with(rules), ALL);
    let record = record(&mut scene, N3, &uplink().build());
    let tried = record.iter().filter_map(|item| match item {
        TapItem::Tried { pdr, mismatch, .. } => Some((pdr.0, *mismatch)),
        _ => None,
    });
    assert_eq!(tried.collect::<Vec<_>>(), expected);
}

#[test]
fn closed_gate_and_used_up_rate_show_in_the_qer() {
    let mut rules = rules();
    rules.qers[0].gate_uplink = Gate::Closed;
    let mut scene = tapped(PipelineFixture::with(rules), ALL);
    let record = record(&mut scene, N3, &uplink().build());
    let qer = record.iter().find_map(|item| match item {
        TapItem::Qer(qer) => Some(*qer),
        _ => None,
    });
    let qer = qer.unwrap();
    assert_eq!((qer.is_gate_open, qer.has_room), (false, None::<bool>));
    assert_eq!(outcome_of(&record), TapOutcome::Dropped(DropReason::GateClosed));
    let _ = RateLimit::UNLIMITED;
}

#[test]
fn record_of_a_packet_that_a_gate_stops_forgives_no_debt() {
    let rules = |kbps, gate| {
        let depth = Nanos::from_millis(if kbps == 1 { 2000 } else { 5 });
        let limit = RateLimit::new(BitRate::from_kbps(kbps), depth, Excess::Policed);
        let mut rules = rules();
        rules.qers[0].gate_uplink = gate;
        rules.qers[0].meter = Some(QerMeter {
            uplink: limit,
            downlink: limit,
            bucket: 0,
            correlated_rate: None,
            guaranteed: Default::default(),
            guaranteed_bucket: None,
        });
        rules
    };
    let sent = [false, true].map(|has_tap| {
        let mut scene = PipelineFixture::with(rules(1, Gate::Open));
        if has_tap {
            scene = tapped(scene, ALL);
        }
        let mut pass = |kbps, gate, count| {
            scene.publish(rules(kbps, gate));
            for _ in 0..count {
                scene.io.inject(N3, &uplink().build());
            }
            records(&mut scene);
            scene.now += Nanos::from_millis(10);
            scene.sent(N6).len()
        };
        // 36 octets take 288 milliseconds, then 36 microseconds.
        [pass(1, Gate::Open, 20), pass(8000, Gate::Closed, 1), pass(8000, Gate::Open, 20)]
    });
    assert_eq!(sent, [[7, 0, 1]; 2]);
}

#[test]
fn keys_select_their_packets_and_no_others() {
    let other =
        || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(0x999).psc_ul(9);
    let stranger = other().ipv4("10.45.0.99", SERVER).udp(1, 2).build();
    let arp = {
        let mut payload = [0; 28];
        ArpPacket::request(GNB_MAC, v4(GNB), v4(N3_ADDR)).emit(&mut payload).unwrap();
        PacketBuilder::ethernet(N3_MAC, GNB_MAC).ether_type(0x0806).payload(&payload).build()
    };
    // A device behind the UE, without NAT: dropped as spoofed.
    let behind = tunneled().ipv4("192.168.1.5", SERVER).udp(1, 2).build();
    let frames =
        [(N3, uplink().build()), (N6, downlink().build()), (N3, stranger), (N3, arp), (N3, behind)];
    let keys = [
        (TapKey::Any, [1, 1, 1, 1, 1]),
        (TapKey::Session(SESSION, Seid(1)), [1, 1, 0, 0, 1]),
        (TapKey::Session(SESSION, Seid(2)), [0, 0, 0, 0, 0]),
        (TapKey::Ue(ip(UE)), [1, 1, 0, 0, 1]),
        (TapKey::Ue(ip("10.45.0.99")), [0, 0, 1, 0, 0]),
        (TapKey::Ue(ip("192.168.1.5")), [0, 0, 0, 0, 1]),
        (TapKey::Teid(Teid(TEID)), [1, 0, 0, 0, 1]),
        (TapKey::Teid(Teid(0x999)), [0, 0, 1, 0, 0]),
        (TapKey::Interface(IF_N6), [1, 1, 0, 0, 0]),
        (TapKey::Interface(IF_N3), [1, 1, 1, 1, 1]),
    ];
    for (key, expected) in keys {
        let filter = TapFilter { key, ..ALL };
        let mut scene = tapped(PipelineFixture::usual(rules()), filter);
        let found = frames.each_ref().map(|(port, frame)| {
            scene.io.inject(*port, frame);
            records(&mut scene).len()
        });
        assert_eq!(found, expected, "{key:?}");
    }
}

#[test]
fn other_packets_of_a_burst_keep_the_fast_path() {
    let filter = TapFilter { key: TapKey::Teid(Teid(0x999)), ..ALL };
    let mut scene = tapped(PipelineFixture::usual(rules()), filter);
    let stranger = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(0x999);
    for at in 0..9 {
        match at {
            4 => scene.io.inject(N3, &stranger.clone().ipv4(UE, SERVER).udp(1, 2).build()),
            _ => scene.io.inject(N3, &uplink().build()),
        }
    }
    let records = records(&mut scene);
    assert_eq!(records.len(), 1);
    assert_eq!(outcome_of(&records[0]), TapOutcome::Dropped(DropReason::TeidUnknown));
    assert_eq!((scene.counts().express_pkts, scene.sent(N6).len()), (8, 8));
}

#[test]
fn packets_leave_in_the_order_in_which_they_came_with_any_sampling() {
    for one_of in [1, 2, 3, 7] {
        let mut scene = tapped(PipelineFixture::usual(rules()), TapFilter { one_of, ..ALL });
        for number in 0..30_u8 {
            scene
                .io
                .inject(N3, &tunneled().ipv4(UE, SERVER).udp(4000, 53).payload(&[number]).build());
        }
        let records = records(&mut scene);
        assert_eq!(records.len(), 30 / one_of as usize);
        let numbers = scene.sent(N6).iter().map(|frame| *frame.last().unwrap()).collect::<Vec<_>>();
        assert_eq!(numbers, (0..30).collect::<Vec<_>>(), "{one_of}");
    }
}

#[test]
fn tap_ends_at_its_number_of_packets_and_at_its_time() {
    let mut scene = PipelineFixture::usual(rules());
    let request = TapRequest {
        filter: ALL,
        has_stages: false,
        has_path: false,
        snap_bytes: 64,
        pkts_max: 3,
        until: scene.now + Nanos::from_secs(1),
    };
    scene.commands.push(WorkerCommand::StartTap(TapId(1), request)).unwrap();
    scene.step();
    for expected in [2, 1, 0] {
        scene.io.inject(N3, &uplink().build());
        scene.io.inject(N3, &uplink().build());
        assert_eq!(records(&mut scene).len(), expected);
    }
    scene.commands.push(WorkerCommand::StartTap(TapId(1), request)).unwrap();
    scene.step();
    scene.now += Nanos::from_secs(1);
    scene.io.inject(N3, &uplink().build());
    assert!(records(&mut scene).is_empty());
}

#[test]
fn stop_is_confirmed_and_packets_take_the_fast_path_again() {
    let mut scene = tapped(PipelineFixture::usual(rules()), ALL);
    scene.commands.push(WorkerCommand::StopTap(TapId(0))).unwrap();
    let stopped = records(&mut scene);
    assert_eq!(stopped, [vec![TapItem::Stopped(TapId(0))]]);
    scene.io.inject(N3, &uplink().build());
    assert!(records(&mut scene).is_empty());
    assert_eq!((scene.counts().express_pkts, scene.sent(N6).len()), (1, 1));
}

#[test]
fn without_room_packets_pass_unreported_and_are_counted_as_skipped() {
    let mut scene = tapped(PipelineFixture::usual(rules()), ALL);
    let before = scene.counts().received_pkts;
    // Nobody reads meanwhile.
    for _ in 0..600 {
        (0..32).for_each(|_| scene.io.inject(N3, &uplink().build()));
        scene.worker.step(scene.now, &mut scene.io);
    }
    assert_eq!(scene.sent(N6).len(), 600 * 32);
    assert_eq!(scene.counts().received_pkts - before, 600 * 32);
    let reported = scene.take_records();
    scene.io.inject(N3, &uplink().build());
    let mut after = records(&mut scene);
    let Some(TapItem::Skipped(TapId(0), skipped)) = after[0].first().copied() else {
        panic!("{after:?}");
    };
    assert_eq!(reported.len() as u64 + skipped, 600 * 32);
    after[0].remove(0);
    assert_eq!(outcome_of(&after[0]), TapOutcome::Transmitted);
}

#[test]
fn packet_that_waits_is_reported_and_its_drop_too() {
    let mut scene = tapped(PipelineFixture::unresolved(rules()), ALL);
    let waiting = record(&mut scene, N3, &uplink().build());
    assert_eq!(outcome_of(&waiting), TapOutcome::WaitsForNeighbor);
    scene.now += Nanos::from_secs(4);
    let dropped = records(&mut scene).remove(0);
    assert_eq!(packet_of(&dropped).origin, TapOrigin::Waited);
    assert_eq!(outcome_of(&dropped), TapOutcome::Dropped(DropReason::NeighborUnresolved));
    assert_eq!(wait_of(&dropped), Some((TapWait::Neighbor, Nanos::from_secs(4))));
    assert!(!octets_behind(&dropped, 0).is_empty());
}

#[test]
fn buffered_packet_is_reported_as_such() {
    let mut rules = rules();
    rules.fars[1].action = ApplyAction::BUFF;
    let mut scene = tapped(PipelineFixture::with(rules), ALL);
    let record = record(&mut scene, N6, &downlink().build());
    assert_eq!(outcome_of(&record), TapOutcome::Buffered);
}

/// The reason and the length of a packet's wait.
fn wait_of(record: &[TapItem]) -> Option<(TapWait, Nanos)> {
    record.iter().find_map(|item| match item {
        TapItem::Waited(wait, time) => Some((*wait, *time)),
        _ => None,
    })
}

/// Checks the record of the packet that leaves now after it waited, and returns the frame.
fn left_after(scene: &mut PipelineFixture, wait: TapWait, time: Nanos) -> Vec<u8> {
    let all = records(scene);
    let [record] = &all[..] else { panic!("{all:?}") };
    assert_eq!(packet_of(record).origin, TapOrigin::Waited);
    assert_eq!(wait_of(record), Some((wait, time)));
    assert_eq!(outcome_of(record), TapOutcome::Transmitted);
    let sent = record.iter().position(|item| matches!(item, TapItem::Sent { .. })).unwrap();
    octets_behind(record, sent)
}

/// By session: the frame that leaves names none.
const OF_SESSION: TapFilter = TapFilter { key: TapKey::Session(SESSION, Seid(1)), ..ALL };

#[test]
fn packet_that_waited_for_a_neighbor_is_reported_when_it_leaves() {
    let mut scene = tapped(PipelineFixture::unresolved(rules()), OF_SESSION);
    let waiting = record(&mut scene, N3, &uplink().build());
    assert_eq!(outcome_of(&waiting), TapOutcome::WaitsForNeighbor);
    scene.now += Nanos::from_millis(40);
    scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
    let frame = left_after(&mut scene, TapWait::Neighbor, Nanos::from_millis(40));
    assert_eq!(scene.sent(N6), [frame]);
}

#[test]
fn packet_that_waited_for_its_rate_is_reported_when_it_leaves() {
    let limit = RateLimit::new(BitRate::from_kbps(8), Nanos(0), Excess::Shaped);
    let mut rules = rules();
    rules.qers[0].meter = Some(QerMeter {
        uplink: limit,
        downlink: limit,
        bucket: 0,
        correlated_rate: None,
        guaranteed: Default::default(),
        guaranteed_bucket: None,
    });
    let mut scene = tapped(PipelineFixture::with(rules), OF_SESSION);
    let first = record(&mut scene, N3, &uplink().build());
    assert_eq!(outcome_of(&first), TapOutcome::Transmitted);
    let waiting = record(&mut scene, N3, &uplink().build());
    assert_eq!(outcome_of(&waiting), TapOutcome::Queued);
    assert_eq!(scene.sent(N6).len(), 1);
    let joined = scene.now;
    // 36 octets at 1000 octets per second.
    scene.now += Nanos::from_millis(10);
    assert!(records(&mut scene).is_empty());
    scene.now += Nanos::from_millis(40);
    let time = scene.now.since(joined);
    let frame = left_after(&mut scene, TapWait::Rate, time);
    assert_eq!(scene.sent(N6), [frame]);
    // Nothing is reported about a packet that no tap traced when it began to wait.
    scene.commands.push(WorkerCommand::StopTap(TapId(0))).unwrap();
    records(&mut scene);
    scene.io.inject(N3, &uplink().build());
    records(&mut scene);
    let mut scene = tapped(scene, OF_SESSION);
    scene.now += Nanos::from_millis(50);
    assert!(records(&mut scene).is_empty());
    assert_eq!(scene.sent(N6).len(), 1);
}

#[test]
fn packet_that_its_far_buffered_is_reported_when_the_rules_let_it_go() {
    let mut buffering = rules();
    buffering.fars[1].action = ApplyAction::BUFF;
    let mut scene = tapped(PipelineFixture::with(buffering), OF_SESSION);
    let waiting = record(&mut scene, N6, &downlink().build());
    assert_eq!(outcome_of(&waiting), TapOutcome::Buffered);
    scene.now += Nanos::from_millis(700);
    scene.publish(rules());
    let frame = left_after(&mut scene, TapWait::Rules, Nanos::from_millis(700));
    assert_eq!(scene.sent(N3), [frame]);
}

#[test]
fn signaling_is_reported_once_with_its_answer() {
    let mut scene = tapped(PipelineFixture::new(), ALL);
    let mut payload = [0; 28];
    ArpPacket::request(GNB_MAC, v4(GNB), v4(N3_ADDR)).emit(&mut payload).unwrap();
    let frame =
        PacketBuilder::ethernet(N3_MAC, GNB_MAC).ether_type(0x0806).payload(&payload).build();
    let record = record(&mut scene, N3, &frame);
    assert_eq!(outcome_of(&record), TapOutcome::Consumed(adit_rules::PuntReason::Arp));
    let sent = record.iter().position(|item| matches!(item, TapItem::Sent { .. })).unwrap();
    assert_eq!(scene.sent(N3), [octets_behind(&record, sent)]);
}

#[test]
fn one_reason_is_reported_and_others_are_not() {
    let drop = Some(TapDropFilter::Only(DropReason::TeidUnknown));
    let mut scene = tapped(PipelineFixture::new(), TapFilter { drop, ..ALL });
    let unknown = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(0x999);
    scene.io.inject(N3, &unknown.ipv4(UE, SERVER).udp(1, 2).build());
    scene.io.inject(N3, &tunneled().ipv4("10.9.9.9", SERVER).udp(1, 2).build());
    scene.io.inject(N3, &uplink().build());
    let records = records(&mut scene);
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(outcome_of(&records[0]), TapOutcome::Dropped(DropReason::TeidUnknown));
}
