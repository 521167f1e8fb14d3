//! Packet rates: so many packets per window. A window begins with the first packet after the last
//! one.
//!
//! Spec: TS 29.244 §8.2.63.

use std::collections::BTreeMap;

use adit_rules::PacketQuota;
use adit_session::Qer;
use adit_types::{Nanos, QerId};

/// The window of a packet rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleRateWindow {
    /// When it ends.
    pub until: Nanos,
    /// Packets that passed in it.
    pub passed: u64,
    /// Its length, if it is known.
    pub unit: Option<Nanos>,
}

/// The rate that a window belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OracleWindowKey {
    /// The QER.
    pub qer: QerId,
    /// Its additional rate, not the plain one.
    pub is_additional: bool,
    /// The rate of uplink packets.
    pub is_uplink: bool,
}

/// The windows of packet rates.
pub type OracleRateWindows = BTreeMap<OracleWindowKey, OracleRateWindow>;

/// Charges a packet to the packet rates of `qers` at `now`. Returns the new state of each window
/// that counts it, or `None` if it must not pass. `since`: when QERs got their packet rates.
pub(super) fn charge(
    windows: &OracleRateWindows,
    since: &BTreeMap<QerId, Nanos>,
    qers: &[&Qer],
    is_uplink: bool,
    now: Nanos,
) -> Option<Vec<(OracleWindowKey, OracleRateWindow)>> {
    let mut passed = Vec::new();
    for qer in qers {
        let limits = qer.packet_rate.unwrap_or_default();
        let Some(limit) = (if is_uplink { limits.uplink } else { limits.downlink }) else {
            continue;
        };
        let charged = |is_additional: bool, PacketQuota { pkts_max, unit }: PacketQuota| {
            let key = OracleWindowKey { qer: qer.id, is_additional, is_uplink };
            let (until, count) = match windows.get(&key) {
                Some(window) if window.unit == Some(unit) => (window.until, window.passed),
                // A window of another rate, or of another session.
                Some(window) => (window.until.min(since[&qer.id] + unit), window.passed),
                None => (now, 0),
            };
            let (until, count) = if until <= now { (now + unit, 0) } else { (until, count) };
            let window = OracleRateWindow { until, passed: count + 1, unit: Some(unit) };
            (count < u64::from(pkts_max)).then_some((key, window))
        };
        let plain = charged(false, limit.plain);
        passed.push(plain.or_else(|| charged(true, limit.additional?))?);
    }
    Some(passed)
}

/// The windows that a QER begins with if an earlier session left some.
pub(super) fn begun(qer: &Qer) -> Vec<(OracleWindowKey, OracleRateWindow)> {
    let mut windows = Vec::new();
    let limits = qer.packet_rate.unwrap_or_default();
    let Some(status) = qer.packet_status else { return windows };
    let both = [(true, limits.uplink, status.uplink), (false, limits.downlink, status.downlink)];
    for (is_uplink, limit, left) in both {
        let (Some(limit), Some(left)) = (limit, left) else { continue };
        let quotas = [
            (false, Some(limit.plain), left.packets),
            (true, limit.additional, left.additional.unwrap_or(u16::MAX)),
        ];
        for (is_additional, quota, left) in quotas {
            let Some(quota) = quota else { continue };
            let passed = u64::from(quota.pkts_max.saturating_sub(left));
            let key = OracleWindowKey { qer: qer.id, is_additional, is_uplink };
            windows.push((key, OracleRateWindow { until: status.until, passed, unit: None }));
        }
    }
    windows
}
