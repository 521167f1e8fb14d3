//! Messages from the control thread to the thread of a tap's client.

use adit_rules::TapItem;
use adit_types::{InterfaceId, PortId};

/// A message from the control thread to the thread of a tap's client.
#[derive(Debug)]
pub(crate) enum TapMessage {
    /// The items of one packet's record.
    Record(Vec<TapItem>),
    /// No news: makes the client's thread check whether its client is gone.
    Tick,
    /// The tap has ended.
    Ended(TapEnd),
}

/// How a tap ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TapEnd {
    /// The reason: "packets", "duration", "ended", "client" or "shutdown".
    pub why: &'static str,
    /// Packets left out because workers or the client had no room.
    pub skipped: u64,
}

/// Names and the time of day, for the documents of packets.
#[derive(Debug)]
pub(crate) struct TapNames {
    /// Names of interfaces, by `InterfaceId`.
    pub interfaces: Vec<String>,
    /// Names of ports, by `PortId`.
    pub ports: Vec<String>,
    /// Time of day at which the process clock was zero. Unit: nanoseconds since 1970-01-01 00:00
    /// UTC.
    pub zero_unix_ns: u64,
}

impl TapNames {
    pub(super) fn interface(&self, InterfaceId(interface): InterfaceId) -> String {
        let name = self.interfaces.get(usize::from(interface));
        name.cloned().unwrap_or_else(|| interface.to_string())
    }

    pub(super) fn port(&self, PortId(port): PortId) -> String {
        let name = self.ports.get(usize::from(port));
        name.cloned().unwrap_or_else(|| port.to_string())
    }
}
