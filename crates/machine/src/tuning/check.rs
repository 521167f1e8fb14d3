//! Compares a tuning request with the machine.

use crate::tuning::wanted::wanted;
use crate::tuning::{
    HostFiles, MissingSetting, SettingPlace, TuningError, TuningProfile, TuningRequest,
    TuningSetting,
};

/// Whether a setting has the requested value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingState {
    /// The setting has the requested value.
    Fits,
    /// The setting has another value, which can be changed.
    Differs,
    /// The setting has another value or none, and cannot be changed for the given reason.
    Fixed(String),
}

/// A setting with its value on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedSetting {
    /// The requested setting.
    pub setting: TuningSetting,
    /// The present value; `None` if it cannot be read or does not exist yet.
    pub current: Option<String>,
    /// The result of comparing the two.
    pub state: SettingState,
}

/// The result of comparing a profile with this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningReport {
    /// The profile.
    pub profile: TuningProfile,
    /// Settings in the order in which they are written.
    pub settings: Vec<CheckedSetting>,
    /// Settings that this machine does not have.
    pub missing: Vec<MissingSetting>,
}

/// Compares the settings of `request` with the machine. Changes nothing.
///
/// # Errors
/// The request does not fit the machine.
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

/// Returns the folder that is `levels` above a path.
fn above(path: &str, levels: usize) -> &str {
    (0..levels).fold(path, |path, _| path.rsplit_once('/').map_or("", |(folder, _)| folder))
}
