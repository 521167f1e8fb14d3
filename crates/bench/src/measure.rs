//! One measurement: bursts of packets through `Worker::step`, timed step by step.

use std::sync::atomic::{Ordering, fence};

use adit_datapath::{Worker, WorkerConfig};
use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::DropReason;
use adit_session::SessionStore;
use adit_tables::{Publisher, Snapshot, TablesReader};
use adit_types::limits::{BURST_MAX, COMMAND_RING_LEN, EVENT_RING_LEN, SHAPED_PKTS_MAX};
use adit_types::{Nanos, PortId, WorkerId};
use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::io::{BenchBuf, BenchIo};
use super::network::{self, BenchSession};
use super::packet::BenchPacket;
use super::sessions::{self, BenchProfile, Populated};

/// Packets before the measurement, so that caches and branch predictors have seen the traffic: one
/// for this many of those measured …
const WARM_UP_SHARE: usize = 10;
/// … and at least this many for each session with traffic, so that the pages of nearly all are there.
const WARM_UP_PER_SESSION: usize = 4;

/// Packets that a worker holds while FARs buffer.
pub(crate) const BUFFER_PKTS_MAX: usize = 512;

/// What must become of every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedOutcome {
    /// Transmitted.
    Forwarded,
    /// Dropped for this reason.
    Dropped(DropReason),
    /// Held by a FAR that buffers.
    Buffered,
    /// Sent, dropped by a rate, or waiting for one; virtual time advances by [`network::BURST_TIME`].
    Shaped,
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerBenchConfig {
    /// The packets.
    pub packet: BenchPacket,
    /// What must become of them.
    pub outcome: ExpectedOutcome,
    /// Sessions with traffic, at random among the first of those resident.
    pub active: usize,
    /// Packets measured.
    pub packets: usize,
    /// Packets of one burst.
    pub burst: usize,
}

impl WorkerBenchConfig {
    /// Packets before the measurement.
    pub(crate) fn warm_up(&self) -> usize {
        (self.packets / WARM_UP_SHARE).max(WARM_UP_PER_SESSION * self.active)
    }
}

/// Cycles per packet over all bursts of one measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// Over all.
    pub mean: f64,
    /// Of the median burst.
    pub median: f64,
    /// Of the slowest burst in a hundred.
    pub p99: f64,
}

impl Figures {
    /// Of the cycles of each burst; sorts them.
    pub(crate) fn of(cycles: &mut [u64], burst: usize) -> Self {
        cycles.sort_unstable();
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let per_packet = |cycles: u64| cycles as f64 / burst as f64;
        let at = |share: usize| {
            let index = (cycles.len() * share / 100).min(cycles.len().saturating_sub(1));
            cycles.get(index).copied().unwrap_or(0)
        };
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let mean = cycles.iter().sum::<u64>() as f64 / (cycles.len() * burst).max(1) as f64;
        Self { mean, median: per_packet(at(50)), p99: per_packet(at(99)) }
    }
}

/// Packets that a worker has room for where none waits for a rate.
pub(crate) const SHAPED_PKTS_FEW: usize = SHAPED_PKTS_MAX / 16;

/// A worker without others. Events and commands of the control thread are no part of a bench.
pub(crate) fn worker(
    reader: TablesReader,
    burst: usize,
    shaped_pkts_max: usize,
) -> Worker<BenchIo> {
    let (events, _) = rtrb::RingBuffer::new(EVENT_RING_LEN);
    let (_, commands) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
    let config = WorkerConfig {
        id: WorkerId(0),
        ports: vec![PortId(0), PortId(1)],
        burst,
        buffer_pkts_max: BUFFER_PKTS_MAX,
        shaped_pkts_max,
        recovery_time_stamp: None,
    };
    Worker::new(config, reader, events, commands)
}

/// A worker and what it works on.
pub(crate) struct WorkerBench {
    worker: Worker<BenchIo>,
    io: BenchIo,
    random: SmallRng,
    step: u64,
    /// Time that passes with each step.
    pub step_time: Nanos,
}

impl WorkerBench {
    /// A worker that looks at tables of its own.
    pub(crate) fn new(reader: TablesReader) -> Self {
        let worker = worker(reader, BURST_MAX, SHAPED_PKTS_MAX);
        let io = BenchIo::new(PortId(0));
        Self { worker, io, random: SmallRng::seed_from_u64(1), step: 0, step_time: Nanos(1) }
    }

    /// Writes one burst, which the next step will receive.
    pub(crate) fn prepare(
        &mut self,
        packet: BenchPacket,
        sessions: &[BenchSession],
        burst: usize,
    ) -> anyhow::Result<()> {
        self.io.clear_sent();
        self.io.rx_port = packet.rx_port();
        let mut frame = [0; 256];
        for _ in 0..burst {
            let index = self.random.random_range(0..sessions.len());
            let session = sessions.get(index).copied().context("a session")?;
            let len = packet.write(&mut frame, session, &mut self.random)?;
            let mut buf = BenchBuf::take();
            buf.reset(&frame[..len]);
            self.io.ready.push(buf);
        }
        Ok(())
    }

