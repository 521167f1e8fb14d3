//! How associations begin and end. Spec: TS 29.244 §6.2.6, §6.2.8.

use core::net::IpAddr;

use adit_rules::DeltaId;
use adit_session::OwnerId;
use adit_types::{Nanos, Seid, SessionIndex};

use crate::answers::Condition;
use crate::association::{Association, AssociationParameters, NodeIdentity, RestartClaim};
use crate::backlog::{JobTask, JobWaiter};
use crate::counters::as_count;
use crate::event::{DownReason, NodeEvent};
use crate::node::Node;
use crate::session_state::{DiscardedReports, RemainingReports};
use crate::sessions::DeletedSession;
use crate::transition::SessionDisposition;

/// The result of an association setup that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptedAssociation {
    /// The condition that must be met before the setup is answered, if any.
    pub last: Option<Condition>,
    /// True if the sessions of the former association were retained.
    pub retained: bool,
}

/// The reason why an association cannot be established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssociationRefusal {
    NodeIdInUse,
    TooMany,
    Stopping,
}

impl Node {
    /// Returns the association of a peer address.
    #[must_use]
    pub fn association(&self, address: IpAddr) -> Option<&Association> {
        self.peers.association(address)
    }

    /// Returns the NF Instance ID that the CP function at `address` reported. Spec: TS 29.244
    /// §8.2.175.
    #[must_use]
    pub fn nf_instance_id(&self, address: IpAddr) -> Option<[u8; 16]> {
        self.peers.get(address)?.nf_instance_id
    }

    /// Returns all associations, by address.
    pub fn associations(&self) -> impl Iterator<Item = &Association> {
        self.peers.associations()
    }

    /// Establishes an association, after ending the one that the address has. If sessions had to
    /// end, the answer must wait for the condition in the result.
    ///
    /// Refuses a Node ID that is associated from another address, so that nobody deletes another
    /// peer's sessions by claiming its Node ID; `contested_setup` has probed that address before.
    pub(crate) fn create_association(
        &mut self,
        now: Nanos,
        facts: AssociationParameters,
    ) -> Result<AcceptedAssociation, AssociationRefusal> {
        let AssociationParameters { address, recovery_time_stamp, cp_function_features, .. } =
            facts;
        let node_id = facts.node_id.clone();
        if self.shutdown.is_stopping {
            return Err(AssociationRefusal::Stopping);
        }
        self.refuse_node_id_of_other(address, &node_id)?;
        if !self.peers.make_room_for(address) {
            self.counters.scalars.refused_associations_full += 1;
            return Err(AssociationRefusal::TooMany);
        }
        self.take_from_silent_address(now, &facts);
        let retained = self.retain_sessions(now, &facts);
        let owner = retained.unwrap_or_else(|| {
            self.end_association(now, address, self.reason_of_end(&facts));
            self.peers.next_owner()
        });
        // The time stamp has moved if sessions ended without the peer's knowledge.
        let own_time_stamp = self.time_stamp_towards(address).0;
        // The peer's former sessions must be gone before it gets the answer.
        let waiter = JobWaiter { address, node_id: node_id.clone() };
        let last = if facts.requested_by_us { None } else { self.wait_for_jobs(waiter) };
        self.peers.setups.note_connected(address);
        let setups = &self.peers.setups;
        self.transactions.cancel(|purpose| setups.is_attempt_at(*purpose, address));
        let association = Association {
            node_id: node_id.clone(),
            address,
            port: self.peers.setups.port_of(address),
            owner,
            recovery_time_stamp,
            since: now,
            cp_function_features,
            smf_set: facts.smf_set,
            own_time_stamp,
            silent_until: None,
            is_time_stamp_unknown: false,
            older_time_stamp: None,
            restart_claim: RestartClaim::None,
            next_heartbeat: now + self.config.heartbeat_interval,
            heartbeat_in_flight: false,
            release_due: None,
        };
        self.peers.entry(address).association = Some(association);
        self.path_qos.set(now, owner, facts.path_controls);
        self.sessions.records.note_association(address);
        self.sessions.records.note_peer_state(owner);
        self.sessions.records.note_node();
        self.counters.scalars.associations_up += 1;
        let requested_by_us = facts.requested_by_us;
        self.events.push_back(NodeEvent::AssociationUp { address, node_id, requested_by_us });
        self.peers.refresh_aliases();
        self.relieve_silent_peers(now, owner);
        self.send_waiting_reports(now, owner);
        Ok(AcceptedAssociation { last, retained: retained.is_some() && facts.retain.is_some() })
    }

