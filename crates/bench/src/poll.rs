//! `adit bench poll`: the CPU share of an idle worker, and the latency of the first packet after a
//! pause, for each idle mode.
//!
//! A worker runs on its own core on a port in memory. Another thread waits for a random time, puts one
//! packet into the port, and measures the time until the worker sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use adit_datapath::{Worker, WorkerConfig};
use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_tables::TablesReader;
use adit_types::limits::{COMMAND_RING_LEN, EVENT_RING_LEN};
use adit_types::{Direction, Nanos, PortId, WorkerId};
use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::io::BenchBuf;
use super::network::{BenchSession, DN_ADDR};
use super::packet::write_packet;
use super::report;
use super::sessions::{self, BenchProfile};
use crate::report::BenchOutput;
use adit_host::idle::{Doorbell, IdlePolicy, Sleeper, thread_time};

/// Duration of the measurement of an idle worker's CPU share.
const IDLE: Duration = Duration::from_secs(2);

/// The pause before a packet, long enough for the worker to sleep. Unit: microseconds.
const SILENCE_US: core::ops::Range<u64> = 2000..6000;

/// A packet with a higher latency counts as lost.
const LOST: Nanos = Nanos::from_secs(1);

/// Time since the start of the bench, for both threads.
#[derive(Debug, Clone, Copy)]
struct BenchClock(Instant);

impl BenchClock {
    fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// How a worker waits for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitMode {
    Busy,
    /// The port wakes the worker, as sockets do.
    Woken,
    /// The port cannot wake the worker, which takes timed sleeps.
    Naps,
}

/// A port in memory that another thread fills; records when packets leave.
struct RingIo {
    rx: rtrb::Consumer<BenchBuf>,
    left_at: Arc<AtomicU64>,
    clock: BenchClock,
}

impl PacketIo for RingIo {
    type Buf = BenchBuf;

    fn rx_burst(&mut self, _port: PortId, limit: usize, burst: &mut Burst<BenchBuf>) -> usize {
        let count = limit.min(self.rx.slots()).min(burst.remaining_capacity());
        burst.extend(self.rx.read_chunk(count).into_iter().flatten());
        count
    }

    fn tx_burst(&mut self, _port: PortId, burst: &mut Burst<BenchBuf>) -> usize {
        self.left_at.store(self.clock.now().0, Ordering::Release);
        burst.drain(..).count()
    }

    fn alloc(&mut self) -> Option<BenchBuf> {
        None
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        let mac = crate::network::MACS[usize::from(port.0)];
        PortInfo { mac, mtu_bytes: 1500, rx_ipv4_checksum: true }
    }
}

/// Measures every idle mode on `core`, with `packets` packets each, and prints the result.
///
/// # Errors
/// The worker cannot run on the core, or a packet is lost.
pub(crate) fn run(core: u16, packets: usize, output: &BenchOutput) -> anyhow::Result<()> {
    let clock = BenchClock(Instant::now());
    let mut rows = Vec::new();
    for mode in [WaitMode::Busy, WaitMode::Woken, WaitMode::Naps] {
        rows.push(measure(mode, core, packets, clock)?);
    }
    report::print("poll", &rows, output)
}

/// State shared by the worker's thread and the sender.
#[derive(Debug, Default)]
struct PollBenchState {
    stop: AtomicBool,
    /// CPU time of the worker's thread. Unit: nanoseconds.
    spent: AtomicU64,
    /// When the worker wrote `spent`. Unit: nanoseconds.
    reported_at: AtomicU64,
}

fn measure(mode: WaitMode, core: u16, packets: usize, clock: BenchClock) -> anyhow::Result<Value> {
    let populated = sessions::populate(BenchProfile::USUAL, 1, 1)?;
    let session = *populated.sessions.first().context("one session")?;
    let reader = populated.readers.into_iter().next().context("one reader")?;
    let _publisher = populated.publisher;
    let (packet_source, rx) = rtrb::RingBuffer::new(64);
    let left_at = Arc::new(AtomicU64::new(0));
    let io = RingIo { rx, left_at: Arc::clone(&left_at), clock };
    let bell = Doorbell::new()?;
    let shared = PollBenchState::default();
    std::thread::scope(|scope| {
        let worker =
            scope.spawn(|| run_worker(mode, core, reader, io, bell.clone(), clock, &shared));
        let result =
            send_packets(mode, packets, session, packet_source, &left_at, &bell, clock, &shared);
        shared.stop.store(true, Ordering::Relaxed);
        bell.ring();
        let ended = worker.join();
        ended.map_err(|_| anyhow::anyhow!("the worker stopped by a fault"))??;
        result
    })
}

