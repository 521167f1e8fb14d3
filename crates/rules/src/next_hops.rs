//! The contract between neighbor resolution and a data plane: next hops and their link-layer
//! addresses.
//!
//! A next hop is a station on one of our links. The data plane creates next hops for its gateways
//! and for the GTP-U peers of FARs; these are pinned. Neighbor resolution adds other stations to
//! which packets are sent, and sets the link-layer addresses of all next hops.

use core::net::IpAddr;

use adit_types::{InterfaceId, MacAddr, NextHopIndex};

/// A next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The interface on whose link the next hop is.
    pub interface: InterfaceId,
    /// The IP address of the next hop.
    pub addr: IpAddr,
    /// The link-layer address of the next hop, `None` until it is resolved.
    pub mac: Option<MacAddr>,
}

/// The next hops of a data plane, by index from zero.
pub trait NextHops {
    /// Returns the identifiers of our interfaces.
    fn interface_ids(&self) -> Vec<InterfaceId>;

    /// Returns the link-layer address of the only station on the link of `interface`. Such a link
    /// has no ARP or Neighbor Discovery. `None` for other links.
    fn only_station(&self, interface: InterfaceId) -> Option<MacAddr>;

    /// True if either address is our own on `interface`, or if there is no such interface.
    fn is_own_address(&self, interface: InterfaceId, addr: IpAddr, mac: MacAddr) -> bool;

    /// Returns the maximum number of next hops; every index is below it.
    fn next_hops_max(&self) -> usize;

    /// Returns the next hop with this index.
    fn next_hop(&self, index: NextHopIndex) -> Option<NextHop>;

    /// Returns the index of a neighbor's next hop; `None` if it has none.
    fn find_next_hop(&self, interface: InterfaceId, addr: IpAddr) -> Option<NextHopIndex>;

    /// Returns the index of the neighbor's next hop, after creating one if needed. `None` if there
    /// is no room, or if `addr` cannot be a neighbor on the interface.
    fn ensure_next_hop(&mut self, interface: InterfaceId, addr: IpAddr) -> Option<NextHopIndex>;

    /// Removes a next hop unless it is pinned; returns true if it was removed. The index is reused
    /// once no packet can use it any more.
    fn remove_next_hop(&mut self, index: NextHopIndex) -> bool;

    /// Publishes a link-layer address. If it is `stale`, the data plane notes when a packet uses it
    /// ([`NextHops::take_used`]).
    fn set_mac(&mut self, index: NextHopIndex, mac: MacAddr, stale: bool);

    /// Removes the link-layer address of a next hop, which is unresolved from then on.
    fn clear_mac(&mut self, index: NextHopIndex);

    /// True if a packet used the stale address of the next hop since the last call.
    fn take_used(&mut self, index: NextHopIndex) -> bool;

    /// True for gateways, and for GTP-U peers of FARs in use.
    fn is_pinned(&self, index: NextHopIndex) -> bool;

    /// Returns a next hop that became pinned or unpinned since it was last returned here.
    fn take_pin_change(&mut self) -> Option<NextHopIndex>;
}
