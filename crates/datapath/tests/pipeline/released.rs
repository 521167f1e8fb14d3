//! Packets that a FAR held stay with their PDR and FAR, leave in order, and are measured once.

use adit_rules::rule::ue_ipv6_key;
use adit_rules::{
    ApplyAction, DropReason, FarEntry, Gate, HeaderCreation, KeyChange, PdrEntry, PoolMembers,
    QerEntry, RuleDelta, SessionKey, SessionRules, UrrEntry, UsageLimits, UsageSource, WorkerEvent,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{
    DomainId, FarId, PdrId, Precedence, QerId, Qfi, Seid, SessionIndex, UrrId, UsageSlot,
};

use crate::fixture::*;

const BUFF: ApplyAction = ApplyAction::BUFF;
const FORW: ApplyAction = ApplyAction::FORW;

/// FARs and QERs of two downlink flows: the general one by FAR 2 with QFI 9 to TEID 0xabcd, the
/// dedicated one by FAR 3 with QFI 5 to TEID 0x55.
const DEDICATED_TEID: u32 = 0x55;

fn to_ue(n: u8) -> Vec<u8> {
    from_gateway().ipv4(SERVER, UE).udp(53, 4000).payload(&[n]).build()
}

/// The general flow alone, with this action.
fn general(action: ApplyAction) -> SessionRules {
    let mut rules = rules();
    rules.fars[1].action = action;
    rules
}

/// As [`general`], with a PDR of higher precedence in front that takes all packets.
fn with_dedicated(general_action: ApplyAction, dedicated_action: ApplyAction) -> SessionRules {
    let mut rules = general(general_action);
    let far = adit_rules::FarEntry {
        id: FarId(3),
        action: dedicated_action,
        outer_header_creation: Some(tunnel(DEDICATED_TEID, GNB)),
        ..rules.fars[1].clone()
    };
    let qer = QerEntry { id: QerId(2), qfi: Qfi::new(5), ..rules.qers[0].clone() };
    let pdr = PdrEntry {
        id: PdrId(5),
        precedence: Precedence(1),
        far: 2,
        qers: [1].into_iter().collect(),
        ..rules.downlink[0].clone()
    };
    rules.fars.push(far);
    rules.qers.push(qer);
    rules.downlink.insert(0, pdr);
    rules
}

/// Holds packets `0..count` by the general FAR.
fn holding(count: u8) -> PipelineFixture {
    let mut scene = PipelineFixture::with(general(BUFF));
    for n in 0..count {
        assert_eq!(scene.pass(N6, &to_ue(n), N3), Vec::<Vec<u8>>::new());
    }
    scene
}

/// TEID, QFI and number of packets that left with IPv4 tunnels.
fn seen(frames: &[Vec<u8>]) -> Vec<(u32, u8, u8)> {
    let describe = |frame: &Vec<u8>| {
        let gtpu = &frame[14 + 20 + 8..];
        let teid = u32::from_be_bytes(gtpu[4..8].try_into().unwrap());
        (teid, gtpu[14] & 0x3f, *frame.last().unwrap())
    };
    frames.iter().map(describe).collect()
}

#[test]
fn held_packet_leaves_by_its_own_far_though_a_pdr_of_higher_precedence_buffers() {
    let mut scene = holding(3);
    scene.install(with_dedicated(BUFF, BUFF));
    assert_eq!(scene.counts().buffered_by_far_pkts, 3);
    scene.install(with_dedicated(FORW, BUFF));
    let left = scene.sent(N3);
    assert_eq!(seen(&left), [(GNB_TEID, 9, 0), (GNB_TEID, 9, 1), (GNB_TEID, 9, 2)]);
    assert_eq!(scene.counts().buffered_by_far_pkts, 0);
    // New packets match the new PDR.
    assert_eq!(scene.pass(N6, &to_ue(3), N3), Vec::<Vec<u8>>::new());
    scene.install(with_dedicated(FORW, FORW));
    assert_eq!(seen(&scene.sent(N3)), [(DEDICATED_TEID, 5, 3)]);
}

#[test]
fn held_packet_stays_with_its_far_though_a_pdr_of_higher_precedence_forwards() {
    let mut scene = holding(2);
    scene.install(with_dedicated(BUFF, FORW));
    assert_eq!(seen(&scene.pass(N6, &to_ue(9), N3)), [(DEDICATED_TEID, 5, 9)]);
    assert_eq!(scene.counts().buffered_by_far_pkts, 2);
    scene.install(with_dedicated(FORW, FORW));
    assert_eq!(seen(&scene.sent(N3)), [(GNB_TEID, 9, 0), (GNB_TEID, 9, 1)]);
}

#[test]
fn held_packet_leaves_although_its_pdr_would_not_take_it_any_more() {
    let mut scene = holding(1);
    let mut other = general(FORW);
    other.downlink[0].ue.v4 = Some(v4("10.45.0.77"));
    scene.install(other);
    assert_eq!(seen(&scene.sent(N3)), [(GNB_TEID, 9, 0)]);
    let mut scene = PipelineFixture::with(SessionRules {
        fars: {
            let mut fars = rules().fars;
            fars[0].action = BUFF;
            fars
        },
        ..rules()
    });
    assert_eq!(scene.pass(N3, &uplink().build(), N6), Vec::<Vec<u8>>::new());
    let mut other = rules();
    other.uplink[0].teid = Some(adit_types::Teid(0x101));
    other.ue[0].v4 = Some(v4("10.45.0.77"));
    scene.install(other);
    assert_eq!(scene.sent(N6).len(), 1, "tunnel and address were checked when it came");
}

#[test]
fn order_of_a_far_holds_over_packets_that_another_far_holds_on() {
    let mut scene = holding(1);
    scene.install(with_dedicated(BUFF, BUFF));
    scene.pass(N6, &to_ue(1), N3);
    scene.install(general(BUFF));
    assert_eq!(scene.dropped(DropReason::BufferDiscarded), 1, "the dedicated PDR is gone");
    scene.pass(N6, &to_ue(2), N3);
    scene.install(with_dedicated(BUFF, BUFF));
    scene.pass(N6, &to_ue(3), N3);
    scene.pass(N6, &to_ue(4), N3);
    scene.io.inject(N6, &to_ue(5));
    scene.install(with_dedicated(BUFF, FORW));
    let dedicated: Vec<_> = [3, 4, 5].map(|n| (DEDICATED_TEID, 5, n)).into();
    assert_eq!(seen(&scene.sent(N3)), dedicated);
    scene.install(with_dedicated(FORW, FORW));
    assert_eq!(seen(&scene.sent(N3)), [(GNB_TEID, 9, 0), (GNB_TEID, 9, 2)]);
}

#[test]
fn pdr_that_was_given_another_far_takes_along_what_the_old_one_still_holds() {
    let mut scene = holding(1);
    let mut moved = with_dedicated(BUFF, FORW);
    moved.downlink.remove(0);
    moved.downlink[0].far = 2;
    scene.install(moved.clone());
    assert_eq!(seen(&scene.sent(N3)), [(DEDICATED_TEID, 9, 0)]);
    // The FAR that holds the packet forwards again, so the packet leaves by this FAR, though the
    // PDR's new one buffers.
    let mut scene = holding(1);
    moved.fars[1].action = FORW;
    moved.fars[2].action = BUFF;
    scene.install(moved);
    assert_eq!(seen(&scene.sent(N3)), [(GNB_TEID, 9, 0)]);
}

#[test]
fn far_and_pdr_are_found_by_identifier_when_others_went() {
    let mut scene = PipelineFixture::with(with_dedicated(BUFF, BUFF));
    scene.pass(N6, &to_ue(0), N3);
    let mut rules = with_dedicated(BUFF, FORW);
    rules.downlink.remove(1);
    rules.fars.remove(1);
    rules.downlink[0].far = 1;
    scene.install(rules);
    assert_eq!(seen(&scene.sent(N3)), [(DEDICATED_TEID, 5, 0)]);
}

#[test]
fn held_packet_without_its_pdr_is_discarded_though_its_far_forwards() {
    let mut scene = holding(2);
    let mut rules = with_dedicated(FORW, FORW);
    rules.downlink.remove(1);
    scene.install(rules);
    assert_eq!(scene.sent(N3), Vec::<Vec<u8>>::new());
    assert_eq!(scene.dropped(DropReason::BufferDiscarded), 2);
}

#[test]
fn gate_that_closed_meanwhile_discards() {
    let mut scene = holding(2);
    let mut rules = general(FORW);
    rules.qers[0].gate_downlink = Gate::Closed;
    scene.install(rules);
    assert_eq!(scene.dropped(DropReason::BufferDiscarded), 2);
}

#[test]
fn packets_of_both_families_and_directions_leave_in_the_order_in_which_they_came() {
    let mut scene = PipelineFixture::with(general(BUFF));
    let six = from_gateway().ipv6(SERVER_V6, UE_V6).udp(53, 4000).payload(&[1]).build();
    for frame in [to_ue(0), six, to_ue(2)] {
        scene.pass(N6, &frame, N3);
    }
    scene.install(general(FORW));
    let numbers: Vec<u8> = scene.sent(N3).iter().map(|frame| *frame.last().unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2]);
}

