//! The contract of a record store.

use core::time::Duration;

use adit_types::Nanos;

use crate::error::{AppendError, StoreError};
use crate::groups::GroupQueue;
use crate::record::{GroupNumber, Incarnation, RecordKey, RecordKind, StoreChange, Upkeep};

/// A store of records.
///
/// A node appends its changes in groups, each durable as a whole, and answers a request once
/// [`RecordStore::durable`] has reached the number of the request's group. All groups stand in one
/// queue, [`RecordStore::groups`]. The calls that take time, [`RecordStore::commit`],
/// [`RecordStore::maintain`] and [`RecordStore::visit`], belong on a thread of their own.
pub trait RecordStore {
    /// Appends a group to the queue. A later commit makes it durable. A refused group has changed
    /// nothing.
    ///
    /// # Errors
    /// [`AppendError`]: the queue has no room now, or the group can never become durable.
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError>;

    /// Makes all appended groups durable, and the standby that [`RecordStore::set_standby`] set
    /// last. Returns the number of the last group.
    ///
    /// # Errors
    /// The store cannot make all groups durable now. Groups after [`RecordStore::durable`] stay
    /// appended, and the next commit tries again.
    fn commit(&mut self) -> Result<GroupNumber, StoreError>;

    /// Returns the queue of groups: those that are not durable in this store, and durable ones
    /// before them that the store may need again.
    fn groups(&self) -> &GroupQueue;

    /// Returns the number of the last durable group.
    fn durable(&self) -> GroupNumber {
        self.groups().durable()
    }

    /// True if the remaining space is a reserve; see [`StoreState::Full`]. A store returns true
    /// early enough that all procedures under way still fit.
    fn is_full(&self) -> bool {
        false
    }

    /// True while the store has records that it cannot read. Until the process ends they are still
    /// in the memory of their owner.
    fn is_damaged(&self) -> bool {
        false
    }

    /// Returns how often the store has lost records. After each loss the owner of the records
    /// appends all of them again, and then calls [`RecordStore::set_complete`].
    fn losses(&self) -> u64 {
        0
    }

    /// Notes that the owner has appended all records again after a loss.
    fn set_complete(&mut self) {}

    /// Sets the standby whose acknowledgment makes groups durable; `None` for no standby. The store
    /// writes its name with one of the next polls or commits.
    fn set_standby(&mut self, standby: Option<Incarnation>) {
        let _ = standby;
    }

    /// Returns the standby whose name the store has durably. `None` also while another name is
    /// being written.
    fn standby(&self) -> Option<Incarnation> {
        None
    }

    /// Does a bounded part of the work that keeps commits short and the store small.
    ///
    /// # Errors
    /// The part was not done, and nothing is lost; the caller tries again later.
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

    /// Makes groups durable as far as possible without waiting for another host. A store on this
    /// host commits.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses; it tries again by itself. [`StoreError::Fenced`] is
    /// final: no further group becomes durable.
    fn poll(&mut self, now: Nanos) -> Result<(), StoreError> {
        let _ = now;
        self.commit().map(|_| ())
    }

    /// Blocks until [`RecordStore::poll`] may have work, at most for `limit`.
    fn wait(&mut self, limit: Duration) {
        let _ = limit;
    }
}
