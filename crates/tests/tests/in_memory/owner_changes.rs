//! Sessions that get other owners while packets pass: none is lost, each is counted once, order is
//! kept.
//!
//! `ADIT_SEED=n` runs one scenario again.

use core::net::Ipv4Addr;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use adit_datapath::{EventQueues, GroupOwners, OwnerChanges, PathThread, Spread, WaitingCapacity};
use adit_pktio::PacketBuf;
use adit_pktio::mem::{MemBuf, MemIo};
use adit_rules::{
    ApplyAction, DeltaId, Excess, GtpuTunnel, HeaderCreation, RuleDelta, WorkerCommand, WorkerEvent,
};
use adit_session::{
    Change, CpFSeid, Enforcement, FarUpdate, ForwardingUpdate, OwnerId, QosPolicy, Rates,
    SessionChange, SessionStore,
};
use adit_tables::Publisher;
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::threads::{FlowChoice, PathThreads, PathThreadsConfig};
use adit_tests::world::{WorldLayout, control, resolve_stations};
use adit_types::{
    BitRate, FarId, InterfaceSet, MacAddr, Nanos, PortId, Roles, Seid, SessionIndex, Teid,
    WorkerId, owner_group,
};
use adit_wire::gtpu::GtpuMessageType;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const N3: PortId = PortId(0);
const N6: PortId = PortId(1);
const SESSIONS: u8 = 40;

/// Packets of a flow that are on their way or wait at most: fewer than there is room for.
const UNDER_WAY_MAX: u32 = 40;

/// Room for packets that wait, of each kind.
const WAITING_PKTS: usize = 8192;

/// Packets of one session and direction that one thread receives: these keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct NumberedFlow {
    session: u8,
    is_uplink: bool,
    receiver: u8,
}

#[derive(Debug, Clone, Copy)]
struct EstablishedSession {
    seid: Seid,
    index: SessionIndex,
    teid: Teid,
    ue: Ipv4Addr,
    /// The tunnel to the gNB.
    tunnel: u32,
    is_buffering: bool,
}

impl EstablishedSession {
    fn frame(&self, key: NumberedFlow, number: u32) -> Vec<u8> {
        let mark = [key.session, u8::from(key.is_uplink), key.receiver];
        let payload = [&[0; 40], &mark[..], &number.to_be_bytes()].concat();
        match key.is_uplink {
            true => {
                let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
                let inner = outer.gtpu(self.teid.0).psc_ul(9).ipv4(self.ue, "8.8.8.8");
                inner.udp(4000, 53).payload(&payload).build()
            }
            false => {
                let frame = PacketBuilder::ethernet(UPF[1], PEER).ipv4("8.8.8.8", self.ue);
                frame.udp(53, 4000).payload(&payload).build()
            }
        }
    }
}

/// The flow of a user's frame that left, and its number.
fn mark_of(frame: &[u8]) -> (NumberedFlow, u32) {
    let [session, is_uplink, receiver, number @ ..] = *frame.last_chunk::<7>().unwrap();
    (NumberedFlow { session, is_uplink: is_uplink == 1, receiver }, u32::from_be_bytes(number))
}

/// Threads over ports in memory, and their control side.
struct Upf {
    store: SessionStore,
    publisher: Publisher,
    threads: Vec<Box<dyn PathThread<MemIo> + Send>>,
    ios: Vec<MemIo>,
    commands: Vec<rtrb::Producer<WorkerCommand>>,
    events: Vec<rtrb::Consumer<WorkerEvent>>,
    owners: OwnerChanges<MemBuf>,
    roles: Roles,
    sessions: Vec<EstablishedSession>,
    unobserved: Vec<SessionIndex>,
    deltas: u64,
    now: Nanos,
    injected: HashMap<NumberedFlow, u32>,
    left: HashMap<NumberedFlow, u32>,
    /// Tunnels that End Markers closed.
    closed: HashSet<u32>,
    changes: usize,
}

