//! Maximum bit rates: a bucket that is ahead of its rate by more than its depth lets nothing pass.
//!
//! Time counts in thirds of a nanosecond, of which an octet takes a whole number at every rate of
//! these tests.
//! Spec: TS 29.244 §5.4.4, §8.2.8, §8.2.115.

use std::collections::BTreeMap;

use adit_session::Qer;
use adit_types::{Nanos, QerId};

use super::OracleSession;

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

/// A bucket that is further ahead than its rate leads to by this much more owes that to another rate
/// where sessions share it. Unit: nanoseconds.
const SHARED_MARGIN_NS: u128 = 1 << 27;

/// A bucket of a session, or one of all sessions whose QERs name a correlation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OracleBucket {
    /// Of the QER alone.
    Own(QerId),
    /// QER Correlation ID. Spec: TS 29.244 §8.2.10.
    Shared(u32),
}

/// By bucket and direction (true is uplink), when all that passed would have passed at the rate.
pub(super) type OracleDue = (OracleBucket, bool, u128);

/// When all that passed the buckets that sessions share would have passed.
pub type OracleSharedDue = BTreeMap<(u32, bool), u128>;

/// Charges a packet of `octets` octets to the buckets of its QERs at `now`. A bucket further ahead than
/// its rate can cause has that debt from another rate, and counts as full. Returns true if the packet
/// passes, and the new state of the buckets.
pub(super) fn charge(
    (session, shared_due): (&OracleSession, &OracleSharedDue),
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
        // Of two QERs with one bucket each is paid, and what the one left is another rate's to the other.
        let before = passed.iter().rev().find(|(known, ..)| *known == bucket);
        let before = before.map(|(.., due)| if *due > most { now + depth } else { *due });
        let due = before.unwrap_or(due).max(now) + octet * u128::from(octets);
        passed.push((bucket, is_uplink, due));
        if bucket != own {
            // Its own goes along.
            passed.push((own, is_uplink, due));
        }
    }
    (true, passed)
}
