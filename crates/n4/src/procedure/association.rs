//! Association setup by either side; update and release by the CP function.
//!
//! Spec: TS 29.244 §6.2.6 to §6.2.8, §7.4.4.

use core::net::{IpAddr, SocketAddr};

use adit_pfcp::grouped::{GtpuPathQosControlInformation, SessionRetentionInformation};
use adit_pfcp::ie::{NfInstanceId, Nullable, PfcpAsRspFlags, PfcpAuReqFlags};
use adit_pfcp::message::{
    AssociationReleaseRequest, AssociationReleaseResponse, AssociationSetupRequest,
    AssociationSetupResponse, AssociationUpdateRequest, AssociationUpdateResponse,
};
use adit_pfcp::{Cause, MessageBody, Repeated};
use adit_session::OwnerId;
use adit_types::Nanos;
use adit_types::limits::{ASSOCIATIONS_MAX, PATH_CONTROLS_MAX};

use crate::answers::Condition;
use crate::association::{AssociationParameters, NodeIdentity, TimeStampMeaning};
use crate::backlog::JobWaiter;
use crate::event::{DownReason, NodeEvent, ReleaseFailure, SetupFailure};
use crate::features::up_function_features;
use crate::node::{Node, ReceivedMessage};
use crate::path_qos::PathQosControl;
use crate::procedure::association_life::{AcceptedAssociation, AssociationRefusal};
use crate::refusal::{RefusalDetail, Rejected};
use crate::smf_set::SmfSet;
use crate::transaction::RequestPurpose;
use crate::ue_pools::PoolAnnouncement;

impl Node {
    /// Sets up an association that a CP function requests. An existing association with the address
    /// ends first; its sessions stay if the peer has not restarted, or requests to retain them.
    /// Spec: TS 29.244 §6.2.6.2.2.
    pub(crate) fn handle_association_setup(&mut self, request: &ReceivedMessage<'_>) {
        if self.is_late_setup(request) {
            self.counters.scalars.stale_recovery_time_stamps += 1;
        } else if !self.hold_contested_setup(request) {
            self.decide_association_setup(request);
        }
    }

    /// True if the peer sent the setup before its latest restart, and so does not wait for the
    /// answer.
    fn is_late_setup(&mut self, request: &ReceivedMessage<'_>) -> bool {
        let Ok(message) = AssociationSetupRequest::decode_body(request.body) else { return false };
        let Some(known) = self.peers.association_mut(request.peer()) else { return false };
        known.node_id == NodeIdentity::from_ie(&message.node_id)
            && known.classify_time_stamp(message.recovery_time_stamp.0) == TimeStampMeaning::Late
    }

    /// Accepts or refuses a setup whose Node ID no other peer holds, or whose holder is known to be
    /// alive.
    pub(crate) fn decide_association_setup(&mut self, request: &ReceivedMessage<'_>) {
        match self.accept_association(request) {
            Ok(up) => self.respond_to_accepted_setup(request, up),
            Err(rejected) => {
                self.note_refused(request, rejected);
                self.respond_to_setup(request, rejected.cause, None);
            }
        }
    }

    fn accept_association(
        &mut self,
        request: &ReceivedMessage<'_>,
    ) -> Result<AcceptedAssociation, Rejected> {
        let message = AssociationSetupRequest::decode_body(request.body)?;
        let told = SmfSet::from_ies(message.smf_set_id, message.alternative_smf_ip_addresses);
        let smf_set = self.authorized_smf_set(request.peer(), told);
        let facts = AssociationParameters {
            address: request.peer(),
            node_id: NodeIdentity::from_ie(&message.node_id),
            recovery_time_stamp: message.recovery_time_stamp.0,
            cp_function_features: message.cp_function_features.map_or(0, |f| u64::from(f.bits())),
            smf_set,
            retain: message.session_retention_information.map(|wish| cp_addresses_to_retain(&wish)),
            path_controls: path_controls(message.gtpu_path_qos_controls)?.unwrap_or_default(),
            requested_by_us: false,
        };
        let nf_instance_id = message.nf_instance_id;
        let up = self.create_association(request.now, facts).map_err(|error| match error {
            AssociationRefusal::NodeIdInUse => Rejected {
                detail: RefusalDetail::Logged,
                ..Rejected::new(Cause::RequestRejected, "")
            },
            AssociationRefusal::Stopping => Rejected::new(Cause::RequestRejected, "adit stops"),
            AssociationRefusal::TooMany => Rejected::beyond_limit("associations", ASSOCIATIONS_MAX),
        })?;
        self.set_nf_instance(request.peer(), nf_instance_id);
        if let Some(peer) = self.peers.get_mut(request.peer()) {
            peer.buckets.begin(request.from.port(), request.header.sequence);
        }
        Ok(up)
    }

