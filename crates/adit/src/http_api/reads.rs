//! Reads of operators: the documents of `adit show`.

use adit_types::limits::API_ROWS_MAX;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{ApiAnswer, ApiProblem, ProblemAnswers};
use super::cursor;
use super::schemas::{NeighborsPage, PathsPage, QosPage, SessionsPage};
use super::state::{ApiState, WantedRows};
use crate::admin::{AdminQuestion, SessionFilter, SessionFilterText};
use crate::cli::Topic;
use crate::snapshot::{
    ApplicationsDocument, AssociationsDocument, CounterGroups, DropsDocument, NodeDocument,
    OffloadDocument, PortsDocument, RoutesDocument, StoreDocument, WorkersDocument,
};

/// Rows of a page unless the client says otherwise.
const LIMIT_DEFAULT: usize = 100;

/// A path without parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParameters {}

/// Which page of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParameters {
    /// Rows at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The member `next` of the page before.
    cursor: Option<String>,
}

/// Which sessions, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionParameters {
    /// Only sessions with this UE address.
    ue: Option<String>,
    /// Only the session with this UP SEID.
    seid: Option<String>,
    /// Only sessions with this TEID, of adit or of a peer.
    teid: Option<String>,
    /// Only sessions of this data network name.
    dnn: Option<String>,
    /// Only sessions of this slice: SST, or SST-SD such as 1-00a1b2.
    slice: Option<String>,
    /// Rows at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The member `next` of the page before.
    cursor: Option<String>,
}

/// The sessions whose rates are read, and the page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct QosParameters {
    /// Only the session with this UP SEID or UE address.
    session: Option<String>,
    /// Sessions that are looked at, at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The member `next` of the page before.
    cursor: Option<String>,
}

fn wanted(limit: Option<usize>, text: Option<&str>) -> Result<WantedRows, ApiProblem> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=API_ROWS_MAX).contains(&limit) {
        let what = format!("limit takes a whole number from 1 to {API_ROWS_MAX}");
        return Err(ApiProblem::new(StatusCode::BAD_REQUEST, what));
    }
    Ok(WantedRows { limit, from: cursor::parse(text)? })
}

/// Identity and load of this adit.
#[utoipa::path(get, path = "/v1/node", tag = "node",
    responses((status = 200, body = NodeDocument), ProblemAnswers))]
pub(super) async fn node(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Node).await
}

/// PFCP associations with control plane functions.
#[utoipa::path(get, path = "/v1/associations", tag = "sessions",
    responses((status = 200, body = AssociationsDocument), ProblemAnswers))]
pub(super) async fn associations(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Associations).await
}

/// PFCP sessions with their rules and traffic, a page at a time.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(SessionParameters),
    responses((status = 200, body = SessionsPage), ProblemAnswers))]
pub(super) async fn sessions(
    Query(parameters): Query<SessionParameters>,
    State(api): State<ApiState>,
) -> ApiAnswer {
    let SessionParameters { ue, seid, teid, dnn, slice, limit, cursor } = parameters;
    let filter = SessionFilterText { ue, seid, teid, dnn, slice };
    SessionFilter::parse(&filter).map_err(|what| ApiProblem::new(StatusCode::BAD_REQUEST, what))?;
    let question = AdminQuestion { filter, ..AdminQuestion::about(Topic::Sessions) };
    api.rows(question, &["sessions"], wanted(limit, cursor.as_deref())?).await
}

/// Rates of QERs: limits, and packets passed, dropped and queued.
#[utoipa::path(get, path = "/v1/qos", tag = "sessions", params(QosParameters),
    responses((status = 200, body = QosPage), ProblemAnswers))]
pub(super) async fn qos(
    Query(QosParameters { session, limit, cursor }): Query<QosParameters>,
    State(api): State<ApiState>,
) -> ApiAnswer {
    let question = AdminQuestion { session, ..AdminQuestion::about(Topic::Qos) };
    api.rows(question, &["rates", "packet_rates"], wanted(limit, cursor.as_deref())?).await
}

/// Packet, drop, punt and PFCP message counters.
#[utoipa::path(get, path = "/v1/counters", tag = "packets",
    responses((status = 200, body = CounterGroups), ProblemAnswers))]
pub(super) async fn counters(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Counters).await
}

/// Packets dropped, by reason, and what each reason means.
#[utoipa::path(get, path = "/v1/drops", tag = "packets",
    responses((status = 200, body = DropsDocument), ProblemAnswers))]
pub(super) async fn drops(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Drops).await
}

/// Ports, their links and counters.
#[utoipa::path(get, path = "/v1/ports", tag = "packets",
    responses((status = 200, body = PortsDocument), ProblemAnswers))]
pub(super) async fn ports(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Ports).await
}

/// Threads of the packet path: roles, cores, load, rings.
#[utoipa::path(get, path = "/v1/workers", tag = "packets",
    responses((status = 200, body = WorkersDocument), ProblemAnswers))]
pub(super) async fn workers(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Workers).await
}

/// Offloads that forward packets in front of the workers.
#[utoipa::path(get, path = "/v1/offload", tag = "packets",
    responses((status = 200, body = OffloadDocument), ProblemAnswers))]
pub(super) async fn offload(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Offload).await
}

/// Link-layer neighbors, a page at a time.
#[utoipa::path(get, path = "/v1/neighbors", tag = "network", params(PageParameters),
    responses((status = 200, body = NeighborsPage), ProblemAnswers))]
pub(super) async fn neighbors(
    Query(PageParameters { limit, cursor }): Query<PageParameters>,
    State(api): State<ApiState>,
) -> ApiAnswer {
    let question = AdminQuestion::about(Topic::Neighbours);
    api.rows(question, &["neighbours"], wanted(limit, cursor.as_deref())?).await
}

/// GTP-U paths to the peers that sessions send to, a page at a time.
#[utoipa::path(get, path = "/v1/paths", tag = "network", params(PageParameters),
    responses((status = 200, body = PathsPage), ProblemAnswers))]
pub(super) async fn paths(
    Query(PageParameters { limit, cursor }): Query<PageParameters>,
    State(api): State<ApiState>,
) -> ApiAnswer {
    let question = AdminQuestion::about(Topic::Paths);
    api.rows(question, &["paths"], wanted(limit, cursor.as_deref())?).await
}

/// Logical interfaces, routes, and pools of UE addresses.
#[utoipa::path(get, path = "/v1/routes", tag = "network",
    responses((status = 200, body = RoutesDocument), ProblemAnswers))]
pub(super) async fn routes(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Routes).await
}

/// Applications, configured and from PFDs.
#[utoipa::path(get, path = "/v1/applications", tag = "sessions",
    responses((status = 200, body = ApplicationsDocument), ProblemAnswers))]
pub(super) async fn applications(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Applications).await
}

/// The store that keeps sessions.
#[utoipa::path(get, path = "/v1/store", tag = "node",
    responses((status = 200, body = StoreDocument), ProblemAnswers))]
pub(super) async fn store(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
    api.document(Topic::Store).await
}
