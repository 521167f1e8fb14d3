//! A worker's step allocates nothing and makes no system call, whatever arrives. `cargo xtask tidy`
//! checks that it takes no lock: a free one costs no system call.

use core::net::IpAddr;

use adit_datapath::{EventQueues, STAGES, Spread, TapPort, Worker, WorkerConfig};
use adit_pktio::mem::MemBuf;
use adit_pktio::{Burst, PacketIo, PortInfo, ScheduleType};
use adit_rules::{
    DeltaId, DropReason, Excess, NextHops, TapDropFilter, TapFilter, TapId, TapItem, TapKey,
    TapRequest, WorkerCommand, WorkerEvent,
};
use adit_session::{CpFSeid, Enforcement, FTeidSpec, OwnerId, QosPolicy, Rates, SessionStore};
use adit_tables::Publisher;
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::threads::{FlowChoice, PathThreads, PathThreadsConfig};
use adit_tests::world::{WorldLayout, control, resolve_stations, station_mac};
use adit_types::limits::TAP_RING_LEN;
use adit_types::{BitRate, InterfaceId, MacAddr, Nanos, Owners, PortId, Roles, Teid, WorkerId};
use adit_wire::gtpu::GtpuMessageType;

use crate::counting::allocations;
use crate::syscalls::first_syscall;

/// Ports that allocate no buffer in a step.
struct PoolIo {
    rx: [Vec<MemBuf>; 2],
    tx: Vec<MemBuf>,
    spare: Vec<MemBuf>,
}

impl PoolIo {
    fn new() -> Self {
        Self {
            rx: [Vec::with_capacity(64), Vec::with_capacity(64)],
            tx: Vec::with_capacity(1024),
            spare: (0..64).map(|_| MemBuf::new()).collect(),
        }
    }
}

impl PacketIo for PoolIo {
    type Buf = MemBuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<MemBuf>) -> usize {
        let queue = &mut self.rx[usize::from(port.0)];
        let count = limit.min(queue.len()).min(burst.remaining_capacity());
        burst.extend(queue.drain(..count));
        count
    }

    fn tx_burst(&mut self, _port: PortId, burst: &mut Burst<MemBuf>) -> usize {
        let count = burst.len();
        self.tx.extend(burst.drain(..));
        count
    }

    fn alloc(&mut self) -> Option<MemBuf> {
        self.spare.pop()
    }

    fn port_info(&self, _port: PortId) -> PortInfo {
        PortInfo { mac: MacAddr::default(), mtu_bytes: 1500, rx_ipv4_checksum: false }
    }
}

struct AllocationTest {
    publisher: Publisher,
    worker: Worker<PoolIo>,
    io: PoolIo,
    commands: rtrb::Producer<WorkerCommand>,
    events: rtrb::Consumer<WorkerEvent>,
    records: rtrb::Consumer<TapItem>,
    teid: u32,
    now: Nanos,
}

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);

impl AllocationTest {
    /// A worker with one session, whose gNB is unresolved.
    fn new() -> Self {
        Self::with(QosPolicy::default(), None, None)
    }

    /// As [`Self::new`], with maximum bit rates, which other sessions may share.
    fn with(qos: QosPolicy, mbr: Option<Rates>, correlation: Option<u32>) -> Self {
        let layout = WorldLayout { qos, ..scenario::plain_layout(0) };
        let (mut store, mut publisher, mut readers) = control(&layout);
        let mut change = scenario::plain_session(1, "10.0.3.1");
        change.create_qers[0].mbr = mbr;
        change.create_qers[0].correlation = correlation;
        let made = store.establish(OwnerId(1), CpFSeid::default(), change).unwrap();
        publisher.apply(DeltaId(1), made.delta);
        let (event_tx, events) = rtrb::RingBuffer::new(1024);
        let (commands, command_rx) = rtrb::RingBuffer::new(64);
        let config = WorkerConfig {
            id: WorkerId(0),
            ports: vec![PortId(0), PortId(1)],
            burst: 32,
            buffer_pkts_max: 512,
            shaped_pkts_max: 512,
            recovery_time_stamp: Some(3_900_000_000),
        };
        let (record_tx, records) = rtrb::RingBuffer::new(TAP_RING_LEN);
        let taps = TapPort { records: record_tx, clock: Box::new(|| Nanos(0)) };
        let worker = Worker::new(config, readers.remove(0), event_tx, command_rx).with_taps(taps);
        let io = PoolIo::new();
        let teid = made.created[0].f_teid.teid.0;
        Self { publisher, worker, io, commands, events, records, teid, now: Nanos::from_secs(1) }
    }

