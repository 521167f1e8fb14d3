//! Outer headers: N9 in both directions, PDU Session Containers, UDP and IP tunnels on N6.

use adit_rules::{
    ApplyAction, DestinationInterface, DropReason, FarEntry, HeaderCreation, HeaderRemoval,
    KeyChange, OuterTos, PdrEntry, RuleDelta, SessionKey, SessionRules, SourceInterface,
    TunnelSide,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{Direction, FarId, PdrId, Precedence, Qfi, Teid};

use crate::fixture::*;

/// TEID of ours to which the anchor sends.
const N9_TEID: u32 = 0x101;

const N9_SIDE: TunnelSide =
    TunnelSide { source: SourceInterface::Core, direction: Direction::Downlink };

/// An intermediate UPF between gNB and an anchor, which has the address of the gNB here.
fn intermediate() -> SessionRules {
    let mut rules = rules();
    rules.fars[0].outer_header_creation = Some(tunnel(0x999, GNB));
    rules.fars[0].destination = DestinationInterface::Core;
    let downlink = &mut rules.downlink[0];
    downlink.source = SourceInterface::Core;
    downlink.teid = Some(Teid(N9_TEID));
    downlink.outer_header_removal = Some(HeaderRemoval::GtpuUdpIp);
    downlink.qers.clear();
    rules.tunnel_sides = vec![(Teid(N9_TEID), N9_SIDE)];
    rules
}

fn scene(rules: SessionRules) -> PipelineFixture {
    let mut scene = PipelineFixture::with(rules.clone());
    let keys = vec![KeyChange::Add(SessionKey::Teid(Teid(N9_TEID)))];
    let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(rules)) };
    scene.publisher.apply(adit_rules::DeltaId(1000), delta);
    scene
}

/// A frame from the anchor up to the GTP-U header.
fn from_anchor() -> PacketBuilder {
    PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(N9_TEID)
}

fn to_gnb(teid: u32) -> PacketBuilder {
    PacketBuilder::ethernet(GNB_MAC, N3_MAC).ipv4(N3_ADDR, GNB).dont_fragment().gtpu(teid)
}

#[test]
fn n9_downlink_is_forwarded_with_its_container_and_counted_downlink() {
    let mut scene = scene(intermediate());
    let frame = from_anchor().psc_dl(5, true).ipv4(SERVER, UE).udp(53, 4000).build();
    let sent = scene.pass(N3, &frame, N3);
    let expected = to_gnb(GNB_TEID).psc_dl(5, true).ipv4(SERVER, UE).ttl(63).udp(53, 4000).build();
    assert_eq!(sent, [expected]);
    let traffic = scene.publisher.session_traffic(SESSION);
    assert_eq!((traffic.dl_pkts, traffic.dl_bytes, traffic.ul_pkts), (1, 28, 0));
}

#[test]
fn n9_uplink_keeps_the_flow_in_an_uplink_container() {
    let mut scene = scene(intermediate());
    let sent = scene.pass(N3, &uplink().build(), N3);
    let inner = |builder: PacketBuilder| {
        builder.ipv4(UE, SERVER).ttl(63).udp(4000, 53).payload(b"question").build()
    };
    assert_eq!(sent, [inner(to_gnb(0x999).psc_ul(9))]);
    assert_eq!(scene.publisher.session_traffic(SESSION).ul_pkts, 1);
}

#[test]
fn n9_container_to_be_deleted_is_not_carried_on() {
    let mut rules = intermediate();
    rules.downlink[0].container_deletion = true;
    let mut scene = scene(rules);
    let frame = from_anchor().psc_dl(5, true).ipv4(SERVER, UE).udp(53, 4000).build();
    let expected = to_gnb(GNB_TEID).ipv4(SERVER, UE).ttl(63).udp(53, 4000).build();
    assert_eq!(scene.pass(N3, &frame, N3), [expected]);
}

#[test]
fn n9_downlink_to_a_foreign_address_is_dropped() {
    let mut scene = scene(intermediate());
    let frame = from_anchor().ipv4(SERVER, "10.45.0.9").udp(53, 4000).build();
    scene.assert_drops(N3, &frame, DropReason::UeUnknown);
}

#[test]
fn n9_tunnel_does_not_reach_the_rules_of_the_ran_side() {
    let mut scene = scene(intermediate());
    let frame = from_anchor().psc_ul(9).ipv4(UE, SERVER).udp(4000, 53).build();
    scene.assert_drops(N3, &frame, DropReason::UeUnknown);
    // Plain IP from a data network does not match a PDR with a tunnel.
    scene.assert_drops(N6, &downlink().build(), DropReason::PdrUnmatched);
}

