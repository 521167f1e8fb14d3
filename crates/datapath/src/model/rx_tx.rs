//! The Rx/Tx threads of the event-driven model: they receive packets for the event scheduler, and
//! transmit the frames that workers send.

use core::mem;

use adit_pktio::{
    Burst, Event, EventBurst, EventPort, EventTag, PacketBuf, PacketIo, ScheduleType,
};
use adit_rules::DropReason;
use adit_rules::rule::ue_ipv6_key;
use adit_tables::{TablesReader, TablesView};
use adit_types::limits::BURST_MAX;
use adit_types::{Nanos, PortId, SessionIndex};
use adit_wire::Glance;

use super::event_io::port_note;
use super::pipeline::{ClassifiedFrame, classify_frames, poll, ues};
use super::run_to_completion::StepReport;
use crate::carried::Mark;
use crate::event_queues::{CLASSIFY, ENFORCE, EventQueues};
use crate::flows::{FlowMap, SharedFlows};
use crate::handoff::WorkerSet;
use crate::interfaces::Interfaces;
use crate::tally::{StepTally, WaitingCounts};

/// A port that accepts no frame for this long is down: its frames are dropped at once until it
/// accepts one.
const REFUSING_TIME_MAX: Nanos = Nanos::from_millis(100);

/// Maximum of bursts that an Rx/Tx thread transmits per step and port.
const TX_BURSTS_PER_PORT: usize = 2;

/// Number of flows of the Rx queue.
const RX_QUEUE_FLOWS: u32 = 64;

/// Configuration of an Rx/Tx thread.
#[derive(Debug, Clone)]
pub struct RxTxConfig {
    /// The index of this thread among the Rx/Tx threads.
    pub number: usize,
    /// The ports to poll, in this order; a port is listed once for each of its queues.
    pub ports: Vec<PortId>,
    /// Maximum of packets to receive from a queue per step; clamped to 1..=`BURST_MAX`.
    pub burst: usize,
}

/// The frames of one port that wait for room in its queue.
struct TxPort<B> {
    frames: Burst<B>,
    /// Since when the port has refused all frames; `None` if it accepted one since.
    refusing_since: Option<Nanos>,
}

