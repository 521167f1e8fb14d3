//! Associations with CP functions, and what is remembered of a peer.
//!
//! A peer is an IP address; it has at most one association. A datagram from an address without a
//! peer record leaves nothing behind. Spec: TS 29.244 §6.2.6.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use adit_pfcp::ie::{self, Fqdn};
use adit_rules::DeltaId;
use adit_session::OwnerId;
use adit_types::limits::ASSOCIATIONS_MAX;
use adit_types::{Nanos, Seid, SessionIndex};

use crate::admission::AdmissionBuckets;
use crate::answers::Condition;
use crate::backlog::{JobTask, JobWaiter};
use crate::node::Node;
use crate::path_qos::PathQosControl;
use crate::procedure::load::LoadReported;
use crate::procedure::node_report::PathReports;
use crate::response_cache::ResponseCache;
use crate::session_state::{DiscardedReports, RemainingReports};
use crate::sessions::DeletedSession;
use crate::smf_set::SmfSet;
use crate::transition::SessionDisposition;
use crate::ue_pools::PoolUsageReported;

/// Steps in one turn that forget what is left of the response caches of associations that ended.
const OLD_CACHE_STEPS_PER_TURN: usize = 32;

/// Identity of a node. Spec: TS 29.244 §8.2.38.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NodeIdentity {
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// A fully qualified domain name in lower case, labels separated by dots.
    Fqdn(String),
}

impl NodeIdentity {
    /// The identity as an IE. A name that is no FQDN shows as the unspecified address; the
    /// configuration does not let one through.
    pub(crate) fn to_ie(&self) -> ie::NodeId<'_> {
        match self {
            Self::Ipv4(addr) => ie::NodeId::Ipv4(*addr),
            Self::Ipv6(addr) => ie::NodeId::Ipv6(*addr),
            Self::Fqdn(name) => Fqdn::from_text(name)
                .map_or(ie::NodeId::Ipv4(Ipv4Addr::UNSPECIFIED), ie::NodeId::Fqdn),
        }
    }

    pub(crate) fn from_ie(ie: &ie::NodeId<'_>) -> Self {
        match ie {
            ie::NodeId::Ipv4(addr) => Self::Ipv4(*addr),
            ie::NodeId::Ipv6(addr) => Self::Ipv6(*addr),
            ie::NodeId::Fqdn(name) => Self::Fqdn(name.to_string().to_ascii_lowercase()),
        }
    }
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4(addr) => addr.fmt(f),
            Self::Ipv6(addr) => addr.fmt(f),
            Self::Fqdn(name) => f.write_str(name),
        }
    }
}

/// An established association with a CP function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Association {
    /// The CP function.
    pub node_id: NodeIdentity,
    /// Its address: the only one from which it is heard.
    pub address: IpAddr,
    /// The UDP port that our requests go to.
    pub port: u16,
    /// Names this association in the session store; never reused by a later one.
    pub owner: OwnerId,
    /// When the peer started. Unit: seconds since 1900-01-01 (NTP).
    pub recovery_time_stamp: u32,
    /// When the association came into being.
    pub since: Nanos,
    /// The peer's CP Function Features, octet 5 in the lowest bits; zero when it sent none.
    pub cp_function_features: u64,
    /// The SMF set that the peer belongs to.
    pub smf_set: SmfSet,
    /// The association moved to an address whose Recovery Time Stamp was not seen yet.
    pub(crate) is_time_stamp_unknown: bool,
    /// What its Heartbeat Requests say about a restart.
    pub(crate) restart_claim: RestartClaim,
    /// When our next Heartbeat Request is due, unless one is in flight.
    pub(crate) next_heartbeat: Nanos,
    /// A Heartbeat Request is in flight.
    pub(crate) heartbeat_in_flight: bool,
}

/// What a peer's Heartbeat Requests say about a restart, by a newer Recovery Time Stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RestartClaim {
    /// Nothing.
    #[default]
    None,
    /// That it restarted; its next heartbeat response decides.
    Open,
    /// That it restarted, and its response said otherwise: its requests are not to be believed.
    Refuted,
}

/// What is known of one peer address.
#[derive(Debug, Default)]
pub(crate) struct PfcpPeer {
    pub association: Option<Association>,
    pub cache: ResponseCache,
    pub buckets: AdmissionBuckets,
    pub paths: PathReports,
    pub load_reported: LoadReported,
    pub pool_usage_reported: PoolUsageReported,
    /// The NF instance that its CP function said it is.
    pub nf_instance_id: Option<[u8; 16]>,
}

