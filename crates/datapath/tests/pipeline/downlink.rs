//! From data networks to tunnels.

use adit_pktio::PacketBuf;
use adit_pktio::mem::{HEADROOM_BYTES, MemBuf};
use adit_rules::{ApplyAction, DropReason, Gate, HeaderRemoval, OuterTos};
use adit_testkit::packet::PacketBuilder;
use adit_types::{MacAddr, Qfi};

use crate::fixture::*;
use crate::local_switching::OTHER_UE;

#[test]
fn downlink_ipv4_is_encapsulated_into_known_octets() {
    let mut scene = PipelineFixture::new();
    let sent = scene.pass(N6, &from_gateway().ipv4(SERVER, UE).udp(53, 4000).build(), N3);
    #[rustfmt::skip]
    let expected = vec![
        // Ethernet
        2, 0, 0, 0, 0, 0xb0, 2, 0, 0, 0, 0, 0xa0, 8, 0,
        // IPv4: 72 octets, identification 0, don't fragment, TTL 64, UDP
        0x45, 0, 0, 72, 0, 0, 0x40, 0, 64, 17, 0xa5, 0x51, 192, 168, 10, 1, 192, 168, 10, 2,
        // UDP from and to 2152, 52 octets, no checksum
        8, 0x68, 8, 0x68, 0, 52, 0, 0,
        // GTP-U: version 1, extension header; G-PDU of 36 octets
        0x34, 255, 0, 36, 0, 0, 0xab, 0xcd, 0, 0, 0, 0x85,
        // PDU Session Container: downlink, QFI 9
        1, 0, 9, 0,
        // The inner packet, TTL 63
        0x45, 0, 0, 28, 0, 0, 0, 0, 63, 17, 0x61, 0x93, 8, 8, 8, 8, 10, 45, 0, 2,
        0, 53, 15, 160, 0, 8, 0xd5, 0xca,
    ];
    assert_eq!(sent, [expected]);
    let traffic = scene.publisher.session_traffic(SESSION);
    assert_eq!((traffic.dl_pkts, traffic.dl_bytes, traffic.ul_pkts), (1, 28, 0));
}

#[test]
fn downlink_marks_qfi_rqi_and_traffic_class() {
    let mut rules = rules();
    rules.qers[0].rqi = true;
    rules.fars[1].outer_tos = OuterTos::default().with_dscp(0xb8);
    let mut scene = PipelineFixture::with(rules);
    let sent = scene.pass(N6, &downlink().build(), N3);
    let expected = PacketBuilder::ethernet(GNB_MAC, N3_MAC)
        .ipv4(N3_ADDR, GNB)
        .tos(0xb8)
        .dont_fragment()
        .gtpu(GNB_TEID)
        .psc_dl(9, true)
        .ipv4(SERVER, UE)
        .ttl(63)
        .udp(53, 4000)
        .payload(b"answer")
        .build();
    assert_eq!(sent, [expected]);
}

#[test]
fn downlink_without_qfi_has_no_container() {
    let mut rules = rules();
    rules.qers[0].qfi = None;
    let mut scene = PipelineFixture::with(rules);
    let sent = scene.pass(N6, &downlink().build(), N3);
    let expected = PacketBuilder::ethernet(GNB_MAC, N3_MAC)
        .ipv4(N3_ADDR, GNB)
        .dont_fragment()
        .gtpu(GNB_TEID)
        .ipv4(SERVER, UE)
        .ttl(63)
        .udp(53, 4000)
        .payload(b"answer")
        .build();
    assert_eq!(sent, [expected]);
}

#[test]
fn downlink_ipv6_over_ipv6_tunnel_has_a_right_udp_checksum() {
    let mut rules = rules();
    rules.fars[1].outer_header_creation = Some(tunnel(GNB_TEID, GNB_V6));
    let mut scene = PipelineFixture::with(rules);
    let frame = from_gateway().ipv6(SERVER_V6, UE_V6).udp(53, 4000).payload(b"odd").build();
    let sent = scene.pass(N6, &frame, N3);
    assert_eq!(sent.len(), 1);
    let datagram = &sent[0][14 + 40..];
    let (src, dst) = (N3_V6.parse().unwrap(), GNB_V6.parse().unwrap());
    assert_eq!(adit_wire::udp::verify_ipv6(src, dst, datagram), Ok(()));
    let inner = PacketBuilder::new().ipv6(SERVER_V6, UE_V6).ttl(63).udp(53, 4000).payload(b"odd");
    assert_eq!(datagram[24..], inner.build());
}

