//! A panic while one message is handled costs that message, not the process; one of a timer, a
//! worker's event or an observed change costs that.
//!
//! Session changes are judged and compiled before the store is written, so a panic up to then has
//! changed nothing. Later ones cost the session: neither side could say any more what its rules
//! are. The request is answered with Cause 77, once, and the next datagram finds a node that works.
//! What fails turn after turn is not contained for ever: the thread ends, and with it the process.

use core::any::Any;
use core::cell::Cell;
use core::net::IpAddr;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use adit_pfcp::{Cause, MessageType};
use adit_rules::DeltaId;
use adit_types::limits::{FAULT_KINDS_MAX, TURNS_WITH_FAULT_MAX};

use crate::answers::Condition;
use crate::association::NodeEvent;
use crate::node::{Node, ReceivedMessage};
use crate::session_state::RemainingReports;

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// True while a panic of this thread is contained: a panic hook need not print it, because
/// [`NodeEvent::Fault`] tells it.
#[must_use]
pub fn is_contained() -> bool {
    CONTAINED.get()
}

/// Where a fault is injected. For tests.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultPoint {
    /// Before the request is looked at.
    Start,
    /// In the middle of writing a session change.
    Commit,
    /// After the change, while its answer is written.
    Answer,
    /// While own requests are sent again.
    Timer,
    /// Before a worker's event is looked at.
    Event,
    /// While an observed change is concluded.
    Published,
}

/// Faults outside of messages, by turns of the control thread.
#[derive(Debug, Default)]
pub(crate) struct TurnFaults {
    in_this_turn: bool,
    turns_in_a_row: u32,
}

impl Node {
    /// Handles one message and contains its panics.
    pub(crate) fn handle_contained(&mut self, request: &ReceivedMessage<'_>) {
        let commits = self.sessions.store().commits();
        let before = CONTAINED.replace(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.handle_message(request)));
        CONTAINED.set(before);
        self.fault = None;
        if let Err(panic) = outcome {
            self.recover_from_fault(request, commits, panic.as_ref());
        }
    }

    /// Does work that no message asks for, and contains its panics. Returns the change that removes
    /// the session that a panic left half changed.
    pub(crate) fn run_contained(
        &mut self,
        activity: &'static str,
        work: impl FnOnce(&mut Self),
    ) -> Option<DeltaId> {
        let commits = self.sessions.store().commits();
        let before = CONTAINED.replace(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| work(self)));
        CONTAINED.set(before);
        let panic = outcome.err()?;
        self.fault = None;
        self.counters.scalars.faults += 1;
        self.turn_faults.in_this_turn = true;
        let text = text(panic.as_ref()).to_owned();
        if self.is_new_kind(activity, &text) {
            self.events.push_back(NodeEvent::InternalFault { activity, text });
        }
        let wrote = self.sessions.store().commits() != commits;
        if wrote { self.remove_session_at_fault() } else { None }
    }

    /// A turn begins. Ends the thread when the last turns all had a fault.
    pub(crate) fn count_faulty_turns(&mut self) {
        let had = core::mem::take(&mut self.turn_faults.in_this_turn);
        let turns = if had { self.turn_faults.turns_in_a_row + 1 } else { 0 };
        self.turn_faults.turns_in_a_row = turns;
        if turns >= TURNS_WITH_FAULT_MAX {
            resume_unwind(Box::new("the same fault again and again"));
        }
    }

    fn is_new_kind(&mut self, activity: &'static str, text: &str) -> bool {
        let kind = (activity, text.to_owned());
        self.fault_kinds.len() < FAULT_KINDS_MAX && self.fault_kinds.insert(kind)
    }

    fn recover_from_fault(
        &mut self,
        request: &ReceivedMessage<'_>,
        commits: u64,
        panic: &(dyn Any + Send),
    ) {
        self.counters.scalars.faults += 1;
        let wrote = self.sessions.store().commits() != commits;
        let after = if wrote { self.remove_session_at_fault() } else { None };
        let after = after.map(Condition::Observed);
        self.forget_answer(request);
        self.report_fault(request.peer(), request.header.message_type, text(panic));
        if !self.refuse_request(request, Cause::SystemFailure, after) {
            self.counters.scalars.discarded_after_fault += 1;
        }
    }

    /// Removes the session whose change was begun. Returns the change that tells the workers.
    fn remove_session_at_fault(&mut self) -> Option<DeltaId> {
        let up_seid = self.sessions.store().last_commit()?;
        // The change took the measurements with it.
        let id = match self.sessions.recover(RemainingReports::KeepUsageInFlight) {
            Some(deleted) => Some(self.forget_discarded(deleted)),
            None => self.end_locally(up_seid),
        };
        self.counters.scalars.sessions_removed_after_fault += u64::from(id.is_some());
        id
    }

    fn report_fault(&mut self, from: IpAddr, message_type: MessageType, text: &str) {
        if !self.is_new_kind(message_type.name(), text) {
            return;
        }
        let text = text.to_owned();
        self.events.push_back(NodeEvent::Fault { from, message_type: message_type.name(), text });
    }

    /// Panics at `point` of the next message that reaches it. For tests.
    #[doc(hidden)]
    pub fn inject_fault(&mut self, point: FaultPoint) {
        match point {
            FaultPoint::Commit => self.sessions.inject_fault_in_commit(),
            FaultPoint::Start
            | FaultPoint::Answer
            | FaultPoint::Timer
            | FaultPoint::Event
            | FaultPoint::Published => self.fault = Some(point),
        }
    }

    pub(crate) fn fail_if_injected(&mut self, point: FaultPoint) {
        if self.fault == Some(point) {
            self.fault = None;
            #[allow(clippy::panic, reason = "injected by a test")]
            {
                panic!("fault injected at {point:?}");
            }
        }
    }
}

/// Kinds of faults that were told: message type or other activity, and text.
pub(crate) type FaultKinds = BTreeSet<(&'static str, String)>;

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}
