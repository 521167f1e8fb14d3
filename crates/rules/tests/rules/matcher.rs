//! A compiled matcher finds the same as the walk over the filters.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::compile::has_idle_filters;
use adit_rules::sdf::{AddrMatch, PortRange};
use adit_rules::{
    FlowKey, FlowSelector, Matcher, PacketFilter, PdrEntry, SdfSet, SourceInterface, UeAddresses,
};
use adit_types::{
    Direction, InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix, PdrId, Precedence, Qfi, Teid,
    is_forwardable,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Few values, so that filters overlap and packets match.
const UE_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1);

fn addr_v4() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        Just(UE_V4),
        (0_u8..3, 0_u8..3).prop_map(|(c, d)| Ipv4Addr::new(20, 0, c, d)),
        any::<Ipv4Addr>(),
    ]
}

fn addr_v6() -> impl Strategy<Value = Ipv6Addr> {
    prop_oneof![
        Just(UE_V6),
        (0_u16..3, 0_u16..3).prop_map(|(d, h)| Ipv6Addr::new(0x2001, 0xdb8, 0, d, 0, 0, 0, h)),
        any::<Ipv6Addr>(),
    ]
}

fn addr_match() -> impl Strategy<Value = AddrMatch> {
    let v4_len = prop_oneof![Just(32), Just(24), 0_u8..=32];
    let v6_len = prop_oneof![Just(128), Just(64), 0_u8..=128];
    prop_oneof![
        2 => Just(AddrMatch::Any),
        2 => (addr_v4(), v4_len)
            .prop_map(|(addr, len)| AddrMatch::V4(Ipv4Prefix::containing(addr, len).unwrap())),
        2 => (addr_v6(), v6_len)
            .prop_map(|(addr, len)| AddrMatch::V6(Ipv6Prefix::containing(addr, len).unwrap())),
    ]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![3 => 0_u16..6, 1 => Just(u16::MAX), 1 => any::<u16>()]
}

fn ports(most: usize) -> impl Strategy<Value = Vec<PortRange>> {
    let range = (port(), port(), prop::bool::weighted(0.9)).prop_map(|(a, b, in_order)| {
        let (first, last) = if in_order { (a.min(b), a.max(b)) } else { (a, b) };
        PortRange { first, last }
    });
    vec(range, 0..most)
}

fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![Just(6), Just(17), Just(1), Just(50), Just(0), any::<u8>()]
}

fn filter() -> impl Strategy<Value = PacketFilter> {
    let rare = (
        option::weighted(0.2, (any::<u8>(), any::<u8>())),
        option::weighted(0.1, 1_u32..3),
        option::weighted(0.1, 0_u32..3),
    );
    (option::of(protocol()), addr_match(), ports(3), addr_match(), ports(3), rare).prop_map(
        |(protocol, remote, remote_ports, local, local_ports, (tos, spi, flow_label))| {
            PacketFilter {
                protocol,
                remote,
                remote_ports,
                local,
                local_ports,
                tos,
                spi,
                flow_label,
            }
        },
    )
}

/// The filters that classifiers see most: hosts and ports, all different.
fn host_filter() -> impl Strategy<Value = PacketFilter> {
    (0_u32..2000, 0_u16..4, any::<bool>()).prop_map(|(host, port, is_v6)| PacketFilter {
        protocol: Some(17),
        remote: match is_v6 {
            false => {
                let addr = Ipv4Addr::from_bits((20 << 24) + host);
                AddrMatch::V4(Ipv4Prefix::containing(addr, 32).unwrap())
            }
            true => {
                let addr = Ipv6Addr::from_bits(0x20010db8 << 96 | u128::from(host) << 40);
                AddrMatch::V6(Ipv6Prefix::containing(addr, 96).unwrap())
            }
        },
        remote_ports: vec![PortRange { first: port, last: port + 1 }],
        ..PacketFilter::ANY
    })
}

fn pdr() -> impl Strategy<Value = PdrEntry> {
    let ue = prop_oneof![
        Just(UeAddresses::default()),
        Just(UeAddresses { v4: Some(UE_V4), v6: None }),
        (0_u8..=128).prop_map(|len| UeAddresses {
            v4: Some(UE_V4),
            v6: Ipv6Prefix::containing(UE_V6, len)
        }),
        Just(UeAddresses { v4: None, v6: Ipv6Prefix::containing(UE_V6, 64) }),
    ];
    let networks = prop_oneof![
        3 => Just(Vec::new()),
        1 => Just(vec![IpPrefix::V4("20.0.0.0/8".parse().unwrap())]),
    ];
    let qfis = vec((0_u8..2).prop_map(|qfi| Qfi::new(qfi).unwrap()), 0..2);
    let filters = prop_oneof![8 => vec(filter(), 0..4), 1 => vec(filter(), 0..60)];
    (ue, networks, qfis, filters).prop_map(|(ue, ue_networks, qfis, sdf)| PdrEntry {
        ue,
        ue_networks,
        qfis,
        sdf: sdf.into(),
        ..plain_pdr()
    })
}

