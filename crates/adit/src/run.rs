//! `adit run`: starts all threads, waits for a signal, and stops all threads in reverse order.

use std::fmt;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_datapath::{
    EventWorker, Handoff, PathThread, Receiver, ReceiverConfig, RxTx, RxTxConfig, SharedFlows,
    Worker, WorkerConfig, connect,
};
use adit_dpdk::{Eal, EventDevice, Mbuf, SchedulerPort};
use adit_n4::Node;
use adit_rules::{DataPlane, WorkerCommand, WorkerEvent};
use adit_tables::TablesReader;
use adit_types::limits::{COMMAND_RING_LEN, EVENT_RING_LEN, HANDOFF_RING_LEN};
use adit_types::{MacAddr, PortId, Role, WorkerId};
use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::{error, info, warn};

use crate::admin::{self, AdminServer};
use crate::any_store::AnyStoreFigures;
use crate::clock::ProcessClock;
use crate::config::{Config, ModelSettings, PollMode, ThreadSettings};
use crate::control::ControlThread;
use crate::control_parts::{ControlParts, ControlPort, ControlPortDevice};
use crate::event_scheduler::EventThreads;
use crate::exit_barrier::{ExitBarrier, ExitBarrierPlace, ExitBarriers};
use crate::load::{LoadMeter, StepLoad, ThreadLoad};
use crate::open_ports::OpenPort;
use crate::record_store::OpenedStore;
use crate::recovery_time::RecoveryTime;
use crate::thread_io::ThreadIo;
use crate::{
    event_scheduler, flow_offload, open_ports, record_store, show, snapshot, steering, wiring, xdp,
};
use adit_host::idle::{Doorbell, IdlePolicy, Sleeper};
use adit_host::large_pages::TablePages;
use adit_host::n4_socket::N4Socket;
use adit_host::store_thread::StoreLink;

/// Timeout for the workers to stop; then adit ends without them.
const WORKER_STOP_LIMIT: Duration = Duration::from_secs(10);

/// A worker's thread, running or done.
pub(crate) type WorkerThread = JoinHandle<anyhow::Result<()>>;

/// Runs the user plane described by the file at `path` until SIGTERM or SIGINT.
///
/// # Errors
/// The message names what could not start and what to do.
pub(crate) fn run(path: &Path, accept_loss: bool) -> anyhow::Result<()> {
    let config = Config::load(path)?;
    start_log();
    silence_contained_panics();
    if config.n4.allow.is_empty() {
        warn!("n4.allow is empty: any address may set up an association");
    }
    check_cores(&config)?;
    // From here on these signals do not kill the process: `wait` polls for them.
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot wait for signals")?;
    let server = AdminServer::bind(&config.admin_socket)?;
    let socket = bind_n4(&config)?;
    let store = OpenedStore::open(&config, accept_loss)?;
    let former = store.as_ref().and_then(|store| store.node);
    // A process that continues a former one did not restart, for its peers.
    let recovery_time = if former.is_none() { Some(RecoveryTime::next()?) } else { None };
    let time_stamp = recovery_time.map(RecoveryTime::time_stamp);
    let time_stamp = time_stamp.or(former.map(|node| node.recovery_time_stamp)).unwrap_or_default();
    let eal = Eal::init(&wiring::eal(&config))?;
    if let Some(notice) = eal.notice() {
        warn!("{notice}");
    }
    info!(arguments = eal.arguments().join(" "), version = eal.version(), "DPDK started");
    match TablePages::of_host() {
        pages @ TablePages::Large => info!("{pages}"),
        pages => warn!("{pages}"),
    }
    let pool = open_ports::mempool(&eal, &config)?;
    let (ports, workers_io) = open_ports::open(&eal, &config, &pool)?;
    let EventThreads { device, ports: scheduled, scheduler } =
        event_scheduler::open(&eal, &config.datapath, config.sessions_max)?;
    let clock = record_store::clock(eal.tsc_hz(), former.as_ref());
    let stop = Arc::new(AtomicBool::new(false));
    let (control, workers) = assemble(&config, clock, socket, store, ports, device, time_stamp)?;
    let (queries, questions) = mpsc::channel();
    let admin = serve_admin(&server, queries)?;

    recovery_time.map_or(Ok(()), RecoveryTime::wait)?;
    let mut threads = Vec::new();
    let exit = ExitBarriers::default();
    let mut scheduled = scheduled.into_iter();
    for (parts, io) in workers.into_iter().zip(workers_io) {
        let parts = ThreadParts { scheduled: scheduled.next(), ..parts };
        threads.push(start_thread(&eal, &config, clock, &stop, &exit, parts, io)?);
    }
    if let Some(scheduler) = scheduler {
        let run = event_scheduler::thread(&eal, &stop, &exit, scheduler, &config.datapath)?;
        threads.push(spawn("adit-scheduler", run)?);
    }
    let stop_control = Arc::new(AtomicBool::new(false));
    let control = {
        let stop_control = Arc::clone(&stop_control);
        spawn("adit-control", move || {
            let mut control = control;
            control.run(&questions, &stop_control);
            control
        })?
    };
    info!(model = config.datapath.model.name(), threads = threads.len(), n4 = %config.n4.listen, "running");
    let threads = Threads { control, workers: threads, admin };
    let outcome = supervise(&mut signals, threads, &stop_control, &stop);
    drop(server);
    drop(pool);
    drop(eal);
    outcome
}

