//! Traffic endpoints: the parts that PDRs take over from them. Spec: TS 29.244 §7.5.2.7.

use adit_rules::sdf::AddrMatch;
use adit_rules::{KeyChange, SessionKey};
use adit_session::{
    Change, ChooseUe, Provisioning, Refusal, SessionChange, SessionStore, TrafficEndpoint,
    TrafficEndpointId, TrafficEndpointSpec, UePool, UeSide,
};
use adit_types::limits::TRAFFIC_ENDPOINTS_PER_PDI_MAX;
use adit_types::{FarId, PdrId, Qfi, Teid};

use crate::builders::*;

const TUNNEL: TrafficEndpointId = TrafficEndpointId(1);
const NETWORK: TrafficEndpointId = TrafficEndpointId(2);

pub(crate) fn endpoint(id: TrafficEndpointId) -> TrafficEndpointSpec {
    TrafficEndpointSpec { id, ..TrafficEndpointSpec::default() }
}

/// The usual session with everything that can be in traffic endpoints there.
fn with_endpoints() -> SessionChange {
    let mut change = session(1);
    for (pdr, id) in change.create_pdrs.iter_mut().zip([TUNNEL, NETWORK]) {
        (pdr.pdi.f_teid, pdr.pdi.ue, pdr.pdi.traffic_endpoints) = (None, None, vec![id]);
    }
    let ue = Some(ue_match(1, UeSide::Destination));
    change.create_traffic_endpoints = vec![
        TrafficEndpointSpec { f_teid: Some(CHOOSE), ue, ..endpoint(TUNNEL) },
        TrafficEndpointSpec { ue, ..endpoint(NETWORK) },
    ];
    change
}

#[test]
fn pdr_takes_over_tunnel_and_ue_of_its_traffic_endpoint() {
    let established = store(4).establish(OWNER, CP, with_endpoints()).unwrap();
    assert!(established.created.is_empty() && established.created_ues.is_empty());
    let [created] = established.created_endpoints[..] else {
        unreachable!("one endpoint was chosen")
    };
    let teid = created.f_teid.unwrap().teid;
    assert_eq!((created.id, created.ue), (TUNNEL, None));
    let rules = established.delta.rules.unwrap();
    assert_eq!(rules.uplink[0].teid, Some(teid));
    assert_eq!((rules.uplink[0].ue.v4, rules.downlink[0].ue.v4), (Some(ue(1)), Some(ue(1))));
    let keys = [SessionKey::Teid(teid), SessionKey::UeIpv4(adit_types::DomainId(0), ue(1))]
        .map(KeyChange::Add);
    assert_eq!(established.delta.keys, keys);
}

#[test]
fn update_of_a_traffic_endpoint_reaches_its_pdrs() {
    let mut store = store(4);
    let established = store.establish(OWNER, CP, with_endpoints()).unwrap();
    let update =
        |spec| SessionChange { update_traffic_endpoints: vec![spec], ..SessionChange::default() };
    let moved = TrafficEndpointSpec { f_teid: Some(given(0x77)), ..endpoint(TUNNEL) };
    let delta = store.modify(established.up_seid, update(moved)).unwrap().delta.unwrap();
    assert_eq!(delta.rules.unwrap().uplink[0].teid, Some(Teid(0x77)));
    assert_eq!(delta.keys.len(), 2);
    let moved = TrafficEndpointSpec { ue: Some(ue_match(9, UeSide::Source)), ..endpoint(NETWORK) };
    let delta = store.modify(established.up_seid, update(moved)).unwrap().delta.unwrap();
    assert_eq!(delta.rules.unwrap().downlink[0].ue.v4, Some(ue(9)));
}

#[test]
fn update_of_a_traffic_endpoint_keeps_the_parts_that_it_leaves_out() {
    let mut store = store(4);
    let mut change = with_endpoints();
    let qfis = vec![Qfi::new(7).unwrap()];
    let [tunnel, _] = &mut change.create_traffic_endpoints[..] else {
        unreachable!("there are two")
    };
    tunnel.framed_routes = vec!["198.51.100.0/24".parse().unwrap()].into();
    (tunnel.network_instance, tunnel.qfis) = (Change::Set("ims".into()), qfis.into());
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    let mut updated = |spec| {
        let change =
            SessionChange { update_traffic_endpoints: vec![spec], ..SessionChange::default() };
        store.modify(up_seid, change).unwrap();
        store.session(up_seid).unwrap().traffic_endpoints().remove(0)
    };
    let before = updated(endpoint(TUNNEL));
    assert_eq!((before.framed_routes.len(), before.qfis.len()), (1, 1));
    assert_eq!(before.network_instance.as_deref(), Some("ims"));
    let routes = vec!["203.0.113.0/24".parse().unwrap()];
    let after =
        updated(TrafficEndpointSpec { framed_routes: routes.clone().into(), ..endpoint(TUNNEL) });
    assert_eq!(after, TrafficEndpoint { framed_routes: routes, ..before.clone() });
    let qfis = vec![Qfi::new(8).unwrap()];
    let last = updated(TrafficEndpointSpec { qfis: qfis.clone().into(), ..endpoint(TUNNEL) });
    assert_eq!(last, TrafficEndpoint { qfis, ..after });
}

