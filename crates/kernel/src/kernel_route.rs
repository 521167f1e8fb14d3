//! Routes, devices and addresses of the kernel, as rtnetlink reports them.

use std::net::IpAddr;

use adit_types::IpPrefix;

use crate::network::IpNetwork;

/// The number by which routes of Adit are known in the kernel's tables: `rtm_protocol`.
///
/// The numbers above 4 are the routing daemons' to use; no daemon of iproute2's list, FRR or BIRD
/// has this one. Spec: `linux/rtnetlink.h`, `RTPROT_STATIC` and above.
pub const ROUTE_PROTOCOL: u8 = 97;

/// A route of one table of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRoute {
    /// The key by which the kernel knows the route.
    pub key: KernelRouteKey,
    /// The number of the program that made the route: 2 is the kernel, 3 and 4 are an
    /// administrator, 186 is BGP.
    pub protocol: u8,
    /// The fate of packets to the prefix.
    pub target: KernelRouteTarget,
}

/// The key of a route: its table holds one route per prefix and metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelRouteKey {
    /// The destinations.
    pub prefix: IpPrefix,
    /// The preference among routes of one prefix: the lowest metric wins.
    pub metric: u32,
}

/// The fate of packets to a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelRouteTarget {
    /// Packets leave by one of these hops: one at least, in ascending order.
    Hops(Vec<KernelHop>),
    /// Packets are dropped without an answer.
    Blackhole,
    /// Packets are answered with ICMP host unreachable.
    Unreachable,
    /// Packets are answered with ICMP administratively prohibited.
    Prohibit,
}

/// A member of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelHop {
    /// The number of the device.
    pub device: u32,
    /// The router; `None` for destinations on the link. A route of IPv4 may have a router of IPv6.
    /// Spec: RFC 8950.
    pub gateway: Option<IpAddr>,
    /// The share of flows, 1..=256, relative to the other members.
    pub weight: u16,
}

impl KernelHop {
    /// Returns true if both lead to the same station. The kernel does not repeat the weight of a
    /// hop that it removes.
    #[must_use]
    pub fn is_same_station(&self, other: &Self) -> bool {
        (self.device, self.gateway) == (other.device, other.gateway)
    }
}

/// A device through which routes may lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceState {
    /// The number of the device.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// False if an administrator has switched the device off.
    pub is_up: bool,
    /// False without a link.
    pub has_carrier: bool,
}

/// A change of the kernel's routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelRouteEvent {
    /// The kernel has this route, in place of another one with the same key.
    Route(KernelRoute),
    /// A route is gone. IPv6 routes may lose single hops: if `hops` has some, only those with the
    /// same device and gateway are gone, and the route with its last hop.
    RouteGone {
        /// The key of the route.
        key: KernelRouteKey,
        /// The hops that are gone; empty for all of them.
        hops: Vec<KernelHop>,
    },
    /// A device is there, or has another state.
    Device(DeviceState),
    /// A device is gone.
    DeviceGone(u32),
    /// A device has an address.
    Address(u32, IpNetwork),
    /// A device has lost an address.
    AddressGone(u32, IpNetwork),
    /// All devices, addresses and routes follow, mixed with changes.
    DumpBegins,
    /// All of them have been reported since [`Self::DumpBegins`]. Others do not exist any more.
    DumpEnds,
}
