//! Processes responses to session reports, and the changes that they request. Spec: TS 29.244
//! §7.5.9.

use adit_pfcp::ie::PfcpSrRspFlags;
use adit_pfcp::message::SessionReportResponse;
use adit_pfcp::{Cause, MessageBody};
use adit_session::SessionChange;
use adit_types::limits::REPORT_ATTEMPTS_OF_ENDED_SESSION_MAX;
use adit_types::{Nanos, Seid};

use crate::event::NodeEvent;
use crate::node::{Node, ReceivedMessage};
use crate::procedure::rule_decode;
use crate::transaction::RequestPurpose;

impl Node {
    /// Processes the response to a report. Spec: TS 29.244 §7.5.9.
    pub(crate) fn handle_session_report_response(&mut self, response: &ReceivedMessage<'_>) {
        let Ok(message) = SessionReportResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects =
            |purpose: &RequestPurpose| matches!(purpose, RequestPurpose::SessionReport { .. });
        let sequence = response.header.sequence;
        let purpose = self.transactions.take(response.from, sequence, expects);
        let Some(RequestPurpose::SessionReport { up_seid, .. }) = purpose else {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        };
        let is_gone = self.sessions.store().session(up_seid).is_none();
        match message.cause {
            cause if cause.is_accepted() && is_gone => {}
            Cause::SessionContextNotFound if !is_gone => {
                self.remove_unknown_session(up_seid);
            }
            Cause::RedirectionRequested if self.follow_redirection(up_seid, &message) => {
                return self.send_reports(response.now);
            }
            cause if cause.is_accepted() => {
                self.apply_control(response, up_seid, &message);
                self.apply_accepting_response(response.now, up_seid, &message);
            }
            cause => {
                self.counters.scalars.reports_refused += 1;
                self.note_refused_report(response, cause);
                self.apply_refusing_response(response.now, up_seid, &message);
                let attempts = match cause {
                    Cause::SessionContextNotFound => 1,
                    _ => REPORT_ATTEMPTS_OF_ENDED_SESSION_MAX,
                };
                self.on_report_not_delivered(response.now, up_seid, attempts);
                self.send_reports(response.now);
                return self.advance_drains(response.now);
            }
        }
        self.sessions.states.finish_report(up_seid);
        self.send_reports(response.now);
        self.advance_drains(response.now);
    }

    /// Logs that a report was refused, unless another refusal was logged less than a second before.
    pub(crate) fn note_refused_report(&mut self, response: &ReceivedMessage<'_>, cause: Cause) {
        if self.next_refused_report > response.now {
            return;
        }
        self.next_refused_report = response.now + Nanos::from_secs(1);
        let message_type = response.header.message_type.name();
        let (from, cause) = (response.peer(), cause.code());
        self.events.push_back(NodeEvent::ReportRefused { from, message_type, cause });
    }

    /// Discards buffered packets if a refusing response requests that: the UE cannot be paged.
    /// Spec: TS 29.244 §8.2.32.
    fn apply_refusing_response(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        message: &SessionReportResponse<'_>,
    ) {
        let flags = message.pfcp_sr_rsp_flags.unwrap_or_default();
        if flags.contains(PfcpSrRspFlags::DROBU) {
            let change = SessionChange { at: now, drop_buffered: true, ..SessionChange::default() };
            self.apply_response(up_seid, change);
        }
    }

    /// Applies the change that a response requests; false if the session store refuses it.
    fn apply_response(&mut self, up_seid: Seid, change: SessionChange) -> bool {
        if change.drop_buffered {
            drop(self.sessions.states.take_notified(up_seid, None));
        }
        let modified = self.sessions.modify(up_seid, change);
        self.counters.scalars.report_responses_not_applied += u64::from(modified.is_err());
        modified.is_ok()
    }

    /// Applies what an accepting response requests: changes a BAR, discards buffered packets, sets
    /// another tunnel towards the CP function. Spec: TS 29.244 §7.5.9.1, §7.5.9.2.
    fn apply_accepting_response(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        message: &SessionReportResponse<'_>,
    ) {
        let flags = message.pfcp_sr_rsp_flags.unwrap_or_default();
        let drop_buffered = flags.contains(PfcpSrRspFlags::DROBU);
        let unchanged = SessionChange { at: now, ..SessionChange::default() };
        let mut change = SessionChange { drop_buffered, ..unchanged.clone() };
        let bar = message.update_bar.as_ref();
        change.update_bars.extend(bar.map(rule_decode::update_bar_of_report));
        if let Some(f_teid) = message.n4u_f_teid {
            change.update_fars = self.updates_to_cp_tunnel(up_seid, f_teid);
            let applies = !change.update_fars.is_empty();
            self.counters.scalars.report_responses_not_applied += u64::from(!applies);
        }
        if change == unchanged {
            return;
        }
        if self.apply_response(up_seid, change) {
            let limit = bar.and_then(|bar| Some((bar.bar_id, bar.dl_buffering_duration?)));
            if let Some((bar, duration)) = limit {
                self.limit_buffering(now, up_seid, bar, duration);
            }
        }
    }

    /// Removes a session that the CP function does not have. Spec: TS 29.244 §6.3.5.
    fn remove_unknown_session(&mut self, up_seid: Seid) {
        if self.end_locally(up_seid).is_some() {
            self.counters.scalars.sessions_removed_unknown_to_peer += 1;
        }
    }
}
