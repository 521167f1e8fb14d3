//! The processing of a burst that all workers share, for any source of packets.

use adit_pktio::Burst;
use adit_types::PortId;

use super::stages::forward_any;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::slow;
use crate::worker_state::WorkerState;

/// Processes a burst that was received or taken over, then those of its packets that are switched
/// to other UEs.
#[inline(always)]
// PERF (adit-bench datapath): inlined, so that `Worker::step` is one function with the packet path.
pub(super) fn process<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    forward_any(ctx, io, port, rx, state);
    process_switched(ctx, io, rx, state);
}

/// Takes over and processes a burst of packets that `source` handed to this worker. Returns how
/// many packets it has; `None` if none was in the ring.
#[inline]
pub(super) fn process_handed<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    source: usize,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> Option<usize> {
    let port = state.handoff.take(source, rx)?;
    let count = rx.len();
    process(ctx, io, port, rx, state);
    Some(count)
}

/// Processes all packets that other threads have handed to this worker. Returns how many.
#[cold]
pub(super) fn take_over_all<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let mut taken = 0;
    state.books.tally.set_taken_over(true);
    for source in 0..state.handoff.source_count() {
        let mut left = state.handoff.waiting_from(source);
        while left > 0 {
            let Some(count) = process_handed(ctx, io, source, rx, state) else { break };
            left = left.saturating_sub(count);
            taken += count;
        }
    }
    state.books.tally.set_taken_over(false);
    taken
}

/// Runs the slow path, and sends the packets that result from it.
#[cold]
pub(super) fn process_slow<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    slow::run(ctx, io, state);
    process_switched(ctx, io, rx, state);
    state.queues.tx.flush(io, &mut state.books.tally);
    state.handoff.flush(&mut state.books.tally);
}

/// Processes packets that are switched to other UEs as packets that arrive from the data network of
/// the destination.
#[inline]
pub(super) fn process_switched<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    while state.queues.tx.switched.len() > 0 {
        let Some(port) = state.queues.tx.switched.take(rx) else { return };
        state.books.tally.set_recirculated(true);
        forward_any(ctx, io, port, rx, state);
        state.books.tally.set_recirculated(false);
    }
}
