//! Opens the ports of the configuration and divides them among the threads of the packet path.

use std::mem;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;

use adit_dpdk::{
    Device, Eal, Mempool, MempoolConfig, Port, PortConfig, RxQueue, WorkerIo, WorkerPort,
};
use adit_kernel::{
    IpNetwork, KernelCounters, KernelDevice, KernelPort, PacketConfig, TunConfig, UdpPort,
    UdpPortConfig, open_packet, open_tun, raise_mtu, set_mac,
};
use adit_types::{MacAddr, PortId};
use adit_wire::gtpu::UDP_PORT;
use anyhow::{Context, bail};
use tracing::{info, warn};

use crate::config::{Config, PortDevice, PortSettings};
use crate::ports::steering::{self, PortSteering, SteeringOutcome};
use crate::ports::thread_io::{KernelShare, ThreadIo, ThreadPort};
use crate::ports::xdp::XdpSockets;
use crate::socket_file::remove_dead_socket;

/// Size of a worker's cache of packet buffers.
const MEMPOOL_CACHE_MBUFS: u32 = 256;

/// Creates the pool of packet buffers.
///
/// # Errors
/// There is too little memory.
pub(crate) fn mempool(eal: &Eal, config: &Config) -> anyhow::Result<Mempool> {
    let headroom = 128;
    let pool = MempoolConfig {
        name: "adit",
        mbufs: config.dpdk.mempool_mbufs,
        cache: MEMPOOL_CACHE_MBUFS,
        data_room_bytes: config.dpdk.mbuf_bytes + headroom,
        node: eal.memory_node(),
    };
    Mempool::create(eal, &pool).context(
        "cannot allocate the packet buffers; lower dpdk.mempool_mbufs or raise dpdk.memory_mib",
    )
}

/// An open port.
pub(crate) enum OpenPort {
    Dpdk {
        port: Port,
        /// Index of each worker's receive queue, by worker; `None` for a worker without one, such
        /// as a worker to which receivers hand packets.
        queues: Vec<Option<u16>>,
        /// Duplicated sockets of the receive queues, if the driver has sockets.
        sockets: Vec<OwnedFd>,
    },
    Kernel {
        /// Counters of each thread's share of the port.
        parts: Vec<KernelCounters>,
        rx_queues: u16,
        /// Whether the kernel delivers packets to the owners of their sessions.
        steering: Vec<PortSteering>,
        mac: MacAddr,
    },
}

impl OpenPort {
    /// The port, if it is one of DPDK.
    pub(crate) const fn dpdk(&self) -> Option<&Port> {
        match self {
            Self::Dpdk { port, .. } => Some(port),
            Self::Kernel { .. } => None,
        }
    }

    /// The port's hardware address.
    pub(crate) fn mac(&self) -> MacAddr {
        match self {
            Self::Dpdk { port, .. } => port.info().mac,
            Self::Kernel { mac, .. } => *mac,
        }
    }
}

/// Takes the duplicated sockets of the receive queues of each DPDK port; the drivers keep their
/// own.
pub(crate) fn take_sockets(ports: &mut [OpenPort]) -> Vec<XdpSockets> {
    let of_port = |(port, open): (PortId, &mut OpenPort)| match open {
        OpenPort::Dpdk { sockets, .. } => Some(XdpSockets { port, sockets: mem::take(sockets) }),
        OpenPort::Kernel { .. } => None,
    };
    (0..).map(PortId).zip(ports).filter_map(of_port).collect()
}

/// Prepares the network device of a DPDK port (the device itself, or the one from which the port
/// receives), if the process has the rights.
fn prepare_network_device(device: u32, port: &PortSettings, mac: MacAddr) {
    let PortSettings { name, mtu_bytes, .. } = port;
    if let Err(error) = raise_mtu(device, *mtu_bytes) {
        warn!(
            port = name,
            "{error}; packets beyond its own MTU are lost: run ip link set DEVICE mtu {mtu_bytes}, or lower mtu_bytes"
        );
    }
    let Some(tap) = port.device.dpdk().filter(|device| device.is_driver("net_tap")) else { return };
    // The driver gives the kernel's end the address of the port. With one address, neither end
    // could resolve the other, so the kernel's end gets another one.
    let MacAddr([a, b, c, d, e, last]) = mac;
    let of_kernel = MacAddr([a, b, c, d, e, last ^ 1]);
    if tap.argument("remote").is_none()
        && let Err(error) = set_mac(device, of_kernel)
    {
        warn!(port = name, "{error}; run ip link set DEVICE address {of_kernel}");
    }
}

