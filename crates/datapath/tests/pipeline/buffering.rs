//! FARs that buffer: order, bounds, notices, what discards, End Markers.

use adit_rules::{
    ApplyAction, DataDelivery, DeltaId, DropReason, GtpuTunnel, KeyChange, RuleDelta, SessionKey,
    SessionRules, WorkerCommand, WorkerEvent,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{InterfaceSet, Nanos, PdrId, Qfi, Seid, SessionIndex, Teid};

use crate::fixture::*;

const NOTICES: ApplyAction = ApplyAction::BUFF.union(ApplyAction::NOCP);

/// The usual rules with this action of the downlink FAR.
fn acting(action: ApplyAction) -> SessionRules {
    let mut rules = rules();
    rules.fars[1].action = action;
    rules
}

fn numbered(n: u8) -> Vec<u8> {
    from_gateway().ipv4(SERVER, UE).udp(53, 4000).payload(&[n]).build()
}

/// The last octets of frames: the numbers of their packets.
fn numbers(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().map(|frame| *frame.last().unwrap()).collect()
}

/// A scene that holds packets `0..count`.
fn holding(action: ApplyAction, count: u8) -> PipelineFixture {
    let mut scene = PipelineFixture::with(acting(action));
    for n in 0..count {
        assert_eq!(scene.pass(N6, &numbered(n), N3), Vec::<Vec<u8>>::new());
    }
    assert_eq!(scene.counts().buffered_by_far_pkts, u64::from(count));
    scene
}

fn data(delivery: Option<DataDelivery>) -> WorkerEvent {
    let (session, pdr, dscp, qfi) = (Seid(1), PdrId(2), Some(0), Qfi::new(9));
    WorkerEvent::DownlinkData { session, pdr, dscp, qfi, delivery }
}

#[test]
fn buffered_packets_leave_in_order_before_later_ones_when_the_far_forwards() {
    let mut scene = holding(ApplyAction::BUFF, 5);
    assert_eq!(scene.publisher.session_traffic(SESSION).dl_pkts, 0, "nothing was used yet");
    scene.install(acting(ApplyAction::FORW));
    assert_eq!(numbers(&scene.pass(N6, &numbered(5), N3)), [0, 1, 2, 3, 4, 5]);
    assert_eq!(scene.counts().buffered_pkts, 0);
    assert_eq!(scene.publisher.session_traffic(SESSION).dl_pkts, 6);
    assert_eq!(numbers(&scene.pass(N6, &numbered(6), N3)), [6]);
}

#[test]
fn released_packet_takes_the_new_tunnel_with_the_octets_of_any_other() {
    let mut scene = holding(ApplyAction::BUFF, 1);
    let mut moved = acting(ApplyAction::FORW);
    moved.fars[1].outer_header_creation = Some(tunnel(0x77, GNB));
    scene.install(moved);
    scene.step();
    let sent = scene.sent(N3);
    let expected = PacketBuilder::ethernet(GNB_MAC, N3_MAC)
        .ipv4(N3_ADDR, GNB)
        .dont_fragment()
        .gtpu(0x77)
        .psc_dl(9, false)
        .ipv4(SERVER, UE)
        .ttl(63)
        .udp(53, 4000)
        .payload(&[0])
        .build();
    assert_eq!(sent, [expected]);
}

#[test]
fn uplink_is_buffered_too_and_not_notified() {
    let mut rules = rules();
    rules.fars[0].action = NOTICES;
    let mut scene = PipelineFixture::with(rules);
    assert_eq!(scene.pass(N3, &uplink().build(), N6), Vec::<Vec<u8>>::new());
    assert_eq!(scene.take_events(), []);
    scene.install(crate::fixture::rules());
    scene.step();
    assert_eq!(scene.sent(N6).len(), 1);
    assert_eq!(scene.publisher.session_traffic(SESSION).ul_pkts, 1);
}

#[test]
fn change_that_still_buffers_keeps_packets_and_their_order() {
    let mut scene = holding(ApplyAction::BUFF, 64);
    scene.install(acting(NOTICES));
    scene.step();
    assert_eq!(scene.counts().buffered_by_far_pkts, 64);
    scene.install(acting(ApplyAction::FORW));
    scene.step();
    assert_eq!(numbers(&scene.sent(N3)), (0..64).collect::<Vec<_>>());
}

#[test]
fn more_packets_than_the_bar_allows_are_dropped_as_buffer_full() {
    let mut rules = acting(ApplyAction::BUFF);
    rules.fars[1].buffer_pkts_max = 2;
    let mut scene = PipelineFixture::with(rules);
    for n in 0..5 {
        scene.pass(N6, &numbered(n), N3);
    }
    assert_eq!((scene.dropped(DropReason::BufferFull), scene.counts().buffered_pkts), (3, 2));
    scene.install(acting(ApplyAction::FORW));
    scene.step();
    assert_eq!(numbers(&scene.sent(N3)), [0, 1], "the first ones are kept");
}

#[test]
fn worker_holds_no_more_than_its_share_over_all_sessions() {
    let mut rules = acting(ApplyAction::BUFF);
    rules.fars[1].buffer_pkts_max = 1000;
    let mut scene = PipelineFixture::with(rules);
    for _ in 0..520 {
        scene.io.inject(N6, &numbered(1));
    }
    for _ in 0..20 {
        scene.step();
    }
    assert_eq!(
        (scene.counts().buffered_by_far_pkts, scene.dropped(DropReason::BufferFull)),
        (512, 8)
    );
    scene.install(acting(ApplyAction::DROP));
    scene.step();
    assert_eq!(scene.dropped(DropReason::BufferDiscarded), 512);
}

#[test]
fn drop_removal_and_drobu_discard_by_name() {
    let mut removed = rules();
    removed.downlink.clear();
    let mut drobu = acting(ApplyAction::FORW);
    drobu.buffer_epoch = 1;
    for after in [acting(ApplyAction::DROP), removed, drobu] {
        let mut scene = holding(ApplyAction::BUFF, 3);
        scene.install(after);
        scene.step();
        assert_eq!(scene.dropped(DropReason::BufferDiscarded), 3);
        assert_eq!(scene.sent(N3), Vec::<Vec<u8>>::new());
        assert_eq!(scene.counts().buffered_pkts, 0);
    }
}

#[test]
fn deleted_session_takes_its_packets_along_though_its_index_is_used_again() {
    let mut scene = holding(ApplyAction::BUFF, 3);
    let keys = [
        SessionKey::Teid(Teid(TEID)),
        SessionKey::UeIpv4(adit_types::DomainId(0), UE.parse().unwrap()),
    ];
    let keys = keys.into_iter().map(KeyChange::Remove).collect();
    let delta = RuleDelta { session: SESSION, keys, rules: None };
    scene.publisher.apply(adit_rules::DeltaId(100), delta);
    let mut other = acting(ApplyAction::FORW);
    other.up_seid = Seid(2);
    scene.deltas = 100;
    scene.install(other);
    scene.step();
    assert_eq!(scene.dropped(DropReason::BufferDiscarded), 3);
    assert_eq!(scene.sent(N3), Vec::<Vec<u8>>::new(), "nothing reaches the other session's UE");
}

#[test]
fn sessions_are_released_apart() {
    let mut scene = holding(ApplyAction::BUFF, 2);
    let second = SessionIndex(SESSION.0 + 1);
    let ue = "10.45.0.99";
    let mut other = acting(ApplyAction::BUFF);
    other.up_seid = Seid(2);
    other.ue = vec![];
    other.downlink[0].ue = Default::default();
    let keys =
        vec![KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), ue.parse().unwrap()))];
    let delta = RuleDelta { session: second, keys: keys.clone(), rules: Some(Box::new(other)) };
    scene.publisher.apply(adit_rules::DeltaId(50), delta);
    let to_other = from_gateway().ipv4(SERVER, ue).udp(53, 4000).payload(&[9]).build();
    scene.pass(N6, &to_other, N3);
    assert_eq!(scene.counts().buffered_by_far_pkts, 3);
    let delta = RuleDelta { session: second, keys: vec![], rules: None };
    scene.publisher.apply(adit_rules::DeltaId(51), delta);
    scene.step();
    assert_eq!(scene.dropped(DropReason::BufferDiscarded), 1);
    assert_eq!(scene.counts().buffered_by_far_pkts, 2);
    scene.deltas = 51;
    scene.install(acting(ApplyAction::FORW));
    scene.step();
    assert_eq!(numbers(&scene.sent(N3)), [0, 1]);
}