    fn resolve(&mut self, interface: u8, station: &str) {
        let addr: IpAddr = station.parse().unwrap();
        let index = self.publisher.ensure_next_hop(InterfaceId(interface), addr).unwrap();
        self.publisher.set_mac(index, MacAddr(station_mac(addr)), false);
    }

    fn resolve_all(&mut self) {
        self.resolve(0, "10.0.3.1");
        for station in ["10.0.6.1", "2001:db8:6::1"] {
            self.resolve(1, station);
        }
    }

    /// Runs steps over 24 copies of each frame. Returns allocations and frames that left.
    fn step(&mut self, frames: [&[u8]; 2]) -> (usize, usize) {
        for (queue, frame) in self.io.rx.iter_mut().zip(frames) {
            queue.clear();
            if !frame.is_empty() {
                queue.extend((0..24).map(|_| MemBuf::from_packet(frame)));
            }
        }
        self.io.tx.clear();
        self.now += Nanos::from_millis(100);
        let Self { worker, io, now, .. } = self;
        let mut syscall = None;
        let count = allocations(|| {
            (_, syscall) = first_syscall(|| worker.step(*now, io));
        });
        assert_eq!(syscall, None, "the number of a system call in a step");
        while self.events.pop().is_ok() {}
        (count, self.io.tx.len())
    }

    /// Starts a tap. Nobody reads its records: the ring is full before long.
    fn tap(&mut self, filter: TapFilter) {
        let request = TapRequest {
            filter,
            has_stages: true,
            has_path: true,
            snap_bytes: 9216,
            pkts_max: u64::MAX,
            until: Nanos(u64::MAX),
        };
        self.commands.push(WorkerCommand::StartTap(TapId(0), request)).unwrap();
    }

    fn uplink(&self) -> PacketBuilder {
        PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2").gtpu(self.teid).psc_ul(9)
    }
}

fn downlink() -> PacketBuilder {
    PacketBuilder::ethernet(UPF[1], PEER)
}

