//! Heartbeats in both directions, and restarts of peers that they reveal.
//!
//! Spec: TS 29.244 §6.2.2, §7.4.2.

use adit_pfcp::MessageBody;
use adit_pfcp::message::{HeartbeatRequest, HeartbeatResponse};
use adit_types::Nanos;

use crate::association::{RestartClaim, TimeStampMeaning};
use crate::event::DownReason;
use crate::node::{Node, ReceivedMessage};
use crate::transaction::RequestPurpose;

impl Node {
    /// Answers a Heartbeat Request, whether the sender has an association or not.
    ///
    /// A newer Recovery Time Stamp, or an older one for the second time, may mean that the peer
    /// restarted. To decide, sends a heartbeat at once; the peer's response counts. INTEROP: some
    /// control planes write the time of sending into every request, and their true time stamp into
    /// responses only; once a response has shown that, the time stamps in that peer's requests are
    /// ignored. Spec: TS 29.244 §8.2.65.
    pub(crate) fn handle_heartbeat_request(&mut self, request: &ReceivedMessage<'_>) {
        let Ok(message) = HeartbeatRequest::decode_body(request.body) else {
            self.counters.scalars.discarded_malformed_request += 1;
            return;
        };
        let seen = message.recovery_time_stamp.0;
        let mut is_stale = false;
        if let Some(association) = self.peers.association_mut(request.peer()) {
            if association.is_silent() {
                // A silent peer may be back. Only its response to a request of ours confirms that.
                association.next_heartbeat = request.now;
            }
            let meaning = association.classify_time_stamp(seen);
            let is_refuted = association.restart_claim == RestartClaim::Refuted;
            if meaning == TimeStampMeaning::Restarted && !is_refuted {
                association.restart_claim = RestartClaim::Open;
                association.next_heartbeat = request.now;
            }
            is_stale = meaning == TimeStampMeaning::Late;
        }
        self.counters.scalars.stale_recovery_time_stamps += u64::from(is_stale);
        let body = HeartbeatResponse::new(self.time_stamp_towards(request.peer()));
        self.respond_unremembered(request, &body);
    }

    /// Processes the response to a heartbeat of ours. A newer Recovery Time Stamp means that the
    /// peer restarted. An older one must be repeated in the next response, whose request is sent at
    /// once.
    pub(crate) fn handle_heartbeat_response(&mut self, response: &ReceivedMessage<'_>) {
        let Ok(message) = HeartbeatResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects = |purpose: &RequestPurpose| {
            matches!(purpose, RequestPurpose::Heartbeat { .. } | RequestPurpose::Probe { .. })
        };
        let sequence = response.header.sequence;
        let Some(asked) = self.transactions.take(response.from, sequence, expects) else {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        };
        let interval = self.config.heartbeat_interval;
        let Some(association) = self.peers.association_mut(response.peer()) else { return };
        association.heartbeat_in_flight = false;
        association.next_heartbeat = response.now + interval;
        let seen = message.recovery_time_stamp.0;
        let mut is_late = false;
        if association.is_time_stamp_unknown {
            // This is the first time stamp from the address to which the association moved.
            association.recovery_time_stamp = seen;
            association.is_time_stamp_unknown = false;
            self.sessions.records.note_association(response.peer());
        } else {
            match association.classify_time_stamp(seen) {
                TimeStampMeaning::Known if association.restart_claim == RestartClaim::Open => {
                    association.restart_claim = RestartClaim::Refuted;
                }
                TimeStampMeaning::Known => {}
                TimeStampMeaning::Restarted => {
                    self.end_association(response.now, response.peer(), DownReason::PeerRestarted);
                }
                TimeStampMeaning::Late => {
                    association.next_heartbeat = response.now;
                    is_late = true;
                }
            }
        }
        self.counters.scalars.stale_recovery_time_stamps += u64::from(is_late);
        if !is_late {
            self.on_silent_peer_answered(response.now, response.peer());
        }
        if let RequestPurpose::Probe { owner } = asked {
            self.decide_contested_setups(response.now, owner);
        }
    }

    pub(crate) fn send_due_heartbeats(&mut self, now: Nanos) {
        for (owner, to) in self.peers.take_due_heartbeats(now) {
            let body = HeartbeatRequest::new(self.time_stamp_towards(to.ip()));
            self.send_request(now, to, &body, RequestPurpose::Heartbeat { owner });
        }
    }
}
