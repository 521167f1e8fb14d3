//! The event-driven model: an event scheduler gives each worker packets of flows that no other
//! worker has.
//!
//! An Rx/Tx thread polls the ports, finds the flow of each packet ([`SharedFlows`]) and enqueues an
//! event for the workers' queue; it transmits the packets of the transmit queue. A worker dequeues
//! a burst of events, takes the packets through the whole path as in run to completion, and
//! enqueues the frames that leave. It enqueues them after the last packet of the burst, because the
//! scheduler may give a flow to another worker as soon as an event follows from one of the flow.
//!
//! A worker dequeues, and finds out who holds the flows, before it reads the tables. So a later
//! packet of a flow never sees older rules than an earlier one, whichever workers process them.

use core::ops::Range;

use adit_pktio::{Burst, EventPort, PacketBuf, PacketIo, ScheduleType};
use adit_rules::DropReason;
use adit_types::limits::{BURST_MAX, HANDOFF_RING_LEN};
use adit_types::{Nanos, PortId};

use super::event_inbox::{ArrivedPackets, DeferredPacket, EventInbox, QueuePort};
use super::event_io::{EventIo, Outbox, REQUEST, port_note};
use super::event_stages::{classify_burst, enforce_burst, look_up_burst, write_burst};
use super::processing::process_switched;
use super::run_to_completion::{StepReport, publish_counts, release_waiting};
use crate::carried::Mark;
use crate::context::StepContext;
use crate::event_queues::{CLASSIFY, ENFORCE, PREPARE, PacketQueue};
use crate::flows::SharedFlows;
use crate::handoff::Handoff;
use crate::model::worker::Worker;
use crate::slow;
use crate::tally::StepTally;
use crate::worker_state::{BurstPath, WorkerState};

/// Minimum time between two searches of a worker for flows to give up: each flow takes an event,
/// and too many events would be refused.
const REVIEW_INTERVAL: Nanos = Nanos::from_micros(200);

/// Time from one event of a worker's timer queue to the next: a quarter of a slot of the shaper's
/// timing wheel.
const TIMER_INTERVAL: Nanos = Nanos::from_micros(8);

/// A worker that gets its packets from an event scheduler.
///
/// The packet identity is that of [`Worker`]; every event with a packet counts as taken over.
///
/// Threads: like [`Worker`]; it also shares the words of [`SharedFlows`] with the other workers.
pub struct EventWorker<P: EventPort, Io: PacketIo<Buf = P::Buf>> {
    worker: Worker<Io>,
    port: P,
    flows: SharedFlows,
    inbox: EventInbox<P::Buf>,
    outbox: Outbox<P::Buf>,
    /// By place: true if packets are kept there. Used only while places are given up.
    kept: Vec<bool>,
    reviewed_at: Nanos,
    timer: WorkerTimer,
}

/// The timer of a worker.
#[derive(Debug, Clone, Copy)]
struct WorkerTimer {
    /// When the timer expires, or when it last did.
    due: Nanos,
    is_set: bool,
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> core::fmt::Debug for EventWorker<P, Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EventWorker").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> EventWorker<P, Io> {
    /// Combines `worker` with a port of the scheduler that is linked to the worker's
    /// [queues](EventQueues::links). If there are several workers, all need
    /// [`Handoff::with_flows`](crate::Handoff::with_flows) with the same `flows`.
    #[must_use]
    pub fn new(mut worker: Worker<Io>, port: P, flows: SharedFlows) -> Self {
        let parts = worker.parts();
        let ports = parts.interfaces.port_count();
        let queues = flows.queues();
        let state = parts.state;
        let places = state.handoff.flows().map_or(0, |flows| flows.count());
        let inbox = EventInbox::new(queues, ports);
        Self {
            worker,
            port,
            flows,
            inbox,
            outbox: Outbox::new(),
            kept: vec![false; places],
            reviewed_at: Nanos(0),
            timer: WorkerTimer { due: Nanos(0), is_set: false },
        }
    }

    /// Returns the port of the scheduler.
    pub const fn port(&self) -> &P {
        &self.port
    }

