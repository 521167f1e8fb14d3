//! Trials of the fast path: it does the same with the same packet untraced.

use adit_rules::sdf::{PacketFilter, PortRange};
use adit_rules::{
    ApplyAction, Excess, FastPathFrame, FastPathTrialResult, Gate, LeaveReason, NoFastRule,
    RateLimit, SessionRules, TapItem, UsageLimits,
};
use adit_types::{BitRate, Nanos, PortId, UsageSlot};

use crate::fixture::*;
use crate::rates::{limited, urr};
use crate::taps::{ALL, tapped};

/// The trial of the fast path with a frame. Another scene, which `make` makes as well,
/// gets the frame without a trace: its fast path has to do so.
#[track_caller]
fn answer(make: impl Fn() -> PipelineFixture, port: PortId, frame: &[u8]) -> FastPathTrialResult {
    let mut plain = make();
    let before = plain.counts().express_pkts;
    plain.io.inject(port, frame);
    plain.step();
    let is_fast = plain.counts().express_pkts > before;
    let mut scene = tapped(make(), ALL);
    scene.io.inject(port, frame);
    scene.worker.step(scene.now, &mut scene.io);
    let records = scene.take_records();
    let answers = records.iter().flatten().filter_map(|item| match item {
        TapItem::FastPath(answer) => Some(*answer),
        _ => None,
    });
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers.len(), 1, "{records:?}");
    if let FastPathTrialResult::Sends(frame) | FastPathTrialResult::Queues(frame) = answers[0] {
        assert_eq!(frame.difference, None, "{records:?}");
    }
    let leaves = matches!(
        answers[0],
        FastPathTrialResult::Leaves(_) | FastPathTrialResult::LeavesUnruled(_)
    );
    assert_eq!(is_fast, !leaves, "{answers:?}");
    answers[0]
}

#[track_caller]
fn assert_leaves(make: impl Fn() -> PipelineFixture, port: PortId, frame: &[u8], why: LeaveReason) {
    assert_eq!(answer(make, port, frame), FastPathTrialResult::Leaves(why));
}

fn usual() -> PipelineFixture {
    PipelineFixture::usual(rules())
}

fn changed(change: impl Fn(&mut SessionRules)) -> impl Fn() -> PipelineFixture {
    move || {
        let mut rules = rules();
        change(&mut rules);
        PipelineFixture::usual(rules)
    }
}

#[test]
fn usual_packets_would_be_sent_with_the_octets_of_the_stages() {
    let len = |answer| match answer {
        FastPathTrialResult::Sends(FastPathFrame { port, interface, len, .. }) => {
            (port, interface, len)
        }
        other => panic!("{other:?}"),
    };
    let found = len(answer(usual, N3, &uplink().build()));
    assert_eq!(found, (N6, IF_N6, 14 + 20 + 8 + 8));
    let found = len(answer(usual, N6, &downlink().build()));
    assert_eq!(found, (N3, IF_N3, 14 + 20 + 8 + 16 + 20 + 8 + 6));
    let v6 = from_gateway().ipv6(SERVER_V6, UE_V6).udp(53, 4000).payload(b"answer").build();
    assert_eq!(len(answer(usual, N6, &v6)).0, N3);
    let one_link = || PipelineFixture::on_one_link(rules());
    assert_eq!(len(answer(one_link, N3, &uplink().build())).0, N3);
}

