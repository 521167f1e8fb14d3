//! End Markers: those that close a tunnel whose traffic went elsewhere, and those of others.
//!
//! The session's owner sends it when it sees the rules that left the tunnel: at the beginning of a
//! step, or in its middle right before the first packet that leaves by them. So every packet that
//! was sent through the old path is before it, and none went the new path yet: no other worker sends
//! packets of the session, and those on their way to the owner are treated by the new rules.
//!
//! One that arrives in a tunnel towards UEs goes on in the tunnels that the tunnel's FARs lead to,
//! behind the last packet: the session's owner sends it at the end of a step, after everything of
//! the session that waits. In other tunnels it has reached its end.
//! Spec: TS 29.281 §7.3.2; TS 23.501 §5.8.2.9.

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{
    ApplyAction, DropReason, GtpuTunnel, PublishedFar, PublishedRules, PuntReason, WorkerEvent,
};
use adit_types::{Direction, InterfaceRole, InterfaceSet, PortId, Qfi, SessionIndex, Teid};
use adit_wire::gtpu::{END_MARKER_LEN_MAX, UDP_PORT, emit_end_marker};

use crate::buffering;
use crate::interfaces::source_addr;
use crate::shaping;
use crate::slow::gtpu_send::{self, GtpuMessage};
use crate::slow::gtpu_signalling::report;
use crate::slow::{SlowLimits, settle};
use crate::stage::egress::{Egress, StepContext, egress_by_route, egress_to_hop};
use crate::worker_state::{Origin, WorkerState};

/// Sends one End Marker through `tunnel`, by one of `interfaces`, of one QoS flow if `qfi` names it;
/// one that cannot be sent is counted as lost.
pub(super) fn send<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    (tunnel, interfaces, qfi): (GtpuTunnel, InterfaceSet, Option<Qfi>),
) {
    let way = egress_by_route(env, InterfaceRole::N3, interfaces, tunnel.addr);
    let sent = way.and_then(|way| {
        let mut buf = io.alloc()?;
        write(&mut buf, &way, (tunnel, qfi), 0).then_some((buf, way))
    });
    match sent {
        Some((buf, way)) => out.send(env, io, buf, &way, Origin::Own),
        None => out.tally.lose_originated(),
    }
}

/// Writes an End Marker into `buf`; false without room or without an address of ours.
fn write<B: PacketBuf>(
    buf: &mut B,
    way: &Egress<'_>,
    (tunnel, qfi): (GtpuTunnel, Option<Qfi>),
    tos: u8,
) -> bool {
    let mut octets = [0; END_MARKER_LEN_MAX];
    let Ok(len) = emit_end_marker(&mut octets, tunnel.teid, qfi) else { return false };
    let Some(src) = source_addr(way.interface, tunnel.addr) else { return false };
    let octets = octets.get(..len).unwrap_or_default();
    let message = GtpuMessage { src, dst: tunnel.addr, dst_port: UDP_PORT, tos, octets };
    gtpu_send::write(buf, way.interface, way.mac_or_blank(), &message).is_ok()
}

/// Handles a received End Marker, which came in on `port`: at the owner of the tunnel's session.
#[cold]
pub(super) fn receive<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    limits: &mut SlowLimits,
    out: &mut WorkerState<Io::Buf>,
    (port, buf): (PortId, Io::Buf),
    (teid, position): (Teid, Option<u32>),
) {
    let mut session = [SessionIndex::NONE];
    env.view.lookup_teids(&[teid], &mut session);
    let [session] = session;
    let Some(rules) = env.view.rules(session) else {
        settle(out, Err(DropReason::TeidUnknown));
        return;
    };
    if !out.handoff.owns(session) {
        out.handoff.hand_off(session, port, buf, &mut out.tally);
        return;
    }
    let may_report = limits.end_markers.take(env.now, position);
    report(out, WorkerEvent::EndMarker { session }, may_report);
    forward(env, io, out, buf, (session, rules, teid));
}

/// Sends an End Marker that came in the tunnel `teid` into every tunnel that it leads to; without
/// any it is consumed. The first of them is the received packet itself.
fn forward<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    buf: Io::Buf,
    (session, rules, teid): (SessionIndex, &PublishedRules, Teid),
) {
    let side = rules.tunnel_side(teid);
    let pdrs = rules.pdrs(side.direction);
    let next = |at: usize| {
        let pdr = pdrs.get(at)?;
        let is_of_tunnel = pdr.source == side.source && pdr.teid().is_none_or(|of| of == teid);
        let far = rules.fars.get(usize::from(pdr.far)).filter(|_| is_of_tunnel)?;
        Some((far, onward(far)?))
    };
    let is_first = |at: usize, tunnel| !(0..at).filter_map(next).any(|(_, known)| known == tunnel);
    let mut received = Some(buf);
    if side.direction == Direction::Downlink {
        buffering::review_session(env, io, session, out);
        shaping::release_session(env, io, out, session);
        for at in 0..pdrs.len() {
            let Some((far, tunnel)) = next(at).filter(|(_, tunnel)| is_first(at, *tunnel)) else {
                continue;
            };
            let way = egress_to_hop(env, far.next_hop);
            let tos = far.transport_level_marking.unwrap_or(0);
            let origin = match received {
                Some(_) => Origin::Received(Direction::Downlink),
                None => Origin::Own,
            };
            let sent =
                way.zip(received.take().or_else(|| io.alloc())).and_then(|(way, mut buf)| {
                    write(&mut buf, &way, (tunnel, None), tos).then_some((way, buf))
                });
            match (sent, origin) {
                (Some((way, buf)), origin) => out.send(env, io, buf, &way, origin),
                (None, Origin::Received(_)) => settle(out, Err(DropReason::RouteUnknown)),
                (None, _) => out.tally.lose_originated(),
            }
        }
    }
    if received.is_some() {
        settle(out, Ok(PuntReason::GtpuEndMarker));
    }
}

/// The tunnel that a FAR forwards into.
fn onward(far: &PublishedFar) -> Option<GtpuTunnel> {
    let forwards = far.action.intersection(ApplyAction::FATES) == ApplyAction::FORW;
    far.outer_header_creation().filter(|_| forwards)?.tunnel()
}
