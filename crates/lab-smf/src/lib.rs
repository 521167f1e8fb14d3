//! The control engine: PFCP as an SMF for any number of sessions, with a window of requests in
//! flight, at a rate or as fast as the UPF answers.
//!
//! It asks for nothing that a UPF may lack: TEIDs and UE addresses are given unless told otherwise,
//! and rules are those of a plain PDU session unless a [`Profile`] wants more. Heartbeats and reports
//! of the peer are answered also between procedures.
//! Spec: TS 29.244 §6.2, §6.3, §6.4, §7.4, §7.5.
#![deny(unsafe_code)]

pub mod answer;
pub mod churn;
pub mod exchange;
pub mod inbox;
pub mod profile;
pub mod session;
pub mod session_smf;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_pfcp::ie::{Fqdn, NodeId, RecoveryTimeStamp};
use adit_pfcp::message::{AssociationSetupRequest, HeartbeatResponse, SessionReportResponse};
use adit_pfcp::{Cause, Message, MessageType, PfcpDatagram, RawMessage, SEQUENCE_MAX, encode};
use adit_types::Seid;
use anyhow::{Context, Result, bail};
use rustix::net::sockopt;

use self::exchange::{Exchange, LOOK, MESSAGE_BYTES, Procedure, T1};
pub use self::profile::SessionProfile;
use self::session::{Deletion, Establishment};
use crate::answer::{accepted, recovery_time_stamp};
use adit_lab_engine::frame::Endpoints;
use adit_lab_engine::histogram::LatencySummary;
use adit_lab_process::stop::{Stop, environment};

/// Socket buffer: a window of answers and more.
const SOCKET_BYTES: usize = 8 << 20;

/// Who chooses the uplink TEIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeidAllocation {
    /// We do: session *k* has the *k*-th after this.
    Given(u32),
    /// The UPF does.
    Chosen,
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
    pub gnbs: Vec<IpAddr>,
    /// TEID of session 0 at its gNB; session *k* has the *k*-th after it.
    pub gnb_teid: u32,
    /// GTP-U address of the UPF, of the family of the gNBs.
    pub upf: IpAddr,
    /// Who chooses the uplink TEIDs.
    pub teids: TeidAllocation,
    /// The rules of the sessions behind those of `profiles`.
    pub profile: SessionProfile,
    /// The rules of the first sessions: how many have which.
    pub profiles: Vec<(u32, SessionProfile)>,
    /// Network instances of the access and the core side, where the UPF wants them.
    pub network_instances: [Option<String>; 2],
}

/// What a UPF gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpfSessionIds {
    /// The UPF's SEIDs.
    pub up_seids: Vec<u64>,
    /// Uplink TEIDs.
    pub uplink_teids: Vec<u32>,
}

/// A run of one procedure over many sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcedureReport {
    /// Requests that were answered.
    pub count: u64,
    /// From the first request to the last answer. Unit: ns.
    pub duration_ns: u64,
    /// Procedures per second.
    pub per_second: u64,
    /// Requests that had to be sent again.
    pub retransmissions: u64,
    /// Answers that were refusals, where they are counted.
    #[serde(default)]
    pub failed: u64,
    /// The first of them.
    #[serde(default)]
    pub first_failure: Option<String>,
    /// From the first sending of a request to its answer.
    pub latency: LatencySummary,
}

/// Who the tester is on N4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmfIdentity {
    /// Its address, which F-SEIDs carry.
    pub address: IpAddr,
    /// Its Node ID, where that is not the address: another address or a name.
    pub name: Option<String>,
}

impl SmfIdentity {
    /// Checks the name.
    ///
    /// # Errors
    /// It is neither an address nor a domain name.
    pub fn new(address: IpAddr, name: Option<&str>) -> Result<Self> {
        let is_wrong =
            |name: &&str| name.parse::<IpAddr>().is_err() && Fqdn::from_text(name).is_none();
        if let Some(name) = name.filter(is_wrong) {
            return Err(environment(format!("--node-id {name}: neither an address nor a name")));
        }
        Ok(Self { address, name: name.map(str::to_owned) })
    }

