//! The threads of the workload and their activations.
//!
//! A late thread runs for its newest activation and skips the others: their TTIs are missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use adit_lab_process::stop::{POLL, Stop};

use crate::baseband_app::busy_work::{Calibration, spin};
use crate::baseband_app::clock::{now_ns, sleep_until};
use crate::baseband_app::execution_time::ExecutionTimes;
use crate::baseband_app::gathering::{SchedulerStep, TtiGrid, UplinkGathering};
use crate::baseband_app::scheduling::ThreadScheduling;
use crate::baseband_app::timeline::{PipelineRecord, StageRun, WorkloadOutcome};
use crate::baseband_app::workload::Workload;

/// Maximum number of activations that wait for a thread. Further ones are lost.
const ACTIVATIONS_MAX: usize = 64;
/// Time from the readiness of all threads to the first TTI. Unit: ns.
const START_LEAD_NS: u64 = 5_000_000;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Progress of a run.
#[derive(Debug, Clone, Copy)]
pub struct PipelineProgress {
    /// TTIs that have begun.
    pub ttis: u64,
    /// TTIs of the whole run.
    pub planned: u64,
}

impl Workload {
    /// Measures the speed of busy work on the first core of the workload, with normal priority.
    ///
    /// # Errors
    /// This process may not run on the core.
    pub fn calibrate(&self) -> Result<Calibration> {
        let measure = || {
            self.cores
                .first()
                .map_or(Ok(()), |core| crate::baseband_app::scheduling::pin(&[*core]))?;
            Ok(Calibration::measure())
        };
        std::thread::scope(|scope| join_thread(scope.spawn(measure)))
    }
}

/// Runs the workload once.
///
/// # Errors
/// A thread cannot be started, or the kernel refuses its scheduling. If `stop` is raised, the run
/// ends early without an error.
pub fn run(
    workload: &Workload,
    calibration: Calibration,
    stop: &Stop,
    on_progress: &mut dyn FnMut(PipelineProgress),
) -> Result<WorkloadOutcome> {
    workload.check()?;
    let begun = AtomicU64::new(0);
    let record = std::thread::scope(|scope| {
        let threads = PipelineThreads::start(scope, workload, calibration, stop, &begun)?;
        let mut last = Instant::now();
        while !threads.io.is_finished() {
            std::thread::sleep(POLL);
            if last.elapsed() >= PROGRESS_INTERVAL {
                last = Instant::now();
                let ttis = begun.load(Ordering::Relaxed);
                on_progress(PipelineProgress { ttis, planned: workload.ttis });
            }
        }
        let released = join_thread(threads.io);
        let all = |threads: Vec<_>| threads.into_iter().map(join_thread).collect();
        anyhow::Ok(PipelineRecord {
            ttis: begun.load(Ordering::Relaxed),
            released,
            uplinks: all(threads.uplinks),
            scheduler: join_thread(threads.scheduler),
            downlinks: all(threads.downlinks),
        })
    })?;
    Ok(WorkloadOutcome {
        ttis: record.outcomes(),
        stages: record.stage_durations(),
        complete: !stop.is_raised(),
    })
}

/// Returns the result of a thread, or continues its panic.
fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

type RecordingThread<'s> = ScopedJoinHandle<'s, Vec<StageRun>>;

struct PipelineThreads<'s> {
    io: RecordingThread<'s>,
    uplinks: Vec<RecordingThread<'s>>,
    scheduler: RecordingThread<'s>,
    downlinks: Vec<RecordingThread<'s>>,
}

