//! Limits of every peer: none may speak without leave, request too much, or make the node fall.

use std::net::Ipv4Addr;

use adit_n4::{FaultPoint, NodeConfig, NodeEvent, PeerPolicy, PeerPrefix};
use adit_pfcp::grouped::{CreateQer, GtpuPathQosControlInformation, UpdatePdr};
use adit_pfcp::ie::{
    self, ApplyAction, GateStatus, Nullable, QosReportTrigger, RecoveryTimeStamp, RemoteGtpuPeer,
};
use adit_pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, AssociationUpdateRequest,
    SessionSetDeletionRequest,
};
use adit_pfcp::{Cause, IeType, Message, MessageType};
use adit_rules::{KeyChange, SessionKey, WorkerEvent};
use adit_types::limits::{RULES_PER_SESSION_MAX, TURNS_WITH_FAULT_MAX};
use adit_types::{Ipv4Prefix, Nanos, PdrId, QerId, Seid, Teid};

use crate::smf::*;

fn with_policy(policy: PeerPolicy) -> Bench {
    Bench::with(NodeConfig { policy, ..config() })
}

fn cause(bytes: &[u8]) -> Cause {
    match decode(bytes) {
        Message::AssociationSetupResponse(body) => body.cause,
        Message::AssociationReleaseResponse(body) => body.cause,
        Message::SessionEstablishmentResponse(body) => body.cause,
        Message::SessionModificationResponse(body) => body.cause,
        Message::SessionDeletionResponse(body) => body.cause,
        other => panic!("{other:?}"),
    }
}

fn script() -> SessionScript {
    SessionScript::new(1, 1)
}

#[test]
fn peer_outside_the_allow_list_is_not_heard_and_leaves_no_state() {
    let allow = PeerPrefix::V4(Ipv4Prefix::containing([192, 0, 2, 10].into(), 32).unwrap());
    let mut bench = with_policy(PeerPolicy { allow: vec![allow], ..PeerPolicy::default() });
    bench.associate(10);
    let setup = setup(1, Ipv4Addr::new(192, 0, 2, 11), SMF_STARTED);
    assert!(bench.ask(smf(11), &setup).is_empty());
    assert!(bench.ask(smf(11), &heartbeat(2, SMF_STARTED)).is_empty());
    assert!(bench.ask(smf(11), &[0xff; 7]).is_empty());
    let scalars = bench.node.counters().scalars;
    assert_eq!(scalars.discarded_peer_not_allowed, 3);
    assert_eq!(scalars.discarded_malformed_header, 0);
    assert_eq!(bench.node.associations().count(), 1);
}

#[test]
fn configured_peer_is_heard_although_the_allow_list_lacks_it() {
    let allow = PeerPrefix::V4(Ipv4Prefix::containing([192, 0, 2, 10].into(), 32).unwrap());
    let policy = PeerPolicy { allow: vec![allow], ..PeerPolicy::default() };
    let mut bench = Bench::with(NodeConfig { policy, connect: vec![smf(20)], ..config() });
    assert_eq!(bench.ask(smf(20), &heartbeat(2, SMF_STARTED)).len(), 1);
}

#[test]
fn peer_over_its_rate_is_not_answered_and_others_are() {
    let policy = PeerPolicy { requests_per_s_max: 10, requests_burst: 5, ..PeerPolicy::default() };
    let mut bench = with_policy(policy);
    bench.now = Nanos::from_secs(1);
    bench.associate(10);
    bench.associate(11);
    let answered = (2..12).filter(|&n| !bench.ask(smf(10), &delete(n, Seid(n.into()))).is_empty());
    assert_eq!(answered.count(), 5);
    assert_eq!(bench.node.counters().scalars.discarded_over_rate, 5);
    assert_eq!(bench.ask(smf(10), &heartbeat(20, SMF_STARTED)).len(), 1, "heartbeats pass");
    assert_eq!(bench.ask(smf(11), &delete(2, Seid(1))).len(), 1);
    bench.now = Nanos::from_secs(2);
    assert_eq!(bench.ask(smf(10), &delete(30, Seid(1))).len(), 1);
}

