//! Handles ICMP and ICMPv6 to our own addresses: answers echo requests, and passes on neighbor
//! discovery and MTUs of paths. Spec: RFC 792; RFC 1122 §3.2.2.6; RFC 4443 §3.2, §4.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PuntReason};
use adit_tables::Interface;
use adit_wire::encapsulate::OUTER_TTL;
use adit_wire::icmpv6::{Icmpv6Header, PseudoHeader};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::neighbor::{NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION};
use adit_wire::{IpAddrs, icmp, icmpv6, protocol};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::{ether_type_of, prepend_link};
use crate::slow::neighbor_discovery::{self, ReceivedIcmp};
use crate::slow::outcome::frame_source;
use crate::slow::path_mtu::{self, PacketExceeds};
use crate::transmitter::Transmitter;

/// Multicast listener query, report, done; router solicitation and advertisement; MLDv2 report.
pub(super) const HOUSEKEEPING: [u8; 6] = [130, 131, 132, 133, 134, 143];

/// Handles a message about an MTU to one of our IPv4 addresses. `None`: it is another one.
pub(super) fn path_mtu_v4<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: &Io::Buf,
    ReceivedIcmp { l3_offset, ip, .. }: &ReceivedIcmp<'_>,
) -> Option<Result<PuntReason, DropReason>> {
    let l3 = buf.data().get(usize::from(*l3_offset)..).unwrap_or_default();
    let (header, quote) = icmp::IcmpHeader::parse(ip.payload(l3)).ok()?;
    let kind = (header.kind(), header.code());
    if kind != (icmp::DST_UNREACHABLE, icmp::CODE_FRAGMENTATION_NEEDED) {
        return None;
    }
    let mtu_bytes = header.next_hop_mtu().into();
    let said = PacketExceeds { router: ip.addrs.src(), mtu_bytes, quote };
    Some(path_mtu::handle(ctx, tx.limits, tx.books, &said))
}

/// Handles a Packet Too Big message.
///
/// # Errors
/// `IcmpUnhandled` for a malformed one; `IcmpQuoteUnknown`.
pub(super) fn path_mtu_v6<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: &Io::Buf,
    ReceivedIcmp { l3_offset, ip, .. }: &ReceivedIcmp<'_>,
) -> Result<PuntReason, DropReason> {
    let IpAddrs::V6 { src, dst } = ip.addrs else { return Err(DropReason::IcmpUnhandled) };
    let l3 = buf.data().get(usize::from(*l3_offset)..).unwrap_or_default();
    let (header, quote) = Icmpv6Header::parse(&PseudoHeader { src, dst }, ip.payload(l3))
        .map_err(|_| DropReason::IcmpUnhandled)?;
    let said = PacketExceeds { router: src.into(), mtu_bytes: header.word(), quote };
    path_mtu::handle(ctx, tx.limits, tx.books, &said)
}

/// Handles ICMP to one of our IPv4 addresses.
///
/// # Errors
/// `IcmpUnhandled` for all but correct echo requests and messages about an MTU; `IcmpQuoteUnknown`;
/// `IpAddressInvalid` if the sender cannot be answered; `HeadroomShort`.
pub(super) fn handle_v4<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: Io::Buf,
    received: ReceivedIcmp<'_>,
) -> Result<PuntReason, DropReason> {
    let ReceivedIcmp { link, l3_offset, ip } = received;
    let l3 = buf.data().get(usize::from(l3_offset)..).unwrap_or_default();
    match icmp::IcmpHeader::parse(ip.payload(l3)) {
        Ok((header, _)) if (header.kind(), header.code()) == (icmp::ECHO_REQUEST, 0) => {}
        _ => {
            let outcome = path_mtu_v4(ctx, tx, &buf, &received);
            return outcome.unwrap_or(Err(DropReason::IcmpUnhandled));
        }
    }
    let interface = link.owner(ip.addrs.dst()).ok_or(DropReason::IcmpUnhandled)?;
    if !adit_types::is_forwardable(ip.addrs.src()) {
        return Err(DropReason::IpAddressInvalid);
    }
    answer_echo(tx, interface, buf, received)
}

