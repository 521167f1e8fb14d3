//! Traces and captures: streams that end with their packets, with their time, or with their client.

use core::net::IpAddr;

use adit_api::ApiPrincipal;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::{Extension, Json};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

use super::answer::{ApiAnswer, ApiProblem, ProblemAnswers};
use super::reads::NoParameters;
use super::schemas::TraceLine;
use super::state::ApiState;
use super::tap_body::{self, CaptureBody, TraceBody};
use crate::audit::{self, AuditActor};
use crate::cli::Topic;
use crate::snapshot::TapsDocument;
use crate::tap::{JsonLines, TapQuestion, TapStream};
use crate::tap_client::capture_writer::CaptureWriter;

/// Lines of JSON.
const JSON_LINES: &str = "application/x-ndjson";

/// Spec: draft-ietf-opsawg-pcapng §10.
const PCAPNG: &str = "application/x-pcapng";

/// Which packets to trace: those of a session, a UE or a tunnel, those that are dropped, or both. One of the first three at
/// most.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ue": "10.45.0.2", "packets": 5, "duration_ms": 10_000, "words": true }))]
pub(super) struct TraceWish {
    /// Packets of the session with this UP SEID.
    session: Option<String>,
    /// Packets to this address of a UE, and from it in tunnels. For an IPv6 address the /64 counts.
    #[schema(value_type = Option<String>)]
    ue: Option<IpAddr>,
    /// Packets in the local tunnel with this TEID, also if no session owns it.
    teid: Option<String>,
    /// Packets that are dropped for this reason (`/v1/drops` has all), or for "any".
    drop: Option<String>,
    /// Packets at most.
    #[schema(minimum = 1, maximum = 10_000, default = 20)]
    packets: Option<u64>,
    /// How long at most.
    #[schema(minimum = 1, maximum = 86_400_000, default = 10_000)]
    duration_ms: Option<u64>,
    /// Each packet also in plain words, as `adit trace` prints them.
    #[serde(default)]
    words: bool,
}

/// Which packets to capture. One of `session`, `ue`, `teid`, `interface` and `all` at most.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ue": "10.45.0.2", "packets": 100, "duration_ms": 10_000 }))]
pub(super) struct CaptureWish {
    /// Packets of the session with this UP SEID.
    session: Option<String>,
    /// Packets to this address of a UE, and from it in tunnels. For an IPv6 address the /64 counts.
    #[schema(value_type = Option<String>)]
    ue: Option<IpAddr>,
    /// Packets in the local tunnel with this TEID, also if no session owns it.
    teid: Option<String>,
    /// Packets that arrive on this interface or leave through it.
    interface: Option<String>,
    /// All packets; best with `one_of`.
    #[serde(default)]
    all: bool,
    /// Packets that are dropped for this reason (`/v1/drops` has all), or for "any".
    drop: Option<String>,
    /// One of so many packets.
    #[schema(minimum = 1)]
    one_of: Option<u32>,
    /// Octets of each frame, with users' data. Without it, frames end with their headers.
    #[schema(minimum = 1, maximum = 9216)]
    snap_bytes: Option<u16>,
    /// Packets at most.
    #[schema(minimum = 1)]
    packets: Option<u64>,
    /// How long at most.
    #[schema(minimum = 1, maximum = 86_400_000, default = 60_000)]
    duration_ms: Option<u64>,
}

/// How long a capture lasts unless the client says otherwise. Unit: milliseconds.
const CAPTURE_MS_DEFAULT: u64 = 60_000;

/// Traces and captures that run, of the admin socket and of this interface.
#[utoipa::path(get, path = "/v1/taps", tag = "packets",
    responses((status = 200, body = TapsDocument), ProblemAnswers))]
pub(super) async fn taps(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Taps).await
}

/// Follows single packets through the stages. The answer has a line of JSON about the trace, one for each packet at once, and
/// one about the end; it ends early when the client closes the connection.
#[utoipa::path(post, path = "/v1/traces", tag = "acts", request_body = TraceWish,
    responses((status = 200, body = TraceLine, content_type = "application/x-ndjson"), ProblemAnswers))]
