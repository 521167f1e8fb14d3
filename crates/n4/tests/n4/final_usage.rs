//! The last usage of sessions that end by our decision, and reports that had no room in an answer
//! or that another SMF of the set is to have.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use adit_n4::Transmit;
use adit_pfcp::grouped::UsageReport;
use adit_pfcp::ie::{
    self, AlternativeSmfIpAddress, AssociationReleaseRequest, CpFunctionFeatures, FSeid,
    MonitoringTime, PfcpAuReqFlags, PfcpSdRspFlags, PfcpSmReqFlags, PfcpSrReqFlags,
    QueryUrrReference, RecoveryTimeStamp, ReportingTriggers, SmfSetId, UpFunctionFeatures,
    UsageReportTrigger,
};
use adit_pfcp::message::{
    AssociationSetupRequest, AssociationUpdateRequest, SessionReportRequest, SessionReportResponse,
};
use adit_pfcp::{Cause, Message, MessageType};
use adit_session::CpFSeid;
use adit_types::limits::{DRAIN_SESSIONS_MAX, RULES_PER_SESSION_MAX, SESSIONS_PER_TURN_MAX};
use adit_types::{Nanos, Seid};

use crate::smf::*;
use crate::usage_scene::*;

fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, host)
}

/// An association with a CP function that has these features, and is in a set.
fn associate(bench: &mut Bench, host: u8, features: CpFunctionFeatures) {
    let mut body =
        AssociationSetupRequest::new(ie::NodeId::Ipv4(ip(host)), RecoveryTimeStamp(SMF_STARTED));
    body.cp_function_features = Some(features);
    body.smf_set_id = Some(SmfSetId(b"\0\x03set"));
    let bytes = bench.answer(smf(host), &encode(None, 1, &body));
    let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
    assert!(body.cause.is_accepted());
    assert!(body.up_function_features.unwrap().contains(UpFunctionFeatures::EPFAR));
}

fn scene(features: CpFunctionFeatures, urrs: u32) -> Scene {
    let mut bench = Bench::new();
    associate(&mut bench, 10, features);
    let mut parts = Vec::new();
    for id in 1..=urrs {
        let mut urr = urr(id, ReportingTriggers::VOLTH);
        urr.volume_threshold = threshold(1000);
        parts.push(urr);
    }
    Scene::on(bench, |body| {
        with_urrs(body, &*Box::leak(parts.into_boxed_slice()));
        // No PDR may name that many URRs.
        if urrs > 8 {
            let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
            for pdr in &mut pdrs {
                pdr.urr_ids = [].as_slice().into();
            }
            body.create_pdrs = (&*Box::leak(pdrs.into_boxed_slice())).into();
        }
    })
}

fn report(transmit: &Transmit) -> SessionReportRequest<'_> {
    let Message::SessionReportRequest(body) = decode(&transmit.bytes) else { panic!() };
    body
}

fn types(sent: &[Transmit]) -> Vec<MessageType> {
    sent.iter().map(|transmit| raw(&transmit.bytes).header.message_type).collect()
}

fn update_of(transmit: &Transmit) -> AssociationUpdateRequest<'_> {
    let Message::AssociationUpdateRequest(body) = decode(&transmit.bytes) else { panic!() };
    body
}

fn prepare(sequence: u32) -> Vec<u8> {
    let mut body = AssociationUpdateRequest::new(ie::NodeId::Ipv4(ip(10)));
    body.pfcp_au_req_flags = Some(PfcpAuReqFlags::PARPS);
    encode(None, sequence, &body)
}

