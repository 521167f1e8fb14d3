//! The published deltas as a worker sees them, and the fate of retired ones.

use std::net::{IpAddr, Ipv4Addr};

use crate::support::{
    N3, N6, config, id, install, interface, ip, route, rules, teid, ue, uninstall,
};
use adit_rules::{
    CorrelatedRateId, DropReason, Excess, Gate, GuaranteedShare, KeyChange, NextHops, PuntReason,
    QerEntry, QerMeter, RateLimit, RuleDelta, SessionKey, SessionRules,
};
use adit_tables::{
    Interface, Publisher, RoutesConfig, SessionTraffic, TablesConfig, TablesError, TablesReader,
    TablesView, Via, build,
};
use adit_types::{
    BitRate, Direction, DomainId, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, Nanos, QerId,
    SessionIndex, Teid, VlanId, WorkerId,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(TablesReader: Send);
assert_impl_all!(Publisher: Send);
assert_not_impl_any!(TablesReader: Clone, Copy);
assert_not_impl_any!(Publisher: Clone, Copy);

fn one_worker() -> (Publisher, TablesReader) {
    let (publisher, mut readers) = build(config(1)).unwrap();
    (publisher, readers.remove(0))
}

fn session_of_teid(view: &TablesView<'_>, value: u32) -> SessionIndex {
    let mut out = [SessionIndex::NONE];
    view.lookup_teids(&[Teid(value)], &mut out);
    out[0]
}

fn session_of_ue(view: &TablesView<'_>, addr: [u8; 4]) -> SessionIndex {
    let mut out = [SessionIndex::NONE];
    view.ues(DomainId(0)).lookup_v4(&[Ipv4Addr::from(addr).to_bits()], &mut out);
    out[0]
}

#[test]
fn delta_without_workers_is_observed_at_once() {
    let (mut publisher, _) = build(config(0)).unwrap();
    publisher.apply(id(1), install(3, &[teid(5)], rules(1, &[])));
    publisher.apply(id(2), uninstall(3, &[teid(5)]));
    assert_eq!(publisher.poll_observed(), Some(id(1)));
    assert_eq!(publisher.poll_observed(), Some(id(2)));
    assert_eq!(publisher.poll_observed(), None);
}

#[test]
fn delta_is_observed_in_order_when_every_online_worker_passed_a_boundary() {
    let (mut publisher, mut readers) = build(config(3)).unwrap();
    readers[0].observe();
    readers[1].observe();
    publisher.apply(id(1), install(0, &[], rules(1, &[])));
    publisher.apply(id(2), install(1, &[], rules(2, &[])));
    readers[0].observe();
    assert_eq!(publisher.poll_observed(), None, "worker 1 has not passed");
    readers[1].observe();
    publisher.apply(id(3), install(2, &[], rules(3, &[])));
    assert_eq!(publisher.poll_observed(), Some(id(1)));
    assert_eq!(publisher.poll_observed(), Some(id(2)));
    assert_eq!(publisher.poll_observed(), None);
    readers[0].go_offline();
    drop(readers.remove(1));
    assert_eq!(publisher.poll_observed(), Some(id(3)), "nobody online is left behind");
    assert_eq!(publisher.unobserved(), 0);
}

#[test]
fn view_finds_a_session_by_every_kind_of_key() {
    let (mut publisher, mut reader) = one_worker();
    let keys = [teid(0x0100_0005), ue(2), SessionKey::UeIpv6(DomainId(0), 0x2001_0db8_0000_0001)];
    publisher.apply(id(1), install(9, &keys, rules(77, &[])));
    let view = reader.observe();
    assert_eq!(session_of_teid(&view, 0x0100_0005), SessionIndex(9));
    assert_eq!(session_of_teid(&view, 0x0200_0005), SessionIndex::NONE, "same slot, other tag");
    assert_eq!(session_of_ue(&view, [10, 45, 0, 2]), SessionIndex(9));
    let mut out = [SessionIndex::NONE; 2];
    view.ues(DomainId(0)).lookup_v6(&[0x2001_0db8_0000_0001, u64::MAX], &mut out);
    assert_eq!(out, [SessionIndex(9), SessionIndex::NONE]);
    view.prefetch_slot(SessionIndex(9));
    view.prefetch_rules(SessionIndex(9));
    assert_eq!(view.rules(SessionIndex(9)).unwrap().up_seid.0, 77);
    assert!(view.rules(SessionIndex::NONE).is_none());
}

#[test]
fn teid_whose_place_is_taken_is_found_among_the_foreign_ones() {
    let (mut publisher, mut reader) = one_worker();
    publisher.apply(id(1), install(1, &[teid(5)], rules(1, &[])));
    publisher.apply(id(2), install(2, &[teid(5 + 64), teid(u32::MAX)], rules(2, &[])));
    let view = reader.observe();
    assert_eq!(session_of_teid(&view, 5), SessionIndex(1));
    assert_eq!(session_of_teid(&view, 5 + 64), SessionIndex(2));
    assert_eq!(session_of_teid(&view, u32::MAX), SessionIndex(2));
    publisher.apply(id(3), uninstall(1, &[teid(5)]));
    publisher.apply(id(4), install(2, &[teid(5 + 64)], rules(3, &[])));
    let view = reader.observe();
    assert_eq!(session_of_teid(&view, 5), SessionIndex::NONE);
    assert_eq!(session_of_teid(&view, 5 + 64), SessionIndex(2), "stays where it is");
    publisher.apply(id(5), uninstall(2, &[teid(5 + 64), teid(u32::MAX)]));
    let view = reader.observe();
    assert_eq!(session_of_teid(&view, 5 + 64), SessionIndex::NONE);
    assert_eq!(session_of_teid(&view, u32::MAX), SessionIndex::NONE);
}

#[test]
fn key_taken_over_by_another_session_survives_the_removal_of_the_first() {
    let (mut publisher, mut reader) = one_worker();
    publisher.apply(id(1), install(1, &[ue(9)], rules(1, &[])));
    publisher.apply(id(2), install(2, &[ue(9)], rules(2, &[])));
    publisher.apply(id(3), uninstall(1, &[ue(9)]));
    assert_eq!(session_of_ue(&reader.observe(), [10, 45, 0, 9]), SessionIndex(2));
}

#[test]
fn modification_replaces_rules_and_keys_of_one_session() {
    let (mut publisher, mut reader) = one_worker();
    publisher.apply(id(1), install(4, &[ue(1)], rules(1, &[])));
    let delta = RuleDelta {
        session: SessionIndex(4),
        keys: vec![KeyChange::Remove(ue(1)), KeyChange::Add(ue(2))],
        rules: Some(Box::new(rules(2, &[]))),
    };
    publisher.apply(id(2), delta);
    let view = reader.observe();
    assert_eq!(session_of_ue(&view, [10, 45, 0, 1]), SessionIndex::NONE);
    assert_eq!(session_of_ue(&view, [10, 45, 0, 2]), SessionIndex(4));
    assert_eq!(view.rules(SessionIndex(4)).unwrap().up_seid.0, 2);
}

#[test]
fn far_gets_the_next_hop_of_its_peer_on_n3() {
    let (mut publisher, mut reader) = one_worker();
    let peers = ["192.0.2.7", "10.9.9.9", "203.0.113.1", "2001:db8:3::7", "192.0.2.1"];
    publisher.apply(id(1), install(0, &[], rules(1, &peers)));
    let view = reader.observe();
    let hops: Vec<_> = view
        .rules(SessionIndex(0))
        .unwrap()
        .fars
        .iter()
        .map(|far| view.next_hop(far.next_hop).map(|hop| (hop.interface, hop.addr, hop.mac)))
        .collect();
    assert_eq!(hops[0], Some((N3, ip("192.0.2.7"), None)), "on the link");
    assert_eq!(hops[1], Some((N3, ip("192.0.2.254"), None)), "behind the gateway");
    assert_eq!(hops[2], None, "the default route of N6 is none of N3's");
    assert_eq!(hops[3], Some((N3, ip("2001:db8:3::7"), None)));
    assert_eq!(hops[4], None, "our own address");
    assert_eq!(publisher.counters().peers_without_route, 2);
}

#[test]
fn next_hop_of_a_far_is_pinned_until_its_last_rules_are_reclaimed() {
    let (mut publisher, mut reader) = one_worker();
    reader.observe();
    publisher.apply(id(1), install(0, &[], rules(1, &["192.0.2.7"])));
    let index = publisher.find_next_hop(N3, ip("192.0.2.7")).unwrap();
    publisher.apply(id(2), uninstall(0, &[]));
    publisher.poll_observed();
    assert!(publisher.is_pinned(index), "the worker may still hold the rules");
    assert!(!publisher.remove_next_hop(index));
    reader.observe();
    while publisher.poll_observed().is_some() {}
    assert!(!publisher.is_pinned(index));
    assert!(publisher.remove_next_hop(index));
    assert!(!publisher.remove_next_hop(index), "already on its way out");
}

#[test]
fn next_hop_index_is_not_reused_before_workers_passed_a_boundary() {
    let (mut publisher, mut reader) = one_worker();
    reader.observe();
    let before = publisher.next_hop_count();
    let index = publisher.ensure_next_hop(N6, ip("198.51.100.9")).unwrap();
    assert!(publisher.remove_next_hop(index));
    let other = publisher.ensure_next_hop(N6, ip("198.51.100.10")).unwrap();
    assert_ne!(other, index);
    publisher.poll_observed();
    assert_eq!(publisher.next_hop_count(), before + 2);
    reader.observe();
    publisher.poll_observed();
    assert_eq!(publisher.next_hop_count(), before + 1);
    assert_eq!(reader.observe().next_hop(index), None);
}

#[test]
fn changes_of_link_layer_addresses_are_counted() {
    let (mut publisher, mut reader) = one_worker();
    let index = publisher.ensure_next_hop(N6, ip("198.51.100.9")).unwrap();
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let mut seen = reader.observe().next_hop_version();
    let mut change = |reader: &mut TablesReader, has_changed: bool| {
        let changes = reader.observe().next_hop_version();
        assert_eq!(changes != seen, has_changed);
        seen = changes;
    };
    for (is_stale, has_changed) in [(false, true), (false, false), (true, true), (false, true)] {
        publisher.set_mac(index, mac, is_stale);
        change(&mut reader, has_changed);
        assert_eq!(reader.observe().resolved_hop(index), (!is_stale).then_some((N6, mac)));
    }
    assert!(publisher.remove_next_hop(index));
    change(&mut reader, true);
    assert_eq!(reader.observe().resolved_hop(index), None);
}

#[test]
fn hosts_asked_for_leave_a_quarter_of_the_next_hops_to_peers() {
    let (mut publisher, _reader) = one_worker();
    let made = (2..=250)
        .filter(|n| publisher.ensure_next_hop(N6, ip(&format!("198.51.100.{n}"))).is_some())
        .count();
    assert_eq!(made, 16 - 4 - 3, "16 in all, 4 kept, 3 gateways");
    assert!(publisher.counters().next_hops_refused > 0);
    publisher.apply(id(1), install(0, &[], rules(1, &["192.0.2.7"])));
    assert!(publisher.rules(SessionIndex(0)).unwrap().fars[0].next_hop.is_some());
}

#[test]
fn next_hop_off_the_link_is_refused() {
    let (mut publisher, _reader) = one_worker();
    for addr in ["203.0.113.1", "198.51.100.1", "198.51.100.0", "198.51.100.255", "ff02::1", "::"] {
        assert_eq!(publisher.ensure_next_hop(N6, ip(addr)), None, "{addr}");
    }
    assert_eq!(publisher.ensure_next_hop(InterfaceId(9), ip("198.51.100.2")), None);
    assert!(publisher.ensure_next_hop(N6, ip("fe80::5")).is_some());
}

#[test]
fn route_prefers_the_longest_prefix_and_keeps_roles_apart() {
    let mut config = config(1);
    config.routes.push(route(1, "8.8.0.0/16", "198.51.100.8"));
    let (mut publisher, mut readers) = build(config).unwrap();
    let on_link = publisher.ensure_next_hop(N6, ip("198.51.100.77")).unwrap();
    publisher.set_mac(on_link, MacAddr([2, 1, 1, 1, 1, 1]), false);
    let view = readers[0].observe();
    let hop = |role, addr: &str| {
        let found = view.route(role, InterfaceSet::ALL, ip(addr))?;
        let Via::Known(index) = found.via else { return Some((found.interface, None)) };
        Some((found.interface, view.next_hop(index).map(|hop| hop.addr)))
    };
    let n6 = InterfaceRole::N6;
    assert_eq!(hop(n6, "8.8.8.8"), Some((N6, Some(ip("198.51.100.8")))));
    assert_eq!(hop(n6, "9.9.9.9"), Some((N6, Some(ip("198.51.100.254")))));
    assert_eq!(hop(n6, "2606::1"), Some((N6, Some(ip("fe80::fe")))));
    assert_eq!(hop(n6, "198.51.100.77"), Some((N6, Some(ip("198.51.100.77")))));
    assert_eq!(hop(n6, "198.51.100.78"), Some((N6, None)), "on the link, not known yet");
    assert_eq!(hop(n6, "198.51.100.1"), None, "our own");
    assert_eq!(hop(n6, "198.51.100.255"), None, "directed broadcast");
    assert_eq!(hop(InterfaceRole::N3, "9.9.9.9"), None);
    let mac = view.next_hop(on_link).unwrap().mac;
    assert_eq!(mac, Some(MacAddr([2, 1, 1, 1, 1, 1])));
}

#[test]
fn route_of_the_same_prefix_is_chosen_among_the_interfaces_asked_for() {
    let mut config = config(1);
    config.interfaces.push(interface(2, InterfaceRole::N6, "198.51.100.1", "2001:db8:7::1"));
    config.routes.push(route(2, "0.0.0.0/0", "198.51.100.9"));
    config.routes.push(route(2, "9.0.0.0/8", "198.51.100.10"));
    let (_publisher, mut readers) = build(config).unwrap();
    let view = readers[0].observe();
    let gateway = |within, addr: &str| {
        let found = view.route(InterfaceRole::N6, within, ip(addr))?;
        let Via::Known(index) = found.via else { return None };
        view.next_hop(index).map(|hop| (hop.interface, hop.addr))
    };
    let (first, second) = (InterfaceSet::only(N6), InterfaceSet::only(InterfaceId(2)));
    assert_eq!(gateway(first, "8.8.8.8"), Some((N6, ip("198.51.100.254"))));
    assert_eq!(gateway(second, "8.8.8.8"), Some((InterfaceId(2), ip("198.51.100.9"))));
    assert_eq!(gateway(InterfaceSet::ALL, "8.8.8.8"), gateway(first, "8.8.8.8"));
    assert_eq!(gateway(first, "9.9.9.9"), Some((N6, ip("198.51.100.254"))), "not the other's");
    assert_eq!(gateway(second, "9.9.9.9"), Some((InterfaceId(2), ip("198.51.100.10"))));
    assert_eq!(gateway(InterfaceSet::NONE, "8.8.8.8"), None);
}

#[test]
fn session_traffic_counts_from_installation_over_all_workers() {
    let (mut publisher, mut readers) = build(config(2)).unwrap();
    let session = SessionIndex(5);
    publisher.apply(id(1), install(5, &[], rules(1, &[])));
    readers[0].observe().count_session(session, Direction::Uplink, 2, 200);
    readers[1].observe().count_session(session, Direction::Downlink, 1, 50);
    let expected = SessionTraffic { ul_pkts: 2, ul_bytes: 200, dl_pkts: 1, dl_bytes: 50 };
    assert_eq!(publisher.session_traffic(session), expected);
    publisher.apply(id(2), install(5, &[], rules(2, &[])));
    assert_eq!(publisher.session_traffic(session), expected, "a modification keeps the count");
    publisher.apply(id(3), uninstall(5, &[]));
    publisher.apply(id(4), install(5, &[], rules(3, &[])));
    assert_eq!(publisher.session_traffic(session), SessionTraffic::default());
}

#[test]
fn snapshot_identity_holds_only_when_every_packet_has_an_outcome() {
    let (publisher, mut readers) = build(config(2)).unwrap();
    let counters = readers[0].observe().counters();
    counters.received_pkts.add(5);
    counters.count_drops(DropReason::TeidUnknown, 1);
    counters.count_punt(PuntReason::Arp);
    counters.buffered_pkts.set(1);
    counters.count_transmitted(Direction::Uplink, 1, 100);
    assert!(!publisher.snapshot().identity_holds());
    counters.count_transmitted(Direction::Downlink, 1, 100);
    readers[1].observe().counters().originated_pkts.add(3);
    let snapshot = publisher.snapshot();
    assert!(snapshot.identity_holds());
    assert_eq!(snapshot.originated_pkts, 3);
    assert!(snapshot.drops().any(|drop| drop == (DropReason::TeidUnknown, 1)));
    assert!(snapshot.scalars().iter().any(|(name, n, _)| (*name, *n) == ("received_pkts", 5)));
}

#[test]
fn session_out_of_range_is_counted_and_still_observed() {
    let (mut publisher, _reader) = one_worker();
    publisher.apply(id(1), install(64, &[ue(1)], rules(1, &["192.0.2.7"])));
    assert_eq!(publisher.counters().sessions_out_of_range, 1);
    assert_eq!(publisher.poll_observed(), Some(id(1)));
}

#[test]
fn probe_has_passed_a_worker_that_looked_since_or_is_offline() {
    let (mut publisher, mut reader) = one_worker();
    reader.observe();
    publisher.probe();
    assert!(!publisher.has_passed_probe(WorkerId(0)));
    reader.observe();
    assert!(publisher.has_passed_probe(WorkerId(0)));
    publisher.probe();
    assert!(!publisher.has_passed_probe(WorkerId(0)));
    reader.go_offline();
    assert!(publisher.has_passed_probe(WorkerId(0)));
}

#[test]
fn interface_link_local_address_is_the_modified_eui_64() {
    let n3 =
        Interface { mac: MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]), ..config(0).interfaces[0] };
    assert_eq!(ip("fe80::5054:ff:fe12:3456"), std::net::IpAddr::V6(n3.link_local()));
}

