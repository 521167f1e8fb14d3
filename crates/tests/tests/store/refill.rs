//! A shared store that lost its records, while their holder has them: they are written again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use adit_shared_store::{FollowedChange, LeaseAnswer, SharedStore};
use adit_store::{RecordId, RecordKey, RecordKind, RecordStore, StoreChange};
use adit_tests::redis::{RedisProcess, store_client, store_options};
use adit_transport::KernelTcp;

const LIMIT: Duration = Duration::from_secs(20);

fn client(server: &RedisProcess, instance: &str, process: u64) -> SharedStore<KernelTcp> {
    store_client(store_options(&[server.address()], instance, process, Duration::from_millis(600)))
}

fn taken(server: &RedisProcess, instance: &str, process: u64) -> SharedStore<KernelTcp> {
    let mut store = client(server, instance, process);
    assert!(matches!(store.acquire().unwrap(), LeaseAnswer::Taken { .. }));
    store
}

fn put(store: &mut SharedStore<KernelTcp>, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let key = RecordKey::number(RecordKind::Session, number);
        store.append(&[StoreChange::put(key, b"x")]).unwrap();
    }
}

fn until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "it never happens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A holder that has none of the records 1 to 5 in its tail any more.
fn restarted(server: &RedisProcess) -> SharedStore<KernelTcp> {
    let mut store = taken(server, "a", 1);
    put(&mut store, 1..=5);
    store.commit().unwrap();
    drop(store);
    let mut store = taken(server, "a", 2);
    store.set_complete();
    store
}

/// The sessions that a standby has.
#[derive(Default)]
struct Followed {
    sessions: BTreeSet<u64>,
    resets: u32,
}

impl Followed {
    fn follow(&mut self, store: &mut SharedStore<KernelTcp>) -> bool {
        let progress =
            store.follow(Duration::from_millis(5), &|_, _| None, &mut |change| match change {
                FollowedChange::Reset => {
                    self.resets += 1;
                    self.sessions.clear();
                }
                FollowedChange::Change(StoreChange { key, value }) => {
                    let RecordId::Number(number) = key.id else { panic!("only sessions here") };
                    match value {
                        Some(_) => self.sessions.insert(number),
                        None => self.sessions.remove(&number),
                    };
                }
            });
        progress.is_ok_and(|progress| progress.is_caught_up)
    }
}

#[test]
fn records_that_a_server_lost_are_written_again_and_a_standby_keeps_them_meanwhile() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = restarted(&server);
    let (mut standby, mut followed) = (client(&server, "b", 1), Followed::default());
    until(|| followed.follow(&mut standby));
    assert_eq!(followed.sessions.len(), 5);
    // The server lacks this change, which its order of changes does not contain any more
    // afterwards.
    put(&mut store, [6]);
    store.commit().unwrap();
    assert_eq!(server.answer("FLUSHALL").trim(), "OK");
    // Records appended meanwhile are not lost.
    put(&mut store, [7]);
    until(|| {
        let _ = store.maintain();
        store.losses() == 1
    });
    assert!(store.figures().warnings[0].contains("written again"), "{:?}", store.figures());
    until(|| store.commit().is_ok());
    assert_eq!(server.answer("HGET adit:{upf-1}:state filling").trim(), "1");
    // A process that takes it meanwhile sees that it is incomplete.
    assert!(taken(&server, "a", 3).figures().is_incomplete);
    let mut store = taken(&server, "a", 4);
    assert!(store.figures().is_incomplete);
    followed.follow(&mut standby);
    assert!(followed.sessions.is_superset(&(1..=5).collect()), "{:?}", followed.sessions);
    put(&mut store, 1..=7);
    store.commit().unwrap();
    store.set_complete();
    until(|| {
        store.maintain().unwrap();
        server.answer("HEXISTS adit:{upf-1}:state filling").trim() == "0"
    });
    until(|| followed.follow(&mut standby));
    assert_eq!(followed.sessions, (1..=7).collect());
    assert_eq!(server.answer("HLEN adit:{upf-1}:session").trim(), "7");
    assert!(!taken(&server, "a", 5).figures().is_incomplete);
}

