//! Answers that are kept for the retransmissions of their requests.

use adit_pfcp::Cause;
use adit_pfcp::ie::{self, CpFunctionFeatures, FqCsid, FqCsidNode, RecoveryTimeStamp};
use adit_pfcp::message::{
    AssociationSetupRequest, AssociationUpdateRequest, SessionSetDeletionRequest,
};
use adit_store::{OwnedRecordId, RecordKind};
use adit_types::{Nanos, Teid};

use super::*;

/// Sends a request, ends the process once the answer left, and sends the later one the request
/// again.
fn ask_twice(bench: &mut Bench, request: &[u8]) {
    bench.node.handle_datagram(bench.now, smf(10), request);
    let mut sent = Vec::new();
    for _ in 0..100 {
        // One change at a time, and its effects.
        if let Some((id, _)) = bench.node.poll_delta() {
            bench.node.handle_published(bench.now, id);
        }
        bench.store_all();
        bench.node.handle_timeout(bench.now);
        bench.store_all();
        sent.extend(bench.sent().into_iter().filter(|sent| sent.bytes[1] != 1));
    }
    let [answer] = &sent[..] else { panic!("{:?}", types(&sent)) };
    assert_eq!(cause(&answer.bytes), Cause::RequestAccepted);
    *bench = killed(bench);
    assert_eq!(bench.answer(smf(10), request), answer.bytes, "the same octets");
    assert_eq!(bench.node.counters().scalars.retransmissions_replayed, 1);
}

#[test]
fn retransmission_after_a_restart_gets_the_same_octets_whatever_was_asked() {
    let csid = FqCsid::new(FqCsidNode::Ipv4(ip(10)), &[0, 5], None).unwrap();
    let mut bench = begun(kept_config());
    let node_id = ie::NodeId::Ipv4(ip(10));
    let mut body = AssociationSetupRequest::new(node_id, RecoveryTimeStamp(SMF_STARTED));
    body.cp_function_features = Some(CpFunctionFeatures::EPFAR);
    ask_twice(&mut bench, &encode(None, 1, &body));
    ask_twice(&mut bench, &pfds_of_web(2));
    let csids = list([csid]);
    for number in 1..=4 {
        let script = SessionScript::new(number.into(), number);
        let request = establish_with(10 + u32::from(number), &script, |body| {
            body.fq_csids = csids.into();
        });
        ask_twice(&mut bench, &request);
    }
    let sessions: Vec<Seid> = bench.node.store().sessions().map(|s| s.up_seid()).collect();
    ask_twice(&mut bench, &move_to(20, sessions[0], Teid(7)));
    let flags = ie::PfcpSmReqFlags::QAURR;
    let nothing = modify_with(21, sessions[0], |body| body.pfcp_sm_req_flags = Some(flags));
    ask_twice(&mut bench, &nothing);
    ask_twice(&mut bench, &delete(22, sessions[0]));
    let mut update = AssociationUpdateRequest::new(ie::NodeId::Ipv4(ip(10)));
    update.cp_function_features = Some(CpFunctionFeatures::empty());
    ask_twice(&mut bench, &encode(None, 23, &update));
    let mut body = SessionSetDeletionRequest::new(ie::NodeId::Ipv4(ip(10)));
    body.fq_csids = csids.into();
    ask_twice(&mut bench, &encode(None, 24, &body));
    assert!(bench.node.store().is_empty());
    ask_twice(&mut bench, &release(25, ip(10)));
    assert_eq!(bench.node.associations().count(), 0);
    assert_eq!(count_of(&bench, RecordKind::Session), 0);
    assert_eq!(count_of(&bench, RecordKind::Association), 0);
    assert_eq!(count_of(&bench, RecordKind::Pfds), 0);
}

#[test]
fn request_that_was_not_durable_left_nothing_and_runs_when_it_is_sent_again() {
    let mut bench = associated();
    let request = establish(2, &SessionScript::new(1, 1));
    bench.node.handle_datagram(bench.now, smf(10), &request);
    bench.publish_all();
    assert!(bench.node.poll_records(bench.now).is_some(), "it never reaches the store");
    let mut later = killed(&bench);
    assert!(later.node.store().is_empty());
    assert_eq!(cause(&later.answer(smf(10), &request)), Cause::RequestAccepted);
}

#[test]
fn answers_after_a_restart_take_the_place_of_none_that_was_restored() {
    let mut bench = associated();
    for number in 1..=3 {
        bench.session(smf(10), 10 + u32::from(number), &SessionScript::new(1, number));
    }
    let mut later = killed(&bench);
    later.session(smf(10), 20, &SessionScript::new(1, 20));
    let name = |number| (RecordKind::Answer, OwnedRecordId::Number(number));
    let places: Vec<_> =
        later.records.keys().filter(|(kind, _)| *kind == RecordKind::Answer).collect();
    assert_eq!(places, [&name(1), &name(2), &name(3), &name(4), &name(5)]);
}

#[test]
fn refusal_and_heartbeat_that_change_nothing_are_not_kept() {
    let mut bench = associated();
    let before = bench.records.clone();
    bench.answer(smf(10), &delete(20, Seid(77)));
    bench.answer(smf(10), &heartbeat(21, SMF_STARTED));
    assert_eq!(bench.records, before);
}

/// A peer that restarted counts its sequence numbers anew, and may send the same request as before.
#[test]
fn answer_of_an_association_that_ended_is_not_given_in_the_next_one() {
    let mut bench = associated();
    let request = establish(2, &SessionScript::new(1, 1));
    bench.answer(smf(10), &request);
    bench.answer(smf(10), &setup(1, ip(10), SMF_STARTED + 1));
    assert!(bench.node.store().is_empty());
    let mut later = killed(&bench);
    let answer = later.answer(smf(10), &request);
    assert_eq!(cause(&answer), Cause::RequestAccepted);
    assert_eq!(later.node.counters().scalars.retransmissions_replayed, 0);
    assert_eq!(later.node.store().len(), 1);
}

#[test]
fn answer_is_forgotten_when_no_retransmission_can_come_any_more() {
    for is_late in [false, true] {
        let mut bench = associated();
        let request = establish(2, &SessionScript::new(1, 1));
        bench.answer(smf(10), &request);
        bench.now = Nanos(T1.0 * u64::from(N1 + 1) - u64::from(!is_late));
        bench.answer(smf(10), &establish(3, &SessionScript::new(2, 2)));
        let mut later = killed(&bench);
        later.answer(smf(10), &request);
        let replayed = later.node.counters().scalars.retransmissions_replayed;
        assert_eq!(replayed, u64::from(!is_late));
    }
}

/// Peers wait, whatever the next process needs for its start.
#[test]
fn answer_before_a_long_restart_is_given_again() {
    let mut bench = associated();
    let request = establish(2, &SessionScript::new(1, 1));
    bench.answer(smf(10), &request);
    let span = Nanos(T1.0 * u64::from(N1 + 1));
    bench.now += span + span;
    let mut later = killed(&bench);
    later.answer(smf(10), &request);
    assert_eq!(later.node.counters().scalars.retransmissions_replayed, 1);
    later.now += span;
    later.answer(smf(10), &request);
    assert_eq!(later.node.counters().scalars.retransmissions_replayed, 1, "not for ever");
}
