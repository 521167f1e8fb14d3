//! `adit-bench handoff`: cycles of packets that another worker than their session's owner received.
//!
//! One worker receives packets of sessions that another one owns, and hands all of them off; the
//! owner takes them over and sends them. Both take their steps in turns on one thread, so no cache
//! line travels between cores: the figures are those of the work itself. The last row is a worker
//! that owns the packets that it receives.

use adit_datapath::connect;
use adit_types::limits::{BURST_MAX, HANDOFF_RING_LEN};
use adit_types::{Owners, Roles, WorkerId};
use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::measure::{
    self, ExpectedOutcome, Figures, SHAPED_PKTS_FEW, WorkerBench, WorkerBenchConfig, measure,
};
use super::network::{BenchSession, PORTS};
use super::packet::BenchPacket;
use super::report;
use super::sessions::{self, BenchProfile, Populated};
use crate::size::BenchSize;

/// The second worker, which owns all sessions. The first worker receives their packets.
const OWNER: WorkerId = WorkerId(1);

/// Measures both directions with the sessions of `size`.
///
/// # Errors
/// A packet was not handed off, or not sent by its owner.
pub(crate) fn run(size: &BenchSize, profile: BenchProfile) -> anyhow::Result<Value> {
    let &BenchSize { sessions: count, packets, burst } = size;
    let mut rows = Vec::new();
    let family = profile.family();
    for packet in [BenchPacket::uplink(family), BenchPacket::Downlink { family }] {
        let mut pair = WorkerPair::new(profile, count)?;
        let plan = WorkerBenchConfig {
            packet,
            outcome: ExpectedOutcome::Forwarded,
            checksum: adit_pktio::RxChecksum::Good,
            active: pair.sessions.len(),
            packets,
            burst,
        };
        let [receiver, owner] = pair.measure(&plan)?;
        rows.push(row("receiver", &plan, &receiver));
        rows.push(row("owner", &plan, &owner));
        drop(pair);
        let mut resident = measure::establish(profile, count)?;
        let plan = WorkerBenchConfig { active: count, ..plan };
        rows.push(row("no hand-off", &plan, &measure(&mut resident, &plan)?));
    }
    Ok(report::of("handoff", &rows))
}

fn row(what: &str, plan: &WorkerBenchConfig, figures: &Figures) -> Value {
    figures.add_to(json!({
        "what": what,
        "direction": plan.packet.direction(),
        "active_sessions": plan.active,
        "burst_pkts": plan.burst,
    }))
}

/// Two workers that read the same tables.
struct WorkerPair {
    _publisher: adit_tables::Publisher,
    receiver: WorkerBench,
    owner: WorkerBench,
    /// The sessions that [`OWNER`] owns.
    sessions: Vec<BenchSession>,
}

impl WorkerPair {
    /// Establishes `count` sessions, and keeps those that [`OWNER`] owns.
    fn new(profile: BenchProfile, count: usize) -> anyhow::Result<Self> {
        let Populated { store, publisher, readers, mut sessions } =
            sessions::populate(profile, count, 2)?;
        let owners = Owners::new(2);
        let index = |known: &BenchSession| store.session(known.up_seid).map(|found| found.index());
        sessions.retain(|known| index(known).is_some_and(|index| owners.of(index) == OWNER));
        ensure!(!sessions.is_empty(), "too few sessions for two workers");
        let handoffs = connect(Roles::run_to_completion(2), HANDOFF_RING_LEN);
        let mut workers = readers.into_iter().zip(handoffs).map(|(reader, handoff)| {
            let worker = measure::worker(reader, PORTS.to_vec(), BURST_MAX, SHAPED_PKTS_FEW);
            WorkerBench::of(worker.with_handoff(handoff))
        });
        let mut next = || workers.next().context("two workers");
        let (receiver, owner) = (next()?, next()?);
        Ok(Self { receiver, owner, _publisher: publisher, sessions })
    }

    /// Returns the cycles of the receiver and of the owner.
    fn measure(&mut self, plan: &WorkerBenchConfig) -> anyhow::Result<[Figures; 2]> {
        let Self { receiver, owner, sessions, .. } = self;
        let mut cycles = [Vec::new(), Vec::new()];
        let (steps, warm_up) = measure::steps(plan);
        for step in 0..steps + warm_up {
            receiver.prepare(plan.packet, sessions, plan.burst)?;
            owner.prepare_each(plan.packet, &[])?;
            let (at_receiver, [received, left]) = receiver.run_any();
            let (at_owner, [taken, sent]) = owner.run_any();
            ensure!(
                [received, taken, sent] == [plan.burst; 3] && left == 0,
                "of {received} received packets the owner took over {taken} and sent {sent}"
            );
            if step >= warm_up {
                cycles[0].push(at_receiver);
                cycles[1].push(at_owner);
            }
        }
        Ok(cycles.map(|mut cycles| Figures::of(&mut cycles, plan.burst)))
    }
}
