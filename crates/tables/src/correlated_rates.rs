//! Correlated rates: buckets that sessions share by QER Correlation ID.
//!
//! A correlated rate is one atomic word per direction, charged by compare-exchange: workers share
//! it without leases, and every octet is charged. Only the few sessions of a UE share it, so
//! workers seldom contend. While published rules name it, it has an index (`number`).

use std::collections::HashMap;

use adit_rules::{Bucket, CorrelatedRateId, RateLimit, SharedBucket};
use adit_types::limits::correlated_rates_max;
use adit_types::{Direction, Nanos};

use crate::counters::Counter;
use crate::large::LargeArray;
use crate::sync::{AtomicU64, MadeOnce, Ordering};

/// One direction of a correlated rate.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C)]
struct SharedCell {
    /// [`SharedBucket`].
    due: AtomicU64,
    /// How many QERs of published rules name the rate, including rules that a worker may still run.
    /// Written by the control thread.
    users: Counter,
}

/// The buckets of all correlated rates. Allocated when the first rate is used.
#[derive(Debug)]
pub(crate) struct CorrelatedRateTable {
    capacity: usize,
    cells: MadeOnce<LargeArray<[SharedCell; 2]>>,
}

impl CorrelatedRateTable {
    pub(crate) fn new(sessions_max: usize) -> Self {
        Self { capacity: correlated_rates_max(sessions_max), cells: MadeOnce::new() }
    }

    /// True once there has been a correlated rate.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.cells.get().is_some()
    }

    /// Returns the bucket of one direction of the rate with index `number`.
    #[inline]
    pub(crate) fn get(&self, number: usize, direction: Direction) -> Option<CorrelatedRate<'_>> {
        let [uplink, downlink] = self.cells.get()?.get(number)?;
        Some(match direction {
            Direction::Uplink => CorrelatedRate(uplink),
            Direction::Downlink => CorrelatedRate(downlink),
        })
    }
}

/// Assigns the indexes of correlated rates. Belongs to the publisher.
#[derive(Debug, Default)]
pub(crate) struct CorrelatedRateIndexes {
    numbered: HashMap<CorrelatedRateId, IndexedRate>,
    /// Indexes that were assigned before and are free now.
    free: Vec<usize>,
}

#[derive(Debug)]
struct IndexedRate {
    number: usize,
    users: u64,
}

impl CorrelatedRateIndexes {
    /// Counts a QER that names a rate, and returns its index; `None` if there are too many rates.
    pub(crate) fn acquire(
        &mut self,
        table: &CorrelatedRateTable,
        id: CorrelatedRateId,
    ) -> Option<usize> {
        let cells = table.cells.get_or_init(|| LargeArray::zeroed(table.capacity));
        if !self.numbered.contains_key(&id) {
            // Every index ever assigned is in use or free.
            let assigned = self.numbered.len() + self.free.len();
            let number =
                self.free.pop().or_else(|| (assigned < table.capacity).then_some(assigned))?;
            for cell in cells.get(number)? {
                cell.due.store(0, Ordering::Relaxed);
            }
            self.numbered.insert(id, IndexedRate { number, users: 0 });
        }
        let known = self.numbered.get_mut(&id)?;
        known.users += 1;
        cells.get(known.number)?.iter().for_each(|cell| cell.users.set(known.users));
        Some(known.number)
    }

    /// Returns the index of a rate, or `None` if no QER names the rate.
    pub(crate) fn number(&self, id: CorrelatedRateId) -> Option<usize> {
        self.numbered.get(&id).map(|known| known.number)
    }

    /// Releases a rate for one QER that no worker uses; frees the index after the last QER.
    pub(crate) fn release(&mut self, table: &CorrelatedRateTable, id: CorrelatedRateId) {
        let Some(known) = self.numbered.get_mut(&id) else { return };
        known.users -= 1;
        if let Some(cells) = table.cells.get().and_then(|cells| cells.get(known.number)) {
            cells.iter().for_each(|cell| cell.users.set(known.users));
        }
        if known.users == 0 {
            self.free.push(known.number);
            self.numbered.remove(&id);
        }
    }
}

/// One direction of a correlated rate, as workers use it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CorrelatedRate<'a>(&'a SharedCell);

