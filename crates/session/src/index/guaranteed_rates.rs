//! Guaranteed bit rates: the sum over all sessions, and the capacity that limits it.

use std::collections::HashMap;

use adit_types::{BitRate, SessionIndex, SliceId};

use crate::provisioning::QosPolicy;
use crate::record::{Qer, Rates};
use crate::refusal::Refusal;

/// The guarantees of all sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuaranteedRates {
    /// The sums to limit: first that of all sessions, then that of each slice.
    levels: Vec<GuaranteeLevel>,
    /// The slice and guarantee of each session that has a guarantee.
    by_session: HashMap<SessionIndex, (SliceId, Rates)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct GuaranteeLevel {
    capacity: Rates,
    sum: Rates,
}

impl GuaranteedRates {
    /// Makes sums of zero with the capacities of `policy`.
    pub(crate) fn new(policy: &QosPolicy) -> Self {
        let level = |capacity| GuaranteeLevel { capacity, sum: Rates::default() };
        let levels = capacities(policy).map(level).collect();
        Self { levels, by_session: HashMap::new() }
    }

    /// Replaces the capacities by those of `policy`, which has the same slices. Guarantees stay.
    pub(crate) fn set_capacity(&mut self, policy: &QosPolicy) {
        for (level, capacity) in self.levels.iter_mut().zip(capacities(policy)) {
            level.capacity = capacity;
        }
    }

    /// Returns the sum of the guarantees of all sessions, and the capacity for them.
    pub(crate) fn total_and_capacity(&self) -> (Rates, Rates) {
        self.levels.first().map(|level| (level.sum, level.capacity)).unwrap_or_default()
    }

    /// Checks that the capacity suffices for a session of `slice` with these QERs. A session that
    /// needs no more than it already has is accepted even if the capacity has become smaller.
    ///
    /// # Errors
    /// [`Refusal::GuaranteedRatesExhausted`]. Spec: TS 29.244 §8.2.9; TS 23.501 §5.7.2.5.
    pub(crate) fn check(
        &self,
        session: SessionIndex,
        slice: SliceId,
        qers: &[Qer],
    ) -> Result<(), Refusal> {
        let after = guarantee_of(qers);
        let is_over = |at: usize, rate: fn(Rates) -> BitRate| {
            let Some(GuaranteeLevel { capacity, sum }) = self.levels.get(at) else { return false };
            let before = self.of(session, at);
            let [sum, capacity, before, after] =
                [*sum, *capacity, before, after].map(|rates| rate(rates).as_bps());
            after > before && sum.saturating_sub(before).saturating_add(after) > capacity
        };
        let is_over = |at| is_over(at, |rates| rates.uplink) || is_over(at, |rates| rates.downlink);
        match levels_of(slice).any(is_over) {
            true => Err(Refusal::GuaranteedRatesExhausted),
            false => Ok(()),
        }
    }

    /// Sets the QERs of a session of `slice`; an empty list when the session ends.
    pub(crate) fn set(&mut self, session: SessionIndex, slice: SliceId, qers: &[Qer]) {
        let after = guarantee_of(qers);
        if let Some((slice, before)) = self.by_session.get(&session).copied() {
            self.count(slice, before, |sum, rate| sum.saturating_sub(rate));
        }
        self.count(slice, after, u64::saturating_add);
        if after == Rates::default() {
            self.by_session.remove(&session);
        } else {
            self.by_session.insert(session, (slice, after));
        }
    }

    fn count(&mut self, slice: SliceId, rates: Rates, add: fn(u64, u64) -> u64) {
        let add = |sum: &mut BitRate, rate: BitRate| {
            *sum = BitRate::from_bps(add(sum.as_bps(), rate.as_bps()));
        };
        for at in levels_of(slice) {
            let Some(GuaranteeLevel { sum, .. }) = self.levels.get_mut(at) else { continue };
            add(&mut sum.uplink, rates.uplink);
            add(&mut sum.downlink, rates.downlink);
        }
    }

    /// Returns the guarantee of a session that counts in one level; zero in levels of other slices.
    fn of(&self, session: SessionIndex, level: usize) -> Rates {
        let (slice, rates) = self.by_session.get(&session).copied().unwrap_or_default();
        match levels_of(slice).any(|at| at == level) {
            true => rates,
            false => Rates::default(),
        }
    }
}

/// Returns the capacity of each level: first for all sessions, then for each slice. An aggregate
/// rate of all sessions or of a slice limits it.
fn capacities(policy: &QosPolicy) -> impl Iterator<Item = Rates> {
    let least = |one: BitRate, other: BitRate| one.min(other);
    let all = Rates {
        uplink: least(policy.gbr_max.uplink, policy.total.uplink),
        downlink: least(policy.gbr_max.downlink, policy.total.downlink),
    };
    core::iter::once(all).chain(policy.slices.iter().map(|slice| slice.rates))
}