    /// Runs one step of the packet path at time `now`.
    ///
    /// Cost:    like [`Worker::step`], with one call to dequeue and at least one to enqueue; if
    ///          there are several workers, also one load per packet, of the flow's holder word.
    /// Errors:  none; frames that the scheduler has no room for are dropped as
    ///          [`DropReason::TxQueueFull`], packets of other workers' flows as
    ///          [`DropReason::HandoffFull`].
    /// Threads: like [`Worker::step`].
    #[inline(never)]
    pub fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        let Self { worker, port, flows, inbox, outbox, .. } = self;
        let parts = worker.parts();
        outbox.send_completions(port);
        // A worker whose events the scheduler does not accept still dequeues, as long as it has
        // room for the events that follow: else all workers could wait for each other.
        outbox.send(port);
        let takes_events = outbox.can_take_events();
        // Dequeued before the tables are read, so that no packet sees older rules than earlier
        // ones.
        if takes_events && port.dequeue(parts.config.burst, &mut inbox.events) == 0 {
            port.flush();
        }
        // Also before the tables are read: here this worker gets flows that others gave up.
        let queues = flows.queues();
        let WorkerState { handoff, books, .. } = &mut *parts.state;
        inbox.sort(queues, outbox, handoff, &mut books.tally);
        let recovery_time_stamp = parts.config.recovery_time_stamp;
        let (view, interfaces) = (parts.reader.observe(), parts.interfaces);
        interfaces.update_from(&view);
        let ctx = StepContext { view, interfaces, now, recovery_time_stamp };
        let (rx, state) = (parts.rx, parts.state);
        let among_others = (!state.handoff.is_alone()).then_some(&*flows);
        let (map, next) = (flows.map(), None);
        let mut io = EventIo { ports: io, outbox, queues, map, next, flows: among_others };
        let report = step(&ctx, &mut io, inbox, rx, state);
        let is_all_sent = outbox.send(port);
        // A driver that collects events to form bursts may meanwhile give their flows to another
        // worker, so it has to send them now.
        port.flush();
        let is_idle = report.idle && is_all_sent && inbox.deferred.is_empty();
        let is_time = flows.timers().is_empty() || inbox.has_timer;
        self.review_flows(now, is_time);
        // After `review_flows`, which holds flows whose frames wait for the scheduler.
        self.outbox.send_completions(&mut self.port);
        self.set_timer(now);
        StepReport { idle: is_idle, ..report }
    }

    /// Sets the worker's timer while packets wait or flows are held; clears it otherwise. Without
    /// timer queues, each step searches for due packets instead.
    fn set_timer(&mut self, now: Nanos) {
        let Self { worker, flows, inbox, timer, .. } = self;
        let number = usize::from(worker.id().0);
        let Some(shared) = flows.timers().get(number) else { return };
        let state = worker.parts().state;
        let must_wait = state.queues.waiting_frame_count() > 0
            || state.handoff.flows().is_some_and(|flows| flows.holds_any());
        if must_wait && (!timer.is_set || inbox.has_timer) {
            // Differs from the last time even if the clock stands: the same time gets no second
            // event.
            timer.due = Nanos((now + TIMER_INTERVAL).0.max(timer.due.0 + 1));
        } else if must_wait == timer.is_set {
            return;
        }
        timer.is_set = must_wait;
        shared.set(must_wait.then_some(timer.due));
    }

    /// Holds the places of this step while packets wait; gives up other places if `is_time`.
    fn review_flows(&mut self, now: Nanos, is_time: bool) {
        let Self { worker, port, flows: shared, outbox, kept, reviewed_at, .. } = self;
        let queues = shared.queues();
        let state = worker.parts().state;
        let waiting = state.queues.waiting_frame_count();
        let Some(flows) = state.handoff.flows() else { return };
        // Frames that wait for the scheduler count, too: frames of the next worker must not
        // overtake them. Packets to later stages do not count: the next worker defers its own.
        let has_frames = !outbox.is_empty();
        if waiting > 0 || has_frames {
            let enforcing = queues.queue_of_stage(ENFORCE).position();
            let last = queues.queue_of_stage(PREPARE).position();
            flows.hold_scheduled(|place| {
                let (position, _) = shared.position_and_flow(place);
                waiting > 0 && position == enforcing || has_frames && position == last
            });
        }
        flows.end_step();
        let is_due = is_time && now.since(*reviewed_at) >= REVIEW_INTERVAL;
        let is_only_buffered = waiting == state.queues.buffering.len() && outbox.is_empty();
        let Some(flows) = state.handoff.flows() else { return };
        if !flows.holds_any() || !is_due || !is_only_buffered {
            return;
        }
        *reviewed_at = now;
        // Sends the frames of a flow before the next worker sends others.
        port.flush();
        let sessions = || {
            (0..state.queues.buffering.session_count())
                .filter_map(|at| state.queues.buffering.session_at(at))
        };
        for waiting in sessions() {
            if let Some(kept) = kept.get_mut(flows.place_of(waiting.session) as usize) {
                *kept = true;
            }
        }
        let keeps = |place| kept.get(place as usize).is_some_and(|kept: &bool| *kept);
        flows.give_up(keeps, |place| {
            let (position, flow) = shared.position_and_flow(place);
            outbox.fence(queues.queue_at(position), flow)
        });
        for waiting in sessions() {
            if let Some(kept) = kept.get_mut(flows.place_of(waiting.session) as usize) {
                *kept = false;
            }
        }
    }

    /// Declares the worker offline, see [`Worker::rest`].
    pub fn rest(&mut self) {
        self.worker.rest();
    }

    /// Returns the largest share of a ring in use, see [`Worker::take_fullest_ring`].
    pub fn take_fullest_ring(&mut self) -> u16 {
        self.worker.take_fullest_ring()
    }

    /// Ends the worker like [`Worker::drain`]; also drops events that the scheduler has not
    /// accepted. To be called again while a central scheduler still gives out events.
    pub fn drain(&mut self, io: &mut Io) {
        let state = self.worker.parts().state;
        state.books.tally.set_taken_over(true);
        let EventInbox { events, deferred, .. } = &mut self.inbox;
        let mut drop_packet = |buf: P::Buf| {
            state.books.tally.receive(buf.data().len());
            state.books.tally.drop(DropReason::HandoffFull);
        };
        deferred.drain().for_each(&mut drop_packet);
        while self.port.dequeue(BURST_MAX, events) > 0 {
            events.drain(..).filter_map(|event| event.buf).for_each(&mut drop_packet);
        }
        // Frames for Tx queues are counted as transmitted already.
        let is_handed_off = |tag| self.flows.queues().queue_of_tag(tag).is_some();
        let handed_off = self.outbox.drain().filter(|event| is_handed_off(event.tag));
        handed_off.filter_map(|event| event.buf).for_each(&mut drop_packet);
        state.books.tally.set_taken_over(false);
        self.worker.drain(io);
    }
}

