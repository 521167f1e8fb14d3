//! `adit reload`: the running adit reads its configuration file again.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::admin::client::{self, DocumentSink};
use crate::admin::{AdminAct, AdminCommand};

/// The answer, with the rows of its lists by their key.
#[derive(Debug, Default)]
struct ReloadAnswer {
    document: Map<String, Value>,
    list: String,
}

impl DocumentSink for ReloadAnswer {
    fn list(&mut self, key: &str) -> anyhow::Result<()> {
        self.list = key.to_owned();
        self.document.insert(key.to_owned(), Value::Array(Vec::new()));
        Ok(())
    }

    fn row(&mut self, row: Value) -> anyhow::Result<()> {
        if let Some(Value::Array(rows)) = self.document.get_mut(&self.list) {
            rows.push(row);
        }
        Ok(())
    }

    fn member(&mut self, key: String, value: Value) -> anyhow::Result<()> {
        self.document.insert(key, value);
        Ok(())
    }
}

/// Has the adit that listens at `socket` read its configuration again, and prints what changed.
///
/// # Errors
/// Nothing listens there, or adit refuses the file: then nothing has changed, and the message names each key.
pub(crate) fn reload(socket: &Path, json: bool) -> anyhow::Result<()> {
    let mut answer = ReloadAnswer::default();
    let outcome = client::request(socket, &AdminCommand::Act(AdminAct::Reload), &mut answer);
    let mut document = answer.document;
    if json {
        if outcome.is_err() && document.contains_key("refused") {
            document.insert("outcome".to_owned(), json!("refused"));
        }
        if !document.is_empty() {
            println!("{}", Value::Object(document));
        }
    } else if outcome.is_ok() {
        print!("{}", text(&document));
    }
    outcome
}

/// The outcome, then a line for each change.
fn text(document: &Map<String, Value>) -> String {
    let word = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let outcome = document.get("outcome").and_then(Value::as_str).unwrap_or("done");
    let changed = document.get("changed").and_then(Value::as_array);
    let lines = changed
        .into_iter()
        .flatten()
        .map(|of| format!("  {}: {}\n", word(of, "key"), word(of, "change")));
    format!("{outcome}\n{}", lines.collect::<String>())
}
