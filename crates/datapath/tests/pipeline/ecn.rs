//! Congestion marks through tunnels, and DSCP. Spec: RFC 6040.

use adit_rules::{DropReason, HeaderRemoval, OuterTos, SessionRules};
use adit_testkit::packet::PacketBuilder;
use adit_wire::ecn::{CE, ECT_0, ECT_1, NOT_ECT};

use crate::fixture::*;

/// An uplink frame whose outer header has the field `outer`, over either family.
fn tunneled_with(outer: u8, is_v6: bool) -> PacketBuilder {
    let link = PacketBuilder::ethernet(N3_MAC, GNB_MAC);
    let builder = if is_v6 { link.ipv6(GNB_V6, N3_V6) } else { link.ipv4(GNB, N3_ADDR) };
    builder.tos(0x28 | outer).gtpu(TEID).psc_ul(9)
}

/// A packet of the UE behind `front`.
fn from_ue(front: PacketBuilder, tos: u8, ttl: u8, is_v6: bool) -> Vec<u8> {
    let ip = if is_v6 { front.ipv6(UE_V6, SERVER_V6) } else { front.ipv4(UE, SERVER) };
    ip.tos(tos).ttl(ttl).udp(4000, 53).payload(b"question").build()
}

#[test]
fn mark_of_a_removed_outer_header_reaches_the_packet_of_either_family() {
    for (inner, outer, marked) in [
        (ECT_0, CE, CE),
        (ECT_1, CE, CE),
        (ECT_0, ECT_1, ECT_1),
        (ECT_1, ECT_0, ECT_1),
        (CE, NOT_ECT, CE),
        (NOT_ECT, ECT_1, NOT_ECT),
        (ECT_0, NOT_ECT, ECT_0),
    ] {
        for (is_outer_v6, is_v6) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut scene = PipelineFixture::with(rules());
            let frame = from_ue(tunneled_with(outer, is_outer_v6), 0xb8 | inner, 64, is_v6);
            let sent = scene.pass(N3, &frame, N6);
            let link = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC);
            let expected = from_ue(link, 0xb8 | marked, 63, is_v6);
            assert_eq!(sent, [expected], "{outer:#b} around {inner:#b}");
            let is_fast = scene.counts().express_pkts == 1;
            assert_eq!(is_fast, outer == ECT_0 || outer == NOT_ECT, "marks take the stages");
        }
    }
}

#[test]
fn packet_that_cannot_have_the_mark_is_dropped_and_its_session_counts_nothing() {
    for is_v6 in [false, true] {
        let mut scene = PipelineFixture::with(rules());
        let frame = from_ue(tunneled_with(CE, is_v6), 0xb8 | NOT_ECT, 64, is_v6);
        scene.assert_drops(N3, &frame, DropReason::InnerNotEct);
        assert_eq!(scene.publisher.session_traffic(SESSION).ul_pkts, 0);
        let other = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).tos(CE);
        let unknown = from_ue(other.gtpu(0x0bad), NOT_ECT, 64, false);
        scene.assert_drops(N3, &unknown, DropReason::TeidUnknown);
    }
}

#[test]
fn mark_of_a_removed_udp_header_reaches_the_packet() {
    let mut rules = rules();
    rules.downlink[0].outer_header_removal = Some(HeaderRemoval::UdpIpv4);
    let frame = |inner| {
        let outer = from_gateway().ipv4(SERVER, UE).tos(CE).udp(5000, 5000);
        outer.ipv4(SERVER, UE).tos(inner).udp(53, 4000).build()
    };
    let mut scene = PipelineFixture::with(rules);
    let sent = scene.pass(N6, &frame(ECT_0), N3);
    let inner = PacketBuilder::new().ipv4(SERVER, UE).tos(CE).ttl(63).udp(53, 4000).build();
    assert!(sent[0].ends_with(&inner));
    scene.assert_drops(N6, &frame(NOT_ECT), DropReason::InnerNotEct);
}

/// The usual rules, whose outer headers have this octet towards a gNB of either family.
fn rules_with(outer: OuterTos, is_gnb_v6: bool) -> SessionRules {
    let mut rules = rules();
    rules.fars[1].outer_tos = outer;
    rules.fars[1].outer_header_creation =
        Some(tunnel(GNB_TEID, if is_gnb_v6 { GNB_V6 } else { GNB }));
    rules
}

#[test]
fn outer_header_copies_configured_fields_on_the_fast_path_and_off_it() {
    let copying = OuterTos::copying;
    for (outer, expected) in [
        (OuterTos::default(), 0),
        (copying(false, true), CE),
        (copying(true, false), 0xb8),
        (copying(true, true), 0xb8 | CE),
        (copying(true, true).with_dscp(0x2b), 0x28 | CE),
    ] {
        for (is_gnb_v6, is_v6) in [(false, false), (false, true), (true, false), (true, true)] {
            let rules = rules_with(outer, is_gnb_v6);
            let mut fast = PipelineFixture::usual(rules.clone());
            let mut stages = PipelineFixture::with(rules);
            fast.resolve(IF_N3, GNB_V6, GNB_MAC);
            let frame = |front: PacketBuilder, ttl| {
                let ip = if is_v6 { front.ipv6(SERVER_V6, UE_V6) } else { front.ipv4(SERVER, UE) };
                ip.tos(0xb8 | CE).ttl(ttl).udp(53, 4000).payload(b"answer").build()
            };
            let front = |link: PacketBuilder| match is_gnb_v6 {
                true => link.ipv6(N3_V6, GNB_V6),
                false => link.ipv4(N3_ADDR, GNB).dont_fragment(),
            };
            let tunnel = front(PacketBuilder::ethernet(GNB_MAC, N3_MAC)).tos(expected);
            let tunnel = match is_gnb_v6 {
                true => tunnel.udp(2152, 2152).gtpu(GNB_TEID),
                false => tunnel.gtpu(GNB_TEID),
            };
            let wanted = frame(tunnel.psc_dl(9, false), 63);
            assert_eq!(
                fast.pass(N6, &frame(from_gateway(), 64), N3),
                std::slice::from_ref(&wanted),
                "{outer:?}"
            );
            assert_eq!(fast.counts().express_pkts, 1);
            stages
                .io
                .inject(N6, &from_gateway().ipv4(SERVER, UE).options(&[1; 4]).udp(1, 2).build());
            let sent = stages.pass(N6, &frame(from_gateway(), 64), N3);
            assert_eq!((sent.len(), &sent[1]), (2, &wanted), "{outer:?}");
        }
    }
}

#[test]
fn mark_crosses_an_intermediate_upf_if_it_copies_the_field() {
    for (copies, outer) in [(false, NOT_ECT), (true, CE)] {
        let mut rules = rules();
        rules.fars[0].outer_header_creation = Some(tunnel(0x77, "192.168.10.9"));
        rules.fars[0].outer_tos = OuterTos::copying(false, copies);
        let mut scene = PipelineFixture::with(rules);
        scene.resolve(IF_N3, "192.168.10.9", GNB_MAC);
        let sent = scene.pass(N3, &from_ue(tunneled_with(CE, false), ECT_0, 64, false), N3);
        assert_eq!((sent[0][15], sent[0][14 + 36 + 8 + 1]), (outer, CE));
    }
}
