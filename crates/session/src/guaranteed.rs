//! Guaranteed bit rates of all sessions together, and what is left of the capacity for them.

use std::collections::HashMap;

use adit_types::{BitRate, SessionIndex};

use crate::record::{Qer, Rates};
use crate::refusal::Refusal;

/// What sessions were guaranteed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guaranteed {
    capacity: Rates,
    sum: Rates,
    /// Sessions with a guarantee.
    by_session: HashMap<SessionIndex, Rates>,
}

impl Guaranteed {
    /// Nothing guaranteed of `capacity` yet.
    pub fn new(capacity: Rates) -> Self {
        Self { capacity, sum: Rates::default(), by_session: HashMap::new() }
    }

    /// What all sessions are guaranteed.
    pub const fn sum(&self) -> Rates {
        self.sum
    }

    /// What may be guaranteed.
    pub const fn capacity(&self) -> Rates {
        self.capacity
    }

    /// Tells whether a session may have these QERs. One that asks for no more than it has may, even
    /// where the capacity was cut.
    ///
    /// # Errors
    /// [`Refusal::GuaranteedRatesExhausted`]. Spec: TS 29.244 §8.2.9; TS 23.501 §5.7.2.5.
    pub fn check(&self, session: SessionIndex, qers: &[Qer]) -> Result<(), Refusal> {
        let before = self.of(session);
        let after = sum_of(qers);
        let is_over = |rate: fn(Rates) -> BitRate| {
            let [sum, capacity, before, after] =
                [self.sum, self.capacity, before, after].map(|rates| rate(rates).as_bps());
            after > before && sum.saturating_sub(before).saturating_add(after) > capacity
        };
        match is_over(|rates| rates.uplink) || is_over(|rates| rates.downlink) {
            true => Err(Refusal::GuaranteedRatesExhausted),
            false => Ok(()),
        }
    }

    /// A session has these QERs from now on, none when it ends.
    pub fn set(&mut self, session: SessionIndex, qers: &[Qer]) {
        let (before, after) = (self.of(session), sum_of(qers));
        let moved = |sum: BitRate, before: BitRate, after: BitRate| {
            BitRate::from_bps(
                sum.as_bps().saturating_sub(before.as_bps()).saturating_add(after.as_bps()),
            )
        };
        self.sum = Rates {
            uplink: moved(self.sum.uplink, before.uplink, after.uplink),
            downlink: moved(self.sum.downlink, before.downlink, after.downlink),
        };
        if after == Rates::default() {
            self.by_session.remove(&session);
        } else {
            self.by_session.insert(session, after);
        }
    }

    fn of(&self, session: SessionIndex) -> Rates {
        self.by_session.get(&session).copied().unwrap_or_default()
    }
}

/// The guarantees of one session's QERs.
fn sum_of(qers: &[Qer]) -> Rates {
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

    fn rates(uplink: u64, downlink: u64) -> Rates {
        Rates { uplink: BitRate::from_kbps(uplink), downlink: BitRate::from_kbps(downlink) }
    }

    fn qers(uplink: u64, downlink: u64) -> Vec<Qer> {
        let qer = |gbr| Qer { gbr, ..Qer::default() };
        vec![qer(Some(rates(uplink, downlink))), qer(None)]
    }

    #[test]
    fn guarantees_are_given_until_the_capacity_of_a_direction_is_used_up() {
        let mut guaranteed = Guaranteed::new(rates(10, 20));
        let (one, two) = (SessionIndex(1), SessionIndex(2));
        guaranteed.check(one, &qers(6, 15)).unwrap();
        guaranteed.set(one, &qers(6, 15));
        guaranteed.check(two, &qers(4, 5)).unwrap();
        let refused = Err(Refusal::GuaranteedRatesExhausted);
        assert_eq!(guaranteed.check(two, &qers(5, 0)), refused);
        assert_eq!(guaranteed.check(two, &qers(0, 6)), refused);
        assert_eq!(guaranteed.check(one, &qers(11, 0)), refused);
        guaranteed.check(one, &qers(10, 20)).unwrap();
        guaranteed.set(one, &[]);
        assert_eq!(guaranteed, Guaranteed::new(rates(10, 20)));
    }

    #[test]
    fn session_keeps_what_it_has_when_the_capacity_is_too_small() {
        let mut guaranteed = Guaranteed::new(rates(10, 10));
        guaranteed.set(SessionIndex(1), &qers(15, 15));
        guaranteed.check(SessionIndex(1), &qers(15, 14)).unwrap();
        guaranteed.check(SessionIndex(2), &qers(0, 0)).unwrap();
        let more = guaranteed.check(SessionIndex(1), &qers(16, 1));
        assert_eq!(more, Err(Refusal::GuaranteedRatesExhausted));
    }
}
