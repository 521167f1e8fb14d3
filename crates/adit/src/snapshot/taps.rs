//! `adit show taps`: traces and captures that run.

use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::tap::HubTapState;
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TapsDocument {
    taps: Vec<TapRow>,
}

tables!(TapsDocument { taps: TapRow [tap, kind, of, running_s, pkts, skipped_pkts] });

/// A trace or a capture.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TapRow {
    /// Its number since adit began.
    tap: u64,
    /// "trace" or "capture".
    kind: &'static str,
    /// Which packets it is about.
    of: String,
    /// For how long it has been running.
    running_s: u64,
    /// Packets that its client got.
    pkts: u64,
    /// Packets for which workers or the client had no room, as far as workers have reported them.
    skipped_pkts: u64,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let running = control.parts.taps.running(control.parts.clock.now());
    whole(running, |running| {
        let row = |HubTapState { number, kind, subject, age, pkts, skipped }| TapRow {
            tap: number,
            kind,
            of: subject,
            running_s: age.0 / 1_000_000_000,
            pkts,
            skipped_pkts: skipped,
        };
        TapsDocument { taps: running.into_iter().map(row).collect() }
    })
}
