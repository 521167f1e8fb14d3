//! Usage over N4: URRs of a scripted SMF, reports in answers and as session reports, byte-identical
//! retransmissions, and no octet lost or counted twice.

use adit_n4::{NodeConfig, Transmit};
use adit_pfcp::grouped::{AdditionalMonitoringTime, CreateUrr, QueryUrr, RemoveUrr, UpdateUrr};
use adit_pfcp::ie::{
    EventQuota, EventThreshold, FailedRuleId, InactivityDetectionTime, MeasurementInformation,
    MeasurementMethod, MeasurementPeriod, MonitoringTime, NumberOfReports, PfcpSmReqFlags,
    ReportType, ReportingTriggers, TimeQuotaMechanism, UsageInformation, UsageReportTrigger,
    UserPlaneInactivityTimer, VolumeQuota,
};
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::WorkerEvent;
use adit_types::{Nanos, PdrId, Seid, UrrId};

use crate::smf::*;
use crate::usage_scene::*;

#[test]
fn threshold_reached_is_reported_to_the_smf_and_retransmitted_until_acknowledged() {
    let mut urr = urr(7, ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(1000);
    let mut scene = Scene::new([urr]);
    scene.bench.now = Nanos::from_secs(5);
    scene.count(0, 700, 400);
    let sent = scene.limit(0);
    assert_eq!(sent.len(), 1);
    let (report_type, reports) = report_request(&sent[0]);
    assert_eq!((report_type, reports.len()), (ReportType::USAR, 1));
    let report = &reports[0];
    assert_eq!((report.urr_id, report.ur_seqn.0), (UrrId(7), 0));
    assert_eq!(report.usage_report_trigger, UsageReportTrigger::VOLTH);
    assert_eq!(volume(report), (700, 400, 1, 1));
    assert_eq!(report.start_time.unwrap().0, UPF_STARTED);
    assert_eq!(report.end_time.unwrap().0, UPF_STARTED + 5);
    assert_eq!(report.time_of_last_packet.unwrap().0, UPF_STARTED + 5);
    let again = scene.bench.run_until(scene.bench.now + T1);
    assert!(again.contains(&sent[0]), "byte-identical");
    assert_eq!(scene.acknowledge(&sent[0]), []);
    let quiet = scene.bench.run_until(scene.bench.now + T1);
    assert!(quiet.iter().all(|transmit| raw(&transmit.bytes).header.message_type.0 == 1));
    assert_eq!(scene.limit(0), [], "the next threshold is not reached");
}

#[test]
fn query_is_answered_with_the_usage_and_a_retransmission_with_the_same_octets() {
    let mut scene =
        Scene::new([urr(1, ReportingTriggers::empty()), urr(2, ReportingTriggers::empty())]);
    scene.count(0, 10, 0);
    scene.count(1, 0, 20);
    let queries = list([QueryUrr::new(UrrId(2))]);
    let request = modify_with(3, scene.up_seid, |body| body.query_urrs = queries.into());
    let sent = scene.ask(&request);
    let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let reports: Vec<_> = body.usage_reports.iter().collect();
    assert_eq!((reports.len(), volume(&reports[0])), (1, (0, 20, 0, 1)));
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::IMMER);
    scene.count(1, 0, 5);
    assert_eq!(scene.ask(&request)[0].bytes, sent[0].bytes);
    let flags = Some(PfcpSmReqFlags::QAURR);
    let request = modify_with(4, scene.up_seid, |body| body.pfcp_sm_req_flags = flags);
    let sent = scene.ask(&request);
    let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let reports: Vec<_> = body.usage_reports.iter().map(|report| volume(&report)).collect();
    assert_eq!(reports, [(10, 0, 1, 0), (0, 5, 0, 1)]);
}

