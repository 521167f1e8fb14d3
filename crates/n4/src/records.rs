//! The records of this node: the state that a store keeps, so that a later process continues where
//! this one ended.
//!
//! Records have the state that answers have reported to peers. Once all workers run a change, the
//! record changes in one group with the answer to the request; the answer is kept for
//! retransmissions. Each later message waits until the store has the groups before it, so no peer
//! sees a state that a crash could revoke. Heartbeats do not wait.
//!
//! After a crash a request was either answered, and its retransmission gets the same octets, or it
//! has had no effect.

mod encode;
mod following;
mod former;
mod restoration;
mod set_aside;
mod values;

use core::net::IpAddr;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_session::{KeptUsage, OwnerId};
use adit_store::{GroupNumber, OwnedRecordId, RecordChange, RecordKind, StoreState};
use adit_types::limits::{
    ANSWER_RECORDS_MAX, PENDING_MAX, RECORD_OCTETS_UNDER_WAY_MAX, SESSION_ANSWERS_NOTED_MAX,
};
use adit_types::{Nanos, Seid, SessionIndex};

use crate::config::RecordConfig;
use crate::response_cache::RequestKey;
use crate::transmit::Transmit;
pub(crate) use encode::{RecordSources, session_value};
pub(crate) use following::FollowedRecords;
pub use former::FormerRecord;
pub(crate) use former::{FormerSessionRecord, FormerSessionValue, FormerValue};
pub(crate) use restoration::{NodeRestoration, SetAsideReport};
pub(crate) use set_aside::{SetAsideSession, SetAsideSessions};
pub(crate) use values::{
    AnswerValue, AssociationValue, KeptAnswer, PeerStateValue, PfdValue, ReportsValue, decoded,
    encoded,
};
pub use values::{
    CLOCK_MARK, CLOCK_MARK_INTERVAL, NodeRecord, RECORD_VERSION, RecordError, clock_mark,
};

/// How a session's record changes.
#[derive(Debug)]
enum SessionRecordChange {
    /// The record gets the state that the session has when the group is made.
    Changed,
    /// The record gets this state: that before changes which some worker does not run yet.
    Former(Vec<u8>),
    Removed,
}

/// The changes of a session since its last record. They become durable as a whole, so that the
/// record has the state that the answers acknowledge.
#[derive(Debug, Default)]
struct SessionRecordChanges {
    record: Option<SessionRecordChange>,
    /// Sessions that this one replaced: their records are removed together with its new record.
    replaced: Vec<Seid>,
    usage: Option<Vec<u8>>,
    /// Whether the session is now set aside; `None` if that has not changed.
    set_aside: Option<bool>,
    reports: bool,
    answers: NotedAnswers,
}

/// Answers by the identifiers of their records; `None` removes the record of an answer that must
/// not be sent again.
type NotedAnswers = VecDeque<(u64, Option<AnswerValue>)>;

/// The changes of records that no group contains yet.
#[derive(Debug, Default)]
struct News {
    node: bool,
    pfds: bool,
    associations: BTreeSet<IpAddr>,
    peer_states: BTreeSet<OwnerId>,
    sessions: BTreeMap<Seid, SessionRecordChanges>,
    /// Answers that do not concern a single session. They acknowledge all earlier changes, so they
    /// come last.
    answers: NotedAnswers,
    /// Encoded changes that did not fit into the last group; each item becomes durable as a whole.
    encoded: VecDeque<Vec<RecordChange>>,
}

impl News {
    fn is_empty(&self) -> bool {
        let Self { node, pfds, associations, peer_states, sessions, answers, encoded } = self;
        !node
            && !pfds
            && associations.is_empty()
            && peer_states.is_empty()
            && sessions.is_empty()
            && answers.is_empty()
            && encoded.is_empty()
    }
}

/// A message that is sent once a group of records is durable.
#[derive(Debug)]
struct HeldMessage {
    group: u64,
    transmit: Transmit,
    answered: Option<HeldAnswer>,
}

