//! Event-driven: a scheduler gives each worker the packets of flows that no other worker has.
//!
//! An Rx/Tx thread polls the ports, finds the flow of each packet ([`SharedFlows`]) and enqueues an event for
//! the workers' queue; it transmits the packets of the transmit queue. A worker dequeues a burst of events, takes the
//! packets through the whole path as in run to completion, and enqueues the frames that leave. Frames are enqueued
//! after the last packet of the burst, because the scheduler may give a flow to another worker as soon as an event
//! follows from it.
//!
//! A worker dequeues before it looks at the tables. So a later packet of a flow never sees older rules than an earlier
//! one, whichever workers process them.

use core::ops::Range;
use std::collections::VecDeque;

use adit_pktio::{
    Burst, Event, EventBurst, EventPort, EventTag, PacketBuf, PacketIo, PortInfo, ScheduleType,
};
use adit_rules::DropReason;
use adit_types::limits::{BURST_MAX, HANDOFF_RING_LEN};
use adit_types::{Nanos, PortId};
use arrayvec::ArrayVec;

use super::event_stages::{classify_burst, enforce_burst, write_burst};
use super::run_to_completion::{StepReport, process_switched, publish_counts, release_waiting};
use crate::carried::{Mark, flow_of_mark};
use crate::context::StepContext;
use crate::flows::{FlowHolder, Flows, SharedFlows};
use crate::model::worker::Worker;
use crate::slow::{self, SlowLimits};
use crate::stage_queues::{CLASSIFY, ENFORCE, EventStages, STAGES, StageQueue, TX_QUEUE};
use crate::worker_state::WorkerState;

/// Events that a worker may have for the scheduler after a step: four bursts of packets that waited, a burst for each
/// of a few ports, and packets for other flows.
const OUTBOX_LEN: usize = 4096;

/// A worker looks for flows to give up at most once in this time: each takes an event, and events in great number would
/// be refused.
const REVIEW_INTERVAL: Nanos = Nanos::from_micros(200);

/// Packets that a worker defers at most; further ones are dropped.
const DEFERRED_MAX: usize = 4096;

/// Notes of events without a packet: a request for the flow, and a fence of its holder.
const REQUEST: u8 = 0;
const FENCE: u8 = 1;

/// Events on their way from a worker to the scheduler.
struct Outbox<B> {
    events: VecDeque<Event<B>>,
}

impl<B: PacketBuf> Outbox<B> {
    fn new() -> Self {
        Self { events: VecDeque::with_capacity(OUTBOX_LEN) }
    }

    fn room(&self) -> usize {
        OUTBOX_LEN.saturating_sub(self.events.len())
    }

    /// Sends a fence of a flow to the queue of its packets. Returns false without room.
    fn fence(&mut self, queue: StageQueue, flow: u32) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            let tag = queue.tag(flow, FENCE);
            self.events.push_back(Event { tag, buf: None });
        }
        has_room
    }

    /// Enqueues all events, or as many as the scheduler takes. Returns whether it took all.
    fn send<P: EventPort<Buf = B>>(&mut self, port: &mut P) -> bool {
        let mut burst = EventBurst::new();
        while !self.events.is_empty() {
            let count = self.events.len().min(BURST_MAX);
            burst.extend(self.events.drain(..count));
            port.enqueue(&mut burst);
            if !burst.is_empty() {
                for event in burst.drain(..).rev() {
                    self.events.push_front(event);
                }
                return false;
            }
        }
        true
    }
}

/// The ports of a worker: what it transmits goes to the transmit queue.
struct EventIo<'e, Io: PacketIo> {
    ports: &'e mut Io,
    outbox: &'e mut Outbox<Io::Buf>,
    /// The queue of the stage that packets of sessions go to next; without one they leave.
    next: Option<StageQueue>,
    /// With several workers.
    flows: Option<&'e SharedFlows>,
}

