//! `adit show` of associations, neighbors, paths and applications.

use std::collections::BTreeSet;

use adit_n4::{Association, PathEntry, PathState};
use adit_tables::neighbor::{NeighborEntry, NeighborState};
use adit_types::NextHopIndex;
use adit_types::limits::ROWS_PER_PAGE_MAX;
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, index, list, whole};
use crate::admin::{AdminQuestion, AnswerPage, PageCursor, PagePosition};
use crate::text_table::{page, tables};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AssociationsDocument {
    associations: Vec<AssociationRow>,
}

tables!(AssociationsDocument {
    associations: AssociationRow [node_id, peer, state, sessions, recovery_time_stamp],
});

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AssociationRow {
    node_id: String,
    peer: String,
    state: &'static str,
    sessions: usize,
    recovery_time_stamp: u32,
    nf_instance: Option<String>,
}

pub(super) fn associations(control: &ControlView<'_>) -> AnswerPage {
    let node = &control.parts.node;
    let row = |association: &Association| AssociationRow {
        node_id: association.node_id.to_string(),
        peer: std::net::SocketAddr::new(association.address, association.port).to_string(),
        state: if association.is_silent() { "silent" } else { "up" },
        sessions: node.store().owned_count(association.owner),
        recovery_time_stamp: association.recovery_time_stamp,
        nf_instance: node.nf_instance_id(association.address).map(uuid),
    };
    let associations = node.associations().map(row).collect();
    whole(AssociationsDocument { associations }, |document| document)
}

/// Formats a UUID. Spec: RFC 9562 §4.
fn uuid(octets: [u8; 16]) -> String {
    let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| &hex[from..to]).join("-")
}

page!(
    /// A page of link-layer neighbors.
    NeighborsPage {
        neighbors as "neighbours": NeighborRow [interface, addr, mac, state, pinned],
    }
);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NeighborRow {
    interface: Option<String>,
    addr: String,
    mac: Option<String>,
    state: &'static str,
    pinned: bool,
}

pub(super) fn neighbors(
    control: &ControlView<'_>,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> AnswerPage {
    let first = NextHopIndex(index(cursor.from));
    let count = question.page_rows_max(ROWS_PER_PAGE_MAX);
    let (entries, next) = control.neighbors.entries_from(first, count);
    let named = |entry: NeighborEntry| {
        (entry, control.parts.names.get(usize::from(entry.interface.0)).cloned())
    };
    let row = |(entry, interface): (NeighborEntry, Option<String>)| NeighborRow {
        interface,
        addr: entry.addr.to_string(),
        mac: entry.mac.map(|mac| mac.to_string()),
        state: neighbor_state(entry.state),
        pinned: entry.pinned,
    };
    let next = next.map(|NextHopIndex(next)| PagePosition::Index(next));
    list("neighbours", entries.map(named).collect(), row, next)
}

const fn neighbor_state(state: NeighborState) -> &'static str {
    match state {
        NeighborState::Incomplete => "incomplete",
        NeighborState::Reachable => "reachable",
        NeighborState::Stale => "stale",
        NeighborState::Probe => "probe",
        NeighborState::Failed => "failed",
        NeighborState::Fixed => "fixed",
    }
}

page!(
    /// A page of GTP-U paths.
    PathsPage {
        paths: PathRow [
            peer, state, requests, responses, mtu_bytes, mtu_router, mtu_messages, mtu_seconds_left,
        ],
    }
);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PathRow {
    peer: String,
    state: &'static str,
    requests: u64,
    responses: u64,
    /// The MTU that a router reported, if it is below that of the link. Unit: octets of the outer
    /// IP packet.
    mtu_bytes: Option<u16>,
    mtu_router: Option<String>,
    mtu_messages: Option<u64>,
    /// Until larger packets are tried again.
    mtu_seconds_left: Option<u64>,
}

pub(super) fn paths(
    control: &ControlView<'_>,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> AnswerPage {
    let behind = match cursor.from {
        PagePosition::Behind(peer) => Some(peer),
        _ => None,
    };
    let (count, now) = (question.page_rows_max(ROWS_PER_PAGE_MAX), control.parts.clock.now());
    let paths: Vec<PathEntry> = control.parts.node.paths_after(behind).take(count).collect();
    let row = move |path: PathEntry| PathRow {
        peer: path.peer.to_string(),
        state: match path.state {
            PathState::Unknown => "unknown",
            PathState::Up => "up",
            PathState::Down => "down",
        },
        requests: path.requests,
        responses: path.responses,
        mtu_bytes: path.mtu.map(|mtu| mtu.mtu_bytes),
        mtu_router: path.mtu.map(|mtu| mtu.router.to_string()),
        mtu_messages: path.mtu.map(|mtu| mtu.messages),
        mtu_seconds_left: path.mtu.map(|mtu| mtu.until.since(now).to_duration().as_secs()),
    };
    let last = paths.last().filter(|_| paths.len() == count);
    let next = last.map(|path| PagePosition::Behind(path.peer));
    list("paths", paths, row, next)
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApplicationsDocument {
    applications: Vec<ApplicationRow>,
}

tables!(ApplicationsDocument {
    applications: ApplicationRow [id, source, flow_descriptions, in_effect],
});

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApplicationRow {
    id: String,
    source: Option<String>,
    flow_descriptions: usize,
    in_effect: bool,
}

/// Returns configured applications, and those from PFDs, which take precedence.
pub(super) fn applications(control: &ControlView<'_>) -> AnswerPage {
    let node = &control.parts.node;
    let store = node.store();
    let source = |owner| {
        let association = node.associations().find(|association| association.owner == owner);
        association.map(|association| association.node_id.to_string())
    };
    let replaced: BTreeSet<&str> = store.provided_applications().map(|known| known.id).collect();
    let configured = node.config().store.provisioning.applications.iter();
    let configured = configured.map(|application| ApplicationRow {
        id: application.id.to_string(),
        source: Some("configuration".to_owned()),
        flow_descriptions: application.filters.len(),
        in_effect: !replaced.contains(&*application.id),
    });
    let provided = store.provided_applications().map(|provided| ApplicationRow {
        id: provided.id.to_owned(),
        source: source(provided.owner),
        flow_descriptions: provided.flow_descriptions.len(),
        in_effect: provided.in_effect,
    });
    let applications = configured.chain(provided).collect();
    whole(ApplicationsDocument { applications }, |document| document)
}
