//! The stages of the event-driven model, behind 4, 2 or 1 queues by configuration:
//!
//! 1. *Classify*: parses, finds the session and its PDR. Reads only tables and the packet.
//! 2. *Enforce and account*: all work with a session's state and all decisions of its rules, up to
//!    the plan of the packet that leaves. Only this stage looks up the holder of a flow, and only
//!    here packets wait.
//! 3. *Apply*: removes the received headers and decrements the TTL.
//! 4. *Prepare to transmit*: writes outer header and link header, and sends.
//!
//! If there is an Rx queue, workers first look up the flows of packets.
//!
//! A packet carries a record from one stage to the next ([`crate::carried`]). Packets that the
//! first stage cannot classify alone, such as fragments, signaling, and packets whose rules changed
//! meanwhile, are processed by the second stage from the beginning. Frames that are complete after
//! the second stage pass the others unchanged, in the flow of their session, so that order is kept.

use core::ops::Range;

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::DropReason;
use adit_types::{InterfaceId, PortId};
use adit_wire::parse_ip;

use super::event_io::EventIo;
use super::pipeline::classify_frames;
use super::processing::{process, process_switched};
use super::rx_tx::first_tag;
use super::stages::{finish_lane, forward_burst, join_fragments};
use crate::books::Books;
use crate::carried::{
    Mark, PlannedFrame, attach_classified, detach_classified, flow_of_mark, mark_received,
};
use crate::columns::{BurstLane, BurstLanes, LaneKind, PacketVerdict, Tunneled, UserPacket};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::event_queues::{APPLY, ENFORCE, PREPARE};
use crate::handoff::Handoff;
use crate::interfaces::TxTarget;
use crate::origin::Origin;
use crate::stage::forward_plan::{finish_frame, rewrite_plain};
use crate::stage::observe::NoObserver;
use crate::stage::s1_parse::s1_parse;
use crate::stage::s2_lookup::s2_lookup;
use crate::stage::s3_classify::s3_classify;
use crate::stage::s6_apply::{drop_packet, send_to_later_stage};
use crate::tally::StepTally;
use crate::tx_queues::{FrameSender, TxFrame};
use crate::worker_state::WorkerState;

/// Sends packets that `port` received, and that come from the Rx queue, on to the stages.
pub(super) fn look_up_burst<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    tally: &mut StepTally,
) {
    let frames = classify_frames(&ctx.view, ctx.interfaces.of_port(port), rx, tally);
    tally.hand_off(rx.len());
    for (mut buf, frame) in rx.drain(..).zip(&frames) {
        let rx_flow = flow_of_mark(&buf);
        let tag = first_tag(&ctx.view, io.queues, io.map, frame, port);
        mark_received(&mut buf, tag.flow(), rx_flow);
        if let Some(flows) = io.flows {
            flows.count_sent(flows.place(0, rx_flow));
        }
        io.outbox.push(tag, Some(buf));
    }
}

/// Classifies packets that `port` received, and sends those that the first stage can classify alone
/// on to the second stage.
pub(super) fn classify_burst<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let mut lanes = BurstLanes::new();
    let links = ctx.interfaces.of_port(port);
    s1_parse(links, ctx.now, rx, &mut lanes, &mut state.queues, &mut state.books.tally);
    classify_lane(ctx, io, port, &mut lanes.tunneled, state);
    classify_lane(ctx, io, port, &mut lanes.downlink_v4, state);
    classify_lane(ctx, io, port, &mut lanes.downlink_v6, state);
    if state.queues.fragments.any_arrived() {
        join_fragments(ctx, io, port, rx, state);
    }
}

fn classify_lane<'v, Io: PacketIo, K: LaneKind>(
    ctx: &StepContext<'v>,
    io: &mut EventIo<'_, Io>,
    port: PortId,
    lane: &mut BurstLane<'v, Io::Buf, K>,
    state: &mut WorkerState<Io::Buf>,
) {
    if lane.is_empty() {
        return;
    }
    let next = io.queues.queue_of_stage(ENFORCE);
    let WorkerState { queues, books: Books { tally, .. }, .. } = state;
    s2_lookup(&ctx.view, lane);
    s3_classify(ctx, &mut queues.fragments.first_fragments, lane, &mut NoObserver);
    let BurstLane { bufs, arrivals, ips, verdicts, sessions, .. } = lane;
    for ((((mut buf, arrival), ip), verdict), session) in
        bufs.drain(..).zip(&*arrivals).zip(&*ips).zip(&*verdicts).zip(&*sessions)
    {
        let flow = io.map.of(*session);
        // If false, the session was unknown when the packet arrived, so it came in another flow.
        let is_in_flow = flow_of_mark(&buf) == flow;
        // The ports of a fragment are known where the first fragment of its packet was processed.
        if session.is_some() && (ip.is_fragment() || !is_in_flow) {
            tally.hand_off(1);
            let mark = if is_in_flow { Mark::Complete } else { Mark::None };
            mark.set(&mut buf, flow);
            io.send_on(next, flow, port, buf);
            continue;
        }
        let carried = match verdict {
            PacketVerdict::Pass(matched) | PacketVerdict::Divert(matched) => {
                attach_classified(&mut buf, flow, *session, arrival, matched)
            }
            PacketVerdict::Drop(reason) => Err(*reason),
        };
        match carried {
            Ok(()) => {
                tally.hand_off(1);
                io.send_on(next, flow, port, buf);
            }
            Err(reason) => {
                let packet = UserPacket { session: *session, arrival, ip };
                drop_packet(queues, tally, buf, packet, reason);
            }
        }
    }
}

