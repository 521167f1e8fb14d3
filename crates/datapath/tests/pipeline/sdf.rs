//! Service data flow filters on packets: traffic class, SPI, flow label, both directions.

use adit_rules::sdf::{AddrMatch, PortRange};
use adit_rules::{DropReason, PacketFilter, SessionRules};
use adit_testkit::packet::PacketBuilder;
use adit_types::{FarId, PortId};

use crate::fixture::*;

/// The rules of every scene with `filter` in both PDRs.
fn filtering(filter: PacketFilter) -> SessionRules {
    let mut rules = rules();
    rules.uplink[0].sdf = vec![filter.clone()].into();
    rules.downlink[0].sdf = vec![filter].into();
    rules
}

/// The packet passes uplink and, with its addresses the other way round, downlink; or neither does.
#[track_caller]
fn assert_matches(
    filter: &PacketFilter,
    inner: impl Fn(PacketBuilder, bool) -> Vec<u8>,
    passes: bool,
) {
    let mut scene = PipelineFixture::with(filtering(filter.clone()));
    let ways: [(PortId, PacketBuilder, bool, PortId); 2] =
        [(N3, tunneled(), true, N6), (N6, from_gateway(), false, N3)];
    for (from, outer, is_uplink, to) in ways {
        let frame = inner(outer, is_uplink);
        if passes {
            assert_eq!(scene.pass(from, &frame, to).len(), 1, "uplink {is_uplink}");
        } else {
            scene.assert_drops(from, &frame, DropReason::PdrUnmatched);
        }
    }
}

fn v4(outer: PacketBuilder, is_uplink: bool) -> PacketBuilder {
    if is_uplink { outer.ipv4(UE, SERVER) } else { outer.ipv4(SERVER, UE) }
}

fn v6(outer: PacketBuilder, is_uplink: bool) -> PacketBuilder {
    if is_uplink { outer.ipv6(UE_V6, SERVER_V6) } else { outer.ipv6(SERVER_V6, UE_V6) }
}

/// Spec: TS 29.244 §8.2.5 (TTC).
#[test]
fn traffic_class_is_compared_under_its_mask() {
    let filter = PacketFilter { tos: Some((0xb8, 0xfc)), ..PacketFilter::ANY };
    for (tos, passes) in [(0xb8, true), (0xbb, true), (0xb4, false), (0, false)] {
        assert_matches(&filter, |outer, up| v4(outer, up).tos(tos).udp(1, 2).build(), passes);
        assert_matches(&filter, |outer, up| v6(outer, up).tos(tos).udp(1, 2).build(), passes);
    }
    let any = PacketFilter { tos: Some((0xff, 0)), ..PacketFilter::ANY };
    assert_matches(&any, |outer, up| v4(outer, up).tos(1).udp(1, 2).build(), true);
}

/// Spec: TS 29.244 §8.2.5 (SPI); RFC 4303 §2.1; RFC 4302 §2.4.
#[test]
fn security_parameter_index_is_found_in_esp_and_ah_of_both_families() {
    const ESP: [u8; 12] = [0, 0, 0x12, 0x34, 0, 0, 0, 1, 9, 9, 9, 9];
    const AH: [u8; 16] = [59, 2, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 1, 9, 9, 9, 9];
    let filter = PacketFilter { spi: Some(0x1234), ..PacketFilter::ANY };
    let other = PacketFilter { spi: Some(0x1235), ..PacketFilter::ANY };
    for (protocol, payload) in [(50, &ESP[..]), (51, &AH[..])] {
        let v4 = |outer, up| v4(outer, up).protocol(protocol).payload(payload).build();
        let v6 = |outer, up| v6(outer, up).protocol(protocol).payload(payload).build();
        assert_matches(&filter, v4, true);
        assert_matches(&filter, v6, true);
        assert_matches(&other, v4, false);
        assert_matches(&other, v6, false);
    }
    let udp = |outer, up| v4(outer, up).udp(0, 0x1234).build();
    assert_matches(&filter, udp, false);
    let short = |outer, up| v4(outer, up).protocol(50).payload(&[0, 0, 0x12]).build();
    assert_matches(&filter, short, false);
}

/// Spec: TS 29.244 §8.2.5 (FL).
#[test]
fn flow_label_is_compared_in_ipv6_only() {
    let labeled = |label| PacketFilter { flow_label: Some(label), ..PacketFilter::ANY };
    let frame = |outer, up| v6(outer, up).flow_label(0x12345).udp(1, 2).build();
    assert_matches(&labeled(0x12345), frame, true);
    assert_matches(&labeled(0x12344), frame, false);
    assert_matches(&labeled(0), |outer, up| v6(outer, up).udp(1, 2).build(), true);
    assert_matches(&labeled(0), |outer, up| v4(outer, up).udp(1, 2).build(), false);
}

