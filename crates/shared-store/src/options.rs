//! Settings of a client of a shared store.

use core::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Options of a client: where the records are, and how they are kept.
#[derive(Debug, Clone)]
pub struct SharedStoreOptions {
    /// All servers of a replicated store, or some servers of a Cluster; at least one.
    pub servers: Vec<SocketAddr>,
    /// The name of the records. Adits that take over from each other use the same name. No braces.
    pub name: String,
    /// The name of this adit: the same after a restart on this host, and different on each host. A
    /// new process of an instance takes the lease from a previous one at once.
    pub instance: String,
    /// A random number that distinguishes the processes of an instance.
    pub process: u64,
    /// The login, if the servers require one.
    pub login: Option<StoreLogin>,
    /// How many replicas must have a group before it is durable.
    pub acknowledge_replicas: u32,
    /// How long the lease lasts after it was last prolonged. The holder prolongs it three times in
    /// that time.
    pub lease: Duration,
    /// How long a call waits for a primary, at most.
    pub patience: Duration,
}

impl SharedStoreOptions {
    /// Returns the name of this process in the lease.
    pub(crate) fn holder(&self) -> String {
        format!("{}{:016x}", self.instance_prefix(), self.process)
    }

    /// Returns the prefix that the names of all processes of this instance have.
    pub(crate) fn instance_prefix(&self) -> String {
        format!("{}/", self.instance)
    }

    /// Returns how long a connected server may leave a command without reply: short enough that
    /// another server can be found before the lease is over.
    pub(crate) fn silence(&self) -> Duration {
        (self.lease / 2).clamp(Duration::from_millis(150), Duration::from_secs(1))
    }

    /// Returns how long the search waits for other primaries once one is usable.
    pub(crate) fn grace(&self) -> Duration {
        (self.lease / 4).min(Duration::from_millis(250))
    }

    /// Returns the length of the lease in milliseconds, as an argument of scripts.
    pub(crate) fn lease_ms(&self) -> String {
        self.lease.as_millis().max(1).to_string()
    }
}

/// A user and the password.
#[derive(Clone)]
pub struct StoreLogin {
    /// The user; empty for the default user.
    pub username: String,
    /// The password.
    pub password: String,
}

/// Shows no password.
impl fmt::Debug for StoreLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreLogin").field("username", &self.username).finish_non_exhaustive()
    }
}
