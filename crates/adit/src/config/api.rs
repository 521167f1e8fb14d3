//! `[api]`: the HTTP interface.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::comparison::{LISTENING, NOW};
use super::declare::section;
use super::keys::IntoKey as _;
use super::kinds::text;
use super::section::ConfigDocument;

/// The expected form of a path, for messages and documents.
const PEM: &str = "a path such as \"/etc/adit/api.pem\"";

section! {
    /// The HTTP interface with the dashboard, and the description of both at /api
    /// (docs/operate.md). Off unless this section is here.
    ApiSection(NOW) {
        /// Where it listens. Beyond a loopback address it needs TLS and tokens.
        listen: SocketAddr, text("an address with a TCP port such as \"127.0.0.1:8080\"")
            .required(SocketAddr::from(([127, 0, 0, 1], 0))), LISTENING => ["\"127.0.0.1:8080\""];
        /// Certificate with its chain, in PEM. A reload reads this file, the key and the tokens
        /// again.
        tls_certificate: Option<String>, text(PEM).optional("none") => ["\"/etc/adit/api.pem\""];
        /// Key of tls_certificate, in PEM.
        tls_key: Option<String>, text(PEM).optional("none") => ["\"/etc/adit/api.key\""];
        /// Tokens, one in a line: a role ("read", or "act" to change things too), a name for the
        /// log, and the token. Other users of the host may not read the file. Without it everybody
        /// who reaches the interface reads, and nobody changes anything.
        tokens_file: Option<String>, text(PEM).optional("none") => ["\"/etc/adit/api.tokens\""];
    }
}

/// Where the HTTP interface listens, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiSettings {
    pub listen: SocketAddr,
    /// TLS; always present unless `listen` is a loopback address.
    pub tls: Option<ApiTlsFiles>,
    /// Tokens with their roles; always present unless `listen` is a loopback address. Without it
    /// everybody who reaches the interface reads, and nobody acts.
    pub tokens_file: Option<PathBuf>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiTlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl ApiSection {
    /// Checks the section and returns its settings. Mistakes are added to `document`.
    pub(super) fn settings(&self, document: &ConfigDocument<'_>) -> ApiSettings {
        let problem = |key: &str, what: &str| document.problem(&format!("api.{key}"), what);
        let Self { listen, tls_certificate: certificate, tls_key: key, tokens_file } = self.clone();
        let is_far = !listen.ip().is_loopback();
        for (name, own, other) in
            [("tls_certificate", &certificate, &key), ("tls_key", &key, &certificate)]
        {
            if own.is_some() {
                continue;
            }
            if other.is_some() {
                problem(name, "is missing: a certificate and its key belong together");
            } else if is_far {
                problem(name, "is missing: beyond a loopback address the interface has TLS");
            }
        }
        if is_far && tokens_file.is_none() {
            let what =
                "is missing: beyond a loopback address the interface is for holders of tokens";
            problem("tokens_file", what);
        }
        let tls = certificate.zip(key).map(|(certificate, key)| ApiTlsFiles {
            certificate: certificate.into(),
            key: key.into(),
        });
        ApiSettings { listen, tls, tokens_file: tokens_file.map(PathBuf::from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    fn parsed(api: &str) -> Result<Option<ApiSettings>, Vec<String>> {
        let parsed = Config::parse(&format!("{EXAMPLE}\n{api}\n")).map(|config| config.api);
        parsed.map_err(|problems| problems.iter().map(|problem| problem.path.clone()).collect())
    }

    #[test]
    fn interface_is_off_unless_the_section_is_there() {
        assert_eq!(parsed("").unwrap(), None);
        let api = parsed("[api]\nlisten = \"[::1]:8080\"").unwrap().unwrap();
        assert_eq!((api.listen.port(), api.tls, api.tokens_file), (8080, None, None));
        assert_eq!(parsed("[api]").unwrap_err(), ["api.listen"]);
    }

    #[test]
    fn beyond_loopback_all_that_is_missing_is_named_at_once() {
        let far = "[api]\nlisten = \"0.0.0.0:8443\"";
        let missing = ["api.tls_certificate", "api.tls_key", "api.tokens_file"];
        assert_eq!(parsed(far).unwrap_err(), missing);
        let files = "tls_certificate = \"a\"\ntls_key = \"b\"\ntokens_file = \"c\"";
        let api = parsed(&format!("{far}\n{files}")).unwrap().unwrap();
        assert_eq!(api.tls.unwrap().key, PathBuf::from("b"));
        assert_eq!(api.tokens_file, Some(PathBuf::from("c")));
    }

    #[test]
    fn certificate_without_its_key_and_unknown_keys_are_mistakes() {
        let near = "[api]\nlisten = \"127.0.0.1:0\"";
        assert_eq!(
            parsed(&format!("{near}\ntls_certificate = \"a\"")).unwrap_err(),
            ["api.tls_key"]
        );
        assert_eq!(parsed(&format!("{near}\ntoken = \"a\"")).unwrap_err(), ["api.token"]);
    }
}
