//! The socket of the SMF, its association, and its answers to the UPF.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_lab_process::stop::{POLL, Stop, environment};
use adit_pfcp::ie::RecoveryTimeStamp;
use adit_pfcp::message::{
    AssociationSetupRequest, HeartbeatRequest, HeartbeatResponse, NodeReportResponse,
    SessionReportResponse,
};
use adit_pfcp::{
    Cause, Message, MessageBody, MessageType, PfcpDatagram, RawMessage, SEQUENCE_MAX, encode,
};
use adit_types::Seid;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::net::sockopt;

use crate::answer::{check_cause, recovery_time_stamp, unexpected_answer};
use crate::identity::SmfIdentity;
use crate::inbox::Inbox;

/// Time until the SMF retransmits an unanswered request.
pub const T1: Duration = Duration::from_secs(1);
/// Maximum number of retransmissions of a request.
pub const N1: u32 = 4;

/// How many times, and at which interval, an unanswered request is sent.
#[derive(Debug, Clone, Copy)]
struct Transmissions {
    count: u32,
    interval: Duration,
}
/// Receive timeout of the socket, and interval of the search for unanswered requests.
pub const RECEIVE_TIMEOUT: Duration = Duration::from_millis(2);
/// Maximum length of a message: it must fit a datagram. Unit: octets.
pub const MESSAGE_BYTES: usize = 60_000;
/// Socket buffer size: more than a window of answers. Unit: octets.
const SOCKET_BYTES: usize = 8 << 20;
/// Maximum length of a single request or an answer. Unit: octets.
const SINGLE_MESSAGE_BYTES: usize = 2048;

/// Options for procedures for many sessions and for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmfOptions {
    /// Maximum number of requests in flight.
    pub window: usize,
    /// New requests per second; `None` for as many as the window allows.
    pub rate: Option<u64>,
    /// True if reports of the UPF go to the [`Inbox`]; otherwise the SMF answers and drops them.
    pub keeps_reports: bool,
}

/// State that the SMF shares with its listening thread.
#[derive(Debug)]
pub(crate) struct LabSmfState {
    pub(crate) socket: UdpSocket,
    pub(crate) peer: SocketAddr,
    pub(crate) identity: SmfIdentity,
    sequence: AtomicU32,
    started: RecoveryTimeStamp,
    /// The UPF's SEIDs, for the answers to reports. Index: the SMF's SEID minus one.
    up_seids: Mutex<Vec<u64>>,
    /// Single requests that wait for an answer, by sequence number.
    pending: Mutex<HashMap<u32, Sender<Vec<u8>>>>,
    keeps_reports: bool,
    inbox: Inbox,
    heartbeats_answered: AtomicU64,
}

/// An SMF with one UPF. Dropping it ends its thread.
#[derive(Debug)]
pub struct LabSmf {
    pub(crate) state: Arc<LabSmfState>,
    pub(crate) options: SmfOptions,
    listener: Option<(Stop, JoinHandle<()>)>,
    pub(crate) buffer: Vec<u8>,
    pub(crate) out: Vec<u8>,
}

impl LabSmf {
    /// Binds `local` and starts to listen. Sends nothing.
    ///
    /// # Errors
    /// The address cannot be used; `node_id` is neither an address nor a domain name.
    pub fn bind(
        local: SocketAddr,
        peer: SocketAddr,
        node_id: Option<&str>,
        options: SmfOptions,
    ) -> Result<Self> {
        let identity = SmfIdentity::new(local.ip(), node_id)?;
        let socket = UdpSocket::bind(local).map_err(|error| {
            environment(format!("the SMF cannot use {local}: {error} (--smf ADDRESS:PORT)"))
        })?;
        Self::start(socket, peer, identity, options)
    }

    /// Starts to listen on `socket`. Sends nothing.
    ///
    /// # Errors
    /// The socket or the thread cannot be prepared.
    pub fn start(
        socket: UdpSocket,
        peer: SocketAddr,
        identity: SmfIdentity,
        options: SmfOptions,
    ) -> Result<Self> {
        // Best effort: a smaller buffer costs retransmissions.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES);
        let state = LabSmfState {
            socket,
            peer,
            identity,
            sequence: AtomicU32::new(0),
            started: recovery_time_stamp(),
            up_seids: Mutex::default(),
            pending: Mutex::default(),
            keeps_reports: options.keeps_reports,
            inbox: Inbox::default(),
            heartbeats_answered: AtomicU64::new(0),
        };
        let mut smf = Self {
            state: Arc::new(state),
            options: SmfOptions { window: options.window.max(1), ..options },
            listener: None,
            buffer: vec![0; usize::from(u16::MAX)],
            out: vec![0; MESSAGE_BYTES],
        };
        smf.answer_in_background()?;
        Ok(smf)
    }

