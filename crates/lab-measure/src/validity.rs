//! The conclusion of a trial about the target if tester or target lost their cores for some time.
//!
//! An absent tester neither sends nor receives, so that at most the packets in the queues of both
//! sides are lost. A target that waits for a core loses at most the packets offered in that time.
//! Any further loss is the target's own. So most trials on a busy machine still decide a search:
//! the target's loss lies between these bounds.

use super::report::TrialReport;
use super::search::{Offered, TrialLoss};
use adit_lab_engine::clock::{NS_PER_S, scaled};

/// A trial with absences of the tester still counts if it offered at least this share of the rate:
/// outside of the absences it offered the full rate. Unit: percent.
const OFFERED_PERCENT_MIN: u64 = 95;
/// Shortfall of the rate that is accepted from a tester that was present. Unit: parts per thousand.
const RATE_SLACK_PERMILLE: u64 = 1;

impl TrialReport {
    /// Returns whether the tester offered the rate, or why it did not.
    #[must_use]
    pub(crate) fn offering(&self) -> Offered {
        let (Some(rate), true) = (self.rate_pps, self.tester_limited) else {
            return Offered::Whole;
        };
        let sent: u64 = self.streams.iter().map(|stream| stream.offered).sum();
        let present_ns = self.duration_ns.saturating_sub(self.absence.tester_ns).max(1);
        let while_present = scaled(sent, NS_PER_S, present_ns);
        if while_present < rate - scaled(rate, RATE_SLACK_PERMILLE, 1000) {
            Offered::BeyondTester
        } else if self.offered_pps * 100 < rate * OFFERED_PERCENT_MIN {
            Offered::Interrupted
        } else {
            Offered::Whole
        }
    }

    /// Returns the result of the trial for a search.
    #[must_use]
    pub(crate) fn measured(&self) -> TrialLoss {
        let offered: u64 = self.streams.iter().map(|stream| stream.offered).sum();
        let lost: u64 = self.streams.iter().map(|stream| stream.lost).sum();
        let least = lost.saturating_sub(self.absence.excused);
        TrialLoss {
            loss_ppb: self.loss_ppb,
            least_ppb: if offered == 0 { 0 } else { scaled(least, 1_000_000_000, offered) },
            offered: self.offering(),
        }
    }

    /// True if absences of tester or target make the trial less conclusive.
    #[must_use]
    pub(crate) fn is_disturbed(&self) -> bool {
        let measured = self.measured();
        measured.offered == Offered::Interrupted || measured.least_ppb < measured.loss_ppb
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::absence::CoreAbsence;
    use crate::report::StreamReport;

    /// Makes the report of a trial of one second at 1 Mpps.
    fn trial(offered: u64, missed: u64, lost: u64, absence: CoreAbsence) -> TrialReport {
        let stream = StreamReport { offered, missed, lost, ..StreamReport::default() };
        TrialReport {
            rate_pps: Some(1_000_000),
            duration_ns: NS_PER_S,
            offered_pps: offered,
            loss_ppb: scaled(lost, NS_PER_S, offered),
            tester_limited: missed > offered / 1000,
            streams: vec![stream],
            absence,
            ..TrialReport::default()
        }
    }

    #[test]
    fn slow_tester_is_distinguished_from_an_absent_one() {
        let present = CoreAbsence::default();
        assert_eq!(trial(1_000_000, 0, 0, present).offering(), Offered::Whole);
        assert_eq!(trial(900_000, 100_000, 0, present).offering(), Offered::BeyondTester);
        let absent = CoreAbsence::of(1, 110_000_000, None, 1_000_000, 1024);
        assert_eq!(trial(900_000, 100_000, 0, absent).offering(), Offered::Interrupted);
        let absent = CoreAbsence::of(1, 30_000_000, None, 1_000_000, 1024);
        assert_eq!(trial(980_000, 20_000, 0, absent).offering(), Offered::Whole);
    }

    #[test]
    fn loss_beyond_what_absences_explain_is_the_targets() {
        // Three absences of 5 ms: 15,000 packets are due, but the queues hold 2,048 each time.
        let absence = CoreAbsence::of(3, 15_000_000, None, 1_000_000, 1024);
        assert_eq!(absence.excused, 6144);
        let measured = trial(1_000_000, 0, 7144, absence).measured();
        assert_eq!((measured.loss_ppb, measured.least_ppb), (7_144_000, 1_000_000));
        assert!(trial(1_000_000, 0, 7144, absence).is_disturbed());
        assert!(!trial(1_000_000, 0, 0, absence).is_disturbed());
        // A target that waited 20 ms for its core did not serve 20,000 packets; 1 ms fits its
        // queue.
        let of = |ns| CoreAbsence::of(0, 0, Some(ns), 1_000_000, 1024).excused;
        assert_eq!((of(20_000_000), of(1_000_000)), (20_000, 0));
    }
}
