//! Usage arithmetic and its timers, in virtual time, against counters that the tests set.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use adit_rules::{RuleDelta, UrrEntry, UsageCounts, UsageSource};
use adit_session::{
    DroppedThreshold, MeasurementInformation, MeasurementMethod, Monitoring, PfdApplication,
    PfdProvision, Refusal, SessionChange, SessionStore, TrafficStart, Urr, UrrSettings, UrrUpdate,
    UsageOutcome, UsagePart, UsageReport, UsageTriggers, Volumes,
};
use adit_types::limits::{RULES_PER_SESSION_MAX, own_usage_slot};
use adit_types::{FarId, Nanos, PdrId, Seid, SessionIndex, UrrId, UsageSlot};
use proptest::prelude::*;

use crate::builders::{CP, OWNER, far, kept, next_store_of, session, store};

pub(crate) const S: fn(u64) -> Nanos = Nanos::from_secs;

/// Counters that a test sets, and the first packet of generations.
#[derive(Debug, Default)]
pub(crate) struct ManualCounters(
    pub Mutex<BTreeMap<UsageSlot, UsageCounts>>,
    pub Mutex<BTreeMap<(UsageSlot, u32), Nanos>>,
);

impl UsageSource for ManualCounters {
    fn usage(&self, slot: UsageSlot, generation: u32) -> UsageCounts {
        let counts = self.0.lock().unwrap().get(&slot).copied().unwrap_or_default();
        let first = self.1.lock().unwrap().get(&(slot, generation)).copied();
        UsageCounts { first: counts.first.or(first), ..counts }
    }
}

/// A session with URRs on both PDRs, whose workers are the test.
pub(crate) struct UsageFixture {
    pub store: SessionStore,
    pub counters: Arc<ManualCounters>,
    pub up_seid: Seid,
    pub index: SessionIndex,
    pub urrs: Vec<UrrEntry>,
    pub own_urr: Option<UsageSlot>,
}

pub(crate) fn total(bytes: u64) -> Option<Volumes> {
    Some(Volumes { total: Some(bytes), ..Volumes::default() })
}

pub(crate) fn volume_urr(id: u32, triggers: UsageTriggers, settings: UrrSettings) -> Urr {
    let method = MeasurementMethod { volume: true, ..MeasurementMethod::default() };
    Urr { id: UrrId(id), method, triggers, settings }
}

fn time_urr(triggers: UsageTriggers, settings: UrrSettings) -> Urr {
    let method = MeasurementMethod { volume: true, duration: true, event: false };
    Urr { id: UrrId(1), method, triggers, settings }
}

impl UsageFixture {
    pub(crate) fn new(urrs: Vec<Urr>) -> Self {
        Self::with(urrs, |_| {})
    }

    pub(crate) fn with(urrs: Vec<Urr>, edit: impl FnOnce(&mut SessionChange)) -> Self {
        let counters = Arc::new(ManualCounters::default());
        let mut store = store(4);
        store.set_usage_source(Arc::clone(&counters) as Arc<dyn UsageSource>);
        let mut change = session(1);
        for pdr in &mut change.create_pdrs {
            pdr.urrs = urrs.iter().map(|urr| urr.id).collect();
        }
        change.create_urrs = urrs;
        edit(&mut change);
        let established = store.establish(OWNER, CP, change).unwrap();
        let mut scene = Self {
            store,
            counters,
            up_seid: established.up_seid,
            index: established.index,
            urrs: Vec::new(),
            own_urr: None,
        };
        scene.observe(&established.delta);
        scene.store.reclaim(scene.index);
        scene
    }

    pub(crate) fn observe(&mut self, delta: &RuleDelta) {
        self.urrs = delta.rules.as_ref().map_or(Vec::new(), |rules| rules.urrs.clone());
        self.own_urr = delta.rules.as_ref().and_then(|rules| rules.own_urr);
    }

    /// Counts packets for a URR by its position.
    pub(crate) fn count(&self, at: usize, now: Nanos, ul_bytes: u64, dl_bytes: u64) {
        let mut counters = self.counters.0.lock().unwrap();
        let counts = counters.entry(self.urrs[at].slot).or_default();
        counts.ul_bytes += ul_bytes;
        counts.dl_bytes += dl_bytes;
        counts.ul_pkts += u64::from(ul_bytes > 0);
        counts.dl_pkts += u64::from(dl_bytes > 0);
        counts.last = Some(now);
    }

    /// Counts a downlink packet of the URR that rules drop.
    pub(crate) fn drop_downlink(&self, at: usize, bytes: u64) {
        let mut counters = self.counters.0.lock().unwrap();
        let counts = counters.entry(self.urrs[at].slot).or_default();
        counts.dropped_dl_bytes += bytes;
        counts.dropped_dl_pkts += u64::from(bytes > 0);
    }

