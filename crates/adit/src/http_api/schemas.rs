//! OpenAPI schemas of responses that handlers assemble from JSON.
#![allow(
    dead_code,
    reason = "a description: rows and members are JSON when they reach this module"
)]

use utoipa::ToSchema;

use crate::config::KeyRefusal;
use crate::snapshot::{SessionRow, UnreadyReason};

/// A session with its rules and its current use.
#[derive(ToSchema)]
pub(super) struct SessionNow {
    session: SessionRow,
    rates: Option<MeasuredRates>,
}

/// The use of a session per second, over the time of the measurement.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(super) struct MeasuredRates {
    pub uplink_bps: u64,
    pub uplink_pps: u64,
    pub downlink_bps: u64,
    pub downlink_pps: u64,
    /// How long it was measured.
    pub measured_ms: u64,
}

/// The result of an act.
#[derive(ToSchema)]
pub(super) struct ActOutcome {
    /// The result, in words.
    outcome: String,
}

/// Why this adit is not ready; a problem document with the members of
/// [`crate::snapshot::HealthDocument`].
#[derive(ToSchema)]
pub(super) struct UnreadyProblem {
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    ready: bool,
    reasons: Vec<UnreadyReason>,
}

/// Why a configuration is refused; a problem document with the keys.
#[derive(ToSchema)]
pub(super) struct ReloadProblem {
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    #[schema(required = false)]
    refused: Vec<KeyRefusal>,
}
