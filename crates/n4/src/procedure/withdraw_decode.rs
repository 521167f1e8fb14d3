//! Members of length zero in updates of rules: the settings that they withdraw. Spec: TS 29.244 §5.6.3.

use adit_pfcp::grouped::{UpdateBar, UpdateFar, UpdatePdr, UpdateQer, UpdateUrr};
use adit_pfcp::ie::Nullable;
use adit_pfcp::{IeType, Withdrawn};
use adit_session::{FarPart, PdrPart, QerPart, UrrPart, Withdrawal};

const PDR: [(IeType, PdrPart); 6] = [
    (IeType::OUTER_HEADER_REMOVAL, PdrPart::OuterHeaderRemoval),
    (IeType::FAR_ID, PdrPart::Far),
    (IeType::URR_ID, PdrPart::Urrs),
    (IeType::QER_ID, PdrPart::Qers),
    (IeType::ACTIVATION_TIME, PdrPart::ActivationTime),
    (IeType::DEACTIVATION_TIME, PdrPart::DeactivationTime),
];

/// A group of parameters without members changes nothing.
const FAR: [(IeType, FarPart); 2] =
    [(IeType::BAR_ID, FarPart::Bar), (IeType::TGPP_INTERFACE_TYPE, FarPart::InterfaceType)];

const QER: [(IeType, QerPart); 9] = [
    (IeType::QER_CORRELATION_ID, QerPart::Correlation),
    (IeType::MBR, QerPart::Mbr),
    (IeType::GBR, QerPart::Gbr),
    (IeType::AVERAGING_WINDOW, QerPart::AveragingWindow),
    (IeType::PACKET_RATE, QerPart::PacketRate),
    (IeType::QER_CONTROL_INDICATIONS, QerPart::ControlIndications),
    (IeType::QFI, QerPart::Qfi),
    (IeType::RQI, QerPart::Rqi),
    (IeType::PAGING_POLICY_INDICATOR, QerPart::Ppi),
];

const URR: [(IeType, UrrPart); 21] = [
    (IeType::MEASUREMENT_PERIOD, UrrPart::Period),
    (IeType::VOLUME_THRESHOLD, UrrPart::VolumeThreshold),
    (IeType::VOLUME_QUOTA, UrrPart::VolumeQuota),
    (IeType::TIME_THRESHOLD, UrrPart::TimeThreshold),
    (IeType::TIME_QUOTA, UrrPart::TimeQuota),
    (IeType::EVENT_THRESHOLD, UrrPart::EventThreshold),
    (IeType::EVENT_QUOTA, UrrPart::EventQuota),
    (IeType::TIME_QUOTA_MECHANISM, UrrPart::TimeMechanism),
    (IeType::NUMBER_OF_REPORTS, UrrPart::NumberOfReports),
    (IeType::QUOTA_HOLDING_TIME, UrrPart::QuotaHoldingTime),
    (IeType::QUOTA_VALIDITY_TIME, UrrPart::QuotaValidityTime),
    (IeType::DROPPED_DL_TRAFFIC_THRESHOLD, UrrPart::DroppedThreshold),
    (IeType::MONITORING_TIME, UrrPart::MonitoringTimes),
    (IeType::ADDITIONAL_MONITORING_TIME, UrrPart::MonitoringTimes),
    (IeType::INACTIVITY_DETECTION_TIME, UrrPart::InactivityDetectionTime),
    (IeType::LINKED_URR_ID, UrrPart::LinkedUrrs),
    (IeType::MEASUREMENT_INFORMATION, UrrPart::Information),
    (IeType::AGGREGATED_URRS, UrrPart::AggregatedUrrs),
    (IeType::SDF_FILTER, UrrPart::Exempted),
    (IeType::APPLICATION_ID, UrrPart::Exempted),
    (IeType::FAR_ID, UrrPart::QuotaFar),
];

/// The parts that `withdrawn` names; IEs without effect have none.
fn parts<P: Copy>(withdrawn: Withdrawn, table: &'static [(IeType, P)]) -> impl Iterator<Item = P> {
    withdrawn
        .iter()
        .filter_map(|ie| table.iter().find(|(known, _)| *known == ie).map(|(_, part)| *part))
}

pub(super) fn of_pdr(group: &UpdatePdr<'_>) -> impl Iterator<Item = Withdrawal> + use<> {
    let id = group.pdr_id;
    parts(group.withdrawn, &PDR).map(move |part| Withdrawal::Pdr(id, part))
}

pub(super) fn of_far(group: &UpdateFar<'_>) -> impl Iterator<Item = Withdrawal> + use<> {
    let id = group.far_id;
    let within = group.update_forwarding_parameters.as_ref();
    let marking = within.and_then(|parts| parts.transport_level_marking);
    let marking = (marking == Some(Nullable::Null)).then_some(FarPart::TransportLevelMarking);
    let within = within.into_iter().flat_map(|group| parts(group.withdrawn, &FAR));
    let all: Vec<FarPart> = parts(group.withdrawn, &FAR).chain(within).chain(marking).collect();
    all.into_iter().map(move |part| Withdrawal::Far(id, part))
}

pub(super) fn of_qer(group: &UpdateQer<'_>) -> impl Iterator<Item = Withdrawal> + use<> {
    let id = group.qer_id;
    parts(group.withdrawn, &QER).map(move |part| Withdrawal::Qer(id, part))
}

pub(super) fn of_urr(group: &UpdateUrr<'_>) -> impl Iterator<Item = Withdrawal> + use<> {
    let id = group.urr_id;
    parts(group.withdrawn, &URR).map(move |part| Withdrawal::Urr(id, part))
}

/// The suggested number of packets; a delay that is taken away is none.
pub(super) fn of_bar(group: &UpdateBar<'_>) -> impl Iterator<Item = Withdrawal> + use<> {
    let counts =
        [IeType::SUGGESTED_BUFFERING_PACKETS_COUNT, IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT];
    let id = group.bar_id;
    let is_named = group.withdrawn.iter().any(|ie| counts.contains(&ie));
    is_named.then_some(Withdrawal::BarCount(id)).into_iter()
}
