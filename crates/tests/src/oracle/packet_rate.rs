//! Packet rates: so many packets in a window that begins with the first one behind the last window.
//!
//! Spec: TS 29.244 §8.2.63.

use adit_rules::PacketQuota;
use adit_session::Qer;
use adit_types::{Nanos, QerId};

use super::OracleSession;

/// A window's end, what passed in it, and the unit of time that it is one of, if that is known.
pub(super) type OracleRateWindow = (Nanos, u64, Option<Nanos>);

/// A window that a packet leaves behind: of a QER's additional rate or of the plain one, and of a
/// direction (true is uplink).
pub(super) type OracleWindowKey = (QerId, bool, bool);

/// Asks the packet rates of some QERs at `now`. The windows that a packet leaves behind, `None` where
/// it may not pass.
pub(super) fn charge(
    session: &OracleSession,
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
        let quotas = [(false, Some(limit.plain)), (true, limit.additional)];
        let window = |(is_additional, quota): (bool, Option<PacketQuota>)| {
            let PacketQuota { pkts_max, unit } = quota?;
            let key = (qer.id, is_additional, is_uplink);
            let (until, count) = match session.windows.get(&key).copied() {
                Some((until, count, of)) if of == Some(unit) => (until, count),
                // Of another rate, or of another session.
                Some((until, count, _)) => {
                    (until.min(session.packet_rates_since[&qer.id] + unit), count)
                }
                None => (now, 0),
            };
            let (until, count) = if until <= now { (now + unit, 0) } else { (until, count) };
            (count < u64::from(pkts_max)).then_some((key, (until, count + 1, Some(unit))))
        };
        passed.push(quotas.into_iter().find_map(window)?);
    }
    Some(passed)
}

/// The windows that a QER begins with, where an earlier session left some.
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
            windows.push(((qer.id, is_additional, is_uplink), (status.until, passed, None)));
        }
    }
    windows
}
