//! SEIDs: random, so that nobody who does not know one can name a session.

use adit_types::Seid;
use rand::Rng;
use rand::rngs::StdRng;

/// Draws SEIDs. Zero and all ones are never drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeidAllocator {
    rng: StdRng,
}

/// A SEID drawn but not yet given away.
pub(crate) struct SeidPlan {
    seid: Seid,
    rng: StdRng,
}

impl SeidPlan {
    pub const fn seid(&self) -> Seid {
        self.seid
    }
}

impl SeidAllocator {
    pub fn new(seed: u64) -> Self {
        Self { rng: super::rng(seed, 1) }
    }

    /// Draws a SEID that is not `taken`. Of 2^64 values at most 2^24 are, so a second draw is rare.
    pub fn plan(&self, taken: impl Fn(Seid) -> bool) -> SeidPlan {
        let mut rng = self.rng.clone();
        loop {
            let seid = Seid(rng.random());
            if seid.0 != 0 && seid.0 != u64::MAX && !taken(seid) {
                return SeidPlan { seid, rng };
            }
        }
    }

    pub fn commit(&mut self, plan: SeidPlan) {
        self.rng = plan.rng;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seid_taken_is_drawn_again() {
        let seids = SeidAllocator::new(1);
        let first = seids.plan(|_| false).seid();
        assert_ne!(seids.plan(|seid| seid == first).seid(), first);
        assert_eq!(seids.plan(|_| false).seid(), first, "a plan changes nothing");
    }
}
