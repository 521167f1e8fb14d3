//! The usual packet: a glance recognizes the packets that the walk finds, and no others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::{Direction, MacAddr, Qfi, Teid, VlanId};
use adit_wire::ethernet::emit_link;
use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header, decrement_ttl};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header, decrement_hop_limit};
use adit_wire::udp::UdpHeader;
use adit_wire::vlan::VlanTag;
use adit_wire::{
    EtherType, GPduPattern, IpPacket, IpPattern, OrderingKey, OuterIpv4, PduSessionContainer,
    UsualGPdu, UsualIp, UsualLinkHeader, UsualOuter, UsualTunnel, decrement_usual_hops,
    emit_gtpu_ipv4, five_tuple, guess_is_v6, ordering_key, parse_frame, parse_gtpu, parse_ip,
    protocol, usual_container_marking, usual_five_tuple, usual_tuple, vlan_of,
};
use proptest::prelude::*;
use zerocopy::IntoBytes;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const GNB: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
/// The spare bit of GTP-U, which receivers ignore.
const SPARE: u8 = 0x08;
const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 7);
const HOST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, 1);
const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 9, 0, 0, 0, 2);

/// The VLANs of links.
const VLANS: [u16; 2] = [0, 0x123];

fn usual_g_pdu(frame: &[u8], mac: MacAddr, addr: Ipv4Addr, verify: bool) -> Option<UsualGPdu> {
    usual_g_pdu_in(frame, VlanId::UNTAGGED, mac, addr, verify)
}

fn usual_g_pdu_in(
    frame: &[u8],
    vlan: VlanId,
    mac: MacAddr,
    addr: Ipv4Addr,
    verify: bool,
) -> Option<UsualGPdu> {
    let pattern = GPduPattern::new(mac, vlan, addr);
    match vlan {
        VlanId::UNTAGGED => adit_wire::usual_g_pdu::<0>(frame, &pattern, verify),
        _ => adit_wire::usual_g_pdu::<{ VlanTag::LEN }>(frame, &pattern, verify),
    }
}

fn usual_ip(frame: &[u8], mac: MacAddr, verify: bool) -> Option<UsualIp> {
    usual_ip_in(frame, VlanId::UNTAGGED, mac, verify)
}

fn usual_ip_in(frame: &[u8], vlan: VlanId, mac: MacAddr, verify: bool) -> Option<UsualIp> {
    let pattern = IpPattern::new(mac, vlan);
    match vlan {
        VlanId::UNTAGGED => adit_wire::usual_ip::<0>(frame, &pattern, verify),
        _ => adit_wire::usual_ip::<{ VlanTag::LEN }>(frame, &pattern, verify),
    }
}

/// The frame in a VLAN, with a priority.
fn in_vlan(frame: &[u8], vlan: VlanId) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    if vlan == VlanId::UNTAGGED {
        return frame.to_vec();
    }
    let ether_type = EtherType(u16::from_be_bytes([rest[0], rest[1]]));
    let tag = VlanTag::new(vlan, 5, ether_type);
    [addresses, &[0x81, 0], tag.as_bytes(), &rest[2..]].concat()
}

fn vlans() -> impl Strategy<Value = VlanId> {
    prop::sample::select(VLANS.map(|vlan| VlanId::new(vlan).unwrap_or(VlanId::UNTAGGED)).to_vec())
}

/// PDU Session Containers of G-PDUs, by direction.
fn containers() -> impl Strategy<Value = Option<PduSessionContainer>> {
    let flow = Qfi::new(9).unwrap();
    let paging = PduSessionContainer { ppi: Some(3), ..PduSessionContainer::downlink(flow, false) };
    let reflective = PduSessionContainer::downlink(flow, true);
    prop::sample::select(vec![None, Some(uplink(9)), Some(reflective), Some(paging)])
}

