//! Answers as JSON, and failures as problem documents.

use std::collections::BTreeMap;

use adit_operate::api::problem_with;
use axum::Json;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use crate::config::KeyRefusal;

/// The JSON members of a response, or the problem because of which the request failed.
pub(super) type ApiAnswer = Result<Json<Map<String, Value>>, ApiProblem>;

/// Why a request failed.
#[derive(Debug)]
pub(super) struct ApiProblem {
    pub status: StatusCode,
    /// The fault and its remedy, for the client.
    pub detail: String,
    /// The keys because of which a configuration is refused; empty for other problems.
    pub refused: Vec<KeyRefusal>,
}

impl ApiProblem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), refused: Vec::new() }
    }

    /// Returns the problem (503) of a control thread that does not answer.
    pub(super) fn unavailable() -> Self {
        let what = "adit is shutting down or overloaded; try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, what)
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response<Body> {
        let Self { status, detail, refused } = self;
        let refused = (!refused.is_empty()).then(|| ("refused".to_owned(), json!(refused)));
        problem_with(status, &detail, refused.into_iter().collect())
    }
}

/// The failure responses that every path may return, for the OpenAPI description.
pub(super) struct ProblemAnswers;

impl IntoResponses for ProblemAnswers {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let problem = |description: &str| {
            let schema = Ref::from_schema_name("ProblemDocument");
            let content = ContentBuilder::new().schema(Some(schema)).build();
            let response = ResponseBuilder::new().description(description);
            RefOr::T(response.content("application/problem+json", content).build())
        };
        let all = [
            ("400", "A parameter is unknown, or has a wrong value."),
            ("401", "The token is missing or unknown."),
            ("403", "The token has not the role for this."),
            ("404", "Nothing has this name."),
            ("409", "This cannot be done now."),
            ("413", "The body is too large."),
            ("415", "The body is not JSON."),
            ("422", "The body has other members."),
            ("429", "Too many requests."),
            ("503", "adit is shutting down or overloaded."),
        ];
        all.into_iter().map(|(status, words)| (status.to_owned(), problem(words))).collect()
    }
}
