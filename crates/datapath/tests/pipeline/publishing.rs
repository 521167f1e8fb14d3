//! Changes that are published in the middle of a step.

use adit_datapath::Worker;
use adit_pktio::PacketBuf;
use adit_pktio::mem::{MemBuf, MemIo};
use adit_rules::{DeltaId, GtpuTunnel, NextHops, RuleDelta, SessionKey, WorkerCommand};
use adit_rules::{KeyChange, SessionRules};
use adit_tables::{Publisher, build};
use adit_types::{Nanos, PortId, Teid};
use rtrb::{Producer, RingBuffer};

use crate::fixture::*;

const NEW_TEID: u32 = 0x77;
const G_PDU: u8 = 255;
const END_MARKER: u8 = 254;

fn publish(publisher: &mut Publisher, change: u64, rules: SessionRules) {
    let keys =
        vec![KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), UE.parse().unwrap()))];
    let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(rules)) };
    publisher.apply(DeltaId(change), delta);
}

/// The control thread moves the tunnel before a burst is received from N6.
struct MovedTunnel {
    publisher: Publisher,
    commands: Producer<WorkerCommand>,
    is_due: bool,
}

impl BeforeReceive for MovedTunnel {
    fn before_receive(&mut self, port: PortId, _: &mut MemIo) {
        if port == N6 && core::mem::take(&mut self.is_due) {
            let change = 2;
            let tunnel = GtpuTunnel { teid: Teid(GNB_TEID), addr: ip(GNB) };
            let change_id = DeltaId(change);
            let command = WorkerCommand::SendEndMarker {
                tunnel,
                interfaces: adit_types::InterfaceSet::ALL,
                qfi: None,
                session: SESSION,
                change: change_id,
            };
            self.commands.push(command).unwrap();
            publish(&mut self.publisher, change, moved());
        }
    }
}

fn moved() -> SessionRules {
    let mut moved = rules();
    moved.fars[1].outer_header_creation = Some(tunnel(NEW_TEID, GNB));
    moved
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
    let describe = |buf: &MemBuf| {
        let gtpu = &buf.data()[14 + 20 + 8..];
        (gtpu[1], u32::from_be_bytes(gtpu[4..8].try_into().unwrap()))
    };
    let seen: Vec<_> = ports.io.take_sent(N3).iter().map(describe).collect();
    let (old, new) = ((G_PDU, GNB_TEID), (G_PDU, NEW_TEID));
    assert_eq!(seen, [old, old, (END_MARKER, GNB_TEID), new, new, new, new, new, new]);
    let express = ports.hook.publisher.snapshot().express_pkts;
    assert_eq!(express, 4, "packets take the stages until the worker has seen the move");
}
