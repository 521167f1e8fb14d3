//! Identifiers and addresses of the CP function that controls a session.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::Seid;

/// Identifies the association (or another owner) to which a session belongs; chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OwnerId(pub u32);

/// The control plane's endpoint of a session. Spec: TS 29.244 §8.2.37.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpFSeid {
    /// SEID in the header of the messages that we send about the session.
    pub seid: Seid,
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl CpFSeid {
    /// Returns the same SEID with another address.
    #[must_use]
    pub const fn at(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(addr) => Self { seid: self.seid, v4: Some(addr), v6: None },
            IpAddr::V6(addr) => Self { seid: self.seid, v4: None, v6: Some(addr) },
        }
    }

    /// True if `address` is one of the addresses.
    #[must_use]
    pub fn is_at(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(addr) => self.v4 == Some(addr),
            IpAddr::V6(addr) => self.v6 == Some(addr),
        }
    }
}
