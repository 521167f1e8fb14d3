//! TLS over the streams of another transport.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use adit_types::Nanos;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use crate::tls_settings::TlsSettings;
use crate::{StreamId, StreamState, TlsFault, Transport, TransportError};

/// Maximum number of octets that wait to be encrypted or sent, per stream.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Maximum number of accepted streams whose handshake is incomplete; a further one closes the
/// oldest. Each buffers at most 64 KiB.
const HANDSHAKES_MAX: usize = 16;

/// Maximum duration of the handshake of an accepted stream.
const HANDSHAKE_MAX: Nanos = Nanos::from_secs(3);

/// The streams of `T`, protected by TLS.
///
/// [`Transport::accept`] returns only streams of peers that have shown a certificate which
/// [`TlsSettings`] accepts. Before that a peer has only [`HANDSHAKE_MAX`] of time, and can be
/// displaced if [`HANDSHAKES_MAX`] peers are in a handshake.
#[derive(Debug)]
pub struct TlsTransport<T: Transport> {
    inner: T,
    settings: TlsSettings,
    streams: BTreeMap<StreamId, TlsStream>,
}

#[derive(Debug)]
struct TlsStream {
    connection: Connection,
    /// When the handshake of an accepted stream must be complete. `None` for streams that this side
    /// opened, and once the caller has accepted the stream.
    handshake_until: Option<Nanos>,
    /// The reason why nothing more can be sent or received.
    fault: Option<TransportError>,
}

impl<T: Transport> TlsTransport<T> {
    /// Creates a transport without streams.
    #[must_use]
    pub const fn new(inner: T, settings: TlsSettings) -> Self {
        Self { inner, settings, streams: BTreeMap::new() }
    }

    fn add(&mut self, id: StreamId, connection: Connection, handshake_until: Option<Nanos>) {
        let mut stream = TlsStream { connection, handshake_until, fault: None };
        stream.connection.set_buffer_limit(Some(WAITING_BYTES_MAX));
        self.streams.insert(id, stream);
    }

    /// Starts the handshakes of peers that have connected.
    fn begin_handshakes(&mut self, now: Nanos) {
        let Some(config) = self.settings.server.clone() else { return };
        for _ in 0..HANDSHAKES_MAX {
            let Some(id) = self.inner.accept() else { return };
            let Ok(connection) = ServerConnection::new(Arc::clone(&config)) else {
                self.inner.close(id);
                continue;
            };
            let oldest = self.unverified_streams().rev().nth(HANDSHAKES_MAX - 1).map(|(id, _)| *id);
            if let Some(oldest) = oldest {
                self.close(oldest);
            }
            self.add(id, connection.into(), Some(now + HANDSHAKE_MAX));
        }
    }

    /// Closes streams whose handshakes have failed or take too long.
    fn end_handshakes(&mut self, now: Nanos) {
        let is_over =
            |stream: &TlsStream| stream.fault.is_some() || stream.handshake_until < Some(now);
        let over = self.unverified_streams().filter(|(_, stream)| is_over(stream));
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(id);
        }
    }

    /// Returns the streams whose peers have not shown a certificate yet, oldest first.
    fn unverified_streams(&self) -> impl DoubleEndedIterator<Item = (&StreamId, &TlsStream)> {
        self.streams.iter().filter(|(_, stream)| {
            stream.handshake_until.is_some() && stream.connection.is_handshaking()
        })
    }
}

impl TlsStream {
    /// True if the caller may accept the stream.
    fn is_acceptable(&self) -> bool {
        self.handshake_until.is_some() && !self.connection.is_handshaking()
    }

    /// Moves octets between the TLS library and the stream, in both directions.
    fn move_octets<T: Transport>(&mut self, inner: &mut T, id: StreamId) {
        self.send(inner, id);
        while self.fault.is_none() && self.connection.wants_read() {
            match self.connection.read_tls(&mut StreamOctets { inner, id }) {
                Ok(0) => self.fault = Some(TransportError::Ended),
                Ok(_) => match self.connection.process_new_packets() {
                    Ok(state) => {
                        self.fault = state.peer_has_closed().then_some(TransportError::Ended);
                    }
                    Err(error) => self.fault = Some(TransportError::Tls(TlsFault::from(&error))),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => self.fault = Some(error.downcast().unwrap_or(TransportError::Reset)),
            }
        }
        self.send(inner, id);
    }

    /// Sends encrypted octets, including an alert about a fault. Ignores an error of the stream:
    /// the read that follows reports it, and what the peer sent before it closed the stream
    /// explains more.
    fn send<T: Transport>(&mut self, inner: &mut T, id: StreamId) {
        let mut octets = StreamOctets { inner, id };
        while self.connection.wants_write() && self.connection.write_tls(&mut octets).is_ok() {}
    }
}

/// A stream of the inner transport, in the form that the TLS library reads and writes.
struct StreamOctets<'a, T> {
    inner: &'a mut T,
    id: StreamId,
}

