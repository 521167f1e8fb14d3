//! GTP-U paths: are the peers that FARs send to reachable?
//!
//! Each peer gets an Echo Request per interval; one that leaves N3-REQUESTS of them in a row
//! unanswered, each for T3-RESPONSE, has a failed path until it answers again. Both turns are told to
//! all CP functions. Workers send and receive; here is only the state. The first sequence number of a
//! round is random, so that nobody who does not see the request can answer it.
//! Spec: TS 29.281 §7.2.1, §7.2.2, §11; TS 23.527 §5.4; TS 29.244 §7.4.5.1.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use core::ops::Bound;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::DefaultHasher;

use adit_rules::WorkerCommand;
use adit_session::PeerSides;
use adit_types::limits::{COMMAND_RING_LEN, TIMERS_PER_TURN_MAX};
use adit_types::{InterfaceSet, Nanos};

use crate::association::{NodeEvent, as_count};
use crate::node::Node;
use crate::path_qos::MEASURES;
use crate::peer_restart::PeerStart;

/// How paths are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathConfig {
    /// Time between two Echo Requests to one peer; zero for none at all.
    pub echo_interval: Nanos,
    /// Time without a response before an Echo Request is sent again. Spec: TS 29.281 §11 (T3).
    pub t3: Nanos,
    /// Requests without a response after which the path has failed, at least 1. Spec: as above (N3).
    pub n3: u32,
}

impl PathConfig {
    /// Nothing is watched.
    pub const OFF: Self = Self { echo_interval: Nanos(0), t3: Nanos::from_secs(3), n3: 3 };
}

/// What is known about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// No answer yet, and no failure.
    Unknown,
    /// The last Echo Request was answered in time.
    Up,
    /// Echo Requests stay unanswered.
    Down,
}

/// A path, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathEntry {
    /// The GTP-U peer.
    pub peer: IpAddr,
    /// What is known.
    pub state: PathState,
    /// Echo Requests sent.
    pub requests: u64,
    /// Echo Responses taken.
    pub responses: u64,
}

#[derive(Debug)]
struct GtpuPath {
    state: PathState,
    sequence: u16,
    /// Requests of the present round; zero between rounds.
    unanswered: u32,
    /// `Nanos::NEVER` while it is not watched.
    due: Nanos,
    requests: u64,
    responses: u64,
    start: PeerStart,
}

/// What a response means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct EchoOutcome {
    transition: Option<PathTransition>,
    /// The peer started anew.
    is_restart: bool,
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathTransition {
    Failed(IpAddr),
    Recovered(IpAddr),
}

/// All paths.
#[derive(Debug)]
pub(crate) struct Paths {
    config: PathConfig,
    paths: BTreeMap<IpAddr, GtpuPath>,
    deadlines: BTreeSet<(Nanos, IpAddr)>,
    commands: VecDeque<WorkerCommand>,
    /// The last turn did not take in all peers that had changed.
    has_peers_left: bool,
    /// What random sequence numbers come from: a secret and how many were drawn.
    random: (u64, u64),
}

impl Paths {
    /// `secret` is random, and nobody knows it.
    pub fn new(config: PathConfig, secret: u64) -> Self {
        Self {
            config,
            paths: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            commands: VecDeque::new(),
            has_peers_left: false,
            random: (secret, 0),
        }
    }

    /// The next Echo Request for any one worker.
    pub fn poll_command(&mut self) -> Option<WorkerCommand> {
        self.commands.pop_front()
    }

    const fn is_on(&self) -> bool {
        self.config.echo_interval.0 > 0
    }

    /// When the next round begins that nothing asks for earlier.
    fn next_round(&self, now: Nanos) -> Nanos {
        if self.is_on() { now + self.config.echo_interval } else { Nanos::NEVER }
    }

    fn draw_sequence(&mut self) -> u16 {
        self.random.1 = self.random.1.wrapping_add(1);
        let mut digest = DefaultHasher::new();
        self.random.hash(&mut digest);
        let [low, high, ..] = digest.finish().to_le_bytes();
        u16::from_le_bytes([low, high]) & !MEASURES
    }

