//! Addresses with the lengths of their prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_kernel::IpNetwork;
use adit_types::{Ipv4Prefix, Ipv6Prefix};

/// A prefix, or the address of an interface with the length of its prefix (and host bits set).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IpNet {
    pub addr: IpAddr,
    pub len: u8,
}

impl IpNet {
    /// All IPv4 addresses.
    pub(crate) const ANY: Self = Self { addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED), len: 0 };

    /// Makes the prefix that consists of one address.
    pub(crate) const fn host(addr: IpAddr) -> Self {
        Self { addr, len: width(addr) }
    }

    /// Returns the address at `offset` behind the first one of the prefix.
    pub(crate) fn nth(self, offset: u8) -> IpAddr {
        match self.to_prefix().addr {
            IpAddr::V4(addr) => Ipv4Addr::from_bits(addr.to_bits() | u32::from(offset)).into(),
            IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() | u128::from(offset)).into(),
        }
    }

    /// True if no host bit is set.
    pub(crate) fn is_prefix(&self) -> bool {
        network(*self) == Some(self.addr)
    }

    /// Returns the prefix that contains the address.
    pub(crate) fn to_prefix(self) -> Self {
        Self { addr: network(self).unwrap_or(self.addr), ..self }
    }

    /// True if all addresses of `inner` are addresses of this one.
    pub(crate) fn contains(self, inner: Self) -> bool {
        self.len <= inner.len && self.overlaps(inner)
    }

    /// True if the two have an address in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let len = self.len.min(other.len);
        let both = [self, other].map(|net| network(Self { len, ..net }));
        self.addr.is_ipv4() == other.addr.is_ipv4() && both[0] == both[1]
    }
}

impl std::str::FromStr for IpNet {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (addr, len) = text.split_once('/').ok_or(())?;
        let addr: IpAddr = addr.parse().map_err(|_| ())?;
        let len: u8 = len.parse().map_err(|_| ())?;
        if len <= width(addr) { Ok(Self { addr, len }) } else { Err(()) }
    }
}

impl std::fmt::Display for IpNet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl From<IpNetwork> for IpNet {
    fn from(IpNetwork { addr, len }: IpNetwork) -> Self {
        Self { addr, len }
    }
}

impl From<IpNet> for IpNetwork {
    fn from(IpNet { addr, len }: IpNet) -> Self {
        Self { addr, len }
    }
}

/// Returns how many bits an address has.
const fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

/// Returns the first address of the prefix; `None` if the length exceeds the address.
fn network(net: IpNet) -> Option<IpAddr> {
    Some(match net.addr {
        IpAddr::V4(addr) => Ipv4Prefix::containing(addr, net.len)?.addr().into(),
        IpAddr::V6(addr) => Ipv6Prefix::containing(addr, net.len)?.addr().into(),
    })
}
