//! The PFCP messages that the SMF sends.

use std::net::Ipv4Addr;

use adit_lab_smf::identity::SmfIdentity;
use adit_lab_smf::rules::{FlowPdr, LabSessionRules, forward};
use adit_pfcp::grouped::{
    CreateQer, CreateUrr, ForwardingParameters, UpdateFar, UpdateForwardingParameters,
};
use adit_pfcp::ie::{
    DestinationInterface, FTeid, GateStatus, MeasurementMethod, Nullable, OuterHeaderCreation,
    ReportingTriggers, UeIpAddress, VolumeThreshold,
};
use adit_pfcp::message::SessionModificationRequest;
use adit_pfcp::{MessageBody, encode};
use adit_types::{FarId, PdrId, QerId, Qfi, Seid, Teid, UrrId};

use crate::faults::addresses::{GNB, SMF};

pub(crate) const QFI: u8 = 9;
/// The FAR for packets to the gNB.
pub(crate) const DOWNLINK_FAR: u16 = 2;
/// Volume threshold of the URR. Unit: octets.
const THRESHOLD: u64 = 4096;
const MESSAGE_LEN_MAX: usize = 2048;

/// Encodes a message as a datagram; empty if it does not fit, which cannot happen here.
pub(crate) fn datagram<'a, M: MessageBody<'a>>(
    seid: Option<Seid>,
    sequence: u32,
    body: &M,
) -> Vec<u8> {
    let mut octets = vec![0; MESSAGE_LEN_MAX];
    let len = encode(&mut octets, seid, sequence, body).unwrap_or(0);
    octets.truncate(len);
    octets
}

/// Returns the identity of the SMF.
pub(crate) fn identity() -> SmfIdentity {
    SmfIdentity { address: SMF.into(), name: None }
}

/// The parameters of a session that the SMF determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestedSession {
    pub cp_seid: Seid,
    /// The UE's address; `None` if the UPF should choose it.
    pub ue: Option<Ipv4Addr>,
    /// The gNB's TEID.
    pub teid: Teid,
}

/// Encodes a Session Establishment Request with both directions, a QER, and a URR that reports
/// volume.
pub(crate) fn establishment(sequence: u32, wish: &RequestedSession) -> Vec<u8> {
    let downlink = FarId(DOWNLINK_FAR.into());
    let to_gnb = ForwardingParameters {
        outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(wish.teid, GNB)),
        ..ForwardingParameters::new(DestinationInterface::Access)
    };
    let fars = [
        forward(FarId(1), ForwardingParameters::new(DestinationInterface::Core)),
        forward(downlink, to_gnb),
    ];
    let threshold = VolumeThreshold { total: Some(THRESHOLD), ..VolumeThreshold::default() };
    let urrs = [CreateUrr {
        volume_threshold: Some(threshold),
        ..CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)
    }];
    let qers = [CreateQer { qfi: Qfi::new(QFI), ..CreateQer::new(QerId(1), GateStatus::OPEN) }];
    let ue = UeIpAddress { v4: wish.ue, choose_v4: wish.ue.is_none(), ..UeIpAddress::default() };
    let rules = LabSessionRules {
        cp_seid: wish.cp_seid,
        f_teid: FTeid::Choose { v4: true, v6: false, choose_id: None },
        ue,
        framed_routes: &[],
        network_instances: [None; 2],
        uplinks: &[FlowPdr::all_traffic(PdrId(1), 100, FarId(1))],
        downlinks: &[FlowPdr::all_traffic(PdrId(2), 100, downlink)],
        more_pdrs: &[],
        fars: &fars,
        qers: &qers,
        urrs: &urrs,
        bars: &[],
        inactivity: None,
    };
    rules.with_request(&identity(), |request| datagram(Some(Seid(0)), sequence, request))
}

/// Encodes a Session Modification Request that moves the downlink to another tunnel, as in a
/// handover.
pub(crate) fn handover(sequence: u32, up_seid: Seid, teid: Teid) -> Vec<u8> {
    let fars = [UpdateFar {
        update_forwarding_parameters: Some(UpdateForwardingParameters {
            outer_header_creation: Some(Nullable::Value(OuterHeaderCreation::gtpu_ipv4(teid, GNB))),
            ..UpdateForwardingParameters::new()
        }),
        ..UpdateFar::new(FarId(DOWNLINK_FAR.into()))
    }];
    let body = SessionModificationRequest {
        update_fars: (&fars).into(),
        ..SessionModificationRequest::new()
    };
    datagram(Some(up_seid), sequence, &body)
}
