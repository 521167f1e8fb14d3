//! The accuracy of rates in virtual time: errors of policing and shaping, alone and together with
//! other flows. `--nocapture` prints the errors that `docs/internals/qos.md` shows.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates of a test")]

mod change;
mod port;
mod shared;

use core::net::Ipv4Addr;

use adit_datapath::{Worker, WorkerConfig, connect};
use adit_pktio::PacketBuf;
use adit_pktio::mem::{MemBuf, MemIo};
use adit_rules::{DeltaId, DropReason, Excess, Gate, HeaderCreation, WorkerEvent};
use adit_session::{
    Change, CpFSeid, Enforcement, OwnerId, PdrUpdate, QerGates, QerUpdate, QosPolicy, Rates,
    SessionChange, SessionStore, UeMatch,
};
use adit_tables::{Publisher, Snapshot};
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::world::{WorldLayout, control, resolve_stations};
use adit_types::limits::RATE_CHANGES_LEN;
use adit_types::{
    BitRate, Direction, MacAddr, Nanos, Owners, PdrId, PortId, QerId, Qfi, Roles, Seid, Teid,
    WorkerId,
};

use change::MidTrafficChange;

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);
const PORTS: [PortId; 2] = [PortId(0), PortId(1)];

const MBIT: u64 = 1_000_000;
const UNLIMITED: u64 = u64::MAX;

/// Time of a step, unless a rate needs shorter ones.
const STEP: Nanos = Nanos::from_micros(20);

/// Time over which a rate is measured.
const WINDOW: Nanos = Nanos::from_millis(100);

/// Unit: bits per second times nanoseconds, in one octet.
const OCTET: u128 = 8_000_000_000;

/// A session with one QER.
#[derive(Debug, Clone, Copy)]
struct EstablishedSession {
    seid: Seid,
    teid: Teid,
    ue: Ipv4Addr,
}

/// Packets of one size that arrive at a steady rate, and counters of those that leave.
#[derive(Debug, Clone)]
struct SteadyFlow {
    direction: Direction,
    frame: Vec<u8>,
    /// Octets of the inner packet.
    len: u64,
    offered_bps: u64,
    /// The due part of the next packet. Unit: as [`OCTET`].
    owed: u128,
    offered: u64,
    /// Packets that left.
    sent: u64,
    /// When the first packet left, and the last.
    first: Nanos,
    last: Nanos,
    /// The QFI of the last packet that left towards the UE.
    qfi: u8,
}

impl SteadyFlow {
    fn bytes(&self) -> u64 {
        self.sent * self.len
    }
}

/// A UPF with ports in memory, in virtual time.
struct RateTest {
    store: SessionStore,
    publisher: Publisher,
    workers: Vec<Worker<MemIo>>,
    ios: Vec<MemIo>,
    events: Vec<rtrb::Consumer<WorkerEvent>>,
    now: Nanos,
    deltas: u64,
    sessions: Vec<EstablishedSession>,
    flows: Vec<SteadyFlow>,
    /// How many flows, from the first, send packets.
    steady: usize,
    spare: Vec<MemBuf>,
}

fn policy(excess: Excess) -> QosPolicy {
    let all = Enforcement { gbr: excess, flow: excess, session: excess, shared: excess };
    QosPolicy { uplink: all, downlink: all, ..QosPolicy::default() }
}

impl RateTest {
    fn new(excess: Excess, workers: usize, sessions_max: usize) -> Self {
        Self::with(policy(excess), workers, sessions_max)
    }

