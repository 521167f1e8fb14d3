//! Answers to packets for ourselves.

use adit_rules::{
    AddressConflict, DeltaId, DropReason, KeyChange, NextHops, PuntReason, RuleDelta, SessionKey,
    WorkerCommand, WorkerEvent,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::limits::SLOW_PER_STEP_MAX;
use adit_types::{MacAddr, Teid};
use adit_wire::arp::{ArpOperation, ArpPacket, ArpStation};
use adit_wire::gtpu::{ErrorIndication, GtpuMessageType, emit_error_indication};
use adit_wire::icmpv6::PseudoHeader;
use adit_wire::neighbor::{
    NeighborAdvertisement, NeighborSolicitation, multicast_mac, solicited_node,
};

use crate::fixture::*;

fn arp_frame(dst: MacAddr, packet: &ArpPacket) -> Vec<u8> {
    let mut payload = [0; 28];
    packet.emit(&mut payload).unwrap();
    PacketBuilder::ethernet(dst, packet.sender_mac()).ether_type(0x0806).payload(&payload).build()
}

/// An ICMPv6 message in a frame.
fn nd_frame(dst: MacAddr, src: MacAddr, pseudo: &PseudoHeader, message: &[u8]) -> Vec<u8> {
    PacketBuilder::ethernet(dst, src)
        .ipv6(pseudo.src, pseudo.dst)
        .ttl(255)
        .protocol(58)
        .payload(message)
        .build()
}

fn solicitation(pseudo: &PseudoHeader, target: &str, source_mac: Option<MacAddr>) -> Vec<u8> {
    let mut message = [0; 32];
    let solicitation = NeighborSolicitation { target: target.parse().unwrap(), source_mac };
    let len = solicitation.emit(&mut message, pseudo).unwrap();
    message[..len].to_vec()
}

fn advertisement(pseudo: &PseudoHeader, target: &str, mac: MacAddr, solicited: bool) -> Vec<u8> {
    let mut message = [0; 32];
    let advertisement = NeighborAdvertisement {
        target: target.parse().unwrap(),
        target_mac: Some(mac),
        router: true,
        solicited,
        override_entry: true,
    };
    advertisement.emit(&mut message, pseudo).unwrap();
    message.to_vec()
}

#[test]
fn arp_request_for_our_address_is_answered_and_teaches() {
    let mut scene = PipelineFixture::unresolved(rules());
    let request = ArpPacket::request(GNB_MAC, v4(GNB), v4(N3_ADDR));
    let sent = scene.pass(N3, &arp_frame(MacAddr::BROADCAST, &request), N3);
    let reply = ArpPacket::reply(&request, N3_MAC);
    assert_eq!(sent, [arp_frame(GNB_MAC, &reply)]);
    let seen = WorkerEvent::NeighborLearned {
        interface: IF_N3,
        addr: ip(GNB),
        mac: GNB_MAC,
        solicited: false,
        conflict: AddressConflict::Verify,
    };
    assert_eq!(scene.take_events(), [seen]);
    let counts = scene.counts();
    assert_eq!((scene.punted(PuntReason::Arp), counts.originated_pkts), (1, 1));
}

#[test]
fn station_that_uses_our_address_is_reported_at_a_limited_rate() {
    let mut scene = PipelineFixture::new();
    let used = WorkerEvent::OwnAddressUsed { interface: IF_N3, addr: ip(N3_ADDR), mac: GNB_MAC };
    let announcement = ArpPacket::request(GNB_MAC, v4(N3_ADDR), v4(N3_ADDR));
    let frame = arp_frame(MacAddr::BROADCAST, &announcement);
    scene.pass(N3, &frame, N3);
    assert_eq!(scene.take_events(), [used]);
    let asks = ArpPacket::request(GNB_MAC, v4(N3_ADDR), v4("192.168.10.77"));
    scene.pass(N3, &arp_frame(MacAddr::BROADCAST, &asks), N3);
    assert_eq!(scene.take_events(), [used], "any packet with our address as its sender's");
    let own = ArpPacket::request(N3_MAC, v4(N3_ADDR), v4(N3_ADDR));
    scene.pass(N3, &arp_frame(MacAddr::BROADCAST, &own), N3);
    assert!(scene.take_events().is_empty(), "that is this adit");
    (0..1000).for_each(|_| drop(scene.pass(N3, &frame, N3)));
    let reported = scene.take_events().len();
    assert!((1..50).contains(&reported), "{reported}");
}

#[test]
fn station_that_advertises_our_ipv6_addresses_is_reported() {
    let mut scene = PipelineFixture::new();
    let link_local = config().interfaces[usize::from(IF_N6.0)].link_local();
    for ours in [N6_V6.to_owned(), link_local.to_string()] {
        let addr = ip(&ours);
        let used = WorkerEvent::OwnAddressUsed { interface: IF_N6, addr, mac: GATEWAY_MAC };
        let of = |mac, solicited| {
            let all = "ff02::1".parse().unwrap();
            let pseudo = PseudoHeader { src: ours.parse().unwrap(), dst: all };
            let message = advertisement(&pseudo, &ours, mac, solicited);
            nd_frame(multicast_mac(all), mac, &pseudo, &message)
        };
        scene.pass(N6, &of(GATEWAY_MAC, false), N6);
        assert_eq!(scene.take_events(), [used]);
        scene.pass(N6, &of(N6_MAC, false), N6);
        assert!(scene.take_events().is_empty(), "that is this adit");
    }
}

#[test]
fn arp_request_for_others_is_only_counted() {
    let mut scene = PipelineFixture::new();
    let request = ArpPacket::request(GNB_MAC, v4(GNB), v4("192.168.10.77"));
    assert!(scene.pass(N3, &arp_frame(MacAddr::BROADCAST, &request), N3).is_empty());
    assert_eq!((scene.punted(PuntReason::Arp), scene.take_events().len()), (1, 0));
}

#[test]
fn arp_reply_to_us_teaches_as_solicited() {
    let mut scene = PipelineFixture::unresolved(rules());
    let sender = ArpStation { mac: GNB_MAC, addr: v4(GNB) };
    let target = ArpStation { mac: N3_MAC, addr: v4(N3_ADDR) };
    let reply = ArpPacket::new(ArpOperation::REPLY, sender, target);
    scene.pass(N3, &arp_frame(N3_MAC, &reply), N3);
    assert!(matches!(
        scene.take_events()[..],
        [WorkerEvent::NeighborLearned { interface: IF_N3, mac: GNB_MAC, solicited: true, .. }]
    ));
}

/// Claims of stations about neighbors are reported while they are news.
#[test]
fn neighbor_that_repeats_its_address_is_not_reported_and_claims_of_others_are_limited() {
    let mut scene = PipelineFixture::new();
    let reply = |mac| {
        let sender = ArpStation { mac, addr: v4(GNB) };
        let target = ArpStation { mac: N3_MAC, addr: v4(N3_ADDR) };
        arp_frame(N3_MAC, &ArpPacket::new(ArpOperation::REPLY, sender, target))
    };
    scene.pass(N3, &reply(GNB_MAC), N3);
    let stranger = ArpPacket::request(GNB_MAC, v4("192.168.10.77"), v4(N3_ADDR));
    scene.pass(N3, &arp_frame(N3_MAC, &stranger), N3);
    assert!(scene.take_events().is_empty(), "known, and of nobody that packets go to");
    let index = scene.publisher.find_next_hop(IF_N3, ip(GNB)).unwrap();
    scene.publisher.set_mac(index, GNB_MAC, true);
    scene.pass(N3, &reply(GNB_MAC), N3);
    assert_eq!(scene.take_events().len(), 1, "what was asked");
    scene.publisher.set_mac(index, GNB_MAC, false);
    (0..1000).for_each(|_| drop(scene.pass(N3, &reply(GATEWAY_MAC), N3)));
    assert_eq!(scene.take_events().len(), 50);
    assert_eq!(scene.counts().events_limited, 950);
    let forwarded = scene.pass(N6, &downlink().build(), N3);
    assert_eq!(forwarded[0][..6], GNB_MAC.0, "packets go where they went");
}

#[test]
fn arp_that_is_malformed_is_dropped() {
    let mut scene = PipelineFixture::new();
    let request = ArpPacket::request(GNB_MAC, v4(GNB), v4(N3_ADDR));
    let good = arp_frame(N3_MAC, &request);
    scene.assert_drops(N3, &good[..40], DropReason::ArpMalformed);
    let mut operation = good.clone();
    operation[21] = 9;
    scene.assert_drops(N3, &operation, DropReason::ArpMalformed);
    let mut sender = good;
    sender[22] = 0xff;
    scene.assert_drops(N3, &sender, DropReason::ArpMalformed);
}

#[test]
fn icmp_echo_to_our_addresses_is_answered() {
    let mut scene = PipelineFixture::new();
    let request =
        PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).icmp_echo(1, 2).payload(b"x");
    let reply = PacketBuilder::ethernet(GNB_MAC, N3_MAC)
        .ipv4(N3_ADDR, GNB)
        .dont_fragment()
        .icmp_echo_reply(1, 2)
        .payload(b"x");
    assert_eq!(scene.pass(N3, &request.trailer(&[0; 17]).build(), N3), [reply.build()]);
    let request = from_gateway().ipv6("2001:db8:6::254", N6_V6).icmp_echo(3, 4).payload(b"six");
    let reply = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)
        .ipv6(N6_V6, "2001:db8:6::254")
        .icmp_echo_reply(3, 4)
        .payload(b"six");
    assert_eq!(scene.pass(N6, &request.build(), N6), [reply.build()]);
    assert_eq!(scene.punted(PuntReason::IcmpLocal), 2);
}

