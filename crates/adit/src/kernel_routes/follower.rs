//! The thread that reads the kernel's routes, and the control thread's part: choose and publish.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_kernel::{
    KernelRouteEvent, RouteMonitor, RouteMonitorConfig, RouteMonitorCounters, in_namespace,
};
use adit_tables::{Publisher, RouteChange};
use adit_types::Nanos;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{info, warn};

use super::route_base::{HopState, RouteBase, RouteBaseConfig};
use crate::clock::ProcessClock;
use crate::threads::packet_path::spawn;

/// Events of one batch.
const EVENTS_PER_BATCH: usize = 1024;

/// Batches that wait for the control thread at most. Further messages wait in the kernel.
const BATCHES_MAX: usize = 16;

/// Batches that the control thread takes in one iteration.
const BATCHES_PER_TURN: usize = 2;

/// Routes that a walk over all of them visits in one iteration.
const SCANNED_PER_TURN: usize = 8192;

/// Time between two dumps, at least: a kernel that drops messages would cause one after another.
const DUMP_PAUSE: Duration = Duration::from_millis(100);

/// Time before a socket that failed is read again.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// A network namespace whose routes are followed, and the route tables that they go to.
#[derive(Debug, Clone)]
pub(crate) struct FollowedNamespace {
    /// `None`: that of adit.
    pub netns: Option<String>,
    pub tables: Vec<RouteBaseConfig>,
}

/// Events of one namespace.
struct Batch {
    namespace: usize,
    events: Vec<KernelRouteEvent>,
    counters: RouteMonitorCounters,
    read_at: Nanos,
}

/// The figures of one namespace.
#[derive(Debug, Clone)]
pub(crate) struct NamespaceFigures {
    pub netns: Option<String>,
    pub monitor: RouteMonitorCounters,
    /// A dump has ended: the routes are the kernel's.
    pub is_complete: bool,
}

/// The control thread's part.
pub(crate) struct RouteFollower {
    namespaces: Vec<NamespaceFigures>,
    /// Route tables with the positions of their namespaces.
    bases: Vec<(usize, RouteBase)>,
    batches: Receiver<Batch>,
    /// Its end wakes the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// Work is left for the next iteration.
    is_busy: bool,
    changes: u64,
    /// From reading a message to its effect in the tables: the last batch, and the slowest one.
    latency: [Nanos; 2],
    /// The first turn: the latency of earlier messages begins there, as threads and workers start
    /// before.
    first_turn: Option<Nanos>,
}

impl RouteFollower {
    /// Subscribes to the routes of namespaces, and starts the thread. `None` without namespaces.
    ///
    /// # Errors
    /// A namespace does not exist, or may not be entered.
    pub(crate) fn start(
        followed: &[FollowedNamespace],
        clock: ProcessClock,
        publisher: &mut Publisher,
    ) -> anyhow::Result<Option<Self>> {
        if followed.is_empty() {
            return Ok(None);
        }
        let (mut monitors, mut bases, mut namespaces) = (Vec::new(), Vec::new(), Vec::new());
        for (at, FollowedNamespace { netns, tables }) in followed.iter().enumerate() {
            let open = || RouteMonitor::open(RouteMonitorConfig::MAIN);
            monitors.push(in_namespace(netns.as_deref(), open)??);
            for config in tables {
                let base = RouteBase::new(config.clone());
                let added = publisher.add_route_table(base.scope());
                added.context("cannot follow the kernel's routes")?;
                bases.push((at, base));
            }
            let (netns, monitor) = (netns.clone(), RouteMonitorCounters::default());
            namespaces.push(NamespaceFigures { netns, monitor, is_complete: false });
        }
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let (stop, stopped) = UnixStream::pair().context("cannot start adit-routes")?;
        let thread = spawn("adit-routes", move || read_routes(monitors, &sender, &stopped, clock))?;
        Ok(Some(Self {
            namespaces,
            bases,
            batches,
            stop: Some(stop),
            thread: Some(thread),
            is_busy: false,
            changes: 0,
            latency: [Nanos(0); 2],
            first_turn: None,
        }))
    }

    /// Takes events, and publishes what they change. Once in each turn of the control thread.
    pub(crate) fn turn(&mut self, clock: ProcessClock, publisher: &mut Publisher) {
        self.is_busy = false;
        let first_turn = *self.first_turn.get_or_insert_with(|| clock.now());
        for _ in 0..BATCHES_PER_TURN {
            let Ok(batch) = self.batches.try_recv() else { break };
            self.is_busy = true;
            self.take(&batch);
            self.publish(publisher);
            let took = clock.now().since(batch.read_at.max(first_turn));
            self.latency = [took, self.latency[1].max(took)];
        }
        for (_, base) in &mut self.bases {
            self.is_busy |= base.continue_scan(SCANNED_PER_TURN);
        }
        self.publish(publisher);
    }

    /// Returns true if the control thread must not sleep.
    pub(crate) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Puts other static routes and pools into effect.
    pub(crate) fn reconfigure(
        &mut self,
        followed: Vec<FollowedNamespace>,
        publisher: &mut Publisher,
    ) {
        let tables = followed.into_iter().flat_map(|namespace| namespace.tables);
        for ((_, base), config) in self.bases.iter_mut().zip(tables) {
            base.reconfigure(config);
        }
        self.publish(publisher);
    }

