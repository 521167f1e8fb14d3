//! IEs of URRs to the words of the session store. Spec: TS 29.244 §7.5.2.4, §7.5.4.4.

use adit_pfcp::IeType;
use adit_pfcp::grouped::{CreateUrr, UpdateUrr};
use adit_pfcp::ie::{self, ReportingTriggers};
use adit_session::{
    DroppedThreshold, MeasurementInformation, MeasurementMethod, Monitoring, RuleId, Urr,
    UrrSettings, UrrUpdate, UsageTriggers, Volumes,
};
use adit_types::Nanos;

use crate::refusal::Rejected;
use crate::wall::Wall;

/// Our words for the reporting triggers that we act on.
const TRIGGERS: [(ReportingTriggers, UsageTriggers); 12] = [
    (ReportingTriggers::PERIO, UsageTriggers::PERIODIC),
    (ReportingTriggers::VOLTH, UsageTriggers::VOLUME_THRESHOLD),
    (ReportingTriggers::TIMTH, UsageTriggers::TIME_THRESHOLD),
    (ReportingTriggers::QUHTI, UsageTriggers::QUOTA_HOLDING_TIME),
    (ReportingTriggers::START, UsageTriggers::START_OF_TRAFFIC),
    (ReportingTriggers::STOPT, UsageTriggers::STOP_OF_TRAFFIC),
    (ReportingTriggers::DROTH, UsageTriggers::DROPPED_DL),
    (ReportingTriggers::LIUSA, UsageTriggers::LINKED),
    (ReportingTriggers::VOLQU, UsageTriggers::VOLUME_QUOTA),
    (ReportingTriggers::TIMQU, UsageTriggers::TIME_QUOTA),
    (ReportingTriggers::QUVTI, UsageTriggers::QUOTA_VALIDITY_TIME),
    (ReportingTriggers::UPINT, UsageTriggers::INACTIVITY),
];

/// When a request came, and what time of day that was.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    pub now: Nanos,
    pub wall: Wall,
}

/// The members that Create URR and Update URR share.
macro_rules! settings {
    ($group:expr, $when:expr) => {{
        let group = $group;
        if !group.exempted_sdf_filters.is_empty() {
            return Err(Rejected::unsupported(IeType::SDF_FILTER));
        }
        if !group.exempted_application_ids.is_empty() {
            return Err(Rejected::unsupported(IeType::APPLICATION_ID));
        }
        let seconds = |seconds: u32| Nanos::from_secs(seconds.into());
        UrrSettings {
            period: group.measurement_period.map(|ie| seconds(ie.0)),
            volume_threshold: group.volume_threshold.map(|v| Volumes {
                total: v.total,
                uplink: v.uplink,
                downlink: v.downlink,
            }),
            volume_quota: group.volume_quota.map(|v| Volumes {
                total: v.total,
                uplink: v.uplink,
                downlink: v.downlink,
            }),
            time_threshold: group.time_threshold.map(|ie| seconds(ie.0)),
            time_quota: group.time_quota.map(|ie| seconds(ie.0)),
            quota_holding_time: group.quota_holding_time.map(|ie| seconds(ie.0)),
            quota_validity_time: group.quota_validity_time.map(|ie| seconds(ie.0)),
            dropped_threshold: group
                .dropped_dl_traffic_threshold
                .map(|ie| DroppedThreshold { packets: ie.packets, bytes: ie.bytes }),
            monitoring: group.monitoring_time.map(|ie| Monitoring {
                at: $when.wall.moment($when.now, ie.0),
                volume_threshold: group.subsequent_volume_threshold.map(|v| Volumes {
                    total: v.total,
                    uplink: v.uplink,
                    downlink: v.downlink,
                }),
                time_threshold: group.subsequent_time_threshold.map(|ie| seconds(ie.0)),
                volume_quota: group.subsequent_volume_quota.map(|v| Volumes {
                    total: v.total,
                    uplink: v.uplink,
                    downlink: v.downlink,
                }),
                time_quota: group.subsequent_time_quota.map(|ie| seconds(ie.0)),
            }),
            inactivity_detection_time: group.inactivity_detection_time.map(|ie| seconds(ie.0)),
            linked: (!group.linked_urr_ids.is_empty())
                .then(|| group.linked_urr_ids.iter().map(|ie| adit_types::UrrId(ie.0)).collect()),
            information: group.measurement_information.map(information).transpose()?,
            quota_far: group.far_id_for_quota_action,
        }
    }};
}

pub(super) fn create_urr(group: &CreateUrr<'_>, when: When) -> Result<Urr, Rejected> {
    let urr = || {
        Ok(Urr {
            id: group.urr_id,
            method: method(group.measurement_method)?,
            triggers: triggers(group.reporting_triggers)?,
            settings: settings!(group, when),
        })
    };
    urr().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Urr(group.urr_id)))
}

pub(super) fn update_urr(group: &UpdateUrr<'_>, when: When) -> Result<UrrUpdate, Rejected> {
    let update = || {
        Ok(UrrUpdate {
            id: group.urr_id,
            method: group.measurement_method.map(method).transpose()?,
            triggers: group.reporting_triggers.map(triggers).transpose()?,
            settings: settings!(group, when),
        })
    };
    update().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Urr(group.urr_id)))
}

fn method(ie: ie::MeasurementMethod) -> Result<MeasurementMethod, Rejected> {
    if ie.contains(ie::MeasurementMethod::EVENT) {
        return Err(Rejected::unsupported(IeType::MEASUREMENT_METHOD));
    }
    Ok(MeasurementMethod {
        volume: ie.contains(ie::MeasurementMethod::VOLUM),
        duration: ie.contains(ie::MeasurementMethod::DURAT),
    })
}

fn triggers(ie: ReportingTriggers) -> Result<UsageTriggers, Rejected> {
    let mut triggers = UsageTriggers::empty();
    let mut rest = ie & ReportingTriggers::from_bits_retain(0x3_ffff);
    for (theirs, ours) in TRIGGERS {
        triggers.set(ours, ie.contains(theirs));
        rest.remove(theirs);
    }
    match rest.is_empty() {
        true => Ok(triggers),
        false => Err(Rejected::unsupported(IeType::REPORTING_TRIGGERS)),
    }
}

/// Reduced application detection information asks us to say less than we ever say.
fn information(ie: ie::MeasurementInformation) -> Result<MeasurementInformation, Rejected> {
    use ie::MeasurementInformation as Information;
    if ie.intersects(Information::SSPOC | Information::ASPOC | Information::CIAM) {
        return Err(Rejected::unsupported(IeType::MEASUREMENT_INFORMATION));
    }
    Ok(MeasurementInformation {
        before_qos: ie.contains(Information::MBQE),
        inactive: ie.contains(Information::INAM),
        immediate_start: ie.contains(Information::ISTM),
        packets: ie.contains(Information::MNOP),
    })
}
