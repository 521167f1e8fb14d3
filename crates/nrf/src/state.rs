//! The state of a registration, for operators.

use adit_types::Nanos;

use crate::profile::NfStatus;

/// Progress of a registration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NrfPhase {
    /// No profile is announced, or not any more.
    #[default]
    Waiting,
    /// No NRF has the registration; the client tries to register.
    Registering,
    /// An NRF has the registration.
    Registered,
    /// The client has ended.
    Ended,
}

/// The state of a client at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NrfState {
    /// Progress of the registration.
    pub phase: NrfPhase,
    /// Index in `servers` of the NRF that has the registration.
    pub server: Option<usize>,
    /// URI of the registration at that NRF.
    pub resource: Option<String>,
    /// The status of the UPF that this NRF has.
    pub status: Option<NfStatus>,
    /// The load of the UPF that this NRF has. Unit: percent.
    pub load: Option<u8>,
    /// Time between heartbeats, which the NRF has set.
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
    /// Why the last request to the NRF failed, and what to do; `None` if it succeeded.
    pub problem: Option<String>,
    /// Consecutive requests that failed.
    pub failures: u32,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NrfCounters {
    /// Registrations that an NRF accepted.
    pub registrations: u64,
    /// Heartbeats and changes that an NRF accepted.
    pub updates: u64,
    /// Registrations that an NRF had lost when a heartbeat came.
    pub forgotten: u64,
    /// Requests that failed or were refused.
    pub failures: u64,
    /// Redirections that were followed.
    pub redirects: u64,
    /// Access tokens granted.
    pub tokens: u64,
}
