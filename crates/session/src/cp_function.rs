//! Who controls a session, and where.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::Seid;

/// Names the association (or any other owner) that a session belongs to; chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OwnerId(pub u32);

/// The control plane's endpoint of a session. Spec: TS 29.244 §8.2.37.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpFSeid {
    /// Identifier that our messages about the session carry in their header.
    pub seid: Seid,
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl CpFSeid {
    /// The same SEID at another address.
    #[must_use]
    pub const fn at(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(addr) => Self { seid: self.seid, v4: Some(addr), v6: None },
            IpAddr::V6(addr) => Self { seid: self.seid, v4: None, v6: Some(addr) },
        }
    }

    /// True when `address` is one of its addresses.
    #[must_use]
    pub fn is_at(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(addr) => self.v4 == Some(addr),
            IpAddr::V6(addr) => self.v6 == Some(addr),
        }
    }
}
