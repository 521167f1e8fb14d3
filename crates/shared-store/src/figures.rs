//! Figures of a shared store for operators.

use std::net::SocketAddr;
use std::time::Instant;

use adit_store::GroupPosition;

/// The state of the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedStoreFigures {
    /// The server in use; `None` while none can be.
    pub server: Option<SocketAddr>,
    /// Replicas that are connected to it, by the latest `INFO`.
    pub replicas: u32,
    /// The holder of the lease, or its last one, as last read.
    pub holder: String,
    /// The epoch of this process; 0 unless it holds the lease.
    pub epoch: u64,
    /// See [`SharedStore::lease_valid_until`](crate::SharedStore::lease_valid_until).
    pub lease_valid_until: Option<Instant>,
    /// The last group that the server has, as last read.
    pub last: GroupPosition,
    /// Connections that failed or were lost, each server counted.
    pub connection_failures: u64,
    /// Groups that were written.
    pub groups: u64,
    /// Groups that were sent again after a loss of the connection.
    pub groups_resent: u64,
    /// An adit that wrote all records again, because servers had lost them, ended before it was
    /// done.
    pub is_incomplete: bool,
    /// Advice to operators about the server in use.
    pub warnings: Vec<String>,
    /// Octets of groups that are not durable.
    pub pending_octets: usize,
}
