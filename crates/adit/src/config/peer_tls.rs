//! The keys of TLS that `[store]`, `[store.replication]` and `[nrf]` have in common.

use std::path::PathBuf;

use super::comparison::OnReload;
use super::declare::section;
use super::keys::IntoKey as _;
use super::kinds::text;
use super::section::ConfigDocument;

/// The expected form of a PEM file's path, for messages and documents.
const PEM: &str = "a path such as \"/etc/adit/tls.pem\"";

/// For keys of TLS, which a reload does not change.
const FIXED: OnReload = OnReload::Fixed("its files are read at the start");

section! {
    /// TLS.
    TlsKeys(FIXED) {
        /// Certificates of the authorities that sign those of the other ends, in PEM. They make it
        /// TLS.
        ca: Option<String> = "tls_ca", text(PEM).optional("without TLS")
            => ["# \"/etc/adit/tls-ca.pem\""];
        /// Own certificate, in PEM.
        certificate: Option<String> = "tls_certificate", text(PEM).optional("none")
            => ["# \"/etc/adit/tls.pem\""];
        /// Key of tls_certificate, in PEM.
        key: Option<String> = "tls_key", text(PEM).optional("none")
            => ["# \"/etc/adit/tls.key\""];
        /// The name that the certificates of the other ends are for.
        name: Option<String> = "tls_name", text("a name such as \"servers.example\"")
            .optional("their addresses, or their names in URIs") => ["# \"servers.example\""];
    }
}

/// Files of TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Certificates of the authorities that sign those of peers.
    pub authorities: PathBuf,
    /// Own certificate and its key; `None` if adit has none.
    pub identity: Option<TlsIdentityFiles>,
    /// The name in the certificates of peers; `None` if their addresses are in them.
    pub name: Option<String>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsIdentityFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl TlsKeys {
    /// Checks the keys, which are in the section at `path`. Without a `tls_ca` there is no TLS.
    pub(super) fn files(&self, document: &ConfigDocument<'_>, path: &str) -> Option<TlsFiles> {
        let Self { ca, certificate, key, name } = self.clone();
        if key.is_none() {
            document.refuse(path, &["tls_certificate"], "needs a tls_key");
        }
        if certificate.is_none() {
            document.refuse(path, &["tls_key"], "needs a tls_certificate");
        }
        if ca.is_none() {
            let what = "needs a tls_ca, without which there is no TLS";
            document.refuse(path, &["tls_certificate", "tls_key", "tls_name"], what);
        }
        let identity = certificate.zip(key);
        let identity = identity.map(|(certificate, key)| TlsIdentityFiles {
            certificate: certificate.into(),
            key: key.into(),
        });
        Some(TlsFiles { authorities: ca?.into(), identity, name })
    }
}
