//! The shared store over real servers: acknowledged records are there, after whatever happens to
//! servers and holders.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_shared_store::{FollowedChange, LeaseAnswer, SharedStore, SharedStoreOptions, StoreLogin};
use adit_store::{
    GroupNumber, GroupPosition, Incarnation, OwnedRecordId, RecordKey, RecordKind, RecordStore,
    StoreChange, StoreError,
};
use adit_tests::process::skip;
use adit_tests::redis::{RedisCluster, RedisProcess, store_client, store_options};
use adit_transport::{KernelTcp, KernelWait, TlsIdentity, TlsSettings, TlsTransport};

type FoundRecords = BTreeMap<(RecordKind, OwnedRecordId), Vec<u8>>;

fn options(servers: &[&RedisProcess], instance: &str) -> SharedStoreOptions {
    let servers: Vec<_> = servers.iter().map(|server| server.address()).collect();
    store_options(&servers, instance, u64::from(std::process::id()), Duration::from_secs(2))
}

fn holder(options: SharedStoreOptions) -> SharedStore<KernelTcp> {
    let mut store = store_client(options);
    let answer = store.acquire().unwrap();
    assert!(matches!(answer, LeaseAnswer::Taken { .. }), "{answer:?}");
    store
}

fn session(number: u64) -> RecordKey<'static> {
    RecordKey::number(RecordKind::Session, number)
}

fn records<S: RecordStore>(store: &mut S) -> FoundRecords {
    let mut found = FoundRecords::new();
    store
        .visit(&RecordKind::ALL, &mut |key, value| {
            let former = found.insert((key.kind, OwnedRecordId::of(key.id)), value.to_vec());
            assert_eq!(former, None, "visited twice");
        })
        .unwrap();
    found
}

/// The records that a holder got acknowledged.
#[derive(Default)]
struct Book {
    records: FoundRecords,
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
            let name = (change.key.kind, OwnedRecordId::of(change.key.id));
            match change.value {
                Some(value) => drop(self.records.insert(name, value.to_vec())),
                None => drop(self.records.remove(&name)),
            }
        }
    }
}

/// Commits until it succeeds.
fn commit(store: &mut impl RecordStore, limit: Duration) -> GroupNumber {
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
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let mut book = Book::default();
    for _ in 0..500 {
        book.append(&mut store);
    }
    assert_eq!(store.durable(), GroupNumber(0));
    assert_eq!(store.commit().unwrap(), GroupNumber(500));
    assert_eq!(records(&mut store), book.records);
    store.release().unwrap();
    let mut next = store_client(options(&[&server], "b"));
    assert_eq!(records(&mut next), book.records);
    assert!(matches!(next.acquire().unwrap(), LeaseAnswer::Taken { epoch: 2 }));
}

/// The records that a follower has.
#[derive(Default)]
struct Follower {
    records: FoundRecords,
    resets: u32,
}