    fn set_nf_instance(&mut self, address: IpAddr, id: Option<NfInstanceId>) {
        if let Some(peer) = self.peers.get_mut(address) {
            peer.nf_instance_id = id.map(|id| id.0);
            self.sessions.records.note_association(address);
        }
    }

    fn respond_to_accepted_setup(
        &mut self,
        request: &ReceivedMessage<'_>,
        up: AcceptedAssociation,
    ) {
        let node_id = self.config.node_id.clone();
        let time_stamp = self.time_stamp_towards(request.peer());
        let cause = Cause::RequestAccepted;
        let mut body = AssociationSetupResponse::new(node_id.to_ie(), cause, time_stamp);
        body.up_function_features = Some(up_function_features(&self.config));
        let pools = self.config.store.provisioning.ue_pools.clone();
        let announcement = PoolAnnouncement::new(&pools);
        let groups = announcement.groups();
        body.ue_ip_address_pools = groups.as_slice().into();
        body.pfcp_as_rsp_flags = up.retained.then_some(PfcpAsRspFlags::PSREI);
        self.respond(request, None, &body, up.last);
    }

    pub(super) fn respond_to_setup(
        &mut self,
        request: &ReceivedMessage<'_>,
        cause: Cause,
        after: Option<Condition>,
    ) {
        let node_id = self.config.node_id.clone();
        let time_stamp = self.time_stamp_towards(request.peer());
        let mut body = AssociationSetupResponse::new(node_id.to_ie(), cause, time_stamp);
        body.up_function_features = Some(up_function_features(&self.config));
        self.respond(request, None, &body, after);
    }

    /// Requests an association with a configured peer.
    pub(crate) fn request_association(&mut self, now: Nanos, position: usize, to: SocketAddr) {
        let node_id = self.config.node_id.clone();
        let time_stamp = self.time_stamp_towards(to.ip());
        let mut body = AssociationSetupRequest::new(node_id.to_ie(), time_stamp);
        body.up_function_features = Some(up_function_features(&self.config));
        let pools = self.config.store.provisioning.ue_pools.clone();
        let announcement = PoolAnnouncement::new(&pools);
        let groups = announcement.groups();
        body.ue_ip_address_pools = groups.as_slice().into();
        self.send_request(now, to, &body, RequestPurpose::AssociationSetup { position });
    }

    /// Processes the response to an association setup that we requested.
    pub(crate) fn handle_association_setup_response(&mut self, response: &ReceivedMessage<'_>) {
        let expects =
            |purpose: &RequestPurpose| matches!(purpose, RequestPurpose::AssociationSetup { .. });
        let sequence = response.header.sequence;
        let purpose = self.transactions.take(response.from, sequence, expects);
        // INTEROP: some control planes answer with sequence number 1, whichever the request had.
        let purpose = purpose.or_else(|| match sequence {
            1 => self.transactions.take_any_to(response.from, expects),
            _ => None,
        });
        let Some(RequestPurpose::AssociationSetup { position }) = purpose else {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        };
        if let Err(failure) = self.complete_setup(response) {
            if failure == SetupFailure::Malformed {
                self.counters.scalars.discarded_malformed_response += 1;
            }
            self.retry_setup(response.now, position, failure);
        }
    }

