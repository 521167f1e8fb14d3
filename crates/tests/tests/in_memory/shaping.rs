//! Shaping against naive queues, on a virtual clock: a list per set of rates, and exact buckets.
//!
//! A packet passes or waits exactly as the model says. Waiting packets leave in order, never before
//! their buckets are open, and at the first step one slot of the wheel after that. Meanwhile rates
//! and the QERs of PDRs change. `ADIT_SEED=n` runs one scenario again, `ADIT_SCENARIOS=n` another
//! number of them.

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, VecDeque};

use adit_datapath::{Worker, WorkerConfig};
use adit_pktio::PacketBuf;
use adit_pktio::mem::MemIo;
use adit_rules::{DeltaId, Excess, HeaderCreation, RuleDelta, WorkerEvent};
use adit_session::{
    CpFSeid, Enforcement, FTeidSpec, OwnerId, PdrUpdate, Qer, QerUpdate, QosPolicy, Rates, SdfSpec,
    SessionChange, SessionStore,
};
use adit_tables::Publisher;
use adit_testkit::packet::PacketBuilder;
use adit_tests::scenario;
use adit_tests::world::{WorldLayout, control, resolve_stations};
use adit_types::{BitRate, MacAddr, Nanos, PdrId, PortId, Precedence, QerId, Seid, Teid};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const SCENARIOS: u64 = 40;
const STEPS: usize = 3000;
const SESSIONS: usize = 3;

const UPF: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0x10, 0]), MacAddr([2, 0, 0, 0, 0x10, 1])];
const PEER: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);

/// How far a flow may be ahead: a whole number of the units of workers.
const DEPTH_NS: u64 = 153 << 16;

/// Longest delay of a packet that may leave, if steps run.
const SLOT_NS: u64 = 1 << 15;

/// A step that releases as many packets can leave others to the next one.
const STEP_PKTS_MAX: usize = 256;

/// Times that an octet takes at the rates of this test, all exact.
const OCTET_NS: [u64; 5] = [8, 80, 400, 2000, 8000];

/// Most packets of a flow that wait here: fewer than the limit.
const WAITING_MAX: usize = 300;

/// PDRs by direction: those of all packets, and those of port 53.
const PDRS: [[u16; 2]; 2] = [[1, 3], [2, 4]];

/// A mistake of the model that the comparison must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The depth is one percent too small.
    DepthLess,
    DepthMore,
    LastFirst,
    /// Packets of a flow without a PDR keep waiting.
    Forgotten,
}

