//! Sessions that a later process restores: the same identifiers and rules, and measurements that go
//! on.

use adit_rules::{
    DestinationInterface, Excess, KeyChange, PacketLimit, PacketQuota, RuleDelta, SessionKey,
    UsageLimits,
};
use adit_session::{
    Aggregated, ChooseUe, DroppedThreshold, Enforcement, FormerSession, KeptUsage, LocalInterface,
    MeasurementMethod, PackedRecord, PackedRecordError, PacketLimits, Provisioning, QosPolicy,
    Rates, Refusal, ReservedCounts, SessionChange, SessionPreparer, SessionStore, UePool, UeSide,
    Urr, UrrSettings, UsageTriggers,
};
use adit_types::limits::{
    MONITORING_TIMES_PER_URR_MAX, REDIRECT_URL_BYTES_MAX, RULES_PER_SESSION_MAX,
    SDF_FILTERS_PER_PDR_MAX, SESSION_RECORD_BYTES_MAX, STORE_VALUE_BYTES_MAX,
};
use adit_types::{BitRate, Direction, FarId, Nanos, PdrId, QerId, SessionIndex, UrrId};
use proptest::prelude::*;

use crate::builders::*;
use crate::usage::{S, UsageFixture, split_at, total, volume_urr};

fn establish(store: &mut SessionStore, change: SessionChange) -> adit_session::Established {
    let established = store.establish(OWNER, CP, change).unwrap();
    store.reclaim(established.index);
    established
}

fn pools() -> Provisioning {
    let prefix = "10.60.0.0/29".parse().unwrap();
    let pool = UePool {
        network_instance: None,
        identity: None,
        s_nssai: None,
        prefix: adit_rules::sdf::AddrMatch::V4(prefix),
    };
    Provisioning { ue_pools: vec![pool], ..Provisioning::default() }
}

/// A session whose UE address is chosen from a pool.
fn pooled() -> SessionChange {
    let mut change = session(1);
    for (pdr, side) in change.create_pdrs.iter_mut().zip([UeSide::Source, UeSide::Destination]) {
        pdr.pdi.ue = None;
        pdr.pdi.choose_ue = Some(ChooseUe { v4: true, v6: false, side, pools: Vec::new() });
    }
    change
}

/// A session with `rules` rules of each kind, each PDR with `filters` filters.
fn full(rules: usize, filters: u32) -> SessionChange {
    let all = || 1..=u32::try_from(rules).unwrap();
    let limits = UrrSettings {
        volume_threshold: total(u64::MAX),
        volume_quota: total(u64::MAX),
        monitoring: vec![split_at(5); MONITORING_TIMES_PER_URR_MAX],
        ..UrrSettings::default()
    };
    let triggers = UsageTriggers::VOLUME_THRESHOLD | UsageTriggers::VOLUME_QUOTA;
    let mut change = SessionChange {
        create_fars: all().map(|id| far(id, DestinationInterface::Access)).collect(),
        create_qers: all().map(qer).collect(),
        create_urrs: all().map(|id| volume_urr(id, triggers, limits.clone())).collect(),
        ..SessionChange::default()
    };
    for number in all() {
        let mut pdr = downlink(1);
        pdr.id = PdrId(u16::try_from(number).unwrap());
        pdr.far = Some(FarId(number));
        pdr.qers = (1..=4).map(QerId).collect();
        pdr.urrs = (1..=8).map(UrrId).collect();
        let text = |at| {
            format!(
                "permit out 17 from 2001:db8:1:{number:x}::/64 {at}-{} to assigned {number}",
                at + 9
            )
        };
        pdr.pdi.sdf = (1..=filters).map(|at| flow(&text(at))).collect();
        change.create_pdrs.push(pdr);
    }
    change
}

#[test]
fn session_with_as_many_rules_or_filters_as_it_may_have_fits_a_record() {
    let kept_bytes = |rules, filters| {
        let mut store = store(1);
        let established = store.establish(OWNER, CP, full(rules, filters)).unwrap();
        store.kept(S(1), established.up_seid).unwrap().octets().len()
    };
    let room = SESSION_RECORD_BYTES_MAX.min(STORE_VALUE_BYTES_MAX);
    let most_filters = u32::try_from(SDF_FILTERS_PER_PDR_MAX).unwrap();
    let len = kept_bytes(RULES_PER_SESSION_MAX, most_filters / 4);
    assert!(len <= room, "{len}");
    let len = kept_bytes(RULES_PER_SESSION_MAX / 4, most_filters);
    // A FAR may redirect to a URL.
    let urls = RULES_PER_SESSION_MAX / 4 * REDIRECT_URL_BYTES_MAX;
    assert!(len + urls <= room, "{len}");
}