/// The end of a process whose store is lost: another adit may go on with its records.
#[derive(Debug)]
struct StoreLoss(String);

impl fmt::Display for StoreLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "adit cannot go on without its store: {}", self.0)
    }
}

impl std::error::Error for StoreLoss {}

/// The threads of a running adit.
pub(crate) struct Threads {
    pub control: JoinHandle<ControlThread>,
    pub workers: Vec<WorkerThread>,
    pub admin: JoinHandle<()>,
}

/// Waits for a signal, or for a thread that ends by itself, and stops the control thread and the
/// workers. A supervisor can then restart the process, which is useless without one of its threads.
///
/// # Errors
/// A thread ended by itself; the message names it.
pub(crate) fn supervise(
    signals: &mut Signals,
    threads: Threads,
    stop_control: &AtomicBool,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let Threads { control, workers, admin } = threads;
    let ended = wait(signals, || {
        let first = workers.iter().find_map(ended);
        first.or_else(|| ended(&control)).or_else(|| ended(&admin))
    });
    match &ended {
        None => info!("stopping"),
        Some(thread) => error!(thread, "a thread of adit ended by itself; adit stops"),
    }
    let finished = finish(stop_control, control, stop, workers);
    match (ended, finished) {
        (None, finished) => finished,
        (_, Err(error)) if error.is::<StoreLoss>() => Err(error),
        (Some(thread), _) => bail!("the thread {thread} ended by itself, which is a fault in adit"),
    }
}

fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}

/// Suppresses the message of panics that the PFCP node contains and logs itself.
fn silence_contained_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !adit_n4::is_contained() {
            print(panic);
        }
    }));
}

fn check_cores(config: &Config) -> anyhow::Result<()> {
    let allowed =
        rustix::thread::sched_getaffinity(None).context("cannot read the CPU affinity")?;
    let key = |role| match role {
        Role::Worker => "datapath.workers",
        Role::Signaling => "datapath.main_core",
        Role::Receiver => "datapath.receivers",
        Role::RxTx => "datapath.eventdev.rx_tx",
    };
    let threads = config.datapath.threads();
    let cores = threads.iter().map(|thread| (key(thread.role), thread.core));
    for (key, core) in cores.chain([("datapath.main_core", config.datapath.main_core)]) {
        if !allowed.is_set(usize::from(core)) {
            let usable: Vec<_> = (0..1024)
                .filter(|core| allowed.is_set(*core))
                .map(|core| core.to_string())
                .collect();
            bail!(
                "{key} names CPU core {core}, which this process may not use; it may use {}",
                usable.join(", ")
            );
        }
    }
    for (core, names) in config.datapath.shared_cores() {
        warn!(
            core,
            threads = names.join(", "),
            "threads share a core: each yields without packets, and all slow down under load"
        );
    }
    Ok(())
}

