//! Two hosts, a shared store and a network in memory. One process is active, the other one its standby. Everything fails at
//! random; nothing that was acknowledged may be lost unless two failures destroyed all copies, which must be noticed.

mod network;
mod random;
mod server;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::rc::Rc;

use adit_replication::{
    Incarnation, ReplicatedGroup, ReplicatedStore, ReplicatedStoreOptions, ReplicationClient,
    ReplicationConfig, ReplicationServer, ReplicationTail, StorePosition, TailError, TailRequest,
    TailSource, marked_standby, write_tail,
};
use adit_store::{RecordKey, RecordKind, RecordNumber, RecordStore, StoreChange, encode_change};
use adit_types::Nanos;

pub(crate) use network::{LossyNetwork, MemoryTransport};
pub(crate) use random::ReplicationRandom;
use server::{ServerClient, SharedServer};

const NAME: &str = "upf-1";
const TAIL_OCTETS_MAX: usize = 20_000;

type Clock = Box<dyn FnMut() -> Nanos>;
type Store = ReplicatedStore<ServerClient, MemoryTransport, Clock>;

/// An active process.
struct Active {
    host: usize,
    epoch: u64,
    store: Store,
    is_cut_off: Rc<Cell<bool>>,
    /// Own groups: their numbers, and the identifiers in them.
    groups: Vec<(RecordNumber, u64)>,
    /// Of those, acknowledged.
    acknowledged: usize,
    /// The number of identifiers before the first own group.
    first: usize,
}

struct Standby {
    host: usize,
    server: ReplicationServer<MemoryTransport>,
}

/// What happened in a world, so that a test sees that it tests something.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct WorldCounts {
    pub(crate) acknowledged: usize,
    pub(crate) by_standby_alone: usize,
    pub(crate) take_overs: usize,
    pub(crate) from_own_tail: usize,
    pub(crate) from_peer_tail: usize,
    pub(crate) noticed_losses: usize,
    pub(crate) fenced: usize,
    pub(crate) interrupted: usize,
}

pub(crate) struct ReplicationWorld {
    random: ReplicationRandom,
    now: Rc<Cell<Nanos>>,
    network: LossyNetwork,
    server: Rc<RefCell<SharedServer>>,
    active: Option<Active>,
    /// Processes that were active before and may not know that they are not any more.
    former: Vec<Active>,
    /// The epoch of the one whose records are being taken over: its groups may still be found.
    preceding: Option<u64>,
    standby: Option<Standby>,
    /// The identifiers of all groups in their order.
    history: Vec<u64>,
    /// So many of them were acknowledged.
    acknowledged: usize,
    next: u64,
    incarnations: u64,
    alive: HashSet<u64>,
    pub(crate) counts: WorldCounts,
}

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, u8::try_from(host + 1).unwrap()], 7000))
}

impl ReplicationWorld {
    pub(crate) fn new(seed: u64) -> Self {
        let random = ReplicationRandom::new(seed);
        let mut world = Self {
            network: LossyNetwork::new(random.clone()),
            random,
            now: Rc::default(),
            server: Rc::default(),
            active: None,
            former: Vec::new(),
            preceding: None,
            standby: None,
            history: Vec::new(),
            acknowledged: 0,
            next: 0,
            incarnations: 0,
            alive: HashSet::new(),
            counts: WorldCounts::default(),
        };
        world.start_standby(1);
        world.take_over_on(0, false);
        world
    }

    /// One turn of everybody, and perhaps an event.
    pub(crate) fn step(&mut self) {
        self.now.set(self.now.get() + Nanos::from_micros(1 + self.random.below(300)));
        for _ in 0..self.random.below(4) {
            self.append();
        }
        for _ in 0..3 {
            match self.random.below(3) {
                0 => self.poll_active(),
                1 => self.poll_standby(),
                _ => self.poll_former(),
            }
        }
        match self.random.below(1200) {
            0..10 => self.network.cut(),
            10..15 => self.network.set_down(true),
            15..35 => self.network.set_down(false),
            35..40 => self.server.borrow_mut().is_down = true,
            40..70 => self.server.borrow_mut().is_down = false,
            70..73 => self.crash_standby(),
            76..80 => self.crash_active_and_take_over(),
            80..84 => self.crash_active_and_restart(),
            84..87 => self.take_over_from_living(true),
            87..90 => self.take_over_from_living(false),
            _ => {}
        }
        if self.standby.is_none() && self.random.permille(30) {
            let host = 1 - self.active.as_ref().unwrap().host;
            self.start_standby(host);
        }
    }