#[test]
fn session_whose_record_would_be_too_large_for_a_store_is_refused_and_nothing_changes() {
    let mut store = store(2);
    let change = full(RULES_PER_SESSION_MAX, u32::try_from(SDF_FILTERS_PER_PDR_MAX).unwrap());
    let before = store.clone();
    assert_eq!(store.establish(OWNER, CP, change).err(), Some(Refusal::RecordTooLarge));
    assert_eq!(store, before);
}

#[test]
fn restored_sessions_have_their_identifiers_and_later_ones_have_others() {
    let mut store = store_with(8, pools());
    let sessions: Vec<_> = (0..5).map(|_| establish(&mut store, pooled())).collect();
    let (gone, stay) = (&sessions[1], [0, 2, 3, 4].map(|at| &sessions[at]));
    store.delete(gone.up_seid).unwrap();
    store.reclaim(gone.index);
    let mut later = next_store(&store);
    for kept in kept(&store, S(1)) {
        let restored = later.restore(S(1), &mut kept.clone()).unwrap();
        let former = stay.iter().find(|known| known.up_seid == kept.up_seid()).unwrap();
        assert_eq!((restored.up_seid, restored.index), (former.up_seid, former.index));
        assert_eq!(restored.delta.keys, former.delta.keys);
        assert_eq!(restored.delta.rules, former.delta.rules);
        later.reclaim(restored.index);
    }
    for session in store.sessions() {
        assert_eq!(later.session(session.up_seid()), Some(session));
    }
    assert_eq!(later.reserved(), store.reserved());
    // The pool has six addresses, four of which are in use.
    let mut keys: Vec<KeyChange> = stay.iter().flat_map(|known| known.delta.keys.clone()).collect();
    for _ in 0..2 {
        let new = establish(&mut later, pooled());
        assert!(stay.iter().all(|known| known.up_seid != new.up_seid && known.index != new.index));
        keys.extend(new.delta.keys);
    }
    let count = keys.len();
    keys.sort_unstable_by_key(|change| format!("{change:?}"));
    keys.dedup();
    assert_eq!((keys.len(), count), (12, 12), "no key twice");
    assert!(matches!(later.establish(OWNER, CP, pooled()), Err(Refusal::UePoolsExhausted { .. })));
    let all: Vec<_> = later.sessions().map(adit_session::Session::up_seid).collect();
    for up_seid in all {
        let index = later.delete(up_seid).unwrap().session;
        later.reclaim(index);
    }
    assert_eq!(later.reserved(), ReservedCounts::default());
    assert_eq!(later.ue_pool_usage().collect::<Vec<_>>(), [(0, 6)]);
}

#[test]
fn session_that_the_configuration_or_another_session_forbids_is_refused_whole() {
    let mut store = store(8);
    let all = [1, 2].map(|last| establish(&mut store, session(last)));
    let kept = kept(&store, S(1));
    // The same session twice.
    let mut later = next_store(&store);
    later.restore(S(1), &mut kept[0].clone()).unwrap();
    let before = later.clone();
    assert_eq!(later.restore(S(1), &mut kept[0].clone()), Err(Refusal::SessionTableFull));
    assert_eq!(later, before);
    // A UE address that another session has meanwhile.
    let mut later = next_store(&store);
    for index in 0..2 {
        assert_eq!(establish(&mut later, session(8 - index)).index, SessionIndex(index.into()));
    }
    let other = establish(&mut later, session(2));
    later.delete(later.session_at(SessionIndex(1)).unwrap().up_seid()).unwrap();
    later.reclaim(SessionIndex(1));
    let before = later.clone();
    assert_eq!(all[1].index, SessionIndex(1));
    assert!(matches!(
        later.restore(S(1), &mut kept[1].clone()),
        Err(Refusal::UeAddressTaken { .. })
    ));
    assert_eq!(later, before);
    later.delete(other.up_seid).unwrap();
    later.reclaim(other.index);
    later.restore(S(1), &mut kept[1].clone()).unwrap();
    // Fewer sessions than before.
    let mut smaller = crate::builders::store(1);
    smaller.restore(S(1), &mut kept[0].clone()).unwrap();
    assert_eq!(smaller.restore(S(1), &mut kept[1].clone()), Err(Refusal::SessionTableFull));
    // An interface that is gone.
    let n6_only: Vec<LocalInterface> = interfaces().into_iter().skip(1).collect();
    let mut without =
        store_with(8, Provisioning { interfaces: n6_only, ..Provisioning::default() });
    let before = without.clone();
    assert!(without.restore(S(1), &mut kept[0].clone()).is_err());
    assert_eq!(without, before);
}

