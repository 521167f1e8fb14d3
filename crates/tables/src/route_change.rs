//! Changes of single routes while workers forward: their input, and why one is refused.

use core::net::IpAddr;

use adit_types::limits::ROUTE_HOPS_MAX;
use adit_types::{InterfaceId, InterfaceSet, IpPrefix};

use crate::config::Interface;

/// Adds, replaces or removes the route to one prefix in one route table.
///
/// A route table is named by its `scope`: the interfaces whose packets follow it, such as the N6
/// interfaces of a routing domain or network instance, or the N3 interfaces. Interfaces with GTP-U
/// (N3, N9, N4-u) and N6 interfaces never share a table, and an interface belongs to at most one.
/// Next to these tables the routes of [`crate::RoutesConfig`] stay in effect. The longest prefix
/// wins; of two routes to one prefix that of the table wins, unless the other one is a connected
/// prefix or an address of ours.
///
/// The caller chooses the best route of each prefix: tables know no metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// The interfaces of the route table.
    pub scope: InterfaceSet,
    /// The destinations.
    pub prefix: IpPrefix,
    /// Where packets go from now on; `None` removes the route. To remove a route that does not
    /// exist changes nothing.
    pub action: Option<RouteAction>,
}

/// How packets of a route leave, or why they are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RouteAction {
    /// They leave by one of these next hops: 1..=`ROUTE_HOPS_MAX`, each once, in any order. Packets
    /// of one flow take the same next hop.
    Forward(Vec<RouteHop>),
    /// They are dropped as `route_blackhole`.
    Blackhole,
    /// They are dropped as `route_unreachable`.
    Unreachable,
}

impl RouteAction {
    /// Returns the next hops; none if packets are dropped.
    #[must_use]
    pub fn hops(&self) -> &[RouteHop] {
        match self {
            Self::Forward(hops) => hops,
            Self::Blackhole | Self::Unreachable => &[],
        }
    }
}

/// One next hop of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteHop {
    /// The interface that packets leave through, one of the scope.
    pub interface: InterfaceId,
    /// The gateway, a neighbor on the interface's link, of either family. `None`: the destinations
    /// themselves are on the link.
    pub gateway: Option<IpAddr>,
    /// Its share of the flows is its weight among the weights of all next hops. At least 1.
    pub weight: u16,
}

/// Why a change of a route is refused: it has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteRefusal {
    /// The scope is empty, has an interface that does not exist, or interfaces of both kinds.
    #[error(
        "the route table has no interfaces, unknown ones, or N6 interfaces and others together"
    )]
    Scope,
    /// An interface of the scope belongs to another route table.
    #[error("interface {0:?} of the route table belongs to another route table")]
    ScopeOverlaps(InterfaceId),
    /// A next hop's interface is not in the scope.
    #[error("the next hop's interface {0:?} is not one of the route table")]
    InterfaceOutsideScope(InterfaceId),
    /// The gateway is no neighbor on the interface.
    #[error("gateway {1} is not on the link of interface {0:?}")]
    GatewayOffLink(InterfaceId, IpAddr),
    /// On-link destinations of a family that the interface has no address of, or behind a link
    /// with a single station.
    #[error("interface {0:?} has no link with stations of the prefix's address family")]
    NoLink(InterfaceId),
    /// No next hop, more than `ROUTE_HOPS_MAX`, one twice, or a weight of zero.
    #[error(
        "the route has {0} next hops, one twice, or one of weight 0; 1 to {ROUTE_HOPS_MAX} are possible"
    )]
    Hops(usize),
    /// More routes than `ROUTES_IN_TABLES_MAX`.
    #[error("all route tables together are full")]
    TooManyRoutes,
    /// More gateways than `next_hops_max`.
    #[error("the routes name more gateways than next_hops_max")]
    TooManyGateways,
    /// More sets of next hops than `HOP_GROUPS_MAX`.
    #[error("the routes have too many different sets of next hops")]
    TooManyGroups,
    /// The memory for prefixes of this family is used up.
    #[error("the route table has no room for further prefixes")]
    NoRoom,
}

/// A change that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedRoute {
    /// Its position among the changes.
    pub position: usize,
    /// The reason.
    pub refusal: RouteRefusal,
}

/// Returns the next hops of a change that [`check`] accepted.
pub(crate) fn check<'c>(
    interfaces: &[Interface],
    change: &'c RouteChange,
) -> Result<&'c [RouteHop], RouteRefusal> {
    check_scope(interfaces, change.scope)?;
    let Some(RouteAction::Forward(hops)) = &change.action else { return Ok(&[]) };
    let is_twice = |(at, hop): (usize, &RouteHop)| {
        let mut before = hops.iter().take(at);
        before.any(|other| (other.interface, other.gateway) == (hop.interface, hop.gateway))
    };
    if hops.is_empty()
        || hops.len() > ROUTE_HOPS_MAX
        || hops.iter().any(|hop| hop.weight == 0)
        || hops.iter().enumerate().any(is_twice)
    {
        return Err(RouteRefusal::Hops(hops.len()));
    }
    hops.iter().try_for_each(|hop| check_hop(interfaces, change, hop))?;
    Ok(hops)
}

/// Checks that a scope has interfaces, of one kind.
pub(crate) fn check_scope(
    interfaces: &[Interface],
    scope: InterfaceSet,
) -> Result<(), RouteRefusal> {
    let members = || interfaces.iter().filter(|interface| scope.contains(interface.id));
    let known: InterfaceSet = members().map(|of| of.id).collect();
    let gtpu = members().filter(|interface| interface.role.is_gtpu()).count();
    let is_one_kind = gtpu == 0 || gtpu == members().count();
    match !scope.is_empty() && known == scope && is_one_kind {
        true => Ok(()),
        false => Err(RouteRefusal::Scope),
    }
}

fn check_hop(
    interfaces: &[Interface],
    change: &RouteChange,
    hop: &RouteHop,
) -> Result<(), RouteRefusal> {
    let interface = interfaces.get(usize::from(hop.interface.0));
    let interface = interface
        .filter(|interface| change.scope.contains(interface.id))
        .ok_or(RouteRefusal::InterfaceOutsideScope(hop.interface))?;
    match hop.gateway {
        Some(gateway) if interface.is_neighbor(gateway) => Ok(()),
        Some(gateway) => Err(RouteRefusal::GatewayOffLink(hop.interface, gateway)),
        None => {
            let has_family = match change.prefix {
                IpPrefix::V4(_) => interface.v4.is_some(),
                IpPrefix::V6(_) => interface.v6.is_some(),
            };
            match has_family && interface.station.is_none() {
                true => Ok(()),
                false => Err(RouteRefusal::NoLink(hop.interface)),
            }
        }
    }
}
