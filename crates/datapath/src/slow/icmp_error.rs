//! Errors that Adit sends about user packets it could not forward: time exceeded, packet too big.
//!
//! Towards a UE they take the UE's own downlink path (its session's PDR, gates and tunnel), also if the
//! offending packet was for another UE; towards a data network the route to the sender. They are
//! written in front of the offending packet.
//! Spec: RFC 792; RFC 1191; RFC 1812 §4.3.2; RFC 4443 §2.4, §3.2, §3.3.

use core::net::IpAddr;

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::rule::ue_ipv6_key;
use adit_types::{Direction, InterfaceRole, InterfaceSet, SessionIndex, Teid};
use adit_wire::encapsulate::OUTER_TTL;
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::{FragmentKind, IpPacket, Malformed, icmp, icmpv6, parse_ip, protocol};

use crate::columns::{DownlinkV4, DownlinkV6, LaneKind, OuterHeader, PacketArrival};
use crate::interfaces::source_addr;
use crate::slow::{RefillRate, TokenBucket};
use crate::stage::egress::{
    Egress, StepContext, egress_by_route, egress_to_hop, ether_type_of, prepend_link,
};
use crate::stage::outer::encapsulate;
use crate::stage::s3_classify::{Ingress, find_pdr};
use crate::stage::s4_enforce::admit;
use crate::stage::s6_apply::outer_header;
use crate::worker_state::{Origin, WorkerState};

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IcmpErrorKind {
    /// TTL or hop limit ran out.
    TimeExceeded,
    /// Longer than the way out allows.
    PacketTooBig {
        /// What fits. Unit: octets of the user's IP packet.
        mtu: u16,
    },
}

/// An error about a packet that was dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IcmpError {
    /// What went wrong.
    pub kind: IcmpErrorKind,
    /// The direction of the packet; the error goes the other way.
    pub direction: Direction,
    /// Interfaces towards the packet's data network: the error to a host there leaves through one
    /// of them, the error to a UE counts as coming from there.
    pub network: InterfaceSet,
    /// Where the packet begins in its buffer.
    pub ip_offset: u16,
    /// Its header.
    pub ip: IpPacket,
}

/// Octets of the longest error message.
const MESSAGE_MAX: usize = icmpv6::ERROR_LEN_MAX;
const _: () = assert!(MESSAGE_MAX >= icmp::ERROR_LEN_MAX);

/// Sends `error` about the packet in `buf` to its sender, unless errors are not allowed about it or
/// there were too many.
///
/// Errors: none; what cannot be sent for want of a way, a session or room is counted as lost.
#[cold]
pub(super) fn send<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    limit: &mut TokenBucket,
    out: &mut WorkerState<Io::Buf>,
    buf: Io::Buf,
    error: &IcmpError,
) {
    let offset = usize::from(error.ip_offset);
    let packet = buf.data().get(offset..).unwrap_or_default();
    if !may_be_told(packet, &error.ip) || !limit.take(env.now, RefillRate::USUAL) {
        return;
    }
    let sender = error.ip.addrs.src();
    // Where another UE sent the packet, the error turns round as the packet did.
    let ue_network = match error.direction {
        Direction::Uplink => Some(error.network),
        Direction::Downlink => {
            env.view.local_switching_interface(error.network, sender).map(InterfaceSet::only)
        }
    };
    let sent = match ue_network {
        Some(network) => build(buf, error, env.interfaces.n6_source(error.network, sender))
            .and_then(|mut buf| {
                let way = match sender {
                    IpAddr::V4(ue) => {
                        deliver::<_, DownlinkV4>(env, &mut buf, network, ue.to_bits())
                    }
                    IpAddr::V6(ue) => {
                        deliver::<_, DownlinkV6>(env, &mut buf, network, ue_ipv6_key(ue))
                    }
                };
                way.map(|way| (buf, way))
            }),
        None => egress_by_route(env, InterfaceRole::N6, error.network, sender).and_then(|way| {
            let mut buf = build(buf, error, source_addr(way.interface, sender))?;
            let (mac, ether_type) = (way.mac_or_blank(), ether_type_of(sender));
            prepend_link(&mut buf, way.interface, mac, ether_type).ok()?;
            Some((buf, way))
        }),
    };
    match sent {
        Some((buf, way)) => out.send(env, io, buf, &way, Origin::Own),
        None => out.tally.lose_originated(),
    }
}

/// No errors about errors, and none about fragments but the first. That addresses are unicast was
/// checked before. Spec: RFC 1812 §4.3.2.7; RFC 4443 §2.4 (e).
fn may_be_told(packet: &[u8], ip: &IpPacket) -> bool {
    let kind = ip.payload(packet).first().copied();
    ip.fragment != FragmentKind::Later
        && match ip.protocol {
            protocol::ICMP if ip.is_ipv4() => kind.is_some_and(|kind| !icmp::is_error(kind)),
            protocol::ICMPV6 if !ip.is_ipv4() => kind.is_some_and(|kind| !icmpv6::is_error(kind)),
            _ => true,
        }
}

