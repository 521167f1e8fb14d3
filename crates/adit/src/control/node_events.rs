//! Log lines for events of the PFCP node.

use adit_n4::{DownReason, NodeEvent};
use adit_store::RecordKey;
use tracing::{error, info, warn};

use crate::log::N4_TARGET;
use crate::log::audit;

/// Logs an event. Since peers cause events, lines of each kind are limited in the log; the end of
/// an operator's act is an audit line, which is not limited.
pub(super) fn log_event(event: &NodeEvent) {
    match event {
        NodeEvent::AssociationUp { .. }
        | NodeEvent::AssociationDown { .. }
        | NodeEvent::PeerSilent { .. }
        | NodeEvent::PeerAnswers { .. }
        | NodeEvent::PeerRestarted { .. } => log_association(event),
        NodeEvent::NotReleased { address, node_id, failure } => {
            warn!(
                target: audit::TARGET, %node_id, %address, %failure,
                "association not released; adit association release {node_id} --force ends it without the SMF"
            );
        }
        NodeEvent::ReportRefused { from, message_type, cause } => {
            warn!(target: N4_TARGET, %from, message_type, cause, "the peer refused a report");
        }
        NodeEvent::PathDown { peer } => warn!(target: N4_TARGET, %peer, "GTP-U path failed"),
        NodeEvent::PathNarrowed { peer, mtu_bytes, router } => warn!(
            target: N4_TARGET,
            %peer,
            mtu_bytes,
            %router,
            "the path to a GTP-U peer is narrower than its link: for ten minutes packets to it are cut or refused by this length"
        ),
        NodeEvent::PathUp { peer } => info!(target: N4_TARGET, %peer, "GTP-U path recovered"),
        NodeEvent::GtpuPeerRestarted { peer } => {
            warn!(target: N4_TARGET, %peer, "GTP-U peer restarted")
        }
        NodeEvent::SetupFailed { to, failure, retry_after } => {
            let retry_after_s = retry_after.to_duration().as_secs();
            warn!(target: N4_TARGET, %to, %failure, retry_after_s, "association setup failed");
        }
        NodeEvent::Refused { from, message_type, findings } => {
            let findings = findings.join("; ");
            info!(target: N4_TARGET, %from, message_type, findings, "refused");
        }
        NodeEvent::SessionsHandedOver { to, sessions } => {
            warn!(target: N4_TARGET, %to, sessions, "sessions handed over within their SMF set");
        }
        NodeEvent::SmfSetClaimRefused { from, set } => {
            warn!(target: N4_TARGET, %from, set, "a peer claims an SMF set that n4.smf_sets does not give it");
        }
        NodeEvent::SessionsRetained { address, sessions } => {
            info!(target: N4_TARGET, %address, sessions, "sessions retained");
        }
        NodeEvent::Fault { from, message_type, text } => {
            error!(target: N4_TARGET, %from, message_type, text, "a fault in adit cost a PFCP request");
        }
        NodeEvent::InternalFault { activity, text } => {
            error!(target: N4_TARGET, activity, text, "a fault in adit was contained");
        }
        NodeEvent::RecordNotRestored { kind, name, reason } => {
            let record = RecordKey { kind: *kind, id: name.as_id() };
            warn!(target: N4_TARGET, %record, reason, "a record cannot be restored");
        }
        NodeEvent::SessionsNotRestored { reason, sessions, first } => {
            let first = first.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            warn!(
                target: N4_TARGET, sessions, reason, first,
                "sessions are not restored; `adit show store` lists those whose records are kept"
            );
        }
        NodeEvent::Restored { associations, sessions, refused } => {
            info!(target: N4_TARGET, associations, sessions, refused, "restored");
        }
        NodeEvent::NodeIdConflict { from, held_by, node_id } => {
            warn!(target: N4_TARGET, %node_id, %from, %held_by, "association setup refused: Node ID is in use");
        }
    }
}

/// Logs the begin or the end of an association.
fn log_association(event: &NodeEvent) {
    match event {
        NodeEvent::AssociationUp { address, node_id, requested_by_us } => {
            info!(target: N4_TARGET, %node_id, %address, requested_by_us, "association up");
        }
        NodeEvent::AssociationDown { address, node_id, sessions, reason }
            if *sessions > 0 && *reason != DownReason::Released =>
        {
            warn!(
                target: N4_TARGET, %node_id, %address, sessions, %reason,
                "association down; the users of its sessions are without service"
            );
        }
        NodeEvent::AssociationDown { address, node_id, sessions, reason } => {
            info!(target: N4_TARGET, %node_id, %address, sessions, %reason, "association down");
        }
        NodeEvent::PeerSilent { address, node_id, sessions, outlive } => {
            let for_s = outlive.to_duration().as_secs();
            warn!(
                target: N4_TARGET, %node_id, %address, sessions, for_s,
                "the peer does not answer heartbeats; its sessions go on forwarding"
            );
        }
        NodeEvent::PeerAnswers { address, node_id, sessions } => {
            info!(target: N4_TARGET, %node_id, %address, sessions, "the peer answers again");
        }
        NodeEvent::PeerRestarted { address, node_id } => {
            warn!(target: N4_TARGET, %node_id, %address, "peer restarted");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use adit_n4::NodeIdentity;

    use super::*;

    #[test]
    fn lines_that_a_stranger_can_cause_are_limited_and_no_audit_lines() {
        let text = crate::log::tests::written_by(|| {
            for n in 0..1000 {
                let node_id = NodeIdentity::Fqdn(format!("smf{n}.example.org"));
                let address = "192.0.2.1".parse().unwrap();
                log_event(&NodeEvent::AssociationUp { address, node_id, requested_by_us: false });
            }
        });
        let lines = text.lines().filter(|line| line.contains("association up")).count();
        assert!((20..30).contains(&lines), "{lines}");
        assert!(!text.contains("\"target\":\"audit\""), "{text}");
    }
}
