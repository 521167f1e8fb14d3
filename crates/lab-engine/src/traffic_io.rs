//! What the engine needs of ports beyond [`PacketIo`]: to write and read frames in place.
//!
//! Drivers with buffers of their own need none of it. A port without a driver gives its rings' memory
//! away for the moment, so that frames are written once and copied never.

use adit_dpdk::WorkerIo;
use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::PortId;
use adit_types::limits::BURST_MAX;

/// Ports of the engine.
pub trait TrafficIo: PacketIo {
    /// Frames are written with [`Self::slot`], not into buffers.
    const IS_DIRECT: bool = false;

    /// Frames that a direct port takes now.
    fn room(&self, _port: PortId) -> usize {
        0
    }

    /// Where the `index`-th frame goes, `index` below [`Self::room`]; `None` where there are not `len`
    /// octets.
    fn slot(&mut self, _port: PortId, _index: usize, _len: usize) -> Option<&mut [u8]> {
        None
    }

    /// Sends the first `count` frames that were written.
    fn commit(&mut self, _port: PortId, _count: usize) {}

    /// Shows a burst of received frames to `take`; those that it does not take are appended to
    /// `rest`. Returns how many there were.
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
