//! `adit show health`: whether this adit does its work, and why not.

use adit_store::StoreState;
use adit_types::WorkerId;
use serde::Serialize;
use utoipa::ToSchema;

use super::ports::links_of;
use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::snapshot::store_warnings;
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthDocument {
    /// True if there is no reason against it.
    ready: bool,
    /// Why this adit does not serve sessions.
    reasons: Vec<UnreadyReason>,
    /// Warnings although this adit serves sessions.
    warnings: Vec<String>,
    /// New sessions are refused by the operator's decision.
    draining: bool,
}

tables!(HealthDocument { reasons: UnreadyReason [reason, detail] });

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnreadyReason {
    /// "standby", "restoring", "worker_stands_still", "port_down", "store_full", "store_failing" or
    /// "paused".
    reason: &'static str,
    /// Its subject.
    detail: String,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let reasons = reasons(control);
    let draining = control.parts.node.is_draining();
    let mut warnings = store_warnings::of(control.parts);
    warnings.extend(control.conflicts.warnings(control.parts.clock.now()));
    let document = HealthDocument { ready: reasons.is_empty(), reasons, warnings, draining };
    whole(document, |document| document)
}

fn reasons(control: &ControlView<'_>) -> Vec<UnreadyReason> {
    let parts = control.parts;
    let mut reasons = Vec::new();
    let mut add = |reason, detail: String| reasons.push(UnreadyReason { reason, detail });
    if !parts.role.is_active() {
        add("standby", "another adit is active".to_owned());
    } else if parts.node.is_restoring() {
        add("restoring", "sessions are being restored from the store".to_owned());
    }
    for (worker, thread) in (0..).map(WorkerId).zip(&parts.threads) {
        if control.standstill.is_stopped(usize::from(worker.0)) {
            let (role, core) = (thread.role.name(), thread.core);
            add("worker_stands_still", format!("{role} {worker} on core {core} takes no step"));
        }
    }
    for (port, link) in links_of(control) {
        if link.is_up == Some(false) {
            add("port_down", format!("the link of port {} is down", port.config.name));
        }
    }
    if let Some(why) = control.paused {
        add("paused", why.to_owned());
    }
    let refuses = !parts.config.store.serves_without_store;
    if let Some(store) = parts.store.as_ref().filter(|_| refuses) {
        match store.state() {
            StoreState::Working => {}
            StoreState::Full => {
                add("store_full", "the store has no room for further sessions".to_owned())
            }
            StoreState::Failing => add("store_failing", store.report().failure.unwrap_or_default()),
        }
    }
    reasons
}
