//! Sends errors about user packets that could not be forwarded: time exceeded, packet too big.
//!
//! An error to a UE takes the UE's own downlink path (its session's PDR, gates and tunnel), also if
//! the offending packet was for another UE. An error to a data network takes the route to the
//! sender. The error is written in front of the offending packet, which it quotes. Spec: RFC 792;
//! RFC 1191; RFC 1812 §4.3.2; RFC 4443 §2.4, §3.2, §3.3.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::rule::ue_ipv6_key;
use adit_types::{Direction, InterfaceRole, InterfaceSet, SessionIndex, Teid};
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::{FragmentKind, IpPacket, Malformed, icmp, icmpv6, parse_ip, protocol};

use crate::columns::{DownlinkV4, DownlinkV6, LaneKind, OuterHeader, PacketArrival};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::{Egress, egress_by_route, egress_to_hop, ether_type_of, prepend_link};
use crate::interfaces::source_addr;
use crate::limits::RefillRate;
use crate::origin::Origin;
use crate::originate::ip::OwnIpHeader;
use crate::slow_queue::{IcmpError, IcmpErrorKind};
use crate::stage::admit::admit;
use crate::stage::forward_plan::outer_header;
use crate::stage::observe::NoObserver;
use crate::stage::outer::encapsulate;
use crate::stage::s3_classify::{DetectedPacket, Ingress, find_pdr};
use crate::transmitter::Transmitter;

/// Maximum length of an error message. Unit: octets.
const MESSAGE_LEN_MAX: usize = icmpv6::ERROR_LEN_MAX;
const _: () = assert!(MESSAGE_LEN_MAX >= icmp::ERROR_LEN_MAX);

/// Sends `error` about the packet in `buf` to the packet's sender, unless no error may be sent
/// about it or the limit is reached. An error without egress, session or room is counted as lost.
#[cold]
pub(super) fn send<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: Io::Buf,
    error: &IcmpError,
) {
    let offset = usize::from(error.ip_offset);
    let packet = buf.data().get(offset..).unwrap_or_default();
    if !may_cause_error(packet, &error.ip) || !tx.limits.icmp.take(ctx.now, RefillRate::USUAL) {
        return;
    }
    let sender = error.ip.addrs.src();
    // If another UE sent the packet, the error is switched locally, as the packet was.
    let ue_network = match error.direction {
        Direction::Uplink => Some(error.network),
        Direction::Downlink => {
            ctx.view.local_switching_interface(error.network, sender).map(InterfaceSet::only)
        }
    };
    let sent = match ue_network {
        Some(network) => build(buf, error, ctx.interfaces.n6_source_addr(error.network, sender))
            .and_then(|mut buf| {
                let egress = match sender {
                    IpAddr::V4(ue) => {
                        deliver::<_, DownlinkV4>(ctx, &mut buf, network, ue.to_bits())
                    }
                    IpAddr::V6(ue) => {
                        deliver::<_, DownlinkV6>(ctx, &mut buf, network, ue_ipv6_key(ue))
                    }
                };
                egress.map(|egress| (buf, egress))
            }),
        None => {
            let egress = egress_by_route(ctx, InterfaceRole::N6, error.network, sender, || 0);
            egress.and_then(|egress| {
                let mut buf = build(buf, error, source_addr(egress.interface, sender))?;
                let (mac, ether_type) = (egress.mac_or_blank(), ether_type_of(sender));
                prepend_link(&mut buf, egress.interface, mac, ether_type).ok()?;
                Some((buf, egress))
            })
        }
    };
    match sent {
        Some((buf, egress)) => tx.send(ctx, buf, &egress, Origin::Own),
        None => tx.lose_originated(),
    }
}

/// True if an error may be sent about a packet: it is no ICMP error itself, and no fragment but the
/// first. The caller has checked that its addresses are unicast. Spec: RFC 1812 §4.3.2.7; RFC 4443
/// §2.4 (e).
fn may_cause_error(packet: &[u8], ip: &IpPacket) -> bool {
    let kind = ip.payload(packet).first().copied();
    ip.fragment != FragmentKind::Later
        && match ip.protocol {
            protocol::ICMP if ip.is_ipv4() => kind.is_some_and(|kind| !icmp::is_error(kind)),
            protocol::ICMPV6 if !ip.is_ipv4() => kind.is_some_and(|kind| !icmpv6::is_error(kind)),
            _ => true,
        }
}

