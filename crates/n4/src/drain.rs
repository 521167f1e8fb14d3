//! The usage of all sessions, reported before their association is released.
//!
//! Sessions end one after another, a bounded number at a time, and each reports its last usage.
//! When all is acknowledged, or given up, the CP function is notified, or its release request is
//! carried out. Only for CP functions with EPFAR. Spec: TS 29.244 §5.18, §6.2.7, §6.2.8.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use adit_pfcp::Header;
use adit_session::OwnerId;
use adit_types::{Nanos, SessionIndex};

/// A release request whose sessions have yet to report.
#[derive(Debug)]
pub(crate) struct WaitingRelease {
    pub from: SocketAddr,
    pub header: Header,
    pub body: Vec<u8>,
    /// When the association goes, whatever is reported by then.
    pub until: Nanos,
}

/// An association whose sessions end.
#[derive(Debug)]
pub(crate) struct Drain {
    /// Sessions below this index have ended.
    pub next: SessionIndex,
    pub release: Option<WaitingRelease>,
    /// The CP function has been notified that all usage was reported.
    pub is_notified: bool,
}

/// All associations whose sessions end.
pub(crate) type Drains = BTreeMap<OwnerId, Drain>;
