//! The shared store over real servers: what was acknowledged is there, after whatever happens to servers and holders.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use adit_shared_store::{
    FollowedChange, GroupPosition, LeaseAnswer, SharedStore, SharedStoreOptions,
};
use adit_store::{
    RecordKey, RecordKind, RecordName, RecordNumber, RecordStore, StoreChange, StoreError,
};
use adit_tests::redis::{RedisCluster, RedisServer};
use adit_transport::{KernelTcp, KernelWait};

const NAME: &str = "upf-1";

type Records = BTreeMap<(RecordKind, RecordName), Vec<u8>>;

fn options(servers: &[&RedisServer], instance: &str) -> SharedStoreOptions {
    SharedStoreOptions {
        servers: servers.iter().map(|server| server.address()).collect(),
        name: NAME.to_owned(),
        instance: instance.to_owned(),
        process: u64::from(std::process::id()),
        login: None,
        acknowledge_replicas: 0,
        lease: Duration::from_secs(2),
        patience: Duration::from_secs(1),
    }
}

fn client(options: SharedStoreOptions) -> SharedStore<KernelTcp> {
    SharedStore::new(KernelTcp::new(KernelWait::Sleep).unwrap(), options)
}

fn holder(options: SharedStoreOptions) -> SharedStore<KernelTcp> {
    let mut store = client(options);
    let answer = store.acquire().unwrap();
    assert!(matches!(answer, LeaseAnswer::Taken { .. }), "{answer:?}");
    store
}

fn session(number: u64) -> RecordKey<'static> {
    RecordKey::number(RecordKind::Session, number)
}

fn records<S: RecordStore>(store: &mut S) -> Records {
    let mut found = Records::new();
    store
        .visit(&RecordKind::ALL, &mut |key, value| {
            let former = found.insert((key.kind, RecordName::of(key.id)), value.to_vec());
            assert_eq!(former, None, "visited twice");
        })
        .unwrap();
    found
}

/// What a holder was acknowledged.
#[derive(Default)]
struct Book {
    records: Records,
    next: u64,
}

impl Book {
    /// Appends a few changes as one group.
    fn append(&mut self, store: &mut impl RecordStore) {
        self.next += 1;
        let (number, value) = (self.next % 97, self.next.to_be_bytes().repeat(40));
        let key = session(number);
        let node = RecordKey::octets(RecordKind::Association, b"192.0.2.1");
        let is_removed = self.next.is_multiple_of(5);
        let changes = match is_removed {
            true => [StoreChange::remove(key), StoreChange::put(node, &value)],
            false => [StoreChange::put(key, &value), StoreChange::put(node, b"")],
        };
        store.append(&changes).unwrap();
        for change in changes {
            let name = (change.key.kind, RecordName::of(change.key.id));
            match change.value {
                Some(value) => drop(self.records.insert(name, value.to_vec())),
                None => drop(self.records.remove(&name)),
            }
        }
    }
}

/// Commits until it succeeds.
fn commit(store: &mut impl RecordStore, limit: Duration) -> RecordNumber {
    let end = Instant::now() + limit;
    loop {
        match store.commit() {
            Ok(number) => return number,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn groups_are_there_for_the_next_process() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let mut book = Book::default();
    for _ in 0..500 {
        book.append(&mut store);
    }
    assert_eq!(store.durable(), RecordNumber(0));
    assert_eq!(store.commit().unwrap(), RecordNumber(500));
    assert_eq!(records(&mut store), book.records);
    store.release().unwrap();
    let mut next = client(options(&[&server], "b"));
    assert_eq!(records(&mut next), book.records);
    assert!(matches!(next.acquire().unwrap(), LeaseAnswer::Taken { epoch: 2 }));
}

/// What a follower knows.
#[derive(Default)]
struct Follower {
    records: Records,
    resets: u32,
}

impl Follower {
    /// Follows until it has all that the server had.
    fn catch_up(&mut self, store: &mut SharedStore<KernelTcp>) -> GroupPosition {
        loop {
            let progress = store.follow(Duration::from_millis(10), &mut |change| self.take(change));
            let progress = progress.unwrap();
            if progress.is_caught_up {
                return progress.reached;
            }
        }
    }

    fn take(&mut self, change: FollowedChange<'_>) {
        match change {
            FollowedChange::Reset => {
                self.resets += 1;
                self.records.clear();
            }
            FollowedChange::Change(StoreChange { key, value }) => {
                let name = (key.kind, RecordName::of(key.id));
                match value {
                    Some(value) => drop(self.records.insert(name, value.to_vec())),
                    None => drop(self.records.remove(&name)),
                }
            }
        }
    }
}

#[test]
fn follower_learns_all_records_and_then_each_change() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let (mut book, mut follower) = (Book::default(), Follower::default());
    let mut standby = client(options(&[&server], "b"));
    assert_eq!(follower.catch_up(&mut standby), GroupPosition::default());
    for round in 1..=20 {
        for _ in 0..round {
            book.append(&mut store);
        }
        store.commit().unwrap();
        let reached = follower.catch_up(&mut standby);
        assert_eq!(reached, GroupPosition { epoch: 1, number: book.next });
        assert_eq!(follower.records, book.records);
    }
    assert_eq!(follower.resets, 1);
    let late = &mut Follower::default();
    late.catch_up(&mut client(options(&[&server], "c")));
    assert_eq!((late.resets, &late.records), (1, &book.records));
    // What a follower needs is gone from the stream.
    book.append(&mut store);
    store.commit().unwrap();
    assert_eq!(server.answer("XTRIM adit:{upf-1}:groups MAXLEN 0").trim(), "211");
    follower.catch_up(&mut standby);
    assert_eq!((follower.resets, follower.records), (2, book.records));
}

#[test]
fn former_holder_is_refused_and_knows_it() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let mut book = Book::default();
    book.append(&mut store);
    store.commit().unwrap();
    let mut other = client(options(&[&server], "b"));
    let LeaseAnswer::Held(lease) = other.acquire().unwrap() else { panic!("two holders") };
    assert!(lease.holder.starts_with("a/") && lease.left <= Duration::from_secs(2), "{lease:?}");
    assert_eq!(server.answer("DEL adit:{upf-1}:lease").trim(), "1");
    assert_eq!(other.acquire().unwrap(), LeaseAnswer::Taken { epoch: 2 });
    let acknowledged = book.records.clone();
    book.append(&mut store);
    let refused = |error: StoreError| match error {
        StoreError::Fenced { holder } => assert!(holder.starts_with("b/"), "{holder}"),
        other => panic!("{other}"),
    };
    refused(store.commit().unwrap_err());
    refused(store.commit().unwrap_err());
    refused(store.maintain().unwrap_err());
    assert_eq!(records(&mut other), acknowledged);
    let session = session(7);
    other.append(&[StoreChange::put(session, b"x")]).unwrap();
    other.commit().unwrap();
    assert_eq!(store.durable(), RecordNumber(1));
}
