//! The far ends of GTP-U tunnels that FARs lead to: which sessions use a tunnel, and how many
//! tunnels lead to a peer.
//!
//! Each commit updates the index, so an Error Indication finds the sessions of its tunnel without a
//! search. Spec: TS 29.281 §7.3.1 (Error Indication), §7.2.1 (paths).

use core::net::IpAddr;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel};
use adit_types::{InterfaceSet, SessionIndex, Teid};

use crate::record::{Forwarding, Records};

/// The side of this UPF to which a GTP-U tunnel leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PeerSide {
    /// Towards the UE: destination interface Access.
    Access,
    /// Towards another UPF and the data network: all others.
    Core,
}

/// A peer, with the number of its tunnel users on each side. It has at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TunnelPeer {
    number: PeerNumber,
    access: usize,
    core: usize,
    /// All interfaces that FARs named since the peer appeared.
    interfaces: InterfaceSet,
}

/// The reference points of a GTP-U peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerSides {
    /// The peer is in an access network.
    pub n3: bool,
    /// The peer is another UPF: on the side of the data network, or towards the UE behind an N9
    /// interface.
    pub n9: bool,
}

impl TunnelPeer {
    /// `n9`: our N9 interfaces.
    fn sides(&self, n9: InterfaceSet) -> PeerSides {
        let behind_n9 = self.interfaces.intersection(n9);
        let is_behind_n9_alone = !behind_n9.is_empty() && behind_n9 == self.interfaces;
        let is_access = self.access > 0;
        PeerSides {
            n3: is_access && !is_behind_n9_alone,
            n9: self.core > 0 || is_access && !behind_n9.is_empty(),
        }
    }

    fn count(&mut self, side: PeerSide) -> &mut usize {
        match side {
            PeerSide::Access => &mut self.access,
            PeerSide::Core => &mut self.core,
        }
    }
}

/// A number instead of the peer's address, to save memory per tunnel user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PeerNumber(u32);

/// One session's use of a tunnel.
type TunnelUser = (PeerNumber, Teid, SessionIndex, PeerSide);

/// The far ends in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TunnelIndex {
    users: BTreeSet<TunnelUser>,
    peers: BTreeMap<IpAddr, TunnelPeer>,
    /// Numbers of previous peers, free for reuse.
    free: Vec<PeerNumber>,
    /// Peers that appeared or disappeared on a side since [`TunnelIndex::take_changed`] returned
    /// them, and whether they were peers then.
    changed: BTreeMap<IpAddr, bool>,
}

impl TunnelIndex {
    /// Updates the tunnels of the session `index`. `interfaces` returns those that forwarding may
    /// use.
    pub(crate) fn change(
        &mut self,
        index: SessionIndex,
        before: &Records,
        after: &Records,
        interfaces: impl Fn(&Forwarding) -> InterfaceSet,
    ) {
        let of = |records| sorted(tunnels(records).map(|(tunnel, side, _)| (tunnel, side)));
        let (had, has) = (of(before), of(after));
        for (tunnel, side) in had.iter().filter(|tunnel| !has.contains(tunnel)) {
            self.remove(*tunnel, index, *side);
        }
        for (tunnel, side) in has.iter().filter(|tunnel| !had.contains(tunnel)) {
            self.add(*tunnel, index, *side);
        }
        self.note_interfaces(after, interfaces);
    }

    /// Adds the interfaces that forwarding with `records` may use now, to those of the peers.
    pub(crate) fn note_interfaces(
        &mut self,
        records: &Records,
        interfaces: impl Fn(&Forwarding) -> InterfaceSet,
    ) {
        for (tunnel, _, parts) in tunnels(records) {
            if let Some(peer) = self.peers.get_mut(&tunnel.addr) {
                peer.interfaces = peer.interfaces.union(interfaces(parts));
            }
        }
    }

    /// Removes all users of the session. For recovery from a fault: it visits every user.
    pub(crate) fn forget(&mut self, index: SessionIndex) {
        let users: Vec<TunnelUser> =
            self.users.iter().filter(|user| user.2 == index).copied().collect();
        for (number, teid, _, side) in users {
            let mut peers = self.peers.iter();
            let addr = peers.find(|(_, peer)| peer.number == number).map(|(addr, _)| *addr);
            if let Some(addr) = addr {
                self.remove(GtpuTunnel { teid, addr }, index, side);
            }
        }
    }

    fn add(&mut self, tunnel: GtpuTunnel, index: SessionIndex, side: PeerSide) {
        let taken = self.peers.len() + self.free.len();
        let peer = self.peers.entry(tunnel.addr).or_insert_with(|| {
            let fresh = PeerNumber(u32::try_from(taken).unwrap_or(u32::MAX));
            let number = self.free.pop().unwrap_or(fresh);
            TunnelPeer { number, access: 0, core: 0, interfaces: InterfaceSet::NONE }
        });
        if self.users.insert((peer.number, tunnel.teid, index, side)) {
            let was_peer = peer.access + peer.core > 0;
            let count = peer.count(side);
            *count += 1;
            if *count == 1 {
                self.changed.entry(tunnel.addr).or_insert(was_peer);
            }
        }
    }

