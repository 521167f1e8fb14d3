//! Guaranteed packets where the port itself is the bottleneck.

use adit_datapath::{Worker, WorkerConfig};
use adit_pktio::PacketBuf;
use adit_pktio::mem::{MemBuf, MemIo};
use adit_rules::{
    DeltaId, DropReason, Excess, GuaranteedShare, KeyChange, NextHops, QerMeter, RateLimit,
    RuleDelta, SessionKey, SessionRules,
};
use adit_tables::{TablesConfig, build};
use adit_types::limits::TX_WAITING_PKTS_MAX;
use adit_types::{BitRate, DomainId, Nanos, PortId, Seid, SessionIndex};
use rtrb::RingBuffer;

use crate::fixture::*;

/// The UE of a session without a guarantee.
const OTHER: &str = "10.45.0.99";

/// The payload octet of packets to it.
const OTHERS: u8 = 200;

const MILLI: Nanos = Nanos::from_millis(1);

/// As short as a depth is.
const DEPTH: Nanos = Nanos::from_micros(65);

fn limit(kbps: u64, excess: Excess) -> RateLimit {
    RateLimit::new(BitRate::from_kbps(kbps), DEPTH, excess)
}

/// The scene's rules with a maximum bit rate, and what of it is guaranteed.
fn with_rate(limit: RateLimit, guaranteed: GuaranteedShare) -> SessionRules {
    let mut rules = rules();
    rules.qers[0].meter = Some(QerMeter {
        uplink: limit,
        downlink: limit,
        bucket: 0,
        correlated_rate: None,
        guaranteed: [guaranteed; 2],
        guaranteed_bucket: None,
    });
    rules
}

/// As [`with_rate`], with a maximum that the tests never reach.
fn guaranteed(guaranteed: GuaranteedShare) -> SessionRules {
    with_rate(limit(10_000_000, Excess::Policed), guaranteed)
}

/// Installs the session of [`OTHER`] as well.
fn with_other(mut scene: PipelineFixture) -> PipelineFixture {
    let mut other = crate::fixture::rules();
    other.up_seid = Seid(2);
    other.ue[0].v4 = Some(v4(OTHER));
    other.ue[0].v6 = None;
    other.downlink[0].ue = other.ue[0];
    other.uplink.clear();
    publish(
        &mut scene,
        SessionIndex(9),
        KeyChange::Add(SessionKey::UeIpv4(DomainId(0), v4(OTHER))),
        Some(other),
    );
    scene
}

fn publish(
    scene: &mut PipelineFixture,
    session: SessionIndex,
    key: KeyChange,
    rules: Option<SessionRules>,
) {
    scene.deltas += 1;
    let delta = RuleDelta { session, keys: vec![key], rules: rules.map(Box::new) };
    scene.publisher.apply(DeltaId(scene.deltas), delta);
    scene.step();
    while scene.publisher.poll_observed().is_some() {}
}

/// A packet that says `number`; unless it is `usual`, it takes the stages.
fn to(ue: &str, number: u8, usual: bool) -> Vec<u8> {
    let frame = from_gateway().ipv4(SERVER, ue);
    let frame = if usual { frame } else { frame.options(&[1, 1, 1, 1]) };
    frame.udp(53, 4000).payload(&[number]).build()
}

/// The payload octets of the packets that left, except those to [`OTHER`].
fn left(scene: &mut PipelineFixture) -> Vec<u8> {
    let sent = scene.sent(N3);
    sent.iter().map(|frame| *frame.last().unwrap()).filter(|number| *number != OTHERS).collect()
}

/// Steps with so much room in the transmit queue towards the RAN.
fn step_with_room(scene: &mut PipelineFixture, tx_room: usize) {
    scene.io.ports[usize::from(N3.0)].tx_room = tx_room;
    scene.now += MILLI;
    scene.step();
}

