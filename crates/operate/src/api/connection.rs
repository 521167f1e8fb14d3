//! Accepts connections and serves each in a task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use adit_types::limits::{
    API_CLIENT_TIMEOUT_S, API_HEADER_BYTES_MAX, API_HEADERS_MAX, API_REFUSALS_MAX,
};
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::api::gate::ApiGate;
use crate::api::guarded_stream::GuardedStream;
use crate::api::listener::{ApiListener, ApiPeer};
use crate::api::places::{ConnectionPlace, ConnectionPlaces};
use crate::api::problem::{closing_problem, default_detail};

/// Longest time for a handshake, for header fields, and for a client to take a part of an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(API_CLIENT_TIMEOUT_S);

/// How long octets of a client are still read after its last answer: closing at once could reset
/// the connection before the client has read the answer.
const LINGER: Duration = Duration::from_secs(1);

/// Accepts connections until the process ends.
pub(crate) async fn serve(listener: impl ApiListener, gate: Arc<ApiGate>) {
    let places = ConnectionPlaces::default();
    let refusals = Arc::new(Semaphore::new(API_REFUSALS_MAX));
    loop {
        let (stream, peer) = match listener.next().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the HTTP interface cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let tls = gate.tls().map(TlsAcceptor::from);
        let Some((place, ends)) = places.take(peer.address()) else {
            // Behind TLS a refusal would cost a handshake.
            if let (None, Ok(permit)) = (&tls, Arc::clone(&refusals).try_acquire_owned()) {
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(LINGER, refuse(stream)).await;
                    drop(permit);
                });
            }
            continue;
        };
        let gate = Arc::clone(&gate);
        let place = Arc::new(place);
        // Lets a connection that makes room for this one end before the next one is accepted.
        tokio::task::yield_now().await;
        tokio::spawn(async move {
            let serve = async {
                match tls {
                    None => serve_stream(stream, peer, gate, place).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) =
                            tokio::time::timeout(CLIENT_TIMEOUT, tls.accept(stream)).await
                        {
                            serve_stream(stream, peer, gate, place).await;
                        }
                    }
                }
            };
            // If the connection may keep its place, the sender is dropped: no signal comes any
            // more.
            let is_over = async {
                if ends.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let (mut serve, mut is_over) = (pin!(serve), pin!(is_over));
            poll_fn(|cx| match is_over.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => serve.as_mut().poll(cx),
            })
            .await;
        });
    }
}

async fn refuse(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let what = "Too many connections; close some, or try again later.";
    let problem = closing_problem(StatusCode::SERVICE_UNAVAILABLE, what);
    if stream.write_all(&problem).await.is_ok() && stream.shutdown().await.is_ok() {
        drain(&mut stream).await;
    }
}

/// Reads until the client closes: unread octets would turn the end of the connection into a reset,
/// by which the client loses the answer.
async fn drain<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut buffer = [0; 1024];
    while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
}

async fn serve_stream<S>(stream: S, peer: ApiPeer, gate: Arc<ApiGate>, place: Arc<ConnectionPlace>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (gate, place, peer) = (Arc::clone(&gate), Arc::clone(&place), peer.clone());
        Box::pin(async move {
            Ok::<Response<Body>, std::convert::Infallible>(
                gate.respond(request, &peer, &place).await,
            )
        })
    });
    let io = TokioIo::new(GuardedStream::new(stream, CLIENT_TIMEOUT));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CLIENT_TIMEOUT)
        .max_headers(API_HEADERS_MAX)
        .max_buf_size(API_HEADER_BYTES_MAX)
        .serve_connection(io, service);
    let ended = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    let mut stream = connection.into_parts().io.into_inner();
    if let Err(error) = &ended {
        tracing::debug!(%error, "HTTP connection");
        if error.is_timeout() {
            let status = StatusCode::REQUEST_TIMEOUT;
            let _ = stream.write_all(&closing_problem(status, default_detail(status))).await;
        }
    }
    let _ = stream.shutdown().await;
    let _ = tokio::time::timeout(LINGER, drain(&mut stream)).await;
}
