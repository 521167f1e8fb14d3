//! The neighbor cache over the tables, under virtual time.

use std::net::{IpAddr, Ipv4Addr};

use crate::support::{N3, N6, config, install, ip, rules, uninstall};
use adit_rules::{AddressConflict, DeltaId, NextHops, WorkerCommand, WorkerEvent};
use adit_tables::neighbor::{NeighborCache, NeighborEntry, NeighborState};
use adit_tables::{Publisher, Route, TablesReader, Via, build};
use adit_types::{
    InterfaceId, InterfaceRole, InterfaceSet, IpPrefix, Ipv4Prefix, MacAddr, Nanos, NextHopIndex,
};

const HOST: &str = "198.51.100.9";
const MAC_A: MacAddr = MacAddr([2, 0xa, 0, 0, 0, 1]);
const MAC_B: MacAddr = MacAddr([2, 0xb, 0, 0, 0, 1]);

struct NeighborFixture {
    publisher: Publisher,
    reader: TablesReader,
    cache: NeighborCache,
    now: Nanos,
}

impl NeighborFixture {
    /// One worker; no routes, hence no gateways.
    fn new() -> Self {
        let mut config = config(1);
        config.routes.clear();
        let (publisher, mut readers) = build(config).unwrap();
        let cache = NeighborCache::new(&publisher);
        Self { publisher, reader: readers.remove(0), cache, now: Nanos::from_secs(100) }
    }

    fn request(&mut self, interface: InterfaceId, addr: &str) {
        let event = WorkerEvent::NeighborUnresolved { interface, addr: ip(addr) };
        self.cache.handle_event(self.now, event, &mut self.publisher);
    }

    fn learn(&mut self, addr: &str, mac: MacAddr, solicited: bool) {
        self.learn_with(addr, mac, solicited, AddressConflict::Verify);
    }

    fn learn_with(&mut self, addr: &str, mac: MacAddr, solicited: bool, conflict: AddressConflict) {
        let (interface, addr) = (N6, ip(addr));
        let event = WorkerEvent::NeighborLearned { interface, addr, mac, solicited, conflict };
        self.cache.handle_event(self.now, event, &mut self.publisher);
    }

