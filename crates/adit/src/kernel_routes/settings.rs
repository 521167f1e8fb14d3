//! Which namespaces are followed, and what is announced in them, by the configuration.

use std::net::IpAddr;

use adit_types::{DomainId, InterfaceId, InterfaceRole, IpPrefix};

use super::announcements::AnnouncingNamespace;
use super::follower::FollowedNamespace;
use super::route_base::{FollowedInterface, RouteBaseConfig};
use crate::config::{
    AnnounceMode, Config, InterfaceSettings, IpNet, RouteOrigin, domains, domains_of,
};
use crate::wiring::prefix;

/// Returns the namespaces whose routes are followed, with one route table for each routing domain
/// on N6 and one for the interfaces with tunnels.
pub(crate) fn followed(config: &Config) -> Vec<FollowedNamespace> {
    let mut namespaces: Vec<FollowedNamespace> = Vec::new();
    let mut kinds: Vec<Vec<Option<DomainId>>> = Vec::new();
    let domains = domains(&config.interfaces);
    let all = (0..).map(InterfaceId).zip(&config.interfaces).zip(domains);
    for ((id, interface), domain) in all {
        let Some((device, netns)) = interface.kernel_device() else { continue };
        if interface.routes != RouteOrigin::Kernel {
            continue;
        }
        let at = namespaces.iter().position(|known| known.netns.as_deref() == netns);
        let at = at.unwrap_or_else(|| {
            let netns = netns.map(str::to_owned);
            namespaces.push(FollowedNamespace { netns, tables: Vec::new() });
            kinds.push(Vec::new());
            namespaces.len() - 1
        });
        let kind = (interface.role == InterfaceRole::N6).then_some(domain);
        let table = kinds[at].iter().position(|known| *known == kind);
        let table = table.unwrap_or_else(|| {
            kinds[at].push(kind);
            namespaces[at].tables.push(RouteBaseConfig {
                own_addrs: config.interfaces.iter().flat_map(own_addrs).collect(),
                ue_pools: ue_pools(config, kind),
                ..RouteBaseConfig::default()
            });
            kinds[at].len() - 1
        });
        let routes = config.routes.iter().filter(|route| route.interface == usize::from(id.0));
        let statics = routes.filter_map(|route| Some((prefix(route.prefix)?, route.metric)));
        let table = &mut namespaces[at].tables[table];
        table.statics.extend(statics);
        table.interfaces.push(FollowedInterface {
            id,
            device: device.to_owned(),
            connected: interface.links().filter_map(|link| prefix(link.to_prefix())).collect(),
        });
    }
    namespaces
}

/// Returns the namespaces in which prefixes are announced.
pub(crate) fn announcing(config: &Config) -> Vec<AnnouncingNamespace> {
    let mut namespaces: Vec<AnnouncingNamespace> = Vec::new();
    for (interface, domain) in config.interfaces.iter().zip(domains(&config.interfaces)) {
        let Some((_, netns)) = interface.kernel_device() else { continue };
        if interface.announce == AnnounceMode::None {
            continue;
        }
        let at = namespaces.iter().position(|known| known.netns.as_deref() == netns);
        let at = at.unwrap_or_else(|| {
            let netns = netns.map(str::to_owned);
            let (prefixes, domains) = (Vec::new(), Vec::new());
            namespaces.push(AnnouncingNamespace { netns, prefixes, domains });
            namespaces.len() - 1
        });
        let namespace = &mut namespaces[at];
        // Only routes lead to an address whose prefix is as long as it.
        let without_link = interface.links().filter(|link| *link == IpNet::host(link.addr));
        namespace.prefixes.extend(without_link.filter_map(prefix));
        if interface.role == InterfaceRole::N6 {
            if interface.announce == AnnounceMode::Pool {
                namespace.prefixes.extend(ue_pools(config, Some(domain)));
            }
            namespace.domains.push((domain, interface.announce));
        }
    }
    for namespace in &mut namespaces {
        namespace.prefixes.sort_unstable();
        namespace.prefixes.dedup();
    }
    namespaces
}

/// Returns the pools of a routing domain; for interfaces with tunnels those of all domains.
fn ue_pools(config: &Config, domain: Option<DomainId>) -> Vec<IpPrefix> {
    let pools = config.ue_pools.iter().filter(|pool| {
        let domains = domains_of(&config.interfaces, pool.network_instance.as_deref());
        domain.is_none_or(|domain| domains.contains(&domain))
    });
    pools.filter_map(|pool| prefix(pool.prefix)).collect()
}

fn own_addrs(interface: &InterfaceSettings) -> impl Iterator<Item = IpAddr> {
    interface.links().map(|link| link.addr)
}
