//! Limits met exactly: what just fits takes the fast path, what does not never passes it.

use adit_rules::{
    DropReason, PoolMembers, SessionRules, UrrEntry, UsageLimits, UsageSource, WorkerEvent,
};
use adit_types::{UrrId, UsageSlot};

use crate::fixture::*;

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

/// The usual rules with a URR in both directions.
fn measured(report: UsageLimits, quota: UsageLimits) -> SessionRules {
    let mut rules = rules();
    rules.urrs = vec![UrrEntry {
        id: UrrId(1),
        slot: UsageSlot(0),
        generation: 1,
        report,
        quota,
        report_dropped: (u64::MAX, u64::MAX),
        stopped: false,
        quota_far: None,
        exempt: Vec::new(),
        pool: None,
        members: PoolMembers::default(),
        report_start: false,
        before_qos: false,
    }];
    for pdr in rules.uplink.iter_mut().chain(&mut rules.downlink) {
        pdr.urrs = [0].into_iter().collect();
    }
    rules
}

fn told(scene: &mut PipelineFixture) -> bool {
    scene.take_events().iter().any(|event| matches!(event, WorkerEvent::UsageLimit { .. }))
}

#[test]
fn threshold_met_exactly_is_told_with_the_packet_that_meets_it() {
    for dl_bytes in [300, 301] {
        let report = UsageLimits { dl_bytes, ..UsageLimits::NONE };
        let mut scene = PipelineFixture::usual(measured(report, UsageLimits::NONE));
        scene.pass(N6, &downlink_of(100), N3);
        scene.pass(N6, &downlink_of(100), N3);
        assert!(!told(&mut scene));
        assert_eq!(
            scene.counts().express_pkts,
            1,
            "the first one of a generation takes the stages"
        );
        scene.pass(N6, &downlink_of(100), N3);
        assert_eq!(told(&mut scene), dl_bytes == 300, "{dl_bytes}");
        assert_eq!(scene.counts().express_pkts, if dl_bytes == 300 { 1 } else { 2 });
    }
}

#[test]
fn quota_met_exactly_is_told_at_once_and_stops_the_next_packet() {
    let quota = UsageLimits { total_bytes: 300, ..UsageLimits::NONE };
    let mut scene = PipelineFixture::usual(measured(UsageLimits::NONE, quota));
    for n in 1..=3 {
        assert_eq!(scene.pass(N3, &uplink_of(100), N6).len(), 1);
        assert_eq!(told(&mut scene), n == 3);
    }
    scene.assert_drops(N3, &uplink_of(100), DropReason::QuotaExhausted);
    assert_eq!(scene.publisher.usage().usage(UsageSlot(0), 1).ul_bytes, 300);
}
