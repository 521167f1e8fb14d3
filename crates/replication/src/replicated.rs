//! The shared store and the standby as one store.

use std::fmt;
use std::time::Duration;

use adit_store::{
    AppendError, RecordKey, RecordKind, RecordNumber, RecordStore, StoreChange, StoreError, Upkeep,
};
use adit_transport::Transport;
use adit_types::Nanos;
use adit_types::limits::STORE_GROUP_BYTES_MAX;

use crate::client::{ReplicationClient, encode_group};
use crate::group::{Incarnation, ReplicatedGroup};

/// The record that names the standby.
const MARK: RecordKey<'static> = RecordKey::number(RecordKind::Standby, 0);

/// Pause between two looks at the store while the standby's word suffices.
const STORE_INTERVAL: Nanos = Nanos::from_millis(1);

/// Longest pause in a commit between two looks at the store and the standby.
const PAUSE: Duration = Duration::from_millis(1);

/// How a replicated store works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicatedStoreOptions {
    /// How long a commit waits.
    pub patience: Nanos,
    /// The transport to the standby polls, so its user may, too.
    pub polls: bool,
}

/// A shared store whose groups go to a standby as well.
///
/// A group is durable by the word of the standby or of the shared store, whichever has it first. The shared store says which
/// incarnation of the standby may be ahead of it, before the first group is durable by the standby's word alone. While the
/// standby is away, the store's word counts.
pub struct ReplicatedStore<S, T, C> {
    store: S,
    client: ReplicationClient<T>,
    options: ReplicatedStoreOptions,
    clock: C,
    appended: RecordNumber,
    durable: RecordNumber,
    /// The standby that the store names once it has all groups, and the group that says so.
    marked: Option<Incarnation>,
    marked_in: RecordNumber,
    /// What keeps the store from making groups durable.
    failure: Option<String>,
    fenced_by: Option<String>,
    /// Only the store's word counts from now on.
    is_finishing: bool,
    /// How often the store has begun anew.
    losses: u64,
    /// The store is looked at again at this time, while the standby's word suffices.
    store_due: Nanos,
}

impl<S: fmt::Debug, T, C> fmt::Debug for ReplicatedStore<S, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.store, &self.client, self.durable, self.marked);
        f.debug_tuple("ReplicatedStore").field(&all).finish_non_exhaustive()
    }
}

impl<S: RecordStore, T: Transport, C: FnMut() -> Nanos> ReplicatedStore<S, T, C> {
    /// Joins a store, all of whose groups are durable and which names no standby, and a client for the groups behind them. A
    /// commit reads `clock`.
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
            appended: durable,
            durable,
            marked: None,
            marked_in: durable,
            failure: None,
            fenced_by: None,
            is_finishing: false,
            losses: 0,
            store_due: Nanos(0),
        }
    }

    /// Sends, receives, and notes what has become durable, without waiting.
    ///
    /// # Errors
    /// [`StoreError::Fenced`]: nothing becomes durable any more.
    pub fn poll(&mut self, now: Nanos) -> Result<(), StoreError> {
        self.check_lease()?;
        // The store does not delay what the standby answers within microseconds.
        if !self.standby_is_enough() || now >= self.store_due {
            self.store_due = now + STORE_INTERVAL;
            match self.store.poll(now) {
                Ok(()) => self.failure = None,
                Err(StoreError::Fenced { holder }) => return Err(self.fence(holder)),
                Err(StoreError::Unavailable(why)) => self.failure = Some(why),
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
        if self.store.losses() != self.losses {
            // The store says nothing about the standby any more.
            (self.losses, self.marked) = (self.store.losses(), None);
        }
        let shared = self.store.durable();
        self.client.set_shared(shared);
        self.client.poll(now);
        self.mark();
        let standby = self.standby_is_enough().then(|| self.client.progress()).flatten();
        let reached = standby.map_or(shared, |standby| standby.last.max(shared));
        self.durable = self.durable.max(reached);
        Ok(())
    }

    /// The client.
    #[must_use]
    pub const fn client(&self) -> &ReplicationClient<T> {
        &self.client
    }

    /// The shared store.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The shared store, for what concerns only itself.
    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// The options.
    #[must_use]
    pub const fn options(&self) -> ReplicatedStoreOptions {
        self.options
    }

    /// What keeps the shared store from making groups durable.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// True while the standby's word makes a group durable.
    #[must_use]
    pub fn standby_is_enough(&self) -> bool {
        let standby = self.client.progress().map(|progress| progress.incarnation);
        !self.is_finishing
            && standby.is_some()
            && standby == self.marked
            && self.store.durable() >= self.marked_in
    }

    /// How long the standby does not take over, as it said itself.
    pub fn promised_for(&mut self) -> Nanos {
        let now = (self.clock)();
        self.client.promised_until().since(now)
    }

    /// Gives the shared store all groups, and has it forget the standby, so that the next process needs no tail. Waits for at
    /// most the patience.
    ///
    /// # Errors
    /// The store does not have everything.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        self.is_finishing = true;
        // This appends the change of the mark.
        let now = (self.clock)();
        self.poll(now)?;
        self.wait_until(|this| this.marked.is_none() && this.store.durable() >= this.appended)
    }

    /// Polls until `is_done`.
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

    /// Changes what the shared store says about the standby. Without room it is tried again.
    fn mark(&mut self) {
        let standby = self.client.progress().filter(|_| !self.is_finishing);
        let wanted = standby.map(|progress| progress.incarnation);
        if wanted == self.marked {
            return;
        }
        let value = wanted.map(|incarnation| incarnation.0.to_be_bytes());
        let value = value.as_ref().map(|octets| octets.as_slice());
        if let Ok(number) = self.append(&[StoreChange { key: MARK, value }]) {
            (self.marked, self.marked_in) = (wanted, number);
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
            self.client.wait(PAUSE);
        } else {
            self.store.wait(PAUSE);
        }
    }
}