    /// Returns the figures of the namespaces.
    pub(crate) fn namespaces(&self) -> &[NamespaceFigures] {
        &self.namespaces
    }

    /// Returns the route tables.
    pub(crate) fn bases(&self) -> impl Iterator<Item = &RouteBase> {
        self.bases.iter().map(|(_, base)| base)
    }

    /// Returns the changes that were published since the start.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns how long the last batch and the slowest one took, from reading to the effect.
    pub(crate) const fn latency(&self) -> [Nanos; 2] {
        self.latency
    }

    fn take(&mut self, batch: &Batch) {
        let figures = &mut self.namespaces[batch.namespace];
        if batch.counters.overruns > figures.monitor.overruns {
            warn!(
                overruns = batch.counters.overruns,
                "the kernel has dropped messages about routes: all of them are read again"
            );
        }
        figures.monitor = batch.counters;
        let is_complete = batch.events.contains(&KernelRouteEvent::DumpEnds);
        if is_complete && !figures.is_complete {
            figures.is_complete = true;
            info!(netns = figures.netns, "the kernel's routes are known");
        }
        let mine = self.bases.iter_mut().filter(|(namespace, _)| *namespace == batch.namespace);
        mine.for_each(|(_, base)| batch.events.iter().for_each(|event| base.handle(event)));
    }

    fn publish(&mut self, publisher: &mut Publisher) {
        for (_, base) in &mut self.bases {
            let (changes, hops) = base.take_changes();
            self.changes += changes.len() as u64;
            publish(base, &changes, publisher);
            for HopState { interface, gateway, is_usable } in hops {
                publisher.set_hop_usable(interface, gateway, is_usable);
            }
        }
    }
}

impl Drop for RouteFollower {
    fn drop(&mut self) {
        self.stop = None;
        // A thread that waits for room in the channel ends when the channel does.
        let (_, closed) = sync_channel(1);
        self.batches = closed;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Publishes changes. A route that the tables refuse leaves none to its prefix: the former one is
/// not the kernel's any more.
fn publish(base: &mut RouteBase, changes: &[RouteChange], publisher: &mut Publisher) {
    let Err(refused) = publisher.change_routes(changes) else { return };
    let mut removed = Vec::new();
    for refused in refused {
        let Some(change) = changes.get(refused.position) else { continue };
        if base.unused().is_empty() {
            warn!(prefix = %change.prefix, "a route of the kernel is not used: {}", refused.refusal);
        }
        base.note_refused(change.prefix, refused.refusal);
        removed.push(RouteChange { action: None, ..change.clone() });
    }
    // To remove a route needs no room.
    let _ = publisher.change_routes(&removed);
}

/// The thread: reads messages until the control thread's part ends.
fn read_routes(
    monitors: Vec<RouteMonitor>,
    batches: &SyncSender<Batch>,
    stopped: &UnixStream,
    clock: ProcessClock,
) {
    let mut readers: Vec<_> = monitors.into_iter().map(Reader::new).collect();
    loop {
        for (namespace, reader) in readers.iter_mut().enumerate() {
            while let Some(events) = reader.read() {
                let (counters, read_at) = (reader.monitor.counters(), clock.now());
                if batches.send(Batch { namespace, events, counters, read_at }).is_err() {
                    return;
                }
            }
        }
        let pause = readers.iter().filter_map(Reader::pause).min();
        let timeout = pause.and_then(|pause| Timespec::try_from(pause).ok());
        let mut sources = vec![PollFd::new(stopped, PollFlags::IN)];
        let readable = readers.iter().filter(|reader| !reader.has_failed());
        sources.extend(readable.map(|reader| PollFd::new(&reader.monitor, PollFlags::IN)));
        let _ = poll(&mut sources, timeout.as_ref());
        if !sources[0].revents().is_empty() {
            return;
        }
    }
}

/// A monitor, and when it may be read and dumped again.
struct Reader {
    monitor: RouteMonitor,
    next_dump: Instant,
    next_read: Instant,
}

impl Reader {
    fn new(monitor: RouteMonitor) -> Self {
        let now = Instant::now();
        Self { monitor, next_dump: now, next_read: now }
    }

    /// Reads events; `None` if there is none now.
    fn read(&mut self) -> Option<Vec<KernelRouteEvent>> {
        let now = Instant::now();
        if now < self.next_read {
            return None;
        }
        let mut events = Vec::new();
        let mut outcome = Ok(());
        if self.monitor.needs_dump() && now >= self.next_dump {
            self.next_dump = now + DUMP_PAUSE;
            outcome = self.monitor.begin_dump(&mut events);
        }
        let outcome = outcome.and_then(|()| self.monitor.receive(EVENTS_PER_BATCH, &mut events));
        if let Err(error) = outcome {
            warn!(%error, "cannot read the kernel's routes; forwarding goes on with those that are known");
            self.next_read = now + ERROR_PAUSE;
        }
        (!events.is_empty()).then_some(events)
    }

    fn has_failed(&self) -> bool {
        self.next_read > Instant::now()
    }

    /// Returns how long the thread may sleep at most.
    fn pause(&self) -> Option<Duration> {
        let now = Instant::now();
        let dump = self.monitor.needs_dump().then_some(self.next_dump);
        let read = self.has_failed().then_some(self.next_read);
        dump.into_iter().chain(read).map(|at| at.saturating_duration_since(now)).max()
    }
}