impl Follower {
    /// Follows until it has all that the server had.
    fn catch_up(&mut self, store: &mut SharedStore<KernelTcp>) -> GroupPosition {
        loop {
            let progress = store
                .follow(Duration::from_millis(10), &|_, _| None, &mut |change| self.take(change));
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
                let name = (key.kind, OwnedRecordId::of(key.id));
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
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let (mut book, mut follower) = (Book::default(), Follower::default());
    let mut standby = store_client(options(&[&server], "b"));
    assert_eq!(follower.catch_up(&mut standby), GroupPosition::default());
    for round in 1..=20 {
        for _ in 0..round {
            book.append(&mut store);
        }
        store.commit().unwrap();
        let reached = follower.catch_up(&mut standby);
        assert_eq!(reached, GroupPosition { epoch: 1, number: GroupNumber(book.next) });
        assert_eq!(follower.records, book.records);
    }
    assert_eq!(follower.resets, 1);
    let late = &mut Follower::default();
    late.catch_up(&mut store_client(options(&[&server], "c")));
    assert_eq!((late.resets, &late.records), (1, &book.records));
    // The changes that a follower needs are gone from the stream.
    book.append(&mut store);
    store.commit().unwrap();
    assert_eq!(server.answer("XTRIM adit:{upf-1}:groups MAXLEN 0").trim(), "211");
    follower.catch_up(&mut standby);
    assert_eq!((follower.resets, follower.records), (2, book.records));
}

#[test]
fn former_holder_is_refused_and_knows_it() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let mut book = Book::default();
    book.append(&mut store);
    store.commit().unwrap();
    let mut other = store_client(options(&[&server], "b"));
    let LeaseAnswer::Held(lease) = other.acquire().unwrap() else { panic!("two holders") };
    assert!(lease.holder.starts_with("a/") && lease.left <= Duration::from_secs(2), "{lease:?}");
    assert_eq!(server.answer("HDEL adit:{upf-1}:state held").trim(), "1");
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
    assert_eq!(store.durable(), GroupNumber(1));
}

#[test]
fn lease_goes_to_the_standby_that_is_named_and_to_nobody_else() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let mut book = Book::default();
    book.append(&mut store);
    store.set_standby(None);
    store.commit().unwrap();
    store.set_standby(Some(Incarnation(7)));
    assert_eq!(store.standby(), None);
    store.commit().unwrap();
    assert_eq!(store.standby(), Some(Incarnation(7)));
    // Its holder has crashed, and begins again.
    let mut again = store_client(SharedStoreOptions { process: 7, ..options(&[&server], "a") });
    assert_eq!(again.acquire().unwrap(), LeaseAnswer::Named(Incarnation(7)));
    let mut other = store_client(options(&[&server], "b"));
    other.set_incarnation(Incarnation(7));
    let LeaseAnswer::Held(lease) = other.acquire().unwrap() else { panic!("two holders") };
    std::thread::sleep(lease.left + Duration::from_millis(50));
    assert_eq!(other.acquire().unwrap(), LeaseAnswer::Taken { epoch: 2 });
    assert_eq!(other.former_standby(), Some(Incarnation(7)));
    other.check_records().unwrap();
    // Until it has written its records, nobody else gets the lease.
    book.append(&mut other);
    other.commit().unwrap();
    other.release().unwrap();
    assert_eq!(again.acquire().unwrap(), LeaseAnswer::Named(Incarnation(7)));
    assert_eq!(other.acquire().unwrap(), LeaseAnswer::Taken { epoch: 2 });
    other.set_standby(None);
    other.commit().unwrap();
    other.release().unwrap();
    assert_eq!(again.acquire().unwrap(), LeaseAnswer::Taken { epoch: 3 });
    again.check_records().unwrap();
    assert_eq!((again.former_standby(), records(&mut again)), (None, book.records));
    // The records that only a lost standby had are given up on request.
    again.set_standby(Some(Incarnation(8)));
    again.commit().unwrap();
    again.release().unwrap();
    assert_eq!(other.acquire().unwrap(), LeaseAnswer::Named(Incarnation(8)));
    other.accept_loss_of_standby();
    assert_eq!(other.acquire().unwrap(), LeaseAnswer::Taken { epoch: 4 });
    assert_eq!(other.former_standby(), Some(Incarnation(8)));
}

#[test]
fn follower_does_not_read_again_what_it_knows() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let (mut book, mut follower) = (Book::default(), Follower::default());
    let mut standby = store_client(options(&[&server], "b"));
    book.append(&mut store);
    store.commit().unwrap();
    follower.catch_up(&mut standby);
    let reads = || server.answer("INFO commandstats").contains("cmdstat_xread");
    assert_eq!(server.answer("CONFIG RESETSTAT").trim(), "OK");
    for round in 0..20 {
        (0..round).for_each(|_| book.append(&mut store));
        store.commit().unwrap();
        let known = |after: GroupPosition, through: GroupPosition| {
            let groups = store.groups().after(after.number);
            Some(groups.take_while(|group| group.number <= through.number).cloned().collect())
        };
        let progress = standby
            .follow(Duration::from_millis(1), &known, &mut |change| follower.take(change))
            .unwrap();
        assert!(progress.is_caught_up && progress.reached.number == store.durable());
        assert_eq!(follower.records, book.records);
    }
    assert!(!reads());
    // The client reads the groups that it does not have.
    book.append(&mut store);
    store.commit().unwrap();
    follower.catch_up(&mut standby);
    assert_eq!((follower.records, reads()), (book.records, true));
}