    /// Lets time pass, deadline by deadline; returns the solicitations and when, in milliseconds
    /// from now.
    fn pass(&mut self, span: Nanos) -> Vec<(u64, Option<MacAddr>)> {
        let (start, end) = (self.now, self.now + span);
        let mut asked = self.solicitations(start);
        while let Some(at) = self.cache.poll_timeout().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.cache.handle_timeout(self.now, &mut self.publisher);
            asked.extend(self.solicitations(start));
        }
        self.now = end;
        asked
    }

    fn solicitations(&mut self, start: Nanos) -> Vec<(u64, Option<MacAddr>)> {
        let at = self.now.since(start).0 / 1_000_000;
        std::iter::from_fn(|| self.cache.poll_command())
            .map(|command| match command {
                WorkerCommand::Solicit { unicast, .. } => (at, unicast),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn entry(&self, addr: &str) -> Option<NeighborEntry> {
        self.cache.entries().find(|entry| entry.addr == ip(addr))
    }

    fn state(&self, addr: &str) -> Option<NeighborState> {
        self.entry(addr).map(|entry| entry.state)
    }

    /// The address that a worker reads, leaving its mark on stale entries.
    fn worker_mac(&mut self, interface: InterfaceId, addr: IpAddr) -> Option<MacAddr> {
        let index = self.publisher.find_next_hop(interface, addr)?;
        self.reader.observe().next_hop(index)?.mac
    }

    fn reachable() -> Self {
        let mut fixture = Self::new();
        fixture.request(N6, HOST);
        fixture.learn(HOST, MAC_A, true);
        while fixture.cache.poll_command().is_some() {}
        fixture
    }
}

/// The host answers.
fn answer(interface: InterfaceId, addr: &str) -> WorkerEvent {
    let (addr, mac, solicited) = (ip(addr), MAC_A, true);
    let conflict = AddressConflict::Verify;
    WorkerEvent::NeighborLearned { interface, addr, mac, solicited, conflict }
}

/// A station with this address answers.
fn answer_of(addr: &str, mac: MacAddr) -> WorkerEvent {
    let (addr, conflict) = (ip(addr), AddressConflict::Verify);
    WorkerEvent::NeighborLearned { interface: N3, addr, mac, solicited: true, conflict }
}

const fn secs(n: u64) -> Nanos {
    Nanos::from_secs(n)
}

#[test]
fn own_addresses_are_announced_three_times_a_second_apart() {
    let mut config = config(0);
    config.routes.clear();
    let (mut publisher, _) = build(config).unwrap();
    let mut cache = NeighborCache::new(&publisher);
    assert_eq!(
        (cache.poll_command(), cache.poll_timeout()),
        (None, None),
        "not before it is told to"
    );
    cache.announce(secs(7), &publisher);
    let mut at = secs(7);
    for next in [Some(secs(8)), Some(secs(9)), None] {
        let announced: Vec<_> = std::iter::from_fn(|| cache.poll_command()).collect();
        assert_eq!(announced, [N3, N6].map(|interface| WorkerCommand::Announce { interface }));
        cache.handle_timeout(Nanos(at.0 + secs(1).0 - 1), &mut publisher);
        assert_eq!((cache.poll_command(), cache.poll_timeout()), (None, next));
        at = next.unwrap_or(at);
        cache.handle_timeout(at, &mut publisher);
    }
    assert_eq!(cache.poll_command(), None);
}

#[test]
fn silent_host_is_asked_three_times_held_down_and_forgotten() {
    let mut fixture = NeighborFixture::new();
    fixture.request(N6, HOST);
    assert_eq!(fixture.state(HOST), Some(NeighborState::Incomplete));
    assert_eq!(fixture.pass(secs(3)), [(0, None), (1000, None), (2000, None)]);
    assert_eq!(fixture.state(HOST), Some(NeighborState::Failed));
    fixture.request(N6, HOST);
    assert_eq!(fixture.pass(Nanos::from_millis(2999)), [], "held down");
    fixture.pass(secs(1));
    assert_eq!(fixture.state(HOST), None);
    assert_eq!(fixture.publisher.find_next_hop(N6, ip(HOST)), None);
    fixture.request(N6, HOST);
    assert_eq!(fixture.pass(Nanos(0)), [(0, None)], "asked again on demand");
}

#[test]
fn answer_publishes_the_address_to_workers() {
    let mut fixture = NeighborFixture::new();
    fixture.request(N6, HOST);
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), None);
    fixture.learn(HOST, MAC_A, true);
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A));
    assert_eq!(fixture.state(HOST), Some(NeighborState::Reachable));
}

#[test]
fn unused_host_goes_stale_and_is_forgotten_without_a_question() {
    let mut fixture = NeighborFixture::reachable();
    assert_eq!(fixture.pass(secs(31)), []);
    assert_eq!(fixture.state(HOST), Some(NeighborState::Stale));
    assert_eq!(fixture.pass(secs(64)), []);
    assert_eq!(fixture.state(HOST), None);
}

#[test]
fn stale_host_in_use_is_probed_and_stays_usable() {
    let mut fixture = NeighborFixture::reachable();
    fixture.pass(secs(31));
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A));
    assert_eq!(fixture.pass(secs(4)), [(4000, Some(MAC_A))]);
    assert_eq!(fixture.state(HOST), Some(NeighborState::Probe));
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A));
    fixture.learn(HOST, MAC_A, true);
    assert_eq!(fixture.state(HOST), Some(NeighborState::Reachable));
}

#[test]
fn host_that_fails_its_probes_is_forgotten() {
    let mut fixture = NeighborFixture::reachable();
    fixture.pass(secs(31));
    fixture.worker_mac(N6, ip(HOST));
    let probe = Some(MAC_A);
    assert_eq!(fixture.pass(secs(8)), [(4000, probe), (5000, probe), (6000, probe)]);
    assert_eq!(fixture.state(HOST), None);
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), None);
    assert_eq!(fixture.cache.counters().failures, 1);
}

#[test]
fn announcement_of_a_stranger_creates_no_entry() {
    let mut fixture = NeighborFixture::reachable();
    fixture.learn("198.51.100.10", MAC_A, false);
    fixture.learn("198.51.100.11", MAC_A, true);
    assert_eq!(fixture.cache.entries().count(), 1);
    assert_eq!(fixture.publisher.next_hop_count(), 1);
}

