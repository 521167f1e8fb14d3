//! Why a change was refused: the rule, reference or limit at fault.
//!
//! `n4` maps every refusal to a Cause, an Offending IE and a Failed Rule ID.
//! Spec: TS 29.244 §8.2.1, §8.2.22, §8.2.80.

use core::fmt;
use core::net::IpAddr;

use adit_rules::{ApplyAction, HeaderRemoval, UeAddresses};
use adit_types::limits::{
    BARS_PER_SESSION_MAX, DUPLICATES_PER_FAR_MAX, EXEMPTED_APPLICATIONS_PER_URR_MAX,
    KEYS_PER_SESSION_MAX, MONITORING_TIMES_PER_URR_MAX, POOL_MEMBERS_PER_SESSION_MAX,
    PREDEFINED_RULES_PER_SESSION_MAX, QERS_PER_PDR_MAX, RATES_PER_SESSION_MAX,
    RULES_PER_SESSION_MAX, SDF_FILTERS_PER_PDR_MAX, SESSION_RECORD_BYTES_MAX,
    TRAFFIC_ENDPOINTS_PER_PDI_MAX, TRAFFIC_ENDPOINTS_PER_SESSION_MAX, UE_NETWORKS_PER_PDI_MAX,
    URRS_PER_PDR_MAX,
};
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
    /// Returns the kind of rule.
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

/// Defines [`Refusal`] by a table: for each refusal its meaning, the rule at fault, and its label.
macro_rules! refusals {
    ($(
        $(#[$meaning:meta])*
        $name:ident $({ $($field:ident: $type:ty),+ })?
            => $rule:expr, $label:literal;
    )+) => {
        /// The first reason found why a change cannot be made. The store is unchanged.
        ///
        /// If the PDR of a refusal is `None`, a traffic endpoint is at fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Refusal {
            $(
                $(#[$meaning])*
                $name $({
                    $(#[doc = concat!("The `", stringify!($type), "` at fault.")] $field: $type,)+
                })?,
            )+
        }

        impl Refusal {
            /// Returns the rule at fault, if there is one: the Failed Rule ID of the answer.
            #[must_use]
            #[allow(unused_variables, reason = "the table uses one field of a refusal at most")]
            pub const fn rule(&self) -> Option<RuleId> {
                match *self {
                    $(Self::$name $({ $($field),+ })? => $rule,)+
                }
            }

            /// Describes the fault without its values: a label for counters and logs.
            #[must_use]
            pub const fn text(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $label,)+
                }
            }
        }
    };
}

const fn of_pdr(pdr: Option<PdrId>) -> Option<RuleId> {
    match pdr {
        Some(pdr) => Some(RuleId::Pdr(pdr)),
        None => None,
    }
}

