//! Frequencies, idle states and energy of a made-up machine.

use std::fs;
use std::path::Path;

use adit_machine::tuning::{
    CpuPower, EnergyZone, IdleStateTime, RootedFiles, cpu_power, energy_zones,
};

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

#[test]
fn frequency_and_idle_states_of_a_cpu_are_read() {
    let root = tempfile::tempdir().unwrap();
    let cpu = "sys/devices/system/cpu/cpu3";
    write(root.path(), &format!("{cpu}/cpufreq/scaling_cur_freq"), "2400000");
    for (state, name, time) in [(0, "POLL", 7), (1, "C1", 20), (10, "C6", 400), (2, "C1", 30)] {
        let state = format!("{cpu}/cpuidle/state{state}");
        write(root.path(), &format!("{state}/name"), name);
        write(root.path(), &format!("{state}/time"), &time.to_string());
    }
    // A state without a name is ignored.
    write(root.path(), &format!("{cpu}/cpuidle/state3/time"), "9");
    let state = |name: &str, time_us| IdleStateTime { name: name.to_owned(), time_us };
    let files = RootedFiles::new(root.path());
    let expected = CpuPower {
        frequency_khz: Some(2_400_000),
        idle_states: vec![state("POLL", 7), state("C1", 50), state("C6", 400)],
    };
    assert_eq!(cpu_power(&files, 3), expected);
    assert_eq!(cpu_power(&files, 4), CpuPower::default());
    write(root.path(), &format!("{cpu}/cpufreq/scaling_cur_freq"), "0");
    assert_eq!(cpu_power(&files, 3).frequency_khz, None);
}

#[test]
fn energy_is_read_of_packages_and_their_parts() {
    let root = tempfile::tempdir().unwrap();
    for (zone, name, energy) in [
        ("intel-rapl:0", "package-0", "1000"),
        ("intel-rapl:0:1", "dram", "20"),
        ("intel-rapl:1", "package-1", "3000"),
        // The same energy, read in another way.
        ("intel-rapl-mmio:0", "package-0", "1000"),
        // Not for this user.
        ("intel-rapl:1:0", "core", "no number"),
    ] {
        write(root.path(), &format!("sys/class/powercap/{zone}/name"), name);
        write(root.path(), &format!("sys/class/powercap/{zone}/energy_uj"), energy);
    }
    write(root.path(), "sys/class/powercap/intel-rapl/enabled", "1");
    let zone = |name: &str, energy_uj| EnergyZone { name: name.to_owned(), energy_uj };
    let files = RootedFiles::new(root.path());
    let expected = [zone("package-0", 1000), zone("package-0/dram", 20), zone("package-1", 3000)];
    assert_eq!(energy_zones(&files), expected);
    assert_eq!(energy_zones(&RootedFiles::new(&root.path().join("absent"))), []);
}