#[test]
fn packet_that_waited_a_minute_is_discarded() {
    let mut scene = holding(ApplyAction::BUFF, 1);
    scene.now += Nanos::from_secs(30);
    scene.pass(N6, &numbered(1), N3);
    scene.now += Nanos::from_secs(30);
    scene.step();
    assert_eq!(scene.dropped(DropReason::BufferDiscarded), 1);
    assert_eq!(scene.counts().buffered_by_far_pkts, 1);
    scene.install(acting(ApplyAction::FORW));
    scene.step();
    assert_eq!(numbers(&scene.sent(N3)), [1]);
}

#[test]
fn first_downlink_packet_is_reported_and_the_next_ones_are_not() {
    let mut scene = holding(NOTICES, 3);
    assert_eq!(scene.take_events(), [data(None)]);
    scene.install(acting(ApplyAction::FORW));
    scene.pass(N6, &numbered(3), N3);
    scene.install(acting(NOTICES));
    scene.pass(N6, &numbered(4), N3);
    assert_eq!(scene.take_events(), [data(None)], "once per activation");
}

#[test]
fn notice_carries_the_code_point_of_the_packet() {
    let mut scene = PipelineFixture::with(acting(NOTICES));
    let urgent = from_gateway().ipv4(SERVER, UE).tos(0xb8).udp(53, 4000).build();
    scene.pass(N6, &urgent, N3);
    let events = scene.take_events();
    assert!(matches!(events[..], [WorkerEvent::DownlinkData { dscp: Some(0x2e), .. }]));
}

