//! One file for each PFCP procedure, and what several of them share.
//!
//! A procedure checks its request, changes the session store at most once, and responds; nothing
//! can fail after the change. Spec: TS 29.244 §6.2, §6.3.

mod association;
mod association_life;
mod buffering_duration;
mod containment;
mod contested_setup;
mod control_change;
mod data_plane;
mod decode;
mod delete;
pub(crate) mod demand;
mod drain;
mod endpoint_decode;
mod establish;
mod far_decode;
mod final_usage;
mod findings;
mod following;
mod give_up;
mod header_error;
mod heartbeat;
mod jobs;
mod load;
mod modify;
mod node_report;
mod operator;
mod packet_rates;
mod path_qos;
mod paths;
mod pfd;
mod reconfigure;
mod records;
mod reject;
mod release;
mod report;
mod report_destination;
mod rewrite;
mod rule_decode;
mod session_set;
mod set_aside;
mod silent_peer;
mod smf_set;
mod time_stamps;
mod timers;
mod transition;
mod ue_pools;
mod urr_decode;
mod usage;

use adit_pfcp::Cause;
use adit_types::Seid;

use crate::node::{Node, ReceivedMessage};
use crate::refusal::Rejected;

/// Text of the refusal of a request about a session that its sender does not control.
const NO_SUCH_SESSION: &str = "no session of this peer has the SEID";

/// A refusal, and the SEID for the header of the response.
struct RefusalWithSeid {
    seid: Seid,
    rejected: Rejected,
}

impl Node {
    /// Returns the UP SEID and the CP SEID of the session that a modification or deletion concerns.
    ///
    /// # Errors
    /// Cause 72 without an association; Cause 65 if this peer controls no such session. Both with
    /// SEID 0, because the CP SEID is not known. Spec: TS 29.244 §7.2.2.4.2.
    fn session_of(
        &mut self,
        request: &ReceivedMessage<'_>,
    ) -> Result<(Seid, Seid), RefusalWithSeid> {
        request.header.seid.and_then(|up_seid| self.apply_disposition(up_seid));
        let refused = |rejected| RefusalWithSeid { seid: Seid(0), rejected };
        let association = self.peers.association_for(request.peer());
        let association = association.ok_or(refused(Rejected::no_association()))?;
        let session =
            request.header.seid.and_then(|up_seid| self.sessions.store().session(up_seid));
        let session = session.filter(|s| self.peers.shares_control(association.owner, s.owner()));
        let unknown = Rejected::new(Cause::SessionContextNotFound, NO_SUCH_SESSION);
        let session = session.ok_or(refused(unknown))?;
        Ok((session.up_seid(), session.cp_f_seid().seid))
    }
}
