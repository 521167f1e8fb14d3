//! A packet source and sink in memory that adds almost no work to the measured step.

use std::cell::RefCell;
use std::mem;

use adit_pktio::mem::MemBuf;
use adit_pktio::{Burst, PacketBuf, PacketIo, PortInfo, RxChecksum};
use adit_types::{MacAddr, PortId};

use super::network;

thread_local! {
    /// Free buffers: the mempool of this thread.
    static POOL: RefCell<Vec<MemBuf>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that returns to its thread's pool on drop, as an mbuf does. Its size is one pointer.
#[derive(Debug)]
pub(crate) struct BenchBuf(Option<MemBuf>);

impl BenchBuf {
    /// Takes a buffer from the pool, or allocates one.
    pub(crate) fn take() -> Self {
        Self(Some(POOL.with_borrow_mut(Vec::pop).unwrap_or_default()))
    }

    /// Fills this buffer with `packet`, and marks its IPv4 checksum as verified by the port.
    pub(crate) fn reset(&mut self, packet: &[u8]) {
        let buf = self.get_mut();
        buf.reset(packet);
        buf.set_rx_checksum(RxChecksum::Good);
    }

    /// Sets the state of the IPv4 checksum that the port reports.
    pub(crate) fn set_rx_checksum(&mut self, checksum: RxChecksum) {
        self.get_mut().set_rx_checksum(checksum);
    }

    #[inline]
    fn get(&self) -> &MemBuf {
        let Some(buf) = &self.0 else { unreachable!("only drop takes it") };
        buf
    }

    #[inline]
    fn get_mut(&mut self) -> &mut MemBuf {
        let Some(buf) = &mut self.0 else { unreachable!("only drop takes it") };
        buf
    }
}

impl Drop for BenchBuf {
    #[inline]
    fn drop(&mut self) {
        if let Some(buf) = self.0.take() {
            POOL.with_borrow_mut(|pool| pool.push(buf));
        }
    }
}

impl PacketBuf for BenchBuf {
    #[inline]
    fn data(&self) -> &[u8] {
        self.get().data()
    }

    #[inline]
    fn data_len(&self) -> usize {
        self.get().data_len()
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        self.get_mut().data_mut()
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        self.get_mut().prepend(len)
    }

    #[inline]
    fn trim_front(&mut self, len: usize) -> bool {
        self.get_mut().trim_front(len)
    }

    #[inline]
    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        self.get_mut().append(len)
    }

    #[inline]
    fn mark(&self) -> u32 {
        self.get().mark()
    }

    #[inline]
    fn set_mark(&mut self, mark: u32) {
        self.get_mut().set_mark(mark);
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> bool {
        self.get_mut().truncate(len)
    }

    #[inline]
    fn replace_front(&mut self, cut: usize, add: usize, keep: usize) -> Option<&mut [u8]> {
        self.get_mut().replace_front(cut, add, keep)
    }

    #[inline]
    fn rx_checksum(&self) -> RxChecksum {
        self.get().rx_checksum()
    }
}

/// Maximum number of bursts that a step sends after the first, when it releases waiting packets.
const FURTHER_BURSTS_MAX: usize = 64;

/// Smaller bursts are moved packet by packet; others are swapped, which costs as much as moving
/// five packets.
const SWAPPED_PKTS_MIN: usize = 5;

/// Moves all packets to an empty burst.
#[inline]
fn move_all(from: &mut Burst<BenchBuf>, to: &mut Burst<BenchBuf>) {
    if from.len() >= SWAPPED_PKTS_MIN {
        mem::swap(from, to);
    } else {
        to.extend(from.drain(..));
    }
}

/// Two ports: packets prepared in `ready` arrive at `rx_port`, everything sent lands in `sent`.
pub(crate) struct BenchIo {
    pub rx_port: PortId,
    pub ready: Burst<BenchBuf>,
    pub sent: Burst<BenchBuf>,
    /// Packets sent after the first burst.
    pub more: Vec<Burst<BenchBuf>>,
    pub macs: [MacAddr; 2],
    /// The state of IPv4 header checksums that ports report.
    pub checksum: RxChecksum,
}

impl BenchIo {
    /// Makes ports of which `rx_port` receives, before the first step.
    pub(crate) fn new(rx_port: PortId) -> Self {
        let more = Vec::with_capacity(FURTHER_BURSTS_MAX);
        let (ready, sent, macs) = (Burst::new(), Burst::new(), network::MACS);
        Self { rx_port, ready, sent, more, macs, checksum: RxChecksum::Good }
    }

    /// Returns the number of sent packets.
    pub(crate) fn sent_pkts(&self) -> usize {
        self.sent.len() + self.more.iter().map(|burst| burst.len()).sum::<usize>()
    }

    /// Discards sent packets.
    pub(crate) fn clear_sent(&mut self) {
        self.sent.clear();
        self.more.clear();
    }
}

impl PacketIo for BenchIo {
    type Buf = BenchBuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<BenchBuf>) -> usize {
        if port != self.rx_port {
            return 0;
        }
        if burst.is_empty() && self.ready.len() <= limit {
            move_all(&mut self.ready, burst);
            return burst.len();
        }
        let count = limit.min(self.ready.len()).min(burst.remaining_capacity());
        burst.extend(self.ready.drain(self.ready.len() - count..));
        count
    }

    fn tx_burst(&mut self, _port: PortId, burst: &mut Burst<BenchBuf>) -> usize {
        let count = burst.len();
        if self.sent.is_empty() {
            move_all(burst, &mut self.sent);
        } else {
            self.more.push(mem::take(burst));
        }
        count
    }

    fn alloc(&mut self) -> Option<BenchBuf> {
        None
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        let mac = self.macs[usize::from(port.0)];
        PortInfo { mac, mtu_bytes: 1500, rx_ipv4_checksum: true }
    }
}