/// The request that a message answers, if the answer is kept for retransmissions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldAnswer {
    pub peer: IpAddr,
    pub key: RequestKey,
    /// The number of the answer's record, if it has one.
    pub number: Option<u64>,
}

/// The size of a group that is not durable yet.
#[derive(Debug, Clone, Copy)]
struct GroupUnderWay {
    number: u64,
    octets: usize,
}

/// Returns the name of the record that marks a session as set aside.
fn set_aside_mark(up_seid: Seid) -> OwnedRecordId {
    OwnedRecordId::Octets(up_seid.0.to_be_bytes().to_vec())
}

/// The progress of recording the usage of all sessions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UsageWalk {
    pub next: SessionIndex,
    /// When this pass over all sessions began; the next one begins an interval later.
    pub since: Nanos,
}

/// Progress of passing all records to the store again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordRewrite {
    /// Sessions from this index on; then those that are set aside.
    Sessions(SessionIndex),
    /// Sessions that are set aside, after this SEID; then reports.
    SetAside(Option<Seid>),
    /// Reports of sessions after this SEID; then answers.
    Reports(Seid),
    /// Answers to this peer after this time, and answers to the peers after it.
    Answers(Option<(IpAddr, Nanos)>),
    /// All records are passed on; the next group is the last one.
    Ending,
    /// Done; the number of the last group.
    Ended(GroupNumber),
}

/// The changes of records, and the messages that wait for them. Without a store no change is noted,
/// and no message waits.
#[derive(Debug, Default)]
pub(crate) struct RecordBook {
    config: Option<RecordConfig>,
    /// The configuration, while noting changes is suspended.
    suspended: Option<RecordConfig>,
    news: News,
    /// For each session with a usage record, a digest of that record.
    usage_digests: BTreeMap<Seid, u64>,
    /// Sessions that have a record of reports.
    reporting: BTreeSet<Seid>,
    /// Associations that have a record [`PeerStateValue`].
    peer_states: BTreeSet<OwnerId>,
    /// Sessions that have a mark that they are set aside.
    marked: BTreeSet<Seid>,
    /// Digests of the recorded PFDs, by application.
    pfd_digests: BTreeMap<Vec<u8>, u64>,
    /// The time in the [`CLOCK_MARK`]; `None` to write the mark with the next group.
    clock_mark: Option<Nanos>,
    last_answer: u64,
    handed_out: u64,
    durable: u64,
    under_way: VecDeque<GroupUnderWay>,
    octets_under_way: usize,
    /// Sessions that no group contains yet, if requests are served without the store: if such a
    /// session ends, nothing is written.
    unrecorded: BTreeSet<Seid>,
    held: VecDeque<HeldMessage>,
    store_state: StoreState,
    /// True while a message is made that does not wait for the store.
    is_passing: bool,
    pub walk: UsageWalk,
    /// Progress of passing all records to the store again, after it has lost some.
    pub rewrite: Option<RecordRewrite>,
}

impl RecordBook {
    pub(crate) fn new(config: Option<RecordConfig>) -> Self {
        Self { config, ..Self::default() }
    }

    /// Stops noting changes: another node has the records.
    pub(crate) fn suspend(&mut self) {
        self.suspended = self.suspended.or(self.config.take());
    }

    /// Notes changes again.
    pub(crate) fn resume(&mut self) {
        self.config = self.config.or(self.suspended.take());
    }

    /// Replaces the configuration, if there is a store before and after.
    pub(crate) fn set_config(&mut self, config: Option<RecordConfig>) {
        let Some(config) = config else { return };
        for known in self.config.iter_mut().chain(&mut self.suspended) {
            *known = config;
        }
    }

    /// True if changes are noted, since there is a store.
    pub(crate) const fn keeps_records(&self) -> bool {
        self.config.is_some()
    }

    pub(crate) const fn config(&self) -> Option<RecordConfig> {
        self.config
    }

