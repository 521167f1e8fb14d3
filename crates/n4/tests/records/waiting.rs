//! Messages that wait for the workers and for the store.

use adit_n4::{NodeConfig, RecordConfig};
use adit_pfcp::{Cause, MessageType};
use adit_store::{RecordNumber, StoreState};
use adit_types::{Nanos, Teid};

use super::*;
use crate::usage_scene::{threshold, urr};

#[test]
fn answer_waits_for_the_workers_and_for_the_store() {
    let mut bench = associated();
    let request = establish(2, &SessionScript::new(1, 1));
    bench.node.handle_datagram(bench.now, smf(10), &request);
    assert_eq!(bench.node.poll_records(bench.now), None, "workers do not run it");
    bench.publish_all();
    assert_eq!(bench.sent(), [], "the store does not have it");
    assert_eq!(bench.node.waiting_for_store(), (0, 1));
    let group = bench.node.poll_records(bench.now).unwrap();
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.node.waiting_for_store(), (1, 1));
    bench.write(group);
    assert_eq!(types(&bench.sent()), [MessageType::SESSION_ESTABLISHMENT_RESPONSE]);
    assert_eq!(bench.node.waiting_for_store(), (0, 0));
}

#[test]
fn heartbeat_waits_for_nothing_and_other_messages_leave_in_order() {
    let mut bench = associated();
    let mut groups = Vec::new();
    for number in 1..=3 {
        let request = establish(10 + u32::from(number), &SessionScript::new(1, number));
        bench.node.handle_datagram(bench.now, smf(10), &request);
        bench.publish_all();
        groups.extend(bench.node.poll_records(bench.now));
    }
    // A refusal changes nothing, and tells of what was before it.
    bench.node.handle_datagram(bench.now, smf(10), &delete(20, Seid(77)));
    assert_eq!(bench.sent(), []);
    bench.node.handle_datagram(bench.now, smf(10), &heartbeat(21, SMF_STARTED));
    assert_eq!(types(&bench.sent()), [MessageType::HEARTBEAT_RESPONSE]);
    let own = bench.node.poll_timeout().unwrap();
    bench.node.handle_timeout(own.max(HEARTBEAT_INTERVAL));
    assert_eq!(types(&bench.sent()), [MessageType::HEARTBEAT_REQUEST]);
    let [first, second, third] = <[_; 3]>::try_from(groups).unwrap();
    let sequences = |bench: &mut Bench| -> Vec<u32> {
        bench.sent().iter().map(|sent| raw(&sent.bytes).header.sequence).collect()
    };
    bench.write(first);
    assert_eq!(sequences(&mut bench), [11]);
    // Groups become durable together.
    bench.node.handle_durable(third.number);
    assert_eq!(sequences(&mut bench), [12, 13, 20]);
    bench.node.handle_durable(second.number);
    bench.node.handle_durable(RecordNumber(u64::MAX));
    assert_eq!(bench.node.waiting_for_store(), (0, 0));
}

/// A node whose store fails while an establishment waits for it.
fn failing(serves_without_store: bool) -> (Bench, adit_store::RecordGroup) {
    let records = RecordConfig { usage_interval: USAGE_INTERVAL, serves_without_store };
    let mut bench = begun(NodeConfig { records: Some(records), ..config() });
    bench.associate(10);
    let request = establish(2, &SessionScript::new(1, 1));
    bench.node.handle_datagram(bench.now, smf(10), &request);
    bench.publish_all();
    let group = bench.node.poll_records(bench.now).unwrap();
    bench.node.set_store_state(StoreState::Failing);
    (bench, group)
}

#[test]
fn requests_are_refused_at_once_while_the_store_fails_and_those_under_way_answered_later() {
    let (mut bench, group) = failing(false);
    assert_eq!(bench.sent(), [], "nothing says that it was kept");
    let request = establish(3, &SessionScript::new(2, 2));
    assert_eq!(cause(&bench.answer(smf(10), &request)), Cause::SystemFailure);
    let answer = bench.answer(smf(11), &setup(1, ip(11), SMF_STARTED));
    assert_eq!(cause(&answer), Cause::SystemFailure);
    assert_eq!(bench.node.counters().scalars.refused_store_fails, 2);
    assert_eq!(types(&bench.ask(smf(10), &heartbeat(4, SMF_STARTED))).len(), 1);
    bench.node.set_store_state(StoreState::Working);
    bench.write(group);
    assert_eq!(types(&bench.sent()), [MessageType::SESSION_ESTABLISHMENT_RESPONSE]);
    let request = establish(5, &SessionScript::new(2, 2));
    assert_eq!(cause(&bench.answer(smf(10), &request)), Cause::RequestAccepted, "it left nothing");
    assert_eq!(killed(&bench).node.store().len(), 2);
}

