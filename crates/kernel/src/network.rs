//! Addresses and networks of a device.

use std::net::IpAddr;

/// An address with the length of its network's prefix, or the prefix alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpNetwork {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the prefix.
    pub len: u8,
}