#[test]
fn icmp_echo_with_options_and_vlan_is_answered_without_options() {
    let mut scene = PipelineFixture::new();
    let request = PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC)
        .vlan(100)
        .ipv4("10.7.0.254", "10.7.0.1")
        .options(&[1, 1, 1, 1])
        .icmp_echo(1, 2);
    let reply = PacketBuilder::ethernet(VLAN_GATEWAY_MAC, N6_MAC)
        .vlan(100)
        .ipv4("10.7.0.1", "10.7.0.254")
        .dont_fragment()
        .icmp_echo_reply(1, 2);
    assert_eq!(scene.pass(N6, &request.build(), N6), [reply.build()]);
}

#[test]
fn icmp_to_us_of_other_kinds_is_dropped() {
    let mut scene = PipelineFixture::new();
    let to_n3 = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    scene.assert_drops(N3, &to_n3().icmp_echo_reply(1, 2).build(), DropReason::IcmpUnhandled);
    let wrong = to_n3().icmp_echo(1, 2).overwrite(2, &[9, 9]).build();
    scene.assert_drops(N3, &wrong, DropReason::IcmpUnhandled);
    let loopback = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4("127.0.0.1", N3_ADDR);
    scene.assert_drops(N3, &loopback.icmp_echo(1, 2).build(), DropReason::IpAddressInvalid);
}

