//! Usage: reports that a crash neither loses nor doubles, and counts that a crash takes back by a
//! bounded part.

use adit_n4::NodeConfig;
use adit_pfcp::MessageType;
use adit_pfcp::grouped::CreateUrr;
use adit_pfcp::ie::{
    self, CpFunctionFeatures, PfcpAuReqFlags, PfcpSrReqFlags, RecoveryTimeStamp, ReportingTriggers,
    UsageReportTrigger, VolumeQuota,
};
use adit_pfcp::message::{AssociationSetupRequest, AssociationUpdateRequest, SessionReportRequest};
use adit_rules::WorkerEvent;
use adit_session::StoreConfig;
use adit_types::Nanos;

use super::*;
use crate::usage_scene::{report_request, threshold, urr, volume, with_urrs};

fn with_threshold(total: u64) -> CreateUrr<'static> {
    let mut urr = urr(1, ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(total);
    urr
}

fn scene(urr: CreateUrr<'static>) -> Scene {
    Scene::on(associated(), |body| with_urrs(body, list([urr])))
}

/// The UR-SEQN and the octets of the only report of a request.
fn told(transmit: &Transmit) -> (u32, u64) {
    let (_, reports) = report_request(transmit);
    let [report] = &reports[..] else { panic!("{reports:?}") };
    let (ul, dl, ..) = volume(report);
    (report.ur_seqn.0, ul + dl)
}

/// A worker reports a limit; nothing is recorded yet.
fn reach_limit(scene: &mut Scene) {
    let rule = &scene.rules.as_ref().unwrap().urrs[0];
    let (session, slot, generation) = (scene.up_seid, rule.slot, rule.generation);
    let event = WorkerEvent::UsageLimit { session, slot, generation };
    scene.bench.node.handle_event(scene.bench.now, event);
}

fn reports(sent: Vec<Transmit>) -> Vec<Transmit> {
    let is_report = |sent: &Transmit| {
        raw(&sent.bytes).header.message_type == MessageType::SESSION_REPORT_REQUEST
    };
    sent.into_iter().filter(is_report).collect()
}

#[test]
fn report_waits_for_its_record() {
    let mut scene = scene(with_threshold(1000));
    scene.count(0, 1000, 0);
    reach_limit(&mut scene);
    assert_eq!(scene.bench.sent(), []);
    let group = scene.bench.node.poll_records(scene.bench.now).unwrap();
    let kinds: Vec<_> = group.changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [RecordKind::Session, RecordKind::Report]);
    assert_eq!(scene.bench.sent(), []);
    scene.bench.write(group);
    assert_eq!(reports(scene.bench.sent()).len(), 1);
}

#[test]
fn report_that_was_not_recorded_is_made_again_from_what_was() {
    let mut scene = scene(with_threshold(1000));
    scene.count(0, 1000, 0);
    reach_limit(&mut scene);
    let mut later = killed_scene(&scene);
    assert_eq!(reports(later.bench.sent()), []);
    later.count(0, 1100, 0);
    assert_eq!(told(&later.limit(0)[0]), (0, 1100));
}

#[test]
fn report_without_acknowledgement_is_sent_again_with_the_same_numbers() {
    let mut scene = scene(with_threshold(1000));
    scene.count(0, 600, 500);
    let sent = scene.limit(0);
    assert_eq!(told(&sent[0]), (0, 1100));
    scene.count(0, 70, 0);
    let mut later = killed_scene(&scene);
    let again = reports(later.bench.sent());
    assert_eq!(again.len(), 1);
    assert_eq!(report_request(&again[0]), report_request(&sent[0]));
    assert_eq!(again[0].to, sent[0].to);
    later.acknowledge(&again[0]);
    assert_eq!(count_of(&later.bench, RecordKind::Report), 0);
    // Its octets of before are counted already, and those since then are lost with the process.
    later.count(0, 1000, 0);
    assert_eq!(told(&later.limit(0)[0]), (1, 1000), "the next one");
}

