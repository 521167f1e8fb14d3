//! The ports of one worker, for the datapath.

use std::os::fd::OwnedFd;

use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_types::PortId;

use crate::mbuf::Mbuf;
use crate::mempool::Mempool;
use crate::port::{RxQueue, TxQueue};

/// The queues of a port that belong to one worker.
#[derive(Debug)]
pub struct WorkerPort {
    /// The receive queue of this worker; `None` if the port has fewer queues than there are workers and
    /// none is left.
    pub rx: Option<RxQueue>,
    /// The transmit queue of this worker.
    pub tx: TxQueue,
    /// Constant properties of the port; see [`crate::Port::info`].
    pub info: PortInfo,
}

/// All ports of one worker, by [`PortId`], and the pool for packets that it creates.
///
/// Threads: moves to the worker and stays there. Drop it before the worker's
/// [`crate::ThreadGuard`].
#[derive(Debug)]
pub struct WorkerIo {
    ports: Vec<WorkerPort>,
    pool: Mempool,
}

impl WorkerIo {
    /// Ports in the order of their [`PortId`].
    #[must_use]
    pub fn new(ports: Vec<WorkerPort>, pool: Mempool) -> Self {
        Self { ports, pool }
    }

    /// The ports that this worker receives from.
    pub fn receiving(&self) -> impl Iterator<Item = PortId> + '_ {
        let ports = (0..).zip(&self.ports);
        ports.filter(|(_, port)| port.rx.is_some()).map(|(id, _)| PortId(id))
    }

    /// Duplicated descriptors that are readable while a queue of the worker has packets; `None` if a queue
    /// has no descriptor.
    #[must_use]
    pub fn sockets(&self) -> Option<Vec<OwnedFd>> {
        let queues = self.ports.iter().filter_map(|port| port.rx.as_ref());
        queues.map(|rx| rx.socket()?.try_clone_to_owned().ok()).collect()
    }

    /// Number of ports. A [`PortId`] at or above it is a programming error.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }
}

impl PacketIo for WorkerIo {
    type Buf = Mbuf;

    #[inline]
    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        match &mut self.ports[usize::from(port.0)].rx {
            Some(rx) => rx.rx_burst(limit, burst),
            None => 0,
        }
    }

    #[inline]
    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Mbuf>) -> usize {
        self.ports[usize::from(port.0)].tx.tx_burst(burst)
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
        self.ports[usize::from(port.0)].info
    }
}
