//! The peers: addresses that have an association, or responses kept for retransmissions.
//!
//! A peer is an IP address with at most one association. A datagram from an address that is no peer
//! leaves no state. Spec: TS 29.244 §6.2.6.

use core::net::{IpAddr, SocketAddr};
use core::ops::Bound;
use std::collections::BTreeMap;

use adit_pfcp::ie::CpFunctionFeatures;
use adit_session::OwnerId;
use adit_types::Nanos;
use adit_types::limits::ASSOCIATIONS_MAX;

use crate::admission::{Admission, AdmissionBuckets, RequestToAdmit};
use crate::association::{Association, NodeIdentity};
use crate::load::LastReportedLoad;
use crate::path_reports::PathReports;
use crate::response_cache::ResponseCache;
use crate::setup::{ContestedSetup, Setups};
use crate::ue_pools::LastReportedPoolUsage;

/// How many steps per iteration of the control thread clear the response caches of ended
/// associations.
const OLD_CACHE_STEPS_PER_TURN: usize = 32;

/// The state of one peer address.
#[derive(Debug, Default)]
pub(crate) struct PfcpPeer {
    pub association: Option<Association>,
    pub cache: ResponseCache,
    pub buckets: AdmissionBuckets,
    pub paths: PathReports,
    pub load_reported: LastReportedLoad,
    pub pool_usage_reported: LastReportedPoolUsage,
    /// The NF Instance ID that the CP function reported.
    pub nf_instance_id: Option<[u8; 16]>,
}

/// All peers, and the association setups under way.
#[derive(Debug)]
pub(crate) struct Peers {
    by_address: BTreeMap<IpAddr, PfcpPeer>,
    /// Alternative addresses; each with the address of the association that lists it.
    aliases: BTreeMap<IpAddr, IpAddr>,
    /// Setups that wait until it is known whether the peer that holds their Node ID is alive.
    pub contested_setups: Vec<ContestedSetup>,
    /// Association setups that this node requests.
    pub setups: Setups,
    pub admission: Admission,
    /// Response caches of ended associations; each iteration clears a bounded part.
    old_caches: Vec<ResponseCache>,
    last_owner: u32,
}

impl Peers {
    /// Creates an empty set of peers.
    pub(crate) fn new(setups: Setups, admission: Admission) -> Self {
        Self {
            by_address: BTreeMap::new(),
            aliases: BTreeMap::new(),
            contested_setups: Vec::new(),
            setups,
            admission,
            old_caches: Vec::new(),
            last_owner: 0,
        }
    }

    /// Returns the peer at an address.
    pub(crate) fn get(&self, address: IpAddr) -> Option<&PfcpPeer> {
        self.by_address.get(&address)
    }

    /// Returns the peer at an address, to be changed.
    pub(crate) fn get_mut(&mut self, address: IpAddr) -> Option<&mut PfcpPeer> {
        self.by_address.get_mut(&address)
    }

    /// Returns the peer at an address; adds it if absent.
    pub(crate) fn entry(&mut self, address: IpAddr) -> &mut PfcpPeer {
        self.by_address.entry(address).or_default()
    }

