//! Messages that wait for the workers and for the store.

use adit_n4::{NodeConfig, RecordConfig};
use adit_pfcp::{Cause, MessageType};
use adit_session::StoreConfig;
use adit_store::{GroupNumber, RecordKind, StoreState};
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
    assert_eq!(bench.node.store_backlog(), (0, 1));
    let group = bench.node.poll_records(bench.now).unwrap();
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.node.store_backlog(), (1, 1));
    bench.write(group);
    assert_eq!(types(&bench.sent()), [MessageType::SESSION_ESTABLISHMENT_RESPONSE]);
    assert_eq!(bench.node.store_backlog(), (0, 0));
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
    // A refusal changes nothing, and reports the state before it.
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
    bench.node.handle_durable(bench.now, third.number);
    assert_eq!(sequences(&mut bench), [12, 13, 20]);
    bench.node.handle_durable(bench.now, second.number);
    bench.node.handle_durable(bench.now, GroupNumber(u64::MAX));
    assert_eq!(bench.node.store_backlog(), (0, 0));
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
    bench.node.set_store_state(bench.now, StoreState::Failing);
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
    bench.node.set_store_state(bench.now, StoreState::Working);
    bench.write(group);
    assert_eq!(types(&bench.sent()), [MessageType::SESSION_ESTABLISHMENT_RESPONSE]);
    let request = establish(5, &SessionScript::new(2, 2));
    assert_eq!(cause(&bench.answer(smf(10), &request)), Cause::RequestAccepted, "it left nothing");
    assert_eq!(killed(&bench).node.store().len(), 2);
}

/// Requests that let the records grow are refused with a Cause of their own; requests that relieve
/// the store go on.
#[test]
fn full_store_refuses_what_needs_more_room_and_takes_deletions() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.set_store_state(bench.now, StoreState::Full);
    let establishment = establish(3, &SessionScript::new(2, 2));
    let modification = move_to(4, up_seid, Teid(90));
    for request in [&establishment, &modification] {
        assert_eq!(cause(&bench.answer(smf(10), request)), Cause::NoResourcesAvailable);
    }
    assert_eq!(bench.node.counters().scalars.refused_store_full, 2);
    assert_eq!(cause(&bench.answer(smf(10), &delete(5, up_seid))), Cause::RequestAccepted);
    bench.node.set_store_state(bench.now, StoreState::Working);
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
    bench.node.set_store_state(bench.now, StoreState::Working);
    bench.node.handle_datagram(bench.now, smf(10), &establish(4, &SessionScript::new(3, 3)));
    bench.publish_all();
    assert_eq!(bench.sent(), [], "the store works again, and has not caught up");
    bench.write(group);
    bench.store_all();
    assert_eq!(bench.sent().len(), 1);
    assert_eq!(killed(&bench).node.store().len(), 3, "it caught up");
}

/// The store takes longer than all retransmissions of a request: the peer could not answer a
/// request that it never got.
#[test]
fn report_that_waits_for_the_store_is_not_given_up() {
    let mut urr = urr(1, adit_pfcp::ie::ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(1000);
    let mut scene = Scene::on(associated(), |body| {
        crate::usage_scene::with_urrs(body, list([urr]));
    });
    scene.count(0, 1000, 0);
    let rule = &scene.rules.as_ref().unwrap().urrs[0];
    let (session, slot, generation) = (scene.up_seid, rule.slot, rule.generation);
    let event = adit_rules::WorkerEvent::UsageLimit { session, slot, generation };
    let bench = &mut scene.bench;
    bench.node.handle_event(bench.now, event);
    let group = bench.node.poll_records(bench.now).unwrap();
    bench.node.set_store_state(bench.now, StoreState::Failing);
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
    bench.node.set_store_state(bench.now, StoreState::Working);
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

/// Sends a request while the store takes nothing, with copies for longer than an answer is kept,
/// and then lets the store have it.
fn ask_while_the_store_fails(bench: &mut Bench, request: &[u8]) -> Vec<u8> {
    bench.node.handle_datagram(bench.now, smf(10), request);
    for _ in 0..4 {
        bench.publish_all();
        bench.node.handle_timeout(bench.now);
    }
    let groups: Vec<_> = std::iter::from_fn(|| bench.node.poll_records(bench.now)).collect();
    bench.node.set_store_state(bench.now, StoreState::Failing);
    for _ in 0..3 * (N1 + 1) {
        bench.now += T1;
        let sent = bench.ask_quietly(smf(10), request);
        assert!(
            sent.iter().all(|sent| sent.bytes[1] == 1),
            "neither refused nor answered: {sent:?}"
        );
    }
    bench.node.set_store_state(bench.now, StoreState::Working);
    groups.into_iter().for_each(|group| bench.write(group));
    let mut sent = bench.sent();
    sent.retain(|sent| sent.bytes[1] != 1);
    assert_eq!(sent.len(), 1, "one answer: {:?}", types(&sent));
    let again = bench.ask_quietly(smf(10), request);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].bytes, sent[0].bytes, "and the same to a later copy");
    sent[0].bytes.clone()
}

