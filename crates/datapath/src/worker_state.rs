//! What leaves a step: frames for the ports, packets that wait, work for the slow path, events.

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_tables::Leases;
use adit_types::Nanos;
use rtrb::{Consumer, Producer};

use crate::buffering::Buffering;
use crate::fragments::Fragments;
use crate::handoff::Handoff;
use crate::neighbor_queue::{NeighborQueue, REQUEST_INTERVAL};
use crate::shaping::Shaping;
use crate::slow::SlowQueue;
use crate::stage::egress::{Egress, StepContext};
pub(crate) use crate::stage::transmit::Origin;
use crate::stage::transmit::TxQueues;
use crate::tally::StepTally;

/// Events to the control thread; a full ring loses and counts them.
pub(crate) struct Events(Producer<WorkerEvent>);

impl Events {
    /// Events into `ring`.
    pub fn new(ring: Producer<WorkerEvent>) -> Self {
        Self(ring)
    }

    /// Sends one event; tells whether the ring took it.
    pub fn push(&mut self, tally: &mut StepTally, event: WorkerEvent) -> bool {
        let is_sent = self.0.push(event).is_ok();
        if !is_sent {
            tally.lose_event();
        }
        is_sent
    }

    /// Sends an event that a stranger can cause at will, while half of the ring is free: the rest is
    /// for those that others wait for.
    pub fn push_unsolicited(&mut self, tally: &mut StepTally, event: WorkerEvent) {
        if self.0.slots() > self.0.buffer().capacity() / 2 {
            self.push(tally, event);
        } else {
            tally.drop_event();
        }
    }
}

/// Everything that stages hand over, and what the control thread asked for.
pub(crate) struct WorkerState<B> {
    /// What the control thread asked for.
    pub commands: Consumer<WorkerCommand>,
    /// Frames for the ports.
    pub queues: TxQueues<B>,
    /// Frames that wait for a link-layer address.
    pub unresolved: NeighborQueue<B>,
    /// Packets that wait for other rules.
    pub buffering: Buffering<B>,
    /// Packets that wait for their rates.
    pub shaping: Shaping<B>,
    /// What was taken of shared rates.
    pub leases: Leases,
    /// Changes of rates that were looked at.
    pub rate_changes_seen: u64,
    /// The ways to and from other workers.
    pub handoff: Handoff<B>,
    /// Fragments.
    pub fragments: Fragments<B>,
    /// Packets for the slow path.
    pub slow: SlowQueue<B>,
    /// Events to the control thread.
    pub events: Events,
    /// The step's counts.
    pub tally: StepTally,
    /// The last burst that arrived had packets of both families.
    pub are_families_mixed: bool,
    /// When a station was last asked for because of a copy.
    neighbor_requested_at: Option<Nanos>,
}

impl<B: PacketBuf> WorkerState<B> {
    /// Nothing handed over yet. `ports` is one more than the highest port; `turned` are the packets that
    /// may turn round at once.
    pub fn new(
        (ports, turned): (usize, usize),
        events: Producer<WorkerEvent>,
        commands: Consumer<WorkerCommand>,
        buffering: Buffering<B>,
        shaping: Shaping<B>,
    ) -> Self {
        Self {
            commands,
            queues: TxQueues::new(ports, turned),
            unresolved: NeighborQueue::new(),
            buffering,
            shaping,
            leases: Leases::default(),
            rate_changes_seen: 0,
            handoff: Handoff::alone(),
            fragments: Fragments::new(),
            slow: SlowQueue::new(),
            events: Events::new(events),
            tally: StepTally::new(),
            are_families_mixed: false,
            neighbor_requested_at: None,
        }
    }

    /// True while there are commands: those that were given before rules that this worker has seen
    /// are among them, unless they were carried out.
    #[inline]
    pub fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Packets that wait, for whatever they wait.
    pub fn packets_waiting(&self) -> usize {
        self.unresolved.len()
            + self.buffering.len()
            + self.shaping.len()
            + self.fragments.reassembly.len()
            + self.queues.switched.len()
            + self.queues.backlog.len()
    }

    /// Asks for the station of `way`, one of all stations per [`REQUEST_INTERVAL`].
    #[cold]
    fn request_neighbor(&mut self, now: Nanos, way: &Egress<'_>) {
        if self.neighbor_requested_at.is_none_or(|at| now.since(at) >= REQUEST_INTERVAL) {
            self.neighbor_requested_at = Some(now);
            let (interface, addr) = (way.interface.id, way.station);
            self.events.push(&mut self.tally, WorkerEvent::NeighborUnresolved { interface, addr });
        }
    }

    /// Sends the frame in `buf` on `way`, or holds it until the station's address is known. Copies
    /// and what Adit made itself do not wait: whoever misses the latter asks again.
    #[inline]
    pub fn send<Io: PacketIo<Buf = B>>(
        &mut self,
        env: &StepContext<'_>,
        io: &mut Io,
        buf: B,
        way: &Egress<'_>,
        origin: Origin,
    ) {
        if way.mac.is_some() {
            let exit = (way.interface.port, way.interface.id);
            let len = buf.data().len();
            self.queues.push(io, &mut self.tally, exit, (buf, len), origin);
            return;
        }
        match origin {
            Origin::Received(_) | Origin::Guaranteed(_) => {
                let Self { unresolved: pending, events, tally, .. } = self;
                pending.hold(env.now, buf, way, origin, events, tally);
            }
            Origin::Copy => {
                self.tally.lose_duplicate();
                self.request_neighbor(env.now, way);
            }
            Origin::Own => self.tally.lose_originated(),
        }
    }
}