fn bind_n4(config: &Config) -> anyhow::Result<N4Socket> {
    let wanted = config.n4.receive_buffer_bytes;
    let socket = N4Socket::bind(config.n4.listen, wanted).with_context(|| {
        format!(
            "cannot bind n4.listen {}; give the address to an interface, stop the process that holds \
             the port (ss -ulnp), or change n4.listen",
            config.n4.listen
        )
    })?;
    let granted = socket.receive_buffer_bytes();
    if granted < wanted {
        warn!(
            wanted_kib = wanted / 1024,
            granted_kib = granted / 1024,
            "the kernel gives the N4 socket a smaller receive buffer than n4.receive_buffer_kib; raise \
             net.core.rmem_max or give adit CAP_NET_ADMIN"
        );
    }
    Ok(socket)
}

/// The parts of one thread of the packet path besides its ports.
struct ThreadParts {
    id: WorkerId,
    settings: ThreadSettings,
    reader: TablesReader,
    handoff: Handoff<Mbuf>,
    /// The worker's side of its rings from and to the control thread; `None` for a thread that only receives, or receives and transmits.
    control: Option<ControlRings>,
    /// The doorbells of all threads.
    bells: Vec<Doorbell>,
    recovery_time_stamp: u32,
    load: ThreadLoad,
    /// Its port of the event scheduler, and the flows.
    scheduled: Option<(SchedulerPort, SharedFlows)>,
}

struct ControlRings {
    events: rtrb::Producer<WorkerEvent>,
    commands: rtrb::Consumer<WorkerCommand>,
}

/// The node, which continues a former one if the store has one, and the thread of its store.
fn start_node(
    config: &Config,
    clock: ProcessClock,
    store: Option<OpenedStore>,
    recovery_time_stamp: u32,
    random: &mut StdRng,
) -> anyhow::Result<(Node, Option<StoreLink<AnyStoreFigures>>)> {
    let (sequence_seed, secret_seed) = (random.random(), random.random());
    let records = store.as_ref().map(|store| store.config);
    let settings = wiring::node(config, sequence_seed, secret_seed, recovery_time_stamp, records);
    let mut node = Node::new(settings);
    match store.as_ref().map(|store| store.node) {
        None => {}
        Some(None) => node.begin_records(clock.time_of_day_at_zero().unwrap_or_default()),
        Some(Some(former)) => node.begin_restoration(&former),
    }
    Ok((node, store.map(OpenedStore::start).transpose()?))
}

