//! Derives the configuration of each room from the checked configuration.

use adit_dpdk::{Device, EalConfig};
use adit_kernel::KernelDevice;
use adit_n4::{NodeConfig, PathConfig, PeerPolicy, PeerPrefix, RecordConfig, SmfSetMembers};
use adit_rules::sdf::AddrMatch;
use adit_rules::{DropReason, OuterTos, Steering};
use adit_session::{
    Application, LocalAddresses, LocalInterface, OwnerNodes, ProvisionedForwardingPolicy,
    Provisioning, SessionPreparer, StoreConfig, TeidRange, TunnelRoutes, UePool,
};
use adit_tables::{Interface, IpPrefix, Route, RoutesConfig, TablesConfig};
use adit_types::limits::NEXT_HOPS_MAX;
use adit_types::{DomainId, InterfaceId, Ipv4Prefix, MacAddr, PortId};

use crate::config::{self, Config, IpNet, ModelSettings, NodeIdSetting};
use crate::record_store::record_config;
use crate::tap::TapLimits;

/// Returns the configuration of the EAL, with memory on a NUMA node.
pub(crate) fn eal(config: &Config, memory_node: Option<u32>) -> EalConfig {
    EalConfig {
        hugepages: config.dpdk.hugepages,
        memory_mib: config.dpdk.memory_mib,
        main_cpus: vec![config.datapath.main_core],
        memory_node,
        file_prefix: format!("adit-{}", std::process::id()),
        devices: dpdk_devices(config).cloned().collect(),
        extra_args: config.dpdk.eal_extra_args.clone(),
    }
}

/// Returns the DPDK devices of the ports and of replication.
fn dpdk_devices(config: &Config) -> impl Iterator<Item = &Device> {
    let ports = config.ports.iter().filter_map(|port| port.device.dpdk());
    ports.chain(config.store.replication_device())
}

/// Returns the configuration of the session store, for workers on one NUMA node.
fn store(config: &Config, seed: u64) -> StoreConfig {
    let (sessions_max, provisioning) = (config.sessions.sessions_max, provisioning(config));
    StoreConfig { sessions_max, provisioning, seed, owner_nodes: OwnerNodes::default() }
}

/// Returns a preparer of a previous process's sessions for a node with this configuration.
pub(crate) fn preparer(config: &Config) -> SessionPreparer {
    SessionPreparer::new(provisioning(config))
}

/// Returns the objects that rules refer to by name.
fn provisioning(config: &Config) -> Provisioning {
    let domains = config::domains(&config.interfaces);
    let interface = |(interface, domain): (&config::InterfaceSettings, DomainId)| LocalInterface {
        role: interface.role,
        domain,
        local_switching: interface.local_switching,
        network_instance: interface.network_instance.as_deref().map(Box::from),
        addresses: LocalAddresses {
            v4: interface.v4.map(|(addr, _)| addr),
            v6: interface.v6.map(|(addr, _)| addr),
        },
        only_by_name: false,
    };
    let application = |application: &crate::config::ApplicationSettings| Application {
        id: application.id.as_str().into(),
        filters: application.filters.clone().into(),
    };
    let policy = |policy: &crate::config::ForwardingPolicySettings| ProvisionedForwardingPolicy {
        id: policy.id.as_str().into(),
        network_instance: policy.network_instance.as_deref().map(Box::from),
        steering: Steering { v4: policy.next_hop_v4, v6: policy.next_hop_v6 },
        dscp: policy.dscp,
        local_switching: policy.local_switching,
    };
    let ue_pool = |pool: &crate::config::UePoolSettings| {
        let prefix = match prefix(pool.prefix)? {
            IpPrefix::V4(prefix) => AddrMatch::V4(prefix),
            IpPrefix::V6(prefix) => AddrMatch::V6(prefix),
        };
        Some(UePool {
            network_instance: pool.network_instance.as_deref().map(Box::from),
            identity: pool.identity.as_deref().map(Box::from),
            s_nssai: pool.s_nssai,
            prefix,
        })
    };
    Provisioning {
        interfaces: config.interfaces.iter().zip(domains).map(interface).collect(),
        tunnel_routes: tunnel_routes(config),
        ue_pools: config.ue_pools.iter().filter_map(ue_pool).collect(),
        applications: config.applications.iter().map(application).collect(),
        policies: config.forwarding_policies.iter().map(policy).collect(),
        predefined_rules: config.predefined_rules.clone(),
        outer_tos: OuterTos::copying(config.gtpu.copies_dscp, config.gtpu.copies_ecn),
        qos: config.qos.clone(),
        tolerances: config.n4.tolerances(),
        teid_range: TeidRange { bits: config.gtpu.teid_range_bits, value: config.gtpu.teid_range },
    }
}

