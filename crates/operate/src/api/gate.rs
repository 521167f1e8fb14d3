//! The checks of every request: host, token, budget, role, body; and the headers of every response.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adit_types::limits::{API_BODY_BYTES_MAX, API_CLIENT_TIMEOUT_S, API_WRONG_TOKEN_COST};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{
    ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use rustls::ServerConfig;
use tower_service::Service;

use crate::api::access::{ApiPrincipal, ApiRole, TokenList};
use crate::api::credentials::ApiAccess;
use crate::api::listener::ApiPeer;
use crate::api::places::ConnectionPlace;
use crate::api::problem::{PROBLEM_TYPE, default_detail, problem_response};
use crate::api::request_budget::{BudgetHolder, RequestBudget};

/// Longest text of a response that becomes the detail of a problem document. Unit: octets.
const DETAIL_BYTES_MAX: usize = 4096;

/// Checks requests, and passes them to the router.
#[derive(Debug)]
pub(crate) struct ApiGate {
    router: Router,
    /// `None` at a Unix socket: the mode of its file says who may connect, and all these may act.
    access: Option<ApiAccess>,
    budget: RequestBudget,
    /// Paths without a token: pages and probes that show no state of sessions.
    open_paths: &'static [&'static str],
}

impl ApiGate {
    pub(crate) fn new(
        router: Router,
        access: Option<ApiAccess>,
        open_paths: &'static [&'static str],
    ) -> Self {
        Self { router, access, budget: RequestBudget::new(), open_paths }
    }

    /// The TLS configuration of connections; `None` without TLS.
    pub(crate) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.access.as_ref()?.current().tls.clone()
    }

    /// Returns the response to a request from `peer`.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        peer: &ApiPeer,
        place: &ConnectionPlace,
    ) -> Response<Body> {
        if !has_valid_host_count(request.version(), request.headers()) {
            let what = "A request has one header field Host (RFC 9112 §3.2).";
            return with_security_fields(with_connection_close(problem_response(
                StatusCode::BAD_REQUEST,
                what,
            )));
        }
        let is_open = self.open_paths.contains(&request.uri().path());
        let response = match self.admit(&request, peer) {
            Ok(principal) => {
                if !is_open {
                    place.prove();
                }
                self.pass(request, principal).await
            }
            Err(refused) => *refused,
        };
        with_security_fields(with_problem(response).await)
    }

    /// Checks token, budget, host and role. Returns who sent the request, or the refusal.
    fn admit(
        &self,
        request: &Request<Incoming>,
        peer: &ApiPeer,
    ) -> Result<ApiPrincipal, Box<Response<Body>>> {
        let peer = match peer {
            ApiPeer::Remote(peer) => *peer,
            ApiPeer::Local(who) => {
                return Ok(ApiPrincipal { name: who.clone(), role: ApiRole::Act });
            }
        };
        let Some(access) = &self.access else { return Err(unknown_client()) };
        let credentials = access.current();
        let tokens = &credentials.tokens;
        let is_open = self.open_paths.contains(&request.uri().path());
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let found = self.principal(tokens, request.headers(), peer)?;
        let holder = match &found {
            Some((number, _)) => BudgetHolder::Token(*number),
            None => BudgetHolder::Address(peer),
        };
        self.budget.take(Instant::now(), holder, 1).map_err(too_many_requests)?;
        let principal = match found {
            Some((_, principal)) => principal,
            None if tokens.is_needed() && !is_open => return Err(unknown_client()),
            None => ApiPrincipal { name: format!("anybody at {peer}"), role: ApiRole::Read },
        };
        if !tokens.is_needed() && !names_this_host(request.headers()) {
            let what = "The header field Host has to be a loopback address or localhost: a page of another site \
                        must not read this interface. Set api.tokens_file to reach it by other names.";
            return Err(Box::new(problem_response(StatusCode::MISDIRECTED_REQUEST, what)));
        }
        if is_read || principal.role == ApiRole::Act {
            return Ok(principal);
        }
        let what = match tokens.is_needed() {
            true => "This takes a token with the role \"act\".",
            false => {
                "This takes a token with the role \"act\": write one into a file, and set api.tokens_file."
            }
        };
        Err(Box::new(problem_response(StatusCode::FORBIDDEN, what)))
    }

    /// Returns the holder of the token in the request; `None` without a token, or if none is
    /// needed.
    fn principal(
        &self,
        tokens: &TokenList,
        fields: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Option<(usize, ApiPrincipal)>, Box<Response<Body>>> {
        let Some(field) = fields.get(AUTHORIZATION).filter(|_| tokens.is_needed()) else {
            return Ok(None);
        };
        let token = field.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        if let Some((number, name, role)) = token.and_then(|token| tokens.holder(token)) {
            let name = format!("{name} at {peer}");
            return Ok(Some((number, ApiPrincipal { name, role })));
        }
        let from = BudgetHolder::Address(peer);
        self.budget.take(Instant::now(), from, API_WRONG_TOKEN_COST).map_err(too_many_requests)?;
        Err(unknown_client())
    }

    /// Reads the body within limits, and passes the request to the router.
    async fn pass(&self, request: Request<Incoming>, principal: ApiPrincipal) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(principal);
        let limit = Duration::from_secs(API_CLIENT_TIMEOUT_S);
        let body = Limited::new(body, API_BODY_BYTES_MAX).collect();
        let octets: Bytes = match tokio::time::timeout(limit, body).await {
            Ok(Ok(collected)) => collected.to_bytes(),
            Ok(Err(error)) => {
                let is_long = error.is::<http_body_util::LengthLimitError>();
                let status =
                    if is_long { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST };
                return with_connection_close(problem_response(status, default_detail(status)));
            }
            Err(_) => {
                let status = StatusCode::REQUEST_TIMEOUT;
                return with_connection_close(problem_response(status, default_detail(status)));
            }
        };
        let request = Request::from_parts(head, Body::from(octets));
        // A router is always ready, and its errors are responses.
        match self.router.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Makes the response close the connection, because the rest of the request is not read.
fn with_connection_close(mut response: Response<Body>) -> Response<Body> {
    response
        .headers_mut()
        .insert(axum::http::header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn unknown_client() -> Box<Response<Body>> {
    let what =
        "This takes a token that api.tokens_file has: send it as Authorization: Bearer TOKEN.";
    let mut response = problem_response(StatusCode::UNAUTHORIZED, what);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Box::new(response)
}

fn too_many_requests(wait: Duration) -> Box<Response<Body>> {
    let what = "Too many requests; send fewer per second.";
    let mut response = problem_response(StatusCode::TOO_MANY_REQUESTS, what);
    let seconds = HeaderValue::from(wait.as_secs() + 1);
    response.headers_mut().insert(RETRY_AFTER, seconds);
    Box::new(response)
}

/// True if the request has as many fields Host as its version demands: servers must refuse others.
/// Spec: RFC 9112 §3.2.
fn has_valid_host_count(version: Version, fields: &HeaderMap) -> bool {
    match fields.get_all(HOST).iter().count() {
        0 => version < Version::HTTP_11,
        count => count == 1,
    }
}

/// True if the Host of a request is a name of this host that no other site can have.
fn names_this_host(fields: &HeaderMap) -> bool {
    let Some(host) = fields.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.parse::<SocketAddr>() {
        Ok(socket) => return socket.ip().is_loopback(),
        Err(_) => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Replaces an error without a problem document by one. The text of the error, if any, is the
/// detail.
async fn with_problem(response: Response<Body>) -> Response<Body> {
    let status = response.status();
    let is_one = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == PROBLEM_TYPE);
    if is_one || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (head, body) = response.into_parts();
    let text = match Limited::new(body, DETAIL_BYTES_MAX).collect().await {
        Ok(collected) => String::from_utf8_lossy(&collected.to_bytes()).into_owned(),
        Err(_) => String::new(),
    };
    let detail = if text.is_empty() { default_detail(status) } else { text.as_str() };
    let mut problem = problem_response(status, detail);
    for name in [ALLOW, RETRY_AFTER] {
        if let Some(value) = head.headers.get(&name) {
            problem.headers_mut().insert(name, value.clone());
        }
    }
    problem
}

/// Adds the header fields that all responses have: pages load nothing from other servers, and no
/// other page may frame them.
fn with_security_fields(mut response: Response<Body>) -> Response<Body> {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                  connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let fields = response.headers_mut();
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    for (name, value) in [
        ("content-security-policy", policy),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        fields.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    fields
        .entry(HeaderName::from_static("cache-control"))
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_names_one_host_unless_it_is_older_than_the_field() {
        let fields = |count| {
            let host = || (HOST, HeaderValue::from_static("localhost"));
            let mut fields = HeaderMap::new();
            (0..count).map(|_| host()).for_each(|(name, value)| {
                fields.append(name, value);
            });
            fields
        };
        let accepted =
            |version| [0, 1, 2].map(|count| has_valid_host_count(version, &fields(count)));
        assert_eq!(accepted(Version::HTTP_11), [false, true, false]);
        assert_eq!(accepted(Version::HTTP_10), [true, true, false]);
    }

    #[test]
    fn only_names_that_no_other_site_can_have_are_this_host() {
        let names = |host: &'static str| {
            names_this_host(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]))
        };
        for host in
            ["127.0.0.1:8080", "127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:80", "[::1]"]
        {
            assert!(names(host), "{host}");
        }
        for host in
            ["evil.example:8080", "evil.example", "192.0.2.1:80", "localhost.evil.example", ""]
        {
            assert!(!names(host), "{host}");
        }
        assert!(!names_this_host(&HeaderMap::new()));
    }
}
