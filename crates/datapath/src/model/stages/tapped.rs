//! Runs the stages on packets that taps select: one packet at a time, so that its state is visible
//! between the stages, and in its place among the others, so that order is kept.
//!
//! The packets between selected ones are processed as without a tap, in shorter bursts. Taps do not
//! change any packet's outcome.

use adit_pktio::{Burst, PacketBuf};
use adit_rules::{LeaveReason, TapOrigin, TapOutcome, TapPacket, TapSet};
use adit_types::PortId;

use super::{forward_burst, run_stages, take_stages};
use crate::books::Books;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::fast_path::trial::{FastPathTrial, try_fast_path};
use crate::late_packets::{EndedWait, LatePacket, WaitEnd};
use crate::packet_fate::{OutcomeBaseline, transmit_alone};
use crate::selection::TapCandidate;
use crate::tap::{TapPoint, TapRecord};
use crate::worker_state::{BurstPath, WorkerState};

/// Forwards a burst by the fast path and the stages while taps are active.
#[cold]
pub(super) fn forward_tapped<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let path = state.path;
    if path == BurstPath::Tapped {
        state.path = BurstPath::Usual;
    }
    let points = &[TapPoint::Arrival];
    divide_by_taps(ctx, io, port, rx, state, points, |io, rx, state| {
        forward_burst(ctx, io, port, rx, state);
    });
    state.path = path;
    report_late_packets(ctx, &mut state.books);
}

/// Runs the stages: on packets that a tap selects one by one, on all others as bursts.
pub(super) fn take_stages_tapped<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let is_any = state.books.tap.as_ref().is_some_and(|tap| tap.selects_at(TapPoint::Stages));
    if !is_any {
        return take_stages(ctx, io, port, rx, state);
    }
    let points = &[TapPoint::Stages];
    divide_by_taps(ctx, io, port, rx, state, points, |io, rx, state| {
        take_stages(ctx, io, port, rx, state);
    });
}

/// Divides a burst: packets that taps select at `points` take the stages alone; the runs between
/// them are passed to `forward`.
fn divide_by_taps<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
    points: &[TapPoint],
    mut forward: impl FnMut(&mut Io, &mut Burst<Io::Buf>, &mut WorkerState<Io::Buf>),
) {
    let mut run = Burst::new();
    for buf in core::mem::take(rx) {
        let candidate = TapCandidate::new(ctx, port, buf.data());
        let taps = candidate.select(ctx, points, &state.handoff, &mut state.books);
        if taps.is_empty() {
            run.push(buf);
            continue;
        }
        if !run.is_empty() {
            forward(io, &mut run, state);
        }
        // Adds the taps that select before the stages: this packet does not come there again.
        let taps = match points {
            [TapPoint::Arrival] => {
                let (points, handoff) = (&[TapPoint::Stages], &state.handoff);
                taps.union(candidate.select(ctx, points, handoff, &mut state.books))
            }
            _ => taps,
        };
        let packet = candidate.packet(ctx, taps, &state.books);
        run_stages_alone(ctx, io, port, points, packet, buf, state);
    }
    if !run.is_empty() {
        forward(io, &mut run, state);
    }
}

/// Runs the stages on one packet, which taps selected at `points`, and reports its record.
fn run_stages_alone<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    points: &[TapPoint],
    packet: TapPacket,
    buf: Io::Buf,
    state: &mut WorkerState<Io::Buf>,
) {
    let mut rx = Burst::new();
    let record = state.books.tap.as_mut().and_then(|tap| tap.begin(packet, buf.data()));
    rx.push(buf);
    let Some(mut record) = record else {
        // Another record is open: this packet is part of it.
        return take_stages(ctx, io, port, &mut rx, state);
    };
    if record.has_path
        && let Some(buf) = rx.first()
    {
        note_fast_path_trial(ctx, port, points, buf, &mut record, state);
    }
    let before = OutcomeBaseline::of(&state.queues, &state.books.tally);
    let were_noted = state.books.tally.note_late_drops(false);
    state.books.tally.set_taps_of_current_packet(packet.taps);
    run_stages(ctx, io, port, &mut rx, state, &mut *record);
    if state.queues.fragments.any_arrived() {
        let WorkerState { queues, handoff, books, .. } = &mut *state;
        queues.fragments.join(ctx.now, port, &mut rx, handoff, &mut books.tally);
    }
    transmit_alone(io, &mut record, state);
    state.books.tally.note_late_drops(were_noted);
    state.books.tally.set_taps_of_current_packet(TapSet::NONE);
    let outcome = before.outcome(&state.queues, &state.books.tally);
    if let Some(tap) = &mut state.books.tap {
        match outcome {
            // The slow path makes a whole record of the packet later.
            None => tap.discard(record),
            Some(outcome) => tap.commit(record, outcome),
        }
    }
    if !rx.is_empty() {
        take_joined(ctx, io, port, &mut rx, state);
    }
}

/// Tries the fast path with the packet in `buf`, and notes the answer in `record`.
#[cold]
fn note_fast_path_trial<B: PacketBuf>(
    ctx: &StepContext<'_>,
    port: PortId,
    points: &[TapPoint],
    buf: &B,
    record: &mut TapRecord,
    state: &mut WorkerState<B>,
) {
    let room = record.path.clear();
    let FastPathTrial { answer, frame } = match points {
        [_] if state.path == BurstPath::Stages => {
            FastPathTrial::leaves(LeaveReason::CommandPending)
        }
        [_] => try_fast_path(ctx, port, buf, room, state),
        // Two points at once are only passed for reassembled packets.
        _ => FastPathTrial::leaves(LeaveReason::Joined),
    };
    record.path.note(answer, frame);
}

/// Runs the stages on packets that were reassembled from fragments.
fn take_joined<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let was_again = state.books.tally.set_recirculated(true);
    let points = &[TapPoint::Arrival, TapPoint::Stages];
    divide_by_taps(ctx, io, port, rx, state, points, |io, rx, state| {
        take_stages(ctx, io, port, rx, state);
    });
    state.books.tally.set_recirculated(was_again);
}

/// Reports packets whose wait ended to the taps that selected them.
pub(crate) fn report_late_packets(ctx: &StepContext<'_>, books: &mut Books) {
    while let Some(late) = books.tally.take_late_packet() {
        let Some(tap) = &mut books.tap else { return };
        let LatePacket { end, waited, len, head } = late;
        let mut taps = waited
            .map_or(TapSet::NONE, |waited| tap.taps_of_wait(waited.taps, ctx.now, waited.time));
        if let WaitEnd::Dropped(reason) = end {
            taps = taps.union(tap.taps_of_late_drop(reason, ctx.now));
        }
        if taps.is_empty() {
            continue;
        }
        let packet = TapPacket {
            taps,
            origin: TapOrigin::Waited,
            worker: tap.worker(),
            at: ctx.now,
            port: None,
            interface: None,
            len: u32::try_from(len).unwrap_or(u32::MAX),
        };
        let frame = match end {
            WaitEnd::Leaves(_) => &[][..],
            WaitEnd::Switched | WaitEnd::Dropped(_) => &head,
        };
        let Some(mut record) = tap.begin(packet, frame) else { return };
        if let Some(EndedWait { wait, time, .. }) = waited {
            record.note_wait(wait, time, true);
        }
        let outcome = match end {
            WaitEnd::Leaves(target) => {
                record.note_left(target, len, &head);
                TapOutcome::Transmitted
            }
            WaitEnd::Switched => TapOutcome::Switched,
            WaitEnd::Dropped(reason) => TapOutcome::Dropped(reason),
        };
        tap.commit(record, outcome);
    }
}
