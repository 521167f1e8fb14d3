//! Routes that change one by one: several next hops, routes that drop, tunnels that follow.

use std::collections::HashMap;

use adit_rules::{DropReason, SessionRules};
use adit_tables::{RouteAction, RouteChange, RouteHop};
use adit_testkit::packet::PacketBuilder;
use adit_types::{InterfaceId, InterfaceSet, MacAddr};

use crate::fixture::*;

/// The hardware address of router `number` on a link.
const fn router_mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, number])
}

fn hop(interface: InterfaceId, number: u8) -> RouteHop {
    let link = if interface == IF_N3 { "192.168.10" } else { "10.6.0" };
    let gateway = Some(ip(&format!("{link}.{number}")));
    RouteHop { interface, gateway, weight: 1 }
}

/// Changes a route of one interface.
fn change(scene: &mut PipelineFixture, on: InterfaceId, prefix: &str, action: RouteAction) {
    let (scope, prefix) = (InterfaceSet::only(on), prefix.parse().unwrap());
    let change = RouteChange { scope, prefix, action: Some(action) };
    scene.publisher.change_routes(&[change]).unwrap();
}

/// Leads a prefix to some routers, which are resolved.
fn lead(scene: &mut PipelineFixture, on: InterfaceId, prefix: &str, routers: &[u8]) {
    let hops = routers.iter().map(|number| hop(on, *number)).collect();
    change(scene, on, prefix, RouteAction::Forward(hops));
    for number in routers {
        let RouteHop { interface, gateway, .. } = hop(on, *number);
        scene.resolve(interface, &gateway.unwrap().to_string(), router_mac(*number));
    }
}

/// The router that the one sent frame goes to.
fn router(sent: &[Vec<u8>]) -> u8 {
    let [frame] = sent else { panic!("{} frames", sent.len()) };
    assert_eq!(frame[..5], router_mac(0).0[..5]);
    frame[5]
}

/// A UDP packet of flow `number`; with options in the outer header it takes the stages.
fn packet_of(number: u16, takes_stages: bool) -> Vec<u8> {
    let outer = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    let outer = if takes_stages { outer.options(&[1, 1, 1, 1]) } else { outer };
    let inner = outer.gtpu(TEID).psc_ul(9).ipv4(UE, SERVER);
    inner.udp(4000 + number, 53).payload(b"question").build()
}

fn routers_of_flows(scene: &mut PipelineFixture) -> HashMap<u16, u8> {
    (0..200)
        .map(|number| (number, router(&scene.pass(N3, &packet_of(number, false), N6))))
        .collect()
}

#[test]
fn flows_spread_over_routers_and_stay_on_both_paths() {
    let mut scene = PipelineFixture::usual(rules());
    lead(&mut scene, IF_N6, "0.0.0.0/0", &[10, 11, 12, 13]);
    let before = routers_of_flows(&mut scene);
    assert_eq!(scene.counts().express_pkts, 200);
    for number in 10..14 {
        let flows = before.values().filter(|of| **of == number).count();
        assert!((25..=75).contains(&flows), "{flows} of 200 flows");
    }
    for (number, expected) in &before {
        let by_stages = scene.pass(N3, &packet_of(*number, true), N6);
        assert_eq!(router(&by_stages), *expected, "flow {number}");
    }
    assert_eq!(scene.counts().express_pkts, 200);

    scene.publisher.set_hop_usable(IF_N6, hop(IF_N6, 11).gateway, false);
    let after = routers_of_flows(&mut scene);
    for (number, router) in &after {
        assert!(before[number] == 11 || before[number] == *router);
        assert_ne!(*router, 11);
    }
    lead(&mut scene, IF_N6, "0.0.0.0/0", &[10, 12, 13]);
    assert_eq!(routers_of_flows(&mut scene), after, "the daemon's message moves nothing");
    // One router for a longer prefix.
    lead(&mut scene, IF_N6, "8.8.8.0/24", &[14]);
    assert!(routers_of_flows(&mut scene).values().all(|router| *router == 14));
    assert_eq!(scene.counts().dropped_pkts(), 0);
}

