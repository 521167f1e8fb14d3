//! The pipeline: receivers hand packets to workers, and packets that are no user's to the signaling
//! worker.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use adit_datapath::{EventQueues, Spread};
use adit_pktio::PacketBuf;
use adit_pktio::mem::MemIo;
use adit_rules::{DeltaId, DropReason, HeaderRemoval, PuntReason};
use adit_session::{CpFSeid, FTeidSpec, OwnerId, SessionStore};
use adit_tables::{Publisher, Snapshot};
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::threads::{FlowChoice, PathThreads, PathThreadsConfig};
use adit_tests::world::{WorldLayout, control, resolve_stations};
use adit_types::{MacAddr, Nanos, Owners, PortId, Roles, SessionIndex, Teid};
use adit_wire::gtpu::GtpuMessageType;
use adit_wire::rss::{Toeplitz, ToeplitzKey};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const N3: PortId = PortId(0);
const N6: PortId = PortId(1);
const SESSIONS: u8 = 40;
const NOW: Nanos = Nanos::from_secs(1);
const ROLES: Roles = Roles::pipeline(1, 3);
/// The threads of [`ROLES`] that own no session.
const SIGNALING: usize = 3;
const RECEIVER: usize = 4;

#[derive(Debug, Clone, Copy)]
struct EstablishedSession {
    index: SessionIndex,
    teid: Teid,
    ue: Ipv4Addr,
}

impl EstablishedSession {
    fn uplink(self, payload: &[u8]) -> Vec<u8> {
        let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
        let inner = outer.gtpu(self.teid.0).psc_ul(9).ipv4(self.ue, "8.8.8.8");
        inner.udp(4000, 53).payload(payload).build()
    }

    fn downlink(self, payload: &[u8]) -> Vec<u8> {
        let frame = PacketBuilder::ethernet(UPF[1], PEER).ipv4("8.8.8.8", self.ue);
        frame.udp(53, 4000).payload(payload).build()
    }

    /// A packet of `host` in the tunnel, from another UPF.
    fn relayed(self, host: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
        let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
        let inner = outer.gtpu(self.teid.0).psc_dl(9, false).ipv4(host, self.ue);
        inner.udp(53, 4000).payload(payload).build()
    }

    fn end_marker(self) -> Vec<u8> {
        let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
        outer.gtpu_message(GtpuMessageType::END_MARKER, self.teid.0).build()
    }
}

/// A GTP-U Echo Request to our address on N3.
fn echo_request() -> Vec<u8> {
    let mut frame = PacketBuilder::ethernet(UPF[0], PEER)
        .ipv4("10.0.3.1", "10.0.3.2")
        .udp(2152, 2152)
        .payload(&[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 7, 0, 0])
        .build();
    // No UDP checksum.
    frame[40..42].fill(0);
    frame
}

/// A pipeline over ports in memory.
struct Pipeline {
    _store: SessionStore,
    publisher: Publisher,
    threads: PathThreads<MemIo>,
    ios: Vec<MemIo>,
    sessions: Vec<EstablishedSession>,
    /// Another UPF sends its downlink packets, into the tunnel.
    intermediate: EstablishedSession,
}

impl Pipeline {
    fn new(spread: Spread, ring_len: usize) -> Self {
        let layout = WorldLayout { roles: ROLES, sessions_max: 64, ..scenario::plain_layout(0) };
        let (mut store, mut publisher, readers) = control(&layout);
        let mut sessions = Vec::new();
        for host in 1..=SESSIONS + 1 {
            let mut change = scenario::plain_session(host, "10.0.3.1");
            if host > SESSIONS {
                let downlink = &mut change.create_pdrs[1];
                downlink.pdi.f_teid =
                    Some(FTeidSpec::Choose { v4: true, v6: false, choose_id: None });
                downlink.outer_header_removal = Some(HeaderRemoval::GtpuUdpIp);
            }
            let made = store.establish(OwnerId(1), CpFSeid::default(), change).unwrap();
            let teid = made.created.last().unwrap().f_teid.teid;
            let ue = Ipv4Addr::new(10, 45, 0, host);
            sessions.push(EstablishedSession { index: made.index, teid, ue });
            publisher.apply(DeltaId(host.into()), made.delta);
        }
        let intermediate = sessions.pop().unwrap();
        resolve_stations(&mut publisher);
        let config = PathThreadsConfig {
            roles: ROLES,
            spread,
            ring_len,
            ports: vec![N3, N6],
            burst: 32,
            waiting_pkts_max: 64,
            flow_choice: FlowChoice::Owner,
            queues: EventQueues::default(),
        };
        let threads = PathThreads::new(readers, &config);
        let ios = ROLES.all().map(|_| MemIo::new(&UPF)).collect();
        Self { _store: store, publisher, threads, ios, sessions, intermediate }
    }

