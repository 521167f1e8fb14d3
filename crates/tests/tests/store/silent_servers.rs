//! Servers of a shared store that fall silent: their packets vanish, and nothing says so.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use adit_shared_store::{LeaseAnswer, SharedStore};
use adit_store::{RecordKey, RecordKind, RecordStore, StoreChange};
use adit_tests::redis::{RedisProcess, store_client, store_options};
use adit_transport::KernelTcp;

/// Far more than any lease here: a search that a silent server stops never ends.
const LIMIT: Duration = Duration::from_secs(20);

/// An address at which connections never open: the kernel drops segments, since the queue of the
/// listener is full.
struct SilentServer {
    listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl SilentServer {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let opens = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let queue: Vec<_> = (0..16).map_while(|_| opens()).collect();
        assert!(queue.len() < 16, "its queue never fills");
        Self { listener, _queue: queue }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}

/// A server whose replicas need not wait for others.
fn start() -> Option<RedisProcess> {
    RedisProcess::start(&["--repl-diskless-sync-delay", "0"])
}

fn client(servers: &[SocketAddr], lease: Duration, instance: &str) -> SharedStore<KernelTcp> {
    store_client(store_options(servers, instance, 1, lease))
}

fn put(store: &mut SharedStore<KernelTcp>, number: u64) {
    let key = RecordKey::number(RecordKind::Session, number);
    store.append(&[StoreChange::put(key, b"x")]).unwrap();
}

/// Calls until it succeeds, and returns how long that took.
fn until<R, E: std::fmt::Display>(mut call: impl FnMut() -> Result<R, E>) -> (R, Duration) {
    let began = Instant::now();
    loop {
        match call() {
            Ok(done) => return (done, began.elapsed()),
            Err(error) => assert!(began.elapsed() < LIMIT, "{error}"),
        }
    }
}

#[test]
fn changes_are_accepted_again_whichever_servers_are_silent() {
    let dead = SilentServer::new();
    for lease_ms in [300, 1000, 2000] {
        let lease = Duration::from_millis(lease_ms);
        for turn in 0..3 {
            let (Some(first), Some(second)) = (start(), start()) else {
                return;
            };
            second.replicate(&first);
            let mut servers = [first.address(), dead.address(), second.address()];
            servers.rotate_left(turn);
            let mut store = client(&servers, lease, "a");
            until(|| store.acquire());
            put(&mut store, 1);
            until(|| store.commit());
            assert_eq!(store.figures().server, Some(first.address()));
            // The stopped server accepts connections, and says nothing more.
            first.signal(libc::SIGSTOP);
            second.promote();
            put(&mut store, 2);
            let (_, took) = until(|| store.commit());
            println!("lease {lease_ms} ms, order {turn}: accepted again after {took:?}");
            assert_eq!(store.figures().server, Some(second.address()));
            first.signal(libc::SIGCONT);
        }
    }
}

#[test]
fn primary_is_found_at_once_behind_silent_servers_and_kept_whatever_they_do() {
    let dead = [SilentServer::new(), SilentServer::new(), SilentServer::new()];
    let Some(server) = start() else { return };
    let lease = Duration::from_millis(300);
    let mut servers: Vec<_> = dead.iter().map(SilentServer::address).collect();
    servers.push(server.address());
    let mut store = client(&servers, lease, "a");
    assert!(matches!(until(|| store.acquire()).0, LeaseAnswer::Taken { epoch: 1 }));
    put(&mut store, 1);
    until(|| store.commit());
    let mut standby = client(&servers, lease, "b");
    let (progress, _) = until(|| standby.follow(Duration::ZERO, &|_, _| None, &mut |_| {}));
    assert_eq!(progress.last.number.0, 1);
    // Silent servers are left alone while there is a primary.
    let before = (store.figures().connection_failures, standby.figures().connection_failures);
    for number in 2..20 {
        put(&mut store, number);
        until(|| store.commit());
        until(|| standby.follow(Duration::from_millis(5), &|_, _| None, &mut |_| {}));
    }
    let after = (store.figures().connection_failures, standby.figures().connection_failures);
    assert_eq!(before, after);
}

/// True if the replica has confirmed all that the primary has. `WAIT` would wait for writes of its
/// own connection only.
fn has_all(replication: &str) -> bool {
    let number = |after: &str| {
        let (_, rest) = replication.split_once(after)?;
        rest.split(|of: char| !of.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let confirmed = number("state=online,offset=");
    confirmed.is_some() && confirmed == number("master_repl_offset:")
}

#[test]
fn standby_finds_the_new_primary_beside_silent_servers() {
    let dead = SilentServer::new();
    let (Some(first), Some(second)) = (start(), start()) else {
        return;
    };
    second.replicate(&first);
    let servers = [first.address(), dead.address(), second.address()];
    let lease = Duration::from_millis(300);
    let mut active = client(&servers, lease, "a");
    until(|| active.acquire());
    put(&mut active, 1);
    until(|| active.commit());
    let mut standby = client(&servers, lease, "b");
    until(|| standby.follow(Duration::ZERO, &|_, _| None, &mut |_| {}));
    first.wait("INFO replication", has_all);
    first.signal(libc::SIGSTOP);
    second.promote();
    // The holder has gone with the primary.
    drop(active);
    let take = || match standby.acquire() {
        Ok(LeaseAnswer::Taken { epoch }) => Ok(epoch),
        Ok(answer) => Err(format!("{answer:?}")),
        Err(error) => Err(error.to_string()),
    };
    let (epoch, took) = until(take);
    println!("taken over after {took:?}");
    assert_eq!(epoch, 2);
    first.signal(libc::SIGCONT);
}
