//! The thread of a standby: it follows the records of the active adit, and takes the lease when it
//! is free.

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use adit_shared_store::tail_thread::TailReport;
use adit_shared_store::{FollowProgress, FollowedChange, LeaseAnswer, SharedStoreFigures};
use adit_store::{GroupPosition, OwnedRecordId, RecordChange, RecordKind, RecordStore, StoreError};
use rustix::event::{EventfdFlags, eventfd};
use tracing::{info, warn};

use crate::record_store::any_store::{SharedStoreClient, log_losses};
use crate::record_store::named_standby::NamedStandby;
use crate::record_store::replication::{OwnTail, PairStore, recover_tail};

/// How long a server blocks before it answers with the remaining lease. It bounds how late a
/// standby sees that the lease is free.
const FOLLOW_WAIT: Duration = Duration::from_millis(20);

/// Pause between prolongations of the lease until the control thread requests the store.
const HOLD_PAUSE: Duration = Duration::from_millis(2);

/// Pause between attempts to reach a store.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Most records in one message to the control thread.
const RECORDS_PER_MESSAGE_MAX: usize = 256;

/// Most messages that wait for the control thread.
const WAITING_MESSAGES_MAX: usize = 16;

/// Messages to the control thread, in this order.
#[derive(Debug)]
pub(crate) enum StandbyMessage {
    /// All records follow. Known records that are not among them are gone.
    AllBegin,
    /// Changed records.
    Records(Vec<RecordChange>),
    /// All records have been sent.
    AllEnd,
    /// This process holds the lease and has forwarded everything that earlier holders wrote. The
    /// thread keeps the lease until [`StandbyLink::request_store`].
    Taken,
    /// The store, with the lease. The thread has ended.
    Store(Box<SharedStoreClient>),
    /// The records cannot be followed any more. The thread has ended.
    Lost(StoreError),
}

/// The shared store that the thread follows, and the tail of this process.
pub(crate) struct FollowedStore {
    pub client: SharedStoreClient,
    pub tail: Option<OwnTail>,
    pub pair: PairStore,
    /// True if acknowledged changes may be lost.
    pub accept_loss: bool,
}

/// State of the standby, for operators.
#[derive(Debug, Clone, Default)]
pub(crate) struct StandbyReport {
    pub figures: SharedStoreFigures,
    /// The last group that was forwarded.
    pub reached: GroupPosition,
    /// True if the standby has everything that the server had.
    pub is_caught_up: bool,
    /// Remaining time of the active adit's lease.
    pub lease_left: Option<Duration>,
    /// The groups that the active adit has replicated to this process.
    pub tail: Option<TailReport>,
    /// Why the store cannot be used now.
    pub failure: Option<String>,
    pub failures: u64,
}

#[derive(Debug)]
struct StandbyState {
    event: OwnedFd,
    is_stopping: AtomicBool,
    /// Set to request the lease from the active adit.
    wants_handover: AtomicBool,
    /// Set by the control thread to make this thread end and send it the store.
    wants_store: AtomicBool,
    report: Mutex<StandbyReport>,
}

/// The control thread's side of the thread of a standby.
#[derive(Debug)]
pub(crate) struct StandbyLink {
    /// `None` only while this is dropped.
    news: Option<Receiver<StandbyMessage>>,
    state: Arc<StandbyState>,
    thread: Option<JoinHandle<()>>,
}

impl StandbyLink {
    /// Starts the thread.
    ///
    /// # Errors
    /// The process is out of threads or file descriptors.
    pub(crate) fn start(store: FollowedStore) -> io::Result<Self> {
        let state = Arc::new(StandbyState {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_stopping: AtomicBool::new(false),
            wants_handover: AtomicBool::new(false),
            wants_store: AtomicBool::new(false),
            report: Mutex::default(),
        });
        let (sender, news) = sync_channel(WAITING_MESSAGES_MAX);
        let FollowedStore { client, tail, pair, accept_loss } = store;
        let named = NamedStandby::new(&pair.settings, accept_loss);
        let follower = StandbyFollower {
            state: Arc::clone(&state),
            news: sender,
            tail,
            pair,
            accept_loss,
            stage: LeaseStage::NotHeld,
            named,
        };
        let thread = std::thread::Builder::new().name("adit-standby".to_owned());
        let thread = thread.spawn(move || follower.run(client))?;
        Ok(Self { news: Some(news), state, thread: Some(thread) })
    }

    /// Returns the next message; `None` if there is none now.
    pub(crate) fn poll(&mut self) -> Option<StandbyMessage> {
        let polled = self.news.as_ref().map_or(Err(TryRecvError::Disconnected), Receiver::try_recv);
        polled.ok()
    }

