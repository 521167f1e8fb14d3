//! PDRs that begin and cease to match at a time of their own. Spec: TS 29.244 §8.2.121, §8.2.122.

use adit_session::{PdrTimes, PdrUpdate, SessionChange};
use adit_types::{Nanos, PdrId};

use crate::builders::*;

const DL: PdrId = PdrId(2);

const fn s(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

fn times(activation: Option<u64>, deactivation: Option<u64>) -> PdrTimes {
    PdrTimes { activation: activation.map(s), deactivation: deactivation.map(s) }
}

fn with_times(times: PdrTimes) -> SessionChange {
    let mut change = SessionChange { at: s(10), ..session(1) };
    change.create_pdrs[1].times = times;
    change
}

#[test]
fn pdr_matches_between_its_activation_and_deactivation() {
    let mut store = store(4);
    let established = store.establish(OWNER, CP, with_times(times(Some(20), Some(30)))).unwrap();
    let keys = established.delta.keys.len();
    let rules = established.delta.rules.unwrap();
    assert_eq!((rules.uplink.len(), rules.downlink.len(), keys), (1, 0, 2), "keys are there");
    store.reclaim(established.index);
    assert_eq!(store.usage_timeout(), Some(s(20)));
    assert_eq!(store.poll_usage(s(19)), None);
    for (at, active, next) in [(20, 1, Some(s(30))), (30, 0, None)] {
        let outcome = store.poll_usage(s(at)).unwrap();
        assert!(outcome.reports.is_empty() && !outcome.inactive);
        let delta = outcome.delta.unwrap();
        assert!(delta.keys.is_empty());
        assert_eq!(delta.rules.unwrap().downlink.len(), active);
        assert_eq!(store.poll_usage(s(at)), None);
        assert_eq!(store.usage_timeout(), next);
        store.reclaim(established.index);
    }
    assert!(!store.session(established.up_seid).unwrap().pdrs()[1].is_active);
}

#[test]
fn times_that_passed_act_at_once() {
    let downlink = |times| {
        let established = store(4).establish(OWNER, CP, with_times(times)).unwrap();
        established.delta.rules.unwrap().downlink.len()
    };
    assert_eq!(downlink(times(Some(10), None)), 1);
    assert_eq!(downlink(times(None, Some(10))), 0);
    assert_eq!(downlink(times(None, Some(11))), 1);
}

#[test]
fn update_replaces_one_time_and_keeps_the_other() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, with_times(times(None, Some(30)))).unwrap().up_seid;
    let update = PdrUpdate { id: DL, times: times(Some(40), None).into(), ..PdrUpdate::default() };
    let change = SessionChange { update_pdrs: vec![update], at: s(12), ..SessionChange::default() };
    let modified = store.modify(up_seid, change).unwrap();
    assert!(modified.delta.unwrap().rules.unwrap().downlink.is_empty(), "waits for 40 now");
    assert_eq!(store.poll_usage(s(30)), None, "it does not match anyway");
    assert_eq!(store.usage_timeout(), Some(s(40)));
    let delta = store.poll_usage(s(40)).unwrap().delta.unwrap();
    assert_eq!(delta.rules.unwrap().downlink.len(), 1);
}

#[test]
fn times_of_a_deleted_session_are_forgotten() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, with_times(times(Some(20), None))).unwrap().up_seid;
    store.delete(up_seid).unwrap();
    assert_eq!((store.usage_timeout(), store.poll_usage(s(99))), (None, None));
}
