//! `[api]`: the HTTP interface.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::section::ConfigSection;

/// Where the HTTP interface listens, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiSettings {
    pub listen: SocketAddr,
    /// TLS; always present unless `listen` is a loopback address.
    pub tls: Option<ApiTlsFiles>,
    /// Tokens with their roles; always present unless `listen` is a loopback address. Without it everybody who reaches
    /// the interface reads, and nobody acts.
    pub tokens_file: Option<PathBuf>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiTlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Reads the section, if the file has it.
pub(super) fn read(root: &mut ConfigSection<'_, '_>) -> Option<ApiSettings> {
    let is_present = root.has("api");
    let mut api = root.table("api");
    if !is_present {
        return None;
    }
    let expects = "an address with a TCP port such as \"127.0.0.1:8080\"";
    let listen: Option<SocketAddr> = api.parsed("listen", expects);
    let mut path =
        |key: &'static str| api.parsed_optional(key, "a path such as \"/etc/adit/api.pem\"");
    let certificate: Option<PathBuf> = path("tls_certificate");
    let key: Option<PathBuf> = path("tls_key");
    let tokens_file: Option<PathBuf> = path("tokens_file");
    let is_far = listen.is_some_and(|listen| !listen.ip().is_loopback());
    for (name, is_given, other) in
        [("tls_certificate", certificate.is_some(), &key), ("tls_key", key.is_some(), &certificate)]
    {
        if is_given {
            continue;
        }
        if other.is_some() {
            api.problem(name, "is missing: a certificate and its key belong together");
        } else if is_far {
            api.problem(name, "is missing: beyond a loopback address the interface has TLS");
        }
    }
    if is_far && tokens_file.is_none() {
        let what = "is missing: beyond a loopback address the interface is for holders of tokens";
        api.problem("tokens_file", what);
    }
    api.finish();
    let tls = certificate.zip(key).map(|(certificate, key)| ApiTlsFiles { certificate, key });
    Some(ApiSettings { listen: listen?, tls, tokens_file })
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