fn plain_pdr() -> PdrEntry {
    PdrEntry {
        id: PdrId(1),
        precedence: Precedence(1),
        source: SourceInterface::Access,
        interfaces: InterfaceSet::ALL,
        teid: None,
        qfis: Vec::new(),
        ue: UeAddresses::default(),
        ue_networks: Vec::new(),
        sdf: SdfSet::default(),
        outer_header_removal: None,
        container_deletion: false,
        far: 0,
        qers: Default::default(),
        urrs: Default::default(),
    }
}

/// A packet as walks see it: without ports where it has none, and with an SPI only for ESP.
fn packet() -> impl Strategy<Value = FlowSelector> {
    let addrs = prop_oneof![
        (addr_v4(), addr_v4()).prop_map(|(a, b)| (IpAddr::V4(a), IpAddr::V4(b))),
        (addr_v6(), addr_v6()).prop_map(|(a, b)| (IpAddr::V6(a), IpAddr::V6(b))),
    ];
    let upper = (protocol(), port(), port(), 0_u32..3, any::<bool>());
    (addrs, upper, any::<u8>(), 0_u32..3).prop_map(
        |((src, dst), (protocol, src_port, dst_port, spi, is_fragment), tos, flow_label)| {
            let has_ports = [6, 17].contains(&protocol) && !is_fragment;
            let ports = if has_ports { (src_port, dst_port) } else { (0, 0) };
            FlowSelector {
                src,
                dst,
                protocol,
                src_port: ports.0,
                dst_port: ports.1,
                tos,
                spi: (protocol == 50 && !is_fragment && spi > 0).then_some(spi),
                flow_label: if src.is_ipv6() { flow_label } else { 0 },
            }
        },
    )
}

fn host_packet() -> impl Strategy<Value = FlowSelector> {
    (0_u32..2000, 0_u16..6, any::<bool>()).prop_map(|(host, port, is_v6)| {
        let (src, dst): (IpAddr, IpAddr) = match is_v6 {
            false => (UE_V4.into(), Ipv4Addr::from_bits((20 << 24) + host).into()),
            true => {
                let bits = 0x20010db8 << 96 | u128::from(host) << 40 | 5;
                (UE_V6.into(), Ipv6Addr::from_bits(bits).into())
            }
        };
        let (src_port, dst_port) = (7, port);
        let (spi, flow_label) = (None, 0);
        FlowSelector { src, dst, protocol: 17, src_port, dst_port, tos: 0, spi, flow_label }
    })
}

fn has_conditions(pdr: &PdrEntry, direction: Direction, flow: &FlowSelector, qfi: u8) -> bool {
    let ue = if direction == Direction::Uplink { flow.src } else { flow.dst };
    pdr.matches_ue(ue) && (pdr.qfis.is_empty() || pdr.qfis.iter().any(|own| own.value() == qfi))
}

fn walked(pdrs: &[PdrEntry], direction: Direction, flow: &FlowSelector, qfi: u8) -> Option<usize> {
    pdrs.iter().position(|pdr| {
        has_conditions(pdr, direction, flow, qfi)
            && (pdr.sdf.is_empty() || pdr.sdf.iter().any(|filter| filter.matches(direction, flow)))
    })
}

