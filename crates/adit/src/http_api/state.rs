//! State that HTTP handlers share, and their requests to the control thread.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use adit_types::limits::{API_LIVE_CLIENTS_MAX, API_PAGES_MAX, API_WAITING_REQUESTS_MAX};
use axum::Json;
use axum::body::Bytes;
use axum::http::StatusCode;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, oneshot, watch};

use super::answer::{ApiAnswer, ApiProblem};
use super::cursor;
use crate::admin::{
    AdminAct, AdminAnswer, AdminCommand, AdminQuery, AdminQuestion, AnswerPage, AnswerSink,
    PageCursor,
};
use crate::cli::Topic;
use crate::log::audit::{self, AuditActor};
use crate::tap::{TapQuestion, TapStream};

/// Longest wait for the control thread.
const CONTROL_THREAD_TIMEOUT: Duration = Duration::from_secs(5);

/// State that handlers share.
#[derive(Debug, Clone)]
pub(super) struct ApiState(Arc<ApiParts>);

#[derive(Debug)]
struct ApiParts {
    queries: Sender<AdminQuery>,
    /// Permits for commands that wait for the control thread.
    asking: Semaphore,
    /// The last event of the live stream.
    live: watch::Sender<Bytes>,
    live_places: Arc<Semaphore>,
    tap_places: Arc<Semaphore>,
}

/// Rows of a list that a client requests: how many at most, and where they begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestedRows {
    pub limit: usize,
    pub from: PageCursor,
}

impl ApiState {
    pub(super) fn new(queries: Sender<AdminQuery>, taps_max: usize) -> Self {
        Self(Arc::new(ApiParts {
            queries,
            asking: Semaphore::new(API_WAITING_REQUESTS_MAX),
            live: watch::Sender::new(Bytes::new()),
            live_places: Arc::new(Semaphore::new(API_LIVE_CLIENTS_MAX)),
            tap_places: Arc::new(Semaphore::new(taps_max)),
        }))
    }

    /// Returns the channel that holds the latest event of the live stream.
    pub(super) fn live(&self) -> &watch::Sender<Bytes> {
        &self.0.live
    }

    /// Returns the permits for clients of the live stream.
    pub(super) fn live_places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.live_places)
    }

    /// Returns the permits for traces and captures.
    pub(super) fn tap_places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.tap_places)
    }

    /// Requests one page from the control thread.
    pub(super) async fn request_page(
        &self,
        command: AdminCommand,
        cursor: PageCursor,
    ) -> Result<AnswerPage, ApiProblem> {
        match self.request(command, cursor).await? {
            AdminAnswer::Page(page) => Ok(page),
            _ => Err(ApiProblem::unavailable()),
        }
    }

    /// Starts a trace or a capture.
    pub(super) async fn start_tap(&self, question: TapQuestion) -> Result<TapStream, ApiProblem> {
        match self.request(AdminCommand::Tap(question), PageCursor::default()).await? {
            AdminAnswer::Stream(tap) => Ok(tap),
            _ => Err(ApiProblem::unavailable()),
        }
    }

    /// Sends a command to the control thread and returns its answer. Refusals become problems.
    async fn request(
        &self,
        command: AdminCommand,
        cursor: PageCursor,
    ) -> Result<AdminAnswer, ApiProblem> {
        let place = self.0.asking.acquire().await;
        let _place = place.map_err(|_| ApiProblem::unavailable())?;
        let (answer, result) = oneshot::channel();
        // Sending fails if the request timed out or its client is gone: the answer is dropped.
        let answer: AnswerSink = Box::new(move |answered| drop(answer.send(answered)));
        let query = AdminQuery { command, cursor, answer };
        self.0.queries.send(query).map_err(|_| ApiProblem::unavailable())?;
        let Ok(Ok(answered)) = tokio::time::timeout(CONTROL_THREAD_TIMEOUT, result).await else {
            return Err(ApiProblem::unavailable());
        };
        match answered {
            AdminAnswer::Refused(what) => Err(ApiProblem::new(StatusCode::CONFLICT, what)),
            AdminAnswer::RefusedKeys(what, refused) => {
                Err(ApiProblem { refused, ..ApiProblem::new(StatusCode::CONFLICT, what) })
            }
            AdminAnswer::Unknown(what) => Err(ApiProblem::new(StatusCode::NOT_FOUND, what)),
            answered => Ok(answered),
        }
    }

    /// Requests the document of a topic that fits one page, and returns its members.
    pub(super) async fn members(&self, topic: Topic) -> Result<Map<String, Value>, ApiProblem> {
        let command = AdminCommand::Show(AdminQuestion::about(topic));
        let page = self.request_page(command, PageCursor::default()).await?;
        Ok((page.members)())
    }

    /// Collects rows of `lists` from pages of the control thread. The member `next` of the result
    /// says where the next page begins, or is null at the end.
    pub(super) async fn rows(
        &self,
        mut question: AdminQuestion,
        lists: &[&str],
        wanted: RequestedRows,
    ) -> ApiAnswer {
        let empty = |list: &&str| ((*list).to_owned(), Value::Array(Vec::new()));
        let mut document: Map<String, Value> = lists.iter().map(empty).collect();
        let (mut next, mut left) = (Some(wanted.from), wanted.limit);
        for _ in 0..API_PAGES_MAX {
            let Some(from) = next.filter(|_| left > 0) else { break };
            question.rows_max = Some(left);
            let page = self.request_page(AdminCommand::Show(question.clone()), from).await?;
            next = page.next;
            document.extend((page.members)());
            let Some(list) = page.list else { continue };
            let rows = (page.rows)();
            left = left.saturating_sub(rows.len());
            if let Some(Value::Array(known)) = document.get_mut(list) {
                known.extend(rows);
            }
        }
        document.insert("next".to_owned(), next.map(cursor::text_of).into());
        Ok(Json(document))
    }

    /// Carries out an act, and logs it.
    pub(super) async fn act(&self, actor: &AuditActor, act: AdminAct) -> ApiAnswer {
        let asked = self.request_page(AdminCommand::Act(act.clone()), PageCursor::default()).await;
        let outcome = asked.as_ref().map(drop).map_err(|problem| problem.detail.as_str());
        audit::record(actor, act.word(), act.object(), outcome);
        asked.map(|page| Json((page.members)()))
    }
}
