//! Session modification. Spec: TS 29.244 §6.3.3, §7.5.4, §7.5.5.

use adit_pfcp::ie::{OffendingIe, PfcpSmReqFlags};
use adit_pfcp::message::{SessionModificationRequest, SessionModificationResponse};
use adit_pfcp::{Cause, IeType, MessageBody};
use adit_rules::{ApplyAction, DeltaId};
use adit_session::{CpFSeid, Modified, SessionChange, TrafficEndpointId, UsageReport};
use adit_types::limits::USAGE_REPORTS_PER_RESPONSE_MAX;
use adit_types::{FarId, Nanos, Seid};

use crate::answers::Condition;
use crate::containment::FaultPoint;
use crate::node::{Node, ReceivedMessage};
use crate::procedure::decode::RequestTime;
use crate::procedure::endpoint_decode::ChosenIdentifiers;
use crate::procedure::packet_rates::status_report;
use crate::procedure::usage::{additional, event_time_stamps, usage_report};
use crate::procedure::{RefusalWithSeid, demand, endpoint_decode, rule_decode, urr_decode};
use crate::refusal::Rejected;
use crate::session_state::SessionInformation;
use crate::session_state::set_keys;
use crate::sessions::{FollowUp, ModifiedSession};
use crate::ue_pools::session_s_nssai;

impl Node {
    /// Modifies a session. The response follows when all workers run the new rules, or at once if
    /// nothing changes for packets.
    pub(crate) fn handle_session_modification(&mut self, request: &ReceivedMessage<'_>) {
        let (up_seid, cp_seid) = match self.session_of(request) {
            Ok(seids) => seids,
            Err(RefusalWithSeid { seid, rejected }) => {
                return self.refuse_modification(request, seid, rejected, None);
            }
        };
        match self.modify(request, up_seid) {
            Ok(modified) => self.accept_modification(request, up_seid, modified),
            Err(rejected) => self.refuse_modification(request, cp_seid, rejected, None),
        }
    }

    fn modify(
        &mut self,
        request: &ReceivedMessage<'_>,
        up_seid: Seid,
    ) -> Result<ModifiedSession, Rejected> {
        let message = SessionModificationRequest::decode_body(request.body)?;
        demand::check(request.body)?;
        let flags = message.pfcp_sm_req_flags.unwrap_or_default();
        if flags.intersects(PfcpSmReqFlags::SNDEM | PfcpSmReqFlags::SUMPC | PfcpSmReqFlags::DETEID)
        {
            return Err(Rejected::unsupported(IeType::PFCPSMREQ_FLAGS));
        }
        let sets = set_keys(message.fq_csids, message.group_id)?;
        let mut change = self.change_of_modification(request.now, &message)?;
        change.drop_buffered = flags.contains(PfcpSmReqFlags::DROBU);
        let activated = activated_fars(&change);
        let drops_buffered = change.drop_buffered;
        let buffering = self.buffering_fars(up_seid);
        let modified = self.sessions.modify(up_seid, change)?;
        self.update_information(up_seid, SessionInformation::of_modification(&message));
        if drops_buffered {
            drop(self.sessions.states.take_notified(up_seid, None));
        }
        let mut reported = self.rearm_notifications(up_seid, &activated);
        reported.retain(|notice| buffering.contains(&notice.data.far));
        self.repeat_notifications(request.now, up_seid, reported);
        if !activated.is_empty() {
            self.sessions.states.cancel_buffering_end(up_seid);
        }
        if message.cp_f_seid.is_some() || message.node_id.is_some() {
            self.take_control(request, up_seid);
        }
        if !sets.is_empty()
            && let Some(session) = self.sessions.store().session(up_seid)
        {
            let index = session.index();
            self.sessions.states.assign_sets(index, sets);
        }
        Ok(modified)
    }

    /// Returns the FARs that buffer, if downlink data of the session was reported.
    fn buffering_fars(&self, up_seid: Seid) -> Vec<FarId> {
        if !self.sessions.states.has_notified(up_seid) {
            return Vec::new();
        }
        let session = self.sessions.store().session(up_seid);
        let fars = session.into_iter().flat_map(|session| session.fars());
        fars.filter(|far| far.action.contains(ApplyAction::BUFF)).map(|far| far.id).collect()
    }

