//! The maximum segment size that SYNs announce, lowered to the size that fits their path.

use adit_rules::{DestinationInterface, DropReason, HeaderCreation, HeaderRemoval, SessionRules};
use adit_tables::TablesConfig;
use adit_testkit::packet::PacketBuilder;
use adit_types::{InterfaceRole, TcpMss};

use crate::fixture::*;

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;

/// A scene on the fast path whose ports have these MTUs, N3 first.
fn scene(tcp_mss: TcpMss, mtu: [u16; 2], rules: SessionRules) -> PipelineFixture {
    let mut tables = usual_config();
    for (interface, mtu) in tables.interfaces.iter_mut().zip(mtu) {
        (interface.mtu_bytes, interface.unfragmented_bytes) = (mtu, mtu);
    }
    tables.interfaces[1].tcp_mss = tcp_mss;
    resolved(tables, rules)
}

fn resolved(tables: TablesConfig, rules: SessionRules) -> PipelineFixture {
    let mut scene = PipelineFixture::usual_with(tables, rules);
    scene.resolve(IF_N3, GNB_V6, GNB_MAC);
    scene.resolve(IF_N6, "2001:db8:6::254", GATEWAY_MAC);
    scene
}

/// The usual rules with a gNB of either family.
fn rules_of(is_gnb_v6: bool) -> SessionRules {
    let mut rules = rules();
    let gnb = if is_gnb_v6 { GNB_V6 } else { GNB };
    rules.fars[1].outer_header_creation = Some(tunnel(GNB_TEID, gnb));
    rules
}

/// A segment that announces `mss` at an odd offset, behind a window scale.
fn segment(
    front: PacketBuilder,
    is_uplink: bool,
    is_v6: bool,
    ttl: u8,
    flags: u8,
    mss: u16,
) -> Vec<u8> {
    let front = match (is_uplink, is_v6) {
        (true, false) => front.ipv4(UE, SERVER),
        (false, false) => front.ipv4(SERVER, UE),
        (true, true) => front.ipv6(UE_V6, SERVER_V6),
        (false, true) => front.ipv6(SERVER_V6, UE_V6),
    };
    let [high, low] = mss.to_be_bytes();
    let options = [3, 3, 7, 2, 4, high, low, 1];
    front.ttl(ttl).tcp(4000, 443, flags).options(&options).build()
}

/// How a segment arrives, and how it leaves with another MSS.
fn both(is_uplink: bool, is_gnb_v6: bool, is_v6: bool, flags: u8, mss: [u16; 2]) -> [Vec<u8>; 2] {
    let [arrives, leaves] = match is_uplink {
        true => {
            let link = PacketBuilder::ethernet(N3_MAC, GNB_MAC);
            let outer = if is_gnb_v6 { link.ipv6(GNB_V6, N3_V6) } else { link.ipv4(GNB, N3_ADDR) };
            [outer.gtpu(TEID).psc_ul(9), PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC)]
        }
        false => {
            let link = PacketBuilder::ethernet(GNB_MAC, N3_MAC);
            let outer = match is_gnb_v6 {
                true => link.ipv6(N3_V6, GNB_V6).udp(2152, 2152),
                false => link.ipv4(N3_ADDR, GNB).dont_fragment(),
            };
            [from_gateway(), outer.gtpu(GNB_TEID).psc_dl(9, false)]
        }
    };
    [
        segment(arrives, is_uplink, is_v6, 64, flags, mss[0]),
        segment(leaves, is_uplink, is_v6, 63, flags, mss[1]),
    ]
}

/// The MSS values that segments of [`segment`] announce.
fn announced(frames: &[Vec<u8>]) -> Vec<u16> {
    let mss = |frame: &Vec<u8>| match frame[..] {
        [.., high, low, 1] => u16::from_be_bytes([high, low]),
        _ => panic!("{frame:?}"),
    };
    frames.iter().map(mss).collect()
}

const fn ports(is_uplink: bool) -> [adit_types::PortId; 2] {
    if is_uplink { [N3, N6] } else { [N6, N3] }
}

