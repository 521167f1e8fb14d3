//! SMF emulation: the control function of PFCP over a kernel socket.
//!
//! One thread receives: it answers what adit asks and hands responses to the request that waits.
//! Requests are repeated after T1, N1 times. One PDU session is one PFCP session with an uplink
//! and a downlink PDR, a FAR for each, and a QER with the QFI.
//! Spec: TS 29.244 §6.2, §6.3, §6.4, §7.4, §7.5.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_pfcp::grouped::{
    CreateFar, CreatePdr, CreateQer, CreatedPdr, ForwardingParameters, Pdi, UpdateFar,
    UpdateForwardingParameters, UpdateQer,
};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, FSeid, FTeid, GateStatus, Mbr, NodeId, Nullable,
    OuterHeaderCreation, OuterHeaderRemovalDescription, PdnType, RecoveryTimeStamp, SdfFilter,
    SourceInterface, UeIpAddress,
};
use adit_pfcp::message::{
    AssociationSetupRequest, HeartbeatRequest, HeartbeatResponse, NodeReportResponse,
    PfdManagementRequest, SessionDeletionRequest, SessionEstablishmentRequest,
    SessionEstablishmentResponse, SessionModificationRequest, SessionReportResponse,
};
use adit_pfcp::{
    Cause, Message, MessageBody, MessageType, PfcpDatagram, RawMessage, SEQUENCE_MAX, encode,
};
use adit_types::{BitRate, FarId, PdrId, Precedence, QerId, Qfi, Seid, Teid};
use anyhow::{Context, Result, anyhow, bail};

use crate::answer::{accepted, recovery_time_stamp};
use crate::inbox::{Inbox, ReportedUsage};
use adit_lab_process::stop::{POLL, Stop};

/// Time until an unanswered request is sent again.
const T1: Duration = Duration::from_millis(500);
/// How often it is sent again.
const N1: u32 = 5;
const IDLE: Duration = Duration::from_millis(100);
/// Octets of a message that the SMF sends at most.
const MESSAGE_BYTES: usize = 2048;

const UPLINK_PDR: PdrId = PdrId(1);
const DOWNLINK_PDR: PdrId = PdrId(2);
const UPLINK_FAR: FarId = FarId(1);
const DOWNLINK_FAR: FarId = FarId(2);
const QER: QerId = QerId(1);
/// Rules between UE and SMF: a PDR from the SMF by the downlink FAR, and a PDR and a FAR to it.
const FROM_SMF_PDR: PdrId = PdrId(3);
const TO_SMF_PDR: PdrId = PdrId(4);
const TO_SMF_FAR: FarId = FarId(3);
/// CHOOSE ID of the F-TEID that the gNB gets.
const GNB_TUNNEL: u8 = 5;
/// What the SMF wants to hear of a UE.
const SOLICITATIONS: &str = "permit out 58 from ff02::2/128 to assigned";
const PRECEDENCE: Precedence = Precedence(100);
const SMF_PRECEDENCE: Precedence = Precedence(50);

/// What the SMF wants for one UE.
#[derive(Debug, Clone, Copy)]
pub struct PduSession {
    /// The SMF's SEID, not zero.
    pub cp_seid: u64,
    /// The UE's IPv4 address.
    pub ipv4: Ipv4Addr,
    /// An address in the UE's IPv6 prefix, which is a /64.
    pub ipv6: Option<Ipv6Addr>,
    /// Where downlink packets go.
    pub gnb_teid: Teid,
    /// Where router solicitations of the UE go: to the SMF itself, if it is to answer them.
    pub router: Option<(Ipv4Addr, Teid)>,
}

/// What adit gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabSession {
    /// adit's SEID.
    pub up_seid: Seid,
    /// adit's TEID for uplink packets.
    pub uplink_teid: Teid,
    /// adit's TEID of another PDR, if one has a TEID of its own: that from the SMF, if any.
    pub second_teid: Option<Teid>,
    /// The UE's IPv4 address, if adit chose it.
    pub ue_ipv4: Option<Ipv4Addr>,
}

#[derive(Debug)]
struct LabSmfState {
    socket: UdpSocket,
    peer: SocketAddr,
    waiting: Mutex<HashMap<u32, Sender<Vec<u8>>>>,
    sequence: AtomicU32,
    started: RecoveryTimeStamp,
    heartbeats_answered: AtomicU64,
    /// adit's SEIDs by ours: the header of a response to a report carries them.
    up_seids: Mutex<HashMap<Seid, Seid>>,
    node_id: Ipv4Addr,
    inbox: Inbox,
    stop: Stop,
}

