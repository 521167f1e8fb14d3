//! The state of a restoration.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use adit_session::{KeptUsage, OwnerId};
use adit_types::Seid;

use super::FollowedRecords;
use super::values::{AnswerValue, PeerStateValue, ReportsValue};

/// The state while records are restored.
#[derive(Debug, Default)]
pub(crate) struct NodeRestoration {
    /// Usage that is later than that in the record of the session.
    pub usage: HashMap<Seid, KeptUsage>,
    /// Associations that ended, and the one that gets their sessions.
    pub heirs: HashMap<OwnerId, (OwnerId, IpAddr)>,
    /// States of associations that are not restored yet.
    pub peer_states: BTreeMap<OwnerId, PeerStateValue>,
    /// Associations of which a session is not restored.
    pub lost_of: BTreeSet<OwnerId>,
    /// Sessions are not restored, and their owners are unknown.
    pub is_loss_unknown: bool,
    /// Answers to send again when peers retransmit their requests.
    pub answers: Vec<AnswerValue>,
    /// Sessions that a previous process had set aside, of which no record has been found yet.
    pub marks: BTreeSet<Seid>,
    /// Records of such sessions. They are restored behind all others.
    pub set_aside_before: Vec<(Seid, Vec<u8>)>,
    /// Reports of such sessions.
    pub reports_before: Vec<(Seid, ReportsValue)>,
    /// The record of an association could not be read: sessions without an association may be of
    /// it.
    pub has_unread_association: bool,
    /// Sessions that were not restored, by reason.
    pub reports: SetAsideReport,
    /// Datagrams that need sessions.
    pub postponed: VecDeque<(SocketAddr, Vec<u8>)>,
    /// While this node is a standby.
    pub followed: Option<Box<FollowedRecords>>,
    pub restored: usize,
    pub refused: usize,
}

impl NodeRestoration {
    /// A session of `owner`, or of an unknown owner, is not restored.
    pub(crate) fn note_loss(&mut self, owner: Option<OwnerId>) {
        match owner {
            None => self.is_loss_unknown = true,
            Some(owner) => drop(self.lost_of.insert(owner)),
        }
    }
}

/// Sessions that were not restored, by reason: how many, and the first ones.
#[derive(Debug, Default)]
pub(crate) struct SetAsideReport {
    pub reasons: BTreeMap<String, (usize, Vec<Seid>)>,
}

impl SetAsideReport {
    pub(crate) fn into_reasons(self) -> impl Iterator<Item = (String, (usize, Vec<Seid>))> {
        self.reasons.into_iter()
    }
}
