//! The session store: all sessions, and the indices and allocators over them.

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
use crate::usage::{EndedMeasurement, UsageSourceHandle};

/// The capacity of a store and the objects that rules may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// Maximum number of sessions, including those that wait for a reclaim. Capped to
    /// `limits::SESSIONS_MAX`.
    pub sessions_max: usize,
    /// The objects that rules may name.
    pub provisioning: Provisioning,
    /// Seed of the random SEIDs and TEID tags. It reveals TEIDs, so in operation it comes from the
    /// operating system's random source.
    pub seed: u64,
    /// NUMA nodes of workers and ports: a new session gets an index whose owner is near its port.
    pub owner_nodes: OwnerNodes,
}

/// All F-TEIDs and UE addresses that we chose for one change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Created {
    pub pdrs: Vec<CreatedPdr>,
    pub ues: Vec<CreatedUe>,
    pub endpoints: Vec<CreatedTrafficEndpoint>,
}

/// UE addresses that we chose for a PDR. Spec: TS 29.244 §7.5.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedUe {
    /// The PDR.
    pub pdr: PdrId,
    /// The addresses that we chose, without those that the control plane gave.
    pub addresses: UeAddresses,
    /// Whether the source or the destination of packets is the UE, as in the request.
    pub side: UeSide,
}

/// The F-TEID and UE addresses that we chose for a traffic endpoint. Spec: TS 29.244 §7.5.3.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedTrafficEndpoint {
    /// The traffic endpoint.
    pub id: TrafficEndpointId,
    /// The F-TEID, if we chose it.
    pub f_teid: Option<LocalFTeid>,
    /// The UE addresses, if we chose them.
    pub ue: Option<UeAddresses>,
}

/// An F-TEID that we chose for a PDR. Spec: TS 29.244 §7.5.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedPdr {
    /// The PDR.
    pub pdr: PdrId,
    /// The F-TEID.
    pub f_teid: LocalFTeid,
}

/// All PFCP sessions of the node.
///
/// For each delta, in the order of the deltas, the caller must call [`SessionStore::reclaim`] for
/// its session once all workers run the delta. Until then the store does not reuse TEIDs that we
/// chose and that the delta removes, nor the index and SEID of a deleted session. UE addresses and
/// TEIDs that the control plane chose are free at once: deltas are applied in order, so a key leads
/// either to its old or to its new session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStore {
    pub(crate) provisioning: Provisioning,
    /// True if the provisioning is that by which sessions of the previous process were prepared.
    pub(crate) accepts_prepared: bool,
    pub(crate) pfds: Pfds,
    /// Maximum number of keys of one kind in all sessions together; lookup tables have this size.
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
    pub(crate) usage: UsageSourceHandle,
    pub(crate) usage_slots: UsageSlotAllocator,
    /// The newest generation that an entry of a URR has got.
    pub(crate) generation: u32,
    pub(crate) deadlines: Deadlines,
    pub(crate) retired: HashMap<SessionIndex, VecDeque<RetiredResources>>,
    pub(crate) owned: BTreeMap<OwnerId, BTreeSet<SessionIndex>>,
    /// How many commits have begun.
    pub(crate) commits: u64,
    /// The session of the last commit.
    pub(crate) last_commit: Option<Seid>,
    /// The commit under way. Between calls it is set only if a commit panicked.
    pub(crate) open_commit: Option<OpenCommit>,
    /// True to make the next commit panic half way, for tests of recovery.
    pub(crate) fault_in_commit: bool,
}

/// The resources that one delta removes, and that its reclaim frees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RetiredResources {
    /// TEIDs and UE addresses that we chose.
    pub keys: Vec<SessionKey>,
    /// True if the delta removes the session, so that its index and SEID also wait for the reclaim.
    pub is_last: bool,
    /// Removed URRs whose last usage is still to be read.
    pub usage: Vec<EndedMeasurement>,
    /// The usage counters of the removed URRs.
    pub usage_slots: Vec<UsageSlot>,
    /// Rates that the session no longer shares.
    pub correlated_rates: Vec<CorrelatedRateId>,
}

/// A commit that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenCommit {
    pub index: SessionIndex,
    /// All claims and keys of the session, before and after the commit.
    pub keys: Vec<SessionKey>,
    /// All usage counters of the session, before and after the commit.
    pub usage_slots: Vec<UsageSlot>,
    /// All correlated rates of the session, before and after the commit.
    pub correlated_rates: Vec<CorrelatedRateId>,
}

impl SessionStore {
    /// Makes an empty store.
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
            // Reserves all memory at once, without touching it: growth would move all sessions
            // while N4 waits.
            sessions: Vec::with_capacity(sessions_max),
            len: 0,
            ues: UeClaims::with_capacity(sessions_max),
            tunnel_index: TunnelIndex::default(),
            teids: TeidAllocator::new(sessions_max, config.seed),
            seids: SeidAllocator::new(config.seed),
            indices: SessionIndexAllocator::new(sessions_max, config.owner_nodes),
            usage: UsageSourceHandle::default(),
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
    /// delta, when all workers run the delta. Does nothing if there is no such delta.
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

