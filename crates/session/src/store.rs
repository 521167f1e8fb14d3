//! The session store: all sessions, and which session holds which key.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use adit_rules::{CorrelatedRateId, GtpuTunnel, SessionKey, UeAddresses};
use adit_types::limits::{correlated_rates_max, usage_slots_max};
use adit_types::{InterfaceRole, InterfaceSet, OWNER_GROUPS, PdrId, Seid, SessionIndex, UsageSlot};

use crate::alloc::{
    OwnerNodes, SeidAllocator, SessionIndexAllocator, TeidAllocator, UeIpAllocator,
    UsageSlotAllocator, seid_index,
};
use crate::cp_function::OwnerId;
use crate::index::CorrelatedRates;
use crate::index::Deadlines;
use crate::index::GuaranteedRates;
use crate::index::PacketRates;
use crate::index::UeClaims;
use crate::index::{PeerSides, TunnelIndex};
use crate::provisioning::Pfds;
use crate::provisioning::{LocalInterface, Provisioning, RuleCatalog};
use crate::record::{LocalFTeid, Rates, TrafficEndpointId, UeSide};
use crate::session::Session;
use crate::usage::{EndedMeasurement, UsageHandle};

/// The capacity of a store and the objects that rules may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// Sessions at most, including those that wait for their reclaim. Capped to
    /// `limits::SESSIONS_MAX`.
    pub sessions_max: usize,
    /// The objects that rules may name.
    pub provisioning: Provisioning,
    /// Seed of the random SEIDs and TEID tags. Anyone who has it can guess TEIDs, so in operation
    /// it comes from the operating system's random source.
    pub seed: u64,
    /// The nodes of workers and ports: a new session gets an index whose owner is near its port.
    pub owner_nodes: OwnerNodes,
}

/// All that was chosen for one change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Created {
    pub pdrs: Vec<CreatedPdr>,
    pub ues: Vec<CreatedUe>,
    pub endpoints: Vec<CreatedTrafficEndpoint>,
}

/// UE addresses that were chosen here. Spec: TS 29.244 §7.5.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedUe {
    /// The PDR.
    pub pdr: PdrId,
    /// The addresses that were chosen; given ones are left out.
    pub addresses: UeAddresses,
    /// Which address of packets is the UE's, as in the request.
    pub side: UeSide,
}

/// The F-TEID and UE addresses that were chosen here for a traffic endpoint. Spec: TS 29.244
/// §7.5.3.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedTrafficEndpoint {
    /// The traffic endpoint.
    pub id: TrafficEndpointId,
    /// Its local tunnel endpoint, if it was chosen.
    pub f_teid: Option<LocalFTeid>,
    /// Its UE addresses, if they were chosen.
    pub ue: Option<UeAddresses>,
}

/// An F-TEID that was chosen here. Spec: TS 29.244 §7.5.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedPdr {
    /// The PDR.
    pub pdr: PdrId,
    /// Its local tunnel endpoint.
    pub f_teid: LocalFTeid,
}

/// All PFCP sessions of the node.
///
/// Once all workers run a delta, the caller calls [`SessionStore::reclaim`] for its session, once
/// per delta and in the order of the deltas. Until then the store does not reuse chosen TEIDs that
/// the delta removes, nor the index and SEID of a deleted session. UE addresses and TEIDs given by
/// the control plane are free at once: deltas are applied in order, so a key leads either to its
/// old or to its new session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStore {
    pub(crate) provisioning: Provisioning,
    /// Sessions of the previous process were prepared by this provisioning.
    pub(crate) accepts_prepared: bool,
    pub(crate) pfds: Pfds,
    /// Keys of one kind in all sessions together at most; lookup tables have this size.
    pub(crate) keys_max: usize,
    pub(crate) sessions: Vec<Option<Session>>,
    pub(crate) len: usize,
    pub(crate) ues: UeClaims,
    pub(crate) tunnel_index: TunnelIndex,
    pub(crate) guaranteed: GuaranteedRates,
    pub(crate) correlated_rates: CorrelatedRates,
    pub(crate) packet_rates: PacketRates,
    pub(crate) teids: TeidAllocator,
    pub(crate) ue_pools: UeIpAllocator,
    pub(crate) seids: SeidAllocator,
    pub(crate) indices: SessionIndexAllocator,
    pub(crate) usage: UsageHandle,
    pub(crate) usage_slots: UsageSlotAllocator,
    /// The latest generation of an entry of a URR.
    pub(crate) generation: u32,
    pub(crate) deadlines: Deadlines,
    pub(crate) retired: HashMap<SessionIndex, VecDeque<RetiredResources>>,
    pub(crate) owned: BTreeMap<OwnerId, BTreeSet<SessionIndex>>,
    /// Number of commits begun.
    pub(crate) commits: u64,
    /// The session of the last commit.
    pub(crate) last_commit: Option<Seid>,
    /// The commit under way. Between calls only a commit that unwound is left here.
    pub(crate) open_commit: Option<OpenCommit>,
    /// The next commit panics half way, for tests of its containment.
    pub(crate) fault_in_commit: bool,
}