fn urr(report_dropped: (u64, u64)) -> UrrEntry {
    UrrEntry {
        id: UrrId(1),
        slot: UsageSlot(0),
        generation: 1,
        report: UsageLimits::NONE,
        quota: UsageLimits::NONE,
        report_dropped,
        stopped: false,
        quota_far: None,
        exempt: Vec::new(),
        pool: None,
        members: PoolMembers::default(),
        report_start: false,
        before_qos: true,
    }
}

fn measured(mut rules: SessionRules) -> SessionRules {
    rules.urrs = vec![urr((1, u64::MAX))];
    for pdr in &mut rules.downlink {
        pdr.urrs = [0].into_iter().collect();
    }
    rules
}

/// Packets that passed and that were dropped, by the URR's counters.
fn usage(scene: &PipelineFixture) -> (u64, u64) {
    let counts = scene.publisher.usage().usage(UsageSlot(0), 1);
    (counts.dl_pkts, counts.dropped_dl_pkts)
}

#[test]
fn held_packet_counts_once_and_when_it_leaves() {
    let mut scene = PipelineFixture::with(measured(general(BUFF)));
    scene.pass(N6, &to_ue(0), N3);
    assert_eq!(usage(&scene), (0, 0));
    scene.install(measured(with_dedicated(BUFF, BUFF)));
    assert_eq!(usage(&scene), (0, 0), "held on");
    scene.install(measured(with_dedicated(FORW, BUFF)));
    assert_eq!((seen(&scene.sent(N3)).len(), usage(&scene)), (1, (1, 0)));
}

