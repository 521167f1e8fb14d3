//! Queues of packets by flow.

use adit_types::limits::BURST_MAX;
use adit_types::{Direction, Nanos, SessionIndex};

use crate::wheel::Wheel;

/// No packet, no flow.
const NONE: u32 = u32::MAX;

/// Packets of one flow that leave in a row before others have their turn.
const TURN_PKTS: u32 = 16;

/// Most that waits, but for a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuesConfig {
    /// Packets of all flows.
    pub pkts_max: usize,
    /// Packets of one flow.
    pub flow_pkts_max: u32,
    /// Sessions; every index is below.
    pub sessions_max: usize,
}

/// What shares a queue: packets of one direction of a session that pass the same buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowKey {
    /// The session.
    pub session: SessionIndex,
    /// The direction.
    pub direction: Direction,
    /// The session's buckets: bit n is bucket n.
    pub buckets: u64,
}

/// A packet that waits.
#[derive(Debug)]
pub struct Held<P> {
    /// The packet, and where it goes.
    pub packet: P,
    /// Octets that count for its rates.
    pub bytes: u16,
    /// Since when it waits.
    pub since: Nanos,
}

/// Why a packet may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// When the first packet of a flow may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Now.
    Now,
    /// Not before.
    At(Nanos),
    /// Never: all packets of the flow are to go.
    Never,
}

/// What becomes of a flow that is looked at out of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// It is looked at with what is due.
    Hasten,
    /// Its packets leave now.
    Leave,
}

#[derive(Debug)]
struct Node<P> {
    held: Held<P>,
    next: u32,
}

#[derive(Debug)]
struct Flow {
    key: FlowKey,
    first: u32,
    last: u32,
    count: u32,
    /// The next flow of the same direction and session.
    sibling: u32,
}

/// The packets of one worker that wait for their rates.
///
/// Packets of a flow leave in the order in which they came. Flows that are due at once take turns of
/// a few packets.
#[derive(Debug)]
pub struct Queues<P> {
    config: QueuesConfig,
    nodes: Vec<Option<Node<P>>>,
    free_nodes: Vec<u32>,
    flows: Vec<Option<Flow>>,
    free_flows: Vec<u32>,
    /// The first flow of each session and direction.
    by_line: Vec<u32>,
    wheel: Wheel,
}

impl<P> Queues<P> {
    /// No packets. Reserves all memory that will be used.
    #[must_use]
    pub fn new(config: QueuesConfig) -> Self {
        let lines = config.sessions_max.saturating_mul(2);
        let pkts_max = match config.pkts_max {
            0 => 0,
            most => most + BURST_MAX,
        };
        let numbers = || (0..).take(pkts_max).collect();
        Self {
            config,
            nodes: core::iter::repeat_with(|| None).take(pkts_max).collect(),
            free_nodes: numbers(),
            flows: core::iter::repeat_with(|| None).take(pkts_max).collect(),
            free_flows: numbers(),
            by_line: vec![NONE; if pkts_max == 0 { 0 } else { lines }],
            wheel: Wheel::new(pkts_max),
        }
    }

