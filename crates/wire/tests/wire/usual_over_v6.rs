//! The usual G-PDU over IPv6: a glance recognizes the packets that the walk finds, and no others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::{Direction, MacAddr, Qfi, Teid, VlanId};
use adit_wire::checksum::Sum;
use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::udp::{UdpHeader, verify_ipv6};
use adit_wire::vlan::VlanTag;
use adit_wire::{
    EtherType, GPduV6Pattern, INNER_OFFSET_OVER_IPV6_MIN, IpPacket, OrderingKey, OuterIpv6,
    PduSessionContainer, UdpChecksum, UsualGPdu, UsualLinkHeader, UsualOuterV6, UsualTunnel,
    decrement_usual_hops, emit_gtpu_ipv6, ordering_key_over_v6, parse_frame, parse_gtpu, parse_ip,
    protocol, usual_g_pdu_over_v6,
};
use proptest::prelude::*;
use zerocopy::IntoBytes;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const GNB: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const N3: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 2);
const PEER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 1);
const TEID: Teid = Teid(0x0102_0304);

/// Octets of the frame in front of UDP, without a tag.
const UDP_AT: usize = 54;

fn inner(is_v6: bool, payload: usize) -> Vec<u8> {
    let mut packet = match is_v6 {
        false => Ipv4Header::new(&Ipv4Fields {
            tos: 0,
            total_len: u16::try_from(20 + payload).unwrap(),
            identification: 7,
            dont_fragment: true,
            ttl: 9,
            protocol: protocol::UDP,
            src: Ipv4Addr::new(10, 45, 0, 7),
            dst: Ipv4Addr::new(198, 51, 100, 9),
        })
        .as_bytes()
        .to_vec(),
        true => Ipv6Header::new(&Ipv6Fields {
            traffic_class: 0,
            flow_label: 5,
            payload_len: u16::try_from(payload).unwrap(),
            next_header: protocol::UDP,
            hop_limit: 9,
            src: Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, 1),
            dst: Ipv6Addr::new(0x2001, 0xdb8, 0xff, 9, 0, 0, 0, 2),
        })
        .as_bytes()
        .to_vec(),
    };
    packet.extend((0..payload).map(|at| u8::try_from(at % 251).unwrap()));
    packet
}

fn frame(vlan: VlanId, psc: Option<PduSessionContainer>, inner: &[u8], zero: bool) -> Vec<u8> {
    let sum = UdpChecksum::Compute(Sum::new().bytes(inner));
    let outer = OuterIpv6 {
        src_mac: GNB,
        dst_mac: MAC,
        vlan,
        src: PEER,
        dst: N3,
        traffic_class: 0x2e,
        flow_label: 9,
        src_port: 40_000,
        teid: TEID,
        psc,
        service_class: None,
        inner_len: u16::try_from(inner.len()).unwrap(),
        udp_checksum: if zero { UdpChecksum::Zero } else { sum },
    };
    let mut frame = vec![0; outer.len()];
    emit_gtpu_ipv6(&mut frame, &outer).unwrap();
    frame.extend(inner);
    frame
}

fn usual(frame: &[u8], vlan: VlanId) -> Option<UsualGPdu> {
    let pattern = GPduV6Pattern::new(MAC, vlan, N3);
    match vlan {
        VlanId::UNTAGGED => usual_g_pdu_over_v6::<0>(frame, &pattern),
        _ => usual_g_pdu_over_v6::<{ VlanTag::LEN }>(frame, &pattern),
    }
}

