//! PFCP codec (TS 29.244, Release 17): bytes to typed, borrowed messages and back.
//!
//! Here live the header, the IE and message tables, typed leaf and grouped IEs, and the writer.
//! Nothing here depends on a session, an association or a clock, and nothing allocates: every
//! decoded value borrows from the datagram, and every encoder writes into the caller's buffer.
//! Invariant: no input makes this crate panic or read beyond the slice.
//!
//! Data flow: a UDP payload enters through [`PfcpDatagram`], and becomes a [`RawMessage`] and then
//! a [`Message`]; messages to send are written by [`encode`] or [`PfcpWriter`].
//!
//! ```
//! use adit_pfcp::ie::{NodeId, RecoveryTimeStamp};
//! use adit_pfcp::message::{AssociationSetupRequest, AssociationSetupResponse};
//! use adit_pfcp::{Cause, PfcpDatagram, Message, encode};
//!
//! let node_id = NodeId::Ipv4([192, 0, 2, 1].into());
//! let mut request = [0; 1500];
//! let body = AssociationSetupRequest::new(node_id, RecoveryTimeStamp(3_900_000_000));
//! let len = encode(&mut request, None, 7, &body)?;
//!
//! let mut answer = [0; 1500];
//! for raw in PfcpDatagram::new(&request[..len]) {
//!     let raw = raw?;
//!     if let Message::AssociationSetupRequest(setup) = Message::decode(&raw)? {
//!         assert_eq!(setup.node_id, node_id);
//!         let cause = Cause::RequestAccepted;
//!         let body = AssociationSetupResponse::new(node_id, cause, RecoveryTimeStamp(1));
//!         encode(&mut answer, None, raw.header.sequence, &body)?;
//!     }
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod body;
pub mod grouped;
mod header;
pub mod ie;
pub mod message;
mod message_type;
mod repeated;
mod writer;

pub use body::{Ignored, Member, Presence, Withdrawn};
pub use header::{Header, HeaderError, PfcpDatagram, RawMessage, SEQUENCE_MAX};
pub use ie::{Cause, DecodeError, DecodeErrorKind, Ie, IeError, IeIter, IeType, RawIe};
pub use message::{Message, MessageBody, MessageType, encode};
pub use repeated::Repeated;
pub use writer::{NoRoom, PfcpWriter};

/// UDP port of PFCP requests, at either side. Spec: TS 29.244 §4.2.2.
pub const PFCP_PORT: u16 = 8805;
