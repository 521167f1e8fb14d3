//! The program on single frames, through `BPF_PROG_TEST_RUN`.
#![allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]

#[path = "program/division.rs"]
mod division;
#[path = "program/fields.rs"]
mod fields;

use core::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use adit_rules::{
    FastRule, FastRuleForwarding, FastRulePeer, FastRuleTransport, FastRuleUe, FastRuleUsage,
    NetworkPart, Offload, OffloadCounts, OffloadInterface, OffloadRule, OuterTos, SessionKey,
};
use adit_types::{
    Direction, DomainId, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, Nanos, NextHopIndex,
    PortId, Qfi, SessionIndex, SliceId, Teid, VlanId,
};
use adit_wire::checksum::{pseudo_ipv4, pseudo_ipv6};
use adit_xdp::{XdpConfig, XdpOffload, XdpProgram, XdpVerdict, load};
use libbpf_rs::{Program, Xdp, XdpFlags};

const SESSION: SessionIndex = SessionIndex(5);
const TEID: Teid = Teid(0xabcd_0003);
const UE: Ipv4Addr = Ipv4Addr::new(10, 60, 0, 9);
const SERVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
const UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x45, 9, 0, 0, 0, 1);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 8);
const GNB: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const GNB_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
const GATEWAY_MAC: [u8; 6] = [2, 0, 0, 0, 1, 2];
const CONTAINER: [u8; 4] = [1, 0x10, 9, 0];

/// Port 0 is N3, port 1 is N6. `None` without the privilege to load programs.
fn loaded() -> Option<(XdpOffload, Vec<XdpProgram>)> {
    loaded_with(false)
}

/// As [`loaded`], and SYNs of the data network are for workers if `keeps_syns`.
fn loaded_with(keeps_syns: bool) -> Option<(XdpOffload, Vec<XdpProgram>)> {
    let interface = |id: u8, role, v4| OffloadInterface {
        id: InterfaceId(id),
        role,
        domain: DomainId(0),
        port: PortId(id.into()),
        vlan: VlanId::UNTAGGED,
        mac: MacAddr(MACS[usize::from(id)]),
        mtu_bytes: 1500,
        keeps_syns: keeps_syns && role == InterfaceRole::N6,
        v4: Some(v4),
        v6: None,
    };
    let config = XdpConfig {
        sessions_max: 16,
        teid_slot_bits: 5,
        next_hops_max: 16,
        interfaces: vec![
            interface(0, InterfaceRole::N3, OURS),
            interface(1, InterfaceRole::N6, Ipv4Addr::new(10, 0, 0, 1)),
        ],
        ue_pools_v4: vec![(DomainId(0), "10.60.0.0/24".parse().unwrap())],
        devices: vec![(PortId(0), 1), (PortId(1), 1)],
    };
    match load(&config, || Nanos(1 << 60)) {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// An IPv6 address as a key.
fn upper(addr: Ipv6Addr) -> u64 {
    u64::try_from(addr.to_bits() >> 64).unwrap()
}

fn rule(forwarding: FastRuleForwarding, arrival: u8) -> FastRule {
    FastRule {
        arrival: InterfaceSet::only(InterfaceId(arrival)),
        ue_v4: FastRuleUe::Only(UE),
        ue_v6: FastRuleUe::Only(upper(UE_V6)),
        forwarding,
        meters: [false; 2],
        slice: SliceId(0),
        guaranteed: false,
        usage: FastRuleUsage::default(),
    }
}

fn uplink() -> FastRule {
    let forwarding = FastRuleForwarding::Uplink {
        teid: TEID,
        transport: FastRuleTransport::V4,
        qfis: [Qfi::new(9).unwrap()].into_iter().collect(),
        egress: InterfaceSet::only(InterfaceId(1)),
    };
    rule(forwarding, 0)
}

fn downlink() -> FastRule {
    let forwarding = FastRuleForwarding::Downlink {
        teid: Teid(0x77),
        peer: FastRulePeer::V4(GNB),
        next_hop: NextHopIndex(1),
        tos: OuterTos::default().with_dscp(0xb8),
        marking: Some((Qfi::new(9).unwrap(), false)),
    };
    rule(forwarding, 1)
}

fn put(offload: &mut XdpOffload, is_limited: bool) {
    let within = InterfaceSet::only(InterfaceId(1));
    offload.set_gateway(within, 1, Some(NextHopIndex(0)));
    offload.set_networks(NetworkPart::V4(0x0808), 1);
    offload.set_networks(NetworkPart::V6(0x2001 ^ 0x0db8 ^ 0xffff), 1);
    offload.set_next_hop(NextHopIndex(0), Some((InterfaceId(1), MacAddr(GATEWAY_MAC))));
    offload.set_next_hop(NextHopIndex(1), Some((InterfaceId(0), MacAddr(GNB_MAC))));
    offload.add_key(SessionKey::Teid(TEID), SESSION);
    offload.add_key(SessionKey::UeIpv4(DomainId(0), UE), SESSION);
    offload.add_key(SessionKey::UeIpv6(DomainId(0), upper(UE_V6)), SESSION);
    for (direction, rule) in [(Direction::Uplink, uplink()), (Direction::Downlink, downlink())] {
        let rule = OffloadRule { rule: &rule, is_limited, has_shared_rates: false };
        offload.put(SESSION, direction, &rule).unwrap();
    }
}

fn with_checksum(mut header: Vec<u8>) -> Vec<u8> {
    let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!u16::try_from(sum).unwrap()).to_be_bytes());
    header
}

