//! Drains associations: reports the usage of all sessions before their association is released.
//!
//! Sessions end one after another, a bounded number at a time, and each reports its last usage.
//! When all usage is acknowledged or given up, the CP function is notified, or the release that it
//! requested is completed. Only for CP functions with EPFAR. Spec: TS 29.244 §5.18, §6.2.7, §6.2.8.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use adit_pfcp::Header;
use adit_session::OwnerId;
use adit_types::{Nanos, SessionIndex};

/// A release request that waits until the sessions have reported their last usage.
#[derive(Debug)]
pub(crate) struct WaitingRelease {
    pub from: SocketAddr,
    pub header: Header,
    pub body: Vec<u8>,
    /// When the association is released even if not all usage was reported.
    pub until: Nanos,
}

/// An association that is being drained.
#[derive(Debug)]
pub(crate) struct Drain {
    /// Sessions with lower indices than this one have ended.
    pub next: SessionIndex,
    pub release: Option<WaitingRelease>,
    /// True once the CP function was notified that all usage was reported.
    pub is_notified: bool,
}

/// All associations that are being drained.
pub(crate) type Drains = BTreeMap<OwnerId, Drain>;
