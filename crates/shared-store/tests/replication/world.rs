//! Two hosts, a shared store and a network in memory. One process is active, the other one its
//! standby. Everything fails at random; nothing that was acknowledged may be lost unless two
//! failures destroyed all copies, which must be noticed.

mod network;
mod random;
mod server;
mod standby;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use adit_shared_store::replication::{
    ReplicatedStore, ReplicatedStoreOptions, ReplicationClient, ReplicationConfig,
    ReplicationError, write_tail,
};
use adit_store::{
    GroupNumber, Incarnation, QueuedGroup, RecordKey, RecordKind, RecordStore, StoreChange,
    encode_change,
};
use adit_types::Nanos;

pub(crate) use network::{LossyNetwork, MemoryTransport};
pub(crate) use random::ReplicationRandom;
use server::{ServerClient, SharedServer};
use standby::Standby;

const NAME: &str = "upf-1";
const TAIL_OCTETS_MAX: usize = 12_000;
const LACKING_OCTETS_MAX: usize = 10_000;

type Clock = Box<dyn FnMut() -> Nanos>;
type Store = ReplicatedStore<ServerClient, MemoryTransport, Clock>;

/// An active process.
struct Active {
    host: usize,
    epoch: u64,
    store: Store,
    is_cut_off: Rc<Cell<bool>>,
    /// Own groups: their numbers, and the identifiers in them.
    groups: Vec<(GroupNumber, u64)>,
    /// The acknowledged ones among those.
    acknowledged: usize,
    /// The number of identifiers before the first own group.
    first: usize,
}

/// Counts of events in a world, so that a test can check that it covers something.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct WorldCounts {
    pub(crate) acknowledged: usize,
    pub(crate) by_standby_alone: usize,
    pub(crate) take_overs: usize,
    /// Take-overs by the standby that the server named.
    pub(crate) with_tail: usize,
    /// A standby lost the lease while it wrote its tail, and got it again.
    pub(crate) interrupted: usize,
    /// Processes that got no lease because the server named a standby.
    pub(crate) refused: usize,
    pub(crate) noticed_losses: usize,
    /// Active processes that ended in order.
    pub(crate) finished: usize,
    pub(crate) fenced: usize,
    /// Groups that a standby found in the server: from its tail, and read there.
    pub(crate) found_in_tail: usize,
    pub(crate) found_in_server: usize,
    /// Times that a standby found a group before the active process learned of it.
    pub(crate) found_early: usize,
    /// Greetings on connections that had one already.
    pub(crate) greeted_anew: usize,
    /// Connections that ended because a group did not follow the last one.
    pub(crate) gaps: usize,
    /// Connections that ended because the tail was full.
    pub(crate) full: usize,
}

