//! The thread that owns a record store: it appends groups, makes them durable together, and does
//! the store's upkeep.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, TrySendError, channel,
    sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_store::{
    Files, GroupNumber, Journal, JournalFigures, OwnedRecordId, RecordChange, RecordGroup,
    RecordKey, RecordKind, RecordStore, StoreError, StoreState, Upkeep,
};
use adit_types::limits::STORE_VALUE_BYTES_MAX;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pause between attempts to write to a store that fails.
const WRITE_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long the thread relies on the last check that the store's files are in place.
const PLACE_CHECK_INTERVAL: Duration = Duration::from_millis(400);

/// How long the files may be missing before the store makes them again: somebody may put them back.
const FILES_MISSING_MAX: Duration = Duration::from_secs(2);

/// How long the thread waits for groups when the store needs no upkeep.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// How long the thread waits for groups while a sync is under way.
const SYNCING_WAIT: Duration = Duration::from_millis(1);

/// Maximum time that [`StoreLink::wait_for`] waits.
const GROUP_WAIT_MAX: Duration = Duration::from_micros(100);

/// Pause between attempts to pass on a batch of records.
const BATCH_RETRY_PAUSE: Duration = Duration::from_millis(1);

/// How many records of a previous process a batch has. A power of two.
const RECORDS_PER_BATCH: usize = 64;

/// Maximum of batches that wait: few enough to stay in the caches between the two threads.
const BATCHES_MAX: usize = 8;

/// How many records of one kind are read and sorted by index before the first of them are passed
/// on.
const RECORDS_PER_WINDOW: usize = 4096;

/// Converts a record that a previous process left into the receiver's form.
pub type ReadRecord<R> = Box<dyn FnMut(RecordKind, OwnedRecordId, Vec<u8>) -> R + Send>;

/// A batch of records, or the error that ends the reading.
type BatchResult<R> = Result<Vec<R>, StoreError>;

