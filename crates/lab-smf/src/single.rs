//! Procedures for single sessions, for the demo and the scenarios.

use std::net::{Ipv4Addr, Ipv6Addr};

use adit_pfcp::Message;
use adit_pfcp::grouped::{
    CreateFar, CreatePdr, CreateQer, CreatedPdr, ForwardingParameters, Pdi, UpdateFar,
    UpdateForwardingParameters, UpdateQer,
};
use adit_pfcp::ie::{
    DestinationInterface, FTeid, GateStatus, Mbr, Nullable, OuterHeaderCreation,
    OuterHeaderRemovalDescription, SdfFilter, SourceInterface, UeIpAddress,
};
use adit_pfcp::message::{
    PfdManagementRequest, SessionDeletionRequest, SessionEstablishmentResponse,
    SessionModificationRequest,
};
use adit_types::{BitRate, FarId, PdrId, Precedence, QerId, Qfi, Seid, Teid};
use anyhow::{Context, Result};

use crate::answer::{check_cause, unexpected_answer};
use crate::inbox::ReportedUsage;
use crate::rules::{FlowPdr, LabSessionRules, forward};
use crate::smf::{LabSmf, message};

/// The first uplink PDR of a session; it has the F-TEID.
pub const UPLINK_PDR: PdrId = PdrId(1);
/// The FAR to the core.
pub const UPLINK_FAR: FarId = FarId(1);
/// The FAR to the gNB.
pub const DOWNLINK_FAR: FarId = FarId(2);
/// The QER of both directions.
pub const QER: QerId = QerId(1);

const DOWNLINK_PDR: PdrId = PdrId(2);
/// PDR for packets from the SMF to the UE, which uses the downlink FAR. The next two are the PDR
/// and the FAR for packets from the UE to the SMF.
const FROM_SMF_PDR: PdrId = PdrId(3);
const TO_SMF_PDR: PdrId = PdrId(4);
const TO_SMF_FAR: FarId = FarId(3);
/// CHOOSE ID of the F-TEID for the gNB.
const GNB_CHOOSE_ID: u8 = 5;
/// Flow description of a UE's packets to the SMF: Router Solicitations.
const SOLICITATION_FLOW: &str = "permit out 58 from ff02::2/128 to assigned";
const PRECEDENCE: u32 = 100;
const SMF_PRECEDENCE: Precedence = Precedence(50);

/// The PDU session of one UE: an uplink and a downlink PDR, a FAR for each, and a QER with the QFI.
#[derive(Debug, Clone, Copy)]
pub struct PduSession {
    /// The SMF's SEID, not zero.
    pub cp_seid: u64,
    /// The UE's IPv4 address.
    pub ipv4: Ipv4Addr,
    /// An address in the UE's IPv6 prefix, which is a /64.
    pub ipv6: Option<Ipv6Addr>,
    /// The gNB to which downlink packets go.
    pub gnb: Ipv4Addr,
    /// TEID of the gNB.
    pub gnb_teid: Teid,
    /// The QFI of both directions.
    pub qfi: Qfi,
    /// The SMF's tunnel endpoint, if it answers Router Solicitations of the UE.
    pub router: Option<(Ipv4Addr, Teid)>,
}

/// Identifiers and addresses that the UPF allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabSession {
    /// The UPF's SEID.
    pub up_seid: Seid,
    /// The UPF's TEID for uplink packets.
    pub uplink_teid: Teid,
    /// First TEID of the UPF that differs from `uplink_teid`, such as that of the PDR from the SMF.
    pub second_teid: Option<Teid>,
    /// The UE's IPv4 address, if the UPF chose it.
    pub ue_ipv4: Option<Ipv4Addr>,
}

