//! Finds sessions by local TEID: in a direct index by the low bits of the TEID, or in a hash table
//! if another TEID has the slot of the index.
//!
//! `session` chooses TEIDs whose low `teid_slot_bits` are unique. A TEID that a control plane chose
//! gets its slot in the index if that is free, and else an entry in the hash table.
//!
//! A tunnel from another UPF to the UE is marked in the index if it has a fast rule. The mark
//! decides only in which cell the fast path looks for the rule. The rule itself contains its TEID,
//! so an outdated mark only sends packets to the stages. Spec: TS 29.281 §5.1.

use core::fmt;

use adit_types::{SessionIndex, Teid};

use crate::key_table::{KeyRefused, KeyTable, KeyWriter};
use crate::large::LargeArray;
use crate::prefetch;
use crate::publish::Epoch;
use crate::sync::{Arc, AtomicU64, Ordering};

/// The value of an empty entry.
const VACANT: u64 = 0;

/// Returns an entry of the index: the TEID in the upper 32 bits, and in the lower ones the
/// complement of the session index, so that an entry of zeros names no session.
fn pack(teid: Teid, session: SessionIndex) -> u64 {
    u64::from(teid.0) << 32 | u64::from(!session.0)
}

/// Returns the entry of a marked tunnel: its TEID is complemented. No other TEID with the same slot
/// has this complement as its value, because the lowest bits differ.
fn pack_marked(teid: Teid, session: SessionIndex) -> u64 {
    pack(Teid(!teid.0), session)
}

/// Returns the session of `entry` if it belongs to `teid`, marked or not.
fn session_of_any(entry: u64, teid: Teid) -> SessionIndex {
    let session = session_of(entry, teid);
    if session.is_some() { session } else { session_of(entry, Teid(!teid.0)) }
}

/// Returns the session of `entry` if it belongs to `teid` and is not marked.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the halves of an entry")]
fn session_of(entry: u64, teid: Teid) -> SessionIndex {
    if (entry >> 32) as u32 == teid.0 { SessionIndex(!(entry as u32)) } else { SessionIndex::NONE }
}

/// The readers' side of the table.
pub(crate) struct TeidTable {
    slots: LargeArray<AtomicU64>,
    mask: u32,
    foreign: Arc<KeyTable>,
}

impl TeidTable {
    #[inline]
    fn slot(&self, teid: Teid) -> &AtomicU64 {
        &self.slots[(teid.0 & self.mask) as usize]
    }

    /// Prefetches the slot of `teid` in the index.
    #[inline]
    pub(crate) fn prefetch(&self, teid: Teid) {
        prefetch::read(self.slot(teid));
    }

    /// Returns the session of `teid`, or `SessionIndex::NONE` if there is none.
    #[inline]
    pub(crate) fn session(&self, teid: Teid) -> SessionIndex {
        let session = self.unmarked_session(teid);
        if session.is_some() { session } else { self.other_session(teid).0 }
    }

    /// Returns the session of `teid` if the index has it without a mark, else `SessionIndex::NONE`.
    #[inline]
    pub(crate) fn unmarked_session(&self, teid: Teid) -> SessionIndex {
        session_of(self.slot(teid).load(Ordering::Acquire), teid)
    }

    /// Returns the session of a `teid` that the index does not have without a mark, and whether it
    /// has it with a mark.
    #[inline]
    pub(crate) fn other_session(&self, teid: Teid) -> (SessionIndex, bool) {
        let session = session_of(self.slot(teid).load(Ordering::Acquire), Teid(!teid.0));
        if session.is_some() { (session, true) } else { (self.foreign_session(teid), false) }
    }

    /// Returns the session of a `teid` that is not marked. Reads the index again, because a mark
    /// may just have been removed.
    #[inline(never)]
    fn foreign_session(&self, teid: Teid) -> SessionIndex {
        let session = self.unmarked_session(teid);
        if session.is_some() {
            return session;
        }
        if self.foreign.is_empty() {
            return SessionIndex::NONE;
        }
        self.foreign.session(u64::from(teid.0))
    }
}

impl fmt::Debug for TeidTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeidTable")
            .field("slots", &self.slots.len())
            .field("foreign", &self.foreign)
            .finish_non_exhaustive()
    }
}

/// The writer's side of a [`TeidTable`].
#[derive(Debug)]
pub(crate) struct TeidWriter {
    table: Arc<TeidTable>,
    foreign: KeyWriter,
}