/// Turns the packet in `buf` into the error about it, an IP packet from `source` to its sender.
/// `None` if there is no source address or no room.
fn build<B: PacketBuf>(mut buf: B, error: &IcmpError, source: Option<IpAddr>) -> Option<B> {
    let offset = usize::from(error.ip_offset);
    let whole = buf.truncate(offset + usize::from(error.ip.total_len)) && buf.trim_front(offset);
    if !whole {
        return None;
    }
    let mut message = [0; MESSAGE_LEN_MAX];
    let (src, dst) = (source?, error.ip.addrs.src());
    let (protocol, tos, len) = match (src, dst) {
        // Errors have the precedence "internetwork control". Spec: RFC 1812 §4.3.2.5.
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            (protocol::ICMP, 0xc0, emit_icmp(&mut message, error.kind, buf.data()).ok()?)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let pseudo = PseudoHeader { src, dst };
            let len = emit_icmpv6(&mut message, error.kind, &pseudo, buf.data()).ok()?;
            (protocol::ICMPV6, 0, len)
        }
        _ => return None,
    };
    let message = message.get(..len)?;
    let payload_len = u16::try_from(len).ok()?;
    let ip = OwnIpHeader { src, dst, protocol, tos, payload_len };
    let header_len = ip.len();
    let quoted = len.checked_sub(8)?;
    // The quoted octets are in place already: only headers are prepended.
    if !buf.truncate(quoted) {
        return None;
    }
    let packet = buf.prepend(header_len + 8)?;
    ip.emit(packet).ok()?;
    packet.get_mut(header_len..)?.copy_from_slice(message);
    Some(buf)
}

fn emit_icmp(message: &mut [u8], kind: IcmpErrorKind, original: &[u8]) -> Result<usize, Malformed> {
    match kind {
        IcmpErrorKind::TimeExceeded => icmp::emit_time_exceeded(message, original),
        IcmpErrorKind::PacketTooBig { mtu } => {
            icmp::emit_fragmentation_needed(message, mtu, original)
        }
    }
}

fn emit_icmpv6(
    message: &mut [u8],
    kind: IcmpErrorKind,
    pseudo: &PseudoHeader,
    original: &[u8],
) -> Result<usize, Malformed> {
    match kind {
        IcmpErrorKind::TimeExceeded => icmpv6::emit_time_exceeded(message, pseudo, original),
        IcmpErrorKind::PacketTooBig { mtu } => {
            icmpv6::emit_packet_too_big(message, pseudo, u32::from(mtu), original)
        }
    }
}

/// Puts the IP packet in `buf` on the downlink path of the UE with `key`. `None` if the UE has no
/// session, or if the session's rules do not admit the packet.
pub(super) fn deliver<'v, B: PacketBuf, S: LaneKind>(
    ctx: &StepContext<'v>,
    buf: &mut B,
    interfaces: InterfaceSet,
    key: S::Key,
) -> Option<Egress<'v>> {
    let mut session = [SessionIndex::NONE];
    S::lookup(&ctx.view, ctx.view.domain_within(interfaces), &[key], &mut session);
    let rules = session.first().and_then(|session| ctx.view.rules(*session))?;
    let ip = parse_ip(buf.data(), false).ok()?;
    let (outer, teid) = (OuterHeader::None, Teid(0));
    let arrival = PacketArrival {
        ip_offset: 0,
        payload_len: 0,
        outer,
        outer_tos: 0,
        interfaces,
        teid,
        is_copied: false,
        is_on_link: false,
        container: None,
        upper: None,
    };
    let (packet, ingress) = (buf.data(), Ingress::DataNetwork);
    let detected = DetectedPacket { packet, arrival: &arrival, ip: &ip, ingress };
    let matched = find_pdr(rules, &detected, &mut NoObserver).ok()?;
    admit(&matched, matched.direction).ok()?;
    let outer = outer_header(&matched, None, ip.tos)?;
    let egress = egress_to_hop(ctx, matched.far.next_hop)?;
    if outer.len() + buf.data().len() > usize::from(egress.interface.mtu_bytes) {
        return None;
    }
    encapsulate(buf, &outer, egress.interface, egress.mac_or_blank()).ok()?;
    Some(egress)
}
