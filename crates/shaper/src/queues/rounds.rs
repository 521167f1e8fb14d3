//! Shared rates: the flows that wait for one take turns by deficit round robin.
//!
//! The flows that wait for a rate form its ring. If the rate is in turn limited by another shared rate,
//! the ring itself is a member of that rate's ring. Each member may send its quantum in a round.

use adit_types::Nanos;

use super::Queues;
use crate::flow::{Eligibility, TurnContext};
use crate::server::FlowServer;

/// Least quantum of a flow, so that rounds are few. Unit: octets.
const QUANTUM_MIN: u32 = 512;

/// The share of a ring's member in the rounds of a shared rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundShare {
    /// What it may send in a round. Unit: octets.
    pub(super) quantum: u32,
    /// What it may still send in this round. Unit: octets.
    pub(super) credit: u32,
    /// Its quantum of this round was added to `credit`.
    pub(super) has_quantum: bool,
}

impl RoundShare {
    pub(super) const NONE: Self = Self { quantum: 0, credit: 0, has_quantum: false };

    /// Adds the quantum to the credit, once per round.
    pub(super) fn give_quantum(&mut self) {
        if !core::mem::replace(&mut self.has_quantum, true) {
            self.credit = self.credit.saturating_add(self.quantum);
        }
    }
}

/// The ring of a shared rate. Its members are in the wheel's list of the rate's number: flows, and
/// rings whose flows also wait for this rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateRing {
    pub(super) state: RingState,
    /// Sum of its flows' quanta, saturating into its own quantum. Unit: octets.
    pub(super) weight: u64,
    /// Its share as a member of another ring.
    pub(super) share: RoundShare,
}

/// What a ring waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RingState {
    /// Nothing: it has no members.
    Idle,
    /// Its rate to open: it is in the wheel, or served at present.
    Scheduled,
    /// Its turn in the ring of another rate.
    InRing,
}

impl RateRing {
    /// Changes the quantum of a flow of the ring.
    pub(super) fn set_quantum(&mut self, flow: &mut RoundShare, quantum: u32) {
        self.weight = self.weight - u64::from(flow.quantum) + u64::from(quantum);
        self.share.quantum = u32::try_from(self.weight).unwrap_or(u32::MAX);
        flow.quantum = quantum;
    }
}

/// How the turn of a member ended.
pub(super) enum MemberResult {
    /// It is no member any more.
    Removed,
    /// It used its quantum.
    QuantumUsed,
    /// It keeps its turn: the service of the ring ends.
    Stopped(RingEnd),
}

/// How the turn of a flow ended.
enum FlowEnd {
    /// It has no packets, or too little credit for the next one: the next member has its turn.
    Next,
    /// It waits for its own rate and leaves the ring.
    Leaves(Nanos),
    /// The ring's turn ends, too.
    Ring(RingEnd),
}

/// Why no more packets of a ring leave.
pub(super) enum RingEnd {
    /// It has no members.
    Empty,
    /// `rate` is closed.
    Closed { rate: u8, until: Nanos },
    /// The ring used its quantum.
    Exhausted,
    /// The release reached its limit of packets.
    Limit,
}

/// What bounds the service of a ring.
pub(super) struct ServiceBudget<'b> {
    /// The rate whose turn it is.
    served: u8,
    /// Octets that the ring may still send.
    credit: u32,
    /// Packets that the release may still send.
    pkts: &'b mut usize,
}

impl<P> Queues<P> {
    /// Makes a flow the last member of a ring.
    pub(super) fn join_ring(&mut self, number: u32, rate: u8, quantum: u32) {
        let Some(ring) = self.rings.get_mut(usize::from(rate)) else { return };
        let flow = &mut self.flows[number as usize];
        flow.ring = rate;
        ring.set_quantum(&mut flow.share, quantum.max(QUANTUM_MIN));
        self.wheel.append_to(rate, number);
        self.contended.set(rate, true);
    }

    /// Schedules a ring that has members and is in no list: into the wheel if its own rate is closed,
    /// into the ring of the other rate if that one is.
    pub(super) fn schedule_ring(&mut self, own: u8, closed: u8, at: Nanos) {
        let number = self.number_of_ring(own);
        let other = usize::from(closed);
        if own == closed || other >= self.rings.len() {
            self.rings[usize::from(own)].state = RingState::Scheduled;
            self.wheel.insert(number, at);
            return;
        }
        self.rings[usize::from(own)].state = RingState::InRing;
        self.wheel.append_to(closed, number);
        self.contended.set(closed, true);
        if self.rings[other].state == RingState::Idle {
            self.schedule_ring(closed, closed, at);
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "flows have numbers of 32 bits")]
    /// The number of a ring in the wheel, where rings follow flows.
    fn number_of_ring(&self, rate: u8) -> u32 {
        self.flows.len() as u32 + u32::from(rate)
    }

    /// Releases packets of the flows that wait for a shared rate, which is open again: at most `limit`.
    /// Returns how many.
    pub(super) fn serve_rate(
        &mut self,
        rate: u8,
        limit: usize,
        server: &mut impl FlowServer<P>,
    ) -> usize {
        let mut left = limit;
        let mut budget = ServiceBudget { served: rate, credit: u32::MAX, pkts: &mut left };
        match self.serve_ring(rate, &mut budget, server) {
            RingEnd::Empty => self.rings[usize::from(rate)].state = RingState::Idle,
            RingEnd::Closed { rate: closed, until } => self.schedule_ring(rate, closed, until),
            RingEnd::Exhausted | RingEnd::Limit => {
                self.wheel.insert_due(self.number_of_ring(rate));
            }
        }
        limit - left
    }

