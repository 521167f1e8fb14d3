//! The DL Buffering Duration: how long downlink data is buffered before it is discarded.
//!
//! A CP function gives it with a BAR in its response to a report of downlink data: it cannot page
//! the UE now. When it is over, what is buffered goes, and the next packet is reported again. A
//! change of what the FARs do ends it. Spec: TS 29.244 §7.5.9.2, §8.2.29.

use std::collections::{BTreeMap, BTreeSet};

use adit_pfcp::ie::DlBufferingDuration;
use adit_rules::ApplyAction;
use adit_session::{Session, SessionChange};
use adit_types::limits::TIMERS_PER_TURN_MAX;
use adit_types::{BarId, FarId, Nanos, Seid, SessionIndex};

use crate::node::Node;

/// Sessions whose buffering ends. Bounded by the sessions.
#[derive(Debug, Default)]
pub(crate) struct BufferingEnds {
    sessions: BTreeMap<SessionIndex, (Nanos, BarId)>,
    deadlines: BTreeSet<(Nanos, SessionIndex)>,
}

impl BufferingEnds {
    fn set(&mut self, session: SessionIndex, bar: BarId, at: Nanos) {
        self.cancel(session);
        self.sessions.insert(session, (at, bar));
        self.deadlines.insert((at, session));
    }

    /// Buffering of the session goes on without an end.
    pub fn cancel(&mut self, session: SessionIndex) {
        if let Some((at, _)) = self.sessions.remove(&session) {
            self.deadlines.remove(&(at, session));
        }
    }

    fn take_due(&mut self, now: Nanos) -> Option<(SessionIndex, BarId)> {
        let &(_, session) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let (_, bar) = *self.sessions.get(&session)?;
        self.cancel(session);
        Some((session, bar))
    }

    /// When the next one ends.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

impl Node {
    /// Starts the duration that a response gave, or ends the one before if it has no end.
    pub(crate) fn limit_buffering(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        bar: BarId,
        duration: DlBufferingDuration,
    ) {
        let Some(session) = self.store.session(up_seid).map(Session::index) else { return };
        match duration.0.as_secs() {
            Some(secs) => {
                self.buffering_ends.set(session, bar, now + Nanos::from_secs(secs.into()));
            }
            None => self.buffering_ends.cancel(session),
        }
    }

    /// Discards what sessions buffered for as long as they should.
    pub(crate) fn end_due_buffering(&mut self, now: Nanos) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some((index, bar)) = self.buffering_ends.take_due(now) else { return };
            let Some(session) = self.store.session_at(index) else { continue };
            let up_seid = session.up_seid();
            let fars = session.fars();
            let buffers = fars
                .iter()
                .filter(|far| far.bar == Some(bar) && far.action.contains(ApplyAction::BUFF));
            let fars: Vec<FarId> = buffers.map(|far| far.id).collect();
            if fars.is_empty() {
                continue;
            }
            let change = SessionChange { at: now, drop_buffered: true, ..SessionChange::default() };
            // Nothing in it can be refused.
            let Ok(modified) = self.store.modify(up_seid, change) else { continue };
            if let Some(delta) = modified.delta {
                self.publish(delta);
            }
            self.rearm_notifications(up_seid, &fars);
            self.counters.scalars.buffering_durations_ended += 1;
        }
    }
}
