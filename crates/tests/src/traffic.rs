//! Random packets: most belong to sessions that exist; some have one mistake, some have many.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::{SourceInterface, UeAddresses};
use adit_session::FTeidSpec;
use adit_testkit::packet::PacketBuilder;
use adit_types::{IpPrefix, Ipv6Prefix, MacAddr};
use adit_wire::gtpu::GtpuMessageType;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, SeedableRng};

use crate::oracle::{
    FragmentedPacketId, N4_ADDR, Oracle, OracleInterface, OracleRole, OracleSession, checksum,
};
use crate::scenario::{HOSTS, one_chance_in};

const GNB_MAC: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);

/// A packet and the port that it arrives on.
pub fn packet(rng: &mut StdRng, oracle: &Oracle) -> (u16, Vec<u8>) {
    let interface = *oracle.interfaces.choose(rng).unwrap();
    let (port, mut frame) = match rng.random_range(0..20) {
        0 => (interface.port, control(rng, oracle, &interface)),
        1 => (interface.port, junk(rng, &interface)),
        2..12 => uplink(rng, oracle),
        _ => downlink(rng, oracle),
    };
    if one_chance_in(rng, 8) {
        mutate(rng, &mut frame);
    }
    // A generator of its own: the other packets of a seed stay the same.
    let seed =
        frame.iter().fold(oracle.now.0, |sum, octet| sum * 31 % 0xffff_fffb + u64::from(*octet));
    fragment_of_known_packet(&mut StdRng::seed_from_u64(seed), oracle).unwrap_or((port, frame))
}

/// A usual packet: IPv4 in both headers, with a QoS flow uplink and from another UPF.
pub fn usual(rng: &mut StdRng, oracle: &Oracle) -> (u16, Vec<u8>) {
    let Some((_, session)) = oracle.sessions.choose(rng) else { return packet(rng, oracle) };
    let is_uplink = one_chance_in(rng, 2);
    let tunnels = session.pdrs.iter().filter_map(|pdr| match pdr.pdi.f_teid? {
        FTeidSpec::Given { teid, v4, .. } => {
            Some((pdr.pdi.source == SourceInterface::Access, teid.0, v4))
        }
        _ => None,
    });
    let tunnel = tunnels.clone().find(|tunnel| tunnel.0 == is_uplink);
    let tunnel = tunnel.filter(|_| is_uplink || !one_chance_in(rng, 8));
    let named = session.pdrs.iter().find_map(|pdr| pdr.pdi.ue?.addresses.v4);
    let (Some(ue), true) = (named, tunnel.is_some() || !is_uplink) else {
        return packet(rng, oracle);
    };
    let interface = side(rng, oracle, tunnel.is_some());
    let end = |known: &&OracleInterface| tunnel.is_some_and(|(.., v4)| v4 == Some(known.v4.0));
    let interface = oracle.interfaces.iter().find(end).copied().unwrap_or(interface);
    let host = if one_chance_in(rng, 60) { own_addr(rng, oracle, true) } else { host(rng, true) };
    let host = other_ue(rng, oracle, true).unwrap_or(host);
    let IpAddr::V4(host) = host else { unreachable!("IPv4 was asked for") };
    let builder = PacketBuilder::ethernet(MacAddr(interface.mac), GNB_MAC);
    let builder = if interface.vlan == 0 { builder } else { builder.vlan(interface.vlan) };
    let builder = match tunnel {
        Some((_, teid, _)) => {
            let tunnel = builder.ipv4("10.0.3.1", interface.v4.0).tos(ecn(rng, 1)).gtpu(teid);
            let container = rng.random_range(0..12);
            match (is_uplink, container) {
                (_, 0 | 1) => tunnel,
                (true, 2) | (false, 3..) => tunnel.psc_dl(9, container % 2 == 0),
                _ => tunnel.psc_ul(9),
            }
        }
        None => builder,
    };
    let (src, dst) = if is_uplink { (ue, host) } else { (host, ue) };
    let builder = builder.ipv4(src, dst).tos(ecn(rng, 2));
    let payload = vec![0x5a; rng.random_range(0..200)];
    let mut own = StdRng::seed_from_u64(rng.clone().random());
    let builder = match one_chance_in(&mut own, 4) {
        // Not longer than datagrams.
        true => segment(&mut own, builder, 4000, 443).payload(&payload[..payload.len() / 2]),
        false => builder.udp(4000, 53).payload(&payload),
    };
    (interface.port, builder.build())
}