    fn step(&mut self, thread: usize) -> usize {
        self.threads.threads[thread].step(NOW, &mut self.ios[thread]).received
    }

    /// Steps of all threads until none has packets.
    fn settle(&mut self) {
        while (0..ROLES.threads()).rev().map(|thread| self.step(thread)).sum::<usize>() > 0 {}
    }

    fn sent(&mut self, thread: usize) -> Vec<Vec<u8>> {
        let sent = [N3, N6].map(|port| self.ios[thread].take_sent(port));
        sent.into_iter().flatten().map(|buf| buf.data().to_vec()).collect()
    }

    fn counters(&self) -> Vec<Snapshot> {
        let all = self.publisher.worker_counters();
        all.iter().map(|counters| Snapshot::sum([&**counters])).collect()
    }

    /// Packets that the worker at `from` handed to other workers.
    fn handed_on(&self) -> u64 {
        self.counters()[..RECEIVER].iter().map(|of| of.handed_off_pkts).sum()
    }
}

#[test]
fn owners_send_what_the_receiver_received_and_nothing_is_handed_on() {
    let mut pipeline = Pipeline::new(Spread::Owner, 1024);
    let owners = Owners::new(ROLES.workers());
    for known in pipeline.sessions.clone() {
        pipeline.ios[RECEIVER].inject(N3, &known.uplink(b"up"));
        pipeline.ios[RECEIVER].inject(N6, &known.downlink(b"down"));
        pipeline.settle();
        let own = usize::from(owners.of(known.index).0);
        let sent: Vec<_> = (0..ROLES.threads()).map(|of| pipeline.sent(of).len()).collect();
        assert_eq!(sent[own], 2, "{known:?}: {sent:?}");
        let traffic = pipeline.publisher.session_traffic(known.index);
        assert_eq!((traffic.ul_pkts, traffic.dl_pkts), (1, 1));
    }
    assert_eq!(pipeline.handed_on(), 0);
    let sum = pipeline.publisher.snapshot();
    assert!(pipeline.counters().iter().all(Snapshot::identity_holds));
    assert_eq!(sum.handed_off_pkts, sum.taken_over_pkts);
    let rx: u64 = sum.interfaces.iter().map(|interface| interface.rx_pkts).sum();
    assert_eq!(rx, sum.received_pkts, "an arrival is counted once");
    assert_eq!(pipeline.counters()[RECEIVER].received_pkts, sum.received_pkts);
}

#[test]
fn packets_of_users_with_a_priority_tag_do_not_go_to_the_signaling_worker() {
    for spread in [Spread::Owner, Spread::Rss] {
        let mut pipeline = Pipeline::new(spread, 1024);
        for session in pipeline.sessions.clone() {
            for (port, mut frame) in [(N3, session.uplink(&[1])), (N6, session.downlink(&[2]))] {
                // Priority 5, no VLAN. Spec: IEEE 802.1Q §9.6.
                frame.splice(12..12, [0x81, 0, 0xa0, 0]);
                pipeline.ios[RECEIVER].inject(port, &frame);
            }
        }
        pipeline.settle();
        assert_eq!(pipeline.counters()[SIGNALING].taken_over_pkts, 0, "{spread:?}");
        let sent: usize = (0..SIGNALING).map(|worker| pipeline.sent(worker).len()).sum();
        assert_eq!(sent, 2 * usize::from(SESSIONS), "{spread:?}");
    }
}