/// Sessions of many kinds.
fn changes() -> Vec<SessionChange> {
    let measured = (0..5).map(|kind| {
        let (create_urrs, inactivity_timer) = urrs(kind);
        let mut change = SessionChange { create_urrs, inactivity_timer, ..session(1) };
        for pdr in &mut change.create_pdrs {
            pdr.urrs = change.create_urrs.iter().map(|urr| urr.id).collect();
        }
        change
    });
    [session(1), pooled(), full(RULES_PER_SESSION_MAX, 2)].into_iter().chain(measured).collect()
}

#[test]
fn session_that_was_prepared_is_restored_like_one_that_was_not() {
    for (at, change) in changes().into_iter().enumerate() {
        let mut store = store_with(8, pools());
        establish(&mut store, change);
        let preparer = SessionPreparer::new(store.provisioning().clone());
        let plain = kept(&store, S(1)).remove(0);
        let mut prepared = plain.clone();
        preparer.prepare(&mut prepared);
        assert_ne!(prepared, plain, "session {at} was prepared");
        let [mut one, mut other] = [(); 2].map(|()| {
            let mut later = next_store(&store);
            later.accept_prepared(&preparer);
            later
        });
        assert_eq!(
            one.restore(S(1), &mut plain.clone()),
            other.restore(S(1), &mut prepared),
            "session {at}"
        );
        assert_eq!(one, other, "session {at}");
    }
}

/// A session restored by a store that accepted `preparer` and has the provisioning `now`, prepared
/// and not.
fn restored_both_ways(
    store: &SessionStore,
    preparer: &SessionPreparer,
    now: &Provisioning,
) -> [SessionStore; 2] {
    let plain = kept(store, S(1)).remove(0);
    let mut prepared = plain.clone();
    preparer.prepare(&mut prepared);
    assert_ne!(prepared, plain);
    let mut deltas = Vec::new();
    let stores = [plain, prepared].map(|mut former| {
        let mut later = next_store(store);
        later.accept_prepared(preparer);
        if now != later.provisioning() {
            later.set_provisioning(now.clone());
        }
        deltas.push(later.restore(S(1), &mut former).unwrap().delta);
        later
    });
    assert_eq!(deltas[0], deltas[1]);
    stores
}

#[test]
fn what_was_prepared_for_another_configuration_is_not_taken() {
    let rates = Rates { uplink: BitRate::from_kbps(5000), downlink: BitRate::from_kbps(8) };
    let mut change = session(1);
    change.create_qers[0].mbr = Some(rates);
    let mut store = store_with(8, Provisioning::default());
    establish(&mut store, change);
    let own = store.provisioning().clone();
    let mut further = own.clone();
    further.interfaces.extend(interfaces().into_iter().skip(1));
    let shaped = Enforcement { flow: Excess::Shaped, ..own.qos.uplink };
    let qos = QosPolicy { uplink: shaped, ..own.qos.clone() };
    let changed = Provisioning { qos, ..own.clone() };
    // The preparer had an interface more, or the configuration changed since.
    for (preparer, now) in [(further, &own), (own.clone(), &changed)] {
        let [one, other] = restored_both_ways(&store, &SessionPreparer::new(preparer), now);
        assert_eq!(one, other);
    }
}

#[test]
fn teid_that_was_given_stays_given() {
    let mut store = store(4);
    let mut change = session(1);
    change.create_pdrs[0].pdi.f_teid = Some(given(3));
    establish(&mut store, change);
    let mut later = next_store(&store);
    let index = later.restore(S(1), &mut kept(&store, S(1)).remove(0)).unwrap().index;
    later.reclaim(index);
    let chosen: Vec<_> =
        (2..5).map(|last| establish(&mut later, session(last)).created[0].f_teid.teid).collect();
    assert!(chosen.iter().all(|teid| teid.0 != 3), "{chosen:?}");
    let delta = later.delete(later.session_at(index).unwrap().up_seid()).unwrap();
    assert!(delta.keys.contains(&KeyChange::Remove(SessionKey::Teid(adit_types::Teid(3)))));
    later.reclaim(index);
    let mut change = session(9);
    change.create_pdrs[0].pdi.f_teid = Some(given(3));
    establish(&mut later, change);
}

