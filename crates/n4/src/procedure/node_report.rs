//! Node reports: what happened to the user plane paths towards GTP-U peers.
//!
//! Every associated CP function is told, one request in flight each; what happens meanwhile waits,
//! one state per GTP-U peer, and leaves in the next request. A failure that is over before it was
//! told is not told. Spec: TS 29.244 §6.2.5, §7.4.5.1.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use adit_pfcp::MessageBody;
use adit_pfcp::grouped::{UserPlanePathFailureReport, UserPlanePathRecoveryReport};
use adit_pfcp::ie::{NodeReportType, RemoteGtpuPeer};
use adit_pfcp::message::{NodeReportRequest, NodeReportResponse};
use adit_session::OwnerId;
use adit_types::Nanos;
use adit_types::limits::{NODE_REPORT_PEERS_MAX, PATHS_TO_REPORT_MAX};

use crate::node::{Node, Request};
use crate::transaction::Purpose;

/// State of a user plane path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Failed,
    Recovered,
}

/// What one CP function has yet to be told.
#[derive(Debug, Default)]
pub(crate) struct PathReports {
    waiting: BTreeMap<IpAddr, Path>,
    in_flight: bool,
}

impl PathReports {
    /// False when there is no room.
    fn push(&mut self, gtpu_peer: IpAddr, path: Path) -> bool {
        match self.waiting.get(&gtpu_peer) {
            Some(Path::Failed) if path == Path::Recovered => {
                self.waiting.remove(&gtpu_peer);
                true
            }
            None if self.waiting.len() >= PATHS_TO_REPORT_MAX => false,
            _ => {
                self.waiting.insert(gtpu_peer, path);
                true
            }
        }
    }

    /// What the next request tells; it counts as in flight from now on.
    fn start(&mut self) -> Option<Vec<(IpAddr, Path)>> {
        if self.in_flight || self.waiting.is_empty() {
            return None;
        }
        self.in_flight = true;
        let next = || self.waiting.pop_first();
        Some(std::iter::from_fn(next).take(NODE_REPORT_PEERS_MAX).collect())
    }
}

impl Node {
    /// Tells all CP functions that the path towards a GTP-U peer does not work any more.
    /// Spec: TS 29.244 §7.4.5.1.2; TS 23.527 §5.4.
    pub fn report_path_failure(&mut self, now: Nanos, gtpu_peer: IpAddr) {
        self.report_path(now, gtpu_peer, Path::Failed);
    }

    /// Tells all CP functions that the path towards a GTP-U peer works again.
    /// Spec: TS 29.244 §7.4.5.1.3; TS 23.527 §5.4.
    pub fn report_path_recovery(&mut self, now: Nanos, gtpu_peer: IpAddr) {
        self.report_path(now, gtpu_peer, Path::Recovered);
    }

    fn report_path(&mut self, now: Nanos, gtpu_peer: IpAddr, path: Path) {
        let associated = self.peers.values_mut().filter(|peer| peer.association.is_some());
        let lost = associated.filter_map(|peer| (!peer.paths.push(gtpu_peer, path)).then_some(()));
        self.counters.scalars.node_reports_lost_queue_full +=
            crate::association::as_count(lost.count());
        self.send_node_reports(now);
    }

    fn send_node_reports(&mut self, now: Nanos) {
        let due: Vec<_> = self
            .peers
            .values_mut()
            .filter_map(|peer| {
                let association = peer.association.as_ref()?;
                let to = SocketAddr::new(association.address, association.port);
                Some((association.owner, to, peer.paths.start()?))
            })
            .collect();
        for (owner, to, paths) in due {
            self.send_node_report(now, owner, to, &paths);
        }
    }

    fn send_node_report(
        &mut self,
        now: Nanos,
        owner: OwnerId,
        to: SocketAddr,
        paths: &[(IpAddr, Path)],
    ) {
        let of = |path| -> Vec<RemoteGtpuPeer<'_>> {
            let peers = paths.iter().filter(|&&(_, of)| of == path);
            peers.map(|&(gtpu_peer, _)| remote_gtpu_peer(gtpu_peer)).collect()
        };
        let (failed, recovered) = (of(Path::Failed), of(Path::Recovered));
        let mut report_type = NodeReportType::default();
        if !failed.is_empty() {
            report_type |= NodeReportType::UPFR;
        }
        if !recovered.is_empty() {
            report_type |= NodeReportType::UPRR;
        }
        let node_id = self.config.node_id.clone();
        let mut body = NodeReportRequest::new(node_id.to_ie(), report_type);
        if !failed.is_empty() {
            let report = UserPlanePathFailureReport::new(failed.as_slice().into());
            body.user_plane_path_failure_report = Some(report);
        }
        if !recovered.is_empty() {
            let report = UserPlanePathRecoveryReport::new(recovered.as_slice().into());
            body.user_plane_path_recovery_report = Some(report);
        }
        self.send_request(now, to, &body, Purpose::NodeReport { owner });
    }

    /// Takes the response to a node report.
    pub(crate) fn handle_node_report_response(&mut self, response: &Request<'_>) {
        let Ok(message) = NodeReportResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects = |purpose: &Purpose| matches!(purpose, Purpose::NodeReport { .. });
        let sequence = response.header.sequence;
        let purpose = self.transactions.take(response.from, sequence, expects);
        let Some(Purpose::NodeReport { owner }) = purpose else {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        };
        if !message.cause.is_accepted() {
            self.counters.scalars.node_reports_refused += 1;
        }
        self.finish_node_report(response.now, owner);
    }

    /// The node report in flight is over, whatever became of it.
    pub(crate) fn finish_node_report(&mut self, now: Nanos, owner: OwnerId) {
        for peer in self.peers.values_mut() {
            if peer.association.as_ref().is_some_and(|association| association.owner == owner) {
                peer.paths.in_flight = false;
            }
        }
        self.send_node_reports(now);
    }
}

fn remote_gtpu_peer(addr: IpAddr) -> RemoteGtpuPeer<'static> {
    let mut peer = RemoteGtpuPeer::default();
    match addr {
        IpAddr::V4(addr) => peer.v4 = Some(addr),
        IpAddr::V6(addr) => peer.v6 = Some(addr),
    }
    peer
}
