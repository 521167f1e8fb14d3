//! Event-driven workers on threads, with DPDK's schedulers: packets of sessions that change
//! all the time leave, in order, with End Markers between the tunnels.
//!
//! One test only, since a process can start the EAL only once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use core::net::{IpAddr, Ipv4Addr};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use adit_datapath::{
    EventQueues, EventWorker, PathThread, RxTx, RxTxConfig, STAGES, SharedFlows, Worker,
    WorkerConfig, connect,
};
use adit_dpdk::{
    Eal, EalConfig, EventDevice, EventDeviceConfig, EventDriver, EventPortConfig, EventQueueConfig,
    EventScheduler, HugepageMode, Mbuf, Mempool, MempoolConfig, OpenEventDevice, register_thread,
};
use adit_pktio::ScheduleType::{Atomic, Ordered};
use adit_pktio::{Burst, PacketBuf, PacketIo, PortInfo, ScheduleType};
use adit_rules::{DeltaId, GtpuTunnel, HeaderCreation, WorkerCommand, WorkerEvent};
use adit_session::{
    Change, CpFSeid, FarUpdate, ForwardingUpdate, OwnerId, SessionChange, SessionStore,
};
use adit_tables::{Publisher, TablesReader};
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::world::{WorldLayout, control, resolve_stations};
use adit_types::{
    FarId, InterfaceId, InterfaceSet, MacAddr, Nanos, PortId, Role, Roles, Seid, SessionIndex, Teid,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const N3: PortId = PortId(0);
const N6: PortId = PortId(1);
const GNB: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 3, 1));
const SESSIONS: u8 = 40;
const WORKERS: usize = 2;
/// `event_dsw` is several times as fast.
const SW_PACKETS: usize = 15_000;
const DSW_PACKETS: usize = 40_000;
/// Far below the threshold, so that no packet is refused.
const IN_FLIGHT_MAX: usize = 400;
/// Intervals of the control side, with changes in each, as far as the workers carry them out.
const TURN: Duration = Duration::from_millis(1);
const CHANGES_PER_TURN: usize = 10;
/// End Markers on their way at most: they are events as well.
const MARKERS_MAX: u64 = 200;
const FLOWS: u32 = 64;
const END_MARKER: u8 = 254;

/// The tunnel of a session's UE `host` after `changes` changes.
fn tunnel(host: u8, changes: u32) -> Teid {
    Teid(u32::from(host) << 24 | changes)
}

#[derive(Debug, Clone)]
struct NumberedTraffic {
    /// Frames without the number at their end.
    templates: [Vec<u8>; 2],
    /// The last numbers that arrived, and that left.
    arrived: [u32; 2],
    left: [u32; 2],
    markers: u32,
}

/// Ports that make packets, and check frames that leave.
struct NumberingIo<'a> {
    pool: Mempool,
    sessions: Vec<NumberedTraffic>,
    random: SmallRng,
    /// The directions whose packets arrive here.
    directions: &'static [usize],
    progress: &'a Progress,
}

/// The packets that arrived and left so far.
#[derive(Debug, Default)]
struct Progress {
    wanted: usize,
    arrived: AtomicUsize,
    packets: AtomicUsize,
    markers: AtomicUsize,
}

impl NumberingIo<'_> {
    fn check(&mut self, is_downlink: bool, frame: &[u8]) {
        if is_downlink {
            let teid = u32::from_be_bytes(frame[46..50].try_into().unwrap());
            let known = &mut self.sessions[usize::from(teid.to_be_bytes()[0]) - 1];
            let changes = teid & 0x00ff_ffff;
            assert_eq!(known.markers, changes, "End Markers before a tunnel's packets: {known:?}");
            if frame[43] == END_MARKER {
                known.markers += 1;
                self.progress.markers.fetch_add(1, Ordering::Release);
                return;
            }
        }
        let host = match is_downlink {
            true => frame[frame.len() - 13],
            false => frame[29],
        };
        let number = u32::from_be_bytes(*frame.last_chunk().unwrap());
        let left = &mut self.sessions[usize::from(host) - 1].left[usize::from(is_downlink)];
        assert_eq!(number, *left + 1, "out of order, or lost");
        *left = number;
        self.progress.packets.fetch_add(1, Ordering::Release);
    }
}

