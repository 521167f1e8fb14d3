//! Encodes noted changes into a group.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::DefaultHasher;

use adit_session::{OwnerId, SessionStore};
use adit_store::{GroupNumber, OwnedRecordId, RecordChange, RecordGroup, RecordKind};
use adit_types::limits::{RECORD_OVERHEAD_BYTES, STORE_GROUP_BYTES_MAX};
use adit_types::{Nanos, Seid};

use super::values::{PfdValue, RECORD_VERSION, SessionValue, encoded};
use super::{
    CLOCK_MARK, CLOCK_MARK_INTERVAL, GroupUnderWay, NodeRecord, NotedAnswers, RecordBook,
    RecordRewrite, SessionRecordChange, SessionRecordChanges, set_aside_mark,
};
use crate::path_qos::PathQos;
use crate::peers::Peers;
use crate::records::{AssociationValue, PeerStateValue, ReportsValue};
use crate::session_state::SessionStates;
use crate::transition::Transitions;

/// The state from which records are encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordSources<'a> {
    pub now: Nanos,
    pub store: &'a SessionStore,
    pub states: &'a SessionStates,
    pub transitions: &'a Transitions,
    pub peers: &'a Peers,
    pub path_qos: &'a PathQos,
}

pub(super) fn digest(octets: &[u8]) -> u64 {
    let mut digest = DefaultHasher::new();
    octets.hash(&mut digest);
    digest.finish()
}

/// Encodes the record of a session from its present state.
pub(crate) fn session_value(
    now: Nanos,
    store: &SessionStore,
    states: &SessionStates,
    up_seid: Seid,
) -> Option<Vec<u8>> {
    let index = store.session(up_seid)?.index();
    let kept = store.kept(now, up_seid)?.octets();
    let value = SessionValue {
        kept: &kept,
        information: states.information(index).map(Into::into),
        sets: states.sets_of_cp_function(index).map(Into::into).collect(),
        former_cp: states.former_cp(up_seid).map(Into::into),
    };
    Some(encoded(&value))
}

impl RecordBook {
    /// Returns the next group: the changes since the last one, as many as fit. `None` without
    /// changes, or while the store has enough groups to write.
    pub(crate) fn next_group(
        &mut self,
        node: NodeRecord,
        sources: RecordSources<'_>,
    ) -> Option<RecordGroup> {
        if self.rewrite == Some(RecordRewrite::Ending) && self.news.is_empty() {
            self.rewrite = Some(RecordRewrite::Ended(GroupNumber(self.handed_out)));
        }
        if self.news.is_empty() || self.is_blocked() {
            return None;
        }
        self.handed_out += 1;
        let mut group = GroupChanges::default();
        self.encode_shared(node, sources);
        loop {
            if self.news.encoded.is_empty() {
                let Some(unit) = self.next_unit(sources) else { break };
                self.news.encoded.extend(unit.into_pieces());
            }
            if let Some(changes) = self.news.encoded.pop_front_if(|unit| group.takes(unit)) {
                group.extend(changes);
            } else if !self.news.encoded.is_empty() {
                break;
            }
        }
        let number = self.handed_out;
        if !self.news.is_empty() {
            // The latest messages may report changes that did not fit, so they wait for the next
            // group.
            let waiting = self.held.iter_mut().rev().take_while(|held| held.group == number);
            waiting.for_each(|held| held.group += 1);
        }
        self.octets_under_way += group.octets;
        self.under_way.push_back(GroupUnderWay { number, octets: group.octets });
        Some(RecordGroup { number: GroupNumber(number), changes: group.changes })
    }

    /// Encodes changes that do not concern a single session.
    fn encode_shared(&mut self, node: NodeRecord, sources: RecordSources<'_>) {
        let now = sources.now;
        let mut unit = GroupChanges::default();
        if self.clock_mark.is_none_or(|last| now.since(last) >= CLOCK_MARK_INTERVAL) {
            self.clock_mark = Some(now);
            unit.put(CLOCK_MARK.kind, OwnedRecordId::of(CLOCK_MARK.id), encoded(&now.0));
        }
        if core::mem::take(&mut self.news.node) {
            unit.put(RecordKind::Node, OwnedRecordId::Number(0), encoded(&node));
        }
        let associations = core::mem::take(&mut self.news.associations);
        self.encode_associations(&associations, sources, &mut unit);
        let states = core::mem::take(&mut self.news.peer_states);
        self.encode_peer_states(&states, node.recovery_time_stamp, sources.peers, &mut unit);
        if core::mem::take(&mut self.news.pfds) {
            self.encode_pfds(sources.store, &mut unit);
        }
        self.news.encoded.extend(unit.into_pieces());
    }

