//! Builds the tables with their writers and readers.

use std::collections::VecDeque;

use adit_rules::{Offload, PublishedRules, Shapes};
use adit_types::limits::UE_POOL_INDEX_MAX;
use adit_types::{DomainId, InterfaceSet, WorkerId};

use super::route_tables::RouteTables;
use super::routes::local_switching_interfaces;
use super::{Publisher, PublisherCounters, RoutesWriter};
use crate::aggregates::Aggregates;
use crate::config::{Interface, TablesConfig, TablesError, check};
use crate::correlated_rates::CorrelatedRateIndexes;
use crate::counters::WorkerCounters;
use crate::fast_rule::FastRuleTable;
use crate::gtpu_peers::GtpuPeerWriter;
use crate::meters::MeterTable;
use crate::next_hop::NextHopWriter;
use crate::offload::OffloadWriter;
use crate::publish::{SlotReader, slots};
use crate::rate_changes::RateChangeRing;
use crate::reader::{Tables, TablesReader};
use crate::routes::Routes;
use crate::sync::Arc;
use crate::teid::TeidWriter;
use crate::ue_areas::UeAreas;
use crate::ue_pools::UePools;
use crate::ues::{UeTable, UeWriter};
use crate::usage::UsageTable;

/// Builds the tables. Returns the publisher and one reader per worker, in the order of worker ids.
///
/// Allocates all memory that readers read, except session rules.
///
/// # Errors
/// [`TablesError`]: the first mistake in the configuration.
pub fn build(config: TablesConfig) -> Result<(Publisher, Vec<TablesReader>), TablesError> {
    build_with_offload(config, None)
}

/// Does [`build`] with an offload that has room for as many sessions as the tables, and no entries.
///
/// # Errors
/// Fails as [`build`] does.
pub fn build_with_offload(
    config: TablesConfig,
    offload: Option<Box<dyn Offload>>,
) -> Result<(Publisher, Vec<TablesReader>), TablesError> {
    check(&config)?;
    let TablesConfig { sessions_max, teid_slot_bits, workers, seed, .. } = config;
    let teids = TeidWriter::new(teid_slot_bits, sessions_max, seed, 1);
    let (ues, ue_tables) = ues(&config);
    let room = DomainRoom { sessions_max, seed };
    let route_tables = RouteTables::new();
    let paths = route_tables.paths();
    let mut next_hops = NextHopWriter::new(config.next_hops_max, seed, [4, 5], paths);
    let gtpu_peers = GtpuPeerWriter::new(config.next_hops_max, seed, 8);
    let gateway = |interface, addr| {
        let index = next_hops.ensure(interface, addr, 0)?;
        next_hops.set_gateway(index, true);
        Some(index)
    };
    let (interfaces, own_addrs) = (&config.interfaces, config.own_addrs);
    let routes = Routes::build(interfaces, ue_tables.into(), &own_addrs, &config.routes, gateway)?;
    let own_addresses = routes.interfaces.iter().flat_map(Interface::addrs).collect();
    let fast_rules = std::sync::Arc::new(FastRuleTable::new(
        sessions_max,
        offload.as_ref().map(|of| of.usage()),
    ));
    let tables = Arc::new(Tables {
        teids: Arc::clone(teids.table()),
        next_hops: Arc::clone(next_hops.table()),
        gtpu_peers: Arc::clone(gtpu_peers.peers()),
        fast_rules: std::sync::Arc::clone(&fast_rules),
        meters: MeterTable::new(sessions_max),
        rate_changes: RateChangeRing::new(),
        is_restoring: std::sync::atomic::AtomicBool::new(false),
        hop_groups: Arc::clone(route_tables.groups()),
        aggregates: Aggregates::new(&config.aggregates),
    });
    let usage = std::sync::Arc::new(UsageTable::new(fast_rules));
    let (rules, handles) = slots(sessions_max, workers);
    let notes_changes = offload.is_some();
    let offload = offload.map(|of| OffloadWriter::new(of, sessions_max, &routes));
    let (routes, routes_handles) = RoutesWriter::new(routes, config.routes, own_addrs, workers);
    let interfaces = config.interfaces.into();
    let readers = readers(&tables, &usage, &interfaces, handles, routes_handles);
    let probe = rules.passed();
    let publisher = Publisher {
        rules,
        routes,
        route_tables,
        shapes: Shapes::default(),
        own_addresses,
        tables,
        teids,
        ues,
        domain_room: room,
        ue_areas: UeAreas::new(notes_changes),
        next_hops,
        gtpu_peers,
        offload,
        is_offload_paused: false,
        correlated_rates: CorrelatedRateIndexes::default(),
        demand_reserve: config.next_hops_max / 4,
        unobserved: VecDeque::new(),
        probe,
        worker_counters: readers.iter().map(|reader| Arc::clone(&reader.counters)).collect(),
        usage,
        counters: PublisherCounters::default(),
    };
    Ok((publisher, readers))
}

/// Creates one reader per worker, with its handles of rules and routes.
fn readers(
    tables: &Arc<Tables>,
    usage: &std::sync::Arc<UsageTable>,
    interfaces: &std::sync::Arc<[Interface]>,
    rules: Vec<SlotReader<PublishedRules>>,
    routes: Vec<SlotReader<Routes>>,
) -> Vec<TablesReader> {
    let readers = (0..).zip(rules.into_iter().zip(routes));
    let reader = |(worker, (rules, routes))| TablesReader {
        worker: WorkerId(worker),
        tables: Arc::clone(tables),
        rules,
        routes,
        counters: Arc::new(WorkerCounters::default()),
        usage: std::sync::Arc::clone(usage),
        interfaces: std::sync::Arc::clone(interfaces),
    };
    readers.map(reader).collect()
}

/// How the tables of a routing domain's UEs are sized, and their hash seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct DomainRoom {
    sessions_max: usize,
    seed: u64,
}

impl DomainRoom {
    /// Creates the tables of a domain without UEs. Its address pools get no index by address.
    pub(super) fn of(
        self,
        domain: DomainId,
        local_switching: InterfaceSet,
    ) -> (UeWriter, Arc<UeTable>) {
        let pools = UePools::new([], &mut 0);
        let (writer, table) =
            UeWriter::new(self.sessions_max, self.seed, domain, local_switching, pools);
        (writer, Arc::new(table))
    }
}

/// Creates the tables of the UEs of each routing domain, with their writers.
fn ues(config: &TablesConfig) -> (Vec<UeWriter>, Vec<Arc<UeTable>>) {
    let last = config.interfaces.iter().map(|interface| interface.domain).max();
    let mut left = UE_POOL_INDEX_MAX;
    (0..=last.unwrap_or_default().0)
        .map(|number| {
            let domain = DomainId(number);
            let pools = config.ue_pools_v4.iter().filter(|pool| pool.0 == domain);
            let pools = UePools::new(pools.map(|pool| pool.1), &mut left);
            let switched = local_switching_interfaces(
                &config.interfaces,
                &config.local_switching_domains,
                domain,
            );
            let (writer, table) =
                UeWriter::new(config.sessions_max, config.seed, domain, switched, pools);
            (writer, Arc::new(table))
        })
        .unzip()
}
