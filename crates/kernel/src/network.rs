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
    /// The kernel's number.
    pub index: i32,
    /// Its name.
    pub name: String,
    /// The kind of a virtual device, such as `veth`.
    pub kind: Option<String>,
    /// True if its frames are Ethernet's.
    pub is_ethernet: bool,
    /// True for the loopback device.
    pub is_loopback: bool,
    /// True if it is up.
    pub is_up: bool,
    /// True if it belongs to a bridge or a bond.
    pub has_master: bool,
    /// True if an XDP program is attached.
    pub has_xdp: bool,
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// Its addresses with the lengths of their prefixes, without link-local ones.
    pub addresses: Vec<IpNetwork>,
}

/// A route of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRoute {
    /// Its destinations.
    pub network: IpNetwork,
    /// The number of its device.
    pub device: i32,
    /// The router, unless the destinations are on the link.
    pub gateway: Option<IpAddr>,
}
