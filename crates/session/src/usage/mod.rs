//! Usage of URRs: measurements, thresholds, quotas and timers. For their use in the store see
//! `procedure::usage`.

pub(crate) mod activation;
mod measurement;
mod report;
mod session_usage;

pub(crate) use measurement::Measurement;
pub use report::{UsagePart, UsageReport, UsageVolume};
pub(crate) use session_usage::{
    EndedMeasurement, InactivityTimer, SessionUsage, UsageChange, UsageSourceHandle,
};
pub use session_usage::{RunningUsage, TrafficStart, UsageOutcome};
pub(crate) use session_usage::{advance_activity, advance_urrs};
