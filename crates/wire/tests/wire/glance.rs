//! A glance finds the same in a frame as the walk, without reading it whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, Qfi, Teid, VlanId};
use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::udp::UdpHeader;
use adit_wire::{
    EtherType, Glance, Ipv4Split, Malformed, OuterIpv4, OuterIpv6, PduSessionContainer,
    UdpChecksum, UeAddress, emit_gtpu_ipv4, emit_gtpu_ipv6, parse_frame, parse_gtpu, parse_ip,
    protocol,
};
use proptest::prelude::*;
use zerocopy::IntoBytes;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const N3_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 1);
const PEER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 9);
const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 7);
const HOST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, 5);
const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 9, 0, 0, 0, 2);
const TEID: Teid = Teid(0x0102_0304);

fn is_ours(addr: IpAddr) -> bool {
    addr == IpAddr::V4(N3) || addr == IpAddr::V6(N3_V6)
}

/// A packet of `payload` octets, from a UE unless it goes to one.
fn ip_packet(src: IpAddr, dst: IpAddr, payload: &[u8]) -> Vec<u8> {
    let mut packet = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Header::new(&Ipv4Fields {
            tos: 0,
            total_len: u16::try_from(20 + payload.len()).unwrap(),
            identification: 7,
            dont_fragment: false,
            ttl: 9,
            protocol: protocol::UDP,
            src,
            dst,
        })
        .as_bytes()
        .to_vec(),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header::new(&Ipv6Fields {
            traffic_class: 0,
            flow_label: 5,
            payload_len: u16::try_from(payload.len()).unwrap(),
            next_header: protocol::UDP,
            hop_limit: 9,
            src,
            dst,
        })
        .as_bytes()
        .to_vec(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => unreachable!(),
    };
    packet.extend(payload);
    packet
}

fn framed(packet: &[u8]) -> Vec<u8> {
    let ether_type = if packet[0] >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
    [&OURS.0[..], &PEER_MAC.0, &ether_type.0.to_be_bytes(), packet].concat()
}

fn tunneled(outer_v6: bool, psc: Option<PduSessionContainer>, inner: &[u8]) -> Vec<u8> {
    let inner_len = u16::try_from(inner.len()).unwrap();
    let mut frame = vec![0; 200];
    let len = match outer_v6 {
        false => {
            let outer = OuterIpv4 {
                src_mac: PEER_MAC,
                dst_mac: OURS,
                vlan: VlanId::UNTAGGED,
                src: PEER,
                dst: N3,
                tos: 0,
                identification: 9,
                src_port: 40_000,
                teid: TEID,
                psc,
                service_class: None,
                inner_len,
            };
            emit_gtpu_ipv4(&mut frame[..outer.len()], &outer).unwrap();
            outer.len()
        }
        true => {
            let outer = OuterIpv6 {
                src_mac: PEER_MAC,
                dst_mac: OURS,
                vlan: VlanId::UNTAGGED,
                src: PEER_V6,
                dst: N3_V6,
                traffic_class: 0,
                flow_label: 0,
                src_port: 40_000,
                teid: TEID,
                psc,
                service_class: None,
                inner_len,
                udp_checksum: UdpChecksum::Zero,
            };
            emit_gtpu_ipv6(&mut frame[..outer.len()], &outer).unwrap();
            outer.len()
        }
    };
    frame.truncate(len);
    frame.extend(inner);
    frame
}

fn containers() -> impl Strategy<Value = Option<PduSessionContainer>> {
    let flow = Qfi::new(9).unwrap();
    let paging = PduSessionContainer { ppi: Some(3), ..PduSessionContainer::downlink(flow, false) };
    prop::sample::select(vec![None, Some(PduSessionContainer::uplink(flow)), Some(paging)])
}

