//! Fragments: packets longer than the MTU, GTP-U packets put together, and filters on users'
//! fragments.

use adit_rules::sdf::PortRange;
use adit_rules::{
    ApplyAction, DestinationInterface, DropReason, HeaderCreation, HeaderRemoval, PacketFilter,
    PuntReason, SessionRules,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::limits::REASSEMBLY_FRAGMENTS_MAX;
use adit_types::{Nanos, PortId, Precedence};
use adit_wire::{FragmentKind, parse_ip};

use crate::fixture::*;

const ETHERNET: usize = 14;
/// IPv4, UDP, GTP-U with a PDU Session Container.
const TUNNEL: usize = 20 + 8 + 16;

/// Octets that encode their positions.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 253).unwrap()).collect()
}

/// Divides the packet in `frame`, whose IP header has no options, into parts of `sizes` octets of
/// data and the rest.
fn divided(frame: &[u8], identification: u16, sizes: &[usize]) -> Vec<Vec<u8>> {
    let (link, packet) = frame.split_at(ETHERNET);
    let is_ipv4 = packet[0] >> 4 == 4;
    let (header, data) = packet.split_at(if is_ipv4 { 20 } else { 40 });
    let mut offset = 0;
    let ends = sizes.iter().scan(0, |end, size| {
        *end += size;
        Some(*end)
    });
    ends.chain([data.len()])
        .map(|end| {
            let (part, is_more) = (&data[offset..end], end < data.len());
            let mut header = header.to_vec();
            let place = u16::try_from(offset).unwrap();
            if is_ipv4 {
                let total = u16::try_from(20 + part.len()).unwrap();
                header[2..4].copy_from_slice(&total.to_be_bytes());
                header[4..6].copy_from_slice(&identification.to_be_bytes());
                let flags = (u16::from(is_more) << 13) | (place / 8);
                header[6..8].copy_from_slice(&flags.to_be_bytes());
                header[10..12].fill(0);
                let sum = adit_wire::checksum::checksum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            } else {
                let total = u16::try_from(8 + part.len()).unwrap();
                header[4..6].copy_from_slice(&total.to_be_bytes());
                let next = core::mem::replace(&mut header[6], 44);
                let flags = place | u16::from(is_more);
                header.extend_from_slice(&[next, 0]);
                header.extend_from_slice(&flags.to_be_bytes());
                header.extend_from_slice(&[0xca, 0xfe]);
                header.extend_from_slice(&identification.to_be_bytes());
            }
            offset = end;
            [link, &header, part].concat()
        })
        .collect()
}

/// The packet whose fragments, in their order, are `packets` of IPv4.
fn joined(packets: &[&[u8]]) -> Vec<u8> {
    let mut data = Vec::new();
    for (at, packet) in packets.iter().enumerate() {
        let ip = parse_ip(packet, true).unwrap();
        let place = u16::from_be_bytes([packet[6], packet[7]]);
        assert_eq!(usize::from(place & 0x1fff) * 8, data.len());
        assert_eq!(place & 0x2000 != 0, at + 1 < packets.len(), "more fragments");
        data.extend_from_slice(ip.payload(packet));
    }
    let mut whole = [&packets[0][..20], &data].concat();
    let total = u16::try_from(whole.len()).unwrap();
    whole[2..4].copy_from_slice(&total.to_be_bytes());
    whole[6..8].fill(0);
    whole[10..12].fill(0);
    let sum = adit_wire::checksum::checksum(&whole[..20]);
    whole[10..12].copy_from_slice(&sum.to_be_bytes());
    whole
}

fn big_downlink(payload_len: usize) -> PacketBuilder {
    from_gateway().ipv4(SERVER, UE).udp(53, 4000).payload(&content(payload_len))
}

fn further_downlink(payload_len: usize) -> Vec<u8> {
    let packet = from_gateway().ipv4(SERVER, UE).ttl(63).udp(53, 4000);
    packet.payload(&content(payload_len)).build()[ETHERNET..].to_vec()
}