#[test]
fn data_status_reports_buffered_and_discarded() {
    let mut rules = acting(ApplyAction::BUFF | ApplyAction::BDPN | ApplyAction::DDPN);
    rules.fars[1].buffer_pkts_max = 1;
    let mut scene = PipelineFixture::with(rules);
    scene.pass(N6, &numbered(0), N3);
    assert_eq!(scene.take_events(), [data(Some(DataDelivery::Buffered))]);
    scene.pass(N6, &numbered(1), N3);
    assert_eq!(scene.take_events(), [data(Some(DataDelivery::Discarded))]);
    let mut scene = PipelineFixture::with(acting(ApplyAction::DROP | ApplyAction::DDPN));
    scene.assert_drops(N6, &numbered(0), DropReason::FarDrop);
    assert_eq!(scene.take_events(), [data(Some(DataDelivery::Discarded))]);
}

#[test]
fn closed_gate_drops_before_the_far_buffers() {
    let mut rules = acting(NOTICES);
    rules.qers[0].gate_downlink = adit_rules::Gate::Closed;
    let mut scene = PipelineFixture::with(rules);
    scene.assert_drops(N6, &numbered(0), DropReason::GateClosed);
    assert_eq!(scene.take_events(), []);
}

#[test]
fn end_of_the_worker_discards_what_it_holds() {
    let mut scene = holding(ApplyAction::BUFF, 4);
    scene.worker.drain(&mut scene.io);
    let counts = scene.counts();
    assert!(counts.identity_holds());
    assert_eq!((counts.buffered_pkts, scene.dropped(DropReason::BufferDiscarded)), (0, 4));
}