    fn arm(&mut self, peer: IpAddr, due: Nanos) {
        let Some(path) = self.paths.get_mut(&peer) else { return };
        let before = core::mem::replace(&mut path.due, due);
        self.deadlines.remove(&(before, peer));
        if due != Nanos::NEVER {
            self.deadlines.insert((due, peer));
        }
    }

    /// Begins a round now, unless one is under way.
    fn begin_round(&mut self, now: Nanos, peer: IpAddr) {
        if self.paths.get(&peer).is_some_and(|path| path.unanswered == 0) {
            self.arm(peer, now);
        }
    }

    /// Takes in whether `peer` is one. The first request waits an interval, so that a peer that
    /// comes and goes is not asked.
    fn set_peer(&mut self, now: Nanos, peer: IpAddr, is_peer: bool) {
        if !is_peer {
            if let Some(path) = self.paths.remove(&peer) {
                self.deadlines.remove(&(path.due, peer));
            }
        } else if let Entry::Vacant(place) = self.paths.entry(peer) {
            place.insert(GtpuPath {
                state: PathState::Unknown,
                sequence: 0,
                unanswered: 0,
                due: Nanos::NEVER,
                requests: 0,
                responses: 0,
                start: PeerStart::default(),
            });
            self.arm(peer, self.next_round(now));
        }
    }

    /// Sends what is due, `allowance` requests and turns at most; returns a path that failed. Call
    /// until it returns `None`.
    fn poll_due(&mut self, now: Nanos, allowance: &mut usize) -> Option<PathTransition> {
        while let Some(&(due, peer)) = self.deadlines.first()
            && due <= now
            && let Some(rest) = allowance.checked_sub(1)
        {
            *allowance = rest;
            self.deadlines.pop_first();
            let (drawn, is_on) = (self.draw_sequence(), self.is_on());
            let Some(path) = self.paths.get_mut(&peer) else { continue };
            if path.unanswered < self.config.n3 {
                path.sequence = match path.unanswered {
                    0 => drawn,
                    _ => path.sequence.wrapping_add(1) & !MEASURES,
                };
                path.unanswered += 1;
                path.requests += 1;
                path.due = now + self.config.t3;
                self.deadlines.insert((path.due, peer));
                // Beyond the bound the request counts as sent and lost.
                if self.commands.len() < COMMAND_RING_LEN {
                    let sequence = path.sequence;
                    let (interfaces, tos) = (InterfaceSet::ALL, 0);
                    let command =
                        WorkerCommand::SendEchoRequest { peer, interfaces, sequence, tos };
                    self.commands.push_back(command);
                }
                continue;
            }
            path.unanswered = 0;
            let was_down = path.state == PathState::Down;
            if is_on {
                path.state = PathState::Down;
            }
            self.arm(peer, self.next_round(now));
            if is_on && !was_down {
                return Some(PathTransition::Failed(peer));
            }
        }
        None
    }

    /// Takes a response, and when its sender says that it started; a response to no request of the
    /// present round changes nothing.
    fn answered(
        &mut self,
        now: Nanos,
        peer: IpAddr,
        sequence: u16,
        started: Option<u32>,
    ) -> EchoOutcome {
        let next_round = self.next_round(now);
        let Some(path) = self.paths.get_mut(&peer) else { return EchoOutcome::default() };
        let age = u32::from(path.sequence.wrapping_sub(sequence) & !MEASURES);
        if age >= path.unanswered {
            return EchoOutcome::default();
        }
        path.unanswered = 0;
        path.responses += 1;
        let is_restart = started.is_some_and(|started| path.start.learn(started));
        let asks_again = path.start.needs_confirmation(now, self.config.t3);
        let before = core::mem::replace(&mut path.state, PathState::Up);
        self.arm(peer, if asks_again { now } else { next_round });
        let turn = (before == PathState::Down).then_some(PathTransition::Recovered(peer));
        EchoOutcome { transition: turn, is_restart }
    }