    fn complete_setup(&mut self, response: &ReceivedMessage<'_>) -> Result<(), SetupFailure> {
        let message = AssociationSetupResponse::decode_body(response.body)
            .map_err(|_| SetupFailure::Malformed)?;
        if !message.cause.is_accepted() {
            return Err(SetupFailure::Refused(message.cause.code()));
        }
        let path_controls = path_controls(message.gtpu_path_qos_controls);
        let path_controls = path_controls.map_err(|_| SetupFailure::Malformed)?.unwrap_or_default();
        let told = SmfSet::from_ies(message.smf_set_id, message.alternative_smf_ip_addresses);
        let smf_set = self.authorized_smf_set(response.peer(), told);
        let facts = AssociationParameters {
            address: response.peer(),
            node_id: NodeIdentity::from_ie(&message.node_id),
            recovery_time_stamp: message.recovery_time_stamp.0,
            cp_function_features: message.cp_function_features.map_or(0, |f| u64::from(f.bits())),
            smf_set,
            retain: None,
            path_controls,
            requested_by_us: true,
        };
        let nf_instance_id = message.nf_instance_id;
        let node_id = facts.node_id.clone();
        match self.create_association(response.now, facts) {
            Ok(_) => {
                self.set_nf_instance(response.peer(), nf_instance_id);
                Ok(())
            }
            Err(AssociationRefusal::NodeIdInUse) => {
                self.probe_holder(response.now, response.peer(), &node_id);
                Err(SetupFailure::NodeIdInUse)
            }
            Err(AssociationRefusal::Stopping) => Err(SetupFailure::Stopping),
            Err(AssociationRefusal::TooMany) => Err(SetupFailure::TooManyAssociations),
        }
    }

    /// Processes the failure of a request of ours: no response after all retransmissions.
    pub(crate) fn handle_failed_request(&mut self, now: Nanos, purpose: RequestPurpose) {
        match purpose {
            RequestPurpose::Heartbeat { owner } | RequestPurpose::Probe { owner } => {
                self.on_heartbeats_lost(now, owner);
                self.decide_contested_setups(now, owner);
            }
            RequestPurpose::AssociationUpdate { owner } => {
                self.on_not_released(owner, ReleaseFailure::NoResponse);
            }
            RequestPurpose::SessionSetDeletion { .. } => {}
            RequestPurpose::NodeReport { owner } => {
                self.counters.scalars.node_reports_lost_no_response += 1;
                self.on_node_report_not_delivered(now, owner);
            }
            RequestPurpose::SessionReport { up_seid, items, .. } => {
                self.on_report_lost(now, up_seid, items)
            }
            RequestPurpose::AssociationSetup { position } => {
                self.retry_setup(now, position, SetupFailure::NoResponse);
            }
        }
    }

    fn retry_setup(&mut self, now: Nanos, position: usize, failure: SetupFailure) {
        if let Some((to, retry_after)) = self.peers.setups.failed(now, position) {
            self.events.push_back(NodeEvent::SetupFailed { to, failure, retry_after });
        }
    }

    /// Processes an update of the association by the CP function. Spec: TS 29.244 §6.2.7.2.2.
    pub(crate) fn handle_association_update(&mut self, request: &ReceivedMessage<'_>) {
        match self.update_association(request) {
            Ok(prepares) => {
                self.respond_to_update(request, Cause::RequestAccepted);
                prepares.map(|owner| self.prepare_release(request.now, owner));
            }
            Err(rejected) => {
                self.note_refused(request, rejected);
                self.respond_to_update(request, rejected.cause);
            }
        }
    }

    pub(super) fn respond_to_update(&mut self, request: &ReceivedMessage<'_>, cause: Cause) {
        let node_id = self.config.node_id.clone();
        let mut body = AssociationUpdateResponse::new(node_id.to_ie(), cause);
        body.up_function_features = cause.is_accepted().then(|| up_function_features(&self.config));
        self.respond(request, None, &body, None);
    }

    /// Updates the association. Returns it if the peer prepares its release (PARPS).
    fn update_association(
        &mut self,
        request: &ReceivedMessage<'_>,
    ) -> Result<Option<OwnerId>, Rejected> {
        let none = Rejected::no_association();
        let known = self.peers.association_for(request.peer()).ok_or(none)?;
        let (address, owner) = (known.address, known.owner);
        let message = AssociationUpdateRequest::decode_body(request.body)?;
        if NodeIdentity::from_ie(&message.node_id) != known.node_id {
            return Err(Rejected::other_node_id());
        }
        if let Some(controls) = path_controls(message.gtpu_path_qos_controls)? {
            self.path_qos.set(request.now, owner, controls);
        }
        let told = SmfSet::from_ies(message.smf_set_id, message.alternative_smf_ip_addresses);
        let known = self.association(address).and_then(|known| known.smf_set.id.clone());
        let told = self.authorized_smf_set(address, SmfSet { id: told.id.or(known), ..told });
        let Some(association) = self.peers.association_mut(address) else { return Err(none) };
        if let Some(features) = message.cp_function_features {
            association.cp_function_features = u64::from(features.bits());
        }
        if told.id.is_some() {
            association.smf_set.id = told.id;
        }
        if !told.alternatives.is_empty() {
            association.smf_set.alternatives = told.alternatives;
        }
        let flags = message.pfcp_au_req_flags.unwrap_or_default();
        let owner = association.owner;
        self.sessions.records.note_association(address);
        self.peers.refresh_aliases();
        Ok(flags.contains(PfcpAuReqFlags::PARPS).then_some(owner))
    }

