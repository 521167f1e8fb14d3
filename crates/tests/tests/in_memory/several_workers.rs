//! Several workers: a session has one owner, whatever worker its packets arrive at.

use core::net::Ipv4Addr;
use std::sync::Barrier;

use adit_datapath::{Worker, WorkerConfig, connect};
use adit_pktio::PacketBuf;
use adit_pktio::mem::MemIo;
use adit_rules::{DeltaId, DropReason, GtpuTunnel, WorkerCommand, WorkerEvent};
use adit_session::{CpFSeid, FTeidSpec, OwnerId, SessionStore};
use adit_tables::{Publisher, Snapshot};
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::world::{WorldLayout, control, resolve_stations};
use adit_types::{MacAddr, Nanos, Owners, PortId, Roles, SessionIndex, Teid};
use adit_wire::gtpu::GtpuMessageType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const N3: PortId = PortId(0);
const N6: PortId = PortId(1);
const SESSIONS: u8 = 40;
const NOW: Nanos = Nanos::from_secs(1);

/// The identifiers of a session in packets.
#[derive(Debug, Clone, Copy)]
struct EstablishedSession {
    index: SessionIndex,
    teid: Teid,
    ue: Ipv4Addr,
}

impl EstablishedSession {
    fn uplink(self) -> Vec<u8> {
        self.uplink_to(Ipv4Addr::new(8, 8, 8, 8))
    }

    fn uplink_to(self, host: Ipv4Addr) -> Vec<u8> {
        let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
        let inner = outer.gtpu(self.teid.0).psc_ul(9).ipv4(self.ue, host);
        inner.udp(4000, 53).payload(b"question").build()
    }

    fn downlink(self) -> Vec<u8> {
        let frame = PacketBuilder::ethernet(UPF[1], PEER).ipv4("8.8.8.8", self.ue);
        frame.udp(53, 4000).payload(b"answer").build()
    }

    /// As above, with IP options, which are unusual.
    fn options(self) -> Vec<u8> {
        let mut frame = self.downlink();
        // An IP option of four octets: none.
        frame[14] = 0x46;
        let len = u16::from_be_bytes([frame[16], frame[17]]) + 4;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        frame.splice(34..34, [1, 1, 1, 0]);
        frame[24..26].fill(0);
        let sum = adit_tests::oracle::checksum(&frame[14..38]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }
}

/// Workers over ports in memory. Adit chose the TEIDs of even sessions, the control plane those of
/// odd ones.
struct WorkerGroup {
    _store: SessionStore,
    publisher: Publisher,
    workers: Vec<Worker<MemIo>>,
    ios: Vec<MemIo>,
    commands: Vec<rtrb::Producer<WorkerCommand>>,
    events: Vec<rtrb::Consumer<WorkerEvent>>,
    sessions: Vec<EstablishedSession>,
    owners: Owners,
}

impl WorkerGroup {
    fn new(workers: usize, ring_len: usize) -> Self {
        Self::on_nodes(&vec![None; workers], ring_len)
    }

    /// A worker on each of `nodes`.
    fn on_nodes(nodes: &[Option<u32>], ring_len: usize) -> Self {
        let workers = nodes.len();
        let layout = WorldLayout {
            roles: Roles::run_to_completion(workers),
            sessions_max: 64,
            ..scenario::plain_layout(0)
        };
        let (mut store, mut publisher, readers) = control(&layout);
        let mut sessions = Vec::new();
        for host in 1..=SESSIONS {
            let mut change = scenario::plain_session(host, "10.0.3.1");
            let given = Teid(0xa000_0000 + 0x0101 * u32::from(host));
            if host % 2 == 1 {
                let v4 = Some(Ipv4Addr::new(10, 0, 3, 2));
                let spec = FTeidSpec::Given { teid: given, v4, v6: None };
                change.create_pdrs[0].pdi.f_teid = Some(spec);
            }
            let made = store.establish(OwnerId(1), CpFSeid::default(), change).unwrap();
            let teid = made.created.first().map_or(given, |created| created.f_teid.teid);
            sessions.push(EstablishedSession {
                index: made.index,
                teid,
                ue: Ipv4Addr::new(10, 45, 0, host),
            });
            publisher.apply(DeltaId(host.into()), made.delta);
        }
        resolve_stations(&mut publisher);
        let mut fleet = Self {
            _store: store,
            publisher,
            workers: Vec::new(),
            ios: (0..workers).map(|_| MemIo::new(&UPF)).collect(),
            commands: Vec::new(),
            events: Vec::new(),
            sessions,
            owners: Owners::new(workers),
        };
        for (reader, handoff) in
            readers.into_iter().zip(connect(Roles::run_to_completion(workers), ring_len))
        {
            let (event_tx, event_rx) = rtrb::RingBuffer::new(1024);
            let (command_tx, command_rx) = rtrb::RingBuffer::new(64);
            let config = WorkerConfig {
                id: reader.worker(),
                ports: vec![N3, N6],
                burst: 32,
                buffer_pkts_max: 64,
                shaped_pkts_max: 64,
                recovery_time_stamp: None,
            };
            let handoff = handoff.with_nodes(nodes);
            let worker = Worker::new(config, reader, event_tx, command_rx).with_handoff(handoff);
            fleet.workers.push(worker);
            fleet.commands.push(command_tx);
            fleet.events.push(event_rx);
        }
        fleet
    }