/// Returns the on-link prefixes of GTP-U interfaces, and the routes through these interfaces.
fn tunnel_routes(config: &Config) -> TunnelRoutes {
    let interfaces = || (0..).map(InterfaceId).zip(&config.interfaces);
    let links = interfaces()
        .flat_map(|(id, of)| of.links().filter_map(move |net| Some((prefix(net)?, id))));
    let routes = routes(config).into_iter().map(|route| (route.prefix, route.interface));
    let is_gtpu =
        |id: InterfaceId| interfaces().any(|(of, known)| of == id && known.role.is_gtpu());
    TunnelRoutes::new(links.chain(routes).filter(|(_, id)| is_gtpu(*id)).collect())
}

/// Returns the configuration of the lookup tables. `macs`: the ports' addresses, by `PortId`.
pub(crate) fn tables(
    config: &Config,
    macs: &[MacAddr],
    teid_slot_bits: u8,
    seed: u64,
) -> TablesConfig {
    let pools = |pool: &config::UePoolSettings| {
        let domains = config::domains_of(&config.interfaces, pool.network_instance.as_deref());
        let v4 = prefix(pool.prefix).and_then(v4);
        v4.into_iter().flat_map(move |v4| domains.clone().into_iter().map(move |at| (at, v4)))
    };
    TablesConfig {
        sessions_max: config.sessions.sessions_max,
        teid_slot_bits,
        workers: config.datapath.roles().threads(),
        next_hops_max: NEXT_HOPS_MAX,
        seed,
        interfaces: interfaces(config, |port| macs[usize::from(port.0)]),
        own_addrs: vec![config.n4_listen.ip()],
        routes: routes(config),
        aggregates: config.qos.aggregates(),
        local_switching_domains: config::switched_domains(config),
        ue_pools_v4: config.ue_pools.iter().flat_map(pools).collect(),
    }
}

/// Returns the interfaces in the form of the packet path.
fn interfaces(config: &Config, mac_of: impl Fn(PortId) -> MacAddr) -> Vec<Interface> {
    let domains = config::domains(&config.interfaces);
    let interface =
        |((index, interface), domain): ((u8, &config::InterfaceSettings), _)| Interface {
            id: InterfaceId(index),
            role: interface.role,
            domain,
            port: interface.port,
            vlan: interface.vlan,
            mac: mac_of(interface.port),
            mtu_bytes: match config.ports[usize::from(interface.port.0)].device.kernel() {
                // A UDP socket gets whole packets: the kernel fragments.
                Some(KernelDevice::Udp) => u16::MAX,
                _ => config.ports[usize::from(interface.port.0)].mtu_bytes,
            },
            unfragmented_bytes: config.ports[usize::from(interface.port.0)].mtu_bytes,
            outer_df: config.gtpu.outer_df,
            tcp_mss: interface.tcp_mss,
            station: interface.is_kernel.then_some(adit_kernel::STATION_MAC),
            v4: interface.v4,
            v6: interface.v6,
        };
    (0..).zip(&config.interfaces).zip(domains).map(interface).collect()
}

/// Returns the routes and interfaces of a configuration for running tables. `known`: the interfaces
/// that the tables have, on the same ports.
pub(crate) fn routes_config(config: &Config, known: &[Interface]) -> RoutesConfig {
    let mac_of = |port| {
        let on_port = known.iter().find(|of| of.port == port);
        on_port.map_or(MacAddr::default(), |of| of.mac)
    };
    RoutesConfig {
        interfaces: interfaces(config, mac_of),
        local_switching_domains: config::switched_domains(config),
        routes: routes(config),
    }
}

fn routes(config: &Config) -> Vec<Route> {
    let route = |route: &crate::config::RouteSettings| {
        let interface = u8::try_from(route.interface).map(InterfaceId).ok()?;
        Some(Route { interface, prefix: prefix(route.prefix)?, next_hop: route.next_hop })
    };
    config.routes.iter().filter_map(route).collect()
}

const fn v4(prefix: IpPrefix) -> Option<Ipv4Prefix> {
    match prefix {
        IpPrefix::V4(prefix) => Some(prefix),
        IpPrefix::V6(_) => None,
    }
}

pub(crate) fn prefix(net: IpNet) -> Option<IpPrefix> {
    IpPrefix::containing(net.addr, net.len)
}

