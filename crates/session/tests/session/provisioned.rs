//! Objects that rules name and the operator configured.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use adit_rules::sdf::AddrMatch;
use adit_rules::{SourceInterface, UeAddresses};
use adit_session::{
    Application, Change, ChooseUe, Established, FarUpdate, ForwardingUpdate, PdiSpec, PdrUpdate,
    Provisioning, Rates, Refusal, RuleId, SessionChange, SessionStore, Slice, SliceIdentity,
    UeMatch, UePool, UeSide, parse_flow_description,
};
use adit_types::{FarId, InterfaceRole, InterfaceSet, PdrId, SliceId};

use crate::builders::*;

/// N3 for any network instance, N6 for "internet" and another N6 for "ims".
fn two_networks() -> Provisioning {
    Provisioning {
        ue_pools: Vec::new(),
        applications: Vec::new(),
        policies: Vec::new(),
        predefined_rules: Vec::new(),
        tunnel_routes: adit_session::TunnelRoutes::default(),
        interfaces: vec![
            interface(InterfaceRole::N3, None, N3),
            interface(InterfaceRole::N6, Some("internet"), N3),
            interface(InterfaceRole::N6, Some("ims"), N3),
        ],
        qos: adit_session::QosPolicy::default(),
        outer_tos: adit_rules::OuterTos::default(),
        ..Provisioning::default()
    }
}

fn in_network(name: &str) -> SessionChange {
    let mut change = session(1);
    change.create_pdrs[0].pdi.network_instance = Some("access".into());
    change.create_pdrs[1].pdi.network_instance = Some(name.into());
    let forwarding = change.create_fars[0].forwarding.as_mut().unwrap();
    forwarding.network_instance = Some(name.into());
    change
}

#[test]
fn network_instance_becomes_a_set_of_interfaces() {
    let mut store = store_with(4, two_networks());
    let rules = store.establish(OWNER, CP, in_network("IMS")).unwrap().delta.rules.unwrap();
    assert_eq!(rules.uplink[0].interfaces, InterfaceSet(0b001));
    assert_eq!(rules.downlink[0].interfaces, InterfaceSet(0b101));
    assert_eq!(rules.fars[0].interfaces, InterfaceSet(0b101));
    assert_eq!(rules.fars[1].interfaces, InterfaceSet(0b001), "the tunnel leaves on N3");
}

#[test]
fn session_belongs_to_the_first_slice_that_fits_its_network_slice_and_data_network() {
    let ours = SliceIdentity { sst: 1, sd: None };
    let slice = |s_nssai, name: Option<&str>| Slice {
        s_nssai,
        network_instance: name.map(Box::from),
        rates: Rates::default(),
    };
    let slices =
        vec![slice(Some(ours), Some("ims")), slice(None, Some("ims")), slice(Some(ours), None)];
    let qos = adit_session::QosPolicy { slices, ..Default::default() };
    let mut store = store_with(8, Provisioning { qos, ..two_networks() });
    let other = SliceIdentity { sst: 1, sd: Some(7) };
    let cases = [
        (Some(ours), "ims", 1),
        (Some(other), "IMS", 2),
        (None, "ims", 2),
        (Some(ours), "internet", 3),
        (Some(other), "internet", 0),
        (None, "internet", 0),
    ];
    for (s_nssai, name, expected) in cases {
        let change = SessionChange { s_nssai, ..in_network(name) };
        let established = store.establish(OWNER, CP, change).unwrap();
        let found = established.delta.rules.unwrap().slice;
        assert_eq!(found, SliceId(expected), "{s_nssai:?} {name}");
        store.delete(established.up_seid).unwrap();
    }
}

