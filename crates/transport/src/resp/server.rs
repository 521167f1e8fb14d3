//! The server's side of a connection.

use crate::resp::error::RespError;
use crate::resp::input::RespInput;
use crate::resp::limits::RespLimits;
use crate::resp::output::OutputBuffer;
use crate::resp::value::{RespElements, RespValue};
use crate::resp::write::write_reply;

/// The server's side of one connection. Requests and replies are two fields, so that the caller can
/// read a request while it writes the reply.
#[derive(Debug)]
pub struct RespServer {
    /// The commands from the client.
    pub requests: RespInput,
    /// The replies to the client.
    pub replies: RespReplies,
}

impl RespServer {
    /// Creates the server's side of a new connection.
    #[must_use]
    pub fn new(limits: RespLimits) -> Self {
        Self { requests: RespInput::new(limits), replies: RespReplies(OutputBuffer::default()) }
    }
}

/// A request: the name of the command and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RespCommand<'a> {
    words: RespElements<'a>,
}

impl<'a> RespCommand<'a> {
    /// Returns name and arguments in order; the name is always there.
    pub fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.words.map(|word| match word {
            RespValue::Bulk(octets) => octets,
            _ => &[],
        })
    }

    /// Returns the number of words.
    #[must_use]
    pub fn word_count(&self) -> u32 {
        self.words.count_left()
    }
}

impl RespInput {
    /// Returns the next request; `None` until it is complete.
    ///
    /// # Errors
    /// The client violates the protocol, or uses the inline form, which this server does not
    /// support. Every later call returns the same error.
    pub fn next_command(&mut self) -> Result<Option<RespCommand<'_>>, RespError> {
        self.read_next(|request| match request {
            RespValue::Array(words) if is_command(words) => Ok(RespCommand { words }),
            _ => Err(RespError::NotACommand),
        })
    }
}

fn is_command(mut words: RespElements<'_>) -> bool {
    words.count_left() > 0 && words.all(|word| matches!(word, RespValue::Bulk(_)))
}

/// The replies on a connection. The caller should read no further requests while too many octets of
/// replies wait to be sent.
#[derive(Debug)]
pub struct RespReplies(OutputBuffer);

impl RespReplies {
    /// Appends a reply.
    pub fn reply(&mut self, value: &RespValue<'_>) {
        write_reply(&mut self.0.octets, value);
    }

    /// Returns the octets to send.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.0.contents()
    }

    /// Removes the first `len` octets of the output, which the transport has accepted.
    pub fn output_sent(&mut self, len: usize) {
        self.0.sent(len);
    }
}
