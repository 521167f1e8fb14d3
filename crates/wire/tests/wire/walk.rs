//! The walk over whole packets with octets written by hand, and every prefix of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::{Qfi, Teid};
use adit_wire::gtpu::{self, ErrorIndication, GtpuMessageType};
use adit_wire::gtpu_ext::ExtensionType;
use adit_wire::gtpu_ie::{GtpuIe, GtpuIes};
use adit_wire::udp::UdpHeader;
use adit_wire::{
    EtherType, FragmentKind, Malformed, PduType, five_tuple, parse_frame, parse_gtpu, parse_ip,
};

/// An uplink G-PDU as a gNB sends it: VLAN 5, TEID 0x01020304, QFI 9, an inner UDP packet.
const UPLINK: [u8; 82] = [
    0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x81, 0, 0, 5, 0x08, 0, // Ethernet, VLAN
    0x45, 0, 0, 64, 0, 0, 0, 0, 64, 17, 0x66, 0xab, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
    0x08, 0x68, 0x08, 0x68, 0, 44, 0, 0, // UDP
    0x34, 255, 0, 28, 1, 2, 3, 4, 0, 0, 0, 0x85, 1, 0x10, 9, 0, // GTP-U, container
    0x45, 0x10, 0, 20, 0, 0, 0x40, 0, 63, 6, 0x21, 0x97, 10, 45, 0, 1, 8, 8, 8,
    8, // inner IPv4
];

#[test]
fn uplink_known_octets_are_walked_to_the_inner_packet() {
    let frame = parse_frame(&UPLINK).unwrap();
    assert_eq!((frame.vlan.value(), frame.l3_offset), (5, 18));
    assert_eq!((frame.dst.0[5], frame.src.0[5], frame.ether_type), (2, 1, EtherType::IPV4));
    let packet = &UPLINK[18..];
    let ip = parse_ip(packet, true).unwrap();
    assert_eq!((ip.total_len, ip.payload_offset, ip.protocol, ip.ttl), (64, 20, 17, 64));
    assert_eq!(ip.addrs.src(), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    let (udp, message) = UdpHeader::parse(ip.payload(packet)).unwrap();
    assert_eq!(udp.dst_port(), gtpu::UDP_PORT);
    let gtpu = parse_gtpu(message).unwrap();
    assert_eq!((gtpu.message_type, gtpu.teid), (GtpuMessageType::G_PDU, Teid(0x0102_0304)));
    assert_eq!((gtpu.payload_offset, gtpu.payload_len, gtpu.sequence), (16, 20, None));
    let psc = gtpu.psc.unwrap();
    assert_eq!((psc.pdu_type, psc.qfi.value()), (PduType::Uplink, 9));
    let inner = gtpu.payload(message);
    let inner_ip = parse_ip(inner, true).unwrap();
    assert_eq!((inner_ip.tos, inner_ip.ttl, inner_ip.dont_fragment), (0x10, 63, true));
    assert_eq!(inner_ip.addrs.dst(), IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8)));
}

#[test]
fn uplink_every_prefix_is_refused_by_some_step() {
    for len in 0..UPLINK.len() {
        let bytes = &UPLINK[..len];
        let walked = parse_frame(bytes).and_then(|frame| {
            let packet = bytes.get(usize::from(frame.l3_offset)..).unwrap_or_default();
            let ip = parse_ip(packet, true)?;
            let (_, message) = UdpHeader::parse(ip.payload(packet))?;
            parse_gtpu(message)
        });
        assert!(walked.is_err(), "prefix of {len}");
    }
    let message = &UPLINK[46..];
    for len in 0..message.len() {
        assert!(parse_gtpu(&message[..len]).is_err(), "prefix of {len}");
    }
}

#[test]
fn gtpu_of_other_version_or_protocol_type_is_refused() {
    for flags in 0..=255u8 {
        let parsed = parse_gtpu(&[flags, 255, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0]);
        match flags >> 4 {
            3 => assert!(parsed.is_ok(), "spare bit and flags {flags:02x} are accepted"),
            other => assert_eq!(parsed, Err(Malformed::BadVersion(other))),
        }
    }
}

