//! Kinds of settings, with their cost for neighbors.

use crate::tuning::SettingForm;

/// The kind of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingKind {
    /// Who chooses frequencies.
    Governor,
    /// Lowest and highest frequency.
    FrequencyLimits,
    /// Frequencies above the nominal one for short times.
    Turbo,
    /// States in which an idle CPU saves energy.
    IdleStates,
    /// Several CPUs per core.
    Siblings,
    /// CPUs that get interrupts.
    Interrupts,
    /// CPUs that only one cgroup uses.
    Partition,
    /// Pages that follow threads to their node.
    NumaBalancing,
    /// Large pages without request.
    TransparentHugePages,
    /// Timers that move to other CPUs.
    TimerMigration,
    /// The kernel's watch for CPUs that are stuck.
    Watchdog,
    /// The share of time that real-time threads leave to others.
    RealTimeThrottling,
    /// Reserved large pages.
    HugePages,
}

impl SettingKind {
    /// All of them.
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

    /// Its name in reports.
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

    /// The cost of the setting for other programs on the machine. Figures: study 004, table 2,
    /// throughput of a transcoding and of a computation together with the real-time threads,
    /// relative to a fixed frequency alone.
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
    /// Its kind.
    pub kind: SettingKind,
    /// The file.
    pub path: String,
    /// Its form.
    pub form: SettingForm,
    /// The value, as [`SettingForm::value`] returns it.
    pub wanted: String,
    /// Whether the kernel may refuse it without harm, as with interrupts that are bound to a CPU.
    pub may_be_refused: bool,
    /// The kind of `path`.
    pub place: SettingPlace,
}

/// The kind of a setting's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingPlace {
    /// A file that exists.
    File,
    /// A cgroup to make; the requested value is `exists`.
    Folder,
    /// A file that the kernel makes with such a cgroup.
    NewFile,
}

impl TuningSetting {
    /// A setting in a file that exists.
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
    /// The requested value in the form that a comparison needs; the controller's value is one
    /// already.
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
    /// Its kind.
    pub kind: SettingKind,
    /// Why there is none.
    pub why: String,
}
