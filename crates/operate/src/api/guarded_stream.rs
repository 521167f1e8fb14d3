//! A stream that does not wait forever for a client that reads nothing, and that replaces the
//! answers of hyper itself (to octets that are no HTTP) by problem documents, which all other
//! answers have.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::api::problem::{OWN_RESPONSE_FIELD, closing_problem, default_detail};

/// A stream with a limit for each write.
#[derive(Debug)]
pub(crate) struct GuardedStream<S> {
    stream: S,
    /// How long a write may wait for the client.
    limit: Duration,
    stalled: Pin<Box<Sleep>>,
    is_stalled: bool,
    /// The response in place of an answer of hyper, and how many of its octets are sent.
    problem: Vec<u8>,
    sent: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> GuardedStream<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        let stalled = Box::pin(tokio::time::sleep(limit));
        Self { stream, limit, stalled, is_stalled: false, problem: Vec::new(), sent: 0 }
    }

    /// Passes on the outcome of a write. Fails once writes have been pending for `limit`.
    fn guard<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.is_stalled = false;
            return outcome;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.stalled.as_mut().reset(Instant::now() + self.limit);
        }
        ready!(self.stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Sends the rest of a problem document.
    fn send_problem(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.problem.len() {
            let rest = self.problem.get(self.sent..).unwrap_or_default();
            let written = Pin::new(&mut self.stream).poll_write(cx, rest);
            match ready!(self.guard(cx, written))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the status if `octets` are an error response of hyper itself: one that lacks
/// [`OWN_RESPONSE_FIELD`].
fn status_of_hyper_response(octets: &[u8]) -> Option<StatusCode> {
    let code = octets.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let is_ours =
        octets.windows(OWN_RESPONSE_FIELD.len()).any(|part| part == OWN_RESPONSE_FIELD.as_bytes());
    let status = StatusCode::from_bytes(code).ok().filter(StatusCode::is_client_error);
    status.filter(|_| !is_ours)
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(status) = status_of_hyper_response(octets) {
            self.problem = closing_problem(status, default_detail(status));
            self.sent = 0;
            // The rest follows when the connection is flushed or shut down.
            let _ = self.send_problem(cx)?;
            return Poll::Ready(Ok(octets.len()));
        }
        ready!(self.send_problem(cx))?;
        let written = Pin::new(&mut self.stream).poll_write(cx, octets);
        self.guard(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.send_problem(cx))?;
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.guard(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.send_problem(cx))?;
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.guard(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_without_the_mark_are_those_of_hyper() {
        let own = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(
            status_of_hyper_response(own),
            Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
        );
        let ours = format!("HTTP/1.1 404 Not Found\r\n{OWN_RESPONSE_FIELD}: nosniff\r\n\r\n");
        assert_eq!(status_of_hyper_response(ours.as_bytes()), None);
        assert_eq!(status_of_hyper_response(b"HTTP/1.1 200 OK\r\n\r\n"), None);
        assert_eq!(status_of_hyper_response(b"{}"), None);
        assert_eq!(status_of_hyper_response(b"HTTP/1.1 "), None);
    }
}
