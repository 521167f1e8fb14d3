//! Routes that change one by one, in tables beside the routes of the configuration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use adit_rules::{DeltaId, NextHops};
use adit_tables::{
    NoRoute, Publisher, RefusedRoute, Route, RouteAction, RouteChange, RouteHop, RouteRefusal,
    RoutesConfig, TablesConfig, TablesReader, TablesView, Via, build, tunnel_hash,
};
use adit_types::{
    DomainId, InterfaceId, InterfaceRole, InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix, MacAddr,
    NextHopIndex, SessionIndex, Teid,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{N3, N6, config, install, interface, ip, route, rules, uninstall};

/// An interface of a second routing domain.
const OTHER: InterfaceId = InterfaceId(2);

/// Another interface of the first one.
const SECOND: InterfaceId = InterfaceId(3);

const FIRST_DOMAIN: InterfaceSet = InterfaceSet(0b1010);
const SECOND_DOMAIN: InterfaceSet = InterfaceSet(0b100);
const TUNNELS: InterfaceSet = InterfaceSet(0b1);

fn two_domains() -> TablesConfig {
    let mut config = config(1);
    let mut other = interface(2, InterfaceRole::N6, "198.18.1.1", "2001:db8:61::1");
    other.domain = DomainId(1);
    config.interfaces.push(other);
    config.interfaces.push(interface(3, InterfaceRole::N6, "198.18.2.1", "2001:db8:62::1"));
    config.next_hops_max = 512;
    config
}

fn via(interface: InterfaceId, gateway: &str) -> RouteHop {
    RouteHop { interface, gateway: Some(ip(gateway)), weight: 1 }
}

fn change(scope: InterfaceSet, prefix: &str, hops: &[RouteHop]) -> RouteChange {
    let action = Some(RouteAction::Forward(hops.to_vec()));
    RouteChange { scope, prefix: prefix.parse().unwrap(), action }
}

fn removal(scope: InterfaceSet, prefix: &str) -> RouteChange {
    RouteChange { scope, prefix: prefix.parse().unwrap(), action: None }
}

/// Interface and station of the next hop of a flow.
fn hop_of_flow(
    view: &TablesView<'_>,
    role: InterfaceRole,
    within: InterfaceSet,
    addr: IpAddr,
    hash: u32,
) -> Option<(InterfaceId, IpAddr)> {
    let found = view.route_of_flow(role, within, addr, || hash)?;
    Some((
        found.interface,
        match found.via {
            Via::Known(index) => view.next_hop(index).unwrap().addr,
            Via::Unknown(addr) => addr,
        },
    ))
}

/// Few addresses, so that prefixes contain each other.
fn narrow(bits: u128, is_v6: bool) -> IpAddr {
    match is_v6 {
        false => {
            let bits = u32::try_from(bits & 0xffff_ffff).unwrap();
            Ipv4Addr::from_bits(0xc612_0000 ^ bits & 0x8101_0303).into()
        }
        true => {
            let base = Ipv6Addr::new(0x2001, 0xdb8, 0x61, 0, 0, 0, 0, 0).to_bits();
            Ipv6Addr::from_bits(base ^ bits & (1 << 127 | 0x1_0003_0000_0001_0003 << 48 | 3)).into()
        }
    }
}

fn prefix_of(addr: IpAddr, len: u8) -> IpPrefix {
    match addr {
        IpAddr::V4(addr) => IpPrefix::V4(Ipv4Prefix::containing(addr, len % 33).unwrap()),
        IpAddr::V6(addr) => IpPrefix::V6(Ipv6Prefix::containing(addr, len % 129).unwrap()),
    }
}

const fn len_of(prefix: IpPrefix) -> u8 {
    match prefix {
        IpPrefix::V4(prefix) => prefix.len(),
        IpPrefix::V6(prefix) => prefix.len(),
    }
}

/// The verdict of a naive model on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Dropped,
    /// One of these; the only one of them if the route has one next hop.
    Through(HashSet<(InterfaceId, IpAddr)>),
}

