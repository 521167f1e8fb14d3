//! Sessions that a process cannot restore: their records stay in the store until a process can, an
//! operator discards them, or their CP function is done with them.

use adit_n4::{NodeConfig, NodeEvent};
use adit_session::{LocalAddresses, LocalInterface, Provisioning, StoreConfig};
use adit_store::RecordChange;
use adit_types::{InterfaceRole, Teid};

use super::*;

/// The record of a session.
fn session_key(up_seid: Seid) -> (RecordKind, OwnedRecordId) {
    (RecordKind::Session, OwnedRecordId::Number(up_seid.0))
}

/// The record that says that it is set aside.
fn mark_key(up_seid: Seid) -> (RecordKind, OwnedRecordId) {
    (RecordKind::Usage, OwnedRecordId::Octets(up_seid.0.to_be_bytes().to_vec()))
}

/// The record of the session is one of a later version, until it is mended.
fn make_unreadable(bench: &mut Bench, up_seid: Seid) {
    bench.records.get_mut(&session_key(up_seid)).unwrap()[0] = 77;
}

fn mend(bench: &mut Bench, up_seid: Seid) {
    bench.records.get_mut(&session_key(up_seid)).unwrap()[0] = adit_n4::RECORD_VERSION;
}

fn set_aside(bench: &Bench) -> Vec<(Seid, String)> {
    let all = bench.node.set_aside_sessions(None);
    let all: Vec<_> = all.map(|(up_seid, error)| (up_seid, error.to_string())).collect();
    assert_eq!(all.len(), bench.node.set_aside_len());
    all
}

fn seids(bench: &Bench) -> Vec<Seid> {
    bench.node.store().sessions().map(|session| session.up_seid()).collect()
}

/// A configuration that forbids the sessions: another address on N3.
pub(super) fn forbidding() -> NodeConfig {
    let v4 = Some(std::net::Ipv4Addr::new(198, 51, 100, 77));
    let interfaces = vec![
        LocalInterface::of_role(InterfaceRole::N3, LocalAddresses { v4, v6: None }),
        LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default()),
    ];
    let provisioning = Provisioning { interfaces, ..Provisioning::default() };
    let store = StoreConfig { provisioning, ..config().store };
    NodeConfig { store, ..kept_config() }
}

/// Ten sessions, of which the records of five cannot be read.
fn half_unreadable() -> (Bench, Vec<Seid>, Vec<Seid>) {
    let mut bench = associated();
    let all: Vec<Seid> = (1..=10)
        .map(|at| bench.session(smf(10), 10 + u32::from(at), &SessionScript::new(at.into(), at)))
        .collect();
    let (unreadable, readable) = all.split_at(5);
    for &up_seid in unreadable {
        make_unreadable(&mut bench, up_seid);
    }
    (bench, unreadable.to_vec(), readable.to_vec())
}

