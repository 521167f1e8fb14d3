//! Everything that a worker keeps between packets, bursts and steps.

use adit_pktio::PacketBuf;
use adit_rules::{TapId, TapRequest, WorkerCommand, WorkerEvent};
use adit_tables::Leases;
use adit_types::Nanos;
use rtrb::{Consumer, Producer};

use crate::buffering::Buffering;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::Egress;
use crate::events::Events;
use crate::fragments::Fragments;
use crate::handoff::Handoff;
use crate::held_end_markers::HeldEndMarkers;
use crate::kept_hops::KeptHops;
use crate::neighbor_queue::{NeighborQueue, REQUEST_INTERVAL, is_waited_for};
use crate::origin::Origin;
use crate::shaping::Shaping;
use crate::slow_queue::SlowQueue;
use crate::tally::StepTally;
use crate::tap::Tap;
use crate::tx_queues::{TxFrame, TxQueues};

/// Room that a worker reserves at start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerCapacity {
    /// One more than the highest port.
    pub ports: usize,
    /// Sessions.
    pub sessions: usize,
    /// Packets that FARs buffer.
    pub buffered_pkts: usize,
    /// Packets that wait for their rates.
    pub shaped_pkts: usize,
    /// Packets that are switched to other UEs at a time.
    pub switched_pkts: usize,
}

/// The state of one worker: queues, rings, and the counts of the present step.
pub(crate) struct WorkerState<B> {
    /// Commands of the control thread.
    pub commands: Consumer<WorkerCommand>,
    /// Frames for the ports.
    pub queues: TxQueues<B>,
    /// Frames that wait for a link-layer address.
    pub unresolved: NeighborQueue<B>,
    /// Packets that FARs buffer.
    pub buffering: Buffering<B>,
    /// Packets that wait for their rates.
    pub shaping: Shaping<B>,
    /// Rings to and from other workers.
    pub handoff: Handoff<B>,
    /// Received End Markers that wait for packets on their way from other workers.
    pub held_end_markers: HeldEndMarkers<B>,
    /// Fragments.
    pub fragments: Fragments<B>,
    /// Packets for the slow path.
    pub slow: SlowQueue<B>,
    /// Events to the control thread.
    pub events: Events,
    /// The counts of the step.
    pub tally: StepTally,
    /// How bursts are taken in the present step.
    pub path: BurstPath,
    /// The same of a step without commands that wait: [`BurstPath::Usual`], or
    /// [`BurstPath::Tapped`].
    pub path_without_commands: BurstPath,
    /// The last burst seemed to hold both address families: a hint which recognition loop to use
    /// next.
    pub are_families_mixed: bool,
    /// The last hops of the fast path.
    pub kept_hops: KeptHops,
    /// When a duplicated packet last requested the address of a neighbor.
    neighbor_requested_at: Option<Nanos>,
    /// The taps, of a worker that has some.
    pub tap: Option<Box<Tap>>,
}

/// How a burst is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BurstPath {
    /// The fast path; the packets that it leaves take the stages.
    Usual,
    /// The same, but packets that taps select take the stages alone.
    Tapped,
    /// Every packet takes the stages, also with taps. A command was pending when the step began to
    /// receive, and only the stages can place, for example, an End Marker between two packets. A
    /// command that arrives later does not matter: the fast rules that follow it become readable
    /// after this worker began a later step.
    Stages,
}

impl<B: PacketBuf> WorkerState<B> {
    /// No packets. Reserves all memory that will be used.
    pub(crate) fn new(
        capacity: WorkerCapacity,
        leases: Leases,
        events: Producer<WorkerEvent>,
        commands: Consumer<WorkerCommand>,
    ) -> Self {
        Self {
            commands,
            queues: TxQueues::new(capacity.ports, capacity.switched_pkts),
            unresolved: NeighborQueue::new(),
            buffering: Buffering::new(capacity.buffered_pkts, capacity.sessions),
            shaping: Shaping::new(capacity.shaped_pkts, capacity.sessions, leases),
            handoff: Handoff::alone(),
            held_end_markers: HeldEndMarkers::new(),
            fragments: Fragments::new(),
            slow: SlowQueue::new(),
            events: Events::new(events),
            tally: StepTally::new(),
            path: BurstPath::Usual,
            path_without_commands: BurstPath::Usual,
            are_families_mixed: false,
            kept_hops: KeptHops::NONE,
            neighbor_requested_at: None,
            tap: None,
        }
    }

