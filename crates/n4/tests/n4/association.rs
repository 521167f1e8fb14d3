//! Associations, heartbeats and the datagrams that are no requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use adit_n4::{DownReason, NodeConfig, NodeEvent, NodeIdentity, SetupFailure};
use adit_pfcp::ie::{self, RecoveryTimeStamp};
use adit_pfcp::message::{
    AssociationSetupRequest, AssociationSetupResponse, AssociationUpdateRequest, HeartbeatResponse,
};
use adit_pfcp::{Cause, Message, MessageType};
use adit_types::limits::{ASSOCIATIONS_MAX, CONTESTED_SETUPS_MAX};
use adit_types::{Nanos, Seid, Teid};

use crate::smf::*;

const TEN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

fn cause(bytes: &[u8]) -> Cause {
    match decode(bytes) {
        Message::AssociationSetupResponse(body) => body.cause,
        Message::AssociationUpdateResponse(body) => body.cause,
        Message::AssociationReleaseResponse(body) => body.cause,
        Message::SessionEstablishmentResponse(body) => body.cause,
        Message::SessionModificationResponse(body) => body.cause,
        Message::SessionDeletionResponse(body) => body.cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn setup_is_accepted_with_node_id_time_stamp_and_true_features() {
    let mut bench = Bench::new();
    let bytes = bench.answer(smf(10), &setup(0x0012_3456, TEN, SMF_STARTED));
    assert_eq!(raw(&bytes).header.sequence, 0x0012_3456);
    let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    assert_eq!(body.node_id.to_string(), "upf.example");
    assert_eq!(body.recovery_time_stamp, RecoveryTimeStamp(UPF_STARTED));
    // Octets of the IE, so that this list is the standard's and not the code's (§8.2.25). DDND,
    // DLBD, FTUP, PFDM, TREU; EMPU, PDIU, UDBC, QUOAC, FRRT, PFDE, EPFAR; DPDRA, SSET, MNOP, MTE,
    // BUNDL; MPAS, VTIME, NORP; GPQM, CIOT, DDDS; QUASF.
    let features = [0, 43, 0, 6, 0xb6, 0xef, 0x79, 0x0d, 0x54, 0x02];
    assert!(bytes.windows(features.len()).any(|window| window == features), "{bytes:02x?}");
    let association = bench.node.association(IpAddr::V4(TEN)).unwrap();
    assert_eq!(association.node_id, NodeIdentity::Ipv4(TEN));
    assert_eq!((association.port, association.recovery_time_stamp), (8805, SMF_STARTED));
    assert!(matches!(
        bench.events()[..],
        [NodeEvent::AssociationUp { requested_by_us: false, .. }]
    ));
}

#[test]
fn setup_again_by_a_restarted_peer_removes_the_sessions_before_it_is_answered() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.session(smf(10), 3, &SessionScript::new(2, 2));
    bench.events();
    bench.node.handle_datagram(bench.now, smf(10), &setup(4, TEN, SMF_STARTED + 1));
    assert_eq!(bench.node.store().len(), 0);
    let (first, delta) = bench.node.poll_delta().unwrap();
    assert!(delta.rules.is_none());
    let (second, _) = bench.node.poll_delta().unwrap();
    bench.node.handle_published(bench.now, first);
    assert!(bench.sent().is_empty());
    bench.node.handle_published(bench.now, second);
    let answer = &bench.sent()[0].bytes;
    assert_eq!(cause(answer), Cause::RequestAccepted);
    assert_eq!(own_time_stamp(answer), UPF_STARTED, "the peer knows that they are gone");
    let down = DownReason::PeerRestarted;
    assert!(bench.events().iter().any(|event| matches!(
        event,
        NodeEvent::AssociationDown { sessions: 2, reason, .. } if *reason == down
    )));
    assert_eq!(bench.node.store().reserved(), Default::default());
    assert_eq!(bench.node.associations().count(), 1);
}

/// Our Recovery Time Stamp in an answer.
fn own_time_stamp(bytes: &[u8]) -> u32 {
    match decode(bytes) {
        Message::AssociationSetupResponse(body) => body.recovery_time_stamp.0,
        Message::HeartbeatResponse(body) => body.recovery_time_stamp.0,
        Message::HeartbeatRequest(body) => body.recovery_time_stamp.0,
        other => panic!("{other:?}"),
    }
}

/// The SMF sets up again after it lost N4, with or without having noticed that before.
#[test]
fn setup_again_by_a_peer_that_has_not_restarted_keeps_its_sessions() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.session(smf(10), 3, &SessionScript::new(2, 2));
    bench.events();
    let answer = bench.answer(smf(10), &setup(9, TEN, SMF_STARTED));
    assert_eq!((cause(&answer), own_time_stamp(&answer)), (Cause::RequestAccepted, UPF_STARTED));
    assert_eq!((bench.node.store().len(), bench.node.associations().count()), (2, 1));
    assert!(matches!(
        bench.events()[..],
        [NodeEvent::SessionsRetained { sessions: 2, .. }, NodeEvent::AssociationUp { .. }]
    ));
    // The SMF changes and deletes its sessions one by one.
    let moved = bench.answer(smf(10), &move_to(4, up_seid, Teid(9)));
    assert_eq!(cause(&moved), Cause::RequestAccepted);
    assert_eq!(cause(&bench.answer(smf(10), &delete(5, up_seid))), Cause::RequestAccepted);
    assert_eq!(bench.node.store().len(), 1);
}