impl Upf {
    fn new(roles: Roles, spread: Spread) -> Self {
        let all = Enforcement {
            gbr: Excess::Shaped,
            flow: Excess::Shaped,
            session: Excess::Shaped,
            shared: Excess::Shaped,
        };
        let qos = QosPolicy { uplink: all, downlink: all, ..QosPolicy::default() };
        let layout = WorldLayout { roles, qos, ..scenario::plain_layout(0) };
        let (store, mut publisher, readers) = control(&layout);
        resolve_stations(&mut publisher);
        let config = PathThreadsConfig {
            roles,
            spread,
            ring_len: 1024,
            ports: vec![N3, N6],
            burst: 32,
            waiting_pkts_max: WAITING_PKTS,
            flow_choice: FlowChoice::Owner,
            queues: EventQueues::default(),
        };
        let PathThreads { threads, commands, events, owners, .. } =
            PathThreads::new(readers, &config);
        let mut upf = Self {
            store,
            publisher,
            threads,
            ios: (0..roles.threads()).map(|_| MemIo::new(&UPF)).collect(),
            commands,
            events,
            owners: owners.unwrap(),
            roles,
            sessions: Vec::new(),
            unobserved: Vec::new(),
            deltas: 0,
            now: Nanos::from_secs(1),
            injected: HashMap::new(),
            left: HashMap::new(),
            closed: HashSet::new(),
            changes: 0,
        };
        (1..=SESSIONS).for_each(|host| upf.establish(host));
        upf
    }

    /// A third of the sessions has a rate that its packets exceed.
    fn establish(&mut self, host: u8) {
        let mut change = scenario::plain_session(host, "10.0.3.1");
        if host.is_multiple_of(3) {
            let rate = BitRate::from_kbps(4_000);
            change.create_qers[0].mbr = Some(Rates { uplink: rate, downlink: rate });
        }
        let made = self.store.establish(OwnerId(1), CpFSeid::default(), change).unwrap();
        self.sessions.push(EstablishedSession {
            seid: made.up_seid,
            index: made.index,
            teid: made.created[0].f_teid.teid,
            ue: Ipv4Addr::new(10, 45, 0, host),
            tunnel: 0x100 + u32::from(host),
            is_buffering: false,
        });
        self.apply(made.delta);
    }

    fn apply(&mut self, delta: RuleDelta) {
        assert!(!self.owners.is_changing(), "rules stay while owners change");
        self.deltas += 1;
        self.unobserved.push(delta.session);
        self.publisher.apply(DeltaId(self.deltas), delta);
    }

    fn modify_far(&mut self, session: usize, update: FarUpdate) {
        let change = SessionChange {
            update_fars: vec![FarUpdate { id: FarId(2), ..update }],
            ..SessionChange::default()
        };
        let made = self.store.modify(self.sessions[session].seid, change).unwrap();
        self.apply(made.delta.unwrap());
    }

    /// Lets downlink packets wait, or go on.
    fn toggle_buffering(&mut self, session: usize) {
        let known = &mut self.sessions[session];
        known.is_buffering ^= true;
        let action = if known.is_buffering { ApplyAction::BUFF } else { ApplyAction::FORW };
        self.modify_far(session, FarUpdate { action: Change::Set(action), ..FarUpdate::default() });
    }

    /// Leads downlink packets into another tunnel, behind an End Marker.
    fn switch_tunnel(&mut self, session: usize) {
        let known = &mut self.sessions[session];
        if known.is_buffering {
            return;
        }
        let addr = "10.0.3.1".parse().unwrap();
        let former = GtpuTunnel { teid: Teid(known.tunnel), addr };
        known.tunnel += 0x1000;
        let tunnel = GtpuTunnel { teid: Teid(known.tunnel), addr };
        let command = WorkerCommand::SendEndMarker {
            session: known.index,
            tunnel: former,
            interfaces: InterfaceSet::ALL,
            qfi: None,
            change: DeltaId(self.deltas + 1),
        };
        for ring in &mut self.commands {
            ring.push(command).unwrap();
        }
        let forwarding = ForwardingUpdate {
            outer_header_creation: Change::Set(HeaderCreation::Gtpu(tunnel)),
            ..ForwardingUpdate::default()
        };
        let forwarding = Some(forwarding);
        self.modify_far(session, FarUpdate { forwarding, ..FarUpdate::default() });
    }

