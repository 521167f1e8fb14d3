//! Correlated rates: those that sessions share by QER Correlation ID, and how many sessions name
//! each.
//!
//! Spec: TS 29.244 §8.2.10 (QER Correlation ID).

use std::collections::HashMap;

use adit_rules::CorrelatedRateId;

use crate::cp_function::OwnerId;
use crate::record::Qer;
use crate::refusal::Refusal;

/// The correlated rates of all sessions, including those that workers may still use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrelatedRates {
    max: usize,
    /// For each rate, the sessions that name it, and the changes that gave it up and wait for their
    /// reclaim.
    users: HashMap<CorrelatedRateId, usize>,
}

impl CorrelatedRates {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, users: HashMap::new() }
    }

    /// Rates that sessions name, or that workers may still use.
    pub(crate) fn count(&self) -> usize {
        self.users.len()
    }

    /// Checks whether a session may name these rates.
    ///
    /// # Errors
    /// [`Refusal::CorrelatedRatesExhausted`].
    pub(crate) fn check(&self, named: &[CorrelatedRateId]) -> Result<(), Refusal> {
        let new = named.iter().filter(|id| !self.users.contains_key(id)).count();
        match new > 0 && self.users.len() + new > self.max {
            true => Err(Refusal::CorrelatedRatesExhausted),
            false => Ok(()),
        }
    }

    /// A session begins to name these rates.
    pub(crate) fn take(&mut self, ids: impl IntoIterator<Item = CorrelatedRateId>) {
        for id in ids {
            *self.users.entry(id).or_default() += 1;
        }
    }

    /// No worker runs rules any more with which a session named these rates.
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

/// The rate that a QER shares. Correlation IDs are those of the CP function that established the
/// session, whichever one controls it later.
pub(crate) fn correlated_rate(cp: OwnerId, qer: &Qer) -> Option<CorrelatedRateId> {
    let correlation = qer.correlation.filter(|_| qer.mbr.is_some())?;
    Some(CorrelatedRateId { cp: cp.0, correlation })
}

/// The rates that a session shares, in ascending order.
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
