//! The packets on their way from the event scheduler to the stages of a worker.

use std::collections::VecDeque;

use adit_pktio::{Burst, Event, EventBurst, EventTag, PacketBuf, ScheduleType};
use adit_rules::DropReason;
use adit_types::PortId;
use adit_types::limits::BURST_MAX;
use arrayvec::ArrayVec;

use super::event_io::{FENCE, Outbox};
use crate::carried::{Mark, flow_of_mark, rx_flow_of_mark};
use crate::event_queues::{EventQueues, PacketQueue};
use crate::flows::{FlowHolder, Flows};
use crate::handoff::{HandedPacket, Handoff};
use crate::tally::StepTally;

/// Maximum of packets that a worker defers; others are dropped.
const DEFERRED_MAX: usize = 4096;

/// The origin of packets in a step: the position of their queue, and the port that received them or
/// that they leave through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct QueuePort {
    pub(super) position: usize,
    pub(super) port: PortId,
}

/// The packets of a step that came from one queue and one port.
pub(super) struct ArrivedPackets<B> {
    pub(super) packets: Burst<B>,
    /// For an ordered queue: the index of each packet's event among the dequeued events.
    pub(super) indexes: ArrayVec<u8, BURST_MAX>,
}

/// The packets on their way from the scheduler to the stages.
pub(super) struct EventInbox<B> {
    pub(super) events: EventBurst<B>,
    /// The packets of the step, by queue, then by port.
    pub(super) arrived: Vec<ArrivedPackets<B>>,
    ports: usize,
    /// Packets that wait until the next queue has given out earlier packets of their flows.
    pub(super) deferred: DeferredPackets<B>,
    /// True if events came in this step.
    pub(super) has_events: bool,
    /// True if an event of the timer queue came in this step.
    pub(super) has_timer: bool,
}

impl<B: PacketBuf> EventInbox<B> {
    /// Allocates memory for packets of `queues`, and of ports below `ports`.
    pub(super) fn new(queues: &EventQueues, ports: usize) -> Self {
        let bursts = ports * queues.of_packets().count();
        let arrived = || ArrivedPackets { packets: Burst::new(), indexes: ArrayVec::new() };
        Self {
            events: EventBurst::new(),
            arrived: core::iter::repeat_with(arrived).take(bursts).collect(),
            ports,
            deferred: DeferredPackets { packets: VecDeque::with_capacity(DEFERRED_MAX) },
            has_events: false,
            has_timer: false,
        }
    }

    /// Sorts the packets of events by queue and port. Hands packets at places that other workers
    /// hold to these workers.
    pub(super) fn sort(
        &mut self,
        queues: &EventQueues,
        outbox: &mut Outbox<B>,
        handoff: &mut Handoff<B>,
        tally: &mut StepTally,
    ) {
        let Self { events, arrived, has_events, has_timer, .. } = self;
        let is_ordered =
            |event: &Event<B>| queues.queue_of_tag(event.tag).is_some_and(PacketQueue::is_ordered);
        if queues.are_any_ordered() && events.iter().any(is_ordered) {
            outbox.expect_completions(events.iter().map(|event| event.tag));
        }
        if queues.rx().is_some()
            && let Some(flows) = handoff.flows()
        {
            count_received(flows, events);
        }
        (*has_events, *has_timer) = (!events.is_empty(), false);
        for (at, Event { tag, buf }) in (0..).zip(events.drain(..)) {
            let Some(queue) = queues.queue_of_tag(tag) else {
                *has_timer = true;
                continue;
            };
            let port = tag.port();
            let holder = match handoff.flows() {
                Some(flows) => schedule(flows, queue, tag, buf.as_ref()),
                None => FlowHolder::This,
            };
            let Some(buf) = buf else { continue };
            let slot = queue.position() * self.ports + usize::from(port.0);
            match (holder, arrived.get_mut(slot)) {
                (FlowHolder::This, Some(ArrivedPackets { packets, indexes })) => {
                    packets.push(buf);
                    if queue.is_ordered() {
                        indexes.push(at);
                    }
                }
                (FlowHolder::Other(holder), _) => {
                    tally.set_taken_over(true);
                    tally.receive(buf.data().len());
                    tally.set_taken_over(false);
                    let place = handoff
                        .flows()
                        .map(|flows| flows.shared().place(queue.position(), tag.flow()));
                    let place = place.unwrap_or(0);
                    let packet = HandedPacket { buf, port, place, number: 0 };
                    handoff.hand_to_holder(holder, packet, tally);
                }
                // Cannot happen: Rx/Tx threads and workers have the same ports.
                (FlowHolder::This, None) => debug_assert!(false, "a port beyond all others"),
            }
        }
    }
}

