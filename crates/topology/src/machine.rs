//! Makes the description of the machine from hwloc's objects and the kernel's facts.

use adit_machine::placement::{
    CpuCache, CpuCore, CpuLimits, CpuPackage, CpuSet, HostDevice, HostDeviceKind, HugePages,
    MachineTopology, NumaNode,
};

use crate::TopologyError;
use crate::facts::HostFacts;
use crate::hwloc::{HwlocKind, HwlocObject, HwlocTopology};

/// Levels of the caches that are read.
const CACHE_LEVELS: [u8; 5] = [5, 4, 3, 2, 1];

/// Largest ordinary page; larger ones are huge pages. Unit: octets.
const ORDINARY_PAGE_BYTES_MAX: u64 = 64 << 10;

pub(crate) fn build(
    source: String,
    topology: &HwlocTopology,
    facts: &HostFacts,
) -> Result<MachineTopology, TopologyError> {
    let all = topology.cpus()?;
    if all.is_empty() {
        return Err(TopologyError::NoCpus);
    }
    let packages = topology.objects(HwlocKind::Package)?.into_iter();
    let packages: Vec<_> =
        packages.map(|object| CpuPackage { index: object.index, cpus: object.cpus }).collect();
    let nodes = nodes(topology, facts)?;
    let mut caches = Vec::new();
    for level in CACHE_LEVELS {
        let objects = topology.objects(HwlocKind::Cache(level))?.into_iter();
        let cache = |object: HwlocObject| CpuCache {
            level,
            size_bytes: object.cache_bytes,
            cpus: object.cpus,
        };
        caches.extend(objects.map(cache));
    }
    let cores = cores(topology, &packages, &nodes)?;
    let limits = CpuLimits {
        online: facts.online.clone().unwrap_or_else(|| all.clone()),
        allowed: match &facts.allowed {
            Some(allowed) => allowed.clone(),
            None => topology.allowed()?,
        },
        isolated: facts.isolated.clone(),
        tickless: facts.tickless.clone(),
        quota_millicpus: facts.quota_millicpus,
    };
    let devices = devices(topology)?;
    let interrupts = facts.interrupts.clone();
    Ok(MachineTopology { source, packages, nodes, caches, cores, devices, limits, interrupts })
}

fn nodes(topology: &HwlocTopology, facts: &HostFacts) -> Result<Vec<NumaNode>, TopologyError> {
    let objects = topology.objects(HwlocKind::Node)?.into_iter();
    let node = |object: HwlocObject| NumaNode {
        huge_pages: huge_pages(&object, facts),
        index: object.index,
        cpus: object.cpus,
        memory_bytes: object.memory_bytes,
    };
    let mut nodes: Vec<_> = objects.map(node).collect();
    nodes.sort_by_key(|node| node.index);
    Ok(nodes)
}

/// Returns the kernel's numbers of hugepages, which include free pages, or hwloc's if the kernel's
/// are unknown.
fn huge_pages(node: &HwlocObject, facts: &HostFacts) -> Vec<HugePages> {
    let of_kernel = facts.huge_pages.iter().filter(|pages| pages.node == node.index);
    let of_kernel: Vec<_> = of_kernel.map(|pages| pages.pages).collect();
    if !of_kernel.is_empty() {
        return of_kernel;
    }
    let of_hwloc = node.page_types.iter().copied();
    of_hwloc.filter(|pages| pages.page_bytes > ORDINARY_PAGE_BYTES_MAX).collect()
}

/// Returns the cores. If the machine reports no core for a CPU, the CPU counts as a core.
fn cores(
    topology: &HwlocTopology,
    packages: &[CpuPackage],
    nodes: &[NumaNode],
) -> Result<Vec<CpuCore>, TopologyError> {
    let mut objects = topology.objects(HwlocKind::Core)?;
    let of_cores: CpuSet = objects.iter().flat_map(|core| core.cpus.iter()).collect();
    let alone = topology.objects(HwlocKind::Cpu)?.into_iter();
    objects.extend(alone.filter(|cpu| of_cores.intersection(&cpu.cpus).is_empty()));
    let core = |object: HwlocObject| {
        let is_within = |cpus: &CpuSet| object.cpus.difference(cpus).is_empty();
        let package = packages.iter().find(|package| is_within(&package.cpus));
        // If several nodes with memory are next to a core, such as high-bandwidth memory, the first
        // one has the ordinary memory.
        let node = nodes.iter().find(|node| is_within(&node.cpus));
        CpuCore {
            node: node.map_or(0, |node| node.index),
            package: package.map(|package| package.index),
            cpus: object.cpus,
        }
    };
    let mut cores: Vec<_> =
        objects.into_iter().filter(|object| !object.cpus.is_empty()).map(core).collect();
    cores.sort_by_key(|core| core.cpus.first());
    Ok(cores)
}

/// Returns network interfaces, and PCI devices without an interface.
fn devices(topology: &HwlocTopology) -> Result<Vec<HostDevice>, TopologyError> {
    let device = |object: HwlocObject, kind| HostDevice {
        kind,
        // A device that is close to several nodes is one whose node the firmware does not report.
        node: object.nodes.first().filter(|_| object.nodes.len() == 1),
        name: match (&object.pci_address, kind) {
            (Some(address), HostDeviceKind::Other) => address.clone(),
            _ => object.name.clone(),
        },
        pci_address: object.pci_address,
    };
    let interfaces = topology.objects(HwlocKind::OsDevice)?.into_iter();
    let interfaces = interfaces.filter(|object| object.is_network);
    let mut devices: Vec<_> =
        interfaces.map(|object| device(object, HostDeviceKind::Network)).collect();
    for object in topology.objects(HwlocKind::PciDevice)? {
        let is_known = devices.iter().any(|known| known.pci_address == object.pci_address);
        if !is_known {
            devices.push(device(object, HostDeviceKind::Other));
        }
    }
    Ok(devices)
}