    fn with(qos: QosPolicy, workers: usize, sessions_max: usize) -> Self {
        let plain = scenario::plain_layout(0);
        let layout =
            WorldLayout { roles: Roles::run_to_completion(workers), sessions_max, qos, ..plain };
        let (store, mut publisher, readers) = control(&layout);
        resolve_stations(&mut publisher);
        let (mut made, mut events) = (Vec::new(), Vec::new());
        for (reader, handoff) in
            readers.into_iter().zip(connect(Roles::run_to_completion(workers), 1024))
        {
            let (event_tx, event_rx) = rtrb::RingBuffer::new(1024);
            let config = WorkerConfig {
                id: reader.worker(),
                ports: PORTS.to_vec(),
                burst: 64,
                buffer_pkts_max: 0,
                shaped_pkts_max: 1 << 16,
                recovery_time_stamp: None,
            };
            events.push(event_rx);
            let worker = Worker::new(config, reader, event_tx, rtrb::RingBuffer::new(64).1);
            made.push(worker.with_handoff(handoff));
        }
        let ios = (0..workers).map(|_| MemIo::new(&UPF)).collect();
        Self {
            store,
            publisher,
            workers: made,
            ios,
            events,
            now: Nanos::from_secs(1000),
            deltas: 0,
            sessions: Vec::new(),
            flows: Vec::new(),
            steady: 0,
            spare: Vec::new(),
        }
    }

    /// One session whose flow has maximum bit rates uplink and downlink.
    fn one(excess: Excess, mbr: (u64, u64)) -> Self {
        let mut stage = Self::new(excess, 1, 16);
        stage.session(mbr);
        stage.settle();
        stage
    }

    /// Establishes a session with maximum bit rates uplink and downlink, or without any. Unit: bits
    /// per second.
    fn session(&mut self, mbr: (u64, u64)) -> usize {
        self.session_of(OwnerId(1), mbr, |_| {})
    }

    /// As [`Self::establish`], for a CP function and with a QER Correlation ID.
    fn correlated(&mut self, cp: OwnerId, mbr: (u64, u64), correlation: Option<u32>) -> usize {
        self.session_of(cp, mbr, |change| change.create_qers[0].correlation = correlation)
    }

    /// As [`Self::establish`], for a CP function; `refine` changes the request.
    fn session_of(
        &mut self,
        cp: OwnerId,
        (uplink, downlink): (u64, u64),
        refine: impl FnOnce(&mut SessionChange),
    ) -> usize {
        let number = u16::try_from(self.sessions.len() + 1).unwrap();
        let [high, low] = number.to_be_bytes();
        let ue = Ipv4Addr::new(10, 45, high, low);
        let mut change = scenario::plain_session(1, "10.0.3.1");
        for pdr in &mut change.create_pdrs {
            let UeMatch { addresses, .. } = pdr.pdi.ue.as_mut().unwrap();
            (addresses.v4, addresses.v6) = (Some(ue), None);
        }
        let forwarding = change.create_fars[1].forwarding.as_mut().unwrap();
        let Some(HeaderCreation::Gtpu(tunnel)) = &mut forwarding.outer_header_creation else {
            unreachable!("plain sessions have tunnels")
        };
        tunnel.teid = Teid(0x10000 + u32::from(number));
        if uplink != UNLIMITED {
            change.create_qers[0].mbr = Some(rates(uplink, downlink));
        }
        refine(&mut change);
        let made = self.store.establish(cp, CpFSeid::default(), change).unwrap();
        let teid = made.created[0].f_teid.teid;
        self.deltas += 1;
        self.publisher.apply(DeltaId(self.deltas), made.delta);
        self.sessions.push(EstablishedSession { seid: made.up_seid, teid, ue });
        self.sessions.len() - 1
    }

    /// The worker that owns a session.
    fn owner(&self, session: usize) -> WorkerId {
        let index = self.store.session(self.sessions[session].seid).unwrap().index();
        Owners::new(self.workers.len()).of(index)
    }

    /// As [`Self::establish`], with the owner `owner`: establishes sessions until one has it.
    fn correlated_at(&mut self, owner: u8, cp: OwnerId, bps: u64, correlation: u32) -> usize {
        loop {
            let session = self.correlated(cp, (bps, bps), Some(correlation));
            if self.owner(session) == WorkerId(owner) {
                return session;
            }
            self.delete(session);
            self.settle();
        }
    }

