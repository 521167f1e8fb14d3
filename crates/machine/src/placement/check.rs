//! Finds the rules that a placement breaks.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::placement::rule::{
    CONTROL_REMOTE_POINTS, REMOTE_WORKER_POINTS, SHARED_CONTROL_REMOTE_POINTS, SIBLING_FACTOR,
    UMA_POINTS, UNPAIRED_POINTS,
};
use crate::placement::{
    CpuSet, MachineTopology, PlacedRole, PlacedThread, Placement, PlacementGroup, PlacementRule,
    RuleCost, SiblingPolicy,
};

/// A rule that a placement breaks, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleBreak {
    /// The rule.
    pub rule: PlacementRule,
    /// The threads that break it, and how, as a sentence.
    pub what: String,
    /// The cost of breaking it.
    pub cost: RuleCost,
}

/// Returns each rule that `placement` breaks on `machine`, in the order of [`PlacementRule::ALL`].
#[must_use]
pub fn check(
    machine: &MachineTopology,
    placement: &Placement,
    siblings: SiblingPolicy,
) -> Vec<RuleBreak> {
    let mut checker = PlacementChecker { machine, placement, breaks: Vec::new() };
    checker.usable_cpu();
    checker.own_cpu();
    for (index, group) in placement.groups.iter().enumerate() {
        let name = match placement.groups.len() {
            1 => String::new(),
            _ => format!("group {index}: "),
        };
        checker.port_node(group, &name);
        checker.own_node(group, &name);
        checker.control_sibling(group, &name);
    }
    checker.control_node();
    checker.siblings(siblings);
    checker.isolated_first();
    checker.cpu0_last();
    checker.quota();
    checker.workers_first();
    let order = |rule| PlacementRule::ALL.iter().position(|other| *other == rule);
    checker.breaks.sort_by_key(|found| order(found.rule));
    checker.breaks
}

struct PlacementChecker<'a> {
    machine: &'a MachineTopology,
    placement: &'a Placement,
    breaks: Vec<RuleBreak>,
}

