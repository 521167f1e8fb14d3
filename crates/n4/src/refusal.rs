//! How a refusal appears in a response.
//!
//! This is the only place that maps a session [`Refusal`] to a Cause, an Offending IE and a Failed
//! Rule ID. Spec: TS 29.244 §8.2.1, §8.2.22, §8.2.80.

use core::fmt;

use adit_pfcp::ie::FailedRuleId;
use adit_pfcp::{Cause, DecodeError, IeType};
use adit_session::{Refusal, RuleId, UsageTriggers};
use adit_types::IpPrefix;

/// The refusal of a request, as its response contains it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rejected {
    pub cause: Cause,
    pub offending_ie: Option<IeType>,
    pub failed_rule: Option<FailedRuleId>,
    pub detail: RefusalDetail,
}

/// Details of a refusal for the log, besides Cause, Offending IE and Failed Rule ID.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RefusalDetail {
    /// No detail: Cause and IE identify the refusal.
    None,
    Reason(&'static str),
    /// A maximum would be exceeded: its name, and its value.
    Beyond(&'static str, usize),
    Session(Refusal),
    /// Nothing is logged, since another event reports it.
    Logged,
}

impl Rejected {
    /// A refusal for a reason that no IE identifies.
    pub(crate) const fn new(cause: Cause, reason: &'static str) -> Self {
        let detail = RefusalDetail::Reason(reason);
        Self { cause, offending_ie: None, failed_rule: None, detail }
    }

    pub(crate) const fn with_ie(cause: Cause, ie: IeType) -> Self {
        let detail = RefusalDetail::None;
        Self { cause, offending_ie: Some(ie), failed_rule: None, detail }
    }

    /// Cause 75: there would be more than `most` of `what`.
    pub(crate) const fn beyond_limit(what: &'static str, most: usize) -> Self {
        let detail = RefusalDetail::Beyond(what, most);
        Self { cause: Cause::NoResourcesAvailable, offending_ie: None, failed_rule: None, detail }
    }

    /// Cause 72: the sender has no association.
    pub(crate) const fn no_association() -> Self {
        Self::new(Cause::NoEstablishedAssociation, "no association with this address")
    }

    /// Cause 72: the Node ID in the request is not that of the sender's association.
    pub(crate) const fn other_node_id() -> Self {
        Self::new(Cause::NoEstablishedAssociation, "the Node ID is not that of the association")
    }

    /// Cause 76: the IE requires a function that is not supported.
    pub(crate) const fn unsupported(ie: IeType) -> Self {
        Self::with_ie(Cause::ServiceNotSupported, ie)
    }

    /// Adds the rule at fault, unless the refusal has a more precise one.
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
            detail: RefusalDetail::None,
        }
    }
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Self {
        let (cause, offending_ie) = cause_and_ie(&refusal);
        let failed_rule = refusal.rule().map(failed_rule);
        Self { cause, offending_ie, failed_rule, detail: RefusalDetail::Session(refusal) }
    }
}

/// The text for the log.
impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.cause.code(), self.cause)?;
        if let Some(ie) = self.offending_ie {
            write!(f, ", IE {} {}", ie.0, ie.name())?;
        }
        if let RefusalDetail::Session(refusal) = self.detail {
            return write!(f, ": {refusal}");
        }
        if let Some(rule) = self.failed_rule {
            write!(f, ": {rule}")?;
        }
        match self.detail {
            RefusalDetail::Reason(reason) => write!(f, ": {reason}"),
            RefusalDetail::Beyond(what, most) => write!(f, ": at most {most} {what}"),
            RefusalDetail::None | RefusalDetail::Session(_) | RefusalDetail::Logged => Ok(()),
        }
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

/// Returns the IE that says which interface a rule is for.
const fn interface_ie(rule: RuleId) -> IeType {
    match rule {
        RuleId::Pdr(_) => IeType::SOURCE_INTERFACE,
        _ => IeType::DESTINATION_INTERFACE,
    }
}

/// Returns the IE that a reporting trigger depends on.
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

/// Defines [`cause_and_ie`] by a table: Cause, Offending IE (`-` for none), and the refusals that
/// they apply to. The compiler checks that no refusal is missing.
macro_rules! causes {
    (
        $($cause:ident, $ie:tt: $($name:ident $({ $($field:tt)+ })?),+;)+
    ) => {
        fn cause_and_ie(refusal: &Refusal) -> (Cause, Option<IeType>) {
            match refusal {
                $($(Refusal::$name { $($($field)+,)? .. })|+ => (Cause::$cause, causes!(@ $ie)),)+
            }
        }
    };
    (@ -) => { None };
    (@ ($ie:expr)) => { Some($ie) };
    (@ $ie:ident) => { Some(IeType::$ie) };
}

