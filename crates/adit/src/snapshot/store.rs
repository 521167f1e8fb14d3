//! `adit show store`: what keeps sessions beyond the end of the process.

use std::time::Duration;

use adit_shared_store::SharedStoreFigures;
use adit_shared_store::replicated::ReplicatedFigures;
use adit_shared_store::store_thread::StoreReport;
use adit_shared_store::tail_thread::TailReport;
use adit_store::{JournalFigures, StoreState};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::record_store::any_store::AnyStoreFigures;
use crate::record_store::standby_thread::StandbyReport;
use crate::snapshot::store_warnings;
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreDocument {
    /// "journal", "redis" or "none".
    store: &'static str,
    /// "active", or "standby" while another adit is.
    role: &'static str,
    /// "working", "full", "failing", "paused", "restoring", "following" or "none".
    state: &'static str,
    /// Why this adit answers for no address and forwards nothing.
    paused: Option<String>,
    /// Why it fails.
    failure: Option<String>,
    /// Warnings although it works.
    warnings: Vec<String>,
    failures: u64,
    /// Why upkeep fails, while changes are kept.
    upkeep_failure: Option<String>,
    #[serde(flatten)]
    journal: Option<JournalDocument>,
    #[serde(flatten)]
    shared: Option<SharedStoreDocument>,
    #[serde(flatten)]
    standby: Option<StandbyDocument>,
    #[serde(flatten)]
    replication: Option<ReplicationDocument>,
    last_commit_us: u64,
    longest_commit_us: u64,
    /// Groups of changes that are not durable, and messages that wait for them.
    groups_under_way: u64,
    messages_waiting: usize,
    sessions_restored: u64,
    sessions_not_restored: u64,
    records_too_large: u64,
    /// Sessions that this adit cannot restore and whose records stay in the store, and the first
    /// 100 of these.
    set_aside: usize,
    set_aside_sessions: Vec<SetAsideRow>,
}

tables!(StoreDocument { set_aside_sessions: SetAsideRow [seid, reason] });

/// A session that is set aside.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SetAsideRow {
    /// Its UP SEID in hexadecimal.
    seid: String,
    /// Why it is not restored.
    reason: String,
}

/// Most sessions that are listed as set aside.
const SET_ASIDE_LISTED_MAX: usize = 100;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JournalDocument {
    records: usize,
    /// Octets of the records, and of the files that hold them.
    live_octets: u64,
    file_octets: u64,
    commits: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SharedStoreDocument {
    /// The primary in use; empty while there is none.
    server: String,
    /// Replicas that follow it.
    replicas: u32,
    /// Who holds the lease, and its fencing token.
    holder: String,
    epoch: u64,
    /// The last group of changes that the server has.
    last_group: String,
    groups: u64,
    groups_resent: u64,
    /// Octets of groups that are not durable.
    pending_octets: usize,
    connection_failures: u64,
}

/// Progress of a standby.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StandbyDocument {
    /// The last group of changes that it has.
    reached_group: String,
    /// Groups of the active adit that it lacks; null if it has to read all records again.
    lag_groups: Option<u64>,
    /// Remaining time of the active adit's lease.
    lease_left_ms: u64,
}

/// Replication of records to the other adit of the pair.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplicationDocument {
    /// The other adit is connected.
    replicated: bool,
    /// The last group of changes that the standby has.
    standby_group: u64,
    /// The standby's acknowledgment suffices for answers.
    standby_acknowledges: bool,
    /// Why the standby cannot be reached, or could not when it was last tried.
    standby_failure: Option<String>,
    /// Groups that the shared store lacks.
    groups_not_shared: usize,
}

impl ReplicationDocument {
    fn of_active(figures: &ReplicatedFigures<SharedStoreFigures>) -> Self {
        let replicated = figures.standby.is_some();
        Self {
            replicated,
            standby_group: figures.standby.map_or(0, |standby| standby.last.0),
            standby_acknowledges: figures.standby_is_enough,
            standby_failure: (!replicated).then(|| figures.standby_error.clone()),
            groups_not_shared: figures.waiting,
        }
    }

    fn of_standby(report: &TailReport) -> Self {
        Self {
            replicated: report.has_active,
            standby_group: report.last.0,
            standby_acknowledges: false,
            standby_failure: None,
            groups_not_shared: report.groups,
        }
    }
}

