//! A worker's part in sweeps ([`crate::sweeps`]), and the End Markers that wait for them.

use adit_pktio::{Burst, PacketIo};

use super::processing::{process_switched, take_over_all};
use crate::context::StepContext;
use crate::slow::{self, SlowLimits};
use crate::worker_state::WorkerState;

/// Makes the sweep that was asked for, and passes on the End Markers that have waited for theirs. Returns how many packets
/// it processed.
///
/// Cost: all packets that the rings hold. No allocation.
#[cold]
pub(super) fn sweep<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    limits: &mut SlowLimits,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let sweep = state.handoff.sweeps().begin();
    // Before the rings are emptied: what others handed on in these sweeps is in them.
    let ready = state.held_end_markers.ready(ctx.now, state.handoff.sweeps());
    let taken = take_over_all(ctx, io, rx, state);
    slow::run(ctx, io, limits, state);
    slow::pass_on_held(ctx, io, limits, state, ready);
    process_switched(ctx, io, rx, state);
    state.queues.flush(io, &mut state.tally);
    state.handoff.flush(&mut state.tally);
    state.handoff.sweeps().end(sweep);
    taken + ready
}
