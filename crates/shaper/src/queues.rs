//! Queues of packets by flow.

mod rounds;

use adit_types::limits::BURST_MAX;
use adit_types::{Direction, Nanos, SessionIndex};

use self::rounds::{RateOpening, RateRing, RingState, RoundShare};
use crate::flow::{
    Eligibility, QueueFull, QueueKey, QueuedPacket, RateSet, ReviewOutcome, RingWait, TurnContext,
};
use crate::server::{FlowServer, PerPacket};
use crate::wheel::Wheel;

/// No packet, no flow.
const NONE: u32 = u32::MAX;

/// Packets of one flow that leave in a row before others have their turn.
const TURN_PKTS: u32 = 16;

/// Turns whose cache lines are prefetched together.
const PREFETCHED_TURNS: usize = 16;

/// Limits. Those of packets may be exceeded by one burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuesConfig {
    /// Packets of all flows.
    pub pkts_max: usize,
    /// Packets of one flow.
    pub flow_pkts_max: u32,
    /// Session indexes are below this.
    pub sessions_max: usize,
    /// Numbers of shared rates are below this; at most 64.
    pub shared_rates: u8,
}

/// Room for a packet that waits.
#[derive(Debug)]
struct QueueNode<P> {
    /// `None` while it is free.
    packet: Option<P>,
    since: Nanos,
    /// The next packet of its flow, or the next free node.
    next: u32,
    bytes: u16,
}

impl<P> QueueNode<P> {
    /// Puts a packet into a free node. Returns the next free one.
    #[inline]
    fn fill(&mut self, QueuedPacket { packet, bytes, since }: QueuedPacket<P>) -> u32 {
        let free = self.next;
        *self = Self { packet: Some(packet), since, next: NONE, bytes };
        free
    }

    /// Takes the packet of a node, which is the first of `flow`, and makes the node the first free
    /// one.
    #[inline]
    fn take(&mut self, flow: &mut FlowQueue, free: &mut u32) -> Option<QueuedPacket<P>> {
        let packet = self.packet.take()?;
        let number = flow.first;
        flow.first = self.next;
        self.next = *free;
        *free = number;
        flow.count -= 1;
        Some(QueuedPacket { packet, bytes: self.bytes, since: self.since })
    }
}

/// One flow: its queue of packets. Or a free place for one.
///
/// PERF (shaper/shaper): one cache line, and never moved: a release touches flows at random.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct FlowQueue {
    key: QueueKey,
    first: u32,
    last: u32,
    /// Zero while it is free.
    count: u32,
    /// The next flow of the same direction and session, or the next free one.
    sibling: u32,
    /// The shared rate in whose ring it waits; valid while [`FlowQueue::is_in_ring`].
    ring: u8,
    share: RoundShare,
}

impl FlowQueue {
    const FREE: Self = Self {
        key: QueueKey {
            session: SessionIndex::NONE,
            direction: Direction::Uplink,
            buckets: 0,
            tag: 0,
        },
        first: NONE,
        last: NONE,
        count: 0,
        sibling: NONE,
        ring: 0,
        share: RoundShare::NONE,
    };

    /// True if it waits in the ring of a shared rate, not in the wheel.
    const fn is_in_ring(&self) -> bool {
        self.share.quantum > 0
    }
}

const _: () = assert!(size_of::<FlowQueue>() == 64, "one cache line");

/// The index of a flow. Valid until a packet leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowIndex(pub u32);

impl FlowIndex {
    /// No flow.
    pub const NONE: Self = Self(NONE);
}

/// The first flow of a session and direction as a table of them stores it: the complement of its index.
/// Zero is none, so pages of sessions that never waited take no memory.
const fn head_word(flow: u32) -> u32 {
    !flow
}

/// The inverse of [`head_word`].
const fn head_flow(word: u32) -> u32 {
    !word
}