/// A flow description speaks of downlink: its source is the destination of uplink packets.
/// Spec: TS 29.244 §8.2.5 (BID); TS 29.212 §5.4.2.
#[test]
fn sides_of_a_filter_change_places_with_the_direction() {
    let range = |first, last| vec![PortRange { first, last }];
    let filter = PacketFilter {
        protocol: Some(17),
        remote: AddrMatch::V4("8.8.8.0/24".parse().unwrap()),
        remote_ports: [range(50, 53), range(80, 80)].concat(),
        local: AddrMatch::V4("10.45.0.0/24".parse().unwrap()),
        local_ports: range(4000, 4001),
        ..PacketFilter::ANY
    };
    let flow = |far: u16, ue: u16| {
        move |outer: PacketBuilder, is_uplink: bool| {
            let ip = v4(outer, is_uplink);
            if is_uplink { ip.udp(ue, far).build() } else { ip.udp(far, ue).build() }
        }
    };
    for (far, ue, passes) in
        [(53, 4000, true), (50, 4001, true), (80, 4000, true), (54, 4000, false), (53, 3999, false)]
    {
        assert_matches(&filter, flow(far, ue), passes);
    }
    let swapped = |outer, is_uplink| v4(outer, is_uplink).udp(4000, 53).build();
    let mut scene = PipelineFixture::with(filtering(filter));
    assert_eq!(scene.pass(N3, &swapped(tunneled(), true), N6).len(), 1);
    scene.assert_drops(N6, &swapped(from_gateway(), false), DropReason::PdrUnmatched);
}

#[test]
fn all_parts_of_a_filter_must_match_at_once() {
    let filter = PacketFilter {
        protocol: Some(17),
        tos: Some((0x20, 0x20)),
        flow_label: Some(7),
        ..PacketFilter::ANY
    };
    let frame =
        |tos, label| move |outer, up| v6(outer, up).tos(tos).flow_label(label).udp(1, 2).build();
    assert_matches(&filter, frame(0x20, 7), true);
    assert_matches(&filter, frame(0, 7), false);
    assert_matches(&filter, frame(0x20, 8), false);
    let tcp = |outer, up| v6(outer, up).tos(0x20).flow_label(7).tcp(1, 2, 2).build();
    assert_matches(&filter, tcp, false);
}

/// A downlink packet of either family from `port` of the server.
fn from_port(port: u16, is_v6: bool) -> Vec<u8> {
    let outer = from_gateway();
    let inner = if is_v6 { v6(outer, false) } else { v4(outer, false) };
    inner.udp(port, 4000).payload(&[0x5a; 20]).build()
}

#[test]
fn usual_packets_take_the_fast_rule_of_the_pdr_that_their_filters_select() {
    const DNS_TEID: u32 = 0x5d5;
    let mut rules = rules();
    let mut far = rules.fars[1].clone();
    far.id = FarId(9);
    far.outer_header_creation = Some(tunnel(DNS_TEID, GNB));
    let mut dns = rules.downlink[0].clone();
    dns.far = u16::try_from(rules.fars.len()).unwrap();
    rules.fars.push(far);
    let remote_ports = vec![PortRange { first: 53, last: 53 }];
    dns.sdf = vec![PacketFilter { protocol: Some(17), remote_ports, ..PacketFilter::ANY }].into();
    rules.downlink.insert(0, dns);
    let mut scene = PipelineFixture::usual(rules.clone());
    let teid = |frame: &[u8]| u32::from_be_bytes(frame[46..50].try_into().unwrap());
    for (port, is_v6) in [(80, false), (53, true), (53, false), (80, true), (5353, false)] {
        scene.io.inject(N6, &from_port(port, is_v6));
    }
    scene.step();
    let teids: Vec<_> = scene.sent(N3).iter().map(|frame| teid(frame)).collect();
    assert_eq!(teids, [GNB_TEID, DNS_TEID, DNS_TEID, GNB_TEID, GNB_TEID]);
    assert_eq!(scene.counts().express_pkts, 5);
    // A filter that only the packet itself can answer leaves the packet to the stages.
    let label = PacketFilter { flow_label: Some(0), ..PacketFilter::ANY };
    rules.downlink[0].sdf = vec![label].into();
    scene.install(rules);
    assert_eq!(teid(&scene.pass(N6, &from_port(80, true), N3)[0]), DNS_TEID);
    assert_eq!(scene.counts().express_pkts, 5);
    assert_eq!(teid(&scene.pass(N6, &from_port(80, false), N3)[0]), GNB_TEID);
    assert_eq!(scene.counts().express_pkts, 6, "no IPv4 packet can have a flow label");
}