/// Spec: TS 29.244 §5.18.
#[test]
fn prepared_release_reports_the_last_usage_of_sessions_and_then_notifies_that_all_was_sent() {
    let mut scene = scene(CpFunctionFeatures::EPFAR, 2);
    let idle = scene.bench.session(smf(10), 9, &SessionScript::new(0xc9, 9));
    scene.count(1, 300, 40);
    let sent = scene.ask(&prepare(3));
    assert_eq!(types(&sent)[0], MessageType::ASSOCIATION_UPDATE_RESPONSE);
    let [report_sent] = &sent[1..] else { panic!("{:?}", types(&sent)) };
    assert_eq!(raw(&report_sent.bytes).header.seid, Some(Seid(0xc1)));
    let body = report(report_sent);
    assert_eq!(body.pfcp_sr_req_flags, Some(PfcpSrReqFlags::PSDBU));
    let reports: Vec<UsageReport<'_>> = body.usage_reports.iter().collect();
    assert_eq!(reports.len(), 1, "a URR without usage is not reported");
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::TEBUR);
    assert_eq!(volume(&reports[0]), (300, 40, 1, 1));
    assert_eq!(scene.bench.node.store().len(), 0);
    assert!(scene.bench.node.store().session(idle).is_none());
    let sent = scene.acknowledge(report_sent);
    let release = update_of(&sent[0]).association_release_request;
    assert_eq!(release, Some(AssociationReleaseRequest::URSS));
    let sent = scene.ask(&release_request(4));
    assert_eq!(types(&sent), [MessageType::ASSOCIATION_RELEASE_RESPONSE]);
    assert_eq!(scene.bench.node.associations().count(), 0);
    assert_eq!(scene.bench.node.store().reserved(), Default::default());
}

/// Spec: TS 29.244 §5.2.1, §5.18.
#[test]
fn session_that_gives_way_to_one_for_its_ue_address_reports_its_last_usage() {
    let mut scene = scene(CpFunctionFeatures::EPFAR, 1);
    scene.count(0, 300, 40);
    let sent = scene.ask(&establish(3, &SessionScript::new(0xc2, 1)));
    let [answer, report_sent] = &sent[..] else { panic!("{:?}", types(&sent)) };
    assert_eq!(types(&sent[..1]), [MessageType::SESSION_ESTABLISHMENT_RESPONSE]);
    let Message::SessionEstablishmentResponse(body) = decode(&answer.bytes) else { panic!() };
    assert!(body.cause.is_accepted());
    assert_eq!(raw(&report_sent.bytes).header.seid, Some(Seid(0xc1)), "the former one");
    let body = report(report_sent);
    assert_eq!(body.pfcp_sr_req_flags, Some(PfcpSrReqFlags::PSDBU));
    let reports: Vec<UsageReport<'_>> = body.usage_reports.iter().collect();
    assert_eq!((reports.len(), volume(&reports[0])), (1, (300, 40, 1, 1)));
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::TEBUR);
    assert_eq!(scene.bench.node.store().len(), 1);
}

fn release_request(sequence: u32) -> Vec<u8> {
    release(sequence, ip(10))
}

#[test]
fn release_without_preparation_waits_for_the_last_usage_but_not_for_ever() {
    for acknowledged in [true, false] {
        let mut scene = scene(CpFunctionFeatures::EPFAR, 1);
        scene.count(0, 10, 20);
        let request = release_request(3);
        let sent = scene.ask(&request);
        assert_eq!(types(&sent), [MessageType::SESSION_REPORT_REQUEST]);
        assert_eq!(scene.ask(&request), [], "a retransmission does not run twice");
        let answered = if acknowledged {
            scene.acknowledge(&sent[0])
        } else {
            scene.bench.run_until(Nanos(T1.0 * u64::from(N1 + 1)))
        };
        let last = types(&answered);
        assert_eq!(last.last(), Some(&MessageType::ASSOCIATION_RELEASE_RESPONSE), "{last:?}");
        assert_eq!(scene.bench.node.associations().count(), 0);
        let lost = scene.bench.node.counters().scalars;
        let lost = lost.reports_lost_no_response + lost.usage_reports_lost_with_association;
        assert_eq!(lost, u64::from(!acknowledged));
    }
}

#[test]
fn last_usage_of_an_association_that_ended_meanwhile_is_counted_as_lost() {
    let mut scene = scene(CpFunctionFeatures::EPFAR, 2);
    scene.count(0, 10, 20);
    scene.bench.node.handle_datagram(scene.bench.now, smf(10), &release_request(3));
    // The peer begins anew before the workers have left its session.
    let setup = setup(4, ip(10), SMF_STARTED + 9);
    scene.bench.node.handle_datagram(scene.bench.now, smf(10), &setup);
    scene.publish();
    let sent = types(&scene.bench.sent());
    assert!(!sent.contains(&MessageType::SESSION_REPORT_REQUEST), "{sent:?}");
    assert_eq!(scene.bench.node.counters().scalars.usage_reports_lost_with_association, 2);
}

