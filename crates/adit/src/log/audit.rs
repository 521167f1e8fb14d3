//! One line in the log for each act of an operator: who, in which role, what, and how it ended.

use adit_operate::api::ApiPrincipal;
use tracing::{info, warn};

/// Target of audit lines, which every filter of the log lets through.
pub(crate) const TARGET: &str = "audit";

/// Who carries out an act.
#[derive(Debug, Clone)]
pub(crate) struct AuditActor {
    /// A user and process of this host, a signal, or the name of a token with its address.
    pub who: String,
    /// The role of the client; "owner" for a signal.
    pub role: &'static str,
}

impl From<ApiPrincipal> for AuditActor {
    fn from(ApiPrincipal { name, role }: ApiPrincipal) -> Self {
        Self { who: name, role: role.name() }
    }
}

/// Logs an act by its name, its object, and its outcome: an error has the reason of the refusal.
pub(crate) fn record(actor: &AuditActor, act: &str, of: Option<&str>, outcome: Result<(), &str>) {
    let (AuditActor { who, role }, of) = (actor, of.unwrap_or_default());
    match outcome {
        Ok(()) => info!(target: TARGET, who, role, act, of, outcome = "done"),
        Err(why) => warn!(target: TARGET, who, role, act, of, outcome = "refused", why),
    }
}