fn check(pdrs: &[PdrEntry], flows: &[FlowSelector]) -> Result<(), TestCaseError> {
    for direction in [Direction::Uplink, Direction::Downlink] {
        let source = match direction {
            Direction::Uplink => SourceInterface::Access,
            Direction::Downlink => SourceInterface::Core,
        };
        let pdrs: Vec<_> = pdrs.iter().map(|pdr| PdrEntry { source, ..pdr.clone() }).collect();
        let Some(matcher) = Matcher::compile(direction, &pdrs) else {
            prop_assert!(pdrs.iter().all(|pdr| pdr.sdf.is_empty() || !pdr.is_usual(direction)));
            continue;
        };
        // The stages drop other packets first; PDRs for link-scoped addresses only are not in a
        // matcher.
        let forwardable =
            |flow: &&FlowSelector| is_forwardable(flow.src) && is_forwardable(flow.dst);
        for (flow, qfi) in flows.iter().filter(forwardable).zip([0, 1, 2].into_iter().cycle()) {
            let found = matcher.view().find(&FlowKey::new(direction, flow), |candidate| {
                let pdr = &pdrs[candidate.pdr];
                has_conditions(pdr, direction, flow, qfi)
                    && candidate.is_confirmed(&pdr.sdf, direction, flow)
            });
            prop_assert_eq!(found, walked(&pdrs, direction, flow, qfi), "{:?}", flow);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn matcher_finds_the_pdr_that_the_walk_finds(
        pdrs in vec(pdr(), 0..12),
        flows in vec(packet(), 40),
    ) {
        check(&pdrs, &flows)?;
    }

    #[test]
    fn matcher_of_many_hosts_finds_the_pdr_that_the_walk_finds(
        filters in vec(host_filter(), 1..600),
        (odd, at) in (vec(pdr(), 0..3), 0_usize..8),
        flows in vec(host_packet(), 200),
    ) {
        let mut pdrs: Vec<PdrEntry> =
            filters.chunks(9).map(|some| PdrEntry { sdf: some.iter().cloned().collect(), ..plain_pdr() }).collect();
        let at = at.min(pdrs.len());
        pdrs.splice(at..at, odd);
        check(&pdrs, &flows)?;
    }
}

/// Tunnels distinguish them, which are no field of the matcher.
#[test]
fn each_of_many_pdrs_with_equal_filters_is_tried_once_and_in_order() {
    let udp = PacketFilter { protocol: Some(17), ..PacketFilter::ANY };
    let pdr = |number: u32| {
        let filters = usize::try_from(1 + number % 5).unwrap();
        PdrEntry {
            teid: Some(Teid(number + 1)),
            sdf: vec![udp.clone(); filters].into(),
            ..plain_pdr()
        }
    };
    let pdrs: Vec<_> = (0..256).map(pdr).collect();
    let matcher = Matcher::compile(Direction::Uplink, &pdrs).unwrap();
    let flow = FlowSelector {
        src: UE_V4.into(),
        dst: Ipv4Addr::new(20, 0, 0, 1).into(),
        protocol: 17,
        src_port: 1,
        dst_port: 2,
        tos: 0,
        spi: None,
        flow_label: 0,
    };
    let key = FlowKey::new(Direction::Uplink, &flow);
    for last in 0..pdrs.len() {
        let mut tried = Vec::new();
        let found = matcher.view().find(&key, |candidate| {
            tried.push(candidate.pdr);
            candidate.pdr == last
        });
        assert_eq!(found, Some(last));
        assert_eq!(tried, (0..=last).collect::<Vec<_>>());
    }
    assert_eq!(matcher.view().find(&key, |_| false), None);
}

#[test]
fn port_lists_with_too_many_pairs_match_as_the_walk_does() {
    let many = (0..10).map(|n| PortRange { first: 4 * n, last: 4 * n + 1 }).collect::<Vec<_>>();
    let sdf =
        vec![PacketFilter { remote_ports: many.clone(), local_ports: many, ..PacketFilter::ANY }];
    let pdrs = [PdrEntry { sdf: sdf.into(), ..plain_pdr() }, plain_pdr()];
    let flows: Vec<_> = (0..44)
        .map(|port| FlowSelector {
            src: UE_V4.into(),
            dst: UE_V4.into(),
            protocol: 6,
            src_port: port,
            dst_port: 44 - port,
            tos: 0,
            spi: None,
            flow_label: 0,
        })
        .collect();
    check(&pdrs, &flows).unwrap();
}

#[test]
fn filter_with_too_many_pairs_of_ports_is_one_entry() {
    let ports = |count| (0..count).map(|n| PortRange { first: 4 * n, last: 4 * n + 1 }).collect();
    let lines = |remote_ports: Vec<PortRange>, local_ports: Vec<PortRange>| {
        let sdf = vec![PacketFilter { remote_ports, local_ports, ..PacketFilter::ANY }];
        let pdrs = [PdrEntry { sdf: sdf.into(), ..plain_pdr() }];
        Matcher::compile(Direction::Uplink, &pdrs).unwrap().lines().len()
    };
    let one = lines(ports(1), ports(1));
    assert!(lines(ports(4), ports(4)) >= 4 * one, "16 entries, four of them in a group");
    assert_eq!(lines(ports(17), ports(1)), one, "17 would be too many");
}

#[test]
fn matcher_of_hosts_is_one_line_for_four_of_them_and_the_nodes_that_halve_them() {
    let filter = |host: u8| PacketFilter {
        protocol: Some(17),
        remote: AddrMatch::V4(Ipv4Prefix::containing(Ipv4Addr::new(20, 0, 0, host), 32).unwrap()),
        local: AddrMatch::V4(Ipv4Prefix::containing(UE_V4, 32).unwrap()),
        ..PacketFilter::ANY
    };
    let ue = UeAddresses { v4: Some(UE_V4), v6: None };
    let lines_of = |hosts: u8| {
        let pdr = |host| PdrEntry { ue, sdf: vec![filter(host)].into(), ..plain_pdr() };
        let pdrs: Vec<_> = (0..hosts).map(pdr).collect();
        Matcher::compile(Direction::Uplink, &pdrs).unwrap().lines().len()
    };
    assert_eq!(lines_of(8), 2, "a leaf");
    assert_eq!(lines_of(16), 1 + 2 * 2, "a line of nodes, and two halves");
    assert_eq!(lines_of(32), 1 + 4 * 2, "a line of nodes, and four quarters");
}

#[test]
fn filters_as_many_as_a_matcher_distinguishes_are_compiled_and_one_more_is_not() {
    let filter = |host: u32| PacketFilter {
        protocol: Some(17),
        remote: AddrMatch::V4(
            Ipv4Prefix::containing(Ipv4Addr::from_bits((20 << 24) + host), 32).unwrap(),
        ),
        ..PacketFilter::ANY
    };
    for (count, is_compiled) in [(16, false), (17, true), (8192, true), (8193, false)] {
        let set: SdfSet = (0..count).map(filter).collect();
        assert_eq!(set.is_compiled(), is_compiled, "{count}");
        let flow = |host: u32| FlowSelector {
            src: UE_V4.into(),
            dst: Ipv4Addr::from_bits((20 << 24) + host).into(),
            protocol: 17,
            src_port: 1,
            dst_port: 1,
            tos: 0,
            spi: None,
            flow_label: 0,
        };
        assert!(set.matches(Direction::Uplink, &flow(count - 1)), "{count}");
        assert!(!set.matches(Direction::Uplink, &flow(count)), "{count}");
    }
}

#[test]
fn set_equals_a_list_of_the_same_filters_in_the_same_order() {
    let tcp = PacketFilter { protocol: Some(6), ..PacketFilter::ANY };
    let set: SdfSet = vec![tcp.clone(), PacketFilter::ANY].into();
    assert!(set == [tcp.clone(), PacketFilter::ANY]);
    assert!(set != [PacketFilter::ANY, tcp.clone()]);
    assert!(set != [tcp.clone()]);
    assert!(set == vec![tcp.clone(), PacketFilter::ANY]);
    assert!(set != vec![tcp]);
}

#[test]
fn filter_of_the_ue_alone_matches_all_its_packets() {
    let v4 = UeAddresses { v4: Some("10.45.0.2".parse().unwrap()), v6: None };
    let v6 = UeAddresses { v4: None, v6: Some("2001:db8::/64".parse().unwrap()) };
    let both = UeAddresses { v4: v4.v4, v6: v6.v6 };
    let any = UeAddresses::default();
    let local = |text: &str| match text.parse() {
        Ok(prefix) => PacketFilter { local: AddrMatch::V4(prefix), ..PacketFilter::ANY },
        Err(_) => {
            let prefix = text.parse().unwrap();
            PacketFilter { local: AddrMatch::V6(prefix), ..PacketFilter::ANY }
        }
    };
    let all = |filter: PacketFilter| {
        [v4, v6, both, any].map(|ue| {
            has_idle_filters(&PdrEntry { ue, sdf: vec![filter.clone()].into(), ..plain_pdr() })
        })
    };
    assert_eq!(all(PacketFilter::ANY), [true; 4]);
    assert_eq!(all(local("10.45.0.0/16")), [true, false, false, false]);
    assert_eq!(all(local("10.46.0.0/16")), [false; 4]);
    assert_eq!(all(local("2001:db8::/48")), [false, true, false, false]);
    assert_eq!(all(local("2001:db8::1/128")), [false; 4], "one address of many");
    let remote = AddrMatch::V4("0.0.0.0/0".parse().unwrap());
    let of_v4 = PacketFilter { remote, ..PacketFilter::ANY };
    assert_eq!(all(of_v4), [true, false, false, false]);
    let narrow = [
        PacketFilter { protocol: Some(6), ..PacketFilter::ANY },
        PacketFilter { tos: Some((0, 1)), ..PacketFilter::ANY },
        PacketFilter { spi: Some(0), ..PacketFilter::ANY },
        PacketFilter { flow_label: Some(0), ..PacketFilter::ANY },
        PacketFilter { local_ports: vec![PortRange { first: 1, last: 2 }], ..PacketFilter::ANY },
        PacketFilter { remote_ports: vec![PortRange { first: 1, last: 2 }], ..PacketFilter::ANY },
        PacketFilter { remote: AddrMatch::V4("1.1.1.0/24".parse().unwrap()), ..PacketFilter::ANY },
    ];
    assert!(narrow.into_iter().all(|filter| all(filter) == [false; 4]));
    assert_eq!(all(PacketFilter { tos: Some((7, 0)), ..PacketFilter::ANY }), [true; 4]);
}
