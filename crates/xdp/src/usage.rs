//! Counters and budgets of entries.
//!
//! The word of a budget only decreases between two grants: by the octets that the program forwards. So the octets of an
//! entry are a base, which the session's worker keeps, less this word. A grant adds to both.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use adit_rules::{OffloadCounts, OffloadUsage};
use adit_types::{Nanos, SessionIndex};

use crate::layout::{BUDGET_BITS, ENTRY_WORDS, head, word};
use crate::mapped::{MappedArray, coarse_ns};

/// Words of an account: its version, which is odd during a grant, and the base.
const ACCOUNT_WORDS: usize = 2;

/// Attempts to read an account between two grants: a grant takes nanoseconds, unless its worker lost its core.
const READ_ATTEMPTS: u32 = 10_000;

/// The largest budget.
const BUDGET_MAX: u64 = (1 << BUDGET_BITS) - 1;

/// The entries of all sessions, as control thread and workers use them.
#[derive(Debug)]
pub(crate) struct XdpUsage {
    pub(crate) entries: Arc<MappedArray>,
    accounts: MappedArray,
    /// What is added to a moment of the coarse monotonic clock, modulo 2^64.
    clock: AtomicU64,
}

/// The words of one entry.
pub(crate) type EntryCell = [AtomicU64; ENTRY_WORDS];

impl XdpUsage {
    /// For the entries of `sessions` sessions.
    pub(crate) fn new(entries: Arc<MappedArray>, sessions: usize) -> std::io::Result<Self> {
        let accounts = MappedArray::private(sessions * 2 * ACCOUNT_WORDS)?;
        Ok(Self { entries, accounts, clock: AtomicU64::new(0) })
    }

    /// Relates the clock of the program to that of the caller, at this moment.
    pub(crate) fn set_now(&self, now: Nanos) {
        self.clock.store(now.0.wrapping_sub(coarse_ns()), Ordering::Relaxed);
    }

    /// The entry of a direction, uplink first.
    pub(crate) fn entry(&self, session: SessionIndex, direction: usize) -> Option<&EntryCell> {
        let at = (session.0 as usize).checked_mul(2)?.checked_add(direction)?;
        self.entries.words().as_chunks().0.get(at)
    }

    fn account(&self, session: SessionIndex, direction: usize) -> Option<&[AtomicU64; 2]> {
        let at = (session.0 as usize).checked_mul(2)?.checked_add(direction)?;
        self.accounts.words().as_chunks().0.get(at)
    }

    /// Octets that an entry counted.
    fn bytes(&self, session: SessionIndex, direction: usize) -> u64 {
        let Some((entry, [version, base])) =
            self.entry(session, direction).zip(self.account(session, direction))
        else {
            return 0;
        };
        let read = || {
            base.load(Ordering::Acquire).wrapping_sub(entry[word::BUDGET].load(Ordering::Acquire))
        };
        for _ in 0..READ_ATTEMPTS {
            let before = version.load(Ordering::Acquire);
            let bytes = read();
            core::sync::atomic::fence(Ordering::Acquire);
            if before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before {
                return bytes;
            }
            core::hint::spin_loop();
        }
        read()
    }

    /// Replaces the budget of an entry that is active and limited. For one writer at a time.
    fn set_budget(&self, session: SessionIndex, direction: usize, bytes: u64) {
        let Some((entry, [version, base])) =
            self.entry(session, direction).zip(self.account(session, direction))
        else {
            return;
        };
        let head = entry[word::HEAD].load(Ordering::Acquire);
        if !is_limited(head) {
            return;
        }
        let budget = (head & head::NUMBER) << BUDGET_BITS | bytes.min(BUDGET_MAX);
        let cell = &entry[word::BUDGET];
        if bytes == 0 && cell.load(Ordering::Relaxed) == budget {
            return;
        }
        let odd = version.load(Ordering::Relaxed).wrapping_add(1);
        version.store(odd, Ordering::Relaxed);
        core::sync::atomic::fence(Ordering::Release);
        let former = cell.swap(budget, Ordering::AcqRel);
        let more = budget.wrapping_sub(former);
        base.store(base.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        version.store(odd.wrapping_add(1), Ordering::Release);
    }
}

const fn is_limited(head: u64) -> bool {
    let both = head::ACTIVE | head::LIMITED;
    head & both == both
}

impl OffloadUsage for XdpUsage {
    fn counted(&self, session: SessionIndex) -> OffloadCounts {
        let (Some(uplink), Some(downlink)) = (self.entry(session, 0), self.entry(session, 1))
        else {
            return OffloadCounts::default();
        };
        let pkts = |entry: &EntryCell| entry[word::PKTS].load(Ordering::Relaxed);
        let last = |entry: &EntryCell| entry[word::LAST].load(Ordering::Relaxed);
        let clock = self.clock.load(Ordering::Relaxed);
        let last = last(uplink).max(last(downlink));
        OffloadCounts {
            ul_pkts: pkts(uplink),
            ul_bytes: self.bytes(session, 0),
            dl_pkts: pkts(downlink),
            dl_bytes: self.bytes(session, 1),
            last: (last != 0).then(|| Nanos(last.wrapping_add(clock))),
        }
    }

    fn limited_entries(&self, session: SessionIndex) -> u64 {
        let is_limited = |direction| {
            let entry = self.entry(session, direction);
            entry.is_some_and(|entry| is_limited(entry[word::HEAD].load(Ordering::Acquire)))
        };
        u64::from(is_limited(0)) + u64::from(is_limited(1))
    }

    fn take_back(&self, session: SessionIndex) {
        self.grant(session, 0);
    }

    fn grant(&self, session: SessionIndex, bytes: u64) {
        self.set_budget(session, 0, bytes);
        self.set_budget(session, 1, bytes);
    }
}
