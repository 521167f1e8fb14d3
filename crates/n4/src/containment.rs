//! A panic while one message is handled costs that message, not the process.
//!
//! Session changes are judged and compiled before the store is written, so a panic up to then has
//! changed nothing. Later ones cost the session: neither side could say any more what its rules
//! are. The request is answered with Cause 77, once, and the next datagram finds a node that works.

use core::any::Any;
use core::cell::Cell;
use core::net::IpAddr;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use adit_pfcp::{Cause, MessageType};
use adit_types::limits::FAULT_KINDS_MAX;

use crate::association::NodeEvent;
use crate::node::{Node, Request};

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
}

impl Node {
    /// Handles one message and contains its panics.
    pub(crate) fn handle_contained(&mut self, request: &Request<'_>) {
        let commits = self.store.commits();
        CONTAINED.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.handle_message(request)));
        CONTAINED.set(false);
        self.fault = None;
        if let Err(panic) = outcome {
            self.contain(request, commits, panic.as_ref());
        }
    }

    fn contain(&mut self, request: &Request<'_>, commits: u64, panic: &(dyn Any + Send)) {
        self.counters.scalars.faults += 1;
        let wrote = self.store.commits() != commits;
        let after = if wrote { self.remove_session_at_fault() } else { None };
        self.forget_answer(request);
        self.report_fault(request.peer(), request.header.message_type, text(panic));
        if !self.refuse_request(request, Cause::SystemFailure, after) {
            self.counters.scalars.discarded_after_fault += 1;
        }
    }

    /// Removes the session whose change was begun. Returns the change that tells the workers.
    fn remove_session_at_fault(&mut self) -> Option<adit_rules::DeltaId> {
        let up_seid = self.store.last_commit()?;
        let id = match self.store.recover() {
            // The change took the measurements with it.
            Some(delta) => {
                self.forget_reports_of(up_seid);
                Some(self.publish(delta))
            }
            None => self.end_locally(up_seid),
        };
        self.counters.scalars.sessions_removed_after_fault += u64::from(id.is_some());
        id
    }

    fn report_fault(&mut self, from: IpAddr, message_type: MessageType, text: &str) {
        let kind = (message_type.0, text.to_owned());
        if self.fault_kinds.len() >= FAULT_KINDS_MAX || !self.fault_kinds.insert(kind) {
            return;
        }
        let text = text.to_owned();
        self.events.push_back(NodeEvent::Fault { from, message_type: message_type.name(), text });
    }

    /// Panics at `point` of the next message that reaches it. For tests.
    #[doc(hidden)]
    pub fn inject_fault(&mut self, point: FaultPoint) {
        match point {
            FaultPoint::Commit => self.store.inject_fault_in_commit(),
            FaultPoint::Start | FaultPoint::Answer => self.fault = Some(point),
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

/// Kinds of faults that were told: message type and text.
pub(crate) type FaultKinds = BTreeSet<(u8, String)>;

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}
