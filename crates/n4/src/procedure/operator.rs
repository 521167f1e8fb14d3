//! Requests of the operator: end a session, have an association released or end it without its CP
//! function, refuse new sessions.

use core::net::IpAddr;

use adit_session::OwnerId;
use adit_types::{Nanos, Seid};

use crate::association::Association;
use crate::event::{DownReason, NodeEvent, ReleaseFailure};
use crate::node::Node;

impl Node {
    /// Ends a session. Its CP function gets the last usage if it supports such reports (EPFAR).
    /// False if there is no such session. Spec: TS 29.244 §5.18.
    pub fn end_session(&mut self, up_seid: Seid) -> bool {
        let mut is_ended = false;
        self.run_contained("the end of a session by the operator", |node| {
            is_ended = node.end_locally(up_seid).is_some();
        });
        self.counters.scalars.sessions_ended_by_operator += u64::from(is_ended);
        is_ended
    }

    /// Requests the CP function at `address` to release its association within `period`. The
    /// association and its sessions continue until it does; [`NodeEvent::NotReleased`] reports that
    /// it did not. False if there is no such association. Spec: TS 29.244 §6.2.7.3.2.
    pub fn request_release(&mut self, now: Nanos, address: IpAddr, period: Nanos) -> bool {
        let Some(association) = self.peers.association_mut(address) else { return false };
        association.release_due = Some(now + period);
        let (owner, to) = (association.owner, association.socket());
        self.send_release_request(now, owner, to, period);
        true
    }

    /// Ends the association of `address` and its sessions without informing its CP function, which
    /// gets no last usage; its next request is refused with Cause 72. Returns how many sessions
    /// ended; `None` without such an association.
    ///
    /// The standard lets only CP functions release associations: this is for a CP function that
    /// does not.
    pub fn end_association_by_operator(&mut self, now: Nanos, address: IpAddr) -> Option<usize> {
        let owner = self.association(address)?.owner;
        let sessions = self.sessions.store().owned_count(owner);
        self.run_contained("the end of an association by the operator", |node| {
            node.end_association(now, address, DownReason::EndedByOperator);
        });
        Some(sessions)
    }

    /// Reports, with an event each, the associations that their CP functions did not release in
    /// time.
    pub(crate) fn report_late_releases(&mut self, now: Nanos) {
        let late = |known: &&Association| known.release_due.is_some_and(|due| due <= now);
        let late: Vec<OwnerId> =
            self.associations().filter(late).map(|known| known.owner).collect();
        late.into_iter().for_each(|owner| self.on_not_released(owner, ReleaseFailure::Late));
    }

    /// Returns when the first requested release will be late.
    pub(crate) fn next_late_release(&self) -> Option<Nanos> {
        self.associations().filter_map(|known| known.release_due).min()
    }

    /// Reports, once per request, that an association continues although the operator requested its
    /// release.
    pub(crate) fn on_not_released(&mut self, owner: OwnerId, failure: ReleaseFailure) {
        let Some(address) = self.peers.association_of(owner).map(|known| known.address) else {
            return;
        };
        let Some(association) = self.peers.association_mut(address) else { return };
        if association.release_due.take().is_some() {
            let node_id = association.node_id.clone();
            self.events.push_back(NodeEvent::NotReleased { address, node_id, failure });
        }
    }

    /// Starts or stops draining: new sessions are refused with Cause 74, and full load and overload
    /// are reported. Existing sessions continue. Spec: TS 29.244 §6.2.3, §6.2.4.
    pub const fn set_draining(&mut self, is_draining: bool) {
        self.load.is_draining = is_draining;
    }

    /// True while new sessions are refused because the operator drains the node.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.load.is_draining
    }
}
