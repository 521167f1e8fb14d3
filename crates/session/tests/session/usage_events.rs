//! Events, envelopes, several monitoring times, numbered reports and pauses, in virtual time.

use adit_rules::UrrEntry;
use adit_session::{
    Aggregated, Exempted, MeasurementInformation, MeasurementMethod, Refusal, SdfSpec,
    SessionChange, TimeMechanism, TrafficStart, Urr, UrrSettings, UrrUpdate, UsagePart,
    UsageReport, UsageTriggers,
};
use adit_types::limits::{
    EVENTS_PER_REPORT_MAX, EXEMPTED_APPLICATIONS_PER_URR_MAX, MONITORING_TIMES_PER_URR_MAX,
};
use adit_types::{Nanos, PdrId, UrrId};

use crate::builders::{CP, OWNER, session, store};
use crate::usage::{S, UsageFixture, bytes, split_at, total, volume_urr};

fn event_urr(triggers: UsageTriggers, settings: UrrSettings) -> Urr {
    let method = MeasurementMethod { event: true, ..MeasurementMethod::default() };
    let inactivity_detection_time = Some(S(10));
    let settings = UrrSettings { inactivity_detection_time, ..settings };
    Urr { id: UrrId(1), method, triggers, settings }
}

/// Traffic of one packet at `second`: an event.
fn event(scene: &mut UsageFixture, second: u64) -> Vec<UsageReport> {
    let mut reports: Vec<_> = scene.run_until(S(second)).into_iter().map(|(_, r)| r).collect();
    scene.count(0, S(second), 100, 0);
    reports.extend(scene.start(0, S(second)));
    reports
}

fn update(scene: &mut UsageFixture, at: Nanos, settings: UrrSettings) -> Vec<UsageReport> {
    let update = UrrUpdate { id: UrrId(1), settings: settings.into(), ..UrrUpdate::default() };
    scene.modify(SessionChange { update_urrs: vec![update], at, ..SessionChange::default() })
}

#[test]
fn event_threshold_counts_starts_of_traffic_and_reports_their_times() {
    let settings = UrrSettings { event_threshold: Some(3), ..UrrSettings::default() };
    let mut scene = UsageFixture::new(vec![event_urr(UsageTriggers::EVENT_THRESHOLD, settings)]);
    assert_eq!(event(&mut scene, 1), []);
    scene.count(0, S(5), 100, 0);
    assert!(!scene.urrs[0].report_start, "one event goes on");
    assert_eq!(event(&mut scene, 100), []);
    let reports = event(&mut scene, 200);
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].triggers, UsageTriggers::EVENT_THRESHOLD);
    assert_eq!(reports[0].events, [S(1), S(100), S(200)]);
    assert_eq!((reports[0].volume, reports[0].duration_s), (None, None));
    assert_eq!([event(&mut scene, 300), event(&mut scene, 400)], [[], []]);
    assert_eq!(event(&mut scene, 500)[0].events, [S(300), S(400), S(500)]);
}

#[test]
fn event_quota_lets_its_last_event_end_and_stops_the_next() {
    let settings = UrrSettings { event_quota: Some(2), ..UrrSettings::default() };
    let mut scene = UsageFixture::new(vec![event_urr(UsageTriggers::EVENT_QUOTA, settings)]);
    assert_eq!(event(&mut scene, 1), []);
    let reports = event(&mut scene, 100);
    assert_eq!((reports[0].triggers, reports[0].events.len()), (UsageTriggers::EVENT_QUOTA, 2));
    assert!(!scene.urrs[0].stopped, "the second event goes on");
    assert_eq!(scene.run_until(S(150)), []);
    assert!(scene.urrs[0].stopped);
    let more = UrrSettings { event_quota: Some(1), ..UrrSettings::default() };
    update(&mut scene, S(160), more);
    assert!(!scene.urrs[0].stopped);
    assert_eq!(event(&mut scene, 170)[0].triggers, UsageTriggers::EVENT_QUOTA);
    let none = UrrSettings { event_quota: Some(0), ..UrrSettings::default() };
    update(&mut scene, S(171), none);
    assert!(scene.urrs[0].stopped, "no event may happen");
    let reports = scene.run_until(S(172));
    assert_eq!(reports[0].1.triggers, UsageTriggers::EVENT_QUOTA);
}

#[test]
fn report_is_made_when_no_further_event_fits_it() {
    let mut scene =
        UsageFixture::new(vec![event_urr(UsageTriggers::empty(), UrrSettings::default())]);
    for at in 1..=EVENTS_PER_REPORT_MAX {
        let reports = event(&mut scene, 100 * u64::try_from(at).unwrap());
        assert_eq!(reports.len(), usize::from(at == EVENTS_PER_REPORT_MAX));
        assert!(reports.iter().all(|report| report.events.len() == EVENTS_PER_REPORT_MAX));
    }
}

