//! Each field of each header that the program reads, one changed at a time.

use super::*;

/// Where headers begin in frames from the gNB and to the data network.
const OUTER: usize = 14;
const UDP: usize = OUTER + 20;
const GTPU: usize = UDP + 8;
const INNER: usize = GTPU + 16;

/// Octets that are written at an offset, and whether the program forwards the frame then.
type FieldCase = (&'static str, usize, &'static [u8], XdpVerdict);

use XdpVerdict::{Forwarded, Passed};

/// Writes the right checksum of the IPv4 header at `at`.
fn mend(frame: &mut [u8], at: usize) {
    frame[at + 10..at + 12].fill(0);
    let header = with_checksum(frame[at..at + 20].to_vec());
    frame[at..at + 20].copy_from_slice(&header);
}

/// The frame that the program sends for `frame`: `front` puts headers before the packet at `at`,
/// whose hop limit or TTL is one less.
fn left_of(frame: &[u8], at: usize, front: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut packet = frame[at..].to_vec();
    if packet[0] >> 4 == 6 {
        packet.truncate(40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])));
        packet[7] -= 1;
    } else {
        packet.truncate(usize::from(u16::from_be_bytes([packet[2], packet[3]])));
        packet[8] -= 1;
        mend(&mut packet, 0);
    }
    front(&packet)
}

fn to_network(packet: &[u8]) -> Vec<u8> {
    ethernet(GATEWAY_MAC, MACS[1], packet)
}

fn to_gnb(packet: &[u8]) -> Vec<u8> {
    let payload = tunneled(Teid(0x77), [1, 0, 9, 0], packet);
    let ip = ipv4(OURS, GNB, 64, 17, 0xb8, 0x40, payload.len());
    ethernet(GNB_MAC, MACS[0], &[ip, payload].concat())
}

/// The frame with the octets of a case. `mended`: IPv4 headers that then get their right checksums.
fn changed(good: &[u8], (_, at, octets, _): FieldCase, mended: &[usize]) -> Vec<u8> {
    let mut frame = good.to_vec();
    frame[at..at + octets.len()].copy_from_slice(octets);
    mended.iter().for_each(|at| mend(&mut frame, *at));
    frame
}

/// Programs whose entries are settled, with gateways for destinations that no packet may have.
fn ready() -> Option<(XdpOffload, Vec<XdpProgram>)> {
    let (mut offload, mut programs) = loaded()?;
    put(&mut offload, false);
    for part in [0x0000, 0x7f00, 0xa9fe, 0xe000, 0xffff] {
        offload.set_networks(NetworkPart::V4(part), 1);
    }
    settle(&mut programs[0], &from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64)));
    settle(&mut programs[1], &ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 64)));
    Some((offload, programs))
}