impl SharedStoreDocument {
    fn new(figures: &SharedStoreFigures) -> Self {
        Self {
            server: figures.server.map_or_else(String::new, |server| server.to_string()),
            replicas: figures.replicas,
            holder: figures.holder.clone(),
            epoch: figures.epoch,
            last_group: figures.last.to_string(),
            groups: figures.groups,
            groups_resent: figures.groups_resent,
            pending_octets: figures.pending_octets,
            connection_failures: figures.connection_failures,
        }
    }
}

impl JournalDocument {
    fn new(figures: &JournalFigures) -> Self {
        Self {
            records: figures.records,
            live_octets: figures.live_octets,
            file_octets: figures.file_octets,
            commits: figures.commits,
        }
    }
}

impl StandbyDocument {
    fn new(report: &StandbyReport) -> Self {
        let (last, reached) = (report.figures.last, report.reached);
        let lag =
            (last.epoch == reached.epoch).then(|| last.number.0.saturating_sub(reached.number.0));
        let left = report.lease_left.unwrap_or_default();
        Self {
            reached_group: reached.to_string(),
            lag_groups: if report.is_caught_up { Some(0) } else { lag },
            lease_left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Converts a standby's report about the store to the form of an active adit's report.
fn followed(report: StandbyReport) -> StoreReport<AnyStoreFigures> {
    StoreReport {
        figures: AnyStoreFigures::Shared(report.figures),
        state: StoreState::Working,
        failure: report.failure,
        failures: report.failures,
        upkeep_failure: None,
        too_large: 0,
        commit: Duration::ZERO,
        commit_max: Duration::ZERO,
    }
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let node = &control.parts.node;
    let standby_report = control.parts.role.standby().map(|standby| standby.link.report());
    let standing = standby_report.as_ref().map(StandbyDocument::new);
    let report = control.parts.store.as_ref().map(|store| store.report());
    let report = report.or_else(|| standby_report.clone().map(followed));
    let failure = report.as_ref().and_then(|report| report.failure.clone());
    let state = match (&report, &failure) {
        (None, _) => "none",
        _ if control.paused.is_some() => "paused",
        (Some(_), Some(_)) => "failing",
        (Some(report), None) if report.state == StoreState::Full => "full",
        (Some(_), None) if standing.is_some() => "following",
        (Some(_), None) if node.is_restoring() => "restoring",
        (Some(_), None) => "working",
    };
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let (groups_under_way, messages_waiting) = node.store_backlog();
    let scalars = node.counters().scalars;
    let mut replication = standby_report
        .as_ref()
        .and_then(|report| report.tail.as_ref())
        .map(ReplicationDocument::of_standby);
    let shared = |figures| Some(SharedStoreDocument::new(figures));
    let (store, journal, shared) = match report.as_ref().map(|report| &report.figures) {
        None => ("none", None, None),
        Some(AnyStoreFigures::Journal(figures)) => {
            ("journal", Some(JournalDocument::new(figures)), None)
        }
        Some(AnyStoreFigures::Shared(figures)) => ("redis", None, shared(figures)),
        Some(AnyStoreFigures::Replicated(figures)) => {
            replication = Some(ReplicationDocument::of_active(figures));
            ("redis", None, shared(&figures.store))
        }
    };
    let document = StoreDocument {
        store,
        role: if standing.is_some() { "standby" } else { "active" },
        state,
        paused: control.paused.map(str::to_owned),
        failure,
        warnings: store_warnings::of(control.parts),
        failures: report.as_ref().map_or(0, |report| report.failures),
        upkeep_failure: report.as_ref().and_then(|report| report.upkeep_failure.clone()),
        journal,
        shared,
        standby: standing,
        replication,
        last_commit_us: report.as_ref().map_or(0, |report| micros(report.commit)),
        longest_commit_us: report.as_ref().map_or(0, |report| micros(report.commit_max)),
        groups_under_way,
        messages_waiting,
        sessions_restored: scalars.sessions_restored,
        sessions_not_restored: scalars.sessions_not_restored,
        records_too_large: report.as_ref().map_or(0, |report| report.too_large),
        set_aside: node.set_aside_len(),
        set_aside_sessions: node
            .set_aside_sessions(None)
            .take(SET_ASIDE_LISTED_MAX)
            .map(|(seid, why)| SetAsideRow { seid: seid.to_string(), reason: why.to_string() })
            .collect(),
    };
    whole(document, |document| document)
}
