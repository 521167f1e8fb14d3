//! The caller's side of a release: which packets may leave.

use adit_types::Nanos;

use crate::shaper::flow::{Eligibility, QueueKey, QueuedPacket, TurnContext};
use crate::shaper::flow_queue::NextPacket;

/// Decides which packets of flows may leave, and takes those that do.
///
/// For each packet of a flow from the wheel: [`serve_alone`](Self::serve_alone). If that leaves the
/// flow, and for turns at a shared rate: [`begin_turn`](Self::begin_turn), then for each packet
/// [`admit`](Self::admit) and [`take`](Self::take), then [`end_turn`](Self::end_turn).
pub trait FlowServer<P> {
    /// State of one turn, such as the flow's buckets.
    type Turn;

    /// Prefetches the lines that the turn of a flow reads.
    fn prefetch_flow(&self, _key: &QueueKey) {}

    /// Prefetches a value that is read soon.
    fn prefetch<T>(&self, _place: &T) {}

    /// Takes the next packet of a flow whose rates no other flow shares, if they admit it.
    // PERF (adit-bench datapath --rates wait): one packet, because most turns have one, and a loop
    // would keep what its packets share in memory.
    #[inline]
    fn serve_alone(&mut self, _packet: NextPacket<'_, P>) -> AloneResult {
        AloneResult::Shared
    }

    /// Begins the turn of a flow.
    fn begin_turn(&mut self, key: &QueueKey) -> Self::Turn;

    /// Admits the flow's next packet, of `bytes` octets, and charges its rates; or returns when it
    /// may leave. An admitted packet is taken next.
    fn admit(&mut self, turn: &mut Self::Turn, bytes: u16, context: TurnContext) -> Eligibility;

    /// Takes a packet: to send it, or with `may_leave` false to drop it (see
    /// [`Eligibility::Never`]).
    fn take(&mut self, turn: &mut Self::Turn, may_leave: bool, held: QueuedPacket<P>);

    /// Ends the turn.
    fn end_turn(&mut self, turn: Self::Turn);
}

/// The result of [`FlowServer::serve_alone`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AloneResult {
    /// It took the packet, and the rates admit another one.
    Taken,
    /// It took the packet, and the rates are closed until this time.
    TakenLast(Nanos),
    /// It did not take the packet: the rates are closed until this time.
    Closed(Nanos),
    /// It did not take the packet: [`FlowServer::begin_turn`] decides about the flow.
    Shared,
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
