//! Paths to GTP-U peers that are narrower than their links: which reports are believed, and what
//! they limit. Spec: RFC 1191 §3; RFC 8201 §4; RFC 4443 §3.2.

use adit_rules::{DropReason, PuntReason, SessionRules, TapFilter, TapKey, WorkerEvent};
use adit_testkit::packet::PacketBuilder;
use adit_types::Teid;
use adit_wire::{icmp, icmpv6};

use crate::fixture::*;

const ROUTER: &str = "192.168.10.9";
const ROUTER_V6: &str = "2001:db8:10::9";

/// Octets of the outer headers with a PDU Session Container.
const OUTER: usize = 20 + 8 + 16;
const OUTER_V6: usize = OUTER + 20;

fn over_v6() -> SessionRules {
    let mut rules = rules();
    rules.fars[1].outer_header_creation = Some(tunnel(GNB_TEID, GNB_V6));
    rules
}

/// A frame of the gateway with a packet to the UE of `len` octets.
fn packet_of(len: usize) -> PacketBuilder {
    from_gateway().ipv4(SERVER, UE).dont_fragment().udp(1, 2).payload(&vec![1; len - 28])
}

/// The IP packet into the tunnel for a packet of `len` octets, as it leaves.
fn sent_into_tunnel(scene: &mut PipelineFixture, len: usize) -> Vec<u8> {
    let sent = scene.pass(N6, &packet_of(len).build(), N3);
    assert_eq!(sent.len(), 1);
    sent[0][14..].to_vec()
}

fn told_v4(mtu: u16, quote: &[u8]) -> Vec<u8> {
    let mut message = [0; 600];
    let len = icmp::emit_fragmentation_needed(&mut message, mtu, quote).unwrap();
    let packet = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(ROUTER, N3_ADDR).protocol(1);
    packet.payload(&message[..len]).build()
}

fn told_v6(mtu: u32, quote: &[u8]) -> Vec<u8> {
    let (src, dst) = (ROUTER_V6.parse().unwrap(), N3_V6.parse().unwrap());
    let mut message = [0; 1300];
    let pseudo = icmpv6::PseudoHeader { src, dst };
    let len = icmpv6::emit_packet_too_big(&mut message, &pseudo, mtu, quote).unwrap();
    let packet = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv6(ROUTER_V6, N3_V6).protocol(58);
    packet.payload(&message[..len]).build()
}

fn events_of(scene: &mut PipelineFixture, frame: &[u8]) -> Vec<WorkerEvent> {
    scene.io.inject(N3, frame);
    scene.step();
    scene.take_events()
}

fn narrowed(peer: &str, router: &str, mtu_bytes: u16) -> WorkerEvent {
    let (peer, router) = (ip(peer), ip(router));
    WorkerEvent::PathNarrowed { peer, teid: Teid(GNB_TEID), router, mtu_bytes }
}

#[test]
fn router_that_quotes_a_packet_of_ours_is_reported_with_its_mtu() {
    let mut scene = PipelineFixture::new();
    let packet = sent_into_tunnel(&mut scene, 1500 - OUTER);
    // The next plateau below its length, from a router that says none; and no less than hosts
    // believe.
    for (said, reported) in [(1400, 1400), (0, 1492), (68, 552)] {
        let events = events_of(&mut scene, &told_v4(said, &packet));
        assert_eq!(events, [narrowed(GNB, ROUTER, reported)], "{said}");
    }
    // A quote of a router that changed the fields that routers change, up to the TEID.
    let mut quote = packet[..20 + 16].to_vec();
    (quote[1], quote[8], quote[10]) = (0x03, 1, 0x55);
    assert_eq!(events_of(&mut scene, &told_v4(1300, &quote)), [narrowed(GNB, ROUTER, 1300)]);
    assert_eq!(scene.punted(PuntReason::PathMtu), 4);
}

#[test]
fn message_about_a_packet_that_was_not_sent_is_dropped() {
    let mut scene = PipelineFixture::new();
    let packet = sent_into_tunnel(&mut scene, 1500 - OUTER);
    let with = |at: usize, octets: &[u8]| {
        let mut other = packet.clone();
        other[at..at + octets.len()].copy_from_slice(octets);
        other
    };
    for (what, said, quote) in [
        ("without the TEID", 1400, packet[..20 + 8 + 7].to_vec()),
        ("from another host", 1400, with(12, &[192, 168, 10, 7])),
        ("from our address on N6", 1400, with(12, &[10, 6, 0, 1])),
        ("to a host that no session sends to", 1400, with(16, &[192, 168, 10, 77])),
        ("a fragment", 1400, with(6, &[0x20, 0])),
        ("from another port", 1400, with(20, &[1, 2])),
        ("an Echo Request", 1400, with(29, &[1])),
        ("longer than the link", 1400, with(2, &1501_u16.to_be_bytes())),
        ("as long as the MTU", 1500, packet.clone()),
        ("shorter than the least MTU", 100, with(2, &552_u16.to_be_bytes())),
        ("of IPv6", 1400, with(0, &[0x60])),
        ("nothing", 1400, Vec::new()),
    ] {
        scene.assert_drops(N3, &told_v4(said, &quote), DropReason::IcmpQuoteUnknown);
        assert_eq!(scene.take_events(), [], "{what}");
    }
    let mut damaged = told_v4(1400, &packet);
    *damaged.last_mut().unwrap() ^= 1;
    scene.assert_drops(N3, &damaged, DropReason::IcmpUnhandled);
}