/// The routes of the configuration and of the tables, in a list.
struct Naive {
    config: TablesConfig,
    tables: BTreeMap<u32, HashMap<IpPrefix, RouteAction>>,
}

impl Naive {
    /// Routes and connected prefixes of the configuration through `within`: length, and next hop.
    fn configured(&self, within: InterfaceSet, addr: IpAddr) -> Option<(u8, Expected, bool)> {
        let one = |hop| Expected::Through(HashSet::from([hop]));
        let mut best: Option<(u8, Expected, bool)> = None;
        let mut offer = |len: u8, expected: Expected, is_gateway| {
            if best.as_ref().is_none_or(|(known, ..)| len > *known) {
                best = Some((len, expected, is_gateway));
            }
        };
        let own = self.config.interfaces.iter();
        let domain = |own: InterfaceId| match own {
            OTHER => SECOND_DOMAIN,
            _ => FIRST_DOMAIN,
        };
        let is_reachable = |own: &&adit_tables::Interface| {
            own.role != InterfaceRole::N6 || within.intersects(domain(own.id))
        };
        for own in own.filter(is_reachable) {
            if own.owns(addr) && !addr.to_string().starts_with("fe80") {
                offer(if addr.is_ipv4() { 32 } else { 128 }, Expected::Dropped, false);
            }
        }
        for on in self
            .config
            .interfaces
            .iter()
            .filter(|on| on.role == InterfaceRole::N6 && within.contains(on.id))
        {
            let of = match addr {
                IpAddr::V4(_) => on.v4.map(|(addr, len)| (IpAddr::V4(addr), len)),
                IpAddr::V6(_) => on.v6.map(|(addr, len)| (IpAddr::V6(addr), len)),
            };
            let (own, len) = of.unwrap();
            let connected = prefix_of(own, len);
            if connected.contains(addr) {
                let is_reserved = addr.is_ipv4() && !on.is_neighbor(addr);
                if is_reserved {
                    offer(32, Expected::Dropped, false);
                }
                offer(len, one((on.id, addr)), false);
            }
        }
        for Route { interface, prefix, next_hop } in &self.config.routes {
            if *interface != N3 && within.contains(*interface) && prefix.contains(addr) {
                offer(len_of(*prefix), one((*interface, *next_hop)), true);
            }
        }
        best
    }

    fn expected(&self, within: InterfaceSet, addr: IpAddr) -> Expected {
        let mut best: Option<(u8, Expected)> = None;
        let mut tables: Vec<_> = self.tables.iter().collect();
        tables.sort_by_key(|(scope, _)| scope.trailing_zeros());
        for (scope, table) in tables {
            let longest = table.iter().filter(|(prefix, _)| prefix.contains(addr));
            let longest = longest.max_by_key(|(prefix, _)| len_of(**prefix));
            let Some((prefix, action)) = longest.filter(|_| scope & within.0 != 0) else {
                continue;
            };
            let expected = match action {
                RouteAction::Blackhole | RouteAction::Unreachable => Expected::Dropped,
                RouteAction::Forward(hops) => {
                    let hops = hops.iter().filter(|hop| within.contains(hop.interface));
                    let hops: HashSet<_> =
                        hops.map(|hop| (hop.interface, hop.gateway.unwrap_or(addr))).collect();
                    if hops.is_empty() {
                        continue;
                    }
                    Expected::Through(hops)
                }
            };
            if best.as_ref().is_none_or(|(len, _)| len_of(*prefix) > *len) {
                best = Some((len_of(*prefix), expected));
            }
        }
        let configured = self.configured(within, addr);
        match (best, configured) {
            (None, None) => Expected::Dropped,
            (Some((_, expected)), None) | (None, Some((_, expected, _))) => expected,
            (Some((len, of_table)), Some((configured, expected, is_gateway))) => {
                let yields = configured < len || configured == len && is_gateway;
                if yields { of_table } else { expected }
            }
        }
    }
}