/// Adds a TCP header, most often of a SYN with options, of which some are malformed.
fn segment(rng: &mut StdRng, builder: PacketBuilder, near: u16, far: u16) -> PacketBuilder {
    let flags = *[0x02, 0x12, 0x12, 0x10, 0x18, 0x06, 0xc2].choose(rng).unwrap();
    let mut options = Vec::new();
    while options.len() < 36 && !one_chance_in(rng, 5) {
        let mss: u16 = *[1460, 1440, 1400, 1360, 536, 65_535, 0].choose(rng).unwrap();
        let [high, low] = mss.to_be_bytes();
        let option: &[u8] = match rng.random_range(0..12) {
            0..5 => &[2, 4, high, low],
            5..8 => &[1],
            8 => &[3, 3, 7],
            9 => &[4, 2],
            10 => &[2, 3, high],
            _ => &[rng.random(), rng.random_range(0..6)],
        };
        options.extend(option);
    }
    options.truncate(40);
    builder.tcp(near, far, flags).options(&options)
}

/// An ECN field, Not-ECT most often. A generator of its own: what else a seed means stays the same.
fn ecn(rng: &StdRng, salt: u64) -> u8 {
    let mut own = StdRng::seed_from_u64(rng.clone().random::<u64>() ^ salt);
    if one_chance_in(&mut own, 3) { own.random_range(0..4) } else { 0 }
}

fn link(rng: &mut StdRng, interface: &OracleInterface) -> PacketBuilder {
    let dst = if one_chance_in(rng, 60) { [2, 0, 0, 0, 0x99, 0] } else { interface.mac };
    let builder = PacketBuilder::ethernet(MacAddr(dst), GNB_MAC);
    match interface.vlan {
        _ if one_chance_in(rng, 80) => builder.vlan(rng.random_range(1..=4094)),
        0 => builder,
        vlan => builder.vlan(vlan),
    }
}

fn side(rng: &mut StdRng, oracle: &Oracle, is_tunneled: bool) -> OracleInterface {
    let interfaces: Vec<&OracleInterface> = oracle
        .interfaces
        .iter()
        .filter(|known| (known.role != OracleRole::N6) == is_tunneled)
        .collect();
    **interfaces.choose(rng).unwrap()
}

fn ue_of(rng: &mut StdRng, session: Option<&OracleSession>) -> UeAddresses {
    let networks = session.into_iter().flat_map(|session| &session.pdrs);
    let networks =
        networks.flat_map(|pdr| pdr.pdi.further_ues.iter().chain(&pdr.pdi.framed_routes));
    let networks: Vec<IpPrefix> = networks.copied().collect();
    if let Some(network) = networks.choose(rng).filter(|_| one_chance_in(rng, 3)) {
        return host_of(rng, *network);
    }
    let named = session.into_iter().flat_map(|session| &session.pdrs);
    let named: Vec<UeAddresses> =
        named.filter_map(|pdr| pdr.pdi.ue).map(|ue| ue.addresses).collect();
    named.choose(rng).copied().unwrap_or(UeAddresses {
        v4: Some(Ipv4Addr::new(10, 45, 0, rng.random_range(1..=25))),
        v6: None,
    })
}

