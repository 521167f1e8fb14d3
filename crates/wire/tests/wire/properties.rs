//! Properties over arbitrary octets and values: parsing is total, emission is its inverse.

use std::net::{Ipv4Addr, Ipv6Addr};

use adit_types::{MacAddr, Teid};
use adit_wire::arp::ArpPacket;
use adit_wire::checksum::{self, Sum, checksum};
use adit_wire::gtpu::{ErrorIndication, GtpuHeader, GtpuMessageType};
use adit_wire::gtpu_ie::GtpuIes;
use adit_wire::icmp::IcmpHeader;
use adit_wire::icmpv6::{Icmpv6Header, PseudoHeader};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header, decrement_ttl, set_tos};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header, decrement_hop_limit, walk_extensions};
use adit_wire::neighbor::{NeighborAdvertisement, NeighborSolicitation};
use adit_wire::tcp::TcpHeader;
use adit_wire::udp::{UdpHeader, verify_ipv4, verify_ipv6};
use adit_wire::{PduSessionContainer, five_tuple, icmp, icmpv6, parse_frame, parse_gtpu, parse_ip};
use proptest::prelude::*;

/// Octets that often look like the start of something.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let first =
        prop_oneof![Just(0x45), Just(0x60), Just(0x34), Just(0x36), Just(0x4f), any::<u8>()];
    let small = prop_oneof![3 => 0u8..8, 1 => any::<u8>()];
    (first, prop::collection::vec(small, 0..160)).prop_map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    })
}

