//! Errors about packets that could not be forwarded.

use adit_rules::DropReason;
use adit_testkit::packet::PacketBuilder;
use adit_types::Nanos;
use adit_wire::{icmp, icmpv6, parse_ip};

use crate::fixture::*;

/// The error inside the tunnel to the gNB: its IP packet.
fn inside_tunnel(frame: &[u8]) -> &[u8] {
    assert_eq!(frame[..14], [2, 0, 0, 0, 0, 0xb0, 2, 0, 0, 0, 0, 0xa0, 8, 0]);
    assert_eq!(frame[14 + 28 + 14], 9, "QFI of the session");
    &frame[14 + 20 + 8 + 16..]
}

#[test]
fn uplink_ttl_of_one_is_reported_to_the_ue() {
    for ttl in [0, 1] {
        let mut scene = PipelineFixture::new();
        let offending = |builder: PacketBuilder| {
            builder.ipv4(UE, SERVER).ttl(ttl).udp(4000, 53).payload(b"question")
        };
        scene.assert_drops(N3, &offending(tunneled()).build(), DropReason::TtlExceeded);
        let sent = scene.sent(N3);
        let mut message = [0; 600];
        let original = offending(PacketBuilder::new()).build();
        let len = icmp::emit_time_exceeded(&mut message, &original).unwrap();
        let expected = PacketBuilder::new()
            .ipv4(N6_ADDR, UE)
            .tos(0xc0)
            .dont_fragment()
            .protocol(1)
            .payload(&message[..len]);
        assert_eq!(sent.len(), 1);
        assert_eq!(inside_tunnel(&sent[0]), expected.build());
        assert_eq!(scene.counts().originated_pkts, 1);
        assert!(scene.sent(N6).is_empty());
    }
}

#[test]
fn uplink_hop_limit_of_one_is_reported_to_the_ue() {
    let mut scene = PipelineFixture::new();
    let offending = tunneled().ipv6(UE_V6, SERVER_V6).ttl(1).udp(1, 2).payload(&[7; 1300]);
    scene.assert_drops(N3, &offending.build(), DropReason::TtlExceeded);
    let sent = scene.sent(N3);
    let packet = inside_tunnel(&sent[0]);
    assert_eq!(packet.len(), 1280, "the quotation is cut to the minimum MTU");
    let ip = parse_ip(packet, true).unwrap();
    let pseudo = icmpv6::PseudoHeader { src: N6_V6.parse().unwrap(), dst: UE_V6.parse().unwrap() };
    let (header, _) = icmpv6::Icmpv6Header::parse(&pseudo, ip.payload(packet)).unwrap();
    assert_eq!((header.kind(), header.code()), (icmpv6::TIME_EXCEEDED, 0));
}

#[test]
fn downlink_ttl_of_one_is_reported_to_the_sender() {
    let mut scene = PipelineFixture::new();
    let offending =
        |builder: PacketBuilder| builder.ipv4(SERVER, UE).ttl(1).udp(53, 4000).payload(b"answer");
    scene.assert_drops(N6, &offending(from_gateway()).build(), DropReason::TtlExceeded);
    let mut message = [0; 600];
    let original = offending(PacketBuilder::new()).build();
    let len = icmp::emit_time_exceeded(&mut message, &original).unwrap();
    let expected = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)
        .ipv4(N6_ADDR, SERVER)
        .tos(0xc0)
        .dont_fragment()
        .protocol(1)
        .payload(&message[..len]);
    assert_eq!(scene.sent(N6), [expected.build()]);
}

#[test]
fn downlink_beyond_the_tunnel_mtu_is_reported_with_what_fits() {
    let mut scene = PipelineFixture::new();
    let fits = 1500 - 20 - 8 - 16;
    let packet = |len: usize| {
        from_gateway().ipv4(SERVER, UE).dont_fragment().udp(1, 2).payload(&vec![1; len - 28])
    };
    assert_eq!(scene.pass(N6, &packet(fits).build(), N3).len(), 1);
    scene.assert_drops(N6, &packet(fits + 1).build(), DropReason::PacketTooBig);
    let sent = scene.sent(N6);
    let ip = parse_ip(&sent[0][14..], true).unwrap();
    assert_eq!(ip.total_len, 576);
    let (header, _) = icmp::IcmpHeader::parse(ip.payload(&sent[0][14..])).unwrap();
    assert_eq!((header.kind(), header.code()), (3, icmp::CODE_FRAGMENTATION_NEEDED));
    assert_eq!(usize::from(header.next_hop_mtu()), fits);

    let six = from_gateway().ipv6(SERVER_V6, UE_V6).udp(1, 2).payload(&[1; 1420]).build();
    scene.assert_drops(N6, &six, DropReason::PacketTooBig);
    let sent = scene.sent(N6);
    let ip = parse_ip(&sent[0][14..], true).unwrap();
    let pseudo =
        icmpv6::PseudoHeader { src: N6_V6.parse().unwrap(), dst: SERVER_V6.parse().unwrap() };
    let (header, _) = icmpv6::Icmpv6Header::parse(&pseudo, ip.payload(&sent[0][14..])).unwrap();
    assert_eq!((header.kind(), header.word()), (icmpv6::PACKET_TOO_BIG, 1456));
}

#[test]
fn errors_about_errors_and_later_fragments_are_not_sent() {
    let mut scene = PipelineFixture::new();
    let error = tunneled().ipv4(UE, SERVER).ttl(1).protocol(1).payload(&[3, 1, 0, 0, 0, 0, 0, 0]);
    scene.assert_drops(N3, &error.build(), DropReason::TtlExceeded);
    let fragment = tunneled().ipv4(UE, SERVER).ttl(1).fragment(1, 8, false).payload(&[0; 8]);
    scene.assert_drops(N3, &fragment.build(), DropReason::TtlExceeded);
    let redirect = tunneled().ipv6(UE_V6, SERVER_V6).ttl(1).protocol(58).payload(&[137; 40]);
    scene.assert_drops(N3, &redirect.build(), DropReason::TtlExceeded);
    assert!(scene.sent(N3).is_empty());
    let echo = tunneled().ipv4(UE, SERVER).ttl(1).icmp_echo(1, 1);
    scene.assert_drops(N3, &echo.build(), DropReason::TtlExceeded);
    assert_eq!(scene.sent(N3).len(), 1, "an echo request is no error");
}

#[test]
fn errors_are_bounded_in_rate() {
    let mut scene = PipelineFixture::new();
    let frame = tunneled().ipv4(UE, SERVER).ttl(1).udp(1, 2).build();
    for _ in 0..10 {
        for _ in 0..32 {
            scene.io.inject(N3, &frame);
        }
        scene.step();
    }
    assert_eq!(scene.sent(N3).len(), 50);
    assert_eq!(scene.dropped(DropReason::TtlExceeded), 320);
    scene.now += Nanos::from_millis(5);
    for _ in 0..32 {
        scene.io.inject(N3, &frame);
    }
    scene.step();
    assert_eq!(scene.sent(N3).len(), 5);
}
