//! The node: its entry points, and the dispatch of messages to procedures.
//!
//! A request first passes the response cache, then its procedure. The response to an accepted
//! change waits in `answers` until all workers have observed the change. Spec: TS 29.244 §6.4,
//! §7.6.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;
use std::hash::DefaultHasher;

use adit_pfcp::{Cause, Header, MessageBody, MessageType, PfcpDatagram, RawMessage};
use adit_rules::{DeltaId, RuleDelta, WorkerCommand};
use adit_session::{Session, SessionStore, UsageReport};
use adit_types::limits::{PENDING_MAX, PENDING_PER_PEER_MAX, PFCP_MESSAGE_BYTES_MAX};
use adit_types::{Nanos, Seid, SessionIndex};

use crate::admission::{Admission, RequestToAdmit};
use crate::answers::{Answers, Condition, EncodedResponse};
use crate::backlog::Backlog;
use crate::config::NodeConfig;
use crate::containment::{FaultPoint, Faults};
use crate::counters::N4Counters;
use crate::csid::own_set_key;
use crate::drain::Drains;
use crate::event::NodeEvent;
use crate::load::Load;
use crate::ntp::NtpClock;
use crate::path::Paths;
use crate::path_qos::PathQos;
use crate::peers::Peers;
use crate::records::{HeldAnswer, KeptAnswer, NodeRestoration, SetAsideSessions};
use crate::refusal::Rejected;
use crate::response_cache::{RequestKey, RequestStatus};
use crate::session_state::{ServiceCounts, SessionInformation};
use crate::sessions::{FollowUp, PendingChange, Sessions};
use crate::setup::Setups;
use crate::setup::canonical_address;
use crate::transaction::{OutgoingRequest, RequestPurpose, Transactions};
use crate::transmit::{AnsweredRequest, Transmit};
use crate::ue_pools::PoolUsage;

/// Maximum length of messages that we send. It suffices for a response with the maximum of Created
/// PDRs and Created Traffic Endpoints, with two addresses each, and the maximum of usage reports.
/// Unit: octets.
pub(crate) const OWN_MESSAGE_BYTES_MAX: usize = PFCP_MESSAGE_BYTES_MAX;

/// A message that is being processed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedMessage<'a> {
    pub now: Nanos,
    pub from: SocketAddr,
    pub header: Header,
    pub body: &'a [u8],
}

impl ReceivedMessage<'_> {
    pub(crate) fn peer(&self) -> IpAddr {
        self.from.ip()
    }

    pub(crate) fn key(&self) -> RequestKey {
        let mut digest = DefaultHasher::new();
        (self.header.seid, self.body).hash(&mut digest);
        RequestKey {
            port: self.from.port(),
            message_type: self.header.message_type.0,
            sequence: self.header.sequence,
            digest: digest.finish(),
        }
    }
}

/// The state of the node's shutdown.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    pub is_stopping: bool,
    /// When this node announces to CP functions that all sessions report their last usage.
    pub prepare_releases_at: Option<Nanos>,
}

/// A PFCP node in the role of a UP function.
///
/// After every `handle_*` call drain [`Node::poll_delta`], [`Node::poll_transmit`] and
/// [`Node::poll_event`]. [`Node::poll_timeout`] returns when to call [`Node::handle_timeout`].
#[derive(Debug)]
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) sessions: Sessions,
    /// Responses that wait until workers have observed a change, or until a job has ended.
    pub(crate) answers: Answers,
    pub(crate) peers: Peers,
    pub(crate) paths: Paths,
    pub(crate) path_qos: PathQos,
    pub(crate) transactions: Transactions<RequestPurpose>,
    pub(crate) events: VecDeque<NodeEvent>,
    pub(crate) counters: N4Counters,
    pub(crate) shutdown: Shutdown,
    pub(crate) load: Load,
    /// When errors of refused requests may be logged again; of node related and session related
    /// ones.
    pub(crate) next_finding: [Nanos; 2],
    /// When a refused report may be logged again.
    pub(crate) next_refused_report: Nanos,
    pub(crate) pool_usage: PoolUsage,
    pub(crate) drains: Drains,
    pub(crate) faults: Faults,
    pub(crate) backlog: Backlog,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) ntp_clock: NtpClock,
    /// The time of day when the node's clock was zero, as the first process of this node determined
    /// it. Unit: nanoseconds since 1900-01-01.
    pub(crate) clock_zero: u64,
    /// The latest Recovery Time Stamp that we have sent to any peer. Unit: seconds since 1900-01-01
    /// (NTP).
    pub(crate) latest_time_stamp: u32,
    /// The progress of restoring records; `None` once that is done.
    pub(crate) restoration: Option<NodeRestoration>,
    /// Sessions of previous processes that were not restored and stay in the store.
    pub(crate) set_aside: SetAsideSessions,
}

