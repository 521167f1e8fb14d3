//! Packet rates: so many packets in a window that begins with the first one behind the last window.
//!
//! Spec: TS 29.244 §8.2.63.

use adit_session::Qer;
use adit_types::{Nanos, QerId};

use super::Session;

/// A window's end, and what passed in it.
pub type Window = (Nanos, u64);

/// A window that a packet leaves behind: of a QER's additional rate or of the plain one, and of a
/// direction (true is uplink).
pub type Key = (QerId, bool, bool);

/// Asks the packet rates of some QERs at `now`. Tells whether all let a packet pass, and the windows
/// behind that; those of the first rate that does not otherwise.
pub(super) fn pass(
    session: &Session,
    qers: &[&Qer],
    is_uplink: bool,
    now: Nanos,
) -> (bool, Vec<(Key, Window)>) {
    let mut passed = Vec::new();
    for qer in qers {
        let limits = qer.packet_rate.unwrap_or_default();
        let Some(limit) = (if is_uplink { limits.uplink } else { limits.downlink }) else {
            continue;
        };
        let mut used_up = Vec::new();
        let quotas = [(false, Some(limit.plain)), (true, limit.additional)];
        let mut is_open = false;
        for (is_additional, quota) in quotas {
            let Some(quota) = quota else { continue };
            let key = (qer.id, is_additional, is_uplink);
            let known = session.windows.get(&key).filter(|(until, _)| *until > now);
            let longest = now + quota.unit;
            let (until, count) =
                known.map_or((longest, 0), |(until, count)| (*until.min(&longest), *count));
            if count < u64::from(quota.pkts_max) {
                passed.push((key, (until, count + 1)));
                is_open = true;
                break;
            }
            if known.is_some() {
                used_up.push((key, (until, count)));
            }
        }
        if !is_open {
            return (false, used_up);
        }
    }
    (true, passed)
}

/// The windows that a QER begins with, where an earlier session left some.
pub(super) fn begun(qer: &Qer) -> Vec<(Key, Window)> {
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
            windows.push(((qer.id, is_additional, is_uplink), (status.until, passed)));
        }
    }
    windows
}