    /// Sets up the association. Repeats the request until `timeout`, since the UPF may still be
    /// starting.
    ///
    /// # Errors
    /// `watch` fails; no answer within `timeout`; a refusal (the error has its Cause).
    pub fn associate(&self, timeout: Duration, watch: impl FnMut() -> Result<()>) -> Result<()> {
        let request =
            AssociationSetupRequest::new(self.state.identity.node_id(), self.state.started);
        let interval = T1 / 4;
        let transmissions = timeout.as_millis().div_ceil(interval.as_millis().max(1));
        let count = u32::try_from(transmissions).unwrap_or(u32::MAX);
        let transmissions = Transmissions { count, interval };
        let response = self.send_until_answered(None, &request, transmissions, watch)?;
        match message(&response)? {
            Message::AssociationSetupResponse(response) => {
                check_cause("Association Setup", response.cause, None)
            }
            other => Err(unexpected_answer(&other)),
        }
    }

    /// Sends a Heartbeat Request and waits for the response.
    ///
    /// # Errors
    /// `watch` fails; the UPF does not answer.
    pub fn heartbeat(&self, watch: impl FnMut() -> Result<()>) -> Result<()> {
        let request = HeartbeatRequest::new(self.state.started);
        let response = self.request(None, &request, watch)?;
        match message(&response)? {
            Message::HeartbeatResponse(_) => Ok(()),
            other => Err(unexpected_answer(&other)),
        }
    }

    /// Returns how many Heartbeat Requests of the UPF the SMF has answered.
    #[must_use]
    pub fn heartbeats_answered(&self) -> u64 {
        self.state.heartbeats_answered.load(Ordering::Relaxed)
    }

    /// Returns the reports of the UPF, if [`SmfOptions::keeps_reports`] is set.
    #[must_use]
    pub fn inbox(&self) -> &Inbox {
        &self.state.inbox
    }

    /// Returns address and Node ID.
    #[must_use]
    pub fn identity(&self) -> &SmfIdentity {
        &self.state.identity
    }

    /// Sends a request, retransmits it every T1 at most N1 times, and returns the datagram that
    /// answers it.
    ///
    /// # Errors
    /// `watch` fails; the UPF does not answer.
    pub(crate) fn request<'a, M: MessageBody<'a>>(
        &self,
        seid: Option<Seid>,
        body: &M,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<Vec<u8>> {
        let transmissions = Transmissions { count: N1 + 1, interval: T1 };
        self.send_until_answered(seid, body, transmissions, watch)
    }

    fn send_until_answered<'a, M: MessageBody<'a>>(
        &self,
        seid: Option<Seid>,
        body: &M,
        Transmissions { count, interval }: Transmissions,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<Vec<u8>> {
        ensure!(self.listener.is_some(), "the SMF does not listen for single answers now");
        let sequence = self.state.next_sequence();
        let mut buffer = [0; SINGLE_MESSAGE_BYTES];
        let len = encode(&mut buffer, seid, sequence, body).context("encode a PFCP request")?;
        let datagram = buffer.get(..len).unwrap_or_default();
        let (sender, receiver) = mpsc::channel();
        let _pending = PendingRequest::new(&self.state, sequence, sender);
        for _ in 0..count {
            // The UPF may not listen yet: only a missing answer counts as a failure.
            let _ = self.state.socket.send_to(datagram, self.state.peer);
            let end = Instant::now() + interval;
            while Instant::now() < end {
                watch()?;
                match receiver.recv_timeout(POLL) {
                    Ok(response) => return Ok(response),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => bail!("the SMF's thread has ended"),
                }
            }
        }
        bail!(
            "the UPF at {} did not answer a {} within {:?}",
            self.state.peer,
            M::TYPE,
            interval * count
        )
    }

    /// Listens on its own thread until the next procedure for many sessions, or drop. The thread
    /// answers the UPF's requests and passes answers to the single requests that wait for them.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn answer_in_background(&mut self) -> Result<()> {
        self.stop_listening();
        let socket = &self.state.socket;
        // A long timeout, since the tester may share the core of this thread.
        socket.set_nonblocking(false).context("mode of the SMF socket")?;
        socket.set_read_timeout(Some(T1 / 4)).context("receive timeout of the SMF socket")?;
        let (state, stop) = (Arc::clone(&self.state), Stop::default());
        let until = stop.clone();
        let thread = thread::Builder::new().name("smf".to_owned());
        let thread = thread.spawn(move || state.listen(&until)).context("thread")?;
        self.listener = Some((stop, thread));
        Ok(())
    }

    /// Makes [`Self::step`] wait for answers. Ends the listening thread.
    ///
    /// # Errors
    /// The socket's mode cannot be changed.
    pub fn wait_for_answers(&mut self) -> Result<()> {
        self.stop_listening();
        let socket = &self.state.socket;
        socket.set_nonblocking(false).context("mode of the SMF socket")?;
        socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).context("receive timeout of the SMF socket")
    }

