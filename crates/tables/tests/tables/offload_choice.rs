//! Calls to an offload: at most so many in a turn of the control thread, and those about next hops,
//! paths and interfaces.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{N3, N6, config, id, install, interface, ip, rules};
use adit_rules::{
    DestinationInterface, HeaderRemoval, NetworkPart, NextHops, Offload, OffloadBatch,
    OffloadChoice, OffloadCounts, OffloadInterface, OffloadRefusal, OffloadRule, OffloadTotals,
    OffloadUsage, PdrEntry, SdfSet, SessionKey, SourceInterface, UeAddresses, share_per_part,
};
use adit_tables::{
    RouteAction, RouteChange, RouteHop, RoutesConfig, TablesConfig, build_with_offload,
};
use adit_types::{
    Direction, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, Nanos, NextHopIndex, PdrId,
    Precedence, SessionIndex, TcpMss, Teid,
};

const SESSIONS: u32 = 5000;

/// Sessions that are measured in a turn at most, of all and of the chosen ones, and puts in a turn
/// at most.
const MEASURED_MAX: u64 = 2 * 2048;
const PUTS_MAX: u64 = 16;

const CHOICE: OffloadChoice = OffloadChoice {
    sessions_max: 3000,
    enter_pps: 1,
    leave_pps: 1,
    calm: Nanos::from_secs(5),
    scan: Nanos::from_secs(10),
    watch: Nanos::from_millis(100),
    watch_bytes: 1000,
};

/// Counts the calls to it.
#[derive(Debug, Default)]
struct Asked {
    readings: AtomicU64,
    puts: AtomicU64,
    pkts: AtomicU64,
    /// Its next hops.
    hops: Mutex<BTreeMap<u32, (InterfaceId, MacAddr)>>,
    /// How long packets into tunnels may be.
    tunnel_mtu: AtomicU64,
    /// The gateway numbers of IPv4 blocks, and the next hops of numbers.
    networks: Mutex<BTreeMap<u16, u8>>,
    gateways: Mutex<BTreeMap<u8, Option<NextHopIndex>>>,
}

impl OffloadUsage for Asked {
    fn counted(&self, _: SessionIndex) -> OffloadCounts {
        self.readings.fetch_add(1, Ordering::Relaxed);
        OffloadCounts { ul_pkts: self.pkts.load(Ordering::Relaxed), ..OffloadCounts::default() }
    }

    fn take_back(&self, _: SessionIndex) {}

    fn divide(&self, _: SessionIndex, more: u64, others: u64) -> u64 {
        share_per_part(more, others)
    }
}

#[derive(Debug)]
struct CountingOffload {
    asked: Arc<Asked>,
    choice: Option<OffloadChoice>,
}

impl Offload for CountingOffload {
    fn put(
        &mut self,
        _: SessionIndex,
        _: Direction,
        _: &OffloadRule<'_>,
    ) -> Result<(), OffloadRefusal> {
        self.asked.puts.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn remove(&mut self, _: SessionIndex, _: Direction) {}

    fn add_key(&mut self, _: SessionKey, _: SessionIndex) {}

    fn remove_key(&mut self, _: SessionKey, _: SessionIndex) {}

    fn set_next_hop(&mut self, index: NextHopIndex, hop: Option<(InterfaceId, MacAddr)>) {
        let mut hops = self.asked.hops.lock().unwrap();
        match hop {
            Some(hop) => hops.insert(index.0, hop),
            None => hops.remove(&index.0),
        };
    }

    fn limit_tunnels(&mut self, mtu_bytes: u16) {
        self.asked.tunnel_mtu.store(mtu_bytes.into(), Ordering::Relaxed);
    }

    fn set_networks(&mut self, part: NetworkPart, number: u8) {
        if let NetworkPart::V4(block) = part {
            self.asked.networks.lock().unwrap().insert(block, number);
        }
    }

    fn set_gateway(&mut self, _: InterfaceSet, number: u8, hop: Option<NextHopIndex>) {
        self.asked.gateways.lock().unwrap().insert(number, hop);
    }

    fn close(&mut self) -> OffloadBatch {
        OffloadBatch(u64::MAX / 2)
    }

    fn passed(&self) -> OffloadBatch {
        OffloadBatch(u64::MAX)
    }

    fn usage(&self) -> Arc<dyn OffloadUsage> {
        let usage: Arc<Asked> = Arc::clone(&self.asked);
        usage
    }

    fn name(&self) -> &'static str {
        "counting"
    }

    fn totals(&self) -> OffloadTotals {
        OffloadTotals::default()
    }