#[test]
fn deletion_is_answered_with_what_was_counted_until_the_workers_observed_it() {
    let mut scene = Scene::new([urr(1, ReportingTriggers::empty())]);
    scene.count(0, 100, 0);
    let slot = scene.rules.as_ref().unwrap().urrs[0].slot;
    let request = delete(3, scene.up_seid);
    scene.bench.node.handle_datagram(scene.bench.now, smf(10), &request);
    scene.count_in(slot, 11, 0);
    assert_eq!(scene.bench.sent(), [], "the answer waits");
    scene.publish();
    let sent = scene.bench.sent();
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let reports: Vec<_> = body.usage_reports.iter().collect();
    assert_eq!((reports.len(), volume(&reports[0])), (1, (111, 0, 2, 0)));
    assert_eq!(scene.bench.node.counters().scalars.responses_too_long, 0);
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::TERMR);
    let again = scene.ask(&request);
    assert_eq!(again[0].bytes, sent[0].bytes, "a retransmission gets the same octets");
}

#[test]
fn removed_urr_is_reported_in_the_answer() {
    let mut scene = Scene::new([urr(1, ReportingTriggers::empty())]);
    scene.count(0, 100, 0);
    let removes = list([RemoveUrr::new(UrrId(1))]);
    let request = modify_with(3, scene.up_seid, |body| body.remove_urrs = removes.into());
    let sent = scene.ask(&request);
    let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let reports: Vec<_> = body.usage_reports.iter().collect();
    assert_eq!((reports.len(), volume(&reports[0])), (1, (100, 0, 1, 0)));
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::TERMR);
}

#[test]
fn usage_that_waits_behind_a_report_leaves_with_the_answer_to_the_deletion() {
    let mut urr = urr(1, ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(10);
    let mut scene = Scene::new([urr]);
    scene.count(0, 10, 0);
    let first = scene.limit(0);
    scene.count(0, 20, 0);
    assert_eq!(scene.limit(0), [], "one report at a time");
    scene.count(0, 3, 0);
    let sent = scene.ask(&delete(3, scene.up_seid));
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let reports: Vec<_> = body.usage_reports.iter().collect();
    let volumes: Vec<_> = reports.iter().map(|r| (r.ur_seqn.0, volume(r).0)).collect();
    assert_eq!(volumes, [(1, 20), (2, 3)]);
    let again = scene.bench.run_until(T1);
    assert!(again.contains(&first[0]), "the report in flight is not given up");
}

#[test]
fn quota_used_up_is_reported_and_a_new_one_lets_packets_pass() {
    let quota = |total| Some(VolumeQuota { total: Some(total), ..VolumeQuota::default() });
    let mut urr = urr(1, ReportingTriggers::VOLQU);
    urr.volume_quota = quota(100);
    let mut scene = Scene::new([urr]);
    scene.count(0, 60, 60);
    let sent = scene.limit(0);
    let (_, reports) = report_request(&sent[0]);
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::VOLQU);
    assert!(scene.rules.as_ref().unwrap().urrs[0].stopped);
    let mut update = UpdateUrr::new(UrrId(1));
    update.volume_quota = quota(1000);
    let updates = list([update]);
    scene.ask(&modify_with(3, scene.up_seid, |body| body.update_urrs = updates.into()));
    let entry = &scene.rules.as_ref().unwrap().urrs[0];
    assert_eq!((entry.stopped, entry.quota.total_bytes), (false, 1120));
}

#[test]
fn periodic_reports_and_inactivity_come_by_themselves() {
    let mut urr = urr(1, ReportingTriggers::PERIO);
    urr.measurement_period = Some(MeasurementPeriod(60));
    let urrs = list([urr]);
    let mut scene = Scene::with(|body| {
        with_urrs(body, urrs);
        body.user_plane_inactivity_timer = Some(UserPlaneInactivityTimer(90));
    });
    let mut reports = Vec::new();
    for second in 0..=150 {
        let sent = scene.bench.run_until(Nanos::from_secs(second));
        for transmit in &sent {
            match decode(&transmit.bytes) {
                Message::SessionReportRequest(body) => {
                    let trigger = body.usage_reports.iter().next().map(|r| r.usage_report_trigger);
                    reports.push((second, body.report_type, trigger));
                    scene.acknowledge(transmit);
                }
                Message::HeartbeatRequest(_) => {
                    let sequence = raw(&transmit.bytes).header.sequence;
                    let time = adit_pfcp::ie::RecoveryTimeStamp(SMF_STARTED);
                    let body = adit_pfcp::message::HeartbeatResponse::new(time);
                    scene.ask(&encode(None, sequence, &body));
                }
                _ => {}
            }
        }
    }
    let periodic = Some(UsageReportTrigger::PERIO);
    let expected = [
        (60, ReportType::USAR, periodic),
        (90, ReportType::UPIR, None),
        (120, ReportType::USAR, periodic),
    ];
    assert_eq!(reports, expected);
}

