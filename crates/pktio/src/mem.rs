//! The in-memory driver: ports are queues of [`MemBuf`]s.
//!
//! Memory that a packet does not cover is poisoned with [`POISON`], so that a stage which forgets
//! to write prepended octets shows in the output.

use std::collections::VecDeque;

use adit_types::{MacAddr, PortId};

use crate::{Burst, PacketBuf, PacketIo, PortInfo, RxChecksum};

/// Octet that fills the room around a packet.
pub const POISON: u8 = 0xa5;

/// Headroom of a fresh buffer: DPDK's default.
pub const HEADROOM_BYTES: usize = 128;

/// Size of a buffer, headroom included: DPDK's default data room plus headroom.
pub const BUF_BYTES: usize = 2048 + HEADROOM_BYTES;

/// A heap buffer that behaves like an mbuf.
///
/// It is one pointer wide, like an mbuf, so that moving it costs the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemBuf(Box<MemBufStorage>);

/// Fields that are read first share a cache line, as in an mbuf.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C)]
struct MemBufStorage {
    start: usize,
    end: usize,
    mark: u32,
    checksum: RxChecksum,
    room: [u8; BUF_BYTES],
}

impl Default for MemBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl MemBuf {
    /// An empty buffer with full headroom.
    #[must_use]
    pub fn new() -> Self {
        Self(Box::new(MemBufStorage {
            start: HEADROOM_BYTES,
            end: HEADROOM_BYTES,
            mark: 0,
            checksum: RxChecksum::Unknown,
            room: [POISON; BUF_BYTES],
        }))
    }

    /// A buffer that holds `packet`.
    ///
    /// # Panics
    /// When `packet` exceeds the data room.
    #[must_use]
    pub fn from_packet(packet: &[u8]) -> Self {
        let mut buf = Self::new();
        buf.reset(packet);
        buf
    }

    /// Makes this buffer hold `packet` again, without touching the rest of its memory.
    ///
    /// # Panics
    /// When `packet` exceeds the data room.
    pub fn reset(&mut self, packet: &[u8]) {
        self.0.start = HEADROOM_BYTES;
        self.0.end = HEADROOM_BYTES + packet.len();
        assert!(self.0.end <= self.0.room.len(), "packet exceeds the data room");
        self.0.room[self.0.start..self.0.end].copy_from_slice(packet);
    }

    /// Sets the state of the IPv4 header checksum that the receiving port would report.
    pub fn set_rx_checksum(&mut self, verdict: RxChecksum) {
        self.0.checksum = verdict;
    }
}

impl PacketBuf for MemBuf {
    #[inline]
    fn data(&self) -> &[u8] {
        &self.0.room[self.0.start..self.0.end]
    }

    #[inline]
    fn data_len(&self) -> usize {
        self.0.end - self.0.start
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.0.room[self.0.start..self.0.end]
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.start = self.0.start.checked_sub(len)?;
        if cfg!(debug_assertions) {
            self.0.room[self.0.start..self.0.start + len].fill(POISON);
        }
        Some(self.data_mut())
    }

    #[inline]
    fn trim_front(&mut self, len: usize) -> bool {
        let fits = len <= self.0.end - self.0.start;
        if fits {
            self.0.start += len;
        }
        fits
    }

    #[inline]
    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.0.end.checked_add(len).filter(|end| *end <= self.0.room.len())?;
        if cfg!(debug_assertions) {
            self.0.room[self.0.end..end].fill(POISON);
        }
        self.0.end = end;
        Some(self.data_mut())
    }

    #[inline]
    fn mark(&self) -> u32 {
        self.0.mark
    }

    #[inline]
    fn set_mark(&mut self, mark: u32) {
        self.0.mark = mark;
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> bool {
        let fits = len <= self.0.end - self.0.start;
        if fits {
            self.0.end = self.0.start + len;
        }
        fits
    }

    // PERF (adit-bench datapath): once per packet of the fast path.
    #[inline(always)]
    fn replace_front(&mut self, cut: usize, add: usize, keep: usize) -> Option<&mut [u8]> {
        let inner = &mut *self.0;
        let behind = inner.start + cut;
        let start = behind.checked_sub(add)?;
        if keep > inner.end.checked_sub(behind)? {
            return None;
        }
        if cfg!(debug_assertions) {
            inner.room[start..behind].fill(POISON);
        }
        (inner.start, inner.end) = (start, behind + keep);
        Some(self.data_mut())
    }

    #[inline]
    fn rx_checksum(&self) -> RxChecksum {
        self.0.checksum
    }
}

