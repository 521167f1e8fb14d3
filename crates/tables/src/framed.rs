//! Framed routes: networks behind UEs, found by the longest prefix.
//!
//! One hash table per family holds the prefixes of all lengths, and one word has a bit for each
//! length in use. A lookup probes the table once per length, longest first, but only if no address
//! key matched and there are framed routes. A prefix as long as an address key (IPv4 address, IPv6
//! /64) is such a key, which other tables hold. Spec: TS 29.244 §5.16.

use core::fmt;

use adit_rules::rule::ue_ipv6_key;
use adit_types::{IpPrefix, Ipv4Prefix, Ipv6Prefix, SessionIndex};

use crate::key_table::{KeyRefused, KeyTable, KeyWriter};
use crate::publish::Epoch;
use crate::sync::{Arc, AtomicU64, Ordering};

/// Length of an address key in bits; framed prefixes are shorter.
const KEY_BITS: u32 = 64;

/// The prefixes of one family as workers see them, over addresses of 64 bits.
struct FramedPrefixes {
    table: Arc<KeyTable>,
    /// Bit *n* is set while there may be a prefix of *n* bits.
    present: AtomicU64,
}

/// The framed routes of both families as workers see them.
pub(crate) struct FramedRoutes {
    v4: FramedPrefixes,
    v6: FramedPrefixes,
}

/// Returns the unique key of a prefix of `len` bits: its bits, a one, and zeros.
const fn key(bits: u64, len: u32) -> u64 {
    let mask = if len == 0 { 0 } else { u64::MAX << (KEY_BITS - len) };
    bits & mask | 1 << (KEY_BITS - 1 - len)
}

/// Returns an IPv4 address in the upper half of a key.
const fn ipv4_key(addr: u32) -> u64 {
    (addr as u64) << 32
}

/// A prefix of either family: the first `len` of 64 bits.
#[derive(Clone, Copy)]
struct FramedPrefix {
    bits: u64,
    len: u8,
}

impl FramedPrefix {
    const fn v4(prefix: Ipv4Prefix) -> Self {
        Self { bits: ipv4_key(prefix.addr().to_bits()), len: prefix.len() }
    }

    fn v6(prefix: Ipv6Prefix) -> Self {
        Self { bits: ue_ipv6_key(prefix.addr()), len: prefix.len() }
    }
}

impl FramedPrefixes {
    fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the session of the longest prefix that contains `addr`.
    #[cold]
    fn session(&self, addr: u64) -> SessionIndex {
        self.find(addr).map_or(SessionIndex::NONE, |(session, _)| session)
    }

    /// Returns the session of the longest prefix that contains `addr`, and the prefix length.
    fn find(&self, addr: u64) -> Option<(SessionIndex, u32)> {
        let mut present = self.present.load(Ordering::Acquire);
        while present != 0 {
            let len = KEY_BITS - 1 - present.leading_zeros();
            if let Some(session) = self.table.lookup(key(addr, len)) {
                return Some((SessionIndex(session), len));
            }
            present &= !(1 << len);
        }
        None
    }
}

impl FramedRoutes {
    /// Returns the session of the network that contains an IPv4 address, in host-order bits, or
    /// `SessionIndex::NONE`.
    ///
    /// Cost: one load while there are no framed routes; else one probe of the table per length in
    ///       use. No allocation.
    #[inline]
    pub(crate) fn session_v4(&self, addr: u32) -> SessionIndex {
        if self.v4.is_empty() { SessionIndex::NONE } else { self.v4.session(ipv4_key(addr)) }
    }

    /// Does [`Self::session_v4`] for an IPv6 key.
    #[inline]
    pub(crate) fn session_v6(&self, key: u64) -> SessionIndex {
        if self.v6.is_empty() { SessionIndex::NONE } else { self.v6.session(key) }
    }

    /// Returns the length of the longest prefix that contains an IPv4 address.
    pub(crate) fn length_v4(&self, addr: u32) -> Option<u32> {
        self.v4.find(ipv4_key(addr)).map(|(_, len)| len)
    }

    /// Does [`Self::length_v4`] for an IPv6 key.
    pub(crate) fn length_v6(&self, key: u64) -> Option<u32> {
        self.v6.find(key).map(|(_, len)| len)
    }
}

impl fmt::Debug for FramedRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramedRoutes")
            .field("v4", &self.v4.table)
            .field("v6", &self.v6.table)
            .finish_non_exhaustive()
    }
}

