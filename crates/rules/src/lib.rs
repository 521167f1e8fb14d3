//! The door between the planes: compiled rules on their way to the workers, verdicts and reasons,
//! and the events that come back.
//!
//! Plain data without logic beyond matching words. Written by `session` (compile), moved by
//! `tables` (publication), read by `datapath`; no IE and no packet byte appears here. Packet rates
//! alone carry what passed of them.
#![forbid(unsafe_code)]

pub mod delta;
pub mod event;
pub mod express;
pub mod forwarding;
pub mod matcher;
pub mod packet_rate;
pub mod published;
pub mod rate;
pub mod rule;
pub mod sdf;
pub mod sdf_set;
pub mod shapes;
pub mod usage;
pub mod verdict;

pub use delta::{DeltaId, KeyChange, RuleDelta, SessionKey};
pub use event::{AddressConflict, DataDelivery, WorkerCommand, WorkerEvent};
pub use express::{
    EXPRESS_METERS_MAX, EXPRESS_QFIS_MAX, EXPRESS_URRS_MAX, Express, ExpressUe, ExpressUrr,
    ExpressWay,
};
pub use forwarding::{Redirect, Steering};
pub use matcher::{Candidate, FlowKey, Line, Matcher, MatcherView, Matchers, Root, UsualFlow};
pub use packet_rate::{PacketLimit, PacketQuota, PacketRate, PacketsLeft};
pub use published::{
    FarShape, PdrShape, PublishedFar, PublishedPdr, PublishedRules, PublishedUrr, UrrShape,
};
pub use rate::{Bucket, Excess, RateLimit, SharedBucket};
pub use rule::{
    ApplyAction, DestinationInterface, FarEntry, Gate, GtpuTunnel, Guarantee, Guaranteed,
    OuterHeaderCreation, OuterHeaderRemoval, PdrEntry, QerEntry, QerMeter, SessionRules,
    SharedRateId, SourceInterface, TunnelSide, UeAddresses,
};
pub use sdf::{FlowSelector, SdfFilter};
pub use sdf_set::SdfSet;
pub use shapes::Shapes;
pub use usage::{
    NoUsage, POOL_WEIGHT_ONE, PoolMembers, UrrEntry, UsageCounts, UsageLimits, UsageSource,
};
pub use verdict::{DropReason, PuntReason};