/// As [`scene`], with packets on the fast path.
fn fast_scene(rules: SessionRules) -> PipelineFixture {
    let mut scene = PipelineFixture::usual(rules.clone());
    add_n9_key(&mut scene, rules);
    scene
}

/// Publishes rules again, with the key of the tunnel from the anchor.
fn add_n9_key(scene: &mut PipelineFixture, rules: SessionRules) {
    let keys = vec![KeyChange::Add(SessionKey::Teid(Teid(N9_TEID)))];
    let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(rules)) };
    scene.publisher.apply(adit_rules::DeltaId(1000), delta);
    scene.step();
    while scene.publisher.poll_observed().is_some() {}
}

/// A packet of the fast path, and what makes the stages process the same one.
const UNUSUAL: [bool; 2] = [false, true];

/// Sends a frame over the fast path, then with the spare bit of GTP-U, which only the stages
/// accept. Returns the frames that left; they are the same.
#[track_caller]
fn pass_both(scene: &mut PipelineFixture, frame: &[u8]) -> Vec<Vec<u8>> {
    const GTPU_FLAGS_AT: usize = 14 + 20 + 8;
    let [fast, slow] = UNUSUAL.map(|is_unusual| {
        let before = scene.counts().express_pkts;
        let mut frame = frame.to_vec();
        frame[GTPU_FLAGS_AT] |= if is_unusual { 0x08 } else { 0 };
        let sent = scene.pass(N3, &frame, N3);
        assert_eq!(scene.counts().express_pkts - before, u64::from(!is_unusual));
        sent
    });
    assert_eq!(fast, slow);
    fast
}

#[test]
fn packets_between_tunnels_take_the_fast_path_in_both_directions_and_leave_as_from_the_stages() {
    let v6 = ("2001:db8:ffff::8", UE_V6);
    for (qers, deletes) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut rules = intermediate();
        if qers {
            rules.downlink[0].qers.push(0);
            rules.qers[0].rqi = true;
        } else {
            rules.uplink[0].qers.clear();
        }
        rules.downlink[0].container_deletion = deletes;
        rules.uplink[0].container_deletion = deletes;
        rules.fars[0].outer_tos = OuterTos::default().with_dscp(0xb8);
        let mut scene = fast_scene(rules);
        let containers: [fn(PacketBuilder) -> PacketBuilder; 4] = [
            |tunnel| tunnel,
            |tunnel| tunnel.psc_ul(9),
            |tunnel| tunnel.psc_dl(5, true),
            |tunnel| tunnel.psc_dl(63, false),
        ];
        for container in containers {
            let up = || {
                container(PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(TEID))
            };
            let down = || container(from_anchor());
            for frame in [
                up().ipv4(UE, SERVER).udp(4000, 53).payload(b"question").build(),
                up().ipv6(v6.1, v6.0).udp(4000, 53).build(),
                down().ipv4(SERVER, UE).udp(53, 4000).payload(b"answer").build(),
                down().ipv6(v6.0, v6.1).udp(53, 4000).build(),
            ] {
                assert_eq!(pass_both(&mut scene, &frame).len(), 1);
            }
        }
        let traffic = scene.publisher.session_traffic(SESSION);
        assert_eq!((traffic.ul_pkts, traffic.dl_pkts), (16, 16));
        let counts = scene.counts();
        assert_eq!((counts.transmitted_uplink_pkts, counts.transmitted_downlink_pkts), (16, 16));
    }
}

#[test]
fn burst_of_both_directions_between_tunnels_keeps_its_order_and_counts_each_direction() {
    let mut scene = fast_scene(intermediate());
    let down = |ident: u16| from_anchor().psc_dl(5, true).ipv4(SERVER, UE).udp(53, ident).build();
    for ident in 0..3 {
        scene.io.inject(N3, &uplink().build());
        scene.io.inject(N3, &down(ident));
    }
    scene.step();
    let sent = scene.sent(N3);
    let expected = |ident: u16| {
        to_gnb(GNB_TEID).psc_dl(5, true).ipv4(SERVER, UE).ttl(63).udp(53, ident).build()
    };
    let downlink: Vec<_> =
        sent.iter().filter(|frame| frame[46..50] == GNB_TEID.to_be_bytes()).collect();
    assert_eq!(downlink, [&expected(0), &expected(1), &expected(2)]);
    let counts = scene.counts();
    assert_eq!((sent.len(), counts.express_pkts), (6, 6));
    assert_eq!((counts.transmitted_uplink_pkts, counts.transmitted_downlink_pkts), (3, 3));
}

