//! The queue of all groups of changes of a process. The store, the servers and the standby each
//! keep the number of the last group that they have.

use core::fmt;
use std::collections::{VecDeque, vec_deque};

use adit_types::limits::STORE_BACKLOG_BYTES_MAX;

use crate::error::AppendError;
use crate::format::{BadChange, change_len, decode_changes, encode_change, is_storable};
use crate::record::{GroupNumber, StoreChange};

/// The position of a group in the order of all groups of a shared store. The default value precedes
/// every group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupPosition {
    /// The fencing token of the process that wrote the group.
    pub epoch: u64,
    /// Number of the group among those of this epoch, from 1 on; numbers may have gaps.
    pub number: GroupNumber,
}

impl GroupPosition {
    /// Parses `epoch-number`, the form of entry identifiers in a stream of the servers. `None` if
    /// the text is malformed.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (epoch, number) = core::str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self { epoch: epoch.parse().ok()?, number: GroupNumber(number.parse().ok()?) })
    }
}

impl fmt::Display for GroupPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number.0)
    }
}

/// A group of changes in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedGroup {
    /// Number of the preceding group, or zero. It shows that no group is missing, since numbers may
    /// have gaps.
    pub previous: GroupNumber,
    /// Number of this group.
    pub number: GroupNumber,
    /// The changes of this group, as [`encode_change`] writes them.
    pub changes: Vec<u8>,
}

impl QueuedGroup {
    /// Decodes the changes of this group, in order.
    ///
    /// # Errors
    /// As for [`decode_changes`]. Groups that [`GroupQueue::append`] made decode without error.
    pub fn changes(&self) -> impl Iterator<Item = Result<StoreChange<'_>, BadChange>> {
        decode_changes(&self.changes)
    }

    /// Returns the memory that the group takes. Unit: octets.
    const fn octets(&self) -> usize {
        self.changes.len() + size_of::<Self>()
    }
}

/// Consecutive groups. The oldest groups are dropped once they are durable, the others never.
#[derive(Debug, Clone, Default)]
pub struct GroupQueue {
    /// Number of the group before the first one in the queue.
    base: GroupNumber,
    groups: VecDeque<QueuedGroup>,
    durable: GroupNumber,
    octets: usize,
    /// Octets of memory of the groups that are not durable.
    waiting_octets: usize,
}

impl GroupQueue {
    /// Creates a queue without groups, behind the durable group `base`.
    #[must_use]
    pub const fn new(base: GroupNumber) -> Self {
        Self { base, groups: VecDeque::new(), durable: base, octets: 0, waiting_octets: 0 }
    }

    /// Appends a group of at most `octets_max` octets, and gives it the next number.
    ///
    /// # Errors
    /// [`AppendError`]; the queue is unchanged.
    pub fn append(
        &mut self,
        changes: &[StoreChange<'_>],
        octets_max: usize,
    ) -> Result<GroupNumber, AppendError> {
        if !changes.iter().all(is_storable) {
            return Err(AppendError::Record);
        }
        let len = changes.iter().map(change_len).sum();
        if len > octets_max {
            return Err(AppendError::Group);
        }
        if self.waiting_octets + len > STORE_BACKLOG_BYTES_MAX {
            return Err(AppendError::Backlog);
        }
        let mut octets = Vec::with_capacity(len);
        changes.iter().for_each(|change| encode_change(&mut octets, change));
        let number = GroupNumber(self.last().0 + 1);
        self.push(number, octets);
        Ok(number)
    }

    /// Appends a group whose changes are encoded already, with this number, which is greater than
    /// the last one.
    pub fn push(&mut self, number: GroupNumber, changes: Vec<u8>) {
        let group = QueuedGroup { previous: self.last(), number, changes };
        self.octets += group.octets();
        self.waiting_octets += group.octets();
        self.groups.push_back(group);
    }

    /// Returns the number of the group before the first one in the queue.
    #[must_use]
    pub const fn base(&self) -> GroupNumber {
        self.base
    }

    /// Returns the number of the last group, or the base if the queue is empty.
    #[must_use]
    pub fn last(&self) -> GroupNumber {
        self.groups.back().map_or(self.base, |group| group.number)
    }

    /// Returns the number of the last durable group.
    #[must_use]
    pub const fn durable(&self) -> GroupNumber {
        self.durable
    }

    /// True if the queue has groups that are not durable.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.last() > self.durable
    }

    /// Returns the memory of the groups that are not durable. Unit: octets.
    #[must_use]
    pub const fn waiting_octets(&self) -> usize {
        self.waiting_octets
    }

    /// Returns the memory of all groups. Unit: octets.
    #[must_use]
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// Returns how many groups the queue has, durable ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// True if the queue has no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the groups after `number`.
    pub fn after(&self, number: GroupNumber) -> vec_deque::Iter<'_, QueuedGroup> {
        let first = self.groups.partition_point(|group| group.number <= number);
        self.groups.range(first..)
    }

    /// Notes that the groups up to `number` are durable.
    pub fn set_durable(&mut self, number: GroupNumber) {
        let newly = self.after(self.durable).take_while(|group| group.number <= number);
        self.waiting_octets -= newly.map(QueuedGroup::octets).sum::<usize>();
        self.durable = self.durable.max(number);
    }

    /// Drops durable groups from the front while all groups together take more than `octets_max`
    /// octets of memory. True if it dropped any.
    pub fn trim(&mut self, octets_max: usize) -> bool {
        let base = self.base;
        while self.octets > octets_max
            && let Some(group) = self.groups.pop_front_if(|group| group.number <= self.durable)
        {
            self.octets -= group.octets();
            self.base = group.number;
        }
        self.base > base
    }

    /// Notes that the groups up to `number` are durable, and drops them. If `number` is beyond the
    /// last group it becomes the base.
    pub fn drop_through(&mut self, number: GroupNumber) {
        self.set_durable(number);
        while let Some(group) = self.groups.pop_front_if(|group| group.number <= number) {
            self.octets -= group.octets();
        }
        // No group may have this number: the base is the group that precedes the first one left.
        self.base = self.groups.front().map_or(self.base.max(number), |first| first.previous);
    }

    /// Drops the groups after `number`. If the present base is after `number` too, empties the
    /// queue, and `base` becomes its base.
    pub fn drop_behind(&mut self, number: GroupNumber, base: GroupNumber) {
        if self.base > number {
            *self = Self::new(base);
        }
        while let Some(group) = self.groups.pop_back_if(|group| group.number > number) {
            self.octets -= group.octets();
            self.waiting_octets -= if group.number > self.durable { group.octets() } else { 0 };
        }
    }
}