/// Turns the packet in `buf` into the error about it, an IP packet from `source` to its sender.
/// `None` without a source address or room.
fn build<B: PacketBuf>(mut buf: B, error: &IcmpError, source: Option<IpAddr>) -> Option<B> {
    let offset = usize::from(error.ip_offset);
    let whole = buf.truncate(offset + usize::from(error.ip.total_len)) && buf.trim_front(offset);
    if !whole {
        return None;
    }
    let mut message = [0; MESSAGE_MAX];
    let (src, dst) = (source?, error.ip.addrs.src());
    let len = emit_message(&mut message, error.kind, (src, dst), buf.data()).ok()?;
    let message = message.get(..len)?;
    let header_len = if dst.is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN };
    let quoted = len.checked_sub(8)?;
    // The quoted octets already lie where they belong: only headers are put in front.
    if !buf.truncate(quoted) {
        return None;
    }
    let packet = buf.prepend(header_len + 8)?;
    emit_ip(packet, (src, dst), len).ok()?;
    packet.get_mut(header_len..)?.copy_from_slice(message);
    Some(buf)
}

fn emit_message(
    message: &mut [u8],
    kind: IcmpErrorKind,
    addrs: (IpAddr, IpAddr),
    original: &[u8],
) -> Result<usize, Malformed> {
    match (kind, addrs) {
        (IcmpErrorKind::TimeExceeded, (IpAddr::V6(src), IpAddr::V6(dst))) => {
            icmpv6::emit_time_exceeded(message, &PseudoHeader { src, dst }, original)
        }
        (IcmpErrorKind::PacketTooBig { mtu }, (IpAddr::V6(src), IpAddr::V6(dst))) => {
            icmpv6::emit_packet_too_big(
                message,
                &PseudoHeader { src, dst },
                u32::from(mtu),
                original,
            )
        }
        (IcmpErrorKind::TimeExceeded, _) => icmp::emit_time_exceeded(message, original),
        (IcmpErrorKind::PacketTooBig { mtu }, _) => {
            icmp::emit_fragmentation_needed(message, mtu, original)
        }
    }
}

fn emit_ip(
    packet: &mut [u8],
    addrs: (IpAddr, IpAddr),
    message_len: usize,
) -> Result<(), Malformed> {
    let too_long = Malformed::BadLength { claimed: u16::MAX, have: u16::MAX };
    let len = u16::try_from(message_len).map_err(|_| too_long)?;
    match addrs {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Header::new(&Ipv4Fields {
            // RFC 1812 §4.3.2.5: errors are sent with precedence internetwork control.
            tos: 0xc0,
            total_len: len.saturating_add(20),
            identification: 0,
            dont_fragment: true,
            ttl: OUTER_TTL,
            protocol: protocol::ICMP,
            src,
            dst,
        })
        .emit(packet),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header::new(&Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_len: len,
            next_header: protocol::ICMPV6,
            hop_limit: OUTER_TTL,
            src,
            dst,
        })
        .emit(packet),
        _ => Err(Malformed::BadVersion(0)),
    }
}

/// Puts the IP packet in `buf` on the downlink path of the UE with `key`. `None` when the UE has no
/// session, or its rules do not let the packet pass.
pub(super) fn deliver<'v, B: PacketBuf, S: LaneKind>(
    env: &StepContext<'v>,
    buf: &mut B,
    interfaces: InterfaceSet,
    key: S::Key,
) -> Option<Egress<'v>> {
    let mut session = [SessionIndex::NONE];
    S::lookup(&env.view, env.view.domain_within(interfaces), &[key], &mut session);
    let rules = session.first().and_then(|session| env.view.rules(*session))?;
    let ip = parse_ip(buf.data(), false).ok()?;
    let (outer, teid) = (OuterHeader::None, Teid(0));
    let arrival = PacketArrival {
        ip_offset: 0,
        outer,
        interfaces,
        teid,
        is_copied: false,
        is_on_link: false,
        container: None,
        upper: None,
    };
    let matched = find_pdr(rules, buf.data(), &arrival, &ip, Ingress::DataNetwork).ok()?;
    admit(&matched, matched.direction).ok()?;
    let outer = outer_header(&matched, None)?;
    let way = egress_to_hop(env, matched.far.next_hop)?;
    if outer.len() + buf.data().len() > usize::from(way.interface.mtu_bytes) {
        return None;
    }
    encapsulate(buf, &outer, way.interface, way.mac_or_blank()).ok()?;
    Some(way)
}