#[test]
fn gtpu_echo_request_is_answered_to_its_source_port() {
    let mut scene = PipelineFixture::new();
    let request = PacketBuilder::ethernet(N3_MAC, GNB_MAC)
        .ipv4(GNB, N3_ADDR)
        .udp(40_000, 2152)
        .gtpu_message(GtpuMessageType::ECHO_REQUEST, 0)
        .sequence(0x1234);
    let reply = PacketBuilder::ethernet(GNB_MAC, N3_MAC)
        .ipv4(N3_ADDR, GNB)
        .dont_fragment()
        .udp(2152, 40_000)
        .gtpu_message(GtpuMessageType::ECHO_RESPONSE, 0)
        .sequence(0x1234)
        .payload(&[&[14, 0], &recovery(STARTED)[..]].concat());
    assert_eq!(scene.pass(N3, &request.build(), N3), [reply.build()]);
    let request = PacketBuilder::ethernet(N3_MAC, GNB_MAC)
        .ipv6(GNB_V6, N3_V6)
        .udp(2152, 2152)
        .gtpu_message(GtpuMessageType::ECHO_REQUEST, 0)
        .sequence(7);
    let reply = PacketBuilder::ethernet(GNB_MAC, N3_MAC)
        .ipv6(N3_V6, GNB_V6)
        .udp(2152, 2152)
        .gtpu_message(GtpuMessageType::ECHO_RESPONSE, 0)
        .sequence(7)
        .payload(&[&[14, 0], &recovery(STARTED)[..]].concat());
    assert_eq!(scene.pass(N3, &request.build(), N3), [reply.build()]);
    assert_eq!(scene.punted(PuntReason::GtpuEchoRequest), 2);
}