/// How long a peer with sessions is silent, until its heartbeats have failed.
const LOST_AFTER: Nanos = Nanos(HEARTBEAT_INTERVAL.0 + T1.0 * (N1 as u64 + 1));

/// A node whose sessions outlive their peer by 100 s, and a session of `smf(10)`, which is silent.
fn with_silent_peer(edit: impl FnOnce(&mut NodeConfig)) -> (Bench, Seid) {
    let mut config = NodeConfig { sessions_outlive_peer: Nanos::from_secs(100), ..config() };
    edit(&mut config);
    let mut bench = Bench::with(config);
    bench.associate(10);
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.events();
    bench.run_until(LOST_AFTER);
    let events = bench.events();
    assert!(matches!(events[..], [NodeEvent::PeerSilent { sessions: 1, .. }, ..]), "{events:?}");
    assert_eq!(bench.node.store().len(), 1);
    let association = bench.node.associations().next().unwrap();
    assert!(association.is_silent());
    assert_eq!(bench.node.counters().scalars.peers_silent, 1);
    (bench, up_seid)
}

#[test]
fn sessions_outlive_a_silent_peer_and_are_its_again_when_it_answers() {
    let (mut bench, up_seid) = with_silent_peer(|_| {});
    let sent = bench.run_until(LOST_AFTER + HEARTBEAT_INTERVAL);
    respond_to_heartbeat(&mut bench, &sent, SMF_STARTED);
    assert!(matches!(bench.events()[..], [NodeEvent::PeerAnswers { sessions: 1, .. }]));
    assert!(!bench.node.association(IpAddr::V4(TEN)).unwrap().is_silent());
    let moved = bench.answer(smf(10), &move_to(4, up_seid, Teid(9)));
    assert_eq!(cause(&moved), Cause::RequestAccepted);
    assert_eq!(own_time_stamp(&bench.answer(smf(10), &heartbeat(5, SMF_STARTED))), UPF_STARTED);
}

#[test]
fn silent_peer_that_restarted_loses_its_sessions() {
    let (mut bench, _) = with_silent_peer(|_| {});
    let sent = bench.run_until(LOST_AFTER + HEARTBEAT_INTERVAL);
    respond_to_heartbeat(&mut bench, &sent, SMF_STARTED + 7);
    assert!(bench.node.store().is_empty() && bench.node.associations().count() == 0);
}

#[test]
fn setup_by_a_silent_peer_keeps_its_sessions_and_one_by_a_restarted_one_does_not() {
    for (started, kept) in [(SMF_STARTED, 1), (SMF_STARTED + 1, 0)] {
        let (mut bench, _) = with_silent_peer(|_| {});
        let answer = bench.answer(smf(10), &setup(9, TEN, started));
        assert_eq!(
            (cause(&answer), own_time_stamp(&answer)),
            (Cause::RequestAccepted, UPF_STARTED)
        );
        assert_eq!(bench.node.store().len(), kept);
        assert!(!bench.node.association(IpAddr::V4(TEN)).unwrap().is_silent());
        // The time of its silence is over.
        let sent = bench.run_until(bench.now + HEARTBEAT_INTERVAL);
        respond_to_heartbeat(&mut bench, &sent, started);
        assert_eq!(bench.node.store().len(), kept);
    }
}

/// The control plane learns that its sessions are gone, and no other one does.
#[test]
fn sessions_of_a_peer_that_stays_silent_go_and_its_next_setup_shows_it_by_a_newer_time_stamp() {
    let (mut bench, _) = with_silent_peer(|_| {});
    bench.associate(11);
    let mut others = Vec::new();
    while bench.node.store().len() == 1 {
        let at = bench.node.poll_timeout().unwrap();
        for sent in bench.run_until(at).iter().filter(|sent| sent.to == smf(11)) {
            others.push(own_time_stamp(&sent.bytes));
            respond_to_heartbeat(&mut bench, std::slice::from_ref(sent), SMF_STARTED);
        }
    }
    assert_eq!(bench.now, LOST_AFTER + Nanos::from_secs(100));
    assert!(matches!(
        bench.events()[..],
        [.., NodeEvent::AssociationDown { sessions: 1, reason: DownReason::SilentTooLong, .. }]
    ));
    assert_eq!(bench.node.store().reserved(), Default::default());
    let seen = own_time_stamp(&bench.answer(smf(10), &heartbeat(20, SMF_STARTED)));
    let answer = bench.answer(smf(10), &setup(21, TEN, SMF_STARTED));
    let moved = own_time_stamp(&answer);
    assert_eq!((cause(&answer), moved), (Cause::RequestAccepted, seen));
    let seconds = u32::try_from(bench.now.to_duration().as_secs()).unwrap();
    assert_eq!(moved, UPF_STARTED + seconds, "the time of their end");
    assert!(!others.is_empty() && others.iter().all(|seen| *seen == UPF_STARTED));
    assert_eq!(own_time_stamp(&bench.answer(smf(11), &heartbeat(2, SMF_STARTED))), UPF_STARTED);
}