/// A record store that a thread can own.
pub trait ThreadStore: RecordStore + Send + 'static {
    /// Figures for operators.
    type Figures: fmt::Debug + Clone + Send + 'static;

    /// Returns the present figures, for operators.
    fn figures(&self) -> Self::Figures;

    /// Keeps this process's hold of the store (a lease) while it reads records, when
    /// [`RecordStore::maintain`] is not called.
    ///
    /// # Errors
    /// The hold is lost, or the store cannot be used now.
    fn keep_hold(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Checks that the written records are where a later process finds them.
    ///
    /// # Errors
    /// They are not; no group becomes durable meanwhile.
    fn check_place(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes a removed journal again in its place; see [`ThreadStore::check_place`].
    ///
    /// # Errors
    /// That failed, for now or until somebody clears the place.
    fn begin_again(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// True if another process requests a handover of the records.
    fn is_handover_requested(&self) -> bool {
        false
    }

    /// True if the thread should poll the store and its groups instead of sleeping, because the
    /// store answers within microseconds.
    fn polls(&self) -> bool {
        false
    }

    /// Releases this process's hold of the store, which it does not use any more.
    fn close(&mut self) {}
}

impl<F> ThreadStore for Journal<F>
where
    F: Files<File: Send> + Send + 'static,
{
    type Figures = JournalFigures;

    fn figures(&self) -> JournalFigures {
        Self::figures(self)
    }

    fn check_place(&mut self) -> Result<(), StoreError> {
        Self::check_place(self)
    }

    fn begin_again(&mut self) -> Result<(), StoreError> {
        Self::begin_again(self)
    }
}

/// The state of a store, for operators.
#[derive(Debug, Clone)]
pub struct StoreReport<G> {
    /// Figures of the store itself.
    pub figures: G,
    /// Which changes the store accepts.
    pub state: StoreState,
    /// Why the store cannot write now.
    pub failure: Option<String>,
    /// How often the store could not write.
    pub failures: u64,
    /// Why the store's upkeep fails; commits go on.
    pub upkeep_failure: Option<String>,
    /// Records that were not stored, because they are larger than the store takes.
    pub too_large: u64,
    /// Duration of the last commit.
    pub commit: Duration,
    /// The longest commit so far.
    pub commit_max: Duration,
}

/// The answer of the records' owner to a loss: it has sent all records again.
#[derive(Debug, Clone, Copy)]
struct RewrittenRecords {
    /// The value of [`StoreLink::losses`] that this answers.
    losses: u64,
    /// The last group with records that were sent again.
    through: GroupNumber,
}

/// State and events that the thread publishes.
#[derive(Debug)]
struct StoreSignals<G> {
    durable: AtomicU64,
    /// A [`StoreState`] as a number.
    condition: AtomicU8,
    is_lost: AtomicBool,
    /// How often the store lost records; and the owner's answer to the last loss.
    losses: AtomicU64,
    rewritten: Mutex<Option<RewrittenRecords>>,
    is_handover_requested: AtomicBool,
    /// True once the node's side is dropped.
    is_ending: AtomicBool,
    event: OwnedFd,
    report: Mutex<StoreReport<G>>,
}

/// The records that a previous process left, each as an `R`.
#[derive(Debug)]
pub struct FormerRecords<R> {
    batches: Receiver<BatchResult<R>>,
    used: Sender<Vec<R>>,
}

impl<R> FormerRecords<R> {
    /// Returns the next records; `None` if none have been read yet, an empty batch at the end.
    ///
    /// # Errors
    /// The store cannot be read; no further batch follows.
    pub fn poll(&self) -> Result<Option<Vec<R>>, StoreError> {
        match self.batches.try_recv() {
            Ok(batch) => batch.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Ok(Some(Vec::new())),
        }
    }

    /// Returns a used batch to the thread that read it, where freeing its memory costs less.
    pub fn give_back(&self, batch: Vec<R>) {
        // If the thread has ended, the batch is dropped here.
        let _ = self.used.send(batch);
    }
}

/// The node's side of the thread; dropping it ends the thread. `G`: the figures of the store.
#[derive(Debug)]
pub struct StoreLink<G> {
    /// `None` once the thread is to end.
    groups: Option<Sender<RecordGroup>>,
    state: Arc<StoreSignals<G>>,
    /// True if the thread answers within microseconds.
    polls: bool,
    thread: Option<JoinHandle<()>>,
}

impl<G: fmt::Debug + Clone + Send + 'static> StoreLink<G> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The process is out of threads or file descriptors.
    pub fn start<S>(store: S) -> io::Result<Self>
    where
        S: ThreadStore<Figures = G>,
    {
        Self::spawn(store, |_| {})
    }

    /// Starts the thread, which first reads the records of these kinds and converts each with
    /// `read`: one kind after the other, sessions roughly in the order of their indices. Until all
    /// are read the thread may run on `cpus`, and afterwards on the caller's CPUs.
    ///
    /// # Errors
    /// As for [`StoreLink::start`].
    pub fn start_reading<S, R>(
        store: S,
        kinds: Vec<RecordKind>,
        read: ReadRecord<R>,
        cpus: CpuSet,
    ) -> io::Result<(Self, FormerRecords<R>)>
    where
        S: ThreadStore<Figures = G>,
        R: Send + 'static,
    {
        let (to, batches) = sync_channel(BATCHES_MAX);
        let (used, back) = channel();
        let link = Self::spawn(store, move |owner| {
            let own = sched_getaffinity(None);
            // Best effort: if it fails, reading takes longer on the caller's CPUs.
            let _ = sched_setaffinity(None, &cpus);
            owner.read(&kinds, RecordReading::new(read, to, back));
            let _ = own.map(|own| sched_setaffinity(None, &own));
        })?;
        Ok((link, FormerRecords { batches, used }))
    }

    fn spawn<S>(
        store: S,
        begin: impl FnOnce(&mut StoreThread<S>) + Send + 'static,
    ) -> io::Result<Self>
    where
        S: ThreadStore<Figures = G>,
    {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let report = StoreReport {
            figures: store.figures(),
            state: StoreState::Working,
            failure: None,
            failures: 0,
            upkeep_failure: None,
            too_large: 0,
            commit: Duration::ZERO,
            commit_max: Duration::ZERO,
        };
        let state = Arc::new(StoreSignals {
            durable: AtomicU64::new(store.durable().0),
            condition: AtomicU8::new(StoreState::Working as u8),
            is_lost: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            rewritten: Mutex::new(None),
            is_handover_requested: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            event,
            report: Mutex::new(report),
        });
        let polls = store.polls();
        let (groups, received) = channel();
        let place_seen = Instant::now();
        let mut owner = StoreThread { store, state: Arc::clone(&state), next: None, place_seen };
        let thread =
            std::thread::Builder::new().name("adit-store".to_owned()).spawn(move || {
                begin(&mut owner);
                owner.run(&received);
                owner.store.close();
            })?;
        Ok(Self { groups: Some(groups), state, polls, thread: Some(thread) })
    }

    /// Sends a group to the thread. The first group of this process has the number after
    /// [`StoreLink::durable`], and the numbers of the next ones have no gaps.
    pub fn send(&self, group: RecordGroup) {
        // Cannot fail: the thread ends only after this sender is dropped.
        let _ = self.groups.as_ref().map(|groups| groups.send(group));
    }

    /// Returns the last durable group; at first the last one of the previous process.
    #[must_use]
    pub fn durable(&self) -> GroupNumber {
        GroupNumber(self.state.durable.load(Ordering::Acquire))
    }

    /// Waits a moment for group `number` to become durable if the thread polls, so that the caller
    /// need not sleep meanwhile.
    pub fn wait_for(&self, number: GroupNumber) {
        let began = Instant::now();
        while self.polls && self.durable() < number && began.elapsed() < GROUP_WAIT_MAX {
            // The thread may run on this core.
            std::thread::yield_now();
        }
    }

    /// Returns which changes the store accepts.
    #[must_use]
    pub fn state(&self) -> StoreState {
        let condition = self.state.condition.load(Ordering::Acquire);
        let states = [StoreState::Working, StoreState::Full];
        states.into_iter().find(|state| *state as u8 == condition).unwrap_or(StoreState::Failing)
    }

    /// True once another process has taken the records over: no further group becomes durable, the
    /// report gives the reason, and this process must end without sending another answer.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state.is_lost.load(Ordering::Acquire)
    }

    /// True if another process requests a handover of the records; this process should then end.
    #[must_use]
    pub fn is_handover_requested(&self) -> bool {
        self.state.is_handover_requested.load(Ordering::Acquire)
    }

    /// Returns how often the store has lost records. After each loss the owner sends all records
    /// again.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.state.losses.load(Ordering::Acquire)
    }

    /// Notes that the owner has answered loss `losses`: the groups up to `through` have all
    /// records.
    pub fn set_rewritten(&self, losses: u64, through: GroupNumber) {
        let mut rewritten = self.state.rewritten.lock().unwrap_or_else(PoisonError::into_inner);
        *rewritten = Some(RewrittenRecords { losses, through });
    }

    /// Returns the report for operators.
    #[must_use]
    pub fn report(&self) -> StoreReport<G> {
        self.state.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Clears the event that woke the caller.
    pub fn take_wake_up(&self) {
        let _ = rustix::io::read(&self.state.event, &mut [0; 8]);
    }

    /// True if the thread ended by itself, which is a fault.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// The descriptor is readable once the state has changed.
impl<G> AsFd for StoreLink<G> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state.event.as_fd()
    }
}

