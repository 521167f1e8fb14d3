//! One measurement: bursts of packets through `Worker::step`; each step is timed.

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use adit_datapath::{Worker, WorkerConfig};
use adit_pktio::{Burst, PacketBuf, PacketIo, RxChecksum};
use adit_rules::DropReason;
use adit_session::SessionStore;
use adit_tables::{Publisher, Snapshot, TablesReader};
use adit_types::limits::{BURST_MAX, COMMAND_RING_LEN, EVENT_RING_LEN, SHAPED_PKTS_MAX};
use adit_types::{Nanos, PortId};
use anyhow::{Context, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::io::{BenchBuf, BenchIo};
use super::network::{self, BenchSession, PORTS};
use super::packet::BenchPacket;
use super::report::{self, quantile, rounded};
use super::sessions::{self, BenchProfile, Populated};

/// The warm-up of caches and branch predictors takes one packet for this many measured packets.
const WARM_UP_SHARE: usize = 10;
/// Minimum warm-up packets per session with traffic; they touch the pages of nearly all sessions.
const WARM_UP_PER_SESSION: usize = 4;

/// Number of turns if several cases are measured together.
const TURNS: usize = 3;
/// Warm-up packets per session with traffic before each further turn, since the other cases have
/// displaced the state of sessions from the caches.
const REFRESH_PER_SESSION: usize = 2;

/// A clock of the time since the start of a bench, for all threads of the bench.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BenchClock(Instant);

impl BenchClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Number of steps in a measurement of steps without packets.
const EMPTY_STEPS: usize = 10_000;

/// Maximum number of packets that a worker buffers for FARs.
pub(crate) const BUFFER_PKTS_MAX: usize = 512;

/// Required outcome of every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedOutcome {
    /// Transmitted.
    Forwarded,
    /// Dropped for this reason.
    Dropped(DropReason),
    /// Buffered by a FAR.
    Buffered,
    /// Sent, dropped by a rate, or queued for one. Virtual time advances by [`network::BURST_TIME`]
    /// for each 32 packets.
    Shaped,
}

/// Parameters of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerBenchConfig {
    /// The packets.
    pub packet: BenchPacket,
    /// Required outcome of each packet.
    pub outcome: ExpectedOutcome,
    /// State of the packets' IPv4 header checksums that the ports report.
    pub checksum: RxChecksum,
    /// Number of sessions with traffic: the first ones, in random order.
    pub active: usize,
    /// Number of measured packets.
    pub packets: usize,
    /// Packets per burst.
    pub burst: usize,
}

impl WorkerBenchConfig {
    /// Returns the number of warm-up packets.
    pub(crate) fn warm_up(&self) -> usize {
        (self.packets / WARM_UP_SHARE).max(WARM_UP_PER_SESSION * self.active)
    }
}

/// Cycles per packet over all bursts of one measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// Mean of all packets.
    pub mean: f64,
    /// Median over the bursts.
    pub median: f64,
    /// 99th percentile over the bursts.
    pub p99: f64,
}

impl Figures {
    /// Computes the figures from the cycles of each burst. Sorts `cycles`.
    pub(crate) fn of(cycles: &mut [u64], burst: usize) -> Self {
        cycles.sort_unstable();
        let at = |permille| report::ratio(quantile(cycles, permille), burst);
        let mean = report::ratio(cycles.iter().sum(), cycles.len() * burst);
        Self { mean, median: at(500), p99: at(990) }
    }

    /// Adds the figures to a row.
    pub(crate) fn add_to(&self, mut row: Value) -> Value {
        row["cycles_per_packet"] = json!(rounded(self.mean));
        row["cycles_per_packet_median_burst"] = json!(rounded(self.median));
        row["cycles_per_packet_p99_burst"] = json!(rounded(self.p99));
        row
    }
}

/// Queue capacity of a worker in benches without queued packets.
pub(crate) const SHAPED_PKTS_FEW: usize = SHAPED_PKTS_MAX / 16;

/// Makes a worker whose events nobody reads and which gets no commands.
pub(crate) fn worker<Io: PacketIo>(
    reader: TablesReader,
    ports: Vec<PortId>,
    burst: usize,
    shaped_pkts_max: usize,
) -> Worker<Io> {
    let (events, _) = rtrb::RingBuffer::new(EVENT_RING_LEN);
    let (_, commands) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
    let config = WorkerConfig {
        id: reader.worker(),
        ports,
        burst,
        buffer_pkts_max: BUFFER_PKTS_MAX,
        shaped_pkts_max,
        recovery_time_stamp: None,
    };
    Worker::new(config, reader, events, commands)
}

/// A worker and its packets.
pub(crate) struct WorkerBench {
    worker: Worker<BenchIo>,
    io: BenchIo,
    random: SmallRng,
    step: u64,
    /// Virtual time per step.
    pub step_time: Nanos,
}

impl WorkerBench {
    /// Makes a worker that reads the tables of `reader`.
    pub(crate) fn new(reader: TablesReader, shaped_pkts_max: usize) -> Self {
        Self::of(worker(reader, PORTS.to_vec(), BURST_MAX, shaped_pkts_max))
    }