#[test]
fn time_stamp_moves_with_each_end_that_the_peer_was_not_notified_of() {
    let mut bench = Bench::associated();
    let mut seen = vec![UPF_STARTED];
    for sequence in [2, 12] {
        bench.session(smf(10), sequence, &SessionScript::new(1, 1));
        assert_eq!(bench.node.end_association_by_operator(bench.now, TEN.into()), Some(1));
        bench.settle();
        let answer = bench.answer(smf(10), &setup(sequence + 1, TEN, SMF_STARTED));
        seen.push(own_time_stamp(&answer));
    }
    assert_eq!(seen, [0, 1, 2].map(|moves| UPF_STARTED + moves), "all within a second");
    let up_seid = bench.session(smf(10), 22, &SessionScript::new(1, 1));
    assert_eq!(cause(&bench.answer(smf(10), &delete(23, up_seid))), Cause::RequestAccepted);
    assert_eq!(cause(&bench.answer(smf(10), &release(24, TEN))), Cause::RequestAccepted);
    let answer = bench.answer(smf(10), &setup(25, TEN, SMF_STARTED));
    assert_eq!(own_time_stamp(&answer), UPF_STARTED + 2, "nothing ended without its knowledge");
}

/// The Node ID moves with the peer: to another pod, say.
#[test]
fn silent_peer_that_sets_up_from_another_address_gets_its_sessions_there() {
    let twenty = Ipv4Addr::new(192, 0, 2, 20);
    for (started, kept) in [(SMF_STARTED, 1), (SMF_STARTED + 1, 0)] {
        let (mut bench, up_seid) = with_silent_peer(|_| {});
        bench.node.handle_datagram(bench.now, smf(20), &setup(1, TEN, started));
        let sent = bench.run_until(bench.now + T1);
        let answer = sent.iter().find(|sent| sent.to == smf(20)).unwrap();
        assert_eq!(cause(&answer.bytes), Cause::RequestAccepted);
        assert_eq!((bench.node.store().len(), bench.node.associations().count()), (kept, 1));
        assert!(!bench.node.association(IpAddr::V4(twenty)).unwrap().is_silent());
        if kept > 0 {
            let moved = bench.answer(smf(20), &move_to(4, up_seid, Teid(9)));
            assert_eq!(cause(&moved), Cause::RequestAccepted);
        }
    }
}

/// A heartbeat does not show whether a peer that Adit associates with still has the association.
#[test]
fn silent_configured_peer_is_set_up_again_and_keeps_its_sessions() {
    let (mut bench, _) = with_silent_peer(|config| config.connect = vec![smf(10)]);
    let sent = bench.run_until(bench.now + HEARTBEAT_INTERVAL);
    let of_type = |of: MessageType| {
        sent.iter().rfind(|sent| raw(&sent.bytes).header.message_type == of).unwrap()
    };
    let request = of_type(MessageType::ASSOCIATION_SETUP_REQUEST);
    let beat = of_type(MessageType::HEARTBEAT_REQUEST);
    respond_to_heartbeat(&mut bench, std::slice::from_ref(beat), SMF_STARTED);
    assert!(bench.node.association(IpAddr::V4(TEN)).unwrap().is_silent());
    let body = AssociationSetupResponse::new(
        ie::NodeId::Ipv4(TEN),
        Cause::RequestAccepted,
        RecoveryTimeStamp(SMF_STARTED),
    );
    bench.ask(smf(10), &encode(None, raw(&request.bytes).header.sequence, &body));
    assert!(!bench.node.association(IpAddr::V4(TEN)).unwrap().is_silent());
    assert_eq!(bench.node.store().len(), 1);
}

fn named(sequence: u32, name: &'static str) -> Vec<u8> {
    let node_id = NodeIdentity::Fqdn(name.to_owned());
    let NodeIdentity::Fqdn(name) = &node_id else { panic!() };
    let node_id = ie::NodeId::Fqdn(ie::Fqdn::from_text(name).unwrap());
    let time_stamp = RecoveryTimeStamp(SMF_STARTED);
    encode(None, sequence, &AssociationSetupRequest::new(node_id, time_stamp))
}

