//! GTP-U peers: the far ends of the tunnels that published FARs send into, with their IPv6
//! addresses, path MTUs and outstanding Echo Requests.
//!
//! Workers check here that the sender of a message is a peer, and that an Echo Response answers a
//! request of ours. The control thread adds and removes peers with the rules. Spec: TS 29.281
//! §7.2.1, §7.2.2.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use std::collections::{HashMap, VecDeque};

use adit_types::GtpuPeerIndex;

use crate::key_table::{KeyTable, KeyWriter};
use crate::prefetch;
use crate::publish::Epoch;
use crate::sync::{Arc, AtomicU16, AtomicU64, Ordering};

/// The bit of a sequence number that selects one of the two words of a peer.
const WORD_BIT: u16 = 0x8000;

/// How many sequence numbers one word holds.
const SEQUENCES_PER_WORD: u16 = 4;

/// Marks a lane as taken. It replaces the bit [`WORD_BIT`] of the sequence number, which the word
/// implies.
const LANE_TAKEN: u64 = 0x8000;

/// Sequence numbers of outstanding Echo Requests: the last four consecutive ones for each value of
/// the top bit.
#[derive(Default)]
struct OutstandingEchoes([AtomicU64; 2]);

impl OutstandingEchoes {
    fn new() -> Self {
        Self([AtomicU64::new(0), AtomicU64::new(0)])
    }

    /// Returns the word of a sequence number, the shift of its lane, and the lane's value.
    fn lane(&self, sequence: u16) -> (&AtomicU64, u16, u64) {
        let word = &self.0[usize::from(sequence & WORD_BIT != 0)];
        (word, sequence % SEQUENCES_PER_WORD * 16, u64::from(sequence & !WORD_BIT) | LANE_TAKEN)
    }

    fn insert(&self, sequence: u16) {
        let (word, shift, lane) = self.lane(sequence);
        let put = |before: u64| Some(before & !(0xffff << shift) | lane << shift);
        // `fetch_update` fails only if the closure returns `None`.
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, put);
    }

    fn take(&self, sequence: u16) -> bool {
        let (word, shift, lane) = self.lane(sequence);
        let clear =
            |before: u64| (before >> shift & 0xffff == lane).then_some(before & !(0xffff << shift));
        word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, clear).is_ok()
    }
}

/// The part of a peer's state that workers read.
#[repr(C, align(32))]
struct GtpuPeerCell {
    /// The halves of the peer's IPv6 address, octets in memory order. Written only while no worker
    /// can have the peer's index.
    addr_v6: [AtomicU64; 2],
    outstanding: OutstandingEchoes,
}

impl GtpuPeerCell {
    fn new() -> Self {
        Self {
            addr_v6: [AtomicU64::new(0), AtomicU64::new(0)],
            outstanding: OutstandingEchoes::new(),
        }
    }

    fn write(&self, addr: Ipv6Addr) {
        let octets = addr.octets();
        let (halves, _) = octets.as_chunks();
        for (cell, half) in self.addr_v6.iter().zip(halves) {
            cell.store(u64::from_ne_bytes(*half), Ordering::Relaxed);
        }
    }
}

/// The workers' side of the table of peers.
///
/// Threads: the worker that sends Echo Requests and the workers that receive the responses share
///          the words of a peer; each response is claimed once.
pub struct GtpuPeers {
    keys: Arc<KeyTable>,
    cells: Box<[GtpuPeerCell]>,
    /// The MTUs of the paths to the peers, by position; `u16::MAX` if only links limit packets.
    mtus: Box<[AtomicU16]>,
    /// The smallest of `mtus`.
    narrowest: AtomicU16,
}

impl GtpuPeers {
    fn key(&self, peer: IpAddr) -> u64 {
        match peer {
            IpAddr::V4(addr) => addr.to_bits().into(),
            IpAddr::V6(addr) => self.keys.hash().hash_ipv6(0, addr),
        }
    }

    /// Returns the position of a peer in the table, which no other peer has meanwhile; `None` for
    /// an address that no published FAR sends to.
    #[must_use]
    pub fn position(&self, peer: IpAddr) -> Option<u32> {
        self.keys.lookup(self.key(peer))
    }

