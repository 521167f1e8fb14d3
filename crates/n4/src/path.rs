//! GTP-U paths: monitors whether the peers that FARs send to are reachable.
//!
//! Each peer is sent an Echo Request per interval. If it leaves N3-REQUESTS of them in a row
//! unanswered, each for T3-RESPONSE, its path has failed until the peer answers again. Failure and
//! recovery are reported to all CP functions. This module has only the state; workers send and
//! receive. The sequence numbers of a round begin at a random value, so that only a peer that
//! received a request can answer it. Spec: TS 29.281 §7.2.1, §7.2.2, §11; TS 23.527 §5.4; TS 29.244
//! §7.4.5.1.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::DefaultHasher;

use adit_rules::WorkerCommand;
use adit_types::limits::COMMAND_RING_LEN;
use adit_types::{InterfaceSet, Nanos};

use crate::path_qos::MEASURES_DELAY_BIT;
use crate::peer_restart::PeerStart;

/// The configuration of path monitoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathConfig {
    /// Time between two Echo Requests to one peer; zero for no Echo Requests.
    pub echo_interval: Nanos,
    /// Time without a response before an Echo Request is sent again. Spec: TS 29.281 §11 (T3).
    pub t3: Nanos,
    /// Unanswered requests after which the path has failed, at least 1. Spec: TS 29.281 §11 (N3).
    pub n3: u32,
}

impl PathConfig {
    /// No path is monitored.
    pub const OFF: Self = Self { echo_interval: Nanos(0), t3: Nanos::from_secs(3), n3: 3 };
}

/// State of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// No Echo Request was answered yet, and the path has not failed.
    Unknown,
    /// The last Echo Request was answered in time.
    Up,
    /// The last Echo Requests were not answered.
    Down,
}

/// A path MTU below the MTU of our link, reported by a router. Spec: RFC 1191 §3; RFC 8201 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathMtu {
    /// The path MTU. Unit: octets of the outer IP packet.
    pub mtu_bytes: u16,
    /// The router that last reported the MTU.
    pub router: IpAddr,
    /// When larger packets are tried again.
    pub until: Nanos,
    /// How many messages of routers have limited this path.
    pub messages: u64,
}

/// A change of the maximum size of packets to a GTP-U peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathMtuChange {
    /// The address of the peer.
    pub peer: IpAddr,
    /// The new maximum; `u16::MAX` if only the MTUs of our links apply. Unit: octets of the outer
    /// IP packet.
    pub mtu_bytes: u16,
}

/// How long a path MTU applies after a router reported it. Spec: RFC 1191 §6.3; RFC 8201 §4.
pub(crate) const PATH_MTU_TIME: Nanos = Nanos::from_secs(600);

/// A path, as shown to operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathEntry {
    /// The address of the GTP-U peer.
    pub peer: IpAddr,
    /// The state of the path.
    pub state: PathState,
    /// How many Echo Requests were sent.
    pub requests: u64,
    /// How many Echo Responses answered one of them.
    pub responses: u64,
    /// The path MTU, if it is below the MTU of our link.
    pub mtu: Option<PathMtu>,
}

#[derive(Debug)]
pub(crate) struct GtpuPath {
    pub state: PathState,
    sequence: u16,
    /// How many Echo Requests of the present round were sent; zero between rounds.
    unanswered: u32,
    /// When the next request or the failure of the path is due; `Nanos::NEVER` while not monitored.
    due: Nanos,
    pub requests: u64,
    pub responses: u64,
    pub mtu: Option<PathMtu>,
    start: PeerStart,
}

/// The effects of an Echo Response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EchoOutcome {
    pub transition: Option<PathTransition>,
    /// True if the peer has restarted.
    pub is_restart: bool,
}

/// A change of a path's state that is to be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathTransition {
    Failed(IpAddr),
    Recovered(IpAddr),
}

/// All paths.
#[derive(Debug)]
pub(crate) struct Paths {
    config: PathConfig,
    pub paths: BTreeMap<IpAddr, GtpuPath>,
    pub deadlines: BTreeSet<(Nanos, IpAddr)>,
    /// When larger packets are tried again, for each peer with a path MTU.
    pub narrow: BTreeSet<(Nanos, IpAddr)>,
    mtu_changes: VecDeque<PathMtuChange>,
    commands: VecDeque<WorkerCommand>,
    /// True if the last iteration did not process all peers that had changed.
    pub has_peers_left: bool,
    /// Source of random sequence numbers: a secret, and how many numbers were drawn.
    random: (u64, u64),
}

impl Paths {
    /// `secret`: random, and not disclosed.
    pub(crate) fn new(config: PathConfig, secret: u64) -> Self {
        Self {
            config,
            paths: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            narrow: BTreeSet::new(),
            mtu_changes: VecDeque::new(),
            commands: VecDeque::new(),
            has_peers_left: false,
            random: (secret, 0),
        }
    }

