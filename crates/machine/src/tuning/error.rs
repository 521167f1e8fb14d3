//! Why a machine is not tuned.

use std::io;

use crate::placement::CpuSet;
use thiserror::Error;

use crate::tuning::TuningProfile;

/// Why settings were not read, applied or taken back.
#[derive(Debug, Error)]
pub enum TuningError {
    /// The list of CPUs cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The list of CPUs has another form.
    #[error("the kernel's list of online CPUs, \"{text}\", is not a list of CPUs")]
    Online {
        /// The list.
        text: String,
    },
    /// The profile needs CPUs.
    #[error("profile {profile} needs the CPUs of the real-time threads: --cores 2-3")]
    NoCores {
        /// The profile.
        profile: TuningProfile,
    },
    /// The profile has no use for CPUs.
    #[error("profile {profile} treats all CPUs alike; leave out --cores and --partition")]
    UnusedCores {
        /// The profile.
        profile: TuningProfile,
    },
    /// The request names CPUs that are not online.
    #[error("CPU {unknown} is not online; online are {online}")]
    UnknownCores {
        /// CPUs named and not online.
        unknown: CpuSet,
        /// Online CPUs.
        online: CpuSet,
    },
    /// The list names all CPUs.
    #[error(
        "CPUs {cores} are all that are online; interrupts and other processes need at least one other"
    )]
    NoOtherCores {
        /// CPUs named.
        cores: CpuSet,
    },
    /// Without siblings a named CPU ends.
    #[error(
        "profile rt turns siblings off, and CPU {cpu} is a later sibling of CPU {first}; name CPU {first}"
    )]
    LaterSibling {
        /// The CPU named.
        cpu: u32,
        /// The sibling that stays.
        first: u32,
    },
    /// The partition has no proper name.
    #[error("\"{name}\" is not the name of a cgroup below the root cgroup, such as adit")]
    PartitionName {
        /// The name.
        name: String,
    },
    /// Nothing that differs can be changed.
    #[error(
        "{count} settings differ, and this process can change none of them: {why}; changes need root"
    )]
    NothingChangeable {
        /// How many.
        count: usize,
        /// Why the first one cannot.
        why: String,
    },
    /// Settings of an earlier call are in place.
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
    /// The journal is not one.
    #[error(
        "{journal} is damaged in line {line}; nothing was changed. Compare it with the machine by hand and remove it"
    )]
    DamagedJournal {
        /// The journal.
        journal: String,
        /// Line, from 1.
        line: usize,
    },
    /// The journal cannot be written or removed.
    #[error("{journal} cannot be written: {error}; {state}")]
    Journal {
        /// The journal.
        journal: String,
        /// Why.
        error: io::Error,
        /// The consequence for the settings.
        state: &'static str,
    },
    /// A setting failed, and the others were taken back.
    #[error("{why}; all settings were taken back")]
    Undone {
        /// The failure.
        why: String,
    },
    /// A setting failed, and taking back failed as well.
    #[error("{why}; and {left}. The journal stays: repeat `adit host revert`")]
    HalfApplied {
        /// The failure.
        why: String,
        /// The settings that could not be taken back.
        left: String,
    },
    /// Taking back failed.
    #[error("{left}. The journal stays: repeat `adit host revert`")]
    HalfReverted {
        /// The settings that could not be taken back.
        left: String,
    },
}

impl TuningError {
    pub(crate) fn unreadable(path: &str, error: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), error }
    }
}
