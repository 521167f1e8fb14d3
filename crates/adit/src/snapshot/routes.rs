//! `adit show routes`: logical interfaces, routes and pools of UE addresses.

use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::config::{Config, InterfaceSettings, RouteSettings, UePoolSettings};
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RoutesDocument {
    interfaces: Vec<InterfaceRow>,
    routes: Vec<RouteRow>,
    ue_pools: Vec<UePoolRow>,
}

tables!(RoutesDocument {
    interfaces: InterfaceRow [name, role, port, vlan, addresses, network_instance],
    routes: RouteRow [prefix, interface, next_hop],
    ue_pools: UePoolRow [prefix, network_instance, s_nssai, identity, used, size],
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
    interface: Option<String>,
    /// Null if the kernel routes.
    next_hop: Option<String>,
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
    let document = RoutesDocument {
        interfaces: config.interfaces.iter().map(|of| InterfaceRow::of(config, of)).collect(),
        routes: config.routes.iter().map(|of| RouteRow::of(config, of)).collect(),
        ue_pools: config
            .ue_pools
            .iter()
            .zip(usage)
            .map(|(pool, (used, size))| UePoolRow::of(pool, used, size))
            .collect(),
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
    fn of(config: &Config, route: &RouteSettings) -> Self {
        let interface = config.interfaces.get(route.interface);
        let next_hop = (!route.next_hop.is_unspecified()).then(|| route.next_hop.to_string());
        Self {
            prefix: route.prefix.to_string(),
            interface: interface.map(|interface| interface.name.clone()),
            next_hop,
        }
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
