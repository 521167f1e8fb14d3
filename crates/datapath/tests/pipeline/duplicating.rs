//! Copies that FARs request, forwarding policies, and quota actions that buffer.

use adit_rules::{
    ApplyAction, DestinationInterface, DropReason, FarEntry, OuterTos, PoolMembers, SessionRules,
    Steering, UrrEntry, UsageLimits, WorkerEvent,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{FarId, UrrId, UsageSlot};

use crate::fixture::*;

/// The rules of every scene, with copies of uplink packets into the tunnel 0x77 to the gNB.
fn duplicating(action: ApplyAction) -> SessionRules {
    let mut rules = rules();
    let copy = FarEntry {
        id: FarId(1),
        action: ApplyAction::FORW,
        destination: DestinationInterface::LiFunction,
        outer_header_creation: Some(tunnel(0x77, GNB)),
        outer_tos: OuterTos::default().with_dscp(0x48),
        ..rules.fars[0].clone()
    };
    rules.fars[0].action = action | ApplyAction::DUPL;
    rules.fars[0].duplicates.push(2);
    rules.fars.push(copy);
    rules
}

fn inner(builder: PacketBuilder) -> PacketBuilder {
    builder.ipv4(UE, SERVER).ttl(63).udp(4000, 53).payload(b"question")
}

/// The copy of [`uplink`].
fn copy() -> Vec<u8> {
    let outer = PacketBuilder::ethernet(GNB_MAC, N3_MAC).ipv4(N3_ADDR, GNB).tos(0x48);
    inner(outer.dont_fragment().gtpu(0x77).psc_ul(9)).build()
}

fn forwarded() -> Vec<u8> {
    inner(PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)).build()
}

#[test]
fn packet_whose_far_duplicates_leaves_and_so_does_its_copy() {
    let mut scene = PipelineFixture::with(duplicating(ApplyAction::FORW));
    assert_eq!(scene.pass(N3, &uplink().build(), N6), [forwarded()]);
    assert_eq!(scene.sent(N3), [copy()]);
    let counts = scene.counts();
    assert_eq!((counts.duplicated_pkts, counts.duplicates_lost_pkts), (1, 0));
    assert_eq!((counts.transmitted_pkts(), counts.originated_pkts), (1, 0));
    assert_eq!(scene.publisher.session_traffic(SESSION).ul_pkts, 1, "a copy is no usage");
}

#[test]
fn packet_that_is_dropped_and_duplicated_leaves_as_copy_only() {
    let mut scene = PipelineFixture::with(duplicating(ApplyAction::DROP));
    scene.assert_drops(N3, &uplink().build(), DropReason::FarDrop);
    assert_eq!(scene.sent(N3), [copy()]);
    assert!(scene.sent(N6).is_empty());
}

#[test]
fn packet_that_waits_is_copied_once() {
    let mut scene = PipelineFixture::with(duplicating(ApplyAction::BUFF));
    assert!(scene.pass(N3, &uplink().build(), N6).is_empty());
    assert_eq!(scene.sent(N3), [copy()]);
    assert_eq!(scene.counts().buffered_pkts, 1);
    scene.install(duplicating(ApplyAction::FORW));
    scene.step();
    assert_eq!(scene.sent(N6), [forwarded()]);
    assert!(scene.sent(N3).is_empty(), "no second copy");
}

#[test]
fn packet_without_a_buffer_for_its_copy_is_forwarded_all_the_same() {
    let mut scene = PipelineFixture::with(duplicating(ApplyAction::FORW));
    scene.io.alloc_room = 0;
    assert_eq!(scene.pass(N3, &uplink().build(), N6), [forwarded()]);
    assert!(scene.sent(N3).is_empty());
    assert_eq!(scene.counts().duplicates_lost_pkts, 1);
}

