//! Kinds of settings, and their cost for other programs.

use crate::tuning::SettingForm;

/// The kind of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingKind {
    /// The algorithm that chooses frequencies.
    Governor,
    /// Lowest and highest frequency.
    FrequencyLimits,
    /// Frequencies above the nominal one, for short times.
    Turbo,
    /// States in which an idle CPU saves energy.
    IdleStates,
    /// Whether a core has several CPUs.
    Siblings,
    /// CPUs that receive interrupts.
    Interrupts,
    /// CPUs that are reserved for one cgroup.
    Partition,
    /// Migration of pages to the node of the thread that uses them.
    NumaBalancing,
    /// Large pages for programs that did not request them.
    TransparentHugePages,
    /// Migration of timers to other CPUs.
    TimerMigration,
    /// The kernel's detection of stuck CPUs.
    Watchdog,
    /// The share of time that real-time threads must leave to other threads.
    RealTimeThrottling,
    /// Reserved hugepages.
    HugePages,
}

impl SettingKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::Governor,
        Self::FrequencyLimits,
        Self::Turbo,
        Self::IdleStates,
        Self::Siblings,
        Self::Interrupts,
        Self::Partition,
        Self::NumaBalancing,
        Self::TransparentHugePages,
        Self::TimerMigration,
        Self::Watchdog,
        Self::RealTimeThrottling,
        Self::HugePages,
    ];

    /// Returns the name of the kind in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Governor => "governor",
            Self::FrequencyLimits => "frequency",
            Self::Turbo => "turbo",
            Self::IdleStates => "idle-states",
            Self::Siblings => "siblings",
            Self::Interrupts => "interrupts",
            Self::Partition => "partition",
            Self::NumaBalancing => "numa-balancing",
            Self::TransparentHugePages => "transparent-hugepages",
            Self::TimerMigration => "timer-migration",
            Self::Watchdog => "watchdog",
            Self::RealTimeThrottling => "rt-throttling",
            Self::HugePages => "hugepages",
        }
    }

    /// Describes the cost of the setting for other programs on the machine. Figures: study 004,
    /// table 2, the throughput of transcoding and of a computation beside real-time threads,
    /// relative to that with only a fixed frequency.
    #[must_use]
    pub const fn neighbor_cost(self) -> &'static str {
        match self {
            Self::Governor | Self::FrequencyLimits => {
                "idle time saves less power; no throughput (the reference of study 004, table 2)"
            }
            Self::Turbo => "without it single threads lose the frequencies above the nominal one",
            Self::IdleStates => {
                "without them on all CPUs 62 to 100 % of the throughput is left, on those of real-time threads 84 to \
                 100 % (study 004, table 2); more power"
            }
            Self::Siblings => {
                "without them 61 to 88 % of the throughput is left (study 004, table 2)"
            }
            Self::Interrupts => "the other CPUs handle all interrupts",
            Self::Partition => "no other process gets these CPUs, even if they are idle",
            Self::NumaBalancing => "processes without a placement of their own keep remote pages",
            Self::TransparentHugePages => "processes that do not request large pages get none",
            Self::TimerMigration => "idle CPUs wake for their own timers; more power",
            Self::Watchdog => "the kernel no longer reports these CPUs if they are stuck",
            Self::RealTimeThrottling => {
                "a real-time thread that never sleeps keeps its CPU from everybody, the kernel included"
            }
            Self::HugePages => "the memory is not available for anything else",
        }
    }
}

/// A value that a file should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningSetting {
    /// The kind of setting.
    pub kind: SettingKind,
    /// Path of the file.
    pub path: String,
    /// Format of the file.
    pub form: SettingForm,
    /// The requested value, as [`SettingForm::value`] returns it.
    pub wanted: String,
    /// True if a refusal by the kernel is harmless, as for interrupts that are bound to a CPU.
    pub may_be_refused: bool,
    /// The type of file at `path`.
    pub place: SettingPlace,
}

/// The type of file that has a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingPlace {
    /// An existing file.
    File,
    /// A cgroup to create; the requested value is `exists`.
    Folder,
    /// A file that the kernel creates together with such a cgroup.
    NewFile,
}

impl TuningSetting {
    /// Makes a setting in an existing file.
    pub(crate) fn new(kind: SettingKind, path: String, form: SettingForm, wanted: &str) -> Self {
        Self {
            kind,
            path,
            form,
            wanted: form.value_of_wanted(wanted),
            may_be_refused: false,
            place: SettingPlace::File,
        }
    }
}

impl SettingForm {
    /// Converts a requested value for comparison; that of the cgroup controller already has the
    /// right form.
    fn value_of_wanted(self, wanted: &str) -> String {
        match self {
            Self::CpusetController => wanted.to_owned(),
            _ => self.value(wanted),
        }
    }
}

/// A setting that this machine does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSetting {
    /// The kind of setting.
    pub kind: SettingKind,
    /// The reason, as a sentence.
    pub why: String,
}