    fn choice(&self) -> Option<OffloadChoice> {
        self.choice
    }
}

fn uplink(number: u32) -> adit_rules::SessionRules {
    let ue = UeAddresses { v4: Some(Ipv4Addr::from_bits((10 << 24) + number)), v6: None };
    let mut rules = rules(u64::from(number) + 1, &["192.0.2.9"]);
    rules.fars[0].destination = DestinationInterface::Core;
    rules.fars[0].outer_header_creation = None;
    rules.ue = vec![ue];
    rules.uplink = vec![PdrEntry {
        id: PdrId(1),
        precedence: Precedence(1),
        source: SourceInterface::Access,
        interfaces: InterfaceSet::ALL,
        teid: Some(Teid(number + 1)),
        qfis: Vec::new(),
        ue,
        ue_networks: Vec::new(),
        sdf: SdfSet::default(),
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIpv4),
        container_deletion: false,
        far: 0,
        qers: Default::default(),
        urrs: Default::default(),
    }];
    rules
}

#[test]
#[cfg_attr(miri, ignore = "thousands of sessions")]
fn a_turn_measures_and_puts_a_bounded_number_of_sessions_however_late_it_is() {
    let asked = Arc::new(Asked::default());
    let config = TablesConfig { sessions_max: SESSIONS as usize, ..config(0) };
    let choice = Some(CHOICE);
    let offload = Box::new(CountingOffload { asked: Arc::clone(&asked), choice });
    let (mut publisher, _) = build_with_offload(config, Some(offload)).unwrap();
    for number in 0..SESSIONS {
        publisher.apply(id(u64::from(number) + 1), install(number, &[], uplink(number)));
        while publisher.poll_observed().is_some() {}
    }
    let (mut most, mut puts) = (0, 0);
    for turn in 0..2000 {
        // Each session forwards a thousand packets between two turns, some of which are late by
        // minutes.
        asked.pkts.fetch_add(1000, Ordering::Relaxed);
        let late = if turn % 100 == 0 { 300 * turn } else { 0 };
        let now = Nanos::from_secs(1 + late) + Nanos::from_millis(10 * turn);
        let before = asked.readings.load(Ordering::Relaxed);
        publisher.turn(now);
        most = most.max(asked.readings.load(Ordering::Relaxed) - before);
        let all_puts = asked.puts.load(Ordering::Relaxed);
        assert!(all_puts - puts <= PUTS_MAX, "turn {turn}: {} puts", all_puts - puts);
        puts = all_puts;
    }
    assert!(most <= MEASURED_MAX, "{most} sessions in one turn");
    // Late measurements do not keep sessions from getting entries.
    assert!(most > 2048 && puts >= CHOICE.sessions_max as u64, "{most} sessions, {puts} puts");
}

#[test]
fn withheld_session_has_no_entry_until_it_is_released_and_published_again() {
    let asked = Arc::new(Asked::default());
    let offload = Box::new(CountingOffload { asked: Arc::clone(&asked), choice: None });
    let config = TablesConfig { sessions_max: 8, ..config(0) };
    let (mut publisher, _) = build_with_offload(config, Some(offload)).unwrap();
    let mut deltas = 0;
    let mut publish = |publisher: &mut adit_tables::Publisher| {
        deltas += 1;
        publisher.apply(id(deltas), install(3, &[], uplink(3)));
        while publisher.poll_observed().is_some() {}
        (asked.puts.load(Ordering::Relaxed), publisher.offload().unwrap().entries)
    };
    assert_eq!(publish(&mut publisher), (1, 1));
    let session = SessionIndex(3);
    publisher.withhold(session);
    publisher.withhold(session);
    assert_eq!(publisher.offload().unwrap().entries, 0);
    assert_eq!(publish(&mut publisher), (1, 0), "its rules changed meanwhile");
    assert!(!publisher.release_withheld(session), "another one withholds it");
    assert_eq!(publish(&mut publisher), (1, 0));
    assert!(publisher.release_withheld(session));
    assert_eq!(publish(&mut publisher), (2, 1));
}

