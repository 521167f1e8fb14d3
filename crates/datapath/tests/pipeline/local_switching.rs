//! Packets from one UE to another: they turn round by the rules of both sessions.

use adit_rules::{
    ApplyAction, DataDelivery, DeltaId, DestinationInterface, DropReason, Excess, Gate, KeyChange,
    PoolMembers, QerMeter, RateLimit, RuleDelta, SessionKey, SessionRules, SourceInterface,
    Steering, UeAddresses, UrrEntry, UsageLimits, UsageSource, WorkerEvent,
};
use adit_tables::TablesConfig;
use adit_testkit::packet::PacketBuilder;
use adit_types::{
    BitRate, Direction, DomainId, InterfaceSet, Nanos, PdrId, Qfi, Seid, SessionIndex, Teid, UrrId,
    UsageSlot,
};
use adit_wire::parse_ip;

use crate::fixture::*;

/// The other UE, its session, and its tunnels.
pub(crate) const OTHER_UE: &str = "10.45.0.3";
const OTHER_UE_V6: &str = "2001:db8:45:3::3";
const OTHER_SESSION: SessionIndex = SessionIndex(9);
pub(crate) const OTHER_TEID: u32 = 0x101;
const OTHER_GNB_TEID: u32 = 0xbeef;
const FIRST: DomainId = DomainId(0);

/// The rules of the other UE: those of the scene with its own addresses and tunnels, QFI 5.
fn other_rules() -> SessionRules {
    let mut rules = rules();
    let ue = UeAddresses {
        v4: Some(OTHER_UE.parse().unwrap()),
        v6: Some("2001:db8:45:3::/64".parse().unwrap()),
    };
    rules.up_seid = Seid(2);
    rules.ue = vec![ue];
    for pdr in rules.uplink.iter_mut().chain(&mut rules.downlink) {
        pdr.ue = ue;
    }
    rules.uplink[0].teid = Some(Teid(OTHER_TEID));
    rules.fars[1].outer_header_creation = Some(tunnel(OTHER_GNB_TEID, GNB));
    rules.qers[0].qfi = Qfi::new(5);
    rules
}

fn other_keys() -> Vec<SessionKey> {
    let v6 = adit_rules::rule::ue_ipv6_key(OTHER_UE_V6.parse().unwrap());
    vec![
        SessionKey::Teid(Teid(OTHER_TEID)),
        SessionKey::UeIpv4(FIRST, OTHER_UE.parse().unwrap()),
        SessionKey::UeIpv6(FIRST, v6),
    ]
}

impl PipelineFixture {
    /// Publishes rules of a session in addition to that of the scene.
    fn install_other(&mut self, session: SessionIndex, keys: &[SessionKey], rules: SessionRules) {
        self.change_keys(session, keys, KeyChange::Add, Some(rules));
    }

    fn change_keys(
        &mut self,
        session: SessionIndex,
        keys: &[SessionKey],
        change: fn(SessionKey) -> KeyChange,
        rules: Option<SessionRules>,
    ) {
        self.deltas += 1;
        let keys = keys.iter().map(|key| change(*key)).collect();
        let delta = RuleDelta { session, keys, rules: rules.map(Box::new) };
        self.publisher.apply(DeltaId(self.deltas), delta);
        self.step();
        while self.publisher.poll_observed().is_some() {}
    }

    pub(crate) fn with_other_ue(self) -> Self {
        self.with_edited_other_ue(|_| {})
    }

    pub(crate) fn with_edited_other_ue(mut self, edit: impl FnOnce(&mut SessionRules)) -> Self {
        let mut rules = other_rules();
        edit(&mut rules);
        self.install_other(OTHER_SESSION, &other_keys(), rules);
        self
    }

    /// Counts that must hold: packets that turned round, and that left to N6 and to tunnels.
    #[track_caller]
    fn assert_turned(&self, turned: u64, uplink: u64, downlink: u64) {
        let counts = self.counts();
        let left = (counts.transmitted_uplink_pkts, counts.transmitted_downlink_pkts);
        assert_eq!((counts.locally_switched_pkts, left), (turned, (uplink, downlink)));
    }
}

