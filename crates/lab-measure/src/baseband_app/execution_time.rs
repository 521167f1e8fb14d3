//! How long a stage executes.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Longest execution. Unit: percent of the stage's time.
const LONGEST_PERCENT: f64 = 200.0;

/// The distribution of execution times around C, the time that a stage should not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimeDistribution {
    /// Each execution takes C.
    Fixed,
    /// Gaussian, cut at zero and at twice C. Unit: percent of C.
    Gaussian {
        /// Mean.
        mean_percent: f64,
        /// Standard deviation.
        deviation_percent: f64,
    },
}

/// Execution times of one thread.
#[derive(Debug)]
pub(crate) struct ExecutionTimes {
    distribution: TimeDistribution,
    time_ns: u64,
    random: SmallRng,
}

impl ExecutionTimes {
    /// Returns the times of a stage whose time is `time_ns`. Threads with different seeds have
    /// independent times.
    pub(crate) fn new(distribution: TimeDistribution, time_ns: u64, seed: u64) -> Self {
        Self { distribution, time_ns, random: SmallRng::seed_from_u64(seed) }
    }

    /// Draws the next execution time. Unit: ns.
    pub(crate) fn next_ns(&mut self) -> u64 {
        let TimeDistribution::Gaussian { mean_percent, deviation_percent } = self.distribution
        else {
            return self.time_ns;
        };
        let percent = mean_percent + deviation_percent * self.standard_normal();
        let percent = percent.clamp(0.0, LONGEST_PERCENT);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and at most twice a time of seconds"
        )]
        let time_ns = (self.time_ns as f64 * percent / 100.0) as u64;
        time_ns
    }

    /// Draws from the standard normal distribution, by the Box-Muller transform.
    fn standard_normal(&mut self) -> f64 {
        // 1 - random is in (0, 1]: the logarithm of zero is infinite.
        let radius = (-2.0 * (1.0 - self.random.random::<f64>()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.random::<f64>()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAUSSIAN: TimeDistribution =
        TimeDistribution::Gaussian { mean_percent: 70.0, deviation_percent: 10.0 };

    #[test]
    fn fixed_times_are_the_stages_time() {
        let mut times = ExecutionTimes::new(TimeDistribution::Fixed, 500_000, 1);
        assert!((0..100).all(|_| times.next_ns() == 500_000));
    }

    #[test]
    fn gaussian_times_have_mean_deviation_and_tails_beyond_the_stages_time() {
        const COUNT: u32 = 100_000;
        let mut times = ExecutionTimes::new(GAUSSIAN, 500_000, 7);
        let drawn: Vec<f64> = (0..COUNT).map(|_| times.next_ns() as f64).collect();
        let mean = drawn.iter().sum::<f64>() / f64::from(COUNT);
        let variance =
            drawn.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / f64::from(COUNT);
        assert!((mean - 350_000.0).abs() < 1_000.0, "{mean}");
        assert!((variance.sqrt() - 50_000.0).abs() < 1_000.0, "{}", variance.sqrt());
        // Beyond three deviations lie 0.135 %.
        let beyond = drawn.iter().filter(|time| **time > 500_000.0).count();
        assert!((80..200).contains(&beyond), "{beyond}");
        assert!(drawn.iter().all(|time| *time <= 1_000_000.0));
    }

    #[test]
    fn seed_decides_the_times() {
        let draw = |seed: u64| {
            let mut times = ExecutionTimes::new(GAUSSIAN, 500_000, seed);
            (0..10).map(|_| times.next_ns()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
