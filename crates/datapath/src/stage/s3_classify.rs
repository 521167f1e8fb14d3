//! Third stage: finds the rules that apply to a packet.

use core::net::{IpAddr, Ipv4Addr};

use adit_pktio::PacketBuf;
use adit_rules::{
    ApplyAction, Candidate, DropReason, FlowKey, FlowSelector, HeaderRemoval, PdrMismatch,
    PublishedFar, PublishedPdr, PublishedRules, SourceInterface, TunnelSide,
};
use adit_types::Direction;
use adit_wire::udp::UdpHeader;
use adit_wire::{FragmentKind, IpAddrs, IpPacket, five_tuple, parse_ip, protocol};

use crate::columns::{BurstColumn, BurstLane, LaneKind, Matched, PacketArrival, PacketVerdict};
use crate::context::StepContext;
use crate::first_fragments::FirstFragments;
use crate::reason::{HeaderLayer, drop_reason, is_forwardable, is_usable_on_link, verify_udp};
use crate::stage::observe::StageObserver;

/// Finds the PDR and FAR of every packet in the lane.
///
/// Shape:   reads `sessions`, `arrivals`, `ips` and, for SDF filters, packet bytes; writes
///          `verdicts[0..n]`, and `arrivals` and `ips` of packets whose PDR removes a UDP or IP
///          header. n ≤ BURST_MAX.
/// Cost:    a search for the first matching PDR by precedence; in sessions with SDF filters, a
///          lookup in their compiled matcher, which reads the ports. No allocation, no clock.
/// Spec:    TS 29.244 §5.2.1 (lookup of the session, then of its PDR), §5.2.1A.
/// Errors:  none; misses are verdicts.
pub(crate) fn s3_classify<'v, B: PacketBuf, S: LaneKind>(
    ctx: &StepContext<'v>,
    uppers: &mut FirstFragments,
    lane: &mut BurstLane<'v, B, S>,
    observer: &mut impl StageObserver,
) {
    let BurstLane { bufs, arrivals, ips, sessions, verdicts, .. } = lane;
    let mut payload_errors = BurstColumn::<Option<DropReason>>::new();
    if S::IS_TUNNELED {
        for (buf, arrival) in bufs.iter().zip(arrivals.iter_mut()) {
            let payload = parse_payload(buf.data(), arrival);
            payload_errors.push(payload.err());
            ips.push(payload.unwrap_or(NO_PAYLOAD));
        }
    }
    let mut payload_errors = payload_errors.into_iter();
    for (((buf, arrival), ip), session) in
        bufs.iter().zip(arrivals.iter_mut()).zip(ips.iter_mut()).zip(&*sessions)
    {
        if let Some(Some(reason)) = payload_errors.next() {
            verdicts.push(PacketVerdict::Drop(reason));
            continue;
        }
        if ip.is_fragment() && session.is_some() {
            let packet = buf.data().get(usize::from(arrival.ip_offset)..).unwrap_or_default();
            arrival.upper = uppers.remember_or_find(ctx.now, *session, packet, ip);
        }
        let rules = ctx.view.rules(*session).ok_or(S::UNKNOWN);
        let classified =
            rules.and_then(|rules| classify::<S>(rules, buf.data(), arrival, ip, observer));
        verdicts.push(match classified {
            Ok(matched) => PacketVerdict::Pass(matched),
            Err(reason) => PacketVerdict::Drop(reason),
        });
    }
}

/// Stands for the header of a malformed payload; nothing reads it.
const NO_PAYLOAD: IpPacket = IpPacket {
    addrs: IpAddrs::V4 { src: Ipv4Addr::UNSPECIFIED, dst: Ipv4Addr::UNSPECIFIED },
    total_len: 0,
    payload_offset: 0,
    protocol: 0,
    ttl: 0,
    tos: 0,
    fragment: FragmentKind::None,
    dont_fragment: false,
    flow_label: 0,
};

