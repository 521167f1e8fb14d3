//! NUMA nodes of the threads and ports of this process.

use std::collections::BTreeMap;

use adit_machine::placement::MachineTopology;
use adit_session::OwnerNodes;
use adit_tables::Snapshot;
use adit_types::{Owners, Role, WorkerId};

use crate::config::{Config, ModelSettings, PortSettings};
use crate::this_machine::this_machine;

/// NUMA nodes of the packet path's threads and ports; `None` for each unknown node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessNodes {
    /// The node of each thread.
    threads: Vec<Option<u32>>,
    /// The nodes of the ports of interfaces, by `InterfaceId`.
    interfaces: Vec<Option<u32>>,
    /// With an event scheduler whose Rx/Tx threads are all on one node: how many workers there are,
    /// the first threads, and that node. Else `None`.
    scheduled: Option<(usize, u32)>,
    /// The node with most threads of the packet path. `None` on a machine with one node, and if the
    /// configuration ignores nodes.
    memory: Option<u32>,
    /// The nodes of sessions' owners; the default, one node, if the configuration ignores nodes or
    /// an event scheduler chooses workers.
    owners: OwnerNodes,
}

impl ProcessNodes {
    /// Finds the nodes of `config` on this machine; all are unknown if the machine cannot be read.
    pub(crate) fn of_this_machine(config: &Config) -> Self {
        this_machine().map_or_else(|_| Self::default(), |machine| Self::of(config, machine))
    }

    /// Finds the nodes of `config` on `machine`.
    pub(crate) fn of(config: &Config, machine: &MachineTopology) -> Self {
        let settings = config.datapath.threads();
        let threads: Vec<_> =
            settings.iter().map(|thread| machine.node_of(thread.core.into())).collect();
        let of_port = |port: &PortSettings| port.device.placed(&port.name, machine).node;
        let ports: Vec<_> = config.ports.iter().map(of_port).collect();
        let interfaces = config.interfaces.iter();
        let interfaces = interfaces.map(|interface| ports[usize::from(interface.port.0)]);
        let interfaces: Vec<_> = interfaces.collect();
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
        let has_owners = !matches!(config.datapath.model, ModelSettings::EventDriven(_));
        let owners = match binds && has_owners {
            true => {
                let owners = Owners::new(config.datapath.roles().workers());
                let node_of = |worker: WorkerId| threads.get(usize::from(worker.0)).copied();
                OwnerNodes::new(|group| node_of(owners.of_group(group)).flatten(), &interfaces)
            }
            false => OwnerNodes::default(),
        };
        Self { interfaces, threads, scheduled, memory, owners }
    }

    /// The nodes of sessions' owners, and of the ports at which sessions' packets arrive.
    pub(crate) const fn owners(&self) -> &OwnerNodes {
        &self.owners
    }

    /// The node of each thread of the packet path.
    pub(crate) fn threads(&self) -> &[Option<u32>] {
        &self.threads
    }

    /// The node for memory that threads share: the one with most threads. `None` if the kernel's
    /// choice is as good.
    pub(crate) const fn memory(&self) -> Option<u32> {
        self.memory
    }

    /// Counts packets of a thread that crossed nodes: packets that it handed to a thread of another
    /// node, got from an event scheduler that receives on another node, or sent through a port of
    /// another node.
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

/// Returns the most frequent of `nodes`; the lowest of several equally frequent nodes.
fn most_frequent(nodes: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(node, _)| node)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use adit_tables::InterfaceSnapshot;
    use adit_topology::{read_synthetic, read_xml};