/// Packets of users and others, in tunnels and without.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let ends = prop::sample::select(vec![
        (IpAddr::V4(UE), IpAddr::V4(HOST)),
        (IpAddr::V6(UE_V6), IpAddr::V6(HOST_V6)),
        (IpAddr::V4(HOST), IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1))),
        (IpAddr::V6(HOST_V6), IpAddr::V6("ff02::1".parse().unwrap())),
        (IpAddr::V4(PEER), IpAddr::V4(N3)),
    ]);
    let inner = (ends, 0..40_usize)
        .prop_map(|((src, dst), payload)| ip_packet(src, dst, &vec![0x5a; payload]));
    (inner, any::<[bool; 2]>(), containers()).prop_map(|(inner, [in_tunnel, outer_v6], psc)| {
        if in_tunnel { tunneled(outer_v6, psc, &inner) } else { framed(&inner) }
    })
}

/// The result of the walk for a whole packet to the GTP-U port of ours: the tunnel of a packet of a
/// user, and where its GTP-U header begins.
fn walk(frame: &[u8]) -> Result<Option<(Teid, usize)>, Malformed> {
    let link = parse_frame(frame)?;
    let ip_at = usize::from(link.l3_offset);
    let ip = parse_ip(&frame[ip_at..], false)?;
    let of_family = if ip.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    if link.ether_type != of_family {
        return Err(Malformed::BadVersion(frame[ip_at] >> 4));
    }
    if !is_ours(ip.addrs.dst()) || ip.protocol != protocol::UDP || ip.is_fragment() {
        return Ok(None);
    }
    let (udp, message) = UdpHeader::parse(ip.payload(&frame[ip_at..]))?;
    if udp.dst_port() != UDP_PORT {
        return Ok(None);
    }
    let gtpu = parse_gtpu(message)?;
    let is_of_user =
        matches!(gtpu.message_type, GtpuMessageType::G_PDU | GtpuMessageType::END_MARKER);
    let gtpu_at = ip_at + usize::from(ip.payload_offset) + size_of::<UdpHeader>();
    Ok(is_of_user.then_some((gtpu.teid, gtpu_at)))
}

/// The source of the packet in the tunnel, by the walk.
fn walked_source(gtpu: &[u8]) -> Option<UeAddress> {
    let message = parse_gtpu(gtpu).ok()?;
    let inner = message.payload(gtpu);
    let is_g_pdu = message.message_type == GtpuMessageType::G_PDU;
    is_g_pdu.then(|| parse_ip(inner, false).ok())?.map(|ip| UeAddress::of(ip.addrs.src()))
}

/// Another octet somewhere, often the flags of a GTP-U header behind either IP header.
fn change() -> impl Strategy<Value = (usize, u8)> {
    let flags = (prop::sample::select(vec![14 + 20 + 8, 14 + 40 + 8]), 0x30..0x38_u8);
    prop_oneof![(12..120_usize, any::<u8>()), flags]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn glance_and_walk_agree_on_frames_with_changed_octets(
        frame in frames(),
        changes in prop::collection::vec(change(), 0..3),
        cut in 0..200_usize,
    ) {
        let mut frame = frame;
        for (at, octet) in changes {
            let len = frame.len();
            frame[at.min(len - 1)] = octet;
        }
        frame.truncate(frame.len() - if cut < 20 { cut.min(frame.len()) } else { 0 });
        let tag_len = parse_frame(&frame).map_or(0, |link| usize::from(link.l3_offset) - 14);
        let glance = Glance::at(&frame, tag_len, is_ours);
        let has_extensions = frame.get(14 + tag_len + 6).is_some_and(|next| *next != protocol::UDP);
        match (walk(&frame), glance) {
            // Packets with extension headers go where fragments of their sender go.
            (Ok(Some(_)), Glance::TunnelFragment(_)) => {
                prop_assert!(frame[14 + tag_len] >> 4 == 6 && has_extensions);
            }
            (Ok(Some((teid, gtpu_at))), glance) => {
                prop_assert_eq!(glance, Glance::Tunneled { teid, gtpu_at });
                if let Some(source) = walked_source(&frame[gtpu_at..]) {
                    let (found, _) = Glance::inner_addresses(&frame[gtpu_at..]).unwrap();
                    prop_assert_eq!(UeAddress::of(found), source);
                    prop_assert_eq!(Glance::inner_source(&frame[gtpu_at..]), Some(source));
                }
            }
            (Ok(None), glance) => {
                let is_tunneled = matches!(glance, Glance::Tunneled { .. });
                prop_assert!(!is_tunneled);
            }
            // The worker drops malformed packets: any of them.
            (Err(_), _) => {}
        }
    }

    #[test]
    fn glance_at_arbitrary_octets_ends(octets in prop::collection::vec(any::<u8>(), 0..90)) {
        let _ = Glance::at(&octets, 0, is_ours);
        let _ = Glance::at(&octets, 4, is_ours);
        let _ = Glance::inner_source(&octets);
    }
}