    fn remove(&mut self, tunnel: GtpuTunnel, index: SessionIndex, side: PeerSide) {
        let Some(peer) = self.peers.get_mut(&tunnel.addr) else { return };
        if !self.users.remove(&(peer.number, tunnel.teid, index, side)) {
            return;
        }
        let count = peer.count(side);
        *count -= 1;
        if *count == 0 {
            self.changed.entry(tunnel.addr).or_insert(true);
        }
        if peer.access == 0 && peer.core == 0 {
            self.free.push(peer.number);
            self.peers.remove(&tunnel.addr);
            // A peer that appeared and disappeared meanwhile is not reported.
            if self.changed.get(&tunnel.addr) == Some(&false) {
                self.changed.remove(&tunnel.addr);
            }
        }
    }

    /// The sessions that send into `tunnel`, by ascending index from `first` on.
    pub(crate) fn users(
        &self,
        tunnel: GtpuTunnel,
        first: SessionIndex,
    ) -> impl Iterator<Item = SessionIndex> + '_ {
        let of = move |peer: &TunnelPeer| {
            let first = (peer.number, tunnel.teid, first, PeerSide::Access);
            let last = (peer.number, tunnel.teid, SessionIndex::NONE, PeerSide::Core);
            self.users.range(first..=last)
        };
        let users = self.peers.get(&tunnel.addr).map(of).into_iter().flatten();
        let mut last = None;
        users.map(|user| user.2).filter(move |&index| last.replace(index) != Some(index))
    }

    /// The peers after this one, in ascending order, with their reference points. `n9`: our N9
    /// interfaces.
    pub(crate) fn peers_after(
        &self,
        peer: Option<IpAddr>,
        n9: InterfaceSet,
    ) -> impl Iterator<Item = (IpAddr, PeerSides)> + '_ {
        let first = peer.map_or(Bound::Unbounded, Bound::Excluded);
        let peers = self.peers.range((first, Bound::Unbounded));
        peers.map(move |(&addr, peer)| (addr, peer.sides(n9)))
    }

    /// The reference points of a peer; none for an address that is not a peer. `n9`: our N9
    /// interfaces.
    pub(crate) fn sides(&self, addr: IpAddr, n9: InterfaceSet) -> PeerSides {
        self.peers.get(&addr).map_or(PeerSides::default(), |peer| peer.sides(n9))
    }

    /// Takes a peer that appeared or disappeared on a side since it was last taken.
    pub(crate) fn take_changed(&mut self) -> Option<IpAddr> {
        self.changed.pop_first().map(|(addr, _)| addr)
    }

    /// True if there is such a peer.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The interfaces that FARs named for a peer; all interfaces for an address that is not a peer.
    pub(crate) fn interfaces(&self, addr: IpAddr) -> InterfaceSet {
        self.peers.get(&addr).map_or(InterfaceSet::ALL, |peer| peer.interfaces)
    }
}

/// The tunnels that the FARs of a session may send into, with their sides and parameters.
fn tunnels(records: &Records) -> impl Iterator<Item = (GtpuTunnel, PeerSide, &Forwarding)> {
    let used = records.fars.iter().filter(|far| !far.action.contains(ApplyAction::DROP));
    let copied = records.fars.iter().filter(|far| far.action.contains(ApplyAction::DUPL));
    let forwarding = used.filter_map(|far| far.forwarding.as_ref());
    let forwarding = forwarding.chain(copied.flat_map(|far| &far.duplicating));
    forwarding.filter_map(|parts| {
        let side = match parts.destination {
            DestinationInterface::Access => PeerSide::Access,
            _ => PeerSide::Core,
        };
        Some((parts.outer_header_creation?.tunnel()?, side, parts))
    })
}

/// Removes duplicates: each tunnel stays once per side.
fn sorted(tunnels: impl Iterator<Item = (GtpuTunnel, PeerSide)>) -> Vec<(GtpuTunnel, PeerSide)> {
    let mut tunnels: Vec<_> = tunnels.collect();
    tunnels.sort_unstable();
    tunnels.dedup();
    tunnels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_at_n3_unless_all_its_interfaces_are_n9_and_at_n9_for_either_side() {
        const N9: InterfaceSet = InterfaceSet(0b110);
        // Users of the sides Access and Core, interfaces; at N3, at N9.
        for (access, core, interfaces, n3, n9) in [
            (1, 0, 0b000, true, false),
            (1, 0, 0b001, true, false),
            (2, 0, 0b010, false, true),
            (1, 0, 0b110, false, true),
            (1, 0, 0b011, true, true),
            (0, 1, 0b001, false, true),
            (0, 2, 0b010, false, true),
            (0, 1, 0b000, false, true),
            (1, 1, 0b001, true, true),
            (1, 1, 0b010, false, true),
            (0, 0, 0b010, false, false),
            (0, 0, 0b001, false, false),
        ] {
            let number = PeerNumber(0);
            let peer = TunnelPeer { number, access, core, interfaces: InterfaceSet(interfaces) };
            assert_eq!(peer.sides(N9), PeerSides { n3, n9 }, "{peer:?}");
        }
    }
}