    pub(crate) fn of(worker: Worker<BenchIo>) -> Self {
        let io = BenchIo::new(PortId(0));
        Self { worker, io, random: SmallRng::seed_from_u64(1), step: 0, step_time: Nanos(1) }
    }

    /// Writes one packet of each session for the next step.
    pub(crate) fn prepare_each(
        &mut self,
        packet: BenchPacket,
        sessions: &[BenchSession],
    ) -> anyhow::Result<()> {
        self.io.clear_sent();
        self.io.rx_port = packet.rx_port();
        let Self { io, random, .. } = self;
        sessions.iter().try_for_each(|session| put(io, packet, *session, random))
    }

    /// Writes one burst of packets of random sessions for the next step.
    pub(crate) fn prepare(
        &mut self,
        packet: BenchPacket,
        sessions: &[BenchSession],
        burst: usize,
    ) -> anyhow::Result<()> {
        self.io.clear_sent();
        self.io.rx_port = packet.rx_port();
        fill(&mut self.io, packet, burst, sessions, &mut self.random)
    }

    /// Returns the frames that a step sends after it has received `frames`.
    #[cfg(test)]
    pub(crate) fn forward(
        &mut self,
        packet: BenchPacket,
        frames: &[Vec<u8>],
    ) -> anyhow::Result<Vec<Vec<u8>>> {
        self.io.clear_sent();
        self.io.rx_port = packet.rx_port();
        for frame in frames {
            let mut buf = BenchBuf::take();
            buf.reset(frame);
            self.io.ready.push(buf);
        }
        self.run()?;
        let sent = self.io.sent.iter().chain(self.io.more.iter().flatten());
        Ok(sent.map(|buf| buf.data().to_vec()).collect())
    }

    /// Runs one step on the prepared burst. Returns its cycles and the number of sent packets.
    pub(crate) fn run(&mut self) -> anyhow::Result<(u64, usize)> {
        let wanted = self.io.ready.len();
        let (cycles, [received, sent]) = self.run_any();
        ensure!(received == wanted, "a step received {received} packets");
        Ok((cycles, sent))
    }

    /// Runs one step that may receive any number of the prepared packets. Returns the cycles, and
    /// the numbers of received and of sent packets.
    pub(crate) fn run_any(&mut self) -> (u64, [usize; 2]) {
        self.step += 1;
        let now = Nanos(self.step * self.step_time.0);
        let (cycles, report) = timed(|| self.worker.step(now, &mut self.io));
        (cycles, [report.received, self.io.sent_pkts()])
    }
}

/// Runs `work` and returns its cycles.
#[inline]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (u64, T) {
    // Complete the stores to the buffers before the timed part.
    fence(Ordering::SeqCst);
    let start = adit_dpdk::tsc();
    let done = work();
    (adit_dpdk::tsc().wrapping_sub(start), done)
}

impl Drop for WorkerBench {
    fn drop(&mut self) {
        self.worker.drain(&mut self.io);
    }
}

/// Writes `burst` packets of random sessions, to be received in the next step.
pub(crate) fn fill(
    io: &mut BenchIo,
    packet: BenchPacket,
    burst: usize,
    sessions: &[BenchSession],
    random: &mut SmallRng,
) -> anyhow::Result<()> {
    (0..burst).try_for_each(|_| put(io, packet, network::random_session(sessions, random)?, random))
}

/// Writes a packet of `session`, to be received in the next step.
fn put(
    io: &mut BenchIo,
    packet: BenchPacket,
    session: BenchSession,
    random: &mut SmallRng,
) -> anyhow::Result<()> {
    let mut frame = [0; 256];
    let len = packet.write(&mut frame, session, random)?;
    let mut buf = BenchBuf::take();
    buf.reset(&frame[..len]);
    buf.set_rx_checksum(io.checksum);
    io.ready.push(buf);
    Ok(())
}

/// A measured function: processes one burst and returns the cycles.
pub(crate) type BenchBurst<'b> = &'b mut dyn FnMut() -> anyhow::Result<u64>;

