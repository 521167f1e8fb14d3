//! The caller's side of a release: which packets may leave.

use adit_types::Nanos;

use crate::flow::{Eligibility, QueueKey, QueuedPacket, TurnContext};

/// Decides which packets of flows may leave, and takes those that do.
///
/// For each turn of a flow: [`begin_turn`](Self::begin_turn), then for each packet
/// [`blocked_until`](Self::blocked_until), [`admit`](Self::admit) and
/// [`take`](Self::take), then [`end_turn`](Self::end_turn).
pub trait FlowServer<P> {
    /// State of one turn, such as the flow's buckets.
    type Turn;

    /// Prefetches what the turn of a flow reads.
    fn prefetch_flow(&self, _key: &QueueKey) {}

    /// Prefetches a value that is read soon.
    fn prefetch<T>(&self, _place: &T) {}

    /// Begins the turn of a flow.
    fn begin_turn(&mut self, key: &QueueKey) -> Self::Turn;

    /// Checks, before the next packet is read, whether the flow is blocked whatever that packet's
    /// length. Returns when the flow may be served again; `None` if [`FlowServer::admit`] decides.
    fn blocked_until(&mut self, _turn: &mut Self::Turn) -> Option<Nanos> {
        None
    }

    /// Admits the flow's next packet, of `bytes` octets, and charges its rates; or returns when it may
    /// leave. An admitted packet is taken next. Called only if [`FlowServer::blocked_until`] has just
    /// returned `None`.
    fn admit(&mut self, turn: &mut Self::Turn, bytes: u16, context: TurnContext) -> Eligibility;

    /// Takes a packet: to send it, or with `may_leave` false to drop it (see [`Eligibility::Never`]).
    fn take(&mut self, turn: &mut Self::Turn, may_leave: bool, held: QueuedPacket<P>);

    /// Ends the turn.
    fn end_turn(&mut self, turn: Self::Turn);
}

/// A server of two closures, without state for a turn.
#[derive(Debug)]
pub(crate) struct PerPacket<E, T> {
    pub(crate) admit: E,
    pub(crate) release: T,
}

impl<P, E, T> FlowServer<P> for PerPacket<E, T>
where
    E: FnMut(&QueueKey, u16, TurnContext) -> Eligibility,
    T: FnMut(&QueueKey, bool, QueuedPacket<P>),
{
    type Turn = QueueKey;

    fn begin_turn(&mut self, key: &QueueKey) -> QueueKey {
        *key
    }

    fn admit(&mut self, turn: &mut QueueKey, bytes: u16, context: TurnContext) -> Eligibility {
        (self.admit)(turn, bytes, context)
    }

    fn take(&mut self, turn: &mut QueueKey, may_leave: bool, held: QueuedPacket<P>) {
        (self.release)(turn, may_leave, held);
    }

    fn end_turn(&mut self, _: QueueKey) {}
}
