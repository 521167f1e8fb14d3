//! The server's side of a connection.

use crate::resp::error::RespError;
use crate::resp::input::RespInput;
use crate::resp::limits::RespLimits;
use crate::resp::output::OutputBuffer;
use crate::resp::value::{RespElements, RespValue};
use crate::resp::write::write_reply;

/// One connection of a client. Requests and replies are two fields, so that a request can be read
/// while its reply is written.
#[derive(Debug)]
pub struct RespServer {
    /// The commands of the client.
    pub requests: RespInput,
    /// The replies to it.
    pub replies: RespReplies,
}

impl RespServer {
    /// The server's side of a new connection.
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

impl RespInput {
    /// The next request; `None` until it is complete.
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

/// The replies of a connection. The caller reads no further requests while too much of it waits to
/// be sent.
#[derive(Debug)]
pub struct RespReplies(OutputBuffer);

impl RespReplies {
    /// Appends a reply.
    pub fn reply(&mut self, value: &RespValue<'_>) {
        write_reply(&mut self.0.octets, value);
    }

    /// Octets to send.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.0.contents()
    }

    /// Removes the first `len` octets of the output, which the transport has taken.
    pub fn output_sent(&mut self, len: usize) {
        self.0.sent(len);
    }
}