const OF_G_PDUS: &[FieldCase] = &[
    ("destination", 0, &[3], Passed),
    ("destination", 5, &[9], Passed),
    ("source", 6, &[9; 6], Forwarded),
    ("type", 12, &[0x86, 0xdd], Passed),
    ("type", 12, &[0x08, 0x06], Passed),
    ("version", OUTER, &[0x55], Passed),
    ("header length", OUTER, &[0x46], Passed),
    ("header length", OUTER, &[0x44], Passed),
    ("DSCP", OUTER + 1, &[0xb8], Forwarded),
    ("ECT(0)", OUTER + 1, &[2], Forwarded),
    ("ECT(1)", OUTER + 1, &[1], Passed),
    ("CE", OUTER + 1, &[3], Passed),
    ("length", OUTER + 2, &[0, 93], Passed),
    ("length", OUTER + 2, &[0, 95], Passed),
    ("identification", OUTER + 4, &[0xde, 0xad], Forwarded),
    ("don't fragment", OUTER + 6, &[0x40], Forwarded),
    ("first fragment", OUTER + 6, &[0x20], Passed),
    ("later fragment", OUTER + 6, &[0x00, 0x01], Passed),
    ("later fragment", OUTER + 6, &[0x10, 0x00], Passed),
    ("outer TTL", OUTER + 8, &[1], Forwarded),
    ("protocol", OUTER + 9, &[6], Passed),
    ("protocol", OUTER + 9, &[1], Passed),
    ("other gNB", OUTER + 12, &[192, 0, 2, 77], Forwarded),
    ("other address", OUTER + 16, &[192, 0, 2, 3], Passed),
    ("source port", UDP, &[0xff, 0xff], Forwarded),
    ("destination port", UDP + 2, &[0x08, 0x69], Passed),
    ("destination port", UDP + 2, &[0x09, 0x68], Passed),
    ("length of UDP", UDP + 4, &[0, 73], Passed),
    ("length of UDP", UDP + 4, &[0, 75], Passed),
    ("checksum of UDP", UDP + 6, &[0x12, 0x34], Forwarded),
    ("version of GTP-U", GTPU, &[0x54], Passed),
    ("GTP'", GTPU, &[0x24], Passed),
    ("reserved flag", GTPU, &[0x3c], Passed),
    ("no extension", GTPU, &[0x30], Passed),
    ("flag S", GTPU, &[0x36], Forwarded),
    ("flag PN", GTPU, &[0x35], Forwarded),
    ("flags S and PN", GTPU, &[0x37], Forwarded),
    ("message type", GTPU + 1, &[254], Passed),
    ("message type", GTPU + 1, &[26], Passed),
    ("length of GTP-U", GTPU + 2, &[0, 57], Passed),
    ("length of GTP-U", GTPU + 2, &[0, 59], Passed),
    ("TEID", GTPU + 4, &[0xab, 0xcd, 0, 2], Passed),
    ("TEID of the same place", GTPU + 4, &[0x2b, 0xcd, 0, 3], Passed),
    ("sequence and N-PDU number", GTPU + 8, &[1, 2, 3], Forwarded),
    ("no extension header", GTPU + 11, &[0], Passed),
    ("other extension header", GTPU + 11, &[0x84], Passed),
    ("length of the container", GTPU + 12, &[0], Passed),
    ("length of the container", GTPU + 12, &[2], Passed),
    ("PDU type 0", GTPU + 13, &[0x00], Forwarded),
    ("other bits of its octet", GTPU + 13, &[0x1f], Forwarded),
    ("PDU type 2", GTPU + 13, &[0x20], Passed),
    ("PDU type 8", GTPU + 13, &[0x80], Passed),
    ("PPI", GTPU + 14, &[0x89], Passed),
    ("RQI", GTPU + 14, &[0x49], Forwarded),
    ("QFI", GTPU + 14, &[8], Passed),
    ("further extension header", GTPU + 15, &[0x85], Passed),
    ("further extension header", GTPU + 15, &[1], Passed),
    ("inner version", INNER, &[0x55], Passed),
    ("inner options", INNER, &[0x46], Passed),
    ("inner DSCP and ECN", INNER + 1, &[0xbb], Forwarded),
    ("inner padding", INNER + 2, &[0, 49], Forwarded),
    ("no inner payload", INNER + 2, &[0, 20], Forwarded),
    ("inner length", INNER + 2, &[0, 51], Passed),
    ("inner length", INNER + 2, &[0, 19], Passed),
    ("inner fragment", INNER + 6, &[0x20, 0x01], Forwarded),
    ("hops", INNER + 8, &[2], Forwarded),
    ("no hops", INNER + 8, &[1], Passed),
    ("no hops", INNER + 8, &[0], Passed),
    ("inner protocol", INNER + 9, &[253], Forwarded),
    ("spoofed", INNER + 12, &[10, 60, 0, 8], Passed),
    ("spoofed", INNER + 12, &[11, 60, 0, 9], Passed),
    ("other server", INNER + 16, &[8, 8, 4, 4], Forwarded),
    ("no gateway", INNER + 16, &[8, 9, 8, 8], Passed),
    ("this network", INNER + 16, &[0, 0, 0, 1], Passed),
    ("loopback", INNER + 16, &[127, 0, 0, 1], Passed),
    ("link-local", INNER + 16, &[169, 254, 1, 1], Passed),
    ("multicast", INNER + 16, &[224, 0, 0, 1], Passed),
    ("broadcast", INNER + 16, &[255, 255, 255, 255], Passed),
];

