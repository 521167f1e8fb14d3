//! `adit bench models`: cycles per packet of the execution models over DPDK's packet buffers, on one thread.
//!
//! The threads of the event-driven model take their steps in turns, so no cache line travels between cores: the
//! figures are those of the work itself. Packets arrive from memory and leave into it.

mod cores;
mod pipeline;

use std::sync::atomic::{Ordering, fence};

use adit_datapath::{
    EventStages, EventWorker, RxTx, RxTxConfig, STAGES, SharedFlows, TX_QUEUE, Worker, WorkerConfig,
};
use adit_dpdk::{
    Eal, EalConfig, EventDevice, EventDeviceConfig, EventDriver, EventPortConfig, EventQueueConfig,
    EventScheduler, HugepageMode, Mbuf, Mempool, MempoolConfig, OpenEventDevice, SchedulerPort,
};
use adit_pktio::{
    Burst, Event, EventBurst, EventPort, EventTag, PacketBuf, PacketIo, PortInfo, ScheduleType,
};
use adit_tables::TablesReader;
use adit_types::limits::{BURST_MAX, COMMAND_RING_LEN, EVENT_RING_LEN};
use adit_types::{Nanos, PortId};
use anyhow::{Context, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::network::{self, BenchSession};
use super::packet::BenchPacket;
use super::report;
use super::sessions::{self, BenchProfile, Populated};
use crate::size::BenchSize;

/// Buffers of the pool.
const MBUFS: u32 = 8191;
/// Flows, as adit's default.
const FLOWS: u32 = 512;
/// Events in flight at most, and before new ones are refused.
const EVENTS_MAX: u32 = 4096;
/// Packets between Rx/Tx and worker at most, about.
const IN_FLIGHT_MAX: usize = 512;
/// Events that go round through the queues of [`hop`].
const CIRCLING: usize = 256;
/// Queues of [`hop`].
const HOPS: u8 = 4;

/// Measures uplink and downlink in each model, and the cost of a ring and of a queue, and prints the result.
///
/// # Errors
/// DPDK does not start, or a packet was lost.
pub(crate) fn run(size: &BenchSize) -> anyhow::Result<()> {
    let eal = Eal::init(&EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 128,
        file_prefix: format!("adit-bench-{}", std::process::id()),
        ..EalConfig::default()
    })?;
    let pool = Mempool::create(
        &eal,
        &MempoolConfig { name: "bench", mbufs: MBUFS, ..Default::default() },
    )?;
    let profile = BenchProfile::USUAL;
    let family = profile.family();
    let mut rows = Vec::new();
    for packet in [BenchPacket::uplink(family), BenchPacket::Downlink { family }] {
        rows.extend(pipeline::rows(&pool, size, packet)?);
        rows.extend(cores::rows(&eal, &pool, size, packet)?);
        for driver in [EventDriver::Dsw, EventDriver::Sw] {
            for queues in [1, 2, 4] {
                let stages =
                    EventStages::new(&[ScheduleType::Atomic; STAGES][..queues], [0; STAGES]);
                let stages = stages.ok().context("one, two or four queues")?;
                rows.push(event_driven(&eal, &pool, size, driver, &stages, packet)?);
            }
        }
    }
    rows.push(pipeline::ring(&pool, size)?);
    for driver in [EventDriver::Dsw, EventDriver::Sw] {
        rows.push(hop(&eal, &pool, size, driver)?);
    }
    pipeline::compare(&mut rows);
    report::print("models", &rows, &size.output)
}

/// Cycles of each part of a model.
#[derive(Debug, Default)]
struct PartCycles {
    rx_tx: u64,
    scheduler: u64,
    worker: u64,
}

fn row(model: &str, packet: BenchPacket, burst: usize, cycles: &PartCycles, pkts: usize) -> Value {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = |cycles: u64| report::rounded(cycles as f64 / pkts.max(1) as f64);
    json!({
        "model": model,
        "direction": if packet.is_uplink() { "uplink" } else { "downlink" },
        "burst_pkts": burst,
        "cycles_per_packet": each(cycles.rx_tx + cycles.scheduler + cycles.worker),
        "rx_tx_cycles": each(cycles.rx_tx),
        "scheduler_cycles": each(cycles.scheduler),
        "worker_cycles": each(cycles.worker),
    })
}

/// Two ports in memory: packets prepared in `ready` arrive at `rx_port`, and leave into nothing.
struct MbufIo {
    pool: Mempool,
    rx_port: PortId,
    ready: Burst<Mbuf>,
    sent: usize,
}

