//! `adit show store`: what keeps sessions beyond the end of the process.

use serde::Serialize;

use super::{ControlView, whole};
use crate::admin::AnswerPage;

#[derive(Serialize)]
struct StoreDocument {
    /// "journal" or "none".
    store: &'static str,
    /// "working", "failing", "restoring" or "none".
    state: &'static str,
    /// Why it fails.
    failure: Option<String>,
    failures: u64,
    records: usize,
    /// Octets of the records, and of the files that hold them.
    live_octets: u64,
    file_octets: u64,
    commits: u64,
    last_commit_us: u64,
    longest_commit_us: u64,
    /// Groups of changes that are not durable, and messages that wait for them.
    groups_under_way: u64,
    messages_waiting: usize,
    sessions_restored: u64,
    sessions_not_restored: u64,
    records_too_large: u64,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let node = &control.parts.node;
    let report = control.parts.store.as_ref().map(|store| store.report());
    let failure = report.as_ref().and_then(|report| report.failure.clone());
    let state = match (&report, &failure) {
        (None, _) => "none",
        (Some(_), Some(_)) => "failing",
        (Some(_), None) if node.is_restoring() => "restoring",
        (Some(_), None) => "working",
    };
    let micros =
        |duration: std::time::Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let (groups_under_way, messages_waiting) = node.waiting_for_store();
    let scalars = node.counters().scalars;
    let journal = report.as_ref().map(|report| report.journal);
    let document = StoreDocument {
        store: if report.is_some() { "journal" } else { "none" },
        state,
        failure,
        failures: report.as_ref().map_or(0, |report| report.failures),
        records: journal.map_or(0, |journal| journal.records),
        live_octets: journal.map_or(0, |journal| journal.live_octets),
        file_octets: journal.map_or(0, |journal| journal.file_octets),
        commits: journal.map_or(0, |journal| journal.commits),
        last_commit_us: report.as_ref().map_or(0, |report| micros(report.commit)),
        longest_commit_us: report.as_ref().map_or(0, |report| micros(report.commit_max)),
        groups_under_way,
        messages_waiting,
        sessions_restored: scalars.sessions_restored,
        sessions_not_restored: scalars.sessions_not_restored,
        records_too_large: report.as_ref().map_or(0, |report| report.too_large),
    };
    whole(document, |document| document)
}