#[test]
fn flood_of_heartbeats_in_a_peers_name_costs_it_no_answer() {
    let policy = PeerPolicy { requests_per_s_max: 10, requests_burst: 5, ..PeerPolicy::default() };
    let mut bench = Bench::with(NodeConfig { policy, connect: vec![smf(20)], ..config() });
    bench.associate(10);
    let mut sent = 0;
    for round in 0..100 {
        bench.now += Nanos::from_millis(100);
        for n in 0..5000 {
            let forged = std::net::SocketAddr::new(smf(10).ip(), 40_000 + n);
            sent += bench.ask(forged, &heartbeat(5_000_000 + u32::from(n), SMF_STARTED)).len();
        }
        assert_eq!(bench.ask(smf(10), &heartbeat(2 + round, SMF_STARTED)).len(), 1);
        assert_eq!(bench.ask(smf(20), &heartbeat(70_000 + round, SMF_STARTED)).len(), 1);
    }
    assert!((50_000..=52_000).contains(&sent), "{sent} of 500,000 forged ones: 5,000 a second");
    let strangers = (0..100).filter(|&n| !bench.ask(smf(66), &heartbeat(n, 1)).is_empty());
    assert_eq!(strangers.count(), 10, "one who has no association has a rate");
}

#[test]
fn datagram_full_of_heartbeats_is_answered_at_the_rate_of_its_peer() {
    let policy = PeerPolicy { requests_per_s_max: 10, requests_burst: 5, ..PeerPolicy::default() };
    let mut bench = with_policy(policy);
    bench.associate(10);
    let mut bundle: Vec<u8> = (0..5000).flat_map(|n| followed(heartbeat(n, SMF_STARTED))).collect();
    bundle.extend(heartbeat(5000, SMF_STARTED));
    let answered = bench.ask(smf(10), &bundle).len();
    assert!((1000..=1010).contains(&answered), "{answered}");
}

/// The message with the flag that another one follows it in the datagram.
fn followed(mut message: Vec<u8>) -> Vec<u8> {
    message[0] |= 4;
    message
}

#[test]
fn session_beyond_the_limit_of_its_association_gets_cause_75() {
    let policy = PeerPolicy { sessions_per_association_max: 1, ..PeerPolicy::default() };
    let mut bench = with_policy(policy);
    bench.associate(10);
    bench.associate(11);
    let first = bench.session(smf(10), 2, &script());
    let bytes = bench.answer(smf(10), &establish(3, &SessionScript::new(2, 2)));
    assert_eq!(cause(&bytes), Cause::NoResourcesAvailable);
    assert_eq!(bench.node.counters().scalars.refused_sessions_per_association_full, 1);
    bench.session(smf(11), 2, &SessionScript::new(3, 3));
    assert_eq!(cause(&bench.answer(smf(10), &delete(4, first))), Cause::RequestAccepted);
    bench.session(smf(10), 5, &SessionScript::new(2, 2));
}

#[test]
fn fault_before_the_change_costs_one_answer_and_changes_nothing() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &script());
    let before = bench.node.store().clone();
    let requests =
        [establish(3, &SessionScript::new(2, 2)), move_to(4, up_seid, Teid(7)), delete(5, up_seid)];
    for request in requests {
        bench.node.inject_fault(FaultPoint::Start);
        let bytes = bench.answer(smf(10), &request);
        assert_eq!(cause(&bytes), Cause::SystemFailure);
        assert_eq!(bench.answer(smf(10), &request), bytes, "a retransmission gets it again");
        assert_eq!(*bench.node.store(), before);
    }
    assert_eq!(bench.node.counters().scalars.faults, 3);
    assert_eq!(bench.node.counters().refused(Cause::SystemFailure), 3);
    assert_eq!(
        cause(&bench.answer(smf(10), &move_to(6, up_seid, Teid(7)))),
        Cause::RequestAccepted
    );
}