    /// Replaces the configuration. Paths between two rounds begin their next round after the new
    /// interval.
    pub(crate) fn set_config(&mut self, now: Nanos, config: PathConfig) {
        if core::mem::replace(&mut self.config, config) == config {
            return;
        }
        let resting = self.paths.iter().filter(|(_, path)| path.unanswered == 0);
        let resting: Vec<IpAddr> = resting.map(|(peer, _)| *peer).collect();
        for peer in resting {
            self.schedule_path(peer, self.next_round(now));
        }
    }

    /// Returns the next Echo Request to send through any one worker.
    pub(crate) fn poll_command(&mut self) -> Option<WorkerCommand> {
        self.commands.pop_front()
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.config.echo_interval.0 > 0
    }

    /// Returns when the next regular round begins.
    fn next_round(&self, now: Nanos) -> Nanos {
        if self.is_on() { now + self.config.echo_interval } else { Nanos::NEVER }
    }

    fn draw_sequence(&mut self) -> u16 {
        self.random.1 = self.random.1.wrapping_add(1);
        let mut digest = DefaultHasher::new();
        self.random.hash(&mut digest);
        let [low, high, ..] = digest.finish().to_le_bytes();
        u16::from_le_bytes([low, high]) & !MEASURES_DELAY_BIT
    }

