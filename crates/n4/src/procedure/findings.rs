//! Finds everything that is wrong with a refused request, to log it.
//!
//! The answer contains the first error only. The others are found by removing the IE at fault from
//! the request and checking the rest again, a bounded number of times, for at most one request per
//! second. An error that the removal may have caused is not logged.
//! Spec: TS 29.244 §7.6.

use adit_pfcp::grouped::GtpuPathQosControlInformation;
use adit_pfcp::ie::FailedRuleId;
use adit_pfcp::message::{
    AssociationSetupRequest, AssociationUpdateRequest, SessionEstablishmentRequest,
    SessionModificationRequest,
};
use adit_pfcp::{Cause, Ie, IeError, IeIter, IeType, MessageBody, MessageType, RawIe};
use adit_types::limits::FURTHER_ERRORS_MAX;
use adit_types::{BarId, FarId, Nanos, PdrId, QerId, Seid, UrrId};

use crate::event::NodeEvent;
use crate::node::{Node, ReceivedMessage};
use crate::path_qos::PathQosControl;
use crate::procedure::association::path_controls;
use crate::procedure::demand;
use crate::refusal::{RefusalDetail, Rejected};

/// Time between two requests whose errors are logged.
const FINDINGS_INTERVAL: Nanos = Nanos::from_secs(1);

impl Node {
    /// Logs all errors of a refused request, unless others were logged less than a second before.
    pub(crate) fn log_refusal(&mut self, request: &ReceivedMessage<'_>, first: Rejected) {
        if first.detail == RefusalDetail::Logged {
            return;
        }
        let next = &mut self.next_finding[usize::from(request.header.seid.is_some())];
        if *next > request.now {
            self.counters.scalars.refusals_not_told += 1;
            return;
        }
        *next = request.now + FINDINGS_INTERVAL;
        let findings = self.findings(request, first).iter().map(Rejected::to_string).collect();
        let message_type = request.header.message_type.name();
        self.events.push_back(NodeEvent::Refused { from: request.peer(), message_type, findings });
    }

    fn findings(&self, request: &ReceivedMessage<'_>, first: Rejected) -> Vec<Rejected> {
        let mut findings = vec![first];
        let mut body = request.body.to_vec();
        let (mut cut_referenced, mut cut_types) = (false, Vec::new());
        let mut last = first;
        // Ends, since every round removes an IE.
        for _ in 0..FURTHER_ERRORS_MAX {
            let Some((rest, cut_type)) = remove_named_ie(&body, last) else { break };
            cut_types.push(cut_type);
            cut_referenced |= !matches!(last.failed_rule, None | Some(FailedRuleId::Pdr(_)));
            body = rest;
            let Err(next) = self.judge(request, &body) else { break };
            let ids = [IeType::FAR_ID, IeType::QER_ID, IeType::URR_ID, IeType::LINKED_URR_ID];
            let refers = next.offending_ie.is_some_and(|ie| ids.contains(&ie));
            let is_cut = next.offending_ie.is_some_and(|ie| cut_types.contains(&ie));
            let follows = next.cause == Cause::MandatoryIeMissing && is_cut;
            let follows = follows || refers && cut_referenced;
            if !follows {
                findings.push(next);
            }
            last = next;
        }
        findings
    }