fn to(host: &str) -> Vec<u8> {
    tunneled().ipv4(UE, host).udp(4000, 53).payload(b"question").build()
}

/// The frame in the other UE's tunnel.
fn in_other_tunnel() -> PacketBuilder {
    PacketBuilder::ethernet(GNB_MAC, N3_MAC)
        .ipv4(N3_ADDR, GNB)
        .dont_fragment()
        .gtpu(OTHER_GNB_TEID)
        .psc_dl(5, false)
}

#[test]
fn packet_to_another_ue_takes_its_tunnel_as_if_the_network_had_returned_it() {
    for mut scene in
        [PipelineFixture::new().with_other_ue(), PipelineFixture::usual(rules()).with_other_ue()]
    {
        let sent = scene.pass(N3, &to(OTHER_UE), N3);
        let expected =
            in_other_tunnel().ipv4(UE, OTHER_UE).ttl(62).udp(4000, 53).payload(b"question").build();
        assert_eq!(sent, [expected]);
        assert!(scene.sent(N6).is_empty());
        scene.assert_turned(1, 0, 1);
        assert_eq!(scene.counts().received_pkts, 1);
        let traffic = |session| scene.publisher.session_traffic(session);
        let (ue, other) = (traffic(SESSION), traffic(OTHER_SESSION));
        assert_eq!((ue.ul_pkts, ue.dl_pkts, other.ul_pkts, other.dl_pkts), (1, 0, 0, 1));
        let n6 = scene.counts().interfaces[usize::from(IF_N6.0)];
        assert_eq!((n6.rx_pkts, n6.tx_pkts), (0, 0), "the link is not used");
    }
}

#[test]
fn ipv6_packet_to_another_ue_turns_round() {
    for mut scene in
        [PipelineFixture::new().with_other_ue(), PipelineFixture::usual(rules()).with_other_ue()]
    {
        let frame = tunneled().ipv6(UE_V6, OTHER_UE_V6).udp(1, 2).payload(b"question").build();
        let expected = in_other_tunnel().ipv6(UE_V6, OTHER_UE_V6).ttl(62).udp(1, 2);
        assert_eq!(scene.pass(N3, &frame, N3), [expected.payload(b"question").build()]);
        scene.assert_turned(1, 0, 1);
    }
}

#[test]
fn packets_past_ues_keep_the_fast_path() {
    let mut scene = PipelineFixture::usual(rules());
    scene.resolve(IF_N6, "2001:db8:6::254", GATEWAY_MAC);
    let mut scene = scene.with_other_ue();
    let hosts = [SERVER, "10.45.0.77", "10.46.0.1"];
    for (count, host) in (1..).zip(hosts) {
        assert_eq!(scene.pass(N3, &to(host), N6).len(), 1, "{host}");
        assert_eq!(scene.counts().express_pkts, count, "{host}");
    }
    for (count, host) in (4..).zip([SERVER_V6, "2001:db8:45:99::1"]) {
        let frame = tunneled().ipv6(UE_V6, host).udp(1, 2).build();
        assert_eq!(scene.pass(N3, &frame, N6).len(), 1, "{host}");
        assert_eq!(scene.counts().express_pkts, count, "{host}");
    }
    scene.assert_turned(0, 5, 0);
}

#[test]
fn ue_that_is_gone_is_looked_for_behind_n6() {
    let mut scene = PipelineFixture::usual(rules()).with_other_ue();
    assert!(scene.pass(N3, &to(OTHER_UE), N6).is_empty());
    scene.change_keys(OTHER_SESSION, &other_keys(), KeyChange::Remove, None);
    assert_eq!(scene.pass(N3, &to(OTHER_UE), N6).len(), 1);
    scene.install_other(OTHER_SESSION, &other_keys(), other_rules());
    assert!(scene.pass(N3, &to(OTHER_UE), N6).is_empty());
    scene.assert_turned(2, 1, 2);
}

