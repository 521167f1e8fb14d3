//! Finding the first PDR whose SDF filters match: compiled, and by the walk.
//!
//! Every PDR has one filter, a five-tuple of its own with an address of the data network. Packets
//! match one of them at random; half of them are IPv6 where half of the filters are.
#![allow(missing_docs, reason = "a benchmark")]

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::sdf::{AddrMatch, PortRange};
use adit_rules::{FlowKey, FlowSelector, Matcher, PacketFilter, PdrEntry, SourceInterface};
use adit_rules::{SdfSet, UeAddresses};
use adit_types::{Direction, InterfaceSet, Ipv4Prefix, Ipv6Prefix, PdrId, Precedence};
use criterion::{Criterion, criterion_group, criterion_main};

const UE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn host(number: u32, is_v6: bool) -> IpAddr {
    let number = number.wrapping_mul(40_503) % (80 << 24);
    match is_v6 {
        false => Ipv4Addr::from_bits((20 << 24) + number).into(),
        true => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number)).into(),
    }
}

fn pdr(number: u32, is_v6: bool) -> PdrEntry {
    let remote = match host(number, is_v6) {
        IpAddr::V4(addr) => Ipv4Prefix::containing(addr, 32).map(AddrMatch::V4),
        IpAddr::V6(addr) => Ipv6Prefix::containing(addr, 128).map(AddrMatch::V6),
    };
    let filter = PacketFilter {
        protocol: Some(17),
        remote: remote.unwrap_or(AddrMatch::Any),
        remote_ports: vec![PortRange { first: 5000, last: 5000 }],
        local_ports: vec![PortRange { first: 40_000, last: 40_009 }],
        ..PacketFilter::ANY
    };
    PdrEntry {
        id: PdrId(1),
        precedence: Precedence(number),
        source: SourceInterface::SgiLanN6Lan,
        interfaces: InterfaceSet::ALL,
        teid: None,
        qfis: Vec::new(),
        ue: UeAddresses { v4: None, v6: None },
        ue_networks: Vec::new(),
        sdf: SdfSet::from(vec![filter]),
        outer_header_removal: None,
        container_deletion: false,
        far: 0,
        qers: Default::default(),
        urrs: Default::default(),
    }
}

fn flow(number: u32, is_v6: bool) -> FlowSelector {
    let dst = if is_v6 { Ipv6Addr::LOCALHOST.into() } else { UE.into() };
    FlowSelector {
        src: host(number, is_v6),
        dst,
        protocol: 17,
        src_port: 5000,
        dst_port: 40_001,
        tos: 0,
        spi: None,
        flow_label: 0,
    }
}

fn matcher(criterion: &mut Criterion) {
    for count in [8_u32, 64, 512] {
        let is_v6 = |number: u32| number % 2 == 1;
        let pdrs: Vec<_> = (0..count).map(|number| pdr(number, is_v6(number))).collect();
        // Multiplication by an odd number visits all in another order.
        let order = (0..count).map(|number| number.wrapping_mul(37) % count);
        let flows: Vec<_> = order.map(|number| flow(number, is_v6(number))).collect();
        let Some(matcher) = Matcher::compile(Direction::Downlink, &pdrs) else { continue };
        let mut flow = flows.iter().cycle();
        criterion.bench_function(&format!("matcher/compiled/{count}"), |bench| {
            bench.iter(|| {
                let flow = black_box(flow.next());
                flow.and_then(|flow| matcher.view().first(&FlowKey::new(Direction::Downlink, flow)))
            });
        });
        let mut flow = flows.iter().cycle();
        criterion.bench_function(&format!("matcher/walk/{count}"), |bench| {
            bench.iter(|| {
                let flow = black_box(flow.next())?;
                pdrs.iter().position(|pdr| {
                    pdr.sdf.iter().any(|filter| filter.matches(Direction::Downlink, flow))
                })
            });
        });
        criterion.bench_function(&format!("matcher/compile/{count}"), |bench| {
            bench.iter(|| Matcher::compile(Direction::Downlink, black_box(&pdrs)));
        });
    }
}

criterion_group!(benches, matcher);
criterion_main!(benches);
