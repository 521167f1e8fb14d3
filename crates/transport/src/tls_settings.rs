//! Certificates: whose are trusted, and which one is shown.

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

/// Whom this side trusts, and who it is.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    pub(crate) client: Arc<ClientConfig>,
    /// How streams are accepted; `None` if none are.
    pub(crate) server: Option<Arc<ServerConfig>>,
    /// The name for which certificates must be issued; `None` for the address of the peer.
    pub(crate) name: Option<ServerName<'static>>,
}

/// A certificate with its key, in PEM.
#[allow(missing_debug_implementations, reason = "nobody prints a key")]
pub struct TlsIdentity {
    /// The certificate, and those between it and an authority.
    pub certificate: Vec<u8>,
    /// Its private key: PKCS #8, PKCS #1 or SEC 1.
    pub key: Vec<u8>,
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsSettingsError {
    /// The authorities are no certificates in PEM.
    #[error("it has no certificate of an authority in PEM")]
    Authorities,
    /// The own certificate file has no certificate.
    #[error("it has no certificate in PEM")]
    Certificate,
    /// The own key file has no private key.
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
    /// Trusts `authorities`, certificates in PEM. Certificates of peers must be for `name`, or for
    /// their address without one. With an `identity` and a `name` streams can be accepted: from
    /// peers with such a certificate, by TLS 1.3.
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
        // Each stream shows its certificate.
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { client, server: Some(Arc::new(server)), name: Some(name) })
    }

    /// Whom a client trusts, and what it shows.
    #[must_use]
    pub const fn client(&self) -> &Arc<ClientConfig> {
        &self.client
    }

    /// The name for which certificates must be issued; `None` for that of the peer's address.
    #[must_use]
    pub const fn name(&self) -> Option<&ServerName<'static>> {
        self.name.as_ref()
    }
}

/// Accepts a certificate that a trusted authority signed and that names the peer. Rejects the
/// authority's other certificates.
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

/// All certificates; `None` if there are none, or one is damaged.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.ok().filter(|all| !all.is_empty())
}
