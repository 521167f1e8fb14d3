//! Contains panics where they occur; see [`crate::containment`].

use core::any::Any;
use core::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use adit_pfcp::ie::CpFunctionFeatures;
use adit_pfcp::{Cause, MessageType};
use adit_rules::DeltaId;
use adit_types::limits::TURNS_WITH_FAULT_MAX;
use adit_types::{Nanos, Seid};

use crate::answers::Condition;
use crate::containment::{FaultPoint, IS_CONTAINED, text};
use crate::event::NodeEvent;
use crate::node::{Node, ReceivedMessage};
use crate::refusal::Rejected;
use crate::session_state::RemainingReports;

impl Node {
    /// Handles one message, and contains panics.
    pub(crate) fn handle_contained(&mut self, request: &ReceivedMessage<'_>) {
        let commits = self.sessions.store().commits();
        let before = IS_CONTAINED.replace(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.handle_message(request)));
        IS_CONTAINED.set(before);
        self.faults.injected = None;
        if let Err(panic) = outcome {
            self.recover_from_fault(request, commits, panic.as_ref());
        }
    }

    /// Runs work that no message requested, and contains panics. If a panic left a session half
    /// changed, removes the session and returns that change.
    pub(crate) fn run_contained(
        &mut self,
        activity: &'static str,
        work: impl FnOnce(&mut Self),
    ) -> Option<DeltaId> {
        let commits = self.sessions.store().commits();
        let before = IS_CONTAINED.replace(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| work(self)));
        IS_CONTAINED.set(before);
        let panic = outcome.err()?;
        self.faults.injected = None;
        self.counters.scalars.faults += 1;
        self.faults.turns.in_this_turn = true;
        let text = text(panic.as_ref()).to_owned();
        if self.faults.is_new_kind(activity, &text) {
            self.events.push_back(NodeEvent::InternalFault { activity, text });
        }
        let wrote = self.sessions.store().commits() != commits;
        if wrote { self.remove_session_at_fault(false) } else { None }
    }

    /// Begins an iteration. Ends the thread if too many iterations in a row had a fault.
    pub(crate) fn count_faulty_turns(&mut self) {
        let turns = self.faults.begin_turn();
        if turns >= TURNS_WITH_FAULT_MAX {
            resume_unwind(Box::new("the same fault again and again"));
        }
    }

    fn recover_from_fault(
        &mut self,
        request: &ReceivedMessage<'_>,
        commits: u64,
        panic: &(dyn Any + Send),
    ) {
        self.counters.scalars.faults += 1;
        let wrote = self.sessions.store().commits() != commits;
        let after = if wrote { self.remove_session_at_fault(true) } else { None };
        let after = after.map(Condition::Observed);
        self.forget_answer(request);
        self.report_fault(request.peer(), request.header.message_type, text(panic));
        let rejected = Rejected::new(Cause::SystemFailure, "a fault in adit");
        if !self.refuse_request(request, rejected, after) {
            self.counters.scalars.discarded_after_fault += 1;
        }
    }

    /// Removes the session whose change was interrupted, and returns that change. `is_answered`:
    /// true if a refusal informs the CP function.
    fn remove_session_at_fault(&mut self, is_answered: bool) -> Option<DeltaId> {
        let up_seid = self.sessions.store().last_commit()?;
        // Usage measured in the interrupted change is lost with it.
        let id = match self.sessions.recover(RemainingReports::KeepUsageInFlight(None)) {
            Some(deleted) => Some(self.forget_discarded(deleted)),
            None if is_answered => self.end_locally(up_seid),
            None => self.end_without_notice(up_seid),
        };
        self.counters.scalars.sessions_removed_after_fault += u64::from(id.is_some());
        id
    }

    /// Ends a session. If its CP function does not support last reports, moves our Recovery Time
    /// Stamp, which informs the CP function.
    fn end_without_notice(&mut self, up_seid: Seid) -> Option<DeltaId> {
        let owner = self.sessions.store().session(up_seid)?.owner();
        let is_told = self.peers.cp_function_has(owner, CpFunctionFeatures::EPFAR);
        let ended = self.end_locally(up_seid);
        if !is_told {
            self.move_time_stamp_of(Nanos(0), owner);
        }
        ended
    }

    fn report_fault(&mut self, from: IpAddr, message_type: MessageType, text: &str) {
        if !self.faults.is_new_kind(message_type.name(), text) {
            return;
        }
        let text = text.to_owned();
        self.events.push_back(NodeEvent::Fault { from, message_type: message_type.name(), text });
    }

    /// Injects a panic: the next message or work that reaches `point` panics. For tests.
    #[doc(hidden)]
    pub fn inject_fault(&mut self, point: FaultPoint) {
        match point {
            FaultPoint::Commit => self.sessions.inject_fault_in_commit(),
            FaultPoint::Start
            | FaultPoint::Answer
            | FaultPoint::Timer
            | FaultPoint::Event
            | FaultPoint::Published => self.faults.injected = Some(point),
        }
    }

    pub(crate) fn fail_if_injected(&mut self, point: FaultPoint) {
        if self.faults.injected == Some(point) {
            self.faults.injected = None;
            #[allow(clippy::panic, reason = "injected by a test")]
            {
                panic!("fault injected at {point:?}");
            }
        }
    }
}