impl<Io: PacketIo> EventIo<'_, Io> {
    /// Sends a packet of `flow` to the queue of a later stage.
    #[inline]
    fn send_on(&mut self, queue: StageQueue, flow: u32, port: PortId, buf: Io::Buf) {
        if Mark::of(&buf) != Mark::None {
            count_sent(self.flows, queue, flow);
        }
        let tag = queue.tag(flow, note_of(port));
        self.outbox.events.push_back(Event { tag, buf: Some(buf) });
    }
}

/// Counts a packet of `flow` that goes to `queue`.
#[inline]
fn count_sent(flows: Option<&SharedFlows>, queue: StageQueue, flow: u32) {
    if let Some(flows) = flows {
        flows.count_sent(flows.place(queue.position().saturating_sub(1), flow));
    }
}

impl<Io: PacketIo> PacketIo for EventIo<'_, Io> {
    type Buf = Io::Buf;

    /// Nothing arrives here.
    fn rx_burst(&mut self, _: PortId, _: usize, _: &mut Burst<Io::Buf>) -> usize {
        0
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Io::Buf>) -> usize {
        let count = burst.len().min(self.outbox.room());
        let tx = EventTag::new(TX_QUEUE, ScheduleType::Atomic, port.0.into(), note_of(port));
        let (next, flows) = (self.next, self.flows);
        let event = |buf: Io::Buf| {
            let tag = match next.filter(|_| Mark::of(&buf) != Mark::None) {
                Some(queue) => {
                    let flow = flow_of_mark(&buf);
                    count_sent(flows, queue, flow);
                    queue.tag(flow, note_of(port))
                }
                None => tx,
            };
            Event { tag, buf: Some(buf) }
        };
        self.outbox.events.extend(burst.drain(..count).map(event));
        count
    }

    fn alloc(&mut self) -> Option<Io::Buf> {
        let mut buf = self.ports.alloc()?;
        Mark::None.set(&mut buf, 0);
        Some(buf)
    }

    fn free_burst(&mut self, burst: &mut Burst<Io::Buf>) {
        self.ports.free_burst(burst);
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        self.ports.port_info(port)
    }
}

/// A port in the tag of an event: `limits::PORTS_MAX` fits.
pub(super) fn note_of(port: PortId) -> u8 {
    port.0.to_le_bytes()[0]
}

const _: () = assert!(adit_types::limits::PORTS_MAX <= 256);

/// A worker that an event scheduler gives packets to.
///
/// The packet identity is that of [`Worker`]: every event with a packet is taken over.
///
/// Threads: as [`Worker`]; it shares the words of [`SharedFlows`] with the other workers.
pub struct EventWorker<P: EventPort, Io: PacketIo<Buf = P::Buf>> {
    worker: Worker<Io>,
    port: P,
    flows: SharedFlows,
    inbox: EventInbox<P::Buf>,
    outbox: Outbox<P::Buf>,
    /// Places that keep packets; used while places are given up.
    kept: Vec<bool>,
    reviewed_at: Nanos,
}

/// Packets on their way from the scheduler to the stages.
struct EventInbox<B> {
    events: EventBurst<B>,
    /// The packets of a step, by queue and by the port that received them or that they leave through.
    arrived: Vec<Burst<B>>,
    /// Packets that wait until the next queue gave out earlier ones of their flows, with their places.
    deferred: VecDeque<(u32, PortId, B)>,
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> core::fmt::Debug for EventWorker<P, Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EventWorker").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> EventWorker<P, Io> {
    /// `worker` with a port of the scheduler that is linked to the queues of the stages of `flows`. Several workers need
    /// [`Handoff::with_flows`](crate::Handoff::with_flows) with the same `flows`.
    #[must_use]
    pub fn new(mut worker: Worker<Io>, port: P, flows: SharedFlows) -> Self {
        let parts = worker.parts();
        let ports = parts.interfaces.port_count();
        let stages = flows.stages();
        parts.state.stage_flows = (!stages.are_merged()).then(|| flows.map());
        let places = parts.state.handoff.flows().map_or(0, |flows| flows.count());
        let bursts = ports * stages.queues().count();
        let inbox = EventInbox {
            events: EventBurst::new(),
            arrived: (0..bursts).map(|_| Burst::new()).collect(),
            deferred: VecDeque::with_capacity(DEFERRED_MAX),
        };
        Self {
            worker,
            port,
            flows,
            inbox,
            outbox: Outbox::new(),
            kept: vec![false; places],
            reviewed_at: Nanos(0),
        }
    }

