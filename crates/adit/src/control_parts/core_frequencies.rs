//! Frequencies of the packet path's cores: the control thread lowers them under small load.

use std::path::Path;
use std::time::Duration;

use adit_machine::placement::CpuSet;
use adit_machine::tuning::{
    CpuLoad, FrequencyChange, FrequencyRange, FrequencyScaling, FrequencySurvey, HostFiles,
    RevertedTuning, RootedFiles, TuningError, frequency_survey, revert_frequencies,
};
use adit_types::Nanos;
use tracing::{info, warn};

use crate::config::{DatapathSettings, ThreadSettings};
use crate::threads::load::ThreadLoad;

/// Scales the frequencies of cores until it is dropped, which restores the former limits.
pub(crate) struct CoreFrequencies {
    files: RootedFiles,
    /// `None` once scaling has ended.
    scaling: Option<FrequencyScaling>,
    threads: Vec<(u32, ThreadLoad)>,
    /// The loads of the threads, refilled in each iteration of the control thread.
    loads: Vec<CpuLoad>,
}

/// Returns the cores of threads of known load, without those that other threads share.
fn cores(datapath: &DatapathSettings) -> CpuSet {
    let threads = datapath.threads().into_iter();
    let cores: CpuSet = threads.map(|thread| u32::from(thread.core)).collect();
    let others = std::iter::once(datapath.main_core).chain(datapath.scheduler_core());
    cores.difference(&others.map(u32::from).collect())
}

/// Describes the effect of `datapath.scale_frequency` on this machine; empty if it is off.
pub(crate) fn describe(datapath: &DatapathSettings) -> String {
    match datapath.scales_frequency {
        true => description(&RootedFiles::new(Path::new("/")), datapath),
        false => String::new(),
    }
}

fn description(files: &dyn HostFiles, datapath: &DatapathSettings) -> String {
    let FrequencySurvey { ranges, left } = frequency_survey(files, &cores(datapath));
    let range = |range: &FrequencyRange| {
        format!(
            "CPUs {} go from {} to {} MHz under small load",
            range.cpus,
            range.high_khz / 1000,
            range.low_khz / 1000
        )
    };
    let has_no_effect = if ranges.is_empty() { "no effect: " } else { "" };
    let sentences: Vec<_> = ranges.iter().map(range).chain(left).collect();
    match sentences.is_empty() {
        true => "no effect: all threads of the packet path share a core with others".to_owned(),
        false => format!("{has_no_effect}{}", sentences.join("; ")),
    }
}

impl CoreFrequencies {
    /// Reverts the changes that a crashed process left, and begins to scale. `None` if scaling is
    /// off, or has no effect on this machine: a log line gives the reason.
    pub(crate) fn start(datapath: &DatapathSettings, loads: &[ThreadLoad]) -> Option<Self> {
        let files = RootedFiles::new(Path::new("/"));
        datapath.scales_frequency.then(|| Self::start_on(files, datapath, loads)).flatten()
    }

    fn start_on(
        mut files: RootedFiles,
        datapath: &DatapathSettings,
        loads: &[ThreadLoad],
    ) -> Option<Self> {
        let own = std::process::id();
        match revert_frequencies(&mut files, own) {
            Ok(RevertedTuning { restored, .. }) if restored.is_empty() => {}
            Ok(RevertedTuning { restored, .. }) => {
                info!(count = restored.len(), "frequencies of a former adit are taken back");
            }
            Err(error) => warn!("frequencies of a former adit: {error}"),
        }
        let survey = frequency_survey(&files, &cores(datapath));
        if survey.ranges.is_empty() {
            warn!("datapath.scale_frequency has {}", description(&files, datapath));
            return None;
        }
        survey.left.iter().for_each(|why| warn!("datapath.scale_frequency: {why}"));
        let scaling = match FrequencyScaling::begin(&mut files, own, &survey) {
            Ok(scaling) => Some(scaling),
            Err(error) => {
                warn!("datapath.scale_frequency has no effect: {error}");
                return None;
            }
        };
        let cpu = |thread: &ThreadSettings| u32::from(thread.core);
        let threads = datapath.threads().iter().map(cpu).zip(loads.iter().cloned()).collect();
        Some(Self { files, scaling, threads, loads: Vec::new() })
    }

