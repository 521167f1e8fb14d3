//! The client's side of a connection.

use std::collections::VecDeque;

use crate::resp::error::RespError;
use crate::resp::input::RespInput;
use crate::resp::limits::RespLimits;
use crate::resp::output::OutputBuffer;
use crate::resp::value::RespValue;
use crate::resp::write::{command_bytes_max, write_command};

/// A reply to a command, or a push message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RespReply<'a, T> {
    /// The tag that the caller gave to the command; `None` for a push message.
    pub tag: Option<T>,
    /// The server's value.
    pub value: RespValue<'a>,
}

/// The reason why a command was not accepted. The connection is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// The maximum number of commands wait for replies.
    #[error("{0} commands wait for their replies")]
    InFlight(usize),
    /// The command does not fit behind the output that waits to be sent.
    #[error("{0} octets of commands wait to be sent")]
    OutputFull(usize),
    /// The connection has failed before.
    #[error("the connection is broken: {0}")]
    Broken(RespError),
}

/// The client's side of one connection.
///
/// `T` is the tag by which the caller matches a reply to its command. Memory: bounded by the limits
/// on values, commands in flight and output. Buffers grow on demand and do not shrink.
#[derive(Debug)]
pub struct RespClient<T> {
    input: RespInput,
    output: OutputBuffer,
    in_flight: VecDeque<T>,
    in_flight_max: usize,
    output_bytes_max: usize,
}

impl<T> RespClient<T> {
    /// Creates the client of a new connection, which accepts at most `in_flight_max` commands
    /// without reply and `output_bytes_max` octets that wait to be sent.
    #[must_use]
    pub fn new(limits: RespLimits, in_flight_max: usize, output_bytes_max: usize) -> Self {
        Self {
            input: RespInput::new(limits),
            output: OutputBuffer::default(),
            in_flight: VecDeque::with_capacity(in_flight_max.min(1024)),
            in_flight_max,
            output_bytes_max,
        }
    }

    /// Appends a command to the output.
    ///
    /// # Errors
    /// See [`CommandRefusal`].
    pub fn command(&mut self, tag: T, arguments: &[&[u8]]) -> Result<(), CommandRefusal> {
        if let Some(error) = self.input.broken {
            return Err(CommandRefusal::Broken(error));
        }
        if self.in_flight.len() >= self.in_flight_max {
            return Err(CommandRefusal::InFlight(self.in_flight_max));
        }
        let waiting = self.output.contents().len();
        if waiting.saturating_add(command_bytes_max(arguments)) > self.output_bytes_max {
            return Err(CommandRefusal::OutputFull(waiting));
        }
        write_command(&mut self.output.octets, arguments);
        self.in_flight.push_back(tag);
        Ok(())
    }

    /// Returns how many commands have no reply yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the octets to send.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.contents()
    }

    /// Removes the first `len` octets of the output, which the transport has accepted.
    pub fn output_sent(&mut self, len: usize) {
        self.output.sent(len);
    }

    /// Returns the room for octets from the server.
    pub fn input_room(&mut self) -> &mut [u8] {
        self.input.input_room()
    }

    /// Adds the first `len` octets of the room, which the transport has filled, to the input.
    pub fn input_arrived(&mut self, len: usize) {
        self.input.input_arrived(len);
    }

    /// Returns the next reply or push message; `None` until it is complete.
    ///
    /// # Errors
    /// The server violates the protocol. Every later call returns the same error.
    pub fn next_reply(&mut self) -> Result<Option<RespReply<'_, T>>, RespError> {
        let in_flight = &mut self.in_flight;
        self.input.read_next(|value| {
            let tag = match value {
                RespValue::Push(_) => None,
                _ => Some(in_flight.pop_front().ok_or(RespError::Unsolicited)?),
            };
            Ok(RespReply { tag, value })
        })
    }
}