impl LabSmf {
    /// Establishes the session of a UE.
    ///
    /// # Errors
    /// See [`Self::establish_session`].
    pub fn establish_pdu_session(
        &self,
        session: &PduSession,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<LabSession> {
        let choose = |choose_id| FTeid::Choose { v4: true, v6: false, choose_id };
        let from_gnb = choose(session.router.map(|_| GNB_CHOOSE_ID));
        let to_gnb = ForwardingParameters {
            outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(
                session.gnb_teid,
                session.gnb,
            )),
            ..ForwardingParameters::new(DestinationInterface::Access)
        };
        let mut fars = vec![
            forward(UPLINK_FAR, ForwardingParameters::new(DestinationInterface::Core)),
            forward(DOWNLINK_FAR, to_gnb),
        ];
        let solicitations = [SdfFilter::from_flow_description(SOLICITATION_FLOW)];
        let smf_pdrs = smf_pdrs(choose(None), from_gnb, &solicitations);
        if let Some((addr, teid)) = session.router {
            fars.push(smf_far(addr, teid));
        }
        let rules = LabSessionRules {
            cp_seid: Seid(session.cp_seid),
            f_teid: from_gnb,
            ue: UeIpAddress { v4: Some(session.ipv4), v6: session.ipv6, ..UeIpAddress::default() },
            framed_routes: &[],
            network_instances: [None; 2],
            uplinks: &[FlowPdr::all_traffic(UPLINK_PDR, PRECEDENCE, UPLINK_FAR)],
            downlinks: &[FlowPdr::all_traffic(DOWNLINK_PDR, PRECEDENCE, DOWNLINK_FAR)],
            more_pdrs: if session.router.is_some() { &smf_pdrs } else { &[] },
            fars: &fars,
            qers: &[CreateQer { qfi: Some(session.qfi), ..CreateQer::new(QER, GateStatus::OPEN) }],
            urrs: &[],
            bars: &[],
            inactivity: None,
        };
        self.establish_session(&rules, watch)
    }

    /// Establishes a session with these rules.
    ///
    /// # Errors
    /// `watch` fails; the UPF refuses (the error has its Cause), does not answer, or omits an
    /// identifier that it had to allocate.
    pub fn establish_session(
        &self,
        rules: &LabSessionRules<'_>,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<LabSession> {
        let response = rules
            .with_request(self.identity(), |request| self.request(Some(Seid(0)), request, watch))?;
        match message(&response)? {
            Message::SessionEstablishmentResponse(response) => {
                let session = lab_session(&response)?;
                self.state.set_up_seid(rules.cp_seid, session.up_seid);
                Ok(session)
            }
            other => Err(unexpected_answer(&other)),
        }
    }

    /// Moves the downlink of a session to another tunnel. When this returns, the UPF's workers use
    /// it.
    ///
    /// # Errors
    /// See [`Self::modify_session`].
    pub fn switch_path(
        &self,
        session: &LabSession,
        tunnel: OuterHeaderCreation,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let fars = [UpdateFar {
            update_forwarding_parameters: Some(UpdateForwardingParameters {
                outer_header_creation: Some(Nullable::Value(tunnel)),
                ..UpdateForwardingParameters::new()
            }),
            ..UpdateFar::new(DOWNLINK_FAR)
        }];
        let request = SessionModificationRequest {
            update_fars: (&fars).into(),
            ..SessionModificationRequest::new()
        };
        self.modify_session(session, &request, watch)
    }

    /// Sets the maximum bit rate of a session's QER in both directions.
    ///
    /// # Errors
    /// See [`Self::modify_session`].
    pub fn limit_rate(
        &self,
        session: &LabSession,
        rate: BitRate,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let qers = [UpdateQer { mbr: Some(Mbr::new(rate, rate)), ..UpdateQer::new(QER) }];
        let request = SessionModificationRequest {
            update_qers: (&qers).into(),
            ..SessionModificationRequest::new()
        };
        self.modify_session(session, &request, watch)
    }

    /// Changes the rules of a session. When this returns, the UPF's workers use them.
    ///
    /// # Errors
    /// `watch` fails; the UPF refuses or does not answer.
    pub fn modify_session(
        &self,
        session: &LabSession,
        request: &SessionModificationRequest<'_>,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let response = self.request(Some(session.up_seid), request, watch)?;
        match message(&response)? {
            Message::SessionModificationResponse(response) => {
                let offending = response.offending_ie.map(|ie| ie.0);
                check_cause("Session Modification", response.cause, offending)
            }
            other => Err(unexpected_answer(&other)),
        }
    }

    /// Provisions PFDs of applications.
    ///
    /// # Errors
    /// See [`Self::modify_session`].
    pub fn manage_pfds(
        &self,
        request: &PfdManagementRequest<'_>,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let response = self.request(None, request, watch)?;
        match message(&response)? {
            Message::PfdManagementResponse(response) => {
                let offending = response.offending_ie.map(|ie| ie.0);
                check_cause("PFD Management", response.cause, offending)
            }
            other => Err(unexpected_answer(&other)),
        }
    }