/// Each millisecond six packets of the other flow come, then one of the guaranteed flow, and the
/// port takes two. Returns the numbers of the packets of the guaranteed flow that left.
fn offer(scene: &mut PipelineFixture, usual: bool) -> Vec<u8> {
    for number in 0..100 {
        (0..6).for_each(|_| scene.io.inject(N6, &to(OTHER, OTHERS, usual)));
        scene.io.inject(N6, &to(UE, number, usual));
        step_with_room(scene, 2);
    }
    step_with_room(scene, 2);
    left(scene)
}

#[test]
fn guaranteed_packets_survive_a_port_that_is_too_slow_and_keep_their_order() {
    for usual in [true, false] {
        let mut scene = with_other(PipelineFixture::usual(guaranteed(GuaranteedShare::Whole)));
        let all: Vec<u8> = (0..100).collect();
        assert_eq!(offer(&mut scene, usual), all, "usual: {usual}");
        // Two of the others leave in the first step, and one in each further one.
        assert_eq!(scene.dropped(DropReason::TxQueueFull), 600 - 2 - 99, "usual: {usual}");
        let counts = scene.counts();
        assert_eq!((counts.buffered_pkts, counts.tx_waited_pkts), (0, 100));
        assert_eq!(counts.express_pkts > 0, usual);
    }
}

#[test]
fn what_is_not_guaranteed_is_dropped() {
    for usual in [true, false] {
        let mut scene = with_other(PipelineFixture::usual(guaranteed(GuaranteedShare::Nothing)));
        assert_eq!(offer(&mut scene, usual), Vec::<u8>::new(), "it always comes last");
        assert_eq!(scene.dropped(DropReason::TxQueueFull), 500);
        assert_eq!(scene.counts().tx_waited_pkts, 0);
    }
}

#[test]
fn of_a_flow_with_a_guarantee_below_its_rate_exactly_that_survives() {
    // A packet each 2 ms is half of the offered load, so each second packet is within. Rounding
    // puts the bucket less than 33 * 2^-24 ns ahead with each packet, far less than its depth of 65
    // us. The other half comes behind packets that fill the port.
    let wide = limit(10_000_000, Excess::Shaped);
    for (usual, bytes) in [(true, 29), (false, 33)] {
        let half = GuaranteedShare::Within(limit(bytes * 8 / 2, Excess::Policed));
        for aggregates in [Vec::new(), vec![[wide; 2]]] {
            let tables = TablesConfig { aggregates, ..usual_config() };
            let mut scene = with_other(PipelineFixture::usual_with(tables, guaranteed(half)));
            let even: Vec<u8> = (0..100).step_by(2).collect();
            assert_eq!(offer(&mut scene, usual), even);
            let counts = scene.counts();
            assert_eq!(counts.tx_waited_pkts, 50);
            assert_eq!(counts.express_pkts, if usual { 600 } else { 0 });
        }
    }
}

#[test]
fn packets_of_a_flow_never_overtake_each_other_whatever_the_port_takes() {
    let partial = GuaranteedShare::Within(limit(132, Excess::Policed));
    for (rules, all) in [(guaranteed(GuaranteedShare::Whole), true), (guaranteed(partial), false)] {
        let mut scene = PipelineFixture::usual(rules);
        let mut number = 0;
        let rooms =
            [(true, 1), (false, 0), (true, 2), (true, 0), (false, 3), (false, 7), (true, 0)];
        for (usual, tx_room) in rooms.into_iter().cycle().take(60) {
            for count in 0..3 {
                scene.io.inject(N6, &to(UE, number, usual || count == 1));
                number += 1;
            }
            step_with_room(&mut scene, tx_room);
        }
        step_with_room(&mut scene, 500);
        let left = left(&mut scene);
        assert!(left.is_sorted_by(|one, next| one < next), "{left:?}");
        assert_eq!(left.len() == usize::from(number), all, "{left:?}");
        assert!(scene.counts().tx_waited_pkts > 0);
    }
}

/// The port towards the RAN gets this room in the middle of a step, before packets are received
/// from N6.
struct LateRoom(usize);