#[test]
fn fast_path_into_a_tunnel_over_ipv6_sends_the_octets_of_the_stages() {
    let frames = |number: u16| {
        let payload = vec![0xa5; usize::from(number)];
        let v4 = from_gateway().ipv4(SERVER, UE).tos(0x29).udp(number, 4000).payload(&payload);
        let v6 =
            from_gateway().ipv6(SERVER_V6, UE_V6).tos(0x2a).udp(number, 4000).payload(&payload);
        [v4.build(), v6.build()]
    };
    let unusual = from_gateway().ipv4(SERVER, UE).options(&[1, 1, 1, 1]).udp(1, 2).build();
    let none = OuterTos::default();
    for (qfi, rqi, tos) in [
        (None, false, none),
        (Qfi::new(9), false, none.with_dscp(0xb8)),
        (Qfi::new(63), true, OuterTos::copying(true, true)),
    ] {
        let mut rules = rules();
        (rules.qers[0].qfi, rules.qers[0].rqi) = (qfi, rqi);
        rules.fars[1].outer_header_creation = Some(tunnel(GNB_TEID, GNB_V6));
        rules.fars[1].outer_tos = tos;
        for families in [&[0][..], &[1], &[0, 1]] {
            let run = |is_fast: bool| {
                let mut scene = PipelineFixture::usual(rules.clone()).with_other_ue();
                let mut count = 0;
                scene.resolve(IF_N3, GNB_V6, GNB_MAC);
                if !is_fast {
                    // Later packets of the session follow it.
                    scene.io.inject(N6, &unusual);
                }
                // The other UE's tunnel is over IPv4.
                scene.io.inject(N6, &from_gateway().ipv4(SERVER, OTHER_UE).udp(9, 9).build());
                for number in [0, 1, 2, 3, 64, 1000] {
                    for family in families {
                        scene.io.inject(N6, &frames(number)[*family]);
                        count += 1;
                    }
                }
                scene.step();
                let sent = scene.sent(N3);
                let is_to_gnb = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd];
                let to_gnb: Vec<_> = sent.iter().filter(is_to_gnb).cloned().collect();
                let own = usize::from(!is_fast);
                assert_eq!((sent.len(), to_gnb.len()), (count + 1 + own, count + own));
                let express = if is_fast { count + 1 } else { 1 };
                assert_eq!(scene.counts().express_pkts, express as u64, "{families:?}");
                // The order of families is not compared.
                let mut to_gnb = to_gnb[own..].to_vec();
                to_gnb.sort();
                to_gnb
            };
            assert!(run(true) == run(false), "{qfi:?} {families:?}");
        }
    }
}

#[test]
fn fast_path_follows_a_tunnel_from_ipv4_to_ipv6_and_back() {
    let mut scene = PipelineFixture::usual(rules());
    scene.resolve(IF_N3, GNB_V6, GNB_MAC);
    let expected = |is_v6: bool| if is_v6 { [0x86, 0xdd] } else { [8, 0] };
    for is_v6 in [true, false, true] {
        let mut moved = rules();
        let peer = if is_v6 { GNB_V6 } else { GNB };
        moved.fars[1].outer_header_creation = Some(tunnel(GNB_TEID, peer));
        scene.install(moved);
        scene.step();
        let before = scene.counts().express_pkts;
        let sent = scene.pass(N6, &downlink().build(), N3);
        assert_eq!(sent[0][12..14], expected(is_v6));
        assert_eq!(scene.counts().express_pkts, before + 1);
    }
}

#[test]
fn downlink_padding_is_cut_off() {
    let mut scene = PipelineFixture::new();
    let bare = scene.pass(N6, &downlink().build(), N3);
    let padded = scene.pass(N6, &downlink().trailer(&[0xee; 12]).build(), N3);
    assert_eq!(bare, padded);
}

#[test]
fn downlink_of_a_tagged_interface_is_forwarded() {
    let mut scene = PipelineFixture::new();
    let tagged = PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC).vlan(100).ipv4(SERVER, UE);
    assert_eq!(scene.pass(N6, &tagged.udp(1, 2).build(), N3).len(), 1);
    assert_eq!(scene.counts().interfaces[2].rx_pkts, 1);
}

#[test]
fn downlink_fragments_are_forwarded() {
    let mut scene = PipelineFixture::new();
    let fragment = from_gateway().ipv4(SERVER, UE).fragment(1, 10, true).payload(&[0; 16]);
    assert_eq!(scene.pass(N6, &fragment.build(), N3).len(), 1);
}

#[test]
fn downlink_to_an_unknown_ue_is_dropped() {
    let mut scene = PipelineFixture::new();
    let v4 = from_gateway().ipv4(SERVER, "10.45.0.3").udp(1, 2).build();
    scene.assert_drops(N6, &v4, DropReason::UeUnknown);
    let v6 = from_gateway().ipv6(SERVER_V6, "2001:db8:46::1").udp(1, 2).build();
    scene.assert_drops(N6, &v6, DropReason::UeUnknown);
}

#[test]
fn downlink_gate_far_and_removal_drop_by_name() {
    let frame = downlink().build();
    let mut closed = rules();
    closed.qers[0].gate_downlink = Gate::Closed;
    PipelineFixture::with(closed).assert_drops(N6, &frame, DropReason::GateClosed);
    let cases = [
        (ApplyAction::DROP, DropReason::FarDrop),
        (ApplyAction::FORW | ApplyAction::DROP, DropReason::TunnelUnknown),
    ];
    for (action, reason) in cases {
        let mut rules = rules();
        rules.fars[1].action = action;
        PipelineFixture::with(rules).assert_drops(N6, &frame, reason);
    }
    let mut removal = rules();
    removal.downlink[0].outer_header_removal = Some(HeaderRemoval::GtpuUdpIp);
    PipelineFixture::with(removal).assert_drops(N6, &frame, DropReason::OuterHeaderMismatch);
    let mut nowhere = rules();
    nowhere.fars[1].outer_header_creation = Some(tunnel(1, "203.0.113.1"));
    PipelineFixture::with(nowhere).assert_drops(N6, &frame, DropReason::RouteUnknown);
}