#[test]
fn setup_with_the_node_id_of_a_living_peer_is_refused_as_soon_as_that_answers() {
    let mut bench = Bench::new();
    assert_eq!(cause(&bench.answer(smf(10), &named(1, "smf.example"))), Cause::RequestAccepted);
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.events();
    let probe = bench.ask(smf(66), &named(7, "smf.example"));
    assert_eq!(probe.len(), 1, "no answer yet");
    assert_eq!(probe[0].to, smf(10));
    assert_eq!(raw(&probe[0].bytes).header.message_type, MessageType::HEARTBEAT_REQUEST);
    assert!(bench.ask(smf(66), &named(7, "smf.example")).is_empty(), "a retransmission waits too");
    let sequence = raw(&probe[0].bytes).header.sequence;
    let alive = encode(None, sequence, &HeartbeatResponse::new(RecoveryTimeStamp(SMF_STARTED)));
    assert!(bench.ask(smf(66), &alive).is_empty(), "it does not answer for another");
    let sent = bench.ask(smf(10), &alive);
    assert_eq!((sent.len(), sent[0].to), (1, smf(66)));
    assert_eq!(raw(&sent[0].bytes).header.sequence, 7);
    assert_eq!(cause(&sent[0].bytes), Cause::RequestRejected);
    assert_eq!((bench.node.store().len(), bench.node.associations().count()), (1, 1));
    assert_eq!(bench.node.counters().scalars.refused_node_id_of_other_address, 1);
    assert!(matches!(bench.events()[..], [NodeEvent::NodeIdConflict { .. }]));
    let sent = bench.run_until(HEARTBEAT_INTERVAL);
    assert_eq!(sent.len(), 1, "heartbeats go on as usual: {sent:?}");
}

#[test]
fn setup_with_the_node_id_of_a_dead_peer_is_accepted_within_t1() {
    let mut bench = Bench::new();
    bench.answer(smf(10), &named(1, "smf.example"));
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let mut sent = bench.ask(smf(11), &named(7, "smf.example"));
    sent.extend(bench.run_until(T1));
    let (probes, answers): (Vec<_>, Vec<_>) = sent.iter().partition(|sent| sent.to == smf(10));
    assert_eq!(probes.len(), 4, "the probe is repeated N1 times");
    assert_eq!((answers.len(), answers[0].to), (1, smf(11)));
    assert_eq!(raw(&answers[0].bytes).header.sequence, 7);
    assert_eq!(cause(&answers[0].bytes), Cause::RequestAccepted);
    assert!(bench.node.store().is_empty());
    assert_eq!(bench.node.associations().map(|a| a.address).collect::<Vec<_>>(), [smf(11).ip()]);
    let again = bench.ask(smf(11), &establish(8, &SessionScript::new(1, 1)));
    assert_eq!(cause(&again[0].bytes), Cause::RequestAccepted);
}

#[test]
fn setups_that_wait_for_a_holder_are_bounded_and_end_with_it() {
    let mut bench = Bench::associated();
    let claim = |host: u8| setup(1, TEN, SMF_STARTED + u32::from(host));
    for host in 20..20 + u8::try_from(CONTESTED_SETUPS_MAX).unwrap() {
        let sent = bench.ask(smf(host), &claim(host));
        assert_eq!(sent.len(), usize::from(host == 20), "one probe for all");
    }
    assert_eq!(cause(&bench.answer(smf(99), &claim(99))), Cause::RequestRejected);
    assert_eq!(cause(&bench.answer(smf(10), &release(3, TEN))), Cause::RequestAccepted);
    bench.node.handle_timeout(bench.now);
    bench.publish_all();
    let sent = bench.sent();
    assert_eq!((sent.len(), sent[0].to), (CONTESTED_SETUPS_MAX, smf(20)));
    assert_eq!(cause(&sent[0].bytes), Cause::RequestAccepted, "the first one has it now");
    assert!(sent[1..].iter().all(|sent| cause(&sent.bytes) == Cause::RequestRejected));
}

#[test]
fn release_removes_sessions_answers_afterwards_and_again_when_repeated() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.handle_datagram(bench.now, smf(10), &release(3, TEN));
    assert!(bench.sent().is_empty());
    bench.publish_all();
    let first = bench.sent().remove(0).bytes;
    assert_eq!(cause(&first), Cause::RequestAccepted);
    assert_eq!(bench.node.associations().count(), 0);
    assert_eq!(bench.answer(smf(10), &release(3, TEN)), first);
    let late = bench.answer(smf(10), &establish(4, &SessionScript::new(1, 1)));
    assert_eq!(cause(&late), Cause::NoEstablishedAssociation);
    bench.run_until(Nanos::from_secs(60));
    assert_eq!(bench.node.response_cache_len(), 0);
    assert_eq!(cause(&bench.answer(smf(10), &release(5, TEN))), Cause::NoEstablishedAssociation);
    assert_eq!(bench.node.poll_timeout(), None, "no state is left");
}