/// Runs one step with the packets of one dequeue. Later stages run first: their packets are older.
fn step<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    inbox: &mut EventInbox<Io::Buf>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> StepReport {
    let waited = state.queues.waiting_packet_count();
    state.path = state.path_without_commands;
    let queues = io.queues;
    let can_resume =
        state.handoff.flows().is_some_and(|flows| flows.defers_any() && flows.end_deferring());
    io.next = queues.after(ENFORCE);
    let is_time = queues.timers() == 0 || inbox.has_timer;
    let is_quiet = state.is_quiet(ctx, if is_time { waited } else { 0 });
    let is_busy = !is_quiet && release_waiting(ctx, io, rx, state);
    if !queues.are_merged() {
        state.path = BurstPath::Stages;
    }
    let mut received = 0;
    if !state.handoff.is_alone() {
        state.books.tally.set_taken_over(true);
        if can_resume {
            received += resume_deferred(ctx, io, inbox, rx, state);
        }
        received += take_over(ctx, io, inbox, rx, state);
        state.books.tally.set_taken_over(false);
    }
    received += visit_arrived(ctx, io, inbox, state);
    io.next = queues.after(ENFORCE);
    if !state.queues.slow.is_empty() {
        slow::run(ctx, io, state);
        process_switched(ctx, io, rx, state);
        state.queues.tx.flush(io, &mut state.books.tally);
    }
    if !state.handoff.is_alone() {
        state.handoff.flush(&mut state.books.tally);
        let WorkerState { handoff, books, .. } = &mut *state;
        return_events(queues.queue_of_stage(ENFORCE), io.outbox, handoff, &mut books.tally);
        // A packet to another UE may have left in a flow of which no event came.
        if state.books.tally.has_switched_locally()
            && let Some(flows) = state.handoff.flows()
        {
            flows.unfence_all();
        }
    }
    let idle = !inbox.has_events && received == 0 && !is_busy;
    if !idle {
        publish_counts(ctx, waited, &state.queues, &mut state.books.tally);
    }
    StepReport { received, idle, handed_to: state.handoff.take_notified() }
}

/// Runs the stages of the packets that the scheduler gave. Returns how many packets there were.
fn visit_arrived<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    inbox: &mut EventInbox<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let ports = ctx.interfaces.port_count();
    let EventInbox { arrived, deferred, .. } = inbox;
    let mut received = 0;
    state.books.tally.set_taken_over(true);
    for position in (0..arrived.len() / ports.max(1)).rev() {
        let arrived = arrived.get_mut(position * ports..(position + 1) * ports).unwrap_or_default();
        for (port, arrived) in (0..).map(PortId).zip(arrived) {
            let ArrivedPackets { packets, .. } = arrived;
            if packets.is_empty() {
                continue;
            }
            let from = QueuePort { position, port };
            deferred.defer(from, packets, &mut state.handoff, &mut state.books.tally);
            received += packets.len();
            state.books.tally.burst();
            match io.queues.queue_at(position).schedule {
                ScheduleType::Ordered => visit_ordered(ctx, io, from, arrived, state),
                _ => visit(ctx, io, from, packets, state),
            }
        }
    }
    state.books.tally.set_taken_over(false);
    received
}

