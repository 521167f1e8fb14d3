//! Session establishment. Spec: TS 29.244 §6.3.2, §7.5.2, §7.5.3.

use adit_pfcp::ie::{self, FSeid, PfcpSeReqFlags};
use adit_pfcp::message::{SessionEstablishmentRequest, SessionEstablishmentResponse};
use adit_pfcp::{Cause, Ie, IeIter, IeType, MessageBody};
use adit_session::{CpFSeid, OwnerId, ReplacedSession, SessionChange};
use adit_types::{Nanos, Seid};

use crate::answers::Condition;
use crate::containment::FaultPoint;
use crate::csid;
use crate::node::{Node, ReceivedMessage};
use crate::procedure::decode::RequestTime;
use crate::procedure::endpoint_decode::ChosenIdentifiers;
use crate::procedure::report_destination::ReportingSession;
use crate::procedure::{demand, endpoint_decode, rule_decode, urr_decode};
use crate::refusal::Rejected;
use crate::session_state::SessionInformation;
use crate::session_state::set_keys;
use crate::sessions::{DeletedSession, EstablishmentContext, FollowUp, NewSession};
use crate::ue_pools::session_s_nssai;

impl Node {
    /// Establishes a session; the response follows when all workers run its rules.
    pub(crate) fn handle_session_establishment(&mut self, request: &ReceivedMessage<'_>) {
        // Without a decodable CP F-SEID the response has SEID 0. Spec: TS 29.244 §7.2.2.4.2.
        let cp_seid = cp_f_seid(request.body).map_or(Seid(0), |cp| cp.seid);
        match self.establish(request) {
            Ok(established) => self.accept_establishment(request, cp_seid, established),
            Err(rejected) => self.refuse_establishment(request, cp_seid, rejected, None),
        }
    }

    fn establish(&mut self, request: &ReceivedMessage<'_>) -> Result<NewSession, Rejected> {
        // INTEROP: the address identifies the peer; some SMFs send another of their Node IDs here.
        let owner = self.peers.association_for(request.peer()).map(|association| association.owner);
        let owner = owner.ok_or(Rejected::no_association())?;
        if self.load.standing_workers > 0 {
            self.counters.scalars.refused_worker_stands_still += 1;
            return Err(Rejected::new(Cause::EntityInCongestion, "a worker stands still"));
        }
        if self.load.is_draining {
            self.counters.scalars.refused_draining += 1;
            return Err(Rejected::new(Cause::EntityInCongestion, "the operator drains adit"));
        }
        let most = self.config.policy.sessions_per_association_max;
        if self.sessions.store().owned_count(owner) >= most {
            self.counters.scalars.refused_sessions_per_association_full += 1;
            return Err(Rejected::beyond_limit("sessions of one association", most));
        }
        let message = SessionEstablishmentRequest::decode_body(request.body)?;
        demand::check(request.body)?;
        let flags = message.pfcp_se_req_flags.unwrap_or_default();
        if flags.contains(PfcpSeReqFlags::SUMPC) {
            return Err(Rejected::unsupported(IeType::PFCPSEREQ_FLAGS));
        }
        let cp = message.cp_f_seid;
        if cp.seid == Seid(0) {
            return Err(Rejected::with_ie(Cause::MandatoryIeIncorrect, IeType::F_SEID));
        }
        let cp = CpFSeid { seid: cp.seid, v4: cp.v4, v6: cp.v6 };
        let sets = set_keys(message.fq_csids, message.group_id)?;
        let mut change = self.change_of_establishment(request.now, &message)?;
        // With RESTI, this node chose the F-TEIDs and UE addresses that are given now for an
        // earlier session. Spec: TS 29.244 §8.2.136.
        change.is_restoration = flags.contains(PfcpSeReqFlags::RESTI);
        let information = SessionInformation::of_establishment(&message)?;
        let context = EstablishmentContext { owner, cp, information, sets };
        change.replaces = self.replaceable_owners(owner);
        let Self { sessions, peers, config, .. } = self;
        let established = sessions.establish(context, change, |states, gone| {
            let ReplacedSession { up_seid, owner, cp, .. } = *gone;
            let reporting = ReportingSession { up_seid, owner, cp };
            reporting.reports_when_replaced(config, peers, states)
        })?;
        for deleted in &established.replaced {
            self.end_replaced(*deleted);
        }
        Ok(established)
    }

    /// Returns the associations whose sessions a new session of `owner` may replace: those of the
    /// same CP function or SMF set, which has lost the old session or restores it.
    pub(crate) fn replaceable_owners(&self, owner: OwnerId) -> Vec<OwnerId> {
        let set = self.peers.association_of(owner).and_then(|known| known.smf_set.id.as_ref());
        let mut owners: Vec<OwnerId> = match set {
            None => vec![owner],
            Some(set) => {
                let members = self.associations();
                let members = members.filter(|known| known.smf_set.id.as_ref() == Some(set));
                members.map(|known| known.owner).collect()
            }
        };
        owners.extend(self.sessions.transitions.predecessors_of(&owners));
        owners
    }

