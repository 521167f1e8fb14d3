//! Records packets of the slow path that taps select.

use adit_pktio::PacketBuf;
use adit_rules::{TapOrigin, TapPacket};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::packet_fate::LonePacketRecord;
use crate::selection::TapCandidate;
use crate::slow_queue::{SlowPacket, SlowWork};
use crate::tap::TapPoint;
use crate::worker_state::{BurstPath, WorkerState};

/// Begins the record of a packet if a tap selects it. Errors get no record: the packets that they
/// are about had their own.
pub(super) fn begin<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    packet: &SlowPacket<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> Option<LonePacketRecord> {
    if state.path_without_commands != BurstPath::Tapped {
        return None;
    }
    let WorkerState { queues, handoff, books, .. } = state;
    let frame = packet.buf.data();
    let head = match &packet.work {
        SlowWork::Local(link, _) => {
            let candidate = TapCandidate::new(ctx, link.port(), frame);
            let points = &[TapPoint::Arrival, TapPoint::Stages];
            let taps = candidate.select(ctx, points, handoff, books);
            candidate.packet(ctx, taps, books)
        }
        SlowWork::RedirectedSegment(_) => {
            let tap = books.tap.as_mut()?;
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
    LonePacketRecord::begin(io, head, frame, queues, books)
}
