//! Node related procedures beyond associations: node reports, release at our wish, load control.

use std::net::{IpAddr, Ipv4Addr};

use adit_n4::{DownReason, NodeConfig, NodeEvent, ReleaseFailure};
use adit_pfcp::ie::{
    self, AssociationReleaseRequest, CpFunctionFeatures, NodeReportType, RecoveryTimeStamp,
};
use adit_pfcp::message::{
    AssociationSetupRequest, AssociationUpdateResponse, NodeReportResponse,
    SessionEstablishmentResponse,
};
use adit_pfcp::{Cause, Message, MessageType};
use adit_types::limits::RESPONSE_CACHE_PER_PEER_MAX;
use adit_types::{Nanos, Seid};

use crate::smf::*;

fn gnb(host: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, host])
}

fn node_id(host: u8) -> ie::NodeId<'static> {
    ie::NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, host))
}

/// The GTP-U peers of a Node Report Request: failed, recovered.
fn reported(bytes: &[u8]) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let Message::NodeReportRequest(body) = decode(bytes) else { panic!() };
    let addr = |peer: ie::RemoteGtpuPeer<'_>| IpAddr::V4(peer.v4.unwrap());
    let failed = body.user_plane_path_failure_report;
    let recovered = body.user_plane_path_recovery_report;
    let failed = failed.map(|report| report.remote_gtpu_peers.iter().map(addr).collect());
    let recovered = recovered.map(|report| report.remote_gtpu_peers.iter().map(addr).collect());
    let (failed, recovered): (Vec<_>, Vec<_>) =
        (failed.unwrap_or_default(), recovered.unwrap_or_default());
    let has = |flag| body.node_report_type.contains(flag);
    assert_eq!(has(NodeReportType::UPFR), !failed.is_empty());
    assert_eq!(has(NodeReportType::UPRR), !recovered.is_empty());
    (failed, recovered)
}

fn accept_report(bench: &mut Bench, host: u8, request: &[u8]) -> Vec<adit_n4::Transmit> {
    let body = NodeReportResponse::new(node_id(host), Cause::RequestAccepted);
    bench.ask(smf(host), &encode(None, raw(request).header.sequence, &body))
}

#[test]
fn path_failure_is_reported_to_every_cp_function_until_it_responds() {
    let mut bench = Bench::associated();
    bench.associate(11);
    bench.node.report_path_failure(bench.now, gnb(2));
    let sent = bench.sent();
    assert_eq!(sent.iter().map(|t| t.to).collect::<Vec<_>>(), [smf(10), smf(11)]);
    assert_eq!(reported(&sent[0].bytes), (vec![gnb(2)], vec![]));
    assert!(accept_report(&mut bench, 10, &sent[0].bytes).is_empty());
    let again = bench.run_until(T1);
    assert_eq!(again.len(), 1, "only the silent one hears it again");
    assert_eq!((again[0].to, &again[0].bytes), (smf(11), &sent[1].bytes));
}

#[test]
fn paths_that_change_meanwhile_are_reported_together_afterwards() {
    let mut bench = Bench::associated();
    bench.node.report_path_failure(bench.now, gnb(2));
    let first = bench.sent().remove(0).bytes;
    bench.node.report_path_failure(bench.now, gnb(3));
    bench.node.report_path_failure(bench.now, gnb(4));
    bench.node.report_path_recovery(bench.now, gnb(4));
    bench.node.report_path_recovery(bench.now, gnb(2));
    assert!(bench.sent().is_empty(), "one in flight");
    let next = accept_report(&mut bench, 10, &first).remove(0).bytes;
    assert_eq!(reported(&next), (vec![gnb(3)], vec![gnb(2)]), "4 came back untold");
    assert!(accept_report(&mut bench, 10, &next).is_empty());
    assert!(accept_report(&mut bench, 10, &next).is_empty());
    assert_eq!(bench.node.counters().scalars.discarded_unmatched_response, 1);
}

/// The Node Report Requests among the sent messages.
fn node_reports(sent: &[adit_n4::Transmit]) -> Vec<Vec<u8>> {
    let reports = sent.iter().filter(|t| t.bytes[1] == MessageType::NODE_REPORT_REQUEST.0);
    reports.map(|t| t.bytes.clone()).collect()
}

