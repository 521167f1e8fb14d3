//! The output of an event-driven worker to the event scheduler.

use std::collections::VecDeque;

use adit_pktio::{
    Burst, Event, EventBurst, EventOperation, EventPort, EventTag, PacketBuf, PacketIo,
    ScheduleType,
};
use adit_types::limits::BURST_MAX;
use adit_types::{PortId, SessionIndex};

use crate::carried::{Mark, flow_of_mark};
use crate::departures::Departures;
use crate::event_queues::{EventQueues, PacketQueue};
use crate::flows::{FlowMap, SharedFlows};

/// Maximum of events that a worker may have for the scheduler after a step: four bursts of packets
/// that waited, a burst for each of a few ports, and packets of flows that other workers have.
const OUTBOX_LEN: usize = 4096;

/// Notes, in their tags, of events without a packet: a request for a flow, and a holder's fence.
pub(super) const REQUEST: u8 = 0;
pub(super) const FENCE: u8 = 1;

/// The events on their way from a worker to the scheduler.
pub(super) struct Outbox<B> {
    events: VecDeque<Event<B>>,
    /// Events that complete those of the last dequeue; empty if none came from an ordered queue.
    completions: EventBurst<B>,
}

impl<B: PacketBuf> Outbox<B> {
    pub(super) fn new() -> Self {
        Self { events: VecDeque::with_capacity(OUTBOX_LEN), completions: EventBurst::new() }
    }

    pub(super) fn room(&self) -> usize {
        OUTBOX_LEN.saturating_sub(self.events.len())
    }

    /// True if no events wait, other than those that complete dequeued ones.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// True if the last dequeue was completed, and there is room for the events that may follow
    /// from another one.
    pub(super) fn can_take_events(&self) -> bool {
        self.completions.is_empty() && self.room() >= OUTBOX_LEN / 2
    }

    pub(super) fn push(&mut self, tag: EventTag, buf: Option<B>) {
        self.events.push_back(Event { tag, buf });
    }

    /// Adds a fence of a flow, for the queue of its packets. Returns false if there is no room.
    pub(super) fn fence(&mut self, queue: PacketQueue, flow: u32) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            self.push(queue.tag(flow, FENCE), None);
        }
        has_room
    }

    /// Prepares the completion of the dequeued events with these tags: each is released, unless
    /// [`Outbox::complete`] replaces it by the event that follows from it.
    pub(super) fn expect_completions(&mut self, tags: impl Iterator<Item = EventTag>) {
        let release =
            |tag: EventTag| Event { tag: tag.with_operation(EventOperation::Release), buf: None };
        self.completions.extend(tags.map(release));
    }

    /// Returns the number of events so far.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Notes that the first events after the first `before` follow from the dequeued events at
    /// `indexes`, one from each.
    pub(super) fn complete(&mut self, before: usize, indexes: &[u8]) {
        let until = self.events.len().min(before + indexes.len());
        for (event, at) in self.events.drain(before..until).zip(indexes) {
            if let Some(completion) = self.completions.get_mut(usize::from(*at)) {
                let tag = event.tag.with_operation(EventOperation::Forward);
                *completion = Event { tag, ..event };
            }
        }
    }

    /// Enqueues as many events as the scheduler accepts. Returns whether it accepted all.
    pub(super) fn send<P: EventPort<Buf = B>>(&mut self, port: &mut P) -> bool {
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

    /// Completes the events of the last dequeue, if any came from an ordered queue.
    pub(super) fn send_completions<P: EventPort<Buf = B>>(&mut self, port: &mut P) {
        if !self.completions.is_empty() {
            port.complete(&mut self.completions);
        }
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Event<B>> {
        self.events.drain(..).chain(self.completions.drain(..))
    }
}

/// The way out of an event-driven worker: frames go to a Tx queue, or to the next stage's queue.
pub(super) struct EventIo<'e, Io: PacketIo> {
    pub(super) ports: &'e mut Io,
    pub(super) outbox: &'e mut Outbox<Io::Buf>,
    pub(super) queues: &'e EventQueues,
    pub(super) map: FlowMap,
    /// The queue that packets of sessions enter next; `None` if they leave as frames.
    pub(super) next: Option<PacketQueue>,
    /// `None` if there is only one worker.
    pub(super) flows: Option<&'e SharedFlows>,
}

impl<Io: PacketIo> EventIo<'_, Io> {
    /// Sends a packet of `flow` to the queue of a later stage.
    #[inline]
    pub(super) fn send_on(&mut self, queue: PacketQueue, flow: u32, port: PortId, buf: Io::Buf) {
        if Mark::of(&buf) != Mark::None {
            count_sent(self.flows, queue, flow);
        }
        self.outbox.push(queue.tag(flow, port_note(port)), Some(buf));
    }
}

/// Counts a packet of `flow` that goes to `queue`.
#[inline]
fn count_sent(flows: Option<&SharedFlows>, queue: PacketQueue, flow: u32) {
    if let Some(flows) = flows {
        flows.count_sent(flows.place(queue.position().saturating_sub(1), flow));
    }
}

impl<Io: PacketIo> Departures for EventIo<'_, Io> {
    type Buf = Io::Buf;

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Io::Buf>) -> usize {
        let count = burst.len().min(self.outbox.room());
        let Self { queues, next, flows, .. } = *self;
        let event = |buf: Io::Buf| {
            let flow = flow_of_mark(&buf);
            let tag = match next.filter(|_| Mark::of(&buf) != Mark::None) {
                Some(queue) => {
                    count_sent(flows, queue, flow);
                    queue.tag(flow, port_note(port))
                }
                None => {
                    let queue = queues.tx_queue_of(flow);
                    EventTag::new(queue, ScheduleType::Atomic, port.0.into(), port_note(port))
                }
            };
            Event { tag, buf: Some(buf) }
        };
        self.outbox.events.extend(burst.drain(..count).map(event));
        count
    }

    fn alloc(&mut self) -> Option<Io::Buf> {
        let mut buf = PacketIo::alloc(self.ports)?;
        Mark::None.set(&mut buf, 0);
        Some(buf)
    }

    #[inline]
    fn mark(&self, buf: &mut Io::Buf, session: SessionIndex) {
        if self.has_later_stage() || self.queues.rx_tx() > 1 {
            Mark::Complete.set(buf, self.map.of(session));
        }
    }

    #[inline]
    fn has_later_stage(&self) -> bool {
        !self.queues.are_merged()
    }
}

/// Encodes a port for the tag of an event: every port below `limits::PORTS_MAX` fits.
pub(super) fn port_note(port: PortId) -> u8 {
    port.0.to_le_bytes()[0]
}

const _: () = assert!(adit_types::limits::PORTS_MAX <= 256);
