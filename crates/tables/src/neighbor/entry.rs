//! Entries and counters of the neighbor cache as `adit show` displays them.

use core::net::IpAddr;

use adit_types::{InterfaceId, MacAddr, NextHopIndex};

/// The state of a neighbor. Spec: RFC 4861 §7.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighborState {
    /// The neighbor was solicited and has not answered yet.
    Incomplete,
    /// The neighbor confirmed its address within `REACHABLE_TIME`.
    Reachable,
    /// The neighbor has an address that was not confirmed recently.
    Stale,
    /// The neighbor is in use, and is being solicited at its known address.
    Probe,
    /// Did not answer.
    Failed,
    /// The only station of its link: never solicited.
    Fixed,
}

/// One neighbor, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborEntry {
    /// The neighbor's index among the next hops.
    pub index: NextHopIndex,
    /// The interface to whose link the neighbor is attached.
    pub interface: InterfaceId,
    /// Its address.
    pub addr: IpAddr,
    /// Its link-layer address, if known.
    pub mac: Option<MacAddr>,
    /// Its state.
    pub state: NeighborState,
    /// True for a gateway or a GTP-U peer, which is kept resolved without traffic.
    pub pinned: bool,
}

/// Counts of the cache's actions and refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighborCounters {
    /// Solicitations that were queued for a worker.
    pub solicits: u64,
    /// How often a neighbor did not answer.
    pub failures: u64,
    /// Requests that were refused: the address is not on the link of the interface, or no next hop
    /// is free.
    pub wanted_refused: u64,
    /// Link-layer addresses that were refused: no station can have them, the sender claims an
    /// address of ours, or the link has only one fixed station.
    pub seen_refused: u64,
    /// How often another station used an address of ours.
    pub own_addresses_used: u64,
    /// Changes of a neighbor's link-layer address.
    pub mac_changes: u64,
    /// Claims of another link-layer address that were refuted because the known station answered.
    pub claims_refuted: u64,
    /// Commands lost because the queue was full.
    pub commands_lost: u64,
}