    /// Marks a packet that counts for the URR as the first one of its generation, unless there was
    /// one.
    pub(crate) fn mark(&self, at: usize, now: Nanos) {
        let UrrEntry { slot, generation, .. } = self.urrs[at];
        self.counters.1.lock().unwrap().entry((slot, generation)).or_insert(now);
    }

    pub(crate) fn outcome(&mut self, outcome: Option<UsageOutcome>) -> Vec<UsageReport> {
        let Some(outcome) = outcome else { return Vec::new() };
        if let Some(delta) = outcome.delta {
            self.observe(&delta);
            self.store.reclaim(self.index);
        }
        outcome.reports
    }

    /// A worker reports that the URR has reached a limit.
    pub(crate) fn limit(&mut self, at: usize, now: Nanos) -> Vec<UsageReport> {
        let UrrEntry { slot, generation, .. } = self.urrs[at];
        let outcome = self.store.handle_usage_limit(now, self.up_seid, slot, generation);
        self.outcome(outcome)
    }

    /// A worker reports the first packet.
    pub(crate) fn start(&mut self, at: usize, now: Nanos) -> Vec<UsageReport> {
        assert!(self.urrs[at].report_start);
        let UrrEntry { slot, generation, .. } = self.urrs[at];
        let started = TrafficStart { slot, generation, at: now, pdr: PdrId(1) };
        let outcome = self.store.handle_traffic_started(now, self.up_seid, started);
        self.outcome(outcome)
    }

    /// Lets time pass; returns reports and their times.
    pub(crate) fn run_until(&mut self, until: Nanos) -> Vec<(Nanos, UsageReport)> {
        let mut all = Vec::new();
        while let Some(at) = self.store.usage_timeout().filter(|at| *at <= until) {
            while let Some(outcome) = self.store.poll_usage(at) {
                let reports = self.outcome(Some(outcome));
                all.extend(reports.into_iter().map(|report| (at, report)));
            }
        }
        all
    }

    /// Another process, which may have one session more, restores the session. Its counters begin
    /// at zero.
    pub(crate) fn restart(&mut self, now: Nanos) {
        let kept = kept(&self.store, now);
        self.counters = Arc::new(ManualCounters::default());
        self.store = next_store_of(&self.store, self.store.sessions_max() + 1);
        self.store.set_usage_source(Arc::clone(&self.counters) as Arc<dyn UsageSource>);
        let restored = self.store.restore(now, &mut kept[0].clone()).unwrap();
        assert_eq!((restored.up_seid, restored.index), (self.up_seid, self.index));
        self.observe(&restored.delta);
        self.store.reclaim(self.index);
    }

    pub(crate) fn modify(&mut self, change: SessionChange) -> Vec<UsageReport> {
        let modified = self.store.modify(self.up_seid, change).unwrap();
        let mut reports = modified.reports;
        if let Some(delta) = modified.delta {
            self.observe(&delta);
            reports.extend(self.store.final_reports(Nanos(0), self.index));
            self.store.reclaim(self.index);
        }
        reports
    }
}

/// A monitoring time that changes nothing.
pub(crate) fn split_at(second: u64) -> Monitoring {
    Monitoring {
        at: S(second),
        volume_threshold: None,
        time_threshold: None,
        volume_quota: None,
        time_quota: None,
        event_threshold: None,
        event_quota: None,
    }
}

pub(crate) fn bytes(report: &UsageReport) -> (u64, u64) {
    let volume = report.volume.unwrap();
    (volume.ul_bytes, volume.dl_bytes)
}

#[test]
fn volume_threshold_reached_reports_all_usage_and_counts_anew() {
    let settings = UrrSettings { volume_threshold: total(1000), ..UrrSettings::default() };
    let mut scene =
        UsageFixture::new(vec![volume_urr(1, UsageTriggers::VOLUME_THRESHOLD, settings)]);
    assert_eq!(scene.urrs[0].report.total_bytes, 1000);
    scene.count(0, S(1), 400, 599);
    assert_eq!(scene.limit(0, S(1)), [], "not reached: an event alone reports nothing");
    scene.count(0, S(2), 10, 0);
    let reports = scene.limit(0, S(2));
    assert_eq!((reports.len(), bytes(&reports[0])), (1, (410, 599)));
    assert_eq!(reports[0].triggers, UsageTriggers::VOLUME_THRESHOLD);
    assert_eq!((reports[0].sequence, reports[0].start, reports[0].end), (0, Nanos(0), S(2)));
    assert_eq!(scene.urrs[0].report.total_bytes, 1009 + 1000);
    scene.count(0, S(3), 1000, 0);
    let reports = scene.limit(0, S(3));
    assert_eq!((reports[0].sequence, bytes(&reports[0])), (1, (1000, 0)));
}

