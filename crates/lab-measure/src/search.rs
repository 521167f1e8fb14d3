//! Searches for the highest rate that meets a loss goal.
//!
//! `binary` is RFC 2544: trials of one duration halve the interval down to the precision. `mlr`
//! follows MLRsearch (draft-ietf-bmwg-mlrsearch): short trials narrow the interval and long ones
//! confirm it. A long trial that fails is repeated, since a hiccup of a shared host can be the
//! cause; two failures of three trials decide. Both methods repeat undecided trials, within bounds.
//! A rate that stays undecided, or that the tester cannot offer, counts as not met; the result
//! names the reason.

use std::collections::BTreeSet;

use anyhow::Result;

/// Search method and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Trials of one length until the interval is at most `precision_pps` wide.
    Binary {
        /// Length of a trial. Unit: ns.
        trial_ns: u64,
        /// Width of the final interval. Unit: packets per second.
        precision_pps: u64,
    },
    /// Short trials first, then long ones, until the interval is narrow relative to the rate.
    Mlr {
        /// Length of the first trials. Unit: ns.
        initial_ns: u64,
        /// Length of the trials that count. Unit: ns.
        final_ns: u64,
        /// Width of the final interval. Unit: parts per thousand of the rate.
        width_permille: u64,
    },
}

/// Whether a trial offered the requested rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The tester offered the whole rate.
    Whole,
    /// The tester offered less, since it lost its core for some time.
    Interrupted,
    /// The tester offered less, since it cannot send and receive at this rate.
    BeyondTester,
}

/// Result of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrialLoss {
    /// Share of the offered packets that did not arrive. Unit: parts per billion.
    pub loss_ppb: u64,
    /// Lower bound of the target's own loss: absences of tester or target can explain the rest.
    /// Unit: parts per billion.
    pub least_ppb: u64,
    /// Whether the rate was offered.
    pub offered: Offered,
}

/// Why a result is not higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The target lost more than the goal allows at the next higher rate.
    Target,
    /// The tester cannot offer the next higher rate.
    Tester,
    /// In every trial at the next higher rate the tester or the target was off its core for too
    /// long: the loss proves nothing.
    Disturbed,
}

/// The search result for one goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SearchResult {
    /// The goal: maximum share of lost packets. Unit: parts per billion.
    pub goal_ppb: u64,
    /// Highest rate that met the goal; zero if none did. Unit: packets per second.
    pub rate_pps: u64,
    /// Lowest tried rate that did not meet the goal; `None` if the highest offered rate met it.
    pub upper_pps: Option<u64>,
    /// Why `upper_pps` did not meet the goal.
    pub bound: Option<Bound>,
}

/// Maximum number of short trials of one rate.
const SHORT_TRIALS_MAX: u32 = 3;
/// Maximum number of trials of one rate that count: three that decide, and one undecided.
const TRIALS_MAX: u32 = 4;
/// Maximum number of repetitions of undecided trials per search. Beyond it the machine is too busy
/// for another repetition to help.
const UNDECIDED_REPEATS_MAX: u32 = 16;
/// The search ends with zero below this fraction of the highest rate.
const RATE_RANGE_MAX: u64 = 1000;

/// Short trials narrow the interval to this multiple of the final width.
const INITIAL_WIDTH_FACTOR: u64 = 4;

/// Searches between zero and `max_pps` for each of `goals`: maximum loss in parts per billion, the
/// strictest first. `trial` runs one trial, given its rate and its duration in ns.
///
/// # Errors
/// `trial` fails.
pub(crate) fn search(
    method: Method,
    goals: &[u64],
    max_pps: u64,
    trial: &mut dyn FnMut(u64, u64) -> Result<TrialLoss>,
) -> Result<Vec<SearchResult>> {
    let (known, unclear_left) = (Vec::new(), UNDECIDED_REPEATS_MAX);
    let mut searcher = Searcher { trial, max: max_pps, known, unclear_left };
    let mut met = 0;
    goals
        .iter()
        .map(|&goal| {
            let mut interval = match method {
                Method::Binary { trial_ns, precision_pps } => {
                    searcher.binary(goal, trial_ns, precision_pps)
                }
                Method::Mlr { initial_ns, final_ns, width_permille } => {
                    searcher.mlr(goal, [initial_ns, final_ns], width_permille)
                }
            }?;
            // A rate that met a stricter goal meets this goal.
            if interval.low < met {
                interval.low = met;
                interval.high = interval.high.filter(|high| *high > met);
            }
            met = interval.low;
            Ok(SearchResult {
                goal_ppb: goal,
                rate_pps: interval.low,
                upper_pps: interval.high,
                bound: interval.high.map(|high| searcher.votes(goal, high, 0).bound()),
            })
        })
        .collect()
}

