//! Framed routes and UE addresses beyond one per family. Spec: TS 29.244 §5.16.

use adit_rules::{KeyChange, SessionKey};
use adit_session::{PdrUpdate, Refusal, SessionChange};
use adit_types::limits::{FRAMED_ROUTES_MAX, UE_NETWORKS_PER_PDI_MAX, framed_routes_max};
use adit_types::{IpPrefix, PdrId};

use crate::builders::*;

const DL: PdrId = PdrId(2);

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

/// The usual session of UE `last` with `routes` behind it, in both directions.
fn with_routes(last: u8, routes: &[&str]) -> SessionChange {
    let mut change = session(last);
    for pdr in &mut change.create_pdrs {
        pdr.pdi.framed_routes = routes.iter().map(|text| prefix(text)).collect();
    }
    change
}

#[test]
fn framed_routes_are_keys_and_allowed_sources_of_their_session() {
    let change = with_routes(1, &["192.168.1.0/24", "192.168.9.1/32", "2001:db8:1::/48"]);
    let established = store(4).establish(OWNER, CP, change).unwrap();
    let keys = established.delta.keys;
    for key in [
        SessionKey::Framed(adit_types::DomainId(0), prefix("192.168.1.0/24")),
        SessionKey::UeIpv4(adit_types::DomainId(0), "192.168.9.1".parse().unwrap()),
        SessionKey::Framed(adit_types::DomainId(0), prefix("2001:db8:1::/48")),
        SessionKey::UeIpv4(adit_types::DomainId(0), ue(1)),
    ] {
        assert!(keys.contains(&KeyChange::Add(key)), "{key:?} in {keys:?}");
    }
    let rules = established.delta.rules.unwrap();
    let addr = |text: &str| text.parse().unwrap();
    assert!(rules.allows_ue(addr("192.168.1.77")) && rules.allows_ue(addr("2001:db8:1:9::1")));
    assert!(rules.allows_ue(ue(1).into()) && !rules.allows_ue(addr("192.168.2.1")));
    assert!(rules.downlink[0].matches_ue(addr("192.168.1.1")));
    assert!(!rules.downlink[0].matches_ue(addr("192.168.2.1")));
}

#[test]
fn framed_route_of_another_session_is_refused_and_free_after_it_ended() {
    let mut store = store(4);
    let first = store.establish(OWNER, CP, with_routes(1, &["192.168.0.0/16"])).unwrap();
    let before = store.clone();
    let refusal = store.establish(OWNER, CP, with_routes(2, &["192.168.0.0/16"])).unwrap_err();
    let (pdr, prefix) = (PdrId(1), prefix("192.168.0.0/16"));
    assert_eq!(refusal, Refusal::FramedRouteTaken { pdr, prefix });
    assert_eq!(store, before);
    let nested = store.establish(OWNER, CP, with_routes(3, &["192.168.5.0/24"])).unwrap();
    assert_eq!(store.reserved().framed_routes, 2, "a longer prefix is another route");
    store.delete(first.up_seid).unwrap();
    store.establish(OWNER, CP, with_routes(2, &["192.168.0.0/16"])).unwrap();
    store.delete(nested.up_seid).unwrap();
    assert_eq!(store.reserved().framed_routes, 1);
}

#[test]
fn framed_route_as_long_as_an_address_meets_addresses() {
    let mut store = store(4);
    store.establish(OWNER, CP, session(1)).unwrap();
    let refusal = store.establish(OWNER, CP, with_routes(2, &["10.45.0.1/32"])).unwrap_err();
    let (pdr, prefix) = (PdrId(1), prefix("10.45.0.1/32"));
    assert_eq!(refusal, Refusal::FramedRouteTaken { pdr, prefix });
    store.establish(OWNER, CP, with_routes(3, &["10.45.0.9/32"])).unwrap();
    let refusal = store.establish(OWNER, CP, session(9)).unwrap_err();
    assert_eq!(refusal, Refusal::UeAddressTaken { pdr, addr: ue(9).into() });
}

