//! Proposes a placement.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::placement::{
    CostSum, CpuSet, MachineTopology, PlacedPort, PlacedRole, PlacedThread, Placement,
    PlacementGroup, PlacementRule, PlanModel, PlanRequest, RuleBreak, SiblingPolicy, check,
    cost_of,
};

/// Workers per receiver if the request does not determine it. The study placed one receiver with
/// five workers, and two receivers with nine (study 003, section 3.3).
const WORKERS_PER_RECEIVER: usize = 5;

/// A proposed placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementPlan {
    /// The CPU of every thread.
    pub placement: Placement,
    /// Rules that the plan breaks, because the machine or the request does not allow to keep them.
    pub breaks: Vec<RuleBreak>,
    /// The total cost of those rules.
    pub cost: CostSum,
    /// True if nodes are ignored.
    pub ignores_nodes: bool,
}

/// The reason why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanRefusal {
    /// The process may not run on any CPU.
    NoUsableCpu,
    /// There are too few CPUs: in a model with receivers or a scheduler every thread needs its own,
    /// and at least one must receive and one process.
    TooFewCpus {
        /// CPUs that the threads of the packet path need.
        needed: usize,
        /// CPUs that the process may use.
        usable: usize,
    },
    /// A group would have no threads.
    NoThreads,
    /// A group would have more threads than it may have.
    TooManyThreads {
        /// Threads of the packet path that the request needs.
        needed: usize,
        /// Maximum number of threads, [`PlanRequest::threads_max`].
        most: usize,
    },
    /// A port names a node that the machine does not have, or that has no usable CPU.
    NodeWithoutCpus {
        /// The port.
        port: String,
        /// Index of the port's node.
        node: u32,
    },
    /// A plan cannot break the rule that it should break.
    CannotBreak {
        /// The rule.
        rule: PlacementRule,
        /// The reason, as a sentence.
        why: &'static str,
    },
}

impl fmt::Display for PlanRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUsableCpu => f.write_str(
                "no CPU is both online and allowed to this process; check its affinity and its cpuset",
            ),
            Self::TooFewCpus { needed, usable } => write!(
                f,
                "the threads of the packet path need {needed} CPUs, and this process may use {usable}; \
                 take fewer workers or receivers"
            ),
            Self::NoThreads => f.write_str("at least one worker is needed, and one receiver if there are any"),
            Self::TooManyThreads { needed, most } => {
                write!(f, "the packet path has at most {most} threads, and this needs {needed}; take fewer workers")
            }
            Self::NodeWithoutCpus { port, node } => write!(
                f,
                "port {port} is on node {node}, where this process may use no CPU; allow CPUs of that \
                 node, or ignore nodes (uma)"
            ),
            Self::CannotBreak { rule, why } => {
                write!(f, "no plan for this machine breaks {}: {why}", rule.name())
            }
        }
    }
}

impl std::error::Error for PlanRefusal {}

/// Proposes CPUs for `request` on `machine`. The plan lists the rules that it could not keep.
///
/// # Errors
/// [`PlanRefusal`] if the machine cannot run the request at all.
pub fn plan(
    machine: &MachineTopology,
    request: &PlanRequest,
) -> Result<PlacementPlan, PlanRefusal> {
    let usable = machine.limits.usable().intersection(&all_cpus(machine));
    if usable.is_empty() {
        return Err(PlanRefusal::NoUsableCpu);
    }
    let mut planner = Planner { machine, request, free: usable };
    let mut groups = Vec::new();
    for share in planner.shares()? {
        groups.push(planner.group(share)?);
    }
    let placement = Placement { groups };
    let mut breaks = check(machine, &placement, request.siblings);
    if request.ignores_nodes {
        breaks.retain(|found| !found.rule.is_about_nodes());
    }
    let cost = cost_of(&placement, &breaks, placement.workers());
    Ok(PlacementPlan { placement, breaks, cost, ignores_nodes: request.ignores_nodes })
}

fn all_cpus(machine: &MachineTopology) -> CpuSet {
    machine.cores.iter().flat_map(|core| core.cpus.iter()).collect()
}

/// The ports of one group, and the CPUs that it may use.
struct GroupShare {
    /// The group's node; `None` if nodes are ignored.
    node: Option<u32>,
    ports: Vec<PlacedPort>,
    /// Maximum number of polling threads of the group that the cgroup quota allows.
    polling_max: usize,
}

/// How many threads a group has, by role.
struct ThreadCounts {
    scheduler: usize,
    receivers: usize,
    workers: usize,
}