#[test]
fn gtpu_optional_part_is_there_with_any_flag_and_evaluated_by_its_own() {
    // Without E, the next extension type is not evaluated.
    for flags in [0x31, 0x32, 0x33] {
        let message = [flags, 255, 0, 5, 0, 0, 0, 1, 0xab, 0xcd, 0, 0x85, 0x45];
        let gtpu = parse_gtpu(&message).unwrap();
        assert_eq!((gtpu.payload_offset, gtpu.payload_len, gtpu.psc), (12, 1, None));
        assert_eq!(gtpu.sequence, (flags & 2 != 0).then_some(0xabcd));
        assert!(parse_gtpu(&[flags, 255, 0, 3, 0, 0, 0, 1, 0, 0, 0]).is_err());
    }
    let plain = parse_gtpu(&[0x30, 255, 0, 1, 0, 0, 0, 1, 0x45, 0xee]).unwrap();
    assert_eq!((plain.payload_offset, plain.payload_len), (8, 1), "octets behind are no payload");
}

#[test]
fn gtpu_unknown_extension_is_reported_only_when_it_must_be_understood() {
    for kind in 1..=255u8 {
        let message = [0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, kind, 1, 0x10, 9, 0];
        let gtpu = parse_gtpu(&message).unwrap();
        let known = ExtensionType(kind).is_known();
        let expected = (kind >= 0x80 && !known).then_some(kind);
        assert_eq!(gtpu.unknown_comprehension, expected, "type {kind:02x}");
        assert_eq!((gtpu.payload_offset, gtpu.payload_len), (16, 0));
        assert_eq!(gtpu.psc.is_some(), kind == 0x85);
        assert_eq!(gtpu.udp_port, (kind == 0x40).then_some(0x1009));
    }
}

#[test]
fn gtpu_container_behind_other_extensions_is_found() {
    let message =
        [0x34, 255, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0xc7, 1, 1, 2, 0x20, 1, 5, 0, 0x85, 1, 0, 0x4a, 0];
    let gtpu = parse_gtpu(&message).unwrap();
    let psc = gtpu.psc.unwrap();
    assert_eq!((psc.pdu_type, psc.qfi.value(), psc.rqi), (PduType::Downlink, 10, true));
    assert_eq!((gtpu.unknown_comprehension, gtpu.payload_offset), (Some(0xc7), 24));
}

#[test]
fn gtpu_chain_of_length_zero_or_beyond_the_message_is_refused() {
    for units in [0u8, 2, 255] {
        let message = [0x34, 255, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0x85, units, 0x10, 9, 0];
        assert_eq!(parse_gtpu(&message), Err(Malformed::BadExtension(0x85)), "{units} units");
    }
}

#[test]
fn ip_of_fragments_is_distinguished() {
    let cases = [
        ([0x00, 0x00], FragmentKind::None),
        ([0x40, 0x00], FragmentKind::None),
        ([0x20, 0x00], FragmentKind::First),
        ([0x20, 0x01], FragmentKind::Later),
        ([0x00, 0x01], FragmentKind::Later),
    ];
    for (flags, fragment) in cases {
        let mut packet = [0u8; 28];
        packet[..20].copy_from_slice(&UPLINK[18..38]);
        (packet[3], packet[6], packet[7]) = (28, flags[0], flags[1]);
        packet[20..24].copy_from_slice(&[0, 53, 0, 99]);
        let ip = parse_ip(&packet, false).unwrap();
        assert_eq!(ip.fragment, fragment);
        let ports = if fragment == FragmentKind::Later { (0, 0) } else { (53, 99) };
        let tuple = five_tuple(&packet, &ip);
        assert_eq!((tuple.src_port, tuple.dst_port), ports);
        assert_eq!(parse_ip(&packet, true), Err(Malformed::BadChecksum));
    }
}

#[test]
fn five_tuple_reads_spi_of_esp_and_ah() {
    let mut packet = [0u8; 32];
    packet[..20].copy_from_slice(&UPLINK[18..38]);
    (packet[3], packet[9]) = (32, 50);
    packet[20..24].copy_from_slice(&[1, 2, 3, 4]);
    packet[24..28].copy_from_slice(&[5, 6, 7, 8]);
    let spi = |packet: &[u8]| five_tuple(packet, &parse_ip(packet, false).unwrap()).spi;
    assert_eq!(spi(&packet), 0x0102_0304);
    packet[9] = 51;
    assert_eq!(spi(&packet), 0x0506_0708);
    packet[9] = 1;
    assert_eq!(spi(&packet), 0);
}

