//! Runs the measurement of GTP-U path delays; see [`crate::path_qos`].

use adit_types::Nanos;

use crate::counters::as_count;
use crate::node::Node;

impl Node {
    /// Sends Echo Requests and reports of path delays that are due.
    pub(crate) fn measure_paths(&mut self, now: Nanos) {
        self.scan_peers(now);
        self.path_qos.send_due_probes(now);
        let reports = self.path_qos.due_reports(now);
        if !reports.is_empty() {
            self.report_path_delays(now, reports);
        }
    }

    /// Scans the next peers for controls that are new.
    fn scan_peers(&mut self, now: Nanos) {
        let most = self.path_qos.peers_per_turn();
        for _ in 0..most {
            let Some((owner, peer)) = self.path_qos.take_named_peer() else { break };
            let sides = self.sessions.store().peer_sides(peer);
            let left_out = self.path_qos.set_peer_of(now, owner, peer, sides);
            self.counters.scalars.paths_not_measured += as_count(left_out);
        }
        let Some(behind) = self.path_qos.scan_position() else { return };
        let peers: Vec<_> = self.sessions.store().peers_after(behind).take(most).collect();
        for &(peer, sides) in &peers {
            let left_out = self.path_qos.set_peer(now, peer, sides);
            self.counters.scalars.paths_not_measured += as_count(left_out);
        }
        let is_last = peers.len() < most;
        self.path_qos.note_scanned(peers.last().filter(|_| !is_last).map(|(peer, _)| *peer));
    }
}