/// A host in the network, seldom outside it.
fn host_of(rng: &mut StdRng, network: IpPrefix) -> UeAddresses {
    let beside = u32::from(one_chance_in(rng, 10));
    match network {
        IpPrefix::V4(prefix) => {
            let spare = u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            let bits = prefix.addr().to_bits() ^ rng.random_range(0..=spare.min(0x3ff));
            UeAddresses { v4: Some(Ipv4Addr::from_bits(bits ^ beside << 8)), v6: None }
        }
        IpPrefix::V6(prefix) => {
            let spare = u64::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            let upper = u128::from(rng.random_range(0..=spare.min(7)) ^ u64::from(beside));
            let addr = Ipv6Addr::from_bits(prefix.addr().to_bits() ^ upper << 64);
            UeAddresses { v4: None, v6: Ipv6Prefix::containing(addr, 64) }
        }
    }
}

fn ue_addr(rng: &mut StdRng, ue: UeAddresses) -> IpAddr {
    let low: u64 = if one_chance_in(rng, 2) { 1 } else { rng.random() };
    let v6 = ue.v6.map(|prefix| {
        let spare = if prefix.len() > 64 { u64::MAX >> (prefix.len() - 64) } else { u64::MAX };
        let low = if one_chance_in(rng, 10) { low } else { low & spare };
        IpAddr::V6(Ipv6Addr::from_bits(prefix.addr().to_bits() | u128::from(low)))
    });
    let v4 = ue.v4.map(IpAddr::V4);
    let both: Vec<IpAddr> = v4.into_iter().chain(v6).collect();
    *both.choose(rng).unwrap()
}

fn host(rng: &mut StdRng, is_ipv4: bool) -> IpAddr {
    let all: Vec<IpAddr> = HOSTS.iter().map(|host| host.parse().unwrap()).collect();
    let same: Vec<&IpAddr> = all.iter().filter(|addr| addr.is_ipv4() == is_ipv4).collect();
    if one_chance_in(rng, 40) {
        return if is_ipv4 { "224.0.0.9".parse().unwrap() } else { "ff05::9".parse().unwrap() };
    }
    **same.choose(rng).unwrap()
}

/// Sometimes an address of a session's UE, or of a network behind it.
fn other_ue(rng: &mut StdRng, oracle: &Oracle, is_ipv4: bool) -> Option<IpAddr> {
    let (_, session) = oracle.sessions.choose(rng).filter(|_| one_chance_in(rng, 3))?;
    let ue = ue_of(rng, Some(session));
    Some(ue_addr(rng, ue)).filter(|addr| addr.is_ipv4() == is_ipv4)
}

/// An address of ours.
fn own_addr(rng: &mut StdRng, oracle: &Oracle, is_ipv4: bool) -> IpAddr {
    match oracle.interfaces.choose(rng).unwrap() {
        _ if is_ipv4 && one_chance_in(rng, 3) => N4_ADDR.into(),
        interface if is_ipv4 => interface.v4.0.into(),
        interface => interface.v6.0.into(),
    }
}

/// Adds an IP packet from `src` to `dst` of a random upper layer.
fn user(rng: &mut StdRng, builder: PacketBuilder, src: IpAddr, dst: IpAddr) -> PacketBuilder {
    let ttl = if one_chance_in(rng, 12) { rng.random_range(0..=2) } else { 64 };
    let ecn = ecn(rng, 2);
    let tos = ecn | [0, 0, 0xb8, 0x20].choose(rng).unwrap();
    let builder = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => builder.ipv4(src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst)) => builder.ipv6(src, dst),
        _ => unreachable!("one family"),
    };
    let builder = special(rng, builder.ttl(ttl).tos(tos), src.is_ipv4());
    let ports = [53, 80, 1024, 4500, 5050, 60000];
    let (near, far) = (*ports.choose(rng).unwrap(), *ports.choose(rng).unwrap());
    let builder = match rng.random_range(0..7) {
        0..3 => builder.udp(near, far),
        // A generator of its own, as above.
        3 | 4 => segment(&mut StdRng::seed_from_u64(rng.clone().random()), builder, near, far),
        5 => builder.icmp_echo(1, rng.random()),
        _ => {
            let protocol = *[50, 51, 132, 33, 253].choose(rng).unwrap();
            let builder = builder.protocol(protocol);
            return builder.payload(&[0, 0, 0x12, 0x34, 0, 0, 0x12, 0x34, rng.random(), 1, 2, 3]);
        }
    };
    let len = match rng.random_range(0..12) {
        0 => rng.random_range(1300..1440),
        1 => 0,
        _ => rng.random_range(0..100),
    };
    let mut payload: Vec<u8> = rng.random::<u64>().to_be_bytes().to_vec();
    payload.resize(len, 0x5a);
    builder.payload(&payload)
}