    /// Sets the frequencies that the loads require. An iteration without a change only reads a few
    /// words of memory.
    pub(crate) fn turn(&mut self, now: Nanos) {
        let Some(scaling) = &mut self.scaling else { return };
        self.loads.clear();
        self.loads.extend(self.threads.iter().map(|(cpu, load)| CpuLoad {
            cpu: *cpu,
            recent_permille: load.recent_permille(),
            second_permille: load.busy_permille(),
        }));
        for change in scaling.turn(&mut self.files, Duration::from_nanos(now.0), &self.loads) {
            match change {
                FrequencyChange::Lowered(range) => {
                    info!(cpus = %range.cpus, mhz = range.low_khz / 1000, "frequency lowered");
                }
                FrequencyChange::Raised(range) => {
                    info!(cpus = %range.cpus, mhz = range.high_khz / 1000, "frequency raised");
                }
                FrequencyChange::GivenUp(why) => {
                    warn!("{why}; adit leaves this frequency alone from now on");
                }
            }
        }
    }
}

impl Drop for CoreFrequencies {
    fn drop(&mut self) {
        let Some(scaling) = self.scaling.take() else { return };
        let ended: Result<RevertedTuning, TuningError> = scaling.end(&mut self.files);
        match ended {
            Ok(reverted) => reverted.left.iter().for_each(|left| warn!("{left}")),
            Err(error) => warn!("{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::Config;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");
    const CPU: &str = "sys/devices/system/cpu/cpufreq/policy1";

    fn datapath(lines: &str) -> DatapathSettings {
        let lines = format!("workers = [1]\n{lines}");
        let text = EXAMPLE.replacen("workers = [1]\n", &lines, 1);
        Config::parse(&text).unwrap().datapath
    }

    fn with_cpufreq(root: &Path) {
        fs::create_dir_all(root.join(CPU)).unwrap();
        for (name, value) in [("scaling_min_freq", "800000"), ("scaling_max_freq", "3600000")] {
            fs::write(root.join(CPU).join(name), format!("{value}\n")).unwrap();
        }
    }

    fn limit(root: &Path) -> String {
        fs::read_to_string(root.join(CPU).join("scaling_max_freq")).unwrap().trim().to_owned()
    }

    #[test]
    fn frequency_of_an_idle_worker_is_lowered_and_taken_back_at_the_end() {
        let root = tempfile::tempdir().unwrap();
        with_cpufreq(root.path());
        let datapath = datapath("scale_frequency = true\n");
        let start = || {
            let files = RootedFiles::new(root.path());
            CoreFrequencies::start_on(files, &datapath, &[ThreadLoad::default()]).unwrap()
        };
        let mut frequencies = start();
        frequencies.turn(Nanos::from_secs(10));
        assert_eq!(limit(root.path()), "3600000");
        frequencies.turn(Nanos::from_secs(13));
        assert_eq!(limit(root.path()), "800000");
        drop(frequencies);
        assert_eq!(limit(root.path()), "3600000");
        assert_eq!(fs::read_dir(root.path().join("run/adit")).unwrap().count(), 0);
        // A crash leaves the frequency low; the next start restores it.
        let mut crashed = start();
        crashed.turn(Nanos::from_secs(10));
        crashed.turn(Nanos::from_secs(13));
        crashed.scaling = None;
        drop(crashed);
        assert_eq!(limit(root.path()), "800000");
        let next = start();
        assert_eq!(limit(root.path()), "3600000");
        drop(next);
    }

    #[test]
    fn machine_without_frequencies_is_described() {
        let root = tempfile::tempdir().unwrap();
        let files = || RootedFiles::new(root.path());
        let wanted = datapath("scale_frequency = true\n");
        assert_eq!(describe(&datapath("")), "");
        assert!(CoreFrequencies::start(&datapath(""), &[]).is_none());
        let text = description(&files(), &wanted);
        assert!(
            text.starts_with("no effect: the kernel does not control") && text.contains("CPUs 1,")
        );
        assert!(CoreFrequencies::start_on(files(), &wanted, &[ThreadLoad::default()]).is_none());
        with_cpufreq(root.path());
        let text = description(&files(), &wanted);
        assert_eq!(text, "CPUs 1 go from 3600 to 800 MHz under small load");
        let shared =
            EXAMPLE.replacen("main_core = 0\n", "main_core = 1\nscale_frequency = true\n", 1);
        let shared = Config::parse(&shared).unwrap().datapath;
        assert!(description(&files(), &shared).contains("share a core with others"));
    }
}