causes! {
    SessionContextNotFound, -: UnknownSession;
    NoResourcesAvailable, -:
        SessionTableFull, RecordTooLarge, TeidsExhausted, UsageSlotsExhausted, TooManyRules, TooManyRates,
        TooManyKeys, UeTableFull, GivenTeidsFull, TooManyTrafficEndpoints, TooManyPredefinedRules;
    NoResourcesAvailable, GBR: GuaranteedRatesExhausted;
    NoResourcesAvailable, QER_CORRELATION_ID: CorrelatedRatesExhausted;
    NoResourcesAvailable, ADDITIONAL_MONITORING_TIME: TooManyMonitoringTimes;
    NoResourcesAvailable, APPLICATION_ID: TooManyExemptedApplications;
    NoResourcesAvailable, AGGREGATED_URRS: TooManyPoolMembers;
    NoResourcesAvailable, FRAMED_ROUTE: TooManyUeNetworks;
    NoResourcesAvailable, DUPLICATING_PARAMETERS: TooManyDuplicates;
    AllDynamicAddressesOccupied, UE_IP_ADDRESS: UePoolsExhausted;

    MandatoryIeIncorrect, TIME_QUOTA_MECHANISM: TimeIntervalZero;
    ServiceNotSupported, MEASUREMENT_METHOD: PoolMeasuresOthers;
    UnknownApplicationId, APPLICATION_ID: UnknownApplication, UnknownExemptedApplication;
    UnknownPredefinedRule, ACTIVATE_PREDEFINED_RULES: UnknownPredefinedRule;
    UnknownPredefinedRule, DEACTIVATE_PREDEFINED_RULES: InactivePredefinedRule;
    InvalidForwardingPolicy, FORWARDING_POLICY: UnknownForwardingPolicy;

    ConditionalIeMissing, FAR_ID: FarMissing;
    ConditionalIeMissing, (trigger_ie(*trigger)): TriggerIncomplete { trigger };
    ConditionalIeMissing, FORWARDING_PARAMETERS: FarWithoutForwardingParameters;
    ConditionalIeMissing, DUPLICATING_PARAMETERS: FarWithoutDuplicatingParameters;
    ConditionalIeMissing, DESTINATION_INTERFACE: FarWithoutDestination;
    ConditionalIeMissing, OUTER_HEADER_CREATION: FarWithoutOuterHeader;

    RuleCreationModificationFailure, (rule_id_ie(*rule)):
        DuplicateRule { rule }, UnknownRule { rule };
    RuleCreationModificationFailure, FAR_ID: UnknownFar, UnknownQuotaFar;
    RuleCreationModificationFailure, BAR_ID: UnknownBar;
    RuleCreationModificationFailure, QER_ID: TooManyQers, UnknownQer;
    RuleCreationModificationFailure, URR_ID: TooManyUrrs, UnknownUrr;
    RuleCreationModificationFailure, LINKED_URR_ID: UnknownLinkedUrr;
    RuleCreationModificationFailure, AGGREGATED_URR_ID: AggregatedUrrUnusable;
    RuleCreationModificationFailure, MEASUREMENT_METHOD: MeasuresNothing;
    RuleCreationModificationFailure, DESTINATION_INTERFACE: UnsupportedInterface;
    RuleCreationModificationFailure, NETWORK_INSTANCE: UnknownNetworkInstance;
    RuleCreationModificationFailure, (interface_ie(*rule)): NoDataNetwork { rule };
    RuleCreationModificationFailure, OUTER_HEADER_REMOVAL: UnsupportedOuterHeaderRemoval;
    RuleCreationModificationFailure, F_TEID:
        FTeidZero, FTeidWithoutAddress, ForeignAddress, FTeidTaken, FTeidSidesDiffer,
        FTeidDirectionsDiffer, FTeidFamilyUnavailable;
    RuleCreationModificationFailure, UE_IP_ADDRESS:
        UeAddressMissing, UeAddressInvalid, UePrefixTooShort, UeSideUnsupported, UePrefixInvalid,
        UeAddressTaken, UeAddressStatedAndRequested, NoUePool;
    RuleCreationModificationFailure, UE_IP_ADDRESS_POOL_IDENTITY: UnknownUePool;
    RuleCreationModificationFailure, (framed_route_ie(*prefix)):
        FramedRouteInvalid { prefix }, FramedRouteTaken { prefix };
    RuleCreationModificationFailure, SDF_FILTER:
        TooManySdfFilters, SdfInvalid, SdfFlowLabelInvalid, SdfWithoutId, DuplicateSdfFilter,
        UnknownSdfFilter, ExemptedFlowInvalid;
    RuleCreationModificationFailure, APPLICATION_ID: ApplicationNotAlone;
    RuleCreationModificationFailure, ACTIVATE_PREDEFINED_RULES: PredefinedRuleNotAlone;
    RuleCreationModificationFailure, TRAFFIC_ENDPOINT_ID:
        DuplicateTrafficEndpoint, UnknownTrafficEndpoint, UnknownTrafficEndpointOfPdr,
        TrafficEndpointNotAlone, TooManyTrafficEndpointsOfPdr, UnknownLinkedEndpoint,
        TrafficEndpointUnusable;
    RuleCreationModificationFailure, APPLY_ACTION: UnsupportedAction, ContradictoryAction;
    RuleCreationModificationFailure, REDIRECT_INFORMATION: RedirectInvalid, RedirectUnusable;
    RuleCreationModificationFailure, OUTER_HEADER_CREATION:
        TunnelInvalid, TunnelFamilyUnavailable, TunnelUnreachable;
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
        let answered = |refusal| {
            let Rejected { cause, offending_ie, failed_rule, .. } = Rejected::from(refusal);
            (cause, offending_ie, failed_rule)
        };
        let full = answered(Refusal::SessionTableFull);
        assert_eq!(full, (Cause::NoResourcesAvailable, None, None));
        let unknown = answered(Refusal::UnknownSession { up_seid: Seid(1) });
        assert_eq!(unknown, (Cause::SessionContextNotFound, None, None));
    }
}