fn words(addr: IpAddr) -> [u32; 4] {
    match addr {
        IpAddr::V4(addr) => [addr.to_bits(), 0, 0, 0],
        IpAddr::V6(addr) => {
            let octets = addr.octets();
            let (words, _) = octets.as_chunks::<4>();
            core::array::from_fn(|at| u32::from_be_bytes(words[at]))
        }
    }
}

fn inner_of(family: PatternFamily, payload: usize) -> Vec<u8> {
    match family {
        PatternFamily::V4 => inner(payload),
        PatternFamily::V6 => inner_v6(payload),
    }
}

#[derive(Debug, Clone, Copy)]
enum PatternFamily {
    V4,
    V6,
}

fn families() -> impl Strategy<Value = PatternFamily> {
    prop::sample::select(vec![PatternFamily::V4, PatternFamily::V6])
}

fn inner_v6(payload: usize) -> Vec<u8> {
    let fields = Ipv6Fields {
        traffic_class: 0,
        flow_label: 5,
        payload_len: u16::try_from(payload).unwrap(),
        next_header: protocol::UDP,
        hop_limit: 9,
        src: UE_V6,
        dst: HOST_V6,
    };
    let mut packet = Ipv6Header::new(&fields).as_bytes().to_vec();
    packet.resize(40 + payload, 0x5a);
    packet
}

/// True when `found` has the same as the walk.
fn is_same(found: &UsualIp, packet: &IpPacket) -> bool {
    let half = |addr| match addr {
        IpAddr::V4(addr) => u64::from(addr.to_bits()),
        IpAddr::V6(addr) => u64::try_from(addr.to_bits() >> 64).unwrap(),
    };
    (found.src, found.dst) == (half(packet.addrs.src()), half(packet.addrs.dst()))
        && found.is_v6 == packet.addrs.src().is_ipv6()
        && found.total_len == packet.total_len
        && packet.ttl > 1
}

fn inner(payload: usize) -> Vec<u8> {
    let fields = Ipv4Fields {
        tos: 0,
        total_len: u16::try_from(20 + payload).unwrap(),
        identification: 7,
        dont_fragment: true,
        ttl: 9,
        protocol: protocol::UDP,
        src: UE,
        dst: HOST,
    };
    let mut packet = Ipv4Header::new(&fields).as_bytes().to_vec();
    packet.resize(20 + payload, 0x5a);
    packet
}

/// A frame as a gNB sends it.
fn g_pdu(psc: Option<PduSessionContainer>, payload: usize) -> Vec<u8> {
    g_pdu_around(psc, &inner(payload))
}

fn g_pdu_around(psc: Option<PduSessionContainer>, inner: &[u8]) -> Vec<u8> {
    let outer = OuterIpv4 {
        src_mac: GNB,
        dst_mac: MAC,
        vlan: VlanId::UNTAGGED,
        src: PEER,
        dst: N3,
        tos: 0,
        identification: 0,
        src_port: 40_000,
        teid: Teid(0x0102_0304),
        psc,
        service_class: None,
        inner_len: u16::try_from(inner.len()).unwrap(),
    };
    let mut frame = vec![0; outer.len()];
    emit_gtpu_ipv4(&mut frame, &outer).unwrap();
    frame.extend(inner);
    frame
}

fn plain_frame(payload: usize) -> Vec<u8> {
    plain_frame_of(PatternFamily::V4, payload)
}

fn plain_frame_of(family: PatternFamily, payload: usize) -> Vec<u8> {
    let ether_type = match family {
        PatternFamily::V4 => [8, 0],
        PatternFamily::V6 => [0x86, 0xdd],
    };
    let mut frame = [&MAC.0[..], &GNB.0[..], &ether_type[..]].concat();
    frame.extend(inner_of(family, payload));
    frame
}

fn uplink(qfi: u8) -> PduSessionContainer {
    PduSessionContainer::uplink(Qfi::new(qfi).unwrap())
}

