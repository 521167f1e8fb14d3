//! From tunnels to data networks.

use adit_rules::sdf::{AddrMatch, PortRange};
use adit_rules::{
    ApplyAction, DestinationInterface, DropReason, Gate, HeaderRemoval, PacketFilter,
    SourceInterface, UeAddresses,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{FarId, InterfaceId, Precedence, Qfi};

use crate::fixture::*;
use crate::local_switching::{OTHER_TEID, OTHER_UE};

#[test]
fn uplink_ipv4_is_stripped_decremented_and_sent_to_the_gateway() {
    let mut scene = PipelineFixture::new();
    let sent = scene.pass(N3, &uplink().build(), N6);
    let expected = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)
        .ipv4(UE, SERVER)
        .ttl(63)
        .udp(4000, 53)
        .payload(b"question")
        .build();
    assert_eq!(sent, [expected]);
    let counts = scene.counts();
    assert_eq!((counts.transmitted_uplink_pkts, counts.transmitted_downlink_pkts), (1, 0));
    assert_eq!(counts.interfaces[1].tx_pkts, 1);
    assert_eq!(counts.interfaces[0].rx_pkts, 1);
    let traffic = scene.publisher.session_traffic(SESSION);
    assert_eq!((traffic.ul_pkts, traffic.ul_bytes, traffic.dl_pkts), (1, 36, 0));
}

#[test]
fn uplink_ipv6_over_ipv6_tunnel_is_forwarded() {
    let mut scene = PipelineFixture::new();
    let inner = |builder: PacketBuilder, ttl| {
        builder.ipv6(UE_V6, SERVER_V6).ttl(ttl).udp(1, 2).payload(b"six").build()
    };
    let outer = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv6(GNB_V6, N3_V6).gtpu(TEID).psc_ul(9);
    let sent = scene.pass(N3, &inner(outer, 64), N6);
    assert_eq!(sent, [inner(PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC), 63)]);
}

#[test]
fn uplink_without_container_with_options_and_sequence_is_forwarded() {
    let mut scene = PipelineFixture::new();
    let plain = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).options(&[1, 1, 1, 1]);
    let frame = plain.gtpu(TEID).sequence(5).ipv4(UE, SERVER).udp(1, 2).trailer(&[0; 9]).build();
    let sent = scene.pass(N3, &frame, N6);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].len(), 14 + 28, "padding and outer headers are gone");
}

#[test]
fn numbers_and_any_container_of_one_unit_take_the_fast_path() {
    let mut scene = PipelineFixture::new();
    let g_pdu = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(TEID);
    for outer in [g_pdu().sequence(5).psc_ul(9), g_pdu().psc_dl(9, true)] {
        let sent = scene.pass(N3, &outer.ipv4(UE, SERVER).udp(1, 2).build(), N6);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].len(), 14 + 28, "outer headers are gone");
    }
    assert_eq!(scene.counts().express_pkts, 2);
}

#[test]
fn frames_of_several_vlans_in_a_burst_take_the_fast_path() {
    let mut scene = PipelineFixture::new();
    let outer = |vlan, addr| {
        let link = PacketBuilder::ethernet(MIXED_MAC, GNB_MAC).vlan(vlan).ipv4(GNB, addr);
        link.gtpu(TEID).psc_ul(9).ipv4(UE, SERVER)
    };
    let untagged = PacketBuilder::ethernet(MIXED_MAC, GNB_MAC).ipv4(GNB, "192.168.40.1");
    let untagged = untagged.gtpu(TEID).psc_ul(9).ipv4(UE, SERVER);
    let packets = [
        outer(30, "192.168.30.1").udp(1, 2),
        untagged.udp(2, 2),
        // A VLAN without a link, and an address of another link.
        outer(31, "192.168.30.1").udp(3, 2),
        outer(30, "192.168.40.1").udp(4, 2),
        outer(30, "192.168.30.1").udp(5, 2),
    ];
    for packet in packets {
        scene.io.inject(MIXED, &packet.build());
    }
    scene.step();
    let ports: Vec<u8> = scene.sent(N6).iter().map(|frame| frame[14 + 20 + 1]).collect();
    assert_eq!(ports, [1, 2, 5]);
    let counts = scene.counts();
    // The stages count the packet to the address of another link for its own.
    let of = |interface: u8| counts.interfaces[usize::from(interface)].rx_pkts;
    assert_eq!((of(IF_N3_VLAN.0), of(4), of(5)), (3, 1, 0));
    assert_eq!((counts.express_pkts, scene.dropped(DropReason::VlanUnknown)), (3, 1));
}