fn ipv4(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    ttl: u8,
    protocol: u8,
    tos: u8,
    df: u8,
    len: usize,
) -> Vec<u8> {
    let [high, low] = u16::try_from(20 + len).unwrap().to_be_bytes();
    let fixed = [0x45, tos, high, low, 0, 0, df, 0, ttl, protocol, 0, 0];
    with_checksum([&fixed[..], &src.octets(), &dst.octets()].concat())
}

fn packet(src: Ipv4Addr, dst: Ipv4Addr, ttl: u8) -> Vec<u8> {
    [&ipv4(src, dst, ttl, 17, 0, 0, 30)[..], &[7; 30]].concat()
}

fn packet_v6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let fixed = [0x60, 0, 0, 0, high, low, next_header, 64];
    [&fixed[..], &src.octets(), &dst.octets(), payload].concat()
}

fn ethernet(dst: [u8; 6], src: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let kind = if payload[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&dst[..], &src, &kind, payload].concat()
}

fn tunneled(teid: Teid, container: [u8; 4], inner: &[u8]) -> Vec<u8> {
    let len = |octets: usize| u16::try_from(octets).unwrap().to_be_bytes();
    let mut gtpu = vec![0x34, 255];
    gtpu.extend(len(inner.len() + 8));
    gtpu.extend(teid.0.to_be_bytes());
    gtpu.extend([0, 0, 0, 0x85]);
    gtpu.extend(container);
    gtpu.extend(inner);
    let mut udp = [2152_u16.to_be_bytes(), 2152_u16.to_be_bytes()].concat();
    udp.extend(len(gtpu.len() + 8));
    udp.extend([0, 0]);
    [udp, gtpu].concat()
}

fn from_gnb(teid: Teid, container: [u8; 4], inner: &[u8]) -> Vec<u8> {
    let payload = tunneled(teid, container, inner);
    let ip = ipv4(GNB, OURS, 64, 17, 0, 0, payload.len());
    ethernet(MACS[0], GNB_MAC, &[ip, payload].concat())
}

fn run(program: &mut XdpProgram, frame: &[u8]) -> (XdpVerdict, Vec<u8>) {
    program.test_run(frame).unwrap()
}

/// After this time without packets, workers have none of an entry.
const QUIET: Duration = Duration::from_millis(5);

/// The packets of an entry that was put follow those that the worker may have of it.
fn settle(program: &mut XdpProgram, frame: &[u8]) {
    assert_eq!(run(program, frame).0, XdpVerdict::Passed);
    thread::sleep(QUIET);
}

fn counts(ul: (u64, u64), dl: (u64, u64), offload: &XdpOffload) {
    let OffloadCounts { ul_pkts, ul_bytes, dl_pkts, dl_bytes, .. } =
        offload.usage().counted(SESSION);
    assert_eq!(((ul_pkts, ul_bytes), (dl_pkts, dl_bytes)), (ul, dl));
}

