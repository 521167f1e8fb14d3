//! Limits met exactly: a packet that just fits takes the fast path, one that does not never passes
//! it.

use adit_rules::{
    DropReason, PoolMembers, SessionRules, UrrEntry, UsageLimits, UsageSource, WorkerEvent,
};
use adit_types::limits::own_usage_slot;
use adit_types::{UrrId, UsageSlot};

use crate::fixture::*;

/// The slot of the session's own URR.
const OWN_SLOT: UsageSlot = own_usage_slot(SESSIONS_MAX, SESSION);

/// An uplink frame whose inner packet has `len` octets and must not be fragmented.
fn uplink_of(len: usize) -> Vec<u8> {
    tunneled().ipv4(UE, SERVER).dont_fragment().udp(1, 2).payload(&vec![1; len - 28]).build()
}

fn downlink_of(len: usize) -> Vec<u8> {
    from_gateway().ipv4(SERVER, UE).dont_fragment().udp(1, 2).payload(&vec![1; len - 28]).build()
}

#[test]
fn usual_uplink_packet_of_the_mtu_passes_and_a_longer_one_does_not() {
    let mut scene = PipelineFixture::usual(rules());
    assert_eq!(scene.pass(N3, &uplink_of(1500), N6).len(), 1);
    assert_eq!(scene.counts().express_pkts, 1);
    scene.assert_drops(N3, &uplink_of(1501), DropReason::PacketTooBig);
    assert_eq!((scene.sent(N6).len(), scene.counts().express_pkts), (0, 1));
}

#[test]
fn usual_downlink_packet_of_the_tunnel_mtu_passes_and_a_longer_one_does_not() {
    // Outer IPv4, UDP and GTP-U with the PDU Session Container.
    const FITS: usize = 1500 - 20 - 8 - 16;
    let mut scene = PipelineFixture::usual(rules());
    assert_eq!(scene.pass(N6, &downlink_of(FITS), N3).len(), 1);
    assert_eq!(scene.counts().express_pkts, 1);
    scene.assert_drops(N6, &downlink_of(FITS + 1), DropReason::PacketTooBig);
    assert_eq!((scene.sent(N3).len(), scene.counts().express_pkts), (0, 1));
}

/// The slots of a URR: one that any session can take, and the session's own.
const SLOTS: [UsageSlot; 2] = [UsageSlot(0), OWN_SLOT];

const fn urr(id: u32, slot: UsageSlot, report: UsageLimits, quota: UsageLimits) -> UrrEntry {
    UrrEntry {
        id: UrrId(id),
        slot,
        generation: id,
        report,
        quota,
        report_dropped: (u64::MAX, u64::MAX),
        stopped: false,
        quota_far: None,
        exempt: Vec::new(),
        pool: None,
        members: PoolMembers { of: Vec::new(), base_bytes: (0, 0) },
        report_start: false,
        before_qos: false,
    }
}

/// The usual rules with these URRs in both directions.
fn measured_by(urrs: Vec<UrrEntry>) -> SessionRules {
    let mut rules = rules();
    rules.own_urr = urrs.iter().map(|urr| urr.slot).find(|slot| *slot == OWN_SLOT);
    for pdr in rules.uplink.iter_mut().chain(&mut rules.downlink) {
        pdr.urrs = (0..).take(urrs.len()).collect();
    }
    rules.urrs = urrs;
    rules
}

fn told(scene: &mut PipelineFixture) -> bool {
    scene.take_events().iter().any(|event| matches!(event, WorkerEvent::UsageLimit { .. }))
}

/// Packets and octets of a URR, uplink and downlink.
fn counted(scene: &PipelineFixture, slot: UsageSlot) -> [u64; 4] {
    let counts = scene.publisher.usage().usage(slot, 1);
    [counts.ul_pkts, counts.ul_bytes, counts.dl_pkts, counts.dl_bytes]
}

/// Packets and octets of the session, uplink and downlink.
fn traffic(scene: &PipelineFixture) -> [u64; 4] {
    let traffic = scene.publisher.session_traffic(SESSION);
    [traffic.ul_pkts, traffic.ul_bytes, traffic.dl_pkts, traffic.dl_bytes]
}

#[test]
fn threshold_met_exactly_is_told_with_the_packet_that_meets_it() {
    // An own URR divides the rest among both directions.
    for (slot, second_express) in [(SLOTS[0], 1), (SLOTS[1], 0)] {
        for dl_bytes in [300, 301] {
            let report = UsageLimits { dl_bytes, ..UsageLimits::NONE };
            let urr = urr(1, slot, report, UsageLimits::NONE);
            let mut scene = PipelineFixture::usual(measured_by(vec![urr]));
            scene.pass(N6, &downlink_of(100), N3);
            scene.pass(N6, &downlink_of(100), N3);
            assert!(!told(&mut scene));
            assert_eq!(
                scene.counts().express_pkts,
                second_express,
                "the first one of a generation takes the stages"
            );
            scene.pass(N6, &downlink_of(100), N3);
            assert_eq!(told(&mut scene), dl_bytes == 300, "{dl_bytes}");
        }
    }
}

