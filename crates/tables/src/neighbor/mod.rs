//! Neighbor resolution: finds the link-layer address of each next hop.
//!
//! The control thread owns the [`NeighborCache`]. Workers report received packets, the cache
//! decides, and [`adit_rules::NextHops`] publishes its decisions. Solicitations leave as worker
//! commands.
//!
//! Does not live here: the table of next hops (`tables`), ARP and Neighbor Discovery messages
//! (`wire`, `datapath::slow`).

mod announcements;
mod cache;
mod entry;

pub use cache::NeighborCache;
pub use entry::{NeighborCounters, NeighborEntry, NeighborState};
