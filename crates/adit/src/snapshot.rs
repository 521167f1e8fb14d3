//! The documents for operators, which the HTTP interface returns and `adit show` prints.
//!
//! The control thread gathers typed values, one page per iteration; the interface's thread converts
//! them to JSON. Field names are an interface: they change only with an entry in the changelog.

mod counters;
mod drops;
mod health;
mod kernel;
mod metrics;
mod node;
mod nrf;
mod offload;
mod overview;
mod ports;
mod power;
mod qos;
mod routes;
mod sessions;
mod store;
pub(crate) mod store_warnings;
mod taps;
mod traffic;
mod workers;

use adit_n4::DurationHistogram;
use adit_tables::neighbor::NeighborCache;
use adit_types::Nanos;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::admin::{AdminAnswer, AdminQuestion, AnswerPage, PageCursor, PagePosition};
use crate::cli::Topic;
use crate::control_parts::ControlParts;
use crate::control_parts::address_conflicts::AddressConflicts;
use crate::control_parts::port_links::LinkStates;
use crate::control_parts::standstill::Standstill;
pub(crate) use counters::{CounterGroups, counters};
pub(crate) use drops::DropsDocument;
pub(crate) use health::{HealthDocument, UnreadyReason};
pub(crate) use kernel::KernelDocument;
pub(crate) use metrics::{all_families, text_format};
pub(crate) use node::NodeDocument;
pub(crate) use nrf::NrfDocument;
pub(crate) use offload::OffloadDocument;
pub(crate) use overview::{ApplicationsDocument, AssociationsDocument, NeighborsPage, PathsPage};
pub(crate) use ports::PortsDocument;
pub(crate) use qos::QosPage;
pub(crate) use routes::RoutesDocument;
pub(crate) use sessions::{SessionRow, SessionsPage};
pub(crate) use store::StoreDocument;
pub(crate) use taps::TapsDocument;
pub(crate) use traffic::TrafficPage;
pub(crate) use workers::WorkersDocument;

/// The state of the control thread that the documents show.
pub(crate) struct ControlView<'a> {
    pub parts: &'a ControlParts,
    pub neighbors: &'a NeighborCache,
    pub datagrams_unsent: u64,
    pub commands_lost: u64,
    pub standstill: &'a Standstill,
    pub links: &'a LinkStates,
    /// How long changes took from publication until all workers observed them.
    pub publication: &'a DurationHistogram,
    /// Time that iterations of the control thread took, without sleeps.
    pub busy: Nanos,
    /// By worker: true if an operator has drained it, so that it owns no sessions.
    pub drained: &'a [bool],
    pub conflicts: &'a AddressConflicts,
    /// Why this adit pauses although no other one is known to be active; `None` if it serves.
    pub paused: Option<&'a str>,
}

/// Returns the page of the answer at `cursor`. Cost: independent of the number of sessions.
pub(crate) fn answer(
    control: &ControlView<'_>,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> AdminAnswer {
    let page = match question.topic {
        Topic::Associations => overview::associations(control),
        Topic::Sessions => return sessions::page(control, question, cursor),
        Topic::Traffic => traffic::page(control, question, cursor),
        Topic::Counters => counters::page(control),
        Topic::Ports => ports::page(control),
        Topic::Workers => workers::page(control),
        Topic::Offload => offload::page(control),
        Topic::Neighbours => overview::neighbors(control, question, cursor),
        Topic::Paths => overview::paths(control, question, cursor),
        Topic::Drops => drops::page(control),
        Topic::Health => health::page(control),
        Topic::Node => node::page(control),
        Topic::Nrf => nrf::page(control),
        Topic::Routes => routes::page(control),
        Topic::Kernel => kernel::page(control),
        Topic::Applications => overview::applications(control),
        Topic::Store => store::page(control),
        Topic::Taps => taps::page(control),
        Topic::Metrics => metrics::page(control, question.format, cursor),
        Topic::Qos => return qos::qos(control, question, cursor),
    };
    AdminAnswer::Page(page)
}

/// Makes a document of one page. `document` runs on the client's thread.
fn whole<G, D>(gathered: G, document: impl FnOnce(G) -> D + Send + 'static) -> AnswerPage
where
    G: Send + 'static,
    D: Serialize,
{
    let members = Box::new(move || members(&document(gathered)));
    AnswerPage { list: None, rows: Box::new(Vec::new), members, next: None }
}

/// Makes a page of a document with one list. `document` makes a row from gathered values; it runs
/// on the client's thread.
fn list<G, D>(
    list: &'static str,
    gathered: Vec<G>,
    document: impl Fn(G) -> D + Send + 'static,
    next: Option<PagePosition>,
) -> AnswerPage
where
    G: Send + 'static,
    D: Serialize,
{
    let next = next.map(|from| PageCursor { list: 0, from });
    let rows = Box::new(move || gathered.into_iter().map(|row| value(&document(row))).collect());
    AnswerPage { list: Some(list), rows, members: Box::new(Map::new), next }
}

/// Converts a value to JSON. This cannot fail: keys are strings and numbers are integers.
fn value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}

/// Converts the members of a structure to JSON.
fn members(document: &impl Serialize) -> Map<String, Value> {
    match value(document) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns the index at which a page starts.
const fn index(from: PagePosition) -> u32 {
    match from {
        PagePosition::Index(index) | PagePosition::Only(index) => index,
        PagePosition::Start | PagePosition::Behind(_) => 0,
    }
}
