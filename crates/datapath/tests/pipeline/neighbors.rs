//! Packets that wait for link-layer addresses.

use adit_datapath::Worker;
use adit_pktio::PacketBuf;
use adit_pktio::mem::MemIo;
use adit_rules::{DeltaId, DropReason, KeyChange, NextHops, RuleDelta, SessionKey, WorkerEvent};
use adit_tables::{Publisher, build};
use adit_types::limits::NEIGHBOR_PENDING_PER_HOP_MAX;
use adit_types::{MacAddr, Nanos, PortId, Teid};
use rtrb::RingBuffer;

use crate::fixture::*;

fn numbered(number: u16) -> Vec<u8> {
    tunneled().ipv4(UE, SERVER).udp(number, 9).build()
}

#[test]
fn packets_wait_and_leave_in_order_when_the_gateway_is_resolved() {
    let mut scene = PipelineFixture::unresolved(rules());
    for number in 0..5 {
        scene.io.inject(N3, &numbered(number));
    }
    scene.step();
    assert!(scene.sent(N6).is_empty());
    assert_eq!(scene.counts().buffered_pkts, 5);
    let wanted = WorkerEvent::NeighborUnresolved { interface: IF_N6, addr: ip("10.6.0.254") };
    assert_eq!(scene.take_events(), [wanted], "one event for five packets");
    scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
    scene.io.inject(N3, &numbered(5));
    scene.step();
    let sent = scene.sent(N6);
    let ports: Vec<u16> = sent.iter().map(|f| u16::from_be_bytes([f[34], f[35]])).collect();
    assert_eq!(ports, [0, 1, 2, 3, 4, 5]);
    assert!(sent.iter().all(|frame| frame[..6] == GATEWAY_MAC.0 && frame[22] == 63));
    let counts = scene.counts();
    assert_eq!((counts.buffered_pkts, counts.transmitted_uplink_pkts), (0, 6));
}

/// The control thread learns the gateway's address before a burst is received from N6, after one
/// from N3.
struct ResolvedLate {
    publisher: Publisher,
    /// Frames that arrive on N3 after that.
    frames: Vec<Vec<u8>>,
}

impl MidStep for ResolvedLate {
    fn before_receive(&mut self, port: PortId, io: &mut MemIo) {
        if port == N6 && !self.frames.is_empty() {
            let gateway = self.publisher.ensure_next_hop(IF_N6, ip("10.6.0.254")).unwrap();
            self.publisher.set_mac(gateway, GATEWAY_MAC, false);
            for frame in self.frames.drain(..) {
                io.inject(N3, &frame);
            }
        }
    }
}

#[test]
fn packets_leave_in_order_when_the_gateway_is_resolved_in_the_middle_of_a_step() {
    let (mut publisher, mut readers) = build(usual_config()).unwrap();
    let (event_tx, _events) = RingBuffer::new(256);
    let (_commands, command_rx) = RingBuffer::new(64);
    let config = worker_config(&[N3, N6, N3]);
    let mut worker = Worker::new(config, readers.remove(0), event_tx, command_rx);
    let keys = vec![KeyChange::Add(SessionKey::Teid(Teid(TEID)))];
    let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(rules())) };
    publisher.apply(DeltaId(1), delta);
    let mut ports = HookedPorts::new(ResolvedLate { publisher, frames: Vec::new() });
    let mut step = |ports: &mut HookedPorts<ResolvedLate>| {
        while ports.hook.publisher.poll_observed().is_some() {}
        worker.step(Nanos::from_secs(1000), ports);
    };
    // The fast rules of the session become active.
    (0..3).for_each(|_| step(&mut ports));
    [0, 1].iter().for_each(|number| ports.io.inject(N3, &numbered(*number)));
    ports.hook.frames = vec![numbered(2), numbered(3)];
    step(&mut ports);
    ports.io.inject(N3, &numbered(4));
    step(&mut ports);
    let sent = ports.io.take_sent(N6);
    let numbers: Vec<u8> = sent.iter().map(|frame| frame.data()[35]).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[test]
fn downlink_waits_for_the_gnb() {
    let mut scene = PipelineFixture::unresolved(rules());
    scene.pass(N6, &downlink().build(), N3);
    let wanted = WorkerEvent::NeighborUnresolved { interface: IF_N3, addr: ip(GNB) };
    assert_eq!(scene.take_events(), [wanted]);
    scene.resolve(IF_N3, GNB, GNB_MAC);
    scene.step();
    let resolved = PipelineFixture::new().pass(N6, &downlink().build(), N3);
    assert_eq!(scene.sent(N3), resolved, "the frame is the same as without waiting");
    assert_eq!(scene.counts().transmitted_downlink_pkts, 1);
}

#[test]
fn on_link_destination_without_an_entry_waits_too() {
    let mut scene = PipelineFixture::new();
    scene.pass(N3, &tunneled().ipv4(UE, "10.6.0.77").udp(1, 2).build(), N6);
    let wanted = WorkerEvent::NeighborUnresolved { interface: IF_N6, addr: ip("10.6.0.77") };
    assert_eq!(scene.take_events(), [wanted]);
    scene.step();
    assert_eq!(scene.counts().buffered_pkts, 1);
    let mac = MacAddr([2, 0, 0, 0, 0, 0x77]);
    scene.resolve(IF_N6, "10.6.0.77", mac);
    scene.step();
    let sent = scene.sent(N6);
    assert_eq!((sent.len(), &sent[0][..6]), (1, &mac.0[..]));
}

