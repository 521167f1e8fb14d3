//! The configuration of a world, and the parts that are built from it.

use core::net::IpAddr;

use adit_datapath::EventQueues;
use adit_rules::sdf::AddrMatch;
use adit_rules::{Offload, OuterTos, Steering};
use adit_session::{
    Application, LocalAddresses, LocalInterface, OwnerNodes, PredefinedAction, PredefinedDetection,
    PredefinedRule, ProvisionedForwardingPolicy, Provisioning, QosPolicy, SessionStore,
    StoreConfig, UePool, parse_flow_description,
};
use adit_tables::{Interface, IpPrefix, Publisher, Route, TablesConfig, TablesReader};
use adit_types::{
    DomainId, InterfaceId, InterfaceRole, Ipv4Prefix, Ipv6Prefix, MacAddr, PortId, Precedence, Qfi,
    Roles, VlanId,
};

use crate::oracle;
use crate::oracle::predefined::RULES;

/// Applications that PDRs may name.
pub const APPLICATIONS: &[(&str, &[&str])] = &[
    ("names", &["permit out 17 from any 53 to assigned"]),
    (
        "video",
        &["permit out 6 from 8.8.8.0/24 to any", "permit out ip from 2001:db8:8::/48 to assigned"],
    ),
];

/// Pools of UE addresses: fewer addresses than sessions can request.
const UE_POOLS: [&str; 2] = ["10.61.0.0/29", "2001:db8:61::/61"];

/// The configuration of a world.
#[derive(Debug, Clone)]
pub struct WorldLayout {
    /// Interfaces in configuration order.
    pub interfaces: Vec<oracle::OracleInterface>,
    /// Routes beyond the connected prefixes.
    pub routes: Vec<oracle::OracleRoute>,
    /// The fields that outer headers copy from packets.
    pub copied: oracle::OracleCopied,
    /// The threads of the packet path. Each that receives has a queue on every port.
    pub roles: Roles,
    /// The queues of an event scheduler.
    pub queues: EventQueues,
    /// PFCP sessions at most.
    pub sessions_max: usize,
    /// How rates are enforced.
    pub qos: QosPolicy,
    /// Seed of all randomness.
    pub seed: u64,
}

/// Store, publisher and readers of a layout.
#[must_use]
pub fn control(layout: &WorldLayout) -> (SessionStore, Publisher, Vec<TablesReader>) {
    control_with(layout, |_| None)
}

/// [`control`] with an offload.
pub(super) fn control_with(
    layout: &WorldLayout,
    offload: impl FnOnce(&TablesConfig) -> Option<Box<dyn Offload>>,
) -> (SessionStore, Publisher, Vec<TablesReader>) {
    let mut store = SessionStore::new(StoreConfig {
        sessions_max: layout.sessions_max,
        provisioning: provisioning(layout),
        seed: layout.seed,
        owner_nodes: OwnerNodes::default(),
    });
    let config = TablesConfig {
        sessions_max: layout.sessions_max,
        teid_slot_bits: store.slot_bits().try_into().unwrap(),
        workers: layout.roles.threads(),
        next_hops_max: 256,
        seed: layout.seed,
        interfaces: (0..)
            .zip(&layout.interfaces)
            .map(|(id, own)| interface(&layout.interfaces, InterfaceId(id), own))
            .collect(),
        own_addrs: vec![oracle::N4_ADDR.into()],
        routes: layout.routes.iter().map(route).collect(),
        aggregates: layout.qos.aggregates(),
        // A policy can order it whatever the interfaces say.
        local_switching_domains: vec![DomainId(0), DomainId(1)],
        ue_pools_v4: UE_POOLS
            .iter()
            .filter_map(|prefix| prefix.parse().ok())
            .flat_map(|prefix| (0..2).map(move |domain| (DomainId(domain), prefix)))
            .collect(),
    };
    let offload = offload(&config);
    let (publisher, readers) = adit_tables::build_with_offload(config, offload).unwrap();
    store.set_usage_source(publisher.usage());
    (store, publisher, readers)
}

