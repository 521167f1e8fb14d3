//! Rates of QERs: excess packets are dropped or wait.

use adit_rules::sdf::PacketFilter;
use adit_rules::{
    DeltaId, DropReason, Excess, Gate, GtpuTunnel, PacketLimit, PacketQuota, PacketRateMeter,
    PoolMembers, QerMeter, RateLimit, RuleDelta, SessionRules, UrrEntry, UsageLimits, UsageSource,
    WorkerCommand,
};
use adit_types::{BitRate, Direction, InterfaceSet, Nanos, SliceId, Teid, UrrId, UsageSlot};

use crate::fixture::{
    GNB, GNB_MAC, GNB_TEID, IF_N3, N3, N6, PipelineFixture, SERVER, SESSION, UE, downlink,
    from_gateway, ip, rules, teid_of, tunneled, uplink,
};
use crate::local_switching::OTHER_UE;

/// Octets of the inner packet of [`uplink`], and of [`downlink`].
const UPLINK_LEN: u64 = 20 + 8 + 8;
const DOWNLINK_LEN: u64 = 20 + 8 + 6;

fn limit(kbps: u64, excess: Excess) -> RateLimit {
    RateLimit::new(BitRate::from_kbps(kbps), Nanos(0), excess)
}

/// The scene's rules with a second QER; the rates are those of uplink and downlink.
pub(crate) fn limited(first: [RateLimit; 2], second: [RateLimit; 2]) -> SessionRules {
    let mut rules = rules();
    let meter = |[uplink, downlink]: [RateLimit; 2]| {
        Some(QerMeter {
            uplink,
            downlink,
            bucket: 0,
            correlated_rate: None,
            guaranteed: Default::default(),
            guaranteed_bucket: None,
        })
    };
    let mut other = rules.qers[0].clone();
    other.id.0 += 1;
    other.qfi = None;
    rules.qers.push(other);
    rules.qers[0].meter = meter(first);
    rules.qers[1].meter = meter(second);
    for pdr in rules.uplink.iter_mut().chain(&mut rules.downlink) {
        pdr.qers = [0, 1].into_iter().collect();
    }
    rules
}

const OPEN: [RateLimit; 2] = [RateLimit::UNLIMITED; 2];

pub(crate) fn urr(before_qos: bool) -> UrrEntry {
    UrrEntry {
        id: UrrId(1),
        slot: UsageSlot(0),
        generation: 1,
        report: UsageLimits::NONE,
        quota: UsageLimits::NONE,
        report_dropped: (u64::MAX, u64::MAX),
        stopped: false,
        quota_far: None,
        exempt: Vec::new(),
        pool: None,
        members: PoolMembers::default(),
        report_start: false,
        before_qos,
    }
}

/// Sends one packet each `every`, `count` times; returns how many left.
fn offer(scene: &mut PipelineFixture, direction: Direction, every: Nanos, count: usize) -> usize {
    let (port, out, frame) = match direction {
        Direction::Uplink => (N3, N6, uplink().build()),
        Direction::Downlink => (N6, N3, downlink().build()),
    };
    let mut sent = 0;
    for _ in 0..count {
        sent += scene.pass(port, &frame, out).len();
        scene.now += every;
    }
    sent
}

#[test]
fn excess_of_each_direction_is_dropped_by_its_own_rate() {
    // 36 octets each millisecond are 288 kb/s; 34 are 272 kb/s.
    let half = [limit(144, Excess::Policed), limit(68, Excess::Policed)];
    let mut scene = PipelineFixture::with(limited(half, OPEN));
    let ms = Nanos::from_millis(1);
    assert_eq!(offer(&mut scene, Direction::Uplink, ms, 100), 50);
    assert_eq!(offer(&mut scene, Direction::Downlink, ms, 100), 25);
    assert_eq!(scene.dropped(DropReason::RateExceeded), 50 + 75);
    assert!(scene.counts().express_pkts > 0, "usual packets keep their way");
    let meter = scene.publisher.rules(SESSION).unwrap().qers()[0].meter.unwrap();
    let traffic = scene.publisher.meter_traffic(SESSION, Direction::Downlink, &meter);
    assert_eq!(
        (traffic.passed_bytes, traffic.dropped_bytes),
        (25 * DOWNLINK_LEN, 75 * DOWNLINK_LEN)
    );
}