    /// Releases the association. The response follows when its sessions are gone and, if the CP
    /// function supports that, have reported their last usage. Spec: TS 29.244 §6.2.8.2.
    pub(crate) fn handle_association_release(&mut self, request: &ReceivedMessage<'_>) {
        let association = self.association(request.peer());
        let named = AssociationReleaseRequest::decode_body(request.body).is_ok_and(|m| {
            association.is_some_and(|a| NodeIdentity::from_ie(&m.node_id) == a.node_id)
        });
        let owner = association.map(|association| association.owner).filter(|_| named);
        if !owner.is_some_and(|owner| self.await_last_usage(request, owner)) {
            self.complete_release(request);
        }
    }

    /// Releases the association even if sessions have not reported all usage.
    pub(crate) fn complete_release(&mut self, request: &ReceivedMessage<'_>) {
        let (cause, last) = match self.release_association(request) {
            Ok(last) => (Cause::RequestAccepted, last),
            Err(rejected) => {
                self.note_refused(request, rejected);
                (rejected.cause, None)
            }
        };
        self.respond_to_release(request, cause, last);
    }

    pub(super) fn respond_to_release(
        &mut self,
        request: &ReceivedMessage<'_>,
        cause: Cause,
        after: Option<Condition>,
    ) {
        let node_id = self.config.node_id.clone();
        let body = AssociationReleaseResponse::new(node_id.to_ie(), cause);
        self.respond(request, None, &body, after);
    }

    fn release_association(
        &mut self,
        request: &ReceivedMessage<'_>,
    ) -> Result<Option<Condition>, Rejected> {
        let Some(association) = self.association(request.peer()) else {
            return Err(Rejected::no_association());
        };
        let message = AssociationReleaseRequest::decode_body(request.body)?;
        if NodeIdentity::from_ie(&message.node_id) != association.node_id {
            return Err(Rejected::other_node_id());
        }
        let (address, node_id) = (association.address, association.node_id.clone());
        self.end_association(request.now, address, DownReason::Released);
        Ok(self.wait_for_jobs(JobWaiter { address, node_id }))
    }
}

/// Decodes the path delays that a CP function requests: `None` without the IE, empty if the IE has
/// length zero.
///
/// Those of [`PathQosControl::from_ie`]; Cause 75 for more than [`PATH_CONTROLS_MAX`] controls.
/// As [`PathQosControl::from_ie`]; Cause 75 for more than [`PATH_CONTROLS_MAX`].
pub(super) fn path_controls<'a>(
    ies: Repeated<'a, Nullable<GtpuPathQosControlInformation<'a>>>,
) -> Result<Option<Vec<PathQosControl>>, Rejected> {
    if ies.is_empty() {
        return Ok(None);
    }
    let given = ies.into_iter().filter_map(Nullable::value);
    let controls: Vec<PathQosControl> =
        given.map(|ie| PathQosControl::from_ie(&ie)).collect::<Result<_, _>>()?;
    if controls.len() > PATH_CONTROLS_MAX {
        return Err(Rejected::beyond_limit(
            "GTP-U Path QoS Control Informations",
            PATH_CONTROLS_MAX,
        ));
    }
    Ok(Some(controls))
}

/// Returns the addresses whose sessions a CP function requests to retain; an empty list means all.
fn cp_addresses_to_retain(wish: &SessionRetentionInformation<'_>) -> Vec<IpAddr> {
    let addresses = wish.cp_pfcp_entity_ip_addresses.into_iter();
    addresses.flat_map(|at| [at.v4.map(IpAddr::V4), at.v6.map(IpAddr::V6)]).flatten().collect()
}
