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
use adit_types::{Nanos, Seid};

use crate::node::{Node, NodeConfig, Request};
use crate::session_set::SetKey;
use crate::transaction::Purpose;

/// The CSID of this run; zero is none.
pub(crate) fn csid(config: &NodeConfig) -> [u8; 2] {
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
pub(crate) fn own_key(config: &NodeConfig) -> SetKey {
    SetKey::Csid(set_node(config), u16::from_be_bytes(csid(config)))
}

impl Node {
    /// Tells the CP functions that know our FQ-CSID that its sessions are gone, and ends them: this
    /// node stops.
    pub fn give_up_sessions(&mut self, now: Nanos) {
        let members = self.session_sets.members(&[own_key(&self.config)]);
        let members = members.into_iter().filter_map(|index| self.store.session_at(index));
        let members: Vec<(Seid, OwnerId)> =
            members.map(|session| (session.up_seid(), session.owner())).collect();
        let told = self.associations().filter(|a| members.iter().any(|&(_, of)| of == a.owner));
        let told: Vec<(OwnerId, SocketAddr)> =
            told.map(|a| (a.owner, SocketAddr::new(a.address, a.port))).collect();
        let node_id = self.config.node_id.clone();
        let csid = csid(&self.config);
        let fq_csids: Vec<FqCsid<'_>> = own_fq_csid(&self.config, &csid).into_iter().collect();
        for (owner, to) in told {
            let mut body = SessionSetDeletionRequest::new(node_id.to_ie());
            body.fq_csids = fq_csids.as_slice().into();
            self.send_request(now, to, &body, Purpose::SessionSetDeletion { owner });
        }
        for (up_seid, _) in members {
            if self.end_locally(up_seid).is_some() {
                self.counters.scalars.sessions_given_up += 1;
            }
        }
    }

    /// Takes the response to a Session Set Deletion Request of ours.
    pub(crate) fn handle_session_set_deletion_response(&mut self, response: &Request<'_>) {
        let Ok(message) = SessionSetDeletionResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects = |purpose: &Purpose| matches!(purpose, Purpose::SessionSetDeletion { .. });
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