#[test]
fn node_report_without_response_is_sent_again_after_a_pause_with_what_happened_meanwhile() {
    let mut bench = Bench::associated();
    bench.node.report_path_failure(bench.now, gnb(2));
    bench.node.report_path_failure(bench.now, gnb(3));
    let sent = node_reports(&bench.run_until(Nanos(T1.0 * 4)));
    assert_eq!(sent.len(), 1 + 3, "then a pause");
    assert!(sent.iter().all(|copy| reported(copy) == (vec![gnb(2)], vec![])));
    assert_eq!(bench.node.counters().scalars.node_reports_lost_no_response, 1);
    let again = node_reports(&bench.run_until(bench.now + Nanos::from_secs(1)));
    assert_eq!(
        again.iter().map(|t| reported(t)).collect::<Vec<_>>(),
        [(vec![gnb(2), gnb(3)], vec![])]
    );
    accept_report(&mut bench, 10, &again[0]);
    assert!(node_reports(&bench.run_until(bench.now + Nanos::from_secs(70))).is_empty());
}

#[test]
fn refused_node_report_is_sent_again_and_again_with_longer_pauses() {
    for cause in [Cause::RequestRejected, Cause::EntityInCongestion, Cause::SystemFailure] {
        let mut bench = Bench::associated();
        bench.node.report_path_failure(bench.now, gnb(2));
        let mut sent = node_reports(&bench.sent());
        for (refusals, seconds) in (1..).zip([1, 2, 4]) {
            let body = NodeReportResponse::new(node_id(10), cause);
            let sequence = raw(&sent[0]).header.sequence;
            let next = bench.ask(smf(10), &encode(None, sequence, &body));
            assert!(next.is_empty(), "it is not flooded");
            let due = bench.now + Nanos::from_secs(seconds);
            assert!(node_reports(&bench.run_until(due - Nanos(1))).is_empty());
            sent = node_reports(&bench.run_until(due));
            assert_eq!(reported(&sent[0]), (vec![gnb(2)], vec![]));
            assert_eq!(bench.node.counters().scalars.node_reports_refused, refusals);
        }
        let code = cause.code();
        let is_it = |event: &NodeEvent| matches!(event, NodeEvent::ReportRefused { cause, .. } if *cause == code);
        assert!(bench.events().iter().any(is_it));
    }
}

#[test]
fn paths_to_report_are_bounded() {
    let mut bench = Bench::associated();
    for number in 0..5000u32 {
        bench.node.report_path_failure(bench.now, IpAddr::V4((0x0a00_0000 + number).into()));
    }
    assert_eq!(bench.node.counters().scalars.node_reports_lost_queue_full, 5000 - 4096 - 1);
}

#[test]
fn stopping_node_asks_for_release_and_is_released_when_all_peers_did() {
    let mut bench = Bench::associated();
    bench.associate(11);
    bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.start_release(bench.now, Nanos::from_secs(1));
    let sent = bench.sent();
    assert_eq!(sent.len(), 2);
    let Message::AssociationUpdateRequest(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.association_release_request, Some(AssociationReleaseRequest::SARR));
    assert_eq!(body.graceful_release_period.unwrap().0.as_secs(), Some(2), "the next unit");
    let response = AssociationUpdateResponse::new(node_id(10), Cause::RequestAccepted);
    bench.ask(smf(10), &encode(None, raw(&sent[0].bytes).header.sequence, &response));
    assert!(!bench.node.is_released());
    for host in [10, 11] {
        bench.node.handle_datagram(
            bench.now,
            smf(host),
            &release(9, Ipv4Addr::new(192, 0, 2, host)),
        );
    }
    assert!(!bench.node.is_released(), "the answer waits for the workers");
    bench.publish_all();
    assert!(bench.node.is_released());
    assert_eq!(bench.sent().len(), 2);
    let bytes = bench.answer(smf(10), &setup(10, Ipv4Addr::new(192, 0, 2, 10), SMF_STARTED));
    let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestRejected, "no way back");
    assert_eq!(bench.node.store().reserved(), Default::default());
}

fn associate_with(bench: &mut Bench, features: CpFunctionFeatures) {
    let mut body = AssociationSetupRequest::new(node_id(10), RecoveryTimeStamp(SMF_STARTED));
    body.cp_function_features = Some(features);
    bench.answer(smf(10), &encode(None, 1, &body));
}

/// Sequence number and metric.
type Told = Option<(u32, u8)>;

/// Load and overload in a response.
fn load_told(bytes: &[u8]) -> (Told, Told) {
    let Message::SessionEstablishmentResponse(body) = decode(bytes) else { panic!() };
    let SessionEstablishmentResponse { load_control_information, .. } = body;
    let load = load_control_information.map(|load| (load.sequence_number.0, load.load_metric.0));
    let overload = body.overload_control_information.map(|overload| {
        assert_eq!(overload.period_of_validity.0.as_secs(), Some(30));
        (overload.sequence_number.0, overload.overload_reduction_metric.0)
    });
    (load, overload)
}

