//! Outer headers onto poisoned octets: known ones, and the fields that the walk reads back.

use std::net::{Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, Qfi, Teid, VlanId, limits};
use adit_wire::checksum::Sum;
use adit_wire::udp::{UdpHeader, verify_ipv6};
use adit_wire::{
    Malformed, OuterIpv4, OuterIpv6, PduSessionContainer, PduType, UdpChecksum, emit_gtpu_ipv4,
    emit_gtpu_ipv6, parse_frame, parse_gtpu, parse_ip,
};

fn qfi(value: u8) -> Qfi {
    Qfi::new(value).unwrap()
}

fn ipv4(vlan: VlanId, psc: Option<PduSessionContainer>) -> OuterIpv4 {
    OuterIpv4 {
        src_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan,
        src: Ipv4Addr::new(10, 0, 0, 2),
        dst: Ipv4Addr::new(10, 0, 0, 1),
        tos: 0,
        identification: 0,
        src_port: 2152,
        teid: Teid(0x0102_0304),
        psc,
        service_class: None,
        inner_len: 20,
    }
}

fn ipv6(psc: Option<PduSessionContainer>, udp_checksum: UdpChecksum, inner_len: u16) -> OuterIpv6 {
    OuterIpv6 {
        src_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: VlanId::UNTAGGED,
        src: "2001:db8::2".parse().unwrap(),
        dst: "2001:db8::1".parse().unwrap(),
        traffic_class: 0xb8,
        flow_label: 0x54321,
        src_port: 40_000,
        teid: Teid(9),
        psc,
        service_class: None,
        inner_len,
        udp_checksum,
    }
}

#[test]
fn outer_ipv4_has_the_octets_written_by_hand() {
    let psc =
        PduSessionContainer { pdu_type: PduType::Downlink, qfi: qfi(9), rqi: true, ppi: None };
    let mut out = [0xa5; 58];
    emit_gtpu_ipv4(&mut out, &ipv4(VlanId::UNTAGGED, Some(psc))).unwrap();
    let expected = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0, // Ethernet
        0x45, 0, 0, 64, 0, 0, 0x40, 0, 64, 17, 0x26, 0xab, 10, 0, 0, 2, 10, 0, 0, 1, // IPv4
        0x08, 0x68, 0x08, 0x68, 0, 44, 0, 0, // UDP
        0x34, 255, 0, 28, 1, 2, 3, 4, 0, 0, 0, 0x85, 1, 0, 0x49, 0, // GTP-U, container
    ];
    assert_eq!(out, expected);
}

/// Spec: TS 29.281 §5.2.2.3, Figure 5.2.1-1.
#[test]
fn service_class_stands_alone_or_behind_the_container() {
    let psc = |ppi| PduSessionContainer { ppi, ..PduSessionContainer::downlink(qfi(9), false) };
    let cases: [(Option<PduSessionContainer>, &[u8]); 3] = [
        (None, &[0, 0, 0, 0x20, 1, 5, 6, 0]),
        (Some(psc(None)), &[0, 0, 0, 0x85, 1, 0, 9, 0x20, 1, 5, 6, 0]),
        (Some(psc(Some(3))), &[0, 0, 0, 0x85, 2, 0, 0x89, 0x60, 0, 0, 0, 0x20, 1, 5, 6, 0]),
    ];
    for (psc, extensions) in cases {
        let outer = OuterIpv4 { service_class: Some((5, 6)), ..ipv4(VlanId::UNTAGGED, psc) };
        let mut out = vec![0xa5; outer.len()];
        emit_gtpu_ipv4(&mut out, &outer).unwrap();
        let gtpu = &out[14 + 20 + 8..];
        let len = u8::try_from(extensions.len()).unwrap() + 20;
        assert_eq!(gtpu[..8], [0x34, 255, 0, len, 1, 2, 3, 4]);
        assert_eq!(&gtpu[8..], extensions);
        let inner = [7; 21];
        let checksum = UdpChecksum::Compute(Sum::new().bytes(&inner));
        let outer = OuterIpv6 { service_class: Some((5, 6)), ..ipv6(psc, checksum, 21) };
        let mut frame = vec![0xa5; outer.len()];
        emit_gtpu_ipv6(&mut frame, &outer).unwrap();
        frame.extend_from_slice(&inner);
        verify_ipv6(outer.src, outer.dst, &frame[14 + 40..]).unwrap();
        let gtpu = parse_gtpu(&frame[14 + 40 + 8..]).unwrap();
        assert_eq!(gtpu.psc.map(|psc| psc.ppi), psc.map(|psc| psc.ppi));
    }
}