    /// Encodes the next changes that become durable as a whole: those of one session, and last the
    /// answers that do not concern a single session.
    fn next_unit(&mut self, sources: RecordSources<'_>) -> Option<GroupChanges> {
        let mut changes = GroupChanges::default();
        let Some((up_seid, unit)) = self.news.sessions.pop_first() else {
            let answers = core::mem::take(&mut self.news.answers);
            let has_answers = !answers.is_empty();
            encode_answers(answers, &mut changes);
            return has_answers.then_some(changes);
        };
        let SessionRecordChanges { record, replaced, usage, set_aside, reports, answers } = unit;
        for gone in replaced {
            self.encode_session(gone, SessionRecordChange::Removed, sources, &mut changes);
        }
        let name = OwnedRecordId::Number(up_seid.0);
        if let Some(news) = record {
            self.encode_session(up_seid, news, sources, &mut changes);
        }
        // The session's own record may have included the usage meanwhile.
        if let Some(octets) = usage.filter(|_| self.usage_digests.contains_key(&up_seid)) {
            changes.put(RecordKind::Usage, name.clone(), octets);
        }
        if let Some(is_set_aside) = set_aside {
            let mark = is_set_aside.then(|| vec![RECORD_VERSION]);
            changes.push(RecordKind::Usage, set_aside_mark(up_seid), mark);
        }
        if reports {
            self.encode_reports(up_seid, sources.states, &mut changes);
        }
        encode_answers(answers, &mut changes);
        Some(changes)
    }

    fn encode_associations(
        &self,
        associations: &BTreeSet<IpAddr>,
        sources: RecordSources<'_>,
        changes: &mut GroupChanges,
    ) {
        for &address in associations {
            let name = OwnedRecordId::Octets(address.to_string().into_bytes());
            let value = sources.peers.get(address).and_then(|peer| {
                let association = peer.association.as_ref()?;
                let owner = association.owner;
                let predecessors = sources.transitions.predecessors_of(&[owner]);
                let controls = sources.path_qos.controls(owner);
                let id = peer.nf_instance_id;
                Some(encoded(&AssociationValue::new(association, id, &predecessors, controls)))
            });
            changes.push(RecordKind::Association, name, value);
        }
    }

    fn encode_peer_states(
        &mut self,
        owners: &BTreeSet<OwnerId>,
        time_stamp: u32,
        peers: &Peers,
        changes: &mut GroupChanges,
    ) {
        for &owner in owners {
            let association = peers.association_of(owner);
            let value = association.and_then(|known| PeerStateValue::of(known, time_stamp));
            let was_recorded = match value {
                Some(_) => !self.peer_states.insert(owner),
                None => self.peer_states.remove(&owner),
            };
            if was_recorded || value.is_some() {
                let name = OwnedRecordId::Number(owner.0.into());
                changes.push(RecordKind::Association, name, value.map(|value| encoded(&value)));
            }
        }
    }

    fn encode_pfds(&mut self, store: &SessionStore, changes: &mut GroupChanges) {
        let mut applications: BTreeMap<&str, PfdValue> = BTreeMap::new();
        for application in store.provided_applications() {
            let value = applications.entry(application.id).or_insert(PfdValue(Vec::new()));
            let texts = application.flow_descriptions.iter().map(|text| text.to_string());
            value.0.push((application.owner.0, texts.collect()));
        }
        let mut digests = BTreeMap::new();
        for (id, value) in applications {
            let (name, octets) = (id.as_bytes().to_vec(), encoded(&value));
            let digest = digest(&octets);
            if self.pfd_digests.remove(&name) != Some(digest) {
                changes.put(RecordKind::Pfds, OwnedRecordId::Octets(name.clone()), octets);
            }
            digests.insert(name, digest);
        }
        for (name, _) in core::mem::replace(&mut self.pfd_digests, digests) {
            changes.push(RecordKind::Pfds, OwnedRecordId::Octets(name), None);
        }
    }