#[test]
fn downlink_beyond_the_mtu_leaves_in_fragments_with_a_tunnel_header_each() {
    for mut scene in [PipelineFixture::new(), PipelineFixture::usual(rules())] {
        let fits = 1500 - TUNNEL - 28;
        assert_eq!(scene.pass(N6, &big_downlink(fits).build(), N3).len(), 1);
        assert_eq!(scene.counts().fragments_added_pkts, 0);
        let sent = scene.pass(N6, &big_downlink(fits + 1).build(), N3);
        assert_eq!(sent.len(), 2);
        for frame in &sent {
            let outer = parse_ip(&frame[ETHERNET..], true).unwrap();
            assert!(outer.dont_fragment && outer.total_len <= 1500);
            assert_eq!(usize::from(outer.total_len), frame.len() - ETHERNET);
            assert_eq!(frame[ETHERNET + 32..ETHERNET + 36], GNB_TEID.to_be_bytes());
        }
        let inner: Vec<&[u8]> = sent.iter().map(|frame| &frame[ETHERNET + TUNNEL..]).collect();
        assert_eq!(joined(&inner), further_downlink(fits + 1));
        let counts = scene.counts();
        assert_eq!((counts.transmitted_downlink_pkts, counts.fragments_added_pkts), (3, 1));
        assert_eq!(scene.publisher.session_traffic(SESSION).dl_pkts, 2, "one packet of the user");
        assert_eq!(counts.interfaces[0].tx_pkts, 3);
    }
}

#[test]
fn uplink_beyond_the_mtu_leaves_in_fragments_towards_the_data_network() {
    let mut scene = PipelineFixture::with_n6_mtu(600, rules());
    let packet = |outer: PacketBuilder, ttl| {
        outer.ipv4(UE, SERVER).ttl(ttl).udp(1, 2).payload(&content(1400)).build()
    };
    let sent = scene.pass(N3, &packet(tunneled(), 64), N6);
    let lengths: Vec<usize> = sent.iter().map(Vec::len).collect();
    assert_eq!(lengths, [ETHERNET + 596, ETHERNET + 596, ETHERNET + 20 + 1408 - 2 * 576]);
    let inner: Vec<&[u8]> = sent.iter().map(|frame| &frame[ETHERNET..]).collect();
    let link = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC);
    assert_eq!(joined(&inner), packet(link, 63)[ETHERNET..]);
    assert_eq!(scene.counts().transmitted_uplink_pkts, 3);
    let forbidden = tunneled().ipv4(UE, SERVER).dont_fragment().udp(1, 2).payload(&content(1400));
    scene.assert_drops(N3, &forbidden.build(), DropReason::PacketTooBig);
    let v6 = tunneled().ipv6(UE_V6, SERVER_V6).udp(1, 2).payload(&content(1300)).build();
    scene.assert_drops(N3, &v6, DropReason::PacketTooBig);
    assert_eq!(scene.sent(N3).len(), 2, "both are told what fits");
}

#[test]
fn uplink_into_an_n6_tunnel_is_divided_before_the_outer_header() {
    let mut rules = rules();
    let header = HeaderCreation::Udp { addr: ip("10.6.0.254"), port: 5000 };
    rules.fars[0].outer_header_creation = Some(header);
    rules.fars[0].destination = DestinationInterface::SgiLanN6Lan;
    let mut scene = PipelineFixture::with_n6_mtu(600, rules);
    let packet = tunneled().ipv4(UE, SERVER).udp(1, 2).payload(&content(1000)).build();
    let sent = scene.pass(N3, &packet, N6);
    assert_eq!(sent.len(), 2);
    for frame in &sent {
        let outer = parse_ip(&frame[ETHERNET..], true).unwrap();
        assert!(outer.protocol == 17 && outer.total_len <= 600 && !outer.is_fragment());
        assert!(parse_ip(&frame[ETHERNET + 28..], true).unwrap().is_fragment());
    }
}