#[test]
fn packets_of_a_tunnel_follow_the_first_one_that_takes_the_stages() {
    let mut scene = fast_scene(intermediate());
    let down = |dst: &str| from_anchor().psc_dl(5, true).ipv4(SERVER, dst).udp(53, 4000).build();
    for dst in [UE, "10.45.0.9", UE] {
        scene.io.inject(N3, &down(dst));
    }
    scene.io.inject(N3, &uplink().build());
    scene.step();
    assert_eq!((scene.sent(N3).len(), scene.dropped(DropReason::UeUnknown)), (3, 1));
    assert_eq!(scene.counts().express_pkts, 1, "only the one before it");
}

#[test]
fn tunnel_that_changes_its_side_takes_the_fast_path_on_either_side() {
    let mut scene = fast_scene(intermediate());
    let from = |src, dst| from_anchor().psc_dl(5, true).ipv4(src, dst).udp(53, 4000).build();
    scene.pass(N3, &from(SERVER, UE), N3);
    assert_eq!(scene.counts().express_pkts, 1);
    let mut turned = intermediate();
    turned.tunnel_sides.clear();
    turned.downlink.clear();
    turned.uplink[0].teid = Some(Teid(N9_TEID));
    add_n9_key(&mut scene, turned);
    assert_eq!(scene.pass(N3, &from(UE, SERVER), N3).len(), 1);
    assert_eq!(scene.counts().express_pkts, 2);
    add_n9_key(&mut scene, intermediate());
    assert_eq!(scene.pass(N3, &from(SERVER, UE), N3).len(), 1);
    assert_eq!(scene.counts().express_pkts, 3);
    let delta = RuleDelta {
        session: SESSION,
        keys: vec![KeyChange::Remove(SessionKey::Teid(Teid(N9_TEID)))],
        rules: None,
    };
    scene.publisher.apply(adit_rules::DeltaId(1001), delta);
    scene.assert_drops(N3, &from(SERVER, UE), DropReason::TeidUnknown);
}

#[test]
fn session_with_a_tunnel_and_a_data_network_has_a_fast_rule_for_each() {
    let mut rules = intermediate();
    let plain = PdrEntry {
        id: PdrId(4),
        source: SourceInterface::SgiLanN6Lan,
        teid: None,
        outer_header_removal: None,
        ..rules.downlink[0].clone()
    };
    rules.downlink.push(plain);
    for _ in 0..2 {
        rules.downlink.reverse();
        let mut scene = fast_scene(rules.clone());
        let frame = from_anchor().psc_dl(5, true).ipv4(SERVER, UE).udp(53, 4000).build();
        assert_eq!(scene.pass(N3, &frame, N3).len(), 1);
        assert_eq!(scene.pass(N6, &downlink().build(), N3).len(), 1);
        assert_eq!(scene.counts().express_pkts, 2);
        let traffic = scene.publisher.session_traffic(SESSION);
        assert_eq!((traffic.dl_pkts, traffic.ul_pkts), (2, 0));
    }
}

#[test]
fn anchor_takes_packets_of_another_upf_and_for_it_on_the_fast_path() {
    // Seen from the anchor, an intermediate UPF is the RAN.
    let mut scene = PipelineFixture::usual(rules());
    assert_eq!(scene.pass(N3, &uplink().build(), N6).len(), 1);
    assert_eq!(scene.pass(N6, &downlink().build(), N3).len(), 1);
    assert_eq!(scene.counts().express_pkts, 2);
}

/// The usual session, and a tunnel for indirect data forwarding from one part of the RAN to
/// another.
fn forwarding() -> SessionRules {
    let mut rules = rules();
    let forwarded = PdrEntry {
        id: PdrId(3),
        precedence: Precedence(50),
        source: SourceInterface::Access,
        teid: Some(Teid(N9_TEID)),
        ue: Default::default(),
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIp),
        far: 2,
        ..rules.downlink[0].clone()
    };
    let to_target = FarEntry {
        id: FarId(3),
        outer_header_creation: Some(tunnel(0x999, GNB)),
        ..rules.fars[1].clone()
    };
    rules.downlink.insert(0, forwarded);
    rules.fars.push(to_target);
    let side = TunnelSide { source: SourceInterface::Access, direction: Direction::Downlink };
    rules.tunnel_sides = vec![(Teid(N9_TEID), side)];
    rules
}