/// What lets the records grow is refused with a Cause of its own; what relieves the store goes on.
#[test]
fn full_store_refuses_what_needs_more_room_and_takes_deletions() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.set_store_state(StoreState::Full);
    let establishment = establish(3, &SessionScript::new(2, 2));
    let modification = move_to(4, up_seid, Teid(90));
    for request in [&establishment, &modification] {
        assert_eq!(cause(&bench.answer(smf(10), request)), Cause::NoResourcesAvailable);
    }
    assert_eq!(bench.node.counters().scalars.refused_store_full, 2);
    assert_eq!(cause(&bench.answer(smf(10), &delete(5, up_seid))), Cause::RequestAccepted);
    bench.node.set_store_state(StoreState::Working);
    let establishment = establish(6, &SessionScript::new(2, 2));
    assert_eq!(cause(&bench.answer(smf(10), &establishment)), Cause::RequestAccepted);
    assert_eq!(killed(&bench).node.store().len(), 1);
}

#[test]
fn requests_are_served_while_the_store_fails_if_so_configured() {
    let (mut bench, group) = failing(true);
    assert_eq!(types(&bench.sent()), [MessageType::SESSION_ESTABLISHMENT_RESPONSE]);
    let request = establish(3, &SessionScript::new(2, 2));
    bench.node.handle_datagram(bench.now, smf(10), &request);
    bench.publish_all();
    assert_eq!(cause(&bench.sent()[0].bytes), Cause::RequestAccepted);
    bench.node.set_store_state(StoreState::Working);
    bench.node.handle_datagram(bench.now, smf(10), &establish(4, &SessionScript::new(3, 3)));
    bench.publish_all();
    assert_eq!(bench.sent(), [], "the store works again, and has not caught up");
    bench.write(group);
    bench.store_all();
    assert_eq!(bench.sent().len(), 1);
    assert_eq!(killed(&bench).node.store().len(), 3, "it caught up");
}

/// The store takes longer than all retransmissions of a request: the peer could not answer what it never got.
#[test]
fn report_that_waits_for_the_store_is_not_given_up() {
    let mut urr = urr(1, adit_pfcp::ie::ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(1000);
    let mut scene = Scene::on(associated(), |body| {
        usage_scene::with_urrs(body, list([urr]));
    });
    scene.count(0, 1000, 0);
    let rule = &scene.rules.as_ref().unwrap().urrs[0];
    let (session, slot, generation) = (scene.up_seid, rule.slot, rule.generation);
    let event = adit_rules::WorkerEvent::UsageLimit { session, slot, generation };
    let bench = &mut scene.bench;
    bench.node.handle_event(bench.now, event);
    let group = bench.node.poll_records(bench.now).unwrap();
    bench.node.set_store_state(StoreState::Failing);
    let until = Nanos(bench.now.0 + T1.0 * u64::from(N1 + 2));
    while let Some(at) = bench.node.poll_timeout().filter(|at| *at <= until) {
        bench.now = bench.now.max(at);
        bench.node.handle_timeout(bench.now);
        for sent in bench.sent() {
            assert_eq!(sent.bytes[1], 1, "heartbeats alone");
            let sequence = raw(&sent.bytes).header.sequence;
            let started = adit_pfcp::ie::RecoveryTimeStamp(SMF_STARTED);
            let alive = adit_pfcp::message::HeartbeatResponse::new(started);
            bench.node.handle_datagram(bench.now, smf(10), &encode(None, sequence, &alive));
        }
    }
    assert_eq!(bench.node.counters().scalars.reports_lost_no_response, 0);
    bench.node.set_store_state(StoreState::Working);
    bench.write(group);
    bench.store_all();
    let sent = bench.sent();
    assert_eq!(types(&sent), [MessageType::SESSION_REPORT_REQUEST], "once");
    let again = bench.run_until(bench.now + T1);
    assert!(again.contains(&sent[0]), "its retransmissions begin now");
    assert_eq!(scene.acknowledge(&sent[0]), []);
    assert_eq!(move_works(&mut scene.bench, scene.up_seid), Cause::RequestAccepted);
}

fn move_works(bench: &mut Bench, up_seid: Seid) -> Cause {
    cause(&bench.answer(smf(10), &move_to(90, up_seid, Teid(90))))
}
