//! Which sources the fast rule of uplink matches, and which form of the fast path a session gets.

use core::mem;
use core::net::{Ipv4Addr, Ipv6Addr};

use adit_rules::compile::{FastPath, OwnAddresses, compile};
use adit_rules::sdf::{AddrMatch, PortRange};
use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, FarEntry, FastRule, FastRuleUe, GtpuTunnel,
    HeaderCreation, HeaderRemoval, OuterTos, PackedFastRule, PacketFilter, PdrEntry, SdfSet,
    SessionRules, Shapes, SourceInterface, UeAddresses,
};
use adit_types::{
    Direction, FarId, GtpuPeerIndex, InterfaceSet, IpPrefix, Ipv6Prefix, NextHopIndex, PdrId,
    Precedence, Seid, SliceId, Teid,
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
        own_urr: None,
    }
}

/// The sources of both families; `None` without a fast rule.
fn sources(rules: &SessionRules) -> Option<(FastRuleUe<Ipv4Addr>, FastRuleUe<u64>)> {
    let rule = FastRule::compile(rules, Direction::Uplink).ok()?;
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

#[test]
fn tunnel_over_ipv6_has_no_fast_rule_beside_one_of_the_complement_of_its_teid() {
    let with = |removal, other| {
        let over = |teid| PdrEntry {
            teid: Some(Teid(teid)),
            outer_header_removal: Some(removal),
            ..pdr(v4(ONE), Vec::new())
        };
        let rules = rules(vec![v4(ONE)], Vec::new(), over(7));
        FastRule::compile(
            &SessionRules { uplink: vec![over(7), over(other)], ..rules },
            Direction::Uplink,
        )
        .is_ok()
    };
    assert!(with(HeaderRemoval::GtpuUdpIpv6, 8));
    assert!(!with(HeaderRemoval::GtpuUdpIpv6, !7));
    assert!(with(HeaderRemoval::GtpuUdpIp, !7), "the TEID itself");
}

#[test]
fn tunnel_over_ipv6_has_a_fast_rule_once_its_peer_is_known_and_marks_filters() {
    let form = |peer, sdf: SdfSet| {
        let downlink = PdrEntry {
            source: SourceInterface::SgiLanN6Lan,
            teid: None,
            outer_header_removal: None,
            sdf,
            ..pdr(v4(ONE), Vec::new())
        };
        let mut rules = rules(vec![v4(ONE)], Vec::new(), downlink);
        rules.downlink = mem::take(&mut rules.uplink);
        let tunnel = GtpuTunnel { teid: Teid(8), addr: ONE_V6.into() };
        let far = &mut rules.fars[0];
        far.destination = DestinationInterface::Access;
        far.outer_header_creation = Some(HeaderCreation::Gtpu(tunnel));
        (far.next_hop, far.peer) = (NextHopIndex(1), peer);
        let compiled = compile(rules, &OwnAddresses::default(), &mut Shapes::default());
        compiled.fast_paths[1]
    };
    let Some(FastPath::Single(rule)) = form(GtpuPeerIndex(3), SdfSet::default()) else {
        panic!("one fast rule")
    };
    assert_eq!(rule.tunnel_over_v6(), (Teid(8), GtpuPeerIndex(3)));
    assert_eq!(form(GtpuPeerIndex::NONE, SdfSet::default()), None);
    let filter = PacketFilter { protocol: Some(17), ..PacketFilter::ANY };
    let Some(FastPath::Filter(filter)) = form(GtpuPeerIndex(3), vec![filter].into()) else {
        panic!("a filter in front of the fast rule")
    };
    assert_ne!(filter.flags() & PackedFastRule::RELAY, 0, "it is marked");
}

/// The form of a session whose PDRs name these UE addresses and filters, with the number of fast
/// rules of a filter.
fn form(pdrs: &[(UeAddresses, &[&PacketFilter])]) -> &'static str {
    let both = UeAddresses { v4: Some(ONE), v6: Ipv6Prefix::containing(ONE_V6, 64) };
    let pdrs = pdrs.iter().map(|(ue, filters)| {
        let sdf = filters.iter().map(|filter| (*filter).clone()).collect();
        PdrEntry { sdf, ..pdr(*ue, Vec::new()) }
    });
    let rules = SessionRules {
        uplink: pdrs.collect(),
        ..rules(vec![both], Vec::new(), pdr(both, Vec::new()))
    };
    let compiled = compile(rules, &OwnAddresses::default(), &mut Shapes::default());
    match compiled.fast_paths[0] {
        None => "none",
        Some(FastPath::Single(_)) => "single",
        Some(FastPath::Selector(_)) => "selector",
        Some(FastPath::Filter(filter)) => {
            let lines = filter.lines(&compiled.rules, Direction::Uplink).unwrap();
            ["no rule", "filter", "filter and others"][lines.len()]
        }
    }
}