/// One change: bits of the prefix, IPv6, length, and a choice of table and next hops.
type Drawn = (u128, bool, u8, u32);

fn drawn_change(&(bits, is_v6, len, choice): &Drawn) -> RouteChange {
    let addr = narrow(bits, is_v6);
    let is_second = choice & 1 != 0;
    let scope = if is_second { SECOND_DOMAIN } else { FIRST_DOMAIN };
    let interfaces: &[InterfaceId] = if is_second { &[OTHER] } else { &[N6, SECOND] };
    let hop = |number: u32| {
        let interface = interfaces[number as usize % interfaces.len()];
        let host = number % 5 + 2;
        let gateway = match (is_v6, interface) {
            (true, _) => format!("fe80::{host:x}"),
            (false, N6) => format!("198.51.100.{host}"),
            (false, OTHER) => format!("198.18.1.{host}"),
            (false, _) => format!("198.18.2.{host}"),
        };
        let gateway = (number % 11 != 10).then(|| ip(&gateway));
        RouteHop { interface, gateway, weight: 1 + u16::try_from(number % 3).unwrap() }
    };
    let mut hops: Vec<RouteHop> = Vec::new();
    for at in 0..(choice >> 8) % 4 + 1 {
        let hop = hop((choice >> 12).wrapping_add(at * 7));
        if !hops.iter().any(|of| (of.interface, of.gateway) == (hop.interface, hop.gateway)) {
            hops.push(hop);
        }
    }
    let action = match choice >> 1 & 7 {
        0 | 1 => None,
        2 => Some(RouteAction::Blackhole),
        3 => Some(RouteAction::Unreachable),
        _ => Some(RouteAction::Forward(hops)),
    };
    RouteChange { scope, prefix: prefix_of(addr, len), action }
}

proptest! {
    #[test]
    fn packets_take_the_routes_that_a_naive_model_says(
        static_routes in vec((any::<u128>(), any::<bool>(), any::<u8>(), 0_u8..3), 0..6),
        changes in vec(vec((any::<u128>(), any::<bool>(), any::<u8>(), any::<u32>()), 1..10), 1..8),
        probes in vec((any::<u128>(), any::<bool>(), any::<u32>()), 40),
    ) {
        let mut config = two_domains();
        for (bits, is_v6, len, on) in static_routes {
            let interface = [N6, OTHER, SECOND][usize::from(on)];
            let next_hop = match (is_v6, on) {
                (true, _) => ip("fe80::99"),
                (false, 0) => ip("198.51.100.99"),
                (false, 1) => ip("198.18.1.99"),
                (false, _) => ip("198.18.2.99"),
            };
            let route = Route { interface, prefix: prefix_of(narrow(bits, is_v6), len), next_hop };
            config.routes.push(route);
            if build(config.clone()).is_err() {
                config.routes.pop();
            }
        }
        let (mut publisher, mut readers) = build(config.clone()).unwrap();
        let mut naive = Naive { config, tables: BTreeMap::new() };
        for changes in changes {
            let changes: Vec<_> = changes.iter().map(drawn_change).collect();
            prop_assert_eq!(publisher.change_routes(&changes), Ok(()));
            for RouteChange { scope, prefix, action } in changes {
                let table = naive.tables.entry(scope.0).or_default();
                match action {
                    Some(action) => drop(table.insert(prefix, action)),
                    None => drop(table.remove(&prefix)),
                }
            }
            let routes: usize = naive.tables.values().map(HashMap::len).sum();
            prop_assert_eq!(publisher.routes_in_tables(), routes);
            let view = readers[0].observe();
            for (bits, is_v6, hash) in &probes {
                compare(&view, &naive, narrow(*bits, *is_v6), *hash)?;
            }
            while publisher.poll_observed().is_some() {}
        }
        // Nothing stays when all routes are gone.
        let all = naive.tables.iter().flat_map(|(scope, table)| {
            table.keys().map(|prefix| (InterfaceSet(*scope), *prefix))
        });
        let all: Vec<_> =
            all.map(|(scope, prefix)| RouteChange { scope, prefix, action: None }).collect();
        prop_assert_eq!(publisher.change_routes(&all), Ok(()));
        readers[0].observe();
        while publisher.poll_observed().is_some() {}
        prop_assert_eq!((publisher.routes_in_tables(), publisher.route_table_bytes()), (0, 0));
        naive.tables.clear();
        let view = readers[0].observe();
        for (bits, is_v6, hash) in &probes {
            compare(&view, &naive, narrow(*bits, *is_v6), *hash)?;
        }
        let pinned = |index| publisher.is_pinned(NextHopIndex(index));
        let configured = naive.config.routes.iter().map(|route| (route.interface, route.next_hop));
        prop_assert_eq!((0..512).filter(|index| pinned(*index)).count(),
            configured.collect::<HashSet<_>>().len());
    }
}

