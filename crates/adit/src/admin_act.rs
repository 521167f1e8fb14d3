//! Acts by which an operator changes a running adit, over the admin socket and the HTTP interface
//! alike.

/// An act of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminAct {
    /// This adit, a standby, is to become the active one.
    TakeOver,
    /// The session with this UP SEID ends.
    EndSession(String),
    /// The records of the session with this UP SEID that is set aside are removed, or of "all".
    DiscardSession(String),
    /// The trace or capture with this number ends.
    EndTap(String),
    /// Requests the CP function with this Node ID to release its association.
    ReleaseAssociation(String),
    /// The association with the CP function that has this Node ID ends without its word, with all sessions.
    EndAssociation(String),
    /// No new sessions, or new ones again.
    Drain(bool),
    /// The sessions of the worker with this number go to the others.
    DrainWorker(String),
    /// The worker with this number gets sessions again.
    ResumeWorker(String),
    /// The filter of the log, as in `RUST_LOG`.
    SetLog(String),
    /// The configuration file is read again.
    Reload,
}

impl AdminAct {
    /// Its name on the admin socket and in the log.
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

    /// The object of the act.
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

    /// The act of a request.
    ///
    /// # Errors
    /// There is no such act, or it is about something else.
    pub(crate) fn parse(word: &str, of: Option<String>) -> Result<Self, String> {
        match (word, of) {
            ("takeover", None) => Ok(Self::TakeOver),
            ("reload", None) => Ok(Self::Reload),
            ("end_session", Some(of)) => Ok(Self::EndSession(of)),
            ("discard_session", Some(of)) => Ok(Self::DiscardSession(of)),
            ("end_tap", Some(of)) => Ok(Self::EndTap(of)),
            ("release_association", Some(of)) => Ok(Self::ReleaseAssociation(of)),
            ("end_association", Some(of)) => Ok(Self::EndAssociation(of)),
            ("drain", Some(of)) if of == "on" => Ok(Self::Drain(true)),
            ("drain", Some(of)) if of == "off" => Ok(Self::Drain(false)),
            ("drain", _) => Err("\"drain\" is \"on\" or \"off\"".to_owned()),
            ("drain_worker", Some(of)) => Ok(Self::DrainWorker(of)),
            ("resume_worker", Some(of)) => Ok(Self::ResumeWorker(of)),
            ("log", Some(of)) => Ok(Self::SetLog(of)),
            ("takeover" | "reload", Some(_)) => Err(format!("\"{word}\" is of nothing")),
            (
                "end_session"
                | "discard_session"
                | "end_tap"
                | "release_association"
                | "end_association"
                | "drain_worker"
                | "resume_worker"
                | "log",
                None,
            ) => Err(format!("\"{word}\" needs \"of\"")),
            _ => Err(format!("cannot do \"{word}\"")),
        }
    }
}
