//! `adit show routes`: logical interfaces, routes and pools of UE addresses.

use adit_kernel::RouteMonitorCounters;
use adit_tables::{RouteAction, RouteHop};
use adit_types::InterfaceId;
use adit_types::limits::ROWS_PER_PAGE_MAX;
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::config::{Config, InterfaceSettings, IpNet, RouteSettings, UePoolSettings};
use crate::kernel_routes::announcements::OwnPrefixes;
use crate::kernel_routes::announcer::AnnouncerFigures;
use crate::kernel_routes::follower::{NamespaceFigures, RouteFollower};
use crate::kernel_routes::route_base::{KernelRouteView, RouteBase};
use crate::text_table::tables;
use crate::wiring;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RoutesDocument {
    interfaces: Vec<InterfaceRow>,
    /// Those of the links, of the file, and the first ones of the kernel.
    routes: Vec<RouteRow>,
    /// Further routes of the kernel.
    routes_left_out: usize,
    ue_pools: Vec<UePoolRow>,
    /// Network namespaces whose routes are followed.
    kernel: Vec<KernelRow>,
    /// Time from reading messages of the kernel to their effect. Null without routes of the kernel.
    effect_us: Option<EffectDocument>,
    /// Routes of the kernel that are not used, by reason.
    unused: Vec<UnusedRow>,
    /// Null if no interface announces.
    announcements: Option<AnnouncementsDocument>,
}

tables!(RoutesDocument {
    interfaces: InterfaceRow [name, role, port, vlan, addresses, network_instance],
    routes: RouteRow [prefix, origin, protocol, metric, members, state],
    ue_pools: UePoolRow [prefix, network_instance, s_nssai, identity, used, size],
    kernel: KernelRow [
        netns, is_complete, messages, dumps, overruns, undecoded, unsupported,
    ],
    unused: UnusedRow [count, example, reason],
});

/// A logical interface: a port and a VLAN.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InterfaceRow {
    name: String,
    /// The reference point: "N3", "N6" and so on.
    role: &'static str,
    port: String,
    vlan: u16,
    addresses: Vec<String>,
    network_instance: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RouteRow {
    prefix: String,
    /// "connected", "static" (the file) or "kernel".
    origin: &'static str,
    /// The program that wrote a route of the kernel, such as "bgp": by name if it is a usual one.
    protocol: Option<String>,
    /// The lowest one wins.
    metric: u32,
    /// Next hops with their interfaces, and their weights if there are several.
    members: Vec<String>,
    /// "active"; "link down": active, but no member has a link; "not used": another route to the
    /// prefix wins, or it is refused.
    state: &'static str,
    /// The interface of the first member.
    interface: Option<String>,
    /// The first member; null if the kernel routes, or the destinations are on the link.
    next_hop: Option<String>,
}

/// A network namespace whose routes are followed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KernelRow {
    /// Null: that of adit.
    netns: Option<String>,
    /// False until all routes are known.
    is_complete: bool,
    /// Messages of the kernel.
    messages: u64,
    /// Times that all routes were read.
    dumps: u64,
    /// Times that the kernel dropped messages; all routes are read again then.
    overruns: u64,
    undecoded: u64,
    /// Messages of routes with a type of service, a source prefix or an encapsulation.
    unsupported: u64,
}

/// Unit: microseconds.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EffectDocument {
    last: u64,
    slowest: u64,
}

/// Routes of the kernel that are not used.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnusedRow {
    /// Messages about them since all routes were read.
    count: u64,
    example: Option<String>,
    reason: String,
}

/// Prefixes that the kernel gets as routes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AnnouncementsDocument {
    /// False while this adit does not serve: nothing is announced then.
    is_on: bool,
    /// Prefixes that the kernel has.
    announced: u64,
    /// Announcements and withdrawals since the start.
    changes: u64,
    refused: u64,
    last_refusal: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UePoolRow {
    prefix: String,
    network_instance: Option<String>,
    s_nssai: Option<String>,
    identity: Option<String>,
    /// Addresses in use, and all.
    used: u64,
    size: u64,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let config = &control.parts.config;
    let usage = control.parts.node.store().ue_pool_usage();
    let kernel = control.parts.kernel_routes.as_ref();
    let bases = || kernel.into_iter().flat_map(RouteFollower::bases);
    let is_beaten = |route: &RouteSettings| {
        let prefix = wiring::prefix(route.prefix);
        let id = u8::try_from(route.interface).map(InterfaceId);
        let mut tables = bases().filter(|base| id.is_ok_and(|id| base.scope().contains(id)));
        tables.any(|base| {
            prefix.is_some_and(|prefix| base.routes_to(prefix).any(|of| of.is_published))
        })
    };
    let connected = config.interfaces.iter().flat_map(RouteRow::connected);
    let statics = config.routes.iter().map(|of| RouteRow::of(config, of, is_beaten(of)));
    let names = &control.parts.names;
    let followed = bases().flat_map(RouteBase::routes).take(ROWS_PER_PAGE_MAX);
    let followed = followed.map(|of| RouteRow::of_kernel(&of, names));
    let known: usize = bases().map(RouteBase::len).sum();
    let document = RoutesDocument {
        interfaces: config.interfaces.iter().map(|of| InterfaceRow::of(config, of)).collect(),
        routes: connected.chain(statics).chain(followed).collect(),
        routes_left_out: known.saturating_sub(ROWS_PER_PAGE_MAX),
        ue_pools: config
            .ue_pools
            .iter()
            .zip(usage)
            .map(|(pool, (used, size))| UePoolRow::of(pool, used, size))
            .collect(),
        kernel: kernel.into_iter().flat_map(RouteFollower::namespaces).map(KernelRow::of).collect(),
        effect_us: kernel.map(|kernel| {
            let [last, slowest] = kernel.latency().map(|span| span.0 / 1_000);
            EffectDocument { last, slowest }
        }),
        unused: bases().flat_map(UnusedRow::all).collect(),
        announcements: control.parts.announcements.as_ref().map(AnnouncementsDocument::of),
    };
    whole(document, |document| document)
}