    /// Ends a session that a new one has replaced; reports its last usage if the CP function
    /// supports such reports.
    fn end_replaced(&mut self, deleted: DeletedSession) {
        let change = self.forget_discarded(deleted);
        self.counters.scalars.sessions_replaced += 1;
        let Some(pending) = self.sessions.pending_mut(change) else { return };
        let up_seid = pending.up_seid;
        if self.sessions.states.ended(up_seid).is_some_and(|ended| ended.by_us)
            && let Some(pending) = self.sessions.pending_mut(change)
        {
            pending.follow_up = FollowUp::ReportLastUsage;
        }
    }

    pub(crate) fn change_of_establishment(
        &self,
        now: Nanos,
        message: &SessionEstablishmentRequest<'_>,
    ) -> Result<SessionChange, Rejected> {
        let own = self.sessions.store().provisioning();
        let mut change = SessionChange { at: now, ..SessionChange::default() };
        let when = RequestTime { now, ntp_clock: self.ntp_clock };
        for group in message.create_pdrs {
            change.create_pdrs.push(rule_decode::create_pdr(&group, when)?);
        }
        for group in message.create_traffic_endpoints {
            change.create_traffic_endpoints.push(endpoint_decode::create(&group)?);
        }
        for group in message.create_fars {
            change.create_fars.push(rule_decode::create_far(&group, own)?);
        }
        change.create_bars =
            message.create_bars.iter().map(|group| rule_decode::create_bar(&group)).collect();
        for group in message.create_urrs {
            change.create_urrs.push(urr_decode::create_urr(&group, when)?);
        }
        change.s_nssai = message.s_nssai.map(session_s_nssai);
        change.inactivity_timer =
            message.user_plane_inactivity_timer.map(|timer| Nanos::from_secs(timer.0.into()));
        for group in message.create_qers {
            change.create_qers.push(rule_decode::create_qer(&group, when)?);
        }
        Ok(change)
    }

    fn accept_establishment(
        &mut self,
        request: &ReceivedMessage<'_>,
        cp_seid: Seid,
        established: NewSession,
    ) {
        self.counters.scalars.sessions_established += 1;
        let NewSession { index, up_seid, change, created, created_ues, created_endpoints, .. } =
            established;
        self.fail_if_injected(FaultPoint::Answer);
        self.supersede_set_aside(request.now, index);
        let chosen = ChosenIdentifiers::new(&created, &created_ues, &created_endpoints);
        let (created, endpoints) = (chosen.created_pdrs(), chosen.created_endpoints());
        let node_id = self.config.node_id.clone();
        let mut body = SessionEstablishmentResponse::new(node_id.to_ie(), Cause::RequestAccepted);
        body.up_f_seid = Some(FSeid::new(up_seid, self.config.address));
        let csid = csid::own_csid(&self.config);
        let in_own = self.sessions.states.is_in_own_set(index);
        let fq_csids: Vec<_> =
            csid::own_fq_csid(&self.config, &csid).filter(|_| in_own).into_iter().collect();
        body.fq_csids = fq_csids.as_slice().into();
        body.created_pdrs = created.as_slice().into();
        body.created_traffic_endpoints = endpoints.as_slice().into();
        let information = self.load_and_overload_for(request.peer());
        body.load_control_information = information.load;
        body.overload_control_information = information.overload;
        self.respond(request, Some(cp_seid), &body, [Condition::Observed(change)]);
    }

    pub(super) fn refuse_establishment(
        &mut self,
        request: &ReceivedMessage<'_>,
        cp_seid: Seid,
        rejected: Rejected,
        after: Option<Condition>,
    ) {
        self.note_refused(request, rejected);
        let node_id = self.config.node_id.clone();
        let mut body = SessionEstablishmentResponse::new(node_id.to_ie(), rejected.cause);
        body.offending_ie = rejected.offending_ie.map(ie::OffendingIe::from);
        body.failed_rule_id = rejected.failed_rule;
        if rejected.cause == Cause::EntityInCongestion {
            let information = self.load_and_overload_for(request.peer());
            body.load_control_information = information.load;
            body.overload_control_information = information.overload;
        }
        self.respond(request, Some(cp_seid), &body, after);
    }
}

/// Decodes the first F-SEID of a body.
pub(super) fn cp_f_seid(body: &[u8]) -> Option<FSeid> {
    let ie = IeIter::new(body).flatten().find(|ie| ie.ie_type == IeType::F_SEID)?;
    FSeid::decode(ie.value).ok()
}
