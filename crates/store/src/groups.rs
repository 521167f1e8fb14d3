//! The change groups of a process in their order: one queue, into which its store, the servers and
//! a standby point by number.

use core::fmt;
use std::collections::{VecDeque, vec_deque};

use adit_types::limits::STORE_BACKLOG_BYTES_MAX;

use crate::error::AppendError;
use crate::format::{BadChange, change_len, decode_changes, encode_change, is_storable};
use crate::record::{RecordNumber, StoreChange};

/// The place of a change group in the order of all groups of a shared store. The default is the
/// place before the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupPosition {
    /// The fencing token of the process that wrote the group.
    pub epoch: u64,
    /// Its number among the groups of this epoch, from 1 on; there may be gaps.
    pub number: RecordNumber,
}

impl GroupPosition {
    /// Reads `epoch-number`, which is how servers order the entries of a stream.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (epoch, number) = core::str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self { epoch: epoch.parse().ok()?, number: RecordNumber(number.parse().ok()?) })
    }
}

impl fmt::Display for GroupPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number.0)
    }
}

/// A group in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedGroup {
    /// The group before it, or zero. Numbers may have gaps, the order has none.
    pub previous: RecordNumber,
    /// Its own number.
    pub number: RecordNumber,
    /// Its changes, as [`encode_change`] writes them.
    pub changes: Vec<u8>,
}

impl QueuedGroup {
    /// The changes in order.
    ///
    /// # Errors
    /// As for [`decode_changes`]. Groups that [`GroupQueue::append`] has made have none.
    pub fn changes(&self) -> impl Iterator<Item = Result<StoreChange<'_>, BadChange>> {
        decode_changes(&self.changes)
    }

    /// Octets of memory.
    const fn octets(&self) -> usize {
        self.changes.len() + size_of::<Self>()
    }
}

/// Consecutive groups behind one that is not here. Those that are not durable are never dropped.
#[derive(Debug, Clone, Default)]
pub struct GroupQueue {
    /// The group before the first one.
    base: RecordNumber,
    groups: VecDeque<QueuedGroup>,
    durable: RecordNumber,
    octets: usize,
    /// Octets of groups that are not durable.
    waiting_octets: usize,
}

impl GroupQueue {
    /// Without groups, behind the durable group `base`.
    #[must_use]
    pub const fn new(base: RecordNumber) -> Self {
        Self { base, groups: VecDeque::new(), durable: base, octets: 0, waiting_octets: 0 }
    }

    /// Appends a group of at most `octets_max` octets with the next number.
    ///
    /// # Errors
    /// [`AppendError`]; nothing was appended.
    pub fn append(
        &mut self,
        changes: &[StoreChange<'_>],
        octets_max: usize,
    ) -> Result<RecordNumber, AppendError> {
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
        let number = RecordNumber(self.last().0 + 1);
        self.push(number, octets);
        Ok(number)
    }

    /// Appends a group, `number`, behind the last one. Its changes are encoded.
    pub fn push(&mut self, number: RecordNumber, changes: Vec<u8>) {
        let group = QueuedGroup { previous: self.last(), number, changes };
        self.octets += group.octets();
        self.waiting_octets += group.octets();
        self.groups.push_back(group);
    }

    /// The group before the first one.
    #[must_use]
    pub const fn base(&self) -> RecordNumber {
        self.base
    }

    /// The last group, or the base.
    #[must_use]
    pub fn last(&self) -> RecordNumber {
        self.groups.back().map_or(self.base, |group| group.number)
    }

    /// The last durable group.
    #[must_use]
    pub const fn durable(&self) -> RecordNumber {
        self.durable
    }

    /// True if groups are not durable.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.last() > self.durable
    }

    /// Octets of memory of the groups that are not durable.
    #[must_use]
    pub const fn waiting_octets(&self) -> usize {
        self.waiting_octets
    }

    /// Octets of memory of all groups.
    #[must_use]
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// The number of groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// True without groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups behind `number`.
    pub fn after(&self, number: RecordNumber) -> vec_deque::Iter<'_, QueuedGroup> {
        let first = self.groups.partition_point(|group| group.number <= number);
        self.groups.range(first..)
    }

    /// The groups up to `number` are durable.
    pub fn set_durable(&mut self, number: RecordNumber) {
        let newly = self.after(self.durable).take_while(|group| group.number <= number);
        self.waiting_octets -= newly.map(QueuedGroup::octets).sum::<usize>();
        self.durable = self.durable.max(number);
    }

    /// Drops the first durable groups as long as all groups take more than `octets_max` octets.
    /// True if there were some.
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

    /// The groups up to `number` are durable, and dropped. A number beyond the last group becomes
    /// the base.
    pub fn drop_through(&mut self, number: RecordNumber) {
        self.set_durable(number);
        while let Some(group) = self.groups.pop_front_if(|group| group.number <= number) {
            self.octets -= group.octets();
        }
        // The base is a group even if the number names none.
        self.base = self.groups.front().map_or(self.base.max(number), |first| first.previous);
    }

    /// Drops the groups behind `number`. If the base itself is behind it, the queue becomes empty,
    /// with `base` as its base.
    pub fn drop_behind(&mut self, number: RecordNumber, base: RecordNumber) {
        if self.base > number {
            *self = Self::new(base);
        }
        while let Some(group) = self.groups.pop_back_if(|group| group.number > number) {
            self.octets -= group.octets();
            self.waiting_octets -= if group.number > self.durable { group.octets() } else { 0 };
        }
    }
}
