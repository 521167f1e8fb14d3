//! Sixth stage: carry out the FAR and consume the lane.

use core::net::IpAddr;

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{
    DestinationInterface, DropReason, HeaderCreation, PublishedPdr, PublishedRules, SourceInterface,
};
use adit_types::{Direction, InterfaceRole, InterfaceSet, SessionIndex};
use adit_wire::{EtherType, IpPacket, PduSessionContainer, PduType, ipv4, ipv6};

use crate::buffering;
use crate::columns::{BurstLane, LaneKind, Matched, PacketArrival, PacketVerdict};
use crate::local_switching::local_egress;
use crate::shaping::{self, ReadyFrame};
use crate::slow::{GtpuError, IcmpError, IcmpErrorKind, run_commands_before};
use crate::stage::duplicate::duplicate;
use crate::stage::egress::{Egress, StepContext, egress_by_route, egress_to_hop, prepend_link};
use crate::stage::fragment::send_fragments;
use crate::stage::marking::mark;
use crate::stage::outer::{CreatedHeader, encapsulate};
use crate::stage::redirect::{self, RedirectTarget};
use crate::worker_state::WorkerState;

/// Why a packet that its rules let pass does not leave.
pub(super) struct NotForwarded {
    reason: DropReason,
    /// What the sender is told.
    error: Option<IcmpErrorKind>,
}

impl From<DropReason> for NotForwarded {
    fn from(reason: DropReason) -> Self {
        Self { reason, error: None }
    }
}

/// How a packet leaves that its rules let pass.
pub(super) struct ForwardPlan<'v> {
    /// Where it goes.
    pub egress: Egress<'v>,
    /// It turns round there, to another UE.
    is_switched: bool,
    outer: Option<CreatedHeader>,
    target: Option<RedirectTarget>,
    /// It is one hop further then.
    is_routed: bool,
    /// What fits the link behind the outer header, where the packet is longer and may be fragmented.
    /// Unit: octets.
    pub divided_to: Option<u16>,
}

/// Turns every packet that passes into the frame that leaves, and queues, holds or drops it.
///
/// Shape:   drains the lane's buffers; reads `verdicts`, `arrivals` and `ips[0..n]`. n ≤ BURST_MAX.
/// Cost:    writes the new headers once; one next-hop line per packet, asked for in a pass of its
///          own. No allocation, no clock.
/// Spec:    TS 29.244 §5.2.1, §8.2.56, §8.2.64; RFC 1812 §5.3.1; RFC 8200 §3.
/// Errors:  none; every packet ends in the outbound queues, among those that wait for a neighbor, or
///          in exactly one drop reason.
pub(crate) fn s6_apply<Io: PacketIo, S: LaneKind>(
    env: &StepContext<'_>,
    io: &mut Io,
    lane: &mut BurstLane<'_, Io::Buf, S>,
    out: &mut WorkerState<Io::Buf>,
) {
    for verdict in &lane.verdicts {
        if let PacketVerdict::Pass(matched) = verdict {
            env.view.prefetch_next_hop(matched.far.next_hop);
        }
    }
    let BurstLane { bufs, arrivals, ips, verdicts, sessions, .. } = lane;
    for ((((mut buf, arrival), ip), verdict), session) in
        bufs.drain(..).zip(&mut *arrivals).zip(&*ips).zip(&*verdicts).zip(&*sessions)
    {
        if let PacketVerdict::Pass(matched) | PacketVerdict::Divert(matched) = verdict
            && !matched.far.duplicates.is_empty()
        {
            duplicate(env, io, out, &buf, (*session, arrival, ip), matched);
        }
        let matched = match verdict {
            PacketVerdict::Pass(matched) if redirect::is_answered_by_http(matched) => {
                redirect::queue_http_answer(out, buf, (*session, &*arrival, ip), matched);
                continue;
            }
            PacketVerdict::Pass(matched) => matched,
            PacketVerdict::Divert(matched) => {
                buffering::divert(env, out, buf, (*session, &*arrival, ip), matched);
                continue;
            }
            PacketVerdict::Drop(reason) => {
                drop_packet(out, buf, (arrival, ip), *reason);
                continue;
            }
        };
        if out.has_commands() {
            run_commands_before(env, io, out, (*session, matched.rules.generation));
        }
        let course = plan_forwarding(env, arrival, ip, matched);
        if let Ok(course) = &course
            && let Some(mtu_bytes) = course.divided_to
        {
            let (packet, origin) = ((*session, &*arrival, ip), matched.origin());
            send_fragments(env, io, out, buf, packet, (matched, course, mtu_bytes), origin);
            continue;
        }
        let way = course.and_then(|course| {
            rewrite(&mut buf, arrival, ip, &course)?;
            finish(&mut buf, matched, &course)?;
            Ok((course.egress, course.is_switched))
        });
        match way {
            Ok((way, turns)) => {
                let packet = (buf, ip.total_len);
                match turns {
                    false => send_or_queue(env, io, out, packet, (*session, matched, &way)),
                    true => switch_or_queue(env, out, packet, (*session, matched, &way)),
                }
            }
            Err(NotForwarded { reason, error }) => {
                out.tally.drop(reason);
                // Spec: RFC 4443 §2.4 (e), RFC 1812 §4.3.2.7: no errors about link-local packets.
                if let Some(kind) = error.filter(|_| !matched.is_of_cp_function()) {
                    let ip_offset = arrival.ip_offset;
                    let (direction, network) = (matched.direction, network_side(matched));
                    let error = IcmpError { kind, direction, network, ip_offset, ip: *ip };
                    out.slow.push_error(buf, error);
                }
            }
        }
    }
}