impl PlacementChecker<'_> {
    fn add(&mut self, rule: PlacementRule, cost: RuleCost, what: String) {
        self.breaks.push(RuleBreak { rule, what, cost });
    }

    fn threads(&self) -> impl Iterator<Item = PlacedThread> + '_ {
        self.placement.groups.iter().flat_map(|group| group.threads.iter().copied())
    }

    fn control_cpus(&self) -> BTreeSet<u32> {
        self.placement.groups.iter().map(|group| group.control_cpu).collect()
    }

    fn usable_cpu(&mut self) {
        let limits = &self.machine.limits;
        let mut found = Vec::new();
        let control = self.control_cpus().into_iter();
        let control = control.map(|cpu| PlacedThread { role: PlacedRole::Control, cpu });
        for thread in self.threads().chain(control) {
            let PlacedThread { role, cpu } = thread;
            let why = match self.machine.core_of(cpu) {
                None => "which this machine does not have",
                Some(_) if !limits.online.contains(cpu) => "which is offline",
                Some(_) if !limits.allowed.contains(cpu) => "which its cpuset does not allow",
                Some(_) => continue,
            };
            found.push(format!("{} is on CPU {cpu}, {why}", role.name()));
        }
        for what in found {
            self.add(PlacementRule::UsableCpu, RuleCost::CannotRun, what);
        }
    }

    fn own_cpu(&mut self) {
        let mut by_cpu: BTreeMap<u32, Vec<&'static str>> = BTreeMap::new();
        for thread in self.threads() {
            by_cpu.entry(thread.cpu).or_default().push(thread.role.name());
        }
        for cpu in self.control_cpus() {
            if let Some(names) = by_cpu.get_mut(&cpu) {
                names.push("control");
            }
        }
        for (cpu, names) in by_cpu.into_iter().filter(|(_, names)| names.len() > 1) {
            let cost = RuleCost::Factor(ratio(names.len(), 1));
            self.add(PlacementRule::OwnCpu, cost, format!("CPU {cpu} has {}", names.join(", ")));
        }
    }

    fn port_node(&mut self, group: &PlacementGroup, name: &str) {
        let receives = |role: PlacedRole| matches!(role, PlacedRole::Receiver | PlacedRole::RxTx);
        let has_receivers = group.threads.iter().any(|thread| receives(thread.role));
        for port in &group.ports {
            let Some(port_node) = port.node else { continue };
            let threads = group.threads.iter().filter(|thread| match has_receivers {
                true => receives(thread.role),
                false => thread.role == PlacedRole::Worker,
            });
            let remote: CpuSet = threads
                .map(|thread| thread.cpu)
                .filter(|cpu| self.machine.node_of(*cpu).is_some_and(|node| node != port_node))
                .collect();
            if !remote.is_empty() {
                let what = format!(
                    "{name}port {} is on node {port_node}, and CPUs {remote} receive from it",
                    port.name
                );
                self.add(PlacementRule::PortNode, RuleCost::CpuPoints(UMA_POINTS), what);
            }
        }
    }

    /// Finds workers on another node than a receiver of their group. If the receivers of a group
    /// are on several nodes, the group distributes to workers regardless of nodes, as in table 4.11
    /// of study 003, and has the higher cost of that.
    fn own_node(&mut self, group: &PlacementGroup, name: &str) {
        let node_of = |cpu: u32| self.machine.node_of(cpu);
        let distributors: CpuSet = group
            .threads
            .iter()
            .filter(|thread| thread.role.distributes())
            .map(|thread| thread.cpu)
            .collect();
        let nodes: BTreeSet<u32> = distributors.iter().filter_map(node_of).collect();
        let is_remote =
            |cpu: &u32| node_of(*cpu).is_some_and(|node| nodes.iter().any(|other| *other != node));
        let remote: CpuSet = group.cpus(PlacedRole::Worker).filter(is_remote).collect();
        if remote.is_empty() {
            return;
        }
        let points = if nodes.len() > 1 { UMA_POINTS } else { REMOTE_WORKER_POINTS };
        let what = format!(
            "{name}CPUs {distributors} distribute to workers of another node, on CPUs {remote}"
        );
        self.add(PlacementRule::OwnNode, RuleCost::CpuPoints(points), what);
    }

    fn control_sibling(&mut self, group: &PlacementGroup, name: &str) {
        let control = group.control_cpu;
        let Some(core) = self.machine.core_of(control) else { return };
        let busy: CpuSet = self.placement.packet_cpus().into_iter().collect();
        let mut siblings = core.cpus.intersection(&busy);
        siblings = siblings.difference(&CpuSet::from_iter([control]));
        if !siblings.is_empty() {
            let what = format!(
                "{name}control is on CPU {control}, a sibling of CPU {siblings} of the packet path"
            );
            self.add(PlacementRule::ControlSibling, RuleCost::Factor(SIBLING_FACTOR), what);
        }
    }

    /// Finds control threads on a node without threads of their group. A group with only some
    /// threads on the control thread's node breaks other node rules, and not this one.
    fn control_node(&mut self) {
        let is_remote = |group: &&PlacementGroup| {
            let control = self.machine.node_of(group.control_cpu);
            let mut nodes = group.threads.iter().map(|thread| self.machine.node_of(thread.cpu));
            control.is_some() && nodes.all(|node| node.is_some() && node != control)
        };
        let remote: Vec<_> = self.placement.groups.iter().filter(is_remote).collect();
        if remote.is_empty() {
            return;
        }
        let cpus: CpuSet = remote.iter().map(|group| group.control_cpu).collect();
        let (points, shared) = match cpus.len() < remote.len() {
            true => (SHARED_CONTROL_REMOTE_POINTS, ", for several groups"),
            false => (CONTROL_REMOTE_POINTS, ""),
        };
        let what = format!("control on CPU {cpus} controls threads of another node{shared}");
        self.add(PlacementRule::ControlNode, RuleCost::CpuPoints(points), what);
    }

    fn siblings(&mut self, policy: SiblingPolicy) {
        match policy {
            SiblingPolicy::Split => self.split_siblings(),
            SiblingPolicy::Shared => {
                for group in &self.placement.groups {
                    self.paired_siblings(group);
                }
            }
        }
    }

    fn split_siblings(&mut self) {
        let busy: CpuSet = self.placement.packet_cpus().into_iter().collect();
        for core in &self.machine.cores {
            let cpus = core.cpus.intersection(&busy);
            if cpus.len() > 1 {
                let what = format!("CPUs {cpus} share a core, and all of them poll");
                self.add(PlacementRule::SiblingPolicy, RuleCost::Factor(SIBLING_FACTOR), what);
            }
        }
    }

    /// Workers may share a core with each other only if every receiver shares its core with a
    /// worker.
    fn paired_siblings(&mut self, group: &PlacementGroup) {
        let workers: CpuSet = group.cpus(PlacedRole::Worker).collect();
        let distributors = group.threads.iter().filter(|thread| thread.role.distributes());
        let distributors: CpuSet = distributors.map(|thread| thread.cpu).collect();
        let core_of = |cpu: u32| self.machine.core_of(cpu);
        let is_alone = |cpu: &u32| {
            core_of(*cpu).is_some_and(|core| {
                core.cpus.len() > 1 && core.cpus.intersection(&workers).is_empty()
            })
        };
        let alone: CpuSet = distributors.iter().filter(is_alone).collect();
        let has_only_workers = |cpu: &u32| {
            core_of(*cpu).is_some_and(|core| {
                core.cpus.intersection(&workers).len() > 1
                    && core.cpus.intersection(&distributors).is_empty()
            })
        };
        let together: CpuSet = workers.iter().filter(has_only_workers).collect();
        if !alone.is_empty() && !together.is_empty() {
            let what = format!(
                "workers on CPUs {together} share cores with each other, and none with CPU {alone}, \
                 which distributes to them"
            );
            self.add(PlacementRule::SiblingPolicy, RuleCost::CpuPoints(UNPAIRED_POINTS), what);
        }
    }

    fn isolated_first(&mut self) {
        let busy: CpuSet = self.placement.packet_cpus().into_iter().collect();
        let usable = self.machine.limits.usable();
        let isolated = self.machine.limits.isolated.intersection(&usable);
        let taken_cores = |cpu: &u32| {
            let core = self.machine.core_of(*cpu);
            core.is_some_and(|core| !core.cpus.intersection(&busy).is_empty())
        };
        let free: CpuSet = isolated.iter().filter(|cpu| !taken_cores(cpu)).collect();
        let shared = busy.intersection(&usable).difference(&isolated);
        if !free.is_empty() && !shared.is_empty() {
            let what = format!("CPUs {shared} are not isolated, and isolated CPUs {free} are free");
            self.add(PlacementRule::IsolatedFirst, RuleCost::Unmeasured, what);
        }
    }

    fn cpu0_last(&mut self) {
        let busy: CpuSet = self.placement.packet_cpus().into_iter().collect();
        let control: CpuSet = self.control_cpus().into_iter().collect();
        let free = self.machine.limits.usable().difference(&busy).difference(&control);
        let is_whole_core = |cpu: &u32| {
            let core = self.machine.core_of(*cpu);
            core.is_some_and(|core| core.cpus.intersection(&busy).is_empty())
        };
        let free: CpuSet = free.iter().filter(is_whole_core).collect();
        if busy.contains(0) && !free.is_empty() {
            let what = format!("CPU 0 polls, and CPUs {free} are free");
            self.add(PlacementRule::Cpu0Last, RuleCost::Unmeasured, what);
        }
    }

    fn quota(&mut self) {
        let Some(quota) = self.machine.limits.quota_millicpus else { return };
        let polling = self.threads().count();
        let granted = usize::try_from(quota).unwrap_or(usize::MAX);
        if polling.saturating_mul(1000) > granted {
            let what = format!(
                "{polling} threads poll, and the cgroup grants {}.{:03} CPUs",
                quota / 1000,
                quota % 1000
            );
            let cost = RuleCost::Factor(ratio(polling.saturating_mul(1000), granted.max(1)));
            self.add(PlacementRule::Quota, cost, what);
        }
    }

    /// Breaks the rule if more CPUs control than process packets.
    fn workers_first(&mut self) {
        let workers = self.placement.workers();
        let control = self.control_cpus().len();
        if control > workers {
            let what = format!("{control} CPUs control, and {workers} process");
            let cost = RuleCost::Factor(ratio(control, workers.max(1)));
            self.add(PlacementRule::WorkersFirst, cost, what);
        }
    }
}

/// Divides two small numbers.
pub(crate) fn ratio(of: usize, to: usize) -> f64 {
    let part = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    part(of) / part(to)
}