/// The G-PDU of a frame and its inner packet, as the walk finds them.
fn walk(bytes: &[u8]) -> Option<(Teid, Option<Qfi>, usize, IpPacket)> {
    let frame = parse_frame(bytes).ok().filter(|frame| frame.ether_type == EtherType::IPV6)?;
    let l3 = &bytes[usize::from(frame.l3_offset)..];
    let ip = parse_ip(l3, true).ok()?;
    let is_ours = frame.dst == MAC && ip.addrs.dst() == IpAddr::V6(N3);
    if !is_ours || ip.is_fragment() || ip.protocol != protocol::UDP {
        return None;
    }
    let datagram = ip.payload(l3);
    let (udp, message) = UdpHeader::parse(datagram).ok()?;
    let IpAddr::V6(src) = ip.addrs.src() else { return None };
    verify_ipv6(src, N3, &datagram[..usize::from(udp.len())]).ok()?;
    let gtpu = parse_gtpu(message).ok()?;
    if udp.dst_port() != UDP_PORT
        || gtpu.message_type != GtpuMessageType::G_PDU
        || gtpu.unknown_comprehension.is_some()
    {
        return None;
    }
    let inner = parse_ip(gtpu.payload(message), true).ok()?;
    let offset = usize::from(frame.l3_offset + 8 + u8::try_from(gtpu.payload_offset).unwrap())
        + usize::from(ip.payload_offset);
    Some((gtpu.teid, gtpu.psc.map(|psc| psc.qfi), offset, inner))
}

fn half(addr: IpAddr) -> u64 {
    match addr {
        IpAddr::V4(addr) => addr.to_bits().into(),
        IpAddr::V6(addr) => u64::try_from(addr.to_bits() >> 64).unwrap(),
    }
}

fn assert_same(bytes: &[u8], found: &UsualGPdu) {
    let (teid, qfi, offset, ip) = walk(bytes).unwrap();
    assert_eq!((found.teid, found.qfi, usize::from(found.inner_offset)), (teid, qfi, offset));
    assert_eq!(found.inner.src, half(ip.addrs.src()));
    assert_eq!(found.inner.dst, half(ip.addrs.dst()));
    assert_eq!(found.inner.is_v6, ip.addrs.src().is_ipv6());
    assert_eq!(found.inner.total_len, ip.total_len);
    assert!(ip.ttl > 1 && found.inner_offset >= INNER_OFFSET_OVER_IPV6_MIN);
}

fn vlans() -> impl Strategy<Value = VlanId> {
    prop::sample::select(vec![VlanId::UNTAGGED, VlanId::new(0x123).unwrap()])
}

fn containers() -> impl Strategy<Value = Option<PduSessionContainer>> {
    let flow = Qfi::new(9).unwrap();
    let uplink = PduSessionContainer::uplink(flow);
    prop::sample::select(vec![None, Some(uplink), Some(PduSessionContainer::downlink(flow, true))])
}

