//! Finds sessions by UE IPv4 address in the configured pools: a direct index without a hash.
//!
//! The index has all addresses of the pools, whether we or the control plane chose them. Addresses
//! outside the pools are in a hash table.

use core::fmt;

use adit_types::{Ipv4Prefix, SessionIndex};

use crate::large::LargeArray;
use crate::prefetch;
use crate::sync::{AtomicU32, Ordering};

/// The sessions of one pool by address. An entry is the session index plus one, or zero: memory is
/// zeroed, and pages without an address in use are never touched.
struct UePoolIndex {
    first: u32,
    sessions: LargeArray<AtomicU32>,
}

impl UePoolIndex {
    #[inline]
    fn entry(&self, addr: u32) -> Option<&AtomicU32> {
        self.sessions.get(addr.wrapping_sub(self.first) as usize)
    }
}

/// The indexes of all pools, for readers and the writer, as an entry is one word.
///
/// PERF (tables/lookup): usually there is one pool, and checking it first costs less than a loop.
pub(crate) struct UePools {
    /// Has no addresses if there is no pool.
    first: UePoolIndex,
    further: Box<[UePoolIndex]>,
}

impl UePools {
    /// Creates an empty index of `pools`, in their order. A pool with more than `left` addresses
    /// gets none; the addresses of the others are subtracted from `left`, so that all domains
    /// together have at most `UE_POOL_INDEX_MAX`.
    pub(crate) fn new(pools: impl IntoIterator<Item = Ipv4Prefix>, left: &mut usize) -> Self {
        let mut indexed = Vec::new();
        for pool in pools {
            let Some(len) = 1_usize.checked_shl(32 - u32::from(pool.len())) else { continue };
            let Some(rest) = left.checked_sub(len) else { continue };
            *left = rest;
            indexed.push(UePoolIndex {
                first: pool.addr().to_bits(),
                sessions: LargeArray::zeroed(len),
            });
        }
        let mut pools = indexed.into_iter();
        let none = UePoolIndex { first: 0, sessions: LargeArray::zeroed(0) };
        Self { first: pools.next().unwrap_or(none), further: pools.collect() }
    }

    /// Returns the entry of `addr`, or `None` outside the pools.
    ///
    /// Cost: a scan over the pools, of which there are few.
    #[inline]
    fn entry(&self, addr: u32) -> Option<&AtomicU32> {
        match self.first.entry(addr) {
            None if !self.further.is_empty() => self.further_entry(addr),
            found => found,
        }
    }

    #[inline(never)]
    fn further_entry(&self, addr: u32) -> Option<&AtomicU32> {
        self.further.iter().find_map(|pool| pool.entry(addr))
    }

    /// Prefetches the entry of `addr`; returns whether it is in a pool.
    #[inline]
    pub(crate) fn prefetch(&self, addr: u32) -> bool {
        self.entry(addr).map(prefetch::read).is_some()
    }

    /// Returns the session of `addr`: `SessionIndex::NONE` if it has none, `None` outside pools.
    #[inline]
    pub(crate) fn lookup(&self, addr: u32) -> Option<SessionIndex> {
        let value = self.entry(addr)?.load(Ordering::Acquire);
        Some(value.checked_sub(1).map_or(SessionIndex::NONE, SessionIndex))
    }

    /// Maps `addr` to `session`. Returns whether it mapped to no session before, or `None` outside
    /// the pools. For the writer only.
    pub(crate) fn insert(&self, addr: u32, session: SessionIndex) -> Option<bool> {
        let entry = self.entry(addr)?;
        let is_new = entry.load(Ordering::Relaxed) == 0;
        entry.store(session.0.wrapping_add(1), Ordering::Release);
        Some(is_new)
    }

    /// Removes `addr` if it maps to `session`. Returns whether it did, or `None` outside the pools.
    /// For the writer only.
    pub(crate) fn remove(&self, addr: u32, session: SessionIndex) -> Option<bool> {
        let entry = self.entry(addr)?;
        let is_its = entry.load(Ordering::Relaxed) == session.0.wrapping_add(1);
        if is_its {
            entry.store(0, Ordering::Release);
        }
        Some(is_its)
    }
}

impl fmt::Debug for UePools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UePools").field("further", &self.further.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use adit_types::limits::UE_POOL_INDEX_MAX;

    #[test]
    fn address_inside_a_pool_is_found_until_it_is_removed() {
        let pools = UePools::new(
            ["10.0.0.0/30".parse().unwrap(), "10.9.0.0/16".parse().unwrap()],
            &mut UE_POOL_INDEX_MAX.clone(),
        );
        let (inside, last, outside) = (0x0a09_0001, 0x0a00_0003, 0x0a00_0004);
        assert_eq!(pools.insert(inside, SessionIndex(0)), Some(true));
        assert_eq!(pools.insert(inside, SessionIndex(0)), Some(false));
        assert_eq!(pools.insert(last, SessionIndex(7)), Some(true));
        assert_eq!(pools.insert(outside, SessionIndex(1)), None);
        assert_eq!(pools.lookup(inside), Some(SessionIndex(0)));
        assert_eq!(pools.lookup(last), Some(SessionIndex(7)));
        assert_eq!(pools.lookup(inside + 1), Some(SessionIndex::NONE));
        assert_eq!(pools.lookup(outside), None);
        assert_eq!(pools.remove(inside, SessionIndex(9)), Some(false));
        assert_eq!(pools.lookup(inside), Some(SessionIndex(0)));
        assert_eq!(pools.remove(inside, SessionIndex(0)), Some(true));
        assert_eq!(pools.lookup(inside), Some(SessionIndex::NONE));
    }

    #[test]
    fn pool_beyond_the_index_is_left_out() {
        let pools = UePools::new(
            ["10.0.0.0/7".parse().unwrap(), "20.0.0.0/24".parse().unwrap()],
            &mut UE_POOL_INDEX_MAX.clone(),
        );
        assert_eq!(pools.lookup(0x0a00_0001), None);
        assert_eq!(pools.lookup(0x1400_0001), Some(SessionIndex::NONE));
    }
}
