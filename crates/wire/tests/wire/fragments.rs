//! Fragments: a packet divided is the packet again once its parts are put together.

use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::{FragmentPosition, Ipv4Split, parse_ip, restore_header};
use proptest::prelude::*;

/// A packet with `options`, which fill whole words, and a payload whose octets differ.
fn packet(options: &[u8], payload_len: usize, flags_offset: u16) -> Vec<u8> {
    let header_len = 20 + options.len();
    let fields = Ipv4Fields {
        tos: 0xb8,
        total_len: u16::try_from(header_len + payload_len).unwrap(),
        identification: 0x1234,
        dont_fragment: false,
        ttl: 9,
        protocol: 17,
        src: "10.45.0.2".parse().unwrap(),
        dst: "8.8.8.8".parse().unwrap(),
    };
    let mut packet = vec![0; 20];
    Ipv4Header::new(&fields).emit(&mut packet).unwrap();
    packet[0] = 0x40 | u8::try_from(header_len / 4).unwrap();
    packet[6..8].copy_from_slice(&flags_offset.to_be_bytes());
    packet.extend_from_slice(options);
    packet[10..12].fill(0);
    let sum = adit_wire::checksum::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend((0..payload_len).map(|at| u8::try_from(at % 251).unwrap()));
    packet
}

fn fragments(packet: &[u8], mtu: u16) -> Vec<Vec<u8>> {
    let split = Ipv4Split::new(packet, mtu).unwrap();
    (0..split.count())
        .map(|n| {
            let mut out = vec![0xa5; split.len(n)];
            split.emit(packet, n, &mut out).unwrap();
            out
        })
        .collect()
}

/// The payloads of all fragments behind the header of the first.
fn joined(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = fragments[0].clone();
    for fragment in &fragments[1..] {
        let place = FragmentPosition::read(fragment).unwrap();
        whole.extend_from_slice(&fragment[usize::from(place.data_offset)..]);
    }
    let header_len = usize::from(whole[0] & 15) * 4;
    let data_len = whole.len() - header_len;
    assert_eq!(restore_header(&mut whole, 0, data_len), Some(0));
    whole
}

/// No operation, a source route, which is copied, and a time stamp, which is not.
const OPTIONS: [u8; 16] = [1, 0x83, 7, 4, 10, 0, 0, 1, 0x44, 8, 5, 0, 1, 2, 3, 4];

proptest! {
    #[test]
    fn fragments_fit_the_mtu_and_make_the_packet_again(
        mtu in 36_u16..700,
        more in 1_usize..1500,
        has_options in any::<bool>(),
    ) {
        let options = if has_options { &OPTIONS[..] } else { &[] };
        prop_assume!(!has_options || mtu >= 44);
        let len = usize::from(mtu) - 20 - options.len() + more;
        let packet = packet(options, len, 0);
        let parts = fragments(&packet, mtu);
        prop_assert!(parts.len() >= 2);
        let mut next = 0;
        for (n, part) in parts.iter().enumerate() {
            prop_assert!(part.len() <= usize::from(mtu));
            let ip = parse_ip(part, true).unwrap();
            prop_assert_eq!((ip.ttl, ip.tos, ip.protocol), (9, 0xb8, 17));
            prop_assert_eq!(usize::from(ip.total_len), part.len());
            let place = FragmentPosition::read(part).unwrap();
            prop_assert_eq!((place.identification, place.offset), (0x1234, next));
            prop_assert_eq!(place.is_more, n + 1 < parts.len());
            prop_assert!(!place.is_more || place.data_len.is_multiple_of(8));
            next += place.data_len;
        }
        prop_assert_eq!(usize::from(next), len);
        prop_assert_eq!(joined(&parts), packet);
    }

    #[test]
    fn places_of_arbitrary_octets_lie_inside_the_packet(
        first in prop::sample::select(vec![0x45_u8, 0x46, 0x4f, 0x60]),
        mut octets in prop::collection::vec(prop_oneof![0_u8..60, any::<u8>()], 0..120),
    ) {
        octets.insert(0, first);
        if let Some(place) = FragmentPosition::read(&octets) {
            prop_assert!(usize::from(place.data_offset + place.data_len) <= octets.len());
        }
        let _ = Ipv4Split::new(&octets, 60).map(|split| split.count());
        let _ = restore_header(&mut octets, 3, 8);
    }
}

