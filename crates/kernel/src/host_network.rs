//! The present network devices, addresses and routes of the host.

use std::io;
use std::net::IpAddr;

use crate::error::KernelError;
use crate::netlink::Netlink;
use crate::network::{HostRoute, IpNetwork, NetworkDevice};
use crate::syscall::ethtool_value;

/// `linux/ethtool.h`: commands that read whether GRO is enabled, and the feature flags of a device.
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GFLAGS: u32 = 0x25;
/// Feature flag: the card joins received segments (LRO).
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Network devices and routes of the host, in the network namespace of this thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNetwork {
    /// Sorted by index.
    pub devices: Vec<NetworkDevice>,
    /// Unicast routes of the main table.
    pub routes: Vec<HostRoute>,
}

/// Which offloads of a device join received segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiveOffloads {
    /// The kernel joins segments (GRO).
    pub gro: bool,
    /// The card joins segments (LRO).
    pub lro: bool,
}

impl HostNetwork {
    /// Reads devices, addresses and routes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read() -> Result<Self, KernelError> {
        let read = || {
            let mut netlink = Netlink::open()?;
            let mut devices = netlink.devices()?;
            devices.sort_unstable_by_key(|device| device.index);
            for (index, address) in netlink.addresses()? {
                let device = devices.iter_mut().find(|device| device.index == index);
                device.into_iter().for_each(|device| device.addresses.push(address));
            }
            Ok(Self { devices, routes: netlink.routes()? })
        };
        read().map_err(|error| KernelError::device("cannot read", "network devices", error))
    }

    /// Returns the device with this name.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<&NetworkDevice> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// Returns the device that has this address, and the address with its prefix length.
    #[must_use]
    pub fn owner(&self, addr: IpAddr) -> Option<(&NetworkDevice, IpNetwork)> {
        let of = |device: &NetworkDevice| {
            device.addresses.iter().find(|known| known.addr == addr).copied()
        };
        self.devices.iter().find_map(|device| Some((device, of(device)?)))
    }

    /// Returns the gateways of the default routes through `device`, or through all devices if it is
    /// `None`.
    pub fn default_gateways(&self, device: Option<i32>) -> impl Iterator<Item = IpAddr> {
        let is_here = move |route: &&HostRoute| {
            route.network.len == 0 && device.is_none_or(|device| device == route.device)
        };
        self.routes.iter().filter(is_here).filter_map(|route| route.gateway)
    }
}

/// Reads which receive offloads of a device are enabled.
///
/// # Errors
/// There is no such device, or its driver does not support the query.
pub fn receive_offloads(device: &str) -> io::Result<ReceiveOffloads> {
    let gro = ethtool_value(device, ETHTOOL_GGRO)? != 0;
    let flags = ethtool_value(device, ETHTOOL_GFLAGS)?;
    Ok(ReceiveOffloads { gro, lro: flags & ETH_FLAG_LRO != 0 })
}