    use super::*;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    /// Two sockets with 12 cores; CPU 24 + n is the sibling of CPU n. Port `access` is on node 0,
    /// `core` on node 1.
    fn two_node_server() -> MachineTopology {
        let file = "../topology/tests/machines/two-node-server.xml";
        read_xml(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), None).unwrap()
    }

    fn config(lines: &str) -> Config {
        let text = EXAMPLE
            .replace("model = \"run-to-completion\"\n", "")
            .replace("workers = [1]\n", &format!("{lines}\n"))
            .replace("iface=n3", "iface=ens1f0")
            .replace("iface=n6", "iface=ens2f0");
        Config::parse(&text).unwrap()
    }

    /// 100 packets sent through `n3`, 1000 through `n6`; 7 handed to another node, 20 taken over.
    fn counted() -> Snapshot {
        let mut counted = Snapshot {
            handed_off_pkts: 9,
            handed_across_nodes_pkts: 7,
            taken_over_pkts: 20,
            ..Snapshot::default()
        };
        for (interface, tx_pkts) in counted.interfaces.iter_mut().zip([100, 1000]) {
            *interface = InterfaceSnapshot { rx_pkts: 5, tx_pkts, ..InterfaceSnapshot::default() };
        }
        counted
    }

    #[test]
    fn packets_cross_nodes_by_hand_off_and_by_ports_of_other_nodes() {
        let nodes = ProcessNodes::of(&config("workers = [1, 13, 30]"), &two_node_server());
        assert_eq!(nodes.threads(), [Some(0), Some(1), Some(0)]);
        let crossing: Vec<_> =
            (0..4).map(|thread| nodes.cross_node_pkts(thread, &counted())).collect();
        assert_eq!(crossing, [1007, 107, 1007, 0]);
        // Two of three threads are on node 0.
        assert_eq!(nodes.memory(), Some(0));
        let on_second = config("workers = [13, 14, 1]");
        assert_eq!(ProcessNodes::of(&on_second, &two_node_server()).memory(), Some(1));
    }

    #[test]
    fn packets_from_a_scheduler_cross_nodes_if_they_were_received_on_another_one() {
        let of = |rx_tx: &str| {
            let table = format!("[datapath.eventdev]\nrx_tx = {rx_tx}\n[dpdk]\n");
            let lines = "model = \"eventdev\"\nworkers = [1, 13]";
            let text = EXAMPLE
                .replace("model = \"run-to-completion\"\n", "")
                .replace("workers = [1]\n", &format!("{lines}\n"))
                .replace("[dpdk]\n", &table)
                .replace("iface=n3", "iface=ens1f0")
                .replace("iface=n6", "iface=ens2f0");
            let nodes = ProcessNodes::of(&Config::parse(&text).unwrap(), &two_node_server());
            [0, 1, 2].map(|thread| nodes.cross_node_pkts(thread, &counted()))
        };
        // Worker 0 is next to the Rx/Tx thread, worker 1 is not.
        assert_eq!(of("[2]"), [1000, 120, 1000]);
        // With Rx/Tx threads on both nodes, the node that received a packet is unknown: only
        // packets that workers hand to each other are counted.
        assert_eq!(of("[2, 14]"), [1007, 107, 1007]);
    }

    #[test]
    fn owners_have_nodes_unless_nodes_are_ignored_or_sessions_have_none() {
        let of = |lines: &str| ProcessNodes::of(&config(lines), &two_node_server()).owners;
        // Port `access` and worker 0 are on node 0, port `core` and worker 1 on node 1.
        let owners = Owners::new(2);
        let ports = [Some(0), Some(1)];
        let wanted = OwnerNodes::new(|group| Some(owners.of_group(group).0.into()), &ports);
        assert_ne!(wanted, OwnerNodes::default());
        assert_eq!(of("workers = [1, 13]"), wanted);
        for one in ["workers = [1, 2]", "workers = [1, 13]\nplacement = \"uma\""] {
            assert_eq!(of(one), OwnerNodes::default(), "{one}");
        }
        // Only workers own sessions: receivers and the signaling worker do not change the result.
        let pipeline = of("model = \"pipeline\"\nreceivers = [2, 3]\nworkers = [1, 13]");
        assert_eq!(pipeline, wanted);
    }

    #[test]
    fn memory_is_the_choice_of_the_kernel_with_one_node_or_without_regard_to_nodes() {
        let one_node = read_synthetic("core:4 pu:1").unwrap();
        let nodes = ProcessNodes::of(&config("workers = [1, 2]"), &one_node);
        assert_eq!(nodes.memory(), None);
        assert_eq!(nodes.cross_node_pkts(0, &counted()), 7, "the workers' own count");
        let uma = config("workers = [13]\nplacement = \"uma\"");
        let nodes = ProcessNodes::of(&uma, &two_node_server());
        assert_eq!((nodes.memory(), nodes.threads()), (None, &[Some(1)][..]));
        assert_eq!(nodes.cross_node_pkts(0, &counted()), 107);
    }
}
