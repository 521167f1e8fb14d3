//! The path `/metrics`: all metrics, for Prometheus.

use adit_operate::metrics::MetricsTextFormat;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response};
use serde_json::Value;

use super::answer::ApiProblem;
use super::reads::NoParameters;
use super::state::ApiState;
use crate::admin::{AdminCommand, AdminQuestion, PageCursor};
use crate::cli::{MetricsFormat, Topic};
use crate::snapshot::text_format;

/// Returns the text of `adit show metrics`, in the format that the client accepts.
pub(super) async fn metrics(
    _: Query<NoParameters>,
    headers: HeaderMap,
    State(api): State<ApiState>,
) -> Result<Response<Body>, ApiProblem> {
    let format = accepted_format(&headers);
    let question = AdminQuestion { format, ..AdminQuestion::about(Topic::Metrics) };
    let command = AdminCommand::Show(question);
    let (mut text, mut next) = (String::new(), Some(PageCursor::default()));
    while let Some(cursor) = next {
        let page = api.request_page(command.clone(), cursor).await?;
        next = page.next;
        let parts = (page.rows)();
        parts.iter().filter_map(Value::as_str).for_each(|part| text.push_str(part));
    }
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static(MetricsTextFormat::content_type(text_format(format)));
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

/// Chooses OpenMetrics if the client accepts it, else the older Prometheus text format, which all
/// clients read.
fn accepted_format(headers: &HeaderMap) -> MetricsFormat {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    match accepts.into_iter().any(|accept| accept.contains("application/openmetrics-text")) {
        true => MetricsFormat::Openmetrics,
        false => MetricsFormat::Prometheus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_that_knows_open_metrics_gets_it() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            accepted_format(&headers)
        };
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(of(prometheus), MetricsFormat::Openmetrics);
        assert_eq!(of("text/plain"), MetricsFormat::Prometheus);
        assert_eq!(accepted_format(&HeaderMap::new()), MetricsFormat::Prometheus);
    }
}