#[test]
fn event_of_an_earlier_generation_is_ignored() {
    let settings = UrrSettings { volume_threshold: total(100), ..UrrSettings::default() };
    let mut scene =
        UsageFixture::new(vec![volume_urr(1, UsageTriggers::VOLUME_THRESHOLD, settings)]);
    let UrrEntry { slot, generation, .. } = scene.urrs[0];
    scene.count(0, S(1), 100, 0);
    assert_eq!(scene.limit(0, S(1)).len(), 1);
    assert_ne!(scene.urrs[0].generation, generation);
    assert_eq!(scene.store.handle_usage_limit(S(1), scene.up_seid, slot, generation), None);
}

#[test]
fn quota_used_up_is_reported_once_and_stops_until_a_new_one_comes() {
    let settings = UrrSettings {
        volume_threshold: total(600),
        volume_quota: total(1000),
        ..UrrSettings::default()
    };
    let triggers = UsageTriggers::VOLUME_THRESHOLD | UsageTriggers::VOLUME_QUOTA;
    let mut scene = UsageFixture::new(vec![volume_urr(1, triggers, settings)]);
    scene.count(0, S(1), 600, 0);
    assert_eq!(scene.limit(0, S(1))[0].triggers, UsageTriggers::VOLUME_THRESHOLD);
    assert_eq!(scene.urrs[0].quota.total_bytes, 1000, "a report does not move the quota");
    scene.count(0, S(2), 0, 450);
    let reports = scene.limit(0, S(2));
    assert_eq!((reports[0].triggers, bytes(&reports[0])), (UsageTriggers::VOLUME_QUOTA, (0, 450)));
    assert!(scene.urrs[0].stopped);
    assert_eq!(scene.limit(0, S(3)), []);
    let settings = UrrSettings { volume_quota: total(500), ..UrrSettings::default() };
    let update = UrrUpdate { id: UrrId(1), settings: settings.into(), ..UrrUpdate::default() };
    scene.modify(SessionChange { update_urrs: vec![update], at: S(4), ..SessionChange::default() });
    assert!(!scene.urrs[0].stopped);
    assert_eq!(scene.urrs[0].quota.total_bytes, 1050 + 500);
}

#[test]
fn query_reports_at_once_and_the_rest_comes_with_the_removal() {
    let urrs = (1..=2).map(|id| volume_urr(id, UsageTriggers::empty(), UrrSettings::default()));
    let mut scene = UsageFixture::new(urrs.collect());
    scene.count(0, S(1), 10, 20);
    scene.count(1, S(1), 1, 2);
    let query = SessionChange { query_urrs: vec![UrrId(1)], at: S(2), ..SessionChange::default() };
    let reports = scene.modify(query);
    assert_eq!((reports.len(), bytes(&reports[0])), (1, (10, 20)));
    assert_eq!(reports[0].triggers, UsageTriggers::IMMEDIATE);
    let reports =
        scene.modify(SessionChange { query_all_urrs: true, at: S(3), ..SessionChange::default() });
    assert_eq!(reports.iter().map(bytes).collect::<Vec<_>>(), [(0, 0), (1, 2)]);
    scene.count(0, S(4), 7, 0);
    let remove =
        SessionChange { remove_urrs: vec![UrrId(1)], at: S(5), ..SessionChange::default() };
    let reports = scene.modify(remove);
    assert_eq!((bytes(&reports[0]), reports[0].triggers), ((7, 0), UsageTriggers::TERMINATION));
    assert_eq!(reports[0].sequence, 2);
    assert_eq!(scene.urrs.len(), 1, "its PDRs name it no more");
}

#[test]
fn counters_of_a_reused_slot_do_not_count_for_the_next_urr() {
    let urrs = (1..=2).map(|id| volume_urr(id, UsageTriggers::empty(), UrrSettings::default()));
    let mut scene = UsageFixture::new(urrs.collect());
    scene.count(1, S(1), 1000, 0);
    let slot = scene.urrs[1].slot;
    scene.modify(SessionChange { remove_urrs: vec![UrrId(2)], ..SessionChange::default() });
    let settings = UrrSettings { volume_threshold: total(5), ..UrrSettings::default() };
    let urr = volume_urr(3, UsageTriggers::VOLUME_THRESHOLD, settings);
    scene.modify(SessionChange { create_urrs: vec![urr], ..SessionChange::default() });
    assert_eq!((scene.urrs[1].slot, scene.urrs[1].report.total_bytes), (slot, 1005));
    let reports = scene.modify(SessionChange { query_all_urrs: true, ..SessionChange::default() });
    assert_eq!(bytes(&reports[1]), (0, 0));
}