#[test]
fn interface_with_host_prefixes_connects_nothing() {
    let mut config = config(1);
    config.routes.clear();
    for interface in &mut config.interfaces {
        (interface.v4, interface.v6) =
            (interface.v4.map(|(addr, _)| (addr, 32)), interface.v6.map(|(addr, _)| (addr, 128)));
    }
    let mut readers = build(config).unwrap().1;
    let view = readers[0].observe();
    let route = |addr| view.route(InterfaceRole::N3, InterfaceSet::ALL, ip(addr));
    for alone in ["192.0.2.1", "192.0.2.7", "2001:db8:3::1", "2001:db8:3::7"] {
        assert_eq!(route(alone), None, "{alone}");
    }
}

#[test]
fn configuration_mistakes_are_refused() {
    let refused = |change: fn(&mut TablesConfig)| {
        let mut config = config(1);
        change(&mut config);
        build(config).map(|_| ()).unwrap_err()
    };
    assert!(matches!(
        refused(|c| c.sessions_max = 0),
        TablesError::OutOfRange { name: "sessions_max", .. }
    ));
    assert!(matches!(
        refused(|c| c.teid_slot_bits = 32),
        TablesError::OutOfRange { name: "teid_slot_bits", .. }
    ));
    assert!(matches!(refused(|c| c.next_hops_max = 2), TablesError::TooManyGateways));
    assert!(matches!(
        refused(|c| c.interfaces[1].id = InterfaceId(3)),
        TablesError::InterfaceOutOfOrder(InterfaceId(3))
    ));
    assert!(matches!(
        refused(|c| c.interfaces[0].v4 = Some((Ipv4Addr::new(192, 0, 2, 1), 33))),
        TablesError::PrefixLength(N3)
    ));
    assert!(matches!(
        refused(|c| c.routes.push(route(7, "8.0.0.0/8", "192.0.2.9"))),
        TablesError::UnknownInterface(_)
    ));
    for (prefix, next_hop) in [("8.0.0.0/8", "203.0.113.1"), ("8.0.0.0/8", "fe80::1")] {
        let mut config = config(1);
        config.routes.push(route(0, prefix, next_hop));
        assert!(matches!(build(config), Err(TablesError::NextHopOffLink(_))));
    }
    assert!(matches!(
        refused(|c| c.routes.push(route(1, "0.0.0.0/0", "198.51.100.9"))),
        TablesError::DuplicateRoute(_)
    ));
    assert!(matches!(
        refused(|c| c.routes.push(route(1, "198.51.100.0/24", "198.51.100.9"))),
        TablesError::DuplicateRoute(_)
    ));
}