#[test]
fn plain_packets_are_known_by_their_destination() {
    let glance = |src, dst| Glance::at(&framed(&ip_packet(src, dst, &[0; 8])), 0, is_ours);
    assert_eq!(glance(HOST.into(), UE.into()), Glance::PlainV4(UE));
    assert_eq!(glance(HOST_V6.into(), UE_V6.into()), Glance::PlainV6(UE_V6));
    let all_nodes: Ipv6Addr = "ff02::1".parse().unwrap();
    let link_local: Ipv6Addr = "fe80::7".parse().unwrap();
    for dst in [all_nodes, link_local] {
        assert_eq!(glance(HOST_V6.into(), dst.into()), Glance::Signaling);
    }
    for dst in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
        assert_eq!(glance(HOST.into(), dst.into()), Glance::Signaling);
    }
}

#[test]
fn messages_without_user_data_are_signaling() {
    for kind in [GtpuMessageType::ECHO_REQUEST, GtpuMessageType::ERROR_INDICATION] {
        let mut frame = tunneled(false, None, &ip_packet(UE.into(), HOST.into(), &[]));
        frame[14 + 20 + 8 + 1] = kind.0;
        assert_eq!(Glance::at(&frame, 0, is_ours), Glance::Signaling, "{kind:?}");
    }
    let mut arp = framed(&[0; 28]);
    arp[12..14].copy_from_slice(&EtherType::ARP.0.to_be_bytes());
    assert_eq!(Glance::at(&arp, 0, is_ours), Glance::Signaling);
    let other_port = framed(&ip_packet(PEER.into(), N3.into(), &[0; 40]));
    assert_eq!(Glance::at(&other_port, 0, is_ours), Glance::Signaling);
}

#[test]
fn source_is_found_behind_numbers() {
    let inner = ip_packet(UE.into(), HOST.into(), &[]);
    // The last of the optional octets would name an extension header if flag E were set.
    let frame = tunneled(false, None, &[&[1, 2, 3, 0x85], &inner[..]].concat());
    for flags in [0x31, 0x32, 0x33] {
        let mut gtpu = frame[42..].to_vec();
        gtpu[0] = flags;
        assert_eq!(Glance::inner_source(&gtpu), Some(UeAddress::of(UE.into())), "{flags:#x}");
    }
}

#[test]
fn end_marker_has_a_tunnel_and_no_source() {
    let mut frame = tunneled(false, None, &[]);
    frame[14 + 20 + 8 + 1] = GtpuMessageType::END_MARKER.0;
    let expected = Glance::Tunneled { teid: TEID, gtpu_at: 42 };
    assert_eq!(Glance::at(&frame, 0, is_ours), expected);
    assert_eq!(Glance::inner_source(&frame[42..]), None);
}

#[test]
fn fragments_of_a_tunnel_packet_meet() {
    let frame = tunneled(false, None, &ip_packet(UE.into(), HOST.into(), &[0x5a; 90]));
    let mut whole = frame[14..].to_vec();
    // DF is clear.
    whole[6] = 0;
    let parts = Ipv4Split::new(&whole, 68).unwrap();
    let glances: Vec<_> = (0..parts.count())
        .map(|n| {
            let mut part = vec![0; parts.len(n)];
            parts.emit(&whole, n, &mut part).unwrap();
            Glance::at(&framed(&part), 0, is_ours)
        })
        .collect();
    assert!(parts.count() > 2 && matches!(glances[0], Glance::TunnelFragment(_)));
    assert!(glances.iter().all(|glance| *glance == glances[0]), "{glances:?}");
}