/// Runs the second stage, and the stages that are merged with it, on packets that `port` received.
/// Packets with a record of the first stage continue from there if their rules still hold; all
/// others are processed from the beginning.
pub(super) fn enforce_burst<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    if io.queues.are_merged() {
        process(ctx, io, port, rx, state);
        return;
    }
    let mut arrived = core::mem::take(rx).into_iter().peekable();
    while arrived.peek().is_some() {
        // The stages after classification do not depend on the kind of lane.
        let mut lane = BurstLane::<_, Tunneled>::new();
        let mut run = Burst::new();
        while run.is_empty()
            && let Some(buf) = arrived.next_if(|buf| Mark::of(buf) == Mark::Classified)
        {
            // `None` once the packet is in the lane; the packet itself if its rules have changed.
            run.extend(resume_classified(
                ctx,
                &mut lane,
                buf,
                &state.handoff,
                &mut state.books.tally,
            ));
        }
        if !lane.bufs.is_empty() {
            finish_lane(ctx, io, &mut lane, state, &mut NoObserver);
            state.queues.tx.flush(io, &mut state.books.tally);
            state.handoff.flush(&mut state.books.tally);
        }
        run.extend(core::iter::from_fn(|| {
            arrived.next_if(|buf| Mark::of(buf) != Mark::Classified)
        }));
        if !run.is_empty() {
            run.iter_mut().for_each(|buf| Mark::None.set(buf, 0));
            forward_burst(ctx, io, port, &mut run, state);
        }
    }
    process_switched(ctx, io, rx, state);
}

/// Appends a packet of the first stage to the lane; returns it, without its record, if its rules
/// no longer hold.
fn resume_classified<'v, B: PacketBuf>(
    ctx: &StepContext<'v>,
    lane: &mut BurstLane<'v, B, Tunneled>,
    mut buf: B,
    handoff: &Handoff<B>,
    tally: &mut StepTally,
) -> Option<B> {
    let Some((session, arrival, matched)) = detach_classified(&ctx.view, &mut buf) else {
        return Some(buf);
    };
    tally.receive(buf.data().len());
    let packet = buf.data().get(usize::from(arrival.ip_offset)..);
    let Some(ip) = packet.and_then(|packet| parse_ip(packet, false).ok()) else {
        debug_assert!(false, "the first stage parsed it");
        tally.drop(DropReason::InnerMalformed);
        return None;
    };
    debug_assert!(handoff.owns(session), "a packet of another worker's flow");
    lane.bufs.push(buf);
    lane.arrivals.push(arrival);
    lane.ips.push(ip);
    lane.sessions.push(session);
    lane.verdicts.push(PacketVerdict::Pass(matched));
    None
}

/// Runs the third stage, the fourth, or both on packets that leave through `port`.
pub(super) fn write_burst<Io: Departures>(
    ctx: &StepContext<'_>,
    stages: Range<usize>,
    port: PortId,
    burst: &mut Burst<Io::Buf>,
    mut sender: FrameSender<'_, Io>,
) {
    for mut buf in burst.drain(..) {
        if Mark::of(&buf) != Mark::Planned {
            let target = TxTarget { port, interface: InterfaceId(0) };
            sender.send(target, TxFrame { buf, bytes: 0, origin: Origin::Counted });
            continue;
        }
        sender.tally.receive(buf.data().len());
        match write(ctx, &stages, &mut buf) {
            Ok((planned, target)) if stages.contains(&PREPARE) => {
                let bytes = buf.data().len();
                let origin = Origin::user(planned.direction, planned.is_guaranteed);
                sender.send(target, TxFrame { buf, bytes, origin });
            }
            Ok((planned, target)) => send_to_later_stage(&mut sender, buf, target, &planned),
            Err(reason) => sender.tally.drop(reason),
        }
    }
    sender.tx.flush(sender.io, sender.tally);
}

#[inline]
fn write<B: PacketBuf>(
    ctx: &StepContext<'_>,
    stages: &Range<usize>,
    buf: &mut B,
) -> Result<(PlannedFrame, TxTarget), DropReason> {
    let planned = PlannedFrame::detach(buf).ok_or(DropReason::RouteUnknown)?;
    let PlannedFrame { ip_offset, total_len, is_ipv4, is_routed, .. } = planned;
    let interface = ctx.interfaces.get(planned.interface).ok_or(DropReason::RouteUnknown)?;
    if stages.contains(&APPLY) {
        rewrite_plain(buf, ip_offset, total_len, is_ipv4, is_routed)?;
    }
    if stages.contains(&PREPARE) {
        finish_frame(buf, interface, planned.mac, planned.outer.as_ref(), planned.dscp)?;
    }
    Ok((planned, TxTarget::of(interface)))
}