#[test]
fn ue_address_is_preferred_to_the_framed_routes_around_it() {
    let (mut publisher, mut reader) = one_worker();
    let framed = |text: &str| SessionKey::of_prefix(DomainId(0), text.parse().unwrap());
    publisher.apply(id(1), install(1, &[framed("10.45.0.0/16")], rules(1, &[])));
    publisher.apply(id(2), install(2, &[framed("10.45.0.0/24")], rules(2, &[])));
    publisher.apply(id(3), install(3, &[ue(7)], rules(3, &[])));
    let view = reader.observe();
    let of = |addr| session_of_ue(&view, addr);
    let found = [[10, 45, 0, 7], [10, 45, 0, 8], [10, 45, 1, 7], [10, 46, 0, 7]].map(of);
    let sessions = [SessionIndex(3), SessionIndex(2), SessionIndex(1), SessionIndex::NONE];
    assert_eq!(found, sessions);
    publisher.apply(id(4), uninstall(3, &[ue(7)]));
    publisher.apply(id(5), uninstall(2, &[framed("10.45.0.0/24")]));
    let view = reader.observe();
    assert_eq!(session_of_ue(&view, [10, 45, 0, 7]), SessionIndex(1));
    publisher.apply(id(6), uninstall(1, &[framed("10.45.0.0/16")]));
    assert_eq!(session_of_ue(&reader.observe(), [10, 45, 0, 7]), SessionIndex::NONE);
}

