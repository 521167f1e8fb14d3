//! How a FAR forwards a packet: first egress, outer header, redirection and fragmentation are
//! planned, then the packet is rewritten.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{
    DestinationInterface, DropReason, HeaderCreation, PublishedPdr, PublishedRules, SourceInterface,
};
use adit_tables::{Interface, NoRoute};
use adit_types::{Direction, InterfaceRole, MacAddr};
use adit_wire::encapsulate::ServiceClass;
use adit_wire::{EtherType, IpPacket, PduSessionContainer, PduType, ecn, flow_hash, ipv4, ipv6};

use crate::carried::{CreatedHeader, PlannedFrame};
use crate::columns::{Matched, PacketArrival};
use crate::context::StepContext;
use crate::egress::{Egress, egress_by_route, egress_to_hop, prepend_link};
use crate::local_switching::local_egress;
use crate::slow_queue::IcmpErrorKind;
use crate::stage::marking::write_dscp;
use crate::stage::outer::encapsulate;
use crate::stage::redirect::RedirectTarget;

/// Why a packet that its rules admit is not forwarded.
pub(super) struct NotForwarded {
    pub reason: DropReason,
    /// The ICMP error to send to the packet's sender, if any.
    pub error: Option<IcmpErrorKind>,
}

impl From<DropReason> for NotForwarded {
    fn from(reason: DropReason) -> Self {
        Self { reason, error: None }
    }
}

/// How a packet is forwarded.
pub(super) struct ForwardPlan<'v> {
    /// The egress that the packet leaves by.
    pub egress: Egress<'v>,
    /// True if the packet does not leave there, but is switched to another UE.
    pub is_switched: bool,
    /// The outer header that the packet leaves with.
    pub outer: Option<CreatedHeader>,
    target: Option<RedirectTarget>,
    /// True if the packet's TTL or hop limit is decremented.
    is_routed: bool,
    /// The DSCP that DL Flow Level Marking gives the packet.
    flow_dscp: Option<u8>,
    /// Set if the packet is longer than its link allows and may be fragmented: the maximum length
    /// of its fragments without the outer header. Unit: octets.
    pub divided_to: Option<u16>,
}

impl ForwardPlan<'_> {
    /// Returns the fields that later stages need to write and send the packet. `None` for packets
    /// that this stage has to write itself: those that wait, or that are switched, redirected,
    /// fragmented or marked with a Service Class Indicator.
    #[inline]
    pub(super) fn for_later_stages(
        &self,
        arrival: &PacketArrival,
        ip: &IpPacket,
        matched: &Matched<'_>,
    ) -> Option<PlannedFrame> {
        let has_service_class = self.outer.is_some_and(|outer| outer.service_class.is_some());
        let is_special = self.is_switched || self.target.is_some() || has_service_class;
        if is_special || self.divided_to.is_some() {
            return None;
        }
        let mac = self.egress.mac.filter(|_| !matched.must_queue)?;
        Some(PlannedFrame {
            ip_offset: arrival.ip_offset,
            total_len: ip.total_len,
            is_ipv4: ip.is_ipv4(),
            is_routed: self.is_routed,
            direction: matched.direction,
            is_guaranteed: matched.is_guaranteed,
            dscp: self.dscp(matched),
            interface: self.egress.interface.id,
            mac,
            outer: self.outer,
        })
    }

    /// Returns the DSCP to write into the user's packet. That of a forwarding policy is written
    /// only if there is no outer header.
    #[inline]
    pub(crate) fn dscp(&self, matched: &Matched<'_>) -> Option<u8> {
        self.flow_dscp.or(matched.far.dscp.filter(|_| self.outer.is_none()))
    }
}

