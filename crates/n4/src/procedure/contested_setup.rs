//! Association Setup Requests with a Node ID that another address has.
//!
//! The setup waits while the holder of the Node ID is probed with Heartbeat Requests in quick
//! succession. It is refused as soon as the holder answers, and accepted if the holder stays silent
//! for T1. So nobody takes an association from a live peer by claiming its Node ID, and a peer that
//! has moved need not wait until its old address has missed N1 heartbeats at their usual pace.
//! Spec: TS 29.244 §6.2.6.2.2.

use core::net::IpAddr;

use adit_pfcp::MessageBody;
use adit_pfcp::message::{AssociationSetupRequest, HeartbeatRequest};
use adit_session::OwnerId;
use adit_types::Nanos;
use adit_types::limits::CONTESTED_SETUPS_MAX;

use crate::association::NodeIdentity;
use crate::node::{Node, ReceivedMessage};
use crate::setup::ContestedSetup;
use crate::transaction::{OutgoingRequest, RequestPurpose, Retransmission};

impl Node {
    /// Keeps a setup whose Node ID another address has, and probes that address. False if the setup
    /// can be decided now.
    pub(crate) fn hold_contested_setup(&mut self, request: &ReceivedMessage<'_>) -> bool {
        // A retransmitted setup replaces the earlier copy.
        self.peers.contested_setups.retain(|contest| contest.from.ip() != request.peer());
        if self.shutdown.is_stopping || self.peers.contested_setups.len() >= CONTESTED_SETUPS_MAX {
            return false;
        }
        let Ok(message) = AssociationSetupRequest::decode_body(request.body) else { return false };
        let node_id = NodeIdentity::from_ie(&message.node_id);
        let Some(holder) = self.probe_holder(request.now, request.peer(), &node_id) else {
            return false;
        };
        let ReceivedMessage { from, header, body, .. } = *request;
        self.peers.contested_setups.push(ContestedSetup {
            holder,
            from,
            header,
            body: body.to_vec(),
        });
        true
    }

    /// Probes the association that has `node_id` at another address than `claimant`, unless a probe
    /// is under way. Returns that association; `None` if there is none.
    pub(crate) fn probe_holder(
        &mut self,
        now: Nanos,
        claimant: IpAddr,
        node_id: &NodeIdentity,
    ) -> Option<OwnerId> {
        let holder = self.peers.other_holder(claimant, node_id);
        let (owner, to) = holder.map(|a| (a.owner, a.socket()))?;
        let probe = RequestPurpose::Probe { owner };
        if !self.transactions.any(|purpose| *purpose == probe) {
            let Retransmission { t1, n1 } = self.config.retransmission();
            let timers = Retransmission { t1: Nanos(t1.0 / (u64::from(n1) + 1)), n1 };
            let body = HeartbeatRequest::new(self.time_stamp_towards(to.ip()));
            self.send_own(now, OutgoingRequest { to, seid: None, purpose: probe, timers }, &body);
        }
        Some(owner)
    }

    /// Decides setups whose holder lost its association otherwise than by the probe.
    pub(crate) fn decide_setups_without_holder(&mut self, now: Nanos) {
        let lives = |owner| self.peers.association_of(owner).is_some();
        let gone = self
            .peers
            .contested_setups
            .iter()
            .map(|contest| contest.holder)
            .find(|&owner| !lives(owner));
        if let Some(owner) = gone {
            self.decide_contested_setups(now, owner);
        }
    }

    /// Decides the setups that waited for the probe of `holder`: they are refused if `holder` still
    /// has its association.
    pub(crate) fn decide_contested_setups(&mut self, now: Nanos, holder: OwnerId) {
        let waited = self.peers.contested_setups.extract_if(.., |contest| contest.holder == holder);
        let waited: Vec<ContestedSetup> = waited.collect();
        for ContestedSetup { from, header, body, .. } in waited {
            self.decide_association_setup(&ReceivedMessage { now, from, header, body: &body });
        }
    }
}