    /// Packets that wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len() - self.free_nodes.len()
    }

    /// True without packets.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.free_nodes.len() == self.nodes.len()
    }

    /// True when packets of this direction of a session wait.
    #[inline]
    #[must_use]
    pub fn waits(&self, session: SessionIndex, direction: Direction) -> bool {
        !self.is_empty()
            && self.by_line.get(line_at(session, direction)).is_some_and(|at| *at != NONE)
    }

    /// Packets of a flow that wait.
    #[must_use]
    pub fn flow_len(&self, key: &FlowKey) -> u32 {
        let flow = self.find(key).and_then(|at| self.flows.get(at as usize)?.as_ref());
        flow.map_or(0, |flow| flow.count)
    }

    /// True when a packet of a flow may wait of which `flow_len` do. Whoever asks for a burst before
    /// he pushes it finds room for all of it: that much there is beyond the limits.
    #[inline]
    #[must_use]
    pub fn has_room(&self, flow_len: u32) -> bool {
        self.len() < self.config.pkts_max && flow_len < self.config.flow_pkts_max
    }

    fn find(&self, key: &FlowKey) -> Option<u32> {
        self.find_from(*self.by_line.get(line_at(key.session, key.direction))?, key)
    }

    /// Looks for a flow among `head` and its siblings.
    fn find_from(&self, head: u32, key: &FlowKey) -> Option<u32> {
        let mut at = head;
        while let Some(Some(flow)) = self.flows.get(at as usize) {
            if flow.key.buckets == key.buckets {
                return Some(at);
            }
            at = flow.sibling;
        }
        None
    }

    /// Appends a packet to its flow. A flow that did not wait is looked at when `at` has come.
    ///
    /// # Errors
    /// [`Full`] where [`Queues::has_room`] had said so, or for a session out of range; the packet is
    /// gone.
    pub fn push(&mut self, key: FlowKey, at: Nanos, held: Held<P>) -> Result<(), Full> {
        let line = line_at(key.session, key.direction);
        let Some(head) = self.by_line.get(line).copied() else { return Err(Full) };
        let Some(node) = self.free_nodes.last().copied() else { return Err(Full) };
        if let Some(flow) = self.find_from(head, &key)
            && let Some(Some(flow)) = self.flows.get_mut(flow as usize)
        {
            self.free_nodes.pop();
            self.nodes[node as usize] = Some(Node { held, next: NONE });
            let last = core::mem::replace(&mut flow.last, node);
            flow.count += 1;
            if flow.count == 1 {
                flow.first = node;
            } else if let Some(Some(last)) = self.nodes.get_mut(last as usize) {
                last.next = node;
            }
            return Ok(());
        }
        // There are as many as packets.
        let Some(flow) = self.free_flows.pop() else { return Err(Full) };
        self.free_nodes.pop();
        self.nodes[node as usize] = Some(Node { held, next: NONE });
        let sibling = core::mem::replace(&mut self.by_line[line], flow);
        self.flows[flow as usize] = Some(Flow { key, first: node, last: node, count: 1, sibling });
        self.wheel.insert(flow, at);
        Ok(())
    }

    /// Releases what may leave by `now`, until `limit` packets went and the turn of a flow ended;
    /// tells how many packets went.
    ///
    /// `pace` says of a flow whether its next packet, of so many octets, may leave; `release` takes
    /// it, with true, and the packets of a flow that never may, with false.
    pub fn release(
        &mut self,
        now: Nanos,
        limit: usize,
        mut pace: impl FnMut(&FlowKey, u16) -> Pace,
        mut release: impl FnMut(&FlowKey, bool, Held<P>),
    ) -> usize {
        self.wheel.advance(now);
        let mut gone = 0;
        while gone < limit {
            let Some(number) = self.wheel.take() else { break };
            let Some(mut flow) = self.flows.get_mut(number as usize).and_then(Option::take) else {
                continue;
            };
            let mut turn = 0;
            let again = loop {
                if flow.count == 0 || turn == TURN_PKTS {
                    break None;
                }
                let may_leave = match pace(&flow.key, self.bytes_of(flow.first)) {
                    Pace::At(at) => break Some(at),
                    Pace::Now => true,
                    Pace::Never => false,
                };
                if let Some(held) = self.take_first(&mut flow) {
                    release(&flow.key, may_leave, held);
                }
                turn += 1;
                gone += 1;
            };
            if flow.count == 0 {
                self.forget(&flow, number);
                continue;
            }
            match again {
                Some(at) => self.wheel.insert(number, at),
                None => self.wheel.insert_due(number),
            }
            self.flows[number as usize] = Some(flow);
        }
        gone
    }

    /// Takes everything that waits. What is pushed later waits forever.
    pub fn drain(&mut self, mut take: impl FnMut(Held<P>)) {
        self.release(Nanos::NEVER, usize::MAX, |_, _| Pace::Never, |_, _, held| take(held));
    }

    /// Takes everything of one direction of a session that waits.
    pub fn take_all(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        take: impl FnMut(&FlowKey, Held<P>),
    ) {
        self.review(session, direction, |_| Review::Leave, take);
    }

    /// Looks at the flows of one direction of a session out of their time: takes the packets of some,
    /// and the others are looked at with the next release.
    pub fn review(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        mut review: impl FnMut(&FlowKey) -> Review,
        mut take: impl FnMut(&FlowKey, Held<P>),
    ) {
        let head = self.by_line.get(line_at(session, direction));
        let mut at = head.copied().unwrap_or(NONE);
        while let Some(mut flow) = self.flows.get_mut(at as usize).and_then(Option::take) {
            let number = core::mem::replace(&mut at, flow.sibling);
            self.wheel.remove(number);
            if review(&flow.key) == Review::Hasten {
                self.wheel.insert_due(number);
                self.flows[number as usize] = Some(flow);
                continue;
            }
            while let Some(held) = self.take_first(&mut flow) {
                take(&flow.key, held);
            }
            self.forget(&flow, number);
        }
    }

    /// The same for all flows.
    pub fn review_all(
        &mut self,
        mut review: impl FnMut(&FlowKey) -> Review,
        mut take: impl FnMut(&FlowKey, Held<P>),
    ) {
        for number in 0..self.flows.len() {
            let Some(Some(Flow { key, .. })) = self.flows.get(number) else { continue };
            let FlowKey { session, direction, .. } = *key;
            self.review(session, direction, &mut review, &mut take);
        }
    }

    fn bytes_of(&self, node: u32) -> u16 {
        let node = self.nodes.get(node as usize).and_then(Option::as_ref);
        node.map_or(0, |node| node.held.bytes)
    }

    fn take_first(&mut self, flow: &mut Flow) -> Option<Held<P>> {
        let Node { held, next } = self.nodes.get_mut(flow.first as usize)?.take()?;
        self.free_nodes.push(flow.first);
        flow.first = next;
        flow.count -= 1;
        Some(held)
    }

    /// Takes a flow without packets, which was at `number`, out of its line.
    fn forget(&mut self, flow: &Flow, number: u32) {
        self.free_flows.push(number);
        let Some(head) = self.by_line.get_mut(line_at(flow.key.session, flow.key.direction)) else {
            return;
        };
        if *head == number {
            *head = flow.sibling;
            return;
        }
        let mut at = *head;
        while let Some(Some(other)) = self.flows.get_mut(at as usize) {
            if other.sibling == number {
                other.sibling = flow.sibling;
                return;
            }
            at = other.sibling;
        }
    }
}

#[inline]
const fn line_at(session: SessionIndex, direction: Direction) -> usize {
    (session.0 as usize) << 1 | matches!(direction, Direction::Downlink) as usize
}
