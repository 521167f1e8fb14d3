//! Network instances: where packets may arrive, and whose routes they take.

use adit_rules::rule::ue_ipv6_key;
use adit_rules::{DeltaId, DropReason, KeyChange, RuleDelta, SessionKey, SessionRules};
use adit_tables::{Interface, Route, TablesConfig};
use adit_testkit::packet::PacketBuilder;
use adit_types::{
    DomainId, InterfaceId, InterfaceRole, InterfaceSet, PortId, SessionIndex, Teid, VlanId,
};

use crate::fixture::*;

/// A downlink frame on the second N6 interface, from the gateway there.
fn downlink_on_vlan() -> Vec<u8> {
    PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC)
        .vlan(100)
        .ipv4(SERVER, UE)
        .udp(53, 4000)
        .build()
}

#[test]
fn downlink_on_an_interface_of_another_network_instance_matches_no_pdr() {
    let mut rules = rules();
    rules.downlink[0].interfaces = InterfaceSet::only(IF_N6);
    let mut scene = PipelineFixture::with(rules.clone());
    assert_eq!(scene.pass(N6, &downlink().build(), N3).len(), 1);
    scene.assert_drops(N6, &downlink_on_vlan(), DropReason::PdrUnmatched);
    rules.downlink[0].interfaces = InterfaceSet::only(IF_N6_VLAN);
    scene.install(rules);
    assert_eq!(scene.pass(N6, &downlink_on_vlan(), N3).len(), 1);
    scene.assert_drops(N6, &downlink().build(), DropReason::PdrUnmatched);
}

#[test]
fn uplink_takes_the_routes_of_its_network_instance_alone() {
    let to = |host| tunneled().ipv4(UE, host).udp(4000, 53).build();
    let mut rules = rules();
    rules.fars[0].interfaces = InterfaceSet::only(IF_N6);
    let mut scene = PipelineFixture::with(rules.clone());
    let sent = scene.pass(N3, &to("172.16.0.9"), N6);
    assert_eq!(sent[0][..6], GATEWAY_MAC.0, "the longer prefix is another network's");
    rules.fars[0].interfaces = InterfaceSet::only(IF_N6_VLAN);
    scene.install(rules);
    let sent = scene.pass(N3, &to("172.16.0.9"), N6);
    assert_eq!(sent[0][..6], VLAN_GATEWAY_MAC.0);
    scene.assert_drops(N3, &to(SERVER), DropReason::RouteUnknown);
}

#[test]
fn icmp_error_returns_through_the_network_instance_of_the_packet() {
    let mut rules = rules();
    rules.downlink[0].interfaces = InterfaceSet::only(IF_N6_VLAN);
    let mut scene = PipelineFixture::with(rules);
    let frame = PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC)
        .vlan(100)
        .ipv4("172.16.0.9", UE)
        .ttl(1)
        .udp(53, 4000)
        .build();
    let sent = scene.pass(N6, &frame, N6);
    assert_eq!(sent[0][..6], VLAN_GATEWAY_MAC.0);
    let from_elsewhere = PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC)
        .vlan(100)
        .ipv4(SERVER, UE)
        .ttl(1)
        .udp(53, 4000)
        .build();
    assert!(scene.pass(N6, &from_elsewhere, N6).is_empty(), "no route back in this network");
}

/// The second data network: a routing domain of its own, untagged on a port of its own.
const IF_CORP: InterfaceId = InterfaceId(2);
const CORP: PortId = MIXED;
const CORP_ADDR: &str = "10.6.0.9";
/// The session and tunnels of the UE there, which has the same addresses as the other one.
const CORP_SESSION: SessionIndex = SessionIndex(8);
const CORP_TEID: u32 = 0x108;
const CORP_GNB_TEID: u32 = 0xbeef;

