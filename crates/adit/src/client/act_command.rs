//! `adit session end`, `adit tap end`, `adit association release`, `adit worker`, `adit drain`,
//! `adit log` and `adit reload`: acts over the admin socket.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::admin::AdminAct;
use crate::cli::RequestedAct;
use crate::request::http_client::{self, HttpRefusal};

/// Requests an act of a running adit, and prints the outcome.
///
/// # Errors
/// No adit listens at the socket, or it refuses.
pub(crate) fn act(RequestedAct { socket, act }: &RequestedAct) -> anyhow::Result<()> {
    let answer = http_client::document(socket.path(), &act.request())?;
    println!("{}", outcome(&answer));
    Ok(())
}

/// Makes the adit at `socket` read its configuration again, and prints what changed.
///
/// # Errors
/// No adit listens at `socket`, or it refuses the file. Then nothing has changed, and the message
/// names each key.
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

/// Returns the keys at fault as a document; `None` if the refusal names none.
fn refused_keys(HttpRefusal(problem): &HttpRefusal) -> Option<Map<String, Value>> {
    let keys = problem.get("refused")?.clone();
    Some(
        [("outcome", json!("refused")), ("refused", keys)]
            .map(|(k, v)| (k.to_owned(), v))
            .into_iter()
            .collect(),
    )
}

/// Renders the outcome, and a line for each change.
fn changes(document: &Map<String, Value>) -> String {
    let word = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let changed = document.get("changed").and_then(Value::as_array).into_iter().flatten();
    let lines = changed.map(|of| format!("  {}: {}\n", word(of, "key"), word(of, "change")));
    format!("{}\n{}", outcome(document), lines.collect::<String>())
}

fn outcome(document: &Map<String, Value>) -> &str {
    document.get("outcome").and_then(Value::as_str).unwrap_or("done")
}
