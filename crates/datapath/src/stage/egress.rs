//! The way out: interface, station and link-layer address that a packet leaves with.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::DropReason;
use adit_tables::{Interface, TablesView, Via};
use adit_types::{InterfaceRole, InterfaceSet, MacAddr, Nanos, NextHopIndex};
use adit_wire::EtherType;
use adit_wire::ethernet::{emit_link, link_len};

use crate::interfaces::Interfaces;

/// What stays as it is during one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepContext<'v> {
    /// The tables.
    pub view: TablesView<'v>,
    /// Our interfaces.
    pub interfaces: &'v Interfaces,
    /// The time of the step.
    pub now: Nanos,
    /// When this node started, as GTP-U peers are told; `None`: they are not.
    pub recovery_time_stamp: Option<u32>,
}

/// Where a packet goes next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Egress<'v> {
    /// The interface it leaves through.
    pub interface: &'v Interface,
    /// The station on that interface's link.
    pub station: IpAddr,
    /// The station's place in the tables, [`NextHopIndex::NONE`] without one.
    pub index: NextHopIndex,
    /// The station's link-layer address, `None` while it is being resolved.
    pub mac: Option<MacAddr>,
}

impl<'v> Egress<'v> {
    /// The way of a frame that does not leave, but arrives on `interface`.
    #[inline]
    pub fn loopback(interface: &'v Interface, station: IpAddr) -> Self {
        Self { interface, station, index: NextHopIndex::NONE, mac: Some(interface.mac) }
    }

    /// The link-layer address to write: zeros, to be filled in later, while it is not known.
    #[inline]
    pub fn mac_or_blank(&self) -> MacAddr {
        self.mac.unwrap_or_default()
    }
}

/// The way to a known next hop.
#[inline]
pub(crate) fn egress_to_hop<'v>(env: &StepContext<'v>, index: NextHopIndex) -> Option<Egress<'v>> {
    let hop = env.view.next_hop(index)?;
    let interface = env.interfaces.get(hop.interface)?;
    Some(Egress { interface, station: hop.addr, index, mac: hop.mac })
}

/// The way to `addr` by the routes of `role` through interfaces `within` the set.
#[inline]
pub(crate) fn egress_by_route<'v>(
    env: &StepContext<'v>,
    role: InterfaceRole,
    within: InterfaceSet,
    addr: IpAddr,
) -> Option<Egress<'v>> {
    let route = env.view.route(role, within, addr)?;
    match route.via {
        Via::Known(index) => egress_to_hop(env, index),
        Via::Unknown(station) => {
            let interface = env.interfaces.get(route.interface)?;
            Some(Egress { interface, station, index: NextHopIndex::NONE, mac: None })
        }
    }
}

/// Puts a link header in front of the IP packet in `buf`.
///
/// # Errors
/// `HeadroomShort` without room.
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

/// The type that announces an IP packet of the family of `addr`.
#[inline]
pub(crate) fn ether_type_of(addr: IpAddr) -> EtherType {
    if addr.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 }
}