/// A finished trial.
#[derive(Debug, Clone, Copy)]
struct SearchTrial {
    rate: u64,
    duration: u64,
    measured: TrialLoss,
}

/// Results of the trials of one rate for one goal.
#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    trials: u32,
    met: u32,
    failed: u32,
    beyond_tester: u32,
}

impl Votes {
    fn add(&mut self, measured: TrialLoss, goal: u64) {
        let TrialLoss { loss_ppb, least_ppb, offered } = measured;
        self.trials += 1;
        if least_ppb > goal {
            self.failed += 1;
        } else if offered == Offered::BeyondTester {
            self.beyond_tester += 1;
        } else if loss_ppb <= goal && offered == Offered::Whole {
            self.met += 1;
        }
    }

    /// True (met) after two trials that met the goal, or one if none failed. False after `needed`
    /// failed trials, or if the tester cannot offer the rate. `None` if undecided.
    fn verdict(self, needed: u32) -> Option<bool> {
        if self.met > 1 || (self.met == 1 && self.failed == 0) {
            return Some(true);
        }
        (self.failed >= needed || self.beyond_tester > 0).then_some(false)
    }

    fn bound(self) -> Bound {
        if self.failed > 0 {
            Bound::Target
        } else if self.beyond_tester > 0 {
            Bound::Tester
        } else {
            Bound::Disturbed
        }
    }
}

struct Searcher<'t> {
    trial: &'t mut dyn FnMut(u64, u64) -> Result<TrialLoss>,
    /// Highest rate to offer.
    max: u64,
    known: Vec<SearchTrial>,
    unclear_left: u32,
}

/// How a rate is tried.
#[derive(Debug, Clone, Copy)]
struct TrialEffort {
    /// Duration of a trial.
    duration: u64,
    /// True if two of three trials decide a failure.
    is_final: bool,
}

/// An interval of rates with tried ends.
#[derive(Debug, Clone, Copy)]
struct Interval {
    /// The highest rate that met the goal; zero if none.
    low: u64,
    /// The lowest rate that did not meet the goal; `None` if the highest rate met it.
    high: Option<u64>,
}