/// A Recovery Time Stamp element.
fn recovery(started: u32) -> [u8; 7] {
    let [a, b, c, d] = started.to_be_bytes();
    [231, 0, 4, a, b, c, d]
}

/// Spec: TS 29.281 §7.2.1; TS 23.007 §18A.
#[test]
fn echo_request_with_its_senders_start_is_reported_and_answered() {
    let mut scene = PipelineFixture::new();
    let link = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    let request = link.gtpu_message(GtpuMessageType::ECHO_REQUEST, 0).sequence(3);
    scene.pass(N3, &request.payload(&recovery(9)).build(), N3);
    let told = WorkerEvent::EchoRequest { peer: ip(GNB), recovery: 9 };
    assert_eq!(scene.take_events(), [told]);
    assert_eq!(scene.punted(PuntReason::GtpuEchoRequest), 1);
}

#[test]
fn gtpu_signaling_is_consumed_and_reported() {
    let mut scene = PipelineFixture::new();
    let message = |kind, teid| {
        PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu_message(kind, teid)
    };
    scene.pass(N3, &message(GtpuMessageType::ECHO_RESPONSE, 0).sequence(1).build(), N3);
    scene.pass(N3, &message(GtpuMessageType::END_MARKER, TEID).build(), N3);
    let notification = GtpuMessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION;
    scene.pass(N3, &message(notification, 0).sequence(1).payload(&[141, 0]).build(), N3);
    let mut gtpu = [0; 64];
    let indication = ErrorIndication { teid: Teid(GNB_TEID), peer: ip(GNB) };
    let len = emit_error_indication(&mut gtpu, &indication, None).unwrap();
    let outer = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).udp(2152, 2152);
    scene.pass(N3, &outer.payload(&gtpu[..len]).build(), N3);
    for reason in [
        PuntReason::GtpuEchoResponse,
        PuntReason::GtpuEndMarker,
        PuntReason::GtpuExtensionNotification,
        PuntReason::GtpuErrorIndication,
    ] {
        assert_eq!(scene.punted(reason), 1, "{reason:?}");
    }
    let expected = [
        WorkerEvent::EndMarker { session: SESSION },
        WorkerEvent::ErrorIndication { peer: ip(GNB), teid: Teid(GNB_TEID) },
    ];
    assert_eq!(scene.take_events(), expected, "but no response that nothing asked for");
    assert_eq!(scene.counts().events_limited, 1);
    let unknown = message(GtpuMessageType::END_MARKER, 0x999).build();
    scene.assert_drops(N3, &unknown, DropReason::TeidUnknown);
    let empty = message(GtpuMessageType::ERROR_INDICATION, 0).sequence(1).build();
    scene.assert_drops(N3, &empty, DropReason::GtpuMalformed);
}