/// Parses the payload of a tunnel packet, IPv4 or IPv6.
///
/// # Errors
/// `InnerMalformed` or another reason of a malformed header; `IpAddressInvalid`.
#[inline]
fn parse_payload(frame: &[u8], arrival: &mut PacketArrival) -> Result<IpPacket, DropReason> {
    let (start, len) = (usize::from(arrival.ip_offset), usize::from(arrival.payload_len));
    let payload = frame.get(start..start + len).unwrap_or_default();
    let ip = parse_ip(payload, true).map_err(|bad| drop_reason(HeaderLayer::Inner, bad))?;
    arrival.is_on_link = !is_forwardable(&ip.addrs);
    if arrival.is_on_link && !is_usable_on_link(&ip.addrs) {
        return Err(DropReason::IpAddressInvalid);
    }
    Ok(ip)
}

#[inline]
fn classify<'v, S: LaneKind>(
    rules: &'v PublishedRules,
    frame: &[u8],
    arrival: &mut PacketArrival,
    ip: &mut IpPacket,
    observer: &mut impl StageObserver,
) -> Result<Matched<'v>, DropReason> {
    let ingress = Ingress::of::<S>(rules, arrival);
    let packet = frame.get(usize::from(arrival.ip_offset)..).unwrap_or_default();
    let detected = DetectedPacket { packet, arrival, ip, ingress };
    let matched = match arrival.is_on_link {
        false => {
            check_ue(rules, ingress, ip)?;
            find_pdr(rules, &detected, observer)?
        }
        true => find_on_link(rules, &detected, observer)?,
    };
    let removal = matched.pdr.outer_header_removal;
    // A packet that will be dropped keeps its outer header, so any removal is accepted.
    if arrival.outer.fits(removal) || S::IS_TUNNELED && drops(matched.far) {
        return Ok(matched);
    }
    let removal = removal.filter(|_| !S::IS_TUNNELED).ok_or(DropReason::OuterHeaderMismatch)?;
    let (offset, inner) = inner_packet(removal, packet, ip)?;
    arrival.ip_offset = arrival.ip_offset.saturating_add(offset);
    arrival.outer_tos = ip.tos;
    *ip = inner;
    Ok(matched)
}

/// A packet to compare with PDRs.
pub(crate) struct DetectedPacket<'p> {
    /// The IP packet, from its header on.
    pub packet: &'p [u8],
    pub arrival: &'p PacketArrival,
    pub ip: &'p IpPacket,
    /// The source of the packet.
    pub ingress: Ingress,
}

#[inline]
fn drops(far: &PublishedFar) -> bool {
    far.action.contains(ApplyAction::DROP)
}

/// Checks packets from tunnels for spoofed addresses. Uplink: the source must be an address of the
/// UE, except in packets of the CP function, which are not checked. Downlink: the destination must
/// be one; in packets that the RAN sends back to be forwarded, the source may be one instead.
#[inline]
fn check_ue(rules: &PublishedRules, ingress: Ingress, ip: &IpPacket) -> Result<(), DropReason> {
    use SourceInterface::{Access, CpFunction};
    let Ingress::Tunnel(TunnelSide { source, direction }) = ingress else { return Ok(()) };
    let is_ue = |addr| rules.allows_ue(addr);
    match (direction, source) {
        (Direction::Uplink, CpFunction) => Ok(()),
        (Direction::Uplink, _) if is_ue(ip.addrs.src()) => Ok(()),
        (Direction::Uplink, _) => Err(DropReason::UeSourceSpoofed),
        (Direction::Downlink, _) if is_ue(ip.addrs.dst()) => Ok(()),
        (Direction::Downlink, Access) if is_ue(ip.addrs.src()) => Ok(()),
        (Direction::Downlink, _) => Err(DropReason::UeUnknown),
    }
}

/// Finds PDR and FAR of a packet with addresses that routers do not forward. Such a packet may only
/// pass between UE and CP function. If the UE's address is forwardable, it is checked as in other
/// packets.
///
/// # Errors
/// `IpAddressInvalid` unless the PDR or FAR is for the CP function; `UeSourceSpoofed`; `UeUnknown`.
/// Spec: TS 29.244 §5.3.
#[cold]
fn find_on_link<'v>(
    rules: &'v PublishedRules,
    detected: &DetectedPacket<'_>,
    observer: &mut impl StageObserver,
) -> Result<Matched<'v>, DropReason> {
    let DetectedPacket { ip, ingress, .. } = *detected;
    let matched = find_pdr(rules, detected, observer).ok();
    let matched =
        matched.filter(Matched::is_from_or_to_cp_function).ok_or(DropReason::IpAddressInvalid)?;
    let ue = ue_addr(ingress.direction(), ip);
    if adit_types::is_forwardable(ue) {
        check_ue(rules, ingress, ip)?;
    }
    Ok(matched)
}

