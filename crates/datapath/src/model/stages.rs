//! Runs the stages one after the other, for every execution model that does not separate them.

pub(super) mod tapped;

use adit_pktio::Burst;
use adit_types::PortId;

use self::tapped::{forward_tapped, take_stages_tapped};
use crate::columns::{BurstLane, BurstLanes, LaneKind};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::fast_path::forward_usual;
use crate::handoff::hand_off_lane;
use crate::resume::review_lane;
use crate::shaping::ReviewTime;
use crate::stage::marking::decapsulate_marks;
use crate::stage::observe::{NoObserver, StageObserver};
use crate::stage::s1_parse::s1_parse;
use crate::stage::s2_lookup::s2_lookup;
use crate::stage::s3_classify::s3_classify;
use crate::stage::s4_enforce::s4_enforce;
use crate::stage::s5_account::s5_account;
use crate::stage::s6_apply::s6_apply;
use crate::worker_state::{BurstPath, WorkerState};

/// Forwards one burst by the fast path and the stages, with or without taps.
#[inline]
pub(super) fn forward_any<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    match state.path_without_commands {
        BurstPath::Tapped => forward_tapped(ctx, io, port, rx, state),
        BurstPath::Usual | BurstPath::Stages => forward_burst(ctx, io, port, rx, state),
    }
}

/// Forwards one burst by the fast path and the stages. Taps select only among the packets that take
/// the stages.
pub(super) fn forward_burst<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    if state.path == BurstPath::Usual {
        forward_usual(ctx, io, port, rx, state);
        if rx.is_empty() {
            if !state.handoff.is_alone() {
                state.handoff.flush(&mut state.books.tally);
            }
            return;
        }
    }
    match state.path_without_commands {
        BurstPath::Tapped => take_stages_tapped(ctx, io, port, rx, state),
        BurstPath::Usual | BurstPath::Stages => take_stages(ctx, io, port, rx, state),
    }
}

/// Runs all stages on a burst, and sends the frames that leave.
fn take_stages<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    run_stages(ctx, io, port, rx, state, &mut NoObserver);
    if state.queues.fragments.any_arrived() {
        join_fragments(ctx, io, port, rx, state);
    }
    state.queues.tx.flush(io, &mut state.books.tally);
    state.handoff.flush(&mut state.books.tally);
}

/// Runs all stages on a burst, but leaves the frames in their queues.
fn run_stages<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
    observer: &mut impl StageObserver,
) {
    let mut lanes = BurstLanes::new();
    let links = ctx.interfaces.of_port(port);
    s1_parse(links, ctx.now, rx, &mut lanes, &mut state.queues, &mut state.books.tally);
    observer.parsed();
    run_lane(ctx, io, port, &mut lanes.tunneled, state, observer);
    run_lane(ctx, io, port, &mut lanes.downlink_v4, state, observer);
    run_lane(ctx, io, port, &mut lanes.downlink_v6, state, observer);
}

/// Runs the stages after parsing on one lane, the packets of a burst with the same kind of lookup
/// key. Hands off packets of other workers, and releases waiting packets of the lane's sessions
/// whose rules changed.
fn run_lane<'v, Io: Departures, K: LaneKind>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    port: PortId,
    lane: &mut BurstLane<'v, Io::Buf, K>,
    state: &mut WorkerState<Io::Buf>,
    observer: &mut impl StageObserver,
) {
    if lane.is_empty() {
        return;
    }
    debug_assert_eq!(lane.len(), lane.bufs.len());
    s2_lookup(&ctx.view, lane);
    observer.looked_up(ctx, lane);
    hand_off_lane(&mut state.handoff, port, lane, &mut state.books.tally);
    s3_classify(ctx, &mut state.queues.fragments.first_fragments, lane, observer);
    finish_lane(ctx, io, lane, state, observer);
}

/// Runs the stages after classification on a lane.
#[inline(always)]
// PERF (adit-bench kinds): inlined into the function that runs the stages.
pub(super) fn finish_lane<'v, Io: Departures, K: LaneKind>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    lane: &mut BurstLane<'v, Io::Buf, K>,
    state: &mut WorkerState<Io::Buf>,
    observer: &mut impl StageObserver,
) {
    decapsulate_marks(lane);
    observer.classified(ctx, lane);
    for (buf, session) in lane.bufs.iter_mut().zip(&lane.sessions) {
        io.mark(buf, *session);
    }
    let (shaping, mut sender) = state.shaping_and_sender(io);
    shaping.review_changes(ctx, &mut sender, ReviewTime::MidStep);
    review_lane(ctx, io, lane, state);
    s4_enforce(ctx, lane, &mut state.queues.shaping, &mut state.books);
    observer.enforced();
    s5_account(ctx, lane, &mut state.books);
    observer.accounted(ctx, lane);
    s6_apply(ctx, io, lane, state);
    observer.applied();
}

/// Reassembles fragments of tunnel packets, and runs the stages on the whole packets.
#[cold]
pub(super) fn join_fragments<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let WorkerState { queues, handoff, books, .. } = &mut *state;
    queues.fragments.join(ctx.now, port, rx, handoff, &mut books.tally);
    if !rx.is_empty() {
        let was_again = state.books.tally.set_recirculated(true);
        run_stages(ctx, io, port, rx, state, &mut NoObserver);
        state.books.tally.set_recirculated(was_again);
    }
}