#[test]
fn neighbor_solicitation_for_our_addresses_is_answered() {
    let mut scene = PipelineFixture::unresolved(rules());
    let link_local = config().interfaces[usize::from(IF_N6.0)].link_local();
    for target in [N6_V6.to_owned(), link_local.to_string()] {
        let group = solicited_node(target.parse().unwrap());
        let pseudo = PseudoHeader { src: "2001:db8:6::254".parse().unwrap(), dst: group };
        let message = solicitation(&pseudo, &target, Some(GATEWAY_MAC));
        let frame = nd_frame(multicast_mac(group), GATEWAY_MAC, &pseudo, &message);
        let sent = scene.pass(N6, &frame, N6);
        let back = PseudoHeader { src: target.parse().unwrap(), dst: pseudo.src };
        let answer = advertisement(&back, &target, N6_MAC, true);
        assert_eq!(sent, [nd_frame(GATEWAY_MAC, N6_MAC, &back, &answer)]);
    }
    assert_eq!(scene.punted(PuntReason::NeighborDiscovery), 2);
    let events = scene.take_events();
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| matches!(
        event,
        WorkerEvent::NeighborLearned { interface: IF_N6, mac: GATEWAY_MAC, solicited: false, .. }
    )));
}

#[test]
fn neighbor_solicitation_of_a_probing_station_is_answered_to_all() {
    let mut scene = PipelineFixture::new();
    let target: core::net::Ipv6Addr = N6_V6.parse().unwrap();
    let pseudo = PseudoHeader { src: "::".parse().unwrap(), dst: solicited_node(target) };
    let message = solicitation(&pseudo, N6_V6, None);
    let frame = nd_frame(multicast_mac(pseudo.dst), GATEWAY_MAC, &pseudo, &message);
    let sent = scene.pass(N6, &frame, N6);
    let back = PseudoHeader { src: target, dst: "ff02::1".parse().unwrap() };
    let answer = advertisement(&back, N6_V6, N6_MAC, false);
    assert_eq!(sent, [nd_frame(multicast_mac(back.dst), N6_MAC, &back, &answer)]);
    assert!(scene.take_events().is_empty());
}

/// Spec: RFC 4861 §7.1.1.
#[test]
fn neighbor_solicitation_of_a_probe_with_an_option_or_to_another_group_is_discarded() {
    let mut scene = PipelineFixture::new();
    let group = solicited_node(N6_V6.parse().unwrap());
    for (dst, source_mac) in [(group, Some(GATEWAY_MAC)), ("ff02::1".parse().unwrap(), None)] {
        let pseudo = PseudoHeader { src: "::".parse().unwrap(), dst };
        let message = solicitation(&pseudo, N6_V6, source_mac);
        let frame = nd_frame(multicast_mac(dst), GATEWAY_MAC, &pseudo, &message);
        scene.assert_drops(N6, &frame, DropReason::NeighborMalformed);
    }
    assert!(scene.sent(N6).is_empty() && scene.take_events().is_empty());
}

#[test]
fn neighbor_advertisement_teaches() {
    let mut scene = PipelineFixture::unresolved(rules());
    let pseudo =
        PseudoHeader { src: "2001:db8:6::254".parse().unwrap(), dst: N6_V6.parse().unwrap() };
    let message = advertisement(&pseudo, "2001:db8:6::254", GATEWAY_MAC, true);
    let frame = nd_frame(N6_MAC, GATEWAY_MAC, &pseudo, &message);
    scene.pass(N6, &frame, N6);
    let seen = WorkerEvent::NeighborLearned {
        interface: IF_N6,
        addr: ip("2001:db8:6::254"),
        mac: GATEWAY_MAC,
        solicited: true,
        conflict: AddressConflict::Replace,
    };
    assert_eq!(scene.take_events(), [seen]);
    // The flags are in octet 4 of the message: R, S, O. The checksum changes with them.
    let mut modest = frame.clone();
    modest[14 + 40 + 4] = 0x40;
    let check = &mut modest[14 + 40 + 2..][..2];
    let sum = u32::from(u16::from_be_bytes([check[0], check[1]])) + 0xa000;
    let sum = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    check.copy_from_slice(&sum.to_be_bytes());
    scene.pass(N6, &modest, N6);
    assert!(matches!(
        scene.take_events()[..],
        [WorkerEvent::NeighborLearned { solicited: true, conflict: AddressConflict::Doubt, .. }]
    ));
    let mut forwarded = frame;
    forwarded[21] = 254;
    scene.assert_drops(N6, &forwarded, DropReason::NeighborMalformed);
    assert!(scene.take_events().is_empty());
}

