//! What answers look like that are made of pages.
#![allow(
    dead_code,
    reason = "a description: rows and members are JSON when they reach this module"
)]

use utoipa::ToSchema;

use crate::snapshot::{
    AggregateRow, DirectionalRates, NeighborRow, PacketRateRow, PathRow, RateRow, SessionRow,
    UnreadyReason,
};

/// A page of sessions.
#[derive(ToSchema)]
pub(super) struct SessionsPage {
    sessions: Vec<SessionRow>,
    /// Pass it as `cursor` to get the next page; null after the last one.
    next: Option<String>,
}

/// A page of link-layer neighbors.
#[derive(ToSchema)]
pub(super) struct NeighborsPage {
    #[schema(rename = "neighbours")]
    neighbors: Vec<NeighborRow>,
    /// Pass it as `cursor` to get the next page; null after the last one.
    next: Option<String>,
}

/// A page of GTP-U paths.
#[derive(ToSchema)]
pub(super) struct PathsPage {
    paths: Vec<PathRow>,
    /// Pass it as `cursor` to get the next page; null after the last one.
    next: Option<String>,
}

/// A page of QERs with rates, first those with bit rates, then those with packet rates. The totals are on the last page.
#[derive(ToSchema)]
pub(super) struct QosPage {
    rates: Vec<RateRow>,
    packet_rates: Vec<PacketRateRow>,
    /// Rates of slices, and of all sessions together.
    shared: Option<Vec<AggregateRow>>,
    guaranteed_bps: Option<DirectionalRates<u64>>,
    guaranteed_max_bps: Option<DirectionalRates<Option<u64>>>,
    /// Pass it as `cursor` to get the next page; null after the last one.
    next: Option<String>,
}

/// A session with its rules and what it uses now.
#[derive(ToSchema)]
pub(super) struct SessionNow {
    session: SessionRow,
    rates: Option<MeasuredRates>,
}

/// What a session used per second, over the time of the measurement.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(super) struct MeasuredRates {
    pub uplink_bps: u64,
    pub uplink_pps: u64,
    pub downlink_bps: u64,
    pub downlink_pps: u64,
    /// How long it was measured.
    pub measured_ms: u64,
}

/// What an act did.
#[derive(ToSchema)]
pub(super) struct ActOutcome {
    /// What happened.
    outcome: String,
}

/// Why this adit is not ready; a problem document with the members of [`crate::snapshot::HealthDocument`].
#[derive(ToSchema)]
pub(super) struct UnreadyProblem {
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    ready: bool,
    reasons: Vec<UnreadyReason>,
}