#[test]
fn cp_function_without_epfar_gets_its_release_at_once_and_no_reports() {
    let mut scene = scene(CpFunctionFeatures::empty(), 1);
    scene.count(0, 10, 20);
    assert_eq!(types(&scene.ask(&prepare(3))), [MessageType::ASSOCIATION_UPDATE_RESPONSE]);
    assert_eq!(scene.bench.node.store().len(), 1);
    let sent = scene.ask(&release_request(4));
    assert_eq!(types(&sent), [MessageType::ASSOCIATION_RELEASE_RESPONSE]);
}

#[test]
fn stop_of_the_node_reports_all_usage_after_half_the_period_it_grants() {
    let mut scene = scene(CpFunctionFeatures::EPFAR, 1);
    scene.count(0, 5, 0);
    scene.bench.node.start_release(Nanos(0), Nanos::from_secs(4));
    let first = scene.bench.sent();
    let wish = update_of(&first[0]).association_release_request;
    assert_eq!(wish, Some(AssociationReleaseRequest::SARR));
    assert_eq!(scene.bench.run_until(Nanos::from_millis(1999)), []);
    let sent = scene.bench.run_until(Nanos::from_secs(2));
    assert_eq!(update_of(&sent[0]).pfcp_au_req_flags, Some(PfcpAuReqFlags::PARPS));
    assert_eq!(volume(&report(&sent[1]).usage_reports.iter().next().unwrap()), (5, 0, 1, 0));
    let told = scene.acknowledge(&sent[1]);
    let told = update_of(&told[0]).association_release_request;
    assert_eq!(told, Some(AssociationReleaseRequest::URSS));
}

#[test]
fn many_sessions_end_a_bounded_number_at_a_time() {
    let mut config = config();
    config.store.sessions_max = 3000;
    let mut bench = Bench::with(config);
    associate(&mut bench, 10, CpFunctionFeatures::EPFAR);
    for number in 0..1100 {
        bench.session(smf(10), 10 + u32::from(number), &SessionScript::new(1, number));
    }
    bench.node.handle_datagram(bench.now, smf(10), &prepare(3));
    let mut deltas = std::iter::from_fn(|| bench.node.poll_delta()).count();
    assert_eq!(deltas, SESSIONS_PER_TURN_MAX);
    while bench.node.poll_timeout().is_some_and(|at| at <= bench.now) {
        bench.node.handle_timeout(bench.now);
        deltas += std::iter::from_fn(|| bench.node.poll_delta()).count();
    }
    assert_eq!(deltas, DRAIN_SESSIONS_MAX);
    assert_eq!(bench.node.store().len(), 1100 - deltas);
}

#[test]
fn session_unknown_to_the_peer_reports_its_last_usage() {
    let mut scene = scene(CpFunctionFeatures::EPFAR, 1);
    scene.count(0, 900, 100);
    let sent = scene.limit(0);
    scene.count(0, 7, 0);
    let unknown = SessionReportResponse::new(Cause::SessionContextNotFound);
    let sequence = raw(&sent[0].bytes).header.sequence;
    let sent = scene.ask(&encode(Some(Seid(0)), sequence, &unknown));
    let body = report(&sent[0]);
    assert_eq!(body.pfcp_sr_req_flags, Some(PfcpSrReqFlags::PSDBU));
    assert_eq!(volume(&body.usage_reports.iter().next().unwrap()), (7, 0, 1, 0));
    let sequence = raw(&sent[0].bytes).header.sequence;
    assert_eq!(scene.ask(&encode(Some(Seid(0)), sequence, &unknown)), []);
    assert_eq!(scene.bench.node.counters().scalars.reports_refused, 1);
    assert_eq!(scene.bench.node.counters().scalars.sessions_removed_unknown_to_peer, 1);
}

