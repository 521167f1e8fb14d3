//! `adit show node`: what this adit is, and how much it has to do.

use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::config::NodeIdSetting;
use crate::log::log_filter;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeDocument {
    /// Node ID of N4.
    node_id: String,
    version: &'static str,
    /// Where N4 listens.
    n4: String,
    /// The execution model.
    model: &'static str,
    /// "active", or "standby" while another adit is.
    role: &'static str,
    /// "running", "restoring" or "draining".
    state: &'static str,
    /// Time since this process began.
    uptime_s: u64,
    associations: usize,
    sessions: usize,
    sessions_max: usize,
    /// The filter of the log.
    log: Option<String>,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let parts = control.parts;
    let node = &parts.node;
    let node_id = match &parts.config.node.id {
        NodeIdSetting::Ipv4(addr) => addr.to_string(),
        NodeIdSetting::Ipv6(addr) => addr.to_string(),
        NodeIdSetting::Fqdn(name) => name.clone(),
    };
    let state = match (node.is_restoring(), node.is_draining()) {
        (true, _) if parts.role.is_active() => "restoring",
        (_, true) => "draining",
        _ => "running",
    };
    let document = NodeDocument {
        node_id,
        version: env!("CARGO_PKG_VERSION"),
        n4: parts.config.n4_listen.to_string(),
        model: parts.model,
        role: if parts.role.is_active() { "active" } else { "standby" },
        state,
        uptime_s: parts.started.elapsed().as_secs(),
        associations: node.associations().count(),
        sessions: node.store().len(),
        sessions_max: node.store().sessions_max(),
        log: log_filter::current(),
    };
    whole(document, |document| document)
}