#[test]
fn data_forwarded_from_ran_to_ran_are_downlink_and_keep_their_container() {
    let mut scene = scene(forwarding());
    let frame = from_anchor().psc_dl(5, true).ipv4(SERVER, UE).udp(53, 4000).build();
    let expected = to_gnb(0x999).psc_dl(5, true).ipv4(SERVER, UE).ttl(63).udp(53, 4000).build();
    assert_eq!(scene.pass(N3, &frame, N3), [expected]);
    // Without one, the QER of the flow marks them.
    let frame = from_anchor().ipv4(SERVER, UE).udp(53, 4000).build();
    let expected = to_gnb(0x999).psc_dl(9, false).ipv4(SERVER, UE).ttl(63).udp(53, 4000).build();
    assert_eq!(scene.pass(N3, &frame, N3), [expected]);
    let traffic = scene.publisher.session_traffic(SESSION);
    assert_eq!((traffic.ul_pkts, traffic.dl_pkts), (0, 2));
    // The other tunnel of the RAN is uplink as before.
    assert_eq!(scene.pass(N3, &uplink().build(), N6).len(), 1);
}

#[test]
fn data_forwarded_from_ran_to_ran_are_of_the_ue() {
    let mut scene = scene(forwarding());
    let foreign = from_anchor().ipv4(SERVER, "10.45.0.9").udp(53, 4000).build();
    scene.assert_drops(N3, &foreign, DropReason::UeUnknown);
    // Uplink data that the source did not deliver are also forwarded.
    let frame = from_anchor().ipv4(UE, SERVER).udp(4000, 53).build();
    assert_eq!(scene.pass(N3, &frame, N3).len(), 1);
    let spoofed = tunneled().ipv4(SERVER, UE).udp(53, 4000).build();
    scene.assert_drops(N3, &spoofed, DropReason::UeSourceSpoofed);
}

#[test]
fn tunneled_packet_that_its_far_drops_counts_so_without_outer_header_removal() {
    let mut rules = rules();
    rules.uplink[0].outer_header_removal = None;
    rules.fars[0].action = ApplyAction::DROP;
    let mut scene = PipelineFixture::with(rules.clone());
    scene.assert_drops(N3, &uplink().build(), DropReason::FarDrop);
    rules.fars[0].action = ApplyAction::FORW;
    scene.install(rules);
    scene.assert_drops(N3, &uplink().build(), DropReason::OuterHeaderMismatch);
}

#[test]
fn downlink_paging_policy_indicator_makes_known_octets() {
    let mut rules = rules();
    rules.qers[0].qfi = Qfi::new(9);
    rules.qers[0].rqi = true;
    rules.qers[0].ppi = Some(5);
    let mut scene = PipelineFixture::with(rules);
    let sent = scene.pass(N6, &downlink().build(), N3);
    // GTP-U with extension, then a container of two units: PPP, RQI and QFI 9, PPI 5.
    let expected = [0, 0, 0, 0x85, 2, 0x00, 0xc9, 5 << 5, 0, 0, 0, 0, 0x45];
    assert_eq!(sent[0][14 + 20 + 8 + 8..][..expected.len()], expected);
}

/// Spec: TS 29.244 §8.2.66; TS 29.281 §5.2.2.3.
#[test]
fn flow_level_marking_marks_downlink_packets_and_their_tunnel() {
    let mut rules = rules();
    rules.qers[0].flow_tos = Some((0xb9, 0xff));
    rules.qers[0].service_class = Some((5, 0));
    let mut scene = PipelineFixture::with(rules.clone());
    let marked = |frame: &[u8]| frame[14 + 20 + 8..].to_vec();
    let sent = scene.pass(N6, &from_gateway().ipv4(SERVER, UE).udp(53, 4000).build(), N3);
    let gtpu = marked(&sent[0]);
    assert_eq!(gtpu[8..20], [0, 0, 0, 0x85, 1, 0, 9, 0x20, 1, 5, 0, 0], "behind the container");
    assert_eq!((gtpu[20], gtpu[21]), (0x45, 0xb8), "the user's packet; its ECN field stays");
    rules.qers[0].qfi = None;
    scene.install(rules.clone());
    let sent = scene.pass(N6, &from_gateway().ipv4(SERVER, UE).udp(53, 4000).build(), N3);
    assert_eq!(marked(&sent[0])[8..16], [0, 0, 0, 0x20, 1, 5, 0, 0], "without a container");
    let sent = scene.pass(N3, &uplink().build(), N6);
    assert_eq!(sent[0][14 + 1], 0, "uplink packets are not marked");
}

#[test]
fn uplink_udp_tunnel_has_known_octets() {
    let mut rules = rules();
    let addr = ip(SERVER);
    rules.fars[0].outer_header_creation = Some(HeaderCreation::Udp { addr, port: 5000 });
    let mut scene = PipelineFixture::with(rules);
    let sent = scene.pass(N3, &uplink().build(), N6);
    let expected = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)
        .ipv4(N6_ADDR, SERVER)
        .dont_fragment()
        .udp(5000, 5000)
        .ipv4(UE, SERVER)
        .ttl(63)
        .udp(4000, 53)
        .payload(b"question")
        .build();
    assert_eq!(sent, [expected]);
}