    /// Transfers the session to the association that sent the request, another SMF of the set.
    /// Spec: TS 29.244 §5.22.3.
    fn take_control(&mut self, request: &ReceivedMessage<'_>, up_seid: Seid) {
        let owner = self.peers.association_for(request.peer()).map(|association| association.owner);
        let session = self.sessions.store().session(up_seid);
        let (Some(owner), Some(session)) = (owner, session) else { return };
        let (before, cp) = (session.owner(), session.cp_f_seid());
        self.sessions.states.forget_former_cp(up_seid);
        if before != owner {
            self.sessions.set_control(up_seid, owner, cp);
            self.counters.scalars.sessions_moved += 1;
        }
    }

    pub(crate) fn change_of_modification(
        &self,
        now: Nanos,
        message: &SessionModificationRequest<'_>,
    ) -> Result<SessionChange, Rejected> {
        let own = self.sessions.store().provisioning();
        let mut change = SessionChange { at: now, ..SessionChange::default() };
        if let Some(cp) = message.cp_f_seid {
            if cp.seid == Seid(0) {
                return Err(Rejected::with_ie(Cause::MandatoryIeIncorrect, IeType::F_SEID));
            }
            change.cp_f_seid = Some(CpFSeid { seid: cp.seid, v4: cp.v4, v6: cp.v6 });
        }
        change.remove_pdrs = message.remove_pdrs.iter().map(|group| group.pdr_id).collect();
        change.remove_fars = message.remove_fars.iter().map(|group| group.far_id).collect();
        self.change_urrs(now, message, &mut change)?;
        change.remove_qers = message.remove_qers.iter().map(|group| group.qer_id).collect();
        let when = RequestTime { now, ntp_clock: self.ntp_clock };
        for group in message.create_pdrs {
            change.create_pdrs.push(rule_decode::create_pdr(&group, when)?);
        }
        let remove = message.remove_traffic_endpoints.iter();
        change.remove_traffic_endpoints =
            remove.map(|group| TrafficEndpointId(group.traffic_endpoint_id.0)).collect();
        for group in message.create_traffic_endpoints {
            change.create_traffic_endpoints.push(endpoint_decode::create(&group)?);
        }
        for group in message.update_traffic_endpoints {
            change.update_traffic_endpoints.push(endpoint_decode::update(&group)?);
        }
        for group in message.create_fars {
            change.create_fars.push(rule_decode::create_far(&group, own)?);
        }
        for group in message.create_qers {
            change.create_qers.push(rule_decode::create_qer(&group, when)?);
        }
        for group in message.update_pdrs {
            change.update_pdrs.push(rule_decode::update_pdr(&group, when)?);
        }
        for group in message.update_fars {
            change.update_fars.push(rule_decode::update_far(&group, own)?);
        }
        change.remove_bars = message.remove_bars.iter().map(|group| group.bar_id).collect();
        change.create_bars =
            message.create_bars.iter().map(|group| rule_decode::create_bar(&group)).collect();
        for group in message.update_bars {
            change.update_bars.push(rule_decode::update_bar(&group)?);
        }
        for group in message.update_qers {
            change.update_qers.push(rule_decode::update_qer(&group)?);
        }
        change.query_packet_rates =
            message.query_packet_rates.iter().map(|group| group.qer_id).collect();
        Ok(change)
    }

    fn change_urrs(
        &self,
        now: Nanos,
        message: &SessionModificationRequest<'_>,
        change: &mut SessionChange,
    ) -> Result<(), Rejected> {
        let when = RequestTime { now, ntp_clock: self.ntp_clock };
        for group in message.create_urrs {
            change.create_urrs.push(urr_decode::create_urr(&group, when)?);
        }
        for group in message.update_urrs {
            change.update_urrs.push(urr_decode::update_urr(&group, when)?);
        }
        change.remove_urrs = message.remove_urrs.iter().map(|group| group.urr_id).collect();
        change.query_urrs = message.query_urrs.iter().map(|group| group.urr_id).collect();
        let flags = message.pfcp_sm_req_flags.unwrap_or_default();
        change.query_all_urrs = flags.contains(PfcpSmReqFlags::QAURR);
        change.query_reference = message.query_urr_reference.map(|reference| reference.0);
        change.s_nssai = message.s_nssai.map(session_s_nssai);
        change.inactivity_timer =
            message.user_plane_inactivity_timer.map(|timer| Nanos::from_secs(timer.0.into()));
        if message.withdrawn.iter().any(|ie| ie == IeType::USER_PLANE_INACTIVITY_TIMER) {
            change.inactivity_timer = Some(Nanos(0));
        }
        Ok(())
    }

