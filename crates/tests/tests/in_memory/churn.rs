//! No packet is lost while other sessions are established, modified and deleted.

use core::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use adit_datapath::{EventQueues, PathThread, Spread};
use adit_pktio::PacketBuf;
use adit_pktio::mem::MemIo;
use adit_rules::{DeltaId, GtpuTunnel, HeaderCreation, RuleDelta, WorkerCommand, WorkerEvent};
use adit_session::{
    Change, CpFSeid, FTeidSpec, FarUpdate, ForwardingUpdate, OwnerId, SessionChange, SessionStore,
};
use adit_tables::Publisher;
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::threads::{FlowChoice, PathThreads, PathThreadsConfig};
use adit_tests::world::{WorldLayout, control, resolve_stations};
use adit_types::{FarId, MacAddr, Nanos, PortId, Roles, Seid, SessionIndex, Teid};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const N3: PortId = PortId(0);
const N6: PortId = PortId(1);
const NOW: Nanos = Nanos::from_secs(1);

/// Sessions with traffic. Adit chose the TEIDs of even ones, the control plane those of the others.
const STEADY: u8 = 24;

/// Offset of the outer TEID in a downlink frame: behind the Ethernet, IPv4 and UDP headers and the
/// first word of the GTP-U header.
const OUTER_TEID: core::ops::Range<usize> = 46..50;

/// The identifiers of a session in packets and on N4.
#[derive(Debug, Clone)]
struct EstablishedSession {
    up_seid: Seid,
    teid: Teid,
    ue: Ipv4Addr,
    /// The TEIDs of the gNB so far.
    gnb: Vec<Teid>,
}

impl EstablishedSession {
    fn uplink(&self) -> Vec<u8> {
        let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
        let inner = outer.gtpu(self.teid.0).psc_ul(9).ipv4(self.ue, "8.8.8.8");
        inner.udp(4000, 53).payload(b"question").build()
    }

    fn downlink(&self) -> Vec<u8> {
        let frame = PacketBuilder::ethernet(UPF[1], PEER).ipv4("8.8.8.8", self.ue);
        frame.udp(53, 4000).payload(b"answer").build()
    }
}

/// The control side.
struct ControlSide {
    store: SessionStore,
    publisher: Publisher,
    /// Published changes that a worker possibly does not run yet, in order.
    owed: std::collections::VecDeque<SessionIndex>,
    changes: u64,
    next_teid: u32,
}

impl ControlSide {
    fn publish(&mut self, delta: RuleDelta) {
        self.changes += 1;
        self.owed.push_back(delta.session);
        self.publisher.apply(DeltaId(self.changes), delta);
        self.observe();
    }

    /// Collects the changes that all workers run.
    fn observe(&mut self) {
        while self.publisher.poll_observed().is_some() {
            self.store.reclaim(self.owed.pop_front().unwrap());
        }
    }

    /// `None` if the store is full until deleted sessions are reclaimed.
    fn establish(&mut self, host: u8, chooses_teid: bool) -> Option<EstablishedSession> {
        let mut change = scenario::plain_session(host, "10.0.3.1");
        self.next_teid += 1;
        let given = Teid(0xa000_0000 + 0x0101 * self.next_teid);
        if !chooses_teid {
            let v4 = Some(Ipv4Addr::new(10, 0, 3, 2));
            let spec = FTeidSpec::Given { teid: given, v4, v6: None };
            change.create_pdrs[0].pdi.f_teid = Some(spec);
        }
        let made = self.store.establish(OwnerId(1), CpFSeid::default(), change).ok()?;
        let teid = made.created.first().map_or(given, |created| created.f_teid.teid);
        let ue = Ipv4Addr::new(10, 45, 0, host);
        let gnb = vec![Teid(0x100 + u32::from(host))];
        self.publish(made.delta);
        Some(EstablishedSession { up_seid: made.up_seid, teid, ue, gnb })
    }

    /// Moves the session's tunnel to another TEID of the gNB.
    fn hand_over(&mut self, known: &mut EstablishedSession) {
        self.next_teid += 1;
        let teid = Teid(self.next_teid << 8);
        let tunnel = GtpuTunnel { teid, addr: IpAddr::V4(Ipv4Addr::new(10, 0, 3, 1)) };
        let forwarding = ForwardingUpdate {
            outer_header_creation: Change::Set(HeaderCreation::Gtpu(tunnel)),
            ..ForwardingUpdate::default()
        };
        let update =
            FarUpdate { id: FarId(2), forwarding: Some(forwarding), ..FarUpdate::default() };
        let change = SessionChange { update_fars: vec![update], ..SessionChange::default() };
        let modified = self.store.modify(known.up_seid, change).unwrap();
        known.gnb.push(teid);
        self.publish(modified.delta.unwrap());
    }

    fn delete(&mut self, known: &EstablishedSession) {
        let delta = self.store.delete(known.up_seid).unwrap();
        self.publish(delta);
    }
}