fn assemble(
    config: &Config,
    clock: ProcessClock,
    socket: N4Socket,
    store: Option<OpenedStore>,
    mut ports: Vec<OpenPort>,
    scheduler: Option<EventDevice>,
    recovery_time_stamp: u32,
) -> anyhow::Result<(ControlThread, Vec<ThreadParts>)> {
    let mut random = StdRng::from_os_rng();
    let (mut node, store) = start_node(config, clock, store, recovery_time_stamp, &mut random)?;
    let macs: Vec<MacAddr> = ports.iter().map(OpenPort::mac).collect();
    let slot_bits = u8::try_from(node.store().slot_bits()).context("TEIDs have 32 bits")?;
    let tables = wiring::tables(config, &macs, slot_bits, random.random());
    let sockets = open_ports::take_sockets(&mut ports);
    let xdp = xdp::start(config, &tables, &sockets, clock)?;
    let offload = xdp.or_else(|| flow_offload::start(config, &tables, &ports));
    let (publisher, readers) = adit_tables::build_with_offload(tables, offload)?;
    publisher.set_restoring(node.is_restoring());
    node.set_usage_source(publisher.usage_source());
    let (mut workers, mut loads) = (Vec::new(), Vec::new());
    let (mut events, mut commands) = (Vec::new(), Vec::new());
    let bells = readers.iter().map(|_| Doorbell::new()).collect::<Result<Vec<_>, _>>()?;
    let handoffs = connect(config.datapath.roles(), HANDOFF_RING_LEN);
    let threads = config.datapath.threads();
    let readers = readers.into_iter().zip(handoffs);
    for (settings, (reader, handoff)) in threads.iter().zip(readers) {
        let control = (!matches!(settings.role, Role::Receiver | Role::RxTx)).then(|| {
            let (event_sender, event_receiver) = rtrb::RingBuffer::new(EVENT_RING_LEN);
            let (command_sender, command_receiver) = rtrb::RingBuffer::new(COMMAND_RING_LEN);
            events.push(event_receiver);
            commands.push(command_sender);
            ControlRings { events: event_sender, commands: command_receiver }
        });
        let load = ThreadLoad::default();
        workers.push(ThreadParts {
            id: reader.worker(),
            settings: *settings,
            reader,
            handoff,
            control,
            bells: bells.clone(),
            recovery_time_stamp,
            load: load.clone(),
            scheduled: None,
        });
        loads.push(load);
    }
    let names = config.interfaces.iter().map(|interface| interface.name.clone()).collect();
    let port = |(id, open)| control_port(config, id, open, slot_bits.into());
    let ports = (0..).map(PortId).zip(ports).map(port).collect();
    let parts = ControlParts {
        clock,
        node,
        publisher,
        socket,
        store,
        keeps_at_stop: config.store.keeps_at_stop,
        events,
        commands,
        bells,
        model: config.datapath.model.name(),
        scheduler,
        threads,
        loads,
        names,
        ports,
    };
    Ok((ControlThread::new(parts), workers))
}

/// The control thread's part of a port, after an attempt to steer packets to their owners.
fn control_port(config: &Config, id: PortId, open: OpenPort, slot_bits: u32) -> ControlPort {
    let settings = config.ports[usize::from(id.0)].clone();
    let device = match open {
        OpenPort::Kernel { parts, rx_queues, steering } => {
            ControlPortDevice::Kernel { parts, rx_queues, steering }
        }
        OpenPort::Dpdk { port, queues, .. } => {
            let steering = steering::steer(config, id, &port, &queues, slot_bits);
            for steered in steering.iter().filter(|_| queues.len() > 1) {
                info!(port = settings.name, key = steered.key, outcome = %steered.outcome, "steering");
            }
            ControlPortDevice::Dpdk { port, steering }
        }
    };
    ControlPort { config: settings, device }
}

fn serve_admin(
    server: &AdminServer,
    queries: mpsc::Sender<admin::AdminQuery>,
) -> anyhow::Result<JoinHandle<()>> {
    let serving = server.listener().context("cannot serve the admin socket")?;
    // The thread ends with the process; it has nothing to release.
    spawn("adit-admin", move || {
        serving.serve(move |question, cursor| admin::ask(&queries, question, cursor))
    })
}