#[test]
fn session_has_a_slot_of_its_own_for_a_urr_of_its_establishment_and_for_no_later_one() {
    let urr = |id| volume_urr(id, UsageTriggers::empty(), UrrSettings::default());
    let create = |id| SessionChange { create_urrs: vec![urr(id)], ..SessionChange::default() };
    let mut scene = UsageFixture::new(vec![urr(1)]);
    let own = own_usage_slot(scene.store.sessions_max(), scene.index);
    let slots = |scene: &UsageFixture| scene.urrs.iter().map(|urr| urr.slot).collect::<Vec<_>>();
    assert_eq!((slots(&scene), scene.own_urr), (vec![own], Some(own)));
    assert_eq!(scene.store.reserved().usage_slots, 0);
    scene.modify(SessionChange { remove_urrs: vec![UrrId(1)], ..create(2) });
    assert_eq!((slots(&scene), scene.own_urr), (vec![UsageSlot(0)], Some(own)));
    let mut later = UsageFixture::new(Vec::new());
    later.modify(create(1));
    assert_eq!((slots(&later), later.own_urr), (vec![UsageSlot(0)], None));
}

#[test]
fn slots_return_when_the_deletion_is_reclaimed() {
    let urr = volume_urr(1, UsageTriggers::empty(), UrrSettings::default());
    let mut scene = UsageFixture::with(vec![urr], |change| change.inactivity_timer = Some(S(10)));
    assert_eq!(scene.store.reserved().usage_slots, 1, "and the session's own one");
    scene.store.delete(scene.up_seid).unwrap();
    scene.count(0, S(1), 3, 4);
    let reports = scene.store.final_reports(S(2), scene.index);
    assert_eq!((reports.len(), bytes(&reports[0])), (1, (3, 4)));
    scene.store.reclaim(scene.index);
    assert_eq!(scene.store.reserved(), adit_session::ReservedCounts::default());
    assert_eq!(scene.store.usage_timeout(), None);
}

#[test]
fn periodic_reports_come_every_period_with_the_usage_of_each() {
    let settings = UrrSettings { period: Some(S(10)), ..UrrSettings::default() };
    let mut scene = UsageFixture::new(vec![volume_urr(1, UsageTriggers::PERIODIC, settings)]);
    scene.count(0, S(4), 5, 0);
    let first = scene.run_until(S(19));
    scene.count(0, S(19), 0, 6);
    let rest = scene.run_until(S(30));
    let seen: Vec<_> = first.iter().chain(&rest).map(|(at, r)| (*at, bytes(r))).collect();
    assert_eq!(seen, [(S(10), (5, 0)), (S(20), (0, 6)), (S(30), (0, 0))]);
}

#[test]
fn time_threshold_counts_from_the_first_packet_and_stops_with_inactivity() {
    let settings = UrrSettings {
        time_threshold: Some(S(30)),
        inactivity_detection_time: Some(S(5)),
        ..UrrSettings::default()
    };
    let mut scene = UsageFixture::new(vec![time_urr(UsageTriggers::TIME_THRESHOLD, settings)]);
    assert_eq!(scene.run_until(S(100)), []);
    scene.count(0, S(100), 1, 0);
    assert_eq!(scene.start(0, S(100)), []);
    scene.count(0, S(103), 1, 0);
    // Active from 100 to 108, then from 200 on.
    assert_eq!(scene.run_until(S(200)), []);
    scene.count(0, S(200), 1, 0);
    scene.start(0, S(200));
    for second in 201..=230 {
        scene.count(0, S(second), 1, 0);
        let reports = scene.run_until(S(second));
        assert_eq!(reports.is_empty(), second != 222, "at {second}");
        if let [(_, report)] = &reports[..] {
            assert_eq!(report.duration_s, Some(30));
            assert_eq!(report.triggers, UsageTriggers::TIME_THRESHOLD);
        }
    }
}

#[test]
fn time_quota_ends_and_stops_packets() {
    let information = MeasurementInformation { immediate_start: true, ..Default::default() };
    let settings = UrrSettings {
        time_quota: Some(S(20)),
        information: Some(information),
        ..UrrSettings::default()
    };
    let mut scene = UsageFixture::new(vec![time_urr(UsageTriggers::TIME_QUOTA, settings)]);
    assert_eq!(scene.store.usage_timeout(), Some(S(20)), "nothing is looked at before");
    let reports = scene.run_until(S(60));
    assert_eq!((reports.len(), reports[0].0, reports[0].1.duration_s), (1, S(20), Some(20)));
    assert!(scene.urrs[0].stopped);
}

