//! The search for the highest rate at which a loss goal is met.
//!
//! `binary` is RFC 2544: trials of one length, the interval halved until the precision is reached.
//! `mlr` follows MLRsearch (draft-ietf-bmwg-mlrsearch): short trials narrow the interval, long ones
//! confirm it, and a long trial that fails is repeated, since one hiccup of a shared host fails it;
//! two of three decide.

use anyhow::Result;

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Trials of one length until the interval is at most `precision_pps` wide.
    Binary {
        /// Length of a trial. Unit: ns.
        trial_ns: u64,
        /// Width of the last interval. Unit: packets per second.
        precision_pps: u64,
    },
    /// Short trials first, then long ones, until the interval is narrow relative to the rate.
    Mlr {
        /// Length of the first trials. Unit: ns.
        initial_ns: u64,
        /// Length of the trials that count. Unit: ns.
        final_ns: u64,
        /// Width of the last interval. Unit: parts per thousand of the rate.
        width_permille: u64,
    },
}

/// What one trial says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Share of the offered packets that did not come. Unit: parts per billion.
    pub loss_ppb: u64,
    /// False when the tester itself failed: the trial says nothing.
    pub valid: bool,
}

/// What was found for one goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The goal: at most this share lost. Unit: parts per billion.
    pub goal_ppb: u64,
    /// The highest rate that met it; zero when none did. Unit: packets per second.
    pub rate_pps: u64,
    /// The lowest rate that did not; `None` when the highest offered rate met it.
    pub upper_pps: Option<u64>,
}

/// How often a trial in which the tester failed is repeated before its result is taken as it is.
const INVALID_REPEATS_MAX: u32 = 3;

/// Short trials stop at an interval this much wider than the last.
const INITIAL_WIDTH_FACTOR: u64 = 4;

/// Searches for each of the goals (share lost at most, in parts per billion; the strictest first)
/// between zero and `max_pps`. `trial` runs one trial of a rate and a length in ns.
///
/// # Errors
/// Those of `trial`.
pub fn search(
    method: Method,
    goals: &[u64],
    max_pps: u64,
    trial: &mut dyn FnMut(u64, u64) -> Result<Measured>,
) -> Result<Vec<Found>> {
    let mut searcher = Searcher { trial, known: Vec::new() };
    let mut met = 0;
    goals
        .iter()
        .map(|&goal| {
            let mut found = match method {
                Method::Binary { trial_ns, precision_pps } => {
                    searcher.binary(goal, max_pps, trial_ns, precision_pps)
                }
                Method::Mlr { initial_ns, final_ns, width_permille } => {
                    searcher.mlr(goal, max_pps, [initial_ns, final_ns], width_permille)
                }
            }?;
            // A rate that met a stricter goal meets this one.
            if found.rate_pps < met {
                found.rate_pps = met;
                found.upper_pps = found.upper_pps.filter(|upper| *upper > met);
            }
            met = found.rate_pps;
            Ok(found)
        })
        .collect()
}

/// A trial that was run.
#[derive(Debug, Clone, Copy)]
struct Known {
    rate: u64,
    duration: u64,
    loss_ppb: u64,
}

struct Searcher<'t> {
    trial: &'t mut dyn FnMut(u64, u64) -> Result<Measured>,
    known: Vec<Known>,
}

/// An interval whose ends were tried.
#[derive(Debug, Clone, Copy)]
struct Interval {
    /// Met the goal; zero without a trial.
    low: u64,
    /// Did not meet the goal, or `None` when the highest rate met it.
    high: Option<u64>,
}

