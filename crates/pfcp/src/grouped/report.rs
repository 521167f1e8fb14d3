//! Grouped IEs of the UP function's reports.

use adit_types::{PdrId, QerId, UrrId};

use crate::body::bodies;
use crate::ie::{
    ApplicationId, ApplicationInstanceId, DataStatus, DlDataPacketsSize,
    DownlinkDataServiceInformation, DurationMeasurement, EndTime, EventTimeStamp, FTeid,
    FlowInformation, NetworkInstance, PacketRateStatus, QueryUrrReference, StartTime,
    TimeOfFirstPacket, TimeOfLastPacket, UeIpAddress, UrSeqn, UsageInformation, UsageReportTrigger,
    VolumeMeasurement,
};

bodies! {
    /// Usage of one URR: in a Session Modification Response (type 78), a Session Deletion Response
    /// (79), or a Session Report Request (80). Spec: TS 29.244 §7.5.5.2, §7.5.7.2, §7.5.8.3.
    group UsageReport = USAGE_REPORT_SESSION_REPORT_REQUEST, rule Urr {
        urr_id: M URR_ID => UrrId,
        ur_seqn: M UR_SEQN => UrSeqn,
        usage_report_trigger: M USAGE_REPORT_TRIGGER => UsageReportTrigger,
        start_time: C START_TIME => StartTime,
        end_time: C END_TIME => EndTime,
        volume_measurement: C VOLUME_MEASUREMENT => VolumeMeasurement,
        duration_measurement: C DURATION_MEASUREMENT => DurationMeasurement,
        application_detection_information: C APPLICATION_DETECTION_INFORMATION =>
            ApplicationDetectionInformation<'a>,
        ue_ip_address: C UE_IP_ADDRESS => UeIpAddress,
        network_instance: C NETWORK_INSTANCE => NetworkInstance<'a>,
        time_of_first_packet: C TIME_OF_FIRST_PACKET => TimeOfFirstPacket,
        time_of_last_packet: C TIME_OF_LAST_PACKET => TimeOfLastPacket,
        usage_information: C USAGE_INFORMATION => UsageInformation,
        query_urr_reference: C QUERY_URR_REFERENCE => QueryUrrReference,
        event_time_stamps: Cs TIME_STAMP => EventTimeStamp,
    }

    /// A detected application. Spec: TS 29.244 §7.5.8.3, table 7.5.8.3-2.
    group ApplicationDetectionInformation = APPLICATION_DETECTION_INFORMATION {
        application_id: M APPLICATION_ID => ApplicationId<'a>,
        application_instance_id: C APPLICATION_INSTANCE_ID => ApplicationInstanceId<'a>,
        flow_information: C FLOW_INFORMATION => FlowInformation<'a>,
        pdr_id: O PDR_ID => PdrId,
    }

    /// Downlink data that is buffered or dropped. Spec: TS 29.244 §7.5.8.2.
    group DownlinkDataReport = DOWNLINK_DATA_REPORT {
        pdr_ids: Ms PDR_ID => PdrId,
        downlink_data_service_information: Cs DOWNLINK_DATA_SERVICE_INFORMATION =>
            DownlinkDataServiceInformation,
        dl_data_packets_size: C DL_DATA_PACKETS_SIZE => DlDataPacketsSize,
        data_status: C DATA_STATUS => DataStatus,
    }

    /// Tunnel endpoints that a peer does not have any more. Spec: TS 29.244 §7.5.8.4.
    group ErrorIndicationReport = ERROR_INDICATION_REPORT {
        remote_f_teids: Ms F_TEID => FTeid,
    }

    /// Rate control status of a QER. Spec: TS 29.244 §7.5.7.1, table 7.5.7.1-2.
    group PacketRateStatusReport = PACKET_RATE_STATUS_REPORT, rule Qer {
        qer_id: M QER_ID => QerId,
        packet_rate_status: M PACKET_RATE_STATUS => PacketRateStatus,
    }
}
