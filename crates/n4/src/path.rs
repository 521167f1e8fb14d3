//! GTP-U paths: are the peers that FARs send to reachable?
//!
//! Each peer gets an Echo Request per interval; one that leaves N3-REQUESTS of them in a row
//! unanswered, each for T3-RESPONSE, has a failed path until it answers again. Both turns are told to
//! all CP functions. Workers send and receive; here is only the state.
//! Spec: TS 29.281 §7.2.1, §7.2.2, §11; TS 23.527 §5.4; TS 29.244 §7.4.5.1.

use core::net::IpAddr;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_rules::WorkerCommand;
use adit_types::Nanos;
use adit_types::limits::COMMAND_RING_LEN;

use crate::association::NodeEvent;
use crate::node::Node;
use crate::path_qos::MEASURES;

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
struct Path {
    state: PathState,
    sequence: u16,
    /// Requests of the present round; zero between rounds.
    unanswered: u32,
    due: Nanos,
    requests: u64,
    responses: u64,
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Failed(IpAddr),
    Recovered(IpAddr),
}

/// All paths.
#[derive(Debug)]
pub(crate) struct Paths {
    config: PathConfig,
    paths: BTreeMap<IpAddr, Path>,
    deadlines: BTreeSet<(Nanos, IpAddr)>,
    commands: VecDeque<WorkerCommand>,
    /// Up to here the store's peers are known.
    generation: u64,
}

impl Paths {
    pub fn new(config: PathConfig) -> Self {
        Self {
            config,
            paths: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            commands: VecDeque::new(),
            generation: 0,
        }
    }

    /// The next Echo Request for any one worker.
    pub fn poll_command(&mut self) -> Option<WorkerCommand> {
        self.commands.pop_front()
    }

    const fn is_on(&self) -> bool {
        self.config.echo_interval.0 > 0
    }

    /// Takes in which peers there are. The first request waits an interval, so that a peer that
    /// comes and goes is not asked.
    fn set_peers(&mut self, now: Nanos, peers: &BTreeSet<IpAddr>) {
        let gone: Vec<IpAddr> =
            self.paths.keys().copied().filter(|peer| !peers.contains(peer)).collect();
        for peer in gone {
            if let Some(path) = self.paths.remove(&peer) {
                self.deadlines.remove(&(path.due, peer));
            }
        }
        for &peer in peers {
            if !self.paths.contains_key(&peer) {
                let due = now + self.config.echo_interval;
                let (state, sequence) = (PathState::Unknown, 0);
                let path = Path { state, sequence, unanswered: 0, due, requests: 0, responses: 0 };
                self.paths.insert(peer, path);
                self.deadlines.insert((due, peer));
            }
        }
    }

    /// Sends what is due; returns a path that failed. Call until it returns `None`.
    fn poll_failed(&mut self, now: Nanos) -> Option<Turn> {
        while let Some(&(due, peer)) = self.deadlines.first()
            && due <= now
        {
            self.deadlines.pop_first();
            let Some(path) = self.paths.get_mut(&peer) else { continue };
            if path.unanswered < self.config.n3 {
                path.unanswered += 1;
                path.requests += 1;
                path.sequence = path.sequence.wrapping_add(1) & !MEASURES;
                path.due = now + self.config.t3;
                self.deadlines.insert((path.due, peer));
                // Beyond the bound the request counts as sent and lost.
                if self.commands.len() < COMMAND_RING_LEN {
                    let sequence = path.sequence;
                    let command = WorkerCommand::SendEchoRequest { peer, sequence, tos: 0 };
                    self.commands.push_back(command);
                }
                continue;
            }
            path.unanswered = 0;
            path.due = now + self.config.echo_interval;
            self.deadlines.insert((path.due, peer));
            if path.state != PathState::Down {
                path.state = PathState::Down;
                return Some(Turn::Failed(peer));
            }
        }
        None
    }

    /// Takes a response; a response to no request of the present round changes nothing.
    fn answered(&mut self, now: Nanos, peer: IpAddr, sequence: u16) -> Option<Turn> {
        let path = self.paths.get_mut(&peer)?;
        let age = u32::from(path.sequence.wrapping_sub(sequence) & !MEASURES);
        if age >= path.unanswered {
            return None;
        }
        self.deadlines.remove(&(path.due, peer));
        path.unanswered = 0;
        path.responses += 1;
        path.due = now + self.config.echo_interval;
        self.deadlines.insert((path.due, peer));
        let before = core::mem::replace(&mut path.state, PathState::Up);
        (before == PathState::Down).then_some(Turn::Recovered(peer))
    }
}

impl Node {
    /// Does what is due for paths.
    pub(crate) fn watch_paths(&mut self, now: Nanos) {
        if !self.paths.is_on() {
            return;
        }
        let generation = self.store.peers_generation();
        if self.paths.generation != generation {
            self.paths.generation = generation;
            let peers: BTreeSet<IpAddr> = self.store.peers().collect();
            self.paths.set_peers(now, &peers);
        }
        while let Some(turn) = self.paths.poll_failed(now) {
            self.tell_path(now, turn);
        }
    }

    /// Takes an Echo Response that came at `at`.
    pub(crate) fn handle_echo_response(
        &mut self,
        now: Nanos,
        peer: IpAddr,
        sequence: u16,
        at: Nanos,
    ) {
        if sequence & MEASURES != 0 {
            let reports = self.path_qos.answered(peer, sequence, at);
            self.report_path_delays(now, reports);
        } else if let Some(turn) = self.paths.answered(now, peer, sequence) {
            self.tell_path(now, turn);
        }
    }

    fn tell_path(&mut self, now: Nanos, turn: Turn) {
        match turn {
            Turn::Failed(peer) => {
                self.counters.scalars.path_failures += 1;
                self.events.push_back(NodeEvent::PathDown { peer });
                self.report_path_failure(now, peer);
            }
            Turn::Recovered(peer) => {
                self.counters.scalars.path_recoveries += 1;
                self.events.push_back(NodeEvent::PathUp { peer });
                self.report_path_recovery(now, peer);
            }
        }
    }

    /// When a path needs attention next: a change of peers is taken in at once.
    pub(crate) fn next_path_deadline(&self) -> Option<Nanos> {
        self.paths.deadlines.first().map(|(due, _)| *due)
    }

    /// The paths to all GTP-U peers, by address; empty while none are watched.
    pub fn paths(&self) -> impl Iterator<Item = PathEntry> + '_ {
        self.paths_behind(None)
    }

    /// The same behind the path to `peer`, or from the first one on.
    pub fn paths_behind(&self, peer: Option<IpAddr>) -> impl Iterator<Item = PathEntry> + '_ {
        let first = peer.map_or(Bound::Unbounded, Bound::Excluded);
        self.paths.paths.range((first, Bound::Unbounded)).map(|(&peer, path)| PathEntry {
            peer,
            state: path.state,
            requests: path.requests,
            responses: path.responses,
        })
    }
}
