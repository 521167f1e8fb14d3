//! A hash table for keys that other parties choose: TEIDs of the SMF, UE addresses, on-link hosts.
//!
//! One writer, many readers, no locks. Buckets are cache lines of five entries; overflow buckets
//! form a chain after them. Entries never move, so readers never miss a key that stays. The writer
//! reuses the slot of a removed entry only after every reader has passed a quiescent state, so a
//! reader that matched a key cannot read the value of another key.

use core::fmt;
use core::ops::Range;
use std::collections::VecDeque;

use adit_types::SessionIndex;

use crate::hash::KeyHash;
use crate::large::LargeArray;
use crate::prefetch;
use crate::publish::Epoch;
use crate::sync::{Arc, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Entries per bucket: five keys of 8 octets, five values of 4, and the chain link are 64 octets.
const BUCKET_SLOTS: usize = 5;

/// The mask of a bucket whose slots are all free.
const ALL_FREE: u8 = (1 << BUCKET_SLOTS) - 1;

/// The key of an empty entry: no TEID, no IPv4 address, and as an IPv6 /64 a multicast prefix.
const EMPTY: u64 = u64::MAX;

/// Most overflow buckets in a chain. At half load a bucket holds 2.5 keys on average (Poisson): the
/// probability that one of 2^24 buckets holds more than 25 is below 10^-9.
const CHAIN_MAX: usize = 4;

/// Stands for the value of a missing key.
const NONE: u32 = u32::MAX;

#[derive(Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
struct KeyBucket {
    /// The complements of the keys, so that an entry of zeros is empty.
    keys: [AtomicU64; BUCKET_SLOTS],
    values: [AtomicU32; BUCKET_SLOTS],
    /// Index of the next bucket of the chain; zero ends it (bucket 0 never is an overflow bucket).
    next: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<KeyBucket>() == 64, "one bucket is one cache line");

impl KeyBucket {
    /// Returns the slot of `key`, or `None`.
    ///
    /// PERF (tables/lookup): compares all keys of a bucket, so no branch depends on the position of
    /// the match.
    #[inline]
    fn position(&self, key: u64) -> Option<usize> {
        let found = (0..).zip(&self.keys).fold(0_u32, |found, (at, cell)| {
            found | u32::from(cell.load(Ordering::Acquire) == !key) << at
        });
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    /// Returns the index of the next bucket of the chain, or `None` at its end.
    #[inline]
    fn next(&self) -> Option<usize> {
        let next = self.next.load(Ordering::Acquire);
        (next != 0).then_some(next as usize)
    }
}

/// Why a table refused a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRefused {
    /// The key is the reserved value `u64::MAX`.
    Reserved,
    /// Neither the key's bucket nor the overflow buckets have room.
    Full,
}

/// The readers' side of a table of `u64` keys and `u32` values.
pub struct KeyTable {
    /// First the buckets that hashes select, then the overflow buckets.
    buckets: LargeArray<KeyBucket>,
    /// Number of buckets that hashes select.
    homes: u64,
    hash: KeyHash,
    len: AtomicUsize,
}

impl KeyTable {
    /// Returns the number of keys in the table.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// True if the table has no key.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the hash function of this table.
    pub(crate) fn hash(&self) -> &KeyHash {
        &self.hash
    }

    /// Returns the value of `key`, or `None` if it is missing.
    #[inline]
    #[must_use]
    pub fn lookup(&self, key: u64) -> Option<u32> {
        let value = self.lookup_from(self.first_bucket(key), key);
        (value != NONE).then_some(value)
    }

    /// Prefetches the bucket of `key`.
    #[inline]
    pub fn prefetch(&self, key: u64) {
        prefetch::read(&self.buckets[self.first_bucket(key)]);
    }

    /// Returns the session of `key`, or `SessionIndex::NONE` if the key is missing.
    ///
    /// Cost:    one bucket, and the chain after it if it is full. No allocation.
    /// Threads: any reader; a key that stays in the table is never missed.
    #[inline]
    #[must_use]
    pub fn session(&self, key: u64) -> SessionIndex {
        SessionIndex(self.lookup_from(self.first_bucket(key), key))
    }

    /// Returns the index of the bucket where the chain of `key` begins.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "below the number of buckets")]
    fn first_bucket(&self, key: u64) -> usize {
        ((u128::from(self.hash.hash(key)) * u128::from(self.homes)) >> 64) as usize
    }

    #[inline]
    fn lookup_from(&self, home: usize, key: u64) -> u32 {
        if key == EMPTY {
            return NONE;
        }
        let mut bucket = &self.buckets[home];
        for _ in 0..=CHAIN_MAX {
            if let Some(slot) = bucket.position(key) {
                return bucket.values[slot].load(Ordering::Relaxed);
            }
            let Some(next) = bucket.next() else { return NONE };
            bucket = &self.buckets[next];
        }
        NONE
    }
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyTable")
            .field("buckets", &self.buckets.len())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Memory that is free once all readers have passed a quiescent state.
#[derive(Debug, Clone, Copy)]
enum RetiredKey {
    /// An entry of `bucket`, whose chain begins at `home`.
    Slot { home: usize, bucket: usize, slot: usize },
    /// An overflow bucket that was removed from its chain.
    Bucket(usize),
}

/// The writer's side of a [`KeyTable`].
#[derive(Debug)]
pub struct KeyWriter {
    table: Arc<KeyTable>,
    /// By bucket: bit n is set if slot n may be filled.
    free: Vec<u8>,
    /// Overflow buckets that were removed from a chain.
    spare: Vec<usize>,
    /// Overflow buckets that have never been in a chain.
    fresh: Range<usize>,
    retired: VecDeque<(Epoch, RetiredKey)>,
}

impl KeyWriter {
    /// Creates an empty table that holds `capacity` keys at half load. `seed` is random and secret;
    /// `table` identifies the table among those of the same seed.
    #[must_use]
    pub fn new(capacity: usize, seed: u64, table: u64) -> Self {
        let primary = capacity.saturating_mul(2).div_ceil(BUCKET_SLOTS).max(2);
        let total = primary + primary / 4 + 8;
        let table = KeyTable {
            buckets: LargeArray::zeroed(total),
            homes: primary as u64,
            hash: KeyHash::new(seed, table),
            len: AtomicUsize::new(0),
        };
        Self {
            table: Arc::new(table),
            free: vec![ALL_FREE; total],
            spare: Vec::new(),
            fresh: primary..total,
            retired: VecDeque::new(),
        }
    }

    /// The readers' side.
    #[must_use]
    pub fn table(&self) -> &Arc<KeyTable> {
        &self.table
    }

    /// Maps `key` to `value`; returns the previous value of `key`.
    ///
    /// # Errors
    /// [`KeyRefused`] if the key is reserved or its chain is full; the table is unchanged.
    pub fn insert(&mut self, key: u64, value: u32) -> Result<Option<u32>, KeyRefused> {
        if key == EMPTY {
            return Err(KeyRefused::Reserved);
        }
        let mut at = self.table.first_bucket(key);
        let mut vacant = None;
        let mut depth = 0;
        loop {
            let bucket = &self.table.buckets[at];
            if let Some(slot) = bucket.position(key) {
                return Ok(Some(bucket.values[slot].swap(value, Ordering::AcqRel)));
            }
            if vacant.is_none() && self.free[at] != 0 {
                vacant = Some(at);
            }
            let Some(next) = bucket.next() else { break };
            at = next;
            depth += 1;
        }
        match vacant {
            Some(bucket) => self.fill(bucket, key, value),
            None if depth < CHAIN_MAX => {
                let fresh =
                    self.spare.pop().or_else(|| self.fresh.next()).ok_or(KeyRefused::Full)?;
                self.fill(fresh, key, value);
                self.link(at, fresh);
            }
            None => return Err(KeyRefused::Full),
        }
        self.table.len.store(self.table.len() + 1, Ordering::Release);
        Ok(None)
    }

    /// Removes `key` if it maps to `value`. Returns whether it did. [`KeyWriter::reclaim`] frees
    /// its slot once `epoch`, the current one, has passed.
    pub fn remove(&mut self, key: u64, value: u32, epoch: Epoch) -> bool {
        if key == EMPTY {
            return false;
        }
        let home = self.table.first_bucket(key);
        let mut at = home;
        loop {
            let bucket = &self.table.buckets[at];
            if let Some(slot) = bucket.position(key) {
                if bucket.values[slot].load(Ordering::Relaxed) != value {
                    return false;
                }
                bucket.keys[slot].store(!EMPTY, Ordering::Release);
                self.table.len.store(self.table.len().saturating_sub(1), Ordering::Release);
                self.retired.push_back((epoch, RetiredKey::Slot { home, bucket: at, slot }));
                return true;
            }
            let Some(next) = bucket.next() else { return false };
            at = next;
        }
    }

    /// Frees memory that was retired in epochs up to `passed`. Overflow buckets that this call
    /// removes are retired in `epoch`, the current one.
    pub fn reclaim(&mut self, passed: Epoch, epoch: Epoch) {
        while let Some(&(since, limbo)) = self.retired.front()
            && since <= passed
        {
            self.retired.pop_front();
            match limbo {
                RetiredKey::Slot { home, bucket, slot } => {
                    self.free[bucket] |= 1 << slot;
                    self.trim(home, epoch);
                }
                RetiredKey::Bucket(bucket) => self.spare.push(bucket),
            }
        }
    }

    /// Writes an entry. The key is stored last: a reader that sees the key also sees the value.
    fn fill(&mut self, bucket: usize, key: u64, value: u32) {
        let slot = self.free[bucket].trailing_zeros() as usize;
        self.free[bucket] &= !(1 << slot);
        let bucket = &self.table.buckets[bucket];
        bucket.values[slot].store(value, Ordering::Relaxed);
        bucket.keys[slot].store(!key, Ordering::Release);
    }

    fn link(&self, tail: usize, next: usize) {
        let Ok(link) = u32::try_from(next) else {
            unreachable!("a table for SESSIONS_MAX keys has fewer than 2^32 buckets")
        };
        self.table.buckets[tail].next.store(link, Ordering::Release);
    }

    /// Removes empty overflow buckets from the end of a chain, so that a table whose keys come and
    /// go does not run out of them.
    fn trim(&mut self, home: usize, epoch: Epoch) {
        loop {
            let mut before = home;
            let Some(mut last) = self.table.buckets[home].next() else { return };
            while let Some(next) = self.table.buckets[last].next() {
                before = last;
                last = next;
            }
            if self.free[last] != ALL_FREE {
                return;
            }
            self.link(before, 0);
            self.retired.push_back((epoch, RetiredKey::Bucket(last)));
        }
    }
}
