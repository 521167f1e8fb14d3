//! The protocol's reason for a refusal.
//!
//! The one place where a session [`Refusal`] becomes a Cause, an Offending IE and a Failed Rule
//! ID. Spec: TS 29.244 §8.2.1, §8.2.22, §8.2.80.

use adit_pfcp::ie::FailedRuleId;
use adit_pfcp::{Cause, DecodeError, IeType};
use adit_session::{Refusal, RuleId, UsageTriggers};
use adit_types::IpPrefix;

/// The refusal of a request, as its response carries it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rejected {
    pub cause: Cause,
    pub offending_ie: Option<IeType>,
    pub failed_rule: Option<FailedRuleId>,
}

impl Rejected {
    pub(crate) const fn new(cause: Cause) -> Self {
        Self { cause, offending_ie: None, failed_rule: None }
    }

    pub(crate) const fn with_ie(cause: Cause, ie: IeType) -> Self {
        Self { cause, offending_ie: Some(ie), failed_rule: None }
    }

    /// Cause 76: the IE demands an unsupported function.
    pub(crate) const fn unsupported(ie: IeType) -> Self {
        Self::with_ie(Cause::ServiceNotSupported, ie)
    }

    /// Names the rule at fault, unless a more precise one is named already.
    pub(crate) fn in_rule(self, rule: RuleId) -> Self {
        Self { failed_rule: self.failed_rule.or(Some(failed_rule(rule))), ..self }
    }
}

impl From<DecodeError> for Rejected {
    fn from(error: DecodeError) -> Self {
        Self {
            cause: error.cause(),
            offending_ie: Some(error.offending_ie()),
            failed_rule: error.rule,
        }
    }
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Self {
        let (cause, offending_ie) = cause_and_ie(&refusal);
        Self { cause, offending_ie, failed_rule: refusal.rule().map(failed_rule) }
    }
}

const fn failed_rule(rule: RuleId) -> FailedRuleId {
    match rule {
        RuleId::Pdr(id) => FailedRuleId::Pdr(id),
        RuleId::Far(id) => FailedRuleId::Far(id),
        RuleId::Qer(id) => FailedRuleId::Qer(id),
        RuleId::Bar(id) => FailedRuleId::Bar(id),
        RuleId::Urr(id) => FailedRuleId::Urr(id),
    }
}

const fn rule_id_ie(rule: RuleId) -> IeType {
    match rule {
        RuleId::Pdr(_) => IeType::PDR_ID,
        RuleId::Far(_) => IeType::FAR_ID,
        RuleId::Qer(_) => IeType::QER_ID,
        RuleId::Bar(_) => IeType::BAR_ID,
        RuleId::Urr(_) => IeType::URR_ID,
    }
}

/// The IE that a reporting trigger depends on.
fn trigger_ie(trigger: UsageTriggers) -> IeType {
    let ies = [
        (UsageTriggers::PERIODIC, IeType::MEASUREMENT_PERIOD),
        (UsageTriggers::VOLUME_THRESHOLD, IeType::VOLUME_THRESHOLD),
        (UsageTriggers::TIME_THRESHOLD, IeType::TIME_THRESHOLD),
        (UsageTriggers::EVENT_THRESHOLD, IeType::EVENT_THRESHOLD),
        (UsageTriggers::ENVELOPE_CLOSURE, IeType::TIME_QUOTA_MECHANISM),
        (UsageTriggers::QUOTA_HOLDING_TIME, IeType::QUOTA_HOLDING_TIME),
        (UsageTriggers::DROPPED_DL, IeType::DROPPED_DL_TRAFFIC_THRESHOLD),
        (UsageTriggers::LINKED, IeType::LINKED_URR_ID),
        (UsageTriggers::QUOTA_VALIDITY_TIME, IeType::QUOTA_VALIDITY_TIME),
    ];
    let ie = ies.into_iter().find(|(known, _)| *known == trigger);
    ie.map_or(IeType::REPORTING_TRIGGERS, |(_, ie)| ie)
}

const fn framed_route_ie(prefix: IpPrefix) -> IeType {
    match prefix {
        IpPrefix::V4(_) => IeType::FRAMED_ROUTE,
        IpPrefix::V6(_) => IeType::FRAMED_IPV6_ROUTE,
    }
}

