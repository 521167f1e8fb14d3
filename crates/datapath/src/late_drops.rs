//! Drops of packets that waited, for taps: the worker sees such a packet only when it drops it.

use adit_rules::{DropReason, TAP_OCTETS};
use adit_types::limits::TAP_LATE_DROPS_PER_STEP;
use arrayvec::ArrayVec;

/// Octets of a frame that are kept.
const HEAD_BYTES: usize = 3 * TAP_OCTETS;

/// One packet that waited and was dropped.
#[derive(Debug, Clone)]
pub(crate) struct LateDrop {
    pub reason: DropReason,
    /// Length of the frame. Unit: octets.
    pub len: usize,
    /// How it begins. Headers of the way out may be written already.
    pub head: ArrayVec<u8, HEAD_BYTES>,
}

/// The drops of one step, while a tap wants them.
#[derive(Debug)]
pub(crate) struct LateDrops {
    is_on: bool,
    drops: ArrayVec<LateDrop, TAP_LATE_DROPS_PER_STEP>,
}

impl LateDrops {
    /// Notes nothing yet. Reserves all memory that will be used.
    pub(crate) fn new() -> Self {
        Self { is_on: false, drops: ArrayVec::new() }
    }

    /// Says whether drops from here on are noted. Returns what was said before.
    pub(crate) fn set_on(&mut self, is_on: bool) -> bool {
        core::mem::replace(&mut self.is_on, is_on)
    }

    /// Notes a drop. Those beyond the room of a step are not noted.
    pub(crate) fn note(&mut self, reason: DropReason, frame: &[u8]) {
        if !self.is_on || self.drops.is_full() {
            return;
        }
        let head = frame.iter().copied().take(HEAD_BYTES).collect();
        self.drops.push(LateDrop { reason, len: frame.len(), head });
    }

    /// The oldest drop.
    pub(crate) fn take_first(&mut self) -> Option<LateDrop> {
        self.drops.pop_at(0)
    }
}
