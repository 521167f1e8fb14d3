//! Session related messages. Spec: TS 29.244 §7.5.

use crate::body::{WhenAbsent, bodies};
use crate::grouped::{
    CreateBar, CreateFar, CreatePdr, CreateQer, CreateTrafficEndpoint, CreateUrr, CreatedPdr,
    CreatedTrafficEndpoint, DownlinkDataReport, ErrorIndicationReport, LoadControlInformation,
    OverloadControlInformation, PacketRateStatusReport, PartialFailureInformation,
    QueryPacketRateStatus, QueryUrr, RemoveBar, RemoveFar, RemovePdr, RemoveQer,
    RemoveTrafficEndpoint, RemoveUrr, UpdateBar, UpdateFar, UpdatePdr, UpdateQer,
    UpdateTrafficEndpoint, UpdateUrr, UpdatedPdr, UsageReport,
};
use crate::ie::{
    AdditionalUsageReportsInformation, AlternativeSmfIpAddress, ApnDnn, Cause, FSeid, FTeid,
    FailedRuleId, FqCsid, GroupId, NodeId, OffendingIe, PdnType, PfcpSdRspFlags, PfcpSeReqFlags,
    PfcpSmReqFlags, PfcpSrReqFlags, PfcpSrRspFlags, QueryUrrReference, RatType, RecoveryTimeStamp,
    ReportType, SNssai, TraceInformation, UserId, UserPlaneInactivityTimer,
};

/// A response without Cause counts as accepted, because a refusal would have a Cause.
impl WhenAbsent for Cause {
    const ABSENT: Self = Self::RequestAccepted;
}

