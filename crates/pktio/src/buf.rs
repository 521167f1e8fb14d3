//! Buffer capabilities and the burst that carries buffers between driver and datapath.

use adit_types::limits::BURST_MAX;
use arrayvec::ArrayVec;

/// Packets on their way between a driver and a worker. At most [`BURST_MAX`]; order is kept.
pub type Burst<B> = ArrayVec<B, BURST_MAX>;

/// The receiving port's verdict on a packet's IPv4 header checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RxChecksum {
    /// The port did not check it.
    Unknown,
    /// The port found it correct.
    Good,
    /// The port found it wrong.
    Bad,
}

/// One contiguous packet with headroom in front and tailroom behind.
///
/// Dropping a buffer gives its memory back to the pool it came from. Contents of freshly prepended
/// or appended room are unspecified and must be written in full.
pub trait PacketBuf: Send {
    /// True for trial copies, by which a worker finds out what it would do with a packet: they are
    /// not sent, and nothing is charged or counted for them.
    const IS_TRIAL: bool = false;

    /// The packet's bytes.
    fn data(&self) -> &[u8];

    /// Number of the packet's bytes.
    fn data_len(&self) -> usize {
        self.data().len()
    }

    /// The packet's bytes, writable.
    fn data_mut(&mut self) -> &mut [u8];

    /// Grows the packet by `len` bytes at the front and returns the whole packet, or `None`
    /// (packet unchanged) without enough headroom.
    fn prepend(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Cuts `len` bytes off the front. False (packet unchanged) when the packet is shorter.
    #[must_use]
    fn trim_front(&mut self, len: usize) -> bool;

    /// Grows the packet by `len` bytes at the back and returns the whole packet, or `None`
    /// (packet unchanged) without enough tailroom.
    fn append(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Shortens the packet to `len` bytes. False (packet unchanged) when it is shorter already.
    #[must_use]
    fn truncate(&mut self, len: usize) -> bool;

    /// Replaces the `cut` octets at the front by room for `add` octets, keeps `keep` octets behind
    /// them and cuts off the rest. `None` (packet unchanged) when the packet is shorter than `cut`
    /// and `keep` together, or without enough headroom.
    fn replace_front(&mut self, cut: usize, add: usize, keep: usize) -> Option<&mut [u8]>;

    /// False when the packet has further segments, which [`PacketBuf::data`] does not show.
    fn is_contiguous(&self) -> bool {
        true
    }

    /// Prefetches the cache lines that the packet path reads first. Only a hint.
    #[inline]
    fn prefetch(&self) {}

    /// The word that [`PacketBuf::set_mark`] stored with the packet. Unspecified in a buffer that
    /// comes from a port or a pool.
    fn mark(&self) -> u32;

    /// Stores a word with the packet: [`PacketBuf::mark`] returns it.
    fn set_mark(&mut self, mark: u32);

    /// The receiving port's verdict on the packet's IPv4 header checksum.
    fn rx_checksum(&self) -> RxChecksum {
        RxChecksum::Unknown
    }
}