    /// The port of the scheduler.
    pub const fn port(&self) -> &P {
        &self.port
    }

    /// Runs one step of the packet path at time `now`.
    ///
    /// Cost:    as [`Worker::step`], with one call to dequeue and at least one to enqueue; per packet one load of the
    ///          word of its flow, if there are several workers.
    /// Errors:  none; frames that find no room for the scheduler are dropped as [`DropReason::TxQueueFull`], packets
    ///          for other flows as [`DropReason::HandoffFull`].
    /// Threads: as [`Worker::step`].
    #[inline(never)]
    pub fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        let Self { worker, port, flows, inbox, outbox, .. } = self;
        let parts = worker.parts();
        // A worker that waits to send still takes events, as long as it has room for what follows from them: else all
        // workers could wait for each other.
        let takes_events = outbox.send(port) || outbox.room() >= OUTBOX_LEN / 2;
        // Before the tables are read.
        if takes_events && port.dequeue(parts.config.burst, &mut inbox.events) == 0 {
            port.flush();
        }
        let recovery_time_stamp = parts.config.recovery_time_stamp;
        let (view, interfaces) = (parts.reader.observe(), parts.interfaces);
        let ctx = StepContext { view, interfaces, now, recovery_time_stamp };
        let (limits, rx, state) = (parts.limits, parts.rx, parts.state);
        let among_others = (!state.handoff.is_alone()).then_some(&*flows);
        let mut io = EventIo { ports: io, outbox, next: None, flows: among_others };
        let report = step(&ctx, &mut io, flows.stages(), inbox, limits, rx, state);
        let outbox_is_empty = outbox.send(port);
        // A driver that keeps events to form bursts may give their flows to another worker meanwhile.
        port.flush();
        let is_idle = report.idle && outbox_is_empty && inbox.deferred.is_empty();
        self.review_flows(now);
        StepReport { idle: is_idle, ..report }
    }

    /// Holds the places of this step while packets wait, and gives up others.
    fn review_flows(&mut self, now: Nanos) {
        let Self { worker, port, flows: shared, outbox, kept, reviewed_at, .. } = self;
        let stages = shared.stages();
        let state = worker.parts().state;
        let waiting = state.packets_waiting();
        let Some(flows) = state.handoff.flows() else { return };
        // Frames that wait for the scheduler count, too: those of the next worker must not overtake them. It waits for
        // packets to later stages itself.
        let has_frames = !outbox.events.is_empty();
        if waiting > 0 || has_frames {
            let enforcing = stages.queue_of(ENFORCE).position();
            let last = stages.queues().count() - 1;
            flows.hold_scheduled(|place| {
                let (position, _) = shared.of_place(place);
                waiting > 0 && position == enforcing || has_frames && position == last
            });
        }
        flows.end_step();
        let is_due = now.since(*reviewed_at) >= REVIEW_INTERVAL;
        let is_only_buffered = waiting == state.buffering.len() && outbox.events.is_empty();
        let Some(flows) = state.handoff.flows() else { return };
        if !flows.holds_any() || !is_due || !is_only_buffered {
            return;
        }
        *reviewed_at = now;
        // Frames of a flow leave before those that the next worker sends.
        port.flush();
        let sessions =
            || (0..state.buffering.sessions()).filter_map(|at| state.buffering.session_at(at));
        for waiting in sessions() {
            if let Some(kept) = kept.get_mut(flows.place_of(waiting.session) as usize) {
                *kept = true;
            }
        }
        let keeps = |place| kept.get(place as usize).is_some_and(|kept: &bool| *kept);
        flows.give_up(keeps, |place| {
            let (position, flow) = shared.of_place(place);
            outbox.fence(stages.queue_at(position), flow)
        });
        for waiting in sessions() {
            if let Some(kept) = kept.get_mut(flows.place_of(waiting.session) as usize) {
                *kept = false;
            }
        }
    }

    /// See [`Worker::rest`].
    pub fn rest(&mut self) {
        self.worker.rest();
    }

    /// See [`Worker::take_fullest_ring`].
    pub fn take_fullest_ring(&mut self) -> u16 {
        self.worker.take_fullest_ring()
    }

    /// Ends the worker like [`Worker::drain`]; frames that the scheduler did not take yet are dropped, too.
    pub fn drain(&mut self, io: &mut Io) {
        let state = self.worker.parts().state;
        state.tally.set_taken_over(true);
        let EventInbox { events, deferred, .. } = &mut self.inbox;
        let mut drop_packet = |buf: P::Buf| {
            state.tally.receive(buf.data().len());
            state.tally.drop(DropReason::HandoffFull);
        };
        deferred.drain(..).for_each(|(_, _, buf)| drop_packet(buf));
        while self.port.dequeue(BURST_MAX, events) > 0 {
            events.drain(..).filter_map(|event| event.buf).for_each(&mut drop_packet);
        }
        state.tally.set_taken_over(false);
        self.outbox.events.clear();
        self.worker.drain(io);
    }
}