/// The writer's side of one family, with the number of prefixes by length.
#[derive(Debug)]
struct FramedPrefixesWriter {
    keys: KeyWriter,
    counts: [usize; KEY_BITS as usize],
}

impl FramedPrefixesWriter {
    fn new(capacity: usize, seed: u64, table: u64) -> Self {
        Self { keys: KeyWriter::new(capacity, seed, table), counts: [0; KEY_BITS as usize] }
    }

    fn readers(&self) -> FramedPrefixes {
        FramedPrefixes { table: Arc::clone(self.keys.table()), present: AtomicU64::new(0) }
    }

    fn insert(
        &mut self,
        lengths: &FramedPrefixes,
        FramedPrefix { bits, len }: FramedPrefix,
        session: SessionIndex,
    ) -> Result<bool, KeyRefused> {
        // A prefix as long as a key is an address key.
        let count = self.counts.get_mut(usize::from(len)).ok_or(KeyRefused::Reserved)?;
        let replaced = self.keys.insert(key(bits, len.into()), session.0)?;
        *count += usize::from(replaced.is_none());
        lengths.present.fetch_or(1 << len, Ordering::Release);
        Ok(replaced.is_none())
    }

    fn remove(
        &mut self,
        lengths: &FramedPrefixes,
        FramedPrefix { bits, len }: FramedPrefix,
        session: SessionIndex,
        epoch: Epoch,
    ) -> bool {
        let Some(count) = self.counts.get_mut(usize::from(len)) else { return false };
        let is_removed = self.keys.remove(key(bits, len.into()), session.0, epoch);
        if is_removed {
            *count = count.saturating_sub(1);
            if *count == 0 {
                lengths.present.fetch_and(!(1 << len), Ordering::Release);
            }
        }
        is_removed
    }
}

/// The writer's side of [`FramedRoutes`].
#[derive(Debug)]
pub(crate) struct FramedWriter {
    routes: Arc<FramedRoutes>,
    v4: FramedPrefixesWriter,
    v6: FramedPrefixesWriter,
}

impl FramedWriter {
    /// Creates an empty table with room for `capacity` prefixes of each family.
    pub(crate) fn new(capacity: usize, seed: u64, tables: [u64; 2]) -> Self {
        let [v4, v6] = tables.map(|table| FramedPrefixesWriter::new(capacity, seed, table));
        let routes = Arc::new(FramedRoutes { v4: v4.readers(), v6: v6.readers() });
        Self { routes, v4, v6 }
    }

    /// The readers' side.
    pub(crate) fn routes(&self) -> &Arc<FramedRoutes> {
        &self.routes
    }

    /// Maps `prefix` to `session`. Returns true if `prefix` mapped to no session before.
    ///
    /// # Errors
    /// [`KeyRefused`] when there is no room, or when the prefix is as long as an address key.
    pub(crate) fn insert(
        &mut self,
        prefix: IpPrefix,
        session: SessionIndex,
    ) -> Result<bool, KeyRefused> {
        match prefix {
            IpPrefix::V4(prefix) if prefix.len() < 32 => {
                self.v4.insert(&self.routes.v4, FramedPrefix::v4(prefix), session)
            }
            IpPrefix::V4(_) => Err(KeyRefused::Reserved),
            IpPrefix::V6(prefix) => {
                self.v6.insert(&self.routes.v6, FramedPrefix::v6(prefix), session)
            }
        }
    }

    /// Removes `prefix` if it maps to `session`; returns whether it did. [`FramedWriter::reclaim`]
    /// frees its entry once `epoch`, the current one, has passed.
    pub(crate) fn remove(&mut self, prefix: IpPrefix, session: SessionIndex, epoch: Epoch) -> bool {
        match prefix {
            IpPrefix::V4(prefix) => {
                self.v4.remove(&self.routes.v4, FramedPrefix::v4(prefix), session, epoch)
            }
            IpPrefix::V6(prefix) => {
                self.v6.remove(&self.routes.v6, FramedPrefix::v6(prefix), session, epoch)
            }
        }
    }

    /// Frees prefixes that were removed in epochs up to `passed`.
    pub(crate) fn reclaim(&mut self, passed: Epoch, epoch: Epoch) {
        self.v4.keys.reclaim(passed, epoch);
        self.v6.keys.reclaim(passed, epoch);
    }
}
