//! Where a FAR sends packets other than their destination says.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The target to which a FAR redirects packets. Spec: TS 29.244 §7.5.2.3, §8.2.20.
///
/// No flow is remembered. An address takes the place of the far side's: of the destination in
/// uplink, and in downlink of the source, so that the answers come from where the UE sent its
/// packets. The control plane therefore gives the FAR of the answers the address that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Redirect {
    /// The far side's address and port are replaced; packets of a family without an address are
    /// dropped. With a port alone the address stays.
    Address {
        /// For IPv4 packets.
        v4: Option<Ipv4Addr>,
        /// For IPv6 packets.
        v6: Option<Ipv6Addr>,
        /// Port of TCP and UDP.
        port: Option<u16>,
    },
    /// HTTP requests of the UE are answered with this location; everything else is dropped.
    /// Printable ASCII of at most `limits::REDIRECT_URL_BYTES_MAX` octets.
    Url(Box<str>),
}

/// The station to which a forwarding policy sends packets, by address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Steering {
    /// For IPv4 packets; absent follows the routes.
    pub v4: Option<Ipv4Addr>,
    /// For IPv6 packets; absent follows the routes.
    pub v6: Option<Ipv6Addr>,
}

impl Steering {
    /// The address whose route a packet to `dst` takes.
    #[inline]
    #[must_use]
    pub fn towards(&self, dst: IpAddr) -> IpAddr {
        match dst {
            IpAddr::V4(_) => self.v4.map_or(dst, IpAddr::V4),
            IpAddr::V6(_) => self.v6.map_or(dst, IpAddr::V6),
        }
    }
}
