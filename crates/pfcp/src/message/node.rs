//! Node related messages. Spec: TS 29.244 §7.4.

use crate::body::bodies;
use crate::grouped::{
    ApplicationIdsPfds, GtpuPathQosControlInformation, GtpuPathQosReport, PeerUpRestartReport,
    SessionChangeInfo, SessionRetentionInformation, UeIpAddressPoolInformation,
    UeIpAddressUsageInformation, UserPlanePathFailureReport, UserPlanePathRecoveryReport,
};
use crate::ie::{
    AlternativeSmfIpAddress, Cause, CpFunctionFeatures, FqCsid, GracefulReleasePeriod,
    NfInstanceId, NodeId, NodeReportType, Nullable, OffendingIe, PfcpAsReqFlags, PfcpAsRspFlags,
    PfcpAuReqFlags, RecoveryTimeStamp, SmfSetId, SourceIpAddress, UpFunctionFeatures,
    UserPlaneIpResourceInformation, VendorSpecificNodeReportType,
};

bodies! {
    /// Spec: TS 29.244 §7.4.2.1.
    message HeartbeatRequest = HEARTBEAT_REQUEST {
        recovery_time_stamp: M RECOVERY_TIME_STAMP => RecoveryTimeStamp,
        source_ip_address: O SOURCE_IP_ADDRESS => SourceIpAddress,
    }

    /// Spec: TS 29.244 §7.4.2.2.
    message HeartbeatResponse = HEARTBEAT_RESPONSE {
        recovery_time_stamp: M RECOVERY_TIME_STAMP => RecoveryTimeStamp,
    }

    /// If it names no application, all PFDs are withdrawn. Spec: TS 29.244 §7.4.3.1.
    message PfdManagementRequest = PFD_MANAGEMENT_REQUEST {
        application_ids_pfds: Cs APPLICATION_IDS_PFDS => ApplicationIdsPfds<'a>,
        node_id: O NODE_ID => NodeId<'a>,
    }

    /// Spec: TS 29.244 §7.4.3.2.
    message PfdManagementResponse = PFD_MANAGEMENT_RESPONSE {
        cause: M CAUSE => Cause,
        offending_ie: C OFFENDING_IE => OffendingIe,
        node_id: O NODE_ID => NodeId<'a>,
    }

    /// Spec: TS 29.244 §7.4.4.1.
    message AssociationSetupRequest = ASSOCIATION_SETUP_REQUEST {
        node_id: M NODE_ID => NodeId<'a>,
        recovery_time_stamp: M RECOVERY_TIME_STAMP => RecoveryTimeStamp,
        up_function_features: C UP_FUNCTION_FEATURES => UpFunctionFeatures,
        cp_function_features: C CP_FUNCTION_FEATURES => CpFunctionFeatures,
        /// Only peers before Release 16.3 send it.
        user_plane_ip_resources: Os USER_PLANE_IP_RESOURCE_INFORMATION =>
            UserPlaneIpResourceInformation<'a>,
        ue_ip_address_pools: Os UE_IP_ADDRESS_POOL_INFORMATION => UeIpAddressPoolInformation<'a>,
        alternative_smf_ip_addresses: Os ALTERNATIVE_SMF_IP_ADDRESS => AlternativeSmfIpAddress,
        smf_set_id: C SMF_SET_ID => SmfSetId<'a>,
        session_retention_information: O PFCP_SESSION_RETENTION_INFORMATION =>
            SessionRetentionInformation<'a>,
        nf_instance_id: O NF_INSTANCE_ID => NfInstanceId,
        pfcp_as_req_flags: O PFCPASREQ_FLAGS => PfcpAsReqFlags,
        gtpu_path_qos_controls: Cs GTP_U_PATH_QOS_CONTROL_INFORMATION =>
            Nullable<GtpuPathQosControlInformation<'a>>,
    }

    /// Spec: TS 29.244 §7.4.4.2.
    message AssociationSetupResponse = ASSOCIATION_SETUP_RESPONSE {
        node_id: M NODE_ID => NodeId<'a>,
        cause: M CAUSE => Cause,
        recovery_time_stamp: M RECOVERY_TIME_STAMP => RecoveryTimeStamp,
        up_function_features: C UP_FUNCTION_FEATURES => UpFunctionFeatures,
        cp_function_features: C CP_FUNCTION_FEATURES => CpFunctionFeatures,
        /// Only peers before Release 16.3 send it.
        user_plane_ip_resources: Os USER_PLANE_IP_RESOURCE_INFORMATION =>
            UserPlaneIpResourceInformation<'a>,
        ue_ip_address_pools: Os UE_IP_ADDRESS_POOL_INFORMATION => UeIpAddressPoolInformation<'a>,
        alternative_smf_ip_addresses: Os ALTERNATIVE_SMF_IP_ADDRESS => AlternativeSmfIpAddress,
        smf_set_id: C SMF_SET_ID => SmfSetId<'a>,
        pfcp_as_rsp_flags: O PFCPASRSP_FLAGS => PfcpAsRspFlags,
        nf_instance_id: O NF_INSTANCE_ID => NfInstanceId,
        gtpu_path_qos_controls: Cs GTP_U_PATH_QOS_CONTROL_INFORMATION =>
            Nullable<GtpuPathQosControlInformation<'a>>,
    }

    /// Spec: TS 29.244 §7.4.4.3.
    message AssociationUpdateRequest = ASSOCIATION_UPDATE_REQUEST {
        node_id: M NODE_ID => NodeId<'a>,
        up_function_features: O UP_FUNCTION_FEATURES => UpFunctionFeatures,
        cp_function_features: O CP_FUNCTION_FEATURES => CpFunctionFeatures,
        association_release_request: C PFCP_ASSOCIATION_RELEASE_REQUEST =>
            crate::ie::AssociationReleaseRequest,
        graceful_release_period: C GRACEFUL_RELEASE_PERIOD => GracefulReleasePeriod,
        pfcp_au_req_flags: O PFCPAUREQ_FLAGS => PfcpAuReqFlags,
        ue_ip_address_pools: Os UE_IP_ADDRESS_POOL_INFORMATION => UeIpAddressPoolInformation<'a>,
        alternative_smf_ip_addresses: Os ALTERNATIVE_SMF_IP_ADDRESS => AlternativeSmfIpAddress,
        smf_set_id: O SMF_SET_ID => SmfSetId<'a>,
        ue_ip_address_usages: Os UE_IP_ADDRESS_USAGE_INFORMATION =>
            UeIpAddressUsageInformation<'a>,
        /// An item of length zero ends the measurements.
        gtpu_path_qos_controls: Cs GTP_U_PATH_QOS_CONTROL_INFORMATION =>
            Nullable<GtpuPathQosControlInformation<'a>>,
    }

    /// Spec: TS 29.244 §7.4.4.4.
    message AssociationUpdateResponse = ASSOCIATION_UPDATE_RESPONSE {
        node_id: M NODE_ID => NodeId<'a>,
        cause: M CAUSE => Cause,
        up_function_features: O UP_FUNCTION_FEATURES => UpFunctionFeatures,
        cp_function_features: O CP_FUNCTION_FEATURES => CpFunctionFeatures,
    }

    /// Spec: TS 29.244 §7.4.4.5.
    message AssociationReleaseRequest = ASSOCIATION_RELEASE_REQUEST {
        node_id: M NODE_ID => NodeId<'a>,
    }

    /// Spec: TS 29.244 §7.4.4.6.
    message AssociationReleaseResponse = ASSOCIATION_RELEASE_RESPONSE {
        node_id: M NODE_ID => NodeId<'a>,
        cause: M CAUSE => Cause,
    }

    /// Has no IEs. Spec: TS 29.244 §7.4.4.7.
    message VersionNotSupportedResponse = VERSION_NOT_SUPPORTED_RESPONSE {
    }

    /// Spec: TS 29.244 §7.4.5.1.
    message NodeReportRequest = NODE_REPORT_REQUEST {
        node_id: M NODE_ID => NodeId<'a>,
        node_report_type: M NODE_REPORT_TYPE => NodeReportType,
        user_plane_path_failure_report: C USER_PLANE_PATH_FAILURE_REPORT =>
            UserPlanePathFailureReport<'a>,
        user_plane_path_recovery_report: C USER_PLANE_PATH_RECOVERY_REPORT =>
            UserPlanePathRecoveryReport<'a>,
        gtpu_path_qos_reports: Cs GTP_U_PATH_QOS_REPORT => GtpuPathQosReport<'a>,
        peer_up_restart_report: C PEER_UP_RESTART_REPORT => PeerUpRestartReport<'a>,
        vendor_specific_node_report_type: C VENDOR_SPECIFIC_NODE_REPORT_TYPE =>
            VendorSpecificNodeReportType<'a>,
    }

    /// Spec: TS 29.244 §7.4.5.2.
    message NodeReportResponse = NODE_REPORT_RESPONSE {
        node_id: M NODE_ID => NodeId<'a>,
        cause: M CAUSE => Cause,
        offending_ie: C OFFENDING_IE => OffendingIe,
    }

    /// Spec: TS 29.244 §7.4.6.1.
    message SessionSetDeletionRequest = SESSION_SET_DELETION_REQUEST {
        node_id: M NODE_ID => NodeId<'a>,
        fq_csids: Cs FQ_CSID => FqCsid<'a>,
    }

    /// Spec: TS 29.244 §7.4.6.2.
    message SessionSetDeletionResponse = SESSION_SET_DELETION_RESPONSE {
        node_id: M NODE_ID => NodeId<'a>,
        cause: M CAUSE => Cause,
        offending_ie: C OFFENDING_IE => OffendingIe,
    }

    /// Moves the control of sessions to another SMF of the set. Spec: TS 29.244 §7.4.7.1.
    message SessionSetModificationRequest = SESSION_SET_MODIFICATION_REQUEST {
        node_id: M NODE_ID => NodeId<'a>,
        session_change_infos: Ms PFCP_SESSION_CHANGE_INFO => SessionChangeInfo<'a>,
    }

    /// Spec: TS 29.244 §7.4.7.2.
    message SessionSetModificationResponse = SESSION_SET_MODIFICATION_RESPONSE {
        node_id: M NODE_ID => NodeId<'a>,
        cause: M CAUSE => Cause,
        offending_ie: C OFFENDING_IE => OffendingIe,
    }
}