impl Searcher<'_> {
    /// Runs a trial, again when the tester failed.
    fn run(&mut self, rate: u64, duration: u64) -> Result<u64> {
        let mut measured = (self.trial)(rate, duration)?;
        for _ in 0..INVALID_REPEATS_MAX {
            if measured.valid {
                break;
            }
            measured = (self.trial)(rate, duration)?;
        }
        self.known.push(Known { rate, duration, loss_ppb: measured.loss_ppb });
        Ok(measured.loss_ppb)
    }

    fn binary(&mut self, goal: u64, max: u64, duration: u64, precision: u64) -> Result<Found> {
        if self.run(max, duration)? <= goal {
            return Ok(Found { goal_ppb: goal, rate_pps: max, upper_pps: None });
        }
        let (mut low, mut high) = (0, max);
        while high - low > precision.max(1) {
            let middle = low + (high - low) / 2;
            if self.run(middle, duration)? <= goal {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Found { goal_ppb: goal, rate_pps: low, upper_pps: Some(high) })
    }

    fn mlr(&mut self, goal: u64, max: u64, durations: [u64; 2], width: u64) -> Result<Found> {
        let [initial, last] = durations;
        let first = self.known_interval(goal, max, initial);
        let rough = self.narrow(goal, first, max, initial, width * INITIAL_WIDTH_FACTOR, false)?;
        let confirmed = self.confirm(goal, rough, max, last)?;
        let found = self.narrow(goal, confirmed, max, last, width, true)?;
        Ok(Found { goal_ppb: goal, rate_pps: found.low, upper_pps: found.high })
    }

    /// What earlier trials of at least this length say of a goal.
    fn known_interval(&self, goal: u64, max: u64, duration: u64) -> Interval {
        let tried = || self.known.iter().filter(move |known| known.duration >= duration);
        let failed = tried().filter(|known| known.loss_ppb > goal).map(|known| known.rate).min();
        let below = failed.unwrap_or(u64::MAX);
        let passed = tried().filter(|known| known.loss_ppb <= goal && known.rate < below);
        let low = passed.map(|known| known.rate).max().unwrap_or(0);
        Interval { low, high: failed.or_else(|| (low < max).then_some(max)) }
    }

    /// True when the goal is met at a rate; with `repeat` two of three trials decide a failure.
    fn meets(&mut self, goal: u64, rate: u64, duration: u64, repeat: bool) -> Result<bool> {
        if self.run(rate, duration)? <= goal {
            return Ok(true);
        }
        if !repeat || self.run(rate, duration)? > goal {
            return Ok(false);
        }
        Ok(self.run(rate, duration)? <= goal)
    }

    /// Tries the ends of an interval with long trials and widens it where they disagree.
    fn confirm(&mut self, goal: u64, rough: Interval, max: u64, duration: u64) -> Result<Interval> {
        let mut step = rough.high.unwrap_or(max).saturating_sub(rough.low).max(max / 1000).max(1);
        let mut low = rough.low;
        let mut high = None;
        while low > 0 && !self.meets(goal, low, duration, true)? {
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
            if !self.meets(goal, candidate, duration, true)? {
                return Ok(Interval { low, high: Some(candidate) });
            }
            low = candidate;
            candidate = candidate.saturating_add(step).min(max);
            step *= 2;
        }
    }

    /// Halves an interval until it is narrow.
    fn narrow(
        &mut self,
        goal: u64,
        mut interval: Interval,
        max: u64,
        duration: u64,
        width_permille: u64,
        repeat: bool,
    ) -> Result<Interval> {
        while let Some(high) = interval.high {
            let width = (high / 1000).saturating_mul(width_permille).max(1);
            if high.saturating_sub(interval.low) <= width {
                break;
            }
            let middle = interval.low + (high - interval.low) / 2;
            if self.meets(goal, middle.min(max), duration, repeat)? {
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

    /// Loses what exceeds `capacity`, in parts per billion.
    fn loss(rate: u64, capacity: u64) -> u64 {
        rate.saturating_sub(capacity) * 1_000_000_000 / rate
    }

    fn run(
        method: Method,
        max: u64,
        mut target: impl FnMut(u64, u64) -> Measured,
    ) -> (Vec<Found>, usize) {
        let mut trials = 0;
        let found = search(method, &[0, PLR], max, &mut |rate, duration| {
            trials += 1;
            assert!(rate > 0 && rate <= max, "{rate}");
            assert!(trials < 500, "does not end");
            Ok(target(rate, duration))
        });
        (found.unwrap(), trials)
    }

    fn valid(loss_ppb: u64) -> Measured {
        Measured { loss_ppb, valid: true }
    }

    #[test]
    fn binary_search_finds_the_capacity_within_its_precision() {
        let method = Method::Binary { trial_ns: 10, precision_pps: 100 };
        let (found, _) = run(method, 10_000_000, |rate, _| valid(loss(rate, 4_321_987)));
        let ndr = found[0];
        assert!(ndr.rate_pps <= 4_321_987 && ndr.rate_pps > 4_321_887, "{ndr:?}");
        assert!(ndr.upper_pps.unwrap() - ndr.rate_pps <= 100);
        // 0.5 % more than the capacity may be offered.
        assert!((4_343_000..4_344_000).contains(&found[1].rate_pps), "{:?}", found[1]);
    }

    #[test]
    fn target_without_loss_gives_the_highest_rate_and_no_upper_bound() {
        for method in [Method::Binary { trial_ns: 10, precision_pps: 100 }, MLR] {
            let (found, trials) = run(method, 5_000_000, |_, _| valid(0));
            assert_eq!(found[0], Found { goal_ppb: 0, rate_pps: 5_000_000, upper_pps: None });
            assert!(trials < 15, "{trials}");
        }
    }

    #[test]
    fn target_that_always_loses_gives_zero() {
        let (found, _) = run(MLR, 5_000_000, |_, _| valid(1_000_000_000));
        assert_eq!((found[0].rate_pps, found[1].rate_pps), (0, 0));
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
    fn mlr_search_survives_hiccups_and_trials_that_say_nothing() {
        let mut count = 0u64;
        let (found, _) = run(MLR, 20_000_000, |rate, _| {
            count += 1;
            let hiccup = if count.is_multiple_of(9) { 1000 } else { 0 };
            let valid = !count.is_multiple_of(7);
            let loss_ppb = if valid { loss(rate, 7_000_000) + hiccup } else { 1_000_000_000 };
            Measured { loss_ppb, valid }
        });
        assert!((6_000_000..=7_000_000).contains(&found[0].rate_pps), "{:?}", found[0]);
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