#[test]
fn hash_of_the_ue_address_chooses_one_worker_for_both_directions_and_owners_send_in_order() {
    let mut pipeline = Pipeline::new(Spread::Rss, 1024);
    for count in 0_u8..8 {
        for known in pipeline.sessions.clone() {
            pipeline.ios[RECEIVER].inject(N3, &known.uplink(&[count]));
            pipeline.ios[RECEIVER].inject(N6, &known.downlink(&[count]));
        }
    }
    pipeline.settle();
    let mut of_ue: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for thread in 0..ROLES.threads() {
        for frame in pipeline.sent(thread) {
            // Downlink: the inner destination behind 36 octets of outer headers, 16 of GTP-U and a
            // container.
            let is_tunneled = frame.len() > 60;
            let ue = if is_tunneled { &frame[14 + 44 + 16..][..4] } else { &frame[26..30] };
            let key = [&[u8::from(is_tunneled)], ue].concat();
            of_ue.entry(key).or_default().push(*frame.last().unwrap());
        }
    }
    assert_eq!(of_ue.len(), 2 * usize::from(SESSIONS));
    assert!(of_ue.values().all(|counts| *counts == [0, 1, 2, 3, 4, 5, 6, 7]), "{of_ue:?}");
    let counters = pipeline.counters();
    assert!(counters.iter().all(Snapshot::identity_holds));
    // Sessions of other owners than their hash chooses are handed on, both directions alike.
    assert!(pipeline.handed_on() > 0 && pipeline.handed_on().is_multiple_of(16));
    assert!(counters[..ROLES.workers()].iter().all(|of| of.taken_over_pkts > 0));
}

/// The worker to which a receiver hands packets that arrive in tunnels from `host`.
fn worker_of(host: Ipv4Addr) -> usize {
    let mut hash = [0];
    Toeplitz::new(ToeplitzKey::SYMMETRIC).hash_all(&[host.octets()], &mut hash);
    hash[0] as usize % ROLES.workers()
}

/// In the order in which the owner of `known` sends: the payload's number of a packet, `None` of an
/// End Marker.
fn sent_downlink(pipeline: &mut Pipeline, known: EstablishedSession) -> Vec<Option<u16>> {
    let owner = usize::from(Owners::new(ROLES.workers()).of(known.index).0);
    let number_of = |frame: &Vec<u8>| {
        let number = frame.last_chunk().map(|number| u16::from_be_bytes(*number));
        number.filter(|_| frame[14 + 20 + 8 + 1] != GtpuMessageType::END_MARKER.0)
    };
    pipeline.sent(owner).iter().map(number_of).collect()
}

#[test]
fn end_marker_leaves_behind_all_packets_of_its_tunnel_that_other_workers_have() {
    // A ring holds more than a step takes from it.
    const PACKETS: u16 = 2400;
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut pipeline = Pipeline::new(Spread::Rss, PACKETS.into());
        let known = pipeline.intermediate;
        let owner = usize::from(Owners::new(ROLES.workers()).of(known.index).0);
        for number in 0..PACKETS {
            let host = loop {
                let host = Ipv4Addr::new(198, 18, rng.random(), rng.random());
                if worker_of(host) != owner {
                    break host;
                }
            };
            let frame = known.relayed(host, &number.to_be_bytes());
            pipeline.ios[RECEIVER].inject(N3, &frame);
        }
        pipeline.ios[RECEIVER].inject(N3, &known.end_marker());
        while pipeline.step(RECEIVER) > 0 {}
        let mut sent = Vec::new();
        for _ in 0..400 {
            let thread = rng.random_range(0..ROLES.processing_thread_count());
            if thread == owner && rng.random_ratio(7, 8) {
                continue;
            }
            pipeline.step(thread);
            sent.extend(sent_downlink(&mut pipeline, known));
        }
        let (packets, marker) = sent.split_at(sent.len() - 1);
        assert_eq!(marker, [None], "seed {seed}: the End Marker is the last one");
        let mut numbers: Vec<u16> = packets.iter().filter_map(|number| *number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, Vec::from_iter(0..PACKETS), "seed {seed}");
        let sum = pipeline.publisher.snapshot();
        assert!(pipeline.counters().iter().all(Snapshot::identity_holds));
        assert_eq!(sum.handed_off_pkts, sum.taken_over_pkts);
        assert_eq!(
            pipeline.handed_on(),
            u64::from(PACKETS) + 1,
            "and the End Marker, which waited"
        );
    }
}