impl InterfaceRow {
    fn of(config: &Config, interface: &InterfaceSettings) -> Self {
        let port = config.ports.get(usize::from(interface.port.0));
        let v4 = interface.v4.map(|(addr, len)| format!("{addr}/{len}"));
        let v6 = interface.v6.map(|(addr, len)| format!("{addr}/{len}"));
        Self {
            name: interface.name.clone(),
            role: interface.role.name(),
            port: port.map(|port| port.name.clone()).unwrap_or_default(),
            vlan: interface.vlan.value(),
            addresses: v4.into_iter().chain(v6).collect(),
            network_instance: interface.network_instance.clone(),
        }
    }
}

impl RouteRow {
    fn of(config: &Config, route: &RouteSettings, is_beaten: bool) -> Self {
        let interface = config.interfaces.get(route.interface);
        let next_hop = (!route.next_hop.is_unspecified()).then(|| route.next_hop.to_string());
        let name = interface.map(|interface| interface.name.clone());
        let router = next_hop.as_deref().unwrap_or("the kernel");
        Self {
            prefix: route.prefix.to_string(),
            origin: "static",
            protocol: None,
            metric: route.metric,
            members: vec![format!("{router} via {}", name.as_deref().unwrap_or("?"))],
            state: if is_beaten { "not used" } else { "active" },
            interface: name,
            next_hop,
        }
    }

    /// Returns the links of an interface.
    fn connected(interface: &InterfaceSettings) -> impl Iterator<Item = Self> {
        let is_link = |net: &IpNet| *net != IpNet::host(net.addr) && !interface.is_kernel;
        interface.links().filter(is_link).map(|net| Self {
            prefix: net.to_prefix().to_string(),
            origin: "connected",
            protocol: None,
            metric: 0,
            members: vec![format!("link of {}", interface.name)],
            state: "active",
            interface: Some(interface.name.clone()),
            next_hop: None,
        })
    }

    fn of_kernel(route: &KernelRouteView, names: &[String]) -> Self {
        let hops = route.action.hops();
        let members = match &route.action {
            RouteAction::Forward(hops) => hops.iter().map(|of| member(of, hops, names)).collect(),
            RouteAction::Blackhole => vec!["blackhole".to_owned()],
            RouteAction::Unreachable => vec!["unreachable".to_owned()],
        };
        let first = hops.first();
        let name = |hop: &RouteHop| names.get(usize::from(hop.interface.0)).cloned();
        Self {
            prefix: route.key.prefix.to_string(),
            origin: "kernel",
            protocol: Some(protocol(route.protocol)),
            metric: route.key.metric,
            members,
            state: match (route.is_published, route.is_usable) {
                (true, true) => "active",
                (true, false) => "link down",
                (false, _) => "not used",
            },
            interface: first.and_then(name),
            next_hop: first.and_then(|hop| hop.gateway).map(|addr| addr.to_string()),
        }
    }
}

/// Returns the text of a next hop: its router and its interface, and its weight among others.
fn member(hop: &RouteHop, all: &[RouteHop], names: &[String]) -> String {
    let name = names.get(usize::from(hop.interface.0)).map_or("?", String::as_str);
    let station = match hop.gateway {
        Some(gateway) => format!("{gateway} via {name}"),
        None => format!("link of {name}"),
    };
    match all.len() {
        1 => station,
        _ => format!("{station} weight {}", hop.weight),
    }
}

/// Returns the name of the program that wrote a route of the kernel, or its number.
/// Spec: `linux/rtnetlink.h`, `RTPROT_*`.
fn protocol(number: u8) -> String {
    let name = match number {
        2 => "kernel",
        3 => "boot",
        4 => "static",
        9 => "ra",
        11 => "zebra",
        12 => "bird",
        16 => "dhcp",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        196 => "frr static",
        _ => return number.to_string(),
    };
    name.to_owned()
}

impl KernelRow {
    fn of(figures: &NamespaceFigures) -> Self {
        let RouteMonitorCounters { messages, dumps, overruns, undecoded, unsupported } =
            figures.monitor;
        let (netns, is_complete) = (figures.netns.clone(), figures.is_complete);
        Self { netns, is_complete, messages, dumps, overruns, undecoded, unsupported }
    }
}

impl UnusedRow {
    /// Returns the unused routes of a route table.
    fn all(base: &RouteBase) -> Vec<Self> {
        let unused = base.unused().iter().map(|of| Self {
            count: of.count,
            example: Some(of.example.to_string()),
            reason: of.reason.to_string(),
        });
        let foreign = base.foreign().iter().map(|(device, count)| Self {
            count: *count,
            example: None,
            reason: format!("through {device}, which is the device of no interface here"),
        });
        unused.chain(foreign).collect()
    }
}

impl AnnouncementsDocument {
    fn of(announcements: &OwnPrefixes) -> Self {
        let AnnouncerFigures { announced, changes, refused, last_refusal } =
            announcements.figures();
        Self { is_on: announcements.is_on(), announced, changes, refused, last_refusal }
    }
}

impl UePoolRow {
    fn of(pool: &UePoolSettings, used: u64, size: u64) -> Self {
        Self {
            prefix: pool.prefix.to_string(),
            network_instance: pool.network_instance.clone(),
            s_nssai: pool.s_nssai.map(|slice| slice.to_string()),
            identity: pool.identity.clone(),
            used,
            size,
        }
    }
}