/// An independent, slow one's-complement checksum.
fn slow_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    !u16::try_from(sum).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn parsing_of_arbitrary_octets_never_panics(bytes in octets()) {
        let any = Ipv6Addr::UNSPECIFIED;
        let pseudo = PseudoHeader { src: any, dst: any };
        let _ = parse_frame(&bytes);
        if let Ok(ip) = parse_ip(&bytes, false) {
            prop_assert!(usize::from(ip.total_len) <= bytes.len());
            prop_assert!(ip.payload_offset <= ip.total_len);
            prop_assert_eq!(ip.payload(&bytes).len(), usize::from(ip.payload_len()));
            let _ = five_tuple(&bytes, &ip);
            let _ = five_tuple(&[], &ip);
        }
        let _ = parse_ip(&bytes, true);
        if let Ok(gtpu) = parse_gtpu(&bytes) {
            let payload = gtpu.payload(&bytes);
            prop_assert_eq!(payload.len(), usize::from(gtpu.payload_len));
            let _ = ErrorIndication::parse(payload);
        }
        let _ = (ArpPacket::parse(&bytes), TcpHeader::parse(&bytes), UdpHeader::parse(&bytes));
        let _ = (IcmpHeader::parse(&bytes), Icmpv6Header::parse(&pseudo, &bytes));
        let _ = (NeighborSolicitation::parse(&pseudo, &bytes), PduSessionContainer::parse(&bytes));
        let _ = (NeighborAdvertisement::parse(&pseudo, &bytes), GtpuIes::new(&bytes).count());
        let _ = verify_ipv4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, &bytes);
        let _ = (verify_ipv6(any, any, &bytes), walk_extensions(bytes[0], &bytes));
    }

    #[test]
    fn change_in_place_of_arbitrary_octets_never_panics(mut bytes in octets(), tos: u8) {
        let _ = (decrement_ttl(&mut bytes), decrement_hop_limit(&mut bytes));
        let _ = set_tos(&mut bytes, tos);
        let _ = (icmp::echo_reply_in_place(&mut bytes), icmpv6::echo_reply_in_place(&mut bytes));
    }

    #[test]
    fn checksum_equals_the_slow_one_for_every_length(
        bytes in prop::collection::vec(any::<u8>(), 0..1600),
    ) {
        prop_assert_eq!(checksum(&bytes), slow_checksum(&bytes));
        let (even, rest) = bytes.split_at(bytes.len() / 4 * 2);
        prop_assert_eq!(Sum::new().bytes(even).bytes(rest).checksum(), slow_checksum(&bytes));
    }

    #[test]
    fn checksum_update_equals_the_slow_one(
        mut words in prop::collection::vec(any::<u16>(), 2..12),
        new: u16,
    ) {
        words[0] |= 0x4000;
        let bytes = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
        let before = slow_checksum(&bytes(&words));
        let old = std::mem::replace(&mut words[1], new);
        prop_assert_eq!(checksum::update(before, old, new), slow_checksum(&bytes(&words)));
    }

    #[test]
    fn ipv4_header_emitted_is_parsed_again(tos: u8, len in 20u16..200, identification: u16,
        dont_fragment: bool, ttl: u8, protocol: u8, src: u32, dst: u32) {
        let (src, dst) = (Ipv4Addr::from_bits(src), Ipv4Addr::from_bits(dst));
        let total_len = len;
        let fields = Ipv4Fields {
            tos, total_len, identification, dont_fragment, ttl, protocol, src, dst,
        };
        let mut packet = [0xa5; 200];
        Ipv4Header::new(&fields).emit(&mut packet).unwrap();
        let (header, payload) = Ipv4Header::parse(&packet).unwrap();
        let again = Ipv4Fields {
            tos: header.tos(), total_len: header.total_len(),
            identification: header.identification(),
            dont_fragment: header.dont_fragment(), ttl: header.ttl(), protocol: header.protocol(),
            src: header.src(), dst: header.dst(),
        };
        prop_assert_eq!(again, fields);
        prop_assert_eq!(payload.len(), usize::from(len) - 20);
        prop_assert_eq!(slow_checksum(&packet[..20]), 0);
        prop_assert!(Ipv4Header::verify_checksum(&packet).is_ok());
    }

    #[test]
    fn ipv6_header_emitted_is_parsed_again(traffic_class: u8, flow_label in 0u32..1 << 20,
        payload_len in 0u16..200, next_header: u8, hop_limit: u8, src: u128, dst: u128) {
        let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
        let fields = Ipv6Fields {
            traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst,
        };
        let mut packet = [0xa5; 240];
        Ipv6Header::new(&fields).emit(&mut packet).unwrap();
        let (header, payload) = Ipv6Header::parse(&packet).unwrap();
        let again = Ipv6Fields {
            traffic_class: header.traffic_class(), flow_label: header.flow_label(),
            payload_len: header.payload_len(), next_header: header.next_header(),
            hop_limit: header.hop_limit(), src: header.src(), dst: header.dst(),
        };
        prop_assert_eq!(again, fields);
        prop_assert_eq!(payload.len(), usize::from(payload_len));
    }

    #[test]
    fn gtpu_header_emitted_is_parsed_again(flags in 0u8..8, kind: u8, len in 0u16..64, teid: u32) {
        let mut message = [0xa5; 72];
        let header = GtpuHeader::new(flags, GtpuMessageType(kind), len, Teid(teid));
        header.emit(&mut message).unwrap();
        let (parsed, body) = GtpuHeader::parse(&message).unwrap();
        prop_assert_eq!(*parsed, header);
        prop_assert_eq!((parsed.flags(), parsed.message_type().0), (flags, kind));
        prop_assert_eq!(parsed.teid(), Teid(teid));
        prop_assert_eq!(body.len(), usize::from(len));
    }

    #[test]
    fn neighbor_messages_emitted_are_parsed_again(
        target: u128, mac: Option<[u8; 6]>, bits in 0u8..8, src: u128,
    ) {
        let target = Ipv6Addr::from_bits(target & !(1 << 127));
        let pseudo = PseudoHeader { src: Ipv6Addr::from_bits(src), dst: target };
        let told = NeighborAdvertisement {
            target, target_mac: mac.map(MacAddr), router: bits & 4 != 0,
            solicited: bits & 2 != 0, override_entry: bits & 1 != 0,
        };
        let mut out = [0xa5; 32];
        let len = told.emit(&mut out, &pseudo).unwrap();
        prop_assert_eq!(NeighborAdvertisement::parse(&pseudo, &out[..len]), Ok(told));
    }
}