    /// Takes an unproven word of when a peer started: it is asked if that would be news.
    fn note_unproven_start(&mut self, now: Nanos, peer: IpAddr, started: u32) {
        let t3 = self.config.t3;
        let path = self.paths.get_mut(&peer);
        if path.is_some_and(|path| path.start.needs_probe(now, t3, started)) {
            self.begin_round(now, peer);
        }
    }
}

impl Node {
    /// Does what is due for paths, a bounded part of it.
    pub(crate) fn watch_paths(&mut self, now: Nanos) {
        for _ in 0..self.path_qos.peers_per_turn() {
            let Some(peer) = self.sessions.take_changed_peer() else { break };
            let sides = self.sessions.store().peer_sides(peer);
            self.paths.set_peer(now, peer, sides != PeerSides::default());
            let left_out = self.path_qos.set_peer(now, peer, sides);
            self.counters.scalars.paths_not_measured += as_count(left_out);
        }
        self.paths.has_peers_left = self.sessions.store().has_changed_peer();
        let mut allowance = TIMERS_PER_TURN_MAX;
        while let Some(turn) = self.paths.poll_due(now, &mut allowance) {
            self.report_path_transition(now, turn);
        }
    }

    /// Takes an Echo Response that came at `at`, and when its sender says that it started.
    pub(crate) fn handle_echo_response(
        &mut self,
        now: Nanos,
        (peer, sequence): (IpAddr, u16),
        started: Option<u32>,
        at: Nanos,
    ) {
        if sequence & MEASURES != 0 {
            let reports = self.path_qos.answered(peer, sequence, at);
            self.report_path_delays(now, reports);
            started
                .into_iter()
                .for_each(|started| self.on_unsolicited_recovery(now, peer, started));
            return;
        }
        let EchoOutcome { transition: turn, is_restart } =
            self.paths.answered(now, peer, sequence, started);
        if let Some(turn) = turn {
            self.report_path_transition(now, turn);
        }
        if is_restart {
            self.on_gtpu_peer_restarted(now, peer);
        }
    }

    /// Takes notice of when a GTP-U peer says that it started, without having been asked. Strangers
    /// are not remembered.
    pub(crate) fn on_unsolicited_recovery(&mut self, now: Nanos, peer: IpAddr, started: u32) {
        let is_peer = self.sessions.store().peer_sides(peer) != PeerSides::default();
        self.paths.set_peer(now, peer, is_peer);
        self.paths.note_unproven_start(now, peer, started);
    }

    fn report_path_transition(&mut self, now: Nanos, turn: PathTransition) {
        match turn {
            PathTransition::Failed(peer) => {
                self.counters.scalars.path_failures += 1;
                self.events.push_back(NodeEvent::PathDown { peer });
                self.report_path_failure(now, peer);
            }
            PathTransition::Recovered(peer) => {
                self.counters.scalars.path_recoveries += 1;
                self.events.push_back(NodeEvent::PathUp { peer });
                self.report_path_recovery(now, peer);
            }
        }
    }

    /// When a path needs attention next. Peers that changed since the last turn are taken in in the
    /// next one, whenever that is.
    pub(crate) fn next_path_deadline(&self) -> Option<Nanos> {
        let due = self.paths.deadlines.first().map(|(due, _)| *due);
        if self.paths.has_peers_left { Some(Nanos(0)) } else { due }
    }

    /// The paths to all GTP-U peers, by address; empty while none are watched.
    pub fn paths(&self) -> impl Iterator<Item = PathEntry> + '_ {
        self.paths_behind(None)
    }

    /// The same behind the path to `peer`, or from the first one on.
    pub fn paths_behind(&self, peer: Option<IpAddr>) -> impl Iterator<Item = PathEntry> + '_ {
        let first = peer.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.paths.paths.range((first, Bound::Unbounded));
        let watched = behind.filter(|_| self.paths.is_on());
        watched.map(|(&peer, path)| PathEntry {
            peer,
            state: path.state,
            requests: path.requests,
            responses: path.responses,
        })
    }
}