#[test]
fn network_behind_a_ue_counts_if_it_is_longer_than_the_route() {
    let framed = |prefix: &str| SessionKey::Framed(FIRST, prefix.parse().unwrap());
    let mut other = other_rules();
    other.ue_networks = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
    for pdr in other.uplink.iter_mut().chain(&mut other.downlink) {
        pdr.ue = UeAddresses::default();
    }
    // The routes are 172.16.0.0/12, and the default.
    let cases = [
        ("172.16.5.0/24", "172.16.5.9", true),
        ("172.16.5.0/24", "172.16.6.9", false),
        ("172.16.0.0/12", "172.16.5.9", false),
        ("172.0.0.0/8", "172.16.5.9", false),
        ("172.0.0.0/8", "172.15.5.9", true),
        ("0.0.0.0/0", "172.16.5.9", false),
        ("0.0.0.0/0", "9.9.9.9", false),
        ("0.0.0.0/1", "9.9.9.9", true),
    ];
    for (prefix, host, turns) in cases {
        let mut scene = PipelineFixture::new();
        scene.install_other(OTHER_SESSION, &[framed(prefix)], other.clone());
        let sent = scene.pass(N3, &to(host), N3);
        assert_eq!(sent.iter().map(|frame| teid_of(frame)).next(), turns.then_some(OTHER_GNB_TEID));
        assert_eq!(scene.sent(N6).len(), usize::from(!turns), "{prefix} {host}");
    }
    for (prefix, host, turns) in [
        ("2001:db8:ffff::/48", SERVER_V6, true),
        ("2001:db8::/32", "2001:db9::1", false),
        ("2000::/3", "3001::1", true),
        ("::/0", SERVER_V6, false),
    ] {
        let mut scene = PipelineFixture::new();
        scene.install_other(OTHER_SESSION, &[framed(prefix)], other.clone());
        let frame = tunneled().ipv6(UE_V6, host).udp(1, 2).build();
        assert_eq!(scene.pass(N3, &frame, N3).len(), usize::from(turns), "{prefix} {host}");
        assert_eq!(scene.sent(N6).len(), usize::from(!turns), "{prefix} {host}");
    }
}

#[test]
fn default_network_behind_a_ue_leaves_all_packets_their_fast_path() {
    let mut scene = PipelineFixture::usual(rules());
    let all = ["0.0.0.0/0", "::/0"].map(|all| SessionKey::Framed(FIRST, all.parse().unwrap()));
    scene.install_other(OTHER_SESSION, &all, other_rules());
    assert_eq!(scene.pass(N3, &to(SERVER), N6).len(), 1);
    assert_eq!(scene.counts().express_pkts, 1);
    scene.assert_turned(0, 1, 0);
}

#[test]
fn closed_gates_of_both_sessions_count() {
    let mut closed = rules();
    closed.qers[0].gate_uplink = Gate::Closed;
    let mut scene = PipelineFixture::with(closed).with_other_ue();
    scene.assert_drops(N3, &to(OTHER_UE), DropReason::GateClosed);
    scene.assert_turned(0, 0, 0);
    let mut closed = other_rules();
    closed.qers[0].gate_downlink = Gate::Closed;
    let mut scene = PipelineFixture::new();
    scene.install_other(OTHER_SESSION, &other_keys(), closed);
    scene.assert_drops(N3, &to(OTHER_UE), DropReason::GateClosed);
    scene.assert_turned(1, 0, 0);
    assert_eq!(scene.publisher.session_traffic(SESSION).ul_pkts, 1, "the sender used it");
    assert_eq!(scene.publisher.session_traffic(OTHER_SESSION).dl_pkts, 0);
}

#[test]
fn usage_is_measured_on_both_sides() {
    let urr = |slot| UrrEntry {
        id: UrrId(1),
        slot: UsageSlot(slot),
        generation: 1,
        report: UsageLimits::NONE,
        quota: UsageLimits::NONE,
        report_dropped: (u64::MAX, u64::MAX),
        stopped: false,
        quota_far: None,
        exempt: Vec::new(),
        pool: None,
        members: PoolMembers::default(),
        report_start: false,
        before_qos: false,
    };
    let measured = |mut rules: SessionRules, slot| {
        rules.urrs = vec![urr(slot)];
        for pdr in rules.uplink.iter_mut().chain(&mut rules.downlink) {
            pdr.urrs = [0].into_iter().collect();
        }
        rules
    };
    let mut scene = PipelineFixture::with(measured(rules(), 0));
    scene.install_other(OTHER_SESSION, &other_keys(), measured(other_rules(), 1));
    assert_eq!(scene.pass(N3, &to(OTHER_UE), N3).len(), 1);
    let usage = scene.publisher.usage();
    let volume = |slot| {
        let counts = usage.usage(UsageSlot(slot), 1);
        (counts.ul_bytes, counts.dl_bytes)
    };
    assert_eq!((volume(0), volume(1)), ((36, 0), (0, 36)));
}