/// Handles ICMPv6 to one of our IPv6 addresses, or to a multicast address.
///
/// # Errors
/// `IcmpUnhandled`, `IpAddressInvalid` and `HeadroomShort` as for IPv4; `NeighborMalformed`;
/// `OuterFragment` for every fragment (neighbor discovery must not be fragmented, RFC 6980 §5).
pub(super) fn handle_v6<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: Io::Buf,
    received: ReceivedIcmp<'_>,
) -> Result<PuntReason, DropReason> {
    let ReceivedIcmp { link, l3_offset, ip } = received;
    let IpAddrs::V6 { src, dst } = ip.addrs else { return Err(DropReason::IcmpUnhandled) };
    if ip.is_fragment() {
        return Err(DropReason::OuterFragment);
    }
    let pseudo = PseudoHeader { src, dst };
    let l3 = buf.data().get(usize::from(l3_offset)..).unwrap_or_default();
    let message = ip.payload(l3);
    let kind = message.first().copied().unwrap_or(0);
    match kind {
        NEIGHBOR_SOLICITATION => {
            neighbor_discovery::handle_solicitation(ctx, tx, buf, received, &pseudo)
        }
        NEIGHBOR_ADVERTISEMENT => {
            neighbor_discovery::handle_advertisement(ctx, tx, &buf, received, &pseudo)
        }
        icmpv6::ECHO_REQUEST => {
            Icmpv6Header::parse(&pseudo, message).map_err(|_| DropReason::IcmpUnhandled)?;
            let interface = link.owner(IpAddr::V6(dst)).ok_or(DropReason::IcmpUnhandled)?;
            if !adit_types::is_forwardable(IpAddr::V6(src)) && !src.is_unicast_link_local() {
                return Err(DropReason::IpAddressInvalid);
            }
            answer_echo(tx, interface, buf, received)
        }
        icmpv6::PACKET_TOO_BIG => path_mtu_v6(ctx, tx, &buf, &received),
        _ if HOUSEKEEPING.contains(&kind) => Ok(PuntReason::LinkControl),
        _ => Err(DropReason::IcmpUnhandled),
    }
}

/// Turns the echo request in `buf` into its reply and sends the reply to the station that the
/// request came from. Leaves out options and extension headers.
fn answer_echo<Io: Departures>(
    tx: &mut Transmitter<'_, Io>,
    interface: &Interface,
    mut buf: Io::Buf,
    ReceivedIcmp { l3_offset, ip, .. }: ReceivedIcmp<'_>,
) -> Result<PuntReason, DropReason> {
    let asker = frame_source(&buf)?;
    let header_len = if ip.is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN };
    let skipped = usize::from(ip.payload_offset).saturating_sub(header_len);
    let offset = usize::from(l3_offset);
    if !buf.truncate(offset + usize::from(ip.total_len)) || !buf.trim_front(offset + skipped) {
        return Err(DropReason::IcmpUnhandled);
    }
    let packet = buf.data_mut();
    let written = match ip.addrs {
        IpAddrs::V4 { src, dst } => Ipv4Header::new(&Ipv4Fields {
            tos: ip.tos,
            total_len: ip.payload_len().saturating_add(20),
            identification: 0,
            dont_fragment: true,
            ttl: OUTER_TTL,
            protocol: protocol::ICMP,
            src: dst,
            dst: src,
        })
        .emit(packet)
        .and_then(|()| icmp::echo_reply_in_place(packet.get_mut(header_len..).unwrap_or_default())),
        IpAddrs::V6 { src, dst } => Ipv6Header::new(&Ipv6Fields {
            traffic_class: ip.tos,
            flow_label: 0,
            payload_len: ip.payload_len(),
            next_header: protocol::ICMPV6,
            hop_limit: OUTER_TTL,
            src: dst,
            dst: src,
        })
        .emit(packet)
        .and_then(|()| {
            icmpv6::echo_reply_in_place(packet.get_mut(header_len..).unwrap_or_default())
        }),
    };
    written.map_err(|_| DropReason::IcmpUnhandled)?;
    prepend_link(&mut buf, interface, asker, ether_type_of(ip.addrs.dst()))?;
    tx.originate(interface, buf);
    Ok(PuntReason::IcmpLocal)
}
