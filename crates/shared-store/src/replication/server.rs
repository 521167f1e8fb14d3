//! The standby's side of replication: the server of the active adit.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use adit_transport::resp::{RespServer, RespValue};
use adit_transport::{StreamId, Transport, TransportError};
use adit_types::Nanos;

use crate::replication::command::ReplicationRefusal;
use crate::replication::connection::REPLICATION_RESP_LIMITS;
use crate::replication::tail::{CommandOutcome, ReplicationTail};

/// Maximum of connections. The active adit has one, and an adit that is taking over has another. A
/// further connection closes the oldest one on which no active adit has begun.
const CONNECTIONS_MAX: usize = 8;

/// Maximum of octets of replies that wait to be sent; beyond it no further command of the
/// connection is read.
const REPLY_BYTES_MAX: usize = 1 << 16;

/// Maximum of receive calls for one connection in one poll.
const RECEIVED_PER_POLL: usize = 64;

/// How long a connection may be silent, at most. The active adit sends `PING` more often.
const SILENCE_MAX: Nanos = Nanos::from_secs(10);

/// Counters of a replication server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicationServerCounters {
    /// How many connections began with an accepted `ADIT.HELLO`.
    pub greeted: u64,
    /// Commands that were refused for other reasons than an old epoch.
    pub refused: u64,
    /// Commands that were refused because of an old epoch.
    pub fenced: u64,
    /// Connections that were closed because they violated the protocol, or for lack of room.
    pub violations: u64,
}

#[derive(Debug)]
struct InboundConnection {
    stream: StreamId,
    resp: RespServer,
    last_heard: Nanos,
    /// True once an `ADIT.HELLO` was accepted on the connection.
    is_active: bool,
    /// True if the connection violated the protocol: it is closed after the last reply.
    is_ending: bool,
}

/// Keeps the tail for the active adit, and serves its connections.
///
/// Memory: the tail, and up to [`CONNECTIONS_MAX`] connections with a few MiB each.
pub struct ReplicationServer<T> {
    transport: T,
    tail: ReplicationTail,
    connections: Vec<InboundConnection>,
    counters: ReplicationServerCounters,
    /// Until when this standby has promised the active adit not to take over.
    promised_until: Nanos,
}

impl<T> fmt::Debug for ReplicationServer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.tail, &self.connections, self.counters);
        f.debug_tuple("ReplicationServer").field(&all).finish_non_exhaustive()
    }
}

impl<T: Transport> ReplicationServer<T> {
    /// Begins to listen at `local`.
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

    /// Returns the tail.
    #[must_use]
    pub const fn tail(&self) -> &ReplicationTail {
        &self.tail
    }

    /// Returns the tail, for a process that takes the records over.
    pub fn tail_mut(&mut self) -> &mut ReplicationTail {
        &mut self.tail
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> ReplicationServerCounters {
        self.counters
    }

    /// True while an active adit is connected.
    #[must_use]
    pub fn has_active(&self) -> bool {
        self.connections.iter().any(|connection| connection.is_active)
    }

    /// Accepts connections, receives and replies, as far as that is possible without waiting. True
    /// if anything arrived.
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
            connections.push(InboundConnection {
                stream,
                resp: RespServer::new(REPLICATION_RESP_LIMITS),
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
            // Makes a network stack in user space send the replies now instead of in the next poll.
            transport.poll(now);
        }
        has_input
    }

    /// Notes until when the promises of the last poll last. Reads the clock after that poll, which
    /// is safe: the active adit counts from the earlier time of its `PING`.
    pub fn note_promises(&mut self, now: impl FnOnce() -> Nanos) {
        if let Some(ms) = self.tail.take_given_promise() {
            self.promised_until = self.promised_until.max(now() + Nanos::from_millis(ms));
        }
    }

    /// Returns until when this standby has promised the active adit not to take over.
    #[must_use]
    pub const fn promised_until(&self) -> Nanos {
        self.promised_until
    }

    /// Blocks until anything may have arrived, for at most `limit`.
    pub fn wait(&mut self, limit: Duration) {
        self.transport.wait(limit);
    }

    /// Closes all connections, and returns the transport and the tail.
    #[must_use]
    pub fn into_parts(self) -> (T, ReplicationTail) {
        let Self { mut transport, tail, connections, .. } = self;
        connections.iter().for_each(|connection| transport.close(connection.stream));
        (transport, tail)
    }
}

/// The result of serving one connection for one poll.
#[derive(Debug, Clone, Copy, Default)]
struct ServeOutcome {
    has_input: bool,
    has_greeted: bool,
    is_over: bool,
}

impl InboundConnection {
    fn serve(
        &mut self,
        transport: &mut impl Transport,
        tail: &mut ReplicationTail,
        counters: &mut ReplicationServerCounters,
        now: Nanos,
    ) -> ServeOutcome {
        let mut served = ServeOutcome::default();
        for _ in 0..RECEIVED_PER_POLL {
            served.has_greeted |= self.run_commands(tail, counters);
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
        // The connection stays open until the last reply is sent.
        self.is_ending &= !is_answered;
        served
    }

    /// Runs the commands that have arrived. True if an active adit began on this connection.
    fn run_commands(
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
                    CommandOutcome::Greeted => {
                        counters.greeted += 1;
                        self.is_active = true;
                    }
                    CommandOutcome::Done => {}
                    CommandOutcome::Refused(ReplicationRefusal::Fenced(_)) => counters.fenced += 1,
                    CommandOutcome::Refused(_) => counters.refused += 1,
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
