//! The machine as plain data.

use serde::{Deserialize, Serialize};

use crate::placement::CpuSet;

/// The properties of a machine that Adit reads. CPUs are numbered as in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineTopology {
    /// Where the description comes from, for printing.
    pub source: String,
    /// Sockets.
    pub packages: Vec<CpuPackage>,
    /// NUMA nodes in ascending order; a machine without any has one with all CPUs.
    pub nodes: Vec<NumaNode>,
    /// Caches of CPUs; none where the machine does not report them, as in many guests.
    pub caches: Vec<CpuCache>,
    /// Cores in the order of their first CPU.
    pub cores: Vec<CpuCore>,
    /// Network and other PCI devices.
    pub devices: Vec<HostDevice>,
    /// Which CPUs may be used, and how much.
    pub limits: CpuLimits,
    /// Interrupts with the CPUs that may get them.
    pub interrupts: Vec<HostInterrupt>,
}

/// A socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPackage {
    /// Its number in the kernel.
    pub index: u32,
    /// Its CPUs.
    pub cpus: CpuSet,
}

/// A NUMA node: memory, and the CPUs next to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number in the kernel.
    pub index: u32,
    /// Its CPUs; none for a node that is only memory.
    pub cpus: CpuSet,
    /// Its memory, hugepages included.
    pub memory_bytes: u64,
    /// Its hugepages, by size.
    pub huge_pages: Vec<HugePages>,
}

/// Hugepages of one size on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Size of a page.
    pub page_bytes: u64,
    /// Pages reserved.
    pub total_count: u64,
    /// Pages that nobody uses; `None` if the source does not say.
    pub free_count: Option<u64>,
}

/// A cache and the CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCache {
    /// 1 to 5.
    pub level: u8,
    /// Size.
    pub size_bytes: u64,
    /// CPUs that share it.
    pub cpus: CpuSet,
}

/// A core. Its CPUs are siblings: they share its execution units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCore {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its node.
    pub node: u32,
    /// Its package, if the machine reports packages.
    pub package: Option<u32>,
}

/// The kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostDeviceKind {
    /// A network interface.
    Network,
    /// Another PCI device.
    Other,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostDevice {
    /// Name of its network interface, or its PCI address without one.
    pub name: String,
    /// PCI address with domain, such as `0000:3b:00.0`.
    pub pci_address: Option<String>,
    /// Its kind.
    pub kind: HostDeviceKind,
    /// The node to which it is attached; `None` if the firmware does not say.
    pub node: Option<u32>,
}

/// Limits on the use of CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLimits {
    /// CPUs that run.
    pub online: CpuSet,
    /// CPUs that the affinity and the cpuset of this process allow.
    pub allowed: CpuSet,
    /// CPUs that the kernel's scheduler leaves alone (`isolcpus`, isolated cpuset partitions).
    pub isolated: CpuSet,
    /// CPUs without the periodic tick (`nohz_full`).
    pub tickless: CpuSet,
    /// CPU time that the cgroup grants, in thousandths of a CPU; `None` without a limit.
    pub quota_millicpus: Option<u64>,
}

impl CpuLimits {
    /// CPUs that a thread of this process may run on.
    #[must_use]
    pub fn usable(&self) -> CpuSet {
        self.online.intersection(&self.allowed)
    }
}

/// An interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInterrupt {
    /// Its number in `/proc/irq`.
    pub number: u32,
    /// Who requested it.
    pub name: String,
    /// CPUs that may get it.
    pub cpus: CpuSet,
    /// How often it came since the system started.
    pub count: u64,
}

impl MachineTopology {
    /// The core of a CPU.
    #[must_use]
    pub fn core_of(&self, cpu: u32) -> Option<&CpuCore> {
        self.cores.iter().find(|core| core.cpus.contains(cpu))
    }

    /// The node of a CPU.
    #[must_use]
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        self.core_of(cpu).map(|core| core.node)
    }

    /// The device of a port: by network interface, or by PCI address with or without its domain.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<&HostDevice> {
        let with_domain = format!("0000:{name}");
        self.devices.iter().find(|device| {
            let address = device.pci_address.as_deref();
            device.name == name
                || address.is_some_and(|address| {
                    address.eq_ignore_ascii_case(name) || address.eq_ignore_ascii_case(&with_domain)
                })
        })
    }

    /// True if cores have several CPUs.
    #[must_use]
    pub fn has_siblings(&self) -> bool {
        self.cores.iter().any(|core| core.cpus.len() > 1)
    }
}