#[test]
fn quota_holding_time_runs_from_the_last_packet_and_withdraws_the_quota() {
    let settings = UrrSettings {
        volume_quota: total(1000),
        quota_holding_time: Some(S(10)),
        ..UrrSettings::default()
    };
    let mut scene =
        UsageFixture::new(vec![volume_urr(1, UsageTriggers::QUOTA_HOLDING_TIME, settings)]);
    scene.count(0, S(7), 100, 0);
    let reports = scene.run_until(S(40));
    assert_eq!((reports.len(), reports[0].0, bytes(&reports[0].1)), (1, S(17), (100, 0)));
    assert_eq!(reports[0].1.triggers, UsageTriggers::QUOTA_HOLDING_TIME);
    assert!(scene.urrs[0].stopped);
}

/// Spec: TS 29.244 §5.2.2.2, §8.2.19 (QUVTI).
#[test]
fn quota_that_is_no_longer_valid_is_reported_once_and_stops_packets_until_a_new_one_comes() {
    let quota = || UrrSettings { volume_quota: total(1000), ..UrrSettings::default() };
    let valid = |second| UrrSettings { quota_validity_time: Some(S(second)), ..quota() };
    let mut scene =
        UsageFixture::new(vec![volume_urr(1, UsageTriggers::QUOTA_VALIDITY_TIME, valid(15))]);
    scene.count(0, S(3), 100, 0);
    let update = |scene: &mut UsageFixture, at, settings| {
        let update = UrrUpdate { id: UrrId(1), settings, ..UrrUpdate::default() };
        let update_urrs = vec![update];
        scene.modify(SessionChange { update_urrs, at: S(at), ..SessionChange::default() })
    };
    assert_eq!(scene.run_until(S(14)), []);
    assert!(!scene.urrs[0].stopped);
    let reports = scene.run_until(S(100));
    assert_eq!((reports.len(), reports[0].0, bytes(&reports[0].1)), (1, S(15), (100, 0)));
    assert_eq!(reports[0].1.triggers, UsageTriggers::QUOTA_VALIDITY_TIME);
    assert!(scene.urrs[0].stopped);
    let longer = UrrSettings { volume_quota: None, ..valid(60) };
    assert_eq!(update(&mut scene, 101, longer.into()), []);
    assert!(scene.urrs[0].stopped, "a longer time of the quota that is gone");
    assert_eq!(update(&mut scene, 102, quota().into()), []);
    assert!(!scene.urrs[0].stopped);
    let reports = scene.run_until(S(300));
    assert_eq!((reports.len(), reports[0].0), (1, S(162)));
    assert!(scene.urrs[0].stopped);
}

/// INTEROP: free5GC sends times of its own with quotas that have no such trigger, and Open5GS zero.
#[test]
fn quota_validity_time_without_its_trigger_or_without_a_quota_stops_nothing() {
    let timed = UrrSettings { quota_validity_time: Some(S(15)), ..UrrSettings::default() };
    let quota = UrrSettings { volume_quota: total(1000), ..timed.clone() };
    let mut scene = UsageFixture::new(vec![volume_urr(1, UsageTriggers::VOLUME_QUOTA, quota)]);
    assert_eq!(scene.run_until(S(100)), []);
    assert!(!scene.urrs[0].stopped);
    let mut scene =
        UsageFixture::new(vec![volume_urr(1, UsageTriggers::QUOTA_VALIDITY_TIME, timed)]);
    let reports = scene.run_until(S(100));
    assert_eq!((reports.len(), reports[0].0), (1, S(15)));
    assert!(!scene.urrs[0].stopped, "nothing that could end");
}

#[test]
fn quota_is_valid_from_its_last_provision_or_from_that_of_its_time() {
    let quota = UrrSettings { volume_quota: total(1000), ..UrrSettings::default() };
    let valid =
        |second| UrrSettings { quota_validity_time: Some(S(second)), ..UrrSettings::default() };
    let settings = UrrSettings { volume_quota: total(1000), ..valid(15) };
    let mut scene =
        UsageFixture::new(vec![volume_urr(1, UsageTriggers::QUOTA_VALIDITY_TIME, settings)]);
    for (at, settings, end) in [(10, quota, 25), (20, valid(30), 50)] {
        assert_eq!(scene.run_until(S(at)), []);
        let update = UrrUpdate { id: UrrId(1), settings: settings.into(), ..UrrUpdate::default() };
        let change =
            SessionChange { update_urrs: vec![update], at: S(at), ..SessionChange::default() };
        assert_eq!(scene.modify(change), []);
        assert_eq!(scene.store.usage_timeout(), Some(S(end)));
    }
}

