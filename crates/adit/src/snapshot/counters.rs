//! `adit show counters`.

use std::collections::BTreeMap;

use adit_n4::N4Counters;
use adit_tables::Snapshot;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{ControlView, members, whole};
use crate::admin::AnswerPage;

/// All counters of the process in one iteration of the control thread.
struct GatheredCounters {
    all: Snapshot,
    by_worker: Vec<Snapshot>,
    /// Names of the interfaces.
    names: Vec<String>,
    n4: N4Counters,
    control: ControlRow,
}

impl GatheredCounters {
    fn of(control: &ControlView<'_>) -> Self {
        let workers = control.parts.publisher.worker_counters();
        Self {
            all: control.parts.publisher.snapshot(),
            by_worker: workers.iter().map(|counters| Snapshot::sum([&**counters])).collect(),
            names: control.parts.names.clone(),
            n4: control.parts.node.counters().clone(),
            control: ControlRow::of(control),
        }
    }
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    whole(GatheredCounters::of(control), document)
}

/// Returns the whole document, which is printed at the end of the process.
pub(crate) fn counters(control: &ControlView<'_>) -> Value {
    Value::Object(document(GatheredCounters::of(control)))
}

/// Makes the document: scalar counters are members of it, other counters are in groups.
fn document(gathered: GatheredCounters) -> Map<String, Value> {
    let GatheredCounters { all, by_worker, names, n4, control } = gathered;
    members(&CounterGroups {
        transmitted_pkts: all.transmitted_pkts(),
        dropped_pkts: all.dropped_pkts(),
        punted_pkts: all.punted_pkts(),
        identity_holds: all.identity_holds(),
        drops: all.drops().map(|(reason, n)| (reason.name(), n)).collect(),
        punts: all.punts().map(|(reason, n)| (reason.name(), n)).collect(),
        shaping_delays: shaping_delays(&all),
        interfaces: interfaces(&names, &all),
        workers: workers(&by_worker),
        n4: n4.list().into_iter().collect(),
        control,
        scalars: all.scalars().into_iter().map(|(name, n, _)| (name, n)).collect(),
    })
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CounterGroups {
    transmitted_pkts: u64,
    dropped_pkts: u64,
    punted_pkts: u64,
    identity_holds: bool,
    drops: BTreeMap<&'static str, u64>,
    punts: BTreeMap<&'static str, u64>,
    shaping_delays: BTreeMap<String, u64>,
    interfaces: BTreeMap<String, u64>,
    workers: BTreeMap<String, u64>,
    n4: BTreeMap<String, u64>,
    control: ControlRow,
    /// Counters with one value each.
    #[serde(flatten)]
    scalars: BTreeMap<&'static str, u64>,
}

/// Counts packets that were queued for rates, by their delay rounded up to a power of two of
/// microseconds.
fn shaping_delays(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let slots = snapshot.shaping_delays.iter().enumerate();
    let slots = slots.map(|(power, n)| match power + 1 < snapshot.shaping_delays.len() {
        true => (format!("below_{}_us", 1_u64 << power), *n),
        false => ("longer".to_owned(), *n),
    });
    slots.collect()
}

fn interfaces(names: &[String], snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let mut flat = BTreeMap::new();
    for (name, counters) in names.iter().zip(&snapshot.interfaces) {
        flat.insert(format!("{name}_rx_pkts"), counters.rx_pkts);
        flat.insert(format!("{name}_rx_bytes"), counters.rx_bytes);
        flat.insert(format!("{name}_tx_pkts"), counters.tx_pkts);
        flat.insert(format!("{name}_tx_bytes"), counters.tx_bytes);
    }
    flat
}

/// Returns the counters of each worker, by worker index.
fn workers(by_worker: &[Snapshot]) -> BTreeMap<String, u64> {
    let mut flat = BTreeMap::new();
    for (worker, counted) in by_worker.iter().enumerate() {
        for (name, n) in [
            ("received_pkts", counted.received_pkts),
            ("taken_over_pkts", counted.taken_over_pkts),
            ("handed_off_pkts", counted.handed_off_pkts),
            ("transmitted_pkts", counted.transmitted_pkts()),
            ("dropped_pkts", counted.dropped_pkts()),
        ] {
            flat.insert(format!("{worker}_{name}"), n);
        }
    }
    flat
}

/// Counters of the control thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ControlRow {
    deltas_applied: u64,
    keys_refused: u64,
    sessions_out_of_range: u64,
    peers_without_route: u64,
    next_hops_refused: u64,
    peers_refused: u64,
    #[serde(rename = "neighbour_solicits")]
    neighbor_solicits: u64,
    #[serde(rename = "neighbour_failures")]
    neighbor_failures: u64,
    #[serde(rename = "neighbour_wanted_refused")]
    neighbor_wanted_refused: u64,
    #[serde(rename = "neighbour_seen_refused")]
    neighbor_seen_refused: u64,
    #[serde(rename = "neighbour_mac_changes")]
    neighbor_mac_changes: u64,
    #[serde(rename = "neighbour_claims_refuted")]
    neighbor_claims_refuted: u64,
    own_addresses_used: u64,
    commands_lost: u64,
    n4_datagrams_unsent: u64,
    n4_datagrams_dropped_by_kernel: u64,
    n4_receive_buffer_bytes: usize,
    workers_standing_still: usize,
}

impl ControlRow {
    fn of(control: &ControlView<'_>) -> Self {
        let publisher = control.parts.publisher.counters();
        let neighbors = control.neighbors.counters();
        let socket = &control.parts.socket;
        Self {
            deltas_applied: publisher.deltas_applied,
            keys_refused: publisher.keys_refused,
            sessions_out_of_range: publisher.sessions_out_of_range,
            peers_without_route: publisher.peers_without_route,
            next_hops_refused: publisher.next_hops_refused,
            peers_refused: publisher.peers_refused,
            neighbor_solicits: neighbors.solicits,
            neighbor_failures: neighbors.failures,
            neighbor_wanted_refused: neighbors.wanted_refused,
            neighbor_seen_refused: neighbors.seen_refused,
            neighbor_mac_changes: neighbors.mac_changes,
            neighbor_claims_refuted: neighbors.claims_refuted,
            own_addresses_used: neighbors.own_addresses_used,
            commands_lost: control.commands_lost + neighbors.commands_lost,
            n4_datagrams_unsent: control.datagrams_unsent,
            n4_datagrams_dropped_by_kernel: socket.dropped(),
            n4_receive_buffer_bytes: socket.receive_buffer_bytes(),
            workers_standing_still: control.standstill.stopped_count(),
        }
    }
}