#[test]
fn removal_of_a_traffic_endpoint_removes_its_pdrs_and_frees_what_was_chosen() {
    let mut store = store(4);
    let established = store.establish(OWNER, CP, with_endpoints()).unwrap();
    store.reclaim(established.index);
    let change =
        SessionChange { remove_traffic_endpoints: vec![TUNNEL], ..SessionChange::default() };
    let delta = store.modify(established.up_seid, change).unwrap().delta.unwrap();
    assert!(delta.rules.unwrap().uplink.is_empty());
    assert_eq!(store.reserved().teids, 1, "until the reclaim");
    store.reclaim(established.index);
    assert_eq!(store.reserved().teids, 0);
}

#[test]
fn traffic_endpoint_that_no_pdr_names_keeps_its_tunnel() {
    let mut store = store(4);
    let mut change = session(1);
    change.create_traffic_endpoints =
        vec![TrafficEndpointSpec { f_teid: Some(CHOOSE), ..endpoint(TUNNEL) }];
    let established = store.establish(OWNER, CP, change).unwrap();
    store.reclaim(established.index);
    let teid = established.created_endpoints[0].f_teid.unwrap().teid;
    assert_eq!(store.reserved().teids, 2);
    let mut other = session(2);
    other.create_pdrs[0].pdi.f_teid = Some(given(teid.0));
    let refusal = store.establish(OWNER, CP, other).unwrap_err();
    assert_eq!(refusal, Refusal::FTeidTaken { pdr: PdrId(1), teid });
    let change =
        SessionChange { remove_traffic_endpoints: vec![TUNNEL], ..SessionChange::default() };
    let delta = store.modify(established.up_seid, change).unwrap().delta;
    assert!(delta.is_some(), "a delta whose reclaim frees the TEID");
    store.reclaim(established.index);
    assert_eq!(store.reserved().teids, 1);
}

#[test]
fn traffic_endpoint_gets_a_ue_address_of_our_choice() {
    let prefix = AddrMatch::V4("10.60.0.0/24".parse().unwrap());
    let pool = UePool { network_instance: None, identity: None, s_nssai: None, prefix };
    let mut store = store_with(4, Provisioning { ue_pools: vec![pool], ..Provisioning::default() });
    let mut change = with_endpoints();
    for spec in &mut change.create_traffic_endpoints {
        let side = UeSide::Source;
        spec.ue = None;
        spec.choose_ue = Some(ChooseUe { v4: true, v6: false, side, pools: Vec::new() });
    }
    let established = store.establish(OWNER, CP, change).unwrap();
    let [first, second] = established.created_endpoints[..] else {
        unreachable!("both were chosen")
    };
    assert!(first.ue.is_some_and(|ue| ue.v4.is_some()));
    assert_eq!(first.ue, second.ue);
    let rules = established.delta.rules.unwrap();
    assert_eq!((Some(rules.uplink[0].ue), Some(rules.downlink[0].ue)), (first.ue, first.ue));
}

#[test]
fn traffic_endpoint_in_contradiction_is_refused_without_a_trace() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(200)).unwrap().up_seid;
    let before = store.clone();
    let mut refused = |spoil: &dyn Fn(&mut SessionChange)| {
        let mut change = with_endpoints();
        spoil(&mut change);
        let refusal = store.establish(OWNER, CP, change).unwrap_err();
        assert_eq!(store, before, "{refusal}");
        refusal
    };
    let (pdr, id) = (PdrId(1), TUNNEL);
    let unknown = refused(&|c| c.create_pdrs[0].pdi.traffic_endpoints = vec![TrafficEndpointId(9)]);
    assert_eq!(unknown, Refusal::UnknownTrafficEndpointOfPdr { pdr });
    let both = refused(&|c| c.create_pdrs[0].pdi.f_teid = Some(CHOOSE));
    assert_eq!(both, Refusal::TrafficEndpointNotAlone { pdr });
    let twice = refused(&|c| c.create_traffic_endpoints[1].id = TUNNEL);
    assert_eq!(twice, Refusal::DuplicateTrafficEndpoint { id });
    let taken = refused(&|c| {
        c.create_traffic_endpoints[1].ue = Some(ue_match(200, UeSide::Source));
    });
    let addr = ue(200).into();
    assert_eq!(taken, Refusal::UeAddressTaken { pdr: PdrId(2), addr });
    let foreign = refused(&|c| {
        c.create_traffic_endpoints[0].id = TrafficEndpointId(7);
        c.create_traffic_endpoints[0].f_teid = Some(given(0));
        c.create_pdrs.remove(0);
    });
    assert_eq!(foreign, Refusal::TrafficEndpointUnusable { id: TrafficEndpointId(7) });
    let change =
        SessionChange { remove_traffic_endpoints: vec![TUNNEL], ..SessionChange::default() };
    let refusal = store.modify(up_seid, change).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownTrafficEndpoint { id });
}