    /// Ends a world: the active process crashes and the standby takes over.
    pub(crate) fn end(&mut self) {
        self.crash_active_and_take_over();
        self.counts.acknowledged = self.acknowledged;
    }

    fn start_standby(&mut self, host: usize) {
        self.incarnations += 1;
        self.alive.insert(self.incarnations);
        let mut tail = ReplicationTail::new(NAME, Incarnation(self.incarnations), TAIL_OCTETS_MAX);
        // It looked at the lease before it began.
        tail.note_epoch(self.server.borrow().epoch);
        let server =
            ReplicationServer::new(self.network.transport(host), address(host), tail).unwrap();
        self.standby = Some(Standby { host, server });
    }

    fn crash_standby(&mut self) {
        let Some(standby) = self.standby.take() else { return };
        self.alive.remove(&standby.server.tail().incarnation().0);
        self.network.crash(standby.host);
    }

    fn append(&mut self) {
        let Some(active) = &mut self.active else { return };
        if append_to(active, &self.random, self.next) {
            self.history.push(self.next);
            self.next += 1;
        }
    }

    fn poll_active(&mut self) {
        let Some(active) = &mut self.active else { return };
        // Nobody has taken the lease from it.
        active.store.poll(self.now.get()).unwrap();
        let shared = active.store.store().durable();
        let newly = newly_acknowledged(active);
        for (number, _) in &active.groups[active.acknowledged - newly..active.acknowledged] {
            self.counts.by_standby_alone += usize::from(*number > shared);
        }
        self.acknowledged = self.acknowledged.max(active.first + active.acknowledged);
    }

    fn poll_standby(&mut self) {
        if let Some(standby) = &mut self.standby {
            let server = self.server.borrow();
            if !server.is_down && self.random.permille(100) {
                standby.server.tail_mut().note_epoch(server.epoch);
            }
            standby.server.poll(self.now.get());
        }
    }

    /// Processes that lost the lease: what they acknowledge must have been found by whoever has it.
    fn poll_former(&mut self) {
        let (now, mut fenced) = (self.now.get(), 0);
        let (history, random, next) = (&mut self.history, &self.random, &mut self.next);
        let preceding = self.preceding;
        self.former.retain_mut(|former| {
            if append_to(former, random, *next) {
                if preceding == Some(former.epoch) {
                    history.push(*next);
                }
                *next += 1;
            }
            if random.permille(5) {
                former.is_cut_off.set(false);
            }
            let ended = former.store.poll(now).is_err();
            newly_acknowledged(former);
            for (offset, (_, id)) in former.groups[..former.acknowledged].iter().enumerate() {
                let found = history.get(former.first + offset);
                assert_eq!(found, Some(id), "acknowledged after its records were taken over");
            }
            fenced += usize::from(ended);
            !ended
        });
        self.counts.fenced += fenced;
    }

    fn crash_active_and_take_over(&mut self) {
        let Some(standby) = &self.standby else { return };
        let host = standby.host;
        self.crash_active();
        self.take_over_on(host, true);
        self.start_standby(1 - host);
    }

    fn crash_active_and_restart(&mut self) {
        let Some(host) = self.active.as_ref().map(|active| active.host) else { return };
        self.crash_active();
        self.take_over_on(host, false);
    }

    /// The lease expires although the active process lives: the standby takes it, or another process on the same host.
    fn take_over_from_living(&mut self, by_standby: bool) {
        if self.standby.is_none() {
            return;
        }
        let former = self.active.take().unwrap();
        self.preceding = Some(former.epoch);
        former.is_cut_off.set(self.random.permille(900));
        let host = if by_standby { 1 - former.host } else { former.host };
        self.former.push(former);
        self.take_over_on(host, by_standby);
    }

    fn crash_active(&mut self) {
        let active = self.active.take().unwrap();
        self.network.crash(active.host);
    }

