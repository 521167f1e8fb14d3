//! When PDRs begin and cease to match.

use adit_types::Nanos;

use crate::rule::rule;

rule! {
    /// Activation and deactivation of a PDR. With neither, the PDR matches from its creation on.
    /// Spec: TS 29.244 §5.2.1 (deferred activation and deactivation), §8.2.121, §8.2.122.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct PdrTimes, PdrTimesUpdate {
        /// When the PDR begins to match.
        pub activation: Option<Nanos>,
        /// When the PDR ceases to match.
        pub deactivation: Option<Nanos>,
    }
}

impl PdrTimes {
    /// True if the PDR matches at `now`. The later of the two times that have passed decides; if
    /// they are equal, the deactivation does. Before both, a PDR with an activation time does not
    /// match.
    #[must_use]
    pub fn is_active(self, now: Nanos) -> bool {
        let passed = |at: Option<Nanos>| at.filter(|at| *at <= now);
        match (passed(self.activation), passed(self.deactivation)) {
            (None, None) => self.activation.is_none(),
            (activation, deactivation) => activation > deactivation,
        }
    }

    /// Returns the next time after `now` at which the PDR may begin or cease to match.
    #[must_use]
    pub fn next(self, now: Nanos) -> Option<Nanos> {
        [self.activation, self.deactivation].into_iter().flatten().filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(activation: Option<u64>, deactivation: Option<u64>) -> PdrTimes {
        PdrTimes { activation: activation.map(Nanos), deactivation: deactivation.map(Nanos) }
    }

    #[test]
    fn the_later_of_the_times_that_passed_decides() {
        let at = |times: PdrTimes| [0, 1, 2, 3].map(|now| times.is_active(Nanos(now)));
        assert_eq!(at(times(None, None)), [true; 4]);
        assert_eq!(at(times(Some(2), None)), [false, false, true, true]);
        assert_eq!(at(times(None, Some(2))), [true, true, false, false]);
        assert_eq!(at(times(Some(1), Some(3))), [false, true, true, false]);
        assert_eq!(at(times(Some(3), Some(1))), [false, false, false, true]);
        assert_eq!(at(times(Some(2), Some(2))), [false; 4]);
    }

    #[test]
    fn next_is_the_earliest_time_ahead() {
        let next = |now| times(Some(3), Some(5)).next(Nanos(now));
        assert_eq!([0, 3, 5].map(next), [Some(Nanos(3)), Some(Nanos(5)), None]);
    }
}