fn mechanism(is_continuous: bool) -> UrrSettings {
    let mechanism = TimeMechanism { is_continuous, interval: S(10) };
    UrrSettings { time_mechanism: Some(mechanism), ..UrrSettings::default() }
}

fn timed(triggers: UsageTriggers, settings: UrrSettings) -> Urr {
    let method = MeasurementMethod { duration: true, ..MeasurementMethod::default() };
    Urr { id: UrrId(1), method, triggers, settings }
}

/// Spec: TS 29.244 §8.2.81; TS 32.299 §6.5 (DTP).
#[test]
fn discrete_period_consumes_a_whole_interval_and_the_next_packet_behind_it_another() {
    let triggers = UsageTriggers::ENVELOPE_CLOSURE;
    let mut scene = UsageFixture::new(vec![timed(triggers, mechanism(false))]);
    for base in [3, 100] {
        scene.count(0, S(base), 1, 0);
        assert_eq!(scene.start(0, S(base)), []);
        scene.count(0, S(base + 9), 1, 0);
        let reports = scene.run_until(S(base + 60));
        assert_eq!((reports.len(), reports[0].0), (1, S(base + 10)));
        assert_eq!(reports[0].1.duration_s, Some(10));
        assert_eq!(reports[0].1.triggers, UsageTriggers::ENVELOPE_CLOSURE);
    }
}

/// Spec: TS 29.244 §8.2.81; TS 32.299 §6.5 (CTP).
#[test]
fn continuous_period_closes_with_the_first_interval_without_packets() {
    let triggers = UsageTriggers::ENVELOPE_CLOSURE;
    let mut scene = UsageFixture::new(vec![timed(triggers, mechanism(true))]);
    scene.count(0, S(5), 1, 0);
    scene.start(0, S(5));
    for second in [12, 24, 34] {
        assert_eq!(scene.run_until(S(second)), []);
        scene.count(0, S(second), 1, 0);
    }
    // Packets in [5,15), [15,25) and [25,35); none in [35,45).
    let reports = scene.run_until(S(300));
    assert_eq!((reports.len(), reports[0].0), (1, S(45)));
    assert_eq!(reports[0].1.duration_s, Some(40));
}

#[test]
fn time_quota_is_used_up_by_whole_intervals_of_its_mechanism() {
    let settings = UrrSettings { time_quota: Some(S(15)), ..mechanism(false) };
    let mut scene = UsageFixture::new(vec![timed(UsageTriggers::TIME_QUOTA, settings)]);
    scene.count(0, S(1), 1, 0);
    scene.start(0, S(1));
    assert_eq!(scene.run_until(S(50)), []);
    assert!(!scene.urrs[0].stopped, "5 seconds are left");
    scene.count(0, S(50), 1, 0);
    scene.start(0, S(50));
    let reports = scene.run_until(S(80));
    assert_eq!((reports.len(), reports[0].0, reports[0].1.duration_s), (1, S(55), Some(20)));
    assert!(scene.urrs[0].stopped);
}

/// Spec: TS 29.244 §7.5.2.4, table 7.5.2.4-3.
#[test]
fn several_monitoring_times_split_one_report_into_parts() {
    let monitoring = vec![split_at(10), split_at(20), split_at(30)];
    let settings = UrrSettings { monitoring, ..UrrSettings::default() };
    let mut scene = UsageFixture::new(vec![volume_urr(1, UsageTriggers::empty(), settings)]);
    for (second, count) in [(5, 1), (15, 2), (25, 4), (35, 8)] {
        assert_eq!(scene.run_until(S(second)), []);
        scene.count(0, S(second), count, 0);
    }
    let reports =
        scene.modify(SessionChange { query_all_urrs: true, at: S(40), ..SessionChange::default() });
    let parts: Vec<_> = reports.iter().map(|r| (r.part.unwrap(), bytes(r).0, r.end)).collect();
    use UsagePart::{After, Before, Between};
    let expected =
        [(Before, 1, S(10)), (Between, 2, S(20)), (Between, 4, S(30)), (After, 8, S(40))];
    assert_eq!(parts, expected);
    assert_eq!(reports[3].triggers, UsageTriggers::IMMEDIATE);
    assert!(reports[..3].iter().all(|r| r.triggers == UsageTriggers::MONITORING_TIME));
    let many = (0..=MONITORING_TIMES_PER_URR_MAX).map(|_| split_at(1)).collect();
    let settings = UrrSettings { monitoring: many, ..UrrSettings::default() };
    let mut change = session(1);
    change.create_urrs = vec![volume_urr(1, UsageTriggers::empty(), settings)];
    let refusal = store(4).establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refusal, Refusal::TooManyMonitoringTimes { urr: UrrId(1) });
}

