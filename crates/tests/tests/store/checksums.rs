//! Records of a shared store that are damaged or missing are named, and written again by a process
//! that has them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use adit_shared_store::{FollowedChange, LeaseAnswer, SharedStore};
use adit_store::{RecordId, RecordKey, RecordKind, RecordStore, StoreChange, StoreError};
use adit_tests::redis::{RedisProcess, store_client, store_options};
use adit_transport::KernelTcp;

const LIMIT: Duration = Duration::from_secs(20);

fn client(server: &RedisProcess, instance: &str, process: u64) -> SharedStore<KernelTcp> {
    store_client(store_options(&[server.address()], instance, process, Duration::from_millis(600)))
}

fn taken(server: &RedisProcess, process: u64) -> SharedStore<KernelTcp> {
    let mut store = client(server, "a", process);
    assert!(matches!(store.acquire().unwrap(), LeaseAnswer::Taken { .. }));
    store
}

/// A holder that has written the node and sessions 1 to 40.
fn filled(server: &RedisProcess) -> SharedStore<KernelTcp> {
    let mut store = taken(server, 1);
    put_all(&mut store);
    store.commit().unwrap();
    store
}

fn put_all(store: &mut SharedStore<KernelTcp>) {
    let node = RecordKey::number(RecordKind::Node, 0);
    store.append(&[StoreChange::put(node, b"node")]).unwrap();
    for number in 1..=40 {
        let key = RecordKey::number(RecordKind::Session, number);
        store.append(&[StoreChange::put(key, b"value")]).unwrap();
    }
}

/// Writes all records to a store that begins anew, up to the end of its mark.
fn write_again(server: &RedisProcess, store: &mut SharedStore<KernelTcp>) {
    put_all(store);
    store.commit().unwrap();
    store.set_complete();
    until(|| {
        store.maintain().unwrap();
        server.answer("HEXISTS adit:{upf-1}:state filling").trim() == "0"
    });
}

/// The values of all records, by kind and number.
type VisitedValues = BTreeMap<(u8, u64), Vec<u8>>;

fn visit(store: &mut SharedStore<KernelTcp>) -> Result<VisitedValues, StoreError> {
    let mut found = VisitedValues::new();
    store.visit(&RecordKind::ALL, &mut |key, value| {
        let RecordId::Number(number) = key.id else { panic!("only numbers here") };
        found.insert((key.kind as u8, number), value.to_vec());
    })?;
    Ok(found)
}

/// The error that keeps another process of the instance from going on with the records.
fn refusal(server: &RedisProcess) -> String {
    let mut store = taken(server, 9);
    let refused = store.check_records().and_then(|()| visit(&mut store).map(|_| ()));
    refused.unwrap_err().to_string()
}

fn until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "it never happens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const SESSION_42: &str = "adit:{upf-1}:session #000000000000002a";

fn damage_session_42(server: &RedisProcess, store: &mut SharedStore<KernelTcp>) {
    let key = RecordKey::number(RecordKind::Session, 42);
    store.append(&[StoreChange::put(key, b"value")]).unwrap();
    store.commit().unwrap();
    assert_eq!(server.answer(&format!("HSET {SESSION_42} valve")).trim(), "0");
}

#[test]
fn flipped_bit_is_refused_by_name_and_goes_with_accepted_loss() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    damage_session_42(&server, &mut filled(&server));
    let why = refusal(&server);
    assert!(why.contains("the record of session 0x2a is damaged"), "{why}");
    let mut store = taken(&server, 2);
    store.accept_loss();
    store.check_records().unwrap();
    let found = visit(&mut store).unwrap();
    assert_eq!(found.len(), 41, "all others: {found:?}");
    let losses = store.take_accepted_losses();
    assert!(losses[0].contains("session 0x2a"), "{losses:?}");
    // The holder has all that is left, so the server is filled anew.
    store.set_complete();
    until(|| store.maintain().is_ok() && store.losses() == 1);
    write_again(&server, &mut store);
    let mut next = taken(&server, 3);
    next.check_records().unwrap();
    assert_eq!(visit(&mut next).unwrap().len(), 41);
}

#[test]
fn missing_records_are_refused_by_name_or_number() {
    let cases = [
        ("HDEL adit:{upf-1}:session #0000000000000007", "the record of session 0x7 is missing"),
        ("DEL adit:{upf-1}:node", "the record of node 0x0 is missing"),
        ("DEL adit:{upf-1}:session", "and 24 more"),
        ("DEL adit:{upf-1}:session adit:{upf-1}:checksums", "40 records are missing"),
        ("DEL adit:{upf-1}:checksums", "the record of session 0x7 is damaged"),
        ("HDEL adit:{upf-1}:checksums 4#0000000000000007", "session 0x7 is damaged"),
    ];
    for (command, expected) in cases {
        let Some(server) = RedisProcess::start(&[]) else { return };
        drop(filled(&server));
        let _ = server.answer(command);
        let why = refusal(&server);
        // A checksum that is missing makes its record suspect; of many only some are named.
        let named = why.contains(expected)
            || (command.ends_with(":checksums") && why.contains("is damaged; and 25 more"));
        assert!(named, "{command}: {why}");
    }
}