#[test]
fn packet_waits_for_the_rate_of_its_sender_before_it_turns() {
    let mut waiting = rules();
    let rate = RateLimit::new(BitRate::from_kbps(100), Nanos(0), Excess::Shaped);
    waiting.qers[0].meter = Some(QerMeter {
        uplink: rate,
        downlink: RateLimit::UNLIMITED,
        bucket: 0,
        correlated_rate: None,
        guaranteed: Default::default(),
        guaranteed_bucket: None,
    });
    let mut scene = PipelineFixture::with(waiting).with_other_ue();
    for _ in 0..3 {
        scene.io.inject(N3, &to(OTHER_UE));
    }
    scene.step();
    assert_eq!((scene.sent(N3).len(), scene.counts().shaped_pkts), (1, 2));
    for _ in 0..20 {
        scene.now += Nanos::from_millis(1);
        scene.step();
    }
    let sent = scene.sent(N3);
    assert_eq!(sent.iter().map(|frame| teid_of(frame)).collect::<Vec<_>>(), [OTHER_GNB_TEID; 2]);
    assert!(scene.sent(N6).is_empty());
    scene.assert_turned(3, 0, 3);
}

#[test]
fn far_of_the_other_session_buffers_and_pages() {
    let mut idle = other_rules();
    idle.fars[1].action = ApplyAction::BUFF | ApplyAction::NOCP;
    let mut scene = PipelineFixture::new();
    scene.install_other(OTHER_SESSION, &other_keys(), idle);
    assert!(scene.pass(N3, &to(OTHER_UE), N3).is_empty());
    assert_eq!(scene.counts().buffered_by_far_pkts, 1);
    let (pdr, dscp, qfi) = (PdrId(2), Some(0), Qfi::new(5));
    let delivery: Option<DataDelivery> = None;
    let event = WorkerEvent::DownlinkData { session: Seid(2), pdr, dscp, qfi, delivery };
    assert_eq!(scene.take_events(), [event]);
    scene.install_other(OTHER_SESSION, &[], other_rules());
    scene.step();
    assert_eq!(scene.sent(N3).iter().map(|frame| teid_of(frame)).next(), Some(OTHER_GNB_TEID));
    scene.assert_turned(1, 0, 1);
}

#[test]
fn packets_that_the_sender_s_far_held_turn_when_they_are_released() {
    let mut holding = rules();
    holding.fars[0].action = ApplyAction::BUFF;
    holding.fars[0].buffer_pkts_max = 400;
    let mut scene = PipelineFixture::with(holding).with_other_ue();
    for _ in 0..300 {
        scene.io.inject(N3, &to(OTHER_UE));
        scene.step();
    }
    assert_eq!(scene.counts().buffered_by_far_pkts, 300);
    scene.install(rules());
    scene.step();
    assert_eq!(scene.sent(N3).len(), 300);
    scene.assert_turned(300, 0, 300);
}

#[test]
fn without_local_switching_packets_leave_to_n6() {
    let mut off = rules();
    off.fars[0].local_switching = InterfaceSet::NONE;
    let mut scene = PipelineFixture::with(off).with_other_ue();
    assert_eq!(scene.pass(N3, &to(OTHER_UE), N6).len(), 1, "by its forwarding policy");
    scene.assert_turned(0, 1, 0);
    let mut other = rules();
    other.fars[0].local_switching = InterfaceSet::only(IF_N6_VLAN);
    let mut scene = PipelineFixture::with(other).with_other_ue();
    assert_eq!(scene.pass(N3, &to(OTHER_UE), N6).len(), 1, "towards another interface only");
    let tables = TablesConfig { local_switching_domains: Vec::new(), ..usual_config() };
    let mut scene = PipelineFixture::built(tables, rules()).with_other_ue();
    scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
    assert_eq!(scene.pass(N3, &to(OTHER_UE), N6).len(), 1, "by its interfaces");
    assert_eq!(scene.counts().express_pkts, 1, "nothing is looked at more closely");
}