impl MbufIo {
    fn new(pool: &Mempool, rx_port: PortId) -> Self {
        Self { pool: pool.clone(), rx_port, ready: Burst::new(), sent: 0 }
    }

    fn fill(
        &mut self,
        packet: BenchPacket,
        burst: usize,
        sessions: &[BenchSession],
        random: &mut SmallRng,
    ) -> anyhow::Result<()> {
        let mut frame = [0; 256];
        self.pool.alloc_burst(burst - self.ready.len(), &mut self.ready);
        for buf in &mut self.ready {
            let session = network::random_session(sessions, random)?;
            let len = packet.write(&mut frame, session, random)?;
            ensure!(buf.truncate(0), "an empty buffer");
            buf.append(len).context("a frame fits a buffer")?.copy_from_slice(&frame[..len]);
        }
        Ok(())
    }
}

impl PacketIo for MbufIo {
    type Buf = Mbuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        let count = match port == self.rx_port {
            true => limit.min(self.ready.len()).min(burst.remaining_capacity()),
            false => 0,
        };
        burst.extend(self.ready.drain(..count));
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

fn worker<Io: PacketIo>(reader: TablesReader, ports: Vec<PortId>, burst: usize) -> Worker<Io> {
    let (events, _) = rtrb::RingBuffer::new(EVENT_RING_LEN);
    let (_, commands) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
    let config = WorkerConfig {
        id: reader.worker(),
        ports,
        burst,
        buffer_pkts_max: 1024,
        shaped_pkts_max: 1024,
        recovery_time_stamp: None,
    };
    Worker::new(config, reader, events, commands)
}

fn timed<T>(cycles: &mut u64, work: impl FnOnce() -> T) -> T {
    // Complete the stores to the buffers before the timed part.
    fence(Ordering::SeqCst);
    let start = adit_dpdk::tsc();
    let done = work();
    *cycles += adit_dpdk::tsc().wrapping_sub(start);
    done
}

/// The sum of `cycles` if none of the measurements had been interrupted: the slowest hundredth takes as many as the
/// others. Sorts `cycles`.
fn steady(cycles: &mut [u64]) -> u64 {
    cycles.sort_unstable();
    let kept = cycles.len() - cycles.len() / 100;
    cycles[..kept].iter().sum::<u64>() * cycles.len() as u64 / kept.max(1) as u64
}

const PORTS: [PortId; 2] = [PortId(0), PortId(1)];

/// Measured steps, and steps before them.
fn steps(size: &BenchSize) -> (usize, usize) {
    let steps = size.packets.div_ceil(size.burst);
    (steps, (4 * size.sessions).div_ceil(size.burst))
}

fn open(
    eal: &Eal,
    driver: EventDriver,
    queues: usize,
    ports: Vec<Vec<u8>>,
    depth: usize,
) -> anyhow::Result<(Vec<SchedulerPort>, Option<EventScheduler>)> {
    let depth = u16::try_from(depth)?;
    let port = |queues| EventPortConfig {
        new_event_threshold: EVENTS_MAX / 2,
        dequeue_depth: depth,
        enqueue_depth: depth,
        queues,
    };
    let config = EventDeviceConfig {
        driver,
        arguments: "",
        flows: FLOWS,
        events_max: EVENTS_MAX,
        queues: vec![EventQueueConfig { schedule: ScheduleType::Atomic, priority: 128 }; queues],
        ports: ports.into_iter().map(port).collect(),
    };
    let OpenEventDevice { ports, scheduler, .. } = EventDevice::open(eal, 0, &config)?;
    Ok((ports, scheduler))
}

fn run_scheduler(scheduler: &mut Option<EventScheduler>, cycles: &mut u64) {
    if let Some(scheduler) = scheduler {
        timed(cycles, || scheduler.run());
    }
}

fn event_driven(
    eal: &Eal,
    pool: &Mempool,
    size: &BenchSize,
    driver: EventDriver,
    stages: &EventStages,
    packet: BenchPacket,
) -> anyhow::Result<Value> {
    let Populated { publisher: _publisher, readers, sessions, store: _store } =
        sessions::populate(BenchProfile::USUAL, size.sessions, 2)?;
    let links = vec![stages.queues().map(|queue| queue.number).collect(), vec![TX_QUEUE]];
    let queues = stages.queues().count();
    let (ports, mut scheduler) = open(eal, driver, 1 + queues, links, size.burst)?;
    let flows = SharedFlows::new(usize::try_from(FLOWS)?, stages, size.sessions);
    let mut parts = readers.into_iter().zip(ports);
    let (reader, port) = parts.next().context("a worker")?;
    let mut worker = EventWorker::new(worker(reader, Vec::new(), size.burst), port, flows.clone());
    let (reader, port) = parts.next().context("an Rx/Tx thread")?;
    let config = RxTxConfig { ports: PORTS.to_vec(), burst: size.burst };
    let mut rx_tx = RxTx::new(config, reader, flows, port);
    let mut ios = [MbufIo::new(pool, packet.rx_port()), MbufIo::new(pool, packet.rx_port())];
    let mut random = SmallRng::seed_from_u64(1);
    let (steps, warm_up) = steps(size);
    let mut cycles = PartCycles::default();
    let (mut filled, mut before) = (0, 0);
    for step in 0..steps + warm_up {
        let now = Nanos(step as u64 + 1);
        let [worker_io, rx_tx_io] = &mut ios;
        if step == warm_up {
            // What is in flight stays so: each step moves one burst through every part.
            before = rx_tx_io.sent;
            (cycles, rx_tx_io.sent) = (PartCycles::default(), 0);
        }
        filled += size.burst - rx_tx_io.ready.len();
        rx_tx_io.fill(packet, size.burst, &sessions, &mut random)?;
        timed(&mut cycles.rx_tx, || rx_tx.step(now, rx_tx_io));
        run_scheduler(&mut scheduler, &mut cycles.scheduler);
        // A worker that fell behind catches up.
        let in_flight = filled - rx_tx_io.ready.len() - before - rx_tx_io.sent;
        let turns = if in_flight > IN_FLIGHT_MAX { 2 * queues } else { queues };
        for _ in 0..turns {
            timed(&mut cycles.worker, || worker.step(now, worker_io));
            run_scheduler(&mut scheduler, &mut cycles.scheduler);
        }
    }
    let sent = ios[1].sent;
    let model = format!("eventdev, {}", driver.name());
    let mut row = row(&model, packet, size.burst, &cycles, sent);
    row["stages"] = json!(queues);
    // The rest leaves, so that nothing is lost.
    for _ in 0..10_000 {
        let [worker_io, rx_tx_io] = &mut ios;
        rx_tx.step(Nanos(u64::MAX / 2), rx_tx_io);
        run_scheduler(&mut scheduler, &mut 0);
        worker.step(Nanos(u64::MAX / 2), worker_io);
        run_scheduler(&mut scheduler, &mut 0);
    }
    let all = ios[1].sent + before;
    ensure!(all == filled, "of {filled} packets {all} were sent");
    let [worker_io, _] = &mut ios;
    worker.drain(worker_io);
    rx_tx.drain();
    Ok(row)
}

/// Cycles of an event from one queue to the next, with its share of the scheduler: what a further stage costs before it
/// does anything.
fn hop(eal: &Eal, pool: &Mempool, size: &BenchSize, driver: EventDriver) -> anyhow::Result<Value> {
    let (mut ports, mut scheduler) =
        open(eal, driver, HOPS.into(), vec![(0..HOPS).collect()], size.burst)?;
    let port = &mut ports[0];
    let mut events = EventBurst::new();
    let mut next = 0_u32;
    for _ in 0..CIRCLING {
        next += 1;
        let tag = EventTag::new(0, ScheduleType::Atomic, next % FLOWS, 0);
        events.push(Event { tag, buf: Some(pool.alloc().context("a buffer")?) });
        ensure!(port.enqueue_new(&mut events) == 1, "the scheduler takes all events");
    }
    port.flush();
    let (mut cycles, mut pkts) = (PartCycles::default(), 0);
    while pkts < size.packets {
        run_scheduler(&mut scheduler, &mut cycles.scheduler);
        pkts += timed(&mut cycles.worker, || {
            let count = port.dequeue(BURST_MAX, &mut events);
            for event in &mut events {
                let queue = (event.tag.queue() + 1) % HOPS;
                event.tag = EventTag::new(queue, ScheduleType::Atomic, event.tag.flow(), 0);
            }
            port.enqueue(&mut events);
            count
        });
        ensure!(events.is_empty(), "the scheduler takes events that follow from others");
    }
    let model = format!("one queue, {}", driver.name());
    let packet = BenchPacket::uplink(BenchProfile::USUAL.family());
    let mut row = row(&model, packet, size.burst, &cycles, pkts);
    row["direction"] = json!("");
    Ok(row)
}