    /// Notes that the node's own record changes.
    pub(crate) const fn note_node(&mut self) {
        self.news.node |= self.keeps_records();
    }

    /// Notes that PFDs change.
    pub(crate) const fn note_pfds(&mut self) {
        self.news.pfds |= self.keeps_records();
    }

    /// Notes that all PFDs change, as if none were recorded.
    pub(crate) fn note_all_pfds(&mut self) {
        self.pfd_digests.clear();
        self.note_pfds();
    }

    /// Makes the next group contain a [`CLOCK_MARK`].
    pub(crate) const fn note_clock(&mut self) {
        self.clock_mark = None;
    }

    /// Returns the sessions after `after` that have a record of reports, at most `count`.
    pub(crate) fn reporting_after(&self, after: Seid, count: usize) -> Vec<Seid> {
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        self.reporting.range(behind).take(count).copied().collect()
    }

    /// Notes that the association at `address` begins, changes or ends.
    pub(crate) fn note_association(&mut self, address: IpAddr) {
        if self.keeps_records() {
            self.news.associations.insert(address);
        }
    }

    /// Notes that our time stamp towards the peer of an association changes, or whether the peer is
    /// silent, or that the association ends.
    pub(crate) fn note_peer_state(&mut self, owner: OwnerId) {
        if self.keeps_records() {
            self.news.peer_states.insert(owner);
        }
    }

    /// Notes that a restored or followed association has a record of its state.
    pub(crate) fn resume_peer_state(&mut self, owner: OwnerId) {
        self.peer_states.insert(owner);
    }

    /// Notes that the record of an association's state was removed.
    pub(crate) fn forget_peer_state(&mut self, owner: OwnerId) {
        self.peer_states.remove(&owner);
    }

    /// Notes that a session begins.
    pub(crate) fn note_new_session(&mut self, up_seid: Seid) {
        if self.config.is_some_and(|config| config.serves_without_store) {
            self.unrecorded.insert(up_seid);
        }
    }

    fn unit(&mut self, up_seid: Seid) -> &mut SessionRecordChanges {
        self.news.sessions.entry(up_seid).or_default()
    }

    fn noted(&self, up_seid: Seid) -> Option<&SessionRecordChange> {
        self.news.sessions.get(&up_seid)?.record.as_ref()
    }

    /// Notes that a session changes.
    pub(crate) fn note_session(&mut self, up_seid: Seid) {
        if self.keeps_records() {
            self.unit(up_seid).record = Some(SessionRecordChange::Changed);
        }
    }

    /// Notes that a session changes to the state in `octets`, before it changes further.
    pub(crate) fn note_former_session(&mut self, up_seid: Seid, octets: Vec<u8>) {
        let known = self.noted(up_seid);
        if self.keeps_records()
            && !matches!(known, Some(SessionRecordChange::Changed | SessionRecordChange::Removed))
        {
            self.unit(up_seid).record = Some(SessionRecordChange::Former(octets));
        }
    }

    /// True if the next group gets the state that this session has when the group is made.
    pub(crate) fn is_session_noted(&self, up_seid: Seid) -> bool {
        matches!(self.noted(up_seid), Some(SessionRecordChange::Changed))
    }

    /// Makes the next group record a changed session with its present state, `octets`, although the
    /// session changes further before the group is made.
    pub(crate) fn settle_session(&mut self, up_seid: Seid, octets: Vec<u8>) {
        let unit = self.news.sessions.get_mut(&up_seid);
        if let Some(news @ SessionRecordChange::Changed) =
            unit.and_then(|unit| unit.record.as_mut())
        {
            *news = SessionRecordChange::Former(octets);
        }
    }

    /// Notes that a session has replaced the session `gone`.
    pub(crate) fn note_replaced_session(&mut self, up_seid: Seid, gone: Seid) {
        if self.keeps_records() {
            self.unit(up_seid).replaced.push(gone);
            if let Some(former) = self.news.sessions.get_mut(&gone) {
                former.record = None;
            }
        }
    }