/// Compares a lookup, and the gateway of the whole block, with the model.
fn compare(
    view: &TablesView<'_>,
    naive: &Naive,
    addr: IpAddr,
    hash: u32,
) -> Result<(), TestCaseError> {
    let block = match addr {
        IpAddr::V4(addr) => view.network_block_v4(addr.to_bits()),
        IpAddr::V6(addr) => view.network_block_v6(u64::try_from(addr.to_bits() >> 64).unwrap()),
    };
    let only = [N6, OTHER, SECOND].map(InterfaceSet::only);
    for within in only.into_iter().chain([FIRST_DOMAIN, SECOND_DOMAIN, InterfaceSet::ALL]) {
        let expected = naive.expected(within, addr);
        let found = hop_of_flow(view, InterfaceRole::N6, within, addr, hash);
        match (&expected, found) {
            (Expected::Dropped, None) => {}
            (Expected::Through(hops), Some(hop)) if hops.contains(&hop) => {}
            _ => prop_assert!(false, "{addr} {within:?}: {found:?}, not {expected:?}"),
        }
        if let Some(gateway) = view.block_gateway(within, block) {
            let gateway = view.next_hop(gateway).unwrap();
            let hop = HashSet::from([(gateway.interface, gateway.addr)]);
            prop_assert_eq!(&expected, &Expected::Through(hop), "block of {} {:?}", addr, within);
        }
    }
    Ok(())
}

fn default_via(gateways: &[&str]) -> RouteChange {
    let hops: Vec<_> = gateways.iter().map(|gateway| via(N6, gateway)).collect();
    change(InterfaceSet::only(N6), "0.0.0.0/0", &hops)
}

#[test]
fn learned_default_route_serves_whole_blocks_as_a_configured_one_does() {
    let mut config = config(1);
    config.routes.clear();
    let (mut publisher, mut readers) = build(config).unwrap();
    let gateway = |view: &TablesView<'_>, addr: [u8; 4]| {
        let block = view.network_block_v4(u32::from_be_bytes(addr));
        let index = view.block_gateway(InterfaceSet::ALL, block)?;
        Some(view.next_hop(index)?.addr)
    };
    publisher.change_routes(&[default_via(&["198.51.100.7"])]).unwrap();
    assert_eq!(gateway(&readers[0].observe(), [8, 8, 8, 8]), Some(ip("198.51.100.7")));
    publisher.change_routes(&[default_via(&["198.51.100.8"])]).unwrap();
    assert_eq!(gateway(&readers[0].observe(), [8, 8, 8, 8]), Some(ip("198.51.100.8")));
    let longer = change(InterfaceSet::only(N6), "8.8.9.0/24", &[via(N6, "198.51.100.7")]);
    publisher.change_routes(&[longer]).unwrap();
    let view = readers[0].observe();
    assert_eq!(
        (gateway(&view, [8, 8, 8, 8]), gateway(&view, [8, 9, 8, 8])),
        (None, Some(ip("198.51.100.8")))
    );
    publisher.change_routes(&[default_via(&["198.51.100.7", "198.51.100.8"])]).unwrap();
    assert_eq!(gateway(&readers[0].observe(), [8, 9, 8, 8]), None, "several next hops");
    publisher.change_routes(&[removal(InterfaceSet::only(N6), "0.0.0.0/0")]).unwrap();
    let view = readers[0].observe();
    assert_eq!(view.route(InterfaceRole::N6, InterfaceSet::ALL, ip("8.9.8.8")), None);
    assert!(view.route(InterfaceRole::N6, InterfaceSet::ALL, ip("8.8.9.8")).is_some());
}

