//! GTP-U peers that restarted, as their Recovery Time Stamps tell.
//!
//! Peers that FARs send to may tell in Echo Requests and Echo Responses when they started. A later
//! time than the known one means that the peer has lost its tunnels; an earlier one is a copy that
//! was long on its way. Anybody can send an Echo Request in a peer's name, so only responses to our
//! own requests count, and a time is believed when a second response repeats it; whatever else tells
//! of a later time makes us ask. Spec: TS 23.007 §18A; TS 29.281 §7.2.1, §7.2.2; TS 29.244 §7.4.5.1.6.

use core::net::IpAddr;

use adit_types::Nanos;

use crate::association::NodeEvent;
use crate::heartbeat::is_newer;
use crate::node::Node;

/// When a GTP-U peer started, as far as it told.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PeerStart {
    known: Option<u32>,
    /// What one response told.
    candidate: Option<u32>,
    /// When it was last asked out of turn: because of a hint, and to confirm a response.
    hinted_at: Option<Nanos>,
    confirmed_at: Option<Nanos>,
}

impl PeerStart {
    /// Takes what a response to a request of ours told; true when the peer started anew.
    pub fn learn(&mut self, started: u32) -> bool {
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

    /// True when a second response is to be asked for now: once per `pause`.
    pub fn needs_confirmation(&mut self, now: Nanos, pause: Nanos) -> bool {
        self.candidate.is_some() && has_elapsed(&mut self.confirmed_at, now, pause)
    }

    /// True when a hint is to be followed by a request now: once per `pause`.
    pub fn needs_probe(&mut self, now: Nanos, pause: Nanos, started: u32) -> bool {
        self.is_later(started) && has_elapsed(&mut self.hinted_at, now, pause)
    }

    fn is_later(&self, started: u32) -> bool {
        self.known.is_none_or(|known| is_newer(started, known))
    }
}

/// True when `pause` is over since the last time that this was true.
fn has_elapsed(last: &mut Option<Nanos>, now: Nanos, pause: Nanos) -> bool {
    let is_over = last.is_none_or(|last| now.since(last) >= pause);
    if is_over {
        *last = Some(now);
    }
    is_over
}

impl Node {
    pub(crate) fn on_gtpu_peer_restarted(&mut self, now: Nanos, peer: IpAddr) {
        self.counters.scalars.gtpu_peers_restarted += 1;
        self.events.push_back(NodeEvent::GtpuPeerRestarted { peer });
        self.report_peer_restart(now, peer);
    }
}