#[test]
fn standby_keeps_what_a_server_lost_and_is_not_caught_up_while_the_holder_may_restore_it() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = taken(&server, "a", 1);
    put(&mut store, 1..=5);
    store.commit().unwrap();
    let (mut standby, mut followed) = (client(&server, "b", 1), Followed::default());
    until(|| followed.follow(&mut standby));
    assert_eq!(server.answer("FLUSHALL").trim(), "OK");
    // The lease is free on this server, but the standby has more than it.
    let lost = Instant::now();
    for _ in 0..3 {
        assert!(!followed.follow(&mut standby));
        assert_eq!((followed.sessions.len(), followed.resets), (5, 1));
    }
    assert!(lost.elapsed() < Duration::from_millis(1200), "too slow to judge");
    // Nobody restores it: the standby has most, takes the lease and writes it again.
    until(|| followed.follow(&mut standby));
    assert!(matches!(standby.acquire().unwrap(), LeaseAnswer::Taken { .. }));
    // The records that a standby alone had are written and followed like all else.
    put(&mut standby, [6]);
    standby.commit().unwrap();
    until(|| followed.follow(&mut standby));
    assert_eq!((followed.sessions.len(), followed.resets), (6, 1));
    assert_eq!(standby.losses(), 0, "not before it has all of them where they are written from");
    standby.set_complete();
    refill(&server, &mut standby, 6);
}

/// Writes sessions 1 to `last` again once the store begins anew, and nothing else is there
/// afterwards.
fn refill(server: &RedisProcess, store: &mut SharedStore<KernelTcp>, last: u64) {
    until(|| store.maintain().is_ok() && store.losses() == 1);
    put(store, 1..=last);
    store.commit().unwrap();
    store.set_complete();
    until(|| {
        store.maintain().unwrap();
        server.answer("HEXISTS adit:{upf-1}:state filling").trim() == "0"
    });
    assert_eq!(server.answer("HLEN adit:{upf-1}:session").trim(), last.to_string());
}

#[test]
fn standby_follows_while_records_are_written_again_and_goes_on_with_it_if_their_holder_ends() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = restarted(&server);
    put(&mut store, [6]);
    store.commit().unwrap();
    let (mut standby, mut followed) = (client(&server, "b", 1), Followed::default());
    until(|| followed.follow(&mut standby));
    assert_eq!(server.answer("FLUSHALL").trim(), "OK");
    until(|| store.maintain().is_ok() && store.losses() == 1);
    put(&mut store, [1, 7]);
    store.commit().unwrap();
    until(|| followed.follow(&mut standby));
    assert_eq!((followed.sessions.len(), followed.resets), (7, 1));
    // The holder dies: the server has two sessions, the standby all.
    drop(store);
    until(|| matches!(standby.acquire().unwrap(), LeaseAnswer::Taken { .. }));
    until(|| followed.follow(&mut standby));
    assert_eq!((followed.sessions.len(), followed.resets), (7, 1));
    standby.set_complete();
    refill(&server, &mut standby, 7);
}

#[test]
fn state_of_the_store_does_not_flap_while_its_records_are_lost() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = restarted(&server);
    // Another adit wrote to the remaining records: the records of two cannot be joined.
    let state = "HSET adit:{upf-1}:state epoch 1 last 9-1";
    let lose = || {
        assert_eq!(server.answer("FLUSHALL").trim(), "OK");
        assert_eq!(server.answer(state).trim(), "2");
    };
    lose();
    until(|| store.maintain().is_err());
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let error = store.maintain().unwrap_err().to_string();
        assert!(error.contains("lost records"), "{error}");
    }
    let error = store.maintain().unwrap_err().to_string();
    assert!(error.contains("another adit has written to it"), "{error}");
    assert_eq!(store.losses(), 0);
}