#[test]
fn each_mistake_is_refused_by_name_and_the_other_changes_are_in_effect() {
    let (mut publisher, mut readers) = build(two_domains()).unwrap();
    let good = change(FIRST_DOMAIN, "10.1.0.0/16", &[via(N6, "198.51.100.7")]);
    let twice = [via(N6, "198.51.100.7"), via(N6, "198.51.100.7")];
    let weightless = [RouteHop { weight: 0, ..via(N6, "198.51.100.7") }];
    let many: Vec<_> = (2..=66).map(|host| via(N6, &format!("198.51.100.{host}"))).collect();
    let bad = [
        (change(InterfaceSet::NONE, "10.0.0.0/8", &[]), RouteRefusal::Scope),
        (change(InterfaceSet(0b11), "10.0.0.0/8", &[]), RouteRefusal::Scope),
        (removal(InterfaceSet(0b10000), "10.0.0.0/8"), RouteRefusal::Scope),
        (removal(InterfaceSet(0b110), "10.0.0.0/8"), RouteRefusal::ScopeOverlaps(N6)),
        (change(FIRST_DOMAIN, "10.0.0.0/8", &[]), RouteRefusal::Hops(0)),
        (change(FIRST_DOMAIN, "10.0.0.0/8", &twice), RouteRefusal::Hops(2)),
        (change(FIRST_DOMAIN, "10.0.0.0/8", &weightless), RouteRefusal::Hops(1)),
        (change(FIRST_DOMAIN, "10.0.0.0/8", &many), RouteRefusal::Hops(65)),
        (
            change(FIRST_DOMAIN, "10.0.0.0/8", &[via(OTHER, "198.18.1.7")]),
            RouteRefusal::InterfaceOutsideScope(OTHER),
        ),
        (
            change(FIRST_DOMAIN, "10.0.0.0/8", &[via(N6, "198.18.1.7")]),
            RouteRefusal::GatewayOffLink(N6, ip("198.18.1.7")),
        ),
    ];
    let mut changes = vec![good.clone()];
    changes.extend(bad.iter().map(|(change, _)| change.clone()));
    changes.push(change(FIRST_DOMAIN, "10.2.0.0/16", &many[..64]));
    let refused = publisher.change_routes(&changes).unwrap_err();
    let expected = (1..)
        .zip(&bad)
        .map(|(position, (_, refusal))| RefusedRoute { position, refusal: *refusal });
    assert_eq!(refused, expected.collect::<Vec<_>>());
    assert_eq!(publisher.routes_in_tables(), 2);
    let view = readers[0].observe();
    let within = InterfaceSet::ALL;
    let found = hop_of_flow(&view, InterfaceRole::N6, within, ip("10.1.2.3"), 9);
    assert_eq!(found, Some((N6, ip("198.51.100.7"))));
    let hops = publisher.route_hops(FIRST_DOMAIN, "10.2.0.0/16".parse().unwrap()).unwrap();
    assert!(hops.len() == 64 && hops.iter().all(|(_, slots)| *slots == 4), "{hops:?}");
}

