//! Association Setup Requests that name a Node ID which another address has.
//!
//! The setup waits while the holder is probed by Heartbeat Requests in quick succession: it is
//! refused as soon as the holder answers, and accepted when the holder stays silent for T1. Nobody
//! takes an association from a living peer by naming it, and a peer that moved need not wait until
//! its old address has missed N1 heartbeats at their usual pace. Spec: TS 29.244 §6.2.6.2.2.

use core::net::{IpAddr, SocketAddr};

use adit_pfcp::ie::RecoveryTimeStamp;
use adit_pfcp::message::{AssociationSetupRequest, HeartbeatRequest};
use adit_pfcp::{Header, MessageBody};
use adit_session::OwnerId;
use adit_types::Nanos;
use adit_types::limits::CONTESTS_MAX;

use crate::association::{Association, NodeId};
use crate::node::{Node, Request};
use crate::transaction::{Purpose, Retransmission};

/// A setup that waits.
#[derive(Debug)]
pub(crate) struct Contest {
    holder: OwnerId,
    from: SocketAddr,
    header: Header,
    body: Vec<u8>,
}

impl Node {
    /// Keeps a setup whose Node ID another address has, and probes that address. False when the
    /// setup can be decided now.
    pub(crate) fn hold_contested_setup(&mut self, request: &Request<'_>) -> bool {
        // A retransmission takes the place of the request that it repeats.
        self.contests.retain(|contest| contest.from.ip() != request.peer());
        if self.is_stopping || self.contests.len() >= CONTESTS_MAX {
            return false;
        }
        let Ok(message) = AssociationSetupRequest::decode_body(request.body) else { return false };
        let node_id = NodeId::from_ie(&message.node_id);
        let Some(holder) = self.probe_holder(request.now, request.peer(), &node_id) else {
            return false;
        };
        let Request { from, header, body, .. } = *request;
        self.contests.push(Contest { holder, from, header, body: body.to_vec() });
        true
    }

    /// Probes the association that has `node_id` at another address than `claimant`, if there is
    /// one, unless that is under way.
    pub(crate) fn probe_holder(
        &mut self,
        now: Nanos,
        claimant: IpAddr,
        node_id: &NodeId,
    ) -> Option<OwnerId> {
        let holder = self.other_holder(claimant, node_id);
        let (owner, to) = holder.map(|a| (a.owner, SocketAddr::new(a.address, a.port)))?;
        let probe = Purpose::Probe { owner };
        if !self.transactions.any(|purpose| *purpose == probe) {
            let Retransmission { t1, n1 } = self.config.retransmission();
            let quick = Retransmission { t1: Nanos(t1.0 / (u64::from(n1) + 1)), n1 };
            let body = HeartbeatRequest::new(RecoveryTimeStamp(self.config.recovery_time_stamp));
            self.send_request_within(now, to, &body, probe, quick);
        }
        Some(owner)
    }

    /// The association that has `node_id` at another address than `claimant`.
    pub(crate) fn other_holder(&self, claimant: IpAddr, node_id: &NodeId) -> Option<&Association> {
        self.associations().find(|known| known.address != claimant && known.node_id == *node_id)
    }

    /// Decides the setups whose holder went without having been found dead.
    pub(crate) fn settle_contests_of_none(&mut self, now: Nanos) {
        let lives = |owner| self.associations().any(|association| association.owner == owner);
        let gone = self.contests.iter().map(|contest| contest.holder).find(|&owner| !lives(owner));
        if let Some(owner) = gone {
            self.settle_contests(now, owner);
        }
    }

    /// Decides the setups that waited for whether `holder` lives: the association that still has
    /// the Node ID keeps it.
    pub(crate) fn settle_contests(&mut self, now: Nanos, holder: OwnerId) {
        let waited = self.contests.extract_if(.., |contest| contest.holder == holder);
        let waited: Vec<Contest> = waited.collect();
        for Contest { from, header, body, .. } in waited {
            self.decide_association_setup(&Request { now, from, header, body: &body });
        }
    }
}