pub(super) async fn trace(
    _: Query<NoParameters>,
    Extension(principal): Extension<ApiPrincipal>,
    State(api): State<ApiState>,
    Json(wish): Json<TraceWish>,
) -> Result<Response<Body>, ApiProblem> {
    let TraceWish { session, ue, teid, drop, packets, duration_ms, words } = wish;
    let question = TapQuestion {
        session,
        ue,
        teid,
        drop,
        packets,
        duration_ms,
        stages: true,
        ..TapQuestion::default()
    };
    let (tap, place) = start(&api, principal, question).await?;
    let (writer, body) = tap_body::body();
    write(place, move || {
        let lines = JsonLines::new(writer, &tap)?;
        tap.serve(&mut TraceBody { lines, has_words: words })
    });
    Ok(response(body, JSON_LINES))
}

/// Writes packets with what became of them as pcapng, while they come. It ends early when the client closes the connection.
#[utoipa::path(post, path = "/v1/captures", tag = "acts", request_body = CaptureWish,
    responses((status = 200, body = String, content_type = "application/x-pcapng"), ProblemAnswers))]
pub(super) async fn capture(
    _: Query<NoParameters>,
    Extension(principal): Extension<ApiPrincipal>,
    State(api): State<ApiState>,
    Json(wish): Json<CaptureWish>,
) -> Result<Response<Body>, ApiProblem> {
    let only = wish.interface.clone();
    let (tap, place) = start(&api, principal, wish.into_question()?).await?;
    let (writer, body) = tap_body::body();
    write(place, move || {
        let file = CaptureWriter::new(writer, tap.ports(), only.as_deref())?;
        tap.serve(&mut CaptureBody(file))
    });
    let mut response = response(body, PCAPNG);
    let name = HeaderValue::from_static("attachment; filename=\"adit.pcapng\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    Ok(response)
}

impl CaptureWish {
    fn into_question(self) -> Result<TapQuestion, ApiProblem> {
        let Self { session, ue, teid, interface, all, drop, .. } = &self;
        let keys = [session.is_some(), ue.is_some(), teid.is_some(), interface.is_some(), *all];
        let keys = keys.into_iter().filter(|is_given| *is_given).count();
        if keys > 1 || (keys == 0 && drop.is_none()) {
            let what = "a capture is of a session, a UE, a TEID, an interface or all packets, and can have a drop \
                        reason: say which packets to capture";
            return Err(ApiProblem::new(StatusCode::BAD_REQUEST, what));
        }
        Ok(TapQuestion {
            session: self.session,
            ue: self.ue,
            teid: self.teid,
            interface: self.interface,
            drop: self.drop,
            one_of: self.one_of,
            stages: false,
            snap_bytes: self.snap_bytes,
            packets: self.packets,
            duration_ms: self.duration_ms.or(Some(CAPTURE_MS_DEFAULT)),
        })
    }
}

/// Starts a tap, and logs who did.
async fn start(
    api: &ApiState,
    principal: ApiPrincipal,
    question: TapQuestion,
) -> Result<(TapStream, OwnedSemaphorePermit), ApiProblem> {
    let checked = question.check();
    let checked = checked.map_err(|what| ApiProblem::new(StatusCode::BAD_REQUEST, what))?;
    let started = match api.tap_places().try_acquire_owned() {
        Ok(place) => api.start_tap(question).await.map(|tap| (tap, place)),
        Err(_) => {
            let what =
                "too many traces and captures over HTTP; end one of them (/v1/taps), or wait";
            Err(ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, what))
        }
    };
    let outcome = started.as_ref().map(drop).map_err(|problem| problem.detail.as_str());
    let actor = AuditActor { who: principal.name, role: principal.role.name() };
    audit::record(&actor, checked.kind(), Some(&checked.subject()), outcome);
    started
}

/// Writes a body on a thread of its own: the runtime has one thread, which must not wait for packets.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(wish: serde_json::Value) -> Result<TapQuestion, ApiProblem> {
        serde_json::from_value::<CaptureWish>(wish).unwrap().into_question()
    }

    #[test]
    fn capture_says_which_packets_and_is_bounded_in_time() {
        let taken = question(json!({ "interface": "n6", "snap_bytes": 100 })).unwrap();
        assert_eq!((taken.interface.as_deref(), taken.snap_bytes), (Some("n6"), Some(100)));
        assert_eq!(taken.duration_ms, Some(CAPTURE_MS_DEFAULT));
        assert!(
            question(json!({ "drop": "any" })).is_ok() && question(json!({ "all": true })).is_ok()
        );
        for wrong in [json!({}), json!({ "packets": 1 }), json!({ "all": true, "teid": "1" })] {
            assert!(question(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
