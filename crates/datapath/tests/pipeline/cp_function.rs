//! User plane between CP function and UE: router solicitations, DHCP, pings, buffered data.
//! The rules are those that Open5GS puts into every session.

use adit_rules::sdf::AddrMatch;
use adit_rules::{
    ApplyAction, DestinationInterface, DropReason, FarEntry, HeaderRemoval, KeyChange,
    PacketFilter, PdrEntry, RuleDelta, SessionKey, SessionRules, SourceInterface, TunnelSide,
};
use adit_testkit::packet::PacketBuilder;
use adit_types::{Direction, FarId, PdrId, Precedence, Qfi, Teid};

use crate::fixture::*;

/// TEID of ours to which the CP function sends.
const CP_TEID: u32 = 0x102;
/// TEID of the CP function.
const SMF_TEID: u32 = 0x51;
const SMF: &str = "192.168.10.7";
const SMF_V6: &str = "2001:db8:10::7";
const LINK_LOCAL: &str = "fe80::45";
const ROUTERS: &str = "ff02::2";

fn to_group(filter: &str) -> PacketFilter {
    let remote = AddrMatch::V6(filter.parse().unwrap());
    PacketFilter { protocol: Some(58), remote, ..PacketFilter::ANY }
}

/// PDRs 1 and 2 of the usual session; PDR 3 from the CP function by the downlink FAR, without a
/// QER; PDR 4 for what goes to all routers, by FAR 3 to the CP function.
fn cp_rules() -> SessionRules {
    let mut rules = rules();
    let from_cp = PdrEntry {
        id: PdrId(3),
        precedence: Precedence(50),
        source: SourceInterface::CpFunction,
        teid: Some(Teid(CP_TEID)),
        ue: Default::default(),
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIp),
        qers: Default::default(),
        ..rules.downlink[0].clone()
    };
    let to_cp = PdrEntry {
        id: PdrId(4),
        precedence: Precedence(50),
        ue: Default::default(),
        sdf: vec![to_group("ff02::2/128")].into(),
        far: 2,
        qers: Default::default(),
        ..rules.uplink[0].clone()
    };
    let far = FarEntry {
        id: FarId(3),
        destination: DestinationInterface::CpFunction,
        outer_header_creation: Some(tunnel(SMF_TEID, SMF)),
        ..rules.fars[1].clone()
    };
    rules.downlink.insert(0, from_cp);
    rules.uplink.insert(0, to_cp);
    rules.fars.push(far);
    rules.tunnel_sides = vec![(Teid(CP_TEID), side(Direction::Downlink))];
    rules
}

fn side(direction: Direction) -> TunnelSide {
    TunnelSide { source: SourceInterface::CpFunction, direction }
}

fn with_key(mut scene: PipelineFixture, rules: SessionRules) -> PipelineFixture {
    let keys = vec![KeyChange::Add(SessionKey::Teid(Teid(CP_TEID)))];
    let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(rules)) };
    scene.publisher.apply(adit_rules::DeltaId(1000), delta);
    scene.step();
    while scene.publisher.poll_observed().is_some() {}
    scene.deltas = 1000;
    scene.resolve(IF_N3, SMF, SMF_MAC);
    scene
}

const SMF_MAC: adit_types::MacAddr = adit_types::MacAddr([2, 0, 0, 0, 0, 0xd0]);

fn scene(rules: SessionRules) -> PipelineFixture {
    let mut scene = with_key(PipelineFixture::with(rules.clone()), rules);
    scene.resolve(IF_N3, SMF_V6, SMF_MAC);
    scene
}

fn from_smf() -> PacketBuilder {
    PacketBuilder::ethernet(N3_MAC, SMF_MAC).ipv4(SMF, N3_ADDR).gtpu(CP_TEID)
}

fn to_smf() -> PacketBuilder {
    PacketBuilder::ethernet(SMF_MAC, N3_MAC).ipv4(N3_ADDR, SMF).dont_fragment().gtpu(SMF_TEID)
}

