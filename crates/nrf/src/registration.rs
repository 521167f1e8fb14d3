//! The state machine of a registration: which request is next, and what each answer changes.
//!
//! The caller alternates: [`Registration::poll`] returns a request, [`Registration::handle`] takes
//! its answer. One request is open at a time; every failure delays the next request.

mod operation;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use adit_types::Nanos;

use crate::answer::{NrfAnswer, NrfFault};
use crate::instance_id::NfInstanceUuid;
use crate::profile::{NfProfile, NfStatus};
use crate::server::{NrfServer, resolve_location};
use crate::state::{NrfCounters, NrfPhase, NrfServerState, NrfState};
pub(crate) use operation::NrfRequest;
use operation::{Operation, OperationKind};

/// Time between heartbeats if the NRF sets none.
const HEARTBEAT_DEFAULT: Nanos = Nanos::from_secs(10);
/// The longest time between heartbeats.
const HEARTBEAT_MAX: Nanos = Nanos::from_secs(3600);
/// Pause after a first failure; doubled after each further failure.
const PAUSE_MIN: Nanos = Nanos::from_secs(1);
/// The longest pause that the client chooses by itself.
const PAUSE_MAX: Nanos = Nanos::from_secs(60);
/// The longest pause that an NRF may ask for.
const RETRY_AFTER_MAX: Nanos = Nanos::from_secs(300);
/// Consecutive failed updates after which the UPF registers anew, at another NRF or at the same.
const UPDATE_FAILURES_MAX: u32 = 2;
/// Every such heartbeat replaces the whole profile. Some NRFs accept heartbeats of a UPF that they
/// have lost; they have it again then.
const HEARTBEATS_PER_REPLACEMENT: u64 = 30;
/// Most redirections of one request.
const REDIRECTS_MAX: u8 = 3;
/// A token is renewed this long before it expires.
const TOKEN_MARGIN: Nanos = Nanos::from_secs(5);

/// The state of the UPF that is announced to the NRF.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announcement {
    /// `None` while nothing is to be sent: on a standby, while sessions are restored, and while
    /// another process may serve as the same UPF.
    pub profile: Option<Arc<NfProfile>>,
    /// True while the operator drains the UPF: no SMF is to discover it.
    pub is_draining: bool,
    /// Load of the UPF. A change waits for the next heartbeat. Unit: percent.
    pub load: u8,
    /// How the client is to end; `None` while it runs.
    pub end: Option<ClientEnd>,
}

/// How a client ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEnd {
    /// Deregisters: the UPF ends.
    Deregister,
    /// Keeps the registration: another process continues as the same UPF.
    Keep,
}

/// Settings that stay while the client runs.
#[derive(Debug, Clone)]
pub struct NrfClientConfig {
    /// NRFs, the preferred one first.
    pub servers: Vec<NrfServer>,
    /// The identity of the UPF.
    pub instance: NfInstanceUuid,
    /// True if requests carry access tokens that the NRF grants. Spec: TS 33.501 §13.4.1.
    pub uses_tokens: bool,
    /// Time between heartbeats that the UPF proposes, in whole seconds; `None` to propose none.
    pub heartbeat: Option<Nanos>,
}

/// A change of the registration, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NrfEvent {
    Registered { server: String, heartbeat: Nanos },
    Forgotten { server: String },
    Deregistered { server: String },
    Failed { server: String, problem: String },
}

#[derive(Debug)]
pub(crate) struct Registration {
    settings: NrfClientConfig,
    servers: Vec<ServerRecord>,
    held: Option<HeldRegistration>,
    /// The request that is open, or is sent next.
    operation: Option<Operation>,
    token: Option<AccessToken>,
    counters: NrfCounters,
    events: VecDeque<NrfEvent>,
    has_ended: bool,
}

#[derive(Debug)]
struct ServerRecord {
    state: NrfServerState,
    /// No registration is tried at this NRF before this time.
    not_before: Nanos,
}

/// The registration that an NRF has accepted.
#[derive(Debug)]
struct HeldRegistration {
    server: usize,
    resource: String,
    content: RequestContent,
    heartbeat: Nanos,
    next_heartbeat: Nanos,
    /// No update is tried before this time.
    not_before: Nanos,
    failures: u32,
    /// Updates since the registration.
    updates: u64,
}

/// The state of the UPF that a request carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestContent {
    profile: Arc<NfProfile>,
    status: NfStatus,
    load: u8,
}

#[derive(Debug)]
struct AccessToken {
    text: String,
    server: usize,
    until: Nanos,
}

