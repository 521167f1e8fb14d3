//! Deletes and modifies sets of sessions.
//!
//! A CP function acts only on sessions that it controls, alone or with its SMF set; other sessions
//! with the same set identifiers are not touched. Spec: TS 29.244 §6.2.9, §6.2.10, §7.4.6, §7.4.7.

use core::net::IpAddr;
use std::collections::VecDeque;

use adit_pfcp::grouped::SessionChangeInfo;
use adit_pfcp::message::{
    SessionSetDeletionRequest, SessionSetDeletionResponse, SessionSetModificationRequest,
    SessionSetModificationResponse,
};
use adit_pfcp::{Cause, IeType, MessageBody};
use adit_session::OwnerId;
use adit_types::{Seid, SessionIndex};

use crate::answers::Condition;
use crate::association::NodeIdentity;
use crate::backlog::{JobTask, JobWaiter};
use crate::counters::as_count;
use crate::node::{Node, ReceivedMessage};
use crate::refusal::Rejected;
use crate::session_state::{SetKey, set_keys};

impl Node {
    /// Deletes the sessions of the named sets; the response follows when all are gone.
    pub(crate) fn handle_session_set_deletion(&mut self, request: &ReceivedMessage<'_>) {
        match self.delete_session_set(request) {
            Ok(last) => self.respond_to_set_deletion(request, Cause::RequestAccepted, None, last),
            Err(rejected) => {
                self.note_refused(request, rejected);
                let Rejected { cause, offending_ie, .. } = rejected;
                self.respond_to_set_deletion(request, cause, offending_ie, None);
            }
        }
    }

    fn delete_session_set(
        &mut self,
        request: &ReceivedMessage<'_>,
    ) -> Result<Option<Condition>, Rejected> {
        let message = SessionSetDeletionRequest::decode_body(request.body)?;
        let owner = self.check_node(request, &NodeIdentity::from_ie(&message.node_id))?;
        if message.fq_csids.is_empty() {
            return Err(Rejected::with_ie(Cause::ConditionalIeMissing, IeType::FQ_CSID));
        }
        let keys = set_keys(message.fq_csids, None)?.into();
        self.refuse_beyond_jobs()?;
        let next = self.sessions.states.set_cursor();
        Ok(Some(self.start_job(None, JobTask::DeleteSets { owner, keys, next })))
    }

    pub(super) fn respond_to_set_deletion(
        &mut self,
        request: &ReceivedMessage<'_>,
        cause: Cause,
        offending_ie: Option<IeType>,
        after: Option<Condition>,
    ) {
        let node_id = self.config.node_id.clone();
        let mut body = SessionSetDeletionResponse::new(node_id.to_ie(), cause);
        body.offending_ie = offending_ie.map(Into::into);
        self.respond(request, None, &body, after);
    }

    /// Moves the control of sessions to another address of the SMF set, which does not concern
    /// workers.
    pub(crate) fn handle_session_set_modification(&mut self, request: &ReceivedMessage<'_>) {
        match self.modify_session_set(request) {
            Ok(last) => {
                self.respond_to_set_modification(request, Cause::RequestAccepted, None, Some(last));
            }
            Err(rejected) => {
                self.note_refused(request, rejected);
                let Rejected { cause, offending_ie, .. } = rejected;
                self.respond_to_set_modification(request, cause, offending_ie, None);
            }
        }
    }

    /// Returns the condition that the last of the jobs has ended.
    fn modify_session_set(&mut self, request: &ReceivedMessage<'_>) -> Result<Condition, Rejected> {
        let message = SessionSetModificationRequest::decode_body(request.body)?;
        let owner = self.check_node(request, &NodeIdentity::from_ie(&message.node_id))?;
        self.refuse_beyond_jobs()?;
        let mut tasks = Vec::new();
        for info in message.session_change_infos {
            let to = self.new_address(&info)?;
            self.add_tasks_of_info(owner, &info, to, &mut tasks)?;
        }
        // The jobs of one peer end in the order in which they began, so the last one ends after
        // all.
        let node_id = NodeIdentity::from_ie(&message.node_id);
        let waiter = JobWaiter { address: request.peer(), node_id };
        for task in tasks {
            self.start_job(Some(waiter.clone()), task);
        }
        Ok(self.start_job(Some(waiter), JobTask::Wait))
    }