/// Options, extension headers, fragments, flow labels, don't fragment.
fn special(rng: &mut StdRng, builder: PacketBuilder, is_ipv4: bool) -> PacketBuilder {
    match (rng.random_range(0..12), is_ipv4) {
        (0, true) => builder.options(&[7, 7, 4, 0, 0, 0, 0]),
        (1, true) => builder.fragment(rng.random(), rng.random_range(0..3), rng.random()),
        (2 | 3, true) => builder.dont_fragment(),
        (0, false) => builder.extension(0, &[1, 4, 0, 0, 0, 0]),
        (1, false) => {
            let offset: u16 = rng.random_range(0..3) << 3 | rng.random_range(0..2);
            let identification: u32 = rng.random();
            let place = [&offset.to_be_bytes()[..], &identification.to_be_bytes()].concat();
            builder.extension(44, &place)
        }
        (2, false) => builder.extension(60, &[1, 4, 0, 0, 0, 0]).extension(43, &[0; 14]),
        (3, false) => builder.flow_label(0x12345),
        _ => builder,
    }
}

/// Sometimes a later fragment of a packet whose first fragment passed.
fn fragment_of_known_packet(rng: &mut StdRng, oracle: &Oracle) -> Option<(u16, Vec<u8>)> {
    if !one_chance_in(rng, 12) {
        return None;
    }
    let part = *oracle.first_fragments.keys().choose(rng)?;
    let (_, session) = oracle.sessions.iter().find(|(seid, _)| *seid == part.0)?;
    let tunnel = session.pdrs.iter().find_map(|pdr| match pdr.pdi.f_teid? {
        FTeidSpec::Given { teid, .. } => Some((teid.0, pdr.pdi.qfis.first().copied())),
        FTeidSpec::Choose { .. } => None,
    });
    let tunnel = tunnel.filter(|_| one_chance_in(rng, 2));
    let interface = side(rng, oracle, tunnel.is_some());
    let builder = link(rng, &interface);
    let builder = match tunnel {
        Some((teid, Some(qfi))) => {
            builder.ipv4("10.0.3.1", interface.v4.0).gtpu(teid).psc_ul(qfi.value())
        }
        Some((teid, None)) => builder.ipv4("10.0.3.1", interface.v4.0).gtpu(teid),
        None => builder,
    };
    Some((interface.port, later_fragment(rng, builder, part).build()))
}

/// A later fragment of that packet.
fn later_fragment(
    rng: &mut StdRng,
    builder: PacketBuilder,
    of: FragmentedPacketId,
) -> PacketBuilder {
    let (_, src, dst, identification, protocol) = of;
    let offset: u16 = rng.random_range(1..100);
    let builder = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let identification = u16::try_from(identification).unwrap();
            builder.ipv4(src, dst).fragment(identification, offset, rng.random())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let place = [&(offset << 3).to_be_bytes()[..], &identification.to_be_bytes()].concat();
            builder.ipv6(src, dst).extension(44, &place)
        }
        _ => unreachable!("one family"),
    };
    let payload: [u8; 24] = rng.random();
    match protocol {
        Some(protocol) => builder.protocol(protocol).payload(&payload),
        None => builder.payload(&payload),
    }
}