#[test]
fn uplink_to_a_routed_prefix_leaves_with_its_vlan() {
    let mut scene = PipelineFixture::new();
    let sent = scene.pass(N3, &tunneled().ipv4(UE, "172.16.1.1").udp(1, 2).build(), N6);
    let expected = PacketBuilder::ethernet(VLAN_GATEWAY_MAC, N6_MAC)
        .vlan(100)
        .ipv4(UE, "172.16.1.1")
        .ttl(63)
        .udp(1, 2)
        .build();
    assert_eq!(sent, [expected]);
    assert_eq!(scene.counts().interfaces[2].tx_pkts, 1);
}

#[test]
fn uplink_from_tagged_and_shared_ports_is_forwarded() {
    let mut scene = PipelineFixture::new();
    let tagged = PacketBuilder::ethernet(MIXED_MAC, GNB_MAC).vlan(30).ipv4(GNB, "192.168.30.1");
    let frame = tagged.gtpu(TEID).ipv4(UE, SERVER).udp(1, 2).build();
    assert_eq!(scene.pass(MIXED, &frame, N6).len(), 1);
    let shared = PacketBuilder::ethernet(MIXED_MAC, GNB_MAC).ipv4(GNB, "192.168.40.1");
    let frame = shared.gtpu(TEID).ipv4(UE, SERVER).udp(1, 2).build();
    assert_eq!(scene.pass(MIXED, &frame, N6).len(), 1);
    // The same untagged port faces a data network: plain IP there is downlink.
    let plain = PacketBuilder::ethernet(MIXED_MAC, GATEWAY_MAC).ipv4(SERVER, UE).udp(1, 2);
    assert_eq!(scene.pass(MIXED, &plain.build(), N3).len(), 1);
}

#[test]
fn unusual_g_pdu_on_a_link_of_both_directions_keeps_its_place_among_usual_ones() {
    let mut of_any_ue = rules();
    of_any_ue.ue.clear();
    for pdr in &mut of_any_ue.uplink {
        (pdr.ue, pdr.qfis) = (UeAddresses::default(), Vec::new());
    }
    for rules in [rules(), of_any_ue] {
        let mut scene = PipelineFixture::on_one_link(rules);
        let g_pdu = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(TEID);
        // IPv4 options in the UE's packet are not usual.
        let packet = |outer: PacketBuilder, number: u16, ttl| {
            let ip = outer.ipv4(UE, SERVER).ttl(ttl);
            let ip = if number.is_multiple_of(2) { ip } else { ip.options(&[1, 1, 1, 1]) };
            ip.udp(number, 1).build()
        };
        for number in 0..6 {
            scene.io.inject(N3, &packet(g_pdu().psc_ul(9), number, 64));
        }
        scene.step();
        let left = |number| packet(PacketBuilder::ethernet(GATEWAY_MAC, N3_MAC), number, 63);
        assert_eq!(scene.sent(N3), (0..6).map(left).collect::<Vec<_>>());
        assert_eq!(scene.counts().express_pkts, 1, "those behind the first unusual one follow it");
    }
}

/// The frame with a priority tag.
fn with_priority_tag(mut frame: Vec<u8>) -> Vec<u8> {
    frame.splice(12..12, [0x81, 0, 5 << 5, 0]);
    frame
}