#[test]
fn slow_path_is_bounded_per_step() {
    let mut scene = PipelineFixture::new();
    let request = ArpPacket::request(GNB_MAC, v4(GNB), v4(N3_ADDR));
    let frame = arp_frame(MacAddr::BROADCAST, &request);
    let n6_request = ArpPacket::request(GATEWAY_MAC, v4("10.6.0.254"), v4(N6_ADDR));
    let n6_frame = arp_frame(MacAddr::BROADCAST, &n6_request);
    for _ in 0..32 {
        scene.io.inject(N3, &frame);
        scene.io.inject(N6, &n6_frame);
        scene.io.inject(MIXED, &frame);
    }
    scene.step();
    assert_eq!(scene.punted(PuntReason::Arp), SLOW_PER_STEP_MAX as u64);
    assert_eq!(scene.dropped(DropReason::SlowQueueFull), 96 - SLOW_PER_STEP_MAX as u64);
}

#[test]
fn commands_solicit_and_announce() {
    let mut scene = PipelineFixture::new();
    let solicit =
        |addr: &str, unicast| WorkerCommand::Solicit { interface: IF_N6, addr: ip(addr), unicast };
    scene.commands.push(solicit("10.6.0.9", None)).unwrap();
    scene.commands.push(solicit("10.6.0.9", Some(GATEWAY_MAC))).unwrap();
    scene.commands.push(solicit("2001:db8:6::9", None)).unwrap();
    scene.commands.push(WorkerCommand::Announce { interface: IF_N6 }).unwrap();
    scene.step();
    let sent = scene.sent(N6);
    let request = ArpPacket::request(N6_MAC, v4(N6_ADDR), v4("10.6.0.9"));
    assert_eq!(sent[0], arp_frame(MacAddr::BROADCAST, &request));
    assert_eq!(sent[1], arp_frame(GATEWAY_MAC, &request));
    let group = solicited_node("2001:db8:6::9".parse().unwrap());
    let pseudo = PseudoHeader { src: N6_V6.parse().unwrap(), dst: group };
    let message = solicitation(&pseudo, "2001:db8:6::9", Some(N6_MAC));
    assert_eq!(sent[2], nd_frame(multicast_mac(group), N6_MAC, &pseudo, &message));
    let own = ArpPacket::request(N6_MAC, v4(N6_ADDR), v4(N6_ADDR));
    assert_eq!(sent[3], arp_frame(MacAddr::BROADCAST, &own));
    let to_all = PseudoHeader { src: N6_V6.parse().unwrap(), dst: "ff02::1".parse().unwrap() };
    let message = advertisement(&to_all, N6_V6, N6_MAC, false);
    assert_eq!(sent[4], nd_frame(multicast_mac(to_all.dst), N6_MAC, &to_all, &message));
    assert_eq!((sent.len(), scene.counts().originated_pkts), (6, 6));
}

#[test]
fn commands_without_a_buffer_are_counted_as_lost() {
    let mut scene = PipelineFixture::new();
    scene.io.alloc_room = 0;
    scene.commands.push(WorkerCommand::Announce { interface: IF_N6_VLAN }).unwrap();
    scene.step();
    let counts = scene.counts();
    assert_eq!((counts.originated_pkts, counts.originated_lost_pkts), (0, 1));
}

#[test]
fn arp_on_a_tagged_interface_keeps_the_tag() {
    let mut scene = PipelineFixture::new();
    scene
        .commands
        .push(WorkerCommand::Solicit {
            interface: IF_N3_VLAN,
            addr: ip("192.168.30.9"),
            unicast: None,
        })
        .unwrap();
    scene.step();
    let sent = scene.sent(MIXED);
    assert_eq!(sent[0][12..18], [0x81, 0, 0, 30, 8, 6]);
    assert_eq!(sent[0].len(), 46);
}