    fn inject(&mut self, rng: &mut StdRng) {
        let session = rng.random_range(0..SESSIONS);
        let receiver = rng.random_range(self.roles.receiving());
        let key = NumberedFlow {
            session,
            is_uplink: rng.random_ratio(1, 2),
            receiver: u8::try_from(receiver).unwrap(),
        };
        let left = self.left.get(&key).copied().unwrap_or_default();
        let number = self.injected.entry(key).or_default();
        // All receivers of a session share the room under way.
        if *number - left < UNDER_WAY_MAX / 4 {
            let frame = self.sessions[usize::from(session)].frame(key, *number);
            *number += 1;
            let port = if key.is_uplink { N3 } else { N6 };
            self.ios[receiver].inject(port, &frame);
        }
    }

    /// Runs a step of one thread, and notes the packets that left.
    fn step(&mut self, thread: usize) {
        self.now += Nanos::from_micros(5);
        self.threads[thread].step(self.now, &mut self.ios[thread]);
        for (port, is_uplink) in [(N3, false), (N6, true)] {
            for buf in self.ios[thread].take_sent(port) {
                self.note_left(buf.data(), is_uplink);
            }
        }
        self.events.iter_mut().for_each(|ring| while ring.pop().is_ok() {});
        while self.publisher.poll_observed().is_some() {
            let session = self.unobserved.remove(0);
            self.store.reclaim(session);
        }
    }

    fn note_left(&mut self, frame: &[u8], is_uplink: bool) {
        if !is_uplink {
            let tunnel = u32::from_be_bytes(frame[46..50].try_into().unwrap());
            if frame[43] == GtpuMessageType::END_MARKER.0 {
                assert!(self.closed.insert(tunnel), "a second End Marker in {tunnel:#x}");
                return;
            }
            assert!(!self.closed.contains(&tunnel), "a packet in {tunnel:#x} after its End Marker");
        }
        let (key, number) = mark_of(frame);
        assert_eq!(key.is_uplink, is_uplink);
        let next = self.left.entry(key).or_default();
        assert_eq!(number, *next, "{key:?}: order");
        *next += 1;
    }

    /// Begins a change of owners, or goes on with it.
    fn turn_owners(&mut self, rng: &mut StdRng) {
        if self.owners.is_changing() {
            self.owners.turn(&mut self.publisher, &mut false);
            return;
        }
        let is_settled = self.unobserved.is_empty()
            && self.commands.iter().all(|ring| ring.slots() == ring.buffer().capacity());
        if is_settled {
            let next = random_owners(rng, self.owners.owners(), self.roles.workers());
            let room = WaitingCapacity { buffered_pkts: WAITING_PKTS, shaped_pkts: WAITING_PKTS };
            self.changes += usize::from(self.owners.begin(&next, room, &mut self.publisher));
        }
    }

    /// Checks that everything left, and was counted once.
    fn check_end(&mut self) {
        assert_eq!(self.left, self.injected);
        let sum = self.publisher.snapshot();
        assert!(sum.identity_holds() && sum.dropped_pkts() == 0, "{sum:?}");
        assert_eq!((sum.buffered_pkts, sum.handed_off_pkts), (0, sum.taken_over_pkts), "{sum:?}");
        for (session, known) in (0..).zip(&self.sessions) {
            let of = |is_uplink| -> u64 {
                let flows = self.injected.iter();
                let own =
                    flows.filter(|(of, _)| (of.session, of.is_uplink) == (session, is_uplink));
                own.map(|(_, count)| u64::from(*count)).sum()
            };
            let traffic = self.publisher.session_traffic(known.index);
            assert_eq!((traffic.ul_pkts, traffic.dl_pkts), (of(true), of(false)), "{known:?}");
        }
    }
}