struct Planner<'a> {
    machine: &'a MachineTopology,
    request: &'a PlanRequest,
    /// CPUs without a thread that the plan may still use.
    free: CpuSet,
}

impl Planner<'_> {
    /// Divides the ports among groups.
    fn shares(&self) -> Result<Vec<GroupShare>, PlanRefusal> {
        let quota = self.machine.limits.quota_millicpus.map_or(usize::MAX, |millis| {
            usize::try_from(millis / 1000).unwrap_or(usize::MAX).max(1)
        });
        let ports = &self.request.ports;
        if self.request.ignores_nodes {
            return Ok(vec![GroupShare { node: None, ports: ports.clone(), polling_max: quota }]);
        }
        let mut nodes: Vec<u32> = ports.iter().filter_map(|port| port.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for port in ports {
            if let Some(node) = port.node.filter(|node| self.free_on(Some(*node)).is_empty()) {
                return Err(PlanRefusal::NodeWithoutCpus { port: port.name.clone(), node });
            }
        }
        if nodes.is_empty() {
            nodes.push(self.best_node());
        }
        if !self.request.is_per_node || nodes.len() == 1 {
            // The node with most ports; of several such nodes the first.
            let count = |node: &u32| ports.iter().filter(|port| port.node == Some(*node)).count();
            let most = nodes.iter().map(count).max().unwrap_or(0);
            let node = nodes.iter().copied().find(|node| count(node) == most);
            return Ok(vec![GroupShare { node, ports: ports.clone(), polling_max: quota }]);
        }
        let first = nodes.first().copied();
        let groups = nodes.len();
        let share = |node: u32| GroupShare {
            node: Some(node),
            // The first group also gets the ports without a node.
            ports: ports.iter().filter(|port| port.node.or(first) == Some(node)).cloned().collect(),
            polling_max: (quota / groups).max(1),
        };
        Ok(nodes.into_iter().map(share).collect())
    }

    /// Returns the node with most isolated usable CPUs; of several such nodes, the one with most
    /// usable CPUs.
    fn best_node(&self) -> u32 {
        let rank = |node: u32| {
            let usable = self.free_on(Some(node));
            (usable.intersection(&self.machine.limits.isolated).len(), usable.len())
        };
        let nodes = self.machine.nodes.iter().map(|node| node.index);
        nodes.reduce(|best, node| if rank(node) > rank(best) { node } else { best }).unwrap_or(0)
    }

    fn free_on(&self, node: Option<u32>) -> CpuSet {
        let is_there = |cpu: &u32| node.is_none() || self.machine.node_of(*cpu) == node;
        self.free.iter().filter(is_there).collect()
    }

    /// Chooses and reserves the CPUs of one group.
    fn group(&mut self, share: GroupShare) -> Result<PlacementGroup, PlanRefusal> {
        let control_cpu = self.take_control(share.node);
        let candidates = self.candidates(share.node);
        let most = share.polling_max.min(self.request.threads_max);
        let counts = self.counts(self.fitting_thread_count(share.node).min(most).max(1))?;
        let needed = counts.scheduler + counts.receivers + counts.workers;
        if needed > self.request.threads_max {
            let most = self.request.threads_max;
            return Err(PlanRefusal::TooManyThreads { needed, most });
        }
        // If there are too few CPUs, the packet path also runs on the CPU of control.
        let mut cpus = candidates;
        if cpus.len() < needed {
            cpus.push(control_cpu);
        }
        if cpus.len() < needed {
            return Err(PlanRefusal::TooFewCpus { needed, usable: cpus.len() });
        }
        let mut threads = self.assign(&cpus, &counts);
        threads.sort_by_key(|thread| thread.role);
        for thread in &threads {
            self.free = self.free.difference(&CpuSet::from_iter([thread.cpu]));
        }
        Ok(PlacementGroup { control_cpu, threads, ports: share.ports })
    }

    /// Reserves the CPU for control: the least valuable one of the node, so not an isolated one,
    /// and CPU 0 if possible.
    fn take_control(&mut self, node: Option<u32>) -> u32 {
        let isolated = &self.machine.limits.isolated;
        let on_node = self.free_on(node);
        let on_node = if on_node.is_empty() { self.free_on(None) } else { on_node };
        let best = on_node.iter().min_by_key(|cpu| (isolated.contains(*cpu), *cpu));
        // `plan` has checked that a CPU is usable. If earlier groups took all, control shares the
        // first one.
        let control = best.or_else(|| self.machine.limits.usable().first()).unwrap_or(0);
        self.free = self.free.difference(&CpuSet::from_iter([control]));
        control
    }

    /// Returns the free CPUs, the best first. Better is a CPU on the node, an isolated one, and one
    /// on a core that no thread uses; CPUs on the core of CPU 0 come last.
    fn candidates(&self, node: Option<u32>) -> Vec<u32> {
        let isolated = &self.machine.limits.isolated;
        let rank = |cpu: &u32| {
            let remote = node.is_some() && self.machine.node_of(*cpu) != node;
            let core = self.machine.core_of(*cpu);
            let is_used = core.is_some_and(|core| self.is_used(&core.cpus));
            let of_core = core.map(|core| core.cpus.intersection(&self.free)).unwrap_or_default();
            let sibling = of_core.iter().position(|other| other == *cpu).unwrap_or(0);
            let has_cpu0 = core.is_some_and(|core| core.cpus.contains(0));
            (remote, is_used, sibling, !isolated.contains(*cpu), has_cpu0, *cpu)
        };
        let mut cpus: Vec<u32> = self.free.iter().collect();
        cpus.sort_by_key(rank);
        cpus
    }

    /// True if a thread has a CPU of the core.
    fn is_used(&self, core: &CpuSet) -> bool {
        let usable = self.machine.limits.usable().intersection(core);
        !usable.difference(&self.free).is_empty()
    }

    /// Returns how many threads of the packet path fit on the node without breaking a rule: one for
    /// each free core, or one for each CPU of a free core if siblings may be shared.
    fn fitting_thread_count(&self, node: Option<u32>) -> usize {
        let isolated = &self.machine.limits.isolated;
        let on_node = |core: &&crate::placement::CpuCore| node.is_none_or(|node| core.node == node);
        let cores = self.machine.cores.iter().filter(on_node);
        let cores = cores.filter(|core| !self.is_used(&core.cpus));
        let of_core = |core: &crate::placement::CpuCore| {
            let cpus = core.cpus.intersection(&self.free);
            let cpus = match isolated.intersection(&self.free).is_empty() {
                true => cpus,
                false => cpus.intersection(isolated),
            };
            match self.request.siblings {
                SiblingPolicy::Split => cpus.len().min(1),
                SiblingPolicy::Shared => cpus.len(),
            }
        };
        cores.map(of_core).sum()
    }

    fn counts(&self, fitting: usize) -> Result<ThreadCounts, PlanRefusal> {
        let (scheduler, receivers, is_distributed) = match self.request.model {
            PlanModel::RunToCompletion => (0, Some(0), false),
            PlanModel::Pipeline { receivers } => (0, receivers, true),
            PlanModel::EventDriven { rx_tx, has_scheduler } => {
                (usize::from(has_scheduler), rx_tx, true)
            }
        };
        let left = fitting.saturating_sub(scheduler);
        let receivers = receivers.unwrap_or_else(|| {
            let workers = self.request.workers;
            let of_workers = workers.map(|workers| workers.div_ceil(WORKERS_PER_RECEIVER));
            of_workers.unwrap_or_else(|| left.div_ceil(WORKERS_PER_RECEIVER + 1)).max(1)
        });
        let workers = self.request.workers.unwrap_or_else(|| left.saturating_sub(receivers).max(1));
        if workers == 0 || (is_distributed && receivers == 0) {
            return Err(PlanRefusal::NoThreads);
        }
        Ok(ThreadCounts { scheduler, receivers, workers })
    }

    /// Assigns roles to the first CPUs. If siblings are shared, a receiver and a worker share a
    /// core.
    fn assign(&self, cpus: &[u32], counts: &ThreadCounts) -> Vec<PlacedThread> {
        let needed = counts.scheduler + counts.receivers + counts.workers;
        let mut chosen: Vec<u32> = match self.request.siblings {
            SiblingPolicy::Split => cpus[..needed].to_vec(),
            SiblingPolicy::Shared => self.ordered_by_core(cpus, needed),
        };
        let receiver = match self.request.model {
            PlanModel::EventDriven { .. } => PlacedRole::RxTx,
            _ => PlacedRole::Receiver,
        };
        let mut threads = Vec::with_capacity(needed);
        let mut take = |role, cpu| threads.push(PlacedThread { role, cpu });
        for _ in 0..counts.scheduler {
            take(PlacedRole::Scheduler, chosen.remove(0));
        }
        let mut workers_left = counts.workers;
        for _ in 0..counts.receivers {
            let cpu = chosen.remove(0);
            take(receiver, cpu);
            let core = self.machine.core_of(cpu);
            let is_sibling = |other: &u32| core.is_some_and(|core| core.cpus.contains(*other));
            if let Some(position) = chosen.iter().position(is_sibling).filter(|_| workers_left > 0)
            {
                take(PlacedRole::Worker, chosen.remove(position));
                workers_left -= 1;
            }
        }
        for cpu in chosen.into_iter().take(workers_left) {
            take(PlacedRole::Worker, cpu);
        }
        threads
    }

    /// Reorders the best CPUs so that siblings are adjacent.
    fn ordered_by_core(&self, cpus: &[u32], needed: usize) -> Vec<u32> {
        let mut chosen = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let core = self.machine.core_of(*cpu);
            let is_on_core = |other: &&u32| core.is_some_and(|core| core.cpus.contains(**other));
            for sibling in cpus.iter().filter(is_on_core) {
                if !chosen.contains(sibling) {
                    chosen.push(*sibling);
                }
            }
        }
        chosen.truncate(needed);
        chosen
    }
}

