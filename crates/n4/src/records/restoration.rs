//! The state of a restoration.

use core::net::{IpAddr, SocketAddr};
use std::collections::{HashMap, VecDeque};

use adit_session::{FormerSession, KeptUsage, OwnerId};
use adit_types::Seid;

use super::FollowedRecords;
use super::values::AnswerValue;

/// What is known while records are restored.
#[derive(Debug, Default)]
pub(crate) struct NodeRestoration {
    /// Usage that is later than that in the record of the session.
    pub usage: HashMap<Seid, KeptUsage>,
    /// Associations that ended, and the one that gets their sessions.
    pub heirs: HashMap<OwnerId, (OwnerId, IpAddr)>,
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
