//! PFCP codec (TS 29.244, Release 17): bytes to typed, borrowed messages and back.
//!
//! Here live the header, the IE and message tables, typed leaf and grouped IEs, and the writer.
//! Nothing here knows a session, an association or a clock, and nothing allocates: every decoded
//! value borrows from the datagram, every encoder writes into the caller's buffer.
//! Invariant: no input makes this crate panic or read outside the slice that it was given.
//!
//! Data flow: a UDP payload enters through [`Datagram`], becomes [`RawMessage`] and then
//! [`Message`]; answers leave through [`encode`] or [`Writer`].
#![forbid(unsafe_code)]

mod body;
mod cause;
mod encode;
mod error;
pub mod grouped;
mod header;
pub mod ie;
pub mod message;
mod repeated;

pub use body::{Ignored, Member, Presence};
pub use cause::Cause;
pub use encode::{NoRoom, Writer, encode};
pub use error::{DecodeError, DecodeErrorKind, HeaderError, IeError};
pub use header::{Datagram, Header, RawMessage, SEQUENCE_MAX};
pub use ie::{Ie, IeIter, IeType, RawIe};
pub use message::{Message, MessageBody, MessageType};
pub use repeated::Repeated;

/// UDP port of PFCP on either side. Spec: TS 29.244 §4.2.2.
pub const PFCP_PORT: u16 = 8805;