/// Endpoint 3 in addition to endpoint 1: a second tunnel of the same UE.
fn with_two_tunnels() -> SessionChange {
    let mut change = with_endpoints();
    change.create_pdrs[0].pdi.traffic_endpoints = vec![TUNNEL, SECOND];
    let ue = Some(ue_match(2, UeSide::Source));
    let second = TrafficEndpointSpec { f_teid: Some(CHOOSE), ue, ..endpoint(SECOND) };
    change.create_traffic_endpoints.push(second);
    change
}

const SECOND: TrafficEndpointId = TrafficEndpointId(3);

#[test]
fn pdr_with_several_traffic_endpoints_matches_packets_of_each() {
    let established = store(4).establish(OWNER, CP, with_two_tunnels()).unwrap();
    let teids: Vec<_> =
        established.created_endpoints.iter().map(|made| made.f_teid.map(|f| f.teid)).collect();
    let rules = established.delta.rules.unwrap();
    let entries: Vec<_> = rules.uplink.iter().map(|entry| (entry.id, entry.teid)).collect();
    assert_eq!(entries, [(PdrId(1), teids[0]), (PdrId(1), teids[1])]);
    assert_eq!((rules.uplink[0].ue.v4, rules.uplink[1].ue.v4), (Some(ue(1)), Some(ue(2))));
    for teid in teids.into_iter().flatten() {
        assert!(established.delta.keys.contains(&KeyChange::Add(SessionKey::Teid(teid))));
    }
    assert!(rules.allows_ue(ue(2).into()));
}

#[test]
fn removal_of_one_of_several_traffic_endpoints_keeps_the_pdr() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, with_two_tunnels()).unwrap().up_seid;
    let remove =
        |id| SessionChange { remove_traffic_endpoints: vec![id], ..SessionChange::default() };
    let delta = store.modify(up_seid, remove(TUNNEL)).unwrap().delta.unwrap();
    let rules = delta.rules.unwrap();
    assert_eq!((rules.uplink.len(), rules.uplink[0].ue.v4), (1, Some(ue(2))));
    store.modify(up_seid, remove(SECOND)).unwrap();
    assert_eq!(store.session(up_seid).unwrap().pdrs().len(), 1, "the other PDR");
}

#[test]
fn parts_of_a_pdi_come_back_when_its_traffic_endpoint_has_none() {
    let mut change = with_two_tunnels();
    let qfi = |value| adit_types::Qfi::new(value).unwrap();
    change.create_traffic_endpoints[0].qfis = vec![qfi(5)].into();
    let established = store(4).establish(OWNER, CP, change).unwrap();
    let rules = established.delta.rules.unwrap();
    assert_eq!((&rules.uplink[0].qfis, &rules.uplink[1].qfis), (&vec![qfi(5)], &vec![qfi(9)]));
}

#[test]
fn traffic_endpoints_beyond_the_limit_are_refused() {
    let mut change = with_endpoints();
    let ids = 10..=10 + u8::try_from(TRAFFIC_ENDPOINTS_PER_PDI_MAX).unwrap();
    let ids: Vec<_> = ids.map(TrafficEndpointId).collect();
    let tunnel = |id: &TrafficEndpointId| TrafficEndpointSpec {
        f_teid: Some(given(u32::from(id.0))),
        ..endpoint(*id)
    };
    change.create_traffic_endpoints.extend(ids.iter().map(tunnel));
    change.create_pdrs[0].pdi.traffic_endpoints = ids;
    let refusal = store(4).establish(OWNER, CP, change.clone()).unwrap_err();
    assert_eq!(refusal, Refusal::TooManyTrafficEndpointsOfPdr { pdr: PdrId(1) });
    change.create_pdrs[0].pdi.traffic_endpoints.pop();
    store(16).establish(OWNER, CP, change).unwrap();
}

#[test]
fn tunnel_of_a_further_traffic_endpoint_comes_from_one_side() {
    let mut change = with_two_tunnels();
    change.create_pdrs[1].pdi.traffic_endpoints = vec![SECOND];
    let refusal = store(4).establish(OWNER, CP, change).unwrap_err();
    assert!(matches!(refusal, Refusal::FTeidSidesDiffer { .. }), "{refusal}");
}

#[test]
fn linked_traffic_endpoint_exists_and_goes_with_it() {
    let mut change = with_endpoints();
    let link = |change: &mut SessionChange, id| {
        change.create_fars[1].forwarding.as_mut().unwrap().linked_endpoint = Some(id);
    };
    link(&mut change, SECOND);
    let refusal = store(4).establish(OWNER, CP, change.clone()).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownLinkedEndpoint { far: FarId(2), id: SECOND });
    link(&mut change, TUNNEL);
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    let linked = |store: &SessionStore| {
        store.session(up_seid).unwrap().fars()[1].forwarding.as_ref().unwrap().linked_endpoint
    };
    assert_eq!(linked(&store), Some(TUNNEL));
    let change =
        SessionChange { remove_traffic_endpoints: vec![TUNNEL], ..SessionChange::default() };
    store.modify(up_seid, change).unwrap();
    assert_eq!(linked(&store), None);
}