#[test]
fn dropped_destinations_have_their_reason() {
    let (mut publisher, mut readers) = build(two_domains()).unwrap();
    let drops = |prefix: &str, action| RouteChange {
        scope: FIRST_DOMAIN,
        prefix: prefix.parse().unwrap(),
        action: Some(action),
    };
    let changes = [
        drops("10.1.0.0/16", RouteAction::Blackhole),
        drops("2001:db8:77::/48", RouteAction::Unreachable),
        drops("203.0.113.4/32", RouteAction::Blackhole),
        drops("198.51.100.0/24", RouteAction::Blackhole),
    ];
    publisher.change_routes(&changes).unwrap();
    let view = readers[0].observe();
    let reason = |addr: &str| view.no_route(InterfaceRole::N6, FIRST_DOMAIN, ip(addr));
    assert_eq!(reason("10.1.2.3"), NoRoute::Blackhole);
    assert_eq!(reason("2001:db8:77::1"), NoRoute::Unreachable);
    assert_eq!(reason("203.0.113.4"), NoRoute::Own, "an address of ours stays ours");
    let on_link = hop_of_flow(&view, InterfaceRole::N6, FIRST_DOMAIN, ip("198.51.100.9"), 0);
    assert_eq!(on_link, Some((N6, ip("198.51.100.9"))), "so does a connected prefix");
    assert_eq!(view.route(InterfaceRole::N6, FIRST_DOMAIN, ip("10.1.2.3")), None);
}

/// Publishes a session with a tunnel to each peer.
fn with_tunnels(publisher: &mut Publisher, readers: &mut [TablesReader], peers: &[&str]) {
    publisher.apply(DeltaId(1), install(3, &[], rules(1, peers)));
    observe(publisher, readers);
}

fn observe(publisher: &mut Publisher, readers: &mut [TablesReader]) {
    for _ in 0..3 {
        readers.iter_mut().for_each(|reader| _ = reader.observe());
        while publisher.poll_observed().is_some() {}
    }
}

#[test]
fn tunnels_follow_changed_routes_without_being_published_again() {
    let (mut publisher, mut readers) = build(config(1)).unwrap();
    publisher.add_route_table(TUNNELS).unwrap();
    let peers = ["192.0.2.77", "10.9.9.9", "172.16.0.1"];
    with_tunnels(&mut publisher, &mut readers, &peers);
    let hop = |readers: &mut [TablesReader], far: usize| {
        let view = readers[0].observe();
        let index = view.rules(SessionIndex(3)).unwrap().fars[far].next_hop;
        view.next_hop(index).map(|hop| hop.addr)
    };
    // On the link, by the configuration, and nowhere.
    assert_eq!(hop(&mut readers, 0), Some(ip("192.0.2.77")));
    assert_eq!(hop(&mut readers, 1), Some(ip("192.0.2.254")));
    assert_eq!(hop(&mut readers, 2), None);
    assert_eq!(publisher.counters().peers_without_route, 1);

    let before = readers[0].observe().next_hop_version();
    let longer = change(TUNNELS, "10.9.0.0/16", &[via(N3, "192.0.2.5")]);
    let default = change(TUNNELS, "0.0.0.0/0", &[via(N3, "192.0.2.6")]);
    publisher.change_routes(&[longer, default]).unwrap();
    assert_ne!(readers[0].observe().next_hop_version(), before, "kept hops end");
    assert_eq!(hop(&mut readers, 0), Some(ip("192.0.2.77")));
    assert_eq!(hop(&mut readers, 1), Some(ip("192.0.2.5")));
    assert_eq!(hop(&mut readers, 2), Some(ip("192.0.2.6")));

    publisher.change_routes(&[removal(TUNNELS, "10.9.0.0/16")]).unwrap();
    assert_eq!(hop(&mut readers, 1), Some(ip("192.0.2.254")), "the configuration's is longer");
    observe(&mut publisher, &mut readers);
    let gateway = publisher.find_next_hop(N3, ip("192.0.2.5")).unwrap();
    assert!(!publisher.is_pinned(gateway) && publisher.remove_next_hop(gateway));

    publisher.apply(DeltaId(2), uninstall(3, &[]));
    observe(&mut publisher, &mut readers);
    let peer = publisher.find_next_hop(N3, ip("192.0.2.77")).unwrap();
    assert!(!publisher.is_pinned(peer), "no FAR leads there any more");
}

