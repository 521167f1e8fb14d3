//! The connection to the primary, and the search for the primary among the servers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use adit_transport::Transport;
use adit_transport::resp::RespValue;
use adit_types::Nanos;

use crate::connection::{CommandWords, LinkError, PipelineTag, ServerConnection};
use crate::greeting::{Greeting, GreetingCommands, GreetingRank};
use crate::scripts::{PipelineReply, ScriptAnswer};

/// Maximum of known servers, including those to which a Cluster redirects.
const SERVERS_MAX: usize = 96;

/// Pauses before a server is tried again: after a failure, and after it refused a command.
const SERVER_RETRY_PAUSE: Duration = Duration::from_millis(50);
const REFUSED_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Maximum time of a call while octets keep arriving.
const CALL_MAX: Duration = Duration::from_secs(10);

/// Longest sleep before deadlines are checked again.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// For how long servers may be silent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkTimes {
    /// A connection on which a command awaits its reply for this long is closed.
    pub silence: Duration,
    /// How long the search waits, once one primary is usable, for others that may have more groups.
    pub grace: Duration,
}

/// A server that may be the primary.
#[derive(Debug)]
struct ServerCandidate {
    server: SocketAddr,
    stage: CandidateStage,
    /// Why the server could not be used the last time.
    reason: Option<String>,
}

#[derive(Debug)]
enum CandidateStage {
    /// Not connected; tried again at this time.
    Idle { retry_at: Instant },
    /// Connected or connecting; not all commands of the greeting are answered.
    Greeting { connection: Box<ServerConnection>, began: Instant, greeting: Box<Greeting> },
    /// The greeting is complete, and the server is a primary.
    Usable { connection: Box<ServerConnection>, greeting: Box<Greeting> },
}

/// The connection to the primary, or the search for the primary.
///
/// The search greets all servers at once, so a silent server does not delay the others.
pub(crate) struct ServerLink<T> {
    transport: T,
    times: LinkTimes,
    commands: GreetingCommands,
    candidates: Vec<ServerCandidate>,
    connection: Option<ServerConnection>,
    /// Replies to commands of the pipeline that were not fetched yet.
    replies: Vec<(PipelineTag, PipelineReply)>,
    /// When the first usable primary was found in this search.
    found_at: Option<Instant>,
    began: Instant,
    /// How often a connection failed or was lost.
    pub(crate) failures: u64,
}

impl<T: Transport> ServerLink<T> {
    pub(crate) fn new(
        transport: T,
        servers: &[SocketAddr],
        commands: GreetingCommands,
        times: LinkTimes,
    ) -> Self {
        let began = Instant::now();
        let mut link = Self {
            transport,
            times,
            commands,
            candidates: Vec::new(),
            connection: None,
            replies: Vec::new(),
            found_at: None,
            began,
            failures: 0,
        };
        servers.iter().for_each(|server| link.add(*server));
        link
    }