#[test]
fn usual_packets_leave_as_the_rules_say_and_are_counted() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, false);
    let frame = from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64));
    settle(&mut programs[0], &frame);
    let (verdict, left) = run(&mut programs[0], &frame);
    assert_eq!(verdict, XdpVerdict::Forwarded);
    assert_eq!(left, ethernet(GATEWAY_MAC, MACS[1], &packet(UE, SERVER, 63)));
    counts((1, 50), (0, 0), &offload);
    // Padding does not leave.
    let mut frame = ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 2));
    frame.extend([0; 6]);
    settle(&mut programs[1], &frame);
    let (verdict, left) = run(&mut programs[1], &frame);
    assert_eq!(verdict, XdpVerdict::Forwarded);
    let payload = tunneled(Teid(0x77), [1, 0, 9, 0], &packet(SERVER, UE, 1));
    let ip = ipv4(OURS, GNB, 64, 17, 0xb8, 0x40, payload.len());
    assert_eq!(left, ethernet(GNB_MAC, MACS[0], &[ip, payload].concat()));
    counts((1, 50), (1, 50), &offload);
    let totals = offload.totals();
    let (n3, n6) = (totals.interfaces[0], totals.interfaces[1]);
    assert_eq!((n3.rx_pkts, n3.dl_pkts, n6.rx_pkts, n6.ul_pkts), (1, 1, 1, 1));
    assert_eq!((n3.rx_bytes, n6.ul_bytes, n6.rx_bytes, n3.dl_bytes), (108, 64, 70, 108));
    assert!(offload.usage().counted(SESSION).last.is_some());
}

#[test]
fn other_packets_pass_unchanged() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, false);
    let usual = packet(UE, SERVER, 64);
    let good = from_gnb(TEID, CONTAINER, &usual);
    let changed = |at: usize, octet: u8| {
        let mut frame = good.clone();
        frame[at] = octet;
        frame
    };
    let spoofed = packet(Ipv4Addr::new(10, 60, 0, 8), SERVER, 64);
    // The lengths end before the extension header does; the packet of the user is in the padding.
    let in_padding = |inner: &[u8]| {
        let mut payload = tunneled(TEID, CONTAINER, inner);
        payload[4..6].copy_from_slice(&16_u16.to_be_bytes());
        payload[10..12].copy_from_slice(&0_u16.to_be_bytes());
        ethernet(MACS[0], GNB_MAC, &[ipv4(GNB, OURS, 64, 17, 0, 0, 16), payload].concat())
    };
    let marked = |tos: u8| {
        let payload = tunneled(TEID, CONTAINER, &usual);
        let header = ipv4(GNB, OURS, 64, 17, tos, 0, payload.len());
        ethernet(MACS[0], GNB_MAC, &[header, payload].concat())
    };
    let others = [
        ("packet in the padding", in_padding(&usual)),
        ("packet beyond the frame", in_padding(&usual[..usual.len() - 4])),
        ("other station", changed(0, 0xff)),
        ("ARP", changed(13, 6)),
        ("options of IP", changed(14, 0x46)),
        ("wrong checksum", changed(24, good[24] ^ 1)),
        ("fragment", changed(20, 0x20)),
        ("other port", changed(37, 0)),
        ("Echo Request", changed(43, 1)),
        ("wrong length", changed(45, 3)),
        ("CE", marked(0x03)),
        ("ECT(1)", marked(0xb9)),
        ("unknown TEID", from_gnb(Teid(1), CONTAINER, &usual)),
        ("same place, other TEID", from_gnb(Teid(TEID.0 ^ 1 << 31), CONTAINER, &usual)),
        ("QoS flow", from_gnb(TEID, [1, 0x10, 8, 0], &usual)),
        ("long container", from_gnb(TEID, [2, 0x10, 9, 0], &usual)),
        ("other source", from_gnb(TEID, CONTAINER, &spoofed)),
        ("hop limit", from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 1))),
        ("route", from_gnb(TEID, CONTAINER, &packet(UE, Ipv4Addr::new(9, 9, 9, 9), 64))),
        ("multicast", from_gnb(TEID, CONTAINER, &packet(UE, Ipv4Addr::new(224, 0, 0, 1), 64))),
        ("cut", good[..good.len() - 1].to_vec()),
    ];
    for (name, frame) in others {
        assert_eq!(run(&mut programs[0], &frame), (XdpVerdict::Passed, frame), "{name}");
    }
    let other_ue = packet(SERVER, Ipv4Addr::new(10, 60, 0, 10), 64);
    for (name, packet) in [
        ("other UE", other_ue),
        ("hop limit", packet(SERVER, UE, 1)),
        ("source", packet(Ipv4Addr::LOCALHOST, UE, 64)),
    ] {
        let frame = ethernet(MACS[1], GATEWAY_MAC, &packet);
        assert_eq!(run(&mut programs[1], &frame), (XdpVerdict::Passed, frame), "{name}");
    }
    counts((0, 0), (0, 0), &offload);
    assert_eq!(offload.totals().passed_pkts, 24);
    // Without a neighbor, and without an entry.
    offload.set_next_hop(NextHopIndex(0), None);
    assert_eq!(run(&mut programs[0], &good).0, XdpVerdict::Passed);
    offload.set_next_hop(NextHopIndex(0), Some((InterfaceId(1), MacAddr(GATEWAY_MAC))));
    settle(&mut programs[0], &good);
    assert_eq!(run(&mut programs[0], &good).0, XdpVerdict::Forwarded);
    offload.remove(SESSION, Direction::Uplink);
    assert_eq!(run(&mut programs[0], &good).0, XdpVerdict::Passed);
}