#[test]
fn monitoring_time_splits_the_next_report_and_changes_the_threshold() {
    let monitoring = Monitoring { at: S(50), volume_threshold: total(100), ..split_at(50) };
    let settings = UrrSettings {
        volume_threshold: total(10_000),
        monitoring: vec![monitoring],
        ..UrrSettings::default()
    };
    let mut scene =
        UsageFixture::new(vec![volume_urr(1, UsageTriggers::VOLUME_THRESHOLD, settings)]);
    scene.count(0, S(20), 1000, 0);
    assert_eq!(scene.run_until(S(60)), [], "the monitoring time itself reports nothing");
    assert_eq!(scene.urrs[0].report.total_bytes, 1100);
    scene.count(0, S(70), 0, 101);
    let reports = scene.limit(0, S(70));
    let [before, after] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((before.part, bytes(before)), (Some(UsagePart::Before), (1000, 0)));
    assert_eq!((before.end, before.triggers), (S(50), UsageTriggers::MONITORING_TIME));
    assert_eq!((after.part, bytes(after)), (Some(UsagePart::After), (0, 101)));
    assert_eq!((after.start, after.triggers), (S(50), UsageTriggers::VOLUME_THRESHOLD));
    assert_eq!((before.sequence, after.sequence), (0, 1));
}

#[test]
fn linked_urr_reports_with_the_one_it_is_linked_to() {
    let settings = UrrSettings { volume_threshold: total(10), ..UrrSettings::default() };
    let leader = volume_urr(1, UsageTriggers::VOLUME_THRESHOLD, settings);
    let settings = UrrSettings { linked: Some(vec![UrrId(1)]), ..UrrSettings::default() };
    let follower = volume_urr(2, UsageTriggers::LINKED, settings);
    let mut scene = UsageFixture::new(vec![leader, follower]);
    scene.count(0, S(1), 10, 0);
    scene.count(1, S(1), 33, 0);
    let reports = scene.limit(0, S(1));
    assert_eq!(reports.iter().map(bytes).collect::<Vec<_>>(), [(10, 0), (33, 0)]);
    assert_eq!(reports[1].triggers, UsageTriggers::LINKED);
}

#[test]
fn start_and_stop_of_traffic_are_reported_in_turn() {
    let triggers = UsageTriggers::START_OF_TRAFFIC | UsageTriggers::STOP_OF_TRAFFIC;
    let settings = UrrSettings { inactivity_detection_time: Some(S(5)), ..UrrSettings::default() };
    let mut scene = UsageFixture::new(vec![volume_urr(1, triggers, settings)]);
    for base in [10, 100] {
        scene.count(0, S(base), 8, 0);
        let reports = scene.start(0, S(base));
        assert_eq!(reports[0].triggers, UsageTriggers::START_OF_TRAFFIC);
        assert_eq!(reports[0].volume, None);
        let reports = scene.run_until(S(base + 50));
        assert_eq!((reports.len(), reports[0].0), (1, S(base + 5)));
        assert_eq!(reports[0].1.triggers, UsageTriggers::STOP_OF_TRAFFIC);
        assert_eq!(bytes(&reports[0].1), (8, 0));
    }
}

#[test]
fn start_of_traffic_reports_no_usage() {
    let urr = time_urr(UsageTriggers::START_OF_TRAFFIC, UrrSettings::default());
    let mut scene = UsageFixture::new(vec![urr]);
    scene.count(0, S(10), 8, 0);
    let reports = scene.start(0, S(10));
    assert_eq!((reports[0].volume, reports[0].duration_s), (None, None));
}

/// The one of the PDR that the first packet matched.
#[test]
fn start_and_stop_of_traffic_name_the_application() {
    let triggers = UsageTriggers::START_OF_TRAFFIC | UsageTriggers::STOP_OF_TRAFFIC;
    let settings = UrrSettings { inactivity_detection_time: Some(S(5)), ..UrrSettings::default() };
    let urrs = vec![volume_urr(1, triggers, settings)];
    let application = |edit: fn(&mut SessionChange)| {
        let mut scene = UsageFixture::with(urrs.clone(), |_| {});
        scene.store = store(4);
        scene.store.set_usage_source(Arc::clone(&scene.counters) as Arc<dyn UsageSource>);
        let applications = ["video", "voice"].map(|id| PfdApplication {
            id: id.into(),
            flow_descriptions: vec!["permit out ip from any to assigned".into()],
        });
        let provision = PfdProvision { applications: applications.into() };
        scene.store.provision_pfds(OWNER, provision).unwrap();
        let mut change = session(1);
        for pdr in &mut change.create_pdrs {
            pdr.urrs = vec![UrrId(1)];
        }
        change.create_urrs = urrs.clone();
        edit(&mut change);
        let established = scene.store.establish(OWNER, CP, change).unwrap();
        scene.up_seid = established.up_seid;
        scene.observe(&established.delta);
        scene.store.reclaim(established.index);
        scene.count(0, S(10), 8, 0);
        let start = scene.start(0, S(10)).remove(0).application;
        let stop = scene.run_until(S(60)).remove(0).1.application;
        assert_eq!(start, stop);
        start
    };
    let both = application(|change| {
        change.create_pdrs[0].pdi.application = Some("voice".into());
        change.create_pdrs[1].pdi.application = Some("video".into());
    });
    assert_eq!(both.as_deref(), Some("voice"), "PDR 1 matched");
    let other = application(|change| change.create_pdrs[1].pdi.application = Some("video".into()));
    assert_eq!(other, None, "PDR 1 detects none");
}

