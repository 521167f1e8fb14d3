//! The ports of one worker as the datapath sees them.

use std::os::fd::OwnedFd;

use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_types::PortId;

use crate::mbuf::Mbuf;
use crate::mempool::Mempool;
use crate::port::{RxQueue, TxQueue};

/// One worker's share of a port.
#[derive(Debug)]
pub struct WorkerPort {
    /// The queue that only this worker receives from; `None` where the port has fewer than there are
    /// workers.
    pub rx: Option<RxQueue>,
    /// The queue that only this worker sends on.
    pub tx: TxQueue,
    /// What is fixed about the port; see [`crate::Port::info`].
    pub info: PortInfo,
}

/// All ports of one worker, indexed by [`PortId`], and the pool for packets of its own.
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

    /// Descriptors that are readable while one of the worker's queues has packets, duplicated;
    /// `None` when there is a queue without one.
    #[must_use]
    pub fn sockets(&self) -> Option<Vec<OwnedFd>> {
        let queues = self.ports.iter().filter_map(|port| port.rx.as_ref());
        queues.map(|rx| rx.socket()?.try_clone_to_owned().ok()).collect()
    }

    /// How many ports there are; a [`PortId`] at or above this is a programmer's error.
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
