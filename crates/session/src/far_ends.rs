//! The far ends of GTP-U tunnels that FARs lead to: which sessions use a tunnel, and how many
//! tunnels lead to a peer.
//!
//! Kept along with commits, because a peer's word about a tunnel must find its sessions among many
//! without a search. Spec: TS 29.281 §7.3.1 (Error Indication), §7.2.1 (paths).

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel};
use adit_types::SessionIndex;

use crate::record::Records;

/// Where a GTP-U tunnel leads to, seen from this UPF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FarSide {
    /// Towards the UE: destination interface Access.
    Access,
    /// Towards another UPF and the data network: all others.
    Core,
}

/// How many tunnel users a peer has, on each side; never none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    access: usize,
    core: usize,
}

impl Count {
    fn of(&mut self, side: FarSide) -> &mut usize {
        match side {
            FarSide::Access => &mut self.access,
            FarSide::Core => &mut self.core,
        }
    }
}

/// The far ends in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FarEnds {
    users: BTreeSet<(GtpuTunnel, SessionIndex, FarSide)>,
    peers: BTreeMap<IpAddr, Count>,
    /// Grows whenever a peer appears or disappears on a side.
    generation: u64,
}

impl FarEnds {
    /// The session `index` changed its rules.
    pub fn change(&mut self, index: SessionIndex, before: &Records, after: &Records) {
        let (before, after) = (tunnels(before), tunnels(after));
        for &(tunnel, side) in before.difference(&after) {
            self.remove(tunnel, index, side);
        }
        for &(tunnel, side) in after.difference(&before) {
            self.add(tunnel, index, side);
        }
    }

    /// Forgets all that the session uses. For what a fault left behind: it looks at everything.
    pub fn forget(&mut self, index: SessionIndex) {
        let of = |user: &&(GtpuTunnel, SessionIndex, FarSide)| user.1 == index;
        let users: Vec<_> = self.users.iter().filter(of).copied().collect();
        for (tunnel, _, side) in users {
            self.remove(tunnel, index, side);
        }
    }

    fn add(&mut self, tunnel: GtpuTunnel, index: SessionIndex, side: FarSide) {
        if self.users.insert((tunnel, index, side)) {
            let count = self.peers.entry(tunnel.addr).or_default().of(side);
            self.generation += u64::from(*count == 0);
            *count += 1;
        }
    }

    fn remove(&mut self, tunnel: GtpuTunnel, index: SessionIndex, side: FarSide) {
        if !self.users.remove(&(tunnel, index, side)) {
            return;
        }
        let Some(counts) = self.peers.get_mut(&tunnel.addr) else { return };
        let count = counts.of(side);
        *count -= 1;
        self.generation += u64::from(*count == 0);
        if *counts == Count::default() {
            self.peers.remove(&tunnel.addr);
        }
    }

    /// The sessions that send into `tunnel`, by ascending index.
    pub fn users(&self, tunnel: GtpuTunnel) -> impl Iterator<Item = SessionIndex> + '_ {
        let first = (tunnel, SessionIndex(0), FarSide::Access);
        let users = self.users.range(first..=(tunnel, SessionIndex::NONE, FarSide::Core));
        let mut last = None;
        users.map(|user| user.1).filter(move |&index| last.replace(index) != Some(index))
    }

    /// The peers, in ascending order.
    pub fn peers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.peers.keys().copied()
    }

    /// The peers, in ascending order, with the sides that they are on.
    pub fn sides(&self) -> impl Iterator<Item = (IpAddr, FarSide)> + '_ {
        let sides = |count: &Count| {
            let access = (count.access > 0).then_some(FarSide::Access);
            access.into_iter().chain((count.core > 0).then_some(FarSide::Core))
        };
        self.peers.iter().flat_map(move |(&peer, count)| sides(count).map(move |side| (peer, side)))
    }

    /// True for an address that some FAR sends to.
    pub fn is_peer(&self, addr: IpAddr) -> bool {
        self.peers.contains_key(&addr)
    }

    /// Changes whenever the peers do.
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}

/// The tunnels that the FARs of a session may send into.
fn tunnels(records: &Records) -> BTreeSet<(GtpuTunnel, FarSide)> {
    let used = records.fars.iter().filter(|far| !far.action.contains(ApplyAction::DROP));
    let copied = records.fars.iter().filter(|far| far.action.contains(ApplyAction::DUPL));
    let forwarding = used.filter_map(|far| far.forwarding.as_ref());
    let forwarding = forwarding.chain(copied.flat_map(|far| &far.duplicating));
    let tunnels = forwarding.filter_map(|parts| {
        let side = match parts.destination {
            DestinationInterface::Access => FarSide::Access,
            _ => FarSide::Core,
        };
        Some((parts.outer_header_creation?.tunnel()?, side))
    });
    tunnels.collect()
}
