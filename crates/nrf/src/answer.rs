//! Answers of an NRF: the values taken from them, and the text that an operator reads.

use adit_transport::TlsFault;
use serde::Deserialize;

/// Largest body of an answer. Unit: octets.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// The name of a request for a token.
pub(crate) const TOKEN_REQUEST: &str = "the token request";

const GRANT_TOKENS: &str = "let the NRF grant this UPF tokens for nnrf-nfm";

/// Most characters of foreign text that an operator sees.
const SHOWN_CHARS_MAX: usize = 200;

/// Most characters of an access token.
const TOKEN_CHARS_MAX: usize = 8 * 1024;

/// An answer as it arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NrfAnswer {
    pub status: u16,
    pub location: Option<String>,
    /// The pause that the NRF asks for. Unit: seconds.
    pub retry_after_s: Option<u64>,
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NrfFault {
    #[error("its name is unknown: check nrf.servers and the resolver of this host")]
    Unresolved,
    #[error("cannot be connected ({0}): start the NRF, or check nrf.servers and the route to it")]
    Unconnected(String),
    #[error("does not answer in time")]
    TooSlow,
    #[error("TLS: {0}; check nrf.tls_ca, nrf.tls_certificate and nrf.tls_name")]
    Tls(TlsFault),
    #[error("leads to an https URI: give nrf.tls_ca")]
    NoTls,
    #[error("ends the connection before it answers ({0}): read its log, or check nrf.servers")]
    Closed(String),
    #[error("violates HTTP/2 ({0}): check that nrf.servers names the NRF")]
    Http(String),
    #[error("answers with more than 64 KiB: check that nrf.servers names the NRF")]
    TooLong,
}

/// The part of a returned NFProfile that the client uses.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReturnedProfile {
    #[serde(rename = "heartBeatTimer")]
    heartbeat_timer: Option<u64>,
}

/// Spec: TS 29.510 §6.3.5.2.3.
#[derive(Debug, Deserialize)]
struct AccessTokenRsp {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
}

/// An access token and its lifetime.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations, reason = "nobody prints a token")]
pub(crate) struct GrantedToken {
    pub token: String,
    /// Unit: seconds.
    pub lifetime_s: u64,
}

/// ProblemDetails, or the error of a token request. Spec: TS 29.571 §5.2.4.1, RFC 6749 §5.2.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProblemDetails {
    title: Option<String>,
    detail: Option<String>,
    #[serde(alias = "error")]
    cause: Option<String>,
    #[serde(rename = "error_description")]
    description: Option<String>,
    invalid_params: Vec<InvalidParam>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InvalidParam {
    param: String,
    reason: Option<String>,
}

impl NrfAnswer {
    /// The time between heartbeats that the NRF sets. Unit: seconds. `None` if its answer has none.
    pub(crate) fn heartbeat_s(&self) -> Option<u64> {
        let profile: ReturnedProfile = serde_json::from_slice(&self.body).ok()?;
        profile.heartbeat_timer.filter(|timer| *timer > 0)
    }

    /// Returns the access token, if the answer has a usable one.
    pub(crate) fn token(&self) -> Option<GrantedToken> {
        const LIFETIME_S: u64 = 300;
        let granted: AccessTokenRsp = serde_json::from_slice(&self.body).ok()?;
        let AccessTokenRsp { access_token: token, token_type, expires_in } = granted;
        let is_graphic = token.bytes().all(|octet| octet.is_ascii_graphic());
        let is_usable = is_graphic && !token.is_empty() && token.len() <= TOKEN_CHARS_MAX;
        let is_usable = is_usable && token_type.eq_ignore_ascii_case("Bearer");
        let lifetime_s = expires_in.unwrap_or(LIFETIME_S);
        is_usable.then_some(GrantedToken { token, lifetime_s })
    }

    /// Describes the refusal in one sentence: what the NRF says, and what to do.
    pub(crate) fn refusal(&self, request: &str, uses_tokens: bool) -> String {
        let advice = match self.status {
            400..=403 if request == TOKEN_REQUEST => GRANT_TOKENS,
            400 | 415 | 422 => "compare [nrf] with what the NRF accepts",
            401 if uses_tokens => GRANT_TOKENS,
            401 => "it wants a token: set nrf.oauth2 = true",
            403 => "let the NRF accept this UPF: its nfInstanceId, its slices, its certificate",
            404 | 405 | 501 => "check that nrf.servers names an NRF, with the prefix of its paths",
            411 | 413 | 414 => "give fewer pools, interfaces and slices, or raise the NRF's limit",
            429 | 500..=599 => "adit tries again; read the NRF's log if it lasts",
            300..=399 => "check that nrf.servers names the NRF itself",
            _ => "read the NRF's log",
        };
        let said = self.problem().map(|said| format!(" ({said})")).unwrap_or_default();
        format!("answers {request} with {}{said}: {advice}", self.status)
    }

