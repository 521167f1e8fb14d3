//! The types by which the queues and their caller describe flows, packets and turns.

use adit_types::{Direction, Nanos, SessionIndex};

/// A set of shared rates, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateSet(u64);

impl RateSet {
    /// True when rate `number` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, number: u8) -> bool {
        self.0 >> (number % 64) & 1 != 0
    }

    /// True for the empty set.
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
    /// The session's buckets: bit n is bucket n.
    pub buckets: u64,
    /// The rest of the key of its rates; opaque to this crate.
    pub tag: u16,
}

/// A packet that waits.
#[derive(Debug)]
pub struct QueuedPacket<P> {
    /// The packet, and where it goes.
    pub packet: P,
    /// Octets that count for its rates.
    pub bytes: u16,
    /// When it began to wait.
    pub since: Nanos,
}

/// No packet can be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull;

/// When the first packet of a flow may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligibility {
    /// Now.
    Now,
    /// At this time, or later.
    At(Nanos),
    /// When it has its turn at the shared rates.
    InTurn(RingWait),
    /// Never: all packets of the flow are to be dropped.
    Never,
}

/// How a flow waits in the ring of a shared rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingWait {
    /// The shared rate in whose ring the flow waits: the first that it shares.
    pub ring_rate: u8,
    /// The rate that blocks the flow: `ring_rate`, or another that all flows of `ring_rate` share.
    /// It is closed, or other flows have their turn first.
    pub rate: u8,
    /// When that rate opens; now if other flows have their turn first.
    pub at: Nanos,
    /// The octets that the flow may send in a round; less than 512 counts as 512. From there on,
    /// shares are proportional to it. Unit: octets.
    pub quantum: u32,
}

/// In which turn a flow is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnContext {
    /// The shared rate whose ring is being served; `None` if the packet arrives, or the wheel woke
    /// the flow itself.
    pub rate: Option<u8>,
    /// See [`Queues::contended`](crate::shaper::Queues::contended).
    pub contended: RateSet,
}

/// The outcome of a review of a flow before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// Its rates are checked when it is served next; see
    /// [`Queues::review`](crate::shaper::Queues::review).
    Recheck,
    /// Its packets leave now.
    Release,
    /// Its packets are dropped.
    Drop,
}