/// Spec: TS 29.244 §8.2.133.
#[test]
fn numbered_reports_end_and_the_rest_comes_when_asked_for() {
    let settings =
        UrrSettings { period: Some(S(10)), reports_max: Some(2), ..UrrSettings::default() };
    let mut scene = UsageFixture::new(vec![volume_urr(1, UsageTriggers::PERIODIC, settings)]);
    let reports = scene.run_until(S(100));
    assert_eq!(reports.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [S(10), S(20)]);
    scene.count(0, S(100), 7, 0);
    let query = SessionChange { query_all_urrs: true, at: S(101), ..SessionChange::default() };
    assert_eq!(bytes(&scene.modify(query)[0]), (7, 0), "it is measured on");
    update(&mut scene, S(102), UrrSettings { reports_max: Some(1), ..UrrSettings::default() });
    assert_eq!(scene.run_until(S(200)).len(), 1);
}

/// Spec: TS 29.244 §8.2.133.
#[test]
fn numbered_reports_that_were_made_leave_no_notice_either() {
    let triggers = UsageTriggers::START_OF_TRAFFIC | UsageTriggers::END_MARKER;
    let settings = UrrSettings {
        reports_max: Some(1),
        inactivity_detection_time: Some(S(10)),
        ..UrrSettings::default()
    };
    let mut scene = UsageFixture::new(vec![volume_urr(1, triggers, settings)]);
    scene.count(0, S(1), 1, 0);
    assert_eq!(scene.start(0, S(1)).len(), 1);
    assert_eq!(scene.run_until(S(100)), []);
    scene.count(0, S(200), 1, 0);
    assert_eq!(scene.start(0, S(200)), []);
    assert_eq!(scene.store.handle_end_marker(S(201), scene.index), None);
}

#[test]
fn traffic_that_is_over_when_its_start_is_handled_is_reported_again() {
    let triggers = UsageTriggers::START_OF_TRAFFIC | UsageTriggers::STOP_OF_TRAFFIC;
    let inactivity_detection_time = Some(S(10));
    let settings = UrrSettings { inactivity_detection_time, ..UrrSettings::default() };
    let urrs = vec![
        volume_urr(1, triggers, settings.clone()),
        Urr { id: UrrId(2), ..timed(UsageTriggers::empty(), settings) },
    ];
    let mut scene = UsageFixture::new(urrs);
    for at in [0, 1] {
        let before = scene.urrs[at].generation;
        scene.count(at, S(1), 1, 0);
        let UrrEntry { slot, generation, .. } = scene.urrs[at];
        let started = TrafficStart { slot, generation, at: S(1), pdr: PdrId(1) };
        let outcome = scene.store.handle_traffic_started(S(60), scene.up_seid, started);
        scene.outcome(outcome);
        assert!(scene.urrs[at].report_start, "it is over");
        assert_ne!(scene.urrs[at].generation, before, "workers tell once per generation");
    }
}

#[test]
fn measurement_is_not_split_without_bound_by_updates() {
    let urr = volume_urr(1, UsageTriggers::empty(), UrrSettings::default());
    let mut scene = UsageFixture::new(vec![urr]);
    for second in 1..100 {
        let monitoring = vec![split_at(second); MONITORING_TIMES_PER_URR_MAX];
        update(&mut scene, S(second), UrrSettings { monitoring, ..UrrSettings::default() });
        scene.count(0, S(second), 1, 0);
        assert_eq!(scene.run_until(S(second + 1)), []);
    }
    let query = SessionChange { query_all_urrs: true, at: S(100), ..SessionChange::default() };
    let reports = scene.modify(query);
    assert_eq!(reports.len(), MONITORING_TIMES_PER_URR_MAX + 1);
    assert_eq!(reports.iter().map(|report| bytes(report).0).sum::<u64>(), 99);
}

