//! The SMF of the bench: encodes requests for session number *n*.

use std::net::Ipv4Addr;

use super::network::GNB_ADDR;
use adit_pfcp::grouped::{
    ApplicationIdsPfds, CreateFar, CreatePdr, CreateQer, CreateUrr, CreatedPdr,
    ForwardingParameters, Pdi, PfdContext, UpdateFar, UpdateForwardingParameters,
};
use adit_pfcp::ie::{
    ApplicationId, ApplyAction, DestinationInterface, FSeid, FTeid, GateStatus, MeasurementMethod,
    NodeId, Nullable, OuterHeaderCreation, OuterHeaderRemovalDescription, PfdContents,
    RecoveryTimeStamp, ReportingTriggers, SmfSetId, SourceInterface, UeIpAddress, VolumeThreshold,
};
use adit_pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, AssociationUpdateRequest, HeartbeatRequest,
    PfdManagementRequest, SessionDeletionRequest, SessionEstablishmentRequest,
    SessionModificationRequest,
};
use adit_pfcp::{NoRoom, Repeated, encode};
use adit_types::{FarId, PdrId, Precedence, QerId, Qfi, Seid, Teid, UrrId};

/// Rules of one session, for the report.
pub(crate) const RULES_PER_SESSION: &str = "2 PDR, 2 FAR, 2 QER, 1 URR";

/// Maximum length of a request. Unit: octets.
pub(crate) const REQUEST_BYTES_MAX: usize = 1500;

/// Address of the emulated SMF.
pub(crate) const CP_ADDR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);

/// Identifier of the SMF set to which both SMFs belong.
const SMF_SET: SmfSetId<'static> = SmfSetId(b"\0\x04set1\x03smf");

/// Encodes an Association Setup Request. Returns its length.
pub(crate) fn association_setup(out: &mut [u8]) -> Result<usize, NoRoom> {
    let node_id = NodeId::Ipv4(CP_ADDR);
    encode(out, None, 1, &AssociationSetupRequest::new(node_id, RecoveryTimeStamp(1)))
}

/// Encodes the Association Setup Request of the SMF at `addr`, a member of the set that started at
/// `started`.
pub(crate) fn association_setup_in_set(
    out: &mut [u8],
    addr: Ipv4Addr,
    started: u32,
) -> Result<usize, NoRoom> {
    let started = RecoveryTimeStamp(started);
    let mut body = AssociationSetupRequest::new(NodeId::Ipv4(addr), started);
    body.smf_set_id = Some(SMF_SET);
    encode(out, None, 5 + started.0, &body)
}

/// Encodes an Association Update Request that adds the SMF to the set.
pub(crate) fn joining_set(out: &mut [u8]) -> Result<usize, NoRoom> {
    let mut body = AssociationUpdateRequest::new(NodeId::Ipv4(CP_ADDR));
    body.smf_set_id = Some(SMF_SET);
    encode(out, None, 5, &body)
}

/// Encodes the establishment of session `number`, which determines UE address and CP SEID.
pub(crate) fn establishment(out: &mut [u8], sequence: u32, number: u32) -> Result<usize, NoRoom> {
    let ue_addr = ue_addr(number);
    let ue = |destination| UeIpAddress { v4: Some(ue_addr), destination, ..UeIpAddress::default() };
    let (from_ue, to_ue) = ([ue(false)], [ue(true)]);
    let (qers, urrs) = ([QerId(1), QerId(2)], [UrrId(1)]);
    let uplink = CreatePdr {
        outer_header_removal: Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into()),
        far_id: Some(FarId(1)),
        qer_ids: Repeated::from(&qers),
        urr_ids: Repeated::from(&urrs),
        ..CreatePdr::new(
            PdrId(1),
            Precedence(100),
            Pdi {
                local_f_teid: Some(FTeid::Choose { v4: true, v6: false, choose_id: None }),
                ue_ip_addresses: Repeated::from(&from_ue),
                ..Pdi::new(SourceInterface::Access)
            },
        )
    };
    let downlink = CreatePdr {
        far_id: Some(FarId(2)),
        qer_ids: Repeated::from(&qers),
        urr_ids: Repeated::from(&urrs),
        ..CreatePdr::new(
            PdrId(2),
            Precedence(100),
            Pdi { ue_ip_addresses: Repeated::from(&to_ue), ..Pdi::new(SourceInterface::Core) },
        )
    };
    let far = |id, parameters| CreateFar {
        forwarding_parameters: Some(parameters),
        ..CreateFar::new(id, ApplyAction::FORW)
    };
    let gnb = OuterHeaderCreation::gtpu_ipv4(Teid(number + 1), GNB_ADDR);
    let fars = [
        far(FarId(1), ForwardingParameters::new(DestinationInterface::Core)),
        far(
            FarId(2),
            ForwardingParameters {
                outer_header_creation: Some(gnb),
                ..ForwardingParameters::new(DestinationInterface::Access)
            },
        ),
    ];
    // The session QER has no QFI, the flow QER has one.
    let create_qers = [
        CreateQer::new(QerId(1), GateStatus::OPEN),
        CreateQer { qfi: Qfi::new(9), ..CreateQer::new(QerId(2), GateStatus::OPEN) },
    ];
    let threshold = VolumeThreshold { total: Some(1 << 50), ..VolumeThreshold::default() };
    let create_urrs = [CreateUrr {
        volume_threshold: Some(threshold),
        ..CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)
    }];
    let pdrs = [uplink, downlink];
    let request = SessionEstablishmentRequest {
        create_qers: Repeated::from(&create_qers),
        create_urrs: Repeated::from(&create_urrs),
        ..SessionEstablishmentRequest::new(
            NodeId::Ipv4(CP_ADDR),
            FSeid::new(Seid(u64::from(number) + 1), CP_ADDR.into()),
            Repeated::from(&pdrs),
            Repeated::from(&fars),
        )
    };
    encode(out, Some(Seid(0)), sequence, &request)
}

