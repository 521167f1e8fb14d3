//! Decides which sessions get the entries of an offload that has room for few: those with the most
//! packets per second. A *place* is room for the entries of one session.
//!
//! A session gets a place at one rate, and loses it after some time below a lower rate, so that it
//! does not alternate. If the offload is full, the slowest session with a place loses it to a
//! session of at least twice its rate.

use std::collections::{BTreeMap, BTreeSet};

use adit_rules::OffloadChoice;
use adit_types::{Nanos, SessionIndex};

/// How many times faster a session has to be than the session whose place it takes.
const REPLACING_RATE_FACTOR: u64 = 2;

/// The change that a measurement causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HotChange {
    /// Nothing.
    None,
    /// The session gets a place, which another session (`instead_of`) loses if the offload is full.
    Entered { instead_of: Option<SessionIndex> },
    /// The session loses its place.
    Left,
}

/// A session with a place.
#[derive(Debug, Clone, Copy)]
struct HotSession {
    pps: u64,
    /// Since when its rate has been below [`OffloadChoice::leave_pps`]; `None` if it is not.
    slow_since: Option<Nanos>,
}

/// The sessions with a place, and the measurements of all sessions.
#[derive(Debug)]
pub(crate) struct HotSessions {
    choice: OffloadChoice,
    /// The last measurement of each session: packets in the lower half, milliseconds in the upper
    /// half, both modulo 2^32; zero before the first measurement.
    samples: Vec<u64>,
    hot: BTreeMap<SessionIndex, HotSession>,
    by_rate: BTreeSet<(u64, SessionIndex)>,
}

impl HotSessions {
    pub(crate) fn new(choice: OffloadChoice, sessions: usize) -> Self {
        Self { choice, samples: vec![0; sessions], hot: BTreeMap::new(), by_rate: BTreeSet::new() }
    }

    /// Returns the next session with a place after `session`, cyclically.
    pub(crate) fn next_after(&self, session: SessionIndex) -> Option<SessionIndex> {
        let after = (core::ops::Bound::Excluded(session), core::ops::Bound::Unbounded);
        let next = self.hot.range(after).next().or_else(|| self.hot.iter().next());
        next.map(|(session, _)| *session)
    }

    pub(crate) fn contains(&self, session: SessionIndex) -> bool {
        self.hot.contains_key(&session)
    }

    pub(crate) fn len(&self) -> usize {
        self.hot.len()
    }

    /// Removes a session from those with a place.
    pub(crate) fn remove(&mut self, session: SessionIndex) {
        if let Some(HotSession { pps, .. }) = self.hot.remove(&session) {
            self.by_rate.remove(&(pps, session));
        }
    }

    /// Forgets the measurements of a session whose index another session may get.
    pub(crate) fn forget(&mut self, session: SessionIndex) {
        self.remove(session);
        if let Some(sample) = self.samples.get_mut(session.0 as usize) {
            *sample = 0;
        }
    }

    /// Measures a session that has forwarded `pkts` packets so far; returns the change.
    pub(crate) fn measure(&mut self, session: SessionIndex, pkts: u64, now: Nanos) -> HotChange {
        let Some(pps) = self.rate(session, pkts, now) else { return HotChange::None };
        if self.hot.contains_key(&session) {
            return self.measure_hot(session, pps, now);
        }
        if pps < self.choice.enter_pps {
            return HotChange::None;
        }
        let mut instead_of = None;
        if self.hot.len() >= self.choice.sessions_max {
            let slowest = self.by_rate.first().copied();
            let Some((rate, slowest)) =
                slowest.filter(|(rate, _)| pps / REPLACING_RATE_FACTOR >= *rate)
            else {
                return HotChange::None;
            };
            debug_assert!(rate <= pps, "the slowest");
            self.remove(slowest);
            instead_of = Some(slowest);
        }
        self.hot.insert(session, HotSession { pps, slow_since: None });
        self.by_rate.insert((pps, session));
        HotChange::Entered { instead_of }
    }