#[test]
fn each_field_of_a_g_pdu_decides() {
    let Some((_offload, mut programs)) = ready() else { return };
    let good = from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64));
    for case in OF_G_PDUS {
        let frame = changed(&good, *case, &[OUTER, INNER]);
        let expected = match case.3 {
            Forwarded => left_of(&frame, INNER, to_network),
            _ => frame.clone(),
        };
        assert_eq!(run(&mut programs[0], &frame), (case.3, expected), "{case:?}");
    }
    for (name, at) in [("outer checksum", OUTER + 10), ("inner checksum", INNER + 10)] {
        let mut frame = good.clone();
        frame[at] ^= 1;
        assert_eq!(run(&mut programs[0], &frame).0, Passed, "{name}");
    }
}

const OF_PLAIN_PACKETS: &[FieldCase] = &[
    ("destination", 0, &[3], Passed),
    ("type of IPv6", 12, &[0x86, 0xdd], Passed),
    ("ARP", 12, &[0x08, 0x06], Passed),
    ("version", OUTER, &[0x55], Passed),
    ("options", OUTER, &[0x46], Passed),
    ("DSCP and ECN", OUTER + 1, &[0xbb], Forwarded),
    ("padding", OUTER + 2, &[0, 49], Forwarded),
    ("no payload", OUTER + 2, &[0, 20], Forwarded),
    ("length", OUTER + 2, &[0, 51], Passed),
    ("length", OUTER + 2, &[0, 19], Passed),
    ("fragment", OUTER + 6, &[0x20, 0x01], Forwarded),
    ("hops", OUTER + 8, &[2], Forwarded),
    ("no hops", OUTER + 8, &[1], Passed),
    ("no hops", OUTER + 8, &[0], Passed),
    ("protocol", OUTER + 9, &[253], Forwarded),
    ("other server", OUTER + 12, &[9, 9, 9, 9], Forwarded),
    ("this network", OUTER + 12, &[0, 0, 0, 1], Passed),
    ("loopback", OUTER + 12, &[127, 0, 0, 1], Passed),
    ("link-local", OUTER + 12, &[169, 254, 1, 1], Passed),
    ("multicast", OUTER + 12, &[239, 0, 0, 1], Passed),
    ("broadcast", OUTER + 12, &[255, 255, 255, 255], Passed),
    ("other UE", OUTER + 16, &[10, 60, 0, 8], Passed),
    ("our address", OUTER + 16, &[10, 0, 0, 1], Passed),
];

#[test]
fn each_field_of_a_plain_packet_decides() {
    let Some((mut offload, mut programs)) = ready() else { return };
    let good = ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 64));
    for case in OF_PLAIN_PACKETS {
        let frame = changed(&good, *case, &[OUTER]);
        let expected = match case.3 {
            Forwarded => left_of(&frame, OUTER, to_gnb),
            _ => frame.clone(),
        };
        assert_eq!(run(&mut programs[1], &frame), (case.3, expected), "{case:?}");
    }
    let mut frame = good.clone();
    frame[OUTER + 10] ^= 1;
    assert_eq!(run(&mut programs[1], &frame).0, Passed, "checksum");
    // The index of UEs may lead to the session by an address that its rule does not have.
    let other = Ipv4Addr::new(10, 60, 0, 8);
    offload.add_key(SessionKey::UeIpv4(DomainId(0), other), SESSION);
    let frame = ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, other, 64));
    assert_eq!(run(&mut programs[1], &frame).0, Passed, "another UE than that of the rule");
    assert_eq!(run(&mut programs[1], &good).0, Forwarded);
}