    /// Records that an Echo Request with `sequence` is about to be sent to `peer`.
    pub fn expect_echo(&self, peer: IpAddr, sequence: u16) {
        if let Some(outstanding) = self.outstanding(peer) {
            outstanding.insert(sequence);
        }
    }

    /// Removes the Echo Request that a response from `peer` answers. False if there is none: the
    /// response was not requested, or is a duplicate.
    #[must_use]
    pub fn claim_echo(&self, peer: IpAddr, sequence: u16) -> bool {
        self.outstanding(peer).is_some_and(|outstanding| outstanding.take(sequence))
    }

    /// Returns the smallest MTU of the paths to all peers; `u16::MAX` if only links limit packets.
    /// Unit: octets.
    #[inline]
    #[must_use]
    pub fn narrowest_path(&self) -> u16 {
        self.narrowest.load(Ordering::Relaxed)
    }

    /// Returns the MTU of the path to a peer, for packets with all headers; `u16::MAX` if no path
    /// MTU is known, so that only the MTU of the link limits packets. Unit: octets.
    #[cold]
    #[must_use]
    pub fn path_mtu(&self, peer: IpAddr) -> u16 {
        let mtu = self.position(peer).and_then(|position| self.mtus.get(position as usize));
        mtu.map_or(u16::MAX, |mtu| mtu.load(Ordering::Relaxed))
    }

    /// Returns the IPv6 address of a peer that a fast rule of this view names.
    ///
    /// Cost: half a cache line, which sessions with the same peer share.
    #[inline]
    #[must_use]
    pub fn addr_v6(&self, peer: GtpuPeerIndex) -> Option<Ipv6Addr> {
        let GtpuPeerCell { addr_v6: [upper, lower], .. } = self.cells.get(peer.0 as usize)?;
        let [upper, lower] = [upper, lower].map(|half| half.load(Ordering::Relaxed).to_ne_bytes());
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&upper);
        octets[8..].copy_from_slice(&lower);
        Some(octets.into())
    }

    /// Prefetches the cache line that [`GtpuPeers::addr_v6`] reads. Any index is allowed.
    #[inline]
    pub(crate) fn prefetch(&self, peer: GtpuPeerIndex) {
        if let Some(cell) = self.cells.get(peer.0 as usize) {
            prefetch::read(cell);
        }
    }

    fn outstanding(&self, peer: IpAddr) -> Option<&OutstandingEchoes> {
        let cell = self.cells.get(self.position(peer)? as usize)?;
        Some(&cell.outstanding)
    }
}

impl fmt::Debug for GtpuPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GtpuPeers").field("peers", &self.keys.len()).finish_non_exhaustive()
    }
}

/// The control thread's state of a peer.
#[derive(Debug, Clone, Copy)]
struct GtpuPeerRecord {
    /// `None` if the table had no room for the peer.
    position: Option<u32>,
    /// Number of FARs, published or not yet reclaimed, that send to the peer.
    fars: u32,
}

/// The writer's side of [`GtpuPeers`].
#[derive(Debug)]
pub(crate) struct GtpuPeerWriter {
    peers: Arc<GtpuPeers>,
    keys: KeyWriter,
    records: HashMap<IpAddr, GtpuPeerRecord>,
    free: Vec<u32>,
    /// Positions that workers may still read, with the epoch in which their peers were removed.
    limbo: VecDeque<(Epoch, u32)>,
}

impl GtpuPeerWriter {
    /// Creates a table without peers, with room for `capacity`.
    pub(crate) fn new(capacity: usize, seed: u64, table: u64) -> Self {
        let keys = KeyWriter::new(capacity, seed, table);
        let cells = (0..capacity).map(|_| GtpuPeerCell::new()).collect();
        Self {
            peers: Arc::new(GtpuPeers {
                keys: Arc::clone(keys.table()),
                cells,
                mtus: (0..capacity).map(|_| AtomicU16::new(u16::MAX)).collect(),
                narrowest: AtomicU16::new(u16::MAX),
            }),
            keys,
            records: HashMap::new(),
            free: (0..u32::try_from(capacity).unwrap_or(u32::MAX)).rev().collect(),
            limbo: VecDeque::new(),
        }
    }