fn fault_of(event: NodeEvent) -> Option<&'static str> {
    match event {
        NodeEvent::Fault { message_type, .. } => Some(message_type),
        NodeEvent::Refused { .. } => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fault_is_reported_once_per_kind() {
    let mut bench = Bench::associated();
    bench.events();
    for sequence in 2..5 {
        bench.node.inject_fault(FaultPoint::Start);
        bench.ask(smf(10), &delete(sequence, Seid(1)));
    }
    bench.node.inject_fault(FaultPoint::Start);
    bench.ask(smf(10), &heartbeat(9, SMF_STARTED));
    let kinds: Vec<_> = bench.events().into_iter().filter_map(fault_of).collect();
    let expected = [MessageType::SESSION_DELETION_REQUEST, MessageType::HEARTBEAT_REQUEST];
    assert_eq!(kinds, expected.map(MessageType::name));
    assert_eq!(bench.node.counters().scalars.discarded_after_fault, 1);
    assert!(!adit_n4::is_contained());
}

#[test]
fn fault_within_a_commit_removes_the_session_and_nothing_else() {
    for point in [FaultPoint::Commit, FaultPoint::Answer] {
        let mut bench = Bench::associated();
        let kept = bench.session(smf(10), 2, &SessionScript::new(9, 9));
        let reserved = bench.node.store().reserved();
        let lost = bench.session(smf(10), 3, &script());
        bench.node.inject_fault(point);
        bench.node.handle_datagram(bench.now, smf(10), &move_to(4, lost, Teid(7)));
        assert!(bench.sent().is_empty(), "answered when the workers know");
        let mut removed = Vec::new();
        while let Some((id, delta)) = bench.node.poll_delta() {
            removed.extend(delta.rules.is_none().then_some(delta.keys));
            bench.node.handle_published(bench.now, id);
        }
        assert!(removed[0].contains(&KeyChange::Remove(SessionKey::UeIpv4(
            adit_types::DomainId(0),
            script().ue
        ))));
        assert_eq!(cause(&bench.sent()[0].bytes), Cause::SystemFailure);
        assert_eq!(bench.node.store().reserved(), reserved);
        assert_eq!(bench.node.counters().scalars.sessions_removed_after_fault, 1);
        let late = bench.answer(smf(10), &delete(5, lost));
        assert_eq!(cause(&late), Cause::SessionContextNotFound);
        bench.session(smf(10), 6, &script());
        assert_eq!(cause(&bench.answer(smf(10), &delete(7, kept))), Cause::RequestAccepted);
    }
}

#[test]
fn fault_while_a_session_is_established_leaves_none() {
    for point in [FaultPoint::Start, FaultPoint::Commit, FaultPoint::Answer] {
        let mut bench = Bench::associated();
        bench.node.inject_fault(point);
        let bytes = bench.answer(smf(10), &establish(2, &script()));
        assert_eq!(cause(&bytes), Cause::SystemFailure);
        assert_eq!(raw(&bytes).header.seid, Some(Seid(1)));
        assert_eq!(raw(&bytes).header.message_type, MessageType::SESSION_ESTABLISHMENT_RESPONSE);
        assert!(bench.node.store().is_empty());
        assert_eq!(bench.node.store().reserved(), Default::default());
        assert_eq!(bench.node.pending_len(), 0);
        bench.session(smf(10), 3, &script());
    }
}

#[test]
fn fault_while_an_association_ends_leaves_no_session_behind() {
    let mut bench = Bench::associated();
    for number in 1..5 {
        bench.session(smf(10), u32::from(number) + 1, &SessionScript::new(number.into(), number));
    }
    bench.node.inject_fault(FaultPoint::Commit);
    let request = release(9, Ipv4Addr::new(192, 0, 2, 10));
    assert_eq!(cause(&bench.answer(smf(10), &request)), Cause::RequestAccepted);
    assert_eq!(bench.node.store().reserved(), Default::default());
    assert_eq!(bench.node.counters().scalars.sessions_removed_after_fault, 1);
}

fn internal_faults(bench: &mut Bench) -> Vec<&'static str> {
    let events = bench.events().into_iter();
    let activities = events.filter_map(|event| match event {
        NodeEvent::InternalFault { activity, .. } => Some(activity),
        _ => None,
    });
    activities.collect()
}

#[test]
fn fault_of_a_timer_or_an_event_costs_nothing_else() {
    let mut bench = Bench::associated();
    bench.session(smf(10), 2, &script());
    bench.node.inject_fault(FaultPoint::Timer);
    bench.node.handle_timeout(HEARTBEAT_INTERVAL);
    assert_eq!(internal_faults(&mut bench), ["retransmissions"]);
    assert_eq!(bench.sent().len(), 1, "heartbeats go on");
    bench.node.inject_fault(FaultPoint::Event);
    let event = WorkerEvent::ErrorIndication { peer: GNB.into(), teid: Teid(1) };
    bench.node.handle_event(bench.now, event);
    assert_eq!(internal_faults(&mut bench), ["an event of a worker"]);
    assert_eq!((bench.node.counters().scalars.faults, bench.node.store().len()), (2, 1));
}

