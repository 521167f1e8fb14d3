//! Which fast rule a packet takes whose session has SDF filters.

use std::net::Ipv4Addr;

use crate::support::{config, id, install, rules, uninstall};
use adit_rules::compile::FilterKey;
use adit_rules::sdf::AddrMatch;
use adit_rules::{
    DestinationInterface, FastRuleUe, FlowKey, FlowSelector, HeaderRemoval, PacketFilter, PdrEntry,
    SdfSet, SessionRules, SourceInterface, UeAddresses,
};
use adit_tables::{Publisher, TablesConfig, TablesReader, build};
use adit_types::{Direction, InterfaceSet, Ipv4Prefix, PdrId, Precedence, SessionIndex, Teid};

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);

/// The PDR of packets towards one host, or of all.
fn pdr(number: u16, host: Option<[u8; 4]>) -> PdrEntry {
    let remote = |host: [u8; 4]| AddrMatch::V4(Ipv4Prefix::containing(host.into(), 32).unwrap());
    let sdf = host.map(|host| PacketFilter { remote: remote(host), ..PacketFilter::ANY });
    PdrEntry {
        id: PdrId(number),
        precedence: Precedence(number.into()),
        source: SourceInterface::Access,
        interfaces: InterfaceSet::ALL,
        teid: Some(Teid(u32::from(number) + 100)),
        qfis: Vec::new(),
        ue: UeAddresses { v4: Some(UE), v6: None },
        ue_networks: Vec::new(),
        sdf: sdf.into_iter().collect::<SdfSet>(),
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIpv4),
        container_deletion: false,
        far: 0,
        qers: Default::default(),
        urrs: Default::default(),
    }
}

fn towards(dst: [u8; 4]) -> FlowKey {
    let flow = FlowSelector {
        src: UE.into(),
        dst: Ipv4Addr::from(dst).into(),
        protocol: 17,
        src_port: 1,
        dst_port: 2,
        tos: 0,
        spi: None,
        flow_label: 0,
    };
    FlowKey::new(Direction::Uplink, &flow)
}

/// Tables without routes, which take Miri long to build.
fn one_worker() -> (Publisher, TablesReader) {
    let config = TablesConfig { routes: Vec::new(), ..config(1) };
    let (publisher, mut readers) = build(config).unwrap();
    (publisher, readers.remove(0))
}

/// Sixteen PDRs of one host each and one of all others. Each has a fast rule of its own, as their
/// tunnels differ.
fn seventeen_pdrs() -> SessionRules {
    let mut rules = rules(1, &["192.0.2.9"]);
    rules.fars[0].destination = DestinationInterface::Core;
    rules.fars[0].outer_header_creation = None;
    rules.ue = vec![UeAddresses { v4: Some(UE), v6: None }];
    rules.uplink = (1..=16_u8).map(|n| pdr(n.into(), Some([20, 0, 0, n]))).collect();
    rules.uplink.push(pdr(17, None));
    rules
}

#[cfg_attr(miri, ignore = "the two that replace rules read the same memory")]
#[test]
fn packet_takes_the_fast_rule_of_its_pdr_among_the_first_sixteen() {
    let (mut publisher, mut reader) = one_worker();
    reader.observe();
    publisher.apply(id(1), install(0, &[], seventeen_pdrs()));
    reader.observe();
    assert_eq!(publisher.poll_observed(), Some(id(1)));
    let view = reader.observe();
    let cell = view.fast_rule_cell(SessionIndex(0), Direction::Uplink).unwrap();
    let selector = view.fast_rule_selector(cell).unwrap();
    for n in [1, 2, 15] {
        let rule = selector.find(&towards([20, 0, 0, n])).unwrap().fast_rule();
        assert_eq!(rule.source(false), FastRuleUe::Only(u64::from(UE.to_bits())));
        let teid = |n: u8| Teid(u32::from(n) + 100);
        assert!(rule.matches_uplink(InterfaceSet::ALL, teid(n), None));
        assert!(!rule.matches_uplink(InterfaceSet::ALL, teid(n + 1), None));
    }
    assert!(selector.find(&towards([20, 0, 0, 16])).is_none(), "fifteen fast rules at most");
    assert!(selector.find(&towards([20, 0, 0, 17])).is_none(), "the seventeenth PDR has none");
}