/// Runs one step with the events of one dequeue. Later stages go first: their packets are older.
fn step<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    stages: &EventStages,
    inbox: &mut EventInbox<Io::Buf>,
    limits: &mut SlowLimits,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> StepReport {
    let waited = state.packets_waiting();
    state.must_take_stages = false;
    let any_events = !inbox.events.is_empty();
    let ports = ctx.interfaces.port_count();
    let can_resume =
        state.handoff.flows().is_some_and(|flows| flows.defers_any() && flows.end_deferring());
    sort(stages, ports, inbox, state);
    io.next = stages.after(ENFORCE);
    let is_busy = !state.is_quiet(ctx, waited) && release_waiting(ctx, io, rx, state);
    state.must_take_stages |= !stages.are_merged();
    let mut received = 0;
    if !state.handoff.is_alone() {
        state.tally.set_taken_over(true);
        if can_resume {
            received += resume_deferred(ctx, io, stages, inbox, rx, state);
        }
        received += take_over(ctx, io, stages, inbox, rx, state);
        state.tally.set_taken_over(false);
    }
    received += visit_arrived(ctx, io, stages, inbox, state);
    io.next = stages.after(ENFORCE);
    if !state.slow.is_empty() {
        slow::run(ctx, io, limits, state);
        process_switched(ctx, io, rx, state);
        state.queues.flush(io, &mut state.tally);
    }
    if !state.handoff.is_alone() {
        state.handoff.flush(&mut state.tally);
        return_events(stages.queue_of(ENFORCE), io.outbox, state);
        // A packet to another UE may have left in a flow without an event.
        if state.tally.has_switched()
            && let Some(flows) = state.handoff.flows()
        {
            flows.unfence_all();
        }
    }
    let idle = !any_events && received == 0 && !is_busy;
    if !idle {
        publish_counts(ctx, waited, state);
    }
    StepReport { received, idle, handed_to: state.handoff.take_notified() }
}

