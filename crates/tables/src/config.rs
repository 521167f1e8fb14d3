//! The configuration of the tables: capacities, logical interfaces and routes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::{OffloadInterface, RateLimit};
use adit_types::limits::{
    INTERFACES_MAX, NEXT_HOPS_MAX, ROUTES_MAX, SESSIONS_MAX, SLICES_MAX, WORKERS_MAX,
};
use adit_types::{
    DomainId, InterfaceId, InterfaceRole, InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix, MacAddr,
    PortId, TcpMss, VlanId,
};

/// Most low bits of a TEID that may select its slot in the direct index, which then takes 2 GiB.
const TEID_SLOT_BITS_MAX: u8 = 28;

/// The size and the constant contents of the tables.
#[derive(Debug, Clone)]
pub struct TablesConfig {
    /// Most PFCP sessions, 1..=`SESSIONS_MAX`.
    pub sessions_max: usize,
    /// Low bits of a TEID that select its slot in the direct index, 1..=28. The index takes 8
    /// octets × 2^bits.
    pub teid_slot_bits: u8,
    /// Workers, which read the tables, 0..=`WORKERS_MAX`.
    pub workers: usize,
    /// Most next hops, 1..=`NEXT_HOPS_MAX`. A quarter is reserved for gateways and GTP-U peers:
    /// on-link hosts, added when packets are sent to them, use only the rest.
    pub next_hops_max: usize,
    /// Random secret of the hash tables: a peer that knew it could choose keys that collide.
    pub seed: u64,
    /// Logical interfaces; the id of each is its position.
    pub interfaces: Vec<Interface>,
    /// Our addresses in addition to those of the interfaces, such as the N4 address. UEs cannot
    /// reach these either.
    pub own_addrs: Vec<IpAddr>,
    /// Routes in addition to the connected prefixes.
    pub routes: Vec<Route>,
    /// Limits of the rates that sessions share, uplink and downlink: first for all sessions, then
    /// by slice. Slices beyond the end are unlimited.
    pub aggregates: Vec<[RateLimit; 2]>,
    /// Pools of UE addresses by domain: an index by address finds UEs inside them without a hash.
    pub ue_pools_v4: Vec<(DomainId, Ipv4Prefix)>,
    /// Domains with local switching: their UEs reach each other without the data network.
    pub local_switching_domains: Vec<DomainId>,
}

/// A logical interface: an ethdev port, or one VLAN on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Position in the list of interfaces.
    pub id: InterfaceId,
    /// The reference point that the interface serves.
    pub role: InterfaceRole,
    /// The routing domain. Only for N6 interfaces.
    pub domain: DomainId,
    /// The ethdev port.
    pub port: PortId,
    /// The VLAN, or [`VlanId::UNTAGGED`].
    pub vlan: VlanId,
    /// Our link-layer address here.
    pub mac: MacAddr,
    /// Largest IP packet that the link carries.
    pub mtu_bytes: u16,
    /// Longest IP packet that leaves in one piece: less than `mtu_bytes` if the kernel fragments.
    pub unfragmented_bytes: u16,
    /// True if outer IPv4 headers of tunnels have DF; otherwise routers may fragment packets.
    pub outer_df: bool,
    /// The setting of the data network for the MSS of TCP. Only for N6 interfaces.
    pub tcp_mss: TcpMss,
    /// The link-layer address of the only other station on the link: all packets go to it, and it
    /// routes them. `None` if stations on the link have to be resolved.
    pub station: Option<MacAddr>,
    /// Our IPv4 address and the length of the connected prefix.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Our IPv6 address and the length of the connected prefix.
    pub v6: Option<(Ipv6Addr, u8)>,
}