    /// Returns all peers, by address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PfcpPeer> {
        self.by_address.values()
    }

    /// Returns the peers from this address on; all peers for `None`.
    pub(crate) fn iter_from(
        &self,
        address: Option<IpAddr>,
    ) -> impl Iterator<Item = (IpAddr, &PfcpPeer)> {
        let from = address.map_or(Bound::Unbounded, Bound::Included);
        self.by_address.range((from, Bound::Unbounded)).map(|(address, peer)| (*address, peer))
    }

    /// Returns all peers, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PfcpPeer> {
        self.by_address.values_mut()
    }

    /// Returns the association at an address.
    pub(crate) fn association(&self, address: IpAddr) -> Option<&Association> {
        self.get(address)?.association.as_ref()
    }

    /// Returns the association at an address, to be changed.
    pub(crate) fn association_mut(&mut self, address: IpAddr) -> Option<&mut Association> {
        self.get_mut(address)?.association.as_mut()
    }

    /// Returns all associations, by address.
    pub(crate) fn associations(&self) -> impl Iterator<Item = &Association> {
        self.iter().filter_map(|peer| peer.association.as_ref())
    }

    /// Returns the association that `owner` identifies.
    pub(crate) fn association_of(&self, owner: OwnerId) -> Option<&Association> {
        self.associations().find(|association| association.owner == owner)
    }

    /// Returns the peer of the association that `owner` identifies.
    pub(crate) fn peer_of_mut(&mut self, owner: OwnerId) -> Option<&mut PfcpPeer> {
        let is_of = |association: &Association| association.owner == owner;
        self.iter_mut().find(|peer| peer.association.as_ref().is_some_and(is_of))
    }

    /// True if the peer of the association does not answer heartbeats.
    pub(crate) fn is_silent(&self, owner: OwnerId) -> bool {
        self.association_of(owner).is_some_and(Association::is_silent)
    }

    /// Returns the silent association whose sessions end first, and when they end.
    pub(crate) fn next_silent_end(&self) -> Option<(Nanos, IpAddr)> {
        self.associations().filter_map(|known| Some((known.silent_until?, known.address))).min()
    }

    /// Returns the identifiers and addresses of all associations.
    pub(crate) fn destinations(&self) -> Vec<(OwnerId, SocketAddr)> {
        self.associations().map(|a| (a.owner, a.socket())).collect()
    }

    /// Returns the association that requests from an address belong to: the one at this address,
    /// else the one that lists it as an alternative address.
    pub(crate) fn association_for(&self, address: IpAddr) -> Option<&Association> {
        let other = || self.association(*self.aliases.get(&address)?);
        self.association(address).or_else(other)
    }

    /// True if this is an alternative address of an association.
    pub(crate) fn is_alias(&self, address: IpAddr) -> bool {
        self.aliases.contains_key(&address)
    }

    /// True if this is an address of an association, alternative ones included, or a configured
    /// peer.
    pub(crate) fn is_known(&self, address: IpAddr) -> bool {
        self.association_for(address).is_some() || self.admission.is_configured(address)
    }

    /// Returns the association that has `node_id` at another address than `claimant`.
    pub(crate) fn other_holder(
        &self,
        claimant: IpAddr,
        node_id: &NodeIdentity,
    ) -> Option<&Association> {
        self.associations().find(|known| known.address != claimant && known.node_id == *node_id)
    }

    /// True if requests from `address` may change the sessions of the association `owner`.
    pub(crate) fn controls(&self, address: IpAddr, owner: OwnerId) -> bool {
        let association = self.association_for(address);
        association.is_some_and(|association| self.shares_control(association.owner, owner))
    }

    /// True if both are the same association, or associations of the same SMF set.
    pub(crate) fn shares_control(&self, one: OwnerId, other: OwnerId) -> bool {
        let set = |owner| self.association_of(owner)?.smf_set.id.as_ref();
        one == other || set(one).is_some_and(|id| set(other) == Some(id))
    }

    /// Returns another association of the same SMF set whose peer answers heartbeats.
    pub(crate) fn successor_of(&self, owner: OwnerId) -> Option<&Association> {
        self.associations()
            .filter(|other| other.owner != owner && !other.is_silent())
            .find(|other| self.shares_control(owner, other.owner))
    }

    /// True if the CP function of an association announced this feature.
    pub(crate) fn cp_function_has(&self, owner: OwnerId, feature: CpFunctionFeatures) -> bool {
        self.association_of(owner).is_some_and(|association| association.has(feature))
    }

    /// Takes a token for a request; false if there is none.
    pub(crate) fn admit(&mut self, now: Nanos, from: SocketAddr, request: RequestToAdmit) -> bool {
        let of = from.ip();
        let address = self.aliases.get(&of).unwrap_or(&of);
        let peer = self.by_address.get_mut(address).filter(|peer| peer.association.is_some());
        let own = peer.map(|peer| &mut peer.buckets);
        self.admission.admit(now, from, own, request)
    }

    /// Returns when the next Heartbeat Request is due.
    pub(crate) fn next_heartbeat(&self) -> Option<Nanos> {
        let idle = self.associations().filter(|association| !association.heartbeat_in_flight);
        idle.map(|association| association.next_heartbeat).min()
    }

    /// Returns the associations whose Heartbeat Request is due; it counts as sent from now on.
    pub(crate) fn take_due_heartbeats(&mut self, now: Nanos) -> Vec<(OwnerId, SocketAddr)> {
        let associations = self.iter_mut().filter_map(|peer| peer.association.as_mut());
        let due = associations.filter(|a| !a.heartbeat_in_flight && a.next_heartbeat <= now);
        let due = due.map(|association| {
            association.heartbeat_in_flight = true;
            (association.owner, association.socket())
        });
        due.collect()
    }

    /// Lists all alternative addresses again, after an association has changed.
    pub(crate) fn refresh_aliases(&mut self) {
        let aliases = self.associations().flat_map(|association| {
            let alternatives = association.smf_set.alternatives.iter();
            alternatives.map(|&alternative| (alternative, association.address))
        });
        self.aliases = aliases.collect();
    }

    /// Removes the association from its address, with everything that waits for its peer.
    pub(crate) fn detach(&mut self, address: IpAddr) -> Option<Association> {
        let peer = self.by_address.get_mut(&address)?;
        let association = peer.association.take()?;
        self.old_caches.push(core::mem::take(&mut peer.cache));
        peer.paths = PathReports::default();
        peer.load_reported = LastReportedLoad::default();
        (peer.pool_usage_reported, peer.nf_instance_id) = (None, None);
        Some(association)
    }

    /// Makes room for an association at an address by removing an idle peer; false without room.
    pub(crate) fn make_room_for(&mut self, address: IpAddr) -> bool {
        if self.by_address.contains_key(&address) || self.by_address.len() < ASSOCIATIONS_MAX {
            return true;
        }
        let idle = self.by_address.iter().find(|(_, peer)| peer.association.is_none());
        let Some(idle) = idle.map(|(&address, _)| address) else { return false };
        let removed = self.by_address.remove(&idle);
        self.old_caches.extend(removed.map(|peer| peer.cache));
        true
    }

    /// Returns the identifier for a new association.
    pub(crate) const fn next_owner(&mut self) -> OwnerId {
        self.last_owner = self.last_owner.wrapping_add(1);
        OwnerId(self.last_owner)
    }

    /// Returns the identifier that the last new association got.
    pub(crate) const fn last_owner(&self) -> OwnerId {
        OwnerId(self.last_owner)
    }

    /// Makes new associations get identifiers greater than `last`.
    pub(crate) fn skip_owners_through(&mut self, last: OwnerId) {
        self.last_owner = self.last_owner.max(last.0);
    }

    /// Removes peers that have no association and no response to send again. `lifetime`: how long
    /// responses are kept.
    pub(crate) fn forget_idle(&mut self, now: Nanos, lifetime: Nanos) {
        self.by_address.retain(|_, peer| {
            peer.cache.expire(now, lifetime);
            peer.association.is_some() || !peer.cache.is_empty()
        });
        for _ in 0..OLD_CACHE_STEPS_PER_TURN {
            if !self.old_caches.last_mut().is_none_or(ResponseCache::remove_some_answers) {
                self.old_caches.pop();
            }
        }
    }

    /// Returns when the next peer without an association loses its last kept response.
    pub(crate) fn next_idle_expiry(&self, lifetime: Nanos) -> Option<Nanos> {
        let idle = self.iter().filter(|peer| peer.association.is_none());
        idle.filter_map(|peer| Some(peer.cache.newest_answer_time()? + lifetime)).min()
    }

    /// Returns how many responses are kept for retransmissions.
    pub(crate) fn kept_response_count(&self) -> usize {
        self.iter().map(|peer| peer.cache.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::PeerPolicy;
    use crate::association::RestartClaim;
    use crate::smf_set::SmfSet;

    fn address(host: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, host])
    }

    fn peers() -> Peers {
        let setups = Setups::new(&[], Nanos(1));
        Peers::new(setups, Admission::new(PeerPolicy::default(), Vec::new(), 1))
    }

    /// Adds an association of the SMF set `set`, with one alternative address.
    fn associate(peers: &mut Peers, host: u8, set: Option<&[u8]>, alternative: u8) -> OwnerId {
        let owner = peers.next_owner();
        let id = set.map(<[u8]>::to_vec);
        let association = Association {
            node_id: NodeIdentity::Fqdn(format!("smf{host}")),
            address: address(host),
            port: 8805,
            owner,
            recovery_time_stamp: 1,
            since: Nanos(0),
            cp_function_features: u64::from(CpFunctionFeatures::EPFAR.bits()),
            smf_set: SmfSet { id, alternatives: vec![address(alternative)] },
            own_time_stamp: 1,
            silent_until: None,
            is_time_stamp_unknown: false,
            older_time_stamp: None,
            restart_claim: RestartClaim::None,
            release_due: None,
            next_heartbeat: Nanos(u64::from(host)),
            heartbeat_in_flight: false,
        };
        peers.entry(address(host)).association = Some(association);
        peers.refresh_aliases();
        owner
    }

    #[test]
    fn alternative_address_acts_for_its_association_and_its_set_only() {
        let mut peers = peers();
        let one = associate(&mut peers, 1, Some(b"set"), 11);
        let two = associate(&mut peers, 2, Some(b"set"), 12);
        let other = associate(&mut peers, 3, None, 13);
        assert_eq!(peers.association_for(address(11)).map(|a| a.owner), Some(one));
        assert!(peers.is_known(address(11)) && !peers.is_known(address(99)));
        assert!(peers.controls(address(11), two) && !peers.controls(address(11), other));
        assert_eq!(peers.successor_of(one).map(|a| a.owner), Some(two));
        assert!(peers.successor_of(other).is_none());
        assert!(peers.cp_function_has(one, CpFunctionFeatures::EPFAR));
        peers.detach(address(1));
        peers.refresh_aliases();
        assert!(!peers.is_alias(address(11)) && peers.association_of(one).is_none());
    }

    #[test]
    fn heartbeat_is_due_once_until_it_is_answered() {
        let mut peers = peers();
        let one = associate(&mut peers, 1, None, 11);
        associate(&mut peers, 9, None, 19);
        assert_eq!(peers.next_heartbeat(), Some(Nanos(1)));
        let due = peers.take_due_heartbeats(Nanos(5));
        assert_eq!(due, [(one, SocketAddr::new(address(1), 8805))]);
        assert!(peers.take_due_heartbeats(Nanos(5)).is_empty());
        assert_eq!(peers.next_heartbeat(), Some(Nanos(9)), "of the other one");
    }

    #[test]
    fn idle_peer_gives_way_to_an_association_and_an_association_does_not() {
        let mut peers = peers();
        for host in 0..ASSOCIATIONS_MAX {
            let octets = u32::try_from(host).unwrap().to_be_bytes();
            peers.entry(IpAddr::from(octets));
        }
        assert!(peers.make_room_for(address(1)));
        associate(&mut peers, 1, None, 11);
        assert!(peers.make_room_for(address(1)), "it is there");
        while peers.by_address.values().any(|peer| peer.association.is_none()) {
            let idle = peers.by_address.iter().find(|(_, peer)| peer.association.is_none());
            let idle = idle.map(|(&address, _)| address).unwrap();
            let association = peers.association(address(1)).cloned();
            peers.entry(idle).association = association;
        }
        assert!(!peers.make_room_for(address(2)));
    }

    #[test]
    fn peer_without_association_and_answers_is_forgotten() {
        let mut peers = peers();
        associate(&mut peers, 1, None, 11);
        peers.entry(address(2));
        peers.forget_idle(Nanos(0), Nanos(10));
        assert!(peers.get(address(1)).is_some() && peers.get(address(2)).is_none());
    }
}
