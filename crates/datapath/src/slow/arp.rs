//! Answers ARP requests for our addresses, and reports learned addresses. Spec: RFC 826, 5227.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{AddressConflict, DropReason, PuntReason};
use adit_types::MacAddr;
use adit_wire::arp::{ArpOperation, ArpPacket};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::interfaces::VlanLink;
use crate::originate::arp::send;
use crate::slow::neighbor_report::{self, ClaimedAddress, NeighborSighting};
use crate::transmitter::Transmitter;

/// Handles a received ARP packet.
///
/// # Errors
/// `ArpMalformed` for ARP other than IPv4 over Ethernet, an unknown operation, or a sender
/// MAC address that no station can have.
pub(crate) fn handle<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    link: &VlanLink,
    buf: Io::Buf,
    l3_offset: u8,
) -> Result<PuntReason, DropReason> {
    let bytes = buf.data().get(usize::from(l3_offset)..).unwrap_or_default();
    let (packet, _) = ArpPacket::parse(bytes).map_err(|_| DropReason::ArpMalformed)?;
    let packet = *packet;
    let is_request = packet.operation() == ArpOperation::REQUEST;
    if !is_request && packet.operation() != ArpOperation::REPLY
        || packet.sender_mac().is_multicast()
        || packet.sender_mac() == MacAddr::default()
    {
        return Err(DropReason::ArpMalformed);
    }
    let sender =
        ClaimedAddress { addr: IpAddr::V4(packet.sender_addr()), mac: packet.sender_mac() };
    neighbor_report::report_conflict(ctx, tx.limits, tx.books, link, &sender);
    let asked = link.owner(IpAddr::V4(packet.target_addr()));
    learn(ctx, tx, link, &packet, asked.is_some());
    if let (true, Some(interface)) = (is_request, asked) {
        let reply = ArpPacket::reply(&packet, interface.mac);
        send(tx, interface, buf, packet.sender_mac(), &reply);
    }
    Ok(PuntReason::Arp)
}

/// Reports the sender if its packet is to us or announces itself; ignores packets among others.
fn learn<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    link: &VlanLink,
    packet: &ArpPacket,
    is_to_us: bool,
) {
    let sender = IpAddr::V4(packet.sender_addr());
    let is_announcement = packet.sender_addr() == packet.target_addr();
    let Some(interface) = link.interface_of_neighbor(sender) else { return };
    if is_to_us || is_announcement {
        let solicited = is_to_us && packet.operation() == ArpOperation::REPLY;
        let (interface, mac) = (interface.id, packet.sender_mac());
        let word = NeighborSighting {
            interface,
            addr: sender,
            mac,
            solicited,
            conflict: AddressConflict::Verify,
        };
        neighbor_report::report(ctx, tx.limits, tx.books, word);
    }
}
