//! Formats of values in the kernel's files.

use std::fmt;
use std::str::FromStr;

use crate::placement::CpuSet;

/// The format of a file. Different texts may have the same value, and are then the same setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingForm {
    /// The text is the value.
    Text,
    /// The text lists all choices, with the active one in brackets.
    Choice,
    /// A list of CPUs.
    CpuList,
    /// A mask of CPUs.
    CpuMask,
    /// The text lists the active controllers of a cgroup; the value is `+cpuset` or `-cpuset`.
    CpusetController,
}

impl SettingForm {
    const ALL: [Self; 5] =
        [Self::Text, Self::Choice, Self::CpuList, Self::CpuMask, Self::CpusetController];

    const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Choice => "choice",
            Self::CpuList => "cpu-list",
            Self::CpuMask => "cpu-mask",
            Self::CpusetController => "cpuset-controller",
        }
    }

    /// Returns the value in the text of a file, in the format in which it is written.
    #[must_use]
    pub fn value(self, text: &str) -> String {
        let trimmed = text.trim();
        match self {
            Self::Text => trimmed.to_owned(),
            Self::Choice => {
                let chosen = trimmed.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                chosen.map_or(trimmed, |(chosen, _)| chosen).to_owned()
            }
            Self::CpuList => {
                let set = trimmed.parse::<CpuSet>();
                set.map_or_else(|_| trimmed.to_owned(), |set| set.to_string())
            }
            Self::CpuMask => mask(trimmed),
            Self::CpusetController => {
                let is_active = trimmed.split_whitespace().any(|name| name == "cpuset");
                let value = if is_active { "+cpuset" } else { "-cpuset" };
                value.to_owned()
            }
        }
    }
}

/// Removes leading zeros of a mask, which only some kernels write.
fn mask(text: &str) -> String {
    let Ok(set) = CpuSet::from_mask(text) else { return text.to_owned() };
    let cpus = set.iter().last().map_or(1, |cpu| cpu as usize + 1);
    set.to_mask(cpus)
}

impl fmt::Display for SettingForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SettingForm {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|form| form.name() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_one_value_are_the_same_setting() {
        assert_eq!(SettingForm::Text.value("on\n"), "on");
        assert_eq!(SettingForm::Choice.value("always [madvise] never\n"), "madvise");
        assert_eq!(SettingForm::CpuList.value("0,1,2,5\n"), "0-2,5");
        assert_eq!(SettingForm::CpuMask.value("00000000,0000000f\n"), "0000000f");
        assert_eq!(SettingForm::CpuMask.value("f"), "0000000f");
        assert_eq!(SettingForm::CpusetController.value("cpu cpuset memory\n"), "+cpuset");
        assert_eq!(SettingForm::CpusetController.value("cpu\n"), "-cpuset");
        for form in SettingForm::ALL {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
    }
}
