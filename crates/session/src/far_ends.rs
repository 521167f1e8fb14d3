//! The far ends of GTP-U tunnels that FARs lead to: which sessions use a tunnel, and how many
//! tunnels lead to a peer.
//!
//! Kept along with commits, because a peer's word about a tunnel must find its sessions among many
//! without a search. Spec: TS 29.281 §7.3.1 (Error Indication), §7.2.1 (paths).

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use adit_rules::{ApplyAction, GtpuTunnel};
use adit_types::SessionIndex;

use crate::record::Records;

/// The far ends in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FarEnds {
    users: BTreeSet<(GtpuTunnel, SessionIndex)>,
    /// How many tunnel users each peer has; never zero.
    peers: BTreeMap<IpAddr, usize>,
    /// Grows whenever a peer appears or disappears.
    generation: u64,
}

impl FarEnds {
    /// The session `index` changed its rules.
    pub fn change(&mut self, index: SessionIndex, before: &Records, after: &Records) {
        let (before, after) = (tunnels(before), tunnels(after));
        for &tunnel in before.difference(&after) {
            self.remove(tunnel, index);
        }
        for &tunnel in after.difference(&before) {
            self.add(tunnel, index);
        }
    }

    /// Forgets all that the session uses. For what a fault left behind: it looks at everything.
    pub fn forget(&mut self, index: SessionIndex) {
        let of = |(_, user): &&(GtpuTunnel, SessionIndex)| *user == index;
        let tunnels: Vec<GtpuTunnel> = self.users.iter().filter(of).map(|user| user.0).collect();
        for tunnel in tunnels {
            self.remove(tunnel, index);
        }
    }

    fn add(&mut self, tunnel: GtpuTunnel, index: SessionIndex) {
        if self.users.insert((tunnel, index)) {
            let count = self.peers.entry(tunnel.addr).or_default();
            self.generation += u64::from(*count == 0);
            *count += 1;
        }
    }

    fn remove(&mut self, tunnel: GtpuTunnel, index: SessionIndex) {
        if !self.users.remove(&(tunnel, index)) {
            return;
        }
        let Some(count) = self.peers.get_mut(&tunnel.addr) else { return };
        *count -= 1;
        if *count == 0 {
            self.peers.remove(&tunnel.addr);
            self.generation += 1;
        }
    }

    /// The sessions that send into `tunnel`, by ascending index.
    pub fn users(&self, tunnel: GtpuTunnel) -> impl Iterator<Item = SessionIndex> + '_ {
        let range = (tunnel, SessionIndex(0))..=(tunnel, SessionIndex::NONE);
        self.users.range(range).map(|(_, index)| *index)
    }

    /// The peers, in ascending order.
    pub fn peers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.peers.keys().copied()
    }

    /// Changes whenever the peers do.
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}

/// The tunnels that the FARs of a session may send into.
fn tunnels(records: &Records) -> BTreeSet<GtpuTunnel> {
    let used = records.fars.iter().filter(|far| !far.action.contains(ApplyAction::DROP));
    let forwarding = used.filter_map(|far| far.forwarding.as_ref());
    forwarding.filter_map(|parts| parts.outer_header_creation?.tunnel()).collect()
}