#[test]
fn single_filter_stands_in_the_line_and_others_in_a_matcher() {
    let both = UeAddresses { v4: Some(ONE), v6: Ipv6Prefix::containing(ONE_V6, 64) };
    let ranges =
        |all: &[u16]| all.iter().map(|port| PortRange { first: *port, last: *port }).collect();
    let port =
        PacketFilter { protocol: Some(17), remote_ports: ranges(&[53]), ..PacketFilter::ANY };
    let ports = PacketFilter { remote_ports: ranges(&[53, 55]), ..port.clone() };
    let other = PacketFilter { remote_ports: ranges(&[55]), ..port.clone() };
    let host =
        PacketFilter { remote: AddrMatch::V4("20.0.0.1/32".parse().unwrap()), ..PacketFilter::ANY };
    let all_v4 =
        PacketFilter { remote: AddrMatch::V4("0.0.0.0/0".parse().unwrap()), ..PacketFilter::ANY };
    let same_words = [
        AddrMatch::V4("32.1.13.184/32".parse().unwrap()),
        AddrMatch::V6("2001:db8::/32".parse().unwrap()),
    ];
    let [a, b] = same_words.map(|remote| PacketFilter { remote, ..PacketFilter::ANY });
    let of_v4 = PacketFilter { remote: all_v4.remote, ..port.clone() };
    let of_v6 = PacketFilter { remote: AddrMatch::V6("::/0".parse().unwrap()), ..other.clone() };
    let all = (both, &[][..]);
    assert_eq!(form(&[(both, &[&of_v4, &of_v6]), all]), "selector", "other ports in each family");
    assert_eq!(form(&[(both, &[&a, &b]), all]), "selector", "one of each family");
    assert_eq!(form(&[(both, &[&port])]), "filter");
    assert_eq!(form(&[(both, &[&port]), all]), "filter and others");
    assert_eq!(form(&[(both, &[&host]), all]), "filter and others");
    assert_eq!(form(&[(both, &[&host]), all, (both, &[&port])]), "filter and others");
    assert_eq!(form(&[(v4(ONE), &[&port]), (v4(ONE), &[])]), "filter and others");
    assert_eq!(form(&[all, (both, &[&port])]), "single");
    assert_eq!(form(&[(both, &[&ports])]), "selector", "two ranges");
    assert_eq!(form(&[(both, &[&port, &other])]), "selector", "two filters");
    assert_eq!(
        form(&[(both, &[&port]), (both, &[&other]), all]),
        "selector",
        "two PDRs with a filter"
    );
    assert_eq!(form(&[(both, &[&host, &port]), all]), "selector", "one of IPv4, one of both");
    assert_eq!(form(&[(both, &[&port]), (v4(ONE), &[]), all]), "selector", "others by family");
    assert_eq!(form(&[(both, &[&port]), (both, &[&all_v4])]), "selector", "others of IPv4 only");
    assert_eq!(form(&[(both, &[&host]), (v4(ONE), &[])]), "filter and others", "no UE of IPv6");
}
