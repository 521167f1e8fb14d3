//! Joins the shared store and the standby into one store.

use std::fmt;
use std::time::Duration;

use adit_store::{
    AppendError, GroupNumber, GroupQueue, QueuedGroup, RecordKey, RecordKind, RecordStore,
    StoreChange, StoreError, Upkeep,
};
use adit_transport::Transport;
use adit_types::Nanos;

use crate::replication::client::ReplicationClient;

/// Pause between two polls of the shared store while groups are durable as soon as the standby has
/// acknowledged them.
const STORE_POLL_INTERVAL: Nanos = Nanos::from_millis(1);

/// Longest pause of a commit before it polls the store and the standby again.
const COMMIT_POLL_PAUSE_MAX: Duration = Duration::from_millis(1);

/// Options of a replicated store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicatedStoreOptions {
    /// How long a commit waits, at most.
    pub patience: Nanos,
    /// Maximum of octets of groups that the shared store may lack.
    pub lacking_octets_max: usize,
    /// True if the transport to the standby polls, so that its user may as well poll.
    pub polls: bool,
}

/// A shared store whose groups go to a standby as well.
///
/// A group is durable once the standby or the shared store has acknowledged it. Before the
/// acknowledgment of the standby alone suffices, the shared store names the standby's incarnation,
/// since this standby may then have groups that the store lacks. Without a connection to the
/// standby, the store's acknowledgment decides.
pub struct ReplicatedStore<S, T, C> {
    store: S,
    client: ReplicationClient<T>,
    options: ReplicatedStoreOptions,
    clock: C,
    durable: GroupNumber,
    /// The reason why the shared store makes no groups durable.
    failure: Option<String>,
    fenced_by: Option<String>,
    /// True if only the shared store's acknowledgment counts from now on.
    is_finishing: bool,
    /// When the shared store is polled next, while the standby's acknowledgment suffices.
    store_due: Nanos,
}

impl<S: fmt::Debug, T, C> fmt::Debug for ReplicatedStore<S, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.store, &self.client, self.durable);
        f.debug_tuple("ReplicatedStore").field(&all).finish_non_exhaustive()
    }
}

impl<S: RecordStore, T: Transport, C: FnMut() -> Nanos> ReplicatedStore<S, T, C> {
    /// Joins a store, which names no standby yet, and a client. `clock` returns the time for
    /// commits.
    #[must_use]
    pub fn new(
        store: S,
        client: ReplicationClient<T>,
        options: ReplicatedStoreOptions,
        clock: C,
    ) -> Self {
        let durable = store.durable();
        Self {
            store,
            client,
            options,
            clock,
            durable,
            failure: None,
            fenced_by: None,
            is_finishing: false,
            store_due: Nanos(0),
        }
    }