/// Ends the thread, after it has written all that it can.
impl<G> Drop for StoreLink<G> {
    fn drop(&mut self) {
        self.groups = None;
        self.state.is_ending.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct StoreThread<S: ThreadStore> {
    store: S,
    state: Arc<StoreSignals<S::Figures>>,
    /// The next group, which the store has not taken yet.
    next: Option<RecordGroup>,
    /// When the store's files were last found in place.
    place_seen: Instant,
}

impl<S: ThreadStore> StoreThread<S> {
    /// Passes on the records of a previous process. While the store is read, it passes on sorted
    /// records as far as the node takes them; the others wait as octets.
    fn read<R>(&mut self, kinds: &[RecordKind], mut reading: RecordReading<R>) {
        for &kind in kinds {
            let Self { store, state, .. } = self;
            let visited = store.visit(&[kind], &mut |key, value| {
                reading.waiting.push_back((key.kind, OwnedRecordId::of(key.id), value.to_vec()));
                reading.unsorted += 1;
                if reading.unsorted == RECORDS_PER_WINDOW {
                    reading.sort_window();
                }
                if reading.unsorted.is_multiple_of(RECORDS_PER_BATCH) && reading.hand_over() {
                    state.wake();
                }
            });
            if let Err(error) = visited {
                // If this fails, the receiver has ended and needs no error.
                let _ = reading.to.send(Err(error));
                return self.wake();
            }
            reading.sort_all();
            while reading.is_pending() {
                // Other errors may be temporary: the next round tries again.
                if let Err(StoreError::Fenced { .. }) = self.store.keep_hold() {
                    return;
                }
                if self.state.is_ending.load(Ordering::Acquire) {
                    return;
                }
                match reading.hand_over() {
                    true => self.wake(),
                    false => std::thread::sleep(BATCH_RETRY_PAUSE),
                }
            }
        }
        drop(reading);
        self.wake();
    }

    /// Processes groups until their sender is dropped or the store is lost.
    fn run(&mut self, groups: &Receiver<RecordGroup>) {
        let mut pause = IDLE_WAIT;
        loop {
            let ended = self.await_group(groups, pause);
            let place = self.check_files_in_place();
            let is_in_place = place.is_ok();
            let mut failure = place.and_then(|()| self.write(groups)).err();
            if let Some(StoreError::Fenced { .. } | StoreError::Order(_)) = &failure {
                return self.publish_lost_lease(failure);
            }
            pause = WRITE_RETRY_PAUSE;
            // A store that was just found unreachable is not tried again at once. After other
            // failures upkeep may make room.
            let is_away = matches!(failure, Some(StoreError::Unavailable(_)));
            if !ended && is_in_place && !is_away {
                match self.store.maintain() {
                    Ok(upkeep) => pause = self.pause_after(upkeep),
                    Err(error @ StoreError::Fenced { .. }) => {
                        return self.publish_lost_lease(Some(error));
                    }
                    Err(error @ StoreError::Unavailable(_)) => failure = Some(error),
                    Err(error) => self.note_upkeep(Some(&error)),
                }
            }
            self.note_losses();
            let made_room = pause == Duration::ZERO && matches!(failure, Some(StoreError::Full(_)));
            let is_failing = failure.is_some() && !made_room;
            if self.publish_state(failure) {
                self.wake();
            }
            if ended {
                return;
            }
            if is_failing {
                std::thread::sleep(WRITE_RETRY_PAUSE);
            }
        }
    }

    /// Checks from time to time that the store's files are in place. If they are missing it checks
    /// each time, until they are back or the store makes them again.
    fn check_files_in_place(&mut self) -> Result<(), StoreError> {
        if self.place_seen.elapsed() < PLACE_CHECK_INTERVAL {
            return Ok(());
        }
        match self.store.check_place() {
            Err(StoreError::Removed) if self.place_seen.elapsed() >= FILES_MISSING_MAX => {
                self.store.begin_again()?;
            }
            found => found?,
        }
        self.place_seen = Instant::now();
        Ok(())
    }

    /// Returns how long the thread waits for groups after an upkeep with this result.
    fn pause_after(&self, upkeep: Upkeep) -> Duration {
        self.note_upkeep(None);
        match upkeep {
            Upkeep::Idle => IDLE_WAIT,
            Upkeep::Worked => Duration::ZERO,
            Upkeep::Waiting => SYNCING_WAIT,
        }
    }

    /// Publishes why upkeep failed, or that it works. Commits go on.
    fn note_upkeep(&self, error: Option<&StoreError>) {
        let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(error) => report.upkeep_failure = Some(error.to_string()),
            None if self.store.is_damaged() => {}
            None => report.upkeep_failure = None,
        }
    }

    /// Waits for a group for at most `pause`. True if no further group can come.
    fn await_group(&mut self, groups: &Receiver<RecordGroup>, pause: Duration) -> bool {
        if self.next.is_some() {
            std::thread::sleep(pause);
            return self.state.is_ending.load(Ordering::Acquire);
        }
        match self.next_group(groups, pause) {
            Ok(group) => self.next = Some(group),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return true,
        }
        false
    }

    /// Returns the next group, or waits for it for at most `pause`.
    fn next_group(
        &mut self,
        groups: &Receiver<RecordGroup>,
        pause: Duration,
    ) -> Result<RecordGroup, RecvTimeoutError> {
        if !self.store.polls() {
            return groups.recv_timeout(pause);
        }
        let began = Instant::now();
        loop {
            match groups.try_recv() {
                Ok(group) => return Ok(group),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if began.elapsed() >= pause => {
                    return Err(RecvTimeoutError::Timeout);
                }
                // The control thread may run on this core.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
            }
        }
    }

    /// Appends the groups that wait, as far as the queue has room, and commits.
    fn write(&mut self, groups: &Receiver<RecordGroup>) -> Result<(), StoreError> {
        let mut appended = Ok(());
        while appended.is_ok()
            && let Some(group) = self.next.take().or_else(|| groups.try_recv().ok())
        {
            appended = self.append(group);
        }
        // Upkeep may have made groups durable since the last commit.
        let told = GroupNumber(self.state.durable.load(Ordering::Relaxed));
        if self.store.groups().last() > told {
            let began = Instant::now();
            let committed = self.store.commit();
            let durable = self.store.durable();
            if durable > told {
                self.state.durable.store(durable.0, Ordering::Release);
                self.note_commit(began.elapsed());
                self.wake();
            }
            committed?;
        }
        appended
    }

    /// Appends a group, without the records that are too large for any store.
    fn append(&mut self, mut group: RecordGroup) -> Result<(), StoreError> {
        let is_too_large = |change: &RecordChange| {
            change.value.as_ref().is_some_and(|v| v.len() > STORE_VALUE_BYTES_MAX)
        };
        let before = group.changes.len();
        group.changes.retain(|change| !is_too_large(change));
        let too_large = before - group.changes.len();
        if too_large > 0 {
            let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
            report.too_large += u64::try_from(too_large).unwrap_or(u64::MAX);
        }
        let changes: Vec<_> = group.changes.iter().map(RecordChange::as_change).collect();
        match self.store.append(&changes) {
            Ok(number) if number == group.number => Ok(()),
            Ok(_) => Err(StoreError::Order(group.number.0)),
            Err(error) => {
                self.next = Some(group);
                Err(StoreError::Full(error))
            }
        }
    }

    /// Publishes losses of the store, and notifies the store once it has all records again.
    fn note_losses(&mut self) {
        let losses = self.store.losses();
        if self.state.losses.swap(losses, Ordering::AcqRel) != losses {
            self.wake();
        }
        let durable = GroupNumber(self.state.durable.load(Ordering::Relaxed));
        let mut rewritten = self.state.rewritten.lock().unwrap_or_else(PoisonError::into_inner);
        let is_complete = |answer: &mut RewrittenRecords| answer.through <= durable;
        if let Some(answer) = rewritten.take_if(is_complete)
            && answer.losses == losses
        {
            self.store.set_complete();
        }
    }

    fn note_commit(&self, took: Duration) {
        let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.commit = took;
        report.commit_max = report.commit_max.max(took);
    }

    /// Publishes the state of the store. True if the node has to see a change of it.
    fn publish_state(&self, failure: Option<StoreError>) -> bool {
        let state = match failure {
            Some(_) => StoreState::Failing,
            None if self.store.is_full() => StoreState::Full,
            None => StoreState::Working,
        };
        let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.figures = self.store.figures();
        report.state = state;
        report.failures += u64::from(failure.is_some());
        report.failure = failure.map(|error| error.to_string());
        let is_requested = self.store.is_handover_requested();
        let was_requested = self.state.is_handover_requested.swap(is_requested, Ordering::AcqRel);
        let former = self.state.condition.swap(state as u8, Ordering::AcqRel);
        former != state as u8 || was_requested != is_requested
    }

    /// Publishes that another process has taken the records over. Does not set the state to
    /// failing, in which a node may still answer requests.
    fn publish_lost_lease(&self, error: Option<StoreError>) {
        let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.failure = error.map(|error| error.to_string());
        drop(report);
        self.state.is_lost.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        self.state.wake();
    }
}

impl<G> StoreSignals<G> {
    fn wake(&self) {
        // If the counter is full, a wake-up is pending anyway.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }
}

/// Returns the sort key of a record within its kind: for a session its index, the lowest 24 bits of
/// the SEID.
const fn sort_key(name: &OwnedRecordId) -> u64 {
    match name {
        OwnedRecordId::Number(number) => *number & 0xff_ffff,
        OwnedRecordId::Octets(_) => 0,
    }
}

/// Records of a previous process on their way to the node.
struct RecordReading<R> {
    waiting: VecDeque<(RecordKind, OwnedRecordId, Vec<u8>)>,
    /// How many records at the end of `waiting` are not sorted.
    unsorted: usize,
    /// A batch that the node has not taken yet.
    batch: Option<Vec<R>>,
    read: ReadRecord<R>,
    to: SyncSender<BatchResult<R>>,
    /// Batches that the node has used, to be freed here.
    back: Receiver<Vec<R>>,
}

impl<R> RecordReading<R> {
    const fn new(
        read: ReadRecord<R>,
        to: SyncSender<BatchResult<R>>,
        back: Receiver<Vec<R>>,
    ) -> Self {
        Self { waiting: VecDeque::new(), unsorted: 0, batch: None, read, to, back }
    }