/// Why an association ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownReason {
    /// The peer released it.
    Released,
    /// Our heartbeats stayed without a response.
    HeartbeatsLost,
    /// The peer's Recovery Time Stamp changed.
    PeerRestarted,
    /// The peer set it up again.
    SetUpAgain,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "released by the peer",
            Self::HeartbeatsLost => "no response to heartbeats",
            Self::PeerRestarted => "the peer restarted",
            Self::SetUpAgain => "set up again by the peer",
        })
    }
}

/// Why our own association setup did not succeed. It is tried again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupFailure {
    /// No response after N1 retransmissions.
    NoResponse,
    /// The peer refused; the code point of its Cause.
    Refused(u8),
    /// The response made no sense.
    Malformed,
    /// The peer's Node ID has an association from another address.
    NodeIdInUse,
    /// `limits::ASSOCIATIONS_MAX` associations exist.
    TooManyAssociations,
    /// This node stops.
    Stopping,
}

impl fmt::Display for SetupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResponse => f.write_str("no response"),
            Self::Refused(cause) => write!(f, "refused with Cause {cause}"),
            Self::Malformed => f.write_str("malformed response"),
            Self::NodeIdInUse => f.write_str("its Node ID is associated from another address"),
            Self::Stopping => f.write_str("this node stops"),
            Self::TooManyAssociations => f.write_str("too many associations"),
        }
    }
}

/// A change of state worth a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// An association came into being.
    AssociationUp {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// True when the request was ours.
        requested_by_us: bool,
    },
    /// An association ended; its sessions are gone.
    AssociationDown {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// How many sessions were removed.
        sessions: usize,
        /// Why.
        reason: DownReason,
    },
    /// A peer shows a new Recovery Time Stamp. `AssociationDown` follows.
    PeerRestarted {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
    },
    /// Our own association setup failed and is tried again after `retry_after`.
    SetupFailed {
        /// The configured peer.
        to: SocketAddr,
        /// Why.
        failure: SetupFailure,
        /// Time until the next attempt.
        retry_after: Nanos,
    },
    /// A GTP-U peer does not answer any more.
    PathDown {
        /// The peer.
        peer: IpAddr,
    },
    /// A GTP-U peer answers again.
    PathUp {
        /// The peer.
        peer: IpAddr,
    },
    /// A GTP-U peer says that it started anew.
    GtpuPeerRestarted {
        /// The peer.
        peer: IpAddr,
    },
    /// The handling of a message ended in a fault of ours. Told once per kind.
    Fault {
        /// Who sent the message.
        from: IpAddr,
        /// Its type.
        message_type: &'static str,
        /// What the fault says.
        text: String,
    },
    /// Work that no message asked for ended in a fault of ours. Told once per kind.
    InternalFault {
        /// What was being done.
        activity: &'static str,
        /// What the fault says.
        text: String,
    },
    /// A session request was refused. At most one a second is told.
    Refused {
        /// Who asked.
        from: IpAddr,
        /// Type of the request.
        message_type: &'static str,
        /// Every error found; the first is the one that was answered.
        findings: Vec<String>,
    },
    /// Sessions are controlled by another member of their SMF set from now on.
    SessionsHandedOver {
        /// Its address.
        to: IpAddr,
        /// How many.
        sessions: usize,
    },
    /// A peer that is no member of an SMF set said that it, or another address, belongs to it. It is
    /// taken as standing alone, or without the other address.
    SmfSetClaimRefused {
        /// The peer.
        from: IpAddr,
        /// The set; empty when its name cannot be read.
        set: String,
    },
    /// A setup kept the sessions of the association before it.
    SessionsRetained {
        /// The peer's address.
        address: IpAddr,
        /// How many.
        sessions: usize,
    },
    /// A setup was refused: its Node ID is associated from another address.
    NodeIdConflict {
        /// Who asked.
        from: IpAddr,
        /// Whose association it is.
        held_by: IpAddr,
        /// The identity.
        node_id: NodeIdentity,
    },
}

/// What a peer said about itself when an association was set up.
#[derive(Debug, Clone)]
pub(crate) struct AssociationParameters {
    pub address: IpAddr,
    pub node_id: NodeIdentity,
    pub recovery_time_stamp: u32,
    pub cp_function_features: u64,
    pub smf_set: SmfSet,
    /// Keep the sessions that this peer has: those controlled from these addresses, or all if
    /// there are none. Spec: TS 29.244 §6.2.6.2.2.
    pub retain: Option<Vec<IpAddr>>,
    /// Delays of GTP-U paths that it wants to know.
    pub path_controls: Vec<PathQosControl>,
    pub requested_by_us: bool,
}

/// What came into being.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptedAssociation {
    /// The last change to be published before the setup may be answered.
    pub last: Option<Condition>,
    /// The sessions of the association before were kept.
    pub retained: bool,
}

/// Why an association cannot come into being.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssociationRefusal {
    NodeIdInUse,
    TooMany,
    Stopping,
}

