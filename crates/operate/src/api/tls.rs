//! TLS from a certificate and its key in files.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::api::config::{ApiStartError, ApiTlsPaths};
use crate::api::files::{FileSecrecy, read_file};

/// Makes the TLS configuration of a server from a certificate and its key.
///
/// # Errors
/// A file cannot be read, is not PEM, or key and certificate do not belong together.
pub(crate) fn server_config(files: &ApiTlsPaths) -> Result<Arc<ServerConfig>, ApiStartError> {
    let refused = |key: &'static str, path: &Path, what: String| ApiStartError::Tls {
        key,
        path: path.to_owned(),
        what,
    };
    let pem = |key, path: &Path, secrecy| {
        read_file(path, secrecy).map_err(|error| refused(key, path, error.to_string()))
    };
    let certificates = pem("tls_certificate", &files.certificate, FileSecrecy::Public)?;
    let certificates = CertificateDer::pem_slice_iter(&certificates)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refused("tls_certificate", &files.certificate, error.to_string()))?;
    let key = pem("tls_key", &files.key, FileSecrecy::Secret)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| refused("tls_key", &files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| refused("tls_certificate", &files.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