#[test]
fn held_packet_is_no_dropped_one_until_it_is_dropped() {
    let mut scene = PipelineFixture::with(measured(general(BUFF)));
    scene.pass(N6, &to_ue(0), N3);
    let told = |scene: &mut PipelineFixture| {
        let events = scene.take_events();
        events.iter().filter(|event| matches!(event, WorkerEvent::UsageLimit { .. })).count()
    };
    assert_eq!((usage(&scene), told(&mut scene)), ((0, 0), 0), "it waits");
    scene.install(measured(general(BUFF | ApplyAction::BDPN)));
    assert_eq!((usage(&scene), told(&mut scene)), ((0, 0), 0), "it waits on");
    scene.install(measured(general(ApplyAction::DROP)));
    assert_eq!((usage(&scene), told(&mut scene)), ((0, 1), 1), "it is dropped");
}

#[test]
fn packet_beyond_a_quota_that_its_far_buffers_is_no_dropped_one() {
    for (action, dropped) in [(BUFF, 0), (ApplyAction::DROP, 1)] {
        let mut rules = measured(general(FORW));
        (rules.urrs[0].stopped, rules.urrs[0].quota_far) = (true, Some(2));
        let quota_far = FarEntry { id: FarId(3), action, ..rules.fars[1].clone() };
        rules.fars.push(quota_far);
        let mut scene = PipelineFixture::with(rules);
        scene.pass(N6, &to_ue(0), N3);
        assert_eq!(usage(&scene), (0, dropped), "{action:?}");
        assert_eq!(scene.counts().buffered_by_far_pkts, 1 - dropped);
    }
}

#[test]
fn packet_without_room_counts_as_dropped_once() {
    let mut rules = measured(general(BUFF));
    rules.fars[1].buffer_pkts_max = 1;
    let mut scene = PipelineFixture::with(rules);
    scene.pass(N6, &to_ue(0), N3);
    scene.pass(N6, &to_ue(1), N3);
    assert_eq!((usage(&scene), scene.dropped(DropReason::BufferFull)), ((0, 1), 1));
}