/// A segment of `len` octets with a flag, or a datagram with the same octets.
fn upper_layer(flags: u8, len: usize) -> Vec<u8> {
    let mut segment = vec![0x12, 0x34, 1, 0xbb, 0, 0, 0, 9, 0, 0, 0, 0, 0x60, flags];
    segment.resize(len.max(14), 7);
    segment[..len].to_vec()
}

#[test]
fn syns_pass_where_workers_have_to_see_them() {
    use XdpVerdict::{Forwarded, Passed};
    for keeps_syns in [false, true] {
        let Some((mut offload, mut programs)) = loaded_with(keeps_syns) else { return };
        put(&mut offload, false);
        settle(&mut programs[0], &from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64)));
        settle(&mut programs[1], &ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 64)));
        let kept = if keeps_syns { Passed } else { Forwarded };
        let segments = [
            ("SYN", 6, upper_layer(0x02, 24), kept),
            ("SYN-ACK", 6, upper_layer(0x12, 24), kept),
            ("ACK", 6, upper_layer(0x10, 24), Forwarded),
            ("all other flags", 6, upper_layer(0xfd, 24), Forwarded),
            ("UDP", 17, upper_layer(0x02, 24), Forwarded),
            ("flags at the end", 6, upper_layer(0x02, 14), kept),
            ("no flags", 6, upper_layer(0x02, 13), Forwarded),
        ];
        for is_v6 in [false, true] {
            let between = |is_uplink, protocol, payload: &[u8]| match (is_v6, is_uplink) {
                (false, true) => {
                    [&ipv4(UE, SERVER, 64, protocol, 0, 0, payload.len())[..], payload].concat()
                }
                (false, false) => {
                    [&ipv4(SERVER, UE, 64, protocol, 0, 0, payload.len())[..], payload].concat()
                }
                (true, true) => packet_v6(UE_V6, SERVER_V6, protocol, payload),
                (true, false) => packet_v6(SERVER_V6, UE_V6, protocol, payload),
            };
            for (name, protocol, payload, verdict) in &segments {
                let uplink = from_gnb(TEID, CONTAINER, &between(true, *protocol, payload));
                let packet = between(false, *protocol, payload);
                let downlink = ethernet(MACS[1], GATEWAY_MAC, &packet);
                for (program, frame) in programs.iter_mut().zip([uplink, downlink]) {
                    let told = run(program, &frame).0;
                    assert_eq!(told, *verdict, "{name}, IPv6: {is_v6}, kept: {keeps_syns}");
                }
            }
        }
    }
}

