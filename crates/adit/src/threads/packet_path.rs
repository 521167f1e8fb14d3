//! The threads of the packet path: what each is made of, and its life from the start gate to the
//! exit barriers.

use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use adit_datapath::{
    EventWorker, Handoff, KernelTwins, OwnerChanges, PathThread, Receiver, ReceiverConfig, RxTx,
    RxTxConfig, SharedFlows, TapPort, Worker, WorkerConfig, connect,
};
use adit_dpdk::{Eal, EventScheduler, Mbuf, SchedulerPort};
use adit_kernel::idle::{Doorbell, IdlePolicy, Sleeper};
use adit_rules::{TapItem, WorkerCommand, WorkerEvent};
use adit_tables::TablesReader;
use adit_types::limits::{COMMAND_RING_LEN, EVENT_RING_LEN, HANDOFF_RING_LEN, TAP_RING_LEN};
use adit_types::{PortId, Role, WorkerId};
use adit_wire::rss::Toeplitz;
use anyhow::{Context, bail};
use tracing::{info, warn};

use crate::clock::ProcessClock;
use crate::config::{Config, ModelSettings, PollMode, ThreadSettings};
use crate::ports::thread_io::ThreadIo;
use crate::threads::event_scheduler;
use crate::threads::exit_barrier::{ExitBarrier, ExitBarrierPlace, ExitBarriers};
use crate::threads::lifecycle::Lifecycle;
use crate::threads::load::{LoadMeter, StepLoad, ThreadLoad};
use crate::threads::process_nodes::ProcessNodes;

/// How long a thread sleeps between two discards of arrived frames while this adit may not serve.
const PAUSED_SLEEP: Duration = Duration::from_millis(1);

/// A thread of the packet path, running or done.
pub(crate) type WorkerThread = JoinHandle<anyhow::Result<()>>;

/// State that all threads of the packet path share.
pub(crate) struct PacketPath<'a> {
    pub eal: &'a Eal,
    pub config: &'a Config,
    pub clock: ProcessClock,
    pub lifecycle: &'a Lifecycle,
}

impl PacketPath<'_> {
    /// Starts all threads, which wait at the gate.
    ///
    /// # Errors
    /// The process is out of threads.
    pub(crate) fn start(
        &self,
        parts: Vec<ThreadParts>,
        io: Vec<ThreadIo>,
        scheduler: Option<EventScheduler>,
    ) -> anyhow::Result<Vec<WorkerThread>> {
        let exit = ExitBarriers::default();
        let mut threads = Vec::new();
        for (parts, io) in parts.into_iter().zip(io) {
            threads.push(self.start_thread(&exit, parts, io)?);
        }
        if let Some(scheduler) = scheduler {
            let Self { eal, config, lifecycle, .. } = *self;
            let run = event_scheduler::scheduler_thread_body(
                eal,
                lifecycle,
                &exit,
                scheduler,
                &config.datapath,
            )?;
            threads.push(spawn("adit-scheduler", run)?);
        }
        Ok(threads)
    }

    /// The configuration of a worker.
    fn worker_config(
        &self,
        id: WorkerId,
        ports: Vec<PortId>,
        recovery_time_stamp: u32,
    ) -> WorkerConfig {
        let config = self.config;
        WorkerConfig {
            id,
            ports,
            burst: config.datapath.burst_pkts,
            buffer_pkts_max: config.buffer_pkts_per_worker(),
            shaped_pkts_max: config.shaped_pkts_per_worker(),
            recovery_time_stamp: Some(recovery_time_stamp),
        }
    }

    /// Starts a thread of the packet path.
    fn start_thread(
        &self,
        exit: &ExitBarriers,
        parts: ThreadParts,
        io: ThreadIo,
    ) -> anyhow::Result<WorkerThread> {
        let Self { eal, config, clock, lifecycle } = *self;
        let ThreadParts { id, settings, reader, handoff, control, bells, load, scheduled, .. } =
            parts;
        let (ports, burst) = (io.receiving(), config.datapath.burst_pkts);
        let runner = ThreadRunner {
            eal: eal.clone(),
            clock,
            lifecycle: lifecycle.clone(),
            inside: exit.stopped.join(),
            drained: exit.drained.clone(),
            settings,
            shares_core: config.datapath.shares_core(settings.core),
            realtime_priority: config.datapath.realtime_priority,
            has_shared_node: parts.has_shared_node,
            bell: bells.get(usize::from(id.0)).cloned(),
            bells,
            burst,
            load,
        };
        let Some(ControlRings { events, commands, records }) = control else {
            if let Some((port, flows)) = scheduled {
                let number = usize::from(id.0) - config.datapath.roles().processing_thread_count();
                let rx_tx = RxTxConfig { number, ports, burst };
                return spawn(&format!("adit-rx-tx-{id}"), move || {
                    runner.run(io, || RxTx::new(rx_tx, reader, flows, port))
                });
            }
            let (spread, key) = match config.datapath.model {
                ModelSettings::Pipeline { spread, rss_key, .. } => (spread, rss_key),
                _ => bail!("a receiver without a pipeline"),
            };
            let receiver_config = ReceiverConfig { ports, burst, spread };
            let signaling = config.datapath.roles().signaling().context("no signaling worker")?;
            return spawn(&format!("adit-receiver-{id}"), move || {
                let receiver = || Receiver::new(receiver_config, reader, handoff, signaling);
                runner.run(io, || receiver().with_hash(Toeplitz::new(key)))
            });
        };
        let taps = TapPort { records, clock: Box::new(move || clock.now()) };
        let worker_config = self.worker_config(id, ports, parts.recovery_time_stamp);
        let twins = parts.twins;
        let worker = move || {
            let worker = Worker::new(worker_config, reader, events, commands);
            worker.with_taps(taps).with_kernel(twins)
        };
        if let Some((port, flows)) = scheduled {
            let is_alone = config.datapath.workers.len() == 1;
            return spawn(&format!("adit-worker-{id}"), move || {
                runner.run(io, || {
                    let worker = match is_alone {
                        true => worker(),
                        false => worker().with_handoff(handoff.with_flows(flows.clone())),
                    };
                    EventWorker::new(worker, port, flows)
                })
            });
        }
        spawn(&format!("adit-{}-{id}", settings.role.name()), move || {
            runner.run(io, || worker().with_handoff(handoff))
        })
    }
}

