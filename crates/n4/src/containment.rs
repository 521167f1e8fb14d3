//! Contains panics: a panic costs the message, timer, worker's event or observed change that was
//! being handled, not the process.
//!
//! Session changes are checked and compiled before the session store is written, so an earlier
//! panic has changed nothing. A later panic removes the session, because its rules here and at the
//! CP function may differ. The request is answered once, with Cause 77, and the node handles the
//! next datagram. If faults occur in many iterations in a row, the thread ends, and with it the
//! process.

use core::any::Any;
use core::cell::Cell;
use std::collections::BTreeSet;

use adit_types::limits::FAULT_KINDS_MAX;

thread_local! {
    pub(crate) static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// True while a panic of this thread is contained: a panic hook need not print it, since
/// [`NodeEvent::Fault`](crate::NodeEvent::Fault) reports it.
#[must_use]
pub fn is_contained() -> bool {
    IS_CONTAINED.get()
}

/// The point at which tests inject a fault.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultPoint {
    /// Before the request is processed.
    Start,
    /// While a session change is being written.
    Commit,
    /// After the change, while the answer is encoded.
    Answer,
    /// While requests of ours are retransmitted.
    Timer,
    /// Before a worker's event is processed.
    Event,
    /// While an observed change is completed.
    Published,
}

/// The faults of a node so far.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The point at which a test wants a fault.
    pub injected: Option<FaultPoint>,
    pub kinds: FaultKinds,
    pub turns: TurnFaults,
}

impl Faults {
    /// True if a fault should be reported: the first of its kind, up to a maximum of kinds.
    pub(crate) fn is_new_kind(&mut self, activity: &'static str, text: &str) -> bool {
        let kind = (activity, text.to_owned());
        self.kinds.len() < FAULT_KINDS_MAX && self.kinds.insert(kind)
    }

    /// Begins an iteration. Returns how many iterations in a row, up to the last one, had a fault.
    pub(crate) const fn begin_turn(&mut self) -> u32 {
        let had = core::mem::replace(&mut self.turns.in_this_turn, false);
        self.turns.turns_in_a_row = if had { self.turns.turns_in_a_row + 1 } else { 0 };
        self.turns.turns_in_a_row
    }
}

/// Faults outside the handling of messages, by iterations of the control thread.
#[derive(Debug, Default)]
pub(crate) struct TurnFaults {
    pub in_this_turn: bool,
    pub turns_in_a_row: u32,
}

/// The kinds of faults that were reported: message type or other activity, and text.
pub(crate) type FaultKinds = BTreeSet<(&'static str, String)>;

pub(crate) fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_reported_once_per_kind_and_turns_in_a_row_counted() {
        let mut faults = Faults::default();
        assert!(faults.is_new_kind("a timer", "text") && faults.is_new_kind("a timer", "other"));
        assert!(!faults.is_new_kind("a timer", "text"));
        let mut turn = |has_fault| {
            faults.turns.in_this_turn = has_fault;
            faults.begin_turn()
        };
        assert_eq!([true, true, false, true].map(&mut turn), [1, 2, 0, 1]);
    }
}
