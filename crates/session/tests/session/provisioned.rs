//! What rules name and the operator configured.

use adit_session::{
    Change, FarUpdate, ForwardingUpdate, LocalInterface, Provisioning, Refusal, RuleId,
};
use adit_types::{FarId, InterfaceRole, InterfaceSet, PdrId};

use crate::builders::*;

/// N3 for any network instance, N6 for "internet" and another N6 for "ims".
fn two_networks() -> Provisioning {
    let interface =
        |role, name: Option<&str>| LocalInterface { role, network_instance: name.map(Box::from) };
    Provisioning {
        interfaces: vec![
            interface(InterfaceRole::N3, None),
            interface(InterfaceRole::N6, Some("internet")),
            interface(InterfaceRole::N6, Some("ims")),
        ],
    }
}

fn in_network(name: &str) -> Change {
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
    assert_eq!(rules.fars[1].interfaces, InterfaceSet::ALL, "the FAR names none");
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
    let mut rename = |name: &str| {
        let forwarding =
            ForwardingUpdate { network_instance: Some(name.into()), ..ForwardingUpdate::default() };
        let update =
            FarUpdate { id: FarId(1), forwarding: Some(forwarding), ..FarUpdate::default() };
        let change = Change { update_fars: vec![update], ..Change::default() };
        store.modify(up_seid, change).unwrap().delta.unwrap().rules.unwrap().fars[0].interfaces
    };
    assert_eq!(rename("internet"), InterfaceSet(0b011));
    assert_eq!(rename(""), InterfaceSet::ALL);
}