    /// Sorts the unsorted records at the end of `waiting`.
    fn sort_window(&mut self) {
        let records = self.waiting.make_contiguous();
        let (_, window) = records.split_at_mut(records.len().saturating_sub(self.unsorted));
        window.sort_by_key(|(_, name, _)| sort_key(name));
        self.unsorted = 0;
    }

    /// Sorts all records in `waiting`.
    fn sort_all(&mut self) {
        self.waiting.make_contiguous().sort_by_key(|(_, name, _)| sort_key(name));
        self.unsorted = 0;
    }

    /// True until the node has taken all records.
    fn is_pending(&self) -> bool {
        self.batch.is_some() || !self.waiting.is_empty()
    }

    /// Passes on records in order, as many as the node takes without waiting. True if it took any.
    fn hand_over(&mut self) -> bool {
        let mut has_taken = false;
        while self.batch.is_some() || self.waiting.len() > self.unsorted {
            self.back.try_iter().for_each(drop);
            let batch = self.batch.take().unwrap_or_else(|| {
                let count = (self.waiting.len() - self.unsorted).min(RECORDS_PER_BATCH);
                let Self { waiting, read, .. } = &mut *self;
                let records = waiting.drain(..count);
                records.map(|(kind, name, octets)| read(kind, name, octets)).collect()
            });
            match self.to.try_send(Ok(batch)) {
                Ok(()) => has_taken = true,
                Err(TrySendError::Full(batch)) => {
                    self.batch = batch.ok();
                    break;
                }
                Err(TrySendError::Disconnected(_)) => {
                    self.waiting.clear();
                    self.unsorted = 0;
                    break;
                }
            }
        }
        has_taken
    }
}

/// Returns the value of a record; `None` if there is no record of this key.
///
/// # Errors
/// The store cannot be read.
pub fn read_record(
    store: &mut impl RecordStore,
    key: RecordKey<'_>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut found = None;
    store.visit(&[key.kind], &mut |other, value| {
        if other == key {
            found = Some(value.to_vec());
        }
    })?;
    Ok(found)
}
