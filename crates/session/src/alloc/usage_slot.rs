//! Usage slots: the indices of the counters in which workers count for URRs.

use adit_types::UsageSlot;

/// Allocates slots below a maximum. Reuses the latest released slot first, to keep them dense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsageSlotAllocator {
    fresh: u32,
    max: u32,
    free: Vec<UsageSlot>,
}

impl UsageSlotAllocator {
    pub(crate) fn new(max: usize) -> Self {
        Self { fresh: 0, max: u32::try_from(max).unwrap_or(u32::MAX), free: Vec::new() }
    }

    /// Returns how many slots are free.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + usize::try_from(self.max - self.fresh).unwrap_or(usize::MAX)
    }

    /// Returns the slot that is allocated after `ahead` other slots; `None` if there is none.
    pub(crate) fn peek(&self, ahead: usize) -> Option<UsageSlot> {
        if let Some(at) = self.free.len().checked_sub(ahead + 1) {
            return self.free.get(at).copied();
        }
        let fresh = self.fresh + u32::try_from(ahead - self.free.len()).ok()?;
        (fresh < self.max).then_some(UsageSlot(fresh))
    }

    /// Allocates the next `count` slots, in the order of [`Self::peek`].
    pub(crate) fn take_planned(&mut self, count: usize) {
        let reused = count.min(self.free.len());
        self.free.truncate(self.free.len() - reused);
        self.fresh += u32::try_from(count - reused).unwrap_or(0);
    }

    /// Frees a slot. Ignores the slot of a session's own URR, which was not allocated here.
    pub(crate) fn release(&mut self, slot: UsageSlot) {
        if slot.0 < self.max {
            self.free.push(slot);
        }
    }

    pub(crate) fn reserved_count(&self) -> usize {
        usize::try_from(self.fresh).unwrap_or(usize::MAX) - self.free.len()
    }
}
