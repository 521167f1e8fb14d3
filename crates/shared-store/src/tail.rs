//! The last groups: those that are not durable, and some that are, for a server that was behind when it became the
//! primary.

use std::collections::VecDeque;

use adit_store::{RecordNumber, StoreChange};

use crate::checksum::checksum;
use crate::keys::write_name;
use crate::position::GroupPosition;

/// Octets of groups that are kept. The stream of groups on the server is trimmed to the same ones.
const TAIL_OCTETS_MAX: usize = 32 << 20;

/// A group as a server gets it.
#[derive(Debug)]
pub(crate) struct TailGroup {
    number: u64,
    /// Names and values in turn.
    octets: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// Of each change.
    checksums: Vec<u8>,
}

impl TailGroup {
    fn new(number: u64, changes: &[StoreChange<'_>]) -> Self {
        let mut group =
            Self { number, octets: Vec::new(), ends: Vec::new(), checksums: Vec::new() };
        for change in changes {
            let start = group.octets.len();
            write_name(&mut group.octets, change.key);
            group.ends.push(group.octets.len());
            if let Some(value) = change.value {
                group.octets.push(b'=');
                group.octets.extend_from_slice(value);
            }
            group.ends.push(group.octets.len());
            let written = group.octets.get(start..).unwrap_or_default();
            group.checksums.extend(checksum(&[written]));
        }
        group
    }

    /// The checksums, then names and values in turn; a value begins with `=`, a removal has none.
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let parts = starts.zip(&self.ends);
        let words = parts.map(|(from, to)| self.octets.get(from..*to).unwrap_or_default());
        [self.checksums.as_slice()].into_iter().chain(words)
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Octets that it costs to send.
    pub(crate) fn octets(&self) -> usize {
        self.octets.len() + self.ends.len() * 16
    }
}

/// The last groups of this process in their order.
#[derive(Debug, Default)]
pub(crate) struct GroupTail {
    groups: VecDeque<TailGroup>,
    epoch: u64,
    /// The position before the first of them.
    base: GroupPosition,
    /// Groups of this epoch were dropped.
    is_trimmed: bool,
    appended: u64,
    /// The server has the groups up to this one.
    written: u64,
    durable: u64,
    octets: usize,
    pending_octets: usize,
}

impl GroupTail {
    /// Begins an epoch behind the last group of the store. What is not durable belongs to it.
    pub(crate) fn begin(&mut self, epoch: u64, last: GroupPosition) {
        if epoch != self.epoch {
            self.groups.retain(|group| group.number > self.durable);
            (self.epoch, self.base, self.is_trimmed) = (epoch, last, false);
        }
        self.set_written(last);
    }

    /// Appends a group and returns its number.
    pub(crate) fn append(&mut self, changes: &[StoreChange<'_>]) -> u64 {
        self.appended += 1;
        let group = TailGroup::new(self.appended, changes);
        self.octets += group.octets();
        self.pending_octets += group.octets();
        self.groups.push_back(group);
        self.appended
    }

    /// The groups that the server does not have, each with the position before it.
    pub(crate) fn unwritten(&self) -> impl Iterator<Item = (GroupPosition, &TailGroup)> {
        let numbers = self.groups.iter().map(|group| self.position(group.number));
        let before = [self.base].into_iter().chain(numbers);
        before.zip(&self.groups).filter(|(_, group)| group.number > self.written)
    }

    pub(crate) fn position(&self, number: u64) -> GroupPosition {
        GroupPosition { epoch: self.epoch, number }
    }

    /// The position up to which the server may trim its stream; the default for nothing.
    pub(crate) fn trim(&self) -> GroupPosition {
        if self.is_trimmed { self.base } else { GroupPosition::default() }
    }

    /// The server has the groups up to `last`. False if groups are lost that are not in the tail.
    pub(crate) fn set_written(&mut self, last: GroupPosition) -> bool {
        if last == self.base {
            self.written = if last.epoch == self.epoch { last.number } else { 0 };
            return true;
        }
        let is_known =
            last.epoch == self.epoch && self.groups.iter().any(|group| group.number == last.number);
        if is_known {
            self.written = last.number;
        }
        is_known
    }

    /// The store begins anew behind the last durable group.
    pub(crate) fn restart(&mut self) {
        while let Some(group) = self.groups.pop_front_if(|group| group.number <= self.durable) {
            self.octets -= group.octets();
        }
        (self.base, self.is_trimmed) = (self.position(self.durable), false);
        self.written = self.durable;
    }

    /// The last group that was appended.
    pub(crate) const fn appended(&self) -> u64 {
        self.appended
    }

    /// What the server has is durable.
    pub(crate) fn set_durable(&mut self) {
        self.durable = self.durable.max(self.written);
        let pending = self.groups.iter().rev().take_while(|group| group.number > self.durable);
        self.pending_octets = pending.map(TailGroup::octets).sum();
        while self.octets > TAIL_OCTETS_MAX
            && let Some(group) = self.groups.pop_front_if(|group| group.number <= self.durable)
        {
            self.octets -= group.octets();
            (self.base, self.is_trimmed) = (self.position(group.number), true);
        }
    }

    /// True if groups are not durable.
    pub(crate) fn is_waiting(&self) -> bool {
        self.groups.back().is_some_and(|group| group.number > self.durable)
    }

    pub(crate) const fn durable(&self) -> RecordNumber {
        RecordNumber(self.durable)
    }

    pub(crate) const fn pending_octets(&self) -> usize {
        self.pending_octets
    }
}

#[cfg(test)]
mod tests {
    use adit_store::{RecordKey, RecordKind};

    use super::*;

    #[test]
    fn groups_that_are_not_durable_belong_to_the_next_epoch() {
        let mut tail = GroupTail::default();
        let change = [StoreChange::put(RecordKey::number(RecordKind::Session, 1), b"x")];
        let position = |epoch, number| GroupPosition { epoch, number };
        tail.begin(1, GroupPosition::default());
        tail.append(&change);
        tail.append(&change);
        assert!(tail.set_written(position(1, 1)));
        tail.set_durable();
        tail.begin(3, position(2, 9));
        let waiting: Vec<_> = tail.unwritten().map(|(at, group)| (at, group.number())).collect();
        assert_eq!(waiting, [(position(2, 9), 2)]);
        assert!(tail.is_waiting());
    }
}
