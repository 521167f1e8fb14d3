//! The records of an active node, as read by a standby node.

use core::net::IpAddr;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};

use adit_session::{OwnerId, seid_index};
use adit_store::{OwnedRecordId, RecordKind};
use adit_types::{Seid, SessionIndex};

use super::values::{AnswerValue, AssociationValue, PeerStateValue, ReportsValue};

/// The key of a session record that waits; ordered by index.
pub(crate) type WaitingKey = (SessionIndex, Seid);

/// The records of an active node, except for sessions and PFDs that took effect in the session
/// store.
#[derive(Debug, Default)]
pub(crate) struct FollowedRecords {
    /// Associations, reports and answers concern peers, so they take effect at the takeover.
    pub associations: BTreeMap<IpAddr, AssociationValue>,
    /// States of associations, by association.
    pub peer_states: BTreeMap<OwnerId, PeerStateValue>,
    pub reports: BTreeMap<Seid, ReportsValue>,
    /// By the identifiers of their records.
    pub answers: BTreeMap<u64, AnswerValue>,
    /// Restored sessions for which there is usage later than in their record.
    pub used: BTreeSet<Seid>,
    /// Session records that cannot take effect yet: some worker may still use a former session with
    /// that index, or another session conflicts.
    waiting: BTreeMap<WaitingKey, Vec<u8>>,
    /// Sessions that the active node has marked as set aside.
    pub marks: BTreeSet<Seid>,
    /// Records of sessions that are set aside. They take effect at the takeover, after all others.
    pub set_aside: BTreeMap<Seid, Vec<u8>>,
    /// The last waiting record that this pass has tried; `None` before the first one.
    last_tried: Option<WaitingKey>,
    /// True while a pass over the waiting records is under way.
    is_trying: bool,
    /// True if anything became free after the pass began.
    is_freed: bool,
    /// Records that were known and not read again yet, while all records are read again.
    pub missing: Option<BTreeSet<(RecordKind, OwnedRecordId)>>,
}

impl FollowedRecords {
    /// Keeps the record of a session until it can take effect; replaces a former one.
    pub(crate) fn wait(&mut self, up_seid: Seid, octets: Vec<u8>) -> WaitingKey {
        let key = (seid_index(up_seid), up_seid);
        self.waiting.insert(key, octets);
        key
    }

    /// Removes a waiting record and returns it.
    pub(crate) fn take_waiting(&mut self, up_seid: Seid) -> Option<Vec<u8>> {
        self.waiting.remove(&(seid_index(up_seid), up_seid))
    }

    /// Returns the sessions whose records wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Seid> {
        self.waiting.keys().map(|(_, up_seid)| *up_seid)
    }

    /// Returns the sessions whose records wait for the index `session`.
    pub(crate) fn waiting_for(&self, session: SessionIndex) -> Vec<Seid> {
        let all = (session, Seid(0))..=(session, Seid(u64::MAX));
        self.waiting.range(all).map(|((_, up_seid), _)| *up_seid).collect()
    }

    /// Notes that an index, a key or a rate became free: each waiting record is to be tried again.
    pub(crate) const fn note_freed(&mut self) {
        self.is_freed = true;
    }

    /// Returns the next waiting record that was not tried since anything became free.
    pub(crate) fn next_waiting(&mut self) -> Option<Seid> {
        if !self.is_trying && !core::mem::take(&mut self.is_freed) {
            return None;
        }
        let after = self.last_tried.map_or(Bound::Unbounded, Bound::Excluded);
        self.last_tried = self.waiting.range((after, Bound::Unbounded)).next().map(|(key, _)| *key);
        self.is_trying = self.last_tried.is_some();
        self.last_tried.map(|(_, up_seid)| up_seid)
    }

    /// True if waiting records are to be tried, or usage is to be applied.
    pub(crate) fn has_work(&self) -> bool {
        !self.used.is_empty() || !self.waiting.is_empty() && (self.is_freed || self.is_trying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_that_waits_is_tried_once_after_something_became_free() {
        let mut followed = FollowedRecords::default();
        for seid in [0x0300_0002, 0x0100_0001, 0x0200_0002].map(Seid) {
            followed.wait(seid, Vec::new());
        }
        assert!(!followed.has_work() && followed.next_waiting().is_none());
        followed.note_freed();
        assert!(followed.has_work());
        assert_eq!(followed.next_waiting(), Some(Seid(0x0100_0001)));
        followed.take_waiting(Seid(0x0100_0001));
        assert_eq!(followed.next_waiting(), Some(Seid(0x0200_0002)));
        followed.note_freed();
        assert_eq!(followed.next_waiting(), Some(Seid(0x0300_0002)));
        assert_eq!(followed.next_waiting(), None, "the end of a pass");
        assert!(followed.has_work(), "something became free within it");
        assert_eq!(followed.waiting_for(SessionIndex(2)), [0x0200_0002, 0x0300_0002].map(Seid));
        let second = core::iter::from_fn(|| followed.next_waiting()).count();
        assert_eq!((second, followed.has_work()), (2, false));
    }
}