/// A running SMF. Dropping it ends its thread.
#[derive(Debug)]
pub struct LabSmf {
    shared: Arc<LabSmfState>,
    thread: Option<JoinHandle<()>>,
    address: Ipv4Addr,
    gnb: Ipv4Addr,
    qfi: Qfi,
}

impl LabSmf {
    /// Starts the thread. `socket` is bound to port 8805 of `address`; `peer` is adit, `gnb` is
    /// where downlink packets go.
    ///
    /// # Errors
    /// The socket or the thread cannot be prepared.
    pub fn start(
        socket: UdpSocket,
        address: Ipv4Addr,
        peer: SocketAddr,
        gnb: Ipv4Addr,
        qfi: Qfi,
    ) -> Result<Self> {
        socket.set_read_timeout(Some(IDLE)).context("receive timeout of the SMF socket")?;
        let shared = Arc::new(LabSmfState {
            socket,
            peer,
            waiting: Mutex::default(),
            sequence: AtomicU32::new(1),
            started: recovery_time_stamp(),
            heartbeats_answered: AtomicU64::new(0),
            up_seids: Mutex::default(),
            node_id: address,
            inbox: Inbox::default(),
            stop: Stop::default(),
        });
        let receiver = Arc::clone(&shared);
        let thread = thread::Builder::new().name("smf".to_owned());
        let thread = thread.spawn(move || receiver.run()).context("thread")?;
        Ok(Self { shared, thread: Some(thread), address, gnb, qfi })
    }