#[test]
fn packet_beyond_the_mtu_without_buffers_is_dropped_by_name() {
    let mut scene = PipelineFixture::new();
    scene.io.alloc_room = 0;
    scene.assert_drops(N6, &big_downlink(1440).build(), DropReason::FragmentNoBuffer);
    scene.io.alloc_room = 1;
    assert_eq!(scene.pass(N6, &big_downlink(1440).build(), N3).len(), 2);
    assert!(scene.sent(N6).is_empty());
}

#[test]
fn fragments_wait_together_for_the_link_layer_address() {
    let mut scene = PipelineFixture::unresolved(rules());
    scene.io.inject(N6, &big_downlink(1440).build());
    scene.step();
    assert_eq!(scene.counts().buffered_pkts, 2);
    scene.resolve(IF_N3, GNB, GNB_MAC);
    scene.step();
    let sent = scene.sent(N3);
    let inner: Vec<&[u8]> = sent.iter().map(|frame| &frame[ETHERNET + TUNNEL..]).collect();
    assert_eq!(joined(&inner), further_downlink(1440));
}

#[test]
fn fragments_that_the_port_does_not_take_are_dropped_each() {
    let mut scene = PipelineFixture::new();
    scene.io.ports[usize::from(N3.0)].tx_room = 1;
    scene.io.inject(N6, &big_downlink(1440).build());
    scene.step();
    assert_eq!(scene.sent(N3).len(), 1);
    assert_eq!(scene.dropped(DropReason::TxQueueFull), 1);
}

#[test]
fn copy_beyond_the_mtu_leaves_in_fragments_and_is_counted_as_copies() {
    let mut rules = rules();
    let copy = adit_rules::FarEntry {
        destination: DestinationInterface::LiFunction,
        outer_header_creation: Some(tunnel(0x77, GNB)),
        ..rules.fars[0].clone()
    };
    rules.fars[0].action = ApplyAction::FORW | ApplyAction::DUPL;
    rules.fars[0].duplicates.push(2);
    rules.fars.push(copy);
    let mut scene = PipelineFixture::with(rules);
    // Without a container towards us there is room for more than what the copy may have.
    let outer = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(TEID);
    let packet = outer.ipv4(UE, SERVER).udp(1, 2).payload(&content(1460 - 28)).build();
    assert_eq!(scene.pass(N3, &packet, N6).len(), 1);
    assert_eq!(scene.sent(N3).len(), 2);
    let counts = scene.counts();
    assert_eq!((counts.duplicated_pkts, counts.fragments_added_pkts), (2, 0));
}

/// An uplink packet in its tunnel, and what leaves of it.
fn tunnel_packet(outer: PacketBuilder) -> (Vec<u8>, Vec<u8>) {
    let inner = |outer: PacketBuilder, ttl| {
        outer.ipv4(UE, SERVER).ttl(ttl).udp(1, 2).payload(&content(900)).build()
    };
    let link = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC);
    (inner(outer.gtpu(TEID).psc_ul(9), 64), inner(link, 63))
}

fn outer_v4() -> PacketBuilder {
    PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR)
}

fn outer_v6() -> PacketBuilder {
    PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv6(GNB_V6, N3_V6)
}

#[test]
fn tunnel_packet_in_fragments_is_put_together_in_any_order() {
    for outer in [outer_v4(), outer_v6(), outer_v6().udp(2152, 2152)] {
        let (whole, expected) = tunnel_packet(outer);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut scene = PipelineFixture::new();
            let parts = divided(&whole, 7, &[400, 8]);
            for at in &order[..2] {
                assert!(scene.pass(N3, &parts[*at], N6).is_empty());
            }
            let counts = scene.counts();
            assert_eq!((counts.buffered_pkts, counts.reassembly_pkts), (2, 2));
            // Padding of the link is no data.
            let last = [&parts[order[2]][..], &[0xee; 9]].concat();
            assert_eq!(scene.pass(N3, &last, N6), [&expected[..]], "{order:?}");
            let counts = scene.counts();
            assert_eq!((counts.received_pkts, counts.transmitted_uplink_pkts), (3, 1));
            assert_eq!((counts.buffered_pkts, scene.punted(PuntReason::Reassembled)), (0, 2));
            assert_eq!(counts.interfaces[0].rx_pkts, 3);
        }
    }
}