impl<'s> PipelineThreads<'s> {
    /// Starts all threads, then the first TTI. If a thread fails, the others end, since their
    /// channels close.
    fn start<'e>(
        scope: &'s Scope<'s, 'e>,
        workload: &'e Workload,
        calibration: Calibration,
        stop: &'e Stop,
        begun: &'e AtomicU64,
    ) -> Result<Self> {
        let (ready_sender, ready) = channel();
        let starter = Starter { scope, workload, calibration, ready: ready_sender };
        let cells = usize::from(workload.cells);
        let (ended_sender, ended) = sync_channel(ACTIVATIONS_MAX * cells);
        let times = workload.times;
        let mut uplinks = Vec::with_capacity(cells);
        let (mut uplink_activations, mut downlink_activations) = (Vec::new(), Vec::new());
        let mut downlinks = Vec::with_capacity(cells);
        for cell in 0..cells {
            let (sender, receiver) = sync_channel(ACTIVATIONS_MAX);
            uplink_activations.push(sender);
            let stage = starter.stage(workload.uplink_core(cell), times.uplink_ns, 2 * cell + 1);
            let next = Some(ended_sender.clone());
            let body = move || cell_thread(stage, &receiver, next.as_ref());
            uplinks.push(starter.spawn(format!("uplink-{cell}"), body)?);
            let (sender, receiver) = sync_channel(ACTIVATIONS_MAX);
            downlink_activations.push(sender);
            let core = workload.downlink_core(cell);
            let stage = starter.stage(core, times.downlink_ns, 2 * cell + 2);
            let body = move || cell_thread(stage, &receiver, None);
            downlinks.push(starter.spawn(format!("downlink-{cell}"), body)?);
        }
        let stage = starter.stage(workload.uplink_core(0), times.scheduler_ns, 0);
        let (scheduler_start, start) = channel();
        let body = move || scheduler_thread(stage, &start, &ended, &downlink_activations);
        let scheduler = starter.spawn("scheduler".to_owned(), body)?;
        let setup =
            ThreadSetup { scheduling: workload.io_scheduling(), ready: starter.ready.clone() };
        let (io_start, start) = channel();
        let releases = TtiReleases { planned: workload.ttis, begun, stop };
        let body = move || io_thread(setup, &start, &uplink_activations, releases);
        let io = starter.spawn("io".to_owned(), body)?;
        drop(starter);
        for result in ready {
            result?;
        }
        let grid = TtiGrid { origin_ns: now_ns() + START_LEAD_NS, tti_ns: workload.tti_ns };
        for start in [scheduler_start, io_start] {
            start.send(grid).context("a thread of the workload has ended")?;
        }
        Ok(Self { io, uplinks, scheduler, downlinks })
    }
}

/// The parts from which the threads are made.
struct Starter<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    workload: &'e Workload,
    calibration: Calibration,
    ready: Sender<Result<()>>,
}

impl<'s> Starter<'s, '_> {
    fn stage(&self, core: Option<u16>, time_ns: u64, number: usize) -> StageThread {
        let workload = self.workload;
        let seed = workload.seed.wrapping_add(u64::try_from(number).unwrap_or(0) << 32);
        StageThread {
            setup: ThreadSetup {
                scheduling: workload.scheduling(core, time_ns),
                ready: self.ready.clone(),
            },
            times: ExecutionTimes::new(workload.distribution, time_ns, seed),
            calibration: self.calibration,
            runs: records(workload.ttis),
            cells: workload.cells.into(),
        }
    }

    fn spawn(
        &self,
        name: String,
        body: impl FnOnce() -> Vec<StageRun> + Send + 's,
    ) -> Result<RecordingThread<'s>> {
        let text = format!("start the thread {name}");
        Builder::new().name(name).spawn_scoped(self.scope, body).context(text)
    }
}

/// Returns an empty list with room for one record per TTI, in memory that is already mapped.
fn records(ttis: u64) -> Vec<StageRun> {
    let mut records = Vec::new();
    records.resize(usize::try_from(ttis).unwrap_or(0), StageRun::default());
    records.clear();
    records
}

/// The start of a thread: its scheduling, and the channel on which it reports that it is ready.
struct ThreadSetup {
    scheduling: ThreadScheduling,
    ready: Sender<Result<()>>,
}

impl ThreadSetup {
    /// Applies the scheduling and reports the result. False if it failed.
    fn enter(self) -> bool {
        let result = self.scheduling.apply();
        let is_ready = result.is_ok();
        self.ready.send(result).is_ok() && is_ready
    }
}

/// A thread that executes a stage once per TTI.
struct StageThread {
    setup: ThreadSetup,
    times: ExecutionTimes,
    calibration: Calibration,
    runs: Vec<StageRun>,
    cells: usize,
}

/// The rest of a [`StageThread`] after its setup.
struct Stage {
    times: ExecutionTimes,
    calibration: Calibration,
    runs: Vec<StageRun>,
    /// Iterations of the next execution.
    iterations: u64,
}

