//! The budget of an entry. Four parties use it: the program consumes it, the worker grants it, the
//! control thread writes the entry, and other threads read the counts.
//!
//! Between two grants the budget's word only decreases, by the octets that the program forwards. So
//! the octets of an entry are a base, which the session's worker keeps, less this word. A grant
//! adds to both.
//!
//! `crates/tables/tests/loom_publish.rs` explores the interleavings of this file.

use adit_rules::share_per_part;

use super::layout::{BUDGET_BITS, head};
use super::sync::{AtomicU64, Ordering, fence};

/// Words of an account: a version, which is odd during a grant; the base; and the largest number of
/// octets read so far.
pub(crate) const ACCOUNT_WORDS: usize = 3;

/// Maximum number of attempts to read an account. A grant takes nanoseconds, unless the worker is
/// preempted during it.
const READ_ATTEMPTS: u32 = if cfg!(loom) { 1 } else { 64 };

/// Maximum budget. Unit: octets.
const BUDGET_MAX: u64 = (1 << BUDGET_BITS) - 1;

/// Head and budget of an entry, and its account.
pub(crate) struct EntryBudget<'a> {
    pub head: &'a AtomicU64,
    pub budget: &'a AtomicU64,
    pub account: &'a [AtomicU64; ACCOUNT_WORDS],
}

impl EntryBudget<'_> {
    /// Returns the octets that the entry has counted. If a grant does not end meanwhile, returns
    /// the largest number that was read before.
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

    /// Returns the number of the entry, if it is active and limited.
    fn limited_number(&self) -> Option<u64> {
        let both = head::ACTIVE | head::LIMITED;
        let head = self.head.load(Ordering::Acquire);
        (head & both == both).then_some(head & head::NUMBER)
    }

    /// Replaces the budget: the program may forward less than `octets` more for the entry with
    /// `number`. Only one thread may call this at a time.
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

/// Implements [`OffloadUsage::divide`]. An entry that is replaced meanwhile has no budget, because
/// it has another number than the one granted to.
///
/// [`OffloadUsage::divide`]: adit_rules::OffloadUsage::divide
pub(crate) fn divide(entries: &[EntryBudget<'_>; 2], more: u64, others: u64) -> u64 {
    let numbers = entries.each_ref().map(EntryBudget::limited_number);
    let parts = numbers.iter().flatten().fold(others, |parts, _| parts + 1);
    let share = share_per_part(more, parts);
    for (entry, number) in entries.iter().zip(numbers) {
        if let Some(number) = number {
            entry.replace(number, share);
        }
    }
    share
}
