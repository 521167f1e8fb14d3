//! Decodes URRs to the types of the session store. Spec: TS 29.244 §7.5.2.4, §7.5.4.4.

use std::collections::BTreeSet;

use adit_pfcp::grouped::{AggregatedUrrs, CreateUrr, UpdateUrr};
use adit_pfcp::ie::{self, ReportingTriggers};
use adit_pfcp::{Cause, IeType, Repeated};
use adit_session::{
    Aggregated, DroppedThreshold, Exempted, MeasurementInformation, MeasurementMethod, Monitoring,
    RuleId, RulePart, TimeMechanism, Urr, UrrSettings, UrrSettingsUpdate, UrrUpdate, UsageTriggers,
    Volumes,
};
use adit_types::{Nanos, UrrId};

use crate::procedure::decode::{self, RequestTime, part, parts, try_part, unless_withdrawn};
use crate::refusal::Rejected;

/// The supported reporting triggers; others are refused.
const TRIGGERS: [(ReportingTriggers, UsageTriggers); 16] = [
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
    (ReportingTriggers::ENVCL, UsageTriggers::ENVELOPE_CLOSURE),
    (ReportingTriggers::EVETH, UsageTriggers::EVENT_THRESHOLD),
    (ReportingTriggers::EVEQU, UsageTriggers::EVENT_QUOTA),
    (ReportingTriggers::REEMR, UsageTriggers::END_MARKER),
];

macro_rules! volumes {
    () => {
        |ie| Volumes { total: ie.total, uplink: ie.uplink, downlink: ie.downlink }
    };
}

fn seconds(seconds: u32) -> Nanos {
    Nanos::from_secs(seconds.into())
}

/// Decodes one monitoring time, with the limits that apply after it.
macro_rules! monitoring {
    ($group:expr, $time:expr, $when:expr) => {
        Monitoring {
            at: $when.ntp_clock.instant($when.now, $time.0),
            volume_threshold: $group.subsequent_volume_threshold.map(volumes!()),
            time_threshold: $group.subsequent_time_threshold.map(|ie| seconds(ie.0)),
            volume_quota: $group.subsequent_volume_quota.map(volumes!()),
            time_quota: $group.subsequent_time_quota.map(|ie| seconds(ie.0)),
            event_threshold: $group.subsequent_event_threshold.map(|ie| ie.0.into()),
            event_quota: $group.subsequent_event_quota.map(|ie| ie.0.into()),
        }
    };
}

/// Decodes all monitoring times, in ascending order; `None` without any.
macro_rules! monitoring_times {
    ($group:expr, $when:expr) => {{
        let first = $group.monitoring_time.map(|time| monitoring!($group, time, $when));
        let more = $group.additional_monitoring_times.iter();
        let more = more.map(|further| monitoring!(further, further.monitoring_time, $when));
        let mut times: Vec<Monitoring> = first.into_iter().chain(more).collect();
        times.sort_by_key(|monitoring| monitoring.at);
        Some(times).filter(|times| !times.is_empty())
    }};
}

/// Decodes the members that Create URR and Update URR have in common.
macro_rules! settings {
    ($group:expr, $when:expr) => {{
        let (group, withdrawn) = ($group, $group.withdrawn);
        let settings = parts!(UrrSettingsUpdate of group {
            period: measurement_period = |ie| seconds(ie.0), MEASUREMENT_PERIOD;
            volume_threshold: volume_threshold = volumes!(), VOLUME_THRESHOLD;
            volume_quota: volume_quota = volumes!(), VOLUME_QUOTA;
            time_threshold: time_threshold = |ie| seconds(ie.0), TIME_THRESHOLD;
            time_quota: time_quota = |ie| seconds(ie.0), TIME_QUOTA;
            event_threshold: event_threshold = |ie| ie.0.into(), EVENT_THRESHOLD;
            event_quota: event_quota = |ie| ie.0.into(), EVENT_QUOTA;
            time_mechanism: time_quota_mechanism ? time_mechanism, TIME_QUOTA_MECHANISM;
            reports_max: number_of_reports ? number_of_reports, NUMBER_OF_REPORTS;
            quota_holding_time: quota_holding_time = |ie| seconds(ie.0), QUOTA_HOLDING_TIME;
            quota_validity_time: quota_validity_time = |ie| seconds(ie.0), QUOTA_VALIDITY_TIME;
            dropped_threshold: dropped_dl_traffic_threshold
                = |ie| DroppedThreshold { packets: ie.packets, bytes: ie.bytes },
                DROPPED_DL_TRAFFIC_THRESHOLD;
            inactivity_detection_time: inactivity_detection_time = |ie| seconds(ie.0),
                INACTIVITY_DETECTION_TIME;
            information: measurement_information ? information, MEASUREMENT_INFORMATION;
            quota_far: far_id_for_quota_action = |id| id, FAR_ID;
        });
        let members = credit_pool_members(group.aggregated_urrs)?;
        let exempted = exempted(group.exempted_sdf_filters, group.exempted_application_ids)?;
        let times = [IeType::MONITORING_TIME, IeType::ADDITIONAL_MONITORING_TIME];
        let traffic = [IeType::SDF_FILTER, IeType::APPLICATION_ID];
        UrrSettingsUpdate {
            monitoring: unless_withdrawn(monitoring_times!(group, $when), withdrawn, &times),
            linked: unless_withdrawn(
                linked_urrs(group.linked_urr_ids), withdrawn, &[IeType::LINKED_URR_ID]),
            aggregated: unless_withdrawn(members, withdrawn, &[IeType::AGGREGATED_URRS]),
            exempted: unless_withdrawn(exempted, withdrawn, &traffic),
            ..settings
        }
    }};
}

