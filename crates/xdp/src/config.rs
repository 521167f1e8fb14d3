//! The configuration that the program is loaded with.

use core::fmt;

use adit_rules::OffloadInterface;
use adit_types::{DomainId, Ipv4Prefix, PortId};

/// The sizes of maps, and values that never change.
#[derive(Debug, Clone)]
pub struct XdpConfig {
    /// Maximum number of sessions.
    pub sessions_max: usize,
    /// Number of low bits of a TEID that index the map of TEIDs.
    pub teid_slot_bits: u8,
    /// Maximum number of next hops.
    pub next_hops_max: usize,
    /// Logical interfaces, in the order of their ids.
    pub interfaces: Vec<OffloadInterface>,
    /// Pools of UE IPv4 addresses, which are found by a direct index.
    pub ue_pools_v4: Vec<(DomainId, Ipv4Prefix)>,
    /// Ports with the indexes of their network devices. The program forwards packets only through
    /// these ports.
    pub devices: Vec<(PortId, u32)>,
}

/// The reason why there is no program, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpError(pub String);

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for XdpError {}

impl XdpError {
    pub(crate) fn of(what: &str, error: &libbpf_rs::Error) -> Self {
        Self(format!("{what}: {error:#}"))
    }
}