#[test]
fn priority_tag_or_outer_options_send_only_later_packets_of_the_session_to_the_stages() {
    let outer = |teid| {
        let link = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
        link.gtpu(teid).psc_ul(9)
    };
    let of_other = |number| outer(OTHER_TEID).ipv4(OTHER_UE, SERVER).udp(number, 1).build();
    let of_ue = |number| outer(TEID).ipv4(UE, SERVER).udp(number, 1).build();
    let optional = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    let optional = optional.options(&[1; 8]).gtpu(TEID).psc_ul(9).ipv4(UE, SERVER);
    for unusual in [with_priority_tag(of_ue(2)), optional.udp(2, 1).build()] {
        let mut scene = PipelineFixture::usual(rules()).with_other_ue();
        let frames = [of_ue(0), of_other(1), unusual, of_other(3), of_ue(4), of_other(5), of_ue(6)];
        for frame in &frames {
            scene.io.inject(N3, frame);
        }
        scene.step();
        let sent = scene.sent(N6);
        let ports = |of: &str| -> Vec<u8> {
            let of_ue = sent.iter().filter(|frame| frame[26..30] == v4(of).octets());
            of_ue.map(|frame| frame[14 + 20 + 1]).collect()
        };
        assert_eq!((ports(UE), ports(OTHER_UE)), (vec![0, 2, 4, 6], vec![1, 3, 5]));
        assert_eq!(scene.counts().express_pkts, 4, "one of the UE, and those of the other one");
    }
}

#[test]
fn packets_to_several_interfaces_of_a_port_count_for_each() {
    let mut scene = PipelineFixture::new();
    for dst in [SERVER, SERVER, "172.16.0.9", SERVER] {
        scene.io.inject(N3, &tunneled().ipv4(UE, dst).udp(1, 2).build());
    }
    scene.step();
    assert_eq!(scene.sent(N6).len(), 4);
    let counts = scene.counts();
    let of = |interface: InterfaceId| counts.interfaces[usize::from(interface.0)].tx_pkts;
    assert_eq!((of(IF_N6), of(IF_N6_VLAN)), (3, 1));
}

#[test]
fn uplink_to_another_ue_goes_to_the_data_network() {
    let mut scene = PipelineFixture::new();
    assert_eq!(scene.pass(N3, &tunneled().ipv4(UE, "10.45.0.99").udp(1, 2).build(), N6).len(), 1);
}

#[test]
fn uplink_to_an_address_of_ours_is_dropped_by_name() {
    let own_v4 = [N3_ADDR, N6_ADDR, N4_ADDR, "10.7.0.1", "192.168.30.1", "192.168.40.1"];
    let mut frames: Vec<Vec<u8>> =
        own_v4.iter().map(|own| tunneled().ipv4(UE, *own).udp(1, 8805).build()).collect();
    let own_v6 = [N3_V6, N6_V6, N4_V6];
    frames.extend(own_v6.map(|own| tunneled().ipv6(UE_V6, own).icmp_echo(1, 1).build()));
    // GTP-U in GTP-U: to the tunnels of others.
    frames.push(tunneled().ipv4(UE, N3_ADDR).gtpu(TEID).ipv4(UE, SERVER).udp(1, 2).build());
    let mut scene = PipelineFixture::new();
    for frame in &frames {
        scene.assert_drops(N3, frame, DropReason::UeToOwnAddress);
    }
    assert_eq!(scene.dropped(DropReason::UeToOwnAddress), 10);
    assert!(scene.sent(N6).is_empty() && scene.sent(N3).is_empty());
}

