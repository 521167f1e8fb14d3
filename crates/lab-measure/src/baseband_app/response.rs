//! Statistics of response times.

use crate::baseband_app::percentile::{percentile_of, rank};
use crate::baseband_app::timeline::TtiOutcome;

/// A point of the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CdfPoint {
    /// Response time. Unit: ns.
    pub response_ns: u64,
    /// TTIs with at most this response time. Unit: parts per million of all TTIs.
    pub ttis_ppm: u64,
}

/// The response times of all TTIs of one or more runs.
#[derive(Debug, Clone, Default)]
pub struct ResponseTimes {
    /// Response times in ascending order. Unit: ns.
    responses_ns: Vec<u64>,
    /// Number of TTIs, also those without response.
    ttis: usize,
}

impl ResponseTimes {
    /// Collects the response times of these TTIs.
    #[must_use]
    pub fn of<'o>(outcomes: impl IntoIterator<Item = &'o TtiOutcome>) -> Self {
        let (mut responses_ns, mut ttis) = (Vec::new(), 0);
        for outcome in outcomes {
            ttis += 1;
            responses_ns.extend(outcome.response_ns);
        }
        responses_ns.sort_unstable();
        Self { responses_ns, ttis }
    }

    /// Returns a percentile of all TTIs; `None` if it falls among TTIs without response. Unit: ns.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        percentile_of(&self.responses_ns, self.ttis, percent)
    }

    /// Returns the shortest response time. Unit: ns.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        self.responses_ns.first().copied()
    }

    /// Returns the longest response time of TTIs with a response. Unit: ns.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        self.responses_ns.last().copied()
    }

    /// Returns the mean response time of TTIs with a response. Unit: ns.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        let sum: u128 = self.responses_ns.iter().map(|one| u128::from(*one)).sum();
        let count = u128::try_from(self.responses_ns.len()).ok().filter(|count| *count > 0)?;
        u64::try_from(sum / count).ok()
    }

    /// Returns the distribution, in steps of half a percent and finer ones at the end.
    #[must_use]
    pub fn cdf(&self) -> Vec<CdfPoint> {
        let steps = (0..=198u32).map(|step| f64::from(step) / 2.0);
        let tail = [99.5, 99.9, 99.95, 99.99, 99.995, 99.999, 100.0];
        let mut points: Vec<CdfPoint> = Vec::new();
        for percent in steps.chain(tail) {
            let rank = rank(self.ttis, percent).min(self.responses_ns.len());
            let Some(response_ns) = rank.checked_sub(1).and_then(|at| self.responses_ns.get(at))
            else {
                continue;
            };
            let ppm = u128::try_from(rank).unwrap_or(0) * 1_000_000;
            let ppm = ppm / u128::try_from(self.ttis.max(1)).unwrap_or(1);
            let point = CdfPoint {
                response_ns: *response_ns,
                ttis_ppm: u64::try_from(ppm).unwrap_or(u64::MAX),
            };
            if points.last() != Some(&point) {
                points.push(point);
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(responses: impl IntoIterator<Item = Option<u64>>) -> ResponseTimes {
        let outcomes: Vec<TtiOutcome> = responses
            .into_iter()
            .map(|response_ns| TtiOutcome { response_ns, timed_out: false })
            .collect();
        ResponseTimes::of(&outcomes)
    }

    #[test]
    fn percentiles_are_of_all_ttis() {
        let times = times((1..=1000).rev().map(Some));
        let percentiles = [0.0, 50.0, 99.0, 99.9, 100.0].map(|at| times.percentile_ns(at));
        assert_eq!(percentiles, [1, 500, 990, 999, 1000].map(Some));
        assert_eq!((times.min_ns(), times.max_ns()), (Some(1), Some(1000)));
        assert_eq!(times.mean_ns(), Some(500));
    }

    #[test]
    fn tti_without_response_is_slower_than_all_others() {
        let times = times((1..=9).map(Some).chain([None]));
        assert_eq!(times.percentile_ns(90.0), Some(9));
        assert_eq!(times.percentile_ns(91.0), None);
        let last = *times.cdf().last().unwrap();
        assert_eq!(last, CdfPoint { response_ns: 9, ttis_ppm: 900_000 });
    }

    #[test]
    fn distribution_rises_to_the_share_of_ttis_with_a_response() {
        let cdf = times((1..=10_000).map(Some)).cdf();
        assert!(cdf.is_sorted_by_key(|point| (point.response_ns, point.ttis_ppm)));
        assert_eq!(*cdf.last().unwrap(), CdfPoint { response_ns: 10_000, ttis_ppm: 1_000_000 });
        assert!(cdf.contains(&CdfPoint { response_ns: 9_990, ttis_ppm: 999_000 }));
    }

    #[test]
    fn no_tti_has_no_statistics() {
        let times = times([]);
        assert_eq!(
            (times.percentile_ns(50.0), times.mean_ns(), times.max_ns()),
            (None, None, None)
        );
        assert!(times.cdf().is_empty());
    }
}
