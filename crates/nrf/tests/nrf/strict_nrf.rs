//! An NRF that accepts only what the standard allows, and misbehaves on demand.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, USER_AGENT};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::nf_schema::{apply_patch, check_profile};

/// Longest wait for something that a test expects.
const LIMIT: Duration = Duration::from_secs(20);

const PREFIX: &str = "/nnrf-nfm/v1/nf-instances/";

/// Options with which an NRF starts.
#[derive(Default)]
pub(crate) struct NrfOptions {
    pub address: Option<SocketAddr>,
    pub heartbeat_s: u64,
    pub wants_tokens: bool,
    pub manner: NrfManner,
    pub tls: Option<Arc<ServerConfig>>,
}

/// How an NRF uses the freedom that the standard leaves.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum NrfManner {
    #[default]
    Strict,
    /// It stores no number that is 0 and sets no heartbeat interval, answers a patch with the
    /// profile, and takes a while for a deregistration. It registers without a token, and grants
    /// tokens to those that are registered only.
    Free5gc,
}

/// An answer instead of the right one.
#[derive(Clone)]
pub(crate) enum Misbehavior {
    Answer { status: u16, fields: Vec<(&'static str, String)>, body: Bytes },
    Silence,
    Reset,
}

/// A request that the NRF received, with its answer's status and a violation of the standard.
#[derive(Debug, Clone)]
pub(crate) struct SeenRequest {
    pub method: String,
    pub status: u16,
    pub complaint: Option<String>,
}

#[derive(Default)]
struct Records {
    profiles: BTreeMap<String, Map<String, Value>>,
    seen: Vec<SeenRequest>,
    misbehaviors: VecDeque<Misbehavior>,
    tokens: usize,
}

struct Nrf {
    root: String,
    heartbeat_s: u64,
    wants_tokens: bool,
    manner: NrfManner,
    records: Mutex<Records>,
}

/// A running NRF.
pub(crate) struct StrictNrf {
    pub address: SocketAddr,
    nrf: Arc<Nrf>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StrictNrf {
    pub(crate) fn start(options: NrfOptions) -> Self {
        let address = options.address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let nrf = Arc::new(Nrf {
            root: format!("{scheme}://{address}"),
            heartbeat_s: options.heartbeat_s,
            wants_tokens: options.wants_tokens,
            manner: options.manner,
            records: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = Arc::clone(&nrf);
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.spawn(serve(listener, serving, options.tls));
            let _ = runtime.block_on(stopped);
        });
        Self { address, nrf, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn uri(&self) -> String {
        self.nrf.root.clone()
    }

    /// Makes the NRF give these answers to the next requests.
    pub(crate) fn misbehave(&self, misbehaviors: impl IntoIterator<Item = Misbehavior>) {
        self.nrf.records.lock().unwrap().misbehaviors.extend(misbehaviors);
    }

    pub(crate) fn forget_all(&self) {
        self.nrf.records.lock().unwrap().profiles.clear();
    }

    pub(crate) fn profiles(&self) -> Vec<Map<String, Value>> {
        self.nrf.records.lock().unwrap().profiles.values().cloned().collect()
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.nrf.records.lock().unwrap().seen.clone()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.seen().iter().filter(|seen| seen.method == method).count()
    }

    /// Waits until `is_done` is true of the requests.
    pub(crate) fn wait(&self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_done(self) {
            assert!(Instant::now() < end, "{what}: {:#?}", self.seen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asserts that no request violated the standard.
    pub(crate) fn assert_content(&self) {
        let complaints: Vec<String> =
            self.seen().into_iter().filter_map(|seen| seen.complaint).collect();
        assert_eq!(complaints, Vec::<String>::new());
    }
}

impl Drop for StrictNrf {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(listener: std::net::TcpListener, nrf: Arc<Nrf>, tls: Option<Arc<ServerConfig>>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (nrf, tls) = (Arc::clone(&nrf), tls.clone());
        tokio::spawn(async move {
            let Some(tls) = tls else { return connection(stream, nrf).await };
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                connection(stream, nrf).await;
            }
        });
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, nrf: Arc<Nrf>) {
    let service = service_fn(move |request| answer(request, Arc::clone(&nrf)));
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    nrf: Arc<Nrf>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let misbehavior = nrf.records.lock().unwrap().misbehaviors.pop_front();
    let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let mut seen = SeenRequest {
        method: parts.method.to_string(),
        status: 0,
        complaint: complaint(&parts.headers).err(),
    };
    let response = match misbehavior {
        Some(Misbehavior::Silence) => {
            nrf.records.lock().unwrap().seen.push(seen);
            return std::future::pending().await;
        }
        Some(Misbehavior::Reset) => {
            nrf.records.lock().unwrap().seen.push(seen);
            return Err(std::io::Error::other("reset"));
        }
        Some(Misbehavior::Answer { status, fields, body }) => {
            let builder = Response::builder().status(status);
            let builder =
                fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, value));
            builder.body(Full::new(body)).unwrap()
        }
        None => {
            let result = nrf.answer(&parts, &body, &value);
            if nrf.manner == NrfManner::Free5gc && parts.method == "DELETE" {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            if let Err(why) = &result {
                seen.complaint = seen.complaint.or(why.complaint.clone());
            }
            result.unwrap_or_else(|refused| problem(refused.status))
        }
    };
    seen.status = response.status().as_u16();
    nrf.records.lock().unwrap().seen.push(seen);
    Ok(response)
}

/// Why a request is refused; a complaint if the standard forbids it.
struct Refused {
    status: u16,
    complaint: Option<String>,
}

impl Nrf {
    fn answer(
        &self,
        parts: &hyper::http::request::Parts,
        octets: &[u8],
        body: &Value,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        let wrong = |complaint: String| Refused { status: 400, complaint: Some(complaint) };
        let mut records = self.records.lock().unwrap();
        let path = parts.uri.path();
        let media = parts.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap());
        if path == "/oauth2/token" && parts.method == "POST" {
            if media != Some("application/x-www-form-urlencoded") {
                return Err(wrong(format!("media type {media:?}")));
            }
            check_token_request(octets).map_err(wrong)?;
            if self.manner == NrfManner::Free5gc && records.profiles.is_empty() {
                return Ok(with_json(400, &json!({"error": "invalid_client"})));
            }
            records.tokens += 1;
            let token = format!("token-{}", records.tokens);
            let body = json!({"access_token": token, "token_type": "Bearer", "expires_in": 600});
            return Ok(with_json(200, &body));
        }
        let is_open = self.manner == NrfManner::Free5gc && parts.method == "PUT";
        if self.wants_tokens && !is_open {
            let token = format!("Bearer token-{}", records.tokens);
            let shown = parts.headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap());
            if shown != Some(&token) {
                return Err(Refused { status: 401, complaint: None });
            }
        }
        let id = path.strip_prefix(PREFIX).ok_or_else(|| wrong(format!("path {path}")))?;
        match (parts.method.as_str(), media) {
            ("PUT", Some("application/json")) => {
                check_profile(body).map_err(wrong)?;
                if body["nfInstanceId"] != id {
                    return Err(wrong("another nfInstanceId".to_owned()));
                }
                let mut profile = body.as_object().unwrap().clone();
                match self.manner {
                    NrfManner::Strict => {
                        profile.insert("heartBeatTimer".to_owned(), self.heartbeat_s.into());
                    }
                    NrfManner::Free5gc => profile.retain(|_, value| *value != 0),
                }
                let known = records.profiles.insert(id.to_owned(), profile.clone());
                let status = if known.is_some() { 200 } else { 201 };
                let mut response = with_json(status, &Value::Object(profile));
                let location = format!("{}{path}", self.root);
                response.headers_mut().insert(LOCATION, location.parse().unwrap());
                Ok(response)
            }
            ("PATCH", Some("application/json-patch+json")) => {
                let known = records.profiles.get_mut(id);
                let profile = known.ok_or(Refused { status: 404, complaint: None })?;
                apply_patch(profile, body).map_err(wrong)?;
                match self.manner {
                    NrfManner::Strict => Ok(empty(204)),
                    NrfManner::Free5gc => Ok(with_json(200, &Value::Object(profile.clone()))),
                }
            }
            ("DELETE", None) => {
                let known = records.profiles.remove(id);
                known.map(|_| empty(204)).ok_or(Refused { status: 404, complaint: None })
            }
            (method, media) => Err(wrong(format!("{method} with {media:?}"))),
        }
    }
}

/// Checks the fields that each request must have. Spec: TS 29.500 §5.2.2.2.
fn complaint(headers: &hyper::HeaderMap) -> Result<(), String> {
    let field = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let agent = field(USER_AGENT);
    if !agent.starts_with("UPF-") {
        return Err(format!("User-Agent {agent:?}"));
    }
    let accept = field(ACCEPT);
    let has = |media: &str| accept.split(',').any(|part| part.trim() == media);
    if !has("application/json") || !has("application/problem+json") {
        return Err(format!("Accept {accept:?}"));
    }
    Ok(())
}

fn check_token_request(octets: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(octets).into_owned();
    let fields: BTreeMap<&str, &str> =
        text.split('&').filter_map(|field| field.split_once('=')).collect();
    for (name, value) in [
        ("grant_type", "client_credentials"),
        ("nfType", "UPF"),
        ("targetNfType", "NRF"),
        ("scope", "nnrf-nfm"),
    ] {
        if fields.get(name) != Some(&value) {
            return Err(format!("{name} in {text}"));
        }
    }
    fields.contains_key("nfInstanceId").then_some(()).ok_or("no nfInstanceId".to_owned())
}

fn with_json(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    response.body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

fn empty(status: u16) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::default()).unwrap()
}

fn problem(status: u16) -> Response<Full<Bytes>> {
    let body = json!({"status": status, "cause": "REFUSED"});
    let mut response = with_json(status, &body);
    response.headers_mut().insert(CONTENT_TYPE, "application/problem+json".parse().unwrap());
    response
}
