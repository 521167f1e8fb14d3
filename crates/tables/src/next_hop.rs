//! Next hops: stations on our links, by dense index, and their link-layer addresses.
//!
//! The control thread creates, resolves and removes next hops; workers read them. An index refers
//! to the same interface and address until the next hop is removed and every worker has passed a
//! quiescent state since. The link-layer address is one atomic word and can change at any time.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::VecDeque;

use adit_rules::NextHop;
use adit_types::{InterfaceId, MacAddr, NextHopIndex};

use crate::key_table::{KeyTable, KeyWriter};
use crate::publish::Epoch;
use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering};
use crate::tunnel_paths::TunnelPaths;

/// Bit of the link-layer word: the lower 48 bits are a valid address.
const MAC_VALID: u64 = 1 << 63;

/// Bit of the link-layer word: the address is stale, so workers report that they use it.
const MAC_STALE: u64 = 1 << 62;

/// Bit of the identity word: the address is an IPv6 one.
const IDENTITY_V6: u32 = 1 << 8;

/// Bit of the identity word: the entry is in use.
const IDENTITY_VALID: u32 = 1 << 9;

/// A neighbor that is in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownNeighbor {
    /// The neighbor's index among the next hops.
    pub index: NextHopIndex,
    /// Its link-layer address, `None` until it is resolved.
    pub mac: Option<MacAddr>,
    /// True while the address is stale: the control thread waits for a confirmation.
    pub is_doubted: bool,
}

/// How a destination is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHopRef {
    /// The interface that packets leave through.
    pub interface: InterfaceId,
    /// The station to send them to.
    pub via: Via,
}

/// The station to which packets are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// A next hop that the control thread has created, resolved or not.
    Known(NextHopIndex),
    /// An on-link address without a next hop: report it with `WorkerEvent::NeighborUnresolved`.
    Unknown(IpAddr),
}

/// One next hop. Address and identity are written while no worker can have the index.
#[repr(C, align(32))]
struct NextHopCell {
    addr_high: AtomicU64,
    addr_low: AtomicU64,
    mac: AtomicU64,
    identity: AtomicU32,
    /// Set by workers that use the entry while its address is stale.
    used: AtomicU32,
}

impl NextHopCell {
    fn new() -> Self {
        Self {
            addr_high: AtomicU64::new(0),
            addr_low: AtomicU64::new(0),
            mac: AtomicU64::new(0),
            identity: AtomicU32::new(0),
            used: AtomicU32::new(0),
        }
    }

    fn neighbor(&self) -> Option<(InterfaceId, IpAddr)> {
        let identity = self.identity.load(Ordering::Relaxed);
        if identity & IDENTITY_VALID == 0 {
            return None;
        }
        let low = self.addr_low.load(Ordering::Relaxed);
        let addr = if identity & IDENTITY_V6 == 0 {
            IpAddr::V4(Ipv4Addr::from_bits(lower_half(low)))
        } else {
            let high = u128::from(self.addr_high.load(Ordering::Relaxed));
            IpAddr::V6(Ipv6Addr::from_bits(high << 64 | u128::from(low)))
        };
        let [interface, ..] = identity.to_le_bytes();
        Some((InterfaceId(interface), addr))
    }

