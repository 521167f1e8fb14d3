//! One look at a running adit: the documents that `adit top` needs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::admin::client::{self, DocumentSink, WholeDocument};
use crate::admin::{AdminCommand, AdminQuestion, SessionFilterText};
use crate::cli::Topic;
use crate::document_values::{number, text};

/// Packets and octets of a session in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SessionCounts {
    pub uplink_pkts: u64,
    pub uplink_bytes: u64,
    pub downlink_pkts: u64,
    pub downlink_bytes: u64,
}

impl SessionCounts {
    fn of(row: &Value) -> Self {
        Self {
            uplink_pkts: number(row, "uplink_pkts"),
            uplink_bytes: number(row, "uplink_bytes"),
            downlink_pkts: number(row, "downlink_pkts"),
            downlink_bytes: number(row, "downlink_bytes"),
        }
    }
}

/// The answers of adit at about one moment.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub at: Instant,
    pub counters: Value,
    pub workers: Value,
    pub ports: Value,
    pub associations: Value,
    /// By UP SEID.
    pub traffic: BTreeMap<String, SessionCounts>,
    /// There may be more sessions than were looked at.
    pub is_cut: bool,
}

impl Look {
    /// Looks at the adit that listens at `socket`, at so many sessions at most.
    ///
    /// # Errors
    /// Nothing answers.
    pub(super) fn take(socket: &Path, sessions: usize) -> anyhow::Result<Self> {
        let whole = |topic| document(socket, AdminQuestion::about(topic));
        let mut traffic = TrafficSink::default();
        let question =
            AdminQuestion { rows_max: Some(sessions), ..AdminQuestion::about(Topic::Traffic) };
        client::request(socket, &AdminCommand::Show(question), &mut traffic)?;
        Ok(Self {
            at: Instant::now(),
            counters: whole(Topic::Counters)?,
            workers: whole(Topic::Workers)?,
            ports: whole(Topic::Ports)?,
            associations: whole(Topic::Associations)?,
            is_cut: traffic.0.len() >= sessions,
            traffic: traffic.0,
        })
    }
}

/// The session with this UP SEID; `None` if it ended.
///
/// # Errors
/// Nothing answers.
pub(super) fn session(socket: &Path, up_seid: &str) -> anyhow::Result<Option<Value>> {
    let seid = Some(up_seid.to_owned());
    let filter = SessionFilterText { seid, ..SessionFilterText::default() };
    let question = AdminQuestion { filter, ..AdminQuestion::about(Topic::Sessions) };
    let mut found = document(socket, question)?;
    Ok(found.get_mut("sessions").and_then(|rows| rows.get_mut(0)).map(Value::take))
}

fn document(socket: &Path, question: AdminQuestion) -> anyhow::Result<Value> {
    let mut whole = WholeDocument::default();
    client::request(socket, &AdminCommand::Show(question), &mut whole)?;
    Ok(Value::Object(whole.members))
}

/// The traffic of sessions, without the documents of their rows.
#[derive(Default)]
struct TrafficSink(BTreeMap<String, SessionCounts>);

impl DocumentSink for TrafficSink {
    fn list(&mut self, _: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn row(&mut self, row: Value) -> anyhow::Result<()> {
        self.0.insert(text(&row, "up_seid"), SessionCounts::of(&row));
        Ok(())
    }

    fn member(&mut self, _: String, _: Value) -> anyhow::Result<()> {
        Ok(())
    }
}
