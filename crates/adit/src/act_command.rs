//! `adit session end`, `adit tap end`, `adit association release`, `adit worker`, `adit drain` and `adit log`: acts over the admin socket.

use std::path::Path;

use serde_json::Value;

use crate::admin::client::{self, DocumentMembers};
use crate::admin::{AdminAct, AdminCommand};

/// Has the adit that listens at `socket` carry out an act, and prints what happened.
///
/// # Errors
/// Nothing listens there, or adit refuses.
pub(crate) fn act(socket: &Path, act: AdminAct) -> anyhow::Result<()> {
    let mut answer = DocumentMembers::default();
    client::request(socket, &AdminCommand::Act(act), &mut answer)?;
    println!("{}", answer.0.get("outcome").and_then(Value::as_str).unwrap_or("done"));
    Ok(())
}
