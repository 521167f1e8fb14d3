//! Certificates: which ones are trusted, and which one is shown to peers.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};

/// Which peers this side trusts, and its own certificate.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    pub(crate) client: Arc<ClientConfig>,
    /// The settings for accepting streams; `None` if streams cannot be accepted.
    pub(crate) server: Option<Arc<ServerConfig>>,
    /// The name that peers' certificates must have; `None` for the peer's address.
    pub(crate) name: Option<ServerName<'static>>,
}

/// A certificate with its key, in PEM.
#[allow(missing_debug_implementations, reason = "nobody prints a key")]
pub struct TlsIdentity {
    /// The certificate, followed by the intermediate ones up to an authority.
    pub certificate: Vec<u8>,
    /// Private key of the certificate: PKCS #8, PKCS #1 or SEC 1.
    pub key: Vec<u8>,
}

/// The reason why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsSettingsError {
    /// The authorities are no certificates in PEM.
    #[error("it has no certificate of an authority in PEM")]
    Authorities,
    /// The text of this side's certificate contains no certificate.
    #[error("it has no certificate in PEM")]
    Certificate,
    /// The text of this side's key contains no private key.
    #[error("it has no private key in PEM")]
    Key,
    /// Certificate and key do not belong together, or are of an unknown kind.
    #[error("the certificate and the key cannot be used together: {0}")]
    Pair(String),
    /// The name is neither a DNS name nor an address.
    #[error("it is neither a DNS name nor an address")]
    Name,
}

impl TlsSettings {
    /// Trusts the certificates in PEM `authorities`. Peers' certificates must be for `name`, or for
    /// the peer's address if there is no `name`. With both `identity` and `name`, streams can also
    /// be accepted: over TLS 1.3, from peers whose certificate is for `name`.
    ///
    /// # Errors
    /// See [`TlsSettingsError`].
    pub fn new(
        authorities: &[u8],
        identity: Option<TlsIdentity>,
        name: Option<&str>,
    ) -> Result<Self, TlsSettingsError> {
        let mut roots = RootCertStore::empty();
        let trusted = certificates(authorities).ok_or(TlsSettingsError::Authorities)?;
        for certificate in trusted {
            roots.add(certificate).map_err(|_| TlsSettingsError::Authorities)?;
        }
        let roots = Arc::new(roots);
        let name = name.map(|name| ServerName::try_from(name.to_owned())).transpose();
        let name = name.map_err(|_| TlsSettingsError::Name)?;
        let pair = |error: rustls::Error| TlsSettingsError::Pair(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?;
        let builder = builder.with_root_certificates(Arc::clone(&roots));
        let Some(identity) = identity else {
            let client = Arc::new(builder.with_no_client_auth());
            return Ok(Self { client, server: None, name });
        };
        let chain = certificates(&identity.certificate).ok_or(TlsSettingsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&identity.key);
        let key = key.map_err(|_| TlsSettingsError::Key)?;
        let client = builder.with_client_auth_cert(chain.clone(), key.clone_key());
        let client = Arc::new(client.map_err(pair)?);
        let Some(name) = name else { return Ok(Self { client, server: None, name }) };
        let signed = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let signed = signed.build().map_err(|_| TlsSettingsError::Authorities)?;
        let verifier = Arc::new(PeerVerifier { signed, name: name.clone() });
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(pair)?;
        let builder = builder.with_client_cert_verifier(verifier);
        let mut server = builder.with_single_cert(chain, key).map_err(pair)?;
        // Disables session resumption, so that every stream shows its certificate.
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { client, server: Some(Arc::new(server)), name: Some(name) })
    }

    /// Returns the settings for opening streams.
    #[must_use]
    pub const fn client(&self) -> &Arc<ClientConfig> {
        &self.client
    }

    /// Returns the name that peers' certificates must have; `None` for the peer's address.
    #[must_use]
    pub const fn name(&self) -> Option<&ServerName<'static>> {
        self.name.as_ref()
    }
}

/// Accepts a certificate if a trusted authority signed it and it is for the peer's name. Rejects
/// other certificates of the same authority.
#[derive(Debug)]
struct PeerVerifier {
    signed: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.signed.verify_client_cert(end_entity, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.name)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// Parses all certificates; `None` if there are none, or one is malformed.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.ok().filter(|all| !all.is_empty())
}