    /// Returns why a setup ends the association that its address has.
    fn reason_of_end(&self, facts: &AssociationParameters) -> DownReason {
        match self.association(facts.address) {
            Some(known) if known.recovery_time_stamp != facts.recovery_time_stamp => {
                DownReason::PeerRestarted
            }
            _ => DownReason::SetUpAgain,
        }
    }

    /// Retains the sessions of the association that the address of a setup has. Returns their
    /// owner; `None` if the sessions end.
    ///
    /// The peer may request to retain all sessions, or those that are controlled from listed
    /// addresses. If its Recovery Time Stamp is unchanged it still has its sessions: all of them
    /// stay, and the peer deletes those that it does not need. Spec: TS 29.244 §6.2.6.2.2.
    fn retain_sessions(&mut self, now: Nanos, facts: &AssociationParameters) -> Option<OwnerId> {
        let address = facts.address;
        let known = self.association(address)?;
        let (owner, node_id) = (known.owner, known.node_id.clone());
        let has_restarted = known.recovery_time_stamp != facts.recovery_time_stamp
            || known.is_time_stamp_unknown
            || known.node_id != facts.node_id;
        // Another SMF of the set inherits the association if it is at the address to which the
        // association moved.
        let set = &known.smf_set.id;
        let inherits = node_id != facts.node_id && set.is_some() && *set == facts.smf_set.id;
        let listed = match &facts.retain {
            _ if inherits => &[],
            Some(listed) => &listed[..],
            None if has_restarted => return None,
            None => &[],
        };
        if !listed.is_empty() {
            let waiter = JobWaiter { address, node_id };
            let at = listed.into();
            self.begin_transition(owner, SessionDisposition::Retain { at }, Some(waiter));
            // Ends the sessions of a small association at once, so that only retained ones are
            // counted.
            self.advance_jobs(now);
        }
        if has_restarted {
            self.detach_association(address)?;
        } else {
            self.transactions.cancel(|purpose| purpose.is_of(owner));
            self.peers.entry(address).paths.on_not_delivered(now);
        }
        let sessions = self.sessions.store().owned_count(owner);
        self.counters.scalars.sessions_retained += as_count(sessions);
        self.events.push_back(NodeEvent::SessionsRetained { address, sessions });
        Some(owner)
    }

    /// Handles a setup with the Node ID of a silent peer: that peer has moved to the address of the
    /// setup. If it has not restarted, its association moves there too; otherwise the association
    /// ends.
    fn take_from_silent_address(&mut self, now: Nanos, facts: &AssociationParameters) {
        let AssociationParameters { address, ref node_id, recovery_time_stamp, .. } = *facts;
        let Some(former) = self.peers.other_holder(address, node_id) else { return };
        let (from, owner) = (former.address, former.owner);
        if former.recovery_time_stamp != recovery_time_stamp {
            return self.end_association(now, from, DownReason::PeerRestarted);
        }
        if self.association(address).is_some() {
            return self.end_association(now, from, DownReason::SetUpAgain);
        }
        let Some(association) = self.detach_association(from) else { return };
        let association = Association { address, ..association };
        self.peers.entry(address).association = Some(association);
        self.begin_transition(owner, SessionDisposition::Move { to: owner, address }, None);
    }

