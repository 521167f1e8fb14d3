//! Sends one request over a new connection, and receives its answer.
//!
//! Requests are seconds apart at least. A connection that is kept between them would only add
//! states: it may be dead without notice, and through it an NRF could keep the client busy.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use adit_transport::{TlsFault, TlsSettings};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::answer::{BODY_BYTES_MAX, NrfAnswer, NrfFault, shown};
use crate::registration::NrfRequest;

/// How long a request may take, with connection and answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a connection to one address may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Flow-control window of HTTP/2, for the connection and its stream. Unit: octets.
const WINDOW_BYTES: u32 = 65_535;

/// Most octets of the header fields of an answer.
const FIELD_BYTES_MAX: u32 = 16 * 1024;

/// Sends a request, and returns its answer.
pub(crate) async fn exchange(
    tls: Option<&TlsSettings>,
    request: &NrfRequest,
) -> Result<NrfAnswer, NrfFault> {
    timeout(REQUEST_TIME_MAX, exchange_untimed(tls, request))
        .await
        .unwrap_or(Err(NrfFault::TooSlow))
}

async fn exchange_untimed(
    tls: Option<&TlsSettings>,
    request: &NrfRequest,
) -> Result<NrfAnswer, NrfFault> {
    let uri: Uri = request.uri.parse().map_err(|_| NrfFault::Unresolved)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = connect(host, port).await?;
    if !is_tls {
        return send_http2(stream, uri, request).await;
    }
    let tls = tls.ok_or(NrfFault::NoTls)?;
    let name = match tls.name() {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned()).map_err(|_| NrfFault::Unresolved)?,
    };
    let mut config = (**tls.client()).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TlsConnector::from(std::sync::Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|error| NrfFault::Tls(tls_fault(&error)))?;
    send_http2(stream, uri, request).await
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, NrfFault> {
    let addresses = lookup_host((host, port)).await.map_err(|_| NrfFault::Unresolved)?;
    let addresses: Vec<SocketAddr> = addresses.take(ADDRESSES_MAX).collect();
    let mut fault = NrfFault::Unresolved;
    for address in addresses {
        fault = match timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => NrfFault::Unconnected(format!("{address}: {}", error.kind())),
            Err(_) => NrfFault::Unconnected(format!("{address}: no answer")),
        };
    }
    Err(fault)
}

async fn send_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    uri: Uri,
    request: &NrfRequest,
) -> Result<NrfAnswer, NrfFault> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
    builder.max_header_list_size(FIELD_BYTES_MAX);
    let link = builder.handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = link.map_err(|error| http_fault(&error))?;
    let driver = ConnectionDriver(tokio::spawn(async { drop(connection.await) }));
    let request = to_http(uri, request)?;
    let response = sender.send_request(request).await.map_err(|error| http_fault(&error))?;
    let answer = to_answer(response).await;
    drop(driver);
    answer
}

/// The task that drives a connection. Drop ends the task.
struct ConnectionDriver(tokio::task::JoinHandle<()>);

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Makes the HTTP request with the header fields of TS 29.500 §5.2.2.
fn to_http(uri: Uri, request: &NrfRequest) -> Result<Request<Full<Bytes>>, NrfFault> {
    let mut builder = Request::builder()
        .method(request.method)
        .uri(uri)
        .header(USER_AGENT, format!("UPF-{}", request.instance))
        .header(ACCEPT, "application/json, application/problem+json");
    if let Some(content_type) = request.content_type {
        builder = builder.header(CONTENT_TYPE, content_type);
    }
    if let Some(token) = &request.token {
        builder = builder.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let body = Full::new(Bytes::from(request.body.clone()));
    builder.body(body).map_err(|error| NrfFault::Http(error.to_string()))
}

async fn to_answer(response: Response<Incoming>) -> Result<NrfAnswer, NrfFault> {
    let (parts, body) = response.into_parts();
    let field = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let mut answer = NrfAnswer {
        status: parts.status.as_u16(),
        location: field(LOCATION).map(str::to_owned),
        retry_after_s: field(RETRY_AFTER).and_then(|value| parse_retry_after_s(value, field(DATE))),
        body: Vec::new(),
    };
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
    answer.body = match body {
        Ok(body) => body.to_bytes().to_vec(),
        Err(error) if error.is::<LengthLimitError>() => return Err(NrfFault::TooLong),
        Err(error) => match error.downcast::<hyper::Error>() {
            Ok(error) => return Err(http_fault(&error)),
            Err(error) => return Err(NrfFault::Http(shown(&error.to_string()))),
        },
    };
    Ok(answer)
}

/// Returns the seconds to wait by a Retry-After field, which has a number of seconds or a date. A
/// date is compared with the date of the answer rather than with the clock of this host, which may
/// differ from the NRF's. Spec: RFC 9110 §10.2.3.
fn parse_retry_after_s(retry_after: &str, date: Option<&str>) -> Option<u64> {
    if let Ok(seconds) = retry_after.trim().parse() {
        return Some(seconds);
    }
    let until = httpdate::parse_http_date(retry_after).ok()?;
    let now = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let pause = until.duration_since(now.unwrap_or_else(SystemTime::now));
    Some(pause.map_or(0, |pause| pause.as_secs()))
}

/// Converts an error of HTTP/2, with its cause.
fn http_fault(error: &hyper::Error) -> NrfFault {
    let cause = std::error::Error::source(error);
    let is_closed = cause.is_some_and(|cause| cause.is::<io::Error>());
    let cause = cause.map(|cause| format!(": {cause}"));
    let said = shown(&format!("{error}{}", cause.unwrap_or_default()));
    if is_closed { NrfFault::Closed(said) } else { NrfFault::Http(said) }
}

fn tls_fault(error: &io::Error) -> TlsFault {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    cause.map_or(TlsFault::Protocol, TlsFault::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        const ANSWERED: Option<&str> = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (field, pause) in [
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sunday, 06-Nov-94 08:50:07 GMT", Some(30)),
            ("Sun Nov  6 08:50:07 1994", Some(30)),
            ("Sun, 06 Nov 1994 08:49:36 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("soon", None),
            ("Sun, 32 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(parse_retry_after_s(field, ANSWERED), pause, "{field}");
        }
    }

    #[test]
    fn date_is_compared_with_the_clock_if_the_answer_has_none() {
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        for date in [None, Some("yesterday")] {
            let pause = parse_retry_after_s(&soon, date).unwrap();
            assert!((90..=100).contains(&pause), "{pause}");
        }
    }
}
