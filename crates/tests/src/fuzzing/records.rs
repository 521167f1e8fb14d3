//! Records of a node that another process left: octets of records of every kind, damaged and mixed
//! up.
//!
//! Whatever they say, each is restored or refused, and the node serves afterwards. Its sessions end
//! with the associations of their owners, and nothing is left of them.

use core::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use adit_n4::{FormerRecord, Node, NodeConfig, NodeRecord, RecordConfig};
use adit_pfcp::grouped::CreateUrr;
use adit_pfcp::ie::{
    FSeid, MeasurementMethod, RecoveryTimeStamp, ReportingTriggers, VolumeThreshold,
};
use adit_pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, SessionEstablishmentRequest,
};
use adit_pfcp::{MessageType, Repeated};
use adit_rules::{UsageCounts, UsageSource, WorkerEvent};
use adit_session::SessionPreparer;
use adit_store::{OwnedRecordId, RecordKind};
use adit_types::{Nanos, Seid, UrrId, UsageSlot};

use super::input::FuzzInput;
use super::n4_sequence::{self, PEERS, establishment, node_id, node_messages, octets};

/// Records of one input, so that none takes long.
const RECORDS_MAX: usize = 64;

type TemplateRecord = (RecordKind, OwnedRecordId, Vec<u8>);

#[derive(Debug)]
struct ConstantUsage;

impl UsageSource for ConstantUsage {
    fn usage(&self, _: UsageSlot, _: u32) -> UsageCounts {
        UsageCounts { ul_bytes: 1000, ul_pkts: 1, ..UsageCounts::default() }
    }
}

fn config() -> NodeConfig {
    let usage_interval = Nanos::from_secs(1);
    let records = RecordConfig { usage_interval, serves_without_store: false };
    NodeConfig { records: Some(records), connect: Vec::new(), ..n4_sequence::config() }
}

/// A node whose workers and store keep up.
struct RestoringNode {
    node: Node,
    now: Nanos,
    records: Vec<TemplateRecord>,
    sequence: u8,
}

impl RestoringNode {
    fn new() -> Self {
        let mut node = Node::new(config());
        node.set_usage_source(Arc::new(ConstantUsage));
        Self { node, now: Nanos(0), records: Vec::new(), sequence: 0 }
    }

    fn ask(&mut self, from: SocketAddr, mut request: Vec<u8>) {
        self.sequence = self.sequence.wrapping_add(1);
        let at = if request[0] & 1 == 1 { 14 } else { 6 };
        request[at] = self.sequence;
        self.node.handle_datagram(self.now, from, &request);
        self.settle();
    }

    /// Workers run everything, the store has everything, and due work is done.
    fn settle(&mut self) {
        for _ in 0..1000 {
            while let Some((id, _)) = self.node.poll_delta() {
                self.node.handle_published(self.now, id);
            }
            if let Some(group) = self.node.poll_records(self.now) {
                let puts = group.changes.into_iter().filter_map(|change| {
                    change.value.map(|value| (change.kind, change.name, value))
                });
                self.records.extend(puts);
                self.node.handle_durable(self.now, group.number);
            }
            while self.node.poll_transmit().is_some() {}
            while self.node.poll_event().is_some() {}
            if self.node.poll_timeout().is_none_or(|at| at > self.now) {
                return;
            }
            self.node.handle_timeout(self.now);
        }
    }
}

fn setup(peer: usize) -> Vec<u8> {
    octets(&AssociationSetupRequest::new(node_id(peer), RecoveryTimeStamp(3_800_000_000)))
}

