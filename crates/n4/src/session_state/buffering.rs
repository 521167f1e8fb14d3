//! The times at which sessions stop buffering downlink data.

use adit_types::{BarId, Nanos, Seid};

use super::SessionStates;

/// The end of a DL Buffering Duration. Spec: TS 29.244 §8.2.29.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BufferingEnd {
    at: Nanos,
    bar: BarId,
}

impl SessionStates {
    /// Schedules that packets which FARs with this BAR buffer are discarded at `at`.
    pub(crate) fn set_buffering_end(&mut self, up_seid: Seid, bar: BarId, at: Nanos) {
        self.cancel_buffering_end(up_seid);
        let end = BufferingEnd { at, bar };
        self.live.edit_activity(up_seid, |activity| activity.buffering_end = Some(end));
        self.buffering_ends.insert((at, up_seid));
    }

    /// Cancels the end of buffering, so that the session buffers without a time limit.
    pub(crate) fn cancel_buffering_end(&mut self, up_seid: Seid) {
        let end = self.live.activity(up_seid).and_then(|activity| activity.buffering_end);
        if let Some(BufferingEnd { at, .. }) = end {
            self.buffering_ends.remove(&(at, up_seid));
            self.live.edit_activity(up_seid, |activity| activity.buffering_end = None);
        }
    }

    /// Removes and returns a session whose buffering ends by `now`, and its BAR.
    pub(crate) fn take_buffering_end(&mut self, now: Nanos) -> Option<(Seid, BarId)> {
        let &(_, up_seid) = self.buffering_ends.first().filter(|(at, _)| *at <= now)?;
        let BufferingEnd { bar, .. } = self.live.activity(up_seid)?.buffering_end?;
        self.cancel_buffering_end(up_seid);
        Some((up_seid, bar))
    }

    /// Returns when the next session stops buffering.
    pub(crate) fn next_buffering_end(&self) -> Option<Nanos> {
        self.buffering_ends.first().map(|(at, _)| *at)
    }
}