/// A frame from us to the gNB up to GTP-U, whose UDP checksum is there.
fn gtpu_to_gnb() -> PacketBuilder {
    PacketBuilder::ethernet(GNB_MAC, N3_MAC).ipv4(N3_ADDR, GNB).dont_fragment().udp(2152, 2152)
}

/// Spec: TS 29.281 §7.3.1, §5.2.2.1.
#[test]
fn unknown_teid_is_answered_with_an_error_indication_of_known_octets() {
    let mut scene = PipelineFixture::new();
    let g_pdu = |teid| {
        let outer = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).udp(3333, 2152);
        outer.gtpu(teid).ipv4(UE, SERVER).udp(1, 2).build()
    };
    let sent = scene.pass(N3, &g_pdu(0x4242), N3);
    #[rustfmt::skip]
    let message = [
        // Version 1 with E and S; Error Indication of 20 octets; TEID zero
        0x36, 26, 0, 20, 0, 0, 0, 0,
        // Sequence number zero; UDP Port extension header: 3333
        0, 0, 0, 0x40, 1, 0x0d, 0x05, 0,
        // TEID Data I
        16, 0, 0, 0x42, 0x42,
        // GTP-U Peer Address: the destination of the G-PDU
        133, 0, 4, 192, 168, 10, 1,
    ];
    assert_eq!(sent, [gtpu_to_gnb().payload(&message).build()]);
    assert_eq!(scene.dropped(DropReason::TeidUnknown), 1);
    assert_eq!(scene.counts().originated_pkts, 1);
    assert_eq!(scene.pass(N3, &g_pdu(0), N3), [] as [Vec<u8>; 0], "zero is no tunnel");
}

#[test]
fn unknown_teid_is_not_answered_while_it_may_be_that_of_a_session_to_be_restored() {
    let mut scene = PipelineFixture::new();
    let outer = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    let frame = outer.gtpu(0x4242).ipv4(UE, SERVER).udp(1, 2).build();
    scene.publisher.set_restoring(true);
    assert_eq!(scene.pass(N3, &frame, N3), [] as [Vec<u8>; 0]);
    scene.publisher.set_restoring(false);
    assert_eq!(scene.pass(N3, &frame, N3).len(), 1);
    assert_eq!(scene.dropped(DropReason::TeidUnknown), 2);
}

/// Spec: TS 29.281 §7.3.1.
#[test]
fn unknown_teid_over_ipv6_names_the_ipv6_address() {
    let mut scene = PipelineFixture::new();
    let outer = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv6(GNB_V6, N3_V6);
    let sent = scene.pass(N3, &outer.gtpu(0x4242).ipv4(UE, SERVER).udp(1, 2).build(), N3);
    assert_eq!(sent.len(), 1);
    let datagram = &sent[0][14 + 40..];
    let (src, dst) = (N3_V6.parse().unwrap(), GNB_V6.parse().unwrap());
    assert_eq!(adit_wire::udp::verify_ipv6(src, dst, datagram), Ok(()));
    assert_eq!(datagram[8 + 16 + 5..][..3], [133, 0, 16]);
}

#[test]
fn error_indications_are_bounded() {
    let mut scene = PipelineFixture::new();
    let outer = || PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    let frame = outer().gtpu(0x4242).ipv4(UE, SERVER).udp(1, 2).build();
    let sent: usize = (0..200).map(|_| scene.pass(N3, &frame, N3).len()).sum();
    assert_eq!(sent, 50, "the burst of the limit");
    assert_eq!(scene.dropped(DropReason::TeidUnknown), 200);
}