impl Searcher<'_> {
    /// Returns the votes of the trials of a rate that lasted at least `duration`.
    fn votes(&self, goal: u64, rate: u64, duration: u64) -> Votes {
        let mut votes = Votes::default();
        let same = self.known.iter().filter(|known| known.rate == rate);
        same.filter(|known| known.duration >= duration)
            .for_each(|known| votes.add(known.measured, goal));
        votes
    }

    /// Returns whether a rate meets the goal. Earlier trials for other goals count too.
    fn meets(&mut self, goal: u64, rate: u64, effort: TrialEffort) -> Result<bool> {
        let TrialEffort { duration, is_final } = effort;
        let (needed, trials_max) = if is_final { (2, TRIALS_MAX) } else { (1, SHORT_TRIALS_MAX) };
        loop {
            let votes = self.votes(goal, rate, duration);
            if let Some(verdict) = votes.verdict(needed) {
                return Ok(verdict);
            }
            if votes.trials >= trials_max {
                return Ok(false);
            }
            let is_unclear = votes.trials > votes.met + votes.failed;
            if is_unclear && self.unclear_left == 0 {
                return Ok(false);
            }
            self.unclear_left -= u32::from(is_unclear);
            let measured = (self.trial)(rate, duration)?;
            self.known.push(SearchTrial { rate, duration, measured });
        }
    }

    fn binary(&mut self, goal: u64, duration: u64, precision: u64) -> Result<Interval> {
        let effort = TrialEffort { duration, is_final: false };
        if self.meets(goal, self.max, effort)? {
            return Ok(Interval { low: self.max, high: None });
        }
        let (mut low, mut high) = (0, self.max);
        while high - low > precision.max(1) {
            let middle = low + (high - low) / 2;
            if self.meets(goal, middle, effort)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Interval { low, high: Some(high) })
    }

    fn mlr(&mut self, goal: u64, durations: [u64; 2], width: u64) -> Result<Interval> {
        let [initial, last] = durations;
        let short = TrialEffort { duration: initial, is_final: false };
        let long = TrialEffort { duration: last, is_final: true };
        let first = self.known_interval(goal, initial);
        let rough = self.narrow(goal, first, short, width * INITIAL_WIDTH_FACTOR)?;
        let confirmed = self.confirm(goal, rough, long)?;
        self.narrow(goal, confirmed, long, width)
    }

    /// Returns the interval of a goal according to earlier trials of at least this duration.
    fn known_interval(&self, goal: u64, duration: u64) -> Interval {
        let rates: BTreeSet<u64> = self.known.iter().map(|known| known.rate).collect();
        let mut interval = Interval { low: 0, high: None };
        for rate in rates {
            match self.votes(goal, rate, duration).verdict(1) {
                Some(true) => interval.low = rate,
                Some(false) => {
                    interval.high = Some(rate);
                    break;
                }
                None => {}
            }
        }
        interval.high = interval.high.or_else(|| (interval.low < self.max).then_some(self.max));
        interval
    }

    /// Tries the ends of a rough interval with long trials, and moves the ends if results differ.
    fn confirm(&mut self, goal: u64, rough: Interval, effort: TrialEffort) -> Result<Interval> {
        let max = self.max;
        let mut step = rough.high.unwrap_or(max).saturating_sub(rough.low).max(max / 1000).max(1);
        let mut low = rough.low;
        let mut high = None;
        while low > 0 && !self.meets(goal, low, effort)? {
            high = Some(low);
            low = low.saturating_sub(step);
            step *= 2;
        }
        if high.is_some() {
            return Ok(Interval { low, high });
        }
        let mut candidate = rough.high.unwrap_or(max);
        loop {
            if candidate <= low {
                return Ok(Interval { low, high: None });
            }
            if !self.meets(goal, candidate, effort)? {
                return Ok(Interval { low, high: Some(candidate) });
            }
            low = candidate;
            candidate = candidate.saturating_add(step).min(max);
            step *= 2;
        }
    }

    /// Halves an interval until it is narrow enough.
    fn narrow(
        &mut self,
        goal: u64,
        mut interval: Interval,
        effort: TrialEffort,
        width_permille: u64,
    ) -> Result<Interval> {
        while let Some(high) = interval.high {
            let width = (high / 1000).saturating_mul(width_permille).max(1);
            let is_lowest = interval.low == 0 && high <= self.max / RATE_RANGE_MAX;
            if high.saturating_sub(interval.low) <= width || is_lowest {
                break;
            }
            let middle = interval.low + (high - interval.low) / 2;
            if self.meets(goal, middle.min(self.max), effort)? {
                interval.low = middle;
            } else {
                interval.high = Some(middle);
            }
        }
        Ok(interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MLR: Method = Method::Mlr { initial_ns: 1, final_ns: 10, width_permille: 5 };
    const PLR: u64 = 5_000_000;

    /// Returns the loss of a target that drops packets above `capacity`, in parts per billion.
    fn loss(rate: u64, capacity: u64) -> u64 {
        rate.saturating_sub(capacity) * 1_000_000_000 / rate
    }

    fn run(
        method: Method,
        max: u64,
        mut target: impl FnMut(u64, u64) -> TrialLoss,
    ) -> (Vec<SearchResult>, usize) {
        let mut trials = 0;
        let found = search(method, &[0, PLR], max, &mut |rate, duration| {
            trials += 1;
            assert!(rate > 0 && rate <= max, "{rate}");
            assert!(trials < 500, "does not end");
            Ok(target(rate, duration))
        });
        (found.unwrap(), trials)
    }

    fn valid(loss_ppb: u64) -> TrialLoss {
        TrialLoss { loss_ppb, least_ppb: loss_ppb, offered: Offered::Whole }
    }

    #[test]
    fn binary_search_finds_the_capacity_within_its_precision() {
        let method = Method::Binary { trial_ns: 10, precision_pps: 100 };
        let (found, _) = run(method, 10_000_000, |rate, _| valid(loss(rate, 4_321_987)));
        let ndr = found[0];
        assert!(ndr.rate_pps <= 4_321_987 && ndr.rate_pps > 4_321_887, "{ndr:?}");
        assert!(ndr.upper_pps.unwrap() - ndr.rate_pps <= 100);
        // At a goal of 0.5 % loss, the offered rate exceeds the capacity by 0.5 %.
        assert!((4_343_000..4_344_000).contains(&found[1].rate_pps), "{:?}", found[1]);
    }

    #[test]
    fn target_without_loss_gives_the_highest_rate_and_no_upper_bound() {
        for method in [Method::Binary { trial_ns: 10, precision_pps: 100 }, MLR] {
            let (found, trials) = run(method, 5_000_000, |_, _| valid(0));
            assert_eq!((found[0].rate_pps, found[0].upper_pps), (5_000_000, None));
            assert_eq!(found[0].bound, None);
            assert!(trials < 15, "{trials}");
        }
    }

    #[test]
    fn target_that_always_loses_gives_zero() {
        let (found, trials) = run(MLR, 5_000_000, |_, _| valid(1_000_000_000));
        assert_eq!((found[0].rate_pps, found[1].rate_pps), (0, 0));
        assert!(trials < 20, "{trials}");
    }

    #[test]
    fn mlr_search_needs_few_long_trials() {
        let mut long = 0;
        let (found, _) = run(MLR, 20_000_000, |rate, duration| {
            long += u32::from(duration == 10);
            valid(loss(rate, 7_000_000))
        });
        let [ndr, plr] = found[..] else { panic!() };
        assert!(ndr.rate_pps <= 7_000_000 && ndr.rate_pps >= 6_960_000, "{ndr:?}");
        assert!(plr.rate_pps >= ndr.rate_pps && plr.rate_pps <= 7_036_000, "{plr:?}");
        assert!(long <= 24, "{long} long trials");
    }

    #[test]
    fn mlr_search_survives_hiccups_and_undecided_trials() {
        let mut count = 0u64;
        let (found, _) = run(MLR, 20_000_000, |rate, _| {
            count += 1;
            let hiccup = if count.is_multiple_of(9) { 1000 } else { 0 };
            if count.is_multiple_of(7) {
                return TrialLoss { loss_ppb: 900_000_000, least_ppb: 0, offered: Offered::Whole };
            }
            valid(loss(rate, 7_000_000) + hiccup)
        });
        assert!((6_000_000..=7_000_000).contains(&found[0].rate_pps), "{:?}", found[0]);
        assert_eq!(found[0].bound, Some(Bound::Target));
    }

    #[test]
    fn rate_that_the_tester_cannot_offer_is_not_met_nor_tried_again() {
        for method in [Method::Binary { trial_ns: 10, precision_pps: 1000 }, MLR] {
            let mut beyond = std::collections::BTreeMap::new();
            let (found, _) = run(method, 20_000_000, |rate, duration| {
                let offered = if rate > 5_000_000 { Offered::BeyondTester } else { Offered::Whole };
                if rate > 5_000_000 {
                    *beyond.entry((rate, duration)).or_insert(0) += 1;
                }
                TrialLoss { loss_ppb: 0, least_ppb: 0, offered }
            });
            assert!((4_950_000..=5_000_000).contains(&found[0].rate_pps), "{:?}", found[0]);
            assert_eq!(found[0].bound, Some(Bound::Tester));
            assert!(beyond.values().all(|count| *count == 1), "{beyond:?}");
        }
    }

    #[test]
    fn disturbed_trials_are_repeated_within_bounds_and_named_as_the_reason() {
        // Above 3 Mpps each trial loses packets that absences explain.
        let (found, trials) = run(MLR, 20_000_000, |rate, _| TrialLoss {
            loss_ppb: if rate > 3_000_000 { 10_000_000 } else { 0 },
            least_ppb: 0,
            offered: Offered::Whole,
        });
        assert!((2_900_000..=3_000_000).contains(&found[0].rate_pps), "{:?}", found[0]);
        assert_eq!(found[0].bound, Some(Bound::Disturbed));
        assert!(trials < 50, "{trials}");
        // A trial that lost more than that decides at once.
        let certain = TrialLoss { least_ppb: 1, ..valid(10_000_000) };
        let mut at_most = 0;
        run(MLR, 20_000_000, |rate, duration| {
            at_most += u32::from(rate == 20_000_000 && duration == 1);
            if rate > 3_000_000 { certain } else { valid(0) }
        });
        assert!(at_most <= 1, "{at_most}");
    }

    #[test]
    fn mlr_search_goes_down_where_long_trials_lose_more() {
        // Long trials find half of the capacity of short ones.
        let (found, _) = run(MLR, 20_000_000, |rate, duration| {
            valid(loss(rate, if duration == 10 { 3_500_000 } else { 7_000_000 }))
        });
        assert!((3_400_000..=3_500_000).contains(&found[0].rate_pps), "{:?}", found[0]);
    }
}
