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

use core::mem;
use std::collections::VecDeque;

use adit_pktio::{
    Burst, Event, EventBurst, EventPort, EventTag, PacketBuf, PacketIo, PortInfo, ScheduleType,
};
use adit_rules::DropReason;
use adit_rules::rule::ue_ipv6_key;
use adit_tables::{TablesReader, TablesView};
use adit_types::limits::{BURST_MAX, HANDOFF_RING_LEN};
use adit_types::{Nanos, PortId, SessionIndex};
use adit_wire::Glance;

use super::pipeline::{SeenFrame, look, ues};
use super::run_to_completion::{
    StepReport, process, process_switched, publish_counts, release_waiting,
};
use crate::context::StepContext;
use crate::flows::{FlowHolder, SharedFlows};
use crate::handoff::WorkerSet;
use crate::interfaces::Interfaces;
use crate::model::worker::Worker;
use crate::slow::{self, SlowLimits};
use crate::tally::{StepTally, WaitingCounts};
use crate::worker_state::WorkerState;

/// The queue of frames that leave; its flows are ports.
pub const TX_QUEUE: u8 = 0;

/// The queue of packets for workers.
pub const WORK_QUEUE: u8 = 1;

/// Events that a worker may have for the scheduler after a step: four bursts of packets that waited, a burst for each
/// of a few ports, and packets for other flows.
const OUTBOX_LEN: usize = 4096;

/// A worker looks for flows to give up at most once in this time.
const REVIEW_INTERVAL: Nanos = Nanos::from_millis(1);

/// A port that takes no frame for this long is down: its frames are dropped at once until it takes one.
const REFUSING_MAX: Nanos = Nanos::from_millis(100);

/// Bursts that an Rx/Tx thread transmits per step and port.
const TX_BURSTS_PER_PORT: usize = 2;

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

    /// Sends a fence of a flow. Returns false without room.
    fn fence(&mut self, flow: u32) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            let tag = EventTag::new(WORK_QUEUE, ScheduleType::Atomic, flow, FENCE);
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
}

impl<Io: PacketIo> PacketIo for EventIo<'_, Io> {
    type Buf = Io::Buf;

    /// Nothing arrives here.
    fn rx_burst(&mut self, _: PortId, _: usize, _: &mut Burst<Io::Buf>) -> usize {
        0
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Io::Buf>) -> usize {
        let count = burst.len().min(self.outbox.room());
        let tag = EventTag::new(TX_QUEUE, ScheduleType::Atomic, port.0.into(), note_of(port));
        let event = |buf| Event { tag, buf: Some(buf) };
        self.outbox.events.extend(burst.drain(..count).map(event));
        count
    }

    fn alloc(&mut self) -> Option<Io::Buf> {
        self.ports.alloc()
    }

    fn alloc_burst(&mut self, count: usize, burst: &mut Burst<Io::Buf>) -> usize {
        self.ports.alloc_burst(count, burst)
    }

    fn free_burst(&mut self, burst: &mut Burst<Io::Buf>) {
        self.ports.free_burst(burst);
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        self.ports.port_info(port)
    }
}

