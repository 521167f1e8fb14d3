//! IPv6 neighbor discovery: solicitations for our addresses are answered, what others tell is
//! reported. Spec: RFC 4861 §7.1, §7.2.

use core::net::{IpAddr, Ipv6Addr};

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{AddressConflict, DropReason, PuntReason};
use adit_tables::Interface;
use adit_types::MacAddr;
use adit_wire::ethernet::{emit_link, link_len};
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::neighbor::{
    HOP_LIMIT, MESSAGE_LEN, NeighborAdvertisement, NeighborSolicitation, multicast_mac,
    solicited_node,
};
use adit_wire::{EtherType, IpPacket, Malformed, protocol};

use crate::interfaces::VlanLink;
use crate::slow::neighbor_report::{self, NeighborSighting};
use crate::slow::{SlowLimits, frame_source, originate, resize};
use crate::stage::egress::StepContext;
use crate::worker_state::WorkerState;

/// All nodes of the link. Spec: RFC 4291 §2.7.1.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A received message: where it came from, where its IP header begins, what that says.
#[derive(Debug, Clone, Copy)]
pub(super) struct NdContext<'a> {
    pub link: &'a VlanLink,
    pub l3_offset: u8,
    pub ip: &'a IpPacket,
    pub pseudo: &'a PseudoHeader,
}

/// Answers a solicitation and reports its sender.
///
/// # Errors
/// `NeighborMalformed` for what RFC 4861 §7.1.1 tells to discard.
pub(super) fn handle_solicitation<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    limits: &mut SlowLimits,
    out: &mut WorkerState<Io::Buf>,
    buf: Io::Buf,
    place: &NdContext<'_>,
) -> Result<PuntReason, DropReason> {
    let NdContext { link, l3_offset, ip, pseudo } = *place;
    let asker = frame_source(&buf)?;
    let l3 = buf.data().get(usize::from(l3_offset)..).unwrap_or_default();
    let solicitation = NeighborSolicitation::parse(pseudo, ip.payload(l3))
        .map_err(|_| DropReason::NeighborMalformed)?;
    let is_probe = pseudo.src.is_unspecified();
    let probe_is_wrong = is_probe
        && (solicitation.source_mac.is_some() || pseudo.dst != solicited_node(solicitation.target));
    if ip.ttl != HOP_LIMIT || probe_is_wrong {
        return Err(DropReason::NeighborMalformed);
    }
    let target = IpAddr::V6(solicitation.target);
    let Some(interface) = link.owner(target) else {
        return Ok(PuntReason::NeighborDiscovery);
    };
    if let Some(mac) = solicitation.source_mac.filter(|mac| is_station(*mac)) {
        let (interface, addr) = (interface.id, IpAddr::V6(pseudo.src));
        let conflict = AddressConflict::Verify;
        report(
            env,
            limits,
            out,
            link,
            NeighborSighting { interface, addr, mac, solicited: false, conflict },
        );
    }
    let (dst, dst_mac) = if is_probe {
        (ALL_NODES, multicast_mac(ALL_NODES))
    } else {
        (pseudo.src, solicitation.source_mac.filter(|mac| is_station(*mac)).unwrap_or(asker))
    };
    advertise(io, out, interface, buf, solicitation.target, (dst, dst_mac), !is_probe);
    Ok(PuntReason::NeighborDiscovery)
}