#[test]
fn both_directions_announce_what_fits_the_narrower_side_in_one_packet() {
    // The segment sizes that fit a tunnel over IPv4, with 48 octets, and over IPv6, with 68.
    for (mtu, fits) in [
        ([1500, 1500], [1452, 1432]),
        ([1548, 1500], [1500, 1480]),
        ([1568, 1500], [1500, 1500]),
        ([1600, 1400], [1400, 1400]),
        ([1400, 1500], [1352, 1332]),
    ] {
        for is_gnb_v6 in [false, true] {
            let fits = fits[usize::from(is_gnb_v6)];
            for (is_uplink, is_v6) in [(true, false), (true, true), (false, false), (false, true)] {
                let mut scene = scene(TcpMss::Clamp, mtu, rules_of(is_gnb_v6));
                let most = fits - if is_v6 { 60 } else { 40 };
                let [from, to] = ports(is_uplink);
                let mut lowered = 0;
                for flags in [SYN, SYN_ACK] {
                    for (mss, leaves_with) in
                        [(9000, most), (most + 1, most), (most, most), (most - 1, most - 1), (1, 1)]
                    {
                        let [frame, expected] =
                            both(is_uplink, is_gnb_v6, is_v6, flags, [mss, leaves_with]);
                        assert_eq!(scene.pass(from, &frame, to), [expected], "{mtu:?} {mss}");
                        lowered += u64::from(mss != leaves_with);
                        assert_eq!(scene.counts().mss_clamped_pkts, lowered);
                    }
                }
                assert_eq!(scene.counts().express_pkts, 0, "SYNs take the stages");
                let [frame, expected] = both(is_uplink, is_gnb_v6, is_v6, ACK, [9000, 9000]);
                assert_eq!(scene.pass(from, &frame, to), [expected]);
                assert_eq!(scene.counts().express_pkts, 1, "other segments do not");
            }
        }
    }
}

#[test]
fn longest_segment_of_a_clamped_connection_fits_with_the_longest_container() {
    let mut rules = rules();
    rules.qers[0].ppi = Some(3);
    let mut scene = scene(TcpMss::Clamp, [1500, 1500], rules);
    for (is_v6, mss) in [(false, 1412), (true, 1392)] {
        let front = || match is_v6 {
            true => from_gateway().ipv6(SERVER_V6, UE_V6),
            false => from_gateway().ipv4(SERVER, UE).dont_fragment(),
        };
        let data = |len: usize| front().tcp(443, 4000, ACK).payload(&vec![7; len]).build();
        assert_eq!(scene.pass(N6, &data(mss), N3).len(), 1);
        scene.assert_drops(N6, &data(mss + 1), DropReason::PacketTooBig);
    }
}

/// Spec: TS 29.281 §5.2.2.3.
#[test]
fn service_class_of_a_session_counts_in_both_directions() {
    let mut rules = rules();
    (rules.qers[0].ppi, rules.qers[0].service_class) = (Some(3), Some((5, 0)));
    let mut uplink_without = rules.clone();
    uplink_without.uplink[0].qers.clear();
    let mut scene = scene(TcpMss::Clamp, [1500, 1500], rules);
    for is_uplink in [true, false] {
        let [from, to] = ports(is_uplink);
        let [arrives, _] = both(is_uplink, false, false, SYN, [1460, 1408]);
        assert_eq!(announced(&scene.pass(from, &arrives, to)), [1408]);
        scene.install(uplink_without.clone());
        assert_eq!(announced(&scene.pass(from, &arrives, to)), [1408], "of either PDR");
    }
    let data = |len| {
        let front = from_gateway().ipv4(SERVER, UE).dont_fragment();
        front.tcp(443, 4000, ACK).payload(&vec![7; len]).build()
    };
    assert_eq!(scene.pass(N6, &data(1408), N3).len(), 1);
    scene.assert_drops(N6, &data(1409), DropReason::PacketTooBig);
}

#[test]
fn fixed_mss_holds_for_both_families_and_off_leaves_all_as_it_is() {
    for (tcp_mss, mss, leaves_with) in [
        (TcpMss::AtMost(1300), 1460, 1300),
        (TcpMss::AtMost(1300), 1300, 1300),
        (TcpMss::AtMost(1300), 800, 800),
        // Also more than fits.
        (TcpMss::AtMost(8000), 9000, 8000),
        (TcpMss::Off, 9000, 9000),
    ] {
        for (is_uplink, is_v6) in [(true, false), (true, true), (false, false), (false, true)] {
            let mut scene = scene(tcp_mss, [1500, 1500], rules());
            let [frame, expected] = both(is_uplink, false, is_v6, SYN, [mss, leaves_with]);
            let [from, to] = ports(is_uplink);
            assert_eq!(scene.pass(from, &frame, to), [expected]);
            let counts = scene.counts();
            assert_eq!(counts.express_pkts, u64::from(tcp_mss == TcpMss::Off));
            assert_eq!(counts.mss_clamped_pkts, u64::from(mss != leaves_with));
        }
    }
}