/// The worker's thread.
fn run_worker(
    mode: WaitMode,
    core: u16,
    reader: TablesReader,
    mut io: RingIo,
    bell: Doorbell,
    clock: BenchClock,
    shared: &PollBenchState,
) -> anyhow::Result<()> {
    adit_dpdk::pin_current_thread(core)?;
    let (events, _event_sink) = rtrb::RingBuffer::new(EVENT_RING_LEN);
    let (_command_source, commands) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
    let config = WorkerConfig {
        id: WorkerId(0),
        ports: vec![PortId(1)],
        burst: 32,
        buffer_pkts_max: 0,
        shaped_pkts_max: 0,
        recovery_time_stamp: None,
    };
    let mut worker = Worker::new(config, reader, events, commands);
    let mut pause = match mode {
        WaitMode::Busy => IdlePolicy::Busy { shares_core: false },
        WaitMode::Woken => IdlePolicy::Adaptive(Sleeper::new(bell, Some(Vec::new()))),
        WaitMode::Naps => IdlePolicy::Adaptive(Sleeper::new(bell, None)),
    };
    let mut turns = 0_u32;
    while !shared.stop.load(Ordering::Relaxed) {
        let report = worker.step(clock.now(), &mut io);
        let slept = pause.after_step(report.idle, || clock.now(), || worker.rest());
        turns = turns.wrapping_add(1);
        // Rarely for a busy worker, so that reading its CPU time does not slow it down.
        if slept > Nanos(0) || turns.is_multiple_of(4096) {
            shared.spent.store(thread_time(), Ordering::Relaxed);
            shared.reported_at.store(clock.now().0, Ordering::Release);
        }
    }
    worker.drain(&mut io);
    Ok(())
}

/// Time of the worker's last report, and its CPU time then. Unit: nanoseconds.
fn read_thread_time(shared: &PollBenchState) -> (u64, u64) {
    loop {
        let at = shared.reported_at.load(Ordering::Acquire);
        let spent = shared.spent.load(Ordering::Acquire);
        if shared.reported_at.load(Ordering::Acquire) == at {
            return (at, spent);
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "state of two threads")]
fn send_packets(
    mode: WaitMode,
    packets: usize,
    session: BenchSession,
    mut port: rtrb::Producer<BenchBuf>,
    left_at: &AtomicU64,
    bell: &Doorbell,
    clock: BenchClock,
    shared: &PollBenchState,
) -> anyhow::Result<Value> {
    std::thread::sleep(Duration::from_millis(200));
    let (from, before) = read_thread_time(shared);
    std::thread::sleep(IDLE);
    let (to, after) = read_thread_time(shared);
    let mut random = SmallRng::seed_from_u64(1);
    let mut latencies = Vec::with_capacity(packets);
    for _ in 0..packets {
        std::thread::sleep(Duration::from_micros(random.random_range(SILENCE_US)));
        let mut buf = BenchBuf::take();
        write_packet(&mut buf, Direction::Downlink, session, DN_ADDR)?;
        left_at.store(0, Ordering::Release);
        let put_at = clock.now();
        ensure!(port.push(buf).is_ok(), "the port is full");
        if mode == WaitMode::Woken {
            bell.ring();
        }
        let left = loop {
            match left_at.load(Ordering::Acquire) {
                0 => ensure!(clock.now().since(put_at) < LOST, "a packet did not leave"),
                left => break Nanos(left),
            }
            core::hint::spin_loop();
        };
        latencies.push(left.since(put_at).0);
    }
    latencies.sort_unstable();
    #[allow(clippy::cast_precision_loss, reason = "shown to people, not computed with")]
    let us = |share: usize| {
        let at = (latencies.len() * share / 100).min(latencies.len().saturating_sub(1));
        (latencies.get(at).copied().unwrap_or(0) as f64 / 100.0).round() / 10.0
    };
    #[allow(clippy::cast_precision_loss, reason = "shown to people, not computed with")]
    let share = after.saturating_sub(before) as f64 * 100.0 / to.saturating_sub(from).max(1) as f64;
    Ok(json!({
        "poll": match mode {
            WaitMode::Busy => "busy",
            WaitMode::Woken => "adaptive, woken by the port",
            WaitMode::Naps => "adaptive, naps",
        },
        "idle_share_percent": (share * 10.0).round() / 10.0,
        "first_packet_us_median": us(50),
        "first_packet_us_p99": us(99),
    }))
}