/// Reports what an advertisement tells.
///
/// # Errors
/// `NeighborMalformed` for what RFC 4861 §7.1.2 tells to discard.
pub(super) fn handle_advertisement<B: PacketBuf>(
    env: &StepContext<'_>,
    limits: &mut SlowLimits,
    out: &mut WorkerState<B>,
    buf: &B,
    place: &NdContext<'_>,
) -> Result<PuntReason, DropReason> {
    let NdContext { link, l3_offset, ip, pseudo } = *place;
    let sender = frame_source(buf)?;
    let l3 = buf.data().get(usize::from(l3_offset)..).unwrap_or_default();
    let advertisement = NeighborAdvertisement::parse(pseudo, ip.payload(l3))
        .map_err(|_| DropReason::NeighborMalformed)?;
    let is_solicited = advertisement.solicited;
    if ip.ttl != HOP_LIMIT || (is_solicited && pseudo.dst.is_multicast()) {
        return Err(DropReason::NeighborMalformed);
    }
    // The answer to a unicast probe may leave the option out (RFC 4861 §4.4).
    let mac = advertisement.target_mac.or(is_solicited.then_some(sender));
    if let Some(mac) = mac.filter(|mac| is_station(*mac)) {
        let default = link.owner(IpAddr::V6(pseudo.dst)).map(|interface| interface.id);
        if let Some(interface) = default.or(link.first()) {
            let NeighborAdvertisement { target, override_entry, .. } = advertisement;
            let conflict = match override_entry {
                true => AddressConflict::Replace,
                false => AddressConflict::Doubt,
            };
            let (addr, solicited) = (IpAddr::V6(target), is_solicited);
            report(
                env,
                limits,
                out,
                link,
                NeighborSighting { interface, addr, mac, solicited, conflict },
            );
        }
    }
    Ok(PuntReason::NeighborDiscovery)
}

fn is_station(mac: MacAddr) -> bool {
    !mac.is_multicast() && mac != MacAddr::default()
}

/// Reports a neighbor on the interface of its subnet. Link-local addresses are on every subnet: they
/// belong to the interface that was talked to, which `word` names.
fn report<B: PacketBuf>(
    env: &StepContext<'_>,
    limits: &mut SlowLimits,
    out: &mut WorkerState<B>,
    link: &VlanLink,
    word: NeighborSighting,
) {
    let talked_to = link.interfaces.iter().find(|interface| interface.id == word.interface);
    let preferred = talked_to.filter(|interface| interface.is_neighbor(word.addr));
    if let Some(interface) = preferred.or_else(|| link.neighbor_side(word.addr)) {
        neighbor_report::report(
            env,
            limits,
            out,
            NeighborSighting { interface: interface.id, ..word },
        );
    }
}

/// Asks for the hardware address of `target`: its solicited-node group, or the station where it was.
pub(super) fn solicit<Io: PacketIo>(
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    interface: &Interface,
    target: Ipv6Addr,
    unicast: Option<MacAddr>,
) {
    let own = match interface.v6 {
        Some((own, _)) if !target.is_unicast_link_local() => own,
        _ => interface.link_local(),
    };
    let Some(buf) = io.alloc() else {
        out.tally.lose_originated();
        return;
    };
    let group = solicited_node(target);
    let dst = unicast.map_or(group, |_| target);
    let dst_mac = unicast.unwrap_or(multicast_mac(group));
    let solicitation = NeighborSolicitation { target, source_mac: Some(interface.mac) };
    let pseudo = PseudoHeader { src: own, dst };
    send(io, out, interface, buf, dst_mac, &pseudo, |message| solicitation.emit(message, &pseudo));
}

/// Announces our addresses to the whole link. Spec: RFC 4861 §7.2.6.
pub(super) fn announce<Io: PacketIo>(
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    interface: &Interface,
) {
    let Some((global, _)) = interface.v6 else { return };
    for own in [global, interface.link_local()] {
        match io.alloc() {
            Some(buf) => {
                let to_all = (ALL_NODES, multicast_mac(ALL_NODES));
                advertise(io, out, interface, buf, own, to_all, false);
            }
            None => out.tally.lose_originated(),
        }
    }
}

fn advertise<Io: PacketIo>(
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    interface: &Interface,
    buf: Io::Buf,
    target: Ipv6Addr,
    (dst, dst_mac): (Ipv6Addr, MacAddr),
    solicited: bool,
) {
    let advertisement = NeighborAdvertisement {
        target,
        target_mac: Some(interface.mac),
        router: true,
        solicited,
        override_entry: true,
    };
    let pseudo = PseudoHeader { src: target, dst };
    send(io, out, interface, buf, dst_mac, &pseudo, |message| advertisement.emit(message, &pseudo));
}

/// Writes link header, IPv6 header and the message, and transmits them.
fn send<Io: PacketIo>(
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
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
        originate(io, out, interface, buf);
    } else {
        out.tally.lose_originated();
    }
}