#[test]
fn monitoring_time_of_day_splits_the_report() {
    let mut urr = urr(1, ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(1000);
    urr.monitoring_time = Some(MonitoringTime(UPF_STARTED + 5));
    let mut scene = Scene::new([urr]);
    scene.count(0, 600, 0);
    scene.bench.now = Nanos::from_secs(5);
    scene.bench.node.handle_timeout(scene.bench.now);
    scene.publish();
    scene.count(0, 0, 400);
    let transmits = scene.limit(0);
    let report = transmits.iter().find(|t| raw(&t.bytes).header.message_type.0 == 56).unwrap();
    let (_, reports) = report_request(report);
    let parts: Vec<_> = reports.iter().map(|r| (r.usage_information.unwrap(), volume(r))).collect();
    let expected =
        [(UsageInformation::BEF, (600, 0, 1, 0)), (UsageInformation::AFT, (0, 400, 0, 1))];
    assert_eq!(parts, expected);
    assert_eq!(reports[0].end_time.unwrap().0, UPF_STARTED + 5);
}

/// free5GC's SMF has two such URRs per session, and cannot read a report with a Usage Information
/// that nothing requires. Spec: TS 29.244 tables 7.5.5.2-2, 7.5.7.2-1 and 7.5.8.3-1.
#[test]
fn usage_information_is_present_only_where_a_monitoring_time_splits_a_report() {
    let before_qos = |id, triggers| CreateUrr {
        measurement_information: Some(MeasurementInformation::MNOP | MeasurementInformation::MBQE),
        ..urr(id, triggers)
    };
    let mut limited = before_qos(1, ReportingTriggers::VOLTH);
    limited.volume_threshold = threshold(1000);
    let mut split = before_qos(2, ReportingTriggers::empty());
    split.monitoring_time = Some(MonitoringTime(UPF_STARTED + 5));
    let mut scene = Scene::new([limited, split]);
    scene.count(0, 1000, 0);
    let sent = scene.limit(0);
    let (_, reports) = report_request(&sent[0]);
    assert_eq!((reports.len(), reports[0].usage_information), (1, None), "a session report");
    scene.acknowledge(&sent[0]);
    let queries = list([QueryUrr::new(UrrId(1))]);
    let request = modify_with(3, scene.up_seid, |body| body.query_urrs = queries.into());
    let sent = scene.ask(&request);
    let Message::SessionModificationResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let reports: Vec<_> =
        body.usage_reports.iter().map(|report| report.usage_information).collect();
    assert_eq!(reports, [None]);
    scene.run_until(Nanos::from_secs(6));
    let sent = scene.ask(&delete(4, scene.up_seid));
    let Message::SessionDeletionResponse(body) = decode(&sent[0].bytes) else { panic!() };
    let reports: Vec<_> = body
        .usage_reports
        .iter()
        .map(|report| (report.urr_id.0, report.usage_information))
        .collect();
    let (before, after) = (UsageInformation::BEF, UsageInformation::AFT);
    let part = |part| Some(part | UsageInformation::UBE);
    assert_eq!(reports, [(1, None), (2, part(before)), (2, part(after))]);
}

/// Traffic of one packet begins.
fn begin_traffic(scene: &mut Scene, at: Nanos) -> Vec<Transmit> {
    let mut sent = scene.run_until(at);
    scene.count(0, 100, 0);
    let urr = &scene.rules.as_ref().unwrap().urrs[0];
    let (session, slot, generation) = (scene.up_seid, urr.slot, urr.generation);
    let event = WorkerEvent::TrafficStarted { session, slot, generation, at, pdr: PdrId(1) };
    scene.bench.node.handle_event(at, event);
    scene.publish();
    sent.extend(scene.bench.sent());
    let is_report = |t: &Transmit| raw(&t.bytes).header.message_type.0 == 56;
    sent.into_iter().filter(is_report).collect()
}

/// A notice is about a moment. Spec: TS 29.244 table 7.5.8.3-1.
#[test]
fn start_of_traffic_is_reported_without_the_times_of_a_measurement() {
    let mut scene = Scene::new([urr(1, ReportingTriggers::START)]);
    let sent = begin_traffic(&mut scene, Nanos::from_secs(2));
    let (_, reports) = report_request(&sent[0]);
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::START);
    assert_eq!((reports[0].start_time, reports[0].end_time), (None, None));
    assert_eq!(reports[0].volume_measurement, None);
}