impl Node {
    /// The association of a peer address.
    #[must_use]
    pub fn association(&self, address: IpAddr) -> Option<&Association> {
        self.peers.get(&address)?.association.as_ref()
    }

    /// The NF instance that the CP function at `address` said it is. Spec: TS 29.244 §8.2.175.
    #[must_use]
    pub fn nf_instance_id(&self, address: IpAddr) -> Option<[u8; 16]> {
        self.peers.get(&address)?.nf_instance_id
    }

    /// All associations, in no particular order.
    pub fn associations(&self) -> impl Iterator<Item = &Association> {
        self.peers.values().filter_map(|peer| peer.association.as_ref())
    }

    pub(crate) fn association_mut(&mut self, address: IpAddr) -> Option<&mut Association> {
        self.peers.get_mut(&address)?.association.as_mut()
    }

    /// Sets up an association, after ending the one that the address has. Returns the change that
    /// must be published before the setup may be answered, if sessions had to go.
    ///
    /// A Node ID that is associated from another address is refused, so that nobody wipes another
    /// one's sessions by naming it; `contest` finds out before whether that address is dead.
    pub(crate) fn create_association(
        &mut self,
        now: Nanos,
        facts: AssociationParameters,
    ) -> Result<AcceptedAssociation, AssociationRefusal> {
        let AssociationParameters {
            address,
            node_id,
            recovery_time_stamp,
            cp_function_features,
            ..
        } = facts;
        if self.is_stopping {
            return Err(AssociationRefusal::Stopping);
        }
        self.refuse_node_id_of_other(address, &node_id)?;
        self.make_room_for(address)?;
        let reason = match self.association(address) {
            Some(known) if known.recovery_time_stamp != recovery_time_stamp => {
                DownReason::PeerRestarted
            }
            _ => DownReason::SetUpAgain,
        };
        // Another SMF of the set at an address that the association moved to inherits it.
        let inherits = self.association(address).is_some_and(|known| {
            let set = &known.smf_set.id;
            known.node_id != node_id && set.is_some() && *set == facts.smf_set.id
        });
        let wish = if inherits { Some(&[][..]) } else { facts.retain.as_deref() };
        let retained = wish.and_then(|listed| self.retain_sessions(now, address, listed));
        let owner = match retained {
            Some(retained) => retained,
            None => {
                self.end_association(now, address, reason);
                self.next_owner()
            }
        };
        // The sessions that the peer had are gone before it hears that it may begin anew.
        let waiter = JobWaiter { address, node_id: node_id.clone() };
        let last = if facts.requested_by_us { None } else { self.wait_for_jobs(waiter) };
        self.setups.connected(address);
        let setups = &self.setups;
        self.transactions.cancel(|purpose| setups.is_attempt_at(*purpose, address));
        let association = Association {
            node_id: node_id.clone(),
            address,
            port: self.setups.port_of(address),
            owner,
            recovery_time_stamp,
            since: now,
            cp_function_features,
            smf_set: facts.smf_set,
            is_time_stamp_unknown: false,
            restart_claim: RestartClaim::None,
            next_heartbeat: now + self.config.heartbeat_interval,
            heartbeat_in_flight: false,
        };
        self.peers.entry(address).or_default().association = Some(association);
        self.path_qos.set(now, owner, facts.path_controls);
        self.counters.scalars.associations_up += 1;
        let requested_by_us = facts.requested_by_us;
        self.events.push_back(NodeEvent::AssociationUp { address, node_id, requested_by_us });
        self.refresh_aliases();
        Ok(AcceptedAssociation { last, retained: retained.is_some() && facts.retain.is_some() })
    }

    /// Ends the association of `address` but for its sessions, of which those stay that are
    /// controlled from one of `listed`, or all if it is empty. Returns whom they belong to.
    fn retain_sessions(
        &mut self,
        now: Nanos,
        address: IpAddr,
        listed: &[IpAddr],
    ) -> Option<OwnerId> {
        let known = self.association(address)?;
        let (owner, node_id) = (known.owner, known.node_id.clone());
        if !listed.is_empty() {
            let waiter = JobWaiter { address, node_id };
            self.begin_transition(
                owner,
                SessionDisposition::Retain { at: listed.into() },
                Some(waiter),
            );
            // Those of a small association are gone when it is told how many stay.
            self.advance_jobs(now);
        }
        self.detach_association(address)?;
        let sessions = self.sessions.store().owned_count(owner);
        self.counters.scalars.sessions_retained += as_count(sessions);
        self.events.push_back(NodeEvent::SessionsRetained { address, sessions });
        Some(owner)
    }