#[test]
fn packet_that_a_gate_stops_is_not_copied() {
    let mut rules = duplicating(ApplyAction::FORW);
    rules.qers[0].gate_uplink = adit_rules::Gate::Closed;
    let mut scene = PipelineFixture::with(rules);
    scene.assert_drops(N3, &uplink().build(), DropReason::GateClosed);
    assert!(scene.sent(N3).is_empty());
}

#[test]
fn copy_that_a_full_queue_refuses_is_counted_and_no_drop() {
    let mut scene = PipelineFixture::with(duplicating(ApplyAction::FORW));
    scene.io.ports[0].tx_room = 0;
    assert_eq!(scene.pass(N3, &uplink().build(), N6), [forwarded()]);
    let counts = scene.counts();
    assert_eq!((counts.duplicates_lost_pkts, counts.dropped_pkts()), (1, 0));
}

#[test]
fn copy_to_a_silent_station_is_lost_and_asked_for_once_a_second() {
    let mut rules = duplicating(ApplyAction::FORW);
    rules.fars[2].outer_header_creation =
        Some(adit_rules::HeaderCreation::Ip { addr: ip("10.6.0.77") });
    let mut scene = PipelineFixture::with(rules);
    for _ in 0..3 {
        assert_eq!(scene.pass(N3, &uplink().build(), N6).len(), 1);
    }
    assert_eq!(scene.counts().duplicates_lost_pkts, 3);
    let wanted = WorkerEvent::NeighborUnresolved { interface: IF_N6, addr: ip("10.6.0.77") };
    assert_eq!(scene.take_events(), [wanted]);
}

#[test]
fn policy_steers_plain_packets_to_its_station_and_marks_them() {
    let mut rules = rules();
    let steering = Steering { v4: Some(v4("10.6.0.9")), v6: None };
    rules.fars[0].steering = Some(Box::new(steering));
    rules.fars[0].dscp = Some(46);
    let mut scene = PipelineFixture::with(rules);
    let station = adit_types::MacAddr([2, 0, 0, 0, 0, 9]);
    scene.resolve(IF_N6, "10.6.0.9", station);
    let sent = scene.pass(N3, &uplink().build(), N6);
    let expected = PacketBuilder::ethernet(station, N6_MAC).ipv4(UE, SERVER).tos(0xb8).ttl(63);
    assert_eq!(sent, [expected.udp(4000, 53).payload(b"question").build()]);
    let frame = tunneled().ipv6(UE_V6, SERVER_V6).udp(1, 2).build();
    let sent = scene.pass(N3, &frame, N6);
    assert_eq!(&sent[0][..6], &GATEWAY_MAC.0, "IPv6 follows the routes");
    assert_eq!(sent[0][14..16], [0x6b, 0x80]);
}

#[test]
fn quota_action_that_buffers_holds_the_packets_until_there_is_quota() {
    let mut exhausted = rules();
    exhausted.fars.push(FarEntry {
        id: FarId(9),
        action: ApplyAction::BUFF,
        ..exhausted.fars[0].clone()
    });
    exhausted.urrs.push(UrrEntry {
        id: UrrId(1),
        slot: UsageSlot(0),
        generation: 1,
        report: UsageLimits::NONE,
        quota: UsageLimits::NONE,
        report_dropped: (u64::MAX, u64::MAX),
        stopped: true,
        quota_far: Some(2),
        report_start: false,
        before_qos: false,
        exempt: Vec::new(),
        pool: None,
        members: PoolMembers::default(),
    });
    exhausted.uplink[0].urrs.push(0);
    let mut granted = exhausted.clone();
    granted.urrs[0].stopped = false;
    let mut scene = PipelineFixture::with(exhausted);
    assert!(scene.pass(N3, &uplink().build(), N6).is_empty());
    let counts = scene.counts();
    assert_eq!((counts.buffered_by_far_pkts, counts.dropped_pkts()), (1, 0));
    scene.install(granted);
    scene.step();
    assert_eq!(scene.sent(N6), [forwarded()]);
}