/// Spec: TS 29.244 §8.2.112, §8.2.113, §8.2.114.
#[test]
fn events_are_reported_with_their_time_stamps_and_a_quota_stops_further_ones() {
    let method = MeasurementMethod::EVENT;
    let triggers = ReportingTriggers::EVETH | ReportingTriggers::EVEQU;
    let mut urr = CreateUrr::new(UrrId(1), method, triggers);
    urr.event_threshold = Some(EventThreshold(2));
    urr.event_quota = Some(EventQuota(3));
    urr.inactivity_detection_time = Some(InactivityDetectionTime(1));
    let mut scene = Scene::new([urr]);
    scene.bench.node.handle_timeout(Nanos(0));
    assert_eq!(begin_traffic(&mut scene, Nanos::from_secs(2)), []);
    let sent = begin_traffic(&mut scene, Nanos::from_secs(5));
    let (_, reports) = report_request(&sent[0]);
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::EVETH);
    let stamps: Vec<u32> = reports[0].event_time_stamps.iter().map(|stamp| stamp.0).collect();
    assert_eq!(stamps, [UPF_STARTED + 2, UPF_STARTED + 5]);
    scene.acknowledge(&sent[0]);
    let sent = begin_traffic(&mut scene, Nanos::from_secs(8));
    let (_, reports) = report_request(&sent[0]);
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::EVEQU);
    scene.acknowledge(&sent[0]);
    assert!(!scene.rules.as_ref().unwrap().urrs[0].stopped);
    scene.run_until(Nanos::from_secs(9));
    assert!(scene.rules.as_ref().unwrap().urrs[0].stopped);
}

/// Spec: TS 29.244 §7.5.2.4, §8.2.81, §8.2.133, tables 7.5.2.4-1 and 7.5.2.4-3.
#[test]
fn envelopes_monitoring_times_and_the_number_of_reports_come_through() {
    let method = MeasurementMethod::DURAT | MeasurementMethod::VOLUM;
    let mut urr = CreateUrr::new(UrrId(1), method, ReportingTriggers::ENVCL);
    urr.time_quota_mechanism = Some(TimeQuotaMechanism { interval_type: 1, interval_secs: 10 });
    urr.number_of_reports = Some(NumberOfReports(1));
    urr.measurement_information = Some(MeasurementInformation::MNOP);
    urr.monitoring_time = Some(MonitoringTime(UPF_STARTED + 6));
    let further = AdditionalMonitoringTime::new(MonitoringTime(UPF_STARTED + 4));
    urr.additional_monitoring_times = list([further]).into();
    let mut scene = Scene::new([urr]);
    scene.bench.node.handle_timeout(Nanos(0));
    assert_eq!(begin_traffic(&mut scene, Nanos::from_secs(3)), []);
    let sent = scene.run_until(Nanos::from_secs(13));
    let sent: Vec<_> =
        sent.into_iter().filter(|t| raw(&t.bytes).header.message_type.0 == 56).collect();
    let (_, reports) = report_request(&sent[0]);
    let parts: Vec<_> =
        reports.iter().map(|r| (r.usage_information.unwrap(), volume(r).0)).collect();
    let (before, after) = (UsageInformation::BEF, UsageInformation::AFT);
    assert_eq!(parts, [(before, 100), (before | after, 0), (after, 0)]);
    assert_eq!(reports[2].usage_report_trigger, UsageReportTrigger::ENVCL);
    let durations = reports.iter().map(|r| r.duration_measurement.unwrap().0);
    assert_eq!(durations.sum::<u32>(), 10);
    scene.acknowledge(&sent[0]);
    assert_eq!(begin_traffic(&mut scene, Nanos::from_secs(20)), []);
    let later = scene.run_until(Nanos::from_secs(60));
    assert!(later.iter().all(|t| raw(&t.bytes).header.message_type.0 != 56), "one report only");
}