#[test]
fn dropped_downlink_traffic_is_reported_at_its_threshold() {
    let threshold = DroppedThreshold { packets: Some(3), bytes: None };
    let settings = UrrSettings { dropped_threshold: Some(threshold), ..UrrSettings::default() };
    let mut scene = UsageFixture::new(vec![volume_urr(1, UsageTriggers::DROPPED_DL, settings)]);
    assert_eq!(scene.urrs[0].report_dropped, (3, u64::MAX));
    let slot = scene.urrs[0].slot;
    scene.counters.0.lock().unwrap().entry(slot).or_default().dropped_dl_pkts = 3;
    assert_eq!(scene.limit(0, S(1))[0].triggers, UsageTriggers::DROPPED_DL);
    assert_eq!(scene.urrs[0].report_dropped, (6, u64::MAX));
}

#[test]
fn inactivity_is_told_once_until_traffic_comes_again() {
    let mut scene = UsageFixture::with(Vec::new(), |change| change.inactivity_timer = Some(S(30)));
    scene.count(0, S(20), 1, 1);
    let mut seen = Vec::new();
    let mut run = |scene: &mut UsageFixture, until: Nanos| {
        while let Some(at) = scene.store.usage_timeout().filter(|at| *at <= until) {
            while let Some(outcome) = scene.store.poll_usage(at) {
                seen.extend(outcome.inactive.then_some(at));
                scene.outcome(Some(outcome));
            }
        }
    };
    run(&mut scene, S(100));
    scene.count(0, S(100), 1, 1);
    scene.start(0, S(100));
    run(&mut scene, S(200));
    assert_eq!(seen, [S(50), S(130)]);
}

#[test]
fn inactivity_of_the_session_is_reported_by_the_urrs_that_ask_for_it() {
    let triggers = UsageTriggers::INACTIVITY | UsageTriggers::START_OF_TRAFFIC;
    let urrs = [(1, triggers), (2, UsageTriggers::START_OF_TRAFFIC)];
    let urrs = urrs.map(|(id, triggers)| volume_urr(id, triggers, UrrSettings::default()));
    let mut scene = UsageFixture::with(urrs.into(), |change| change.inactivity_timer = Some(S(30)));
    let reports = scene.run_until(S(100));
    let told: Vec<_> = reports.iter().map(|(at, r)| (*at, r.urr, r.triggers)).collect();
    assert_eq!(told, [(S(30), UrrId(1), UsageTriggers::INACTIVITY)]);
}

#[test]
fn urr_that_cannot_act_is_refused() {
    let refused = |urr: Urr| {
        let mut change = session(1);
        change.create_urrs = vec![urr];
        store(4).establish(OWNER, CP, change).unwrap_err()
    };
    let plain = |triggers| volume_urr(1, triggers, UrrSettings::default());
    let urr = UrrId(1);
    let trigger = UsageTriggers::PERIODIC;
    assert_eq!(refused(plain(trigger)), Refusal::TriggerIncomplete { urr, trigger });
    let nothing = Urr { method: MeasurementMethod::default(), ..plain(UsageTriggers::empty()) };
    assert_eq!(refused(nothing), Refusal::MeasuresNothing { urr });
    let mut lost = plain(UsageTriggers::empty());
    lost.settings.quota_far = Some(FarId(9));
    assert_eq!(refused(lost), Refusal::UnknownQuotaFar { urr, far: FarId(9) });
    let mut change = session(1);
    change.create_pdrs[0].urrs = vec![urr];
    let refusal = store(4).establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownUrr { pdr: adit_types::PdrId(1), urr });
    let mut change = session(1);
    let all = || 1..=u32::try_from(RULES_PER_SESSION_MAX).unwrap();
    let urr = |id| volume_urr(id, UsageTriggers::empty(), UrrSettings::default());
    change.create_urrs = all().map(urr).collect();
    let mut store = store(1);
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    let again = all().map(UrrId).collect::<Vec<_>>();
    let create = all().map(urr).collect();
    let change =
        SessionChange { remove_urrs: again, create_urrs: create, ..SessionChange::default() };
    assert_eq!(store.modify(up_seid, change).unwrap_err(), Refusal::UsageSlotsExhausted);
}

