//! The contract of a store.

use core::time::Duration;

use adit_types::Nanos;

use crate::error::{AppendError, StoreError};
use crate::groups::GroupQueue;
use crate::record::{Incarnation, RecordKey, RecordKind, RecordNumber, StoreChange, Upkeep};

/// Where records are kept.
///
/// A node hands out its changes in groups, each durable as a whole, and answers a request once
/// [`RecordStore::durable`] has reached the group's number. The groups stand in one queue,
/// [`RecordStore::groups`], under one number each. The calls that take time,
/// [`RecordStore::commit`], [`RecordStore::maintain`] and [`RecordStore::visit`], belong on a
/// thread of their own.
pub trait RecordStore {
    /// Appends a group to the queue. It is not durable before a commit. A refused group has changed
    /// nothing.
    ///
    /// # Errors
    /// [`AppendError`]: the queue has no room now, or the group can never become durable.
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError>;

    /// Makes all appended groups durable, and the last change by [`RecordStore::set_standby`].
    /// Returns the number of the last group.
    ///
    /// # Errors
    /// The store cannot make them durable now. Those up to [`RecordStore::durable`] are; the others
    /// stay appended, and the next commit tries again.
    fn commit(&mut self) -> Result<RecordNumber, StoreError>;

    /// The groups that are not durable in this store, and those before them that it may need again.
    fn groups(&self) -> &GroupQueue;

    /// The last durable group.
    fn durable(&self) -> RecordNumber {
        self.groups().durable()
    }

    /// True if the remaining space is a reserve; see [`StoreState::Full`]. A store says so while
    /// everything that may be under way still fits.
    fn is_full(&self) -> bool {
        false
    }

    /// True while the store has records that it cannot read. They also stay in memory as long as
    /// the process lives.
    fn is_damaged(&self) -> bool {
        false
    }

    /// How often the store has lost records, all or some. The owner of the records appends all of
    /// them after each time, and then calls [`RecordStore::set_complete`].
    fn losses(&self) -> u64 {
        0
    }

    /// The caller has appended all that the store lost again.
    fn set_complete(&mut self) {}

    /// Has the store name the standby whose word makes groups durable, or none, with one of the
    /// next polls or commits.
    fn set_standby(&mut self, standby: Option<Incarnation>) {
        let _ = standby;
    }

    /// The standby that the store names, durably. `None` while another name may be on its way.
    fn standby(&self) -> Option<Incarnation> {
        None
    }

    /// Does a bounded part of the work that keeps commits short and the store small.
    ///
    /// # Errors
    /// The part was not done. Nothing is lost; the caller tries again later.
    fn maintain(&mut self) -> Result<Upkeep, StoreError>;

    /// Calls `visitor` with each durable record of these kinds and its value, in no particular
    /// order.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError>;

    /// Makes groups durable as far as that is possible without waiting for another host. A store
    /// that has no need to wait commits.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses. It tries again by itself. After
    /// [`StoreError::Fenced`] there is nothing to try: no group becomes durable any more.
    fn poll(&mut self, now: Nanos) -> Result<(), StoreError> {
        let _ = now;
        self.commit().map(|_| ())
    }

    /// Blocks until [`RecordStore::poll`] may have something to do, for at most `limit`.
    fn wait(&mut self, limit: Duration) {
        let _ = limit;
    }
}
