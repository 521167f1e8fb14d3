//! The control thread: N4 socket, PFCP node, publication, neighbors, and answers for `adit show`.
//!
//! One loop, no locks. On a standby it follows the active adit until it takes over ([`standby`]).
//! This file does the I/O: the parts that it owns get datagrams and the time from it.

mod acts;
mod node_events;
mod pause;
mod publication_latency;
mod reload;
pub(crate) mod silence;
mod standby;
mod workers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use adit_kernel::idle::Doorbell;
use adit_n4::PathMtuChange;
use adit_rules::{WorkerCommand, WorkerEvent};
use adit_shared_store::store_thread::StoreLink;
use adit_store::{GroupNumber, StoreState};
use adit_tables::neighbor::NeighborCache;
use adit_types::{Nanos, PortId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{debug, error, info, warn};

use crate::admin::{AdminAnswer, AdminCommand, AdminQuery};
use crate::clock::NTP_UNIX_OFFSET_S;
use crate::control::publication_latency::PublicationLatency;
use crate::control_parts::address_conflicts::AddressConflicts;
use crate::control_parts::peer_names::PeerNames;
use crate::control_parts::port_links::LinkStates;
use crate::control_parts::standstill::{self, Standstill};
use crate::control_parts::{ControlParts, ServingRole};
use crate::foreign_text::printable;
use crate::kernel_routes::announcements::AnnouncingPlane;
use crate::kernel_routes::follower::RouteFollower;
use crate::log;
use crate::snapshot::store_warnings;
use crate::snapshot::{self, ControlView};
use crate::tap::{TapContext, TapQuestion, TapRefusal};
use crate::threads::liveness::LivenessReading;
use crate::threads::load::ThreadLoad;

use self::pause::OwnAddressConflict;
use self::silence::SilenceWatch;

/// Maximum of datagrams handled in one iteration, so that workers' events and timers are served.
const DATAGRAMS_PER_ITERATION_MAX: usize = 64;

/// Maximum of events taken from one worker in one iteration.
const EVENTS_PER_ITERATION_MAX: usize = 256;

/// Maximum of changes concluded in one iteration, which all workers have observed by then.
const CHANGES_PER_ITERATION_MAX: usize = 512;

/// Maximum of datagrams sent in one iteration.
const SENT_PER_ITERATION_MAX: usize = 512;

/// Longest sleep of an active adit's control thread. It bounds the delay of workers' events and of
/// queries of `adit show`, which do not wake the thread.
const SLEEP_MAX: Nanos = Nanos::from_millis(1);

/// How long the control thread only yields while a published change is not observed; then it
/// sleeps. Longer than a worker's burst takes.
const YIELD_MAX: Nanos = Nanos::from_micros(200);

/// Shortest sleep while a change is still not observed after [`YIELD_MAX`].
const SLEEP_MIN: Nanos = Nanos::from_micros(20);

/// Longest wait, when adit stops, for the store to take the last records.
const STORE_WAIT_MAX: Nanos = Nanos::from_secs(5);

/// How long sessions are restored per iteration, exceeded by one batch at most.
const RESTORE_TIME_PER_ITERATION: Nanos = Nanos::from_millis(2);

/// Longest sleep of a standby's control thread while no records arrive.
const STANDBY_SLEEP_MAX: Nanos = Nanos::from_millis(20);

/// Longest wait for CP functions to release their associations when adit stops.
const RELEASE_WAIT_MAX: Nanos = Nanos::from_secs(1);

/// Why the control thread ends by itself.
#[derive(Debug)]
pub(crate) enum ControlEnd {
    /// Another adit requested the lease: it gets all sessions.
    Handover,
    /// adit must not go on, for this reason.
    Failed(String),
}

/// The control thread's state.
pub(crate) struct ControlThread {
    parts: ControlParts,
    neighbors: NeighborCache,
    /// How many datagrams the socket refused. Retransmissions, the peer's or ours, repair this.
    datagrams_unsent: u64,
    /// How many commands to workers were lost because a ring was full.
    commands_lost: u64,
    /// When the system's time of day is read next.
    next_time_of_day: Nanos,
    standstill: Standstill,
    links: LinkStates,
    publication: PublicationLatency,
    /// Time that iterations took, without sleeps.
    busy: Nanos,
    /// Set to the reason if the thread has to end by itself.
    end: Option<ControlEnd>,
    /// The state of the store that was last passed to the node.
    store_state: StoreState,
    /// The store's count of losses when all records were last handed to it again.
    store_losses: u64,
    /// True once the store was notified that the node has restored all records.
    has_all_records: bool,
    /// Present warnings about the store, which are logged already.
    store_warnings: Vec<String>,
    /// Other stations that use addresses of this adit.
    conflicts: AddressConflicts,
    /// Set while this adit does not serve because another one may be active: since when, and why.
    paused: Option<pause::Pause>,
    /// A reload that waits until its new gateways are resolved.
    reload: Option<reload::PendingReload>,
    /// By worker: true if an operator has drained it, so that it owns no sessions.
    drained: Vec<bool>,
    /// A change of sessions' owners that is in progress.
    owners: Option<workers::OwnerChangeAct>,
    /// Since when the thread waits in vain for workers to observe a change; `None` if it does not.
    unobserved_since: Option<Nanos>,
    silence: SilenceWatch,
}

impl ControlThread {
    pub(crate) fn new(parts: ControlParts) -> Self {
        let now = parts.clock.now();
        let mut neighbors = NeighborCache::new(&parts.publisher);
        if parts.role.is_active() {
            neighbors.announce(now, &parts.publisher);
        }
        let standstill = Standstill::new(&parts.threads, now);
        Self {
            parts,
            neighbors,
            datagrams_unsent: 0,
            commands_lost: 0,
            next_time_of_day: Nanos(0),
            standstill,
            links: LinkStates::default(),
            publication: PublicationLatency::default(),
            busy: Nanos(0),
            end: None,
            store_state: StoreState::Working,
            store_losses: 0,
            has_all_records: false,
            store_warnings: Vec::new(),
            conflicts: AddressConflicts::default(),
            paused: None,
            reload: None,
            drained: Vec::new(),
            owners: None,
            unobserved_since: None,
            silence: SilenceWatch::default(),
        }
    }

    /// Runs until `stop` is set, or until the thread ends by itself. Then it either keeps the
    /// sessions for the next process or the adit that takes over, or requests the peers to release
    /// their associations and waits at most [`RELEASE_WAIT_MAX`] for them.
    pub(crate) fn run(&mut self, questions: &Receiver<AdminQuery>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) && self.end.is_none() {
            self.turn(questions);
            self.check_store();
        }
        // Routers send packets elsewhere before workers stop.
        if let Some(announcements) = &mut self.parts.announcements {
            announcements.withdraw();
        }
        let is_active = self.is_active();
        // Another adit goes on as the same NF instance: the other one of the pair, or the one that
        // has taken the lease of the records.
        let has_successor = self.parts.config.standby.is_some() || self.is_fenced();
        if let Some(nrf) = &self.parts.nrf {
            nrf.begin_end(has_successor);
        }
        match (&self.end, self.parts.keeps_at_stop) {
            (Some(ControlEnd::Failed(why)), _) => error!(why, "adit must not go on"),
            _ if !is_active => {}
            (_, true) => self.flush_usage(questions),
            (_, false) => self.release(questions),
        }
        if is_active && self.paused.is_none() && !matches!(self.end, Some(ControlEnd::Failed(_))) {
            self.transmit();
        }
        self.log_events();
        self.parts.frequencies = None;
        self.parts.kernel_routes = None;
        self.parts.announcements = None;
        // Given up before the wait for the NRF: an adit that takes over can begin at once, and is
        // then the only one that serves and has the addresses.
        self.parts.lease.end();
        self.parts.addresses = None;
        self.parts.store = None;
        if let Some(nrf) = self.parts.nrf.take() {
            nrf.end(has_successor);
        }
    }

    /// Returns why the thread ended by itself; `None` if it was stopped.
    pub(crate) fn take_end(&mut self) -> Option<ControlEnd> {
        self.end.take()
    }

    /// Records the usage of all sessions, and waits for the store, at most [`STORE_WAIT_MAX`].
    fn flush_usage(&mut self, questions: &Receiver<AdminQuery>) {
        let deadline = self.parts.clock.now() + STORE_WAIT_MAX;
        self.parts.node.record_all_usage(self.parts.clock.now());
        self.turn(questions);
        while self.parts.node.store_backlog().0 > 0
            && self.parts.clock.now() < deadline
            && !self.is_fenced()
        {
            self.turn(questions);
        }
        self.check_store();
        let sessions = self.parts.node.store().len();
        match self.parts.node.store_backlog().0 {
            0 => info!(sessions, "sessions are kept"),
            groups => warn!(sessions, groups, "the store did not take the last changes"),
        }
    }

    fn release(&mut self, questions: &Receiver<AdminQuery>) {
        let deadline = self.parts.clock.now() + RELEASE_WAIT_MAX;
        self.parts.node.start_release(self.parts.clock.now(), RELEASE_WAIT_MAX);
        while !self.parts.node.is_released() && self.parts.clock.now() < deadline {
            self.turn(questions);
        }
        self.parts.node.give_up_sessions(self.parts.clock.now());
        self.exchange_records(self.parts.clock.now());
    }

    /// Passes the present state to the client of the NRF. An adit that does not serve sends
    /// nothing: another one may serve as the same instance, and this one's heartbeats would undo
    /// the other's drain.
    fn announce_to_nrf(&mut self) {
        let ControlParts { nrf: Some(nrf), node, config, role, .. } = &mut self.parts else {
            return;
        };
        match matches!(role, ServingRole::Active) && self.paused.is_none() {
            true => nrf.announce(config, node),
            false => nrf.withdraw(),
        }
    }

    /// Returns the state that `adit show` reads.
    pub(crate) fn view(&self) -> ControlView<'_> {
        ControlView {
            parts: &self.parts,
            neighbors: &self.neighbors,
            datagrams_unsent: self.datagrams_unsent,
            commands_lost: self.commands_lost,
            standstill: &self.standstill,
            links: &self.links,
            publication: self.publication.durations(),
            busy: self.busy,
            paused: self.paused.as_ref().map(pause::Pause::why),
            drained: &self.drained,
            conflicts: &self.conflicts,
        }
    }

    fn turn(&mut self, questions: &Receiver<AdminQuery>) {
        let now = self.parts.clock.now();
        self.update_node_clock(now);
        self.follow_kernel();
        match self.is_active() {
            true => self.turn_of_active(now),
            false => self.turn_of_standby(now),
        }
        // One query per iteration: further clients wait, so that PFCP does not.
        if let Ok(AdminQuery { command, cursor, answer }) = questions.try_recv() {
            match command {
                AdminCommand::Show(question) => {
                    answer(snapshot::answer(&self.view(), &question, cursor));
                }
                AdminCommand::Act(act) => self.act(now, act, answer),
                AdminCommand::Tap(question) => answer(self.start_tap(now, question)),
            }
        }
        self.continue_reload(now);
        self.continue_owner_change(now);
        if let Some(frequencies) = &mut self.parts.frequencies {
            frequencies.turn(now);
        }
        self.note_turn(now);
        self.sleep(now);
    }

    /// Follows the kernel's routes, and announces own prefixes while this adit serves.
    fn follow_kernel(&mut self) {
        let is_serving = self.is_serving();
        let ControlParts { kernel_routes, announcements, publisher, clock, .. } = &mut self.parts;
        if let Some(routes) = kernel_routes {
            routes.turn(*clock, publisher);
        }
        if let Some(announcements) = announcements {
            announcements.set_serving(is_serving);
        }
    }

    /// Returns true if this adit wants packets: workers run all sessions, and nobody has begun to
    /// drain it.
    fn is_serving(&self) -> bool {
        let ControlParts { role, node, .. } = &self.parts;
        matches!(role, ServingRole::Active)
            && self.paused.is_none()
            && self.standstill.stopped_count() == 0
            && !node.is_restoring()
            && !node.is_draining()
    }

    /// Adds this iteration to the busy time, and publishes the liveness that other threads check.
    fn note_turn(&mut self, now: Nanos) {
        self.busy += self.parts.clock.now().since(now);
        self.parts.liveness.note_turn(LivenessReading {
            stopped_workers: self.standstill.stopped_count(),
            ports_down: self.links.down_count(),
            is_active: self.is_active(),
            is_restoring: self.parts.node.is_restoring(),
            ..LivenessReading::default()
        });
    }

    /// Starts a trace or a capture.
    fn start_tap(&mut self, now: Nanos, question: TapQuestion) -> AdminAnswer {
        if !self.is_active() {
            let why = "this adit is a standby, which no packets pass; ask the active one";
            return AdminAnswer::Refused(why.to_owned());
        }
        let ControlParts { taps, node, publisher, names, ports, clock, commands, bells, .. } =
            &mut self.parts;
        let zero = clock.time_of_day_at_zero().unwrap_or_default();
        let started = taps.start(
            question,
            TapContext {
                now,
                store: node.store(),
                publisher,
                interfaces: names,
                ports: ports.iter().map(|port| port.config.name.clone()).collect(),
                zero_unix_ns: zero.saturating_sub(NTP_UNIX_OFFSET_S * 1_000_000_000),
                commands,
                bells,
            },
        );
        match started {
            Ok(stream) => AdminAnswer::Stream(stream),
            Err(TapRefusal::Refused(why)) => AdminAnswer::Refused(why),
            Err(TapRefusal::Unknown(what)) => AdminAnswer::Unknown(what),
        }
    }

    fn turn_of_active(&mut self, now: Nanos) {
        if self.is_paused(now) {
            return self.turn_while_paused(now);
        }
        self.watch_workers(now);
        if self.links.check(now, &self.parts.ports) {
            self.neighbors.announce(now, &self.parts.publisher);
        }
        self.set_twin_carriers();
        if let Some((position, to)) = self.parts.peer_names.as_ref().and_then(PeerNames::poll) {
            self.parts.node.set_configured_peer(now, position, to);
        }
        self.receive(now);
        self.handle_events(now);
        self.restore(now);
        self.parts.node.handle_timeout(now);
        self.publish(now);
        self.exchange_records(now);
        self.probe_silent_neighbors(now);
        self.neighbors.handle_timeout(now, &mut self.parts.publisher);
        self.command();
        let ControlParts { taps, node, publisher, commands, bells, .. } = &mut self.parts;
        for session in taps.turn(now, commands, bells) {
            if publisher.release_withheld(session) {
                node.republish(session);
            }
        }
        self.transmit();
        self.log_events();
        if let Some(addresses) = &mut self.parts.addresses {
            addresses.handle_timeout(now);
        }
    }

    /// Sets the carriers of the kernel twins by the links of their ports. Only an active adit calls
    /// this; a pause takes the carriers, so that the kernel sends nothing.
    fn set_twin_carriers(&self) {
        let links = self.links.all();
        let is_up = |port: PortId| links.get(usize::from(port.0)).and_then(|link| link.is_up);
        self.parts.twins.set_carriers(|port| is_up(port) != Some(false));
    }

    /// Updates the time of day and the saturation of the workers in the node, once per second.
    fn update_node_clock(&mut self, now: Nanos) {
        if now < self.next_time_of_day {
            return;
        }
        self.next_time_of_day = now + Nanos::from_secs(1);
        log::report_left_out();
        self.log_store_warnings();
        self.announce_to_nrf();
        let busiest = self.parts.loads.iter().map(ThreadLoad::saturation_percent).max();
        self.parts.node.set_worker_saturation(busiest.unwrap_or(0));
        if let Some(at_zero) = self.parts.clock.time_of_day_at_zero() {
            self.parts.node.set_time_of_day(at_zero);
        }
    }

    /// Logs each warning about the store when it appears.
    fn log_store_warnings(&mut self) {
        let warnings = store_warnings::of(&self.parts);
        let new = warnings.iter().filter(|warning| !self.store_warnings.contains(warning));
        new.for_each(|warning| warn!("{warning}"));
        self.store_warnings = warnings;
    }

    fn receive(&mut self, now: Nanos) {
        let ControlParts { socket, node, .. } = &mut self.parts;
        let received = socket.receive(DATAGRAMS_PER_ITERATION_MAX, |from, octets| {
            node.handle_datagram(now, from, octets);
        });
        if let Err(error) = received {
            debug!(%error, "N4 socket");
        }
    }

    /// Restores records of a previous process, for a limited time per iteration.
    fn restore(&mut self, now: Nanos) {
        let ControlParts { node, role, clock, publisher, .. } = &mut self.parts;
        let ServingRole::Restoring { former, since } = role else { return };
        let since = *since.get_or_insert(now);
        loop {
            match former.poll() {
                Ok(Some(batch)) if batch.is_empty() => break,
                Ok(Some(mut batch)) => {
                    for record in &mut batch {
                        // The node reports a record that it cannot restore as an event.
                        let _ = node.restore_record(now, record);
                    }
                    former.give_back(batch);
                }
                Ok(None) => return,
                Err(error) => {
                    let why = format!("the records of the store cannot be read: {error}");
                    self.end = Some(ControlEnd::Failed(why));
                    return;
                }
            }
            if clock.now().since(now) >= RESTORE_TIME_PER_ITERATION {
                return;
            }
        }
        // The node answers peers only after workers run all restored sessions.
        if node.pending_len() == 0 && publisher.unobserved() == 0 {
            node.end_restoration(now);
            publisher.set_restoring(false);
            let took = clock.now().since(since);
            info!(took_ms = took.0 / 1_000_000, "restoration ended");
            *role = ServingRole::Active;
        }
    }

    /// Hands changed records to the store, and notifies the node of durable ones.
    fn exchange_records(&mut self, now: Nanos) {
        let ControlParts { node, store: Some(store), .. } = &mut self.parts else { return };
        // Another process has the records now, and answers.
        if store.is_lost() {
            return;
        }
        let mut last = None;
        while let Some(group) = node.poll_records(now) {
            last = Some(group.number);
            store.send(group);
        }
        if let Some(last) = last {
            store.wait_for(last);
        }
        // Losses count only after the restoration: until then a store that has lost records must
        // keep the rest, which are not restored yet.
        let losses = if node.is_restoring() { self.store_losses } else { store.losses() };
        if losses != self.store_losses {
            self.store_losses = losses;
            error!("the store has lost records: all of them are written again");
            node.rewrite_records();
        } else if !self.has_all_records && !node.is_restoring() {
            store.set_rewritten(losses, GroupNumber(0));
        }
        self.has_all_records = !node.is_restoring();
        if let Some(through) = node.take_rewritten() {
            info!("all records are handed to the store again");
            store.set_rewritten(losses, through);
        }
        let state = store.state();
        if state != self.store_state {
            self.store_state = state;
            node.set_store_state(now, state);
            let failure = store.report().failure.unwrap_or_default();
            match state {
                StoreState::Failing => error!(failure, "the store cannot write"),
                StoreState::Full => error!(
                    "the store is full: sessions are not established or modified until there is room"
                ),
                StoreState::Working => info!("the store can write again"),
            }
        }
        node.handle_durable(now, store.durable());
    }

    /// Sets the end of the thread if the store is lost, because this process must not serve without
    /// it, or if another adit requests to be active.
    fn check_store(&mut self) {
        let Some(store) = &self.parts.store else { return };
        if store.is_lost() {
            let why = store.report().failure.unwrap_or_default();
            let why = format!("adit cannot go on without its store: {}", printable(&why));
            self.end = Some(ControlEnd::Failed(why));
        } else if store.has_ended() {
            let why = "the thread of the store ended by itself, which is a fault in adit";
            self.end = Some(ControlEnd::Failed(why.to_owned()));
        } else if store.is_handover_requested() {
            info!("another adit takes over");
            self.end = Some(ControlEnd::Handover);
        }
    }

    /// True once another adit has the lease of the records.
    fn is_fenced(&self) -> bool {
        self.parts.store.as_ref().is_some_and(StoreLink::is_lost)
    }

    /// Logs workers that have stopped taking steps, and passes their count to the node.
    fn watch_workers(&mut self, now: Nanos) {
        let changes = self.standstill.check(now, &mut self.parts.publisher);
        if !changes.is_empty() {
            self.parts.node.set_standing_workers(self.standstill.stopped_count());
            changes.into_iter().for_each(standstill::log);
        }
    }

    fn handle_events(&mut self, now: Nanos) {
        let mut used = Vec::new();
        for ring in &mut self.parts.events {
            for _ in 0..EVENTS_PER_ITERATION_MAX {
                let Ok(event) = ring.pop() else { break };
                if let WorkerEvent::OwnAddressUsed { interface, addr, mac } = event {
                    used.push(OwnAddressConflict { interface, addr, mac });
                }
                self.neighbors.handle_event(now, event, &mut self.parts.publisher);
                self.parts.node.handle_event(now, event);
            }
        }
        used.iter().for_each(|used| self.handle_conflict(now, used));
    }

    /// Publishes changes, and concludes in the node those that all workers have observed.
    fn publish(&mut self, now: Nanos) {
        let may_publish = self.may_publish();
        let ControlParts { node, publisher, commands, bells, clock, announcements, .. } =
            &mut self.parts;
        let former = publisher.unobserved();
        if may_publish {
            let announcements = announcements.as_mut();
            let mut plane = AnnouncingPlane { publisher, announcements };
            node.apply_changes(&mut plane, |command| {
                for (ring, bell) in commands.iter_mut().zip(&*bells) {
                    self.commands_lost += u64::from(ring.push(command).is_err());
                    bell.ring();
                }
            });
        }
        let applied = publisher.unobserved().saturating_sub(former);
        self.publication.apply(clock.now(), applied);
        self.neighbors.handle_changes(now, publisher);
        publisher.turn(now);
        let concluded = node.conclude_changes(now, publisher, CHANGES_PER_ITERATION_MAX);
        if concluded > 0 {
            self.publication.conclude(clock.now(), concluded);
            self.unobserved_since = None;
        }
    }

    /// Probes the neighbors on interfaces that send without receiving: a gateway or peer may be
    /// gone, or may have changed its link-layer address without an announcement.
    fn probe_silent_neighbors(&mut self, now: Nanos) {
        let publisher = &self.parts.publisher;
        let silent = self.silence.check(now, || {
            publisher.interfaces().iter().map(|interface| {
                let workers = publisher.worker_counters().iter();
                let counters = workers.filter_map(|worker| worker.interface(interface.id));
                counters.fold((0, 0), |(received, sent), of| {
                    (received + of.rx_pkts.load(), sent + of.tx_pkts.load())
                })
            })
        });
        silent.into_iter().for_each(|interface| self.neighbors.handle_silence(now, interface));
    }

    fn command(&mut self) {
        while let Some(command) = self.neighbors.poll_command() {
            self.send_command(command);
        }
        while let Some(command) = self.parts.node.poll_command() {
            self.send_command(command);
        }
        while let Some(PathMtuChange { peer, mtu_bytes }) = self.parts.node.poll_path_mtu() {
            self.parts.publisher.set_path_mtu(peer, mtu_bytes);
        }
    }

    /// Sends a command to the first worker: every worker has a transmit queue on every port.
    fn send_command(&mut self, command: WorkerCommand) {
        let sent = self.parts.commands.first_mut().is_some_and(|ring| ring.push(command).is_ok());
        self.commands_lost += u64::from(!sent);
        self.parts.bells.iter().take(1).for_each(Doorbell::ring);
    }

    fn transmit(&mut self) {
        if !self.parts.node.has_transmit() {
            return;
        }
        let now = self.parts.clock.now();
        for _ in 0..SENT_PER_ITERATION_MAX {
            let Some(datagram) = self.parts.node.poll_transmit() else { return };
            if let Some(answered) = datagram.answers {
                self.parts.node.note_sent(now, answered);
            }
            let is_known = self.parts.node.is_known(datagram.to.ip());
            if let Err(error) = self.parts.socket.send_to(&datagram.bytes, datagram.to, is_known) {
                self.datagrams_unsent += 1;
                debug!(%error, to = %datagram.to, "N4 datagram not sent");
            }
        }
    }

    fn log_events(&mut self) {
        while let Some(event) = self.parts.node.poll_event() {
            node_events::log_event(&event);
        }
    }

    /// Waits for a datagram until the next timer. While a change is not observed, yields at first
    /// and then sleeps for short spans.
    fn sleep(&mut self, now: Nanos) {
        let is_paused = self.paused.is_some();
        if self.parts.node.has_transmit() && !is_paused {
            return;
        }
        let is_restoring = matches!(self.parts.role, ServingRole::Restoring { .. });
        if is_restoring || self.parts.kernel_routes.as_ref().is_some_and(RouteFollower::is_busy) {
            return std::thread::yield_now();
        }
        let mut longest = if self.is_active() { SLEEP_MAX } else { STANDBY_SLEEP_MAX };
        if self.parts.publisher.unobserved() > 0 || self.owners.is_some() {
            let since = *self.unobserved_since.get_or_insert(now);
            match sleep_while_unobserved(now.since(since)) {
                None => return std::thread::yield_now(),
                Some(span) => longest = span,
            }
        } else {
            self.unobserved_since = None;
        }
        let timers = [self.parts.node.poll_timeout(), self.neighbors.poll_timeout()];
        let timers = timers.into_iter().flatten().filter(|_| !is_paused);
        let next = timers.min().unwrap_or(Nanos::NEVER);
        let span = next.since(now).min(longest);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(span.0).unwrap_or(0) };
        let ControlParts { socket, store, role, .. } = &self.parts;
        let socket = PollFd::new(socket, PollFlags::IN);
        // An interruption by a signal acts as a timeout.
        match (store, role) {
            (Some(store), _) => {
                let mut sources = [socket, PollFd::new(store, PollFlags::IN)];
                let _ = poll(&mut sources, Some(&timeout));
                if !sources[1].revents().is_empty() {
                    store.take_wake_up();
                }
            }
            (None, ServingRole::Standby(standby)) => {
                let _ = poll(&mut [PollFd::new(&standby.link, PollFlags::IN)], Some(&timeout));
                standby.link.take_wake_up();
            }
            (None, _) => {
                let _ = poll(&mut [socket], Some(&timeout));
            }
        }
    }
}

/// Returns how long the thread sleeps if no change was observed for `waited`; `None` to yield.
fn sleep_while_unobserved(waited: Nanos) -> Option<Nanos> {
    (waited >= YIELD_MAX).then(|| Nanos(waited.0 / 8).clamp(SLEEP_MIN, SLEEP_MAX))
}

#[cfg(test)]
mod tests;