#[test]
fn quota_action_is_compiled_as_a_position() {
    let settings = UrrSettings { quota_far: Some(FarId(7)), ..UrrSettings::default() };
    let urr = volume_urr(1, UsageTriggers::empty(), settings);
    let scene = UsageFixture::with(vec![urr], |change| {
        let core = adit_rules::DestinationInterface::Core;
        change.create_fars.push(far(7, core));
    });
    assert_eq!(scene.urrs[0].quota_far, Some(2));
}

#[derive(Debug, Clone)]
enum UsageStep {
    Count { ul: u64, dl: u64 },
    Tell,
    Query,
    Quota(u64),
    Threshold(u64),
}

fn step() -> impl Strategy<Value = UsageStep> {
    prop_oneof![
        4 => (0..2000u64, 0..2000u64).prop_map(|(ul, dl)| UsageStep::Count { ul, dl }),
        2 => Just(UsageStep::Tell),
        1 => Just(UsageStep::Query),
        1 => (0..5000u64).prop_map(UsageStep::Quota),
        1 => (1..5000u64).prop_map(UsageStep::Threshold),
    ]
}

proptest! {
    /// Every octet is reported exactly once, whatever the order of reports, and thresholds and
    /// quotas are where exact arithmetic puts them.
    #[test]
    fn reports_sum_up_to_what_was_counted(steps in prop::collection::vec(step(), 1..60)) {
        let settings = UrrSettings {
            volume_threshold: total(3000),
            volume_quota: total(4000),
            ..UrrSettings::default()
        };
        let triggers = UsageTriggers::VOLUME_THRESHOLD | UsageTriggers::VOLUME_QUOTA;
        let mut scene = UsageFixture::new(vec![volume_urr(1, triggers, settings)]);
        let (mut counted, mut reported) = ((0u128, 0u128), (0u128, 0u128));
        // The model: where the last report was, where the quota began, and both amounts.
        let (mut last, mut threshold, mut quota) = (0u128, 3000u128, Some((0u128, 4000u128)));
        let mut sequence = 0;
        for (second, step) in (1..).zip(steps) {
            let at = S(second);
            let all = counted.0 + counted.1;
            let reports = match step {
                UsageStep::Count { ul, dl } => {
                    scene.count(0, at, ul, dl);
                    counted = (counted.0 + u128::from(ul), counted.1 + u128::from(dl));
                    Vec::new()
                }
                UsageStep::Tell => {
                    let reports = scene.limit(0, at);
                    let exhausted = quota.is_some_and(|(from, amount)| all - from >= amount);
                    let due = exhausted || all - last >= threshold;
                    prop_assert_eq!(reports.len(), usize::from(due));
                    if exhausted {
                        quota = None;
                    }
                    reports
                }
                UsageStep::Query => scene.modify(SessionChange { query_all_urrs: true, at, ..SessionChange::default() }),
                UsageStep::Quota(amount) => {
                    let settings = UrrSettings { volume_quota: total(amount), ..Default::default() };
                    let update = UrrUpdate { id: UrrId(1), settings: settings.into(), ..UrrUpdate::default() };
                    quota = Some((last, amount.into()));
                    scene.modify(SessionChange { update_urrs: vec![update], at, ..SessionChange::default() })
                }
                UsageStep::Threshold(amount) => {
                    let settings =
                        UrrSettings { volume_threshold: total(amount), ..Default::default() };
                    let update = UrrUpdate { id: UrrId(1), settings: settings.into(), ..UrrUpdate::default() };
                    threshold = amount.into();
                    scene.modify(SessionChange { update_urrs: vec![update], at, ..SessionChange::default() })
                }
            };
            for report in &reports {
                let (ul, dl) = bytes(report);
                reported = (reported.0 + u128::from(ul), reported.1 + u128::from(dl));
                prop_assert_eq!(report.sequence, sequence);
                sequence += 1;
                prop_assert_eq!(reported, counted);
                last = all;
            }
            let entry = &scene.urrs[0];
            prop_assert_eq!(u128::from(entry.report.total_bytes), last + threshold);
            prop_assert_eq!(entry.stopped, quota.is_none());
            if let Some((from, amount)) = quota {
                prop_assert_eq!(u128::from(entry.quota.total_bytes), from + amount);
            }
        }
        scene.store.delete(scene.up_seid).unwrap();
        let last = scene.store.final_reports(S(1000), scene.index);
        let (ul, dl) = bytes(&last[0]);
        prop_assert_eq!((reported.0 + u128::from(ul), reported.1 + u128::from(dl)), counted);
    }
}