/// Plans how the packet that arrived in `frame` is forwarded.
#[inline]
pub(super) fn plan_forwarding<'v>(
    ctx: &StepContext<'v>,
    frame: &[u8],
    arrival: &PacketArrival,
    ip: &IpPacket,
    matched: &Matched<'_>,
) -> Result<ForwardPlan<'v>, NotForwarded> {
    // UE and CP function are on one link: neighbor discovery requires that packets between them
    // are not routed, so that their hop limit stays.
    let is_routed = !matched.is_from_or_to_cp_function();
    if is_routed && arrival.is_on_link {
        return Err(DropReason::IpAddressInvalid.into());
    }
    if is_routed && ip.ttl <= 1 {
        let error = Some(IcmpErrorKind::TimeExceeded);
        return Err(NotForwarded { reason: DropReason::TtlExceeded, error });
    }
    let flow_dscp = flow_dscp(matched, ip.tos);
    let tos = flow_dscp.map_or(ip.tos, |dscp| dscp << 2 | ip.tos & ecn::MASK);
    let outer = outer_header(matched, arrival.container, tos);
    let target = match &matched.far.redirect {
        Some(redirect) => Some(RedirectTarget::new(redirect, ip, matched.direction)?),
        None => None,
    };
    let dst = target.as_ref().map_or(ip.addrs, |target| target.addrs).dst();
    if let Some(egress) = local_egress(ctx, arrival, matched, dst) {
        return Ok(ForwardPlan {
            egress,
            is_switched: true,
            outer,
            target,
            is_routed,
            flow_dscp,
            divided_to: None,
        });
    }
    let hash = || flow_hash(frame.get(usize::from(arrival.ip_offset)..).unwrap_or_default());
    let egress =
        find_egress(ctx, matched, dst, hash).ok_or_else(|| no_egress_reason(ctx, matched, dst))?;
    let mtu_bytes = match &outer {
        Some(outer) => tunnel_mtu(ctx, egress.interface, outer.header.addr()),
        None => egress.interface.mtu_bytes,
    };
    let divided_to = check_mtu(mtu_bytes, outer.as_ref(), ip)?;
    Ok(ForwardPlan { egress, is_switched: false, outer, target, is_routed, flow_dscp, divided_to })
}

/// Cuts `buf` down to the user's packet; decrements TTL or hop limit if the packet is routed.
#[inline]
pub(super) fn rewrite<B: PacketBuf>(
    buf: &mut B,
    arrival: &PacketArrival,
    ip: &IpPacket,
    course: &ForwardPlan<'_>,
) -> Result<(), DropReason> {
    rewrite_plain(buf, arrival.ip_offset, ip.total_len, ip.is_ipv4(), course.is_routed)?;
    if let Some(target) = &course.target {
        target.write(buf.data_mut(), ip);
    }
    Ok(())
}

/// Cuts `buf` down to the user's packet of `total_len` octets at `ip_offset`; decrements TTL or hop
/// limit if `is_routed`.
#[inline]
pub(crate) fn rewrite_plain<B: PacketBuf>(
    buf: &mut B,
    ip_offset: u16,
    total_len: u16,
    is_ipv4: bool,
    is_routed: bool,
) -> Result<(), DropReason> {
    strip(buf, ip_offset, total_len)?;
    match is_routed {
        true => decrement_ttl(buf, is_ipv4),
        false => Ok(()),
    }
}

/// Makes the user's packet in `buf` the frame to send.
#[inline]
pub(super) fn finish<B: PacketBuf>(
    buf: &mut B,
    matched: &Matched<'_>,
    course: &ForwardPlan<'_>,
) -> Result<(), DropReason> {
    let mac = course.egress.mac_or_blank();
    let dscp = course.dscp(matched);
    finish_frame(buf, course.egress.interface, mac, course.outer.as_ref(), dscp)
}

/// Writes the DSCP of the packet, and puts the outer header and the link header in front.
#[inline]
pub(crate) fn finish_frame<B: PacketBuf>(
    buf: &mut B,
    interface: &Interface,
    mac: MacAddr,
    outer: Option<&CreatedHeader>,
    dscp: Option<u8>,
) -> Result<(), DropReason> {
    if let Some(dscp) = dscp {
        write_dscp(buf.data_mut(), dscp);
    }
    if let Some(outer) = outer {
        return encapsulate(buf, outer, interface, mac);
    }
    let is_ipv4 = buf.data().first().is_some_and(|first| first >> 4 == 4);
    prepend_link(buf, interface, mac, if is_ipv4 { EtherType::IPV4 } else { EtherType::IPV6 })
}

/// Finds the egress of a packet: to the FAR's tunnel, or to a data network by the destination
/// `dst`. `None` if the FAR has no tunnel and no data network, or if no route leads to `dst`.
/// Packets that are switched to other UEs do not come here. `hash` of the flow selects one of
/// several next hops.
#[inline]
fn find_egress<'v>(
    ctx: &StepContext<'v>,
    matched: &Matched<'_>,
    dst: IpAddr,
    hash: impl FnOnce() -> u32,
) -> Option<Egress<'v>> {
    let far = matched.far;
    match (far.outer_header_creation(), far.destination) {
        (Some(HeaderCreation::Gtpu(_)), _) => egress_to_hop(ctx, far.next_hop),
        (Some(HeaderCreation::Udp { addr, .. } | HeaderCreation::Ip { addr }), _) => {
            egress_by_route(ctx, InterfaceRole::N6, far.interfaces, addr, hash)
        }
        (None, DestinationInterface::Core | DestinationInterface::SgiLanN6Lan) => {
            let station = station_towards(ctx, matched, dst)?;
            egress_by_route(ctx, InterfaceRole::N6, far.interfaces, station, hash)
        }
        (None, _) => None,
    }
}

