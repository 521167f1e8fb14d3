//! The cache as `adit show` displays it.

use core::net::IpAddr;

use adit_types::{InterfaceId, MacAddr, NextHopIndex};

/// The state of a neighbor. Spec: RFC 4861 §7.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighborState {
    /// Solicited; it has not answered yet.
    Incomplete,
    /// Confirmed its address within `REACHABLE_TIME`.
    Reachable,
    /// Has an address without a recent confirmation.
    Stale,
    /// In use, and solicited at its known address.
    Probe,
    /// Did not answer.
    Failed,
    /// The only station of its link: never solicited.
    Fixed,
}

/// One neighbor, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighborEntry {
    /// Its next hop.
    pub index: NextHopIndex,
    /// The interface on whose link it is.
    pub interface: InterfaceId,
    /// Its address.
    pub addr: IpAddr,
    /// Its link-layer address, if known.
    pub mac: Option<MacAddr>,
    /// Its state.
    pub state: NeighborState,
    /// A gateway or a GTP-U peer: kept resolved without traffic.
    pub pinned: bool,
}

/// Counts of the cache's actions and refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighborCounters {
    /// Solicitations queued for a worker.
    pub solicits: u64,
    /// Neighbors that did not answer.
    pub failures: u64,
    /// Requests for addresses that are not on the link of their interface, or without a free next
    /// hop.
    pub wanted_refused: u64,
    /// Link-layer addresses that no station can have, or claims of our own address.
    pub seen_refused: u64,
    /// Uses of our own addresses by other stations.
    pub own_addresses_used: u64,
    /// Link-layer addresses that changed.
    pub mac_changes: u64,
    /// Claims of another link-layer address that the known station refuted by an answer.
    pub claims_refuted: u64,
    /// Commands that found the queue full.
    pub commands_lost: u64,
}