#[test]
fn headers_that_are_not_usual_are_named() {
    let fragment = |frame: adit_testkit::packet::PacketBuilder| frame.fragment(1, 0, true);
    let outer = || adit_testkit::packet::PacketBuilder::ethernet(N3_MAC, GNB_MAC);
    let gtpu = || outer().ipv4(GNB, N3_ADDR).gtpu(TEID).psc_ul(9);
    let user = |ttl| tunneled().ipv4(UE, SERVER).ttl(ttl).udp(1, 2).build();
    let mut wrong = user(64);
    wrong[14 + 10] ^= 1;
    let mut priority = downlink().build();
    priority.splice(12..12, [0x81, 0, 0xe0, 0]);
    let cases = [
        (N3, user(1), LeaveReason::TtlUsedUp),
        (N6, from_gateway().ipv4(SERVER, UE).ttl(1).udp(1, 2).build(), LeaveReason::TtlUsedUp),
        (N3, wrong, LeaveReason::Malformed),
        (
            N3,
            tunneled().ipv4(UE, SERVER).options(&[1; 4]).udp(1, 2).build(),
            LeaveReason::IpOptions,
        ),
        (N3, tunneled().ipv6(UE_V6, SERVER_V6).protocol(50).build(), LeaveReason::IpExtensions),
        (N3, tunneled().ipv4(UE, "224.0.0.1").udp(1, 2).build(), LeaveReason::AddressInvalid),
        (N6, from_gateway().ipv4("127.0.0.1", UE).udp(1, 2).build(), LeaveReason::AddressInvalid),
        (
            N3,
            gtpu().extension(0x40, &[0, 1]).ipv4(UE, SERVER).udp(1, 2).build(),
            LeaveReason::GtpuExtensions,
        ),
        (
            N3,
            outer().ipv4(GNB, N3_ADDR).tos(3).gtpu(TEID).ipv4(UE, SERVER).udp(1, 2).build(),
            LeaveReason::OuterMarked,
        ),
        (
            N3,
            fragment(outer().ipv4(GNB, N3_ADDR)).gtpu(TEID).ipv4(UE, SERVER).udp(1, 2).build(),
            LeaveReason::OuterFragment,
        ),
        (N3, outer().ipv4(UE, SERVER).udp(1, 2).build(), LeaveReason::NotGPdu),
        (
            N3,
            outer().vlan(7).ipv4(GNB, N3_ADDR).gtpu(TEID).ipv4(UE, SERVER).udp(1, 2).build(),
            LeaveReason::VlanUnknown,
        ),
        (N6, priority, LeaveReason::PriorityTag),
        (N6, from_gateway().ether_type(0x88cc).payload(&[0; 46]).build(), LeaveReason::NotIp),
    ];
    let found = cases.iter().map(|(port, frame, _)| answer(usual, *port, frame));
    let expected = cases.iter().map(|(.., why)| FastPathTrialResult::Leaves(*why));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn packets_without_a_matching_fast_rule_are_named() {
    let other = outer_of(TEID + 1).ipv4(UE, SERVER).udp(1, 2).build();
    assert_leaves(usual, N3, &other, LeaveReason::NoSession);
    let other = tunneled().ipv4("10.45.99.99", SERVER).udp(1, 2).build();
    assert_leaves(usual, N3, &other, LeaveReason::OtherUeAddress);
    let of_flow = changed(|rules| rules.uplink[0].qfis = vec![adit_types::Qfi::new(5).unwrap()]);
    assert_leaves(of_flow, N3, &uplink().build(), LeaveReason::OtherTunnel);
    let unresolved = || PipelineFixture::built(usual_config(), rules());
    assert_leaves(unresolved, N3, &uplink().build(), LeaveReason::NextHopUnresolved);
    assert_leaves(unresolved, N6, &downlink().build(), LeaveReason::NextHopUnresolved);
    let narrow = || PipelineFixture::with_n6_mtu(100, rules());
    let long = tunneled().ipv4(UE, SERVER).udp(1, 2).payload(&[0; 200]).build();
    assert_leaves(narrow, N3, &long, LeaveReason::TooLong);
    let mut tables = usual_config();
    tables.interfaces[1].tcp_mss = adit_types::TcpMss::Clamp;
    let clamping = || PipelineFixture::usual_with(tables.clone(), rules());
    let syn = tunneled().ipv4(UE, SERVER).tcp(1, 2, 2).build();
    assert_leaves(clamping, N3, &syn, LeaveReason::TcpSyn);
    let syn = from_gateway().ipv4(SERVER, UE).tcp(1, 2, 2).build();
    assert_leaves(clamping, N6, &syn, LeaveReason::TcpSyn);
}

/// An uplink frame up to the GTP-U header of a tunnel.
fn outer_of(teid: u32) -> adit_testkit::packet::PacketBuilder {
    adit_testkit::packet::PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(teid)
}

#[test]
fn compiler_says_why_rules_have_no_fast_form() {
    let unruled = |change: fn(&mut SessionRules), port, frame: &[u8]| {
        let FastPathTrialResult::LeavesUnruled(why) = answer(changed(change), port, frame) else {
            panic!("a fast rule, or no reason of the compiler");
        };
        why
    };
    let (up, down) = (uplink().build(), downlink().build());
    for (why, change) in [
        (
            NoFastRule::GateClosed,
            (|rules| rules.qers[0].gate_uplink = Gate::Closed) as fn(&mut SessionRules),
        ),
        (NoFastRule::ActionOther, |rules| rules.fars[0].action = ApplyAction::DROP),
        (NoFastRule::SteeringOrMarking, |rules| rules.fars[0].dscp = Some(10)),
        (NoFastRule::QfisTooMany, |rules| {
            rules.uplink[0].qfis = (5..=9).filter_map(adit_types::Qfi::new).collect();
        }),
        (NoFastRule::NoPdr, |rules| rules.uplink.clear()),
    ] {
        assert_eq!(unruled(change, N3, &up), why);
    }
    for (why, change) in [
        (
            NoFastRule::ActionOther,
            (|rules| rules.fars[1].action = ApplyAction::BUFF) as fn(&mut SessionRules),
        ),
        (NoFastRule::FlowMarking, |rules| rules.qers[0].service_class = Some((1, 1))),
        (NoFastRule::UrrStopped, |rules| {
            let stopped = adit_rules::UrrEntry { stopped: true, ..urr(false) };
            rules.urrs = vec![stopped];
            rules.downlink[0].urrs = [0].into_iter().collect();
        }),
    ] {
        assert_eq!(unruled(change, N6, &down), why);
    }
}

#[test]
fn filters_that_lead_to_no_fast_rule_are_named() {
    let filtering = |filter: PacketFilter| {
        changed(move |rules| rules.uplink[0].sdf = vec![filter.clone()].into())
    };
    let spi = || filtering(PacketFilter { spi: Some(7), ..PacketFilter::ANY });
    let esp = tunneled().ipv4(UE, SERVER).protocol(50).payload(&[0, 0, 0, 7, 0, 0, 0, 1]).build();
    assert_leaves(spi(), N3, &esp, LeaveReason::FilterUndecided);
    let ports = vec![PortRange { first: 53, last: 53 }];
    let dns = || {
        let protocol = Some(17);
        filtering(PacketFilter { protocol, remote_ports: ports.clone(), ..PacketFilter::ANY })
    };
    assert!(matches!(answer(dns(), N3, &uplink().build()), FastPathTrialResult::Sends(_)));
    let part = tunneled().ipv4(UE, SERVER).fragment(1, 64, true).payload(&[0; 64]).build();
    assert_leaves(dns(), N3, &part, LeaveReason::Fragment);
    let other = tunneled().ipv4(UE, SERVER).udp(1, 54).build();
    assert_leaves(dns(), N3, &other, LeaveReason::NoFilterMatches);
    let closed = changed(|rules| {
        let mut first = rules.uplink[0].clone();
        first.sdf = vec![PacketFilter { protocol: Some(17), ..PacketFilter::ANY }].into();
        first.far = 2;
        rules
            .fars
            .push(adit_rules::FarEntry { action: ApplyAction::DROP, ..rules.fars[0].clone() });
        rules.uplink.insert(0, first);
    });
    let dropped = FastPathTrialResult::LeavesUnruled(NoFastRule::ActionOther);
    assert_eq!(answer(closed, N3, &uplink().build()), dropped);
}

/// A session whose downlink rate `excess` passes one packet for a second, and which has passed it.
fn used_up(excess: Excess) -> impl Fn() -> PipelineFixture {
    move || {
        let limit = RateLimit::new(BitRate::from_kbps(1), Nanos(0), excess);
        let mut rules = limited([RateLimit::UNLIMITED, limit], [RateLimit::UNLIMITED; 2]);
        rules.qers.truncate(1);
        rules.downlink[0].qers = [0].into_iter().collect();
        rules.uplink[0].qers = [0].into_iter().collect();
        let mut scene = PipelineFixture::usual(rules);
        scene.pass(N6, &downlink().build(), N3);
        scene
    }
}

#[test]
fn rates_decide_as_they_do_without_a_trace_and_are_not_charged() {
    let down = downlink().build();
    let queues = answer(used_up(Excess::Shaped), N6, &down);
    assert!(matches!(queues, FastPathTrialResult::Queues(_)), "{queues:?}");
    assert_leaves(used_up(Excess::Policed), N6, &down, LeaveReason::RateClosed);
    let opens = |excess| {
        let make = used_up(excess);
        move || {
            let mut scene = make();
            scene.now += Nanos::from_secs(2);
            scene
        }
    };
    // A trial that charged would use up the rate of the stages, which then differ.
    let sends = answer(opens(Excess::Policed), N6, &down);
    assert!(matches!(sends, FastPathTrialResult::Sends(_)), "{sends:?}");
    let behind = || {
        let mut scene = used_up(Excess::Shaped)();
        scene.pass(N6, &downlink().build(), N3);
        scene
    };
    assert!(matches!(answer(behind, N6, &down), FastPathTrialResult::Queues(_)));
}

#[test]
fn limits_and_waiting_packets_keep_packets_from_the_fast_path() {
    let near = || {
        let mut rules = rules();
        let mut near = urr(false);
        near.report = UsageLimits { total_bytes: 50, ..UsageLimits::NONE };
        rules.urrs = vec![near];
        rules.own_urr = Some(UsageSlot(0));
        rules.uplink[0].urrs = [0].into_iter().collect();
        let mut scene = PipelineFixture::usual(rules);
        scene.pass(N3, &uplink().build(), N6);
        scene
    };
    assert_leaves(near, N3, &uplink().build(), LeaveReason::UsageCheck);
    let waiting = || {
        let mut scene = PipelineFixture::built(usual_config(), rules());
        scene.pass(N6, &downlink().build(), N3);
        scene.resolve(IF_N3, GNB, GNB_MAC);
        scene
    };
    let sends = answer(waiting, N6, &downlink().build());
    assert!(matches!(sends, FastPathTrialResult::Sends(_)), "released before: {sends:?}");
}