/// The packets of one worker that wait for their rates.
///
/// The packets of a flow leave in the order in which they came. Flows that are due at the same time
/// take turns of a few packets. Flows that wait for a shared rate take turns by their quanta.
#[derive(Debug)]
pub struct Queues<P> {
    config: QueuesConfig,
    /// Packets that wait.
    len: usize,
    nodes: Vec<QueueNode<P>>,
    /// The first free node.
    free_node: u32,
    flows: Vec<FlowQueue>,
    /// The first free flow.
    free_flow: u32,
    /// The first flow of each session and direction, as [`head_word`]s.
    by_direction_slot: Vec<u32>,
    /// Indexes of flows, followed by those of rings.
    wheel: Wheel,
    rings: Vec<RateRing>,
    /// See [`Queues::contended`].
    contended: RateSet,
}

impl<P> Queues<P> {
    /// No packets. Reserves all memory that will be used.
    #[must_use]
    pub fn new(config: QueuesConfig) -> Self {
        let direction_slots = config.sessions_max.saturating_mul(2);
        let pkts_max = match config.pkts_max {
            0 => 0,
            most => most + BURST_MAX,
        };
        // Each free node or flow is linked to the one after it; the last to an index out of range.
        let nexts = || (1..).take(pkts_max);
        let node = |next| QueueNode { packet: None, since: Nanos(0), next, bytes: 0 };
        let flow = |sibling| FlowQueue { sibling, ..FlowQueue::FREE };
        Self {
            config,
            len: 0,
            nodes: nexts().map(node).collect(),
            free_node: 0,
            flows: nexts().map(flow).collect(),
            free_flow: 0,
            by_direction_slot: vec![
                head_word(NONE);
                if pkts_max == 0 { 0 } else { direction_slots }
            ],
            wheel: Wheel::new(pkts_max + usize::from(config.shared_rates), config.shared_rates),
            rings: vec![
                RateRing { state: RingState::Idle, weight: 0, share: RoundShare::NONE };
                config.shared_rates.into()
            ],
            contended: RateSet::default(),
        }
    }

    /// Packets that wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without packets.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first flow of one direction of a session, or [`FlowIndex::NONE`].
    #[inline]
    #[must_use]
    pub fn first_flow(&self, session: SessionIndex, direction: Direction) -> FlowIndex {
        FlowIndex(self.head(session, direction))
    }

    /// The flow at an index, to be prefetched.
    #[inline]
    #[must_use]
    pub fn flow(&self, FlowIndex(flow): FlowIndex) -> Option<&FlowQueue> {
        self.flows.get(flow as usize)
    }

    /// The first flow of a session's direction.
    #[inline]
    fn head(&self, session: SessionIndex, direction: Direction) -> u32 {
        self.by_direction_slot
            .get(session.direction_slot(direction))
            .map_or(NONE, |head| head_flow(*head))
    }

    /// True when packets of this direction of a session wait.
    #[inline]
    #[must_use]
    pub fn has_packets_of(&self, session: SessionIndex, direction: Direction) -> bool {
        !self.is_empty() && self.head(session, direction) != NONE
    }

    /// Packets of the flow of `key` that wait.
    #[must_use]
    pub fn flow_len(&self, key: &QueueKey) -> u32 {
        self.find(key).map_or(0, |flow| self.len_of(flow))
    }