    /// Notes that a session was removed.
    pub(crate) fn note_removed_session(&mut self, up_seid: Seid) {
        if !self.keeps_records() {
            return;
        }
        let is_recorded = !self.unrecorded.remove(&up_seid);
        let unit = self.unit(up_seid);
        unit.record = is_recorded.then_some(SessionRecordChange::Removed);
        unit.usage = None;
        if !is_recorded {
            unit.answers.clear();
            if !unit.reports {
                self.news.sessions.remove(&up_seid);
            }
        }
    }

    /// Notes that a session is set aside, or no longer set aside.
    pub(crate) fn note_set_aside(&mut self, up_seid: Seid, is_set_aside: bool) {
        if !self.keeps_records() {
            return;
        }
        let is_marked = match is_set_aside {
            true => !self.marked.insert(up_seid),
            false => !self.marked.remove(&up_seid),
        };
        if !is_marked {
            self.unit(up_seid).set_aside = Some(is_set_aside);
        }
    }

    /// Adopts whether a previous process has marked this session as set aside.
    pub(crate) fn resume_set_aside(&mut self, up_seid: Seid, is_set_aside: bool) {
        match is_set_aside {
            true => self.marked.insert(up_seid),
            false => self.marked.remove(&up_seid),
        };
    }

    /// True if the session has a mark that it is set aside.
    pub(crate) fn is_marked(&self, up_seid: Seid) -> bool {
        self.marked.contains(&up_seid)
    }

    /// Notes that the unacknowledged usage reports of a session change.
    pub(crate) fn note_reports(&mut self, up_seid: Seid) {
        if self.keeps_records() {
            self.unit(up_seid).reports = true;
        }
    }

    /// Notes the usage of a session. False if the record of its usage has these octets already.
    pub(crate) fn note_usage(&mut self, up_seid: Seid, octets: Vec<u8>) -> bool {
        if !self.keeps_records() {
            return false;
        }
        let digest = encode::digest(&octets);
        let is_new = self.usage_digests.insert(up_seid, digest) != Some(digest);
        if is_new {
            self.unit(up_seid).usage = Some(octets);
        }
        is_new
    }

    /// True if the session has a record of its usage, or the next group makes one.
    pub(crate) fn has_usage(&self, up_seid: Seid) -> bool {
        self.usage_digests.contains_key(&up_seid)
    }

    /// Notes an answer, if it acknowledges a change: one that is noted, or one that it `has_waited`
    /// for. `session`: the session that the request concerns, if exactly one. Returns the number of
    /// the answer's record; `None` if it gets no record.
    pub(crate) fn note_answer(
        &mut self,
        has_waited: bool,
        session: Option<Seid>,
        answer: KeptAnswer<'_>,
    ) -> Option<u64> {
        let tells = has_waited || !self.news.is_empty();
        if !self.keeps_records() || !tells || self.is_passing {
            return None;
        }
        self.last_answer = self.last_answer.wrapping_add(1);
        let number = self.last_answer;
        let place = number % ANSWER_RECORDS_MAX;
        let (noted, most) = match session {
            Some(up_seid) => (&mut self.unit(up_seid).answers, SESSION_ANSWERS_NOTED_MAX),
            None => (&mut self.news.answers, usize::try_from(ANSWER_RECORDS_MAX).unwrap_or(1)),
        };
        if noted.len() >= most {
            noted.pop_front();
        }
        noted.push_back((place, Some(AnswerValue::new(number, answer))));
        Some(number)
    }

    /// Writes the record of an answer again after it was lost, unless a later answer uses the same
    /// record.
    pub(crate) fn note_lost_answer(&mut self, number: u64, answer: KeptAnswer<'_>) {
        if self.last_answer.wrapping_sub(number) < ANSWER_RECORDS_MAX {
            let name = OwnedRecordId::Number(number % ANSWER_RECORDS_MAX);
            let value = Some(encoded(&AnswerValue::new(number, answer)));
            self.news.encoded.push_back(vec![RecordChange {
                kind: RecordKind::Answer,
                name,
                value,
            }]);
        }
    }