impl From<&Interface> for OffloadInterface {
    fn from(of: &Interface) -> Self {
        let &Interface { id, role, domain, port, vlan, mac, mtu_bytes, .. } = of;
        // An offload writes headers with DF only.
        let is_usual = of.outer_df || !of.role.is_gtpu();
        let v4 = of.v4.filter(|_| is_usual).map(|(addr, _)| addr);
        let v6 = of.v6.map(|(addr, _)| addr);
        let keeps_syns = of.tcp_mss.is_on();
        Self { id, role, domain, port, vlan, mac, mtu_bytes, keeps_syns, v4, v6 }
    }
}

impl Interface {
    /// Our IPv6 link-local address.
    #[must_use]
    pub const fn link_local(&self) -> Ipv6Addr {
        self.mac.link_local()
    }

    /// Returns our addresses on this interface, without the link-local one.
    pub(crate) fn addrs(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.v4.map(|(addr, _)| IpAddr::V4(addr));
        v4.into_iter().chain(self.v6.map(|(addr, _)| IpAddr::V6(addr)))
    }

    /// True if `addr` is ours on this interface. The link-local address is ours if the interface
    /// has an IPv6 address.
    #[inline]
    #[must_use]
    pub fn owns(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => self.v4.is_some_and(|(own, _)| own == addr),
            IpAddr::V6(addr) => {
                self.v6.is_some_and(|(own, _)| own == addr || self.link_local() == addr)
            }
        }
    }

    /// True if `addr` is another station's unicast address on this link. The only station of a link
    /// ([`Interface::station`]) has the unspecified address.
    #[must_use]
    pub fn is_neighbor(&self, addr: IpAddr) -> bool {
        if self.station.is_some() {
            let has_family = if addr.is_ipv4() { self.v4.is_some() } else { self.v6.is_some() };
            return has_family && addr.is_unspecified();
        }
        let on_link = match addr {
            IpAddr::V4(addr) => self.v4_prefix().is_some_and(|prefix| {
                prefix.contains(addr) && !reserved_v4(prefix).contains(&Some(addr))
            }),
            IpAddr::V6(addr) => {
                self.v6.is_some() && addr.is_unicast_link_local()
                    || self.v6_prefix().is_some_and(|prefix| prefix.contains(addr))
            }
        };
        on_link && !self.owns(addr) && !addr.is_multicast() && !addr.is_unspecified()
    }

    pub(crate) fn v4_prefix(&self) -> Option<Ipv4Prefix> {
        self.v4.and_then(|(addr, len)| Ipv4Prefix::containing(addr, len))
    }

    pub(crate) fn v6_prefix(&self) -> Option<Ipv6Prefix> {
        self.v6.and_then(|(addr, len)| Ipv6Prefix::containing(addr, len))
    }
}

/// Returns the N6 interfaces of `domain`, or of all domains if it is `None`.
pub(crate) fn n6_interfaces(interfaces: &[Interface], domain: Option<DomainId>) -> InterfaceSet {
    let is_one = |known: &&Interface| {
        known.role == InterfaceRole::N6 && domain.is_none_or(|domain| known.domain == domain)
    };
    interfaces.iter().filter(is_one).map(|known| known.id).collect()
}

/// Returns network and directed broadcast address of a connected prefix; a /31 or /32 has neither.
/// Spec: RFC 922 §7; RFC 3021 §2.1.
pub(crate) fn reserved_v4(prefix: Ipv4Prefix) -> [Option<Ipv4Addr>; 2] {
    if prefix.len() >= 31 {
        return [None, None];
    }
    let network = prefix.addr();
    let broadcast = Ipv4Addr::from_bits(network.to_bits() | u32::MAX >> prefix.len());
    [Some(network), Some(broadcast)]
}

/// A route: packets to `prefix` leave through `interface` towards `next_hop`.
///
/// Routes of GTP-U interfaces and of N6 interfaces form separate tables. If several of the
/// interfaces that a lookup names have a route to the same prefix, it returns the route of the
/// first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The interface that packets leave through.
    pub interface: InterfaceId,
    /// The destinations.
    pub prefix: IpPrefix,
    /// The gateway, a neighbor on the interface's link.
    pub next_hop: IpAddr,
}

