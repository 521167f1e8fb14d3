//! The kernel's devices as packet ports: UDP sockets for GTP-U (N3, N9, N4-u), a TUN device for N6,
//! and packet sockets on a network device for either. Also addresses that adit adds to the host's
//! devices while it is active.
//!
//! A port needs neither hugepages nor a DPDK device; a TUN device needs `CAP_NET_ADMIN`, a packet
//! socket `CAP_NET_RAW`. With UDP sockets and a TUN device the kernel routes, resolves neighbors,
//! reassembles and filters. To the datapath these ports pass Ethernet frames, as every port does:
//! they prepend the headers that the kernel has removed to received packets, and strip them from
//! sent ones. All frames come from and go to one station, [`STATION_MAC`]. A packet socket passes
//! whole frames of the device: the kernel adds no headers and removes none.
//!
//! Large packets of the kernel (GSO) are segmented to the path's size, and packets of one flow are
//! joined before they are sent: one system call moves many packets. A driver decides nothing about
//! traffic: it counts packets that it cannot send, and never replies to one.
//!
//! Does not live here: the choice of the frames that adit processes, and the replies to them
//! (`datapath`).

mod cmsg;
mod counters;
mod device;
mod device_addresses;
mod error;
mod frame;
mod host_addresses;
mod host_network;
pub mod idle;
mod join;
mod kernel_route;
#[cfg(test)]
mod large_packet_tests;
pub mod large_pages;
pub mod n4_socket;
mod net_namespace;
mod netlink;
mod network;
mod network_device;
mod owner_filter;
mod packet;
mod packet_socket;
mod receive;
mod route_announcer;
mod route_monitor;
mod segment;
mod syscall;
mod tap;
mod tun;
mod tun_config;
mod udp;
mod vnet;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use adit_pktio::{Burst, PacketBuf, PortInfo};
use adit_types::MacAddr;

pub use counters::{KernelCounters, PortCounters};
pub use device::{KernelDevice, KernelDeviceParseError};
pub use device_addresses::device_addresses;
pub use error::KernelError;
pub use host_addresses::{DeviceAddress, HostAddresses};
pub use host_network::{HostNetwork, ReceiveOffloads, receive_offloads};
pub use kernel_route::{
    DeviceState, KernelHop, KernelRoute, KernelRouteEvent, KernelRouteKey, KernelRouteTarget,
    ROUTE_PROTOCOL,
};
pub use net_namespace::in_namespace;
pub use network::{HostRoute, IpNetwork, NetworkDevice};
pub use network_device::{raise_mtu, set_mac};
pub use packet::{PacketConfig, PacketPort, open_packet};
pub use route_announcer::{RouteAnnouncement, RouteAnnouncer};
pub use route_monitor::{RouteMonitor, RouteMonitorConfig, RouteMonitorCounters};
pub use tap::{TapConfig, TapDevice};
pub use tun::TunQueue;
pub use tun_config::{TunConfig, open_tun, tun_missed_pkts};
pub use udp::{UdpPort, UdpPortConfig};

/// The hardware address of every kernel port, locally administered.
pub const PORT_MAC: MacAddr = MacAddr([0x02, 0x61, 0x64, 0x69, 0x74, 0x01]);

/// The hardware address of the kernel, the only station on the link of a kernel port.
pub const STATION_MAC: MacAddr = MacAddr([0x02, 0x61, 0x64, 0x69, 0x74, 0x02]);

/// The part of a kernel port that belongs to one worker.
#[derive(Debug)]
pub enum KernelPort {
    /// UDP sockets.
    Udp(UdpPort),
    /// A queue of a TUN device.
    Tun(TunQueue),
    /// A packet socket.
    Packet(PacketPort),
}

impl KernelPort {
    /// Appends at most `limit` received packets to `burst`; returns how many. `alloc` returns an
    /// empty buffer with full headroom, or `None` if none is free: the packet is then lost and
    /// counted.
    ///
    /// Cost: system calls until the device has no packet or `burst` has `limit`. Never blocks.
    pub fn rx_burst<B: PacketBuf>(
        &mut self,
        limit: usize,
        burst: &mut Burst<B>,
        alloc: impl FnMut() -> Option<B>,
    ) -> usize {
        match self {
            Self::Udp(port) => port.rx_burst(limit, burst, alloc),
            Self::Tun(queue) => queue.rx_burst(limit, burst, alloc),
            Self::Packet(queue) => queue.rx_burst(limit, burst, alloc),
        }
    }

    /// Sends `burst`. Packets for which the device has no room stay in it, in order; packets that
    /// the device can never send are freed and counted.
    ///
    /// Cost: a system call per packet or per run of packets that the kernel takes as one. Never
    /// blocks.
    pub fn tx_burst<B: PacketBuf>(&mut self, burst: &mut Burst<B>) -> usize {
        match self {
            Self::Udp(port) => port.tx_burst(burst),
            Self::Tun(queue) => queue.tx_burst(burst),
            Self::Packet(queue) => queue.tx_burst(burst),
        }
    }

    /// Creates a part of the same port for a thread that only sends, with counters of its own.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn try_clone_sender(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Udp(port) => Self::Udp(port.try_clone_sender()?),
            Self::Tun(queue) => Self::Tun(queue.try_clone_sender()?),
            Self::Packet(queue) => Self::Packet(queue.try_clone_sender()?),
        })
    }

    /// Returns the descriptors that are readable while the port has packets.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (udp, other) = match self {
            Self::Udp(port) => (Some(port.sockets()), None),
            Self::Tun(queue) => (None, Some(queue.as_fd())),
            Self::Packet(queue) => (None, Some(queue.as_fd())),
        };
        udp.into_iter().flatten().chain(other)
    }

    /// Returns the properties of the port for a worker; `mtu_bytes` is the size of its largest IP
    /// packet.
    #[must_use]
    pub const fn info(&self, mtu_bytes: u16) -> PortInfo {
        let mac = match self {
            Self::Udp(_) | Self::Tun(_) => PORT_MAC,
            Self::Packet(queue) => queue.mac(),
        };
        PortInfo { mac, mtu_bytes, rx_ipv4_checksum: false }
    }

    /// Returns a reader of this part's counters, which another thread may use.
    #[must_use]
    pub fn counters(&self) -> KernelCounters {
        match self {
            Self::Udp(port) => port.counters(),
            Self::Tun(queue) => queue.counters(),
            Self::Packet(queue) => queue.counters(),
        }
    }
}
