//! Rates that flows share: whose turn it is among those that wait for one.
//!
//! Rounds by quanta (deficit round robin). The flows that wait for a rate are its ring, and a ring may
//! stand in another one, for whose rate it waits.

use adit_types::Nanos;

use super::{Eligibility, Queues, TurnContext};
use crate::server::FlowServer;

/// Least part of a round that a flow has, so that rounds are few. Unit: octets.
const QUANTUM_MIN: u32 = 512;

/// How a flow, or the flows of a rate together, stand in the rounds of a shared rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundShare {
    /// Part of a round. Unit: octets.
    pub(super) quantum: u32,
    /// What is left of it. Unit: octets.
    pub(super) credit: u32,
    /// It has its part of this round.
    pub(super) has_quantum: bool,
}

impl RoundShare {
    pub(super) const NONE: Self = Self { quantum: 0, credit: 0, has_quantum: false };

    /// Gives it its part of this round, once.
    pub(super) fn give_quantum(&mut self) {
        if !core::mem::replace(&mut self.has_quantum, true) {
            self.credit = self.credit.saturating_add(self.quantum);
        }
    }
}

/// The flows that wait for a rate that they share, in rounds. Its members stand in the wheel's list of
/// its number: flows, and rings whose flows wait for this rate, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateRing {
    pub(super) state: RingState,
    /// The sum of its flows' quanta, which is its own, as far as that goes. Unit: octets.
    pub(super) weight: u64,
    pub(super) share: RoundShare,
}

/// Where a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RingState {
    /// Nowhere: nobody waits.
    Idle,
    /// In the wheel, until its rate lets packets pass; or it is looked at.
    Scheduled,
    /// In another ring, for whose rate it waits.
    InRing,
}

impl RateRing {
    /// A flow of the ring has this quantum from now on.
    pub(super) fn set_quantum(&mut self, flow: &mut RoundShare, quantum: u32) {
        self.weight = self.weight - u64::from(flow.quantum) + u64::from(quantum);
        self.share.quantum = u32::try_from(self.weight).unwrap_or(u32::MAX);
        flow.quantum = quantum;
    }
}

/// What became of a member that had its turn.
pub(super) enum MemberResult {
    /// It is no member any more.
    Removed,
    /// Its part of the round is used up.
    QuantumUsed,
    /// It may go on with its turn when this is over.
    Stopped(RingEnd),
}

/// Why no more packets of a ring leave.
pub(super) enum RingEnd {
    /// None is left.
    Empty,
    /// This rate is closed until then.
    Closed(u8, Nanos),
    /// The ring's part of a round is used up.
    Exhausted,
    /// As many went as may in one step.
    Limit,
}

impl<P> Queues<P> {
    /// Makes a flow the last one of a ring.
    pub(super) fn join_ring(&mut self, number: u32, home: u8, quantum: u32) {
        let Some(ring) = self.rings.get_mut(usize::from(home)) else { return };
        let flow = &mut self.flows[number as usize];
        flow.ring = home;
        ring.set_quantum(&mut flow.turn, quantum.max(QUANTUM_MIN));
        self.wheel.append_to(home, number);
        self.contended.set(home, true);
    }

    /// Lets a ring with members, which stands nowhere, wait for a closed rate: its own, or another
    /// one in whose rounds it takes part.
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
    fn number_of_ring(&self, rate: u8) -> u32 {
        self.flows.len() as u32 + u32::from(rate)
    }

    /// Releases packets of the flows that wait for a shared rate, which lets packets pass again: at most
    /// `limit`; tells how many.
    pub(super) fn serve_rate(
        &mut self,
        rate: u8,
        limit: usize,
        server: &mut impl FlowServer<P>,
    ) -> usize {
        let (mut left, mut credit) = (limit, u32::MAX);
        match self.serve_ring(rate, (rate, &mut credit), &mut left, server) {
            RingEnd::Empty => self.rings[usize::from(rate)].state = RingState::Idle,
            RingEnd::Closed(closed, at) => self.schedule_ring(rate, closed, at),
            RingEnd::Exhausted | RingEnd::Limit => {
                self.wheel.insert_due(self.number_of_ring(rate));
            }
        }
        limit - left
    }

