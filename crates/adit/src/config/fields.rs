//! Values that occur in several sections.

use std::net::{IpAddr, Ipv4Addr};

use adit_types::{Ipv4Prefix, Ipv6Prefix};

/// The form of network instances.
pub(super) const NETWORK_INSTANCE: &str = "a name such as \"internet\"";

/// Says why a text is no network instance.
pub(super) fn network_instance(name: &str) -> Result<(), String> {
    let is_name =
        (1..=100).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then_some(()).ok_or("takes 1 to 100 printable characters without spaces".to_owned())
}

/// Says why a text is no name.
pub(super) fn name(name: &str) -> Result<(), String> {
    (!name.is_empty()).then_some(()).ok_or_else(|| "takes a name".to_owned())
}

/// An address with a prefix length. Interface addresses have host bits set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IpNet {
    pub addr: IpAddr,
    pub len: u8,
}

impl IpNet {
    /// All IPv4 addresses.
    pub(super) const ANY: Self = Self { addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED), len: 0 };
}

impl std::str::FromStr for IpNet {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (addr, len) = text.split_once('/').ok_or(())?;
        let addr: IpAddr = addr.parse().map_err(|_| ())?;
        let len: u8 = len.parse().map_err(|_| ())?;
        let width = if addr.is_ipv4() { 32 } else { 128 };
        if len <= width { Ok(Self { addr, len }) } else { Err(()) }
    }
}

impl std::fmt::Display for IpNet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// The first address of the prefix.
pub(super) fn network(net: IpNet) -> Option<IpAddr> {
    Some(match net.addr {
        IpAddr::V4(addr) => Ipv4Prefix::containing(addr, net.len)?.addr().into(),
        IpAddr::V6(addr) => Ipv6Prefix::containing(addr, net.len)?.addr().into(),
    })
}