/// The resources that one delta removes and its reclaim frees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RetiredResources {
    /// TEIDs and UE addresses that we chose.
    pub keys: Vec<SessionKey>,
    /// The delta removes the session, so its index and SEID also wait for the reclaim.
    pub is_last: bool,
    /// Removed URRs, whose last usage is to be read.
    pub usage: Vec<EndedMeasurement>,
    /// Their usage counters.
    pub usage_slots: Vec<UsageSlot>,
    /// Rates that the session no longer shares.
    pub correlated_rates: Vec<CorrelatedRateId>,
}

/// A commit that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenCommit {
    pub index: SessionIndex,
    /// Every claim and key of the session, before or after.
    pub keys: Vec<SessionKey>,
    /// Usage counters of the session, before or after.
    pub usage_slots: Vec<UsageSlot>,
    /// Correlated rates of the session, before or after.
    pub correlated_rates: Vec<CorrelatedRateId>,
}

impl SessionStore {
    /// An empty store.
    #[must_use]
    pub fn new(config: StoreConfig) -> Self {
        let sessions_max = config.sessions_max.min(adit_types::limits::SESSIONS_MAX);
        Self {
            ue_pools: UeIpAllocator::new(&config.provisioning.ue_pools, |name| {
                config.provisioning.domains_of(name)
            }),
            guaranteed: GuaranteedRates::new(&config.provisioning.qos),
            packet_rates: PacketRates::default(),
            correlated_rates: CorrelatedRates::new(correlated_rates_max(sessions_max)),
            provisioning: config.provisioning,
            accepts_prepared: false,
            pfds: Pfds::default(),
            keys_max: sessions_max,
            // Reserves all memory at once and leaves it untouched: growth would stop N4 to move all
            // sessions.
            sessions: Vec::with_capacity(sessions_max),
            len: 0,
            ues: UeClaims::with_capacity(sessions_max),
            tunnel_index: TunnelIndex::default(),
            teids: TeidAllocator::new(sessions_max, config.seed),
            seids: SeidAllocator::new(config.seed),
            indices: SessionIndexAllocator::new(sessions_max, config.owner_nodes),
            usage: UsageHandle::default(),
            usage_slots: UsageSlotAllocator::new(usage_slots_max(sessions_max)),
            generation: 0,
            deadlines: Deadlines::default(),
            retired: HashMap::new(),
            owned: BTreeMap::new(),
            commits: 0,
            last_commit: None,
            open_commit: None,
            fault_in_commit: false,
        }
    }

    /// Frees the resources that the oldest unreclaimed delta of `session` removed. Call it once per
    /// delta, when all workers run the delta. Does nothing without such a delta.
    pub fn reclaim(&mut self, session: SessionIndex) {
        let Some(queue) = self.retired.get_mut(&session) else { return };
        let retired = queue.pop_front().unwrap_or_default();
        if queue.is_empty() {
            self.retired.remove(&session);
        }
        for key in retired.keys {
            match key {
                SessionKey::Teid(teid) => self.teids.reclaim(teid),
                SessionKey::UeIpv4(..) | SessionKey::UeIpv6(..) => self.ue_pools.reclaim(key),
                SessionKey::Framed(..) => {}
            }
        }
        for slot in retired.usage_slots {
            self.usage_slots.release(slot);
        }
        self.correlated_rates.release(retired.correlated_rates);
        if retired.is_last {
            self.indices.release(session);
        }
    }

