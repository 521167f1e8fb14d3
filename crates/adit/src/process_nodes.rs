//! NUMA nodes of the threads and ports of this process.

use std::collections::BTreeMap;

use adit_placement::MachineTopology;
use adit_tables::Snapshot;
use adit_types::Role;

use crate::config::{Config, PortSettings};
use crate::this_machine::this_machine;

/// Where the threads of the packet path and their ports are, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessNodes {
    /// By thread.
    threads: Vec<Option<u32>>,
    /// Of the ports of interfaces, by `InterfaceId`.
    interfaces: Vec<Option<u32>>,
    /// The threads that an event scheduler gives packets to, with the node that all of its packets come from.
    scheduled: Option<(usize, u32)>,
    /// The node that has most of the packet path. `None` on a machine with one node, and if nodes are ignored.
    memory: Option<u32>,
}

impl ProcessNodes {
    /// The nodes of `config` on this machine; none if it cannot be read.
    pub(crate) fn of_this_machine(config: &Config) -> Self {
        this_machine().map_or_else(|_| Self::default(), |machine| Self::of(config, machine))
    }

    /// The nodes of `config` on `machine`.
    pub(crate) fn of(config: &Config, machine: &MachineTopology) -> Self {
        let settings = config.datapath.threads();
        let threads: Vec<_> =
            settings.iter().map(|thread| machine.node_of(thread.core.into())).collect();
        let of_port = |port: &PortSettings| port.device.placed(&port.name, machine).node;
        let ports: Vec<_> = config.ports.iter().map(of_port).collect();
        let interfaces = config.interfaces.iter();
        let interfaces = interfaces.map(|interface| ports[usize::from(interface.port.0)]);
        let mut rx_tx: Vec<_> = settings
            .iter()
            .zip(&threads)
            .filter(|(thread, _)| thread.role == Role::RxTx)
            .map(|(_, node)| *node)
            .collect();
        rx_tx.dedup();
        let scheduled = match rx_tx[..] {
            [Some(node)] => Some((config.datapath.workers.len(), node)),
            _ => None,
        };
        let has_several = machine.nodes.iter().filter(|node| !node.cpus.is_empty()).count() > 1;
        let binds = has_several && !config.datapath.placement.ignores_nodes;
        let memory = if binds { most_frequent(threads.iter().copied().flatten()) } else { None };
        Self { interfaces: interfaces.collect(), threads, scheduled, memory }
    }

    /// The node of each thread of the packet path.
    pub(crate) fn threads(&self) -> &[Option<u32>] {
        &self.threads
    }

    /// The node for memory that threads share: the one with most of them. `None` if the kernel's choice is as good.
    pub(crate) const fn memory(&self) -> Option<u32> {
        self.memory
    }

    /// Packets of a thread that crossed nodes: those that it handed to a thread of another node, got from an event scheduler
    /// that receives on another node, or sent through a port of another node.
    pub(crate) fn cross_node_pkts(&self, thread: usize, counted: &Snapshot) -> u64 {
        let Some(own) = self.threads.get(thread).copied().flatten() else { return 0 };
        let is_remote = |node: &Option<u32>| node.is_some_and(|node| node != own);
        let interfaces = self.interfaces.iter().zip(&counted.interfaces);
        let sent = interfaces.filter(|(node, _)| is_remote(node)).map(|(_, of)| of.tx_pkts);
        let handed = match self.scheduled {
            None => counted.handed_across_nodes_pkts,
            Some((workers, node)) if thread < workers && node != own => counted.taken_over_pkts,
            Some(_) => 0,
        };
        sent.fold(handed, u64::wrapping_add)
    }
}

/// The most frequent of `nodes`, the lowest of several.
fn most_frequent(nodes: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(node, _)| node)
}