/// Sends the frame of a packet of `len` octets, or has it wait for its rates.
#[inline]
pub(super) fn send_or_queue<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    (buf, len): (Io::Buf, u16),
    (session, matched, way): (SessionIndex, &Matched<'_>, &Egress<'_>),
) {
    if !matched.must_queue || way.mac.is_none() {
        out.send(env, io, buf, way, matched.origin());
        return;
    }
    let key = shaping::queue_key(session, matched);
    let packet = ReadyFrame::new(buf, (way.interface.port, way.interface.id));
    let WorkerState { shaping, leases, tally, .. } = out;
    shaping::enqueue(env, (shaping, leases, tally), (key, None), packet, len);
}

/// Has the frame of a packet of `len` octets turn round, or wait for its rates first.
#[cold]
fn switch_or_queue<B: PacketBuf>(
    env: &StepContext<'_>,
    out: &mut WorkerState<B>,
    (buf, len): (B, u16),
    (session, matched, way): (SessionIndex, &Matched<'_>, &Egress<'_>),
) {
    let exit = (way.interface.port, way.interface.id);
    let WorkerState { queues, shaping, leases, tally, .. } = out;
    if matched.must_queue {
        let key = shaping::queue_key(session, matched);
        let packet = ReadyFrame::turning(buf, exit);
        shaping::enqueue(env, (shaping, leases, tally), (key, None), packet, len);
    } else {
        queues.switched.push(exit.0, buf, tally);
    }
}

/// Counts a packet that goes no further; parts of tunnel packets do, once they are whole.
#[inline]
fn drop_packet<B: PacketBuf>(
    out: &mut WorkerState<B>,
    buf: B,
    (arrival, ip): (&PacketArrival, &IpPacket),
    reason: DropReason,
) {
    if reason == DropReason::OuterFragment {
        // The owner of its session is the one to put it together.
        let WorkerState { fragments, tally, .. } = out;
        fragments.add(buf, arrival.interfaces, (arrival.ip_offset, ip, true), tally);
        return;
    }
    out.tally.drop(reason);
    if reason == DropReason::TeidUnknown {
        out.slow.push_gtpu_error(buf, GtpuError::TeidUnknown(arrival.teid));
    }
}