#[test]
fn packets_of_other_sessions_in_the_burst_do_not_change_a_rate() {
    // 34 octets each millisecond are 272 kb/s; the rate lets half of them pass.
    let half = [RateLimit::UNLIMITED, limit(136, Excess::Policed)];
    let of = |addr: &str| from_gateway().ipv4(SERVER, addr).udp(53, 4000).payload(b"answer");
    for second in [OPEN, half] {
        let shaped = [RateLimit::UNLIMITED, limit(8, Excess::Shaped)];
        let mut scene =
            PipelineFixture::with(limited(half, second)).with_edited_other_ue(|other| {
                let udp = PacketFilter { protocol: Some(17), ..PacketFilter::ANY };
                other.downlink[0].sdf = vec![udp].into();
                // Its packets wait, so that bursts look for queues.
                other.qers = limited(shaped, OPEN).qers;
                other.downlink[0].qers = [0].into_iter().collect();
            });
        let mut sent = 0;
        for millisecond in 0..400 {
            // Bursts of the session alone, with the other one, and while packets of the other one
            // wait.
            if millisecond % 100 == 1 || millisecond % 2 == 1 && millisecond > 200 {
                scene.io.inject(N6, &of(OTHER_UE).build());
            }
            scene.io.inject(N6, &of(UE).build());
            scene.step();
            let frames = scene.sent(N3);
            sent += frames.iter().filter(|frame| teid_of(frame) == GNB_TEID).count();
            scene.now += Nanos::from_millis(1);
        }
        assert_eq!(sent, 200);
        assert_eq!(scene.dropped(DropReason::RateExceeded), 200);
    }
}

#[test]
fn packet_passes_all_its_rates_or_counts_in_none() {
    // The second lets a quarter through; the first, half of everything, must not be charged for the
    // rest: what the second lets through, the first does.
    let (half, quarter) = (limit(144, Excess::Policed), limit(72, Excess::Policed));
    let mut scene = PipelineFixture::with(limited([half; 2], [quarter; 2]));
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos::from_millis(1), 100), 25);
    let qers: Vec<_> = scene.publisher.rules(SESSION).unwrap().qers().to_vec();
    for qer in qers {
        let traffic =
            scene.publisher.meter_traffic(SESSION, Direction::Uplink, &qer.meter.unwrap());
        assert_eq!(traffic.passed_bytes, 25 * UPLINK_LEN);
    }
}

#[test]
fn rate_of_zero_lets_nothing_pass_and_a_new_rate_counts_at_once() {
    let mut scene = PipelineFixture::with(limited([RateLimit::CLOSED, RateLimit::UNLIMITED], OPEN));
    scene.assert_drops(N3, &uplink().build(), DropReason::RateExceeded);
    assert_eq!(offer(&mut scene, Direction::Downlink, Nanos(0), 3), 3);
    // 8 kb/s: one packet of 36 octets takes 36 ms.
    scene.install(limited([limit(8, Excess::Policed); 2], OPEN));
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos::from_millis(1), 36), 1);
    scene.install(limited([limit(288, Excess::Policed); 2], OPEN));
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos::from_millis(1), 10), 10);
    scene.install(limited(OPEN, OPEN));
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos(0), 10), 10);
}

#[test]
fn packet_rate_counts_packets_that_pass_and_only_those() {
    let hour = Nanos::from_secs(3600);
    let mut rules = limited([limit(288, Excess::Policed); 2], OPEN);
    let plain = PacketQuota { pkts_max: 5, unit: hour };
    let rate =
        PacketRateMeter::new([Some(PacketLimit { plain, additional: None }), None], Nanos(0));
    rules.qers[1].packet_rate = Some(Box::new(rate.clone()));
    rules.urrs = vec![urr(false)];
    rules.uplink[0].urrs = [0].into_iter().collect();
    let mut scene = PipelineFixture::with(rules);
    // At once the rate of 288 kb/s lets one packet pass, and drops the others.
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos(0), 3), 1);
    assert_eq!(scene.dropped(DropReason::RateExceeded), 2);
    scene.now += Nanos::from_secs(1);
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos::from_secs(1), 9), 4);
    assert_eq!(scene.dropped(DropReason::PacketRateExceeded), 5);
    assert_eq!(rate.dropped(Direction::Uplink), 5);
    assert_eq!(offer(&mut scene, Direction::Downlink, Nanos::from_secs(1), 9), 9, "without a rate");
    let usage = scene.publisher.usage().usage(UsageSlot(0), 1);
    assert_eq!(usage.ul_bytes, 5 * UPLINK_LEN);
    scene.now += hour;
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos::from_secs(1), 9), 5);
}

