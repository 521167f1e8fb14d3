//! Hands all records out again, after the store has lost them.

use adit_store::RecordNumber;
use adit_types::limits::USAGE_RECORDS_PER_TURN_MAX;
use adit_types::{Nanos, Seid, SessionIndex};

use crate::node::Node;
use crate::records::RecordRewrite;

/// Groups that are handed out before the store has them.
const GROUPS_AHEAD_MAX: u64 = 4;

impl Node {
    /// The store has lost all records: they are handed out again, a bounded number in each turn, while requests are answered.
    /// Answers that are kept for retransmissions are not.
    pub fn rewrite_records(&mut self) {
        if !self.sessions.records.are_kept() {
            return;
        }
        let addresses: Vec<_> = self.peers.associations().map(|one| one.address).collect();
        let records = &mut self.sessions.records;
        records.note_node();
        records.note_all_pfds();
        addresses.into_iter().for_each(|address| records.note_association(address));
        records.rewrite = Some(RecordRewrite::Sessions(SessionIndex(0)));
    }

    /// The last of the groups that have all records again, once it is handed out.
    pub fn take_rewritten(&mut self) -> Option<RecordNumber> {
        let Some(RecordRewrite::Ended(number)) = self.sessions.records.rewrite else { return None };
        self.sessions.records.rewrite = None;
        Some(number)
    }

    /// When the next part is due.
    pub(crate) fn next_rewrite(&self) -> Option<Nanos> {
        let records = &self.sessions.records;
        let is_open = records.rewrite.is_some_and(|one| !matches!(one, RecordRewrite::Ended(_)));
        (is_open && records.groups_under_way() < GROUPS_AHEAD_MAX).then_some(Nanos(0))
    }

    /// Notes the next part, before a group is made.
    pub(crate) fn rewrite_part(&mut self) {
        if self.next_rewrite().is_none() {
            return;
        }
        let next = match self.sessions.records.rewrite {
            Some(RecordRewrite::Sessions(first)) => self.rewrite_sessions(first),
            Some(RecordRewrite::Reports(after)) => self.rewrite_reports(after),
            other => return self.sessions.records.rewrite = other,
        };
        self.sessions.records.rewrite = Some(next);
    }

    fn rewrite_sessions(&mut self, first: SessionIndex) -> RecordRewrite {
        let store = self.sessions.store();
        let (sessions, next) = store.sessions_from(first, USAGE_RECORDS_PER_TURN_MAX);
        // What changes is noted when workers run it.
        let settled = sessions.map(|session| session.up_seid());
        let settled: Vec<_> =
            settled.filter(|up_seid| !self.sessions.is_changing(*up_seid)).collect();
        settled.into_iter().for_each(|up_seid| self.sessions.records.note_session(up_seid));
        next.map_or(RecordRewrite::Reports(Seid(0)), RecordRewrite::Sessions)
    }

    fn rewrite_reports(&mut self, after: Seid) -> RecordRewrite {
        let reporting = self.sessions.records.reporting_after(after, USAGE_RECORDS_PER_TURN_MAX);
        reporting.iter().for_each(|up_seid| self.sessions.records.note_reports(*up_seid));
        reporting.last().map_or(RecordRewrite::Ending, |last| RecordRewrite::Reports(*last))
    }
}