#[test]
fn packet_of_a_policy_with_a_next_hop_goes_there() {
    let mut steered = rules();
    let v4 = Some("10.6.0.254".parse().unwrap());
    steered.fars[0].steering = Some(Box::new(Steering { v4, v6: None }));
    let mut scene = PipelineFixture::with(steered).with_other_ue();
    assert_eq!(scene.pass(N3, &to(OTHER_UE), N6).len(), 1);
    let frame = tunneled().ipv6(UE_V6, OTHER_UE_V6).udp(1, 2).build();
    assert_eq!(scene.pass(N3, &frame, N3).len(), 1, "the policy has none for IPv6");
    scene.assert_turned(1, 1, 1);
}

#[test]
fn packet_turns_once_at_most() {
    let mut back = other_rules();
    back.fars[1].destination = DestinationInterface::Core;
    back.fars[1].outer_header_creation = None;
    back.fars[1].local_switching = InterfaceSet::ALL;
    let mut scene = PipelineFixture::new();
    scene.install_other(OTHER_SESSION, &other_keys(), back);
    let sent = scene.pass(N3, &to(OTHER_UE), N6);
    let expected = PacketBuilder::ethernet(GATEWAY_MAC, N6_MAC).ipv4(UE, OTHER_UE).ttl(62);
    assert_eq!(sent, [expected.udp(4000, 53).payload(b"question").build()]);
    scene.assert_turned(1, 0, 1);
}

#[test]
fn packet_to_the_sender_s_own_session_returns_to_it() {
    let mut scene = PipelineFixture::new();
    let mut two = rules();
    let other = UeAddresses { v4: Some(v4("10.45.0.20")), v6: None };
    two.ue.push(other);
    for pdr in two.uplink.iter_mut().chain(&mut two.downlink) {
        pdr.ue = UeAddresses::default();
    }
    scene.install_other(SESSION, &[SessionKey::UeIpv4(FIRST, v4("10.45.0.20"))], two);
    for host in ["10.45.0.20", UE] {
        let sent = scene.pass(N3, &to(host), N3);
        assert_eq!(
            sent.iter().map(|frame| teid_of(frame)).collect::<Vec<_>>(),
            [GNB_TEID],
            "{host}"
        );
    }
    scene.assert_turned(2, 0, 2);
}

#[test]
fn ue_of_another_domain_is_no_ue_of_this_one() {
    let mut tables = config();
    tables.interfaces[usize::from(IF_N6_VLAN.0)].domain = DomainId(1);
    tables.local_switching_domains.push(DomainId(1));
    let of_domain = |interface, teid, other_teid| {
        let mut other = other_rules();
        other.up_seid = Seid(u64::from(teid));
        other.uplink[0].teid = Some(Teid(teid));
        other.downlink[0].interfaces = InterfaceSet::only(interface);
        other.fars[1].outer_header_creation = Some(tunnel(other_teid, GNB));
        other
    };
    let mut scene = PipelineFixture::built(tables, rules());
    scene.resolve(IF_N3, GNB, GNB_MAC);
    scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
    let addr = v4(OTHER_UE);
    let key = |domain| [SessionKey::UeIpv4(DomainId(domain), addr)];
    scene.install_other(SessionIndex(20), &key(0), of_domain(IF_N6, 0x200, 0x2000));
    scene.install_other(SessionIndex(21), &key(1), of_domain(IF_N6_VLAN, 0x201, 0x2001));
    for (interface, expected) in [(IF_N6, 0x2000), (IF_N6_VLAN, 0x2001)] {
        let mut rules = rules();
        rules.fars[0].interfaces = InterfaceSet::only(interface);
        scene.install(rules);
        let sent = scene.pass(N3, &to(OTHER_UE), N3);
        assert_eq!(sent.iter().map(|frame| teid_of(frame)).collect::<Vec<_>>(), [expected]);
    }
    scene.change_keys(SessionIndex(20), &key(0), KeyChange::Remove, None);
    let mut rules = rules();
    rules.fars[0].interfaces = InterfaceSet::only(IF_N6);
    scene.install(rules);
    assert_eq!(
        scene.pass(N3, &to(OTHER_UE), N6).len(),
        1,
        "the other domain still has the address"
    );
    scene.assert_turned(2, 1, 2);
}