/// A port in the tag of an event: `limits::PORTS_MAX` fits.
fn note_of(port: PortId) -> u8 {
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
    events: EventBurst<P::Buf>,
    /// The packets of a step, by the port that received them.
    arrived: Vec<Burst<P::Buf>>,
    outbox: Outbox<P::Buf>,
    /// Flows that keep packets; used while flows are given up.
    kept: Vec<bool>,
    reviewed_at: Nanos,
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> core::fmt::Debug for EventWorker<P, Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EventWorker").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> EventWorker<P, Io> {
    /// `worker` with a port of the scheduler that is linked to [`WORK_QUEUE`]. Several workers need
    /// [`Handoff::with_flows`](crate::Handoff::with_flows), all with the same flows.
    #[must_use]
    pub fn new(mut worker: Worker<Io>, port: P) -> Self {
        let parts = worker.parts();
        let ports = parts.interfaces.port_count();
        let flows = parts.state.handoff.flows().map_or(0, |flows| flows.count());
        Self {
            worker,
            port,
            events: EventBurst::new(),
            arrived: (0..ports).map(|_| Burst::new()).collect(),
            outbox: Outbox::new(),
            kept: vec![false; flows],
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
        let Self { worker, port, events, arrived, outbox, .. } = self;
        outbox.send(port);
        // A worker that waits to send still takes events, as long as it has room for what follows from them: else all
        // workers could wait for each other.
        let is_blocked = outbox.room() < OUTBOX_LEN / 2;
        let parts = worker.parts();
        // Before the tables are read.
        if !is_blocked && port.dequeue(parts.config.burst, events) == 0 {
            port.flush();
        }
        let recovery_time_stamp = parts.config.recovery_time_stamp;
        let (view, interfaces) = (parts.reader.observe(), parts.interfaces);
        let ctx = StepContext { view, interfaces, now, recovery_time_stamp };
        let mut io = EventIo { ports: io, outbox };
        let (limits, rx, state) = (parts.limits, parts.rx, parts.state);
        let report = step(&ctx, &mut io, events, arrived, limits, rx, state);
        let outbox_is_empty = outbox.send(port);
        self.review_flows(now);
        StepReport { idle: report.idle && outbox_is_empty, ..report }
    }

    /// Holds the flows of this step while packets wait, and gives up others.
    fn review_flows(&mut self, now: Nanos) {
        let Self { worker, port, outbox, kept, reviewed_at, .. } = self;
        let state = worker.parts().state;
        let waiting = state.packets_waiting();
        let Some(flows) = state.handoff.flows() else { return };
        // Frames that wait for the scheduler count, too: those of the next worker must not overtake them.
        if waiting > 0 || !outbox.events.is_empty() {
            flows.hold_scheduled();
        }
        flows.end_step();
        let is_due = waiting == 0 || now.since(*reviewed_at) >= REVIEW_INTERVAL;
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
            if let Some(kept) = kept.get_mut(flows.of(waiting.session) as usize) {
                *kept = true;
            }
        }
        let keeps = |flow| kept.get(flow as usize).is_some_and(|kept: &bool| *kept);
        flows.give_up(keeps, |flow| outbox.fence(flow));
        for waiting in sessions() {
            if let Some(kept) = kept.get_mut(flows.of(waiting.session) as usize) {
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
        while self.port.dequeue(BURST_MAX, &mut self.events) > 0 {
            for buf in self.events.drain(..).filter_map(|event| event.buf) {
                state.tally.receive(buf.data().len());
                state.tally.drop(DropReason::HandoffFull);
            }
        }
        state.tally.set_taken_over(false);
        self.outbox.events.clear();
        self.worker.drain(io);
    }
}

/// Runs one step with the events of one dequeue.
fn step<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    events: &mut EventBurst<Io::Buf>,
    arrived: &mut [Burst<Io::Buf>],
    limits: &mut SlowLimits,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> StepReport {
    let waited = state.packets_waiting();
    state.must_take_stages = false;
    let any_events = !events.is_empty();
    sort(events, arrived, state);
    let is_busy = !state.is_quiet(ctx, waited) && release_waiting(ctx, io, rx, state);
    let mut received = 0;
    if !state.handoff.is_alone() {
        received += take_over(ctx, io, rx, state);
    }
    state.tally.set_taken_over(true);
    for (port, packets) in (0..).map(PortId).zip(arrived) {
        if !packets.is_empty() {
            received += packets.len();
            state.tally.burst();
            process(ctx, io, port, packets, state);
        }
    }
    state.tally.set_taken_over(false);
    if !state.slow.is_empty() {
        slow::run(ctx, io, limits, state);
        process_switched(ctx, io, rx, state);
        state.queues.flush(io, &mut state.tally);
    }
    if !state.handoff.is_alone() {
        state.handoff.flush(&mut state.tally);
        return_events(io.outbox, state);
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

/// Takes over the packets that other workers handed to this one as the holder of their flows, before events: the
/// scheduler gave these flows to this worker later. Returns how many.
fn take_over<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut EventIo<'_, Io>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) -> usize {
    let sources = state.handoff.sources();
    // All that the rings held at first, and little more.
    let limit = 2 * sources * HANDOFF_RING_LEN;
    let mut taken = 0;
    state.tally.set_taken_over(true);
    loop {
        let before = taken;
        for source in 0..sources {
            while let Some(port) = state.handoff.take(source, rx) {
                taken += rx.len();
                process(ctx, io, port, rx, state);
                state.handoff.settle_taken();
            }
        }
        // A packet may have waited for one from a later source.
        if taken == before || taken > limit {
            break;
        }
    }
    state.tally.set_taken_over(false);
    taken
}

/// Sorts the packets of `events` by the ports that received them. Packets of flows that other workers hold go to these
/// workers.
fn sort<B: PacketBuf>(
    events: &mut EventBurst<B>,
    arrived: &mut [Burst<B>],
    state: &mut WorkerState<B>,
) {
    for Event { tag, buf } in events.drain(..) {
        let (flow, port) = (tag.flow(), tag.port());
        let holder = state
            .handoff
            .flows()
            .map_or(FlowHolder::This, |flows| flows.schedule(flow, buf.is_some()));
        let Some(buf) = buf else {
            let Some(flows) = state.handoff.flows() else { continue };
            match tag.note() {
                FENCE => flows.settle_packet(flow),
                _ => flows.end_request(flow),
            }
            // The holder has the flow already.
            if let FlowHolder::Other(_) = holder {
                flows.settle_packet(flow);
            }
            continue;
        };
        match (holder, arrived.get_mut(usize::from(port.0))) {
            (FlowHolder::This, Some(packets)) => packets.push(buf),
            (FlowHolder::Other(holder), _) => {
                let WorkerState { handoff, tally, .. } = &mut *state;
                tally.set_taken_over(true);
                tally.receive(buf.data().len());
                tally.set_taken_over(false);
                handoff.hand_to_holder(holder, port, flow, buf, tally);
            }
            // Rx/Tx threads and workers have the same ports.
            (FlowHolder::This, None) => debug_assert!(false, "a port beyond all others"),
        }
    }
}

/// Moves packets of flows that this worker does not have to the events for the scheduler.
fn return_events<B: PacketBuf>(outbox: &mut Outbox<B>, state: &mut WorkerState<B>) {
    while let Some((flow, packet)) = state.handoff.take_returned() {
        let is_packet = packet.is_some();
        if outbox.room() == 0 {
            match state.handoff.flows() {
                Some(flows) if !is_packet => flows.end_request(flow),
                _ => state.tally.drop(DropReason::HandoffFull),
            }
            continue;
        }
        let (note, buf) = packet.map_or((REQUEST, None), |(port, buf)| (note_of(port), Some(buf)));
        let tag = EventTag::new(WORK_QUEUE, ScheduleType::Atomic, flow, note);
        outbox.events.push_back(Event { tag, buf });
        state.tally.hand_off(usize::from(is_packet));
    }
}

/// Configuration of an Rx/Tx thread.
#[derive(Debug, Clone)]
pub struct RxTxConfig {
    /// The ports to poll, in this order; a port once for each of its queues.
    pub ports: Vec<PortId>,
    /// Packets to receive from a queue per step, 1..=`BURST_MAX`; other values are cut to that range.
    pub burst: usize,
}

/// The frames of one port that wait for room in its queue.
struct TxPort<B> {
    frames: Burst<B>,
    /// When the port began to refuse all of them.
    refusing_since: Option<Nanos>,
}

/// A thread that receives for an event scheduler, and transmits what workers send.
///
/// The packet identity: every packet that it receives is handed off, or dropped because too many are with the
/// scheduler. A frame that a port refuses for long is taken over and dropped; its worker counted it as transmitted.
///
/// Threads: owned by one thread, which shares the tables with the control thread.
pub struct RxTx<P: EventPort, Io: PacketIo<Buf = P::Buf>> {
    config: RxTxConfig,
    reader: TablesReader,
    interfaces: Interfaces,
    flows: SharedFlows,
    port: P,
    tally: StepTally,
    rx: Burst<P::Buf>,
    tx: Vec<TxPort<P::Buf>>,
    io: core::marker::PhantomData<fn(Io)>,
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> core::fmt::Debug for RxTx<P, Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RxTx").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> RxTx<P, Io> {
    /// An Rx/Tx thread over `reader`'s tables and interfaces, with a port of the scheduler that is linked to
    /// [`TX_QUEUE`]. Allocates all memory that it will use.
    #[must_use]
    pub fn new(mut config: RxTxConfig, reader: TablesReader, flows: SharedFlows, port: P) -> Self {
        config.burst = config.burst.clamp(1, BURST_MAX);
        let interfaces = Interfaces::new(reader.interfaces());
        let tx = || TxPort { frames: Burst::new(), refusing_since: None };
        Self {
            config,
            tx: (0..interfaces.port_count()).map(|_| tx()).collect(),
            interfaces,
            reader,
            flows,
            port,
            tally: StepTally::new(),
            rx: Burst::new(),
            io: core::marker::PhantomData,
        }
    }

    /// Polls every queue of the configuration once, gives what arrived to the scheduler, and transmits frames.
    ///
    /// Cost:    no allocation, lock, system call or clock of its own. Per packet one cache line of the frame and one of
    ///          the key table, prefetched.
    /// Errors:  none; packets that the scheduler refuses are dropped as [`DropReason::SchedulerFull`], frames that a
    ///          port refuses for long as [`DropReason::TxQueueFull`].
    /// Threads: as [`Worker::step`].
    #[inline(never)]
    pub fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        let Self { config, reader, interfaces, flows, port: scheduler, tally, rx, tx, .. } = self;
        let view = reader.observe();
        let mut received = 0;
        for &port in &config.ports {
            let count = io.rx_burst(port, config.burst, rx);
            if count == 0 {
                continue;
            }
            received += count;
            tally.burst();
            let frames = look(&view, interfaces.of_port(port), rx, tally);
            let event = |(buf, frame): (P::Buf, &SeenFrame<'_>)| {
                let flow = flow_of(&view, flows, frame);
                let tag = EventTag::new(WORK_QUEUE, ScheduleType::Atomic, flow, note_of(port));
                Event { tag, buf: Some(buf) }
            };
            let mut events: EventBurst<_> = rx.drain(..).zip(&frames).map(event).collect();
            tally.hand_off(scheduler.enqueue_new(&mut events));
            for _ in events {
                tally.drop(DropReason::SchedulerFull);
            }
        }
        let mut sent = 0;
        for _ in 0..TX_BURSTS_PER_PORT * tx.len() {
            let count = dequeue_frames(scheduler, tx);
            sent += count;
            let are_all_sent = transmit(io, tx);
            if count == 0 || !are_all_sent {
                break;
            }
        }
        let has_dropped = drop_refused(now, tx, tally);
        if received == 0 {
            scheduler.flush();
        }
        let idle = received == 0 && sent == 0;
        if received > 0 || has_dropped {
            debug_assert!(tally.identity_holds(0, 0), "a packet has no outcome: {tally:?}");
            tally.flush(view.counters(), 0, || WaitingCounts::NONE);
        }
        StepReport { received, idle, handed_to: WorkerSet::NONE }
    }

    /// Declares the thread offline until its next step, so that publication does not wait for it. Call it before a
    /// pause.
    pub fn rest(&mut self) {
        self.reader.go_offline();
    }

    /// Ends the thread: frames that wait for ports are dropped.
    pub fn drain(&mut self) {
        for port in &mut self.tx {
            drop(mem::take(&mut port.frames));
        }
        self.rest();
    }

    /// The port of the scheduler.
    pub const fn port(&self) -> &P {
        &self.port
    }
}

/// Dequeues frames, unless some still wait. Returns how many.
fn dequeue_frames<P: EventPort>(scheduler: &mut P, tx: &mut [TxPort<P::Buf>]) -> usize {
    if tx.iter().any(|port| !port.frames.is_empty()) {
        return 0;
    }
    let mut events = EventBurst::new();
    let count = scheduler.dequeue(BURST_MAX, &mut events);
    for Event { tag, buf } in events {
        if let (Some(port), Some(buf)) = (tx.get_mut(usize::from(tag.port().0)), buf) {
            port.frames.push(buf);
        }
    }
    count
}

/// Transmits what waits. Returns whether the ports took all of it.
fn transmit<Io: PacketIo>(io: &mut Io, tx: &mut [TxPort<Io::Buf>]) -> bool {
    let mut are_all_sent = true;
    for (id, port) in (0..).map(PortId).zip(tx) {
        if !port.frames.is_empty() {
            if io.tx_burst(id, &mut port.frames) > 0 {
                port.refusing_since = None;
            }
            are_all_sent &= port.frames.is_empty();
        }
    }
    are_all_sent
}

/// Drops the frames that a port has refused for long. Returns whether there were any.
fn drop_refused<B: PacketBuf>(now: Nanos, tx: &mut [TxPort<B>], tally: &mut StepTally) -> bool {
    let mut has_dropped = false;
    for port in tx.iter_mut().filter(|port| !port.frames.is_empty()) {
        if now.since(*port.refusing_since.get_or_insert(now)) >= REFUSING_MAX {
            has_dropped = true;
            tally.set_taken_over(true);
            for frame in port.frames.drain(..) {
                tally.receive(frame.data().len());
                tally.drop(DropReason::TxQueueFull);
            }
            tally.set_taken_over(false);
        }
    }
    has_dropped
}

/// The flow of a packet's session; without a session one that all packets with the same key share.
fn flow_of(view: &TablesView<'_>, flows: &SharedFlows, frame: &SeenFrame<'_>) -> u32 {
    let Some(link) = frame.link else { return 0 };
    let (session, hash) = match frame.glance {
        Glance::Signaling => (SessionIndex::NONE, 0),
        Glance::TunnelFragment(hash) => (SessionIndex::NONE, hash.into()),
        Glance::Tunneled { teid, .. } => (view.session_of_teid(teid), teid.0.into()),
        Glance::PlainV4(addr) => {
            let key = addr.to_bits();
            (ues(view, link).session_v4(key), key.into())
        }
        Glance::PlainV6(addr) => {
            let key = ue_ipv6_key(addr);
            (ues(view, link).session_v6(key), key)
        }
    };
    if session.is_some() { flows.of(session) } else { flows.of_hash(hash) }
}
