//! Latency of a stream: an HDR histogram with three significant digits, and the jitter.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clock::ns_of_ticks;
use super::stamp::TIME_SHIFT;

/// Latencies of packets, in the stamp's unit of time. Recording never allocates.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    previous: Option<u32>,
    /// Sum of the absolute differences between consecutive latencies.
    differences: u64,
}

/// Summary of the latencies of many packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of packets.
    pub count: u64,
    /// Shortest.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Mean difference between the latencies of successive packets (RFC 3550, without smoothing).
    pub jitter_ns: u64,
}

/// A point of the percentile curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Percentile, 0 to 100.
    pub percentile: f64,
    /// Latency that this share of the packets did not exceed.
    pub latency_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Makes an empty histogram with all the memory that it will need.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, u64::from(u32::MAX), 3)
            .unwrap_or_else(|_| unreachable!("bounds and digits are valid"));
        Self { histogram, previous: None, differences: 0 }
    }

    /// Adds one latency in units of the stamp.
    #[inline]
    pub fn record(&mut self, units: u32) {
        self.histogram.saturating_record(u64::from(units));
        if let Some(previous) = self.previous.replace(units) {
            self.differences += u64::from(previous.abs_diff(units));
        }
    }

    /// Adds the latencies of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.histogram.add(&other.histogram).is_err() {
            unreachable!("both have the same bounds")
        }
        self.differences += other.differences;
    }

    /// Returns the summary, for a clock with frequency `hz`.
    #[must_use]
    pub fn summary(&self, hz: u64) -> LatencySummary {
        let count = self.histogram.len();
        if count == 0 {
            return LatencySummary::default();
        }
        let ns = |units: u64| ns_of_ticks(units << TIME_SHIFT, hz);
        let at = |percentile| ns(self.histogram.value_at_percentile(percentile));
        let total: u128 = self
            .histogram
            .iter_recorded()
            .map(|point| u128::from(point.value_iterated_to()) * u128::from(point.count_at_value()))
            .sum();
        let mean = u64::try_from(total / u128::from(count)).unwrap_or(u64::MAX);
        LatencySummary {
            count,
            min_ns: ns(self.histogram.min()),
            mean_ns: ns(mean),
            p50_ns: at(50.0),
            p90_ns: at(90.0),
            p99_ns: at(99.0),
            p99_9_ns: at(99.9),
            p99_99_ns: at(99.99),
            max_ns: ns(self.histogram.max()),
            jitter_ns: ns(self.differences / count),
        }
    }

    /// Returns the percentile curve for plots, with finer steps towards 100.
    #[must_use]
    pub fn curve(&self, hz: u64) -> Vec<CurvePoint> {
        self.histogram
            .iter_quantiles(2)
            .map(|point| CurvePoint {
                percentile: point.quantile_iterated_to() * 100.0,
                latency_ns: ns_of_ticks(point.value_iterated_to() << TIME_SHIFT, hz),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_a_known_distribution_is_right_within_a_thousandth() {
        let mut latency = Latency::new();
        for units in 1..=10_000u32 {
            latency.record(units);
        }
        // One unit is 4 ticks: 4 ns at 1 GHz.
        let summary = latency.summary(1_000_000_000);
        let close = |value: u64, wanted: u64| value.abs_diff(wanted) <= wanted / 500 + 4;
        assert_eq!(summary.count, 10_000);
        assert_eq!(summary.min_ns, 4);
        assert!(close(summary.p50_ns, 20_000), "{summary:?}");
        assert!(close(summary.p99_ns, 39_600), "{summary:?}");
        assert!(close(summary.p99_99_ns, 39_996), "{summary:?}");
        assert!(close(summary.max_ns, 40_000), "{summary:?}");
        assert!(close(summary.mean_ns, 20_002), "{summary:?}");
        assert_eq!(summary.jitter_ns, 0, "0.9999 units round down");
    }

    #[test]
    fn parts_merge_into_the_whole() {
        let (mut whole, mut odd, mut even) = (Latency::new(), Latency::new(), Latency::new());
        for units in 1..1000u32 {
            whole.record(units * 37);
            if units % 2 == 0 { even.record(units * 37) } else { odd.record(units * 37) }
        }
        odd.merge(&even);
        let (whole, merged) = (whole.summary(1_000_000), odd.summary(1_000_000));
        assert_eq!((whole.p99_ns, whole.max_ns), (merged.p99_ns, merged.max_ns));
        assert_eq!(Latency::new().summary(1), LatencySummary::default());
    }
}