/// Returns the packet's address on the UE's side.
#[inline]
fn ue_addr(direction: Direction, ip: &IpPacket) -> IpAddr {
    match direction {
        Direction::Uplink => ip.addrs.src(),
        Direction::Downlink => ip.addrs.dst(),
    }
}

/// The source of a packet, to compare with PDRs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ingress {
    /// A tunnel, whose packets have this source interface and direction.
    Tunnel(TunnelSide),
    /// A data network, without a tunnel.
    DataNetwork,
}

impl Ingress {
    /// Returns the ingress of a packet of lane `S`.
    #[inline]
    fn of<S: LaneKind>(rules: &PublishedRules, arrival: &PacketArrival) -> Self {
        match S::IS_TUNNELED {
            true => Self::Tunnel(rules.tunnel_side(arrival.teid)),
            false => Self::DataNetwork,
        }
    }

    #[inline]
    const fn direction(self) -> Direction {
        match self {
            Self::Tunnel(side) => side.direction,
            Self::DataNetwork => Direction::Downlink,
        }
    }

    /// True if a PDR with this source interface applies to packets from here.
    #[inline]
    fn is_of(self, source: SourceInterface) -> bool {
        match self {
            Self::Tunnel(side) => source == side.source,
            Self::DataNetwork => source.is_network(),
        }
    }

    /// True if the compiled matcher contains the PDRs for packets from here.
    #[inline]
    const fn is_usual(self) -> bool {
        match self {
            Self::Tunnel(side) => side.source.is_usual(side.direction),
            Self::DataNetwork => true,
        }
    }
}

/// Finds the first PDR that a packet matches, and its FAR.
///
/// # Errors
/// `PdrUnmatched` if the packet matches no PDR.
#[inline]
pub(crate) fn find_pdr<'v>(
    rules: &'v PublishedRules,
    detected: &DetectedPacket<'_>,
    observer: &mut impl StageObserver,
) -> Result<Matched<'v>, DropReason> {
    let DetectedPacket { packet, arrival, ip, ingress } = *detected;
    let direction = ingress.direction();
    let pdrs = rules.pdrs(direction);
    let header_mismatch = |pdr: &PublishedPdr| header_mismatch(rules, pdr, detected);
    let is_usual = ingress.is_usual() && !arrival.is_on_link;
    let found = match rules.matcher(direction).filter(|_| is_usual) {
        Some(matcher) => {
            let flow = selector(packet, arrival, ip);
            let is_match = |found: Candidate| {
                let pdr = pdrs.get(found.pdr).filter(|pdr| header_mismatch(pdr).is_none());
                pdr.is_some_and(|pdr| found.is_confirmed(&pdr.sdf, direction, &flow))
            };
            matcher.view().find(&FlowKey::new(direction, &flow), is_match)
        }
        // No matcher: the PDRs have no filters, are too many to compile, or are not in the matcher.
        None => pdrs.iter().position(|pdr| {
            let is_flow =
                || pdr.sdf.is_empty() || pdr.sdf.matches(direction, &selector(packet, arrival, ip));
            header_mismatch(pdr).is_none() && is_flow()
        }),
    };
    observer.compared(pdrs, found, |pdr| header_mismatch(pdr).unwrap_or(PdrMismatch::Sdf));
    let pdr = found.and_then(|at| pdrs.get(at)).ok_or(DropReason::PdrUnmatched)?;
    // The index is valid: a compiled PDR refers to a FAR of its own session.
    let far = rules.fars.get(usize::from(pdr.far)).ok_or(DropReason::PdrUnmatched)?;
    Ok(Matched { rules, pdr, far, direction, must_queue: false, is_guaranteed: false })
}