/// A sender puts extension headers that only the destination reads behind the fragment header.
/// Spec: RFC 8200 §4.1, §4.5.
#[test]
fn extension_headers_in_the_fragments_of_a_tunnel_packet_are_walked_when_it_is_whole() {
    let options: [u8; 8] = [43, 0, 1, 4, 0, 0, 0, 0];
    let routing: [u8; 8] = [17, 0, 4, 0, 0, 0, 0, 0];
    let udp = || outer_v6().udp(2152, 2152);
    for (outer, sizes) in [(outer_v6(), [400, 8]), (udp(), [16, 400]), (udp(), [8, 400])] {
        let (mut whole, expected) = tunnel_packet(outer);
        whole.splice(ETHERNET + 40..ETHERNET + 40, [options, routing].concat());
        let payload = u16::try_from(whole.len() - ETHERNET - 40).unwrap();
        whole[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&payload.to_be_bytes());
        whole[ETHERNET + 6] = 60;
        let parts = divided(&whole, 7, &sizes);
        let mut scene = PipelineFixture::new();
        assert!(scene.pass(N3, &parts[2], N6).is_empty());
        assert!(scene.pass(N3, &parts[1], N6).is_empty());
        let sent = scene.pass(N3, &parts[0], N6);
        match sizes[0] {
            // The first fragment must have all headers in front of UDP. Spec: RFC 7112 §5.
            8 => assert!(sent.is_empty()),
            _ => assert_eq!(sent, [&expected[..]]),
        }
    }
    // A datagram that is no GTP-U packet is dropped when it is whole.
    let (mut whole, _) = tunnel_packet(outer_v6());
    whole.splice(ETHERNET + 40..ETHERNET + 40, [6, 0, 1, 4, 0, 0, 0, 0]);
    let payload = u16::try_from(whole.len() - ETHERNET - 40).unwrap();
    whole[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&payload.to_be_bytes());
    whole[ETHERNET + 6] = 60;
    let mut scene = PipelineFixture::new();
    let parts = divided(&whole, 7, &[400]);
    assert!(scene.pass(N3, &parts[1], N6).is_empty());
    scene.io.inject(N3, &parts[0]);
    scene.step();
    assert_eq!(scene.dropped(DropReason::OuterFragment), 1, "its first fragment says so");
}

#[test]
fn fragments_of_several_datagrams_in_one_burst_are_distinguished() {
    let mut scene = PipelineFixture::usual(rules());
    let (whole, expected) = tunnel_packet(outer_v4());
    let (one, other) = (divided(&whole, 1, &[304]), divided(&whole, 2, &[304]));
    for frame in [&one[0], &other[1], &uplink().build(), &one[1], &other[0]] {
        scene.io.inject(N3, frame);
    }
    scene.step();
    let sent = scene.sent(N6);
    assert_eq!(sent.len(), 3);
    assert_eq!(sent.iter().filter(|frame| **frame == expected).count(), 2);
}

#[test]
fn n6_tunnel_packet_in_fragments_is_put_together() {
    let mut rules = rules();
    rules.downlink[0].outer_header_removal = Some(HeaderRemoval::UdpIpv4);
    let mut scene = PipelineFixture::with(rules);
    let inner = |outer: PacketBuilder, ttl| {
        outer.ipv4(SERVER, UE).ttl(ttl).udp(53, 4000).payload(&content(700)).build()
    };
    let whole = inner(from_gateway().ipv4("10.6.0.77", UE).udp(5000, 5000), 64);
    let parts = divided(&whole, 7, &[400]);
    assert!(scene.pass(N6, &parts[1], N3).is_empty());
    assert_eq!(scene.counts().reassembly_pkts, 1);
    let sent = scene.pass(N6, &parts[0], N3);
    assert_eq!(sent.len(), 1);
    let expected = inner(PacketBuilder::ethernet(N3_MAC, GNB_MAC), 63);
    assert_eq!(sent[0][ETHERNET + TUNNEL..], expected[ETHERNET..]);
    assert_eq!(scene.publisher.session_traffic(SESSION).dl_pkts, 1);
}