fn smf_set(set: &crate::config::SmfSetSettings) -> SmfSetMembers {
    let members = set.members.iter().filter_map(|net| peer_prefix(*net)).collect();
    SmfSetMembers { id: set.id.clone(), members }
}

fn peer_prefix(net: IpNet) -> Option<PeerPrefix> {
    match prefix(net)? {
        IpPrefix::V4(prefix) => Some(PeerPrefix::V4(prefix)),
        IpPrefix::V6(prefix) => Some(PeerPrefix::V6(prefix)),
    }
}

/// Returns which packets traces and captures cannot see.
pub(crate) fn tap_limits(config: &Config) -> TapLimits {
    use DropReason::{HandoffFull, SchedulerFull, SignalingFull};
    match &config.datapath.model {
        ModelSettings::RunToCompletion => TapLimits::default(),
        ModelSettings::Pipeline { .. } => {
            TapLimits { refusal: None, unseen: vec![HandoffFull, SignalingFull] }
        }
        ModelSettings::EventDriven(events) => {
            let why = "traces and captures follow a packet through the stages of one worker; with \
                       datapath.eventdev.stages above 1 they are apart: set it to 1";
            let refusal = (!events.queues.are_merged()).then(|| why.to_owned());
            TapLimits { refusal, unseen: vec![HandoffFull, SchedulerFull] }
        }
    }
}

/// Returns the configuration of a running node after a reload. Seeds and the Recovery Time Stamp
/// stay as `known` has them.
pub(crate) fn node_after_reload(config: &Config, known: &NodeConfig) -> NodeConfig {
    let records = known.records.map(|_| record_config(&config.store));
    node(config, known.seed, known.store.seed, known.recovery_time_stamp, records)
}

pub(crate) fn node(
    config: &Config,
    sequence_seed: u32,
    secret_seed: u64,
    recovery_time_stamp: u32,
    records: Option<RecordConfig>,
) -> NodeConfig {
    NodeConfig {
        node_id: match &config.node.id {
            NodeIdSetting::Ipv4(addr) => adit_n4::NodeIdentity::Ipv4(*addr),
            NodeIdSetting::Ipv6(addr) => adit_n4::NodeIdentity::Ipv6(*addr),
            NodeIdSetting::Fqdn(name) => adit_n4::NodeIdentity::Fqdn(name.to_lowercase()),
        },
        address: config.n4_listen.ip(),
        connect: config.n4.connect.iter().map(|peer| peer.address(config.n4_listen)).collect(),
        heartbeat_interval: config.n4.heartbeat_interval,
        sessions_outlive_peer: config.n4.sessions_outlive_peer,
        t1: config.n4.t1,
        n1: config.n4.n1_retries.into(),
        recovery_time_stamp,
        seed: sequence_seed,
        policy: PeerPolicy {
            allow: config.n4.allow.iter().filter_map(|net| peer_prefix(*net)).collect(),
            requests_per_s_max: config.n4.peer_requests_per_s_max,
            requests_burst: config.n4.peer_requests_burst,
            sessions_per_association_max: config.n4.sessions_per_association_max,
            smf_sets: config.n4.smf_sets.iter().map(smf_set).collect(),
        },
        paths: PathConfig {
            echo_interval: config.gtpu.echo_interval,
            t3: config.gtpu.t3,
            n3: config.gtpu.n3_requests.into(),
        },
        store: store(config, secret_seed),
        records,
    }
}

#[cfg(test)]
mod tests {
    use adit_types::TcpMss;

    use super::*;

    const EXAMPLE: &str = include_str!("../../../adit.example.toml");

    #[test]
    fn packets_of_a_kernel_port_are_fragmented_beyond_the_mtu_of_the_port() {
        let text = EXAMPLE.replacen("kernel:packet,iface=n3", "kernel:udp", 1).replacen(
            "# tcp_mss = \"clamp\"",
            "tcp_mss = \"clamp\"",
            1,
        );
        let config = Config::parse(&text).unwrap();
        let tables = tables(&config, &[MacAddr::default(); 2], 8, 1);
        let mtus = tables.interfaces.iter().map(|of| (of.mtu_bytes, of.unfragmented_bytes));
        assert_eq!(mtus.collect::<Vec<_>>(), [(u16::MAX, 1500), (1500, 1500)]);
        let mss = tables.interfaces.iter().map(|of| of.tcp_mss);
        assert_eq!(mss.collect::<Vec<_>>(), [TcpMss::Off, TcpMss::Clamp]);
    }
}
