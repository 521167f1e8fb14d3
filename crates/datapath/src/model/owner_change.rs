//! A worker's part in a change of owners: see [`crate::owner_map`].

use adit_pktio::{Burst, PacketBuf};
use adit_rules::DropReason;

use super::processing::{process, process_slow, take_over_all};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::handoff::Handoff;
use crate::owner_map::RELEASE_MAX;
use crate::tally::StepTally;
use crate::worker_queues::WorkerQueues;
use crate::worker_state::WorkerState;

/// Looks at the owners again, between bursts: releases groups of sessions that others own from now
/// on, and takes those that are this worker's. Returns how many packets it processed or moved.
///
/// Cost: with groups to release, all packets that the rings hold and all that wait; with groups to
/// take, all that are parked and all that waited in their previous owners. No allocation.
#[cold]
pub(super) fn change_owners<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    state.handoff.owners().read();
    let mut pkts = 0;
    if let Some(since) = state.handoff.owners().leaving_since(ctx.now) {
        let is_sending =
            !state.queues.unresolved.stations().is_empty() || state.queues.tx.backlog.len() > 0;
        if !is_sending || ctx.now.since(since) >= RELEASE_MAX {
            pkts += take_over_all(ctx, io, rx, state);
            // The slow path may keep packets of the sessions for the end of the step.
            process_slow(ctx, io, rx, state);
            let WorkerState { queues, handoff, books, .. } = &mut *state;
            pkts += release(queues, handoff, &mut books.tally);
        }
    }
    if state.handoff.owners().has_arrived() {
        let WorkerState { queues, handoff, books, .. } = &mut *state;
        if take_waiting(ctx, queues, handoff, &mut books.tally) {
            pkts += take_parked(ctx, io, rx, state);
        }
    }
    pkts
}

/// Gives away the waiting packets of the groups to release, and owns them no longer. Returns how
/// many packets left.
fn release<B: PacketBuf>(
    queues: &mut WorkerQueues<B>,
    handoff: &mut Handoff<B>,
    tally: &mut StepTally,
) -> usize {
    let WorkerQueues { buffering, shaping, fragments, .. } = queues;
    let moved = handoff.owners().fill_parcels(|parcel, is_moving| {
        buffering.take_of(is_moving, &mut parcel.buffered);
        shaping.take_of(is_moving, &mut parcel.shaped);
        fragments.first_fragments.copy_of(is_moving, &mut parcel.fragments);
    });
    let Some(moved) = moved else { return 0 };
    tally.hand_off(moved);
    handoff.owners().end_release();
    moved
}

/// Takes the packets that waited in the previous owners of the groups that this worker owns now.
/// False if that has to wait for the next step.
fn take_waiting<B: PacketBuf>(
    ctx: &StepContext<'_>,
    queues: &mut WorkerQueues<B>,
    handoff: &mut Handoff<B>,
    tally: &mut StepTally,
) -> bool {
    let WorkerQueues { buffering, shaping, fragments, .. } = queues;
    handoff.owners().empty_parcels(|parcel| {
        tally.take_over_waiting(parcel.pkts());
        buffering.put(&mut parcel.buffered, tally);
        shaping.put(ctx, tally, &mut parcel.shaped);
        fragments.first_fragments.put(&mut parcel.fragments);
    })
}

/// Processes the packets that were parked, in order. Those of groups that are still not this
/// worker's are parked again.
fn take_parked<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let parked = state.handoff.parked();
    let mut left = parked;
    state.books.tally.set_taken_over(true);
    while left > 0 {
        let Some(port) = state.handoff.take_parked(left, rx) else { break };
        left -= rx.len();
        process(ctx, io, port, rx, state);
    }
    state.books.tally.set_taken_over(false);
    parked
}

/// Drops the parked packets, at the end of the worker.
pub(super) fn drop_parked<B: PacketBuf>(
    rx: &mut Burst<B>,
    handoff: &mut Handoff<B>,
    tally: &mut StepTally,
) {
    while handoff.take_parked(usize::MAX, rx).is_some() {
        for buf in rx.drain(..) {
            tally.receive(buf.data().len());
            tally.drop(DropReason::HandoffFull);
        }
    }
}