/// Spec: TS 29.244 §8.2.215 (PURU).
#[test]
fn deletion_reports_that_a_report_is_not_acknowledged_yet() {
    let mut scene = scene(CpFunctionFeatures::empty(), 1);
    scene.count(0, 1000, 0);
    let first = scene.limit(0);
    let sent = scene.ask(&delete(3, scene.up_seid));
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.pfcp_sd_rsp_flags, Some(PfcpSdRspFlags::PURU));
    assert_eq!(scene.acknowledge(&first[0]), []);
    assert_eq!(scene.bench.run_until(Nanos::from_secs(5)), [], "acknowledged");
    let mut scene = self::scene(CpFunctionFeatures::empty(), 1);
    scene.count(0, 1000, 0);
    let first = scene.limit(0);
    scene.acknowledge(&first[0]);
    let sent = scene.ask(&delete(3, scene.up_seid));
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.pfcp_sd_rsp_flags, None, "acknowledged before");
}

/// Sets a monitoring time that splits every measurement in two.
fn split_all(scene: &mut Scene, urrs: u32) {
    let mut updates = Vec::new();
    for id in 1..=urrs {
        let mut update = adit_pfcp::grouped::UpdateUrr::new(adit_types::UrrId(id));
        update.monitoring_time = Some(MonitoringTime(UPF_STARTED + 1));
        updates.push(update);
    }
    let updates: &'static [_] = Box::leak(updates.into_boxed_slice());
    scene.ask(&modify_with(3, scene.up_seid, |body| body.update_urrs = updates.into()));
    scene.bench.run_until(Nanos::from_secs(2));
}

/// Spec: TS 29.244 §5.2.2.3.1.
#[test]
fn query_of_more_reports_than_fit_names_the_rest_which_follows_with_its_reference() {
    let mut scene = scene(CpFunctionFeatures::empty(), 40);
    split_all(&mut scene, 40);
    let sent = scene.ask(&modify_with(4, scene.up_seid, |body| {
        body.pfcp_sm_req_flags = Some(PfcpSmReqFlags::QAURR);
        body.query_urr_reference = Some(QueryUrrReference(77));
    }));
    let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let additional = body.additional_usage_reports.unwrap();
    let in_answer: Vec<_> = body.usage_reports.iter().collect();
    assert_eq!((in_answer.len(), additional.more, additional.count), (64, true, 16));
    let rest: Vec<_> = report(&sent[1]).usage_reports.iter().collect();
    assert_eq!(rest.len(), 16);
    let reference = Some(QueryUrrReference(77));
    assert!(in_answer.iter().chain(&rest).all(|report| report.query_urr_reference == reference));
}

#[test]
fn reports_that_follow_an_answer_leave_with_the_deletion_that_overtakes_them() {
    let mut scene = scene(CpFunctionFeatures::empty(), 40);
    split_all(&mut scene, 40);
    let query = modify_with(4, scene.up_seid, |body| {
        body.pfcp_sm_req_flags = Some(PfcpSmReqFlags::QAURR);
    });
    scene.bench.node.handle_datagram(scene.bench.now, smf(10), &query);
    let sent = scene.ask(&delete(5, scene.up_seid));
    let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
    assert_eq!(body.additional_usage_reports.map(|more| more.count), Some(16));
    let Message::SessionDeletionResponse(body) = decode(&sent[1].bytes) else { panic!() };
    assert_eq!(body.usage_reports.iter().count(), 16 + 40);
    assert_eq!(scene.bench.node.counters().scalars.reports_of_gone_sessions, 0);
}

/// Spec: TS 29.244 §8.2.58 (ARDR).
#[test]
fn deletion_with_more_reports_than_fit_sends_the_rest_to_who_takes_it() {
    for takes in [true, false] {
        let features = if takes { CpFunctionFeatures::ARDR } else { CpFunctionFeatures::empty() };
        let mut scene = scene(features, 40);
        split_all(&mut scene, 40);
        let sent = scene.ask(&delete(4, scene.up_seid));
        let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
        let in_answer = body.usage_reports.iter().count();
        assert_eq!(in_answer, if takes { 64 } else { 80 });
        assert_eq!(body.additional_usage_reports.map(|more| more.count), takes.then_some(16));
        assert_eq!(sent.len(), 1 + usize::from(takes));
        if takes {
            let rest = report(&sent[1]);
            assert_eq!(rest.usage_reports.iter().count(), 16);
            assert_eq!(rest.pfcp_sr_req_flags, None);
            assert_eq!(raw(&sent[1].bytes).header.seid, Some(Seid(0xc1)));
            assert_eq!(scene.acknowledge(&sent[1]), []);
        }
    }
}