    /// Transfers a session to the association at `to`, if that is one of the same SMF set.
    pub(crate) fn move_control(&mut self, by: OwnerId, up_seid: Seid, to: IpAddr) {
        self.apply_disposition(up_seid);
        let Some(session) = self.sessions.store().session(up_seid) else { return };
        if !self.peers.shares_control(by, session.owner()) {
            return;
        }
        let successor = self.peers.association_for(to).map(|association| association.owner);
        let successor = successor.filter(|&successor| self.peers.shares_control(by, successor));
        let owner = successor.unwrap_or(session.owner());
        let cp = session.cp_f_seid().at(to);
        self.sessions.set_control(up_seid, owner, cp);
        self.counters.scalars.sessions_moved += 1;
    }

    /// Returns the address, of our own family, from which the sessions will be controlled.
    fn new_address(&self, info: &SessionChangeInfo<'_>) -> Result<IpAddr, Rejected> {
        let given = info.alternative_smf_ip_address;
        let (v4, v6) = (given.v4.map(IpAddr::V4), given.v6.map(IpAddr::V6));
        let address = if self.config.address.is_ipv4() { v4 } else { v6 };
        let offending = IeType::ALTERNATIVE_SMF_IP_ADDRESS;
        address.ok_or(Rejected::with_ie(Cause::MandatoryIeIncorrect, offending))
    }

    fn add_tasks_of_info(
        &self,
        owner: OwnerId,
        info: &SessionChangeInfo<'_>,
        to: IpAddr,
        tasks: &mut Vec<JobTask>,
    ) -> Result<(), Rejected> {
        let keys: VecDeque<SetKey> = set_keys(info.fq_csids, info.group_ids)?.into();
        if keys.is_empty() && info.cp_ip_addresses.is_empty() {
            return Err(Rejected::with_ie(Cause::ConditionalIeMissing, IeType::FQ_CSID));
        }
        if !keys.is_empty() {
            tasks.push(JobTask::MoveSets {
                owner,
                keys,
                next: self.sessions.states.set_cursor(),
                to,
            });
        }
        let addresses = info.cp_ip_addresses.into_iter();
        let listed = addresses.flat_map(|cp| [cp.v4.map(IpAddr::V4), cp.v6.map(IpAddr::V6)]);
        let listed: Vec<IpAddr> = listed.flatten().filter(|&address| address != to).collect();
        if !listed.is_empty() {
            let known = self.associations().map(|association| association.owner);
            let heirs: Vec<OwnerId> =
                known.filter(|&other| self.peers.shares_control(owner, other)).collect();
            // Sessions that are still moving to these associations come first.
            let owners = self
                .sessions
                .transitions
                .predecessors_of(&heirs)
                .into_iter()
                .chain(heirs)
                .collect();
            tasks.push(JobTask::MoveListed { owner, owners, listed, next: SessionIndex(0), to });
        }
        Ok(())
    }

    pub(super) fn respond_to_set_modification(
        &mut self,
        request: &ReceivedMessage<'_>,
        cause: Cause,
        offending_ie: Option<IeType>,
        after: Option<Condition>,
    ) {
        let node_id = self.config.node_id.clone();
        let mut body = SessionSetModificationResponse::new(node_id.to_ie(), cause);
        body.offending_ie = offending_ie.map(Into::into);
        self.respond(request, None, &body, after);
    }

    /// Returns the association of the requester, if its Node ID is this one.
    fn check_node(
        &self,
        request: &ReceivedMessage<'_>,
        node_id: &NodeIdentity,
    ) -> Result<OwnerId, Rejected> {
        let association = self.peers.association_for(request.peer());
        let association = association.ok_or(Rejected::no_association())?;
        match association.node_id == *node_id {
            true => Ok(association.owner),
            false => Err(Rejected::other_node_id()),
        }
    }

    /// Returns how many sessions are in sets that their CP function named.
    #[must_use]
    pub fn sessions_in_sets(&self) -> u64 {
        as_count(self.sessions.states.sessions_in_sets_len())
    }
}