    /// Takes the association from its address, with everything that waits for the peer.
    fn detach_association(&mut self, address: IpAddr) -> Option<Association> {
        let peer = self.peers.get_mut(&address)?;
        let association = peer.association.take()?;
        self.old_caches.push(core::mem::take(&mut peer.cache));
        self.path_qos.forget(association.owner);
        peer.paths = PathReports::default();
        peer.load_reported = LoadReported::default();
        (peer.pool_usage_reported, peer.nf_instance_id) = (None, None);
        self.answers.drop_all(|response| response.peer == address);
        self.transactions.cancel(|purpose| purpose.is_of(association.owner));
        self.drains.remove(&association.owner);
        Some(association)
    }

    /// Ends the association of `address` if there is one: its sessions go in a job, answers that
    /// still wait are not sent any more, and the answered requests are forgotten, because a peer
    /// that starts anew counts its sequence numbers anew. What may be answered only when the
    /// sessions are gone waits ([`Node::wait_for_jobs`]).
    pub(crate) fn end_association(&mut self, now: Nanos, address: IpAddr, reason: DownReason) {
        let Some(owner) = self.association(address).map(|association| association.owner) else {
            return;
        };
        let failed = matches!(reason, DownReason::HeartbeatsLost | DownReason::PeerRestarted);
        let is_handed_over = failed && self.hand_over_sessions(owner);
        let sessions = if is_handed_over { 0 } else { self.sessions.store().owned_count(owner) };
        let Some(association) = self.detach_association(address) else { return };
        let waiter = JobWaiter { address, node_id: association.node_id.clone() };
        if !is_handed_over {
            self.abandon_sessions(owner);
        }
        if sessions > 0 || self.sessions.states.ended_len(owner) > 0 {
            let task = JobTask::EndAssociation { owner, next: SessionIndex(0) };
            self.start_job(Some(waiter.clone()), task);
        }
        self.withdraw_pfds_of(owner, waiter);
        self.refresh_aliases();
        self.setups.disconnected(now, address);
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

    /// Deletes a session without telling its CP function.
    pub(crate) fn delete_session(&mut self, up_seid: Seid) -> Option<DeltaId> {
        let deleted = self.sessions.delete(up_seid, RemainingReports::KeepUsageInFlight)?;
        Some(self.forget_discarded(deleted))
    }

    /// Gives up the requests whose reports went with a session. Returns the change that deleted it.
    pub(crate) fn forget_discarded(&mut self, deleted: DeletedSession) -> DeltaId {
        self.drop_reports(deleted.discarded);
        deleted.change
    }

    /// Gives up the request of discarded reports, and counts the usage that is lost.
    pub(crate) fn drop_reports(&mut self, discarded: DiscardedReports) {
        if let Some(sequence) = discarded.sequence {
            self.transactions.close(sequence);
        }
        self.counters.scalars.usage_reports_lost_with_association += as_count(discarded.usage);
    }

    /// Forgets peers that have no association and nothing to replay any more.
    pub(crate) fn forget_idle_peers(&mut self, now: Nanos) {
        let lifetime = self.config.retransmission().span();
        self.peers.retain(|_, peer| {
            peer.cache.expire(now, lifetime);
            peer.association.is_some() || !peer.cache.is_empty()
        });
        for _ in 0..OLD_CACHE_STEPS_PER_TURN {
            if !self.old_caches.last_mut().is_none_or(ResponseCache::shrink) {
                self.old_caches.pop();
            }
        }
    }

    fn refuse_node_id_of_other(
        &mut self,
        address: IpAddr,
        node_id: &NodeIdentity,
    ) -> Result<(), AssociationRefusal> {
        let holder = self.other_holder(address, node_id).map(|other| other.address);
        let Some(held_by) = holder else { return Ok(()) };
        let node_id = node_id.clone();
        self.counters.scalars.refused_node_id_of_other_address += 1;
        self.events.push_back(NodeEvent::NodeIdConflict { from: address, held_by, node_id });
        Err(AssociationRefusal::NodeIdInUse)
    }

    fn make_room_for(&mut self, address: IpAddr) -> Result<(), AssociationRefusal> {
        if self.peers.contains_key(&address) || self.peers.len() < ASSOCIATIONS_MAX {
            return Ok(());
        }
        let idle = self.peers.iter().find(|(_, peer)| peer.association.is_none());
        let Some(idle) = idle.map(|(&address, _)| address) else {
            self.counters.scalars.refused_associations_full += 1;
            return Err(AssociationRefusal::TooMany);
        };
        let removed = self.peers.remove(&idle);
        self.old_caches.extend(removed.map(|peer| peer.cache));
        Ok(())
    }

    fn next_owner(&mut self) -> OwnerId {
        self.last_owner = self.last_owner.wrapping_add(1);
        OwnerId(self.last_owner)
    }
}

/// A count as a counter's width.
pub(crate) fn as_count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
