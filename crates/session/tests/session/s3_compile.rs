//! Stage 3: order, positions and keys of compiled rules.

use adit_rules::{KeyChange, SessionKey, SourceInterface, UeAddresses};
use adit_session::{PdrSpec, Qer, SessionChange, UeMatch, UeSide};
use adit_types::{PdrId, Precedence, QerId, Qfi};

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
    change.create_qers.insert(0, Qer { qfi: None, ..qer(8) });
    change.create_pdrs[0].qers = vec![QerId(8), QerId(1), QerId(8)];
    let rules = store(4).establish(OWNER, CP, change).unwrap().delta.rules.unwrap();
    assert_eq!((rules.uplink[0].far, rules.downlink[0].far), (0, 1));
    assert_eq!(rules.uplink[0].qers.as_slice(), [1, 0]);
    assert_eq!(rules.downlink[0].qers.as_slice(), [1]);
    assert_eq!(rules.qers[0].id, QerId(8));
}

/// The QFI of each downlink PDR with these QERs, where the QFI of QER 1 is 1 and so on.
fn downlink_qfis(qers: &[Qer], of_pdrs: &[&[u32]]) -> Vec<Option<u8>> {
    let mut change = SessionChange { create_qers: qers.to_vec(), ..session(1) };
    let ids = |of: &&[u32]| of.iter().copied().map(QerId).collect::<Vec<_>>();
    let pdrs = (2..).zip(of_pdrs.iter().map(ids));
    let downlink = pdrs.map(|(id, qers)| PdrSpec { id: PdrId(id), qers, ..downlink(1) });
    change.create_pdrs = downlink.collect();
    let rules = store(4).establish(OWNER, CP, change).unwrap().delta.rules.unwrap();
    let marked = rules.downlink.iter().map(|pdr| {
        let first = pdr.qers.iter().find_map(|at| rules.qers[usize::from(*at)].qfi);
        first.map(Qfi::value)
    });
    marked.collect()
}

/// free5GC lists a QER of the session-AMBR with the default QFI before that of a flow; Open5GS and
/// SD-Core give each PDR one QER, and OAI none.
#[test]
fn qer_with_a_qfi_that_fewest_pdrs_name_marks_packets() {
    let numbered = |id: u32| Qer { qfi: Qfi::new(u8::try_from(id).unwrap()), ..qer(id) };
    let without = |id| Qer { qfi: None, ..qer(id) };
    let (two, three) = ([1, 2].map(numbered), [1, 2, 3].map(numbered));
    let free5gc = downlink_qfis(&two, &[&[1], &[1, 2]]);
    assert_eq!(free5gc, [Some(1), Some(2)]);
    assert_eq!(downlink_qfis(&three, &[&[1], &[1, 2], &[1, 3]]), [1, 2, 3].map(Some));
    assert_eq!(downlink_qfis(&two, &[&[2], &[1, 2]]), [Some(2), Some(1)], "whatever the order");
    assert_eq!(downlink_qfis(&two, &[&[1, 2]]), [Some(2)], "the last one, if as many name both");
    assert_eq!(downlink_qfis(&two, &[&[1], &[2]]), [Some(1), Some(2)], "Open5GS, SD-Core");
    assert_eq!(downlink_qfis(&two, &[&[]]), [None], "OAI");
    let rate = [without(1), numbered(2), numbered(3)];
    assert_eq!(downlink_qfis(&rate, &[&[1, 2], &[2, 3]]), [Some(2), Some(3)]);
    assert_eq!(downlink_qfis(&[numbered(1), without(2)], &[&[1], &[1, 2]]), [Some(1), Some(1)]);
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