#[test]
fn release_ends_the_requests_to_its_peer_and_no_others() {
    let mut bench = Bench::associated();
    bench.associate(11);
    let sent = bench.run_until(HEARTBEAT_INTERVAL);
    assert_eq!(sent.len(), 2, "heartbeats");
    let to_other = sent.into_iter().find(|heartbeat| heartbeat.to.ip() == smf(11).ip()).unwrap();
    assert_eq!(cause(&bench.answer(smf(10), &release(3, TEN))), Cause::RequestAccepted);
    assert_eq!(bench.run_until(bench.now + T1), [to_other], "retransmitted");
}

#[test]
fn update_takes_cp_features_and_needs_an_association() {
    let mut bench = Bench::associated();
    let mut body = AssociationUpdateRequest::new(ie::NodeId::Ipv4(TEN));
    body.cp_function_features = Some(ie::CpFunctionFeatures::LOAD);
    let bytes = bench.answer(smf(10), &encode(None, 2, &body));
    assert_eq!(cause(&bytes), Cause::RequestAccepted);
    assert_eq!(bench.node.association(IpAddr::V4(TEN)).unwrap().cp_function_features, 1);
    let bytes = bench.answer(smf(11), &encode(None, 2, &body));
    assert_eq!(cause(&bytes), Cause::NoEstablishedAssociation);
}

#[test]
fn setup_without_time_stamp_is_refused_and_leaves_no_state() {
    let mut bench = Bench::new();
    let body = AssociationUpdateRequest::new(ie::NodeId::Ipv4(TEN));
    let mut bytes = encode(None, 1, &body);
    bytes[1] = MessageType::ASSOCIATION_SETUP_REQUEST.0;
    assert_eq!(cause(&bench.answer(smf(10), &bytes)), Cause::MandatoryIeMissing);
    assert_eq!(bench.node.response_cache_len(), 0);
    assert_eq!(bench.node.counters().refused(Cause::MandatoryIeMissing), 1);
}

#[test]
fn associations_are_bounded() {
    let mut bench = Bench::new();
    for number in 0..ASSOCIATIONS_MAX + 1 {
        let [.., hi, lo] = number.to_be_bytes();
        let from = SocketAddr::from(([203, 0, hi, lo], 8805));
        let bytes = bench.answer(from, &setup(1, Ipv4Addr::new(203, 0, hi, lo), 1));
        let full = number == ASSOCIATIONS_MAX;
        let expected = if full { Cause::NoResourcesAvailable } else { Cause::RequestAccepted };
        assert_eq!(cause(&bytes), expected);
    }
    assert_eq!(bench.node.associations().count(), ASSOCIATIONS_MAX);
    assert_eq!(bench.node.counters().scalars.refused_associations_full, 1);
}

#[test]
fn heartbeat_is_answered_without_an_association_and_leaves_no_state() {
    let mut bench = Bench::new();
    let from = SocketAddr::from(([192, 0, 2, 99], 40_000));
    let bytes = bench.answer(from, &heartbeat(77, 1));
    assert_eq!(raw(&bytes).header.sequence, 77);
    let Message::HeartbeatResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.recovery_time_stamp, RecoveryTimeStamp(UPF_STARTED));
    assert_eq!(bench.node.poll_timeout(), None);
}

#[test]
fn heartbeat_with_a_newer_time_stamp_is_probed_at_once_and_the_response_ends_the_association() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.answer(smf(10), &heartbeat(3, SMF_STARTED - 1));
    assert_eq!(bench.node.store().len(), 1);
    assert_eq!(bench.node.counters().scalars.stale_recovery_time_stamps, 1);
    assert!(bench.run_until(Nanos(0)).is_empty(), "an older one is an old copy");
    bench.answer(smf(10), &heartbeat(4, SMF_STARTED + 1));
    assert_eq!(bench.node.store().len(), 1, "a request alone is no restart");
    let probe = bench.run_until(Nanos(0));
    assert_eq!(raw(&probe[0].bytes).header.message_type, MessageType::HEARTBEAT_REQUEST);
    respond_to_heartbeat(&mut bench, &probe, SMF_STARTED + 1);
    assert_eq!(bench.node.store().len(), 0);
    assert_eq!(bench.node.associations().count(), 0);
    assert!(bench.events().iter().any(|e| matches!(e, NodeEvent::PeerRestarted { .. })));
}

fn respond_to_heartbeat(bench: &mut Bench, sent: &[adit_n4::Transmit], started: u32) {
    let sequence = raw(&sent[0].bytes).header.sequence;
    let body = HeartbeatResponse::new(RecoveryTimeStamp(started));
    assert!(bench.ask(sent[0].to, &encode(None, sequence, &body)).is_empty());
}

