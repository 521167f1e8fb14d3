//! TLS over the streams of another transport.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use adit_types::Nanos;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use crate::tls_settings::TlsSettings;
use crate::{StreamId, StreamState, TlsFault, Transport, TransportError};

/// Octets that wait to be encrypted and sent.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Accepted streams at most whose handshake is not complete: a further one ends the oldest. Each has at most 64 KiB.
const HANDSHAKES_MAX: usize = 16;

/// How long the handshake of an accepted stream may take.
const HANDSHAKE_MAX: Nanos = Nanos::from_secs(3);

/// The streams of `T`, protected by TLS.
///
/// [`Transport::accept`] returns only streams of peers that have shown a certificate as [`TlsSettings`] demands. Until then a peer
/// has at most [`HANDSHAKE_MAX`], and a place among [`HANDSHAKES_MAX`].
#[derive(Debug)]
pub struct TlsTransport<T: Transport> {
    inner: T,
    settings: TlsSettings,
    streams: BTreeMap<StreamId, TlsStream>,
    /// Accepted streams whose handshake is not complete, oldest first, with its deadline.
    handshakes: VecDeque<(StreamId, Nanos)>,
    /// Accepted streams that the caller has not seen.
    accepted: VecDeque<StreamId>,
}

#[derive(Debug)]
struct TlsStream {
    connection: Connection,
    /// Why nothing more can be sent or arrive.
    fault: Option<TransportError>,
    /// Decrypted octets wait for the caller.
    is_readable: bool,
}

impl<T: Transport> TlsTransport<T> {
    /// Without streams.
    #[must_use]
    pub const fn new(inner: T, settings: TlsSettings) -> Self {
        Self {
            inner,
            settings,
            streams: BTreeMap::new(),
            handshakes: VecDeque::new(),
            accepted: VecDeque::new(),
        }
    }

    fn add(&mut self, id: StreamId, mut connection: Connection) {
        connection.set_buffer_limit(Some(WAITING_BYTES_MAX));
        self.streams.insert(id, TlsStream { connection, fault: None, is_readable: false });
    }

    /// Begins the handshakes of peers that have connected.
    fn begin_handshakes(&mut self, now: Nanos) {
        let Some(config) = self.settings.server.clone() else { return };
        for _ in 0..HANDSHAKES_MAX {
            let Some(id) = self.inner.accept() else { return };
            let Ok(connection) = ServerConnection::new(Arc::clone(&config)) else {
                self.inner.close(id);
                continue;
            };
            if self.handshakes.len() >= HANDSHAKES_MAX
                && let Some((oldest, _)) = self.handshakes.pop_front()
            {
                self.close(oldest);
            }
            self.add(id, connection.into());
            self.handshakes.push_back((id, now + HANDSHAKE_MAX));
        }
    }

    /// Ends handshakes that are complete, failed, or take too long.
    fn end_handshakes(&mut self, now: Nanos) {
        for (id, deadline) in mem::take(&mut self.handshakes) {
            let Some(stream) = self.streams.get(&id) else { continue };
            if !stream.connection.is_handshaking() {
                self.accepted.push_back(id);
            } else if stream.fault.is_some() || now > deadline {
                self.close(id);
            } else {
                self.handshakes.push_back((id, deadline));
            }
        }
    }
}

impl TlsStream {
    /// Moves what can move in both directions.
    fn exchange<T: Transport>(&mut self, inner: &mut T, id: StreamId) {
        self.send(inner, id);
        while self.fault.is_none() && self.connection.wants_read() {
            match self.connection.read_tls(&mut StreamOctets { inner, id }) {
                Ok(0) => self.fault = Some(TransportError::Ended),
                Ok(_) => self.process(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => self.fault = Some(error.downcast().unwrap_or(TransportError::Reset)),
            }
        }
        self.send(inner, id);
    }

    fn process(&mut self) {
        match self.connection.process_new_packets() {
            Ok(state) => {
                self.is_readable = state.plaintext_bytes_to_read() > 0;
                if state.peer_has_closed() {
                    self.fault = Some(TransportError::Ended);
                }
            }
            Err(error) => self.fault = Some(TransportError::Tls(TlsFault::from(&error))),
        }
    }

    /// Sends what is encrypted, an alert about a fault included. An error of the stream is left to a read: what the peer said before
    /// it ended the stream explains more.
    fn send<T: Transport>(&mut self, inner: &mut T, id: StreamId) {
        let mut octets = StreamOctets { inner, id };
        while self.connection.wants_write() && self.connection.write_tls(&mut octets).is_ok() {}
    }
}

/// A stream of the other transport as the TLS library sees it.
struct StreamOctets<'a, T> {
    inner: &'a mut T,
    id: StreamId,
}

/// Octets moved. None is an error, since the library would try again at once, for ever.
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
            stream.exchange(&mut self.inner, *id);
        }
        self.end_handshakes(now);
    }

    fn wait(&mut self, limit: Duration) {
        let is_ready = self.streams.values().any(|stream| stream.is_readable);
        if !is_ready && self.accepted.is_empty() {
            self.inner.wait(limit);
        }
    }

    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError> {
        let name = self.settings.name.clone();
        let name = name.unwrap_or_else(|| ServerName::IpAddress(peer.ip().into()));
        let created = ClientConnection::new(Arc::clone(&self.settings.client), name);
        let connection = created.map_err(|error| TransportError::Tls(TlsFault::from(&error)))?;
        let id = self.inner.connect(peer)?;
        self.add(id, connection.into());
        Ok(id)
    }

    fn listen(&mut self, local: SocketAddr) -> Result<(), TransportError> {
        match self.settings.server {
            Some(_) => self.inner.listen(local),
            None => Err(TransportError::ClientOnly),
        }
    }

    fn accept(&mut self) -> Option<StreamId> {
        self.accepted.pop_front()
    }

    fn state(&mut self, id: StreamId) -> StreamState {
        let Some(stream) = self.streams.get_mut(&id) else {
            return StreamState::Closed(TransportError::NoStream);
        };
        let state = self.inner.state(id);
        if state == StreamState::Open {
            stream.exchange(&mut self.inner, id);
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
            stream.exchange(&mut self.inner, id);
            return Ok(0);
        }
        let taken = stream.connection.writer().write(octets).map_err(|_| TransportError::Reset)?;
        stream.send(&mut self.inner, id);
        Ok(taken)
    }

    fn receive(&mut self, id: StreamId, room: &mut [u8]) -> Result<usize, TransportError> {
        let stream = self.streams.get_mut(&id).ok_or(TransportError::NoStream)?;
        for is_last in [false, true] {
            if let Ok(len @ 1..) = stream.connection.reader().read(room) {
                return Ok(len);
            }
            stream.is_readable = false;
            if !is_last {
                stream.exchange(&mut self.inner, id);
            }
        }
        stream.fault.map_or(Ok(0), Err)
    }

    fn close(&mut self, id: StreamId) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.connection.send_close_notify();
            stream.send(&mut self.inner, id);
        }
        self.inner.close(id);
    }
}
