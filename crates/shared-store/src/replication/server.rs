//! The standby's side of replication.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use adit_transport::resp::{RespServer, RespValue};
use adit_transport::{StreamId, Transport, TransportError};
use adit_types::Nanos;

use crate::replication::command::ReplicationRefusal;
use crate::replication::connection::LIMITS;
use crate::replication::tail::{Executed, ReplicationTail};

/// Connections at most. The active adit has one, and one that takes the records over another. A
/// further one ends the oldest without an active adit.
const CONNECTIONS_MAX: usize = 8;

/// Octets of replies after which no further command of a connection is read.
const REPLY_BYTES_MAX: usize = 1 << 16;

/// Receive calls of one poll and connection at most.
const RECEIVED_PER_POLL: usize = 64;

/// How long a connection may be silent. The active adit sends a sign of life more often.
const SILENCE_MAX: Nanos = Nanos::from_secs(10);

/// Counters of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicationServerCounters {
    /// Connections of active adits that began.
    pub greeted: u64,
    /// Commands that were refused, for other reasons than an old epoch.
    pub refused: u64,
    /// Commands that were refused because of an old epoch.
    pub fenced: u64,
    /// Connections that ended because of a violation of the protocol, or for lack of room.
    pub violations: u64,
}

#[derive(Debug)]
struct ActiveConnection {
    stream: StreamId,
    resp: RespServer,
    last_heard: Nanos,
    /// It began with `ADIT.HELLO`.
    is_active: bool,
    /// It violated the protocol: it ends after the last reply.
    is_ending: bool,
}

/// Keeps the tail for the active adit.
///
/// Memory: that of the tail, and of [`CONNECTIONS_MAX`] connections with a few MiB each.
pub struct ReplicationServer<T> {
    transport: T,
    tail: ReplicationTail,
    connections: Vec<ActiveConnection>,
    counters: ReplicationServerCounters,
    /// Until when the active adit may count on it that this one does not take over.
    promised_until: Nanos,
}

impl<T> fmt::Debug for ReplicationServer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.tail, &self.connections, self.counters);
        f.debug_tuple("ReplicationServer").field(&all).finish_non_exhaustive()
    }
}

impl<T: Transport> ReplicationServer<T> {
    /// Listens at `local`.
    ///
    /// # Errors
    /// As for [`Transport::listen`].
    pub fn new(
        transport: T,
        local: SocketAddr,
        tail: ReplicationTail,
    ) -> Result<Self, TransportError> {
        let mut transport = transport;
        transport.listen(local)?;
        let counters = ReplicationServerCounters::default();
        Ok(Self { transport, tail, connections: Vec::new(), counters, promised_until: Nanos(0) })
    }

    /// The tail.
    #[must_use]
    pub const fn tail(&self) -> &ReplicationTail {
        &self.tail
    }

    /// The tail, for a process that takes the records over.
    pub fn tail_mut(&mut self) -> &mut ReplicationTail {
        &mut self.tail
    }

    /// The counters so far.
    #[must_use]
    pub const fn counters(&self) -> ReplicationServerCounters {
        self.counters
    }

    /// True while an active adit is connected.
    #[must_use]
    pub fn has_active(&self) -> bool {
        self.connections.iter().any(|connection| connection.is_active)
    }

    /// Accepts, receives and replies, as far as that is possible without waiting. Returns true if
    /// something arrived.
    pub fn poll(&mut self, now: Nanos) -> bool {
        let Self { transport, tail, connections, counters, .. } = self;
        transport.poll(now);
        while let Some(stream) = transport.accept() {
            if connections.len() >= CONNECTIONS_MAX
                && let Some(oldest) = connections.iter().position(|of| !of.is_active)
            {
                counters.violations += 1;
                transport.close(connections.remove(oldest).stream);
            }
            connections.push(ActiveConnection {
                stream,
                resp: RespServer::new(LIMITS),
                last_heard: now,
                is_active: false,
                is_ending: false,
            });
        }
        let (mut has_input, mut newest) = (false, None);
        for connection in connections.iter_mut() {
            let served = connection.serve(transport, tail, counters, now);
            has_input |= served.has_input;
            connection.is_ending |= served.is_over;
            if served.has_greeted {
                newest = Some(connection.stream);
            }
        }
        connections.retain(|connection| {
            let is_replaced =
                newest.is_some_and(|newest| connection.is_active && connection.stream != newest);
            let is_over = is_replaced || connection.is_ending;
            if is_over {
                transport.close(connection.stream);
            }
            !is_over
        });
        if has_input {
            // A stack in user space sends the replies now instead of in the next turn.
            transport.poll(now);
        }
        has_input
    }