#[test]
fn lease_lasts_while_it_is_prolonged_and_goes_to_another_holder_after_it() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let short = |instance| SharedStoreOptions {
        lease: Duration::from_millis(600),
        ..options(&[&server], instance)
    };
    let mut store = holder(short("a"));
    let mut other = store_client(short("b"));
    let end = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < end {
        store.maintain().unwrap();
        assert!(matches!(other.acquire().unwrap(), LeaseAnswer::Held(_)));
        std::thread::sleep(Duration::from_millis(50));
    }
    other.request_handover().unwrap();
    while !store.is_handover_requested() {
        assert!(Instant::now() < end + Duration::from_secs(5), "it never learns of the wish");
        store.maintain().unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    store.release().unwrap();
    assert_eq!(other.acquire().unwrap(), LeaseAnswer::Taken { epoch: 2 });
    // A process of the same instance takes it at once, because the previous process has ended.
    let mut next = store_client(SharedStoreOptions { process: 7, ..short("b") });
    assert_eq!(next.acquire().unwrap(), LeaseAnswer::Taken { epoch: 3 });
    drop(next);
    let mut third = store_client(short("c"));
    let LeaseAnswer::Held(lease) = third.acquire().unwrap() else { panic!("two holders") };
    std::thread::sleep(lease.left + Duration::from_millis(50));
    assert_eq!(third.acquire().unwrap(), LeaseAnswer::Taken { epoch: 4 });
    assert!(matches!(other.commit(), Ok(_) | Err(StoreError::Fenced { .. })));
    let end = Instant::now() + Duration::from_secs(20);
    while !matches!(other.maintain(), Err(StoreError::Fenced { .. })) {
        assert!(Instant::now() < end, "it never learns that it lost the lease");
    }
}

#[test]
fn records_of_a_newer_program_are_refused_in_one_sentence() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    assert_eq!(server.answer("HSET adit:{upf-1}:state format 2 last 1-7").trim(), "2");
    let mut store = store_client(options(&[&server], "a"));
    let sentence = "the shared store of \"upf-1\" has format version 2, this program reads versions up to 1: start the newer \
                    program or use another place";
    assert_eq!(store.acquire().unwrap_err().to_string(), sentence);
    let followed =
        store.follow(Duration::ZERO, &|_, _| None, &mut |_| panic!("it must not be read"));
    assert_eq!(followed.unwrap_err().to_string(), sentence);
}

#[test]
fn server_that_is_killed_under_changes_loses_nothing_that_was_acknowledged() {
    let Some(mut server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let mut book = Book::default();
    for round in 0..4 {
        std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(40 + 13 * round));
                server.kill();
                std::thread::sleep(Duration::from_millis(100));
                server.restart();
            });
            while !killer.is_finished() {
                book.append(&mut store);
                let acknowledged = store.commit();
                assert!(
                    !matches!(acknowledged, Err(StoreError::Fenced { .. })),
                    "{acknowledged:?}"
                );
            }
        });
        assert_eq!(commit(&mut store, Duration::from_secs(10)), GroupNumber(book.next));
        assert_eq!(records(&mut store), book.records);
    }
    assert!(store.figures().connection_failures >= 4, "{:?}", store.figures());
}

