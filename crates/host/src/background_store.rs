//! A store on a thread of its own, which its caller polls.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use adit_store::{
    AppendError, PolledRecordStore, RecordId, RecordKey, RecordKind, RecordNumber, RecordStore,
    StoreChange, StoreError, Upkeep, decode_changes, encode_change,
};
use adit_types::Nanos;
use adit_types::limits::{STORE_BACKLOG_BYTES_MAX, STORE_VALUE_BYTES_MAX};

use crate::store_thread::ThreadStore;

/// Pause between attempts to write to a store that fails.
const RETRY: Duration = Duration::from_millis(100);

/// How long the thread waits for groups that nobody waits for.
const LAG: Duration = Duration::from_millis(5);

/// A store whose groups are written by a thread of its own. The caller never waits for it, except in
/// [`RecordStore::commit`], [`RecordStore::visit`] and [`PolledRecordStore::wait`].
///
/// Each group becomes one group of the store, with the same number: the store numbers its groups without gaps.
pub struct BackgroundStore<S: ThreadStore> {
    state: Arc<BackgroundState<S>>,
    appended: RecordNumber,
    /// Groups that are not known to be durable, with their octets.
    pending: VecDeque<(RecordNumber, usize)>,
    pending_octets: usize,
    group_octets_max: usize,
    thread: Option<JoinHandle<()>>,
}

struct BackgroundState<S: ThreadStore> {
    store: Mutex<S>,
    queue: Mutex<GroupBacklog>,
    /// Wakes the thread.
    queued: Condvar,
    durable: AtomicU64,
    is_failing: AtomicBool,
    is_handover_requested: AtomicBool,
    progress: Mutex<WriteProgress<S::Figures>>,
    /// Wakes the caller.
    changed: Condvar,
}

/// Groups that the thread has not taken.
#[derive(Default)]
struct GroupBacklog {
    groups: VecDeque<(RecordNumber, Vec<u8>)>,
    is_ending: bool,
}

/// What the thread tells.
struct WriteProgress<G> {
    figures: G,
    failure: Option<String>,
    /// The holder of the lease that this process lost.
    fenced_by: Option<String>,
}

impl<S: ThreadStore + fmt::Debug> fmt::Debug for BackgroundStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let durable = self.state.durable.load(Ordering::Relaxed);
        f.debug_tuple("BackgroundStore").field(&(self.appended, durable)).finish_non_exhaustive()
    }
}

impl<S: ThreadStore> BackgroundStore<S> {
    /// Starts the thread of a store, all of whose groups are durable.
    ///
    /// # Errors
    /// The process is out of threads.
    pub fn start(store: S) -> io::Result<Self> {
        let appended = store.durable();
        let group_octets_max = store.group_octets_max();
        let progress = WriteProgress { figures: store.figures(), failure: None, fenced_by: None };
        let state = Arc::new(BackgroundState {
            store: Mutex::new(store),
            queue: Mutex::default(),
            queued: Condvar::new(),
            durable: AtomicU64::new(appended.0),
            is_failing: AtomicBool::new(false),
            is_handover_requested: AtomicBool::new(false),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
        });
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("adit-store-write".to_owned())
            .spawn(move || shared.run())?;
        let pending = VecDeque::new();
        let thread = Some(thread);
        Ok(Self { state, appended, pending, pending_octets: 0, group_octets_max, thread })
    }

    /// Figures of the store after its last write.
    #[must_use]
    pub fn figures(&self) -> S::Figures {
        lock(&self.state.progress).figures.clone()
    }

    /// True if another process wants to go on with the records.
    #[must_use]
    pub fn is_handover_requested(&self) -> bool {
        self.state.is_handover_requested.load(Ordering::Relaxed)
    }

    /// Ends the thread and closes the store. Groups that are not durable are lost.
    pub fn close(&mut self) {
        self.end();
        lock(&self.state.store).close();
    }

    fn end(&mut self) {
        lock(&self.state.queue).is_ending = true;
        self.state.queued.notify_all();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<S: ThreadStore> Drop for BackgroundStore<S> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<S: ThreadStore> RecordStore for BackgroundStore<S> {
    fn group_octets_max(&self) -> usize {
        self.group_octets_max
    }

    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError> {
        let is_sound = |change: &StoreChange<'_>| {
            let has_id =
                !matches!(change.key.id, RecordId::Octets(id) if id.is_empty() || id.len() > 255);
            has_id && change.value.is_none_or(|value| value.len() <= STORE_VALUE_BYTES_MAX)
        };
        if !changes.iter().all(is_sound) {
            return Err(AppendError::Record);
        }
        let counted = changes.iter().map(|change| change.value.map_or(0, <[u8]>::len) + 300);
        if changes.is_empty() || counted.sum::<usize>() > self.group_octets_max {
            return Err(AppendError::Group);
        }
        if self.pending_octets >= STORE_BACKLOG_BYTES_MAX {
            return Err(AppendError::Backlog);
        }
        let mut octets = Vec::new();
        changes.iter().for_each(|change| encode_change(&mut octets, change));
        self.appended.0 += 1;
        self.pending_octets += octets.len();
        self.pending.push_back((self.appended, octets.len()));
        // The thread looks by itself, or is woken by whoever waits for it.
        lock(&self.state.queue).groups.push_back((self.appended, octets));
        Ok(self.appended)
    }

    fn commit(&mut self) -> Result<RecordNumber, StoreError> {
        loop {
            self.note_progress()?;
            if self.durable() >= self.appended {
                return Ok(self.appended);
            }
            PolledRecordStore::wait(self, RETRY);
        }
    }

    fn durable(&self) -> RecordNumber {
        RecordNumber(self.state.durable.load(Ordering::Acquire))
    }

    /// Drops nothing: the thread may be writing it.
    fn withdraw(&mut self) -> usize {
        0
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        self.note_progress()?;
        let is_behind = self.durable() < self.appended;
        Ok(if is_behind { Upkeep::Waiting } else { Upkeep::Idle })
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        lock(&self.state.store).visit(kinds, visitor)
    }
}

impl<S: ThreadStore> PolledRecordStore for BackgroundStore<S> {
    fn poll(&mut self, _now: Nanos) -> Result<(), StoreError> {
        self.note_progress()
    }

