//! The event-scheduler contract: packets that wait in queues until a scheduler gives them to a
//! core.
//!
//! A scheduler has queues and ports. A core enqueues events into queues through its port and
//! dequeues the events that the scheduler chose for it. Events of one flow in an atomic queue are
//! with one port at a time, in order. `adit_testkit::mem_events` is an in-memory scheduler for
//! tests.

use adit_types::PortId;
use adit_types::limits::BURST_MAX;
use arrayvec::ArrayVec;

use crate::PacketBuf;

/// Events that move together between a scheduler and a core, in order.
pub type EventBurst<B> = ArrayVec<Event<B>, BURST_MAX>;

/// How a scheduler orders the events of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleType {
    /// Events of a flow may be with several ports; they enter the next queue in their order.
    Ordered,
    /// Events of a flow are with one port at a time.
    Atomic,
    /// Events of a flow may be with any ports, in any order.
    Parallel,
}

impl ScheduleType {
    const fn code(self) -> u64 {
        match self {
            Self::Ordered => 0,
            Self::Atomic => 1,
            Self::Parallel => 2,
        }
    }
}

/// The tag of an event: queue, flow, and a note of 8 bits, which its sender chose.
///
/// The layout is that of DPDK's `struct rte_event`, so that drivers pass events on without copying
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct EventTag(u64);

const FLOW_BITS: u32 = 20;
const NOTE_SHIFT: u32 = 20;
/// An event of the processor, as opposed to one of a device. DPDK: `RTE_EVENT_TYPE_CPU`.
const TYPE_CPU: u64 = 3 << 28;
const OPERATION_SHIFT: u32 = 32;
const OPERATION_MASK: u64 = 3 << OPERATION_SHIFT;
const SCHEDULE_SHIFT: u32 = 38;
const QUEUE_SHIFT: u32 = 40;
const PRIORITY_SHIFT: u32 = 48;
/// DPDK: `RTE_EVENT_DEV_PRIORITY_NORMAL`.
const PRIORITY_NORMAL: u64 = 128;

/// Number of flows that a tag can distinguish.
pub const EVENT_FLOWS_MAX: u32 = 1 << FLOW_BITS;

impl EventTag {
    /// Returns the tag of a new event of `flow` (below [`EVENT_FLOWS_MAX`]) for `queue`. The
    /// scheduler passes `note` on unchanged.
    #[inline]
    #[must_use]
    pub const fn new(queue: u8, schedule: ScheduleType, flow: u32, note: u8) -> Self {
        Self(
            (flow & (EVENT_FLOWS_MAX - 1)) as u64
                | (note as u64) << NOTE_SHIFT
                | TYPE_CPU
                | schedule.code() << SCHEDULE_SHIFT
                | (queue as u64) << QUEUE_SHIFT
                | PRIORITY_NORMAL << PRIORITY_SHIFT,
        )
    }

    /// The event's queue.
    #[inline]
    #[must_use]
    pub const fn queue(self) -> u8 {
        (self.0 >> QUEUE_SHIFT).to_le_bytes()[0]
    }

    /// The event's flow.
    #[inline]
    #[must_use]
    pub const fn flow(self) -> u32 {
        let [a, b, c, ..] = self.0.to_le_bytes();
        u32::from_le_bytes([a, b, c, 0]) & (EVENT_FLOWS_MAX - 1)
    }

    /// The note that the event's sender chose.
    #[inline]
    #[must_use]
    pub const fn note(self) -> u8 {
        (self.0 >> NOTE_SHIFT).to_le_bytes()[0]
    }

    /// Returns the note as a port: the one on which a packet arrived, or through which it leaves.
    #[inline]
    #[must_use]
    pub const fn port(self) -> PortId {
        PortId(self.note() as u16)
    }

    /// Returns the event's operation, which says how it relates to dequeued events.
    #[inline]
    #[must_use]
    pub const fn operation(self) -> EventOperation {
        match (self.0 & OPERATION_MASK) >> OPERATION_SHIFT {
            0 => EventOperation::New,
            1 => EventOperation::Forward,
            _ => EventOperation::Release,
        }
    }