    /// Takes the records over on a host, as the standby there or as a new process.
    fn take_over_on(&mut self, host: usize, is_standby: bool) {
        self.counts.take_overs += 1;
        self.server.borrow_mut().is_down = false;
        let lease = ServerClient::take_lease(&self.server, &self.random);
        let mut lease = lease.expect("the server is up");
        // Whoever has lost the lease goes on until it notices.
        for _ in 0..self.random.below(6) {
            self.poll_former();
            self.poll_standby();
        }
        let own = if is_standby { self.standby.take() } else { None };
        let mut own = own;
        if let Some(own) = &mut own {
            own.server.tail_mut().fence(lease.epoch());
        }
        for _ in 0..self.random.below(4) {
            self.poll_former();
            own.as_mut().map(|own| own.server.poll(self.now.get()));
        }
        let marked = marked_standby(&mut lease).unwrap();
        let tail = self.tail_of(host, lease.epoch(), marked, own.as_ref());
        for _ in 0..self.random.below(6) {
            self.poll_former();
            own.as_mut().map(|own| own.server.poll(self.now.get()));
        }
        match tail {
            Ok(groups) if own.is_none() && self.random.permille(300) => {
                return self.interrupt(host, lease, &groups);
            }
            Ok(groups) => write_tail(&mut lease, &groups).unwrap(),
            Err(error) => {
                let lost = marked.expect("only a marked tail is needed");
                assert!(
                    !self.alive.contains(&lost.0),
                    "{error} although incarnation {lost:?} lives"
                );
                self.counts.noticed_losses += 1;
                self.acknowledged = 0;
                self.former.clear();
            }
        }
        if let Some(own) = own {
            self.alive.remove(&own.server.tail().incarnation().0);
            let _ = own.server.into_parts();
            self.network.crash(host);
        }
        self.check_recovered();
        self.preceding = None;
        self.begin_active(host, lease);
    }

    /// The groups that only a tail has.
    fn tail_of(
        &mut self,
        host: usize,
        epoch: u64,
        marked: Option<Incarnation>,
        own: Option<&Standby>,
    ) -> Result<Vec<ReplicatedGroup>, TailError> {
        let position = self.server.borrow().last;
        let incarnation = own.map(|own| own.server.tail().incarnation());
        match (TailSource::of(marked, incarnation), own) {
            (TailSource::Unneeded, _) => Ok(Vec::new()),
            (TailSource::Own, Some(own)) => {
                self.counts.from_own_tail += 1;
                own.server.tail().groups_after(position).map(|groups| groups.cloned().collect())
            }
            (TailSource::Own, None) => unreachable!("it has no tail"),
            (TailSource::Peer(marked), _) => {
                self.counts.from_peer_tail += 1;
                self.read_peer_tail(host, epoch, position, marked)
            }
        }
    }

    /// The process on `host` goes on with what the store has.
    fn begin_active(&mut self, host: usize, lease: ServerClient) {
        let client = ReplicationClient::new(
            self.network.transport(host),
            self.config(host, lease.epoch()),
            lease.durable(),
        );
        let (epoch, is_cut_off) = (lease.epoch(), lease.cut_off());
        let clock = Rc::clone(&self.now);
        let clock: Clock = Box::new(move || clock.get());
        let options = ReplicatedStoreOptions { patience: Nanos::from_secs(1), polls: false };
        let store = ReplicatedStore::new(lease, client, options, clock);
        let first = self.history.len();
        self.active = Some(Active {
            host,
            epoch,
            store,
            is_cut_off,
            groups: Vec::new(),
            acknowledged: 0,
            first,
        });
        self.server.borrow_mut().is_down = self.random.permille(200);
        self.network.set_down(self.random.permille(100));
    }

    /// Whoever has taken the lease crashes after it has written a part of the tail; the next one takes over.
    fn interrupt(&mut self, host: usize, mut lease: ServerClient, groups: &[ReplicatedGroup]) {
        self.counts.interrupted += 1;
        lease.crash_after(self.random.below(8));
        // All of it was written if it was short.
        let _ = write_tail(&mut lease, groups);
        let can_standby = self.standby.as_ref().is_some_and(|standby| standby.host != host);
        match can_standby && self.random.permille(500) {
            true => self.take_over_on(1 - host, true),
            false => self.take_over_on(host, false),
        }
    }

    fn config(&self, host: usize, epoch: u64) -> ReplicationConfig {
        ReplicationConfig {
            peer: address(1 - host),
            name: NAME.to_owned(),
            epoch,
            octets_max: TAIL_OCTETS_MAX,
            silence_max: Nanos::from_millis(20),
            retry_after: Nanos::from_millis(1),
            ping_interval: Nanos::from_millis(5),
        }
    }

