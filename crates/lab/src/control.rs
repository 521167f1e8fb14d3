//! The control engine: PFCP as an SMF for any number of sessions, with a window of requests in
//! flight.
//!
//! It asks for nothing that a UPF may lack: TEIDs and UE addresses are given unless told otherwise,
//! and rules are those of a plain PDU session. Heartbeats and reports of the peer are answered also
//! between procedures.
//! Spec: TS 29.244 §6.2, §6.3, §6.4, §7.4, §7.5.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use adit_pfcp::grouped::{CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, FSeid, FTeid, FTeidAddress, GateStatus, MeasurementMethod,
    NetworkInstance, NodeId, OuterHeaderCreation, OuterHeaderRemovalDescription, PdnType,
    RecoveryTimeStamp, ReportingTriggers, SourceInterface, UeIpAddress, VolumeThreshold,
};
use adit_pfcp::message::{
    AssociationSetupRequest, HeartbeatResponse, SessionDeletionRequest,
    SessionEstablishmentRequest, SessionReportResponse,
};
use adit_pfcp::{Cause, Datagram, Message, MessageType, RawMessage, SEQUENCE_MAX, encode};
use adit_types::{FarId, PdrId, Precedence, QerId, Qfi, Seid, Teid, UrrId};
use anyhow::{Context, Result, anyhow, bail};
use rustix::net::sockopt;

use crate::engine::frame::Endpoints;
use crate::engine::histogram::{Latency, LatencySummary};
use crate::stop::{Stop, environment};

/// Time until an unanswered request is sent again, and how often it is.
const T1: Duration = Duration::from_secs(1);
const N1: u32 = 4;
/// How long one look at the socket waits.
const LOOK: Duration = Duration::from_millis(2);
/// Octets of a message at most.
const MESSAGE_BYTES: usize = 2048;
/// Socket buffer: a window of answers and more.
const SOCKET_BYTES: usize = 8 << 20;
/// Seconds from 1900-01-01 to 1970-01-01.
const NTP_OFFSET_S: u64 = 2_208_988_800;
/// A volume threshold that nobody reaches: the URR measures and never reports.
const NEVER_BYTES: u64 = 1 << 60;

const UPLINK_PDR: PdrId = PdrId(1);
const DOWNLINK_PDR: PdrId = PdrId(2);
const UPLINK_FAR: FarId = FarId(1);
const DOWNLINK_FAR: FarId = FarId(2);
const QER: QerId = QerId(1);
const URR: UrrId = UrrId(1);
const PRECEDENCE: Precedence = Precedence(255);

/// Who chooses the uplink TEIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teids {
    /// We do: session *k* has the *k*-th after this.
    Given(u32),
    /// The UPF does.
    Chosen,
}

/// The rules of each session: an uplink and a downlink PDR with a FAR each, and these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Profile {
    /// A QER with open gates and this QFI, which makes the UPF write a PDU Session Container.
    pub qfi: Option<Qfi>,
    /// A URR that measures volume.
    pub urr: bool,
}

/// What is wanted of all sessions.
#[derive(Debug, Clone)]
pub struct SessionsConfig {
    /// How many.
    pub count: u32,
    /// UE addresses.
    pub endpoints: Endpoints,
    /// The UEs have an IPv6 prefix instead of an IPv4 address.
    pub ipv6: bool,
    /// gNB addresses; session *k* is at gNB *k* modulo their number.
    pub gnbs: Vec<Ipv4Addr>,
    /// TEID of session 0 at its gNB; session *k* has the *k*-th after it.
    pub gnb_teid: u32,
    /// GTP-U address of the UPF.
    pub upf: Ipv4Addr,
    /// Who chooses the uplink TEIDs.
    pub teids: Teids,
    /// The rules.
    pub profile: Profile,
    /// Network instances of the access and the core side, where the UPF wants them.
    pub network_instances: [Option<String>; 2],
}

/// What a UPF gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sessions {
    /// The UPF's SEIDs.
    pub up_seids: Vec<u64>,
    /// Uplink TEIDs.
    pub uplink_teids: Vec<u32>,
}

/// A run of one procedure over all sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcedureReport {
    /// Sessions.
    pub count: u64,
    /// From the first request to the last answer. Unit: ns.
    pub duration_ns: u64,
    /// Procedures per second.
    pub per_second: u64,
    /// Requests that had to be sent again.
    pub retransmissions: u64,
    /// From the first sending of a request to its answer.
    pub latency: LatencySummary,
}

