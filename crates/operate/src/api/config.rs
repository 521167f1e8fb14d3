//! Where an interface listens and who may use it, and why it does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where an interface listens, and who may use it.
#[derive(Debug, Clone)]
pub struct ApiServerConfig {
    /// Address and TCP port; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// Certificate and key; `None` for connections without TLS.
    pub tls: Option<ApiTlsPaths>,
    /// The file of the tokens. Without it everybody reads, and nobody acts.
    pub tokens_file: Option<PathBuf>,
    /// Paths that need no token.
    pub open_paths: &'static [&'static str],
}

/// A certificate with its chain, and its key, in PEM.
#[derive(Debug, Clone)]
pub struct ApiTlsPaths {
    /// The file of the certificate, followed by those of its authorities.
    pub certificate: PathBuf,
    /// The file of the certificate's private key.
    pub key: PathBuf,
}

/// Why an interface does not start.
#[derive(Debug, thiserror::Error)]
pub enum ApiStartError {
    /// The interface cannot listen at the address.
    #[error(
        "cannot listen at api.listen {listen}: {error}; stop the process that holds the port (ss -tlnp), or change \
         api.listen"
    )]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A file of TLS cannot be used.
    #[error("api.{key} {path}: {what}", path = path.display())]
    Tls {
        /// The key of the configuration.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The file of tokens cannot be used.
    #[error("api.tokens_file {path}: {what}", path = path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
}