/// A forged announcement, and a forged answer without a request.
#[test]
fn claim_of_another_station_changes_nothing_while_the_known_one_answers() {
    for solicited in [false, true] {
        let mut fixture = NeighborFixture::reachable();
        fixture.learn(HOST, MAC_B, solicited);
        assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A));
        assert_eq!(fixture.pass(Nanos(0)), [(0, Some(MAC_A)), (0, Some(MAC_B))], "both are asked");
        fixture.learn(HOST, MAC_B, true);
        assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A), "another one answered");
        fixture.learn(HOST, MAC_A, true);
        assert_eq!(fixture.state(HOST), Some(NeighborState::Reachable));
        assert_eq!(fixture.pass(secs(20)), []);
        assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A));
        let counters = fixture.cache.counters();
        assert_eq!((counters.mac_changes, counters.claims_refuted), (0, 1));
    }
}

/// A gateway that failed over: the new one announced itself once, and the old one is dead.
#[test]
fn claim_is_believed_after_a_second_without_an_answer_of_the_known_station() {
    let mut fixture = NeighborFixture::reachable();
    fixture.learn(HOST, MAC_B, false);
    let asked = fixture.pass(Nanos::from_millis(999));
    let [a, b] = [MAC_A, MAC_B].map(Some);
    assert_eq!(asked, [(0, a), (0, b), (333, a), (666, a)]);
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A), "packets go on meanwhile");
    assert_eq!(fixture.pass(Nanos::from_millis(1)), [(0, Some(MAC_B))], "the new one is asked");
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_B));
    fixture.learn(HOST, MAC_B, true);
    assert_eq!(fixture.state(HOST), Some(NeighborState::Reachable));
    assert_eq!(fixture.cache.counters().mac_changes, 1);
}

/// Another station claims the address of the gateway, and answers solicitations.
#[test]
fn claim_of_a_station_that_answers_is_believed_at_once_unless_the_known_one_answers_too() {
    let mut fixture = NeighborFixture::reachable();
    fixture.learn(HOST, MAC_B, false);
    fixture.pass(Nanos::from_millis(1));
    fixture.learn(HOST, MAC_B, true);
    fixture.pass(Nanos::from_millis(38));
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A), "it has 40 ms");
    assert_eq!(fixture.pass(Nanos::from_millis(1)), [(1, Some(MAC_A))], "and is asked once more");
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_B));
    assert_eq!(fixture.state(HOST), Some(NeighborState::Reachable));
    // A forger was quicker than the known station.
    fixture.pass(Nanos::from_millis(900));
    fixture.learn(HOST, MAC_A, true);
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A));
    let counters = fixture.cache.counters();
    assert_eq!((counters.mac_changes, counters.claims_refuted), (1, 1));
}

#[test]
fn unasked_override_for_a_gateway_is_a_claim() {
    let mut fixture = NeighborFixture::new();
    let peer = "192.0.2.7";
    fixture.publisher.apply(DeltaId(1), install(0, &[], rules(1, &[peer])));
    fixture.cache.handle_changes(fixture.now, &mut fixture.publisher);
    fixture.cache.handle_event(fixture.now, answer(N3, peer), &mut fixture.publisher);
    let WorkerEvent::NeighborLearned { interface, addr, .. } = answer(N3, peer) else { panic!() };
    let (mac, solicited, conflict) = (MAC_B, false, AddressConflict::Replace);
    let forged = WorkerEvent::NeighborLearned { interface, addr, mac, solicited, conflict };
    fixture.cache.handle_event(fixture.now, forged, &mut fixture.publisher);
    assert_eq!(fixture.worker_mac(N3, addr), Some(MAC_A));
    fixture.cache.handle_event(fixture.now, answer(N3, peer), &mut fixture.publisher);
    assert_eq!(fixture.cache.counters().claims_refuted, 1);
}

#[test]
fn flood_of_claims_asks_both_stations_once_a_second() {
    let mut fixture = NeighborFixture::reachable();
    let mut asked = 0;
    for round in 0..10_000_u32 {
        let [.., hi, lo] = round.to_be_bytes();
        fixture.learn(HOST, MacAddr([2, 0xbb, 0, 0, hi, lo]), round % 2 == 0);
        let solicitations = fixture.pass(Nanos::from_millis(1));
        asked += solicitations.len();
        if !solicitations.is_empty() {
            fixture.learn(HOST, MAC_A, true);
        }
        assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A), "{round}");
    }
    assert!((18..=22).contains(&asked), "{asked}");
}

