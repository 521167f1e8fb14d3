//! Announces that all our sessions end when this node stops; see [`crate::csid`].

use core::net::SocketAddr;

use adit_pfcp::MessageBody;
use adit_pfcp::ie::FqCsid;
use adit_pfcp::message::{SessionSetDeletionRequest, SessionSetDeletionResponse};
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::counters::as_count;
use crate::csid::{own_csid, own_fq_csid};
use crate::node::{Node, ReceivedMessage};
use crate::transaction::RequestPurpose;

impl Node {
    /// Sends Session Set Deletion Requests for our FQ-CSID to the CP functions that received it,
    /// since the sessions are gone. Call it last: the sessions themselves end with the process.
    ///
    /// Cost: one step per association; a search of its sessions if its CP function has put few of
    /// them into sets: 0.1 s for 1,000,000 sessions without a set. No answer waits at that point.
    pub fn give_up_sessions(&mut self, now: Nanos) {
        let has_member = |owner| {
            let mut sessions = self.sessions.store().owned_by(owner);
            sessions.any(|session| self.sessions.states.is_in_own_set(session.index()))
        };
        let told = self.associations().filter(|association| has_member(association.owner));
        let told: Vec<(OwnerId, SocketAddr)> = told.map(|a| (a.owner, a.socket())).collect();
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

    /// Processes the response to a Session Set Deletion Request of ours.
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
