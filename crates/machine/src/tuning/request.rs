//! A request of a profile, and whether it fits the machine.

use crate::placement::CpuSet;

use crate::tuning::{HostFiles, TuningError, TuningProfile};

/// Hugepages that a node should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePagesWanted {
    /// The node.
    pub node: u32,
    /// Size of a page in KiB, such as 2048.
    pub page_kib: u32,
    /// How many.
    pub count: u64,
}

/// A request of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningRequest {
    /// The profile.
    pub profile: TuningProfile,
    /// CPUs of the real-time threads, with profiles that have such CPUs.
    pub cores: CpuSet,
    /// Hugepages by node.
    pub huge_pages: Vec<HugePagesWanted>,
    /// A cgroup (version 2, below its mount) that becomes an isolated partition with `cores`.
    pub partition: Option<String>,
    /// Only the settings of table 1: frequencies, turbo, idle states, siblings.
    pub is_cpu_only: bool,
}

impl TuningRequest {
    /// Returns the online CPUs after checking the request against them.
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

    /// CPUs for interrupts and other processes: online, not of real-time threads, and not later
    /// siblings if those go offline.
    pub(crate) fn others(&self, files: &dyn HostFiles, online: &CpuSet) -> CpuSet {
        let stays = |cpu: &u32| {
            self.profile != TuningProfile::Rt
                || first_sibling(files, *cpu).is_none_or(|first| first == *cpu)
        };
        online.difference(&self.cores).iter().filter(stays).collect()
    }
}

/// The CPU of a core that stays when siblings go offline.
pub(crate) fn first_sibling(files: &dyn HostFiles, cpu: u32) -> Option<u32> {
    let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    files.read(&path).ok()?.parse::<CpuSet>().ok()?.first()
}
