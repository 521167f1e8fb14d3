//! A replicated store over sockets of the kernel, on the thread of the store.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use adit_shared_store::replication::{
    ReplicatedStore, ReplicatedStoreOptions, ReplicationClient, ReplicationConfig,
    ReplicationServer, ReplicationTail,
};
use adit_shared_store::store_thread::{StoreLink, ThreadStore};
use adit_shared_store::tail_thread::TailThread;
use adit_store::{
    AppendError, GroupNumber, GroupPosition, GroupQueue, Incarnation, OwnedRecordId, RecordChange,
    RecordGroup, RecordKey, RecordKind, RecordStore, StoreChange, StoreError, StoreState, Upkeep,
};
use adit_transport::{KernelTcp, KernelWait};
use adit_types::Nanos;

const LIMIT: Duration = Duration::from_secs(20);

/// The behavior and the contents of a store in memory.
#[derive(Debug, Default)]
struct MemoryStoreState {
    is_away: AtomicBool,
    is_fenced: AtomicBool,
    /// The last group of it, and which standby it names.
    has: Mutex<(GroupNumber, Option<Incarnation>)>,
}

#[derive(Debug, Default)]
struct MemoryStore {
    state: Arc<MemoryStoreState>,
    groups: GroupQueue,
    wanted: Option<Incarnation>,
    standby: Option<Incarnation>,
}

impl RecordStore for MemoryStore {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError> {
        self.groups.append(changes, 10_000)
    }

    fn commit(&mut self) -> Result<GroupNumber, StoreError> {
        if self.state.is_fenced.load(Ordering::Relaxed) {
            return Err(StoreError::Fenced { holder: "another".to_owned() });
        }
        if self.state.is_away.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("it is away".to_owned()));
        }
        self.groups.set_durable(self.groups.last());
        // The standby may lack the last ones.
        self.groups.trim(1 << 16);
        self.standby = self.wanted;
        *self.state.has.lock().unwrap() = (self.durable(), self.standby);
        Ok(self.durable())
    }

    fn groups(&self) -> &GroupQueue {
        &self.groups
    }

    fn set_standby(&mut self, standby: Option<Incarnation>) {
        self.wanted = standby;
    }

    fn standby(&self) -> Option<Incarnation> {
        self.standby
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        Ok(Upkeep::Idle)
    }

    fn visit(
        &mut self,
        _: &[RecordKind],
        _: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

impl ThreadStore for MemoryStore {
    type Figures = u64;

    fn figures(&self) -> u64 {
        self.durable().0
    }
}

fn until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "nothing happens");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn put(store: &mut impl RecordStore, value: &[u8]) -> Result<GroupNumber, AppendError> {
    store.append(&[StoreChange::put(RecordKey::number(RecordKind::Session, 1), value)])
}

type Clock = fn() -> Nanos;

fn now() -> Nanos {
    static ZERO: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let zero = ZERO.get_or_init(Instant::now);
    Nanos(u64::try_from(zero.elapsed().as_nanos()).unwrap())
}

fn standby(wait: KernelWait, address: SocketAddr, incarnation: u64) -> TailThread<KernelTcp> {
    let mut tail = ReplicationTail::new("upf", Incarnation(incarnation), 1 << 20);
    tail.note_epoch(1);
    let transport = KernelTcp::new(wait).unwrap();
    let server = ReplicationServer::new(transport, address, tail).unwrap();
    TailThread::start(server, wait == KernelWait::Poll, now).unwrap()
}

fn replicated(
    wait: KernelWait,
    peer: SocketAddr,
    state: &Arc<MemoryStoreState>,
) -> ReplicatedStore<MemoryStore, KernelTcp, Clock> {
    let store = MemoryStore { state: Arc::clone(state), ..Default::default() };
    let config = ReplicationConfig {
        peer,
        name: "upf".to_owned(),
        epoch: 1,
        silence_max: Nanos::from_secs(5),
        retry_after: Nanos::from_millis(5),
        ping_interval: Nanos::from_millis(100),
    };
    let transport = KernelTcp::new(wait).unwrap();
    let client = ReplicationClient::new(transport, config);
    let options = ReplicatedStoreOptions {
        patience: Nanos::from_secs(5),
        lacking_octets_max: 1 << 20,
        polls: wait == KernelWait::Poll,
    };
    ReplicatedStore::new(store, client, options, now as Clock)
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn standby_suffices_while_the_store_is_away_and_the_store_while_the_standby_is() {
    for wait in [KernelWait::Sleep, KernelWait::Poll] {
        let (state, address) = (Arc::new(MemoryStoreState::default()), free_address());
        let tail = standby(wait, address, 5);
        let link = StoreLink::start(replicated(wait, address, &state)).unwrap();
        until(|| link.report().figures.standby_is_enough);
        let send = |number: u64| {
            let change = RecordChange {
                kind: RecordKind::Session,
                name: OwnedRecordId::Number(number),
                value: Some(vec![1; 100]),
            };
            link.send(RecordGroup { number: GroupNumber(number), changes: vec![change] });
        };
        state.is_away.store(true, Ordering::Relaxed);
        (1..=20).for_each(send);
        until(|| link.durable() == GroupNumber(20));
        assert_eq!(link.state(), StoreState::Working);
        let store = |number| GroupPosition { epoch: 1, number: GroupNumber(number) };
        assert_eq!(tail.groups_after(store(0)).unwrap().len(), 20);
        assert_eq!(*state.has.lock().unwrap(), (GroupNumber(0), Some(Incarnation(5))));
        state.is_away.store(false, Ordering::Relaxed);
        until(|| state.has.lock().unwrap().0 == GroupNumber(20));
        assert_eq!(tail.groups_between(store(18), store(20)).unwrap().len(), 2);
        assert_eq!(tail.groups_between(store(18), store(21)), None);
        tail.drop_found(store(19));
        assert_eq!(tail.report().groups, 1);
        drop(tail);
        until(|| link.report().figures.standby.is_none());
        send(21);
        until(|| link.durable() == GroupNumber(21));
        // A new standby has to be named before its word counts.
        let tail = standby(wait, address, 6);
        until(|| link.report().figures.standby_is_enough);
        send(22);
        until(|| link.durable() == GroupNumber(22));
        // The standby refuses the next group, and only the store knows why.
        state.is_away.store(true, Ordering::Relaxed);
        tail.note_epoch(2);
        send(23);
        until(|| link.report().figures.standby_error.contains("FENCED 2"));
        assert!(!link.is_lost());
        state.is_fenced.store(true, Ordering::Relaxed);
        until(|| link.is_lost());
        assert_eq!(link.durable(), GroupNumber(22));
    }
}

#[test]
fn store_has_everything_after_the_end_and_names_no_standby() {
    let (state, address) = (Arc::new(MemoryStoreState::default()), free_address());
    let tail = standby(KernelWait::Sleep, address, 5);
    let mut store = replicated(KernelWait::Sleep, address, &state);
    until(|| {
        store.maintain().unwrap();
        store.standby_is_enough()
    });
    let last = put(&mut store, b"a").unwrap();
    store.commit().unwrap();
    store.finish().unwrap();
    assert_eq!(*state.has.lock().unwrap(), (last, None));
    until(|| {
        store.maintain().unwrap();
        tail.report().last == last
    });
}