    /// Notes until when the promises of the last poll last. `now` is read after it: the active adit
    /// counts from an earlier time.
    pub fn note_promises(&mut self, now: impl FnOnce() -> Nanos) {
        if let Some(ms) = self.tail.take_promised() {
            self.promised_until = self.promised_until.max(now() + Nanos::from_millis(ms));
        }
    }

    /// Until when the active adit may count on it that this one does not take over.
    #[must_use]
    pub const fn promised_until(&self) -> Nanos {
        self.promised_until
    }

    /// Blocks until something may have arrived, for at most `limit`.
    pub fn wait(&mut self, limit: Duration) {
        self.transport.wait(limit);
    }

    /// Ends all connections, and returns the transport and the tail.
    #[must_use]
    pub fn into_parts(self) -> (T, ReplicationTail) {
        let Self { mut transport, tail, connections, .. } = self;
        connections.iter().for_each(|connection| transport.close(connection.stream));
        (transport, tail)
    }
}

/// The result of a poll of one connection.
#[derive(Debug, Clone, Copy, Default)]
struct Served {
    has_input: bool,
    has_greeted: bool,
    is_over: bool,
}

impl ActiveConnection {
    fn serve(
        &mut self,
        transport: &mut impl Transport,
        tail: &mut ReplicationTail,
        counters: &mut ReplicationServerCounters,
        now: Nanos,
    ) -> Served {
        let mut served = Served::default();
        for _ in 0..RECEIVED_PER_POLL {
            served.has_greeted |= self.execute(tail, counters);
            if self.is_ending || self.resp.replies.output().len() > REPLY_BYTES_MAX {
                break;
            }
            match transport.receive(self.stream, self.resp.requests.input_room()) {
                Ok(0) => break,
                Ok(len) => self.resp.requests.input_arrived(len),
                Err(_) => {
                    served.is_over = true;
                    return served;
                }
            }
            self.last_heard = now;
            served.has_input = true;
        }
        while !self.resp.replies.output().is_empty() {
            match transport.send(self.stream, self.resp.replies.output()) {
                Ok(0) => break,
                Ok(len) => self.resp.replies.output_sent(len),
                Err(_) => {
                    served.is_over = true;
                    return served;
                }
            }
        }
        let is_answered = self.resp.replies.output().is_empty();
        served.is_over = self.is_ending && is_answered || now.since(self.last_heard) > SILENCE_MAX;
        // Not over before the last reply is sent.
        self.is_ending &= !is_answered;
        served
    }

    /// Runs the commands that have arrived. True if the active adit greeted for the first time.
    fn execute(
        &mut self,
        tail: &mut ReplicationTail,
        counters: &mut ReplicationServerCounters,
    ) -> bool {
        let RespServer { requests, replies } = &mut self.resp;
        let was_active = self.is_active;
        while replies.output().len() <= REPLY_BYTES_MAX && !self.is_ending {
            match requests.next_command() {
                Ok(None) => break,
                Ok(Some(command)) => match tail.execute(command, replies) {
                    Executed::Greeted => {
                        counters.greeted += 1;
                        self.is_active = true;
                    }
                    Executed::Done => {}
                    Executed::Refused(ReplicationRefusal::Fenced(_)) => counters.fenced += 1,
                    Executed::Refused(_) => counters.refused += 1,
                },
                Err(error) => {
                    counters.violations += 1;
                    replies.reply(&RespValue::Error(format!("ERR {error}").as_bytes()));
                    self.is_ending = true;
                }
            }
        }
        self.is_active && !was_active
    }
}
