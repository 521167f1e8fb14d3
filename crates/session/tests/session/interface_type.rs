//! 3GPP Interface Type and the fields that it must agree with. Spec: TS 29.244 §8.2.118.

use core::net::Ipv4Addr;

use adit_session::{
    Change, FarUpdate, ForwardingUpdate, InterfaceType, LocalAddresses, LocalInterface,
    Provisioning, SessionChange,
};
use adit_types::{FarId, InterfaceRole};

use crate::builders::*;

const N3_ACCESS: InterfaceType = InterfaceType(11);
const N6: InterfaceType = InterfaceType(17);

#[test]
fn interface_type_of_the_side_is_kept() {
    let mut change = session(1);
    change.create_pdrs[0].pdi.interface_type = Some(N3_ACCESS);
    change.create_pdrs[1].pdi.interface_type = Some(N6);
    change.create_fars[0].forwarding.as_mut().unwrap().interface_type = Some(N6);
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    let session = store.session(up_seid).unwrap();
    assert_eq!(session.pdrs()[0].pdi.interface_type, Some(N3_ACCESS));
    assert_eq!(session.fars()[0].forwarding.as_ref().unwrap().interface_type, Some(N6));
}

#[test]
fn interface_type_of_another_side_is_kept_and_says_nothing() {
    const N9: InterfaceType = InterfaceType(15);
    const N9_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 1);
    let on = |role, v4| LocalInterface::of_role(role, LocalAddresses { v4: Some(v4), v6: None });
    let n6 = LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default());
    let interfaces = vec![on(InterfaceRole::N9, N9_ADDR), on(InterfaceRole::N3, N3), n6];
    let mut store = store_with(4, Provisioning { interfaces, ..Provisioning::default() });
    for (reference, wanted) in [(N6, N3), (N3_ACCESS, N3), (N9, N9_ADDR)] {
        let mut change = session(1);
        change.create_pdrs[0].pdi.interface_type = Some(reference);
        change.create_fars[1].forwarding.as_mut().unwrap().interface_type = Some(N6);
        let made = store.establish(OWNER, CP, change).unwrap();
        assert_eq!(made.created[0].f_teid.v4, Some(wanted), "{reference:?}");
        let session = store.session(made.up_seid).unwrap();
        assert_eq!(session.pdrs()[0].pdi.interface_type, Some(reference));
        store.delete(made.up_seid).unwrap();
    }
}

#[test]
fn interface_type_is_updated_with_the_destination() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let forwarding =
        ForwardingUpdate { interface_type: Change::Set(N3_ACCESS), ..Default::default() };
    let update = |id| FarUpdate {
        id: FarId(id),
        forwarding: Some(forwarding.clone()),
        ..FarUpdate::default()
    };
    let change = |id| SessionChange { update_fars: vec![update(id)], ..SessionChange::default() };
    for id in [1, 2] {
        assert_eq!(store.modify(up_seid, change(id)).unwrap().delta, None, "packets go as before");
    }
    let fars = store.session(up_seid).unwrap().fars();
    // The type of FAR 1, to the data network, is absent.
    let types = fars.iter().map(|far| far.forwarding.as_ref().unwrap().interface_type);
    assert_eq!(types.collect::<Vec<_>>(), [Some(N3_ACCESS); 2]);
}