/// Other owners: all groups of one worker move, or some of each.
fn random_owners(rng: &mut StdRng, former: &GroupOwners, workers: usize) -> GroupOwners {
    let all: Vec<WorkerId> = (0..u8::try_from(workers).unwrap()).map(WorkerId).collect();
    let drained = rng.random_ratio(1, 2).then(|| *all.choose(rng).unwrap());
    let mut next = *former;
    for owner in &mut next {
        if drained == Some(*owner) || drained.is_none() && rng.random_ratio(1, 3) {
            *owner = *all.choose(rng).unwrap();
        }
    }
    next
}

fn run(seed: u64, roles: Roles, spread: Spread) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut upf = Upf::new(roles, spread);
    let threads = roles.threads();
    for _ in 0..20_000 {
        match rng.random_range(0..20) {
            0 | 1 if !upf.owners.is_changing() => {
                let session = rng.random_range(0..usize::from(SESSIONS));
                match rng.random_ratio(1, 2) {
                    true => upf.toggle_buffering(session),
                    false => upf.switch_tunnel(session),
                }
            }
            // Without changes of rules for a while, owners may change.
            2 => {
                for _ in 0..4 {
                    (0..threads).for_each(|thread| upf.step(thread));
                }
                upf.turn_owners(&mut rng);
            }
            3..=5 if upf.owners.is_changing() => upf.turn_owners(&mut rng),
            0..=10 => (0..rng.random_range(1..8)).for_each(|_| upf.inject(&mut rng)),
            _ => upf.step(rng.random_range(0..threads)),
        }
    }
    while upf.owners.is_changing() {
        (0..threads).for_each(|thread| upf.step(thread));
        upf.turn_owners(&mut rng);
        if !upf.owners.is_changing() {
            break;
        }
    }
    for session in 0..upf.sessions.len() {
        if upf.sessions[session].is_buffering {
            upf.toggle_buffering(session);
        }
    }
    for _ in 0..2000 {
        (0..threads).for_each(|thread| upf.step(thread));
    }
    upf.check_end();
    assert!(upf.changes > 50 && upf.closed.len() > 50, "{} {}", upf.changes, upf.closed.len());
}

/// Runs a scenario for some seeds, or for that of the environment.
fn run_all(roles: Roles, spread: Spread) {
    match std::env::var("ADIT_SEED") {
        Ok(seed) => run(seed.parse().unwrap(), roles, spread),
        Err(_) => (1..=6).for_each(|seed| run(seed, roles, spread)),
    }
}

#[test]
fn workers_that_receive_give_sessions_away() {
    run_all(Roles::run_to_completion(2), Spread::Owner);
    run_all(Roles::run_to_completion(3), Spread::Owner);
}

#[test]
fn workers_of_a_pipeline_give_sessions_away() {
    run_all(Roles::pipeline(2, 3), Spread::Owner);
}

#[test]
fn workers_that_get_packets_by_hashes_give_sessions_away() {
    run_all(Roles::pipeline(2, 3), Spread::Rss);
}

/// More than a worker takes from its rings in the two steps that it makes before it gives the
/// sessions away.
const IN_RING: u32 = 1000;