/// The association with one UPF.
#[derive(Debug)]
pub struct Control {
    socket: UdpSocket,
    peer: SocketAddr,
    node_id: Ipv4Addr,
    window: usize,
    sequence: u32,
    started: RecoveryTimeStamp,
    up_seids: Arc<Vec<u64>>,
    answering: Option<(Stop, JoinHandle<()>)>,
}

struct InFlight {
    index: u32,
    datagram: Vec<u8>,
    first: Instant,
    last: Instant,
    sendings: u32,
}

/// What the pump is asked to do for each session.
trait Procedure {
    fn encode(&self, index: u32, sequence: u32, out: &mut [u8]) -> Result<usize>;
    fn answered(&mut self, index: u32, message: &Message<'_>) -> Result<()>;
}

impl Control {
    /// Binds `local`; nothing is sent yet. At most `window` requests will be in flight.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn bind(local: SocketAddr, peer: SocketAddr, window: usize) -> Result<Self> {
        let socket = UdpSocket::bind(local).map_err(|error| {
            environment(format!("the SMF cannot use {local}: {error} (--smf ADDRESS:PORT)"))
        })?;
        // Best effort: a smaller buffer costs retransmissions.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES);
        socket.set_read_timeout(Some(LOOK)).context("receive timeout of the SMF socket")?;
        let SocketAddr::V4(v4) = local else { bail!("the SMF needs an IPv4 address") };
        Ok(Self {
            socket,
            peer,
            node_id: *v4.ip(),
            window: window.max(1),
            sequence: 1,
            started: now(),
            up_seids: Arc::default(),
            answering: None,
        })
    }

    /// Sets the association up; the UPF may still be starting.
    ///
    /// # Errors
    /// Those of `watch`; no answer within `timeout`; refused, with its Cause.
    pub fn associate(
        &mut self,
        timeout: Duration,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let request = AssociationSetupRequest::new(NodeId::Ipv4(self.node_id), self.started);
        let mut out = [0; MESSAGE_BYTES];
        let sequence = self.next_sequence();
        let len = encode(&mut out, None, sequence, &request).context("encode a request")?;
        let end = Instant::now() + timeout;
        let mut again = Instant::now();
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while Instant::now() < end {
            watch()?;
            if Instant::now() >= again {
                // Nobody may listen yet; the answer, or its absence, tells.
                let _ = self.socket.send_to(out.get(..len).unwrap_or_default(), self.peer);
                again = Instant::now() + T1 / 4;
            }
            let Some(datagram) = receive(&self.socket, &mut buffer) else { continue };
            for raw in Datagram::new(datagram).flatten() {
                if raw.header.message_type.is_request() {
                    self.answer(&raw);
                } else if let Ok(Message::AssociationSetupResponse(response)) =
                    Message::decode(&raw)
                {
                    return accepted("Association Setup", response.cause, None);
                }
            }
        }
        bail!(
            "the UPF at {} did not answer an Association Setup Request within {timeout:?}",
            self.peer
        )
    }

    /// Establishes all sessions. Returns what the UPF gave, and how long it took.
    ///
    /// # Errors
    /// Those of `watch`; a refusal, with its Cause; a request that stayed unanswered.
    pub fn establish(
        &mut self,
        config: &SessionsConfig,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<(Sessions, ProcedureReport)> {
        let count = usize::try_from(config.count).unwrap_or(usize::MAX);
        let sessions = Sessions { up_seids: vec![0; count], uplink_teids: vec![0; count] };
        let mut procedure = Establishment { config, node_id: self.node_id, sessions };
        let report = self.pump(config.count, &mut procedure, watch)?;
        let sessions = procedure.sessions;
        self.up_seids = Arc::new(sessions.up_seids.clone());
        Ok((sessions, report))
    }

    /// Deletes all sessions.
    ///
    /// # Errors
    /// As for [`Self::establish`].
    pub fn delete(&mut self, watch: impl FnMut() -> Result<()>) -> Result<ProcedureReport> {
        let up_seids = Arc::clone(&self.up_seids);
        let count = u32::try_from(up_seids.len()).unwrap_or(u32::MAX);
        self.pump(count, &mut Deletion { up_seids: &up_seids }, watch)
    }

    /// Answers the peer's requests on a thread of its own until the next procedure, or drop.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn answer_in_background(&mut self) -> Result<()> {
        let stop = Stop::default();
        let answerer = Self {
            socket: self.socket.try_clone().context("duplicate the SMF socket")?,
            peer: self.peer,
            node_id: self.node_id,
            window: 1,
            sequence: 0,
            started: self.started,
            up_seids: Arc::clone(&self.up_seids),
            answering: None,
        };
        // Seldom awake, since the tester may share its core.
        self.socket.set_read_timeout(Some(T1 / 4)).context("receive timeout of the SMF socket")?;
        let until = stop.clone();
        let thread = thread::Builder::new().name("smf".to_owned()).spawn(move || {
            let mut buffer = vec![0; usize::from(u16::MAX)];
            while !until.is_raised() {
                let Some(datagram) = receive(&answerer.socket, &mut buffer) else { continue };
                for raw in Datagram::new(datagram).flatten() {
                    if raw.header.message_type.is_request() {
                        answerer.answer(&raw);
                    }
                }
            }
        });
        self.answering = Some((stop, thread.context("thread")?));
        Ok(())
    }

