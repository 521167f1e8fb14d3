//! `adit show nrf`: the registration at an NRF.

use adit_nrf::{NfStatus, NrfPhase, NrfServerState, NrfState};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NrfDocument {
    /// "off" without `[nrf]`; "waiting" on a standby, while sessions are restored and while adit
    /// is paused; "registering", "registered", or "ended".
    state: &'static str,
    nf_instance_id: Option<String>,
    /// The NRF that has the registration.
    nrf: Option<String>,
    /// Its resource there.
    resource: Option<String>,
    /// The status that this NRF has: "registered", or "undiscoverable" while adit drains.
    nf_status: Option<&'static str>,
    /// The load that this NRF has.
    load_percent: Option<u8>,
    /// Time between heartbeats, as the NRF has set it.
    heartbeat_s: Option<u64>,
    /// Registrations, and heartbeats with changes, that an NRF accepted.
    registrations: u64,
    heartbeats: u64,
    /// Registrations that the NRF had lost when a heartbeat came.
    forgotten: u64,
    /// Requests that failed or were refused.
    failures: u64,
    redirects: u64,
    tokens: u64,
    /// All NRFs by priority.
    servers: Vec<NrfServerRow>,
}

tables!(NrfDocument { servers: NrfServerRow [uri, failures, problem] });

/// An NRF.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NrfServerRow {
    uri: String,
    /// Requests in a row that failed.
    failures: u32,
    /// Why the last one failed, and what to do.
    problem: Option<String>,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let announcer = control.parts.nrf.as_ref();
    let id = announcer.map(|of| of.instance().to_string());
    let state = announcer.map(|announcer| announcer.state());
    whole((id, state), |(id, state)| document(id, state))
}

fn document(nf_instance_id: Option<String>, state: Option<NrfState>) -> NrfDocument {
    let word = state.as_ref().map_or("off", |state| match state.phase {
        NrfPhase::Waiting => "waiting",
        NrfPhase::Registering => "registering",
        NrfPhase::Registered => "registered",
        NrfPhase::Ended => "ended",
    });
    let NrfState { server, resource, status, load, heartbeat, servers, counters, .. } =
        state.unwrap_or_default();
    let nrf = server.and_then(|server| servers.get(server)).map(|server| server.uri.clone());
    let nf_status = status.map(|status| match status {
        NfStatus::Registered => "registered",
        NfStatus::Undiscoverable => "undiscoverable",
    });
    let row = |server: NrfServerState| {
        let NrfServerState { uri, problem, failures } = server;
        NrfServerRow { uri, failures, problem }
    };
    NrfDocument {
        state: word,
        nf_instance_id,
        nrf,
        resource,
        nf_status,
        load_percent: load,
        heartbeat_s: heartbeat.map(|span| span.to_duration().as_secs()),
        registrations: counters.registrations,
        heartbeats: counters.updates,
        forgotten: counters.forgotten,
        failures: counters.failures,
        redirects: counters.redirects,
        tokens: counters.tokens,
        servers: servers.into_iter().map(row).collect(),
    }
}