/// Spec: TS 29.244 §8.2.68 (INAM).
#[test]
fn inactive_urr_measures_neither_packets_nor_time_until_it_is_resumed() {
    let information = |inactive| {
        let immediate_start = true;
        Some(MeasurementInformation { inactive, immediate_start, ..Default::default() })
    };
    let settings = UrrSettings { information: information(false), ..UrrSettings::default() };
    let mut scene = UsageFixture::new(vec![timed(UsageTriggers::empty(), settings)]);
    let of =
        |inactive| UrrSettings { information: information(inactive), ..UrrSettings::default() };
    update(&mut scene, S(10), of(true));
    update(&mut scene, S(50), of(false));
    let query = SessionChange { query_all_urrs: true, at: S(55), ..SessionChange::default() };
    assert_eq!(scene.modify(query)[0].duration_s, Some(15));
}

#[test]
fn end_marker_is_reported_on_request_without_ending_the_measurement() {
    let asks = volume_urr(1, UsageTriggers::END_MARKER, UrrSettings::default());
    let other = volume_urr(2, UsageTriggers::empty(), UrrSettings::default());
    let mut scene = UsageFixture::new(vec![asks, other]);
    scene.count(0, S(1), 10, 0);
    let outcome = scene.store.handle_end_marker(S(2), scene.index).unwrap();
    assert_eq!((outcome.delta.is_none(), outcome.reports.len()), (true, 1));
    assert_eq!(outcome.reports[0].triggers, UsageTriggers::END_MARKER);
    assert_eq!(outcome.reports[0].volume, None);
    let query = SessionChange { query_urrs: vec![UrrId(1)], at: S(3), ..SessionChange::default() };
    let reports = scene.modify(query);
    assert_eq!((reports[0].sequence, bytes(&reports[0])), (1, (10, 0)));
}

#[test]
fn urr_whose_events_or_intervals_cannot_act_is_refused() {
    let refused = |urr: Urr| {
        let mut change = session(1);
        change.create_urrs = vec![urr];
        store(4).establish(OWNER, CP, change).unwrap_err()
    };
    let urr = UrrId(1);
    for trigger in [UsageTriggers::EVENT_THRESHOLD, UsageTriggers::ENVELOPE_CLOSURE] {
        let incomplete = volume_urr(1, trigger, UrrSettings::default());
        assert_eq!(refused(incomplete), Refusal::TriggerIncomplete { urr, trigger });
    }
    let zero = TimeMechanism { is_continuous: true, interval: Nanos(0) };
    let settings = UrrSettings {
        time_mechanism: Some(zero),
        volume_threshold: total(1),
        ..UrrSettings::default()
    };
    let refusal = refused(volume_urr(1, UsageTriggers::empty(), settings));
    assert_eq!(refusal, Refusal::TimeIntervalZero { urr });
}

/// Spec: TS 29.244 §7.5.2.4 (QUASF).
#[test]
fn exempted_flows_are_compiled_and_those_that_name_nothing_refused() {
    let exempted = |text: Option<&str>, filter_id| {
        let flow_description = text.map(Box::from);
        let flow = SdfSpec { flow_description, filter_id, ..SdfSpec::default() };
        let exempted = Exempted { flows: vec![flow], applications: Vec::new() };
        let settings = UrrSettings { exempted: Some(exempted), ..UrrSettings::default() };
        volume_urr(1, UsageTriggers::empty(), settings)
    };
    let scene =
        UsageFixture::new(vec![exempted(Some("permit out udp from any 53 to assigned"), None)]);
    assert_eq!((scene.urrs[0].exempt.len(), scene.urrs[0].exempt[0].protocol), (1, Some(17)));
    let refused = |urr: Urr| {
        let mut change = session(1);
        change.create_urrs = vec![urr];
        store(4).establish(OWNER, CP, change).unwrap_err()
    };
    let urr = UrrId(1);
    for nothing in [exempted(Some("deny"), None), exempted(None, Some(7)), exempted(None, None)] {
        assert_eq!(refused(nothing), Refusal::ExemptedFlowInvalid { urr });
    }
    let applications = vec!["unheard".into()];
    let exempted = Some(Exempted { flows: Vec::new(), applications });
    let settings = UrrSettings { exempted, ..UrrSettings::default() };
    let refusal = refused(volume_urr(1, UsageTriggers::empty(), settings));
    assert_eq!(refusal, Refusal::UnknownExemptedApplication { urr });
    let applications = vec!["unheard".into(); EXEMPTED_APPLICATIONS_PER_URR_MAX + 1];
    let exempted = Some(Exempted { flows: Vec::new(), applications });
    let settings = UrrSettings { exempted, ..UrrSettings::default() };
    let refusal = refused(volume_urr(1, UsageTriggers::empty(), settings));
    assert_eq!(refusal, Refusal::TooManyExemptedApplications { urr });
}

const HALF: u64 = adit_rules::POOL_WEIGHT_ONE / 2;
const DOUBLE: u64 = adit_rules::POOL_WEIGHT_ONE * 2;

