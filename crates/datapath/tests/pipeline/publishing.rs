//! Changes that are published in the middle of a step.

use adit_datapath::{EventQueues, EventWorker, RxTx, RxTxConfig, SharedFlows, Worker, connect};
use adit_pktio::PacketBuf;
use adit_pktio::mem::{MemBuf, MemIo};
use adit_rules::{DeltaId, GtpuTunnel, NextHops, RuleDelta, SessionKey, WorkerCommand};
use adit_rules::{KeyChange, SessionRules};
use adit_tables::{Publisher, TablesConfig, build};
use adit_testkit::mem_events::{MemScheduler, MemSchedulerConfig};
use adit_types::{Nanos, PortId, Roles, SessionIndex, Teid};
use rtrb::{Producer, RingBuffer};

use crate::fixture::*;

const NEW_TEID: u32 = 0x77;
const G_PDU: u8 = 255;
const END_MARKER: u8 = 254;

/// The session of another UE, which has the same gNB.
const OTHER: SessionIndex = SessionIndex(8);
const OTHER_UE: &str = "10.45.0.99";
const OTHER_TEID: u32 = 0xabce;
const OTHER_NEW_TEID: u32 = 0x78;

fn publish(publisher: &mut Publisher, change: u64, rules: SessionRules) {
    publish_of(publisher, (SESSION, UE), change, rules);
}

fn publish_of(
    publisher: &mut Publisher,
    (session, ue): (SessionIndex, &str),
    change: u64,
    rules: SessionRules,
) {
    let keys =
        vec![KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), ue.parse().unwrap()))];
    let delta = RuleDelta { session, keys, rules: Some(Box::new(rules)) };
    publisher.apply(DeltaId(change), delta);
}

fn end_marker(session: SessionIndex, teid: u32, change: u64) -> WorkerCommand {
    WorkerCommand::SendEndMarker {
        tunnel: GtpuTunnel { teid: Teid(teid), addr: ip(GNB) },
        interfaces: adit_types::InterfaceSet::ALL,
        qfi: None,
        session,
        change: DeltaId(change),
    }
}

/// The control thread moves the tunnel before a burst is received from N6.
struct MovedTunnel {
    publisher: Publisher,
    commands: Producer<WorkerCommand>,
    is_due: bool,
}

impl MidStep for MovedTunnel {
    fn before_receive(&mut self, port: PortId, _: &mut MemIo) {
        if port == N6 && core::mem::take(&mut self.is_due) {
            self.commands.push(end_marker(SESSION, GNB_TEID, 2)).unwrap();
            publish(&mut self.publisher, 2, moved());
        }
    }
}

fn moved() -> SessionRules {
    let mut moved = rules();
    moved.fars[1].outer_header_creation = Some(tunnel(NEW_TEID, GNB));
    moved
}

/// The type of the GTP-U message, and its TEID.
fn describe(buf: &MemBuf) -> (u8, u32) {
    let gtpu = &buf.data()[14 + 20 + 8..];
    (gtpu[1], u32::from_be_bytes(gtpu[4..8].try_into().unwrap()))
}

#[test]
fn end_marker_of_a_change_in_the_middle_of_a_step_leaves_before_the_new_path() {
    let (mut publisher, mut readers) = build(usual_config()).unwrap();
    let (event_tx, _events) = RingBuffer::new(256);
    let (commands, command_rx) = RingBuffer::new(64);
    let config = worker_config(&[N3, N6]);
    let mut worker = Worker::new(config, readers.remove(0), event_tx, command_rx);
    publish(&mut publisher, 1, rules());
    let gnb = publisher.ensure_next_hop(IF_N3, ip(GNB)).unwrap();
    publisher.set_mac(gnb, GNB_MAC, false);
    let mut ports = HookedPorts::new(MovedTunnel { publisher, commands, is_due: false });
    for is_due in [false, true, false, false] {
        while ports.hook.publisher.poll_observed().is_some() {}
        ports.hook.is_due = is_due;
        ports.io.inject(N6, &downlink().build());
        ports.io.inject(N6, &downlink().build());
        worker.step(Nanos::from_secs(1000), &mut ports);
    }
    let seen: Vec<_> = ports.io.take_sent(N3).iter().map(describe).collect();
    let (old, new) = ((G_PDU, GNB_TEID), (G_PDU, NEW_TEID));
    assert_eq!(seen, [old, old, (END_MARKER, GNB_TEID), new, new, new, new, new, new]);
    let express = ports.hook.publisher.snapshot().express_pkts;
    assert_eq!(express, 4, "packets take the stages until the worker has seen the move");
}

/// The control thread moves the tunnel of the first session before a burst is received from N6, and
/// that of the other session while the worker sends the first one's End Marker.
struct MovedInTurn {
    first: MovedTunnel,
    is_other_due: bool,
}

impl MidStep for MovedInTurn {
    fn before_receive(&mut self, port: PortId, io: &mut MemIo) {
        self.first.before_receive(port, io);
    }

    fn before_alloc(&mut self) {
        if core::mem::take(&mut self.is_other_due) {
            self.first.commands.push(end_marker(OTHER, OTHER_TEID, 3)).unwrap();
            let moved = other_rules(OTHER_NEW_TEID);
            publish_of(&mut self.first.publisher, (OTHER, OTHER_UE), 3, moved);
        }
    }
}