fn cause_and_ie(refusal: &Refusal) -> (Cause, Option<IeType>) {
    let rule = Cause::RuleCreationModificationFailure;
    let missing = Cause::ConditionalIeMissing;
    match refusal {
        Refusal::UnknownSession { .. } => (Cause::SessionContextNotFound, None),
        Refusal::SessionTableFull
        | Refusal::TeidsExhausted
        | Refusal::TooManyRules { .. }
        | Refusal::TooManyTrafficEndpoints
        | Refusal::UsageSlotsExhausted
        | Refusal::TooManyPredefinedRules
        | Refusal::TooManyKeys => (Cause::NoResourcesAvailable, None),
        Refusal::GuaranteedRatesExhausted => (Cause::NoResourcesAvailable, Some(IeType::GBR)),
        Refusal::CorrelatedRatesExhausted => {
            (Cause::NoResourcesAvailable, Some(IeType::QER_CORRELATION_ID))
        }
        Refusal::DuplicateRule { rule: id } | Refusal::UnknownRule { rule: id } => {
            (rule, Some(rule_id_ie(*id)))
        }
        Refusal::FarMissing { .. } => (missing, Some(IeType::FAR_ID)),
        Refusal::UnknownFar { .. } => (rule, Some(IeType::FAR_ID)),
        Refusal::UnknownBar { .. } => (rule, Some(IeType::BAR_ID)),
        Refusal::TooManyQers { .. } | Refusal::UnknownQer { .. } => (rule, Some(IeType::QER_ID)),
        Refusal::TooManyUrrs { .. } | Refusal::UnknownUrr { .. } => (rule, Some(IeType::URR_ID)),
        Refusal::UnknownLinkedUrr { .. } => (rule, Some(IeType::LINKED_URR_ID)),
        Refusal::UnknownQuotaFar { .. } => (rule, Some(IeType::FAR_ID)),
        Refusal::MeasuresNothing { .. } => (rule, Some(IeType::MEASUREMENT_METHOD)),
        Refusal::TooManyMonitoringTimes { .. } => {
            (Cause::NoResourcesAvailable, Some(IeType::ADDITIONAL_MONITORING_TIME))
        }
        Refusal::TooManyExemptedApplications { .. } => {
            (Cause::NoResourcesAvailable, Some(IeType::APPLICATION_ID))
        }
        Refusal::TimeIntervalZero { .. } => {
            (Cause::MandatoryIeIncorrect, Some(IeType::TIME_QUOTA_MECHANISM))
        }
        Refusal::TriggerIncomplete { trigger, .. } => (missing, Some(trigger_ie(*trigger))),
        Refusal::UnsupportedInterface { rule: RuleId::Far(_) } => {
            (rule, Some(IeType::DESTINATION_INTERFACE))
        }
        Refusal::UnsupportedInterface { .. } => (rule, Some(IeType::SOURCE_INTERFACE)),
        Refusal::UnknownNetworkInstance { .. } => (rule, Some(IeType::NETWORK_INSTANCE)),
        Refusal::UnsupportedOuterHeaderRemoval { .. } => (rule, Some(IeType::OUTER_HEADER_REMOVAL)),
        Refusal::FTeidZero { .. }
        | Refusal::FTeidWithoutAddress { .. }
        | Refusal::ForeignAddress { .. }
        | Refusal::FTeidTaken { .. }
        | Refusal::FTeidSidesDiffer { .. }
        | Refusal::FTeidDirectionsDiffer { .. }
        | Refusal::FTeidFamilyUnavailable { .. } => (rule, Some(IeType::F_TEID)),
        Refusal::UeAddressMissing { .. }
        | Refusal::UeAddressInvalid { .. }
        | Refusal::UePrefixTooShort { .. }
        | Refusal::UeSideUnsupported { .. }
        | Refusal::UePrefixInvalid { .. }
        | Refusal::UeAddressTaken { .. } => (rule, Some(IeType::UE_IP_ADDRESS)),
        Refusal::FramedRouteInvalid { prefix, .. } | Refusal::FramedRouteTaken { prefix, .. } => {
            (rule, Some(framed_route_ie(*prefix)))
        }
        Refusal::TooManyUeNetworks { .. } => {
            (Cause::NoResourcesAvailable, Some(IeType::FRAMED_ROUTE))
        }
        Refusal::AggregatedUrrUnusable { .. } => (rule, Some(IeType::AGGREGATED_URR_ID)),
        Refusal::PoolMeasuresOthers { .. } => {
            (Cause::ServiceNotSupported, Some(IeType::MEASUREMENT_METHOD))
        }
        Refusal::ExemptedFlowInvalid { .. } => (rule, Some(IeType::SDF_FILTER)),
        Refusal::UnknownApplication { .. } | Refusal::UnknownExemptedApplication { .. } => {
            (Cause::UnknownApplicationId, Some(IeType::APPLICATION_ID))
        }
        Refusal::UnknownPredefinedRule { .. } => {
            (Cause::UnknownPredefinedRule, Some(IeType::ACTIVATE_PREDEFINED_RULES))
        }
        Refusal::InactivePredefinedRule { .. } => {
            (Cause::UnknownPredefinedRule, Some(IeType::DEACTIVATE_PREDEFINED_RULES))
        }
        Refusal::PredefinedRuleNotAlone { .. } => (rule, Some(IeType::ACTIVATE_PREDEFINED_RULES)),
        Refusal::ApplicationNotAlone { .. } => (rule, Some(IeType::APPLICATION_ID)),
        Refusal::NoUePool { .. } => (rule, Some(IeType::UE_IP_ADDRESS)),
        Refusal::UnknownUePool { .. } => (rule, Some(IeType::UE_IP_ADDRESS_POOL_IDENTITY)),
        Refusal::UePoolsExhausted { .. } => {
            (Cause::AllDynamicAddressesOccupied, Some(IeType::UE_IP_ADDRESS))
        }
        Refusal::DuplicateTrafficEndpoint { .. }
        | Refusal::UnknownTrafficEndpoint { .. }
        | Refusal::UnknownTrafficEndpointOfPdr { .. }
        | Refusal::TrafficEndpointNotAlone { .. }
        | Refusal::TooManyTrafficEndpointsOfPdr { .. }
        | Refusal::UnknownLinkedEndpoint { .. }
        | Refusal::TrafficEndpointUnusable { .. } => (rule, Some(IeType::TRAFFIC_ENDPOINT_ID)),
        Refusal::TooManySdfFilters { .. }
        | Refusal::SdfInvalid { .. }
        | Refusal::SdfFlowLabelInvalid { .. }
        | Refusal::SdfWithoutId { .. }
        | Refusal::DuplicateSdfFilter { .. }
        | Refusal::UnknownSdfFilter { .. } => (rule, Some(IeType::SDF_FILTER)),
        Refusal::UnsupportedAction { .. } | Refusal::ContradictoryAction { .. } => {
            (rule, Some(IeType::APPLY_ACTION))
        }
        Refusal::FarWithoutForwardingParameters { .. } => {
            (missing, Some(IeType::FORWARDING_PARAMETERS))
        }
        Refusal::FarWithoutDuplicatingParameters { .. } => {
            (missing, Some(IeType::DUPLICATING_PARAMETERS))
        }
        Refusal::TooManyDuplicates { .. } => {
            (Cause::NoResourcesAvailable, Some(IeType::DUPLICATING_PARAMETERS))
        }
        Refusal::RedirectInvalid { .. } | Refusal::RedirectUnusable { .. } => {
            (rule, Some(IeType::REDIRECT_INFORMATION))
        }
        Refusal::UnknownForwardingPolicy { .. } => {
            (Cause::InvalidForwardingPolicy, Some(IeType::FORWARDING_POLICY))
        }
        Refusal::FarWithoutDestination { .. } => (missing, Some(IeType::DESTINATION_INTERFACE)),
        Refusal::FarWithoutOuterHeader { .. } => (missing, Some(IeType::OUTER_HEADER_CREATION)),
        Refusal::TunnelInvalid { .. } | Refusal::TunnelFamilyUnavailable { .. } => {
            (rule, Some(IeType::OUTER_HEADER_CREATION))
        }
    }
}

#[cfg(test)]
mod tests {
    use adit_types::{FarId, PdrId, Seid};

    use super::*;

    #[test]
    fn refusal_names_cause_offending_ie_and_rule() {
        let (pdr, far) = (PdrId(7), FarId(9));
        let rejected = Rejected::from(Refusal::UnknownFar { pdr, far });
        assert_eq!(rejected.cause, Cause::RuleCreationModificationFailure);
        assert_eq!(rejected.offending_ie, Some(IeType::FAR_ID));
        assert_eq!(rejected.failed_rule, Some(FailedRuleId::Pdr(pdr)));
        let rejected = Rejected::from(Refusal::FarWithoutForwardingParameters { far });
        assert_eq!(rejected.cause, Cause::ConditionalIeMissing);
        assert_eq!(rejected.failed_rule, Some(FailedRuleId::Far(far)));
    }

    #[test]
    fn refusal_without_a_rule_names_none() {
        assert_eq!(
            Rejected::from(Refusal::SessionTableFull),
            Rejected::new(Cause::NoResourcesAvailable)
        );
        assert_eq!(
            Rejected::from(Refusal::UnknownSession { up_seid: Seid(1) }),
            Rejected::new(Cause::SessionContextNotFound)
        );
    }
}
