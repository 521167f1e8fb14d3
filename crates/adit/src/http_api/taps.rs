//! HTTP handlers of traces and captures: streams that end after a number of packets, after a time,
//! or with their client's connection.

use adit_operate::api::ApiPrincipal;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::{Extension, Json};
use tokio::sync::OwnedSemaphorePermit;

use super::answer::{ApiProblem, ProblemAnswers};
use super::reads::NoParameters;
use super::state::ApiState;
use super::tap_body::{self, CaptureBody};
use crate::client::tap_client::capture_writer::CaptureWriter;
use crate::log::audit;
use crate::tap::packet::TraceLine;
use crate::tap::{CaptureWish, JSON_LINES, JsonLines, TapQuestion, TapStream, TraceWish};

/// Spec: draft-ietf-opsawg-pcapng §10.
const PCAPNG: &str = "application/x-pcapng";

/// Follows single packets through the stages. The answer has a line of JSON about the trace, one
/// for each packet at once, and one about the end; it ends early when the client closes the
/// connection.
#[utoipa::path(post, path = "/v1/traces", tag = "acts", request_body = TraceWish,
    responses((status = 200, body = TraceLine, content_type = "application/x-ndjson"), ProblemAnswers))]
pub(super) async fn trace(
    _: Query<NoParameters>,
    Extension(principal): Extension<ApiPrincipal>,
    State(api): State<ApiState>,
    Json(wish): Json<TraceWish>,
) -> Result<Response<Body>, ApiProblem> {
    let has_words = wish.words;
    let (tap, place) = start(&api, principal, wish.check()).await?;
    let (writer, body) = tap_body::body();
    write(place, move || {
        let mut lines = JsonLines::new(writer, &tap, has_words)?;
        tap.serve(&mut lines)
    });
    Ok(response(body, JSON_LINES))
}

/// Writes packets and their outcomes as pcapng while they pass, or, if the client accepts them, as
/// a trace's lines without stages. It ends early when the client closes the connection.
#[utoipa::path(post, path = "/v1/captures", tag = "acts", request_body = CaptureWish,
    responses((status = 200, body = String, content_type = "application/x-pcapng"), ProblemAnswers))]
pub(super) async fn capture(
    _: Query<NoParameters>,
    Extension(principal): Extension<ApiPrincipal>,
    headers: HeaderMap,
    State(api): State<ApiState>,
    Json(wish): Json<CaptureWish>,
) -> Result<Response<Body>, ApiProblem> {
    let only = wish.interface.clone();
    let (tap, place) = start(&api, principal, wish.check()).await?;
    let (writer, body) = tap_body::body();
    if headers.get(ACCEPT).is_some_and(|kind| kind == JSON_LINES) {
        write(place, move || {
            let mut lines = JsonLines::new(writer, &tap, false)?;
            tap.serve(&mut lines)
        });
        return Ok(response(body, JSON_LINES));
    }
    write(place, move || {
        let file = CaptureWriter::new(writer, tap.ports(), only.as_deref())?;
        tap.serve(&mut CaptureBody(file))
    });
    let mut response = response(body, PCAPNG);
    let name = HeaderValue::from_static("attachment; filename=\"adit.pcapng\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    Ok(response)
}

/// Starts a tap, and logs who started it.
async fn start(
    api: &ApiState,
    principal: ApiPrincipal,
    question: Result<TapQuestion, String>,
) -> Result<(TapStream, OwnedSemaphorePermit), ApiProblem> {
    let question = question.map_err(|what| ApiProblem::new(StatusCode::BAD_REQUEST, what))?;
    let (kind, subject) = (question.kind(), question.subject());
    let started = match api.tap_places().try_acquire_owned() {
        Ok(place) => api.start_tap(question).await.map(|tap| (tap, place)),
        Err(_) => {
            let what =
                "too many traces and captures over HTTP; end one of them (/v1/taps), or wait";
            Err(ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, what))
        }
    };
    let outcome = started.as_ref().map(drop).map_err(|problem| problem.detail.as_str());
    audit::record(&principal.into(), kind, Some(&subject), outcome);
    started
}

/// Runs `body`, which writes a response body, on a thread of its own: the runtime has one thread,
/// which must not wait for packets.
fn write(place: OwnedSemaphorePermit, body: impl FnOnce() -> anyhow::Result<()> + Send + 'static) {
    tokio::task::spawn_blocking(move || {
        if let Err(error) = body() {
            tracing::debug!(%error, "the client of a trace or a capture is gone");
        }
        drop(place);
    });
}

fn response(body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
