//! `adit run`: starts all threads, waits for a signal, and stops all threads in reverse order.

pub(crate) mod recovery_time;
pub(crate) mod service_manager;
pub(crate) mod signaled_reload;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_dpdk::{Eal, EventDevice, Mempool};
use adit_n4::Node;
use adit_operate::api::ApiServer;
use adit_rules::DataPlane;
use adit_shared_store::store_thread::StoreLink;
use adit_types::{MacAddr, PortId, Role};
use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::thread::sched_getaffinity;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::Signals;
use tracing::{error, info, warn};

use crate::admin::AdminQuery;
use crate::client::show;
use crate::clock::ProcessClock;
use crate::config::Config;
use crate::control::{ControlEnd, ControlThread};
use crate::control_parts::active_addresses::{self, ActiveAddresses};
use crate::control_parts::core_frequencies::CoreFrequencies;
use crate::control_parts::peer_names::PeerNames;
use crate::control_parts::{
    ConfigFiles, ControlParts, ControlPort, ControlPortDevice, ServingRole, StandbyParts,
};
use crate::host_command::{PlacementNotice, placement_notice};
use crate::kernel_routes::announcements::OwnPrefixes;
use crate::kernel_routes::follower::RouteFollower;
use crate::kernel_routes::settings::{announcing, followed};
use crate::log::{self, LogSettings};
use crate::nrf::NrfAnnouncer;
use crate::ports::kernel_twins::{self, OpenTwin, TwinStates};
use crate::ports::open_ports::OpenPort;
use crate::ports::{flow_offload, open_ports, steering, xdp};
use crate::record_store::any_store::AnyStoreFigures;
use crate::record_store::serving_lease::ServingLease;
use crate::record_store::{OpeningRecords, RecordSource, StartRecords};
use crate::run::recovery_time::RecoveryTime;
use crate::run::service_manager::ServiceManager;
use crate::run::signaled_reload::SignaledReload;
use crate::socket_file::SocketFile;
use crate::tap::TapHub;
use crate::threads::event_scheduler::{self, EventThreads};
use crate::threads::lifecycle::Lifecycle;
use crate::threads::packet_path::{AssembledPath, PacketPath, ThreadParts, WorkerThread, spawn};
use crate::threads::process_nodes::ProcessNodes;
use crate::threads::twin_thread::TwinThread;
use crate::{http_api, record_store, snapshot, wiring};
use adit_kernel::idle::Doorbell;
use adit_kernel::in_namespace;
use adit_kernel::large_pages;
use adit_kernel::n4_socket::N4Socket;

/// Timeout for the workers to stop; after it adit ends without them.
const WORKER_STOP_LIMIT: Duration = Duration::from_secs(10);