/// Describes changes to frames by the driver or its peer that adit cannot undo, with the remedy.
fn frame_change_warning(device: &Device) -> Option<String> {
    if device.is_driver("net_af_packet") {
        let iface = device.argument("iface").unwrap_or_default();
        return Some(format!(
            "the driver cuts frames that a kernel has joined (TSO, GRO, UDP segmentation) where its slots end, and they are \
             dropped as frame_cut; shorter joined frames pass as one packet. Write \
             device = \"kernel:packet,iface={iface}\", or run ethtool -K {iface} gro off, \
             and at the other end of a virtual device: ethtool -K PEER tso off gso off"
        ));
    }
    (device.is_driver("net_vhost") && device.argument("tso") == Some("1")).then(|| {
        format!(
            "with tso=1 guests send joined segments, and those beyond a packet buffer are dropped as frame_segmented; write \
             device = \"{}\"",
            device.to_string().replace(",tso=1", "")
        )
    })
}

/// True if the driver creates a socket file, which fails if a killed process left one.
fn creates_socket_file(device: &Device) -> bool {
    device.is_driver("net_vhost") && device.argument("client") != Some("1")
}

/// The threads' shares of ports, while ports are being opened.
struct PortShares<'a> {
    eal: &'a Eal,
    config: &'a Config,
    pool: &'a Mempool,
    /// The threads that receive.
    receiving: Range<usize>,
    /// For each thread its queues of DPDK ports.
    dpdk: Vec<Vec<WorkerPort>>,
    /// For each thread its ports.
    places: Vec<Vec<ThreadPort>>,
    /// Number of receive queues assigned so far.
    next: usize,
}

/// Opens every port, with a transmit queue for each thread that transmits and as many receive
/// queues as the port has, usually at most one for each thread that receives. Returns the ports and
/// the queues of each thread. If a port has fewer queues than there are receiving threads, the next
/// port continues with the next thread.
///
/// # Errors
/// A port cannot be opened; the message names it.
pub(crate) fn open(
    eal: &Eal,
    config: &Config,
    pool: &Mempool,
) -> anyhow::Result<(Vec<OpenPort>, Vec<ThreadIo>)> {
    let roles = config.datapath.roles();
    let receiving = roles.receiving();
    let mut shares = PortShares {
        eal,
        config,
        pool,
        receiving,
        dpdk: (0..roles.threads()).map(|_| Vec::new()).collect(),
        places: (0..roles.threads()).map(|_| Vec::new()).collect(),
        next: 0,
    };
    let mut ports = Vec::new();
    for (id, port) in (0..).map(PortId).zip(&config.ports) {
        let opened = match &port.device {
            PortDevice::Dpdk(_) => shares.open_dpdk(port),
            PortDevice::Kernel(device) => shares.open_kernel(id, port, device),
        };
        let PortSettings { name, device, .. } = port;
        ports.push(opened.with_context(|| format!("port \"{name}\" ({device})"))?);
    }
    let io = shares.places.into_iter().zip(shares.dpdk);
    let io = io.map(|(places, dpdk)| ThreadIo::new(places, WorkerIo::new(dpdk, pool.clone())));
    Ok((ports, io.collect()))
}