    /// Deletes a session and returns the final usage reports of its URRs.
    ///
    /// # Errors
    /// See [`Self::modify_session`].
    pub fn delete_session(
        &self,
        session: &LabSession,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<Vec<ReportedUsage>> {
        let request = SessionDeletionRequest::new();
        let response = self.request(Some(session.up_seid), &request, watch)?;
        match message(&response)? {
            Message::SessionDeletionResponse(response) => {
                let offending = response.offending_ie.map(|ie| ie.0);
                check_cause("Session Deletion", response.cause, offending)?;
                Ok(response.usage_reports.iter().map(|report| ReportedUsage::of(&report)).collect())
            }
            other => Err(unexpected_answer(&other)),
        }
    }
}

/// Makes the PDRs between UE and SMF. Spec: TS 29.244 §5.3.
fn smf_pdrs<'a>(
    own: FTeid,
    from_gnb: FTeid,
    solicitations: &'a [SdfFilter<'a>],
) -> [CreatePdr<'a>; 2] {
    let pdr = |id, far, pdi| CreatePdr {
        outer_header_removal: Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into()),
        far_id: Some(far),
        ..CreatePdr::new(id, SMF_PRECEDENCE, pdi)
    };
    let from_smf = Pdi { local_f_teid: Some(own), ..Pdi::new(SourceInterface::CpFunction) };
    let to_smf = Pdi {
        local_f_teid: Some(from_gnb),
        sdf_filters: solicitations.into(),
        ..Pdi::new(SourceInterface::Access)
    };
    [pdr(FROM_SMF_PDR, DOWNLINK_FAR, from_smf), pdr(TO_SMF_PDR, TO_SMF_FAR, to_smf)]
}

/// Makes the FAR to the SMF.
fn smf_far(addr: Ipv4Addr, teid: Teid) -> CreateFar<'static> {
    let parameters = ForwardingParameters {
        outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(teid, addr)),
        ..ForwardingParameters::new(DestinationInterface::CpFunction)
    };
    forward(TO_SMF_FAR, parameters)
}