    fn stop_answering(&mut self) {
        if let Some((stop, thread)) = self.answering.take() {
            stop.raise();
            if thread.join().is_err() {
                eprintln!("adit-lab: the SMF's thread panicked");
            }
        }
    }

    fn next_sequence(&mut self) -> u32 {
        let sequence = self.sequence;
        self.sequence = if sequence == SEQUENCE_MAX { 1 } else { sequence + 1 };
        sequence
    }

    /// Runs a procedure for the sessions 0 to `count - 1`.
    fn pump(
        &mut self,
        count: u32,
        procedure: &mut dyn Procedure,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<ProcedureReport> {
        self.stop_answering();
        self.socket.set_read_timeout(Some(LOOK)).context("receive timeout of the SMF socket")?;
        let mut in_flight: HashMap<u32, InFlight> = HashMap::with_capacity(self.window);
        let mut latency = Latency::new();
        let (mut next, mut done, mut retransmissions) = (0, 0, 0);
        let (start, mut looked) = (Instant::now(), Instant::now());
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while done < count {
            while next < count && in_flight.len() < self.window {
                let sequence = self.next_sequence();
                let mut datagram = vec![0; MESSAGE_BYTES];
                let len = procedure.encode(next, sequence, &mut datagram)?;
                datagram.truncate(len);
                let now = Instant::now();
                // A full socket buffer is repaired by the retransmission.
                let _ = self.socket.send_to(&datagram, self.peer);
                let request =
                    InFlight { index: next, datagram, first: now, last: now, sendings: 1 };
                in_flight.insert(sequence, request);
                next += 1;
            }
            if let Some(datagram) = receive(&self.socket, &mut buffer) {
                for raw in Datagram::new(datagram).flatten() {
                    if raw.header.message_type.is_request() {
                        self.answer(&raw);
                        continue;
                    }
                    let Some(request) = in_flight.remove(&raw.header.sequence) else { continue };
                    let message = Message::decode(&raw)
                        .map_err(|error| anyhow!("the UPF's answer is malformed: {error:?}"))?;
                    procedure.answered(request.index, &message)?;
                    let ns = request.first.elapsed().as_nanos() >> 2;
                    latency.record(u32::try_from(ns).unwrap_or(u32::MAX));
                    done += 1;
                }
            }
            if looked.elapsed() >= LOOK {
                watch()?;
                retransmissions += self.retransmit(&mut in_flight)?;
                looked = Instant::now();
            }
        }
        let duration_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
        let count = u64::from(count);
        let per_second = crate::engine::clock::scaled(count, 1_000_000_000, duration_ns);
        let latency = latency.summary(1_000_000_000);
        Ok(ProcedureReport { count, duration_ns, per_second, retransmissions, latency })
    }

    fn retransmit(&self, in_flight: &mut HashMap<u32, InFlight>) -> Result<u64> {
        let mut count = 0;
        for request in in_flight.values_mut().filter(|request| request.last.elapsed() >= T1) {
            if request.sendings > N1 {
                bail!(
                    "the UPF at {} left the request of session {} unanswered {} times",
                    self.peer,
                    request.index,
                    request.sendings
                );
            }
            let _ = self.socket.send_to(&request.datagram, self.peer);
            request.last = Instant::now();
            request.sendings += 1;
            count += 1;
        }
        Ok(count)
    }

    /// Answers a request of the peer.
    fn answer(&self, raw: &RawMessage<'_>) {
        let mut out = [0; MESSAGE_BYTES];
        let sequence = raw.header.sequence;
        let encoded = match raw.header.message_type {
            MessageType::HEARTBEAT_REQUEST => {
                encode(&mut out, None, sequence, &HeartbeatResponse::new(self.started))
            }
            MessageType::SESSION_REPORT_REQUEST => {
                let ours = raw.header.seid.and_then(|seid| usize::try_from(seid.0).ok());
                let theirs = ours.and_then(|seid| self.up_seids.get(seid.checked_sub(1)?));
                let seid = Seid(theirs.copied().unwrap_or(0));
                let body = SessionReportResponse::new(Cause::RequestAccepted);
                encode(&mut out, Some(seid), sequence, &body)
            }
            _ => return,
        };
        if let Ok(len) = encoded {
            let _ = self.socket.send_to(out.get(..len).unwrap_or_default(), self.peer);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop_answering();
    }
}

/// One datagram, or `None` after a look in vain.
fn receive<'b>(socket: &UdpSocket, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let (len, _) = socket.recv_from(buffer).ok()?;
    buffer.get(..len)
}

struct Establishment<'c> {
    config: &'c SessionsConfig,
    node_id: Ipv4Addr,
    sessions: Sessions,
}

