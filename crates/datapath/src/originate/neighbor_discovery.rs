//! Sends IPv6 neighbor solicitations and advertisements. Spec: RFC 4861 §7.2.

use core::net::Ipv6Addr;

use adit_tables::Interface;
use adit_types::MacAddr;
use adit_wire::ethernet::{emit_link, link_len};
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::neighbor::{
    HOP_LIMIT, MESSAGE_LEN, NeighborAdvertisement, NeighborSolicitation, multicast_mac,
    solicited_node,
};
use adit_wire::{EtherType, Malformed, protocol};

use crate::departures::Departures;
use crate::originate::resize;
use crate::transmitter::Transmitter;

/// The multicast address of all nodes of a link. Spec: RFC 4291 §2.7.1.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The destination of a neighbor advertisement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdvertisementTarget {
    /// Destination IP address.
    pub addr: Ipv6Addr,
    /// Destination MAC address.
    pub mac: MacAddr,
    /// True if the advertisement answers a solicitation.
    pub is_solicited: bool,
}

impl AdvertisementTarget {
    /// All nodes of the link, for an advertisement that no one solicited.
    pub(crate) fn all_nodes() -> Self {
        Self { addr: ALL_NODES, mac: multicast_mac(ALL_NODES), is_solicited: false }
    }
}

/// Requests the MAC address of `target`: from its solicited-node group, or from its last known MAC
/// address `unicast`.
pub(crate) fn solicit<Io: Departures>(
    tx: &mut Transmitter<'_, Io>,
    interface: &Interface,
    target: Ipv6Addr,
    unicast: Option<MacAddr>,
) {
    let own = match interface.v6 {
        Some((own, _)) if !target.is_unicast_link_local() => own,
        _ => interface.link_local(),
    };
    let Some(buf) = tx.io.alloc() else {
        tx.lose_originated();
        return;
    };
    let group = solicited_node(target);
    let dst = unicast.map_or(group, |_| target);
    let dst_mac = unicast.unwrap_or(multicast_mac(group));
    let solicitation = NeighborSolicitation { target, source_mac: Some(interface.mac) };
    let pseudo = PseudoHeader { src: own, dst };
    send(tx, interface, buf, dst_mac, &pseudo, |message| solicitation.emit(message, &pseudo));
}

/// Announces our addresses to the whole link. Spec: RFC 4861 §7.2.6.
pub(crate) fn announce<Io: Departures>(tx: &mut Transmitter<'_, Io>, interface: &Interface) {
    let Some((global, _)) = interface.v6 else { return };
    for own in [global, interface.link_local()] {
        match tx.io.alloc() {
            Some(buf) => {
                advertise(tx, interface, buf, own, AdvertisementTarget::all_nodes());
            }
            None => tx.lose_originated(),
        }
    }
}

/// Advertises our address `own`.
pub(crate) fn advertise<Io: Departures>(
    tx: &mut Transmitter<'_, Io>,
    interface: &Interface,
    buf: Io::Buf,
    own: Ipv6Addr,
    target: AdvertisementTarget,
) {
    let advertisement = NeighborAdvertisement {
        target: own,
        target_mac: Some(interface.mac),
        router: true,
        solicited: target.is_solicited,
        override_entry: true,
    };
    let pseudo = PseudoHeader { src: own, dst: target.addr };
    send(tx, interface, buf, target.mac, &pseudo, |message| advertisement.emit(message, &pseudo));
}

/// Writes link header, IPv6 header and message into `buf`, and sends the frame.
fn send<Io: Departures>(
    tx: &mut Transmitter<'_, Io>,
    interface: &Interface,
    mut buf: Io::Buf,
    dst_mac: MacAddr,
    pseudo: &PseudoHeader,
    emit_message: impl FnOnce(&mut [u8]) -> Result<usize, Malformed>,
) {
    const PAYLOAD_LEN: u16 = 32;
    const _: () = assert!(MESSAGE_LEN == PAYLOAD_LEN as usize);
    let header = Ipv6Header::new(&Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: PAYLOAD_LEN,
        next_header: protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        src: pseudo.src,
        dst: pseudo.dst,
    });
    let l3 = link_len(interface.vlan);
    let l4 = l3 + Ipv6Header::LEN;
    let written = resize(&mut buf, l4 + MESSAGE_LEN).is_some_and(|frame| {
        emit_link(frame, dst_mac, interface.mac, interface.vlan, EtherType::IPV6).is_ok()
            && header.emit(frame.get_mut(l3..).unwrap_or_default()).is_ok()
            && emit_message(frame.get_mut(l4..).unwrap_or_default()).is_ok()
    });
    if written {
        tx.originate(interface, buf);
    } else {
        tx.lose_originated();
    }
}
