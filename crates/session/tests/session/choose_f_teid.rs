//! F-TEIDs chosen here: what shares one, within a change and over several.

use adit_rules::SourceInterface;
use adit_session::{
    CreatedPdr, FTeidSpec, LocalAddresses, LocalInterface, PdiSpec, PdrSpec, Provisioning,
    SessionChange, SessionStore, TeidRange, Tolerances, UeSide,
};
use adit_types::{FarId, InterfaceRole, PdrId, QerId, Seid, Teid};

use crate::builders::*;

const fn with_id(id: u8) -> FTeidSpec {
    FTeidSpec::Choose { v4: true, v6: true, choose_id: Some(id) }
}

/// A PDR that requests `f_teid`, named by no UE.
fn asking(id: u16, source: SourceInterface, f_teid: FTeidSpec) -> PdrSpec {
    let far = if source == SourceInterface::Access { 1 } else { 2 };
    PdrSpec {
        id: PdrId(id),
        pdi: PdiSpec { f_teid: Some(f_teid), ..pdi(source) },
        far: Some(FarId(far)),
        qers: vec![QerId(1)],
        ..downlink(1)
    }
}

fn teids(created: &[CreatedPdr]) -> Vec<Teid> {
    created.iter().map(|created| created.f_teid.teid).collect()
}

fn add(store: &mut SessionStore, up_seid: Seid, create_pdrs: Vec<PdrSpec>) -> Vec<Teid> {
    let change = SessionChange { create_pdrs, ..SessionChange::default() };
    teids(&store.modify(up_seid, change).unwrap().created)
}

fn remove(ids: &[u16]) -> SessionChange {
    SessionChange {
        remove_pdrs: ids.iter().copied().map(PdrId).collect(),
        ..SessionChange::default()
    }
}

fn established(store: &mut SessionStore, f_teid: FTeidSpec) -> (Seid, Teid) {
    let mut change = session(1);
    change.create_pdrs[0].pdi.f_teid = Some(f_teid);
    let done = store.establish(OWNER, CP, change).unwrap();
    (done.up_seid, done.created[0].f_teid.teid)
}

#[test]
fn choose_id_of_a_later_change_means_the_same_f_teid_while_a_pdr_has_it() {
    use SourceInterface::Access;
    let mut store = store(4);
    let (up_seid, first) = established(&mut store, with_id(5));
    assert_eq!(add(&mut store, up_seid, vec![asking(6, Access, with_id(5))]), [first]);
    let other = add(&mut store, up_seid, vec![asking(7, Access, with_id(10))])[0];
    assert_ne!(other, first, "another ID");
    store.modify(up_seid, remove(&[1])).unwrap();
    assert_eq!(add(&mut store, up_seid, vec![asking(8, Access, with_id(5))]), [first]);
    let change =
        SessionChange { create_pdrs: vec![asking(9, Access, with_id(10))], ..remove(&[7]) };
    let again = teids(&store.modify(up_seid, change).unwrap().created);
    assert_ne!(again, [other], "the last PDR that had it goes in the same change");
    store.modify(up_seid, remove(&[6, 8, 9])).unwrap();
    let new = add(&mut store, up_seid, vec![asking(1, Access, with_id(5))]);
    assert_ne!(new, [first]);
}

#[test]
fn chosen_teid_is_of_the_range_of_this_node() {
    let teid_range = TeidRange { bits: 3, value: 5 };
    let mut store = store_with(4, Provisioning { teid_range, ..Provisioning::default() });
    let (up_seid, first) = established(&mut store, with_id(5));
    let other = asking(6, SourceInterface::Access, with_id(10));
    for teid in [first, add(&mut store, up_seid, vec![other])[0]] {
        assert_eq!(teid.0 >> 29, 5, "{teid:?}");
    }
}

#[test]
fn choose_id_of_another_side_means_another_f_teid() {
    let mut store = store(4);
    let (up_seid, first) = established(&mut store, with_id(5));
    let core = add(&mut store, up_seid, vec![asking(3, SourceInterface::Core, with_id(5))])[0];
    assert_ne!(core, first);
    let pdrs = vec![asking(4, SourceInterface::Access, with_id(5))];
    assert_eq!(add(&mut store, up_seid, pdrs), [first], "the former one of this side");
    let pdrs = vec![asking(5, SourceInterface::Core, with_id(5))];
    assert_eq!(add(&mut store, up_seid, pdrs), [core]);
}

#[test]
fn choose_id_of_one_session_means_nothing_to_another() {
    let mut store = store(4);
    let (_, first) = established(&mut store, with_id(5));
    let mut change = session(2);
    change.create_pdrs[0].pdi.f_teid = Some(with_id(5));
    change.create_pdrs[0].pdi.ue = Some(ue_match(2, UeSide::Source));
    assert_ne!(teids(&store.establish(OWNER, CP, change).unwrap().created), [first]);
}

fn with_ipv6_alone() -> SessionStore {
    let v6 = "2001:db8:3::2".parse().ok();
    let n3 = LocalInterface::of_role(InterfaceRole::N3, LocalAddresses { v4: None, v6 });
    let interfaces = vec![n3, interfaces().remove(1)];
    store_with(4, Provisioning { interfaces, ..Provisioning::default() })
}

/// SD-Core requests an F-TEID without a family.
#[test]
fn choice_without_a_family_takes_one_that_we_have_ipv4_first() {
    let anything = FTeidSpec::Choose { v4: false, v6: false, choose_id: None };
    let chosen = |mut store: SessionStore| {
        let mut change = session(1);
        change.create_pdrs[0].pdi.f_teid = Some(anything);
        change.create_fars.truncate(1);
        change.create_pdrs.truncate(1);
        store.establish(OWNER, CP, change).unwrap().created[0].f_teid
    };
    let v4 = chosen(store(4));
    assert_eq!((v4.v4, v4.v6), (Some(N3), None));
    let v6 = chosen(with_ipv6_alone());
    assert_eq!((v6.v4.is_none(), v6.v6), (true, "2001:db8:3::2".parse().ok()));
}

#[test]
fn one_f_teid_per_session_and_network_instance_where_the_operator_says_so() {
    use SourceInterface::{Access, Core};
    for is_on in [false, true] {
        let tolerances = Tolerances { one_f_teid_per_session: is_on };
        let mut store = store_with(4, Provisioning { tolerances, ..Provisioning::default() });
        let mut change = session(1);
        change.create_pdrs.push(asking(3, Access, CHOOSE));
        change.create_pdrs.push(asking(4, Core, CHOOSE));
        let mut ims = asking(5, Access, CHOOSE);
        ims.pdi.network_instance = Some("ims".into());
        change.create_pdrs.push(ims);
        let done = store.establish(OWNER, CP, change).unwrap();
        let [first, second, core, ims] = teids(&done.created)[..] else { panic!() };
        assert_eq!(first == second, is_on);
        assert!(core != first && ims != first, "another side and another network");
        let later = add(&mut store, done.up_seid, vec![asking(6, Access, CHOOSE)])[0];
        assert_eq!(later == first, is_on, "and in later messages");
        let mut third = asking(8, Access, CHOOSE);
        third.pdi.network_instance = Some("other".into());
        let other = add(&mut store, done.up_seid, vec![third])[0];
        assert!(other != first && other != ims, "nor do later messages mix networks");
        let with_id = add(&mut store, done.up_seid, vec![asking(7, Access, with_id(1))])[0];
        assert_ne!(with_id, first, "a CHOOSE ID says what shares");
    }
}