#[test]
fn framed_route_that_no_ue_can_have_is_refused() {
    for text in ["0.0.0.0/0", "224.0.0.0/4", "127.0.0.0/8", "192.0.0.0/8", "::/0", "ff00::/8"] {
        let refusal = store(4).establish(OWNER, CP, with_routes(1, &[text])).unwrap_err();
        let (pdr, prefix) = (PdrId(1), prefix(text));
        assert_eq!(refusal, Refusal::FramedRouteInvalid { pdr, prefix }, "192/8 holds our own");
    }
}

#[test]
fn update_replaces_framed_routes_key_by_key() {
    let mut store = store(4);
    let routes = ["192.168.1.0/24", "192.168.2.0/24"];
    let up_seid = store.establish(OWNER, CP, with_routes(1, &routes)).unwrap().up_seid;
    let routes = ["192.168.2.0/24", "192.168.3.0/24"];
    let update = |pdr: adit_session::PdrSpec| PdrUpdate {
        id: pdr.id,
        pdi: Some(pdr.pdi),
        ..PdrUpdate::default()
    };
    let mut update_pdrs: Vec<_> =
        with_routes(1, &routes).create_pdrs.into_iter().map(update).collect();
    let teid = store.session(up_seid).unwrap().pdrs()[0].pdi.f_teid.unwrap().teid;
    update_pdrs[0].pdi.as_mut().unwrap().f_teid = Some(given(teid.0));
    let modified =
        store.modify(up_seid, SessionChange { update_pdrs, ..SessionChange::default() }).unwrap();
    let framed = |text| SessionKey::Framed(adit_types::DomainId(0), prefix(text));
    let expected =
        [KeyChange::Remove(framed("192.168.1.0/24")), KeyChange::Add(framed("192.168.3.0/24"))];
    assert_eq!(modified.delta.unwrap().keys, expected);
}

#[test]
fn further_ue_addresses_are_keys_and_compared() {
    let mut change = session(1);
    change.create_pdrs[1].pdi.further_ues = vec![prefix("10.45.0.2/32"), prefix("2001:db8::/60")];
    let established = store(4).establish(OWNER, CP, change.clone()).unwrap();
    let rules = established.delta.rules.unwrap();
    assert!(
        rules.downlink[0].matches_ue(ue(1).into()) && rules.downlink[0].matches_ue(ue(2).into())
    );
    assert!(
        established
            .delta
            .keys
            .contains(&KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), ue(2))))
    );
    let shorter =
        KeyChange::Add(SessionKey::Framed(adit_types::DomainId(0), prefix("2001:db8::/60")));
    assert!(established.delta.keys.contains(&shorter));
    change.create_pdrs[1].pdi.further_ues = vec![prefix("192.0.2.1/32")];
    let refusal = store(4).establish(OWNER, CP, change).unwrap_err();
    let expected = Refusal::UePrefixInvalid { pdr: DL, prefix: prefix("192.0.2.1/32") };
    assert_eq!(refusal, expected, "our own address");
}

#[test]
fn framed_routes_beyond_a_limit_are_refused() {
    let routes = |count: usize, third: usize| -> Vec<IpPrefix> {
        (0..count).map(|n| prefix(&format!("10.{}.{third}.0/25", 100 + n))).collect()
    };
    let mut change = session(1);
    change.create_pdrs[1].pdi.framed_routes = routes(UE_NETWORKS_PER_PDI_MAX + 1, 0);
    let refusal = store(4).establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refusal, Refusal::TooManyUeNetworks { pdr: DL });
    // A table for one session has room for the framed routes of one; one route more is too many.
    let mut store = store(1);
    assert_eq!(framed_routes_max(1), UE_NETWORKS_PER_PDI_MAX);
    assert_eq!(framed_routes_max(FRAMED_ROUTES_MAX), FRAMED_ROUTES_MAX);
    let mut change = session(1);
    change.create_pdrs[0].pdi.framed_routes = routes(UE_NETWORKS_PER_PDI_MAX, 0);
    change.create_pdrs[1].pdi.framed_routes = routes(1, 1);
    let refusal = store.establish(OWNER, CP, change.clone()).unwrap_err();
    assert_eq!(refusal, Refusal::UeTableFull);
    change.create_pdrs[1].pdi.framed_routes.clear();
    store.establish(OWNER, CP, change).unwrap();
}