impl Procedure for Establishment<'_> {
    fn encode(&self, index: u32, sequence: u32, out: &mut [u8]) -> Result<usize> {
        let config = self.config;
        let ue = |destination| {
            let v4 = (!config.ipv6).then(|| config.endpoints.ue_v4(index));
            let v6 = config.ipv6.then(|| config.endpoints.ue_v6(index));
            UeIpAddress { v4, v6, destination, ..UeIpAddress::default() }
        };
        let (from_ue, to_ue) = ([ue(false)], [ue(true)]);
        let f_teid = match config.teids {
            Teids::Given(first) => FTeid::Given {
                teid: Teid(first.wrapping_add(index)),
                addr: FTeidAddress::V4(config.upf),
            },
            Teids::Chosen => FTeid::Choose { v4: true, v6: false, choose_id: None },
        };
        let [access, core] = &config.network_instances;
        let access = access.as_deref().map(|name| NetworkInstance(name.as_bytes()));
        let core = core.as_deref().map(|name| NetworkInstance(name.as_bytes()));
        let qer_ids = [QER];
        let urr_ids = [URR];
        let mut uplink = CreatePdr {
            outer_header_removal: Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into()),
            far_id: Some(UPLINK_FAR),
            ..CreatePdr::new(
                UPLINK_PDR,
                PRECEDENCE,
                Pdi {
                    local_f_teid: Some(f_teid),
                    network_instance: access,
                    ue_ip_addresses: (&from_ue).into(),
                    ..Pdi::new(SourceInterface::Access)
                },
            )
        };
        let mut downlink = CreatePdr {
            far_id: Some(DOWNLINK_FAR),
            ..CreatePdr::new(
                DOWNLINK_PDR,
                PRECEDENCE,
                Pdi {
                    network_instance: core,
                    ue_ip_addresses: (&to_ue).into(),
                    ..Pdi::new(SourceInterface::Core)
                },
            )
        };
        for pdr in [&mut uplink, &mut downlink] {
            if config.profile.qfi.is_some() {
                pdr.qer_ids = (&qer_ids).into();
            }
            if config.profile.urr {
                pdr.urr_ids = (&urr_ids).into();
            }
        }
        let gnbs = config.gnbs.len().max(1);
        let at = usize::try_from(index).unwrap_or_default() % gnbs;
        let gnb = config.gnbs.get(at).copied().unwrap_or(Ipv4Addr::UNSPECIFIED);
        let teid = Teid(config.gnb_teid.wrapping_add(index));
        let to_access = ForwardingParameters {
            network_instance: access,
            outer_header_creation: Some(OuterHeaderCreation::gtpu_ipv4(teid, gnb)),
            ..ForwardingParameters::new(DestinationInterface::Access)
        };
        let to_core = ForwardingParameters {
            network_instance: core,
            ..ForwardingParameters::new(DestinationInterface::Core)
        };
        let forward = |id, parameters| CreateFar {
            forwarding_parameters: Some(parameters),
            ..CreateFar::new(id, ApplyAction::FORW)
        };
        let (pdrs, fars) =
            ([uplink, downlink], [forward(UPLINK_FAR, to_core), forward(DOWNLINK_FAR, to_access)]);
        let qers = [CreateQer { qfi: config.profile.qfi, ..CreateQer::new(QER, GateStatus::OPEN) }];
        let threshold = VolumeThreshold { total: Some(NEVER_BYTES), ..VolumeThreshold::default() };
        let urrs = [CreateUrr {
            volume_threshold: Some(threshold),
            ..CreateUrr::new(URR, MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)
        }];
        let pdn_type = if config.ipv6 { PdnType::Ipv6 } else { PdnType::Ipv4 };
        let cp_f_seid = FSeid::new(Seid(u64::from(index) + 1), self.node_id.into());
        let mut request = SessionEstablishmentRequest {
            pdn_type: Some(pdn_type),
            ..SessionEstablishmentRequest::new(
                NodeId::Ipv4(self.node_id),
                cp_f_seid,
                (&pdrs).into(),
                (&fars).into(),
            )
        };
        if config.profile.qfi.is_some() {
            request.create_qers = (&qers).into();
        }
        if config.profile.urr {
            request.create_urrs = (&urrs).into();
        }
        encode(out, Some(Seid(0)), sequence, &request).context("encode a request")
    }

    fn answered(&mut self, index: u32, message: &Message<'_>) -> Result<()> {
        let Message::SessionEstablishmentResponse(response) = message else {
            bail!("the UPF answered an establishment with {}", message.message_type())
        };
        let offending = response.offending_ie.map(|ie| ie.0);
        accepted("Session Establishment", response.cause, offending)
            .with_context(|| format!("session {index}"))?;
        let up_f_seid = response.up_f_seid.context("the UPF accepted without an F-SEID")?;
        let teid = match self.config.teids {
            Teids::Given(first) => first.wrapping_add(index),
            Teids::Chosen => {
                let created = response.created_pdrs.iter().find(|pdr| pdr.pdr_id == UPLINK_PDR);
                match created.and_then(|pdr| pdr.local_f_teids.first()) {
                    Some(FTeid::Given { teid, .. }) => teid.0,
                    _ => bail!("the UPF accepted without the F-TEID that it had to choose"),
                }
            }
        };
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(slot) = self.sessions.up_seids.get_mut(at) {
            *slot = up_f_seid.seid.0;
        }
        if let Some(slot) = self.sessions.uplink_teids.get_mut(at) {
            *slot = teid;
        }
        Ok(())
    }
}