#[test]
fn packet_that_is_too_long_for_the_other_tunnel_is_divided_or_reported_to_its_sender() {
    let long = |builder: PacketBuilder| builder.udp(4000, 53).payload(&[7; 1472]).build();
    let mut scene = PipelineFixture::with_n6_mtu(1000, rules()).with_other_ue();
    let sent = scene.pass(N3, &long(tunneled().ipv4(UE, OTHER_UE)), N3);
    assert_eq!(sent.iter().map(|frame| teid_of(frame)).collect::<Vec<_>>(), [OTHER_GNB_TEID; 2]);
    assert_eq!(scene.counts().fragments_added_pkts, 1);
    scene.assert_turned(1, 0, 2);
    let frame = long(tunneled().ipv4(UE, OTHER_UE).dont_fragment());
    scene.assert_drops(N3, &frame, DropReason::PacketTooBig);
    let sent = scene.sent(N3);
    assert_eq!(sent.iter().map(|frame| teid_of(frame)).collect::<Vec<_>>(), [GNB_TEID]);
    let error = parse_ip(&sent[0][14 + 20 + 8 + 16..], true).unwrap();
    assert_eq!((error.addrs.src(), error.addrs.dst()), (ip(N6_ADDR), ip(UE)));
    assert!(scene.sent(N6).is_empty());
}

#[test]
fn hops_are_counted_on_both_sides() {
    let mut scene = PipelineFixture::new().with_other_ue();
    let aged = |ttl| tunneled().ipv4(UE, OTHER_UE).ttl(ttl).udp(4000, 53).build();
    assert_eq!(scene.pass(N3, &aged(3), N3).len(), 1);
    scene.assert_drops(N3, &aged(2), DropReason::TtlExceeded);
    assert_eq!(scene.sent(N3).iter().map(|frame| teid_of(frame)).next(), Some(GNB_TEID));
    assert!(scene.sent(N6).is_empty());
    scene.assert_turned(2, 0, 1);
}

#[test]
fn packet_of_the_cp_function_does_not_turn() {
    let mut rules = rules();
    rules.uplink[0].source = SourceInterface::CpFunction;
    let side = adit_rules::TunnelSide {
        source: SourceInterface::CpFunction,
        direction: Direction::Uplink,
    };
    rules.tunnel_sides = vec![(Teid(TEID), side)];
    let mut scene = PipelineFixture::with(rules).with_other_ue();
    assert_eq!(scene.pass(N3, &to(OTHER_UE), N6).len(), 1);
    scene.assert_turned(0, 1, 0);
}

#[test]
fn burst_of_packets_to_all_sides_keeps_the_identity_and_the_order() {
    for mut scene in
        [PipelineFixture::new().with_other_ue(), PipelineFixture::usual(rules()).with_other_ue()]
    {
        let numbered = |host, n| tunneled().ipv4(UE, host).udp(1, 2).payload(&[n]).build();
        for n in 0..30 {
            let host = [OTHER_UE, SERVER, "10.45.0.99"][usize::from(n) % 3];
            scene.io.inject(N3, &numbered(host, n));
        }
        scene.step();
        let last = |frames: Vec<Vec<u8>>| -> Vec<u8> {
            frames.iter().map(|frame| *frame.last().unwrap()).collect()
        };
        assert_eq!(last(scene.sent(N3)), (0..30).step_by(3).collect::<Vec<_>>());
        assert_eq!(last(scene.sent(N6)), (0..30).filter(|n| n % 3 != 0).collect::<Vec<_>>());
        scene.assert_turned(10, 20, 10);
    }
}
