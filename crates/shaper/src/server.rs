//! The caller's side of a release: which packets may leave.

use crate::flow::{Eligibility, QueueKey, QueuedPacket, TurnContext};

/// Decides which packets of flows may leave, and takes those that do.
///
/// For each turn of a flow: [`begin_turn`](Self::begin_turn), then for each packet
/// [`blocked_until`](Self::blocked_until), [`eligibility`](Self::eligibility) and
/// [`take`](Self::take), then [`end_turn`](Self::end_turn).
pub trait FlowServer<P> {
    /// What it looked up of the flow whose turn it is.
    type Turn;

    /// Prefetches what the turn of a flow reads.
    fn prefetch_flow(&self, _key: &QueueKey) {}

    /// Prefetches a place that is read soon.
    fn prefetch<T>(&self, _place: &T) {}

    /// A flow has its turn.
    fn begin_turn(&mut self, key: &QueueKey) -> Self::Turn;

    /// Why the flow's next packet may not leave now, if that is known without its length.
    fn blocked_until(&mut self, _turn: &mut Self::Turn) -> Option<Eligibility> {
        None
    }

    /// When the flow's next packet, of `bytes` octets, may leave. A packet that may leave now is taken
    /// next. Called only if [`FlowServer::blocked_until`] has just returned `None`.
    fn eligibility(&mut self, turn: &mut Self::Turn, bytes: u16, at: TurnContext) -> Eligibility;

    /// Takes a packet. `may_leave` is false if the flow never may: the packet is to be dropped.
    fn take(&mut self, turn: &mut Self::Turn, may_leave: bool, held: QueuedPacket<P>);

    /// The turn is over.
    fn end_turn(&mut self, turn: Self::Turn);
}

/// A server of two closures, without state for a turn.
#[derive(Debug)]
pub(crate) struct PerPacket<E, T> {
    pub(crate) eligibility: E,
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

    fn eligibility(&mut self, turn: &mut QueueKey, bytes: u16, at: TurnContext) -> Eligibility {
        (self.eligibility)(turn, bytes, at)
    }

    fn take(&mut self, turn: &mut QueueKey, may_leave: bool, held: QueuedPacket<P>) {
        (self.release)(turn, may_leave, held);
    }

    fn end_turn(&mut self, _: QueueKey) {}
}
