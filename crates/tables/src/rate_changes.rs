//! Notices of changed rules of sessions with rates, so that workers review their queues.
//!
//! A ring that the publisher writes and each worker reads at its own pace. The publisher writes an
//! entry before it swaps the rules: a worker that has the new rules finds the entry.

use adit_rules::DeltaId;
use adit_types::SessionIndex;
use adit_types::limits::RATE_CHANGES_LEN;

use crate::sync::{AtomicU64, Ordering};

/// How many low bits of an entry are the session index; the other 40 are the low bits of the
/// change's [`DeltaId`].
const SESSION_BITS: u32 = 24;

const _: () = assert!(adit_types::limits::SESSIONS_MAX <= 1 << SESSION_BITS);

/// The ring of rate changes.
#[derive(Debug)]
pub(crate) struct RateChangeRing {
    /// How many changes have ever been written.
    count: AtomicU64,
    entries: Box<[AtomicU64]>,
}

/// A change to the rules of a session that has rates before or after the change; while aggregates
/// are configured, a change to any session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateChange {
    /// The session.
    pub session: SessionIndex,
    /// The lower 40 bits of the change's [`DeltaId`].
    change: u64,
}

impl RateChange {
    /// True if rules that the change `generation` published are at least as new as this change.
    #[inline]
    #[must_use]
    pub const fn is_included_in(&self, generation: DeltaId) -> bool {
        // Compared modulo 2^40: the shift brings the sign of the 40-bit difference to bit 63.
        let since = generation.0.wrapping_sub(self.change) << SESSION_BITS;
        since.cast_signed() >= 0
    }
}

/// The result of reading the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRateChange {
    /// There is no further change.
    None,
    /// The next change.
    One(RateChange),
    /// Entries were overwritten before they were read: any session may have changed.
    Lost,
}

impl RateChangeRing {
    pub(crate) fn new() -> Self {
        let entries = (0..RATE_CHANGES_LEN).map(|_| AtomicU64::new(0)).collect();
        Self { count: AtomicU64::new(0), entries }
    }

    /// Writes a change. For the publisher only, before it swaps the rules.
    pub(crate) fn push(&self, session: SessionIndex, DeltaId(change): DeltaId) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(entry) = self.entry(count) {
            let entry_bits = change << SESSION_BITS | u64::from(session.0);
            entry.store(entry_bits, Ordering::Release);
        }
        self.count.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Returns how many changes have ever been written.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the change after the first `seen` changes.
    pub(crate) fn next(&self, seen: u64) -> NextRateChange {
        let ahead = || self.count().wrapping_sub(seen);
        if ahead() == 0 {
            return NextRateChange::None;
        }
        let bits = self.entry(seen).map_or(0, |entry| entry.load(Ordering::Acquire));
        // The ring has been filled since, so the publisher may be overwriting this entry: it counts
        // the new one only afterwards.
        if ahead() >= RATE_CHANGES_LEN as u64 {
            return NextRateChange::Lost;
        }
        let session = u32::try_from(bits & ((1 << SESSION_BITS) - 1)).unwrap_or_default();
        NextRateChange::One(RateChange {
            session: SessionIndex(session),
            change: bits >> SESSION_BITS,
        })
    }

    fn entry(&self, number: u64) -> Option<&AtomicU64> {
        self.entries.get(usize::try_from(number % RATE_CHANGES_LEN as u64).ok()?)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_in_order_until_some_are_lost() {
        let ring = RateChangeRing::new();
        assert_eq!(ring.next(0), NextRateChange::None);
        let first = u64::MAX >> 1;
        for number in 0..3_u32 {
            ring.push(SessionIndex(0xff_ff00 + number), DeltaId(first + u64::from(number)));
        }
        for number in 0..3_u32 {
            let NextRateChange::One(change) = ring.next(number.into()) else { panic!() };
            assert_eq!(change.session, SessionIndex(0xff_ff00 + number));
            let own = DeltaId(first + u64::from(number));
            assert!(change.is_included_in(own) && change.is_included_in(DeltaId(own.0 + 1)));
            assert!(!change.is_included_in(DeltaId(own.0 - 1)));
        }
        assert_eq!(ring.next(3), NextRateChange::None);
        let most = RATE_CHANGES_LEN as u64 - 4;
        (0..most).for_each(|_| ring.push(SessionIndex(0), DeltaId(0)));
        assert!(matches!(ring.next(0), NextRateChange::One(_)));
        ring.push(SessionIndex(0), DeltaId(0));
        assert_eq!(ring.next(0), NextRateChange::Lost);
        assert!(matches!(ring.next(1), NextRateChange::One(_)));
    }
}