#[test]
fn network_instance_without_a_fitting_interface_is_refused() {
    let mut store = store_with(4, two_networks());
    let before = store.clone();
    let mut change = in_network("ims");
    change.create_pdrs[1].pdi.network_instance = Some("access".into());
    let rule = RuleId::Pdr(PdrId(2));
    let refusal = Err(Refusal::UnknownNetworkInstance { rule });
    assert_eq!(store.establish(OWNER, CP, change).map(|_| ()), refusal);
    let mut change = in_network("ims");
    change.create_fars[0].forwarding.as_mut().unwrap().network_instance = Some("x".into());
    let rule = RuleId::Far(FarId(1));
    let refusal = Err(Refusal::UnknownNetworkInstance { rule });
    assert_eq!(store.establish(OWNER, CP, change).map(|_| ()), refusal);
    assert_eq!(store, before);
}

#[test]
fn network_instance_of_a_far_is_replaced_and_withdrawn() {
    let mut store = store_with(4, two_networks());
    let up_seid = store.establish(OWNER, CP, in_network("ims")).unwrap().up_seid;
    let mut rename = |network_instance| {
        let forwarding = ForwardingUpdate { network_instance, ..ForwardingUpdate::default() };
        let update =
            FarUpdate { id: FarId(1), forwarding: Some(forwarding), ..FarUpdate::default() };
        let change = SessionChange { update_fars: vec![update], ..SessionChange::default() };
        store.modify(up_seid, change).unwrap().delta.unwrap().rules.unwrap().fars[0].interfaces
    };
    assert_eq!(rename(Change::Set("internet".into())), InterfaceSet(0b011));
    assert_eq!(rename(Change::Withdraw), InterfaceSet(0b111));
}

fn pool(network_instance: Option<&str>, prefix: &str) -> UePool {
    let prefix = match prefix.contains(':') {
        true => AddrMatch::V6(prefix.parse().unwrap()),
        false => AddrMatch::V4(prefix.parse().unwrap()),
    };
    UePool {
        network_instance: network_instance.map(Box::from),
        identity: None,
        s_nssai: None,
        prefix,
    }
}

fn with_pools(pools: Vec<UePool>) -> SessionStore {
    store_with(16, Provisioning { ue_pools: pools, ..Provisioning::default() })
}

/// The usual session with UE addresses of our choice in both PDRs.
fn choosing(v4: bool, v6: bool) -> SessionChange {
    let mut change = session(1);
    for pdr in &mut change.create_pdrs {
        let side = pdr.pdi.ue.take().map_or(UeSide::Source, |ue| ue.side);
        pdr.pdi.choose_ue = Some(ChooseUe { v4, v6, side, pools: Vec::new() });
    }
    change
}

fn chosen(established: &Established) -> UeAddresses {
    let [first, second] = established.created_ues[..] else { unreachable!("one per PDR") };
    assert_eq!((first.pdr, second.pdr), (PdrId(1), PdrId(2)));
    assert_eq!(first.addresses, second.addresses, "one UE, one address");
    first.addresses
}

#[test]
fn ue_addresses_are_chosen_per_session_and_matched() {
    let mut store = with_pools(vec![pool(None, "10.60.0.0/29"), pool(None, "2001:db8:60::/63")]);
    let established = store.establish(OWNER, CP, choosing(true, true)).unwrap();
    let ue = chosen(&established);
    assert_eq!(ue.v4, Some(Ipv4Addr::new(10, 60, 0, 1)));
    assert_eq!(ue.v6, Some("2001:db8:60::/64".parse().unwrap()));
    let rules = established.delta.rules.unwrap();
    assert_eq!((rules.uplink[0].ue, rules.downlink[0].ue), (ue, ue));
    assert!(!rules.allows_ue(Ipv4Addr::new(10, 60, 0, 2).into()));
    assert_eq!(established.delta.keys.len(), 3, "a TEID and two UE keys");
}