impl PortShares<'_> {
    /// Returns the thread that gets the next receive queue.
    fn next_receiver(&mut self) -> usize {
        let thread = self.receiving.start + self.next % self.receiving.len();
        self.next += 1;
        thread
    }

    fn open_dpdk(&mut self, port: &PortSettings) -> anyhow::Result<OpenPort> {
        let Self { eal, config, pool, .. } = *self;
        let device = port.device.dpdk().context("a device of the kernel")?;
        if let Some(listens_at) = device.argument("iface").filter(|_| creates_socket_file(device)) {
            remove_dead_socket(Path::new(listens_at), "iface")?;
        }
        let roles = config.datapath.roles();
        let transmitting = roles.transmitting();
        let wanted = PortConfig {
            device,
            rx_queues: match port.rx_queues {
                Some(queues) => queues,
                None => u16::try_from(self.receiving.len()).context("too many receivers")?,
            },
            tx_queues: u16::try_from(transmitting.len()).context("too many workers")?,
            rx_descriptors: config.dpdk.rx_descriptors,
            tx_descriptors: config.dpdk.tx_descriptors,
            mtu_bytes: port.mtu_bytes,
            promiscuous: false,
            mempool: pool,
        };
        let (opened, rx, tx) = Port::open(eal, &wanted)?;
        let (info, rx_queues) = (opened.info(), rx.len());
        if port.rx_queues.is_some_and(|queues| usize::from(queues) > rx_queues) {
            bail!(
                "offers only {rx_queues} receive queues; lower its rx_queues: packets are handed \
                 over to their workers"
            );
        }
        info!(port = port.name, %device, mac = %info.mac, rx_queues, "port started");
        if let Some(of_kernel) = opened.network_device() {
            prepare_network_device(of_kernel, port, info.mac);
        }
        if let Some(changed) = frame_change_warning(device) {
            warn!(port = port.name, "{changed}");
        }
        let duplicate = |rx: &RxQueue| rx.socket()?.try_clone_to_owned().ok();
        let sockets = rx.iter().filter_map(duplicate).collect();
        let mut queues: Vec<_> = self.dpdk.iter().map(|_| Vec::new()).collect();
        let mut numbers = vec![None; roles.workers()];
        for (number, rx) in (0..).zip(rx) {
            let thread = self.next_receiver();
            queues[thread].push(rx);
            if let Some(of_worker) = numbers.get_mut(thread) {
                *of_worker = Some(number);
            }
        }
        let none = || std::iter::repeat_with(|| None);
        let tx = none().take(transmitting.start).chain(tx.into_iter().map(Some)).chain(none());
        let parts = self.dpdk.iter_mut().zip(&mut self.places);
        for ((dpdk, places), (rx, tx)) in parts.zip(queues.into_iter().zip(tx)) {
            places.push(ThreadPort::Dpdk(PortId(u16::try_from(dpdk.len())?)));
            dpdk.push(WorkerPort { rx, tx, info });
        }
        Ok(OpenPort::Dpdk { port: opened, queues: numbers, sockets })
    }

    /// Opens a queue or sockets for each receiving thread. The other threads send through
    /// duplicates.
    fn open_kernel(
        &mut self,
        id: PortId,
        port: &PortSettings,
        device: &KernelDevice,
    ) -> anyhow::Result<OpenPort> {
        let rx_queues = port.rx_queues.map_or(self.receiving.len(), usize::from);
        let queues = match device {
            KernelDevice::Udp => self.open_sockets(id, port, rx_queues)?,
            KernelDevice::Tun { name } => self.open_tun(id, port, name, rx_queues)?,
            KernelDevice::Packet { iface } => {
                let (device, mtu_bytes) = (iface.as_str(), port.mtu_bytes);
                let queues = open_packet(&PacketConfig { device, queues: rx_queues, mtu_bytes })?;
                queues.into_iter().map(KernelPort::Packet).collect()
            }
        };
        let steering = self.steer_kernel(&queues);
        let mac = queues.first().context("no queue")?.info(port.mtu_bytes).mac;
        let is_one_each = queues.len() == self.receiving.len();
        let mut owners: Vec<Option<KernelPort>> = self.places.iter().map(|_| None).collect();
        let senders: Vec<KernelPort> =
            queues.iter().map(KernelPort::try_clone_sender).collect::<Result<_, _>>()?;
        for (number, queue) in queues.into_iter().enumerate() {
            if is_one_each {
                // Queue n goes to receiving thread n: steering relies on this order.
                owners[self.receiving.start + number] = Some(queue);
                continue;
            }
            let mut thread = self.next_receiver();
            // A thread reads at most one queue of a port.
            while owners[thread].is_some() {
                thread = self.next_receiver();
            }
            owners[thread] = Some(queue);
        }
        info!(port = port.name, %device, %mac, rx_queues, "port started");
        let mut parts = Vec::new();
        for (at, (places, own)) in self.places.iter_mut().zip(owners).enumerate() {
            let receives = own.is_some();
            let kernel = match own {
                Some(own) => own,
                None => senders[at % senders.len()].try_clone_sender()?,
            };
            parts.push(kernel.counters());
            let mtu_bytes = port.mtu_bytes;
            let share = KernelShare { port: kernel, mtu_bytes, receives };
            places.push(ThreadPort::Kernel(Box::new(share)));
        }
        Ok(OpenPort::Kernel { parts, rx_queues: u16::try_from(rx_queues)?, steering, mac })
    }

    /// Makes the kernel deliver G-PDUs to the owners of their sessions, if each worker has a
    /// socket.
    fn steer_kernel(&self, queues: &[KernelPort]) -> Vec<PortSteering> {
        let workers = self.config.datapath.roles().workers();
        let Some(KernelPort::Udp(first)) = queues.first() else { return Vec::new() };
        let outcome = if workers < 2 {
            SteeringOutcome::NotTried("there is one worker".to_owned())
        } else if queues.len() < workers || self.receiving.start != 0 {
            SteeringOutcome::NotTried("not every worker has a socket".to_owned())
        } else {
            match first.steer_to_owners(workers) {
                Ok(()) => SteeringOutcome::Accepted(1),
                Err(error) => SteeringOutcome::Refused(error.to_string()),
            }
        };
        vec![PortSteering { key: "TEID".to_owned(), outcome }]
    }

    fn open_sockets(
        &self,
        id: PortId,
        port: &PortSettings,
        count: usize,
    ) -> anyhow::Result<Vec<KernelPort>> {
        let interfaces = self.config.interfaces.iter().filter(|known| known.port == id);
        let addresses = interfaces.flat_map(|known| {
            let v4 = known.v4.map(|(addr, _)| SocketAddr::from((addr, UDP_PORT)));
            let v6 = known.v6.map(|(addr, _)| SocketAddr::from((addr, UDP_PORT)));
            v4.into_iter().chain(v6)
        });
        let wanted = UdpPortConfig {
            addresses: addresses.collect(),
            mtu_bytes: port.mtu_bytes,
            free_bind: self.config.standby.is_some(),
        };
        let open = || Ok(KernelPort::Udp(UdpPort::open(&wanted)?));
        (0..count).map(|_| open()).collect()
    }

    fn open_tun(
        &self,
        id: PortId,
        port: &PortSettings,
        name: &str,
        queues: usize,
    ) -> anyhow::Result<Vec<KernelPort>> {
        let interfaces = || self.config.interfaces.iter().filter(|known| known.port == id);
        let addresses: Vec<IpNetwork> =
            interfaces().flat_map(|known| known.links().map(Into::into)).collect();
        let pools = interfaces().flat_map(|known| steering::pools(self.config, known));
        let mut routes: Vec<IpNetwork> = pools.map(Into::into).collect();
        routes.sort_unstable_by_key(|route| (route.addr, route.len));
        routes.dedup();
        let config = TunConfig {
            name,
            queues,
            mtu_bytes: port.mtu_bytes,
            addresses: &addresses,
            routes: &routes,
        };
        Ok(open_tun(&config)?.into_iter().map(KernelPort::Tun).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_that_passes_changed_frames_is_named_with_what_to_write() {
        let told = |text: &str| frame_change_warning(&text.parse().unwrap());
        let packet = told("net_af_packet0,iface=eth1").unwrap();
        for words in
            ["frame_cut", "device = \"kernel:packet,iface=eth1\"", "ethtool -K eth1 gro off"]
        {
            assert!(packet.contains(words), "{packet}");
        }
        let vhost = told("net_vhost0,iface=/run/v,tso=1").unwrap();
        assert!(vhost.ends_with("write device = \"net_vhost0,iface=/run/v\""), "{vhost}");
        for device in ["net_vhost0,iface=/run/v", "net_virtio_user0", "net_memif0", "net_tap0"] {
            assert_eq!(told(device), None);
        }
    }
}