    /// Makes [`Self::step`] process only answers that have arrived. Ends the listening thread.
    ///
    /// # Errors
    /// The socket's mode cannot be changed.
    pub fn poll_for_answers(&mut self) -> Result<()> {
        self.stop_listening();
        self.state.socket.set_nonblocking(true).context("mode of the SMF socket")
    }

    fn stop_listening(&mut self) {
        if let Some((stop, thread)) = self.listener.take() {
            stop.raise();
            if thread.join().is_err() {
                eprintln!("adit-lab: the SMF's thread panicked");
            }
        }
    }
}

impl Drop for LabSmf {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

impl LabSmfState {
    /// Returns the next sequence number, from 1 to 2^24 - 1.
    pub(crate) fn next_sequence(&self) -> u32 {
        self.sequence.fetch_add(1, Ordering::Relaxed) % SEQUENCE_MAX + 1
    }

    /// Returns the UPF's SEIDs. Index: the SMF's SEID minus one.
    pub(crate) fn up_seids(&self) -> MutexGuard<'_, Vec<u64>> {
        lock(&self.up_seids)
    }

    /// Sets the UPF's SEID (`theirs`) of the session with the SMF's SEID `ours`.
    pub(crate) fn set_up_seid(&self, ours: Seid, theirs: Seid) {
        let Some(at) = ours.0.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else {
            return;
        };
        let mut up_seids = self.up_seids();
        let len = up_seids.len().max(at + 1);
        up_seids.resize(len, 0);
        if let Some(slot) = up_seids.get_mut(at) {
            *slot = theirs.0;
        }
    }

    fn listen(&self, stop: &Stop) {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while !stop.is_raised() {
            let Some((datagram, from)) = receive(&self.socket, &mut buffer) else { continue };
            for raw in PfcpDatagram::new(datagram).flatten() {
                if raw.header.message_type.is_request() {
                    self.answer(&raw, datagram, from);
                } else if let Some(sender) = lock(&self.pending).get(&raw.header.sequence) {
                    // The request may have timed out meanwhile.
                    let _ = sender.send(datagram.to_vec());
                }
            }
        }
    }

    /// Answers a request of the UPF.
    pub(crate) fn answer(&self, raw: &RawMessage<'_>, datagram: &[u8], from: SocketAddr) {
        let mut out = [0; SINGLE_MESSAGE_BYTES];
        let sequence = raw.header.sequence;
        let encoded = match raw.header.message_type {
            MessageType::HEARTBEAT_REQUEST => {
                self.heartbeats_answered.fetch_add(1, Ordering::Relaxed);
                encode(&mut out, None, sequence, &HeartbeatResponse::new(self.started))
            }
            MessageType::NODE_REPORT_REQUEST => {
                self.keep_report(sequence, datagram);
                let body = NodeReportResponse::new(self.identity.node_id(), Cause::RequestAccepted);
                encode(&mut out, None, sequence, &body)
            }
            MessageType::SESSION_REPORT_REQUEST => {
                self.keep_report(sequence, datagram);
                let at = raw.header.seid.and_then(|ours| usize::try_from(ours.0).ok());
                let theirs = at.and_then(|at| self.up_seids().get(at.checked_sub(1)?).copied());
                let body = SessionReportResponse::new(Cause::RequestAccepted);
                encode(&mut out, Some(Seid(theirs.unwrap_or(0))), sequence, &body)
            }
            _ => return,
        };
        if let Ok(len) = encoded {
            let _ = self.socket.send_to(out.get(..len).unwrap_or_default(), from);
        }
    }

    fn keep_report(&self, sequence: u32, datagram: &[u8]) {
        if self.keeps_reports {
            self.inbox.put(sequence, datagram);
        }
    }
}

/// The entry of a request that waits for its answer. Dropping it removes the entry.
struct PendingRequest<'s> {
    state: &'s LabSmfState,
    sequence: u32,
}

impl<'s> PendingRequest<'s> {
    fn new(state: &'s LabSmfState, sequence: u32, sender: Sender<Vec<u8>>) -> Self {
        lock(&state.pending).insert(sequence, sender);
        Self { state, sequence }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        lock(&self.state.pending).remove(&self.sequence);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives one datagram and its sender; `None` if none arrives within the receive timeout.
pub(crate) fn receive<'b>(
    socket: &UdpSocket,
    buffer: &'b mut [u8],
) -> Option<(&'b [u8], SocketAddr)> {
    let (len, from) = socket.recv_from(buffer).ok()?;
    Some((buffer.get(..len)?, from))
}

/// Decodes the message of a datagram that answers a single request.
pub(crate) fn message(datagram: &[u8]) -> Result<Message<'_>> {
    let raw = PfcpDatagram::new(datagram).next().context("an empty answer")?;
    let raw = raw.map_err(|error| anyhow!("the UPF's answer has a malformed header: {error:?}"))?;
    Message::decode(&raw).map_err(|error| anyhow!("the UPF's answer is malformed: {error:?}"))
}