    fn delete(&mut self, session: usize) {
        let delta = self.store.delete(self.sessions[session].seid).unwrap();
        self.deltas += 1;
        self.publisher.apply(DeltaId(self.deltas), delta);
    }

    /// Runs steps until all workers observe the publications.
    fn settle(&mut self) {
        for _ in 0..3 {
            for (worker, io) in self.workers.iter_mut().zip(&mut self.ios) {
                worker.step(self.now, io);
            }
            while self.publisher.poll_observed().is_some() {}
        }
    }

    /// Lets time pass. Returns the octets that left: of all flows per window, and of each flow.
    fn together(&mut self, flows: &[usize], windows: usize) -> (Vec<u64>, Vec<u64>) {
        let (mut sums, mut each) = (Vec::new(), vec![0; flows.len()]);
        for _ in 0..windows {
            let bytes = self.window(STEP);
            sums.push(flows.iter().map(|at| bytes[*at]).sum());
            each.iter_mut().zip(flows).for_each(|(sum, at)| *sum += bytes[*at]);
        }
        (sums, each)
    }

    fn modify(&mut self, session: usize, change: SessionChange) {
        let made = self.store.modify(self.sessions[session].seid, change).unwrap();
        self.deltas += 1;
        self.publisher.apply(DeltaId(self.deltas), made.delta.unwrap());
    }

    /// Packets of `len` octets, inner, offered at a rate. The last octets name the flow.
    fn flow(&mut self, session: usize, direction: Direction, len: u16, offered_bps: u64) -> usize {
        let mark = u32::try_from(self.flows.len()).unwrap().to_be_bytes();
        let mut payload = vec![0; usize::from(len) - 28];
        let at = payload.len() - mark.len();
        payload[at..].copy_from_slice(&mark);
        let EstablishedSession { teid, ue, .. } = self.sessions[session];
        let frame = match direction {
            Direction::Uplink => {
                let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
                let inner = outer.gtpu(teid.0).psc_ul(9).ipv4(ue, "8.8.8.8");
                inner.udp(4000, 53).payload(&payload)
            }
            Direction::Downlink => {
                let plain = PacketBuilder::ethernet(UPF[1], PEER).ipv4("8.8.8.8", ue);
                plain.udp(53, 4000).payload(&payload)
            }
        };
        self.flows.push(SteadyFlow {
            direction,
            frame: frame.build(),
            len: len.into(),
            offered_bps,
            owed: 0,
            offered: 0,
            sent: 0,
            first: Nanos(0),
            last: Nanos(0),
            qfi: 0,
        });
        if offered_bps > 0 {
            self.steady = self.flows.len();
        }
        self.flows.len() - 1
    }

    /// Gives one packet of a flow to a random worker.
    fn offer(&mut self, flow: usize) {
        let SteadyFlow { direction, frame, offered, .. } = &mut self.flows[flow];
        let worker = usize::try_from(*offered).unwrap() % self.ios.len();
        *offered += 1;
        let port = &mut self.ios[worker].ports[usize::from(*direction == Direction::Downlink)];
        let mut buf = self.spare.pop().unwrap_or_default();
        buf.reset(frame);
        port.rx.push_back(buf);
    }

    /// Lets time pass and packets arrive, and runs a step of all workers. Returns the flow of each
    /// packet that left.
    fn step(&mut self, time: Nanos, mut left: impl FnMut(usize)) {
        self.now += time;
        for at in 0..self.steady {
            let SteadyFlow { offered_bps, len, owed, .. } = &mut self.flows[at];
            *owed += u128::from(*offered_bps) * u128::from(time.0);
            let cost = u128::from(*len) * OCTET;
            let count = *owed / cost;
            *owed %= cost;
            (0..count).for_each(|_| self.offer(at));
        }
        for (worker, io) in self.workers.iter_mut().zip(&mut self.ios) {
            worker.step(self.now, io);
        }
        self.events.iter_mut().for_each(|ring| while ring.pop().is_ok() {});
        for port in self.ios.iter_mut().flat_map(|io| &mut io.ports) {
            for buf in port.tx.drain(..) {
                let frame = buf.data();
                let mark = frame[frame.len() - 4..].try_into().unwrap();
                let at = usize::try_from(u32::from_be_bytes(mark)).unwrap();
                let flow = &mut self.flows[at];
                // Container behind Ethernet, IPv4, UDP and the GTP-U header of 12 octets.
                flow.qfi = frame[56] & 0x3f;
                flow.sent += 1;
                flow.last = self.now;
                if flow.sent == 1 {
                    flow.first = self.now;
                }
                self.spare.push(buf);
                left(at);
            }
        }
    }

