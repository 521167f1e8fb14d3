//! The ports of one thread of the packet path.

use std::cell::RefCell;
use std::os::fd::OwnedFd;

use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_types::PortId;

use crate::eal::Eal;
use crate::mbuf::Mbuf;
use crate::mempool::Mempool;
use crate::port::{RxQueue, TxQueue};
use crate::thread::{ThreadGuard, register_thread};

/// The queues of a port that belong to one thread.
#[derive(Debug)]
pub struct WorkerPort {
    /// The receive queues of this thread; empty if only other threads receive from the port.
    pub rx: Vec<RxQueue>,
    /// The transmit queue of this thread; `None` if it only receives.
    pub tx: Option<TxQueue>,
    /// Properties of the port, which are constant; see [`crate::Port::info`].
    pub info: PortInfo,
}

/// All ports of one thread, by [`PortId`], and the pool for packets that the thread creates.
///
/// Threads: moves to the thread and stays there. Drop it before the thread's
/// [`crate::ThreadGuard`].
#[derive(Debug)]
pub struct WorkerIo {
    ports: Vec<PolledPort>,
    pool: Mempool,
}

#[derive(Debug)]
struct PolledPort {
    queues: WorkerPort,
    /// Index of the receive queue that the next poll reads.
    next: usize,
}

impl WorkerIo {
    /// Takes the ports in the order of their [`PortId`].
    #[must_use]
    pub fn new(ports: Vec<WorkerPort>, pool: Mempool) -> Self {
        let ports = ports.into_iter().map(|queues| PolledPort { queues, next: 0 }).collect();
        Self { ports, pool }
    }

    /// Returns the ports from which this thread receives. A port is repeated for each of its
    /// queues, because one poll of a port reads one queue, in turn.
    pub fn receiving(&self) -> impl Iterator<Item = PortId> + '_ {
        let ports = (0..).zip(&self.ports);
        ports.flat_map(|(id, port)| port.queues.rx.iter().map(move |_| PortId(id)))
    }

    /// Returns duplicates of the descriptors that are readable while a queue of the thread has
    /// packets; `None` if a queue has no descriptor.
    #[must_use]
    pub fn sockets(&self) -> Option<Vec<OwnedFd>> {
        let queues = self.ports.iter().flat_map(|port| &port.queues.rx);
        queues.map(|rx| rx.socket()?.try_clone_to_owned().ok()).collect()
    }

    /// Returns the number of ports. A [`PortId`] at or above it is a programming error.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }
}

thread_local! {
    /// The registration of a thread that [`RegisteringIo`] has registered.
    static REGISTERED: RefCell<Option<ThreadGuard>> = const { RefCell::new(None) };
}

/// A [`WorkerIo`] that registers the polling thread with DPDK at its first poll, for threads that
/// other code started.
///
/// Threads: moves to a thread before its first poll and stays there.
#[derive(Debug)]
pub struct RegisteringIo {
    io: WorkerIo,
    eal: Eal,
    has_tried: bool,
}

impl RegisteringIo {
    /// Wraps `io`, whose thread is registered at its first poll.
    #[must_use]
    pub const fn new(io: WorkerIo, eal: Eal) -> Self {
        Self { io, eal, has_tried: false }
    }

    /// Returns the ports, for use on another thread.
    #[must_use]
    pub fn into_inner(self) -> WorkerIo {
        self.io
    }

    #[cold]
    fn register(&mut self) {
        self.has_tried = true;
        // A failure only costs speed: without an lcore index a thread has no buffer cache and uses
        // the pool itself.
        if let Ok(guard) = register_thread(&self.eal) {
            REGISTERED.set(Some(guard));
        }
    }
}

impl PacketIo for RegisteringIo {
    type Buf = Mbuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        if !self.has_tried {
            self.register();
        }
        self.io.rx_burst(port, limit, burst)
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Mbuf>) -> usize {
        self.io.tx_burst(port, burst)
    }

    fn alloc(&mut self) -> Option<Mbuf> {
        self.io.alloc()
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        self.io.port_info(port)
    }
}

impl PacketIo for WorkerIo {
    type Buf = Mbuf;

    #[inline]
    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        let PolledPort { queues, next } = &mut self.ports[usize::from(port.0)];
        let at = *next;
        *next = if at + 1 < queues.rx.len() { at + 1 } else { 0 };
        queues.rx.get_mut(at).map_or(0, |rx| rx.rx_burst(limit, burst))
    }

    #[inline]
    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Mbuf>) -> usize {
        let tx = &mut self.ports[usize::from(port.0)].queues.tx;
        tx.as_mut().map_or(0, |tx| tx.tx_burst(burst))
    }

    #[inline]
    fn alloc(&mut self) -> Option<Mbuf> {
        self.pool.alloc()
    }

    #[inline]
    fn alloc_burst(&mut self, count: usize, burst: &mut Burst<Mbuf>) -> usize {
        self.pool.alloc_burst(count, burst)
    }

    #[inline]
    fn free_burst(&mut self, burst: &mut Burst<Mbuf>) {
        Mbuf::free_burst(burst);
    }

    #[inline]
    fn port_info(&self, port: PortId) -> PortInfo {
        self.ports[usize::from(port.0)].queues.info
    }
}
