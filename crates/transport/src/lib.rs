//! TCP streams for the store and for replication, over the kernel or in user space, and RESP
//! ([`resp`]), the protocol of both.
//!
//! [`Transport`] moves octets of streams and blocks only in [`Transport::wait`]. [`KernelTcp`] uses
//! sockets, and either sleeps in `wait` until one is ready or polls them. [`UserTcp`] runs the TCP,
//! IP and neighbor resolution of smoltcp on a port of its own, on a thread that polls.
//! [`TlsTransport`] protects the streams of either. The transports do not interpret the octets, and
//! read no clock: `now` is a parameter.
#![deny(unsafe_code)]

mod busy_poll;
mod error;
mod kernel_tcp;
pub mod resp;
mod tls;
mod tls_settings;
mod user_tcp;

use std::net::SocketAddr;
use std::time::Duration;

use adit_types::Nanos;

pub use error::{TlsFault, TransportError};
pub use kernel_tcp::{KernelTcp, KernelWait};
pub use tls::TlsTransport;
pub use tls_settings::{TlsIdentity, TlsSettings, TlsSettingsError};
pub use user_tcp::{UserTcp, UserTcpConfig};

/// The id of a stream, from [`Transport::connect`] or [`Transport::accept`] to
/// [`Transport::close`]. Ids of later streams are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub usize);

/// The state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// The connection is being established.
    Connecting,
    /// Octets can be sent and received.
    Open,
    /// The stream is over; octets that arrived earlier can still be received.
    Closed(TransportError),
}

/// The streams of one network.
///
/// Threads: used by one thread at a time.
pub trait Transport {
    /// Does all work that is possible now: receives, acknowledges, sends, retransmits. Never
    /// blocks.
    fn poll(&mut self, now: Nanos);

    /// Blocks until a stream may have work, for at most `limit`. Transports that poll return at
    /// once.
    fn wait(&mut self, limit: Duration);

    /// Opens a stream to `peer`.
    ///
    /// # Errors
    /// The stream cannot be opened. Later errors are in its [`StreamState`].
    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError>;

    /// Accepts streams at the address `local` from now on. A transport has only one such address.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this host.
    fn listen(&mut self, local: SocketAddr) -> Result<(), TransportError>;

    /// Returns the next stream that a peer has opened, if there is one.
    fn accept(&mut self) -> Option<StreamId>;

    /// Returns the state of a stream.
    fn state(&mut self, stream: StreamId) -> StreamState;

    /// Accepts octets for sending, and returns how many; zero while the stream connects or its
    /// buffer is full.
    ///
    /// # Errors
    /// The stream is closed.
    fn send(&mut self, stream: StreamId, octets: &[u8]) -> Result<usize, TransportError>;

    /// Copies octets that arrived into `room`, and returns how many; zero if there are none.
    ///
    /// # Errors
    /// The stream is closed, and all octets that arrived earlier were received.
    fn receive(&mut self, stream: StreamId, room: &mut [u8]) -> Result<usize, TransportError>;

    /// Closes a stream. Octets that `send` accepted are still sent.
    fn close(&mut self, stream: StreamId);
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn poll(&mut self, now: Nanos) {
        (**self).poll(now);
    }

    fn wait(&mut self, limit: Duration) {
        (**self).wait(limit);
    }

    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError> {
        (**self).connect(peer)
    }

    fn listen(&mut self, local: SocketAddr) -> Result<(), TransportError> {
        (**self).listen(local)
    }

    fn accept(&mut self) -> Option<StreamId> {
        (**self).accept()
    }

    fn state(&mut self, stream: StreamId) -> StreamState {
        (**self).state(stream)
    }

    fn send(&mut self, stream: StreamId, octets: &[u8]) -> Result<usize, TransportError> {
        (**self).send(stream, octets)
    }

    fn receive(&mut self, stream: StreamId, room: &mut [u8]) -> Result<usize, TransportError> {
        (**self).receive(stream, room)
    }

    fn close(&mut self, stream: StreamId) {
        (**self).close(stream);
    }
}