#[test]
fn packet_rate_counts_on() {
    let mut store = store(4);
    let mut change = session(1);
    let unit = Nanos::from_secs(60);
    let limit = PacketLimit { plain: PacketQuota { pkts_max: 5, unit }, additional: None };
    change.create_qers[0].packet_rate = Some(PacketLimits { uplink: Some(limit), downlink: None });
    let established = establish(&mut store, change);
    let rate =
        |delta: &RuleDelta| delta.rules.as_ref().unwrap().qers[0].packet_rate.clone().unwrap();
    for _ in 0..3 {
        rate(&established.delta).pass(Direction::Uplink, S(10));
    }
    let mut later = next_store(&store);
    let restored = later.restore(S(20), &mut kept(&store, S(20)).remove(0)).unwrap();
    let rate = rate(&restored.delta);
    for (at, left) in [(20, 2), (69, 2), (71, 5)] {
        assert_eq!(rate.left(Direction::Uplink, S(at)).unwrap().packets, left, "{at} s");
    }
    assert_eq!(rate.left(Direction::Downlink, S(20)), None);
}

#[test]
fn octets_of_nothing_are_refused() {
    let mut store = store(4);
    establish(&mut store, session(1));
    let octets = store.kept(S(1), store.session_at(SessionIndex(0)).unwrap().up_seid()).unwrap();
    let octets = octets.octets();
    for len in 0..octets.len() {
        assert_eq!(FormerSession::from_octets(&octets[..len]), Err(PackedRecordError::Malformed));
    }
    let mut other = octets.clone();
    other[0] = PackedRecord::VERSION + 1;
    let version = Err(PackedRecordError::UnknownVersion(other[0]));
    assert_eq!(FormerSession::from_octets(&other), version);
    assert!(KeptUsage::from_octets(&other).is_err() && KeptUsage::from_octets(&[]).is_err());
}

#[test]
fn first_packet_of_a_measurement_is_that_before_the_restart() {
    let settings = UrrSettings { volume_threshold: total(100), ..UrrSettings::default() };
    let urr = volume_urr(1, UsageTriggers::VOLUME_THRESHOLD, settings);
    let mut scene = UsageFixture::new(vec![urr]);
    let mut firsts = Vec::new();
    for second in [1, 4, 7, 10] {
        scene.mark(0, S(second));
        scene.count(0, S(second), 60, 0);
        scene.restart(S(second + 1));
        firsts.extend(scene.limit(0, S(second + 1)).into_iter().map(|report| report.first));
    }
    assert_eq!(firsts, [Some(S(1)), Some(S(7))]);
}

