//! The configuration with which the program is loaded.

use core::fmt;

use adit_rules::OffloadInterface;
use adit_types::{DomainId, Ipv4Prefix, PortId};

/// The sizes of maps, and values that never change.
#[derive(Debug, Clone)]
pub struct XdpConfig {
    /// Sessions at most.
    pub sessions_max: usize,
    /// Low bits of a TEID that are an index of TEIDs.
    pub teid_slot_bits: u8,
    /// Next hops at most.
    pub next_hops_max: usize,
    /// Logical interfaces, by id.
    pub interfaces: Vec<OffloadInterface>,
    /// Pools of UE addresses, which are found by a direct index.
    pub ue_pools_v4: Vec<(DomainId, Ipv4Prefix)>,
    /// Network devices by port. The program forwards packets through these ports only.
    pub devices: Vec<(PortId, u32)>,
}

/// Why there is no program: one sentence.
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
