//! Stage 3: order, positions and keys of compiled rules.

use adit_rules::{KeyChange, SessionKey, SourceInterface, UeAddresses};
use adit_session::{PdrSpec, SessionChange, UeMatch, UeSide};
use adit_types::{PdrId, Precedence, QerId};

use crate::builders::*;

fn keys(change: SessionChange) -> Vec<KeyChange> {
    store(4).establish(OWNER, CP, change).unwrap().delta.keys
}

#[test]
fn pdrs_come_out_by_precedence_then_identifier() {
    let spec =
        |id, precedence| PdrSpec { id: PdrId(id), precedence: Precedence(precedence), ..uplink(1) };
    let mut change = session(1);
    change.create_pdrs = vec![spec(5, 20), spec(9, 10), spec(2, 20), spec(7, 10), downlink(1)];
    change.create_pdrs[4].id = PdrId(1);
    let rules = store(8).establish(OWNER, CP, change).unwrap().delta.rules.unwrap();
    assert_eq!(rules.uplink.iter().map(|pdr| pdr.id.0).collect::<Vec<_>>(), [7, 9, 2, 5]);
    assert_eq!(rules.downlink.iter().map(|pdr| pdr.id.0).collect::<Vec<_>>(), [1]);
}

#[test]
fn references_become_positions() {
    let mut change = session(1);
    change.create_qers.insert(0, qer(8));
    change.create_pdrs[0].qers = vec![QerId(8), QerId(1), QerId(8)];
    let rules = store(4).establish(OWNER, CP, change).unwrap().delta.rules.unwrap();
    assert_eq!((rules.uplink[0].far, rules.downlink[0].far), (0, 1));
    assert_eq!(rules.uplink[0].qers.as_slice(), [1, 0]);
    assert_eq!(rules.downlink[0].qers.as_slice(), [1]);
    assert_eq!(rules.qers[0].id, QerId(8));
}

#[test]
fn keys_are_teids_and_downlink_ue_addresses() {
    let established = store(4).establish(OWNER, CP, session(1)).unwrap();
    let teid = established.created[0].f_teid.teid;
    assert_eq!(
        established.delta.keys,
        [
            KeyChange::Add(SessionKey::Teid(teid)),
            KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), ue(1)))
        ]
    );
}

#[test]
fn ue_address_of_uplink_alone_is_no_key_but_guards_the_source() {
    let mut change = session(1);
    change.create_pdrs.truncate(1);
    change.create_pdrs[0].pdi.f_teid = Some(given(5));
    let delta = store(4).establish(OWNER, CP, change).unwrap().delta;
    assert_eq!(delta.keys, [KeyChange::Add(SessionKey::Teid(adit_types::Teid(5)))]);
    let rules = delta.rules.unwrap();
    assert_eq!(rules.ue, [UeAddresses { v4: Some(ue(1)), v6: None }]);
    assert!(!rules.allows_ue(ue(2).into()));
}

#[test]
fn downlink_pdr_without_ue_is_found_by_the_uplink_ue_address() {
    let mut change = session(1);
    change.create_pdrs[1].pdi = pdi(SourceInterface::SgiLanN6Lan);
    assert!(
        keys(change).contains(&KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), ue(1))))
    );
}

#[test]
fn downlink_pdr_with_a_tunnel_is_found_by_the_tunnel_alone() {
    let mut change = session(1);
    change.create_pdrs[0].pdi.f_teid = Some(given(5));
    change.create_pdrs[1].pdi = pdi(SourceInterface::Core);
    change.create_pdrs[1].pdi.f_teid = Some(given(6));
    let teid = |value| KeyChange::Add(SessionKey::Teid(adit_types::Teid(value)));
    assert_eq!(keys(change), [teid(5), teid(6)]);
}

#[test]
fn ue_addresses_are_listed_once() {
    let mut change = session(1);
    let both = UeAddresses { v4: Some(ue(1)), v6: Some("2001:db8::/64".parse().unwrap()) };
    let mut third = downlink(1);
    third.id = PdrId(3);
    third.pdi.ue = Some(UeMatch { addresses: both, side: UeSide::Destination });
    change.create_pdrs.push(third);
    let rules = store(4).establish(OWNER, CP, change).unwrap().delta.rules.unwrap();
    assert_eq!(rules.ue, [UeAddresses { v4: Some(ue(1)), v6: None }, both]);
}
