//! News from the control thread to a client's thread.

use adit_rules::TapItem;
use adit_types::{InterfaceId, PortId};

/// The news that a client's thread receives.
#[derive(Debug)]
pub(crate) enum TapNews {
    /// The items of one record.
    Record(Vec<TapItem>),
    /// Nothing: a sign of life.
    Tick,
    /// The tap has ended.
    Ended(TapEnd),
}

/// How a tap ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TapEnd {
    /// Why.
    pub why: &'static str,
    /// Packets left out because workers or the client had no room.
    pub skipped: u64,
}

/// Names that put records in words.
#[derive(Debug)]
pub(crate) struct TapNames {
    /// By `InterfaceId`.
    pub interfaces: Vec<String>,
    /// By `PortId`.
    pub ports: Vec<String>,
    /// The time of day at zero of the clock. Unit: nanoseconds since 1970-01-01 00:00 UTC.
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
