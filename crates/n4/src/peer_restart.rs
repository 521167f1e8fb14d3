//! GTP-U peers that restarted, as their Recovery Time Stamps tell.
//!
//! Peers that FARs send to may tell in Echo Requests and Echo Responses when they started. A later
//! time than the known one means that the peer has lost its tunnels; an earlier one is a copy that
//! was long on its way. Spec: TS 23.007 §18A; TS 29.281 §7.2.1, §7.2.2; TS 29.244 §7.4.5.1.6.

use core::net::IpAddr;
use std::collections::BTreeMap;

use adit_types::Nanos;

use crate::association::NodeEvent;
use crate::heartbeat::is_newer;
use crate::node::Node;

/// When GTP-U peers started, as far as they told. Bounded by the peers that sessions send to.
#[derive(Debug, Default)]
pub(crate) struct PeerStarts {
    known: BTreeMap<IpAddr, u32>,
    /// Up to here the store's peers are known.
    generation: u64,
}

impl Node {
    /// Takes notice of when a GTP-U peer says that it started. Strangers are not remembered.
    pub(crate) fn hear_recovery(&mut self, now: Nanos, peer: IpAddr, started: u32) {
        let generation = self.store.peers_generation();
        if self.peer_starts.generation != generation {
            self.peer_starts.generation = generation;
            let store = &self.store;
            self.peer_starts.known.retain(|&known, _| store.is_peer(known));
        }
        if !self.store.is_peer(peer) {
            return;
        }
        let Some(before) = self.peer_starts.known.get_mut(&peer) else {
            self.peer_starts.known.insert(peer, started);
            return;
        };
        if is_newer(started, *before) {
            *before = started;
            self.counters.scalars.gtpu_peers_restarted += 1;
            self.events.push_back(NodeEvent::GtpuPeerRestarted { peer });
            self.report_peer_restart(now, peer);
        }
    }
}