/// Runs the user plane described by the file at `path` until SIGTERM or SIGINT.
///
/// # Errors
/// The message names what could not start and what to do.
pub(crate) fn run(path: &Path, accept_loss: bool, log: &LogSettings) -> anyhow::Result<()> {
    let config = Config::load(path)?;
    log::start(log, config.log.levels.as_deref())?;
    silence_contained_panics();
    if config.n4.allow.is_empty() {
        warn!("n4.allow is empty: any address may set up an association");
    }
    check_cores(&config)?;
    log_placement(&config);
    let (mut signals, is_starting) = catch_signals().context("cannot wait for signals")?;
    let socket_file = SocketFile::bind(Path::new(&config.admin.socket))?;
    let api = config.api.as_ref().map(http_api::bind).transpose()?;
    let nodes = ProcessNodes::of_this_machine(&config);
    prefer_memory(&nodes);
    // DPDK puts this thread, and those that it starts, on the main core.
    let cpus = sched_getaffinity(None).context("cannot read the CPUs of the process")?;
    let eal = Eal::init(&wiring::eal(&config, nodes.memory()))?;
    if let Some(notice) = eal.notice() {
        warn!("{notice}");
    }
    info!(arguments = eal.arguments().join(" "), version = eal.version(), "DPDK started");
    log_table_pages();
    let lifecycle = Lifecycle { lease: ServingLease::new(&config), ..Lifecycle::default() };
    let opening = OpeningRecords { cpus, accept_loss, lease: lifecycle.lease.clone() };
    let records = StartRecords::open(&config, &eal, wiring::preparer(&config), opening)?;
    let twins = kernel_twins::open(&config)?;
    let (socket, addresses) = open_n4(&config, &records.source)?;
    let former = records.node();
    // To its peers, a process that continues a previous one has not restarted.
    let recovery_time = if former.is_none() { Some(RecoveryTime::next()?) } else { None };
    let own = recovery_time.map(RecoveryTime::time_stamp);
    let recovery_time_stamp =
        own.or(former.map(|node| node.recovery_time_stamp)).unwrap_or_default();
    let pool = open_ports::mempool(&eal, &config)?;
    let (ports, workers_io) = open_ports::open(&eal, &config, &pool)?;
    let EventThreads { device, ports: scheduled, scheduler } =
        event_scheduler::open(&eal, &config.datapath, config.sessions.sessions_max)?;
    let clock = record_store::clock(eal.tsc_hz(), former.as_ref());
    lifecycle.lease.set_clock(clock);
    let start = StartParts { clock, socket, addresses, records, recovery_time_stamp, pool, nodes };
    let files =
        ConfigFiles { config: path.to_owned(), api: api.as_ref().and_then(ApiServer::access) };
    let devices = OpenDevices { ports, twins, scheduler: device };
    let (control, mut parts, twins) = assemble(&config, start, files, devices, &lifecycle)?;
    parts.iter_mut().zip(scheduled).for_each(|(parts, port)| parts.scheduled = Some(port));
    let (queries, questions) = mpsc::channel();
    let api = api.map(|api| http_api::serve(api, queries.clone())).transpose()?;
    let admin = socket_file.server().context("cannot serve the admin socket")?;
    let admin = http_api::serve(admin, queries.clone())?;
    recovery_time.map_or(Ok(()), RecoveryTime::wait)?;
    let path = PacketPath { eal: &eal, config: &config, clock, lifecycle: &lifecycle };
    if control.is_active() {
        lifecycle.gate.open();
    }
    let mut workers = path.start(parts, workers_io, scheduler)?;
    workers.extend(twins.map(|twins| serve_twins(twins, &lifecycle)).transpose()?);
    let stop = Arc::clone(&lifecycle.stop_control);
    let control = spawn("adit-control", move || {
        let mut control = control;
        control.run(&questions, &stop);
        control
    })?;
    info!(model = config.datapath.model.name(), threads = workers.len(), n4 = %config.n4_listen, "running");
    let threads = Threads { control, workers, admin, api, queries };
    is_starting.store(false, Ordering::Relaxed);
    let outcome = supervise(&mut signals, threads, &lifecycle);
    drop(socket_file);
    drop(eal);
    outcome
}

/// Starts the thread of the kernel twins, which ends with the packet path.
fn serve_twins(twins: TwinThread, lifecycle: &Lifecycle) -> anyhow::Result<WorkerThread> {
    let stop = Arc::clone(&lifecycle.stop);
    spawn("adit-twin", move || {
        twins.run(&stop);
        Ok(())
    })
}

fn log_table_pages() {
    match large_pages::check_host() {
        Ok(()) => info!("session tables take large pages"),
        Err(why) => warn!("{why}"),
    }
}

/// The threads of a running adit that [`supervise`] waits for.
pub(crate) struct Threads {
    pub control: JoinHandle<ControlThread>,
    pub workers: Vec<WorkerThread>,
    /// The HTTP interface at the admin socket.
    pub admin: JoinHandle<()>,
    /// The thread of the HTTP interface at a TCP address.
    pub api: Option<JoinHandle<()>>,
    /// Passes queries to the control thread.
    pub queries: mpsc::Sender<AdminQuery>,
}

/// Makes signals stop killing the process by default. While the returned flag is set, SIGTERM and
/// SIGINT end the process at once, since a store may take long to answer, or wait for the end of a
/// lease; afterwards [`wait`] polls for them.
fn catch_signals() -> io::Result<(Signals, Arc<AtomicBool>)> {
    let is_starting = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 128 + signal, Arc::clone(&is_starting))?;
    }
    Ok((Signals::new([SIGTERM, SIGINT, SIGHUP])?, is_starting))
}