#[test]
fn offload_knows_resolved_next_hops_unless_it_is_paused() {
    let asked = Arc::new(Asked::default());
    let offload = Box::new(CountingOffload { asked: Arc::clone(&asked), choice: None });
    let (mut publisher, _) = build_with_offload(config(0), Some(offload)).unwrap();
    let hops = || asked.hops.lock().unwrap().values().copied().collect::<Vec<_>>();
    let (first, second) = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 8]));
    let hop = publisher.ensure_next_hop(N3, ip("192.0.2.9")).unwrap();
    assert_eq!(hops(), [], "its address is unknown");
    publisher.set_mac(hop, first, false);
    assert_eq!(hops(), [(N3, first)]);
    publisher.pause_offload(true);
    assert_eq!(hops(), []);
    publisher.set_mac(hop, second, false);
    assert_eq!(hops(), [], "paused");
    publisher.pause_offload(false);
    assert_eq!(hops(), [(N3, second)]);
    publisher.clear_mac(hop);
    assert_eq!(hops(), []);
}

#[test]
fn offload_gets_the_narrowest_path_of_all() {
    let asked = Arc::new(Asked::default());
    let offload = Box::new(CountingOffload { asked: Arc::clone(&asked), choice: None });
    let (mut publisher, _) = build_with_offload(config(0), Some(offload)).unwrap();
    let peers = ["192.0.2.9", "192.0.2.10"];
    publisher.apply(id(1), install(3, &[], rules(4, &peers)));
    let [first, second] = peers.map(ip);
    for (peer, mtu_bytes, narrowest) in [
        (first, 1400, 1400),
        (second, 1300, 1300),
        (first, 1200, 1200),
        (first, u16::MAX, 1300),
        (second, u16::MAX, u16::MAX),
    ] {
        publisher.set_path_mtu(peer, mtu_bytes);
        assert_eq!(asked.tunnel_mtu.load(Ordering::Relaxed), u64::from(narrowest), "{peer}");
    }
}

#[test]
fn offload_leaves_to_workers_what_it_cannot_write_or_change() {
    for (role, outer_df, tcp_mss, has_v4, keeps_syns) in [
        (InterfaceRole::N3, true, TcpMss::Off, true, false),
        // The offload writes headers with DF only.
        (InterfaceRole::N3, false, TcpMss::Off, false, false),
        (InterfaceRole::N9, false, TcpMss::Off, false, false),
        (InterfaceRole::N6, false, TcpMss::Off, true, false),
        (InterfaceRole::N6, true, TcpMss::Clamp, true, true),
    ] {
        let mut of = interface(0, role, "192.0.2.1", "2001:db8:3::1");
        (of.outer_df, of.tcp_mss) = (outer_df, tcp_mss);
        let known = OffloadInterface::from(&of);
        assert_eq!((known.v4.is_some(), known.keeps_syns), (has_v4, keeps_syns), "{of:?}");
        assert!(known.v6.is_some());
    }
}

#[test]
fn offload_has_the_gateways_of_learned_routes_also_after_a_reload() {
    let asked = Arc::new(Asked::default());
    let offload = Box::new(CountingOffload { asked: Arc::clone(&asked), choice: None });
    let mut config = config(0);
    config.routes.clear();
    let interfaces = config.interfaces.clone();
    let (mut publisher, _) = build_with_offload(config, Some(offload)).unwrap();
    publisher.apply(id(1), install(3, &[], uplink(3)));
    while publisher.poll_observed().is_some() {}
    let change = |block: u8, gateway: Option<u8>| RouteChange {
        scope: InterfaceSet::only(N6),
        prefix: format!("8.{block}.0.0/16").parse().unwrap(),
        action: gateway.map(|host| {
            let gateway = Some(ip(&format!("198.51.100.{host}")));
            RouteAction::Forward(vec![RouteHop { interface: N6, gateway, weight: 1 }])
        }),
    };
    for (round, first) in [(0, 7), (1, 17)] {
        let learned = [1, 2, 3].map(|block| change(block, Some(first + block)));
        publisher.change_routes(&learned).unwrap();
        for block in 1..=3 {
            let number = asked.networks.lock().unwrap()[&(8 << 8 | u16::from(block))];
            let hop = publisher.ensure_next_hop(N6, ip(&format!("198.51.100.{}", first + block)));
            assert_ne!(number, 0, "round {round}");
            assert_eq!(asked.gateways.lock().unwrap()[&number], hop, "round {round}: {block}");
        }
        publisher.change_routes(&[1, 2, 3].map(|block| change(block, None))).unwrap();
        let interfaces = interfaces.clone();
        let reloaded = RoutesConfig { interfaces, local_switching_domains: vec![], routes: vec![] };
        let prepared = publisher.prepare_routes(reloaded).unwrap();
        publisher.publish_routes(prepared);
        // The offload has the present routes once a batch has passed.
        publisher.apply(id(round + 2), install(3, &[], uplink(3)));
        while publisher.poll_observed().is_some() {}
    }
}
