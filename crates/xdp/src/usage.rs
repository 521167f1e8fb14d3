//! Counters and budgets of entries.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use adit_rules::{OffloadCounts, OffloadUsage};
use adit_types::{Nanos, SessionIndex};

use crate::account::{ACCOUNT_WORDS, EntryBudget, divide};
use crate::layout::{ENTRY_WORDS, word};
use crate::mapped::{MappedArray, coarse_ns};

/// The entries of all sessions, for the control thread and the workers.
#[derive(Debug)]
pub(crate) struct XdpUsage {
    pub(crate) entries: Arc<MappedArray>,
    accounts: MappedArray,
    /// The offset to add to a time of the coarse monotonic clock, modulo 2^64.
    clock: AtomicU64,
}

/// The words of one entry, which the program also accesses.
pub(crate) type EntryCell = [AtomicU64; ENTRY_WORDS];

impl XdpUsage {
    /// Creates the accounts for the entries of `sessions` sessions.
    pub(crate) fn new(entries: Arc<MappedArray>, sessions: usize) -> std::io::Result<Self> {
        let accounts = MappedArray::private(sessions * 2 * ACCOUNT_WORDS)?;
        Ok(Self { entries, accounts, clock: AtomicU64::new(0) })
    }

    /// Relates the program's clock to the caller's, whose present time is `now`.
    pub(crate) fn set_now(&self, now: Nanos) {
        self.clock.store(now.0.wrapping_sub(coarse_ns()), Ordering::Relaxed);
    }

    /// Returns the entry of a direction; 0 is uplink.
    pub(crate) fn entry(&self, session: SessionIndex, direction: usize) -> Option<&EntryCell> {
        self.entries.words().as_chunks().0.get(position(session, direction)?)
    }

    /// Returns the budgets of both directions, uplink first.
    fn budgets(&self, session: SessionIndex) -> Option<[EntryBudget<'_>; 2]> {
        let budget = |direction: usize| {
            let account = self.accounts.words().as_chunks().0.get(position(session, direction)?)?;
            let entry = self.entry(session, direction)?;
            Some(EntryBudget { head: &entry[word::HEAD], budget: &entry[word::BUDGET], account })
        };
        Some([budget(0)?, budget(1)?])
    }
}

/// Returns the index of the entry of a direction, and of its account.
fn position(session: SessionIndex, direction: usize) -> Option<usize> {
    (session.0 as usize).checked_mul(2)?.checked_add(direction)
}

impl OffloadUsage for XdpUsage {
    fn counted(&self, session: SessionIndex) -> OffloadCounts {
        let (Some(uplink), Some(downlink), Some(budgets)) =
            (self.entry(session, 0), self.entry(session, 1), self.budgets(session))
        else {
            return OffloadCounts::default();
        };
        let pkts = |entry: &EntryCell| entry[word::PKTS].load(Ordering::Relaxed);
        let last = |entry: &EntryCell| entry[word::LAST].load(Ordering::Relaxed);
        let clock = self.clock.load(Ordering::Relaxed);
        let last = last(uplink).max(last(downlink));
        let [ul_bytes, dl_bytes] = budgets.each_ref().map(EntryBudget::octets);
        OffloadCounts {
            ul_pkts: pkts(uplink),
            ul_bytes,
            dl_pkts: pkts(downlink),
            dl_bytes,
            last: (last != 0).then(|| Nanos(last.wrapping_add(clock))),
        }
    }

    fn take_back(&self, session: SessionIndex) {
        self.divide(session, 0, 0);
    }

    fn divide(&self, session: SessionIndex, more: u64, others: u64) -> u64 {
        self.budgets(session).map_or(0, |budgets| divide(&budgets, more, others))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::layout::{BUDGET_BITS, head};

    const SESSION: SessionIndex = SessionIndex(0);
    const PACKET: u64 = 50;
    /// Octets that a session may use between two divisions.
    const MORE: u64 = 12_000;

    /// Returns how long the threads run: `ADIT_XDP_S` seconds, or two.
    fn lasts() -> Duration {
        let seconds = std::env::var("ADIT_XDP_S").ok().map(|text| text.parse().unwrap());
        Duration::from_secs(seconds.unwrap_or(2))
    }

    /// Does what the program does for a packet: see `charge` in `bpf/forward.bpf.c`.
    fn charge(entry: &EntryCell) -> bool {
        let head = entry[word::HEAD].load(Ordering::Acquire);
        let budget = entry[word::BUDGET].load(Ordering::Acquire);
        let (number, left) = (budget >> BUDGET_BITS, budget & ((1 << BUDGET_BITS) - 1));
        head & head::ACTIVE != 0
            && number == head & head::NUMBER
            && left > PACKET
            && entry[word::BUDGET]
                .compare_exchange(budget, budget - PACKET, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    fn used(usage: &XdpUsage) -> u64 {
        let OffloadCounts { ul_bytes, dl_bytes, .. } = usage.counted(SESSION);
        ul_bytes + dl_bytes
    }

    /// The control thread adds and removes entries, the program forwards, the worker divides, and
    /// another thread reads, all at once.
    #[test]
    fn volume_is_exact_whatever_the_control_thread_does_between_two_divisions() {
        let entries = Arc::new(MappedArray::private(2 * ENTRY_WORDS).unwrap());
        let usage = XdpUsage::new(entries, 1).unwrap();
        let (is_over, forwarded) = (AtomicBool::new(false), AtomicU64::new(0));
        let goes_on = || !is_over.load(Ordering::Relaxed);
        let cells = [0, 1].map(|direction| usage.entry(SESSION, direction).unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                let limited = head::ACTIVE | head::LIMITED;
                for number in (1..head::NUMBERS_END).cycle().take_while(|_| goes_on()) {
                    for cell in cells {
                        cell[word::HEAD].store(number | limited, Ordering::Release);
                    }
                    if number % 3 == 0 {
                        cells[0][word::HEAD].store(number, Ordering::Release);
                    }
                    (0..number % 64).for_each(|_| core::hint::spin_loop());
                }
            });
            scope.spawn(|| {
                while goes_on() {
                    for cell in cells {
                        // Counts before the exchange, so that a concurrent reader may find too
                        // much, but never too little.
                        forwarded.fetch_add(PACKET, Ordering::SeqCst);
                        if !charge(cell) {
                            forwarded.fetch_sub(PACKET, Ordering::SeqCst);
                        }
                    }
                }
            });
            scope.spawn(|| {
                let mut last = 0;
                while goes_on() {
                    let now = used(&usage);
                    assert!(last <= now, "{now} octets after {last}");
                    assert!(now <= forwarded.load(Ordering::SeqCst), "{now} octets");
                    last = now;
                }
            });
            let (began, mut limit, mut divisions) = (Instant::now(), 0, 0);
            while began.elapsed() < lasts() {
                usage.take_back(SESSION);
                let before = used(&usage);
                assert!(before <= limit, "{before} of {limit} octets");
                limit = before + MORE;
                // The two other parts have used their shares, too.
                limit -= 2 * usage.divide(SESSION, MORE, 2);
                divisions += 1;
                (0..divisions % 256).for_each(|_| core::hint::spin_loop());
            }
            is_over.store(true, Ordering::Relaxed);
            println!("{divisions} divisions, {} octets", used(&usage));
        });
        assert!(used(&usage) > 0, "nothing was forwarded");
        assert_eq!(used(&usage), forwarded.into_inner());
    }
}
