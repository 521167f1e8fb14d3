//! TCP streams for the store and for replication, over the kernel or in user space, and RESP, the
//! protocol that both speak over them ([`resp`]).
//!
//! [`Transport`] moves octets of streams and never blocks outside [`Transport::wait`].
//! [`KernelTcp`] uses sockets, and either sleeps in `wait` until one is ready or polls them.
//! [`UserTcp`] runs TCP, IP and neighbor resolution of smoltcp on a port of its own, on a thread
//! that polls. [`TlsTransport`] protects the streams of either. The meaning of the octets is left
//! to the caller, and no clock is read: `now` is an argument.
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

/// One stream of a transport, from [`Transport::connect`] or [`Transport::accept`] to
/// [`Transport::close`]. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub usize);

/// The state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// The handshake is not finished.
    Connecting,
    /// Octets can be sent and received.
    Open,
    /// The stream is over; octets that arrived before can still be received.
    Closed(TransportError),
}

/// Streams over one network.
///
/// Threads: used by one thread at a time.
pub trait Transport {
    /// Moves what can move now: receives, acknowledges, sends, retransmits. Never blocks.
    fn poll(&mut self, now: Nanos);

    /// Blocks until a stream may have something to do, for at most `limit`. Transports that poll
    /// return at once.
    fn wait(&mut self, limit: Duration);

    /// Begins a stream to `peer`.
    ///
    /// # Errors
    /// The stream cannot begin; later reasons are in its [`StreamState`].
    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError>;

    /// Accepts streams to `local` from now on. One address for each transport.
    ///
    /// # Errors
    /// The address is not free, or not this host's.
    fn listen(&mut self, local: SocketAddr) -> Result<(), TransportError>;

    /// The next stream that a peer has opened.
    fn accept(&mut self) -> Option<StreamId>;

    /// The state of a stream.
    fn state(&mut self, stream: StreamId) -> StreamState;

    /// Takes octets to send and returns how many; zero while the stream connects or its buffer is
    /// full.
    ///
    /// # Errors
    /// The stream is closed.
    fn send(&mut self, stream: StreamId, octets: &[u8]) -> Result<usize, TransportError>;

    /// Copies octets that arrived into `room` and returns how many; zero if there are none.
    ///
    /// # Errors
    /// The stream is closed and everything that arrived before was received.
    fn receive(&mut self, stream: StreamId, room: &mut [u8]) -> Result<usize, TransportError>;

    /// Ends a stream. Octets that were taken are still sent.
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