    /// Returns the server in use.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        self.connection.as_ref().map(|connection| connection.server)
    }

    /// Returns how many commands await a reply; `None` without a connection.
    pub(crate) fn in_flight(&self) -> Option<usize> {
        self.connection.as_ref().map(ServerConnection::in_flight)
    }

    /// Queues a command in the pipeline. False without a connection, or if the output has no room
    /// now.
    pub(crate) fn command(&mut self, tag: PipelineTag, words: &[&[u8]], now: Instant) -> bool {
        self.connection.as_mut().is_some_and(|connection| connection.command(tag, words, now))
    }

    /// Returns the replies to commands of the pipeline since the last call.
    pub(crate) fn take_replies(&mut self) -> Vec<(PipelineTag, PipelineReply)> {
        std::mem::take(&mut self.replies)
    }

    /// Lets the transport send and receive what it can without waiting.
    pub(crate) fn poll_transport(&mut self) {
        // Transports over blocking sockets notice only in `wait` which sockets are ready.
        self.transport.wait(Duration::ZERO);
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.transport.poll(Nanos(nanos));
    }

    /// Blocks until octets of a server may have arrived, for at most `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) {
        self.transport.wait(limit.min(WAIT_MAX));
    }

    /// Does one step of the search, if there is no connection. Once a primary is found, returns its
    /// greeting; `rank` chooses among several that answer in time.
    pub(crate) fn search(
        &mut self,
        now: Instant,
        rank: impl Fn(&Greeting) -> GreetingRank,
    ) -> Option<Greeting> {
        if self.connection.is_some() {
            return None;
        }
        let mut place = 0;
        // Redirections append candidates during the loop.
        while place < self.candidates.len() {
            self.advance_greeting(place, now);
            place += 1;
        }
        let is_usable = |one: &ServerCandidate| matches!(one.stage, CandidateStage::Usable { .. });
        if !self.candidates.iter().any(is_usable) {
            self.found_at = None;
            return None;
        }
        let found_at = *self.found_at.get_or_insert(now);
        let is_open = |one: &ServerCandidate| matches!(one.stage, CandidateStage::Greeting { .. });
        let waits = now.saturating_duration_since(found_at) < self.times.grace;
        if waits && self.candidates.iter().any(is_open) {
            return None;
        }
        self.choose(now, rank)
    }

    /// Uses the primary with the greatest rank, and closes all other connections.
    fn choose(
        &mut self,
        now: Instant,
        rank: impl Fn(&Greeting) -> GreetingRank,
    ) -> Option<Greeting> {
        let ranks =
            self.candidates.iter().enumerate().filter_map(|(place, one)| match &one.stage {
                CandidateStage::Usable { greeting, .. } => Some((rank(greeting), place)),
                _ => None,
            });
        // If ranks are equal, the first server in the order of the configuration wins.
        let best = ranks.max_by_key(|(rank, place)| (*rank, std::cmp::Reverse(*place)))?.1;
        let mut chosen = None;
        for (place, one) in self.candidates.iter_mut().enumerate() {
            match std::mem::replace(&mut one.stage, CandidateStage::Idle { retry_at: now }) {
                CandidateStage::Idle { .. } => {}
                CandidateStage::Usable { connection, greeting } if place == best => {
                    chosen = Some((connection, greeting));
                }
                CandidateStage::Greeting { connection, .. }
                | CandidateStage::Usable { connection, .. } => connection.end(&mut self.transport),
            }
        }
        self.found_at = None;
        let (connection, greeting) = chosen?;
        self.connection = Some(*connection);
        Some(*greeting)
    }

    /// Does one step of the greeting of a server.
    fn advance_greeting(&mut self, place: usize, now: Instant) {
        let Self { transport, candidates, commands, times, .. } = self;
        let Some(one) = candidates.get_mut(place) else { return };
        let failed = match &mut one.stage {
            CandidateStage::Idle { retry_at } if now < *retry_at => return,
            CandidateStage::Idle { .. } => {
                match ServerConnection::begin(transport, one.server, now) {
                    Ok(mut connection) => {
                        commands.send(&mut connection, now);
                        let (connection, greeting) = (Box::new(connection), Box::default());
                        one.stage = CandidateStage::Greeting { connection, began: now, greeting };
                        return;
                    }
                    Err(error) => LinkError::from(error),
                }
            }
            CandidateStage::Usable { connection, .. } => {
                match connection.advance(transport, now, &mut |_, _| {}) {
                    Ok(_) => return,
                    Err(error) => error,
                }
            }
            CandidateStage::Greeting { connection, began, greeting } => {
                let advanced = connection.advance(transport, now, &mut |tag, value| match tag {
                    PipelineTag::Call(place) => greeting.take(place, value),
                    _ => greeting.info.take(value),
                });
                let is_silent = now.saturating_duration_since(*began) >= times.silence;
                match advanced {
                    Err(error) => error,
                    Ok(_) if connection.in_flight() == 0 => match greeting.replicas.is_some() {
                        true => return one.set_usable(now),
                        false => LinkError::Lost("it is not a primary".to_owned()),
                    },
                    Ok(_) if is_silent => LinkError::Lost("the peer does not answer".to_owned()),
                    Ok(_) => return,
                }
            }
        };
        self.failures += u64::from(!matches!(failed, LinkError::Moved(_)));
        self.reject(place, failed, now);
    }

    /// Closes the connection to a server, and does not try it again before a pause.
    fn reject(&mut self, place: usize, why: LinkError, now: Instant) {
        let Some(one) = self.candidates.get_mut(place) else { return };
        let pause =
            if let LinkError::Refused(_) = why { REFUSED_RETRY_PAUSE } else { SERVER_RETRY_PAUSE };
        let idle = CandidateStage::Idle { retry_at: now + pause };
        match std::mem::replace(&mut one.stage, idle) {
            CandidateStage::Idle { .. } => {}
            CandidateStage::Greeting { connection, .. }
            | CandidateStage::Usable { connection, .. } => connection.end(&mut self.transport),
        }
        one.reason = Some(match &why {
            LinkError::Lost(why) | LinkError::Refused(why) => why.clone(),
            LinkError::Final(error) => error.to_string(),
            LinkError::Moved(to) => format!("the records are at {to}"),
        });
        if let LinkError::Moved(to) = why {
            self.add(to);
        }
    }

    /// Adds a server to the candidates, unless it is one already or there are too many.
    fn add(&mut self, server: SocketAddr) {
        let is_known = self.candidates.iter().any(|one| one.server == server);
        if !is_known && self.candidates.len() < SERVERS_MAX {
            let stage = CandidateStage::Idle { retry_at: self.began };
            self.candidates.push(ServerCandidate { server, stage, reason: None });
        }
    }

    /// Returns the reasons why servers cannot be used, one for each server.
    pub(crate) fn reasons(&self) -> String {
        let all = self.candidates.iter().map(|one| {
            let reason = one.reason.as_deref().unwrap_or("it has not answered yet");
            format!("{}: {reason}", one.server)
        });
        all.collect::<Vec<_>>().join("; ")
    }

    /// Closes the connection, and begins to search for the primary again.
    pub(crate) fn lose(&mut self, why: LinkError) {
        let Some(connection) = self.connection.take() else { return };
        let (server, now) = (connection.server, Instant::now());
        connection.end(&mut self.transport);
        self.add(server);
        if let Some(place) = self.candidates.iter().position(|one| one.server == server) {
            self.failures += u64::from(!matches!(why, LinkError::Moved(_)));
            self.reject(place, why, now);
        }
    }

    /// Sends and receives on the connection.
    pub(crate) fn advance(&mut self, now: Instant) -> Result<(), LinkError> {
        let Self { connection, transport, replies, .. } = self;
        let Some(connection) = connection else { return Ok(()) };
        connection.advance(transport, now, &mut |tag, value| {
            replies.push((tag, PipelineReply::read(tag, value)));
        })?;
        match connection.reply_awaited(now) >= self.times.silence {
            true => Err(LinkError::Lost("the peer does not answer".to_owned())),
            false => Ok(()),
        }
    }

    /// Sends as many octets of the output as the transport takes.
    pub(crate) fn flush(&mut self) -> Result<(), LinkError> {
        let Self { connection, transport, .. } = self;
        connection.as_mut().map_or(Ok(()), |connection| connection.flush(transport))
    }

    /// Runs a script and waits for its answer; `None` if the answer is malformed.
    pub(crate) fn run_script(
        &mut self,
        command: CommandWords<'_>,
    ) -> Result<Option<ScriptAnswer>, LinkError> {
        let mut answer = None;
        self.call_server(&[command], Duration::ZERO, &mut |_, value| {
            answer = ScriptAnswer::read(value);
        })?;
        Ok(answer)
    }

    /// Sends commands and waits for their replies; calls `each` with the index of the command and
    /// its reply. `limit`: how much longer than usual the server may be silent.
    pub(crate) fn call_server(
        &mut self,
        commands: &[CommandWords<'_>],
        limit: Duration,
        each: &mut dyn FnMut(usize, RespValue<'_>),
    ) -> Result<(), LinkError> {
        let began = Instant::now();
        let silence = self.times.silence + limit;
        let (mut queued, mut answered) = (0, 0);
        while answered < commands.len() {
            self.poll_transport();
            let now = Instant::now();
            let Self { connection, transport, replies, .. } = self;
            let Some(connection) = connection else {
                return Err(LinkError::Lost("there is no connection".to_owned()));
            };
            while let Some(command) = commands.get(queued)
                && connection.command(PipelineTag::Call(queued), command, now)
            {
                queued += 1;
            }
            let mut on_reply = |tag, value: RespValue<'_>| match tag {
                PipelineTag::Call(place) => {
                    each(place, value);
                    answered += 1;
                }
                tag => replies.push((tag, PipelineReply::read(tag, value))),
            };
            let has_arrived = connection.advance(transport, now, &mut on_reply)?;
            let is_late = now.saturating_duration_since(began) >= CALL_MAX + limit;
            if is_late || connection.octets_awaited(now) >= silence {
                return Err(LinkError::Lost("the peer does not answer".to_owned()));
            }
            if !has_arrived && answered < commands.len() {
                self.wait(silence);
            }
        }
        Ok(())
    }
}

impl ServerCandidate {
    fn set_usable(&mut self, now: Instant) {
        let idle = CandidateStage::Idle { retry_at: now };
        self.stage = match std::mem::replace(&mut self.stage, idle) {
            CandidateStage::Greeting { connection, greeting, .. } => {
                CandidateStage::Usable { connection, greeting }
            }
            other => other,
        };
    }
}