#[test]
fn tunnels_spread_over_next_hops_and_a_lost_one_moves_its_own_tunnels_only() {
    let (mut publisher, mut readers) =
        build(TablesConfig { next_hops_max: 64, ..config(1) }).unwrap();
    let hops: Vec<_> = (2..6).map(|host| via(N3, &format!("192.0.2.{host}"))).collect();
    publisher.change_routes(&[change(TUNNELS, "172.16.0.0/12", &hops)]).unwrap();
    let mut rules = rules(1, &["172.16.0.1"; 200]);
    for (teid, far) in (1..).zip(&mut rules.fars) {
        let Some(adit_rules::HeaderCreation::Gtpu(tunnel)) = &mut far.outer_header_creation else {
            panic!("a tunnel")
        };
        tunnel.teid = Teid(teid);
    }
    publisher.apply(DeltaId(1), install(3, &[], rules));
    observe(&mut publisher, &mut readers);
    let all = |readers: &mut [TablesReader]| -> Vec<IpAddr> {
        let view = readers[0].observe();
        let fars = &view.rules(SessionIndex(3)).unwrap().fars;
        fars.iter().map(|far| view.next_hop(far.next_hop).unwrap().addr).collect()
    };
    let before = all(&mut readers);
    for hop in &hops {
        let tunnels = before.iter().filter(|addr| Some(**addr) == hop.gateway).count();
        assert!((25..=75).contains(&tunnels), "{tunnels} of 200 through {hop:?}");
    }
    // A lookup with the tunnel's hash finds the same next hop: End Markers follow the tunnel.
    let view = readers[0].observe();
    for (teid, addr) in (1..).zip(&before) {
        let peer = ip("172.16.0.1");
        let hash = tunnel_hash(Teid(teid), peer);
        let found = hop_of_flow(&view, InterfaceRole::N3, InterfaceSet::ALL, peer, hash);
        assert_eq!(found, Some((N3, *addr)));
    }
    let lost = hops[1].gateway;
    publisher.set_hop_usable(N3, lost, false);
    let after = all(&mut readers);
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after || Some(*before) == lost);
        assert_ne!(Some(*after), lost);
    }
    let left = [hops[0], hops[2], hops[3]];
    publisher.change_routes(&[change(TUNNELS, "172.16.0.0/12", &left)]).unwrap();
    assert_eq!(all(&mut readers), after, "the daemon's message moves nothing any more");
    publisher.set_hop_usable(N3, lost, true);
    publisher.change_routes(&[change(TUNNELS, "172.16.0.0/12", &hops[..1])]).unwrap();
    assert!(all(&mut readers).iter().all(|addr| Some(*addr) == hops[0].gateway));
}

