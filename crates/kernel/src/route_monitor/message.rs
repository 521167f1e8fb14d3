//! rtnetlink messages as events. Spec: RFC 3549; `linux/rtnetlink.h`.

use std::net::IpAddr;

use adit_types::IpPrefix;
use netlink_packet_core::{DecodeError, NlaBuffer, NlasIterator, Parseable as _};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkHeader};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteType, RouteVia,
};

use crate::kernel_route::{
    DeviceState, KernelHop, KernelRoute, KernelRouteEvent, KernelRouteKey, KernelRouteTarget,
    ROUTE_PROTOCOL,
};
use crate::network::IpNetwork;

/// Octets of `struct ifinfomsg`.
const LINK_HEADER_BYTES: usize = 16;

/// A route of a message, and its table.
pub(super) struct DecodedRoute {
    pub table: u32,
    pub route: KernelRoute,
}

/// Why Adit does not follow a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteIgnored {
    /// Routes of packets that no user sends: local, multicast, link-local; Adit's own; caches.
    NotForwarded,
    /// A type of service, a source prefix, an encapsulation, MPLS, or no hop at all.
    Unsupported,
}

/// Decodes the payload of `RTM_NEWROUTE` or `RTM_DELROUTE`.
///
/// # Errors
/// The message is no route of IPv4 or IPv6, or is cut off.
pub(super) fn route(payload: &[u8]) -> Result<Result<DecodedRoute, RouteIgnored>, DecodeError> {
    Ok(followed(&RouteMessage::parse(payload)?))
}

fn followed(message: &RouteMessage) -> Result<DecodedRoute, RouteIgnored> {
    let header = &message.header;
    let protocol = u8::from(header.protocol);
    if header.flags.contains(RouteFlags::Cloned) || protocol == ROUTE_PROTOCOL {
        return Err(RouteIgnored::NotForwarded);
    }
    let mut table = u32::from(header.table);
    let (mut metric, mut destination, mut hops) = (0, None, Vec::new());
    let mut single = KernelHop { device: 0, gateway: None, weight: 1 };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Destination(addr) => destination = ip(addr),
            RouteAttribute::MultiPath(all) => hops.extend(all.iter().filter_map(member)),
            RouteAttribute::Encap(_) | RouteAttribute::NewDestination(_) => {
                return Err(RouteIgnored::Unsupported);
            }
            other => set_hop(&mut single, other),
        }
    }
    let prefix = prefix(header.address_family, destination, header.destination_prefix_length);
    let prefix = prefix.ok_or(RouteIgnored::Unsupported)?;
    if header.tos != 0 || header.source_prefix_length != 0 {
        return Err(RouteIgnored::Unsupported);
    }
    if !is_of_users(prefix) {
        return Err(RouteIgnored::NotForwarded);
    }
    let target = match header.kind {
        RouteType::Unicast => {
            if hops.is_empty() && single.device != 0 {
                hops.push(single);
            }
            if hops.is_empty() {
                return Err(RouteIgnored::Unsupported);
            }
            // The kernel repeats the members of an IPv6 route in any order.
            hops.sort_unstable();
            KernelRouteTarget::Hops(hops)
        }
        RouteType::BlackHole => KernelRouteTarget::Blackhole,
        RouteType::Unreachable => KernelRouteTarget::Unreachable,
        RouteType::Prohibit => KernelRouteTarget::Prohibit,
        _ => return Err(RouteIgnored::NotForwarded),
    };
    let route = KernelRoute { key: KernelRouteKey { prefix, metric }, protocol, target };
    Ok(DecodedRoute { table, route })
}

/// Returns a member of a multipath route, if it has a device. The state of the device says whether
/// its link is up.
fn member(hop: &RouteNextHop) -> Option<KernelHop> {
    let weight = u16::from(hop.hops) + 1;
    let mut member = KernelHop { device: hop.interface_index, gateway: None, weight };
    hop.attributes.iter().for_each(|attribute| set_hop(&mut member, attribute));
    (member.device != 0).then_some(member)
}