/// Half of the CP functions take the reports that have no room in the answer, and half of the
/// sessions have two per URR.
#[test]
fn deletion_of_a_session_with_as_many_urrs_as_it_may_have_reports_the_usage_of_each() {
    let urrs = u32::try_from(RULES_PER_SESSION_MAX).unwrap();
    for (takes, is_split) in [(true, false), (true, true), (false, false), (false, true)] {
        let features = if takes { CpFunctionFeatures::ARDR } else { CpFunctionFeatures::empty() };
        let mut scene = scene(features, urrs);
        if is_split {
            split_all(&mut scene, urrs);
        }
        for at in 0..RULES_PER_SESSION_MAX {
            scene.count(at, 1000 + u64::try_from(at).unwrap(), 7);
        }
        let mut sent = scene.ask(&delete(4, scene.up_seid));
        let answer = sent.remove(0);
        let Message::SessionDeletionResponse(body) = decode(&answer.bytes) else { panic!() };
        let mut used = BTreeMap::new();
        let mut add = |reports: &mut dyn Iterator<Item = UsageReport<'_>>| {
            for report in reports {
                let (uplink, downlink, ..) = volume(&report);
                let sum: &mut (u64, u64) = used.entry(report.urr_id.0).or_default();
                *sum = (sum.0 + uplink, sum.1 + downlink);
            }
        };
        add(&mut body.usage_reports.iter());
        while let Some(request) = sent.pop() {
            add(&mut report(&request).usage_reports.iter());
            sent.extend(scene.acknowledge(&request));
        }
        let expected = (1..=urrs).map(|id| (id, (999 + u64::from(id), 7)));
        assert_eq!(used, expected.collect(), "{takes} {is_split}");
        let lost = scene.bench.node.counters().scalars;
        assert_eq!((lost.responses_too_long, lost.reports_lost_queue_full), (0, 0));
    }
}

/// Spec: TS 29.244 §5.22.3, §7.5.9.1.
#[test]
fn redirected_report_goes_to_the_other_smf_which_takes_the_session_over() {
    let mut scene = scene(CpFunctionFeatures::MPAS, 1);
    associate(&mut scene.bench, 11, CpFunctionFeatures::MPAS);
    scene.count(0, 1000, 0);
    let sent = scene.limit(0);
    let mut redirection = SessionReportResponse::new(Cause::RedirectionRequested);
    let alternative =
        |host| AlternativeSmfIpAddress { v4: Some(ip(host)), v6: None, preferred: false };
    redirection.alternative_smf_ip_address = Some(alternative(11));
    let sequence = raw(&sent[0].bytes).header.sequence;
    let sent = scene.ask(&encode(Some(scene.up_seid), sequence, &redirection));
    assert_eq!(sent[0].to, smf(11));
    assert_eq!(raw(&sent[0].bytes).header.seid, Some(Seid(0)));
    let body = report(&sent[0]);
    assert_eq!(body.old_cp_f_seid, Some(FSeid::new(Seid(0xc1), IpAddr::V4(ip(10)))));
    assert_eq!(body.usage_reports.iter().count(), 1, "nothing is lost");
    let mut accepts = SessionReportResponse::new(Cause::RequestAccepted);
    accepts.cp_f_seid = Some(FSeid::new(Seid(0x77), IpAddr::V4(ip(11))));
    let sequence = raw(&sent[0].bytes).header.sequence;
    let bytes = encode(Some(scene.up_seid), sequence, &accepts);
    assert_eq!(scene.bench.ask(smf(11), &bytes), []);
    let session = scene.bench.node.store().session(scene.up_seid).unwrap();
    let cp = CpFSeid { seid: Seid(0x77), v4: Some(ip(11)), v6: None };
    assert_eq!(session.cp_f_seid(), cp);
    let owner = scene.bench.node.association(IpAddr::V4(ip(11))).unwrap().owner;
    assert_eq!(session.owner(), owner);
    scene.count(0, 1000, 0);
    let sent = scene.limit(0);
    assert_eq!((sent[0].to, raw(&sent[0].bytes).header.seid), (smf(11), Some(Seid(0x77))));
    assert_eq!(report(&sent[0]).old_cp_f_seid, None);
}

