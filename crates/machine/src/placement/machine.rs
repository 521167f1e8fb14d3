//! Describes the machine as plain data.

use serde::{Deserialize, Serialize};

use crate::placement::CpuSet;

/// The properties of a machine that Adit reads. All indexes are the kernel's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineTopology {
    /// Name of the source of this description, for display.
    pub source: String,
    /// Sockets of the machine.
    pub packages: Vec<CpuPackage>,
    /// NUMA nodes in ascending order. A machine without NUMA has one node with all CPUs.
    pub nodes: Vec<NumaNode>,
    /// Caches; empty if the machine does not report them, as many guests do not.
    pub caches: Vec<CpuCache>,
    /// Cores in the order of their first CPU.
    pub cores: Vec<CpuCore>,
    /// Network and other PCI devices.
    pub devices: Vec<HostDevice>,
    /// Which CPUs may be used, and how much.
    pub limits: CpuLimits,
    /// Interrupts, with the CPUs that may receive them.
    pub interrupts: Vec<HostInterrupt>,
}

/// A socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPackage {
    /// The kernel's index of the package.
    pub index: u32,
    /// CPUs of the package.
    pub cpus: CpuSet,
}

/// A NUMA node: memory, and the CPUs next to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The kernel's index of the node.
    pub index: u32,
    /// CPUs of the node; empty for a node that is only memory.
    pub cpus: CpuSet,
    /// Memory of the node, hugepages included.
    pub memory_bytes: u64,
    /// Hugepages of the node, by page size.
    pub huge_pages: Vec<HugePages>,
}

/// Hugepages of one size on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Size of a page.
    pub page_bytes: u64,
    /// Number of reserved pages.
    pub total_count: u64,
    /// Number of pages not in use; `None` if the source does not report it.
    pub free_count: Option<u64>,
}

/// A cache and the CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCache {
    /// Level of the cache, 1 to 5.
    pub level: u8,
    /// Size of the cache.
    pub size_bytes: u64,
    /// CPUs that share it.
    pub cpus: CpuSet,
}

/// A core. Its CPUs are siblings: they share the core's execution units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCore {
    /// CPUs of the core.
    pub cpus: CpuSet,
    /// Index of the core's NUMA node.
    pub node: u32,
    /// Index of the core's package, if the machine reports packages.
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

/// A PCI device or network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostDevice {
    /// Name of the device's network interface, or its PCI address if it has no interface.
    pub name: String,
    /// PCI address with domain, such as `0000:3b:00.0`.
    pub pci_address: Option<String>,
    /// Kind of the device.
    pub kind: HostDeviceKind,
    /// Index of the NUMA node that the device is attached to; `None` if the firmware does not
    /// report it.
    pub node: Option<u32>,
}

/// Which CPUs may be used, and how much.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLimits {
    /// CPUs that are online.
    pub online: CpuSet,
    /// CPUs that the affinity and the cpuset of this process allow.
    pub allowed: CpuSet,
    /// CPUs that the kernel's scheduler does not balance threads to (`isolcpus`, isolated cpuset
    /// partitions).
    pub isolated: CpuSet,
    /// CPUs without the periodic tick (`nohz_full`).
    pub tickless: CpuSet,
    /// CPU time that the cgroup grants, in thousandths of a CPU; `None` without a limit.
    pub quota_millicpus: Option<u64>,
}

impl CpuLimits {
    /// Returns the CPUs that a thread of this process may run on.
    #[must_use]
    pub fn usable(&self) -> CpuSet {
        self.online.intersection(&self.allowed)
    }
}

/// An interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInterrupt {
    /// Number of the interrupt in `/proc/irq`.
    pub number: u32,
    /// Names of the drivers or devices that requested it.
    pub name: String,
    /// CPUs that may receive it.
    pub cpus: CpuSet,
    /// How often it occurred since the system started.
    pub count: u64,
}

impl MachineTopology {
    /// Returns the core of a CPU.
    #[must_use]
    pub fn core_of(&self, cpu: u32) -> Option<&CpuCore> {
        self.cores.iter().find(|core| core.cpus.contains(cpu))
    }

    /// Returns the node of a CPU.
    #[must_use]
    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        self.core_of(cpu).map(|core| core.node)
    }

    /// Returns the device of a port, by network interface, or by PCI address with or without
    /// domain.
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
