//! Machines of study 003.

use adit_machine::placement::{CpuCore, CpuLimits, CpuSet, MachineTopology, NumaNode};

/// A machine of `nodes` sockets with `cores` cores of two siblings each, numbered as Linux does:
/// first all first siblings.
pub(crate) fn machine(nodes: u32, cores: u32) -> MachineTopology {
    let all = nodes * cores;
    let core = |index: u32| CpuCore {
        cpus: CpuSet::from_iter([index, index + all]),
        node: index / cores,
        package: Some(index / cores),
    };
    let node = |index: u32| NumaNode {
        index,
        cpus: (index * cores..(index + 1) * cores).flat_map(|cpu| [cpu, cpu + all]).collect(),
        memory_bytes: 64 << 30,
        huge_pages: Vec::new(),
    };
    let online: CpuSet = (0..2 * all).collect();
    MachineTopology {
        nodes: (0..nodes).map(node).collect(),
        cores: (0..all).map(core).collect(),
        limits: CpuLimits { allowed: online.clone(), online, ..CpuLimits::default() },
        ..MachineTopology::default()
    }
}