#[test]
fn ip_of_version_6_reports_label_class_and_ports() {
    let mut packet = [0u8; 52];
    packet[..8].copy_from_slice(&[0x6a, 0xb1, 0x23, 0x45, 0, 8, 17, 9]);
    (packet[23], packet[39]) = (1, 2);
    packet[40..44].copy_from_slice(&[0, 53, 0, 99]);
    let ip = parse_ip(&packet, true).unwrap();
    assert_eq!((ip.total_len, ip.payload_offset, ip.payload_len()), (48, 40, 8));
    assert_eq!((ip.ttl, ip.tos, ip.flow_label), (9, 0xab, 0x12345));
    let tuple = five_tuple(&packet, &ip);
    assert_eq!((tuple.src_port, tuple.dst_port, tuple.flow_label), (53, 99, 0x12345));
    assert_eq!(tuple.addrs.src(), IpAddr::V6(Ipv6Addr::LOCALHOST));
    assert_eq!(parse_ip(&[0x50; 40], true), Err(Malformed::BadVersion(5)));
}

#[test]
fn echo_messages_have_the_octets_of_the_standard() {
    let mut out = [0xa5; 24];
    assert_eq!(gtpu::emit_echo_request(&mut out, 0x1234, None), Ok(12));
    assert_eq!(out[..13], [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 0xa5]);
    let len = gtpu::emit_echo_response(&mut out, 0x1234, None).unwrap();
    assert_eq!(out[..len], [0x32, 2, 0, 6, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 14, 0]);
    let started = Some(0xe900_0007);
    assert_eq!(gtpu::emit_echo_request(&mut out, 7, started), Ok(gtpu::ECHO_REQUEST_LEN_MAX));
    let stamp = [231, 0, 4, 0xe9, 0, 0, 7];
    assert_eq!(out[..12], [0x32, 1, 0, 11, 0, 0, 0, 0, 0, 7, 0, 0]);
    assert_eq!(out[12..19], stamp);
    assert_eq!(gtpu::emit_echo_response(&mut out, 7, started), Ok(gtpu::ECHO_RESPONSE_LEN_MAX));
    assert_eq!(out[2..4], [0, 13]);
    assert_eq!(out[12..14], [14, 0]);
    assert_eq!(out[14..21], stamp);
    for short in 0..gtpu::ECHO_RESPONSE_LEN_MAX {
        assert!(gtpu::emit_echo_response(&mut out[..short], 7, started).is_err());
    }
    assert_eq!(gtpu::emit_end_marker(&mut out, Teid(7), None), Ok(8));
    assert_eq!(out[..8], [0x30, 254, 0, 0, 0, 0, 0, 7]);
    for short in 0..8 {
        assert!(gtpu::emit_end_marker(&mut out[..short], Teid(7), None).is_err());
    }
    assert_eq!(gtpu::emit_end_marker(&mut out, Teid(7), Qfi::new(9)), Ok(16));
    assert_eq!(out[..8], [0x34, 254, 0, 8, 0, 0, 0, 7]);
    assert_eq!(out[8..16], [0, 0, 0, 0x85, 1, 0, 9, 0]);
    for short in 0..gtpu::END_MARKER_LEN_MAX {
        assert!(gtpu::emit_end_marker(&mut out[..short], Teid(7), Qfi::new(9)).is_err());
    }
}

#[test]
fn supported_extension_headers_are_listed() {
    let mut out = [0xa5; 16];
    let kinds = [ExtensionType::PDU_SESSION_CONTAINER, ExtensionType::UDP_PORT];
    let len = gtpu::emit_supported_extension_headers(&mut out, &kinds).unwrap();
    assert_eq!(out[..len], [0x32, 31, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 141, 2, 0x85, 0x40]);
    let gtpu = parse_gtpu(&out).unwrap();
    let list = GtpuIes::new(gtpu.payload(&out)).next();
    assert_eq!(list, Some(Ok(GtpuIe::ExtensionHeaderTypeList(&[0x85, 0x40]))));
}

#[test]
fn error_indication_round_trips_over_both_families() {
    let peers = [IpAddr::from(Ipv4Addr::new(10, 0, 0, 9)), IpAddr::from(Ipv6Addr::LOCALHOST)];
    for peer in peers {
        for udp_port in [None, Some(0x1234)] {
            let told = ErrorIndication { teid: Teid(0xdead_beef), peer };
            let mut out = [0xa5; gtpu::ERROR_INDICATION_LEN_MAX];
            let len = gtpu::emit_error_indication(&mut out, &told, udp_port).unwrap();
            let gtpu = parse_gtpu(&out[..len]).unwrap();
            assert_eq!((gtpu.message_type.0, gtpu.teid, gtpu.sequence), (26, Teid(0), Some(0)));
            assert_eq!(gtpu.udp_port, udp_port);
            assert_eq!(ErrorIndication::parse(gtpu.payload(&out[..len])), Ok(told));
            for short in 0..len {
                assert!(gtpu::emit_error_indication(&mut out[..short], &told, udp_port).is_err());
            }
        }
    }
}
