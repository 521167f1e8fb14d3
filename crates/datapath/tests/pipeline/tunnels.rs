//! Outer headers: N9 in both directions, PDU Session Containers, UDP and IP tunnels on N6.

use adit_rules::{
    ApplyAction, DestinationInterface, DropReason, FarEntry, HeaderCreation, HeaderRemoval,
    KeyChange, PdrEntry, RuleDelta, SessionKey, SessionRules, SourceInterface, TunnelSide,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{Direction, FarId, PdrId, Precedence, Qfi, Teid};

use crate::fixture::*;

/// TEID of ours that the anchor sends to.
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

/// The usual session, and a tunnel for indirect data forwarding from one part of the RAN to another.
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
    // Uplink data that the source did not deliver are forwarded, too.
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