fn to_gnb() -> PacketBuilder {
    PacketBuilder::ethernet(GNB_MAC, N3_MAC).ipv4(N3_ADDR, GNB).dont_fragment().gtpu(GNB_TEID)
}

/// Router Solicitation with hop limit 255.
fn solicitation(builder: PacketBuilder) -> Vec<u8> {
    icmpv6(builder, LINK_LOCAL, ROUTERS, &[133, 0, 0, 0, 0, 0, 0, 0])
}

/// Router Advertisement with hop limit 255.
fn advertisement(builder: PacketBuilder) -> Vec<u8> {
    icmpv6(builder, "fe80::1", LINK_LOCAL, &[134, 0, 0, 0, 64, 0, 0xff, 0xff, 0, 0, 0, 0])
}

fn icmpv6(builder: PacketBuilder, src: &str, dst: &str, message: &[u8]) -> Vec<u8> {
    builder.ipv6(src, dst).ttl(255).protocol(58).payload(message).build()
}

#[test]
fn router_solicitation_leaves_to_the_cp_function_with_hop_limit_255_and_no_container() {
    let mut scene = scene(cp_rules());
    let sent = scene.pass(N3, &solicitation(tunneled()), N3);
    assert_eq!(sent, [solicitation(to_smf())]);
    let traffic = scene.publisher.session_traffic(SESSION);
    assert_eq!((traffic.ul_pkts, traffic.dl_pkts), (1, 0));
}

#[test]
fn router_advertisement_leaves_downlink_by_the_shared_far_with_its_flow() {
    let mut scene = scene(cp_rules());
    let sent = scene.pass(N3, &advertisement(from_smf()), N3);
    assert_eq!(sent, [advertisement(to_gnb().psc_dl(9, false))]);
    let traffic = scene.publisher.session_traffic(SESSION);
    assert_eq!((traffic.ul_pkts, traffic.dl_pkts), (0, 1));
}

#[test]
fn cp_function_over_ipv6_sends_and_receives() {
    let mut rules = cp_rules();
    rules.fars[2].outer_header_creation = Some(tunnel(SMF_TEID, SMF_V6));
    let mut scene = scene(rules);
    let sent = scene.pass(N3, &solicitation(tunneled()), N3);
    let outer =
        PacketBuilder::ethernet(SMF_MAC, N3_MAC).ipv6(N3_V6, SMF_V6).udp(2152, 2152).gtpu(SMF_TEID);
    assert_eq!(sent, [solicitation(outer)]);
    let outer = PacketBuilder::ethernet(N3_MAC, SMF_MAC).ipv6(SMF_V6, N3_V6).gtpu(CP_TEID);
    let sent = scene.pass(N3, &advertisement(outer), N3);
    assert_eq!(sent, [advertisement(to_gnb().psc_dl(9, false))]);
}

#[test]
fn router_advertisement_waits_while_the_far_buffers() {
    let mut rules = cp_rules();
    rules.fars[1].action = ApplyAction::BUFF;
    let mut scene = scene(rules);
    assert_eq!(scene.pass(N3, &advertisement(from_smf()), N3), Vec::<Vec<u8>>::new());
    assert_eq!(scene.counts().buffered_by_far_pkts, 1);
    scene.install(cp_rules());
    scene.step();
    assert_eq!(scene.sent(N3), [advertisement(to_gnb().psc_dl(9, false))]);
}

