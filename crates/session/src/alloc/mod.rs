//! Allocators of SEIDs, TEIDs, session indices, UE addresses and usage slots.
//!
//! An allocator first makes a plan, which changes nothing, and then commits it, so that a change
//! that is refused in between leaves no trace.

mod owner_nodes;
mod percent;
mod seid;
mod session_index;
mod teid;
pub(crate) mod ue_ip;
mod usage_slot;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub use owner_nodes::OwnerNodes;
pub(crate) use percent::percent;
pub(crate) use seid::SeidAllocator;
pub use seid::index_of as seid_index;
pub(crate) use session_index::SessionIndexAllocator;
pub use teid::teid_range_bits_max;
pub(crate) use teid::{TeidAllocator, TeidHolder, TeidPlan};
pub(crate) use ue_ip::{UeIpAllocator, UePlan};
pub(crate) use usage_slot::UsageSlotAllocator;

/// Makes the random generator of one allocator. Each allocator has its own `stream`, so that its
/// values reveal nothing about those of another allocator. `StdRng` is a stream cipher: its past
/// output does not reveal its future output.
fn rng(seed: u64, stream: usize) -> StdRng {
    let mut root = StdRng::seed_from_u64(seed);
    let mut key = <StdRng as SeedableRng>::Seed::default();
    for _ in 0..=stream {
        root.fill(&mut key);
    }
    StdRng::from_seed(key)
}
