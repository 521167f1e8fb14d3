//! A store that lost its records gets all of them again from the memory of the process.

use adit_pfcp::ie::ReportingTriggers;
use adit_store::{GroupNumber, RecordKind};
use adit_types::Teid;

use super::*;
use crate::usage_scene::{threshold, urr, with_urrs};

/// The changes that a store that lost everything gets, in bounded parts, until the node says that
/// this is all.
fn rewrite(bench: &mut Bench, records: &mut StoredRecords) -> Option<GroupNumber> {
    let mut through = None;
    for _ in 0..100 {
        while let Some(group) = bench.node.poll_records(bench.now) {
            for change in &group.changes {
                let key = (change.kind, change.name.clone());
                match &change.value {
                    Some(value) => drop(records.insert(key, value.clone())),
                    None => drop(records.remove(&key)),
                }
            }
            bench.write(group);
        }
        through = through.or(bench.node.take_rewritten());
    }
    through
}

/// A bench with a record of each kind that a node has, and of each form of its names.
fn bench_with_everything() -> Bench {
    let mut volume = urr(1, ReportingTriggers::VOLTH);
    volume.volume_threshold = threshold(1000);
    let mut scene = Scene::on(associated(), |body| with_urrs(body, list([volume])));
    let aside = scene.up_seid;
    scene.bench.session(smf(10), 3, &SessionScript::new(2, 2));
    scene.ask(&pfds_of_web(4));
    // A report that is not acknowledged, and usage that is later than the record of the session.
    scene.count(0, 1000, 0);
    assert_eq!(scene.limit(0).len(), 1);
    scene.count(0, 300, 0);
    scene.bench.node.record_all_usage(scene.bench.now);
    scene.bench.store_all();
    let record = (RecordKind::Session, OwnedRecordId::Number(aside.0));
    scene.bench.records.get_mut(&record).unwrap()[0] = 77;
    let mut later = killed_into(&scene.bench, kept_config());
    later.store_all();
    later.sent();
    assert_eq!(later.node.set_aside_len(), 1);
    later
}

#[test]
fn all_records_are_handed_out_again_after_the_store_lost_them() {
    let mut bench = bench_with_everything();
    for number in 5..=40 {
        bench.session(smf(10), 2 + u32::from(number), &SessionScript::new(1, number));
    }
    let before = bench.records.clone();
    let forms = |records: &StoredRecords| {
        let is_number = |name: &OwnedRecordId| matches!(name, OwnedRecordId::Number(_));
        let all = records.keys().map(|(kind, name)| (*kind, is_number(name)));
        all.collect::<std::collections::BTreeSet<_>>()
    };
    let expected = [
        (RecordKind::Node, true),
        (RecordKind::Association, false),
        (RecordKind::Association, true),
        (RecordKind::Pfds, false),
        (RecordKind::Session, true),
        (RecordKind::Usage, false),
        (RecordKind::Usage, true),
        (RecordKind::Report, true),
        (RecordKind::Answer, true),
    ];
    assert_eq!(forms(&before), expected.into_iter().collect());
    bench.node.rewrite_records();
    let mut records = StoredRecords::new();
    let through = rewrite(&mut bench, &mut records);
    assert!(through.is_some_and(|number| number.0 <= bench.node.store_backlog().0 + 100));
    assert_eq!(records, before);
    assert_eq!(bench.node.take_rewritten(), None, "once");
    bench.session(smf(10), 90, &SessionScript::new(1, 50));
}

/// The end comes behind the record of a session that changes meanwhile.
#[test]
fn session_that_changes_meanwhile_is_handed_out_before_the_end() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.handle_datagram(bench.now, smf(10), &move_to(3, up_seid, Teid(9)));
    bench.node.rewrite_records();
    let mut records = StoredRecords::new();
    assert_eq!(rewrite(&mut bench, &mut records), None, "workers do not run the change");
    bench.publish_all();
    assert!(rewrite(&mut bench, &mut records).is_some());
    assert_eq!(records, bench.records);
    assert_eq!(count_of(&bench, RecordKind::Session), 1);
}

/// A request that was answered before the loss, by this process or a previous one, is not run again
/// by a later one.
#[test]
fn retransmission_after_the_loss_gets_the_same_octets_from_a_later_process() {
    let mut bench = associated();
    let script = |number| SessionScript::new(1, number);
    let requests = [1, 2].map(|number| establish(1 + u32::from(number), &script(number)));
    let first = bench.answer(smf(10), &requests[0]);
    let mut bench = killed(&bench);
    let second = bench.answer(smf(10), &requests[1]);
    bench.records.clear();
    bench.node.rewrite_records();
    let mut records = StoredRecords::new();
    assert!(rewrite(&mut bench, &mut records).is_some());
    let mut later = killed(&bench);
    assert_eq!(requests.map(|request| later.answer(smf(10), &request)), [first, second]);
    assert_eq!(later.node.store().len(), 2);
}
