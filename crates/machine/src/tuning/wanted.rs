//! Derives settings from a profile.

mod cpu;
mod kernel;

use crate::placement::CpuSet;

use crate::tuning::{
    HostFiles, MissingSetting, SettingForm, SettingKind, TuningError, TuningRequest, TuningSetting,
};

/// The settings of a request on this machine, in the order of writing. They are reverted in reverse
/// order.
#[derive(Debug, Default)]
pub(crate) struct WantedSettings {
    pub settings: Vec<TuningSetting>,
    pub missing: Vec<MissingSetting>,
}

impl WantedSettings {
    fn add(&mut self, kind: SettingKind, path: String, form: SettingForm, wanted: &str) {
        self.settings.push(TuningSetting::new(kind, path, form, wanted));
    }

    fn miss(&mut self, kind: SettingKind, why: impl Into<String>) {
        self.missing.push(MissingSetting { kind, why: why.into() });
    }
}

/// The CPUs of a request.
struct RequestCpus {
    online: CpuSet,
    /// CPUs for interrupts and other processes.
    others: CpuSet,
}

/// Returns the settings of `request`.
///
/// # Errors
/// The request does not fit the machine.
pub(crate) fn wanted(
    files: &dyn HostFiles,
    request: &TuningRequest,
) -> Result<WantedSettings, TuningError> {
    let online = request.checked_online(files)?;
    let others = request.others(files, &online);
    let cpus = RequestCpus { online, others };
    let mut wanted = WantedSettings::default();
    cpu::turbo(files, request, &mut wanted);
    cpu::frequency(files, request, &mut wanted);
    cpu::idle_states(files, request, &cpus, &mut wanted);
    kernel::huge_pages(files, request, &mut wanted);
    if request.profile.has_cores() && !request.is_cpu_only {
        kernel::knobs(files, &cpus, &mut wanted);
        kernel::interrupts(files, request, &cpus, &mut wanted);
        kernel::partition(files, request, &mut wanted);
    }
    // Must be the last: the files of siblings disappear when these go offline.
    cpu::siblings(files, request, &mut wanted)?;
    Ok(wanted)
}
