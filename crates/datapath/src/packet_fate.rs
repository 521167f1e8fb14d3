//! Determines the outcome of a packet that a worker processed alone, for taps.

use adit_pktio::PacketBuf;
use adit_rules::{TapOutcome, TapPacket, TapSet, TapStage, TapWait};
use adit_types::Nanos;

use crate::books::Books;
use crate::departures::Departures;
use crate::slow_queue::SlowWork;
use crate::tally::{StepTally, TalliedOutcomes};
use crate::tap::TapRecord;
use crate::worker_queues::WorkerQueues;
use crate::worker_state::WorkerState;

/// The counts and queue lengths of a worker before one packet takes the stages. Their changes show
/// the packet's outcome.
pub(crate) struct OutcomeBaseline {
    tallied: TalliedOutcomes,
    unresolved: usize,
    buffered: usize,
    shaped: usize,
    partial: usize,
    blocked: usize,
    slow: usize,
}

impl OutcomeBaseline {
    /// Reads the present counts and lengths.
    pub(crate) fn of<B: PacketBuf>(queues: &WorkerQueues<B>, tally: &StepTally) -> Self {
        Self {
            tallied: tally.outcomes(),
            unresolved: queues.unresolved.len(),
            buffered: queues.buffering.len(),
            shaped: queues.shaping.len(),
            partial: queues.fragments.reassembly.len(),
            blocked: queues.tx.backlog.len(),
            slow: queues.slow.packets.len(),
        }
    }

    /// Returns the outcome of the only packet since then. `None` if the slow path decides.
    pub(crate) fn outcome<B: PacketBuf>(
        &self,
        queues: &WorkerQueues<B>,
        tally: &StepTally,
    ) -> Option<TapOutcome> {
        let now = Self::of(queues, tally);
        if let Some(reason) = now.tallied.drop_since(&self.tallied) {
            return Some(TapOutcome::Dropped(reason));
        }
        if let Some(reason) = now.tallied.punt_since(&self.tallied) {
            return Some(TapOutcome::Consumed(reason));
        }
        if now.slow > self.slow {
            let last = queues.slow.packets.last();
            let is_redirected =
                last.is_some_and(|last| matches!(last.work, SlowWork::RedirectedSegment(_)));
            return is_redirected.then_some(TapOutcome::SlowPath);
        }
        Some(match () {
            () if now.buffered > self.buffered => TapOutcome::Buffered,
            () if now.shaped > self.shaped => TapOutcome::Queued,
            () if now.unresolved > self.unresolved => TapOutcome::WaitsForNeighbor,
            () if now.blocked > self.blocked => TapOutcome::WaitsForPort,
            () if now.partial > self.partial => TapOutcome::WaitsForFragments,
            () if now.tallied.locally_switched > self.tallied.locally_switched => {
                TapOutcome::Switched
            }
            () if now.tallied.handed_off > self.tallied.handed_off => TapOutcome::HandedOff,
            () => TapOutcome::Transmitted,
        })
    }
}

/// Sends the frames that one packet resulted in, and notes them in `record`.
pub(crate) fn transmit_alone<Io: Departures>(
    io: &mut Io,
    record: &mut TapRecord,
    state: &mut WorkerState<Io::Buf>,
) {
    record.restart_stage();
    state.queues.tx.each_queued(|target, frame| record.note_sent(target, frame));
    record.restart_stage();
    state.queues.tx.flush(io, &mut state.books.tally);
    state.handoff.flush(&mut state.books.tally);
    record.end_stage(TapStage::Transmit);
}

/// The record of a packet that is processed alone, but not by all stages.
pub(crate) struct LonePacketRecord {
    record: Box<TapRecord>,
    before: OutcomeBaseline,
    /// The former setting of `note_late_drops`, which is off while the record is made.
    were_noted: bool,
}

impl LonePacketRecord {
    /// Begins the record of a packet. `None` if no tap is active or another record is open.
    pub(crate) fn begin<Io: Departures>(
        io: &mut Io,
        packet: TapPacket,
        frame: &[u8],
        queues: &mut WorkerQueues<Io::Buf>,
        books: &mut Books,
    ) -> Option<Self> {
        let Books { tally, tap, .. } = books;
        let record = tap.as_mut()?.begin(packet, frame)?;
        // Sends queued frames first: they belong to earlier packets.
        queues.tx.flush(io, tally);
        let were_noted = tally.note_late_drops(false);
        tally.set_taps_of_current_packet(packet.taps);
        Some(Self { record, before: OutcomeBaseline::of(queues, tally), were_noted })
    }

    /// Notes that the packet waited for `time` until now.
    pub(crate) fn note_wait(&mut self, wait: TapWait, time: Nanos) {
        self.record.note_wait(wait, time, false);
    }

    /// Completes the record after `stage`.
    pub(crate) fn end<Io: Departures>(
        self,
        io: &mut Io,
        stage: TapStage,
        state: &mut WorkerState<Io::Buf>,
    ) {
        let Self { mut record, before, were_noted } = self;
        record.end_stage(stage);
        transmit_alone(io, &mut record, state);
        state.books.tally.note_late_drops(were_noted);
        state.books.tally.set_taps_of_current_packet(TapSet::NONE);
        let WorkerState { queues, books, .. } = state;
        let outcome = before.outcome(queues, &books.tally).unwrap_or(TapOutcome::SlowPath);
        if let Some(tap) = &mut books.tap {
            tap.commit(record, outcome);
        }
    }
}
