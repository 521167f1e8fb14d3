//! The profiles of CPU configuration.

use std::fmt;
use std::str::FromStr;

/// A CPU configuration of study 004, table 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TuningProfile {
    /// Variable frequency; turbo, idle states and siblings are enabled.
    Default,
    /// Fixed frequency, no turbo. The next three profiles have this too.
    Ff,
    /// Also no idle states.
    FfNoIdle,
    /// Also no idle states, but only on the named CPUs.
    FfNoIdleRt,
    /// Also core scheduling: no other thread runs on the sibling of a real-time thread.
    Core,
    /// Fixed frequency, no turbo, no idle states, no siblings.
    Rt,
}

impl TuningProfile {
    /// All profiles, in the order of the table.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::Ff, Self::FfNoIdle, Self::FfNoIdleRt, Self::Core, Self::Rt];

    /// Returns the name of the profile on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Ff => "ff",
            Self::FfNoIdle => "ff-noidle",
            Self::FfNoIdleRt => "ff-noidle-rt",
            Self::Core => "core",
            Self::Rt => "rt",
        }
    }

    /// True if the profile configures the CPUs of real-time threads differently from the others.
    #[must_use]
    pub const fn has_cores(self) -> bool {
        matches!(self, Self::FfNoIdleRt | Self::Core | Self::Rt)
    }

    /// True if the profile fixes frequencies.
    #[must_use]
    pub const fn fixes_frequency(self) -> bool {
        !matches!(self, Self::Default)
    }
}

impl fmt::Display for TuningProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TuningProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|profile| profile.name()).collect();
            format!("\"{text}\" is not a profile; the profiles are {}", names.join(", "))
        })
    }
}
