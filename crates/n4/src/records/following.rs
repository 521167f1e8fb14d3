//! The records of an active node, as a standby node has read them.

use core::net::IpAddr;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};

use adit_session::{OwnerId, seid_index};
use adit_store::{RecordKind, RecordName};
use adit_types::{Seid, SessionIndex};

use super::values::{AnswerValue, AssociationValue, PeerStateValue, ReportsValue};

/// A session record that waits, in the order of indices.
pub(crate) type WaitingKey = (SessionIndex, Seid);

/// The records of an active node, without sessions and PFDs, which are in the session store.
#[derive(Debug, Default)]
pub(crate) struct FollowedRecords {
    /// Associations, reports and answers concern peers: they take effect at the take-over.
    pub associations: BTreeMap<IpAddr, AssociationValue>,
    /// By the numbers of associations.
    pub peer_states: BTreeMap<OwnerId, PeerStateValue>,
    pub reports: BTreeMap<Seid, ReportsValue>,
    /// By their place among the records.
    pub answers: BTreeMap<u64, AnswerValue>,
    /// Sessions in the store with usage that is later than their record's.
    pub used: BTreeSet<Seid>,
    /// Session records that cannot take effect yet: workers may still use a previous session of
    /// that index, or another session has a key.
    waiting: BTreeMap<WaitingKey, Vec<u8>>,
    /// Sessions that the active node has set aside.
    pub marks: BTreeSet<Seid>,
    /// Their records. They take effect behind all others, at the take-over.
    pub set_aside: BTreeMap<Seid, Vec<u8>>,
    /// The record after which the pass over those that wait goes on; `None` before the first one.
    last_tried: Option<WaitingKey>,
    /// A pass is under way.
    is_trying: bool,
    /// Something became free after the pass began.
    is_freed: bool,
    /// While all records are read again: those that have not been found yet.
    pub missing: Option<BTreeSet<(RecordKind, RecordName)>>,
}

impl FollowedRecords {
    /// Keeps the record of a session until it can take effect. It replaces the previous one.
    pub(crate) fn wait(&mut self, up_seid: Seid, octets: Vec<u8>) -> WaitingKey {
        let key = (seid_index(up_seid), up_seid);
        self.waiting.insert(key, octets);
        key
    }

    /// Takes out a record that waits.
    pub(crate) fn take_waiting(&mut self, up_seid: Seid) -> Option<Vec<u8>> {
        self.waiting.remove(&(seid_index(up_seid), up_seid))
    }

    /// The sessions whose records wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Seid> {
        self.waiting.keys().map(|(_, up_seid)| *up_seid)
    }

    /// The sessions whose records wait for the index `session`.
    pub(crate) fn waiting_for(&self, session: SessionIndex) -> Vec<Seid> {
        let all = (session, Seid(0))..=(session, Seid(u64::MAX));
        self.waiting.range(all).map(|((_, up_seid), _)| *up_seid).collect()
    }

    /// An index, a key or a rate became free: each record that waits is to be tried again.
    pub(crate) const fn note_freed(&mut self) {
        self.is_freed = true;
    }

    /// The next record that waits and has not been tried since something became free.
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