#[test]
fn server_that_hangs_is_given_up_and_gets_each_group_once_when_it_goes_on() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let mut book = Book::default();
    book.append(&mut store);
    store.commit().unwrap();
    server.signal(libc::SIGSTOP);
    book.append(&mut store);
    let began = Instant::now();
    let error = store.commit().unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert_eq!(store.durable(), GroupNumber(1));
    server.signal(libc::SIGCONT);
    assert_eq!(commit(&mut store, Duration::from_secs(10)), GroupNumber(2));
    assert_eq!(server.answer("XLEN adit:{upf-1}:groups").trim(), "2");
    assert_eq!(records(&mut store), book.records);
}

#[test]
fn acknowledged_by_a_replica_survives_the_loss_of_the_primary() {
    let (Some(mut first), Some(second)) = (RedisProcess::start(&[]), RedisProcess::start(&[]))
    else {
        return;
    };
    second.replicate(&first);
    let wanted = SharedStoreOptions {
        acknowledge_replicas: 1,
        // The replica is named first, and the client skips it.
        ..options(&[&second, &first], "a")
    };
    let mut store = holder(wanted);
    let mut book = Book::default();
    let mut acknowledged = FoundRecords::new();
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            first.kill();
            second.promote();
        });
        while !killer.is_finished() {
            book.append(&mut store);
            if store.commit().is_ok() {
                acknowledged = book.records.clone();
            }
        }
    });
    assert!(store.durable().0 > 1, "{:?}", store.durable());
    // A group that one server alone has is not acknowledged, in spite of the new primary.
    let known = store.durable();
    book.append(&mut store);
    assert!(store.commit().unwrap_err().to_string().contains("0 of 1 replicas"), "{known:?}");
    assert_eq!(store.durable(), known);
    first.restart();
    // The first server is a primary again, with less than the other one has.
    let mut next = store_client(options(&[&first, &second], "b"));
    assert_eq!(records(&mut next), book.records);
    assert_eq!(next.figures().server, Some(second.address()));
    first.replicate(&second);
    assert_eq!(commit(&mut store, Duration::from_secs(10)), GroupNumber(book.next));
    assert_eq!(store.figures().server, Some(second.address()));
    assert_eq!(records(&mut store), book.records);
    assert!(acknowledged.keys().count() > 0);
}

#[test]
fn replica_that_is_behind_gets_the_acknowledged_groups_again() {
    let (Some(mut first), Some(second)) = (RedisProcess::start(&[]), RedisProcess::start(&[]))
    else {
        return;
    };
    second.replicate(&first);
    let mut store = holder(options(&[&first, &second], "a"));
    let mut book = Book::default();
    let write = |book: &mut Book, store: &mut SharedStore<KernelTcp>| {
        (0..50).for_each(|_| book.append(store));
        commit(store, Duration::from_secs(10))
    };
    write(&mut book, &mut store);
    second.wait("HGET adit:{upf-1}:state last", |answer| answer.trim() == "1-50");
    // The replica is to follow an address without a server. It loses its primary, and keeps its
    // records.
    assert_eq!(second.answer("REPLICAOF 127.0.0.1 1").trim(), "OK");
    write(&mut book, &mut store);
    first.kill();
    second.promote();
    assert_eq!(second.answer("HGET adit:{upf-1}:state last").trim(), "1-50");
    assert_eq!(write(&mut book, &mut store), GroupNumber(150));
    assert_eq!(records(&mut store), book.records);
    // A server that lost records which this process did not write is of no use.
    let mut next = holder(SharedStoreOptions { process: 1, ..options(&[&second], "a") });
    let lose = || {
        assert_eq!(second.answer("FLUSHALL").trim(), "OK");
        second.answer("CLIENT KILL TYPE normal SKIPME yes")
    };
    next.append(&[StoreChange::put(session(1), b"x")]).unwrap();
    next.commit().unwrap();
    lose();
    next.append(&[StoreChange::put(session(2), b"x")]).unwrap();
    let error = next.commit().unwrap_err().to_string();
    assert!(error.contains("lost records"), "{error}");
    assert_eq!(next.durable(), GroupNumber(1));
}