    pub(crate) fn peers(&self) -> &Arc<GtpuPeers> {
        &self.peers
    }

    /// Counts one more FAR that sends to `peer`, and returns the peer's index.
    /// [`GtpuPeerIndex::NONE`] if there is no room: workers then do not know the address as a peer.
    pub(crate) fn hold(&mut self, peer: IpAddr) -> GtpuPeerIndex {
        let position = match self.records.get_mut(&peer) {
            Some(record) => {
                record.fars += 1;
                record.position
            }
            None => {
                let position = self.insert(peer);
                self.records.insert(peer, GtpuPeerRecord { position, fars: 1 });
                position
            }
        };
        position.map_or(GtpuPeerIndex::NONE, GtpuPeerIndex)
    }

    fn insert(&mut self, peer: IpAddr) -> Option<u32> {
        let key = self.peers.key(peer);
        // The second of two addresses with one keyed hash, which lookups confuse, gets no position.
        let is_taken = self.peers.keys.lookup(key).is_some();
        let position = self.free.pop_if(|_| !is_taken)?;
        if let (IpAddr::V6(addr), Some(cell)) = (peer, self.peers.cells.get(position as usize)) {
            cell.write(addr);
        }
        if self.keys.insert(key, position).is_err() {
            self.free.push(position);
            return None;
        }
        Some(position)
    }

    /// Sets the MTU of the path to `peer`; `u16::MAX` if only links limit packets. Returns the
    /// smallest MTU of all paths.
    ///
    /// Cost: reads the MTUs of all peers.
    pub(crate) fn set_path_mtu(&mut self, peer: IpAddr, mtu_bytes: u16) -> u16 {
        let position = self.records.get(&peer).and_then(|record| record.position);
        if let Some(mtu) = position.and_then(|position| self.peers.mtus.get(position as usize)) {
            mtu.store(mtu_bytes, Ordering::Relaxed);
        }
        let all = self.peers.mtus.iter().map(|mtu| mtu.load(Ordering::Relaxed));
        let narrowest = all.min().unwrap_or(u16::MAX);
        self.peers.narrowest.store(narrowest, Ordering::Relaxed);
        narrowest
    }

    /// Counts one FAR less that sends to `peer`; removes the peer after the last one.
    pub(crate) fn release(&mut self, peer: IpAddr, epoch: Epoch) {
        let Some(record) = self.records.get_mut(&peer) else { return };
        record.fars -= 1;
        if record.fars > 0 {
            return;
        }
        let position = record.position;
        self.records.remove(&peer);
        let Some(position) = position else { return };
        if let Some(mtu) = self.peers.mtus.get(position as usize) {
            mtu.store(u16::MAX, Ordering::Relaxed);
        }
        self.keys.remove(self.peers.key(peer), position, epoch);
        self.limbo.push_back((epoch, position));
    }

    pub(crate) fn reclaim(&mut self, passed: Epoch, epoch: Epoch) {
        self.keys.reclaim(passed, epoch);
        while let Some((_, position)) = self.limbo.pop_front_if(|(since, _)| *since <= passed) {
            if let Some(cell) = self.peers.cells.get(position as usize) {
                cell.outstanding.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            }
            self.free.push(position);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::publish::slots;

    fn peer(host: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, host])
    }