    /// Lets `time` pass by steps.
    fn pass(&mut self, time: Nanos, step: Nanos) {
        let end = self.now + time;
        while self.now < end {
            self.step(step, |_| {});
        }
    }

    /// Octets of each flow in one window.
    fn window(&mut self, step: Nanos) -> Vec<u64> {
        let before: Vec<u64> = self.flows.iter().map(SteadyFlow::bytes).collect();
        self.pass(WINDOW, step);
        self.flows.iter().zip(before).map(|(flow, before)| flow.bytes() - before).collect()
    }

    fn counts(&self) -> Snapshot {
        self.publisher.snapshot()
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.counts().drops[reason.index()]
    }
}

fn rates(uplink: u64, downlink: u64) -> Rates {
    Rates { uplink: BitRate::from_bps(uplink), downlink: BitRate::from_bps(downlink) }
}

/// Relative error of `bytes` in `windows` windows at a rate.
fn error(bytes: u64, rate_bps: u64, windows: usize) -> f64 {
    let expected = rate_bps as f64 / 8.0 * 0.1 * windows as f64;
    (bytes as f64 - expected) / expected
}

/// The promised bound of the relative error of a rate.
fn bound(excess: Excess) -> f64 {
    match excess {
        Excess::Policed => 0.01,
        Excess::Shaped => 0.005,
    }
}

fn name(excess: Excess) -> &'static str {
    match excess {
        Excess::Policed => "policing",
        Excess::Shaped => "shaping",
    }
}

const BOTH: [Excess; 2] = [Excess::Policed, Excess::Shaped];

/// Relative errors at a rate: of all windows together, and the largest of one window beyond one
/// packet.
#[track_caller]
fn check(excess: Excess, windows: &[u64], rate_bps: u64, len: u64) -> (f64, f64) {
    let mean = error(windows.iter().sum(), rate_bps, windows.len());
    let one = len as f64 / (rate_bps as f64 / 80.0);
    let errors = windows.iter().map(|bytes| error(*bytes, rate_bps, 1).abs());
    let worst = errors.fold(0.0, f64::max);
    assert!(mean.abs() <= bound(excess), "{excess:?} {rate_bps}: {mean} {windows:?}");
    assert!(worst <= bound(excess) + one, "{excess:?} {rate_bps}: {worst} {windows:?}");
    (mean, worst)
}