#[test]
fn tunnel_packet_put_together_of_different_ones_fails_its_checksum() {
    let mut scene = PipelineFixture::new();
    let (whole, _) = tunnel_packet(outer_v4().udp(2152, 2152));
    let mut other = whole.clone();
    let last = other.len() - 1;
    other[last] ^= 1;
    assert!(scene.pass(N3, &divided(&whole, 7, &[400])[0], N6).is_empty());
    scene.io.inject(N3, &divided(&other, 7, &[400])[1]);
    scene.step();
    assert_eq!(scene.dropped(DropReason::UdpChecksumWrong), 1);
    assert!(scene.sent(N6).is_empty());
}

#[test]
fn fragments_without_the_rest_are_dropped_after_their_time() {
    let mut scene = PipelineFixture::new();
    let (whole, _) = tunnel_packet(outer_v4());
    let parts = divided(&whole, 7, &[400]);
    assert!(scene.pass(N3, &parts[0], N6).is_empty());
    scene.now += Nanos::from_millis(1999);
    scene.step();
    assert_eq!(scene.counts().buffered_pkts, 1);
    scene.now += Nanos::from_millis(1);
    scene.step();
    assert_eq!((scene.counts().buffered_pkts, scene.counts().reassembly_pkts), (0, 0));
    assert_eq!(scene.dropped(DropReason::ReassemblyTimeout), 1);
    assert!(scene.pass(N3, &parts[1], N6).is_empty(), "the first is gone");
}

#[test]
fn drain_drops_fragments_that_wait_for_others() {
    let mut scene = PipelineFixture::new();
    let (whole, _) = tunnel_packet(outer_v4());
    scene.pass(N3, &divided(&whole, 7, &[400])[0], N6);
    scene.worker.drain(&mut scene.io);
    let counts = scene.counts();
    assert!(counts.identity_holds());
    assert_eq!((counts.buffered_pkts, scene.dropped(DropReason::ReassemblyTimeout)), (0, 1));
}

#[test]
fn fragments_that_contradict_each_other_discard_their_datagram() {
    let (whole, expected) = tunnel_packet(outer_v4());
    let parts = |sizes: &[usize]| divided(&whole, 7, sizes);
    let drops = |frames: &[&Vec<u8>], reason, count| {
        let mut scene = PipelineFixture::new();
        for frame in frames {
            assert!(scene.pass(N3, frame, N6).is_empty());
        }
        assert_eq!(scene.dropped(reason), count, "{reason:?}");
        scene
    };
    let (halves, shifted) = (parts(&[400]), parts(&[392]));
    drops(&[&halves[0], &shifted[1]], DropReason::ReassemblyOverlap, 2);
    let mut changed = halves[0].clone();
    changed[100] ^= 1;
    drops(&[&halves[0], &changed], DropReason::ReassemblyOverlap, 2);
    let mut scene = drops(&[&halves[0], &halves[0]], DropReason::ReassemblyDuplicate, 1);
    assert_eq!(scene.pass(N3, &halves[1], N6), [&expected[..]], "a copy does no harm");
    // The end lies before data that arrived, or is set twice.
    let quarters = parts(&[8, 392, 200]);
    let mut early = quarters[1].clone();
    early[ETHERNET + 6] &= !0x20;
    drops(&[&quarters[2], &fixed(early)], DropReason::ReassemblyMalformed, 2);
    let mut later = halves[1].clone();
    later[ETHERNET + 7] += 120;
    drops(&[&halves[1], &fixed(later)], DropReason::ReassemblyMalformed, 2);
    // Data that leaves a gap of less than 8 octets, and none.
    drops(&[&parts(&[404])[0]], DropReason::ReassemblyMalformed, 1);
    let bare = outer_v4().protocol(17).fragment(7, 3, false).build();
    drops(&[&bare], DropReason::ReassemblyMalformed, 1);
    let beyond = outer_v4().protocol(17).fragment(7, 0x1fff, false).payload(&[0; 100]).build();
    drops(&[&beyond], DropReason::ReassemblyTooLong, 1);
}

