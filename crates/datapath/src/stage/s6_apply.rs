//! Sixth stage: applies the FAR to each packet and consumes the lane.

use adit_pktio::PacketBuf;
use adit_rules::DropReason;
use adit_types::{Direction, InterfaceSet};

use crate::carried::PlannedFrame;
use crate::columns::{BurstLane, LaneKind, Matched, MatchedPacket, PacketVerdict, UserPacket};
use crate::command::run_commands_before;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::fragments::ArrivedFragment;
use crate::interfaces::TxTarget;
use crate::origin::Origin;
use crate::slow_queue::{GtpuError, IcmpError};
use crate::stage::divert::divert;
use crate::stage::duplicate::duplicate;
use crate::stage::forward_plan::{NotForwarded, finish, plan_forwarding, rewrite};
use crate::stage::fragment::send_fragments;
use crate::stage::mss::clamp_syn;
use crate::stage::redirect;
use crate::stage::send::{WrittenFrame, send_or_queue, switch_or_queue};
use crate::tally::StepTally;
use crate::tx_queues::{FrameSender, TxFrame};
use crate::worker_queues::WorkerQueues;
use crate::worker_state::WorkerState;

/// Turns every packet that passes into the frame that leaves, and sends, queues or drops the frame.
///
/// Shape:   drains the lane's buffers; reads `verdicts`, `arrivals` and `ips[0..n]`. n ≤ BURST_MAX.
/// Cost:    writes the new headers once; one next-hop line per packet, prefetched in a separate
///          pass. No allocation, no clock.
/// Spec:    TS 29.244 §5.2.1, §8.2.56, §8.2.64; RFC 1812 §5.3.1; RFC 8200 §3.
/// Errors:  none; every packet ends in a queue or in exactly one drop reason.
pub(crate) fn s6_apply<Io: Departures, K: LaneKind>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    lane: &mut BurstLane<'_, Io::Buf, K>,
    state: &mut WorkerState<Io::Buf>,
) {
    for verdict in &lane.verdicts {
        if let PacketVerdict::Pass(matched) = verdict {
            ctx.view.prefetch_next_hop(matched.far.next_hop);
        }
    }
    let BurstLane { bufs, arrivals, ips, verdicts, sessions, .. } = lane;
    for ((((buf, arrival), ip), verdict), session) in
        bufs.drain(..).zip(&mut *arrivals).zip(&*ips).zip(&*verdicts).zip(&*sessions)
    {
        if let PacketVerdict::Pass(matched) | PacketVerdict::Divert(matched) = verdict
            && !matched.far.duplicates.is_empty()
            && !core::mem::replace(&mut arrival.is_copied, true)
        {
            let packet = UserPacket { session: *session, arrival, ip };
            duplicate(ctx, &mut state.transmitter(io), &buf, packet, matched);
        }
        let packet = UserPacket { session: *session, arrival, ip };
        match verdict {
            PacketVerdict::Pass(matched) if redirect::is_answered_by_http(matched) => {
                let tally = &mut state.books.tally;
                redirect::queue_http_answer(&mut state.queues.slow, tally, buf, packet, matched);
            }
            PacketVerdict::Pass(matched) => {
                forward(ctx, io, state, buf, MatchedPacket { packet, matched });
            }
            PacketVerdict::Divert(matched) => {
                let WorkerState { queues, books, .. } = &mut *state;
                let packet = MatchedPacket { packet, matched };
                divert(ctx, &mut queues.buffering, books, buf, packet);
            }
            PacketVerdict::Drop(reason) => {
                let WorkerState { queues, books, .. } = &mut *state;
                drop_packet(queues, &mut books.tally, buf, packet, *reason);
            }
        }
    }
}