impl PlacementPlan {
    /// Formats the keys of `[datapath]` for one group of the plan. `None` if there is no such
    /// group.
    #[must_use]
    pub fn configuration(&self, group: usize) -> Option<String> {
        let group = self.placement.groups.get(group)?;
        let list = |role| {
            let cpus: Vec<_> = group.cpus(role).map(|cpu| cpu.to_string()).collect();
            cpus.join(", ")
        };
        let mut text = format!(
            "[datapath]\nmain_core = {}\nworkers = [{}]\n",
            group.control_cpu,
            list(PlacedRole::Worker)
        );
        if self.ignores_nodes {
            text.push_str("placement = \"uma\"\n");
        }
        let has = |role| group.cpus(role).next().is_some();
        if has(PlacedRole::Receiver) {
            text.push_str(&format!(
                "model = \"pipeline\"\nreceivers = [{}]\n",
                list(PlacedRole::Receiver)
            ));
        }
        if has(PlacedRole::RxTx) {
            text.push_str("model = \"eventdev\"\n[datapath.eventdev]\n");
            text.push_str(&format!("rx_tx = [{}]\n", list(PlacedRole::RxTx)));
        }
        if let Some(cpu) = group.cpus(PlacedRole::Scheduler).next() {
            text.push_str(&format!("scheduler = \"sw\"\nscheduler_core = {cpu}\n"));
        }
        Some(text)
    }