#[test]
fn each_data_network_has_its_own_setting() {
    let mut tables = config();
    tables.interfaces[usize::from(IF_N6.0)].tcp_mss = TcpMss::AtMost(1000);
    let mut scene = resolved(tables, rules());
    scene.resolve(IF_N6_VLAN, "10.7.0.254", VLAN_GATEWAY_MAC);
    let syn = |front: PacketBuilder, ends: [&str; 2], ttl, mss: u16| {
        let [high, low] = mss.to_be_bytes();
        let front = front.ipv4(ends[0], ends[1]).ttl(ttl).tcp(1, 2, SYN);
        front.options(&[2, 4, high, low]).build()
    };
    let (here, other) = ([UE, SERVER], [UE, "172.16.0.9"]);
    let (link, vlan) = (
        PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC),
        PacketBuilder::ethernet(VLAN_GATEWAY_MAC, N6_MAC).vlan(100),
    );
    assert_eq!(scene.pass(N3, &syn(tunneled(), here, 64, 1460), N6), [syn(link, here, 63, 1000)]);
    assert_eq!(scene.pass(N3, &syn(tunneled(), other, 64, 1460), N6), [syn(vlan, other, 63, 1460)]);
    let to_gnb = || {
        let outer = PacketBuilder::ethernet(GNB_MAC, N3_MAC).ipv4(N3_ADDR, GNB).dont_fragment();
        outer.gtpu(GNB_TEID).psc_dl(9, false)
    };
    let (here, other) = ([SERVER, UE], ["172.16.0.9", UE]);
    let frame = syn(from_gateway(), here, 64, 1460);
    assert_eq!(scene.pass(N6, &frame, N3), [syn(to_gnb(), here, 63, 1000)]);
    let from_vlan = PacketBuilder::ethernet(N6_MAC, VLAN_GATEWAY_MAC).vlan(100);
    let frame = syn(from_vlan, other, 64, 1460);
    assert_eq!(scene.pass(N6, &frame, N3), [syn(to_gnb(), other, 63, 1460)]);
    assert_eq!(scene.counts().mss_clamped_pkts, 2);
    assert_eq!(scene.counts().express_pkts, 2, "only SYNs of the network with the setting wait");
}

#[test]
fn syns_on_a_link_of_both_sides_and_from_tunnel_to_tunnel() {
    let mut tables = usual_config();
    for interface in &mut tables.interfaces {
        (interface.port, interface.mac) = (N3, N3_MAC);
    }
    tables.interfaces[1].tcp_mss = TcpMss::Clamp;
    let mut scene = resolved(tables, rules());
    for (is_uplink, front) in [
        (true, PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(TEID).psc_ul(9)),
        (false, PacketBuilder::ethernet(N3_MAC, GATEWAY_MAC)),
    ] {
        for (is_v6, most) in [(false, 1412), (true, 1392)] {
            let frame = segment(front.clone(), is_uplink, is_v6, 64, SYN, 1460);
            let sent = scene.pass(N3, &frame, N3);
            assert_eq!(announced(&sent), [most]);
        }
    }

    // Neither side is a data network: the UPF in front of the data network clamps.
    let mut rules = rules();
    rules.fars[0].destination = DestinationInterface::Core;
    rules.fars[0].outer_header_creation = Some(tunnel(0x77, GNB));
    let mut tables = usual_config();
    assert_eq!(tables.interfaces[0].role, InterfaceRole::N3);
    tables.interfaces[1].tcp_mss = TcpMss::Clamp;
    let mut scene = resolved(tables, rules);
    let sent = scene.pass(N3, &segment(tunneled(), true, false, 64, SYN, 9000), N3);
    assert_eq!(announced(&sent), [9000]);
}

#[test]
fn header_towards_a_data_network_counts_in_both_directions() {
    let mut rules = rules();
    rules.fars[0].outer_header_creation =
        Some(HeaderCreation::Udp { addr: ip("10.6.0.254"), port: 5000 });
    rules.downlink[0].outer_header_removal = Some(HeaderRemoval::UdpIpv4);
    // 1,400 less 28 is narrower than the tunnel to the gNB.
    let mut scene = scene(TcpMss::Clamp, [1500, 1400], rules);
    let uplink = segment(tunneled(), true, false, 64, SYN, 9000);
    let sent = scene.pass(N3, &uplink, N6);
    assert_eq!(announced(&sent), [1332]);
    let outer = from_gateway().ipv4(SERVER, UE).udp(5000, 5000);
    let sent = scene.pass(N6, &segment(outer, false, false, 64, SYN_ACK, 9000), N3);
    assert_eq!(announced(&sent), [1332]);
}
