//! The checked request for a trace or a capture.

use core::net::IpAddr;

use adit_rules::TapDropFilter;
use adit_types::{Nanos, Seid, Teid};

/// The key by which a request selects packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestedTapKey {
    Any,
    Session(Seid),
    Ue(IpAddr),
    Teid(Teid),
    Interface(String),
}

/// A checked request: which packets, how many of them, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TapQuestion {
    pub key: RequestedTapKey,
    pub drop: Option<TapDropFilter>,
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
            RequestedTapKey::Any => "all packets".to_owned(),
            RequestedTapKey::Session(seid) => format!("session {seid}"),
            RequestedTapKey::Ue(addr) => format!("UE {addr}"),
            RequestedTapKey::Teid(teid) => format!("TEID {teid}"),
            RequestedTapKey::Interface(name) => format!("interface {name}"),
        };
        match self.drop {
            None => key,
            Some(TapDropFilter::Any) => format!("{key}, dropped"),
            Some(TapDropFilter::Only(reason)) => format!("{key}, dropped as {}", reason.name()),
        }
    }
}
