//! The files of an interface, read at the start and again at the operator's request: tokens,
//! certificate and key.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use ring::digest::{Context, Digest, SHA256};
use rustls::ServerConfig;

use crate::api::access::TokenList;
use crate::api::config::{ApiServerConfig, ApiStartError};
use crate::api::files::{FileSecrecy, read_file};
use crate::api::tls::server_config;

/// The tokens, certificate and key from the files.
#[derive(Debug)]
pub struct ApiCredentials {
    pub(crate) tokens: TokenList,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// The digest of all files' octets.
    digest: Digest,
}

impl ApiCredentials {
    /// Reads certificate, key and tokens.
    ///
    /// # Errors
    /// See [`ApiStartError`].
    pub fn load(config: &ApiServerConfig) -> Result<Self, ApiStartError> {
        let tls = config.tls.as_ref();
        let files = tls.into_iter().flat_map(|tls| [&tls.certificate, &tls.key]);
        let digest = digest_of(files.chain(&config.tokens_file).map(AsRef::as_ref));
        let tokens = TokenList::load(config.tokens_file.as_deref())?;
        Ok(Self { tokens, tls: tls.map(server_config).transpose()?, digest })
    }
}

/// Computes a digest over the length and the octets of each file. A file that cannot be read counts
/// as empty: the code that uses the file reports the error.
fn digest_of<'a>(files: impl Iterator<Item = &'a Path>) -> Digest {
    let mut digest = Context::new(&SHA256);
    for file in files {
        // The permissions of secret files are checked when the files are used.
        let octets = read_file(file, FileSecrecy::Public).unwrap_or_default();
        digest.update(&octets.len().to_be_bytes());
        digest.update(&octets);
    }
    digest.finish()
}

/// The credentials of an interface. Clones share them.
#[derive(Debug, Clone)]
pub struct ApiAccess(Arc<RwLock<Arc<ApiCredentials>>>);

impl ApiAccess {
    pub(crate) fn new(credentials: ApiCredentials) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(credentials))))
    }

    /// True if the files of `others` have the same octets as the files of the credentials in
    /// effect.
    #[must_use]
    pub fn has_same_files(&self, others: &ApiCredentials) -> bool {
        self.current().digest.as_ref() == others.digest.as_ref()
    }

    /// Puts other credentials into effect, for requests and connections from now on.
    pub fn set(&self, credentials: ApiCredentials) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(credentials);
    }

    pub(crate) fn current(&self) -> Arc<ApiCredentials> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn tokens_are_those_of_the_file_read_last_and_a_bad_file_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        let (former, later) =
            ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
        let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let tokens_file = Some(path.clone());
        let config = ApiServerConfig { listen, tls: None, tokens_file, open_paths: &[] };
        write(&format!("read a {former}\n"));
        let access = ApiAccess::new(ApiCredentials::load(&config).unwrap());
        let shared = access.clone();
        assert!(access.has_same_files(&ApiCredentials::load(&config).unwrap()));
        write(&format!("read a {later}\n"));
        let credentials = ApiCredentials::load(&config).unwrap();
        assert!(!access.has_same_files(&credentials));
        assert!(shared.current().tokens.holder(former).is_some());
        access.set(credentials);
        let tokens = &shared.current().tokens;
        assert!(tokens.holder(former).is_none() && tokens.holder(later).is_some());
        write("read a short\n");
        assert!(ApiCredentials::load(&config).unwrap_err().to_string().contains("line 1"));
    }
}
