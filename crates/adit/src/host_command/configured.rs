//! The placement of a configuration's threads, and the placement rules that it breaks.

use adit_machine::placement::{
    MachineTopology, PlacedPort, PlacedRole, PlacedThread, Placement, PlacementGroup,
    PlacementRule, RuleBreak, check,
};
use adit_types::Role;

use crate::config::{Config, PlacementSettings, PortSettings};
use crate::this_machine::this_machine;

/// Returns the threads of `config` on their CPUs, as one group: adit runs as one process.
pub(super) fn placement(config: &Config, machine: &MachineTopology) -> Placement {
    let datapath = &config.datapath;
    let mut threads = Vec::new();
    for thread in datapath.threads() {
        let role = match thread.role {
            Role::Worker => PlacedRole::Worker,
            Role::Receiver => PlacedRole::Receiver,
            Role::RxTx => PlacedRole::RxTx,
            // The signaling worker shares the core of the control thread.
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

pub(super) fn ports(config: &Config, machine: &MachineTopology) -> Vec<PlacedPort> {
    let port = |port: &PortSettings| port.device.placed(&port.name, machine);
    config.ports.iter().map(port).collect()
}

/// Notices about the placement of `config` on this machine.
#[derive(Debug, Default)]
pub(crate) struct PlacementNotice {
    /// The CPUs of a plan, and the rules by which they were chosen; `None` if the configuration
    /// lists CPUs.
    pub chosen: Option<String>,
    /// The rules that the placement breaks, each with its name.
    pub broken: Vec<String>,
}

/// Compares the placement of `config` with the rules on this machine. The notice is empty if the
/// machine cannot be read, which is no fault of the configuration.
pub(crate) fn placement_notice(config: &Config) -> PlacementNotice {
    this_machine().map_or_else(|_| PlacementNotice::default(), |machine| notice(config, machine))
}

fn notice(config: &Config, machine: &MachineTopology) -> PlacementNotice {
    let placement = placement(config, machine);
    let settings = config.datapath.placement;
    let breaks = broken(settings, machine, &placement);
    let chosen = placement.groups.first().filter(|_| settings.is_planned);
    let chosen = chosen.map(|group| {
        let is_applied = |rule: &PlacementRule| {
            let is_ignored = settings.ignores_nodes && rule.is_about_nodes();
            !is_ignored && breaks.iter().all(|found| found.rule != *rule)
        };
        let rules = PlacementRule::ALL.into_iter().filter(is_applied);
        let rules: Vec<_> = rules.map(PlacementRule::name).collect();
        format!("{group} (by {})", rules.join(", "))
    });
    let line =
        |found: &RuleBreak| format!("{}: {} ({})", found.rule.name(), found.what, found.cost);
    PlacementNotice { chosen, broken: breaks.iter().map(line).collect() }
}

/// Returns the rules that a placement breaks, without those that `settings` switch off.
pub(super) fn broken(
    settings: PlacementSettings,
    machine: &MachineTopology,
    placement: &Placement,
) -> Vec<RuleBreak> {
    let mut breaks = check(machine, placement, settings.siblings);
    breaks.retain(|found| !settings.ignores_nodes || !found.rule.is_about_nodes());
    breaks
}