/// Spec: TS 29.244 §6.2.3.3, §6.2.4.3.
#[test]
fn load_and_overload_are_reported_when_they_change_to_peers_with_the_feature() {
    let store = adit_session::StoreConfig { sessions_max: 10, ..config().store };
    let mut bench = Bench::with(NodeConfig { store, ..config() });
    associate_with(&mut bench, CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL);
    let mut told = Vec::new();
    for number in 1..=10 {
        let script = SessionScript::new(number.into(), number);
        told.push(load_told(&bench.answer(smf(10), &establish(u32::from(number) + 1, &script))));
    }
    assert_eq!(told[0], (Some((1, 10)), None));
    assert_eq!(told[8], (Some((9, 90)), None));
    assert_eq!(told[9], (Some((10, 100)), Some((1, 100))));
    let mut bench = Bench::with(NodeConfig {
        store: adit_session::StoreConfig { sessions_max: 1, ..config().store },
        ..config()
    });
    associate_with(&mut bench, CpFunctionFeatures::OVRL);
    let script = SessionScript::new(1, 1);
    let bytes = bench.answer(smf(10), &establish(2, &script));
    assert_eq!(load_told(&bytes), (None, Some((1, 100))));
    assert_eq!(bench.answer(smf(10), &establish(2, &script)), bytes, "also in a replayed answer");
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    let up_seid: Seid = body.up_f_seid.unwrap().seid;
    let bytes = bench.answer(smf(10), &delete(3, up_seid));
    let Message::SessionDeletionResponse(body) = decode(&bytes) else { panic!() };
    assert!(body.overload_control_information.is_none(), "the index is not free yet");
    let bytes = bench.answer(smf(10), &establish(4, &script));
    assert_eq!(load_told(&bytes), (None, None), "nothing new");
}

/// A worker without room to breathe is load although the store is empty.
#[test]
fn load_follows_the_busiest_worker_and_the_fullest_pool() {
    let prefix = adit_rules::sdf::AddrMatch::V4("10.60.0.0/30".parse().unwrap());
    let pool =
        adit_session::UePool { network_instance: None, identity: None, s_nssai: None, prefix };
    let provisioning =
        adit_session::Provisioning { ue_pools: vec![pool], ..config().store.provisioning };
    let store = adit_session::StoreConfig { provisioning, ..config().store };
    let mut bench = Bench::with(NodeConfig { store, ..config() });
    associate_with(&mut bench, CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL);
    let establish = |bench: &mut Bench, number: u16| {
        let script = SessionScript::new(number.into(), number);
        load_told(&bench.answer(smf(10), &establish(u32::from(number) + 1, &script)))
    };
    assert_eq!(establish(&mut bench, 1), (None, None));
    bench.node.set_worker_saturation(62);
    assert_eq!(establish(&mut bench, 2), (Some((1, 60)), None));
    bench.node.set_worker_saturation(250);
    assert_eq!(establish(&mut bench, 3), (Some((2, 100)), Some((1, 100))));
    bench.node.set_worker_saturation(0);
    assert_eq!(establish(&mut bench, 4), (Some((3, 0)), Some((2, 0))));
    let chosen = choosing(20, 20);
    assert_eq!(load_told(&bench.answer(smf(10), &chosen)), (Some((4, 50)), None));
}

/// Spec: TS 29.244 §6.2.4, §8.2.1 (Cause 74).
#[test]
fn new_session_while_a_worker_stands_still_is_cause_74_and_the_rest_goes_on() {
    let mut bench = Bench::new();
    associate_with(&mut bench, CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL);
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.set_standing_workers(1);
    let bytes = bench.answer(smf(10), &establish(3, &SessionScript::new(2, 2)));
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::EntityInCongestion);
    assert_eq!(load_told(&bytes), (Some((1, 100)), Some((1, 100))));
    assert_eq!(bench.node.counters().scalars.refused_worker_stands_still, 1);
    assert_eq!(bench.ask(smf(10), &heartbeat(4, SMF_STARTED)).len(), 1);
    let bytes = bench.answer(smf(10), &delete(5, up_seid));
    let Message::SessionDeletionResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    bench.node.set_standing_workers(0);
    let bytes = bench.answer(smf(10), &establish(6, &SessionScript::new(2, 2)));
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
    assert_eq!(load_told(&bytes), (Some((2, 0)), Some((2, 0))));
}

/// Spec: TS 29.244 §6.2.4, §8.2.1 (Cause 74).
#[test]
fn new_session_while_draining_is_cause_74_and_known_ones_go_on() {
    let mut bench = Bench::new();
    associate_with(&mut bench, CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL);
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.node.set_draining(true);
    assert!(bench.node.is_draining());
    let bytes = bench.answer(smf(10), &establish(3, &SessionScript::new(2, 2)));
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::EntityInCongestion);
    assert_eq!(load_told(&bytes), (Some((1, 100)), Some((1, 100))));
    assert_eq!(bench.node.counters().scalars.refused_draining, 1);
    assert!(bench.node.store().session(up_seid).is_some());
    bench.node.set_draining(false);
    let bytes = bench.answer(smf(10), &establish(4, &SessionScript::new(2, 2)));
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::RequestAccepted);
}