/// The network instances of a layout, and settings that every layout shares.
fn provisioning(layout: &WorldLayout) -> Provisioning {
    let interface = |interface: &oracle::OracleInterface| LocalInterface {
        role: role(interface),
        domain: domain(&layout.interfaces, interface),
        local_switching: interface.local_switching,
        network_instance: interface.network_instance.map(Box::from),
        addresses: LocalAddresses { v4: Some(interface.v4.0), v6: Some(interface.v6.0) },
        only_by_name: false,
    };
    let interfaces = layout.interfaces.iter().map(interface).collect();
    let pool = |prefix: &str| UePool {
        network_instance: None,
        identity: None,
        s_nssai: None,
        prefix: match prefix.parse() {
            Ok(v4) => AddrMatch::V4(v4),
            Err(_) => AddrMatch::V6(prefix.parse().unwrap()),
        },
    };
    let application = |(id, texts): &(&str, &[&str])| Application {
        id: Box::from(*id),
        filters: texts.iter().map(|text| parse_flow_description(text).unwrap()).collect(),
    };
    let policy = |policy: &oracle::OraclePolicy| ProvisionedForwardingPolicy {
        id: policy.id.into(),
        network_instance: policy.network_instance.map(Box::from),
        steering: Steering { v4: policy.next_hop, v6: None },
        dscp: policy.dscp,
        local_switching: policy.local_switching,
    };
    Provisioning {
        interfaces,
        tunnel_routes: adit_session::TunnelRoutes::default(),
        ue_pools: UE_POOLS.into_iter().map(pool).collect(),
        applications: APPLICATIONS.iter().map(application).collect(),
        policies: oracle::POLICIES.iter().map(policy).collect(),
        predefined_rules: RULES.iter().map(predefined_rule).collect(),
        outer_tos: OuterTos::copying(layout.copied.dscp, layout.copied.ecn),
        qos: layout.qos.clone(),
        ..Provisioning::default()
    }
}

fn predefined_rule(rule: &oracle::predefined::OraclePredefinedRule) -> PredefinedRule {
    let filters = vec![parse_flow_description(rule.text).unwrap()];
    PredefinedRule {
        name: rule.name.into(),
        group: rule.group.map(Box::from),
        precedence: rule.precedence.map(Precedence),
        detection: PredefinedDetection::Filters(filters.into()),
        action: if rule.drops { PredefinedAction::Drop } else { PredefinedAction::Forward },
        qfi: rule.qfi.and_then(Qfi::new),
    }
}

/// The second domain is the data network "ims", if all data networks have names; all else is in the
/// first.
fn domain(all: &[oracle::OracleInterface], interface: &oracle::OracleInterface) -> DomainId {
    let is_network = |known: &&oracle::OracleInterface| known.role == oracle::OracleRole::N6;
    let are_separate = all.iter().filter(is_network).all(|known| known.network_instance.is_some());
    let is_ims = is_network(&interface) && interface.network_instance == Some("ims");
    DomainId(u8::from(are_separate && is_ims))
}

fn role(interface: &oracle::OracleInterface) -> InterfaceRole {
    match interface.role {
        oracle::OracleRole::N3 => InterfaceRole::N3,
        oracle::OracleRole::N9 => InterfaceRole::N9,
        oracle::OracleRole::N6 => InterfaceRole::N6,
    }
}

pub(super) fn port_macs(interfaces: &[oracle::OracleInterface]) -> Vec<MacAddr> {
    let ports = interfaces.iter().map(|interface| interface.port).max().unwrap() + 1;
    (0..ports)
        .map(|port| {
            let on = interfaces.iter().find(|interface| interface.port == port);
            MacAddr(on.map_or([0; 6], |interface| interface.mac))
        })
        .collect()
}

fn interface(
    all: &[oracle::OracleInterface],
    id: InterfaceId,
    interface: &oracle::OracleInterface,
) -> Interface {
    Interface {
        id,
        role: role(interface),
        domain: domain(all, interface),
        port: PortId(interface.port),
        vlan: VlanId::from_tag_control(interface.vlan),
        mac: MacAddr(interface.mac),
        mtu_bytes: u16::try_from(interface.mtu_bytes).unwrap(),
        unfragmented_bytes: u16::try_from(interface.mtu_bytes).unwrap(),
        outer_df: true,
        tcp_mss: interface.tcp_mss,
        station: None,
        v4: Some(interface.v4),
        v6: Some(interface.v6),
    }
}

pub(super) fn route(route: &oracle::OracleRoute) -> Route {
    Route {
        interface: InterfaceId(u8::try_from(route.interface).unwrap()),
        prefix: match route.prefix {
            (IpAddr::V4(addr), len) => IpPrefix::V4(Ipv4Prefix::containing(addr, len).unwrap()),
            (IpAddr::V6(addr), len) => IpPrefix::V6(Ipv6Prefix::containing(addr, len).unwrap()),
        },
        next_hop: route.gateway,
    }
}