/// Spec: TS 29.244 §8.2.19 (REEMR), §8.2.41 (EMRRE).
#[test]
fn end_marker_from_a_peer_is_reported() {
    let mut scene = Scene::new([urr(1, ReportingTriggers::REEMR)]);
    let session = scene.bench.node.store().session(scene.up_seid).unwrap().index();
    scene.bench.node.handle_event(scene.bench.now, WorkerEvent::EndMarker { session });
    let sent = scene.bench.sent();
    let (report_type, reports) = report_request(&sent[0]);
    assert_eq!(report_type, ReportType::USAR);
    assert_eq!(reports[0].usage_report_trigger, UsageReportTrigger::EMRRE);
    assert_eq!(reports[0].volume_measurement, None);
}

#[test]
fn urr_that_we_cannot_act_on_is_refused_with_its_ie_and_rule() {
    let refusal = |urr: CreateUrr<'static>| {
        let mut bench = Bench::associated();
        let urrs = list([urr]);
        let request = establish_with(2, &SessionScript::new(0xc1, 1), |b| with_urrs(b, urrs));
        let bytes = bench.answer(smf(10), &request);
        let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
        (body.cause, body.offending_ie.map(|ie| IeType(ie.0)), body.failed_rule_id)
    };
    let rule = Some(FailedRuleId::Urr(UrrId(1)));
    let unsupported = |ie| (Cause::ServiceNotSupported, Some(ie), rule);
    for trigger in [ReportingTriggers::MACAR, ReportingTriggers::IPMJL] {
        assert_eq!(refusal(urr(1, trigger)), unsupported(IeType::REPORTING_TRIGGERS));
    }
    let mut pauses = urr(1, ReportingTriggers::empty());
    pauses.measurement_information = Some(MeasurementInformation::ASPOC);
    assert_eq!(refusal(pauses), unsupported(IeType::MEASUREMENT_INFORMATION));
    let mut spare = urr(1, ReportingTriggers::empty());
    spare.time_quota_mechanism = Some(TimeQuotaMechanism { interval_type: 2, interval_secs: 1 });
    assert_eq!(refusal(spare), unsupported(IeType::TIME_QUOTA_MECHANISM));
    let mut none = urr(1, ReportingTriggers::empty());
    none.number_of_reports = Some(NumberOfReports(0));
    let incorrect = (Cause::MandatoryIeIncorrect, Some(IeType::NUMBER_OF_REPORTS), rule);
    assert_eq!(refusal(none), incorrect);
    for (trigger, ie) in [
        (ReportingTriggers::EVETH, IeType::EVENT_THRESHOLD),
        (ReportingTriggers::ENVCL, IeType::TIME_QUOTA_MECHANISM),
    ] {
        assert_eq!(refusal(urr(1, trigger)), (Cause::ConditionalIeMissing, Some(ie), rule));
    }
    let (cause, ie, failed) = refusal(urr(1, ReportingTriggers::PERIO));
    let expected = (Cause::ConditionalIeMissing, Some(IeType::MEASUREMENT_PERIOD), rule);
    assert_eq!((cause, ie, failed), expected);
}