/// URRs of several kinds; every one of them measures both PDRs.
fn urrs(kind: u8) -> (Vec<Urr>, Option<Nanos>) {
    let settings = UrrSettings::default;
    let volume = UsageTriggers::VOLUME_THRESHOLD | UsageTriggers::VOLUME_QUOTA;
    match kind {
        0 => {
            let limits = UrrSettings {
                volume_threshold: total(3000),
                volume_quota: total(8000),
                ..settings()
            };
            (vec![volume_urr(1, volume, limits)], None)
        }
        1 => {
            let of = [(1, 500_000), (2, 2_000_000)];
            let of = of.map(|(urr, weight)| Aggregated { urr: UrrId(urr), weight });
            let pool = UrrSettings {
                aggregated: Some(of.to_vec()),
                volume_quota: total(9000),
                ..settings()
            };
            let linked = UrrSettings { linked: Some(vec![UrrId(9)]), ..settings() };
            let member = |id| volume_urr(id, UsageTriggers::LINKED, linked.clone());
            (vec![member(1), member(2), volume_urr(9, UsageTriggers::VOLUME_QUOTA, pool)], None)
        }
        2 => {
            let timed = UrrSettings {
                time_threshold: Some(S(7)),
                time_quota: Some(S(40)),
                quota_holding_time: Some(S(9)),
                inactivity_detection_time: Some(S(4)),
                ..settings()
            };
            let triggers = UsageTriggers::TIME_THRESHOLD
                | UsageTriggers::TIME_QUOTA
                | UsageTriggers::QUOTA_HOLDING_TIME
                | UsageTriggers::STOP_OF_TRAFFIC;
            let method = MeasurementMethod { volume: true, duration: true, event: false };
            (vec![Urr { id: UrrId(1), method, triggers, settings: timed }], None)
        }
        3 => {
            let limits = UrrSettings {
                volume_threshold: total(5000),
                period: Some(S(11)),
                monitoring: vec![split_at(5), split_at(17)],
                ..settings()
            };
            let triggers = volume | UsageTriggers::PERIODIC;
            (
                vec![
                    volume_urr(1, triggers, limits),
                    volume_urr(2, UsageTriggers::empty(), settings()),
                ],
                Some(S(6)),
            )
        }
        _ => {
            let dropped = DroppedThreshold { packets: Some(3), bytes: Some(900) };
            let limits = UrrSettings { dropped_threshold: Some(dropped), ..settings() };
            (vec![volume_urr(1, UsageTriggers::DROPPED_DL, limits)], None)
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Octets of a URR, uplink and downlink, and dropped ones.
    Count(usize, u64, u64, u64),
    /// A worker reports that the URR has reached a limit.
    Limit(usize),
    Wait(u64),
    Query,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    // Even numbers: a pool weighs octets by halves, and counts whole ones.
    let octets = || (0..600_u64).prop_map(|half| half * 2);
    prop_oneof![
        6 => (0..3usize, octets(), octets(), octets()).prop_map(|(at, ul, dl, dropped)| Step::Count(at, ul, dl, dropped)),
        4 => (0..3usize).prop_map(Step::Limit),
        3 => (1..12u64).prop_map(Step::Wait),
        1 => Just(Step::Query),
        3 => Just(Step::Restart),
    ]
}

/// The amounts that workers may still pass until they reach a limit.
fn left(scene: &UsageFixture, at: usize) -> [u64; 6] {
    let urr = &scene.urrs[at];
    let counters = scene.counters.0.lock().unwrap();
    let of = |slot| counters.get(&slot).copied().unwrap_or_default();
    let own = of(urr.slot);
    let (ul, dl) = match urr.members.of.is_empty() {
        true => (own.ul_bytes, own.dl_bytes),
        false => urr.members.bytes(|slot| (of(slot).ul_bytes, of(slot).dl_bytes)),
    };
    let rest = |limits: UsageLimits| match limits.is_none() {
        true => [u64::MAX; 2],
        false => [limits.distance(ul, dl), u64::from(limits.reached(ul, dl))],
    };
    let [report, is_report] = rest(urr.report);
    let [quota, is_quota] = rest(urr.quota);
    let (pkts, bytes) = urr.report_dropped;
    let rest =
        |limit: u64, now: u64| if limit == u64::MAX { limit } else { limit.saturating_sub(now) };
    let dropped = [rest(pkts, own.dropped_dl_pkts), rest(bytes, own.dropped_dl_bytes)];
    [report, is_report, quota, is_quota, dropped[0], dropped[1]]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// A session that is kept and restored at any moments makes the reports of one that never
    /// stopped, and leaves workers the same limits.
    #[test]
    fn restored_session_measures_on(kind in 0..5u8, steps in prop::collection::vec(step(), 1..60)) {
        let (urrs, inactivity_timer) = urrs(kind);
        let scene = || UsageFixture::with(urrs.clone(), |change| change.inactivity_timer = inactivity_timer);
        let (mut one, mut other) = (scene(), scene());
        let mut now = S(1);
        for step in steps {
            match step {
                Step::Count(at, ul, dl, dropped) => {
                    let at = at % urrs.len();
                    for scene in [&mut one, &mut other] {
                        if scene.urrs[at].report_start {
                            let _ = scene.start(at, now);
                        }
                        scene.count(at, now, ul, dl);
                        scene.drop_downlink(at, dropped);
                        if inactivity_timer.is_some() {
                            scene.count(urrs.len(), now, ul, dl);
                        }
                    }
                }
                Step::Limit(at) => {
                    let at = at % urrs.len();
                    prop_assert_eq!(one.limit(at, now), other.limit(at, now));
                }
                Step::Wait(seconds) => {
                    // Workers report limits before time passes: which timers check them as well
                    // depends on when the timers were armed.
                    for at in 0..urrs.len() {
                        prop_assert_eq!(one.limit(at, now), other.limit(at, now));
                    }
                    now += S(seconds);
                    prop_assert_eq!(one.run_until(now), other.run_until(now));
                }
                Step::Query => {
                    let query = || SessionChange { query_all_urrs: true, at: now, ..SessionChange::default() };
                    prop_assert_eq!(one.modify(query()), other.modify(query()));
                }
                Step::Restart => other.restart(now),
            }
            for at in 0..urrs.len() {
                prop_assert_eq!(left(&one, at), left(&other, at), "URR {}", at);
                prop_assert_eq!(one.urrs[at].stopped, other.urrs[at].stopped);
            }
        }
        for scene in [&mut one, &mut other] {
            scene.store.delete(scene.up_seid).unwrap();
        }
        let last = |scene: &mut UsageFixture| scene.store.final_reports(now, scene.index);
        prop_assert_eq!(last(&mut one), last(&mut other));
    }
}
