//! The keys of TLS, which `[store]` and `[store.replication]` have alike.

use std::path::PathBuf;

use super::section::ConfigSection;

/// Files of TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreTlsFiles {
    /// Certificates of the authorities that sign those of peers.
    pub authorities: PathBuf,
    /// Own certificate and its key.
    pub identity: Option<StoreIdentityFiles>,
    /// The name that the certificates of peers are for, if not their addresses.
    pub name: Option<String>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreIdentityFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Reads the keys. Without a `tls_ca` there is no TLS.
pub(super) fn read_tls(store: &mut ConfigSection<'_, '_>) -> Option<StoreTlsFiles> {
    let authorities = path(store, "tls_ca");
    let (certificate, key) = (path(store, "tls_certificate"), path(store, "tls_key"));
    let name: Option<String> = store.parsed_optional("tls_name", "a name such as \"redis-1\"");
    if key.is_none() {
        store.refuse(&["tls_certificate"], "needs a tls_key");
    }
    if certificate.is_none() {
        store.refuse(&["tls_key"], "needs a tls_certificate");
    }
    if authorities.is_none() {
        let what = "needs a tls_ca, without which there is no TLS";
        store.refuse(&["tls_certificate", "tls_key", "tls_name"], what);
    }
    let identity = certificate.zip(key);
    let identity = identity.map(|(certificate, key)| StoreIdentityFiles { certificate, key });
    authorities.map(|authorities| StoreTlsFiles { authorities, identity, name })
}

/// The path of a file.
pub(super) fn path(store: &mut ConfigSection<'_, '_>, key: &'static str) -> Option<PathBuf> {
    store.parsed_optional(key, "a path such as \"/etc/adit/store.pem\"")
}
