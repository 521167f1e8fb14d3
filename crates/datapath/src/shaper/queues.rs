//! Queues of packets, one for each flow, and the order in which they are served.

mod rounds;

use adit_types::limits::BURST_MAX;
use adit_types::{Direction, Nanos, SessionIndex};

use self::rounds::{RateOpening, RateRing, RingState};
use crate::shaper::flow::{
    Eligibility, QueueFull, QueueKey, QueuedPacket, RateSet, ReviewOutcome, RingWait, TurnContext,
};
use crate::shaper::flow_queue::{FlowQueue, FreePlace, NONE, NextPacket, QueueNode, RoundShare};
use crate::shaper::server::{AloneResult, ClosureServer, FlowServer};
use crate::shaper::wheel::Wheel;

/// Maximum of packets of one flow that leave in a row before it is the next flow's turn.
const TURN_PKTS_MAX: u32 = 16;

/// How many turns are taken from the wheel at once, so that their cache lines are prefetched
/// together.
const DUE_BATCH: usize = 16;

/// Capacities of the queues. One burst may exceed those of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuesConfig {
    /// Maximum of packets of all flows.
    pub pkts_max: usize,
    /// Maximum of packets of one flow.
    pub flow_pkts_max: u32,
    /// Session indexes are below this.
    pub sessions_max: usize,
    /// Number of shared rates, at most 64; their indexes are below it.
    pub shared_rates: u8,
}

/// The index of a flow. Valid until a packet of the flow leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowIndex(pub u32);

impl FlowIndex {
    /// No flow.
    pub const NONE: Self = Self(NONE);
}

/// Encodes the first flow of a session and direction for the table of them: the complement of its
/// index. No flow is zero, so pages of the table for sessions that never waited take no memory.
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
    /// How many packets wait.
    len: usize,
    nodes: Vec<QueueNode<P>>,
    /// The first node that is free.
    free_node: u32,
    flows: Vec<FlowQueue>,
    /// The first entry of `flows` that is free.
    free_flow: u32,
    /// The first flow of each session and direction, as [`head_word`]s.
    by_direction_slot: Vec<u32>,
    /// The wheel. Its ids are the indexes of flows, followed by those of rings.
    wheel: Wheel,
    rings: Vec<RateRing>,
    /// The value of [`Queues::contended`].
    contended: RateSet,
}

impl<P> Queues<P> {
    /// Allocates all memory that will be used.
    #[must_use]
    pub fn new(config: QueuesConfig) -> Self {
        let direction_slots = config.sessions_max.saturating_mul(2);
        let pkts_max = match config.pkts_max {
            0 => 0,
            most => most + BURST_MAX,
        };
        // Each free node or flow names the next one; the last one names an index out of range.
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

    /// Returns how many packets wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no packet waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the first flow of one direction of a session, or [`FlowIndex::NONE`].
    #[inline]
    #[must_use]
    pub fn first_flow(&self, session: SessionIndex, direction: Direction) -> FlowIndex {
        FlowIndex(self.head(session, direction))
    }

    /// Returns the flow at an index, for the caller to prefetch.
    #[inline]
    #[must_use]
    pub fn flow(&self, FlowIndex(flow): FlowIndex) -> Option<&FlowQueue> {
        self.flows.get(flow as usize)
    }

    /// Returns the first flow of one direction of a session, or `NONE`.
    #[inline]
    fn head(&self, session: SessionIndex, direction: Direction) -> u32 {
        self.by_direction_slot
            .get(session.direction_slot(direction))
            .map_or(NONE, |head| head_flow(*head))
    }

    /// True if packets of this direction of a session wait.
    #[inline]
    #[must_use]
    pub fn has_packets_of(&self, session: SessionIndex, direction: Direction) -> bool {
        !self.is_empty() && self.head(session, direction) != NONE
    }

    /// Returns how many packets of the flow of `key` wait.
    #[must_use]
    pub fn flow_len(&self, key: &QueueKey) -> u32 {
        self.find(key).map_or(0, |flow| self.flow_len_at(flow))
    }

    /// Returns the flow of a key; `None` if no packets of it wait.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &QueueKey) -> Option<FlowIndex> {
        let QueueKey { session, direction, buckets, tag } = *key;
        self.find_from(self.first_flow(session, direction), buckets, tag)
    }

    /// Returns how many packets of the flow at an index wait.
    #[inline]
    #[must_use]
    pub fn flow_len_at(&self, FlowIndex(flow): FlowIndex) -> u32 {
        self.flows.get(flow as usize).map_or(0, |flow| flow.count)
    }

    /// True if a flow with `flow_len` packets may queue one more. A flow may be no longer than the
    /// free room in all queues (dynamic threshold, Choudhury and Hahne 1998, alpha = 1). A whole
    /// burst may be checked before any of it is pushed: queues can exceed the limit by one burst.
    #[inline]
    #[must_use]
    pub fn has_room(&self, flow_len: u32) -> bool {
        flow_len < self.room()
    }

