//! `adit show workers`: the threads of the packet path.

use adit_dpdk::{EventDevice, EventStat};
use adit_tables::Snapshot;
use adit_types::Role;
use serde::Serialize;
use utoipa::ToSchema;

use super::power::{EnergyRow, IdleStateRow, PowerReading};
use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkersDocument {
    model: &'static str,
    workers: Vec<WorkerRow>,
    /// The event scheduler's counters, by DPDK's names; nothing in other models.
    scheduler: Vec<SchedulerRow>,
    /// Idle states of the cores; none if the machine does not show them.
    idle_states: Vec<IdleStateRow>,
    /// Energy of the machine; none if it does not show that.
    energy: Vec<EnergyRow>,
}

tables!(WorkersDocument {
    workers: WorkerRow [
        thread, role, core, node, poll, state, busy_percent, full_bursts_percent, fullest_ring_percent, received_pkts,
        taken_over_pkts, handed_off_pkts, transmitted_pkts, dropped_pkts, cross_node_pkts, frequency_mhz,
    ],
    scheduler: SchedulerRow [name, value],
    idle_states: IdleStateRow [thread, core, state, seconds],
    energy: EnergyRow [zone, joules],
});

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SchedulerRow {
    name: String,
    value: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerRow {
    thread: usize,
    role: &'static str,
    core: u16,
    /// The NUMA node of the core; nothing if the machine cannot be read.
    node: Option<u32>,
    poll: &'static str,
    /// "runs", "drained" (its sessions are or go to other workers) or "stands still".
    state: &'static str,
    /// How many of the 64 groups of sessions it owns; nothing for other threads, and with an event
    /// scheduler.
    groups: Option<usize>,
    /// Sessions of these groups.
    sessions: Option<u64>,
    /// Share of the last second in steps with packets.
    busy_percent: f64,
    /// Share of steps with a full burst.
    full_bursts_percent: u8,
    /// Largest fill of a ring to this thread in the last second.
    fullest_ring_percent: f64,
    received_pkts: u64,
    taken_over_pkts: u64,
    handed_off_pkts: u64,
    transmitted_pkts: u64,
    dropped_pkts: u64,
    /// Frequency of the core; nothing if the machine does not show it.
    frequency_mhz: Option<u64>,
    /// Packets that the thread handed to a thread of another node, got from an event scheduler that
    /// receives on another node, or sent through a port of another node.
    cross_node_pkts: u64,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let parts = control.parts;
    let counters = parts.publisher.worker_counters();
    let has_owners = parts.threads.iter().all(|thread| thread.role != Role::RxTx);
    let threads = parts.threads.iter().zip(&parts.loads).zip(counters).enumerate();
    let rows = threads.map(|(thread, ((settings, load), counters))| {
        let counted = Snapshot::sum([&**counters]);
        let owned = (has_owners && settings.role == Role::Worker).then(|| owned(control, thread));
        WorkerRow {
            thread,
            role: settings.role.name(),
            core: settings.core,
            node: parts.nodes.threads().get(thread).copied().flatten(),
            poll: settings.poll.name(),
            state: match control.drained.get(thread) {
                _ if control.standstill.is_stopped(thread) => "stands still",
                Some(true) => "drained",
                Some(false) | None => "runs",
            },
            groups: owned.map(|(groups, _)| groups),
            sessions: owned.map(|(_, sessions)| sessions),
            busy_percent: f64::from(load.busy_permille()) / 10.0,
            full_bursts_percent: load.saturation_percent(),
            fullest_ring_percent: f64::from(load.ring_permille()) / 10.0,
            received_pkts: counted.received_pkts,
            taken_over_pkts: counted.taken_over_pkts,
            handed_off_pkts: counted.handed_off_pkts,
            transmitted_pkts: counted.transmitted_pkts(),
            dropped_pkts: counted.dropped_pkts(),
            frequency_mhz: None,
            cross_node_pkts: parts.nodes.cross_node_pkts(thread, &counted),
        }
    });
    let scheduler = parts.scheduler.iter().flat_map(EventDevice::stats);
    let document = WorkersDocument {
        model: parts.model,
        workers: rows.collect(),
        scheduler: scheduler
            .map(|EventStat { name, value }| SchedulerRow { name, value })
            .collect(),
        idle_states: Vec::new(),
        energy: Vec::new(),
    };
    let threads = parts.threads.clone();
    whole(document, |document| document.with_power(&PowerReading::of_this_machine(threads)))
}

/// Returns how many owner groups and how many sessions a worker owns.
fn owned(control: &ControlView<'_>, worker: usize) -> (usize, u64) {
    let owners = control.parts.owners.owners().iter();
    let groups = owners.zip(control.parts.node.store().sessions_by_group());
    let own = groups.filter(|(owner, _)| usize::from(owner.0) == worker);
    own.fold((0, 0), |(groups, sessions), (_, of)| (groups + 1, sessions + u64::from(*of)))
}

impl WorkersDocument {
    fn with_power(mut self, power: &PowerReading) -> Self {
        for (row, frequency_mhz) in self.workers.iter_mut().zip(power.frequencies_mhz()) {
            row.frequency_mhz = frequency_mhz;
        }
        (self.idle_states, self.energy) = (power.idle_states(), power.energy());
        self
    }
}