#[test]
fn bucket_that_no_qer_names_any_more_is_shared_with_nobody() {
    let (mut publisher, mut reader) = one_worker();
    let limit = RateLimit::new(BitRate::from_kbps(1000), Nanos(0), Excess::Policed);
    let qer = |number: u32| QerEntry {
        id: QerId(number),
        gate_uplink: Gate::Open,
        gate_downlink: Gate::Open,
        qfi: None,
        rqi: false,
        ppi: None,
        flow_tos: None,
        service_class: None,
        meter: Some(QerMeter {
            uplink: limit,
            downlink: limit,
            bucket: 0,
            correlated_rate: Some(CorrelatedRateId { cp: 1, correlation: number }),
            guaranteed: [GuaranteedShare::Nothing; 2],
            guaranteed_bucket: None,
        }),
        packet_rate: None,
    };
    let with = |qers: Vec<QerEntry>| SessionRules { qers, ..rules(1, &[]) };
    let sharers = |reader: &mut TablesReader, bucket| {
        let view = reader.observe();
        view.meter(SessionIndex(0), Direction::Uplink, bucket).unwrap().sharers()
    };
    publisher.apply(id(1), install(0, &[], with(vec![qer(1), qer(2)])));
    assert_eq!([0, 1].map(|bucket| sharers(&mut reader, bucket)), [Some(1), Some(1)]);
    publisher.apply(id(2), install(0, &[], with(vec![qer(1)])));
    assert!(sharers(&mut reader, 0).is_some());
    assert_eq!(sharers(&mut reader, 1), None);
}