impl Node {
    /// Creates a node without peers. The first [`Node::handle_timeout`] starts the configured
    /// association setups.
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        let configured = config.connect.iter().map(|&peer| canonical_address(peer).ip()).collect();
        let admission = Admission::new(config.policy.clone(), configured, config.seed);
        Self {
            sessions: Sessions::new(config.store.clone(), own_set_key(&config), config.records),
            answers: Answers::default(),
            peers: Peers::new(Setups::new(&config.connect, config.t1), admission),
            paths: Paths::new(config.paths, config.store.seed),
            path_qos: PathQos::default(),
            transactions: Transactions::new(config.seed),
            events: VecDeque::new(),
            counters: N4Counters::default(),
            shutdown: Shutdown::default(),
            load: Load::default(),
            next_finding: [Nanos(0); 2],
            next_refused_report: Nanos(0),
            pool_usage: PoolUsage::default(),
            drains: Drains::new(),
            faults: Faults::default(),
            backlog: Backlog::new(),
            transmits: VecDeque::new(),
            scratch: vec![0; OWN_MESSAGE_BYTES_MAX],
            ntp_clock: NtpClock::from_seconds(config.recovery_time_stamp),
            clock_zero: 0,
            latest_time_stamp: config.recovery_time_stamp,
            restoration: None,
            set_aside: SetAsideSessions::default(),
            config,
        }
    }

    /// Handles a datagram that `from` sent to the PFCP socket. Never panics, whatever it contains.
    ///
    /// IPv4-mapped IPv6 addresses count as IPv4 addresses; [`Transmit::to`] is never such an
    /// address.
    pub fn handle_datagram(&mut self, now: Nanos, from: SocketAddr, bytes: &[u8]) {
        let from = canonical_address(from);
        self.counters.scalars.datagrams_received += 1;
        if !self.peers.admission.is_allowed(from.ip()) {
            self.counters.scalars.discarded_peer_not_allowed += 1;
            return;
        }
        if !self.postpone_if_restoring(from, bytes) {
            self.handle_messages(now, from, bytes);
        }
    }

    pub(crate) fn handle_messages(&mut self, now: Nanos, from: SocketAddr, bytes: &[u8]) {
        let mut datagram = PfcpDatagram::new(bytes);
        loop {
            let rest = datagram.remaining();
            match datagram.next() {
                None => return,
                Some(Ok(RawMessage { header, body })) => {
                    self.counters.count_received(header.message_type);
                    if self.admits(now, from, &header) {
                        self.handle_contained(&ReceivedMessage { now, from, header, body });
                        self.advance_jobs(now);
                    }
                }
                Some(Err(_)) if !self.take_request_token(now, from, RequestToAdmit::Unreadable) => {
                }
                Some(Err(error)) => {
                    let start = bytes.len().saturating_sub(rest);
                    let rest = bytes.get(start..).unwrap_or_default();
                    self.handle_header_error(now, from, error, rest);
                }
            }
        }
    }

    /// Notes that all workers have observed the change `id`: sends its response and frees the
    /// objects that the change removed. Call it in the order in which [`Node::poll_delta`] returned
    /// the changes.
    pub fn handle_published(&mut self, now: Nanos, id: DeltaId) {
        if let Some(change) = self.sessions.take_observed(id) {
            let faults = self.counters.scalars.faults;
            self.run_contained("an observed change", |node| node.complete_change(now, id, change));
            if self.counters.scalars.faults != faults {
                self.abandon_answers(Condition::Observed(id));
            }
        }
        self.end_jobs_through(now, id);
    }

    fn complete_change(&mut self, now: Nanos, id: DeltaId, change: PendingChange) {
        self.fail_if_injected(FaultPoint::Published);
        let PendingChange { up_seid, session, mut usage, follow_up, .. } = change;
        // Workers have stopped counting for removed rules, so their final counts can be read.
        usage.extend(self.sessions.reclaim(now, id, session));
        if self.restoration.is_some() && self.sessions.store().session_at(session).is_none() {
            self.restore_waiting_for_index(now, session);
        }
        match follow_up {
            FollowUp::Nothing => {
                self.append_usage(id, usage, false);
                self.meet(now, Condition::Observed(id));
            }
            FollowUp::ReportUsage(later) => {
                self.append_usage(id, usage, false);
                self.meet(now, Condition::Observed(id));
                self.report_overflow_later(now, up_seid, later);
            }
            FollowUp::Deleted { packet_rates, overflow } => {
                let rest = self.append_usage(id, usage, overflow.is_some());
                self.append_packet_rates(now, id, &packet_rates);
                self.meet(now, Condition::Observed(id));
                if let Some(ended) = overflow.filter(|_| !rest.is_empty()) {
                    self.report_overflow_usage(now, up_seid, ended, rest);
                }
            }
            FollowUp::ReportLastUsage => {
                self.report_last_usage(now, up_seid, usage);
                self.meet(now, Condition::Observed(id));
            }
        }
    }

    /// Notes that a condition is met, and sends the responses that wait for nothing else.
    pub(crate) fn meet(&mut self, now: Nanos, condition: Condition) {
        for response in self.answers.meet(condition) {
            self.deliver(now, response, true);
        }
    }

    /// Drops the responses that wait for a condition. A retransmitted request then runs again.
    fn abandon_answers(&mut self, condition: Condition) {
        for EncodedResponse { peer, key, .. } in self.answers.drop_awaiting(condition) {
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.cache.abandon(&key);
            }
        }
    }

    /// Sends usage that did not fit into a response in later Session Report Requests. If the
    /// session was deleted meanwhile, adds the usage to the session's last usage.
    fn report_overflow_later(&mut self, now: Nanos, up_seid: Seid, later: Vec<UsageReport>) {
        let is_gone = !later.is_empty() && self.sessions.store().session(up_seid).is_none();
        // No report may be sent after the response that ends the session, so the usage goes into
        // it.
        let answers = &self.answers;
        let ends = |(id, change): &(DeltaId, &mut PendingChange)| {
            matches!(change.follow_up, FollowUp::ReportLastUsage)
                || answers.is_awaited(Condition::Observed(*id))
        };
        let deletion =
            self.sessions.pending_changes_of(up_seid).find(|change| is_gone && ends(change));
        if let Some((_, deletion)) = deletion {
            deletion.usage.splice(..0, later);
            return;
        }
        self.report_usage(now, up_seid, later);
    }

    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// True if [`Node::poll_transmit`] has a datagram to send.
    #[must_use]
    pub fn has_transmit(&self) -> bool {
        !self.transmits.is_empty()
    }

    /// Publishes the rules of a session again without a change, so that an offload gets its
    /// entries.
    pub fn republish(&mut self, session: SessionIndex) {
        let _ = self.sessions.republish(session);
    }

    /// Returns the next command to send to any one worker.
    pub fn poll_command(&mut self) -> Option<WorkerCommand> {
        let echo = self.paths.poll_command();
        let mut command = echo.or_else(|| self.path_qos.poll_command())?;
        if let WorkerCommand::SendEchoRequest { peer, interfaces, .. } = &mut command {
            *interfaces = self.sessions.store().peer_interfaces(*peer);
        }
        Some(command)
    }

    /// Returns the next command to send to every worker before the change `id` is published.
    pub fn poll_command_before(&mut self, id: DeltaId) -> Option<WorkerCommand> {
        let command = self.sessions.poll_command_before(id)?;
        self.counters.scalars.end_markers_commanded += 1;
        Some(command)
    }

    /// Returns the next change to publish, in order. First send the commands that
    /// [`Node::poll_command_before`] returns for it.
    pub fn poll_delta(&mut self) -> Option<(DeltaId, RuleDelta)> {
        self.sessions.poll_delta()
    }

    /// Returns the next event to log.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    /// Returns when to call [`Node::handle_timeout`] next; `None` if nothing is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if self.is_following() {
            let has_work = self.has_records_to_follow() || self.has_job_to_do();
            return has_work.then_some(Nanos(0));
        }
        let lifetime = self.config.retransmission().span();
        [
            self.transactions.poll_timeout(),
            self.peers.setups.poll_timeout().filter(|_| !self.shutdown.is_stopping),
            self.peers.next_heartbeat(),
            self.sessions.states.next_delayed_notice(),
            self.sessions.states.next_report_pause(),
            self.sessions.states.has_more_reports().then_some(Nanos(0)),
            self.next_path_deadline(),
            self.path_qos.next_deadline(),
            self.sessions.states.next_buffering_end(),
            self.next_pool_usage(),
            self.sessions.store().usage_timeout(),
            self.next_drain_deadline(),
            self.shutdown.prepare_releases_at,
            self.next_late_release(),
            self.next_node_report(),
            self.next_silent_end(),
            self.peers.next_idle_expiry(lifetime),
            (self.has_job_to_do() || self.has_drain_to_do()).then_some(Nanos(0)),
            self.next_usage_record(),
            self.next_rewrite(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the session store.
    #[must_use]
    pub const fn store(&self) -> &SessionStore {
        self.sessions.store()
    }

    /// Returns the session store, to change it without requests. For tests.
    #[doc(hidden)]
    pub const fn store_mut(&mut self) -> &mut SessionStore {
        self.sessions.store_mut()
    }

    /// Returns information about the session `up_seid` that the CP function sent; `None` if it sent
    /// none.
    #[must_use]
    pub fn session_information(&self, up_seid: Seid) -> Option<&SessionInformation> {
        let index = self.store().session(up_seid)?.index();
        self.sessions.states.information(index)
    }

    /// Updates the information about a session with what the CP function sent.
    pub(crate) fn update_information(&mut self, up_seid: Seid, news: SessionInformation) {
        if let Some(index) = self.store().session(up_seid).map(Session::index) {
            self.sessions.states.update_information(index, news);
        }
    }

    /// Returns how many sessions there are for each DNN and S-NSSAI that CP functions sent.
    #[must_use]
    pub const fn services(&self) -> &ServiceCounts {
        self.sessions.states.services()
    }

    /// Returns how many responses wait for workers or for jobs.
    #[must_use]
    pub fn waiting_answer_count(&self) -> usize {
        self.answers.len()
    }

    /// Sets the address of the CP function at index `position` of [`NodeConfig::connect`], to which
    /// its name now resolves. Has no effect while it has an association at its previous address.
    pub fn set_configured_peer(&mut self, now: Nanos, position: usize, to: SocketAddr) {
        let to = canonical_address(to);
        if let Some(former) = self.peers.setups.move_to(now, position, to) {
            self.peers.admission.move_configured(former.ip(), to.ip());
        }
    }

    /// True if `peer` is an address of an association, alternative ones included, or of a
    /// configured peer.
    #[must_use]
    pub fn is_known(&self, peer: IpAddr) -> bool {
        self.peers.is_known(peer)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> &N4Counters {
        &self.counters
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// Returns how many changes some worker has not observed yet, plus how many jobs are open, plus
    /// one while followed records wait to take effect.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        let changes = self.sessions.pending_len() + self.backlog.open_job_count();
        changes + usize::from(self.has_records_to_follow())
    }

    /// Returns how many responses, of all peers, are kept for retransmitted requests.
    #[must_use]
    pub fn response_cache_len(&self) -> usize {
        self.peers.kept_response_count()
    }

    /// Takes a token for a request; false if there is none. Responses answer our own requests and
    /// need none.
    fn admits(&mut self, now: Nanos, from: SocketAddr, header: &Header) -> bool {
        let request = match header.message_type {
            MessageType::HEARTBEAT_REQUEST => RequestToAdmit::Heartbeat(header.sequence),
            MessageType::ASSOCIATION_SETUP_REQUEST => RequestToAdmit::Setup(header.sequence),
            other if other.info().is_some_and(|info| !info.is_request) => return true,
            _ => RequestToAdmit::Other(header.sequence),
        };
        self.take_request_token(now, from, request)
    }

    fn take_request_token(
        &mut self,
        now: Nanos,
        from: SocketAddr,
        request: RequestToAdmit,
    ) -> bool {
        let admitted = self.peers.admit(now, from, request);
        self.counters.scalars.discarded_over_rate += u64::from(!admitted);
        admitted
    }

    pub(crate) fn handle_message(&mut self, request: &ReceivedMessage<'_>) {
        self.fail_if_injected(FaultPoint::Start);
        match request.header.message_type {
            MessageType::HEARTBEAT_REQUEST => self.handle_heartbeat_request(request),
            MessageType::HEARTBEAT_RESPONSE => self.handle_heartbeat_response(request),
            MessageType::ASSOCIATION_SETUP_REQUEST => {
                self.run_once(request, Self::handle_association_setup);
            }
            MessageType::ASSOCIATION_SETUP_RESPONSE => {
                self.handle_association_setup_response(request);
            }
            MessageType::ASSOCIATION_UPDATE_REQUEST => {
                self.run_once(request, Self::handle_association_update);
            }
            MessageType::ASSOCIATION_RELEASE_REQUEST => {
                self.run_once(request, Self::handle_association_release);
            }
            MessageType::PFD_MANAGEMENT_REQUEST => {
                self.run_once(request, Self::handle_pfd_management);
            }
            MessageType::SESSION_SET_DELETION_REQUEST => {
                self.run_once(request, Self::handle_session_set_deletion);
            }
            MessageType::SESSION_SET_MODIFICATION_REQUEST => {
                self.run_once(request, Self::handle_session_set_modification);
            }
            MessageType::SESSION_ESTABLISHMENT_REQUEST => {
                self.run_once(request, Self::handle_session_establishment);
            }
            MessageType::SESSION_MODIFICATION_REQUEST => {
                self.run_once(request, Self::handle_session_modification);
            }
            MessageType::SESSION_DELETION_REQUEST => {
                self.run_once(request, Self::handle_session_deletion);
            }
            MessageType::SESSION_REPORT_RESPONSE => self.handle_session_report_response(request),
            MessageType::ASSOCIATION_UPDATE_RESPONSE => {
                self.handle_association_update_response(request);
            }
            MessageType::NODE_REPORT_RESPONSE => self.handle_node_report_response(request),
            MessageType::SESSION_SET_DELETION_RESPONSE => {
                self.handle_session_set_deletion_response(request);
            }
            MessageType::PFD_MANAGEMENT_RESPONSE
            | MessageType::ASSOCIATION_RELEASE_RESPONSE
            | MessageType::VERSION_NOT_SUPPORTED_RESPONSE
            | MessageType::SESSION_ESTABLISHMENT_RESPONSE
            | MessageType::SESSION_MODIFICATION_RESPONSE
            | MessageType::SESSION_DELETION_RESPONSE => {
                self.counters.scalars.discarded_unmatched_response += 1;
            }
            _ => self.counters.scalars.discarded_unknown_type += 1,
        }
    }

    /// Runs `procedure`, unless the request is a retransmission: then sends the same response
    /// again, or nothing while the response still waits for its conditions. Spec: TS 29.244 §6.4.
    fn run_once(
        &mut self,
        request: &ReceivedMessage<'_>,
        procedure: fn(&mut Self, &ReceivedMessage<'_>),
    ) {
        let lifetime = self.config.retransmission().span();
        if self.peers.is_alias(request.peer()) {
            self.peers.entry(request.peer());
        }
        let Some(peer) = self.peers.get_mut(request.peer()) else {
            if let Some(refusal) = self.store_refusal(request) {
                return self.refuse_without_store(request, refusal);
            }
            return procedure(self, request);
        };
        peer.cache.expire(request.now, lifetime);
        let is_full_of_pending = peer.cache.is_full_of_pending();
        match peer.cache.find(request.now, lifetime, &request.key()) {
            RequestStatus::New => {
                if let Some(rejected) = self.refusal_to_wait(is_full_of_pending) {
                    self.counters.scalars.refused_pending_full += 1;
                    return self.refuse_at_once(request, rejected);
                }
                match self.store_refusal(request) {
                    Some(refusal) => self.refuse_without_store(request, refusal),
                    None => procedure(self, request),
                }
            }
            RequestStatus::InProgress => {
                peer.cache.note_copy(request.now, &request.key());
                self.counters.scalars.retransmissions_in_progress += 1;
            }
            RequestStatus::Answered(bytes) => {
                let bytes = bytes.to_vec();
                self.counters.scalars.retransmissions_replayed += 1;
                let message_type = MessageType(bytes.get(1).copied().unwrap_or_default());
                // The store already has the reported changes, since the first response waited for
                // them.
                self.counters.count_sent(message_type);
                self.transmits.push_back(Transmit { to: request.from, bytes, answers: None });
            }
        }
    }

    /// Returns a refusal if too many requests wait for their answers.
    fn refusal_to_wait(&self, is_full_of_pending: bool) -> Option<Rejected> {
        let (of_peer, of_all) = (PENDING_PER_PEER_MAX, PENDING_MAX);
        if is_full_of_pending {
            return Some(Rejected::beyond_limit(
                "requests of one peer that wait for workers",
                of_peer,
            ));
        }
        if self.answers.len() >= of_all {
            return Some(Rejected::beyond_limit("requests that wait for workers", of_all));
        }
        let held = "too many messages wait for the store";
        let is_full_of_held = self.sessions.records.is_full_of_held();
        is_full_of_held.then_some(Rejected::new(Cause::NoResourcesAvailable, held))
    }

    /// Sends the response to a request once all `conditions` are met; at once if all are.
    pub(crate) fn respond<'m, M: MessageBody<'m>>(
        &mut self,
        request: &ReceivedMessage<'_>,
        seid: Option<Seid>,
        body: &M,
        conditions: impl IntoIterator<Item = Condition>,
    ) {
        let Some(bytes) = self.encode(seid, request.header.sequence, body) else { return };
        let (peer, to, key) = (request.peer(), request.from, request.key());
        let (message_type, received) = (M::TYPE, request.now);
        let open = conditions.into_iter().filter(|condition| self.is_open(*condition));
        let open: Vec<Condition> = open.collect();
        let session = self.session_of_request(request, &open);
        let response = EncodedResponse { peer, to, key, message_type, bytes, received, session };
        if open.is_empty() {
            return self.deliver(request.now, response, false);
        }
        self.answers.hold(response, open);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.cache.begin(received, key);
        }
    }

    /// Returns the session that a request concerns, if it concerns exactly one; `open`: the
    /// conditions that its answer waits for.
    fn session_of_request(
        &self,
        request: &ReceivedMessage<'_>,
        open: &[Condition],
    ) -> Option<Seid> {
        let established = open.iter().find_map(|condition| match condition {
            Condition::Observed(id) => self.sessions.pending(*id).map(|change| change.up_seid),
            Condition::JobEnded(_) => None,
        });
        match request.header.message_type {
            MessageType::SESSION_ESTABLISHMENT_REQUEST => established,
            MessageType::SESSION_MODIFICATION_REQUEST | MessageType::SESSION_DELETION_REQUEST => {
                request.header.seid
            }
            _ => None,
        }
    }

    fn is_open(&self, condition: Condition) -> bool {
        match condition {
            Condition::Observed(id) => self.sessions.is_pending(id),
            Condition::JobEnded(job) => self.backlog.is_open(job),
        }
    }

    /// Drops the response to `request` that waits, if any.
    pub(crate) fn forget_answer(&mut self, request: &ReceivedMessage<'_>) {
        let (peer, key) = (request.peer(), request.key());
        self.answers.drop_all(|response| response.peer == peer && response.key == key);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.cache.abandon(&key);
        }
    }

    /// Sends a response that has no unmet conditions, and keeps it for retransmissions if the peer
    /// is known. `has_waited`: true if it had to wait for conditions.
    fn deliver(&mut self, now: Nanos, answer: EncodedResponse, has_waited: bool) {
        let EncodedResponse { peer, to, key, message_type, bytes, received, session } = answer;
        let owner = self.peers.association_for(peer).map(|association| association.owner);
        let mut answered = None;
        if self.peers.get(peer).is_some() {
            let kept = KeptAnswer { at: now, owner, peer, key, octets: &bytes };
            let number = self.sessions.records.note_answer(has_waited, session, kept);
            answered = Some(HeldAnswer { peer, key, number });
        }
        let request = MessageType(key.message_type);
        self.counters.count_answer(request, &bytes);
        self.counters.count_sent(message_type);
        let answers = Some(AnsweredRequest { message_type: request, received });
        let transmit = Transmit { to, bytes, answers };
        self.note_changed_usage();
        if answered.is_none() && self.discard_for_full_store() {
            return;
        }
        match self.sessions.records.hold(transmit, answered) {
            Some(transmit) => {
                if let Some(answered) = answered {
                    self.remember(now, answered, &transmit.bytes);
                }
                self.transmits.push_back(transmit);
            }
            None => {
                if let Some(known) = self.peers.get_mut(peer) {
                    known.cache.hold(received, key);
                }
            }
        }
    }

    /// True, and counted, if a response that is not kept must be discarded, because too many
    /// messages wait for the store. The peer will retransmit the request.
    fn discard_for_full_store(&mut self) -> bool {
        let is_full = self.sessions.records.is_full_of_held();
        self.counters.scalars.discarded_store_waits += u64::from(is_full);
        is_full
    }

    /// Keeps an answer that is being sent, to send it again when its request is retransmitted.
    pub(crate) fn remember(&mut self, now: Nanos, answered: HeldAnswer, bytes: &[u8]) {
        if let Some(known) = self.peers.get_mut(answered.peer) {
            self.counters.scalars.response_cache_evicted +=
                known.cache.answer(now, answered.key, answered.number, bytes.to_vec());
        }
    }

    /// Sends a request of this node with the configured retransmission timers.
    pub(crate) fn send_request<'m, M: MessageBody<'m>>(
        &mut self,
        now: Nanos,
        to: SocketAddr,
        body: &M,
        purpose: RequestPurpose,
    ) {
        let timers = self.config.retransmission();
        self.send_own(now, OutgoingRequest { to, seid: None, purpose, timers }, body);
    }

    /// Sends a request, and keeps it until it is answered or has failed. Returns its sequence
    /// number; `None` if the message would be too long.
    pub(crate) fn send_own<'m, M: MessageBody<'m>>(
        &mut self,
        now: Nanos,
        request: OutgoingRequest<RequestPurpose>,
        body: &M,
    ) -> Option<u32> {
        let sequence = self.transactions.reserve_sequence();
        let bytes = self.encode(request.seid, sequence, body)?;
        self.transactions.insert(now, sequence, request, bytes.clone());
        self.transmit(M::TYPE, request.to, bytes);
        if M::TYPE != MessageType::HEARTBEAT_REQUEST {
            self.transactions.set_group(sequence, self.sessions.records.last_awaited());
        }
        Some(sequence)
    }

    /// Counts and logs the refusal of a request.
    pub(crate) fn note_refused(&mut self, request: &ReceivedMessage<'_>, rejected: Rejected) {
        self.counters.count_refused(rejected.cause);
        self.log_refusal(request, rejected);
    }

    /// Sends a message once the store has all earlier changes. Keeps no answer for retransmissions.
    pub(crate) fn transmit(&mut self, message_type: MessageType, to: SocketAddr, bytes: Vec<u8>) {
        self.transmit_when_durable(message_type, Transmit { to, bytes, answers: None });
    }

    /// Does the same as [`Self::transmit`] for the first response to a request.
    fn transmit_answer(
        &mut self,
        message_type: MessageType,
        to: SocketAddr,
        bytes: Vec<u8>,
        request: AnsweredRequest,
    ) {
        self.counters.count_answer(request.message_type, &bytes);
        self.transmit_when_durable(message_type, Transmit { to, bytes, answers: Some(request) });
    }

    /// Notes that the response to `answered` was sent at `now`, for the histogram of response
    /// times.
    pub fn note_sent(&mut self, now: Nanos, answered: AnsweredRequest) {
        self.counters.add_duration(answered.message_type, now.since(answered.received));
    }

    fn transmit_when_durable(&mut self, message_type: MessageType, transmit: Transmit) {
        self.counters.count_sent(message_type);
        let heartbeats = [MessageType::HEARTBEAT_REQUEST, MessageType::HEARTBEAT_RESPONSE];
        if heartbeats.contains(&message_type) {
            return self.transmits.push_back(transmit);
        }
        self.note_changed_usage();
        if transmit.answers.is_some() && self.discard_for_full_store() {
            return;
        }
        self.transmits.extend(self.sessions.records.hold(transmit, None));
    }

    /// Sends a response without keeping it, for requests that may safely run twice.
    pub(crate) fn respond_unremembered<'m, M: MessageBody<'m>>(
        &mut self,
        request: &ReceivedMessage<'_>,
        body: &M,
    ) {
        if let Some(bytes) = self.encode(None, request.header.sequence, body) {
            let (message_type, received) = (request.header.message_type, request.now);
            let answered = AnsweredRequest { message_type, received };
            self.transmit_answer(M::TYPE, request.from, bytes, answered);
        }
    }

    fn encode<'m, M: MessageBody<'m>>(
        &mut self,
        seid: Option<Seid>,
        sequence: u32,
        body: &M,
    ) -> Option<Vec<u8>> {
        match adit_pfcp::encode(&mut self.scratch, seid, sequence, body) {
            Ok(len) => Some(self.scratch.get(..len)?.to_vec()),
            Err(adit_pfcp::NoRoom) => {
                self.counters.scalars.responses_too_long += 1;
                None
            }
        }
    }
}
