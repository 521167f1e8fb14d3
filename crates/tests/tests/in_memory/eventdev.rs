//! Event-driven workers: flows move between workers, and sessions notice nothing.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::{HashMap, VecDeque};

use adit_datapath::{
    EventQueues, EventWorker, PathThread, RxTx, RxTxConfig, STAGES, SharedFlows, Worker,
    WorkerConfig, connect,
};
use adit_pktio::ScheduleType::{Atomic, Ordered, Parallel};
use adit_pktio::mem::MemIo;
use adit_pktio::{PacketBuf, ScheduleType};
use adit_rules::{
    ApplyAction, DeltaId, DropReason, GtpuTunnel, HeaderCreation, WorkerCommand, WorkerEvent,
};
use adit_session::{
    Change, CpFSeid, FarUpdate, ForwardingUpdate, OwnerId, SessionChange, SessionStore,
};
use adit_tables::Publisher;
use adit_testkit::mem_events::{MemEventPort, MemScheduler, MemSchedulerConfig};
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::world::{WorldLayout, control, resolve_stations};
use adit_types::{
    FarId, InterfaceId, InterfaceSet, MacAddr, Nanos, PortId, Role, Roles, Seid, SessionIndex, Teid,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const N3: PortId = PortId(0);
const N6: PortId = PortId(1);
const SESSIONS: u8 = 24;
const WORKERS: usize = 3;
const END_MARKER: u8 = 254;
const ALL_ATOMIC: [ScheduleType; STAGES] = [Atomic; STAGES];

/// A session, and the packets that it sent so far.
#[derive(Debug)]
struct KnownSession {
    up_seid: Seid,
    index: SessionIndex,
    teid: Teid,
    ue: Ipv4Addr,
    /// The tunnels to the gNB so far, in order.
    tunnels: Vec<Teid>,
    uplink: u32,
    downlink: u32,
    /// Downlink packets that arrived since they wait.
    buffered: Option<u32>,
}

/// The packets that left for a session.
#[derive(Debug, Default)]
struct LeftPackets {
    uplink: Vec<u32>,
    /// Number and tunnel; no number for an End Marker.
    downlink: Vec<(Option<u32>, Teid)>,
}

/// An event-driven packet path over ports in memory. The scheduler gives flows to workers at
/// random.
struct EventPath {
    store: SessionStore,
    publisher: Publisher,
    threads: Vec<Box<dyn PathThread<MemIo>>>,
    ios: Vec<MemIo>,
    commands: Vec<rtrb::Producer<WorkerCommand>>,
    events: Vec<rtrb::Consumer<WorkerEvent>>,
    scheduler: MemScheduler,
    owed: VecDeque<SessionIndex>,
    sessions: Vec<KnownSession>,
    changes: u64,
    now: Nanos,
    left: HashMap<Ipv4Addr, LeftPackets>,
    /// Frames that left through each Rx/Tx thread.
    sent: Vec<usize>,
}

/// A scheduler that moves flows at random.
fn random_scheduler(
    seed: u64,
    new_threshold: usize,
    roles: Roles,
    queues: &EventQueues,
) -> (MemScheduler, Vec<MemEventPort>) {
    let packet_queues = queues.of_packets().count();
    let has_rx = packet_queues > queues.stage_queues();
    let mut rng = StdRng::seed_from_u64(seed);
    // A port's packets are in one flow of the Rx queue, which would move with each packet.
    let mut of_rx = 0;
    let choose = move |queue, _, ports: &[usize]| {
        let port = ports[rng.random_range(0..ports.len())];
        match has_rx && queue == 0 {
            true if rng.random_ratio(15, 16) => of_rx,
            true => {
                of_rx = port;
                port
            }
            false => port,
        }
    };
    let mut is_moving = StdRng::seed_from_u64(!seed);
    MemScheduler::new(MemSchedulerConfig {
        queues: queues.schedules().collect(),
        links: queues.links(roles),
        flows: 64,
        new_threshold,
        choose: Box::new(choose),
        // A queue with one port only, of frames that leave or of timers, is never kept back.
        keep_back: Box::new(move |queue, _| {
            usize::from(queue) < packet_queues && is_moving.random_ratio(1, 3)
        }),
    })
}

impl EventPath {
    fn new(seed: u64, new_threshold: usize, rx_tx: usize, queues: EventQueues) -> Self {
        let roles = Roles::event_driven(rx_tx, WORKERS);
        let queues = queues.with_tx(rx_tx);
        let layout = WorldLayout { roles, sessions_max: 64, ..scenario::plain_layout(0) };
        let (store, mut publisher, readers) = control(&layout);
        resolve_stations(&mut publisher);
        let (scheduler, ports) = random_scheduler(seed, new_threshold, roles, &queues);
        let flows = SharedFlows::new(64, &queues, 64);
        let mut path = Self {
            store,
            publisher,
            threads: Vec::new(),
            ios: roles.all().map(|_| MemIo::new(&UPF)).collect(),
            commands: Vec::new(),
            events: Vec::new(),
            scheduler,
            owed: VecDeque::new(),
            sessions: Vec::new(),
            changes: 0,
            now: Nanos::from_secs(1),
            left: HashMap::new(),
            sent: vec![0; rx_tx],
        };
        let ends = readers.into_iter().zip(connect(roles, 1024)).zip(ports).zip(roles.all());
        for (((reader, handoff), port), role) in ends {
            if role == Role::RxTx {
                let number = usize::from(reader.worker().0) - WORKERS;
                let config = RxTxConfig { number, ports: vec![N3, N6], burst: 32 };
                path.threads.push(Box::new(RxTx::new(config, reader, flows.clone(), port)));
                continue;
            }
            let (event_tx, event_rx) = rtrb::RingBuffer::new(1024);
            let (command_tx, command_rx) = rtrb::RingBuffer::new(64);
            let config = WorkerConfig {
                id: reader.worker(),
                ports: Vec::new(),
                burst: 32,
                buffer_pkts_max: 4096,
                shaped_pkts_max: 64,
                recovery_time_stamp: None,
            };
            let worker = Worker::new(config, reader, event_tx, command_rx);
            let worker = worker.with_handoff(handoff.with_flows(flows.clone()));
            path.threads.push(Box::new(EventWorker::new(worker, port, flows.clone())));
            path.commands.push(command_tx);
            path.events.push(event_rx);
        }
        for host in 1..=SESSIONS {
            path.establish(host);
        }
        path
    }

    fn establish(&mut self, host: u8) {
        let change = scenario::plain_session(host, "10.0.3.1");
        let made = self.store.establish(OwnerId(1), CpFSeid::default(), change).unwrap();
        self.changes += 1;
        self.owed.push_back(made.index);
        self.publisher.apply(DeltaId(self.changes), made.delta);
        self.sessions.push(KnownSession {
            up_seid: made.up_seid,
            index: made.index,
            teid: made.created[0].f_teid.teid,
            ue: Ipv4Addr::new(10, 45, 0, host),
            tunnels: vec![Teid(0x100 + u32::from(host))],
            uplink: 0,
            downlink: 0,
            buffered: None,
        });
    }

    fn modify(&mut self, at: usize, update: FarUpdate) {
        let change = SessionChange { update_fars: vec![update], ..SessionChange::default() };
        let modified = self.store.modify(self.sessions[at].up_seid, change).unwrap();
        self.owed.push_back(self.sessions[at].index);
        self.publisher.apply(DeltaId(self.changes), modified.delta.unwrap());
    }

    /// Moves the session's downlink to another tunnel, after an End Marker in the previous one.
    fn hand_over(&mut self, at: usize) {
        self.changes += 1;
        let known = &mut self.sessions[at];
        let addr = IpAddr::V4(Ipv4Addr::new(10, 0, 3, 1));
        let old = GtpuTunnel { teid: *known.tunnels.last().unwrap(), addr };
        let teid = Teid(0x1_0000 + u32::try_from(self.changes).unwrap());
        known.tunnels.push(teid);
        let command = WorkerCommand::SendEndMarker {
            tunnel: old,
            interfaces: InterfaceSet::only(InterfaceId(0)),
            qfi: None,
            session: known.index,
            change: DeltaId(self.changes),
        };
        for ring in &mut self.commands {
            ring.push(command).unwrap();
        }
        let tunnel = GtpuTunnel { teid, addr };
        let forwarding = ForwardingUpdate {
            outer_header_creation: Change::Set(HeaderCreation::Gtpu(tunnel)),
            ..ForwardingUpdate::default()
        };
        let id = FarId(2);
        self.modify(at, FarUpdate { id, forwarding: Some(forwarding), ..FarUpdate::default() });
    }

    /// Lets the session's downlink packets wait, or go on.
    fn buffer(&mut self, at: usize, is_buffered: bool) {
        self.changes += 1;
        let known = &self.sessions[at];
        let left = self.left.get(&known.ue).map_or(&[][..], |left| &left.downlink);
        let left = left.iter().filter(|(number, _)| number.is_some()).count();
        let on_their_way = known.downlink - u32::try_from(left).unwrap();
        self.sessions[at].buffered = is_buffered.then_some(on_their_way);
        let action = if is_buffered { ApplyAction::BUFF } else { ApplyAction::FORW };
        self.modify(
            at,
            FarUpdate { id: FarId(2), action: Change::Set(action), ..FarUpdate::default() },
        );
    }

    fn arrive(&mut self, at: usize, is_uplink: bool) {
        let known = &mut self.sessions[at];
        // All packets of a direction arrive at one thread.
        let io = match self.ios.len() - WORKERS {
            2 if !is_uplink => &mut self.ios[WORKERS + 1],
            _ => &mut self.ios[WORKERS],
        };
        if is_uplink {
            known.uplink += 1;
            let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
            let inner = outer.gtpu(known.teid.0).psc_ul(9).ipv4(known.ue, "8.8.8.8");
            let inner = inner.udp(4000, 53).payload(&known.uplink.to_be_bytes());
            io.inject(N3, &inner.build());
        } else {
            if let Some(count) = &mut known.buffered {
                *count += 1;
                if *count > 40 {
                    // No FAR buffers more than this.
                    return;
                }
            }
            known.downlink += 1;
            let frame = PacketBuilder::ethernet(UPF[1], PEER).ipv4("8.8.8.8", known.ue);
            let frame = frame.udp(53, 4000).payload(&known.downlink.to_be_bytes());
            io.inject(N6, &frame.build());
        }
    }

    fn step(&mut self, thread: usize) {
        self.now += Nanos::from_micros(100);
        self.threads[thread].step(self.now, &mut self.ios[thread]);
        for events in &mut self.events {
            while events.pop().is_ok() {}
        }
        while self.publisher.poll_observed().is_some() {
            self.store.reclaim(self.owed.pop_front().unwrap());
        }
        let number = |frame: &[u8]| u32::from_be_bytes(*frame.last_chunk().unwrap());
        let [uplink, downlink] = [N6, N3].map(|port| self.ios[thread].take_sent(port));
        if let Some(sent) = thread.checked_sub(WORKERS).and_then(|at| self.sent.get_mut(at)) {
            *sent += uplink.len() + downlink.len();
        }
        for buf in uplink {
            let frame = buf.data();
            let ue = Ipv4Addr::from(<[u8; 4]>::try_from(&frame[26..30]).unwrap());
            self.left.entry(ue).or_default().uplink.push(number(frame));
        }
        for buf in downlink {
            let frame = buf.data();
            let teid = Teid(u32::from_be_bytes(frame[46..50].try_into().unwrap()));
            let is_marker = frame[43] == END_MARKER;
            let of = self.sessions.iter().find(|known| known.tunnels.contains(&teid)).unwrap();
            let number = (!is_marker).then(|| number(frame));
            self.left.entry(of.ue).or_default().downlink.push((number, teid));
        }
    }

    /// Runs steps until nothing moves any more.
    fn settle(&mut self) {
        let mut rounds = 0;
        while rounds < 100 {
            rounds = if self.scheduler.waiting_pkts() > 0 { 0 } else { rounds + 1 };
            (0..self.threads.len()).for_each(|thread| self.step(thread));
        }
        assert_eq!(self.scheduler.waiting_pkts(), 0);
    }
}

/// Steps of threads, bursts, changes of tunnels and buffering in random order. At the end every
/// packet has left.
fn run(seed: u64, rx_tx: usize, queues: EventQueues) -> EventPath {
    let mut rng = StdRng::seed_from_u64(seed);
    let threads = WORKERS + rx_tx;
    let mut path = EventPath::new(seed, usize::MAX, rx_tx, queues);
    for _ in 0..6_000 {
        let at = rng.random_range(0..path.sessions.len());
        match rng.random_range(0..24) {
            0..4 => {
                for _ in 0..rng.random_range(1..16) {
                    let at = rng.random_range(0..path.sessions.len());
                    path.arrive(at, rng.random());
                }
            }
            4 if path.sessions[at].buffered.is_none() => path.hand_over(at),
            5 => path.buffer(at, path.sessions[at].buffered.is_none()),
            4 => {}
            _ => path.step(rng.random_range(0..threads)),
        }
        // Commands of a worker that does not step fill its ring.
        if path.commands.iter().any(|ring| ring.slots() < 8) {
            (0..threads).for_each(|thread| path.step(thread));
        }
    }
    path.settle();
    for at in 0..path.sessions.len() {
        if path.sessions[at].buffered.is_some() {
            path.buffer(at, false);
        }
    }
    path.settle();
    check_counts(seed, &path);
    path
}

fn stages(schedules: &[ScheduleType]) -> EventQueues {
    EventQueues::new(schedules, [0; STAGES]).unwrap()
}

/// Every packet leaves, in order, in the tunnel of its time, and one End Marker between the last
/// packet of a tunnel and the first one of the next.
#[test]
fn sessions_keep_their_order_while_flows_move_packets_wait_and_tunnels_change() {
    for (seed, queues) in (1..=12).zip([1, 2, 4].into_iter().cycle()) {
        check_order(seed, &run(seed, 1, stages(&ALL_ATOMIC[..queues])));
    }
}

#[test]
fn sessions_keep_their_order_through_an_rx_queue_and_with_timer_queues() {
    for (seed, queues) in (1..=6).zip([1, 2, 4].into_iter().cycle()) {
        let queues = stages(&ALL_ATOMIC[..queues]).with_rx(Some(Atomic)).with_timers(WORKERS);
        check_order(seed, &run(seed, 1, queues));
    }
}

#[test]
fn sessions_keep_their_order_when_ordered_queues_give_a_flow_to_several_workers() {
    let kinds: [&[_]; 2] = [&[Atomic, Ordered], &[Ordered, Atomic, Ordered, Ordered]];
    for (seed, schedules) in (1..=6).zip(kinds.into_iter().cycle()) {
        let queues = stages(schedules);
        let queues = if seed > 2 { queues.with_rx(Some(Ordered)) } else { queues };
        check_order(seed, &run(seed, 1, queues));
    }
}

#[test]
fn sessions_keep_their_order_with_several_rx_tx_threads() {
    for (seed, queues) in (1..=6).zip([1, 2, 4].into_iter().cycle()) {
        let queues = stages(&ALL_ATOMIC[..queues]);
        let queues = if seed > 3 { queues.with_rx(Some(Atomic)) } else { queues };
        let path = run(seed, 2, queues);
        check_order(seed, &path);
        assert!(path.sent.iter().all(|count| *count > 1000), "{:?}", path.sent);
    }
}

#[test]
fn parallel_stages_lose_no_packet() {
    let kinds: [&[_]; 2] = [&[Atomic, Parallel], &[Parallel, Atomic, Parallel, Parallel]];
    let mut are_in_order = true;
    for (seed, schedules) in (1..=4).zip(kinds.into_iter().cycle()) {
        let path = run(seed, 1, stages(schedules).with_rx((seed > 2).then_some(Parallel)));
        for known in &path.sessions {
            let left = &path.left[&known.ue];
            let mut uplink = left.uplink.clone();
            are_in_order &= uplink.is_sorted();
            uplink.sort_unstable();
            assert!(uplink.into_iter().eq(1..=known.uplink), "seed {seed}");
            let mut downlink: Vec<_> =
                left.downlink.iter().filter_map(|(number, _)| *number).collect();
            downlink.sort_unstable();
            assert!(downlink.into_iter().eq(1..=known.downlink), "seed {seed}");
            let markers = left.downlink.iter().filter(|(number, _)| number.is_none()).count();
            assert_eq!(markers, known.tunnels.len() - 1, "seed {seed}");
        }
    }
    assert!(!are_in_order, "as if no queue were parallel");
}

/// Every packet is counted, and none was dropped.
fn check_counts(seed: u64, path: &EventPath) {
    let sum = path.publisher.snapshot();
    assert!(sum.identity_holds() && sum.buffered_pkts == 0, "{sum:?}");
    assert_eq!(sum.handed_off_pkts, sum.taken_over_pkts);
    let drops: Vec<_> = sum.drops().filter(|(_, count)| *count > 0).collect();
    assert_eq!(drops, [], "seed {seed}");
    for counters in path.publisher.worker_counters() {
        assert!(adit_tables::Snapshot::sum([&**counters]).identity_holds());
    }
    for known in &path.sessions {
        let traffic = path.publisher.session_traffic(known.index);
        assert_eq!(
            (traffic.ul_pkts, traffic.dl_pkts),
            (known.uplink.into(), known.downlink.into())
        );
    }
    let counters = path.publisher.worker_counters();
    let bursts = |of: &std::sync::Arc<adit_tables::WorkerCounters>| {
        adit_tables::Snapshot::sum([&**of]).bursts
    };
    let workers: Vec<_> = counters.iter().map(bursts).collect();
    assert!(workers.iter().all(|bursts| *bursts > 100), "{workers:?}");
}

/// The packets of each session left in order, with one End Marker after the last one in each
/// tunnel.
fn check_order(seed: u64, path: &EventPath) {
    let mut markers = 0;
    for known in &path.sessions {
        let left = &path.left[&known.ue];
        assert!(left.uplink.iter().copied().eq(1..=known.uplink), "seed {seed}: {left:?}");
        let numbers = left.downlink.iter().filter_map(|(number, _)| *number);
        assert!(numbers.eq(1..=known.downlink), "seed {seed}: {:?}", left.downlink);
        // Each tunnel but the last ends with one End Marker.
        let mut tunnels = known.tunnels.iter();
        let mut tunnel = *tunnels.next().unwrap();
        for (number, teid) in &left.downlink {
            assert_eq!(*teid, tunnel, "seed {seed}: {known:?} {:?}", left.downlink);
            if number.is_none() {
                markers += 1;
                tunnel = *tunnels.next().unwrap();
            }
        }
        assert_eq!(tunnels.next(), None, "seed {seed}: an End Marker is missing");
    }
    assert!(markers > 100, "{markers} End Markers are few");
}

#[test]
fn full_scheduler_drops_by_name_and_the_rest_arrives() {
    let mut path = EventPath::new(1, 40, 1, EventQueues::default());
    for at in (0..path.sessions.len()).cycle().take(100) {
        path.arrive(at, true);
    }
    for _ in 0..4 {
        path.step(WORKERS);
    }
    path.settle();
    let left: usize = path.left.values().map(|left| left.uplink.len()).sum();
    let sum = path.publisher.snapshot();
    assert!(sum.identity_holds(), "{sum:?}");
    assert_eq!(sum.drops[DropReason::SchedulerFull.index()], 60);
    assert_eq!(left, 40);
}