/// A thread with its ports.
struct ThreadWithPorts {
    thread: Box<dyn PathThread<MemIo> + Send>,
    io: MemIo,
    /// Frames that arrived, and that left.
    arrived: usize,
    left: usize,
    /// The rings of a worker.
    rings: Option<(rtrb::Consumer<WorkerEvent>, rtrb::Producer<WorkerCommand>)>,
}

impl ThreadWithPorts {
    fn arrive(&mut self, known: &EstablishedSession, is_uplink: bool) {
        let (port, frame) = match is_uplink {
            true => (N3, known.uplink()),
            false => (N6, known.downlink()),
        };
        self.io.inject(port, &frame);
        self.arrived += 1;
    }

    /// Runs a step. Returns the outer TEIDs of the frames that left through N3.
    fn step(&mut self) -> Vec<Teid> {
        self.thread.step(NOW, &mut self.io);
        if let Some((events, _)) = &mut self.rings {
            while events.pop().is_ok() {}
        }
        self.left += self.io.take_sent(N6).len();
        let downlink = self.io.take_sent(N3);
        self.left += downlink.len();
        let teid = |frame: &[u8]| u32::from_be_bytes(frame[OUTER_TEID].try_into().unwrap());
        downlink.iter().map(|buf| Teid(teid(buf.data()))).collect()
    }
}

fn fleet(
    roles: Roles,
    handoff_len: usize,
) -> (ControlSide, Vec<ThreadWithPorts>, Vec<EstablishedSession>) {
    let layout = WorldLayout { roles, sessions_max: 64, ..scenario::plain_layout(0) };
    let (store, mut publisher, readers) = control(&layout);
    resolve_stations(&mut publisher);
    let owed = std::collections::VecDeque::new();
    let mut control = ControlSide { store, publisher, owed, changes: 0, next_teid: 0 };
    let steady = (1..=STEADY).map(|host| control.establish(host, host % 2 == 0).unwrap()).collect();
    let config = PathThreadsConfig {
        roles,
        spread: Spread::Owner,
        ring_len: handoff_len,
        ports: vec![N3, N6],
        burst: 32,
        waiting_pkts_max: 64,
        flow_choice: FlowChoice::Owner,
        queues: EventQueues::default(),
    };
    let PathThreads { threads, events, commands, .. } = PathThreads::new(readers, &config);
    let mut rings = events.into_iter().zip(commands);
    let lanes = threads.into_iter().map(|thread| {
        let io = MemIo::new(&UPF);
        ThreadWithPorts { thread, io, arrived: 0, left: 0, rings: rings.next() }
    });
    (control, lanes.collect(), steady)
}

/// Runs steps until no packet is on its way between workers. Each step receives a burst, and
/// receive queues hold a bounded number of packets.
fn settle(control: &ControlSide, lanes: &mut [ThreadWithPorts]) {
    const ROUNDS_MAX: usize = 10_000;
    for _ in 0..ROUNDS_MAX {
        let before = control.publisher.snapshot();
        lanes.iter_mut().for_each(|lane| drop(lane.step()));
        let after = control.publisher.snapshot();
        let is_idle = before.received_pkts == after.received_pkts;
        if is_idle && after.handed_off_pkts == after.taken_over_pkts {
            return;
        }
    }
    panic!("packets are still under way: {:?}", control.publisher.snapshot());
}

fn assert_nothing_lost(control: &ControlSide, lanes: &[ThreadWithPorts]) {
    let arrived: usize = lanes.iter().map(|lane| lane.arrived).sum();
    let left: usize = lanes.iter().map(|lane| lane.left).sum();
    let sum = control.publisher.snapshot();
    assert!(sum.identity_holds() && sum.buffered_pkts == 0, "{sum:?}");
    let drops: Vec<_> = sum.drops().filter(|(_, count)| *count > 0).collect();
    assert_eq!(drops, [], "of {arrived} packets");
    assert_eq!(left, arrived);
    assert!(arrived > 10_000, "{arrived} packets are few");
}

