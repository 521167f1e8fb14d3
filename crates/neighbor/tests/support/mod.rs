//! Tables with two interfaces, and sessions whose only use is their GTP-U peer.

use std::net::IpAddr;

use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, FarEntry, GtpuTunnel, HeaderCreation, RuleDelta,
    SessionRules,
};
use adit_tables::{Interface, Route, TablesConfig};
use adit_types::{
    DomainId, FarId, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, NextHopIndex, PortId, Seid,
    SessionIndex, SliceId, Teid, VlanId,
};

pub(crate) const N3: InterfaceId = InterfaceId(0);
pub(crate) const N6: InterfaceId = InterfaceId(1);

fn interface(id: InterfaceId, role: InterfaceRole, v4: &str, v6: &str) -> Interface {
    Interface {
        id,
        role,
        domain: DomainId(0),
        port: PortId(id.0.into()),
        vlan: VlanId::UNTAGGED,
        mac: MacAddr([2, 0, 0, 0, 0, id.0]),
        mtu_bytes: 1500,
        v4: Some((v4.parse().unwrap(), 24)),
        v6: Some((v6.parse().unwrap(), 64)),
    }
}

/// Three gateways, and room for 16 next hops.
pub(crate) fn config(workers: usize) -> TablesConfig {
    let route = |interface, prefix: &str, next_hop: &str| Route {
        interface,
        prefix: prefix.parse().unwrap(),
        next_hop: ip(next_hop),
    };
    TablesConfig {
        sessions_max: 64,
        teid_slot_bits: 6,
        workers,
        next_hops_max: 16,
        seed: 7,
        interfaces: vec![
            interface(N3, InterfaceRole::N3, "192.0.2.1", "2001:db8:3::1"),
            interface(N6, InterfaceRole::N6, "198.51.100.1", "2001:db8:6::1"),
        ],
        own_addrs: Vec::new(),
        routes: vec![
            route(N3, "10.0.0.0/8", "192.0.2.254"),
            route(N6, "0.0.0.0/0", "198.51.100.254"),
            route(N6, "::/0", "fe80::fe"),
        ],
        aggregates: Vec::new(),
        ue_pools_v4: Vec::new(),
        local_switching_domains: Vec::new(),
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Establishes a session with one FAR, which sends to `peer`.
pub(crate) fn install(peer: &str) -> RuleDelta {
    let tunnel = GtpuTunnel { teid: Teid(1), addr: ip(peer) };
    let far = FarEntry {
        id: FarId(1),
        action: ApplyAction::FORW,
        destination: DestinationInterface::Access,
        interfaces: InterfaceSet::ALL,
        outer_header_creation: Some(HeaderCreation::Gtpu(tunnel)),
        transport_level_marking: None,
        next_hop: NextHopIndex::NONE,
        buffer_pkts_max: 64,
        steering: None,
        dscp: None,
        redirect: None,
        local_switching: InterfaceSet::NONE,
        duplicates: [].into_iter().collect(),
    };
    let rules = SessionRules {
        generation: DeltaId::default(),
        slice: SliceId(0),
        buffer_epoch: 0,
        up_seid: Seid(1),
        ue: Vec::new(),
        ue_networks: Vec::new(),
        tunnel_sides: Vec::new(),
        uplink: Vec::new(),
        downlink: Vec::new(),
        matchers: None,
        fars: vec![far],
        qers: Vec::new(),
        urrs: Vec::new(),
    };
    RuleDelta { session: SessionIndex(0), keys: Vec::new(), rules: Some(Box::new(rules)) }
}

/// Deletes it.
pub(crate) fn uninstall() -> RuleDelta {
    RuleDelta { session: SessionIndex(0), keys: Vec::new(), rules: None }
}