    fn wait(&mut self, limit: Duration) {
        self.state.queued.notify_all();
        let progress = lock(&self.state.progress);
        if self.durable() < self.appended {
            drop(wait(&self.state.changed, progress, limit));
        }
    }
}

impl<S: ThreadStore> BackgroundStore<S> {
    fn note_progress(&mut self) -> Result<(), StoreError> {
        let durable = self.durable();
        while let Some((_, octets)) = self.pending.pop_front_if(|(number, _)| *number <= durable) {
            self.pending_octets -= octets;
        }
        if !self.state.is_failing.load(Ordering::Acquire) {
            return Ok(());
        }
        let progress = lock(&self.state.progress);
        match (&progress.fenced_by, &progress.failure) {
            (Some(holder), _) => Err(StoreError::Fenced { holder: holder.clone() }),
            (None, Some(why)) => Err(StoreError::Unavailable(why.clone())),
            (None, None) => Ok(()),
        }
    }
}

impl<S: ThreadStore> BackgroundState<S> {
    fn run(&self) {
        let mut waiting = VecDeque::new();
        let mut appended = RecordNumber(self.durable.load(Ordering::Relaxed));
        loop {
            let Some(new) = self.next_groups(waiting.is_empty()) else { return };
            waiting.extend(new);
            let mut store = lock(&self.store);
            let written = write(&mut *store, &mut waiting, &mut appended);
            let kept = written.and_then(|()| store.maintain().map_err(WriteFault::Store));
            let fault = kept.err();
            // A group with another number than its caller knows says nothing about the caller's groups.
            let durable = store.durable().min(appended);
            let is_requested = store.is_handover_requested();
            self.is_handover_requested.store(is_requested, Ordering::Relaxed);
            self.note(durable, store.figures(), fault.as_ref());
            drop(store);
            match fault {
                None => {}
                Some(WriteFault::Number { .. } | WriteFault::Store(StoreError::Fenced { .. })) => {
                    return;
                }
                Some(WriteFault::Store(_)) => self.pause(),
            }
        }
    }

    /// Takes what was appended, and waits for a while if there is nothing to do; `None` at the end.
    fn next_groups(&self, is_idle: bool) -> Option<VecDeque<(RecordNumber, Vec<u8>)>> {
        let mut queue = lock(&self.queue);
        if is_idle && queue.groups.is_empty() && !queue.is_ending {
            queue = wait(&self.queued, queue, LAG);
        }
        (!queue.is_ending).then(|| std::mem::take(&mut queue.groups))
    }

    fn pause(&self) {
        let queue = lock(&self.queue);
        if !queue.is_ending {
            drop(wait(&self.queued, queue, RETRY));
        }
    }

    fn note(&self, durable: RecordNumber, figures: S::Figures, fault: Option<&WriteFault>) {
        let mut progress = lock(&self.progress);
        progress.figures = figures;
        progress.failure = fault.map(ToString::to_string);
        if let Some(WriteFault::Store(StoreError::Fenced { holder })) = fault {
            progress.fenced_by = Some(holder.clone());
        }
        self.durable.store(durable.0, Ordering::Release);
        self.is_failing.store(fault.is_some(), Ordering::Release);
        drop(progress);
        self.changed.notify_all();
    }
}

/// Why groups are not written.
enum WriteFault {
    Store(StoreError),
    /// The store gave a group another number.
    Number {
        given: RecordNumber,
        expected: RecordNumber,
    },
}

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Number { given, expected } => {
                write!(f, "the store gave group {} the number {}", expected.0, given.0)
            }
        }
    }
}

/// Appends what waits, and makes it durable.
fn write(
    store: &mut impl RecordStore,
    waiting: &mut VecDeque<(RecordNumber, Vec<u8>)>,
    appended: &mut RecordNumber,
) -> Result<(), WriteFault> {
    let mut refused = None;
    while let Some((number, octets)) = waiting.front() {
        let changes: Vec<_> = decode_changes(octets).flatten().collect();
        match store.append(&changes) {
            Ok(given) if given == *number => *appended = given,
            Ok(given) => return Err(WriteFault::Number { given, expected: *number }),
            Err(error) => {
                refused = Some(WriteFault::Store(StoreError::Full(error)));
                break;
            }
        }
        waiting.pop_front();
    }
    if *appended > store.durable() {
        store.commit().map_err(WriteFault::Store)?;
    }
    refused.map_or(Ok(()), Err)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Duration,
) -> MutexGuard<'a, T> {
    let waited = condition.wait_timeout(guard, limit);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
