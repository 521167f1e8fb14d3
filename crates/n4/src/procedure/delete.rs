//! Session deletion. Spec: TS 29.244 §6.3.4, §7.5.6, §7.5.7.

use adit_pfcp::ie::{OffendingIe, PfcpSdRspFlags};
use adit_pfcp::message::{SessionDeletionRequest, SessionDeletionResponse};
use adit_pfcp::{Cause, MessageBody};
use adit_rules::DeltaId;
use adit_session::QerPacketRate;
use adit_types::{Nanos, Seid};

use crate::answers::Condition;
use crate::node::{Node, ReceivedMessage};
use crate::procedure::packet_rates::status_report;
use crate::procedure::{NO_SUCH_SESSION, RefusalWithSeid};
use crate::refusal::Rejected;
use crate::sessions::FollowUp;

impl Node {
    /// Deletes a session; the response follows when no worker runs its rules any more.
    pub(crate) fn handle_session_deletion(&mut self, request: &ReceivedMessage<'_>) {
        let (up_seid, cp_seid) = match self.session_of(request) {
            Ok(seids) => seids,
            Err(RefusalWithSeid { seid, rejected }) => {
                if let Some(association) = self.peers.association_for(request.peer())
                    && let Some(up_seid) = request.header.seid
                {
                    self.delete_set_aside(request.now, association.owner, up_seid);
                }
                return self.refuse_deletion(request, seid, rejected, None);
            }
        };
        if let Err(error) = SessionDeletionRequest::decode_body(request.body) {
            return self.refuse_deletion(request, cp_seid, error.into(), None);
        }
        let usage = self.sessions.states.waiting_usage(up_seid);
        let packet_rates = self.packet_rates_to_report(up_seid);
        // True if usage was reported and not acknowledged yet. Spec: TS 29.244 §8.2.215 (PURU).
        let is_unacknowledged = self.sessions.states.has_unacknowledged_usage(up_seid);
        let overflow = self.ended_session(up_seid, false);
        let Some(change) = self.delete_session(up_seid) else {
            let rejected = Rejected::new(Cause::SessionContextNotFound, NO_SUCH_SESSION);
            return self.refuse_deletion(request, cp_seid, rejected, None);
        };
        if let Some(pending) = self.sessions.pending_mut(change) {
            pending.usage = usage;
            pending.follow_up = FollowUp::Deleted { packet_rates, overflow };
        }
        self.counters.scalars.sessions_deleted += 1;
        let mut body = SessionDeletionResponse::new(Cause::RequestAccepted);
        body.pfcp_sd_rsp_flags = is_unacknowledged.then_some(PfcpSdRspFlags::PURU);
        let information = self.load_and_overload_for(request.peer());
        body.load_control_information = information.load;
        body.overload_control_information = information.overload;
        self.respond(request, Some(cp_seid), &body, [Condition::Observed(change)]);
    }

    /// Returns the packet rates whose status is reported when the session ends. Spec: TS 29.244
    /// §8.2.174 (RCSR).
    fn packet_rates_to_report(&self, up_seid: Seid) -> Vec<QerPacketRate> {
        let mut rates = self.sessions.store().packet_rates(up_seid);
        rates.retain(|rate| rate.reported_at_end);
        rates
    }

    /// Appends the status of packet rates to the answer that waits for the change `id`. Call it
    /// when no worker counts any more.
    pub(crate) fn append_packet_rates(&mut self, now: Nanos, id: DeltaId, rates: &[QerPacketRate]) {
        let Some(answer) = self.answers.first_awaiting_mut(Condition::Observed(id)) else { return };
        for rate in rates {
            let group = status_report(rate, now, self.ntp_clock);
            let written = answer.append(&mut self.scratch, |writer| writer.put(&group));
            self.counters.scalars.responses_too_long += u64::from(!written);
        }
    }

    pub(super) fn refuse_deletion(
        &mut self,
        request: &ReceivedMessage<'_>,
        seid: Seid,
        rejected: Rejected,
        after: Option<Condition>,
    ) {
        self.note_refused(request, rejected);
        self.respond(request, Some(seid), &refusal(rejected), after);
    }
}

fn refusal(rejected: Rejected) -> SessionDeletionResponse<'static> {
    let mut body = SessionDeletionResponse::new(rejected.cause);
    body.offending_ie = rejected.offending_ie.map(OffendingIe::from);
    body
}
