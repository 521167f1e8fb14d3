//! The types by which the shaper's queues and their caller describe flows, packets and turns.

use adit_types::{Direction, Nanos, SessionIndex};

/// A set of shared rates, by their indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateSet(u64);

impl RateSet {
    /// True if the rate with the index `number` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, number: u8) -> bool {
        self.0 >> (number % 64) & 1 != 0
    }

    /// True if the set is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn set(&mut self, number: u8, is_in: bool) {
        let bit = 1 << (number % 64);
        self.0 = if is_in { self.0 | bit } else { self.0 & !bit };
    }
}

/// The key of a queue: packets of one direction of a session that pass the same buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueKey {
    /// The session.
    pub session: SessionIndex,
    /// The direction.
    pub direction: Direction,
    /// The session's buckets that the packets pass: bit n is bucket n.
    pub buckets: u64,
    /// The rest of the key, which selects the shared rates; opaque to the shaper.
    pub tag: u16,
}

/// A packet that waits.
#[derive(Debug)]
pub struct QueuedPacket<P> {
    /// The packet, and where it goes.
    pub packet: P,
    /// Octets to charge to the packet's rates.
    pub bytes: u16,
    /// When it began to wait.
    pub since: Nanos,
}

/// Error: no node or flow is free for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull;

/// When the first packet of a flow may leave its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligibility {
    /// Now.
    Now,
    /// At this time or later.
    At(Nanos),
    /// When it is the flow's turn at the shared rates.
    InTurn(RingWait),
    /// Never: all packets of the flow are to be dropped.
    Never,
}

/// How a flow waits in the ring of a shared rate, for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingWait {
    /// The shared rate in whose ring the flow waits: the first shared rate that its packets pass.
    pub ring_rate: u8,
    /// The rate that blocks the flow: `ring_rate`, or another one that all flows of that ring pass.
    /// It is closed, or it is another flow's turn.
    pub rate: u8,
    /// When that rate opens; now if it is another flow's turn.
    pub at: Nanos,
    /// How much the flow may send in a round; less than 512 counts as 512. Above that, flows get
    /// shares in proportion to their quanta. Unit: octets.
    pub quantum: u32,
}

/// The turn in which a flow is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnContext {
    /// The shared rate whose ring is being served; `None` if the packet is arriving, or if the
    /// wheel woke the flow itself.
    pub rate: Option<u8>,
    /// The rates that flows wait for; see
    /// [`Queues::contended`](crate::shaper::Queues::contended).
    pub contended: RateSet,
}

/// The result of reviewing a flow before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// The flow's rates are checked when it is served next; see
    /// [`Queues::review`](crate::shaper::Queues::review).
    Recheck,
    /// The flow's packets leave now.
    Release,
    /// The flow's packets are dropped.
    Drop,
}
