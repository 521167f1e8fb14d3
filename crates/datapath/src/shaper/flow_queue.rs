//! One flow: its cache line, the nodes that hold its packets, and its share in the rounds of a
//! shared rate.

use adit_types::{Direction, Nanos, SessionIndex};

use crate::shaper::flow::{QueueKey, QueuedPacket};

/// Stands for no packet and for no flow.
pub(crate) const NONE: u32 = u32::MAX;

/// The share of a flow or ring in the rounds of a shared rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundShare {
    /// How much the member may send in a round. Unit: octets.
    pub(crate) quantum: u32,
    /// How much the member may still send in this round. Unit: octets.
    pub(crate) credit: u32,
    /// True if the quantum of this round was added to `credit`.
    pub(crate) has_quantum: bool,
}

impl RoundShare {
    pub(crate) const NONE: Self = Self { quantum: 0, credit: 0, has_quantum: false };

    /// Adds the quantum to the credit, once per round.
    pub(crate) fn add_quantum(&mut self) {
        if !core::mem::replace(&mut self.has_quantum, true) {
            self.credit = self.credit.saturating_add(self.quantum);
        }
    }
}

/// A place for a packet that waits.
#[derive(Debug)]
pub(crate) struct QueueNode<P> {
    /// `None` while the node is free.
    pub(crate) packet: Option<P>,
    pub(crate) since: Nanos,
    /// The next packet of the same flow, or the next free node.
    pub(crate) next: u32,
    pub(crate) bytes: u16,
}

impl<P> QueueNode<P> {
    /// Puts a packet into a free node. Returns the next free node.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): runs for every packet that waits. As no old value is
    // dropped, the packet is written from registers.
    pub(crate) fn fill(&mut self, QueuedPacket { packet, bytes, since }: QueuedPacket<P>) -> u32 {
        let none = self.packet.replace(packet);
        debug_assert!(none.is_none(), "a free node");
        core::mem::forget(none);
        (self.since, self.bytes) = (since, bytes);
        core::mem::replace(&mut self.next, NONE)
    }

    /// Takes the packet of this node, which is the first of `flow`; the node becomes the first free
    /// one.
    #[inline]
    pub(crate) fn take(&mut self, flow: &mut FlowQueue, free: &mut u32) -> Option<QueuedPacket<P>> {
        let packet = self.packet.take()?;
        let number = flow.first;
        flow.first = self.next;
        self.next = *free;
        *free = number;
        flow.count -= 1;
        Some(QueuedPacket { packet, bytes: self.bytes, since: self.since })
    }
}

/// One flow: its queue of packets. Or a free entry for a flow.
///
/// PERF (datapath/shaper): one cache line, and never moved: a release reads flows in random order.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct FlowQueue {
    pub(crate) key: QueueKey,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Number of packets; zero while the entry is free.
    pub(crate) count: u32,
    /// The next flow of the same direction and session, or the next free entry.
    pub(crate) sibling: u32,
    /// The shared rate in whose ring the flow waits; valid while [`FlowQueue::is_in_ring`].
    pub(crate) ring: u8,
    pub(crate) share: RoundShare,
}

impl FlowQueue {
    pub(crate) const FREE: Self = Self {
        key: QueueKey {
            session: SessionIndex::NONE,
            direction: Direction::Uplink,
            buckets: 0,
            tag: 0,
        },
        first: NONE,
        last: NONE,
        count: 0,
        sibling: NONE,
        ring: 0,
        share: RoundShare::NONE,
    };

    /// True if the flow waits in the ring of a shared rate, not in the wheel.
    pub(crate) const fn is_in_ring(&self) -> bool {
        self.share.quantum > 0
    }
}

const _: () = assert!(size_of::<FlowQueue>() == 64, "one cache line");

/// A free node for a packet at the end of a flow.
#[derive(Debug)]
pub struct FreePlace<'q, P> {
    pub(crate) len: &'q mut usize,
    pub(crate) nodes: &'q mut [QueueNode<P>],
    pub(crate) free_node: &'q mut u32,
    pub(crate) flow: &'q mut FlowQueue,
}

impl<P> FreePlace<'_, P> {
    /// Puts a packet into the node, at the end of the flow.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): runs for every packet that waits.
    pub fn fill(self, held: QueuedPacket<P>) {
        let Self { len, nodes, free_node, flow } = self;
        let number = *free_node;
        // Cannot fail: the node was checked when the place was found.
        let Some(node) = nodes.get_mut(number as usize) else { return };
        *free_node = node.fill(held);
        *len += 1;
        flow.count += 1;
        let last = core::mem::replace(&mut flow.last, number);
        if let Some(last) = nodes.get_mut(last as usize) {
            last.next = number;
        }
    }
}

/// The first packet of a flow that may send now.
#[derive(Debug)]
pub struct NextPacket<'q, P> {
    pub(crate) node: &'q mut QueueNode<P>,
    pub(crate) flow: &'q mut FlowQueue,
    pub(crate) free_node: &'q mut u32,
}

impl<P> NextPacket<'_, P> {
    /// Returns the key of the flow.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> QueueKey {
        self.flow.key
    }

    /// Returns the octets to charge to the packet's rates.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> u16 {
        self.node.bytes
    }

    /// Removes and returns the packet. Never `None`.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): runs for every packet that leaves its queue.
    pub fn take(self) -> Option<QueuedPacket<P>> {
        self.node.take(self.flow, self.free_node)
    }
}
