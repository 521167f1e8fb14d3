//! How long the tester or the target did not run on its core, and how many packets that can lose.

use adit_lab_engine::clock::{NS_PER_S, scaled};
use serde::{Deserialize, Serialize};

/// Shorter absences never count: several iterations of the tester's loop, or a timer tick. Unit:
/// ns.
const ABSENCE_NS_MIN: u64 = 50_000;
const ABSENCE_NS_MAX: u64 = 1_000_000;

/// The shortest absence that can lose a packet: a queue of `queue_pkts` holds the packets of a
/// shorter one at `pps`. Clamped to 50 µs … 1 ms. Unit: ns.
#[must_use]
pub(crate) fn absence_ns_min(pps: u64, queue_pkts: u64) -> u64 {
    let until_full = scaled(queue_pkts, NS_PER_S, pps.max(1));
    until_full.clamp(ABSENCE_NS_MIN, ABSENCE_NS_MAX)
}

/// Absences of tester and target during a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Absence {
    /// How often the tester was absent long enough for a queue to overflow.
    pub count: u64,
    /// Total time of these absences. Unit: ns.
    pub tester_ns: u64,
    /// How long the target's threads waited for its core, if the kernel reports it. Unit: ns.
    pub target_ns: Option<u64>,
    /// Upper bound of the packets lost by these absences.
    pub excused: u64,
}

impl Absence {
    /// Absences in a trial at `pps` over queues of `queue_pkts` on both sides.
    #[must_use]
    pub(crate) fn of(
        count: u64,
        tester_ns: u64,
        target_ns: Option<u64>,
        pps: u64,
        queue_pkts: u64,
    ) -> Self {
        let due_in = |ns: u64| scaled(ns, pps, NS_PER_S);
        let on_its_way = count.saturating_mul(2 * queue_pkts).min(due_in(tester_ns));
        // The target's queue holds the packets of a short wait.
        let offered = due_in(target_ns.unwrap_or(0));
        let unserved = if offered > queue_pkts { offered } else { 0 };
        Self { count, tester_ns, target_ns, excused: on_its_way + unserved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_counts_from_where_a_queue_overflows() {
        assert_eq!(absence_ns_min(5_120_000, 1024), 200_000);
        assert_eq!(absence_ns_min(0, 1024), ABSENCE_NS_MAX);
        assert_eq!(absence_ns_min(100_000_000, 1024), ABSENCE_NS_MIN);
    }
}
