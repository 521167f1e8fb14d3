//! Correlated rates: rates that sessions share by a QER Correlation ID.
//!
//! Spec: TS 29.244 §8.2.10 (QER Correlation ID).

use std::collections::HashMap;

use adit_rules::CorrelatedRateId;

use crate::cp_function::OwnerId;
use crate::record::Qer;
use crate::refusal::Refusal;

/// The correlated rates of all sessions, and those that no session names but workers may still use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrelatedRates {
    max: usize,
    /// For each rate, how many sessions name it, plus changes away from it that wait for a reclaim.
    users: HashMap<CorrelatedRateId, usize>,
}

impl CorrelatedRates {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, users: HashMap::new() }
    }

    /// Returns the number of rates in use: those that a session names, and those that workers may
    /// still use.
    pub(crate) fn count(&self) -> usize {
        self.users.len()
    }

    /// Checks that there is room for the rates that a session is to name.
    ///
    /// # Errors
    /// [`Refusal::CorrelatedRatesExhausted`] if there is none.
    pub(crate) fn check(&self, named: &[CorrelatedRateId]) -> Result<(), Refusal> {
        let new = named.iter().filter(|id| !self.users.contains_key(id)).count();
        match new > 0 && self.users.len() + new > self.max {
            true => Err(Refusal::CorrelatedRatesExhausted),
            false => Ok(()),
        }
    }

    /// Counts a session that begins to name these rates.
    pub(crate) fn take(&mut self, ids: impl IntoIterator<Item = CorrelatedRateId>) {
        for id in ids {
            *self.users.entry(id).or_default() += 1;
        }
    }

    /// Removes a session's count for these rates, once no worker runs rules that name them for it.
    pub(crate) fn release(&mut self, ids: impl IntoIterator<Item = CorrelatedRateId>) {
        for id in ids {
            let Some(users) = self.users.get_mut(&id) else { continue };
            *users -= 1;
            if *users == 0 {
                self.users.remove(&id);
            }
        }
    }
}

/// Returns the rate that a QER shares, if it has a Correlation ID. Correlation IDs are those of the
/// CP function that established the session, even if another one controls it now.
pub(crate) fn correlated_rate(cp: OwnerId, qer: &Qer) -> Option<CorrelatedRateId> {
    let correlation = qer.correlation.filter(|_| qer.mbr.is_some())?;
    Some(CorrelatedRateId { cp: cp.0, correlation })
}

/// Returns the rates that a session shares, in ascending order.
pub(crate) fn correlated_rates(cp: OwnerId, qers: &[Qer]) -> Vec<CorrelatedRateId> {
    let mut ids: Vec<_> = qers.iter().filter_map(|qer| correlated_rate(cp, qer)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use adit_types::BitRate;

    use super::*;
    use crate::record::Rates;

    fn id(correlation: u32) -> CorrelatedRateId {
        CorrelatedRateId { cp: 1, correlation }
    }

    #[test]
    fn rate_counts_once_until_its_last_session_left_it() {
        let mut rates = CorrelatedRates::new(2);
        rates.check(&[id(1), id(2)]).unwrap();
        rates.take([id(1), id(2)]);
        rates.take([id(1)]);
        rates.check(&[id(1), id(2)]).unwrap();
        assert_eq!(rates.check(&[id(1), id(3)]), Err(Refusal::CorrelatedRatesExhausted));
        rates.release([id(1), id(2)]);
        assert_eq!(rates.count(), 1);
        rates.check(&[id(1), id(3)]).unwrap();
        rates.release([id(1)]);
        assert_eq!(rates, CorrelatedRates::new(2));
    }

    #[test]
    fn qer_shares_the_rate_that_it_has() {
        let mbr = Some(Rates { uplink: BitRate::from_kbps(1), downlink: BitRate::from_kbps(1) });
        let qer = |correlation, mbr| Qer { correlation, mbr, ..Qer::default() };
        let qers = [qer(Some(9), mbr), qer(Some(9), mbr), qer(Some(8), None), qer(None, mbr)];
        assert_eq!(correlated_rates(OwnerId(1), &qers), [id(9)]);
    }
}