fn set_hop(hop: &mut KernelHop, attribute: &RouteAttribute) {
    match attribute {
        RouteAttribute::Oif(device) => hop.device = *device,
        RouteAttribute::Gateway(addr) => hop.gateway = ip(addr),
        RouteAttribute::Via(RouteVia::Inet(addr)) => hop.gateway = Some((*addr).into()),
        RouteAttribute::Via(RouteVia::Inet6(addr)) => hop.gateway = Some((*addr).into()),
        _ => {}
    }
}

fn ip(addr: &RouteAddress) -> Option<IpAddr> {
    match addr {
        RouteAddress::Inet(addr) => Some((*addr).into()),
        RouteAddress::Inet6(addr) => Some((*addr).into()),
        _ => None,
    }
}

/// Returns the prefix of a route; a default route has no address.
fn prefix(family: AddressFamily, addr: Option<IpAddr>, len: u8) -> Option<IpPrefix> {
    match (family, addr) {
        (AddressFamily::Inet, None) if len == 0 => "0.0.0.0/0".parse().ok(),
        (AddressFamily::Inet6, None) if len == 0 => "::/0".parse().ok(),
        (AddressFamily::Inet, Some(addr @ IpAddr::V4(_)))
        | (AddressFamily::Inet6, Some(addr @ IpAddr::V6(_))) => IpPrefix::containing(addr, len),
        _ => None,
    }
}

/// Returns false for prefixes to which no router forwards.
fn is_of_users(prefix: IpPrefix) -> bool {
    let addr = prefix.addr();
    match addr {
        IpAddr::V4(addr) => !addr.is_multicast() && !addr.is_link_local(),
        IpAddr::V6(addr) => !addr.is_multicast() && !addr.is_unicast_link_local(),
    }
}

/// Decodes the payload of `RTM_NEWLINK` or `RTM_DELLINK`. Attributes that Adit does not need are
/// not decoded, so none of them can hide a link that goes down.
///
/// # Errors
/// The message is cut off.
pub(super) fn device(payload: &[u8]) -> Result<DeviceState, DecodeError> {
    let header = LinkHeader::parse(payload)?;
    let attributes = payload.get(LINK_HEADER_BYTES..).unwrap_or_default();
    let is_name = |found: &NlaBuffer<&[u8]>| found.kind() == libc::IFLA_IFNAME;
    let name = NlasIterator::new(attributes).flatten().find(is_name);
    let text = |of: NlaBuffer<&[u8]>| {
        let octets = of.value().split(|octet| *octet == 0).next().unwrap_or_default().to_vec();
        String::from_utf8_lossy(&octets).into_owned()
    };
    Ok(DeviceState {
        index: header.index,
        name: name.map(text).unwrap_or_default(),
        is_up: header.flags.contains(LinkFlags::Up),
        has_carrier: header.flags.contains(LinkFlags::LowerUp),
    })
}

/// Decodes the payload of `RTM_NEWADDR` or `RTM_DELADDR`: the device and its address.
///
/// # Errors
/// The message is cut off.
pub(super) fn address(payload: &[u8]) -> Result<Option<(u32, IpNetwork)>, DecodeError> {
    let message = AddressMessage::parse(payload)?;
    let (mut local, mut other) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            // The far end of a link between two stations is IFA_ADDRESS.
            AddressAttribute::Local(addr) => local = Some(*addr),
            AddressAttribute::Address(addr) => other = Some(*addr),
            _ => {}
        }
    }
    let network = |addr| IpNetwork { addr, len: message.header.prefix_len };
    Ok(local.or(other).map(|addr| (message.header.index, network(addr))))
}

/// Returns the event of a route that is gone. A message about an IPv6 route names the hops that are
/// gone; an IPv4 route goes as a whole.
pub(super) fn gone(route: KernelRoute) -> KernelRouteEvent {
    let KernelRoute { key, target, .. } = route;
    let hops = match (key.prefix, target) {
        (IpPrefix::V6(_), KernelRouteTarget::Hops(hops)) => hops,
        _ => Vec::new(),
    };
    KernelRouteEvent::RouteGone { key, hops }
}
