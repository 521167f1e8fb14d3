//! Requests the release of all associations before this node stops.
//!
//! Only a CP function may release an association; a UP function can request that, and grants a time
//! for it. Spec: TS 29.244 §6.2.7.3, §6.2.8, §7.4.4.3.

use core::net::SocketAddr;

use adit_pfcp::MessageBody;
use adit_pfcp::ie::{AssociationReleaseRequest, GracefulReleasePeriod, Timer};
use adit_pfcp::message::{AssociationUpdateRequest, AssociationUpdateResponse};
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::association::Association;
use crate::event::ReleaseFailure;
use crate::node::{Node, ReceivedMessage};
use crate::transaction::RequestPurpose;

impl Node {
    /// Requests every CP function to release its association within `period`, and accepts no new
    /// association from now on. Sessions stay until the CP function releases the association; those
    /// of a CP function with EPFAR end after half the period, so that their usage is reported.
    pub fn start_release(&mut self, now: Nanos, period: Nanos) {
        self.shutdown.is_stopping = true;
        self.shutdown.prepare_releases_at = Some(now + Nanos(period.0 / 2));
        for (owner, to) in self.peers.destinations() {
            self.send_release_request(now, owner, to, period);
        }
    }

    /// Requests the CP function at `to` to release its association.
    pub(super) fn send_release_request(
        &mut self,
        now: Nanos,
        owner: OwnerId,
        to: SocketAddr,
        period: Nanos,
    ) {
        let secs = period.to_duration().as_secs();
        let timer = Timer::from_secs(u32::try_from(secs).unwrap_or(u32::MAX));
        let node_id = self.config.node_id.clone();
        let mut body = AssociationUpdateRequest::new(node_id.to_ie());
        body.association_release_request = Some(AssociationReleaseRequest::SARR);
        body.graceful_release_period = Some(GracefulReleasePeriod(timer));
        self.send_request(now, to, &body, RequestPurpose::AssociationUpdate { owner });
    }

    /// True if this node may stop: only silent peers have associations, and no answer waits.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.associations().all(Association::is_silent) && self.answers.len() == 0
    }

    /// Processes the response to an Association Update Request of ours.
    pub(crate) fn handle_association_update_response(&mut self, response: &ReceivedMessage<'_>) {
        let Ok(message) = AssociationUpdateResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects =
            |purpose: &RequestPurpose| matches!(purpose, RequestPurpose::AssociationUpdate { .. });
        let sequence = response.header.sequence;
        let purpose = self.transactions.take(response.from, sequence, expects);
        let Some(RequestPurpose::AssociationUpdate { owner }) = purpose else {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        };
        if !message.cause.is_accepted() {
            self.counters.scalars.association_updates_refused += 1;
            self.on_not_released(owner, ReleaseFailure::Refused(message.cause.code()));
        }
    }
}