#[test]
fn outer_ipv4_is_read_back_in_every_shape() {
    for vlan in [VlanId::UNTAGGED, VlanId::new(7).unwrap()] {
        for ppi in [None, Some(0), Some(7)] {
            for psc in [
                None,
                Some(PduSessionContainer {
                    pdu_type: PduType::Downlink,
                    qfi: qfi(63),
                    rqi: false,
                    ppi,
                }),
            ] {
                let outer = ipv4(vlan, psc);
                let mut frame = vec![0xa5; outer.len() + 20];
                let (room, _) = frame.split_at_mut(outer.len());
                emit_gtpu_ipv4(room, &outer).unwrap();
                let link = parse_frame(&frame).unwrap();
                assert_eq!((link.vlan, link.dst, link.src), (vlan, outer.dst_mac, outer.src_mac));
                let packet = &frame[usize::from(link.l3_offset)..];
                let ip = parse_ip(packet, true).unwrap();
                assert_eq!(usize::from(ip.total_len), packet.len());
                let (udp, message) = UdpHeader::parse(ip.payload(packet)).unwrap();
                assert_eq!(usize::from(udp.len()), packet.len() - 20);
                let gtpu = parse_gtpu(message).unwrap();
                assert_eq!((gtpu.teid, gtpu.payload(message)), (outer.teid, &[0xa5; 20][..]));
                let read = gtpu.psc.map(|psc| (psc.pdu_type, psc.qfi, psc.rqi, psc.ppi));
                assert_eq!(read, psc.map(|p| (PduType::Downlink, p.qfi, p.rqi, p.ppi)));
            }
        }
    }
}

#[test]
fn outer_headers_into_other_room_are_refused() {
    let outer = ipv4(VlanId::UNTAGGED, None);
    for len in (0..outer.len()).chain([outer.len() + 1]) {
        let refused = emit_gtpu_ipv4(&mut vec![0; len], &outer);
        assert!(matches!(refused, Err(Malformed::BadLength { .. })), "room of {len}");
    }
    let longest = OuterIpv4 { inner_len: 65_535 - 36, ..outer };
    let mut room = vec![0; outer.len()];
    assert_eq!(emit_gtpu_ipv4(&mut room, &longest), Ok(()));
    let longer = OuterIpv4 { inner_len: 65_535 - 35, ..outer };
    assert!(matches!(emit_gtpu_ipv4(&mut room, &longer), Err(Malformed::BadLength { .. })));
}

#[test]
fn outer_headers_fit_the_headroom_the_house_reserves() {
    let psc =
        PduSessionContainer { pdu_type: PduType::Downlink, qfi: qfi(1), rqi: false, ppi: None };
    let longest =
        OuterIpv6 { vlan: VlanId::new(1).unwrap(), ..ipv6(Some(psc), UdpChecksum::Zero, 0) };
    assert!(longest.len() <= limits::ENCAPSULATION_BYTES_MAX);
}

#[test]
fn outer_ipv6_checksum_is_right_or_zero() {
    for inner_len in [0usize, 1, 2, 3, 41, 1400] {
        let inner: Vec<u8> = (0u8..=255).cycle().take(inner_len).collect();
        for ppi in [None, Some(5)] {
            for psc in [
                None,
                Some(PduSessionContainer {
                    pdu_type: PduType::Downlink,
                    qfi: qfi(5),
                    rqi: true,
                    ppi,
                }),
            ] {
                let sum = UdpChecksum::Compute(Sum::new().bytes(&inner));
                for udp_checksum in [UdpChecksum::Zero, sum] {
                    let outer = ipv6(psc, udp_checksum, u16::try_from(inner_len).unwrap());
                    let mut frame = vec![0xa5; outer.len()];
                    emit_gtpu_ipv6(&mut frame, &outer).unwrap();
                    frame.extend_from_slice(&inner);
                    let packet = &frame[14..];
                    let ip = parse_ip(packet, true).unwrap();
                    assert_eq!((ip.tos, ip.flow_label, ip.ttl), (0xb8, 0x54321, 64));
                    let datagram = ip.payload(packet);
                    let (udp, message) = UdpHeader::parse(datagram).unwrap();
                    assert_eq!(udp.checksum() == 0, udp_checksum == UdpChecksum::Zero);
                    assert_eq!(verify_ipv6(outer.src, outer.dst, datagram), Ok(()));
                    let gtpu = parse_gtpu(message).unwrap();
                    assert_eq!(gtpu.payload(message), inner);
                    assert_eq!(gtpu.psc.map(|psc| psc.ppi), psc.map(|psc| psc.ppi));
                }
            }
        }
    }
    let any: Ipv6Addr = "2001:db8::2".parse().unwrap();
    assert!(verify_ipv6(any, any, &[0, 1, 0, 2, 0, 8, 1, 1]).is_err());
}