    /// Returns the packets per second since the last measurement; `None` before 1 ms has passed.
    fn rate(&mut self, session: SessionIndex, pkts: u64, now: Nanos) -> Option<u64> {
        let sample = self.samples.get_mut(session.0 as usize)?;
        let ms = (now.0 / 1_000_000) & u64::from(u32::MAX);
        let ms = ms.max(1);
        let former = *sample;
        let elapsed = (ms.wrapping_sub(former >> 32)) & u64::from(u32::MAX);
        if former != 0 && elapsed == 0 {
            return None;
        }
        *sample = ms << 32 | pkts & u64::from(u32::MAX);
        let more = pkts.wrapping_sub(former) & u64::from(u32::MAX);
        (former != 0).then(|| more * 1000 / elapsed)
    }

    fn measure_hot(&mut self, session: SessionIndex, pps: u64, now: Nanos) -> HotChange {
        let Some(hot) = self.hot.get_mut(&session) else { return HotChange::None };
        self.by_rate.remove(&(hot.pps, session));
        self.by_rate.insert((pps, session));
        hot.pps = pps;
        if pps >= self.choice.leave_pps {
            hot.slow_since = None;
            return HotChange::None;
        }
        let since = *hot.slow_since.get_or_insert(now);
        if now.since(since) < self.choice.calm {
            return HotChange::None;
        }
        self.remove(session);
        HotChange::Left
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHOICE: OffloadChoice = OffloadChoice {
        sessions_max: 3,
        enter_pps: 1000,
        leave_pps: 500,
        calm: Nanos::from_secs(2),
        scan: Nanos::from_secs(1),
        watch: Nanos::from_secs(1),
        watch_bytes: 0,
    };

    /// Measures sessions once per second: a row has their rates in it. Returns the changes.
    fn run(seconds: &[Vec<u64>]) -> Vec<(usize, SessionIndex, HotChange)> {
        let mut hot = HotSessions::new(CHOICE, 8);
        let mut pkts = [0_u64; 8];
        let mut changes = Vec::new();
        for (second, rates) in seconds.iter().enumerate() {
            for (session, rate) in (0..).map(SessionIndex).zip(rates) {
                let sum = &mut pkts[session.0 as usize];
                *sum += rate;
                let now = Nanos::from_secs(1 + second as u64);
                let change = hot.measure(session, *sum, now);
                assert!(hot.len() <= CHOICE.sessions_max && hot.len() == hot.by_rate.len());
                if change != HotChange::None {
                    changes.push((second, session, change));
                }
            }
        }
        changes
    }

    #[test]
    fn session_enters_at_once_and_leaves_after_it_was_slow_for_a_while() {
        let of = |rates: &[u64]| rates.iter().map(|rate| vec![*rate]).collect::<Vec<_>>();
        let entered = (1, SessionIndex(0), HotChange::Entered { instead_of: None });
        assert_eq!(run(&of(&[0, 999, 999, 999])), []);
        assert_eq!(run(&of(&[0, 1000, 500, 500, 500, 500, 500])), [entered]);
        assert_eq!(run(&of(&[0, 1000, 499, 499, 500, 499, 499])), [entered]);
        let left = (4, SessionIndex(0), HotChange::Left);
        assert_eq!(run(&of(&[0, 1000, 499, 499, 499])), [entered, left]);
    }

    #[test]
    fn full_offload_gives_a_place_to_who_is_twice_as_fast() {
        let idle = vec![0; 5];
        let full = vec![4000, 2000, 3000, 3999, 0];
        let fast = vec![4000, 2000, 3000, 4000, 0];
        let changes = run(&[idle, full.clone(), full, fast]);
        let entered = |session| (1, SessionIndex(session), HotChange::Entered { instead_of: None });
        let replaced = HotChange::Entered { instead_of: Some(SessionIndex(1)) };
        let last = (3, SessionIndex(3), replaced);
        assert_eq!(changes, [entered(0), entered(1), entered(2), last]);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "hundreds of random courses of arithmetic take minutes there")]
        fn places_are_bounded_and_steady_rates_change_nothing(
            seconds in prop::collection::vec(prop::collection::vec(0_u64..8000, 8), 1..30),
            last in prop::collection::vec(0_u64..8000, 8),
        ) {
            let mut seconds = seconds;
            let changing = seconds.len();
            // By then the last rates were measured, and slow sessions have lost their places.
            let settled = changing + 4;
            seconds.extend(std::iter::repeat_n(last, 20));
            let changes = run(&seconds);
            prop_assert!(changes.iter().all(|(second, ..)| *second <= settled), "{changes:?}");
        }
    }
}