/// Spec: TS 29.281 §7.2.3, §5.2.1.
#[test]
fn extension_header_that_must_be_understood_is_answered_with_those_that_are() {
    let mut scene = PipelineFixture::new();
    let frame = tunneled().extension(0xc5, &[1, 2]).ipv4(UE, SERVER).udp(1, 2).build();
    let sent = scene.pass(N3, &frame, N3);
    #[rustfmt::skip]
    let message = [
        0x32, 31, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0,
        141, 7, 0x40, 0x81, 0x82, 0x83, 0x84, 0x85, 0xc0,
    ];
    assert_eq!(sent, [gtpu_to_gnb().payload(&message).build()]);
    assert_eq!(scene.dropped(DropReason::GtpuExtensionUnknown), 1);
    // Messages about errors are not answered with further ones.
    let to_n3 = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR);
    let notification =
        to_n3.gtpu_message(GtpuMessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION, 0);
    let frame = notification.extension(0xc5, &[1, 2]).payload(&[141, 0]).build();
    assert_eq!(scene.pass(N3, &frame, N3), [] as [Vec<u8>; 0]);
}

/// Spec: TS 29.281 §7.2.1, §7.2.2.
#[test]
fn echo_request_is_sent_on_command_and_its_response_reported() {
    for (peer, is_ipv4) in [(GNB, true), (GNB_V6, false)] {
        let mut scene = PipelineFixture::new();
        let command = WorkerCommand::SendEchoRequest {
            peer: ip(peer),
            interfaces: adit_types::InterfaceSet::ALL,
            sequence: 7,
            tos: 0xb8,
        };
        let at = scene.now;
        scene.commands.push(command).unwrap();
        scene.step();
        let link = PacketBuilder::ethernet(GNB_MAC, N3_MAC);
        let outer = match is_ipv4 {
            true => link.ipv4(N3_ADDR, GNB).dont_fragment(),
            false => link.ipv6(N3_V6, GNB_V6),
        };
        let request = [&[0x32, 1, 0, 11, 0, 0, 0, 0, 0, 7, 0, 0], &recovery(STARTED)[..]].concat();
        let outer = outer.tos(0xb8).udp(2152, 2152);
        assert_eq!(scene.sent(N3), [outer.payload(&request).build()]);
        let told = WorkerEvent::EchoSent { peer: ip(peer), sequence: 7, at };
        assert!(scene.take_events().contains(&told));

        let link = PacketBuilder::ethernet(N3_MAC, GNB_MAC);
        let outer = match is_ipv4 {
            true => link.ipv4(GNB, N3_ADDR),
            false => link.ipv6(GNB_V6, N3_V6),
        };
        let response = outer.gtpu_message(GtpuMessageType::ECHO_RESPONSE, 0).sequence(7);
        let started = [&[14, 0], &recovery(5)[..]].concat();
        let at = scene.now;
        let response = response.payload(&started).build();
        let mut forged = response.clone();
        // Its UDP source port, and no checksum.
        let port = if is_ipv4 { 14 + 20 } else { 14 + 40 };
        forged[port + 1] ^= 1;
        if is_ipv4 {
            forged[port + 6..port + 8].fill(0);
            scene.pass(N3, &forged, N3);
            assert!(!scene.take_events().iter().any(is_response), "from another port");
        }
        scene.pass(N3, &response, N3);
        let events = scene.take_events();
        let recovery = Some(5);
        let told = WorkerEvent::EchoResponse { peer: ip(peer), sequence: 7, recovery, at };
        assert!(events.contains(&told), "{events:?}");
        assert_eq!(scene.punted(PuntReason::GtpuEchoResponse), 1 + u64::from(is_ipv4));
    }
}

fn is_response(event: &WorkerEvent) -> bool {
    matches!(event, WorkerEvent::EchoResponse { .. })
}

#[test]
fn packet_to_our_own_address_is_for_us_though_a_session_claims_the_address() {
    let mut claiming = rules();
    for pdr in claiming.uplink.iter_mut().chain(&mut claiming.downlink) {
        pdr.ue.v4 = Some(v4(N6_ADDR));
    }
    let mut scene = PipelineFixture::usual(claiming.clone());
    let keys = vec![KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), v4(N6_ADDR)))];
    let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(claiming)) };
    scene.publisher.apply(DeltaId(2), delta);
    let frame = from_gateway().ipv4(SERVER, N6_ADDR).udp(53, 4000).payload(b"for us").build();
    scene.assert_drops(N6, &frame, DropReason::UdpPortUnknown);
    assert!(scene.sent(N3).is_empty());
}
