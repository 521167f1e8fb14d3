//! Percentiles by rank.

/// Returns a percentile of `count` values. `sorted` has the lowest of them in order; `None` if the
/// percentile is not in `sorted`.
#[must_use]
pub(crate) fn percentile_of(sorted: &[u64], count: usize, percent: f64) -> Option<u64> {
    sorted.get(rank(count, percent).checked_sub(1)?).copied()
}

/// Returns the rank of a percentile, from 1.
pub(crate) fn rank(count: usize, percent: f64) -> usize {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count of TTIs, exact below 2^53"
    )]
    // Percentiles such as 99.9 have no exact representation: the error must not round up.
    let rank = (count as f64 * percent / 100.0 - 1e-9).ceil() as usize;
    rank.clamp(1, count.max(1))
}
