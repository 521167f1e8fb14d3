//! Refuses a request for a reason that lies outside its procedure.

use adit_pfcp::MessageType;
use adit_types::Seid;

use crate::answers::Condition;
use crate::node::{Node, ReceivedMessage};
use crate::procedure::establish::cp_f_seid;
use crate::refusal::Rejected;

impl Node {
    /// Refuses `request`; the response waits for the condition `after`, if given. False for a
    /// message that has no response with a Cause.
    pub(crate) fn refuse_request(
        &mut self,
        request: &ReceivedMessage<'_>,
        rejected: Rejected,
        after: Option<Condition>,
    ) -> bool {
        let cause = rejected.cause;
        match request.header.message_type {
            MessageType::ASSOCIATION_SETUP_REQUEST => {
                self.note_refused(request, rejected);
                self.respond_to_setup(request, cause, after);
            }
            MessageType::ASSOCIATION_UPDATE_REQUEST => {
                self.note_refused(request, rejected);
                self.respond_to_update(request, cause);
            }
            MessageType::ASSOCIATION_RELEASE_REQUEST => {
                self.note_refused(request, rejected);
                self.respond_to_release(request, cause, after);
            }
            MessageType::PFD_MANAGEMENT_REQUEST => {
                self.note_refused(request, rejected);
                self.respond_to_pfd_management(request, cause, None, after);
            }
            MessageType::SESSION_SET_DELETION_REQUEST => {
                self.note_refused(request, rejected);
                self.respond_to_set_deletion(request, cause, None, after);
            }
            MessageType::SESSION_SET_MODIFICATION_REQUEST => {
                self.note_refused(request, rejected);
                self.respond_to_set_modification(request, cause, None, after);
            }
            MessageType::SESSION_ESTABLISHMENT_REQUEST => {
                let cp_seid = cp_f_seid(request.body).map_or(Seid(0), |cp| cp.seid);
                self.refuse_establishment(request, cp_seid, rejected, after);
            }
            MessageType::SESSION_MODIFICATION_REQUEST => {
                let seid = self.cp_seid_of(request);
                self.refuse_modification(request, seid, rejected, after);
            }
            MessageType::SESSION_DELETION_REQUEST => {
                let seid = self.cp_seid_of(request);
                self.refuse_deletion(request, seid, rejected, after);
            }
            _ => return false,
        }
        true
    }

    /// Returns the CP SEID of the session that a request concerns; zero if there is none.
    fn cp_seid_of(&mut self, request: &ReceivedMessage<'_>) -> Seid {
        self.session_of(request).map_or(Seid(0), |(_, cp_seid)| cp_seid)
    }
}