#[test]
fn end_marker_waits_for_a_worker_that_makes_no_steps_but_not_for_ever() {
    let mut pipeline = Pipeline::new(Spread::Rss, 1024);
    let known = pipeline.intermediate;
    let owner = usize::from(Owners::new(ROLES.workers()).of(known.index).0);
    pipeline.ios[RECEIVER].inject(N3, &known.end_marker());
    pipeline.step(RECEIVER);
    let step_at = |pipeline: &mut Pipeline, millis: u64| {
        let now = Nanos(NOW.0 + Nanos::from_millis(millis).0);
        let report = pipeline.threads.threads[owner].step(now, &mut pipeline.ios[owner]);
        (sent_downlink(pipeline, known).len(), report.idle)
    };
    assert_eq!(step_at(&mut pipeline, 0), (0, false));
    assert_eq!(step_at(&mut pipeline, 19), (0, false), "it goes on asking");
    assert_eq!(step_at(&mut pipeline, 20), (1, false));
    assert_eq!(step_at(&mut pipeline, 21), (0, true));
}

#[test]
fn end_markers_that_wait_when_their_worker_ends_are_dropped_by_name() {
    let mut pipeline = Pipeline::new(Spread::Rss, 1024);
    let known = pipeline.intermediate;
    let owner = usize::from(Owners::new(ROLES.workers()).of(known.index).0);
    // More than the owner keeps, in steps of as many as its slow path takes.
    for _ in 0..300 / 30 {
        for _ in 0..30 {
            pipeline.ios[RECEIVER].inject(N3, &known.end_marker());
        }
        while pipeline.step(RECEIVER) > 0 {}
        pipeline.step(owner);
    }
    let full =
        |pipeline: &Pipeline| pipeline.counters()[owner].drops[DropReason::HandoffFull.index()];
    assert_eq!(full(&pipeline), 300 - 256);
    pipeline.threads.threads[owner].drain(&mut pipeline.ios[owner]);
    assert_eq!(full(&pipeline), 300);
    let sum = pipeline.publisher.snapshot();
    assert!(pipeline.counters().iter().all(Snapshot::identity_holds));
    assert_eq!(sum.handed_off_pkts, sum.taken_over_pkts);
}

#[test]
fn signaling_has_its_own_worker_and_a_flood_of_it_loses_no_user_packet() {
    const ROOM: usize = 64;
    let mut pipeline = Pipeline::new(Spread::Owner, ROOM);
    let known = pipeline.sessions[0];
    for _ in 0..10 * ROOM {
        pipeline.ios[RECEIVER].inject(N3, &echo_request());
    }
    pipeline.ios[RECEIVER].inject(N3, &known.uplink(b"user"));
    while pipeline.step(RECEIVER) > 0 {}
    (0..ROLES.workers()).for_each(|worker| {
        pipeline.step(worker);
    });
    let sent: usize = (0..ROLES.workers()).map(|worker| pipeline.sent(worker).len()).sum();
    assert_eq!(sent, 1, "the user's packet did not wait for the signaling worker");
    let lost = pipeline.counters()[RECEIVER].drops[DropReason::SignalingFull.index()];
    assert_eq!(lost, 9 * ROOM as u64);
    while pipeline.step(SIGNALING) > 0 {}
    let counters = pipeline.counters();
    assert!(counters.iter().all(Snapshot::identity_holds));
    assert_eq!(counters[SIGNALING].taken_over_pkts, ROOM as u64);
    assert!(counters[SIGNALING].punts[PuntReason::GtpuEchoRequest.index()] > 0);
    assert!(!pipeline.sent(SIGNALING).is_empty(), "Echo Responses");
}

#[test]
fn full_ring_of_a_worker_drops_by_name_and_receiving_goes_on() {
    const ROOM: usize = 8;
    let mut pipeline = Pipeline::new(Spread::Owner, ROOM);
    let known = pipeline.sessions[0];
    for _ in 0..100 {
        pipeline.ios[RECEIVER].inject(N3, &known.uplink(b"x"));
    }
    while pipeline.step(RECEIVER) > 0 {}
    let counters = &pipeline.counters()[RECEIVER];
    assert!(counters.identity_holds());
    assert_eq!(counters.handed_off_pkts, ROOM as u64);
    assert_eq!(counters.drops[DropReason::HandoffFull.index()], 100 - ROOM as u64);
    let owner = usize::from(Owners::new(ROLES.workers()).of(known.index).0);
    pipeline.step(owner);
    assert_eq!(
        pipeline.threads.threads[owner].take_fullest_ring(),
        1000,
        "thousandths: it was full"
    );
    assert_eq!(pipeline.sent(owner).len(), ROOM);
}
