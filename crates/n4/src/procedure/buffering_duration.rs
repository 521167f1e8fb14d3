//! The DL Buffering Duration: how long downlink data is buffered before it is discarded.
//!
//! A CP function that cannot page the UE now sends the duration, with a BAR, in its response to a
//! report of downlink data. When it has passed, the buffered packets are discarded, and the next
//! packet is reported again. A change of the FARs' actions cancels it. Spec: TS 29.244 §7.5.9.2,
//! §8.2.29.

use adit_pfcp::ie::DlBufferingDuration;
use adit_rules::ApplyAction;
use adit_session::SessionChange;
use adit_types::limits::TIMERS_PER_TURN_MAX;
use adit_types::{BarId, FarId, Nanos, Seid};

use crate::node::Node;

impl Node {
    /// Starts the duration that a response contains; an infinite one cancels an earlier one.
    pub(crate) fn limit_buffering(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        bar: BarId,
        duration: DlBufferingDuration,
    ) {
        if self.sessions.store().session(up_seid).is_none() {
            return;
        }
        match duration.0.as_secs() {
            Some(secs) => {
                let at = now + Nanos::from_secs(secs.into());
                self.sessions.states.set_buffering_end(up_seid, bar, at);
            }
            None => self.sessions.states.cancel_buffering_end(up_seid),
        }
    }

    /// Discards buffered packets of sessions whose buffering duration has passed.
    pub(crate) fn end_due_buffering(&mut self, now: Nanos) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some((up_seid, bar)) = self.sessions.states.take_buffering_end(now) else { return };
            let Some(session) = self.sessions.store().session(up_seid) else { continue };
            let fars = session.fars();
            let buffers = fars
                .iter()
                .filter(|far| far.bar == Some(bar) && far.action.contains(ApplyAction::BUFF));
            let fars: Vec<FarId> = buffers.map(|far| far.id).collect();
            if fars.is_empty() {
                continue;
            }
            let change = SessionChange { at: now, drop_buffered: true, ..SessionChange::default() };
            // A change that only discards packets is never refused.
            if self.sessions.modify(up_seid, change).is_err() {
                continue;
            }
            drop(self.rearm_notifications(up_seid, &fars));
            self.counters.scalars.buffering_durations_ended += 1;
        }
    }
}
