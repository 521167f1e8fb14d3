//! URIs of an NRF, and those to which its answers may redirect.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::Scheme;

use crate::instance_id::NfInstanceUuid;

/// The apiRoot of an NRF: scheme, authority, and the prefix of its paths if it has one.
/// Spec: TS 29.501 §4.4.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NrfServer {
    root: String,
    is_tls: bool,
}

/// A text that is no URI of an NRF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("takes a URI such as \"http://10.0.0.10:7777\" or \"https://nrf.5gc.example\"")]
pub struct NrfServerError;

impl FromStr for NrfServer {
    type Err = NrfServerError;

    fn from_str(text: &str) -> Result<Self, NrfServerError> {
        let uri: Uri = text.parse().map_err(|_| NrfServerError)?;
        let is_usable = is_http(&uri) && uri.query().is_none();
        let root = text.trim_end_matches('/').to_owned();
        is_usable.then(|| Self { root, is_tls: is_tls(&uri) }).ok_or(NrfServerError)
    }
}

impl NrfServer {
    /// True if the NRF is reached over TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the URI of the resource of a network function. Spec: TS 29.510 §6.1.3.3.
    pub(crate) fn instance_uri(&self, id: NfInstanceUuid) -> String {
        format!("{}/nnrf-nfm/v1/nf-instances/{id}", self.root)
    }

    /// Returns the URI at which access tokens are requested. Spec: TS 29.510 §6.3.
    pub(crate) fn token_uri(&self) -> String {
        format!("{}/oauth2/token", self.root)
    }
}

impl fmt::Display for NrfServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)
    }
}

/// Resolves the field Location of an answer from the URI `from`. `None` if the result is no URI of
/// HTTP, is too long, or gives up TLS.
pub(crate) fn resolve_location(from: &str, location: &str) -> Option<String> {
    const URI_MAX: usize = 1024;
    let from: Uri = from.parse().ok()?;
    let absolute = match location.starts_with('/') && !location.starts_with("//") {
        true => format!("{}://{}{location}", from.scheme_str()?, from.authority()?),
        false => location.to_owned(),
    };
    let uri: Uri = absolute.parse().ok()?;
    let keeps_tls = is_tls(&uri) || !is_tls(&from);
    (is_http(&uri) && keeps_tls && absolute.len() <= URI_MAX).then_some(absolute)
}

fn is_http(uri: &Uri) -> bool {
    let has_scheme = [Scheme::HTTP, Scheme::HTTPS].iter().any(|known| uri.scheme() == Some(known));
    let authority = uri.authority();
    has_scheme && authority.is_some_and(|of| !of.host().is_empty() && !of.as_str().contains('@'))
}

fn is_tls(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_follow_from_the_root() {
        let id = "4947a69a-f61b-4bc1-b9da-47c9c5d14b64".parse().unwrap();
        for (root, shown, is_tls) in [
            ("http://10.0.0.10:7777", "http://10.0.0.10:7777", false),
            ("https://nrf.5gc.example/", "https://nrf.5gc.example", true),
            ("http://[2001:db8::1]:80/region-1/", "http://[2001:db8::1]:80/region-1", false),
        ] {
            let server = root.parse::<NrfServer>().unwrap();
            assert_eq!((server.to_string().as_str(), server.is_tls()), (shown, is_tls));
            let resource = format!("{shown}/nnrf-nfm/v1/nf-instances/{id}");
            assert_eq!(server.instance_uri(id), resource);
            assert_eq!(server.token_uri(), format!("{shown}/oauth2/token"));
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "10.0.0.10:7777", "ftp://a", "http://", "http://u@a", "http://a?x=1", "/a"]
        {
            assert!(text.parse::<NrfServer>().is_err(), "{text}");
        }
    }

    #[test]
    fn location_keeps_tls_and_is_bounded() {
        let from = "https://nrf:8000/nnrf-nfm/v1/nf-instances/x";
        let at = |location: &str| resolve_location(from, location);
        assert_eq!(at("/other/x").as_deref(), Some("https://nrf:8000/other/x"));
        assert_eq!(at("https://nrf-2/x").as_deref(), Some("https://nrf-2/x"));
        for location in ["http://nrf:8000/x", "ftp://nrf/x", "//nrf/x", "x", "", "https://a@b/x"] {
            assert_eq!(at(location), None, "{location}");
        }
        assert_eq!(at(&format!("/{}", "x".repeat(2000))), None);
        assert!(resolve_location("http://nrf/x", "https://nrf/x").is_some());
    }
}