    #[test]
    fn response_is_claimed_once_and_by_its_peer_and_sequence_number_only() {
        let mut writer = GtpuPeerWriter::new(4, 1, 1);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        let held = [peer(1), peer(2), v6].map(|peer| writer.hold(peer));
        assert!(!held.contains(&GtpuPeerIndex::NONE));
        let peers = Arc::clone(writer.peers());
        for to in [peer(1), v6] {
            for sequence in [0, 1, 7, 0x7ffe, 0x8000, 0x8007, 0xffff] {
                peers.expect_echo(to, sequence);
                assert!(!peers.claim_echo(peer(2), sequence));
                assert!(!peers.claim_echo(to, sequence ^ 4));
                assert!(!peers.claim_echo(to, sequence ^ WORD_BIT));
                assert!(peers.claim_echo(to, sequence), "{sequence}");
                assert!(!peers.claim_echo(to, sequence), "once");
            }
        }
        (10..14).for_each(|sequence| peers.expect_echo(peer(2), sequence));
        assert!((10..14).all(|sequence| peers.claim_echo(peer(2), sequence)), "four at a time");
        peers.expect_echo(peer(9), 1);
        assert!(!peers.claim_echo(peer(9), 1), "a stranger");
    }

    #[test]
    fn path_is_as_narrow_as_set_until_its_peer_is_gone_and_the_narrowest_of_all_is_returned() {
        let (mut rules, _) = slots::<()>(1, 0);
        let mut writer = GtpuPeerWriter::new(2, 1, 1);
        let peers = Arc::clone(writer.peers());
        [1, 2].into_iter().for_each(|host| _ = writer.hold(peer(host)));
        assert_eq!((peers.narrowest_path(), peers.path_mtu(peer(1))), (u16::MAX, u16::MAX));
        assert_eq!(writer.set_path_mtu(peer(1), 1400), 1400);
        assert_eq!(writer.set_path_mtu(peer(2), 1300), 1300);
        assert_eq!([1, 2, 3].map(|host| peers.path_mtu(peer(host))), [1400, 1300, u16::MAX]);
        assert_eq!(writer.set_path_mtu(peer(2), u16::MAX), 1400);
        assert_eq!(peers.narrowest_path(), 1400);
        writer.release(peer(1), rules.next_epoch());
        rules.advance();
        writer.reclaim(rules.passed(), rules.next_epoch());
        assert_eq!(writer.set_path_mtu(peer(1), 1200), u16::MAX, "a stranger");
        writer.hold(peer(3));
        assert_eq!(peers.path_mtu(peer(3)), u16::MAX, "its position was another peer's");
    }

    #[test]
    fn address_of_a_peer_over_ipv6_is_found_by_its_index() {
        let mut writer = GtpuPeerWriter::new(4, 1, 1);
        let addrs = ["2001:db8::1", "2001:db8:1:2:3:4:5:6"].map(|addr| addr.parse().unwrap());
        let indices = addrs.map(|addr| (writer.hold(IpAddr::V6(addr)), writer.hold(peer(1))).0);
        let peers = Arc::clone(writer.peers());
        assert_eq!(indices.map(|index| peers.addr_v6(index)), addrs.map(Some));
        assert_eq!(peers.position(addrs[1].into()), Some(indices[1].0));
        assert_eq!(peers.addr_v6(GtpuPeerIndex::NONE), None);
    }

    #[test]
    fn peer_stays_while_a_far_sends_to_it_and_its_position_is_reused_late() {
        let (mut rules, _) = slots::<()>(1, 0);
        let mut writer = GtpuPeerWriter::new(1, 1, 1);
        let peers = Arc::clone(writer.peers());
        assert!(
            writer.hold(peer(1)) == GtpuPeerIndex(0) && writer.hold(peer(1)) == GtpuPeerIndex(0)
        );
        peers.expect_echo(peer(1), 5);
        assert_eq!(writer.hold(peer(2)), GtpuPeerIndex::NONE, "no room");
        writer.release(peer(2), rules.next_epoch());
        let epoch = rules.next_epoch();
        writer.release(peer(1), epoch);
        assert!(peers.position(peer(1)).is_some());
        writer.release(peer(1), epoch);
        assert_eq!(peers.position(peer(1)), None);
        assert_eq!(writer.hold(peer(2)), GtpuPeerIndex::NONE, "workers may still read it");
        writer.release(peer(2), epoch);
        rules.advance();
        writer.reclaim(rules.passed(), rules.next_epoch());
        assert_eq!(writer.hold(peer(2)), GtpuPeerIndex(0));
        assert!(!peers.claim_echo(peer(2), 5), "it was another peer's request");
    }
}