/// Encodes a handover of the session to another gNB TEID.
pub(crate) fn modification(
    out: &mut [u8],
    sequence: u32,
    up_seid: Seid,
    gnb_teid: Teid,
) -> Result<usize, NoRoom> {
    let header = OuterHeaderCreation::gtpu_ipv4(gnb_teid, GNB_ADDR);
    let parameters = UpdateForwardingParameters {
        outer_header_creation: Some(Nullable::Value(header)),
        ..UpdateForwardingParameters::new()
    };
    let fars =
        [UpdateFar { update_forwarding_parameters: Some(parameters), ..UpdateFar::new(FarId(2)) }];
    let request = SessionModificationRequest {
        update_fars: Repeated::from(&fars),
        ..SessionModificationRequest::new()
    };
    encode(out, Some(up_seid), sequence, &request)
}

/// Encodes the deletion of a session.
pub(crate) fn deletion(out: &mut [u8], sequence: u32, up_seid: Seid) -> Result<usize, NoRoom> {
    encode(out, Some(up_seid), sequence, &SessionDeletionRequest::new())
}

/// Encodes PFDs of an application that no session uses.
pub(crate) fn pfd_management(out: &mut [u8]) -> Result<usize, NoRoom> {
    let text = b"permit out 17 from any 53 to assigned";
    let contents = [PfdContents { flow_description: Some(text), ..PfdContents::default() }];
    let contexts = [PfdContext::new(Repeated::from(&contents))];
    let mut application = ApplicationIdsPfds::new(ApplicationId(b"dns"));
    application.pfd_contexts = Repeated::from(&contexts);
    let applications = [application];
    let request = PfdManagementRequest {
        application_ids_pfds: Repeated::from(&applications),
        ..PfdManagementRequest::new()
    };
    encode(out, None, 2, &request)
}

/// Encodes the release of the association.
pub(crate) fn association_release(out: &mut [u8]) -> Result<usize, NoRoom> {
    encode(out, None, 3, &AssociationReleaseRequest::new(NodeId::Ipv4(CP_ADDR)))
}

/// Encodes a Heartbeat Request of the SMF.
pub(crate) fn heartbeat(out: &mut [u8]) -> Result<usize, NoRoom> {
    encode(out, None, 4, &HeartbeatRequest::new(RecoveryTimeStamp(1)))
}

/// Returns the sequence number after `requests` requests: 24 bits; the association uses 1.
pub(crate) const fn sequence(requests: u32) -> u32 {
    (requests + 2) & adit_pfcp::SEQUENCE_MAX
}

/// Returns the TEID that the UP function allocated for a PDR.
pub(crate) fn given_teid(created: &CreatedPdr<'_>) -> Option<Teid> {
    created.local_f_teids.iter().find_map(|f_teid| match f_teid {
        FTeid::Given { teid, .. } => Some(teid),
        FTeid::Choose { .. } => None,
    })
}

/// Returns the IPv4 address of the UE of session `number`.
pub(crate) fn ue_addr(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 64, 0, 0).to_bits() + number)
}
