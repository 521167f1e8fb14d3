//! The state of a restoration.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use adit_session::{KeptUsage, OwnerId};
use adit_types::Seid;

use super::FollowedRecords;
use super::values::{AnswerValue, PeerStateValue, ReportsValue};

/// The state of a node while its records are restored.
#[derive(Debug, Default)]
pub(crate) struct NodeRestoration {
    /// Usage that is later than in the record of the session.
    pub usage: HashMap<Seid, KeptUsage>,
    /// Associations that ended, each with the association that inherits its sessions.
    pub heirs: HashMap<OwnerId, (OwnerId, IpAddr)>,
    /// States of associations that have not been restored yet.
    pub peer_states: BTreeMap<OwnerId, PeerStateValue>,
    /// Associations that have sessions which were not restored.
    pub lost_of: BTreeSet<OwnerId>,
    /// True if sessions were not restored, and their associations are unknown.
    pub is_loss_unknown: bool,
    /// Answers to send again if peers retransmit their requests.
    pub answers: Vec<AnswerValue>,
    /// Sessions that a previous process has marked as set aside, whose records were not read yet.
    pub marks: BTreeSet<Seid>,
    /// Records of marked sessions, which are restored after all others.
    pub set_aside_before: Vec<(Seid, Vec<u8>)>,
    /// Reports of marked sessions.
    pub reports_before: Vec<(Seid, ReportsValue)>,
    /// True if the record of an association could not be decoded: a session without an association
    /// may belong to it.
    pub has_unread_association: bool,
    /// Sessions that were not restored, by reason.
    pub reports: SetAsideReport,
    /// Datagrams that wait, because they need sessions.
    pub postponed: VecDeque<(SocketAddr, Vec<u8>)>,
    /// The records of the active node, while this node is a standby.
    pub followed: Option<Box<FollowedRecords>>,
    pub restored: usize,
    pub refused: usize,
}

impl NodeRestoration {
    /// Notes that a session of `owner`, or of an unknown association, was not restored.
    pub(crate) fn note_loss(&mut self, owner: Option<OwnerId>) {
        match owner {
            None => self.is_loss_unknown = true,
            Some(owner) => drop(self.lost_of.insert(owner)),
        }
    }
}

/// Sessions that were not restored: how many for each reason, and the first of them.
#[derive(Debug, Default)]
pub(crate) struct SetAsideReport {
    pub reasons: BTreeMap<String, (usize, Vec<Seid>)>,
}

impl SetAsideReport {
    pub(crate) fn into_reasons(self) -> impl Iterator<Item = (String, (usize, Vec<Seid>))> {
        self.reasons.into_iter()
    }
}
