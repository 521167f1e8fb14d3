//! Output of an event-driven worker to the scheduler.

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

/// Events that a worker may have for the scheduler after a step: four bursts of packets that
/// waited, a burst for each of a few ports, and packets for other flows.
const OUTBOX_LEN: usize = 4096;

/// Notes of events without a packet: a request for the flow, and a fence of its holder.
pub(super) const REQUEST: u8 = 0;
pub(super) const FENCE: u8 = 1;

/// Events on their way from a worker to the scheduler.
pub(super) struct Outbox<B> {
    events: VecDeque<Event<B>>,
    /// Events that complete those of the last dequeue, if some came from an ordered queue.
    completions: EventBurst<B>,
}

impl<B: PacketBuf> Outbox<B> {
    pub(super) fn new() -> Self {
        Self { events: VecDeque::with_capacity(OUTBOX_LEN), completions: EventBurst::new() }
    }

    pub(super) fn room(&self) -> usize {
        OUTBOX_LEN.saturating_sub(self.events.len())
    }

    /// True without events, apart from those that complete others.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// True if there is room for the events that may follow from a burst of them, and the last one
    /// was ended.
    pub(super) fn can_take_events(&self) -> bool {
        self.completions.is_empty() && self.room() >= OUTBOX_LEN / 2
    }

    pub(super) fn push(&mut self, tag: EventTag, buf: Option<B>) {
        self.events.push_back(Event { tag, buf });
    }

    /// Sends a fence of a flow to the queue of its packets. Returns false without room.
    pub(super) fn fence(&mut self, queue: PacketQueue, flow: u32) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            self.push(queue.tag(flow, FENCE), None);
        }
        has_room
    }

    /// Ends each event of the dequeue with these tags, unless [`Outbox::complete`] names the event
    /// that follows from it.
    pub(super) fn expect_completions(&mut self, tags: impl Iterator<Item = EventTag>) {
        let release =
            |tag: EventTag| Event { tag: tag.with_operation(EventOperation::Release), buf: None };
        self.completions.extend(tags.map(release));
    }

    /// The number of events so far.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Says that the first events after `before` follow from the dequeued events at `indexes`, one
    /// from each.
    pub(super) fn complete(&mut self, before: usize, indexes: &[u8]) {
        let until = self.events.len().min(before + indexes.len());
        for (event, at) in self.events.drain(before..until).zip(indexes) {
            if let Some(completion) = self.completions.get_mut(usize::from(*at)) {
                let tag = event.tag.with_operation(EventOperation::Forward);
                *completion = Event { tag, ..event };
            }
        }
    }

    /// Enqueues all events, or as many as the scheduler takes. Returns whether it took all.
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

    /// Ends the events of the last dequeue, if some came from an ordered queue.
    pub(super) fn send_completions<P: EventPort<Buf = B>>(&mut self, port: &mut P) {
        if !self.completions.is_empty() {
            port.complete(&mut self.completions);
        }
    }

    /// Takes all events.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Event<B>> {
        self.events.drain(..).chain(self.completions.drain(..))
    }
}

/// The ports of a worker: transmitted frames go to a Tx queue, or to the queue of the next stage.
pub(super) struct EventIo<'e, Io: PacketIo> {
    pub(super) ports: &'e mut Io,
    pub(super) outbox: &'e mut Outbox<Io::Buf>,
    pub(super) queues: &'e EventQueues,
    pub(super) map: FlowMap,
    /// The queue of the stage that packets of sessions go to next; without one they leave.
    pub(super) next: Option<PacketQueue>,
    /// With several workers.
    pub(super) flows: Option<&'e SharedFlows>,
}

impl<Io: PacketIo> EventIo<'_, Io> {
    /// Sends a packet of `flow` to the queue of a later stage.
    #[inline]
    pub(super) fn send_on(&mut self, queue: PacketQueue, flow: u32, port: PortId, buf: Io::Buf) {
        if Mark::of(&buf) != Mark::None {
            count_sent(self.flows, queue, flow);
        }
        self.outbox.push(queue.tag(flow, note_of(port)), Some(buf));
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
                    queue.tag(flow, note_of(port))
                }
                None => {
                    let queue = queues.tx_of(flow);
                    EventTag::new(queue, ScheduleType::Atomic, port.0.into(), note_of(port))
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
        if self.hands_on() || self.queues.rx_tx() > 1 {
            Mark::Complete.set(buf, self.map.of(session));
        }
    }

    #[inline]
    fn hands_on(&self) -> bool {
        !self.queues.are_merged()
    }
}

/// A port in the tag of an event: `limits::PORTS_MAX` fits.
pub(super) fn note_of(port: PortId) -> u8 {
    port.0.to_le_bytes()[0]
}

const _: () = assert!(adit_types::limits::PORTS_MAX <= 256);
