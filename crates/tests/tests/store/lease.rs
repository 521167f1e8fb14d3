//! The lease of a shared store: measured and not dated, and who may write according to the scripts
//! that servers run.

use std::time::{Duration, Instant};

use adit_shared_store::{FollowedChange, LeaseAnswer, LeaseView, SharedStore, SharedStoreOptions};
use adit_store::{RecordKey, RecordKind, RecordStore, StoreChange, StoreError};
use adit_tests::redis::{RedisProcess, store_client, store_options};
use adit_transport::KernelTcp;

const LIMIT: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_millis(600);

fn options(server: &RedisProcess, instance: &str) -> SharedStoreOptions {
    let options = store_options(&[server.address()], instance, 1, LEASE);
    SharedStoreOptions { patience: Duration::from_secs(1), ..options }
}

fn client(server: &RedisProcess, instance: &str) -> SharedStore<KernelTcp> {
    store_client(options(server, instance))
}

fn holder(server: &RedisProcess, instance: &str) -> SharedStore<KernelTcp> {
    let mut store = client(server, instance);
    let answer = store.acquire().unwrap();
    assert!(matches!(answer, LeaseAnswer::Taken { .. }), "{answer:?}");
    store
}

fn held(store: &mut SharedStore<KernelTcp>) -> LeaseView {
    match store.acquire().unwrap() {
        LeaseAnswer::Held(lease) => lease,
        taken => panic!("two holders: {taken:?}"),
    }
}

/// Tries to take the lease until it succeeds; returns the epoch.
fn take_lease(store: &mut SharedStore<KernelTcp>) -> u64 {
    let began = Instant::now();
    loop {
        match store.acquire().unwrap() {
            LeaseAnswer::Taken { epoch } => return epoch,
            LeaseAnswer::Held(lease) => assert!(lease.left <= LEASE, "{lease:?}"),
            LeaseAnswer::Named(standby) => panic!("{standby:?} is named"),
        }
        assert!(began.elapsed() < LIMIT, "it never ends");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn put(store: &mut SharedStore<KernelTcp>, number: u64) {
    let key = RecordKey::number(RecordKind::Session, number);
    store.append(&[StoreChange::put(key, b"x")]).unwrap();
}

/// The answer of a script to words without blanks.
fn script(server: &RedisProcess, name: &str, words: &str) -> Vec<String> {
    let path = format!("{}/../shared-store/src/scripts/{name}.lua", env!("CARGO_MANIFEST_DIR"));
    let kinds = [
        "node",
        "association",
        "pfds",
        "session",
        "usage",
        "report",
        "answer",
        "standby",
        "checksums",
    ];
    let keys = ["state", "lease", "handover", "groups"].iter().chain(&kinds);
    let keys: Vec<_> = keys.map(|key| format!("adit:{{upf-1}}:{key}")).collect();
    let answer = server.answer(&format!("--eval {path} {} , {words}", keys.join(" ")));
    answer.lines().map(str::to_owned).collect()
}

/// A write of one session by `holder`, whose epoch came after `before`.
fn write(server: &RedisProcess, holder: &str, group: &str, before: &str) -> Vec<String> {
    let words = format!("{holder} 600 {group} 0-0 {before} sums 4#0000000000000001 =x");
    script(server, "write", &words)
}

#[test]
fn clocks_and_times_to_live_of_servers_say_nothing_about_the_lease() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(&server, "a");
    let mut other = client(&server, "b");
    // As if the server's clock went an hour ahead: the holder is well.
    let end = Instant::now() + 3 * LEASE;
    while Instant::now() < end {
        let _ = server.answer("DEL adit:{upf-1}:lease");
        held(&mut other);
        store.maintain().unwrap();
    }
    // As if it went an hour back just after the holder died.
    drop(store);
    let set = "SET adit:{upf-1}:lease a/0000000000000001;beat PX 3600000";
    assert_eq!(server.answer(set).trim(), "OK");
    assert_eq!(take_lease(&mut other), 2);
}

#[test]
fn lease_that_is_prolonged_at_the_last_moment_is_not_taken() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(&server, "a");
    let mut other = client(&server, "b");
    let first = held(&mut other);
    assert_eq!((first.left, first.renewals), (LEASE, 0));
    std::thread::sleep(LEASE + Duration::from_millis(50));
    // The other one has seen nothing for the whole lease; its last look is old.
    put(&mut store, 1);
    store.commit().unwrap();
    assert_eq!(held(&mut other).renewals, 1);
    store.commit().unwrap();
    drop(store);
    assert_eq!(take_lease(&mut other), 2);
}