    /// Writes all records of a session that is set aside again, after they were lost.
    pub(crate) fn note_lost_set_aside(&mut self, up_seid: Seid, session: &SetAsideSession) {
        let number = OwnedRecordId::Number(up_seid.0);
        let usage = session.usage.as_ref().map(KeptUsage::octets);
        // The mark comes first, so that followers know that the session is set aside.
        let values = [
            (RecordKind::Usage, set_aside_mark(up_seid), Some(vec![RECORD_VERSION])),
            (RecordKind::Usage, number.clone(), usage),
            (RecordKind::Session, number.clone(), Some(session.octets.clone())),
            (RecordKind::Report, number, session.reports.clone()),
        ];
        let known = values.into_iter().filter(|(_, _, value)| value.is_some());
        let changes = known.map(|(kind, name, value)| RecordChange { kind, name, value });
        self.news.encoded.push_back(changes.collect());
    }

    /// Notes that the record of this answer, which was not sent, is to be removed, so that the
    /// answer is not sent later.
    pub(crate) fn forget_answer(&mut self, number: u64) {
        // A later answer may use the same record.
        if self.keeps_records() && self.last_answer.wrapping_sub(number) < ANSWER_RECORDS_MAX {
            self.news.answers.push_back((number % ANSWER_RECORDS_MAX, None));
        }
    }

    /// Makes later answers get numbers above `number`, which a restored answer uses.
    pub(crate) fn skip_answer(&mut self, number: u64) {
        self.last_answer = self.last_answer.max(number);
    }

    /// Notes that a restored session has a record of its usage.
    pub(crate) fn resume_usage(&mut self, up_seid: Seid, octets: &[u8]) {
        self.usage_digests.insert(up_seid, encode::digest(octets));
    }

    /// Notes that a followed session has no record of its usage any more.
    pub(crate) fn forget_usage(&mut self, up_seid: Seid) {
        self.usage_digests.remove(&up_seid);
    }

    /// Notes that a followed session has no record of its reports any more.
    pub(crate) fn forget_reports(&mut self, up_seid: Seid) {
        self.reporting.remove(&up_seid);
    }

    /// Notes the record of an application's PFDs; `None` if there is none.
    pub(crate) fn resume_pfds(&mut self, id: &[u8], octets: Option<&[u8]>) {
        match octets {
            Some(octets) => self.pfd_digests.insert(id.to_vec(), encode::digest(octets)),
            None => self.pfd_digests.remove(id),
        };
    }

    /// Notes that a restored session has a record of its reports.
    pub(crate) fn resume_reports(&mut self, up_seid: Seid) {
        self.reporting.insert(up_seid);
    }

    /// Returns the message if it may be sent now. Otherwise keeps it until the groups before it are
    /// durable.
    pub(crate) fn hold(
        &mut self,
        transmit: Transmit,
        answered: Option<HeldAnswer>,
    ) -> Option<Transmit> {
        let group = self.handed_out + u64::from(!self.news.is_empty());
        if !self.is_awaited(group) || self.is_passing {
            return Some(transmit);
        }
        self.held.push_back(HeldMessage { group, transmit, answered });
        None
    }

    /// True if so many messages wait for the store that no further request may be accepted whose
    /// answer would have to wait.
    pub(crate) fn is_full_of_held(&self) -> bool {
        self.held.len() >= PENDING_MAX
    }

    /// True while messages must wait for this group.
    pub(crate) const fn is_awaited(&self, group: u64) -> bool {
        group > self.durable && !self.is_store_bypassed()
    }

    /// Returns the group that the message waits for which was just kept; zero if no message waits.
    pub(crate) fn last_awaited(&self) -> u64 {
        self.held.back().map_or(0, |held| held.group)
    }