#[test]
fn single_flow_keeps_its_rate_over_each_window() {
    println!(
        "| rate | octets | | windows | error of all | of one window |\n|---|---|---|---|---|---|"
    );
    // Many packets wait less: the depth of 20 ms is used up after 100 ms, that of 2 ms after 10.
    let (usual, fast) = (Nanos::from_secs(1), Nanos::from_millis(120));
    let warm = |warm_up: Nanos, excess| match excess {
        Excess::Shaped => warm_up.min(Nanos::from_millis(20)),
        Excess::Policed => warm_up,
    };
    let cases = [
        (1, 1500, usual, 100, STEP),
        (20, 1500, usual, 20, STEP),
        (100, 1500, usual, 10, STEP),
        (1000, 1500, usual, 5, STEP),
        (10_000, 1500, usual, 3, STEP),
        (1, 64, usual, 10, STEP),
        (20, 64, usual, 10, STEP),
        (100, 64, usual, 5, STEP),
        (1000, 64, fast, 2, STEP),
        (10_000, 64, fast, 1, Nanos::from_micros(2)),
    ];
    for (mbit, len, warm_up, windows, step) in cases {
        for excess in BOTH {
            let rate = mbit * MBIT;
            let mut stage = RateTest::one(excess, (rate, rate));
            stage.flow(0, Direction::Uplink, len, rate / 10 * 12);
            let is_fast = warm_up == fast;
            stage.pass(if is_fast { warm(fast, excess) } else { warm_up }, step);
            let bytes: Vec<u64> = (0..windows).map(|_| stage.window(step)[0]).collect();
            let (mean, worst) = check(excess, &bytes, rate, len.into());
            let (all, one) = (mean * 100.0, worst * 100.0);
            let mode = name(excess);
            println!("| {mbit} Mb/s | {len} | {mode} | {windows} | {all:+.4} % | {one:.4} % |");
        }
    }
}

#[test]
fn offer_below_and_above_the_rate_in_turns() {
    println!("| offered | | windows of 100 ms, Mb/s |\n|---|---|---|");
    for excess in BOTH {
        let rate = 1000 * MBIT;
        let mut stage = RateTest::one(excess, (rate, rate));
        stage.flow(0, Direction::Uplink, 1500, rate);
        for offered in [800, 1200, 800, 1200].map(|mbit| mbit * MBIT) {
            stage.flows[0].offered_bps = offered;
            let bytes: Vec<u64> = (0..6).map(|_| stage.window(STEP)[0]).collect();
            let shown: Vec<u64> = bytes.iter().map(|bytes| bytes * 80 / MBIT).collect();
            println!("| {} Mb/s | {} | {shown:?} |", offered / MBIT, name(excess));
            // After the first window, at most one packet of the depth, or of the queue, is left.
            check(excess, &bytes[2..], rate.min(offered), 1500);
            let most = rate as f64 / 80.0 * (1.0 + 0.2) + 1500.0;
            assert!(bytes.iter().all(|bytes| *bytes as f64 <= most), "{shown:?}");
        }
        // Below the rate no packet is lost: only traffic beyond rate and depth is dropped.
        let flow = &stage.flows[0];
        let waiting = stage.counts().shaped_pkts;
        let dropped = stage.counts().dropped_pkts();
        assert_eq!(flow.offered, flow.sent + waiting + dropped);
        let beyond = (0.2 * rate as f64 / 8.0 / 1500.0 * 1.2) as u64;
        assert!(dropped < beyond, "{dropped} of {beyond}");
    }
}

#[test]
fn directions_of_a_session_do_not_share_a_rate() {
    for excess in BOTH {
        let (up, down) = (1000 * MBIT, 500 * MBIT);
        let mut stage = RateTest::one(excess, (up, down));
        stage.flow(0, Direction::Uplink, 1500, up / 10 * 12);
        stage.flow(0, Direction::Downlink, 1400, down / 10 * 12);
        stage.pass(Nanos::from_secs(1), STEP);
        let windows: Vec<Vec<u64>> = (0..5).map(|_| stage.window(STEP)).collect();
        let of = |at: usize| windows.iter().map(|bytes| bytes[at]).collect::<Vec<u64>>();
        let (up, down) = (check(excess, &of(0), up, 1500), check(excess, &of(1), down, 1400));
        println!("{}: 1 Gb/s up {up:+.6?}, 0.5 Gb/s down {down:+.6?}", name(excess));
    }
}

