//! Received End Markers that wait at the owner of their session for a sweep ([`crate::sweeps`]).

use std::collections::VecDeque;

use adit_pktio::PacketBuf;
use adit_rules::DropReason;
use adit_types::limits::SLOW_PER_STEP_MAX;
use adit_types::{Nanos, PortId, Teid};

use crate::sweeps::Sweeps;
use crate::tally::StepTally;

/// Maximum of End Markers that wait. Others are dropped as `HandoffFull`.
const HELD_MAX: usize = 4 * SLOW_PER_STEP_MAX;

/// How long an End Marker waits for a worker that makes no steps.
const HELD_TIME_MAX: Nanos = Nanos::from_millis(20);

/// A received End Marker.
pub(crate) struct ReceivedEndMarker<B> {
    pub buf: B,
    /// The port that it arrived on.
    pub port: PortId,
    /// The tunnel that it arrived in.
    pub teid: Teid,
    /// The sender's index among GTP-U peers; `None` if it is no known peer.
    pub peer: Option<u32>,
}

struct HeldEndMarker<B> {
    received: ReceivedEndMarker<B>,
    sweep: u32,
    since: Nanos,
}

/// Received End Markers that wait, in the order of their arrival. They count as handed off until
/// they are taken.
pub(crate) struct HeldEndMarkers<B> {
    held: VecDeque<HeldEndMarker<B>>,
}

impl<B: PacketBuf> HeldEndMarkers<B> {
    /// Allocates all memory that will be used.
    pub(crate) fn new() -> Self {
        Self { held: VecDeque::with_capacity(HELD_MAX) }
    }

    /// True if no End Marker waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Keeps an End Marker until all other workers have made `sweep`, at most [`HELD_TIME_MAX`].
    #[cold]
    pub(crate) fn hold(
        &mut self,
        now: Nanos,
        sweep: u32,
        received: ReceivedEndMarker<B>,
        tally: &mut StepTally,
    ) {
        if self.held.len() < HELD_MAX {
            self.held.push_back(HeldEndMarker { received, sweep, since: now });
            tally.hand_off(1);
        } else {
            tally.drop_waiting(DropReason::HandoffFull, received.buf.data());
        }
    }

    /// Returns how many End Markers at the front may leave: their sweeps are made, or time is up.
    #[cold]
    pub(crate) fn ready(&self, now: Nanos, sweeps: &Sweeps) -> usize {
        let is_ready = |held: &&HeldEndMarker<B>| {
            sweeps.have_others_made(held.sweep) || now.since(held.since) >= HELD_TIME_MAX
        };
        self.held.iter().take_while(is_ready).count()
    }

    /// Removes and returns the oldest End Marker.
    #[cold]
    pub(crate) fn take(&mut self, tally: &mut StepTally) -> Option<ReceivedEndMarker<B>> {
        let HeldEndMarker { received, .. } = self.held.pop_front()?;
        tally.take_over_waiting(1);
        Some(received)
    }

    /// Drops all End Markers when the worker ends.
    pub(crate) fn drain(&mut self, tally: &mut StepTally) {
        while let Some(received) = self.take(tally) {
            tally.drop_waiting(DropReason::HandoffFull, received.buf.data());
        }
    }
}
