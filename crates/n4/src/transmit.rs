//! What leaves the node.

use core::net::SocketAddr;

/// A datagram to send from the PFCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub to: SocketAddr,
    /// The payload.
    pub bytes: Vec<u8>,
}
