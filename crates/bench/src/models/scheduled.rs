//! Worker, Rx/Tx thread and scheduler of the event-driven model, in turns on one core.

use adit_datapath::{EventQueues, EventWorker, RxTx, RxTxConfig, STAGES, SharedFlows};
use adit_dpdk::{
    Eal, EventDevice, EventDeviceConfig, EventDriver, EventPortConfig, EventQueueConfig,
    EventScheduler, Mempool, OpenEventDevice, SchedulerPort,
};
use adit_pktio::{Event, EventBurst, EventPort, EventTag, ScheduleType};
use adit_rules::DropReason;
use adit_tables::Snapshot;
use adit_types::limits::BURST_MAX;
use adit_types::{Nanos, Roles};
use anyhow::{Context, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::{MbufIo, PartCycles, SHAPED_PKTS_MAX, row, steps, timed};
use crate::measure::worker;
use crate::network::{BURST_TIME, PORTS};
use crate::packet::BenchPacket;
use crate::sessions::{self, BenchProfile, BenchRates, Populated};
use crate::size::BenchSize;

/// Number of flows: adit's default.
const FLOWS: u32 = 512;
/// Maximum number of events in flight; half as many are allowed before new ones are refused.
const EVENTS_MAX: u32 = 4096;
/// Packets between Rx/Tx and worker, beyond which the worker takes more steps.
const IN_FLIGHT_MAX: usize = 512;
/// Number of bursts that an Rx/Tx thread takes from the scheduler in a step, with two ports.
const TX_BURSTS_PER_STEP: usize = 4;
/// Number of events that circle through the queues of [`measure_queue_hop`].
const CIRCLING_EVENTS: usize = 256;
/// Number of sessions in cases with waiting packets: a worker has room for some packets of each.
const WAITING_SESSIONS: usize = 256;
/// Number of queues of [`measure_queue_hop`].
const HOP_QUEUES: u8 = 4;

/// Measures uplink with one queue: with adit's defaults, then with one setting changed at a time.
///
/// # Errors
/// See [`event_driven`].
pub(super) fn settings(pool: &Mempool, size: &BenchSize) -> anyhow::Result<Vec<Value>> {
    let packet = BenchPacket::uplink(BenchProfile::USUAL.family());
    let queues = QueuesCase::merged();
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
            let mut row = event_driven(pool, size, &settings, &queues, packet)?;
            row["setting"] = json!(name);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The queues to measure, and the rates of the traffic.
#[derive(Debug, Clone)]
pub(super) struct QueuesCase {
    /// Suffix of the model's name in the report.
    name: &'static str,
    queues: EventQueues,
    rates: BenchRates,
}

impl QueuesCase {
    /// Returns the case with all stages behind one queue.
    fn merged() -> Self {
        Self { name: "", queues: EventQueues::default(), rates: BenchRates::None }
    }

    /// Returns the cases with a scheduler: one, two and four queues of stages; in addition the
    /// queues for reception and timers; and packets that wait for their rates, without and with the
    /// events of timers.
    ///
    /// # Errors
    /// Never: one, two and four queues are possible.
    pub(super) fn all(driver: EventDriver) -> anyhow::Result<Vec<Self>> {
        use ScheduleType::{Atomic, Ordered};
        let stages = |schedules: &[ScheduleType]| {
            EventQueues::new(schedules, [0; STAGES]).ok().context("one, two or four queues")
        };
        let (merged, four) = (stages(&[Atomic])?, stages(&[Atomic; STAGES])?);
        let mut cases = vec![
            ("", merged.clone(), BenchRates::None),
            ("", stages(&[Atomic; 2])?, BenchRates::None),
            ("", four.clone(), BenchRates::None),
            (", Rx queue", merged.clone().with_rx(Some(Atomic)), BenchRates::None),
            (", Rx and timer queues", four.with_rx(Some(Atomic)).with_timers(1), BenchRates::None),
            (", rates", merged.clone(), BenchRates::Wait),
            (", rates, timer queue", merged.clone().with_timers(1), BenchRates::Wait),
        ];
        if driver == EventDriver::Sw {
            let ordered = stages(&[Ordered, Atomic, Ordered, Ordered])?;
            cases.push((", ordered", ordered, BenchRates::None));
            cases.push((", ordered Rx queue", merged.with_rx(Some(Ordered)), BenchRates::None));
        }
        let case = |(name, queues, rates)| Self { name, queues, rates };
        Ok(cases.into_iter().map(case).collect())
    }
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
    /// Returns adit's defaults, with dequeue and enqueue depths of a burst.
    ///
    /// # Errors
    /// The burst exceeds the largest depth.
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
    queues: impl Iterator<Item = (ScheduleType, u8)>,
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
        queues: queues
            .map(|(schedule, priority)| EventQueueConfig { schedule, priority })
            .collect(),
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

/// Measures one worker and one Rx/Tx thread. The row also counts packets that the scheduler
/// refuses.
///
/// # Errors
/// The scheduler does not start; a packet was lost.
pub(super) fn event_driven(
    pool: &Mempool,
    size: &BenchSize,
    settings: &SchedulerSettings,
    case: &QueuesCase,
    packet: BenchPacket,
) -> anyhow::Result<Value> {
    let QueuesCase { name, queues, rates } = case;
    let profile = BenchProfile { rates: *rates, ..BenchProfile::USUAL };
    let count = if *rates == BenchRates::Wait { WAITING_SESSIONS } else { size.sessions };
    let Populated { publisher, readers, sessions, store: _store } =
        sessions::populate(profile, count, 2)?;
    let links = queues.links(Roles::event_driven(1, 1));
    let packet_queues = queues.of_packets().count();
    let depth = usize::from(settings.dequeue_depth);
    let (ports, mut scheduler) =
        open(pool.eal(), settings, queues.schedules().zip(queues.priorities()), links)?;
    let flows = SharedFlows::new(usize::try_from(settings.flows)?, queues, count);
    let mut parts = readers.into_iter().zip(ports);
    let (reader, port) = parts.next().context("a worker")?;
    let worker = worker(reader, Vec::new(), size.burst, SHAPED_PKTS_MAX);
    let mut worker = EventWorker::new(worker, port, flows.clone());
    let (reader, port) = parts.next().context("an Rx/Tx thread")?;
    let config = RxTxConfig { number: 0, ports: PORTS.to_vec(), burst: size.burst };
    let mut rx_tx = RxTx::new(config, reader, flows, port);
    let mut ios = [MbufIo::new(pool, packet.rx_port()), MbufIo::new(pool, packet.rx_port())];
    let mut random = SmallRng::seed_from_u64(1);
    let (steps, warm_up) = steps(size);
    let mut cycles = PartCycles::default();
    let (mut filled, mut before) = (0, 0);
    for step in 0..steps + warm_up {
        // The sessions' rates are shares of a traffic of one burst per `BURST_TIME`.
        let now = Nanos(BURST_TIME.0 * (step as u64 + 1));
        let [worker_io, rx_tx_io] = &mut ios;
        if step == warm_up {
            // Packets may be in flight here: each step moves one burst through every part.
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
        let turns = packet_queues * size.burst.div_ceil(depth);
        let turns = if in_flight > IN_FLIGHT_MAX { 2 * turns } else { turns };
        for _ in 0..turns {
            timed(&mut cycles.worker, || worker.step(now, worker_io));
            run_scheduler(&mut scheduler, &mut cycles.scheduler);
        }
    }
    let sent = ios[1].sent;
    let model = format!("eventdev, {}{name}", settings.driver.name());
    let mut row = row(&model, packet, size.burst, &cycles, sent);
    row["stages"] = json!(queues.stage_queues());
    drain_in_flight(&mut worker, &mut rx_tx, &mut ios, &mut scheduler);
    let all = ios[1].sent + before;
    add_outcomes(&mut row, &publisher.snapshot(), *rates, filled, all)?;
    let [worker_io, _] = &mut ios;
    worker.drain(worker_io);
    rx_tx.drain();
    Ok(row)
}

/// Adds to a row how many packets were refused and, with rates, how many waited.
///
/// # Errors
/// Some of the `filled` packets were neither sent nor dropped as expected.
fn add_outcomes(
    row: &mut Value,
    sum: &Snapshot,
    rates: BenchRates,
    filled: usize,
    sent: usize,
) -> anyhow::Result<()> {
    let dropped = |reason: DropReason| usize::try_from(sum.drops[reason.index()]);
    let (refused, overflowed) =
        (dropped(DropReason::SchedulerFull)?, dropped(DropReason::ShapingQueueFull)?);
    ensure!(
        sent + refused + overflowed == filled,
        "of {filled} packets {sent} were sent, {refused} refused and {overflowed} found no room to wait"
    );
    row["refused_pkts"] = json!(refused);
    if rates == BenchRates::Wait {
        row["overflowed_pkts"] = json!(overflowed);
        row["waited_pkts"] = json!(sum.shaping_delays.iter().sum::<u64>());
    }
    Ok(())
}

/// Runs all parts until the packets in flight have left, so that none is lost.
fn drain_in_flight(
    worker: &mut EventWorker<SchedulerPort, MbufIo>,
    rx_tx: &mut RxTx<SchedulerPort, MbufIo>,
    ios: &mut [MbufIo; 2],
    scheduler: &mut Option<EventScheduler>,
) {
    for step in 0..10_000 {
        let now = Nanos(u64::MAX / 2) + Nanos::from_micros(10 * step);
        let [worker_io, rx_tx_io] = ios;
        rx_tx.step(now, rx_tx_io);
        run_scheduler(scheduler, &mut 0);
        worker.step(now, worker_io);
        run_scheduler(scheduler, &mut 0);
    }
}

/// Measures the cycles of an event from one queue to the next, with its share of the scheduler: the
/// cost of a further stage that does nothing.
///
/// # Errors
/// The scheduler does not start, or refuses an event.
pub(super) fn measure_queue_hop(
    pool: &Mempool,
    size: &BenchSize,
    driver: EventDriver,
) -> anyhow::Result<Value> {
    let settings = SchedulerSettings::new(driver, size.burst)?;
    let queues = core::iter::repeat_n((ScheduleType::Atomic, 128), HOP_QUEUES.into());
    let (mut ports, mut scheduler) =
        open(pool.eal(), &settings, queues, vec![(0..HOP_QUEUES).collect()])?;
    let port = &mut ports[0];
    let mut events = EventBurst::new();
    let mut next = 0_u32;
    for _ in 0..CIRCLING_EVENTS {
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
                let queue = (event.tag.queue() + 1) % HOP_QUEUES;
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
