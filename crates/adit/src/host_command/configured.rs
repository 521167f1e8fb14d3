//! The placement of a configuration, for the rules.

use adit_placement::{
    MachineTopology, PlacedPort, PlacedRole, PlacedThread, Placement, PlacementGroup, PlanModel,
    SiblingPolicy, check,
};
use adit_topology::read_live;
use adit_types::Role;

use crate::config::{Config, ModelSettings, PortDevice};

/// The threads of `config` on their CPUs. One process is one group.
pub(super) fn placement(config: &Config, machine: &MachineTopology) -> Placement {
    let datapath = &config.datapath;
    let mut threads = Vec::new();
    for thread in datapath.threads() {
        let role = match thread.role {
            Role::Worker => PlacedRole::Worker,
            Role::Receiver => PlacedRole::Receiver,
            Role::RxTx => PlacedRole::RxTx,
            // It belongs beside control.
            Role::Signaling => continue,
        };
        threads.push(PlacedThread { role, cpu: thread.core.into() });
    }
    let scheduler = datapath.scheduler_core();
    threads.extend(
        scheduler.map(|core| PlacedThread { role: PlacedRole::Scheduler, cpu: core.into() }),
    );
    let group = PlacementGroup {
        control_cpu: datapath.main_core.into(),
        threads,
        ports: ports(config, machine),
    };
    Placement { groups: vec![group] }
}

/// The ports of `config` with the nodes of their devices.
pub(super) fn ports(config: &Config, machine: &MachineTopology) -> Vec<PlacedPort> {
    let port = |port: &crate::config::PortSettings| {
        let name = match &port.device {
            PortDevice::Dpdk(device) => Some(device.argument("iface").unwrap_or(device.name())),
            PortDevice::Kernel(_) => None,
        };
        let node = name.and_then(|name| machine.device(name)).and_then(|device| device.node);
        PlacedPort { name: port.name.clone(), node }
    };
    config.ports.iter().map(port).collect()
}

/// The execution model of `config`, with its numbers of threads.
pub(super) fn model(config: &Config) -> PlanModel {
    match &config.datapath.model {
        ModelSettings::RunToCompletion => PlanModel::RunToCompletion,
        ModelSettings::Pipeline { receivers, .. } => {
            PlanModel::Pipeline { receivers: Some(receivers.len()) }
        }
        ModelSettings::EventDriven(events) => PlanModel::EventDriven {
            rx_tx: Some(events.rx_tx.len()),
            has_scheduler: events.scheduler_core.is_some(),
        },
    }
}

/// The rules that the placement of `config` breaks on this machine, each with its name; none if the machine cannot be
/// read, which is no fault of the configuration.
pub(crate) fn placement_warnings(config: &Config) -> Vec<String> {
    let Ok(machine) = read_live() else { return Vec::new() };
    let placement = placement(config, &machine);
    let breaks = check(&machine, &placement, SiblingPolicy::Split).into_iter();
    breaks.map(|found| format!("{}: {} ({})", found.rule.name(), found.what, found.cost)).collect()
}