    /// Describes the plan for the user: each thread's place, each rule, and the costs of the broken
    /// rules.
    #[must_use]
    pub fn describe(&self, machine: &MachineTopology) -> String {
        let mut text = String::new();
        for (index, group) in self.placement.groups.iter().enumerate() {
            let ports: Vec<_> = group.ports.iter().map(|port| port.name.as_str()).collect();
            let of =
                if ports.is_empty() { String::new() } else { format!(": {}", ports.join(", ")) };
            text.push_str(&format!("process {index}{of}\n"));
            let control = PlacedThread { role: PlacedRole::Control, cpu: group.control_cpu };
            for thread in std::iter::once(&control).chain(&group.threads) {
                text.push_str(&place(machine, *thread));
            }
        }
        text.push_str("rules\n");
        for rule in PlacementRule::ALL {
            let of_rule: Vec<_> = self.breaks.iter().filter(|found| found.rule == rule).collect();
            let state = match of_rule.is_empty() {
                true if rule.is_about_nodes() && self.ignores_nodes => "ignored",
                true => "kept",
                false => "broken",
            };
            text.push_str(&format!("  {state:7} {}: {}\n", rule.name(), rule.reason()));
            text.push_str(&format!("          cost if broken: {}\n", rule.cost_text()));
            for found in of_rule {
                text.push_str(&format!("          here: {} ({})\n", found.what, found.cost));
            }
        }
        text
    }
}

fn place(machine: &MachineTopology, thread: PlacedThread) -> String {
    let PlacedThread { role, cpu } = thread;
    let mut text = format!("  {} ({}) on CPU {cpu}", role.name(), role.letter());
    if let Some(core) = machine.core_of(cpu) {
        text.push_str(&format!(", node {}", core.node));
        let siblings = core.cpus.difference(&CpuSet::from_iter([cpu]));
        if !siblings.is_empty() {
            text.push_str(&format!(", sibling of {siblings}"));
        }
    }
    if machine.limits.isolated.contains(cpu) {
        text.push_str(", isolated");
    }
    text.push('\n');
    text
}