#[test]
fn outer_header_copies_dscp_and_ecn_if_the_rule_says_so() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    let copying = OuterTos::copying;
    for (tos, expected) in [
        (copying(false, true), 0x03),
        (copying(true, false), 0xb8),
        (copying(true, true), 0xbb),
        (copying(false, true).with_dscp(0x28), 0x2b),
    ] {
        put(&mut offload, false);
        let mut rule = downlink();
        if let FastRuleForwarding::Downlink { tos: of, .. } = &mut rule.forwarding {
            *of = tos;
        }
        let rule = OffloadRule { rule: &rule, is_limited: false, has_shared_rates: false };
        offload.put(SESSION, Direction::Downlink, &rule).unwrap();
        let packet = |ttl| [&ipv4(SERVER, UE, ttl, 17, 0xbb, 0, 30)[..], &[7; 30]].concat();
        let frame = ethernet(MACS[1], GATEWAY_MAC, &packet(64));
        settle(&mut programs[1], &frame);
        let payload = tunneled(Teid(0x77), [1, 0, 9, 0], &packet(63));
        let ip = ipv4(OURS, GNB, 64, 17, expected, 0x40, payload.len());
        let left = ethernet(GNB_MAC, MACS[0], &[ip, payload].concat());
        assert_eq!(run(&mut programs[1], &frame), (XdpVerdict::Forwarded, left), "{tos:?}");
    }
}

#[test]
fn packet_whose_checksum_a_kernel_left_open_passes_to_the_worker() {
    const UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 9, 0, 0, 0, 5);
    const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0xffff, 0, 0, 0x80, 1);
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, false);
    let key = (UE_V6.to_bits() >> 64) as u64;
    offload.add_key(SessionKey::UeIpv6(DomainId(0), key), SESSION);
    let both = FastRule { ue_v6: FastRuleUe::Only(key), ..downlink() };
    let rule = OffloadRule { rule: &both, is_limited: false, has_shared_rates: false };
    offload.put(SESSION, Direction::Downlink, &rule).unwrap();
    const LEN: u8 = 30;
    let v6_header = |protocol| {
        let fixed = [0x60, 0, 0, 0, 0, LEN, protocol, 64];
        [&fixed[..], &SERVER_V6.octets(), &UE_V6.octets()].concat()
    };
    let v6_type = |mut frame: Vec<u8>| {
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame
    };
    let segment = |field: usize, sum: u16| {
        let mut segment = vec![7; LEN.into()];
        segment[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        segment
    };
    settle(&mut programs[1], &ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 64)));
    for (protocol, field) in [(17, 6), (6, 16)] {
        let v4 = pseudo_ipv4(SERVER, UE, protocol, LEN.into()).fold();
        let v6 = pseudo_ipv6(SERVER_V6, UE_V6, protocol, LEN.into()).fold();
        let frame_v4 = |sum, flags| {
            let header = ipv4(SERVER, UE, 64, protocol, 0, flags, LEN.into());
            ethernet(MACS[1], GATEWAY_MAC, &[header, segment(field, sum)].concat())
        };
        let frame_v6 = |sum| {
            let packet = [v6_header(protocol), segment(field, sum)].concat();
            v6_type(ethernet(MACS[1], GATEWAY_MAC, &packet))
        };
        for (frame, verdict) in [
            (frame_v4(v4, 0x40), XdpVerdict::Passed),
            (frame_v4(v4 ^ 1, 0x40), XdpVerdict::Forwarded),
            (frame_v4(v4, 0x20), XdpVerdict::Forwarded),
            (frame_v6(v6), XdpVerdict::Passed),
            (frame_v6(v6 ^ 1), XdpVerdict::Forwarded),
        ] {
            assert_eq!(run(&mut programs[1], &frame).0, verdict, "{protocol}: {frame:x?}");
        }
    }
}

#[test]
fn packets_beyond_the_narrowest_path_pass_to_the_worker() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, false);
    let downlink = |len: usize| {
        let payload = vec![7; len - 20 - 44];
        let inner = [&ipv4(SERVER, UE, 64, 17, 0, 0, payload.len())[..], &payload].concat();
        ethernet(MACS[1], GATEWAY_MAC, &inner)
    };
    let uplink = |len: usize| {
        let payload = vec![7; len - 20];
        let inner = [&ipv4(UE, SERVER, 64, 17, 0, 0, payload.len())[..], &payload].concat();
        from_gnb(TEID, CONTAINER, &inner)
    };
    settle(&mut programs[1], &downlink(200));
    settle(&mut programs[0], &uplink(200));
    for (limit, fits) in [(1400, 1400), (u16::MAX, 1500)] {
        offload.limit_tunnels(limit);
        assert_eq!(run(&mut programs[1], &downlink(fits)).0, XdpVerdict::Forwarded, "{limit}");
        assert_eq!(run(&mut programs[1], &downlink(fits + 1)).0, XdpVerdict::Passed, "{limit}");
        // Packets to data networks are limited by their link only.
        assert_eq!(run(&mut programs[0], &uplink(1500)).0, XdpVerdict::Forwarded, "{limit}");
        assert_eq!(run(&mut programs[0], &uplink(1501)).0, XdpVerdict::Passed, "{limit}");
    }
}

