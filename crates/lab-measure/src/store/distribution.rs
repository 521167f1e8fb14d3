//! Latencies of the operations of one run.

use hdrhistogram::Histogram;

use crate::quantity::{Quantity, lower};
use adit_lab_engine::histogram::CurvePoint;

/// Longest latency that is distinguished from longer ones. Unit: ns.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Number of parts of a run; the timeline has the slowest and the fastest operation of each part.
const TIMELINE_PARTS: usize = 500;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationTime {
    /// Start, or intended start, relative to the start of the run. Unit: ns.
    pub start_ns: u64,
    /// Time until the reply. Unit: ns.
    pub latency_ns: u64,
}

/// Latencies as they are measured. Recording allocates nothing up to the capacity.
#[derive(Debug)]
pub(crate) struct OperationTimes {
    histogram: Histogram<u64>,
    times: Vec<OperationTime>,
}

impl OperationTimes {
    /// Makes an empty list with memory for `operations` operations.
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

    /// Returns the number of operations so far.
    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    /// Returns all operations, in the order of their replies.
    pub(crate) fn all(&self) -> &[OperationTime] {
        &self.times
    }

    /// Returns the figures, in ns. Percentiles have three significant digits; the others are exact.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a few seconds at most"
    )]
    pub(crate) fn figures(&self) -> [(Quantity<'static>, u64); 10] {
        let values = || self.times.iter().map(|time| time.latency_ns);
        // Exact below 2^53.
        let count = self.times.len().max(1) as f64;
        let mean = values().map(|ns| ns as f64).sum::<f64>() / count;
        let squares = values().map(|ns| (ns as f64 - mean).powi(2)).sum::<f64>();
        let max_ns = values().max().unwrap_or(0);
        let at = |percentile| self.histogram.value_at_percentile(percentile).min(max_ns);
        [
            (lower("min", "ns"), values().min().unwrap_or(0)),
            (lower("mean", "ns"), mean.round() as u64),
            (lower("stdev", "ns"), (squares / count).sqrt().round() as u64),
            (lower("p50", "ns").plotted(), at(50.0)),
            (lower("p90", "ns"), at(90.0)),
            (lower("p95", "ns").plotted(), at(95.0)),
            (lower("p99", "ns").plotted(), at(99.0)),
            (lower("p99.9", "ns").plotted(), at(99.9)),
            (lower("p99.99", "ns"), at(99.99)),
            (lower("max", "ns"), max_ns),
        ]
    }

    /// Returns the distribution function for plots, with finer steps towards 100 %.
    pub(crate) fn curve(&self) -> Vec<CurvePoint> {
        let points = self.histogram.iter_quantiles(4);
        points
            .map(|point| CurvePoint {
                percentile: point.quantile_iterated_to() * 100.0,
                latency_ns: point.value_iterated_to(),
            })
            .collect()
    }

    /// Returns start and latency of the slowest and the fastest operation of each part of the run.
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
    fn figures_of_a_known_distribution_are_right() {
        let figures = times((1..=10_000).map(|step| step * 100)).figures();
        let wanted = [
            100, 500_050, 288_675, 500_000, 900_000, 950_000, 990_000, 999_000, 999_900, 1_000_000,
        ];
        for ((quantity, value), wanted) in figures.into_iter().zip(wanted) {
            assert!(value.abs_diff(wanted) <= wanted / 500, "{}: {value}", quantity.name);
        }
        assert_eq!((figures[0].1, figures[1].1, figures[9].1), (100, 500_050, 1_000_000));
        assert!(times(std::iter::empty()).figures().iter().all(|(_, value)| *value == 0));
    }

    #[test]
    fn timeline_keeps_the_slowest_operations() {
        let latency = |at: u64| if at == 77_777 { 9_000_000 } else { 1000 + at % 7 };
        let timeline = times((0..100_000).map(latency)).timeline();
        assert!(timeline.contains(&[77_777_000, 9_000_000]));
        assert!(timeline.len() <= 2 * TIMELINE_PARTS && timeline.is_sorted());
    }
}
