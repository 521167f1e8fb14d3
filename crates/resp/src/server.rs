//! The server's side of a connection.

use crate::buffer::{InputBuffer, OutputBuffer};
use crate::error::RespError;
use crate::limits::RespLimits;
use crate::scan::ValueScanner;
use crate::value::{RespElements, RespValue};
use crate::write::write_reply;

/// One connection of a client. Requests and replies are two fields, so that a request can be read while its
/// reply is written.
#[derive(Debug)]
pub struct RespServer {
    /// What the client sends.
    pub requests: RespRequests,
    /// What it gets.
    pub replies: RespReplies,
}

impl RespServer {
    /// The server's side of a new connection.
    #[must_use]
    pub fn new(limits: RespLimits) -> Self {
        let input = InputBuffer::new();
        let scanner = ValueScanner::default();
        let requests = RespRequests { input, scanner, seen: 0, limits, broken: None };
        Self { requests, replies: RespReplies { output: OutputBuffer::default() } }
    }
}

/// The requests of a connection.
#[derive(Debug)]
pub struct RespRequests {
    input: InputBuffer,
    scanner: ValueScanner,
    /// Octets of the request that the caller has seen.
    seen: usize,
    limits: RespLimits,
    broken: Option<RespError>,
}

/// A request: the name of the command and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RespCommand<'a> {
    words: RespElements<'a>,
}

impl<'a> RespCommand<'a> {
    /// Name and arguments in order; at least the name.
    pub fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.words.map(|word| match word {
            RespValue::Bulk(octets) => octets,
            _ => &[],
        })
    }

    /// The number of words.
    #[must_use]
    pub fn word_count(&self) -> u32 {
        self.words.count_left()
    }
}

impl RespRequests {
    /// Room for octets from the client.
    pub fn input_room(&mut self) -> &mut [u8] {
        self.consume_seen();
        self.input.room()
    }

    /// Notes that the transport has filled the first `len` octets of the room.
    pub fn input_arrived(&mut self, len: usize) {
        self.input.arrived(len);
    }

    /// The next request; `None` until it is complete.
    ///
    /// # Errors
    /// The client violates the protocol, or uses the inline form, which this server does not know. Every later
    /// call returns the same error.
    pub fn next_command(&mut self) -> Result<Option<RespCommand<'_>>, RespError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        self.consume_seen();
        let len = match self.scanner.scan(self.input.contents(), &self.limits) {
            Ok(Some(len)) => len,
            Ok(None) => return Ok(None),
            Err(error) => return Err(*self.broken.insert(error)),
        };
        self.seen = len;
        let octets = self.input.contents().get(..len).unwrap_or_default();
        match RespValue::read(octets)? {
            Some((RespValue::Array(words), _)) if is_command(words) => {
                Ok(Some(RespCommand { words }))
            }
            _ => Err(*self.broken.insert(RespError::NotACommand)),
        }
    }

    fn consume_seen(&mut self) {
        self.input.consume(std::mem::take(&mut self.seen));
    }
}

fn is_command(mut words: RespElements<'_>) -> bool {
    words.count_left() > 0 && words.all(|word| matches!(word, RespValue::Bulk(_)))
}

/// The replies of a connection. The caller reads no further requests while too much of it waits to be sent.
#[derive(Debug)]
pub struct RespReplies {
    output: OutputBuffer,
}

impl RespReplies {
    /// Appends a reply.
    pub fn reply(&mut self, value: &RespValue<'_>) {
        write_reply(self.output.end(), value);
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
}
