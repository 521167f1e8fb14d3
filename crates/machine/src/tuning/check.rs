//! Compares a profile with the machine.

use crate::tuning::wanted::wanted;
use crate::tuning::{
    HostFiles, MissingSetting, SettingPlace, TuningError, TuningProfile, TuningRequest,
    TuningSetting,
};

/// How a setting stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingState {
    /// It has the requested value.
    Fits,
    /// It has another value, which may be changed.
    Differs,
    /// It has another value, or none, and cannot be changed.
    Fixed(String),
}

/// A setting with its value on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedSetting {
    /// The requested setting.
    pub setting: TuningSetting,
    /// The value of the machine; `None` if it cannot be read or does not exist yet.
    pub current: Option<String>,
    /// How they compare.
    pub state: SettingState,
}

/// A profile on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningReport {
    /// The profile.
    pub profile: TuningProfile,
    /// Settings in the order of writing.
    pub settings: Vec<CheckedSetting>,
    /// Settings that this machine does not have.
    pub missing: Vec<MissingSetting>,
}

/// Compares the settings of `request` with the machine. Changes nothing.
///
/// # Errors
/// When the request does not fit the machine.
pub fn check(files: &dyn HostFiles, request: &TuningRequest) -> Result<TuningReport, TuningError> {
    let wanted = wanted(files, request)?;
    let settings = wanted.settings.into_iter().map(|setting| compare(files, setting)).collect();
    Ok(TuningReport { profile: request.profile, settings, missing: wanted.missing })
}

fn compare(files: &dyn HostFiles, setting: TuningSetting) -> CheckedSetting {
    let fixed = |why: &str| SettingState::Fixed(why.to_owned());
    let (current, state) = match setting.place {
        SettingPlace::Folder | SettingPlace::NewFile => {
            let levels = if setting.place == SettingPlace::Folder { 1 } else { 2 };
            match files.is_writable(above(&setting.path, levels)) {
                true => (None, SettingState::Differs),
                false => (None, fixed("this process may make no cgroup")),
            }
        }
        SettingPlace::File => match files.read(&setting.path) {
            Err(error) => (None, SettingState::Fixed(format!("it cannot be read: {error}"))),
            Ok(text) => {
                let value = setting.form.value(&text);
                let state = if value == setting.wanted {
                    SettingState::Fits
                } else if value.contains(['\t', '\n']) {
                    fixed("its value has several lines")
                } else if files.is_writable(&setting.path) {
                    SettingState::Differs
                } else {
                    fixed("it is read-only for this process")
                };
                (Some(value), state)
            }
        },
    };
    CheckedSetting { setting, current, state }
}

/// The folder `levels` above a path.
fn above(path: &str, levels: usize) -> &str {
    (0..levels).fold(path, |path, _| path.rsplit_once('/').map_or("", |(folder, _)| folder))
}
