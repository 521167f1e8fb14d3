//! An extension of [`PacketIo`] to write and read frames in place.
//!
//! Drivers with their own buffers use the defaults. A direct port, such as the tester's memif,
//! lends the memory of its rings, so that the engine writes each frame once and never copies it.

use adit_dpdk::WorkerIo;
use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::PortId;
use adit_types::limits::BURST_MAX;

/// The ports of the engine.
pub trait TrafficIo: PacketIo {
    /// True for a direct port: the engine writes frames into [`Self::slot`] instead of buffers.
    const IS_DIRECT: bool = false;

    /// Returns the number of frames that a direct port accepts now.
    fn room(&self, _port: PortId) -> usize {
        0
    }

    /// Returns the memory for the `index`-th frame, where `index` is below [`Self::room`]; `None`
    /// if the memory is shorter than `len` octets.
    fn slot(&mut self, _port: PortId, _index: usize, _len: usize) -> Option<&mut [u8]> {
        None
    }

    /// Sends the frames that were written into the first `count` slots.
    fn commit(&mut self, _port: PortId, _count: usize) {}

    /// Calls `take` for each frame of a received burst, and appends the frames that it rejects to
    /// `rest`. Returns the number of received frames.
    #[inline]
    fn receive(
        &mut self,
        port: PortId,
        mut take: impl FnMut(&[u8]) -> bool,
        rest: &mut Burst<Self::Buf>,
    ) -> usize {
        let mut burst = Burst::new();
        let count = self.rx_burst(port, BURST_MAX, &mut burst);
        let mut others = 0_u64;
        for (index, buf) in burst.iter().enumerate() {
            if !take(buf.data()) {
                others |= 1 << index;
            }
        }
        if others == 0 {
            self.free_burst(&mut burst);
        } else {
            let is_other = |index: usize| others >> index & 1 == 1;
            let left = burst.drain(..).enumerate().filter(|(index, _)| is_other(*index));
            rest.extend(left.map(|(_, buf)| buf).take(BURST_MAX - rest.len()));
        }
        count
    }
}

impl TrafficIo for WorkerIo {}