pub(crate) struct ReplicationWorld {
    random: ReplicationRandom,
    now: Rc<Cell<Nanos>>,
    network: LossyNetwork,
    server: Rc<RefCell<SharedServer>>,
    active: Option<Active>,
    /// Processes that were active before and may not have noticed that they lost the lease.
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
    /// Lives of standbys that have ended, and the number of identifiers then.
    ended: HashMap<Incarnation, usize>,
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
            ended: HashMap::new(),
            counts: WorldCounts::default(),
        };
        world.start_standby(1);
        let lease = ServerClient::take_lease(&world.server, &world.random, None).unwrap();
        world.take_over(0, lease, None);
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
            90..94 => self.finish_active_and_pass_on(),
            94..100 => self.set_standby_cut_off(true),
            100..110 => self.set_standby_cut_off(false),
            84..87 => self.take_over_from_living(true),
            87..90 => self.take_over_from_living(false),
            _ => {}
        }
        if self.standby.is_none() && self.random.permille(30) {
            let host = 1 - self.active.as_ref().unwrap().host;
            self.start_standby(host);
        }
    }

    /// Ends a world: the active process crashes, and the standby takes over if there is one.
    pub(crate) fn end(&mut self) {
        self.crash_active_and_take_over();
        self.counts.acknowledged = self.acknowledged;
    }

    fn start_standby(&mut self, host: usize) {
        self.incarnations += 1;
        let incarnation = Incarnation(self.incarnations);
        let shared = self.server.borrow();
        self.standby = Some(Standby::start(host, incarnation, &self.network, &shared));
    }

    fn crash_standby(&mut self) {
        if let Some(standby) = self.standby.take() {
            self.end_standby(&standby);
        }
    }

    fn set_standby_cut_off(&mut self, is_cut_off: bool) {
        if let Some(standby) = &mut self.standby {
            standby.is_cut_off = is_cut_off;
        }
    }

    /// The process of a standby is no standby any more: its memory is lost.
    fn end_standby(&mut self, standby: &Standby) {
        self.ended.insert(standby.incarnation(), self.history.len());
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
        let (had_progress, greeted) =
            (active.store.client().progress().is_some(), active.store.client().connections());
        // Nobody has taken the lease from it.
        active.store.poll(self.now.get()).unwrap();
        let client = active.store.client();
        let is_over = client.progress().is_none();
        self.counts.greeted_anew += usize::from(is_over && client.connections() > greeted);
        let is_refused = |why| matches!(client.error(), ReplicationError::Refused(text) if text.starts_with(why));
        self.counts.gaps += usize::from(is_over && had_progress && is_refused("GAP"));
        self.counts.full += usize::from(is_over && had_progress && is_refused("FULL"));
        self.note_acknowledged();
    }

    fn note_acknowledged(&mut self) {
        let Some(active) = &mut self.active else { return };
        let shared = active.store.store().durable();
        let newly = newly_acknowledged(active);
        for (number, _) in &active.groups[active.acknowledged - newly..active.acknowledged] {
            self.counts.by_standby_alone += usize::from(*number > shared);
        }
        self.acknowledged = self.acknowledged.max(active.first + active.acknowledged);
    }

    fn poll_standby(&mut self) {
        let Some(standby) = &mut self.standby else { return };
        let shared = self.server.borrow();
        if !shared.is_down && !standby.is_cut_off && self.random.permille(100) {
            standby.follow(&shared, &self.random, &mut self.counts);
            let found = standby.found();
            let active = self.active.as_ref().filter(|active| active.epoch == found.epoch);
            let is_early = active.is_some_and(|of| of.store.store().durable() < found.number);
            self.counts.found_early += usize::from(is_early);
        }
        standby.server.poll(self.now.get());
    }

    /// Processes that lost the lease: the new holder must have found all that they acknowledge.
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
        let host = self.active.as_ref().unwrap().host;
        self.crash_active();
        self.succeed(host, true);
        if self.standby.is_none() {
            self.start_standby(1 - self.active.as_ref().unwrap().host);
        }
    }

    fn crash_active_and_restart(&mut self) {
        let host = self.active.as_ref().unwrap().host;
        self.crash_active();
        self.succeed(host, false);
        if self.standby.is_none() {
            self.start_standby(1 - self.active.as_ref().unwrap().host);
        }
    }

    /// The active process ends in order, so that anybody can go on without a tail, even if the
    /// standby also ends.
    fn finish_active_and_pass_on(&mut self) {
        let active = self.active.as_mut().unwrap();
        let host = active.host;
        let is_finished = active.store.finish().is_ok();
        let has_all = active.groups.last().is_none_or(|last| last.0 <= active.store.durable());
        self.note_acknowledged();
        if is_finished {
            self.counts.finished += 1;
            assert!(has_all, "it ended before everything was durable");
            assert_eq!(self.server.borrow().standby, None, "it left the name of a standby");
            self.crash_standby();
        }
        self.crash_active();
        self.succeed(host, self.random.permille(500));
    }

    /// The lease expires although the active process lives: the standby takes it, or another
    /// process on the same host, if it may.
    fn take_over_from_living(&mut self, by_standby: bool) {
        self.server.borrow_mut().is_down = false;
        let named = self.server.borrow().standby;
        if named.is_some_and(|named| self.ended.contains_key(&named)) {
            return self.check_refused();
        }
        let by_standby = (by_standby || named.is_some()) && self.standby.is_some();
        let former = self.active.take().unwrap();
        let host = former.host;
        self.preceding = Some(former.epoch);
        former.is_cut_off.set(self.random.permille(900));
        self.former.push(former);
        self.succeed(host, by_standby);
    }

    fn crash_active(&mut self) {
        let active = self.active.take().unwrap();
        self.network.crash(active.host);
    }

    /// Nobody but the standby that the server names gets the lease.
    fn check_refused(&mut self) {
        self.server.borrow_mut().is_down = false;
        let named = self.server.borrow().standby.unwrap();
        let standby = self.standby.as_ref().map(Standby::incarnation);
        for own in [None, standby.filter(|own| *own != named)] {
            let lease = ServerClient::take_lease(&self.server, &self.random, own);
            assert_eq!(lease.err(), Some(named));
            self.counts.refused += 1;
        }
    }

    /// There is no active process: the standby takes the records over, or a new process on `host`.
    /// A standby that is named does so in any case; if it is lost, the operator accepts that.
    fn succeed(&mut self, host: usize, prefers_standby: bool) {
        self.server.borrow_mut().is_down = false;
        let named = self.server.borrow().standby;
        if let Some(named) = named {
            self.check_refused();
            if let Some(made) = self.ended.get(&named) {
                self.counts.noticed_losses += 1;
                // Its word made nothing durable that came later.
                if self.acknowledged <= *made {
                    self.acknowledged = 0;
                }
                self.former.clear();
                self.server.borrow_mut().standby = None;
            }
        }
        let is_named = self.server.borrow().standby.is_some();
        let own = self.standby.take_if(|_| is_named || prefers_standby);
        let host = own.as_ref().map_or(host, |own| own.host);
        let incarnation = own.as_ref().map(Standby::incarnation);
        let lease = ServerClient::take_lease(&self.server, &self.random, incarnation);
        self.take_over(host, lease.expect("it is the named one, if there is one"), own);
    }

    /// Takes the records over on a host, as the standby there or as a new process.
    fn take_over(&mut self, host: usize, lease: ServerClient, own: Option<Standby>) {
        let (mut lease, mut own) = (lease, own);
        self.counts.take_overs += 1;
        // A process that has lost the lease goes on until it notices.
        self.run_others(&mut own);
        if let Some(own) = &mut own {
            own.server.tail_mut().fence(lease.epoch());
        }
        self.run_others(&mut own);
        if let Some(own) = own.take_if(|own| lease.standby() == Some(own.incarnation())) {
            self.counts.with_tail += 1;
            let Some(written) = self.write_own_tail(lease, &own) else {
                self.end_standby(&own);
                return self.succeed(host, self.random.permille(500));
            };
            lease = written;
            self.end_standby(&own);
        } else {
            write_tail(&mut lease, &[]).unwrap();
        }
        if let Some(own) = own {
            self.end_standby(&own);
        }
        self.check_recovered();
        self.preceding = None;
        self.begin_active(host, lease);
    }

    /// Some turns of processes that lost the lease, and of the standby, which does not follow any
    /// more if it takes over itself.
    fn run_others(&mut self, own: &mut Option<Standby>) {
        for _ in 0..self.random.below(6) {
            self.poll_former();
            self.poll_standby();
            if let Some(own) = own {
                own.server.poll(self.now.get());
            }
        }
    }

    /// The named standby writes its tail, and takes the lease again as often as it loses it. `None`
    /// if it crashes.
    fn write_own_tail(&mut self, lease: ServerClient, own: &Standby) -> Option<ServerClient> {
        let mut lease = lease;
        loop {
            let position = self.server.borrow().last();
            let groups = own.server.tail().groups_after(position);
            let groups: Vec<_> =
                groups.expect("the server has all before the tail").cloned().collect();
            if !self.random.permille(300) {
                write_tail(&mut lease, &groups).unwrap();
                return Some(lease);
            }
            lease.lose_after(self.random.below(8));
            let is_written = write_tail(&mut lease, &groups).is_ok();
            assert_eq!(is_written, self.server.borrow().standby.is_none());
            if is_written {
                return Some(lease);
            }
            if self.random.permille(200) {
                return None;
            }
            self.counts.interrupted += 1;
            self.check_refused();
            let own = Some(own.incarnation());
            lease = ServerClient::take_lease(&self.server, &self.random, own).unwrap();
            self.poll_former();
        }
    }

    /// The process on `host` goes on with the records of the store.
    fn begin_active(&mut self, host: usize, lease: ServerClient) {
        let config = self.config(host, lease.epoch());
        let client = ReplicationClient::new(self.network.transport(host), config);
        let (epoch, is_cut_off) = (lease.epoch(), lease.cut_off());
        let clock = Rc::clone(&self.now);
        // Time passes for a process that waits.
        let clock: Clock = Box::new(move || {
            clock.set(clock.get() + Nanos::from_micros(20));
            clock.get()
        });
        let options = ReplicatedStoreOptions {
            patience: Nanos::from_secs(1),
            lacking_octets_max: LACKING_OCTETS_MAX,
            polls: false,
        };
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

    fn config(&self, host: usize, epoch: u64) -> ReplicationConfig {
        ReplicationConfig {
            peer: address(1 - host),
            name: NAME.to_owned(),
            epoch,
            silence_max: Nanos::from_millis(20),
            retry_after: Nanos::from_millis(1),
            ping_interval: Nanos::from_millis(5),
        }
    }

    /// The store has a prefix of the history, with everything that was acknowledged.
    fn check_recovered(&mut self) {
        let server = self.server.borrow();
        let changes = server.log.iter().flat_map(|(_, group)| group.changes());
        let identifier = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
        let mut found: Vec<u64> = Vec::new();
        for id in changes.map(|change| identifier(change.unwrap().value.unwrap())) {
            // A tail that was written in part is written again. A later change of a record
            // overrides an earlier one.
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

/// Whom a server names after the standby 7, with a tail of three groups, could write so many groups
/// and names, for each number; the last time it wrote all.
pub(crate) fn names_after_interruptions() -> Vec<Option<Incarnation>> {
    let standby = Some(Incarnation(7));
    let groups = (0..3).map(|previous| {
        let key = RecordKey::number(RecordKind::Session, previous);
        let mut changes = Vec::new();
        encode_change(&mut changes, &StoreChange::put(key, &[1; 8]));
        let (previous, number) = (GroupNumber(previous), GroupNumber(previous + 1));
        QueuedGroup { previous, number, changes }
    });
    let groups: Vec<_> = groups.collect();
    let (server, random) =
        (Rc::new(RefCell::new(SharedServer::default())), ReplicationRandom::new(1));
    server.borrow_mut().standby = standby;
    let names = (0..=4).map(|writes| {
        let mut lease = ServerClient::take_lease(&server, &random, standby).unwrap();
        lease.lose_after(writes);
        assert_eq!(write_tail(&mut lease, &groups).is_ok(), writes == 4);
        server.borrow().standby
    });
    names.collect()
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