impl Registration {
    pub(crate) fn new(settings: NrfClientConfig) -> Self {
        let record = |server: &NrfServer| ServerRecord {
            state: NrfServerState { uri: server.to_string(), problem: None, failures: 0 },
            not_before: Nanos(0),
        };
        Self {
            servers: settings.servers.iter().map(record).collect(),
            settings,
            held: None,
            operation: None,
            token: None,
            counters: NrfCounters::default(),
            events: VecDeque::new(),
            has_ended: false,
        }
    }

    /// Returns the next request, if it is time for one. [`Self::handle`] takes its answer.
    pub(crate) fn poll(&mut self, now: Nanos, announced: &Announcement) -> Option<NrfRequest> {
        if self.operation.is_none() {
            self.operation = self.next_operation(now, announced);
        }
        let operation = self.operation.as_mut()?;
        let server = operation.server;
        let token = self.token.as_ref().filter(|of| of.server == server && of.until > now);
        let may_have_token = self.settings.uses_tokens && operation.token_refusal.is_none();
        operation.requests_token = may_have_token && token.is_none();
        if operation.requests_token {
            let root = self.settings.servers.get(server)?;
            return Some(NrfRequest::token(root, self.settings.instance));
        }
        let held = self.held.as_ref().map(|held| &held.content);
        let token = token.map(|of| of.text.clone());
        Some(operation.request(held, self.settings.instance, self.settings.heartbeat, token))
    }

    fn next_operation(&mut self, now: Nanos, announced: &Announcement) -> Option<Operation> {
        match announced.end {
            Some(ClientEnd::Deregister) if !self.has_ended => {
                let HeldRegistration { server, resource, content, .. } = self.held.take()?;
                return Some(Operation::new(
                    OperationKind::Deregister,
                    server,
                    resource,
                    content,
                    now,
                ));
            }
            Some(_) => return None,
            None => {}
        }
        let content = RequestContent {
            profile: Arc::clone(announced.profile.as_ref()?),
            status: if announced.is_draining {
                NfStatus::Undiscoverable
            } else {
                NfStatus::Registered
            },
            load: announced.load.min(100),
        };
        let Some(held) = &self.held else {
            let server = self.servers.iter().position(|server| server.not_before <= now)?;
            let uri = self.settings.servers.get(server)?.instance_uri(self.settings.instance);
            return Some(Operation::new(OperationKind::Register, server, uri, content, now));
        };
        let is_due = now >= held.next_heartbeat || held.failures > 0;
        let is_wanted = is_due || held.content.is_outdated(&content);
        (is_wanted && now >= held.not_before).then(|| {
            let replaces = (held.updates + 1).is_multiple_of(HEARTBEATS_PER_REPLACEMENT);
            let kind = if replaces { OperationKind::Replace } else { OperationKind::Update };
            Operation::new(kind, held.server, held.resource.clone(), content, now)
        })
    }

    /// Returns the time at which [`Self::poll`] may return a request without a new announcement.
    pub(crate) fn next_time(&self, announced: &Announcement) -> Nanos {
        if announced.end.is_some() || announced.profile.is_none() {
            return Nanos::NEVER;
        }
        match &self.held {
            Some(held) if held.failures > 0 => held.not_before,
            Some(held) => held.next_heartbeat.max(held.not_before),
            None => {
                let times = self.servers.iter().map(|server| server.not_before);
                times.min().unwrap_or(Nanos::NEVER)
            }
        }
    }