    /// Sets whether messages are sent without waiting for the store.
    pub(crate) const fn set_passing(&mut self, is_passing: bool) {
        self.is_passing = is_passing;
    }

    const fn is_store_bypassed(&self) -> bool {
        match self.config {
            Some(config) => {
                matches!(self.store_state, StoreState::Failing) && config.serves_without_store
            }
            None => true,
        }
    }

    /// Returns the next message whose groups are durable now.
    pub(crate) fn release(&mut self) -> Option<(Transmit, Option<HeldAnswer>)> {
        let (durable, passes) = (self.durable, self.is_store_bypassed());
        let held = self.held.pop_front_if(|held| held.group <= durable || passes)?;
        Some((held.transmit, held.answered))
    }

    /// Continues the numbers of groups after `number`, the last one of a previous process in the
    /// store.
    pub(crate) fn continue_numbers_after(&mut self, number: GroupNumber) {
        let skipped = number.0 - self.durable;
        (self.handed_out, self.durable) = (self.handed_out + skipped, number.0);
        self.held.iter_mut().for_each(|held| held.group += skipped);
    }

    /// Notes that the groups up to `number` are durable.
    pub(crate) fn set_durable(&mut self, number: GroupNumber) {
        self.durable = self.durable.max(number.0.min(self.handed_out));
        let durable = self.durable;
        while let Some(group) = self.under_way.pop_front_if(|group| group.number <= durable) {
            self.octets_under_way -= group.octets;
        }
    }

    /// True while the store has enough groups to write. Until it has fewer, no group is made, and
    /// only the latest state of each record counts.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.octets_under_way >= RECORD_OCTETS_UNDER_WAY_MAX
    }

    /// Returns which changes the store accepts.
    pub(crate) const fn store_state(&self) -> StoreState {
        self.store_state
    }

    /// Sets which changes the store accepts.
    pub(crate) const fn set_store_state(&mut self, state: StoreState) {
        self.store_state = state;
    }

    /// Returns why a request must be refused because its changes could not be kept. `grows`: the
    /// request adds to the records.
    pub(crate) fn refusal(&self, grows: bool) -> Option<StoreState> {
        self.config.filter(|config| !config.serves_without_store)?;
        match self.store_state {
            StoreState::Working => None,
            StoreState::Full => grows.then_some(StoreState::Full),
            StoreState::Failing => Some(StoreState::Failing),
        }
    }

    /// Returns how many messages wait for the store.
    pub(crate) fn held_len(&self) -> usize {
        self.held.len()
    }

    /// Returns how many groups are not durable, plus one if changes wait for the next group.
    pub(crate) fn undurable_group_count(&self) -> u64 {
        let waits = self.is_blocked() && !self.news.is_empty();
        self.handed_out - self.durable + u64::from(waits)
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_further_answer_takes_the_place_of_the_oldest() {
        let config =
            RecordConfig { usage_interval: Nanos::from_secs(1), serves_without_store: false };
        let mut book = RecordBook::new(Some(config));
        let key = RequestKey { port: 8805, message_type: 50, sequence: 1, digest: 1 };
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let answer = KeptAnswer { at: Nanos(0), owner: None, peer, key, octets: &[] };
        book.note_answer(false, None, answer);
        assert!(book.news.answers.is_empty(), "it tells of nothing");
        for _ in 0..ANSWER_RECORDS_MAX + 2 {
            book.note_answer(true, None, answer);
        }
        let places: Vec<u64> = book.news.answers.iter().map(|(place, _)| *place).collect();
        let all: BTreeSet<u64> = places.iter().copied().collect();
        assert_eq!((all.len(), all.last()), (places.len(), Some(&(ANSWER_RECORDS_MAX - 1))));
        assert_eq!(places.len() as u64, ANSWER_RECORDS_MAX, "the oldest two left no place");
        assert_eq!(places[places.len() - 1], 2);
    }
}