    fn accept_modification(
        &mut self,
        request: &ReceivedMessage<'_>,
        up_seid: Seid,
        modified: ModifiedSession,
    ) {
        let ModifiedSession { change, outcome } = modified;
        let Modified { created, created_ues, created_endpoints, updated, .. } = outcome;
        let Modified { end_markers, packet_rates, mut reports, .. } = outcome;
        let later = reports.split_off(reports.len().min(USAGE_REPORTS_PER_RESPONSE_MAX));
        if let Some(id) = change {
            self.sessions.send_end_markers(id, end_markers);
        }
        self.fail_if_injected(FaultPoint::Answer);
        self.counters.scalars.sessions_modified += 1;
        // A new CP F-SEID applies from this response on. Spec: TS 29.244 §7.5.4.1.
        let session = self.sessions.store().session(up_seid);
        let cp_seid = session.map_or(Seid(0), |session| session.cp_f_seid().seid);
        let chosen =
            ChosenIdentifiers::new(&created, &created_ues, &created_endpoints).updating(updated);
        let (created, endpoints) = (chosen.created_pdrs(), chosen.created_endpoints());
        let updated = chosen.updated_pdrs();
        let mut body = SessionModificationResponse::new(Cause::RequestAccepted);
        body.created_pdrs = created.as_slice().into();
        body.updated_pdrs = updated.as_slice().into();
        body.created_traffic_endpoints = endpoints.as_slice().into();
        let information = self.load_and_overload_for(request.peer());
        body.load_control_information = information.load;
        body.overload_control_information = information.overload;
        let ntp_clock = self.ntp_clock;
        let events: Vec<_> = reports.iter().map(|r| event_time_stamps(r, ntp_clock)).collect();
        let reports: Vec<_> = reports
            .iter()
            .zip(&events)
            .map(|(r, events)| usage_report(r, ntp_clock, events))
            .collect();
        body.usage_reports = reports.as_slice().into();
        body.additional_usage_reports = additional(&later);
        let packet_rates: Vec<_> =
            packet_rates.iter().map(|rate| status_report(rate, request.now, ntp_clock)).collect();
        body.packet_rate_status_reports = packet_rates.as_slice().into();
        self.respond(request, Some(cp_seid), &body, change.map(Condition::Observed));
        self.report_after_answer(request.now, up_seid, later, change);
    }

    /// Sends usage that did not fit into an answer in session reports after it. Spec: TS 29.244
    /// §5.2.2.3.1.
    fn report_after_answer(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        later: Vec<UsageReport>,
        change: Option<DeltaId>,
    ) {
        match change.and_then(|id| self.sessions.pending_mut(id)) {
            Some(pending) => pending.follow_up = FollowUp::ReportUsage(later),
            None => self.report_usage(now, up_seid, later),
        }
    }

    pub(super) fn refuse_modification(
        &mut self,
        request: &ReceivedMessage<'_>,
        seid: Seid,
        rejected: Rejected,
        after: Option<Condition>,
    ) {
        self.note_refused(request, rejected);
        let mut body = SessionModificationResponse::new(rejected.cause);
        body.offending_ie = rejected.offending_ie.map(OffendingIe::from);
        body.failed_rule_id = rejected.failed_rule;
        self.respond(request, Some(seid), &body, after);
    }
}

/// Returns the FARs whose action the change sets; their next packet is reported again.
fn activated_fars(change: &SessionChange) -> Vec<FarId> {
    let updated = change.update_fars.iter().filter(|update| update.action.is_set());
    let updated = updated.map(|update| update.id);
    change.create_fars.iter().map(|far| far.id).chain(updated).collect()
}