    /// Returns the session with our SEID `up_seid`.
    #[must_use]
    pub fn session(&self, up_seid: Seid) -> Option<&Session> {
        self.session_at(seid_index(up_seid)).filter(|session| session.up_seid == up_seid)
    }

    /// Returns the session of the UE with this IPv4 address, or with the /64 of this IPv6 address,
    /// in the first routing domain that has one.
    #[must_use]
    pub fn session_of_ue(&self, addr: IpAddr) -> Option<&Session> {
        self.session_at(self.ues.session_of_ue(addr)?)
    }

    /// Returns the session with this index.
    #[must_use]
    pub fn session_at(&self, index: SessionIndex) -> Option<&Session> {
        self.sessions.get(position(index))?.as_ref()
    }

    /// Returns all sessions, by ascending index.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter().flatten()
    }

    /// Returns the sessions among `count` indices from `first` on, and the index to continue with;
    /// `None` if no session has a higher index.
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

    /// Returns how many sessions `owner` has.
    #[must_use]
    pub fn owned_count(&self, owner: OwnerId) -> usize {
        self.owned.get(&owner).map_or(0, BTreeSet::len)
    }

    /// Returns how many sessions there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is no session.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the sessions with a FAR that sends into `tunnel`, by ascending index.
    pub fn tunnel_users(&self, tunnel: GtpuTunnel) -> impl Iterator<Item = &Session> {
        self.tunnel_users_from(tunnel, SessionIndex(0))
    }

    /// Returns the sessions of [`Self::tunnel_users`] from index `first` on.
    pub fn tunnel_users_from(
        &self,
        tunnel: GtpuTunnel,
        first: SessionIndex,
    ) -> impl Iterator<Item = &Session> {
        self.tunnel_index.users(tunnel, first).filter_map(|index| self.session_at(index))
    }

    /// Returns the GTP-U peers to which FARs send, with their reference points, in ascending order:
    /// those after `peer`, or all if it is `None`.
    pub fn peers_after(
        &self,
        peer: Option<IpAddr>,
    ) -> impl Iterator<Item = (IpAddr, PeerSides)> + '_ {
        self.tunnel_index.peers_after(peer, self.provisioning.n9_interfaces())
    }

    /// Returns the reference points of a GTP-U peer; none for an address to which no FAR sends.
    #[must_use]
    pub fn peer_sides(&self, addr: IpAddr) -> PeerSides {
        self.tunnel_index.sides(addr, self.provisioning.n9_interfaces())
    }

    /// Returns a GTP-U peer that appeared or disappeared on a side since it was last returned here.
    pub fn take_changed_peer(&mut self) -> Option<IpAddr> {
        self.tunnel_index.take_changed()
    }

    /// True if [`SessionStore::take_changed_peer`] would return a peer.
    #[must_use]
    pub fn has_changed_peer(&self) -> bool {
        self.tunnel_index.has_changed()
    }

    /// Returns the interfaces of the FARs that send to a GTP-U peer.
    #[must_use]
    pub fn peer_interfaces(&self, addr: IpAddr) -> InterfaceSet {
        self.tunnel_index.interfaces(addr)
    }

    /// Returns how many low bits of a TEID that we chose are its position. Positions are dense. For
    /// each position, at most one TEID is in use or waits for a reclaim.
    #[must_use]
    pub const fn slot_bits(&self) -> u32 {
        self.teids.slot_bits()
    }

    /// Returns how many identifiers are in use or wait for a reclaim.
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

    /// Returns how many sessions there are in each owner group ([`adit_types::Owners`]), including
    /// those that wait for a reclaim.
    #[must_use]
    pub const fn sessions_by_group(&self) -> &[u32; OWNER_GROUPS as usize] {
        self.indices.used_by_group()
    }

    /// Returns the objects that rules may name.
    #[must_use]
    pub const fn provisioning(&self) -> &Provisioning {
        &self.provisioning
    }

    /// Replaces the objects that rules may name. The conditions of slices must stay the same.
    /// Sessions keep their previous rules until [`SessionStore::recompile`], and keep their
    /// addresses. Forwarding policies that FARs name must keep their network instance, because keys
    /// of sessions depend on it.
    ///
    /// The interfaces must begin with the previous ones; more may follow. If these add a routing
    /// domain, only rules that name its network instance use it: rules without a name keep the
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

    /// Returns the sum of the guaranteed bit rates of all sessions, and the capacity for them.
    #[must_use]
    pub fn guaranteed(&self) -> (Rates, Rates) {
        self.guaranteed.total_and_capacity()
    }

    /// Returns the maximum number of sessions.
    #[must_use]
    pub fn sessions_max(&self) -> usize {
        self.indices.max_count()
    }

    /// Returns the objects that rules may name, including applications of control planes.
    pub(crate) const fn catalog(&self) -> RuleCatalog<'_> {
        RuleCatalog { configured: &self.provisioning, pfds: &self.pfds }
    }

    /// Returns for each pool of UE addresses, in the order of the configuration, how many addresses
    /// are in use or wait for a reclaim, and how many there are.
    pub fn ue_pool_usage(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ue_pools.usage()
    }

    /// Stores a session at its index.
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

/// How many identifiers are in use or wait for a reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReservedCounts {
    /// Session indices.
    pub sessions: usize,
    /// TEIDs, whether we or the control plane chose them.
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