#[test]
fn destinations_among_ues_have_no_gateway_in_common_while_there_are_ues() {
    let (mut publisher, mut reader) = one_worker();
    let mut delta = 0;
    let mut change = |publisher: &mut Publisher, session: u32, keys: &[SessionKey], adds: bool| {
        let keys = keys
            .iter()
            .map(|key| if adds { KeyChange::Add(*key) } else { KeyChange::Remove(*key) });
        let rules = adds.then(|| Box::new(rules(1, &[])));
        delta += 1;
        let keys = keys.collect();
        publisher.apply(id(delta), RuleDelta { session: SessionIndex(session), keys, rules });
    };
    let first = DomainId(0);
    let v4 = |addr: &str| SessionKey::UeIpv4(first, addr.parse().unwrap());
    let v6 = |addr: &str| {
        SessionKey::UeIpv6(first, adit_rules::rule::ue_ipv6_key(addr.parse().unwrap()))
    };
    let framed = |prefix: &str| SessionKey::Framed(first, prefix.parse().unwrap());
    // A UE address of the pool, two outside it in one block, and one of IPv6.
    let keys = [v4("10.45.0.1"), v4("10.46.0.1"), v4("10.46.0.2"), v6("2001:db8:45:1::")];
    let networks = [framed("172.16.0.0/15"), framed("2001:db8:5000::/47")];
    let mut check = |publisher: &mut Publisher, marked: &[&str], free: &[&str]| {
        let view = reader.observe();
        let gateway = |addr: &str| {
            let block = match ip(addr) {
                IpAddr::V4(addr) => view.network_block_v4(addr.to_bits()),
                IpAddr::V6(addr) => {
                    view.network_block_v6(u64::try_from(addr.to_bits() >> 64).unwrap())
                }
            };
            view.block_gateway(InterfaceSet::ALL, block)
        };
        for addr in marked {
            assert_eq!(gateway(addr), None, "{addr}");
        }
        for addr in free {
            assert!(gateway(addr).is_some(), "{addr}");
        }
        while publisher.poll_observed().is_some() {}
    };
    let near = ["10.45.0.9", "10.46.9.9", "2001:db8:45:ffff::"];
    let behind = ["172.16.0.1", "172.17.9.9", "2001:db8:5000::1", "2001:db8:5001:9::"];
    let far = ["8.8.8.8", "10.47.0.1", "172.18.0.1", "2001:db8:46::", "2606::1"];
    check(&mut publisher, &[], &[&near[..], &behind, &far].concat());
    change(&mut publisher, 1, &keys, true);
    change(&mut publisher, 2, &networks, true);
    check(&mut publisher, &[&near[..], &behind].concat(), &far);
    // Prefixes of zero bits: no packet takes these networks.
    change(&mut publisher, 3, &[framed("0.0.0.0/0"), framed("::/0")], true);
    check(&mut publisher, &[], &far);
    change(&mut publisher, 1, &keys[..2], false);
    check(&mut publisher, &["10.46.9.9", "2001:db8:45:1::"], &["10.45.0.1"]);
    change(&mut publisher, 1, &keys[2..], false);
    change(&mut publisher, 2, &networks, false);
    change(&mut publisher, 3, &[framed("0.0.0.0/0"), framed("::/0")], false);
    check(&mut publisher, &[], &[&near[..], &behind, &far].concat());
}