#[test]
fn g_pdu_with_an_uplink_container_is_usual() {
    let packet = usual_g_pdu(&g_pdu(Some(uplink(9)), 30), MAC, N3, true).unwrap();
    assert_eq!((packet.teid, packet.qfi), (Teid(0x0102_0304), Qfi::new(9)));
    let (src, dst) = (UE.to_bits().into(), HOST.to_bits().into());
    assert_eq!(packet.inner, UsualIp { is_v6: false, src, dst, total_len: 50 });
    assert_eq!(packet.inner_offset, 58);
}

#[test]
fn g_pdu_without_a_container_is_usual_and_has_no_flow() {
    let packet = usual_g_pdu(&g_pdu(None, 30), MAC, N3, true).unwrap();
    assert_eq!((packet.qfi, packet.inner_offset), (None, 50));
}

#[test]
fn ipv6_is_usual_inside_and_outside_of_a_tunnel() {
    let (src, dst) = (0x2001_0db8_0000_0007, 0x2001_0db8_00ff_0009);
    let expected = UsualIp { is_v6: true, src, dst, total_len: 70 };
    let frame = g_pdu_around(Some(uplink(9)), &inner_v6(30));
    assert_eq!(usual_g_pdu(&frame, MAC, N3, true).unwrap().inner, expected);
    assert_eq!(usual_ip(&plain_frame_of(PatternFamily::V6, 30), MAC, true), Some(expected));
}

#[test]
fn packet_without_a_hop_left_is_not_usual() {
    let mut frame = plain_frame_of(PatternFamily::V6, 30);
    frame[14 + 7] = 1;
    assert_eq!(usual_ip(&frame, MAC, true), None);
    let mut frame = plain_frame(30);
    frame[14 + 8] = 1;
    assert_eq!(usual_ip(&frame, MAC, false), None);
}

#[test]
fn frame_for_others_is_not_usual() {
    let frame = g_pdu(Some(uplink(9)), 30);
    assert_eq!(usual_g_pdu(&frame, GNB, N3, true), None);
    assert_eq!(usual_g_pdu(&frame, MAC, PEER, true), None);
    assert_eq!(usual_ip(&plain_frame(30), GNB, true), None);
}

#[test]
fn container_of_one_unit_is_usual_with_any_flags() {
    let offset = 14 + 20 + 8 + 8 + 4 + 1;
    let qfi = |first: u8, second: u8| {
        let mut frame = g_pdu(Some(uplink(9)), 30);
        frame[offset..offset + 2].copy_from_slice(&[first, second]);
        usual_g_pdu(&frame, MAC, N3, true).map(|packet| packet.qfi)
    };
    // Downlink with the reflective QoS indication and flags, uplink with flags and the new IE flag.
    for (first, second) in [(0x00, 0x49), (0x0e, 0x09), (0x1f, 0x09), (0x10, 0x49)] {
        assert_eq!(qfi(first, second), Some(Qfi::new(9)), "{first:#x} {second:#x}");
    }
    // A PPI that is missing, a type of its own.
    for (first, second) in [(0x00, 0x89), (0x20, 0x09), (0xf0, 0x09)] {
        assert_eq!(qfi(first, second), None, "{first:#x} {second:#x}");
    }
}

#[test]
fn container_in_front_of_the_inner_packet_is_read() {
    let flow = Qfi::new(9).unwrap();
    for rqi in [false, true] {
        let frame = g_pdu(Some(PduSessionContainer::downlink(flow, rqi)), 30);
        let offset = usual_g_pdu(&frame, MAC, N3, true).unwrap().inner_offset;
        assert_eq!(usual_container_marking(&frame, offset), Some((flow, rqi)));
    }
    let mut frame = g_pdu(Some(uplink(9)), 30);
    // Bits of an uplink container other than the QFI.
    frame[56] |= 0x40;
    assert_eq!(usual_container_marking(&frame, 58), Some((flow, false)));
    assert_eq!(usual_container_marking(&frame, 2), None);
}

