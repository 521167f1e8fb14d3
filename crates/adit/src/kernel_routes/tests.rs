use adit_kernel::{
    DeviceState, KernelHop, KernelRoute, KernelRouteEvent, KernelRouteKey, KernelRouteTarget,
};
use adit_tables::{RouteAction, RouteChange, RouteHop};
use adit_types::{InterfaceId, IpPrefix};

use super::route_base::{
    FollowedInterface, HopState, RouteBase, RouteBaseConfig, UnusedReason, UnusedRoutes,
};

const N6A: InterfaceId = InterfaceId(1);
const N6B: InterfaceId = InterfaceId(2);

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn base(statics: &[(&str, u32)]) -> RouteBase {
    let interface = |id, device: &str, link: &str| FollowedInterface {
        id,
        device: device.to_owned(),
        connected: vec![prefix(link)],
    };
    let mut base = RouteBase::new(RouteBaseConfig {
        interfaces: vec![
            interface(N6A, "n6a", "10.1.0.0/24"),
            interface(N6B, "n6b", "10.2.0.0/24"),
        ],
        own_addrs: vec!["10.1.0.2".parse().unwrap()],
        ue_pools: vec![prefix("10.45.0.0/16")],
        statics: statics.iter().map(|(text, metric)| (prefix(text), *metric)).collect(),
    });
    for (index, name) in [(1, "lo"), (7, "n6a"), (8, "n6b"), (9, "eth0")] {
        device(&mut base, index, name, true);
    }
    base.take_changes();
    base
}

fn device(base: &mut RouteBase, index: u32, name: &str, has_carrier: bool) {
    let name = name.to_owned();
    base.handle(&KernelRouteEvent::Device(DeviceState { index, name, is_up: true, has_carrier }));
}

fn hop(device: u32, gateway: &str) -> KernelHop {
    KernelHop { device, gateway: Some(gateway.parse().unwrap()), weight: 1 }
}

fn route(base: &mut RouteBase, to: &str, metric: u32, hops: &[KernelHop]) {
    let key = KernelRouteKey { prefix: prefix(to), metric };
    let target = KernelRouteTarget::Hops(hops.to_vec());
    base.handle(&KernelRouteEvent::Route(KernelRoute { key, protocol: 186, target }));
}

fn gone(base: &mut RouteBase, to: &str, metric: u32, hops: &[KernelHop]) {
    let key = KernelRouteKey { prefix: prefix(to), metric };
    base.handle(&KernelRouteEvent::RouteGone { key, hops: hops.to_vec() });
}

/// The published changes, as texts.
fn changes(base: &mut RouteBase) -> Vec<String> {
    let hop = |hop: &RouteHop| {
        format!(
            "{}@{}",
            hop.gateway.map_or("link".to_owned(), |of| of.to_string()),
            hop.interface.0
        )
    };
    let text = |change: RouteChange| match change.action {
        None => format!("{} none", change.prefix),
        Some(RouteAction::Forward(hops)) => {
            let hops: Vec<_> = hops.iter().map(hop).collect();
            format!("{} {}", change.prefix, hops.join(" "))
        }
        Some(action) => format!("{} {action:?}", change.prefix),
    };
    while base.continue_scan(1) {}
    base.take_changes().0.into_iter().map(text).collect()
}

#[test]
fn route_with_the_lowest_metric_is_published_and_the_next_one_when_it_goes() {
    let mut base = base(&[]);
    route(&mut base, "20.0.0.0/8", 20, &[hop(7, "10.1.0.1")]);
    route(&mut base, "20.0.0.0/8", 10, &[hop(8, "10.2.0.1")]);
    route(&mut base, "20.0.0.0/8", 30, &[hop(8, "10.2.0.9")]);
    assert_eq!(changes(&mut base), ["20.0.0.0/8 10.1.0.1@1", "20.0.0.0/8 10.2.0.1@2"]);
    gone(&mut base, "20.0.0.0/8", 10, &[]);
    assert_eq!(changes(&mut base), ["20.0.0.0/8 10.1.0.1@1"]);
    route(&mut base, "20.0.0.0/8", 20, &[hop(7, "10.1.0.1")]);
    assert!(changes(&mut base).is_empty(), "the same route again is no change");
    gone(&mut base, "20.0.0.0/8", 20, &[]);
    gone(&mut base, "20.0.0.0/8", 30, &[]);
    assert_eq!(changes(&mut base), ["20.0.0.0/8 10.2.0.9@2", "20.0.0.0/8 none"]);
}

