//! Typed grouped IEs, one table each. A row is `field: presence IE => type`. Presence is M, C or O
//! as in TS 29.244, with `s` if the member may occur several times; see `crate::body`.
//!
//! The decoder skips members without a typed form here (ATSSS, TSC, MBS, L2TP, IP multicast);
//! `ignored` lists them.

mod far;
mod node;
mod pdr;
mod qer;
mod report;
mod traffic_endpoint;
mod urr;

use crate::body::Member;
use crate::ie::IeType;

pub use far::{
    CreateBar, CreateFar, DuplicatingParameters, ForwardingParameters, RemoveBar, RemoveFar,
    UpdateBar, UpdateDuplicatingParameters, UpdateFar, UpdateForwardingParameters,
};
pub use node::{
    ApplicationIdsPfds, GtpuPathQosControlInformation, GtpuPathQosReport, LoadControlInformation,
    OverloadControlInformation, PartialFailureInformation, PathQosInformation, PeerUpRestartReport,
    PfdContext, SessionChangeInfo, SessionRetentionInformation, UeIpAddressPoolInformation,
    UeIpAddressUsageInformation, UserPlanePathFailureReport, UserPlanePathRecoveryReport,
};
pub use pdr::{CreatePdr, CreatedPdr, EthernetPacketFilter, Pdi, RemovePdr, UpdatePdr, UpdatedPdr};
pub use qer::{CreateQer, QueryPacketRateStatus, RemoveQer, UpdateQer};
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

/// Returns the possible members of a grouped IE; empty for leaves and untyped groups.
#[must_use]
pub fn members(ie_type: IeType) -> &'static [Member] {
    match ie_type {
        IeType::CREATE_FAR => CreateFar::MEMBERS,
        IeType::FORWARDING_PARAMETERS => ForwardingParameters::MEMBERS,
        IeType::DUPLICATING_PARAMETERS => DuplicatingParameters::MEMBERS,
        IeType::UPDATE_FAR => UpdateFar::MEMBERS,
        IeType::UPDATE_FORWARDING_PARAMETERS => UpdateForwardingParameters::MEMBERS,
        IeType::UPDATE_DUPLICATING_PARAMETERS => UpdateDuplicatingParameters::MEMBERS,
        IeType::REMOVE_FAR => RemoveFar::MEMBERS,
        IeType::CREATE_BAR => CreateBar::MEMBERS,
        IeType::UPDATE_BAR_SESSION_MODIFICATION_REQUEST
        | IeType::UPDATE_BAR_SESSION_REPORT_RESPONSE => UpdateBar::MEMBERS,
        IeType::REMOVE_BAR => RemoveBar::MEMBERS,
        IeType::LOAD_CONTROL_INFORMATION => LoadControlInformation::MEMBERS,
        IeType::OVERLOAD_CONTROL_INFORMATION => OverloadControlInformation::MEMBERS,
        IeType::PARTIAL_FAILURE_INFORMATION => PartialFailureInformation::MEMBERS,
        IeType::PFCP_SESSION_RETENTION_INFORMATION => SessionRetentionInformation::MEMBERS,
        IeType::UE_IP_ADDRESS_POOL_INFORMATION => UeIpAddressPoolInformation::MEMBERS,
        IeType::UE_IP_ADDRESS_USAGE_INFORMATION => UeIpAddressUsageInformation::MEMBERS,
        IeType::USER_PLANE_PATH_FAILURE_REPORT => UserPlanePathFailureReport::MEMBERS,
        IeType::USER_PLANE_PATH_RECOVERY_REPORT => UserPlanePathRecoveryReport::MEMBERS,
        IeType::PEER_UP_RESTART_REPORT => PeerUpRestartReport::MEMBERS,
        IeType::GTP_U_PATH_QOS_CONTROL_INFORMATION => GtpuPathQosControlInformation::MEMBERS,
        IeType::GTP_U_PATH_QOS_REPORT => GtpuPathQosReport::MEMBERS,
        IeType::QOS_INFORMATION_IN_GTP_U_PATH_QOS_REPORT => PathQosInformation::MEMBERS,
        IeType::APPLICATION_IDS_PFDS => ApplicationIdsPfds::MEMBERS,
        IeType::PFD_CONTEXT => PfdContext::MEMBERS,
        IeType::PFCP_SESSION_CHANGE_INFO => SessionChangeInfo::MEMBERS,
        IeType::CREATE_PDR => CreatePdr::MEMBERS,
        IeType::PDI => Pdi::MEMBERS,
        IeType::ETHERNET_PACKET_FILTER => EthernetPacketFilter::MEMBERS,
        IeType::UPDATE_PDR => UpdatePdr::MEMBERS,
        IeType::REMOVE_PDR => RemovePdr::MEMBERS,
        IeType::CREATED_PDR => CreatedPdr::MEMBERS,
        IeType::UPDATED_PDR => UpdatedPdr::MEMBERS,
        IeType::CREATE_QER => CreateQer::MEMBERS,
        IeType::UPDATE_QER => UpdateQer::MEMBERS,
        IeType::REMOVE_QER => RemoveQer::MEMBERS,
        IeType::USAGE_REPORT_SESSION_REPORT_REQUEST
        | IeType::USAGE_REPORT_SESSION_MODIFICATION_RESPONSE
        | IeType::USAGE_REPORT_SESSION_DELETION_RESPONSE => UsageReport::MEMBERS,
        IeType::APPLICATION_DETECTION_INFORMATION => ApplicationDetectionInformation::MEMBERS,
        IeType::DOWNLINK_DATA_REPORT => DownlinkDataReport::MEMBERS,
        IeType::ERROR_INDICATION_REPORT => ErrorIndicationReport::MEMBERS,
        IeType::PACKET_RATE_STATUS_REPORT
        | IeType::PACKET_RATE_STATUS_REPORT_MODIFICATION_RESPONSE => {
            PacketRateStatusReport::MEMBERS
        }
        IeType::QUERY_PACKET_RATE_STATUS => QueryPacketRateStatus::MEMBERS,
        IeType::CREATE_TRAFFIC_ENDPOINT => CreateTrafficEndpoint::MEMBERS,
        IeType::CREATED_TRAFFIC_ENDPOINT => CreatedTrafficEndpoint::MEMBERS,
        IeType::UPDATE_TRAFFIC_ENDPOINT => UpdateTrafficEndpoint::MEMBERS,
        IeType::REMOVE_TRAFFIC_ENDPOINT => RemoveTrafficEndpoint::MEMBERS,
        IeType::CREATE_URR => CreateUrr::MEMBERS,
        IeType::UPDATE_URR => UpdateUrr::MEMBERS,
        IeType::REMOVE_URR => RemoveUrr::MEMBERS,
        IeType::QUERY_URR => QueryUrr::MEMBERS,
        IeType::AGGREGATED_URRS => AggregatedUrrs::MEMBERS,
        IeType::ADDITIONAL_MONITORING_TIME => AdditionalMonitoringTime::MEMBERS,
        _ => &[],
    }
}
