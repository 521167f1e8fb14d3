//! Messages that leave the node.

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
    /// The request to which this is the first response.
    pub answers: Option<AnsweredRequest>,
}

/// A request, for the time that its response took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredRequest {
    /// Its type.
    pub message_type: MessageType,
    /// When the node got it.
    pub received: Nanos,
}