/// Spec: RFC 4861 §7.2.5 (I).
#[test]
fn advertisement_without_override_makes_a_reachable_neighbor_stale_and_no_more() {
    for solicited in [false, true] {
        let mut fixture = NeighborFixture::reachable();
        fixture.learn_with(HOST, MAC_B, solicited, AddressConflict::Doubt);
        assert_eq!(fixture.state(HOST), Some(NeighborState::Stale));
        assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A));
        let before = fixture.entry(HOST);
        fixture.learn_with(HOST, MAC_B, solicited, AddressConflict::Doubt);
        assert_eq!(fixture.entry(HOST), before);
        assert_eq!(fixture.pass(secs(5)), [(5000, Some(MAC_A))], "it is in use");
        fixture.learn_with(HOST, MAC_B, solicited, AddressConflict::Doubt);
        assert_eq!(fixture.state(HOST), Some(NeighborState::Probe));
        fixture.learn(HOST, MAC_A, true);
        assert_eq!(fixture.state(HOST), Some(NeighborState::Reachable));
        assert_eq!(fixture.cache.counters().mac_changes, 0);
    }
}

/// Spec: RFC 4861 §7.2.5 (II).
#[test]
fn advertisement_with_override_replaces_the_address_at_once() {
    let mut fixture = NeighborFixture::reachable();
    fixture.learn_with(HOST, MAC_B, false, AddressConflict::Replace);
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_B));
    assert_eq!(fixture.state(HOST), Some(NeighborState::Stale));
    assert_eq!(fixture.pass(secs(5)), [(5000, Some(MAC_B))]);
    fixture.learn_with(HOST, MAC_A, true, AddressConflict::Replace);
    assert_eq!(fixture.worker_mac(N6, ip(HOST)), Some(MAC_A), "the answer to the probe");
    assert_eq!(fixture.state(HOST), Some(NeighborState::Reachable));
    assert_eq!(fixture.cache.counters().mac_changes, 2);
}

#[test]
fn doubted_gateway_is_asked_without_traffic_at_a_bounded_rate() {
    let mut fixture = NeighborFixture::new();
    let peer = "192.0.2.7";
    fixture.publisher.apply(DeltaId(1), install(0, &[], rules(1, &[peer])));
    fixture.cache.handle_changes(fixture.now, &mut fixture.publisher);
    fixture.cache.handle_event(fixture.now, answer(N3, peer), &mut fixture.publisher);
    fixture.solicitations(Nanos(0));
    let WorkerEvent::NeighborLearned { interface, addr, .. } = answer(N3, peer) else { panic!() };
    let conflict = AddressConflict::Doubt;
    let (mac, solicited) = (MAC_B, false);
    let doubt = WorkerEvent::NeighborLearned { interface, addr, mac, solicited, conflict };
    let mut asked = 0;
    for _ in 0..3000 {
        fixture.cache.handle_event(fixture.now, doubt, &mut fixture.publisher);
        let solicitations = fixture.pass(Nanos::from_millis(1));
        asked += solicitations.len();
        if !solicitations.is_empty() {
            fixture.cache.handle_event(fixture.now, answer(N3, peer), &mut fixture.publisher);
        }
    }
    assert!((2..=6).contains(&asked), "{asked}");
    assert_eq!(fixture.worker_mac(N3, ip(peer)), Some(MAC_A));
}

#[test]
fn impossible_addresses_are_refused() {
    let mut fixture = NeighborFixture::new();
    fixture.request(N6, HOST);
    fixture.learn(HOST, MacAddr::BROADCAST, true);
    fixture.learn(HOST, MacAddr::default(), true);
    fixture.learn(HOST, MacAddr([2, 0, 0, 0, 0, 1]), true);
    fixture.learn("198.51.100.1", MAC_A, false);
    assert_eq!(fixture.state(HOST), Some(NeighborState::Incomplete));
    assert_eq!(fixture.cache.counters().seen_refused, 4);
    fixture.request(N6, "203.0.113.1");
    fixture.request(InterfaceId(200), HOST);
    assert_eq!(fixture.cache.counters().wanted_refused, 2);
}

#[test]
fn flood_of_wanted_hosts_is_bounded() {
    let mut fixture = NeighborFixture::new();
    for n in 2..=254 {
        fixture.request(N6, &format!("198.51.100.{n}"));
    }
    assert_eq!(fixture.cache.entries().count(), 12, "three quarters of 16");
    fixture.pass(secs(10));
    assert_eq!(fixture.cache.entries().count(), 0);
    fixture.reader.observe();
    fixture.publisher.poll_observed();
    assert_eq!(fixture.publisher.next_hop_count(), 0, "indices are free again");
}

