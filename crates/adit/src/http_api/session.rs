//! One session, with its rules and its current use.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::IntoParams;

use super::answer::{ApiAnswer, ApiProblem, ProblemAnswers};
use super::schemas::{MeasuredRates, SessionNow};
use super::state::ApiState;
use crate::admin::{AdminCommand, AdminQuestion, PageCursor, SessionFilter, SessionFilterText};
use crate::cli::Topic;

/// Longest measurement. Unit: milliseconds.
const MEASURE_MS_MAX: u64 = 5000;

/// Query parameter of the measurement of a session.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MeasureParameters {
    /// Time over which rates are measured; 0 for no rates. Unit: milliseconds.
    #[param(minimum = 0, maximum = 5000, default = 0)]
    measure_ms: Option<u64>,
}

/// One session with its rules, and its rates over a time.
#[utoipa::path(get, path = "/v1/sessions/{seid}", tag = "sessions",
    params(("seid" = String, Path, description = "UP SEID, such as 0x0000000100000001"), MeasureParameters),
    responses((status = 200, body = SessionNow), ProblemAnswers))]
pub(super) async fn session(
    Path(seid): Path<String>,
    Query(MeasureParameters { measure_ms }): Query<MeasureParameters>,
    State(api): State<ApiState>,
) -> ApiAnswer {
    let span = measure_ms.unwrap_or(0);
    if span > MEASURE_MS_MAX {
        let what = format!("measure_ms takes a whole number from 0 to {MEASURE_MS_MAX}");
        return Err(ApiProblem::new(StatusCode::BAD_REQUEST, what));
    }
    let (mut row, began) = (find(&api, &seid).await?, Instant::now());
    let mut rates = None;
    if span > 0 {
        tokio::time::sleep(Duration::from_millis(span)).await;
        let (later, passed) = (find(&api, &seid).await?, began.elapsed());
        rates = Some(MeasuredRates::between(&row, &later, passed));
        row = later;
    }
    let rates = serde_json::to_value(rates).unwrap_or_default();
    Ok(Json(Map::from_iter([("session".to_owned(), row), ("rates".to_owned(), rates)])))
}

/// Returns the row of the session with the UP SEID `seid`.
async fn find(api: &ApiState, seid: &str) -> Result<Value, ApiProblem> {
    let filter = SessionFilterText { seid: Some(seid.to_owned()), ..Default::default() };
    SessionFilter::parse(&filter).map_err(|what| ApiProblem::new(StatusCode::BAD_REQUEST, what))?;
    let question = AdminQuestion { filter, ..AdminQuestion::about(Topic::Sessions) };
    let page = api.request_page(AdminCommand::Show(question), PageCursor::default()).await?;
    (page.rows)().into_iter().next().ok_or_else(|| {
        ApiProblem::new(StatusCode::NOT_FOUND, format!("no session has the UP SEID {seid}"))
    })
}

impl MeasuredRates {
    /// Computes rates from two rows of a session, read `passed` apart.
    fn between(before: &Value, after: &Value, passed: Duration) -> Self {
        let ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1);
        let per_s = |member: &str, factor: u64| {
            let of = |row: &Value| row.get(member).and_then(Value::as_u64).unwrap_or(0);
            of(after).saturating_sub(of(before)).saturating_mul(1000 * factor) / ms
        };
        Self {
            uplink_bps: per_s("uplink_bytes", 8),
            uplink_pps: per_s("uplink_pkts", 1),
            downlink_bps: per_s("downlink_bytes", 8),
            downlink_pps: per_s("downlink_pkts", 1),
            measured_ms: ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_per_second() {
        let row = |octets: u64, pkts: u64| {
            serde_json::json!({
                "uplink_bytes": octets, "uplink_pkts": pkts,
                "downlink_bytes": 2 * octets, "downlink_pkts": 2 * pkts,
            })
        };
        let rates =
            MeasuredRates::between(&row(1000, 10), &row(2000, 20), Duration::from_millis(500));
        assert_eq!((rates.uplink_bps, rates.uplink_pps), (16_000, 20));
        assert_eq!((rates.downlink_bps, rates.downlink_pps, rates.measured_ms), (32_000, 40, 500));
    }
}
