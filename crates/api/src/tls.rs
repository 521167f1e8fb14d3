//! TLS from a certificate and its key in files.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{ApiStartError, ApiTlsPaths};

/// The configuration of a server with this certificate.
///
/// # Errors
/// A file cannot be read, is not PEM, or key and certificate do not belong together.
pub(crate) fn server_config(files: &ApiTlsPaths) -> Result<Arc<ServerConfig>, ApiStartError> {
    let refused = |key: &'static str, path: &Path, what: String| ApiStartError::Tls {
        key,
        path: path.to_owned(),
        what,
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused("tls_certificate", &files.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| refused("tls_key", &files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| refused("tls_certificate", &files.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
