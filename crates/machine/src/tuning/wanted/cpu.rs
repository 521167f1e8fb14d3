//! The settings of study 004, table 1: frequencies, turbo, idle states, siblings.

use crate::placement::CpuSet;

use super::{RequestCpus, WantedSettings};
use crate::tuning::request::first_sibling;
use crate::tuning::{
    HostFiles, SettingForm, SettingKind, TuningError, TuningProfile, TuningRequest,
};

const CPUS: &str = "sys/devices/system/cpu";

pub(super) fn turbo(files: &dyn HostFiles, request: &TuningRequest, wanted: &mut WantedSettings) {
    let is_on = !request.profile.fixes_frequency();
    let of_intel = format!("{CPUS}/intel_pstate/no_turbo");
    let boost = format!("{CPUS}/cpufreq/boost");
    if files.exists(&of_intel) {
        let value = if is_on { "0" } else { "1" };
        wanted.add(SettingKind::Turbo, of_intel, SettingForm::Text, value);
    } else if files.exists(&boost) {
        let value = if is_on { "1" } else { "0" };
        wanted.add(SettingKind::Turbo, boost, SettingForm::Text, value);
    } else {
        wanted.miss(SettingKind::Turbo, "the kernel has no switch for it here");
    }
}

pub(super) fn frequency(
    files: &dyn HostFiles,
    request: &TuningRequest,
    wanted: &mut WantedSettings,
) {
    let folder = format!("{CPUS}/cpufreq");
    let names = files.names(&folder).into_iter();
    let policies: Vec<_> = names.filter(|name| name.starts_with("policy")).collect();
    if policies.is_empty() {
        let why = "the kernel has no control of frequencies here (guest, or firmware)";
        wanted.miss(SettingKind::Governor, why);
        wanted.miss(SettingKind::FrequencyLimits, why);
    }
    for policy in policies {
        let policy = format!("{folder}/{policy}");
        governor(files, request, &policy, wanted);
        limits(files, request, &policy, wanted);
    }
}

fn governor(
    files: &dyn HostFiles,
    request: &TuningRequest,
    policy: &str,
    wanted: &mut WantedSettings,
) {
    let offered = files.read(&format!("{policy}/scaling_available_governors")).unwrap_or_default();
    let offered: Vec<_> = offered.split_whitespace().collect();
    let choices: &[&str] = match request.profile.fixes_frequency() {
        true => &["performance"],
        false => &["schedutil", "ondemand", "powersave"],
    };
    match choices.iter().find(|choice| offered.contains(choice)) {
        Some(governor) => {
            let path = format!("{policy}/scaling_governor");
            wanted.add(SettingKind::Governor, path, SettingForm::Text, governor);
        }
        None => {
            let why = format!("{policy} offers no governor {}", choices.join(" or "));
            wanted.miss(SettingKind::Governor, why);
        }
    }
}

/// Sets the limits for a fixed frequency: both are the nominal one. The kernel refuses a minimum
/// above the maximum, so the order of writing depends on the present limits.
fn limits(
    files: &dyn HostFiles,
    request: &TuningRequest,
    policy: &str,
    wanted: &mut WantedSettings,
) {
    let number = |name: &str| -> Option<u64> {
        files.read(&format!("{policy}/{name}")).ok()?.trim().parse().ok()
    };
    let (Some(lowest), Some(highest)) = (number("cpuinfo_min_freq"), number("cpuinfo_max_freq"))
    else {
        wanted.miss(SettingKind::FrequencyLimits, format!("{policy} does not state its limits"));
        return;
    };
    let nominal = number("base_frequency").unwrap_or(highest);
    let (low, high) = match request.profile.fixes_frequency() {
        true => (nominal, nominal),
        false => (lowest, highest),
    };
    let mut add = |name: &str, value: u64| {
        let path = format!("{policy}/{name}");
        wanted.add(SettingKind::FrequencyLimits, path, SettingForm::Text, &value.to_string());
    };
    if number("scaling_max_freq").is_some_and(|now| low > now) {
        add("scaling_max_freq", high);
        add("scaling_min_freq", low);
    } else {
        add("scaling_min_freq", low);
        add("scaling_max_freq", high);
    }
}

/// Disables idle states, except polling, which saves no energy.
pub(super) fn idle_states(
    files: &dyn HostFiles,
    request: &TuningRequest,
    cpus: &RequestCpus,
    wanted: &mut WantedSettings,
) {
    let without: CpuSet = match request.profile {
        TuningProfile::Default | TuningProfile::Ff => CpuSet::default(),
        TuningProfile::FfNoIdle | TuningProfile::Rt => cpus.online.clone(),
        TuningProfile::FfNoIdleRt | TuningProfile::Core => request.cores.clone(),
    };
    let mut found = false;
    for cpu in cpus.online.iter() {
        let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
        for state in files.names(&folder).into_iter().filter(|name| name.starts_with("state")) {
            let state = format!("{folder}/{state}");
            let name = files.read(&format!("{state}/name")).unwrap_or_default();
            let switch = format!("{state}/disable");
            if name.trim() == "POLL" || !files.exists(&switch) {
                continue;
            }
            found = true;
            let value = if without.contains(cpu) { "1" } else { "0" };
            wanted.add(SettingKind::IdleStates, switch, SettingForm::Text, value);
        }
    }
    if !found {
        wanted.miss(SettingKind::IdleStates, "the kernel has no idle states here");
    }
}

/// Adds the setting that takes siblings offline.
///
/// # Errors
/// The request names siblings that would go offline.
pub(super) fn siblings(
    files: &dyn HostFiles,
    request: &TuningRequest,
    wanted: &mut WantedSettings,
) -> Result<(), TuningError> {
    let path = format!("{CPUS}/smt/control");
    let is_off = request.profile == TuningProfile::Rt;
    match files.read(&path).map(|text| text.trim().to_owned()).as_deref() {
        Ok("on" | "off") => {}
        Ok("forceoff" | "notsupported" | "notimplemented") if is_off => return Ok(()),
        Ok(state) => {
            wanted.miss(SettingKind::Siblings, format!("this machine has none ({state})"));
            return Ok(());
        }
        Err(_) => {
            wanted.miss(SettingKind::Siblings, "the kernel has no switch for them");
            return Ok(());
        }
    }
    if is_off {
        for cpu in request.cores.iter() {
            if let Some(first) = first_sibling(files, cpu).filter(|first| *first != cpu) {
                return Err(TuningError::LaterSibling { cpu, first });
            }
        }
    }
    let value = if is_off { "off" } else { "on" };
    wanted.add(SettingKind::Siblings, path, SettingForm::Text, value);
    Ok(())
}
