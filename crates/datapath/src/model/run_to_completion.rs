//! Run to completion: one worker processes each burst from receive to transmit.
//!
//! A step sends frames that waited for a port or a neighbor, reviews changed rates, runs commands,
//! and releases other packets that waited. It polls each port once, takes every burst through the
//! fast path and the stages, and transmits. Then it takes over packets that other workers received
//! for sessions of this worker, and runs the slow path.

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::DropReason;
use adit_types::PortId;

use super::owner_change::{change_owners, drop_parked};
use super::processing::{process, process_handed, process_slow, process_switched};
use super::stages::tapped::report_late_packets;
use super::sweep::sweep;
use crate::command::run_commands;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::handoff::{Handoff, WorkerSet};
use crate::originate::kernel_frames;
use crate::resume::review_some;
use crate::shaping::ReviewTime;
use crate::tally::{StepTally, WaitingCounts};
use crate::worker_queues::WorkerQueues;
use crate::worker_state::{BurstPath, WorkerState};

/// Results of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepReport {
    /// How many packets were received, or taken over from other workers.
    pub received: usize,
    /// True if the caller may pause: no packet was received or released, no command ran, and no
    /// packet waits for a neighbor, a rate or a port. Packets may wait for a FAR or for fragments.
    pub idle: bool,
    /// The threads that packets were handed to; the caller wakes those that pause.
    pub handed_to: WorkerSet,
}

/// The ports that a step polls, and its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollPlan<'c> {
    /// The ports to poll, in this order.
    pub ports: &'c [PortId],
    /// Maximum of packets per port, 1..=`BURST_MAX`.
    pub burst: usize,
    /// One more than the highest port of all workers: limits how many bursts are taken over.
    pub port_count: usize,
}

/// Runs one step. `rx` provides the room for a burst, and is empty between steps.
#[inline(always)]
// PERF (adit-bench datapath): inlined, so that `Worker::step` is one function with the packet path.
pub(crate) fn step<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    plan: PollPlan<'_>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> StepReport {
    let waited = state.queues.waiting_packet_count();
    state.path = state.path_without_commands;
    let is_busy = !state.is_quiet(ctx, waited) && release_waiting(ctx, io, rx, state);
    let mut received = 0;
    let is_alone = state.handoff.is_alone();
    let has_owner_change = !is_alone && state.handoff.has_owner_change();
    if has_owner_change {
        received += change_owners(ctx, io, rx, state);
    }
    for &port in plan.ports {
        let count = io.rx_burst(port, plan.burst, rx);
        if count > 0 {
            received += count;
            state.books.tally.burst();
            process(ctx, io, port, rx, state);
        }
    }
    if !is_alone {
        received += take_over(ctx, io, plan.port_count, rx, state);
    }
    if !state.queues.slow.is_empty() {
        process_slow(ctx, io, rx, state);
    }
    let must_sweep =
        !is_alone && (state.handoff.is_sweep_due() || !state.queues.held_end_markers.is_empty());
    if must_sweep {
        received += sweep(ctx, io, rx, state);
    }
    let idle = received == 0 && !is_busy && !has_owner_change && !must_sweep;
    if !idle {
        publish_counts(ctx, waited, &state.queues, &mut state.books.tally);
    }
    StepReport { received, idle, handed_to: state.handoff.take_notified() }
}