    /// Returns the length below which a flow may queue a packet ([`Queues::has_room`]).
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        let left = self.config.pkts_max.saturating_sub(self.len());
        u32::try_from(left).unwrap_or(u32::MAX).min(self.config.flow_pkts_max)
    }

    /// Returns the shared rates that flows wait for. After the last member of a ring has left, the
    /// rate stays in the set until the next turn of the ring.
    #[inline]
    #[must_use]
    pub const fn contended(&self) -> RateSet {
        self.contended
    }

    /// Finds a flow like [`Queues::find`], by the [`Queues::first_flow`] of its session and
    /// direction and by the rest of its key.
    #[inline]
    #[must_use]
    pub fn find_from(
        &self,
        FlowIndex(first): FlowIndex,
        buckets: u64,
        tag: u16,
    ) -> Option<FlowIndex> {
        let mut at = first;
        while let Some(flow) = self.flows.get(at as usize) {
            if (flow.key.buckets, flow.key.tag) == (buckets, tag) {
                return Some(FlowIndex(at));
            }
            at = flow.sibling;
        }
        None
    }

    /// Appends a packet to its flow. A new flow is first served at its `eligibility`. The caller
    /// must have checked [`Queues::has_room`].
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

    /// Appends a packet to a flow with packets. The caller must have checked [`Queues::has_room`].
    ///
    /// # Errors
    /// See [`Queues::push`].
    fn append(&mut self, flow: FlowIndex, held: QueuedPacket<P>) -> Result<(), QueueFull> {
        let Some(place) = self.place(flow) else { return Err(QueueFull) };
        place.fill(held);
        Ok(())
    }

    /// Returns the place at the end of a flow with packets; `None` if all nodes are in use. The
    /// caller must have checked [`Queues::has_room`].
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): runs for every packet that waits. The packet is no
    // parameter that might have to be dropped, so it stays in registers.
    pub fn place(&mut self, FlowIndex(flow): FlowIndex) -> Option<FreePlace<'_, P>> {
        let Self { len, nodes, free_node, flows, .. } = self;
        let flow = flows.get_mut(flow as usize)?;
        debug_assert!(flow.count > 0, "a flow with packets");
        nodes.get(*free_node as usize)?;
        Some(FreePlace { len, nodes, free_node, flow })
    }

    /// Creates a flow with its first packet.
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

    /// Puts a flow that is in no list into the wheel or a ring.
    #[inline]
    fn schedule(&mut self, number: u32, eligibility: Eligibility) {
        match eligibility {
            Eligibility::Now | Eligibility::Never => self.wheel.insert(number, Nanos(0)),
            Eligibility::At(at) => self.wheel.insert(number, at),
            Eligibility::InTurn(wait) => self.schedule_in_ring(number, wait),
        }
    }

    /// Puts a flow that is in no list into the ring of `ring_rate`, or into the wheel if there is
    /// no such rate.
    #[inline(never)]
    fn schedule_in_ring(&mut self, number: u32, wait: RingWait) {
        let RingWait { ring_rate, rate, at, quantum } = wait;
        match self.join_ring(number, ring_rate, quantum) {
            None => self.wheel.insert(number, at),
            Some(RingState::Idle) => self.schedule_ring(ring_rate, RateOpening { rate, at }),
            Some(RingState::Scheduled | RingState::InRing) => {}
        }
    }

    /// Releases packets that may leave by `now`, until `limit` packets are taken and the turn of
    /// the last flow has ended. Returns how many packets were taken, to be sent or dropped.
    ///
    /// `admit` does what [`FlowServer::admit`] does, `release` what [`FlowServer::take`] does.
    pub fn release(
        &mut self,
        now: Nanos,
        limit: usize,
        admit: impl FnMut(&QueueKey, u16, TurnContext) -> Eligibility,
        release: impl FnMut(&QueueKey, bool, QueuedPacket<P>),
    ) -> usize {
        self.serve(now, limit, &mut ClosureServer { admit, release })
    }

    /// Releases packets like [`Queues::release`], with a server that keeps state during a turn.
    #[inline]
    pub fn serve(&mut self, now: Nanos, limit: usize, server: &mut impl FlowServer<P>) -> usize {
        self.wheel.advance(now);
        let mut taken = 0;
        while taken < limit {
            // PERF (adit-bench datapath --rates wait): turns are taken and prefetched together, so
            // that their cache misses overlap.
            let mut due = [0; DUE_BATCH];
            let room = (limit - taken).min(DUE_BATCH);
            let count = self.wheel.take_many(due.get_mut(..room).unwrap_or_default());
            let due = due.get(..count).unwrap_or_default();
            if due.is_empty() {
                break;
            }
            self.prefetch_turns(due, server);
            for (at, &number) in due.iter().enumerate() {
                if taken >= limit {
                    self.wheel.put_back(due.get(at..).unwrap_or_default());
                    break;
                }
                taken += match (number as usize).checked_sub(self.flows.len()) {
                    None => self.serve_flow(number, server),
                    Some(rate) => {
                        let rate = u8::try_from(rate).unwrap_or_default();
                        self.serve_rate(rate, limit - taken, server)
                    }
                };
            }
        }
        taken
    }

    /// Prefetches the cache lines that the turns of `due` read: the flows, then their first packets
    /// and rates.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): inlined, runs in every turn.
    fn prefetch_turns(&self, due: &[u32], server: &impl FlowServer<P>) {
        let flows = || due.iter().filter_map(|number| self.flows.get(*number as usize));
        flows().for_each(|flow| server.prefetch(flow));
        for flow in flows() {
            server.prefetch_flow(&flow.key);
            self.nodes.get(flow.first as usize).inspect(|node| server.prefetch(*node));
        }
    }

    /// Serves a flow that is in no list. Returns how many packets were taken, to be sent or
    /// dropped.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): inlined, runs in every turn.
    fn serve_flow(&mut self, number: u32, server: &mut impl FlowServer<P>) -> usize {
        match self.serve_next(number, server) {
            AloneResult::TakenLast(at) => {
                self.end_turn(number, at);
                1
            }
            AloneResult::Taken => 1 + self.serve_more(number, server),
            AloneResult::Closed(at) => {
                self.wheel.insert(number, at);
                0
            }
            AloneResult::Shared => self.serve_shared_flow(number, server),
        }
    }

    /// Serves the next packet of a flow if there is one.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): inlined, runs in every turn.
    fn serve_next(&mut self, number: u32, server: &mut impl FlowServer<P>) -> AloneResult {
        let Self { flows, nodes, free_node, len, .. } = self;
        let flow = flows.get_mut(number as usize);
        let Some(flow) = flow else { return AloneResult::Shared };
        debug_assert!(!flow.is_in_ring(), "a flow from the wheel");
        let node = nodes.get_mut(flow.first as usize);
        let Some(node) = node else { return AloneResult::Shared };
        let result = server.serve_alone(NextPacket { node, flow, free_node });
        if let AloneResult::Taken | AloneResult::TakenLast(_) = result {
            *len -= 1;
        }
        result
    }

    /// Ends the turn of a flow whose rates are closed until `at`.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): inlined, runs in every turn.
    fn end_turn(&mut self, number: u32, at: Nanos) {
        match self.flow_len_at(FlowIndex(number)) {
            0 => self.remove_flow(number),
            _ => self.wheel.insert(number, at),
        }
    }

    /// Continues the turn of a flow after its first packet. Returns how many more were taken.
    #[inline(never)]
    fn serve_more(&mut self, number: u32, server: &mut impl FlowServer<P>) -> usize {
        let mut taken = 0;
        loop {
            if self.flow_len_at(FlowIndex(number)) == 0 {
                self.remove_flow(number);
                return taken;
            }
            if taken == TURN_PKTS_MAX as usize - 1 {
                self.wheel.insert_due(number);
                return taken;
            }
            match self.serve_next(number, server) {
                AloneResult::Taken => taken += 1,
                AloneResult::TakenLast(at) => {
                    self.end_turn(number, at);
                    return taken + 1;
                }
                AloneResult::Closed(at) => {
                    self.wheel.insert(number, at);
                    return taken;
                }
                AloneResult::Shared => return taken + self.serve_shared_flow(number, server),
            }
        }
    }

    /// Serves a flow that [`FlowServer::serve_alone`] left to the general path. Returns how many
    /// packets were taken.
    #[inline(never)]
    fn serve_shared_flow(&mut self, number: u32, server: &mut impl FlowServer<P>) -> usize {
        let flow = self.flows.get_mut(number as usize).filter(|flow| flow.count > 0);
        let Some(flow) = flow else { return 0 };
        let context = TurnContext { rate: None, contended: self.contended };
        let mut turn = server.begin_turn(&flow.key);
        let mut taken = 0;
        let again = loop {
            if flow.count == 0 || taken == TURN_PKTS_MAX {
                break None;
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

    /// Takes all packets. Advances the wheel to the end of time, so packets that are pushed later
    /// are never released.
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

    /// Reviews the flows of one direction of a session before their time. `take` gets each packet
    /// of flows to be released, with true, and of flows to be dropped, with false. The rates of the
    /// other flows are checked by the next release or, if they wait in a ring, in the ring's turn.
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
                // A flow in a ring is checked when it is the ring's turn.
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

    /// Reviews all flows like [`Queues::review`]; may review a flow several times.
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

    /// Removes a flow from the wheel and from its ring.
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

    /// Frees a flow that has no packets and is in no list.
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
