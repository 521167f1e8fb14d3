//! Which sources the fast rule of uplink matches.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, FarEntry, FastRule, FastRuleUe, HeaderRemoval,
    PdrEntry, SdfSet, SessionRules, SourceInterface, UeAddresses,
};
use adit_types::{
    Direction, FarId, InterfaceSet, IpPrefix, Ipv6Prefix, NextHopIndex, PdrId, Precedence, Seid,
    SliceId, Teid,
};

const ONE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
const ONE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);

fn v4(addr: Ipv4Addr) -> UeAddresses {
    UeAddresses { v4: Some(addr), v6: None }
}

fn networks() -> Vec<IpPrefix> {
    vec![IpPrefix::V4("10.46.0.0/24".parse().unwrap())]
}

fn pdr(ue: UeAddresses, ue_networks: Vec<IpPrefix>) -> PdrEntry {
    PdrEntry {
        id: PdrId(1),
        precedence: Precedence(1),
        source: SourceInterface::Access,
        interfaces: InterfaceSet::ALL,
        teid: Some(Teid(7)),
        qfis: Vec::new(),
        ue,
        ue_networks,
        sdf: SdfSet::default(),
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIpv4),
        container_deletion: false,
        far: 0,
        qers: Default::default(),
        urrs: Default::default(),
    }
}

fn rules(ue: Vec<UeAddresses>, ue_networks: Vec<IpPrefix>, pdr: PdrEntry) -> SessionRules {
    let far = FarEntry {
        id: FarId(1),
        action: ApplyAction::FORW,
        destination: DestinationInterface::Core,
        interfaces: InterfaceSet::ALL,
        outer_header_creation: None,
        transport_level_marking: None,
        next_hop: NextHopIndex::NONE,
        buffer_pkts_max: 64,
        steering: None,
        dscp: None,
        redirect: None,
        local_switching: InterfaceSet::NONE,
        duplicates: [].into_iter().collect(),
    };
    SessionRules {
        generation: DeltaId::default(),
        slice: SliceId(0),
        buffer_epoch: 0,
        up_seid: Seid(1),
        ue,
        ue_networks,
        tunnel_sides: Vec::new(),
        uplink: vec![pdr],
        downlink: Vec::new(),
        matchers: None,
        fars: vec![far],
        qers: Vec::new(),
        urrs: Vec::new(),
    }
}

/// The sources of both families; `None` without a fast rule.
fn sources(rules: &SessionRules) -> Option<(FastRuleUe<Ipv4Addr>, FastRuleUe<u64>)> {
    let rule = FastRule::compile(rules, Direction::Uplink)?;
    Some((rule.ue_v4, rule.ue_v6))
}

#[test]
fn source_is_the_one_that_the_pdr_names_among_those_of_the_session() {
    let of_both = rules(vec![v4(ONE), v4(OTHER)], Vec::new(), pdr(v4(OTHER), Vec::new()));
    assert_eq!(sources(&of_both), Some((FastRuleUe::Only(OTHER), FastRuleUe::None)));
    let with_network = rules(vec![v4(ONE)], networks(), pdr(v4(ONE), networks()));
    assert_eq!(sources(&with_network), Some((FastRuleUe::Only(ONE), FastRuleUe::None)));
    let of_another = rules(vec![v4(ONE)], Vec::new(), pdr(v4(OTHER), Vec::new()));
    assert_eq!(sources(&of_another), Some((FastRuleUe::None, FastRuleUe::None)));
}

#[test]
fn source_of_a_pdr_that_names_none_is_the_only_one_of_the_session() {
    let both = UeAddresses { v4: Some(ONE), v6: Ipv6Prefix::containing(ONE_V6, 64) };
    let none = || pdr(UeAddresses::default(), Vec::new());
    let only = sources(&rules(vec![both], Vec::new(), none()));
    assert_eq!(only, Some((FastRuleUe::Only(ONE), FastRuleUe::Only(0x2001_0db8_0000_0001))));
    let any = sources(&rules(Vec::new(), Vec::new(), none()));
    assert_eq!(any, Some((FastRuleUe::Any, FastRuleUe::Any)));
    assert_eq!(sources(&rules(vec![v4(ONE), v4(OTHER)], Vec::new(), none())), None);
    assert_eq!(sources(&rules(Vec::new(), networks(), none())), None);
}

#[test]
fn networks_behind_a_ue_without_an_address_have_no_fast_rule() {
    let pdr = pdr(UeAddresses::default(), networks());
    assert_eq!(sources(&rules(vec![v4(ONE)], networks(), pdr)), None);
}