/// Why tables cannot be built. Every variant is a mistake in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// A capacity is outside its range.
    #[error("{name} is {value}; the range is {min} to {max}")]
    OutOfRange {
        /// The capacity.
        name: &'static str,
        /// The configured value.
        value: usize,
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// An interface's id is not its position.
    #[error("interface {0:?} is not at the position of its id")]
    InterfaceOutOfOrder(InterfaceId),
    /// A connected prefix is longer than the address family allows.
    #[error("interface {0:?} has a prefix length beyond its address family")]
    PrefixLength(InterfaceId),
    /// A route names an interface that does not exist.
    #[error("the route to {} names an interface that does not exist", .0.prefix)]
    UnknownInterface(Route),
    /// A route's next hop is no neighbor on its interface, or is of the other address family.
    #[error("next hop {} of the route to {} is not on the link of its interface", .0.next_hop, .0.prefix)]
    NextHopOffLink(Route),
    /// Two routes, or a route and a connected prefix, of one interface have the same prefix.
    #[error("two routes through the same interface lead to {0}")]
    DuplicateRoute(IpPrefix),
    /// The routes name more gateways than there may be next hops.
    #[error("the routes name more gateways than next_hops_max")]
    TooManyGateways,
    /// A change to the interfaces of a running data plane does more than append interfaces.
    #[error("interfaces can only be added after those that exist, on their ports")]
    InterfacesDiffer,
    /// Interfaces cannot change while an offload forwards: it keeps those that it began with.
    #[error("an offload forwards packets by the interfaces that it began with")]
    InterfacesOfOffload,
}

/// Checks capacities, interfaces and routes.
pub(crate) fn check(config: &TablesConfig) -> Result<(), TablesError> {
    let ranges = [
        ("sessions_max", config.sessions_max, 1, SESSIONS_MAX),
        ("teid_slot_bits", config.teid_slot_bits.into(), 1, TEID_SLOT_BITS_MAX.into()),
        ("workers", config.workers, 0, WORKERS_MAX),
        ("next_hops_max", config.next_hops_max, 1, NEXT_HOPS_MAX),
        ("interfaces", config.interfaces.len(), 0, INTERFACES_MAX),
        ("routes", config.routes.len(), 0, ROUTES_MAX),
        ("aggregates", config.aggregates.len(), 0, SLICES_MAX + 1),
    ];
    for (name, value, min, max) in ranges {
        if !(min..=max).contains(&value) {
            return Err(TablesError::OutOfRange { name, value, min, max });
        }
    }
    check_interfaces(&config.interfaces)?;
    check_routes(&config.interfaces, &config.routes)
}

/// Checks positions and prefixes of interfaces.
pub(crate) fn check_interfaces(interfaces: &[Interface]) -> Result<(), TablesError> {
    for (position, interface) in interfaces.iter().enumerate() {
        if usize::from(interface.id.0) != position {
            return Err(TablesError::InterfaceOutOfOrder(interface.id));
        }
        let v4_bad = interface.v4.is_some() && interface.v4_prefix().is_none();
        if v4_bad || interface.v6.is_some() && interface.v6_prefix().is_none() {
            return Err(TablesError::PrefixLength(interface.id));
        }
    }
    Ok(())
}

/// Checks the next hops of routes.
pub(crate) fn check_routes(interfaces: &[Interface], routes: &[Route]) -> Result<(), TablesError> {
    routes.iter().try_for_each(|route| check_route(interfaces, *route))
}

fn check_route(interfaces: &[Interface], route: Route) -> Result<(), TablesError> {
    let interface = interfaces.get(usize::from(route.interface.0));
    let interface = interface.ok_or(TablesError::UnknownInterface(route))?;
    let same_family = matches!(
        (route.prefix, route.next_hop),
        (IpPrefix::V4(_), IpAddr::V4(_)) | (IpPrefix::V6(_), IpAddr::V6(_))
    );
    if !same_family || !interface.is_neighbor(route.next_hop) {
        return Err(TablesError::NextHopOffLink(route));
    }
    Ok(())
}
