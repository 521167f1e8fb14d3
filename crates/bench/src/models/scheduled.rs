//! Worker, Rx/Tx thread and scheduler of the event-driven model, in turns on one core.

use adit_datapath::{EventStages, EventWorker, RxTx, RxTxConfig, STAGES, SharedFlows, TX_QUEUE};
use adit_dpdk::{
    Eal, EventDevice, EventDeviceConfig, EventDriver, EventPortConfig, EventQueueConfig,
    EventScheduler, Mempool, OpenEventDevice, SchedulerPort,
};
use adit_pktio::{Event, EventBurst, EventPort, EventTag, ScheduleType};
use adit_rules::DropReason;
use adit_types::Nanos;
use adit_types::limits::BURST_MAX;
use anyhow::{Context, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::{MbufIo, PORTS, PartCycles, row, steps, timed, worker};
use crate::packet::BenchPacket;
use crate::sessions::{self, BenchProfile, Populated};
use crate::size::BenchSize;

/// Flows, as adit's default.
const FLOWS: u32 = 512;
/// Events in flight at most, and before new ones are refused.
const EVENTS_MAX: u32 = 4096;
/// Packets between Rx/Tx and worker at most, about.
const IN_FLIGHT_MAX: usize = 512;
/// Bursts that an Rx/Tx thread takes from the scheduler in a step, with two ports.
const TX_BURSTS_PER_STEP: usize = 4;
/// Events that go round through the queues of [`hop`].
const CIRCLING: usize = 256;
/// Queues of [`hop`].
const HOPS: u8 = 4;

/// One setting after the other, uplink with one queue, beside adit's defaults.
///
/// # Errors
/// As [`event_driven`].
pub(super) fn settings(eal: &Eal, pool: &Mempool, size: &BenchSize) -> anyhow::Result<Vec<Value>> {
    let packet = BenchPacket::uplink(BenchProfile::USUAL.family());
    let stages =
        EventStages::new(&[ScheduleType::Atomic], [0; STAGES]).ok().context("one queue")?;
    let mut rows = Vec::new();
    for driver in [EventDriver::Dsw, EventDriver::Sw] {
        let usual = SchedulerSettings::new(driver, size.burst)?;
        let mut all = vec![("defaults".to_owned(), usual.clone())];
        for depth in [1, 8] {
            let dequeue = SchedulerSettings { dequeue_depth: depth, ..usual.clone() };
            let enqueue = SchedulerSettings { enqueue_depth: depth, ..usual.clone() };
            all.push((format!("dequeue_depth {depth}"), dequeue));
            all.push((format!("enqueue_depth {depth}"), enqueue));
        }
        for flows in [64, 4096] {
            all.push((format!("flows {flows}"), SchedulerSettings { flows, ..usual.clone() }));
        }
        for new_event_threshold in [64, 256] {
            let name = format!("new_event_threshold {new_event_threshold}");
            all.push((name, SchedulerSettings { new_event_threshold, ..usual.clone() }));
        }
        let quanta = ["sched_quanta=32", "sched_quanta=512", "credit_quanta=8", "credit_quanta=96"];
        for arguments in quanta.into_iter().filter(|_| driver == EventDriver::Sw) {
            let name = arguments.replace('=', " ");
            all.push((name, SchedulerSettings { arguments, ..usual.clone() }));
        }
        for (name, settings) in all {
            let mut row = event_driven(eal, pool, size, &settings, &stages, packet)?;
            row["setting"] = json!(name);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// A scheduler and its settings.
#[derive(Debug, Clone)]
pub(super) struct SchedulerSettings {
    pub driver: EventDriver,
    pub arguments: &'static str,
    pub flows: u32,
    pub new_event_threshold: u32,
    pub dequeue_depth: u16,
    pub enqueue_depth: u16,
}

impl SchedulerSettings {
    /// adit's defaults, with depths of a burst.
    ///
    /// # Errors
    /// The burst exceeds a depth.
    pub(super) fn new(driver: EventDriver, burst: usize) -> anyhow::Result<Self> {
        let (arguments, flows, new_event_threshold) = ("", FLOWS, EVENTS_MAX / 2);
        let depth = u16::try_from(burst)?;
        let (dequeue_depth, enqueue_depth) = (depth, depth);
        Ok(Self { driver, arguments, flows, new_event_threshold, dequeue_depth, enqueue_depth })
    }
}

fn open(
    eal: &Eal,
    settings: &SchedulerSettings,
    queues: usize,
    ports: Vec<Vec<u8>>,
) -> anyhow::Result<(Vec<SchedulerPort>, Option<EventScheduler>)> {
    let &SchedulerSettings {
        driver,
        arguments,
        flows,
        new_event_threshold,
        dequeue_depth,
        enqueue_depth,
    } = settings;
    let port =
        |queues| EventPortConfig { new_event_threshold, dequeue_depth, enqueue_depth, queues };
    let config = EventDeviceConfig {
        driver,
        arguments,
        flows,
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

/// Measures one worker and one Rx/Tx thread. Packets that the scheduler refuses are part of the row.
///
/// # Errors
/// The scheduler does not start; a packet was lost.
pub(super) fn event_driven(
    eal: &Eal,
    pool: &Mempool,
    size: &BenchSize,
    settings: &SchedulerSettings,
    stages: &EventStages,
    packet: BenchPacket,
) -> anyhow::Result<Value> {
    let Populated { publisher, readers, sessions, store: _store } =
        sessions::populate(BenchProfile::USUAL, size.sessions, 2)?;
    let links = vec![stages.queues().map(|queue| queue.number).collect(), vec![TX_QUEUE]];
    let queues = stages.queues().count();
    let depth = usize::from(settings.dequeue_depth);
    let (ports, mut scheduler) = open(eal, settings, 1 + queues, links)?;
    let flows = SharedFlows::new(usize::try_from(settings.flows)?, stages, size.sessions);
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
        // With a small depth a burst takes several steps.
        for _ in 0..size.burst.div_ceil(depth * TX_BURSTS_PER_STEP) {
            timed(&mut cycles.rx_tx, || rx_tx.step(now, rx_tx_io));
            run_scheduler(&mut scheduler, &mut cycles.scheduler);
        }
        // A worker that fell behind catches up.
        let in_flight = filled - rx_tx_io.ready.len() - before - rx_tx_io.sent;
        let turns = queues * size.burst.div_ceil(depth);
        let turns = if in_flight > IN_FLIGHT_MAX { 2 * turns } else { turns };
        for _ in 0..turns {
            timed(&mut cycles.worker, || worker.step(now, worker_io));
            run_scheduler(&mut scheduler, &mut cycles.scheduler);
        }
    }
    let sent = ios[1].sent;
    let model = format!("eventdev, {}", settings.driver.name());
    let mut row = row(&model, packet, size.burst, &cycles, sent);
    row["stages"] = json!(queues);
    leave(&mut worker, &mut rx_tx, &mut ios, &mut scheduler);
    let all = ios[1].sent + before;
    let drops = publisher.snapshot().drops;
    let refused = usize::try_from(drops[DropReason::SchedulerFull.index()])?;
    ensure!(all + refused == filled, "of {filled} packets {all} were sent and {refused} refused");
    row["refused_pkts"] = json!(refused);
    let [worker_io, _] = &mut ios;
    worker.drain(worker_io);
    rx_tx.drain();
    Ok(row)
}

/// What is in flight leaves, so that nothing is lost.
fn leave(
    worker: &mut EventWorker<SchedulerPort, MbufIo>,
    rx_tx: &mut RxTx<SchedulerPort, MbufIo>,
    ios: &mut [MbufIo; 2],
    scheduler: &mut Option<EventScheduler>,
) {
    let now = Nanos(u64::MAX / 2);
    for _ in 0..10_000 {
        let [worker_io, rx_tx_io] = ios;
        rx_tx.step(now, rx_tx_io);
        run_scheduler(scheduler, &mut 0);
        worker.step(now, worker_io);
        run_scheduler(scheduler, &mut 0);
    }
}

/// Cycles of an event from one queue to the next, with its share of the scheduler: what a further stage costs before it
/// does anything.
///
/// # Errors
/// The scheduler does not start, or refuses an event.
pub(super) fn hop(
    eal: &Eal,
    pool: &Mempool,
    size: &BenchSize,
    driver: EventDriver,
) -> anyhow::Result<Value> {
    let settings = SchedulerSettings::new(driver, size.burst)?;
    let (mut ports, mut scheduler) = open(eal, &settings, HOPS.into(), vec![(0..HOPS).collect()])?;
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
