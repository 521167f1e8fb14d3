//! The groups of a holder of the lease, in relation to its server: those that the server lacks, and
//! recent ones, for another server that was behind when it became the primary.

use adit_store::{
    AppendError, GroupNumber, GroupPosition, GroupQueue, QueuedGroup, StoreChange, decode_changes,
};
use adit_types::limits::STORE_GROUP_BYTES_MAX;

use crate::checksum::checksum;
use crate::keys::write_name;

/// Maximum of octets of groups that are kept. The server trims its stream to the same groups.
const TAIL_OCTETS_MAX: usize = 32 << 20;

/// The changes of a group as words of a command to a server.
#[derive(Debug)]
pub(crate) struct GroupWords {
    /// Names and values in turn.
    octets: Vec<u8>,
    /// The offset in `octets` where each name or value ends.
    ends: Vec<usize>,
    /// The checksum of each change, four octets each.
    checksums: Vec<u8>,
}

impl GroupWords {
    pub(crate) fn new(changes: &[u8]) -> Self {
        let mut group = Self { octets: Vec::new(), ends: Vec::new(), checksums: Vec::new() };
        for change in decode_changes(changes).flatten() {
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

    /// Returns the checksums, then names and values in turn. A value begins with `=`; a removal has
    /// an empty value.
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let parts = starts.zip(&self.ends);
        let words = parts.map(|(from, to)| self.octets.get(from..*to).unwrap_or_default());
        [self.checksums.as_slice()].into_iter().chain(words)
    }
}

/// The recent groups of this process, and which of them the server has.
#[derive(Debug, Default)]
pub(crate) struct GroupTail {
    groups: GroupQueue,
    epoch: u64,
    /// The position before the first group of the queue.
    base: GroupPosition,
    /// True if groups of this epoch were dropped from the queue.
    is_trimmed: bool,
    /// The last group that the server has.
    written: GroupNumber,
}

impl GroupTail {
    /// Begins an epoch after the last group of the store. Groups that are not durable yet move to
    /// this epoch.
    pub(crate) fn begin(&mut self, epoch: u64, last: GroupPosition) {
        if epoch != self.epoch {
            self.groups.drop_through(self.groups.durable());
            (self.epoch, self.base, self.is_trimmed) = (epoch, last, false);
        }
        self.set_written(last);
    }

    pub(crate) fn append(
        &mut self,
        changes: &[StoreChange<'_>],
    ) -> Result<GroupNumber, AppendError> {
        self.groups.append(changes, STORE_GROUP_BYTES_MAX)
    }

    pub(crate) const fn groups(&self) -> &GroupQueue {
        &self.groups
    }

    /// Returns the groups that the server does not have, each with the position before it.
    pub(crate) fn unwritten(&self) -> impl Iterator<Item = (GroupPosition, &QueuedGroup)> {
        let groups = self.groups.after(self.written);
        groups.map(|group| match group.previous == self.groups.base() {
            true => (self.base, group),
            false => (self.position(group.previous), group),
        })
    }

    pub(crate) const fn position(&self, number: GroupNumber) -> GroupPosition {
        GroupPosition { epoch: self.epoch, number }
    }

    /// Returns the position of the last durable group.
    pub(crate) const fn durable(&self) -> GroupPosition {
        self.position(self.groups.durable())
    }

    /// Returns the position up to which the server may trim its stream; the default value for no
    /// trimming.
    pub(crate) fn trim(&self) -> GroupPosition {
        if self.is_trimmed { self.base } else { GroupPosition::default() }
    }

    /// Notes that the server has the groups up to `last`. False if the server lacks groups that are
    /// no longer in this queue.
    pub(crate) fn set_written(&mut self, last: GroupPosition) -> bool {
        let is_base = last == self.base;
        let before = GroupNumber(last.number.0.saturating_sub(1));
        let is_known = last.epoch == self.epoch
            && self.groups.after(before).next().is_some_and(|group| group.number == last.number);
        if is_base || is_known {
            self.written = if is_base { self.groups.base() } else { last.number };
        }
        is_base || is_known
    }

    /// Notes that the server has started anew after the last durable group.
    pub(crate) fn restart(&mut self) {
        self.groups.drop_through(self.groups.durable());
        (self.base, self.is_trimmed) = (self.durable(), false);
        self.written = self.groups.durable();
    }

    /// Notes that the groups that the server has are durable, and drops the oldest ones beyond the
    /// maximum.
    pub(crate) fn set_durable(&mut self) {
        self.groups.set_durable(self.written);
        if self.groups.trim(TAIL_OCTETS_MAX) {
            (self.base, self.is_trimmed) = (self.position(self.groups.base()), true);
        }
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
        let position = |epoch, number| GroupPosition { epoch, number: GroupNumber(number) };
        tail.begin(1, GroupPosition::default());
        tail.append(&change).unwrap();
        tail.append(&change).unwrap();
        assert!(tail.set_written(position(1, 1)));
        tail.set_durable();
        tail.begin(3, position(2, 9));
        let waiting: Vec<_> = tail.unwritten().map(|(at, group)| (at, group.number)).collect();
        assert_eq!(waiting, [(position(2, 9), GroupNumber(2))]);
        assert!(tail.groups().is_waiting());
    }
}