#[test]
fn limits_on_several_workers_leave_an_unlimited_flow_alone() {
    for excess in BOTH {
        let mut stage = RateTest::new(excess, 3, 64);
        let rate = 250 * MBIT;
        for _ in 0..4 {
            let session = stage.session((rate, rate));
            stage.flow(session, Direction::Uplink, 1500, rate / 10 * 12);
        }
        let free = stage.session((UNLIMITED, UNLIMITED));
        let free = stage.flow(free, Direction::Uplink, 1500, 500 * MBIT);
        stage.settle();
        stage.pass(Nanos::from_secs(1), STEP);
        let windows: Vec<Vec<u64>> = (0..5).map(|_| stage.window(STEP)).collect();
        for at in 0..free {
            let bytes: Vec<u64> = windows.iter().map(|bytes| bytes[at]).collect();
            let errors = check(excess, &bytes, rate, 1500);
            println!("{}: UE {at} of 250 Mb/s {errors:+.6?}", name(excess));
        }
        let reason = match excess {
            Excess::Policed => DropReason::RateExceeded,
            Excess::Shaped => DropReason::ShapingQueueFull,
        };
        assert_eq!(stage.dropped(reason), stage.counts().dropped_pkts());
        assert!(stage.counts().handed_off_pkts > 0, "sessions are met at other workers");
        // Packets on their way between workers arrive.
        stage.flows.iter_mut().for_each(|flow| flow.offered_bps = 0);
        stage.step(STEP, |_| {});
        stage.step(STEP, |_| {});
        assert_eq!(stage.flows[free].sent, stage.flows[free].offered);
    }
}

#[test]
fn sessions_of_two_workers_share_a_rate_by_its_correlation_id() {
    let (ours, other) = (OwnerId(1), OwnerId(2));
    for excess in BOTH {
        let mut stage = RateTest::new(excess, 2, 64);
        let rate = 100 * MBIT;
        let sessions = [0, 1].map(|owner| stage.correlated_at(owner, ours, rate, 7));
        assert_ne!(stage.owner(sessions[0]), stage.owner(sessions[1]));
        // The same identifier of another CP function is another rate, and so is another identifier.
        let apart = [(other, 7), (ours, 8)].map(|(cp, id)| {
            let session = stage.correlated(cp, (rate, rate), Some(id));
            stage.flow(session, Direction::Uplink, 1400, rate / 10 * 12)
        });
        let flows = sessions.map(|at| stage.flow(at, Direction::Uplink, 1400, rate / 10 * 12));
        // The other direction also is another rate.
        let down = stage.flow(sessions[0], Direction::Downlink, 1400, rate / 10 * 12);
        stage.settle();
        stage.pass(Nanos::from_secs(1), STEP);
        let (sums, each) = stage.together(&flows, 5);
        let errors = check(excess, &sums, rate, 1400);
        println!("{}: two workers share 100 Mb/s: {errors:+.6?}, {each:?}", name(excess));
        if excess == Excess::Shaped {
            // Flows that wait for one rate take turns.
            let half = sums.iter().sum::<u64>() / 2;
            assert!(each.iter().all(|bytes| bytes.abs_diff(half) <= half / 10), "{each:?}");
        }
        for alone in apart.into_iter().chain([down]) {
            let (sums, _) = stage.together(&[alone], 2);
            check(excess, &sums, rate, 1400);
        }
        // The rate changes in one session after the other.
        for rate in [20 * MBIT, 400 * MBIT, rate] {
            for session in sessions {
                stage.modify(session, MidTrafficChange::Rate(rate).change().unwrap());
                stage.settle();
                stage.pass(Nanos::from_millis(7), STEP);
            }
            for flow in flows {
                stage.flows[flow].offered_bps = rate / 10 * 12;
            }
            // The depth is used up, and packets that waited at a higher rate have left.
            stage.pass(Nanos::from_secs(1), STEP);
            let (sums, _) = stage.together(&flows, 5);
            let errors = check(excess, &sums, rate, 1400);
            println!("{}: then {} Mb/s: {errors:+.6?}", name(excess), rate / MBIT);
        }
        // The last session has the whole rate.
        for flow in [flows[0], down] {
            stage.flows[flow].offered_bps = 0;
        }
        stage.pass(STEP, STEP);
        stage.delete(sessions[0]);
        stage.settle();
        stage.pass(Nanos::from_millis(500), STEP);
        let (sums, each) = stage.together(&flows, 5);
        check(excess, &sums, rate, 1400);
        assert_eq!(each[0], 0);
        assert_eq!(stage.publisher.counters().correlated_rates_refused, 0);
    }
}

