//! A worker's part in sweeps ([`crate::sweeps`]), and in forwarding the End Markers that wait.

use adit_pktio::Burst;

use super::processing::{process_slow, take_over_all};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::slow;
use crate::worker_state::WorkerState;

/// Makes the requested sweep, and passes on the End Markers whose sweeps all others have made.
/// Returns how many packets it processed.
///
/// Cost: all packets that are in the rings. No allocation.
#[cold]
pub(super) fn sweep<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let sweep = state.handoff.sweeps().begin();
    // Read before the rings are emptied: packets that others handed on in these sweeps are in them.
    let ready = state.queues.held_end_markers.ready(ctx.now, state.handoff.sweeps());
    let taken = take_over_all(ctx, io, rx, state);
    slow::pass_on_held(ctx, io, state, ready);
    process_slow(ctx, io, rx, state);
    state.handoff.sweeps().end(sweep);
    taken + ready
}