#[test]
fn link_local_packet_without_a_rule_of_the_cp_function_is_invalid() {
    let mut scene = PipelineFixture::new();
    scene.assert_drops(N3, &solicitation(tunneled()), DropReason::IpAddressInvalid);
    let mut scene = self::scene(cp_rules());
    let names = tunneled().ipv6(LINK_LOCAL, "ff02::fb").ttl(255).udp(5353, 5353).build();
    scene.assert_drops(N3, &names, DropReason::IpAddressInvalid);
    // Addresses that no packet may have are also invalid between UE and CP function.
    let loopback = icmpv6(tunneled(), "::1", ROUTERS, &[133, 0, 0, 0, 0, 0, 0, 0]);
    scene.assert_drops(N3, &loopback, DropReason::IpAddressInvalid);
    let plain = icmpv6(from_gateway(), "fe80::1", LINK_LOCAL, &[134, 0, 0, 0]);
    scene.assert_drops(N6, &plain, DropReason::IpAddressInvalid);
}

#[test]
fn held_solicitation_that_is_to_be_routed_is_invalid_whatever_its_hop_limit() {
    for hop_limit in [1, 255] {
        let mut rules = cp_rules();
        rules.fars[2].action = ApplyAction::BUFF;
        let mut scene = scene(rules);
        let message = [133, 0, 0, 0, 0, 0, 0, 0];
        let packet = tunneled().ipv6(LINK_LOCAL, ROUTERS).ttl(hop_limit).protocol(58);
        let held = scene.pass(N3, &packet.payload(&message).build(), N3);
        assert_eq!((held.len(), scene.counts().buffered_by_far_pkts), (0, 1));
        let mut rules = cp_rules();
        rules.fars[2] = FarEntry { id: FarId(3), ..rules.fars[0].clone() };
        scene.install(rules);
        scene.step();
        assert_eq!(scene.dropped(DropReason::IpAddressInvalid), 1, "{hop_limit}");
        assert_eq!((scene.sent(N3).len(), scene.sent(N6).len()), (0, 0));
    }
}