/// Converts the number of octets moved. Zero becomes an error, since the library would retry for
/// ever.
fn io_result(moved: Result<usize, TransportError>) -> io::Result<usize> {
    match moved {
        Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
        moved => moved.map_err(io::Error::other),
    }
}

impl<T: Transport> Read for StreamOctets<'_, T> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        io_result(self.inner.receive(self.id, room))
    }
}

impl<T: Transport> Write for StreamOctets<'_, T> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        io_result(self.inner.send(self.id, octets))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: Transport> Transport for TlsTransport<T> {
    fn poll(&mut self, now: Nanos) {
        self.inner.poll(now);
        self.begin_handshakes(now);
        for (id, stream) in &mut self.streams {
            stream.move_octets(&mut self.inner, *id);
        }
        self.end_handshakes(now);
    }

    fn wait(&mut self, limit: Duration) {
        let is_ready = |stream: &mut TlsStream| {
            let is_readable =
                stream.connection.reader().fill_buf().is_ok_and(|buf| !buf.is_empty());
            is_readable || stream.is_acceptable()
        };
        if !self.streams.values_mut().any(is_ready) {
            self.inner.wait(limit);
        }
    }

    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError> {
        let name = self.settings.name.clone();
        let name = name.unwrap_or_else(|| ServerName::IpAddress(peer.ip().into()));
        let created = ClientConnection::new(Arc::clone(&self.settings.client), name);
        let connection = created.map_err(|error| TransportError::Tls(TlsFault::from(&error)))?;
        let id = self.inner.connect(peer)?;
        self.add(id, connection.into(), None);
        Ok(id)
    }

    fn listen(&mut self, local: SocketAddr) -> Result<(), TransportError> {
        match self.settings.server {
            Some(_) => self.inner.listen(local),
            None => Err(TransportError::ClientOnly),
        }
    }

    fn accept(&mut self) -> Option<StreamId> {
        let (id, stream) = self.streams.iter_mut().find(|(_, stream)| stream.is_acceptable())?;
        stream.handshake_until = None;
        Some(*id)
    }

    fn state(&mut self, id: StreamId) -> StreamState {
        let Some(stream) = self.streams.get_mut(&id) else {
            return StreamState::Closed(TransportError::NoStream);
        };
        let state = self.inner.state(id);
        if state == StreamState::Open {
            stream.move_octets(&mut self.inner, id);
        }
        match (stream.fault, state) {
            (Some(fault), _) => StreamState::Closed(fault),
            (None, StreamState::Open) if stream.connection.is_handshaking() => {
                StreamState::Connecting
            }
            (None, state) => state,
        }
    }

    fn send(&mut self, id: StreamId, octets: &[u8]) -> Result<usize, TransportError> {
        let stream = self.streams.get_mut(&id).ok_or(TransportError::NoStream)?;
        if let Some(fault) = stream.fault {
            return Err(fault);
        }
        if stream.connection.is_handshaking() {
            stream.move_octets(&mut self.inner, id);
            return Ok(0);
        }
        let taken = stream.connection.writer().write(octets).map_err(|_| TransportError::Reset)?;
        stream.send(&mut self.inner, id);
        Ok(taken)
    }

    fn receive(&mut self, id: StreamId, room: &mut [u8]) -> Result<usize, TransportError> {
        let stream = self.streams.get_mut(&id).ok_or(TransportError::NoStream)?;
        let mut len = stream.connection.reader().read(room).unwrap_or(0);
        if len == 0 {
            stream.move_octets(&mut self.inner, id);
            len = stream.connection.reader().read(room).unwrap_or(0);
        }
        stream.fault.filter(|_| len == 0).map_or(Ok(len), Err)
    }

    fn close(&mut self, id: StreamId) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.connection.send_close_notify();
            stream.send(&mut self.inner, id);
        }
        self.inner.close(id);
    }
}
