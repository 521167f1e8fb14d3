//! Settings of a client of a shared store.

use core::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Where the records are, and how they are kept.
#[derive(Debug, Clone)]
pub struct SharedStoreOptions {
    /// All servers of a replicated store, or some of a Cluster. At least one.
    pub servers: Vec<SocketAddr>,
    /// The name of the records: adits that take over from each other have the same one. No braces.
    pub name: String,
    /// The name of this adit, the same after a restart on this host and different on each other
    /// one. A previous process of this instance loses its lease to this one at once.
    pub instance: String,
    /// Unpredictable: distinguishes the processes of an instance.
    pub process: u64,
    /// How to log in, if servers require it.
    pub login: Option<StoreLogin>,
    /// Replicas that must have a group before it is durable.
    pub acknowledge_replicas: u32,
    /// How long the lease lasts without being prolonged. It is prolonged three times as often.
    pub lease: Duration,
    /// How long a call waits for a primary.
    pub patience: Duration,
}

impl SharedStoreOptions {
    /// The name of this process in the lease.
    pub(crate) fn holder(&self) -> String {
        format!("{}{:016x}", self.instance_prefix(), self.process)
    }

    /// The prefix of the names of all processes of this instance.
    pub(crate) fn instance_prefix(&self) -> String {
        format!("{}/", self.instance)
    }

    /// How long a connected server may leave a command without reply: so that the lease is not over
    /// before another server is found.
    pub(crate) fn silence(&self) -> Duration {
        (self.lease / 2).clamp(Duration::from_millis(150), Duration::from_secs(1))
    }

    /// How long the first primary that answers waits for others.
    pub(crate) fn grace(&self) -> Duration {
        (self.lease / 4).min(Duration::from_millis(250))
    }

    /// Milliseconds of the lease.
    pub(crate) fn lease_ms(&self) -> String {
        self.lease.as_millis().max(1).to_string()
    }
}

/// A password, and the user whose it is.
#[derive(Clone)]
pub struct StoreLogin {
    /// The user; empty for the default one.
    pub username: String,
    /// The password.
    pub password: String,
}

/// Without the password.
impl fmt::Debug for StoreLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreLogin").field("username", &self.username).finish_non_exhaustive()
    }
}
