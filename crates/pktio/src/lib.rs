//! The packet-device contract between the datapath and the drivers.
//!
//! A driver moves bursts of buffers and has no opinion about traffic. Buffers own their memory, are
//! contiguous, and carry headroom for outer headers. `mem` is the in-memory driver with poisoned
//! buffers that tests and benches use. `event` is the contract with an event scheduler, which gives
//! packets to cores.
#![forbid(unsafe_code)]

mod buf;
mod event;
pub mod mem;

pub use buf::{Burst, PacketBuf, RxChecksum};
pub use event::{
    EVENT_FLOWS_MAX, Event, EventBurst, EventOperation, EventPort, EventPortCounts, EventTag,
    ScheduleType,
};

use adit_types::{MacAddr, PortId};

/// A set of packet ports as one worker sees them: one receive and one transmit queue on each.
///
/// Threads: owned by one worker; not shared.
pub trait PacketIo {
    /// The buffer that this driver moves.
    type Buf: PacketBuf;

    /// Appends at most `limit` received packets of `port` to `burst`; returns how many.
    ///
    /// Cost: one driver call. Never blocks. `limit` is cut to the room left in `burst`.
    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Self::Buf>) -> usize;

    /// Sends `burst` on `port`; packets that the queue did not take stay in `burst`, in order.
    ///
    /// Cost: one driver call. Never blocks.
    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Self::Buf>) -> usize;

    /// Returns an empty buffer with full headroom for a packet that Adit originates, or `None` when
    /// the pool is exhausted.
    fn alloc(&mut self) -> Option<Self::Buf>;

    /// Appends up to `count` empty buffers to `burst`; returns how many. Fewer than `count` means
    /// that the pool is exhausted or `burst` is full.
    ///
    /// Cost: drivers with pools override it with one call for all.
    fn alloc_burst(&mut self, count: usize, burst: &mut Burst<Self::Buf>) -> usize {
        let before = burst.len();
        for _ in 0..count.min(burst.remaining_capacity()) {
            let Some(buf) = self.alloc() else { break };
            burst.push(buf);
        }
        burst.len() - before
    }

    /// Returns every buffer of `burst` to its pool.
    ///
    /// Cost: drivers with pools override it with one call for all.
    fn free_burst(&mut self, burst: &mut Burst<Self::Buf>) {
        burst.clear();
    }

    /// Returns the properties of a port, which are fixed once it runs.
    fn port_info(&self, port: PortId) -> PortInfo;
}

/// Properties of a port that a worker needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortInfo {
    /// The port's own hardware address.
    pub mac: MacAddr,
    /// Largest IP packet the port carries. Unit: bytes, Ethernet header excluded.
    pub mtu_bytes: u16,
    /// True if the port checks IPv4 header checksums and reports the verdict per packet.
    pub rx_ipv4_checksum: bool,
}