#[test]
fn acknowledged_report_is_not_sent_again_and_the_next_one_has_the_next_number() {
    let mut scene = scene(with_threshold(1000));
    for number in 0..3 {
        scene.count(0, 1000, 0);
        let sent = scene.limit(0);
        assert_eq!(told(&sent[0]), (number, 1000));
        assert_eq!(count_of(&scene.bench, RecordKind::Report), 1);
        scene.acknowledge(&sent[0]);
        assert_eq!(count_of(&scene.bench, RecordKind::Report), 0);
        scene = killed_scene(&scene);
        assert_eq!(reports(scene.bench.sent()), []);
    }
}

#[test]
fn reports_that_wait_behind_one_in_flight_follow_it_in_their_order() {
    let mut scene = scene(with_threshold(10));
    scene.count(0, 10, 0);
    assert_eq!(scene.limit(0).len(), 1);
    for count in [20, 30] {
        scene.count(0, count, 0);
        assert_eq!(scene.limit(0), []);
    }
    let mut later = killed_scene(&scene);
    let sent = reports(later.bench.sent());
    let mut all: Vec<_> = Vec::new();
    for request in &sent {
        let (_, reports) = report_request(request);
        all.extend(reports.iter().map(|report| (report.ur_seqn.0, volume(report).0)));
    }
    assert_eq!(all, [(0, 10), (1, 20), (2, 30)]);
    later.acknowledge(&sent[0]);
    assert_eq!(count_of(&later.bench, RecordKind::Report), 0);
}

/// The CP function deleted the session, and its answer said that usage is on its way (PURU).
#[test]
fn report_in_flight_of_a_deleted_session_is_sent_again() {
    let mut scene = scene(with_threshold(1000));
    scene.count(0, 1000, 0);
    let sent = scene.limit(0);
    let answer = scene.ask(&delete(3, scene.up_seid));
    let Message::SessionDeletionResponse(body) = decode(&answer[0].bytes) else { panic!() };
    assert_eq!(body.pfcp_sd_rsp_flags, Some(ie::PfcpSdRspFlags::PURU));
    let mut later = killed_scene(&scene);
    let again = reports(later.bench.sent());
    let [again] = &again[..] else { panic!("{again:?}") };
    assert_eq!((again.to, told(again)), (sent[0].to, (0, 1000)));
    assert_eq!(raw(&again.bytes).header.seid, raw(&sent[0].bytes).header.seid);
    let Message::SessionReportRequest(body) = decode(&again.bytes) else { panic!() };
    assert_eq!(body.pfcp_sr_req_flags, None);
    later.acknowledge(again);
    assert_eq!(count_of(&later.bench, RecordKind::Report), 0);
}

fn quota(total: u64) -> CreateUrr<'static> {
    let mut urr = urr(1, ReportingTriggers::VOLQU);
    urr.volume_quota = Some(VolumeQuota { total: Some(total), ..VolumeQuota::default() });
    urr
}

/// 400 of 1000 octets were recorded and 250 came afterwards: a later process lets 600 pass.
#[test]
fn quota_is_exceeded_by_no_more_than_was_counted_since_the_last_record() {
    let mut scene = scene(quota(1000));
    scene.count(0, 300, 100);
    scene.run_until(scene.bench.now + USAGE_INTERVAL);
    scene.count(0, 250, 0);
    let mut later = killed_scene(&scene);
    later.count(0, 599, 0);
    assert_eq!(reports(later.limit(0)), [], "one octet is left");
    later.count(0, 1, 0);
    let sent = reports(later.limit(0));
    assert_eq!(told(&sent[0]), (0, 1000));
    assert!(later.rules.as_ref().unwrap().urrs[0].stopped);
    let later = killed_scene(&later);
    assert!(later.rules.as_ref().unwrap().urrs[0].stopped, "and stays so");
}

