//! Latencies of the operations of one run.

use hdrhistogram::Histogram;

use crate::quantity::{Quantity, lower};
use adit_lab_engine::histogram::CurvePoint;

/// Longest latency that is distinguished from longer ones. Unit: ns.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Parts of a run whose slowest and fastest operations the timeline has.
const TIMELINE_PARTS: usize = 500;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationTime {
    /// Start, or intended start, since that of the run. Unit: ns.
    pub start_ns: u64,
    /// Until its reply. Unit: ns.
    pub latency_ns: u64,
}

/// Latencies as they are measured. Recording allocates nothing up to the capacity.
#[derive(Debug)]
pub(crate) struct OperationTimes {
    histogram: Histogram<u64>,
    times: Vec<OperationTime>,
}

/// The latencies of one run. Unit: ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoreLatency {
    /// Operations.
    pub count: u64,
    /// Shortest.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Standard deviation.
    pub stdev_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

impl StoreLatency {
    /// Its figures.
    pub(super) fn figures(&self) -> [(Quantity<'static>, u64); 10] {
        [
            (lower("min", "ns"), self.min_ns),
            (lower("mean", "ns"), self.mean_ns),
            (lower("stdev", "ns"), self.stdev_ns),
            (lower("p50", "ns").plotted(), self.p50_ns),
            (lower("p90", "ns"), self.p90_ns),
            (lower("p95", "ns").plotted(), self.p95_ns),
            (lower("p99", "ns").plotted(), self.p99_ns),
            (lower("p99.9", "ns").plotted(), self.p99_9_ns),
            (lower("p99.99", "ns"), self.p99_99_ns),
            (lower("max", "ns"), self.max_ns),
        ]
    }
}

impl OperationTimes {
    /// Empty, with memory for `operations`.
    pub(crate) fn new(operations: usize) -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .unwrap_or_else(|_| unreachable!("bounds and digits are valid"));
        Self { histogram, times: Vec::with_capacity(operations) }
    }

    /// Adds an operation.
    pub(crate) fn record(&mut self, time: OperationTime) {
        self.histogram.saturating_record(time.latency_ns);
        self.times.push(time);
    }

    /// Operations so far.
    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    /// All of them, in the order of their replies.
    pub(crate) fn all(&self) -> &[OperationTime] {
        &self.times
    }

    /// The summary. Percentiles have three significant digits; the others are exact.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a few seconds at most"
    )]
    pub(crate) fn summary(&self) -> StoreLatency {
        let values = || self.times.iter().map(|time| time.latency_ns);
        let count = self.times.len();
        if count == 0 {
            return StoreLatency::default();
        }
        // Exact below 2^53.
        let mean = values().map(|ns| ns as f64).sum::<f64>() / count as f64;
        let squares = values().map(|ns| (ns as f64 - mean).powi(2)).sum::<f64>();
        let at = |percentile| self.histogram.value_at_percentile(percentile);
        let max_ns = values().max().unwrap_or(0);
        StoreLatency {
            count: u64::try_from(count).unwrap_or(u64::MAX),
            min_ns: values().min().unwrap_or(0),
            mean_ns: mean.round() as u64,
            stdev_ns: (squares / count as f64).sqrt().round() as u64,
            p50_ns: at(50.0).min(max_ns),
            p90_ns: at(90.0).min(max_ns),
            p95_ns: at(95.0).min(max_ns),
            p99_ns: at(99.0).min(max_ns),
            p99_9_ns: at(99.9).min(max_ns),
            p99_99_ns: at(99.99).min(max_ns),
            max_ns,
        }
    }

    /// The distribution function for plots, with finer steps towards 100 %.
    pub(crate) fn curve(&self) -> Vec<CurvePoint> {
        let points = self.histogram.iter_quantiles(4);
        points
            .map(|point| CurvePoint {
                percentile: point.quantile_iterated_to() * 100.0,
                latency_ns: point.value_iterated_to(),
            })
            .collect()
    }

    /// Start and latency of the slowest and the fastest operation of each part of the run.
    pub(crate) fn timeline(&self) -> Vec<[u64; 2]> {
        let part = self.times.len().div_ceil(TIMELINE_PARTS).max(1);
        let mut points: Vec<[u64; 2]> = Vec::new();
        for part in self.times.chunks(part) {
            let by_latency = |time: &&OperationTime| time.latency_ns;
            let (slow, fast) =
                (part.iter().max_by_key(by_latency), part.iter().min_by_key(by_latency));
            let both = slow.into_iter().chain(fast);
            points.extend(both.map(|time| [time.start_ns, time.latency_ns]));
        }
        points.sort_unstable();
        points.dedup();
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(latencies: impl Iterator<Item = u64>) -> OperationTimes {
        let mut times = OperationTimes::new(10);
        for (start, latency_ns) in (0..).zip(latencies) {
            times.record(OperationTime { start_ns: start * 1000, latency_ns });
        }
        times
    }

    #[test]
    fn summary_of_a_known_distribution_is_right() {
        let summary = times((1..=10_000).map(|step| step * 100)).summary();
        let close = |value: u64, wanted: u64| value.abs_diff(wanted) <= wanted / 500;
        assert_eq!((summary.count, summary.min_ns, summary.max_ns), (10_000, 100, 1_000_000));
        assert_eq!(summary.mean_ns, 500_050);
        assert!(close(summary.stdev_ns, 288_675), "{summary:?}");
        assert!(close(summary.p50_ns, 500_000) && close(summary.p95_ns, 950_000), "{summary:?}");
        assert!(close(summary.p99_9_ns, 999_000) && close(summary.p99_99_ns, 999_900));
        assert_eq!(times(std::iter::empty()).summary(), StoreLatency::default());
    }

    #[test]
    fn timeline_keeps_the_slowest_operations() {
        let latency = |at: u64| if at == 77_777 { 9_000_000 } else { 1000 + at % 7 };
        let timeline = times((0..100_000).map(latency)).timeline();
        assert!(timeline.contains(&[77_777_000, 9_000_000]));
        assert!(timeline.len() <= 2 * TIMELINE_PARTS && timeline.is_sorted());
    }
}