/// Forwards one packet.
#[inline(always)]
// PERF (adit-bench kinds): the body of the loop over the lane.
fn forward<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    mut buf: Io::Buf,
    packet: MatchedPacket<'_, '_>,
) {
    let MatchedPacket { packet: UserPacket { session, arrival, ip }, matched } = packet;
    if state.has_commands() {
        run_commands_before(ctx, io, state, session, matched.rules.generation);
    }
    let plan = plan_forwarding(ctx, buf.data(), arrival, ip, matched);
    if let Ok(plan) = &plan {
        clamp_syn(ctx, &mut state.books.tally, &mut buf, packet, plan);
    }
    if let Ok(plan) = &plan
        && plan.divided_to.is_some()
    {
        let tx = &mut state.transmitter(io);
        send_fragments(ctx, tx, buf, packet, plan, matched.origin());
        return;
    }
    if io.has_later_stage()
        && let Ok(plan) = &plan
        && let Some(planned) = plan.for_later_stages(arrival, ip, matched)
        && state.queues.unresolved.is_resolved(&plan.egress)
    {
        let (_, mut sender) = state.shaping_and_sender(io);
        send_to_later_stage(&mut sender, buf, plan.egress.target(), &planned);
        return;
    }
    let written = plan.and_then(|plan| {
        rewrite(&mut buf, arrival, ip, &plan)?;
        finish(&mut buf, matched, &plan)?;
        Ok((plan.egress, plan.is_switched))
    });
    match written {
        Ok((egress, is_switched)) => {
            let frame = WrittenFrame { buf, len: ip.total_len, session, matched, egress: &egress };
            match is_switched {
                false => send_or_queue(ctx, &mut state.transmitter(io), frame),
                true => {
                    switch_or_queue(ctx, &mut state.queues, &mut state.books.tally, frame);
                }
            }
        }
        Err(NotForwarded { reason, error }) => {
            state.books.tally.drop(reason);
            // No errors about link-local packets. Spec: RFC 4443 §2.4 (e), RFC 1812 §4.3.2.7.
            if let Some(kind) = error.filter(|_| !matched.is_from_or_to_cp_function()) {
                let ip_offset = arrival.ip_offset;
                let (direction, network) = (matched.direction, network_side(matched));
                let error = IcmpError { kind, direction, network, ip_offset, ip: *ip };
                state.queues.slow.push_error(buf, error);
            }
        }
    }
}

/// Passes a packet to the later stage that writes it. The packet's mark must have its flow.
pub(crate) fn send_to_later_stage<Io: Departures>(
    sender: &mut FrameSender<'_, Io>,
    mut buf: Io::Buf,
    target: TxTarget,
    planned: &PlannedFrame,
) {
    match planned.attach(&mut buf) {
        Ok(()) => {
            let frame = TxFrame { buf, bytes: 0, origin: Origin::HandedOn };
            sender.send(target, frame);
        }
        Err(reason) => sender.tally.drop(reason),
    }
}

/// Drops and counts a packet; but keeps a fragment of a tunnel packet to reassemble it.
#[inline]
pub(crate) fn drop_packet<B: PacketBuf>(
    queues: &mut WorkerQueues<B>,
    tally: &mut StepTally,
    buf: B,
    UserPacket { arrival, ip, .. }: UserPacket<'_>,
    reason: DropReason,
) {
    if reason == DropReason::OuterFragment {
        let &crate::columns::PacketArrival { interfaces, ip_offset, .. } = arrival;
        let fragment =
            ArrivedFragment { buf, interfaces, ip_offset, addrs: ip.addrs, is_ours: true };
        queues.fragments.add(fragment, tally);
        return;
    }
    tally.drop(reason);
    if reason == DropReason::TeidUnknown {
        queues.slow.push_gtpu_error(buf, GtpuError::TeidUnknown(arrival.teid));
    }
}

/// Returns the interfaces to the packet's data network. An error about the packet is sent through
/// them, or is counted as if it came from there.
fn network_side(matched: &Matched<'_>) -> InterfaceSet {
    match matched.direction {
        Direction::Uplink => matched.far.interfaces,
        Direction::Downlink => matched.pdr.interfaces,
    }
}