impl CorrelatedRate<'_> {
    /// Returns the bucket at `now`, without debt that `limit` cannot have caused.
    #[inline]
    pub(crate) fn bucket(self, limit: RateLimit, now: Nanos) -> Bucket {
        SharedBucket(self.0.due.load(Ordering::Relaxed)).at(limit, now)
    }

    /// Charges a packet of `bytes` octets. Returns the bucket after it.
    ///
    /// Another worker may have charged the bucket since this one found it open. Then the bucket is
    /// ahead by one more packet per worker and opens that much later; every packet is charged.
    pub(crate) fn charge(self, limit: RateLimit, now: Nanos, bytes: u16) -> Bucket {
        let mut seen = self.0.due.load(Ordering::Relaxed);
        loop {
            let after = SharedBucket(seen).after(limit, now, bytes);
            let due = &self.0.due;
            match due.compare_exchange_weak(seen, after.0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return after.at(limit, now),
                Err(other) => seen = other,
            }
        }
    }

    /// Returns how many QERs share the rate; QERs of old rules count until no worker runs these.
    pub(crate) fn qer_count(self) -> u64 {
        self.0.users.load()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use adit_rules::Excess;
    use adit_types::BitRate;

    use super::*;

    const ID: CorrelatedRateId = CorrelatedRateId { cp: 1, correlation: 7 };

    #[test]
    fn rate_keeps_its_number_while_a_qer_names_it() {
        let (table, mut numbers) = (CorrelatedRateTable::new(2), CorrelatedRateIndexes::default());
        let other_cp = CorrelatedRateId { cp: 2, ..ID };
        assert!(table.get(0, Direction::Uplink).is_none());
        let first = numbers.acquire(&table, ID).unwrap();
        assert_eq!(numbers.acquire(&table, ID), Some(first));
        assert_ne!(numbers.acquire(&table, other_cp), Some(first));
        assert_eq!(numbers.acquire(&table, CorrelatedRateId { cp: 3, ..ID }), None, "no room");
        let limit = RateLimit::new(BitRate::from_kbps(8), Nanos(0), Excess::Policed);
        let now = Nanos::from_secs(1);
        let uplink = table.get(first, Direction::Uplink).unwrap();
        uplink.charge(limit, now, 1500);
        assert!(!uplink.bucket(limit, now).is_open(limit, now));
        numbers.release(&table, ID);
        assert_eq!((numbers.number(ID), uplink.qer_count()), (Some(first), 1));
        numbers.release(&table, ID);
        assert_eq!((numbers.number(ID), uplink.qer_count()), (None, 0));
        assert_eq!(numbers.acquire(&table, CorrelatedRateId { cp: 3, ..ID }), Some(first));
        assert!(uplink.bucket(limit, now).is_open(limit, now), "it begins anew");
    }

    /// Threads charge one rate at the same times of a simulated clock: every octet that passed is
    /// charged, and the threads exceed the rate by at most its depth and one packet each.
    #[test]
    fn threads_share_a_rate_without_loss() {
        const THREADS: usize = 4;
        const ROUNDS: u64 = if cfg!(miri) { 3 } else { 2000 };
        const LEN: u16 = 1500;
        let (table, mut numbers) = (CorrelatedRateTable::new(2), CorrelatedRateIndexes::default());
        let number = numbers.acquire(&table, ID).unwrap();
        // An octet takes exactly 80 ns; the depth is a whole number of octets.
        let depth = Nanos(160 << 16);
        let limit = RateLimit::new(BitRate::from_kbps(100_000), depth, Excess::Shaped);
        let start = Nanos::from_secs(1);
        let round = Nanos::from_millis(1);
        let barrier = Barrier::new(THREADS);
        let run = || {
            let shared = table.get(number, Direction::Uplink).unwrap();
            let (mut now, mut bytes) = (start, 0);
            for _ in 0..ROUNDS {
                barrier.wait();
                while shared.bucket(limit, now).is_open(limit, now) {
                    shared.charge(limit, now, LEN);
                    bytes += u64::from(LEN);
                }
                barrier.wait();
                now += round;
            }
            bytes
        };
        let bytes: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let end = start + Nanos(round.0 * (ROUNDS - 1));
        let due = table.get(number, Direction::Uplink).unwrap().bucket(limit, end).due;
        assert_eq!(bytes * 80, due - start.0, "octets that passed, and were paid for");
        let (least, packet) = (end.0 - start.0 + depth.0, u64::from(LEN) * 80);
        assert!((least..=least + THREADS as u64 * packet).contains(&(bytes * 80)), "{bytes}");
    }
}