impl MidStep for LateRoom {
    fn before_receive(&mut self, port: PortId, io: &mut MemIo) {
        if port == N6 {
            io.ports[usize::from(N3.0)].tx_room = self.0;
        }
    }
}

#[test]
fn packet_does_not_overtake_those_that_wait_when_the_port_gets_room_meanwhile() {
    let (mut publisher, mut readers) = build(usual_config()).unwrap();
    let config =
        WorkerConfig { buffer_pkts_max: 0, shaped_pkts_max: 0, ..worker_config(&[N3, N6]) };
    let (events, commands) = (RingBuffer::new(256).0, RingBuffer::new(64).1);
    let mut worker = Worker::new(config, readers.remove(0), events, commands);
    let keys = vec![KeyChange::Add(SessionKey::UeIpv4(DomainId(0), v4(UE)))];
    let rules = Some(Box::new(guaranteed(GuaranteedShare::Whole)));
    publisher.apply(DeltaId(1), RuleDelta { session: SESSION, keys, rules });
    let gnb = publisher.ensure_next_hop(IF_N3, ip(GNB)).unwrap();
    publisher.set_mac(gnb, GNB_MAC, false);
    let mut ports = HookedPorts::new(LateRoom(0));
    let mut step = |number: u8, usual, rooms: [usize; 2]| {
        [ports.io.ports[usize::from(N3.0)].tx_room, ports.hook.0] = rooms;
        ports.io.inject(N6, &to(UE, number, usual));
        worker.step(Nanos::from_secs(1000), &mut ports);
        while publisher.poll_observed().is_some() {}
        let last = |buf: &MemBuf| *buf.data().last().unwrap();
        ports.io.take_sent(N3).iter().map(last).collect::<Vec<u8>>()
    };
    for usual in [true, false] {
        assert_eq!(step(0, usual, [0, 0]), []);
        assert_eq!(step(1, usual, [0, 9]), []);
        assert_eq!(step(2, usual, [9, 9]), [0, 1, 2]);
    }
}

#[test]
fn packet_that_waited_for_its_rate_is_guaranteed_when_it_leaves() {
    // 29 octets each 2 ms.
    let mut scene =
        PipelineFixture::usual(with_rate(limit(116, Excess::Shaped), GuaranteedShare::Whole));
    (0..10).for_each(|number| scene.io.inject(N6, &to(UE, number, true)));
    for _ in 0..40 {
        step_with_room(&mut scene, 0);
    }
    let counts = scene.counts();
    assert_eq!((counts.tx_waiting_pkts, counts.shaped_pkts, counts.buffered_pkts), (10, 0, 10));
    step_with_room(&mut scene, 500);
    assert_eq!(left(&mut scene), (0..10).collect::<Vec<u8>>());
}

#[test]
fn packet_that_waited_for_a_neighbor_is_still_guaranteed() {
    let mut scene = PipelineFixture::unresolved(guaranteed(GuaranteedShare::Whole));
    scene.io.inject(N6, &to(UE, 1, true));
    step_with_room(&mut scene, 0);
    assert_eq!(scene.counts().tx_waiting_pkts, 0);
    scene.resolve(IF_N3, GNB, GNB_MAC);
    step_with_room(&mut scene, 0);
    assert_eq!(scene.counts().tx_waiting_pkts, 1);
    step_with_room(&mut scene, 1);
    assert_eq!(left(&mut scene), [1]);
}

#[test]
fn fragments_of_a_guaranteed_packet_are_guaranteed() {
    let mut scene = PipelineFixture::new();
    scene.install(guaranteed(GuaranteedShare::Whole));
    let packet = from_gateway().ipv4(SERVER, UE).udp(53, 4000).payload(&[7; 1470]).build();
    scene.io.inject(N6, &packet);
    step_with_room(&mut scene, 0);
    assert_eq!(scene.counts().tx_waiting_pkts, 2);
    step_with_room(&mut scene, 2);
    assert_eq!(left(&mut scene), [7, 7]);
}