#[test]
fn packet_turns_round_at_the_interface_that_it_would_leave_through() {
    let (mut publisher, mut reader) = one_worker();
    let framed = |prefix: &str| SessionKey::Framed(DomainId(0), prefix.parse().unwrap());
    let keys = [
        SessionKey::UeIpv4(DomainId(0), Ipv4Addr::new(10, 45, 0, 1)),
        framed("198.51.100.128/25"),
        framed("198.51.0.0/16"),
    ];
    publisher.apply(id(1), install(1, &keys, rules(1, &[])));
    let view = reader.observe();
    let at = |addr: &str| view.local_switching_interface(InterfaceSet::ALL, ip(addr));
    assert_eq!(at("10.45.0.1"), Some(N6));
    assert_eq!(at("10.45.0.2"), None);
    // The link has 24 bits.
    assert_eq!((at("198.51.100.200"), at("198.51.100.7")), (Some(N6), None));
    assert_eq!(at("198.51.7.7"), Some(N6));
    assert_eq!((at("198.51.100.1"), at("198.51.100.255")), (None, None), "ours, and nobody's");
    assert_eq!(view.local_switching_interface(InterfaceSet::only(N3), ip("10.45.0.1")), None);
    let none = TablesConfig { local_switching_domains: Vec::new(), ..config(1) };
    let (mut publisher, mut readers) = build(none).unwrap();
    publisher.apply(id(1), install(1, &keys, rules(1, &[])));
    assert_eq!(
        readers[0].observe().local_switching_interface(InterfaceSet::ALL, ip("10.45.0.1")),
        None
    );
}

