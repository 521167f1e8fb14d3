//! Typed grouped IEs, one table each. A row reads `field: presence IE => type`; presence M, C, O
//! as in TS 29.244, with `s` where the member may occur several times.
//!
//! Members without a typed form here (ATSSS, TSC, MBS, L2TP, IP multicast) are skipped into
//! `ignored`.

mod far;
mod node;
mod pdr;
mod qer;
mod report;
mod traffic_endpoint;
mod urr;

pub use far::{
    CreateBar, CreateFar, DuplicatingParameters, ForwardingParameters, RemoveBar, RemoveFar,
    UpdateBar, UpdateDuplicatingParameters, UpdateFar, UpdateForwardingParameters,
};
pub use node::{
    ApplicationIdsPfds, LoadControlInformation, OverloadControlInformation,
    PartialFailureInformation, PeerUpRestartReport, PfdContext, SessionChangeInfo,
    SessionRetentionInformation, UeIpAddressPoolInformation, UeIpAddressUsageInformation,
    UserPlanePathFailureReport, UserPlanePathRecoveryReport,
};
pub use pdr::{CreatePdr, CreatedPdr, EthernetPacketFilter, Pdi, RemovePdr, UpdatePdr, UpdatedPdr};
pub use qer::{CreateQer, RemoveQer, UpdateQer};
pub use report::{
    ApplicationDetectionInformation, DownlinkDataReport, ErrorIndicationReport,
    PacketRateStatusReport, UsageReport,
};
pub use traffic_endpoint::{
    CreateTrafficEndpoint, CreatedTrafficEndpoint, RemoveTrafficEndpoint, UpdateTrafficEndpoint,
};
pub use urr::{
    AdditionalMonitoringTime, AggregatedUrrs, CreateUrr, QueryUrr, RemoveUrr, UpdateUrr,
};