/// Measures several ways to process the packets of `plan` in turns, so that changes of the
/// machine's speed affect all of them.
///
/// # Errors
/// A burst fails.
pub(crate) fn measure_in_turns<const N: usize>(
    plan: &WorkerBenchConfig,
    mut bursts: [BenchBurst<'_>; N],
) -> anyhow::Result<[Figures; N]> {
    let (steps, warm_up) = steps(plan);
    let turns = if N == 1 { 1 } else { TURNS };
    let mut cycles = [const { Vec::new() }; N];
    for turn in 0..turns {
        let warm_up =
            if turn == 0 { warm_up } else { REFRESH_PER_SESSION * plan.active / plan.burst };
        for (burst, cycles) in bursts.iter_mut().zip(&mut cycles) {
            for _ in 0..warm_up {
                burst()?;
            }
            for _ in steps * turn / turns..steps * (turn + 1) / turns {
                cycles.push(burst()?);
            }
        }
    }
    Ok(cycles.map(|mut cycles| Figures::of(&mut cycles, plan.burst)))
}

/// Measures the worker alone.
///
/// # Errors
/// A packet had an unexpected outcome.
pub(crate) fn measure(
    resident: &mut BenchNode,
    plan: &WorkerBenchConfig,
) -> anyhow::Result<Figures> {
    let [figures] = measure_with(resident, plan, |worker| measure_in_turns(plan, [worker]))?;
    Ok(figures)
}

/// Measures the worker's bursts with `measure`, and checks the outcome of the packets.
///
/// # Errors
/// A packet had an unexpected outcome.
pub(crate) fn measure_with<T>(
    resident: &mut BenchNode,
    plan: &WorkerBenchConfig,
    measure: impl FnOnce(BenchBurst<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let BenchNode { publisher, bench, sessions, .. } = resident;
    let active = active_sessions(sessions, plan)?;
    if plan.outcome == ExpectedOutcome::Shaped {
        bench.step_time = Nanos(network::BURST_TIME.0 * plan.burst as u64 / 32);
    }
    bench.io.checksum = plan.checksum;
    let before = publisher.snapshot();
    let mut bursts = 0;
    let result = measure(&mut || {
        bursts += 1;
        bench.prepare(plan.packet, active, plan.burst)?;
        let (spent, sent) = bench.run()?;
        if plan.outcome == ExpectedOutcome::Forwarded {
            ensure!(sent == plan.burst, "a step forwarded {sent} of {} packets", plan.burst);
        }
        Ok(spent)
    })?;
    let found = outcome_count(&before, &publisher.snapshot(), plan.outcome);
    let wanted = u64::try_from(bursts * plan.burst)?;
    ensure!(found == wanted, "{found} of {wanted} packets were {:?}", plan.outcome);
    Ok(result)
}

/// Measures steps that receive no packet. The figures are cycles per step.
///
/// # Errors
/// Never: a step without packets does not fail.
pub(crate) fn measure_empty(resident: &mut BenchNode) -> anyhow::Result<Figures> {
    let bench = &mut resident.bench;
    bench.io.clear_sent();
    let steps = (0..EMPTY_STEPS).map(|_| bench.run().map(|(spent, _)| spent));
    let mut cycles = steps.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Figures::of(&mut cycles, 1))
}

/// Returns the sessions with traffic.
///
/// # Errors
/// Never: no more sessions are active than exist.
pub(crate) fn active_sessions<'s>(
    sessions: &'s [BenchSession],
    plan: &WorkerBenchConfig,
) -> anyhow::Result<&'s [BenchSession]> {
    sessions.get(..plan.active.min(sessions.len())).context("active sessions")
}

/// Returns the numbers of measured and of warm-up steps. For [`ExpectedOutcome::Buffered`], the
/// buffer's capacity limits them.
pub(crate) fn steps(plan: &WorkerBenchConfig) -> (usize, usize) {
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

/// The floor: receives packets, swaps their MAC addresses and sends them, without a worker.
pub(crate) struct Floor {
    io: BenchIo,
    random: SmallRng,
    burst: Burst<BenchBuf>,
}

impl Floor {
    /// Makes a floor whose packets arrive on the same port as those of `plan`.
    pub(crate) fn new(plan: &WorkerBenchConfig) -> Self {
        let io = BenchIo::new(plan.packet.rx_port());
        Self { io, random: SmallRng::seed_from_u64(1), burst: Burst::new() }
    }

    /// Processes one burst and returns its cycles.
    ///
    /// # Errors
    /// Never for the packets of this bench.
    pub(crate) fn run(
        &mut self,
        sessions: &[BenchSession],
        plan: &WorkerBenchConfig,
    ) -> anyhow::Result<u64> {
        let Self { io, random, burst } = self;
        let port = io.rx_port;
        io.clear_sent();
        fill(io, plan.packet, plan.burst, sessions, random)?;
        let (cycles, _) = timed(|| {
            io.rx_burst(port, BURST_MAX, burst);
            burst.iter_mut().for_each(swap_macs);
            io.tx_burst(port, burst)
        });
        Ok(cycles)
    }
}

/// Swaps the MAC addresses, as testpmd's macswap does.
#[inline]
fn swap_macs(buf: &mut BenchBuf) {
    if let Some((front, _)) = buf.data_mut().split_first_chunk_mut::<12>() {
        let (dst, src) = front.split_at_mut(6);
        dst.swap_with_slice(src);
    }
}

/// Tables with established sessions, and their worker.
pub(crate) struct BenchNode {
    pub store: SessionStore,
    pub publisher: Publisher,
    /// The measured worker.
    pub bench: WorkerBench,
    pub sessions: Vec<BenchSession>,
}

/// Establishes and publishes `count` sessions for one worker.
pub(crate) fn establish(profile: BenchProfile, count: usize) -> anyhow::Result<BenchNode> {
    let Populated { store, publisher, readers, sessions } = sessions::populate(profile, count, 1)?;
    let reader = readers.into_iter().next().context("one reader")?;
    Ok(BenchNode { store, publisher, bench: WorkerBench::new(reader, SHAPED_PKTS_MAX), sessions })
}