/// Runs the stages of packets of one port from an ordered queue. The events that follow from a
/// packet replace the packet's event, so that they keep its place in the order.
#[cold]
fn visit_ordered<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    from: QueuePort,
    arrived: &mut ArrivedPackets<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let ArrivedPackets { packets, indexes } = arrived;
    if io.queues.behind(from.position).is_empty() {
        // Exactly one event follows from each packet of the Rx queue.
        let before = io.outbox.len();
        visit(ctx, io, from, packets, state);
        io.outbox.complete(before, indexes);
    } else {
        // Packets pass one by one: a stage may drop some, or change the order of a burst.
        let mut one = Burst::new();
        for (buf, index) in packets.drain(..).zip(&*indexes) {
            let before = io.outbox.len();
            one.push(buf);
            visit(ctx, io, from, &mut one, state);
            io.outbox.complete(before, &[*index]);
        }
    }
    indexes.clear();
}

/// Runs the stages behind one queue on packets of one port.
fn visit<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    QueuePort { position, port }: QueuePort,
    packets: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let queues = io.queues;
    let behind: Range<usize> = queues.behind(position);
    queues.stall(behind.clone(), packets.len());
    if behind.is_empty() {
        look_up_burst(ctx, io, port, packets, &mut state.books.tally);
        return;
    }
    io.next = queues.after(behind.end - 1);
    if behind.contains(&ENFORCE) {
        enforce_burst(ctx, io, port, packets, state);
    } else if behind.contains(&CLASSIFY) {
        classify_burst(ctx, io, port, packets, state);
    } else {
        let (_, sender) = state.shaping_and_sender(io);
        write_burst(ctx, behind, port, packets, sender);
    }
}

/// Runs the stages of deferred packets that need not wait any more. Returns how many there were.
#[cold]
fn resume_deferred<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    inbox: &mut EventInbox<Io::Buf>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let (mut resumed, mut left) = (0, inbox.deferred.len());
    let mut last = None;
    while let Some(flows) = state.handoff.flows()
        && let Some(DeferredPacket { place, port, buf }) = inbox.deferred.take(flows, &mut left)
    {
        let from = QueuePort { position: flows.shared().position_and_flow(place).0, port };
        if let Some(last) = last.replace(from)
            && (last != from || rx.is_full())
        {
            visit(ctx, io, last, rx, state);
        }
        rx.push(buf);
        resumed += 1;
    }
    if let Some(last) = last {
        visit(ctx, io, last, rx, state);
    }
    resumed
}

/// Takes over the packets that other workers handed to this worker, the holder of their flows. This
/// comes before events, which the scheduler gave to this worker later. Returns how many there were.
fn take_over<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    inbox: &mut EventInbox<Io::Buf>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let sources = state.handoff.source_count();
    // Enough for all packets that were in the rings, so that the loop ends.
    let limit = 2 * sources * HANDOFF_RING_LEN;
    let mut taken = 0;
    loop {
        let before = taken;
        for source in 0..sources {
            while let Some(port) = state.handoff.take(source, rx) {
                taken += rx.len();
                let from = QueuePort { position: state.handoff.taken_queue_position(), port };
                inbox.deferred.defer(from, rx, &mut state.handoff, &mut state.books.tally);
                visit(ctx, io, from, rx, state);
                state.handoff.settle_taken();
            }
        }
        // Another round, as a packet may have waited for one from a later source.
        if taken == before || taken > limit {
            break;
        }
    }
    taken
}

/// Moves packets of flows that this worker does not have, and requests, to the events to send.
fn return_events<B: PacketBuf>(
    queue: PacketQueue,
    outbox: &mut Outbox<B>,
    handoff: &mut Handoff<B>,
    tally: &mut StepTally,
) {
    while let Some((flow, packet)) = handoff.take_returned() {
        let is_packet = packet.is_some();
        if outbox.room() == 0 {
            match handoff.flows() {
                Some(flows) if !is_packet => flows.end_request(flows.enforcing(flow)),
                _ => tally.drop(DropReason::HandoffFull),
            }
            continue;
        }
        match packet {
            None => outbox.push(queue.tag(flow, REQUEST), None),
            Some((port, mut buf)) => {
                Mark::None.set(&mut buf, flow);
                outbox.push(queue.tag(flow, port_note(port)), Some(buf));
            }
        }
        tally.hand_off(usize::from(is_packet));
    }
}
