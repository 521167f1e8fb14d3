//! The way out of a worker's stages: through a port, or, if an event scheduler runs later stages
//! elsewhere, on to the stage that writes the frame. Only the execution model decides which; the
//! code of the stages does not depend on it.

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::{PortId, SessionIndex};

/// The way out of the stages. The ports of a worker implement it: the stage that plans a frame
/// writes it and sends it.
pub(crate) trait Departures {
    /// The buffer of a packet.
    type Buf: PacketBuf;

    /// Sends `burst` through `port`. Frames that the port did not take stay in `burst`, in order.
    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Self::Buf>) -> usize;

    /// Returns an empty buffer for a packet of our own, or `None` if the pool is exhausted.
    fn alloc(&mut self) -> Option<Self::Buf>;

    /// Marks a frame of `session`, or a packet that becomes one, if later stages or several Rx/Tx
    /// threads keep frames in order by their marks.
    fn mark(&self, buf: &mut Self::Buf, session: SessionIndex);

    /// True if a later stage writes the packets that are planned: the plan leaves with the packet.
    fn has_later_stage(&self) -> bool;
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
    fn has_later_stage(&self) -> bool {
        false
    }
}