/// Everything that one thread of the packet path needs, except its ports.
pub(crate) struct ThreadParts {
    pub id: WorkerId,
    pub settings: ThreadSettings,
    pub reader: TablesReader,
    pub handoff: Handoff<Mbuf>,
    /// The worker's side of its rings from and to the control thread; `None` for a thread that only
    /// receives, or receives and transmits.
    pub control: Option<ControlRings>,
    /// The doorbells of all threads.
    pub bells: Vec<Doorbell>,
    pub recovery_time_stamp: u32,
    pub load: ThreadLoad,
    /// The thread's port of the event scheduler, and the flows; `None` in other models.
    pub scheduled: Option<(SchedulerPort, SharedFlows)>,
    /// True if the thread that starts this one prefers memory of one NUMA node. This thread
    /// inherits that preference and has to reset it.
    pub has_shared_node: bool,
    /// A worker's rings to kernel twins, if there are any.
    pub twins: Option<KernelTwins>,
}

pub(crate) struct ControlRings {
    pub events: rtrb::Producer<WorkerEvent>,
    pub commands: rtrb::Consumer<WorkerCommand>,
    /// Tap items: what happens to packets that clients trace or capture.
    pub records: rtrb::Producer<TapItem>,
}

/// The parts of all threads, and the control thread's ends of their rings.
pub(crate) struct AssembledPath {
    pub parts: Vec<ThreadParts>,
    pub events: Vec<rtrb::Consumer<WorkerEvent>>,
    pub commands: Vec<rtrb::Producer<WorkerCommand>>,
    pub records: Vec<rtrb::Consumer<TapItem>>,
    pub bells: Vec<Doorbell>,
    pub loads: Vec<ThreadLoad>,
    /// Moves sessions from one owner to another.
    pub owners: OwnerChanges<Mbuf>,
}