/// Two data networks with the same subnets, in which everything has the same address.
fn two_domains() -> TablesConfig {
    let mut tables = usual_config();
    tables.interfaces.push(Interface {
        id: IF_CORP,
        role: InterfaceRole::N6,
        domain: DomainId(1),
        port: CORP,
        vlan: VlanId::UNTAGGED,
        mac: MIXED_MAC,
        v4: Some((v4(CORP_ADDR), 24)),
        ..tables.interfaces[usize::from(IF_N6.0)]
    });
    let routes = tables.routes.clone().into_iter();
    tables.routes.extend(routes.map(|route| Route { interface: IF_CORP, ..route }));
    tables
}

/// The rules of the UE in one of them.
fn rules_in(interface: InterfaceId, teid: u32, gnb_teid: u32) -> SessionRules {
    let mut rules = rules();
    rules.uplink[0].teid = Some(Teid(teid));
    rules.downlink[0].interfaces = InterfaceSet::only(interface);
    rules.fars[0].interfaces = InterfaceSet::only(interface);
    rules.fars[1].outer_header_creation = Some(tunnel(gnb_teid, GNB));
    rules
}

/// A UE in each, with the same addresses.
fn two_ues() -> PipelineFixture {
    two_ues_with(two_domains())
}

fn two_ues_with(tables: TablesConfig) -> PipelineFixture {
    let mut scene = PipelineFixture::built(tables, rules_in(IF_N6, TEID, GNB_TEID));
    for (interface, mac) in [(IF_N6, GATEWAY_MAC), (IF_CORP, VLAN_GATEWAY_MAC)] {
        scene.resolve(interface, "10.6.0.254", mac);
        scene.resolve(interface, "2001:db8:6::254", mac);
    }
    scene.resolve(IF_N3, GNB, GNB_MAC);
    let domain = DomainId(1);
    let keys = [
        SessionKey::Teid(Teid(CORP_TEID)),
        SessionKey::UeIpv4(domain, v4(UE)),
        SessionKey::UeIpv6(domain, ue_ipv6_key(UE_V6.parse().unwrap())),
    ];
    let rules = Some(Box::new(rules_in(IF_CORP, CORP_TEID, CORP_GNB_TEID)));
    let keys = keys.map(KeyChange::Add).into();
    scene.deltas += 1;
    scene.publisher.apply(DeltaId(scene.deltas), RuleDelta { session: CORP_SESSION, keys, rules });
    scene.step();
    while scene.publisher.poll_observed().is_some() {}
    scene
}

fn of_corp_gateway() -> PacketBuilder {
    PacketBuilder::ethernet(MIXED_MAC, VLAN_GATEWAY_MAC)
}

fn of_corp_ue() -> PacketBuilder {
    PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(CORP_TEID).psc_ul(9)
}

#[test]
fn same_ue_address_in_two_domains_is_two_ues() {
    let mut scene = two_ues();
    for is_v4 in [true, false] {
        let to_ue = |packet: PacketBuilder| match is_v4 {
            true => packet.ipv4(SERVER, UE).udp(53, 4000).build(),
            false => packet.ipv6(SERVER_V6, UE_V6).udp(53, 4000).build(),
        };
        let sent = scene.pass(N6, &to_ue(from_gateway()), N3);
        assert_eq!(sent.iter().map(|frame| teid_of(frame)).collect::<Vec<_>>(), [GNB_TEID]);
        let sent = scene.pass(CORP, &to_ue(of_corp_gateway()), N3);
        assert_eq!(sent.iter().map(|frame| teid_of(frame)).collect::<Vec<_>>(), [CORP_GNB_TEID]);
        let of_ue = |packet: PacketBuilder| match is_v4 {
            true => packet.ipv4(UE, SERVER).udp(4000, 53).build(),
            false => packet.ipv6(UE_V6, SERVER_V6).udp(4000, 53).build(),
        };
        let sent = scene.pass(N3, &of_ue(tunneled()), N6);
        assert_eq!(sent.iter().map(|frame| &frame[..6]).collect::<Vec<_>>(), [GATEWAY_MAC.0]);
        let sent = scene.pass(N3, &of_ue(of_corp_ue()), CORP);
        assert_eq!(sent.iter().map(|frame| &frame[..6]).collect::<Vec<_>>(), [VLAN_GATEWAY_MAC.0]);
    }
}

