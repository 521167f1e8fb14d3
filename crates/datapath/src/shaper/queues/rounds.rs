//! Shared rates: the flows that wait for one of them take turns by deficit round robin.
//!
//! The flows that wait for a rate form its ring. If the rate is itself limited by another shared
//! rate, the ring is a member of that rate's ring. Each member may send its quantum in a round.

use adit_types::Nanos;

use super::Queues;
use crate::shaper::flow::{Eligibility, RingWait, TurnContext};
use crate::shaper::flow_queue::RoundShare;
use crate::shaper::server::FlowServer;

/// Minimum quantum of a flow, so that rounds are few. Unit: octets.
const QUANTUM_MIN: u32 = 512;

/// The ring of a shared rate. The wheel's extra list with the index of the rate has its members:
/// flows, and rings whose flows also wait for this rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateRing {
    pub(super) state: RingState,
    /// Sum of the quanta of the ring's flows. `share.quantum` is this sum, limited to `u32::MAX`.
    /// Unit: octets.
    pub(super) weight: u64,
    /// The share of this ring as a member of another ring.
    pub(super) share: RoundShare,
}

/// The event that a ring waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RingState {
    /// The ring waits for nothing: it has no members.
    Idle,
    /// The ring waits for its rate to open: it is in the wheel, or being served. It stays in the
    /// wheel until it is served, even if its last member has left.
    Scheduled,
    /// The ring waits for its turn in the ring of another rate.
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

/// How the turn of a member of a ring ended.
pub(super) enum MemberResult {
    /// The member left the ring.
    Removed,
    /// The member used its quantum.
    QuantumUsed,
    /// The member keeps its turn, but the service of the ring ends.
    Stopped(RingEnd),
}

/// How the turn of a flow in a ring ended.
enum FlowEnd {
    /// The flow has no more packets.
    Empty,
    /// The flow has too little credit for its next packet: it is the next member's turn.
    CreditUsed,
    /// The flow leaves the ring and waits until this time for rates of its own.
    Leaves(Nanos),
    /// The turn of the ring ends, too.
    Ring(RingEnd),
}

/// Why the service of a ring ended.
pub(super) enum RingEnd {
    /// The ring has no members.
    Empty,
    /// A rate blocks the ring's flows.
    Blocked(RateOpening),
    /// The next packet exceeds the ring's credit.
    CreditUsed,
    /// The release reached its limit of packets.
    Limit,
}

/// A rate that blocks the flows of a ring, and when it opens; see [`RingWait`].
#[derive(Debug, Clone, Copy)]
pub(super) struct RateOpening {
    pub(super) rate: u8,
    pub(super) at: Nanos,
}

/// The limits of a ring's service.
pub(super) struct ServiceBudget<'b> {
    /// The rate that the wheel woke: that of the ring, or of the ring that contains it.
    outer_rate: u8,
    /// How much the ring may still send. Unit: octets.
    credit: u32,
    /// How many packets the release may still take.
    pkts: &'b mut usize,
}

impl<P> Queues<P> {
    /// Makes a flow the last member of the ring of `rate`. Returns the ring's state; `None` if
    /// there is no such ring.
    pub(super) fn join_ring(&mut self, number: u32, rate: u8, quantum: u32) -> Option<RingState> {
        let ring = self.rings.get_mut(usize::from(rate))?;
        let flow = &mut self.flows[number as usize];
        flow.ring = rate;
        ring.set_quantum(&mut flow.share, quantum.max(QUANTUM_MIN));
        let state = ring.state;
        self.wheel.append_to(rate, number);
        self.contended.set(rate, true);
        Some(state)
    }

    /// Schedules the ring of rate `own`, which has members and is in no list: into the wheel if its
    /// own rate blocks its flows, else into the ring of the rate that does.
    pub(super) fn schedule_ring(&mut self, own: u8, RateOpening { rate, at }: RateOpening) {
        let number = self.number_of_ring(own);
        let other = usize::from(rate);
        if own == rate || other >= self.rings.len() {
            self.rings[usize::from(own)].state = RingState::Scheduled;
            self.wheel.insert(number, at);
            return;
        }
        self.rings[usize::from(own)].state = RingState::InRing;
        self.wheel.append_to(rate, number);
        self.contended.set(rate, true);
        if self.rings[other].state == RingState::Idle {
            self.schedule_ring(rate, RateOpening { rate, at });
        }
    }

    /// Returns the id of a ring in the wheel, where rings follow flows.
    #[allow(clippy::cast_possible_truncation, reason = "flows have numbers of 32 bits")]
    fn number_of_ring(&self, rate: u8) -> u32 {
        self.flows.len() as u32 + u32::from(rate)
    }