/// Offsets count from the IPv6 header.
const OF_IPV6: &[FieldCase] = &[
    ("version", 0, &[0x70], Passed),
    ("traffic class and flow label", 1, &[0xb0, 0x12, 0x34], Forwarded),
    ("padding", 4, &[0, 29], Forwarded),
    ("no payload", 4, &[0, 0], Forwarded),
    ("length", 4, &[0, 31], Passed),
    ("TCP", 6, &[6], Forwarded),
    ("ICMPv6", 6, &[58], Forwarded),
    ("hop-by-hop options", 6, &[0], Passed),
    ("routing header", 6, &[43], Passed),
    ("fragment header", 6, &[44], Passed),
    ("destination options", 6, &[60], Passed),
    ("hops", 7, &[2], Forwarded),
    ("no hops", 7, &[1], Passed),
    ("no hops", 7, &[0], Passed),
];

#[test]
fn each_field_of_an_ipv6_packet_decides() {
    let Some((_offload, mut programs)) = ready() else { return };
    let uplink = packet_v6(UE_V6, SERVER_V6, 17, &[7; 30]);
    let downlink = packet_v6(SERVER_V6, UE_V6, 17, &[7; 30]);
    let of_uplink: &[FieldCase] = &[
        ("spoofed", 8, &[0x20, 0x01, 0x0d, 0xb8, 0, 0x45, 0, 8], Passed),
        ("other host of the UE", 16, &[9; 8], Forwarded),
        ("other host", 32, &[9; 8], Forwarded),
        ("no gateway", 24, &[0x20, 0x01, 0x0d, 0xb8, 0xff, 0xfe], Passed),
    ];
    let of_downlink: &[FieldCase] = &[
        ("unspecified source", 8, &[0; 16], Passed),
        ("link-local source", 8, &[0xfe, 0x80], Passed),
        ("multicast source", 8, &[0xff, 0x05], Passed),
        ("other UE", 24, &[0x20, 0x01, 0x0d, 0xb8, 0, 0x45, 0, 8], Passed),
        ("other host of the UE", 32, &[9; 8], Forwarded),
    ];
    for case in OF_IPV6.iter().chain(of_uplink) {
        let frame = from_gnb(TEID, CONTAINER, &changed(&uplink, *case, &[]));
        let expected = match case.3 {
            Forwarded => left_of(&frame, INNER, to_network),
            _ => frame.clone(),
        };
        assert_eq!(run(&mut programs[0], &frame), (case.3, expected), "uplink: {case:?}");
    }
    for case in OF_IPV6.iter().chain(of_downlink) {
        let mut frame = ethernet(MACS[1], GATEWAY_MAC, &changed(&downlink, *case, &[]));
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        let expected = match case.3 {
            Forwarded => left_of(&frame, OUTER, to_gnb),
            _ => frame.clone(),
        };
        assert_eq!(run(&mut programs[1], &frame), (case.3, expected), "downlink: {case:?}");
    }
}

#[test]
fn optional_part_of_gtpu_is_passed_over_without_an_extension_header() {
    let mut rule = uplink();
    if let FastRuleForwarding::Uplink { qfis, .. } = &mut rule.forwarding {
        *qfis = [].into_iter().collect();
    }
    let rule = OffloadRule { rule: &rule, is_limited: false, has_shared_rates: false };
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, false);
    offload.put(SESSION, Direction::Uplink, &rule).unwrap();
    let inner = packet(UE, SERVER, 64);
    settle(&mut programs[0], &from_gnb(TEID, CONTAINER, &inner));
    for (flags, optional) in [(0x30, 0), (0x32, 4), (0x31, 4), (0x33, 4)] {
        let mut payload = tunneled(TEID, CONTAINER, &inner);
        payload.drain(16..24);
        payload[8] = flags;
        payload.splice(16..16, vec![0; optional]);
        let len = u16::try_from(payload.len()).unwrap();
        payload[4..6].copy_from_slice(&len.to_be_bytes());
        payload[10..12].copy_from_slice(&(len - 16).to_be_bytes());
        let ip = ipv4(GNB, OURS, 64, 17, 0, 0, payload.len());
        let frame = ethernet(MACS[0], GNB_MAC, &[ip, payload].concat());
        let left = to_network(&packet(UE, SERVER, 63));
        assert_eq!(run(&mut programs[0], &frame), (Forwarded, left), "{flags:#x}");
    }
}

