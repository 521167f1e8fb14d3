//! 3GPP Interface Type and what it must agree with. Spec: TS 29.244 §8.2.118.

use adit_session::{Change, FarUpdate, ForwardingUpdate, InterfaceType, Refusal, RuleId};
use adit_types::{FarId, PdrId};

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
fn interface_type_of_another_side_is_refused_with_its_rule() {
    let refused = |edit: &dyn Fn(&mut Change)| {
        let mut change = session(1);
        edit(&mut change);
        store(4).establish(OWNER, CP, change).unwrap_err()
    };
    let pdr = refused(&|change| change.create_pdrs[0].pdi.interface_type = Some(N6));
    assert_eq!(pdr, Refusal::InterfaceTypeContradicts { rule: RuleId::Pdr(PdrId(1)) });
    let far = refused(&|change| {
        change.create_fars[1].forwarding.as_mut().unwrap().interface_type = Some(N6);
    });
    assert_eq!(far, Refusal::InterfaceTypeContradicts { rule: RuleId::Far(FarId(2)) });
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
    let refusal = store.modify(up_seid, change(1)).unwrap_err();
    assert_eq!(refusal, Refusal::InterfaceTypeContradicts { rule: RuleId::Far(FarId(1)) });
    assert_eq!(store.modify(up_seid, change(2)).unwrap().delta, None, "packets go as before");
}
