//! Sends ARP requests and announcements. Spec: RFC 826, 5227.

use core::net::Ipv4Addr;

use adit_tables::Interface;
use adit_types::MacAddr;
use adit_wire::EtherType;
use adit_wire::arp::ArpPacket;
use adit_wire::ethernet::{emit_link, link_len};

use crate::departures::Departures;
use crate::originate::resize;
use crate::transmitter::Transmitter;

/// Requests the MAC address of `target`: by broadcast, or from its last known MAC address
/// `unicast`.
pub(crate) fn solicit<Io: Departures>(
    tx: &mut Transmitter<'_, Io>,
    interface: &Interface,
    target: Ipv4Addr,
    unicast: Option<MacAddr>,
) {
    let Some(((own, _), buf)) = interface.v4.zip(tx.io.alloc()) else {
        tx.lose_originated();
        return;
    };
    let request = ArpPacket::request(interface.mac, own, target);
    send(tx, interface, buf, unicast.unwrap_or(MacAddr::BROADCAST), &request);
}

/// Announces our address by a request for it, which needs no answer. Spec: RFC 5227 §2.3.
pub(crate) fn announce<Io: Departures>(tx: &mut Transmitter<'_, Io>, interface: &Interface) {
    if let Some((own, _)) = interface.v4 {
        solicit(tx, interface, own, None);
    }
}

/// Sends an ARP packet to the station `dst` in `buf`, over the buffer's present contents.
pub(crate) fn send<Io: Departures>(
    tx: &mut Transmitter<'_, Io>,
    interface: &Interface,
    mut buf: Io::Buf,
    dst: MacAddr,
    packet: &ArpPacket,
) {
    let len = link_len(interface.vlan);
    let written = resize(&mut buf, len + ArpPacket::LEN).is_some_and(|frame| {
        emit_link(frame, dst, interface.mac, interface.vlan, EtherType::ARP).is_ok()
            && packet.emit(frame.get_mut(len..).unwrap_or_default()).is_ok()
    });
    if written {
        tx.originate(interface, buf);
    } else {
        tx.lose_originated();
    }
}