#[test]
fn packets_that_waited_too_long_are_dropped() {
    let mut scene = PipelineFixture::unresolved(rules());
    scene.pass(N3, &numbered(0), N6);
    scene.take_events();
    for millis in [999, 1000, 1001, 2000, 2999] {
        scene.now = Nanos::from_secs(1000) + Nanos::from_millis(millis);
        scene.step();
    }
    assert_eq!(scene.take_events().len(), 2, "asked again once a second");
    assert_eq!(scene.counts().buffered_pkts, 1);
    scene.now = Nanos::from_secs(1003);
    scene.step();
    assert_eq!(scene.dropped(DropReason::NeighborUnresolved), 1);
    assert_eq!(scene.counts().buffered_pkts, 0);
}

#[test]
fn packets_for_one_station_are_bounded() {
    let mut scene = PipelineFixture::unresolved(rules());
    for number in 0..20 {
        scene.io.inject(N3, &numbered(number));
    }
    scene.step();
    let held = NEIGHBOR_PENDING_PER_HOP_MAX as u64;
    assert_eq!(scene.counts().buffered_pkts, held);
    assert_eq!(scene.dropped(DropReason::NeighborQueueFull), 20 - held);
}

#[test]
fn scan_of_silent_addresses_is_bounded() {
    let mut scene = PipelineFixture::new();
    for host in 2..200u8 {
        let dst = core::net::Ipv4Addr::new(10, 6, 0, host);
        scene.io.inject(N3, &tunneled().ipv4(UE, dst).udp(1, 2).build());
    }
    for _ in 0..10 {
        scene.step();
    }
    assert_eq!(scene.counts().buffered_pkts, 64);
    assert_eq!(scene.dropped(DropReason::NeighborQueueFull), 198 - 64);
    assert_eq!(scene.take_events().len(), 64);
    assert_eq!(scene.pass(N3, &uplink().build(), N6).len(), 1, "others are not held up");
}

#[test]
fn drain_turns_waiting_packets_into_drops() {
    let mut scene = PipelineFixture::unresolved(rules());
    scene.pass(N3, &numbered(0), N6);
    scene.worker.drain(&mut scene.io);
    let counts = scene.counts();
    assert!(counts.identity_holds());
    assert_eq!((counts.buffered_pkts, scene.dropped(DropReason::NeighborUnresolved)), (0, 1));
}

#[test]
fn full_event_ring_loses_and_counts() {
    let mut scene = PipelineFixture::new();
    for host in 2..60u8 {
        let dst = core::net::Ipv4Addr::new(10, 6, 0, host);
        scene.io.inject(N3, &tunneled().ipv4(UE, dst).udp(1, 2).build());
    }
    for second in 0..6 {
        scene.now = Nanos::from_secs(1000 + second);
        scene.step();
        scene.step();
        for host in 2..60u8 {
            let dst = core::net::Ipv4Addr::new(10, 6, 0, host);
            scene.io.inject(N3, &tunneled().ipv4(UE, dst).udp(1, 2).build());
        }
    }
    assert_eq!(scene.take_events().len(), 256);
    assert!(scene.counts().events_lost > 0);
}

/// The fast path keeps the last hops from burst to burst.
#[test]
fn burst_leaves_to_the_address_that_a_neighbor_has_then() {
    let mut scene = PipelineFixture::usual(rules());
    let pass = |scene: &mut PipelineFixture| {
        let uplink = scene.pass(N3, &uplink().build(), N6);
        let downlink = scene.pass(N6, &downlink().build(), N3);
        [uplink, downlink].map(|sent| MacAddr(sent[0][..6].try_into().unwrap()))
    };
    // The first packets take the stages.
    (0..3).for_each(|_| assert_eq!(pass(&mut scene), [GATEWAY_MAC, GNB_MAC]));
    let mut express = scene.counts().express_pkts;
    assert!(express > 0);
    let mut last_gnb = GNB_MAC;
    for number in 1..4 {
        let [gateway, gnb] = [6, 3].map(|side| MacAddr([2, 0, 0, side, 0, number]));
        scene.resolve(IF_N6, "10.6.0.254", gateway);
        assert_eq!(pass(&mut scene), [gateway, last_gnb]);
        scene.resolve(IF_N3, GNB, gnb);
        last_gnb = gnb;
        (0..2).for_each(|_| assert_eq!(pass(&mut scene), [gateway, gnb]));
        express += 6;
        assert_eq!(scene.counts().express_pkts, express);
    }
    let index = scene.publisher.find_next_hop(IF_N3, ip(GNB)).unwrap();
    scene.publisher.set_mac(index, GNB_MAC, true);
    assert_eq!(pass(&mut scene)[1], GNB_MAC);
    assert_eq!(
        scene.counts().express_pkts,
        express + 1,
        "the stages report the use of a stale address"
    );
    assert!(scene.publisher.take_used(index));
}
