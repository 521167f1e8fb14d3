//! Probes: is this process alive, and is it ready?

use adit_operate::api::problem_with;
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::answer::ApiProblem;
use super::reads::NoParameters;
use super::schemas::UnreadyProblem;
use super::state::ApiState;
use crate::cli::Topic;
use crate::snapshot::HealthDocument;

/// A process that is alive.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(super) struct AliveDocument {
    /// "alive".
    status: &'static str,
}

/// Is the process alive, and does its control thread iterate?
#[utoipa::path(get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, body = AliveDocument), (status = 503, description = "The control thread does not turn.",
        body = adit_operate::api::ProblemDocument, content_type = "application/problem+json")))]
pub(super) async fn healthz(
    _: Query<NoParameters>,
    State(api): State<ApiState>,
) -> Result<Json<AliveDocument>, ApiProblem> {
    api.members(Topic::Health).await.map_err(|_| {
        ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, "the control thread does not turn")
    })?;
    Ok(Json(AliveDocument { status: "alive" }))
}

/// Does this adit serve sessions: do workers step, are ports up, is it active and done with its
/// restoration?
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = 200, body = HealthDocument), (status = 503, description = "It does not; the reasons say why.",
        body = UnreadyProblem, content_type = "application/problem+json")))]
pub(super) async fn readyz(_: Query<NoParameters>, State(api): State<ApiState>) -> Response<Body> {
    let stuck =
        json!([{ "reason": "control_stands_still", "detail": "the control thread does not turn" }]);
    let health = match api.members(Topic::Health).await {
        Ok(health) => health,
        Err(_) => Map::from_iter([
            ("ready".to_owned(), false.into()),
            ("reasons".to_owned(), stuck),
            ("warnings".to_owned(), json!([])),
            ("draining".to_owned(), false.into()),
        ]),
    };
    if health.get("ready") == Some(&Value::Bool(true)) {
        return Json(health).into_response();
    }
    unready(&health)
}

/// Returns a problem document (503) with the reasons in `health`.
fn unready(health: &Map<String, Value>) -> Response<Body> {
    let reasons = health.get("reasons").cloned().unwrap_or_default();
    let words = |reason: &Value| reason["detail"].as_str().unwrap_or_default().to_owned();
    let detail: Vec<String> = reasons.as_array().into_iter().flatten().map(words).collect();
    let further = [("ready", Value::Bool(false)), ("reasons", reasons)];
    let further = further.map(|(member, value)| (member.to_owned(), value));
    problem_with(StatusCode::SERVICE_UNAVAILABLE, &detail.join("; "), further.into_iter().collect())
}
