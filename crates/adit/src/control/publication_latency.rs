//! Measures how long changes take from the control thread's tables to all workers.

use std::collections::VecDeque;

use adit_n4::DurationHistogram;
use adit_types::Nanos;

/// Changes that were applied together, and when.
#[derive(Debug)]
struct AppliedChanges {
    at: Nanos,
    count: usize,
}

/// Measures each change from its application until all workers observe it. Changes are observed in
/// the order in which they are applied, so it suffices to count them.
#[derive(Debug, Default)]
pub(crate) struct PublicationLatency {
    under_way: VecDeque<AppliedChanges>,
    durations: DurationHistogram,
}

impl PublicationLatency {
    /// Notes that `count` changes were applied at `at`.
    pub(crate) fn apply(&mut self, at: Nanos, count: usize) {
        if count > 0 {
            self.under_way.push_back(AppliedChanges { at, count });
        }
    }

    /// Notes that the oldest `count` changes are in effect at `now`.
    pub(crate) fn conclude(&mut self, now: Nanos, mut count: usize) {
        while let Some(oldest) = self.under_way.front_mut().filter(|_| count > 0) {
            let concluded = oldest.count.min(count);
            let number = u64::try_from(concluded).unwrap_or(u64::MAX);
            self.durations.add(now.since(oldest.at), number);
            oldest.count -= concluded;
            count -= concluded;
            if oldest.count == 0 {
                self.under_way.pop_front();
            }
        }
    }

    /// Returns the times from the change of the tables to the iteration that saw it in effect.
    pub(crate) const fn durations(&self) -> &DurationHistogram {
        &self.durations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_measured_from_their_own_start() {
        let mut latency = PublicationLatency::default();
        latency.apply(Nanos::from_millis(0), 2);
        latency.apply(Nanos::from_millis(1), 1);
        latency.apply(Nanos::from_millis(1), 0);
        latency.conclude(Nanos::from_millis(2), 1);
        assert_eq!(latency.durations().sum(), Nanos::from_millis(2));
        latency.conclude(Nanos::from_millis(3), 5);
        assert_eq!(latency.durations().sum(), Nanos::from_millis(2 + 3 + 2));
        assert_eq!((latency.durations().count(), latency.under_way.len()), (3, 0));
    }
}
