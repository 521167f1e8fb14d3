//! The interface between control plane and data plane: rules and their compiler, the contracts of a
//! data plane ([`DataPlane`], [`NextHops`], [`Offload`]), verdicts and reasons, events and
//! commands.
//!
//! `session` writes [`SessionRules`], [`compile`](mod@compile) turns them into what workers run,
//! `tables` publishes that, and `datapath` reads it. No IE and no octet of a packet appears here.
//! All of it is plain data; only packet rates carry counters.
#![forbid(unsafe_code)]

pub mod compile;
pub mod data_plane;
pub mod delta;
pub mod delta_id;
pub mod event;
pub mod fast_rule;
pub mod flows;
pub mod forwarding;
pub mod leave_reason;
pub mod matcher;
pub mod next_hops;
pub mod offload;
pub mod outer_tos;
pub mod packed_fast_rule;
pub mod packet_rate;
pub mod published;
pub mod rate;
pub mod rule;
pub mod sdf;
pub mod sdf_set;
mod shapes;
pub mod tap;
pub mod usage;
pub mod verdict;

pub use data_plane::DataPlane;
pub use delta::{KeyChange, RuleDelta, SessionKey};
pub use delta_id::DeltaId;
pub use event::{AddressConflict, DataDelivery, WorkerCommand, WorkerEvent};
pub use fast_rule::{
    FAST_RULE_METERS_MAX, FAST_RULE_QFIS_MAX, FAST_RULE_RELAY_QFIS_MAX, FAST_RULE_RELAY_URRS_MAX,
    FAST_RULE_URRS_MAX, FastRule, FastRuleForwarding, FastRulePeer, FastRuleTransport,
    FastRuleTunnel, FastRuleUe, FastRuleUrr, FastRuleUsage,
};
pub use forwarding::{Redirect, Steering};
pub use leave_reason::{LeaveReason, NoFastRule};
pub use matcher::{
    Candidate, FlowKey, Matcher, MatcherLine, MatcherRoot, MatcherView, Matchers, UsualFlow,
};
pub use next_hops::{NextHop, NextHops};
pub use offload::{
    NetworkPart, Offload, OffloadBatch, OffloadChoice, OffloadCounts, OffloadInterface,
    OffloadInterfaceTotals, OffloadNotice, OffloadRefusal, OffloadRule, OffloadTotals,
    OffloadUsage, share_per_part,
};
pub use outer_tos::OuterTos;
pub use packed_fast_rule::PackedFastRule;
pub use packet_rate::{PacketLimit, PacketQuota, PacketRateMeter, PacketWindow, PacketsLeft};
pub use published::{
    FarShape, PdrShape, PublishedFar, PublishedPdr, PublishedRules, PublishedUrr, Shapes, UrrShape,
};
pub use rate::{Bucket, Excess, RateLimit, SharedBucket, time_at_price};
pub use rule::{
    ApplyAction, CorrelatedRateId, DestinationInterface, FarEntry, Gate, GtpuTunnel, Guarantee,
    GuaranteedShare, HeaderCreation, HeaderRemoval, PdrEntry, QerEntry, QerMeter, SessionRules,
    SourceInterface, TunnelSide, UeAddresses,
};
pub use sdf::{FlowSelector, PacketFilter};
pub use sdf_set::SdfSet;
pub use tap::{
    FastPathDifference, FastPathFrame, FastPathTrialResult, PdrMismatch, TAP_OCTETS_MAX,
    TapDropFilter, TapFilter, TapId, TapItem, TapKey, TapOrigin, TapOutcome, TapPacket, TapQer,
    TapRequest, TapSession, TapSet, TapStage, TapWait,
};
pub use usage::{
    NoUsage, POOL_WEIGHT_ONE, PoolMembers, UrrEntry, UsageCounts, UsageLimits, UsageSource,
};
pub use verdict::{DropReason, PuntReason};
