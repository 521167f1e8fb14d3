//! Detects restarts of GTP-U peers by their Recovery Time Stamps.
//!
//! Peers that FARs send to may report when they started, in Echo Requests and Echo Responses. A
//! later time than the known one means that the peer has lost its tunnels; an earlier one comes
//! from a delayed message. Since anybody can send an Echo Request in a peer's name, a time counts
//! only in responses to our own requests, and only if a second response repeats it. Any other sign
//! of a later time triggers an Echo Request. Spec: TS 23.007 §18A; TS 29.281 §7.2.1, §7.2.2; TS
//! 29.244 §7.4.5.1.6.

use adit_types::Nanos;

use crate::ntp::is_newer;

/// When a GTP-U peer started, as far as known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PeerStart {
    known: Option<u32>,
    /// A later time that one response contained; not confirmed yet.
    candidate: Option<u32>,
    /// When an extra Echo Request was last sent: after a hint, and to confirm a response.
    hinted_at: Option<Nanos>,
    confirmed_at: Option<Nanos>,
}

impl PeerStart {
    /// Takes in the start time from a response to a request of ours; true if the peer restarted.
    pub(crate) fn learn(&mut self, started: u32) -> bool {
        let candidate = self.candidate.take();
        if !self.is_later(started) {
            return false;
        }
        if candidate != Some(started) {
            self.candidate = Some(started);
            return false;
        }
        self.known.replace(started).is_some()
    }

    /// True if a second response is needed now; at most once per `pause`.
    pub(crate) fn needs_confirmation(&mut self, now: Nanos, pause: Nanos) -> bool {
        self.candidate.is_some() && has_elapsed(&mut self.confirmed_at, now, pause)
    }

    /// True if a hint at a later start requires an Echo Request now; at most once per `pause`.
    pub(crate) fn needs_probe(&mut self, now: Nanos, pause: Nanos, started: u32) -> bool {
        self.is_later(started) && has_elapsed(&mut self.hinted_at, now, pause)
    }

    fn is_later(&self, started: u32) -> bool {
        self.known.is_none_or(|known| is_newer(started, known))
    }
}

/// True if `pause` has elapsed since the last time that this returned true.
fn has_elapsed(last: &mut Option<Nanos>, now: Nanos, pause: Nanos) -> bool {
    let is_over = last.is_none_or(|last| now.since(last) >= pause);
    if is_over {
        *last = Some(now);
    }
    is_over
}
