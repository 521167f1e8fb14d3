//! The state that a worker keeps between packets, bursts and steps.

use adit_pktio::PacketBuf;
use adit_rules::{TapId, TapRequest, WorkerCommand, WorkerEvent};
use adit_tables::Leases;
use adit_types::Nanos;
use rtrb::{Consumer, Producer};

use crate::books::Books;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::handoff::Handoff;
use crate::kept_hops::KeptHops;
use crate::limits::MessageLimits;
use crate::shaping::Shaping;
use crate::transmitter::Transmitter;
use crate::tx_queues::FrameSender;
use crate::worker_queues::{WorkerCapacity, WorkerQueues};

/// The state of one worker. Functions take only the parts that they need.
pub(crate) struct WorkerState<B> {
    /// Commands of the control thread.
    pub commands: Consumer<WorkerCommand>,
    /// Packets and frames that wait.
    pub queues: WorkerQueues<B>,
    /// Rings to and from other workers.
    pub handoff: Handoff<B>,
    /// Counts, events and taps.
    pub books: Books,
    /// Limits of messages that received packets cause.
    pub limits: MessageLimits,
    /// How bursts are processed in the present step.
    pub path: BurstPath,
    /// How bursts are processed in a step without pending commands: [`BurstPath::Usual`] or
    /// [`BurstPath::Tapped`].
    pub path_without_commands: BurstPath,
    /// True if the last burst seemed to have both IP versions: a hint which recognition loop to use
    /// next.
    pub are_families_mixed: bool,
    /// The next hops that the fast path used last.
    pub kept_hops: KeptHops,
}

/// How a burst is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BurstPath {
    /// The fast path; the packets that it leaves take the stages.
    Usual,
    /// Like [`Self::Usual`], but packets that taps select take the stages alone.
    Tapped,
    /// Every packet takes the stages, also if taps are active. Used if a command is pending when
    /// the step begins to receive: only the stages can place, for example, an End Marker between
    /// two packets. A command that arrives later need not change the path: this worker sees the
    /// fast rules that follow the command only in a later step.
    Stages,
}

impl<B: PacketBuf> WorkerState<B> {
    /// Allocates all memory that will be used.
    pub(crate) fn new(
        capacity: WorkerCapacity,
        leases: Leases,
        events: Producer<WorkerEvent>,
        commands: Consumer<WorkerCommand>,
    ) -> Self {
        Self {
            commands,
            queues: WorkerQueues::new(capacity, leases),
            handoff: Handoff::for_only_worker(),
            books: Books::new(events),
            limits: MessageLimits::new(),
            path: BurstPath::Usual,
            path_without_commands: BurstPath::Usual,
            are_families_mixed: false,
            kept_hops: KeptHops::NONE,
        }
    }

    /// Returns the parts that send and count a frame.
    #[inline]
    pub(crate) fn transmitter<'w, Io: Departures<Buf = B>>(
        &'w mut self,
        io: &'w mut Io,
    ) -> Transmitter<'w, Io> {
        let Self { queues, books, limits, .. } = self;
        Transmitter { io, queues, limits, books }
    }

    /// Returns the packets that wait for rates, and the parts that send them.
    #[inline]
    pub(crate) fn shaping_and_sender<'w, Io: Departures<Buf = B>>(
        &'w mut self,
        io: &'w mut Io,
    ) -> (&'w mut Shaping<B>, FrameSender<'w, Io>) {
        let WorkerQueues { shaping, tx, .. } = &mut self.queues;
        (shaping, FrameSender { io, tx, tally: &mut self.books.tally })
    }

    /// Starts a tap, if the worker has a ring for records.
    pub(crate) fn start_tap(&mut self, now: Nanos, id: TapId, request: TapRequest) {
        if let Some(tap) = &mut self.books.tap {
            tap.start(now, id, request);
            self.path_without_commands = BurstPath::Tapped;
            self.books.tally.note_late_drops(true);
        }
    }

    pub(crate) fn stop_tap(&mut self, id: TapId) {
        if let Some(tap) = &mut self.books.tap {
            tap.stop(id);
            if !tap.is_active() {
                self.path_without_commands = BurstPath::Usual;
                self.books.tally.note_late_drops(false);
            }
        }
    }

    /// True while commands are pending. Every command issued before the rules that this worker sees
    /// has either run or is pending.
    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// True if a step has nothing to do before it receives: no packet waits, no command is pending,
    /// and no rate changed. `waiting`: how many packets wait.
    #[inline]
    pub(crate) fn is_quiet(&self, ctx: &StepContext<'_>, waiting: usize) -> bool {
        waiting == 0
            && self.queues.unresolved.end_markers() == 0
            && !self.has_commands()
            && !self.queues.has_kernel_frames()
            && !self.queues.shaping.has_changes(ctx)
    }
}