/// Waits for a signal, or for a thread that ends by itself, and stops the control thread and the
/// workers. A supervisor can then restart the process, which is useless without one of its threads.
///
/// # Errors
/// A thread ended by itself; the message names it.
pub(crate) fn supervise(
    signals: &mut Signals,
    threads: Threads,
    lifecycle: &Lifecycle,
) -> anyhow::Result<()> {
    let mut manager = ServiceManager::of_environment(lifecycle.liveness.clone());
    manager.ready();
    let Threads { control, workers, admin, api, queries } = threads;
    let mut reload = SignaledReload::default();
    let ended = wait(signals, |is_hung_up| {
        let now = Instant::now();
        reload.turn(is_hung_up, &queries, &mut manager);
        manager.turn(now);
        let first = workers.iter().find_map(name_if_ended);
        let first = first.or_else(|| name_if_ended(&control)).or_else(|| name_if_ended(&admin));
        first.or_else(|| api.as_ref().and_then(name_if_ended))
    });
    manager.stopping();
    info!(ended, "stopping");
    match (ended, finish(lifecycle, control, workers)) {
        (_, Ok(Some(ControlEnd::Failed(why)))) => bail!("{why}"),
        (_, Ok(Some(ControlEnd::Handover))) => Ok(()),
        (Some(thread), Err(error)) => {
            Err(error.context(format!("the thread {thread} ended by itself")))
        }
        (Some(thread), Ok(_)) => {
            bail!("the thread {thread} ended by itself, which is a fault in adit")
        }
        (None, finished) => finished.map(drop),
    }
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

/// Logs the choice of CPUs, and the placement rules that it breaks. Call it before DPDK moves this
/// thread to one CPU: afterwards the machine would seem to allow that CPU alone.
fn log_placement(config: &Config) {
    let PlacementNotice { chosen, broken } = placement_notice(config);
    if let Some(chosen) = chosen {
        info!("planned for this machine: {chosen}");
    }
    for rule in broken {
        let hint = match config.datapath.placement.is_planned {
            true => "the machine leaves no better plan",
            false => "`adit host plan` proposes other CPUs",
        };
        warn!("{rule}; {hint}");
    }
}

/// Makes the kernel allocate memory that all threads share (tables, sessions, packet buffers
/// without hugepages) on the NUMA node of most threads.
fn prefer_memory(nodes: &ProcessNodes) {
    let Some(node) = nodes.memory() else { return };
    match adit_dpdk::prefer_memory_of(Some(node)) {
        Ok(()) => info!(node, "memory of the node of the packet path"),
        Err(error) => {
            warn!("{error}; memory may be on other nodes than the packet path, which is slower")
        }
    }
}

/// Opens the N4 socket. A standby's socket stays unbound; an active adit's is bound after this host
/// has the addresses of `[standby]`.
fn open_n4(
    config: &Config,
    source: &RecordSource,
) -> anyhow::Result<(N4Socket, Option<ActiveAddresses>)> {
    let netns = config.n4_netns();
    if let RecordSource::Followed { .. } = source {
        let bytes = config.n4.receive_buffer_bytes();
        let unbound = || N4Socket::unbound(config.n4_listen, bytes);
        return Ok((in_namespace(netns, unbound)??, None));
    }
    let addresses = active_addresses::wanted(config).map(ActiveAddresses::take);
    let addresses = addresses.transpose()?;
    Ok((in_namespace(netns, || bind_n4(config))??, addresses))
}

fn bind_n4(config: &Config) -> anyhow::Result<N4Socket> {
    let wanted = config.n4.receive_buffer_bytes();
    let socket = N4Socket::bind(config.n4_listen, wanted).with_context(|| {
        format!(
            "cannot bind n4.listen {}; give the address to an interface, stop the process that holds \
             the port (ss -ulnp), or change n4.listen",
            config.n4_listen
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

/// The parts that exist before the control thread is assembled.
struct StartParts {
    clock: ProcessClock,
    socket: N4Socket,
    addresses: Option<ActiveAddresses>,
    records: StartRecords,
    recovery_time_stamp: u32,
    pool: Mempool,
    nodes: ProcessNodes,
}

/// Makes the PFCP node. It continues the node of the previous process if the store has its record;
/// on a standby it follows the active adit's node.
fn start_node(config: &Config, start: &StartParts, random: &mut StdRng) -> Node {
    let StartParts { clock, records, recovery_time_stamp, .. } = start;
    let (sequence_seed, secret_seed) = (random.random(), random.random());
    let mut settings =
        wiring::node(config, sequence_seed, secret_seed, *recovery_time_stamp, records.config);
    settings.store.owner_nodes = start.nodes.owners().clone();
    let mut node = Node::new(settings);
    match &records.source {
        RecordSource::None => {}
        RecordSource::Own { former: None, .. } => {
            node.begin_records(clock.time_of_day_at_zero().unwrap_or_default());
        }
        RecordSource::Own { former: Some(former), .. } => {
            node.begin_restoration(&former.node);
            node.accept_prepared(&former.preparer);
            if records.accepts_loss {
                node.note_lost_records();
            }
        }
        RecordSource::Followed { active, .. } => node.begin_following(active),
    }
    if let RecordSource::Own { link, .. } = &records.source {
        node.begin_groups_after(link.durable());
    }
    node
}

/// The devices that are open when the threads are assembled.
struct OpenDevices {
    ports: Vec<OpenPort>,
    twins: Vec<OpenTwin>,
    scheduler: Option<EventDevice>,
}

/// Makes the control thread, the parts of the packet path, and the thread of the kernel twins, if
/// there are any.
fn assemble(
    config: &Config,
    start: StartParts,
    files: ConfigFiles,
    OpenDevices { mut ports, twins, scheduler }: OpenDevices,
    lifecycle: &Lifecycle,
) -> anyhow::Result<(ControlThread, Vec<ThreadParts>, Option<TwinThread>)> {
    let mut random = StdRng::from_os_rng();
    let mut node = start_node(config, &start, &mut random);
    let StartParts { clock, socket, addresses, records, recovery_time_stamp, pool, nodes } = start;
    let macs = macs(&ports, &twins)?;
    let slot_bits = u8::try_from(node.store().slot_bits()).context("TEIDs have 32 bits")?;
    let tables = wiring::tables(config, &macs, slot_bits, random.random());
    let sockets = open_ports::take_sockets(&mut ports);
    let xdp = xdp::start(config, &tables, &sockets, clock)?;
    let offload = xdp.or_else(|| flow_offload::start(config, &tables, &ports));
    let (mut publisher, readers) = adit_tables::build_with_offload(tables, offload)?;
    publisher.set_restoring(node.is_restoring());
    node.set_usage_source(publisher.usage_source());
    let kernel_routes = RouteFollower::start(&followed(config), clock, &mut publisher)?;
    let announcements = OwnPrefixes::start(announcing(config))?;
    let path = AssembledPath::new(config, &nodes, readers, recovery_time_stamp)?;
    let AssembledPath { parts: mut workers, events, commands, records: packets, .. } = path;
    let AssembledPath { bells, loads, owners, .. } = path;
    let (twins, twin_thread) = connect_twins(config, twins, &mut workers, &bells)?;
    let port = |(id, open)| control_port(config, id, open, slot_bits.into());
    let ports = (0..).map(PortId).zip(ports).map(port).collect();
    let (store, role) = store_and_role(records.source, lifecycle)?;
    let parts = ControlParts {
        config: Arc::new(config.clone()),
        files,
        started: Instant::now(),
        clock,
        node,
        publisher,
        socket,
        peer_names: PeerNames::start(config).context("cannot resolve names of n4.connect")?,
        store,
        role,
        nrf: NrfAnnouncer::start(config)?,
        kernel_routes,
        announcements,
        addresses,
        twins,
        keeps_at_stop: config.store.keeps_at_stop,
        events,
        commands,
        owners,
        taps: TapHub::new(packets, wiring::tap_limits(config)),
        bells,
        model: config.datapath.model.name(),
        scheduler,
        threads: config.datapath.threads(),
        nodes,
        frequencies: CoreFrequencies::start(&config.datapath, &loads),
        loads,
        names: config.interfaces.iter().map(|interface| interface.name.clone()).collect(),
        ports,
        burst_pkts: config.datapath.burst_pkts,
        pool: Some(pool),
        lease: lifecycle.lease.clone(),
        liveness: lifecycle.liveness.clone(),
    };
    Ok((ControlThread::new(parts), workers, twin_thread))
}

/// The link-layer addresses of the ports, which the kernel twins get, too.
fn macs(ports: &[OpenPort], twins: &[OpenTwin]) -> anyhow::Result<Vec<MacAddr>> {
    let macs: Vec<MacAddr> = ports.iter().map(OpenPort::mac).collect();
    kernel_twins::set_macs(twins, &macs)?;
    Ok(macs)
}

/// Connects the workers with the kernel twins. Returns the control thread's part, and the thread
/// that serves them, if there are any.
fn connect_twins(
    config: &Config,
    twins: Vec<OpenTwin>,
    workers: &mut [ThreadParts],
    bells: &[Doorbell],
) -> anyhow::Result<(TwinStates, Option<TwinThread>)> {
    let Some(links) = kernel_twins::connect(config) else {
        return Ok((TwinStates::default(), None));
    };
    for (parts, ends) in workers.iter_mut().zip(links.workers) {
        parts.twins = Some(ends);
    }
    let states = TwinStates::new(&twins, links.counts);
    let bell = bells.first().context("there is no worker")?.clone();
    let thread = TwinThread::new(twins, links.to_kernel, links.from_kernel, bell);
    Ok((states, Some(thread)))
}

/// Returns the store of the node's records, which a standby has not yet, and the role of this adit.
fn store_and_role(
    source: RecordSource,
    lifecycle: &Lifecycle,
) -> anyhow::Result<(Option<StoreLink<AnyStoreFigures>>, ServingRole)> {
    Ok(match source {
        RecordSource::None => (None, ServingRole::Active),
        RecordSource::Own { link, former: None } => (Some(link), ServingRole::Active),
        RecordSource::Own { link, former: Some(former) } => {
            (Some(link), ServingRole::Restoring { former: former.records, since: None })
        }
        RecordSource::Followed { store, .. } => {
            (None, ServingRole::Standby(Box::new(StandbyParts::start(*store, lifecycle)?)))
        }
    })
}

/// Tries to set up steering on a port, and returns the control thread's part of the port.
fn control_port(config: &Config, id: PortId, open: OpenPort, slot_bits: u32) -> ControlPort {
    let settings = config.ports[usize::from(id.0)].clone();
    let device = match open {
        OpenPort::Kernel { parts, rx_queues, steering, mac } => {
            ControlPortDevice::Kernel { parts, rx_queues, steering, mac }
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

fn name_of<T>(thread: &JoinHandle<T>) -> String {
    thread.thread().name().unwrap_or("without a name").to_owned()
}

/// Returns the name of the thread if it has ended.
fn name_if_ended<T>(thread: &JoinHandle<T>) -> Option<String> {
    thread.is_finished().then(|| name_of(thread))
}

/// Waits up to `limit` until all threads have ended. Returns the name of a thread that has not.
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

/// Waits for a signal that ends adit, or for the end of a thread, whose name it returns. Calls
/// `turn` several times a second: the argument is true if SIGHUP came, the result names a thread
/// that ended by itself.
fn wait(signals: &mut Signals, mut turn: impl FnMut(bool) -> Option<String>) -> Option<String> {
    loop {
        let mut is_hung_up = false;
        for signal in signals.pending() {
            match signal {
                SIGHUP => is_hung_up = true,
                _ => return None,
            }
        }
        if let Some(thread) = turn(is_hung_up) {
            return Some(thread);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Stops the control thread first, since it needs the workers to release associations; then the
/// workers. Then prints the final counters. Returns why the control thread ended if it ended by
/// itself.
fn finish(
    lifecycle: &Lifecycle,
    control: JoinHandle<ControlThread>,
    threads: Vec<WorkerThread>,
) -> anyhow::Result<Option<ControlEnd>> {
    lifecycle.stop_control.store(true, Ordering::Relaxed);
    let control = control.join();
    lifecycle.stop_packet_path();
    if let Some(thread) = first_unfinished(&threads, WORKER_STOP_LIMIT) {
        // The worker may hold packets and queues, which only the end of the process releases.
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
    let Ok(mut control) = control else { bail!("the control thread stopped by a fault in adit") };
    let end = control.take_end();
    let counters = snapshot::counters(&control.view());
    println!("{}", show::render(crate::cli::Topic::Counters, &counters));
    drop(control);
    failed.map_or(Ok(end), Err)
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
        let name = wait(&mut signals, |_| name_if_ended(&lives).or_else(|| name_if_ended(&dies)));
        assert_eq!(name.as_deref(), Some("adit-admin"));
        assert_eq!(name_if_ended(&lives), None);
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
