//! Who says which packets may leave.

use crate::queues::{Eligibility, QueueKey, QueuedPacket, TurnContext};

/// Says which packets of flows may leave, and takes those that do.
pub trait FlowServer<P> {
    /// What it looked up of the flow whose turn it is.
    type Turn;

    /// A flow will have its turn soon.
    fn prefetch_flow(&self, _key: &QueueKey) {}

    /// What lies there will be looked at soon.
    fn prefetch<T>(&self, _place: &T) {}

    /// A flow has its turn.
    fn begin_turn(&mut self, key: &QueueKey) -> Self::Turn;

    /// Tells why the flow's next packet, whatever its length, may not leave now, if that is known
    /// without it.
    fn blocked_until(&mut self, _turn: &mut Self::Turn) -> Option<Eligibility> {
        None
    }

    /// Tells whether the flow's next packet, of `bytes` octets, may leave, from where the flow stands.
    /// One that may is taken. Asked only where [`Server::stops`] has just told nothing.
    fn eligibility(&mut self, turn: &mut Self::Turn, bytes: u16, at: TurnContext) -> Eligibility;

    /// Takes a packet: with true where it may leave, with false where the flow never may.
    fn take(&mut self, turn: &mut Self::Turn, may_leave: bool, held: QueuedPacket<P>);

    /// The turn is over.
    fn end_turn(&mut self, turn: Self::Turn);
}

/// Asks for each packet, and knows nothing of turns.
#[derive(Debug)]
pub(crate) struct PerPacket<A, T> {
    pub(crate) eligibility: A,
    pub(crate) release: T,
}

impl<P, A, T> FlowServer<P> for PerPacket<A, T>
where
    A: FnMut(&QueueKey, u16, TurnContext) -> Eligibility,
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
