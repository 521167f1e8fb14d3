//! Publication from one writer to several readers: quiescent-state-based reclamation (QSBR).
//!
//! The writer swaps pointers in slots and increments an epoch. Each reader announces the epoch that
//! it has seen whenever it holds no reference ([`SlotReader::observe`]). A value that was retired
//! in epoch *e* is freed once every online reader has announced *e* or a later epoch. Observing
//! costs one load and, if the epoch has changed, one store without a fence.
//!
//! Invariant: a pointer taken out of a slot is freed only after every reader that could have loaded
//! it has announced a later quiescent state or gone offline.
//!
//! This module holds all `unsafe` of publication; `tests/loom_publish.rs` explores its
//! interleavings.

use core::fmt;
use core::ptr::{self, NonNull};
use std::collections::VecDeque;

use crossbeam_utils::CachePadded;

use crate::large::LargeArray;
use crate::prefetch;
use crate::sync::{Arc, AtomicPtr, AtomicU64, Mutex, Ordering, fence};

/// Announced by a reader that holds no reference and will not get one before it is online again.
const OFFLINE: u64 = u64::MAX;

/// A step of publication, by number; later epochs are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

/// State that the writer and the readers share: the slots, the epoch and the announcements.
///
/// Ownership: a pointer in a slot owns its box. The writer alone stores into slots.
struct PublishedSlots<T> {
    epoch: CachePadded<AtomicU64>,
    announced: Box<[CachePadded<AtomicU64>]>,
    slots: LargeArray<AtomicPtr<T>>,
    /// Retired values that a dropped writer could not free yet.
    orphans: Mutex<Vec<RetiredValue<T>>>,
}

impl<T> Drop for PublishedSlots<T> {
    fn drop(&mut self) {
        for slot in self.slots.iter() {
            if let Some(value) = NonNull::new(slot.load(Ordering::Acquire)) {
                // JUSTIFICATION: the slots own the values that they point to. SAFETY: the pointer
                // came from `Box::into_raw` in `SlotWriter::swap`, which keeps no copy, and writer
                // and readers are gone: each holds an `Arc` of this.
                drop(unsafe { Box::from_raw(value.as_ptr()) });
            }
        }
        let Ok(mut orphans) = self.orphans.lock() else { return };
        for retired in orphans.drain(..) {
            // SAFETY: no reader is left (see above).
            drop(unsafe { retired.into_box() });
        }
    }
}

/// A value that was taken out of its slot and that readers may still use. Dropping this leaks it.
struct RetiredValue<T>(NonNull<T>);

// JUSTIFICATION: a raw pointer is not `Send`, but it stands for a box here.
// SAFETY: sole owner of a value that threads may share and that any thread may drop.
unsafe impl<T: Send + Sync> Send for RetiredValue<T> {}

impl<T> RetiredValue<T> {
    /// Takes the value back.
    ///
    /// # Safety
    /// No reader may hold or be able to obtain a reference to the value.
    unsafe fn into_box(self) -> Box<T> {
        // JUSTIFICATION: the inverse of `Box::into_raw` in `SlotWriter::swap`.
        // SAFETY: the pointer came from there, exists once, and the caller excludes readers.
        unsafe { Box::from_raw(self.0.as_ptr()) }
    }
}

/// Creates `slots` empty slots, their writer, and one handle for each of `readers` readers.
///
/// Readers start offline.
#[must_use]
pub fn slots<T: Send + Sync>(slots: usize, readers: usize) -> (SlotWriter<T>, Vec<SlotReader<T>>) {
    let shared = Arc::new(PublishedSlots {
        epoch: CachePadded::new(AtomicU64::new(0)),
        announced: (0..readers).map(|_| CachePadded::new(AtomicU64::new(OFFLINE))).collect(),
        slots: LargeArray::filled(slots, || AtomicPtr::new(ptr::null_mut())),
        orphans: Mutex::new(Vec::new()),
    });
    let handles = (0..readers)
        .map(|reader| SlotReader { shared: Arc::clone(&shared), reader, announced: OFFLINE })
        .collect();
    (SlotWriter { shared, epoch: 0, retired: VecDeque::new() }, handles)
}

/// The only writer of a set of slots.
pub struct SlotWriter<T> {
    shared: Arc<PublishedSlots<T>>,
    /// The last epoch that was closed: the value of `PublishedSlots::epoch`.
    epoch: u64,
    /// Values that were taken out of their slots, with the epoch in which that happened.
    retired: VecDeque<(Epoch, RetiredValue<T>)>,
}