/// Returns the station that a packet to `dst` is sent to: a service function, or `dst` itself.
/// `None` for an address of ours: a service function would send the packet back as one of the data
/// network.
#[inline]
fn station_towards(ctx: &StepContext<'_>, matched: &Matched<'_>, dst: IpAddr) -> Option<IpAddr> {
    match &matched.far.steering {
        Some(_) if ctx.view.is_own(matched.far.interfaces, dst) => None,
        Some(steering) => Some(steering.towards(dst)),
        None => Some(dst),
    }
}

/// Returns why a FAR has no egress to `dst`.
#[cold]
fn no_egress_reason(ctx: &StepContext<'_>, matched: &Matched<'_>, dst: IpAddr) -> DropReason {
    let (role, addr) = match matched.far.outer_header_creation() {
        Some(HeaderCreation::Gtpu(tunnel)) => (InterfaceRole::N3, tunnel.addr),
        Some(HeaderCreation::Udp { addr, .. } | HeaderCreation::Ip { addr }) => {
            (InterfaceRole::N6, addr)
        }
        None => (InterfaceRole::N6, station_towards(ctx, matched, dst).unwrap_or(dst)),
    };
    let is_routed = matched.far.outer_header_creation().is_none();
    match ctx.view.no_route(role, matched.far.interfaces, addr) {
        NoRoute::Own if is_routed && matched.direction == Direction::Uplink => {
            DropReason::UeToOwnAddress
        }
        NoRoute::Blackhole => DropReason::RouteBlackhole,
        NoRoute::Unreachable => DropReason::RouteUnreachable,
        NoRoute::Own | NoRoute::Unknown => DropReason::RouteUnknown,
    }
}

/// Returns the outer header that the FAR creates in front of a packet whose type of service or
/// traffic class octet is `tos`. Spec: TS 29.244 §5.4.1, §8.2.12, §8.2.56; RFC 6040 §4.1.
#[inline]
pub(crate) fn outer_header(
    matched: &Matched<'_>,
    arrived: Option<PduSessionContainer>,
    tos: u8,
) -> Option<CreatedHeader> {
    let header = matched.far.outer_header_creation()?;
    let tos = matched.far.outer_tos.around(tos);
    let (container, service_class) = match header {
        HeaderCreation::Gtpu(_) => (container(matched, arrived), service_class(matched)),
        HeaderCreation::Udp { .. } | HeaderCreation::Ip { .. } => (None, None),
    };
    Some(CreatedHeader { header, tos, container, service_class })
}

/// Returns the DSCP that DL Flow Level Marking gives a packet whose type of service or traffic
/// class octet is `tos`. The first QER of the PDR with a marking decides: the QER that marks the
/// QFI goes first, then the one with the lowest identifier. Spec: TS 29.244 §5.4.4, §8.2.66.
#[inline]
fn flow_dscp(matched: &Matched<'_>, tos: u8) -> Option<u8> {
    if matched.direction == Direction::Uplink {
        return None;
    }
    let (value, mask) = matched.rules.qers_of(matched.pdr).find_map(|qer| qer.flow_tos)?;
    Some((tos & !mask | value & mask) >> 2)
}

/// Returns the Service Class Indicator of the first QER that has one, for tunnels towards the UE;
/// GERAN uses it. Spec: TS 29.244 §5.4.11, §8.2.66; TS 29.281 §5.2.2.3.
#[inline]
fn service_class(matched: &Matched<'_>) -> Option<ServiceClass> {
    let is_towards_ue = matched.direction == Direction::Downlink
        && matched.far.destination == DestinationInterface::Access;
    if !is_towards_ue {
        return None;
    }
    matched.rules.qers_of(matched.pdr).find_map(|qer| qer.service_class)
}

