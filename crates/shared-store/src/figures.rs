//! Figures of a shared store, for operators.

use std::net::SocketAddr;
use std::time::Instant;

use adit_store::GroupPosition;

/// The state of the client of a shared store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedStoreFigures {
    /// The server in use; `None` while no server can be used.
    pub server: Option<SocketAddr>,
    /// How many replicas are connected to the server, according to its latest reply.
    pub replicas: u32,
    /// The present or last holder of the lease, as last read.
    pub holder: String,
    /// The epoch of this process; 0 unless it holds the lease.
    pub epoch: u64,
    /// See [`SharedStore::lease_valid_until`](crate::SharedStore::lease_valid_until).
    pub lease_valid_until: Option<Instant>,
    /// The last group that the server has, as last read.
    pub last: GroupPosition,
    /// How often a connection failed or was lost; if all servers fail, each counts.
    pub connection_failures: u64,
    /// How many groups were written.
    pub groups: u64,
    /// How many groups were sent again after the connection was lost.
    pub groups_resent: u64,
    /// True if servers lost records, and the adit process that wrote all records again ended before
    /// it was done.
    pub is_incomplete: bool,
    /// Advice to operators about the server in use.
    pub warnings: Vec<String>,
    /// Octets of groups that are not durable yet.
    pub pending_octets: usize,
}
