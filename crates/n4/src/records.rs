//! The records of this node: what a store keeps, so that a later process goes on where this one ended.
//!
//! Records say what peers know. A record changes when all workers run a change, in one group with the answer to
//! the request, which is kept for retransmissions. Every later message waits until the store has the groups
//! before it, so nobody learns of a state that a crash could take back. Heartbeats wait for nothing.
//!
//! After a crash a request is either answered, and its retransmission gets the same octets, or it left nothing.

mod encode;
mod following;
mod former;
mod restoration;
mod values;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_store::{RecordNumber, StoreState};
use adit_types::limits::ANSWER_RECORDS_MAX;
use adit_types::{Nanos, Seid, SessionIndex};

use crate::config::RecordConfig;
use crate::transmit::Transmit;
pub(crate) use encode::{RecordSources, session_value};
pub(crate) use following::FollowedRecords;
pub use former::FormerRecord;
pub(crate) use former::{FormerSessionValue, FormerValue};
pub(crate) use restoration::NodeRestoration;
pub(crate) use values::{
    AnswerValue, AssociationValue, KeptAnswer, PfdValue, ReportsValue, decoded,
};
pub use values::{NodeRecord, RECORD_VERSION, RecordError};

/// What happened to the record of a session.
#[derive(Debug)]
enum SessionNews {
    /// The record is to say what holds now.
    Changed,
    /// The record is to say this, which held before changes that workers do not run yet.
    Former(Vec<u8>),
    Removed,
}

/// What changed since the last group.
#[derive(Debug, Default)]
struct News {
    node: bool,
    pfds: bool,
    associations: BTreeSet<IpAddr>,
    sessions: BTreeMap<Seid, SessionNews>,
    usage: BTreeMap<Seid, Vec<u8>>,
    reports: BTreeSet<Seid>,
    answers: Vec<(u64, AnswerValue)>,
}

impl News {
    fn is_empty(&self) -> bool {
        let Self { node, pfds, associations, sessions, usage, reports, answers } = self;
        !node
            && !pfds
            && associations.is_empty()
            && sessions.is_empty()
            && usage.is_empty()
            && reports.is_empty()
            && answers.is_empty()
    }
}

/// The walk over all sessions that records their usage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UsageWalk {
    pub next: SessionIndex,
    /// When the walk over all sessions began; the next one follows an interval later.
    pub since: Nanos,
}

/// The records, and the messages that wait for them. Without a store nothing is noted, and nothing waits.
#[derive(Debug, Default)]
pub(crate) struct RecordBook {
    config: Option<RecordConfig>,
    /// The configuration while nothing is noted.
    suspended: Option<RecordConfig>,
    news: News,
    /// Of sessions with a record of usage: a digest of it.
    usage_digests: BTreeMap<Seid, u64>,
    /// Sessions with a record of reports.
    reporting: BTreeSet<Seid>,
    /// Digests of the recorded PFDs, by application.
    pfd_digests: BTreeMap<Vec<u8>, u64>,
    last_answer: u64,
    handed_out: u64,
    durable: u64,
    held: VecDeque<(u64, Transmit)>,
    store_state: StoreState,
    /// The message that is being made waits for nothing.
    is_passing: bool,
    pub walk: UsageWalk,
}

impl RecordBook {
    pub(crate) fn new(config: Option<RecordConfig>) -> Self {
        Self { config, ..Self::default() }
    }

    /// From now on nothing is noted: another node has the records.
    pub(crate) fn suspend(&mut self) {
        self.suspended = self.suspended.or(self.config.take());
    }

    /// From now on changes are noted.
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

    /// True if there is a store.
    pub(crate) const fn are_kept(&self) -> bool {
        self.config.is_some()
    }

    pub(crate) const fn config(&self) -> Option<RecordConfig> {
        self.config
    }

    /// The node's own record changes.
    pub(crate) const fn note_node(&mut self) {
        self.news.node |= self.are_kept();
    }