impl PacketIo for NumberingIo<'_> {
    type Buf = Mbuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<Mbuf>) -> usize {
        let before = burst.len();
        let direction = usize::from(port == N6);
        let Progress { wanted, arrived, packets, .. } = self.progress;
        while self.directions.contains(&direction) && burst.len() - before < limit.min(16) {
            let Some(mut buf) = self.pool.alloc() else { break };
            // Counted with the check: another RX/TX thread takes from the same number.
            let bound = (*wanted).min(packets.load(Ordering::Relaxed) + IN_FLIGHT_MAX);
            let next = |count| (count < bound).then_some(count + 1);
            if arrived.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_err() {
                break;
            }
            let at = self.random.random_range(0..self.sessions.len());
            let known = &mut self.sessions[at];
            known.arrived[direction] += 1;
            let template = &known.templates[direction];
            let data = buf.append(template.len()).unwrap();
            data.copy_from_slice(template);
            *data.last_chunk_mut().unwrap() = known.arrived[direction].to_be_bytes();
            burst.push(buf);
        }
        burst.len() - before
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<Mbuf>) -> usize {
        burst.drain(..).map(|buf| self.check(port == N3, buf.data())).count()
    }

    fn alloc(&mut self) -> Option<Mbuf> {
        self.pool.alloc()
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        PortInfo { mac: UPF[usize::from(port.0)], mtu_bytes: 1500, rx_ipv4_checksum: false }
    }
}

#[test]
fn packets_leave_in_order_while_sessions_change_all_the_time() {
    let eal = Eal::init(&EalConfig {
        hugepages: HugepageMode::Never,
        memory_mib: 256,
        file_prefix: format!("adit-test-{}", std::process::id()),
        ..EalConfig::default()
    })
    .unwrap();
    let config = MempoolConfig { mbufs: 8191, cache: 64, ..Default::default() };
    let pool = Mempool::create(&eal, &config).unwrap();
    for driver in [EventDriver::Sw, EventDriver::Dsw] {
        for queues in [1, 2, 4] {
            run(&eal, &pool, driver, 1, stages(&[Atomic; STAGES][..queues]));
        }
        let seven = stages(&[Atomic; STAGES]).with_rx(Some(Atomic)).with_timers(WORKERS);
        run(&eal, &pool, driver, 1, seven);
        run(&eal, &pool, driver, 2, stages(&[Atomic]));
    }
    run(&eal, &pool, EventDriver::Sw, 1, stages(&[Atomic, Ordered]));
    let ordered = stages(&[Ordered, Atomic, Ordered, Ordered]).with_rx(Some(Ordered));
    run(&eal, &pool, EventDriver::Sw, 1, ordered);
}

fn stages(schedules: &[ScheduleType]) -> EventQueues {
    EventQueues::new(schedules, [0; STAGES]).unwrap()
}

fn open(eal: &Eal, driver: EventDriver, roles: Roles, queues: &EventQueues) -> OpenEventDevice {
    let port = |queues| EventPortConfig {
        new_event_threshold: 2048,
        dequeue_depth: 32,
        enqueue_depth: 32,
        queues,
    };
    let queue = |(schedule, priority)| EventQueueConfig { schedule, priority };
    let config = EventDeviceConfig {
        driver,
        arguments: "",
        flows: FLOWS,
        events_max: 4096,
        queues: queues.schedules().zip(queues.priorities()).map(queue).collect(),
        ports: queues.links(roles).into_iter().map(port).collect(),
    };
    EventDevice::open(eal, 0, &config).unwrap()
}

fn traffic(host: u8, teid: Teid) -> NumberedTraffic {
    let ue = Ipv4Addr::new(10, 45, 0, host);
    let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
    let up = outer.gtpu(teid.0).psc_ul(9).ipv4(ue, "8.8.8.8").udp(4000, 53);
    let down = PacketBuilder::ethernet(UPF[1], PEER).ipv4("8.8.8.8", ue).udp(53, 4000);
    let templates = [up.payload(&[0; 4]).build(), down.payload(&[0; 4]).build()];
    NumberedTraffic { templates, arrived: [0; 2], left: [0; 2], markers: 0 }
}

/// The control side, and its ends of the workers' rings.
struct ControlSide {
    store: SessionStore,
    publisher: Publisher,
    /// With the changes so far.
    sessions: Vec<(Seid, SessionIndex, u32)>,
    owed: VecDeque<SessionIndex>,
    changes: u64,
    commands: Vec<rtrb::Producer<WorkerCommand>>,
    events: Vec<rtrb::Consumer<WorkerEvent>>,
    random: SmallRng,
}

