//! Why a change was refused: which rule, which reference, which limit.
//!
//! `n4` maps every variant once to a Cause, an Offending IE and a Failed Rule ID.
//! Spec: TS 29.244 §8.2.1, §8.2.22, §8.2.80.

use core::fmt;
use core::net::IpAddr;

use adit_rules::{ApplyAction, HeaderRemoval, UeAddresses};
use adit_types::{BarId, FarId, IpPrefix, Ipv6Prefix, PdrId, QerId, Seid, Teid, UrrId};

use crate::record::{TrafficEndpointId, UsageTriggers};
use crate::sdf_text::SdfTextError;

/// Kinds of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// Packet Detection Rule.
    Pdr,
    /// Forwarding Action Rule.
    Far,
    /// QoS Enforcement Rule.
    Qer,
    /// Buffering Action Rule.
    Bar,
    /// Usage Reporting Rule.
    Urr,
}

/// A rule of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleId {
    /// A PDR.
    Pdr(PdrId),
    /// A FAR.
    Far(FarId),
    /// A QER.
    Qer(QerId),
    /// A BAR.
    Bar(BarId),
    /// A URR.
    Urr(UrrId),
}

impl RuleId {
    /// The kind of rule.
    #[must_use]
    pub const fn kind(self) -> RuleKind {
        match self {
            Self::Pdr(_) => RuleKind::Pdr,
            Self::Far(_) => RuleKind::Far,
            Self::Qer(_) => RuleKind::Qer,
            Self::Bar(_) => RuleKind::Bar,
            Self::Urr(_) => RuleKind::Urr,
        }
    }
}