#[test]
fn own_heartbeat_that_is_answered_keeps_the_association() {
    let mut bench = Bench::associated();
    for round in 1..20 {
        let sent = bench.run_until(Nanos(HEARTBEAT_INTERVAL.0 * round));
        assert_eq!(sent.len(), 1);
        respond_to_heartbeat(&mut bench, &sent, SMF_STARTED);
    }
    assert_eq!(bench.node.associations().count(), 1);
    assert_eq!(bench.node.counters().scalars.own_retransmissions, 0);
}

#[test]
fn own_heartbeat_answered_with_a_newer_time_stamp_ends_the_association() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let sent = bench.run_until(HEARTBEAT_INTERVAL);
    respond_to_heartbeat(&mut bench, &sent, SMF_STARTED + 5);
    assert_eq!(bench.node.associations().count(), 0);
    assert_eq!(bench.node.store().len(), 0);
}

/// A time stamp before the known one, if it comes once, is of a message from before the restart.
/// Spec: TS 23.007 §19A.
#[test]
fn setup_with_an_older_time_stamp_is_discarded_and_the_next_one_is_a_restart() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.events();
    let late = setup(9, TEN, SMF_STARTED - 5);
    assert!(bench.ask(smf(10), &late).is_empty(), "no answer");
    assert!(bench.events().is_empty());
    assert_eq!((bench.node.store().len(), bench.node.associations().count()), (1, 1));
    assert_eq!(bench.node.counters().scalars.stale_recovery_time_stamps, 1);
    // A message of the known time lies between: nothing was repeated.
    bench.answer(smf(10), &heartbeat(10, SMF_STARTED));
    assert!(bench.ask(smf(10), &late).is_empty());
    assert!(bench.ask(smf(10), &setup(11, TEN, SMF_STARTED - 6)).is_empty(), "another time");
    assert_eq!(bench.node.store().len(), 1);
    // The peer's clock was set back. The peer repeats its restart, or writes the time of sending.
    restarted_by_setup(&mut bench, 11, SMF_STARTED - 6);
    assert!(bench.ask(smf(10), &setup(12, TEN, SMF_STARTED - 9)).is_empty());
    restarted_by_setup(&mut bench, 13, SMF_STARTED - 8);
}

fn restarted_by_setup(bench: &mut Bench, sequence: u32, started: u32) {
    let answer = bench.answer(smf(10), &setup(sequence, TEN, started));
    assert_eq!(cause(&answer), Cause::RequestAccepted);
    assert_eq!((bench.node.store().len(), bench.node.associations().count()), (0, 1));
    let association = bench.node.association(IpAddr::V4(TEN)).unwrap();
    assert_eq!(association.recovery_time_stamp, started);
    assert!(bench.events().iter().any(|e| matches!(e, NodeEvent::PeerRestarted { .. })));
}

#[test]
fn heartbeat_response_with_an_older_time_stamp_is_a_restart_when_the_next_one_repeats_it() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let sent = bench.run_until(HEARTBEAT_INTERVAL);
    respond_to_heartbeat(&mut bench, &sent, SMF_STARTED - 5);
    assert_eq!(bench.node.store().len(), 1);
    let probe = bench.run_until(bench.now);
    assert_eq!(probe.len(), 1, "the next one leaves at once");
    respond_to_heartbeat(&mut bench, &probe, SMF_STARTED);
    assert_eq!(bench.run_until(bench.now), [], "it was a late one");
    let sent = bench.run_until(bench.now + HEARTBEAT_INTERVAL);
    respond_to_heartbeat(&mut bench, &sent, SMF_STARTED - 5);
    let probe = bench.run_until(bench.now);
    respond_to_heartbeat(&mut bench, &probe, SMF_STARTED - 5);
    assert_eq!((bench.node.store().len(), bench.node.associations().count()), (0, 0));
    assert_eq!(bench.node.counters().scalars.stale_recovery_time_stamps, 2);
}

#[test]
fn heartbeat_request_that_repeats_an_older_time_stamp_is_probed() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.answer(smf(10), &heartbeat(3, SMF_STARTED - 1));
    assert!(bench.run_until(bench.now).is_empty(), "an older one is an old copy");
    bench.answer(smf(10), &heartbeat(4, SMF_STARTED - 1));
    let probe = bench.run_until(bench.now);
    respond_to_heartbeat(&mut bench, &probe, SMF_STARTED - 1);
    assert_eq!((bench.node.store().len(), bench.node.associations().count()), (0, 0));
}