#[test]
fn later_fragments_have_the_options_that_are_copied() {
    let parts = fragments(&packet(&OPTIONS, 100, 0), 76);
    assert_eq!(parts[0][20..36], OPTIONS, "the first has all");
    assert_eq!(parts[0].len(), 36 + 40);
    assert_eq!((parts[1][0], &parts[1][20..28]), (0x47, &[0x83, 7, 4, 10, 0, 0, 1, 0][..]));
    assert_eq!(parts[1].len(), 28 + 48);
    // Options that end beyond the header, or have no length, are not copied.
    for broken in [[0x83, 9, 4, 0], [0x83, 0, 4, 0], [0, 0x83, 2, 0]] {
        assert_eq!(fragments(&packet(&broken, 100, 0), 76)[1][0], 0x45);
    }
}

#[test]
fn fragments_of_a_fragment_keep_its_place() {
    // The middle of a datagram: offset 800, and more follows.
    let parts = fragments(&packet(&[], 100, 0x2000 | 100), 60);
    let place = |part: &Vec<u8>| {
        let place = FragmentPosition::read(part).unwrap();
        (place.offset, place.data_len, place.is_more)
    };
    assert_eq!(
        parts.iter().map(place).collect::<Vec<_>>(),
        [(800, 40, true), (840, 40, true), (880, 20, true)]
    );
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let mut whole = packet(&[], 100, 0);
    assert!(Ipv4Split::new(&whole, 120).is_none(), "it fits");
    assert!(Ipv4Split::new(&whole, 119).is_some());
    assert!(Ipv4Split::new(&whole, 27).is_none(), "no room for 8 octets");
    assert!(Ipv4Split::new(&whole[..119], 60).is_none(), "cut off");
    whole[6] = 0x40;
    assert!(Ipv4Split::new(&whole, 60).is_none(), "don't fragment");
    let beyond = packet(&[], 100, 0x1fff);
    assert!(Ipv4Split::new(&beyond, 60).is_none(), "beyond the longest datagram");
    assert!(Ipv4Split::new(&[0x60; 60], 40).is_none(), "IPv6");
}

#[test]
fn first_fragment_of_ipv6_loses_its_fragment_header() {
    let mut frame = vec![0xee; 14];
    frame.extend_from_slice(&[0x60, 0, 0, 0, 0, 32, 0, 64]);
    frame.extend_from_slice(&[0x20; 32]);
    // Hop-by-hop options, then the fragment header of UDP: the first, more follow.
    frame.extend_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0]);
    frame.extend_from_slice(&[17, 0, 0, 1, 0xca, 0xfe, 0, 1]);
    frame.extend_from_slice(&[9; 16]);
    let place = FragmentPosition::read(&frame[14..]).unwrap();
    let expected = FragmentPosition {
        identification: 0xcafe_0001,
        protocol: 0,
        offset: 0,
        is_more: true,
        data_offset: 56,
        data_len: 16,
    };
    assert_eq!(place, expected);
    frame.extend_from_slice(&[8; 5]);
    assert_eq!(restore_header(&mut frame, 14, 21), Some(8));
    let frame = &frame[8..];
    assert_eq!(frame[..14], [0xee; 14]);
    assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, 29, 0, 64]);
    assert_eq!(frame[54..62], [17, 0, 1, 4, 0, 0, 0, 0]);
    let ip = parse_ip(&frame[14..], false).unwrap();
    assert_eq!((ip.protocol, ip.payload_len(), ip.is_fragment()), (17, 21, false));
    assert_eq!(FragmentPosition::read(&frame[14..]), None);
}
