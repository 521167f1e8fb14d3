//! Busy work of a given length.

use std::hint::black_box;

use crate::baseband_app::clock::now_ns;

/// Iterations of one round of the calibration, about 100 µs to 300 µs.
const ROUND: u64 = 100_000;
/// Rounds before the calibration, in which the core reaches its frequency.
const WARM_UP: usize = 200;
const ROUNDS: usize = 500;

/// How fast a core does busy work if nothing disturbs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// Iterations per millisecond, in the fastest round.
    pub iterations_per_ms: u64,
    /// How much longer the median round took than the fastest. Unit: permille of the fastest.
    pub median_excess_permille: u64,
}

impl Calibration {
    /// Measures the speed on the calling thread.
    #[must_use]
    pub(crate) fn measure() -> Self {
        let round = |_| {
            let start = now_ns();
            spin(ROUND);
            now_ns() - start
        };
        (0..WARM_UP).for_each(|turn| _ = round(turn));
        let mut rounds_ns: Vec<u64> = (0..ROUNDS).map(round).collect();
        rounds_ns.sort_unstable();
        let at = |index: usize| rounds_ns.get(index).copied().unwrap_or(1).max(1);
        let (fastest, median) = (at(0), at(ROUNDS / 2));
        Self {
            iterations_per_ms: ROUND * 1_000_000 / fastest,
            median_excess_permille: (median - fastest) * 1000 / fastest,
        }
    }

    /// Takes the speed of an earlier run, so that machines in different states do the same work.
    #[must_use]
    pub fn given(iterations_per_ms: u64) -> Self {
        Self { iterations_per_ms, median_excess_permille: 0 }
    }

    /// Returns the iterations that take `span_ns` on an undisturbed core.
    #[must_use]
    pub(crate) fn iterations(&self, span_ns: u64) -> u64 {
        let iterations = u128::from(span_ns) * u128::from(self.iterations_per_ms) / 1_000_000;
        u64::try_from(iterations).unwrap_or(u64::MAX)
    }
}

/// Does busy work. Four independent multiplications keep the multiplier busy, so that work on the
/// sibling core slows it down.
pub(crate) fn spin(iterations: u64) {
    let mut lanes = black_box([1u64, 3, 5, 7]);
    for _ in 0..iterations {
        for lane in &mut lanes {
            *lane = lane.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        }
    }
    black_box(lanes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_proportional_to_the_time() {
        let calibration = Calibration::given(400_000);
        assert_eq!(calibration.iterations(500_000), 200_000);
        assert_eq!(calibration.iterations(0), 0);
    }

    #[test]
    fn measured_speed_lets_work_take_about_its_time() {
        let calibration = Calibration::measure();
        // Takes the fastest of many tries, since the machine may be busy.
        let try_one = |_| {
            let start = now_ns();
            spin(calibration.iterations(200_000));
            now_ns() - start
        };
        let fastest = (0..100).map(try_one).min().unwrap();
        assert!((100_000..2_000_000).contains(&fastest), "{fastest} ns, {calibration:?}");
    }
}