#[test]
fn request_under_way_when_the_store_fails_has_one_answer_however_long_it_takes() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let requests = [
        establish(3, &SessionScript::new(2, 2)),
        move_to(4, up_seid, Teid(90)),
        delete(5, up_seid),
        release(6, ip(10)),
    ];
    for request in requests {
        let answer = ask_while_the_store_fails(&mut bench, &request);
        assert_eq!(cause(&answer), Cause::RequestAccepted);
    }
    let scalars = bench.node.counters().scalars;
    assert_eq!((scalars.refused_store_fails, scalars.establishments_taken_back), (0, 0));
}

/// The sender of an establishment gave up and has no SEID: nobody else could remove the session.
#[test]
fn establishment_whose_sender_gave_up_is_taken_back() {
    let (mut bench, group) = failing(false);
    bench.now = bench.now + T1 + Nanos(1);
    bench.node.set_store_state(bench.now, StoreState::Working);
    bench.write(group);
    assert_eq!(bench.sent(), [], "nobody waits for it");
    bench.publish_all();
    bench.store_all();
    assert_eq!(bench.node.counters().scalars.establishments_taken_back, 1);
    assert_eq!(
        (count_of(&bench, RecordKind::Session), count_of(&bench, RecordKind::Answer)),
        (0, 1)
    );
    let mut later = killed(&bench);
    assert_eq!(later.node.store().len(), 0);
    for bench in [&mut later, &mut bench] {
        // A copy that comes all the same is a new request; so is another one for the same UE.
        let copy = bench.answer(smf(10), &establish(2, &SessionScript::new(1, 1)));
        assert_eq!(cause(&copy), Cause::RequestAccepted);
    }
}

/// A session that the sender can name can be requested again: the deletion is carried out and
/// answered.
#[test]
fn late_deletion_is_carried_out_and_answered() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.handle_datagram(bench.now, smf(10), &delete(3, up_seid));
    bench.publish_all();
    let group = bench.node.poll_records(bench.now).unwrap();
    bench.node.set_store_state(bench.now, StoreState::Failing);
    bench.now += Nanos(10 * T1.0);
    bench.node.set_store_state(bench.now, StoreState::Working);
    bench.write(group);
    assert_eq!(types(&bench.sent()), [MessageType::SESSION_DELETION_RESPONSE]);
    assert_eq!(killed(&bench).node.store().len(), 0);
}

#[test]
fn messages_that_wait_for_the_store_are_bounded() {
    let (mut bench, group) = failing(false);
    bench.node.set_store_state(bench.now, StoreState::Working);
    let most = adit_types::limits::PENDING_MAX;
    let mut at_once = 0;
    for number in 0..u32::try_from(most).unwrap() + 100 {
        at_once += bench.ask_quietly(smf(10), &delete(10 + number, Seid(77))).len();
    }
    assert_eq!(at_once, 101, "refused at once, for lack of resources");
    assert_eq!(bench.node.store_backlog(), (1, most));
    // A stranger's answers are not kept.
    assert_eq!(bench.ask_quietly(smf(12), &delete(9, Seid(77))), []);
    assert_eq!(bench.node.counters().scalars.discarded_store_waits, 1);
    bench.write(group);
    assert_eq!(bench.sent().len(), most);
}

