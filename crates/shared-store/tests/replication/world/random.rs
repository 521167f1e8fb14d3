//! A random sequence that a seed determines.

use std::cell::Cell;
use std::rc::Rc;

/// SplitMix64, shared by all parts of a world.
#[derive(Debug, Clone)]
pub(crate) struct ReplicationRandom(Rc<Cell<u64>>);

impl ReplicationRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rc::new(Cell::new(seed)))
    }

    /// A number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    /// True in so many of a thousand cases.
    pub(crate) fn permille(&self, chance: u64) -> bool {
        self.below(1000) < chance
    }
}
