//! Errors of tuning a machine.

use std::io;

use crate::placement::CpuSet;
use thiserror::Error;

use crate::tuning::TuningProfile;

/// The reason why settings were not read, applied or reverted.
#[derive(Debug, Error)]
pub enum TuningError {
    /// The list of online CPUs cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The list of online CPUs is malformed.
    #[error("the kernel's list of online CPUs, \"{text}\", is not a list of CPUs")]
    Online {
        /// The list.
        text: String,
    },
    /// The profile needs a list of CPUs, and the request has none.
    #[error("profile {profile} needs the CPUs of the real-time threads: --cores 2-3")]
    NoCores {
        /// The profile.
        profile: TuningProfile,
    },
    /// The request has a list of CPUs, which the profile does not use.
    #[error("profile {profile} treats all CPUs alike; leave out --cores and --partition")]
    UnusedCores {
        /// The profile.
        profile: TuningProfile,
    },
    /// The request names CPUs that are not online.
    #[error("CPU {unknown} is not online; online are {online}")]
    UnknownCores {
        /// CPUs that are named, but not online.
        unknown: CpuSet,
        /// Online CPUs.
        online: CpuSet,
    },
    /// The request names all CPUs.
    #[error(
        "CPUs {cores} are all that are online; interrupts and other processes need at least one other"
    )]
    NoOtherCores {
        /// CPUs that are named.
        cores: CpuSet,
    },
    /// The request names a CPU that the profile turns off as a sibling.
    #[error(
        "profile rt turns siblings off, and CPU {cpu} is a later sibling of CPU {first}; name CPU {first}"
    )]
    LaterSibling {
        /// The CPU that is named.
        cpu: u32,
        /// The sibling that stays online.
        first: u32,
    },
    /// The name of the partition is no name of a cgroup.
    #[error("\"{name}\" is not the name of a cgroup below the root cgroup, such as adit")]
    PartitionName {
        /// The name.
        name: String,
    },
    /// Settings differ, and none of them can be changed.
    #[error(
        "{count} settings differ, and this process can change none of them: {why}; changes need root"
    )]
    NothingChangeable {
        /// Number of settings that differ.
        count: usize,
        /// The reason why the first of them cannot be changed.
        why: String,
    },
    /// The settings of an earlier `apply` are in place.
    #[error("profile {profile} is applied; take it back first with `adit host revert`")]
    AlreadyApplied {
        /// The profile of the journal.
        profile: String,
    },
    /// There is no journal.
    #[error("nothing is applied: {journal} does not exist")]
    NotApplied {
        /// The journal.
        journal: &'static str,
    },
    /// The journal is malformed.
    #[error(
        "{journal} is damaged in line {line}; nothing was changed. Compare it with the machine by hand and remove it"
    )]
    DamagedJournal {
        /// Path of the journal.
        journal: String,
        /// Number of the malformed line, from 1.
        line: usize,
    },
    /// The journal cannot be written or removed.
    #[error("{journal} cannot be written: {error}; {state}")]
    Journal {
        /// Path of the journal.
        journal: String,
        /// The system's error.
        error: io::Error,
        /// The state of the settings after this error.
        state: &'static str,
    },
    /// A setting failed, and the others were reverted.
    #[error("{why}; all settings were taken back")]
    Undone {
        /// The failure.
        why: String,
    },
    /// A setting failed, and reverting the others failed as well.
    #[error("{why}; and {left}. The journal stays: repeat `adit host revert`")]
    HalfApplied {
        /// The first failure.
        why: String,
        /// The settings that could not be reverted.
        left: String,
    },
    /// Reverting failed.
    #[error("{left}. The journal stays: repeat `adit host revert`")]
    HalfReverted {
        /// The settings that could not be reverted.
        left: String,
    },
}

impl TuningError {
    pub(crate) fn unreadable(path: &str, error: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), error }
    }
}
