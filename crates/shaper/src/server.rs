//! Who says which packets may leave.

use crate::queues::{FlowKey, Held, Pace, Standing};

/// Says which packets of flows may leave, and takes those that do.
pub trait Server<P> {
    /// What it looked up of the flow whose turn it is.
    type Turn;

    /// A flow will have its turn soon.
    fn expect(&self, _key: &FlowKey) {}

    /// What lies there will be looked at soon.
    fn prefetch<T>(&self, _place: &T) {}

    /// A flow has its turn.
    fn begin(&mut self, key: &FlowKey) -> Self::Turn;

    /// Tells why the flow's next packet, whatever its length, may not leave now, if that is known
    /// without it.
    fn stops(&mut self, _turn: &mut Self::Turn) -> Option<Pace> {
        None
    }

    /// Tells whether the flow's next packet, of `bytes` octets, may leave, from where the flow stands.
    /// One that may is taken. Asked only where [`Server::stops`] has just told nothing.
    fn pace(&mut self, turn: &mut Self::Turn, bytes: u16, at: Standing) -> Pace;

    /// Takes a packet: with true where it may leave, with false where the flow never may.
    fn take(&mut self, turn: &mut Self::Turn, may_leave: bool, held: Held<P>);

    /// The turn is over.
    fn end(&mut self, turn: Self::Turn);
}

/// Asks for each packet, and knows nothing of turns.
#[derive(Debug)]
pub(crate) struct ByPacket<A, T> {
    pub(crate) pace: A,
    pub(crate) release: T,
}

impl<P, A, T> Server<P> for ByPacket<A, T>
where
    A: FnMut(&FlowKey, u16, Standing) -> Pace,
    T: FnMut(&FlowKey, bool, Held<P>),
{
    type Turn = FlowKey;

    fn begin(&mut self, key: &FlowKey) -> FlowKey {
        *key
    }

    fn pace(&mut self, turn: &mut FlowKey, bytes: u16, at: Standing) -> Pace {
        (self.pace)(turn, bytes, at)
    }

    fn take(&mut self, turn: &mut FlowKey, may_leave: bool, held: Held<P>) {
        (self.release)(turn, may_leave, held);
    }

    fn end(&mut self, _: FlowKey) {}
}
