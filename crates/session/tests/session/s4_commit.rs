//! Stage 4: deltas, reserved identifiers, reclaim.

use std::collections::BTreeSet;

use adit_rules::{Excess, GuaranteedShare, KeyChange, RateLimit, SessionKey, UeAddresses};
use adit_session::{
    Change, CpFSeid, OwnerId, OwnerNodes, PdrUpdate, Provisioning, QerUpdate, QosPolicy, Rates,
    Refusal, ReservedCounts, Session, SessionChange, SessionStore, StoreConfig, UeMatch,
};
use adit_types::{BitRate, Nanos, PdrId, QerId, Seid, SessionIndex};

use crate::builders::*;

#[test]
fn deletion_removes_all_keys_and_keeps_identifiers_until_reclaimed() {
    let mut store = store(4);
    let established = store.establish(OWNER, CP, session(1)).unwrap();
    store.reclaim(established.index);
    let teid = established.created[0].f_teid.teid;
    let delta = store.delete(established.up_seid).unwrap();
    assert_eq!(
        delta.keys,
        [
            KeyChange::Remove(SessionKey::Teid(teid)),
            KeyChange::Remove(SessionKey::UeIpv4(adit_types::DomainId(0), ue(1)))
        ]
    );
    assert_eq!(delta.rules, None);
    assert!(store.is_empty() && store.session(established.up_seid).is_none());
    let reserved = ReservedCounts { sessions: 1, teids: 1, ..ReservedCounts::default() };
    assert_eq!(store.reserved(), reserved);
    store.reclaim(delta.session);
    assert_eq!(store.reserved(), ReservedCounts::default());
}

#[test]
fn index_is_not_reused_before_the_deletion_is_reclaimed() {
    let mut store = store(1);
    let first = store.establish(OWNER, CP, session(1)).unwrap();
    assert_eq!(store.establish(OWNER, CP, session(2)), Err(Refusal::SessionTableFull));
    store.delete(first.up_seid).unwrap();
    store.reclaim(first.index);
    assert_eq!(
        store.establish(OWNER, CP, session(2)),
        Err(Refusal::SessionTableFull),
        "that was the establishment's delta"
    );
    store.reclaim(first.index);
    assert_eq!(store.establish(OWNER, CP, session(2)).unwrap().index, SessionIndex(0));
}

#[test]
fn ue_address_is_free_at_once() {
    let mut store = store(4);
    let first = store.establish(OWNER, CP, session(1)).unwrap();
    store.delete(first.up_seid).unwrap();
    assert!(store.establish(OWNER, CP, session(1)).is_ok());
}

#[test]
fn teid_replaced_by_a_modification_waits_for_that_reclaim() {
    let mut store = store(4);
    let established = store.establish(OWNER, CP, session(1)).unwrap();
    let old = established.created[0].f_teid.teid;
    let update = PdrUpdate { id: PdrId(1), pdi: Some(uplink(1).pdi), ..PdrUpdate::default() };
    let change = SessionChange { update_pdrs: vec![update], ..SessionChange::default() };
    let modified = store.modify(established.up_seid, change).unwrap();
    let new = modified.created[0].f_teid.teid;
    assert_eq!(
        modified.delta.unwrap().keys,
        [KeyChange::Remove(SessionKey::Teid(old)), KeyChange::Add(SessionKey::Teid(new))]
    );
    store.reclaim(established.index);
    assert_eq!(store.reserved().teids, 2, "the establishment's delta frees nothing");
    store.reclaim(established.index);
    assert_eq!(store.reserved().teids, 1);
    let before = store.clone();
    store.reclaim(established.index);
    assert_eq!(store, before, "no delta is left to reclaim");
}

#[test]
fn change_without_meaning_for_packets_yields_no_delta() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let update = QerUpdate { id: QerId(1), correlation: Change::Set(7), ..QerUpdate::default() };
    let change = SessionChange { update_qers: vec![update], ..SessionChange::default() };
    assert_eq!(store.modify(up_seid, change).unwrap().delta, None);
    assert_eq!(store.session(up_seid).unwrap().qers()[0].correlation, Some(7));
}

#[test]
fn new_rate_is_compiled_with_the_depth_of_its_averaging_window() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let mbr = Rates { uplink: BitRate::from_kbps(5000), downlink: BitRate::from_kbps(8) };
    let update = QerUpdate { id: QerId(1), mbr: Change::Set(mbr), ..QerUpdate::default() };
    let change = SessionChange { update_qers: vec![update], ..SessionChange::default() };
    let meter = |change| {
        let mut store = store.clone();
        store.modify(up_seid, change).unwrap().delta.unwrap().rules.unwrap().qers[0].meter.unwrap()
    };
    let limit = |kbps, depth| RateLimit::new(BitRate::from_kbps(kbps), depth, Excess::Policed);
    let by_default = Nanos::from_millis(20);
    let compiled = meter(change.clone());
    assert_eq!(compiled.uplink, limit(5000, by_default));
    assert_eq!(compiled.downlink, limit(8, Nanos::from_secs(3)), "two packets of 1500 octets");
    let mut windowed = change;
    windowed.update_qers[0].averaging_window_ms = Change::Set(500);
    assert_eq!(meter(windowed).uplink, limit(5000, Nanos::from_millis(5)));
}