struct Deletion<'s> {
    up_seids: &'s [u64],
}

impl Procedure for Deletion<'_> {
    fn encode(&self, index: u32, sequence: u32, out: &mut [u8]) -> Result<usize> {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let seid = Seid(self.up_seids.get(at).copied().unwrap_or(0));
        encode(out, Some(seid), sequence, &SessionDeletionRequest::new())
            .context("encode a request")
    }

    fn answered(&mut self, index: u32, message: &Message<'_>) -> Result<()> {
        let Message::SessionDeletionResponse(response) = message else {
            bail!("the UPF answered a deletion with {}", message.message_type())
        };
        accepted("Session Deletion", response.cause, response.offending_ie.map(|ie| ie.0))
            .with_context(|| format!("session {index}"))
    }
}

fn accepted(request: &str, cause: Cause, offending_ie: Option<u16>) -> Result<()> {
    if cause == Cause::RequestAccepted {
        return Ok(());
    }
    let offending = offending_ie.map_or(String::new(), |ie| format!(", offending IE {ie}"));
    bail!("the UPF refused a PFCP {request} Request with \"{cause}\"{offending}")
}

fn now() -> RecoveryTimeStamp {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
    // The field holds the low 32 bits; the next era begins in 2036.
    let era_s = (unix_s + NTP_OFFSET_S) & u64::from(u32::MAX);
    RecoveryTimeStamp(u32::try_from(era_s).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use adit_pfcp::message::{
        AssociationSetupResponse, SessionDeletionResponse, SessionEstablishmentResponse,
    };

    use super::*;

    const UPF: Ipv4Addr = Ipv4Addr::LOCALHOST;

    fn config(count: u32) -> SessionsConfig {
        SessionsConfig {
            count,
            endpoints: Endpoints {
                ue_v4: Ipv4Addr::new(10, 0, 0, 1),
                ue_v6: std::net::Ipv6Addr::UNSPECIFIED,
                server_v4: Ipv4Addr::new(198, 51, 100, 1),
                server_v6: std::net::Ipv6Addr::UNSPECIFIED,
            },
            ipv6: false,
            gnbs: vec![Ipv4Addr::new(10, 0, 3, 1)],
            gnb_teid: 0x100,
            upf: UPF,
            teids: Teids::Given(0x5000),
            profile: Profile { qfi: Qfi::new(9), urr: true },
            network_instances: [None, Some("internet".to_owned())],
        }
    }

    /// A UPF that loses every seventh request and accepts sessions but the one that is `refused`.
    fn upf(socket: &UdpSocket, stop: &Stop, refused: Option<u64>) -> HashSet<u64> {
        let mut sessions = HashSet::new();
        let mut buffer = vec![0; MESSAGE_BYTES];
        let mut count = 0u32;
        while !stop.is_raised() {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            count += 1;
            if count.is_multiple_of(7) {
                continue;
            }
            let raw = Datagram::new(&buffer[..len]).next().unwrap().unwrap();
            let (sequence, mut out) = (raw.header.sequence, [0; MESSAGE_BYTES]);
            let node_id = NodeId::Ipv4(UPF);
            let len = match Message::decode(&raw).unwrap() {
                Message::AssociationSetupRequest(_) => {
                    let cause = Cause::RequestAccepted;
                    let body = AssociationSetupResponse::new(node_id, cause, RecoveryTimeStamp(1));
                    encode(&mut out, None, sequence, &body).unwrap()
                }
                Message::SessionEstablishmentRequest(request) => {
                    let seid = request.cp_f_seid.seid.0;
                    assert_eq!((request.create_qers.len(), request.create_urrs.len()), (1, 1));
                    let cause = if refused == Some(seid) {
                        Cause::NoResourcesAvailable
                    } else {
                        sessions.insert(seid);
                        Cause::RequestAccepted
                    };
                    let body = SessionEstablishmentResponse {
                        up_f_seid: Some(FSeid::new(Seid(seid + 1000), UPF.into())),
                        ..SessionEstablishmentResponse::new(node_id, cause)
                    };
                    encode(&mut out, Some(Seid(seid)), sequence, &body).unwrap()
                }
                Message::SessionDeletionRequest(_) => {
                    let seid = raw.header.seid.unwrap().0 - 1000;
                    sessions.remove(&seid);
                    let body = SessionDeletionResponse::new(Cause::RequestAccepted);
                    encode(&mut out, Some(Seid(seid)), sequence, &body).unwrap()
                }
                other => panic!("{}", other.message_type()),
            };
            socket.send_to(&out[..len], from).unwrap();
        }
        sessions
    }

    fn with_upf<T>(refused: Option<u64>, work: impl FnOnce(&mut Control) -> T) -> (T, usize) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let peer = socket.local_addr().unwrap();
        let stop = Stop::default();
        let ends = stop.clone();
        let server = thread::spawn(move || upf(&socket, &ends, refused).len());
        let mut control = Control::bind("127.0.0.1:0".parse().unwrap(), peer, 16).unwrap();
        control.associate(Duration::from_secs(10), || Ok(())).unwrap();
        let result = work(&mut control);
        stop.raise();
        (result, server.join().unwrap())
    }

    #[test]
    fn sessions_are_established_and_deleted_though_requests_are_lost() {
        let ((sessions, established, deleted), left) = with_upf(None, |control| {
            let (sessions, established) = control.establish(&config(100), || Ok(())).unwrap();
            control.answer_in_background().unwrap();
            (sessions, established, control.delete(|| Ok(())).unwrap())
        });
        assert_eq!((sessions.uplink_teids[99], sessions.up_seids[99]), (0x5000 + 99, 1100));
        assert_eq!((established.count, deleted.count, left), (100, 100, 0));
        assert!(established.retransmissions > 0);
    }

    #[test]
    fn refusal_ends_the_procedure_and_names_session_and_cause() {
        let (error, _) = with_upf(Some(41), |control| control.establish(&config(100), || Ok(())));
        let text = format!("{:#}", error.unwrap_err());
        assert!(text.starts_with("session 40: the UPF refused a PFCP Session Est"), "{text}");
    }
}