#[test]
fn fault_behind_an_observed_change_lets_its_request_run_again() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &script());
    let request = move_to(3, up_seid, Teid(9));
    bench.node.handle_datagram(bench.now, smf(10), &request);
    bench.node.inject_fault(FaultPoint::Published);
    bench.publish_all();
    assert_eq!(bench.sent(), []);
    assert_eq!(internal_faults(&mut bench), ["an observed change"]);
    assert_eq!(cause(&bench.answer(smf(10), &request)), Cause::RequestAccepted);
    assert_eq!(bench.node.pending_len(), 0);
}

#[test]
fn fault_of_every_turn_ends_the_thread() {
    let mut bench = Bench::associated();
    let turns = (0..1000).take_while(|_| {
        bench.node.inject_fault(FaultPoint::Timer);
        let turn = std::panic::AssertUnwindSafe(|| bench.node.handle_timeout(bench.now));
        std::panic::catch_unwind(turn).is_ok()
    });
    assert_eq!(turns.count(), usize::try_from(TURNS_WITH_FAULT_MAX).unwrap());
}

fn leaked<T>(items: Vec<T>) -> &'static [T] {
    Vec::leak(items)
}

/// Spec: TS 29.244 §7.6: one error is answered; the log has the others.
#[test]
fn every_error_of_a_refused_request_is_logged_once_and_not_too_often() {
    let mut bench = Bench::associated();
    bench.events();
    let refused = establish_with(2, &script(), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].pdi.ue_ip_addresses = (&[]).into();
        pdrs[1].far_id = Some(adit_types::FarId(77));
        body.create_pdrs = leaked(pdrs).into();
        let mut fars: Vec<_> = body.create_fars.iter().collect();
        fars[0].apply_action = ApplyAction::FORW | ApplyAction::DROP;
        body.create_fars = leaked(fars).into();
    });
    bench.now = Nanos::from_secs(5);
    assert_eq!(cause(&bench.answer(smf(10), &refused)), Cause::RuleCreationModificationFailure);
    let told: Vec<_> = bench.events();
    let [NodeEvent::Refused { findings, .. }] = &told[..] else { panic!("{told:?}") };
    assert!(findings[0].contains("FAR 1: "), "{findings:?}");
    assert!(bench.node.store().is_empty());
    for sequence in 3..6 {
        bench.ask(smf(10), &establish_with(sequence, &script(), |b| b.create_fars = (&[]).into()));
    }
    assert!(bench.events().is_empty());
    assert_eq!(bench.node.counters().scalars.refusals_not_told, 3);
    bench.now = Nanos::from_secs(7);
    let twice = establish_with(9, &script(), |body| {
        let mut fars: Vec<_> = body.create_fars.iter().collect();
        for far in &mut fars {
            far.apply_action = ApplyAction::FORW | ApplyAction::DROP;
        }
        body.create_fars = leaked(fars).into();
    });
    bench.ask(smf(10), &twice);
    let told: Vec<_> = bench.events();
    let [NodeEvent::Refused { findings, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[1].contains("FAR 2: "), "{findings:?}");
}

/// The lines of the log about a request that is refused.
fn told(bench: &mut Bench, host: u8, request: &[u8]) -> Vec<String> {
    bench.now += Nanos::from_secs(1);
    bench.events();
    assert_eq!(bench.ask(smf(host), request).len(), 1, "refused");
    let told = bench.events();
    let [NodeEvent::Refused { findings, .. }] = &told[..] else { panic!("{told:?}") };
    findings.clone()
}

/// The causes of which a CP function learns neither limit nor IE, or no value.
#[test]
fn refusal_says_in_the_log_which_limit_or_which_value() {
    let mut bench = Bench::associated();
    bench.associate(11);
    bench.session(smf(11), 2, &SessionScript::new(9, 9));
    let up_seid = bench.session(smf(10), 2, &script());
    let count = u32::try_from(RULES_PER_SESSION_MAX).unwrap();
    let many = establish_with(3, &SessionScript::new(2, 2), |body| {
        let qers = (1..=count + 1).map(|id| CreateQer::new(QerId(id), GateStatus::OPEN));
        body.create_qers = leaked(qers.collect()).into();
    });
    let expected =
        format!("75 (No resources available): too many rules of one kind: QER (at most {count})");
    assert_eq!(told(&mut bench, 10, &many), [expected]);
    let taken = establish(4, &SessionScript::new(3, 9));
    let expected = "73 (Rule creation/modification Failure), IE 93 UE IP Address: PDR 1: \
                    the UE address belongs to another session: 10.45.0.9";
    assert_eq!(told(&mut bench, 10, &taken)[0], expected);
    let foreign = modify_with(5, up_seid, |body| {
        let mut update = UpdatePdr::new(PdrId(1));
        update.far_id = Some(adit_types::FarId(77));
        body.update_pdrs = list([update]).into();
    });
    let expected = "73 (Rule creation/modification Failure), IE 108 FAR ID: PDR 1: \
                    the PDR names an unknown FAR: 77";
    assert_eq!(told(&mut bench, 10, &foreign), [expected]);
    let sets = encode(None, 6, &SessionSetDeletionRequest::new(ie::NodeId::Ipv4(TEN)));
    assert_eq!(told(&mut bench, 10, &sets), ["67 (Conditional IE missing), IE 65 FQ-CSID"]);
}

