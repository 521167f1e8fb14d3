//! A connection to the adit that keeps the tail.

use std::net::SocketAddr;

use adit_store::RecordNumber;
use adit_transport::resp::{RespClient, RespLimits, RespValue};
use adit_transport::{StreamId, StreamState, Transport};
use adit_types::Nanos;
use adit_types::limits::STORE_GROUP_BYTES_MAX;

use crate::replication::command::{ReplicationCommand, record_number};
use crate::replication::error::ReplicationError;

/// Commands without reply at most.
const IN_FLIGHT_MAX: usize = 4096;

/// Octets of commands that wait for the transport: at least one group.
const OUTPUT_BYTES_MAX: usize = 2 * STORE_GROUP_BYTES_MAX;

/// Receive calls of one poll at most.
const RECEIVED_PER_POLL: usize = 64;

/// Bounds of commands and replies: some groups, or one that is as large as it may be.
pub(crate) const LIMITS: RespLimits =
    RespLimits { value_bytes_max: 3 * STORE_GROUP_BYTES_MAX, elements_max: 1 << 16 };

/// The command that a reply belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentCommand {
    Hello,
    Group(RecordNumber),
    Ping,
}

/// A connection, from its handshake on.
#[derive(Debug)]
pub(crate) struct Connection {
    pub stream: StreamId,
    resp: RespClient<SentCommand>,
    is_open: bool,
    /// Since when the peer leaves the handshake or a command without reply.
    silent_since: Nanos,
    /// When the last command was sent.
    last_sent: Nanos,
}

impl Connection {
    /// Begins to connect.
    ///
    /// # Errors
    /// As for [`Transport::connect`].
    pub(crate) fn begin(
        transport: &mut impl Transport,
        peer: SocketAddr,
        now: Nanos,
    ) -> Result<Self, ReplicationError> {
        let stream = transport.connect(peer)?;
        let resp = RespClient::new(LIMITS, IN_FLIGHT_MAX, OUTPUT_BYTES_MAX);
        Ok(Self { stream, resp, is_open: false, silent_since: now, last_sent: now })
    }

    /// Appends a command; false if too many wait already.
    pub(crate) fn send(
        &mut self,
        now: Nanos,
        command: &ReplicationCommand<'_>,
        tag: SentCommand,
    ) -> bool {
        let was_idle = self.resp.in_flight() == 0;
        let is_sent = command.send(&mut self.resp, tag).is_ok();
        if is_sent {
            self.last_sent = now;
            if was_idle {
                self.silent_since = now;
            }
        }
        is_sent
    }

    /// When the last command was sent, if all commands have replies.
    pub(crate) fn idle_since(&self) -> Option<Nanos> {
        (self.resp.in_flight() == 0).then_some(self.last_sent)
    }

    /// Receives the octets that have arrived. [`Connection::next_reply`] returns it.
    ///
    /// # Errors
    /// The connection is over.
    pub(crate) fn receive(
        &mut self,
        transport: &mut impl Transport,
        now: Nanos,
        silence_max: Nanos,
    ) -> Result<bool, ReplicationError> {
        if !self.is_open {
            match transport.state(self.stream) {
                StreamState::Connecting => {}
                StreamState::Open => self.is_open = true,
                StreamState::Closed(error) => return Err(error.into()),
            }
        }
        let mut len = 0;
        if self.is_open {
            len = transport.receive(self.stream, self.resp.input_room())?;
        }
        if len > 0 {
            self.resp.input_arrived(len);
            self.silent_since = now;
        }
        let waits = !self.is_open || self.resp.in_flight() > 0;
        if waits && now.since(self.silent_since) > silence_max {
            return Err(ReplicationError::Silent);
        }
        Ok(len > 0)
    }

    /// The next reply.
    ///
    /// # Errors
    /// The peer refuses a command, or violates the protocol.
    pub(crate) fn next_reply(
        &mut self,
    ) -> Result<Option<(SentCommand, RespValue<'_>)>, ReplicationError> {
        let Some(reply) = self.resp.next_reply()? else { return Ok(None) };
        let tag = reply.tag.ok_or(ReplicationError::Reply)?;
        if let RespValue::Error(text) = reply.value {
            return Err(ReplicationError::Refused(String::from_utf8_lossy(text).into_owned()));
        }
        Ok(Some((tag, reply.value)))
    }

    /// Gives the output to the transport, as much as it takes.
    ///
    /// # Errors
    /// The connection is over.
    pub(crate) fn flush(
        &mut self,
        transport: &mut impl Transport,
        now: Nanos,
    ) -> Result<(), ReplicationError> {
        let mut is_sent = false;
        while self.is_open && !self.resp.output().is_empty() {
            let len = transport.send(self.stream, self.resp.output())?;
            if len == 0 {
                break;
            }
            self.resp.output_sent(len);
            is_sent = true;
        }
        if is_sent {
            // A stack in user space sends now instead of in the next turn.
            transport.poll(now);
        }
        Ok(())
    }
}

/// Receives, and hands each reply to `on_reply`.
///
/// # Errors
/// Those of the connection and of `on_reply`.
pub(crate) fn receive_replies(
    connection: &mut Connection,
    transport: &mut impl Transport,
    now: Nanos,
    silence_max: Nanos,
    on_reply: &mut dyn FnMut(SentCommand, RespValue<'_>) -> Result<(), ReplicationError>,
) -> Result<(), ReplicationError> {
    for _ in 0..RECEIVED_PER_POLL {
        if !connection.receive(transport, now, silence_max)? {
            break;
        }
        while let Some((tag, value)) = connection.next_reply()? {
            on_reply(tag, value)?;
        }
    }
    Ok(())
}

/// The words of a reply that is an array of bulk strings.
///
/// # Errors
/// It is something else.
pub(crate) fn array<'a>(
    value: RespValue<'a>,
) -> Result<impl Iterator<Item = &'a [u8]>, ReplicationError> {
    let RespValue::Array(elements) = value else { return Err(ReplicationError::Reply) };
    // Elements of another type are no numbers.
    Ok(elements.map(|element| match element {
        RespValue::Bulk(octets) => octets,
        _ => &[],
    }))
}

/// The next word of a reply, a number.
///
/// # Errors
/// There is none.
pub(crate) fn next_number<'a>(
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<RecordNumber, ReplicationError> {
    words.next().and_then(|word| record_number(word).ok()).ok_or(ReplicationError::Reply)
}
