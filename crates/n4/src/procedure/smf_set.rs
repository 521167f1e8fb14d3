//! SMF sets: which CP function may control which sessions; see [`crate::smf_set`].

use core::net::IpAddr;

use adit_pfcp::PFCP_PORT;
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::association::{Association, RestartClaim};
use crate::counters::as_count;
use crate::event::NodeEvent;
use crate::name::labels;
use crate::node::Node;
use crate::smf_set::SmfSet;
use crate::transition::SessionDisposition;

impl Node {
    /// Returns the association that requests from an address belong to: the one at this address,
    /// else the one that lists it as an alternative address.
    #[must_use]
    pub fn association_for(&self, address: IpAddr) -> Option<&Association> {
        self.peers.association_for(address)
    }

    /// Returns the part of its claim that the peer at `address` may make: all of it without
    /// configured sets, otherwise a configured set that lists the address, and those alternative
    /// addresses that this set lists too.
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

    /// Transfers the sessions and PFDs of an association that ends to another one of its SMF set;
    /// the sessions move one after another. False if there is no other one.
    pub(crate) fn hand_over_sessions(&mut self, owner: OwnerId) -> bool {
        let successor = self.peers.successor_of(owner).map(|a| (a.owner, a.address));
        let Some((to, address)) = successor else { return false };
        let sessions = self.sessions.store().owned_count(owner);
        self.begin_transition(owner, SessionDisposition::Move { to, address }, None);
        self.sessions.records.note_association(address);
        self.hand_over_pfds(owner, to);
        self.counters.scalars.sessions_moved += as_count(sessions);
        self.events.push_back(NodeEvent::SessionsHandedOver { to: address, sessions });
        true
    }

    /// Moves an association whose address does not answer to its next alternative address, with its
    /// sessions. False if no alternative address is left.
    pub(crate) fn move_to_alternative(&mut self, now: Nanos, address: IpAddr) -> bool {
        let Some(association) = self.association(address) else { return false };
        let alternatives = &association.smf_set.alternatives;
        let free = |alternative: &&IpAddr| self.association(**alternative).is_none();
        let Some(&to) = alternatives.iter().find(free) else { return false };
        let taken = self.peers.get_mut(address).and_then(|peer| peer.association.take());
        let Some(mut association) = taken else { return false };
        let owner = association.owner;
        self.transactions.cancel(|purpose| purpose.is_of(owner));
        association.smf_set.alternatives.retain(|&alternative| alternative != to);
        association.address = to;
        association.port = PFCP_PORT;
        association.heartbeat_in_flight = false;
        association.next_heartbeat = now;
        association.is_time_stamp_unknown = true;
        association.older_time_stamp = None;
        association.restart_claim = RestartClaim::None;
        self.peers.entry(to).association = Some(association);
        self.sessions.records.note_association(address);
        self.sessions.records.note_association(to);
        let sessions = self.sessions.store().owned_count(owner);
        self.begin_transition(owner, SessionDisposition::Move { to: owner, address: to }, None);
        self.counters.scalars.sessions_moved += as_count(sessions);
        self.events.push_back(NodeEvent::SessionsHandedOver { to, sessions });
        self.peers.refresh_aliases();
        true
    }
}
