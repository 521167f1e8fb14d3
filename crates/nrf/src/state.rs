//! The state of a registration, for operators.

use adit_types::Nanos;

use crate::profile::NfStatus;

/// How far a registration is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NrfPhase {
    /// Nothing is announced, or no longer.
    #[default]
    Waiting,
    /// No NRF has it, and the client tries.
    Registering,
    /// An NRF has it.
    Registered,
    /// The client has ended.
    Ended,
}

/// A client at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NrfState {
    /// How far it is.
    pub phase: NrfPhase,
    /// The NRF that has the registration: its place in `servers`.
    pub server: Option<usize>,
    /// Its resource there.
    pub resource: Option<String>,
    /// The status that this NRF has.
    pub status: Option<NfStatus>,
    /// The load that it has. Unit: per cent.
    pub load: Option<u8>,
    /// Time between heartbeats, as the NRF has set it.
    pub heartbeat: Option<Nanos>,
    /// All NRFs by priority.
    pub servers: Vec<NrfServerState>,
    /// Counts since the start of the client.
    pub counters: NrfCounters,
}

/// An NRF as the client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NrfServerState {
    /// Its URI.
    pub uri: String,
    /// Why the last request to it failed, and what to do. `None` after one that did not.
    pub problem: Option<String>,
    /// Requests in a row that failed.
    pub failures: u32,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NrfCounters {
    /// Registrations that an NRF accepted.
    pub registrations: u64,
    /// Heartbeats and changes that it accepted.
    pub updates: u64,
    /// Registrations that it had lost when a heartbeat came.
    pub forgotten: u64,
    /// Requests that failed or were refused.
    pub failures: u64,
    /// Redirections that were followed.
    pub redirects: u64,
    /// Access tokens granted.
    pub tokens: u64,
}
