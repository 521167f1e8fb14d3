//! Passes all records to the store again, after the store has lost some.

use core::net::IpAddr;

use adit_store::GroupNumber;
use adit_types::limits::USAGE_RECORDS_PER_TURN_MAX;
use adit_types::{Nanos, Seid, SessionIndex};

use crate::node::Node;
use crate::records::{KeptAnswer, RecordRewrite};
use crate::response_cache::RecordedAnswer;

/// Maximum of groups that are made before the store has them.
const GROUPS_AHEAD_MAX: u64 = 4;

impl Node {
    /// Begins to pass all records to the store again, a bounded number in each iteration; requests
    /// are answered meanwhile.
    pub fn rewrite_records(&mut self) {
        if !self.sessions.records.keeps_records() {
            return;
        }
        let records = &mut self.sessions.records;
        records.note_node();
        records.note_clock();
        records.note_all_pfds();
        for association in self.peers.associations() {
            records.note_association(association.address);
            records.note_peer_state(association.owner);
        }
        records.rewrite = Some(RecordRewrite::Sessions(SessionIndex(0)));
    }

    /// Returns the last of the groups that have all records again, once that group is made.
    pub fn take_rewritten(&mut self) -> Option<GroupNumber> {
        let Some(RecordRewrite::Ended(number)) = self.sessions.records.rewrite else { return None };
        self.sessions.records.rewrite = None;
        Some(number)
    }

    /// Returns when the next part is due.
    pub(crate) fn next_rewrite(&self) -> Option<Nanos> {
        let records = &self.sessions.records;
        let is_open = records.rewrite.is_some_and(|one| !matches!(one, RecordRewrite::Ended(_)));
        (is_open && records.undurable_group_count() < GROUPS_AHEAD_MAX).then_some(Nanos(0))
    }

    /// Marks the next records as changed. Called before a group is made.
    pub(crate) fn rewrite_part(&mut self) {
        if self.next_rewrite().is_none() {
            return;
        }
        let next = match self.sessions.records.rewrite {
            Some(RecordRewrite::Sessions(first)) => self.rewrite_sessions(first),
            Some(RecordRewrite::SetAside(after)) => self.rewrite_set_aside(after),
            Some(RecordRewrite::Reports(after)) => self.rewrite_reports(after),
            Some(RecordRewrite::Answers(after)) => self.rewrite_answers(after),
            other => return self.sessions.records.rewrite = other,
        };
        self.sessions.records.rewrite = Some(next);
    }

    fn rewrite_sessions(&mut self, first: SessionIndex) -> RecordRewrite {
        let store = self.sessions.store();
        let (sessions, next) = store.sessions_from(first, USAGE_RECORDS_PER_TURN_MAX);
        let sessions: Vec<_> = sessions.map(|known| (known.index(), known.up_seid())).collect();
        for (index, up_seid) in sessions {
            if self.sessions.is_changing(up_seid) {
                // The session is changing: tried again once workers run the change, so that its
                // record contains it.
                return RecordRewrite::Sessions(index);
            }
            self.sessions.records.note_session(up_seid);
        }
        next.map_or(RecordRewrite::SetAside(None), RecordRewrite::Sessions)
    }

    fn rewrite_set_aside(&mut self, after: Option<Seid>) -> RecordRewrite {
        let behind = self.set_aside.after(after).take(USAGE_RECORDS_PER_TURN_MAX);
        let mut last = None;
        for (up_seid, _) in behind {
            last = Some(up_seid);
            if let Some(session) = self.set_aside.get(up_seid) {
                self.sessions.records.note_lost_set_aside(up_seid, session);
            }
        }
        last.map_or(RecordRewrite::Reports(Seid(0)), |last| RecordRewrite::SetAside(Some(last)))
    }

    fn rewrite_reports(&mut self, after: Seid) -> RecordRewrite {
        let reporting = self.sessions.records.reporting_after(after, USAGE_RECORDS_PER_TURN_MAX);
        // The reports of sessions that are set aside were written together with these sessions.
        let own = reporting.iter().filter(|up_seid| self.set_aside.get(**up_seid).is_none());
        own.for_each(|up_seid| self.sessions.records.note_reports(*up_seid));
        reporting.last().map_or(RecordRewrite::Answers(None), |last| RecordRewrite::Reports(*last))
    }

    fn rewrite_answers(&mut self, after: Option<(IpAddr, Nanos)>) -> RecordRewrite {
        let peers = self.peers.iter_from(after.map(|(address, _)| address));
        let part = peers.into_iter().find_map(|(address, known)| {
            let after = after.filter(|(last, _)| *last == address).map(|(_, at)| at);
            let until = known.cache.next_part_end(after, USAGE_RECORDS_PER_TURN_MAX)?;
            Some((address, known.cache.recorded_answers(after, until), until))
        });
        let Some((peer, answers, until)) = part else { return RecordRewrite::Ending };
        let owner = self.peers.association_for(peer).map(|association| association.owner);
        for RecordedAnswer { number, at, key, bytes } in answers {
            let kept = KeptAnswer { at, owner, peer, key, octets: bytes };
            self.sessions.records.note_lost_answer(number, kept);
        }
        RecordRewrite::Answers(Some((peer, until)))
    }
}