    /// Starts a tap. A worker without a ring for records has none.
    pub(crate) fn start_tap(&mut self, now: Nanos, id: TapId, request: TapRequest) {
        if let Some(tap) = &mut self.tap {
            tap.start(now, id, request);
            self.path_without_commands = BurstPath::Tapped;
            self.tally.note_late_drops(true);
        }
    }

    /// Stops a tap.
    pub(crate) fn stop_tap(&mut self, id: TapId) {
        if let Some(tap) = &mut self.tap {
            tap.stop(id);
            if !tap.is_active() {
                self.path_without_commands = BurstPath::Usual;
                self.tally.note_late_drops(false);
            }
        }
    }

    /// True if a frame to the neighbor of `egress` leaves at once: its address is known, and no
    /// others wait for it.
    #[inline]
    pub(crate) fn is_resolved(&self, egress: &Egress<'_>) -> bool {
        let stations = self.unresolved.stations();
        egress.mac.is_some() && !is_waited_for(stations, egress.interface.id, egress.station)
    }

    /// True while commands are pending. Every command issued before the rules that this worker sees
    /// has either run or is pending.
    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// True if a step has nothing to do before it receives: no packet waits, no command is pending,
    /// and no rate changed. `waiting`: packets that wait.
    #[inline]
    pub(crate) fn is_quiet(&self, ctx: &StepContext<'_>, waiting: usize) -> bool {
        waiting == 0
            && self.unresolved.end_markers() == 0
            && !self.has_commands()
            && !self.shaping.has_changes(ctx)
    }

    /// Frames that wait across steps: packets, and End Markers of our own, which the packet
    /// identity leaves out.
    #[inline]
    pub(crate) fn frames_waiting(&self) -> usize {
        self.packets_waiting() + self.unresolved.end_markers()
    }

    /// Packets that wait across steps. Counts all packets only at the beginning and the end of a
    /// step, when the other queues are empty.
    #[inline]
    pub(crate) fn packets_waiting(&self) -> usize {
        self.unresolved.len()
            + self.buffering.len()
            + self.shaping.len()
            + self.fragments.reassembly.len()
            + self.queues.switched.len()
            + self.queues.backlog.len()
    }

    /// Requests the link-layer address of the neighbor of `egress`; at most one request per
    /// [`REQUEST_INTERVAL`], whatever the neighbor.
    #[cold]
    fn request_neighbor(&mut self, now: Nanos, egress: &Egress<'_>) {
        if self.neighbor_requested_at.is_none_or(|at| now.since(at) >= REQUEST_INTERVAL) {
            self.neighbor_requested_at = Some(now);
            self.events.push(&mut self.tally, egress.neighbor_unresolved());
        }
    }

    /// Sends the frame in `buf` through `egress`. If the neighbor's address is unknown, queues a
    /// received packet or an End Marker, counts a copy as lost and requests the address, or counts
    /// another frame of Adit's own as lost. A received packet or an End Marker also waits behind
    /// others that wait for the neighbor.
    #[inline]
    pub(crate) fn send<Io: Departures<Buf = B>>(
        &mut self,
        ctx: &StepContext<'_>,
        io: &mut Io,
        buf: B,
        egress: &Egress<'_>,
        origin: Origin,
    ) {
        let is_behind_others = || {
            let waits =
                matches!(origin, Origin::Received(_) | Origin::Guaranteed(_) | Origin::EndMarker);
            let stations = self.unresolved.stations();
            waits && is_waited_for(stations, egress.interface.id, egress.station)
        };
        if egress.mac.is_some() && !is_behind_others() {
            let bytes = buf.data().len();
            let frame = TxFrame { buf, bytes, origin };
            self.queues.push(io, &mut self.tally, egress.target(), frame);
            return;
        }
        match origin {
            Origin::Received(_) | Origin::Guaranteed(_) | Origin::EndMarker => {
                let Self { unresolved, events, tally, .. } = self;
                unresolved.hold(ctx.now, buf, egress, origin, events, tally);
            }
            Origin::Copy => {
                self.tally.lose_duplicate();
                self.request_neighbor(ctx.now, egress);
            }
            Origin::Own | Origin::HandedOn | Origin::Counted => {
                origin.count_lost(buf.data(), &mut self.tally);
            }
        }
    }

    /// Sends a frame of our own through an interface.
    pub(crate) fn originate<Io: Departures<Buf = B>>(
        &mut self,
        io: &mut Io,
        interface: &adit_tables::Interface,
        buf: B,
    ) {
        let target = crate::interfaces::TxTarget::of(interface);
        let bytes = buf.data().len();
        let frame = TxFrame { buf, bytes, origin: Origin::Own };
        self.queues.push(io, &mut self.tally, target, frame);
    }
}
