//! Packets of the slow path that taps select.

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{TapOrigin, TapOutcome, TapPacket, TapStage};

use crate::context::StepContext;
use crate::packet_fate::{PacketFates, transmit_alone};
use crate::selection::TapCandidate;
use crate::slow_queue::{SlowPacket, SlowWork};
use crate::tap::{TapPoint, TapRecord};
use crate::worker_state::{BurstPath, WorkerState};

/// The record of a packet that the slow path handles.
pub(super) struct SlowRecord {
    record: Box<TapRecord>,
    before: PacketFates,
}

/// Begins the record of a packet, if a tap selects it. What other frames are about was counted when they arrived.
pub(super) fn begin<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    packet: &SlowPacket<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> Option<SlowRecord> {
    if state.path_without_commands != BurstPath::Tapped {
        return None;
    }
    let frame = packet.buf.data();
    let head = match &packet.work {
        SlowWork::Local(link, _) => {
            let candidate = TapCandidate::new(ctx, link.port(), frame);
            let points = &[TapPoint::Arrival, TapPoint::Stages];
            let taps = candidate.select(ctx, points, state);
            candidate.packet(ctx, taps, state)
        }
        SlowWork::Redirected(_) => {
            let tap = state.tap.as_mut()?;
            let taps = tap.select(TapPoint::Stages, ctx.now, |_| true);
            let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
            let (origin, worker, at) = (TapOrigin::Waited, tap.worker(), ctx.now);
            TapPacket { taps, origin, worker, at, port: None, interface: None, len }
        }
        SlowWork::Error(_) | SlowWork::GtpuError(_) => return None,
    };
    if head.taps.is_empty() {
        return None;
    }
    let record = state.tap.as_mut()?.begin(head, frame)?;
    // What is queued belongs to packets before.
    state.queues.flush(io, &mut state.tally);
    Some(SlowRecord { record, before: PacketFates::of(state) })
}

/// Ends a record.
pub(super) fn end<Io: PacketIo>(
    io: &mut Io,
    SlowRecord { mut record, before }: SlowRecord,
    state: &mut WorkerState<Io::Buf>,
) {
    record.end_stage(TapStage::Slow);
    transmit_alone(io, &mut record, state);
    let outcome = before.outcome(state).unwrap_or(TapOutcome::Transmitted);
    if let Some(tap) = &mut state.tap {
        tap.commit(record, outcome);
    }
}
