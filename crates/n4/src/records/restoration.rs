//! The state of a restoration.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use adit_session::{FormerSession, KeptUsage, OwnerId};
use adit_types::Seid;

use super::FollowedRecords;
use super::values::{AnswerValue, PeerStateValue};

/// What is known while records are restored.
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
    /// Sessions are not restored, and nobody knows whose they were.
    pub is_loss_unknown: bool,
    /// For retransmissions of their requests.
    pub answers: Vec<AnswerValue>,
    /// Sessions that were refused, whose last usage is to be reported.
    pub lost: Vec<(Seid, FormerSession)>,
    /// Datagrams that need sessions.
    pub postponed: VecDeque<(SocketAddr, Vec<u8>)>,
    /// While this node is a standby.
    pub followed: Option<Box<FollowedRecords>>,
    pub restored: usize,
    pub refused: usize,
}

impl NodeRestoration {
    /// A session of `owner`, or of nobody knows whom, is not restored.
    pub(crate) fn note_loss(&mut self, owner: Option<OwnerId>) {
        match owner {
            None => self.is_loss_unknown = true,
            Some(owner) => drop(self.lost_of.insert(owner)),
        }
    }
}