/// Returns the first condition of a PDR, apart from its SDF filters, that the packet does not meet.
/// If the PDR has QFIs, packets without a QFI do not match.
///
/// Spec: TS 29.244 §5.2.1A, §8.2.89.
#[inline]
fn header_mismatch(
    rules: &PublishedRules,
    pdr: &PublishedPdr,
    detected: &DetectedPacket<'_>,
) -> Option<PdrMismatch> {
    let DetectedPacket { arrival, ip, ingress, .. } = *detected;
    let ue = ue_addr(ingress.direction(), ip);
    let has_qfi = || arrival.qfi().is_some_and(|qfi| pdr.qfis.contains(&qfi));
    if !ingress.is_of(pdr.source) {
        Some(PdrMismatch::Source(pdr.source))
    } else if !pdr.interfaces.intersects(arrival.interfaces) {
        Some(PdrMismatch::NetworkInstance)
    } else if pdr.teid().is_some_and(|teid| teid != arrival.teid) {
        Some(PdrMismatch::Teid)
    } else if !pdr.qfis.is_empty() && !has_qfi() {
        Some(PdrMismatch::Qfi)
    } else if !rules.matches_ue(pdr, ue) {
        Some(PdrMismatch::UeAddress)
    } else {
        None
    }
}

/// Returns the packet behind the UDP or IP header that `removal` removes: its offset in `packet`,
/// and its header. `ip` is the header of `packet`.
///
/// # Errors
/// `OuterHeaderMismatch` if the packet does not have this header; `OuterFragment`; `UdpMalformed`;
/// `InnerMalformed` if no IP packet follows.
/// Spec: TS 29.244 §8.2.64.
#[cold]
fn inner_packet(
    removal: HeaderRemoval,
    packet: &[u8],
    ip: &IpPacket,
) -> Result<(u16, IpPacket), DropReason> {
    let (is_ipv4, is_udp) = match removal {
        HeaderRemoval::UdpIpv4 => (true, true),
        HeaderRemoval::UdpIpv6 => (false, true),
        HeaderRemoval::Ipv4 => (true, false),
        HeaderRemoval::Ipv6 => (false, false),
        HeaderRemoval::GtpuUdpIpv4 | HeaderRemoval::GtpuUdpIpv6 | HeaderRemoval::GtpuUdpIp => {
            return Err(DropReason::OuterHeaderMismatch);
        }
    };
    let carries = match is_udp {
        true => ip.may_carry(protocol::UDP),
        false => ip.may_carry(protocol::IPV4) || ip.may_carry(protocol::IPV6),
    };
    if ip.is_ipv4() != is_ipv4 || !carries {
        return Err(DropReason::OuterHeaderMismatch);
    }
    if ip.is_fragment() {
        return Err(DropReason::OuterFragment);
    }
    let upper = ip.payload(packet);
    let (header, payload) = match is_udp {
        true => {
            verify_udp(ip, upper)?;
            let (_, payload) = UdpHeader::parse(upper).map_err(|_| DropReason::UdpMalformed)?;
            (8, payload)
        }
        false => (0, upper),
    };
    let inner = parse_ip(payload, true).map_err(|bad| drop_reason(HeaderLayer::Inner, bad))?;
    if !is_udp && inner.is_ipv4() != (ip.protocol == protocol::IPV4) {
        return Err(DropReason::InnerMalformed);
    }
    if !is_forwardable(&inner.addrs) {
        return Err(DropReason::IpAddressInvalid);
    }
    Ok((ip.payload_offset.saturating_add(header), inner))
}

/// Returns the fields of `packet` for SDF filters; a later fragment gets the first fragment's
/// ports.
#[inline]
pub(crate) fn selector(packet: &[u8], arrival: &PacketArrival, ip: &IpPacket) -> FlowSelector {
    let mut tuple = five_tuple(packet, ip);
    if let Some(upper) = arrival.upper {
        tuple.protocol = upper.protocol;
        (tuple.src_port, tuple.dst_port) = upper.ports;
        tuple.spi = upper.spi;
    }
    FlowSelector {
        src: tuple.addrs.src(),
        dst: tuple.addrs.dst(),
        protocol: tuple.protocol,
        src_port: tuple.src_port,
        dst_port: tuple.dst_port,
        tos: tuple.tos,
        spi: (tuple.spi != 0).then_some(tuple.spi),
        flow_label: tuple.flow_label,
    }
}