#[test]
fn session_that_exchanges_a_teid_for_one_with_the_same_place_stays_known() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, false);
    let later = Teid(TEID.0 ^ 1 << 31);
    offload.add_key(SessionKey::Teid(later), SESSION);
    offload.remove_key(SessionKey::Teid(TEID), SESSION);
    let mut rule = uplink();
    if let FastRuleForwarding::Uplink { teid, .. } = &mut rule.forwarding {
        *teid = later;
    }
    let rule = OffloadRule { rule: &rule, is_limited: false, has_shared_rates: false };
    offload.put(SESSION, Direction::Uplink, &rule).unwrap();
    let frame = from_gnb(later, CONTAINER, &packet(UE, SERVER, 64));
    settle(&mut programs[0], &frame);
    assert_eq!(run(&mut programs[0], &frame).0, XdpVerdict::Forwarded);
    offload.remove_key(SessionKey::Teid(later), SESSION);
    assert_eq!(run(&mut programs[0], &frame).0, XdpVerdict::Passed);
}

#[test]
fn keys_of_deleted_sessions_leave_their_places_to_others() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    let domain = DomainId(0);
    // More addresses than the map of UEs has room for, one session after the other.
    for number in 0..200 {
        let keys = [
            SessionKey::Teid(Teid(TEID.0 ^ number << 8)),
            SessionKey::UeIpv4(domain, UE),
            SessionKey::UeIpv4(domain, Ipv4Addr::from_bits(0x0b00_0000 + number)),
            SessionKey::UeIpv6(domain, upper(UE_V6) + u64::from(number) + 1),
        ];
        let session = SessionIndex(number % 4);
        keys.into_iter().for_each(|key| offload.add_key(key, session));
        keys.into_iter().for_each(|key| offload.remove_key(key, session));
    }
    put(&mut offload, false);
    let server = packet_v6(SERVER_V6, UE_V6, 17, &[7; 30]);
    for (program, frame) in [
        (0, from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64))),
        (1, ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 64))),
        (1, ethernet(MACS[1], GATEWAY_MAC, &server)),
    ] {
        thread::sleep(QUIET);
        let frames = [&frame, &frame].map(|frame| {
            thread::sleep(QUIET);
            run(&mut programs[program], frame).0
        });
        assert_eq!(frames[1], XdpVerdict::Forwarded, "{frame:?}");
    }
    // The keys of the session lead nowhere when it is gone.
    for key in [
        SessionKey::Teid(TEID),
        SessionKey::UeIpv4(domain, UE),
        SessionKey::UeIpv6(domain, upper(UE_V6)),
    ] {
        offload.remove_key(key, SESSION);
    }
    let up = from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64));
    let down = ethernet(MACS[1], GATEWAY_MAC, &packet(SERVER, UE, 64));
    let down_v6 = ethernet(MACS[1], GATEWAY_MAC, &server);
    for (program, frame) in [(0, up), (1, down), (1, down_v6)] {
        assert_eq!(run(&mut programs[program], &frame).0, XdpVerdict::Passed, "{frame:?}");
    }
}

#[test]
fn packets_beyond_the_budget_pass() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, true);
    let usage = offload.usage();
    let frame = from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64));
    let mut forwards = |count: usize| {
        // The worker has had the packets before.
        run(&mut programs[0], &frame);
        thread::sleep(QUIET);
        let verdicts = (0..=count).map(|_| run(&mut programs[0], &frame).0);
        let forwarded = verdicts.take_while(|verdict| *verdict == XdpVerdict::Forwarded).count();
        assert_eq!(forwarded, count);
    };
    forwards(0);
    assert_eq!(usage.divide(SESSION, 202, 0), 101);
    forwards(2);
    counts((2, 100), (0, 0), &offload);
    assert_eq!(usage.divide(SESSION, 400, 2), 100);
    forwards(1);
    usage.take_back(SESSION);
    forwards(0);
    counts((3, 150), (0, 0), &offload);
    // A budget is not inherited by a later entry.
    assert_eq!(usage.divide(SESSION, u64::MAX, 2), u64::MAX);
    offload.remove(SESSION, Direction::Uplink);
    offload.remove(SESSION, Direction::Downlink);
    put(&mut offload, true);
    forwards(0);
    counts((3, 150), (0, 0), &offload);
    assert_eq!(usage.divide(SESSION, u64::MAX, 2), u64::MAX);
    settle(&mut programs[0], &frame);
    assert_eq!(run(&mut programs[0], &frame).0, XdpVerdict::Forwarded);
    counts((4, 200), (0, 0), &offload);
}