#[test]
fn longest_packets_that_fit_the_link_are_forwarded_and_longer_ones_pass() {
    let Some((_offload, mut programs)) = ready() else { return };
    let of = |src, dst, len: usize| {
        [&ipv4(src, dst, 64, 17, 0, 0x40, len - 20)[..], &vec![7; len - 20]].concat()
    };
    for (len, verdict) in [(1499, Forwarded), (1500, Forwarded), (1501, Passed)] {
        let frame = from_gnb(TEID, CONTAINER, &of(UE, SERVER, len));
        assert_eq!(run(&mut programs[0], &frame).0, verdict, "uplink, {len}");
        let frame = ethernet(MACS[1], GATEWAY_MAC, &of(SERVER, UE, len - 44));
        assert_eq!(run(&mut programs[1], &frame).0, verdict, "downlink, {len}");
    }
}

#[test]
fn checksums_stay_right_when_a_hop_is_taken_away() {
    let Some((_offload, mut programs)) = ready() else { return };
    for wanted in [0x0000, 0x00ff, 0x0100, 0xfdff, 0xfeff, 0xfefe, 0xff00, 0xfffe] {
        // The identification makes it so.
        let with = |mut packet: Vec<u8>| {
            for identification in 0..=u16::MAX {
                packet[4..6].copy_from_slice(&identification.to_be_bytes());
                mend(&mut packet, 0);
                if packet[10..12] == u16::to_be_bytes(wanted) {
                    return packet;
                }
            }
            panic!("no header has {wanted:#x}");
        };
        let up = from_gnb(TEID, CONTAINER, &with(packet(UE, SERVER, 64)));
        let left = left_of(&up, INNER, to_network);
        assert_eq!(run(&mut programs[0], &up), (Forwarded, left), "{wanted:#x}");
        let down = ethernet(MACS[1], GATEWAY_MAC, &with(packet(SERVER, UE, 64)));
        let left = left_of(&down, OUTER, to_gnb);
        assert_eq!(run(&mut programs[1], &down), (Forwarded, left), "{wanted:#x}");
    }
}

#[test]
fn marking_of_the_rule_is_in_the_container() {
    for (marking, octet) in [
        (Some((Qfi::new(9).unwrap(), false)), Some(0x09)),
        (Some((Qfi::new(9).unwrap(), true)), Some(0x49)),
        (Some((Qfi::new(63).unwrap(), true)), Some(0x7f)),
        (None, None),
    ] {
        let Some((mut offload, mut programs)) = loaded() else { return };
        put(&mut offload, false);
        let mut rule = downlink();
        if let FastRuleForwarding::Downlink { marking: of, .. } = &mut rule.forwarding {
            *of = marking;
        }
        let rule = OffloadRule { rule: &rule, is_limited: false, has_shared_rates: false };
        offload.put(SESSION, Direction::Downlink, &rule).unwrap();
        let frame = ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 64));
        settle(&mut programs[1], &frame);
        let mut payload =
            tunneled(Teid(0x77), [1, 0, octet.unwrap_or(0), 0], &packet(SERVER, UE, 63));
        if octet.is_none() {
            payload.drain(16..24);
            let len = u16::try_from(payload.len()).unwrap();
            payload[4..6].copy_from_slice(&len.to_be_bytes());
            payload[8] = 0x30;
            payload[10..12].copy_from_slice(&(len - 16).to_be_bytes());
        }
        let ip = ipv4(OURS, GNB, 64, 17, 0xb8, 0x40, payload.len());
        let left = ethernet(GNB_MAC, MACS[0], &[ip, payload].concat());
        assert_eq!(run(&mut programs[1], &frame), (Forwarded, left), "{marking:?}");
    }
}
