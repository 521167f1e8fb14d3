//! Acts by which an operator changes a running adit.

use serde_json::json;

use crate::request::http_client::{HttpRequest, encoded};

/// An act of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminAct {
    /// Makes this adit, a standby, the active one.
    TakeOver,
    /// Ends the session with this UP SEID.
    EndSession(String),
    /// Removes the records of the set-aside session with this UP SEID, or of all such sessions
    /// ("all").
    DiscardSession(String),
    /// Ends the trace or capture with this number.
    EndTap(String),
    /// Requests the CP function with this Node ID to release its association.
    ReleaseAssociation(String),
    /// Ends the association with the CP function that has this Node ID, without the CP function,
    /// and all sessions of the association.
    EndAssociation(String),
    /// Refuses new sessions, or accepts them again.
    Drain(bool),
    /// Moves the sessions of the worker with this index to the other workers.
    DrainWorker(String),
    /// Gives the worker with this index sessions again.
    ResumeWorker(String),
    /// Sets the filter of the log, in the form of `RUST_LOG`.
    SetLog(String),
    /// Reads the configuration file again.
    Reload,
}

impl AdminAct {
    /// The name of the act in the log.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::TakeOver => "takeover",
            Self::EndSession(_) => "end_session",
            Self::DiscardSession(_) => "discard_session",
            Self::EndTap(_) => "end_tap",
            Self::ReleaseAssociation(_) => "release_association",
            Self::EndAssociation(_) => "end_association",
            Self::Drain(_) => "drain",
            Self::DrainWorker(_) => "drain_worker",
            Self::ResumeWorker(_) => "resume_worker",
            Self::SetLog(_) => "log",
            Self::Reload => "reload",
        }
    }

    /// The object of the act, such as a UP SEID; `None` for acts without one.
    pub(crate) fn object(&self) -> Option<&str> {
        match self {
            Self::TakeOver | Self::Reload => None,
            Self::EndSession(of) | Self::DiscardSession(of) => Some(of),
            Self::EndTap(of) | Self::SetLog(of) => Some(of),
            Self::ReleaseAssociation(of) | Self::EndAssociation(of) => Some(of),
            Self::DrainWorker(of) | Self::ResumeWorker(of) => Some(of),
            Self::Drain(true) => Some("on"),
            Self::Drain(false) => Some("off"),
        }
    }

    /// Returns the HTTP request that carries out the act.
    pub(crate) fn request(&self) -> HttpRequest {
        let delete = |path: &str, of: &str, query: &str| {
            HttpRequest::new("DELETE", format!("{path}/{}{query}", encoded(of)))
        };
        let worker = |of: &str, on: bool| {
            let path = format!("/v1/workers/{}/drain", encoded(of));
            HttpRequest::new("PUT", path).with_body(json!({ "on": on }))
        };
        match self {
            Self::TakeOver => HttpRequest::new("POST", "/v1/takeover"),
            Self::EndSession(seid) => delete("/v1/sessions", seid, ""),
            Self::DiscardSession(seid) => delete("/v1/store/set_aside", seid, ""),
            Self::EndTap(tap) => delete("/v1/taps", tap, ""),
            Self::ReleaseAssociation(node_id) => delete("/v1/associations", node_id, ""),
            Self::EndAssociation(node_id) => delete("/v1/associations", node_id, "?force=true"),
            Self::Drain(on) => HttpRequest::new("PUT", "/v1/drain").with_body(json!({ "on": on })),
            Self::DrainWorker(of) => worker(of, true),
            Self::ResumeWorker(of) => worker(of, false),
            Self::SetLog(of) => {
                HttpRequest::new("PUT", "/v1/log").with_body(json!({ "filter": of }))
            }
            Self::Reload => HttpRequest::new("POST", "/v1/reload"),
        }
    }
}