/// The interfaces towards the data network of a packet: where an error about it goes to, or counts
/// as coming from.
fn network_side(matched: &Matched<'_>) -> InterfaceSet {
    match matched.direction {
        Direction::Uplink => matched.far.interfaces,
        Direction::Downlink => matched.pdr.interfaces,
    }
}

/// Finds out how one packet leaves.
#[inline]
pub(super) fn plan_forwarding<'v>(
    env: &StepContext<'v>,
    arrival: &PacketArrival,
    ip: &IpPacket,
    matched: &Matched<'_>,
) -> Result<ForwardPlan<'v>, NotForwarded> {
    // UE and CP function are on one link: neighbor discovery demands that nobody routed its packets.
    let is_routed = !matched.is_of_cp_function();
    if is_routed && arrival.is_on_link {
        return Err(DropReason::IpAddressInvalid.into());
    }
    if is_routed && ip.ttl <= 1 {
        let error = Some(IcmpErrorKind::TimeExceeded);
        return Err(NotForwarded { reason: DropReason::TtlExceeded, error });
    }
    let outer = outer_header(matched, arrival.container);
    let target = match &matched.far.redirect {
        Some(redirect) => Some(RedirectTarget::new(redirect, ip, matched.direction)?),
        None => None,
    };
    let dst = target.as_ref().map_or(ip.addrs, |target| target.addrs).dst();
    if let Some(way) = local_egress(env, arrival, matched, dst) {
        return Ok(ForwardPlan {
            egress: way,
            is_switched: true,
            outer,
            target,
            is_routed,
            divided_to: None,
        });
    }
    let way = find_egress(env, matched, dst).ok_or_else(|| no_egress_reason(env, matched, dst))?;
    let divided_to = check_mtu(way.interface.mtu_bytes, outer.as_ref(), ip)?;
    Ok(ForwardPlan { egress: way, is_switched: false, outer, target, is_routed, divided_to })
}

/// Leaves the user's packet in `buf` alone, one hop further if it is routed.
#[inline]
pub(super) fn rewrite<B: PacketBuf>(
    buf: &mut B,
    arrival: &PacketArrival,
    ip: &IpPacket,
    course: &ForwardPlan<'_>,
) -> Result<(), DropReason> {
    strip(buf, arrival, ip)?;
    if course.is_routed {
        decrement_ttl(buf, ip)?;
    }
    if let Some(target) = &course.target {
        target.write(buf.data_mut(), ip);
    }
    Ok(())
}

/// Makes the user's packet in `buf` the frame that leaves.
#[inline]
pub(super) fn finish<B: PacketBuf>(
    buf: &mut B,
    matched: &Matched<'_>,
    course: &ForwardPlan<'_>,
) -> Result<(), DropReason> {
    let Egress { interface, .. } = course.egress;
    let mac = course.egress.mac_or_blank();
    if let Some(outer) = &course.outer {
        return encapsulate(buf, outer, interface, mac);
    }
    if let Some(dscp) = matched.far.dscp {
        mark(buf.data_mut(), dscp);
    }
    let is_ipv4 = buf.data().first().is_some_and(|first| first >> 4 == 4);
    prepend_link(buf, interface, mac, if is_ipv4 { EtherType::IPV4 } else { EtherType::IPV6 })
}

/// The way of a packet: to the FAR's tunnel, or to a data network by its destination `dst`. A FAR
/// that names neither leads nowhere. What is for another UE turned round before.
#[inline]
fn find_egress<'v>(
    env: &StepContext<'v>,
    matched: &Matched<'_>,
    dst: IpAddr,
) -> Option<Egress<'v>> {
    let far = matched.far;
    match (far.outer_header_creation(), far.destination) {
        (Some(HeaderCreation::Gtpu(_)), _) => egress_to_hop(env, far.next_hop),
        (Some(HeaderCreation::Udp { addr, .. } | HeaderCreation::Ip { addr }), _) => {
            egress_by_route(env, InterfaceRole::N6, far.interfaces, addr)
        }
        (None, DestinationInterface::Core | DestinationInterface::SgiLanN6Lan) => {
            let station = match &far.steering {
                // A service function would bring it back, as a packet of the data network.
                Some(_) if env.view.is_own(far.interfaces, dst) => return None,
                Some(steering) => steering.towards(dst),
                None => dst,
            };
            egress_by_route(env, InterfaceRole::N6, far.interfaces, station)
        }
        (None, _) => None,
    }
}

