//! The caller's side of a release: decides which packets may leave, and takes them.

use adit_types::Nanos;

use crate::shaper::flow::{Eligibility, QueueKey, QueuedPacket, TurnContext};
use crate::shaper::flow_queue::NextPacket;

/// Decides which packets of flows may leave, and takes them.
///
/// For each packet of a flow that the wheel woke, [`serve_alone`](Self::serve_alone) is called. If
/// that returns [`AloneResult::Shared`], and in turns at a shared rate, the calls are
/// [`begin_turn`](Self::begin_turn), then for each packet [`admit`](Self::admit) and
/// [`take`](Self::take), then [`end_turn`](Self::end_turn).
pub trait FlowServer<P> {
    /// State during one turn, such as the flow's buckets.
    type Turn;

    /// Prefetches the cache lines that the turn of a flow reads.
    fn prefetch_flow(&self, _key: &QueueKey) {}

    /// Prefetches a value that will be read soon.
    fn prefetch<T>(&self, _place: &T) {}

    /// Takes the next packet of a flow that shares its rates with no other flow, if they admit it.
    // PERF (adit-bench datapath --rates wait): one packet per call, because most turns have one,
    // and a loop would keep the state that its packets share in memory.
    #[inline]
    fn serve_alone(&mut self, _packet: NextPacket<'_, P>) -> AloneResult {
        AloneResult::Shared
    }

    /// Begins the turn of a flow.
    fn begin_turn(&mut self, key: &QueueKey) -> Self::Turn;

    /// Charges the flow's next packet, of `bytes` octets, if its rates admit it; returns when the
    /// packet may leave. An admitted packet is taken next.
    fn admit(&mut self, turn: &mut Self::Turn, bytes: u16, context: TurnContext) -> Eligibility;

    /// Takes a packet to send it, or, if `may_leave` is false, to drop it ([`Eligibility::Never`]).
    fn take(&mut self, turn: &mut Self::Turn, may_leave: bool, held: QueuedPacket<P>);

    /// Ends the turn of a flow.
    fn end_turn(&mut self, turn: Self::Turn);
}

/// The result of [`FlowServer::serve_alone`] for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AloneResult {
    /// The packet was taken, and the rates admit another one.
    Taken,
    /// The packet was taken, and the rates are closed until this time.
    TakenLast(Nanos),
    /// The packet was not taken: the rates are closed until this time.
    Closed(Nanos),
    /// The packet was not taken: the flow has to be served by [`FlowServer::begin_turn`].
    Shared,
}

/// A server of two closures, without state for a turn.
#[derive(Debug)]
pub(crate) struct ClosureServer<E, T> {
    pub(crate) admit: E,
    pub(crate) release: T,
}

impl<P, E, T> FlowServer<P> for ClosureServer<E, T>
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
