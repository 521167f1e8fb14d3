//! The request to apply a profile, and the check that it fits the machine.

use crate::placement::CpuSet;

use crate::tuning::{HostFiles, TuningError, TuningProfile};

/// Hugepages that a NUMA node should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePagesWanted {
    /// Index of the node.
    pub node: u32,
    /// Size of a page, such as 2048. Unit: KiB.
    pub page_kib: u32,
    /// Number of pages.
    pub count: u64,
}

/// A request to apply a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningRequest {
    /// The profile.
    pub profile: TuningProfile,
    /// CPUs of the real-time threads; empty if the profile has none.
    pub cores: CpuSet,
    /// Hugepages for each node.
    pub huge_pages: Vec<HugePagesWanted>,
    /// Name of a cgroup (version 2, below its mount) that becomes an isolated partition with
    /// `cores`.
    pub partition: Option<String>,
    /// True for only the settings of table 1: frequencies, turbo, idle states, siblings.
    pub is_cpu_only: bool,
}

impl TuningRequest {
    /// Checks the request against the online CPUs, and returns these.
    pub(crate) fn checked_online(&self, files: &dyn HostFiles) -> Result<CpuSet, TuningError> {
        let path = "sys/devices/system/cpu/online";
        let text = files.read(path).map_err(|error| TuningError::unreadable(path, error))?;
        let online: CpuSet = text.parse().map_err(|_| TuningError::Online { text })?;
        if !self.profile.has_cores() {
            let is_free = self.cores.is_empty() && self.partition.is_none();
            let refused = TuningError::UnusedCores { profile: self.profile };
            return if is_free { Ok(online) } else { Err(refused) };
        }
        if self.cores.is_empty() {
            return Err(TuningError::NoCores { profile: self.profile });
        }
        let unknown = self.cores.difference(&online);
        if !unknown.is_empty() {
            return Err(TuningError::UnknownCores { unknown, online });
        }
        if self.others(files, &online).is_empty() {
            return Err(TuningError::NoOtherCores { cores: self.cores.clone() });
        }
        if let Some(name) = &self.partition {
            let is_name = |part: &str| !part.is_empty() && part != "." && part != "..";
            if name.contains(['/', '\t', '\n']) || !is_name(name) {
                return Err(TuningError::PartitionName { name: name.clone() });
            }
        }
        Ok(online)
    }

    /// Returns the CPUs for interrupts and other processes: CPUs that are online, not for real-time
    /// threads, and not siblings that the profile takes offline.
    pub(crate) fn others(&self, files: &dyn HostFiles, online: &CpuSet) -> CpuSet {
        let stays = |cpu: &u32| {
            self.profile != TuningProfile::Rt
                || first_sibling(files, *cpu).is_none_or(|first| first == *cpu)
        };
        online.difference(&self.cores).iter().filter(stays).collect()
    }
}

/// Returns the CPU of the core of `cpu` that stays when siblings go offline; `None` if unknown.
pub(crate) fn first_sibling(files: &dyn HostFiles, cpu: u32) -> Option<u32> {
    let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    files.read(&path).ok()?.parse::<CpuSet>().ok()?.first()
}
