//! A worker's part in a change of owners, see [`crate::owner_map`].

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

/// Reads the owners again, between bursts: releases groups of sessions that other workers own from
/// now on, and takes those that this worker owns from now on. Returns how many packets it processed
/// or moved.
///
/// Cost: to release groups, all packets that are in the rings or wait; to take groups, all packets
/// that are parked or waited in the previous owners. No allocation.
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
            // Runs now, because queued packets for the slow path may be of the sessions to release.
            process_slow(ctx, io, rx, state);
            let WorkerState { queues, handoff, books, .. } = &mut *state;
            pkts += release(queues, handoff, &mut books.tally);
        }
    }
    if state.handoff.owners().has_groups_to_take() {
        let WorkerState { queues, handoff, books, .. } = &mut *state;
        if take_waiting(ctx, queues, handoff, &mut books.tally) {
            pkts += take_parked(ctx, io, rx, state);
        }
    }
    pkts
}

/// Puts the waiting packets of the groups to release into parcels, and ends the ownership of these
/// groups. Returns how many packets left.
fn release<B: PacketBuf>(
    queues: &mut WorkerQueues<B>,
    handoff: &mut Handoff<B>,
    tally: &mut StepTally,
) -> usize {
    let WorkerQueues { buffering, shaping, fragments, .. } = queues;
    let moved = handoff.owners().fill_parcels(|parcel, is_moving| {
        buffering.take_moving(is_moving, &mut parcel.buffered);
        shaping.take_moving(is_moving, &mut parcel.shaped);
        fragments.first_fragments.copy_moving(is_moving, &mut parcel.fragments);
    });
    let Some(moved) = moved else { return 0 };
    tally.hand_off(moved);
    handoff.owners().end_release();
    moved
}

/// Takes the packets that waited in the previous owners of the groups that this worker owns now.
/// False if the parcels are locked: the caller tries again in the next step.
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

/// Processes the packets that were parked, in order. Packets of groups that this worker still does
/// not own are parked again.
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

/// Drops the parked packets when the worker ends.
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