#[test]
fn end_marker_leaves_through_the_tunnel_that_was_named() {
    for addr in [GNB, GNB_V6] {
        let mut scene = PipelineFixture::new();
        let tunnel = GtpuTunnel { teid: Teid(0x0102_0304), addr: ip(addr) };
        scene.commands.push(end_marker(tunnel, 0)).unwrap();
        scene.step();
        let sent = scene.sent(N3);
        assert_eq!(sent.len(), 1);
        let parsed = adit_wire::parse_frame(&sent[0]).unwrap();
        assert_eq!(parsed.dst, GNB_MAC);
        let len = sent[0].len();
        assert_eq!(sent[0][len - 8..], [0x30, 254, 0, 0, 1, 2, 3, 4]);
        assert_eq!(sent[0][len - 16..len - 10], [8, 0x68, 8, 0x68, 0, 16]);
        assert_eq!(scene.counts().originated_pkts, 1);
    }
    let mut scene = PipelineFixture::new();
    let tunnel = GtpuTunnel { teid: Teid(1), addr: ip("203.0.113.1") };
    scene.commands.push(end_marker(tunnel, 0)).unwrap();
    scene.step();
    assert_eq!(scene.counts().originated_lost_pkts, 1, "no route on N3");
}

fn end_marker(tunnel: GtpuTunnel, change: u64) -> WorkerCommand {
    WorkerCommand::SendEndMarker {
        tunnel,
        interfaces: InterfaceSet::ALL,
        qfi: None,
        session: SESSION,
        change: DeltaId(change),
    }
}

#[test]
fn end_markers_of_two_flows_leave_one_tunnel_each_with_its_flow() {
    const GTPU: usize = 14 + 20 + 8;
    let mut scene = PipelineFixture::new();
    let (tunnel, session, change) = (old_tunnel(), SESSION, DeltaId(0));
    for qfi in [Qfi::new(9), Qfi::new(5)] {
        let interfaces = InterfaceSet::ALL;
        let command = WorkerCommand::SendEndMarker { tunnel, interfaces, qfi, session, change };
        scene.commands.push(command).unwrap();
    }
    scene.step();
    let expected = |qfi: u8| {
        let message = adit_wire::gtpu::GtpuMessageType::END_MARKER;
        PacketBuilder::ethernet(GNB_MAC, N3_MAC)
            .ipv4(N3_ADDR, GNB)
            .dont_fragment()
            .gtpu_message(message, GNB_TEID)
            .psc_dl(qfi, false)
            .build()[GTPU..]
            .to_vec()
    };
    let sent: Vec<_> = scene.sent(N3).iter().map(|frame| frame[GTPU..].to_vec()).collect();
    assert_eq!(sent, [expected(9), expected(5)]);
    assert_eq!(scene.counts().originated_pkts, 2);
}

/// The tunnel that the downlink packets of [`rules`] take.
fn old_tunnel() -> GtpuTunnel {
    GtpuTunnel { teid: Teid(GNB_TEID), addr: ip(GNB) }
}

#[test]
fn end_marker_leaves_between_the_old_path_and_the_new_one() {
    const END_MARKER: u8 = 254;
    let mut scene = PipelineFixture::new();
    scene.step();
    // The command is there before the change is published: packets still take the old path.
    let change = scene.deltas + 1;
    scene.commands.push(end_marker(old_tunnel(), change)).unwrap();
    scene.io.inject(N6, &downlink().build());
    scene.step();
    let mut moved = rules();
    moved.fars[1].outer_header_creation = Some(tunnel(0x77, GNB));
    scene.install(moved);
    scene.io.inject(N6, &downlink().build());
    scene.step();
    let seen: Vec<_> =
        scene.sent(N3).iter().map(|frame| (frame[14 + 20 + 8 + 1], teid_of(frame))).collect();
    assert_eq!(seen, [(255, GNB_TEID), (END_MARKER, GNB_TEID), (255, 0x77)]);
}

#[test]
fn end_marker_goes_before_packets_that_waited_for_the_new_path() {
    let mut scene = holding(ApplyAction::BUFF, 2);
    let change = scene.deltas + 1;
    scene.commands.push(end_marker(old_tunnel(), change)).unwrap();
    let mut moved = rules();
    moved.fars[1].outer_header_creation = Some(tunnel(0x77, GNB));
    scene.install(moved);
    scene.step();
    let teids: Vec<_> = scene.sent(N3).iter().map(|frame| teid_of(frame)).collect();
    assert_eq!(teids, [GNB_TEID, 0x77, 0x77]);
}