/// The key of a queue: session, direction (1 is downlink) and rates.
type FlowKeyOfModel = (usize, usize, Vec<u32>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelPacket {
    number: u32,
    bytes: u64,
}

/// Queues as lists.
struct QueueModel {
    mistake: Mistake,
    now: u64,
    /// The time that an octet takes, by session and QER.
    octet_ns: BTreeMap<(usize, u32), u64>,
    /// QERs by session, direction and whether packets are of port 53.
    qers: BTreeMap<(usize, usize, usize), Vec<u32>>,
    /// By session, direction and QER.
    due: BTreeMap<(usize, usize, u32), u64>,
    waiting: BTreeMap<FlowKeyOfModel, VecDeque<ModelPacket>>,
    /// By direction: rules changed, and the waiting packets are not reviewed yet.
    changed: [bool; 2],
}

impl QueueModel {
    fn depth(&self) -> u64 {
        match self.mistake {
            Mistake::DepthLess => DEPTH_NS / 100 * 99,
            Mistake::DepthMore => DEPTH_NS / 100 * 101,
            _ => DEPTH_NS,
        }
    }

    fn flow(&self, session: usize, direction: usize, kind: usize) -> FlowKeyOfModel {
        (session, direction, self.qers[&(session, direction, kind)].clone())
    }

    fn is_led_to(&self, (session, direction, qers): &FlowKeyOfModel) -> bool {
        (0..2).any(|kind| self.qers[&(*session, *direction, kind)] == *qers)
    }

    /// Cancels the debt to another rate.
    fn settle(&mut self, (session, direction, qers): &FlowKeyOfModel) {
        let (now, depth) = (self.now, self.depth());
        for qer in qers {
            let most = now + depth + self.octet_ns[&(*session, *qer)] * 65_535 + 1;
            let due = self.due.entry((*session, *direction, *qer)).or_default();
            if *due > most {
                *due = now + depth;
            }
        }
    }

    /// After a change, when flows without a PDR have left, reviews all waiting packets.
    fn settle_changed(&mut self, direction: usize) {
        if std::mem::take(&mut self.changed[direction]) {
            let flows = self.waiting.keys().filter(|flow| flow.1 == direction);
            let flows = flows.filter(|flow| self.is_led_to(flow)).cloned();
            let flows: Vec<FlowKeyOfModel> = flows.collect();
            flows.iter().for_each(|flow| self.settle(flow));
        }
    }

    /// When the next packet of a flow may leave.
    fn opens_at(&self, (session, direction, qers): &FlowKeyOfModel) -> u64 {
        let due = |qer: &u32| self.due.get(&(*session, *direction, *qer)).copied().unwrap_or(0);
        qers.iter().map(due).max().unwrap_or(0).saturating_sub(self.depth())
    }

    fn charge(&mut self, (session, direction, qers): &FlowKeyOfModel, bytes: u64) {
        for qer in qers {
            let cost = bytes * self.octet_ns[&(*session, *qer)];
            let due = self.due.entry((*session, *direction, *qer)).or_default();
            *due = (*due).max(self.now) + cost;
        }
    }

    /// Adds a packet. Returns true if it passes.
    fn arrive(&mut self, flow: &FlowKeyOfModel, packet: ModelPacket) -> bool {
        self.settle(flow);
        let is_alone = self.waiting.get(flow).is_none_or(VecDeque::is_empty);
        let passes = is_alone && self.opens_at(flow) <= self.now;
        match passes {
            true => self.charge(flow, packet.bytes),
            false => self.waiting.entry(flow.clone()).or_default().push_back(packet),
        }
        passes
    }

    /// Removes waiting packets that left in this order, or returns the mistake.
    fn leave(&mut self, left: &[u32]) -> Result<(), String> {
        for number in left {
            let is_first = |(_, queue): &(&FlowKeyOfModel, &VecDeque<ModelPacket>)| {
                let next = match self.mistake {
                    Mistake::LastFirst => queue.back(),
                    _ => queue.front(),
                };
                next.is_some_and(|packet| packet.number == *number)
            };
            let Some((flow, _)) = self.waiting.iter().find(is_first) else {
                return Err(format!("packet {number} is not the next of any flow"));
            };
            let flow = flow.clone();
            if self.is_led_to(&flow) {
                self.settle_changed(flow.1);
            }
            let late = self.opens_at(&flow);
            let is_asked = self.is_led_to(&flow) || self.mistake == Mistake::Forgotten;
            if late > self.now && is_asked {
                return Err(format!("packet {number} of {flow:?} is {} ns early", late - self.now));
            }
            let queue = self.waiting.get_mut(&flow).unwrap();
            let packet = match self.mistake {
                Mistake::LastFirst => queue.pop_back(),
                _ => queue.pop_front(),
            };
            self.charge(&flow, packet.unwrap().bytes);
        }
        (0..2).for_each(|direction| self.settle_changed(direction));
        self.waiting.retain(|_, queue| !queue.is_empty());
        for flow in self.waiting.keys() {
            let is_overdue =
                self.opens_at(flow) + SLOT_NS <= self.now && left.len() < STEP_PKTS_MAX;
            let is_left = !self.is_led_to(flow) && self.mistake != Mistake::Forgotten;
            if is_overdue || is_left {
                return Err(format!("{flow:?} still waits at {}", self.now));
            }
        }
        Ok(())
    }
}

/// The events of a run: a run without events fails.
#[derive(Debug, Default)]
struct RunCoverage {
    passed: usize,
    waited: usize,
    /// Packets whose flow lost its PDRs.
    led_away: usize,
    changes: usize,
}

struct ShapingTest {
    store: SessionStore,
    publisher: Publisher,
    worker: Worker<MemIo>,
    io: MemIo,
    events: rtrb::Consumer<WorkerEvent>,
    deltas: u64,
    sessions: Vec<(Seid, Teid)>,
    model: QueueModel,
    rng: StdRng,
    number: u32,
    seen: RunCoverage,
}

fn addr(session: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 0, u8::try_from(session + 1).unwrap())
}