fn lab_session(response: &SessionEstablishmentResponse<'_>) -> Result<LabSession> {
    let offending = response.offending_ie.map(|ie| ie.0);
    check_cause("Session Establishment", response.cause, offending)?;
    let up_f_seid = response.up_f_seid.context("the UPF accepted but sent no F-SEID")?;
    let teid_of = |pdr: &CreatedPdr<'_>| match pdr.local_f_teids.first() {
        Some(FTeid::Given { teid, .. }) if teid.0 != 0 => Some(teid),
        _ => None,
    };
    let created = || response.created_pdrs.iter();
    let uplink_teid = created()
        .find(|pdr| pdr.pdr_id == UPLINK_PDR)
        .and_then(|pdr| teid_of(&pdr))
        .context("the UPF accepted but sent no F-TEID, which it had to allocate")?;
    Ok(LabSession {
        up_seid: up_f_seid.seid,
        uplink_teid,
        second_teid: created().filter_map(|pdr| teid_of(&pdr)).find(|&teid| teid != uplink_teid),
        ue_ipv4: created().find_map(|pdr| pdr.ue_ip_addresses.first()?.v4),
    })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;
    use std::time::Duration;

    use adit_pfcp::ie::{FSeid, FTeidAddress, NodeId, RecoveryTimeStamp};
    use adit_pfcp::message::{AssociationSetupResponse, HeartbeatRequest};
    use adit_pfcp::{Cause, MessageType, PfcpDatagram, RawMessage, encode};
    use anyhow::bail;

    use crate::SmfOptions;
    use crate::identity::SmfIdentity;

    use super::*;

    const CP: Ipv4Addr = Ipv4Addr::LOCALHOST;
    const MESSAGE_BYTES: usize = 2048;

    fn session() -> PduSession {
        PduSession {
            cp_seid: 7,
            ipv4: Ipv4Addr::new(10, 45, 0, 2),
            ipv6: Some(Ipv6Addr::new(0x2001, 0xdb8, 0x45, 1, 0, 0, 0, 1)),
            gnb: Ipv4Addr::new(10, 0, 3, 1),
            gnb_teid: Teid(0x6e62_0000),
            qfi: Qfi::new(9).unwrap(),
            router: None,
        }
    }

    fn smf() -> (LabSmf, UdpSocket) {
        let upf = UdpSocket::bind("127.0.0.1:0").unwrap();
        upf.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = upf.local_addr().unwrap();
        let identity = SmfIdentity { address: CP.into(), name: None };
        let options = SmfOptions { window: 1, rate: None, keeps_reports: true };
        (LabSmf::start(socket, peer, identity, options).unwrap(), upf)
    }

    /// Receives one request in place of a UPF and answers it with what `respond` writes.
    fn serve(
        upf: &UdpSocket,
        respond: impl FnOnce(&Message<'_>, &RawMessage<'_>, &mut [u8]) -> usize,
    ) {
        let mut buffer = [0; MESSAGE_BYTES];
        let (len, from) = upf.recv_from(&mut buffer).unwrap();
        let raw = PfcpDatagram::new(&buffer[..len]).next().unwrap().unwrap();
        let mut answer = [0; MESSAGE_BYTES];
        let len = respond(&Message::decode(&raw).unwrap(), &raw, &mut answer);
        upf.send_to(&answer[..len], from).unwrap();
    }

    #[test]
    fn association_request_is_repeated_until_it_is_answered() {
        let (smf, upf) = smf();
        let server = thread::spawn(move || {
            let mut lost = [0; MESSAGE_BYTES];
            upf.recv_from(&mut lost).unwrap();
            serve(&upf, |_, raw, out| {
                let cause = Cause::RequestAccepted;
                let node_id = NodeId::Ipv4(CP);
                let body = AssociationSetupResponse::new(node_id, cause, RecoveryTimeStamp(1));
                encode(out, None, raw.header.sequence, &body).unwrap()
            });
        });
        smf.associate(Duration::from_secs(5), || Ok(())).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn establishment_asks_for_both_directions_and_returns_the_chosen_teid() {
        let (smf, upf) = smf();
        let server = thread::spawn(move || {
            serve(&upf, |message, raw, out| {
                assert_eq!(raw.header.seid, Some(Seid(0)));
                let Message::SessionEstablishmentRequest(request) = message else { panic!() };
                assert_eq!(request.cp_f_seid.seid, Seid(7));
                let [uplink, downlink] = request.create_pdrs.iter().collect::<Vec<_>>()[..] else {
                    panic!("two PDRs")
                };
                assert!(matches!(uplink.pdi.local_f_teid, Some(FTeid::Choose { v4: true, .. })));
                let to_ue = downlink.pdi.ue_ip_addresses.first().unwrap();
                assert!(to_ue.destination && to_ue.v4 == Some(session().ipv4));
                assert_eq!(request.create_qers.first().unwrap().qfi, Qfi::new(9));
                let f_teid = FTeid::Given { teid: Teid(0x77), addr: FTeidAddress::V4(CP) };
                let f_teids = [f_teid];
                let created = [CreatedPdr {
                    local_f_teids: (&f_teids).into(),
                    ..CreatedPdr::new(UPLINK_PDR)
                }];
                let body = SessionEstablishmentResponse {
                    up_f_seid: Some(FSeid::new(Seid(0x99), CP.into())),
                    created_pdrs: (&created).into(),
                    ..SessionEstablishmentResponse::new(NodeId::Ipv4(CP), Cause::RequestAccepted)
                };
                encode(out, Some(Seid(7)), raw.header.sequence, &body).unwrap()
            });
        });
        let established = smf.establish_pdu_session(&session(), || Ok(())).unwrap();
        assert_eq!((established.up_seid, established.uplink_teid), (Seid(0x99), Teid(0x77)));
        assert_eq!((established.second_teid, established.ue_ipv4), (None, None));
        server.join().unwrap();
    }

    #[test]
    fn refusal_names_cause_and_offending_ie() {
        let error = check_cause("Session Establishment", Cause::MandatoryIeMissing, Some(60));
        let text = error.unwrap_err().to_string();
        assert!(text.ends_with("with \"Mandatory IE missing\", offending IE 60"), "{text}");
        let response = SessionEstablishmentResponse::new(NodeId::Ipv4(CP), Cause::RequestAccepted);
        assert!(lab_session(&response).is_err(), "accepted, yet without F-SEID and F-TEID");
    }

    #[test]
    fn heartbeat_of_the_peer_is_answered_and_counted() {
        let (smf, upf) = smf();
        let mut buffer = [0; 100];
        let request = HeartbeatRequest::new(RecoveryTimeStamp(1));
        let len = encode(&mut buffer, None, 5, &request).unwrap();
        upf.send_to(&buffer[..len], smf.state.socket.local_addr().unwrap()).unwrap();
        let (len, _) = upf.recv_from(&mut buffer).unwrap();
        let raw = PfcpDatagram::new(&buffer[..len]).next().unwrap().unwrap();
        assert_eq!(raw.header.sequence, 5);
        assert_eq!(raw.header.message_type, MessageType::HEARTBEAT_RESPONSE);
        assert_eq!(smf.heartbeats_answered(), 1);
    }

    #[test]
    fn watch_ends_a_request_that_nobody_answers() {
        let (smf, _upf) = smf();
        let error = smf.heartbeat(|| bail!("adit ended")).unwrap_err();
        assert_eq!(error.to_string(), "adit ended");
    }
}
