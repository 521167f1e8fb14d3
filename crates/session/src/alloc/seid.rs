//! SEIDs: the session's index in the low bits, a random tag in the high bits.
//!
//! The index finds the session without a table. An outsider who wants to hit a session has to guess
//! the 40 bits of its tag, about as hard as guessing one of millions of random 64-bit SEIDs.

use adit_types::limits::SESSIONS_MAX;
use adit_types::{Seid, SessionIndex};
use rand::Rng;
use rand::rngs::StdRng;

/// How many bits the index has.
const INDEX_BITS: u32 = 24;

const _: () = assert!(SESSIONS_MAX <= 1 << INDEX_BITS, "an index fits");

/// Draws SEIDs, never zero nor all ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeidAllocator {
    rng: StdRng,
}

/// A SEID that was drawn but is not in use yet.
pub(crate) struct SeidPlan {
    seid: Seid,
    rng: StdRng,
}

impl SeidPlan {
    pub(crate) const fn seid(&self) -> Seid {
        self.seid
    }
}

impl SeidAllocator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: super::rng(seed, 1) }
    }

    /// Draws a SEID for the session with this index.
    pub(crate) fn plan(&self, index: SessionIndex) -> SeidPlan {
        let mut rng = self.rng.clone();
        loop {
            let tag: u64 = rng.random();
            let seid = Seid(tag << INDEX_BITS | u64::from(index.0));
            if seid.0 != 0 && seid.0 != u64::MAX {
                return SeidPlan { seid, rng };
            }
        }
    }

    pub(crate) fn commit(&mut self, plan: SeidPlan) {
        self.rng = plan.rng;
    }
}

/// Returns the index of the only session that can have this SEID.
pub const fn index_of(seid: Seid) -> SessionIndex {
    let [a, b, c, ..] = seid.0.to_le_bytes();
    SessionIndex(u32::from_le_bytes([a, b, c, 0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seid_names_its_session_and_differs_each_time() {
        let mut seids = SeidAllocator::new(1);
        for index in [0, 1, (1 << INDEX_BITS) - 1].map(SessionIndex) {
            let plan = seids.plan(index);
            let first = plan.seid();
            assert_eq!(index_of(first), index);
            assert_eq!(seids.plan(index).seid(), first, "a plan changes nothing");
            seids.commit(plan);
            assert_ne!(seids.plan(index).seid(), first);
        }
    }
}