fn rates(octet_ns: u64) -> Rates {
    let rate = BitRate::from_bps(8_000_000_000 / octet_ns);
    Rates { uplink: rate, downlink: rate }
}

impl ShapingTest {
    fn new(seed: u64, mistake: Mistake) -> Self {
        let waits = Excess::Shaped;
        let all = Enforcement { gbr: waits, flow: waits, session: waits, shared: waits };
        let shaping_burst = Nanos(DEPTH_NS);
        let qos = QosPolicy { uplink: all, downlink: all, shaping_burst, ..QosPolicy::default() };
        let layout = WorldLayout { qos, ..scenario::plain_layout(0) };
        let (store, mut publisher, mut readers) = control(&layout);
        resolve_stations(&mut publisher);
        let (event_tx, events) = rtrb::RingBuffer::new(1024);
        let reader = readers.remove(0);
        let config = WorkerConfig {
            id: reader.worker(),
            ports: vec![PortId(0), PortId(1)],
            burst: 64,
            buffer_pkts_max: 0,
            shaped_pkts_max: 1 << 14,
            recovery_time_stamp: None,
        };
        let worker = Worker::new(config, reader, event_tx, rtrb::RingBuffer::new(64).1);
        let model = QueueModel {
            mistake,
            now: 1_000_000_000,
            octet_ns: BTreeMap::new(),
            qers: BTreeMap::new(),
            due: BTreeMap::new(),
            waiting: BTreeMap::new(),
            changed: [false; 2],
        };
        let mut stage = Self {
            store,
            publisher,
            worker,
            io: MemIo::new(&UPF),
            events,
            deltas: 0,
            sessions: Vec::new(),
            model,
            rng: StdRng::seed_from_u64(seed),
            number: 0,
            seen: RunCoverage::default(),
        };
        (0..SESSIONS).for_each(|session| stage.establish(session));
        stage
    }

    fn publish(&mut self, delta: RuleDelta) {
        self.deltas += 1;
        self.publisher.apply(DeltaId(self.deltas), delta);
        self.model.changed = [true; 2];
    }

    /// QERs of packets of a kind, sometimes none.
    fn some_qers(&mut self) -> Vec<u32> {
        let sets = [&[1][..], &[1, 2], &[1, 2, 3], &[2], &[3], &[]];
        sets.choose(&mut self.rng).unwrap().to_vec()
    }

    fn establish(&mut self, session: usize) {
        let mut change = scenario::plain_session(u8::try_from(session + 1).unwrap(), "10.0.3.1");
        change.create_pdrs[0].pdi.f_teid =
            Some(FTeidSpec::Choose { v4: true, v6: true, choose_id: Some(1) });
        for (direction, [_, of_port]) in PDRS.into_iter().enumerate() {
            let mut pdr = change.create_pdrs[direction].clone();
            pdr.id = PdrId(of_port);
            pdr.precedence = Precedence(10);
            let text = "permit out 17 from any 53 to assigned";
            pdr.pdi.sdf =
                vec![SdfSpec { flow_description: Some(text.into()), ..Default::default() }];
            change.create_pdrs.push(pdr);
        }
        for pdr in &mut change.create_pdrs {
            let direction = usize::from(pdr.id.0.is_multiple_of(2));
            let kind = usize::from(pdr.id.0 > 2);
            let qers = self.some_qers();
            pdr.qers = qers.iter().map(|id| QerId(*id)).collect();
            self.model.qers.insert((session, direction, kind), qers);
        }
        change.create_qers.clear();
        for id in 1..=3 {
            let octet_ns = *OCTET_NS.choose(&mut self.rng).unwrap();
            self.model.octet_ns.insert((session, id), octet_ns);
            let mbr = Some(rates(octet_ns));
            change.create_qers.push(Qer { id: QerId(id), mbr, ..Qer::default() });
        }
        let forwarding = change.create_fars[1].forwarding.as_mut().unwrap();
        assert!(matches!(forwarding.outer_header_creation, Some(HeaderCreation::Gtpu(_))));
        let made = self.store.establish(OwnerId(1), CpFSeid::default(), change).unwrap();
        self.sessions.push((made.up_seid, made.created[0].f_teid.teid));
        self.publish(made.delta);
    }