    /// Returns the text of the problem document in the body; `None` if there is none.
    fn problem(&self) -> Option<String> {
        let problem: ProblemDetails = serde_json::from_slice(&self.body).ok()?;
        let ProblemDetails { title, detail, cause, description, invalid_params } = problem;
        let detail = detail.or(description).or(title);
        let invalid = invalid_params.into_iter().map(|InvalidParam { param, reason }| {
            reason.map_or(param.clone(), |reason| format!("{param}: {reason}"))
        });
        let said: Vec<String> = cause.into_iter().chain(detail).chain(invalid).collect();
        (!said.is_empty()).then(|| shown(&said.join("; ")))
    }
}

/// Returns foreign text for display: bounded, and without characters that a terminal executes.
pub(crate) fn shown(text: &str) -> String {
    let mut rest = text.chars();
    let begin: String = rest.by_ref().take(SHOWN_CHARS_MAX).collect();
    let masked = begin.escape_debug().to_string();
    let masked = masked.replace("\\\"", "\"").replace("\\'", "'");
    if rest.next().is_some() { format!("{masked}…") } else { masked }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> NrfAnswer {
        NrfAnswer { status, body: body.as_bytes().to_vec(), ..NrfAnswer::default() }
    }

    #[test]
    fn heartbeat_is_taken_from_an_nf_profile_only() {
        let timer = |body: &str| answer(201, body).heartbeat_s();
        assert_eq!(timer(r#"{"heartBeatTimer": 7, "upfInfo": [{}]}"#), Some(7));
        let deep = format!("{}{}", "[".repeat(60_000), "]".repeat(60_000));
        for body in ["", "{", "[]", "null", r#"{"heartBeatTimer": 0}"#, &deep] {
            assert_eq!(timer(body), None, "{}", &body[..body.len().min(40)]);
        }
        for wrong in ["-1", "1.5", "\"7\"", "[]", "1e99"] {
            assert_eq!(timer(&format!(r#"{{"heartBeatTimer": {wrong}}}"#)), None, "{wrong}");
        }
    }

    #[test]
    fn token_is_one_that_a_header_can_carry() {
        let token = |body: &str| answer(200, body).token().map(|of| of.lifetime_s);
        assert_eq!(
            token(r#"{"access_token":"a.b","token_type":"bearer","expires_in":9}"#),
            Some(9)
        );
        assert_eq!(token(r#"{"access_token":"a.b","token_type":"Bearer"}"#), Some(300));
        let long = format!(r#"{{"access_token":"{}","token_type":"Bearer"}}"#, "a".repeat(9000));
        for body in [
            r#"{"access_token":"","token_type":"Bearer"}"#,
            r#"{"access_token":"a\r\nx: y","token_type":"Bearer"}"#,
            r#"{"access_token":"a","token_type":"mac"}"#,
            r#"{"token_type":"Bearer"}"#,
            "",
            &long,
        ] {
            assert_eq!(token(body), None);
        }
    }

    #[test]
    fn refusal_has_what_the_nrf_says_masked_and_what_to_do() {
        let body = r#"{"title":"Bad Request","cause":"MANDATORY_IE_INCORRECT","detail":"\u001b[2J",
            "invalidParams":[{"param":"/sNssais","reason":"not served"}]}"#;
        assert_eq!(
            answer(400, body).refusal("the registration", false),
            "answers the registration with 400 (MANDATORY_IE_INCORRECT; \\u{1b}[2J; /sNssais: not served): \
             compare [nrf] with what the NRF accepts"
        );
        let error = r#"{"error":"invalid_client","error_description":"unknown UPF"}"#;
        let refusal = answer(400, error).refusal(TOKEN_REQUEST, true);
        assert!(refusal.ends_with(
            "400 (invalid_client; unknown UPF): let the NRF grant this UPF tokens for nnrf-nfm"
        ));
        let plain = answer(403, "<html>").refusal("a heartbeat", false);
        assert!(plain.starts_with("answers a heartbeat with 403: let the NRF accept"), "{plain}");
        let long = format!(r#"{{"detail":"{}"}}"#, "\\u202e".repeat(5000));
        let refusal = answer(500, &long).refusal("a heartbeat", false);
        assert!(
            refusal.len() < 8 * SHOWN_CHARS_MAX + 200 && !refusal.contains('\u{202e}'),
            "{refusal}"
        );
        assert!(answer(401, "").refusal("x", false).ends_with("set nrf.oauth2 = true"));
    }
}
