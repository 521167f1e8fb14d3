//! Maximum bit rates: a bucket that is ahead of its rate by more than its depth lets nothing pass.
//!
//! Time counts in thirds of a nanosecond, of which an octet takes a whole number at every rate of
//! these tests.
//! Spec: TS 29.244 §5.4.4, §8.2.8, §8.2.115.

use adit_session::Qer;
use adit_types::{Nanos, QerId};

use super::Session;

const PER_NS: u128 = 3;

/// How far ahead a bucket may be without an averaging window. Unit: nanoseconds.
const DEPTH_NS: u64 = 20_000_000;

/// A depth is rounded up to a multiple of this. Unit: nanoseconds.
const DEPTH_UNIT_NS: u128 = 65_536;

/// So many of them a depth has at most.
const DEPTH_UNITS_MAX: u128 = 32_767;

/// Octets that fit every depth.
const LEAST: u128 = 3000;

/// Octets of the longest packet.
const LONGEST: u128 = 65_535;

/// By QER and direction (true is uplink), when all that passed would have passed at the rate.
pub(super) type Due = (QerId, bool, u128);

/// Takes a packet of `octets` octets to the buckets of its QERs at `now`. A bucket that is further
/// ahead than its rate leads to owes that to another rate, and is only full. Tells whether the packet
/// passes, and what becomes of the buckets.
pub(super) fn pass(
    session: &Session,
    qers: &[&Qer],
    is_uplink: bool,
    now: Nanos,
    octets: u64,
) -> (bool, Vec<Due>) {
    let now = u128::from(now.0) * PER_NS;
    let (mut full, mut passed) = (Vec::new(), Vec::new());
    for qer in qers {
        let Some(mbr) = qer.mbr else { continue };
        let rate = if is_uplink { mbr.uplink } else { mbr.downlink };
        let bps = u128::from(rate.as_bps());
        if bps == 0 {
            return (false, full);
        }
        let second = 8 * 1_000_000_000 * PER_NS;
        assert_eq!(second % bps, 0, "{bps} bit/s");
        let octet = second / bps;
        let depth = qer.averaging_window_ms.map_or(DEPTH_NS, |ms| u64::from(ms) * 10_000);
        let depth = u128::from(depth).max(octet * LEAST / PER_NS);
        let units = depth.div_ceil(DEPTH_UNIT_NS).min(DEPTH_UNITS_MAX);
        let depth = units * DEPTH_UNIT_NS * PER_NS;
        let mut due = session.due.get(&(qer.id, is_uplink)).copied().unwrap_or(0);
        if due > now + depth + octet * LONGEST + PER_NS {
            due = now + depth;
            full.push((qer.id, is_uplink, due));
        }
        if due > now + depth {
            return (false, full);
        }
        passed.push((qer.id, is_uplink, due.max(now) + octet * u128::from(octets)));
    }
    (true, passed)
}