fn uplink(rng: &mut StdRng, oracle: &Oracle) -> (u16, Vec<u8>) {
    let interface = side(rng, oracle, true);
    let session = oracle.sessions.choose(rng).map(|(_, session)| session);
    let tunnels: Vec<_> = session
        .into_iter()
        .flat_map(|session| &session.pdrs)
        .filter_map(|pdr| match pdr.pdi.f_teid? {
            FTeidSpec::Given { teid, .. } => {
                let from_ran = pdr.pdi.source == SourceInterface::Access;
                Some((teid.0, pdr.pdi.qfis.first().copied(), from_ran))
            }
            FTeidSpec::Choose { .. } => None,
        })
        .collect();
    let (teid, qfi, from_ran) = match tunnels.choose(rng) {
        Some((teid, qfi, from_ran)) => {
            let wrong = if one_chance_in(rng, 20) { 1 << rng.random_range(0..32) } else { 0 };
            (teid ^ wrong, qfi.map(|qfi| qfi.value()), *from_ran)
        }
        None => (rng.random(), None, true),
    };
    let qfi = if one_chance_in(rng, 4) { Some(rng.random_range(0..12)) } else { qfi };
    let spoofed = one_chance_in(rng, 15);
    let ue = ue_of(rng, if spoofed { None } else { session });
    let ue = ue_addr(rng, ue);
    let own = one_chance_in(rng, 60);
    let host = if own { own_addr(rng, oracle, ue.is_ipv4()) } else { host(rng, ue.is_ipv4()) };
    let host = other_ue(rng, oracle, ue.is_ipv4()).unwrap_or(host);
    let turns = one_chance_in(rng, 6);
    let (src, dst) = if from_ran != turns { (ue, host) } else { (host, ue) };
    let (src, dst) = if one_chance_in(rng, 12) { on_link(rng, ue) } else { (src, dst) };
    let builder = link(rng, &interface);
    let outer_v6 = one_chance_in(rng, 6);
    let builder = if outer_v6 {
        builder.ipv6("2001:db8:3::1", interface.v6.0)
    } else {
        builder.ipv4("10.0.3.1", interface.v4.0)
    };
    let builder = builder.tos(0xb8 | ecn(rng, 1));
    let mut builder = match outer_v6 && one_chance_in(rng, 2) {
        // With a checksum, which is sometimes wrong.
        true if one_chance_in(rng, 5) => builder.udp(2152, 2152).overwrite(6, &[1, 2]).gtpu(teid),
        true => builder.udp(2152, 2152).gtpu(teid),
        false => builder.gtpu(teid),
    };
    if one_chance_in(rng, 10) {
        builder = builder.sequence(rng.random());
    }
    if one_chance_in(rng, 12) {
        let kind = *[0x40, 0x20, 0x03, 0x82, 0x55, 0x99, 0xc5].choose(rng).unwrap();
        builder = builder.extension(kind, &[1, 2]);
    }
    if let Some(qfi) = qfi {
        builder =
            if one_chance_in(rng, 10) { builder.psc_dl(qfi, true) } else { builder.psc_ul(qfi) };
    }
    let mut builder = user(rng, builder, src, dst);
    if one_chance_in(rng, 10) {
        builder = builder.trailer(&[0; 6]);
    }
    (interface.port, builder.build())
}

/// Source and destination that no router forwards; some are invalid in any packet.
fn on_link(rng: &mut StdRng, ue: IpAddr) -> (IpAddr, IpAddr) {
    let pairs: &[[&str; 2]] = match ue.is_ipv4() {
        true => &[
            ["0.0.0.0", "255.255.255.255"],
            ["10.0.3.1", "255.255.255.255"],
            ["169.254.1.1", ""],
            ["", "224.0.0.9"],
            ["127.0.0.1", "224.0.0.9"],
        ],
        false => &[
            ["fe80::1", "ff02::2"],
            ["fe80::1", "fe80::45"],
            ["::", "ff02::1:ff00:1"],
            ["", "ff02::2"],
            ["fe80::1", ""],
            ["ff02::2", ""],
        ],
    };
    let pair = pairs.choose(rng).unwrap();
    let [src, dst] = pair.map(|text| if text.is_empty() { ue } else { text.parse().unwrap() });
    (src, dst)
}

