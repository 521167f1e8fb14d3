//! `adit show offload`: what forwards packets before workers receive them.

use adit_tables::OffloadReport;
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OffloadDocument {
    /// "xdp", "rte_flow" or "none".
    offload: &'static str,
    offloaded_sessions: u64,
    /// Sessions that are chosen for it, if it has room for few: those with rules, and those that
    /// are to get some.
    chosen_sessions: Option<u64>,
    /// Rules: one per session and direction.
    offloaded_rules: u64,
    offloaded_pkts: u64,
    /// Packets that the offload saw and left to workers.
    passed_pkts: u64,
    /// Share of the packets received that the offload forwarded.
    offloaded_percent: f64,
    refusals: Vec<RefusalRow>,
}

tables!(OffloadDocument { refusals: RefusalRow [reason, rules] });

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusalRow {
    /// In the words of the offload or its driver.
    reason: String,
    /// How often.
    rules: u64,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let publisher = &control.parts.publisher;
    let report = publisher.offload();
    let offload = report.as_ref().map_or("none", |report| report.name);
    let OffloadReport { name: _, sessions, entries, chosen_sessions, refusals, totals } =
        report.unwrap_or_default();
    let counted = publisher.snapshot();
    let (offloaded, all) = (counted.offloaded_pkts, counted.received_pkts.max(1));
    let row = |(reason, rules): (std::borrow::Cow<'static, str>, u64)| RefusalRow {
        reason: reason.into_owned(),
        rules,
    };
    let permille = u128::from(offloaded) * 1000 / u128::from(all);
    let document = OffloadDocument {
        offload,
        offloaded_sessions: sessions,
        chosen_sessions,
        offloaded_rules: entries,
        offloaded_pkts: offloaded,
        passed_pkts: totals.passed_pkts,
        offloaded_percent: f64::from(u32::try_from(permille).unwrap_or_default()) / 10.0,
        refusals: refusals.into_iter().map(row).collect(),
    };
    whole(document, |document| document)
}