    /// Serves the flows that wait for a shared rate when the wheel wakes the rate, which may still
    /// be closed. Returns how many packets were taken, at most `limit`, to be sent or dropped.
    #[inline(never)]
    pub(super) fn serve_rate(
        &mut self,
        rate: u8,
        limit: usize,
        server: &mut impl FlowServer<P>,
    ) -> usize {
        let mut pkts = limit;
        let mut budget = ServiceBudget { outer_rate: rate, credit: u32::MAX, pkts: &mut pkts };
        match self.serve_ring(rate, &mut budget, server) {
            RingEnd::Empty => self.rings[usize::from(rate)].state = RingState::Idle,
            RingEnd::Blocked(opening) => self.schedule_ring(rate, opening),
            RingEnd::CreditUsed | RingEnd::Limit => {
                self.wheel.insert_due(self.number_of_ring(rate));
            }
        }
        limit - pkts
    }

    /// Serves the members of a ring in turn, within a budget.
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

    /// Serves the ring `inner`, which is the first member of the ring that `outer` is the budget
    /// of.
    fn serve_inner_ring(
        &mut self,
        inner: u8,
        outer: &mut ServiceBudget<'_>,
        server: &mut impl FlowServer<P>,
    ) -> MemberResult {
        let at = usize::from(inner);
        self.rings[at].share.add_quantum();
        let credit = self.rings[at].share.credit;
        let mut budget =
            ServiceBudget { outer_rate: outer.outer_rate, credit, pkts: &mut *outer.pkts };
        // A ring is never served within itself: that would not end.
        let end = match inner == outer.outer_rate {
            true => RingEnd::Empty,
            false => self.serve_ring(inner, &mut budget, server),
        };
        let share = &mut self.rings[at].share;
        share.credit = budget.credit;
        match end {
            RingEnd::CreditUsed => {
                share.has_quantum = false;
                return MemberResult::QuantumUsed;
            }
            RingEnd::Limit => return MemberResult::Stopped(end),
            RingEnd::Blocked(RateOpening { rate, .. }) if rate != inner => {
                return MemberResult::Stopped(end);
            }
            RingEnd::Empty | RingEnd::Blocked(_) => {}
        }
        (share.has_quantum, share.credit) = (false, 0);
        self.wheel.remove(self.number_of_ring(inner));
        match end {
            RingEnd::Blocked(opening) => self.schedule_ring(inner, opening),
            _ => self.rings[at].state = RingState::Idle,
        }
        MemberResult::Removed
    }

    /// Serves a flow that is the first member of the ring of `rate`.
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
        let context = TurnContext { rate: Some(budget.outer_rate), contended: self.contended };
        flow.share.add_quantum();
        let mut turn = server.begin_turn(&flow.key);
        let end = loop {
            let Some(node) = self.nodes.get_mut(flow.first as usize).filter(|_| flow.count > 0)
            else {
                break FlowEnd::Empty;
            };
            let bytes = node.bytes;
            if flow.share.credit < bytes.into() {
                break FlowEnd::CreditUsed;
            }
            if *budget.pkts == 0 {
                break FlowEnd::Ring(RingEnd::Limit);
            }
            if budget.credit < bytes.into() {
                break FlowEnd::Ring(RingEnd::CreditUsed);
            }
            let may_leave = match server.admit(&mut turn, bytes, context) {
                Eligibility::Now => true,
                Eligibility::Never => false,
                Eligibility::At(at) => break FlowEnd::Leaves(at),
                Eligibility::InTurn(RingWait { rate: blocking, at, quantum, .. }) => {
                    let ring = &mut self.rings[usize::from(rate)];
                    ring.set_quantum(&mut flow.share, quantum.max(QUANTUM_MIN));
                    break FlowEnd::Ring(RingEnd::Blocked(RateOpening { rate: blocking, at }));
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

    /// Ends the turn of a flow in a ring, and removes the flow from the ring if it has to leave.
    fn end_member(&mut self, number: u32, end: FlowEnd) -> MemberResult {
        match end {
            FlowEnd::Ring(end) => return MemberResult::Stopped(end),
            FlowEnd::CreditUsed => {
                self.flows[number as usize].share.has_quantum = false;
                return MemberResult::QuantumUsed;
            }
            FlowEnd::Empty => {
                self.unschedule(number);
                self.remove_flow(number);
            }
            FlowEnd::Leaves(at) => {
                self.unschedule(number);
                self.wheel.insert(number, at);
            }
        }
        MemberResult::Removed
    }
}