    fn read_peer_tail(
        &mut self,
        host: usize,
        epoch: u64,
        position: StorePosition,
        marked: Incarnation,
    ) -> Result<Vec<ReplicatedGroup>, TailError> {
        // The marked standby may have crashed, and its host may have another one by now, or none.
        if self.standby.as_ref().is_none_or(|standby| standby.host == host) {
            return Err(TailError::Ended(marked));
        }
        let transport = self.network.transport(host);
        let mut request = TailRequest::new(transport, self.config(host, epoch), position, marked);
        self.network.set_down(false);
        for _ in 0..100_000 {
            self.now.set(self.now.get() + Nanos::from_micros(50));
            self.poll_standby();
            self.poll_former();
            if self.random.permille(2) {
                self.network.cut();
            }
            if request.poll(self.now.get())? {
                return Ok(request.into_parts().1);
            }
        }
        panic!("no tail: {:?}", request.error());
    }

    /// The store has a prefix of the history, with everything that was acknowledged.
    fn check_recovered(&mut self) {
        let server = self.server.borrow();
        let changes = server.log.iter().flatten().filter(|c| c.kind == RecordKind::Session);
        let value = |value: &Option<Vec<u8>>| {
            u64::from_be_bytes(value.as_ref().unwrap()[..8].try_into().unwrap())
        };
        let mut found: Vec<u64> = Vec::new();
        for id in changes.map(|change| value(&change.value)) {
            // A tail that was written in part is written again, and the last change of each record counts.
            let again = found.iter().position(|known| *known == id);
            found.truncate(again.unwrap_or(found.len()));
            found.push(id);
        }
        assert!(found.len() <= self.history.len(), "groups that nobody made");
        assert_eq!(found, self.history[..found.len()], "another order, or other groups");
        assert!(
            found.len() >= self.acknowledged,
            "{} groups were acknowledged and {} found",
            self.acknowledged,
            found.len()
        );
        self.history.truncate(found.len());
    }
}

/// What a store says of its standby, 7, after a process crashed that had written so many groups of a tail, for each number; the
/// last one wrote all. The tail has groups by which the standby went and came back.
pub(crate) fn marks_after_crashes() -> Vec<Option<Incarnation>> {
    let key = |number| RecordKey::number(RecordKind::Session, number);
    let mark = RecordKey::number(RecordKind::Standby, 0);
    let marked = &7_u64.to_be_bytes()[..];
    let changes = [
        StoreChange::put(key(1), &[1; 8]),
        StoreChange::remove(mark),
        StoreChange::put(key(2), &[2; 8]),
        StoreChange::put(mark, marked),
        StoreChange::put(key(3), &[3; 8]),
    ];
    let groups = (0..).zip(&changes).map(|(previous, change)| {
        let mut changes = Vec::new();
        encode_change(&mut changes, change);
        let (previous, number) = (RecordNumber(previous), RecordNumber(previous + 1));
        ReplicatedGroup { previous, number, changes }
    });
    let groups: Vec<_> = groups.collect();
    let (server, random) = (Rc::default(), ReplicationRandom::new(1));
    let mut lease = ServerClient::take_lease(&server, &random).unwrap();
    lease.append(&[StoreChange::put(mark, marked)]).unwrap();
    lease.commit().unwrap();
    let marks = (0..=4).map(|written| {
        let mut lease = ServerClient::take_lease(&server, &random).unwrap();
        lease.crash_after(written);
        assert_eq!(write_tail(&mut lease, &groups).is_ok(), written == 4);
        marked_standby(&mut lease).unwrap()
    });
    marks.collect()
}

/// Counts groups that have become durable since, and returns how many.
fn newly_acknowledged(active: &mut Active) -> usize {
    let durable = active.store.durable();
    let before = active.acknowledged;
    let new = active.groups[before..].iter().take_while(|(number, _)| *number <= durable).count();
    active.acknowledged += new;
    new
}

/// Appends a group with the identifier `next`; false if there is no room.
fn append_to(active: &mut Active, random: &ReplicationRandom, next: u64) -> bool {
    let key = RecordKey::number(RecordKind::Session, random.below(50));
    let len = usize::try_from(random.below(30) * 10).unwrap() + 8;
    let mut value = next.to_be_bytes().to_vec();
    value.resize(len, 7);
    let Ok(number) = active.store.append(&[StoreChange::put(key, &value)]) else { return false };
    active.groups.push((number, next));
    true
}