#[test]
fn counting_allocator_counts() {
    assert_eq!(allocations(|| drop(core::hint::black_box(Box::new(7)))), 1);
    assert_eq!(allocations(|| drop(core::hint::black_box(vec![0_u8; 100]))), 1);
    assert_eq!(allocations(|| {}), 0);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn watcher_sees_a_system_call_and_its_absence() {
    let number = |call| i32::try_from(call).unwrap();
    // SAFETY: no arguments, no preconditions.
    let ask = || first_syscall(|| unsafe { libc::syscall(libc::SYS_getppid) }).1;
    let first = ask();
    // No answer if the kernel cannot report system calls.
    assert!(first.is_none() || first == Some(number(libc::SYS_getppid)), "{first:?}");
    assert_eq!(first_syscall(|| core::hint::black_box(1 + 1)), (2, None));
}

#[test]
fn step_over_user_traffic_allocates_nothing() {
    let mut bench = AllocationTest::new();
    bench.resolve_all();
    let cases = [
        (bench.uplink().ipv4("10.45.0.1", "8.8.8.8"), downlink().ipv4("8.8.8.8", "10.45.0.1")),
        (
            bench.uplink().ipv6("2001:db8:45:1::1", "2001:db8:8::8"),
            downlink().ipv6("2001:db8:8::8", "2001:db8:45:1::1"),
        ),
    ];
    for (up, down) in cases {
        let up = up.udp(4000, 53).payload(b"question").build();
        let down = down.udp(53, 4000).payload(b"answer").build();
        for _ in 0..10 {
            assert_eq!(bench.step([&up, &down]), (0, 48));
        }
    }
}

#[test]
fn step_with_taps_allocates_nothing_and_makes_no_system_call() {
    let all = TapFilter { key: TapKey::Any, drop: None, one_of: 1 };
    for (filter, reported) in [
        (all, 40),
        (TapFilter { drop: Some(TapDropFilter::Any), ..all }, 24),
        (TapFilter { key: TapKey::Ue("10.45.0.1".parse().unwrap()), ..all }, 40),
    ] {
        let mut bench = AllocationTest::new();
        bench.resolve_all();
        bench.tap(filter);
        assert_eq!(bench.step([&[], &[]]), (0, 0));
        let up = bench.uplink().ipv4("10.45.0.1", "8.8.8.8").udp(4000, 53).payload(b"question");
        let down = downlink().ipv4("8.8.8.8", "10.45.0.1").udp(53, 4000).payload(b"answer");
        let spoofed = bench.uplink().ipv4("10.45.9.9", "8.8.8.8").udp(4000, 53).build();
        let (up, down) = (up.build(), down.build());
        for at in 0..20 {
            let frames: [&[u8]; 2] = if at % 2 == 0 { [&up, &down] } else { [&spoofed, &[]] };
            assert_eq!(bench.step(frames).0, 0, "{filter:?}");
        }
        let records = bench.records.slots();
        assert!(records > reported, "{filter:?}: {records}");
    }
}

#[test]
fn step_over_packets_between_ues_allocates_nothing() {
    let mut bench = AllocationTest::new();
    bench.resolve_all();
    // The UE's own address is that of a UE as well.
    let up = bench.uplink().ipv4("10.45.0.1", "10.45.0.1").udp(4000, 53).payload(b"question");
    let other = bench.uplink().ipv4("10.45.0.1", "10.45.0.9").udp(4000, 53).payload(b"question");
    for frame in [up.build(), other.build()] {
        for _ in 0..10 {
            assert_eq!(bench.step([&frame, &[]]), (0, 24));
        }
    }
    assert_eq!(bench.publisher.snapshot().locally_switched_pkts, 240);
}

#[test]
fn step_that_divides_and_joins_packets_allocates_nothing() {
    let mut bench = AllocationTest::new();
    bench.resolve_all();
    let big = downlink().ipv4("8.8.8.8", "10.45.0.1").udp(53, 4000).payload(&[0; 1472]).build();
    assert_eq!(bench.step([&[], &big]), (0, 48));
    let whole = bench.uplink().ipv4("10.45.0.1", "8.8.8.8").udp(4000, 53).payload(&[0; 100]);
    let whole = whole.build();
    let part = |offset, is_more, data: &[u8]| {
        let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
        outer.protocol(17).fragment(7, offset, is_more).payload(data).build()
    };
    let (first, rest) = (part(0, true, &whole[34..114]), part(10, false, &whole[114..]));
    assert_eq!(bench.step([&first, &[]]), (0, 0));
    assert_eq!(bench.step([&rest, &[]]), (0, 1));
    // The waiting packets have waited too long.
    bench.now += Nanos::from_secs(2);
    assert_eq!(bench.step([&[], &[]]), (0, 0));
    let counts = bench.publisher.snapshot();
    let timeouts = counts.drops[DropReason::ReassemblyTimeout.index()];
    assert_eq!((counts.reassembly_pkts, timeouts), (0, 1));
}

#[test]
fn step_that_polices_and_shapes_allocates_nothing() {
    let full = DropReason::ShapingQueueFull;
    for (excess, reason, shared_reason) in [
        (Excess::Policed, DropReason::RateExceeded, DropReason::AggregateExceeded),
        (Excess::Shaped, full, full),
    ] {
        let all = Enforcement { gbr: excess, flow: excess, session: excess, shared: excess };
        // An inner packet of 36 octets takes 36 ms.
        let rate = BitRate::from_kbps(8);
        let rates = Rates { uplink: rate, downlink: rate };
        let policy = QosPolicy { uplink: all, downlink: all, ..QosPolicy::default() };
        exceed(AllocationTest::with(policy.clone(), Some(rates), None), excess, reason);
        exceed(AllocationTest::with(policy.clone(), Some(rates), Some(7)), excess, reason);
        let total = QosPolicy { total: rates, ..policy };
        exceed(AllocationTest::with(total, None, None), excess, shared_reason);
    }
}

fn exceed(mut bench: AllocationTest, excess: Excess, reason: DropReason) {
    bench.resolve_all();
    let up = bench.uplink().ipv4("10.45.0.1", "8.8.8.8").udp(4000, 53).payload(b"question");
    let down = downlink().ipv4("8.8.8.8", "10.45.0.1").udp(53, 4000).payload(b"response");
    let (up, down) = (up.build(), down.build());
    let mut all_sent = 0;
    // At most 512 packets wait; the last steps receive none.
    for at in 0..40 {
        let frames: [&[u8]; 2] = if at < 20 { [&up, &down] } else { [&[], &[]] };
        let (allocations, sent) = bench.step(frames);
        assert_eq!(allocations, 0, "{excess:?}");
        all_sent += sent;
    }
    let counts = bench.publisher.snapshot();
    let waiting = usize::try_from(counts.shaped_pkts).unwrap();
    assert_eq!(waiting > 0, excess == Excess::Shaped);
    assert!(counts.drops[reason.index()] > 0 && all_sent > 20, "{excess:?}: {all_sent}");
}

/// The threads of a packet path with two workers. Four sessions, two of each owner; the control
/// plane chose the TEID of one of each two.
struct TwoWorkers {
    roles: Roles,
    threads: PathThreads<PoolIo>,
    ios: Vec<PoolIo>,
    frames: Vec<[Vec<u8>; 2]>,
    control: (SessionStore, Publisher),
}

impl TwoWorkers {
    fn new(roles: Roles, spread: Spread, queues: EventQueues) -> Self {
        let layout = WorldLayout { roles, sessions_max: 128, ..scenario::plain_layout(0) };
        let (mut store, mut publisher, readers) = control(&layout);
        let (owners, mut wanted) =
            (Owners::new(2), [(0, false), (0, true), (1, false), (1, true)].to_vec());
        let mut frames = Vec::new();
        for host in 1..=100 {
            let mut change = scenario::plain_session(host, "10.0.3.1");
            let is_given = host % 2 == 0;
            let given = Teid(0xa000_0000 | u32::from(host));
            if is_given {
                let v4 = Some("10.0.3.2".parse().unwrap());
                change.create_pdrs[0].pdi.f_teid =
                    Some(FTeidSpec::Given { teid: given, v4, v6: None });
            }
            let made = store.establish(OwnerId(1), CpFSeid::default(), change).unwrap();
            publisher.apply(DeltaId(host.into()), made.delta);
            let kind = (owners.of(made.index).0, is_given);
            let Some(at) = wanted.iter().position(|other| *other == kind) else { continue };
            wanted.remove(at);
            let teid = made.created.first().map_or(given, |created| created.f_teid.teid);
            let ue = format!("10.45.0.{host}");
            let tunnel = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
            let up = tunnel.gtpu(teid.0).psc_ul(9).ipv4(ue.as_str(), "8.8.8.8").udp(4000, 53);
            let down = downlink().ipv4("8.8.8.8", ue.as_str()).udp(53, 4000);
            frames.push([up.build(), down.build()]);
        }
        resolve_stations(&mut publisher);
        let config = PathThreadsConfig {
            roles,
            spread,
            ring_len: 64,
            ports: vec![PortId(0), PortId(1)],
            burst: 32,
            waiting_pkts_max: 512,
            flow_choice: FlowChoice::Random(1),
            queues,
        };
        let threads = PathThreads::new(readers, &config);
        let ios = roles.all().map(|_| PoolIo::new()).collect();
        Self { roles, threads, ios, frames, control: (store, publisher) }
    }

    /// Bursts of both directions arrive at the threads `[uplink, downlink]`, and all threads take
    /// two steps. Returns how many allocations that took.
    fn step(&mut self, [up_at, down_at]: [usize; 2]) -> usize {
        for [up, down] in &self.frames {
            self.ios[up_at].rx[0].extend((0..6).map(|_| MemBuf::from_packet(up)));
            self.ios[down_at].rx[1].extend((0..6).map(|_| MemBuf::from_packet(down)));
        }
        self.run(2)
    }

    /// All threads take `rounds` steps. Returns how many allocations that took.
    fn run(&mut self, rounds: usize) -> usize {
        let Self { threads, ios, .. } = self;
        allocations(|| {
            for _ in 0..rounds {
                for (thread, io) in threads.threads.iter_mut().zip(&mut *ios).rev() {
                    thread.step(Nanos::from_secs(1), io);
                }
            }
        })
    }

    /// Frames that each worker sent.
    fn sent(&mut self) -> Vec<usize> {
        let workers = self.ios.iter_mut().take(self.roles.workers());
        workers.map(|io| io.tx.drain(..).count()).collect()
    }
}

#[test]
fn step_that_hands_packets_to_another_worker_allocates_nothing() {
    let mut pair =
        TwoWorkers::new(Roles::run_to_completion(2), Spread::Owner, EventQueues::default());
    assert_eq!(pair.frames.len(), 4, "each owner has sessions of either key kind");
    for _ in 0..10 {
        assert_eq!((pair.step([0, 1]), pair.sent()), (0, vec![24, 24]));
    }
    assert_eq!(pair.control.1.snapshot().handed_off_pkts, 10 * 24);
}

#[test]
fn step_of_a_receiver_allocates_nothing() {
    const RECEIVER: usize = 3;
    for spread in [Spread::Owner, Spread::Rss] {
        let mut pipeline = TwoWorkers::new(Roles::pipeline(1, 2), spread, EventQueues::default());
        for _ in 0..10 {
            let allocated = pipeline.step([RECEIVER; 2]);
            assert_eq!((allocated, pipeline.sent()), (0, vec![24, 24]), "{spread:?}");
        }
    }
}

#[test]
fn step_of_an_event_driven_worker_allocates_nothing() {
    const RX_TX: usize = 2;
    use ScheduleType::{Atomic, Ordered};
    let seven = [Ordered, Atomic, Ordered, Ordered];
    let cases: [(&[_], _, _); 5] = [
        (&[Atomic], None, 0),
        (&[Atomic; 2], None, 0),
        (&[Atomic; 4], None, 0),
        (&[Atomic; 4], Some(Atomic), 2),
        (&seven, Some(Ordered), 2),
    ];
    for (stages, rx, timers) in cases {
        let queues = EventQueues::new(stages, [0; STAGES]).unwrap().with_rx(rx);
        let queues = queues.with_timers(timers);
        let mut path = TwoWorkers::new(Roles::event_driven(1, 2), Spread::Owner, queues.clone());
        for _ in 0..10 {
            assert_eq!(path.step([RX_TX; 2]), 0, "{queues:?}");
        }
        assert_eq!(path.run(200), 0, "{queues:?}");
        assert_eq!(path.ios[RX_TX].tx.len(), 10 * 48, "{queues:?}");
    }
}

#[test]
fn step_over_drops_and_local_traffic_allocates_nothing() {
    let mut bench = AllocationTest::new();
    bench.resolve_all();
    let to_us = || PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
    let expired = bench.uplink().ipv4("10.45.0.1", "8.8.8.8").ttl(1).udp(1, 2).build();
    let big = downlink().ipv4("8.8.8.8", "10.45.0.1").dont_fragment().udp(1, 2).payload(&[0; 1470]);
    let spoofed = bench.uplink().ipv4("10.45.0.99", "8.8.8.8").udp(1, 2).build();
    let unknown = to_us().gtpu(bench.teid ^ 1 << 31).ipv4("10.45.0.1", "8.8.8.8").build();
    let echo = to_us().gtpu_message(GtpuMessageType::ECHO_REQUEST, 0).sequence(1).build();
    let ping = to_us().icmp_echo(1, 1).payload(b"ping").build();
    let no_ue = downlink().ipv4("8.8.8.8", "10.46.0.1").udp(1, 2).build();
    let short = &expired[..50];
    let cases: [([&[u8]; 2], usize); 5] = [
        // Half of the slow path's capacity is for answers to requests.
        ([&expired, &big.build()], 32),
        ([&spoofed, &no_ue], 0),
        // Two rounds are within the burst of Error Indications.
        ([&unknown, &[1, 2, 3]], 24),
        ([&echo, &[]], 24),
        ([&ping, short], 24),
    ];
    for (frames, sent) in cases {
        for _ in 0..2 {
            assert_eq!(bench.step(frames), (0, sent));
        }
    }
}

#[test]
fn step_that_waits_for_a_neighbor_and_solicits_allocates_nothing() {
    let mut bench = AllocationTest::new();
    let down = downlink().ipv4("8.8.8.8", "10.45.0.1").udp(53, 4000).build();
    assert_eq!(bench.step([&[], &down]), (0, 0));
    for addr in ["10.0.3.1", "2001:db8:3::1"] {
        let addr = addr.parse().unwrap();
        let command = WorkerCommand::Solicit { interface: InterfaceId(0), addr, unicast: None };
        bench.commands.push(command).unwrap();
    }
    assert_eq!(bench.step([&[], &[]]), (0, 2), "one request and one solicitation");
    bench.resolve(0, "10.0.3.1");
    assert_eq!(bench.step([&[], &[]]), (0, 16), "what waited leaves");
}