/// Takes the packets that the scheduler gave through their stages. Returns how many.
fn visit_arrived<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    stages: &EventStages,
    inbox: &mut EventInbox<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let ports = ctx.interfaces.port_count();
    let EventInbox { arrived, deferred, .. } = inbox;
    let mut received = 0;
    state.tally.set_taken_over(true);
    for queue in stages.queues().collect::<ArrayVec<_, STAGES>>().into_iter().rev() {
        let first = queue.position() * ports;
        let arrived = arrived.get_mut(first..first + ports).unwrap_or_default();
        for (port, packets) in (0..).map(PortId).zip(arrived) {
            defer(queue.position(), port, packets, deferred, state);
            if !packets.is_empty() {
                received += packets.len();
                state.tally.burst();
                visit(ctx, io, stages, queue.position(), port, packets, state);
            }
        }
    }
    state.tally.set_taken_over(false);
    received
}

/// Takes packets of one port through the stages behind one queue.
fn visit<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    stages: &EventStages,
    position: usize,
    port: PortId,
    packets: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let behind: Range<usize> = stages.behind(position);
    stages.stall(behind.clone(), packets.len());
    io.next = stages.after(behind.end - 1);
    if behind.contains(&ENFORCE) {
        enforce_burst(ctx, io, port, packets, state);
    } else if behind.contains(&CLASSIFY) {
        let queue = stages.queue_of(ENFORCE);
        classify_burst(ctx, io, port, packets, state, |io, (flow, buf)| {
            io.send_on(queue, flow, port, buf);
        });
    } else {
        write_burst(ctx, io, behind, port, packets, state);
    }
}

/// Moves packets that have to wait out of `packets`.
#[inline]
fn defer<B: PacketBuf>(
    position: usize,
    port: PortId,
    packets: &mut Burst<B>,
    deferred: &mut VecDeque<(u32, PortId, B)>,
    state: &mut WorkerState<B>,
) {
    if let Some(flows) = state.handoff.flows()
        && flows.defers_any()
        && !packets.is_empty()
    {
        defer_some(position, port, packets, deferred, state);
    }
}

#[cold]
fn defer_some<B: PacketBuf>(
    position: usize,
    port: PortId,
    packets: &mut Burst<B>,
    deferred: &mut VecDeque<(u32, PortId, B)>,
    state: &mut WorkerState<B>,
) {
    let WorkerState { handoff, tally, .. } = state;
    let Some(flows) = handoff.flows() else { return };
    for buf in core::mem::take(packets) {
        let place = flows.shared().place(position, flow_of_mark(&buf));
        if !flows.must_defer(place) {
            packets.push(buf);
        } else if deferred.len() < DEFERRED_MAX {
            deferred.push_back((place, port, buf));
        } else {
            tally.receive(buf.data().len());
            tally.drop(DropReason::HandoffFull);
        }
    }
}

/// Takes deferred packets that need not wait any more through their stages. Returns how many.
#[cold]
fn resume_deferred<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    stages: &EventStages,
    inbox: &mut EventInbox<Io::Buf>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let mut resumed = 0;
    let mut group = None;
    for _ in 0..inbox.deferred.len() {
        let Some((place, port, buf)) = inbox.deferred.pop_front() else { break };
        let Some(flows) = state.handoff.flows() else { break };
        if flows.must_defer(place) {
            inbox.deferred.push_back((place, port, buf));
            continue;
        }
        let own = (flows.shared().of_place(place).0, port);
        if let Some((position, port)) = group.replace(own)
            && ((position, port) != own || rx.is_full())
        {
            visit(ctx, io, stages, position, port, rx, state);
        }
        rx.push(buf);
        resumed += 1;
    }
    if let Some((position, port)) = group {
        visit(ctx, io, stages, position, port, rx, state);
    }
    resumed
}

/// Takes over the packets that other workers handed to this one as the holder of their flows, before events: the
/// scheduler gave these flows to this worker later. Returns how many.
fn take_over<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    stages: &EventStages,
    inbox: &mut EventInbox<Io::Buf>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let sources = state.handoff.sources();
    // All that the rings held at first, and little more.
    let limit = 2 * sources * HANDOFF_RING_LEN;
    let mut taken = 0;
    loop {
        let before = taken;
        for source in 0..sources {
            while let Some(port) = state.handoff.take(source, rx) {
                taken += rx.len();
                let position = state.handoff.taken_position();
                defer(position, port, rx, &mut inbox.deferred, state);
                visit(ctx, io, stages, position, port, rx, state);
                state.handoff.settle_taken();
            }
        }
        // A packet may have waited for one from a later source.
        if taken == before || taken > limit {
            break;
        }
    }
    taken
}