#[test]
fn peer_that_never_answers_heartbeats_loses_its_association() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.events();
    let lost_at = HEARTBEAT_INTERVAL + Nanos(T1.0 * u64::from(N1 + 1));
    let sent = bench.run_until(lost_at - Nanos(1));
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|again| *again == sent[0]), "retransmissions are identical");
    assert_eq!(bench.node.store().len(), 1);
    bench.run_until(lost_at);
    assert_eq!(bench.node.store().len(), 0);
    assert_eq!(bench.node.store().reserved(), Default::default());
    assert!(matches!(
        bench.events()[..],
        [NodeEvent::AssociationDown { sessions: 1, reason: DownReason::HeartbeatsLost, .. }]
    ));
    assert_eq!(bench.node.poll_timeout(), None);
}

fn connecting() -> Bench {
    let connect = vec![SocketAddr::from(([192, 0, 2, 10], 9000))];
    Bench::with(NodeConfig { connect, ..config() })
}

#[test]
fn configured_peer_is_asked_until_it_accepts() {
    let mut bench = connecting();
    let peer = SocketAddr::from(([192, 0, 2, 10], 9000));
    let sent = bench.run_until(Nanos(T1.0 * 4));
    assert_eq!(sent.len(), 4);
    let failure = SetupFailure::NoResponse;
    assert_eq!(bench.events(), [NodeEvent::SetupFailed { to: peer, failure, retry_after: T1 }]);
    let sent = bench.run_until(Nanos(T1.0 * 5));
    assert_eq!(raw(&sent[0].bytes).header.message_type, MessageType::ASSOCIATION_SETUP_REQUEST);
    let sequence = raw(&sent[0].bytes).header.sequence;
    let body = AssociationSetupResponse::new(
        ie::NodeId::Ipv4(TEN),
        Cause::RequestAccepted,
        RecoveryTimeStamp(SMF_STARTED),
    );
    let bytes = encode(None, sequence, &body);
    assert!(bench.ask(smf(10), &bytes).is_empty());
    assert_eq!(bench.node.associations().count(), 0, "from another port: not the asked one");
    assert!(bench.ask(peer, &bytes).is_empty());
    assert_eq!(bench.node.association(peer.ip()).unwrap().port, 9000);
    assert!(bench.ask(peer, &bytes).is_empty());
    assert_eq!(bench.node.counters().scalars.discarded_unmatched_response, 2);
    let up = NodeEvent::AssociationUp {
        address: peer.ip(),
        node_id: NodeIdentity::Ipv4(TEN),
        requested_by_us: true,
    };
    assert_eq!(bench.events(), [up]);
}

#[test]
fn configured_peer_that_refuses_is_asked_later() {
    let mut bench = connecting();
    let sent = bench.run_until(Nanos(0));
    let sequence = raw(&sent[0].bytes).header.sequence;
    let body = AssociationSetupResponse::new(
        ie::NodeId::Ipv4(TEN),
        Cause::NoResourcesAvailable,
        RecoveryTimeStamp(SMF_STARTED),
    );
    bench.ask(sent[0].to, &encode(None, sequence, &body));
    assert!(matches!(
        bench.events()[..],
        [NodeEvent::SetupFailed { failure: SetupFailure::Refused(75), .. }]
    ));
    assert_eq!(bench.run_until(T1).len(), 1);
}

#[test]
fn setup_of_one_configured_peer_leaves_the_attempt_at_another() {
    let connect = [10, 11].map(|host| SocketAddr::from(([192, 0, 2, host], 9000))).to_vec();
    let other = connect[1];
    let mut bench = Bench::with(NodeConfig { connect, ..config() });
    let sent = bench.run_until(Nanos(0));
    assert_eq!(sent.len(), 2);
    assert_eq!(cause(&bench.answer(smf(10), &setup(1, TEN, SMF_STARTED))), Cause::RequestAccepted);
    let again = bench.run_until(T1);
    assert_eq!(again.len(), 1, "retransmitted");
    assert_eq!((again[0].to, &again[0].bytes), (other, &sent[1].bytes));
}

#[test]
fn configured_peer_that_asks_itself_is_not_asked_any_more() {
    let mut bench = connecting();
    assert_eq!(bench.run_until(Nanos(0)).len(), 1);
    assert_eq!(cause(&bench.answer(smf(10), &setup(1, TEN, SMF_STARTED))), Cause::RequestAccepted);
    let sent = bench.run_until(HEARTBEAT_INTERVAL);
    assert_eq!(sent.len(), 1, "no setup is retransmitted");
    assert_eq!(raw(&sent[0].bytes).header.message_type, MessageType::HEARTBEAT_REQUEST);
    assert_eq!(sent[0].to.port(), 9000);
}

