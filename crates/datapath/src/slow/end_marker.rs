//! Forwards and reports received End Markers.
//!
//! An End Marker that arrives in a tunnel towards UEs is forwarded into the tunnels that the FARs
//! of this tunnel lead to, behind the last packet: the session's owner waits until the other
//! workers have handed over the packets that arrived before ([`crate::sweeps`]), and sends the End
//! Marker at the end of a step, after all waiting packets of the session. An End Marker in any
//! other tunnel has reached its destination. Spec: TS 29.281 §7.3.2; TS 23.501 §5.8.2.9.

use adit_pktio::PacketBuf;
use adit_rules::{
    ApplyAction, DropReason, GtpuTunnel, PublishedFar, PublishedRules, PuntReason, TunnelSide,
    WorkerEvent,
};
use adit_types::{Direction, SessionIndex, Teid};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::egress_to_hop;
use crate::handoff::Handoff;
use crate::held_end_markers::ReceivedEndMarker;
use crate::origin::Origin;
use crate::originate::end_marker::{TunnelEndMarker, write};
use crate::resume::review_session;
use crate::slow::outcome::count_outcome;
use crate::tally::StepTally;
use crate::worker_state::WorkerState;

/// Handles a received End Marker if this worker owns the tunnel's session; else hands it to the
/// owner.
#[cold]
pub(super) fn receive<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    received: ReceivedEndMarker<Io::Buf>,
) {
    let WorkerState { handoff, books, .. } = &mut *state;
    let found = find_tunnel(ctx, handoff, &mut books.tally, received);
    let Some((received, tunnel)) = found else { return };
    if tunnel.side().direction == Direction::Downlink
        && let Some(sweep) = state.handoff.request_sweep()
    {
        state.queues.held_end_markers.hold(ctx.now, sweep, received, &mut state.books.tally);
    } else {
        pass_on(ctx, io, state, received, tunnel);
    }
}

/// Passes on the first `count` End Markers, those whose wait has ended by
/// [`HeldEndMarkers::ready`](crate::held_end_markers::HeldEndMarkers::ready). To be called after
/// the packets that were in the rings of this worker when it returned `count` are processed.
#[cold]
pub(crate) fn pass_on_held<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    count: usize,
) {
    for _ in 0..count {
        let WorkerState { queues, handoff, books, .. } = &mut *state;
        let tally = &mut books.tally;
        let Some(received) = queues.held_end_markers.take(tally) else { return };
        if let Some((received, tunnel)) = find_tunnel(ctx, handoff, tally, received) {
            pass_on(ctx, io, state, received, tunnel);
        }
    }
}

/// Finds the tunnel that an End Marker arrived in, of a session of this worker. `None` if the End
/// Marker was handed to another owner, or dropped.
fn find_tunnel<'v, B: PacketBuf>(
    ctx: &StepContext<'v>,
    handoff: &mut Handoff<B>,
    tally: &mut StepTally,
    received: ReceivedEndMarker<B>,
) -> Option<(ReceivedEndMarker<B>, TunnelRules<'v>)> {
    let teid = received.teid;
    let mut session = [SessionIndex::NONE];
    ctx.view.lookup_teids(&[teid], &mut session);
    let [session] = session;
    let Some(rules) = ctx.view.rules(session) else {
        count_outcome(tally, Err(DropReason::TeidUnknown));
        return None;
    };
    if !handoff.owns(session) {
        handoff.hand_off(session, received.port, received.buf, tally);
        return None;
    }
    Some((received, TunnelRules { session, rules, teid }))
}

/// Reports an End Marker that arrived in a tunnel of this worker, and forwards it.
fn pass_on<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    received: ReceivedEndMarker<Io::Buf>,
    tunnel: TunnelRules<'_>,
) {
    let may_report = state.limits.end_markers.take(ctx.now, received.peer);
    let event = WorkerEvent::EndMarker { session: tunnel.session };
    state.books.report_limited(event, may_report);
    forward(ctx, io, state, received.buf, tunnel);
}

/// A tunnel and the rules of its session.
#[derive(Clone, Copy)]
struct TunnelRules<'v> {
    session: SessionIndex,
    rules: &'v PublishedRules,
    teid: Teid,
}

impl TunnelRules<'_> {
    fn side(&self) -> TunnelSide {
        self.rules.tunnel_side(self.teid)
    }
}

/// Sends an End Marker into every tunnel that the FARs of the tunnel lead to. The first one is the
/// received packet itself. If there is no such tunnel, the packet is consumed.
fn forward<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    buf: Io::Buf,
    tunnel: TunnelRules<'_>,
) {
    let side = tunnel.side();
    let TunnelRules { session, rules, teid } = tunnel;
    let pdrs = rules.pdrs(side.direction);
    let next = |at: usize| {
        let pdr = pdrs.get(at)?;
        let is_of_tunnel = pdr.source == side.source && pdr.teid().is_none_or(|of| of == teid);
        let far = rules.fars.get(usize::from(pdr.far)).filter(|_| is_of_tunnel)?;
        Some((far, tunnel_of_far(far)?))
    };
    let is_first = |at: usize, tunnel| !(0..at).filter_map(next).any(|(_, known)| known == tunnel);
    let mut received = Some(buf);
    if side.direction == Direction::Downlink {
        review_session(ctx, io, session, state);
        let (shaping, mut sender) = state.shaping_and_sender(io);
        shaping.release_session(ctx, &mut sender, session);
        let tx = &mut state.transmitter(io);
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
            let sent = egress.zip(received.take().or_else(|| tx.io.alloc())).and_then(
                |(egress, mut buf)| {
                    tx.io.mark(&mut buf, session);
                    write(&mut buf, &egress, TunnelEndMarker { tunnel, qfi: None, tos, session })
                        .then_some((egress, buf))
                },
            );
            match (sent, origin) {
                (Some((egress, buf)), origin) => tx.send(ctx, buf, &egress, origin),
                (None, Origin::Received(_)) => {
                    count_outcome(&mut tx.books.tally, Err(DropReason::RouteUnknown));
                }
                (None, _) => tx.lose_originated(),
            }
        }
    }
    if received.is_some() {
        count_outcome(&mut state.books.tally, Ok(PuntReason::GtpuEndMarker));
    }
}

/// Returns the tunnel that a FAR forwards into; `None` if it does not.
fn tunnel_of_far(far: &PublishedFar) -> Option<GtpuTunnel> {
    let forwards = far.action.intersection(ApplyAction::FATES) == ApplyAction::FORW;
    far.outer_header_creation().filter(|_| forwards)?.tunnel()
}