impl TeidWriter {
    /// Creates an index of `2^slot_bits` slots, and a hash table for `foreign_capacity` TEIDs.
    pub(crate) fn new(slot_bits: u8, foreign_capacity: usize, seed: u64, table: u64) -> Self {
        let foreign = KeyWriter::new(foreign_capacity, seed, table);
        // With two slots or more, entries of marked tunnels are unambiguous.
        let places = 1_u32 << slot_bits.max(1);
        let slots = LargeArray::zeroed(places as usize);
        let table = TeidTable { slots, mask: places - 1, foreign: Arc::clone(foreign.table()) };
        Self { table: Arc::new(table), foreign }
    }

    pub(crate) fn table(&self) -> &Arc<TeidTable> {
        &self.table
    }

    /// Maps `teid` to `session`.
    pub(crate) fn insert(&mut self, teid: Teid, session: SessionIndex) -> Result<(), KeyRefused> {
        let slot = self.table.slot(teid);
        let entry = slot.load(Ordering::Relaxed);
        let key = u64::from(teid.0);
        let takes_slot = session_of_any(entry, teid).is_some()
            || entry == VACANT && self.foreign.table().lookup(key).is_none();
        if takes_slot {
            slot.store(pack(teid, session), Ordering::Release);
            return Ok(());
        }
        self.foreign.insert(key, session.0).map(|_| ())
    }

    /// Removes `teid` if it maps to `session`; returns whether it did.
    pub(crate) fn remove(&mut self, teid: Teid, session: SessionIndex, epoch: Epoch) -> bool {
        let slot = self.table.slot(teid);
        let entry = slot.load(Ordering::Relaxed);
        if entry == pack(teid, session) || entry == pack_marked(teid, session) {
            slot.store(VACANT, Ordering::Release);
            return true;
        }
        self.foreign.remove(u64::from(teid.0), session.0, epoch)
    }

    /// Marks `teid` or removes its mark if it maps to `session` in the index.
    pub(crate) fn mark(&self, teid: Teid, session: SessionIndex, is_marked: bool) {
        let slot = self.table.slot(teid);
        if session_of_any(slot.load(Ordering::Relaxed), teid) == session {
            let entry = if is_marked { pack_marked } else { pack };
            slot.store(entry(teid, session), Ordering::Release);
        }
    }

    pub(crate) fn reclaim(&mut self, passed: Epoch, epoch: Epoch) {
        self.foreign.reclaim(passed, epoch);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests {
    use crate::publish::slots;

    use super::*;

    const SESSION: SessionIndex = SessionIndex(5);

    #[test]
    fn mark_hides_a_teid_from_the_usual_lookup_only() {
        for (slot_bits, teid) in [(0, Teid(0)), (0, Teid(u32::MAX)), (8, Teid(0x1234_5678))] {
            let mut writer = TeidWriter::new(slot_bits, 8, 1, 1);
            let table = Arc::clone(writer.table());
            let find = |teid| (table.session(teid), table.unmarked_session(teid));
            writer.insert(teid, SESSION).unwrap();
            writer.mark(teid, SessionIndex(6), true);
            assert_eq!(find(teid), (SESSION, SESSION), "of another session");
            writer.mark(teid, SESSION, true);
            assert_eq!(find(teid), (SESSION, SessionIndex::NONE));
            assert_eq!(table.other_session(teid), (SESSION, true));
            assert_eq!(find(Teid(!teid.0)), (SessionIndex::NONE, SessionIndex::NONE));
            writer.insert(teid, SESSION).unwrap();
            assert_eq!(find(teid), (SESSION, SESSION), "a new key has no mark");
            writer.mark(teid, SESSION, true);
            writer.mark(teid, SESSION, false);
            assert_eq!(
                (find(teid), table.other_session(teid)),
                ((SESSION, SESSION), (SESSION, false))
            );
            writer.mark(teid, SESSION, true);
            let (clock, _) = slots::<()>(1, 0);
            assert!(writer.remove(teid, SESSION, clock.next_epoch()));
            assert_eq!(find(teid), (SessionIndex::NONE, SessionIndex::NONE));
        }
    }

    #[test]
    fn teid_in_the_hash_table_gets_no_mark() {
        let mut writer = TeidWriter::new(1, 8, 1, 1);
        let table = Arc::clone(writer.table());
        for teid in [Teid(2), Teid(4)] {
            writer.insert(teid, SESSION).unwrap();
            writer.mark(teid, SESSION, true);
        }
        assert_eq!(table.other_session(Teid(2)), (SESSION, true));
        assert_eq!(table.other_session(Teid(4)), (SESSION, false));
    }
}