/// Counts the packets that came from the Rx queue; consecutive ones with the same flow there at
/// once.
fn count_received<B: PacketBuf>(flows: &Flows, events: &[Event<B>]) {
    let (mut last, mut pkts) = (None, 0);
    let count = |last: Option<u32>, pkts| {
        if let Some(rx_flow) = last {
            flows.shared().count_received(rx_flow, pkts);
        }
    };
    for event in events {
        // Packets in the Rx queue itself have no mark of it yet.
        let rx_flow = event.buf.as_ref().and_then(rx_flow_of_mark);
        if rx_flow != last {
            count(last, pkts);
            (last, pkts) = (rx_flow, 0);
        }
        pkts += 1;
    }
    count(last, pkts);
}

/// Notes an event in the state of its flow. Returns which worker processes its packet.
#[inline]
fn schedule<B: PacketBuf>(
    flows: &mut Flows,
    queue: PacketQueue,
    tag: EventTag,
    buf: Option<&B>,
) -> FlowHolder {
    let is_atomic = queue.schedule == ScheduleType::Atomic;
    if let Some(buf) = buf.filter(|_| queue.position() > 0)
        && Mark::of(buf) != Mark::None
    {
        // The tag of an event in a queue that is not atomic need not name the flow; the mark does.
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
        // A request or fence needs no hand-over: the holder has the flow already.
        if let FlowHolder::Other(_) = holder {
            flows.settle_packet(place);
        }
    }
    holder
}

/// A packet that waits until the next queue has given out earlier packets of its flow.
pub(super) struct DeferredPacket<B> {
    pub(super) place: u32,
    pub(super) port: PortId,
    pub(super) buf: B,
}

/// Packets that wait until the next queues have given out earlier packets of their flows.
pub(super) struct DeferredPackets<B> {
    packets: VecDeque<DeferredPacket<B>>,
}

impl<B: PacketBuf> DeferredPackets<B> {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Removes those of `packets` that have to wait, and keeps them here.
    pub(super) fn defer(
        &mut self,
        QueuePort { position, port }: QueuePort,
        packets: &mut Burst<B>,
        handoff: &mut Handoff<B>,
        tally: &mut StepTally,
    ) {
        let Some(flows) = handoff.flows().filter(|flows| flows.defers_any()) else { return };
        for buf in core::mem::take(packets) {
            let place = flows.shared().place(position, flow_of_mark(&buf));
            if !flows.must_defer(place) {
                packets.push(buf);
            } else if self.packets.len() < DEFERRED_MAX {
                self.packets.push_back(DeferredPacket { place, port, buf });
            } else {
                tally.receive(buf.data().len());
                tally.drop(DropReason::HandoffFull);
            }
        }
    }

    /// Removes and returns the next packet that need not wait any more. `left`: how many packets
    /// are still to be examined; the others stay, in order.
    pub(super) fn take(&mut self, flows: &Flows, left: &mut usize) -> Option<DeferredPacket<B>> {
        while *left > 0 {
            *left -= 1;
            let packet = self.packets.pop_front()?;
            if !flows.must_defer(packet.place) {
                return Some(packet);
            }
            self.packets.push_back(packet);
        }
        None
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = B> {
        self.packets.drain(..).map(|packet| packet.buf)
    }
}