#[test]
fn messages_about_tunnels_over_ipv6_are_distinguished_by_the_least_mtu() {
    let mut scene = PipelineFixture::with(over_v6());
    scene.resolve(IF_N3, GNB_V6, GNB_MAC);
    let packet = sent_into_tunnel(&mut scene, 1500 - OUTER_V6);
    assert_eq!(events_of(&mut scene, &told_v6(1280, &packet)), [narrowed(GNB_V6, ROUTER_V6, 1280)]);
    for said in [1279, 0, 1500, 1 << 16 | 1400] {
        scene.assert_drops(N3, &told_v6(said, &packet), DropReason::IcmpQuoteUnknown);
    }
    let mut damaged = told_v6(1400, &packet);
    *damaged.last_mut().unwrap() ^= 1;
    scene.assert_drops(N3, &damaged, DropReason::IcmpUnhandled);
}

#[test]
fn reports_of_one_peer_are_limited() {
    let mut scene = PipelineFixture::new();
    let packet = sent_into_tunnel(&mut scene, 1500 - OUTER);
    let events: usize =
        (0..200).map(|_| events_of(&mut scene, &told_v4(1400, &packet)).len()).sum();
    assert!((1..200).contains(&events), "{events}");
    assert_eq!(scene.punted(PuntReason::PathMtu), 200);
}

/// A packet that fits a narrow path leaves by the fast path; a longer packet is refused with the
/// size that fits, or cut.
#[test]
fn narrow_path_limits_packets_to_its_peer_until_it_is_wide_again() {
    for (rules, peer, outer) in [(rules(), GNB, OUTER), (over_v6(), GNB_V6, OUTER_V6)] {
        let mut scene = PipelineFixture::usual(rules);
        scene.resolve(IF_N3, peer, GNB_MAC);
        scene.publisher.set_path_mtu(ip(peer), 1400);
        let fits = 1400 - outer;
        assert_eq!(sent_into_tunnel(&mut scene, fits).len(), 1400);
        assert_eq!(scene.counts().express_pkts, 1);
        scene.assert_drops(N6, &packet_of(fits + 1).build(), DropReason::PacketTooBig);
        let error = scene.sent(N6).remove(0);
        let (header, _) = icmp::IcmpHeader::parse(&error[14 + 20..]).unwrap();
        assert_eq!(usize::from(header.next_hop_mtu()), fits);
        let may_be_cut = from_gateway().ipv4(SERVER, UE).udp(1, 2).payload(&[1; 1440 - 28]);
        let pieces = scene.pass(N6, &may_be_cut.build(), N3);
        assert_eq!(pieces.len(), 2);
        assert!(pieces.iter().all(|frame| frame.len() <= 14 + 1400), "{peer}");
        scene.publisher.set_path_mtu(ip(peer), u16::MAX);
        assert_eq!(sent_into_tunnel(&mut scene, 1500 - outer).len(), 1500);
        assert_eq!(scene.counts().express_pkts, 2, "by the fast path again");
    }
}

#[test]
fn narrow_path_of_one_peer_limits_no_other() {
    const OTHER: &str = "192.168.10.3";
    let mut scene = PipelineFixture::usual(rules());
    let mut rules = rules();
    rules.fars[1].outer_header_creation = Some(tunnel(GNB_TEID, OTHER));
    // The previous peer is one as long as a FAR of its own sends to it.
    let mut unused = rules.fars[1].clone();
    (unused.id, unused.outer_header_creation) = (adit_types::FarId(3), Some(tunnel(GNB_TEID, GNB)));
    rules.fars.push(unused);
    scene.install(rules);
    scene.resolve(IF_N3, OTHER, GNB_MAC);
    scene.publisher.set_path_mtu(ip(GNB), 1300);
    assert_eq!(sent_into_tunnel(&mut scene, 1500 - OUTER).len(), 1500);
    assert_eq!(scene.counts().express_pkts, 0, "longer ones take the stages, which know the peer");
    assert_eq!(sent_into_tunnel(&mut scene, 1300 - OUTER).len(), 1300);
    assert_eq!(scene.counts().express_pkts, 1);
}

/// Outer headers that routers may fragment: the same from both paths, and of different packets with
/// other identifications.
#[test]
fn outer_headers_without_df_have_identifications_from_stages_and_fast_path_alike() {
    // This test has a tap of its own.
    if taps_drops() {
        return;
    }
    let scene = |mut tables: adit_tables::TablesConfig, rules| {
        tables.interfaces.iter_mut().for_each(|of| of.outer_df = false);
        PipelineFixture::usual_with(tables, rules)
    };
    let mut usual = scene(usual_config(), rules());
    // Packets of a tap take the stages.
    let mut stages = scene(usual_config(), rules());
    let filter = TapFilter { key: TapKey::Any, drop: None, one_of: 1 };
    stages.commands.push(tap(filter)).unwrap();
    let mut identifications = std::collections::BTreeSet::new();
    for number in 0..100_u8 {
        let packet =
            from_gateway().ipv4(SERVER, UE).dont_fragment().udp(1, 2).payload(&[number; 9]);
        let [fast, slow] =
            [&mut usual, &mut stages].map(|scene| scene.pass(N6, &packet.build(), N3).remove(0));
        assert_eq!(fast, slow, "{number}");
        let ip = adit_wire::parse_ip(&fast[14..], true).unwrap();
        assert!(!ip.dont_fragment, "{number}");
        let identification = u16::from_be_bytes([fast[18], fast[19]]);
        assert_ne!(identification, 0);
        identifications.insert(identification);
    }
    assert_eq!((usual.counts().express_pkts, stages.counts().express_pkts), (100, 0));
    assert!(identifications.len() > 90, "{}", identifications.len());
}
