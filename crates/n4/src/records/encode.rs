//! Makes the changes of a group of what was noted.

use core::hash::{Hash, Hasher};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::DefaultHasher;

use adit_session::SessionStore;
use adit_store::{RecordChange, RecordGroup, RecordKind, RecordName, RecordNumber};
use adit_types::{Nanos, Seid};

use super::values::{PfdValue, SessionValue, encoded};
use super::{News, NodeRecord, RecordBook, SessionNews};
use crate::path_qos::PathQos;
use crate::peers::Peers;
use crate::records::{AssociationValue, ReportsValue};
use crate::session_state::SessionStates;
use crate::transition::Transitions;

/// What records are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordSources<'a> {
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

/// The record of a session as it is now.
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
        sets: states.given_sets(index).map(Into::into).collect(),
        former_cp: states.former_cp(up_seid).map(Into::into),
    };
    Some(encoded(&value))
}

impl RecordBook {
    /// The next group: all that changed since the last one. `None` if nothing did.
    pub(crate) fn next_group(
        &mut self,
        now: Nanos,
        node: NodeRecord,
        sources: RecordSources<'_>,
    ) -> Option<RecordGroup> {
        if self.news.is_empty() {
            return None;
        }
        let news = core::mem::take(&mut self.news);
        self.handed_out += 1;
        let mut changes = GroupChanges(Vec::new());
        if news.node {
            changes.put(RecordKind::Node, RecordName::Number(0), encoded(&node));
        }
        self.encode_associations(&news, sources, &mut changes);
        if news.pfds {
            self.encode_pfds(sources.store, &mut changes);
        }
        self.encode_sessions(now, news.sessions, sources, &mut changes);
        for (up_seid, octets) in news.usage {
            // The session's own record may have taken its place.
            if self.usage_digests.contains_key(&up_seid) {
                changes.put(RecordKind::Usage, RecordName::Number(up_seid.0), octets);
            }
        }
        self.encode_reports(news.reports, sources.states, &mut changes);
        for (place, answer) in news.answers {
            changes.put(RecordKind::Answer, RecordName::Number(place), encoded(&answer));
        }
        Some(RecordGroup { number: RecordNumber(self.handed_out), changes: changes.0 })
    }

    fn encode_associations(
        &self,
        news: &News,
        sources: RecordSources<'_>,
        changes: &mut GroupChanges,
    ) {
        for &address in &news.associations {
            let name = RecordName::Octets(address.to_string().into_bytes());
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
                changes.put(RecordKind::Pfds, RecordName::Octets(name.clone()), octets);
            }
            digests.insert(name, digest);
        }
        for (name, _) in core::mem::replace(&mut self.pfd_digests, digests) {
            changes.push(RecordKind::Pfds, RecordName::Octets(name), None);
        }
    }

    fn encode_sessions(
        &mut self,
        now: Nanos,
        sessions: BTreeMap<Seid, SessionNews>,
        sources: RecordSources<'_>,
        changes: &mut GroupChanges,
    ) {
        for (up_seid, news) in sessions {
            let name = RecordName::Number(up_seid.0);
            let value = match news {
                SessionNews::Changed => {
                    // A session that ended meanwhile: its removal follows.
                    let value = session_value(now, sources.store, sources.states, up_seid);
                    let Some(value) = value else { continue };
                    Some(value)
                }
                SessionNews::Former(octets) => Some(octets),
                SessionNews::Removed => None,
            };
            // The session's own record has the usage, too. Whoever follows these changes does not take the former usage
            // for a later one.
            if self.usage_digests.remove(&up_seid).is_some() {
                changes.push(RecordKind::Usage, name.clone(), None);
            }
            changes.push(RecordKind::Session, name, value);
        }
    }

    fn encode_reports(
        &mut self,
        reports: BTreeSet<Seid>,
        states: &SessionStates,
        changes: &mut GroupChanges,
    ) {
        for up_seid in reports {
            let name = RecordName::Number(up_seid.0);
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
}

struct GroupChanges(Vec<RecordChange>);

impl GroupChanges {
    fn put(&mut self, kind: RecordKind, name: RecordName, value: Vec<u8>) {
        self.push(kind, name, Some(value));
    }

    fn push(&mut self, kind: RecordKind, name: RecordName, value: Option<Vec<u8>>) {
        self.0.push(RecordChange { kind, name, value });
    }
}
