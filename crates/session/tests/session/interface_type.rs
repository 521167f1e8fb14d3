//! 3GPP Interface Type and what it must agree with. Spec: TS 29.244 §8.2.118.

use adit_session::{Change, FarUpdate, ForwardingUpdate, InterfaceType};
use adit_types::FarId;

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
fn interface_type_of_another_side_is_left_out() {
    let mut change = session(1);
    change.create_pdrs[0].pdi.interface_type = Some(N6);
    change.create_pdrs[1].pdi.interface_type = Some(InterfaceType(0));
    change.create_fars[1].forwarding.as_mut().unwrap().interface_type = Some(N6);
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    let session = store.session(up_seid).unwrap();
    assert!(session.pdrs().iter().all(|pdr| pdr.pdi.interface_type.is_none()));
    assert_eq!(session.fars()[1].forwarding.as_ref().unwrap().interface_type, None);
}

#[test]
fn interface_type_is_updated_with_the_destination() {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, session(1)).unwrap().up_seid;
    let forwarding = ForwardingUpdate { interface_type: Some(N3_ACCESS), ..Default::default() };
    let update = |id| FarUpdate {
        id: FarId(id),
        forwarding: Some(forwarding.clone()),
        ..FarUpdate::default()
    };
    let change = |id| Change { update_fars: vec![update(id)], ..Change::default() };
    for id in [1, 2] {
        assert_eq!(store.modify(up_seid, change(id)).unwrap().delta, None, "packets go as before");
    }
    let fars = store.session(up_seid).unwrap().fars();
    let types = fars.iter().map(|far| far.forwarding.as_ref().unwrap().interface_type);
    assert_eq!(types.collect::<Vec<_>>(), [None, Some(N3_ACCESS)]);
}