#[test]
fn tables_stay_when_the_configured_routes_are_replaced() {
    let (mut publisher, mut readers) = build(config(1)).unwrap();
    let within = InterfaceSet::only(N6);
    let learned = change(within, "10.1.0.0/16", &[via(N6, "198.51.100.7")]);
    publisher.change_routes(&[learned]).unwrap();
    let mut network = RoutesConfig {
        interfaces: publisher.interfaces().to_vec(),
        local_switching_domains: vec![DomainId(0)],
        routes: vec![route(1, "0.0.0.0/0", "198.51.100.99")],
    };
    let prepared = publisher.prepare_routes(network.clone()).unwrap();
    // Changed while the routes are prepared.
    let other = change(within, "10.2.0.0/16", &[via(N6, "198.51.100.8")]);
    publisher.change_routes(&[other]).unwrap();
    publisher.publish_routes(prepared);
    let found = |readers: &mut [TablesReader], addr| {
        let view = readers[0].observe();
        Some(hop_of_flow(&view, InterfaceRole::N6, InterfaceSet::ALL, ip(addr), 0)?.1)
    };
    assert_eq!(found(&mut readers, "10.1.2.3"), Some(ip("198.51.100.7")));
    assert_eq!(found(&mut readers, "10.2.2.3"), Some(ip("198.51.100.8")));
    assert_eq!(found(&mut readers, "10.3.2.3"), Some(ip("198.51.100.99")));
    network.routes.clear();
    let prepared = publisher.prepare_routes(network).unwrap();
    publisher.publish_routes(prepared);
    assert_eq!(found(&mut readers, "10.2.2.3"), Some(ip("198.51.100.8")));
    assert_eq!(found(&mut readers, "10.3.2.3"), None);
}

/// Returns the time that this thread has had a processor: other programs use it as well. Spec:
/// proc_pid_schedstat(5).
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn single_change_among_many_routes_takes_little_time() {
    let (mut publisher, mut readers) = build(config(1)).unwrap();
    let scope = InterfaceSet::only(N6);
    let gateways = [2, 3, 4, 5].map(|host| via(N6, &format!("198.51.100.{host}")));
    let route = |number: u32| {
        let addr = Ipv4Addr::from_bits(number.wrapping_mul(0x9e37_79b1) >> 8 << 8);
        let prefix = IpPrefix::V4(Ipv4Prefix::containing(addr, 24).unwrap());
        let hops = match number % 3 {
            0 => gateways.to_vec(),
            at => vec![gateways[at as usize]],
        };
        RouteChange { scope, prefix, action: Some(RouteAction::Forward(hops)) }
    };
    let all: Vec<_> = (0..100_000).map(route).collect();
    for changes in all.chunks(5000) {
        publisher.change_routes(changes).unwrap();
        observe(&mut publisher, &mut readers);
    }
    let mut longest = Duration::ZERO;
    let default = ["0.0.0.0/0", "0.0.0.0/1", "12.0.0.0/6", "12.1.2.0/24"]
        .map(|prefix| change(scope, prefix, &gateways[1..]));
    for change in all.iter().step_by(2000).chain(&default) {
        let removal = RouteChange { action: None, ..change.clone() };
        // The fastest of some attempts: the first one may touch new pages.
        let mut fastest = [Duration::MAX; 2];
        for _ in 0..5 {
            for (change, fastest) in [&removal, change].into_iter().zip(&mut fastest) {
                let began = cpu_time();
                publisher.change_routes(std::slice::from_ref(change)).unwrap();
                *fastest = (cpu_time() - began).min(*fastest);
                observe(&mut publisher, &mut readers);
            }
        }
        longest = longest.max(fastest[0]).max(fastest[1]);
    }
    println!("longest change: {longest:?}");
    assert!(longest < Duration::from_millis(10), "{longest:?}");
}

#[test]
fn resolved_next_hop_of_a_tunnel_path_has_the_gateways_address() {
    let (mut publisher, mut readers) = build(config(1)).unwrap();
    publisher.change_routes(&[change(TUNNELS, "0.0.0.0/0", &[via(N3, "192.0.2.5")])]).unwrap();
    with_tunnels(&mut publisher, &mut readers, &["172.16.0.1"]);
    let index = publisher.find_next_hop(N3, ip("192.0.2.5")).unwrap();
    let mac = MacAddr([2, 9, 9, 9, 9, 9]);
    publisher.set_mac(index, mac, false);
    let view = readers[0].observe();
    let far = view.rules(SessionIndex(3)).unwrap().fars[0].next_hop;
    assert_ne!(far, index);
    assert_eq!(view.resolved_hop(far), Some((N3, mac)));
    assert_eq!(view.resolved_hop(NextHopIndex::NONE), None);
}