/// The first reason found why a change cannot be made. The store is as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No session has this identifier.
    UnknownSession {
        /// The identifier.
        up_seid: Seid,
    },
    /// As many sessions exist (or wait for their reclaim) as the configuration allows.
    SessionTableFull,
    /// The guaranteed bit rates of all sessions together would exceed what may be guaranteed.
    GuaranteedRatesExhausted,
    /// There would be more correlated rates than `limits::correlated_rates_max`.
    CorrelatedRatesExhausted,
    /// Created although it exists, or named twice in one list of the change.
    DuplicateRule {
        /// The rule.
        rule: RuleId,
    },
    /// Updated or removed although it does not exist.
    UnknownRule {
        /// The rule.
        rule: RuleId,
    },
    /// The session would have more rules of one kind than `limits::RULES_PER_SESSION_MAX`.
    TooManyRules {
        /// The kind.
        kind: RuleKind,
    },
    /// The session would have more lookup keys than `limits::KEYS_PER_SESSION_MAX`, or all sessions
    /// together more of one kind than there may be sessions.
    TooManyKeys,
    /// The PDR names more QERs than `limits::QERS_PER_PDR_MAX`.
    TooManyQers {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDR names more URRs than `limits::URRS_PER_PDR_MAX`.
    TooManyUrrs {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDR names a URR that does not exist after the change.
    UnknownUrr {
        /// The PDR.
        pdr: PdrId,
        /// The URR.
        urr: UrrId,
    },
    /// The URR is linked to a URR that does not exist after the change.
    UnknownLinkedUrr {
        /// The URR.
        urr: UrrId,
        /// The URR that it names.
        linked: UrrId,
    },
    /// The URR's quota action is a FAR that does not exist after the change.
    UnknownQuotaFar {
        /// The URR.
        urr: UrrId,
        /// The FAR.
        far: FarId,
    },
    /// A flow that the URR exempts is unusable, or there are too many.
    ExemptedFlowInvalid {
        /// The URR.
        urr: UrrId,
    },
    /// An application that the URR exempts is not known.
    UnknownExemptedApplication {
        /// The URR.
        urr: UrrId,
    },
    /// The URR exempts more applications than fit.
    TooManyExemptedApplications {
        /// The URR.
        urr: UrrId,
    },
    /// A credit pool cannot have this URR: it is unknown, a pool itself, or in a pool already.
    AggregatedUrrUnusable {
        /// The pool.
        urr: UrrId,
        /// The URR that it names.
        aggregated: UrrId,
    },
    /// The credit pool measures something besides volume.
    PoolMeasuresOthers {
        /// The pool.
        urr: UrrId,
    },
    /// The URR has more monitoring times than fit.
    TooManyMonitoringTimes {
        /// The URR.
        urr: UrrId,
    },
    /// The base time interval of the URR's time quota mechanism is zero.
    TimeIntervalZero {
        /// The URR.
        urr: UrrId,
    },
    /// The URR measures neither volume nor duration nor events.
    MeasuresNothing {
        /// The URR.
        urr: UrrId,
    },
    /// The URR asks for reports without what they depend on.
    TriggerIncomplete {
        /// The URR.
        urr: UrrId,
        /// What it asks for.
        trigger: UsageTriggers,
    },
    /// All usage counters are in use.
    UsageSlotsExhausted,
    /// The PDR has more SDF filters than `limits::SDF_FILTERS_PER_PDR_MAX`.
    TooManySdfFilters {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDR names no FAR.
    FarMissing {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDR names a FAR that does not exist after the change.
    UnknownFar {
        /// The PDR.
        pdr: PdrId,
        /// The FAR.
        far: FarId,
    },
    /// The PDR names a QER that does not exist after the change.
    UnknownQer {
        /// The PDR.
        pdr: PdrId,
        /// The QER.
        qer: QerId,
    },
    /// The FAR's destination is the LI function, which receives copies alone.
    UnsupportedInterface {
        /// The FAR.
        rule: RuleId,
    },
    /// No interface that the rule could use belongs to the network instance that it names.
    UnknownNetworkInstance {
        /// The PDR or FAR.
        rule: RuleId,
    },
    /// The PDR removes an outer header of a kind not supported yet.
    UnsupportedOuterHeaderRemoval {
        /// The PDR.
        pdr: PdrId,
        /// The kind.
        removal: HeaderRemoval,
    },
    /// A TEID of zero was given. Spec: TS 29.281 §5.1.
    FTeidZero {
        /// The PDR.
        pdr: PdrId,
    },
    /// The F-TEID names no address, whether given or to be chosen.
    FTeidWithoutAddress {
        /// The PDR.
        pdr: PdrId,
    },
    /// The given F-TEID names an address that is not ours.
    ForeignAddress {
        /// The PDR.
        pdr: PdrId,
        /// The address.
        addr: IpAddr,
    },
    /// The given TEID belongs to another session, or waits for its reclaim.
    FTeidTaken {
        /// The PDR.
        pdr: PdrId,
        /// The TEID.
        teid: Teid,
    },
    /// The TEID belongs to PDRs of different source interfaces; a tunnel comes from one side.
    FTeidSidesDiffer {
        /// The PDR.
        pdr: PdrId,
        /// The TEID.
        teid: Teid,
    },
    /// PDRs lead packets of a tunnel from the CP function both to the RAN and elsewhere.
    FTeidDirectionsDiffer {
        /// The PDR.
        pdr: PdrId,
        /// The TEID.
        teid: Teid,
    },
    /// An F-TEID was to be chosen only in address families in which we have no address.
    FTeidFamilyUnavailable {
        /// The PDR.
        pdr: PdrId,
    },
    /// No TEID is left to choose.
    TeidsExhausted,
    /// The UE IP Address names no address.
    UeAddressMissing {
        /// The PDR.
        pdr: PdrId,
    },
    /// The UE address is none that a UE can have.
    UeAddressInvalid {
        /// The PDR.
        pdr: PdrId,
        /// The addresses.
        ue: UeAddresses,
    },
    /// The UE's IPv6 prefix has fewer than 64 bits.
    UePrefixTooShort {
        /// The PDR.
        pdr: PdrId,
        /// The prefix.
        prefix: Ipv6Prefix,
    },
    /// The UE address is to be the destination of packets that come from the UE's side.
    UeSideUnsupported {
        /// The PDR.
        pdr: PdrId,
    },
    /// The UE address belongs to another session. IPv6 addresses within one /64 count as one.
    UeAddressTaken {
        /// The PDR.
        pdr: PdrId,
        /// The address, or the first one of the prefix.
        addr: IpAddr,
    },
    /// The UE address or prefix beyond one per family is none that a UE can have.
    UePrefixInvalid {
        /// The PDR.
        pdr: PdrId,
        /// The prefix.
        prefix: IpPrefix,
    },
    /// The framed route holds addresses that no host behind a UE can have.
    FramedRouteInvalid {
        /// The PDR.
        pdr: PdrId,
        /// The framed route.
        prefix: IpPrefix,
    },
    /// The framed route belongs to another session. Network instances share one address space.
    FramedRouteTaken {
        /// The PDR.
        pdr: PdrId,
        /// The framed route.
        prefix: IpPrefix,
    },
    /// The PDI names more networks than `limits::UE_NETWORKS_PER_PDI_MAX`.
    TooManyUeNetworks {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDI names more traffic endpoints than `limits::TRAFFIC_ENDPOINTS_PER_PDI_MAX`.
    TooManyTrafficEndpointsOfPdr {
        /// The PDR.
        pdr: PdrId,
    },
    /// The FAR is linked to a traffic endpoint that does not exist after the change.
    UnknownLinkedEndpoint {
        /// The FAR.
        far: FarId,
        /// The traffic endpoint.
        id: TrafficEndpointId,
    },
    /// No pool of ours has addresses of the wanted family for the network instance.
    NoUePool {
        /// The PDR, unless a traffic endpoint asked.
        pdr: Option<PdrId>,
    },
    /// None of the pools that the control plane names exists for the family and network instance.
    UnknownUePool {
        /// The PDR, unless a traffic endpoint asked.
        pdr: Option<PdrId>,
    },
    /// All addresses of the pools are in use or wait for their reclaim.
    UePoolsExhausted {
        /// The PDR, unless a traffic endpoint asked.
        pdr: Option<PdrId>,
    },
    /// Created although it exists, or named twice in one list of the change.
    DuplicateTrafficEndpoint {
        /// The traffic endpoint.
        id: TrafficEndpointId,
    },
    /// Updated or removed although it does not exist.
    UnknownTrafficEndpoint {
        /// The traffic endpoint.
        id: TrafficEndpointId,
    },
    /// The PDR names a traffic endpoint that does not exist after the change.
    UnknownTrafficEndpointOfPdr {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDR names a traffic endpoint and a tunnel or UE address of its own.
    TrafficEndpointNotAlone {
        /// The PDR.
        pdr: PdrId,
    },
    /// The traffic endpoint's F-TEID is not ours to give, or it or the UE address belongs to
    /// another session.
    TrafficEndpointUnusable {
        /// The traffic endpoint.
        id: TrafficEndpointId,
    },
    /// The session would have more traffic endpoints than `limits::RULES_PER_SESSION_MAX`.
    TooManyTrafficEndpoints,
    /// The PDR names an application that is not configured.
    UnknownApplication {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDR has an application and SDF filters.
    ApplicationNotAlone {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDR activates a predefined rule that is not configured.
    UnknownPredefinedRule {
        /// The PDR.
        pdr: PdrId,
    },
    /// A predefined rule is to be deactivated that the PDR did not activate under this name.
    InactivePredefinedRule {
        /// The PDR.
        pdr: PdrId,
    },
    /// The PDR activates predefined rules and has SDF filters or an application of its own.
    PredefinedRuleNotAlone {
        /// The PDR.
        pdr: PdrId,
    },
    /// More predefined rules would be active than `limits::PREDEFINED_RULES_PER_SESSION_MAX`.
    TooManyPredefinedRules,
    /// The flow description cannot be understood or used.
    SdfInvalid {
        /// The PDR.
        pdr: PdrId,
        /// What is wrong with it.
        error: SdfTextError,
    },
    /// The flow label exceeds 20 bits.
    SdfFlowLabelInvalid {
        /// The PDR.
        pdr: PdrId,
        /// The value.
        flow_label: u32,
    },
    /// The SDF filter is bidirectional and has no identifier.
    SdfWithoutId {
        /// The PDR.
        pdr: PdrId,
    },
    /// Two SDF filters of the session define the same identifier bidirectionally.
    DuplicateSdfFilter {
        /// The second PDR.
        pdr: PdrId,
        /// The identifier.
        filter_id: u32,
    },
    /// The SDF filter refers to an identifier that no bidirectional filter of the session defines.
    UnknownSdfFilter {
        /// The PDR.
        pdr: PdrId,
        /// The identifier.
        filter_id: u32,
    },
    /// The FAR names a BAR that does not exist after the change.
    UnknownBar {
        /// The FAR.
        far: FarId,
        /// The BAR.
        bar: BarId,
    },
    /// The action sets a flag that is not supported yet, or an unknown one.
    UnsupportedAction {
        /// The FAR.
        far: FarId,
        /// The action.
        action: ApplyAction,
    },
    /// Not exactly one of DROP and FORW is set.
    ContradictoryAction {
        /// The FAR.
        far: FarId,
        /// The action.
        action: ApplyAction,
    },
    /// The FAR forwards and has no forwarding parameters.
    FarWithoutForwardingParameters {
        /// The FAR.
        far: FarId,
    },
    /// Forwarding parameters are provided for the first time, without a destination.
    FarWithoutDestination {
        /// The FAR.
        far: FarId,
    },
    /// The FAR forwards to the CP function, or duplicates to Access or to the LI function, without
    /// creating an outer header.
    FarWithoutOuterHeader {
        /// The FAR.
        far: FarId,
    },
    /// The outer header's TEID is zero or its address is none of a host.
    TunnelInvalid {
        /// The FAR.
        far: FarId,
    },
    /// The outer header is of an address family in which we have no address.
    TunnelFamilyUnavailable {
        /// The FAR.
        far: FarId,
    },
    /// The FAR duplicates, but does not say where to.
    FarWithoutDuplicatingParameters {
        /// The FAR.
        far: FarId,
    },
    /// More than `limits::DUPLICATES_PER_FAR_MAX` sets of duplicating parameters.
    TooManyDuplicates {
        /// The FAR.
        far: FarId,
    },
    /// The redirect address is none of another host, the port is zero, or the URL is empty, too long
    /// or not of printable ASCII.
    RedirectInvalid {
        /// The FAR.
        far: FarId,
    },
    /// A PDR towards the UE has a FAR that redirects to a URL, which only requests can be.
    RedirectUnusable {
        /// The PDR.
        pdr: PdrId,
    },
    /// The operator configured no such forwarding policy.
    UnknownForwardingPolicy {
        /// The FAR.
        far: FarId,
    },
}

impl Refusal {
    /// The rule at fault, where one is: the Failed Rule ID of the answer.
    #[must_use]
    pub const fn rule(&self) -> Option<RuleId> {
        match *self {
            Self::UnknownSession { .. }
            | Self::SessionTableFull
            | Self::TooManyRules { .. }
            | Self::TooManyKeys
            | Self::UsageSlotsExhausted
            | Self::GuaranteedRatesExhausted
            | Self::CorrelatedRatesExhausted
            | Self::TeidsExhausted
            | Self::DuplicateTrafficEndpoint { .. }
            | Self::UnknownTrafficEndpoint { .. }
            | Self::TrafficEndpointUnusable { .. }
            | Self::TooManyPredefinedRules
            | Self::TooManyTrafficEndpoints => None,
            Self::NoUePool { pdr }
            | Self::UnknownUePool { pdr }
            | Self::UePoolsExhausted { pdr } => match pdr {
                Some(pdr) => Some(RuleId::Pdr(pdr)),
                None => None,
            },
            Self::UnknownLinkedUrr { urr, .. }
            | Self::UnknownQuotaFar { urr, .. }
            | Self::MeasuresNothing { urr }
            | Self::TooManyMonitoringTimes { urr }
            | Self::AggregatedUrrUnusable { urr, .. }
            | Self::PoolMeasuresOthers { urr }
            | Self::ExemptedFlowInvalid { urr }
            | Self::UnknownExemptedApplication { urr }
            | Self::TooManyExemptedApplications { urr }
            | Self::TimeIntervalZero { urr }
            | Self::TriggerIncomplete { urr, .. } => Some(RuleId::Urr(urr)),
            Self::DuplicateRule { rule }
            | Self::UnknownRule { rule }
            | Self::UnsupportedInterface { rule }
            | Self::UnknownNetworkInstance { rule } => Some(rule),
            Self::TooManyQers { pdr }
            | Self::TooManyUrrs { pdr }
            | Self::UnknownUrr { pdr, .. }
            | Self::TooManySdfFilters { pdr }
            | Self::FarMissing { pdr }
            | Self::UnknownFar { pdr, .. }
            | Self::UnknownQer { pdr, .. }
            | Self::UnsupportedOuterHeaderRemoval { pdr, .. }
            | Self::FTeidZero { pdr }
            | Self::FTeidWithoutAddress { pdr }
            | Self::ForeignAddress { pdr, .. }
            | Self::FTeidTaken { pdr, .. }
            | Self::FTeidSidesDiffer { pdr, .. }
            | Self::FTeidDirectionsDiffer { pdr, .. }
            | Self::FTeidFamilyUnavailable { pdr }
            | Self::UeAddressMissing { pdr }
            | Self::UeAddressInvalid { pdr, .. }
            | Self::UePrefixTooShort { pdr, .. }
            | Self::UeSideUnsupported { pdr }
            | Self::UeAddressTaken { pdr, .. }
            | Self::UePrefixInvalid { pdr, .. }
            | Self::FramedRouteInvalid { pdr, .. }
            | Self::FramedRouteTaken { pdr, .. }
            | Self::TooManyUeNetworks { pdr }
            | Self::TooManyTrafficEndpointsOfPdr { pdr }
            | Self::SdfInvalid { pdr, .. }
            | Self::SdfFlowLabelInvalid { pdr, .. }
            | Self::SdfWithoutId { pdr }
            | Self::DuplicateSdfFilter { pdr, .. }
            | Self::UnknownSdfFilter { pdr, .. }
            | Self::UnknownTrafficEndpointOfPdr { pdr }
            | Self::TrafficEndpointNotAlone { pdr }
            | Self::UnknownApplication { pdr }
            | Self::RedirectUnusable { pdr }
            | Self::UnknownPredefinedRule { pdr }
            | Self::InactivePredefinedRule { pdr }
            | Self::PredefinedRuleNotAlone { pdr }
            | Self::ApplicationNotAlone { pdr } => Some(RuleId::Pdr(pdr)),
            Self::UnsupportedAction { far, .. }
            | Self::UnknownBar { far, .. }
            | Self::UnknownLinkedEndpoint { far, .. }
            | Self::ContradictoryAction { far, .. }
            | Self::FarWithoutForwardingParameters { far }
            | Self::FarWithoutDestination { far }
            | Self::FarWithoutOuterHeader { far }
            | Self::TunnelInvalid { far }
            | Self::FarWithoutDuplicatingParameters { far }
            | Self::TooManyDuplicates { far }
            | Self::RedirectInvalid { far }
            | Self::UnknownForwardingPolicy { far }
            | Self::TunnelFamilyUnavailable { far } => Some(RuleId::Far(far)),
        }
    }

    /// What is wrong, without the values: a label for counters and logs.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        match self {
            Self::UnknownSession { .. } => "no such session",
            Self::SessionTableFull => "the session table is full",
            Self::DuplicateRule { .. } => "the rule exists already or is named twice",
            Self::UnknownRule { .. } => "no such rule",
            Self::TooManyRules { .. } => "too many rules of one kind",
            Self::TooManyKeys => "too many TEIDs and UE addresses",
            Self::TooManyQers { .. } => "too many QERs in one PDR",
            Self::TooManyUrrs { .. } => "too many URRs in one PDR",
            Self::UnknownUrr { .. } => "the PDR names an unknown URR",
            Self::UnknownLinkedUrr { .. } => "the URR is linked to an unknown URR",
            Self::UnknownQuotaFar { .. } => "the quota action is an unknown FAR",
            Self::MeasuresNothing { .. } => "the URR measures nothing",
            Self::ExemptedFlowInvalid { .. } => "an exempted flow of the URR is unusable",
            Self::UnknownExemptedApplication { .. } => "the URR exempts an unknown application",
            Self::TooManyExemptedApplications { .. } => "the URR exempts too many applications",
            Self::AggregatedUrrUnusable { .. } => "the credit pool cannot have this URR",
            Self::PoolMeasuresOthers { .. } => "credit pools measure volume only",
            Self::TooManyMonitoringTimes { .. } => "too many monitoring times of one URR",
            Self::TimeIntervalZero { .. } => "the base time interval is zero",
            Self::TriggerIncomplete { .. } => "a reporting trigger lacks what it depends on",
            Self::UsageSlotsExhausted => "all usage counters are in use",
            Self::GuaranteedRatesExhausted => {
                "the guaranteed bit rates exceed the capacity for them"
            }
            Self::CorrelatedRatesExhausted => "too many different QER Correlation IDs",
            Self::TooManySdfFilters { .. } => "too many SDF filters in one PDR",
            Self::FarMissing { .. } => "the PDR names no FAR",
            Self::UnknownFar { .. } => "the PDR names an unknown FAR",
            Self::UnknownQer { .. } => "the PDR names an unknown QER",
            Self::UnsupportedInterface { .. } => "the LI function receives duplicates only",
            Self::UnknownNetworkInstance { .. } => "no interface of this network instance",
            Self::UnsupportedOuterHeaderRemoval { .. } => "outer header removal not supported",
            Self::FTeidZero { .. } => "the given TEID is zero",
            Self::FTeidWithoutAddress { .. } => "the F-TEID names no address",
            Self::ForeignAddress { .. } => "the given F-TEID's address is not ours",
            Self::FTeidTaken { .. } => "the given TEID is taken",
            Self::FTeidSidesDiffer { .. } => "PDRs of different source interfaces share the TEID",
            Self::FTeidDirectionsDiffer { .. } => {
                "PDRs of the CP function share the TEID, and their FARs lead to the RAN and elsewhere"
            }
            Self::FTeidFamilyUnavailable { .. } => "no local address of the wanted family",
            Self::TeidsExhausted => "no TEID is left",
            Self::UeAddressMissing { .. } => "the UE IP address names no address",
            Self::UeAddressInvalid { .. } => "not an address of a UE",
            Self::UePrefixTooShort { .. } => "UE IPv6 prefixes below 64 bits are not supported",
            Self::UeSideUnsupported { .. } => "the UE's address as destination in uplink",
            Self::UeAddressTaken { .. } => "the UE address belongs to another session",
            Self::UePrefixInvalid { .. } => "not a prefix of a UE",
            Self::FramedRouteInvalid { .. } => "not a network behind a UE",
            Self::FramedRouteTaken { .. } => "the framed route belongs to another session",
            Self::TooManyUeNetworks { .. } => "too many framed routes and UE addresses in one PDI",
            Self::TooManyTrafficEndpointsOfPdr { .. } => "too many traffic endpoints in one PDI",
            Self::UnknownLinkedEndpoint { .. } => "the FAR is linked to no traffic endpoint",
            Self::NoUePool { .. } => "no pool of UE addresses for this network instance",
            Self::UnknownUePool { .. } => "no such pool of UE addresses",
            Self::UePoolsExhausted { .. } => "all UE addresses of the pool are occupied",
            Self::DuplicateTrafficEndpoint { .. } => {
                "the traffic endpoint exists already or is named twice"
            }
            Self::UnknownTrafficEndpoint { .. } => "no such traffic endpoint",
            Self::UnknownTrafficEndpointOfPdr { .. } => {
                "the PDR names no traffic endpoint of the session"
            }
            Self::TrafficEndpointNotAlone { .. } => {
                "a tunnel or UE address beside a traffic endpoint"
            }
            Self::TrafficEndpointUnusable { .. } => "the traffic endpoint is taken or not ours",
            Self::TooManyTrafficEndpoints => "too many traffic endpoints",
            Self::UnknownApplication { .. } => "the application is unknown",
            Self::ApplicationNotAlone { .. } => "SDF filters beside an application",
            Self::UnknownPredefinedRule { .. } => "no such predefined rule",
            Self::InactivePredefinedRule { .. } => "the predefined rule is not active",
            Self::PredefinedRuleNotAlone { .. } => {
                "SDF filters or an application beside predefined rules"
            }
            Self::TooManyPredefinedRules => "too many predefined rules",
            Self::SdfInvalid { .. } => "the flow description is invalid",
            Self::SdfFlowLabelInvalid { .. } => "the flow label exceeds 20 bits",
            Self::SdfWithoutId { .. } => "the bidirectional SDF filter has no identifier",
            Self::DuplicateSdfFilter { .. } => "the SDF filter identifier is defined twice",
            Self::UnknownSdfFilter { .. } => "no bidirectional SDF filter has this identifier",
            Self::UnknownBar { .. } => "the FAR names an unknown BAR",
            Self::UnsupportedAction { .. } => "the apply action is not supported",
            Self::ContradictoryAction { .. } => {
                "the flags of the apply action contradict each other"
            }
            Self::FarWithoutForwardingParameters { .. } => "FORW without forwarding parameters",
            Self::FarWithoutDestination { .. } => "forwarding parameters without a destination",
            Self::FarWithoutOuterHeader { .. } => {
                "FORW to the CP function, or DUPL to a tunnel, without an outer header"
            }
            Self::TunnelInvalid { .. } => "the outer header's TEID or address is invalid",
            Self::TunnelFamilyUnavailable { .. } => "no local address of the tunnel's family",
            Self::FarWithoutDuplicatingParameters { .. } => "DUPL without duplicating parameters",
            Self::TooManyDuplicates { .. } => "too many duplicating parameters in one FAR",
            Self::RedirectInvalid { .. } => "the redirect address or URL is invalid",
            Self::RedirectUnusable { .. } => "redirection to a URL towards the UE",
            Self::UnknownForwardingPolicy { .. } => "no such forwarding policy",
        }
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pdr(id) => write!(f, "PDR {id}"),
            Self::Far(id) => write!(f, "FAR {id}"),
            Self::Qer(id) => write!(f, "QER {id}"),
            Self::Bar(id) => write!(f, "BAR {id}"),
            Self::Urr(id) => write!(f, "URR {id}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = self.rule() {
            write!(f, "{rule}: ")?;
        }
        f.write_str(self.text())?;
        match self {
            Self::UnknownSession { up_seid } => write!(f, ": {up_seid}"),
            Self::UnknownFar { far, .. } => write!(f, ": {far}"),
            Self::UnknownQer { qer, .. } => write!(f, ": {qer}"),
            Self::UnknownUrr { urr, .. } => write!(f, ": {urr}"),
            Self::UnknownLinkedUrr { linked, .. } => write!(f, ": {linked}"),
            Self::AggregatedUrrUnusable { aggregated, .. } => write!(f, ": {aggregated}"),
            Self::UnknownQuotaFar { far, .. } => write!(f, ": {far}"),
            Self::ForeignAddress { addr, .. } | Self::UeAddressTaken { addr, .. } => {
                write!(f, ": {addr}")
            }
            Self::FTeidTaken { teid, .. }
            | Self::FTeidSidesDiffer { teid, .. }
            | Self::FTeidDirectionsDiffer { teid, .. } => {
                write!(f, ": {teid}")
            }
            Self::UePrefixInvalid { prefix, .. }
            | Self::FramedRouteInvalid { prefix, .. }
            | Self::FramedRouteTaken { prefix, .. } => {
                write!(f, ": {prefix}")
            }
            Self::UePrefixTooShort { prefix, .. } => write!(f, ": {prefix}"),
            Self::SdfInvalid { error, .. } => write!(f, ": {error}"),
            Self::DuplicateSdfFilter { filter_id, .. }
            | Self::UnknownSdfFilter { filter_id, .. } => write!(f, ": {filter_id}"),
            _ => Ok(()),
        }
    }
}

impl core::error::Error for Refusal {}