/// A PDR of a host and, with `others`, a PDR of all other hosts.
fn one_filter(others: bool) -> SessionRules {
    let mut rules = seventeen_pdrs();
    rules.uplink = vec![pdr(1, Some([20, 0, 0, 1]))];
    rules.uplink.extend(others.then(|| pdr(2, None)));
    rules
}

fn towards_host(host: u8) -> FilterKey {
    let remote = u32::from_be_bytes([20, 0, 0, host]);
    FilterKey { is_v6: false, remote, protocol: 17, ports: 1 << 16 | 2 }
}

#[cfg_attr(miri, ignore = "the two that replace rules read the same memory")]
#[test]
fn packet_takes_the_fast_rule_of_the_filter_or_of_the_others() {
    let (mut publisher, mut reader) = one_worker();
    for (n, others) in [(1, true), (2, false)] {
        publisher.apply(id(n), install(0, &[], one_filter(others)));
        reader.observe();
        assert_eq!(publisher.poll_observed(), Some(id(n)));
        let view = reader.observe();
        let cell = view.fast_rule_cell(SessionIndex(0), Direction::Uplink).unwrap();
        assert!(view.fast_rule_selector(cell).is_none() && cell.read().is_none());
        let filter = view.fast_rule_filter(cell).unwrap();
        let teid = |host| {
            let key = towards_host(host);
            let selected = view.select_by_filter(&filter, &key)?;
            let rule = selected.fast_rule();
            [101, 102]
                .into_iter()
                .find(|teid| rule.matches_uplink(InterfaceSet::ALL, Teid(*teid), None))
        };
        assert_eq!(teid(1), Some(101));
        assert_eq!(teid(2), others.then_some(102));
    }
}

/// As with selectors, Miri sees whether the lines are freed too early.
#[test]
fn filter_works_until_its_view_ends_although_its_rules_are_replaced_or_removed() {
    let (mut publisher, mut reader) = one_worker();
    publisher.apply(id(1), install(0, &[], one_filter(true)));
    reader.observe();
    assert_eq!(publisher.poll_observed(), Some(id(1)));
    for (n, delta) in [(2, install(0, &[], one_filter(true))), (3, uninstall(0, &[]))] {
        let view = reader.observe();
        let cell = view.fast_rule_cell(SessionIndex(0), Direction::Uplink).unwrap();
        let filter = view.fast_rule_filter(cell).unwrap();
        publisher.apply(id(n), delta);
        assert_eq!(publisher.poll_observed(), None, "the reader has not passed");
        assert!(view.fast_rule_filter(cell).is_none(), "it was taken back at once");
        for host in [1, 2] {
            let key = towards_host(host);
            let selected = view.select_by_filter(&filter, &key).unwrap();
            let teid = Teid(100 + u32::from(host));
            assert!(selected.fast_rule().matches_uplink(InterfaceSet::ALL, teid, None));
        }
        reader.observe();
        assert_eq!(publisher.poll_observed(), Some(id(n)));
    }
}

/// The selector refers to memory of the published rules: Miri sees whether that is freed too early.
#[test]
fn selector_works_until_its_view_ends_although_its_rules_are_replaced_or_removed() {
    let (mut publisher, mut reader) = one_worker();
    publisher.apply(id(1), install(0, &[], seventeen_pdrs()));
    reader.observe();
    assert_eq!(publisher.poll_observed(), Some(id(1)));
    for (n, delta) in [(2, install(0, &[], seventeen_pdrs())), (3, uninstall(0, &[]))] {
        let view = reader.observe();
        let cell = view.fast_rule_cell(SessionIndex(0), Direction::Uplink).unwrap();
        let selector = view.fast_rule_selector(cell).unwrap();
        publisher.apply(id(n), delta);
        assert_eq!(publisher.poll_observed(), None, "the reader has not passed");
        assert!(view.fast_rule_selector(cell).is_none(), "it was taken back at once");
        let rule = selector.find(&towards([20, 0, 0, 2])).unwrap().fast_rule();
        assert!(rule.matches_uplink(InterfaceSet::ALL, Teid(102), None));
        reader.observe();
        assert_eq!(publisher.poll_observed(), Some(id(n)));
    }
    let view = reader.observe();
    let cell = view.fast_rule_cell(SessionIndex(0), Direction::Uplink).unwrap();
    assert!(view.fast_rule_selector(cell).is_none());
}
