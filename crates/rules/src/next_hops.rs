//! The contract between neighbor resolution and a data plane: next hops and their link-layer
//! addresses.
//!
//! A next hop is a station on one of our links. The data plane creates next hops for its gateways
//! and for the GTP-U peers of FARs; these are pinned. Neighbor resolution adds the stations that
//! packets are sent to, and writes the link-layer address of all.

use core::net::IpAddr;

use adit_types::{InterfaceId, MacAddr, NextHopIndex};

/// A next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The interface on whose link it is.
    pub interface: InterfaceId,
    /// Its address.
    pub addr: IpAddr,
    /// Its link-layer address, `None` until it is resolved.
    pub mac: Option<MacAddr>,
}

/// The next hops of a data plane, by dense index.
pub trait NextHops {
    /// Our interfaces, by id.
    fn interface_ids(&self) -> Vec<InterfaceId>;

    /// The link-layer address of the only station on the link of `interface`: its next hops need no
    /// resolution, and the link has no ARP or Neighbor Discovery. `None` for other links.
    fn only_station(&self, interface: InterfaceId) -> Option<MacAddr>;

    /// True if either address is our own on `interface`, and if there is no such interface.
    fn is_own_address(&self, interface: InterfaceId, addr: IpAddr, mac: MacAddr) -> bool;

    /// Next hops at most; every index is below.
    fn next_hops_max(&self) -> usize;

    /// The next hop of `index`.
    fn next_hop(&self, index: NextHopIndex) -> Option<NextHop>;

    /// The next hop of a neighbor, if there is one.
    fn find_next_hop(&self, interface: InterfaceId, addr: IpAddr) -> Option<NextHopIndex>;

    /// The next hop to the neighbor `addr`, created if absent. `None` without room, and if `addr`
    /// is no neighbor on the interface.
    fn ensure_next_hop(&mut self, interface: InterfaceId, addr: IpAddr) -> Option<NextHopIndex>;

    /// Removes a next hop unless it is pinned; returns whether it did. The index is reused once no
    /// packet can use it any more.
    fn remove_next_hop(&mut self, index: NextHopIndex) -> bool;

    /// Publishes a link-layer address. The data plane marks a `stale` one when it uses it
    /// ([`NextHops::take_used`]).
    fn set_mac(&mut self, index: NextHopIndex, mac: MacAddr, stale: bool);

    /// Makes a next hop unresolved.
    fn clear_mac(&mut self, index: NextHopIndex);

    /// True if a packet used the next hop, while its address was stale, since the last call.
    fn take_used(&mut self, index: NextHopIndex) -> bool;

    /// True for gateways, and for GTP-U peers of FARs in use.
    fn is_pinned(&self, index: NextHopIndex) -> bool;

    /// A next hop that became pinned or unpinned since it was last returned here.
    fn take_pin_change(&mut self) -> Option<NextHopIndex>;
}