proptest! {
    #[test]
    fn g_pdu_over_ipv6_is_usual_with_its_checksum_or_none(
        vlan in vlans(), psc in containers(), is_v6: bool, zero: bool, payload in 0..200_usize,
        padding in 0..7_usize, flip in any::<prop::sample::Index>(),
    ) {
        let mut frame = frame(vlan, psc, &inner(is_v6, payload), zero);
        let end = frame.len();
        frame.resize(end + padding, 0xa5);
        assert_same(&frame, &usual(&frame, vlan).unwrap());
        // The datagram begins with its source port, which only the checksum protects.
        let tag_len = if vlan == VlanId::UNTAGGED { 0 } else { VlanTag::LEN };
        let at = UDP_AT + tag_len + flip.index(2);
        frame[at] ^= 0x40;
        prop_assert_eq!(usual(&frame, vlan).is_some(), zero);
    }

    #[test]
    fn usual_outer_headers_over_ipv6_are_those_of_the_general_emitter(
        tos: u8, teid: u32, src: u128, dst: u128, is_v6: bool, is_uplink: bool,
        payload in prop_oneof![0..200_usize, Just(64_900)],
        octets in any::<[u8; 8]>(), marking in prop::option::of((0_u8..64, any::<bool>())),
    ) {
        let marking = marking.map(|(qfi, rqi)| (Qfi::new(qfi).unwrap(), rqi && !is_uplink));
        let direction = if is_uplink { Direction::Uplink } else { Direction::Downlink };
        let mut inner = inner(is_v6, payload);
        for (octet, change) in inner.iter_mut().skip(40).zip(octets) {
            *octet = change;
        }
        let inner_len = u16::try_from(inner.len()).unwrap();
        let mut forwarded = inner.clone();
        decrement_usual_hops(&mut forwarded, is_v6);
        let psc = |(qfi, rqi)| match is_uplink {
            true => PduSessionContainer::uplink(qfi),
            false => PduSessionContainer::downlink(qfi, rqi),
        };
        let general = OuterIpv6 {
            src_mac: MAC, dst_mac: GNB, vlan: VlanId::UNTAGGED, src: src.into(), dst: dst.into(),
            traffic_class: tos, flow_label: 0, src_port: UDP_PORT, teid: Teid(teid),
            psc: marking.map(psc), inner_len,
            service_class: None,
            udp_checksum: UdpChecksum::Compute(Sum::new().bytes(&forwarded)),
        };
        let mut expected = vec![2; general.len()];
        emit_gtpu_ipv6(&mut expected, &general).unwrap();
        expected.extend(&forwarded);
        let tunnel = UsualTunnel { dst: Ipv6Addr::from(dst), tos, teid: Teid(teid), marking };
        let link = UsualLinkHeader::new(GNB, MAC, true);
        prop_assert_eq!(tunnel.headers_len(), general.len());
        prop_assert_eq!(tunnel.ip_len(inner_len).map(usize::from), Some(expected.len() - 14));
        let outer = UsualOuterV6::new(src.into());
        let mut usual = vec![1; tunnel.headers_len()];
        usual.extend(inner);
        let short = usual.len() - 1;
        let cut = outer.emit(&tunnel, &link, direction, inner_len, is_v6, &mut usual[..short]);
        prop_assert!(cut.is_none() && usual[0] == 1, "no room");
        outer.emit(&tunnel, &link, direction, inner_len, is_v6, &mut usual).unwrap();
        prop_assert_eq!(usual, expected);
        prop_assert!(tunnel.ip_len(u16::MAX - 55).is_none());
    }

    #[test]
    fn changed_frame_is_usual_only_as_the_walk_reads_it(
        vlan in vlans(), psc in containers(), is_v6: bool, zero: bool, payload in 0..60_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in 0..40_usize,
    ) {
        let mut frame = frame(vlan, psc, &inner(is_v6, payload), zero);
        for (at, octet) in changes {
            let at = at.index(frame.len().min(110));
            frame[at] = octet;
        }
        frame.truncate(frame.len() - if cut < 20 { cut } else { 0 });
        if let Some(found) = usual(&frame, vlan) {
            assert_same(&frame, &found);
        }
    }
}

#[test]
fn sequence_number_without_a_container_is_skipped() {
    let mut bytes = frame(VlanId::UNTAGGED, None, &inner(false, 30), true);
    bytes[62] |= 2;
    bytes.splice(70..70, [1, 2, 3, 0x85]);
    for at in [18, 58, 64] {
        let len = u16::from_be_bytes([bytes[at], bytes[at + 1]]) + 4;
        bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }
    let found = usual(&bytes, VlanId::UNTAGGED).unwrap();
    assert_eq!((found.inner_offset, found.qfi), (74, None));
    assert_same(&bytes, &found);
}

#[test]
fn frame_that_is_not_usual_has_the_key_of_its_tunnel() {
    let bytes = frame(VlanId::UNTAGGED, None, &inner(false, 30), false);
    let key = |bytes: &[u8]| ordering_key_over_v6(bytes, N3);
    assert_eq!(key(&bytes), Some(OrderingKey::Tunneled(TEID)));
    let with = |next_header: u8| {
        let mut bytes = bytes.clone();
        bytes[20] = next_header;
        key(&bytes)
    };
    assert_eq!(with(0), Some(OrderingKey::Unknown), "options");
    assert_eq!(with(44), Some(OrderingKey::Nothing), "a fragment");
    assert_eq!(with(58), Some(OrderingKey::Nothing), "neighbor discovery");
    assert_eq!(ordering_key_over_v6(&bytes, PEER), None);
    assert_eq!(key(&bytes[..60]), Some(OrderingKey::Nothing));
    assert_eq!(key(&bytes[..40]), None);
    let mut group = bytes.clone();
    group[38] = 0xff;
    assert_eq!(key(&group), Some(OrderingKey::Nothing));
    let mut v4 = bytes;
    v4[12..14].copy_from_slice(&[8, 0]);
    assert_eq!(key(&v4), None);
}