/// The usage of a URR in a request: UR-SEQN, trigger and octets uplink and downlink.
fn usage_of(request: &Transmit) -> Vec<(u32, UsageReportTrigger, u64, u64)> {
    let (_, reports) = report_request(request);
    let of = |report: &adit_pfcp::grouped::UsageReport<'_>| {
        let (ul, dl, _, _) = volume(report);
        (report.ur_seqn.0, report.usage_report_trigger, ul, dl)
    };
    reports.iter().map(of).collect()
}

fn session_reports(sent: &[Transmit]) -> Vec<Transmit> {
    sent.iter().filter(|t| raw(&t.bytes).header.message_type.0 == 56).cloned().collect()
}

fn refuse(scene: &mut Scene, request: &adit_n4::Transmit, cause: Cause) {
    let body = adit_pfcp::message::SessionReportResponse::new(cause);
    let sequence = raw(&request.bytes).header.sequence;
    assert!(scene.ask(&encode(Some(Seid(1)), sequence, &body)).is_empty(), "a pause");
}

/// A report that was not accepted is sent again as it was; usage meanwhile is in the next one.
#[test]
fn usage_that_is_not_delivered_is_sent_again_with_its_number() {
    let causes = [
        Cause::RequestRejected,
        Cause::MandatoryIeMissing,
        Cause::EntityInCongestion,
        Cause::SystemFailure,
    ];
    for cause in causes.map(Some).into_iter().chain([None]) {
        let mut urr = urr(1, ReportingTriggers::VOLTH);
        urr.volume_threshold = threshold(1000);
        let mut scene = Scene::new([urr]);
        scene.count(0, 1000, 0);
        let first = scene.limit(0);
        let expected = usage_of(&first[0]);
        assert_eq!(expected[0].0, 0);
        match cause {
            Some(cause) => refuse(&mut scene, &first[0], cause),
            None => {
                let span = Nanos(T1.0 * u64::from(N1 + 1));
                let copies = session_reports(&scene.run_until(span));
                assert_eq!(copies.len(), 3, "of the first request only");
            }
        }
        // Two more reports while nothing can be sent: their usage leaves in one report.
        for _ in 0..2 {
            scene.count(0, 1000, 500);
            assert_eq!(scene.limit(0), []);
        }
        let due = scene.bench.now + Nanos::from_secs(1);
        let again = session_reports(&scene.run_until(due));
        assert_eq!(again.len(), 1, "{cause:?}");
        let reported = usage_of(&again[0]);
        assert_eq!(reported[0], expected[0], "{cause:?}");
        assert_eq!(reported[1..], [(2, UsageReportTrigger::VOLTH, 2000, 1000)], "{cause:?}");
        assert_eq!(session_reports(&scene.acknowledge(&again[0])), []);
        let later = scene.bench.now + Nanos::from_secs(70);
        assert_eq!(session_reports(&scene.run_until(later)), []);
    }
}

/// The session ended, and nobody was reachable for long.
#[test]
fn last_usage_that_the_cp_function_refuses_again_and_again_is_given_up_and_counted() {
    let mut urr = urr(1, ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(1000);
    let heartbeat_interval = Nanos::from_secs(100_000);
    let mut bench = Bench::with(NodeConfig { heartbeat_interval, ..config() });
    bench.associate(10);
    let mut scene = Scene::on(bench, |body| with_urrs(body, list([urr])));
    scene.count(0, 1000, 0);
    let mut sent = scene.limit(0);
    let deletion = delete(9, scene.up_seid);
    scene.ask(&deletion);
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        refuse(&mut scene, &sent[0], Cause::EntityInCongestion);
        let due = scene.bench.now + Nanos::from_secs(seconds);
        sent = session_reports(&scene.run_until(due));
        assert_eq!((sent.len(), usage_of(&sent[0])[0].0), (1, 0));
    }
    refuse(&mut scene, &sent[0], Cause::EntityInCongestion);
    let later = scene.bench.now + Nanos::from_secs(130);
    assert_eq!(session_reports(&scene.run_until(later)), []);
    let scalars = scene.bench.node.counters().scalars;
    assert_eq!((scalars.usage_reports_given_up, scalars.reports_refused), (1, 10));
}
