//! Configurations and rules for the tests of this room.

use std::net::{IpAddr, Ipv4Addr};

use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, FarEntry, GtpuTunnel, HeaderCreation, KeyChange,
    OuterTos, RuleDelta, SessionKey, SessionRules,
};
use adit_tables::{Interface, Route, TablesConfig};
use adit_types::{
    DomainId, FarId, GtpuPeerIndex, InterfaceId, InterfaceRole, InterfaceSet, MacAddr,
    NextHopIndex, PortId, Seid, SessionIndex, TcpMss, Teid, VlanId,
};

pub(crate) const N3: InterfaceId = InterfaceId(0);
pub(crate) const N6: InterfaceId = InterfaceId(1);

pub(crate) fn interface(id: u8, role: InterfaceRole, v4: &str, v6: &str) -> Interface {
    Interface {
        id: InterfaceId(id),
        role,
        domain: DomainId(0),
        port: PortId(id.into()),
        vlan: VlanId::UNTAGGED,
        mac: MacAddr([2, 0, 0, 0, 0, id]),
        mtu_bytes: 1500,
        unfragmented_bytes: 1500,
        outer_df: true,
        tcp_mss: TcpMss::Off,
        station: None,
        v4: Some((v4.parse().unwrap(), 24)),
        v6: Some((v6.parse().unwrap(), 64)),
    }
}

pub(crate) fn config(workers: usize) -> TablesConfig {
    TablesConfig {
        sessions_max: 64,
        teid_slot_bits: 6,
        workers,
        next_hops_max: 16,
        seed: 7,
        interfaces: vec![
            interface(0, InterfaceRole::N3, "192.0.2.1", "2001:db8:3::1"),
            interface(1, InterfaceRole::N6, "198.51.100.1", "2001:db8:6::1"),
        ],
        own_addrs: vec!["203.0.113.4".parse().unwrap()],
        routes: vec![
            route(0, "10.0.0.0/8", "192.0.2.254"),
            route(1, "0.0.0.0/0", "198.51.100.254"),
            route(1, "::/0", "fe80::fe"),
        ],
        aggregates: Vec::new(),
        ue_pools_v4: vec![(DomainId(0), "10.45.0.0/24".parse().unwrap())],
        local_switching_domains: vec![DomainId(0)],
    }
}

pub(crate) fn route(interface: u8, prefix: &str, next_hop: &str) -> Route {
    Route {
        interface: InterfaceId(interface),
        prefix: prefix.parse().unwrap(),
        next_hop: next_hop.parse().unwrap(),
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Rules marked with `seid`, with one FAR towards each peer.
pub(crate) fn rules(seid: u64, peers: &[&str]) -> SessionRules {
    let far = |(id, peer): (u32, &&str)| FarEntry {
        id: FarId(id),
        action: ApplyAction::FORW,
        destination: DestinationInterface::Access,
        interfaces: InterfaceSet::ALL,
        outer_header_creation: Some(HeaderCreation::Gtpu(GtpuTunnel {
            teid: Teid(1),
            addr: ip(peer),
        })),
        outer_tos: OuterTos::default(),
        next_hop: NextHopIndex::NONE,
        peer: GtpuPeerIndex::NONE,
        buffer_pkts_max: 64,
        steering: None,
        dscp: None,
        redirect: None,
        local_switching: InterfaceSet::NONE,
        duplicates: [].into_iter().collect(),
    };
    SessionRules {
        generation: adit_rules::DeltaId::default(),
        slice: adit_types::SliceId(0),
        buffer_epoch: 0,
        up_seid: Seid(seid),
        ue: Vec::new(),
        ue_networks: Vec::new(),
        tunnel_sides: Vec::new(),
        uplink: Vec::new(),
        downlink: Vec::new(),
        matchers: None,
        fars: (1..).zip(peers).map(far).collect(),
        qers: Vec::new(),
        urrs: Vec::new(),
        own_urr: None,
    }
}

pub(crate) fn install(session: u32, keys: &[SessionKey], rules: SessionRules) -> RuleDelta {
    RuleDelta {
        session: SessionIndex(session),
        keys: keys.iter().map(|key| KeyChange::Add(*key)).collect(),
        rules: Some(Box::new(rules)),
    }
}

pub(crate) fn uninstall(session: u32, keys: &[SessionKey]) -> RuleDelta {
    RuleDelta {
        session: SessionIndex(session),
        keys: keys.iter().map(|key| KeyChange::Remove(*key)).collect(),
        rules: None,
    }
}

pub(crate) fn teid(value: u32) -> SessionKey {
    SessionKey::Teid(Teid(value))
}

pub(crate) fn ue(last: u8) -> SessionKey {
    SessionKey::UeIpv4(DomainId(0), Ipv4Addr::new(10, 45, 0, last))
}

pub(crate) fn id(n: u64) -> DeltaId {
    DeltaId(n)
}