    fn write(&self, interface: InterfaceId, addr: IpAddr) {
        let (bits, family) = match addr {
            IpAddr::V4(addr) => (u128::from(addr.to_bits()), 0),
            IpAddr::V6(addr) => (addr.to_bits(), IDENTITY_V6),
        };
        let [low, high] = halves(bits);
        self.addr_high.store(high, Ordering::Relaxed);
        self.addr_low.store(low, Ordering::Relaxed);
        self.mac.store(0, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
        let identity = u32::from(interface.0) | family | IDENTITY_VALID;
        self.identity.store(identity, Ordering::Release);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
fn lower_half(bits: u64) -> u32 {
    bits as u32
}

#[allow(clippy::cast_possible_truncation, reason = "the halves are wanted")]
fn halves(bits: u128) -> [u64; 2] {
    [bits as u64, (bits >> 64) as u64]
}

fn mac_bits(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

#[inline]
fn mac_of(word: u64) -> Option<MacAddr> {
    let [_, _, a, b, c, d, e, f] = word.to_be_bytes();
    (word & MAC_VALID != 0).then_some(MacAddr([a, b, c, d, e, f]))
}

/// The readers' side of the table of next hops.
pub(crate) struct NextHopTable {
    entries: Box<[NextHopCell]>,
    /// How many times a link-layer address has changed; incremented after each change.
    changes: AtomicU64,
    /// Next-hop indices by interface and IPv4 address.
    on_link_v4: Arc<KeyTable>,
    /// Next-hop indices by a hash of interface and IPv6 address, which the entry has to confirm.
    on_link_v6: Arc<KeyTable>,
    /// The tunnel paths, which indices beyond all entries name.
    paths: Arc<TunnelPaths>,
}

impl NextHopTable {
    #[inline]
    fn entry(&self, index: NextHopIndex) -> Option<&NextHopCell> {
        match self.entries.get(index.0 as usize) {
            Some(entry) => Some(entry),
            None => self.entry_of_path(index),
        }
    }

    #[cold]
    fn entry_of_path(&self, index: NextHopIndex) -> Option<&NextHopCell> {
        self.entries.get(self.paths.hop(index)?.0 as usize)
    }

    /// Counts a change of a tunnel path or of a next-hop group.
    pub(crate) fn note_other_path(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn key(&self, interface: InterfaceId, addr: IpAddr) -> (&KeyTable, u64) {
        match addr {
            IpAddr::V4(addr) => {
                let key = u64::from(interface.0) << 32 | u64::from(addr.to_bits());
                (&self.on_link_v4, key)
            }
            IpAddr::V6(addr) => {
                (&self.on_link_v6, self.on_link_v6.hash().hash_ipv6(interface.0, addr))
            }
        }
    }

    /// Returns the index of a station; `None` if the control thread has not added it.
    #[inline]
    pub(crate) fn lookup(&self, interface: InterfaceId, addr: IpAddr) -> Option<NextHopIndex> {
        let (table, key) = self.key(interface, addr);
        let index = table.lookup(key)?;
        let station = self.entries.get(index as usize)?.neighbor();
        (station == Some((interface, addr))).then_some(NextHopIndex(index))
    }

    /// Returns the next hop with `index`, if any, and notes the use of a stale address.
    #[inline]
    pub(crate) fn next_hop(&self, index: NextHopIndex) -> Option<NextHop> {
        let entry = self.entry(index)?;
        let (interface, addr) = entry.neighbor()?;
        let word = entry.mac.load(Ordering::Relaxed);
        if word & MAC_STALE != 0 && entry.used.load(Ordering::Relaxed) == 0 {
            entry.used.store(1, Ordering::Relaxed);
        }
        Some(NextHop { interface, addr, mac: mac_of(word) })
    }

    /// Returns interface and link-layer address of a next hop; `None` if it is unresolved or stale.
    #[inline]
    pub(crate) fn resolved(&self, index: NextHopIndex) -> Option<(InterfaceId, MacAddr)> {
        let entry = self.entry(index)?;
        let identity = entry.identity.load(Ordering::Relaxed);
        let word = entry.mac.load(Ordering::Relaxed);
        if identity & IDENTITY_VALID == 0 || word & (MAC_VALID | MAC_STALE) != MAC_VALID {
            return None;
        }
        let [interface, ..] = identity.to_le_bytes();
        Some((InterfaceId(interface), mac_of(word)?))
    }

    /// Returns how many times a link-layer address has changed. While this is unchanged, so are the
    /// results of [`NextHopTable::resolved`].
    #[inline]
    pub(crate) fn change_count(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Replaces a link-layer word. For the writer only.
    fn set_word(&self, entry: &NextHopCell, word: u64) {
        if entry.mac.load(Ordering::Relaxed) != word {
            entry.mac.store(word, Ordering::Relaxed);
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns the neighbor `addr` on `interface`. Does not count as a use of its address.
    pub(crate) fn neighbor(&self, interface: InterfaceId, addr: IpAddr) -> Option<KnownNeighbor> {
        let index = self.lookup(interface, addr)?;
        let word = self.entries.get(index.0 as usize)?.mac.load(Ordering::Relaxed);
        Some(KnownNeighbor { index, mac: mac_of(word), is_doubted: word & MAC_STALE != 0 })
    }

    /// Returns the next hop with `index`. Does not count as a use of its address.
    pub(crate) fn peek(&self, index: NextHopIndex) -> Option<NextHop> {
        let entry = self.entries.get(index.0 as usize)?;
        let (interface, addr) = entry.neighbor()?;
        Some(NextHop { interface, addr, mac: mac_of(entry.mac.load(Ordering::Relaxed)) })
    }

    /// Returns the most next hops that the table can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn prefetch(&self, index: NextHopIndex) {
        if let Some(entry) = self.entries.get(index.0 as usize) {
            crate::prefetch::read(entry);
        }
    }
}

impl fmt::Debug for NextHopTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextHopTable").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

/// The reasons for which a next hop exists, on the control side.
#[derive(Debug, Clone, Copy, Default)]
struct NextHopRecord {
    /// Number of FARs, published or not yet reclaimed, of routes of route tables, and of tunnel
    /// paths that name the next hop.
    fars: u32,
    /// True if a configured route names the next hop.
    gateway: bool,
    /// True if the next hop is in `NextHopWriter::changed`.
    queued: bool,
    /// True if the next hop was removed and is in `NextHopWriter::limbo`.
    leaving: bool,
}

/// The writer's side of a [`NextHopTable`].
#[derive(Debug)]
pub(crate) struct NextHopWriter {
    table: Arc<NextHopTable>,
    v4: KeyWriter,
    v6: KeyWriter,
    records: Vec<NextHopRecord>,
    free: Vec<u32>,
    limbo: VecDeque<(Epoch, u32)>,
    /// Next hops that may have become pinned or unpinned since they were last taken.
    changed: VecDeque<NextHopIndex>,
}

impl NextHopWriter {
    pub(crate) fn new(
        capacity: usize,
        seed: u64,
        tables: [u64; 2],
        paths: &Arc<TunnelPaths>,
    ) -> Self {
        let v4 = KeyWriter::new(capacity, seed, tables[0]);
        let v6 = KeyWriter::new(capacity, seed, tables[1]);
        let table = NextHopTable {
            entries: (0..capacity).map(|_| NextHopCell::new()).collect(),
            changes: AtomicU64::new(0),
            on_link_v4: Arc::clone(v4.table()),
            on_link_v6: Arc::clone(v6.table()),
            paths: Arc::clone(paths),
        };
        Self {
            table: Arc::new(table),
            v4,
            v6,
            records: vec![NextHopRecord::default(); capacity],
            free: (0..u32::try_from(capacity).unwrap_or(u32::MAX)).rev().collect(),
            limbo: VecDeque::new(),
            changed: VecDeque::new(),
        }
    }

    pub(crate) fn table(&self) -> &Arc<NextHopTable> {
        &self.table
    }

    /// Returns the index of a station. Adds the station if it is absent and more than `reserve`
    /// entries are free; otherwise returns `None`.
    pub(crate) fn ensure(
        &mut self,
        interface: InterfaceId,
        addr: IpAddr,
        reserve: usize,
    ) -> Option<NextHopIndex> {
        if let Some(index) = self.table.lookup(interface, addr) {
            return Some(index);
        }
        if self.free.len() <= reserve {
            return None;
        }
        let (table, key) = self.table.key(interface, addr);
        if table.lookup(key).is_some() {
            // The second of two IPv6 addresses with the same keyed hash gets no next hop.
            return None;
        }
        let index = self.free.pop()?;
        self.table.entries[index as usize].write(interface, addr);
        let writer = if addr.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        if writer.insert(key, index).is_err() {
            self.table.entries[index as usize].identity.store(0, Ordering::Relaxed);
            self.free.push(index);
            return None;
        }
        Some(NextHopIndex(index))
    }

    /// Removes a next hop unless it is pinned. Returns whether it did.
    pub(crate) fn remove(&mut self, index: NextHopIndex, epoch: Epoch) -> bool {
        let Some(entry) = self.table.entries.get(index.0 as usize) else { return false };
        let Some((interface, addr)) = entry.neighbor() else { return false };
        if self.is_pinned(index) || self.records[index.0 as usize].leaving {
            return false;
        }
        self.records[index.0 as usize].leaving = true;
        self.table.set_word(entry, 0);
        let key = self.table.key(interface, addr).1;
        let writer = if addr.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        writer.remove(key, index.0, epoch);
        self.limbo.push_back((epoch, index.0));
        true
    }

    pub(crate) fn reclaim(&mut self, passed: Epoch, epoch: Epoch) {
        self.v4.reclaim(passed, epoch);
        self.v6.reclaim(passed, epoch);
        while let Some(&(since, index)) = self.limbo.front()
            && since <= passed
        {
            self.limbo.pop_front();
            self.table.entries[index as usize].identity.store(0, Ordering::Relaxed);
            self.records[index as usize].leaving = false;
            self.free.push(index);
        }
    }

    /// Writes the link-layer address. If it is `stale`, workers report its use.
    pub(crate) fn set_mac(&self, index: NextHopIndex, mac: Option<MacAddr>, stale: bool) {
        let Some(entry) = self.table.entries.get(index.0 as usize) else { return };
        let stale = if stale { MAC_STALE } else { 0 };
        let word = mac.map_or(0, |mac| mac_bits(mac) | MAC_VALID | stale);
        self.table.set_word(entry, word);
    }

    /// True if a worker used the entry since the last call, while it was stale.
    pub(crate) fn take_used(&self, index: NextHopIndex) -> bool {
        let entry = self.table.entries.get(index.0 as usize);
        entry.is_some_and(|entry| entry.used.swap(0, Ordering::Relaxed) != 0)
    }

    /// Pins a next hop that a route names (`is_gateway`), or undoes that.
    pub(crate) fn set_gateway(&mut self, index: NextHopIndex, is_gateway: bool) {
        if let Some(record) = self.records.get_mut(index.0 as usize) {
            record.gateway = is_gateway;
        }
        self.note_change(index);
    }

    /// Counts one more FAR that names the next hop.
    pub(crate) fn hold(&mut self, index: NextHopIndex) {
        let Some(record) = self.records.get_mut(index.0 as usize) else { return };
        record.fars = record.fars.saturating_add(1);
        if record.fars == 1 {
            self.note_change(index);
        }
    }

    /// Counts one FAR less that names the next hop.
    pub(crate) fn release(&mut self, index: NextHopIndex) {
        let Some(record) = self.records.get_mut(index.0 as usize) else { return };
        record.fars = record.fars.saturating_sub(1);
        if record.fars == 0 {
            self.note_change(index);
        }
    }

    pub(crate) fn is_pinned(&self, index: NextHopIndex) -> bool {
        let record = self.records.get(index.0 as usize);
        record.is_some_and(|record| record.gateway || record.fars > 0)
    }

    fn note_change(&mut self, index: NextHopIndex) {
        let Some(record) = self.records.get_mut(index.0 as usize) else { return };
        if !record.queued {
            record.queued = true;
            self.changed.push_back(index);
        }
    }

    pub(crate) fn take_changed(&mut self) -> Option<NextHopIndex> {
        let index = self.changed.pop_front()?;
        self.records[index.0 as usize].queued = false;
        Some(index)
    }

    /// Returns the number of next hops, including removed ones that workers may still read.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }
}