/// Offers `pkts` guaranteed packets; the port takes none.
fn refused(scene: &mut PipelineFixture, pkts: u8) {
    (0..pkts).for_each(|number| scene.io.inject(N6, &to(UE, number, true)));
    step_with_room(scene, 0);
}

#[test]
fn port_that_takes_nothing_has_a_bounded_number_of_frames_wait() {
    const ROOM: u64 = TX_WAITING_PKTS_MAX as u64;
    let mut scene = PipelineFixture::usual(guaranteed(GuaranteedShare::Whole));
    (0..30).for_each(|_| refused(&mut scene, 20));
    let found = |scene: &PipelineFixture| {
        let counts = scene.counts();
        (counts.tx_waiting_pkts, counts.buffered_pkts, scene.dropped(DropReason::TxQueueFull))
    };
    assert_eq!(found(&scene), (ROOM, ROOM, 600 - ROOM));
    // The last ones are dropped, not the first.
    step_with_room(&mut scene, 20);
    assert_eq!(left(&mut scene), (0..20).collect::<Vec<u8>>());
    assert_eq!(found(&scene), (ROOM - 20, ROOM - 20, 600 - ROOM));
    scene.worker.drain(&mut scene.io);
    assert_eq!(found(&scene), (0, 0, 580));
    assert!(scene.counts().identity_holds());
}

#[test]
fn frames_for_a_port_that_is_down_are_dropped_after_a_tenth_of_a_second() {
    let mut scene = PipelineFixture::usual(guaranteed(GuaranteedShare::Whole));
    // A port that takes a frame now and then is not down.
    refused(&mut scene, 20);
    for _ in 0..10 {
        scene.now += Nanos::from_millis(80);
        step_with_room(&mut scene, 1);
    }
    assert_eq!(scene.counts().tx_waiting_pkts, 10);
    for round in 1..3 {
        step_with_room(&mut scene, 0);
        scene.now += Nanos::from_millis(98);
        step_with_room(&mut scene, 0);
        assert_eq!(scene.dropped(DropReason::TxQueueFull), 10 * (round - 1));
        step_with_room(&mut scene, 0);
        assert_eq!(scene.counts().tx_waiting_pkts, 0);
        assert_eq!(scene.dropped(DropReason::TxQueueFull), 10 * round);
        // Packets that come later wait from the beginning.
        refused(&mut scene, 10);
    }
    step_with_room(&mut scene, 10);
    assert_eq!(left(&mut scene).len(), 20);
}

#[test]
fn frames_of_a_session_that_ends_leave_when_the_port_takes_them() {
    let mut scene = PipelineFixture::usual(guaranteed(GuaranteedShare::Whole));
    refused(&mut scene, 5);
    publish(&mut scene, SESSION, KeyChange::Remove(SessionKey::UeIpv4(DomainId(0), v4(UE))), None);
    assert_eq!(scene.counts().tx_waiting_pkts, 5);
    step_with_room(&mut scene, 5);
    assert_eq!(left(&mut scene), [0, 1, 2, 3, 4]);
    assert_eq!((scene.counts().buffered_pkts, scene.counts().dropped_pkts()), (0, 0));
}

#[test]
fn frames_that_wait_for_one_port_block_no_other() {
    let mut scene = PipelineFixture::usual(guaranteed(GuaranteedShare::Whole));
    refused(&mut scene, 3);
    scene.io.inject(N3, &uplink().build());
    step_with_room(&mut scene, 0);
    assert_eq!(scene.sent(N6).len(), 1);
    assert_eq!(scene.counts().tx_waiting_pkts, 3);
}

#[test]
fn worker_is_not_idle_while_frames_wait() {
    let mut scene = PipelineFixture::usual(guaranteed(GuaranteedShare::Whole));
    refused(&mut scene, 1);
    assert!(!scene.worker.step(scene.now, &mut scene.io).idle);
    step_with_room(&mut scene, 1);
    assert!(scene.worker.step(scene.now, &mut scene.io).idle);
}