#[test]
fn holder_notices_that_records_are_gone_and_writes_them_again() {
    let commands = ["DEL adit:{upf-1}:session", "HDEL adit:{upf-1}:node #0000000000000000"];
    for command in commands.into_iter().chain(["DEL adit:{upf-1}:checksums"]) {
        let Some(server) = RedisProcess::start(&[]) else { return };
        let mut store = filled(&server);
        let _ = server.answer(command);
        // As long as it does not have all records, it cannot write them again.
        let end = Instant::now() + Duration::from_secs(1);
        until(|| store.maintain().is_ok() && Instant::now() > end);
        assert_eq!(store.losses(), 0, "{command}");
        store.set_complete();
        let began = Instant::now();
        until(|| store.maintain().is_ok() && store.losses() == 1);
        assert!(began.elapsed() < Duration::from_secs(2), "{command}: two renewals and a margin");
        write_again(&server, &mut store);
        assert_eq!(store.losses(), 1, "{command}");
        let mut next = taken(&server, 3);
        next.check_records().unwrap();
        assert_eq!(visit(&mut next).unwrap().len(), 41, "{command}");
    }
}

#[test]
fn records_without_checksums_get_them() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    drop(filled(&server));
    // As release 0.1.0 leaves them: it keeps neither checksums nor their position.
    let as_former = |server: &RedisProcess, last: &str| {
        let field = "#0000000000000007";
        let _ = server.answer(&format!("HSET adit:{{upf-1}}:session {field} former"));
        let _ = server.answer(&format!("HSET adit:{{upf-1}}:state last {last}"));
    };
    as_former(&server, "1-42");
    let mut store = taken(&server, 2);
    store.check_records().unwrap();
    let found = visit(&mut store).unwrap();
    assert_eq!((found.len(), &found[&(4, 7)][..]), (41, &b"former"[..]));
    assert_eq!(server.answer("HLEN adit:{upf-1}:checksums").trim(), "41");
    // From then on damage is found.
    damage_session_42(&server, &mut store);
    let why = refusal(&server);
    assert!(why.contains("the record of session 0x2a is damaged"), "{why}");
    as_former(&server, "9-1");
    let mut store = taken(&server, 4);
    store.check_records().unwrap();
    assert_eq!(visit(&mut store).unwrap().len(), 42, "what that release wrote last counts");
}

#[test]
fn follower_refuses_damaged_records_and_has_the_holder_write_them_again() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = filled(&server);
    damage_session_42(&server, &mut store);
    store.set_complete();
    let mut standby = client(&server, "b", 1);
    let why = standby.follow(Duration::ZERO, &|_, _| None, &mut |_| {}).unwrap_err().to_string();
    assert!(why.contains("the record of session 0x2a is damaged"), "{why}");
    until(|| store.maintain().is_ok() && store.losses() == 1);
    put_all(&mut store);
    store.commit().unwrap();
    store.set_complete();
    let mut sessions = 0;
    until(|| {
        store.maintain().unwrap();
        let progress = standby.follow(Duration::ZERO, &|_, _| None, &mut |change| match change {
            FollowedChange::Reset => sessions = 0,
            FollowedChange::Change(change) => {
                sessions += u32::from(change.key.kind == RecordKind::Session);
            }
        });
        progress.is_ok_and(|progress| progress.is_caught_up)
    });
    assert!(sessions >= 40, "{sessions}");
}

#[test]
fn follower_reads_all_records_again_after_a_damaged_group() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = filled(&server);
    let (mut standby, mut resets, mut seen) = (client(&server, "b", 1), 0, Vec::new());
    let mut follow = |seen: &mut Vec<Vec<u8>>| {
        let progress = standby.follow(Duration::ZERO, &|_, _| None, &mut |change| match change {
            FollowedChange::Reset => resets += 1,
            FollowedChange::Change(change) => seen.extend(change.value.map(<[u8]>::to_vec)),
        });
        assert!(progress.is_ok_and(|progress| progress.is_caught_up));
        resets
    };
    assert_eq!(follow(&mut seen), 1);
    let key = RecordKey::number(RecordKind::Session, 7);
    store.append(&[StoreChange::put(key, b"newer")]).unwrap();
    store.commit().unwrap();
    // The same group with another value, as a damaged server would return it.
    let groups = server.answer("XRANGE adit:{upf-1}:groups - +");
    let [last, rest] = ["1-42", "XADD adit:{upf-1}:groups 1-42 after 1-41 8=checksums =abcd"];
    assert!(groups.contains(last), "{groups}");
    let _ = server.answer("DEL adit:{upf-1}:groups");
    let _ = server.answer(&format!("{rest} 4#0000000000000007 =never"));
    seen.clear();
    assert_eq!(follow(&mut seen), 2);
    assert!(seen.contains(&b"newer".to_vec()) && !seen.contains(&b"never".to_vec()), "{seen:?}");
}
