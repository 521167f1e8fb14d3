//! Node reports: events of GTP-U peers, and of user plane paths to them.
//!
//! Every associated CP function gets reports of paths that failed or recovered; of peers that
//! restarted, if it supports these (RPGUR); of delays, if it requested them. A CP function has at
//! most one request in flight. Events meanwhile wait, one state per GTP-U peer, for the next
//! request. A failure that ends before it was reported is not reported. Spec: TS 29.244 §6.2.5,
//! §7.4.5.1.

use core::net::{IpAddr, SocketAddr};

use adit_pfcp::MessageBody;
use adit_pfcp::grouped::{
    GtpuPathQosReport, PathQosInformation, PeerUpRestartReport, UserPlanePathFailureReport,
    UserPlanePathRecoveryReport,
};
use adit_pfcp::ie::{
    AveragePacketDelay, CpFunctionFeatures, EventTimeStamp, MaximumPacketDelay, MinimumPacketDelay,
    NodeReportType, RemoteGtpuPeer, StartTime,
};
use adit_pfcp::message::{NodeReportRequest, NodeReportResponse};
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::counters::as_count;
use crate::node::{Node, ReceivedMessage};
use crate::path_qos::PathDelays;
use crate::path_reports::{NodeReportBatch, ReportedPathState};
use crate::transaction::RequestPurpose;

impl Node {
    /// Sends User Plane Path Failure Reports to all CP functions. Spec: TS 29.244 §7.4.5.1.2; TS
    /// 23.527 §5.4.
    pub fn report_path_failure(&mut self, now: Nanos, gtpu_peer: IpAddr) {
        self.report_path(now, gtpu_peer, ReportedPathState::Failed);
    }

    /// Sends User Plane Path Recovery Reports to all CP functions. Spec: TS 29.244 §7.4.5.1.3; TS
    /// 23.527 §5.4.
    pub fn report_path_recovery(&mut self, now: Nanos, gtpu_peer: IpAddr) {
        self.report_path(now, gtpu_peer, ReportedPathState::Recovered);
    }

    fn report_path(&mut self, now: Nanos, gtpu_peer: IpAddr, path: ReportedPathState) {
        let associated = self.peers.iter_mut().filter(|peer| peer.association.is_some());
        let lost = associated.filter_map(|peer| (!peer.paths.push(gtpu_peer, path)).then_some(()));
        self.counters.scalars.node_reports_lost_queue_full += as_count(lost.count());
        self.send_node_reports(now);
    }

    /// Reports a restart of a GTP-U peer to the CP functions that support this. Spec: TS 29.244
    /// §7.4.5.1.6; TS 23.007 §18A.
    pub(crate) fn report_peer_restart(&mut self, now: Nanos, gtpu_peer: IpAddr) {
        let feature = u64::from(CpFunctionFeatures::RPGUR.bits());
        let knows = |peer: &&mut crate::peers::PfcpPeer| {
            let association = peer.association.as_ref();
            association.is_some_and(|a| a.cp_function_features & feature != 0)
        };
        let peers = self.peers.iter_mut().filter(knows);
        let lost = peers.filter_map(|peer| (!peer.paths.push_restart(gtpu_peer)).then_some(()));
        self.counters.scalars.node_reports_lost_queue_full += as_count(lost.count());
        self.send_node_reports(now);
    }

    /// Reports path delays to the CP functions that requested them. Spec: TS 29.244 §7.4.5.1.5.
    pub(crate) fn report_path_delays(&mut self, now: Nanos, reports: Vec<(OwnerId, PathDelays)>) {
        for (owner, delays) in reports {
            let peer = self.peers.peer_of_mut(owner);
            let lost = peer.is_some_and(|peer| !peer.paths.push_delays(delays));
            self.counters.scalars.node_reports_lost_queue_full += u64::from(lost);
        }
        self.send_node_reports(now);
    }

    pub(crate) fn send_node_reports(&mut self, now: Nanos) {
        let due: Vec<_> = self
            .peers
            .iter_mut()
            .filter_map(|peer| {
                let association = peer.association.as_ref().filter(|known| !known.is_silent())?;
                let to = association.socket();
                Some((association.owner, to, peer.paths.start(now)?))
            })
            .collect();
        for (owner, to, batch) in due {
            self.send_node_report(now, owner, to, &batch);
        }
    }

