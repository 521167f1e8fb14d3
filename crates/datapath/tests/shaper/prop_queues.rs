//! Queues and wheel against naive ones: a list per flow, and exact times.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "small numbers")]

use std::collections::{BTreeMap, VecDeque};

use adit_datapath::shaper::{
    Eligibility, QueueFull, QueueKey, QueuedPacket, Queues, QueuesConfig, ReviewOutcome, Wheel,
};
use adit_types::{Direction, Nanos, SessionIndex};
use proptest::collection::vec;
use proptest::prelude::*;

/// A number leaves the wheel at most this long after its time, if someone looks.
const SLOT_NS: u64 = 1 << 15;

/// An entry further ahead leaves the wheel after this, less a slot.
const HORIZON_NS: u64 = 4096 * SLOT_NS;

/// Packets of one flow that leave in a row while others are due.
const TURN_PKTS: usize = 16;

/// Sessions that the shaper has room for.
const SESSIONS: u32 = 3;

#[derive(Debug, Clone)]
enum WheelOp {
    /// A number, and its time from now; times before now count from the beginning.
    Insert(u32, i64),
    InsertDue(u32),
    Remove(u32),
    /// Time passes, and so many numbers are taken: one by one, or several of which some are put
    /// back.
    Advance(u64, usize),
}

fn ahead() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => 0_i64..5 * SLOT_NS as i64,
        2 => 0_i64..HORIZON_NS as i64 * 2,
        1 => -10 * SLOT_NS as i64..0,
    ]
}

fn step_ns() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0_u64..3 * SLOT_NS, 2 => 0_u64..100 * SLOT_NS, 1 => 0_u64..2 * HORIZON_NS]
}

fn wheel_op() -> impl Strategy<Value = WheelOp> {
    prop_oneof![
        6 => (0_u32..40, ahead()).prop_map(|(number, ahead)| WheelOp::Insert(number, ahead)),
        1 => (0_u32..40).prop_map(WheelOp::InsertDue),
        2 => (0_u32..40).prop_map(WheelOp::Remove),
        3 => (step_ns(), prop_oneof![Just(usize::MAX), 0_usize..4])
            .prop_map(|(ns, count)| WheelOp::Advance(ns, count)),
    ]
}

/// When a number is due, and when that was set.
#[derive(Debug, Clone, Copy)]
struct ModelEligibility {
    at: Nanos,
    since: Nanos,
}

impl ModelEligibility {
    /// A wheel looks again behind its last slot.
    fn is_early(self, now: Nanos) -> bool {
        now < self.at && now.since(self.since).0 < HORIZON_NS - SLOT_NS
    }

    /// The beginning of the last slot in which it is due.
    fn latest(self) -> Nanos {
        self.at.max(self.since).min(self.since + Nanos(HORIZON_NS))
    }

    /// At `now` it must have been due.
    fn is_overdue(self, now: Nanos) -> bool {
        self.latest() + Nanos(SLOT_NS) <= now
    }
}

/// Numbers by slot, and those that are due.
#[derive(Debug, Default)]
struct NaiveWheel {
    slots: BTreeMap<u64, Vec<(u32, ModelEligibility)>>,
    due: VecDeque<(u32, ModelEligibility)>,
}

impl NaiveWheel {
    fn holds(&self, number: u32) -> bool {
        self.slots.values().flatten().chain(&self.due).any(|(held, _)| *held == number)
    }

    fn remove(&mut self, number: u32) {
        self.slots.values_mut().for_each(|slot| slot.retain(|(held, _)| *held != number));
        self.due.retain(|(held, _)| *held != number);
    }

    fn advance(&mut self, now: Nanos) {
        let later = self.slots.split_off(&(now.0 / SLOT_NS + 1));
        let passed = core::mem::replace(&mut self.slots, later);
        self.due.extend(passed.into_values().flatten());
    }
}