#[test]
fn usual_uplink_to_an_address_of_ours_is_dropped_by_name_among_others() {
    let mut scene = PipelineFixture::usual(rules());
    for (at, own) in [N3_ADDR, N6_ADDR, N4_ADDR].into_iter().enumerate() {
        // Packets that precede find the gateway that leads to everything else, and the packets of
        // the session that follow keep their order in the stages.
        scene.io.inject(N3, &uplink().build());
        scene.io.inject(N3, &tunneled().ipv4(UE, own).udp(1, 8805).build());
        scene.io.inject(N3, &uplink().build());
        scene.step();
        let counts = scene.counts();
        assert_eq!(counts.drops[DropReason::UeToOwnAddress.index()], at as u64 + 1, "{own}");
        assert_eq!(scene.sent(N6).len(), 2);
        assert_eq!(counts.express_pkts, at as u64 + 1);
    }
    let addr = N6_V6.parse().unwrap();
    scene.resolve(IF_N6, "2001:db8:6::254", GATEWAY_MAC);
    let beside = core::net::Ipv6Addr::from_bits(core::net::Ipv6Addr::to_bits(addr) | 1 << 70);
    let express = scene.counts().express_pkts;
    let v6 = |dst: core::net::Ipv6Addr| tunneled().ipv6(UE_V6, dst).udp(1, 2).build();
    assert_eq!(scene.pass(N3, &v6(beside), N6).len(), 1);
    for own in [N3_V6, N6_V6, N4_V6] {
        scene.assert_drops(N3, &v6(own.parse().unwrap()), DropReason::UeToOwnAddress);
    }
    assert_eq!(scene.counts().express_pkts, express + 1, "what is ours left the fast path");
}

#[test]
fn steered_uplink_to_an_address_of_ours_does_not_come_back_through_the_service_function() {
    let mut rules = rules();
    let next_hop = Some("10.6.0.254".parse().unwrap());
    rules.fars[0].steering = Some(Box::new(adit_rules::Steering { v4: next_hop, v6: None }));
    let mut scene = PipelineFixture::with(rules);
    assert_eq!(scene.pass(N3, &uplink().build(), N6).len(), 1);
    let own = tunneled().ipv4(UE, N4_ADDR).udp(1, 8805).build();
    scene.assert_drops(N3, &own, DropReason::UeToOwnAddress);
}

#[test]
fn uplink_of_unknown_teid_is_dropped() {
    let mut scene = PipelineFixture::new();
    let outer = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(0x101);
    scene.assert_drops(N3, &outer.ipv4(UE, SERVER).udp(1, 2).build(), DropReason::TeidUnknown);
}

#[test]
fn uplink_from_a_foreign_source_is_dropped_as_spoofed() {
    let mut scene = PipelineFixture::new();
    let v4 = tunneled().ipv4("10.45.0.3", SERVER).udp(1, 2).build();
    scene.assert_drops(N3, &v4, DropReason::UeSourceSpoofed);
    let v6 = tunneled().ipv6("2001:db8:46::2", SERVER_V6).udp(1, 2).build();
    scene.assert_drops(N3, &v6, DropReason::UeSourceSpoofed);
}

#[test]
fn uplink_that_no_pdr_matches_is_dropped() {
    let mut other_flow = rules();
    other_flow.uplink[0].qfis = vec![Qfi::new(5).unwrap()];
    let mut other_side = rules();
    other_side.uplink[0].source = SourceInterface::Core;
    let mut other_port = rules();
    let remote_ports = vec![PortRange { first: 80, last: 80 }];
    other_port.uplink[0].sdf = vec![PacketFilter { remote_ports, ..PacketFilter::ANY }].into();
    for rules in [other_flow, other_side, other_port] {
        PipelineFixture::with(rules).assert_drops(N3, &uplink().build(), DropReason::PdrUnmatched);
    }
}

#[test]
fn uplink_takes_the_pdr_of_lowest_precedence_that_matches() {
    let mut rules = rules();
    let mut dns = rules.uplink[0].clone();
    dns.precedence = Precedence(1);
    dns.sdf = vec![PacketFilter {
        protocol: Some(17),
        remote: AddrMatch::V4("8.8.8.0/24".parse().unwrap()),
        remote_ports: vec![PortRange { first: 53, last: 53 }],
        ..PacketFilter::ANY
    }]
    .into();
    let mut drop = rules.fars[0].clone();
    (drop.id, drop.action) = (FarId(3), ApplyAction::DROP);
    dns.far = 2;
    rules.fars.push(drop);
    rules.uplink.insert(0, dns);
    let mut scene = PipelineFixture::with(rules);
    scene.assert_drops(N3, &uplink().build(), DropReason::FarDrop);
    let http = tunneled().ipv4(UE, SERVER).tcp(4000, 80, 2).build();
    assert_eq!(scene.pass(N3, &http, N6).len(), 1);
    assert_eq!(scene.publisher.session_traffic(SESSION).ul_pkts, 1, "drops are not usage");
}