/// Sessions that wait, more than are reviewed in three steps.
const CROWD: u8 = 120;

fn host(n: u8) -> String {
    format!("10.45.1.{n}")
}

/// The rules of one of many sessions, with tunnels of its own.
fn one_of_many(n: u8, action: ApplyAction) -> SessionRules {
    let mut rules = general(action);
    rules.up_seid = Seid(1000 + u64::from(n));
    let v6 = format!("2001:db8:{n:x}::/64").parse().unwrap();
    rules.ue[0] = adit_rules::UeAddresses { v4: Some(v4(&host(n))), v6: Some(v6) };
    let ue = rules.ue[0];
    rules.uplink.clear();
    rules.downlink[0].ue = ue;
    let HeaderCreation::Gtpu(mut tunnel) = rules.fars[1].outer_header_creation.unwrap() else {
        unreachable!("the scene's FAR has a tunnel")
    };
    tunnel.teid.0 = 0x1000 + u32::from(n);
    rules.fars[1].outer_header_creation = Some(HeaderCreation::Gtpu(tunnel));
    rules
}

fn publish(scene: &mut PipelineFixture, n: u8, action: ApplyAction) {
    scene.deltas += 1;
    let session = SessionIndex(if n < 7 { u32::from(n) } else { u32::from(n) + 1 });
    let keys = vec![
        KeyChange::Add(SessionKey::UeIpv4(DomainId(0), v4(&host(n)))),
        KeyChange::Add(SessionKey::UeIpv6(
            DomainId(0),
            ue_ipv6_key(format!("2001:db8:{n:x}::1").parse().unwrap()),
        )),
    ];
    let rules = Some(Box::new(one_of_many(n, action)));
    scene.publisher.apply(adit_rules::DeltaId(scene.deltas), RuleDelta { session, keys, rules });
}

fn to_host(n: u8, number: u8, usual: bool) -> Vec<u8> {
    let frame = PacketBuilder::ethernet(N6_MAC, GATEWAY_MAC).ipv4(SERVER, host(n).as_str());
    // An option keeps a packet from the fast path.
    let frame = if usual { frame } else { frame.options(&[1, 1, 1, 1]) };
    frame.udp(53, 4000).payload(&[number]).build()
}

#[test]
fn held_packets_are_not_overtaken_however_many_sessions_wait() {
    // No step reviews all sessions: whichever it reviews, some of these groups are not among them.
    for first in (0..CROWD).step_by(15) {
        for usual in [true, false] {
            check_order_in_crowd(first..first + 15, usual);
        }
    }
}

/// All sessions of the crowd may send on, and packets of `late` come before all are reviewed.
fn check_order_in_crowd(late: core::ops::Range<u8>, usual: bool) {
    let mut scene = PipelineFixture::usual_of(256, rules());
    for n in 0..CROWD {
        publish(&mut scene, n, BUFF);
    }
    for number in [1, 2] {
        (0..CROWD).for_each(|n| scene.io.inject(N6, &to_host(n, number, usual)));
    }
    for _ in 0..8 {
        scene.step();
    }
    while scene.publisher.poll_observed().is_some() {}
    assert_eq!(scene.counts().buffered_by_far_pkts, 2 * u64::from(CROWD));
    for n in 0..CROWD {
        publish(&mut scene, n, FORW);
    }
    // The first step sees the change, after which usual packets may take the fast path.
    scene.step();
    while scene.publisher.poll_observed().is_some() {}
    for number in [3, 4] {
        late.clone().for_each(|n| scene.io.inject(N6, &to_host(n, number, usual)));
    }
    for _ in 0..8 {
        scene.step();
    }
    let left = seen(&scene.sent(N3));
    for n in 0..CROWD {
        let of = |(teid, ..): &&(u32, u8, u8)| *teid == 0x1000 + u32::from(n);
        let numbers: Vec<u8> = left.iter().filter(of).map(|(.., number)| *number).collect();
        let expected = if late.contains(&n) { &[1, 2, 3, 4][..] } else { &[1, 2] };
        assert_eq!(numbers, expected, "session {n}, usual: {usual}");
    }
    assert_eq!(scene.counts().buffered_by_far_pkts, 0);
}
