//! Settings beyond table 1 of study 004: the kernel's work on the CPUs of real-time threads.

use crate::placement::CpuSet;

use super::{RequestCpus, WantedSettings};
use crate::tuning::{
    HostFiles, SettingForm, SettingKind, SettingPlace, TuningRequest, TuningSetting,
};

/// Mount point of version 2 of cgroups.
const CGROUPS: &str = "sys/fs/cgroup";

pub(super) fn knobs(files: &dyn HostFiles, cpus: &RequestCpus, wanted: &mut WantedSettings) {
    let others = cpus.others.to_string();
    let knobs = [
        (SettingKind::NumaBalancing, "proc/sys/kernel/numa_balancing", SettingForm::Text, "0"),
        // Large pages only on request. The session tables request them.
        (
            SettingKind::TransparentHugePages,
            "sys/kernel/mm/transparent_hugepage/enabled",
            SettingForm::Choice,
            "madvise",
        ),
        (SettingKind::TimerMigration, "proc/sys/kernel/timer_migration", SettingForm::Text, "0"),
        (
            SettingKind::Watchdog,
            "proc/sys/kernel/watchdog_cpumask",
            SettingForm::CpuList,
            others.as_str(),
        ),
        (
            SettingKind::RealTimeThrottling,
            "proc/sys/kernel/sched_rt_runtime_us",
            SettingForm::Text,
            "-1",
        ),
    ];
    for (kind, path, form, value) in knobs {
        match files.exists(path) {
            true => wanted.add(kind, path.to_owned(), form, value),
            false => wanted.miss(kind, format!("/{path} does not exist")),
        }
    }
}

pub(super) fn huge_pages(
    files: &dyn HostFiles,
    request: &TuningRequest,
    wanted: &mut WantedSettings,
) {
    for pages in &request.huge_pages {
        let path = format!(
            "sys/devices/system/node/node{}/hugepages/hugepages-{}kB/nr_hugepages",
            pages.node, pages.page_kib
        );
        match files.exists(&path) {
            true => {
                let count = pages.count.to_string();
                wanted.add(SettingKind::HugePages, path, SettingForm::Text, &count);
            }
            false => wanted.miss(SettingKind::HugePages, format!("/{path} does not exist")),
        }
    }
}

/// Moves interrupts away from the CPUs of real-time threads. Interrupts that cannot occur there
/// stay.
pub(super) fn interrupts(
    files: &dyn HostFiles,
    request: &TuningRequest,
    cpus: &RequestCpus,
    wanted: &mut WantedSettings,
) {
    let default = "proc/irq/default_smp_affinity".to_owned();
    match files.exists(&default) {
        true => {
            let last = cpus.online.iter().last().map_or(0, |cpu| cpu as usize);
            let mask = cpus.others.to_mask(last + 1);
            wanted.add(SettingKind::Interrupts, default, SettingForm::CpuMask, &mask);
        }
        false => wanted.miss(SettingKind::Interrupts, format!("/{default} does not exist")),
    }
    let mut numbers: Vec<u32> =
        files.names("proc/irq").iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    for number in numbers {
        let path = format!("proc/irq/{number}/smp_affinity_list");
        let list = files.read(&path).ok().and_then(|list| list.parse::<CpuSet>().ok());
        let Some(now) = list.filter(|now| !now.intersection(&request.cores).is_empty()) else {
            continue;
        };
        let rest = now.intersection(&cpus.others);
        let rest = if rest.is_empty() { cpus.others.clone() } else { rest };
        let list = rest.to_string();
        let mut setting =
            TuningSetting::new(SettingKind::Interrupts, path, SettingForm::CpuList, &list);
        setting.may_be_refused = true;
        wanted.settings.push(setting);
    }
}

/// Creates a cgroup with the CPUs as an isolated partition.
pub(super) fn partition(
    files: &dyn HostFiles,
    request: &TuningRequest,
    wanted: &mut WantedSettings,
) {
    let Some(name) = &request.partition else { return };
    let offered = files.read(&format!("{CGROUPS}/cgroup.controllers")).unwrap_or_default();
    if !offered.split_whitespace().any(|controller| controller == "cpuset") {
        let why = "version 2 of cgroups has no cpuset controller here";
        wanted.miss(SettingKind::Partition, why);
        return;
    }
    let switch = format!("{CGROUPS}/cgroup.subtree_control");
    wanted.add(SettingKind::Partition, switch, SettingForm::CpusetController, "+cpuset");
    let folder = format!("{CGROUPS}/{name}");
    let is_new = !files.exists(&folder);
    if is_new {
        let mut setting =
            TuningSetting::new(SettingKind::Partition, folder.clone(), SettingForm::Text, "exists");
        setting.place = SettingPlace::Folder;
        wanted.settings.push(setting);
    }
    let cores = request.cores.to_string();
    for (file, form, value) in [
        ("cpuset.cpus", SettingForm::CpuList, cores.as_str()),
        ("cpuset.cpus.partition", SettingForm::Text, "isolated"),
    ] {
        let mut setting =
            TuningSetting::new(SettingKind::Partition, format!("{folder}/{file}"), form, value);
        if is_new {
            setting.place = SettingPlace::NewFile;
        }
        wanted.settings.push(setting);
    }
}