/// A pool (URR 9) of URR 1 at half and URR 2 at double weight, which report with it.
fn pool(of: &[(u32, u64)], quota: u64) -> Vec<Urr> {
    let of = of.iter().map(|&(urr, weight)| Aggregated { urr: UrrId(urr), weight }).collect();
    let settings =
        UrrSettings { aggregated: Some(of), volume_quota: total(quota), ..UrrSettings::default() };
    let member = |id| {
        let settings = UrrSettings { linked: Some(vec![UrrId(9)]), ..UrrSettings::default() };
        volume_urr(id, UsageTriggers::LINKED, settings)
    };
    vec![member(1), member(2), volume_urr(9, UsageTriggers::VOLUME_QUOTA, settings)]
}

/// Spec: TS 29.244 §7.5.2.4, table 7.5.2.4-2.
#[test]
fn credit_pool_counts_its_urrs_by_their_multipliers_and_reports_with_them() {
    let mut scene = UsageFixture::new(pool(&[(1, HALF), (2, DOUBLE)], 1000));
    assert_eq!(scene.urrs.iter().map(|urr| urr.pool).collect::<Vec<_>>(), [Some(2), Some(2), None]);
    scene.count(0, S(1), 1000, 0);
    scene.count(1, S(2), 0, 249);
    assert_eq!(scene.limit(2, S(2)), [], "998 of 1000");
    scene.count(1, S(3), 0, 1);
    let reports = scene.limit(2, S(3));
    let seen: Vec<_> = reports.iter().map(|r| (r.urr.0, bytes(r), r.triggers)).collect();
    let linked = UsageTriggers::LINKED;
    let expected = [
        (1, (1000, 0), linked),
        (2, (0, 250), linked),
        (9, (500, 500), UsageTriggers::VOLUME_QUOTA),
    ];
    assert_eq!(seen, expected);
    assert!(scene.urrs[2].stopped, "which stops the packets of both");
    assert!(!scene.urrs[0].stopped && !scene.urrs[1].stopped);
}

#[test]
fn usage_of_a_pool_does_not_jump_when_its_members_change() {
    let mut scene = UsageFixture::new(pool(&[(1, DOUBLE)], 10_000));
    scene.count(0, S(1), 300, 0);
    scene.count(1, S(1), 5000, 0);
    for (at, of) in [(2, (2, DOUBLE)), (3, (1, HALF)), (4, (2, HALF))] {
        let of = vec![Aggregated { urr: UrrId(of.0), weight: of.1 }];
        let settings = UrrSettings { aggregated: Some(of), ..UrrSettings::default() };
        let update = UrrUpdate { id: UrrId(9), settings: settings.into(), ..UrrUpdate::default() };
        scene.modify(SessionChange {
            update_urrs: vec![update],
            at: S(at),
            ..SessionChange::default()
        });
    }
    scene.count(1, S(5), 8, 0);
    let query = SessionChange { query_urrs: vec![UrrId(9)], at: S(6), ..SessionChange::default() };
    let reports = scene.modify(query);
    let pool = reports.iter().find(|report| report.urr == UrrId(9)).unwrap();
    assert_eq!(bytes(pool), (2 * 300 + 8 / 2, 0));
    let limits = scene.urrs[2].quota;
    let raw = |slot| {
        let counts = scene.counters.0.lock().unwrap();
        counts.get(&slot).map_or((0, 0), |counts| (counts.ul_bytes, counts.dl_bytes))
    };
    let (uplink, _) = scene.urrs[2].members.bytes(raw);
    assert_eq!(limits.total_bytes - uplink, 10_000 - 604, "workers see the same amount left");
}

#[test]
fn pool_that_cannot_be_one_is_refused() {
    let refused = |urrs: Vec<Urr>| {
        let mut change = session(1);
        change.create_urrs = urrs;
        store(4).establish(OWNER, CP, change).unwrap_err()
    };
    let unusable = |aggregated| Refusal::AggregatedUrrUnusable {
        urr: UrrId(9),
        aggregated: UrrId(aggregated),
    };
    assert_eq!(refused(pool(&[(7, HALF)], 1)), unusable(7));
    assert_eq!(refused(pool(&[(9, HALF)], 1)), unusable(9));
    assert_eq!(refused(pool(&[(1, HALF), (1, HALF)], 1)), unusable(1));
    let mut timed = pool(&[(1, HALF)], 1);
    timed[2].method.duration = true;
    assert_eq!(refused(timed), Refusal::PoolMeasuresOthers { urr: UrrId(9) });
}
