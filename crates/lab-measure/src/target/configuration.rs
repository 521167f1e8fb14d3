//! The configuration of the adit that the tester starts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::placement::PlacementChoice;
use super::{NetworkOptions, OuterFamily, PollChoice, TargetArguments};
use adit_lab_process::adit_config::{AditConfig, Qos, WorkerPoll};

/// Where the threads of a started adit run.
pub(super) struct TargetCores<'a> {
    /// Core of all threads but those of the packet path.
    pub main: u16,
    pub workers: &'a [u16],
    pub receiver: u16,
}

/// Returns the configuration of adit.
pub(super) fn adit_configuration(
    arguments: &TargetArguments,
    cores: &TargetCores<'_>,
    dir: &Path,
) -> String {
    let TargetArguments { adit, network, pfcp, sessions, .. } = arguments;
    let NetworkOptions { upf_n3, upf_n3_v6, upf_n6, dn, dn6, .. } = network;
    let device =
        |index: u32, name: &str| format!("net_memif{index},{}", arguments.memif_client(name));
    let mut n6 = vec![format!("{upf_n6}/24")];
    let mut routes = vec![("0.0.0.0/0", dn.to_string())];
    if network.inner.is_ipv6() {
        // Another address of the data network's /64, for adit's side.
        n6.push(format!("{}/64", Ipv6Addr::from_bits(dn6.to_bits() ^ 3)));
        routes.push(("::/0", dn6.to_string()));
    }
    let node = if let IpAddr::V4(node) = pfcp.n4.ip() { node } else { Ipv4Addr::LOCALHOST };
    let journal = dir.join("journal");
    AditConfig {
        n4: node,
        n4_port: pfcp.n4.port(),
        heartbeat_ms: 10_000,
        t1_ms: 3000,
        unlimited_requests: true,
        sessions_max: sessions.saturating_add(16),
        main_core: usize::from(cores.main),
        workers: cores.workers.iter().copied().map(usize::from).collect(),
        model: adit.model,
        receiver: usize::from(cores.receiver),
        poll: match adit.poll {
            PollChoice::Busy => WorkerPoll::Busy,
            PollChoice::Adaptive => WorkerPoll::Adaptive,
        },
        ignores_nodes: adit.placement == Some(PlacementChoice::Uma),
        scales_frequency: adit.scale_frequency,
        qos: adit.excess.map(|excess| {
            let (queue_pkts, shared_mbps) = (adit.queue_pkts, adit.shared_mbps);
            Qos { excess, queue_pkts, shared_mbps }
        }),
        devices: [device(0, "n3"), device(1, "n6")],
        xdp: false,
        mtu_bytes: [1600, 1500],
        n3: match network.n3_family {
            OuterFamily::Ipv4 => vec![format!("{upf_n3}/24")],
            OuterFamily::Ipv6 => vec![format!("{upf_n3_v6}/64")],
        },
        n6,
        routes,
        n6_instance: None,
        vlans: [true, false].map(|is_access| network.vlan(is_access).value()),
        store: adit.journal.then_some(&*journal),
        socket: &dir.join("admin.sock"),
    }
    .text()
}