#[test]
fn dropped_excess_is_no_usage_unless_measured_before_qos() {
    for before_qos in [false, true] {
        let mut rules = limited([limit(144, Excess::Policed); 2], OPEN);
        rules.urrs = vec![urr(before_qos)];
        rules.uplink[0].urrs = [0].into_iter().collect();
        let mut scene = PipelineFixture::with(rules);
        assert_eq!(offer(&mut scene, Direction::Uplink, Nanos::from_millis(1), 100), 50);
        let usage = scene.publisher.usage();
        let counted = usage.usage(UsageSlot(0), 1);
        assert_eq!(counted.ul_pkts, if before_qos { 100 } else { 50 });
    }
}

/// As [`limited`], with a third QER, the only one that the uplink PDR names.
fn limited_with_third_qer(rates: [RateLimit; 2]) -> SessionRules {
    let fast = [limit(1_000_000, Excess::Shaped); 2];
    let mut rules = limited(fast, fast);
    let mut third = rules.qers[1].clone();
    third.id.0 += 1;
    let [uplink, downlink] = rates;
    third.meter = third.meter.map(|meter| QerMeter { uplink, downlink, ..meter });
    rules.qers.push(third);
    rules.uplink[0].qers = [2].into_iter().collect();
    rules
}

#[test]
fn excess_that_waits_leaves_in_order_at_the_rate() {
    let slow = [limit(144, Excess::Shaped); 2];
    check_order_and_rate(limited(slow, OPEN), &[9, 0]);
    check_order_and_rate(limited_with_third_qer(slow), &[0, 0, 9]);
}

#[test]
fn excess_of_an_aggregate_waits_and_leaves_in_order() {
    let slow = [limit(144, Excess::Shaped); 2];
    let of_slice = SessionRules { slice: SliceId(1), ..rules() };
    let cases = [
        (vec![slow], rules()),
        (vec![OPEN, slow], of_slice.clone()),
        (vec![slow, OPEN], of_slice.clone()),
        (vec![slow, slow], of_slice),
    ];
    for (aggregates, rules) in cases {
        let mut scene = PipelineFixture::sharing(aggregates, rules);
        let mut sent = Vec::new();
        for n in 0..40_u8 {
            let frame = tunneled().ipv4(UE, SERVER).udp(4000, 53).payload(&[n; 1172]).build();
            sent.extend(scene.pass(N3, &frame, N6));
        }
        assert!((1..20).contains(&sent.len()), "{}", sent.len());
        assert_eq!(scene.counts().shaped_pkts, 40 - sent.len() as u64);
        // 40 packets of 1200 octets at 144 kb/s take 2.7 s.
        for step in 0..300 {
            assert!(sent.len() <= 20 || step > 90, "faster than the rate");
            scene.now += Nanos::from_millis(10);
            scene.step();
            sent.extend(scene.sent(N6));
        }
        let numbers: Vec<u8> = sent.iter().map(|frame| frame[frame.len() - 1]).collect();
        assert_eq!(numbers, (0..40).collect::<Vec<u8>>());
        assert_eq!((scene.counts().shaped_pkts, scene.counts().dropped_pkts()), (0, 0));
    }
}

/// Packets of uplink that wait behind the rates of each QER.
fn queued(scene: &PipelineFixture) -> Vec<u64> {
    let qers = scene.publisher.rules(SESSION).unwrap().qers().iter();
    let queued = |meter| scene.publisher.meter_traffic(SESSION, Direction::Uplink, meter);
    qers.filter_map(|qer| qer.meter.as_ref()).map(|meter| queued(meter).queued_pkts).collect()
}

/// Sends ten packets at once through a rate of 144 kb/s, behind which `waiting` wait by QER.
fn check_order_and_rate(rules: SessionRules, waiting: &[u64]) {
    let mut scene = PipelineFixture::with(rules);
    let frames: Vec<Vec<u8>> = (0..10_u8)
        .map(|n| {
            let packet = tunneled();
            packet.ipv4(UE, SERVER).udp(4000, 53).payload(&[n; 8]).build()
        })
        .collect();
    let mut sent = scene.pass(N3, &frames[0], N6);
    assert_eq!(sent.len(), 1);
    for frame in &frames[1..] {
        sent.extend(scene.pass(N3, frame, N6));
    }
    assert_eq!((sent.len(), scene.counts().shaped_pkts), (1, 9));
    assert_eq!(queued(&scene), waiting);
    // 36 octets at 144 kb/s take 2 ms; a slot of the wheel is late by 33 µs at most.
    for _ in 0..9 {
        scene.now += Nanos::from_millis(2);
        scene.step();
        scene.now += Nanos::from_micros(40);
        scene.step();
        sent.extend(scene.sent(N6));
    }
    let numbers: Vec<u8> = sent.iter().map(|frame| frame[frame.len() - 1]).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<u8>>());
    assert_eq!((scene.counts().shaped_pkts, scene.counts().dropped_pkts()), (0, 0));
    assert_eq!(scene.counts().shaping_delays.iter().sum::<u64>(), 9);
    assert!(queued(&scene).iter().all(|pkts| *pkts == 0), "nothing waits any more");
}