/// Sorts the packets of events by their queues and ports. Packets at places that other workers hold go to these workers.
fn sort<B: PacketBuf>(
    stages: &EventStages,
    ports: usize,
    inbox: &mut EventInbox<B>,
    state: &mut WorkerState<B>,
) {
    let EventInbox { events, arrived, .. } = inbox;
    for Event { tag, buf } in events.drain(..) {
        let (queue, port) = (stages.queue_at(EventStages::position_of(tag.queue())), tag.port());
        let holder = match state.handoff.flows() {
            Some(flows) => schedule(flows, queue, tag, buf.as_ref()),
            None => FlowHolder::This,
        };
        let Some(buf) = buf else { continue };
        let at = queue.position() * ports + usize::from(port.0);
        match (holder, arrived.get_mut(at)) {
            (FlowHolder::This, Some(packets)) => packets.push(buf),
            (FlowHolder::Other(holder), _) => {
                let WorkerState { handoff, tally, .. } = &mut *state;
                tally.set_taken_over(true);
                tally.receive(buf.data().len());
                tally.set_taken_over(false);
                let place =
                    handoff.flows().map(|flows| flows.shared().place(queue.position(), tag.flow()));
                handoff.hand_to_holder(holder, port, place.unwrap_or(0), buf, tally);
            }
            // Rx/Tx threads and workers have the same ports.
            (FlowHolder::This, None) => debug_assert!(false, "a port beyond all others"),
        }
    }
}

/// Takes note of an event. Returns who processes its packet.
#[inline]
fn schedule<B: PacketBuf>(
    flows: &mut Flows,
    queue: StageQueue,
    tag: EventTag,
    buf: Option<&B>,
) -> FlowHolder {
    let is_atomic = queue.schedule == ScheduleType::Atomic;
    if let Some(buf) = buf.filter(|_| queue.position() > 0)
        && Mark::of(buf) != Mark::None
    {
        // The event of a flow that is not atomic need not name it.
        let place = flows.shared().place(queue.position(), flow_of_mark(buf));
        flows.shared().count_given_out(place, is_atomic);
    }
    if !is_atomic {
        return FlowHolder::This;
    }
    let place = flows.shared().place(queue.position(), tag.flow());
    let holder = flows.schedule(place, buf.is_some());
    if buf.is_none() {
        match tag.note() {
            FENCE => flows.settle_packet(place),
            _ => flows.end_request(place),
        }
        // The holder has the flow already.
        if let FlowHolder::Other(_) = holder {
            flows.settle_packet(place);
        }
    }
    holder
}

/// Moves packets of flows that this worker does not have to the events for the scheduler.
fn return_events<B: PacketBuf>(
    queue: StageQueue,
    outbox: &mut Outbox<B>,
    state: &mut WorkerState<B>,
) {
    while let Some((flow, packet)) = state.handoff.take_returned() {
        let is_packet = packet.is_some();
        if outbox.room() == 0 {
            match state.handoff.flows() {
                Some(flows) if !is_packet => flows.end_request(flows.enforcing(flow)),
                _ => state.tally.drop(DropReason::HandoffFull),
            }
            continue;
        }
        let event = match packet {
            None => Event { tag: queue.tag(flow, REQUEST), buf: None },
            Some((port, mut buf)) => {
                Mark::None.set(&mut buf, flow);
                Event { tag: queue.tag(flow, note_of(port)), buf: Some(buf) }
            }
        };
        outbox.events.push_back(event);
        state.tally.hand_off(usize::from(is_packet));
    }
}
