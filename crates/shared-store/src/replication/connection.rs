//! A connection from the active adit to the standby that keeps its tail.

use std::net::SocketAddr;

use adit_store::GroupNumber;
use adit_transport::resp::{RespClient, RespLimits, RespValue};
use adit_transport::{StreamId, StreamState, Transport};
use adit_types::Nanos;
use adit_types::limits::STORE_GROUP_BYTES_MAX;

use crate::replication::command::{ReplicationCommand, record_number};
use crate::replication::error::ReplicationError;

/// Maximum of commands that await a reply.
const IN_FLIGHT_MAX: usize = 4096;

/// Maximum of octets of commands that wait for the transport: enough for any one group.
const OUTPUT_BYTES_MAX: usize = 2 * STORE_GROUP_BYTES_MAX;

/// Maximum of receive calls in one poll.
const RECEIVED_PER_POLL: usize = 64;

/// Maximum size of commands and replies: enough for several groups, or one of maximum size.
pub(crate) const REPLICATION_RESP_LIMITS: RespLimits =
    RespLimits { value_bytes_max: 3 * STORE_GROUP_BYTES_MAX, elements_max: 1 << 16 };

/// A command that was sent, to which a reply belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentCommand {
    Hello,
    Group(GroupNumber),
    Ping,
}

/// A connection, from the connection attempt on.
#[derive(Debug)]
pub(crate) struct Connection {
    pub stream: StreamId,
    resp: RespClient<SentCommand>,
    is_open: bool,
    /// Since when the peer has been silent while it owes the handshake or a reply.
    silent_since: Nanos,
    /// When the last command was appended to the output.
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
        let resp = RespClient::new(REPLICATION_RESP_LIMITS, IN_FLIGHT_MAX, OUTPUT_BYTES_MAX);
        Ok(Self { stream, resp, is_open: false, silent_since: now, last_sent: now })
    }

    /// Appends a command to the output; false if it has no room now.
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

    /// Returns when the last command was sent; `None` if a command awaits its reply.
    pub(crate) fn idle_since(&self) -> Option<Nanos> {
        (self.resp.in_flight() == 0).then_some(self.last_sent)
    }

    /// Receives octets that have arrived; true if there were any. [`Connection::next_reply`] parses
    /// them.
    ///
    /// # Errors
    /// The connection ended, or the peer has been silent for too long.
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

    /// Returns the next reply; `None` if no whole reply has arrived.
    ///
    /// # Errors
    /// The peer refused a command, or violates the protocol.
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

    /// Passes the output to the transport, as much as it takes.
    ///
    /// # Errors
    /// The connection ended.
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
            // Makes a network stack in user space send now instead of in the next poll.
            transport.poll(now);
        }
        Ok(())
    }
}

/// Receives, and calls `on_reply` for each reply.
///
/// # Errors
/// Errors of the connection, and those that `on_reply` returns.
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

/// Returns the words of a reply that is an array of bulk strings; other elements become empty
/// words.
///
/// # Errors
/// The reply is not an array.
pub(crate) fn reply_words<'a>(
    value: RespValue<'a>,
) -> Result<impl Iterator<Item = &'a [u8]>, ReplicationError> {
    let RespValue::Array(elements) = value else { return Err(ReplicationError::Reply) };
    // A number is expected in each word, so an empty word is refused later.
    Ok(elements.map(|element| match element {
        RespValue::Bulk(octets) => octets,
        _ => &[],
    }))
}

/// Parses the next word of a reply as a number.
///
/// # Errors
/// There is no further word, or it is not a number.
pub(crate) fn next_number<'a>(
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<GroupNumber, ReplicationError> {
    words.next().and_then(|word| record_number(word).ok()).ok_or(ReplicationError::Reply)
}