#[test]
fn g_pdu_with_numbers_is_usual() {
    for (flags, psc) in [(0x36, Some(uplink(9))), (0x35, Some(uplink(9))), (0x37, Some(uplink(9)))]
    {
        let mut frame = g_pdu(psc, 30);
        frame[42] = flags;
        frame[50..53].copy_from_slice(&[1, 2, 3]);
        let packet = usual_g_pdu(&frame, MAC, N3, true).unwrap();
        assert_eq!((packet.qfi, packet.inner_offset), (Qfi::new(9), 58), "{flags:#x}");
    }
    for flags in [0x31, 0x32, 0x33] {
        let mut frame = numbered_g_pdu(30);
        frame[42] = flags;
        let packet = usual_g_pdu(&frame, MAC, N3, true).unwrap();
        assert_eq!((packet.qfi, packet.inner_offset), (None, 54), "{flags:#x}");
    }
}

/// A G-PDU with a sequence number and no extension header, although the octet that would name one
/// does.
fn numbered_g_pdu(payload: usize) -> Vec<u8> {
    let mut frame = g_pdu(None, payload);
    frame[42] |= 2;
    frame.splice(50..50, [1, 2, 3, 0x85]);
    for (at, grown) in [(16, 4), (38, 4), (44, 4)] {
        let len = u16::from_be_bytes([frame[at], frame[at + 1]]) + grown;
        frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }
    let (ip, _) = Ipv4Header::parse(&frame[14..]).unwrap();
    let (src, dst) = (ip.src(), ip.dst());
    let fields = Ipv4Fields {
        tos: 0,
        total_len: u16::from_be_bytes([frame[16], frame[17]]),
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        src,
        dst,
    };
    frame[14..34].copy_from_slice(Ipv4Header::new(&fields).as_bytes());
    frame
}

#[test]
fn tagged_frame_is_usual_on_the_link_of_its_vlan_alone() {
    let [vlan, other] = [0x123, 0x124].map(|value| VlanId::new(value).unwrap());
    let tunneled = in_vlan(&g_pdu(Some(uplink(9)), 30), vlan);
    let found = usual_g_pdu_in(&tunneled, vlan, MAC, N3, true).unwrap();
    assert_eq!((found.qfi, found.inner_offset), (Qfi::new(9), 62));
    assert_eq!(usual_g_pdu_in(&tunneled, other, MAC, N3, true), None);
    assert_eq!(usual_g_pdu(&tunneled, MAC, N3, true), None);
    let plain = in_vlan(&plain_frame(30), vlan);
    assert!(usual_ip_in(&plain, vlan, MAC, true).is_some());
    assert_eq!(usual_ip_in(&plain, other, MAC, true), None);
    assert_eq!(usual_ip(&plain, MAC, true), None);
    assert_eq!([vlan_of(&tunneled), vlan_of(&plain)], [vlan; 2]);
    assert_eq!(vlan_of(&plain[..15]), VlanId::UNTAGGED);
}

#[test]
fn tag_is_written_over_the_front_of_a_frame() {
    let vlan = VlanId::new(0x123).unwrap();
    let expected = [&PEER_MAC.0[..], &MAC.0, &[0x81, 0, 0x01, 0x23]].concat();
    let mut front = [0; 18];
    assert_eq!(emit_link(&mut front, PEER_MAC, MAC, vlan, EtherType::IPV4), Ok(18));
    assert_eq!(front[..16].to_vec(), expected);
}

#[test]
fn glance_finds_the_key_of_unusual_packets() {
    let mut frame = g_pdu(Some(uplink(9)), 30);
    frame[42] |= SPARE;
    assert_eq!(usual_g_pdu(&frame, MAC, N3, true), None);
    // The reserved flag of IPv4, which receivers ignore.
    frame[20] |= 0x80;
    assert_eq!(ordering_key(&frame, Some(N3)), OrderingKey::Tunneled(Teid(0x0102_0304)));
    // A fragment.
    frame[20] |= 0x20;
    assert_eq!(ordering_key(&frame, Some(N3)), OrderingKey::Nothing);
    let mut frame = plain_frame(30);
    frame[14] = 0x46;
    assert_eq!(usual_ip(&frame, MAC, true), None);
    assert_eq!(ordering_key(&frame, None), OrderingKey::PlainV4(HOST));
    let frame_v6 = plain_frame_of(PatternFamily::V6, 30);
    assert_eq!(ordering_key(&frame_v6, None), OrderingKey::PlainV6(0x2001_0db8_00ff_0009));
    assert_eq!(ordering_key(&frame_v6, Some(N3)), OrderingKey::Unknown);
    frame[12] = 0x81;
    frame[13] = 0;
    assert_eq!(ordering_key(&frame, None), OrderingKey::Nothing, "a second tag");
    assert_eq!(ordering_key(&frame[..20], None), OrderingKey::Nothing);
}