impl ControlSide {
    fn new(roles: Roles) -> (Self, Vec<TablesReader>, Vec<NumberedTraffic>) {
        let layout = WorldLayout { roles, sessions_max: 64, ..scenario::plain_layout(0) };
        let (store, mut publisher, readers) = control(&layout);
        resolve_stations(&mut publisher);
        let mut side = Self {
            store,
            publisher,
            sessions: Vec::new(),
            owed: VecDeque::new(),
            changes: 0,
            commands: Vec::new(),
            events: Vec::new(),
            random: SmallRng::seed_from_u64(2),
        };
        let traffics = (1..=SESSIONS).map(|host| side.establish(host)).collect();
        (side, readers, traffics)
    }

    fn establish(&mut self, host: u8) -> NumberedTraffic {
        let mut change = scenario::plain_session(host, "10.0.3.1");
        let gnb = GtpuTunnel { teid: tunnel(host, 0), addr: GNB };
        let forwarding = change.create_fars[1].forwarding.as_mut().unwrap();
        forwarding.outer_header_creation = Some(HeaderCreation::Gtpu(gnb));
        let made = self.store.establish(OwnerId(1), CpFSeid::default(), change).unwrap();
        self.changes += 1;
        self.owed.push_back(made.index);
        self.publisher.apply(DeltaId(self.changes), made.delta);
        self.sessions.push((made.up_seid, made.index, 0));
        traffic(host, made.created[0].f_teid.teid)
    }

    /// The worker's ends of the rings of a new worker.
    fn connect(&mut self) -> (rtrb::Producer<WorkerEvent>, rtrb::Consumer<WorkerCommand>) {
        let (event_tx, event_rx) = rtrb::RingBuffer::new(1024);
        let (command_tx, command_rx) = rtrb::RingBuffer::new(64);
        self.commands.push(command_tx);
        self.events.push(event_rx);
        (event_tx, command_rx)
    }

    /// Moves a session's downlink to another tunnel, after an End Marker in the previous one.
    fn hand_over(&mut self) {
        let at = self.random.random_range(0..self.sessions.len());
        let host = u8::try_from(at + 1).unwrap();
        let (seid, session, count) = &mut self.sessions[at];
        let old = GtpuTunnel { teid: tunnel(host, *count), addr: GNB };
        *count += 1;
        self.changes += 1;
        let command = WorkerCommand::SendEndMarker {
            tunnel: old,
            interfaces: InterfaceSet::only(InterfaceId(0)),
            qfi: None,
            session: *session,
            change: DeltaId(self.changes),
        };
        self.commands.iter_mut().for_each(|ring| ring.push(command).unwrap());
        let new = GtpuTunnel { teid: tunnel(host, *count), addr: GNB };
        let forwarding = ForwardingUpdate {
            outer_header_creation: Change::Set(HeaderCreation::Gtpu(new)),
            ..ForwardingUpdate::default()
        };
        let id = FarId(2);
        let update = FarUpdate { id, forwarding: Some(forwarding), ..FarUpdate::default() };
        let change = SessionChange { update_fars: vec![update], ..SessionChange::default() };
        let modified = self.store.modify(*seid, change).unwrap();
        self.owed.push_back(*session);
        self.publisher.apply(DeltaId(self.changes), modified.delta.unwrap());
    }

    fn markers_on_their_way(&self, progress: &Progress) -> u64 {
        let markers = progress.markers.load(Ordering::Acquire) as u64;
        self.changes - u64::from(SESSIONS) - markers
    }

    /// Changes sessions until all packets and End Markers left, or for long. Returns how many
    /// packets left.
    fn run(&mut self, done: &AtomicBool, progress: &Progress) -> usize {
        let end = Instant::now() + Duration::from_secs(90);
        loop {
            let left = progress.packets.load(Ordering::Acquire);
            let is_over = left == progress.wanted && self.markers_on_their_way(progress) == 0;
            if is_over || done.load(Ordering::Acquire) || Instant::now() > end {
                return left;
            }
            self.turn(progress);
            std::thread::sleep(TURN);
        }
    }

    fn turn(&mut self, progress: &Progress) {
        if self.markers_on_their_way(progress) < MARKERS_MAX
            && progress.packets.load(Ordering::Acquire) < progress.wanted
            && self.commands.iter().all(|ring| ring.slots() > 2 * CHANGES_PER_TURN)
        {
            (0..CHANGES_PER_TURN).for_each(|_| self.hand_over());
        }
        while self.publisher.poll_observed().is_some() {
            self.store.reclaim(self.owed.pop_front().unwrap());
        }
        for events in &mut self.events {
            while events.pop().is_ok() {}
        }
    }
}

