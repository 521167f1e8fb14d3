//! Gaps by cause and length.

use serde::{Deserialize, Serialize};

/// The cause of a gap, during which the sampler's thread did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapCause {
    /// The kernel switched to another thread.
    OtherThreads,
    /// The kernel did not switch threads: the cause is an interrupt, a softirq, firmware, or the
    /// hypervisor.
    InterruptsOrHypervisor,
}

/// Lower bounds of the histogram's buckets. Unit: ns.
pub(crate) const BUCKET_BOUNDS_NS: [u64; 20] = [
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// Number, sum and maximum of gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapTotals {
    /// Number of gaps.
    pub count: u64,
    /// Sum of all gaps. Unit: ns.
    pub total_ns: u64,
    /// The longest gap. Unit: ns.
    pub max_ns: u64,
}

impl GapTotals {
    fn add(&mut self, gap_ns: u64) {
        self.count += 1;
        self.total_ns += gap_ns;
        self.max_ns = self.max_ns.max(gap_ns);
    }
}

/// The gaps of one cause.
#[derive(Debug, Clone, Default)]
pub(crate) struct GapHistogram {
    /// Totals of all gaps.
    pub totals: GapTotals,
    /// Number of gaps in each bucket, from its bound to the next.
    pub counts: [u64; BUCKET_BOUNDS_NS.len()],
}

impl GapHistogram {
    /// Counts a gap. A gap below the first bound is counted in the first bucket.
    pub(crate) fn add(&mut self, gap_ns: u64) {
        self.totals.add(gap_ns);
        let above = BUCKET_BOUNDS_NS.partition_point(|bound| *bound <= gap_ns);
        if let Some(count) = self.counts.get_mut(above.saturating_sub(1)) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_counts_from_its_bound_to_the_next() {
        let mut gaps = GapHistogram::default();
        for gap_ns in [400, 500, 999, 1_000, 4_999, 5_000, 7_000_000_000] {
            gaps.add(gap_ns);
        }
        assert_eq!(gaps.counts[..4], [3, 1, 1, 1]);
        assert_eq!(gaps.counts[19], 1);
        let totals = GapTotals { count: 7, total_ns: 7_000_012_898, max_ns: 7_000_000_000 };
        assert_eq!(gaps.totals, totals);
    }
}