const TEN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

/// A setup with these GTP-U Path QoS Control Informations.
fn setup_measuring(
    sequence: u32,
    controls: &'static [Nullable<GtpuPathQosControlInformation<'static>>],
) -> Vec<u8> {
    let time_stamp = RecoveryTimeStamp(SMF_STARTED);
    let mut body = AssociationSetupRequest::new(ie::NodeId::Ipv4(TEN), time_stamp);
    body.gtpu_path_qos_controls = controls.into();
    encode(None, sequence, &body)
}

/// Its response has no Offending IE. Spec: TS 29.244 §7.4.4.2.
#[test]
fn refused_association_setup_has_one_line_with_all_findings() {
    let mut bench = Bench::new();
    let peers = list([RemoteGtpuPeer { v4: Some(GNB), ..RemoteGtpuPeer::default() }]);
    let measuring = |triggers, of_peers: bool| {
        let mut control = GtpuPathQosControlInformation::new(triggers);
        control.remote_gtpu_peers = (if of_peers { peers } else { &[] }).into();
        Nullable::Value(control)
    };
    let (periodic, on_demand) = (QosReportTrigger::PER, QosReportTrigger::IRE);
    let controls =
        list([measuring(periodic, true), measuring(on_demand, true), measuring(on_demand, false)]);
    let findings = told(&mut bench, 10, &setup_measuring(1, controls));
    let [first, second] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(first, "67 (Conditional IE missing), IE 64 Measurement Period");
    assert!(second.starts_with("67 ") && second.contains("Remote GTP-U Peer"), "{second}");
    // A peer alone, without the mandatory trigger.
    let mut bytes = setup(2, TEN, SMF_STARTED);
    bytes.extend([0, 0xee, 0, 9, 0, 0x67, 0, 5, 2, 10, 0, 3, 1]);
    let len = u16::try_from(bytes.len() - 4).unwrap();
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    let findings = told(&mut bench, 10, &bytes);
    assert!(findings[0].contains(IeType::QOS_REPORT_TRIGGER.name()), "{findings:?}");
    assert!(findings[0].starts_with("66 ") && findings.len() == 1, "{findings:?}");
}

/// Also when a session request was refused within the second before.
#[test]
fn every_kind_of_request_says_in_the_log_why_it_is_refused() {
    let mut bench = Bench::associated();
    let node_id = ie::NodeId::Ipv4(TEN);
    let other = ie::NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, 99));
    let pfds = adit_pfcp::message::PfdManagementRequest::new();
    let requests = [
        (11, encode(None, 3, &AssociationUpdateRequest::new(node_id))),
        (10, encode(None, 4, &AssociationUpdateRequest::new(other))),
        (11, encode(None, 5, &AssociationReleaseRequest::new(node_id))),
        (11, encode(None, 6, &pfds)),
        (11, encode(None, 7, &SessionSetDeletionRequest::new(node_id))),
        (10, delete(8, Seid(77))),
        (10, move_to(9, Seid(77), Teid(1))),
        (11, establish(10, &script())),
    ];
    for (host, request) in requests {
        let findings = told(&mut bench, host, &request);
        assert!(findings[0].contains(": "), "{findings:?}");
        assert_eq!(findings.len(), 1);
    }
    bench.ask(smf(10), &delete(20, Seid(77)));
    bench.events();
    bench.ask(smf(11), &encode(None, 21, &pfds));
    assert!(matches!(bench.events()[..], [NodeEvent::Refused { .. }]));
}