fn downlink(rng: &mut StdRng, oracle: &Oracle) -> (u16, Vec<u8>) {
    let interface = side(rng, oracle, false);
    let session = oracle.sessions.choose(rng).map(|(_, session)| session);
    let unknown = one_chance_in(rng, 15);
    let ue = ue_of(rng, if unknown { None } else { session });
    let dst = ue_addr(rng, ue);
    let src = host(rng, dst.is_ipv4());
    let builder = link(rng, &interface);
    let builder = n6_header(rng, builder, src, dst);
    let mut builder = user(rng, builder, src, dst);
    if one_chance_in(rng, 10) {
        builder = builder.trailer(&[0; 6]);
    }
    (interface.port, builder.build())
}

/// Sometimes the UDP or IP header of an N6 tunnel to the UE's address.
fn n6_header(rng: &mut StdRng, builder: PacketBuilder, src: IpAddr, ue: IpAddr) -> PacketBuilder {
    if !one_chance_in(rng, 4) {
        return builder;
    }
    let builder = match (src, ue) {
        (IpAddr::V4(src), IpAddr::V4(ue)) => builder.ipv4(src, ue),
        (IpAddr::V6(src), IpAddr::V6(ue)) => builder.ipv6(src, ue),
        _ => unreachable!("one family"),
    };
    let builder = builder.tos(ecn(rng, 1));
    match rng.random_range(0..6) {
        0 => builder,
        1 => builder.udp(5000, 5000).no_checksum(),
        2 => builder.udp(5000, 5000).overwrite(6, &[1, 2]),
        _ => builder.udp(5000, 5000),
    }
}

/// A packet that is addressed to ourselves.
fn control(rng: &mut StdRng, oracle: &Oracle, interface: &OracleInterface) -> Vec<u8> {
    let builder = link(rng, interface);
    let v4 = |builder: PacketBuilder| builder.ipv4("10.0.3.1", interface.v4.0);
    let v6 = |builder: PacketBuilder| builder.ipv6("2001:db8:3::1", interface.v6.0);
    let session = oracle.sessions.choose(rng).map(|(_, session)| session);
    let teid = session.and_then(|session| {
        session.pdrs.iter().find_map(|pdr| match pdr.pdi.f_teid? {
            FTeidSpec::Given { teid, .. } => Some(teid.0),
            FTeidSpec::Choose { .. } => None,
        })
    });
    let message = |kind: u8| GtpuMessageType(kind);
    match rng.random_range(0..18) {
        0 => arp(rng, interface),
        13 => icmpv6(builder, "2001:db8:3::1", interface.v6.0, 255, &solicitation(interface.v6.0)),
        14 => {
            let target = if one_chance_in(rng, 2) { interface.v6.0 } else { Ipv6Addr::LOCALHOST };
            let ttl = if one_chance_in(rng, 2) { 255 } else { 64 };
            let group = PacketBuilder::ethernet(MacAddr([0x33, 0x33, 0xff, 0, 0, 2]), GNB_MAC);
            let group = if interface.vlan == 0 { group } else { group.vlan(interface.vlan) };
            let dst = "ff02::1:ff00:2".parse().unwrap();
            icmpv6(group, "2001:db8:3::1", dst, ttl, &solicitation(target))
        }
        15 => icmpv6(builder, "fe80::1", interface.v6.0, 255, &[134, 0, 0, 0, 64, 0, 0, 0]),
        16 => {
            let lldp = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
            let tagged = PacketBuilder::ethernet(lldp, GNB_MAC);
            let tagged = if interface.vlan == 0 { tagged } else { tagged.vlan(interface.vlan) };
            tagged.ether_type(0x88cc).payload(&[0; 46]).build()
        }
        1 => v4(builder).icmp_echo(1, 2).payload(b"ping").build(),
        2 => v6(builder).icmp_echo(1, 2).payload(b"ping").build(),
        3 => v4(builder).icmp_echo_reply(1, 2).build(),
        4 => v4(builder).gtpu_message(message(1), 0).sequence(rng.random()).build(),
        5 => v6(builder).gtpu_message(message(1), 0).sequence(rng.random()).build(),
        6 => v4(builder).gtpu_message(message(2), 0).sequence(7).payload(&[14, 0]).build(),
        7 => {
            let ies = [16, 0, 0, 0, 1, 133, 0, 4, 10, 0, 3, 1];
            v4(builder).gtpu_message(message(26), 0).sequence(0).payload(&ies).build()
        }
        8 => v4(builder).gtpu_message(message(254), teid.unwrap_or(5)).build(),
        9 => v4(builder).gtpu_message(message(rng.random()), 0).build(),
        10 => v4(builder).udp(4000, rng.random()).payload(b"hello").build(),
        11 => v4(builder).tcp(4000, 22, 2).build(),
        17 => v4(builder).gtpu_message(message(31), 0).sequence(0).payload(&[141, 0]).build(),
        12 => {
            let is_odd = one_chance_in(rng, 4);
            let part = v4(builder).fragment(rng.random(), 0, true).udp(4000, 2152);
            part.payload(&vec![0; if is_odd { 63 } else { 64 }]).build()
        }
        _ => builder.ether_type(rng.random()).payload(&[rng.random(); 60]).build(),
    }
}

