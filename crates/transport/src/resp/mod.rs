//! RESP, the protocol of Redis and Valkey: codec, client and server, without I/O.
//!
//! A *value* is the content of one command or reply. It arrives in pieces: [`ValueScanner`] finds
//! its end while the octets accumulate, and never examines a complete unit twice. [`RespValue`] is
//! a view into the octets. [`RespClient`] matches replies to commands by their order;
//! [`RespServer`] is the peer's side. The caller moves the octets of both to and from a transport;
//! neither reads a clock.
//!
//! Every value of RESP2 and RESP3 is accepted, except those of unknown length (`$?`, `*?`), which
//! no server sends. [`RespLimits`] bounds size and number of elements. Nesting needs no memory, so
//! any depth is accepted. Everything else is a [`RespError`], after which the connection must be
//! closed.
//!
//! Source: the Redis serialization protocol specification (RESP2 and RESP3).

mod client;
mod error;
mod input;
mod limits;
mod output;
mod read;
mod server;
mod unit;
mod value;
mod write;

pub use client::{CommandRefusal, RespClient, RespReply};
pub use error::RespError;
pub use input::RespInput;
pub use limits::RespLimits;
pub use read::ValueScanner;
pub use server::{RespCommand, RespReplies, RespServer};
pub use value::{RespElements, RespValue};
pub use write::{write_command, write_reply};