bodies! {
    /// Spec: TS 29.244 §7.5.2.1.
    message SessionEstablishmentRequest = SESSION_ESTABLISHMENT_REQUEST {
        node_id: M NODE_ID => NodeId<'a>,
        cp_f_seid: M F_SEID => FSeid,
        create_pdrs: Ms CREATE_PDR => CreatePdr<'a>,
        create_fars: Ms CREATE_FAR => CreateFar<'a>,
        create_urrs: Cs CREATE_URR => CreateUrr<'a>,
        create_qers: Cs CREATE_QER => CreateQer<'a>,
        create_bars: Os CREATE_BAR => CreateBar<'a>,
        create_traffic_endpoints: Cs CREATE_TRAFFIC_ENDPOINT => CreateTrafficEndpoint<'a>,
        pdn_type: C PDN_TYPE => PdnType,
        fq_csids: Cs FQ_CSID => FqCsid<'a>,
        user_plane_inactivity_timer: O USER_PLANE_INACTIVITY_TIMER => UserPlaneInactivityTimer,
        user_id: O USER_ID => UserId<'a>,
        trace_information: O TRACE_INFORMATION => TraceInformation<'a>,
        apn_dnn: O APN_DNN => ApnDnn<'a>,
        pfcp_se_req_flags: C PFCPSEREQ_FLAGS => PfcpSeReqFlags,
        recovery_time_stamp: O RECOVERY_TIME_STAMP => RecoveryTimeStamp,
        s_nssai: O S_NSSAI => SNssai,
        rat_type: O RAT_TYPE => RatType,
        group_id: O GROUP_ID => GroupId<'a>,
    }

    /// Spec: TS 29.244 §7.5.3.1.
    message SessionEstablishmentResponse = SESSION_ESTABLISHMENT_RESPONSE {
        node_id: M NODE_ID => NodeId<'a>,
        cause: M CAUSE => Cause,
        offending_ie: C OFFENDING_IE => OffendingIe,
        up_f_seid: C F_SEID => FSeid,
        created_pdrs: Cs CREATED_PDR => CreatedPdr<'a>,
        load_control_information: O LOAD_CONTROL_INFORMATION => LoadControlInformation<'a>,
        overload_control_information: O OVERLOAD_CONTROL_INFORMATION =>
            OverloadControlInformation<'a>,
        fq_csids: Cs FQ_CSID => FqCsid<'a>,
        failed_rule_id: C FAILED_RULE_ID => FailedRuleId,
        created_traffic_endpoints: Cs CREATED_TRAFFIC_ENDPOINT => CreatedTrafficEndpoint<'a>,
        partial_failures: Cs PARTIAL_FAILURE_INFORMATION => PartialFailureInformation<'a>,
    }

    /// Spec: TS 29.244 §7.5.4.1.
    message SessionModificationRequest = SESSION_MODIFICATION_REQUEST {
        cp_f_seid: C F_SEID => FSeid,
        remove_pdrs: Cs REMOVE_PDR => RemovePdr<'a>,
        remove_fars: Cs REMOVE_FAR => RemoveFar<'a>,
        remove_urrs: Cs REMOVE_URR => RemoveUrr<'a>,
        remove_qers: Cs REMOVE_QER => RemoveQer<'a>,
        remove_bars: Cs REMOVE_BAR => RemoveBar<'a>,
        remove_traffic_endpoints: Cs REMOVE_TRAFFIC_ENDPOINT => RemoveTrafficEndpoint<'a>,
        create_pdrs: Cs CREATE_PDR => CreatePdr<'a>,
        create_fars: Cs CREATE_FAR => CreateFar<'a>,
        create_urrs: Cs CREATE_URR => CreateUrr<'a>,
        create_qers: Cs CREATE_QER => CreateQer<'a>,
        create_bars: Cs CREATE_BAR => CreateBar<'a>,
        create_traffic_endpoints: Cs CREATE_TRAFFIC_ENDPOINT => CreateTrafficEndpoint<'a>,
        update_pdrs: Cs UPDATE_PDR => UpdatePdr<'a>,
        update_fars: Cs UPDATE_FAR => UpdateFar<'a>,
        update_urrs: Cs UPDATE_URR => UpdateUrr<'a>,
        update_qers: Cs UPDATE_QER => UpdateQer<'a>,
        update_bars: Cs UPDATE_BAR_SESSION_MODIFICATION_REQUEST => UpdateBar<'a>,
        update_traffic_endpoints: Cs UPDATE_TRAFFIC_ENDPOINT => UpdateTrafficEndpoint<'a>,
        pfcp_sm_req_flags: C PFCPSMREQ_FLAGS => PfcpSmReqFlags,
        query_urrs: Cs QUERY_URR => QueryUrr<'a>,
        query_packet_rates: Cs QUERY_PACKET_RATE_STATUS => QueryPacketRateStatus<'a>,
        fq_csids: Cs FQ_CSID => FqCsid<'a>,
        user_plane_inactivity_timer: N USER_PLANE_INACTIVITY_TIMER => UserPlaneInactivityTimer,
        query_urr_reference: O QUERY_URR_REFERENCE => QueryUrrReference,
        trace_information: O TRACE_INFORMATION => TraceInformation<'a>,
        node_id: C NODE_ID => NodeId<'a>,
        s_nssai: O S_NSSAI => SNssai,
        rat_type: O RAT_TYPE => RatType,
        group_id: O GROUP_ID => GroupId<'a>,
    }

    /// Spec: TS 29.244 §7.5.5.1.
    message SessionModificationResponse = SESSION_MODIFICATION_RESPONSE {
        cause: M CAUSE => Cause,
        offending_ie: C OFFENDING_IE => OffendingIe,
        created_pdrs: Cs CREATED_PDR => CreatedPdr<'a>,
        load_control_information: O LOAD_CONTROL_INFORMATION => LoadControlInformation<'a>,
        overload_control_information: O OVERLOAD_CONTROL_INFORMATION =>
            OverloadControlInformation<'a>,
        usage_reports: Cs USAGE_REPORT_SESSION_MODIFICATION_RESPONSE => UsageReport<'a>,
        failed_rule_id: C FAILED_RULE_ID => FailedRuleId,
        additional_usage_reports: C ADDITIONAL_USAGE_REPORTS_INFORMATION =>
            AdditionalUsageReportsInformation,
        created_traffic_endpoints: Cs CREATED_TRAFFIC_ENDPOINT => CreatedTrafficEndpoint<'a>,
        updated_pdrs: Cs UPDATED_PDR => UpdatedPdr<'a>,
        partial_failures: Cs PARTIAL_FAILURE_INFORMATION => PartialFailureInformation<'a>,
        packet_rate_status_reports: Cs PACKET_RATE_STATUS_REPORT_MODIFICATION_RESPONSE =>
            PacketRateStatusReport<'a>,
    }

    /// Has no IEs. Spec: TS 29.244 §7.5.6.
    message SessionDeletionRequest = SESSION_DELETION_REQUEST {
    }

    /// Spec: TS 29.244 §7.5.7.1.
    message SessionDeletionResponse = SESSION_DELETION_RESPONSE {
        cause: M CAUSE => Cause,
        offending_ie: C OFFENDING_IE => OffendingIe,
        load_control_information: O LOAD_CONTROL_INFORMATION => LoadControlInformation<'a>,
        overload_control_information: O OVERLOAD_CONTROL_INFORMATION =>
            OverloadControlInformation<'a>,
        usage_reports: Cs USAGE_REPORT_SESSION_DELETION_RESPONSE => UsageReport<'a>,
        additional_usage_reports: C ADDITIONAL_USAGE_REPORTS_INFORMATION =>
            AdditionalUsageReportsInformation,
        packet_rate_status_reports: Cs PACKET_RATE_STATUS_REPORT => PacketRateStatusReport<'a>,
        pfcp_sd_rsp_flags: C PFCPSDRSP_FLAGS => PfcpSdRspFlags,
    }

    /// Spec: TS 29.244 §7.5.8.1.
    message SessionReportRequest = SESSION_REPORT_REQUEST {
        report_type: M REPORT_TYPE => ReportType,
        downlink_data_report: C DOWNLINK_DATA_REPORT => DownlinkDataReport<'a>,
        usage_reports: Cs USAGE_REPORT_SESSION_REPORT_REQUEST => UsageReport<'a>,
        error_indication_report: C ERROR_INDICATION_REPORT => ErrorIndicationReport<'a>,
        load_control_information: O LOAD_CONTROL_INFORMATION => LoadControlInformation<'a>,
        overload_control_information: O OVERLOAD_CONTROL_INFORMATION =>
            OverloadControlInformation<'a>,
        additional_usage_reports: C ADDITIONAL_USAGE_REPORTS_INFORMATION =>
            AdditionalUsageReportsInformation,
        pfcp_sr_req_flags: C PFCPSRREQ_FLAGS => PfcpSrReqFlags,
        old_cp_f_seid: C F_SEID => FSeid,
        packet_rate_status_reports: Cs PACKET_RATE_STATUS_REPORT => PacketRateStatusReport<'a>,
    }

    /// Spec: TS 29.244 §7.5.9.1.
    message SessionReportResponse = SESSION_REPORT_RESPONSE {
        /// INTEROP: some control planes omit the Cause when they accept.
        cause: D CAUSE => Cause,
        offending_ie: C OFFENDING_IE => OffendingIe,
        update_bar: C UPDATE_BAR_SESSION_REPORT_RESPONSE => UpdateBar<'a>,
        pfcp_sr_rsp_flags: C PFCPSRRSP_FLAGS => PfcpSrRspFlags,
        cp_f_seid: C F_SEID => FSeid,
        n4u_f_teid: C F_TEID => FTeid,
        alternative_smf_ip_address: C ALTERNATIVE_SMF_IP_ADDRESS => AlternativeSmfIpAddress,
    }
}
