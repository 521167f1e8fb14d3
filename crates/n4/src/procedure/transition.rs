//! Sessions whose association moves or ends; see [`crate::transition`].

use adit_rules::DeltaId;
use adit_session::OwnerId;
use adit_types::Seid;

use crate::backlog::{JobTask, JobWaiter};
use crate::node::Node;
use crate::session_state::RemainingReports;
use crate::transition::SessionDisposition;

impl Node {
    /// Begins to apply a disposition to the sessions of an association, one after another.
    pub(crate) fn begin_transition(
        &mut self,
        owner: OwnerId,
        fate: SessionDisposition,
        waiter: Option<JobWaiter>,
    ) {
        if let SessionDisposition::Move { to, .. } = fate {
            // Sessions that are still moving to this association go to the new destination too.
            self.sessions.transitions.redirect(owner, &fate);
            debug_assert!(to == owner || self.associations().any(|a| a.owner == to));
        }
        let number = self.sessions.transitions.begin(owner, fate);
        self.start_job(waiter, JobTask::Transition { owner, number });
    }

    /// Stops all reports of the sessions of an association that ended without an heir, and of
    /// sessions that were still moving to it.
    pub(crate) fn abandon_sessions(&mut self, owner: OwnerId) {
        self.sessions.transitions.drop_transitions_of(owner);
        self.sessions.states.abandon_reports(owner);
        for former in self.sessions.transitions.redirect(owner, &SessionDisposition::End) {
            self.sessions.states.abandon_reports(former);
        }
    }

    /// True while the sessions of `owner` have a CP function: its association exists, or its
    /// sessions are moving to another one.
    pub(crate) fn has_control_plane(&self, owner: OwnerId) -> bool {
        self.peers.association_of(owner).is_some()
            || self.sessions.transitions.successor(owner).is_some()
    }

    /// Applies the dispositions that wait for a session. Returns the change that ends the session,
    /// if one of them ends it.
    pub(crate) fn apply_disposition(&mut self, up_seid: Seid) -> Option<DeltaId> {
        loop {
            let session = self.sessions.store().session(up_seid)?;
            let (owner, index, cp) = (session.owner(), session.index(), session.cp_f_seid());
            match self.sessions.transitions.take(owner, index)? {
                SessionDisposition::Move { to, address } => {
                    self.sessions.states.keep_former_cp(up_seid, cp);
                    if let Some(sequence) = self.sessions.states.hand_over_reports(up_seid, to) {
                        self.transactions.close(sequence);
                    }
                    self.sessions.set_control(up_seid, to, cp.at(address));
                }
                SessionDisposition::Retain { at }
                    if at.iter().any(|&address| cp.is_at(address)) => {}
                SessionDisposition::Retain { .. } => return self.delete_session(up_seid),
                SessionDisposition::End => return self.end_session_with_association(up_seid),
            }
        }
    }

    /// Ends a session of an association that ended, and discards its reports.
    pub(crate) fn end_session_with_association(&mut self, up_seid: Seid) -> Option<DeltaId> {
        let deleted = self.sessions.delete(up_seid, RemainingReports::Discard)?;
        Some(self.forget_discarded(deleted))
    }

    /// Discards the reports of a session that has no CP function any more.
    pub(crate) fn discard_reports(&mut self, up_seid: Seid) {
        let discarded = self.sessions.states.discard_reports(up_seid);
        self.drop_reports(discarded);
    }
}