    fn of_worker(&self, worker: u8) -> Vec<EstablishedSession> {
        let is_its = |known: &&EstablishedSession| self.owners.of(known.index).0 == worker;
        self.sessions.iter().filter(is_its).copied().collect()
    }

    fn step(&mut self, worker: usize) {
        self.workers[worker].step(NOW, &mut self.ios[worker]);
    }

    fn counters(&self) -> Vec<Snapshot> {
        let all = self.publisher.worker_counters();
        all.iter().map(|counters| Snapshot::sum([&**counters])).collect()
    }

    fn sent(&mut self, worker: usize) -> usize {
        [N3, N6].map(|port| self.ios[worker].take_sent(port).len()).iter().sum()
    }
}

#[test]
fn packets_of_a_session_leave_from_its_owner_wherever_they_arrive() {
    let mut fleet = WorkerGroup::new(2, 1024);
    for known in fleet.sessions.clone() {
        let own = usize::from(fleet.owners.of(known.index).0);
        let other = 1 - own;
        // Uplink and downlink of one session arrive at different workers, in both combinations.
        for (up, down) in [(own, other), (other, own)] {
            fleet.ios[up].inject(N3, &known.uplink());
            fleet.ios[down].inject(N6, &known.downlink());
            fleet.step(other);
            assert_eq!(fleet.sent(other), 0, "{known:?}");
            fleet.step(own);
            assert_eq!(fleet.sent(own), 2, "{known:?}");
        }
        // Packets off the fast path take the stages, and also go to the owner.
        fleet.ios[other].inject(N6, &known.options());
        fleet.step(other);
        fleet.step(own);
        assert_eq!((fleet.sent(own), fleet.sent(other)), (1, 0), "{known:?}");
        let traffic = fleet.publisher.session_traffic(known.index);
        assert_eq!((traffic.ul_pkts, traffic.dl_pkts), (2, 3));
    }
    for counters in fleet.counters() {
        assert!(counters.identity_holds(), "{counters:?}");
        assert!(counters.handed_off_pkts > 0 && counters.dropped_pkts() == 0, "{counters:?}");
    }
    let sum = fleet.publisher.snapshot();
    assert_eq!(sum.handed_off_pkts, sum.taken_over_pkts);
    let rx: u64 = sum.interfaces.iter().map(|interface| interface.rx_pkts).sum();
    assert_eq!(rx, sum.received_pkts, "an arrival is counted once");
}

#[test]
fn packets_between_ues_leave_from_the_owner_of_the_last_session() {
    let mut fleet = WorkerGroup::new(3, 64);
    let (from, to) = (fleet.of_worker(1)[0], fleet.of_worker(2)[0]);
    for _ in 0..32 {
        fleet.ios[0].inject(N3, &from.uplink_to(to.ue));
    }
    (0..3).for_each(|worker| fleet.step(worker));
    assert_eq!([0, 1, 2].map(|worker| fleet.sent(worker)), [0, 0, 32]);
    let counters = fleet.counters();
    let turned: Vec<u64> = counters.iter().map(|of| of.locally_switched_pkts).collect();
    assert_eq!(turned, [0, 32, 0], "the sender's worker has them turn round");
    assert!(counters.iter().all(Snapshot::identity_holds), "{counters:?}");
    let sum = fleet.publisher.snapshot();
    assert_eq!((sum.received_pkts, sum.transmitted_downlink_pkts), (32, 32));
    assert_eq!((sum.handed_off_pkts, sum.taken_over_pkts), (64, 64));
    let of = |known: EstablishedSession| fleet.publisher.session_traffic(known.index);
    assert_eq!((of(from).ul_pkts, of(to).dl_pkts), (32, 32));
}

#[test]
fn full_ring_drops_by_name_and_the_rest_arrives() {
    const ROOM: usize = 8;
    let mut fleet = WorkerGroup::new(2, ROOM);
    let foreign = fleet.of_worker(1);
    for known in foreign.iter().cycle().take(30) {
        fleet.ios[0].inject(N3, &known.uplink());
        fleet.ios[0].inject(N6, &known.downlink());
    }
    fleet.step(0);
    let counters = &fleet.counters()[0];
    assert!(counters.identity_holds(), "{counters:?}");
    assert_eq!(counters.handed_off_pkts, ROOM as u64);
    assert_eq!(counters.drops[DropReason::HandoffFull.index()], 60 - ROOM as u64);
    fleet.step(1);
    assert_eq!(fleet.sent(1), ROOM);
    fleet.ios[0].inject(N3, &foreign[0].uplink());
    fleet.step(0);
    fleet.step(1);
    assert_eq!(fleet.sent(1), 1, "there is room again");
}

#[test]
fn packets_for_workers_of_other_nodes_are_counted() {
    for (nodes, crossing) in [
        ([Some(0), Some(0), Some(1)], [0, 0, 1]),
        ([Some(1), Some(0), Some(0)], [0, 1, 1]),
        ([Some(0), Some(0), Some(0)], [0, 0, 0]),
        ([Some(0), None, Some(1)], [0, 0, 1]),
        ([None, Some(0), Some(1)], [0, 0, 0]),
    ] {
        let mut fleet = WorkerGroup::on_nodes(&nodes, 8);
        let mut expected = 0;
        for (owner, crosses) in (0..3).zip(crossing) {
            let known = fleet.of_worker(owner)[0];
            // Worker 0 receives all; packets that find the ring full cross nothing.
            let sent = if owner == 2 { 20 } else { 5 };
            (0..sent).for_each(|_| fleet.ios[0].inject(N3, &known.uplink()));
            expected += crosses * sent.min(8);
        }
        fleet.step(0);
        let counters = fleet.counters();
        assert_eq!(counters[0].handed_off_pkts, 13);
        let across: Vec<_> = counters.iter().map(|of| of.handed_across_nodes_pkts).collect();
        assert_eq!(across, [expected, 0, 0], "{nodes:?}");
        assert!(counters.iter().all(Snapshot::identity_holds), "{counters:?}");
    }
}

#[test]
fn packets_on_their_way_to_a_worker_that_ends_are_dropped_by_name() {
    let mut fleet = WorkerGroup::new(2, 64);
    let known = fleet.of_worker(1)[0];
    fleet.ios[0].inject(N3, &known.uplink());
    fleet.step(0);
    for (worker, io) in fleet.workers.iter_mut().zip(&mut fleet.ios) {
        worker.drain(io);
    }
    let sum = fleet.publisher.snapshot();
    assert!(sum.identity_holds(), "{sum:?}");
    assert_eq!(sum.handed_off_pkts, sum.taken_over_pkts);
    assert_eq!(sum.drops[DropReason::HandoffFull.index()], 1);
}

#[test]
fn end_marker_is_sent_by_the_owner_alone() {
    let mut fleet = WorkerGroup::new(3, 64);
    for known in fleet.sessions.clone() {
        let tunnel = GtpuTunnel { teid: Teid(0x77), addr: "10.0.3.1".parse().unwrap() };
        let command = WorkerCommand::SendEndMarker {
            session: known.index,
            tunnel,
            interfaces: adit_types::InterfaceSet::ALL,
            qfi: None,
            change: DeltaId(0),
        };
        for ring in &mut fleet.commands {
            ring.push(command).unwrap();
        }
        for worker in 0..3 {
            fleet.step(worker);
            let sent = fleet.ios[worker].take_sent(N3);
            let is_marker = |frame: &[u8]| frame[43] == GtpuMessageType::END_MARKER.0;
            assert!(sent.iter().all(|buf| is_marker(buf.data())));
            let is_owner = usize::from(fleet.owners.of(known.index).0) == worker;
            assert_eq!(sent.len(), usize::from(is_owner));
        }
    }
}

#[test]
fn running_workers_count_every_packet_of_every_session_once() {
    const WORKERS: usize = 3;
    const BURSTS: usize = 400;
    const PER_BURST: usize = 48;
    let WorkerGroup { mut workers, mut ios, publisher, sessions, events, .. } =
        WorkerGroup::new(WORKERS, BURSTS * PER_BURST);
    let barrier = Barrier::new(WORKERS);
    let injected: Vec<Vec<(u64, u64)>> = std::thread::scope(|scope| {
        let run = |(seed, (worker, io)): (u64, (&mut Worker<MemIo>, &mut MemIo))| {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut injected = vec![(0, 0); sessions.len()];
            for _ in 0..BURSTS {
                for _ in 0..PER_BURST {
                    let at = rng.random_range(0..sessions.len());
                    if rng.random_ratio(1, 2) {
                        io.inject(N3, &sessions[at].uplink());
                        injected[at].0 += 1;
                    } else {
                        io.inject(N6, &sessions[at].downlink());
                        injected[at].1 += 1;
                    }
                }
                worker.step(NOW, io);
            }
            while !worker.step(NOW, io).idle {}
            // Every worker has received everything; only the rings still hold packets.
            barrier.wait();
            while !worker.step(NOW, io).idle {}
            barrier.wait();
            worker.drain(io);
            injected
        };
        let threads: Vec<_> = (0..)
            .zip(workers.iter_mut().zip(&mut ios))
            .map(|job| scope.spawn(move || run(job)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(events);
    for (at, known) in sessions.iter().enumerate() {
        let traffic = publisher.session_traffic(known.index);
        let sum = injected.iter().map(|of| of[at]).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        assert_eq!((traffic.ul_pkts, traffic.dl_pkts), sum, "{known:?}");
    }
    let sum = publisher.snapshot();
    assert!(sum.identity_holds() && sum.dropped_pkts() == 0, "{sum:?}");
    assert_eq!(sum.transmitted_pkts(), (WORKERS * BURSTS * PER_BURST) as u64);
    assert_eq!(sum.handed_off_pkts, sum.taken_over_pkts);
    assert!(sum.handed_off_pkts > sum.received_pkts / 2, "two thirds are others'");
}