/// Starts a thread of the packet path.
fn start_thread(
    eal: &Eal,
    config: &Config,
    clock: ProcessClock,
    stop: &Arc<AtomicBool>,
    exit: &ExitBarriers,
    parts: ThreadParts,
    io: ThreadIo,
) -> anyhow::Result<WorkerThread> {
    let ThreadParts { id, settings, reader, handoff, control, bells, load, scheduled, .. } = parts;
    let runner = ThreadRunner {
        eal: eal.clone(),
        clock,
        stop: Arc::clone(stop),
        inside: exit.stopped.join(),
        drained: exit.drained.clone(),
        settings,
        shares_core: config.datapath.shares_core(settings.core),
        realtime_priority: config.datapath.realtime_priority,
        bell: bells.get(usize::from(id.0)).cloned(),
        bells,
        burst: config.datapath.burst_pkts,
        load,
    };
    let ports = io.receiving();
    let Some(ControlRings { events, commands }) = control else {
        if let Some((port, flows)) = scheduled {
            let number = usize::from(id.0) - config.datapath.roles().transmitters();
            let rx_tx = RxTxConfig { number, ports, burst: config.datapath.burst_pkts };
            return spawn(&format!("adit-rx-tx-{id}"), move || {
                runner.run(io, || RxTx::new(rx_tx, reader, flows, port))
            });
        }
        let spread = match config.datapath.model {
            ModelSettings::Pipeline { spread, .. } => spread,
            _ => bail!("a receiver without a pipeline"),
        };
        let burst = config.datapath.burst_pkts;
        let receiver_config = ReceiverConfig { ports, burst, spread };
        let signaling = config.datapath.roles().signaling().context("no signaling worker")?;
        return spawn(&format!("adit-receiver-{id}"), move || {
            runner.run(io, || Receiver::new(receiver_config, reader, handoff, signaling))
        });
    };
    let worker_config = WorkerConfig {
        id,
        ports,
        burst: config.datapath.burst_pkts,
        buffer_pkts_max: config.buffer_pkts_per_worker(),
        shaped_pkts_max: config.shaped_pkts_per_worker(),
        recovery_time_stamp: Some(parts.recovery_time_stamp),
    };
    if let Some((port, flows)) = scheduled {
        let is_alone = config.datapath.workers.len() == 1;
        return spawn(&format!("adit-worker-{id}"), move || {
            runner.run(io, || {
                let worker = Worker::new(worker_config, reader, events, commands);
                let worker = match is_alone {
                    true => worker,
                    false => worker.with_handoff(handoff.with_flows(flows.clone())),
                };
                EventWorker::new(worker, port, flows)
            })
        });
    }
    spawn(&format!("adit-{}-{id}", settings.role.name()), move || {
        runner
            .run(io, || Worker::new(worker_config, reader, events, commands).with_handoff(handoff))
    })
}

/// What turns a worker or a receiver into a thread.
struct ThreadRunner {
    eal: Eal,
    clock: ProcessClock,
    stop: Arc<AtomicBool>,
    inside: ExitBarrierPlace,
    drained: ExitBarrier,
    settings: ThreadSettings,
    /// 0 for none.
    realtime_priority: u8,
    /// It must yield to other threads on its core.
    shares_core: bool,
    bell: Option<Doorbell>,
    bells: Vec<Doorbell>,
    burst: usize,
    load: ThreadLoad,
}

