//! Changes of one session of which workers do not run all yet: its record has the acknowledged
//! state.

use adit_pfcp::Cause;
use adit_pfcp::grouped::{ApplicationIdsPfds, CreateUrr, PfdContext, RemoveUrr};
use adit_pfcp::ie::{ApplicationId, MeasurementMethod, PfdContents, RatType, ReportingTriggers};
use adit_pfcp::message::PfdManagementRequest;
use adit_rules::{DeltaId, WorkerEvent};
use adit_types::{Teid, UrrId};

use super::*;
use crate::usage_scene::{threshold, urr, with_urrs};

/// A node with a session, which an application describes.
fn with_session() -> (Bench, Seid) {
    let mut bench = associated();
    bench.answer(smf(10), &pfds(2, "permit out 17 from any 53 to assigned"));
    let request = establish_with(3, &SessionScript::new(1, 1), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].pdi.application_id = Some(ApplicationId(b"web"));
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    let bytes = bench.answer(smf(10), &request);
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    (bench, body.up_f_seid.unwrap().seid)
}

fn pfds(sequence: u32, text: &'static str) -> Vec<u8> {
    let contents =
        PfdContents { flow_description: Some(text.as_bytes()), ..PfdContents::default() };
    let mut application = ApplicationIdsPfds::new(ApplicationId(b"web"));
    application.pfd_contexts = list([PfdContext::new(list([contents]).into())]).into();
    let mut body = PfdManagementRequest::new();
    body.application_ids_pfds = list([application]).into();
    encode(None, sequence, &body)
}

impl Bench {
    fn hand_over(&mut self, request: &[u8]) {
        self.node.handle_datagram(self.now, smf(10), request);
    }

    /// Workers run the next change.
    fn publish_one(&mut self) {
        let (id, _) = self.node.poll_delta().unwrap();
        self.node.handle_published(self.now, id);
    }

    fn answered(&mut self) -> Vec<u32> {
        let sequence = |sent: Transmit| {
            assert_eq!(cause(&sent.bytes), Cause::RequestAccepted);
            raw(&sent.bytes).header.sequence
        };
        self.sent().into_iter().map(sequence).collect()
    }
}

fn rat_type(sequence: u32, up_seid: Seid) -> Vec<u8> {
    modify_with(sequence, up_seid, |body| body.rat_type = Some(RatType::Nr))
}

/// The state of a session after the first modification, and no other.
fn reference() -> Option<KeptSession> {
    let (mut bench, up_seid) = with_session();
    bench.answer(smf(10), &move_to(4, up_seid, Teid(4)));
    let later = killed(&bench);
    kept(&later, up_seid)
}

#[test]
fn record_says_nothing_of_a_second_modification_that_is_under_way() {
    for is_recorded_between in [true, false] {
        let (mut bench, up_seid) = with_session();
        bench.hand_over(&move_to(4, up_seid, Teid(4)));
        bench.hand_over(&move_to(5, up_seid, Teid(5)));
        bench.publish_one();
        if is_recorded_between {
            bench.store_all();
            assert_eq!(bench.answered(), [4]);
        }
        bench.hand_over(&move_to(6, up_seid, Teid(6)));
        bench.store_all();
        let later = killed(&bench);
        assert_eq!(kept(&later, up_seid), reference());
        bench.publish_all();
        bench.store_all();
        assert_eq!(kept(&killed(&bench), up_seid), kept(&bench, up_seid));
    }
}

/// The control thread handles a publication and a request before it hands out records.
#[test]
fn modification_that_comes_before_the_record_of_the_former_is_handed_out_is_not_in_it() {
    let (mut bench, up_seid) = with_session();
    bench.hand_over(&move_to(4, up_seid, Teid(4)));
    bench.publish_one();
    bench.hand_over(&move_to(5, up_seid, Teid(5)));
    bench.store_all();
    assert_eq!(bench.answered(), [4]);
    let mut later = killed(&bench);
    assert_eq!(kept(&later, up_seid), reference());
    let again = later.answer(smf(10), &move_to(5, up_seid, Teid(5)));
    assert_eq!(cause(&again), Cause::RequestAccepted);
    bench.publish_all();
    bench.store_all();
    assert_eq!(kept(&bench, up_seid), kept(&later, up_seid));
    assert_eq!(kept(&killed(&bench), up_seid), kept(&later, up_seid));
}

