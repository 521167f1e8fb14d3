//! TLS over the streams of another transport, as a client.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use adit_types::Nanos;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::{StreamId, StreamState, TlsFault, Transport, TransportError};

/// Octets that wait to be encrypted and sent.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Whom a client trusts, and who it is.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    config: Arc<ClientConfig>,
    /// What certificates must be for; `None` for the address of the peer.
    name: Option<ServerName<'static>>,
}

/// A certificate of the client with its key, in PEM.
#[derive(Clone, Copy)]
pub struct TlsIdentity<'a> {
    /// The certificate, and those between it and an authority.
    pub certificate: &'a [u8],
    /// Its private key: PKCS #8, PKCS #1 or SEC 1.
    pub key: &'a [u8],
}

/// Without the key.
impl fmt::Debug for TlsIdentity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity")
            .field("octets", &self.certificate.len())
            .finish_non_exhaustive()
    }
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsSettingsError {
    /// The authorities are no certificates in PEM.
    #[error("it has no certificate of an authority in PEM")]
    Authorities,
    /// The client's certificate is none.
    #[error("it has no certificate in PEM")]
    Certificate,
    /// The client's key is none.
    #[error("it has no private key in PEM")]
    Key,
    /// Certificate and key do not belong together, or are of no known kind.
    #[error("the certificate and the key cannot be used together: {0}")]
    Pair(String),
    /// The name is no DNS name or address.
    #[error("it is neither a DNS name nor an address")]
    Name,
}

impl TlsSettings {
    /// Trusts `authorities`, certificates in PEM. Certificates of peers must be for `name`, or for their address without
    /// one.
    ///
    /// # Errors
    /// See [`TlsSettingsError`].
    pub fn new(
        authorities: &[u8],
        identity: Option<TlsIdentity<'_>>,
        name: Option<&str>,
    ) -> Result<Self, TlsSettingsError> {
        let mut roots = RootCertStore::empty();
        let trusted = certificates(authorities).ok_or(TlsSettingsError::Authorities)?;
        for certificate in trusted {
            roots.add(certificate).map_err(|_| TlsSettingsError::Authorities)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pair = |error: rustls::Error| TlsSettingsError::Pair(error.to_string());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?;
        let builder = builder.with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(identity.certificate);
                let chain = chain.ok_or(TlsSettingsError::Certificate)?;
                let key = PrivateKeyDer::from_pem_slice(identity.key);
                let key = key.map_err(|_| TlsSettingsError::Key)?;
                builder.with_client_auth_cert(chain, key).map_err(pair)?
            }
        };
        let name = name.map(|name| ServerName::try_from(name.to_owned())).transpose();
        let name = name.map_err(|_| TlsSettingsError::Name)?;
        Ok(Self { config: Arc::new(config), name })
    }
}

/// All certificates; `None` if there are none, or one is damaged.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.ok().filter(|all| !all.is_empty())
}

/// The streams of `T`, protected by TLS 1.2 or 1.3. It opens streams and accepts none.
pub struct TlsClient<T: Transport> {
    inner: T,
    settings: TlsSettings,
    streams: BTreeMap<StreamId, TlsStream>,
}

struct TlsStream {
    connection: ClientConnection,
    /// Why nothing more can be sent or arrive.
    fault: Option<TransportError>,
    /// Decrypted octets wait for the caller.
    is_readable: bool,
}

impl<T: Transport> fmt::Debug for TlsClient<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("streams", &self.streams.len()).finish_non_exhaustive()
    }
}

impl<T: Transport> TlsClient<T> {
    /// Without streams.
    #[must_use]
    pub const fn new(inner: T, settings: TlsSettings) -> Self {
        Self { inner, settings, streams: BTreeMap::new() }
    }
}

impl TlsStream {
    /// Moves what can move in both directions.
    fn exchange<T: Transport>(&mut self, inner: &mut T, id: StreamId) {
        self.send(inner, id);
        while self.fault.is_none() && self.connection.wants_read() {
            let mut octets = StreamOctets { inner, id, fault: None };
            match self.connection.read_tls(&mut octets) {
                Ok(0) => self.fault = Some(TransportError::Ended),
                Ok(_) => self.process(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.fault = octets.fault.or(Some(TransportError::Reset)),
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

    /// Sends what is encrypted, an alert about a fault included.
    fn send<T: Transport>(&mut self, inner: &mut T, id: StreamId) {
        while self.connection.wants_write() {
            let mut octets = StreamOctets { inner, id, fault: None };
            match self.connection.write_tls(&mut octets) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // What the peer said before it ended the stream explains more.
                Err(_) => return,
            }
        }
    }
}

/// A stream of the other transport as the TLS library sees it.
struct StreamOctets<'a, T> {
    inner: &'a mut T,
    id: StreamId,
    fault: Option<TransportError>,
}

impl<T> StreamOctets<'_, T> {
    fn result(&mut self, moved: Result<usize, TransportError>) -> io::Result<usize> {
        match moved {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(len) => Ok(len),
            Err(TransportError::Ended) => Ok(0),
            Err(error) => {
                self.fault = Some(error);
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }
}

impl<T: Transport> Read for StreamOctets<'_, T> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let received = self.inner.receive(self.id, room);
        self.result(received)
    }
}

impl<T: Transport> Write for StreamOctets<'_, T> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let sent = self.inner.send(self.id, octets);
        self.result(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: Transport> Transport for TlsClient<T> {
    fn poll(&mut self, now: Nanos) {
        self.inner.poll(now);
        for (id, stream) in &mut self.streams {
            stream.exchange(&mut self.inner, *id);
        }
    }

    fn wait(&mut self, limit: Duration) {
        if !self.streams.values().any(|stream| stream.is_readable) {
            self.inner.wait(limit);
        }
    }

    fn connect(&mut self, peer: SocketAddr) -> Result<StreamId, TransportError> {
        let name = self.settings.name.clone();
        let name = name.unwrap_or_else(|| ServerName::IpAddress(peer.ip().into()));
        let created = ClientConnection::new(Arc::clone(&self.settings.config), name);
        let mut connection =
            created.map_err(|error| TransportError::Tls(TlsFault::from(&error)))?;
        connection.set_buffer_limit(Some(WAITING_BYTES_MAX));
        let id = self.inner.connect(peer)?;
        self.streams.insert(id, TlsStream { connection, fault: None, is_readable: false });
        Ok(id)
    }

    fn listen(&mut self, _local: SocketAddr) -> Result<(), TransportError> {
        Err(TransportError::ClientOnly)
    }

    fn accept(&mut self) -> Option<StreamId> {
        None
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
