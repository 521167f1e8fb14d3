//! Runs the monitoring of GTP-U paths, and reports failure and recovery; see [`crate::path`].

use core::net::IpAddr;
use core::ops::Bound;

use adit_rules::rule::GtpuTunnel;
use adit_session::PeerSides;
use adit_types::Nanos;
use adit_types::limits::TIMERS_PER_TURN_MAX;

use crate::counters::as_count;
use crate::event::NodeEvent;
use crate::node::Node;
use crate::path::{EchoOutcome, PathEntry, PathMtuChange, PathTransition};
use crate::path_qos::MEASURES_DELAY_BIT;

/// An Echo Response that a worker received at the time `at`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EchoResponse {
    pub peer: IpAddr,
    pub sequence: u16,
    /// When the sender started, if the response contains that.
    pub started: Option<u32>,
    pub at: Nanos,
}

impl Node {
    /// Runs work on paths that is due, a bounded part of it.
    pub(crate) fn watch_paths(&mut self, now: Nanos) {
        for _ in 0..self.path_qos.peers_per_turn() {
            let Some(peer) = self.sessions.take_changed_peer() else { break };
            let sides = self.sessions.store().peer_sides(peer);
            self.paths.set_peer(now, peer, sides != PeerSides::default());
            let left_out = self.path_qos.set_peer(now, peer, sides);
            self.counters.scalars.paths_not_measured += as_count(left_out);
        }
        self.paths.has_peers_left = self.sessions.store().has_changed_peer();
        self.paths.remove_expired_mtus(now);
        let mut allowance = TIMERS_PER_TURN_MAX;
        while let Some(turn) = self.paths.poll_due(now, &mut allowance) {
            self.report_path_transition(now, turn);
        }
    }

    /// Processes an Echo Response.
    pub(crate) fn handle_echo_response(&mut self, now: Nanos, response: EchoResponse) {
        let EchoResponse { peer, sequence, started, at } = response;
        if sequence & MEASURES_DELAY_BIT != 0 {
            let reports = self.path_qos.answered(peer, sequence, at);
            self.report_path_delays(now, reports);
            started
                .into_iter()
                .for_each(|started| self.on_unsolicited_recovery(now, peer, started));
            return;
        }
        let EchoOutcome { transition, is_restart } =
            self.paths.answered(now, peer, sequence, started);
        if let Some(transition) = transition {
            self.report_path_transition(now, transition);
        }
        if is_restart {
            self.on_gtpu_peer_restarted(now, peer);
        }
    }

    /// Processes a start time that a GTP-U peer sent without a request. Does not store addresses
    /// that no FAR sends to.
    pub(crate) fn on_unsolicited_recovery(&mut self, now: Nanos, peer: IpAddr, started: u32) {
        let is_peer = self.sessions.store().peer_sides(peer) != PeerSides::default();
        self.paths.set_peer(now, peer, is_peer);
        self.paths.note_unproven_start(now, peer, started);
    }

    /// Processes a router's message that a packet into a tunnel was too large. Ignores it if no
    /// session sends into that tunnel.
    pub(crate) fn narrow_path(
        &mut self,
        now: Nanos,
        tunnel: GtpuTunnel,
        router: IpAddr,
        mtu_bytes: u16,
    ) {
        if self.sessions.store().tunnel_users(tunnel).next().is_none() {
            self.counters.scalars.path_mtus_disbelieved += 1;
            return;
        }
        self.counters.scalars.path_mtus_told += 1;
        let peer = tunnel.addr;
        self.paths.set_peer(now, peer, true);
        if self.paths.narrow(now, peer, router, mtu_bytes) {
            self.events.push_back(NodeEvent::PathNarrowed { peer, mtu_bytes, router });
        }
    }

    /// Returns the next change of the maximum packet size to a GTP-U peer. Call it until it returns
    /// `None`.
    pub fn poll_path_mtu(&mut self) -> Option<PathMtuChange> {
        self.paths.poll_mtu_change()
    }

    fn report_path_transition(&mut self, now: Nanos, turn: PathTransition) {
        match turn {
            PathTransition::Failed(peer) => {
                self.counters.scalars.path_failures += 1;
                self.events.push_back(NodeEvent::PathDown { peer });
                self.report_path_failure(now, peer);
            }
            PathTransition::Recovered(peer) => {
                self.counters.scalars.path_recoveries += 1;
                self.events.push_back(NodeEvent::PathUp { peer });
                self.report_path_recovery(now, peer);
            }
        }
    }

    /// Returns when the next work on paths is due. Peers that changed since the last iteration do
    /// not count: the next iteration, which need not come sooner for them, processes them.
    pub(crate) fn next_path_deadline(&self) -> Option<Nanos> {
        let due = self.paths.deadlines.first().map(|(due, _)| *due);
        let wider = self.paths.narrow.first().map(|(until, _)| *until);
        let due = due.into_iter().chain(wider).min();
        if self.paths.has_peers_left { Some(Nanos(0)) } else { due }
    }

    /// Returns the paths to all GTP-U peers, by address; without monitoring only paths with an MTU
    /// below that of the link.
    pub fn paths(&self) -> impl Iterator<Item = PathEntry> + '_ {
        self.paths_after(None)
    }

    /// Does the same as [`Self::paths`], but begins after the path to `peer`; at the first for
    /// `None`.
    pub fn paths_after(&self, peer: Option<IpAddr>) -> impl Iterator<Item = PathEntry> + '_ {
        let first = peer.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.paths.paths.range((first, Bound::Unbounded));
        let watched = behind.filter(|(_, path)| self.paths.is_on() || path.mtu.is_some());
        watched.map(|(&peer, path)| PathEntry {
            peer,
            state: path.state,
            requests: path.requests,
            responses: path.responses,
            mtu: path.mtu,
        })
    }

    pub(crate) fn on_gtpu_peer_restarted(&mut self, now: Nanos, peer: IpAddr) {
        self.counters.scalars.gtpu_peers_restarted += 1;
        self.events.push_back(NodeEvent::GtpuPeerRestarted { peer });
        self.report_peer_restart(now, peer);
    }
}