#[test]
fn uplink_with_one_closed_gate_is_dropped() {
    let mut rules = rules();
    let mut closed = rules.qers[0].clone();
    closed.gate_uplink = Gate::Closed;
    rules.qers.push(closed);
    rules.uplink[0].qers.push(1);
    let mut scene = PipelineFixture::with(rules);
    scene.assert_drops(N3, &uplink().build(), DropReason::GateClosed);
    assert_eq!(scene.pass(N6, &downlink().build(), N3).len(), 1, "downlink has its own gate");
}

#[test]
fn uplink_with_other_outer_header_than_removed_is_dropped() {
    for removal in [None, Some(HeaderRemoval::GtpuUdpIpv6), Some(HeaderRemoval::Ipv4)] {
        let mut rules = rules();
        rules.uplink[0].outer_header_removal = removal;
        PipelineFixture::with(rules).assert_drops(
            N3,
            &uplink().build(),
            DropReason::OuterHeaderMismatch,
        );
    }
}

#[test]
fn uplink_without_a_way_out_is_dropped() {
    let mut to_access = rules();
    to_access.fars[0].destination = DestinationInterface::Access;
    PipelineFixture::with(to_access).assert_drops(N3, &uplink().build(), DropReason::RouteUnknown);
    let broadcast = tunneled().ipv4(UE, "10.6.0.255").udp(1, 2).build();
    PipelineFixture::new().assert_drops(N3, &broadcast, DropReason::RouteUnknown);
}

#[test]
fn uplink_to_the_ran_network_does_not_leave_through_n3() {
    let mut scene = PipelineFixture::new();
    let sent = scene.pass(N3, &tunneled().ipv4(UE, GNB).udp(1, 2).build(), N6);
    assert_eq!(sent.len(), 1, "N6 routes alone decide");
    assert!(scene.sent(N3).is_empty());
}

#[test]
fn uplink_with_outer_header_creation_is_tunneled_onwards_as_uplink() {
    let mut rules = rules();
    rules.fars[0].destination = DestinationInterface::Core;
    rules.fars[0].outer_header_creation = Some(tunnel(0x77, GNB));
    let mut scene = PipelineFixture::with(rules);
    let sent = scene.pass(N3, &uplink().build(), N3);
    let expected = PacketBuilder::ethernet(GNB_MAC, N3_MAC)
        .ipv4(N3_ADDR, GNB)
        .dont_fragment()
        .gtpu(0x77)
        .psc_ul(9)
        .ipv4(UE, SERVER)
        .ttl(63)
        .udp(4000, 53)
        .payload(b"question")
        .build();
    assert_eq!(sent, [expected]);
}

#[test]
fn uplink_tunneled_onwards_over_ipv6_has_a_right_udp_checksum() {
    let mut rules = rules();
    rules.fars[0].outer_header_creation = Some(tunnel(0x77, GNB_V6));
    let mut scene = PipelineFixture::with(rules);
    let sent = scene.pass(N3, &uplink().build(), N3);
    assert_eq!(sent.len(), 1);
    let datagram = &sent[0][14 + 40..];
    let (src, dst) = (N3_V6.parse().unwrap(), GNB_V6.parse().unwrap());
    assert_ne!(datagram[6..8], [0, 0]);
    assert_eq!(adit_wire::udp::verify_ipv6(src, dst, datagram), Ok(()));
    assert_eq!(datagram[8 + 12..8 + 16], [1, 0x10, 9, 0]);
}