    /// Returns the tag with another operation.
    #[inline]
    #[must_use]
    pub const fn with_operation(self, operation: EventOperation) -> Self {
        Self(self.0 & !OPERATION_MASK | (operation as u64) << OPERATION_SHIFT)
    }
}

/// How an enqueued event relates to dequeued events. The values are DPDK's `RTE_EVENT_OP_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EventOperation {
    /// An event that follows from no dequeued one.
    New = 0,
    /// The event that follows from a dequeued one.
    Forward = 1,
    /// Ends a dequeued event from which nothing follows.
    Release = 2,
}

/// One event.
#[derive(Debug)]
#[repr(C)]
pub struct Event<B> {
    /// Its queue, flow, note and operation.
    pub tag: EventTag,
    /// Its packet; an event of a timer has none.
    pub buf: Option<B>,
}

/// Counts of an event port since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventPortCounts {
    /// Events that were enqueued.
    pub enqueued: u64,
    /// Events that were dequeued.
    pub dequeued: u64,
    /// Events that the scheduler did not accept at once.
    pub refused: u64,
}

/// One core's port of an event scheduler.
///
/// A port holds the events of a dequeue until the next dequeue: until then no other port gets
/// events of the same flows in atomic queues.
///
/// Threads: owned by one core; not shared.
pub trait EventPort {
    /// The packets that events carry.
    type Buf: PacketBuf;

    /// Releases the flows of the previous dequeue, and appends at most `limit` events to `events`.
    /// Returns how many were appended.
    ///
    /// Cost: one driver call. Never blocks. `limit` is cut to the room left in `events`.
    fn dequeue(&mut self, limit: usize, events: &mut EventBurst<Self::Buf>) -> usize;

    /// Enqueues `events` that follow from those of the last dequeue; events that the scheduler did
    /// not take stay, in order. An atomic flow of the last dequeue may pass to another port as soon
    /// as an event is enqueued, so enqueue after the last event was processed. Returns how many
    /// were enqueued.
    ///
    /// Cost: at most two driver calls. Never blocks.
    fn enqueue(&mut self, events: &mut EventBurst<Self::Buf>) -> usize;

    /// Enqueues `events` that are new to the scheduler; it refuses them while too many are in
    /// flight. Events that it did not take stay, in order. Returns how many were enqueued.
    ///
    /// Cost: one driver call. Never blocks.
    fn enqueue_new(&mut self, events: &mut EventBurst<Self::Buf>) -> usize;

    /// Ends all events of the last dequeue. `events` has one for each of them, in the same order:
    /// an event that [follows](EventOperation::Forward) from it, or its
    /// [release](EventOperation::Release). Events that follow from those of an ordered queue enter
    /// other queues in their order. Events that the scheduler did not take stay, in order, and have
    /// to be passed again before the next dequeue. Events of atomic and parallel queues need not be
    /// ended. Returns how many were taken.
    ///
    /// Cost: at most two driver calls. Never blocks.
    fn complete(&mut self, events: &mut EventBurst<Self::Buf>) -> usize;

    /// Passes on events that the driver holds back to form bursts. Cores call this when they have
    /// no events.
    fn flush(&mut self);

    /// The counts of the port so far.
    fn counts(&self) -> EventPortCounts;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_keeps_every_field_apart() {
        let tag = EventTag::new(6, ScheduleType::Parallel, EVENT_FLOWS_MAX - 1, 0xa5);
        for operation in [EventOperation::Forward, EventOperation::Release, EventOperation::New] {
            assert_eq!(tag.with_operation(operation).operation(), operation);
        }
        assert_eq!((tag.queue(), tag.flow(), tag.note()), (6, EVENT_FLOWS_MAX - 1, 0xa5));
        assert_eq!(tag.port(), PortId(0xa5));
        let plain = EventTag::new(6, ScheduleType::Parallel, EVENT_FLOWS_MAX - 1, 0xa5);
        assert_eq!(tag.with_operation(EventOperation::New), plain);
        assert_eq!(EventTag::new(255, ScheduleType::Atomic, 0, 0).flow(), 0);
    }
}
