//! `adit-bench handoff`: cycles of packets that another worker than their session's owner received.
//!
//! One worker receives packets of sessions that another one owns, and hands all of them off; the owner takes
//! them over and sends them. Both take their steps in turns on one thread, so no cache line travels between
//! cores: the figures are those of the work itself. The last row is a worker that owns the packets
//! that it receives.

use std::sync::atomic::{Ordering, fence};

use adit_datapath::{Worker, connect};
use adit_tables::TablesReader;
use adit_types::limits::{BURST_MAX, HANDOFF_RING_LEN};
use adit_types::{Nanos, Owners, PortId, Roles, WorkerId};
use anyhow::{Context, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::io::BenchIo;
use super::measure::{
    self, ExpectedOutcome, Figures, SHAPED_PKTS_FEW, WorkerBenchConfig, fill, measure,
};
use super::network::{BenchSession, PORTS};
use super::packet::BenchPacket;
use super::report;
use super::sessions::{self, BenchProfile, Populated};
use crate::size::BenchSize;

/// The worker that receives all packets.
const RECEIVER: WorkerId = WorkerId(0);
/// The worker that owns their sessions.
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

/// Two workers of the same tables, and their packets.
struct WorkerPair {
    _publisher: adit_tables::Publisher,
    receiver: Worker<BenchIo>,
    owner: Worker<BenchIo>,
    ios: [BenchIo; 2],
    /// Those that [`OWNER`] owns.
    sessions: Vec<BenchSession>,
    random: SmallRng,
    step: u64,
}

impl WorkerPair {
    /// Establishes `count` sessions.
    fn new(profile: BenchProfile, count: usize) -> anyhow::Result<Self> {
        let Populated { store, publisher, readers, mut sessions } =
            sessions::populate(profile, count, 2)?;
        let owners = Owners::new(2);
        let index = |known: &BenchSession| store.session(known.up_seid).map(|found| found.index());
        sessions.retain(|known| index(known).is_some_and(|index| owners.of(index) == OWNER));
        ensure!(!sessions.is_empty(), "too few sessions for two workers");
        let mut handoffs = connect(Roles::run_to_completion(2), HANDOFF_RING_LEN).into_iter();
        let mut readers = readers.into_iter();
        let mut next = |id: WorkerId| -> anyhow::Result<Worker<BenchIo>> {
            let reader: TablesReader = readers.next().context("a reader")?;
            ensure!(reader.worker() == id, "readers in the order of workers");
            let worker = measure::worker(reader, PORTS.to_vec(), BURST_MAX, SHAPED_PKTS_FEW);
            Ok(worker.with_handoff(handoffs.next().context("the ends of the rings")?))
        };
        Ok(Self {
            receiver: next(RECEIVER)?,
            owner: next(OWNER)?,
            _publisher: publisher,
            ios: [BenchIo::new(PortId(0)), BenchIo::new(PortId(0))],
            sessions,
            random: SmallRng::seed_from_u64(1),
            step: 0,
        })
    }

    /// Cycles of the receiver, and of the owner.
    fn measure(&mut self, plan: &WorkerBenchConfig) -> anyhow::Result<[Figures; 2]> {
        let mut cycles = [Vec::new(), Vec::new()];
        let (steps, warm_up) = measure::steps(plan);
        for step in 0..steps + warm_up {
            let [receiver_io, owner_io] = &mut self.ios;
            owner_io.clear_sent();
            receiver_io.rx_port = plan.packet.rx_port();
            let WorkerBenchConfig { packet, checksum, burst, .. } = *plan;
            fill(receiver_io, packet, checksum, burst, &self.sessions, &mut self.random)?;
            self.step += 1;
            let now = Nanos(self.step);
            // Complete the stores to the buffers before the timed step.
            fence(Ordering::SeqCst);
            let start = adit_dpdk::tsc();
            let received = receiver_step(&mut self.receiver, now, receiver_io);
            let between = adit_dpdk::tsc();
            let [taken, sent] = owner_step(&mut self.owner, now, owner_io);
            let end = adit_dpdk::tsc();
            ensure!(
                [received, taken, sent] == [plan.burst; 3] && receiver_io.sent_pkts() == 0,
                "of {received} received packets the owner took over {taken} and sent {sent}"
            );
            if step >= warm_up {
                cycles[0].push(between.wrapping_sub(start));
                cycles[1].push(end.wrapping_sub(between));
            }
        }
        Ok(cycles.map(|mut cycles| Figures::of(&mut cycles, plan.burst)))
    }
}

impl Drop for WorkerPair {
    fn drop(&mut self) {
        let [receiver_io, owner_io] = &mut self.ios;
        self.receiver.drain(receiver_io);
        self.owner.drain(owner_io);
    }
}

/// Returns the number of received packets.
// A function of its own, so that a profiler can distinguish the workers.
#[inline(never)]
fn receiver_step(worker: &mut Worker<BenchIo>, now: Nanos, io: &mut BenchIo) -> usize {
    worker.step(now, io).received
}

/// Returns the number of packets that were taken over, and sent.
#[inline(never)]
fn owner_step(worker: &mut Worker<BenchIo>, now: Nanos, io: &mut BenchIo) -> [usize; 2] {
    [worker.step(now, io).received, io.sent_pkts()]
}