#[test]
fn redirection_to_a_stranger_is_not_followed() {
    let mut scene = scene(CpFunctionFeatures::MPAS, 1);
    scene.count(0, 1000, 0);
    let sent = scene.limit(0);
    let mut redirection = SessionReportResponse::new(Cause::RedirectionRequested);
    redirection.alternative_smf_ip_address =
        Some(AlternativeSmfIpAddress { v4: Some(ip(99)), v6: None, preferred: false });
    let sequence = raw(&sent[0].bytes).header.sequence;
    assert_eq!(scene.ask(&encode(Some(scene.up_seid), sequence, &redirection)), []);
    let scalars = scene.bench.node.counters().scalars;
    assert_eq!((scalars.reports_refused, scalars.reports_redirected), (1, 0));
}

#[test]
fn two_smfs_that_redirect_to_each_other_do_not_keep_a_report_going() {
    let mut scene = scene(CpFunctionFeatures::MPAS, 1);
    associate(&mut scene.bench, 11, CpFunctionFeatures::MPAS);
    scene.count(0, 1000, 0);
    let mut sent = scene.limit(0);
    let mut rounds = 0;
    while let Some(request) = sent.pop() {
        rounds += 1;
        let mut redirection = SessionReportResponse::new(Cause::RedirectionRequested);
        let other = if request.to == smf(10) { 11 } else { 10 };
        redirection.alternative_smf_ip_address =
            Some(AlternativeSmfIpAddress { v4: Some(ip(other)), v6: None, preferred: false });
        let sequence = raw(&request.bytes).header.sequence;
        let bytes = encode(Some(scene.up_seid), sequence, &redirection);
        sent = scene.bench.ask(request.to, &bytes);
    }
    assert_eq!(rounds, 1 + u32::from(adit_types::limits::REPORT_REDIRECTS_MAX));
    assert_eq!(scene.bench.node.counters().scalars.reports_refused, 1);
}

/// Spec: TS 29.244 §5.22.3; TS 23.527 §4.2.
#[test]
fn usage_on_its_way_to_a_failed_smf_goes_to_the_one_that_inherits_the_session() {
    let mut scene = scene(CpFunctionFeatures::MPAS, 1);
    associate(&mut scene.bench, 11, CpFunctionFeatures::MPAS);
    scene.count(0, 1000, 0);
    let first = scene.limit(0);
    let sent = scene.bench.restart(smf(10), 3, SMF_STARTED + 1);
    let again = sent.iter().find(|t| raw(&t.bytes).header.message_type.0 == 56).unwrap();
    assert_eq!(again.to, smf(11));
    let body = report(again);
    let usage: Vec<_> = body.usage_reports.iter().collect();
    assert_eq!(usage, report(&first[0]).usage_reports.iter().collect::<Vec<_>>());
    assert_eq!(body.old_cp_f_seid, Some(FSeid::new(Seid(0xc1), IpAddr::V4(ip(10)))));
}

/// Its usage is not that of the new one.
#[test]
fn session_that_gives_way_to_a_new_one_reports_its_last_usage() {
    let mut scene = scene(CpFunctionFeatures::EPFAR, 1);
    scene.count(0, 300, 40);
    let sent = scene.bench.ask(smf(10), &establish(9, &SessionScript::new(0xc2, 1)));
    let answer = sent.iter().position(|sent| sent.bytes[1] == 51).unwrap();
    let Message::SessionEstablishmentResponse(body) = decode(&sent[answer].bytes) else { panic!() };
    assert!(body.cause.is_accepted());
    let [last] = &sent[answer + 1..] else { panic!("{:?}", types(&sent)) };
    assert_eq!(raw(&last.bytes).header.seid, Some(Seid(0xc1)), "the former session's");
    let body = report(last);
    assert_eq!(body.pfcp_sr_req_flags, Some(PfcpSrReqFlags::PSDBU));
    let reports: Vec<UsageReport<'_>> = body.usage_reports.iter().collect();
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::TEBUR);
    assert_eq!(volume(&reports[0]), (300, 40, 1, 1));
    assert!(scene.acknowledge(last).is_empty());
    assert_eq!(scene.bench.node.store().len(), 1);
}
