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
    /// The receive queues of this thread; none if others receive from the port.
    pub rx: Vec<RxQueue>,
    /// The transmit queue of this thread; `None` if it only receives.
    pub tx: Option<TxQueue>,
    /// Constant properties of the port; see [`crate::Port::info`].
    pub info: PortInfo,
}

/// All ports of one thread, by [`PortId`], and the pool for packets that it creates.
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
    /// The receive queue whose turn it is.
    next: usize,
}

impl WorkerIo {
    /// Ports in the order of their [`PortId`].
    #[must_use]
    pub fn new(ports: Vec<WorkerPort>, pool: Mempool) -> Self {
        let ports = ports.into_iter().map(|queues| PolledPort { queues, next: 0 }).collect();
        Self { ports, pool }
    }

    /// The ports from which this thread receives, each once for each of its queues: a poll of a
    /// port takes from one queue, in turns.
    pub fn receiving(&self) -> impl Iterator<Item = PortId> + '_ {
        let ports = (0..).zip(&self.ports);
        ports.flat_map(|(id, port)| port.queues.rx.iter().map(move |_| PortId(id)))
    }

    /// Duplicated descriptors that are readable while a queue of the thread has packets; `None` if
    /// a queue has no descriptor.
    #[must_use]
    pub fn sockets(&self) -> Option<Vec<OwnedFd>> {
        let queues = self.ports.iter().flat_map(|port| &port.queues.rx);
        queues.map(|rx| rx.socket()?.try_clone_to_owned().ok()).collect()
    }

    /// Number of ports. A [`PortId`] at or above it is a programming error.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }
}

thread_local! {
    /// The lcore number of a thread that [`RegisteringIo`] has registered.
    static REGISTERED: RefCell<Option<ThreadGuard>> = const { RefCell::new(None) };
}

/// A [`WorkerIo`] that registers the thread that polls it, for threads that are not DPDK's.
///
/// Threads: moves to a thread before its first poll and stays there.
#[derive(Debug)]
pub struct RegisteringIo {
    io: WorkerIo,
    eal: Eal,
    has_tried: bool,
}

impl RegisteringIo {
    /// `io`, whose thread is registered at its first poll.
    #[must_use]
    pub const fn new(io: WorkerIo, eal: Eal) -> Self {
        Self { io, eal, has_tried: false }
    }

    /// The ports, for another thread.
    #[must_use]
    pub fn into_inner(self) -> WorkerIo {
        self.io
    }

    #[cold]
    fn register(&mut self) {
        self.has_tried = true;
        // Without a number of its own a thread has no cache of buffers, and uses the pool all the
        // same.
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