#[test]
fn cluster_redirects_and_loses_nothing_when_a_primary_dies() {
    let key = "adit:{upf-1}:lease";
    let Some(mut cluster) = RedisCluster::start(key) else { return };
    let [primary, others @ ..] = cluster.nodes.as_mut_slice() else { panic!("no nodes") };
    // Only nodes that do not have the records are known, and they redirect.
    let known = [&others[0], &others[1]];
    let acknowledge_replicas = 1;
    let mut store = holder(SharedStoreOptions { acknowledge_replicas, ..options(&known, "a") });
    let mut book = Book::default();
    for _ in 0..100 {
        book.append(&mut store);
    }
    assert_eq!(commit(&mut store, Duration::from_secs(10)), GroupNumber(100));
    assert_eq!(store.figures().server, Some(primary.address()));
    primary.kill();
    book.append(&mut store);
    // The replica has none of its own yet.
    let end = Instant::now() + Duration::from_secs(20);
    let replica = others[2].address();
    while store.figures().server != Some(replica) {
        assert!(store.commit().is_err(), "acknowledged without a replica");
        assert!(Instant::now() < end, "the replica does not become the primary");
        std::thread::sleep(Duration::from_millis(50));
    }
    primary.restart();
    assert_eq!(commit(&mut store, Duration::from_secs(20)), GroupNumber(101));
    assert_eq!(records(&mut store), book.records);
}

