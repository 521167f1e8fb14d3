//! IPv6 neighbor discovery: answers solicitations for our addresses, and reports learned addresses.
//! Spec: RFC 4861 §7.1, §7.2.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{AddressConflict, DropReason, PuntReason};
use adit_types::MacAddr;
use adit_wire::IpPacket;
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::neighbor::{HOP_LIMIT, NeighborAdvertisement, NeighborSolicitation, solicited_node};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::interfaces::VlanLink;
use crate::originate::neighbor_discovery::{AdvertisementTarget, advertise};
use crate::slow::neighbor_report::{self, ClaimedAddress, NeighborSighting};
use crate::slow::outcome::frame_source;
use crate::transmitter::Transmitter;

/// The link that an ICMP message arrived on, the offset of its IP header, and that header.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedIcmp<'a> {
    pub link: &'a VlanLink,
    pub l3_offset: u8,
    pub ip: &'a IpPacket,
}

/// Answers a solicitation and reports its sender.
///
/// # Errors
/// `NeighborMalformed` for messages that RFC 4861 §7.1.1 discards.
pub(super) fn handle_solicitation<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: Io::Buf,
    ReceivedIcmp { link, l3_offset, ip }: ReceivedIcmp<'_>,
    pseudo: &PseudoHeader,
) -> Result<PuntReason, DropReason> {
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
        let sighting = NeighborSighting { interface, addr, mac, solicited: false, conflict };
        report(ctx, tx, link, sighting);
    }
    let target = match is_probe {
        true => AdvertisementTarget::all_nodes(),
        false => AdvertisementTarget {
            addr: pseudo.src,
            mac: solicitation.source_mac.filter(|mac| is_station(*mac)).unwrap_or(asker),
            is_solicited: true,
        },
    };
    advertise(tx, interface, buf, solicitation.target, target);
    Ok(PuntReason::NeighborDiscovery)
}

/// Reports the link-layer address that an advertisement names.
///
/// # Errors
/// `NeighborMalformed` for messages that RFC 4861 §7.1.2 discards.
pub(super) fn handle_advertisement<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: &Io::Buf,
    ReceivedIcmp { link, l3_offset, ip }: ReceivedIcmp<'_>,
    pseudo: &PseudoHeader,
) -> Result<PuntReason, DropReason> {
    let sender = frame_source(buf)?;
    let l3 = buf.data().get(usize::from(l3_offset)..).unwrap_or_default();
    let advertisement = NeighborAdvertisement::parse(pseudo, ip.payload(l3))
        .map_err(|_| DropReason::NeighborMalformed)?;
    let is_solicited = advertisement.solicited;
    if ip.ttl != HOP_LIMIT || (is_solicited && pseudo.dst.is_multicast()) {
        return Err(DropReason::NeighborMalformed);
    }
    // The answer to a unicast probe may omit the option with the address (RFC 4861 §4.4).
    let mac = advertisement.target_mac.or(is_solicited.then_some(sender));
    if let Some(mac) = mac.filter(|mac| is_station(*mac)) {
        let station = ClaimedAddress { addr: IpAddr::V6(advertisement.target), mac };
        neighbor_report::report_conflict(ctx, tx.limits, tx.books, link, &station);
        let default = link.owner(IpAddr::V6(pseudo.dst)).map(|interface| interface.id);
        if let Some(interface) = default.or(link.first()) {
            let NeighborAdvertisement { target, override_entry, .. } = advertisement;
            let conflict = match override_entry {
                true => AddressConflict::Replace,
                false => AddressConflict::Doubt,
            };
            let (addr, solicited) = (IpAddr::V6(target), is_solicited);
            let sighting = NeighborSighting { interface, addr, mac, solicited, conflict };
            report(ctx, tx, link, sighting);
        }
    }
    Ok(PuntReason::NeighborDiscovery)
}

fn is_station(mac: MacAddr) -> bool {
    !mac.is_multicast() && mac != MacAddr::default()
}

/// Reports a neighbor on the interface of its subnet. Link-local addresses are on every subnet;
/// they are reported on the interface that the message was sent to, which `word` names.
fn report<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    link: &VlanLink,
    word: NeighborSighting,
) {
    let talked_to = link.interfaces.iter().find(|interface| interface.id == word.interface);
    let preferred = talked_to.filter(|interface| interface.is_neighbor(word.addr));
    if let Some(interface) = preferred.or_else(|| link.interface_of_neighbor(word.addr)) {
        let sighting = NeighborSighting { interface: interface.id, ..word };
        neighbor_report::report(ctx, tx.limits, tx.books, sighting);
    }
}