    /// Gives the members of a ring their turns, as far as `credit` octets and `left` packets allow,
    /// when the turn of rate `served` has come.
    fn serve_ring(
        &mut self,
        rate: u8,
        (served, credit): (u8, &mut u32),
        left: &mut usize,
        server: &mut impl FlowServer<P>,
    ) -> RingEnd {
        while let Some(number) = self.wheel.first_of(rate) {
            let inner = (number as usize).checked_sub(self.flows.len());
            let end = match inner.and_then(|inner| u8::try_from(inner).ok()) {
                Some(inner) => self.serve_inner_ring(inner, served, left, server),
                None => self.serve_member((number, rate), (served, credit), left, server),
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

    /// Gives the flows of a ring their turn at the rate `served`, in whose ring it is the first.
    fn serve_inner_ring(
        &mut self,
        inner: u8,
        served: u8,
        left: &mut usize,
        server: &mut impl FlowServer<P>,
    ) -> MemberResult {
        let at = usize::from(inner);
        self.rings[at].share.give_quantum();
        let mut credit = self.rings[at].share.credit;
        let end = match inner == served {
            true => RingEnd::Empty,
            false => self.serve_ring(inner, (served, &mut credit), left, server),
        };
        let turn = &mut self.rings[at].share;
        turn.credit = credit;
        match end {
            RingEnd::Exhausted => {
                turn.has_quantum = false;
                return MemberResult::QuantumUsed;
            }
            RingEnd::Limit => return MemberResult::Stopped(end),
            RingEnd::Closed(closed, _) if closed != inner => return MemberResult::Stopped(end),
            RingEnd::Empty | RingEnd::Closed(..) => {}
        }
        (turn.has_quantum, turn.credit) = (false, 0);
        self.wheel.remove(self.number_of_ring(inner));
        match end {
            RingEnd::Closed(_, at) => self.schedule_ring(inner, inner, at),
            _ => self.rings[at].state = RingState::Idle,
        }
        MemberResult::Removed
    }

    /// Gives a flow, the first of the ring of `rate`, its turn.
    fn serve_member(
        &mut self,
        (number, rate): (u32, u8),
        (served, credit): (u8, &mut u32),
        left: &mut usize,
        server: &mut impl FlowServer<P>,
    ) -> MemberResult {
        let Some(flow) = self.flows.get_mut(number as usize) else {
            self.wheel.remove(number);
            return MemberResult::Removed;
        };
        let at = TurnContext { rate: Some(served), contended: self.contended };
        flow.turn.give_quantum();
        let mut turn = server.begin_turn(&flow.key);
        let end = loop {
            let Some(node) = self.nodes.get_mut(flow.first as usize).filter(|_| flow.count > 0)
            else {
                break Err(None);
            };
            let bytes = node.bytes;
            if flow.turn.credit < bytes.into() {
                break Err(None);
            }
            if *left == 0 {
                break Ok(RingEnd::Limit);
            }
            if *credit < bytes.into() {
                break Ok(RingEnd::Exhausted);
            }
            let stopped = server.blocked_until(&mut turn);
            let pace = stopped.unwrap_or_else(|| server.eligibility(&mut turn, bytes, at));
            let may_leave = match pace {
                Eligibility::Now => true,
                Eligibility::Never => false,
                Eligibility::At(at) => break Err(Some(at)),
                Eligibility::InTurn { rate: closed, at, quantum, .. } => {
                    let ring = &mut self.rings[usize::from(rate)];
                    ring.set_quantum(&mut flow.turn, quantum.max(QUANTUM_MIN));
                    break Ok(RingEnd::Closed(closed, at));
                }
            };
            if let Some(held) = node.take(flow, &mut self.free_node) {
                server.take(&mut turn, may_leave, held);
            }
            self.len -= 1;
            flow.turn.credit -= u32::from(bytes);
            *credit -= u32::from(bytes);
            *left -= 1;
        };
        server.end_turn(turn);
        match end {
            Ok(end) => MemberResult::Stopped(end),
            Err(None) if flow.count > 0 => {
                flow.turn.has_quantum = false;
                MemberResult::QuantumUsed
            }
            Err(at) => {
                let is_over = flow.count == 0;
                self.unschedule(number);
                match is_over {
                    true => self.remove_flow(number),
                    false => self.schedule(number, at.map_or(Eligibility::Now, Eligibility::At)),
                }
                MemberResult::Removed
            }
        }
    }
}
