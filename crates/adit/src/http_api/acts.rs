//! HTTP handlers of acts: requests by which operators change this adit. Each act is logged.

use adit_operate::api::ApiPrincipal;
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::answer::{ApiAnswer, ProblemAnswers};
use super::reads::NoParameters;
use super::schemas::{ActOutcome, ReloadProblem};
use super::state::ApiState;
use crate::admin::AdminAct;
use crate::admin::reload::ReloadDocument;

/// Whether new sessions are refused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DrainWish {
    /// True: refuse new sessions with Cause 74, and report full load.
    on: bool,
}

/// Whether a worker is drained of its sessions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkerDrainWish {
    /// True: its sessions go to the other workers. False: it gets sessions again.
    on: bool,
}

/// The new filter of the log.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogWish {
    /// A level (error, warn, info, debug), or levels by room such as "info,adit_n4=debug".
    filter: String,
}

/// Query parameters of the release of an association.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReleaseParameters {
    /// True: end it and all of its sessions at once, for an SMF that does not answer or comply.
    /// Their usage since the last reports is lost, and the SMF learns of it by Cause 72 at its next
    /// request.
    #[serde(default)]
    force: bool,
}

/// Defines a handler for each act: its name, the extractors of the request's head and body, and the
/// act to carry out.
macro_rules! acts {
    ($($(#[$meta:meta])* $name:ident [$($head:tt)+] [$($body:tt)*] => $act:expr;)+) => {$(
        $(#[$meta])*
        pub(super) async fn $name(
            $($head)+,
            Extension(principal): Extension<ApiPrincipal>,
            State(api): State<ApiState>,
            $($body)*
        ) -> ApiAnswer {
            api.act(&principal.into(), $act).await
        }
    )+};
}

acts! {
    /// Ends a session. Its SMF gets the last usage if it takes such reports.
    #[utoipa::path(delete, path = "/v1/sessions/{seid}", tag = "acts",
        params(("seid" = String, Path, description = "UP SEID, such as 0x0000000100000001")),
        responses((status = 200, body = ActOutcome), ProblemAnswers))]
    end_session [Path(seid): Path<String>, _: Query<NoParameters>] [] => AdminAct::EndSession(seid);

    /// Removes the records of a session that is set aside. Its SMF gets the last usage if it can be
    /// read and it takes such reports.
    #[utoipa::path(delete, path = "/v1/store/set_aside/{seid}", tag = "acts",
        params(("seid" = String, Path, description = "UP SEID, as in /v1/store, or \"all\"")),
        responses((status = 200, body = ActOutcome), ProblemAnswers))]
    discard_session [Path(seid): Path<String>, _: Query<NoParameters>] [] => AdminAct::DiscardSession(seid);

    /// Ends a trace or a capture.
    #[utoipa::path(delete, path = "/v1/taps/{tap}", tag = "acts",
        params(("tap" = String, Path, description = "Its number in /v1/taps")),
        responses((status = 200, body = ActOutcome), ProblemAnswers))]
    end_tap [Path(tap): Path<String>, _: Query<NoParameters>] [] => AdminAct::EndTap(tap);

    /// Requests an SMF to release its association, which goes on until the SMF does; or ends it
    /// without the SMF.
    #[utoipa::path(delete, path = "/v1/associations/{node_id}", tag = "acts",
        params(("node_id" = String, Path, description = "Node ID or address of the SMF"), ReleaseParameters),
        responses((status = 200, body = ActOutcome), ProblemAnswers))]
    release_association
        [Path(node_id): Path<String>, Query(ReleaseParameters { force }): Query<ReleaseParameters>] []
        => match force {
        true => AdminAct::EndAssociation(node_id),
        false => AdminAct::ReleaseAssociation(node_id),
    };

    /// Refuses new sessions, or accepts them again.
    #[utoipa::path(put, path = "/v1/drain", tag = "acts", request_body = DrainWish,
        responses((status = 200, body = ActOutcome), ProblemAnswers))]
    drain [_: Query<NoParameters>] [Json(DrainWish { on }): Json<DrainWish>] => AdminAct::Drain(on);

    /// Gives the sessions of a worker to the others while packets pass, or gives it sessions again.
    #[utoipa::path(put, path = "/v1/workers/{worker}/drain", tag = "acts", request_body = WorkerDrainWish,
        params(("worker" = String, Path, description = "Its number in /v1/workers")),
        responses((status = 200, body = ActOutcome), ProblemAnswers))]
    drain_worker
        [Path(worker): Path<String>, _: Query<NoParameters>]
        [Json(WorkerDrainWish { on }): Json<WorkerDrainWish>]
        => match on {
        true => AdminAct::DrainWorker(worker),
        false => AdminAct::ResumeWorker(worker),
    };

    /// Changes the filter of the log.
    #[utoipa::path(put, path = "/v1/log", tag = "acts", request_body = LogWish,
        responses((status = 200, body = ActOutcome), ProblemAnswers))]
    log [_: Query<NoParameters>] [Json(LogWish { filter }): Json<LogWish>] => AdminAct::SetLog(filter);

    /// Makes this standby the active adit: it requests the lease from the active one.
    #[utoipa::path(post, path = "/v1/takeover", tag = "acts",
        responses((status = 200, body = ActOutcome), ProblemAnswers))]
    take_over [_: Query<NoParameters>] [] => AdminAct::TakeOver;

    /// Reads the configuration file again, and makes the changes that a running adit can make: all
    /// of them, or none if one of them needs a restart.
    #[utoipa::path(post, path = "/v1/reload", tag = "acts",
        responses((status = 200, body = ReloadDocument), ProblemAnswers, (status = 409, description = "Nothing was changed.",
            body = ReloadProblem, content_type = "application/problem+json")))]
    reload [_: Query<NoParameters>] [] => AdminAct::Reload;
}
