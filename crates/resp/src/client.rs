//! The client's side of a connection.

use std::collections::VecDeque;

use crate::buffer::{InputBuffer, OutputBuffer};
use crate::error::RespError;
use crate::limits::RespLimits;
use crate::scan::ValueScanner;
use crate::value::RespValue;
use crate::write::{command_bytes_max, write_command};

/// A reply, or a message that answers no command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RespReply<'a, T> {
    /// What the caller gave with the command; `None` for a push message.
    pub tag: Option<T>,
    /// What the server says.
    pub value: RespValue<'a>,
}

/// Why a command was not accepted. Nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// As many commands wait for replies as may.
    #[error("{0} commands wait for their replies")]
    InFlight(usize),
    /// The octets that wait to be sent leave no room.
    #[error("{0} octets of commands wait to be sent")]
    OutputFull(usize),
    /// The connection broke before.
    #[error("the connection is broken: {0}")]
    Broken(RespError),
}

/// One connection to a server.
///
/// `T` is what the caller recognizes a reply by. Memory: bounded by the limits of values, commands in flight
/// and output; buffers grow to what is used and stay.
#[derive(Debug)]
pub struct RespClient<T> {
    input: InputBuffer,
    scanner: ValueScanner,
    /// Octets of the reply that the caller has seen.
    seen: usize,
    output: OutputBuffer,
    in_flight: VecDeque<T>,
    in_flight_max: usize,
    output_bytes_max: usize,
    limits: RespLimits,
    broken: Option<RespError>,
}

impl<T> RespClient<T> {
    /// A client for a new connection, with at most `in_flight_max` commands without reply and `output_bytes_max`
    /// octets that wait to be sent.
    #[must_use]
    pub fn new(limits: RespLimits, in_flight_max: usize, output_bytes_max: usize) -> Self {
        Self {
            input: InputBuffer::new(),
            scanner: ValueScanner::default(),
            seen: 0,
            output: OutputBuffer::default(),
            in_flight: VecDeque::with_capacity(in_flight_max.min(1024)),
            in_flight_max,
            output_bytes_max,
            limits,
            broken: None,
        }
    }

    /// Appends a command to the output.
    ///
    /// # Errors
    /// See [`CommandRefusal`].
    pub fn command(&mut self, tag: T, arguments: &[&[u8]]) -> Result<(), CommandRefusal> {
        if let Some(error) = self.broken {
            return Err(CommandRefusal::Broken(error));
        }
        if self.in_flight.len() >= self.in_flight_max {
            return Err(CommandRefusal::InFlight(self.in_flight_max));
        }
        let waiting = self.output.contents().len();
        if waiting.saturating_add(command_bytes_max(arguments)) > self.output_bytes_max {
            return Err(CommandRefusal::OutputFull(waiting));
        }
        write_command(self.output.end(), arguments);
        self.in_flight.push_back(tag);
        Ok(())
    }

    /// Commands without reply.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Octets to send.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.contents()
    }

    /// Removes the first `len` octets of the output, which the transport has taken.
    pub fn output_sent(&mut self, len: usize) {
        self.output.sent(len);
    }

    /// Room for octets from the server.
    pub fn input_room(&mut self) -> &mut [u8] {
        self.consume_seen();
        self.input.room()
    }

    /// Notes that the transport has filled the first `len` octets of the room.
    pub fn input_arrived(&mut self, len: usize) {
        self.input.arrived(len);
    }

    /// The next reply or push message; `None` until it is complete.
    ///
    /// # Errors
    /// The server violates the protocol. Every later call returns the same error.
    pub fn next_reply(&mut self) -> Result<Option<RespReply<'_, T>>, RespError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        self.consume_seen();
        let scanned = self.scanner.scan(self.input.contents(), &self.limits);
        let len = match scanned {
            Ok(Some(len)) => len,
            Ok(None) => return Ok(None),
            Err(error) => return Err(*self.broken.insert(error)),
        };
        self.seen = len;
        let octets = self.input.contents().get(..len).unwrap_or_default();
        // The scanner has checked each of its units.
        let Some((value, _)) = RespValue::read(octets)? else { return Ok(None) };
        if matches!(value, RespValue::Push(_)) {
            return Ok(Some(RespReply { tag: None, value }));
        }
        match self.in_flight.pop_front() {
            Some(tag) => Ok(Some(RespReply { tag: Some(tag), value })),
            None => Err(*self.broken.insert(RespError::Unsolicited)),
        }
    }

    /// The tags of commands whose replies will not come, in their order, once the connection ended.
    pub fn take_unanswered(&mut self) -> impl Iterator<Item = T> + '_ {
        self.in_flight.drain(..)
    }

    fn consume_seen(&mut self) {
        self.input.consume(std::mem::take(&mut self.seen));
    }
}