#[test]
fn ue_addresses_are_given_once_until_reclaimed_and_then_again() {
    let mut store = with_pools(vec![pool(None, "10.60.0.0/29")]);
    let before = store.reserved();
    let all: Vec<Established> =
        (0..6).map(|_| store.establish(OWNER, CP, choosing(true, false)).unwrap()).collect();
    let distinct: BTreeSet<_> = all.iter().map(|done| chosen(done).v4).collect();
    assert_eq!(distinct.len(), 6);
    let full = store.clone();
    let exhausted = Err(Refusal::UePoolsExhausted { pdr: Some(PdrId(1)) });
    assert_eq!(store.establish(OWNER, CP, choosing(true, false)).map(|_| ()), exhausted);
    assert_eq!(store, full);
    let delta = store.delete(all[2].up_seid).unwrap();
    store.reclaim(delta.session);
    assert_eq!(store.establish(OWNER, CP, choosing(true, false)).map(|_| ()), exhausted);
    store.reclaim(delta.session);
    let again = store.establish(OWNER, CP, choosing(true, false)).unwrap();
    assert_eq!(chosen(&again), chosen(&all[2]));
    for session in all.iter().map(|done| done.up_seid).chain([again.up_seid]) {
        if let Ok(delta) = store.delete(session) {
            store.reclaim(delta.session);
            store.reclaim(delta.session);
        }
    }
    assert_eq!(store.reserved(), before);
}

#[test]
fn ue_address_given_by_the_control_plane_is_not_chosen() {
    let mut store = with_pools(vec![pool(None, "10.45.0.0/30")]);
    store.establish(OWNER, CP, session(1)).unwrap();
    let established = store.establish(OWNER, CP, choosing(true, false)).unwrap();
    assert_eq!(chosen(&established).v4, Some(ue(2)));
    let taken = Refusal::UeAddressTaken { pdr: PdrId(1), addr: ue(2).into() };
    assert_eq!(store.establish(OWNER, CP, session(2)).unwrap_err(), taken);
}

#[test]
fn ue_address_chosen_stays_when_asked_for_again() {
    let mut store = with_pools(vec![pool(None, "10.60.0.0/24")]);
    let established = store.establish(OWNER, CP, choosing(true, false)).unwrap();
    let pdi = choosing(true, false).create_pdrs.remove(1).pdi;
    let update = PdrUpdate { id: PdrId(2), pdi: Some(pdi), ..PdrUpdate::default() };
    let change = SessionChange { update_pdrs: vec![update], ..SessionChange::default() };
    let modified = store.modify(established.up_seid, change).unwrap();
    assert_eq!(modified.created_ues[0].addresses, chosen(&established));
    assert_eq!(modified.delta, None);
    assert_eq!(store.reserved().ues, 1);
}

#[test]
fn ue_pool_is_chosen_by_network_instance_and_identity_or_refused() {
    let mut named = pool(Some("ims"), "10.62.0.0/24");
    named.identity = Some("p2".into());
    let mut store = with_pools(vec![pool(Some("internet"), "10.61.0.0/24"), named]);
    let mut asking = |network: Option<&str>, pools: &[&str]| {
        let mut change = choosing(true, false);
        for pdr in &mut change.create_pdrs {
            pdr.pdi.network_instance = network.map(Box::from);
            let choose = pdr.pdi.choose_ue.as_mut().unwrap();
            choose.pools = pools.iter().map(|name| Box::from(*name)).collect();
        }
        store.establish(OWNER, CP, change).map(|done| chosen(&done).v4.unwrap().octets()[1])
    };
    let pdr = Some(PdrId(1));
    assert_eq!(asking(Some("IMS"), &[]), Ok(62));
    assert_eq!(asking(None, &["p2"]), Ok(62));
    assert_eq!(asking(None, &[]), Ok(61));
    assert_eq!(asking(Some("corp"), &[]), Err(Refusal::NoUePool { pdr }));
    assert_eq!(asking(Some("internet"), &["p2"]), Err(Refusal::UnknownUePool { pdr }));
    let mut store = with_pools(vec![pool(None, "10.61.0.0/24")]);
    let refusal = store.establish(OWNER, CP, choosing(false, true)).unwrap_err();
    assert_eq!(refusal, Refusal::NoUePool { pdr }, "no pool of this family");
}

