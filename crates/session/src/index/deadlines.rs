//! The next deadline of each session.
//!
//! There is one entry per session, its earliest timer, ordered by time. This is a set instead of a
//! timing wheel because the control thread changes a few thousand entries per second at most, and a
//! set is exact, bounded by the number of sessions, and returns the next deadline at once.

use std::collections::{BTreeMap, BTreeSet};

use adit_types::{Nanos, SessionIndex};

/// The earliest timer of each session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Deadlines {
    ordered: BTreeSet<(Nanos, SessionIndex)>,
    by_session: BTreeMap<SessionIndex, Nanos>,
}

impl Deadlines {
    /// Replaces the deadline of a session; `None` removes it.
    pub(crate) fn set(&mut self, session: SessionIndex, deadline: Option<Nanos>) {
        let before = match deadline {
            Some(at) => self.by_session.insert(session, at),
            None => self.by_session.remove(&session),
        };
        if let Some(before) = before {
            self.ordered.remove(&(before, session));
        }
        if let Some(at) = deadline {
            self.ordered.insert((at, session));
        }
    }

    /// Returns the earliest deadline.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.ordered.first().map(|(at, _)| *at)
    }

    /// Removes and returns a session whose deadline is not after `now`.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<SessionIndex> {
        let &(at, session) = self.ordered.first().filter(|(at, _)| *at <= now)?;
        self.ordered.remove(&(at, session));
        self.by_session.remove(&session);
        Some(session)
    }
}