    /// Sets the association up; repeats the request until `timeout`, since adit may be starting.
    /// `watch` is called often and may end the wait.
    ///
    /// # Errors
    /// Those of `watch`; adit refuses, or does not answer in time.
    pub fn associate(&self, timeout: Duration, watch: impl FnMut() -> Result<()>) -> Result<()> {
        let node_id = NodeId::Ipv4(self.address);
        let request = AssociationSetupRequest::new(node_id, self.shared.started);
        let sendings = u32::try_from(timeout.as_millis() / T1.as_millis()).unwrap_or(N1);
        let response = self.request(None, &request, sendings, watch)?;
        match message(&response)? {
            Message::AssociationSetupResponse(response) => {
                accepted("adit", "Association Setup", response.cause, None)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a Heartbeat Request and waits for the response.
    ///
    /// # Errors
    /// Those of `watch`; adit does not answer.
    pub fn heartbeat(&self, watch: impl FnMut() -> Result<()>) -> Result<()> {
        let request = HeartbeatRequest::new(self.shared.started);
        let response = self.request(None, &request, N1 + 1, watch)?;
        match message(&response)? {
            Message::HeartbeatResponse(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// How many of adit's Heartbeat Requests were answered.
    #[must_use]
    pub fn heartbeats_answered(&self) -> u64 {
        self.shared.heartbeats_answered.load(Ordering::Relaxed)
    }

    /// Establishes a PFCP session.
    ///
    /// # Errors
    /// Those of `watch`; adit refuses (with its Cause), does not answer, or leaves out what it had
    /// to choose.
    pub fn establish(
        &self,
        session: &PduSession,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<LabSession> {
        let ue = |destination| UeIpAddress {
            v4: Some(session.ipv4),
            v6: session.ipv6,
            destination,
            ..UeIpAddress::default()
        };
        let (from_ue, to_ue) = ([ue(false)], [ue(true)]);
        let qers = [QER];
        let choose = |choose_id| FTeid::Choose { v4: true, v6: false, choose_id };
        let from_gnb = choose(session.router.map(|_| GNB_TUNNEL));
        let uplink = CreatePdr {
            outer_header_removal: Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into()),
            far_id: Some(UPLINK_FAR),
            qer_ids: (&qers).into(),
            ..CreatePdr::new(
                UPLINK_PDR,
                PRECEDENCE,
                Pdi {
                    local_f_teid: Some(from_gnb),
                    ue_ip_addresses: (&from_ue).into(),
                    ..Pdi::new(SourceInterface::Access)
                },
            )
        };
        let pdi = Pdi { ue_ip_addresses: (&to_ue).into(), ..Pdi::new(SourceInterface::Core) };
        let downlink = CreatePdr {
            far_id: Some(DOWNLINK_FAR),
            qer_ids: (&qers).into(),
            ..CreatePdr::new(DOWNLINK_PDR, PRECEDENCE, pdi)
        };
        let solicitations = [SdfFilter {
            flow_description: Some(SOLICITATIONS.as_bytes()),
            ..SdfFilter::default()
        }];
        let [from_smf, to_smf] = smf_pdrs(choose(None), from_gnb, &solicitations);
        let mut pdrs = vec![uplink, downlink];
        let mut fars = self.fars(session.gnb_teid).to_vec();
        if let Some((addr, teid)) = session.router {
            pdrs.extend([from_smf, to_smf]);
            fars.push(smf_far(addr, teid));
        }
        let qers = [CreateQer { qfi: Some(self.qfi), ..CreateQer::new(QER, GateStatus::OPEN) }];
        let pdn_type = if session.ipv6.is_some() { PdnType::Ipv4v6 } else { PdnType::Ipv4 };
        let request = SessionEstablishmentRequest {
            create_qers: (&qers).into(),
            pdn_type: Some(pdn_type),
            ..SessionEstablishmentRequest::new(
                NodeId::Ipv4(self.address),
                FSeid::new(Seid(session.cp_seid), self.address.into()),
                pdrs.as_slice().into(),
                fars.as_slice().into(),
            )
        };
        self.establish_as(&request, watch)
    }

    /// Establishes a PFCP session with the rules of `request`.
    ///
    /// # Errors
    /// As for [`Self::establish`].
    pub fn establish_as(
        &self,
        request: &SessionEstablishmentRequest<'_>,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<LabSession> {
        let response = self.request(Some(Seid(0)), request, N1 + 1, watch)?;
        match message(&response)? {
            Message::SessionEstablishmentResponse(response) => {
                let established = established(&response)?;
                let mut up_seids = lock(&self.shared.up_seids);
                up_seids.insert(request.cp_f_seid.seid, established.up_seid);
                Ok(established)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// What adit reported.
    #[must_use]
    pub fn inbox(&self) -> &Inbox {
        &self.shared.inbox
    }

    /// The address and Node ID of the SMF.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Where downlink packets go.
    #[must_use]
    pub fn gnb(&self) -> Ipv4Addr {
        self.gnb
    }

    /// The FARs of a session: to the core, and to the gNB.
    fn fars(&self, gnb_teid: Teid) -> [CreateFar<'static>; 2] {
        let forward = |id, parameters| CreateFar {
            forwarding_parameters: Some(parameters),
            ..CreateFar::new(id, ApplyAction::FORW)
        };
        let to_access = ForwardingParameters {
            outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(gnb_teid, self.gnb)),
            ..ForwardingParameters::new(DestinationInterface::Access)
        };
        [
            forward(UPLINK_FAR, ForwardingParameters::new(DestinationInterface::Core)),
            forward(DOWNLINK_FAR, to_access),
        ]
    }

    /// Moves the downlink of a session to another TEID of the gNB. When this returns, adit has
    /// said that its workers use it.
    ///
    /// # Errors
    /// Those of `watch`; adit refuses or does not answer.
    pub fn switch_path(
        &self,
        session: &LabSession,
        gnb_teid: Teid,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let creation = OuterHeaderCreation::gtpu_ipv4(gnb_teid, self.gnb);
        let fars = [UpdateFar {
            update_forwarding_parameters: Some(UpdateForwardingParameters {
                outer_header_creation: Some(Nullable::Value(creation)),
                ..UpdateForwardingParameters::new()
            }),
            ..UpdateFar::new(DOWNLINK_FAR)
        }];
        let request = SessionModificationRequest {
            update_fars: (&fars).into(),
            ..SessionModificationRequest::new()
        };
        self.modify(session, &request, watch)
    }

    /// Gives the QER of a session this maximum bit rate in both directions.
    ///
    /// # Errors
    /// As for [`Self::modify`].
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
        self.modify(session, &request, watch)
    }

    /// Changes the rules of a session. When this returns, adit has said that its workers use them.
    ///
    /// # Errors
    /// Those of `watch`; adit refuses or does not answer.
    pub fn modify(
        &self,
        session: &LabSession,
        request: &SessionModificationRequest<'_>,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let response = self.request(Some(session.up_seid), request, N1 + 1, watch)?;
        match message(&response)? {
            Message::SessionModificationResponse(response) => {
                let offending = response.offending_ie.map(|ie| ie.0);
                accepted("adit", "Session Modification", response.cause, offending)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Provides PFDs of applications.
    ///
    /// # Errors
    /// Those of `watch`; adit refuses or does not answer.
    pub fn manage_pfds(
        &self,
        request: &PfdManagementRequest<'_>,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let response = self.request(None, request, N1 + 1, watch)?;
        match message(&response)? {
            Message::PfdManagementResponse(response) => {
                let offending = response.offending_ie.map(|ie| ie.0);
                accepted("adit", "PFD Management", response.cause, offending)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a session and returns the last usage of its URRs.
    ///
    /// # Errors
    /// Those of `watch`; adit refuses or does not answer.
    pub fn delete(
        &self,
        session: &LabSession,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<Vec<ReportedUsage>> {
        let request = SessionDeletionRequest::new();
        let response = self.request(Some(session.up_seid), &request, N1 + 1, watch)?;
        match message(&response)? {
            Message::SessionDeletionResponse(response) => {
                let offending = response.offending_ie.map(|ie| ie.0);
                accepted("adit", "Session Deletion", response.cause, offending)?;
                Ok(response.usage_reports.iter().map(|report| ReportedUsage::of(&report)).collect())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a request up to `sendings` times, T1 apart, and returns the datagram that answers it.
    fn request<'a, M: MessageBody<'a>>(
        &self,
        seid: Option<Seid>,
        body: &M,
        sendings: u32,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<Vec<u8>> {
        let sequence = self.shared.sequence.fetch_add(1, Ordering::Relaxed) & SEQUENCE_MAX;
        let mut buffer = [0; MESSAGE_BYTES];
        let len = encode(&mut buffer, seid, sequence, body).context("encode a PFCP request")?;
        let datagram = buffer.get(..len).unwrap_or_default();
        let (sender, receiver) = mpsc::channel();
        let _waiting = PendingRequest::new(&self.shared, sequence, sender);
        for _ in 0..sendings {
            // Nobody may listen yet; the answer, or its absence, tells.
            let _ = self.shared.socket.send_to(datagram, self.shared.peer);
            let end = Instant::now() + T1;
            while Instant::now() < end {
                watch()?;
                match receiver.recv_timeout(POLL) {
                    Ok(response) => return Ok(response),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => bail!("the SMF's thread has ended"),
                }
            }
        }
        bail!("adit did not answer a {} within {:?}", M::TYPE, T1 * sendings)
    }
}

impl Drop for LabSmf {
    fn drop(&mut self) {
        self.shared.stop.raise();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("adit-lab: the SMF's thread panicked");
        }
    }
}

/// A place in the list of waiting requests, given up on drop.
struct PendingRequest<'s> {
    shared: &'s LabSmfState,
    sequence: u32,
}

impl<'s> PendingRequest<'s> {
    fn new(shared: &'s LabSmfState, sequence: u32, sender: Sender<Vec<u8>>) -> Self {
        shared.waiting().insert(sequence, sender);
        Self { shared, sequence }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.shared.waiting().remove(&self.sequence);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LabSmfState {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, Sender<Vec<u8>>>> {
        lock(&self.waiting)
    }

    fn run(&self) {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while !self.stop.is_raised() {
            // A timeout is how this thread gets to see the flag; other errors are transient.
            let Ok((len, from)) = self.socket.recv_from(&mut buffer) else { continue };
            let datagram = buffer.get(..len).unwrap_or_default();
            for raw in PfcpDatagram::new(datagram).flatten() {
                if raw.header.message_type.is_request() {
                    self.answer(&raw, datagram, from);
                } else if let Some(sender) = self.waiting().get(&raw.header.sequence) {
                    // The request may have given up meanwhile.
                    let _ = sender.send(datagram.to_vec());
                }
            }
        }
    }

    fn answer(&self, raw: &RawMessage<'_>, datagram: &[u8], from: SocketAddr) {
        let mut buffer = [0; MESSAGE_BYTES];
        let sequence = raw.header.sequence;
        let encoded = match raw.header.message_type {
            MessageType::HEARTBEAT_REQUEST => {
                self.heartbeats_answered.fetch_add(1, Ordering::Relaxed);
                encode(&mut buffer, None, sequence, &HeartbeatResponse::new(self.started))
            }
            MessageType::NODE_REPORT_REQUEST => {
                self.inbox.put(sequence, datagram);
                let node_id = NodeId::Ipv4(self.node_id);
                let response = NodeReportResponse::new(node_id, Cause::RequestAccepted);
                encode(&mut buffer, None, sequence, &response)
            }
            MessageType::SESSION_REPORT_REQUEST => {
                self.inbox.put(sequence, datagram);
                let up_seid =
                    raw.header.seid.and_then(|ours| lock(&self.up_seids).get(&ours).copied());
                let response = SessionReportResponse::new(Cause::RequestAccepted);
                encode(&mut buffer, Some(up_seid.unwrap_or(Seid(0))), sequence, &response)
            }
            _ => return,
        };
        if let Ok(len) = encoded {
            let _ = self.socket.send_to(buffer.get(..len).unwrap_or_default(), from);
        }
    }
}

/// The PDRs between UE and SMF. Spec: TS 29.244 §5.3.
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

/// The FAR to the SMF.
fn smf_far(addr: Ipv4Addr, teid: Teid) -> CreateFar<'static> {
    let parameters = ForwardingParameters {
        outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(teid, addr)),
        ..ForwardingParameters::new(DestinationInterface::CpFunction)
    };
    CreateFar {
        forwarding_parameters: Some(parameters),
        ..CreateFar::new(TO_SMF_FAR, ApplyAction::FORW)
    }
}

/// The message of a response datagram.
fn message(datagram: &[u8]) -> Result<Message<'_>> {
    let raw = PfcpDatagram::new(datagram).next().context("an empty answer")?;
    let raw = raw.map_err(|error| anyhow!("adit's answer has a bad header: {error:?}"))?;
    Message::decode(&raw).map_err(|error| anyhow!("adit's answer is malformed: {error:?}"))
}

fn established(response: &SessionEstablishmentResponse<'_>) -> Result<LabSession> {
    let offending = response.offending_ie.map(|ie| ie.0);
    accepted("adit", "Session Establishment", response.cause, offending)?;
    let up_f_seid = response.up_f_seid.context("adit accepted without an F-SEID")?;
    let teid_of = |pdr: &CreatedPdr<'_>| match pdr.local_f_teids.first() {
        Some(FTeid::Given { teid, .. }) if teid.0 != 0 => Some(teid),
        _ => None,
    };
    let created = || response.created_pdrs.iter();
    let uplink_teid = created()
        .find(|pdr| pdr.pdr_id == UPLINK_PDR)
        .and_then(|pdr| teid_of(&pdr))
        .context("adit accepted without the F-TEID that it had to choose")?;
    Ok(LabSession {
        up_seid: up_f_seid.seid,
        uplink_teid,
        second_teid: created().filter_map(|pdr| teid_of(&pdr)).find(|&teid| teid != uplink_teid),
        ue_ipv4: created().find_map(|pdr| pdr.ue_ip_addresses.first()?.v4),
    })
}

fn unexpected(message: &Message<'_>) -> anyhow::Error {
    anyhow!("adit answered with an unexpected {}", message.message_type())
}

#[cfg(test)]
mod tests {
    use adit_pfcp::ie::FTeidAddress;
    use adit_pfcp::message::AssociationSetupResponse;

    use super::*;

    const CP: Ipv4Addr = Ipv4Addr::LOCALHOST;
    const GNB: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
    const SESSION: PduSession = PduSession {
        cp_seid: 7,
        ipv4: Ipv4Addr::new(10, 45, 0, 2),
        ipv6: Some(Ipv6Addr::new(0x2001, 0xdb8, 0x45, 1, 0, 0, 0, 1)),
        gnb_teid: Teid(0x6e62_0000),
        router: None,
    };

    fn smf() -> (LabSmf, UdpSocket) {
        let upf = UdpSocket::bind("127.0.0.1:0").unwrap();
        upf.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = upf.local_addr().unwrap();
        (LabSmf::start(socket, CP, peer, GNB, Qfi::new(9).unwrap()).unwrap(), upf)
    }

    /// Receives one request in the place of a UPF and answers it with what `respond` writes.
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
                assert!(to_ue.destination && to_ue.v4 == Some(SESSION.ipv4));
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
        let established = smf.establish(&SESSION, || Ok(())).unwrap();
        assert_eq!((established.up_seid, established.uplink_teid), (Seid(0x99), Teid(0x77)));
        assert_eq!((established.second_teid, established.ue_ipv4), (None, None));
        server.join().unwrap();
    }

    #[test]
    fn refusal_names_cause_and_offending_ie() {
        let error = accepted("adit", "Session Establishment", Cause::MandatoryIeMissing, Some(60));
        let text = error.unwrap_err().to_string();
        assert!(text.ends_with("with \"Mandatory IE missing\", offending IE 60"), "{text}");
        let response = SessionEstablishmentResponse::new(NodeId::Ipv4(CP), Cause::RequestAccepted);
        assert!(established(&response).is_err(), "accepted, yet without F-SEID and F-TEID");
    }

    #[test]
    fn heartbeat_of_the_peer_is_answered_and_counted() {
        let (smf, upf) = smf();
        let mut buffer = [0; 100];
        let request = HeartbeatRequest::new(RecoveryTimeStamp(1));
        let len = encode(&mut buffer, None, 5, &request).unwrap();
        upf.send_to(&buffer[..len], smf.shared.socket.local_addr().unwrap()).unwrap();
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