#[test]
fn guarantee_is_compiled_whether_or_not_sessions_share_rates() {
    let rates = |uplink, downlink| {
        Some(Rates { uplink: BitRate::from_kbps(uplink), downlink: BitRate::from_kbps(downlink) })
    };
    let mut shared = QosPolicy::default();
    shared.total.uplink = BitRate::from_kbps(1_000_000);
    for qos in [QosPolicy::default(), shared] {
        let provisioning =
            Provisioning { interfaces: interfaces(), qos, ..Provisioning::default() };
        let meter = |mbr, gbr, averaging_window_ms| {
            let config = StoreConfig {
                sessions_max: 4,
                provisioning: provisioning.clone(),
                seed: 1,
                owner_nodes: OwnerNodes::default(),
            };
            let mut change = session(1);
            let qer = &mut change.create_qers[0];
            (qer.mbr, qer.gbr, qer.averaging_window_ms) = (mbr, gbr, averaging_window_ms);
            let made = SessionStore::new(config).establish(OWNER, CP, change).unwrap();
            made.delta.rules.unwrap().qers[0].meter
        };
        let guaranteed = |mbr, gbr| meter(mbr, gbr, None).unwrap().guaranteed;
        let within = |kbps, depth_ms| {
            let depth = Nanos::from_millis(depth_ms);
            GuaranteedShare::Within(RateLimit::new(
                BitRate::from_kbps(kbps),
                depth,
                Excess::Policed,
            ))
        };
        let (nothing, whole) = (GuaranteedShare::Nothing, GuaranteedShare::Whole);
        assert_eq!(meter(None, None, None), None);
        assert_eq!(guaranteed(rates(5000, 8000), None), [nothing; 2]);
        assert_eq!(guaranteed(rates(5000, 8000), rates(5000, 9000)), [whole; 2]);
        // Each direction by itself; a guarantee of zero is none.
        assert_eq!(guaranteed(rates(5000, 8000), rates(5000, 0)), [whole, nothing]);
        assert_eq!(guaranteed(rates(5000, 8000), rates(2000, 8000)), [within(2000, 20), whole]);
        // Two packets of 1500 octets at least.
        let windowed = meter(rates(5000, 8000), rates(2000, 4000), Some(500)).unwrap();
        assert_eq!(windowed.guaranteed, [within(2000, 12), within(4000, 6)]);
        // Without a maximum, traffic above the guarantee has no limit.
        let alone = meter(None, rates(2000, 4000), None).unwrap();
        assert_eq!(alone.guaranteed, [within(2000, 20), within(4000, 20)]);
        assert_eq!((alone.uplink, alone.downlink), (RateLimit::UNLIMITED, RateLimit::UNLIMITED));
    }
}

#[test]
fn correlated_rate_is_reserved_from_its_first_session_to_the_reclaim_of_its_last() {
    let mut store = store(4);
    let mbr = Some(Rates { uplink: BitRate::from_kbps(8), downlink: BitRate::from_kbps(8) });
    let sharing = |last| {
        let mut change = session(last);
        (change.create_qers[0].correlation, change.create_qers[0].mbr) = (Some(7), mbr);
        change
    };
    let up_seids = [1, 2].map(|last| store.establish(OWNER, CP, sharing(last)).unwrap().up_seid);
    assert_eq!(store.reserved().correlated_rates, 1);
    let indices = up_seids.map(|up_seid| store.session(up_seid).unwrap().index());
    indices.iter().for_each(|index| store.reclaim(*index));
    for (up_seid, left) in up_seids.into_iter().zip([1, 0]) {
        let deleted = store.delete(up_seid).unwrap().session;
        assert_eq!(store.reserved().correlated_rates, 1, "workers may know it");
        store.reclaim(deleted);
        assert_eq!(store.reserved().correlated_rates, left);
    }
}

#[test]
fn session_handed_over_has_the_endpoint_of_its_new_control_plane() {
    let mut store = store(4);
    let cp = CpFSeid { seid: Seid(7), v4: Some(GNB), v6: None };
    let up_seid = store.establish(OwnerId(1), cp, session(1)).unwrap().up_seid;
    assert!(store.set_control(up_seid, OwnerId(2), cp.at(N3.into())));
    let moved = store.session(up_seid).unwrap();
    assert_eq!((moved.owner(), moved.cp_f_seid()), (OwnerId(2), CpFSeid { v4: Some(N3), ..cp }));
    let own = CpFSeid { seid: Seid(8), v4: None, v6: "2001:db8::9".parse().ok() };
    assert!(store.set_control(up_seid, OwnerId(3), own));
    let moved = store.session(up_seid).unwrap();
    assert_eq!((moved.owner(), moved.cp_f_seid()), (OwnerId(3), own));
    assert_eq!(moved.origin(), OwnerId(1), "who established it");
}

