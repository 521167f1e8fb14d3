//! Reads the kernel's facts about CPUs, cgroups, hugepages and interrupts, below any root folder.
//!
//! If a file is missing or malformed, its fact is unknown: kernels differ, and containers hide
//! files.

use std::fs;
use std::path::{Path, PathBuf};

use adit_machine::placement::{CpuSet, HostInterrupt, HugePages};

/// Facts that hwloc does not have. Default: nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostFacts {
    pub online: Option<CpuSet>,
    /// CPUs that the affinity and the cpuset of this process allow.
    pub allowed: Option<CpuSet>,
    pub isolated: CpuSet,
    pub tickless: CpuSet,
    pub quota_millicpus: Option<u64>,
    pub huge_pages: Vec<NodeHugePages>,
    pub interrupts: Vec<HostInterrupt>,
}

/// Hugepages of one size on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeHugePages {
    pub node: u32,
    pub pages: HugePages,
}

impl HostFacts {
    /// Reads `proc` and `sys` below `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let cpus = |path: &str| {
            let text = fs::read_to_string(root.join(path)).ok()?;
            text.parse::<CpuSet>().ok()
        };
        Self {
            online: cpus("sys/devices/system/cpu/online").filter(|online| !online.is_empty()),
            allowed: allowed(root),
            isolated: cpus("sys/devices/system/cpu/isolated").unwrap_or_default(),
            tickless: cpus("sys/devices/system/cpu/nohz_full").unwrap_or_default(),
            quota_millicpus: quota(root),
            huge_pages: huge_pages(root),
            interrupts: interrupts(root),
        }
    }
}

/// Reads the CPUs that this process may run on; `None` if unknown.
fn allowed(root: &Path) -> Option<CpuSet> {
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.parse().ok()
}

/// Returns the smallest CPU quota of the cgroups of this process. Unit: thousandths of a CPU.
fn quota(root: &Path) -> Option<u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mount = root.join("sys/fs/cgroup");
    let mut quotas = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let of = |folder: &Path| quotas_above(folder, path);
        if controllers.is_empty() {
            quotas.extend(of(&mount));
            quotas.extend(of(&mount.join("unified")));
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            quotas.extend(of(&mount.join("cpu")));
            quotas.extend(of(&mount.join(controllers)));
        }
    }
    quotas.into_iter().min()
}

/// Returns the quotas of a cgroup and of its ancestors, up to `mount`.
fn quotas_above(mount: &Path, path: &str) -> Vec<u64> {
    let mut folders: Vec<PathBuf> = vec![mount.to_owned()];
    for name in path.split('/').filter(|name| !name.is_empty() && *name != "..") {
        let deeper = folders.last().map(|folder| folder.join(name));
        folders.extend(deeper);
    }
    folders.iter().filter_map(|folder| quota_of(folder)).collect()
}

/// Reads the quota of one cgroup, of version 2 or 1. Unit: thousandths of a CPU.
fn quota_of(folder: &Path) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
    };
    let (quota, period) = match fs::read_to_string(folder.join("cpu.max")) {
        Ok(text) => {
            let mut parts = text.split_whitespace();
            (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?)
        }
        // Version 1 writes −1 for no limit. It does not parse as an unsigned number, so the result
        // is `None`.
        Err(_) => (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
    };
    let (quota, period): (u64, u64) = (quota, period);
    quota.checked_mul(1000)?.checked_div(period)
}

fn huge_pages(root: &Path) -> Vec<NodeHugePages> {
    let mut found = Vec::new();
    for (node, folder) in numbered_entries(&root.join("sys/devices/system/node"), "node", "") {
        for (kib, folder) in numbered_entries(&folder.join("hugepages"), "hugepages-", "kB") {
            let number = |name: &str| -> Option<u64> {
                fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
            };
            if let Some(total_count) = number("nr_hugepages") {
                let page_bytes = u64::from(kib) << 10;
                let free_count = number("free_hugepages");
                found.push(NodeHugePages {
                    node,
                    pages: HugePages { page_bytes, total_count, free_count },
                });
            }
        }
    }
    found
}

/// Returns the entries of a folder whose names are `prefix`, a number and `suffix`, in ascending
/// order of the number.
fn numbered_entries(folder: &Path, prefix: &str, suffix: &str) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?;
            Some((number.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// Reads device interrupts, with their counts and the CPUs that may receive them.
fn interrupts(root: &Path) -> Vec<HostInterrupt> {
    let text = fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default();
    let mut lines = text.lines();
    let columns = lines.next().map_or(0, |header| header.split_whitespace().count());
    lines.filter_map(|line| interrupt(root, line, columns)).collect()
}

fn interrupt(root: &Path, line: &str, columns: usize) -> Option<HostInterrupt> {
    let (number, rest) = line.split_once(':')?;
    let number: u32 = number.trim().parse().ok()?;
    let words: Vec<_> = rest.split_whitespace().collect();
    let counts = words.iter().take(columns).map_while(|word| word.parse::<u64>().ok());
    let count = counts.fold(0, u64::saturating_add);
    // The counts are followed by the interrupt controller, the controller's number of the
    // interrupt, and the names of the drivers that requested it.
    let name = words.get(columns + 2..).filter(|name| !name.is_empty())?.join(" ");
    let list = fs::read_to_string(root.join(format!("proc/irq/{number}/smp_affinity_list")));
    let cpus = list.ok().and_then(|list| list.parse().ok()).unwrap_or_default();
    Some(HostInterrupt { number, name, cpus, count })
}