#[test]
fn downlink_without_headroom_is_dropped() {
    for mut scene in [PipelineFixture::new(), PipelineFixture::usual(rules())] {
        let frame = downlink().build();
        let mut buf = MemBuf::new();
        assert!(buf.prepend(HEADROOM_BYTES).is_some());
        assert!(buf.truncate(frame.len()));
        buf.data_mut().copy_from_slice(&frame);
        scene.io.ports[1].rx.push_back(buf);
        scene.step();
        assert_eq!(scene.dropped(DropReason::HeadroomShort), 1);
    }
}

#[test]
fn frames_that_the_port_does_not_take_are_dropped() {
    let mut scene = PipelineFixture::new();
    scene.io.ports[0].tx_room = 3;
    for _ in 0..10 {
        scene.io.inject(N6, &downlink().build());
    }
    scene.step();
    assert_eq!(scene.sent(N3).len(), 3);
    assert_eq!(scene.dropped(DropReason::TxQueueFull), 7);
    assert_eq!(scene.counts().transmitted_downlink_pkts, 3);
}

#[test]
fn mixed_burst_keeps_the_order_of_each_direction() {
    let mut scene = PipelineFixture::new();
    for number in 0..20u16 {
        let shared = PacketBuilder::ethernet(MIXED_MAC, MacAddr([2; 6]));
        let up = shared.clone().ipv4(GNB, "192.168.40.1").gtpu(TEID).ipv4(UE, SERVER);
        scene.io.inject(MIXED, &up.udp(number, 1).build());
        scene.io.inject(MIXED, &shared.ipv4(SERVER, UE).udp(number, 1).build());
    }
    scene.step();
    scene.step();
    let port_at = |at: usize| move |frame: Vec<u8>| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let up: Vec<u16> = scene.sent(N6).into_iter().map(port_at(34)).collect();
    let down: Vec<u16> = scene.sent(N3).into_iter().map(port_at(14 + 20 + 8 + 16 + 20)).collect();
    assert_eq!(up, (0..20).collect::<Vec<_>>());
    assert_eq!(down, up);
}

#[test]
fn unusual_packets_among_usual_ones_keep_their_octets_and_their_places() {
    let mut scene = PipelineFixture::usual(rules());
    let packet = |link: PacketBuilder, number: u16| {
        let ip = link.ipv4(SERVER, UE);
        let ip = if number.is_multiple_of(2) { ip } else { ip.options(&[1, 1, 1, 1]) };
        ip.udp(number, 4000).payload(b"answer")
    };
    for number in 0..6 {
        scene.io.inject(N6, &packet(from_gateway(), number).build());
    }
    scene.step();
    let sent: Vec<_> = scene.sent(N3).iter().map(|frame| inner(frame)).collect();
    let left = |number| inner(&packet(tunnel_of_downlink(), number).build());
    assert_eq!(sent, (0..6).map(left).collect::<Vec<_>>());
    assert_eq!(scene.counts().express_pkts, 1, "those behind the first unusual one follow it");
}

#[test]
fn priority_tag_sends_only_later_packets_of_the_ue_to_the_stages() {
    let mut scene = PipelineFixture::usual(rules()).with_other_ue();
    let to = |ue, number| from_gateway().ipv4(SERVER, ue).udp(number, 4000).build();
    let mut tagged = to(UE, 2);
    tagged.splice(12..12, [0x81, 0, 5 << 5, 0]);
    for frame in [to(UE, 0), to(OTHER_UE, 1), tagged, to(OTHER_UE, 3), to(UE, 4), to(OTHER_UE, 5)] {
        scene.io.inject(N6, &frame);
    }
    scene.step();
    let sent = scene.sent(N3);
    let ports = |ue: &str| -> Vec<u8> {
        let inner = sent.iter().map(|frame| inner(frame));
        inner.filter(|ip| ip[16..20] == v4(ue).octets()).map(|ip| ip[20 + 1]).collect()
    };
    assert_eq!((ports(UE), ports(OTHER_UE)), (vec![0, 2, 4], vec![1, 3, 5]));
    assert_eq!(scene.counts().express_pkts, 4, "one of the UE, and those of the other one");
}

/// The user's packet without what a router changes: TTL and checksum.
fn inner(frame: &[u8]) -> Vec<u8> {
    let mut packet = frame[14 + 20 + 8 + 16..].to_vec();
    packet[8] = 0;
    packet[10..12].fill(0);
    packet
}

fn tunnel_of_downlink() -> PacketBuilder {
    PacketBuilder::ethernet(GNB_MAC, N3_MAC).ipv4(N3_ADDR, GNB).gtpu(GNB_TEID).psc_dl(9, false)
}