refusals! {
    /// No session has this identifier.
    UnknownSession { up_seid: Seid } => None, "no such session";
    /// The configured number of sessions exists; sessions that wait for a reclaim count.
    SessionTableFull => None, "the session table is full";
    /// The record of the session would exceed `limits::SESSION_RECORD_BYTES_MAX`.
    RecordTooLarge => None, "the session's rules take too much room";
    /// The guaranteed bit rates of all sessions together would exceed what may be guaranteed.
    GuaranteedRatesExhausted => None, "the guaranteed bit rates exceed the capacity for them";
    /// All sessions together would exceed `limits::correlated_rates_max` correlated rates.
    CorrelatedRatesExhausted => None, "too many different QER Correlation IDs";
    /// The change creates a rule that exists already, or one list of the change names a rule twice.
    DuplicateRule { rule: RuleId } => Some(rule), "the rule exists already or is named twice";
    /// The change updates or removes a rule that does not exist.
    UnknownRule { rule: RuleId } => Some(rule), "no such rule";
    /// The session would exceed [`RuleKind::max_per_session`] rules of one kind.
    TooManyRules { kind: RuleKind } => None, "too many rules of one kind";
    /// The session would exceed `limits::RATES_PER_SESSION_MAX` QERs with a bit rate.
    TooManyRates => None, "too many QERs with a bit rate in one session";
    /// The session would exceed `limits::KEYS_PER_SESSION_MAX` lookup keys.
    TooManyKeys => None, "too many TEIDs and UE addresses in one session";
    /// All sessions together would have more UE addresses or framed routes than there is room for.
    UeTableFull => None, "all sessions together have too many UE addresses or framed routes";
    /// All sessions together would have more TEIDs of control planes than the maximum number of
    /// sessions.
    GivenTeidsFull => None, "all sessions together have too many TEIDs that control planes chose";
    /// The PDR names more QERs than `limits::QERS_PER_PDR_MAX`.
    TooManyQers { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "too many QERs in one PDR";
    /// The PDR names more URRs than `limits::URRS_PER_PDR_MAX`.
    TooManyUrrs { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "too many URRs in one PDR";
    /// The PDR names a URR that does not exist after the change.
    UnknownUrr { pdr: PdrId, urr: UrrId } => Some(RuleId::Pdr(pdr)), "the PDR names an unknown URR";
    /// The URR is linked to a URR that does not exist after the change.
    UnknownLinkedUrr { urr: UrrId, linked: UrrId }
        => Some(RuleId::Urr(urr)), "the URR is linked to an unknown URR";
    /// The URR's quota action is a FAR that does not exist after the change.
    UnknownQuotaFar { urr: UrrId, far: FarId }
        => Some(RuleId::Urr(urr)), "the quota action is an unknown FAR";
    /// The URR exempts an unusable flow, or too many flows.
    ExemptedFlowInvalid { urr: UrrId }
        => Some(RuleId::Urr(urr)), "an exempted flow of the URR is unusable";
    /// The URR exempts an unknown application.
    UnknownExemptedApplication { urr: UrrId }
        => Some(RuleId::Urr(urr)), "the URR exempts an unknown application";
    /// The URR exempts more applications than `limits::EXEMPTED_APPLICATIONS_PER_URR_MAX`.
    TooManyExemptedApplications { urr: UrrId }
        => Some(RuleId::Urr(urr)), "the URR exempts too many applications";
    /// The credit pool names a URR that is unknown, a pool itself, or in another pool.
    AggregatedUrrUnusable { urr: UrrId, aggregated: UrrId }
        => Some(RuleId::Urr(urr)), "the credit pool cannot have this URR";
    /// The session would exceed `limits::POOL_MEMBERS_PER_SESSION_MAX` URRs in credit pools.
    TooManyPoolMembers { urr: UrrId }
        => Some(RuleId::Urr(urr)), "too many URRs in credit pools of one session";
    /// The credit pool measures more than volume.
    PoolMeasuresOthers { urr: UrrId } => Some(RuleId::Urr(urr)), "credit pools measure volume only";
    /// The URR has more monitoring times than `limits::MONITORING_TIMES_PER_URR_MAX`.
    TooManyMonitoringTimes { urr: UrrId }
        => Some(RuleId::Urr(urr)), "too many monitoring times of one URR";
    /// The base time interval of the URR's time quota mechanism is zero.
    TimeIntervalZero { urr: UrrId } => Some(RuleId::Urr(urr)), "the base time interval is zero";
    /// The URR measures neither volume nor duration nor events.
    MeasuresNothing { urr: UrrId } => Some(RuleId::Urr(urr)), "the URR measures nothing";
    /// The URR requests reports, but lacks the values that these depend on.
    TriggerIncomplete { urr: UrrId, trigger: UsageTriggers }
        => Some(RuleId::Urr(urr)), "a reporting trigger lacks what it depends on";
    /// All usage counters are in use.
    UsageSlotsExhausted => None, "all usage counters are in use";
    /// The PDR has more SDF filters than `limits::SDF_FILTERS_PER_PDR_MAX`.
    TooManySdfFilters { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "too many SDF filters in one PDR";
    /// The PDR names no FAR.
    FarMissing { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "the PDR names no FAR";
    /// The PDR names a FAR that does not exist after the change.
    UnknownFar { pdr: PdrId, far: FarId } => Some(RuleId::Pdr(pdr)), "the PDR names an unknown FAR";
    /// The PDR names a QER that does not exist after the change.
    UnknownQer { pdr: PdrId, qer: QerId } => Some(RuleId::Pdr(pdr)), "the PDR names an unknown QER";
    /// The FAR forwards to the LI function, which receives copies only.
    UnsupportedInterface { far: FarId }
        => Some(RuleId::Far(far)), "the LI function receives duplicates only";
    /// None of the interfaces that the rule could use belongs to its network instance.
    UnknownNetworkInstance { rule: RuleId } => Some(rule), "no interface of this network instance";
    /// The rule needs a data network, and no interface is an N6 interface.
    NoDataNetwork { rule: RuleId } => Some(rule), "there is no N6 interface";
    /// The PDR removes an outer header of an unsupported kind.
    UnsupportedOuterHeaderRemoval { pdr: PdrId, removal: HeaderRemoval }
        => Some(RuleId::Pdr(pdr)), "outer header removal not supported";
    /// The given TEID is zero. Spec: TS 29.281 §5.1.
    FTeidZero { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "the given TEID is zero";
    /// The F-TEID, given or to be chosen, names no address.
    FTeidWithoutAddress { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "the F-TEID names no address";
    /// The given F-TEID names an address that is not ours.
    ForeignAddress { pdr: PdrId, addr: IpAddr }
        => Some(RuleId::Pdr(pdr)), "the given F-TEID's address is not ours";
    /// The given TEID belongs to another session, or waits for a reclaim.
    FTeidTaken { pdr: PdrId, teid: Teid } => Some(RuleId::Pdr(pdr)), "the given TEID is taken";
    /// PDRs of different source interfaces share the TEID; a tunnel comes from one side.
    FTeidSidesDiffer { pdr: PdrId, teid: Teid }
        => Some(RuleId::Pdr(pdr)), "PDRs of different source interfaces share the TEID";
    /// PDRs forward packets of a tunnel from the CP function both to the RAN and elsewhere.
    FTeidDirectionsDiffer { pdr: PdrId, teid: Teid }
        => Some(RuleId::Pdr(pdr)),
        "PDRs of the CP function share the TEID, and their FARs lead to the RAN and elsewhere";
    /// An F-TEID is to be chosen in address families in which we have no address.
    FTeidFamilyUnavailable { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "no local address of the wanted family";
    /// No TEID is left to choose.
    TeidsExhausted => None, "no TEID is left";
    /// The UE IP Address contains no address.
    UeAddressMissing { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "the UE IP address names no address";
    /// A UE cannot have this address.
    UeAddressInvalid { pdr: PdrId, ue: UeAddresses }
        => Some(RuleId::Pdr(pdr)), "not an address of a UE";
    /// The UE's IPv6 prefix has fewer than 64 bits.
    UePrefixTooShort { pdr: PdrId, prefix: Ipv6Prefix }
        => Some(RuleId::Pdr(pdr)), "UE IPv6 prefixes below 64 bits are not supported";
    /// The UE address is the destination in a PDR that detects packets from the UE.
    UeSideUnsupported { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "the UE's address as destination in uplink";
    /// The UE address belongs to another session. IPv6 addresses within one /64 count as one.
    UeAddressTaken { pdr: PdrId, addr: IpAddr }
        => Some(RuleId::Pdr(pdr)), "the UE address belongs to another session";
    /// A UE cannot have this further address or prefix.
    UePrefixInvalid { pdr: PdrId, prefix: IpPrefix }
        => Some(RuleId::Pdr(pdr)), "not a prefix of a UE";
    /// The framed route contains addresses that no host behind a UE can have.
    FramedRouteInvalid { pdr: PdrId, prefix: IpPrefix }
        => Some(RuleId::Pdr(pdr)), "not a network behind a UE";
    /// The framed route belongs to another session of the same routing domain.
    FramedRouteTaken { pdr: PdrId, prefix: IpPrefix }
        => Some(RuleId::Pdr(pdr)), "the framed route belongs to another session";
    /// The PDI names more networks than `limits::UE_NETWORKS_PER_PDI_MAX`.
    TooManyUeNetworks { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "too many framed routes and UE addresses in one PDI";
    /// The PDI names more traffic endpoints than `limits::TRAFFIC_ENDPOINTS_PER_PDI_MAX`.
    TooManyTrafficEndpointsOfPdr { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "too many traffic endpoints in one PDI";
    /// The FAR is linked to a traffic endpoint that does not exist after the change.
    UnknownLinkedEndpoint { far: FarId, id: TrafficEndpointId }
        => Some(RuleId::Far(far)), "the FAR is linked to no traffic endpoint";
    /// The rule states an address and requests one of the same family.
    UeAddressStatedAndRequested { pdr: Option<PdrId> }
        => of_pdr(pdr), "a UE address is stated and another one of its family requested";
    /// No configured pool has addresses of this family for the network instance.
    NoUePool { pdr: Option<PdrId> }
        => of_pdr(pdr), "no pool of UE addresses for this network instance";
    /// No pool that the control plane names exists for the family and the network instance.
    UnknownUePool { pdr: Option<PdrId> } => of_pdr(pdr), "no such pool of UE addresses";
    /// Every address of the pools is in use or waits for a reclaim.
    UePoolsExhausted { pdr: Option<PdrId> }
        => of_pdr(pdr), "all UE addresses of the pool are occupied";
    /// The change creates a traffic endpoint that exists, or one of its lists names it twice.
    DuplicateTrafficEndpoint { id: TrafficEndpointId }
        => None, "the traffic endpoint exists already or is named twice";
    /// The change updates or removes a traffic endpoint that does not exist.
    UnknownTrafficEndpoint { id: TrafficEndpointId } => None, "no such traffic endpoint";
    /// The PDR names a traffic endpoint that does not exist after the change.
    UnknownTrafficEndpointOfPdr { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "the PDR names no traffic endpoint of the session";
    /// The PDR names a traffic endpoint and also a tunnel or UE address of its own.
    TrafficEndpointNotAlone { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "a tunnel or UE address beside a traffic endpoint";
    /// We cannot choose or accept the traffic endpoint's F-TEID, or another session has its F-TEID
    /// or its UE address.
    TrafficEndpointUnusable { id: TrafficEndpointId }
        => None, "the traffic endpoint is taken or not ours";
    /// The session would exceed `limits::TRAFFIC_ENDPOINTS_PER_SESSION_MAX`.
    TooManyTrafficEndpoints => None, "too many traffic endpoints";
    /// The PDR names an unknown application.
    UnknownApplication { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "the application is unknown";
    /// The PDR has an application and SDF filters.
    ApplicationNotAlone { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "SDF filters beside an application";
    /// The PDR activates an unknown predefined rule.
    UnknownPredefinedRule { pdr: PdrId } => Some(RuleId::Pdr(pdr)), "no such predefined rule";
    /// The PDR deactivates a predefined rule that it did not activate under this name.
    InactivePredefinedRule { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "the predefined rule is not active";
    /// The PDR activates predefined rules and also has SDF filters or an application.
    PredefinedRuleNotAlone { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "SDF filters or an application beside predefined rules";
    /// The session would exceed `limits::PREDEFINED_RULES_PER_SESSION_MAX` active predefined rules.
    TooManyPredefinedRules => None, "too many predefined rules";
    /// The flow description is invalid or not supported.
    SdfInvalid { pdr: PdrId, error: SdfTextError }
        => Some(RuleId::Pdr(pdr)), "the flow description is invalid";
    /// The flow label exceeds 20 bits.
    SdfFlowLabelInvalid { pdr: PdrId, flow_label: u32 }
        => Some(RuleId::Pdr(pdr)), "the flow label exceeds 20 bits";
    /// The SDF filter is bidirectional without an identifier.
    SdfWithoutId { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "the bidirectional SDF filter has no identifier";
    /// Two SDF filters of the session define the same identifier bidirectionally.
    DuplicateSdfFilter { pdr: PdrId, filter_id: u32 }
        => Some(RuleId::Pdr(pdr)), "the SDF filter identifier is defined twice";
    /// The SDF filter refers to an identifier that no bidirectional filter of the session defines.
    UnknownSdfFilter { pdr: PdrId, filter_id: u32 }
        => Some(RuleId::Pdr(pdr)), "no bidirectional SDF filter has this identifier";
    /// The FAR names a BAR that does not exist after the change.
    UnknownBar { far: FarId, bar: BarId } => Some(RuleId::Far(far)), "the FAR names an unknown BAR";
    /// The action sets an unsupported or unknown flag.
    UnsupportedAction { far: FarId, action: ApplyAction }
        => Some(RuleId::Far(far)), "the apply action is not supported";
    /// The action has none or several of DROP, FORW and BUFF, or a flag that does not fit.
    ContradictoryAction { far: FarId, action: ApplyAction }
        => Some(RuleId::Far(far)), "the flags of the apply action contradict each other";
    /// The FAR forwards without forwarding parameters.
    FarWithoutForwardingParameters { far: FarId }
        => Some(RuleId::Far(far)), "FORW without forwarding parameters";
    /// The FAR's first forwarding parameters have no destination.
    FarWithoutDestination { far: FarId }
        => Some(RuleId::Far(far)), "forwarding parameters without a destination";
    /// The FAR forwards to the CP function, or duplicates to Access or the LI function, and creates
    /// no outer header.
    FarWithoutOuterHeader { far: FarId }
        => Some(RuleId::Far(far)),
        "FORW to the CP function, or DUPL to a tunnel, without an outer header";
    /// The outer header's TEID is zero, or its address is not a host's.
    TunnelInvalid { far: FarId }
        => Some(RuleId::Far(far)), "the outer header's TEID or address is invalid";
    /// We have no address of the outer header's family.
    TunnelFamilyUnavailable { far: FarId }
        => Some(RuleId::Far(far)), "no local address of the tunnel's family";
    /// No link or route of the GTP-U interfaces that the FAR may use leads to the outer header's
    /// address, or the address is ours.
    TunnelUnreachable { far: FarId, addr: IpAddr }
        => Some(RuleId::Far(far)), "no route leads to the other end of the tunnel";
    /// The FAR duplicates without duplicating parameters.
    FarWithoutDuplicatingParameters { far: FarId }
        => Some(RuleId::Far(far)), "DUPL without duplicating parameters";
    /// The FAR has more than `limits::DUPLICATES_PER_FAR_MAX` sets of duplicating parameters.
    TooManyDuplicates { far: FarId }
        => Some(RuleId::Far(far)), "too many duplicating parameters in one FAR";
    /// The redirect address is not another host's, the port is zero, or the URL is empty, too long
    /// or not printable ASCII.
    RedirectInvalid { far: FarId }
        => Some(RuleId::Far(far)), "the redirect address or URL is invalid";
    /// A PDR towards the UE has a FAR that redirects to a URL; only requests of UEs can be
    /// redirected.
    RedirectUnusable { pdr: PdrId }
        => Some(RuleId::Pdr(pdr)), "redirection to a URL towards the UE";
    /// The forwarding policy is not configured.
    UnknownForwardingPolicy { far: FarId } => Some(RuleId::Far(far)), "no such forwarding policy";
}

impl Refusal {
    /// Returns the limit that the change would exceed, unless the configuration sets it.
    #[must_use]
    pub const fn limit(&self) -> Option<usize> {
        Some(match self {
            Self::TooManyRules { kind } => kind.max_per_session(),
            Self::TooManyTrafficEndpoints => TRAFFIC_ENDPOINTS_PER_SESSION_MAX,
            Self::TooManyRates => RATES_PER_SESSION_MAX,
            Self::TooManyPoolMembers { .. } => POOL_MEMBERS_PER_SESSION_MAX,
            Self::RecordTooLarge => SESSION_RECORD_BYTES_MAX,
            Self::TooManyKeys => KEYS_PER_SESSION_MAX,
            Self::TooManyQers { .. } => QERS_PER_PDR_MAX,
            Self::TooManyUrrs { .. } => URRS_PER_PDR_MAX,
            Self::TooManySdfFilters { .. } => SDF_FILTERS_PER_PDR_MAX,
            Self::TooManyUeNetworks { .. } => UE_NETWORKS_PER_PDI_MAX,
            Self::TooManyTrafficEndpointsOfPdr { .. } => TRAFFIC_ENDPOINTS_PER_PDI_MAX,
            Self::TooManyPredefinedRules => PREDEFINED_RULES_PER_SESSION_MAX,
            Self::TooManyExemptedApplications { .. } => EXEMPTED_APPLICATIONS_PER_URR_MAX,
            Self::TooManyMonitoringTimes { .. } => MONITORING_TIMES_PER_URR_MAX,
            Self::TooManyDuplicates { .. } => DUPLICATES_PER_FAR_MAX,
            _ => return None,
        })
    }

    fn fmt_value(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSession { up_seid } => write!(f, ": {up_seid}"),
            Self::TooManyRules { kind } => write!(f, ": {kind}"),
            Self::DuplicateTrafficEndpoint { id }
            | Self::UnknownTrafficEndpoint { id }
            | Self::UnknownLinkedEndpoint { id, .. }
            | Self::TrafficEndpointUnusable { id } => write!(f, ": {}", id.0),
            Self::UnknownFar { far, .. } | Self::UnknownQuotaFar { far, .. } => {
                write!(f, ": {far}")
            }
            Self::UnknownQer { qer, .. } => write!(f, ": {qer}"),
            Self::UnknownUrr { urr, .. } => write!(f, ": {urr}"),
            Self::UnknownBar { bar, .. } => write!(f, ": {bar}"),
            Self::UnknownLinkedUrr { linked, .. } => write!(f, ": {linked}"),
            Self::AggregatedUrrUnusable { aggregated, .. } => write!(f, ": {aggregated}"),
            Self::ForeignAddress { addr, .. }
            | Self::TunnelUnreachable { addr, .. }
            | Self::UeAddressTaken { addr, .. } => write!(f, ": {addr}"),
            Self::FTeidTaken { teid, .. }
            | Self::FTeidSidesDiffer { teid, .. }
            | Self::FTeidDirectionsDiffer { teid, .. } => write!(f, ": {teid}"),
            Self::UePrefixInvalid { prefix, .. }
            | Self::FramedRouteInvalid { prefix, .. }
            | Self::FramedRouteTaken { prefix, .. } => write!(f, ": {prefix}"),
            Self::UePrefixTooShort { prefix, .. } => write!(f, ": {prefix}"),
            Self::SdfInvalid { error, .. } => write!(f, ": {error}"),
            Self::DuplicateSdfFilter { filter_id, .. }
            | Self::UnknownSdfFilter { filter_id, .. } => write!(f, ": {filter_id}"),
            _ => Ok(()),
        }
    }
}

impl RuleKind {
    /// Returns the maximum number of rules of this kind in a session.
    #[must_use]
    pub const fn max_per_session(self) -> usize {
        match self {
            Self::Pdr | Self::Far | Self::Qer | Self::Urr => RULES_PER_SESSION_MAX,
            Self::Bar => BARS_PER_SESSION_MAX,
        }
    }
}

impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pdr => "PDR",
            Self::Far => "FAR",
            Self::Qer => "QER",
            Self::Bar => "BAR",
            Self::Urr => "URR",
        })
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
        self.fmt_value(f)?;
        match self.limit() {
            Some(limit) => write!(f, " (at most {limit})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Refusal {}
