//! `adit show drops`: packets dropped, by reason.

use adit_rules::DropReason;
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DropsDocument {
    dropped_pkts: u64,
    /// All reasons, those without packets too.
    drops: Vec<DropRow>,
}

tables!(DropsDocument { drops: DropRow [reason, pkts, text] });

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DropRow {
    /// Its name in the counters.
    reason: &'static str,
    pkts: u64,
    /// The meaning of the drop reason.
    text: &'static str,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let counted = control.parts.publisher.snapshot();
    let row = |(reason, pkts): (DropReason, u64)| DropRow {
        reason: reason.name(),
        pkts,
        text: reason.text(),
    };
    let drops = counted.drops().map(row).collect();
    let document = DropsDocument { dropped_pkts: counted.dropped_pkts(), drops };
    whole(document, |document| document)
}