/// One in-memory port.
#[derive(Debug)]
pub struct MemPort {
    /// Properties of the port that a worker needs.
    pub info: PortInfo,
    /// Packets that wait to be received.
    pub rx: VecDeque<MemBuf>,
    /// Packets that were sent.
    pub tx: VecDeque<MemBuf>,
    /// How many more packets the transmit queue takes.
    pub tx_room: usize,
}

/// In-memory ports of one worker.
#[derive(Debug, Default)]
pub struct MemIo {
    /// The ports, by [`PortId`].
    pub ports: Vec<MemPort>,
    /// How many more buffers `alloc` returns.
    pub alloc_room: usize,
}

impl MemIo {
    /// Ports with the given hardware addresses and an MTU of 1500 bytes, with unlimited room.
    #[must_use]
    pub fn new(macs: &[MacAddr]) -> Self {
        let port = |mac: &MacAddr| MemPort {
            info: PortInfo { mac: *mac, mtu_bytes: 1500, rx_ipv4_checksum: false },
            rx: VecDeque::new(),
            tx: VecDeque::new(),
            tx_room: usize::MAX,
        };
        Self { ports: macs.iter().map(port).collect(), alloc_room: usize::MAX }
    }

    /// Queues `packet` for reception on `port`.
    pub fn inject(&mut self, port: PortId, packet: &[u8]) {
        self.ports[usize::from(port.0)].rx.push_back(MemBuf::from_packet(packet));
    }

    /// Removes and returns all packets sent on `port`, in order.
    pub fn take_sent(&mut self, port: PortId) -> Vec<MemBuf> {
        self.ports[usize::from(port.0)].tx.drain(..).collect()
    }
}

impl PacketIo for MemIo {
    type Buf = MemBuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<MemBuf>) -> usize {
        let queue = &mut self.ports[usize::from(port.0)].rx;
        let count = limit.min(queue.len()).min(burst.remaining_capacity());
        burst.extend(queue.drain(..count));
        count
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<MemBuf>) -> usize {
        let port = &mut self.ports[usize::from(port.0)];
        let count = burst.len().min(port.tx_room);
        port.tx_room -= count;
        port.tx.extend(burst.drain(..count));
        count
    }

    fn alloc(&mut self) -> Option<MemBuf> {
        self.alloc_room = self.alloc_room.checked_sub(1)?;
        Some(MemBuf::new())
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        self.ports[usize::from(port.0)].info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepend_keeps_the_packet_and_poisons_the_new_room() {
        let mut buf = MemBuf::from_packet(&[1, 2, 3]);
        assert_eq!(buf.prepend(2), Some(&mut [POISON, POISON, 1, 2, 3][..]));
        assert!(buf.trim_front(3));
        assert_eq!(buf.data(), [2, 3]);
    }

    #[test]
    fn growth_beyond_the_room_is_refused_without_effect() {
        let mut buf = MemBuf::from_packet(&[1]);
        assert!(buf.prepend(HEADROOM_BYTES + 1).is_none());
        assert!(buf.append(BUF_BYTES).is_none());
        assert!(!buf.truncate(2));
        assert!(!buf.trim_front(2));
        assert_eq!(buf.data(), [1]);
    }

    #[test]
    fn tx_burst_leaves_what_the_queue_does_not_take() {
        let mut io = MemIo::new(&[MacAddr::default()]);
        io.ports[0].tx_room = 1;
        let mut burst: Burst<MemBuf> =
            [[1u8], [2]].iter().map(|p| MemBuf::from_packet(p)).collect();
        assert_eq!(io.tx_burst(PortId(0), &mut burst), 1);
        assert_eq!(burst[0].data(), [2]);
        assert_eq!(io.take_sent(PortId(0)).len(), 1);
    }
}
