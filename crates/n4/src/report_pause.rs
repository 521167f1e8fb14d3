//! Pauses between reports that a CP function refuses or does not answer.

use adit_types::Nanos;

const FIRST_PAUSE: Nanos = Nanos::from_secs(1);
const PAUSE_LENGTH_MAX: Nanos = Nanos::from_secs(60);

/// The pause before the next report: a second after the first failure, twice as long after each
/// further one, up to a minute. Without a failure there is no pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReportPause {
    length: Nanos,
    until: Nanos,
    failures: u32,
}

impl ReportPause {
    /// Notes that a report failed. Returns when the next one may be sent.
    pub(crate) fn lengthen(&mut self, now: Nanos) -> Nanos {
        self.length = (self.length + self.length).clamp(FIRST_PAUSE, PAUSE_LENGTH_MAX);
        self.until = now + self.length;
        self.failures = self.failures.saturating_add(1);
        self.until
    }

    /// Returns when the next report may be sent.
    pub(crate) const fn until(self) -> Nanos {
        self.until
    }

    /// Returns how many reports have failed in a row.
    pub(crate) const fn failure_count(self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_from_a_second_up_to_a_minute() {
        let mut pause = ReportPause::default();
        assert_eq!((pause.until(), pause.failure_count()), (Nanos(0), 0));
        let seconds: Vec<u64> =
            (0..8).map(|_| pause.lengthen(Nanos(0)).0 / Nanos::from_secs(1).0).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pause.failure_count(), 8);
    }
}