fn other_rules(teid: u32) -> SessionRules {
    let mut other = rules();
    other.ue[0].v4 = Some(v4(OTHER_UE));
    for pdr in &mut other.downlink {
        pdr.ue.v4 = Some(v4(OTHER_UE));
    }
    other.fars[1].outer_header_creation = Some(tunnel(teid, GNB));
    other
}

#[test]
fn end_marker_does_not_precede_packets_that_were_classified_before_its_change() {
    let (mut publisher, mut readers) = build(usual_config()).unwrap();
    let (event_tx, _events) = RingBuffer::new(256);
    let (commands, command_rx) = RingBuffer::new(64);
    let mut worker = Worker::new(worker_config(&[N3, N6]), readers.remove(0), event_tx, command_rx);
    publish(&mut publisher, 1, rules());
    publish_of(&mut publisher, (OTHER, OTHER_UE), 1, other_rules(OTHER_TEID));
    let gnb = publisher.ensure_next_hop(IF_N3, ip(GNB)).unwrap();
    publisher.set_mac(gnb, GNB_MAC, false);
    let first = MovedTunnel { publisher, commands, is_due: true };
    let mut ports = HookedPorts::new(MovedInTurn { first, is_other_due: true });
    let to_other = from_gateway().ipv4(SERVER, OTHER_UE).udp(53, 4000).payload(b"answer").build();
    for _ in 0..2 {
        ports.io.inject(N6, &downlink().build());
        ports.io.inject(N6, &to_other);
        worker.step(Nanos::from_secs(1000), &mut ports);
        while ports.hook.first.publisher.poll_observed().is_some() {}
    }
    let seen: Vec<_> = ports.io.take_sent(N3).iter().map(describe).collect();
    assert_eq!(
        seen,
        [
            (END_MARKER, GNB_TEID),
            (G_PDU, NEW_TEID),
            (G_PDU, OTHER_TEID),
            (END_MARKER, OTHER_TEID),
            (G_PDU, NEW_TEID),
            (G_PDU, OTHER_NEW_TEID),
        ]
    );
}

/// The control thread moves the tunnel while the worker divides a packet.
struct MovedWhileDividing(MovedTunnel);

impl MidStep for MovedWhileDividing {
    fn before_receive(&mut self, _: PortId, _: &mut MemIo) {}

    fn before_alloc(&mut self) {
        if core::mem::take(&mut self.0.is_due) {
            self.0.commands.push(end_marker(SESSION, GNB_TEID, 2)).unwrap();
            publish(&mut self.0.publisher, 2, moved());
        }
    }
}

/// An event-driven worker runs its commands before it looks at the packets that it dequeued.
#[test]
fn end_marker_leaves_before_the_new_path_from_an_event_driven_worker() {
    let roles = Roles::event_driven(1, 1);
    let queues = EventQueues::default().with_tx(1);
    let mut tables = TablesConfig { workers: roles.threads(), ..usual_config() };
    tables.interfaces[usize::from(IF_N6.0)].mtu_bytes = 600;
    let (mut publisher, mut readers) = build(tables).unwrap();
    let keys = vec![
        KeyChange::Add(SessionKey::Teid(Teid(TEID))),
        KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), v4(UE))),
    ];
    let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(rules())) };
    publisher.apply(DeltaId(1), delta);
    let gnb = publisher.ensure_next_hop(IF_N3, ip(GNB)).unwrap();
    publisher.set_mac(gnb, GNB_MAC, false);
    let gateway = publisher.ensure_next_hop(IF_N6, ip("10.6.0.254")).unwrap();
    publisher.set_mac(gateway, GATEWAY_MAC, false);
    let (_scheduler, mut ports) = MemScheduler::new(MemSchedulerConfig {
        queues: queues.schedules().collect(),
        links: queues.links(roles),
        flows: 64,
        new_threshold: 256,
        choose: Box::new(|_, _, ports| ports[0]),
        keep_back: Box::new(|_, _| false),
    });
    let flows = SharedFlows::new(64, &queues, 64);
    let (event_tx, _events) = RingBuffer::new(256);
    let (commands, command_rx) = RingBuffer::new(64);
    let worker = Worker::new(worker_config(&[]), readers.remove(0), event_tx, command_rx);
    let handoff = connect(roles, 256).remove(0).with_flows(flows.clone());
    let worker = worker.with_handoff(handoff);
    let mut worker = EventWorker::new(worker, ports.remove(0), flows.clone());
    let config = RxTxConfig { number: 0, ports: vec![N3, N6], burst: 32 };
    let mut rx_tx = RxTx::new(config, readers.remove(0), flows, ports.remove(0));

    let hook = MovedWhileDividing(MovedTunnel { publisher, commands, is_due: false });
    let mut ports = HookedPorts::new(hook);
    let mut wire = MemIo::new(&[N3_MAC, N6_MAC]);
    let divided = tunneled().ipv4(UE, SERVER).udp(1, 2).payload(&[7; 1000]).build();
    for is_due in [false, true, false, false] {
        while ports.hook.0.publisher.poll_observed().is_some() {}
        ports.hook.0.is_due = is_due;
        wire.inject(N3, &divided);
        wire.inject(N6, &downlink().build());
        let now = Nanos::from_secs(1000);
        rx_tx.step(now, &mut wire);
        worker.step(now, &mut ports);
        rx_tx.step(now, &mut wire);
    }
    let seen: Vec<_> = wire.take_sent(N3).iter().map(describe).collect();
    let new = (G_PDU, NEW_TEID);
    assert_eq!(seen, [(G_PDU, GNB_TEID), (END_MARKER, GNB_TEID), new, new, new]);
}