/// A thread that receives packets for an event scheduler, and transmits frames that workers send.
///
/// The packet identity: every packet that it receives is handed off, or dropped because the
/// scheduler has no room. A frame that a port refuses for too long is counted as taken over and
/// dropped, because its worker counted it as transmitted.
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
    /// The time for which the last event of each worker's timer queue was sent, by worker.
    expired: Vec<Nanos>,
    io: core::marker::PhantomData<fn(Io)>,
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> core::fmt::Debug for RxTx<P, Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RxTx").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> RxTx<P, Io> {
    /// Creates an Rx/Tx thread over the tables and interfaces of `reader`, with a port of the
    /// scheduler that is linked to the thread's [queue](EventQueues::links). Allocates all memory
    /// that the thread will use.
    #[must_use]
    pub fn new(mut config: RxTxConfig, reader: TablesReader, flows: SharedFlows, port: P) -> Self {
        config.burst = config.burst.clamp(1, BURST_MAX);
        let interfaces = Interfaces::new(reader.interfaces());
        let tx = || TxPort { frames: Burst::new(), refusing_since: None };
        Self {
            config,
            tx: (0..interfaces.port_count()).map(|_| tx()).collect(),
            expired: vec![Nanos(0); flows.queues().timers()],
            interfaces,
            reader,
            flows,
            port,
            tally: StepTally::new(),
            rx: Burst::new(),
            io: core::marker::PhantomData,
        }
    }

    /// Polls every queue of the configuration once, passes received frames to the scheduler, and
    /// transmits frames.
    ///
    /// Cost:    no allocation, lock, system call or clock of its own. Per packet one cache line of
    ///          the frame and one of the key table, prefetched.
    /// Errors:  none; packets that the scheduler refuses are dropped as
    ///          [`DropReason::SchedulerFull`], frames that a port refuses for too long as
    ///          [`DropReason::TxQueueFull`].
    /// Threads: like [`Worker::step`](crate::Worker::step).
    #[inline(never)]
    pub fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        self.expire_timers(now);
        let Self { config, reader, interfaces, flows, port: scheduler, tally, rx, tx, .. } = self;
        let view = reader.observe();
        interfaces.update_from(&view);
        let (queues, flows) = (flows.queues(), flows.map());
        let received = poll(io, &config.ports, config.burst, rx, |port, rx| {
            tally.burst();
            let mut events: EventBurst<_> = match queues.rx() {
                Some(queue) => {
                    let flow = rx_flow(flows, config.number, port);
                    let tag = queue.tag(flow, port_note(port));
                    let event = |mut buf: P::Buf| {
                        tally.receive(buf.data().len());
                        Mark::None.set(&mut buf, flow);
                        Event { tag, buf: Some(buf) }
                    };
                    rx.drain(..).map(event).collect()
                }
                None => {
                    let frames = classify_frames(&view, interfaces.of_port(port), rx, tally);
                    let event = |(mut buf, frame): (P::Buf, &ClassifiedFrame<'_>)| {
                        let tag = first_tag(&view, queues, flows, frame, port);
                        Mark::None.set(&mut buf, tag.flow());
                        Event { tag, buf: Some(buf) }
                    };
                    rx.drain(..).zip(&frames).map(event).collect()
                }
            };
            tally.hand_off(scheduler.enqueue_new(&mut events));
            for _ in events {
                tally.drop(DropReason::SchedulerFull);
            }
        });
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

    /// Sends an event to the timer queue of each worker of this thread's share whose timer expired.
    fn expire_timers(&mut self, now: Nanos) {
        let Self { config, flows, port, expired, .. } = self;
        let queues = flows.queues();
        let own = flows.timers().iter().zip(expired).enumerate();
        for (worker, (timer, expired)) in own.skip(config.number).step_by(queues.rx_tx()) {
            if let Some(due) = timer.due(now).filter(|due| due != expired) {
                let queue = queues.timer_queue_of(worker);
                let tag = EventTag::new(queue, ScheduleType::Atomic, 0, 0);
                let mut events = EventBurst::from_iter([Event { tag, buf: None }]);
                // If the scheduler is full, the next step tries again.
                if port.enqueue_new(&mut events) > 0 {
                    *expired = due;
                }
            }
        }
    }

    /// Declares the thread offline until its next step, so that publication does not wait for it.
    /// To be called before a pause.
    pub fn rest(&mut self) {
        self.reader.go_offline();
    }

    /// Ends the thread: drops the frames that wait for ports.
    pub fn drain(&mut self) {
        for port in &mut self.tx {
            drop(mem::take(&mut port.frames));
        }
        self.rest();
    }

    /// Returns the port of the scheduler.
    pub const fn port(&self) -> &P {
        &self.port
    }
}

/// Dequeues frames, unless earlier ones still wait. Returns how many.
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

/// Transmits waiting frames. Returns whether the ports accepted all of them.
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

/// Drops the frames that a port has refused for too long. Returns whether there were any.
fn drop_refused<B: PacketBuf>(now: Nanos, tx: &mut [TxPort<B>], tally: &mut StepTally) -> bool {
    let mut has_dropped = false;
    for port in tx.iter_mut().filter(|port| !port.frames.is_empty()) {
        if now.since(*port.refusing_since.get_or_insert(now)) >= REFUSING_TIME_MAX {
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

/// Returns the flow in the Rx queue for packets that an Rx/Tx thread received on `port`. It does
/// not depend on the packet, which is not read.
fn rx_flow(flows: FlowMap, number: usize, port: PortId) -> u32 {
    flows.of_hash(u64::from(port.0) * 8 + number as u64 % 8) % RX_QUEUE_FLOWS
}

/// Returns the tag of the event for a packet that `port` received, to its first stage.
#[inline]
pub(super) fn first_tag(
    view: &TablesView<'_>,
    queues: &EventQueues,
    flows: FlowMap,
    frame: &ClassifiedFrame<'_>,
    port: PortId,
) -> EventTag {
    let stage = if can_classify_alone(frame) { CLASSIFY } else { ENFORCE };
    queues.queue_of_stage(stage).tag(flow_of(view, flows, frame), port_note(port))
}

/// True for packets that the first stage can classify alone.
fn can_classify_alone(frame: &ClassifiedFrame<'_>) -> bool {
    frame.link.is_some() && !matches!(frame.glance, Glance::Signaling | Glance::TunnelFragment(_))
}

/// Returns the flow of a packet's session; for a packet without a session, one flow for all packets
/// with the same key.
fn flow_of(view: &TablesView<'_>, flows: FlowMap, frame: &ClassifiedFrame<'_>) -> u32 {
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
