//! The budget of an entry, between the program that uses it, the worker that grants it, the control
//! thread that puts the entry, and readers of the counts.
//!
//! The word of a budget only decreases between two grants: by the octets that the program forwards.
//! So the octets of an entry are a base, which the session's worker keeps, less this word. A grant
//! adds to both.
//!
//! `crates/tables/tests/loom_publish.rs` explores the interleavings of this file.

use adit_rules::share_of;

use super::layout::{BUDGET_BITS, head};
use super::sync::{AtomicU64, Ordering, fence};

/// Words of an account: its version, which is odd during a grant; the base; and the largest reading
/// so far.
pub(crate) const ACCOUNT_WORDS: usize = 3;

/// Attempts to read an account between two grants: a grant takes nanoseconds, unless its worker
/// lost its core.
const READ_ATTEMPTS: u32 = if cfg!(loom) { 1 } else { 64 };

/// The largest budget.
const BUDGET_MAX: u64 = (1 << BUDGET_BITS) - 1;

/// An entry's head and budget, and its account.
pub(crate) struct EntryBudget<'a> {
    pub head: &'a AtomicU64,
    pub budget: &'a AtomicU64,
    pub account: &'a [AtomicU64; ACCOUNT_WORDS],
}

impl EntryBudget<'_> {
    /// Octets that the entry counted: of now, or, while a grant does not end, the largest number
    /// that was read before.
    pub(crate) fn octets(&self) -> u64 {
        let [version, base, last] = self.account;
        for _ in 0..READ_ATTEMPTS {
            let before = version.load(Ordering::Acquire);
            let based = base.load(Ordering::Relaxed);
            let octets = based.wrapping_sub(self.budget.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before {
                return last.fetch_max(octets, Ordering::Relaxed).max(octets);
            }
            core::hint::spin_loop();
        }
        last.load(Ordering::Relaxed)
    }

    /// The number of the entry, if it is active and limited.
    fn limited_number(&self) -> Option<u64> {
        let both = head::ACTIVE | head::LIMITED;
        let head = self.head.load(Ordering::Acquire);
        (head & both == both).then_some(head & head::NUMBER)
    }

    /// Replaces the budget by one of the entry with `number`, of which the program forwards less
    /// than `octets`. For one writer at a time.
    fn replace(&self, number: u64, octets: u64) {
        let budget = number << BUDGET_BITS | octets.min(BUDGET_MAX);
        if octets == 0 && self.budget.load(Ordering::Relaxed) == budget {
            return;
        }
        let [version, base, _] = self.account;
        let odd = version.load(Ordering::Relaxed).wrapping_add(1);
        version.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        let former = self.budget.swap(budget, Ordering::AcqRel);
        let more = budget.wrapping_sub(former);
        base.store(base.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        version.store(odd.wrapping_add(1), Ordering::Release);
    }
}

/// See [`OffloadUsage::divide`]. An entry that is put meanwhile has no budget: its number is
/// another one.
///
/// [`OffloadUsage::divide`]: adit_rules::OffloadUsage::divide
pub(crate) fn divide(entries: &[EntryBudget<'_>; 2], more: u64, others: u64) -> u64 {
    let numbers = entries.each_ref().map(EntryBudget::limited_number);
    let parts = numbers.iter().flatten().fold(others, |parts, _| parts + 1);
    let share = share_of(more, parts);
    for (entry, number) in entries.iter().zip(numbers) {
        if let Some(number) = number {
            entry.replace(number, share);
        }
    }
    share
}