    /// Gives the members of a ring their turns, within a budget.
    fn serve_ring(
        &mut self,
        rate: u8,
        budget: &mut ServiceBudget<'_>,
        server: &mut impl FlowServer<P>,
    ) -> RingEnd {
        while let Some(number) = self.wheel.first_of(rate) {
            let inner = (number as usize).checked_sub(self.flows.len());
            let end = match inner.and_then(|inner| u8::try_from(inner).ok()) {
                Some(inner) => self.serve_inner_ring(inner, budget, server),
                None => self.serve_member(number, rate, budget, server),
            };
            match end {
                MemberResult::Removed => {}
                MemberResult::QuantumUsed => {
                    self.wheel.remove(number);
                    self.wheel.append_to(rate, number);
                }
                MemberResult::Stopped(end) => return end,
            }
        }
        self.contended.set(rate, false);
        RingEnd::Empty
    }

    /// Serves a ring that is the first member of the ring of the rate whose turn it is.
    fn serve_inner_ring(
        &mut self,
        inner: u8,
        outer: &mut ServiceBudget<'_>,
        server: &mut impl FlowServer<P>,
    ) -> MemberResult {
        let at = usize::from(inner);
        self.rings[at].share.give_quantum();
        let credit = self.rings[at].share.credit;
        let mut budget = ServiceBudget { served: outer.served, credit, pkts: &mut *outer.pkts };
        // A ring is never served within itself.
        let end = match inner == outer.served {
            true => RingEnd::Empty,
            false => self.serve_ring(inner, &mut budget, server),
        };
        let share = &mut self.rings[at].share;
        share.credit = budget.credit;
        match end {
            RingEnd::Exhausted => {
                share.has_quantum = false;
                return MemberResult::QuantumUsed;
            }
            RingEnd::Limit => return MemberResult::Stopped(end),
            RingEnd::Closed { rate, .. } if rate != inner => return MemberResult::Stopped(end),
            RingEnd::Empty | RingEnd::Closed { .. } => {}
        }
        (share.has_quantum, share.credit) = (false, 0);
        self.wheel.remove(self.number_of_ring(inner));
        match end {
            RingEnd::Closed { until, .. } => self.schedule_ring(inner, inner, until),
            _ => self.rings[at].state = RingState::Idle,
        }
        MemberResult::Removed
    }

    /// Serves a flow, the first member of the ring of `rate`.
    fn serve_member(
        &mut self,
        number: u32,
        rate: u8,
        budget: &mut ServiceBudget<'_>,
        server: &mut impl FlowServer<P>,
    ) -> MemberResult {
        let Some(flow) = self.flows.get_mut(number as usize) else {
            self.wheel.remove(number);
            return MemberResult::Removed;
        };
        let context = TurnContext { rate: Some(budget.served), contended: self.contended };
        flow.share.give_quantum();
        let mut turn = server.begin_turn(&flow.key);
        let end = loop {
            let Some(node) = self.nodes.get_mut(flow.first as usize).filter(|_| flow.count > 0)
            else {
                break FlowEnd::Next;
            };
            let bytes = node.bytes;
            if flow.share.credit < bytes.into() {
                break FlowEnd::Next;
            }
            if *budget.pkts == 0 {
                break FlowEnd::Ring(RingEnd::Limit);
            }
            if budget.credit < bytes.into() {
                break FlowEnd::Ring(RingEnd::Exhausted);
            }
            let blocked = server.blocked_until(&mut turn);
            let may_leave = match blocked.unwrap_or_else(|| server.admit(&mut turn, bytes, context))
            {
                Eligibility::Now => true,
                Eligibility::Never => false,
                Eligibility::At(at) => break FlowEnd::Leaves(at),
                Eligibility::InTurn { rate: closed, at, quantum, .. } => {
                    let ring = &mut self.rings[usize::from(rate)];
                    ring.set_quantum(&mut flow.share, quantum.max(QUANTUM_MIN));
                    break FlowEnd::Ring(RingEnd::Closed { rate: closed, until: at });
                }
            };
            if let Some(held) = node.take(flow, &mut self.free_node) {
                server.take(&mut turn, may_leave, held);
            }
            self.len -= 1;
            flow.share.credit -= u32::from(bytes);
            budget.credit -= u32::from(bytes);
            *budget.pkts -= 1;
        };
        server.end_turn(turn);
        self.end_member(number, end)
    }

    /// Ends the turn of a flow in a ring.
    fn end_member(&mut self, number: u32, end: FlowEnd) -> MemberResult {
        let flow = &mut self.flows[number as usize];
        let eligibility = match end {
            FlowEnd::Ring(end) => return MemberResult::Stopped(end),
            FlowEnd::Next if flow.count > 0 => {
                flow.share.has_quantum = false;
                return MemberResult::QuantumUsed;
            }
            FlowEnd::Next => Eligibility::Now,
            FlowEnd::Leaves(at) => Eligibility::At(at),
        };
        let is_empty = flow.count == 0;
        self.unschedule(number);
        match is_empty {
            true => self.remove_flow(number),
            false => self.schedule(number, eligibility),
        }
        MemberResult::Removed
    }
}