#[test]
fn packets_behind_those_of_the_worker_follow_them() {
    let Some((mut offload, mut programs)) = loaded() else { return };
    put(&mut offload, true);
    let usage = offload.usage();
    let frame = from_gnb(TEID, CONTAINER, &packet(UE, SERVER, 64));
    let mut next = || run(&mut programs[0], &frame).0;
    assert_eq!(next(), XdpVerdict::Passed);
    // A grant says nothing about the packets that the worker has, however late it comes.
    thread::sleep(QUIET);
    assert_eq!(usage.divide(SESSION, 202, 0), 101);
    assert_eq!(next(), XdpVerdict::Passed);
    counts((0, 0), (0, 0), &offload);
    // After a while without packets none is with the worker.
    thread::sleep(QUIET);
    assert_eq!(
        [next(), next(), next()],
        [XdpVerdict::Forwarded, XdpVerdict::Forwarded, XdpVerdict::Passed]
    );
    // A flow that is never quiet does not stay with the worker.
    assert_eq!(usage.divide(SESSION, u64::MAX, 2), u64::MAX);
    assert_eq!(next(), XdpVerdict::Passed);
    let began = Instant::now();
    while next() == XdpVerdict::Passed {
        assert!(began.elapsed() < Duration::from_secs(10), "packets stay with the worker");
    }
    assert_eq!(next(), XdpVerdict::Forwarded);
}

#[test]
fn batches_pass() {
    let Some((mut offload, _)) = loaded() else { return };
    let (first, second) = (offload.close(), offload.close());
    assert!(first < second);
    for _ in 0..5000 {
        if offload.passed() == second {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(offload.passed(), second);
}

/// A network namespace of the calling thread, with a pair of virtual devices. Returns the number of
/// one of them.
fn device() -> Option<u32> {
    // SAFETY: takes a number; it changes this thread only.
    let is_apart = unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 };
    let mut ip = Command::new("ip");
    let ip = ip.args(["link", "add", "xdp0", "type", "veth", "peer", "name", "xdp1"]);
    if !is_apart || !ip.status().is_ok_and(|status| status.success()) {
        println!("skipped: no network namespace, or no virtual devices");
        return None;
    }
    // SAFETY: the name ends with a zero.
    Some(unsafe { libc::if_nametoindex(c"xdp0".as_ptr()) })
}

#[test]
fn former_program_is_back_after_the_program_could_not_stay() {
    let Some((_offload, mut programs)) = loaded() else { return };
    let Some(device) = device() else { return };
    let index = i32::try_from(device).unwrap();
    // A program as the driver of AF_XDP sockets attaches it.
    programs[0].attach(device, &[]).unwrap();
    let id = |of: &Xdp<'_>, index| of.query_id(index, XdpFlags::NONE).unwrap();
    let any = std::io::stdin();
    let former = id(&Xdp::new(any.as_fd()), index);
    let fd = Program::fd_from_id(former).unwrap();
    programs[0].detach().unwrap();
    let drivers = Xdp::new(fd.as_fd());
    assert_eq!(id(&drivers, index), 0);
    drivers.attach(index, XdpFlags::NONE).unwrap();
    programs[1].attach(device, &[]).unwrap();
    assert_ne!(id(&drivers, index), former);
    programs[1].detach().unwrap();
    assert_eq!(id(&drivers, index), former);
    // The loopback device has no native XDP: the previous program stays.
    let loopback = 1;
    drivers.attach(1, XdpFlags::NONE).unwrap();
    assert!(programs[1].attach(loopback, &[]).is_err());
    assert_eq!(id(&drivers, 1), former);
    programs[1].detach().unwrap();
    assert_eq!(id(&drivers, 1), former);
}
