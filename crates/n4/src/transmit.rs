//! Messages that the node sends.

use core::net::SocketAddr;

use adit_pfcp::MessageType;
use adit_types::Nanos;

/// A datagram to send from the PFCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub to: SocketAddr,
    /// The payload.
    pub bytes: Vec<u8>,
    /// The request, if this is the first response to it.
    pub answers: Option<AnsweredRequest>,
}

/// An answered request, to measure how long its response took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredRequest {
    /// The type of the request.
    pub message_type: MessageType,
    /// When the node received the request.
    pub received: Nanos,
}