    fn send_node_report(
        &mut self,
        now: Nanos,
        owner: OwnerId,
        to: SocketAddr,
        batch: &NodeReportBatch,
    ) {
        let of = |path| -> Vec<RemoteGtpuPeer<'_>> {
            let peers = batch.paths.iter().filter(|&&(_, of)| of == path);
            peers.map(|&(gtpu_peer, _)| remote_gtpu_peer(gtpu_peer)).collect()
        };
        let (failed, recovered) = (of(ReportedPathState::Failed), of(ReportedPathState::Recovered));
        let restarted: Vec<_> =
            batch.restarted.iter().map(|&peer| remote_gtpu_peer(peer)).collect();
        let information: Vec<_> = batch.delays.iter().map(information).collect();
        let ntp_clock = self.ntp_clock;
        let delays = batch.delays.iter().zip(&information).map(|(delays, information)| {
            let (peer, at) =
                (remote_gtpu_peer(delays.peer), EventTimeStamp(ntp_clock.seconds(delays.at)));
            let information = information.as_slice().into();
            let mut report = GtpuPathQosReport::new(peer, delays.triggers, at, information);
            report.start_time = Some(StartTime(ntp_clock.seconds(delays.start)));
            report
        });
        let delays: Vec<_> = delays.collect();
        let mut report_type = NodeReportType::default();
        report_type.set(NodeReportType::UPFR, !failed.is_empty());
        report_type.set(NodeReportType::UPRR, !recovered.is_empty());
        report_type.set(NodeReportType::PURR, !restarted.is_empty());
        report_type.set(NodeReportType::GPQR, !delays.is_empty());
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
        if !restarted.is_empty() {
            let report = PeerUpRestartReport::new(restarted.as_slice().into());
            body.peer_up_restart_report = Some(report);
        }
        body.gtpu_path_qos_reports = delays.as_slice().into();
        self.send_request(now, to, &body, RequestPurpose::NodeReport { owner });
    }

    /// Processes the response to a node report.
    pub(crate) fn handle_node_report_response(&mut self, response: &ReceivedMessage<'_>) {
        let Ok(message) = NodeReportResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects =
            |purpose: &RequestPurpose| matches!(purpose, RequestPurpose::NodeReport { .. });
        let sequence = response.header.sequence;
        let purpose = self.transactions.take(response.from, sequence, expects);
        let Some(RequestPurpose::NodeReport { owner }) = purpose else {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        };
        match message.cause {
            cause if cause.is_accepted() => {
                if let Some(peer) = self.peers.peer_of_mut(owner) {
                    peer.paths.on_delivered();
                }
                self.send_node_reports(response.now);
            }
            cause => {
                self.counters.scalars.node_reports_refused += 1;
                self.note_refused_report(response, cause);
                self.on_node_report_not_delivered(response.now, owner);
            }
        }
    }

    /// Notes that the CP function refused a node report or did not answer it. The report is sent
    /// again after a pause.
    pub(crate) fn on_node_report_not_delivered(&mut self, now: Nanos, owner: OwnerId) {
        let peer = self.peers.peer_of_mut(owner);
        let lost = peer.map_or(0, |peer| peer.paths.on_not_delivered(now));
        self.counters.scalars.node_reports_lost_queue_full += as_count(lost);
    }

    /// Returns when node reports that wait for the end of a pause may be sent.
    pub(crate) fn next_node_report(&self) -> Option<Nanos> {
        let answering = |peer: &&crate::peers::PfcpPeer| {
            peer.association.as_ref().is_some_and(|known| !known.is_silent())
        };
        let peers = self.peers.iter().filter(answering);
        peers.filter_map(|peer| peer.paths.next_start()).min()
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

/// Returns the groups of one report, one for each traffic class.
fn information(delays: &PathDelays) -> Vec<PathQosInformation<'static>> {
    let groups = delays.delays.iter().map(|(marking, delays)| {
        let mut group = PathQosInformation::new(AveragePacketDelay(millis(delays.average)));
        group.minimum_packet_delay = Some(MinimumPacketDelay(millis(delays.least)));
        group.maximum_packet_delay = Some(MaximumPacketDelay(millis(delays.greatest)));
        group.transport_level_marking = *marking;
        group
    });
    groups.collect()
}

/// Converts to milliseconds, rounding up so that no delay is reported as zero.
fn millis(span: Nanos) -> u32 {
    u32::try_from(span.0.div_ceil(1_000_000)).unwrap_or(u32::MAX)
}