    /// The PFDs change.
    pub(crate) const fn note_pfds(&mut self) {
        self.news.pfds |= self.are_kept();
    }

    /// The association at `address` changes, begins or ends.
    pub(crate) fn note_association(&mut self, address: IpAddr) {
        if self.are_kept() {
            self.news.associations.insert(address);
        }
    }

    /// A session changes.
    pub(crate) fn note_session(&mut self, up_seid: Seid) {
        if self.are_kept() {
            self.news.sessions.insert(up_seid, SessionNews::Changed);
        }
    }

    /// A session became what `octets` say, and is to change further.
    pub(crate) fn note_former_session(&mut self, up_seid: Seid, octets: Vec<u8>) {
        let known = self.news.sessions.get(&up_seid);
        if self.are_kept() && !matches!(known, Some(SessionNews::Changed | SessionNews::Removed)) {
            self.news.sessions.insert(up_seid, SessionNews::Former(octets));
        }
    }

    /// True if the next group is to say what this session is by then.
    pub(crate) fn is_session_noted(&self, up_seid: Seid) -> bool {
        matches!(self.news.sessions.get(&up_seid), Some(SessionNews::Changed))
    }

    /// The next group is to say this of a session that is noted: the session is about to change further.
    pub(crate) fn settle_session(&mut self, up_seid: Seid, octets: Vec<u8>) {
        if let Some(news @ SessionNews::Changed) = self.news.sessions.get_mut(&up_seid) {
            *news = SessionNews::Former(octets);
        }
    }

    /// A session is gone.
    pub(crate) fn note_removed_session(&mut self, up_seid: Seid) {
        if self.are_kept() {
            self.news.sessions.insert(up_seid, SessionNews::Removed);
        }
    }

    /// The usage reports of a session that are not acknowledged change.
    pub(crate) fn note_reports(&mut self, up_seid: Seid) {
        if self.are_kept() {
            self.news.reports.insert(up_seid);
        }
    }

    /// What a session used, as octets. False if its record says so already.
    pub(crate) fn note_usage(&mut self, up_seid: Seid, octets: Vec<u8>) -> bool {
        if !self.are_kept() {
            return false;
        }
        let digest = encode::digest(&octets);
        let is_new = self.usage_digests.insert(up_seid, digest) != Some(digest);
        if is_new {
            self.news.usage.insert(up_seid, octets);
        }
        is_new
    }

    /// Keeps an answer, if it tells of a change: one that is noted, or `has_waited` for.
    pub(crate) fn note_answer(&mut self, has_waited: bool, answer: KeptAnswer<'_>) {
        let tells = has_waited || !self.news.is_empty();
        if self.are_kept() && tells && !self.is_passing {
            self.last_answer = self.last_answer.wrapping_add(1);
            let place = self.last_answer % ANSWER_RECORDS_MAX;
            self.news.answers.push((place, AnswerValue::new(self.last_answer, answer)));
        }
    }

    /// A restored answer has this number.
    pub(crate) fn skip_answer(&mut self, number: u64) {
        self.last_answer = self.last_answer.max(number);
    }

    /// A restored session has a record of its usage.
    pub(crate) fn resume_usage(&mut self, up_seid: Seid, octets: &[u8]) {
        self.usage_digests.insert(up_seid, encode::digest(octets));
    }

    /// A followed session has no record of its usage any more.
    pub(crate) fn forget_usage(&mut self, up_seid: Seid) {
        self.usage_digests.remove(&up_seid);
    }

    /// A followed session has no record of its reports any more.
    pub(crate) fn forget_reports(&mut self, up_seid: Seid) {
        self.reporting.remove(&up_seid);
    }

    /// The record of an application's PFDs has these octets; `None` if there is none.
    pub(crate) fn resume_pfds(&mut self, id: &[u8], octets: Option<&[u8]>) {
        match octets {
            Some(octets) => self.pfd_digests.insert(id.to_vec(), encode::digest(octets)),
            None => self.pfd_digests.remove(id),
        };
    }

