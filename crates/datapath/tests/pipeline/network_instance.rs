//! Network instances: where packets may arrive, and whose routes they take.

use adit_rules::DropReason;
use adit_types::InterfaceSet;

use crate::scene::*;

/// A downlink frame on the second N6 interface, from the gateway there.
fn downlink_on_vlan() -> Vec<u8> {
    adit_testkit::packet::PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC)
        .vlan(100)
        .ipv4(SERVER, UE)
        .udp(53, 4000)
        .build()
}

#[test]
fn downlink_on_an_interface_of_another_network_instance_matches_no_pdr() {
    let mut rules = rules();
    rules.downlink[0].interfaces = InterfaceSet::only(IF_N6);
    let mut scene = Scene::with(rules.clone());
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
    let mut scene = Scene::with(rules.clone());
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
    let mut scene = Scene::with(rules);
    let frame = adit_testkit::packet::PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC)
        .vlan(100)
        .ipv4("172.16.0.9", UE)
        .ttl(1)
        .udp(53, 4000)
        .build();
    let sent = scene.pass(N6, &frame, N6);
    assert_eq!(sent[0][..6], VLAN_GATEWAY_MAC.0);
    let from_elsewhere = adit_testkit::packet::PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC)
        .vlan(100)
        .ipv4(SERVER, UE)
        .ttl(1)
        .udp(53, 4000)
        .build();
    assert!(scene.pass(N6, &from_elsewhere, N6).is_empty(), "no route back in this network");
}
