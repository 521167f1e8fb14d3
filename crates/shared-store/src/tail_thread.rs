//! The thread of a standby that keeps the tail for the active adit.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::replication::{ReplicationServer, ReplicationServerCounters, TailError};
use adit_store::{GroupNumber, GroupPosition, Incarnation, QueuedGroup};
use adit_transport::Transport;
use adit_types::Nanos;

/// How long a thread that does not poll waits for octets.
const OCTETS_WAIT_MAX: Duration = Duration::from_millis(10);

/// How many turns of a polling thread pass before it checks for requests of its owner.
const TURNS_PER_REQUEST_CHECK: u32 = 64;

/// The state of the tail, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailReport {
    /// The incarnation of this standby, by which the active adit identifies its tail.
    pub incarnation: Incarnation,
    /// The newest epoch that the shared store has shown.
    pub epoch: u64,
    /// True while an active adit is connected.
    pub has_active: bool,
    /// The last group that this process has found in the shared store.
    pub base: GroupNumber,
    /// The last group of the tail.
    pub last: GroupNumber,
    /// How many groups the tail has.
    pub groups: usize,
    /// Counters of the server.
    pub counters: ReplicationServerCounters,
}

#[derive(Debug)]
struct TailState<T> {
    server: Mutex<ReplicationServer<T>>,
    is_ending: AtomicBool,
    /// True while the owner waits for access to the server.
    is_wanted: AtomicBool,
    /// When the last turn of the thread began.
    turned_at: AtomicU64,
}

/// The owner's side of the thread; dropping it ends the thread.
#[derive(Debug)]
pub struct TailThread<T> {
    state: Arc<TailState<T>>,
    thread: Option<JoinHandle<()>>,
    /// The newest epoch that the owner has noted.
    noted_epoch: AtomicU64,
}

impl<T: Transport + Send + 'static> TailThread<T> {
    /// Starts the thread. `polls`: true if the server's transport polls; `now`: returns the time.
    ///
    /// # Errors
    /// The process is out of threads.
    pub fn start(
        server: ReplicationServer<T>,
        polls: bool,
        now: impl FnMut() -> Nanos + Send + 'static,
    ) -> io::Result<Self> {
        let state = Arc::new(TailState {
            server: Mutex::new(server),
            is_ending: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            turned_at: AtomicU64::new(0),
        });
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("adit-tail".to_owned())
            .spawn(move || shared.run(polls, now))?;
        Ok(Self { state, thread: Some(thread), noted_epoch: AtomicU64::new(0) })
    }

    /// Returns the report for operators.
    #[must_use]
    pub fn report(&self) -> TailReport {
        self.with_server(|server| {
            let tail = server.tail();
            TailReport {
                incarnation: tail.incarnation(),
                epoch: tail.epoch(),
                has_active: server.has_active(),
                base: tail.base(),
                last: tail.last(),
                groups: tail.len(),
                counters: server.counters(),
            }
        })
    }

    /// Notes an epoch that the shared store shows; see
    /// [`crate::replication::ReplicationTail::note_epoch`].
    pub fn note_epoch(&self, epoch: u64) {
        if self.noted_epoch.fetch_max(epoch, Ordering::Relaxed) < epoch {
            self.with_server(|server| server.tail_mut().note_epoch(epoch));
        }
    }

    /// Refuses further groups; see [`crate::replication::ReplicationTail::fence`].
    pub fn fence(&self, epoch: u64) {
        self.with_server(|server| server.tail_mut().fence(epoch));
    }

    /// Returns the groups that the shared store lacks. Call [`TailThread::fence`] before.
    ///
    /// # Errors
    /// As for [`crate::replication::ReplicationTail::groups_after`].
    pub fn groups_after(&self, store: GroupPosition) -> Result<Vec<QueuedGroup>, TailError> {
        self.with_server(|server| {
            server.tail().groups_after(store).map(|groups| groups.cloned().collect())
        })
    }

    /// Returns the groups after `after` up to `through`, if the tail has all of them; see
    /// [`crate::replication::ReplicationTail::groups_between`].
    #[must_use]
    pub fn groups_between(
        &self,
        after: GroupPosition,
        through: GroupPosition,
    ) -> Option<Vec<QueuedGroup>> {
        self.with_server(|server| {
            let groups = server.tail().groups_between(after, through);
            groups.map(|groups| groups.cloned().collect())
        })
    }

    /// Drops the groups that were found in the shared store; see
    /// [`crate::replication::ReplicationTail::drop_found`].
    pub fn drop_found(&self, through: GroupPosition) {
        self.with_server(|server| server.tail_mut().drop_found(through));
    }

    /// Promises the active adit that this standby does not take over for `ms` milliseconds after
    /// each reply to a `PING`.
    pub fn set_promise(&self, ms: u64) {
        self.with_server(|server| server.tail_mut().set_promise(ms));
    }

    /// Makes no further promises. True once all earlier promises are over.
    #[must_use]
    pub fn withdraw_promise(&self) -> bool {
        let promised_until = self.with_server(|server| {
            server.tail_mut().set_promise(0);
            server.promised_until()
        });
        // The last turn's time is not after the present, so this errs on the safe side.
        Nanos(self.state.turned_at.load(Ordering::Relaxed)) >= promised_until
    }

    /// Ends the thread.
    pub fn end(&mut self) {
        self.state.is_ending.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }

    /// Runs `act` between two turns of the thread.
    fn with_server<R>(&self, act: impl FnOnce(&mut ReplicationServer<T>) -> R) -> R {
        self.state.is_wanted.store(true, Ordering::Relaxed);
        let mut server = self.state.server.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.is_wanted.store(false, Ordering::Relaxed);
        act(&mut server)
    }
}

impl<T> Drop for TailThread<T> {
    fn drop(&mut self) {
        self.state.is_ending.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<T: Transport> TailState<T> {
    fn run(&self, polls: bool, mut now: impl FnMut() -> Nanos) {
        while !self.is_ending.load(Ordering::Relaxed) {
            while self.is_wanted.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
            if polls {
                let mut has_input = false;
                for _ in 0..TURNS_PER_REQUEST_CHECK {
                    has_input |= self.turn(&mut server, &mut now);
                }
                drop(server);
                if !has_input {
                    std::thread::yield_now();
                }
            } else {
                server.wait(OCTETS_WAIT_MAX);
                self.turn(&mut server, &mut now);
            }
        }
    }

    fn turn(&self, server: &mut ReplicationServer<T>, now: &mut impl FnMut() -> Nanos) -> bool {
        let at = now();
        self.turned_at.store(at.0, Ordering::Relaxed);
        let has_input = server.poll(at);
        server.note_promises(now);
        has_input
    }
}
