//! Linux settings of the machine for real-time work: profiles, the present settings, and how to
//! apply a profile and revert it.
//!
//! A profile of study 004 becomes a list of [`TuningSetting`]s. [`check()`] compares them with the
//! machine. [`apply()`] writes a journal and then the settings that differ. [`revert()`] restores
//! the previous value of each setting that still has the value that `apply()` wrote.
//! [`FrequencyScaling`] changes frequencies while a process runs, with a journal of its own. All
//! files are accessed through [`HostFiles`], so that tests can use a simulated machine. Settings
//! that end with a process ([`CpuLatencyHold`]) or need a restart ([`kernel_parameters()`]) are not
//! in the journal.
//!
//! Source: study 004, *On the use of Linux real-time features for RAN packet processing*, sections
//! 3 and 4, table 1.

mod apply;
mod check;
mod command_line;
mod core_scheduling;
mod error;
mod files;
mod form;
mod frequency;
mod journal;
mod latency;
mod power;
mod profile;
mod request;
mod setting;
mod wanted;

pub use apply::{AppliedTuning, RevertedTuning, apply, revert};
pub use check::{CheckedSetting, SettingState, TuningReport, check};
pub use command_line::{KernelParameter, kernel_parameters};
pub use core_scheduling::{CoreScheduling, core_scheduling};
pub use error::TuningError;
pub use files::{HostFiles, RootedFiles};
pub use form::SettingForm;
pub use frequency::{
    CpuLoad, FrequencyChange, FrequencyRange, FrequencyScaling, FrequencySurvey, frequency_survey,
    revert_frequencies,
};
pub use journal::JOURNAL_PATH;
pub use latency::CpuLatencyHold;
pub use power::{CpuPower, EnergyZone, IdleStateTime, cpu_power, energy_zones};
pub use profile::TuningProfile;
pub use request::{HugePagesWanted, TuningRequest};
pub use setting::{MissingSetting, SettingKind, SettingPlace, TuningSetting};