#[test]
fn what_the_rings_of_the_former_owner_hold_leaves_before_what_came_later() {
    let mut upf = Upf::new(Roles::run_to_completion(3), Spread::Owner);
    for _ in 0..4 {
        (0..3).for_each(|thread| upf.step(thread));
    }
    let (former, latter, receiver) = (WorkerId(0), WorkerId(1), 2);
    let owner_of = |upf: &Upf, host: &EstablishedSession| {
        upf.owners.owners()[owner_group(host.index) as usize]
    };
    // Hosts of sessions without a rate.
    let host = (0..SESSIONS).filter(|host| (host + 1) % 3 != 0);
    let mut host = host.filter(|host| owner_of(&upf, &upf.sessions[usize::from(*host)]) == former);
    let key = NumberedFlow { session: host.next().unwrap(), is_uplink: true, receiver: 2 };
    let mut number = 0;
    let mut inject = |upf: &mut Upf| {
        let frame = upf.sessions[usize::from(key.session)].frame(key, number);
        number += 1;
        upf.ios[receiver].inject(N3, &frame);
        upf.injected.insert(key, number);
    };
    (0..IN_RING).for_each(|_| inject(&mut upf));
    (0..IN_RING / 32 + 1).for_each(|_| upf.step(receiver));
    let next = upf.owners.owners().map(|owner| if owner == former { latter } else { owner });
    let room = WaitingCapacity { buffered_pkts: WAITING_PKTS, shaped_pkts: WAITING_PKTS };
    assert!(upf.owners.begin(&next, room, &mut upf.publisher));
    while upf.owners.is_changing() {
        inject(&mut upf);
        [receiver, 1, 0].into_iter().for_each(|thread| upf.step(thread));
        upf.owners.turn(&mut upf.publisher, &mut false);
    }
    for _ in 0..100 {
        (0..3).for_each(|thread| upf.step(thread));
    }
    upf.check_end();
    assert_eq!(owner_of(&upf, &upf.sessions[usize::from(key.session)]), latter);
}

#[test]
fn owner_that_is_no_worker_is_not_accepted() {
    let mut upf = Upf::new(Roles::pipeline(1, 2), Spread::Owner);
    let room = WaitingCapacity { buffered_pkts: 1, shaped_pkts: 1 };
    let former = *upf.owners.owners();
    let mut next = former;
    assert!(!upf.owners.begin(&next, room, &mut upf.publisher), "nothing changes");
    next[3] = WorkerId(2);
    assert!(!upf.owners.begin(&next, room, &mut upf.publisher), "the signaling worker");
    next[3] = WorkerId(1 - former[3].0);
    assert!(upf.owners.begin(&next, room, &mut upf.publisher));
    assert!(!upf.owners.begin(&former, room, &mut upf.publisher), "one change at a time");
    assert_eq!(*upf.owners.owners(), former);
}

/// Bounds the packets under way: threads receive as many as were sent, and some more. Otherwise a
/// thread without a core would let more packets park and queue than there is room for.
#[derive(Debug)]
struct LoadBudget {
    received: AtomicU64,
    allowed: AtomicU64,
}

impl LoadBudget {
    /// Packets on their way at most.
    const UNDER_WAY_MAX: u64 = 400;

    const fn new() -> Self {
        Self { received: AtomicU64::new(0), allowed: AtomicU64::new(Self::UNDER_WAY_MAX) }
    }

    /// Allows as many packets as were sent, and some more.
    fn allow(&self, publisher: &Publisher) {
        let sum = publisher.snapshot();
        let sent = sum.transmitted_uplink_pkts + sum.transmitted_downlink_pkts;
        self.allowed.store(sent + Self::UNDER_WAY_MAX, Ordering::Relaxed);
    }

