//! Maximum bit rates: no packet passes a bucket that is ahead of its rate by more than its depth.
//!
//! The unit of time is a third of a nanosecond: at every rate of these tests an octet takes a whole
//! number of them.
//! Spec: TS 29.244 §5.4.4, §8.2.8, §8.2.115.

use std::collections::BTreeMap;

use adit_session::Qer;
use adit_types::{Nanos, QerId};

use super::OracleSession;

const PER_NS: u128 = 3;

/// Depth of a bucket without an averaging window. Unit: nanoseconds.
const DEPTH_NS: u64 = 20_000_000;

/// Depths are multiples of this, rounded up. Unit: nanoseconds.
const DEPTH_UNIT_NS: u128 = 65_536;

/// The deepest bucket. Unit: [`DEPTH_UNIT_NS`].
const DEPTH_UNITS_MAX: u128 = 32_767;

/// Every bucket holds as much. Unit: octets.
const LEAST: u128 = 3000;

/// Octets of the longest packet.
const LONGEST: u128 = 65_535;

/// A shared bucket whose debt exceeds the debt that its rate can cause by more than this has it
/// from another rate. Unit: nanoseconds.
const SHARED_MARGIN_NS: u128 = 1 << 27;

/// A bucket of a session, or one of all sessions whose QERs name a correlation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OracleBucket {
    /// A rate of the QER alone.
    Own(QerId),
    /// QER Correlation ID. Spec: TS 29.244 §8.2.10.
    Shared(u32),
}

/// Bucket, direction (true is uplink) and due time: when all that passed would have passed at the
/// rate.
pub(super) type OracleDue = (OracleBucket, bool, u128);

/// Due times of the buckets that sessions share.
pub type OracleSharedDue = BTreeMap<(u32, bool), u128>;

/// Charges a packet of `octets` octets to the buckets of its QERs at `now`. Returns true if the
/// packet passes, and the new state of the buckets. A debt beyond the one that the rate can cause
/// dates from another rate: such a bucket counts as full.
pub(super) fn charge(
    session: &OracleSession,
    shared_due: &OracleSharedDue,
    qers: &[&Qer],
    is_uplink: bool,
    now: Nanos,
    octets: u64,
) -> (bool, Vec<OracleDue>) {
    let now = u128::from(now.0) * PER_NS;
    let (mut full, mut passed) = (Vec::new(), Vec::<OracleDue>::new());
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
        let own = OracleBucket::Own(qer.id);
        let (bucket, due, margin) = match qer.correlation {
            None => (own, session.due.get(&(qer.id, is_uplink)), 1),
            Some(id) => {
                (OracleBucket::Shared(id), shared_due.get(&(id, is_uplink)), SHARED_MARGIN_NS)
            }
        };
        let (mut due, margin) = (due.copied().unwrap_or(0), margin * PER_NS);
        let most = now + depth + octet * LONGEST + margin;
        if due > most {
            due = now + depth;
            if bucket == own {
                full.push((own, is_uplink, due));
            }
        }
        if due > now + depth {
            return (false, full);
        }
        // Two QERs with one bucket both charge it; the second sees the debt of the first as another
        // rate's.
        let before = passed.iter().rev().find(|(known, ..)| *known == bucket);
        let before = before.map(|(.., due)| if *due > most { now + depth } else { *due });
        let due = before.unwrap_or(due).max(now) + octet * u128::from(octets);
        passed.push((bucket, is_uplink, due));
        if bucket != own {
            // The own bucket follows the shared one.
            passed.push((own, is_uplink, due));
        }
    }
    (true, passed)
}