impl ThreadRunner {
    /// Runs steps of what `make` makes, on its core, until adit stops.
    fn run<T: PathThread<ThreadIo>>(
        self,
        mut io: ThreadIo,
        make: impl FnOnce() -> T,
    ) -> anyhow::Result<()> {
        let Self { eal, clock, stop, inside, drained, settings, realtime_priority, .. } = self;
        let Self { shares_core, bell, bells, burst, load, .. } = self;
        adit_dpdk::pin_current_thread(settings.core)?;
        if realtime_priority > 0 {
            adit_dpdk::set_realtime_priority(realtime_priority)?;
        }
        let registered = adit_dpdk::register_thread(&eal)?;
        let mut meter = LoadMeter::new(load, clock.now());
        let mut thread = make();
        let mut pause = match (settings.poll, bell) {
            (PollMode::Adaptive, Some(bell)) => {
                IdlePolicy::Adaptive(Sleeper::new(bell, io.sockets()))
            }
            _ => IdlePolicy::Busy { shares_core },
        };
        while !stop.load(Ordering::Relaxed) {
            let began = clock.now();
            let report = thread.step(began, &mut io);
            let step = StepLoad { began, is_idle: report.idle, is_full: report.received >= burst };
            meter.count_step(step, || thread.take_fullest_ring());
            if !report.handed_to.is_empty() {
                let handed_to = report.handed_to.iter().filter_map(|to| bells.get(to));
                handed_to.for_each(Doorbell::ring);
                // The thread that takes them may be the one that shares the core, and its ring is short.
                if shares_core {
                    std::thread::yield_now();
                }
            }
            meter.count_sleep(pause.after_step(report.idle, || clock.now(), || thread.rest()));
        }
        // Other threads may hand packets over until they have stopped, too.
        inside.wait_for_all();
        // A central scheduler still gives out what was in flight.
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

fn name_of<T>(thread: &JoinHandle<T>) -> String {
    thread.thread().name().unwrap_or("without a name").to_owned()
}

/// The name of a thread that has ended.
fn ended<T>(thread: &JoinHandle<T>) -> Option<String> {
    thread.is_finished().then(|| name_of(thread))
}

/// Waits up to `limit` until all threads have ended. Returns the name of one that has not.
fn first_unfinished<T>(threads: &[JoinHandle<T>], limit: Duration) -> Option<String> {
    let deadline = Instant::now() + limit;
    loop {
        let running = threads.iter().find(|thread| !thread.is_finished())?;
        if Instant::now() >= deadline {
            return Some(name_of(running));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a signal or the end of a thread. Returns the name of a thread that ended by itself.
fn wait(signals: &mut Signals, ended: impl Fn() -> Option<String>) -> Option<String> {
    loop {
        if signals.pending().next().is_some() {
            return None;
        }
        if let Some(thread) = ended() {
            return Some(thread);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Stops the control thread first, which needs the workers to release associations, then the workers.
/// Then prints the final counters.
fn finish(
    stop_control: &AtomicBool,
    control: JoinHandle<ControlThread>,
    stop: &AtomicBool,
    threads: Vec<WorkerThread>,
) -> anyhow::Result<()> {
    stop_control.store(true, Ordering::Relaxed);
    let control = control.join();
    stop.store(true, Ordering::Relaxed);
    if let Some(thread) = first_unfinished(&threads, WORKER_STOP_LIMIT) {
        // It may hold packets and queues: only the end of the process releases them.
        error!(thread, "a worker does not stop; adit ends without it");
        std::process::exit(1);
    }
    let mut failed = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed = Some(error),
            Err(_) => failed = Some(anyhow::anyhow!("a worker stopped by a fault in adit")),
        }
    }
    let Ok(control) = control else { bail!("the control thread stopped by a fault in adit") };
    let lost_store = control.lost_store().map(|why| StoreLoss(why.to_owned()));
    let counters = snapshot::counters(&control.view());
    println!("{}", show::render(crate::cli::Topic::Counters, &counters));
    drop(control);
    failed = failed.or(lost_store.map(anyhow::Error::new));
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_that_ends_by_itself_is_named_and_others_are_not() {
        let mut signals = Signals::new([signal_hook::consts::SIGUSR2]).unwrap();
        let (held, waits) = mpsc::channel::<()>();
        let lives = spawn("adit-control", move || waits.recv().is_err()).unwrap();
        let dies = spawn("adit-admin", || ()).unwrap();
        let name = wait(&mut signals, || ended(&lives).or_else(|| ended(&dies)));
        assert_eq!(name.as_deref(), Some("adit-admin"));
        assert_eq!(ended(&lives), None);
        drop(held);
        lives.join().unwrap();
    }

    #[test]
    fn worker_that_does_not_stop_is_named_and_waited_for_no_longer() {
        let (held, waits) = mpsc::channel::<()>();
        let stuck = spawn("adit-worker-1", move || waits.recv().is_err()).unwrap();
        let threads = [spawn("adit-worker-0", || true).unwrap(), stuck];
        let name = first_unfinished(&threads, Duration::from_millis(20));
        assert_eq!(name.as_deref(), Some("adit-worker-1"));
        drop(held);
        assert_eq!(first_unfinished(&threads, Duration::from_secs(60)), None);
    }
}
