//! End Markers that arrive.
//!
//! One that arrives in a tunnel towards UEs is forwarded into the tunnels that the tunnel's FARs lead
//! to, after the last packet: the session's owner sends it at the end of a step, after all waiting
//! packets of the session. One that arrives in another tunnel has reached its destination.
//! Spec: TS 29.281 §7.3.2; TS 23.501 §5.8.2.9.

use adit_pktio::PacketIo;
use adit_rules::{
    ApplyAction, DropReason, GtpuTunnel, PublishedFar, PublishedRules, PuntReason, WorkerEvent,
};
use adit_types::{Direction, PortId, SessionIndex, Teid};

use crate::context::StepContext;
use crate::egress::egress_to_hop;
use crate::origin::Origin;
use crate::originate::end_marker::{TunnelEndMarker, write};
use crate::resume::review_session;
use crate::slow::gtpu_signaling::report;
use crate::slow::limiter::SlowLimits;
use crate::slow::outcome::settle;
use crate::worker_state::WorkerState;

/// A received End Marker.
pub(super) struct ReceivedEndMarker<B> {
    /// The frame.
    pub buf: B,
    /// The port that it arrived on.
    pub port: PortId,
    /// The tunnel that it arrived in.
    pub teid: Teid,
    /// The sender's position among GTP-U peers.
    pub peer: Option<u32>,
}

/// Handles a received End Marker at the owner of the tunnel's session; hands it to the owner elsewhere.
#[cold]
pub(super) fn receive<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    limits: &mut SlowLimits,
    state: &mut WorkerState<Io::Buf>,
    received: ReceivedEndMarker<Io::Buf>,
) {
    let ReceivedEndMarker { buf, port, teid, peer } = received;
    let mut session = [SessionIndex::NONE];
    ctx.view.lookup_teids(&[teid], &mut session);
    let [session] = session;
    let Some(rules) = ctx.view.rules(session) else {
        settle(state, Err(DropReason::TeidUnknown));
        return;
    };
    if !state.handoff.owns(session) {
        state.handoff.hand_off(session, port, buf, &mut state.tally);
        return;
    }
    let may_report = limits.end_markers.take(ctx.now, peer);
    report(state, WorkerEvent::EndMarker { session }, may_report);
    forward(ctx, io, state, buf, TunnelRules { session, rules, teid });
}

/// A tunnel and the rules of its session.
#[derive(Clone, Copy)]
struct TunnelRules<'v> {
    session: SessionIndex,
    rules: &'v PublishedRules,
    teid: Teid,
}

/// Sends an End Marker into every tunnel that the FARs of its tunnel lead to. The first one is the
/// received packet itself. Without any, the packet is consumed.
fn forward<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    buf: Io::Buf,
    TunnelRules { session, rules, teid }: TunnelRules<'_>,
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
        review_session(ctx, io, session, state);
        let WorkerState { shaping, queues, tally, .. } = &mut *state;
        shaping.release_session(ctx, io, queues, tally, session);
        for at in 0..pdrs.len() {
            let Some((far, tunnel)) = next(at).filter(|(_, tunnel)| is_first(at, *tunnel)) else {
                continue;
            };
            let egress = egress_to_hop(ctx, far.next_hop);
            let tos = far.outer_tos.around(0);
            let origin = match received {
                Some(_) => Origin::Received(Direction::Downlink),
                None => Origin::EndMarker,
            };
            let sent =
                egress.zip(received.take().or_else(|| io.alloc())).and_then(|(egress, mut buf)| {
                    state.mark(&mut buf, session);
                    write(&mut buf, &egress, TunnelEndMarker { tunnel, qfi: None, tos, session })
                        .then_some((egress, buf))
                });
            match (sent, origin) {
                (Some((egress, buf)), origin) => state.send(ctx, io, buf, &egress, origin),
                (None, Origin::Received(_)) => settle(state, Err(DropReason::RouteUnknown)),
                (None, _) => state.tally.lose_originated(),
            }
        }
    }
    if received.is_some() {
        settle(state, Ok(PuntReason::GtpuEndMarker));
    }
}

/// The tunnel that a FAR forwards into.
fn onward(far: &PublishedFar) -> Option<GtpuTunnel> {
    let forwards = far.action.intersection(ApplyAction::FATES) == ApplyAction::FORW;
    far.outer_header_creation().filter(|_| forwards)?.tunnel()
}