/// PFDs change the rules of the session between two modifications.
#[test]
fn rules_that_change_with_an_application_keep_the_two_apart() {
    let (mut bench, up_seid) = with_session();
    bench.hand_over(&move_to(4, up_seid, Teid(4)));
    bench.hand_over(&pfds(8, "permit out 17 from any 54 to assigned"));
    bench.hand_over(&move_to(5, up_seid, Teid(5)));
    bench.publish_one();
    bench.store_all();
    assert_eq!(bench.answered(), [4]);
    assert_eq!(kept(&killed(&bench), up_seid), reference());
    bench.publish_all();
    bench.store_all();
    assert_eq!(bench.answered(), [8, 5]);
    assert_eq!(kept(&killed(&bench), up_seid), kept(&bench, up_seid));
}

#[test]
fn modification_that_publishes_nothing_is_answered_with_the_one_before_it_and_durable_with_it() {
    let (mut bench, up_seid) = with_session();
    bench.hand_over(&move_to(4, up_seid, Teid(4)));
    bench.hand_over(&rat_type(5, up_seid));
    bench.store_all();
    assert_eq!(bench.sent(), [], "its record would say what is under way");
    let later = killed(&bench);
    assert_eq!(later.node.session_information(up_seid).and_then(|known| known.rat_type), None);
    bench.publish_one();
    assert_eq!(bench.sent(), []);
    bench.store_all();
    assert_eq!(bench.answered(), [4, 5]);
    let later = killed(&bench);
    assert_eq!(kept(&later, up_seid), reference());
    let known = later.node.session_information(up_seid).unwrap();
    assert_eq!(known.rat_type, Some(RatType::Nr));
    // Alone it waits for the store only.
    bench.hand_over(&rat_type(6, up_seid));
    assert!(bench.node.poll_delta().is_none());
    assert_eq!(bench.sent(), []);
    bench.store_all();
    assert_eq!(bench.answered(), [6]);
}

#[test]
fn refused_modification_leaves_the_record_of_the_one_under_way() {
    let (mut bench, up_seid) = with_session();
    bench.hand_over(&move_to(4, up_seid, Teid(4)));
    let unknown = list([RemoveUrr::new(UrrId(9))]);
    let refused = modify_with(5, up_seid, |body| body.remove_urrs = unknown.into());
    bench.hand_over(&refused);
    assert_ne!(cause(&bench.sent()[0].bytes), Cause::RequestAccepted);
    bench.publish_one();
    bench.store_all();
    assert_eq!(kept(&killed(&bench), up_seid), reference());
}

#[test]
fn deletion_behind_a_modification_that_is_under_way_is_durable_after_it() {
    let (mut bench, up_seid) = with_session();
    bench.hand_over(&move_to(4, up_seid, Teid(4)));
    bench.hand_over(&delete(5, up_seid));
    bench.publish_one();
    bench.store_all();
    assert_eq!(bench.answered(), [4]);
    let mut later = killed(&bench);
    assert_eq!(kept(&later, up_seid), reference());
    assert_eq!(cause(&later.answer(smf(10), &delete(5, up_seid))), Cause::RequestAccepted);
    bench.publish_one();
    bench.store_all();
    assert_eq!(bench.answered(), [5]);
    assert!(killed(&bench).node.store().is_empty());
}

/// The control thread handles a publication and a deletion before it hands out records.
#[test]
fn modification_is_durable_before_the_deletion_that_follows_in_the_same_turn() {
    let (mut bench, up_seid) = with_session();
    bench.hand_over(&move_to(4, up_seid, Teid(4)));
    bench.publish_one();
    bench.hand_over(&delete(5, up_seid));
    bench.store_all();
    assert_eq!(bench.answered(), [4]);
    assert_eq!(kept(&killed(&bench), up_seid), reference());
}

