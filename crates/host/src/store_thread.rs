//! The thread that owns a store of records: it appends groups, makes them durable together, and keeps the store in
//! shape.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_store::{
    AppendError, Files, Journal, JournalFigures, RecordChange, RecordGroup, RecordKind, RecordName,
    RecordNumber, RecordStore, StoreError, Upkeep,
};
use adit_types::limits::STORE_VALUE_BYTES_MAX;
use rustix::event::{EventfdFlags, eventfd};

/// Pause between attempts to write to a store that fails.
const RETRY: Duration = Duration::from_millis(100);

/// How long the thread waits for groups when the store needs no upkeep.
const IDLE: Duration = Duration::from_millis(100);

/// The same while a sync is under way.
const SYNCING: Duration = Duration::from_millis(1);

/// Records that are handed over at once when a former process's are read.
const RECORDS_PER_BATCH: usize = 256;

/// Batches of them that wait at most.
const BATCHES_MAX: usize = 16;

/// Records that a former process left.
pub type RecordBatch = Vec<(RecordKind, RecordName, Vec<u8>)>;

/// A batch, or why there are no further ones.
type BatchResult = Result<RecordBatch, StoreError>;

/// What operators see of the store.
#[derive(Debug, Clone)]
pub struct StoreReport {
    /// Figures of the journal.
    pub journal: JournalFigures,
    /// Why it cannot write now.
    pub failure: Option<String>,
    /// How often it could not write.
    pub failures: u64,
    /// Records that were not kept, because they are larger than the store takes.
    pub too_large: u64,
    /// Duration of the last commit.
    pub commit: Duration,
    /// The longest one so far.
    pub commit_max: Duration,
}

/// What the thread tells.
#[derive(Debug)]
struct StoreState {
    durable: AtomicU64,
    is_failing: AtomicBool,
    event: OwnedFd,
    report: Mutex<StoreReport>,
}

/// The node's side of the thread.
#[derive(Debug)]
pub struct StoreLink {
    /// `None` once the thread was told to end.
    groups: Option<Sender<RecordGroup>>,
    records: Option<Receiver<BatchResult>>,
    state: Arc<StoreState>,
    thread: Option<JoinHandle<()>>,
}

impl StoreLink {
    /// Starts the thread. First it reads the records of these kinds, sessions by their indices.
    ///
    /// # Errors
    /// The process is out of threads or file descriptors.
    pub fn start<F>(journal: Journal<F>, read: Vec<RecordKind>) -> io::Result<Self>
    where
        F: Files<File: Send> + Send + 'static,
    {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let report = StoreReport {
            journal: journal.figures(),
            failure: None,
            failures: 0,
            too_large: 0,
            commit: Duration::ZERO,
            commit_max: Duration::ZERO,
        };
        let state = Arc::new(StoreState {
            durable: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            event,
            report: Mutex::new(report),
        });
        let (groups, received) = channel();
        let (batches, records) = sync_channel(BATCHES_MAX);
        let waiting = VecDeque::new();
        let mut owner =
            StoreThread { journal, state: Arc::clone(&state), waiting, appended: RecordNumber(0) };
        let thread =
            std::thread::Builder::new().name("adit-store".to_owned()).spawn(move || {
                owner.read(&read, batches);
                owner.run(&received);
            })?;
        Ok(Self { groups: Some(groups), records: Some(records), state, thread: Some(thread) })
    }

    /// Hands a group over.
    pub fn send(&self, group: RecordGroup) {
        // The thread ends only after this sender.
        let _ = self.groups.as_ref().map(|groups| groups.send(group));
    }

    /// The last durable group of this process.
    #[must_use]
    pub fn durable(&self) -> RecordNumber {
        RecordNumber(self.state.durable.load(Ordering::Acquire))
    }

    /// True while the store cannot write.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.state.is_failing.load(Ordering::Acquire)
    }

    /// The next records of the former process; `None` if none have been read yet, an empty batch at the end.
    ///
    /// # Errors
    /// The store cannot be read; there is no further batch.
    pub fn poll_records(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        match self.records.as_ref().map_or(Err(TryRecvError::Disconnected), Receiver::try_recv) {
            Ok(batch) => batch.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                self.records = None;
                Ok(Some(Vec::new()))
            }
        }
    }

    /// What operators see.
    #[must_use]
    pub fn report(&self) -> StoreReport {
        self.state.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Clears what woke the caller.
    pub fn take_wake_up(&self) {
        let _ = rustix::io::read(&self.state.event, &mut [0; 8]);
    }

    /// True if the thread ended by itself, which is a fault.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Readable when the state changed.
impl AsFd for StoreLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state.event.as_fd()
    }
}