/// Records of every kind, as a node makes them.
fn templates() -> &'static [TemplateRecord] {
    static TEMPLATES: OnceLock<Vec<TemplateRecord>> = OnceLock::new();
    TEMPLATES.get_or_init(|| {
        let mut run = RestoringNode::new();
        run.node.begin_records(1);
        for (peer, &from) in PEERS.iter().enumerate() {
            run.ask(from, setup(peer));
        }
        let others = node_messages(0);
        let pfds =
            others.into_iter().find(|message| message[1] == MessageType::PFD_MANAGEMENT_REQUEST.0);
        run.ask(PEERS[0], pfds.expect("among the messages of a peer"));
        for number in 1..4 {
            run.ask(PEERS[0], establishment(0, number));
        }
        let mut urr = CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, ReportingTriggers::VOLTH);
        urr.volume_threshold =
            Some(VolumeThreshold { total: Some(900), ..VolumeThreshold::default() });
        let urrs = [urr];
        let measured = SessionEstablishmentRequest {
            create_urrs: Repeated::from(&urrs),
            ..SessionEstablishmentRequest::new(
                node_id(1),
                FSeid::new(Seid(9), PEERS[1].ip()),
                [].as_slice().into(),
                [].as_slice().into(),
            )
        };
        let mut request = octets(&measured);
        request[14] = 77;
        run.node.handle_datagram(run.now, PEERS[1], &request);
        while let Some((id, delta)) = run.node.poll_delta() {
            run.node.handle_published(run.now, id);
            let urrs = delta.rules.iter().flat_map(|rules| &rules.urrs);
            let limits: Vec<_> = urrs.map(|urr| (urr.slot, urr.generation)).collect();
            let session = run.node.store().session_at(delta.session).map(|known| known.up_seid());
            for (session, (slot, generation)) in session.into_iter().zip(limits) {
                let event = WorkerEvent::UsageLimit { session, slot, generation };
                run.node.handle_event(run.now, event);
            }
        }
        run.settle();
        run.node.record_all_usage(run.now);
        run.settle();
        run.records
    })
}

/// Restores records that the input makes of valid ones, and uses the node.
pub(super) fn run(data: &[u8]) {
    let mut input = FuzzInput::new(data);
    let templates = templates();
    let mut run = RestoringNode::new();
    run.now = Nanos::from_secs(u64::from(input.u8()));
    let node = templates.iter().find(|(kind, ..)| *kind == RecordKind::Node);
    let (_, _, node) = node.expect("a record of the node");
    run.node.begin_restoration(&NodeRecord::from_octets(node).expect("a record of the node"));
    let preparer = SessionPreparer::new(run.node.config().store.provisioning.clone());
    run.node.accept_prepared(&preparer);
    for _ in 0..RECORDS_MAX {
        if input.is_empty() {
            break;
        }
        let (kind, name, value) = record(&mut input, templates);
        if kind == RecordKind::Node {
            if let Ok(node) = NodeRecord::from_octets(&value) {
                run.node.begin_restoration(&node);
            }
            continue;
        }
        let mut record = FormerRecord::read_prepared(&preparer, kind, name, value);
        if let Err(error) = run.node.restore_record(run.now, &mut record) {
            assert!(!error.to_string().is_empty());
        }
    }
    run.settle();
    run.node.end_restoration(run.now);
    run.settle();
    for (peer, &from) in PEERS.iter().enumerate() {
        run.ask(from, setup(peer));
        run.ask(from, establishment(peer, 60));
        run.now += Nanos::from_secs(1);
        run.settle();
        run.ask(from, octets(&AssociationReleaseRequest::new(node_id(peer))));
    }
    let store = run.node.store();
    assert_eq!(store.len(), store.sessions().count());
    assert_eq!(run.node.counters().scalars.faults, 0, "a panic was contained");
}

/// A valid record with some octets changed, under its name or that of another one; or octets of any
/// kind.
fn record(input: &mut FuzzInput<'_>, templates: &[TemplateRecord]) -> TemplateRecord {
    let (kind, name, value) = &templates[input.below(templates.len())];
    let mut value = value.clone();
    let choice = input.u8();
    for _ in 0..choice & 3 {
        let (at, octet) = (input.below(value.len()), input.u8());
        value[at] = octet;
    }
    if choice & 4 != 0 {
        value.truncate(input.below(value.len() + 1));
    }
    if choice & 8 != 0 {
        let first = value.first().copied();
        value = first.into_iter().chain(input.bytes().iter().copied()).collect();
    }
    if value.is_empty() {
        value.push(input.u8());
    }
    let name = match choice >> 4 & 3 {
        0..=2 => name.clone(),
        _ => templates[input.below(templates.len())].1.clone(),
    };
    (*kind, name, value)
}