#[test]
fn uplink_ip_tunnel_over_either_family_names_what_it_carries() {
    let mut rules = rules();
    let far_end = ip(SERVER_V6);
    rules.fars[0].outer_header_creation = Some(HeaderCreation::Ip { addr: far_end });
    let mut scene = PipelineFixture::with(rules);
    let outer = || PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC).ipv6(N6_V6, SERVER_V6);
    let sent = scene.pass(N3, &tunneled().ipv4(UE, SERVER).udp(4000, 53).build(), N6);
    assert_eq!(sent, [outer().ipv4(UE, SERVER).ttl(63).udp(4000, 53).build()]);
    assert_eq!(sent[0][14 + 6], 4, "IPv4 in IPv6");
    let sent = scene.pass(N3, &tunneled().ipv6(UE_V6, SERVER_V6).udp(4000, 53).build(), N6);
    assert_eq!(sent, [outer().ipv6(UE_V6, SERVER_V6).ttl(63).udp(4000, 53).build()]);
    assert_eq!(sent[0][14 + 6], 41, "IPv6 in IPv6");
}

#[test]
fn downlink_udp_and_ip_headers_are_removed() {
    let inner = |builder: PacketBuilder| builder.ipv4(SERVER, "10.99.0.1").udp(53, 4000);
    let to_ue = || from_gateway().ipv4(SERVER, UE);
    for (removal, outer) in [
        (HeaderRemoval::UdpIpv4, to_ue().udp(5000, 5000)),
        (HeaderRemoval::UdpIpv4, to_ue().udp(5000, 5000).no_checksum()),
        (HeaderRemoval::Ipv4, to_ue()),
        (HeaderRemoval::UdpIpv6, from_gateway().ipv6(SERVER_V6, UE_V6).udp(5000, 5000)),
        (HeaderRemoval::Ipv6, from_gateway().ipv6(SERVER_V6, UE_V6)),
    ] {
        let mut rules = rules();
        rules.downlink[0].outer_header_removal = Some(removal);
        let mut scene = PipelineFixture::with(rules);
        let sent = scene.pass(N6, &inner(outer).build(), N3);
        let kept = to_gnb(GNB_TEID).psc_dl(9, false).ipv4(SERVER, "10.99.0.1").ttl(63);
        assert_eq!(sent, [kept.udp(53, 4000).build()], "{removal:?}");
        let traffic = scene.publisher.session_traffic(SESSION);
        assert_eq!(traffic.dl_bytes, 28, "without the outer header");
    }
}

#[test]
fn downlink_without_the_header_to_remove_is_dropped() {
    let mut rules = rules();
    rules.downlink[0].outer_header_removal = Some(HeaderRemoval::UdpIpv4);
    let mut scene = PipelineFixture::with(rules);
    let to_ue = || from_gateway().ipv4(SERVER, UE);
    let icmp = to_ue().icmp_echo(1, 1).build();
    scene.assert_drops(N6, &icmp, DropReason::OuterHeaderMismatch);
    let v6 = from_gateway().ipv6(SERVER_V6, UE_V6).udp(1, 1).build();
    scene.assert_drops(N6, &v6, DropReason::OuterHeaderMismatch);
    let no_ip = to_ue().udp(5000, 5000).payload(b"text").build();
    scene.assert_drops(N6, &no_ip, DropReason::InnerMalformed);
    let wrong = to_ue().udp(5000, 5000).overwrite(6, &[1, 2]).build();
    scene.assert_drops(N6, &wrong, DropReason::UdpChecksumWrong);
}

#[test]
fn gtpu_over_ipv6_with_a_wrong_udp_checksum_is_dropped() {
    let mut scene = PipelineFixture::new();
    let outer = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv6(GNB_V6, N3_V6).udp(2152, 2152);
    let inner = |builder: PacketBuilder| {
        builder.gtpu(TEID).ipv4(UE, SERVER).udp(4000, 53).payload(b"question").build()
    };
    assert_eq!(scene.pass(N3, &inner(outer()), N6).len(), 1);
    assert_eq!(scene.pass(N3, &inner(outer().no_checksum()), N6).len(), 1);
    let wrong = inner(outer().overwrite(6, &[1, 2]));
    scene.assert_drops(N3, &wrong, DropReason::UdpChecksumWrong);
}