/// The frame with its IPv4 header checksum corrected.
fn fixed(mut frame: Vec<u8>) -> Vec<u8> {
    frame[ETHERNET + 10..ETHERNET + 12].fill(0);
    let sum = adit_wire::checksum::checksum(&frame[ETHERNET..ETHERNET + 20]);
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Spec: RFC 8200 §4.5.
#[test]
fn fragments_behind_an_overlap_are_dropped_in_ipv6() {
    let (whole, expected) = tunnel_packet(outer_v6());
    let (halves, shifted) = (divided(&whole, 7, &[400]), divided(&whole, 7, &[392]));
    let mut scene = PipelineFixture::new();
    for frame in [&halves[0], &shifted[1], &halves[0], &halves[1]] {
        assert!(scene.pass(N3, frame, N6).is_empty());
    }
    assert_eq!(scene.dropped(DropReason::ReassemblyOverlap), 4);
    scene.now += Nanos::from_secs(2);
    assert!(scene.pass(N3, &halves[0], N6).is_empty());
    assert_eq!(scene.pass(N3, &halves[1], N6), [&expected[..]], "a new datagram");
}

#[test]
fn too_many_fragments_and_too_long_datagrams_are_dropped_by_name() {
    let (whole, _) = tunnel_packet(outer_v4());
    let mut scene = PipelineFixture::new();
    for part in divided(&whole, 7, &[8; 17]).iter().take(17) {
        assert!(scene.pass(N3, part, N6).is_empty());
    }
    assert_eq!(scene.dropped(DropReason::ReassemblyTooMany), 17);
    // Longer than a buffer.
    let long = tunneled().ipv4(UE, SERVER).udp(1, 2).payload(&content(2500));
    let mut scene = PipelineFixture::new();
    for part in divided(&long.build(), 8, &[1000, 1000]) {
        assert!(scene.pass(N3, &part, N6).is_empty());
    }
    assert_eq!(scene.dropped(DropReason::ReassemblyTooLong), 3);
    assert_eq!(scene.counts().buffered_pkts, 0);
}

#[test]
fn fragments_of_many_datagrams_are_bounded_together() {
    let (whole, expected) = tunnel_packet(outer_v4());
    let mut scene = PipelineFixture::new();
    for identification in 0..60 {
        for part in divided(&whole, identification, &[8; 16]).iter().take(16) {
            assert!(scene.pass(N3, part, N6).is_empty());
        }
        assert!(scene.counts().reassembly_pkts <= REASSEMBLY_FRAGMENTS_MAX as u64);
    }
    let full = scene.dropped(DropReason::ReassemblyFull);
    assert_eq!(scene.counts().reassembly_pkts + full, 60 * 16);
    let parts = divided(&whole, 3000, &[400]);
    assert!(scene.pass(N3, &parts[0], N6).is_empty());
    assert_eq!(scene.pass(N3, &parts[1], N6), [&expected[..]]);
}

#[test]
fn flood_of_first_fragments_does_not_keep_others_from_being_put_together() {
    let (whole, expected) = tunnel_packet(outer_v4());
    let mut scene = PipelineFixture::new();
    for identification in 0..2000 {
        assert!(scene.pass(N3, &divided(&whole, identification, &[400])[0], N6).is_empty());
    }
    let counts = scene.counts();
    assert!(counts.buffered_pkts <= 256, "{}", counts.buffered_pkts);
    assert_eq!(counts.buffered_pkts + scene.dropped(DropReason::ReassemblyFull), 2000);
    let parts = divided(&whole, 3000, &[400]);
    assert!(scene.pass(N3, &parts[0], N6).is_empty());
    assert_eq!(scene.pass(N3, &parts[1], N6), [&expected[..]]);
}

#[test]
fn fragments_to_ourselves_that_are_of_no_tunnel_are_dropped() {
    let mut scene = PipelineFixture::new();
    let echo = outer_v4().fragment(1, 0, true).icmp_echo(1, 1).payload(&[0; 16]).build();
    scene.assert_drops(N3, &echo, DropReason::OuterFragment);
    let on_n6 = from_gateway().ipv4("10.6.0.9", N6_ADDR).fragment(1, 0, true).udp(1, 2152);
    scene.assert_drops(N6, &on_n6.payload(&[0; 16]).build(), DropReason::OuterFragment);
}

/// PDRs that take port 53 of the server alone.
fn port_53() -> SessionRules {
    let mut rules = rules();
    let remote_ports = vec![PortRange { first: 53, last: 53 }];
    let filter = PacketFilter { remote_ports, ..PacketFilter::ANY };
    rules.uplink[0].sdf = vec![filter.clone()].into();
    rules.downlink[0].sdf = vec![filter].into();
    rules
}

#[test]
fn later_fragments_of_users_match_filters_by_their_first() {
    let frames: [(PortId, PortId, Vec<u8>); 4] = [
        (N6, N3, from_gateway().ipv4(SERVER, UE).udp(53, 4000).payload(&content(100)).build()),
        (N6, N3, from_gateway().ipv6(SERVER_V6, UE_V6).udp(53, 4).payload(&content(100)).build()),
        (N6, N3, from_gateway().ipv4(SERVER, UE).udp(54, 4000).payload(&content(100)).build()),
        (N6, N3, from_gateway().ipv6(SERVER_V6, UE_V6).udp(54, 4).payload(&content(100)).build()),
    ];
    for (at, (from, to, whole)) in frames.iter().enumerate() {
        for mut scene in [PipelineFixture::with(port_53()), PipelineFixture::usual(port_53())] {
            let (parts, others) = (divided(whole, 7, &[40, 40]), divided(whole, 8, &[40, 40]));
            // Without the first fragment there are no ports.
            scene.assert_drops(*from, &parts[1], DropReason::PdrUnmatched);
            let passes = at < 2;
            for part in &parts {
                assert_eq!(scene.pass(*from, part, *to).len(), usize::from(passes), "frame {at}");
            }
            scene.assert_drops(*from, &others[2], DropReason::PdrUnmatched);
            scene.now += Nanos::from_secs(5);
            scene.assert_drops(*from, &parts[1], DropReason::PdrUnmatched);
        }
    }
}

#[test]
fn later_fragments_of_uplink_take_the_pdr_of_their_first() {
    let mut rules = port_53();
    let mut other = rules.uplink[0].clone();
    other.sdf = Vec::new().into();
    other.precedence = Precedence(200);
    other.id.0 = 9;
    other.far = 2;
    rules.uplink.push(other);
    rules.fars.push(adit_rules::FarEntry { action: ApplyAction::DROP, ..rules.fars[0].clone() });
    let mut scene = PipelineFixture::usual(rules);
    let whole = |port| {
        let packet = PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(UE, SERVER);
        packet.udp(4000, port).payload(&content(100)).build()
    };
    let in_tunnel = |part: &[u8]| {
        let mut frame = tunneled().ipv4(UE, SERVER).payload(&part[ETHERNET + 20..]).build();
        let at = frame.len() - (part.len() - ETHERNET);
        frame[at..].copy_from_slice(&part[ETHERNET..]);
        frame
    };
    for (port, passes) in [(53, 1), (80, 0)] {
        for part in divided(&whole(port), port, &[40, 40]) {
            assert_eq!(scene.pass(N3, &in_tunnel(&part), N6).len(), passes, "port {port}");
        }
    }
    assert_eq!(scene.dropped(DropReason::FarDrop), 3);
    let ip = parse_ip(&divided(&whole(53), 1, &[40])[1][ETHERNET..], true).unwrap();
    assert_eq!(ip.fragment, FragmentKind::Later);
}