    /// Requests the lease from the active adit.
    pub(crate) fn request_handover(&self) {
        self.state.wants_handover.store(true, Ordering::Relaxed);
    }

    /// Requests [`StandbyMessage::Store`], after [`StandbyMessage::Taken`].
    pub(crate) fn request_store(&self) {
        self.state.wants_store.store(true, Ordering::Relaxed);
    }

    /// Returns the latest report for operators.
    pub(crate) fn report(&self) -> StandbyReport {
        self.state.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Clears the event that woke the caller.
    pub(crate) fn take_wake_up(&self) {
        let _ = rustix::io::read(&self.state.event, &mut [0; 8]);
    }

    /// True if the thread has ended: by a fault, unless its last message says so.
    pub(crate) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Readable when messages have arrived.
impl AsFd for StandbyLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state.event.as_fd()
    }
}

/// Ends the thread.
impl Drop for StandbyLink {
    fn drop(&mut self) {
        self.state.is_stopping.store(true, Ordering::Relaxed);
        self.news = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Progress of this process in taking the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseStage {
    /// Another process holds the lease, or no process does.
    NotHeld,
    /// This process holds the lease; the store may lack groups that the tail has.
    Taken,
    /// This process holds the lease, and the store has all groups.
    Complete,
}

/// Result of a step: `Done` once this process has the lease and all records written before.
enum FollowStep {
    Again,
    Done,
}

/// Why the thread ends without handing the store over.
enum FollowError {
    /// The control thread receives no messages any more.
    Stopped,
    Store(StoreError),
}

impl From<StoreError> for FollowError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The state of the thread.
struct StandbyFollower {
    state: Arc<StandbyState>,
    news: SyncSender<StandbyMessage>,
    tail: Option<OwnTail>,
    pair: PairStore,
    accept_loss: bool,
    stage: LeaseStage,
    named: NamedStandby,
}

impl StandbyFollower {
    fn run(mut self, mut store: SharedStoreClient) {
        let taken = self.take_over(&mut store).and_then(|()| self.hold(&mut store));
        let last = match taken {
            Ok(()) => StandbyMessage::Store(Box::new(store)),
            Err(FollowError::Store(error)) => StandbyMessage::Lost(error),
            Err(FollowError::Stopped) => return,
        };
        let _ = self.send(last);
    }

    /// Keeps the lease until the store is requested: the followed records may need longer than the
    /// lease to take effect.
    fn hold(&self, store: &mut SharedStoreClient) -> Result<(), FollowError> {
        self.send(StandbyMessage::Taken)?;
        while !self.state.wants_store.load(Ordering::Relaxed) {
            self.check_stop()?;
            match store.maintain() {
                Ok(_) => {}
                Err(StoreError::Unavailable(why)) => self.note_failure(store, why),
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(HOLD_PAUSE);
        }
        Ok(())
    }

    /// Follows the store until this process has the lease and all records written before.
    fn take_over(&mut self, store: &mut SharedStoreClient) -> Result<(), FollowError> {
        if let Some(tail) = &self.tail {
            store.set_incarnation(tail.report().incarnation);
        }
        loop {
            self.check_stop()?;
            match self.step(store) {
                Ok(FollowStep::Done) => return Ok(()),
                Ok(FollowStep::Again) => {}
                Err(FollowError::Store(StoreError::Unavailable(why))) => {
                    if self.stage == LeaseStage::NotHeld {
                        self.may_take_over(Some(self.pair.settings.lease));
                    }
                    self.note_failure(store, why);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn check_stop(&self) -> Result<(), FollowError> {
        if self.state.is_stopping.load(Ordering::Relaxed) {
            return Err(FollowError::Stopped);
        }
        Ok(())
    }

    fn step(&mut self, store: &mut SharedStoreClient) -> Result<FollowStep, FollowError> {
        if self.state.wants_handover.swap(false, Ordering::Relaxed) {
            store.request_handover()?;
        }
        let limit = if self.stage == LeaseStage::NotHeld {
            FOLLOW_WAIT
        } else {
            self.keep_lease(store)?;
            Duration::ZERO
        };
        let progress = self.follow(store, limit)?;
        if let (Some(tail), Some(lease)) = (&self.tail, &progress.lease) {
            // The tail accepts no epoch from a sender: it comes from the store.
            tail.note_epoch(lease.epoch);
        }
        if let Some(tail) = self.tail.as_ref().filter(|_| progress.is_caught_up) {
            tail.drop_found(progress.reached);
        }
        self.note_progress(store, &progress);
        let left = progress.lease.as_ref().map(|lease| lease.left);
        match self.stage {
            LeaseStage::Complete if progress.is_caught_up => Ok(FollowStep::Done),
            LeaseStage::Complete | LeaseStage::Taken => Ok(FollowStep::Again),
            LeaseStage::NotHeld => {
                if self.may_take_over(left) && progress.is_caught_up && left.is_none() {
                    self.acquire(store)?;
                }
                Ok(FollowStep::Again)
            }
        }
    }

    /// Takes the lease if it is free and the store names no other standby.
    fn acquire(&mut self, store: &mut SharedStoreClient) -> Result<(), StoreError> {
        match store.acquire()? {
            LeaseAnswer::Taken { epoch } => {
                info!(epoch, "the lease of the records is taken");
                self.stage = LeaseStage::Taken;
                Ok(())
            }
            LeaseAnswer::Named(standby) => self.named.wait(store, standby),
            LeaseAnswer::Held(_) => Ok(()),
        }
    }

    /// True if this standby may take over. While the lease has time `left`, the tail promises the
    /// active adit that this standby does not take over within that time. When the lease has ended,
    /// the tail promises nothing more, and this standby may take over once all promises are over.
    fn may_take_over(&self, left: Option<Duration>) -> bool {
        let Some(tail) = &self.tail else { return true };
        match left {
            None => tail.withdraw_promise(),
            Some(left) => {
                let left = left.min(self.pair.settings.lease);
                tail.set_promise(u64::try_from(left.as_millis()).unwrap_or(0));
                true
            }
        }
    }

    /// Prolongs the lease, and writes the groups that only the tail has to the store: they are
    /// followed like all others.
    fn keep_lease(&mut self, store: &mut SharedStoreClient) -> Result<(), StoreError> {
        store.maintain()?;
        if self.stage == LeaseStage::Taken {
            if let Some(reached) = store.kept_through() {
                let last = store.figures().last;
                warn!(%reached, %last, "the store has less than this standby, which writes all records again");
            }
            recover_tail(store, self.tail.as_ref(), self.accept_loss)?;
            self.stage = LeaseStage::Complete;
        }
        Ok(())
    }

    /// Forwards changes of the store to the control thread.
    fn follow(
        &self,
        store: &mut SharedStoreClient,
        limit: Duration,
    ) -> Result<FollowProgress, FollowError> {
        let mut batch = Vec::new();
        let (mut is_reset, mut outcome) = (false, Ok(()));
        let mut send = |news| {
            if outcome.is_ok() {
                outcome = self.send(news);
            }
        };
        let known = |after, through| self.tail.as_ref()?.groups_between(after, through);
        let progress = store.follow(limit, &known, &mut |change| match change {
            FollowedChange::Reset => {
                send(StandbyMessage::Records(mem::take(&mut batch)));
                send(StandbyMessage::AllBegin);
                is_reset = true;
            }
            // The progress of this standby, which the active adit has stored.
            FollowedChange::Change(change) if change.key.kind == RecordKind::Standby => {}
            FollowedChange::Change(change) => {
                batch.push(RecordChange {
                    kind: change.key.kind,
                    name: OwnedRecordId::of(change.key.id),
                    value: change.value.map(<[u8]>::to_vec),
                });
                if batch.len() == RECORDS_PER_MESSAGE_MAX {
                    send(StandbyMessage::Records(mem::take(&mut batch)));
                }
            }
        });
        log_losses(store);
        send(StandbyMessage::Records(batch));
        if is_reset && progress.is_ok() {
            send(StandbyMessage::AllEnd);
        }
        outcome?;
        Ok(progress?)
    }

    fn send(&self, news: StandbyMessage) -> Result<(), FollowError> {
        if matches!(&news, StandbyMessage::Records(records) if records.is_empty()) {
            return Ok(());
        }
        let sent = self.news.send(news).map_err(|_| FollowError::Stopped);
        // If the counter is full, the write fails, but a wake-up is pending already.
        let _ = rustix::io::write(&self.state.event, &1_u64.to_ne_bytes());
        sent
    }

    fn note_progress(&self, store: &SharedStoreClient, progress: &FollowProgress) {
        let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
        if report.failure.take().is_some() {
            info!("the store can be used again");
        }
        report.figures = store.figures();
        report.reached = progress.reached;
        report.tail = self.tail.as_ref().map(OwnTail::report);
        report.is_caught_up = progress.is_caught_up;
        report.lease_left = progress.lease.as_ref().map(|lease| lease.left);
    }

    fn note_failure(&self, store: &SharedStoreClient, why: String) {
        {
            let mut report = self.state.report.lock().unwrap_or_else(PoisonError::into_inner);
            if report.failure.is_none() {
                warn!(why, "the store cannot be used: changes of the active adit are not followed");
            }
            report.figures = store.figures();
            report.is_caught_up = false;
            report.failures += 1;
            report.failure = Some(why);
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}
