//! HTTP handlers that return the documents of `adit show`.

use adit_types::limits::API_ROWS_MAX;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{ApiAnswer, ApiProblem, ProblemAnswers};
use super::cursor;
use super::state::{ApiState, RequestedRows};
use crate::admin::{AdminQuestion, SessionFilter, SessionFilterText};
use crate::cli::Topic;
use crate::snapshot::{
    ApplicationsDocument, AssociationsDocument, CounterGroups, DropsDocument, HealthDocument,
    KernelDocument, NeighborsPage, NodeDocument, NrfDocument, OffloadDocument, PathsPage,
    PortsDocument, QosPage, RoutesDocument, SessionsPage, StoreDocument, TapsDocument, TrafficPage,
    WorkersDocument,
};

/// Rows of a page if the request has no `limit`.
const PAGE_ROWS_DEFAULT: usize = 100;

/// The query of a path that takes no parameters: any parameter is refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParameters {}

/// Query parameters that select a page of a list.
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

/// Query parameters that filter sessions and select a page of them.
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

/// Query parameters that select sessions, of which the rates are read, and a page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct QosParameters {
    /// Only the session with this UP SEID or UE address.
    session: Option<String>,
    /// Sessions whose rates are read, at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// The member `next` of the page before.
    cursor: Option<String>,
}

fn parse_page(limit: Option<usize>, text: Option<&str>) -> Result<RequestedRows, ApiProblem> {
    let limit = limit.unwrap_or(PAGE_ROWS_DEFAULT);
    if !(1..=API_ROWS_MAX).contains(&limit) {
        let what = format!("limit takes a whole number from 1 to {API_ROWS_MAX}");
        return Err(ApiProblem::new(StatusCode::BAD_REQUEST, what));
    }
    Ok(RequestedRows { limit, from: cursor::parse(text)? })
}

/// Defines a handler for each document that fits one page: its name, path, tag, topic and type.
macro_rules! documents {
    ($($(#[$doc:meta])* $name:ident: $path:literal, $tag:literal, $topic:ident, $document:ident;)+) => {$(
        $(#[$doc])*
        #[utoipa::path(get, path = $path, tag = $tag, responses((status = 200, body = $document), ProblemAnswers))]
        pub(super) async fn $name(_: Query<NoParameters>, State(api): State<ApiState>) -> ApiAnswer {
            api.members(Topic::$topic).await.map(Json)
        }
    )+

        /// Returns the routes of all these handlers.
        pub(super) fn documents() -> OpenApiRouter<ApiState> {
            OpenApiRouter::new()$(.routes(routes!($name)))+
        }
    };
}

/// Defines a handler for each list that comes in pages: its name, path, tag, topic, list and type.
macro_rules! pages {
    ($($(#[$doc:meta])* $name:ident: $path:literal, $tag:literal, $topic:ident, $list:literal, $page:ident;)+) => {$(
        $(#[$doc])*
        #[utoipa::path(get, path = $path, tag = $tag, params(PageParameters),
            responses((status = 200, body = $page), ProblemAnswers))]
        pub(super) async fn $name(
            Query(PageParameters { limit, cursor }): Query<PageParameters>,
            State(api): State<ApiState>,
        ) -> ApiAnswer {
            let question = AdminQuestion::about(Topic::$topic);
            api.rows(question, &[$list], parse_page(limit, cursor.as_deref())?).await
        }
    )+

        /// Returns the routes of all these handlers.
        pub(super) fn pages() -> OpenApiRouter<ApiState> {
            OpenApiRouter::new()$(.routes(routes!($name)))+
        }
    };
}

documents! {
    /// Identity and load of this adit.
    node: "/v1/node", "node", Node, NodeDocument;
    /// PFCP associations with control plane functions.
    associations: "/v1/associations", "sessions", Associations, AssociationsDocument;
    /// Packet, drop, punt and PFCP message counters.
    counters: "/v1/counters", "packets", Counters, CounterGroups;
    /// Packets dropped, by reason, and what each reason means.
    drops: "/v1/drops", "packets", Drops, DropsDocument;
    /// Ports, their links and counters.
    ports: "/v1/ports", "packets", Ports, PortsDocument;
    /// Threads of the packet path: roles, cores, load, rings.
    workers: "/v1/workers", "packets", Workers, WorkersDocument;
    /// Offloads that forward packets in front of the workers.
    offload: "/v1/offload", "packets", Offload, OffloadDocument;
    /// Logical interfaces, routes, and pools of UE addresses.
    routes: "/v1/routes", "network", Routes, RoutesDocument;
    /// Kernel twins of interfaces: frames to and from the kernel, by class.
    kernel: "/v1/kernel", "network", Kernel, KernelDocument;
    /// Applications, configured and from PFDs.
    applications: "/v1/applications", "sessions", Applications, ApplicationsDocument;
    /// The store that keeps sessions.
    store: "/v1/store", "node", Store, StoreDocument;
    /// The registration at an NRF.
    nrf: "/v1/nrf", "node", Nrf, NrfDocument;
    /// Whether this adit does its work, and why not. Unlike /readyz, it answers 200 in any case.
    health: "/v1/health", "node", Health, HealthDocument;
    /// Traces and captures that run, of the admin socket and of this interface.
    taps: "/v1/taps", "packets", Taps, TapsDocument;
}

pages! {
    /// Traffic of PFCP sessions without their rules, a page at a time.
    traffic: "/v1/traffic", "sessions", Traffic, "traffic", TrafficPage;
    /// Link-layer neighbors, a page at a time.
    neighbors: "/v1/neighbors", "network", Neighbours, "neighbours", NeighborsPage;
    /// GTP-U paths to the peers that sessions send to, a page at a time.
    paths: "/v1/paths", "network", Paths, "paths", PathsPage;
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
    api.rows(question, &["sessions"], parse_page(limit, cursor.as_deref())?).await
}

/// Rates of QERs: limits, and packets passed, dropped and queued.
#[utoipa::path(get, path = "/v1/qos", tag = "sessions", params(QosParameters),
    responses((status = 200, body = QosPage), ProblemAnswers))]
pub(super) async fn qos(
    Query(QosParameters { session, limit, cursor }): Query<QosParameters>,
    State(api): State<ApiState>,
) -> ApiAnswer {
    let question = AdminQuestion { session, ..AdminQuestion::about(Topic::Qos) };
    api.rows(question, &["rates", "packet_rates"], parse_page(limit, cursor.as_deref())?).await
}