    fn take_one(&self) -> bool {
        let fits =
            |received| (received < self.allowed.load(Ordering::Relaxed)).then_some(received + 1);
        self.received.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// Receives packets of sessions without a rate, which never wait; then, once `done` was called,
/// runs until the returned check is true. Returns the received packets.
fn run_thread<'s>(
    receiver: u8,
    thread: &mut Box<dyn PathThread<MemIo> + Send>,
    io: &mut MemIo,
    sessions: &[EstablishedSession],
    budget: &LoadBudget,
    done: impl FnOnce() -> &'s AtomicBool,
) -> HashMap<NumberedFlow, u32> {
    const BURSTS: u32 = 3000;
    let mut rng = StdRng::seed_from_u64(receiver.into());
    let mut injected: HashMap<NumberedFlow, u32> = HashMap::new();
    for burst in 0..BURSTS {
        for _ in 0..4 {
            let at = rng.random_range(0..sessions.len());
            if at % 3 != 2 {
                while !budget.take_one() {
                    thread.step(Nanos::from_secs(1), io);
                    std::thread::yield_now();
                }
                let is_uplink = rng.random_ratio(1, 2);
                let session = u8::try_from(at).unwrap();
                let key = NumberedFlow { session, is_uplink, receiver };
                let number = injected.entry(key).or_default();
                io.inject(if is_uplink { N3 } else { N6 }, &sessions[at].frame(key, *number));
                *number += 1;
            }
        }
        thread.step(Nanos::from_secs(1), io);
        if burst % 16 == 0 {
            std::thread::yield_now();
        }
    }
    let stop = done();
    while !stop.load(Ordering::Relaxed) {
        thread.step(Nanos::from_secs(1), io);
        std::thread::yield_now();
    }
    injected
}

#[test]
fn running_threads_lose_nothing_while_owners_change() {
    const WORKERS: usize = 3;
    let roles = Roles::run_to_completion(WORKERS);
    let mut upf = Upf::new(roles, Spread::Owner);
    (0..10 * WORKERS).for_each(|step| upf.step(step % WORKERS));
    let Upf { mut threads, mut ios, mut publisher, mut owners, sessions, events, .. } = upf;
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let budget = LoadBudget::new();
    let (sessions, budget, done, stop) = (&sessions, &budget, &done, &stop);
    let flows: Vec<HashMap<NumberedFlow, u32>> = std::thread::scope(|scope| {
        let run = |(receiver, (thread, io))| {
            run_thread(receiver, thread, io, sessions, budget, || {
                done.fetch_add(1, Ordering::Relaxed);
                stop
            })
        };
        let workers: Vec<_> = (0..)
            .zip(threads.iter_mut().zip(&mut ios))
            .map(|job| scope.spawn(move || run(job)))
            .collect();
        let mut rng = StdRng::seed_from_u64(7);
        let mut changes = 0;
        let room = WaitingCapacity { buffered_pkts: 64, shaped_pkts: 64 };
        while done.load(Ordering::Relaxed) < WORKERS as u64 || changes < 20 || owners.is_changing()
        {
            if !owners.is_changing() {
                let next = random_owners(&mut rng, owners.owners(), WORKERS);
                changes += u32::from(owners.begin(&next, room, &mut publisher));
            }
            owners.turn(&mut publisher, &mut false);
            budget.allow(&publisher);
            std::thread::yield_now();
        }
        let under_way = |publisher: &Publisher| {
            let sum = publisher.snapshot();
            (
                sum.handed_off_pkts - sum.taken_over_pkts.min(sum.handed_off_pkts),
                sum.handed_off_pkts,
            )
        };
        // Counters of several workers are read one after the other.
        let mut former = (1, 0);
        while former.0 != 0 || former != under_way(&publisher) {
            former = under_way(&publisher);
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    drop(events);
    let sum = publisher.snapshot();
    assert!(sum.identity_holds() && sum.dropped_pkts() == 0, "{sum:?}");
    for (session, known) in (0..).zip(sessions) {
        let of = |is_uplink| -> u64 {
            let all = flows.iter().flatten();
            let own = all.filter(|(of, _)| (of.session, of.is_uplink) == (session, is_uplink));
            own.map(|(_, count)| u64::from(*count)).sum()
        };
        let traffic = publisher.session_traffic(known.index);
        assert_eq!((traffic.ul_pkts, traffic.dl_pkts), (of(true), of(false)), "{known:?}");
    }
    ios.iter_mut().for_each(assert_sent_in_order);
}

/// The packets that one worker sent for one thread are in order.
fn assert_sent_in_order(io: &mut MemIo) {
    let mut last: HashMap<NumberedFlow, u32> = HashMap::new();
    for buf in [N3, N6].into_iter().flat_map(|port| io.take_sent(port)) {
        let (key, number) = mark_of(buf.data());
        let former = last.insert(key, number);
        assert!(former.is_none_or(|former| former < number), "{key:?}: order");
    }
}