    /// Removes the association from its address, with everything that waits for its peer.
    fn detach_association(&mut self, address: IpAddr) -> Option<Association> {
        let association = self.peers.detach(address)?;
        self.sessions.records.note_association(address);
        self.sessions.records.note_peer_state(association.owner);
        self.path_qos.forget(association.owner);
        self.answers.drop_all(|response| response.peer == address);
        self.transactions.cancel(|purpose| purpose.is_of(association.owner));
        self.drains.remove(&association.owner);
        Some(association)
    }

    /// Ends the association of `address` if there is one. A job ends its sessions. Answers that
    /// wait are dropped, and kept answers are forgotten, because a peer that restarts begins its
    /// sequence numbers again. Answers for which the sessions must be gone wait
    /// ([`Node::wait_for_jobs`]).
    pub(crate) fn end_association(&mut self, now: Nanos, address: IpAddr, reason: DownReason) {
        let Some(owner) = self.association(address).map(|association| association.owner) else {
            return;
        };
        let failed = matches!(
            reason,
            DownReason::HeartbeatsLost | DownReason::SilentTooLong | DownReason::PeerRestarted
        );
        let is_handed_over = failed && self.hand_over_sessions(owner);
        let sessions = if is_handed_over { 0 } else { self.sessions.store().owned_count(owner) };
        let Some(association) = self.detach_association(address) else { return };
        let waiter = JobWaiter { address, node_id: association.node_id.clone() };
        if !is_handed_over {
            self.abandon_sessions(owner);
        }
        if sessions > 0 && !matches!(reason, DownReason::Released | DownReason::PeerRestarted) {
            self.move_time_stamp(now);
        }
        if sessions > 0 || self.sessions.states.ended_len(owner) > 0 {
            let task = JobTask::EndAssociation { owner, next: SessionIndex(0) };
            self.start_job(Some(waiter.clone()), task);
        }
        self.withdraw_pfds_of(owner, waiter);
        self.peers.refresh_aliases();
        self.peers.setups.note_disconnected(now, address);
        self.counters.scalars.associations_down += 1;
        self.counters.scalars.sessions_removed_with_association += as_count(sessions);
        let node_id = association.node_id;
        if reason == DownReason::PeerRestarted {
            self.counters.scalars.peers_restarted += 1;
            self.events.push_back(NodeEvent::PeerRestarted { address, node_id: node_id.clone() });
        }
        self.events.push_back(NodeEvent::AssociationDown { address, node_id, sessions, reason });
        // Another SMF of the set may have inherited reports.
        self.send_reports(now);
    }

    /// Deletes a session without notifying its CP function.
    pub(crate) fn delete_session(&mut self, up_seid: Seid) -> Option<DeltaId> {
        let remaining = RemainingReports::KeepUsageInFlight(self.reporting_session(up_seid));
        let deleted = self.sessions.delete(up_seid, remaining)?;
        Some(self.forget_discarded(deleted))
    }

    /// Drops the requests that carry reports of a deleted session. Returns the change that deleted
    /// it.
    pub(crate) fn forget_discarded(&mut self, deleted: DeletedSession) -> DeltaId {
        self.drop_reports(deleted.discarded);
        deleted.change
    }

    /// Drops the request that carries discarded reports, and counts the usage that is lost.
    pub(crate) fn drop_reports(&mut self, discarded: DiscardedReports) {
        if let Some(sequence) = discarded.sequence {
            self.transactions.close(sequence);
        }
        self.counters.scalars.usage_reports_lost_with_association += as_count(discarded.usage);
    }

    fn refuse_node_id_of_other(
        &mut self,
        address: IpAddr,
        node_id: &NodeIdentity,
    ) -> Result<(), AssociationRefusal> {
        let holder = self.peers.other_holder(address, node_id).filter(|other| !other.is_silent());
        let Some(held_by) = holder.map(|other| other.address) else { return Ok(()) };
        let node_id = node_id.clone();
        self.counters.scalars.refused_node_id_of_other_address += 1;
        self.events.push_back(NodeEvent::NodeIdConflict { from: address, held_by, node_id });
        Err(AssociationRefusal::NodeIdInUse)
    }
}
