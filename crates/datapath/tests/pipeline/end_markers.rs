//! End Markers: those of others are passed on behind the packets of their tunnel, or consumed at
//! its end; our own ones wait behind the packets of theirs.

use adit_rules::{
    ApplyAction, DeltaId, DropReason, FarEntry, GtpuTunnel, HeaderRemoval, KeyChange, OuterTos,
    PdrEntry, PuntReason, RuleDelta, SessionKey, SessionRules, SourceInterface, TunnelSide,
    WorkerCommand, WorkerEvent,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{Direction, FarId, InterfaceSet, Nanos, PdrId, Teid};
use adit_wire::gtpu::GtpuMessageType;

use crate::fixture::*;

/// TEID of ours of the tunnel that comes from `source`.
const NEAR_TEID: u32 = 0x101;

/// The usual session, and a tunnel from `source` whose packets leave by the downlink FAR.
fn relaying(source: SourceInterface) -> SessionRules {
    let mut rules = rules();
    let relayed = PdrEntry {
        id: PdrId(3),
        source,
        teid: Some(Teid(NEAR_TEID)),
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIp),
        ..rules.downlink[0].clone()
    };
    rules.downlink.push(relayed);
    let side = TunnelSide { source, direction: Direction::Downlink };
    rules.tunnel_sides = vec![(Teid(NEAR_TEID), side)];
    rules
}

fn scene(rules: SessionRules) -> PipelineFixture {
    install(PipelineFixture::with(rules.clone()), rules)
}

fn install(mut scene: PipelineFixture, rules: SessionRules) -> PipelineFixture {
    let keys = vec![KeyChange::Add(SessionKey::Teid(Teid(NEAR_TEID)))];
    let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(rules)) };
    scene.deltas = 1000;
    scene.publisher.apply(adit_rules::DeltaId(scene.deltas), delta);
    scene.step();
    scene
}

fn arriving(teid: u32) -> PacketBuilder {
    let kind = GtpuMessageType::END_MARKER;
    PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu_message(kind, teid)
}

fn data() -> Vec<u8> {
    PacketBuilder::ethernet(N3_MAC, GNB_MAC)
        .ipv4(GNB, N3_ADDR)
        .gtpu(NEAR_TEID)
        .ipv4(SERVER, UE)
        .udp(53, 4000)
        .build()
}

/// GTP-U message types and TEIDs of frames that left over IPv4.
fn messages(frames: &[Vec<u8>]) -> Vec<(u8, u32)> {
    let teid = |at: &[u8]| u32::from_be_bytes(at[4..8].try_into().unwrap());
    frames.iter().map(|frame| &frame[14 + 20 + 8..]).map(|at| (at[1], teid(at))).collect()
}

const G_PDU: u8 = 255;
const END_MARKER: u8 = 254;

#[test]
fn end_marker_of_an_intermediate_upf_and_of_forwarding_goes_on_behind_the_last_packet() {
    for source in [SourceInterface::Core, SourceInterface::Access, SourceInterface::CpFunction] {
        let mut scene = scene(relaying(source));
        scene.io.inject(N3, &data());
        scene.io.inject(N3, &data());
        scene.io.inject(N3, &arriving(NEAR_TEID).build());
        scene.step();
        let sent = messages(&scene.sent(N3));
        let expected = [(G_PDU, GNB_TEID), (G_PDU, GNB_TEID), (END_MARKER, GNB_TEID)];
        assert_eq!(sent, expected, "{source:?}");
        assert_eq!(scene.punted(PuntReason::GtpuEndMarker), 0);
        assert_eq!(scene.counts().originated_pkts, 0, "it is the received packet that leaves");
    }
}

#[test]
fn end_marker_that_goes_on_has_known_octets_over_either_family() {
    let mut rules = relaying(SourceInterface::Core);
    rules.fars[1].outer_header_creation = Some(tunnel(0x0102_0304, GNB_V6));
    rules.fars[1].outer_tos = OuterTos::default().with_dscp(0xb8);
    let mut scene = scene(rules);
    let sent = scene.pass(N3, &arriving(NEAR_TEID).build(), N3);
    let outer = PacketBuilder::ethernet(GNB_MAC, N3_MAC).ipv6(N3_V6, GNB_V6).tos(0xb8);
    let expected = outer.udp(2152, 2152).payload(&[0x30, 254, 0, 0, 1, 2, 3, 4]).build();
    assert_eq!(sent, [expected]);
}

#[test]
fn end_marker_waits_behind_packets_for_an_unresolved_station() {
    let rules = relaying(SourceInterface::Core);
    let mut scene = install(PipelineFixture::unresolved(rules.clone()), rules);
    scene.io.inject(N3, &data());
    scene.io.inject(N3, &arriving(NEAR_TEID).build());
    scene.step();
    assert_eq!(scene.counts().buffered_pkts, 2);
    scene.resolve(IF_N3, GNB, GNB_MAC);
    scene.sent(N3);
    scene.step();
    assert_eq!(messages(&scene.sent(N3)), [(G_PDU, GNB_TEID), (END_MARKER, GNB_TEID)]);
}