impl AssembledPath {
    /// Connects the threads of the configuration with each other and with the control thread.
    /// `readers`: one for each thread.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub(crate) fn new(
        config: &Config,
        nodes: &ProcessNodes,
        readers: Vec<TablesReader>,
        recovery_time_stamp: u32,
    ) -> anyhow::Result<Self> {
        let bells = readers.iter().map(|_| Doorbell::new()).collect::<Result<Vec<_>, _>>()?;
        let (mut parts, mut loads) = (Vec::new(), Vec::new());
        let (mut events, mut commands, mut records) = (Vec::new(), Vec::new(), Vec::new());
        let handoffs = connect(config.datapath.roles(), HANDOFF_RING_LEN);
        let owners = handoffs.first().context("there is no worker")?.owner_changes();
        let handoffs = handoffs.into_iter().map(|handoff| handoff.with_nodes(nodes.threads()));
        let readers = readers.into_iter().zip(handoffs);
        for (settings, (reader, handoff)) in config.datapath.threads().into_iter().zip(readers) {
            let control = (!matches!(settings.role, Role::Receiver | Role::RxTx)).then(|| {
                let (event_sender, event_receiver) = rtrb::RingBuffer::new(EVENT_RING_LEN);
                let (command_sender, command_receiver) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
                let (record_sender, record_receiver) = rtrb::RingBuffer::new(TAP_RING_LEN);
                events.push(event_receiver);
                commands.push(command_sender);
                records.push(record_receiver);
                ControlRings {
                    events: event_sender,
                    commands: command_receiver,
                    records: record_sender,
                }
            });
            let load = ThreadLoad::default();
            parts.push(ThreadParts {
                id: reader.worker(),
                settings,
                reader,
                handoff,
                control,
                bells: bells.clone(),
                recovery_time_stamp,
                load: load.clone(),
                scheduled: None,
                has_shared_node: nodes.memory().is_some(),
                twins: None,
            });
            loads.push(load);
        }
        Ok(Self { parts, events, commands, records, bells, loads, owners })
    }
}

/// Parts that turn a worker or a receiver into a thread.
struct ThreadRunner {
    eal: Eal,
    clock: ProcessClock,
    lifecycle: Lifecycle,
    inside: ExitBarrierPlace,
    drained: ExitBarrier,
    settings: ThreadSettings,
    /// 0: no real-time scheduling.
    realtime_priority: u8,
    has_shared_node: bool,
    /// True if the thread must yield to other threads of adit on its core.
    shares_core: bool,
    bell: Option<Doorbell>,
    bells: Vec<Doorbell>,
    burst: usize,
    load: ThreadLoad,
}

impl ThreadRunner {
    /// Runs the thread on its core from the start gate until adit stops. `make` makes the worker or
    /// receiver whose steps the thread takes.
    fn run<T: PathThread<ThreadIo>>(
        self,
        mut io: ThreadIo,
        make: impl FnOnce() -> T,
    ) -> anyhow::Result<()> {
        let Self { eal, clock, lifecycle, inside, drained, settings, realtime_priority, .. } = self;
        let Self { shares_core, bell, bells, burst, load, has_shared_node, .. } = self;
        adit_dpdk::pin_current_thread(settings.core)?;
        if has_shared_node && let Err(error) = adit_dpdk::prefer_memory_of(None) {
            warn!("{error}; the thread uses memory of the node that most threads are on");
        }
        if realtime_priority > 0 {
            adit_dpdk::set_realtime_priority(realtime_priority)?;
        }
        let registered = adit_dpdk::register_thread(&eal)?;
        if lifecycle.gate.pass() {
            let packets = io.discard_waiting();
            info!(
                packets,
                core = settings.core,
                "discarded what had arrived before adit was active"
            );
        }
        let mut meter = LoadMeter::new(load, clock.now());
        let mut thread = make();
        let mut pause = match (settings.poll, bell) {
            (PollMode::Adaptive, Some(bell)) => {
                IdlePolicy::Adaptive(Sleeper::new(bell, io.sockets()))
            }
            _ => IdlePolicy::Busy { shares_core },
        };
        while !lifecycle.stop.load(Ordering::Relaxed) {
            let began = clock.now();
            if !lifecycle.lease.allows(began) {
                // Without the lease another adit may be active.
                thread.rest();
                lifecycle.lease.count_discarded(io.discard_waiting());
                std::thread::sleep(PAUSED_SLEEP);
                meter.count_sleep(clock.now().since(began));
                continue;
            }
            let report = thread.step(began, &mut io);
            let step = StepLoad { began, is_idle: report.idle, is_full: report.received >= burst };
            meter.count_step(step, || thread.take_fullest_ring());
            if !report.handed_to.is_empty() {
                let handed_to = report.handed_to.iter().filter_map(|to| bells.get(to));
                handed_to.for_each(Doorbell::ring);
                // The receiving thread may share this core: let it run before its ring, which is
                // short, is full.
                if shares_core {
                    std::thread::yield_now();
                }
            }
            meter.count_sleep(pause.after_step(report.idle, || clock.now(), || thread.rest()));
        }
        // Other threads may hand over packets until they have stopped as well.
        inside.wait_for_all();
        // A central scheduler still delivers events in flight.
        while !drained.is_open() {
            thread.drain(&mut io);
            std::thread::yield_now();
        }
        thread.drain(&mut io);
        drop(thread);
        drop(io);
        drop(registered);
        Ok(())
    }
}

pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<JoinHandle<T>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(body).with_context(|| format!("cannot start thread {name}"))
}
