//! `adit reload`: the running adit reads its configuration file again.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::admin::client::{self, WholeDocument};
use crate::admin::{AdminAct, AdminCommand};

/// Has the adit that listens at `socket` read its configuration again, and prints what changed.
///
/// # Errors
/// Nothing listens there, or adit refuses the file: then nothing has changed, and the message names each key.
pub(crate) fn reload(socket: &Path, json: bool) -> anyhow::Result<()> {
    let mut answer = WholeDocument::default();
    let outcome = client::request(socket, &AdminCommand::Act(AdminAct::Reload), &mut answer);
    let mut document = answer.members;
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