#[test]
fn end_marker_goes_behind_packets_that_wait_for_their_rate() {
    let slow = limit(8, Excess::Shaped);
    let mut scene = PipelineFixture::with(limited([RateLimit::UNLIMITED, slow], OPEN));
    assert_eq!(offer(&mut scene, Direction::Downlink, Nanos(0), 3), 1);
    assert_eq!(scene.counts().shaped_pkts, 2);
    let command = WorkerCommand::SendEndMarker {
        tunnel: GtpuTunnel { teid: Teid(GNB_TEID), addr: ip(GNB) },
        interfaces: InterfaceSet::ALL,
        qfi: None,
        session: SESSION,
        change: DeltaId(0),
    };
    scene.commands.push(command).unwrap();
    scene.step();
    let messages: Vec<u8> = scene.sent(N3).iter().map(|frame| frame[14 + 20 + 8 + 1]).collect();
    assert_eq!(messages, [255, 255, 254], "what waited leaves at once, and the marker last");
    assert_eq!(scene.counts().shaped_pkts, 0);
}

#[test]
fn new_rate_counts_for_what_waits_and_a_closed_gate_discards_it() {
    let mut scene = PipelineFixture::with(limited([limit(8, Excess::Shaped); 2], OPEN));
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos(0), 11), 1);
    let fast = RateLimit::new(BitRate::from_kbps(1_000_000), Nanos::from_millis(2), Excess::Shaped);
    scene.install(limited([fast; 2], OPEN));
    scene.now += Nanos::from_millis(140);
    scene.step();
    assert_eq!(scene.sent(N6).len(), 10);
    scene.install(limited([limit(8, Excess::Shaped); 2], OPEN));
    scene.now += Nanos::from_secs(1);
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos(0), 5), 1);
    let mut closed = limited([limit(8, Excess::Shaped); 2], OPEN);
    closed.qers[0].gate_uplink = Gate::Closed;
    scene.install(closed);
    scene.now += Nanos::from_millis(140);
    scene.step();
    assert_eq!((scene.sent(N6).len(), scene.dropped(DropReason::GateClosed)), (0, 4));
}

#[test]
fn packets_that_wait_for_their_rates_go_with_their_session() {
    let mut scene = PipelineFixture::with(limited([limit(8, Excess::Shaped); 2], OPEN));
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos(0), 5), 1);
    scene.deltas += 1;
    let delta = RuleDelta { session: SESSION, keys: Vec::new(), rules: None };
    scene.publisher.apply(DeltaId(scene.deltas), delta);
    scene.step();
    assert_eq!((scene.sent(N6).len(), scene.dropped(DropReason::BufferDiscarded)), (0, 4));
    assert_eq!(scene.counts().shaped_pkts, 0);
}

#[test]
fn packets_that_wait_for_a_neighbor_instead_of_their_rate_are_paid_for_by_later_ones() {
    let mut scene = PipelineFixture::unresolved(limited([limit(8, Excess::Shaped); 2], OPEN));
    assert_eq!(offer(&mut scene, Direction::Downlink, Nanos(0), 5), 0);
    assert_eq!(scene.counts().buffered_pkts, 5);
    scene.resolve(IF_N3, GNB, GNB_MAC);
    scene.step();
    assert_eq!(scene.sent(N3).len(), 5);
    // A packet is worth some 34 ms of the rate.
    scene.now += Nanos::from_millis(60);
    assert_eq!(offer(&mut scene, Direction::Downlink, Nanos(0), 1), 0);
    assert_eq!(scene.counts().shaped_pkts, 1);
    scene.now += Nanos::from_millis(200);
    scene.step();
    assert_eq!(scene.sent(N3).len(), 1);
}

#[test]
fn queue_of_a_flow_is_bounded() {
    let mut scene = PipelineFixture::with(limited([limit(8, Excess::Shaped); 2], OPEN));
    // A flow takes no more of the 512 packets that may wait than it leaves to others.
    assert_eq!(offer(&mut scene, Direction::Uplink, Nanos(0), 1 + 256 + 7), 1);
    assert_eq!(scene.dropped(DropReason::ShapingQueueFull), 7);
    assert_eq!(scene.counts().shaped_pkts, 256);
}