/// Returns the PDU Session Container that a packet leaves with, of the type of its direction.
///
/// Downlink: the content is that of the first QER of the PDR with a QFI; else of the container that
/// the packet arrived with; else, for packets from the CP function, of the QERs of another PDR with
/// the same FAR. Uplink: the container that the packet arrived with goes first, because the RAN
/// classified the packet. The same holds for packets that the RAN sends back to be forwarded to
/// another part of the RAN. Packets to the CP function get no container.
/// Spec: TS 29.244 §8.2.64, §8.2.89, §8.2.116; TS 38.415 §5.4.1, §5.5.2; TS 29.281 §5.2.2.7;
/// TS 23.502 §4.9.1.3.
#[inline]
fn container(
    matched: &Matched<'_>,
    arrived: Option<PduSessionContainer>,
) -> Option<PduSessionContainer> {
    if matched.far.destination == DestinationInterface::CpFunction {
        return None;
    }
    let arrived = arrived.filter(|_| !matched.pdr.container_deletion);
    let marking = || marking(matched.rules, matched.pdr);
    let downlink = |container| PduSessionContainer { pdu_type: PduType::Downlink, ..container };
    match (matched.direction, arrived) {
        (Direction::Downlink, _) => match matched.pdr.source {
            SourceInterface::Access => {
                let kept = arrived.filter(|arrived| arrived.pdu_type == PduType::Downlink);
                kept.or_else(marking).or(arrived.map(downlink))
            }
            SourceInterface::CpFunction => {
                marking().or(arrived.map(downlink)).or_else(|| container_of_same_far(matched))
            }
            _ => marking().or(arrived.map(downlink)),
        },
        (Direction::Uplink, Some(container)) => {
            let is_sent_back = container.pdu_type == PduType::Downlink
                && matched.far.destination == DestinationInterface::Access;
            match is_sent_back {
                true => Some(container),
                false => Some(PduSessionContainer::uplink(container.qfi)),
            }
        }
        (Direction::Uplink, None) => match matched.far.destination {
            DestinationInterface::Access => marking(),
            _ => marking().map(|marked| PduSessionContainer::uplink(marked.qfi)),
        },
    }
}

/// Returns the container that the QERs of a PDR demand.
#[inline]
fn marking(rules: &PublishedRules, pdr: &PublishedPdr) -> Option<PduSessionContainer> {
    rules.qers_of(pdr).find_map(|qer| {
        let container = PduSessionContainer::downlink(qer.qfi?, qer.rqi);
        Some(PduSessionContainer { ppi: qer.ppi, ..container })
    })
}

/// Returns the container of packets of another PDR with the same FAR. Needed because the RAN
/// accepts no packet without a QoS flow, and SMFs give PDRs of the CP function no QER.
#[cold]
fn container_of_same_far(matched: &Matched<'_>) -> Option<PduSessionContainer> {
    let Matched { rules, pdr, direction, .. } = *matched;
    let mut sharing = rules.pdrs(direction).iter().filter(|other| other.far == pdr.far);
    sharing.find_map(|other| marking(rules, other))
}

/// Returns the MTU of a tunnel to `peer`: that of the link or of the path, whichever is smaller.
/// Unit: octets.
#[inline]
fn tunnel_mtu(ctx: &StepContext<'_>, interface: &Interface, peer: IpAddr) -> u16 {
    let peers = ctx.view.gtpu_peers();
    match peers.narrowest_path() < interface.mtu_bytes {
        true => peers.path_mtu(peer).min(interface.mtu_bytes),
        false => interface.mtu_bytes,
    }
}

/// Compares the packet with the MTU that it leaves by. `None` if it fits; the maximum length of its
/// fragments if it has to be fragmented.
///
/// # Errors
/// `PacketTooBig` with an ICMP error to the sender if the packet must not be fragmented.
///
/// Spec: RFC 1191 §4; RFC 8201 §4.
#[inline]
fn check_mtu(
    mtu_bytes: u16,
    outer: Option<&CreatedHeader>,
    ip: &IpPacket,
) -> Result<Option<u16>, NotForwarded> {
    let overhead = outer.map_or(0, CreatedHeader::len);
    let fits = usize::from(mtu_bytes).saturating_sub(overhead);
    if usize::from(ip.total_len) <= fits {
        return Ok(None);
    }
    let mtu = u16::try_from(fits).unwrap_or(u16::MAX);
    match ip.dont_fragment {
        true => {
            let error = Some(IcmpErrorKind::PacketTooBig { mtu });
            Err(NotForwarded { reason: DropReason::PacketTooBig, error })
        }
        false => Ok(Some(mtu)),
    }
}

/// Removes all octets that are not the user's IP packet: outer headers, link header, padding.
#[inline]
fn strip<B: PacketBuf>(buf: &mut B, ip_offset: u16, total_len: u16) -> Result<(), DropReason> {
    let offset = usize::from(ip_offset);
    // Cannot fail: parsing has found all these octets.
    if buf.truncate(offset + usize::from(total_len)) && buf.trim_front(offset) {
        Ok(())
    } else {
        Err(DropReason::InnerMalformed)
    }
}

#[inline]
fn decrement_ttl<B: PacketBuf>(buf: &mut B, is_ipv4: bool) -> Result<(), DropReason> {
    let left = if is_ipv4 {
        ipv4::decrement_ttl(buf.data_mut())
    } else {
        ipv6::decrement_hop_limit(buf.data_mut())
    };
    left.map(|_| ()).ok_or(DropReason::TtlExceeded)
}