#[test]
fn usage_is_recorded_once_in_an_interval_and_not_again_if_it_did_not_change() {
    let heartbeat_interval = Nanos::from_secs(1000);
    let mut bench = begun(NodeConfig { heartbeat_interval, ..kept_config() });
    bench.associate(10);
    let mut scene = Scene::on(bench, |body| with_urrs(body, list([with_threshold(1_000_000)])));
    let usage = (RecordKind::Usage, OwnedRecordId::Number(scene.up_seid.0));
    let mut next = scene.bench.now + USAGE_INTERVAL;
    scene.count(0, 10, 0);
    scene.run_until(Nanos(next.0 - 1));
    assert!(!scene.bench.records.contains_key(&usage));
    let mut former = Vec::new();
    for round in 1..=3 {
        scene.run_until(next);
        let recorded = scene.bench.records[&usage].clone();
        assert_ne!(recorded, former, "round {round}");
        former = recorded;
        scene.count(0, 10, 0);
        next += USAGE_INTERVAL;
    }
    scene.run_until(next);
    // Without traffic the store gets nothing.
    scene.bench.node.handle_timeout(scene.bench.now);
    for _ in 0..3 {
        next += USAGE_INTERVAL;
        scene.bench.now = next;
        scene.bench.node.handle_timeout(next);
        assert_eq!(scene.bench.node.poll_records(next), None);
    }
}

#[test]
fn record_of_the_session_takes_the_place_of_its_usage() {
    let mut scene = scene(with_threshold(1000));
    scene.count(0, 300, 0);
    scene.run_until(scene.bench.now + USAGE_INTERVAL);
    assert_eq!(count_of(&scene.bench, RecordKind::Usage), 1);
    scene.count(0, 200, 0);
    scene.ask(&move_to(3, scene.up_seid, adit_types::Teid(3)));
    assert_eq!(count_of(&scene.bench, RecordKind::Usage), 0);
    let mut later = killed_scene(&scene);
    later.count(0, 500, 0);
    let sent = later.limit(0);
    assert_eq!(told(&sent[0]), (0, 1000));
    later.acknowledge(&sent[0]);
    // With a deletion it goes as well.
    later.count(0, 1, 0);
    later.run_until(later.bench.now + USAGE_INTERVAL + USAGE_INTERVAL);
    assert_eq!(count_of(&later.bench, RecordKind::Usage), 1);
    later.ask(&delete(4, later.up_seid));
    assert_eq!(count_of(&later.bench, RecordKind::Usage), 0);
    assert_eq!(count_of(&later.bench, RecordKind::Session), 0);
}

/// More sessions than one turn looks at.
#[test]
fn all_sessions_are_recorded_within_the_interval_and_at_the_end_at_once() {
    for at_once in [false, true] {
        let store = StoreConfig { sessions_max: 4000, ..config().store };
        let mut bench = begun(NodeConfig { store, ..kept_config() });
        bench.associate(10);
        let urrs = list([with_threshold(1_000_000)]);
        for number in 1..=200 {
            let script = SessionScript::new(1, number);
            let request = establish_with(100 + u32::from(number), &script, |body| {
                with_urrs(body, urrs);
            });
            bench.answer(smf(10), &request);
        }
        if at_once {
            bench.node.record_all_usage(bench.now);
            bench.store_all();
        } else {
            bench.now += USAGE_INTERVAL;
            let mut turns = 0;
            while bench.node.poll_timeout().is_some_and(|at| at <= bench.now) {
                bench.node.handle_timeout(bench.now);
                let changes = bench.node.poll_records(bench.now).map_or(0, |group| {
                    let changes = group.changes.len();
                    bench.write(group);
                    changes
                });
                assert!(changes <= 64, "{changes}");
                turns += 1;
            }
            assert!(turns >= 4);
        }
        assert_eq!(count_of(&bench, RecordKind::Usage), 200);
    }
}