    /// Checks a request without running it, for the requests that can have several errors.
    fn judge(&self, request: &ReceivedMessage<'_>, body: &[u8]) -> Result<(), Rejected> {
        let (up_seid, mut change) = match request.header.message_type {
            MessageType::SESSION_ESTABLISHMENT_REQUEST => {
                let message = SessionEstablishmentRequest::decode_body(body)?;
                demand::check(body)?;
                (None, self.change_of_establishment(request.now, &message)?)
            }
            MessageType::SESSION_MODIFICATION_REQUEST => {
                let message = SessionModificationRequest::decode_body(body)?;
                demand::check(body)?;
                let up_seid: Option<Seid> = request.header.seid;
                (up_seid, self.change_of_modification(request.now, &message)?)
            }
            MessageType::ASSOCIATION_SETUP_REQUEST => {
                let message = AssociationSetupRequest::decode_body(body)?;
                return path_controls(message.gtpu_path_qos_controls).map(drop);
            }
            MessageType::ASSOCIATION_UPDATE_REQUEST => {
                let message = AssociationUpdateRequest::decode_body(body)?;
                return path_controls(message.gtpu_path_qos_controls).map(drop);
            }
            _ => return Ok(()),
        };
        let association = self.peers.association_for(request.peer());
        let owner = association.map(|association| association.owner).unwrap_or_default();
        if up_seid.is_none() {
            change.replaces = self.replaceable_owners(owner);
        }
        Ok(self.sessions.store().check_change(owner, up_seid, change)?)
    }
}

/// Removes from a body the IE that `rejected` names: the group of the rule if it names one, else
/// the IE itself. Returns the rest, and the type of what was removed.
fn remove_named_ie(body: &[u8], rejected: Rejected) -> Option<(Vec<u8>, IeType)> {
    let mut ies = IeIter::new(body);
    loop {
        let start = ies.offset();
        let ie = ies.next()?.ok()?;
        if is_named(&ie, rejected) {
            let mut rest = body.get(..start)?.to_vec();
            rest.extend(body.get(ies.offset()..)?);
            return Some((rest, ie.ie_type));
        }
    }
}

fn is_named(ie: &RawIe<'_>, rejected: Rejected) -> bool {
    match rejected.failed_rule {
        Some(FailedRuleId::Pdr(id)) => {
            let groups = [IeType::CREATE_PDR, IeType::UPDATE_PDR, IeType::REMOVE_PDR];
            groups.contains(&ie.ie_type) && member::<PdrId>(ie.value) == Some(id)
        }
        Some(FailedRuleId::Far(id)) => {
            let groups = [IeType::CREATE_FAR, IeType::UPDATE_FAR, IeType::REMOVE_FAR];
            groups.contains(&ie.ie_type) && member::<FarId>(ie.value) == Some(id)
        }
        Some(FailedRuleId::Qer(id)) => {
            let groups = [IeType::CREATE_QER, IeType::UPDATE_QER, IeType::REMOVE_QER];
            groups.contains(&ie.ie_type) && member::<QerId>(ie.value) == Some(id)
        }
        Some(FailedRuleId::Urr(id)) => {
            let groups = [IeType::CREATE_URR, IeType::UPDATE_URR, IeType::REMOVE_URR];
            groups.contains(&ie.ie_type) && member::<UrrId>(ie.value) == Some(id)
        }
        Some(FailedRuleId::Bar(id)) => {
            let update = IeType::UPDATE_BAR_SESSION_MODIFICATION_REQUEST;
            let groups = [IeType::CREATE_BAR, update, IeType::REMOVE_BAR];
            groups.contains(&ie.ie_type) && member::<BarId>(ie.value) == Some(id)
        }
        Some(_) => false,
        None => rejected.offending_ie == Some(ie.ie_type) || is_named_control(ie, rejected),
    }
}

/// True for a GTP-U Path QoS Control Information that is refused for the same reason.
fn is_named_control(ie: &RawIe<'_>, rejected: Rejected) -> bool {
    if ie.ie_type != GtpuPathQosControlInformation::TYPE || ie.value.is_empty() {
        return false;
    }
    let refused = match GtpuPathQosControlInformation::decode(ie.value) {
        Ok(control) => PathQosControl::from_ie(&control).err(),
        Err(IeError::Nested(error)) => Some(error.into()),
        Err(_) => None,
    };
    let answer = |rejected: Rejected| (rejected.cause, rejected.offending_ie);
    refused.map(answer) == Some(answer(rejected))
}

fn member<'a, T: Ie<'a>>(group: &'a [u8]) -> Option<T> {
    let ie = IeIter::new(group).flatten().find(|ie| ie.ie_type == T::TYPE)?;
    T::decode(ie.value).ok()
}