/// The configuration of [`config`] with another data network on the port of N6.
fn with_another_network() -> RoutesConfig {
    let TablesConfig { mut interfaces, mut routes, local_switching_domains, .. } = config(1);
    let network = interface(2, InterfaceRole::N6, "198.51.100.1", "2001:db8:7::1");
    let vlan = VlanId::new(7).unwrap();
    interfaces.push(Interface { port: interfaces[1].port, domain: DomainId(1), vlan, ..network });
    routes.push(route(2, "0.0.0.0/0", "198.51.100.253"));
    RoutesConfig { interfaces, local_switching_domains, routes }
}

#[test]
fn interfaces_that_are_added_have_ues_and_routes_of_their_own() {
    let (mut publisher, mut reader) = one_worker();
    publisher.apply(id(1), install(1, &[ue(9)], rules(1, &[])));
    let network = with_another_network();
    publisher.add_interfaces(&network).unwrap();
    assert_eq!(publisher.interface_ids().len(), 3);
    let added = InterfaceSet::only(InterfaceId(2));
    let host = ip("8.8.8.8");
    assert_eq!(reader.observe().interfaces(), network.interfaces);
    assert!(reader.observe().route(InterfaceRole::N6, added, host).is_none(), "not yet");
    let routes = publisher.prepare_routes(network).unwrap();
    assert_eq!(publisher.unresolved_gateway(&routes), Some(ip("192.0.2.254")));
    publisher.publish_routes(routes);
    let same = SessionKey::UeIpv4(DomainId(1), Ipv4Addr::new(10, 45, 0, 9));
    publisher.apply(id(2), install(2, &[same], rules(2, &[])));
    let view = reader.observe();
    let via = view.route(InterfaceRole::N6, added, host).unwrap();
    assert_eq!(via.interface, InterfaceId(2));
    let found = |domain| view.ues(DomainId(domain)).session_v4(0x0a2d_0009);
    assert_eq!((found(0), found(1)), (SessionIndex(1), SessionIndex(2)));
    assert!(!view.is_one_domain());
    publisher.apply(id(3), uninstall(2, &[same]));
    assert_eq!(reader.observe().ues(DomainId(1)).session_v4(0x0a2d_0009), SessionIndex::NONE);
}

#[test]
fn interfaces_change_in_no_other_way() {
    let (mut publisher, mut reader) = one_worker();
    let add = |publisher: &mut Publisher, edit: fn(&mut RoutesConfig)| {
        let mut network = with_another_network();
        edit(&mut network);
        publisher.add_interfaces(&network)
    };
    let differ = Err(TablesError::InterfacesDiffer);
    assert_eq!(add(&mut publisher, |of| of.interfaces[0].v4 = None), differ);
    assert_eq!(add(&mut publisher, |of| of.interfaces.truncate(1)), differ);
    assert_eq!(add(&mut publisher, |of| of.interfaces[2].port = adit_types::PortId(9)), differ);
    assert_eq!(add(&mut publisher, |of| of.interfaces[2].domain = DomainId(2)), differ);
    let far = add(&mut publisher, |of| of.routes[3].next_hop = ip("192.0.2.9"));
    assert!(matches!(far, Err(TablesError::NextHopOffLink(_))), "{far:?}");
    assert_eq!(reader.observe().interfaces().len(), 2);
    assert_eq!(
        add(&mut publisher, |of| of.interfaces.truncate(2)),
        Err(TablesError::UnknownInterface(route(2, "0.0.0.0/0", "198.51.100.253")))
    );
}
