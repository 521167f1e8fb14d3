//! What an operator may ask of the node: end a session, ask a CP function for the release of its association, and
//! take no new sessions.

use core::net::IpAddr;

use adit_types::{Nanos, Seid};

use crate::node::Node;

impl Node {
    /// Ends a session by the operator's decision. Its CP function gets the last usage if it takes such reports (EPFAR).
    /// False if there is no such session. Spec: TS 29.244 §5.18.
    pub fn end_session(&mut self, up_seid: Seid) -> bool {
        let mut is_ended = false;
        self.run_contained("the end of a session by the operator", |node| {
            is_ended = node.end_locally(up_seid).is_some();
        });
        self.counters.scalars.sessions_ended_by_operator += u64::from(is_ended);
        is_ended
    }

    /// Asks the CP function at `address` to release its association within `period`. The association and its sessions
    /// go on until it does. False if there is no such association. Spec: TS 29.244 §6.2.7.3.2.
    pub fn request_release(&mut self, now: Nanos, address: IpAddr, period: Nanos) -> bool {
        let Some(association) = self.association(address) else { return false };
        let (owner, to) = (association.owner, association.socket());
        self.send_release_request(now, owner, to, period);
        true
    }

    /// Refuses new sessions with Cause 74 and reports full load and overload, or ends that. Known sessions go on.
    /// Spec: TS 29.244 §6.2.3, §6.2.4.
    pub const fn set_draining(&mut self, is_draining: bool) {
        self.load.is_draining = is_draining;
    }

    /// True while new sessions are refused by the operator's decision.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.load.is_draining
    }
}