    /// The session with our SEID `up_seid`.
    #[must_use]
    pub fn session(&self, up_seid: Seid) -> Option<&Session> {
        self.session_at(seid_index(up_seid)).filter(|session| session.up_seid == up_seid)
    }

    /// The session of the UE with this address, or for IPv6 with its /64, in the first routing
    /// domain that has one.
    #[must_use]
    pub fn session_of_ue(&self, addr: IpAddr) -> Option<&Session> {
        self.session_at(self.ues.session_of_ue(addr)?)
    }

    /// The session of index `index`.
    #[must_use]
    pub fn session_at(&self, index: SessionIndex) -> Option<&Session> {
        self.sessions.get(position(index))?.as_ref()
    }

    /// All sessions, by ascending index.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter().flatten()
    }

    /// The sessions of at most `count` indices from `first` on, and the index after these; `None`
    /// when no session has a higher one.
    pub fn sessions_from(
        &self,
        first: SessionIndex,
        count: usize,
    ) -> (impl Iterator<Item = &Session>, Option<SessionIndex>) {
        let first = position(first).min(self.sessions.len());
        let end = first.saturating_add(count).min(self.sessions.len());
        let next = u32::try_from(end).ok().filter(|_| end < self.sessions.len());
        let found = self.sessions.get(first..end).unwrap_or_default();
        (found.iter().flatten(), next.map(SessionIndex))
    }

    /// How many sessions `owner` has.
    #[must_use]
    pub fn owned_count(&self, owner: OwnerId) -> usize {
        self.owned.get(&owner).map_or(0, BTreeSet::len)
    }

    /// How many sessions there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is no session.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sessions that have a FAR into `tunnel`, by ascending index.
    pub fn tunnel_users(&self, tunnel: GtpuTunnel) -> impl Iterator<Item = &Session> {
        self.tunnel_users_from(tunnel, SessionIndex(0))
    }

    /// The sessions of [`Self::tunnel_users`] from index `first` on.
    pub fn tunnel_users_from(
        &self,
        tunnel: GtpuTunnel,
        first: SessionIndex,
    ) -> impl Iterator<Item = &Session> {
        self.tunnel_index.users(tunnel, first).filter_map(|index| self.session_at(index))
    }

    /// The GTP-U peers to which FARs send, with their reference points, in ascending order: those
    /// after `peer`, or all.
    pub fn peers_after(
        &self,
        peer: Option<IpAddr>,
    ) -> impl Iterator<Item = (IpAddr, PeerSides)> + '_ {
        self.tunnel_index.peers_after(peer, self.provisioning.n9_interfaces())
    }

    /// The reference points of a GTP-U peer; none for an address to which no FAR sends.
    #[must_use]
    pub fn peer_sides(&self, addr: IpAddr) -> PeerSides {
        self.tunnel_index.sides(addr, self.provisioning.n9_interfaces())
    }

    /// Takes a GTP-U peer that appeared or disappeared on a side since it was last taken.
    pub fn take_changed_peer(&mut self) -> Option<IpAddr> {
        self.tunnel_index.take_changed()
    }

    /// True when [`SessionStore::take_changed_peer`] returns one.
    #[must_use]
    pub fn has_changed_peer(&self) -> bool {
        self.tunnel_index.has_changed()
    }

    /// The interfaces of the FARs that send to a GTP-U peer.
    #[must_use]
    pub fn peer_interfaces(&self, addr: IpAddr) -> InterfaceSet {
        self.tunnel_index.interfaces(addr)
    }

    /// How many low bits of a TEID are its position, if it was chosen here. Positions are dense. At
    /// most one of the chosen TEIDs with the same position is in use or waits for its reclaim.
    #[must_use]
    pub const fn slot_bits(&self) -> u32 {
        self.teids.slot_bits()
    }

    /// Identifiers in use or waiting for their reclaim.
    #[must_use]
    pub fn reserved(&self) -> ReservedCounts {
        ReservedCounts {
            sessions: self.indices.reserved_count(),
            teids: self.teids.reserved_count(),
            ues: self.ue_pools.reserved_count(),
            framed_routes: self.ues.framed_count(),
            usage_slots: self.usage_slots.reserved_count(),
            correlated_rates: self.correlated_rates.count(),
        }
    }

    /// Sessions, those that wait for their reclaim included, by group of owners
    /// ([`adit_types::Owners`]).
    #[must_use]
    pub const fn sessions_by_group(&self) -> &[u32; OWNER_GROUPS as usize] {
        self.indices.used_by_group()
    }

    /// The configuration that rules may refer to.
    #[must_use]
    pub const fn provisioning(&self) -> &Provisioning {
        &self.provisioning
    }

    /// Replaces the objects that rules may name, except the conditions of slices, which stay.
    /// Sessions that exist have the previous rules until [`SessionStore::recompile`]; addresses
    /// that they have stay theirs. Forwarding policies that FARs name must keep their network
    /// instance: keys of sessions depend on it.
    ///
    /// The interfaces are the previous ones, and may be followed by further ones. Only rules that
    /// name its network instance use a routing domain that these add: rules without a name keep the
    /// domains in which their sessions have keys.
    pub fn set_provisioning(&mut self, mut provisioning: Provisioning) {
        let former = &self.provisioning.interfaces;
        for (position, interface) in provisioning.interfaces.iter_mut().enumerate() {
            let has_domain = |of: &LocalInterface| {
                of.role == InterfaceRole::N6 && of.domain == interface.domain && !of.only_by_name
            };
            interface.only_by_name = match former.get(position) {
                Some(known) => known.only_by_name,
                None => interface.role == InterfaceRole::N6 && !former.iter().any(has_domain),
            };
        }
        self.provisioning = provisioning;
        self.accepts_prepared = false;
        let known = &self.provisioning;
        self.ue_pools.set_pools(&known.ue_pools, |name| known.domains_of(name));
        self.guaranteed.set_capacity(&known.qos);
    }

    /// Guaranteed bit rates of all sessions together, and the capacity for them.
    #[must_use]
    pub fn guaranteed(&self) -> (Rates, Rates) {
        self.guaranteed.all()
    }

    /// Sessions at most.
    #[must_use]
    pub fn sessions_max(&self) -> usize {
        self.indices.max_count()
    }

    /// The objects that rules may name.
    pub(crate) const fn catalog(&self) -> RuleCatalog<'_> {
        RuleCatalog { configured: &self.provisioning, pfds: &self.pfds }
    }

    /// For each pool of UE addresses, in the order of the configuration: the addresses in use or
    /// waiting for their reclaim, and all addresses.
    pub fn ue_pool_usage(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ue_pools.usage()
    }

    /// Puts a session into its place.
    pub(crate) fn insert_session(&mut self, session: Session) {
        let position = position(session.index());
        if position >= self.sessions.len() {
            self.sessions.resize(position + 1, None);
        }
        if let Some(place) = self.sessions.get_mut(position) {
            self.owned.entry(session.owner).or_default().insert(session.index());
            *place = Some(session);
            self.len += 1;
        }
    }

    pub(crate) fn session_at_mut(&mut self, index: SessionIndex) -> Option<&mut Session> {
        self.sessions.get_mut(position(index))?.as_mut()
    }

    pub(crate) fn remove_session(&mut self, index: SessionIndex) -> Option<Session> {
        let session = self.sessions.get_mut(position(index))?.take()?;
        self.len -= 1;
        if let Some(owned) = self.owned.get_mut(&session.owner) {
            owned.remove(&index);
            if owned.is_empty() {
                self.owned.remove(&session.owner);
            }
        }
        Some(session)
    }
}

/// How many identifiers are in use or wait for their reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReservedCounts {
    /// Session indices.
    pub sessions: usize,
    /// TEIDs, chosen here or given.
    pub teids: usize,
    /// UE addresses from our pools.
    pub ues: usize,
    /// Framed routes.
    pub framed_routes: usize,
    /// Usage counters.
    pub usage_slots: usize,
    /// Rates that sessions share.
    pub correlated_rates: usize,
}

fn position(index: SessionIndex) -> usize {
    usize::try_from(index.0).unwrap_or(usize::MAX)
}
