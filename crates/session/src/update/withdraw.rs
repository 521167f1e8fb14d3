//! Takes parts of rules away that an update names with length zero. Spec: TS 29.244 §5.6.3.

use super::draft::{Draft, find};
use crate::change::{FarPart, PdrPart, QerPart, UrrPart, Withdrawal};
use crate::record::{Far, Pdr, Qer, UrrSettings};
use crate::refusal::Refusal;

/// Applies `withdrawals`. Later checks refuse a rule that lacks a required part.
pub(super) fn withdraw(draft: &mut Draft, withdrawals: &[Withdrawal]) -> Result<(), Refusal> {
    let Draft { records, usage, .. } = draft;
    for &withdrawal in withdrawals {
        match withdrawal {
            Withdrawal::Pdr(id, part) => from_pdr(find(&mut records.pdrs, id)?, part),
            Withdrawal::Far(id, part) => from_far(find(&mut records.fars, id)?, part),
            Withdrawal::Qer(id, part) => from_qer(find(&mut records.qers, id)?, part),
            Withdrawal::Urr(id, part) => {
                from_urr(&mut find(&mut records.urrs, id)?.settings, part);
                usage.withdrawn.push((id, part));
            }
            Withdrawal::BarCount(id) => find(&mut records.bars, id)?.suggested_pkts = None,
        }
    }
    Ok(())
}

fn from_pdr(pdr: &mut Pdr, part: PdrPart) {
    match part {
        PdrPart::OuterHeaderRemoval => {
            pdr.outer_header_removal = None;
            pdr.container_deletion = false;
        }
        PdrPart::Far => pdr.far = None,
        PdrPart::Urrs => pdr.urrs.clear(),
        PdrPart::Qers => pdr.qers.clear(),
        PdrPart::ActivationTime => pdr.times.activation = None,
        PdrPart::DeactivationTime => pdr.times.deactivation = None,
    }
}

fn from_far(far: &mut Far, part: FarPart) {
    match part {
        FarPart::Bar => far.bar = None,
        FarPart::InterfaceType => {
            far.forwarding.iter_mut().for_each(|parts| parts.interface_type = None);
        }
        FarPart::TransportLevelMarking => {
            far.forwarding.iter_mut().for_each(|parts| parts.transport_level_marking = None);
        }
    }
}

fn from_qer(qer: &mut Qer, part: QerPart) {
    match part {
        QerPart::Correlation => qer.correlation = None,
        QerPart::Mbr => qer.mbr = None,
        QerPart::Gbr => qer.gbr = None,
        QerPart::AveragingWindow => qer.averaging_window_ms = None,
        QerPart::PacketRate => {
            qer.packet_rate = None;
            qer.packet_status = None;
        }
        QerPart::ControlIndications => qer.reports_packets = false,
        QerPart::Qfi => qer.qfi = None,
        QerPart::Rqi => qer.rqi = false,
        QerPart::Ppi => qer.ppi = None,
    }
}

fn from_urr(settings: &mut UrrSettings, part: UrrPart) {
    match part {
        UrrPart::Period => settings.period = None,
        UrrPart::VolumeThreshold => settings.volume_threshold = None,
        UrrPart::VolumeQuota => settings.volume_quota = None,
        UrrPart::TimeThreshold => settings.time_threshold = None,
        UrrPart::TimeQuota => settings.time_quota = None,
        UrrPart::EventThreshold => settings.event_threshold = None,
        UrrPart::EventQuota => settings.event_quota = None,
        UrrPart::TimeMechanism => settings.time_mechanism = None,
        UrrPart::NumberOfReports => settings.reports_max = None,
        UrrPart::QuotaHoldingTime => settings.quota_holding_time = None,
        UrrPart::QuotaValidityTime => settings.quota_validity_time = None,
        UrrPart::DroppedThreshold => settings.dropped_threshold = None,
        UrrPart::MonitoringTimes => settings.monitoring.clear(),
        UrrPart::InactivityDetectionTime => settings.inactivity_detection_time = None,
        UrrPart::LinkedUrrs => settings.linked = None,
        UrrPart::Information => settings.information = None,
        UrrPart::AggregatedUrrs => settings.aggregated = None,
        UrrPart::Exempted => settings.exempted = None,
        UrrPart::QuotaFar => settings.quota_far = None,
    }
}
