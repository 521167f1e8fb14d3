//! PFCP sessions: their rule records, the resources that they hold, and their changes.
//!
//! A change passes numbered stages (`update`): provide and resolve may refuse; compile and commit
//! cannot fail, and return a `rules::RuleDelta`. A refused change leaves the store as it was.
//! Creation and deletion are changes, too. There is no IE, no octet of wire format, no clock and no
//! I/O here: `n4` translates messages into a [`SessionChange`] and a [`Refusal`] into a Cause.
//! Spec: TS 29.244 §5.2, §7.5.
#![forbid(unsafe_code)]

mod alloc;
mod arrival;
mod change;
mod cp_function;
mod direction;
mod end_marker;
mod framed_route;
mod index;
mod kept;
mod keys;
mod pack;
mod packed_record;
mod preparation;
mod procedure;
mod provisioning;
mod record;
mod refusal;
mod rule;
mod sdf_text;
mod session;
mod store;
mod update;
mod usage;

pub use alloc::{OwnerNodes, seid_index, teid_range_bits_max};
pub use change::{
    ChooseUe, FTeidSpec, FarUpdate, PdiSpec, PdrSpec, PdrUpdate, SessionChange, TrafficEndpointSpec,
};
pub use cp_function::{CpFSeid, OwnerId};
pub use end_marker::EndMarker;
pub use framed_route::{
    FramedRouteError, parse_ipv4 as parse_framed_route, parse_ipv6 as parse_framed_ipv6_route,
};
pub use index::{PeerSides, QerPacketRate};
pub use kept::{FormerSession, KeptSession, KeptUsage};
pub use packed_record::{PackedRecord, PackedRecordError};
pub use preparation::SessionPreparer;
pub use procedure::{Established, Modified, ReplacedSession, Restored};
pub use provisioning::{
    Application, ChangedApplications, Enforcement, LocalAddresses, LocalInterface, PfdApplication,
    PfdProvision, PfdRefusal, PredefinedAction, PredefinedDetection, PredefinedRule,
    ProvidedApplication, ProvisionedForwardingPolicy, Provisioning, QosPolicy, Slice, TeidRange,
    Tolerances, TunnelRoutes, UePool,
};
pub use record::{
    Aggregated, Bar, BarUpdate, ChosenFTeid, DroppedThreshold, Exempted, Far, Forwarding,
    ForwardingUpdate, InterfaceType, LocalFTeid, MeasurementInformation, MeasurementMethod,
    Monitoring, PacketAllowance, PacketLimits, PacketStatus, Pdi, Pdr, PdrTimes, PdrTimesUpdate,
    Qer, QerGates, QerUpdate, Rates, Records, ReplaceablePdiParts, Sdf, SdfSpec, SliceIdentity,
    TimeMechanism, TrafficEndpoint, TrafficEndpointId, UeMatch, UeSide, Urr, UrrSettings,
    UrrSettingsUpdate, UrrUpdate, UsageTriggers, Volumes,
};
pub use refusal::{Refusal, RuleId, RuleKind};
pub use rule::{Change, RulePart};
pub use sdf_text::{PORT_RANGES_MAX, SdfTextError, parse as parse_flow_description};
pub use session::Session;
pub use store::{
    CreatedPdr, CreatedTrafficEndpoint, CreatedUe, ReservedCounts, SessionStore, StoreConfig,
};
pub use usage::{RunningUsage, TrafficStart, UsageOutcome, UsagePart, UsageReport, UsageVolume};
