//! The checked request for a trace or a capture.

use core::net::IpAddr;

use adit_rules::DroppedFor;
use adit_types::{Nanos, Seid, Teid};

/// The key by which a request selects packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AskedKey {
    Any,
    Session(Seid),
    Ue(IpAddr),
    Teid(Teid),
    Interface(String),
}

/// A checked request: which packets, how many of them, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TapQuestion {
    pub key: AskedKey,
    pub drop: Option<DroppedFor>,
    pub one_of: u32,
    /// True to report the stages and rules that packets meet: a trace.
    pub stages: bool,
    /// True to try the fast path with a copy of each packet.
    pub path: bool,
    /// `None`: headers only.
    pub snap_bytes: Option<u16>,
    pub pkts_max: u64,
    pub time_max: Nanos,
}

impl TapQuestion {
    /// "trace" or "capture".
    pub(crate) const fn kind(&self) -> &'static str {
        if self.stages { "trace" } else { "capture" }
    }

    /// Describes the packets, for the log and for `adit show taps`.
    pub(crate) fn subject(&self) -> String {
        let key = match &self.key {
            AskedKey::Any => "all packets".to_owned(),
            AskedKey::Session(seid) => format!("session {seid}"),
            AskedKey::Ue(addr) => format!("UE {addr}"),
            AskedKey::Teid(teid) => format!("TEID {teid}"),
            AskedKey::Interface(name) => format!("interface {name}"),
        };
        match self.drop {
            None => key,
            Some(DroppedFor::Any) => format!("{key}, dropped"),
            Some(DroppedFor::Only(reason)) => format!("{key}, dropped as {}", reason.name()),
        }
    }
}