#[test]
fn session_that_shares_a_rate_no_more_has_its_own() {
    let mut stage = RateTest::new(Excess::Policed, 1, 16);
    let rate = 100 * MBIT;
    let sessions = [(), ()].map(|()| stage.correlated(OwnerId(1), (rate, rate), Some(7)));
    let flows = sessions.map(|at| stage.flow(at, Direction::Downlink, 1400, rate / 10 * 12));
    stage.settle();
    let update = QerUpdate { id: QerId(1), correlation: Change::Set(8), ..QerUpdate::default() };
    stage.modify(
        sessions[0],
        SessionChange { update_qers: vec![update], ..SessionChange::default() },
    );
    stage.settle();
    stage.pass(Nanos::from_secs(1), STEP);
    for flow in flows {
        let (sums, _) = stage.together(&[flow], 3);
        check(Excess::Policed, &sums, rate, 1400);
    }
}

#[test]
fn ten_thousand_shaped_flows_keep_their_rates() {
    const FLOWS: usize = 10_000;
    /// Packets of each flow that wait, leave, or arrive.
    const WINDOW_PKTS: usize = 3;
    let mut stage = RateTest::new(Excess::Shaped, 1, 1 << 14);
    let mut limits = Vec::new();
    for number in 0..FLOWS {
        // 1 kb/s to 10 Mb/s, as many in each decade; slow flows have short packets.
        let rate = 10_f64.powf(3.0 + 4.0 * number as f64 / (FLOWS - 1) as f64) as u64;
        let len = if rate < MBIT / 10 { 64 } else { 1400 };
        let direction = [Direction::Uplink, Direction::Downlink][number % 2];
        let session = stage.session((rate, rate));
        stage.flow(session, direction, len, 0);
        limits.push(rate);
        if number % 64 == 0 {
            stage.settle();
        }
    }
    stage.settle();
    (0..WINDOW_PKTS).for_each(|_| (0..FLOWS).for_each(|flow| stage.offer(flow)));
    let step = Nanos::from_micros(50);
    let mut gone = Vec::new();
    let run = |stage: &mut RateTest, gone: &mut Vec<usize>, time: Nanos| {
        let end = stage.now + time;
        while stage.now < end {
            stage.step(step, |flow| gone.push(flow));
            gone.drain(..).for_each(|flow| stage.offer(flow));
        }
    };
    // All flows have had their turns, and their depths are used up.
    run(&mut stage, &mut gone, Nanos::from_millis(200));
    stage.flows.iter_mut().for_each(|flow| flow.sent = 0);
    run(&mut stage, &mut gone, Nanos::from_millis(1200));
    let mut errors = Vec::new();
    for (flow, rate) in stage.flows.iter().zip(limits) {
        assert!(flow.sent > 1, "{rate} bit/s: {}", flow.sent);
        // The time from the first packet to the last one is that of all packets but the first.
        let bits = ((flow.sent - 1) * flow.len * 8) as f64;
        let time = flow.last.since(flow.first).0 as f64 / 1e9;
        errors.push((bits / time - rate as f64) / rate as f64);
    }
    let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / FLOWS as f64;
    let worst = errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
    let sent: u64 = stage.flows.iter().map(|flow| flow.sent).sum();
    let (mean_pct, worst_pct) = (mean * 100.0, worst * 100.0);
    println!(
        "{FLOWS} flows, {sent} packets in 1.2 s: mean {mean_pct:.4} %, worst {worst_pct:.4} %"
    );
    assert_eq!(stage.counts().dropped_pkts(), 0);
    assert!(mean <= 0.005 && worst <= 0.02, "mean {mean}, worst {worst}");
}