impl<T: Send + Sync> SlotWriter<T> {
    /// Returns the number of slots.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.shared.slots.len()
    }

    /// Puts `value` into `slot` and retires the old value. Returns true if there was an old value.
    /// If `slot` is out of range, drops `value`.
    pub fn swap(&mut self, slot: usize, value: Option<Box<T>>) -> bool {
        debug_assert!(slot < self.shared.slots.len(), "slot {slot} out of range");
        let Some(cell) = self.shared.slots.get(slot) else { return false };
        let new = value.map_or(ptr::null_mut(), Box::into_raw);
        let old = NonNull::new(cell.swap(new, Ordering::AcqRel));
        if let Some(old) = old {
            self.retired.push_back((self.next_epoch(), RetiredValue(old)));
        }
        old.is_some()
    }

    /// Returns the value of a slot to the writer.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&T> {
        let value = self.shared.slots.get(slot)?.load(Ordering::Relaxed);
        // JUSTIFICATION: see `SlotGuard::get`.
        // SAFETY: null or a live box; only `swap` replaces it, which needs `&mut self`.
        unsafe { value.as_ref() }
    }

    /// Returns the epoch of changes made now, which [`SlotWriter::advance`] closes next.
    #[must_use]
    pub fn next_epoch(&self) -> Epoch {
        Epoch(self.epoch.saturating_add(1))
    }

    /// Closes the current epoch: readers that observe from now on see all changes made in it.
    pub fn advance(&mut self) -> Epoch {
        let closed = self.next_epoch();
        self.epoch = closed.0;
        self.shared.epoch.store(closed.0, Ordering::Release);
        closed
    }

    /// Returns the latest epoch that every online reader has observed.
    #[must_use]
    pub fn passed(&self) -> Epoch {
        // A reader that comes online stores its announcement, fences, then loads slots. With this
        // fence between our swaps and our loads, either we see it online or it sees our swaps.
        fence(Ordering::SeqCst);
        let announced = self.shared.announced.iter().map(|cell| cell.load(Ordering::Acquire));
        Epoch(announced.min().unwrap_or(OFFLINE).min(self.epoch))
    }

    /// True if a reader has observed `epoch` or is offline.
    #[must_use]
    pub fn has_passed(&self, reader: usize, epoch: Epoch) -> bool {
        let announced = self.shared.announced.get(reader);
        announced.is_none_or(|cell| cell.load(Ordering::Acquire) >= epoch.0)
    }

    /// Returns the oldest retired value if no reader can still see it.
    pub fn reclaim(&mut self) -> Option<Box<T>> {
        let epoch = self.retired.front()?.0;
        if epoch > self.passed() {
            return None;
        }
        let (_, retired) = self.retired.pop_front()?;
        // SAFETY: every online reader announced an epoch that was closed after the value had left
        // its slot, so it holds no reference from before and loads a later pointer; offline readers
        // hold none and will load a later pointer (see `passed`).
        Some(unsafe { retired.into_box() })
    }
}

impl<T> Drop for SlotWriter<T> {
    fn drop(&mut self) {
        let Ok(mut orphans) = self.shared.orphans.lock() else { return };
        orphans.extend(self.retired.drain(..).map(|(_, retired)| retired));
    }
}

impl<T> fmt::Debug for SlotWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("slots", &self.shared.slots.len())
            .field("epoch", &self.epoch)
            .field("retired", &self.retired.len())
            .finish_non_exhaustive()
    }
}

/// One reader's access to the slots. Belongs to one thread at a time.
pub struct SlotReader<T> {
    shared: Arc<PublishedSlots<T>>,
    reader: usize,
    /// The epoch that this reader announced last.
    announced: u64,
}

impl<T: Send + Sync> SlotReader<T> {
    /// Announces a quiescent state and begins the next section; goes online if needed.
    ///
    /// References obtained through the guard end before the next call, because they borrow `self`.
    #[inline]
    pub fn observe(&mut self) -> SlotGuard<'_, T> {
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        // A repeated announcement would be no news to the writer.
        if epoch != self.announced {
            self.announce(epoch);
        }
        SlotGuard { shared: &self.shared }
    }

    // PERF (adit-bench datapath): most steps see no new epoch.
    #[inline(never)]
    fn announce(&mut self, epoch: u64) {
        let was_offline = self.announced == OFFLINE;
        self.announced = epoch;
        // Release keeps the loads of the section that ends before the announcement.
        self.shared.announced[self.reader].store(epoch, Ordering::Release);
        if was_offline {
            // Pairs with the fence in `SlotWriter::passed`.
            fence(Ordering::SeqCst);
        }
    }

    /// Announces that this reader holds no reference until it observes again.
    pub fn go_offline(&mut self) {
        self.announced = OFFLINE;
        self.shared.announced[self.reader].store(OFFLINE, Ordering::Release);
    }
}

impl<T> Drop for SlotReader<T> {
    fn drop(&mut self) {
        self.shared.announced[self.reader].store(OFFLINE, Ordering::Release);
    }
}

impl<T> fmt::Debug for SlotReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadHandle")
            .field("reader", &self.reader)
            .field("announced", &self.announced)
            .finish_non_exhaustive()
    }
}

/// A section in which the values that its reader finds in the slots stay alive.
pub struct SlotGuard<'a, T> {
    shared: &'a PublishedSlots<T>,
}

impl<T> Clone for SlotGuard<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SlotGuard<'_, T> {}

impl<'a, T: Send + Sync> SlotGuard<'a, T> {
    /// Returns the present value of `slot`. Two calls in one section may return two publications.
    #[inline]
    #[must_use]
    pub fn get(self, slot: usize) -> Option<&'a T> {
        let value = self.shared.slots.get(slot)?.load(Ordering::Acquire);
        // JUSTIFICATION: a lock or a reference count per packet would cost more than the lookup.
        // SAFETY: null or a box that was alive when this section began or was published since; the
        // writer frees it only after this reader's next announcement, and `'a` ends before that
        // because announcing needs the handle that `'a` borrows mutably.
        unsafe { value.as_ref() }
    }

    /// Prefetches the cache line of the slot.
    #[inline]
    pub fn prefetch_slot(self, slot: usize) {
        if let Some(cell) = self.shared.slots.get(slot) {
            prefetch::read(cell);
        }
    }

    /// Prefetches the first cache line of the slot's value, for which it reads the slot.
    #[inline]
    pub fn prefetch(self, slot: usize) {
        if let Some(value) = self.get(slot) {
            prefetch::read(value);
        }
    }
}

impl<T> fmt::Debug for SlotGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}