    /// Changes a rate, or the QERs of a PDR.
    fn change(&mut self) {
        let session = self.rng.random_range(0..SESSIONS);
        let mut change = SessionChange::default();
        if self.rng.random() {
            let id = self.rng.random_range(1..=3);
            let octet_ns = *OCTET_NS.choose(&mut self.rng).unwrap();
            self.model.octet_ns.insert((session, id), octet_ns);
            let mbr = Some(rates(octet_ns));
            change.update_qers.push(QerUpdate {
                id: QerId(id),
                mbr: mbr.into(),
                ..QerUpdate::default()
            });
        } else {
            let (direction, kind) = (self.rng.random_range(0..2), self.rng.random_range(0..2));
            let qers = self.some_qers();
            let named = Some(qers.iter().map(|id| QerId(*id)).collect());
            let id = PdrId(PDRS[direction][kind]);
            change.update_pdrs.push(PdrUpdate { id, qers: named.into(), ..PdrUpdate::default() });
            self.model.qers.insert((session, direction, kind), qers);
        }
        let made = self.store.modify(self.sessions[session].0, change).unwrap();
        if let Some(delta) = made.delta {
            self.publish(delta);
            self.seen.changes += 1;
            let led_away =
                self.model.waiting.iter().filter(|(flow, _)| !self.model.is_led_to(flow));
            self.seen.led_away += led_away.map(|(_, queue)| queue.len()).sum::<usize>();
        }
    }

    /// A packet of so many octets, whose last ones are its number.
    fn frame(&mut self, session: usize, direction: usize, kind: usize, bytes: u64) -> Vec<u8> {
        let mut payload = vec![0; usize::try_from(bytes).unwrap() - 28];
        let at = payload.len() - 4;
        payload[at..].copy_from_slice(&self.number.to_be_bytes());
        let (ue, port) = (addr(session), [80, 53][kind]);
        let builder = match direction {
            0 => {
                let teid = self.sessions[session].1.0;
                let outer = PacketBuilder::ethernet(UPF[0], PEER).ipv4("10.0.3.1", "10.0.3.2");
                outer.gtpu(teid).psc_ul(9).ipv4(ue, "8.8.8.8").udp(4000, port)
            }
            _ => PacketBuilder::ethernet(UPF[1], PEER).ipv4("8.8.8.8", ue).udp(port, 4000),
        };
        builder.payload(&payload).build()
    }

    /// Some packets arrive, and those that pass, by session and direction.
    fn arrive(&mut self, arriving: &mut Vec<(FlowKeyOfModel, ModelPacket)>) {
        for _ in 0..self.rng.random_range(0..6) {
            let session = self.rng.random_range(0..SESSIONS);
            let (direction, kind) = (self.rng.random_range(0..2), self.rng.random_range(0..2));
            let flow = self.model.flow(session, direction, kind);
            if self.model.waiting.get(&flow).is_some_and(|queue| queue.len() >= WAITING_MAX) {
                continue;
            }
            self.number += 1;
            let bytes = *[36, 64, 200, 1400].choose(&mut self.rng).unwrap();
            let frame = self.frame(session, direction, kind, bytes);
            self.io.inject(PortId(u16::try_from(direction).unwrap()), &frame);
            arriving.push((flow, ModelPacket { number: self.number, bytes }));
        }
    }