impl<S: RecordStore, T: Transport, C: FnMut() -> Nanos> RecordStore for ReplicatedStore<S, T, C> {
    fn group_octets_max(&self) -> usize {
        self.store.group_octets_max().min(STORE_GROUP_BYTES_MAX)
    }

    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError> {
        let octets = encode_group(changes)?;
        if !self.client.has_room(octets.len()) {
            return Err(AppendError::Backlog);
        }
        let number = self.store.append(changes)?;
        self.client.push(number, octets);
        self.appended = number;
        Ok(number)
    }

    fn commit(&mut self) -> Result<RecordNumber, StoreError> {
        let appended = self.appended;
        self.wait_until(|this| this.durable >= appended)?;
        Ok(self.durable)
    }

    fn durable(&self) -> RecordNumber {
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
        let is_behind = self.store.durable() < self.appended || self.client.is_waiting();
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

/// Where the groups are that a shared store may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailSource {
    /// Nowhere: the store has every group that was acknowledged.
    Unneeded,
    /// In the tail of the process that takes the records over.
    Own,
    /// In the tail of this incarnation of the other adit, which [`crate::TailRequest`] reads.
    Peer(Incarnation),
}

impl TailSource {
    /// What follows from the result of [`marked_standby`], for a process whose own tail, if it has one, is that of `own`.
    #[must_use]
    pub fn of(marked: Option<Incarnation>, own: Option<Incarnation>) -> Self {
        match marked {
            None => Self::Unneeded,
            Some(marked) if Some(marked) == own => Self::Own,
            Some(marked) => Self::Peer(marked),
        }
    }
}

/// The standby that may have had groups acknowledged which the store lacks.
///
/// # Errors
/// The store cannot be read.
pub fn marked_standby(store: &mut impl RecordStore) -> Result<Option<Incarnation>, StoreError> {
    let mut found = None;
    store.visit(&[RecordKind::Standby], &mut |_, value| {
        // What cannot be read names a standby that does not exist, so that its absence is noticed.
        let octets = value.try_into().unwrap_or([0; 8]);
        found = Some(Incarnation(u64::from_be_bytes(octets)));
    })?;
    Ok(found)
}

/// Writes a tail to the store of whoever has taken the records over, or nothing if the tail is lost. Then the store names no
/// standby any more: until that is durable, the tail is needed again, and the store names its standby. So what the groups say
/// about standbys is not written.
///
/// # Errors
/// The store does not have all of it. The caller may write the same tail again.
pub fn write_tail(
    store: &mut impl RecordStore,
    groups: &[ReplicatedGroup],
) -> Result<(), StoreError> {
    for group in groups {
        let changes = group.changes().flatten().filter(|change| change.key != MARK);
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            append_or_commit(store, &changes)?;
        }
    }
    append_or_commit(store, &[StoreChange::remove(MARK)])?;
    store.commit().map(|_| ())
}

/// Appends a group, after a commit if there is no room before.
fn append_or_commit(
    store: &mut impl RecordStore,
    changes: &[StoreChange<'_>],
) -> Result<(), StoreError> {
    let mut appended = store.append(changes);
    if appended == Err(AppendError::Backlog) {
        store.commit()?;
        appended = store.append(changes);
    }
    appended.map(|_| ()).map_err(|error| StoreError::Unavailable(error.to_string()))
}
