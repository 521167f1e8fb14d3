//! How long the tester or the target did not run on its core, and how many packets that can lose.

use adit_lab_engine::clock::{NS_PER_S, scaled};
use serde::{Deserialize, Serialize};

/// Gaps below this never count as absences: they are a few iterations of the tester's loop, or a
/// timer tick. Unit: ns.
const ABSENCE_NS_MIN: u64 = 50_000;
const ABSENCE_NS_MAX: u64 = 1_000_000;

/// Returns the shortest absence that can lose a packet: during a shorter one, a queue of
/// `queue_pkts` holds all packets that arrive at `pps`. Clamped to 50 µs … 1 ms. Unit: ns.
#[must_use]
pub(crate) fn absence_ns_min(pps: u64, queue_pkts: u64) -> u64 {
    let until_full = scaled(queue_pkts, NS_PER_S, pps.max(1));
    until_full.clamp(ABSENCE_NS_MIN, ABSENCE_NS_MAX)
}

/// How long tester and target were off their cores during a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CoreAbsence {
    /// How often the tester was absent long enough for a queue to overflow.
    pub count: u64,
    /// Total duration of the absences that `count` counts. Unit: ns.
    pub tester_ns: u64,
    /// How long the target's threads waited for a core; `None` if unknown. Unit: ns.
    pub target_ns: Option<u64>,
    /// Upper bound of the packets lost by these absences.
    pub excused: u64,
}

impl CoreAbsence {
    /// Computes the absences in a trial at `pps`, with queues of `queue_pkts` on either side.
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
        // The target's queue holds the packets that arrive during a short wait.
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