/// Files of an authority, and of certificates for 127.0.0.1 and for a client that it signed.
fn certificates(dir: &Path) -> Option<()> {
    let extension = dir.join("extension");
    std::fs::write(&extension, "subjectAltName=IP:127.0.0.1").unwrap();
    let run = |arguments: &str| {
        let arguments = arguments.replace("DIR", &dir.display().to_string());
        Command::new("openssl").args(arguments.split(' ')).output()
    };
    let Ok(_) = run("version") else {
        skip("openssl is not installed");
        return None;
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let commands = [
        format!("req -x509 {key} -keyout DIR/ca.key -out DIR/ca.pem -days 2 -subj /CN=authority"),
        format!("req -x509 {key} -keyout DIR/other.key -out DIR/other.pem -days 2 -subj /CN=other"),
        format!("req {key} -keyout DIR/server.key -out DIR/server.csr -subj /CN=server"),
        "x509 -req -in DIR/server.csr -CA DIR/ca.pem -CAkey DIR/ca.key -CAcreateserial -days 2 \
         -extfile DIR/extension -out DIR/server.pem"
            .to_owned(),
    ];
    for command in commands {
        let output = run(&command).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    Some(())
}

#[test]
fn server_with_tls_and_a_password_takes_those_who_have_both() {
    let dir = tempfile::tempdir().unwrap();
    let Some(()) = certificates(dir.path()) else { return };
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (certificate, key, authority) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let options_of_server = format!(
        "--port 0 --tls-port PORT --tls-cert-file {certificate} --tls-key-file {key} --tls-ca-cert-file {authority} \
         --requirepass secret"
    );
    let login = format!(
        "--tls --cacert {authority} --cert {certificate} --key {key} -a secret --no-auth-warning"
    );
    let options_of_server: Vec<_> = options_of_server.split(' ').collect();
    let login: Vec<_> = login.split(' ').collect();
    let Some(server) = RedisProcess::start_with(&options_of_server, &login) else { return };
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let identity = || TlsIdentity { certificate: read("server.pem"), key: read("server.key") };
    let open = |authority: &str, identity, name, password: &str| {
        let settings = TlsSettings::new(&read(authority), identity, name).unwrap();
        let kernel = KernelTcp::new(KernelWait::Sleep).unwrap();
        let login = StoreLogin { username: String::new(), password: password.to_owned() };
        let wanted = SharedStoreOptions { login: Some(login), ..options(&[&server], "a") };
        SharedStore::new(TlsTransport::new(kernel, settings), wanted)
    };
    let mut store = open("ca.pem", Some(identity()), None, "secret");
    assert_eq!(store.acquire().unwrap(), LeaseAnswer::Taken { epoch: 1 });
    // More than a TLS record, and more than the buffers of the sockets.
    let value = vec![7; 200_000];
    for number in 0..40 {
        store.append(&[StoreChange::put(session(number), &value)]).unwrap();
    }
    assert_eq!(store.commit().unwrap(), GroupNumber(40));
    let found = records(&mut store);
    assert_eq!(found.len(), 40);
    assert!(found.values().all(|found| *found == value));
    let refusal =
        |mut store: SharedStore<TlsTransport<KernelTcp>>| store.acquire().unwrap_err().to_string();
    let refusals = [
        (open("ca.pem", Some(identity()), None, "wrong"), "WRONGPASS"),
        (open("ca.pem", None, None, "secret"), "the peer wants a certificate"),
        (
            open("other.pem", Some(identity()), None, "secret"),
            "signed by none of the configured authorities",
        ),
        (
            open("ca.pem", Some(identity()), Some("redis-1"), "secret"),
            "for another address or name",
        ),
    ];
    for (store, wanted) in refusals {
        let told = refusal(store);
        assert!(told.contains(wanted), "{told} instead of {wanted}");
    }
    let mut plain = store_client(options(&[&server], "a"));
    assert!(plain.acquire().is_err());
}

#[test]
fn groups_on_the_server_are_bounded_and_a_late_follower_begins_again() {
    let Some(mut server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    let (mut follower, mut standby) = (Follower::default(), store_client(options(&[&server], "b")));
    let value = vec![7; 250_000];
    let write = |store: &mut SharedStore<KernelTcp>, group: u64| {
        let change = |number| StoreChange::put(session(number), &value);
        store.append(&[change(group), change(group + 1000), change(group + 2000)]).unwrap();
        commit(store, Duration::from_secs(10))
    };
    write(&mut store, 1);
    follower.catch_up(&mut standby);
    for group in 2..=60 {
        write(&mut store, group);
    }
    // 60 groups have 45 MB, of which 32 MiB stay.
    let kept: u32 = server.answer("XLEN adit:{upf-1}:groups").trim().parse().unwrap();
    assert!((40..50).contains(&kept), "{kept}");
    server.kill();
    server.restart();
    assert_eq!(write(&mut store, 61), GroupNumber(61));
    follower.catch_up(&mut standby);
    assert_eq!((follower.resets, follower.records.len()), (2, 183));
}

#[test]
fn follower_that_reads_all_records_is_not_overtaken_by_changes() {
    let Some(server) = RedisProcess::start(&[]) else { return };
    let mut store = holder(options(&[&server], "a"));
    for first in (0..8000).step_by(1000) {
        let changes = (first..first + 1000).map(|number| StoreChange::put(session(number), b"x"));
        store.append(&changes.collect::<Vec<_>>()).unwrap();
    }
    let _ = commit(&mut store, Duration::from_secs(10));
    let (mut follower, mut standby) = (Follower::default(), store_client(options(&[&server], "b")));
    // While it reads, the server gets more than it keeps of the order of changes: 80 times 750 kB.
    let (value, mut seen) = (vec![7; 250_000], 0);
    let progress = standby.follow(Duration::ZERO, &|_, _| None, &mut |change| {
        seen += 1;
        if seen % 100 == 0 && seen <= 8000 {
            let change = |number| StoreChange::put(session(number), &value);
            store.append(&[change(1), change(2), change(3 + seen % 7)]).unwrap();
            let _ = commit(&mut store, Duration::from_secs(10));
        }
        follower.take(change);
    });
    assert!(progress.unwrap().is_caught_up);
    assert_eq!((follower.resets, follower.records.len()), (1, 8000));
    assert_eq!(follower.records, records(&mut store));
}
