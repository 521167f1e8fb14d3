//! The ports of one thread: those of DPDK and those of the kernel, by `PortId`.

use std::os::fd::OwnedFd;

use adit_dpdk::{Mbuf, WorkerIo};
use adit_kernel::KernelPort;
use adit_pktio::{Burst, PacketIo, PortInfo};
use adit_types::PortId;
use adit_types::limits::BURST_MAX;

/// Most packets of one port that are discarded at a time: more than its queues hold.
const DISCARDED_PKTS_MAX: usize = 1 << 16;

/// A thread's part of a port of the kernel.
#[derive(Debug)]
pub(crate) struct KernelShare {
    pub port: KernelPort,
    pub mtu_bytes: u16,
    /// False if only other threads receive from the port.
    pub receives: bool,
}

/// Where a thread finds one of its ports.
#[derive(Debug)]
pub(crate) enum ThreadPort {
    /// Among the ports of DPDK, at this index.
    Dpdk(PortId),
    /// A share of a port of the kernel.
    Kernel(Box<KernelShare>),
}

/// All ports of one thread.
///
/// Threads: moves to the thread and stays there.
#[derive(Debug)]
pub(crate) struct ThreadIo {
    /// By `PortId`.
    ports: Vec<ThreadPort>,
    /// Ports of DPDK; its buffers also serve ports of the kernel.
    dpdk: WorkerIo,
}

impl ThreadIo {
    /// The ports in the order of their `PortId`.
    pub(crate) const fn new(ports: Vec<ThreadPort>, dpdk: WorkerIo) -> Self {
        Self { ports, dpdk }
    }

    /// The ports from which this thread receives, each once for each of its queues.
    pub(crate) fn receiving(&self) -> Vec<PortId> {
        let of_dpdk: Vec<PortId> = self.dpdk.receiving().collect();
        let queues = |place: &ThreadPort| match place {
            ThreadPort::Dpdk(id) => of_dpdk.iter().filter(|known| *known == id).count(),
            ThreadPort::Kernel(share) => usize::from(share.receives),
        };
        let ports = (0..).map(PortId).zip(&self.ports);
        ports.flat_map(|(id, place)| std::iter::repeat_n(id, queues(place))).collect()
    }

    /// Frees the packets that wait in the queues of the thread. Returns how many.
    pub(crate) fn discard_waiting(&mut self) -> usize {
        let mut burst = Burst::new();
        let mut discarded = 0;
        for port in self.receiving() {
            let mut of_port = 0;
            while of_port < DISCARDED_PKTS_MAX {
                let received = self.rx_burst(port, BURST_MAX, &mut burst);
                self.free_burst(&mut burst);
                of_port += received;
                if received == 0 {
                    break;
                }
            }
            discarded += of_port;
        }
        discarded
    }

    /// Duplicated descriptors that are readable while a queue of the thread has packets; `None` if
    /// a queue has no descriptor.
    pub(crate) fn sockets(&self) -> Option<Vec<OwnedFd>> {
        let mut all = self.dpdk.sockets()?;
        for place in &self.ports {
            if let ThreadPort::Kernel(share) = place
                && share.receives
            {
                for socket in share.port.sockets() {
                    all.push(socket.try_clone_to_owned().ok()?);
                }
            }
        }
        Some(all)
    }
}

impl PacketIo for ThreadIo {
    type Buf = Mbuf;

    #[inline]
    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        let Self { ports, dpdk } = self;
        match &mut ports[usize::from(port.0)] {
            ThreadPort::Dpdk(id) => dpdk.rx_burst(*id, limit, burst),
            ThreadPort::Kernel(share) => share.port.rx_burst(limit, burst, || dpdk.alloc()),
        }
    }

    #[inline]
    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Mbuf>) -> usize {
        match &mut self.ports[usize::from(port.0)] {
            ThreadPort::Dpdk(id) => self.dpdk.tx_burst(*id, burst),
            ThreadPort::Kernel(share) => share.port.tx_burst(burst),
        }
    }

    #[inline]
    fn alloc(&mut self) -> Option<Mbuf> {
        self.dpdk.alloc()
    }

    #[inline]
    fn alloc_burst(&mut self, count: usize, burst: &mut Burst<Mbuf>) -> usize {
        self.dpdk.alloc_burst(count, burst)
    }

    #[inline]
    fn free_burst(&mut self, burst: &mut Burst<Mbuf>) {
        self.dpdk.free_burst(burst);
    }

    #[inline]
    fn port_info(&self, port: PortId) -> PortInfo {
        match &self.ports[usize::from(port.0)] {
            ThreadPort::Dpdk(id) => self.dpdk.port_info(*id),
            ThreadPort::Kernel(share) => share.port.info(share.mtu_bytes),
        }
    }
}
