//! Heartbeats in both directions, and what they tell about a peer.
//!
//! Spec: TS 29.244 §6.2.2, §7.4.2.

use core::net::SocketAddr;

use adit_pfcp::MessageBody;
use adit_pfcp::ie::RecoveryTimeStamp;
use adit_pfcp::message::{HeartbeatRequest, HeartbeatResponse};
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::association::DownReason;
use crate::node::{Node, Request};
use crate::transaction::Purpose;

impl Node {
    /// Answers a Heartbeat Request, with or without an association. A newer Recovery Time Stamp
    /// means that the peer restarted; an older one is a copy that was long on its way.
    pub(crate) fn handle_heartbeat_request(&mut self, request: &Request<'_>) {
        let Ok(message) = HeartbeatRequest::decode_body(request.body) else {
            self.counters.scalars.discarded_malformed_request += 1;
            return;
        };
        let seen = message.recovery_time_stamp.0;
        if let Some(association) = self.association(request.peer()) {
            let known = association.recovery_time_stamp;
            if association.is_time_stamp_unknown {
                self.learn_time_stamp(request.peer(), seen);
            } else if is_newer(seen, known) {
                self.bring_down(request.now, request.peer(), DownReason::PeerRestarted);
            } else if seen != known {
                self.counters.scalars.stale_recovery_time_stamps += 1;
            }
        }
        let body = HeartbeatResponse::new(RecoveryTimeStamp(self.config.recovery_time_stamp));
        self.respond_unremembered(request, &body);
    }

    /// Takes the response to a heartbeat of ours. It answers a recent request, so every change of
    /// the Recovery Time Stamp means that the peer restarted.
    pub(crate) fn handle_heartbeat_response(&mut self, response: &Request<'_>) {
        let Ok(message) = HeartbeatResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects = |purpose: &Purpose| {
            matches!(purpose, Purpose::Heartbeat { .. } | Purpose::Probe { .. })
        };
        let sequence = response.header.sequence;
        let Some(asked) = self.transactions.take(response.from, sequence, expects) else {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        };
        let interval = self.config.heartbeat_interval;
        let Some(association) = self.association_mut(response.peer()) else { return };
        association.heartbeat_in_flight = false;
        association.next_heartbeat = response.now + interval;
        if association.is_time_stamp_unknown {
            self.learn_time_stamp(response.peer(), message.recovery_time_stamp.0);
        } else if association.recovery_time_stamp != message.recovery_time_stamp.0 {
            self.bring_down(response.now, response.peer(), DownReason::PeerRestarted);
        }
        if let Purpose::Probe { owner } = asked {
            self.settle_contests(response.now, owner);
        }
    }

    /// The first Recovery Time Stamp of an address that an association moved to.
    fn learn_time_stamp(&mut self, address: core::net::IpAddr, seen: u32) {
        if let Some(association) = self.association_mut(address) {
            association.recovery_time_stamp = seen;
            association.is_time_stamp_unknown = false;
        }
    }

    pub(crate) fn send_due_heartbeats(&mut self, now: Nanos) {
        let associations = self.peers.values_mut().filter_map(|peer| peer.association.as_mut());
        let due = associations.filter(|a| !a.heartbeat_in_flight && a.next_heartbeat <= now);
        let due: Vec<(OwnerId, SocketAddr)> = due
            .map(|association| {
                association.heartbeat_in_flight = true;
                (association.owner, SocketAddr::new(association.address, association.port))
            })
            .collect();
        for (owner, to) in due {
            let body = HeartbeatRequest::new(RecoveryTimeStamp(self.config.recovery_time_stamp));
            self.send_request(now, to, &body, Purpose::Heartbeat { owner });
        }
    }

    pub(crate) fn next_heartbeat(&self) -> Option<Nanos> {
        let idle = self.associations().filter(|association| !association.heartbeat_in_flight);
        idle.map(|association| association.next_heartbeat).min()
    }

    /// No response to a heartbeat after N1 retransmissions: the association is lost.
    pub(crate) fn lose_association(&mut self, now: Nanos, owner: OwnerId) {
        let lost = self.associations().find(|association| association.owner == owner);
        if let Some(address) = lost.map(|association| association.address) {
            if self.move_to_alternative(now, address) {
                return;
            }
            self.bring_down(now, address, DownReason::HeartbeatsLost);
        }
    }
}

/// True when `seen` is a later time than `known`; NTP seconds wrap around in 2036.
pub(crate) fn is_newer(seen: u32, known: u32) -> bool {
    let ahead = seen.wrapping_sub(known);
    ahead != 0 && ahead < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_time_stamp_is_newer_across_the_wrap() {
        assert!(is_newer(2, 1));
        assert!(!is_newer(1, 1));
        assert!(!is_newer(1, 2));
        assert!(is_newer(5, u32::MAX));
    }
}
