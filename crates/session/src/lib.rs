//! PFCP sessions: their rule records, the identifiers given to them, and the changes made to them.
//!
//! A change runs in numbered stages (`update`): provide and resolve may refuse, compile and commit
//! cannot fail and end in a `rules::RuleDelta`. A refused change leaves the store as it was.
//! Creation and deletion are changes too. No IE, no octet of wire format, no clock, no I/O here:
//! `n4` translates messages into a [`Change`] and a [`Refusal`] into a Cause.
//! Spec: TS 29.244 §5.2, §7.5.
#![forbid(unsafe_code)]

mod activation;
mod alloc;
mod change;
mod control;
mod direction;
mod end_marker;
mod fill;
mod framed_route;
mod guaranteed;
mod keys;
mod local;
mod pack;
mod packet_rates;
mod pfd;
mod provisioning;
mod record;
mod recovery;
mod refusal;
mod sdf_text;
mod session;
mod session_usage;
mod shared_rates;
mod store;
mod timers;
mod tunnel_index;
mod ue_claims;
mod update;
mod usage;

pub use change::{
    BarUpdate, ChooseUe, FTeidSpec, FarPart, FarUpdate, ForwardingUpdate, PdiSpec, PdrPart,
    PdrSpec, PdrUpdate, QerPart, QerUpdate, SdfSpec, SessionChange, TrafficEndpointSpec, UrrPart,
    Withdrawal,
};
pub use end_marker::EndMarker;
pub use framed_route::{
    FramedRouteError, parse_ipv4 as parse_framed_route, parse_ipv6 as parse_framed_ipv6_route,
};
pub use local::{LocalAddresses, LocalInterface};
pub use packet_rates::QerPacketRate;
pub use pfd::{ChangedApplications, PfdApplication, PfdProvision, PfdRefusal, ProvidedApplication};
pub use provisioning::{
    Application, Enforcement, PredefinedAction, PredefinedDetection, PredefinedRule,
    ProvisionedForwardingPolicy, Provisioning, QosPolicy, Slice, SliceIdentity, Tolerances, UePool,
};
pub use record::{
    Aggregated, Bar, ChosenFTeid, DroppedThreshold, Exempted, Far, Forwarding, InterfaceType,
    LocalFTeid, MeasurementInformation, MeasurementMethod, Monitoring, PacketAllowance,
    PacketLimits, PacketStatus, Pdi, Pdr, PdrTimes, Qer, QerGates, Rates, Records,
    ReplaceablePdiParts, Sdf, TimeMechanism, TrafficEndpoint, TrafficEndpointId, UeMatch, UeSide,
    Urr, UrrSettings, UrrUpdate, UsageTriggers, Volumes,
};
pub use refusal::{Refusal, RuleId, RuleKind};
pub use sdf_text::{PORT_RANGES_MAX, SdfTextError, parse as parse_flow_description};
pub use session::{CpFSeid, OwnerId, Session};
pub use session_usage::{RunningUsage, TrafficStart, UsageOutcome};
pub use store::{
    CreatedPdr, CreatedTrafficEndpoint, CreatedUe, Established, Modified, ReservedCounts,
    SessionStore, StoreConfig,
};
pub use tunnel_index::PeerSides;
pub use usage::{UsagePart, UsageReport, UsageVolume};