    /// A restored session has a record of its reports.
    pub(crate) fn resume_reports(&mut self, up_seid: Seid) {
        self.reporting.insert(up_seid);
    }

    /// The message, if it may leave now; otherwise it leaves when the groups before it are durable.
    pub(crate) fn hold(&mut self, transmit: Transmit) -> Option<Transmit> {
        let group = self.handed_out + u64::from(!self.news.is_empty());
        if !self.is_awaited(group) || self.is_passing {
            return Some(transmit);
        }
        self.held.push_back((group, transmit));
        None
    }

    /// True while messages wait for this group.
    pub(crate) const fn is_awaited(&self, group: u64) -> bool {
        group > self.durable && !self.passes_failure()
    }

    /// The group that a message waits for which was sent just now; zero if it waits for none.
    pub(crate) fn last_awaited(&self) -> u64 {
        self.held.back().map_or(0, |(group, _)| *group)
    }

    /// From now on messages wait for nothing, or do again.
    pub(crate) const fn set_passing(&mut self, is_passing: bool) {
        self.is_passing = is_passing;
    }

    const fn passes_failure(&self) -> bool {
        match self.config {
            Some(config) => {
                matches!(self.store_state, StoreState::Failing) && config.serves_without_store
            }
            None => true,
        }
    }

    /// The groups up to `number` are durable: the next message that waited for them.
    pub(crate) fn release(&mut self) -> Option<Transmit> {
        let (durable, passes) = (self.durable, self.passes_failure());
        let is_free = |(group, _): &mut (u64, Transmit)| *group <= durable || passes;
        self.held.pop_front_if(is_free).map(|(_, transmit)| transmit)
    }

    /// The groups up to `number` are durable.
    pub(crate) fn set_durable(&mut self, number: RecordNumber) {
        self.durable = self.durable.max(number.0.min(self.handed_out));
    }

    /// What the store can take from now on.
    pub(crate) const fn set_store_state(&mut self, state: StoreState) {
        self.store_state = state;
    }

    /// Why a request is refused because what it changes could not be kept. `grows`: it lets the records grow.
    pub(crate) fn refusal(&self, grows: bool) -> Option<StoreState> {
        self.config.filter(|config| !config.serves_without_store)?;
        match self.store_state {
            StoreState::Working => None,
            StoreState::Full => grows.then_some(StoreState::Full),
            StoreState::Failing => Some(StoreState::Failing),
        }
    }

    /// How many messages wait for the store.
    pub(crate) fn held_len(&self) -> usize {
        self.held.len()
    }

    /// Groups that are not durable.
    pub(crate) const fn groups_under_way(&self) -> u64 {
        self.handed_out - self.durable
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;
    use crate::response_cache::RequestKey;

    #[test]
    fn each_further_answer_takes_the_place_of_the_oldest() {
        let config =
            RecordConfig { usage_interval: Nanos::from_secs(1), serves_without_store: false };
        let mut book = RecordBook::new(Some(config));
        let key = RequestKey { port: 8805, message_type: 50, sequence: 1, digest: 1 };
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let answer = KeptAnswer { at: Nanos(0), owner: None, peer, key, octets: &[] };
        book.note_answer(false, answer);
        assert!(book.news.answers.is_empty(), "it tells of nothing");
        for _ in 0..ANSWER_RECORDS_MAX + 2 {
            book.note_answer(true, answer);
        }
        let places: Vec<u64> = book.news.answers.iter().map(|(place, _)| *place).collect();
        let (first, further) = places.split_at(places.len() - 2);
        assert_eq!(further, &first[..2]);
        let all: BTreeSet<u64> = first.iter().copied().collect();
        assert_eq!((all.len(), all.last()), (first.len(), Some(&(ANSWER_RECORDS_MAX - 1))));
    }
}