#[test]
fn threshold_of_both_directions_is_reported_with_the_packet_that_meets_it() {
    for slot in SLOTS {
        for uplink_every in [1, 2, 7, 100] {
            let report = UsageLimits { total_bytes: 10_000, ..UsageLimits::NONE };
            let urr = urr(1, slot, report, UsageLimits::NONE);
            let mut scene = PipelineFixture::usual(measured_by(vec![urr]));
            for n in 1..=99 {
                match n % uplink_every {
                    0 => scene.pass(N3, &uplink_of(100), N6),
                    _ => scene.pass(N6, &downlink_of(100), N3),
                };
            }
            assert!(!told(&mut scene), "{slot:?} {uplink_every}");
            let express_pkts = scene.counts().express_pkts;
            assert!(express_pkts > 75, "{slot:?} {uplink_every}: {express_pkts}");
            scene.pass(N3, &uplink_of(100), N6);
            assert!(told(&mut scene), "{slot:?} {uplink_every}");
            let [ul_pkts, ul_bytes, dl_pkts, dl_bytes] = counted(&scene, slot);
            assert_eq!((ul_pkts + dl_pkts, ul_bytes + dl_bytes), (100, 10_000));
            assert_eq!(traffic(&scene), counted(&scene, slot));
        }
    }
}

#[test]
fn quota_met_exactly_is_told_at_once_and_stops_the_next_packet() {
    for slot in SLOTS {
        let quota = UsageLimits { total_bytes: 300, ..UsageLimits::NONE };
        let urr = urr(1, slot, UsageLimits::NONE, quota);
        let mut scene = PipelineFixture::usual(measured_by(vec![urr]));
        for n in 1..=3 {
            assert_eq!(scene.pass(N3, &uplink_of(100), N6).len(), 1);
            assert_eq!(told(&mut scene), n == 3);
        }
        scene.assert_drops(N3, &uplink_of(100), DropReason::QuotaExhausted);
        assert_eq!(counted(&scene, slot), [3, 300, 0, 0]);
        assert_eq!(traffic(&scene), [3, 300, 0, 0]);
    }
}

#[test]
fn packets_that_the_own_urr_does_not_count_are_traffic_of_the_session_and_no_usage() {
    let own = urr(1, OWN_SLOT, UsageLimits::NONE, UsageLimits::NONE);
    let other = urr(2, UsageSlot(3), UsageLimits::NONE, UsageLimits::NONE);
    let mut rules = measured_by(vec![own, other]);
    // Uplink counts for both, downlink for the other one, and after a change for none.
    rules.downlink[0].urrs = [1].into_iter().collect();
    let mut scene = PipelineFixture::usual(rules.clone());
    let pass = |scene: &mut PipelineFixture, express| {
        let before = scene.counts().express_pkts;
        for _ in 0..3 {
            assert_eq!(scene.pass(N3, &uplink_of(100), N6).len(), 1);
            assert_eq!(scene.pass(N6, &downlink_of(50), N3).len(), 1);
        }
        assert_eq!(scene.counts().express_pkts - before, express);
    };
    // The first packet of each URR's generation takes the stages. It is an uplink packet.
    pass(&mut scene, 5);
    assert_eq!(counted(&scene, OWN_SLOT), [3, 300, 0, 0]);
    assert_eq!(scene.publisher.usage().usage(UsageSlot(3), 2).dl_bytes, 150);
    assert_eq!(traffic(&scene), [3, 300, 3, 150]);
    rules.downlink[0].urrs.clear();
    scene.install(rules.clone());
    pass(&mut scene, 5);
    assert_eq!(counted(&scene, OWN_SLOT), [6, 600, 0, 0]);
    assert_eq!(scene.publisher.usage().usage(UsageSlot(3), 2).dl_bytes, 150);
    assert_eq!(traffic(&scene), [6, 600, 6, 300]);
    // The own URR is removed. Its slot stays the session's own, and counts no more.
    rules.uplink[0].urrs = [1].into_iter().collect();
    scene.install(rules);
    pass(&mut scene, 6);
    assert_eq!(counted(&scene, OWN_SLOT), [6, 600, 0, 0]);
    assert_eq!(traffic(&scene), [9, 900, 9, 450]);
}

#[test]
fn first_packet_of_each_generation_is_checked() {
    for slot in SLOTS {
        let urr = |generation| UrrEntry {
            generation,
            report_start: true,
            ..urr(1, slot, UsageLimits::NONE, UsageLimits::NONE)
        };
        let mut scene = PipelineFixture::usual(measured_by(vec![urr(1)]));
        let started = |scene: &mut PipelineFixture| {
            scene.pass(N3, &uplink_of(100), N6);
            scene.pass(N6, &downlink_of(100), N3);
            let is_start =
                |event: &WorkerEvent| matches!(event, WorkerEvent::TrafficStarted { .. });
            scene.take_events().iter().filter(|event| is_start(event)).count()
        };
        assert_eq!([(); 3].map(|()| started(&mut scene)), [1, 0, 0]);
        let express_pkts = scene.counts().express_pkts;
        assert!(express_pkts >= 4, "{express_pkts}");
        scene.install(measured_by(vec![urr(2)]));
        assert_eq!([(); 3].map(|()| started(&mut scene)), [1, 0, 0]);
    }
}