    /// Handles the answer to the last request.
    pub(crate) fn handle(&mut self, now: Nanos, answer: Result<NrfAnswer, NrfFault>) {
        let Some(mut operation) = self.operation.take() else { return };
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => return self.fail(now, operation, fault.to_string(), None),
        };
        if operation.requests_token {
            return self.take_token(now, operation, &answer);
        }
        match answer.status {
            200..=299 => self.succeed(now, &operation, &answer),
            307 | 308 => self.redirect(now, operation, &answer),
            401 if operation.may_renew_token && self.token.is_some() => {
                self.token = None;
                operation.may_renew_token = false;
                self.operation = Some(operation);
            }
            404 if operation.kind.is_update() => {
                self.counters.forgotten += 1;
                self.held = None;
                let server = self.uri(operation.server);
                self.events.push_back(NrfEvent::Forgotten { server });
            }
            404 | 410 if operation.kind == OperationKind::Deregister => {
                self.succeed(now, &operation, &answer);
            }
            _ => self.refuse(now, operation, &answer),
        }
    }

    /// Gives up the open request. Keeps a registration, which may have reached the NRF, to
    /// deregister it.
    pub(crate) fn abandon(&mut self) {
        let Some(operation) = self.operation.take() else { return };
        if operation.kind == OperationKind::Register {
            self.held =
                Some(HeldRegistration::new(&operation, operation.uri.clone(), Nanos::NEVER));
        }
    }

    fn succeed(&mut self, now: Nanos, operation: &Operation, answer: &NrfAnswer) {
        let server = self.uri(operation.server);
        if let Some(record) = self.servers.get_mut(operation.server) {
            record.state = NrfServerState { uri: server.clone(), problem: None, failures: 0 };
            record.not_before = now;
        }
        let heartbeat =
            answer.heartbeat_s().map(|seconds| Nanos::from_secs(seconds).min(HEARTBEAT_MAX));
        match operation.kind {
            OperationKind::Replace if answer.status == 201 => {
                self.counters.forgotten += 1;
                self.events.push_back(NrfEvent::Forgotten { server: server.clone() });
                self.register(operation, answer, server, heartbeat);
            }
            OperationKind::Register => self.register(operation, answer, server, heartbeat),
            OperationKind::Update | OperationKind::Replace => {
                self.counters.updates += 1;
                let Some(held) = &mut self.held else { return };
                let (heartbeat, updates) = (heartbeat.unwrap_or(held.heartbeat), held.updates + 1);
                *held = HeldRegistration::new(operation, held.resource.clone(), heartbeat);
                held.updates = updates;
            }
            OperationKind::Deregister => {
                self.has_ended = true;
                self.events.push_back(NrfEvent::Deregistered { server });
            }
        }
    }

    /// Notes a registration that the NRF at `server` has accepted. `heartbeat`: the time that it
    /// sets.
    fn register(
        &mut self,
        operation: &Operation,
        answer: &NrfAnswer,
        server: String,
        heartbeat: Option<Nanos>,
    ) {
        self.counters.registrations += 1;
        let location = answer.location.as_ref();
        let resource = location.and_then(|location| resolve_location(&operation.uri, location));
        let resource = resource.unwrap_or_else(|| operation.uri.clone());
        let heartbeat = heartbeat.or(self.settings.heartbeat).unwrap_or(HEARTBEAT_DEFAULT);
        self.held = Some(HeldRegistration::new(operation, resource, heartbeat));
        self.events.push_back(NrfEvent::Registered { server, heartbeat });
    }

    /// Follows a redirection; a permanent one (308) also applies to later requests. Spec: TS 29.500
    /// §6.10.9.
    fn redirect(&mut self, now: Nanos, mut operation: Operation, answer: &NrfAnswer) {
        let location = answer.location.as_deref();
        let uri = location.and_then(|location| resolve_location(&operation.uri, location));
        let Some(uri) = uri.filter(|_| operation.redirects < REDIRECTS_MAX) else {
            return self.refuse(now, operation, answer);
        };
        self.counters.redirects += 1;
        operation.redirects += 1;
        operation.uri.clone_from(&uri);
        if let Some(held) = self.held.as_mut().filter(|_| answer.status == 308) {
            held.resource = uri;
        }
        self.operation = Some(operation);
    }

    /// Stores a granted token. If the token is denied, a registration is sent without one: some
    /// NRFs, such as free5GC's, grant tokens to registered network functions only, and register
    /// without.
    fn take_token(&mut self, now: Nanos, operation: Operation, answer: &NrfAnswer) {
        let is_denied = matches!(answer.status, 400..=404);
        match answer.token().filter(|_| answer.status == 200) {
            Some(granted) => {
                self.counters.tokens += 1;
                // A token that has expired is used for a moment all the same: clocks may differ.
                let lifetime = Nanos::from_secs(granted.lifetime_s).since(TOKEN_MARGIN);
                let until = now + lifetime.max(PAUSE_MIN);
                self.token =
                    Some(AccessToken { text: granted.token, server: operation.server, until });
                self.operation = Some(operation);
            }
            None if is_denied && operation.kind == OperationKind::Register => {
                let refusal = answer.refusal(operation.name(), true);
                self.operation = Some(Operation { token_refusal: Some(refusal), ..operation });
            }
            None => self.refuse(now, operation, answer),
        }
    }

    fn refuse(&mut self, now: Nanos, mut operation: Operation, answer: &NrfAnswer) {
        let wants_token = matches!(answer.status, 401 | 403);
        let refusal = operation.token_refusal.take().filter(|_| wants_token);
        let of_answer = || answer.refusal(operation.name(), self.settings.uses_tokens);
        let problem = refusal.unwrap_or_else(of_answer);
        // The NRF may accept as a registration what it refuses as a patch: register anew.
        let is_final =
            (400..500).contains(&answer.status) && !matches!(answer.status, 408 | 413 | 429);
        if operation.kind.is_update() && is_final {
            self.held = None;
        }
        let pause = answer
            .retry_after_s
            .map(|seconds| Nanos::from_secs(seconds).clamp(PAUSE_MIN, RETRY_AFTER_MAX));
        self.fail(now, operation, problem, pause);
    }

    fn fail(&mut self, now: Nanos, operation: Operation, problem: String, pause: Option<Nanos>) {
        self.counters.failures += 1;
        let Some(record) = self.servers.get_mut(operation.server) else { return };
        let state = &mut record.state;
        state.failures = state.failures.saturating_add(1);
        let pause = pause.unwrap_or_else(|| own_pause(state.failures, self.counters.failures));
        if state.problem.as_ref() != Some(&problem) {
            let server = state.uri.clone();
            self.events.push_back(NrfEvent::Failed { server, problem: problem.clone() });
        }
        state.problem = Some(problem);
        match (operation.kind, &mut self.held) {
            (OperationKind::Deregister, _) => self.has_ended = true,
            (OperationKind::Update | OperationKind::Replace, Some(held))
                if held.failures + 1 < UPDATE_FAILURES_MAX && pause <= held.heartbeat =>
            {
                held.failures += 1;
                held.not_before = now + pause;
            }
            _ => {
                self.held = None;
                record.not_before = now + pause;
            }
        }
    }

    fn uri(&self, server: usize) -> String {
        self.servers.get(server).map(|record| record.state.uri.clone()).unwrap_or_default()
    }

    /// True if nothing is left to do before the announced end.
    pub(crate) fn has_ended(&self, announced: &Announcement) -> bool {
        let is_idle = self.operation.is_none();
        match announced.end {
            Some(ClientEnd::Keep) => true,
            Some(ClientEnd::Deregister) => self.has_ended || is_idle && self.held.is_none(),
            None => false,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<NrfEvent> {
        self.events.pop_front()
    }

    pub(crate) fn state(&self, announced: &Announcement) -> NrfState {
        let held = self.held.as_ref();
        let phase = match (announced.end, &announced.profile, held) {
            (Some(_), ..) => NrfPhase::Ended,
            (_, None, _) => NrfPhase::Waiting,
            (_, _, None) => NrfPhase::Registering,
            (_, _, Some(_)) => NrfPhase::Registered,
        };
        NrfState {
            phase,
            server: held.map(|held| held.server),
            resource: held.map(|held| held.resource.clone()),
            status: held.map(|held| held.content.status),
            load: held.map(|held| held.content.load),
            heartbeat: held.map(|held| held.heartbeat),
            servers: self.servers.iter().map(|record| record.state.clone()).collect(),
            counters: self.counters,
        }
    }
}

impl HeldRegistration {
    /// Returns the registration after `operation`. The next heartbeat is due a tenth of the
    /// interval early, so that it reaches the NRF in time.
    fn new(operation: &Operation, resource: String, heartbeat: Nanos) -> Self {
        Self {
            server: operation.server,
            resource,
            content: operation.content.clone(),
            heartbeat,
            next_heartbeat: operation.began + heartbeat.since(Nanos(heartbeat.0 / 10)),
            not_before: Nanos(0),
            failures: 0,
            updates: 0,
        }
    }
}

impl RequestContent {
    /// True if `current` has to be sent before the next heartbeat: it differs in more than the
    /// load.
    fn is_outdated(&self, current: &Self) -> bool {
        let Self { profile, status, load: _ } = self;
        *status != current.status
            || !Arc::ptr_eq(profile, &current.profile) && *profile != current.profile
    }
}

/// Returns the pause after `failures` consecutive failures: doubled after each, and longer by up to
/// a quarter, which `spread` chooses, so that UPFs of one NRF drift apart.
fn own_pause(failures: u32, spread: u64) -> Nanos {
    let doubled = PAUSE_MIN.0 << failures.saturating_sub(1).min(16);
    let pause = doubled.min(PAUSE_MAX.0);
    // A hash of a counter serves instead of a source of random numbers.
    let part = spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    Nanos(pause + pause / 4 * part / 256)
}