/// A neighbor solicitation with a source link-layer address option and no checksum yet.
fn solicitation(target: Ipv6Addr) -> Vec<u8> {
    [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), &[1, 1], &GNB_MAC.0].concat()
}

/// An ICMPv6 message with its checksum.
fn icmpv6(builder: PacketBuilder, src: &str, dst: Ipv6Addr, ttl: u8, message: &[u8]) -> Vec<u8> {
    let src: Ipv6Addr = src.parse().unwrap();
    let len = u32::try_from(message.len()).unwrap();
    let pseudo =
        [&src.octets()[..], &dst.octets(), &len.to_be_bytes(), &[0, 0, 0, 58], message].concat();
    let mut message = message.to_vec();
    message[2..4].copy_from_slice(&checksum(&pseudo).to_be_bytes());
    builder.ipv6(src, dst).ttl(ttl).protocol(58).payload(&message).build()
}

fn arp(rng: &mut StdRng, interface: &OracleInterface) -> Vec<u8> {
    let dst = if one_chance_in(rng, 2) { MacAddr::BROADCAST } else { MacAddr(interface.mac) };
    let mut builder = PacketBuilder::ethernet(dst, GNB_MAC);
    if interface.vlan != 0 {
        builder = builder.vlan(interface.vlan);
    }
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, rng.random_range(1..=3)];
    packet.extend_from_slice(&GNB_MAC.0);
    packet.extend_from_slice(&[10, 0, 3, 1]);
    packet.extend_from_slice(&[0; 6]);
    packet.extend_from_slice(&interface.v4.0.octets());
    builder.ether_type(0x0806).payload(&packet).trailer(&[0; 18]).build()
}

fn junk(rng: &mut StdRng, interface: &OracleInterface) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..rng.random_range(0..120)).map(|_| rng.random()).collect();
    if frame.len() >= 14 && one_chance_in(rng, 2) {
        frame[..6].copy_from_slice(&interface.mac);
        frame[12..14]
            .copy_from_slice([[8, 0], [0x86, 0xdd], [8, 6], [0x81, 0]].choose(rng).unwrap());
    }
    frame
}

/// Changes some octets, or the length.
fn mutate(rng: &mut StdRng, frame: &mut Vec<u8>) {
    match rng.random_range(0..4) {
        0 => frame.truncate(rng.random_range(0..=frame.len())),
        1 => frame.extend((0..rng.random_range(1..20)).map(|_| 0xee)),
        _ => {
            for _ in 0..rng.random_range(1..=3) {
                if !frame.is_empty() {
                    let at = rng.random_range(0..frame.len().min(110));
                    frame[at] ^= 1 << rng.random_range(0..8);
                }
            }
        }
    }
}
