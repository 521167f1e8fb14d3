//! Usage Reporting Rules.

use adit_types::{FarId, UrrId};

use crate::body::bodies;
use crate::ie::{
    AggregatedUrrId, ApplicationId, DroppedDlTrafficThreshold, EthernetInactivityTimer, EventQuota,
    EventThreshold, InactivityDetectionTime, LinkedUrrId, MeasurementInformation,
    MeasurementMethod, MeasurementPeriod, MonitoringTime, Multiplier, NumberOfReports,
    QuotaHoldingTime, QuotaValidityTime, ReportingTriggers, SdfFilter, SubsequentEventQuota,
    SubsequentEventThreshold, SubsequentTimeQuota, SubsequentTimeThreshold, SubsequentVolumeQuota,
    SubsequentVolumeThreshold, TimeQuota, TimeQuotaMechanism, TimeThreshold, VolumeQuota,
    VolumeThreshold,
};

bodies! {
    /// A URR to create. Spec: TS 29.244 §7.5.2.4.
    group CreateUrr = CREATE_URR, rule Urr {
        urr_id: M URR_ID => UrrId,
        measurement_method: M MEASUREMENT_METHOD => MeasurementMethod,
        reporting_triggers: M REPORTING_TRIGGERS => ReportingTriggers,
        measurement_period: C MEASUREMENT_PERIOD => MeasurementPeriod,
        volume_threshold: C VOLUME_THRESHOLD => VolumeThreshold,
        volume_quota: C VOLUME_QUOTA => VolumeQuota,
        event_threshold: C EVENT_THRESHOLD => EventThreshold,
        event_quota: C EVENT_QUOTA => EventQuota,
        time_threshold: C TIME_THRESHOLD => TimeThreshold,
        time_quota: C TIME_QUOTA => TimeQuota,
        quota_holding_time: C QUOTA_HOLDING_TIME => QuotaHoldingTime,
        dropped_dl_traffic_threshold: C DROPPED_DL_TRAFFIC_THRESHOLD =>
            DroppedDlTrafficThreshold,
        quota_validity_time: C QUOTA_VALIDITY_TIME => QuotaValidityTime,
        monitoring_time: O MONITORING_TIME => MonitoringTime,
        subsequent_volume_threshold: O SUBSEQUENT_VOLUME_THRESHOLD => SubsequentVolumeThreshold,
        subsequent_time_threshold: O SUBSEQUENT_TIME_THRESHOLD => SubsequentTimeThreshold,
        subsequent_volume_quota: O SUBSEQUENT_VOLUME_QUOTA => SubsequentVolumeQuota,
        subsequent_time_quota: O SUBSEQUENT_TIME_QUOTA => SubsequentTimeQuota,
        subsequent_event_threshold: O SUBSEQUENT_EVENT_THRESHOLD => SubsequentEventThreshold,
        subsequent_event_quota: O SUBSEQUENT_EVENT_QUOTA => SubsequentEventQuota,
        inactivity_detection_time: C INACTIVITY_DETECTION_TIME => InactivityDetectionTime,
        linked_urr_ids: Cs LINKED_URR_ID => LinkedUrrId,
        measurement_information: C MEASUREMENT_INFORMATION => MeasurementInformation,
        time_quota_mechanism: C TIME_QUOTA_MECHANISM => TimeQuotaMechanism,
        aggregated_urrs: Cs AGGREGATED_URRS => AggregatedUrrs<'a>,
        far_id_for_quota_action: C FAR_ID => FarId,
        ethernet_inactivity_timer: C ETHERNET_INACTIVITY_TIMER => EthernetInactivityTimer,
        additional_monitoring_times: Os ADDITIONAL_MONITORING_TIME =>
            AdditionalMonitoringTime<'a>,
        number_of_reports: O NUMBER_OF_REPORTS => NumberOfReports,
        /// Applications that the quota action exempts.
        exempted_application_ids: Os APPLICATION_ID => ApplicationId<'a>,
        /// Flows that the quota action exempts.
        exempted_sdf_filters: Os SDF_FILTER => SdfFilter<'a>,
    }

    /// A URR to change. Spec: TS 29.244 §7.5.4.4.
    group UpdateUrr = UPDATE_URR, rule Urr {
        urr_id: M URR_ID => UrrId,
        measurement_method: C MEASUREMENT_METHOD => MeasurementMethod,
        reporting_triggers: C REPORTING_TRIGGERS => ReportingTriggers,
        measurement_period: N MEASUREMENT_PERIOD => MeasurementPeriod,
        volume_threshold: N VOLUME_THRESHOLD => VolumeThreshold,
        volume_quota: N VOLUME_QUOTA => VolumeQuota,
        event_threshold: N EVENT_THRESHOLD => EventThreshold,
        event_quota: N EVENT_QUOTA => EventQuota,
        time_threshold: N TIME_THRESHOLD => TimeThreshold,
        time_quota: N TIME_QUOTA => TimeQuota,
        quota_holding_time: N QUOTA_HOLDING_TIME => QuotaHoldingTime,
        dropped_dl_traffic_threshold: N DROPPED_DL_TRAFFIC_THRESHOLD =>
            DroppedDlTrafficThreshold,
        quota_validity_time: N QUOTA_VALIDITY_TIME => QuotaValidityTime,
        monitoring_time: N MONITORING_TIME => MonitoringTime,
        subsequent_volume_threshold: N SUBSEQUENT_VOLUME_THRESHOLD => SubsequentVolumeThreshold,
        subsequent_time_threshold: N SUBSEQUENT_TIME_THRESHOLD => SubsequentTimeThreshold,
        subsequent_volume_quota: N SUBSEQUENT_VOLUME_QUOTA => SubsequentVolumeQuota,
        subsequent_time_quota: N SUBSEQUENT_TIME_QUOTA => SubsequentTimeQuota,
        subsequent_event_threshold: N SUBSEQUENT_EVENT_THRESHOLD => SubsequentEventThreshold,
        subsequent_event_quota: N SUBSEQUENT_EVENT_QUOTA => SubsequentEventQuota,
        inactivity_detection_time: N INACTIVITY_DETECTION_TIME => InactivityDetectionTime,
        linked_urr_ids: Ns LINKED_URR_ID => LinkedUrrId,
        measurement_information: N MEASUREMENT_INFORMATION => MeasurementInformation,
        time_quota_mechanism: N TIME_QUOTA_MECHANISM => TimeQuotaMechanism,
        aggregated_urrs: Ns AGGREGATED_URRS => AggregatedUrrs<'a>,
        far_id_for_quota_action: N FAR_ID => FarId,
        ethernet_inactivity_timer: N ETHERNET_INACTIVITY_TIMER => EthernetInactivityTimer,
        additional_monitoring_times: Ns ADDITIONAL_MONITORING_TIME =>
            AdditionalMonitoringTime<'a>,
        number_of_reports: N NUMBER_OF_REPORTS => NumberOfReports,
        exempted_application_ids: Ns APPLICATION_ID => ApplicationId<'a>,
        exempted_sdf_filters: Ns SDF_FILTER => SdfFilter<'a>,
    }

    /// A URR to remove. Spec: TS 29.244 §7.5.4.8.
    group RemoveUrr = REMOVE_URR, rule Urr {
        urr_id: M URR_ID => UrrId,
    }

    /// A URR whose usage is queried. Spec: TS 29.244 §7.5.4.10.
    group QueryUrr = QUERY_URR, rule Urr {
        urr_id: M URR_ID => UrrId,
    }

    /// A URR of a credit pool, with its multiplier. Spec: TS 29.244 §7.5.2.4, table 7.5.2.4-2.
    group AggregatedUrrs = AGGREGATED_URRS {
        aggregated_urr_id: M AGGREGATED_URR_ID => AggregatedUrrId,
        multiplier: M MULTIPLIER => Multiplier,
    }

    /// A monitoring time after the first one. Spec: TS 29.244 §7.5.2.4, table 7.5.2.4-3.
    group AdditionalMonitoringTime = ADDITIONAL_MONITORING_TIME {
        monitoring_time: M MONITORING_TIME => MonitoringTime,
        subsequent_volume_threshold: O SUBSEQUENT_VOLUME_THRESHOLD => SubsequentVolumeThreshold,
        subsequent_time_threshold: O SUBSEQUENT_TIME_THRESHOLD => SubsequentTimeThreshold,
        subsequent_volume_quota: O SUBSEQUENT_VOLUME_QUOTA => SubsequentVolumeQuota,
        subsequent_time_quota: O SUBSEQUENT_TIME_QUOTA => SubsequentTimeQuota,
        subsequent_event_threshold: O EVENT_THRESHOLD => EventThreshold,
        subsequent_event_quota: O EVENT_QUOTA => EventQuota,
    }
}