/// Runs commands, and sends packets that waited and may leave now. Returns whether it did any work.
/// Not to be called while the worker [is quiet](WorkerState::is_quiet).
#[inline(never)]
// PERF (adit-bench datapath --burst 1): most steps have nothing to release.
pub(super) fn release_waiting<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> bool {
    // Read before commands and changes, which may let the last of these packets leave.
    let any_shaped = !state.queues.shaping.is_empty();
    let is_blocked = state.queues.tx.backlog.len() > 0;
    if is_blocked {
        state.queues.tx.backlog.send(io, ctx.now, &mut state.books.tally);
    }
    // Runs before changes and commands, which may send later packets of the same sessions.
    let is_unresolved = !state.queues.unresolved.stations().is_empty();
    if is_unresolved {
        let WorkerQueues { unresolved, tx, .. } = &mut state.queues;
        unresolved.release(ctx, io, tx, &mut state.books);
    }
    // Runs before commands: packets that a change releases must precede an End Marker.
    let (shaping, mut sender) = state.shaping_and_sender(io);
    shaping.review_changes(ctx, &mut sender, ReviewTime::StepBegin);
    let was_commanded = run_commands(ctx, io, state);
    let has_kernel_frames = kernel_frames::send(ctx, io, state);
    state.path = match state.has_commands() {
        true => BurstPath::Stages,
        false => state.path_without_commands,
    };
    let has_expired = state.queues.fragments.reassembly.expire(ctx.now, &mut state.books.tally);
    let was_resumed = !state.queues.buffering.is_empty() && review_some(ctx, io, state);
    if any_shaped {
        let (shaping, sender) = state.shaping_and_sender(io);
        shaping.release(ctx, sender);
    }
    process_switched(ctx, io, rx, state);
    let may_have_sent =
        is_unresolved || was_commanded || has_kernel_frames || was_resumed || any_shaped;
    if may_have_sent {
        state.queues.tx.flush(io, &mut state.books.tally);
    }
    if state.path_without_commands == BurstPath::Tapped {
        report_late_packets(ctx, &mut state.books);
    }
    may_have_sent || is_blocked || has_expired
}

/// Takes over packets that other workers received for sessions of this worker. Returns how many.
///
/// Cost: per other worker, at most two bursts for each port, as many as that worker can receive and
///       switch in a step, and one burst of End Markers, which that worker hands over last.
fn take_over<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port_count: usize,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let mut taken = 0;
    state.books.tally.set_taken_over(true);
    for source in 0..state.handoff.source_count() {
        for _ in 0..=2 * port_count {
            let Some(count) = process_handed(ctx, io, source, rx, state) else { break };
            taken += count;
        }
    }
    state.books.tally.set_taken_over(false);
    taken
}

/// Drops every packet that waits, so that the packet identity holds. Transmits nothing.
pub(crate) fn drain<B: PacketBuf>(
    ctx: &StepContext<'_>,
    rx: &mut Burst<B>,
    state: &mut WorkerState<B>,
) {
    let WorkerState { queues, handoff, books, .. } = &mut *state;
    let waited = queues.waiting_packet_count();
    drop_taken_over(rx, handoff, &mut books.tally);
    queues.drain(&mut books.tally);
    publish_counts(ctx, waited, &state.queues, &mut state.books.tally);
}

/// Drops packets that other workers handed over. They are counted as `HandoffFull`, because this
/// worker, their owner, does not process them.
fn drop_taken_over<B: PacketBuf>(
    rx: &mut Burst<B>,
    handoff: &mut Handoff<B>,
    tally: &mut StepTally,
) {
    tally.set_taken_over(true);
    drop_parked(rx, handoff, tally);
    for source in 0..handoff.source_count() {
        while handoff.take(source, rx).is_some() {
            for buf in rx.drain(..) {
                tally.receive(buf.data().len());
                tally.drop(DropReason::HandoffFull);
            }
        }
    }
    tally.set_taken_over(false);
}

/// Adds the counts of the step to the worker's counters. `waited`: how many packets waited before.
#[inline(always)]
// PERF (adit-bench datapath --burst 1): runs once per step.
pub(super) fn publish_counts<B: PacketBuf>(
    ctx: &StepContext<'_>,
    waited: usize,
    queues: &WorkerQueues<B>,
    tally: &mut StepTally,
) {
    let waiting = queues.waiting_packet_count();
    debug_assert!(
        tally.identity_holds(waited, waiting),
        "a packet has no outcome, or two: {tally:?}"
    );
    tally.flush(ctx.view.counters(), waiting, || WaitingCounts {
        by_far: queues.buffering.len(),
        by_rate: queues.shaping.len(),
        by_fragment: queues.fragments.reassembly.len(),
        by_port: queues.tx.backlog.len(),
    });
}