#[test]
fn packets_of_both_domains_in_one_burst_find_their_ues() {
    const VLANS: [u16; 2] = [99, 100];
    let mut tables = two_domains();
    for (id, vlan) in [IF_N6, IF_CORP].into_iter().zip(VLANS) {
        let interface = &mut tables.interfaces[usize::from(id.0)];
        interface.port = N6;
        interface.mac = N6_MAC;
        interface.vlan = VlanId::new(vlan).unwrap();
    }
    let mut scene = two_ues_with(tables);
    for n in 0..8 {
        let vlan = VLANS[usize::from(n % 3 == 0)];
        let frame = from_gateway().vlan(vlan).ipv4(SERVER, UE).udp(53, 4000 + n).build();
        scene.io.inject(N6, &frame);
    }
    scene.step();
    let teids: Vec<u32> = scene.sent(N3).iter().map(|frame| teid_of(frame)).collect();
    let wanted = (0..8).map(|n| if n % 3 == 0 { CORP_GNB_TEID } else { GNB_TEID });
    assert_eq!(teids, wanted.collect::<Vec<_>>());
    assert_eq!(scene.counts().express_pkts, 8);
}

#[test]
fn ue_of_another_domain_is_unknown() {
    let mut scene = PipelineFixture::built(two_domains(), rules_in(IF_N6, TEID, GNB_TEID));
    for packet in [of_corp_gateway().ipv4(SERVER, UE), of_corp_gateway().ipv6(SERVER_V6, UE_V6)] {
        scene.assert_drops(CORP, &packet.udp(53, 4000).build(), DropReason::UeUnknown);
    }
}

#[test]
fn address_of_ours_in_another_domain_is_a_host_like_others() {
    let mut tables = two_domains();
    tables.interfaces[usize::from(IF_CORP.0)].v4 = Some((v4("10.66.0.1"), 24));
    let gateway = "10.66.0.254".parse().unwrap();
    for route in tables.routes.iter_mut().filter(|route| route.interface == IF_CORP) {
        if route.next_hop.is_ipv4() {
            route.next_hop = gateway;
        }
    }
    let mut scene = PipelineFixture::built(tables, rules_in(IF_N6, TEID, GNB_TEID));
    scene.resolve(IF_CORP, "10.66.0.254", VLAN_GATEWAY_MAC);
    let to = |host| tunneled().ipv4(UE, host).udp(4000, 53).build();
    scene.assert_drops(N3, &to(N6_ADDR), DropReason::UeToOwnAddress);
    scene.assert_drops(N3, &to(N4_ADDR), DropReason::UeToOwnAddress);
    scene.install(rules_in(IF_CORP, TEID, GNB_TEID));
    assert_eq!(scene.pass(N3, &to(N6_ADDR), CORP).len(), 1);
    scene.assert_drops(N3, &to("10.66.0.1"), DropReason::UeToOwnAddress);
    scene.assert_drops(N3, &to(N3_ADDR), DropReason::UeToOwnAddress);
    scene.assert_drops(N3, &to(N4_ADDR), DropReason::UeToOwnAddress);
}

#[test]
fn icmp_error_reaches_the_ue_of_its_domain() {
    let mut scene = two_ues();
    let frame = of_corp_ue().ipv4(UE, SERVER).ttl(1).udp(4000, 53).build();
    let sent = scene.pass(N3, &frame, N3);
    assert_eq!(sent.iter().map(|frame| teid_of(frame)).collect::<Vec<_>>(), [CORP_GNB_TEID]);
}
