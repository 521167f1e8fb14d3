//! Problem documents. Spec: RFC 9457.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

/// Header field that all responses of this room have, and responses of hyper itself lack.
pub(crate) const OWN_RESPONSE_FIELD: &str = "x-content-type-options";

/// Media type of problem documents.
pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// Why a request failed. Spec: RFC 9457 §3.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ProblemDocument {
    /// Always "about:blank": the status says what kind of problem it is.
    r#type: &'static str,
    /// The name of the status.
    title: &'static str,
    /// The status of the response.
    status: u16,
    /// The event, and its remedy.
    detail: String,
}

impl ProblemDocument {
    fn new(status: StatusCode, detail: &str) -> Self {
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.to_owned(),
        }
    }

    /// Serializes as JSON. This cannot fail: all members are strings and numbers.
    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns a response that says why a request failed. `detail`: what happened, and what to do.
#[must_use]
pub fn problem_response(status: StatusCode, detail: &str) -> Response<Body> {
    problem_with(status, detail, Map::new())
}

/// As [`problem_response`], with further members. Spec: RFC 9457 §3.2.
#[must_use]
pub fn problem_with(
    status: StatusCode,
    detail: &str,
    further: Map<String, Value>,
) -> Response<Body> {
    let mut document = serde_json::to_value(ProblemDocument::new(status, detail));
    if let Ok(Value::Object(members)) = &mut document {
        members.extend(further);
    }
    let mut response = Response::new(Body::from(document.unwrap_or_default().to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
    response
}

/// Returns the octets of a whole response with a problem, after which the connection is closed: no
/// request could be read.
pub(crate) fn closing_problem(status: StatusCode, detail: &str) -> Vec<u8> {
    let problem = ProblemDocument::new(status, detail);
    let (text, title) = (problem.text(), problem.title);
    format!(
        "HTTP/1.1 {} {title}\r\ncontent-type: {PROBLEM_TYPE}\r\ncontent-length: {}\r\n\
         {}: nosniff\r\nconnection: close\r\n\r\n{text}",
        status.as_u16(),
        text.len(),
        OWN_RESPONSE_FIELD,
    )
    .into_bytes()
}

/// Returns the text for a status that comes without one.
pub(crate) const fn default_detail(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "The request is not HTTP/1.1 as RFC 9112 defines it.",
        StatusCode::NOT_FOUND => "There is nothing at this path; /openapi.json lists all paths.",
        StatusCode::METHOD_NOT_ALLOWED => {
            "This path has other methods; the header field Allow and /openapi.json list them."
        }
        StatusCode::REQUEST_TIMEOUT => "The request did not arrive in time.",
        StatusCode::URI_TOO_LONG => "The request target is too long.",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            "The header fields are too large, or too many."
        }
        StatusCode::PAYLOAD_TOO_LARGE => "The body is too large.",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            "The body has to be JSON: set Content-Type to application/json."
        }
        _ => "The request failed.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_problem_is_a_whole_response() {
        let text =
            String::from_utf8(closing_problem(StatusCode::BAD_REQUEST, "no \"HTTP\"")).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let document: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(document["status"], 400);
        assert_eq!(document["detail"], "no \"HTTP\"");
    }
}
