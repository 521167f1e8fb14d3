//! The SMF of a run: changes sessions all the time, repeats unanswered requests, and records
//! everything.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_lab_process::netns::NetNamespace;
use adit_lab_process::stop::Stop;
use adit_lab_smf::answer::recovery_time_stamp;
use adit_pfcp::ie::{FTeid, NodeId, RecoveryTimeStamp};
use adit_pfcp::message::{
    AssociationSetupRequest, HeartbeatRequest, HeartbeatResponse, NodeReportResponse,
    SessionDeletionRequest, SessionEstablishmentResponse, SessionReportResponse,
};
use adit_pfcp::{Cause, Message, PfcpDatagram, RawMessage};
use adit_types::{Seid, Teid};
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::faults::addresses::{N4, SMF};
use crate::faults::book::{BookedSession, BookedState, CountedAnswer, FindingKind, SmfBook};
use crate::faults::messages::{RequestedSession, datagram, establishment, handover};
use crate::faults::timeline::{EventKind, Timeline, lock};

const PORT: u16 = 8805;
/// Number of sessions that carry packets.
pub(crate) const HELD_SESSIONS: usize = 8;
/// Number of sessions that are established and deleted all the time.
const CHANGING_SESSIONS: usize = 48;
/// Interval and duration of repeating a request: as long as the UPF keeps its answer. Unit: ms.
const T1_MS: u64 = 500;
const REPEAT_MAX_MS: u64 = 6000;
/// Interval of new requests, and the maximum number of open requests. Unit: ms.
const REQUEST_INTERVAL_MS: u64 = 20;
const OPEN_REQUESTS_MAX: usize = 32;
const HEARTBEAT_INTERVAL_MS: u64 = 1000;
const RECEIVE_WAIT: Duration = Duration::from_millis(4);
/// Base of the UE addresses that the SMF chooses; the SEID is added to it.
const UE_BASE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 0);

/// The purpose of a request, with the SMF's SEID of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Setup,
    Heartbeat,
    Establishment(u64),
    Modification(u64, Teid),
    Deletion(u64),
}

struct SmfRequest {
    kind: RequestKind,
    octets: Vec<u8>,
    began_ms: u64,
    sent_ms: u64,
}

/// Orders from other threads to the SMF's thread.
#[derive(Debug, Default)]
struct SmfOrders {
    /// True to send no further requests about sessions.
    is_quiet: AtomicBool,
    /// True to send as many requests as the window permits.
    is_hasty: AtomicBool,
    /// How many restarts are still to be done: the SMF forgets its sessions and sends a new
    /// Recovery Time Stamp.
    restarts: AtomicU32,
    /// How many association setups without a restart are still to be done.
    setups: AtomicU32,
    /// True to delete the held sessions.
    releases_held: AtomicBool,
}