#[test]
fn foreign_global_addresses_on_either_side_of_the_ue_are_dropped() {
    let mut scene = scene(cp_rules());
    let spoofed = icmpv6(tunneled(), "2001:db8:46::2", ROUTERS, &[133, 0, 0, 0, 0, 0, 0, 0]);
    scene.assert_drops(N3, &spoofed, DropReason::UeSourceSpoofed);
    let own = icmpv6(tunneled(), UE_V6, ROUTERS, &[133, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(scene.pass(N3, &own, N3).len(), 1);
    let foreign = from_smf().ipv4(SMF, "10.45.0.9").icmp_echo(1, 1).build();
    scene.assert_drops(N3, &foreign, DropReason::UeUnknown);
}

#[test]
fn ping_of_the_cp_function_reaches_the_ue_and_its_reply_comes_back() {
    let mut rules = cp_rules();
    rules.uplink[0].sdf = vec![PacketFilter {
        remote: AddrMatch::V4("192.168.10.7/32".parse().unwrap()),
        ..PacketFilter::ANY
    }]
    .into();
    let mut scene = scene(rules);
    let request = |builder: PacketBuilder| builder.ipv4(SMF, UE).icmp_echo(1, 1).build();
    let sent = scene.pass(N3, &request(from_smf()), N3);
    assert_eq!(sent, [request(to_gnb().psc_dl(9, false))]);
    let reply = |builder: PacketBuilder| builder.ipv4(UE, SMF).icmp_echo_reply(1, 1).build();
    assert_eq!(scene.pass(N3, &reply(tunneled()), N3), [reply(to_smf())]);
}

#[test]
fn dhcp_of_a_ue_without_address_goes_to_the_cp_function_and_the_answer_to_the_ue() {
    let mut rules = cp_rules();
    rules.uplink[0].sdf = vec![PacketFilter { protocol: Some(17), ..PacketFilter::ANY }].into();
    let mut scene = scene(rules);
    let discover = |builder: PacketBuilder| {
        builder.ipv4("0.0.0.0", "255.255.255.255").ttl(1).udp(68, 67).payload(b"discover").build()
    };
    assert_eq!(scene.pass(N3, &discover(tunneled()), N3), [discover(to_smf())]);
    let offer = |builder: PacketBuilder| {
        builder.ipv4(SMF, "255.255.255.255").ttl(1).udp(67, 68).payload(b"offer").build()
    };
    let sent = scene.pass(N3, &offer(from_smf()), N3);
    assert_eq!(sent, [offer(to_gnb().psc_dl(9, false))]);
}

#[test]
fn downlink_data_are_buffered_at_the_cp_function_and_come_back() {
    let mut rules = cp_rules();
    rules.downlink[1].far = 2;
    let mut scene = scene(rules);
    let inner =
        |builder: PacketBuilder| builder.ipv4(SERVER, UE).udp(53, 4000).payload(b"answer").build();
    assert_eq!(scene.pass(N6, &downlink().build(), N3), [inner(to_smf())]);
    assert_eq!(scene.publisher.session_traffic(SESSION).dl_pkts, 1);
    scene.install(cp_rules());
    let sent = scene.pass(N3, &inner(from_smf()), N3);
    assert_eq!(sent, [inner(to_gnb().psc_dl(9, false))]);
}

#[test]
fn cp_function_sends_to_the_data_network_in_its_own_name() {
    let mut rules = cp_rules();
    let mut pdr = rules.downlink.remove(0);
    pdr.far = 0;
    rules.uplink.insert(0, pdr);
    rules.tunnel_sides = vec![(Teid(CP_TEID), side(Direction::Uplink))];
    let mut scene = scene(rules);
    let query = |builder: PacketBuilder| builder.ipv4(SMF, SERVER).udp(1812, 1812).build();
    let expected = query(PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC));
    assert_eq!(scene.pass(N3, &query(from_smf()), N6), [expected]);
    assert_eq!(scene.publisher.session_traffic(SESSION).ul_pkts, 1);
}

#[test]
fn packet_of_the_cp_function_that_does_not_fit_is_answered_by_nobody() {
    let mut scene = scene(cp_rules());
    let sent = icmpv6(tunneled(), LINK_LOCAL, ROUTERS, &[133; 1440]);
    scene.assert_drops(N3, &sent, DropReason::PacketTooBig);
    let counts = scene.counts();
    assert_eq!((counts.originated_pkts, counts.originated_lost_pkts), (0, 0));
}

#[test]
fn rules_of_the_cp_function_leave_usual_packets_on_the_fast_path() {
    let mut scene = with_key(PipelineFixture::usual(cp_rules()), cp_rules());
    scene.step();
    assert_eq!(scene.pass(N3, &uplink().build(), N6).len(), 1);
    assert_eq!(scene.pass(N6, &downlink().build(), N3).len(), 1);
    assert_eq!(scene.counts().express_pkts, 2);
    // A dedicated flow in addition to them.
    let mut rules = cp_rules();
    let filter = |port| {
        let remote_ports = vec![adit_rules::sdf::PortRange { first: port, last: port }];
        vec![PacketFilter { remote_ports, ..PacketFilter::ANY }].into()
    };
    for list in [&mut rules.uplink, &mut rules.downlink] {
        let flow = PdrEntry {
            id: PdrId(5),
            precedence: Precedence(1),
            sdf: filter(5000),
            ..list[1].clone()
        };
        list.insert(0, flow);
    }
    rules.qers[0].qfi = Qfi::new(9);
    scene.install(rules);
    scene.step();
    assert_eq!(scene.pass(N3, &uplink().build(), N6).len(), 1);
    assert_eq!(scene.pass(N6, &downlink().build(), N3).len(), 1);
    assert_eq!(scene.counts().express_pkts, 4);
    assert_eq!(scene.pass(N3, &solicitation(tunneled()), N3), [solicitation(to_smf())]);
    let sent = scene.pass(N3, &advertisement(from_smf()), N3);
    assert_eq!(sent, [advertisement(to_gnb().psc_dl(9, false))]);
    assert_eq!(scene.counts().express_pkts, 4);
}