proptest! {
    #[test]
    fn wheel_agrees_with_lists_by_slot(ops in vec(wheel_op(), 1..300), start in 0_u64..1 << 50) {
        let capacity = 32;
        let (mut wheel, mut naive) = (Wheel::new(capacity, 0), NaiveWheel::default());
        let mut now = Nanos(start);
        wheel.advance(now);
        for op in ops {
            match op {
                WheelOp::Insert(number, _) | WheelOp::InsertDue(number) if naive.holds(number) => {}
                WheelOp::Insert(number, ahead) => {
                    let at = Nanos(now.0.saturating_add_signed(ahead));
                    wheel.insert(number, at);
                    let next = now.0 / SLOT_NS + 1;
                    let slot = at.0.div_ceil(SLOT_NS).clamp(next, next + 4095);
                    if number < capacity as u32 {
                        let told = ModelEligibility { at, since: now };
                        naive.slots.entry(slot).or_default().push((number, told));
                    }
                }
                WheelOp::InsertDue(number) => {
                    wheel.insert_due(number);
                    if number < capacity as u32 {
                        naive.due.push_back((number, ModelEligibility { at: now, since: now }));
                    }
                }
                WheelOp::Remove(number) => {
                    wheel.remove(number);
                    naive.remove(number);
                }
                WheelOp::Advance(ns, count) => {
                    now += Nanos(ns);
                    wheel.advance(now);
                    naive.advance(now);
                    let mut left = count;
                    while left > 0 {
                        let (mut ids, room) = ([0; 4], left.min(4));
                        let taken = match ns % 3 {
                            0 => wheel.take().map_or(0, |id| {
                                ids[0] = id;
                                1
                            }),
                            _ => wheel.take_many(&mut ids[..room]),
                        };
                        let kept = if ns % 3 == 1 { taken.div_ceil(2) } else { taken };
                        wheel.put_back(&ids[kept..taken]);
                        for id in &ids[..kept] {
                            let (number, told) = naive.due.pop_front().unwrap();
                            prop_assert_eq!(*id, number);
                            prop_assert!(!told.is_early(now), "{told:?} at {now:?}");
                        }
                        if taken == 0 {
                            prop_assert!(naive.due.is_empty());
                            break;
                        }
                        left -= kept;
                    }
                    let waiting = naive.slots.values().flatten();
                    for (number, told) in waiting {
                        prop_assert!(!told.is_overdue(now), "{number}: {told:?} at {now:?}");
                    }
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// A packet of a flow.
    Push(usize),
    /// Time passes, and at most so many packets leave.
    Release(u64, usize),
    TakeAll(u32, Direction),
    /// The flows of a direction are looked at with the next release; of a session more than there
    /// are, all flows.
    Hasten(u32, Direction),
    /// The next packet of a flow may leave so much later than now, or never.
    Pace(usize, Option<u64>),
}

const DIRECTIONS: [Direction; 2] = [Direction::Uplink, Direction::Downlink];

/// Bucket sets, in which flows of one line differ.
const BUCKETS: [u64; 4] = [1, 2, 3, 1 << 63];

/// Flows of all sessions, and of one that does not exist.
const FLOWS: usize = (SESSIONS as usize + 1) * DIRECTIONS.len() * BUCKETS.len();

fn key(flow: usize) -> QueueKey {
    let (line, buckets) = (flow / BUCKETS.len(), BUCKETS[flow % BUCKETS.len()]);
    let (session, direction) = (SessionIndex((line / 2) as u32), DIRECTIONS[line % 2]);
    QueueKey { session, direction, buckets, tag: 0 }
}

fn op() -> impl Strategy<Value = Op> {
    let gap = prop_oneof![Just(0), 0_u64..10 * SLOT_NS, 0_u64..2 * HORIZON_NS];
    let limit = prop_oneof![2 => Just(usize::MAX), 1 => 1_usize..40];
    prop_oneof![
        // The first flows have more than a turn, and more than their part.
        8 => prop_oneof![0..FLOWS, 0_usize..3].prop_map(Op::Push),
        4 => (step_ns(), limit).prop_map(|(ns, limit)| Op::Release(ns, limit)),
        1 => (0..=SESSIONS, 0_usize..2).prop_map(|(session, at)| Op::TakeAll(session, DIRECTIONS[at])),
        1 => (0..=SESSIONS, 0_usize..2).prop_map(|(session, at)| Op::Hasten(session, DIRECTIONS[at])),
        2 => (0..FLOWS, prop::option::weighted(0.8, gap)).prop_map(|(flow, gap)| Op::Pace(flow, gap)),
    ]
}

/// A flow as a list.
#[derive(Debug, Clone)]
struct NaiveFlow {
    /// Numbers of packets.
    pkts: VecDeque<u32>,
    /// When the next packet may leave; `None` never.
    next: Option<Nanos>,
    /// Between two packets.
    gap: Nanos,
    told: ModelEligibility,
}

impl NaiveFlow {
    fn new(flow: usize, now: Nanos) -> Self {
        let gap = Nanos([0, 1000, SLOT_NS, 3 * SLOT_NS, HORIZON_NS][flow % 5]);
        Self {
            pkts: VecDeque::new(),
            next: Some(now),
            gap,
            told: ModelEligibility { at: now, since: now },
        }
    }

    fn pace(&mut self, now: Nanos) -> Eligibility {
        match self.next {
            None => Eligibility::Never,
            Some(at) if at <= now => {
                self.told = ModelEligibility { at: now, since: now };
                Eligibility::Now
            }
            Some(at) => {
                self.told = ModelEligibility { at, since: now };
                Eligibility::At(at)
            }
        }
    }

    /// When it may leave, for a flow that is set anew.
    fn at(&self, now: Nanos) -> Nanos {
        self.next.unwrap_or(now).max(now)
    }
}

struct Naive {
    config: QueuesConfig,
    flows: Vec<NaiveFlow>,
    now: Nanos,
    pushed: u32,
}

impl Naive {
    fn new(config: QueuesConfig, now: Nanos) -> Self {
        let flows = (0..FLOWS).map(|flow| NaiveFlow::new(flow, now)).collect();
        Self { config, flows, now, pushed: 0 }
    }

    fn len(&self) -> usize {
        self.flows.iter().map(|flow| flow.pkts.len()).sum()
    }

    fn of(&mut self, wanted: &QueueKey) -> &mut NaiveFlow {
        let at = (0..FLOWS).find(|flow| key(*flow) == *wanted).unwrap();
        &mut self.flows[at]
    }
}

fn held(packet: u32, since: Nanos) -> QueuedPacket<u32> {
    QueuedPacket { packet, bytes: (packet % 1500) as u16, since }
}

fn push(queues: &mut Queues<u32>, naive: &mut Naive, flow: usize) -> Result<(), TestCaseError> {
    let (now, key, len, config) = (naive.now, key(flow), naive.len(), naive.config);
    let number = naive.pushed;
    naive.pushed += 1;
    let naive = &mut naive.flows[flow];
    let at = naive.at(now);
    let has_room = queues.has_room(queues.flow_len(&key));
    let cap = config.flow_pkts_max as usize;
    let left = config.pkts_max.saturating_sub(len);
    prop_assert_eq!(has_room, naive.pkts.len() < cap.min(left));
    if !has_room {
        return Ok(());
    }
    let pushed = queues.push(key, || Eligibility::At(at), held(number, now));
    let is_known = key.session.0 < SESSIONS;
    prop_assert_eq!(pushed, if is_known { Ok(()) } else { Err(QueueFull) });
    if is_known {
        if naive.pkts.is_empty() {
            naive.told = ModelEligibility { at, since: now };
        }
        naive.pkts.push_back(number);
    }
    Ok(())
}

fn release(queues: &mut Queues<u32>, naive: &mut Naive, limit: usize) -> Result<(), TestCaseError> {
    let now = naive.now;
    let model = core::cell::RefCell::new(naive);
    let (mut failed, mut sizes_differ) = (None, false);
    let mut went = 0;
    let gone = queues.release(
        now,
        limit,
        |key, bytes, _| {
            let mut model = model.borrow_mut();
            let flow = model.of(key);
            sizes_differ |= flow.pkts.front().is_none_or(|first| first % 1500 != u32::from(bytes));
            flow.pace(now)
        },
        |key, may_leave, held| {
            went += 1;
            let mut model = model.borrow_mut();
            let flow = model.of(key);
            let first = flow.pkts.pop_front();
            let is_right = match flow.next {
                None => !may_leave,
                Some(next) => may_leave && next <= now,
            };
            if first != Some(held.packet)
                || u32::from(held.bytes) != held.packet % 1500
                || !is_right
            {
                failed =
                    Some(format!("{key:?} released {held:?}, {may_leave}; first was {first:?}"));
            }
            flow.next = flow.next.map(|next| next.max(now) + flow.gap);
        },
    );
    prop_assert_eq!(failed, None);
    prop_assert!(!sizes_differ);
    prop_assert_eq!(gone, went);
    prop_assert!(gone < limit.saturating_add(TURN_PKTS));
    let model = model.into_inner();
    prop_assert_eq!(queues.len(), model.len());
    if gone < limit {
        for (at, flow) in model.flows.iter().enumerate().filter(|(_, flow)| !flow.pkts.is_empty()) {
            prop_assert!(!flow.told.is_overdue(now), "flow {at} is late at {now:?}: {flow:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn queues_agree_with_lists(
        ops in vec(op(), 1..400),
        start in 0_u64..1 << 50,
        // Fewer than flows, or more than those of a few.
        pkts_max in prop::sample::select(vec![0_usize, 8, 96]),
    ) {
        let sessions_max = SESSIONS as usize;
        let config = QueuesConfig { pkts_max, flow_pkts_max: 40, sessions_max, shared_rates: 0 };
        let mut queues = Queues::new(config);
        let mut naive = Naive::new(config, Nanos(start));
        release(&mut queues, &mut naive, usize::MAX)?;
        for op in ops {
            match op {
                Op::Push(flow) => push(&mut queues, &mut naive, flow)?,
                Op::Release(ns, limit) => {
                    naive.now += Nanos(ns);
                    release(&mut queues, &mut naive, limit)?;
                }
                Op::TakeAll(session, direction) => {
                    let session = SessionIndex(session);
                    let mut taken: Vec<(QueueKey, u32)> = Vec::new();
                    queues.take_all(session, direction, |key, held| taken.push((*key, held.packet)));
                    for (key, packet) in taken {
                        prop_assert_eq!((key.session, key.direction), (session, direction));
                        prop_assert_eq!(naive.of(&key).pkts.pop_front(), Some(packet));
                    }
                    let left = (0..FLOWS).filter(|flow| {
                        let key = key(*flow);
                        (key.session, key.direction) == (session, direction)
                            && !naive.flows[*flow].pkts.is_empty()
                    });
                    prop_assert_eq!(left.count(), 0);
                }
                Op::Hasten(session, direction) => {
                    let line = (SessionIndex(session), direction);
                    let mut taken = 0;
                    if session == SESSIONS {
                        queues.review_all(|_| ReviewOutcome::Recheck, |_, _, _| taken += 1);
                    } else {
                        queues.review(line.0, line.1, |_| ReviewOutcome::Recheck, |_, _, _| taken += 1);
                    }
                    prop_assert_eq!(taken, 0);
                    for (at, flow) in naive.flows.iter_mut().enumerate() {
                        if session == SESSIONS || (key(at).session, key(at).direction) == line {
                            let since = Nanos(naive.now.0.saturating_sub(SLOT_NS));
                            flow.told = ModelEligibility { at: since, since };
                        }
                    }
                }
                Op::Pace(flow, gap) => {
                    let next = gap.map(|gap| naive.now + Nanos(gap));
                    naive.flows[flow].next = next;
                }
            }
            prop_assert_eq!(queues.len(), naive.len());
            prop_assert_eq!(queues.is_empty(), naive.len() == 0);
            for (at, flow) in naive.flows.iter().enumerate() {
                let key = key(at);
                prop_assert_eq!(queues.flow_len(&key) as usize, flow.pkts.len());
                prop_assert!(flow.pkts.is_empty() || queues.has_packets_of(key.session, key.direction));
            }
        }
        let mut drained = Vec::new();
        queues.drain(|held| drained.push(held.packet));
        drained.sort_unstable();
        let mut left: Vec<u32> = naive.flows.iter().flat_map(|flow| flow.pkts.clone()).collect();
        left.sort_unstable();
        prop_assert_eq!(drained, left);
        prop_assert!(queues.is_empty());
    }

    #[test]
    fn flows_that_are_due_take_turns(
        lens in vec(1_usize..100, 2..8), limits in vec(1_usize..70, 1..10),
    ) {
        let (pkts_max, now) = (lens.iter().sum(), Nanos::from_secs(1));
        let config =
            QueuesConfig { pkts_max, flow_pkts_max: 100, sessions_max: 8, shared_rates: 0 };
        let mut queues = Queues::new(config);
        let flow = |session: usize| QueueKey {
            session: SessionIndex(session as u32),
            direction: Direction::Downlink,
            buckets: 1,
            tag: 0,
        };
        queues.release(now, 1, |_, _, _| Eligibility::Now, |_, _, _| ());
        for (session, len) in lens.iter().enumerate() {
            for number in 0..*len {
                queues.push(flow(session), || Eligibility::At(now), held(number as u32, now)).unwrap();
            }
        }
        let now = now + Nanos(SLOT_NS);
        let (mut gone, mut limits) = (vec![0; lens.len()], limits.into_iter().cycle());
        while !queues.is_empty() {
            let limit = limits.next().unwrap();
            let mut far_ahead = None;
            let count = queues.release(now, limit, |_, _, _| Eligibility::Now, |key, may_leave, _| {
                gone[key.session.0 as usize] += usize::from(may_leave);
                let behind = gone.iter().zip(&lens).filter(|(gone, len)| gone < len);
                let least = behind.map(|(gone, _)| *gone).min();
                let most = gone[key.session.0 as usize];
                if least.is_some_and(|least| most > least + TURN_PKTS) {
                    far_ahead = Some(gone.clone());
                }
            });
            prop_assert!(count >= limit || queues.is_empty());
            prop_assert_eq!(far_ahead, None);
        }
        prop_assert_eq!(gone, lens);
    }
}
