//! Deletion and modification of sets of sessions.
//!
//! A CP function acts on the sessions that it controls, alone or with its SMF set; others that
//! happen to have the same set identifiers are not touched. Spec: TS 29.244 §6.2.9, §6.2.10, §7.4.6,
//! §7.4.7.

use core::net::IpAddr;
use std::collections::BTreeSet;

use adit_pfcp::grouped::SessionChangeInfo;
use adit_pfcp::message::{
    SessionSetDeletionRequest, SessionSetDeletionResponse, SessionSetModificationRequest,
    SessionSetModificationResponse,
};
use adit_pfcp::{Cause, IeType, MessageBody};
use adit_rules::DeltaId;
use adit_session::OwnerId;
use adit_types::Seid;

use crate::association::{Association, NodeId, as_count};
use crate::node::{Node, Request};
use crate::refusal::Rejected;
use crate::session_set::{self, SetKey};

impl Node {
    /// Deletes the sessions of the named sets; the response follows when all are gone.
    pub(crate) fn handle_session_set_deletion(&mut self, request: &Request<'_>) {
        match self.delete_session_set(request) {
            Ok(last) => self.respond_to_set_deletion(request, Cause::RequestAccepted, None, last),
            Err(Rejected { cause, offending_ie, .. }) => {
                self.count_refused(cause);
                self.respond_to_set_deletion(request, cause, offending_ie, None);
            }
        }
    }

    fn delete_session_set(&mut self, request: &Request<'_>) -> Result<Option<DeltaId>, Rejected> {
        let message = SessionSetDeletionRequest::decode_body(request.body)?;
        self.check_node(request, &NodeId::from_ie(&message.node_id))?;
        if message.fq_csids.is_empty() {
            return Err(Rejected::with_ie(Cause::ConditionalIeMissing, IeType::FQ_CSID));
        }
        let keys = session_set::keys(message.fq_csids, None)?;
        let mut last = None;
        for up_seid in self.members_controlled_by(request, &keys) {
            self.forget_reports_of(up_seid);
            if let Ok(delta) = self.store.delete(up_seid) {
                self.counters.scalars.sessions_deleted += 1;
                last = Some(self.publish(delta));
            }
        }
        Ok(last)
    }

    pub(super) fn respond_to_set_deletion(
        &mut self,
        request: &Request<'_>,
        cause: Cause,
        offending_ie: Option<IeType>,
        after: Option<DeltaId>,
    ) {
        let node_id = self.config.node_id.clone();
        let mut body = SessionSetDeletionResponse::new(node_id.to_ie(), cause);
        body.offending_ie = offending_ie.map(Into::into);
        self.respond(request, None, &body, after);
    }

    /// Moves the control of sessions to another address of the SMF set; no worker is concerned.
    pub(crate) fn handle_session_set_modification(&mut self, request: &Request<'_>) {
        let (cause, offending_ie) = match self.modify_session_set(request) {
            Ok(()) => (Cause::RequestAccepted, None),
            Err(Rejected { cause, offending_ie, .. }) => {
                self.count_refused(cause);
                (cause, offending_ie)
            }
        };
        self.respond_to_set_modification(request, cause, offending_ie);
    }

    fn modify_session_set(&mut self, request: &Request<'_>) -> Result<(), Rejected> {
        let message = SessionSetModificationRequest::decode_body(request.body)?;
        let owner = self.check_node(request, &NodeId::from_ie(&message.node_id))?;
        let mut moves = Vec::new();
        for info in message.session_change_infos {
            let address = self.new_address(&info)?;
            let up_seids = self.sessions_of_info(request, &info)?;
            moves.push((address, up_seids));
        }
        for (address, up_seids) in moves {
            let successor = self.association_for(address).map(|association| association.owner);
            let successor = successor.filter(|&successor| self.shares_control(owner, successor));
            for up_seid in up_seids {
                let Some(session) = self.store.session(up_seid) else { continue };
                let owner = successor.unwrap_or(session.owner());
                let cp = session.cp_f_seid().at(address);
                self.store.set_control(up_seid, owner, cp);
                self.counters.scalars.sessions_moved += 1;
            }
        }
        Ok(())
    }

    /// The address, of our own family, from which the sessions are controlled from now on.
    fn new_address(&self, info: &SessionChangeInfo<'_>) -> Result<IpAddr, Rejected> {
        let given = info.alternative_smf_ip_address;
        let (v4, v6) = (given.v4.map(IpAddr::V4), given.v6.map(IpAddr::V6));
        let address = if self.config.address.is_ipv4() { v4 } else { v6 };
        let offending = IeType::ALTERNATIVE_SMF_IP_ADDRESS;
        address.ok_or(Rejected::with_ie(Cause::MandatoryIeIncorrect, offending))
    }

    fn sessions_of_info(
        &self,
        request: &Request<'_>,
        info: &SessionChangeInfo<'_>,
    ) -> Result<BTreeSet<Seid>, Rejected> {
        let keys = session_set::keys(info.fq_csids, info.group_ids)?;
        if keys.is_empty() && info.cp_ip_addresses.is_empty() {
            return Err(Rejected::with_ie(Cause::ConditionalIeMissing, IeType::FQ_CSID));
        }
        let mut found: BTreeSet<Seid> = self.members_controlled_by(request, &keys).collect();
        for cp in info.cp_ip_addresses {
            let addresses = [cp.v4.map(IpAddr::V4), cp.v6.map(IpAddr::V6)];
            let sessions = self.store.sessions().filter(|session| {
                let at = session.cp_f_seid();
                addresses.into_iter().flatten().any(|address| at.is_at(address))
                    && self.controls(request.peer(), session.owner())
            });
            found.extend(sessions.map(adit_session::Session::up_seid));
        }
        Ok(found)
    }

    pub(super) fn respond_to_set_modification(
        &mut self,
        request: &Request<'_>,
        cause: Cause,
        offending_ie: Option<IeType>,
    ) {
        let node_id = self.config.node_id.clone();
        let mut body = SessionSetModificationResponse::new(node_id.to_ie(), cause);
        body.offending_ie = offending_ie.map(Into::into);
        self.respond(request, None, &body, None);
    }

    /// The association of the requester, if it has one under this Node ID.
    fn check_node(&self, request: &Request<'_>, node_id: &NodeId) -> Result<OwnerId, Rejected> {
        let association = self.association_for(request.peer());
        let association = association.filter(|association| association.node_id == *node_id);
        let association = association.map(|association: &Association| association.owner);
        association.ok_or(Rejected::new(Cause::NoEstablishedAssociation))
    }

    fn members_controlled_by(
        &self,
        request: &Request<'_>,
        keys: &[SetKey],
    ) -> impl Iterator<Item = Seid> + use<> {
        let sessions = self.session_sets.members(keys).into_iter();
        let sessions = sessions.filter_map(|index| self.store.session_at(index));
        let controlled = sessions.filter(|s| self.controls(request.peer(), s.owner()));
        let up_seids: Vec<Seid> = controlled.map(adit_session::Session::up_seid).collect();
        up_seids.into_iter()
    }

    /// Sessions that are in some set named by their CP function.
    #[must_use]
    pub fn sessions_in_sets(&self) -> u64 {
        as_count(self.session_sets.len())
    }
}
