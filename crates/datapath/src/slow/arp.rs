//! ARP: requests for our addresses are answered, what others tell is reported. Spec: RFC 826, 5227.

use core::net::{IpAddr, Ipv4Addr};

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{AddressConflict, DropReason, PuntReason};
use adit_tables::Interface;
use adit_types::MacAddr;
use adit_wire::EtherType;
use adit_wire::arp::{ArpOperation, ArpPacket};
use adit_wire::ethernet::{emit_link, link_len};

use crate::interfaces::VlanLink;
use crate::slow::neighbor_report::{self, NeighborSighting};
use crate::slow::{SlowLimits, originate, resize};
use crate::stage::egress::StepContext;
use crate::worker_state::WorkerState;

/// Handles a received ARP packet.
///
/// # Errors
/// `ArpMalformed` for what is no ARP about IPv4 over Ethernet, an unknown operation, or a sender
/// that cannot be a station.
pub(crate) fn handle<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    limits: &mut SlowLimits,
    out: &mut WorkerState<Io::Buf>,
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
    let asked = link.owner(IpAddr::V4(packet.target_addr()));
    learn(env, limits, out, link, &packet, asked.is_some());
    if let (true, Some(interface)) = (is_request, asked) {
        let reply = ArpPacket::reply(&packet, interface.mac);
        send(io, out, interface, buf, packet.sender_mac(), &reply);
    }
    Ok(PuntReason::Arp)
}

/// Reports the sender when it talks to us or announces itself. Requests among others are ignored.
fn learn<B: PacketBuf>(
    env: &StepContext<'_>,
    limits: &mut SlowLimits,
    out: &mut WorkerState<B>,
    link: &VlanLink,
    packet: &ArpPacket,
    is_to_us: bool,
) {
    let sender = IpAddr::V4(packet.sender_addr());
    let is_announcement = packet.sender_addr() == packet.target_addr();
    let Some(interface) = link.neighbor_side(sender) else { return };
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
        neighbor_report::report(env, limits, out, word);
    }
}

/// Asks for the hardware address of `target`: everyone, or the station where it was.
pub(super) fn solicit<Io: PacketIo>(
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    interface: &Interface,
    target: Ipv4Addr,
    unicast: Option<MacAddr>,
) {
    let Some(((own, _), buf)) = interface.v4.zip(io.alloc()) else {
        out.tally.lose_originated();
        return;
    };
    let request = ArpPacket::request(interface.mac, own, target);
    send(io, out, interface, buf, unicast.unwrap_or(MacAddr::BROADCAST), &request);
}

/// Announces our address: a request for it that nobody has to answer. Spec: RFC 5227 §2.3.
pub(super) fn announce<Io: PacketIo>(
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    interface: &Interface,
) {
    if let Some((own, _)) = interface.v4 {
        solicit(io, out, interface, own, None);
    }
}

fn send<Io: PacketIo>(
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
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
        originate(io, out, interface, buf);
    } else {
        out.tally.lose_originated();
    }
}
