//! Drains associations: reports the usage of all sessions before an association is released; see
//! [`crate::drain`].

use adit_pfcp::ie::{AssociationReleaseRequest, CpFunctionFeatures, PfcpAuReqFlags};
use adit_pfcp::message::AssociationUpdateRequest;
use adit_session::OwnerId;
use adit_types::limits::DRAIN_SESSIONS_MAX;
use adit_types::{Nanos, SessionIndex};

use crate::counters::as_count;
use crate::drain::{Drain, WaitingRelease};
use crate::node::{Node, ReceivedMessage};
use crate::transaction::RequestPurpose;

impl Node {
    /// Begins to end all sessions of an association, so that they report their last usage before it
    /// is released. False, without effect, if its CP function does not support such reports.
    pub(crate) fn prepare_release(&mut self, now: Nanos, owner: OwnerId) -> bool {
        let takes = self.peers.cp_function_has(owner, CpFunctionFeatures::EPFAR);
        if takes && !self.drains.contains_key(&owner) {
            let next = SessionIndex(0);
            self.drains.insert(owner, Drain { next, release: None, is_notified: false });
            self.advance_drains(now);
        }
        takes
    }

    /// Announces the release of their associations to the CP functions with EPFAR, and begins to
    /// end the sessions.
    pub(crate) fn prepare_releases(&mut self, now: Nanos) {
        let node_id = self.config.node_id.clone();
        for (owner, to) in self.peers.destinations() {
            if self.peers.cp_function_has(owner, CpFunctionFeatures::EPFAR)
                && !self.drains.contains_key(&owner)
            {
                let mut body = AssociationUpdateRequest::new(node_id.to_ie());
                body.pfcp_au_req_flags = Some(PfcpAuReqFlags::PARPS);
                self.send_request(now, to, &body, RequestPurpose::AssociationUpdate { owner });
                self.prepare_release(now, owner);
            }
        }
    }

    /// Makes a release request wait for the last usage of the association's sessions. False if
    /// there is no usage to wait for.
    pub(crate) fn await_last_usage(
        &mut self,
        request: &ReceivedMessage<'_>,
        owner: OwnerId,
    ) -> bool {
        let has_sessions =
            self.sessions.store().owned_count(owner) > 0 || self.leaving_of(owner) > 0;
        if !has_sessions || !self.prepare_release(request.now, owner) {
            return false;
        }
        let Some(drain) = self.drains.get_mut(&owner) else { return false };
        drain.release = Some(WaitingRelease {
            from: request.from,
            header: request.header,
            body: request.body.to_vec(),
            until: request.now + self.config.retransmission().span(),
        });
        if let Some(peer) = self.peers.get_mut(request.peer()) {
            peer.cache.begin(request.now, request.key());
        }
        self.advance_drains(request.now);
        true
    }

    fn leaving_of(&self, owner: OwnerId) -> usize {
        self.sessions.states.ended_len(owner)
    }

    /// Returns when the first release request stops waiting, even if usage is not reported.
    pub(crate) fn next_drain_deadline(&self) -> Option<Nanos> {
        self.drains.values().filter_map(|drain| Some(drain.release.as_ref()?.until)).min()
    }

    /// True if further sessions of a draining association can end now.
    pub(crate) fn has_drain_to_do(&self) -> bool {
        self.drains.iter().any(|(&owner, drain)| {
            self.sessions.store().next_owned(owner, drain.next).is_some()
                && self.leaving_of(owner) < DRAIN_SESSIONS_MAX
        })
    }

    /// Ends further sessions of draining associations.
    pub(crate) fn advance_drains(&mut self, now: Nanos) {
        let owners: Vec<OwnerId> = self.drains.keys().copied().collect();
        for owner in owners {
            self.advance_drain(now, owner);
        }
    }

    fn advance_drain(&mut self, now: Nanos, owner: OwnerId) {
        let mut leaving = self.leaving_of(owner);
        while leaving < DRAIN_SESSIONS_MAX
            && let Some(drain) = self.drains.get_mut(&owner)
            && let Some(session) = self.sessions.store().next_owned(owner, drain.next)
            && self.backlog.take_allowance()
        {
            drain.next = session.index().next();
            if self.end_locally(session.up_seid()).is_some() {
                self.counters.scalars.sessions_removed_with_association += 1;
                leaving += 1;
            }
        }
        let Some(drain) = self.drains.get_mut(&owner) else { return };
        let is_drained =
            leaving == 0 && self.sessions.store().next_owned(owner, drain.next).is_none();
        let is_due = drain.release.as_ref().is_some_and(|release| release.until <= now);
        if !is_drained && !is_due {
            return;
        }
        if let Some(release) = drain.release.take() {
            self.drains.remove(&owner);
            self.counters.scalars.sessions_not_drained +=
                as_count(self.sessions.store().owned_count(owner));
            let WaitingRelease { from, header, body, .. } = release;
            return self.complete_release(&ReceivedMessage { now, from, header, body: &body });
        }
        if !core::mem::replace(&mut drain.is_notified, true) {
            self.notify_all_usage_sent(now, owner);
        }
    }

    /// Notifies the CP function, in an Association Update Request, that the usage of all sessions
    /// was sent. Spec: TS 29.244 §8.2.77 (URSS).
    fn notify_all_usage_sent(&mut self, now: Nanos, owner: OwnerId) {
        let association = self.peers.association_of(owner);
        let to = association.map(|a| a.socket());
        let Some(to) = to else { return };
        let node_id = self.config.node_id.clone();
        let mut body = AssociationUpdateRequest::new(node_id.to_ie());
        body.association_release_request = Some(AssociationReleaseRequest::URSS);
        self.send_request(now, to, &body, RequestPurpose::AssociationUpdate { owner });
    }
}
