//! Sessions that outlive their peer: a CP function that does not answer is not one that restarted,
//! and users keep their service meanwhile.
//!
//! The association stays, and so do its sessions, for a time that the operator sets. It is up again
//! when the peer answers a heartbeat, or sets it up, with the Recovery Time Stamp that it had; a
//! configured peer gets setups again. Session reports and node reports wait. Spec: TS 29.244
//! §6.2.6.2.2; TS 23.527 §4.

use core::net::IpAddr;

use adit_session::OwnerId;
use adit_types::Nanos;

use crate::association::Association;
use crate::event::{DownReason, NodeEvent};
use crate::node::Node;

impl Node {
    /// No response to a heartbeat after N1 retransmissions.
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
        self.peers.setups.disconnected(now, address);
        self.sessions.records.note_peer_state(owner);
        self.counters.scalars.peers_silent += 1;
        self.events.push_back(NodeEvent::PeerSilent { address, node_id, sessions, outlive });
    }

    /// The next heartbeat of a silent peer is due after the usual interval.
    fn await_peer(&mut self, now: Nanos, address: IpAddr) {
        let interval = self.config.heartbeat_interval;
        if let Some(association) = self.peers.association_mut(address) {
            association.heartbeat_in_flight = false;
            association.next_heartbeat = now + interval;
        }
    }

    /// A silent peer answered a heartbeat with the Recovery Time Stamp that it had. Whether a
    /// configured one still has the association, only a setup shows.
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
        self.send_what_waited(now, owner);
    }

    /// The peer of an association answers again: reports that waited for it leave.
    pub(crate) fn send_what_waited(&mut self, now: Nanos, owner: OwnerId) {
        self.sessions.states.release_reports(owner);
        self.send_reports(now);
        self.send_node_reports(now);
    }

    /// When the first association ends whose peer is silent. While records are restored none does.
    pub(crate) fn next_silent_end(&self) -> Option<Nanos> {
        let (until, _) = self.peers.next_silent_end().filter(|_| !self.is_restoring())?;
        Some(until)
    }

    /// Ends the associations whose sessions have outlived their peer for long enough.
    pub(crate) fn end_silent_associations(&mut self, now: Nanos) {
        while let Some((_, address)) =
            self.peers.next_silent_end().filter(|(until, _)| *until <= now)
        {
            self.end_association(now, address, DownReason::SilentTooLong);
        }
    }

    /// A member of an SMF set is there: it gets the sessions of the silent ones. Spec: TS 29.244
    /// §5.22.
    pub(crate) fn relieve_silent_peers(&mut self, now: Nanos, owner: OwnerId) {
        let silent = |known: &&Association| known.owner != owner && known.is_silent();
        let silent = self.associations().filter(silent);
        let relieved = silent.filter(|known| self.peers.shares_control(known.owner, owner));
        for address in relieved.map(|known| known.address).collect::<Vec<_>>() {
            self.end_association(now, address, DownReason::HeartbeatsLost);
        }
    }
}