    /// The flow of a key, if packets of it wait.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &QueueKey) -> Option<FlowIndex> {
        self.find_from(self.first_flow(key.session, key.direction), key)
    }

    /// Packets of the flow at an index that wait.
    #[inline]
    #[must_use]
    pub fn len_of(&self, FlowIndex(flow): FlowIndex) -> u32 {
        self.flows.get(flow as usize).map_or(0, |flow| flow.count)
    }

    /// True if a flow with `flow_len` packets may queue one more. A flow may be no longer than the room
    /// that is left (dynamic threshold, Choudhury and Hahne 1998, alpha = 1). A whole burst may be
    /// checked before any of it is pushed: the capacity exceeds the limits by a burst.
    #[inline]
    #[must_use]
    pub fn has_room(&self, flow_len: u32) -> bool {
        let left = self.config.pkts_max.saturating_sub(self.len());
        flow_len < self.config.flow_pkts_max && (flow_len as usize) < left
    }

    /// The shared rates that flows wait for. A rate stays in the set until the next turn of its ring after
    /// the last member left.
    #[inline]
    #[must_use]
    pub const fn contended(&self) -> RateSet {
        self.contended
    }

    /// [`Queues::find`] with the [`Queues::first_flow`] of the session of `key`.
    #[inline]
    #[must_use]
    pub fn find_from(&self, FlowIndex(first): FlowIndex, key: &QueueKey) -> Option<FlowIndex> {
        let mut at = first;
        while let Some(flow) = self.flows.get(at as usize) {
            if (flow.key.buckets, flow.key.tag) == (key.buckets, key.tag) {
                return Some(FlowIndex(at));
            }
            at = flow.sibling;
        }
        None
    }

    /// Appends a packet to its flow. A new flow is first served at its `eligibility`. Does not check the
    /// limits of [`Queues::has_room`]; the caller does that first.
    ///
    /// # Errors
    /// [`QueueFull`] if all nodes are in use or the session is out of range; the packet is dropped.
    pub fn push(
        &mut self,
        key: QueueKey,
        eligibility: impl FnOnce() -> Eligibility,
        held: QueuedPacket<P>,
    ) -> Result<(), QueueFull> {
        match self.find(&key) {
            Some(flow) => self.append(flow, held),
            None => self.push_first(key, eligibility(), held),
        }
    }

    /// Appends a packet to a flow with packets. Does not check the limits of [`Queues::has_room`].
    ///
    /// # Errors
    /// See [`Queues::push`].
    #[inline]
    pub fn append(
        &mut self,
        FlowIndex(flow): FlowIndex,
        held: QueuedPacket<P>,
    ) -> Result<(), QueueFull> {
        let number = self.free_node;
        let Some(flow) = self.flows.get_mut(flow as usize) else { return Err(QueueFull) };
        debug_assert!(flow.count > 0, "a flow with packets");
        let Some(node) = self.nodes.get_mut(number as usize) else { return Err(QueueFull) };
        self.free_node = node.fill(held);
        self.len += 1;
        flow.count += 1;
        let last = core::mem::replace(&mut flow.last, number);
        if let Some(last) = self.nodes.get_mut(last as usize) {
            last.next = number;
        }
        Ok(())
    }

    /// Makes a flow from its first packet.
    ///
    /// # Errors
    /// See [`Queues::push`].
    fn push_first(
        &mut self,
        key: QueueKey,
        eligibility: Eligibility,
        held: QueuedPacket<P>,
    ) -> Result<(), QueueFull> {
        let Some(head) = self.by_direction_slot.get_mut(key.session.direction_slot(key.direction))
        else {
            return Err(QueueFull);
        };
        let (first, number) = (self.free_node, self.free_flow);
        let Some(node) = self.nodes.get_mut(first as usize) else { return Err(QueueFull) };
        // There are as many flows as packets.
        let Some(flow) = self.flows.get_mut(number as usize) else { return Err(QueueFull) };
        self.free_node = node.fill(held);
        self.len += 1;
        self.free_flow = flow.sibling;
        let sibling = head_flow(core::mem::replace(head, head_word(number)));
        *flow = FlowQueue { key, first, last: first, count: 1, sibling, ..FlowQueue::FREE };
        self.schedule(number, eligibility);
        Ok(())
    }

    /// Puts a flow, which is in no list, into the wheel or a ring.
    #[inline]
    fn schedule(&mut self, number: u32, eligibility: Eligibility) {
        match eligibility {
            Eligibility::Now | Eligibility::Never => self.wheel.insert(number, Nanos(0)),
            Eligibility::At(at) => self.wheel.insert(number, at),
            Eligibility::InTurn(wait) => self.schedule_in_ring(number, wait),
        }
    }

    /// Puts a flow, which is in no list, into the ring of `ring_rate`, or without one into the wheel.
    #[inline(never)]
    fn schedule_in_ring(&mut self, number: u32, wait: RingWait) {
        let RingWait { ring_rate, rate, at, quantum } = wait;
        match self.join_ring(number, ring_rate, quantum) {
            None => self.wheel.insert(number, at),
            Some(RingState::Idle) => self.schedule_ring(ring_rate, RateOpening { rate, at }),
            Some(RingState::Scheduled | RingState::InRing) => {}
        }
    }

    /// Takes packets that may leave by `now`, until `limit` packets were taken and the turn of the last
    /// flow ended. Returns how many were taken, sent or dropped.
    ///
    /// `admit` is [`FlowServer::admit`] and `release` is [`FlowServer::take`].
    pub fn release(
        &mut self,
        now: Nanos,
        limit: usize,
        admit: impl FnMut(&QueueKey, u16, TurnContext) -> Eligibility,
        release: impl FnMut(&QueueKey, bool, QueuedPacket<P>),
    ) -> usize {
        self.serve(now, limit, &mut PerPacket { admit, release })
    }

    /// [`Queues::release`] with a server that keeps state during a turn.
    pub fn serve(&mut self, now: Nanos, limit: usize, server: &mut impl FlowServer<P>) -> usize {
        self.wheel.advance(now);
        let (mut taken, mut prefetched) = (0, 0);
        while taken < limit {
            if prefetched == 0 {
                prefetched = PREFETCHED_TURNS;
                self.prefetch_due(server);
            }
            prefetched -= 1;
            let Some(number) = self.wheel.take() else { break };
            taken += match (number as usize).checked_sub(self.flows.len()) {
                None => self.serve_flow(number, server),
                Some(rate) => {
                    let rate = u8::try_from(rate).unwrap_or_default();
                    self.serve_rate(rate, limit - taken, server)
                }
            };
        }
        taken
    }

    /// Prefetches what the next turns read.
    ///
    /// Cost: two passes over [`PREFETCHED_TURNS`] flows: the flows, then their first packets and rates.
    fn prefetch_due(&self, server: &impl FlowServer<P>) {
        let next = || {
            let due = self.wheel.due_ids().take(PREFETCHED_TURNS);
            due.filter_map(|number| self.flows.get(number as usize))
        };
        next().for_each(|flow| server.prefetch(flow));
        for flow in next() {
            server.prefetch_flow(&flow.key);
            self.nodes.get(flow.first as usize).inspect(|node| server.prefetch(*node));
        }
    }

    /// Serves a flow, which is in no list. Returns how many packets were taken, sent or dropped.
    #[inline]
    fn serve_flow(&mut self, number: u32, server: &mut impl FlowServer<P>) -> usize {
        let flow = self.flows.get_mut(number as usize).filter(|flow| flow.count > 0);
        let Some(flow) = flow else { return 0 };
        debug_assert!(!flow.is_in_ring(), "a flow from the wheel");
        let context = TurnContext { rate: None, contended: self.contended };
        let mut turn = server.begin_turn(&flow.key);
        let mut taken = 0;
        let again = loop {
            if flow.count == 0 || taken == TURN_PKTS {
                break None;
            }
            if let Some(at) = server.blocked_until(&mut turn) {
                break Some(Eligibility::At(at));
            }
            let Some(node) = self.nodes.get_mut(flow.first as usize) else { break None };
            let may_leave = match server.admit(&mut turn, node.bytes, context) {
                Eligibility::Now => true,
                Eligibility::Never => false,
                later => break Some(later),
            };
            if let Some(held) = node.take(flow, &mut self.free_node) {
                server.take(&mut turn, may_leave, held);
            }
            taken += 1;
        };
        server.end_turn(turn);
        let is_empty = flow.count == 0;
        self.len -= taken as usize;
        match again {
            _ if is_empty => self.remove_flow(number),
            Some(later) => self.schedule(number, later),
            None => self.wheel.insert_due(number),
        }
        taken as usize
    }

    /// Takes all packets. The wheel advances to the end of time, so packets that are pushed later are
    /// never released.
    pub fn drain(&mut self, mut take: impl FnMut(QueuedPacket<P>)) {
        self.release(
            Nanos::NEVER,
            usize::MAX,
            |_, _, _| Eligibility::Never,
            |_, _, held| take(held),
        );
    }

    /// Takes all packets of one direction of a session.
    pub fn take_all(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        mut take: impl FnMut(&QueueKey, QueuedPacket<P>),
    ) {
        self.review(session, direction, |_| ReviewOutcome::Release, |key, _, held| take(key, held));
    }

    /// Reviews the flows of one direction of a session before their time. `take` gets the packets of
    /// flows that are to be released, with true, or dropped, with false. The others are checked by the
    /// next release or, if they wait in a ring, when the ring has its turn.
    pub fn review(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        mut review: impl FnMut(&QueueKey) -> ReviewOutcome,
        mut take: impl FnMut(&QueueKey, bool, QueuedPacket<P>),
    ) {
        let mut at = self.head(session, direction);
        while let Some(flow) = self.flows.get_mut(at as usize) {
            let number = core::mem::replace(&mut at, flow.sibling);
            let outcome = review(&flow.key);
            if outcome == ReviewOutcome::Recheck {
                // A flow in a ring is checked when the ring has its turn.
                if !flow.is_in_ring() {
                    self.wheel.remove(number);
                    self.wheel.insert_due(number);
                }
                continue;
            }
            self.unschedule(number);
            let flow = &mut self.flows[number as usize];
            while let Some(held) = self
                .nodes
                .get_mut(flow.first as usize)
                .filter(|_| flow.count > 0)
                .and_then(|node| node.take(flow, &mut self.free_node))
            {
                self.len -= 1;
                take(&flow.key, outcome == ReviewOutcome::Release, held);
            }
            self.remove_flow(number);
        }
    }

    /// [`Queues::review`] of all flows; one with siblings is reviewed several times.
    pub fn review_all(
        &mut self,
        mut review: impl FnMut(&QueueKey) -> ReviewOutcome,
        mut take: impl FnMut(&QueueKey, bool, QueuedPacket<P>),
    ) {
        for number in 0..self.flows.len() {
            let Some(FlowQueue { key, count: 1.., .. }) = self.flows.get(number) else { continue };
            let QueueKey { session, direction, .. } = *key;
            self.review(session, direction, &mut review, &mut take);
        }
    }

    /// Takes a flow out of the wheel or its ring.
    fn unschedule(&mut self, number: u32) {
        self.wheel.remove(number);
        let flow = &mut self.flows[number as usize];
        if flow.is_in_ring()
            && let Some(ring) = self.rings.get_mut(usize::from(flow.ring))
        {
            ring.set_quantum(&mut flow.share, 0);
        }
        flow.share = RoundShare::NONE;
    }

    /// Frees a flow without packets, which is in no list.
    fn remove_flow(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let (slot, next) = (flow.key.session.direction_slot(flow.key.direction), flow.sibling);
        flow.sibling = core::mem::replace(&mut self.free_flow, number);
        let Some(head) = self.by_direction_slot.get_mut(slot) else { return };
        let first = head_flow(*head);
        if first == number {
            *head = head_word(next);
            return;
        }
        let mut at = first;
        while let Some(other) = self.flows.get_mut(at as usize) {
            if other.sibling == number {
                other.sibling = next;
                return;
            }
            at = other.sibling;
        }
    }
}