/// The running SMF. Drop ends it.
#[derive(Debug)]
pub(crate) struct BookingSmf {
    book: Arc<Mutex<SmfBook>>,
    orders: Arc<SmfOrders>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl BookingSmf {
    /// Starts an SMF on a host.
    ///
    /// # Errors
    /// The address of the SMF cannot be bound.
    pub(crate) fn start(host: &NetNamespace, seed: u64, timeline: &Timeline) -> Result<Self> {
        let socket = host.enter(|| UdpSocket::bind((SMF, PORT)).context("bind the SMF"))?;
        socket.set_read_timeout(Some(RECEIVE_WAIT)).context("set a timeout")?;
        let (book, orders, stop) =
            (Arc::<Mutex<SmfBook>>::default(), Arc::<SmfOrders>::default(), Stop::default());
        let mut running = RunningSmf {
            socket,
            book: Arc::clone(&book),
            orders: Arc::clone(&orders),
            timeline: timeline.clone(),
            open: BTreeMap::new(),
            held: vec![None; HELD_SESSIONS],
            changing: vec![None; CHANGING_SESSIONS],
            sequence: 0,
            cp_seid: 0,
            teid: 0x0100_0000,
            started: recovery_time_stamp(),
            is_associated: false,
            next_request_ms: 0,
            next_heartbeat_ms: 0,
            rng: StdRng::seed_from_u64(seed),
        };
        let stopped = stop.clone();
        let thread = thread::Builder::new()
            .name("smf".to_owned())
            .spawn(move || running.run(&stopped))
            .context("start the SMF")?;
        Ok(Self { book, orders, stop, thread: Some(thread) })
    }

    pub(crate) fn book(&self) -> &Mutex<SmfBook> {
        &self.book
    }

    /// Returns a shared handle of the book, for another thread.
    pub(crate) fn shared_book(&self) -> Arc<Mutex<SmfBook>> {
        Arc::clone(&self.book)
    }

    /// Makes the SMF forget all sessions, and set up its association with a new Recovery Time
    /// Stamp.
    pub(crate) fn restart(&self) {
        self.orders.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the SMF set up its association again, without a restart.
    pub(crate) fn set_up_again(&self) {
        self.orders.setups.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops new requests about sessions, or permits them again.
    pub(crate) fn set_quiet(&self, is_quiet: bool) {
        self.orders.is_quiet.store(is_quiet, Ordering::Relaxed);
    }

    /// Makes the SMF send requests without a pause, or with pauses again.
    pub(crate) fn set_unpaced(&self, is_hasty: bool) {
        self.orders.is_hasty.store(is_hasty, Ordering::Relaxed);
    }

    /// Makes the SMF delete the held sessions.
    pub(crate) fn release_held(&self) {
        self.orders.releases_held.store(true, Ordering::Relaxed);
    }
}

impl Drop for BookingSmf {
    fn drop(&mut self) {
        self.stop.raise();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("adit-lab: the SMF panicked");
        }
    }
}

struct RunningSmf {
    socket: UdpSocket,
    book: Arc<Mutex<SmfBook>>,
    orders: Arc<SmfOrders>,
    timeline: Timeline,
    open: BTreeMap<u32, SmfRequest>,
    /// The SMF's SEIDs of the held sessions, by place; `changing` has the other sessions.
    held: Vec<Option<u64>>,
    changing: Vec<Option<u64>>,
    sequence: u32,
    cp_seid: u64,
    teid: u32,
    started: RecoveryTimeStamp,
    is_associated: bool,
    next_request_ms: u64,
    next_heartbeat_ms: u64,
    rng: StdRng,
}

impl RunningSmf {
    fn run(&mut self, stop: &Stop) {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while !stop.is_raised() {
            let began = Instant::now();
            while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
                let datagram = buffer.get(..len).unwrap_or_default().to_vec();
                self.receive(&datagram, from);
                if began.elapsed() > RECEIVE_WAIT {
                    break;
                }
            }
            let now_ms = self.timeline.now_ms();
            self.carry_out_orders(now_ms);
            self.repeat(now_ms);
            if now_ms >= self.next_heartbeat_ms {
                self.next_heartbeat_ms = now_ms + HEARTBEAT_INTERVAL_MS;
                self.send_heartbeat(now_ms);
            }
            if self.is_associated && now_ms >= self.next_request_ms {
                let is_hasty = self.orders.is_hasty.load(Ordering::Relaxed);
                self.next_request_ms = now_ms + if is_hasty { 0 } else { REQUEST_INTERVAL_MS };
                for _ in 0..if is_hasty { OPEN_REQUESTS_MAX } else { 1 } {
                    self.change(now_ms);
                }
            }
            lock(&self.book).open_requests =
                self.open.values().filter(|open| open.kind != RequestKind::Heartbeat).count();
        }
    }

    fn carry_out_orders(&mut self, now_ms: u64) {
        let orders = Arc::clone(&self.orders);
        let take = |order: &AtomicU32| order.swap(0, Ordering::Relaxed) > 0;
        if take(&orders.restarts) {
            self.timeline.note(EventKind::Association, "smf", "restarts");
            self.forget_sessions();
            self.started = RecoveryTimeStamp(self.started.0.wrapping_add(1));
            self.is_associated = false;
        }
        if take(&orders.setups) {
            self.timeline.note(EventKind::Association, "smf", "sets up its association again");
            self.is_associated = false;
        }
        let is_under_way = self.open.values().any(|open| open.kind == RequestKind::Setup);
        if !self.is_associated && !is_under_way {
            let body = AssociationSetupRequest::new(NodeId::Ipv4(SMF), self.started);
            let sequence = self.next_sequence();
            self.send_request(
                now_ms,
                sequence,
                RequestKind::Setup,
                datagram(None, sequence, &body),
            );
        }
        if orders.releases_held.swap(false, Ordering::Relaxed) {
            for cp_seid in self.held.clone().into_iter().flatten() {
                self.delete(now_ms, cp_seid);
            }
        }
    }

    /// Marks all sessions as deleted: a UPF deletes them when the association is set up.
    fn forget_sessions(&mut self) {
        self.open.clear();
        let mut book = lock(&self.book);
        for session in book.sessions.values_mut() {
            session.state = BookedState::Deleted;
        }
        self.held.fill(None);
        self.changing.fill(None);
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }

    fn send_request(&mut self, now_ms: u64, sequence: u32, kind: RequestKind, octets: Vec<u8>) {
        self.send(&octets, SocketAddr::from((N4, PORT)));
        self.open.insert(sequence, SmfRequest { kind, octets, began_ms: now_ms, sent_ms: now_ms });
    }

    /// Sends a datagram. One that cannot be sent is lost, as on a link.
    fn send(&self, octets: &[u8], to: SocketAddr) {
        let _ = self.socket.send_to(octets, to);
    }

    fn repeat(&mut self, now_ms: u64) {
        let mut given_up = Vec::new();
        for (&sequence, open) in &mut self.open {
            let is_over = now_ms.saturating_sub(open.began_ms) > REPEAT_MAX_MS;
            if is_over || open.kind == RequestKind::Heartbeat {
                if now_ms.saturating_sub(open.began_ms) > T1_MS {
                    given_up.push(sequence);
                }
            } else if now_ms.saturating_sub(open.sent_ms) >= T1_MS {
                open.sent_ms = now_ms;
                let _ = self.socket.send_to(&open.octets, (N4, PORT));
            }
        }
        for sequence in given_up {
            if let Some(open) = self.open.remove(&sequence) {
                self.give_up(open.kind);
            }
        }
    }

    fn give_up(&mut self, kind: RequestKind) {
        let mut book = lock(&self.book);
        let (cp_seid, state) = match kind {
            RequestKind::Setup | RequestKind::Heartbeat => return,
            RequestKind::Establishment(cp_seid) => (cp_seid, BookedState::Unknown),
            RequestKind::Modification(cp_seid, _) => (cp_seid, BookedState::Live),
            RequestKind::Deletion(cp_seid) => (cp_seid, BookedState::Unknown),
        };
        book.unanswered += 1;
        if let Some(session) = book.sessions.get_mut(&cp_seid) {
            session.state = state;
            if let RequestKind::Modification(_, teid) = kind {
                session.possible_teids.push(teid);
            }
        }
        drop(book);
        if state == BookedState::Unknown {
            self.free_place(cp_seid);
        }
    }

    /// Frees the place of a session for a new one.
    fn free_place(&mut self, cp_seid: u64) {
        for place in self.held.iter_mut().chain(&mut self.changing) {
            if *place == Some(cp_seid) {
                *place = None;
            }
        }
    }

    fn send_heartbeat(&mut self, now_ms: u64) {
        let sequence = self.next_sequence();
        let octets = datagram(None, sequence, &HeartbeatRequest::new(self.started));
        self.send_request(now_ms, sequence, RequestKind::Heartbeat, octets);
    }

    /// Sends a request about one session, unless requests are stopped or the window is full.
    fn change(&mut self, now_ms: u64) {
        if self.orders.is_quiet.load(Ordering::Relaxed) || self.open.len() >= OPEN_REQUESTS_MAX {
            return;
        }
        if let Some(place) = self.held.iter().position(Option::is_none) {
            let cp_seid = self.establish(now_ms, true);
            self.held.iter_mut().skip(place).take(1).for_each(|held| *held = Some(cp_seid));
            return;
        }
        let at = self.rng.random_range(0..HELD_SESSIONS + CHANGING_SESSIONS);
        let held = self.held.get(at).copied().flatten();
        if let Some(cp_seid) = held {
            return self.modify(now_ms, cp_seid);
        }
        let place = at.saturating_sub(HELD_SESSIONS);
        match self.changing.get(place).copied().flatten() {
            None => {
                let cp_seid = self.establish(now_ms, false);
                self.changing.iter_mut().skip(place).take(1).for_each(|one| *one = Some(cp_seid));
            }
            Some(cp_seid) if self.rng.random_bool(0.6) => self.modify(now_ms, cp_seid),
            Some(cp_seid) => self.delete(now_ms, cp_seid),
        }
    }

    fn establish(&mut self, now_ms: u64, is_held: bool) -> u64 {
        self.cp_seid += 1;
        self.teid += 1;
        let cp_seid = self.cp_seid;
        let number = u32::try_from(cp_seid).unwrap_or(u32::MAX);
        let ue = Ipv4Addr::from_bits(UE_BASE.to_bits().wrapping_add(number));
        let is_chosen = cp_seid.is_multiple_of(3);
        let wish = RequestedSession {
            cp_seid: Seid(cp_seid),
            ue: (!is_chosen).then_some(ue),
            teid: Teid(self.teid),
        };
        let session = BookedSession {
            wish,
            state: BookedState::Establishing,
            up_seid: Seid(0),
            uplink_teid: Teid(0),
            ue: Ipv4Addr::UNSPECIFIED,
            teid: wish.teid,
            possible_teids: Vec::new(),
            is_held,
        };
        lock(&self.book).sessions.insert(cp_seid, session);
        let sequence = self.next_sequence();
        let octets = establishment(sequence, &wish);
        self.send_request(now_ms, sequence, RequestKind::Establishment(cp_seid), octets);
        cp_seid
    }

    /// Returns the UPF's SEID of a session that has no open request, and gives the session the
    /// state `next`.
    fn begin(&self, cp_seid: u64, next: BookedState) -> Option<Seid> {
        let mut book = lock(&self.book);
        let session = book.sessions.get_mut(&cp_seid)?;
        if session.state != BookedState::Live {
            return None;
        }
        session.state = next;
        Some(session.up_seid)
    }

    fn modify(&mut self, now_ms: u64, cp_seid: u64) {
        let Some(up_seid) = self.begin(cp_seid, BookedState::Modifying) else { return };
        self.teid += 1;
        let (teid, sequence) = (Teid(self.teid), self.next_sequence());
        let octets = handover(sequence, up_seid, teid);
        self.send_request(now_ms, sequence, RequestKind::Modification(cp_seid, teid), octets);
    }

    fn delete(&mut self, now_ms: u64, cp_seid: u64) {
        let Some(up_seid) = self.begin(cp_seid, BookedState::Deleting) else { return };
        let sequence = self.next_sequence();
        let octets = datagram(Some(up_seid), sequence, &SessionDeletionRequest::new());
        self.send_request(now_ms, sequence, RequestKind::Deletion(cp_seid), octets);
    }

    fn receive(&mut self, octets: &[u8], from: SocketAddr) {
        for raw in PfcpDatagram::new(octets).flatten() {
            let Ok(message) = Message::decode(&raw) else { continue };
            if raw.header.message_type.is_request() {
                self.answer(&raw, &message, from);
            } else {
                self.handle_answer(&raw, &message, octets);
            }
        }
    }

    fn answer(&self, raw: &RawMessage<'_>, message: &Message<'_>, from: SocketAddr) {
        let sequence = raw.header.sequence;
        let octets = match message {
            Message::HeartbeatRequest(_) => {
                datagram(None, sequence, &HeartbeatResponse::new(self.started))
            }
            Message::NodeReportRequest(_) => {
                let body = NodeReportResponse::new(NodeId::Ipv4(SMF), Cause::RequestAccepted);
                datagram(None, sequence, &body)
            }
            Message::SessionReportRequest(report) => {
                let cp_seid = raw.header.seid.map_or(0, |seid| seid.0);
                let mut book = lock(&self.book);
                let known = book.sessions.get(&cp_seid).map(|session| session.up_seid);
                let now_ms = self.timeline.now_ms();
                for usage in report.usage_reports.iter() {
                    let octets = usage.volume_measurement.and_then(|volume| volume.total);
                    book.note_usage(now_ms, cp_seid, usage.ur_seqn.0, octets.unwrap_or(0));
                }
                let cause = match known {
                    Some(_) => Cause::RequestAccepted,
                    None => Cause::SessionContextNotFound,
                };
                let up_seid = known.unwrap_or(Seid(0));
                datagram(Some(up_seid), sequence, &SessionReportResponse::new(cause))
            }
            _ => return,
        };
        self.send(&octets, from);
    }

    fn handle_answer(&mut self, raw: &RawMessage<'_>, message: &Message<'_>, octets: &[u8]) {
        let (now_ms, sequence) = (self.timeline.now_ms(), raw.header.sequence);
        if let Message::HeartbeatResponse(body) = message {
            self.open.remove(&sequence);
            return self.note_recovery(body.recovery_time_stamp.0);
        }
        if !lock(&self.book).note_answer(now_ms, sequence, octets) {
            return;
        }
        let Some(open) = self.open.remove(&sequence) else { return };
        let cause = match message {
            Message::AssociationSetupResponse(body) => {
                if body.cause.is_accepted() {
                    self.is_associated = true;
                    self.timeline.note(EventKind::Association, "smf", "is associated");
                    self.note_recovery(body.recovery_time_stamp.0);
                }
                return;
            }
            Message::SessionEstablishmentResponse(body) => body.cause,
            Message::SessionModificationResponse(body) => body.cause,
            Message::SessionDeletionResponse(body) => body.cause,
            _ => return,
        };
        let is_accepted = cause.is_accepted();
        let mut book = lock(&self.book);
        book.counted.push(CountedAnswer { at_ms: now_ms, is_accepted });
        if !is_accepted {
            *book.causes.entry(cause.to_string()).or_default() += 1;
        }
        drop(book);
        match (open.kind, message) {
            (RequestKind::Establishment(cp_seid), Message::SessionEstablishmentResponse(body))
                if is_accepted =>
            {
                self.note_established(now_ms, cp_seid, body);
            }
            (RequestKind::Deletion(cp_seid), Message::SessionDeletionResponse(body))
                if is_accepted =>
            {
                let mut book = lock(&self.book);
                for usage in body.usage_reports.iter() {
                    let octets = usage.volume_measurement.and_then(|volume| volume.total);
                    book.note_usage(now_ms, cp_seid, usage.ur_seqn.0, octets.unwrap_or(0));
                }
                drop(book);
                self.settle(cp_seid, BookedState::Deleted);
            }
            (RequestKind::Modification(cp_seid, teid), _) if is_accepted => {
                if let Some(session) = lock(&self.book).sessions.get_mut(&cp_seid) {
                    session.teid = teid;
                    session.possible_teids.clear();
                    session.state = BookedState::Live;
                }
            }
            (kind, _) => self.note_refusal(now_ms, kind, cause),
        }
    }

    fn note_refusal(&mut self, now_ms: u64, kind: RequestKind, cause: Cause) {
        let cp_seid = match kind {
            RequestKind::Setup | RequestKind::Heartbeat => return,
            RequestKind::Establishment(cp_seid) => {
                self.note_association(cause);
                return self.settle(cp_seid, BookedState::Refused);
            }
            RequestKind::Modification(cp_seid, _) | RequestKind::Deletion(cp_seid) => cp_seid,
        };
        self.note_association(cause);
        if cause == Cause::SessionContextNotFound {
            let text = format!("session {cp_seid} was acknowledged, and is unknown to the UPF");
            lock(&self.book).find(now_ms, FindingKind::Lost, text);
            return self.settle(cp_seid, BookedState::Lost);
        }
        self.settle(cp_seid, BookedState::Live);
    }

    fn note_association(&mut self, cause: Cause) {
        if cause == Cause::NoEstablishedAssociation && self.is_associated {
            self.is_associated = false;
            self.timeline.note(EventKind::Association, "smf", "is unknown to the UPF");
            lock(&self.book).associations_lost += 1;
        }
    }

    fn settle(&mut self, cp_seid: u64, state: BookedState) {
        if let Some(session) = lock(&self.book).sessions.get_mut(&cp_seid) {
            session.state = state;
        }
        if state != BookedState::Live {
            self.free_place(cp_seid);
        }
    }

    fn note_established(
        &mut self,
        now_ms: u64,
        cp_seid: u64,
        body: &SessionEstablishmentResponse<'_>,
    ) {
        let teid = body.created_pdrs.iter().find_map(|pdr| match pdr.local_f_teids.first() {
            Some(FTeid::Given { teid, .. }) => Some(teid),
            _ => None,
        });
        let chosen = body.created_pdrs.iter().find_map(|pdr| pdr.ue_ip_addresses.first()?.v4);
        let mut book = lock(&self.book);
        let Some(mut session) = book.sessions.get(&cp_seid).cloned() else { return };
        session.up_seid = body.up_f_seid.map_or(Seid(0), |f_seid| f_seid.seid);
        session.uplink_teid = teid.unwrap_or(Teid(0));
        session.ue = session.wish.ue.or(chosen).unwrap_or(Ipv4Addr::UNSPECIFIED);
        session.state = BookedState::Live;
        book.note_established(now_ms, &session);
        book.sessions.insert(cp_seid, session);
    }

    fn note_recovery(&self, stamp: u32) {
        let mut book = lock(&self.book);
        if book.recovery_time_stamp.replace(stamp).is_some_and(|before| before != stamp) {
            book.recovery_moves += 1;
            self.timeline.note(EventKind::Association, "upf", "has a new Recovery Time Stamp");
        }
    }
}