/// Spec: TS 29.244 §5.18 (EPFAR).
#[test]
fn last_usage_of_a_session_that_this_node_ended_survives_until_it_is_acknowledged() {
    let mut bench = begun(kept_config());
    let node_id = ie::NodeId::Ipv4(ip(10));
    let mut body = AssociationSetupRequest::new(node_id, RecoveryTimeStamp(SMF_STARTED));
    body.cp_function_features = Some(CpFunctionFeatures::EPFAR);
    bench.answer(smf(10), &encode(None, 1, &body));
    let mut scene = Scene::on(bench, |body| with_urrs(body, list([with_threshold(1000)])));
    scene.count(0, 300, 40);
    let mut body = AssociationUpdateRequest::new(ie::NodeId::Ipv4(ip(10)));
    body.pfcp_au_req_flags = Some(PfcpAuReqFlags::PARPS);
    let sent = scene.ask(&encode(None, 3, &body));
    assert_eq!(reports(sent).len(), 1);
    assert_eq!(count_of(&scene.bench, RecordKind::Session), 0);
    let mut later = killed_scene(&scene);
    let sent = reports(later.bench.sent());
    let [report] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((report.to, raw(&report.bytes).header.seid), (smf(10), Some(Seid(0xc1))));
    let Message::SessionReportRequest(body) = decode(&report.bytes) else { panic!() };
    let SessionReportRequest { pfcp_sr_req_flags, usage_reports, .. } = body;
    assert_eq!(pfcp_sr_req_flags, Some(PfcpSrReqFlags::PSDBU), "the last one");
    let usage = usage_reports.first().unwrap();
    assert_eq!(usage.usage_report_trigger, UsageReportTrigger::TEBUR);
    assert_eq!(volume(&usage), (300, 40, 1, 1));
    later.acknowledge(report);
    assert_eq!(count_of(&later.bench, RecordKind::Report), 0);
    assert_eq!(reports(killed_scene(&later).bench.sent()), []);
}

/// Spec: TS 29.244 §5.18 (EPFAR).
#[test]
fn last_usage_of_a_session_that_is_set_aside_is_reported_when_it_is_discarded() {
    for takes_reports in [true, false] {
        let mut bench = begun(kept_config());
        let node_id = ie::NodeId::Ipv4(ip(10));
        let mut body = AssociationSetupRequest::new(node_id, RecoveryTimeStamp(SMF_STARTED));
        body.cp_function_features = takes_reports.then_some(CpFunctionFeatures::EPFAR);
        bench.answer(smf(10), &encode(None, 1, &body));
        let mut scene = Scene::on(bench, |body| with_urrs(body, list([with_threshold(1000)])));
        scene.count(0, 300, 40);
        scene.bench.node.record_all_usage(scene.bench.now);
        scene.bench.store_all();
        let mut config = scene.bench.node.config().clone();
        config.store.provisioning.interfaces.remove(0);
        let mut later = killed_into(&scene.bench, config);
        assert!(later.node.store().is_empty());
        later.store_all();
        assert_eq!(reports(later.sent()), [], "it may come back");
        assert!(later.node.discard_set_aside(later.now, scene.up_seid));
        later.node.handle_timeout(later.now);
        later.store_all();
        let sent = reports(later.sent());
        assert_eq!(count_of(&later, RecordKind::Session), 0);
        if !takes_reports {
            assert_eq!(sent, []);
            continue;
        }
        let [report] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!((report.to, raw(&report.bytes).header.seid), (smf(10), Some(Seid(0xc1))));
        let Message::SessionReportRequest(body) = decode(&report.bytes) else { panic!() };
        assert_eq!(body.pfcp_sr_req_flags, Some(PfcpSrReqFlags::PSDBU));
        let usage = body.usage_reports.first().unwrap();
        assert_eq!(usage.usage_report_trigger, UsageReportTrigger::TEBUR);
        assert_eq!(volume(&usage), (300, 40, 1, 1));
        // The report is kept until it is acknowledged.
        assert_eq!(count_of(&later, RecordKind::Report), 1);
    }
}
