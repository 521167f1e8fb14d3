//! `adit-bench poll`: the CPU share of an idle worker, and the latency of the first packet after a
//! pause, for each idle mode.
//!
//! A worker runs on its own core on a port in memory. Another thread waits for a random time, puts
//! one packet into the port, and measures the time until the worker sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_tables::TablesReader;
use adit_types::limits::BURST_DEFAULT;
use adit_types::{Nanos, PortId};
use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::io::BenchBuf;
use super::measure::{BenchClock, SHAPED_PKTS_FEW, worker};
use super::network::{BenchSession, PORTS};
use super::packet::BenchPacket;
use super::report::{self, quantile, ratio, rounded};
use super::sessions::{self, BenchProfile};
use adit_kernel::idle::{Doorbell, IdlePolicy, Sleeper, thread_time};

/// For how long the CPU share of an idle worker is measured.
const IDLE_MEASUREMENT: Duration = Duration::from_secs(2);

/// The pause before a packet, long enough for the worker to sleep. Unit: microseconds.
const SILENCE_US: core::ops::Range<u64> = 2000..6000;

/// A packet with a higher latency counts as lost.
const LOST_LATENCY_MIN: Nanos = Nanos::from_secs(1);

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

/// Measures every idle mode on `core`, with `packets` packets each.
///
/// # Errors
/// The worker cannot run on the core, or a packet is lost.
pub(crate) fn run(core: u16, packets: usize) -> anyhow::Result<Value> {
    let clock = BenchClock::start();
    let mut rows = Vec::new();
    for mode in [WaitMode::Busy, WaitMode::Woken, WaitMode::Naps] {
        rows.push(measure(mode, core, packets, clock)?);
    }
    Ok(report::of("poll", &rows))
}

/// State that the worker's thread and the sender share.
struct PollBench {
    mode: WaitMode,
    clock: BenchClock,
    bell: Doorbell,
    /// Time at which the last packet left. Unit: nanoseconds.
    left_at: Arc<AtomicU64>,
    stop: AtomicBool,
    /// CPU time of the worker's thread. Unit: nanoseconds.
    spent: AtomicU64,
    /// Time at which the worker wrote `spent`. Unit: nanoseconds.
    reported_at: AtomicU64,
}

fn measure(mode: WaitMode, core: u16, packets: usize, clock: BenchClock) -> anyhow::Result<Value> {
    let populated = sessions::populate(BenchProfile::USUAL, 1, 1)?;
    let session = *populated.sessions.first().context("one session")?;
    let reader = populated.readers.into_iter().next().context("one reader")?;
    let _publisher = populated.publisher;
    let (packet_source, rx) = rtrb::RingBuffer::new(64);
    let bench = PollBench {
        mode,
        clock,
        bell: Doorbell::new()?,
        left_at: Arc::default(),
        stop: AtomicBool::new(false),
        spent: AtomicU64::new(0),
        reported_at: AtomicU64::new(0),
    };
    let io = RingIo { rx, left_at: Arc::clone(&bench.left_at), clock };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| bench.run_worker(core, reader, io));
        let result = bench.send_packets(packets, session, packet_source);
        bench.stop.store(true, Ordering::Relaxed);
        bench.bell.ring();
        let ended = worker.join();
        ended.map_err(|_| anyhow::anyhow!("the worker stopped by a fault"))??;
        result
    })
}

impl PollBench {
    /// Runs the worker's thread.
    fn run_worker(&self, core: u16, reader: TablesReader, mut io: RingIo) -> anyhow::Result<()> {
        let (clock, bell) = (self.clock, self.bell.clone());
        adit_dpdk::pin_current_thread(core)?;
        let mut worker = worker(reader, vec![PORTS[1]], BURST_DEFAULT, SHAPED_PKTS_FEW);
        let mut pause = match self.mode {
            WaitMode::Busy => IdlePolicy::Busy { shares_core: false },
            WaitMode::Woken => IdlePolicy::Adaptive(Sleeper::new(bell, Some(Vec::new()))),
            WaitMode::Naps => IdlePolicy::Adaptive(Sleeper::new(bell, None)),
        };
        let mut turns = 0_u32;
        while !self.stop.load(Ordering::Relaxed) {
            let report = worker.step(clock.now(), &mut io);
            let slept = pause.after_step(report.idle, || clock.now(), || worker.rest());
            turns = turns.wrapping_add(1);
            // Rarely for a busy worker, so that reading its CPU time does not slow it down.
            if slept > Nanos(0) || turns.is_multiple_of(4096) {
                self.spent.store(thread_time(), Ordering::Relaxed);
                self.reported_at.store(clock.now().0, Ordering::Release);
            }
        }
        worker.drain(&mut io);
        Ok(())
    }

    /// Returns the time of the worker's last report, and its CPU time then. Unit: nanoseconds.
    fn read_thread_time(&self) -> (u64, u64) {
        loop {
            let at = self.reported_at.load(Ordering::Acquire);
            let spent = self.spent.load(Ordering::Acquire);
            if self.reported_at.load(Ordering::Acquire) == at {
                return (at, spent);
            }
        }
    }

    fn send_packets(
        &self,
        packets: usize,
        session: BenchSession,
        mut port: rtrb::Producer<BenchBuf>,
    ) -> anyhow::Result<Value> {
        let Self { mode, clock, ref bell, ref left_at, .. } = *self;
        std::thread::sleep(Duration::from_millis(200));
        let (from, before) = self.read_thread_time();
        std::thread::sleep(IDLE_MEASUREMENT);
        let (to, after) = self.read_thread_time();
        let mut random = SmallRng::seed_from_u64(1);
        let mut latencies = Vec::with_capacity(packets);
        for _ in 0..packets {
            std::thread::sleep(Duration::from_micros(random.random_range(SILENCE_US)));
            let (mut buf, mut frame) = (BenchBuf::take(), [0; 256]);
            let len = BenchPacket::DOWNLINK.write(&mut frame, session, &mut random)?;
            buf.reset(&frame[..len]);
            left_at.store(0, Ordering::Release);
            let put_at = clock.now();
            ensure!(port.push(buf).is_ok(), "the port is full");
            if mode == WaitMode::Woken {
                bell.ring();
            }
            let left = loop {
                match left_at.load(Ordering::Acquire) {
                    0 => ensure!(
                        clock.now().since(put_at) < LOST_LATENCY_MIN,
                        "a packet did not leave"
                    ),
                    left => break Nanos(left),
                }
                core::hint::spin_loop();
            };
            latencies.push(left.since(put_at).0);
        }
        latencies.sort_unstable();
        let us = |permille| rounded(ratio(quantile(&latencies, permille), 1000));
        let idle = usize::try_from(to.saturating_sub(from))?;
        Ok(json!({
            "poll": match mode {
                WaitMode::Busy => "busy",
                WaitMode::Woken => "adaptive, woken by the port",
                WaitMode::Naps => "adaptive, naps",
            },
            "idle_share_percent": rounded(100.0 * ratio(after.saturating_sub(before), idle)),
            "first_packet_us_median": us(500),
            "first_packet_us_p99": us(990),
        }))
    }
}
