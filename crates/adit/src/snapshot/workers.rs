//! `adit show workers`: the threads of the packet path.

use adit_dpdk::{EventDevice, EventStat};
use adit_tables::Snapshot;
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkersDocument {
    model: &'static str,
    workers: Vec<WorkerRow>,
    /// What the event scheduler counts, by DPDK's names; nothing in other models.
    scheduler: Vec<SchedulerRow>,
}

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
    poll: &'static str,
    /// "runs" or "stands still".
    state: &'static str,
    /// Share of the last second in steps with packets.
    busy_percent: f64,
    /// Share of steps with a full burst.
    full_bursts_percent: u8,
    /// The largest share of a ring to this thread that waited in the last second.
    fullest_ring_percent: f64,
    received_pkts: u64,
    taken_over_pkts: u64,
    handed_off_pkts: u64,
    transmitted_pkts: u64,
    dropped_pkts: u64,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let parts = control.parts;
    let counters = parts.publisher.worker_counters();
    let threads = parts.threads.iter().zip(&parts.loads).zip(counters).enumerate();
    let rows = threads.map(|(thread, ((settings, load), counters))| {
        let counted = Snapshot::sum([&**counters]);
        WorkerRow {
            thread,
            role: settings.role.name(),
            core: settings.core,
            poll: settings.poll.name(),
            state: if control.standstill.is_stopped(thread) { "stands still" } else { "runs" },
            busy_percent: f64::from(load.busy_permille()) / 10.0,
            full_bursts_percent: load.saturation_percent(),
            fullest_ring_percent: f64::from(load.ring_permille()) / 10.0,
            received_pkts: counted.received_pkts,
            taken_over_pkts: counted.taken_over_pkts,
            handed_off_pkts: counted.handed_off_pkts,
            transmitted_pkts: counted.transmitted_pkts(),
            dropped_pkts: counted.dropped_pkts(),
        }
    });
    let scheduler = parts.scheduler.iter().flat_map(EventDevice::stats);
    let document = WorkersDocument {
        model: parts.model,
        workers: rows.collect(),
        scheduler: scheduler
            .map(|EventStat { name, value }| SchedulerRow { name, value })
            .collect(),
    };
    whole(document, |document| document)
}
