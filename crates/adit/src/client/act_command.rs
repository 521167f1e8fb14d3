//! `adit session end`, `adit tap end`, `adit association release`, `adit worker`, `adit drain`,
//! `adit log` and `adit reload`: acts over the admin socket.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::admin::AdminAct;
use crate::cli::RequestedAct;
use crate::request::http_client::{self, HttpRefusal};

/// Has an adit carry out an act, and prints what happened.
///
/// # Errors
/// No adit listens there, or it refuses.
pub(crate) fn act(RequestedAct { socket, act }: &RequestedAct) -> anyhow::Result<()> {
    let answer = http_client::document(socket.path(), &act.request())?;
    println!("{}", outcome(&answer));
    Ok(())
}

/// Has the adit that listens at `socket` read its configuration again, and prints what changed.
///
/// # Errors
/// Nothing listens there, or adit refuses the file: then nothing has changed, and the message names
/// each key.
pub(crate) fn reload(socket: &Path, json: bool) -> anyhow::Result<()> {
    let answer = http_client::document(socket, &AdminAct::Reload.request());
    let document = match &answer {
        Ok(document) => Some(document.clone()),
        Err(error) => error.downcast_ref().and_then(refused_keys),
    };
    match document {
        Some(document) if json => println!("{}", Value::Object(document)),
        Some(document) if answer.is_ok() => print!("{}", changes(&document)),
        _ => {}
    }
    answer.map(drop)
}

/// The keys that a running adit cannot change.
fn refused_keys(HttpRefusal(problem): &HttpRefusal) -> Option<Map<String, Value>> {
    let keys = problem.get("refused")?.clone();
    Some(
        [("outcome", json!("refused")), ("refused", keys)]
            .map(|(k, v)| (k.to_owned(), v))
            .into_iter()
            .collect(),
    )
}

/// The outcome, then a line for each change.
fn changes(document: &Map<String, Value>) -> String {
    let word = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let changed = document.get("changed").and_then(Value::as_array).into_iter().flatten();
    let lines = changed.map(|of| format!("  {}: {}\n", word(of, "key"), word(of, "change")));
    format!("{}\n{}", outcome(document), lines.collect::<String>())
}

fn outcome(document: &Map<String, Value>) -> &str {
    document.get("outcome").and_then(Value::as_str).unwrap_or("done")
}