#[test]
fn deletion_in_one_turn_with_the_modification_before_it_leaves_no_record() {
    let (mut bench, up_seid) = with_session();
    bench.hand_over(&move_to(4, up_seid, Teid(4)));
    bench.hand_over(&delete(5, up_seid));
    bench.publish_all();
    bench.store_all();
    assert_eq!(bench.answered(), [4, 5]);
    assert!(killed(&bench).node.store().is_empty());
    assert_eq!(count_of(&bench, RecordKind::Session), 0);
}

#[test]
fn session_established_and_deleted_before_workers_ran_it_leaves_no_record() {
    let mut bench = associated();
    bench.hand_over(&establish(2, &SessionScript::new(1, 1)));
    let up_seid = bench.node.store().sessions().next().unwrap().up_seid();
    bench.hand_over(&delete(3, up_seid));
    bench.publish_one();
    bench.store_all();
    assert_eq!(bench.answered(), [2]);
    assert_eq!(killed(&bench).node.store().len(), 1, "the deletion is not answered");
    bench.publish_all();
    bench.store_all();
    assert_eq!(bench.answered(), [3]);
    assert_eq!(count_of(&bench, RecordKind::Session), 0);
}

/// A report of usage is about a measurement that ended, while a modification is under way.
#[test]
fn usage_reported_while_a_modification_is_under_way_is_recorded_before_the_report() {
    let mut urr = urr(1, ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(1000);
    let mut scene = Scene::on(associated(), |body| with_urrs(body, list([urr])));
    let up_seid = scene.up_seid;
    let mut further = CreateUrr::new(UrrId(2), MeasurementMethod::VOLUM, ReportingTriggers::VOLTH);
    further.volume_threshold = threshold(5000);
    let creates = list([further]);
    let create = modify_with(4, up_seid, |body| body.create_urrs = creates.into());
    scene.bench.hand_over(&create);
    scene.count(0, 1000, 0);
    let rule = &scene.rules.as_ref().unwrap().urrs[0];
    let (session, slot, generation) = (up_seid, rule.slot, rule.generation);
    let event = WorkerEvent::UsageLimit { session, slot, generation };
    scene.bench.node.handle_event(scene.bench.now, event);
    assert_eq!(scene.bench.sent(), []);
    scene.bench.store_all();
    let sent = scene.bench.sent();
    let [report] = &sent[..] else { panic!("{:?}", types(&sent)) };
    assert_eq!(crate::usage_scene::report_request(report).1[0].ur_seqn.0, 0);
    let mut later = killed_scene(&scene);
    let usage = later.bench.sent();
    let told = crate::usage_scene::report_request(&usage[0]).1[0];
    assert_eq!((told.ur_seqn.0, crate::usage_scene::volume(&told).0), (0, 1000), "the same again");
    scene.publish();
    assert_eq!(scene.bench.answered(), [4]);
    later.count(0, 1000, 0);
    later.acknowledge(&usage[0]);
    let next = later.limit(0);
    let next = crate::usage_scene::report_request(&next[0]).1[0];
    assert_eq!((next.ur_seqn.0, crate::usage_scene::volume(&next).0), (1, 1000));
}

#[test]
fn changes_of_other_sessions_and_their_numbers_do_not_mix() {
    let mut bench = associated();
    let seids: Vec<Seid> = (1..=3)
        .map(|number| {
            bench.session(smf(10), 10 + u32::from(number), &SessionScript::new(1, number))
        })
        .collect();
    for (sequence, seid) in (20..).zip(&seids) {
        bench.hand_over(&move_to(sequence, *seid, Teid(sequence)));
    }
    let ids: Vec<DeltaId> =
        core::iter::from_fn(|| bench.node.poll_delta()).map(|(id, _)| id).collect();
    bench.node.handle_published(bench.now, ids[0]);
    bench.store_all();
    assert_eq!(bench.answered(), [20]);
    let later = killed(&bench);
    assert_eq!(kept(&later, seids[0]), kept(&bench, seids[0]));
    assert_ne!(kept(&later, seids[1]), kept(&bench, seids[1]));
}