    /// The Node ID.
    #[must_use]
    pub fn node_id(&self) -> NodeId<'_> {
        let Some(name) = &self.name else { return self.address.into() };
        match name.parse::<IpAddr>() {
            Ok(address) => address.into(),
            Err(_) => Fqdn::from_text(name).map_or_else(|| self.address.into(), NodeId::Fqdn),
        }
    }
}

/// The association with one UPF.
#[derive(Debug)]
pub struct UpfAssociation {
    socket: UdpSocket,
    peer: SocketAddr,
    identity: SmfIdentity,
    window: usize,
    rate: Option<u64>,
    sequence: u32,
    started: RecoveryTimeStamp,
    up_seids: Arc<Vec<u64>>,
    answering: Option<(Stop, JoinHandle<()>)>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl UpfAssociation {
    /// Binds `local`; nothing is sent yet. At most `window` requests will be in flight, and begin at
    /// `rate` per second, or as fast as the window allows.
    ///
    /// # Errors
    /// The address cannot be used; `node_id` is none.
    pub fn bind(
        local: SocketAddr,
        peer: SocketAddr,
        node_id: Option<&str>,
        window: usize,
        rate: Option<u64>,
    ) -> Result<Self> {
        let identity = SmfIdentity::new(local.ip(), node_id)?;
        let socket = UdpSocket::bind(local).map_err(|error| {
            environment(format!("the SMF cannot use {local}: {error} (--smf ADDRESS:PORT)"))
        })?;
        // Best effort: a smaller buffer costs retransmissions.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES);
        socket.set_read_timeout(Some(LOOK)).context("receive timeout of the SMF socket")?;
        Ok(Self {
            socket,
            peer,
            identity,
            window: window.max(1),
            rate,
            sequence: 1,
            started: recovery_time_stamp(),
            up_seids: Arc::default(),
            answering: None,
            buffer: vec![0; usize::from(u16::MAX)],
            out: vec![0; MESSAGE_BYTES],
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
        let sequence = self.next_sequence();
        let mut out = [0; 512];
        let request = AssociationSetupRequest::new(self.identity.node_id(), self.started);
        let len = encode(&mut out, None, sequence, &request).context("encode a request")?;
        let end = Instant::now() + timeout;
        let mut again = Instant::now();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut answer = None;
        while answer.is_none() && Instant::now() < end {
            watch()?;
            if Instant::now() >= again {
                // Nobody may listen yet; the answer, or its absence, tells.
                let _ = self.socket.send_to(out.get(..len).unwrap_or_default(), self.peer);
                again = Instant::now() + T1 / 4;
            }
            let Some(datagram) = receive(&self.socket, &mut buffer) else { continue };
            for raw in PfcpDatagram::new(datagram).flatten() {
                if raw.header.message_type.is_request() {
                    self.answer(&raw);
                } else if let Ok(Message::AssociationSetupResponse(response)) =
                    Message::decode(&raw)
                {
                    answer = Some(accepted("the UPF", "Association Setup", response.cause, None));
                }
            }
        }
        self.buffer = buffer;
        let Some(answer) = answer else {
            bail!(
                "the UPF at {} did not answer an Association Setup Request within {timeout:?}",
                self.peer
            )
        };
        answer
    }

    /// Establishes all sessions. Returns what the UPF gave, and how long it took.
    ///
    /// # Errors
    /// Those of `watch`; a refusal, with its Cause; a request that stayed unanswered.
    pub fn establish(
        &mut self,
        config: &SessionsConfig,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<(UpfSessionIds, ProcedureReport)> {
        let mut sessions = UpfSessionIds::default();
        let report = self.establish_more(config, 0..config.count, &mut sessions, false, watch)?;
        Ok((sessions, report))
    }

    /// Establishes the sessions of a range; `tolerant` counts refusals instead of ending.
    ///
    /// # Errors
    /// As for [`Self::establish`].
    pub fn establish_more(
        &mut self,
        config: &SessionsConfig,
        range: Range<u32>,
        sessions: &mut UpfSessionIds,
        tolerant: bool,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<ProcedureReport> {
        let count = usize::try_from(range.end).unwrap_or(usize::MAX);
        sessions.up_seids.resize(count, 0);
        sessions.uplink_teids.resize(count, 0);
        let identity = self.identity.clone();
        let mut procedure = Establishment { config, identity: &identity, sessions };
        let report = self.run_procedure(range, tolerant, &mut procedure, watch)?;
        self.set_sessions(sessions);
        Ok(report)
    }

    /// Notes the UPF's SEIDs, which answers to its reports carry.
    pub fn set_sessions(&mut self, sessions: &UpfSessionIds) {
        self.up_seids = Arc::new(sessions.up_seids.clone());
    }

    /// Deletes all sessions.
    ///
    /// # Errors
    /// As for [`Self::establish`].
    pub fn delete(&mut self, watch: impl FnMut() -> Result<()>) -> Result<ProcedureReport> {
        let count = u32::try_from(self.up_seids.len()).unwrap_or(u32::MAX);
        self.delete_range(0..count, watch)
    }

    /// Deletes the sessions of a range.
    ///
    /// # Errors
    /// As for [`Self::establish`].
    pub fn delete_range(
        &mut self,
        range: Range<u32>,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<ProcedureReport> {
        let up_seids = Arc::clone(&self.up_seids);
        self.run_procedure(range, false, &mut Deletion { up_seids: &up_seids }, watch)
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
            identity: self.identity.clone(),
            window: 1,
            rate: None,
            sequence: 0,
            started: self.started,
            up_seids: Arc::clone(&self.up_seids),
            answering: None,
            buffer: Vec::new(),
            out: Vec::new(),
        };
        self.stop_answering();
        // Seldom awake, since the tester may share its core.
        self.socket.set_nonblocking(false).context("mode of the SMF socket")?;
        self.socket.set_read_timeout(Some(T1 / 4)).context("receive timeout of the SMF socket")?;
        let until = stop.clone();
        let thread = thread::Builder::new().name("smf".to_owned()).spawn(move || {
            let mut buffer = vec![0; usize::from(u16::MAX)];
            while !until.is_raised() {
                let Some(datagram) = receive(&answerer.socket, &mut buffer) else { continue };
                for raw in PfcpDatagram::new(datagram).flatten() {
                    if raw.header.message_type.is_request() {
                        answerer.answer(&raw);
                    }
                }
            }
        });
        self.answering = Some((stop, thread.context("thread")?));
        Ok(())
    }

    /// Ends the thread of [`Self::answer_in_background`]; what comes is answered by the steps of an
    /// exchange, which do not wait from now on.
    ///
    /// # Errors
    /// The socket's mode cannot be changed.
    pub fn poll_for_answers(&mut self) -> Result<()> {
        self.stop_answering();
        self.socket.set_nonblocking(true).context("mode of the SMF socket")
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

    /// Runs a procedure for the sessions of a range.
    fn run_procedure(
        &mut self,
        range: Range<u32>,
        tolerant: bool,
        procedure: &mut dyn Procedure,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<ProcedureReport> {
        self.wait_for_answers()?;
        let mut exchange = Exchange::new(range, self.rate, tolerant);
        let mut watched = Instant::now();
        while !exchange.is_over() {
            self.step(&mut exchange, procedure)?;
            if watched.elapsed() >= LOOK {
                watch()?;
                watched = Instant::now();
            }
        }
        Ok(exchange.report())
    }

    /// Steps of an exchange wait for answers.
    ///
    /// # Errors
    /// The socket's mode cannot be changed.
    pub fn wait_for_answers(&mut self) -> Result<()> {
        self.stop_answering();
        self.socket.set_nonblocking(false).context("mode of the SMF socket")?;
        self.socket.set_read_timeout(Some(LOOK)).context("receive timeout of the SMF socket")
    }

    /// Answers a request of the peer.
    fn answer(&self, raw: &RawMessage<'_>) {
        let mut out = [0; 512];
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

impl Drop for UpfAssociation {
    fn drop(&mut self) {
        self.stop_answering();
    }
}

/// One datagram, or `None` after a look in vain.
fn receive<'b>(socket: &UdpSocket, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let (len, _) = socket.recv_from(buffer).ok()?;
    buffer.get(..len)
}