#[test]
fn static_route_keeps_its_prefix_unless_the_kernel_has_a_lower_metric() {
    let mut base = base(&[("20.0.0.0/8", 0), ("21.0.0.0/8", 100)]);
    route(&mut base, "20.0.0.0/8", 0, &[hop(7, "10.1.0.1")]);
    route(&mut base, "21.0.0.0/8", 20, &[hop(7, "10.1.0.1")]);
    assert_eq!(changes(&mut base), ["21.0.0.0/8 10.1.0.1@1"]);
    let config = RouteBaseConfig {
        statics: [(prefix("21.0.0.0/8"), 5)].into(),
        ..RouteBaseConfig::default()
    };
    base.reconfigure(config);
    let mut found = changes(&mut base);
    found.sort();
    assert_eq!(found, ["20.0.0.0/8 10.1.0.1@1", "21.0.0.0/8 none"]);
}

#[test]
fn route_whose_links_are_down_loses_to_another_one_and_wins_again() {
    let mut base = base(&[]);
    route(&mut base, "20.0.0.0/8", 10, &[hop(7, "10.1.0.1")]);
    route(&mut base, "20.0.0.0/8", 20, &[hop(8, "10.2.0.1")]);
    route(&mut base, "21.0.0.0/8", 10, &[hop(7, "10.1.0.1")]);
    changes(&mut base);
    device(&mut base, 7, "n6a", false);
    while base.continue_scan(1) {}
    let (routes, hops) = base.take_changes();
    assert_eq!(routes.len(), 1, "a route without another one stays: {routes:?}");
    let gateway = Some("10.1.0.1".parse().unwrap());
    assert_eq!(hops, [HopState { interface: N6A, gateway, is_usable: false }]);
    device(&mut base, 7, "n6a", true);
    assert_eq!(changes(&mut base), ["20.0.0.0/8 10.1.0.1@1"]);
}

#[test]
fn routes_that_a_dump_does_not_report_are_removed() {
    let mut base = base(&[]);
    route(&mut base, "20.0.0.0/8", 0, &[hop(7, "10.1.0.1")]);
    route(&mut base, "21.0.0.0/8", 0, &[hop(7, "10.1.0.1")]);
    changes(&mut base);
    base.handle(&KernelRouteEvent::DumpBegins);
    route(&mut base, "21.0.0.0/8", 0, &[hop(7, "10.1.0.1")]);
    route(&mut base, "22.0.0.0/8", 0, &[hop(7, "10.1.0.1")]);
    assert_eq!(changes(&mut base), ["22.0.0.0/8 10.1.0.1@1"]);
    base.handle(&KernelRouteEvent::DumpEnds);
    assert_eq!(changes(&mut base), ["20.0.0.0/8 none"]);
}

#[test]
fn hops_go_one_by_one_and_other_devices_are_named() {
    let mut base = base(&[]);
    let hops = [hop(7, "10.1.0.1"), hop(8, "10.2.0.1"), hop(9, "10.9.0.1")];
    route(&mut base, "2001:db8::/32", 1024, &hops);
    assert_eq!(changes(&mut base), ["2001:db8::/32 10.1.0.1@1 10.2.0.1@2"]);
    gone(&mut base, "2001:db8::/32", 1024, &[hop(7, "10.1.0.1")]);
    assert_eq!(changes(&mut base), ["2001:db8::/32 10.2.0.1@2"]);
    route(&mut base, "2001:db8::/32", 1024, &[hop(9, "10.9.0.1")]);
    assert_eq!(changes(&mut base), ["2001:db8::/32 none"]);
    assert_eq!(base.foreign().get("eth0"), Some(&2));
}

#[test]
fn router_that_is_a_ue_or_ourselves_is_refused_by_name() {
    let mut base = base(&[]);
    route(&mut base, "20.0.0.0/8", 0, &[hop(7, "10.45.0.7")]);
    route(&mut base, "21.0.0.0/8", 0, &[hop(7, "10.1.0.2"), hop(7, "10.1.0.1")]);
    assert_eq!(changes(&mut base), ["21.0.0.0/8 10.1.0.1@1"]);
    let unused = |at, reason, example: &str| {
        assert_eq!(base.unused()[at], UnusedRoutes { reason, count: 1, example: prefix(example) });
    };
    unused(0, UnusedReason::UeAsRouter, "20.0.0.0/8");
    unused(1, UnusedReason::OwnAddressAsRouter, "21.0.0.0/8");
}