/// Ends all threads when one panics.
struct EndOnPanic<'a>(&'a AtomicBool);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Runs steps of a thread that is registered with DPDK, until `done`. Returns the End Markers that
/// left.
fn drive<'a, T: PathThread<NumberingIo<'a>>>(
    eal: &Eal,
    done: &AtomicBool,
    mut io: NumberingIo<'a>,
    thread: impl FnOnce() -> T,
) -> u32 {
    let registered = register_thread(eal).unwrap();
    let _end = EndOnPanic(done);
    let mut thread = thread();
    let clock = Instant::now();
    while !done.load(Ordering::Acquire) {
        let now = Nanos(1 + u64::try_from(clock.elapsed().as_nanos()).unwrap());
        if thread.step(now, &mut io).idle {
            std::thread::yield_now();
        }
    }
    thread.drain(&mut io);
    let markers = io.sessions.iter().map(|known| known.markers).sum();
    drop((thread, io));
    drop(registered);
    markers
}

fn schedule(eal: &Eal, done: &AtomicBool, mut scheduler: EventScheduler) {
    let registered = register_thread(eal).unwrap();
    while !done.load(Ordering::Acquire) {
        scheduler.run();
        std::thread::yield_now();
    }
    drop(scheduler);
    drop(registered);
}

fn run(eal: &Eal, pool: &Mempool, driver: EventDriver, rx_tx: usize, queues: EventQueues) {
    let roles = Roles::event_driven(rx_tx, WORKERS);
    let queues = queues.with_tx(rx_tx);
    let (mut control, readers, traffics) = ControlSide::new(roles);
    let OpenEventDevice { device: _device, ports, scheduler } = open(eal, driver, roles, &queues);
    let flows = SharedFlows::new(usize::try_from(FLOWS).unwrap(), &queues, 64);
    let (queues, directions) = (&queues, [[&[0, 1][..], &[]], [&[0], &[1]]][rx_tx - 1]);
    let wanted = if driver == EventDriver::Sw { SW_PACKETS } else { DSW_PACKETS };
    let (done, progress) = (&AtomicBool::new(false), &Progress { wanted, ..Progress::default() });
    std::thread::scope(|scope| {
        let ends = readers.into_iter().zip(connect(roles, 1024)).zip(ports).zip(roles.all());
        for (((reader, handoff), port), role) in ends {
            let flows = flows.clone();
            let io = NumberingIo {
                pool: pool.clone(),
                sessions: traffics.clone(),
                random: SmallRng::seed_from_u64(1),
                directions: &[],
                progress,
            };
            if role == Role::RxTx {
                let number = usize::from(reader.worker().0) - WORKERS;
                let io = NumberingIo { directions: directions[number], ..io };
                let config = RxTxConfig { number, ports: vec![N3, N6], burst: 32 };
                let thread = move || RxTx::new(config, reader, flows, port);
                scope.spawn(move || {
                    let markers = drive(eal, done, io, thread);
                    assert!(markers > 20, "{markers} End Markers are few");
                });
                continue;
            }
            let (events, commands) = control.connect();
            let config = WorkerConfig {
                id: reader.worker(),
                ports: Vec::new(),
                burst: 32,
                buffer_pkts_max: 64,
                shaped_pkts_max: 64,
                recovery_time_stamp: None,
            };
            let thread = move || {
                let worker = Worker::new(config, reader, events, commands);
                let worker = worker.with_handoff(handoff.with_flows(flows.clone()));
                EventWorker::new(worker, port, flows)
            };
            scope.spawn(move || drive(eal, done, io, thread));
        }
        if let Some(scheduler) = scheduler {
            scope.spawn(move || schedule(eal, done, scheduler));
        }
        let left = control.run(done, progress);
        done.store(true, Ordering::Release);
        assert_eq!(left, wanted, "{driver:?}, {queues:?}: packets left");
    });
    let sum = control.publisher.snapshot();
    assert!(sum.identity_holds(), "{driver:?}: {sum:?}");
    let drops: Vec<_> = sum.drops().filter(|(_, count)| *count > 0).collect();
    assert_eq!(drops, [], "{driver:?}");
}
