//! Reads the power management of the machine: frequencies, idle states, energy.

use crate::tuning::HostFiles;

const CPUS: &str = "sys/devices/system/cpu";
const ZONES: &str = "sys/class/powercap";

/// The power management of a CPU; empty in guests and with some firmware, which do not show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuPower {
    /// The recent frequency; `None` if it is not shown. Unit: kHz.
    pub frequency_khz: Option<u64>,
    /// Idle states of the CPU, the lightest first.
    pub idle_states: Vec<IdleStateTime>,
}

/// The time that a CPU spent in an idle state since the system started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleStateTime {
    /// The kernel's name of the state, such as `C6`.
    pub name: String,
    /// Total time in the state. Unit: microseconds.
    pub time_us: u64,
}

/// A part of the machine whose energy the processor counts (RAPL).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnergyZone {
    /// Name of the zone, such as `package-0`, or `package-0/dram` for a part of a package.
    pub name: String,
    /// Energy used. The counter wraps to zero from time to time. Unit: microjoules.
    pub energy_uj: u64,
}

/// Reads the power management of a CPU, from cpufreq `scaling_cur_freq` and cpuidle `stateN/time`.
pub fn cpu_power(files: &dyn HostFiles, cpu: u16) -> CpuPower {
    let cpu = format!("{CPUS}/cpu{cpu}");
    // The kernel shows 0 for CPUs that it must not interrupt to find out.
    let frequency = number(files, &format!("{cpu}/cpufreq/scaling_cur_freq"));
    let folder = format!("{cpu}/cpuidle");
    let mut numbers: Vec<u32> = files
        .names(&folder)
        .iter()
        .filter_map(|name| name.strip_prefix("state")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut idle_states: Vec<IdleStateTime> = Vec::new();
    for number_of_state in numbers {
        let state = format!("{folder}/state{number_of_state}");
        let (Ok(name), Some(time_us)) =
            (files.read(&format!("{state}/name")), number(files, &format!("{state}/time")))
        else {
            continue;
        };
        let name = name.trim().to_owned();
        match idle_states.iter_mut().find(|known| known.name == name) {
            Some(known) => known.time_us = known.time_us.saturating_add(time_us),
            None => idle_states.push(IdleStateTime { name, time_us }),
        }
    }
    CpuPower { frequency_khz: frequency.filter(|khz| *khz > 0), idle_states }
}

/// Reads the energy zones of the machine, which the kernel shows to root only. Source: powercap
/// `intel-rapl`, which AMD processors also have.
pub fn energy_zones(files: &dyn HostFiles) -> Vec<EnergyZone> {
    let name_of =
        |zone: &str| Some(files.read(&format!("{ZONES}/{zone}/name")).ok()?.trim().to_owned());
    let zone = |folder: &String| {
        let place = folder.strip_prefix("intel-rapl:")?;
        let energy_uj = number(files, &format!("{ZONES}/{folder}/energy_uj"))?;
        let name = match place.split_once(':') {
            None => name_of(folder)?,
            Some((package, _)) => {
                format!("{}/{}", name_of(&format!("intel-rapl:{package}"))?, name_of(folder)?)
            }
        };
        Some(EnergyZone { name, energy_uj })
    };
    files.names(ZONES).iter().filter_map(zone).collect()
}

fn number(files: &dyn HostFiles, path: &str) -> Option<u64> {
    files.read(path).ok()?.trim().parse().ok()
}
