//! The records of a node in a store: which messages wait for them, their state at each moment, and
//! the node that a later process makes of them.

mod answers;
mod following;
mod lost;
mod octets;
mod pinned;
mod restored;
mod set_aside;
mod under_way;
mod usage;
mod waiting;

use std::net::Ipv4Addr;
use std::sync::Arc;

use adit_n4::{CLOCK_MARK, FormerRecord, NodeConfig, NodeRecord, RecordConfig, Transmit};
use adit_pfcp::{Cause, Message, MessageType};
use adit_rules::UsageSource;
use adit_session::KeptSession;
use adit_store::{OwnedRecordId, RecordKind};
use adit_types::{Nanos, Seid};

use crate::smf::*;
use crate::usage_scene::{Counters, Scene};

const USAGE_INTERVAL: Nanos = Nanos::from_secs(5);

fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, host)
}

/// The configuration of a node that keeps records.
fn kept_config() -> NodeConfig {
    let records = RecordConfig { usage_interval: USAGE_INTERVAL, serves_without_store: false };
    NodeConfig { records: Some(records), ..config() }
}

/// A node whose store has no record.
fn begun(config: NodeConfig) -> Bench {
    let mut bench = Bench::with(config);
    bench.node.begin_records(1);
    bench.store_all();
    bench
}

/// As [`begun`], with an association with `smf(10)`.
fn associated() -> Bench {
    let mut bench = begun(kept_config());
    bench.associate(10);
    bench
}

/// A later process that is to restore the records of `bench`.
fn begin_restoration(bench: &Bench, config: NodeConfig) -> Bench {
    let mut later = Bench::with(config);
    (later.now, later.records) = (bench.now, bench.records.clone());
    let node = &later.records[&(RecordKind::Node, OwnedRecordId::Number(0))];
    later.node.begin_restoration(&NodeRecord::from_octets(node).unwrap());
    later
}

/// The records of some kinds, in the order of their restoration.
fn records_of(bench: &Bench) -> Vec<(RecordKind, OwnedRecordId, Vec<u8>)> {
    let of = |kind| bench.records.iter().filter(move |((of, _), _)| *of == kind);
    let all = RecordKind::ALL.into_iter().flat_map(of);
    all.map(|((kind, name), value)| (*kind, name.clone(), value.clone())).collect()
}

/// True for the name of the record that says when the records changed last.
fn is_clock_mark((kind, name): &(RecordKind, OwnedRecordId)) -> bool {
    (*kind, name.as_id()) == (CLOCK_MARK.kind, CLOCK_MARK.id)
}

/// The number of records of a kind, without the [clock mark](is_clock_mark).
fn count_of(bench: &Bench, kind: RecordKind) -> usize {
    bench.records.keys().filter(|key| key.0 == kind && !is_clock_mark(key)).count()
}

/// The process ends, and a later one with this configuration restores its records.
fn killed_into(bench: &Bench, config: NodeConfig) -> Bench {
    let mut later = begin_restoration(bench, config);
    for (kind, name, octets) in records_of(bench) {
        let mut record = FormerRecord::read(kind, name, octets);
        let _refused = later.node.restore_record(later.now, &mut record);
    }
    later.publish_all();
    later.node.end_restoration(later.now);
    later
}

/// As [`killed_into`], with the same configuration, in which all records are restored.
fn killed(bench: &Bench) -> Bench {
    let mut later = killed_into(bench, bench.node.config().clone());
    let scalars = later.node.counters().scalars;
    assert_eq!(scalars.sessions_not_restored, 0, "{:?}", later.events());
    later
}

/// As [`killed`], with a session whose worker is the test; it counts from zero again.
fn killed_scene(scene: &Scene) -> Scene {
    let bench = begin_restoration(&scene.bench, scene.bench.node.config().clone());
    let counters = Arc::new(Counters::default());
    let mut later = Scene { bench, counters, up_seid: scene.up_seid, rules: None };
    let source = Arc::clone(&later.counters) as Arc<dyn UsageSource>;
    later.bench.node.set_usage_source(source);
    for (kind, name, octets) in records_of(&scene.bench) {
        let mut record = FormerRecord::read(kind, name, octets);
        later.bench.node.restore_record(later.bench.now, &mut record).unwrap();
    }
    let node = &mut later.bench.node;
    while let Some((id, delta)) = node.poll_delta() {
        later.rules = delta.rules.map(|rules| *rules);
        node.handle_published(later.bench.now, id);
    }
    node.end_restoration(later.bench.now);
    later.publish();
    later
}

/// All parts of a session that a store would keep.
fn kept(bench: &Bench, up_seid: Seid) -> Option<KeptSession> {
    bench.node.store().kept(bench.now, up_seid)
}

/// A request that gives an application its PFD.
fn pfds_of_web(sequence: u32) -> Vec<u8> {
    use adit_pfcp::grouped::{ApplicationIdsPfds, PfdContext};
    use adit_pfcp::ie::{ApplicationId, PfdContents};
    use adit_pfcp::message::PfdManagementRequest;

    let web = PfdContents {
        flow_description: Some(b"permit out 6 from 203.0.113.0/24 443 to assigned"),
        ..PfdContents::default()
    };
    let mut application = ApplicationIdsPfds::new(ApplicationId(b"web"));
    application.pfd_contexts = list([PfdContext::new(list([web]).into())]).into();
    let mut body = PfdManagementRequest::new();
    body.application_ids_pfds = list([application]).into();
    encode(None, sequence, &body)
}

fn cause(bytes: &[u8]) -> Cause {
    match decode(bytes) {
        Message::AssociationSetupResponse(body) => body.cause,
        Message::AssociationUpdateResponse(body) => body.cause,
        Message::AssociationReleaseResponse(body) => body.cause,
        Message::PfdManagementResponse(body) => body.cause,
        Message::SessionEstablishmentResponse(body) => body.cause,
        Message::SessionModificationResponse(body) => body.cause,
        Message::SessionDeletionResponse(body) => body.cause,
        Message::SessionSetDeletionResponse(body) => body.cause,
        other => panic!("{other:?}"),
    }
}

fn types(sent: &[Transmit]) -> Vec<MessageType> {
    sent.iter().map(|transmit| raw(&transmit.bytes).header.message_type).collect()
}