/// A session whose gNB is unresolved, with `count` packets for it, right after it moved to another
/// gNB: the End Marker of the previous tunnel is due.
fn moved_from_an_unresolved_gnb(count: usize) -> PipelineFixture {
    let mut scene = PipelineFixture::unresolved(rules());
    for _ in 0..count {
        scene.io.inject(N6, &downlink().build());
    }
    scene.step();
    let command = WorkerCommand::SendEndMarker {
        tunnel: GtpuTunnel { teid: Teid(GNB_TEID), addr: ip(GNB) },
        interfaces: InterfaceSet::ALL,
        qfi: None,
        session: SESSION,
        change: DeltaId(scene.deltas + 1),
    };
    scene.commands.push(command).unwrap();
    let mut moved = rules();
    moved.fars[1].outer_header_creation = Some(tunnel(0x77, "192.168.10.9"));
    scene.install(moved);
    let counts = scene.counts();
    assert_eq!(counts.buffered_pkts, count as u64, "it is no packet that arrived");
    assert_eq!((counts.originated_pkts, counts.originated_lost_pkts), (0, 0));
    scene
}

#[test]
fn own_end_marker_waits_for_an_unresolved_gnb_behind_the_packets_of_its_tunnel() {
    for count in [0, 2] {
        let mut scene = moved_from_an_unresolved_gnb(count);
        let is_request = |event: &WorkerEvent| matches!(event, WorkerEvent::NeighborUnresolved { addr, .. } if *addr == ip(GNB));
        assert_eq!(scene.take_events().iter().filter(|event| is_request(event)).count(), 1);
        scene.resolve(IF_N3, GNB, GNB_MAC);
        scene.step();
        let mut expected = vec![(G_PDU, GNB_TEID); count];
        expected.push((END_MARKER, GNB_TEID));
        assert_eq!(messages(&scene.sent(N3)), expected);
        let counts = scene.counts();
        assert_eq!((counts.originated_pkts, counts.originated_lost_pkts), (1, 0));
        assert_eq!(counts.buffered_pkts, 0);
    }
}

#[test]
fn own_end_marker_for_a_gnb_that_never_answers_is_lost_with_the_packets() {
    for count in [0, 2] {
        let mut scene = moved_from_an_unresolved_gnb(count);
        scene.now += Nanos::from_secs(3);
        scene.step();
        let counts = scene.counts();
        assert_eq!((counts.originated_pkts, counts.originated_lost_pkts), (0, 1));
        assert_eq!(scene.dropped(DropReason::NeighborUnresolved), count as u64);
        assert_eq!(scene.sent(N3).len(), 0);
    }
}

#[test]
fn end_marker_goes_behind_packets_that_their_far_buffered() {
    let mut buffering = relaying(SourceInterface::Core);
    buffering.fars[1].action = ApplyAction::BUFF;
    let mut scene = scene(buffering);
    assert_eq!(scene.pass(N3, &data(), N3).len(), 0);
    scene.deltas += 1;
    let rules = Some(Box::new(relaying(SourceInterface::Core)));
    let delta = RuleDelta { session: SESSION, keys: Vec::new(), rules };
    scene.publisher.apply(adit_rules::DeltaId(scene.deltas), delta);
    scene.io.inject(N3, &arriving(NEAR_TEID).build());
    scene.step();
    assert_eq!(messages(&scene.sent(N3)), [(G_PDU, GNB_TEID), (END_MARKER, GNB_TEID)]);
}

#[test]
fn end_marker_goes_once_into_each_tunnel_that_its_tunnel_leads_to() {
    let mut rules = relaying(SourceInterface::Core);
    let far = |id: u32, teid| FarEntry {
        id: FarId(id),
        outer_header_creation: Some(tunnel(teid, GNB)),
        ..rules.fars[1].clone()
    };
    // One FAR for each of three flows, two of which share a tunnel.
    let fars = [far(3, GNB_TEID), far(4, 0x77)];
    rules.fars.extend(fars);
    for at in [2, 3] {
        let flow = PdrEntry { id: PdrId(10 + at), far: at, ..rules.downlink[1].clone() };
        rules.downlink.push(flow);
    }
    let mut scene = scene(rules);
    let sent = scene.pass(N3, &arriving(NEAR_TEID).build(), N3);
    assert_eq!(messages(&sent), [(END_MARKER, GNB_TEID), (END_MARKER, 0x77)]);
    let counts = scene.counts();
    assert_eq!((counts.originated_pkts, counts.originated_lost_pkts), (1, 0));
}

#[test]
fn end_marker_is_consumed_where_its_tunnel_ends() {
    // The tunnel from the RAN leads to a data network or, as uplink, to an anchor.
    for onward in [None, Some(tunnel(0x999, GNB))] {
        let mut rules = relaying(SourceInterface::Core);
        rules.fars[0].outer_header_creation = onward;
        let mut scene = scene(rules);
        assert_eq!(scene.pass(N3, &arriving(TEID).build(), N3).len(), 0);
        assert_eq!(scene.punted(PuntReason::GtpuEndMarker), 1);
    }
    for action in [ApplyAction::DROP, ApplyAction::BUFF] {
        let mut rules = relaying(SourceInterface::Core);
        rules.fars[1].action = action;
        let mut scene = scene(rules);
        assert_eq!(scene.pass(N3, &arriving(NEAR_TEID).build(), N3).len(), 0);
        assert_eq!(scene.punted(PuntReason::GtpuEndMarker), 1, "{action:?}");
    }
}

#[test]
fn end_marker_without_a_way_out_is_dropped() {
    let mut rules = relaying(SourceInterface::Core);
    rules.fars[1].outer_header_creation = Some(tunnel(0x77, "203.0.113.9"));
    scene(rules).assert_drops(N3, &arriving(NEAR_TEID).build(), DropReason::RouteUnknown);
}
