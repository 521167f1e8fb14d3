//! Large pages for the session tables, on which packets depend beyond some ten thousand sessions.
//!
//! The tables ask the kernel for transparent huge pages (2 MiB on x86-64). Whether it has any is a setting
//! of the host.

use core::fmt;
use std::fs;

const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Pages of the session tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablePages {
    /// Large ones, as far as the kernel has free memory for them.
    Large,
    /// Ordinary ones: the host forbids others.
    Forbidden,
    /// Ordinary ones: the kernel has no others.
    Unsupported,
}

impl TablePages {
    /// Those that the kernel gives on request.
    #[must_use]
    pub fn of_host() -> Self {
        Self::of_setting(fs::read_to_string(SETTING).ok().as_deref())
    }

    /// `setting`: the kernel's choices, the active one in brackets; `None` if it has none.
    fn of_setting(setting: Option<&str>) -> Self {
        match setting {
            Some(choices) if choices.contains("[never]") => Self::Forbidden,
            Some(_) => Self::Large,
            None => Self::Unsupported,
        }
    }
}

impl fmt::Display for TablePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Large => f.write_str("session tables take large pages"),
            Self::Forbidden => write!(
                f,
                "session tables take ordinary pages, which is slower with many sessions; allow large ones \
                 with `echo madvise > {SETTING}`"
            ),
            Self::Unsupported => f.write_str(
                "session tables take ordinary pages, which is slower with many sessions: this kernel has no \
                 transparent huge pages",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TablePages;

    #[test]
    fn pages_follow_the_setting_of_the_host() {
        for (setting, expected) in [
            (Some("[always] madvise never\n"), TablePages::Large),
            (Some("always [madvise] never\n"), TablePages::Large),
            (Some("always madvise [never]\n"), TablePages::Forbidden),
            (None, TablePages::Unsupported),
        ] {
            assert_eq!(TablePages::of_setting(setting), expected, "{setting:?}");
        }
        assert!(TablePages::Forbidden.to_string().contains("echo madvise >"));
    }
}
