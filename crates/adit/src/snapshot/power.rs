//! Frequencies, idle states and energy, if the machine shows them. The client's thread reads them.

use std::path::Path;

use adit_machine::tuning::{CpuPower, EnergyZone, HostFiles, RootedFiles, cpu_power, energy_zones};
use adit_operate::metrics::{MetricFamily, MetricSample, MetricUnit, MetricValues, as_gauge};
use serde::Serialize;
use utoipa::ToSchema;

use crate::config::ThreadSettings;

/// Time of a core in an idle state since the system started.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IdleStateRow {
    pub(super) thread: usize,
    pub(super) core: u16,
    /// The kernel's name, such as C6.
    pub(super) state: String,
    pub(super) seconds: f64,
}

/// Energy that a part of the machine used. Starts again at zero now and then.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnergyRow {
    /// The zone's name, such as package-0, or package-0/dram for a part of it.
    pub(super) zone: String,
    pub(super) joules: f64,
}

/// The power management of the cores of all threads, and the energy of the machine.
#[derive(Debug)]
pub(super) struct PowerReading {
    threads: Vec<(ThreadSettings, CpuPower)>,
    energy: Vec<EnergyZone>,
}

fn from_millionths(millionths: u64) -> f64 {
    as_gauge(millionths) / 1e6
}

impl PowerReading {
    /// Reads the files of this machine.
    pub(super) fn of_this_machine(threads: Vec<ThreadSettings>) -> Self {
        Self::read(&RootedFiles::new(Path::new("/")), threads)
    }

    /// Returns the figures of a machine that shows nothing.
    pub(super) const fn nothing() -> Self {
        Self { threads: Vec::new(), energy: Vec::new() }
    }

    fn read(files: &dyn HostFiles, threads: Vec<ThreadSettings>) -> Self {
        let power = |thread: ThreadSettings| (thread, cpu_power(files, thread.core));
        Self { threads: threads.into_iter().map(power).collect(), energy: energy_zones(files) }
    }

    /// The frequency of each thread's core; `None` if the machine does not show it. Unit: MHz.
    pub(super) fn frequencies_mhz(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        self.threads.iter().map(|(_, power)| power.frequency_khz.map(|khz| khz / 1000))
    }

    pub(super) fn idle_states(&self) -> Vec<IdleStateRow> {
        let threads = self.threads.iter().enumerate();
        let rows = threads.flat_map(|(thread, (settings, power))| {
            power.idle_states.iter().map(move |state| IdleStateRow {
                thread,
                core: settings.core,
                state: state.name.clone(),
                seconds: from_millionths(state.time_us),
            })
        });
        rows.collect()
    }

    pub(super) fn energy(&self) -> Vec<EnergyRow> {
        let row = |zone: &EnergyZone| EnergyRow {
            zone: zone.name.clone(),
            joules: from_millionths(zone.energy_uj),
        };
        self.energy.iter().map(row).collect()
    }

    /// Returns power and energy as metrics; a family that the machine does not show has no samples.
    pub(super) fn families(&self) -> Vec<MetricFamily> {
        let labels = |thread: usize, settings: &ThreadSettings| {
            vec![("worker", thread.to_string()), ("role", settings.role.name().to_owned())]
        };
        let threads = || self.threads.iter().enumerate();
        let frequencies = threads().filter_map(|(thread, (settings, power))| {
            let value = as_gauge(power.frequency_khz?) * 1e3;
            Some(MetricSample { labels: labels(thread, settings), value })
        });
        let idle = threads().flat_map(|(thread, (settings, power))| {
            power.idle_states.iter().map(move |state| {
                let mut labels = labels(thread, settings);
                labels.push(("state", state.name.clone()));
                MetricSample { labels, value: from_millionths(state.time_us) }
            })
        });
        let energy = self.energy.iter().map(|zone| MetricSample {
            labels: vec![("zone", zone.name.clone())],
            value: from_millionths(zone.energy_uj),
        });
        vec![
            MetricFamily::new(
                "adit_worker_core_frequency",
                "Frequency of the thread's core, where the machine shows it.",
                MetricValues::Gauge(frequencies.collect()),
            )
            .in_unit(MetricUnit::Hertz),
            MetricFamily::new(
                "adit_worker_core_idle",
                "Time of the thread's core in each idle state since the system started, where the machine shows it.",
                MetricValues::FloatCounter(idle.collect()),
            )
            .in_unit(MetricUnit::Seconds),
            MetricFamily::new(
                "adit_host_energy",
                "Energy that packages of the machine and their parts used, where the machine shows it.",
                MetricValues::FloatCounter(energy.collect()),
            )
            .in_unit(MetricUnit::Joules),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use adit_operate::metrics::{MetricsTextFormat, write_families};
    use adit_types::Role;

    use super::*;
    use crate::config::PollMode;

    #[test]
    fn metrics_have_what_the_machine_shows_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let thread = |core| ThreadSettings { role: Role::Worker, core, poll: PollMode::Busy };
        let read =
            || PowerReading::read(&RootedFiles::new(root.path()), vec![thread(1), thread(2)]);
        let text = |reading: &PowerReading| {
            write_families(MetricsTextFormat::OpenMetrics, reading.families())
        };
        let nothing = read();
        assert!(!text(&nothing).contains("adit_"), "{}", text(&nothing));
        assert_eq!(nothing.frequencies_mhz().collect::<Vec<_>>(), [None, None]);
        assert!(nothing.idle_states().is_empty() && nothing.energy().is_empty());
        for (path, content) in [
            ("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "2400000\n"),
            ("sys/devices/system/cpu/cpu2/cpuidle/state1/name", "C1\n"),
            ("sys/devices/system/cpu/cpu2/cpuidle/state1/time", "2500000\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "1500000\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let shown = read();
        for line in [
            "adit_worker_core_frequency_hertz{worker=\"1\",role=\"worker\"} 2400000000.0",
            "adit_worker_core_idle_seconds_total{worker=\"1\",role=\"worker\",state=\"C1\"} 2.5",
            "adit_host_energy_joules_total{zone=\"package-0\"} 1.5",
        ] {
            assert!(text(&shown).lines().any(|found| found == line), "{line}: {}", text(&shown));
        }
        assert_eq!(shown.frequencies_mhz().collect::<Vec<_>>(), [None, Some(2400)]);
        let [state] = &shown.idle_states()[..] else { panic!("one state") };
        assert_eq!((state.thread, state.core, &*state.state), (1, 2, "C1"));
    }
}
