//! Converts packet rates of QERs between IEs and session records.
//!
//! Spec: TS 29.244 §8.2.63, §8.2.139, §8.2.174.

use adit_pfcp::grouped::PacketRateStatusReport;
use adit_pfcp::ie::{self, QerControlIndications};
use adit_pfcp::{Cause, IeType};
use adit_rules::{PacketLimit, PacketQuota, PacketsLeft};
use adit_session::{PacketAllowance, PacketLimits, PacketStatus, QerPacketRate};
use adit_types::Nanos;

use super::decode::RequestTime;
use crate::ntp::NtpClock;
use crate::refusal::Rejected;

/// Decodes the packet rates of both directions. Spec: TS 29.244 §8.2.63.
pub(super) fn limits(ie: ie::PacketRate) -> Result<PacketLimits, Rejected> {
    let limit = |plain: Option<_>, additional: Option<_>| {
        plain.map(|plain| PacketLimit { plain: quota(plain), additional: additional.map(quota) })
    };
    let limits = PacketLimits {
        uplink: limit(ie.uplink, ie.additional_uplink),
        downlink: limit(ie.downlink, ie.additional_downlink),
    };
    match limits == PacketLimits::default() {
        true => Err(Rejected::with_ie(Cause::MandatoryIeIncorrect, IeType::PACKET_RATE)),
        false => Ok(limits),
    }
}

fn quota(limit: ie::PacketRateLimit) -> PacketQuota {
    const MINUTE: u64 = 60;
    let seconds = match limit.time_unit {
        1 => 6 * MINUTE,
        2 => 60 * MINUTE,
        3 => 24 * 60 * MINUTE,
        4 => 7 * 24 * 60 * MINUTE,
        // Units that later releases define are read as 0.
        _ => MINUTE,
    };
    PacketQuota { pkts_max: limit.packets_max, unit: Nanos::from_secs(seconds) }
}

/// Decodes the status that an earlier session left. Spec: TS 29.244 §8.2.139.
pub(super) fn status(
    ie: ie::PacketRateStatus,
    RequestTime { now, ntp_clock }: RequestTime,
) -> PacketStatus {
    let remaining = |left: ie::RemainingPackets| PacketAllowance {
        packets: left.packets,
        additional: left.additional,
    };
    PacketStatus {
        uplink: ie.uplink.map(remaining),
        downlink: ie.downlink.map(remaining),
        until: ntp_clock.instant_of_time_stamp(now, ie.validity_time),
    }
}

/// Returns whether the status is to be reported when the session ends. Spec: TS 29.244 §8.2.174.
pub(super) fn is_reported_at_end(indications: QerControlIndications) -> Result<bool, Rejected> {
    const REFUSED: QerControlIndications =
        QerControlIndications::MOED.union(QerControlIndications::NORD);
    match indications.intersects(REFUSED) {
        true => Err(Rejected::unsupported(IeType::QER_CONTROL_INDICATIONS)),
        false => Ok(indications.contains(QerControlIndications::RCSR)),
    }
}

/// Encodes what is left of a QER's packet rates at `now`. The IE has one validity time: the later
/// one of both directions, so that neither direction passes more than its rate. Spec: TS 29.244
/// §7.5.5.4, §7.5.7.1.
pub(crate) fn status_report(
    rate: &QerPacketRate,
    now: Nanos,
    ntp_clock: NtpClock,
) -> PacketRateStatusReport<'static> {
    let both = rate.left(now);
    let until = both.iter().flatten().map(|left| left.until).max().unwrap_or(now);
    let has_additional = both.iter().flatten().any(|left| left.additional.is_some());
    let [uplink, downlink] = both.map(|left| {
        let PacketsLeft { packets, additional, .. } = left?;
        // The additional packets are present for both directions, or for none.
        let additional = has_additional.then(|| additional.unwrap_or(0));
        Some(ie::RemainingPackets { packets, additional })
    });
    let status =
        ie::PacketRateStatus { uplink, downlink, validity_time: ntp_clock.time_stamp(until) };
    PacketRateStatusReport::new(rate.qer, status)
}