impl StageThread {
    /// Applies the setup; `None` if it failed.
    fn enter(self) -> Option<Stage> {
        let Self { setup, times, calibration, runs, .. } = self;
        if !setup.enter() {
            return None;
        }
        let mut stage = Stage { times, calibration, runs, iterations: 0 };
        stage.prepare();
        Some(stage)
    }
}

impl Stage {
    /// Chooses the length of the next execution. Runs between executions, so it does not count.
    fn prepare(&mut self) {
        self.iterations = self.calibration.iterations(self.times.next_ns());
    }

    /// Executes the stage, then activates other threads with `next`.
    fn execute(&mut self, tti: u64, timed_out: bool, next: impl FnOnce()) {
        let start_ns = now_ns();
        spin(self.iterations);
        let end_ns = now_ns();
        next();
        self.runs.push(StageRun { tti, start_ns, end_ns, timed_out });
        self.prepare();
    }
}

/// Which TTIs the I/O thread releases. To release a TTI is to activate its uplink threads.
struct TtiReleases<'e> {
    planned: u64,
    /// TTIs that have begun.
    begun: &'e AtomicU64,
    stop: &'e Stop,
}

/// Releases each TTI in time. After a delay of more than a TTI it continues with the current one.
fn io_thread(
    setup: ThreadSetup,
    start: &Receiver<TtiGrid>,
    uplinks: &[SyncSender<u64>],
    TtiReleases { planned, begun, stop }: TtiReleases<'_>,
) -> Vec<StageRun> {
    let mut released = records(planned);
    if !setup.enter() {
        return Vec::new();
    }
    let Ok(grid) = start.recv() else { return Vec::new() };
    let mut tti = 0;
    while tti < planned && !stop.is_raised() {
        sleep_until(grid.start_ns(tti));
        let start_ns = now_ns();
        tti = tti.max(grid.at(start_ns));
        if tti >= planned {
            begun.store(planned, Ordering::Relaxed);
            break;
        }
        let due_ns = grid.start_ns(tti);
        for uplink in uplinks {
            // A thread whose channel is full is late anyway.
            let _ = uplink.try_send(tti);
        }
        released.push(StageRun { tti, start_ns, end_ns: due_ns, timed_out: false });
        tti += 1;
        begun.store(tti, Ordering::Relaxed);
    }
    released
}

/// Runs an uplink or a downlink thread.
fn cell_thread(
    stage: StageThread,
    activations: &Receiver<u64>,
    next: Option<&SyncSender<u64>>,
) -> Vec<StageRun> {
    let Some(mut stage) = stage.enter() else { return Vec::new() };
    while let Ok(mut tti) = activations.recv() {
        while let Ok(newer) = activations.try_recv() {
            tti = newer;
        }
        stage.execute(tti, false, || {
            // A lost activation changes nothing: the scheduler thread is many TTIs behind.
            let _ = next.map(|next| next.try_send(tti));
        });
    }
    stage.runs
}

fn scheduler_thread(
    stage: StageThread,
    start: &Receiver<TtiGrid>,
    ended: &Receiver<u64>,
    downlinks: &[SyncSender<u64>],
) -> Vec<StageRun> {
    let cells = stage.cells;
    let Some(mut stage) = stage.enter() else { return Vec::new() };
    let Ok(grid) = start.recv() else { return Vec::new() };
    let mut gathering = UplinkGathering::new(cells, grid);
    let mut execute = |tti: u64, timed_out: bool| {
        stage.execute(tti, timed_out, || {
            for downlink in downlinks {
                let _ = downlink.try_send(tti);
            }
        });
    };
    loop {
        ended.try_iter().for_each(|tti| gathering.on_uplink_end(tti));
        let until_ns = match gathering.next_step(now_ns()) {
            SchedulerStep::Run { tti, timed_out } => {
                execute(tti, timed_out);
                continue;
            }
            SchedulerStep::WaitUntil(until_ns) => until_ns,
        };
        let wait = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
        match ended.recv_timeout(wait) {
            Ok(tti) => gathering.on_uplink_end(tti),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    while let Some(SchedulerStep::Run { tti, timed_out }) = gathering.last_step() {
        execute(tti, timed_out);
    }
    stage.runs
}
