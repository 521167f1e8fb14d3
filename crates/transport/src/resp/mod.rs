//! RESP, the protocol of Redis and Valkey: codec, client and server, without I/O.
//!
//! A *value* is the content of one command or reply. It arrives in parts: [`ValueScanner`] finds
//! its end in octets that accumulate and never examines a complete part twice, and [`RespValue`] is
//! a view into them. [`RespClient`] pairs replies with commands in their order; [`RespServer`] is
//! the other side. Both exchange octets with a transport of the caller, and read no clock.
//!
//! Every value of RESP2 and RESP3 is accepted, except those of unknown length (`$?`, `*?`), which
//! no server sends. Size and number of elements are bounded by [`RespLimits`]; nesting needs no
//! memory, so any depth is accepted. Everything else is a [`RespError`], after which the connection
//! has to be closed.
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
