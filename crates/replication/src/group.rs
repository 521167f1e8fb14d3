//! Groups on their way to a standby, and in its tail.

use std::cmp::Ordering;
use std::collections::VecDeque;

use adit_store::{BadChange, RecordNumber, StoreChange, decode_changes};

/// One life of a standby. Another value after each start: what an earlier life had in memory is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);

/// The last group of a shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StorePosition {
    /// The epoch of its writer.
    pub epoch: u64,
    /// Its number among those of the epoch.
    pub number: RecordNumber,
}

impl StorePosition {
    /// The last group of `epoch` that the store has, zero if it has none; `None` if it is not known, because the store has groups
    /// of a later epoch.
    pub(crate) fn last_of(self, epoch: u64) -> Option<RecordNumber> {
        match self.epoch.cmp(&epoch) {
            Ordering::Less => Some(RecordNumber(0)),
            Ordering::Equal => Some(self.number),
            Ordering::Greater => None,
        }
    }
}

/// A group of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicatedGroup {
    /// The group of the same epoch before it, or zero. Numbers may have gaps, the order has none.
    pub previous: RecordNumber,
    /// Its own number.
    pub number: RecordNumber,
    /// Its changes, as [`adit_store::encode_change`] writes them.
    pub changes: Vec<u8>,
}

impl ReplicatedGroup {
    /// The changes in order.
    ///
    /// # Errors
    /// As for [`decode_changes`]. Groups of a [`crate::ReplicationTail`] have none.
    pub fn changes(&self) -> impl Iterator<Item = Result<StoreChange<'_>, BadChange>> {
        decode_changes(&self.changes)
    }
}

/// Consecutive groups behind one that is not here.
#[derive(Debug, Clone)]
pub(crate) struct GroupQueue {
    /// The group before the first one.
    base: RecordNumber,
    groups: VecDeque<ReplicatedGroup>,
    octets: usize,
}

impl GroupQueue {
    /// Without groups, behind group `base`.
    pub(crate) const fn new(base: RecordNumber) -> Self {
        Self { base, groups: VecDeque::new(), octets: 0 }
    }

    /// The group before the first one.
    pub(crate) fn base(&self) -> RecordNumber {
        self.base
    }

    /// The last group, or the base.
    pub(crate) fn last(&self) -> RecordNumber {
        self.groups.back().map_or(self.base, |group| group.number)
    }

    /// Octets of changes, and of what it takes to keep them.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Appends a group behind the last one.
    pub(crate) fn push(&mut self, number: RecordNumber, changes: Vec<u8>) {
        let previous = self.last();
        self.octets += octets(changes.len());
        self.groups.push_back(ReplicatedGroup { previous, number, changes });
    }

    /// Drops the groups up to `number`. A number beyond the last group becomes the base.
    pub(crate) fn drop_through(&mut self, number: RecordNumber) {
        while let Some(group) = self.groups.pop_front_if(|group| group.number <= number) {
            self.octets -= octets(group.changes.len());
        }
        self.base = self.base.max(number);
        // The base is a group even if the number names none.
        if let Some(first) = self.groups.front() {
            self.base = first.previous;
        }
    }

    /// Drops the groups behind `number`. If the base is behind it, nothing is left, and `base` becomes the base.
    pub(crate) fn drop_behind(&mut self, number: RecordNumber, base: RecordNumber) {
        if self.base > number {
            *self = Self::new(base);
        }
        while let Some(group) = self.groups.pop_back_if(|group| group.number > number) {
            self.octets -= octets(group.changes.len());
        }
    }

    /// The groups behind `number`.
    pub(crate) fn after(&self, number: RecordNumber) -> impl Iterator<Item = &ReplicatedGroup> {
        let first = self.groups.partition_point(|group| group.number <= number);
        self.groups.range(first..)
    }
}

/// Octets of memory for a group with so many octets of changes.
pub(crate) const fn octets(changes_len: usize) -> usize {
    changes_len + size_of::<ReplicatedGroup>()
}
