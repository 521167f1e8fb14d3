//! A histogram of durations, with fixed bounds.

use adit_types::Nanos;

/// Upper bounds of all buckets but the last, ascending: from a change that workers observe at once
/// to a store that hangs.
pub const DURATION_BOUNDS: [Nanos; 16] = [
    Nanos::from_micros(50),
    Nanos::from_micros(100),
    Nanos::from_micros(250),
    Nanos::from_micros(500),
    Nanos::from_micros(1_000),
    Nanos::from_micros(2_500),
    Nanos::from_millis(5),
    Nanos::from_millis(10),
    Nanos::from_millis(25),
    Nanos::from_millis(50),
    Nanos::from_millis(100),
    Nanos::from_millis(250),
    Nanos::from_millis(500),
    Nanos::from_millis(1_000),
    Nanos::from_millis(2_500),
    Nanos::from_millis(5_000),
];

/// How many durations fell into each bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    buckets: [u64; DURATION_BOUNDS.len() + 1],
    sum: Nanos,
}

impl DurationHistogram {
    /// Adds a duration `count` times.
    pub fn add(&mut self, duration: Nanos, count: u64) {
        let bucket = DURATION_BOUNDS.partition_point(|bound| *bound < duration);
        self.buckets[bucket] += count;
        self.sum = Nanos(self.sum.0.saturating_add(duration.0.saturating_mul(count)));
    }

    /// Returns how many durations were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of all durations.
    #[must_use]
    pub const fn sum(&self) -> Nanos {
        self.sum
    }

    /// Returns the upper bound of each bucket, `None` for the last, and the count of the bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Nanos>, u64)> {
        let bounds = DURATION_BOUNDS.into_iter().map(Some).chain([None]);
        bounds.zip(self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = DurationHistogram::default();
        histogram.add(Nanos(0), 1);
        histogram.add(Nanos::from_micros(50), 2);
        histogram.add(Nanos(50_001), 1);
        histogram.add(Nanos::from_secs(60), 3);
        let filled: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        let bound = |us| Some(Nanos::from_micros(us));
        assert_eq!(filled, [(bound(50), 3), (bound(100), 1), (None, 3)]);
        assert_eq!(histogram.count(), 7);
        assert_eq!(histogram.sum(), Nanos(180_000_150_001));
    }

    #[test]
    fn bounds_ascend() {
        assert!(DURATION_BOUNDS.is_sorted());
    }
}