    /// Lets time pass and packets arrive, runs a step of the worker, and compares both sides.
    fn step(&mut self) -> Result<(), String> {
        let pause = match self.rng.random_range(0..200) {
            0 => self.rng.random_range(0..50_000_000),
            _ => self.rng.random_range(1..60_000),
        };
        self.model.now += pause;
        let mut arriving = Vec::new();
        let first_new = self.number + 1;
        self.arrive(&mut arriving);
        self.worker.step(Nanos(self.model.now), &mut self.io);
        while self.events.pop().is_ok() {}
        while self.publisher.poll_observed().is_some() {}
        let mut passed: [Vec<u32>; 2] = Default::default();
        let mut left = Vec::new();
        for (port, direction) in [(1, 0), (0, 1)] {
            for buf in self.io.take_sent(PortId(port)) {
                let frame = buf.data();
                let number = u32::from_be_bytes(frame[frame.len() - 4..].try_into().unwrap());
                match number < first_new {
                    true => left.push(number),
                    false => passed[direction].push(number),
                }
            }
        }
        self.model.leave(&left)?;
        let mut expected: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
        for (flow, packet) in &arriving {
            if self.model.arrive(flow, *packet) {
                self.seen.passed += 1;
                expected.entry((flow.0, flow.1)).or_default().push(packet.number);
            } else {
                self.seen.waited += 1;
            }
        }
        // Packets of one direction of a session keep their order.
        let line = |number: &u32| {
            let (flow, _) = arriving.iter().find(|(_, packet)| packet.number == *number)?;
            Some((flow.0, flow.1))
        };
        let mut found: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
        for number in passed.iter().flatten() {
            let line = line(number).ok_or_else(|| format!("packet {number} is unknown"))?;
            found.entry(line).or_default().push(*number);
        }
        match found == expected {
            true => Ok(()),
            false => Err(format!("passed by session and direction: {found:?}, not {expected:?}")),
        }
    }
}

fn run(seed: u64, mistake: Mistake) -> Result<RunCoverage, String> {
    let mut stage = ShapingTest::new(seed, mistake);
    for at in 0..STEPS {
        if stage.rng.random_ratio(1, 100) {
            stage.change();
        }
        stage.step().map_err(|error| format!("ADIT_SEED={seed}, step {at}: {error}"))?;
    }
    let counts = stage.publisher.snapshot();
    let waiting: usize = stage.model.waiting.values().map(VecDeque::len).sum();
    if counts.shaped_pkts != waiting as u64 || counts.dropped_pkts() != 0 {
        return Err(format!("ADIT_SEED={seed}: {waiting} wait: {counts:?}"));
    }
    Ok(stage.seen)
}

#[test]
fn what_waits_leaves_as_from_naive_queues() {
    let scenarios =
        std::env::var("ADIT_SCENARIOS").map_or(SCENARIOS, |count| count.parse().unwrap());
    let seeds: Vec<u64> = match std::env::var("ADIT_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=scenarios).collect(),
    };
    let mut all = RunCoverage::default();
    for seed in &seeds {
        let seen = run(*seed, Mistake::None).unwrap_or_else(|error| panic!("{error}"));
        all.passed += seen.passed;
        all.waited += seen.waited;
        all.led_away += seen.led_away;
        all.changes += seen.changes;
    }
    println!("{all:?}");
    if seeds.len() > 1 {
        assert!(all.passed > 20_000 && all.waited > 20_000, "{all:?}");
        assert!(all.led_away > 1000 && all.changes > 500, "{all:?}");
    }
}

#[test]
fn mistakes_are_found() {
    let mistakes = [Mistake::DepthLess, Mistake::DepthMore, Mistake::LastFirst, Mistake::Forgotten];
    for mistake in mistakes {
        let found = (1..=8).filter_map(|seed| run(seed, mistake).err()).count();
        assert!(found >= 4, "{mistake:?}: in {found} of 8 scenarios");
    }
}