/// Ends the thread, after it has written what it can.
impl Drop for StoreLink {
    fn drop(&mut self) {
        self.groups = None;
        self.records = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct StoreThread<F: Files> {
    journal: Journal<F>,
    state: Arc<StoreState>,
    /// Groups that the journal has not taken.
    waiting: VecDeque<RecordGroup>,
    /// The last group that it has taken.
    appended: RecordNumber,
}

impl<F: Files> StoreThread<F> {
    /// Hands over the records of a former process.
    fn read(&mut self, kinds: &[RecordKind], batches: SyncSender<BatchResult>) {
        for &kind in kinds {
            let mut found = Vec::new();
            let visited = self.journal.visit(&[kind], &mut |key, value| {
                found.push((key.kind, RecordName::of(key.id), value.to_vec()));
            });
            if let Err(error) = visited {
                // Whoever does not receive it has ended.
                let _ = batches.send(Err(error));
                return self.wake();
            }
            // Indices are the lowest 24 bits of a SEID.
            found.sort_unstable_by_key(|(_, name, _)| match name {
                RecordName::Number(number) => number & 0xff_ffff,
                RecordName::Octets(_) => 0,
            });
            let mut found = found.into_iter();
            loop {
                let batch: RecordBatch = found.by_ref().take(RECORDS_PER_BATCH).collect();
                if batch.is_empty() {
                    break;
                }
                if batches.send(Ok(batch)).is_err() {
                    return;
                }
                self.wake();
            }
        }
        drop(batches);
        self.wake();
    }

    fn run(&mut self, groups: &Receiver<RecordGroup>) {
        let mut pause = IDLE;
        loop {
            let ended = match groups.recv_timeout(pause) {
                Ok(group) => {
                    self.waiting.push_back(group);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            self.waiting.extend(groups.try_iter());
            let written = self.write();
            if ended {
                return;
            }
            pause = match written {
                false => RETRY,
                true => match self.journal.maintain() {
                    Ok(Upkeep::Idle) => IDLE,
                    Ok(Upkeep::Worked) => Duration::ZERO,
                    Ok(Upkeep::Waiting) => SYNCING,
                    Err(_) => RETRY,
                },
            };
            if !written {
                std::thread::sleep(RETRY);
            }
        }
    }

    /// Appends what waits, and commits. False if the store fails.
    fn write(&mut self) -> bool {
        let mut refused = None;
        while let Some(group) = self.waiting.front_mut() {
            if let Err(error) = append(&mut self.journal, &self.state, group) {
                refused = Some(error.to_string());
                break;
            }
            self.appended = group.number;
            self.waiting.pop_front();
        }
        let before = self.state.durable.load(Ordering::Relaxed);
        if self.appended.0 > before {
            let began = Instant::now();
            match self.journal.commit() {
                Ok(_) => {
                    self.state.durable.store(self.appended.0, Ordering::Release);
                    self.note_commit(began.elapsed());
                }
                Err(error) => refused = Some(error.to_string()),
            }
        }
        let is_changed = self.note_failure(refused);
        if is_changed || self.state.durable.load(Ordering::Relaxed) > before {
            self.wake();
        }
        !self.state.is_failing.load(Ordering::Relaxed)
    }

    fn note_commit(&self, took: Duration) {
        let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.journal = self.journal.figures();
        report.commit = took;
        report.commit_max = report.commit_max.max(took);
    }

    /// True if the store began to fail, or to work again.
    fn note_failure(&self, failure: Option<String>) -> bool {
        let is_failing = failure.is_some();
        let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.failures += u64::from(is_failing);
        report.failure = failure;
        self.state.is_failing.swap(is_failing, Ordering::AcqRel) != is_failing
    }

    fn wake(&self) {
        // A full counter is a pending wake-up.
        let _ = rustix::io::write(&self.state.event, &1_u64.to_ne_bytes());
    }
}

/// Appends the changes of a group, as many groups as the journal needs; one commit makes them durable. What it has taken
/// leaves the group.
fn append<F: Files>(
    journal: &mut Journal<F>,
    state: &StoreState,
    group: &mut RecordGroup,
) -> Result<(), AppendError> {
    let octets = |change: &RecordChange| change.value.as_ref().map_or(0, Vec::len) + 300;
    let is_too_large = |change: &RecordChange| {
        change.value.as_ref().is_some_and(|v| v.len() > STORE_VALUE_BYTES_MAX)
    };
    let before = group.changes.len();
    group.changes.retain(|change| !is_too_large(change));
    let too_large = before - group.changes.len();
    if too_large > 0 {
        let mut report = state.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.too_large += u64::try_from(too_large).unwrap_or(u64::MAX);
    }
    let most = journal.group_octets_max();
    while !group.changes.is_empty() {
        let mut sum = 0;
        let count = group.changes.iter().take_while(|change| {
            sum += octets(change);
            sum <= most
        });
        let count = count.count().max(1);
        let part: Vec<_> = group.changes.iter().take(count).map(RecordChange::as_change).collect();
        journal.append(&part)?;
        group.changes.drain(..count);
    }
    Ok(())
}

/// The record of the node, if there is one.
///
/// # Errors
/// [`StoreError`].
pub fn read_node<F: Files>(journal: &mut Journal<F>) -> Result<Option<Vec<u8>>, StoreError> {
    let mut found = None;
    journal.visit(&[RecordKind::Node], &mut |_, value| found = Some(value.to_vec()))?;
    Ok(found)
}