#[test]
fn fragments_of_a_datagram_take_one_router() {
    let mut scene = PipelineFixture::usual(rules());
    lead(&mut scene, IF_N6, "0.0.0.0/0", &[10, 11, 12, 13, 14, 15, 16, 17]);
    let mut seen = Vec::new();
    for host in 1..=20 {
        let server = format!("8.8.8.{host}");
        let fragment = |flags_offset: u16| {
            let frame = tunneled().ipv4(UE, &*server).udp(4000 + host, 53).payload(&[7; 16]);
            let mut frame = frame.build();
            let ip = frame.len() - 16 - 8 - 20;
            frame[ip + 6..ip + 8].copy_from_slice(&flags_offset.to_be_bytes());
            frame[ip + 10..ip + 12].fill(0);
            let sum = adit_wire::checksum::checksum(&frame[ip..ip + 20]);
            frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            frame
        };
        let first = router(&scene.pass(N3, &fragment(0x2000), N6));
        let later = router(&scene.pass(N3, &fragment(3), N6));
        assert_eq!(first, later, "{server}");
        seen.push(first);
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 4, "{seen:?}");
}

#[test]
fn routes_that_drop_have_their_reason_on_both_paths() {
    let mut scene = PipelineFixture::usual(rules());
    for (action, reason) in [
        (RouteAction::Blackhole, DropReason::RouteBlackhole),
        (RouteAction::Unreachable, DropReason::RouteUnreachable),
    ] {
        change(&mut scene, IF_N6, "8.0.0.0/8", action);
        scene.assert_drops(N3, &packet_of(1, false), reason);
        scene.assert_drops(N3, &packet_of(1, true), reason);
    }
    lead(&mut scene, IF_N6, "8.8.0.0/16", &[10]);
    assert_eq!(router(&scene.pass(N3, &packet_of(1, false), N6)), 10);
}

#[test]
fn steered_packets_follow_the_route_of_their_service_function() {
    let mut rules = rules();
    let steering = adit_rules::Steering { v4: Some("172.16.0.7".parse().unwrap()), v6: None };
    rules.fars[0].steering = Some(Box::new(steering));
    let mut scene = PipelineFixture::usual(rules);
    lead(&mut scene, IF_N6, "172.16.0.0/24", &[10]);
    assert_eq!(router(&scene.pass(N3, &packet_of(1, false), N6)), 10);
    for (action, reason) in [
        (RouteAction::Blackhole, DropReason::RouteBlackhole),
        (RouteAction::Unreachable, DropReason::RouteUnreachable),
    ] {
        change(&mut scene, IF_N6, "172.16.0.0/24", action);
        scene.assert_drops(N3, &packet_of(1, false), reason);
    }
}

/// Rules whose downlink leads to a gNB behind routers.
fn to_distant_gnb(teid: u32) -> SessionRules {
    let mut rules = rules();
    rules.fars[1].outer_header_creation = Some(tunnel(teid, "172.30.0.9"));
    rules
}

#[test]
fn tunnels_to_gnbs_follow_the_routes_of_n3_without_new_rules() {
    let mut scene = PipelineFixture::usual(rules());
    lead(&mut scene, IF_N3, "172.30.0.0/16", &[20]);
    scene.install(to_distant_gnb(5));
    let pass = |scene: &mut PipelineFixture| router(&scene.pass(N6, &downlink().build(), N3));
    assert_eq!((pass(&mut scene), pass(&mut scene)), (20, 20));
    lead(&mut scene, IF_N3, "172.30.0.9/32", &[21]);
    assert_eq!((pass(&mut scene), pass(&mut scene)), (21, 21), "kept hops end");
    assert_eq!(scene.counts().express_pkts, 4);
    change(&mut scene, IF_N3, "172.30.0.9/32", RouteAction::Blackhole);
    scene.assert_drops(N6, &downlink().build(), DropReason::RouteBlackhole);

    // Tunnels spread by TEID, and each stays.
    lead(&mut scene, IF_N3, "172.30.0.9/32", &[20, 21, 22, 23]);
    let mut routers = Vec::new();
    for teid in 1..=40 {
        scene.install(to_distant_gnb(teid));
        let first = pass(&mut scene);
        assert_eq!(pass(&mut scene), first);
        routers.push(first);
    }
    for number in 20..24 {
        let tunnels = routers.iter().filter(|of| **of == number).count();
        assert!((3..=20).contains(&tunnels), "{tunnels} of 40 tunnels");
    }
}