    /// Runs one step over what was prepared. Returns its cycles and how many packets were sent.
    pub(crate) fn step(&mut self) -> anyhow::Result<(u64, usize)> {
        self.step += 1;
        let wanted = self.io.ready.len();
        let now = Nanos(self.step * self.step_time.0);
        // What was written into buffers is in the cache, not on its way there.
        fence(Ordering::SeqCst);
        let start = adit_dpdk::tsc();
        let report = self.worker.step(now, &mut self.io);
        let end = adit_dpdk::tsc();
        ensure!(report.received == wanted, "a step received {} packets", report.received);
        Ok((end.wrapping_sub(start), self.io.sent_pkts()))
    }
}

impl Drop for WorkerBench {
    fn drop(&mut self) {
        self.worker.drain(&mut self.io);
    }
}

/// Measures.
///
/// # Errors
/// When not every packet had the outcome that was expected of it.
pub(crate) fn measure(
    resident: &mut BenchNode,
    plan: &WorkerBenchConfig,
) -> anyhow::Result<Figures> {
    let BenchNode { publisher, bench, sessions, .. } = resident;
    let active = sessions.get(..plan.active.min(sessions.len())).context("active sessions")?;
    let (steps, warm_up) = steps(plan);
    if plan.outcome == ExpectedOutcome::Shaped {
        bench.step_time = Nanos(network::BURST_TIME.0 * plan.burst as u64 / 32);
    }
    let mut cycles = Vec::with_capacity(steps);
    let before = publisher.snapshot();
    for step in 0..steps + warm_up {
        bench.prepare(plan.packet, active, plan.burst)?;
        let (spent, sent) = bench.step()?;
        if plan.outcome == ExpectedOutcome::Forwarded {
            ensure!(sent == plan.burst, "a step forwarded {sent} of {} packets", plan.burst);
        }
        if step >= warm_up {
            cycles.push(spent);
        }
    }
    let found = outcome_count(&before, &publisher.snapshot(), plan.outcome);
    let wanted = u64::try_from((steps + warm_up) * plan.burst)?;
    ensure!(found == wanted, "{found} of {wanted} packets were {:?}", plan.outcome);
    Ok(Figures::of(&mut cycles, plan.burst))
}

/// Steps measured and steps before; where packets are held, no more than there is room for.
fn steps(plan: &WorkerBenchConfig) -> (usize, usize) {
    if plan.outcome == ExpectedOutcome::Buffered {
        return (BUFFER_PKTS_MAX / plan.burst.max(1), 0);
    }
    (plan.packets.div_ceil(plan.burst), plan.warm_up().div_ceil(plan.burst))
}

fn outcome_count(before: &Snapshot, after: &Snapshot, outcome: ExpectedOutcome) -> u64 {
    match outcome {
        ExpectedOutcome::Forwarded => after.transmitted_pkts() - before.transmitted_pkts(),
        ExpectedOutcome::Dropped(reason) => {
            after.drops[reason.index()] - before.drops[reason.index()]
        }
        ExpectedOutcome::Buffered => after.buffered_pkts - before.buffered_pkts,
        ExpectedOutcome::Shaped => after.received_pkts - before.received_pkts,
    }
}

/// The floor: the same packets received, read and written once, and sent; no worker.
///
/// # Errors
/// None for the packets of this bench.
pub(crate) fn floor(
    sessions: &[BenchSession],
    plan: &WorkerBenchConfig,
) -> anyhow::Result<Figures> {
    let port = plan.packet.rx_port();
    let mut io = BenchIo::new(port);
    let mut random = SmallRng::seed_from_u64(1);
    let (steps, warm_up) = steps(plan);
    let mut cycles = Vec::with_capacity(steps);
    let mut frame = [0; 256];
    let mut burst: Burst<BenchBuf> = Burst::new();
    for step in 0..steps + warm_up {
        io.clear_sent();
        for _ in 0..plan.burst {
            let session = sessions[random.random_range(0..plan.active.min(sessions.len()))];
            let len = plan.packet.write(&mut frame, session, &mut random)?;
            let mut buf = BenchBuf::take();
            buf.reset(&frame[..len]);
            io.ready.push(buf);
        }
        let start = adit_dpdk::tsc();
        io.rx_burst(port, BURST_MAX, &mut burst);
        for buf in &mut burst {
            swap_macs(buf);
        }
        io.tx_burst(port, &mut burst);
        let end = adit_dpdk::tsc();
        if step >= warm_up {
            cycles.push(end.wrapping_sub(start));
        }
    }
    Ok(Figures::of(&mut cycles, plan.burst))
}

/// What testpmd's macswap does with a packet.
#[inline]
fn swap_macs(buf: &mut BenchBuf) {
    if let Some((front, _)) = buf.data_mut().split_first_chunk_mut::<12>() {
        let (dst, src) = front.split_at_mut(6);
        dst.swap_with_slice(src);
    }
}

/// The tables with `count` sessions in them.
pub(crate) struct BenchNode {
    pub store: SessionStore,
    pub publisher: Publisher,
    /// The worker that measures.
    pub bench: WorkerBench,
    pub sessions: Vec<BenchSession>,
}

/// Establishes and publishes `count` sessions for one worker.
pub(crate) fn establish(profile: BenchProfile, count: usize) -> anyhow::Result<BenchNode> {
    let Populated { store, publisher, reader, sessions } = sessions::populate(profile, count)?;
    Ok(BenchNode { store, publisher, bench: WorkerBench::new(reader), sessions })
}
