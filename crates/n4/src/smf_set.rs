//! SMF sets: several CP functions that control the same sessions, one after another.
//!
//! A set shows in two ways. Its SMFs may each have an association under one SMF Set ID: then each
//! may act on the sessions of the others, and inherits them when another one fails. Or one
//! association serves the set and lists alternative addresses: requests from these count as its
//! own, and when its address falls silent it moves to the next of them, each tried once.
//! Whoever names a set is believed, as the standard has it, unless the operator says who may
//! ([`PeerPolicy::smf_sets`](crate::PeerPolicy)).
//! Spec: TS 29.244 §5.22; TS 23.527 §4.

use core::net::IpAddr;

use adit_pfcp::PFCP_PORT;
use adit_pfcp::ie::{AlternativeSmfIpAddress, SmfSetId};
use adit_session::OwnerId;
use adit_types::Nanos;
use adit_types::limits::ALTERNATIVE_ADDRESSES_MAX;

use crate::association::{Association, NodeEvent, RestartClaim, as_count};
use crate::name::labels;
use crate::node::Node;
use crate::transition::SessionDisposition;

/// What a CP function says about its SMF set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmfSet {
    /// SMF Set ID: the FQDN as labels. `None`: the SMF stands alone.
    pub id: Option<Vec<u8>>,
    /// Other addresses of the SMF, preferred ones first.
    pub alternatives: Vec<IpAddr>,
}

impl SmfSet {
    /// From the IEs of a setup or update. Addresses beyond the limit are left out.
    pub(crate) fn from_ies(
        id: Option<SmfSetId<'_>>,
        alternatives: impl IntoIterator<Item = AlternativeSmfIpAddress>,
    ) -> Self {
        let mut listed: Vec<AlternativeSmfIpAddress> = alternatives.into_iter().collect();
        listed.sort_by_key(|alternative| !alternative.preferred);
        let addresses = listed.iter().flat_map(|alternative| {
            let (v4, v6) = (alternative.v4.map(IpAddr::V4), alternative.v6.map(IpAddr::V6));
            v4.into_iter().chain(v6)
        });
        // Octet 1 is spare.
        let id = id.and_then(|id| Some(id.0.split_first()?.1.to_ascii_lowercase()));
        Self { id, alternatives: addresses.take(ALTERNATIVE_ADDRESSES_MAX).collect() }
    }
}

impl Node {
    /// The association under which requests of an address run: its own, else the one that lists it
    /// as an alternative address.
    #[must_use]
    pub fn association_for(&self, address: IpAddr) -> Option<&Association> {
        let other = || self.association(*self.aliases.get(&address)?);
        self.association(address).or_else(other)
    }

    /// True when requests of `address` may act on the sessions of `owner`.
    pub(crate) fn controls(&self, address: IpAddr, owner: OwnerId) -> bool {
        let association = self.association_for(address);
        association.is_some_and(|association| self.shares_control(association.owner, owner))
    }

    /// True for the same association, and for two of one SMF set.
    pub(crate) fn shares_control(&self, one: OwnerId, other: OwnerId) -> bool {
        let set = |owner| {
            let found = self.associations().find(|association| association.owner == owner);
            found.and_then(|association| association.smf_set.id.as_ref())
        };
        one == other || set(one).is_some_and(|id| set(other) == Some(id))
    }

    /// What of `told` holds for the peer at `address`: all of it where the operator named no sets,
    /// else a set that lists the address, and those alternative addresses that it lists, too.
    pub(crate) fn authorized_smf_set(&mut self, address: IpAddr, told: SmfSet) -> SmfSet {
        let sets = &self.config.policy.smf_sets;
        if sets.is_empty() || told == SmfSet::default() {
            return told;
        }
        let name = told.id.as_deref().and_then(labels);
        let set = name.as_deref().and_then(|name| {
            sets.iter().find(|set| set.id.eq_ignore_ascii_case(name) && set.has(address))
        });
        let believed = set.map_or_else(SmfSet::default, |set| {
            let alternatives = told.alternatives.iter().copied();
            let alternatives = alternatives.filter(|&alternative| set.has(alternative)).collect();
            SmfSet { id: told.id.clone(), alternatives }
        });
        if believed != told {
            self.counters.scalars.smf_set_claims_refused += 1;
            let set = name.unwrap_or_default();
            self.events.push_back(NodeEvent::SmfSetClaimRefused { from: address, set });
        }
        believed
    }

    /// Takes notice that addresses of associations changed.
    pub(crate) fn refresh_aliases(&mut self) {
        let aliases = self.associations().flat_map(|association| {
            let alternatives = association.smf_set.alternatives.iter();
            alternatives.map(|&alternative| (alternative, association.address))
        });
        self.aliases = aliases.collect();
    }

    /// Gives the sessions and PFDs of an association that ends to another one of its SMF set, the
    /// sessions one after another. False when there is none.
    pub(crate) fn hand_over_sessions(&mut self, owner: OwnerId) -> bool {
        let inherits =
            |other: &&Association| other.owner != owner && self.shares_control(owner, other.owner);
        let successor = self.associations().find(inherits).map(|a| (a.owner, a.address));
        let Some((to, address)) = successor else { return false };
        let sessions = self.sessions.store().owned_count(owner);
        self.begin_transition(owner, SessionDisposition::Move { to, address }, None);
        self.hand_over_pfds(owner, to);
        self.counters.scalars.sessions_moved += as_count(sessions);
        self.events.push_back(NodeEvent::SessionsHandedOver { to: address, sessions });
        true
    }

    /// Moves an association whose address fell silent to its next alternative address, with its
    /// sessions. False when there is none left.
    pub(crate) fn move_to_alternative(&mut self, now: Nanos, address: IpAddr) -> bool {
        let Some(association) = self.association(address) else { return false };
        let alternatives = &association.smf_set.alternatives;
        let free = |alternative: &&IpAddr| self.association(**alternative).is_none();
        let Some(&to) = alternatives.iter().find(free) else { return false };
        let taken = self.peers.get_mut(&address).and_then(|peer| peer.association.take());
        let Some(mut association) = taken else { return false };
        let owner = association.owner;
        self.transactions.cancel(|purpose| purpose.is_of(owner));
        association.smf_set.alternatives.retain(|&alternative| alternative != to);
        association.address = to;
        association.port = PFCP_PORT;
        association.heartbeat_in_flight = false;
        association.next_heartbeat = now;
        association.is_time_stamp_unknown = true;
        association.restart_claim = RestartClaim::None;
        self.peers.entry(to).or_default().association = Some(association);
        let sessions = self.sessions.store().owned_count(owner);
        self.begin_transition(owner, SessionDisposition::Move { to: owner, address: to }, None);
        self.counters.scalars.sessions_moved += as_count(sessions);
        self.events.push_back(NodeEvent::SessionsHandedOver { to, sessions });
        self.refresh_aliases();
        true
    }
}