/// Why nothing leads from a FAR to `dst`.
#[cold]
fn no_egress_reason(env: &StepContext<'_>, matched: &Matched<'_>, dst: IpAddr) -> DropReason {
    let is_routed = matched.far.outer_header_creation().is_none();
    let is_own = || env.view.is_own(matched.far.interfaces, dst);
    match is_routed && matched.direction == Direction::Uplink && is_own() {
        true => DropReason::UeToOwnAddress,
        false => DropReason::RouteUnknown,
    }
}

/// The outer header that the FAR creates.
/// Spec: TS 29.244 §5.4.1, §8.2.12, §8.2.56.
#[inline]
pub(crate) fn outer_header(
    matched: &Matched<'_>,
    arrived: Option<PduSessionContainer>,
) -> Option<CreatedHeader> {
    let header = matched.far.outer_header_creation()?;
    let tos = matched.far.transport_level_marking.unwrap_or(0);
    let container = match header {
        HeaderCreation::Gtpu(_) => container(matched, arrived),
        HeaderCreation::Udp { .. } | HeaderCreation::Ip { .. } => None,
    };
    Some(CreatedHeader { header, tos, container })
}

/// The PDU Session Container that a packet leaves with, of the type of its direction.
///
/// Downlink, the first QER of the PDR with a QFI says what is in it, else the container that came
/// with the packet, else, from the CP function, the QERs of another PDR with the same FAR. Uplink,
/// the one that came goes first, since the RAN knows the flow. So it does for packets that the RAN
/// sends back to be forwarded to another part of the RAN. There are none towards the CP function.
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
                marking().or(arrived.map(downlink)).or_else(|| marking_of_far(matched))
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

/// The container that the QERs of a PDR demand.
#[inline]
fn marking(rules: &PublishedRules, pdr: &PublishedPdr) -> Option<PduSessionContainer> {
    rules.qers_of(pdr).find_map(|qer| {
        let container = PduSessionContainer::downlink(qer.qfi?, qer.rqi);
        Some(PduSessionContainer { ppi: qer.ppi, ..container })
    })
}

/// The container of the packets that leave by the same FAR as the packet's: the RAN takes no packet
/// without a QoS flow, and SMFs give PDRs of the CP function no QER.
#[cold]
fn marking_of_far(matched: &Matched<'_>) -> Option<PduSessionContainer> {
    let Matched { rules, pdr, direction, .. } = *matched;
    let mut sharing = rules.pdrs(direction).iter().filter(|other| other.far == pdr.far);
    sharing.find_map(|other| marking(rules, other))
}

/// Compares what leaves with the MTU. Returns what fits where the packet is to be divided; senders
/// that forbid it are told.
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

/// Cuts everything off that is not the user's IP packet: outer headers, link header, padding.
#[inline]
fn strip<B: PacketBuf>(
    buf: &mut B,
    arrival: &PacketArrival,
    ip: &IpPacket,
) -> Result<(), DropReason> {
    let offset = usize::from(arrival.ip_offset);
    // Parsing found all these octets.
    if buf.truncate(offset + usize::from(ip.total_len)) && buf.trim_front(offset) {
        Ok(())
    } else {
        Err(DropReason::InnerMalformed)
    }
}

#[inline]
fn decrement_ttl<B: PacketBuf>(buf: &mut B, ip: &IpPacket) -> Result<(), DropReason> {
    let left = if ip.is_ipv4() {
        ipv4::decrement_ttl(buf.data_mut())
    } else {
        ipv6::decrement_hop_limit(buf.data_mut())
    };
    left.map(|_| ()).ok_or(DropReason::TtlExceeded)
}