/// Steps of workers, bursts, changes and observations in random order, several seeds.
#[test]
fn packets_of_sessions_that_stay_are_forwarded_whatever_changes_meanwhile() {
    let models = (1..=3).map(Roles::run_to_completion).chain([Roles::pipeline(2, 2)]);
    for (roles, seed) in models.zip(1..) {
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut control, mut lanes, mut steady) = fleet(roles, 1024);
        let mut passing: Vec<EstablishedSession> = Vec::new();
        for turn in 0..6_000_u32 {
            let lane = rng.random_range(0..lanes.len());
            match rng.random_range(0..8) {
                0..3 => {
                    let lane = rng.random_range(roles.receiving());
                    for _ in 0..rng.random_range(1..32) {
                        let known = &steady[rng.random_range(0..steady.len())];
                        lanes[lane].arrive(known, rng.random());
                    }
                }
                3..5 => drop(lanes[lane].step()),
                5 => {
                    let at = rng.random_range(0..steady.len());
                    control.hand_over(&mut steady[at]);
                }
                6 => {
                    let host = 100 + u8::try_from(turn % 100).unwrap();
                    passing.extend(control.establish(host, rng.random()));
                }
                _ if passing.is_empty() => control.observe(),
                _ => {
                    let at = rng.random_range(0..passing.len());
                    control.delete(&passing.swap_remove(at));
                }
            }
            // The receive queues and hand-off rings are bounded.
            if turn % 16 == 0 {
                for _ in 0..16 {
                    lanes.iter_mut().for_each(|lane| drop(lane.step()));
                }
            }
        }
        settle(&control, &mut lanes);
        control.observe();
        assert_eq!(control.publisher.unobserved(), 0);
        assert!(control.changes > 1_000, "{} changes are few", control.changes);
        assert_nothing_lost(&control, &lanes);
    }
}

/// A downlink packet leaves in a tunnel that the session has or had; after every worker runs a
/// change, in the new one.
#[test]
fn downlink_packet_leaves_through_the_tunnel_before_or_after_the_change() {
    let (mut control, mut lanes, mut steady) = fleet(Roles::run_to_completion(2), 1024);
    let mut rng = StdRng::seed_from_u64(4);
    for _ in 0..2_000 {
        let at = rng.random_range(0..steady.len());
        let before = *steady[at].gnb.last().unwrap();
        for lane in &mut lanes {
            lane.arrive(&steady[at], false);
        }
        control.hand_over(&mut steady[at]);
        let after = *steady[at].gnb.last().unwrap();
        let rounds: Vec<Teid> = (0..3)
            .flat_map(|_| lanes.iter_mut().flat_map(ThreadWithPorts::step).collect::<Vec<_>>())
            .collect();
        assert_eq!(rounds.len(), 2, "one packet arrived at each worker");
        assert!(rounds.iter().all(|teid| [before, after].contains(teid)), "{rounds:?}");
        control.observe();
        assert_eq!(control.publisher.unobserved(), 0);
        lanes[0].arrive(&steady[at], false);
        let left: Vec<Teid> = (0..3)
            .flat_map(|_| lanes.iter_mut().flat_map(ThreadWithPorts::step).collect::<Vec<_>>())
            .collect();
        assert_eq!(left, [after]);
    }
}

/// As above with threads: workers forward while the control thread changes sessions.
#[test]
fn threads_forward_every_packet_while_the_control_thread_changes_sessions() {
    forward_while_sessions_change(Roles::run_to_completion(2));
}

#[test]
fn pipeline_forwards_every_packet_while_the_control_thread_changes_sessions() {
    forward_while_sessions_change(Roles::pipeline(2, 1));
}

fn forward_while_sessions_change(roles: Roles) {
    const BURSTS: u32 = 1_000;
    /// A worker that the machine stops must not lose packets that others hand over.
    const HANDOFF: usize = 32_768;
    let (mut control, mut lanes, mut steady) = fleet(roles, HANDOFF);
    let done = AtomicBool::new(false);
    let frames = steady.clone();
    std::thread::scope(|scope| {
        let forwarding: Vec<_> = (5..)
            .zip(lanes.iter_mut().enumerate())
            .map(|(seed, (number, lane))| {
                let (frames, done) = (&frames, &done);
                let bursts = if roles.receiving().contains(&number) { BURSTS } else { 0 };
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed);
                    for _ in 0..bursts {
                        for _ in 0..16 {
                            let known = &frames[rng.random_range(0..frames.len())];
                            lane.arrive(known, rng.random());
                        }
                        lane.step();
                        std::thread::yield_now();
                    }
                    // Until the others are done, they can hand packets over.
                    while !done.load(Ordering::Acquire) {
                        lane.step();
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        let mut rng = StdRng::seed_from_u64(7);
        let mut passing: Vec<EstablishedSession> = Vec::new();
        while control.changes < 3_000 {
            let at = rng.random_range(0..steady.len());
            control.hand_over(&mut steady[at]);
            let host = 100 + u8::try_from(control.changes % 100).unwrap();
            match passing.len() {
                0..8 => passing.extend(control.establish(host, rng.random())),
                _ => control.delete(&passing.swap_remove(0)),
            }
            // Like the node: the number of unobserved changes is bounded.
            while control.publisher.unobserved() > 64 {
                control.observe();
                std::thread::yield_now();
            }
        }
        let sent = |control: &ControlSide| control.publisher.snapshot().received_pkts;
        let all = u64::from(BURSTS) * 16 * 2;
        while sent(&control) < all || control.publisher.unobserved() > 0 {
            control.observe();
            std::thread::yield_now();
        }
        done.store(true, Ordering::Release);
        for thread in forwarding {
            thread.join().unwrap();
        }
    });
    settle(&control, &mut lanes);
    assert_nothing_lost(&control, &lanes);
}
