//! One reading of a running adit: the documents that adit top needs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;

use crate::admin::AdminQuestion;
use crate::cli::Topic;
use crate::client::document_values::text;
use crate::client::show;
use crate::request::http_client::{self, HttpRequest, encoded};

/// Packets and octets of a session in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionCounts {
    pub uplink_pkts: u64,
    pub uplink_bytes: u64,
    pub downlink_pkts: u64,
    pub downlink_bytes: u64,
}

/// Documents of adit, read at about one moment.
#[derive(Debug, Clone)]
pub(super) struct AditReading {
    pub at: Instant,
    pub counters: Value,
    pub workers: Value,
    pub ports: Value,
    pub associations: Value,
    /// By UP SEID.
    pub traffic: BTreeMap<String, SessionCounts>,
    /// True if there may be more sessions than were read.
    pub is_cut: bool,
}

impl AditReading {
    /// Reads the documents of the adit that listens at `socket`, with at most `sessions` sessions.
    ///
    /// # Errors
    /// No adit answers.
    pub(super) fn take(socket: &Path, sessions: usize) -> anyhow::Result<Self> {
        let whole = |topic: Topic| {
            let request = HttpRequest::new("GET", topic.path());
            http_client::document(socket, &request).map(Value::Object)
        };
        let mut traffic = BTreeMap::new();
        let question =
            AdminQuestion { rows_max: Some(sessions), ..AdminQuestion::about(Topic::Traffic) };
        show::pages(socket, &question, |page| {
            let rows = page.get("traffic").and_then(Value::as_array).into_iter().flatten();
            for row in rows {
                traffic.insert(text(row, "up_seid"), SessionCounts::deserialize(row)?);
            }
            Ok(())
        })?;
        Ok(Self {
            at: Instant::now(),
            counters: whole(Topic::Counters)?,
            workers: whole(Topic::Workers)?,
            ports: whole(Topic::Ports)?,
            associations: whole(Topic::Associations)?,
            is_cut: traffic.len() >= sessions,
            traffic,
        })
    }
}

/// Returns the session with this UP SEID; `None` if it ended.
///
/// # Errors
/// No adit answers.
pub(super) fn session(socket: &Path, up_seid: &str) -> anyhow::Result<Option<Value>> {
    let target = format!("{}?seid={}", Topic::Sessions.path(), encoded(up_seid));
    let mut found = http_client::document(socket, &HttpRequest::new("GET", target))?;
    Ok(found.get_mut("sessions").and_then(|rows| rows.get_mut(0)).map(Value::take))
}