#[test]
fn records_of_a_later_version_are_kept_named_once_and_restored_when_they_can_be_read() {
    let (bench, unreadable, readable) = half_unreadable();
    let before = bench.records.clone();
    let mut later = killed_into(&bench, kept_config());
    later.store_all();
    assert_eq!(seids(&later), readable);
    let aside = set_aside(&later);
    assert_eq!(aside.iter().map(|(up_seid, _)| *up_seid).collect::<Vec<_>>(), sorted(&unreadable));
    assert!(aside.iter().all(|(_, why)| why.contains("version 77")), "{aside:?}");
    for &up_seid in &unreadable {
        assert_eq!(later.records.get(&session_key(up_seid)), before.get(&session_key(up_seid)));
        assert!(later.records.contains_key(&mark_key(up_seid)));
    }
    let events = later.events();
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            NodeEvent::SessionsNotRestored { reason, sessions, first } => {
                Some((reason.contains("version 77"), *sessions, first.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(told, [(true, 5, sorted(&unreadable))], "one for the reason");
    // A process of the same version changes nothing.
    let mut again = killed_into(&later, kept_config());
    again.store_all();
    assert_eq!((seids(&again), set_aside(&again)), (readable.clone(), aside));
    for &up_seid in &unreadable {
        mend(&mut again, up_seid);
    }
    let mut after = killed(&again);
    after.store_all();
    assert_eq!(sorted(&seids(&after)), sorted(&[unreadable.clone(), readable].concat()));
    assert_eq!(set_aside(&after), []);
    for (next, up_seid) in (900..).zip(unreadable) {
        assert!(!after.records.contains_key(&mark_key(up_seid)));
        let answer = after.answer(smf(10), &move_to(next, up_seid, Teid(9)));
        assert_eq!(cause(&answer), Cause::RequestAccepted);
    }
}

fn sorted(seids: &[Seid]) -> Vec<Seid> {
    let mut seids = seids.to_vec();
    seids.sort_unstable();
    seids
}

#[test]
fn sessions_that_the_configuration_forbids_come_back_with_the_former_configuration() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let mut later = killed_into(&bench, forbidding());
    later.store_all();
    assert_eq!((seids(&later), set_aside(&later).len()), (vec![], 1));
    assert_eq!(later.node.counters().scalars.sessions_not_restored, 1);
    assert!(later.events().contains(&NodeEvent::Restored {
        associations: 1,
        sessions: 0,
        refused: 1
    }));
    // A request for it is answered that it is not here.
    let answer = later.answer(smf(10), &move_to(3, up_seid, Teid(3)));
    assert_eq!(cause(&answer), Cause::SessionContextNotFound);
    let mut after = killed_into(&later, forbidding());
    assert_eq!(seids(&after), []);
    after.store_all();
    let after = killed_into(&after, kept_config());
    assert_eq!((seids(&after), set_aside(&after)), (vec![up_seid], vec![]));
}

#[test]
fn index_of_a_session_that_is_set_aside_is_given_to_no_other() {
    let (bench, unreadable, _) = half_unreadable();
    let mut later = killed_into(&bench, kept_config());
    later.store_all();
    later.sent();
    let indices: Vec<_> = unreadable.iter().map(|seid| adit_session::seid_index(*seid)).collect();
    for at in 20..30 {
        let script = SessionScript::new(at.into(), at);
        let up_seid = later.session(smf(10), 100 + u32::from(at), &script);
        assert!(!indices.contains(&adit_session::seid_index(up_seid)), "{at}");
    }
    // After the operator has discarded them, the indices are free again, and the records are gone.
    for up_seid in unreadable {
        assert!(later.node.discard_set_aside(later.now, up_seid));
        assert!(!later.node.discard_set_aside(later.now, up_seid), "only once");
        later.store_all();
        assert!(!later.records.contains_key(&session_key(up_seid)));
        assert!(!later.records.contains_key(&mark_key(up_seid)));
    }
    let up_seid = later.session(smf(10), 200, &SessionScript::new(40, 40));
    assert!(indices.contains(&adit_session::seid_index(up_seid)));
}

/// The record of a previous process is older: the session that was set up since stays, whatever
/// their indices are.
#[test]
fn session_that_was_set_up_since_is_not_displaced() {
    let (bench, unreadable, _) = half_unreadable();
    let mut later = killed_into(&bench, kept_config());
    later.store_all();
    later.sent();
    let anew: Vec<Seid> = (1..=5)
        .map(|at| later.session(smf(10), 50 + u32::from(at), &SessionScript::new(at.into(), at)))
        .collect();
    for &up_seid in &unreadable {
        mend(&mut later, up_seid);
    }
    let mut after = killed_into(&later, kept_config());
    after.store_all();
    assert!(anew.iter().all(|seid| seids(&after).contains(seid)));
    assert_eq!(set_aside(&after).len(), 5, "their UEs have other sessions");
}

#[test]
fn session_that_its_smf_sets_up_anew_or_deletes_is_gone_for_good() {
    let mut bench = associated();
    bench.associate(11);
    let anew = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let deleted = bench.session(smf(10), 3, &SessionScript::new(2, 2));
    let other = bench.session(smf(10), 4, &SessionScript::new(3, 3));
    // Another address on N3 for a moment: the sessions are set aside, and the UEs' addresses are
    // free.
    let mut later = killed_into(&bench, forbidding());
    later.store_all();
    assert_eq!(set_aside(&later).len(), 3);
    later.sent();
    later.answer(smf(11), &delete(5, other));
    assert_eq!(set_aside(&later).len(), 3, "it is not of that SMF");
    let answer = later.answer(smf(10), &delete(6, deleted));
    assert_eq!(cause(&answer), Cause::SessionContextNotFound);
    later.session(smf(10), 7, &SessionScript::new(1, 1));
    later.store_all();
    let left: Vec<Seid> = set_aside(&later).into_iter().map(|(up_seid, _)| up_seid).collect();
    assert_eq!(left, [other]);
    for gone in [anew, deleted] {
        assert!(!later.records.contains_key(&session_key(gone)));
        assert!(!later.records.contains_key(&mark_key(gone)));
    }
}

#[test]
fn sessions_of_an_association_that_cannot_be_read_are_set_aside() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    let key = (RecordKind::Association, OwnedRecordId::Octets(ip(10).to_string().into_bytes()));
    bench.records.get_mut(&key).unwrap()[0] = 77;
    let mut later = killed_into(&bench, kept_config());
    later.store_all();
    assert_eq!(set_aside(&later), [(up_seid, "its association is gone".to_owned())]);
    later.records.get_mut(&key).unwrap()[0] = adit_n4::RECORD_VERSION;
    let after = killed(&later);
    assert_eq!((seids(&after), set_aside(&after)), (vec![up_seid], vec![]));
}

/// Nothing is set aside of an association that ended.
#[test]
fn sessions_whose_association_is_gone_are_removed() {
    let mut bench = associated();
    let up_seid = bench.session(smf(10), 2, &SessionScript::new(1, 1));
    bench.records.retain(|(kind, _), _| *kind != RecordKind::Association);
    let mut later = killed_into(&bench, kept_config());
    later.store_all();
    assert_eq!(set_aside(&later), []);
    assert!(!later.records.contains_key(&session_key(up_seid)));
}

/// A standby also keeps records that it cannot read, and those that the active node has set aside.
#[test]
fn standby_keeps_sessions_aside_and_restores_those_that_it_can_read_last() {
    let (bench, unreadable, readable) = half_unreadable();
    let mut active = killed_into(&bench, kept_config());
    active.store_all();
    active.sent();
    // The standby, of another version, can read one of them; its UE has a new session.
    let again = unreadable[0];
    let anew = active.session(smf(10), 50, &SessionScript::new(1, 1));
    mend(&mut active, again);
    mend(&mut active, unreadable[1]);
    let mut standby = Bench::with(kept_config());
    (standby.now, standby.records) = (active.now, active.records.clone());
    let node = &standby.records[&(RecordKind::Node, OwnedRecordId::Number(0))].clone();
    standby.node.begin_following(&NodeRecord::from_octets(node).unwrap());
    for (kind, name, octets) in records_of(&active) {
        let record = RecordChange { kind, name, value: Some(octets) };
        let _told = standby.node.follow_record(standby.now, &record);
    }
    standby.publish_all();
    assert_eq!(set_aside(&standby).len(), 3, "those that nobody can read");
    standby.node.end_restoration(standby.now);
    standby.publish_all();
    standby.store_all();
    let mut expected = [readable, vec![anew, unreadable[1]]].concat();
    expected.sort_unstable();
    assert_eq!(sorted(&seids(&standby)), expected);
    let left: Vec<Seid> = set_aside(&standby).into_iter().map(|(up_seid, _)| up_seid).collect();
    let mut expected = [vec![again], unreadable[2..].to_vec()].concat();
    expected.sort_unstable();
    assert_eq!(left, expected);
    for up_seid in left {
        assert!(standby.records.contains_key(&session_key(up_seid)));
        assert!(standby.records.contains_key(&mark_key(up_seid)));
    }
    assert!(!standby.records.contains_key(&mark_key(unreadable[1])));
}