pub(super) fn create_urr(group: &CreateUrr<'_>, when: RequestTime) -> Result<Urr, Rejected> {
    let urr = || {
        let mut urr = Urr {
            id: group.urr_id,
            method: method(group.measurement_method),
            triggers: triggers(group.reporting_triggers)?,
            settings: UrrSettings::default(),
        };
        urr.settings.change(settings!(group, when));
        Ok(urr)
    };
    urr().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Urr(group.urr_id)))
}

pub(super) fn update_urr(group: &UpdateUrr<'_>, when: RequestTime) -> Result<UrrUpdate, Rejected> {
    let update = || {
        Ok(UrrUpdate {
            id: group.urr_id,
            method: part(group.measurement_method, method),
            triggers: try_part(group.reporting_triggers, triggers)?,
            settings: settings!(group, when),
        })
    };
    update().map_err(|rejected: Rejected| rejected.in_rule(RuleId::Urr(group.urr_id)))
}

fn method(ie: ie::MeasurementMethod) -> MeasurementMethod {
    MeasurementMethod {
        volume: ie.contains(ie::MeasurementMethod::VOLUM),
        duration: ie.contains(ie::MeasurementMethod::DURAT),
        event: ie.contains(ie::MeasurementMethod::EVENT),
    }
}

/// Decodes the URRs whose reports trigger a report of this one, without duplicates; `None` without
/// any.
fn linked_urrs(ids: Repeated<'_, ie::LinkedUrrId>) -> Option<Vec<UrrId>> {
    let ids: BTreeSet<UrrId> = ids.iter().map(|id| UrrId(id.0)).collect();
    (!ids.is_empty()).then(|| ids.into_iter().collect())
}

/// Decodes the traffic that a quota action exempts; `None` without any.
fn exempted<'a>(
    flows: Repeated<'a, ie::SdfFilter<'a>>,
    applications: Repeated<'a, ie::ApplicationId<'a>>,
) -> Result<Option<Exempted>, Rejected> {
    let flows: Result<Vec<_>, Rejected> = flows.into_iter().map(decode::sdf).collect();
    let applications = applications.into_iter().map(decode::application).collect();
    let exempted = Exempted { flows: flows?, applications };
    Ok((exempted != Exempted::default()).then_some(exempted))
}

/// Decodes the members of a credit pool; `None` for a URR that is no credit pool.
fn credit_pool_members<'a>(
    groups: Repeated<'a, AggregatedUrrs<'a>>,
) -> Result<Option<Vec<Aggregated>>, Rejected> {
    let member = |group: AggregatedUrrs<'_>| {
        let incorrect = Rejected::with_ie(Cause::MandatoryIeIncorrect, IeType::MULTIPLIER);
        let weight = weight(group.multiplier).ok_or(incorrect)?;
        Ok(Aggregated { urr: UrrId(group.aggregated_urr_id.0), weight })
    };
    let members: Result<Vec<_>, Rejected> = groups.into_iter().map(member).collect();
    Ok(Some(members?).filter(|members| !members.is_empty()))
}

/// Converts a multiplier to millionths. `None` if it is negative, greater than a million, or has
/// more than six decimals.
fn weight(ie: ie::Multiplier) -> Option<u64> {
    const MILLIONTHS_OF_MILLION: u64 = 1_000_000_000_000;
    let digits = u64::try_from(ie.digits).ok()?;
    let exponent = ie.exponent.checked_add(6)?;
    let scale = 10_u64.checked_pow(exponent.unsigned_abs());
    let weight = match (exponent >= 0, scale) {
        _ if digits == 0 => Some(0),
        (true, scale) => digits.checked_mul(scale?),
        (false, scale) => {
            Some(scale?).filter(|scale| digits % scale == 0).map(|scale| digits / scale)
        }
    };
    weight.filter(|weight| *weight <= MILLIONTHS_OF_MILLION)
}

/// Decodes the mechanism; base time interval types 2 and 3 are spare. Spec: TS 29.244 §8.2.81.
fn time_mechanism(ie: ie::TimeQuotaMechanism) -> Result<TimeMechanism, Rejected> {
    let is_continuous = match ie.interval_type {
        0 => true,
        1 => false,
        _ => return Err(Rejected::unsupported(IeType::TIME_QUOTA_MECHANISM)),
    };
    Ok(TimeMechanism { is_continuous, interval: Nanos::from_secs(ie.interval_secs.into()) })
}

/// Decodes the number of reports, which must not be zero. Spec: TS 29.244 §8.2.133.
fn number_of_reports(ie: ie::NumberOfReports) -> Result<u16, Rejected> {
    let incorrect = Rejected::with_ie(Cause::MandatoryIeIncorrect, IeType::NUMBER_OF_REPORTS);
    if ie.0 == 0 { Err(incorrect) } else { Ok(ie.0) }
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

/// Decodes the information to measure. A request for reduced application detection information is
/// accepted, but reports contain all of it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplier_is_taken_exactly_or_not_at_all() {
        let weight = |digits, exponent| weight(ie::Multiplier { digits, exponent });
        assert_eq!(weight(1, 0), Some(1_000_000));
        assert_eq!(weight(25, -1), Some(2_500_000));
        assert_eq!(weight(1, 6), Some(1_000_000_000_000));
        assert_eq!(weight(3_000, -9), Some(3));
        assert_eq!(weight(0, i32::MAX), None, "no exponent to reckon with");
        assert_eq!(weight(0, 5), Some(0));
        for (digits, exponent) in
            [(-1, 0), (1, 7), (1, -7), (3, -7), (i64::MAX, 0), (1, i32::MAX), (1, i32::MIN)]
        {
            assert_eq!(weight(digits, exponent), None, "{digits} e{exponent}");
        }
    }
}
