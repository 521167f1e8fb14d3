//! Network devices, their addresses and routes.

use std::net::IpAddr;

/// An address with the length of its network's prefix, or the prefix alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpNetwork {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the prefix.
    pub len: u8,
}

/// A network device of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkDevice {
    /// The kernel's index of the device.
    pub index: i32,
    /// Name of the device.
    pub name: String,
    /// The type of a virtual device, such as `veth`; `None` for a physical one.
    pub kind: Option<String>,
    /// True if its frames are Ethernet frames.
    pub is_ethernet: bool,
    /// True for the loopback device.
    pub is_loopback: bool,
    /// True if it is administratively up.
    pub is_up: bool,
    /// True if it belongs to a bridge or a bond.
    pub has_master: bool,
    /// True if an XDP program is attached.
    pub has_xdp: bool,
    /// Maximum size of an IP packet.
    pub mtu_bytes: u32,
    /// Addresses of the device with their prefix lengths, without link-local ones.
    pub addresses: Vec<IpNetwork>,
}

/// A route of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRoute {
    /// Destinations of the route.
    pub network: IpNetwork,
    /// Index of the device that packets to the destinations leave through.
    pub device: i32,
    /// The router, unless the destinations are on the link.
    pub gateway: Option<IpAddr>,
}
