//! Our own FQ-CSID: the set of all sessions of CP functions that handle partial failures.
//!
//! A CP function that names an FQ-CSID in a session establishment gets ours in the answer. By it
//! it may delete the sessions of this run of ours, and we tell by it that all of them are gone: when
//! this node stops and the CP function did not release them in time. A restart changes the CSID.
//! Spec: TS 29.244 §6.2.9, §7.4.6, §8.2.43; TS 23.007 §23.

use core::net::{IpAddr, SocketAddr};

use adit_pfcp::MessageBody;
use adit_pfcp::ie::{FqCsid, FqCsidNode};
use adit_pfcp::message::{SessionSetDeletionRequest, SessionSetDeletionResponse};
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::association::as_count;
use crate::node::{Node, NodeConfig, ReceivedMessage};
use crate::session_state::SetKey;
use crate::transaction::RequestPurpose;

/// The CSID of this run; zero is none.
pub(crate) fn own_csid(config: &NodeConfig) -> [u8; 2] {
    let [.., high, low] = config.recovery_time_stamp.to_be_bytes();
    [high, low | 1]
}

fn set_node(config: &NodeConfig) -> FqCsidNode {
    match config.address {
        IpAddr::V4(addr) => FqCsidNode::Ipv4(addr),
        IpAddr::V6(addr) => FqCsidNode::Ipv6(addr),
    }
}

/// Our FQ-CSID with the CSID of this run.
pub(crate) fn own_fq_csid<'a>(config: &NodeConfig, csid: &'a [u8; 2]) -> Option<FqCsid<'a>> {
    FqCsid::new(set_node(config), csid, None)
}

/// The key of our set.
pub(crate) fn own_set_key(config: &NodeConfig) -> SetKey {
    SetKey::Csid(set_node(config), u16::from_be_bytes(own_csid(config)))
}

impl Node {
    /// Tells the CP functions that know our FQ-CSID that its sessions are gone: this node stops, and
    /// is not to be used any more. The sessions stay where they are: they end with the process.
    ///
    /// One step per association, unless the CP function named sets for few of its many sessions:
    /// 1,000,000 sessions without a set are looked through in 0.1 s. Nobody waits for an answer then.
    pub fn give_up_sessions(&mut self, now: Nanos) {
        let has_member = |owner| {
            let mut sessions = self.sessions.store().owned_by(owner);
            sessions.any(|session| self.sessions.states.is_in_own_set(session.index()))
        };
        let told = self.associations().filter(|association| has_member(association.owner));
        let told: Vec<(OwnerId, SocketAddr)> =
            told.map(|a| (a.owner, SocketAddr::new(a.address, a.port))).collect();
        self.counters.scalars.sessions_given_up += as_count(self.sessions.states.own_set_len());
        let node_id = self.config.node_id.clone();
        let csid = own_csid(&self.config);
        let fq_csids: Vec<FqCsid<'_>> = own_fq_csid(&self.config, &csid).into_iter().collect();
        for (owner, to) in told {
            let mut body = SessionSetDeletionRequest::new(node_id.to_ie());
            body.fq_csids = fq_csids.as_slice().into();
            self.send_request(now, to, &body, RequestPurpose::SessionSetDeletion { owner });
        }
    }

    /// Takes the response to a Session Set Deletion Request of ours.
    pub(crate) fn handle_session_set_deletion_response(&mut self, response: &ReceivedMessage<'_>) {
        let Ok(message) = SessionSetDeletionResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects =
            |purpose: &RequestPurpose| matches!(purpose, RequestPurpose::SessionSetDeletion { .. });
        let sequence = response.header.sequence;
        if self.transactions.take(response.from, sequence, expects).is_none() {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        }
        if !message.cause.is_accepted() {
            self.counters.scalars.session_set_deletions_refused += 1;
        }
    }
}
