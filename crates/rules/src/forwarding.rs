//! Where a FAR sends packets if not to their destination.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The target to which a FAR redirects packets. Spec: TS 29.244 §7.5.2.3, §8.2.20.
///
/// Redirection keeps no state per flow. In uplink the address replaces the destination. In downlink
/// it replaces the source, so that answers seem to come from where the UE sent its packets: the
/// control plane gives the FAR of downlink the address that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Redirect {
    /// Replaces the network-side address and port. Packets of a family without an address here are
    /// dropped; if there is only a port, the address stays.
    Address {
        /// The new address of IPv4 packets.
        v4: Option<Ipv4Addr>,
        /// The new address of IPv6 packets.
        v6: Option<Ipv6Addr>,
        /// The new port of TCP and UDP packets.
        port: Option<u16>,
    },
    /// Answers HTTP requests of the UE with a redirect to this URL, and drops all other packets.
    /// Printable ASCII of at most `limits::REDIRECT_URL_BYTES_MAX` octets.
    Url(Box<str>),
}

/// The station to which a forwarding policy sends packets, by address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Steering {
    /// For IPv4 packets; `None` if they follow the routes.
    pub v4: Option<Ipv4Addr>,
    /// For IPv6 packets; `None` if they follow the routes.
    pub v6: Option<Ipv6Addr>,
}

impl Steering {
    /// Returns the address by which a packet to `dst` is routed.
    #[inline]
    #[must_use]
    pub fn towards(&self, dst: IpAddr) -> IpAddr {
        match dst {
            IpAddr::V4(_) => self.v4.map_or(dst, IpAddr::V4),
            IpAddr::V6(_) => self.v6.map_or(dst, IpAddr::V6),
        }
    }
}