    fn schedule_path(&mut self, peer: IpAddr, due: Nanos) {
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
            self.schedule_path(peer, now);
        }
    }

    /// Adds a peer (`is_peer`) or removes it. The first request is sent after an interval, so that
    /// short-lived peers get none.
    pub(crate) fn set_peer(&mut self, now: Nanos, peer: IpAddr, is_peer: bool) {
        if !is_peer {
            self.remove_path_mtu(peer);
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
                mtu: None,
                start: PeerStart::default(),
            });
            self.schedule_path(peer, self.next_round(now));
        }
    }

    /// Takes in an MTU that a router reported. True if the maximum size of packets to the peer
    /// shrinks. A greater MTU than the known one is ignored: it concerns a packet sent before that
    /// was known.
    pub(crate) fn narrow(
        &mut self,
        now: Nanos,
        peer: IpAddr,
        router: IpAddr,
        mtu_bytes: u16,
    ) -> bool {
        let Some(path) = self.paths.get_mut(&peer) else { return false };
        let former = path.mtu;
        if former.is_some_and(|former| former.mtu_bytes < mtu_bytes) {
            return false;
        }
        let (until, messages) =
            (now + PATH_MTU_TIME, former.map_or(0, |former| former.messages) + 1);
        path.mtu = Some(PathMtu { mtu_bytes, router, until, messages });
        if let Some(former) = former {
            self.narrow.remove(&(former.until, peer));
        }
        self.narrow.insert((until, peer));
        let is_news = former.is_none_or(|former| former.mtu_bytes > mtu_bytes);
        if is_news {
            self.mtu_changes.push_back(PathMtuChange { peer, mtu_bytes });
        }
        is_news
    }

    /// Removes the path MTU of a peer, so that only the MTUs of our links apply.
    fn remove_path_mtu(&mut self, peer: IpAddr) {
        let known = self.paths.get_mut(&peer).and_then(|path| path.mtu.take());
        if let Some(known) = known {
            self.narrow.remove(&(known.until, peer));
            self.mtu_changes.push_back(PathMtuChange { peer, mtu_bytes: u16::MAX });
        }
    }

    /// Removes the path MTUs whose time is over, so that larger packets are tried again.
    pub(crate) fn remove_expired_mtus(&mut self, now: Nanos) {
        while let Some(&(until, peer)) = self.narrow.first()
            && until <= now
        {
            self.remove_path_mtu(peer);
        }
    }

    /// Returns the next change of a path MTU, in order.
    pub(crate) fn poll_mtu_change(&mut self) -> Option<PathMtuChange> {
        self.mtu_changes.pop_front()
    }

    /// Sends due Echo Requests, and returns a path that has failed. Each due path takes one of
    /// `allowance`. Call it until it returns `None`.
    pub(crate) fn poll_due(&mut self, now: Nanos, allowance: &mut usize) -> Option<PathTransition> {
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
                    _ => path.sequence.wrapping_add(1) & !MEASURES_DELAY_BIT,
                };
                path.unanswered += 1;
                path.requests += 1;
                path.due = now + self.config.t3;
                self.deadlines.insert((path.due, peer));
                // If the queue is full, the request counts as sent and lost.
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
            self.schedule_path(peer, self.next_round(now));
            if is_on && !was_down {
                return Some(PathTransition::Failed(peer));
            }
        }
        None
    }

    /// Processes an Echo Response; `started` is the start time that its sender reports. Ignores
    /// responses to requests outside the present round.
    pub(crate) fn answered(
        &mut self,
        now: Nanos,
        peer: IpAddr,
        sequence: u16,
        started: Option<u32>,
    ) -> EchoOutcome {
        let next_round = self.next_round(now);
        let Some(path) = self.paths.get_mut(&peer) else { return EchoOutcome::default() };
        let age = u32::from(path.sequence.wrapping_sub(sequence) & !MEASURES_DELAY_BIT);
        if age >= path.unanswered {
            return EchoOutcome::default();
        }
        path.unanswered = 0;
        path.responses += 1;
        let is_restart = started.is_some_and(|started| path.start.learn(started));
        let asks_again = path.start.needs_confirmation(now, self.config.t3);
        let before = core::mem::replace(&mut path.state, PathState::Up);
        self.schedule_path(peer, if asks_again { now } else { next_round });
        let turn = (before == PathState::Down).then_some(PathTransition::Recovered(peer));
        EchoOutcome { transition: turn, is_restart }
    }

    /// Takes in a start time that anybody could have sent. If it is later than the known one, sends
    /// Echo Requests to check it.
    pub(crate) fn note_unproven_start(&mut self, now: Nanos, peer: IpAddr, started: u32) {
        let t3 = self.config.t3;
        let path = self.paths.get_mut(&peer);
        if path.is_some_and(|path| path.start.needs_probe(now, t3, started)) {
            self.begin_round(now, peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 2));
    const CONFIG: PathConfig = PathConfig { echo_interval: Nanos(100), t3: Nanos(10), n3: 2 };

    fn paths() -> Paths {
        let mut paths = Paths::new(CONFIG, 1);
        paths.set_peer(Nanos(0), PEER, true);
        paths
    }

    /// Returns the sequence numbers of the requests that are sent at `now`, and the path that
    /// failed.
    fn poll(paths: &mut Paths, now: u64) -> (Vec<u16>, Option<PathTransition>) {
        let mut allowance = 10;
        let failed = paths.poll_due(Nanos(now), &mut allowance);
        let commands = core::iter::from_fn(|| paths.poll_command());
        let sequence = |command| match command {
            WorkerCommand::SendEchoRequest { sequence, .. } => sequence,
            _ => panic!("another command"),
        };
        (commands.map(sequence).collect(), failed)
    }

    #[test]
    fn changed_interval_counts_from_the_change_and_a_path_of_none_is_watched_again() {
        let mut paths = paths();
        let off = PathConfig { echo_interval: Nanos(0), ..CONFIG };
        paths.set_config(Nanos(50), off);
        assert!(paths.deadlines.is_empty());
        paths.set_config(Nanos(60), CONFIG);
        assert_eq!(poll(&mut paths, 159).0.len(), 0);
        assert_eq!(poll(&mut paths, 160).0.len(), 1);
        // A round that is under way goes on.
        paths.set_config(Nanos(161), off);
        assert_eq!(poll(&mut paths, 170).0.len(), 1);
    }

    #[test]
    fn path_fails_after_n3_requests_and_recovers_with_a_response() {
        let mut paths = paths();
        assert!(poll(&mut paths, 99).0.is_empty(), "the first request waits an interval");
        let first = poll(&mut paths, 100).0[0];
        assert_eq!(poll(&mut paths, 110), (vec![(first + 1) & !MEASURES_DELAY_BIT], None));
        assert_eq!(poll(&mut paths, 120), (Vec::new(), Some(PathTransition::Failed(PEER))));
        assert_eq!(paths.paths[&PEER].state, PathState::Down);
        let sequence = poll(&mut paths, 220).0[0];
        let outcome = paths.answered(Nanos(221), PEER, sequence, None);
        assert_eq!(outcome.transition, Some(PathTransition::Recovered(PEER)));
        assert_eq!(paths.deadlines, [(Nanos(321), PEER)].into(), "the next round");
    }

    #[test]
    fn only_a_response_to_a_request_of_the_round_counts() {
        let mut paths = paths();
        let sequence = poll(&mut paths, 100).0[0];
        for other in [sequence.wrapping_sub(1), sequence.wrapping_add(1)] {
            assert_eq!(paths.answered(Nanos(101), PEER, other, None), EchoOutcome::default());
        }
        assert_eq!(paths.paths[&PEER].responses, 0);
        poll(&mut paths, 110);
        paths.answered(Nanos(111), PEER, sequence, None);
        paths.answered(Nanos(112), PEER, sequence, None);
        let path = &paths.paths[&PEER];
        assert_eq!((path.state, path.responses), (PathState::Up, 1), "the first of two requests");
    }

    #[test]
    fn restart_takes_two_responses_with_the_later_start() {
        let mut paths = paths();
        let mut answered = |started| {
            let at = paths.deadlines.first().unwrap().0;
            let sequence = poll(&mut paths, at.0).0[0];
            paths.answered(at, PEER, sequence, Some(started)).is_restart
        };
        let restarts = [7, 7, 7, 9, 9, 8].map(&mut answered);
        assert_eq!(restarts, [false, false, false, false, true, false]);
    }

    #[test]
    fn peer_that_no_far_sends_to_leaves_no_deadline() {
        let mut paths = paths();
        paths.set_peer(Nanos(0), PEER, false);
        assert!(paths.paths.is_empty() && paths.deadlines.is_empty());
        assert_eq!(poll(&mut paths, 1000), (Vec::new(), None));
    }
}
