//! The egress of a packet: the interface, next hop and link-layer address that it leaves with.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, WorkerEvent};
use adit_tables::{Interface, Via};
use adit_types::{InterfaceRole, InterfaceSet, MacAddr, NextHopIndex};
use adit_wire::EtherType;
use adit_wire::ethernet::{emit_link, link_len};

use crate::context::StepContext;
use crate::interfaces::TxTarget;

/// Where a packet leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Egress<'v> {
    /// The interface it leaves through.
    pub interface: &'v Interface,
    /// The neighbor on that interface's link.
    pub station: IpAddr,
    /// The neighbor's index in the tables, [`NextHopIndex::NONE`] without one.
    pub index: NextHopIndex,
    /// The neighbor's link-layer address, `None` while it is unresolved.
    pub mac: Option<MacAddr>,
}

impl<'v> Egress<'v> {
    /// Returns the egress of a frame that does not leave, but arrives on `interface` again.
    #[inline]
    pub(crate) fn loopback(interface: &'v Interface, station: IpAddr) -> Self {
        Self { interface, station, index: NextHopIndex::NONE, mac: Some(interface.mac) }
    }

    #[inline]
    pub(crate) const fn target(&self) -> TxTarget {
        TxTarget::of(self.interface)
    }

    /// Returns the request to resolve the neighbor's link-layer address.
    pub(crate) const fn neighbor_unresolved(&self) -> WorkerEvent {
        WorkerEvent::NeighborUnresolved { interface: self.interface.id, addr: self.station }
    }

    /// Returns the link-layer address to write: zeros while it is unknown, to be filled in later.
    #[inline]
    pub(crate) fn mac_or_blank(&self) -> MacAddr {
        self.mac.unwrap_or_default()
    }
}

/// Returns the egress to a next hop of the tables.
#[inline]
pub(crate) fn egress_to_hop<'v>(ctx: &StepContext<'v>, index: NextHopIndex) -> Option<Egress<'v>> {
    let hop = ctx.view.next_hop(index)?;
    let interface = ctx.interfaces.get(hop.interface)?;
    Some(Egress { interface, station: hop.addr, index, mac: hop.mac })
}

/// Returns the egress to `addr` by the routes of `role`, through one of the interfaces `within`.
/// `hash` selects one of several next hops; see [`adit_tables::TablesView::route_of_flow`].
#[inline]
pub(crate) fn egress_by_route<'v>(
    ctx: &StepContext<'v>,
    role: InterfaceRole,
    within: InterfaceSet,
    addr: IpAddr,
    hash: impl FnOnce() -> u32,
) -> Option<Egress<'v>> {
    let route = ctx.view.route_of_flow(role, within, addr, hash)?;
    match route.via {
        Via::Known(index) => egress_to_hop(ctx, index),
        Via::Unknown(station) => {
            let interface = ctx.interfaces.get(route.interface)?;
            Some(Egress { interface, station, index: NextHopIndex::NONE, mac: None })
        }
    }
}

/// Puts a link header in front of the IP packet in `buf`.
///
/// # Errors
/// `HeadroomShort` if the headroom is too short for the header.
#[inline]
pub(crate) fn prepend_link<B: PacketBuf>(
    buf: &mut B,
    interface: &Interface,
    dst: MacAddr,
    ether_type: EtherType,
) -> Result<(), DropReason> {
    let frame = buf.prepend(link_len(interface.vlan)).ok_or(DropReason::HeadroomShort)?;
    emit_link(frame, dst, interface.mac, interface.vlan, ether_type)
        .map(|_| ())
        .map_err(|_| DropReason::HeadroomShort)
}

/// Returns the EtherType of an IP packet of the family of `addr`.
#[inline]
pub(crate) fn ether_type_of(addr: IpAddr) -> EtherType {
    if addr.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 }
}

/// Makes room of `len` octets in front of the packet.
///
/// # Errors
/// `HeadroomShort` if the headroom is shorter than `len`.
#[inline]
pub(crate) fn prepend<B: PacketBuf>(buf: &mut B, len: usize) -> Result<&mut [u8], DropReason> {
    let frame = buf.prepend(len).ok_or(DropReason::HeadroomShort)?;
    frame.get_mut(..len).ok_or(DropReason::HeadroomShort)
}
