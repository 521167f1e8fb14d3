//! Sessions that outlive their peer: a CP function that does not answer may not have restarted, and
//! users keep their service meanwhile.
//!
//! The association and its sessions stay for a time that the operator configures. The association
//! works again when the peer answers a heartbeat, or sets it up, with an unchanged Recovery Time
//! Stamp; a configured peer is also sent setups again. Session reports and node reports wait
//! meanwhile. Spec: TS 29.244 §6.2.6.2.2; TS 23.527 §4.

use core::net::IpAddr;

use adit_session::OwnerId;
use adit_types::Nanos;

use crate::association::Association;
use crate::event::{DownReason, NodeEvent};
use crate::node::Node;

impl Node {
    /// Handles a heartbeat that was not answered after N1 retransmissions.
    pub(crate) fn on_heartbeats_lost(&mut self, now: Nanos, owner: OwnerId) {
        let Some(association) = self.peers.association_of(owner) else { return };
        let (address, is_silent) = (association.address, association.is_silent());
        if is_silent {
            return self.await_peer(now, address);
        }
        if self.move_to_alternative(now, address) {
            return;
        }
        let sessions = self.sessions.store().owned_count(owner);
        let has_state = sessions > 0 || self.sessions.states.ended_len(owner) > 0;
        let outlive = self.config.sessions_outlive_peer;
        if !has_state || outlive == Nanos(0) || self.peers.successor_of(owner).is_some() {
            return self.end_association(now, address, DownReason::HeartbeatsLost);
        }
        let Some(association) = self.peers.association_mut(address) else { return };
        association.silent_until = Some(now + outlive);
        let node_id = association.node_id.clone();
        self.await_peer(now, address);
        self.peers.setups.note_disconnected(now, address);
        self.sessions.records.note_peer_state(owner);
        self.counters.scalars.peers_silent += 1;
        self.events.push_back(NodeEvent::PeerSilent { address, node_id, sessions, outlive });
    }

    /// Schedules the next heartbeat to a silent peer, after the usual interval.
    fn await_peer(&mut self, now: Nanos, address: IpAddr) {
        let interval = self.config.heartbeat_interval;
        if let Some(association) = self.peers.association_mut(address) {
            association.heartbeat_in_flight = false;
            association.next_heartbeat = now + interval;
        }
    }

    /// Handles an answer of a silent peer that has not restarted. If the peer is configured, only
    /// an association setup shows whether it still has the association, so nothing happens yet.
    pub(crate) fn on_silent_peer_answered(&mut self, now: Nanos, address: IpAddr) {
        if self.peers.admission.is_configured(address) {
            return;
        }
        let Some(association) = self.peers.association_mut(address) else { return };
        let (owner, node_id) = (association.owner, association.node_id.clone());
        if association.silent_until.take().is_none() {
            return;
        }
        let sessions = self.sessions.store().owned_count(owner);
        self.events.push_back(NodeEvent::PeerAnswers { address, node_id, sessions });
        self.sessions.records.note_peer_state(owner);
        self.send_waiting_reports(now, owner);
    }

    /// Sends the reports that waited until the peer of an association answers again.
    pub(crate) fn send_waiting_reports(&mut self, now: Nanos, owner: OwnerId) {
        self.sessions.states.release_reports(owner);
        self.send_reports(now);
        self.send_node_reports(now);
    }

    /// Returns when the first association of a silent peer ends; `None` also while records are
    /// restored.
    pub(crate) fn next_silent_end(&self) -> Option<Nanos> {
        let (until, _) = self.peers.next_silent_end().filter(|_| !self.is_restoring())?;
        Some(until)
    }

    /// Ends the associations of peers that have been silent for the configured time.
    pub(crate) fn end_silent_associations(&mut self, now: Nanos) {
        while let Some((_, address)) =
            self.peers.next_silent_end().filter(|(until, _)| *until <= now)
        {
            self.end_association(now, address, DownReason::SilentTooLong);
        }
    }

    /// Transfers the sessions of silent members of an SMF set to `owner`, a member that answers.
    /// Spec: TS 29.244 §5.22.
    pub(crate) fn relieve_silent_peers(&mut self, now: Nanos, owner: OwnerId) {
        let silent = |known: &&Association| known.owner != owner && known.is_silent();
        let silent = self.associations().filter(silent);
        let relieved = silent.filter(|known| self.peers.shares_control(known.owner, owner));
        for address in relieved.map(|known| known.address).collect::<Vec<_>>() {
            self.end_association(now, address, DownReason::HeartbeatsLost);
        }
    }
}