/// A store that takes nothing costs no memory: usage is read when it can be written.
#[test]
fn usage_does_not_pile_up_while_the_store_takes_nothing() {
    let most = adit_types::limits::RECORD_OCTETS_UNDER_WAY_MAX;
    for state in [StoreState::Failing, StoreState::Working] {
        let mut urr = urr(1, adit_pfcp::ie::ReportingTriggers::VOLTH);
        urr.volume_threshold = threshold(1 << 40);
        let heartbeat_interval = Nanos::from_secs(1 << 30);
        let mut bench = begun(NodeConfig { heartbeat_interval, ..kept_config() });
        bench.associate(10);
        let mut scene = Scene::on(bench, |body| crate::usage_scene::with_urrs(body, list([urr])));
        scene.bench.store_all();
        scene.bench.node.set_store_state(scene.bench.now, state);
        let (mut octets, mut last) = (0, GroupNumber(0));
        for _ in 0..60_000 {
            scene.count(0, 10, 0);
            scene.bench.now += USAGE_INTERVAL;
            scene.bench.node.handle_timeout(scene.bench.now);
            while let Some(group) = scene.bench.node.poll_records(scene.bench.now) {
                last = group.number;
                let changes = group.changes.iter();
                octets +=
                    changes.map(|c| c.value.as_ref().map_or(0, Vec::len) + 300).sum::<usize>();
            }
        }
        match state {
            StoreState::Failing => assert_eq!(octets, 0),
            _ => assert!((most..most + 2000).contains(&octets), "{octets} of {most}"),
        }
        let bench = &mut scene.bench;
        bench.node.set_store_state(bench.now, StoreState::Working);
        bench.node.handle_durable(bench.now, last);
        bench.now += USAGE_INTERVAL;
        bench.node.handle_timeout(bench.now);
        bench.store_all();
        let usage = killed_scene(&scene).bench.node.store().kept_usage(Nanos(0), scene.up_seid);
        let now = scene.bench.node.store().kept_usage(Nanos(0), scene.up_seid);
        assert_eq!(usage.unwrap().octets(), now.unwrap().octets(), "the newest is kept");
    }
}

/// The changes of one turn may need several groups: a session's change and its answer are in one,
/// and no message leaves before its own.
#[test]
fn groups_are_bounded_and_have_a_session_and_its_answer_together() {
    let store = StoreConfig { sessions_max: 3000, ..config().store };
    let mut bench = begun(NodeConfig { store, ..kept_config() });
    bench.associate(10);
    let count = 2000;
    for number in 1..=count {
        let request = establish(10 + u32::from(number), &SessionScript::new(number.into(), number));
        bench.node.handle_datagram(bench.now, smf(10), &request);
        bench.publish_all();
    }
    let groups: Vec<_> = std::iter::from_fn(|| bench.node.poll_records(bench.now)).collect();
    assert!(groups.len() > 1, "{} groups", groups.len());
    let mut answered = 0;
    for group in groups {
        let changes = group.changes.iter();
        let octets = changes.map(|c| c.value.as_ref().map_or(0, Vec::len) + 300).sum::<usize>();
        assert!(octets <= adit_types::limits::STORE_GROUP_BYTES_MAX, "{octets} octets");
        let of = |kind| group.changes.iter().filter(|c| c.kind == kind).count();
        assert_eq!(of(RecordKind::Session), of(RecordKind::Answer));
        bench.write(group);
        answered += bench.sent().len();
        assert!(
            answered <= count_of(&bench, RecordKind::Answer),
            "an answer left before its record"
        );
    }
    assert_eq!(answered, usize::from(count));
}
