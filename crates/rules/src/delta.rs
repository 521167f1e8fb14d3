//! A change of the data plane: `session` commits it, a data plane applies it.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_types::{DomainId, IpPrefix, SessionIndex, Teid};

use crate::rule::{SessionRules, UE_IPV6_KEY_BITS, ue_ipv6_key};

/// A key under which packets of a session are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionKey {
    /// A local TEID: packets that arrive in a tunnel.
    Teid(Teid),
    /// A UE's IPv4 address: packets from the data networks of a routing domain.
    UeIpv4(DomainId, Ipv4Addr),
    /// The upper 64 bits of a UE's IPv6 address: packets from the data networks of a routing
    /// domain.
    UeIpv6(DomainId, u64),
    /// A network behind a UE, or a UE prefix shorter than an address key: packets from the data
    /// networks of a routing domain that match no address key. The longest matching prefix wins.
    Framed(DomainId, IpPrefix),
}

impl SessionKey {
    /// Returns the key under which packets to `prefix` are found in `domain`: an address key if the
    /// prefix is at least as long.
    #[must_use]
    pub fn of_prefix(domain: DomainId, prefix: IpPrefix) -> Self {
        match prefix {
            IpPrefix::V4(host) if host.len() == 32 => Self::UeIpv4(domain, host.addr()),
            IpPrefix::V6(prefix) if prefix.len() >= UE_IPV6_KEY_BITS => {
                Self::UeIpv6(domain, ue_ipv6_key(prefix.addr()))
            }
            _ => Self::Framed(domain, prefix),
        }
    }

    /// Returns the addresses of a UE's key or of a network behind the UE; `None` for a TEID. The
    /// inverse of [`Self::of_prefix`].
    #[must_use]
    pub fn prefix(self) -> Option<IpPrefix> {
        match self {
            Self::Teid(_) => None,
            Self::UeIpv4(_, addr) => IpPrefix::containing(addr.into(), 32),
            Self::UeIpv6(_, upper) => {
                let addr = Ipv6Addr::from_bits(u128::from(upper) << 64);
                IpPrefix::containing(addr.into(), UE_IPV6_KEY_BITS)
            }
            Self::Framed(_, prefix) => Some(prefix),
        }
    }

    /// Returns the routing domain; `None` for a TEID, which is unique in the UPF.
    #[must_use]
    pub const fn domain(self) -> Option<DomainId> {
        match self {
            Self::Teid(_) => None,
            Self::UeIpv4(domain, _) | Self::UeIpv6(domain, _) | Self::Framed(domain, _) => {
                Some(domain)
            }
        }
    }

    /// Returns the same key in the routing domain `domain`; a TEID stays as it is.
    #[must_use]
    pub const fn within(self, domain: DomainId) -> Self {
        match self {
            Self::Teid(_) => self,
            Self::UeIpv4(_, addr) => Self::UeIpv4(domain, addr),
            Self::UeIpv6(_, upper) => Self::UeIpv6(domain, upper),
            Self::Framed(_, prefix) => Self::Framed(domain, prefix),
        }
    }
}

/// One key that appears or disappears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyChange {
    /// From now on the key leads to the session.
    Add(SessionKey),
    /// From now on the key leads nowhere.
    Remove(SessionKey),
}

/// The whole change of one PFCP session. It is applied as a whole: a packet sees the rules before
/// or after it.
///
/// Keys and rules were checked against every capacity before; applying a delta cannot fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDelta {
    /// The session.
    pub session: SessionIndex,
    /// Keys that change. A key never moves between two sessions within one delta.
    pub keys: Vec<KeyChange>,
    /// The session's new rules; `None` removes the session.
    pub rules: Option<Box<SessionRules>>,
}
