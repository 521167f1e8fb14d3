//! `adit-bench models`: cycles per packet of the execution models over DPDK's packet buffers, on
//! one thread.
//!
//! The threads of the event-driven model take their steps in turns, so no cache line travels
//! between cores: the figures are those of the work itself. Packets arrive from memory and leave
//! into it.

mod cores;
mod pipeline;
mod scheduled;

use adit_dpdk::{Eal, EalConfig, EventDriver, HugepageMode, Mbuf, Mempool, MempoolConfig};
use adit_pktio::{Burst, PacketBuf, PacketIo, PortInfo};
use adit_types::PortId;
use anyhow::Context;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use self::scheduled::{QueuesCase, SchedulerSettings, event_driven, measure_queue_hop};
use super::measure;
use super::network::{self, BenchSession};
use super::packet::BenchPacket;
use super::report::{self, ratio, rounded};
use super::sessions::BenchProfile;
use crate::size::BenchSize;

/// Number of buffers of the pool.
const MBUFS: u32 = 8191;
/// Maximum number of packets that wait for their rates.
const SHAPED_PKTS_MAX: usize = 4096;

/// Measures uplink and downlink in each model, and the cost of a ring and of a queue; or, with
/// `settings`, the event-driven model with one setting of its schedulers after the other.
///
/// # Errors
/// DPDK does not start, or a packet was lost.
pub(crate) fn run(size: &BenchSize, settings: bool) -> anyhow::Result<Value> {
    let (eal, pool) = start()?;
    if settings {
        return Ok(report::of("models", &scheduled::settings(&pool, size)?));
    }
    let profile = BenchProfile::USUAL;
    let family = profile.family();
    let mut rows = Vec::new();
    for packet in [BenchPacket::uplink(family), BenchPacket::Downlink { family }] {
        rows.extend(pipeline::rows(&pool, size, packet)?);
        rows.extend(cores::rows(&eal, &pool, size, packet)?);
        for driver in [EventDriver::Dsw, EventDriver::Sw] {
            let settings = SchedulerSettings::new(driver, size.burst)?;
            for queues in QueuesCase::all(driver)? {
                rows.push(event_driven(&pool, size, &settings, &queues, packet)?);
            }
        }
    }
    rows.push(pipeline::measure_ring(&pool, size)?);
    for driver in [EventDriver::Dsw, EventDriver::Sw] {
        rows.push(measure_queue_hop(&pool, size, driver)?);
    }
    pipeline::compare(&mut rows);
    Ok(report::of("models", &rows))
}

/// Starts DPDK with a pool of buffers.
///
/// # Errors
/// DPDK does not start.
pub(crate) fn start() -> anyhow::Result<(Eal, Mempool)> {
    let eal = Eal::init(&EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 128,
        file_prefix: format!("adit-bench-{}", std::process::id()),
        ..EalConfig::default()
    })?;
    let config = MempoolConfig { name: "bench", mbufs: MBUFS, ..Default::default() };
    let pool = Mempool::create(&eal, &config)?;
    Ok((eal, pool))
}

/// Cycles of each part of a model.
#[derive(Debug, Default)]
struct PartCycles {
    rx_tx: u64,
    scheduler: u64,
    worker: u64,
}

fn row(model: &str, packet: BenchPacket, burst: usize, cycles: &PartCycles, pkts: usize) -> Value {
    let each = |cycles| rounded(ratio(cycles, pkts));
    json!({
        "model": model,
        "direction": packet.direction(),
        "burst_pkts": burst,
        "cycles_per_packet": each(cycles.rx_tx + cycles.scheduler + cycles.worker),
        "rx_tx_cycles": each(cycles.rx_tx),
        "scheduler_cycles": each(cycles.scheduler),
        "worker_cycles": each(cycles.worker),
    })
}

/// Two ports in memory: packets prepared in `ready` arrive at `rx_port`, and are dropped when sent.
struct MbufIo {
    pool: Mempool,
    rx_port: PortId,
    /// Packets that arrive next, the last ones first.
    ready: Vec<Mbuf>,
    /// True to prefetch the frames at their arrival, as a queue of a NIC does.
    prefetches: bool,
    sent: usize,
}

impl MbufIo {
    fn new(pool: &Mempool, rx_port: PortId) -> Self {
        let pool = pool.clone();
        Self { pool, rx_port, ready: Vec::new(), prefetches: false, sent: 0 }
    }

    fn fill(
        &mut self,
        packet: BenchPacket,
        burst: usize,
        sessions: &[BenchSession],
        random: &mut SmallRng,
    ) -> anyhow::Result<()> {
        let (mut frame, mut fresh) = ([0; 256], Burst::new());
        self.pool.alloc_burst(burst - self.ready.len(), &mut fresh);
        for mut buf in fresh {
            let session = network::random_session(sessions, random)?;
            let len = packet.write(&mut frame, session, random)?;
            buf.append(len).context("a frame fits a buffer")?.copy_from_slice(&frame[..len]);
            self.ready.push(buf);
        }
        Ok(())
    }
}

impl PacketIo for MbufIo {
    type Buf = Mbuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        if port != self.rx_port {
            return 0;
        }
        let count = limit.min(self.ready.len()).min(burst.remaining_capacity());
        burst.extend(self.ready.drain(self.ready.len() - count..));
        if self.prefetches {
            burst.iter().for_each(PacketBuf::prefetch);
        }
        count
    }

    fn tx_burst(&mut self, _: PortId, burst: &mut Burst<Mbuf>) -> usize {
        let count = burst.len();
        self.sent += count;
        Mbuf::free_burst(burst);
        count
    }

    fn alloc(&mut self) -> Option<Mbuf> {
        self.pool.alloc()
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        let mac = network::MACS[usize::from(port.0)];
        PortInfo { mac, mtu_bytes: 1500, rx_ipv4_checksum: true }
    }
}

/// Runs `work` and adds its cycles.
fn timed<T>(cycles: &mut u64, work: impl FnOnce() -> T) -> T {
    let (spent, done) = measure::timed(work);
    *cycles += spent;
    done
}

/// Returns the sum of `cycles` as without interruptions: the slowest hundredth counts as if it were
/// like the others. Sorts `cycles`.
fn sum_without_interruptions(cycles: &mut [u64]) -> u64 {
    cycles.sort_unstable();
    let kept = cycles.len() - cycles.len() / 100;
    cycles[..kept].iter().sum::<u64>() * cycles.len() as u64 / kept.max(1) as u64
}

/// Returns the number of measured steps, and of the warm-up steps before them.
fn steps(size: &BenchSize) -> (usize, usize) {
    let steps = size.packets.div_ceil(size.burst);
    (steps, (4 * size.sessions).div_ceil(size.burst))
}