#[test]
fn gateway_is_resolved_without_traffic_and_tried_for_ever() {
    let (mut publisher, _) = build(config(0)).unwrap();
    let mut cache = NeighborCache::new(&publisher);
    let mut now = Nanos(0);
    cache.handle_timeout(now, &mut publisher);
    assert_eq!(cache.entries().filter(|entry| entry.pinned).count(), 3);
    while let Some(at) = cache.poll_timeout().filter(|at| *at < secs(60)) {
        now = at;
        cache.handle_timeout(now, &mut publisher);
    }
    assert_eq!(cache.entries().count(), 3);
    assert_eq!(
        cache.counters().solicits,
        3 * 59,
        "one a second, and a second until they count as absent"
    );
}

#[test]
fn gateway_that_answers_after_an_outage_is_there_at_once() {
    let mut fixture = NeighborFixture::new();
    let peer = "192.0.2.7";
    fixture.publisher.apply(DeltaId(1), install(0, &[], rules(1, &[peer])));
    fixture.cache.handle_changes(fixture.now, &mut fixture.publisher);
    fixture.pass(secs(10));
    assert_eq!(fixture.state(peer), Some(NeighborState::Failed));
    assert_eq!(fixture.pass(secs(1)).len(), 1, "it is asked each second");
    fixture.cache.handle_event(fixture.now, answer(N3, peer), &mut fixture.publisher);
    assert_eq!(fixture.state(peer), Some(NeighborState::Reachable));
    assert_eq!(fixture.worker_mac(N3, ip(peer)), Some(MAC_A));
}

#[test]
fn gateway_that_moved_without_a_word_is_found_when_nothing_comes_back() {
    let mut fixture = NeighborFixture::new();
    let peer = "192.0.2.7";
    fixture.publisher.apply(DeltaId(1), install(0, &[], rules(1, &[peer])));
    fixture.cache.handle_changes(fixture.now, &mut fixture.publisher);
    fixture.cache.handle_event(fixture.now, answer(N3, peer), &mut fixture.publisher);
    fixture.pass(secs(5));
    // The known station and all others are probed; packets still go to the known one.
    fixture.cache.handle_silence(fixture.now, N3);
    assert_eq!(fixture.pass(Nanos(0)), [(0, Some(MAC_A)), (0, None)]);
    assert_eq!(fixture.worker_mac(N3, ip(peer)), Some(MAC_A));
    // Another station answers, and the known one does not within 40 ms.
    let other = answer_of(peer, MAC_B);
    fixture.cache.handle_event(fixture.now, other, &mut fixture.publisher);
    fixture.pass(Nanos::from_millis(39));
    assert_eq!(fixture.worker_mac(N3, ip(peer)), Some(MAC_A));
    fixture.pass(Nanos::from_millis(1));
    assert_eq!(fixture.worker_mac(N3, ip(peer)), Some(MAC_B));
    assert_eq!(fixture.state(peer), Some(NeighborState::Reachable));
    // A station that answers keeps the address, whichever others answer.
    fixture.pass(secs(2));
    fixture.cache.handle_silence(fixture.now, N3);
    let forged = answer_of(peer, MAC_A);
    fixture.cache.handle_event(fixture.now, forged, &mut fixture.publisher);
    let known = answer_of(peer, MAC_B);
    fixture.cache.handle_event(fixture.now, known, &mut fixture.publisher);
    fixture.pass(secs(1));
    assert_eq!(fixture.worker_mac(N3, ip(peer)), Some(MAC_B));
    assert_eq!(fixture.state(peer), Some(NeighborState::Reachable));
    // No station of another link is probed.
    fixture.cache.handle_silence(fixture.now, N6);
    assert_eq!(fixture.pass(Nanos(0)), []);
}

#[test]
fn peer_of_a_far_is_kept_resolved_and_ages_out_with_its_rules() {
    let mut fixture = NeighborFixture::new();
    let peer = "192.0.2.7";
    fixture.publisher.apply(DeltaId(1), install(0, &[], rules(1, &[peer])));
    fixture.cache.handle_changes(fixture.now, &mut fixture.publisher);
    assert_eq!(fixture.pass(Nanos(0)), [(0, None)]);
    let seen = answer(N3, peer);
    fixture.cache.handle_event(fixture.now, seen, &mut fixture.publisher);
    assert_eq!(fixture.pass(secs(30)), [(30_000, Some(MAC_A))], "probed without being used");
    fixture.cache.handle_event(fixture.now, seen, &mut fixture.publisher);
    fixture.publisher.apply(DeltaId(2), uninstall(0, &[]));
    fixture.reader.observe();
    while fixture.publisher.poll_observed().is_some() {}
    fixture.cache.handle_changes(fixture.now, &mut fixture.publisher);
    assert!(!fixture.entry(peer).unwrap().pinned);
    fixture.pass(secs(100));
    assert_eq!(fixture.state(peer), None);
}

