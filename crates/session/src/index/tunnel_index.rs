//! The GTP-U tunnels that FARs send into: their sessions, and the peers at their far ends.
//!
//! Each commit updates the index, so an Error Indication finds the sessions of its tunnel without a
//! search. Spec: TS 29.281 §7.3.1 (Error Indication), §7.2.1 (paths).

use core::net::IpAddr;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel};
use adit_types::{InterfaceSet, SessionIndex, Teid};

use crate::record::{Forwarding, Records};

/// The side of this UPF on which the far end of a GTP-U tunnel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PeerSide {
    /// Towards the UE: destination interface Access.
    Access,
    /// Towards another UPF or the data network: all other destination interfaces.
    Core,
}

/// A GTP-U peer. `access` and `core`: how many tunnel users there are on each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TunnelPeer {
    number: PeerNumber,
    access: usize,
    core: usize,
    /// All interfaces that FARs used for the peer since it appeared.
    interfaces: InterfaceSet,
}

/// The reference points at which a GTP-U peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerSides {
    /// True if the peer is in an access network.
    pub n3: bool,
    /// True if the peer is another UPF: towards the data network, or behind an N9 interface.
    pub n9: bool,
}

impl TunnelPeer {
    /// Returns the reference points of the peer. `n9`: our N9 interfaces.
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

/// A number that replaces the peer's address, to save memory per tunnel user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PeerNumber(u32);

/// A session that sends into a tunnel. All users are ordered by peer and TEID.
type TunnelUser = (PeerNumber, Teid, SessionIndex, PeerSide);

/// The tunnels that sessions use, and the peers at their far ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TunnelIndex {
    users: BTreeSet<TunnelUser>,
    peers: BTreeMap<IpAddr, TunnelPeer>,
    /// Numbers of former peers, free for reuse.
    free: Vec<PeerNumber>,
    /// Peers that gained or lost a side since [`TunnelIndex::take_changed`] returned them last.
    /// True if the peer existed then.
    changed: BTreeMap<IpAddr, bool>,
}

impl TunnelIndex {
    /// Updates the tunnels of the session `index`. `interfaces` returns those for forwarding.
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

    /// Adds the interfaces that forwarding with `records` may use now to those of the peers.
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

    /// Removes all tunnels of the session. Only for recovery from a fault, as it visits every user.
    pub(crate) fn remove_session(&mut self, index: SessionIndex) {
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
            // A peer that appeared and disappeared since the last report is not reported.
            if self.changed.get(&tunnel.addr) == Some(&false) {
                self.changed.remove(&tunnel.addr);
            }
        }
    }

    /// Returns the sessions that send into `tunnel`, by ascending index from `first` on.
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

    /// Returns the peers after `peer` (all if it is `None`), in ascending order, with their
    /// reference points. `n9`: our N9 interfaces.
    pub(crate) fn peers_after(
        &self,
        peer: Option<IpAddr>,
        n9: InterfaceSet,
    ) -> impl Iterator<Item = (IpAddr, PeerSides)> + '_ {
        let first = peer.map_or(Bound::Unbounded, Bound::Excluded);
        let peers = self.peers.range((first, Bound::Unbounded));
        peers.map(move |(&addr, peer)| (addr, peer.sides(n9)))
    }

    /// Returns the reference points of a peer; none for an address that is not a peer. `n9`: our N9
    /// interfaces.
    pub(crate) fn sides(&self, addr: IpAddr, n9: InterfaceSet) -> PeerSides {
        self.peers.get(&addr).map_or(PeerSides::default(), |peer| peer.sides(n9))
    }

    /// Returns a peer that gained or lost a side since it was last returned here.
    pub(crate) fn take_changed(&mut self) -> Option<IpAddr> {
        self.changed.pop_first().map(|(addr, _)| addr)
    }

    /// True if [`TunnelIndex::take_changed`] would return a peer.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns the interfaces that FARs used for a peer; all interfaces for other addresses.
    pub(crate) fn interfaces(&self, addr: IpAddr) -> InterfaceSet {
        self.peers.get(&addr).map_or(InterfaceSet::ALL, |peer| peer.interfaces)
    }
}

/// Returns the tunnels that the FARs of a session may send into, with their sides and parameters.
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

/// Sorts the tunnels and removes duplicates on the same side.
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
        // Users on the sides Access and Core, interfaces, whether the peer is at N3, at N9.
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
