//! Files that `[store]` and `[store.replication]` name: certificates, keys, the password.

use std::path::Path;

use adit_operate::api::{FileSecrecy, read_text_file};
use adit_transport::{TlsIdentity, TlsSettings, TlsSettingsError};
use anyhow::Context;

use crate::config::TlsFiles;

/// Reads the files of TLS that `table` names.
///
/// # Errors
/// A file cannot be read or used; the message names its key.
pub(crate) fn tls_settings(table: &str, files: &TlsFiles) -> anyhow::Result<TlsSettings> {
    let of = |key: &str| format!("{table}.{key}");
    let text = |key, path: &Path, secrecy| text_of(&of(key), path, secrecy);
    let authorities = text("tls_ca", &files.authorities, FileSecrecy::Public)?;
    let identity = files.identity.as_ref().map(|identity| {
        let certificate = text("tls_certificate", &identity.certificate, FileSecrecy::Public)?;
        let key = text("tls_key", &identity.key, FileSecrecy::Secret)?;
        anyhow::Ok(TlsIdentity { certificate: certificate.into(), key: key.into() })
    });
    let identity = identity.transpose()?;
    let settings = TlsSettings::new(authorities.as_bytes(), identity, files.name.as_deref());
    settings.map_err(|error| {
        let key = match error {
            TlsSettingsError::Authorities => "tls_ca",
            TlsSettingsError::Certificate | TlsSettingsError::Pair(_) => "tls_certificate",
            TlsSettingsError::Key => "tls_key",
            TlsSettingsError::Name => "tls_name",
        };
        anyhow::anyhow!("{} cannot be used: {error}", of(key))
    })
}

/// Reads the file that `key` names.
///
/// # Errors
/// The file cannot be read, or is secret and other users can read it.
pub(crate) fn text_of(key: &str, path: &Path, secrecy: FileSecrecy) -> anyhow::Result<String> {
    let text = read_text_file(path, secrecy);
    text.with_context(|| format!("cannot use {key} {}", path.display()))
}
