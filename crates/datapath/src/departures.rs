//! Where packets leave the stages: through a port, or to the stage that writes them. The execution
//! model decides, and the stages are the same in each.

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::{PortId, SessionIndex};

/// The way out of the stages.
///
/// The ports of a worker are one: every frame is written by the stage that plans it, and sent.
pub(crate) trait Departures {
    /// The buffer of a packet.
    type Buf: PacketBuf;

    /// Sends `burst` through `port`; frames that it did not take stay in `burst`, in order.
    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Self::Buf>) -> usize;

    /// An empty buffer for a packet of our own, or `None` when the pool is exhausted.
    fn alloc(&mut self) -> Option<Self::Buf>;

    /// Marks a frame of `session`, or a packet that becomes one, if others keep it in order by its
    /// mark: later stages, or several Rx/Tx threads.
    fn mark(&self, buf: &mut Self::Buf, session: SessionIndex);

    /// True if a later stage writes packets that are planned: the plan leaves with the packet.
    fn hands_on(&self) -> bool;
}

impl<Io: PacketIo> Departures for Io {
    type Buf = Io::Buf;

    #[inline]
    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Io::Buf>) -> usize {
        PacketIo::tx_burst(self, port, burst)
    }

    #[inline]
    fn alloc(&mut self) -> Option<Io::Buf> {
        PacketIo::alloc(self)
    }

    #[inline]
    fn mark(&self, _: &mut Io::Buf, _: SessionIndex) {}

    #[inline]
    fn hands_on(&self) -> bool {
        false
    }
}