    /// Sends and receives without waiting, and notes which groups have become durable.
    ///
    /// # Errors
    /// [`StoreError::Fenced`]: no further group becomes durable.
    pub fn poll(&mut self, now: Nanos) -> Result<(), StoreError> {
        self.check_lease()?;
        // The store is polled less often, so as not to delay the standby's replies, which take
        // microseconds.
        if !self.standby_is_enough() || now >= self.store_due {
            self.store_due = now + STORE_POLL_INTERVAL;
            match self.store.poll(now) {
                Ok(()) => self.failure = None,
                Err(StoreError::Fenced { holder }) => return Err(self.fence(holder)),
                Err(StoreError::Unavailable(why)) => self.failure = Some(why),
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
        self.client.poll(now, self.store.groups());
        let standby = self.client.progress().filter(|_| !self.is_finishing);
        // The name stays while only the standby has some durable groups: the next holder then asks
        // that standby for them.
        if self.store.durable() >= self.durable {
            self.store.set_standby(standby.map(|progress| progress.incarnation));
        }
        let standby = standby.filter(|_| self.standby_is_enough());
        let reached = standby.map_or(GroupNumber(0), |standby| standby.last);
        self.durable = self.durable.max(reached).max(self.store.durable());
        Ok(())
    }

    /// Returns the client of the standby.
    #[must_use]
    pub const fn client(&self) -> &ReplicationClient<T> {
        &self.client
    }

    /// Returns the shared store.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Returns the shared store, for calls that concern only the store itself.
    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Returns the options.
    #[must_use]
    pub const fn options(&self) -> ReplicatedStoreOptions {
        self.options
    }

    /// Returns the reason why the shared store makes no groups durable; `None` if it works.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// True while the standby's acknowledgment suffices to make a group durable.
    #[must_use]
    pub fn standby_is_enough(&self) -> bool {
        let standby = self.client.progress().map(|progress| progress.incarnation);
        !self.is_finishing && standby.is_some() && standby == self.store.standby()
    }

    /// Returns for how long the standby has promised not to take over.
    pub fn remaining_promise(&mut self) -> Nanos {
        let now = (self.clock)();
        self.client.promised_until().since(now)
    }

    /// Writes all groups to the shared store and removes the standby's name from it, so that the
    /// next process needs no tail. Waits at most for `patience`.
    ///
    /// # Errors
    /// The store does not have all groups, or still names the standby.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        self.is_finishing = true;
        self.wait_until(|this| !this.store.groups().is_waiting())?;
        // An earlier change of the name may be under way; this one replaces it.
        self.store.set_standby(None);
        self.store.commit().map(|_| ())
    }

    /// Polls until `is_done` is true.
    fn wait_until(&mut self, is_done: impl Fn(&Self) -> bool) -> Result<(), StoreError> {
        let deadline = (self.clock)() + self.options.patience;
        loop {
            let now = (self.clock)();
            self.poll(now)?;
            if is_done(self) {
                return Ok(());
            }
            let is_hopeless = self.failure.is_some() && !self.standby_is_enough();
            if is_hopeless || now >= deadline {
                let why = self.failure.clone();
                let why = why.unwrap_or_else(|| "neither it nor the standby answers".to_owned());
                return Err(StoreError::Unavailable(why));
            }
            self.wait();
        }
    }

    fn fence(&mut self, holder: String) -> StoreError {
        self.fenced_by = Some(holder.clone());
        StoreError::Fenced { holder }
    }

    fn check_lease(&self) -> Result<(), StoreError> {
        match &self.fenced_by {
            Some(holder) => Err(StoreError::Fenced { holder: holder.clone() }),
            None => Ok(()),
        }
    }

    fn wait(&mut self) {
        if self.standby_is_enough() {
            self.client.wait(COMMIT_POLL_PAUSE_MAX);
        } else {
            self.store.wait(COMMIT_POLL_PAUSE_MAX);
        }
    }
}

impl<S: RecordStore, T: Transport, C: FnMut() -> Nanos> RecordStore for ReplicatedStore<S, T, C> {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError> {
        match self.store.groups().waiting_octets() < self.options.lacking_octets_max {
            true => self.store.append(changes),
            false => Err(AppendError::Backlog),
        }
    }

    fn commit(&mut self) -> Result<GroupNumber, StoreError> {
        let appended = self.store.groups().last();
        self.wait_until(|this| this.durable >= appended)?;
        Ok(self.durable)
    }

    fn groups(&self) -> &GroupQueue {
        self.store.groups()
    }

    fn durable(&self) -> GroupNumber {
        self.durable
    }

    fn is_full(&self) -> bool {
        self.store.is_full()
    }

    fn losses(&self) -> u64 {
        self.store.losses()
    }

    fn set_complete(&mut self) {
        self.store.set_complete();
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        let now = (self.clock)();
        self.poll(now)?;
        let is_behind = self.store.groups().is_waiting() || self.client.is_waiting();
        Ok(if is_behind { Upkeep::Waiting } else { Upkeep::Idle })
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        self.store.visit(kinds, visitor)
    }
}

/// Writes a tail to the store of the new holder, and then removes the name of the standby. `groups`
/// is empty if the tail is lost. If the holder dies before the removal is durable, the next holder
/// reads the tail again.
///
/// # Errors
/// The store does not have all groups. The caller may write the same tail again.
pub fn write_tail(store: &mut impl RecordStore, groups: &[QueuedGroup]) -> Result<(), StoreError> {
    for group in groups {
        let changes: Vec<_> = group.changes().flatten().collect();
        let mut appended = store.append(&changes);
        if appended == Err(AppendError::Backlog) {
            store.commit()?;
            appended = store.append(&changes);
        }
        appended.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    }
    store.commit()?;
    store.set_standby(None);
    store.commit().map(|_| ())
}