#[test]
fn lease_of_the_former_release_is_honored_and_ends_after_its_length() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    assert_eq!(server.answer("HSET adit:{upf-1}:state format 1 epoch 3 holder old/1").trim(), "3");
    let set = "SET adit:{upf-1}:lease old/1 PX 3600000";
    assert_eq!(server.answer(set).trim(), "OK");
    let mut store = client(&server, "b");
    let began = Instant::now();
    assert_eq!(held(&mut store).holder, "old/1");
    // Its holder prolongs it.
    std::thread::sleep(LEASE / 2);
    assert_eq!(held(&mut store).renewals, 0);
    assert_eq!(server.answer(set).trim(), "OK");
    assert_eq!(held(&mut store).renewals, 1);
    assert_eq!(take_lease(&mut store), 4);
    assert!(began.elapsed() >= LEASE + LEASE / 2, "{:?}", began.elapsed());
    // An adit of that release reads the key, which names this holder.
    let lease = server.answer("GET adit:{upf-1}:lease");
    assert!(lease.starts_with("b/"), "{lease}");
    store.release().unwrap();
    assert_eq!(server.answer("EXISTS adit:{upf-1}:lease").trim(), "0");
}

#[test]
fn lease_is_not_measured_at_a_primary_without_its_replicas() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    drop(holder(&server, "a"));
    let mut other =
        store_client(SharedStoreOptions { acknowledge_replicas: 1, ..options(&server, "b") });
    let end = Instant::now() + 3 * LEASE;
    while Instant::now() < end {
        assert_eq!(held(&mut other).left, LEASE);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn lease_counts_only_when_as_many_replicas_as_configured_have_it() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let wanted = SharedStoreOptions { acknowledge_replicas: 1, ..options(&server, "a") };
    let mut store = store_client(wanted);
    let error = store.acquire().unwrap_err().to_string();
    assert!(error.contains("0 of 1 replicas"), "{error}");
    assert_eq!(store.lease_valid_until(), None);
}

#[test]
fn lease_is_prolonged_long_before_it_ends() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let long = SharedStoreOptions { lease: Duration::from_secs(60), ..options(&server, "a") };
    let mut store = store_client(long);
    store.acquire().unwrap();
    let first = store.lease_valid_until().unwrap();
    while store.lease_valid_until().unwrap() <= first {
        assert!(Instant::now() < first - Duration::from_secs(30), "it is not prolonged");
        store.maintain().unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let beat: u64 = server.answer("HGET adit:{upf-1}:state beat").trim().parse().unwrap();
    assert!(beat > 1, "{beat}");
}

#[test]
fn writer_of_an_equal_epoch_is_refused_if_another_one_holds_it() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let state = "HSET adit:{upf-1}:state format 1 epoch 2 holder b/2 held 1 last 0-0";
    assert_eq!(server.answer(state).trim(), "5");
    assert_eq!(write(&server, "2 a/1", "0-0 1", "1 z/1"), ["FENCED", "b/2"]);
    assert_eq!(write(&server, "1 b/2", "0-0 1", "0 -"), ["FENCED", "b/2"]);
    assert_eq!(write(&server, "2 b/2", "0-0 1", "1 z/1"), ["WRITTEN", "2-1", "0", "0"]);
}

#[test]
fn server_that_lost_the_epoch_takes_it_again_unless_another_one_took_the_lease_there() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let state = |epoch: u64, holder: &str| {
        let _ = server.answer("DEL adit:{upf-1}:state");
        let state =
            format!("HSET adit:{{upf-1}}:state epoch {epoch} holder {holder} held 1 last 0-0");
        assert_eq!(server.answer(&state).trim(), "4");
    };
    // The server has the groups that the one before this holder wrote.
    state(2, "z/1");
    assert_eq!(write(&server, "3 a/1", "0-0 1", "2 z/1"), ["WRITTEN", "3-1", "0", "0"]);
    let now = server.answer("HMGET adit:{upf-1}:state epoch holder held");
    assert_eq!(now.lines().collect::<Vec<_>>(), ["3", "a/1", "1"]);
    for (epoch, holder) in [(2, "c/1"), (3, "c/1")] {
        state(epoch, holder);
        assert_eq!(write(&server, "4 a/1", "0-0 1", "2 z/1"), ["FENCED", "c/1"]);
    }
}

#[test]
fn group_is_applied_once_and_only_behind_the_one_before_it() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let state = "HSET adit:{upf-1}:state epoch 1 holder a/1 held 1 last 1-4";
    assert_eq!(server.answer(state).trim(), "4");
    assert_eq!(write(&server, "1 a/1", "1-5 6", "0 -"), ["GAP", "1-4"]);
    assert_eq!(server.answer("HLEN adit:{upf-1}:session").trim(), "0");
    assert_eq!(write(&server, "1 a/1", "1-4 5", "0 -"), ["WRITTEN", "1-5", "0", "0"]);
    // The last group once more, and an older one.
    assert_eq!(server.answer("DEL adit:{upf-1}:session").trim(), "1");
    assert_eq!(write(&server, "1 a/1", "1-4 5", "0 -"), ["WRITTEN", "1-5", "0", "0"]);
    assert_eq!(write(&server, "1 a/1", "1-3 4", "0 -"), ["WRITTEN", "1-5", "0", "0"]);
    assert_eq!(server.answer("HLEN adit:{upf-1}:session").trim(), "0");
    assert_eq!(server.answer("XLEN adit:{upf-1}:groups").trim(), "1");
}