#[test]
fn sessions_of_one_owner_are_found_and_deleted() {
    let mut store = store(8);
    for last in 1..=4 {
        store.establish(OwnerId(u32::from(last % 2)), CP, session(last)).unwrap();
    }
    let owned: Vec<Seid> = store.owned_by(OwnerId(1)).map(Session::up_seid).collect();
    let deleted = owned.into_iter().map(|up_seid| store.delete(up_seid).unwrap().session.0);
    assert_eq!(deleted.collect::<Vec<_>>(), [0, 2]);
    assert!(store.sessions().all(|session| session.owner() == OwnerId(0)));
    assert_eq!(store.len(), 2);
}

#[test]
fn seids_are_distinct_and_follow_the_seed() {
    let seids = |seed| -> BTreeSet<Seid> {
        let provisioning = Provisioning { interfaces: interfaces(), ..Provisioning::default() };
        let mut store = SessionStore::new(StoreConfig {
            sessions_max: 32,
            provisioning,
            seed,
            owner_nodes: OwnerNodes::default(),
        });
        (1..=32).map(|last| store.establish(OWNER, CP, session(last)).unwrap().up_seid).collect()
    };
    assert_eq!(seids(1).len(), 32);
    assert_eq!(seids(1), seids(1));
    assert!(seids(1).is_disjoint(&seids(2)));
}

#[test]
fn teids_of_live_sessions_differ_in_their_low_bits() {
    let mut store = store(100);
    let mask = (1 << store.slot_bits()) - 1;
    let low: BTreeSet<u32> = (1..=100)
        .map(|last| store.establish(OWNER, CP, session(last)).unwrap().created[0].f_teid.teid.0)
        .map(|teid| teid & mask)
        .collect();
    assert_eq!(low.len(), 100);
}

#[test]
fn commit_that_unwinds_is_recovered_by_removing_its_session() {
    let mut store = store(4);
    let kept = store.establish(OWNER, CP, session(1)).unwrap();
    let reserved = store.reserved();
    let established = store.establish(OWNER, CP, session(2)).unwrap();
    let old = established.created[0].f_teid.teid;
    store.inject_fault_in_commit();
    let update = PdrUpdate { id: PdrId(1), pdi: Some(uplink(2).pdi), ..PdrUpdate::default() };
    let change = SessionChange { update_pdrs: vec![update], ..SessionChange::default() };
    let commits = store.commits();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.modify(established.up_seid, change).map(|_| ())
    }));
    assert!(unwound.is_err() && store.commits() == commits + 1);
    let delta = store.recover().unwrap();
    assert_eq!(delta.session, established.index);
    assert!(delta.rules.is_none());
    for key in [SessionKey::Teid(old), SessionKey::UeIpv4(adit_types::DomainId(0), ue(2))] {
        assert!(delta.keys.contains(&KeyChange::Remove(key)), "{key:?}");
    }
    assert_eq!(store.recover(), None);
    assert_eq!((store.len(), store.owned_count(OWNER)), (1, 1));
    store.reclaim(established.index);
    store.reclaim(established.index);
    assert_eq!(store.reserved(), reserved);
    assert!(store.session(kept.up_seid).is_some());
    assert!(store.establish(OWNER, CP, session(2)).is_ok());
}

#[test]
fn ipv6_addresses_and_framed_routes_of_a_commit_that_unwinds_are_free_again() {
    let mut store = store(4);
    let addresses = UeAddresses { v4: None, v6: Some("2001:db8::/64".parse().unwrap()) };
    let network = "198.51.100.0/24".parse().unwrap();
    let mut change = session(1);
    for pdr in &mut change.create_pdrs {
        pdr.pdi.ue = pdr.pdi.ue.map(|ue| UeMatch { addresses, ..ue });
        pdr.pdi.framed_routes = vec![network];
    }
    let keys = [
        SessionKey::UeIpv6(adit_types::DomainId(0), 0x2001_0db8_0000_0000),
        SessionKey::Framed(adit_types::DomainId(0), network),
    ];
    store.establish(OWNER, CP, session(2)).unwrap();
    let reserved = store.reserved();
    store.inject_fault_in_commit();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.establish(OWNER, CP, change.clone()).map(|_| ())
    }));
    assert!(unwound.is_err());
    let delta = store.recover().unwrap();
    for key in keys {
        assert!(delta.keys.contains(&KeyChange::Remove(key)), "{key:?}");
    }
    store.reclaim(delta.session);
    assert_eq!(store.reserved(), reserved);
    store.establish(OWNER, CP, session(3)).unwrap();
    assert!(store.establish(OWNER, CP, change).is_ok(), "another session may have them");
}