/// The G-PDU with options of so many words in its outer header. Its header checksum is wrong.
fn with_options(mut g_pdu: Vec<u8>, words: u8) -> Vec<u8> {
    let len = usize::from(words) * 4;
    g_pdu.splice(34..34, vec![1; len]);
    g_pdu[14] += words;
    let total_len = u16::try_from(g_pdu.len() - 14).unwrap();
    g_pdu[16..18].copy_from_slice(&total_len.to_be_bytes());
    g_pdu
}

#[test]
fn glance_finds_no_teid_in_a_frame_that_ends_before_it() {
    for words in 0..=10 {
        let frame = with_options(g_pdu(None, 30), words);
        let gtpu_end = 14 + 20 + usize::from(words) * 4 + 8 + 8;
        for end in 0..frame.len() {
            let expected = match end < gtpu_end {
                true => OrderingKey::Nothing,
                false => OrderingKey::Tunneled(Teid(0x0102_0304)),
            };
            assert_eq!(ordering_key(&frame[..end], Some(N3)), expected, "{words} {end}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever is changed in a G-PDU with options: if the walk still finds one, the glance finds
    /// its TEID.
    #[test]
    fn key_of_a_g_pdu_is_what_the_walk_finds(
        changes in prop::collection::vec((0_usize..110, any::<u8>()), 0..4),
        container in containers(),
        words in 0_u8..=10,
    ) {
        let mut frame = with_options(g_pdu(container, 30), words);
        for (at, octet) in changes {
            let at = at % frame.len();
            frame[at] = octet;
        }
        let link = parse_frame(&frame).unwrap();
        let l3 = &frame[14..];
        let Ok(ip) = parse_ip(l3, false) else { return Ok(()) };
        let is_tunneled = link.ether_type == EtherType::IPV4
            && ip.addrs.dst() == IpAddr::V4(N3)
            && !ip.is_fragment();
        let Ok((_, message)) = UdpHeader::parse(ip.payload(l3)) else { return Ok(()) };
        let Ok(gtpu) = parse_gtpu(message) else { return Ok(()) };
        if is_tunneled && gtpu.message_type == GtpuMessageType::G_PDU {
            prop_assert_eq!(ordering_key(&frame, Some(N3)), OrderingKey::Tunneled(gtpu.teid));
        }
    }

    /// Whatever is changed in a usual frame: if it is still recognized, the walk finds the same.
    #[test]
    fn recognized_g_pdu_is_what_the_walk_finds(
        changes in prop::collection::vec((0_usize..80, any::<u8>()), 0..4),
        cut in 0_usize..40,
        container in containers(),
        numbers in 0_u8..4,
        family in families(),
        vlan in vlans(),
        verify: bool,
    ) {
        let mut untagged = g_pdu_around(container, &inner_of(family, 30));
        untagged[42] |= numbers;
        let mut frame = in_vlan(&untagged, vlan);
        for (at, octet) in changes {
            let at = at % frame.len();
            frame[at] = octet;
        }
        frame.truncate(frame.len().saturating_sub(cut));
        let Some(found) = usual_g_pdu_in(&frame, vlan, MAC, N3, verify) else { return Ok(()) };
        prop_assert_eq!(vlan_of(&frame), vlan);
        let link = parse_frame(&frame).unwrap();
        prop_assert_eq!((link.dst, link.vlan, link.ether_type), (MAC, vlan, EtherType::IPV4));
        let l3 = &frame[usize::from(link.l3_offset)..];
        let ip = parse_ip(l3, verify).unwrap();
        prop_assert_eq!(ip.addrs.dst(), IpAddr::V4(N3));
        prop_assert!(!ip.is_fragment());
        let (udp, message) = UdpHeader::parse(ip.payload(l3)).unwrap();
        prop_assert_eq!(udp.dst_port(), UDP_PORT);
        let gtpu = parse_gtpu(message).unwrap();
        prop_assert_eq!((gtpu.message_type, gtpu.teid), (GtpuMessageType::G_PDU, found.teid));
        prop_assert_eq!(gtpu.unknown_comprehension, None);
        prop_assert_eq!(gtpu.psc.map(|psc| psc.qfi), found.qfi);
        let offset = usize::from(link.l3_offset) + usize::from(ip.payload_offset) + 8
            + usize::from(gtpu.payload_offset);
        prop_assert_eq!(offset, usize::from(found.inner_offset));
        let packet = parse_ip(gtpu.payload(message), true).unwrap();
        prop_assert!(is_same(&found.inner, &packet), "{:?} is not {:?}", found.inner, packet);
    }

    #[test]
    fn recognized_ip_is_what_the_walk_finds(
        changes in prop::collection::vec((0_usize..40, any::<u8>()), 0..4),
        cut in 0_usize..40,
        family in families(),
        vlan in vlans(),
        verify: bool,
    ) {
        let mut frame = in_vlan(&plain_frame_of(family, 20), vlan);
        for (at, octet) in changes {
            let at = at % frame.len();
            frame[at] = octet;
        }
        frame.truncate(frame.len().saturating_sub(cut));
        let Some(found) = usual_ip_in(&frame, vlan, MAC, verify) else { return Ok(()) };
        let link = parse_frame(&frame).unwrap();
        prop_assert_eq!((link.dst, link.vlan), (MAC, vlan));
        let packet = parse_ip(&frame[usize::from(link.l3_offset)..], verify).unwrap();
        prop_assert!(is_same(&found, &packet), "{:?} is not {:?}", found, packet);
    }

    /// The tuples of a usual packet, in both forms, are the one that the general parser finds, if
    /// it finds one: a fragment has none.
    #[test]
    fn tuples_of_a_usual_packet_are_those_of_the_walk(
        changes in prop::collection::vec((0_usize..44, any::<u8>()), 0..4),
        next in prop::sample::select(vec![protocol::TCP, protocol::UDP, protocol::ICMPV6, protocol::ICMP]),
        payload in 0_usize..8,
        family in families(),
    ) {
        let mut packet = inner_of(family, payload);
        packet[if matches!(family, PatternFamily::V4) { 9 } else { 6 }] = next;
        for (at, octet) in changes {
            let at = at % packet.len();
            packet[at] = octet;
        }
        let is_v6 = matches!(family, PatternFamily::V6);
        let frame = [&plain_frame_of(family, 0)[..14], &packet].concat();
        let Some(usual) = usual_ip(&frame, MAC, false).filter(|ip| ip.is_v6 == is_v6) else { return Ok(()) };
        let packet = &packet[..usize::from(usual.total_len)];
        let ip = parse_ip(packet, false).unwrap();
        let walked = five_tuple(packet, &ip);
        let found = usual_tuple(packet, is_v6);
        prop_assert_eq!(found.is_none(), ip.is_fragment());
        if let Some(found) = found {
            prop_assert_eq!((found.protocol, found.tos), (walked.protocol, walked.tos));
            prop_assert_eq!((found.src_port, found.dst_port), (walked.src_port, walked.dst_port));
            prop_assert_eq!((found.src, found.dst), (words(walked.addrs.src()), words(walked.addrs.dst())));
        }
        let short = usual_five_tuple(&frame, 14, usual.total_len, is_v6);
        prop_assert_eq!(short.is_none(), ip.is_fragment() || ip.payload(packet).len() < 4);
        if let (Some(short), Some(found)) = (short, found) {
            prop_assert_eq!((short.src, short.dst), (found.src[0], found.dst[0]));
            prop_assert_eq!(short.protocol, found.protocol);
            if protocol::has_ports(found.protocol) {
                let ports = u32::from(found.src_port) << 16 | u32::from(found.dst_port);
                prop_assert_eq!(short.ports, ports);
            }
        }
    }

    #[test]
    fn usual_outer_headers_are_those_of_the_general_emitter(
        tos: u8, teid: u32, src: u32, dst: u32, inner_len: u16,
        marking in prop::option::of((0_u8..64, any::<bool>())),
    ) {
        let marking = marking.map(|(qfi, rqi)| (Qfi::new(qfi).unwrap(), rqi));
        let tunnel =
            UsualTunnel { dst: Ipv4Addr::from(dst), tos, teid: Teid(teid), marking };
        let outer = UsualOuter::new(src.into());
        let general = OuterIpv4 {
            src_mac: MAC, dst_mac: GNB, vlan: VlanId::UNTAGGED, src: src.into(), dst: dst.into(),
            tos, identification: 0, src_port: UDP_PORT, teid: Teid(teid),
            psc: marking.map(|(qfi, rqi)| PduSessionContainer::downlink(qfi, rqi)), inner_len,
            service_class: None,
        };
        let link = UsualLinkHeader::new(GNB, MAC, false);
        prop_assert_eq!(tunnel.headers_len(), general.len());
        let (mut usual, mut expected) = (vec![1; tunnel.headers_len()], vec![2; general.len()]);
        let is_emitted = outer.emit(&tunnel, &link, Direction::Downlink, inner_len, &mut usual).is_some();
        prop_assert_eq!(is_emitted, emit_gtpu_ipv4(&mut expected, &general).is_ok());
        if is_emitted {
            prop_assert_eq!(&usual, &expected);
        }
        let (mut onward, marking) = (usual.clone(), marking.map(|(qfi, _)| (qfi, false)));
        let downlink = outer.emit(&tunnel, &link, Direction::Downlink, inner_len, &mut onward);
        prop_assert_eq!((downlink.is_some(), &onward), (is_emitted, &usual));
        let tunnel = UsualTunnel { marking, ..tunnel };
        let psc = marking.map(|(qfi, _)| PduSessionContainer::uplink(qfi));
        let general = OuterIpv4 { psc, ..general };
        let uplink = outer.emit(&tunnel, &link, Direction::Uplink, inner_len, &mut onward);
        prop_assert_eq!(uplink.is_some(), emit_gtpu_ipv4(&mut expected, &general).is_ok());
        if uplink.is_some() {
            prop_assert_eq!(onward, expected);
        }
    }
}

#[test]
fn usual_packet_grows_older_as_others_do() {
    for sum in 0..=u16::MAX {
        let hops = u8::try_from(sum % 251).unwrap() + 2;
        for is_v6 in [false, true] {
            let mut packet = [0x5a; 40];
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet[if is_v6 { 7 } else { 8 }] = hops;
            let mut expected = packet;
            let left = match is_v6 {
                false => decrement_ttl(&mut expected),
                true => decrement_hop_limit(&mut expected),
            };
            decrement_usual_hops(&mut packet, is_v6);
            assert_eq!((packet, left), (expected, Some(hops - 1)), "{sum:#x}");
        }
    }
}

#[test]
fn family_of_a_usual_packet_is_guessed() {
    for (family, is_v6) in [(PatternFamily::V4, false), (PatternFamily::V6, true)] {
        for psc in [None, Some(uplink(9))] {
            let frame = g_pdu_around(psc, &inner_of(family, 30));
            assert_eq!(guess_is_v6(&frame, true), is_v6, "{family:?}");
        }
        assert_eq!(guess_is_v6(&plain_frame_of(family, 30), false), is_v6, "{family:?}");
    }
    assert!(!guess_is_v6(&[0x66; 20], true));
}
