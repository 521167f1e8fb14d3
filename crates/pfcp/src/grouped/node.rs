//! Grouped IEs of associations, load and failures.

use crate::body::bodies;
use crate::ie::{
    AlternativeSmfIpAddress, ApplicationId, AveragePacketDelay, Cause, CpIpAddress,
    CpPfcpEntityIpAddress, EventTimeStamp, FailedRuleId, FqCsid, GroupId, GtpuPathInterfaceType,
    IpVersion, MaximumPacketDelay, MeasurementPeriod, Metric, MinimumPacketDelay, NetworkInstance,
    NumberOfUeIpAddresses, OciFlags, OffendingIeInformation, PfcpTimer, PfdContents,
    QosReportTrigger, RemoteGtpuPeer, SNssai, SequenceNumber, StartTime, TransportLevelMarking,
    UeIpAddressPoolIdentity, ValidityTimer,
};

bodies! {
    /// Load of a node. Spec: TS 29.244 §7.5.3.3.
    group LoadControlInformation = LOAD_CONTROL_INFORMATION {
        sequence_number: M SEQUENCE_NUMBER => SequenceNumber,
        load_metric: M METRIC => Metric,
    }

    /// Overload of a node. Spec: TS 29.244 §7.5.3.4.
    group OverloadControlInformation = OVERLOAD_CONTROL_INFORMATION {
        sequence_number: M SEQUENCE_NUMBER => SequenceNumber,
        overload_reduction_metric: M METRIC => Metric,
        period_of_validity: M TIMER => PfcpTimer,
        oci_flags: C OCI_FLAGS => OciFlags,
    }

    /// A rule that failed in a request that was accepted in part. Spec: TS 29.244 §7.5.3.1.
    group PartialFailureInformation = PARTIAL_FAILURE_INFORMATION {
        failed_rule_id: M FAILED_RULE_ID => FailedRuleId,
        failure_cause: M CAUSE => Cause,
        offending_ies: Os OFFENDING_IE_INFORMATION => OffendingIeInformation<'a>,
    }

    /// The wish to retain sessions when the association is set up again. Spec: TS 29.244 §7.4.4.1.
    group SessionRetentionInformation = PFCP_SESSION_RETENTION_INFORMATION {
        cp_pfcp_entity_ip_addresses: Os CP_PFCP_ENTITY_IP_ADDRESS => CpPfcpEntityIpAddress,
    }

    /// Pools of UE IP addresses. Spec: TS 29.244 §7.4.4.1.
    group UeIpAddressPoolInformation = UE_IP_ADDRESS_POOL_INFORMATION {
        pool_identities: Ms UE_IP_ADDRESS_POOL_IDENTITY => UeIpAddressPoolIdentity<'a>,
        network_instance: O NETWORK_INSTANCE => NetworkInstance<'a>,
        s_nssais: Os S_NSSAI => SNssai,
        ip_version: O IP_VERSION => IpVersion,
    }

    /// How much of the UE IP addresses of a network instance is in use. Spec: TS 29.244 §7.4.4.3.1.
    group UeIpAddressUsageInformation = UE_IP_ADDRESS_USAGE_INFORMATION {
        sequence_number: M SEQUENCE_NUMBER => SequenceNumber,
        metric: M METRIC => Metric,
        validity_timer: M VALIDITY_TIMER => ValidityTimer,
        number_of_ue_ip_addresses: M NUMBER_OF_UE_IP_ADDRESSES => NumberOfUeIpAddresses,
        network_instance: M NETWORK_INSTANCE => NetworkInstance<'a>,
        pool_identity: O UE_IP_ADDRESS_POOL_IDENTITY => UeIpAddressPoolIdentity<'a>,
        s_nssai: O S_NSSAI => SNssai,
    }

    /// GTP-U peers that do not answer. Spec: TS 29.244 §7.4.5.1.2.
    group UserPlanePathFailureReport = USER_PLANE_PATH_FAILURE_REPORT {
        remote_gtpu_peers: Ms REMOTE_GTP_U_PEER => RemoteGtpuPeer<'a>,
    }

    /// GTP-U peers that answer again. Spec: TS 29.244 §7.4.5.1.3.
    group UserPlanePathRecoveryReport = USER_PLANE_PATH_RECOVERY_REPORT {
        remote_gtpu_peers: Ms REMOTE_GTP_U_PEER => RemoteGtpuPeer<'a>,
    }

    /// GTP-U peers that restarted. Spec: TS 29.244 §7.4.5.1.6.
    group PeerUpRestartReport = PEER_UP_RESTART_REPORT {
        remote_gtpu_peers: Ms REMOTE_GTP_U_PEER => RemoteGtpuPeer<'a>,
    }

    /// Paths whose delays are to be measured, and when they are to be reported. Spec: TS 29.244
    /// §7.4.4.1.3.
    group GtpuPathQosControlInformation = GTP_U_PATH_QOS_CONTROL_INFORMATION {
        remote_gtpu_peers: Cs REMOTE_GTP_U_PEER => RemoteGtpuPeer<'a>,
        interface_type: C GTP_U_PATH_INTERFACE_TYPE => GtpuPathInterfaceType,
        qos_report_trigger: M QOS_REPORT_TRIGGER => QosReportTrigger,
        transport_level_markings: Cs TRANSPORT_LEVEL_MARKING => TransportLevelMarking,
        measurement_period: C MEASUREMENT_PERIOD => MeasurementPeriod,
        /// The threshold of the average delay; those of the minimum and the maximum follow.
        average_packet_delay: C AVERAGE_PACKET_DELAY => AveragePacketDelay,
        minimum_packet_delay: C MINIMUM_PACKET_DELAY => MinimumPacketDelay,
        maximum_packet_delay: C MAXIMUM_PACKET_DELAY => MaximumPacketDelay,
        /// The least time between two reports for a threshold.
        minimum_waiting_time: C TIMER => PfcpTimer,
    }

    /// Delays of a GTP-U path. Spec: TS 29.244 §7.4.5.1.5.
    group GtpuPathQosReport = GTP_U_PATH_QOS_REPORT {
        remote_gtpu_peer: M REMOTE_GTP_U_PEER => RemoteGtpuPeer<'a>,
        interface_type: O GTP_U_PATH_INTERFACE_TYPE => GtpuPathInterfaceType,
        qos_report_trigger: M QOS_REPORT_TRIGGER => QosReportTrigger,
        event_time_stamp: M TIME_STAMP => EventTimeStamp,
        start_time: O START_TIME => StartTime,
        qos_information: Ms QOS_INFORMATION_IN_GTP_U_PATH_QOS_REPORT => PathQosInformation<'a>,
    }

    /// Delays in one traffic class. Spec: TS 29.244 §7.4.5.1.5, table 7.4.5.1.5-2.
    group PathQosInformation = QOS_INFORMATION_IN_GTP_U_PATH_QOS_REPORT {
        average_packet_delay: M AVERAGE_PACKET_DELAY => AveragePacketDelay,
        minimum_packet_delay: O MINIMUM_PACKET_DELAY => MinimumPacketDelay,
        maximum_packet_delay: O MAXIMUM_PACKET_DELAY => MaximumPacketDelay,
        transport_level_marking: O TRANSPORT_LEVEL_MARKING => TransportLevelMarking,
    }

    /// PFDs of one application; if there is no PFD context, the application's PFDs are withdrawn.
    /// Spec: TS 29.244 §7.4.3.1, table 7.4.3.1-2.
    group ApplicationIdsPfds = APPLICATION_IDS_PFDS {
        application_id: M APPLICATION_ID => ApplicationId<'a>,
        pfd_contexts: Cs PFD_CONTEXT => PfdContext<'a>,
    }

    /// PFDs that are provisioned together. Spec: TS 29.244 §7.4.3.1, table 7.4.3.1-3.
    group PfdContext = PFD_CONTEXT {
        pfd_contents: Ms PFD_CONTENTS => PfdContents<'a>,
    }

    /// Sessions that another SMF of the set controls from now on, identified by FQ-CSID, group or
    /// address of their CP function. Spec: TS 29.244 §7.4.7.1, table 7.4.7.1-2.
    group SessionChangeInfo = PFCP_SESSION_CHANGE_INFO {
        fq_csids: Cs FQ_CSID => FqCsid<'a>,
        group_ids: Cs GROUP_ID => GroupId<'a>,
        cp_ip_addresses: Cs CP_IP_ADDRESS => CpIpAddress,
        alternative_smf_ip_address: M ALTERNATIVE_SMF_IP_ADDRESS => AlternativeSmfIpAddress,
    }
}
