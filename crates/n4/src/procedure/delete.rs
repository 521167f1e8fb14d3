//! Session deletion. Spec: TS 29.244 §6.3.4, §7.5.6, §7.5.7.

use adit_pfcp::ie::{OffendingIe, PfcpSdRspFlags};
use adit_pfcp::message::{SessionDeletionRequest, SessionDeletionResponse};
use adit_pfcp::{Cause, MessageBody};
use adit_rules::{DeltaId, RuleDelta};
use adit_session::{QerPacketRate, UsageReport};
use adit_types::{Nanos, Seid};

use crate::node::{EncodedResponse, Node, ReceivedMessage};
use crate::procedure::RefusalWithSeid;
use crate::procedure::final_usage::EndedSession;
use crate::procedure::packet_rates::status_report;
use crate::refusal::Rejected;

/// What a session that is deleted leaves to report.
struct DeletionReports {
    /// Usage that waits for its turn.
    waiting: Vec<UsageReport>,
    /// Packet rates whose status is reported.
    packet_rates: Vec<QerPacketRate>,
    /// Usage is on its way, without a response yet. Spec: TS 29.244 §8.2.215 (PURU).
    is_unacknowledged: bool,
    /// Who hears of usage that has no room in the answer.
    rest: Option<(Seid, EndedSession)>,
}

impl Node {
    /// Deletes a session; the response follows when its rules do not run any more.
    pub(crate) fn handle_session_deletion(&mut self, request: &ReceivedMessage<'_>) {
        let (cp_seid, deleted) = match self.session_of(request) {
            Ok((up_seid, cp_seid)) => {
                let ending = DeletionReports {
                    waiting: self.reports.waiting_usage(up_seid),
                    packet_rates: self.packet_rates_to_report(up_seid),
                    is_unacknowledged: self.reports.has_unacknowledged_usage(up_seid),
                    rest: self.ended_session(up_seid, false).map(|leaving| (up_seid, leaving)),
                };
                let deleted = SessionDeletionRequest::decode_body(request.body)
                    .map_err(Rejected::from)
                    .and_then(|_| Ok((self.store.delete(up_seid)?, ending)));
                if deleted.is_ok() {
                    self.forget_reports_of(up_seid);
                }
                (cp_seid, deleted)
            }
            Err(RefusalWithSeid { seid, rejected }) => (seid, Err(rejected)),
        };
        let (mut body, after) = self.complete_deletion(deleted);
        if after.is_some() {
            let information = self.control_information(request.peer());
            body.load_control_information = information.load;
            body.overload_control_information = information.overload;
        }
        self.respond(request, Some(cp_seid), &body, after);
    }

    fn complete_deletion(
        &mut self,
        deleted: Result<(RuleDelta, DeletionReports), Rejected>,
    ) -> (SessionDeletionResponse<'static>, Option<DeltaId>) {
        match deleted {
            Ok((delta, ending)) => {
                let id = self.publish(delta);
                if let Some(pending) = self.pending_changes.get_mut(&id) {
                    pending.usage = ending.waiting;
                    pending.packet_rates = ending.packet_rates;
                    pending.rest = ending.rest;
                }
                self.counters.scalars.sessions_deleted += 1;
                let mut body = SessionDeletionResponse::new(Cause::RequestAccepted);
                body.pfcp_sd_rsp_flags = ending.is_unacknowledged.then_some(PfcpSdRspFlags::PURU);
                (body, Some(id))
            }
            Err(rejected) => {
                self.count_refused(rejected.cause);
                (refusal(rejected), None)
            }
        }
    }

    /// The packet rates of a session whose status its end reports. Spec: TS 29.244 §8.2.174 (RCSR).
    fn packet_rates_to_report(&self, up_seid: Seid) -> Vec<QerPacketRate> {
        let mut rates = self.store.packet_rates(up_seid);
        rates.retain(|rate| rate.reported_at_end);
        rates
    }

    /// Appends the status of packet rates to the answer of a deletion, when no worker counts any more.
    pub(crate) fn append_packet_rates(
        &mut self,
        now: Nanos,
        answer: &mut EncodedResponse,
        rates: &[QerPacketRate],
    ) {
        let wall = self.ntp_clock;
        for rate in rates {
            let group = status_report(rate, now, wall);
            let written = self.append(answer, |writer| writer.put(&group));
            self.counters.scalars.responses_too_long += u64::from(!written);
        }
    }

    pub(super) fn refuse_deletion(
        &mut self,
        request: &ReceivedMessage<'_>,
        seid: Seid,
        rejected: Rejected,
        after: Option<DeltaId>,
    ) {
        self.count_refused(rejected.cause);
        self.respond(request, Some(seid), &refusal(rejected), after);
    }
}

fn refusal(rejected: Rejected) -> SessionDeletionResponse<'static> {
    let mut body = SessionDeletionResponse::new(rejected.cause);
    body.offending_ie = rejected.offending_ie.map(OffendingIe::from);
    body
}