#[test]
fn ue_address_beside_a_stated_one_of_its_family_is_refused() {
    let mut store = with_pools(vec![pool(None, "10.61.0.0/24")]);
    let before = store.reserved();
    let mut change = choosing(true, false);
    let stated = UeAddresses { v4: Some("10.62.0.1".parse().unwrap()), v6: None };
    for pdr in &mut change.create_pdrs {
        let side = pdr.pdi.choose_ue.as_ref().unwrap().side;
        pdr.pdi.ue = Some(UeMatch { addresses: stated, side });
    }
    let refusal = store.establish(OWNER, CP, change).unwrap_err();
    assert_eq!(refusal, Refusal::UeAddressStatedAndRequested { pdr: Some(PdrId(1)) });
    assert_eq!(store.reserved(), before);
}

#[test]
fn ue_address_of_a_commit_that_unwinds_is_free_after_its_reclaim() {
    let mut store = with_pools(vec![pool(None, "10.60.0.0/32")]);
    let before = store.reserved();
    store.inject_fault_in_commit();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.establish(OWNER, CP, choosing(true, false)).map(|_| ())
    }));
    assert!(unwound.is_err());
    let delta = store.recover().unwrap();
    let exhausted = Err(Refusal::UePoolsExhausted { pdr: Some(PdrId(1)) });
    assert_eq!(store.establish(OWNER, CP, choosing(true, false)).map(|_| ()), exhausted);
    store.reclaim(delta.session);
    assert_eq!(store.reserved(), before);
    assert!(store.establish(OWNER, CP, choosing(true, false)).is_ok());
}

#[test]
fn ue_named_by_an_update_in_the_same_change_ends_the_wish_of_its_pdr_alone() {
    let mut store = with_pools(vec![pool(None, "10.60.0.0/24")]);
    let mut change = choosing(true, false);
    let pdi = PdiSpec { ue: Some(ue_match(7, UeSide::Source)), ..pdi(SourceInterface::Access) };
    change.update_pdrs = vec![PdrUpdate { id: PdrId(1), pdi: Some(pdi), ..PdrUpdate::default() }];
    let done = store.establish(OWNER, CP, change).unwrap();
    let pdrs = store.session(done.up_seid).unwrap().pdrs();
    assert_eq!(pdrs[0].pdi.ue_addresses().v4, Some(ue(7)));
    let chosen = pdrs[1].pdi.ue_addresses().v4.unwrap();
    assert_eq!(chosen.octets()[..3], [10, 60, 0]);
    assert_eq!(done.created_ues.iter().map(|created| created.pdr).collect::<Vec<_>>(), [PdrId(2)]);
}

#[test]
fn application_becomes_its_filters_or_is_refused() {
    let filters: Vec<_> =
        ["permit out 17 from 203.0.113.0/24 to assigned", "permit out 6 from any 443 to any"]
            .map(|text| parse_flow_description(text).unwrap())
            .into();
    let applications = vec![Application { id: "video".into(), filters: filters.clone().into() }];
    let mut store = store_with(4, Provisioning { applications, ..Provisioning::default() });
    let before = store.clone();
    let with = |id: &str, sdf| {
        let mut change = session(1);
        change.create_pdrs[1].pdi.application = Some(id.into());
        change.create_pdrs[1].pdi.sdf = sdf;
        change
    };
    let pdr = PdrId(2);
    let refused = store.establish(OWNER, CP, with("Video", Vec::new())).unwrap_err();
    assert_eq!(refused, Refusal::UnknownApplication { pdr }, "identifiers compare exactly");
    let sdf = vec![flow("permit out ip from any to any")];
    let refused = store.establish(OWNER, CP, with("video", sdf)).unwrap_err();
    assert_eq!(refused, Refusal::ApplicationNotAlone { pdr });
    assert_eq!(store, before);
    let established = store.establish(OWNER, CP, with("video", Vec::new())).unwrap();
    assert_eq!(established.delta.rules.unwrap().downlink[0].sdf, filters);
}
