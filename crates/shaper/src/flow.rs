//! What the queues, and whoever serves them, say to each other about a flow.

use adit_types::{Direction, Nanos, SessionIndex};

/// A set of rates that flows share, by their numbers.
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
    /// The rest of what identifies its rates; opaque to this crate.
    pub tag: u16,
}

/// A packet that waits.
#[derive(Debug)]
pub struct QueuedPacket<P> {
    /// The packet, and where it goes.
    pub packet: P,
    /// Octets that count for its rates.
    pub bytes: u16,
    /// Since when it waits.
    pub since: Nanos,
}

/// There is no room for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull;

/// When the first packet of a flow may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligibility {
    /// Now.
    Now,
    /// Not before.
    At(Nanos),
    /// When it has its turn at the rates that it shares.
    InTurn {
        /// The number of the first shared rate. The flow waits in its ring.
        own_rate: u8,
        /// The closed rate: `own_rate`, or a rate that all flows of `own_rate` share with others.
        rate: u8,
        /// When the closed rate admits packets again.
        at: Nanos,
        /// What the flow may send in a round. Shares are proportional to it. Unit: octets.
        quantum: u32,
    },
    /// Never: all packets of the flow are to be dropped.
    Never,
}

/// In which turn a flow is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnContext {
    /// It has its turn at this shared rate; `None`: its own time has come.
    pub rate: Option<u8>,
    /// The shared rates that flows wait for.
    pub contended: RateSet,
}

/// What becomes of a flow that is reviewed before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// It is served with the flows that are due.
    Recheck,
    /// Its packets leave now.
    Release,
    /// Its packets are dropped.
    Drop,
}