#[test]
fn session_that_the_operator_ends_is_gone_and_another_is_unknown() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    assert!(bench.node.end_session(up_seid));
    bench.publish_all();
    assert!(bench.node.store().session(up_seid).is_none());
    assert!(!bench.node.end_session(up_seid), "it is gone");
    assert_eq!(bench.node.counters().scalars.sessions_ended_by_operator, 1);
}

/// Spec: TS 29.244 §6.2.7.3.2.
#[test]
fn release_that_the_operator_wants_is_requested_of_one_cp_function() {
    let mut bench = Bench::associated();
    bench.associate(11);
    let period = Nanos::from_secs(30);
    assert!(bench.node.request_release(bench.now, smf(11).ip(), period));
    let sent = bench.sent();
    let [request] = &sent[..] else { panic!("{}", sent.len()) };
    assert_eq!(request.to, smf(11));
    let Message::AssociationUpdateRequest(body) = decode(&request.bytes) else { panic!() };
    assert_eq!(body.association_release_request, Some(AssociationReleaseRequest::SARR));
    assert!(!bench.node.request_release(bench.now, smf(12).ip(), period), "no association");
    assert_eq!(bench.node.associations().count(), 2, "it goes on until the peer releases it");
}

#[test]
fn release_that_a_cp_function_does_not_carry_out_is_reported_once_and_the_operator_may_end_it() {
    let mut bench = Bench::associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let failures = |bench: &mut Bench| -> Vec<ReleaseFailure> {
        let events = core::iter::from_fn(|| bench.node.poll_event());
        let failure = |event| match event {
            NodeEvent::NotReleased { failure, .. } => Some(failure),
            _ => None,
        };
        events.filter_map(failure).collect()
    };
    failures(&mut bench);
    let address = smf(10).ip();
    let answer = |bench: &mut Bench, cause| {
        bench.node.request_release(bench.now, address, Nanos::from_secs(3));
        let sequence = raw(&bench.sent()[0].bytes).header.sequence;
        let node_id = ie::NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, 10));
        let body = AssociationUpdateResponse::new(node_id, cause);
        bench.node.handle_datagram(bench.now, smf(10), &encode(None, sequence, &body));
    };
    answer(&mut bench, Cause::RequestRejected);
    assert_eq!(failures(&mut bench), [ReleaseFailure::Refused(64)]);
    answer(&mut bench, Cause::RequestAccepted);
    let due = bench.now + Nanos::from_secs(3);
    assert!(bench.node.poll_timeout().is_some_and(|next| next <= due));
    bench.node.handle_timeout(due - Nanos(1));
    assert_eq!(failures(&mut bench), []);
    bench.node.handle_timeout(due);
    bench.node.handle_timeout(due + Nanos(1));
    assert_eq!(failures(&mut bench), [ReleaseFailure::Late]);
    assert_eq!(bench.node.end_association_by_operator(due, address), Some(1));
    let events: Vec<_> = core::iter::from_fn(|| bench.node.poll_event()).collect();
    let reason = DownReason::EndedByOperator;
    assert!(
        matches!(&events[..], [NodeEvent::AssociationDown { sessions: 1, reason: of, .. }] if *of == reason),
        "{events:?}"
    );
    bench.now = due + Nanos(1);
    bench.node.handle_timeout(bench.now);
    bench.publish_all();
    assert!(bench.node.store().session(up_seid).is_none());
    assert_eq!(bench.node.end_association_by_operator(due, address), None);
    let bytes = bench.answer(smf(10), &establish(9, &SessionScript::new(2, 2)));
    let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
    assert_eq!(body.cause, Cause::NoEstablishedAssociation);
}

#[test]
fn node_returns_whether_it_has_something_to_send() {
    let mut bench = Bench::new();
    assert!(!bench.node.has_transmit());
    bench.node.handle_datagram(bench.now, smf(10), &heartbeat(1, SMF_STARTED));
    assert!(bench.node.has_transmit());
    assert_eq!(bench.sent().len(), 1);
    assert!(!bench.node.has_transmit());
}

#[test]
fn answer_that_gives_way_to_newer_ones_is_counted() {
    let mut bench = Bench::associated();
    let answered = u32::try_from(RESPONSE_CACHE_PER_PEER_MAX).unwrap();
    // The first answer is that of the setup.
    for sequence in 2..answered + 3 {
        bench.ask(smf(10), &delete(sequence, Seid(1)));
    }
    assert_eq!(bench.node.counters().scalars.response_cache_evicted, 2);
}