#[test]
fn only_the_holder_ends_its_lease() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(&server, "a");
    assert_eq!(server.answer("HSET adit:{upf-1}:state holder b/1").trim(), "0");
    store.release().unwrap();
    assert_eq!(script(&server, "release", "a/1"), ["RELEASED"]);
    assert_eq!(server.answer("HGET adit:{upf-1}:state held").trim(), "1");
    let mut other = client(&server, "c");
    assert_eq!(held(&mut other).holder, "b/1");
}

/// Follows until there is nothing more; returns the resets and the sessions.
fn follow(store: &mut SharedStore<KernelTcp>, sessions: &mut Vec<RecordKind>) -> u32 {
    let mut resets = 0;
    let began = Instant::now();
    loop {
        let progress = store.follow(Duration::ZERO, &|_, _| None, &mut |change| match change {
            FollowedChange::Reset => {
                resets += 1;
                sessions.clear();
            }
            FollowedChange::Change(change) => sessions.push(change.key.kind),
        });
        if progress.unwrap().is_caught_up {
            return resets;
        }
        assert!(began.elapsed() < LIMIT, "it never catches up");
    }
}

#[test]
fn follower_begins_again_when_groups_are_missing_or_lost() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(&server, "a");
    let mut standby = client(&server, "b");
    let mut sessions = Vec::new();
    let write = |store: &mut SharedStore<KernelTcp>, number| {
        put(store, number);
        store.commit().unwrap();
    };
    write(&mut store, 1);
    assert_eq!(follow(&mut standby, &mut sessions), 1);
    // A group in the middle is missing.
    write(&mut store, 2);
    write(&mut store, 3);
    assert_eq!(server.answer("XDEL adit:{upf-1}:groups 1-2").trim(), "1");
    assert_eq!(follow(&mut standby, &mut sessions), 1);
    assert_eq!(sessions.len(), 3);
    // The server lost the last one, and nobody gives it back: the follower has most.
    assert_eq!(server.answer("XDEL adit:{upf-1}:groups 1-3").trim(), "1");
    assert_eq!(server.answer("HDEL adit:{upf-1}:session #0000000000000003").trim(), "1");
    assert_eq!(server.answer("HSET adit:{upf-1}:state last 1-2").trim(), "0");
    assert_eq!(follow(&mut standby, &mut sessions), 0);
    assert_eq!(sessions.len(), 3);
}

#[test]
fn full_server_takes_what_relieves_it_and_says_that_it_is_full() {
    let Some(server) = RedisProcess::start(&["--maxmemory", "12mb"]) else { return };
    let mut store = holder(&server, "a");
    put(&mut store, 1);
    store.commit().unwrap();
    assert!(!store.is_full());
    // Somebody else fills it beyond its limit.
    assert_eq!(server.answer("SETRANGE filler 14000000 x").trim(), "14000001");
    assert!(server.answer("SET another x").contains("OOM"), "it has room");
    let until = |store: &mut SharedStore<KernelTcp>, is_full: bool| {
        let began = Instant::now();
        while store.is_full() != is_full {
            assert!(began.elapsed() < LIMIT, "it stays as it was");
            store.maintain().unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until(&mut store, true);
    let key = RecordKey::number(RecordKind::Session, 1);
    let usage = RecordKey::number(RecordKind::Usage, 2);
    store.append(&[StoreChange::remove(key), StoreChange::put(usage, b"y")]).unwrap();
    store.commit().unwrap();
    assert_eq!(server.answer("HLEN adit:{upf-1}:session").trim(), "0");
    // A request for the lease, a renewal, a release, and the lease anew.
    client(&server, "c").request_handover().unwrap();
    let valid = store.lease_valid_until();
    while store.lease_valid_until() <= valid {
        store.maintain().unwrap();
    }
    assert!(store.is_handover_requested());
    store.release().unwrap();
    let mut next = holder(&server, "b");
    assert_eq!(server.answer("DEL filler").trim(), "1");
    until(&mut next, false);
}

#[test]
fn server_that_removes_records_by_itself_is_refused_by_name() {
    let options = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let Some(server) = RedisProcess::start(&options) else { return };
    let mut store = client(&server, "a");
    let error = store.acquire().unwrap_err().to_string();
    assert!(error.contains("maxmemory-policy allkeys-lru"), "{error}");
    assert_eq!(server.answer("CONFIG SET maxmemory-policy noeviction").trim(), "OK");
    let began = Instant::now();
    while !matches!(store.acquire(), Ok(LeaseAnswer::Taken { .. })) {
        assert!(began.elapsed() < LIMIT, "it does not look again");
    }
    // A later change is a warning: the records are in use.
    assert_eq!(server.answer("CONFIG SET maxmemory-policy allkeys-lru").trim(), "OK");
    while !store.figures().warnings.iter().any(|warning| warning.contains("allkeys-lru")) {
        assert!(began.elapsed() < 2 * LIMIT, "{:?}", store.figures());
        store.maintain().unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!matches!(store.maintain(), Err(StoreError::Fenced { .. })));
}