/// Returns the levels in which a slice counts: that of all sessions, and its own.
fn levels_of(slice: SliceId) -> impl Iterator<Item = usize> {
    let own = Some(usize::from(slice.0)).filter(|own| *own != 0);
    core::iter::once(0).chain(own)
}

/// Returns the sum of the guarantees of a session's QERs.
fn guarantee_of(qers: &[Qer]) -> Rates {
    let add =
        |sum: BitRate, rate: BitRate| BitRate::from_bps(sum.as_bps().saturating_add(rate.as_bps()));
    qers.iter().filter_map(|qer| qer.gbr).fold(Rates::default(), |sum, gbr| Rates {
        uplink: add(sum.uplink, gbr.uplink),
        downlink: add(sum.downlink, gbr.downlink),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provisioning::Slice;

    fn rates(uplink: u64, downlink: u64) -> Rates {
        Rates { uplink: BitRate::from_kbps(uplink), downlink: BitRate::from_kbps(downlink) }
    }

    fn qers(uplink: u64, downlink: u64) -> Vec<Qer> {
        let qer = |gbr| Qer { gbr, ..Qer::default() };
        vec![qer(Some(rates(uplink, downlink))), qer(None)]
    }

    const NONE: SliceId = SliceId(0);

    fn capacity(uplink: u64, downlink: u64) -> GuaranteedRates {
        GuaranteedRates::new(&QosPolicy {
            gbr_max: rates(uplink, downlink),
            ..QosPolicy::default()
        })
    }

    #[test]
    fn guarantees_are_given_until_the_capacity_of_a_direction_is_used_up() {
        let mut guaranteed = capacity(10, 20);
        let (one, two) = (SessionIndex(1), SessionIndex(2));
        guaranteed.check(one, NONE, &qers(6, 15)).unwrap();
        guaranteed.set(one, NONE, &qers(6, 15));
        guaranteed.check(two, NONE, &qers(4, 5)).unwrap();
        let refused = Err(Refusal::GuaranteedRatesExhausted);
        assert_eq!(guaranteed.check(two, NONE, &qers(5, 0)), refused);
        assert_eq!(guaranteed.check(two, NONE, &qers(0, 6)), refused);
        assert_eq!(guaranteed.check(one, NONE, &qers(11, 0)), refused);
        guaranteed.check(one, NONE, &qers(10, 20)).unwrap();
        guaranteed.set(one, NONE, &[]);
        assert_eq!(guaranteed, capacity(10, 20));
    }

    #[test]
    fn session_keeps_what_it_has_when_the_capacity_is_too_small() {
        let mut guaranteed = capacity(10, 10);
        guaranteed.set(SessionIndex(1), NONE, &qers(15, 15));
        guaranteed.check(SessionIndex(1), NONE, &qers(15, 14)).unwrap();
        guaranteed.check(SessionIndex(2), NONE, &qers(0, 0)).unwrap();
        let more = guaranteed.check(SessionIndex(1), NONE, &qers(16, 1));
        assert_eq!(more, Err(Refusal::GuaranteedRatesExhausted));
    }

    #[test]
    fn slice_guarantees_no_more_than_its_rate() {
        let slice = Slice { s_nssai: None, network_instance: None, rates: rates(5, 5) };
        let total = rates(12, 12);
        let policy = QosPolicy { total, slices: vec![slice], ..QosPolicy::default() };
        let mut guaranteed = GuaranteedRates::new(&policy);
        let (one, two, slice) = (SessionIndex(1), SessionIndex(2), SliceId(1));
        let refused = Err(Refusal::GuaranteedRatesExhausted);
        assert_eq!(guaranteed.check(one, slice, &qers(6, 1)), refused);
        guaranteed.check(one, slice, &qers(5, 1)).unwrap();
        guaranteed.set(one, slice, &qers(5, 1));
        assert_eq!(guaranteed.check(two, NONE, &qers(8, 1)), refused, "beyond the total");
        guaranteed.check(two, NONE, &qers(7, 1)).unwrap();
        guaranteed.set(two, NONE, &qers(7, 1));
        // Moves the session into the slice, where its present rate does not count.
        assert_eq!(guaranteed.check(two, slice, &qers(7, 1)), refused);
        guaranteed.set(one, NONE, &qers(5, 1));
        guaranteed.check(two, slice, &qers(5, 1)).unwrap();
        guaranteed.set(one, NONE, &[]);
        guaranteed.set(two, slice, &[]);
        assert_eq!(guaranteed, GuaranteedRates::new(&policy));
    }
}