#[test]
fn other_version_gets_a_version_not_supported_response_and_its_answer_gets_none() {
    let mut bench = Bench::new();
    for version in [0, 2, 7] {
        let mut bytes = heartbeat(0x0a_0b0c, 1);
        bytes[0] = version << 5;
        let answer = bench.answer(smf(10), &bytes);
        let header = raw(&answer).header;
        assert_eq!(header.message_type, MessageType::VERSION_NOT_SUPPORTED_RESPONSE);
        assert_eq!(header.sequence, 0x0a_0b0c);
        bytes[1] = MessageType::VERSION_NOT_SUPPORTED_RESPONSE.0;
        assert!(bench.ask(smf(10), &bytes).is_empty());
    }
    assert_eq!(bench.node.counters().scalars.discarded_version, 3);
}

/// Spec: TS 29.244 §7.6.3.
#[test]
fn request_longer_than_its_datagram_is_answered_with_cause_68() {
    let mut bench = Bench::associated();
    let script = SessionScript::new(0xc1, 1);
    let up_seid = bench.session(smf(10), 2, &script);
    let cut = |mut bytes: Vec<u8>| {
        bytes.pop();
        bytes
    };
    let outcome = |bytes: &[u8]| (cause(bytes), raw(bytes).header.seid);
    let answer = bench.answer(smf(10), &cut(setup(3, TEN, SMF_STARTED)));
    assert_eq!(outcome(&answer), (Cause::InvalidLength, None));
    let answer = bench.answer(smf(10), &cut(release(4, TEN)));
    assert_eq!(outcome(&answer), (Cause::InvalidLength, None));
    for request in [
        establish(5, &SessionScript { cp_seid: Seid(0xc1), ..SessionScript::new(0xc2, 2) }),
        move_to(6, up_seid, Teid(7)),
        [&[0x21, 54, 0, 13][..], &up_seid.0.to_be_bytes(), &[0, 0, 7, 0, 0]].concat(),
    ] {
        let answer = bench.answer(smf(10), &cut(request));
        assert_eq!(outcome(&answer), (Cause::InvalidLength, Some(Seid(0xc1))));
    }
    assert_eq!(bench.node.associations().count(), 1, "nothing was carried out");
    assert_eq!(bench.node.store().len(), 1);
    let whole = bench.answer(smf(10), &move_to(6, up_seid, Teid(7)));
    assert_eq!(outcome(&whole).0, Cause::RequestAccepted, "the same number, in full length");
}

#[test]
fn message_longer_than_its_datagram_that_has_no_answer_is_discarded() {
    let mut bench = Bench::associated();
    for message_type in [1, 2, 6, 13, 50, 55, 57, 200] {
        // S = 0, also of a session related message.
        let bytes = [0x20, message_type, 0, 9, 0, 0, 1, 0];
        assert!(bench.ask(smf(10), &bytes).is_empty(), "{message_type}");
    }
    assert_eq!(bench.node.counters().scalars.discarded_malformed_header, 8);
}

#[test]
fn malformed_headers_unknown_types_and_stray_responses_are_discarded_and_counted() {
    let mut bench = Bench::associated();
    assert!(bench.ask(smf(10), &[]).is_empty());
    assert!(bench.ask(smf(10), &heartbeat(1, 1)[..9]).is_empty());
    let mut bytes = heartbeat(1, 1);
    bytes[1] = 200;
    assert!(bench.ask(smf(10), &bytes).is_empty());
    bytes[1] = MessageType::HEARTBEAT_RESPONSE.0;
    assert!(bench.ask(smf(10), &bytes).is_empty());
    bytes[1] = MessageType::SESSION_DELETION_REQUEST.0;
    assert!(bench.ask(smf(10), &bytes).is_empty());
    let scalars = bench.node.counters().scalars;
    assert_eq!(scalars.discarded_malformed_header, 2);
    assert_eq!(scalars.discarded_unknown_type, 1);
    assert_eq!(scalars.discarded_unmatched_response, 1);
    assert_eq!(scalars.discarded_seid_absent, 1);
}

#[test]
fn bundled_messages_are_each_handled() {
    let mut bench = Bench::new();
    let mut bytes = setup(1, TEN, SMF_STARTED);
    bytes[0] |= 4;
    let mut second = heartbeat(2, SMF_STARTED);
    second[0] |= 4;
    bytes.extend(second);
    bytes.extend(establish(3, &SessionScript::new(1, 1)));
    let sent = bench.ask(smf(10), &bytes);
    let sequences: Vec<_> = sent.iter().map(|t| raw(&t.bytes).header.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    assert_eq!(bench.node.store().len(), 1);
}

#[test]
fn mapped_ipv4_address_is_the_ipv4_peer() {
    let mut bench = Bench::associated();
    let mapped: SocketAddr = "[::ffff:192.0.2.10]:5000".parse().unwrap();
    let sent = bench.ask(mapped, &establish(2, &SessionScript::new(1, 1)));
    assert_eq!(sent[0].to, "192.0.2.10:5000".parse().unwrap());
    assert_eq!(cause(&sent[0].bytes), Cause::RequestAccepted);
    assert_eq!(raw(&sent[0].bytes).header.seid, Some(Seid(1)));
}
