//! `adit show traffic`: the traffic that sessions forwarded, without their rules.

use adit_tables::SessionTraffic;
use adit_types::limits::ROWS_PER_PAGE_MAX;
use adit_types::{Seid, SessionIndex};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, index, list};
use crate::admin::{AdminQuestion, AnswerPage, PageCursor, PagePosition};
use crate::text_table::page;

page!(
    /// A page of the traffic of sessions.
    TrafficPage {
        traffic: TrafficRow [up_seid, uplink_pkts, uplink_bytes, downlink_pkts, downlink_bytes],
    }
);

#[derive(Serialize, ToSchema)]
pub(crate) struct TrafficRow {
    up_seid: String,
    uplink_pkts: u64,
    uplink_bytes: u64,
    downlink_pkts: u64,
    downlink_bytes: u64,
}

/// Returns the next page.
///
/// Cost: below a page of sessions, because records stay packed.
pub(super) fn page(
    control: &ControlView<'_>,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> AnswerPage {
    let count = question.page_rows_max(ROWS_PER_PAGE_MAX);
    let first = SessionIndex(index(cursor.from));
    let (sessions, next) = control.parts.node.store().sessions_from(first, count);
    let publisher = &control.parts.publisher;
    let gathered = sessions
        .map(|session| (session.up_seid(), publisher.session_traffic(session.index())))
        .collect();
    let row = |(up_seid, traffic): (Seid, SessionTraffic)| TrafficRow {
        up_seid: up_seid.to_string(),
        uplink_pkts: traffic.ul_pkts,
        uplink_bytes: traffic.ul_bytes,
        downlink_pkts: traffic.dl_pkts,
        downlink_bytes: traffic.dl_bytes,
    };
    list("traffic", gathered, row, next.map(|SessionIndex(next)| PagePosition::Index(next)))
}