#[test]
fn pinned_peer_that_fails_its_probes_is_looked_for_again() {
    let mut fixture = NeighborFixture::new();
    let peer = "192.0.2.7";
    fixture.publisher.apply(DeltaId(1), install(0, &[], rules(1, &[peer])));
    fixture.cache.handle_changes(fixture.now, &mut fixture.publisher);
    fixture.solicitations(Nanos(0));
    let seen = answer(N3, peer);
    fixture.cache.handle_event(fixture.now, seen, &mut fixture.publisher);
    let asked = fixture.pass(secs(33));
    assert_eq!(asked.last(), Some(&(33_000, None)), "everyone is asked");
    assert_eq!(fixture.state(peer), Some(NeighborState::Incomplete));
    assert_eq!(fixture.worker_mac(N3, ip(peer)), None, "the old address is gone");
}

#[test]
fn host_that_becomes_a_peer_while_stale_is_probed_at_once() {
    let mut fixture = NeighborFixture::new();
    let peer = "192.0.2.7";
    fixture.request(N3, peer);
    fixture.solicitations(Nanos(0));
    let seen = answer(N3, peer);
    fixture.cache.handle_event(fixture.now, seen, &mut fixture.publisher);
    fixture.pass(secs(31));
    assert_eq!(fixture.state(peer), Some(NeighborState::Stale));
    fixture.publisher.apply(DeltaId(1), install(0, &[], rules(1, &[peer])));
    fixture.cache.handle_changes(fixture.now, &mut fixture.publisher);
    assert_eq!(fixture.state(peer), Some(NeighborState::Probe));
}

#[test]
fn events_of_other_rooms_change_nothing() {
    let mut fixture = NeighborFixture::new();
    let event = WorkerEvent::EndMarker { session: adit_types::SessionIndex(0) };
    fixture.cache.handle_event(fixture.now, event, &mut fixture.publisher);
    assert_eq!(fixture.cache.poll_timeout(), None);
    assert_eq!(fixture.publisher.next_hop(NextHopIndex(0)), None);
}

#[test]
fn only_station_of_a_link_is_known_at_once_and_never_solicited() {
    let mut config = config(1);
    let gateway = ip("0.0.0.0");
    config.interfaces[usize::from(N6.0)].station = Some(MAC_A);
    config.routes = vec![Route {
        interface: N6,
        prefix: IpPrefix::V4(Ipv4Prefix::containing(Ipv4Addr::UNSPECIFIED, 0).unwrap()),
        next_hop: gateway,
    }];
    let (mut publisher, mut readers) = build(config).unwrap();
    let mut cache = NeighborCache::new(&publisher);
    cache.announce(Nanos(0), &publisher);
    let announced: Vec<_> = std::iter::from_fn(|| cache.poll_command()).collect();
    assert_eq!(announced, [WorkerCommand::Announce { interface: N3 }]);
    cache.handle_changes(Nanos(0), &mut publisher);
    let entry = cache.entries().next().unwrap();
    assert_eq!((entry.state, entry.mac), (NeighborState::Fixed, Some(MAC_A)));
    // On the previous link, and beyond it.
    let view = readers[0].observe();
    let n6 = InterfaceSet::only(N6);
    for addr in [HOST, "8.8.8.8"] {
        let hop = view.route(InterfaceRole::N6, n6, ip(addr)).unwrap();
        assert_eq!(hop.via, Via::Known(entry.index), "{addr}");
    }
    assert!(publisher.ensure_next_hop(N6, ip(HOST)).is_none(), "no other station");
    for far in [1_000_000, 2_000_000].map(Nanos::from_secs) {
        cache.handle_timeout(far, &mut publisher);
        while cache.poll_command() == Some(WorkerCommand::Announce { interface: N3 }) {}
    }
    assert_eq!((cache.poll_timeout(), cache.poll_command()), (None, None));
}