    fn encode_session(
        &mut self,
        up_seid: Seid,
        news: SessionRecordChange,
        sources: RecordSources<'_>,
        changes: &mut GroupChanges,
    ) {
        let name = OwnedRecordId::Number(up_seid.0);
        let value = match news {
            SessionRecordChange::Changed => {
                // The session has ended meanwhile, and its removal follows.
                let value = session_value(sources.now, sources.store, sources.states, up_seid);
                let Some(value) = value else { return };
                Some(value)
            }
            SessionRecordChange::Former(octets) => Some(octets),
            SessionRecordChange::Removed => None,
        };
        self.unrecorded.remove(&up_seid);
        // The session's record includes its usage. A separate usage record counts as later than it,
        // so the old one is removed first: a follower would otherwise restore old usage.
        if self.usage_digests.remove(&up_seid).is_some() {
            changes.push(RecordKind::Usage, name.clone(), None);
        }
        changes.push(RecordKind::Session, name, value);
    }

    fn encode_reports(
        &mut self,
        up_seid: Seid,
        states: &SessionStates,
        changes: &mut GroupChanges,
    ) {
        let name = OwnedRecordId::Number(up_seid.0);
        match states.unacknowledged_usage(up_seid) {
            Some(usage) => {
                self.reporting.insert(up_seid);
                changes.put(RecordKind::Report, name, encoded(&ReportsValue::from(&usage)));
            }
            None if self.reporting.remove(&up_seid) => {
                changes.push(RecordKind::Report, name, None);
            }
            None => {}
        }
    }
}

fn encode_answers(answers: NotedAnswers, changes: &mut GroupChanges) {
    for (place, answer) in answers {
        let value = answer.map(|answer| encoded(&answer));
        changes.push(RecordKind::Answer, OwnedRecordId::Number(place), value);
    }
}

/// Maximum of octets of a group, as a store counts them. Stores accept groups of
/// [`STORE_GROUP_BYTES_MAX`], their own additions included.
const GROUP_OCTETS_MAX: usize = STORE_GROUP_BYTES_MAX - 4096;

/// Changes of records, and their octets as a store counts them.
#[derive(Debug, Default)]
struct GroupChanges {
    changes: Vec<RecordChange>,
    octets: usize,
}

fn octets_of(change: &RecordChange) -> usize {
    change.value.as_ref().map_or(0, Vec::len) + RECORD_OVERHEAD_BYTES
}

impl GroupChanges {
    fn put(&mut self, kind: RecordKind, name: OwnedRecordId, value: Vec<u8>) {
        self.push(kind, name, Some(value));
    }

    fn push(&mut self, kind: RecordKind, name: OwnedRecordId, value: Option<Vec<u8>>) {
        let change = RecordChange { kind, name, value };
        self.octets += octets_of(&change);
        self.changes.push(change);
    }

    /// True if the group has room for `changes`, or is empty.
    fn takes(&self, changes: &[RecordChange]) -> bool {
        let octets: usize = changes.iter().map(octets_of).sum();
        self.changes.is_empty() || self.octets + octets <= GROUP_OCTETS_MAX
    }

    fn extend(&mut self, changes: Vec<RecordChange>) {
        self.octets += changes.iter().map(octets_of).sum::<usize>();
        self.changes.extend(changes);
    }

    /// Returns the changes as one piece; as one piece each if a group cannot hold them together.
    fn into_pieces(self) -> impl Iterator<Item = Vec<RecordChange>> {
        let fits = self.octets <= GROUP_OCTETS_MAX;
        let (whole, parts) =
            if fits { (self.changes, Vec::new()) } else { (Vec::new(), self.changes) };
        let whole = Some(whole).filter(|changes| !changes.is_empty());
        whole.into_iter().chain(parts.into_iter().map(|change| vec![change]))
    }
}
